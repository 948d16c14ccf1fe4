"""Quotas: how many bytes a session and a tenant may have stored.

A payload counts with its size before compression, and only once: equal bytes are stored once within a tenant, so a second
artifact with the same bytes is free.

Counting everything at each output would take longer the more is stored. So the session's row keeps a sum up to some row id,
and each check adds the rows after it. The sum is an upper bound, because it still includes rows deleted since. Everything is
counted anew only if the bound leaves no room, and then not again as long as nothing is deleted.

The session's quota is checked under the session's lock and is exact. The tenant's quota is checked without a lock, which
would make conversations wait for each other: simultaneous commits may exceed it together, each by one output.

Reaching a quota is logged once an hour per session and quota, because each output that cannot be stored reaches it again.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    bindparam,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import aliased

from byref.artifacts import variables
from byref.artifacts.store import is_live
from byref.db.database import keeps_snapshot
from byref.db.sums import BYTES, Bytes
from byref.db.tables import RETIRED, ArtifactRow, BlobRow, NameRow, SessionRow, TenantRow
from byref.policy import Policy

logger = logging.getLogger("byref")

LOG_SECONDS = 3_600.0
"""Time after which the same quota of a session is logged again."""
MOST_LOGGED = 10_000
"""Pairs of session and quota that are remembered as logged; beyond this number the oldest is forgotten."""


Reason = Literal["max_session_bytes", "max_tenant_bytes"]


@dataclass(frozen=True, slots=True)
class Excess:
    """A quota that payloads would exceed, and the number of bytes that would then be stored."""

    reason: Reason
    value: int
    limit: int
    is_remembered: bool = field(default=True, compare=False)
    """Whether the figure is kept in the database; if not, everything had to be counted for it."""

    def __str__(self) -> str:
        """Return a sentence with the numbers."""
        whose = "session" if self.reason == "max_session_bytes" else "tenant"
        return f"the {whose} would have {self.value:,} bytes stored, more than {self.reason}={self.limit:,} allows"


class Came(NamedTuple):
    """What a session has stored since its kept sum: an upper bound of the bytes, and the number of rows."""

    bytes: int
    rows: int


class Owner(NamedTuple):
    """The session and tenant that store payloads; quotas are checked for both, and logged with their names."""

    tenant: str
    session: str
    session_row: int


def excess(
    connection: Connection,
    policy: Policy,
    owner: Owner,
    adding: Mapping[bytes, int],
    *,
    is_locked: bool = False,
    kept: Bytes | None = None,
    came: Came | None = None,
) -> Excess | None:
    """Return and log the quota that storing these payloads (size by digest) would exceed; None if there is room.

    Under the session's lock (`is_locked`) a new count is kept with the session, so that the next call need not count.
    `kept` is the sum in the session's row, and `came` what was stored since, if the caller has read them already.
    """
    bounds: tuple[tuple[_Whole, int | str, int | None, Reason, Bytes | None, Came | None], ...] = (
        (_SESSION, owner.session_row, policy.max_session_bytes, "max_session_bytes", kept, came),
        (_TENANT, owner.tenant, policy.max_tenant_bytes, "max_tenant_bytes", None, None),
    )
    for whole, about, limit, reason, known, since in bounds:
        if limit is not None:
            stored = _stored(
                connection, whole, about, owner.tenant, adding, limit, is_locked=is_locked, known=known, since=since
            )
            if stored[0] > limit:
                found = Excess(reason, stored[0], limit, stored[1])
                log(found.reason, str(found), owner)
                return found
    return None


def most_stored(connection: Connection, session_row: int) -> int:
    """Return an upper bound of the bytes that a session has stored: the cheapest figure that `excess` tries."""
    known = _known(connection, _SESSION, session_row)
    came, _ = connection.execute(_SESSION.most_came, about_came(session_row, known)).one()
    return int(known.stored + came)


def is_far(policy: Policy, kept: int | None, adding: Mapping[bytes, int]) -> bool:
    """Tell whether no quota is near: with `kept`, the incomplete sum in the session's row, at least half of it is left.

    None as `kept` means unknown. This is only a shortcut: before storing, the quota is checked again under the lock.
    """
    most = policy.max_session_bytes
    has_room = most is None or (kept is not None and kept + sum(adding.values()) <= most // 2)
    return has_room and policy.max_tenant_bytes is None


def too_large(policy: Policy, size: int, owner: Owner) -> str | None:
    """Return and log a sentence if a payload is larger than the policy allows; else None."""
    if size <= policy.max_artifact_bytes:
        return None
    words = f"{size:,} bytes are more than max_artifact_bytes={policy.max_artifact_bytes:,} allows"
    log("max_artifact_bytes", words, owner)
    return words


def log(quota: str, words: str, owner: Owner) -> None:
    """Log that a quota was reached, unless the same quota of the session was logged within the last hour."""
    key, now = (owner.session_row, quota), time.monotonic()
    if now - _logged.get(key, -LOG_SECONDS) < LOG_SECONDS:
        return
    _logged.pop(key, None)
    _logged[key] = now
    while len(_logged) > MOST_LOGGED:
        _logged.pop(next(iter(_logged)), None)
    logger.warning(
        "session %r of tenant %r is at its quota: %s; what is too much is not stored",
        owner.session,
        owner.tenant,
        words,
    )


_logged: dict[tuple[int, str], float] = {}
"""When each quota of a session was logged, oldest first. There is no lock: two threads may log the same, which is harmless."""


RECOUNT_SECONDS = 60.0
"""How long a full count is trusted when there is no room: older versions of byref delete rows without noting it."""


def remember(connection: Connection, found: Excess, owner: Owner) -> None:
    """Count anew and keep the count, so that the next calls without room need not count; skipped if the session is locked."""
    mine = select(SessionRow.id).where(SessionRow.id == owner.session_row).with_for_update(skip_locked=True)
    if connection.execute(mine).scalar_one_or_none() is not None:
        of_session = found.reason == "max_session_bytes"
        whole, about = (_SESSION, owner.session_row) if of_session else (_TENANT, owner.tenant)
        state = _state(connection, whole, about, _known(connection, whole, about))
        _count(connection, whole, about, state, is_locked=True)


@dataclass(frozen=True, slots=True)
class _Whole:
    """The statements that count what a session or a tenant (parameter `whose`) has stored."""

    known: Any
    """Selects the kept sum: its bytes, the last row ids of payloads and names that it covers, and `until`."""
    most_came: Any
    """Selects, of the rows after those ids, an upper bound of their bytes, and the number of rows."""
    came: Any
    """Selects the exact bytes of the rows after those ids; for a session, PostgreSQL plans this twice as long as a bound."""
    payloads: Any
    """Selects the bytes of all payloads."""
    names: Any
    """Selects the bytes that code keeps beside artifacts: exact values and definitions."""
    soonest: Any
    """Selects when the first of the artifacts expires."""
    there: Any
    """Selects the bytes of those of the new payloads (by digest) that are stored already."""
    last: Callable[[Connection, Any, _State], tuple[int, int]]
    """Returns the row ids up to which a sum can be kept: no row with a lower id can still be inserted."""
    keep: Callable[[Connection, Any, Mapping[str, Any]], None]
    """Writes a sum to the row that keeps it."""
    most_since: int
    """Number of rows after the kept sum from which on they are added to it, instead of being counted at each call."""


@dataclass(frozen=True, slots=True)
class _State:
    """The kept sum, and the exact bytes of the rows after it."""

    kept: Bytes
    came: int


def _stored(
    connection: Connection,
    whole: _Whole,
    about: int | str,
    tenant: str,
    adding: Mapping[bytes, int],
    limit: int,
    *,
    is_locked: bool,
    known: Bytes | None,
    since: Came | None,
) -> tuple[int, bool]:
    """Return the bytes that would be stored, or an upper bound if even that is within the limit; and whether they were known.

    Goes from the cheapest figure to the exact one, and stops at the first that fits the limit: the kept sum and a bound of
    the rows since, which is enough for most sessions; the kept sum and the exact bytes since; a new count of everything.
    """
    known, more = known or _known(connection, whole, about), sum(adding.values())
    came, rows = since or connection.execute(whole.most_came, about_came(about, known)).one()
    is_long = is_locked and rows > whole.most_since
    if not is_long and known.stored + came + more <= limit:
        return int(known.stored + came + more), True
    state = _state(connection, whole, about, known)
    at_most = state.kept.stored + state.came
    if at_most + more <= limit:
        if is_long:
            _keep(connection, whole, about, state, at_most, None)
        return at_most + more, True
    until = state.kept.until
    is_known = until is not None and until > datetime.now(UTC)
    if not is_known:
        at_most = _count(connection, whole, about, state, is_locked=is_locked)
    of_these = {**_whose(about), "of_tenant": tenant, "adding": list(adding)}
    there = int(connection.execute(whole.there, of_these).scalar() or 0)
    return at_most + more - there, is_known or is_locked


def came_and_named(
    connection: Connection, session_row: int, kept: Bytes, names: Collection[str]
) -> tuple[Came, set[str]] | None:
    """Return what the session has stored since the sum `kept`, and those of the names that are bound in it.

    One statement looks for both; None if there are too many names for it.
    """
    named = variables.few(session_row, names)
    if named is None:
        return None
    rows = connection.execute(_CAME_AND_NAMED, about_came(session_row, kept) | named).all()
    [came] = (Came(int(row.bytes), row.rows) for row in rows if row.name is None)
    return came, {row.name for row in rows if row.name is not None}


def _known(connection: Connection, whole: _Whole, about: int | str) -> Bytes:
    row = connection.execute(whole.known, {"whose": about}).one_or_none()
    return Bytes(0, 0, 0, None) if row is None else Bytes(*row)


def _state(connection: Connection, whole: _Whole, about: int | str, known: Bytes) -> _State:
    return _State(known, int(connection.execute(whole.came, about_came(about, known)).scalar_one()))


def about_came(about: int | str, known: Bytes) -> dict[str, Any]:
    """Return the parameters of `CAME`: a session's row, and the sum that it keeps."""
    return {**_whose(about), "payload": known.payload, "name": known.name}


def _count(connection: Connection, whole: _Whole, about: int | str, state: _State, *, is_locked: bool) -> int:
    """Count anew what is stored; if the session is locked, also keep the result."""
    whose = _whose(about)
    payloads, names, soonest = (
        connection.execute(query, whose).scalar() for query in (whole.payloads, whole.names, whole.soonest)
    )
    total = int(payloads or 0) + int(names or 0)
    if is_locked:
        until = datetime.now(UTC) + timedelta(seconds=RECOUNT_SECONDS)
        _keep(connection, whole, about, state, total, until if soonest is None else min(until, soonest))
    return total


def _keep(
    connection: Connection, whole: _Whole, about: int | str, state: _State, total: int, until: datetime | None
) -> None:
    """Keep the sum up to row ids below which no row can still be inserted; the bytes of later rows are subtracted."""
    payload, name = whole.last(connection, about, state)
    came = connection.execute(whole.came, {**_whose(about), "payload": payload, "name": name}).scalar_one()
    kept = {"new_bytes": total - int(came), "new_payload": payload, "new_name": name, "new_until": until}
    whole.keep(connection, about, kept)


def _whose(about: int | str) -> dict[str, Any]:
    return {"whose": about, "now": datetime.now(UTC)}


MOST_SINCE = 16
_IN_FLIGHT = 64
"""Newest rows of a tenant that its kept sum leaves out: other conversations may still insert rows with lower ids."""
_NOW: Any = bindparam("now")
_PAYLOAD, _NAME = bindparam("payload", type_=BigInteger), bindparam("name", type_=BigInteger)
_WHOSE: Any = bindparam("whose")
_OF_ANY_KIND = text("kind IN ('source', 'exact', 'state')")
"""True for all names; it lets the database use the index over session, kind and row id."""
_LIVE_HERE = ArtifactRow.session_id == _WHOSE, is_live(_NOW)


def _new_to_session() -> Any:
    """Select the sizes of payloads after the kept sum, without those that an earlier artifact of the session has too."""
    new = select(ArtifactRow.blob_id).where(*_LIVE_HERE, ArtifactRow.id > _PAYLOAD)
    had = aliased(ArtifactRow)
    is_live_still = or_(had.expires_at.is_(None), had.expires_at > _NOW)
    before = exists().where(had.session_id == _WHOSE, had.blob_id == BlobRow.id, had.id <= _PAYLOAD, is_live_still)
    return select(BlobRow.size_bytes).where(BlobRow.id.in_(new), ~before)


# The sizes of rows after the given row ids, one result row for each.
_NEW_TO_SESSION = _new_to_session()
_PAYLOAD_SIZE = select(BlobRow.size_bytes).where(BlobRow.id == ArtifactRow.blob_id).scalar_subquery()
"""The size of each payload by itself: PostgreSQL plans that in half the time of a join."""
_PAYLOADS_OF_SESSION = select(_PAYLOAD_SIZE.label("size_bytes")).where(
    ArtifactRow.session_id == _WHOSE, ArtifactRow.id > _PAYLOAD
)
_NAMES_OF_SESSION = select(NameRow.size_bytes).where(NameRow.session_id == _WHOSE, _OF_ANY_KIND, NameRow.id > _NAME)
_BLOBS_OF_TENANT = select(BlobRow.size_bytes).where(BlobRow.tenant == _WHOSE, BlobRow.id > _PAYLOAD)
_NAMES_OF_TENANT = select(NameRow.size_bytes).where(NameRow.tenant == _WHOSE, NameRow.id > _NAME)


def _both(payloads: Any, names: Any) -> Any:
    """Select the sum of the bytes of payloads and names."""
    of_payloads, of_names = (select(func.sum(sizes.subquery().c.size_bytes)) for sizes in (payloads, names))
    return select(func.coalesce(of_payloads.scalar_subquery(), 0) + func.coalesce(of_names.scalar_subquery(), 0))


def _at_most(payloads: Any, names: Any) -> Any:
    """Select the bytes and the number of all rows, without checking which of them still count: an upper bound."""
    each = union_all(payloads, names).subquery()
    total = func.coalesce(func.sum(each.c.size_bytes), literal_column("0"))
    return select(total.label("bytes"), func.count().label("rows")).select_from(each)


def _last_of_session(connection: Connection, whose: Any, state: _State) -> tuple[int, int]:
    """Return the newest row ids: rows are added to a session only under its lock, so nothing is in flight."""
    payload, name = connection.execute(_LAST, {"whose": whose}).one()
    return payload, name


def _last_of_tenant(connection: Connection, whose: Any, state: _State) -> tuple[int, int]:
    """Return row ids before the newest rows and before any blob still being written, because nothing locks a tenant."""
    about = {"whose": whose, "payload": state.kept.payload}
    writing = connection.execute(_WRITING, about).scalar()
    blob, name = connection.execute(_OLDER, about).one()
    payload = min(blob or 0, sys.maxsize if writing is None else writing - 1)
    return max(state.kept.payload, payload), max(state.kept.name, name or 0)


def _keep_of_session(connection: Connection, whose: Any, kept: Mapping[str, Any]) -> None:
    connection.execute(_KEEP, {"whose": whose, **kept})


def _keep_of_tenant(connection: Connection, whose: Any, kept: Mapping[str, Any]) -> None:
    """Keep the sum, unless another conversation is doing so, or this transaction could not see what others have kept."""
    if keeps_snapshot(connection):
        return
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    empty = {"tenant": whose, "stored_bytes": 0, "stored_blob": 0, "stored_name": 0}
    connection.execute(insert(TenantRow).values(empty).on_conflict_do_nothing())
    if connection.execute(_FREE, {"whose": whose}).scalar_one_or_none() is not None:
        connection.execute(_KEEP_OF_TENANT, {"whose": whose, **kept})


# Built once, because building a statement takes longer than running it.
_DIGESTS = BlobRow.digest.in_(bindparam("adding", expanding=True))
_THERE = select(func.sum(BlobRow.size_bytes)).where(
    BlobRow.tenant == bindparam("of_tenant"), BlobRow.published_at.is_not(None), _DIGESTS
)
_LAST = select(
    *(
        select(func.coalesce(func.max(row.id), 0)).where(row.session_id == _WHOSE).scalar_subquery()
        for row in (ArtifactRow, NameRow)
    )
)
_KEEP = (
    update(SessionRow)
    .where(SessionRow.id == _WHOSE)
    .values(
        stored_bytes=bindparam("new_bytes"),
        stored_artifact=bindparam("new_payload"),
        stored_name=bindparam("new_name"),
        stored_until=bindparam("new_until"),
    )
)
CAME = _at_most(_PAYLOADS_OF_SESSION, _NAMES_OF_SESSION)
"""Selects the fields of `Came`, with the parameters of `about_came`."""
_SESSION = _Whole(
    known=select(*BYTES).where(SessionRow.id == _WHOSE),
    most_came=CAME,
    came=_both(_NEW_TO_SESSION, _NAMES_OF_SESSION),
    payloads=select(func.sum(BlobRow.size_bytes)).where(BlobRow.id.in_(select(ArtifactRow.blob_id).where(*_LIVE_HERE))),
    names=select(func.sum(NameRow.size_bytes)).where(NameRow.session_id == _WHOSE),
    soonest=select(func.min(ArtifactRow.expires_at)).where(*_LIVE_HERE),
    there=_THERE.where(exists().where(ArtifactRow.blob_id == BlobRow.id, *_LIVE_HERE)),
    last=_last_of_session,
    keep=_keep_of_session,
    most_since=MOST_SINCE,
)
_TENANT = _Whole(
    known=select(TenantRow.stored_bytes, TenantRow.stored_blob, TenantRow.stored_name, TenantRow.stored_until).where(
        TenantRow.tenant == _WHOSE
    ),
    most_came=_at_most(_BLOBS_OF_TENANT, _NAMES_OF_TENANT),
    came=_both(_BLOBS_OF_TENANT.where(BlobRow.published_at.is_not(None)), _NAMES_OF_TENANT),
    payloads=select(func.sum(BlobRow.size_bytes)).where(BlobRow.tenant == _WHOSE, BlobRow.published_at.is_not(None)),
    names=select(func.sum(NameRow.size_bytes)).where(NameRow.tenant == _WHOSE),
    soonest=select(null()),
    there=_THERE,
    last=_last_of_tenant,
    keep=_keep_of_tenant,
    most_since=2 * _IN_FLIGHT,
)
_BOUND = variables.ANY_OF_FEW.subquery()
_CAME_IN_ONE = CAME.subquery()
_CAME_AND_NAMED = union_all(
    select(null().label("name"), _CAME_IN_ONE.c.bytes, _CAME_IN_ONE.c.rows),
    select(_BOUND.c.name, literal_column("0"), literal_column("0")),
)
_OLDER = select(
    *(
        select(row.id).where(row.tenant == _WHOSE).order_by(row.id.desc()).offset(_IN_FLIGHT).limit(1).scalar_subquery()
        for row in (BlobRow, NameRow)
    )
)
_WRITING = select(func.min(BlobRow.id)).where(
    BlobRow.tenant == _WHOSE,
    BlobRow.id > bindparam("payload"),
    BlobRow.published_at.is_(None),
    BlobRow.staged_at > RETIRED,
)
_FREE = select(TenantRow.tenant).where(TenantRow.tenant == _WHOSE).with_for_update(skip_locked=True)
_KEEP_OF_TENANT = (
    update(TenantRow)
    .where(TenantRow.tenant == _WHOSE)
    .values(
        stored_bytes=bindparam("new_bytes"),
        stored_blob=bindparam("new_payload"),
        stored_name=bindparam("new_name"),
        stored_until=bindparam("new_until"),
    )
)
