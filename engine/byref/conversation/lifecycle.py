"""How conversations begin and end: opening, sharing, keeping, ending, deleting, sweeping."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from operator import add, attrgetter
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    true,
    tuple_,
    type_coerce,
    update,
)

from byref.accounting import ledger
from byref.artifacts import blobs, store, tombstones
from byref.artifacts.store import Artifact
from byref.conversation import clearing, room
from byref.conversation.scope import Scope
from byref.db import sums
from byref.db.tables import (
    GRACE,
    ID_BYTES,
    ArtifactRow,
    BlobRow,
    ItemRow,
    LedgerRow,
    NameRow,
    SessionRow,
    VariableRow,
)
from byref.errors import ArtifactMissing, ConfigurationError, InvalidId, shown

EXPIRED_AT_ONCE = 50
"""Artifacts that one transaction turns into tombstones."""
MOST_USES = 100
"""Last steps of an idle session whose times are looked at."""
MOST_HELD = 500
"""Sessions that one statement of a sweep passes over because somebody holds them."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a listing shows it. Sums have the names and meanings of `Totals`."""

    id: str
    tenant: str
    model: str | None
    steps: int
    created_at: datetime
    ended_at: datetime | None
    stored_bytes: int = 0
    """What counts for `max_session_bytes`: payloads as they came, each once, and what code keeps beside them."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int = 0
    tokens_saved: int = 0
    cost: Decimal | None = None
    """US dollars of all requests whose price is known; None where there is none."""


@dataclass(frozen=True, slots=True)
class TenantInfo:
    """A tenant as a listing shows it: the sums over its sessions."""

    id: str
    sessions: int
    steps: int
    created_at: datetime
    """Of its first session."""
    stored_bytes: int
    """What counts for `max_tenant_bytes`: what its sessions share counts once."""
    input_tokens: int | None
    output_tokens: int | None
    tokens: int
    tokens_saved: int
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep took."""

    artifacts: int = 0
    """Expired, and tombstones now."""
    blobs: int = 0
    """Bytes that nothing needs: of the expired, and what was staged and never committed."""
    tombstones: int = 0
    sessions: int = 0
    """Idle for longer than their `ledger_ttl`."""
    objects: int = 0
    """Of the store of objects: those of blobs that went, and those that SQL did not know."""
    held: int = 0
    """Conversations with expired artifacts that somebody held meanwhile: what expired there is still to be taken."""

    def __add__(self, other: Swept) -> Swept:
        """Return the sums."""
        return Swept(*map(add, astuple(self), astuple(other)))

    def __bool__(self) -> bool:
        """Tell whether anything went."""
        return replace(self, held=0) != Swept()


@dataclass(frozen=True, slots=True)
class Opened:
    """A session's row: what was given when it was created."""

    row: int
    model: str | None
    context_window: int | None
    policy: str | None
    tools: tuple[str, ...] | None


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
    return str.__str__(value)  # whatever a subclass makes of itself


# Built once: building takes longer than running what it builds.
_OPEN = insert(SessionRow).returning(SessionRow.id)
_FIND = select(SessionRow.id, SessionRow.model, SessionRow.context_window, SessionRow.policy, SessionRow.tools).where(
    SessionRow.tenant == bindparam("of_tenant"), SessionRow.name == bindparam("named")
)


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
    """Insert a session."""
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
    row = connection.execute(_OPEN, values).scalar_one()
    return Opened(row, model, context_window, policy, tools)


def find_session(connection: Connection, tenant: str, name: str) -> Opened | None:
    """Return a session by the host's id."""
    row = connection.execute(_FIND, {"of_tenant": tenant, "named": name}).one_or_none()
    if row is None:
        return None
    tools = None if row.tools is None else tuple(json.loads(row.tools))
    return Opened(row.id, row.model, row.context_window, row.policy, tools)


def tenants_with(connection: Connection, name: str) -> list[str]:
    """Return the tenants that have a session of that name."""
    return list(
        connection.execute(
            select(SessionRow.tenant).where(SessionRow.name == name).order_by(SessionRow.tenant)
        ).scalars()
    )


def sessions(
    connection: Connection,
    tenant: str | None,
    name: str | None = None,
    *,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
) -> list[SessionInfo] | None:
    """Return the sessions of a tenant, or with None of all, oldest first; with `name` that one alone.

    A page has those behind the one of the tenant and the name `after`, which has to be there: else None.
    """
    here = [
        column == value for column, value in ((SessionRow.tenant, tenant), (SessionRow.name, name)) if value is not None
    ]
    here.append(~SessionRow.is_deleted)
    if after is not None:
        place = select(SessionRow.created_at, SessionRow.id).where(
            SessionRow.tenant == after[0], SessionRow.name == after[1]
        )
        behind = connection.execute(place).one_or_none()
        if behind is None:
            return None
        at = literal(behind.created_at, SessionRow.created_at.type), literal(behind.id, SessionRow.id.type)
        here.append(tuple_(SessionRow.created_at, SessionRow.id) > tuple_(*at))
    if limit is not None:
        page = select(SessionRow.id).where(*here).order_by(SessionRow.created_at, SessionRow.id).limit(limit)
        whose: Any = connection.execute(page).scalars().all()
        here = [SessionRow.id.in_(whose)]
    else:
        whose = select(SessionRow.id).where(*here)
    held = (
        select(ArtifactRow.session_id, ArtifactRow.blob_id, BlobRow.size_bytes)
        .join(BlobRow, BlobRow.id == ArtifactRow.blob_id)
        .where(ArtifactRow.session_id.in_(whose), store.is_live())
        .distinct()
        .subquery()
    )
    payloads = (
        select(held.c.session_id, func.sum(held.c.size_bytes).label("size")).group_by(held.c.session_id).subquery()
    )
    beside = (
        select(NameRow.session_id, func.sum(NameRow.size_bytes).label("size"))
        .where(NameRow.session_id.in_(whose))
        .group_by(NameRow.session_id)
        .subquery()
    )
    kept, since = _ledger_sums(connection, SessionRow.id, here)
    query: Any = (
        select(
            SessionRow,
            (func.coalesce(payloads.c.size, 0) + func.coalesce(beside.c.size, 0)).label("stored"),
            *_both(kept, since),
        )
        .outerjoin(kept, kept.c.whose == SessionRow.id)
        .outerjoin(since, since.c.whose == SessionRow.id)
        .outerjoin(payloads, payloads.c.session_id == SessionRow.id)
        .outerjoin(beside, beside.c.session_id == SessionRow.id)
        .where(*here)
    )
    return [
        SessionInfo(
            row.name,
            row.tenant,
            row.model,
            row.next_step - 1,
            row.created_at,
            row.ended_at,
            int(row.stored),
            *_read_sums(row),
        )
        for row in sorted(connection.execute(query), key=attrgetter("created_at", "id"))
    ]


def tenants(
    connection: Connection, name: str | None = None, *, after: str | None = None, limit: int | None = None
) -> list[TenantInfo]:
    """Return the tenants that have sessions, by name, those behind `after`, at most `limit`; with `name` that one alone."""
    chosen = None if limit is None else list(islice(_names(connection, after), limit))
    if name is not None:
        chosen = [name]

    def some(tenant: Any) -> list[ColumnElement[bool]]:
        if chosen is not None:
            return [tenant.in_(chosen)]
        return [] if after is None else [tenant > after]

    payloads, beside = (
        select(table.tenant, func.sum(table.size_bytes).label("size"))
        .where(which, *some(table.tenant))
        .group_by(table.tenant)
        .subquery()
        for table, which in ((BlobRow, BlobRow.published_at.is_not(None)), (NameRow, true()))
    )
    mine = [~SessionRow.is_deleted, *some(SessionRow.tenant)]
    own = (
        select(
            SessionRow.tenant.label("id"),
            func.count().label("sessions"),
            func.sum(SessionRow.next_step - 1).label("steps"),
            func.min(SessionRow.created_at).label("created_at"),
        )
        .where(*mine)
        .group_by(SessionRow.tenant)
        .subquery()
    )
    kept, since = _ledger_sums(connection, SessionRow.tenant, mine)
    query: Any = (
        select(
            own,
            (func.coalesce(payloads.c.size, 0) + func.coalesce(beside.c.size, 0)).label("stored"),
            *_both(kept, since),
        )
        .outerjoin(kept, kept.c.whose == own.c.id)
        .outerjoin(since, since.c.whose == own.c.id)
        .outerjoin(payloads, payloads.c.tenant == own.c.id)
        .outerjoin(beside, beside.c.tenant == own.c.id)
        .order_by(own.c.id)
    )
    return [
        TenantInfo(row.id, int(row.sessions), int(row.steps), row.created_at, int(row.stored), *_read_sums(row))
        for row in connection.execute(query)
    ]


def _names(connection: Connection, after: str | None) -> Iterator[str]:
    """The tenants that have sessions, by name, each by one look-up: of one there may be any number of sessions."""
    while True:
        behind = [] if after is None else [SessionRow.tenant > after]
        after = connection.execute(select(func.min(SessionRow.tenant)).where(*behind, ~SessionRow.is_deleted)).scalar()
        if after is None:
            return
        yield after


_SUMMED = {"input_tokens": "usage", "output_tokens": "usage", "cost_nanos": "usage"} | {
    "tokens": "output",
    "original_tokens": "output",
}
"""Of which kind of steps the numbers are that a listing shows: usage as the providers counted it, outputs by our count."""


def _ledger_sums(connection: Connection, whose: Any, which: Sequence[ColumnElement[bool]]) -> tuple[Any, Any]:
    """The ledger's sums for each of `whose`: those that sessions keep, and those of the steps since."""
    is_text = connection.dialect.name == "sqlite"
    totals: Any = type_coerce(SessionRow.totals, JSON) if is_text else cast(SessionRow.totals, JSON)
    kept = (
        select(whose.label("whose"), *(func.sum(cast(totals[n].as_string(), BigInteger)).label(n) for n in _SUMMED))
        .where(*which, SessionRow.totals.is_not(None))
        .group_by(whose)
    )
    later = (LedgerRow.session_id == SessionRow.id) & (LedgerRow.step > SessionRow.totals_through)
    since = (
        select(
            whose.label("whose"),
            *(func.sum(case((LedgerRow.kind == kind, getattr(LedgerRow, n)))).label(n) for n, kind in _SUMMED.items()),
        )
        .join(LedgerRow, later)
        .where(*which)
        .group_by(whose)
    )
    return kept.subquery(), since.subquery()


def _both(kept: Any, since: Any) -> list[Any]:
    """Sums of both; NULL where neither has any."""
    pairs = ((n, kept.c[n], since.c[n]) for n in _SUMMED)
    return [func.coalesce(one + other, one, other).label(n) for n, one, other in pairs]


def _read_sums(row: Any) -> tuple[int | None, int | None, int, int, Decimal | None]:
    """Input, output, tokens read, tokens saved and cost of a row of `_both`, whose numbers may be a database's decimals."""
    given, made = (None if value is None else int(value) for value in (row.input_tokens, row.output_tokens))
    read, came = int(row.tokens or 0), int(row.original_tokens or 0)
    cost = None if row.cost_nanos is None else Decimal(int(row.cost_nanos)) / ledger.NANOS
    return given, made, read, max(0, came - read), cost


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
    """Let an artifact neither expire nor go with its session's end; False if it is gone."""
    ledger.lock(connection, session_row)
    live = ArtifactRow.id == artifact_row, ArtifactRow.session_id == session_row, store.is_live()
    kept = connection.execute(update(ArtifactRow).where(*live).values(kept=True, ttl_seconds=None, expires_at=None))
    return kept.rowcount == 1


def delete_artifact(connection: Connection, session_row: int, artifact_row: int) -> bool:
    """Delete an artifact and the names that mean it, and its bytes if nothing else has them; False if it is gone."""
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
    if found.origin == "output":  # made again by the same call, it is stored again
        made = LedgerRow.session_id == session_row, LedgerRow.step == found.step, LedgerRow.kind == "output"
        connection.execute(update(LedgerRow).where(*made).values(call_digest=None))
    connection.execute(delete(ArtifactRow).where(*here))
    blobs.delete_unused(connection, [found.blob_id])
    sums.freed(connection, [session_row])
    return True


def end(connection: Connection, session_row: int) -> None:
    """Let a session take nothing more in; `clearing` deletes its artifacts, but for those that are kept, and its variables.

    Its ledger stays.
    """
    now = datetime.now(UTC)
    here = SessionRow.id == session_row, SessionRow.ended_at.is_(None)
    connection.execute(update(SessionRow).where(*here).values(ended_at=now, clearing_at=now))


def sweep(write: clearing.Write, grace: timedelta = GRACE) -> Swept:
    """Take what has expired and what nothing needs, all of it, a batch and a short transaction at a time."""
    total, held = Swept(), set[int]()

    def paced(work: Callable[[Connection], Any]) -> Any:
        done = write(work)
        if done and done != (0, 0):  # what found nothing held nobody up
            time.sleep(clearing.PAUSE_SECONDS)
        return done

    while True:
        gone, is_more = sweep_batch(paced, grace, held)
        total += gone
        if not is_more:
            return replace(total, held=len(held))


def sweep_batch(write: clearing.Write, grace: timedelta = GRACE, held: set[int] | None = None) -> tuple[Swept, bool]:
    """Take a batch of each kind and tell whether there may be more.

    What another process holds is left to it, so that any number may sweep at once. Sessions that somebody holds are added
    to `held`, and passed over from then on.
    """
    past = set[int]() if held is None else held
    before = len(past)
    artifacts, bytes_gone = write(lambda connection: _expire_artifacts(connection, past))
    unused: blobs.Sweep = write(lambda connection: blobs.sweep(connection, grace))
    stones = write(lambda connection: tombstones.sweep(connection, blobs.SWEEP_BLOBS))
    sessions = write(_expire_sessions)
    is_clearing = bool(write(clearing.step))
    is_full = unused.is_full or artifacts >= EXPIRED_AT_ONCE or max(stones, sessions) >= blobs.SWEEP_BLOBS
    gone = Swept(artifacts, bytes_gone + unused.gone, stones, sessions)
    return gone, is_full or is_clearing or len(past) > before


def expire(connection: Connection, session_row: int, artifact_rows: Collection[int]) -> None:
    """Turn those of some of a session's artifacts that have expired into tombstones, under its lock."""
    ledger.lock(connection, session_row)
    tombstones.expire(connection, artifact_rows)


def _expire_artifacts(connection: Connection, held: set[int]) -> tuple[int, int]:
    due = select(ArtifactRow.id, ArtifactRow.session_id).where(ArtifactRow.expires_at <= datetime.now(UTC))
    free = due.where(ArtifactRow.session_id.not_in(list(islice(held, MOST_HELD)))).order_by(ArtifactRow.expires_at)
    found = connection.execute(free.limit(EXPIRED_AT_ONCE)).all()
    wanted = {session for _, session in found}
    locked = select(SessionRow.id).where(SessionRow.id.in_(wanted)).order_by(SessionRow.id)
    ours = set(connection.execute(locked.with_for_update(skip_locked=True)).scalars())
    held |= wanted - ours
    return tombstones.expire(connection, [row for row, session in found if session in ours])


# The latest of the last ones: the clock of whoever took the very last may have been behind.
_USED = tuple(
    select(table.created_at).where(table.session_id == bindparam("of_session")).order_by(order.desc()).limit(MOST_USES)
    for table, order in ((LedgerRow, LedgerRow.step), (ItemRow, ItemRow.id))
)


def _expire_sessions(connection: Connection) -> int:
    """Delete idle sessions; those that were found busy are looked at again when they may be idle."""
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
