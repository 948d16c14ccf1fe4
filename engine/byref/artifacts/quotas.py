"""Quotas: how many bytes a session and a tenant may have stored.

What counts are payloads as they came, before compression, each once: equal bytes are stored once within a tenant, so a
second artifact of them is free. The session's sum is checked under the session's lock and holds exactly. The tenant's is
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

from sqlalchemy import ColumnElement, Connection, bindparam, case, func, select

from byref.artifacts.store import is_live
from byref.db.tables import ArtifactRow, BlobRow, NameRow
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
    connection: Connection, policy: Policy, *, tenant: str, session: str, session_id: int, adding: Mapping[bytes, int]
) -> Excess | None:
    """Return the quota that storing payloads, given as sizes by digest, would pass, told to the log; None: there is room."""
    found = _excess(connection, policy, tenant, session_id, adding)
    if found is not None:
        tell(found.reason, str(found), tenant=tenant, session=session, session_id=session_id)
    return found


def _excess(
    connection: Connection, policy: Policy, tenant: str, session_id: int, adding: Mapping[bytes, int]
) -> Excess | None:
    if policy.max_session_bytes is not None:
        whose: dict[str, Any] = {"whose": session_id, "now": datetime.now(UTC)}
        total = _total(connection, _OF_SESSION, whose, adding) + _names(connection, _NAMES_OF_SESSION, session_id)
        if total > policy.max_session_bytes:
            return Excess("max_session_bytes", total, policy.max_session_bytes)
    if policy.max_tenant_bytes is not None:
        total = _total(connection, _OF_TENANT, {"whose": tenant}, adding) + _names(connection, _NAMES_OF_TENANT, tenant)
        if total > policy.max_tenant_bytes:
            return Excess("max_tenant_bytes", total, policy.max_tenant_bytes)
    return None


def check(
    connection: Connection, policy: Policy, *, tenant: str, session: str, session_id: int, adding: Mapping[bytes, int]
) -> None:
    """Raise QuotaExceeded where `excess` finds one."""
    if found := excess(connection, policy, tenant=tenant, session=session, session_id=session_id, adding=adding):
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
