"""Quotas: how many bytes a session and a tenant may have stored.

What counts are payloads as they came, before compression, each once: equal bytes are stored once within a tenant, so a
second artifact of them is free. The session's sum is checked under the session's lock and holds exactly: a bound of it is
kept with the session, and all is counted only where that leaves no room. The tenant's is
not guarded by a lock of its own, which would make conversations wait for each other: commits of one moment may pass it
together, each by one output.

That a quota is hit is told to the log, once an hour for each session and quota: each output that is not stored hits it again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, bindparam, case, func, select, text, true, update

from byref.artifacts.store import is_live
from byref.db.sums import BYTES, Bytes
from byref.db.tables import ArtifactRow, BlobRow, NameRow, SessionRow
from byref.errors import QuotaExceeded
from byref.policy import Policy

logger = logging.getLogger("byref")

TOLD_SECONDS = 3_600.0
"""After so long the log is told again."""
TOLD_MOST = 10_000
"""Sessions and quotas that are remembered; beyond them the longest known is told again."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A quota that payloads would pass, and the bytes that would be stored with them."""

    reason: Literal["max_session_bytes", "max_tenant_bytes"]
    value: int
    limit: int

    def __str__(self) -> str:
        """Say it with its numbers."""
        whose = "session" if self.reason == "max_session_bytes" else "tenant"
        return f"the {whose} would have {self.value:,} bytes stored, more than {self.reason}={self.limit:,} allows"


def excess(
    connection: Connection,
    policy: Policy,
    *,
    tenant: str,
    session: str,
    session_id: int,
    adding: Mapping[bytes, int],
    is_locked: bool = False,
    kept: Bytes | None = None,
) -> Excess | None:
    """Return the quota that storing payloads, given as sizes by digest, would pass, told to the log; None: there is room.

    Under the session's lock (`is_locked`) what was counted is kept with the session, so that the next call need not.
    `kept`: what the session's row keeps, if that is known already.
    """
    found = _excess(connection, policy, tenant, session_id, adding, is_locked=is_locked, kept=kept)
    if found is not None:
        tell(found.reason, str(found), tenant=tenant, session=session, session_id=session_id)
    return found


def is_far(policy: Policy, kept: int, adding: Mapping[bytes, int]) -> bool:
    """Tell whether no quota is near: with `kept` bytes by what a session's row keeps, which is not all, half of one is left.

    Whoever stores them asks again under the lock.
    """
    most = policy.max_session_bytes
    return policy.max_tenant_bytes is None and (most is None or kept + sum(adding.values()) <= most // 2)


def _excess(
    connection: Connection,
    policy: Policy,
    tenant: str,
    session_id: int,
    adding: Mapping[bytes, int],
    *,
    is_locked: bool,
    kept: Bytes | None,
) -> Excess | None:
    if policy.max_session_bytes is not None:
        room = policy.max_session_bytes - sum(adding.values())
        if _at_most(connection, session_id, room, kept, is_locked=is_locked) > room:
            total = _exactly(connection, session_id, adding, is_locked=is_locked)
        else:
            total = 0
        if total > policy.max_session_bytes:
            return Excess("max_session_bytes", total, policy.max_session_bytes)
    if policy.max_tenant_bytes is not None:
        total = _total(connection, _OF_TENANT, {"whose": tenant}, adding) + _names(connection, _NAMES_OF_TENANT, tenant)
        if total > policy.max_tenant_bytes:
            return Excess("max_tenant_bytes", total, policy.max_tenant_bytes)
    return None


def check(
    connection: Connection,
    policy: Policy,
    *,
    tenant: str,
    session: str,
    session_id: int,
    adding: Mapping[bytes, int],
    is_locked: bool = False,
) -> None:
    """Raise QuotaExceeded where `excess` finds one."""
    about: Any = {"tenant": tenant, "session": session, "session_id": session_id, "is_locked": is_locked}
    if found := excess(connection, policy, adding=adding, **about):
        raise QuotaExceeded(str(found))


def check_size(policy: Policy, size: int, *, tenant: str, session: str, session_id: int) -> None:
    """Raise QuotaExceeded for a payload that is larger than any may be, which the log is told."""
    if size > policy.max_artifact_bytes:
        words = f"{size:,} bytes are more than max_artifact_bytes={policy.max_artifact_bytes:,} allows"
        tell("max_artifact_bytes", words, tenant=tenant, session=session, session_id=session_id)
        raise QuotaExceeded(words)


def tell(quota: str, words: str, *, tenant: str, session: str, session_id: int) -> None:
    """Let the log know what is not stored for want of room, unless it was told of this session and quota within the hour."""
    key, now = (session_id, quota), time.monotonic()
    if now - _told.get(key, -TOLD_SECONDS) < TOLD_SECONDS:
        return
    _told.pop(key, None)
    _told[key] = now
    while len(_told) > TOLD_MOST:
        _told.pop(next(iter(_told)), None)
    logger.warning(
        "session %r of tenant %r is at its quota: %s; what is too much is not stored", session, tenant, words
    )


_told: dict[tuple[int, str], float] = {}
"""When the log was told, by session and quota, the longest ago first. Threads may tell it of one twice."""


def _at_most(connection: Connection, session_id: int, room: int, kept: Bytes | None, *, is_locked: bool) -> int:
    """What the session has stored, or more: what was counted once, and all that came since, whether or not it is still there.

    Where that is within the room nothing else has to be looked at. What an older byref stored beside this one is among what
    came since.
    """
    if kept is None:
        row = connection.execute(_KEPT, {"whose": session_id}).one_or_none()
        if row is None:
            return 0
        kept = Bytes(*row)
    since = {"whose": session_id, "artifact": kept.artifact, "name": kept.name}
    stored, rows, last, names, name_rows, last_name = connection.execute(_SINCE, since).one()
    total = kept.stored + int(stored or 0) + int(names or 0)
    if is_locked and total <= room and rows + name_rows > MOST_SINCE:
        _keep(connection, session_id, total, last or kept.artifact, last_name or kept.name)
    return total


def _exactly(connection: Connection, session_id: int, adding: Mapping[bytes, int], *, is_locked: bool) -> int:
    """What the session would have stored, counted anew."""
    whose = {"whose": session_id, "now": datetime.now(UTC)}
    names = _names(connection, _NAMES_OF_SESSION, session_id)
    if is_locked:
        stored = _total(connection, _OF_SESSION, whose, {}) + names
        _keep(connection, session_id, stored, *connection.execute(_LAST, {"whose": session_id}).one())
    return _total(connection, _OF_SESSION, whose, adding) + names


def _keep(connection: Connection, session_id: int, stored: int, artifact: int, name: int) -> None:
    values = {"whose": session_id, "new_bytes": stored, "new_artifact": artifact, "new_name": name}
    connection.execute(_KEEP, values)


def _total(connection: Connection, query: Any, whose: Mapping[str, Any], adding: Mapping[bytes, int]) -> int:
    """What is stored, and of what is added the bytes that are not."""
    used, known = connection.execute(query, {**whose, "adding": list(adding)}).one()
    return int(used or 0) + sum(adding.values()) - int(known or 0)


def _names(connection: Connection, query: Any, whose: int | str) -> int:
    """What code keeps beside artifacts: exact values and definitions."""
    return int(connection.execute(query, {"whose": whose}).scalar() or 0)


def _sums(stored: ColumnElement[bool]) -> Any:
    there = case((BlobRow.digest.in_(bindparam("adding", expanding=True)), BlobRow.size_bytes), else_=0)
    return select(func.sum(BlobRow.size_bytes), func.sum(there)).where(stored)


# Built once: building takes longer than running what it builds.
_OF_SESSION = _sums(
    BlobRow.id.in_(
        select(ArtifactRow.blob_id).where(ArtifactRow.session_id == bindparam("whose"), is_live(bindparam("now")))
    )
)
_OF_TENANT = _sums((BlobRow.tenant == bindparam("whose")) & BlobRow.published_at.is_not(None))
_NAMES_OF_SESSION = select(func.sum(NameRow.size_bytes)).where(NameRow.session_id == bindparam("whose"))
_NAMES_OF_TENANT = select(func.sum(NameRow.size_bytes)).where(NameRow.tenant == bindparam("whose"))
MOST_SINCE = 16
"""So many rows are counted at each call before they are added to what is kept."""
_KEPT = select(*BYTES).where(SessionRow.id == bindparam("whose"))
_KEEP = (
    update(SessionRow)
    .where(SessionRow.id == bindparam("whose"))
    .values(
        stored_bytes=bindparam("new_bytes"),
        stored_artifact=bindparam("new_artifact"),
        stored_name=bindparam("new_name"),
    )
)
_ARTIFACTS = (
    select(func.sum(BlobRow.size_bytes), func.count(), func.max(ArtifactRow.id))
    .join_from(ArtifactRow, BlobRow, ArtifactRow.blob_id == BlobRow.id)
    .where(ArtifactRow.session_id == bindparam("whose"), ArtifactRow.id > bindparam("artifact"))
    .subquery()
)
_NAMES = (
    select(func.sum(NameRow.size_bytes), func.count(), func.max(NameRow.id))
    .where(
        NameRow.session_id == bindparam("whose"),
        text("kind IN ('source', 'exact')"),  # all that there are: said so that the index of their age serves
        NameRow.id > bindparam("name"),
    )
    .subquery()
)
_SINCE = select(*_ARTIFACTS.c, *_NAMES.c).join_from(_ARTIFACTS, _NAMES, true())
"""Bytes, number and last id of the artifacts and of the names that came since those that the session's row keeps."""
_LAST = select(
    *(
        select(func.coalesce(func.max(row.id), 0)).where(row.session_id == bindparam("whose")).scalar_subquery()
        for row in (ArtifactRow, NameRow)
    )
)
