"""Room: whether payloads fit what a session and its tenant may store, before they are staged and once more at the commit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from sqlalchemy import Connection

from byref.artifacts import quotas, staging
from byref.artifacts.definitions import digest_of
from byref.artifacts.quotas import Excess, Owner
from byref.artifacts.staging import Content, Staged
from byref.conversation.scope import Scope
from byref.db.sums import Bytes
from byref.errors import QuotaExceeded, StorageFailure
from byref.stores.frames import line_count


def excess(scope: Scope, adding: Mapping[bytes, int], kept: int | None = None) -> Excess | None:
    """Return the quota that storing payloads, given as sizes by digest, would pass now; nothing is read where there is none.

    `kept`: the bytes that the session's row keeps, of payloads that are written where it is asked once more.
    """
    if not adding or quotas.is_far(scope.policy, kept, adding):
        return None
    owner = owner_of(scope)
    found = scope.read(lambda connection: quotas.excess(connection, scope.policy, owner, adding))
    if found is not None and not found.is_remembered and scope.host is None:
        with suppress(StorageFailure):
            scope.write(lambda connection: quotas.remember(connection, found, owner))
    return found


def check(scope: Scope, adding: Mapping[bytes, int]) -> None:
    """Raise QuotaExceeded where `excess` finds one, or a payload is larger than any may be."""
    if found := quotas.too_large(scope.policy, max(adding.values(), default=0), owner_of(scope)) or excess(
        scope, adding
    ):
        raise QuotaExceeded(str(found))


def excess_within(
    connection: Connection, scope: Scope, adding: Mapping[bytes, int], kept: Bytes | None = None
) -> Excess | None:
    """As `excess`, under the session's lock; `kept` is what its row keeps, if that is known already."""
    return quotas.excess(connection, scope.policy, owner_of(scope), adding, is_locked=True, kept=kept)


def check_within(connection: Connection, scope: Scope, adding: Mapping[bytes, int]) -> None:
    """Raise QuotaExceeded where there is an excess, under the session's lock."""
    if found := excess_within(connection, scope, adding):
        raise QuotaExceeded(str(found))


def stage(scope: Scope, data: bytes, content_type: str, beside: Mapping[bytes, int] | None = None) -> Staged:
    """Write bytes where nobody sees them yet; QuotaExceeded if there is no room for them.

    `beside` are sizes, by digest, of what will be stored with them.
    """
    digest = digest_of(data)
    check(scope, {**(beside or {}), digest: len(data)})
    return staging.stage(scope.place, Content(data, digest, line_count(data), content_type))


def owner_of(scope: Scope) -> Owner:
    """Return whose quotas a scope's payloads count for."""
    return Owner(scope.tenant, scope.name, scope.row)
