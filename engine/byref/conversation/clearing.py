"""Deletion in two parts: one short transaction after which nobody finds the data, then its rows, in small steps.

SQLite has one writer, and every conversation waits for it: a tenant of 100,000 artifacts deleted by one transaction would
hold it for 13 seconds. So a step ends after `STEP_SECONDS` and pauses for others before the next one.

The first transaction marks what is to go (`clearing_at`). A process that dies between two steps leaves the marks, and any
sweep, of any process, goes on from there. Steps lock the session's row that they work on and pass over locked ones, so that
several processes share the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, String, cast, delete, literal, select, update

from byref.artifacts import blobs
from byref.db.tables import (
    ArtifactRow,
    ItemRow,
    LedgerRow,
    NameRow,
    RunRow,
    SessionRow,
    TenantRow,
    TombstoneRow,
    VariableRow,
)

STEP_SECONDS: Final = 0.02
PAUSE_SECONDS: Final = 0.01
"""Pause between two steps. Who waits for SQLite's lock asks every 1 to 3 ms at first, so that somebody gets it meanwhile."""
_MARKED: Final = 100
"""Sessions of a tenant that one transaction marks."""
_ROWS: Final = 200
_ARTIFACTS: Final = 50
"""Rows that one statement deletes; a session's artifacts, with their blobs."""
_NO_NAME: Final = "×" * 300
"""Before the row's number it is the name of a session that is deleted: longer, in bytes, than any id of a host's."""
_NAMES: Final = (NameRow, VariableRow, TombstoneRow)
"""What goes when a session ends, beside its artifacts."""
_OF_SESSION: Final = (*_NAMES, LedgerRow, RunRow, ItemRow)
"""What goes with a session before its artifacts. Not left to ON DELETE CASCADE: a host's SQLite connection may not enforce
foreign keys."""

Write = Callable[[Callable[[Connection], Any]], Any]
"""Runs work in a transaction, and returns what it returns."""


def delete_session(write: Write, tenant: str, name: str) -> bool:
    """Delete a session and all that was its own; False if there is none."""
    here = SessionRow.tenant == tenant, SessionRow.name == name

    def work(connection: Connection) -> int | None:
        row = connection.execute(select(SessionRow.id).where(*here).with_for_update()).scalar_one_or_none()
        if row is not None:
            mark(connection, [row])
        return row

    row = write(work)
    if row is not None:
        clear_session(write, row)
    return row is not None


def delete_tenant(read: Write, write: Write, tenant: str) -> int:
    """Delete everything of a tenant and return how many sessions it had; what is opened meanwhile stays."""
    began = datetime.now(UTC)
    here = select(SessionRow.id).where(SessionRow.tenant == tenant, ~SessionRow.is_deleted)
    # The sessions that are there now, by their ids. Not those opened before some time: the clock of a host that opened one
    # may be ahead of ours.
    rows = iter(read(lambda connection: connection.execute(here).scalars().all()))

    def work(connection: Connection, some: list[int]) -> int:
        locked = here.where(SessionRow.id.in_(some)).order_by(SessionRow.id).with_for_update()
        found = list(connection.execute(locked).scalars())
        mark(connection, found)
        return len(found)

    gone = 0
    while some := list(islice(rows, _MARKED)):
        gone += write(partial(work, some=some))
        _let_others_through()
    clear(write, tenant)

    def rest(connection: Connection) -> int:
        connection.execute(delete(TenantRow).where(TenantRow.tenant == tenant))
        return blobs.delete_staged_before(connection, tenant, began, _ARTIFACTS)

    while write(rest):
        _let_others_through()
    return gone


def mark(connection: Connection, rows: list[int]) -> None:
    """Mark locked sessions as deleted: they are found by no name, in no list, and handles on them cannot write any more.

    Their names become free at once: a session of the same name may be opened while these rows are still being deleted.
    """
    nameless = literal(_NO_NAME) + cast(SessionRow.id, String)
    values = {"is_deleted": True, "clearing_at": datetime.now(UTC), "name": nameless}
    connection.execute(update(SessionRow).where(SessionRow.id.in_(rows)).values(values))


def clear(write: Write, tenant: str) -> None:
    """Delete what is left of a tenant's sessions that ended or were deleted; what another process is at is left to it."""
    while write(lambda connection: step(connection, tenant)):
        _let_others_through()


def clear_session(write: Write, row: int) -> None:
    """Delete what is left of one session that ended or was deleted."""
    while write(lambda connection: step(connection, row=row)):
        _let_others_through()


def clear_within(connection: Connection, row: int) -> None:
    """The same in a transaction that holds the writer anyway, as a host's does: at once."""
    step(connection, row=row, at_once=True)


def drain(write: Write) -> None:
    """Delete what is left of large blobs that nothing needs any more."""
    while write(lambda connection: blobs.drain(connection, time.monotonic() + STEP_SECONDS)):
        _let_others_through()


def step(connection: Connection, tenant: str | None = None, *, row: int | None = None, at_once: bool = False) -> bool:
    """Delete some of what is left of sessions, or of that `row`; False if there was nothing left of any.

    It stops after a moment, unless all has to go `at_once`, but for large blobs.
    """
    until = float("inf") if at_once else time.monotonic() + STEP_SECONDS
    if not at_once and blobs.drain(connection, until):
        return True
    left = select(SessionRow.id, SessionRow.is_deleted).where(SessionRow.clearing_at.is_not(None))
    if tenant is not None:
        # `tenant + ""` keeps the planner from the index of tenants: few sessions are marked, and those have an index.
        left = left.where(SessionRow.tenant + "" == tenant)
    if row is not None:
        left = left.where(SessionRow.id == row)
    first, did = left.order_by(SessionRow.clearing_at).limit(1).with_for_update(skip_locked=True), False
    while (found := connection.execute(first).one_or_none()) is not None:
        did = True
        if _is_cleared(connection, found.id, is_deleted=found.is_deleted, until=until):
            here = SessionRow.id == found.id
            if found.is_deleted:
                connection.execute(delete(SessionRow).where(here))
            else:
                connection.execute(update(SessionRow).where(here).values(clearing_at=None))
        if time.monotonic() > until:
            break
    return did


def _is_cleared(connection: Connection, row: int, *, is_deleted: bool, until: float) -> bool:
    """Delete rows of a session until there is no more time; tell whether all are gone that have to go."""
    for table in _OF_SESSION if is_deleted else _NAMES:
        some = select(table.id).where(table.session_id == row).limit(_ROWS)
        while connection.execute(delete(table).where(table.id.in_(some))).rowcount == _ROWS:
            if time.monotonic() > until:
                return False
    going = select(ArtifactRow.id, ArtifactRow.blob_id).where(ArtifactRow.session_id == row)
    if not is_deleted:
        going = going.where(~ArtifactRow.kept)
    while found := connection.execute(going.limit(_ARTIFACTS)).all():
        ids = [artifact.id for artifact in found]
        if not is_deleted:
            connection.execute(update(LedgerRow).where(LedgerRow.artifact_id.in_(ids)).values(artifact_id=None))
        connection.execute(delete(ArtifactRow).where(ArtifactRow.id.in_(ids)))
        blobs.delete_unused(connection, sorted({artifact.blob_id for artifact in found}))
        if time.monotonic() > until:
            return False
    return True


def _let_others_through() -> None:
    time.sleep(PAUSE_SECONDS)
