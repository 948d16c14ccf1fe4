"""The life cycle of conversations and their data: opening, sharing, keeping, ending, deleting, sweeping."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import add
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from byref.accounting import ledger
from byref.artifacts import blobs, store, tombstones
from byref.artifacts.store import Artifact
from byref.conversation import clearing, programs, room
from byref.conversation.scope import Scope
from byref.db import sums
from byref.db.tables import (
    GRACE,
    ID_BYTES,
    AnswerRow,
    ArtifactRow,
    ItemRow,
    LedgerRow,
    NameRow,
    SchemaRow,
    SessionRow,
    VariableRow,
)
from byref.errors import ArtifactMissing, ConfigurationError, InvalidId, shown
from byref.policy import check_tools

logger = logging.getLogger("byref")

EXPIRED_AT_ONCE = 50
"""Most artifacts that one transaction turns into tombstones."""
MOST_USES = 100
"""Number of the last steps whose times decide whether a session is idle."""
MOST_HELD = 500
"""Most sessions that one statement of a sweep skips because other transactions hold them."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The numbers of things that a sweep deleted."""

    artifacts: int = 0
    """Expired artifacts, which are tombstones now."""
    blobs: int = 0
    """Blobs that nothing needs: those of expired artifacts, and those that were staged but never committed."""
    tombstones: int = 0
    sessions: int = 0
    """Sessions that were idle for longer than their `ledger_ttl`."""
    objects: int = 0
    """Objects in the store: those of deleted blobs, and those without a row in SQL."""
    held: int = 0
    """Conversations that other transactions held; their expired artifacts are left to a later sweep."""

    def __add__(self, other: Swept) -> Swept:
        """Return the sums."""
        return Swept(*map(add, astuple(self), astuple(other)))

    def __bool__(self) -> bool:
        """Tell whether anything was deleted."""
        return replace(self, held=0) != Swept()


@dataclass(frozen=True, slots=True)
class Opened:
    """A session's row: the values with which it was created."""

    row: int
    model: str | None
    context_window: int | None
    policy: str | None
    tools: tuple[str, ...] | None
    learned_through: int | None = None
    """The newest row of what was learned of tools at that time; None: nothing was."""


def check_id(name: str, value: object) -> str:
    """Return a host's id if it can be kept as it is: 1 to 512 bytes of UTF-8 without NUL; else InvalidId."""
    if not isinstance(value, str):
        raise InvalidId(f"{name}={shown(value)}: expected a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidId(f"{name}={shown(value)}: has a lone surrogate, which no database keeps") from None
    if not 0 < size <= ID_BYTES or "\0" in value:
        raise InvalidId(
            f"{name}={value[:100]!r}: expected 1 to {ID_BYTES} bytes of UTF-8 without NUL, not {size} bytes"
        )
    return str.__str__(value)  # a plain str, whatever a subclass overrides


# Built once, because building a statement takes longer than running it.
_NEWEST = select(func.max(SchemaRow.id)).where(SchemaRow.tenant == bindparam("of_tenant")).scalar_subquery()
_OPEN = insert(SessionRow).values(learned_through=_NEWEST).returning(SessionRow.id, SessionRow.learned_through)
OPENED = (
    SessionRow.id,
    SessionRow.model,
    SessionRow.context_window,
    SessionRow.policy,
    SessionRow.tools,
    SessionRow.learned_through,
)
"""The columns of which `opened` makes a session."""
_FIND = select(*OPENED).where(SessionRow.tenant == bindparam("of_tenant"), SessionRow.name == bindparam("named"))


def open_session(
    connection: Connection,
    *,
    tenant: str,
    name: str,
    model: str | None,
    context_window: int | None,
    policy: str | None,
    tools: tuple[str, ...] | None,
    ledger_ttl: timedelta | None,
) -> Opened:
    """Insert a session and return it."""
    now = datetime.now(UTC)
    values = {
        "tenant": tenant,
        "name": name,
        "model": model,
        "context_window": context_window,
        "policy": policy,
        "tools": None if tools is None else json.dumps(tools),
        "created_at": now,
        "ledger_seconds": None if ledger_ttl is None else ledger_ttl.total_seconds(),
        "expires_at": None if ledger_ttl is None else now + ledger_ttl,
    }
    row = connection.execute(_OPEN, values | {"of_tenant": tenant}).one()
    return Opened(row.id, model, context_window, policy, tools, row.learned_through)


def find_session(connection: Connection, tenant: str, name: str) -> Opened | None:
    """Return a session by the host's id."""
    row = connection.execute(_FIND, {"of_tenant": tenant, "named": name}).one_or_none()
    return None if row is None else opened(row)


def opened(row: Row[*tuple[Any, ...]]) -> Opened:
    """Return the session of a row with the columns of `OPENED`."""
    tools = None if row.tools is None else _tools_in(row.tools)
    return Opened(row.id, row.model, row.context_window, row.policy, tools, row.learned_through)


def _tools_in(column: str) -> tuple[str, ...] | None:
    """Return the tools that a session was opened with; None, as if none had been named, of a damaged column."""
    try:
        return check_tools(json.loads(column))
    except (ConfigurationError, ValueError, RecursionError) as error:
        logger.warning("the tools kept with a session cannot be used, those of its policy hold: %s", error)
        return None


def tenants_with(connection: Connection, name: str) -> list[str]:
    """Return the tenants that have a session of that name."""
    return list(
        connection.execute(
            select(SessionRow.tenant).where(SessionRow.name == name).order_by(SessionRow.tenant)
        ).scalars()
    )


def share(scope: Scope, artifact: Artifact, with_: str) -> Artifact:
    """Insert an artifact of the same blob into another session of the tenant."""
    with_ = check_id("with_", with_)
    other = scope.read(lambda connection: find_session(connection, scope.tenant, with_))
    if other is None:
        raise ConfigurationError(f"no session {shown(with_)} of tenant {scope.tenant!r} to share with")
    there = replace(scope, name=with_, row=other.row)

    def work(connection: Connection) -> Artifact:
        ledger.lock(connection, other.row)
        room.check_within(connection, there, {artifact.digest: artifact.payload.size})
        blob = blobs.published(connection, scope.tenant, artifact.digest)
        if blob is None:
            raise ArtifactMissing(f"the artifact {artifact.id!r} was deleted while it was shared")
        return there.publish(connection, blob, artifact.description, step=None, origin="host")

    return scope.write(work)


def keep(connection: Connection, session_row: int, artifact_row: int) -> bool:
    """Keep an artifact: it neither expires nor is deleted when its session ends; False if it is gone."""
    ledger.lock(connection, session_row)
    live = ArtifactRow.id == artifact_row, ArtifactRow.session_id == session_row, store.is_live()
    kept = connection.execute(update(ArtifactRow).where(*live).values(kept=True, ttl_seconds=None, expires_at=None))
    return kept.rowcount == 1


def delete_artifact(connection: Connection, session_row: int, artifact_row: int) -> bool:
    """Delete an artifact with its variables, and its bytes if no other artifact has them; False if it is gone."""
    connection.execute(select(SessionRow.id).where(SessionRow.id == session_row).with_for_update())
    here = ArtifactRow.id == artifact_row, ArtifactRow.session_id == session_row
    found = connection.execute(
        select(ArtifactRow.blob_id, ArtifactRow.step, ArtifactRow.origin).where(*here)
    ).one_or_none()
    if found is None:
        return False
    for table in (NameRow, VariableRow):
        connection.execute(delete(table).where(table.session_id == session_row, table.artifact_id == artifact_row))
    refers = LedgerRow.session_id == session_row, LedgerRow.artifact_id == artifact_row
    connection.execute(update(LedgerRow).where(*refers).values(artifact_id=None))
    if found.origin == "output":  # so that the same call, made again, stores its output again
        made = LedgerRow.session_id == session_row, LedgerRow.step == found.step, LedgerRow.kind == "output"
        connection.execute(update(LedgerRow).where(*made).values(call_digest=None))
    connection.execute(delete(ArtifactRow).where(*here))
    blobs.delete_unused(connection, [found.blob_id])
    sums.freed(connection, [session_row])
    return True


def end(connection: Connection, session_row: int) -> None:
    """End a session: it accepts nothing more, code of it that was interrupted or waits for an approval never goes on, and `clearing` deletes its variables and its artifacts, except kept ones.

    Its ledger stays.
    """
    now = datetime.now(UTC)
    here = SessionRow.id == session_row, SessionRow.ended_at.is_(None)
    connection.execute(update(SessionRow).where(*here).values(ended_at=now, clearing_at=now))
    programs.end_all(connection, session_row)


def sweep(write: clearing.Write, grace: timedelta = GRACE) -> Swept:
    """Delete everything that has expired or that nothing needs, in batches and short transactions."""
    total, held = Swept(), set[int]()

    def paced(work: Callable[[Connection], Any]) -> Any:
        done = write(work)
        if done and done != (0, 0):  # no pause after work that found nothing: it blocked nobody
            time.sleep(clearing.PAUSE_SECONDS)
        return done

    while True:
        gone, is_more = sweep_batch(paced, grace, held)
        total += gone
        if not is_more:
            return replace(total, held=len(held))


def sweep_batch(write: clearing.Write, grace: timedelta = GRACE, held: set[int] | None = None) -> tuple[Swept, bool]:
    """Delete a batch of each kind and tell whether there may be more.

    Rows locked by other processes are skipped, so that any number of processes can sweep at once. Sessions that others hold
    are added to `held`, and skipped from then on.
    """
    past = set[int]() if held is None else held
    before = len(past)
    artifacts, bytes_gone = write(lambda connection: _expire_artifacts(connection, past))
    unused: blobs.Sweep = write(lambda connection: blobs.sweep(connection, grace))
    stones = write(lambda connection: tombstones.sweep(connection, blobs.SWEEP_BLOBS))
    answers = write(_expire_answers)
    ended = write(lambda connection: programs.sweep(connection, blobs.SWEEP_BLOBS))
    sessions = write(_expire_sessions)
    is_clearing = bool(write(clearing.step))
    is_full = (
        unused.is_full or artifacts >= EXPIRED_AT_ONCE or max(stones, sessions, answers, ended) >= blobs.SWEEP_BLOBS
    )
    gone = Swept(artifacts, bytes_gone + unused.gone, stones, sessions)
    return gone, is_full or is_clearing or len(past) > before


def expire(connection: Connection, session_row: int, artifact_rows: Collection[int]) -> None:
    """Turn the expired ones of some artifacts of a session into tombstones, under the session's lock."""
    ledger.lock(connection, session_row)
    tombstones.expire(connection, artifact_rows)
    programs.end_expired(connection, [session_row])


def _expire_artifacts(connection: Connection, held: set[int]) -> tuple[int, int]:
    due = select(ArtifactRow.id, ArtifactRow.session_id).where(ArtifactRow.expires_at <= datetime.now(UTC))
    free = due.where(ArtifactRow.session_id.not_in(list(islice(held, MOST_HELD)))).order_by(ArtifactRow.expires_at)
    found = connection.execute(free.limit(EXPIRED_AT_ONCE)).all()
    wanted = {session for _, session in found}
    locked = select(SessionRow.id).where(SessionRow.id.in_(wanted)).order_by(SessionRow.id)
    ours = set(connection.execute(locked.with_for_update(skip_locked=True)).scalars())
    held |= wanted - ours
    gone = tombstones.expire(connection, [row for row, session in found if session in ours])
    programs.end_expired(connection, ours)
    return gone


def _expire_answers(connection: Connection) -> int:
    due = select(AnswerRow.id).where(AnswerRow.expires_at <= datetime.now(UTC)).limit(blobs.SWEEP_BLOBS)
    gone = connection.execute(due.with_for_update(skip_locked=True)).scalars().all()
    if gone:
        connection.execute(delete(AnswerRow).where(AnswerRow.id.in_(gone)))
    return len(gone)


# The latest time of the last steps, not the time of the last one: the clock of the machine that took that may be behind.
_USED = tuple(
    select(table.created_at).where(table.session_id == bindparam("of_session")).order_by(order.desc()).limit(MOST_USES)
    for table, order in ((LedgerRow, LedgerRow.step), (ItemRow, ItemRow.id))
)


def _expire_sessions(connection: Connection) -> int:
    """Delete idle sessions; for those still in use, set the time of the next check."""
    now = datetime.now(UTC)
    due = select(SessionRow.id, SessionRow.created_at, SessionRow.ledger_seconds).where(
        SessionRow.expires_at <= now, ~SessionRow.is_deleted
    )
    locked = due.order_by(SessionRow.expires_at).limit(blobs.SWEEP_BLOBS).with_for_update(skip_locked=True)
    gone = 0
    for row, created_at, seconds in connection.execute(locked).all():
        uses = (at for query in _USED for at in connection.execute(query, {"of_session": row}).scalars())
        used_at = max(uses, default=created_at)
        stored = select(ArtifactRow.id).where(ArtifactRow.session_id == row).limit(1)
        if connection.execute(stored).scalar() is not None:
            used_at = now
        if (until := used_at + timedelta(seconds=seconds or 0)) > now:
            connection.execute(update(SessionRow).where(SessionRow.id == row).values(expires_at=until))
        else:
            clearing.mark(connection, [row])
            gone += 1
    return gone
