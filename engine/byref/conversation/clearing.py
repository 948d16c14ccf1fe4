"""Delete data in two parts: one short transaction after which nobody finds the data, then its rows, in small steps.

SQLite has one writer, and every conversation waits for it: deleting a tenant of 100,000 artifacts in one transaction would
hold it for 13 seconds. So each step ends after `STEP_SECONDS`, and is followed by a pause in which others can write.

The first transaction marks the sessions (`clearing_at`). If a process dies between two steps, the marks stay, and any sweep
of any process continues the work. A step locks the row of its session and skips locked ones, so that several processes can
share the work.
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
    AnswerRow,
    ArtifactRow,
    CallRow,
    ItemRow,
    LedgerRow,
    NameRow,
    ProgramRow,
    RunRow,
    SchemaRow,
    SessionRow,
    TenantRow,
    TombstoneRow,
    VariableRow,
)

STEP_SECONDS: Final = 0.02
PAUSE_SECONDS: Final = 0.01
"""Pause between two steps. Waiting writers ask for SQLite's lock every 1 to 3 ms at first, so that one of them gets it."""
_MARKED: Final = 100
"""Most sessions of a tenant that one transaction marks."""
_ROWS: Final = 200
_ARTIFACTS: Final = 50
"""Most rows (`_ROWS`), or artifacts with their blobs, that are deleted before the clock is read again."""
_NO_NAME: Final = "×" * 300
"""Prefix, before the row id, of a deleted session's name: longer in bytes than any host's id, so that it collides with none."""
_NAMES: Final = (NameRow, VariableRow, TombstoneRow)
"""Tables whose rows are deleted when a session ends, besides its artifacts."""
_OF_SESSION: Final = (*_NAMES, RunRow, CallRow, ProgramRow, LedgerRow, AnswerRow, ItemRow)
"""Tables whose rows are deleted with a session, before its artifacts; those that name a step go before the ledger. This is not
left to ON DELETE CASCADE, because a host's SQLite connection may not enforce foreign keys."""

Write = Callable[[Callable[[Connection], Any]], Any]
"""Runs work in a transaction, and returns the work's result."""


def delete_session(write: Write, tenant: str, name: str) -> bool:
    """Delete a session and all of its data; False if there is no such session."""
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
    """Delete all data of a tenant and return how many sessions it had; sessions opened meanwhile stay."""
    began = datetime.now(UTC)
    here = select(SessionRow.id).where(SessionRow.tenant == tenant, ~SessionRow.is_deleted)
    # Remember the present sessions by their ids, not by time of opening: the clock of the machine that opened one may be
    # ahead of ours.
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

    def rest(connection: Connection) -> bool:
        for table in (TenantRow, SchemaRow):
            connection.execute(delete(table).where(table.tenant == tenant))
        if blobs.delete_staged_before(connection, tenant, began, _ARTIFACTS):
            return True
        return blobs.drain(connection, time.monotonic() + STEP_SECONDS)

    while write(rest):
        _let_others_through()
    return gone


def mark(connection: Connection, rows: list[int]) -> None:
    """Mark locked sessions as deleted: nobody finds them by name or in a list, and handles on them cannot write any more.

    Their names become free at once: a session with the same name can be opened while these rows are still being deleted.
    """
    nameless = literal(_NO_NAME) + cast(SessionRow.id, String)
    values = {"is_deleted": True, "clearing_at": datetime.now(UTC), "name": nameless}
    connection.execute(update(SessionRow).where(SessionRow.id.in_(rows)).values(values))


def clear(write: Write, tenant: str) -> None:
    """Delete the rest of a tenant's ended and deleted sessions, except those on which another process is working."""
    while write(lambda connection: step(connection, tenant)):
        _let_others_through()


def clear_session(write: Write, row: int) -> None:
    """Delete the rest of one ended or deleted session."""
    while write(lambda connection: step(connection, row=row)):
        _let_others_through()


def clear_within(connection: Connection, row: int) -> None:
    """Delete the rest of one session at once, in a transaction that holds the writer's lock anyway, such as a host's."""
    step(connection, row=row, at_once=True)


def drain(write: Write) -> None:
    """Delete the rest of large blobs that nothing needs any more."""
    while write(lambda connection: blobs.drain(connection, time.monotonic() + STEP_SECONDS)):
        _let_others_through()


def step(connection: Connection, tenant: str | None = None, *, row: int | None = None, at_once: bool = False) -> bool:
    """Delete some of the rest of marked sessions, or of the session `row`; False if nothing was left.

    It stops after `STEP_SECONDS`; with `at_once` it deletes everything but the frames of large blobs.
    """
    until = float("inf") if at_once else time.monotonic() + STEP_SECONDS
    if not at_once and blobs.drain(connection, until):
        return True
    left = select(SessionRow.id, SessionRow.is_deleted).where(SessionRow.clearing_at.is_not(None))
    if tenant is not None:
        # `tenant + ""` keeps the planner from the index of tenants: the partial index of the few marked sessions is better.
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
    """Delete rows of a session until the time is up; tell whether all rows that must go are deleted."""
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
