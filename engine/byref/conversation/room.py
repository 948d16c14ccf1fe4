"""Check payloads against the quotas of a session and its tenant: before they are staged, and again at the commit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from sqlalchemy import Connection

from byref.artifacts import quotas, staging
from byref.artifacts.names import digest_of
from byref.artifacts.quotas import Came, Excess, Owner
from byref.artifacts.staging import Content, Staged
from byref.conversation.scope import Scope
from byref.db.sums import Bytes
from byref.errors import QuotaExceeded, StorageFailure
from byref.stores.frames import Ahead, line_count


def excess(scope: Scope, adding: Mapping[bytes, int], kept: int | None = None) -> Excess | None:
    """Return the quota that storing payloads (size by digest) would exceed now, or None; reads nothing if no quota is near.

    `kept` is the sum in the session's row. Give it only if the quota is checked again when the payloads are written.
    """
    if not adding or quotas.is_far(scope.policy, kept, adding):
        return None
    owner = owner_of(scope)
    found = scope.read(lambda connection: quotas.excess(connection, scope.policy, owner, adding))
    if found is not None and not found.is_remembered and scope.host is None:
        with suppress(StorageFailure):
            scope.write(lambda connection: quotas.remember(connection, found, owner))
    return found


def most_stored(scope: Scope) -> int | None:
    """Return an upper bound of the bytes that the session has stored, for several calls of `check`; None where that is no help."""
    if scope.policy.max_session_bytes is None or scope.policy.max_tenant_bytes is not None:
        return None
    return scope.read(lambda connection: quotas.most_stored(connection, scope.row))


def check(scope: Scope, adding: Mapping[bytes, int], stored: int | None = None) -> None:
    """Raise QuotaExceeded if `excess` finds a quota, or a payload is larger than `max_artifact_bytes`.

    With `stored`, from `most_stored`, nothing is read if that leaves room.
    """
    found: object = quotas.too_large(scope.policy, max(adding.values(), default=0), owner_of(scope))
    limit = scope.policy.max_session_bytes
    if found is None and (stored is None or limit is None or stored + sum(adding.values()) > limit):
        found = excess(scope, adding)
    if found is not None:
        raise QuotaExceeded(str(found))


def excess_within(
    connection: Connection,
    scope: Scope,
    adding: Mapping[bytes, int],
    kept: Bytes | None = None,
    came: Came | None = None,
) -> Excess | None:
    """Do what `excess` does under the session's lock; `kept` and `came` are as in `quotas.excess`."""
    return quotas.excess(connection, scope.policy, owner_of(scope), adding, is_locked=True, kept=kept, came=came)


def check_within(connection: Connection, scope: Scope, adding: Mapping[bytes, int]) -> None:
    """Raise QuotaExceeded if storing payloads would exceed a quota; the caller holds the session's lock."""
    if adding and (found := excess_within(connection, scope, adding)):
        raise QuotaExceeded(str(found))


def stage(
    scope: Scope,
    data: bytes,
    content_type: str,
    beside: Mapping[bytes, int] | None = None,
    *,
    ahead: Ahead | None = None,
    stored: int | None = None,
) -> Staged:
    """Stage bytes as an unpublished blob, or prepare them for the commit; QuotaExceeded if there is no room for them.

    `beside` has the sizes, by digest, of other payloads that will be stored with them; `ahead` are the frames from `staging.begun`;
    `stored` is as in `check`.
    """
    digest = digest_of(data)
    check(scope, {**(beside or {}), digest: len(data)}, stored)
    return staging.prepare(scope.place, Content(data, digest, line_count(data), content_type), ahead)


def owner_of(scope: Scope) -> Owner:
    """Return the session and tenant for whose quotas a scope's payloads count."""
    return Owner(scope.tenant, scope.name, scope.row)
