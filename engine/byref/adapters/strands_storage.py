"""Strands' two storage protocols over byref: keys and bytes for sessions, snapshots and memory; offloaded content by reference."""

from __future__ import annotations

import asyncio
import builtins
import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeVar

from sqlalchemy import ColumnElement, Connection, Text, delete, func, literal, select, type_coerce

from byref import ledger, lifecycle
from byref.adapters.extras import missing
from byref.artifacts import blobs
from byref.db.database import retried
from byref.db.tables import ArtifactRow, EscapedText
from byref.engine import Engine
from byref.errors import ArtifactMissing, ByrefError
from byref.outputs.blocks import MARKS
from byref.outputs.output import OCTETS, is_textual
from byref.policy import Policy
from byref.session import Session
from byref.tools.keepers import MAX_NAME_CHARS, insert_value, store_value

try:
    from strands.storage import Storage
    from strands.storage import storage as _unified
    from strands.storage.search import KeywordSearchStrategy, SearchStrategy, StorageSearchResult
    from strands.types.exceptions import StorageError
except ImportError as error:
    raise missing("byref.adapters.strands_storage", "strands-agents", "strands") from error

_T = TypeVar("_T")
_NAMESPACED: Final = getattr(_unified, "_NAMESPACED", None)
"""By this Strands knows that a host has given a view its namespace, and gives it none of its own."""
_OPAQUE: Final = f"{OCTETS}; of="
"""Before the content type of text that byref would store in another encoding."""
_OFFLOADED: Final = "offloaded/"
MOST_READS: Final = 5
"""Of a value that others overwrite all the time."""


class ByrefStorage(Storage[str, str]):
    """Strands' `Storage`: bytes under keys, in one byref conversation of the tenant that no model sees.

    For `Agent(storage=…)`, `SnapshotSessionManager(storage=…)`, `ContextOffloader(storage=…)` and whatever else takes one.
    What is written stays until it is overwritten, deleted or cleared: it has no TTL and no `max_session_bytes`, whatever
    the policy says. Keys are as those of Strands' own storages (`/` separates, `..` and backslashes are refused), and have
    at most 256 characters. Writing and deleting are atomic; of writes at once the last to commit holds.

    `search_strategy` is one of Strands' and is told of every write; without one `search` compares words.

    Raises:
        StorageError: of every method: the key is none, or byref could not do it; the cause is in `__cause__`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        tenant: str = "default",
        session: str = "strands-storage",
        policy: Policy | None = None,
        search_strategy: SearchStrategy[Any] | None = None,
    ) -> None:
        unbounded = replace(policy or engine.policy, ttl=None, ledger_ttl=None, max_session_bytes=None)
        self._place = _Place(engine, tenant, session, unbounded)
        self._search_strategy = search_strategy
        self._prefix = ""

    async def write(self, key: str, data: bytes) -> None:
        """Store data under key, overwriting what is there."""
        name, kept = _key(key), bytes(data)
        await _in_thread(lambda: self._place.write(self._prefix + name, kept))
        if self._search_strategy is not None:
            try:
                await self._search_strategy.index(self, name, data)
            except Exception as error:
                raise StorageError(f"Wrote '{key}' but indexing failed") from error

    async def read(self, key: str) -> bytes | None:
        """Return the bytes under key, None if there are none."""
        name = self._prefix + _key(key)
        return await _in_thread(lambda: self._place.read(name))

    async def delete(self, key: str) -> None:
        """Delete what is under key, if anything is."""
        name = self._prefix + _key(key)
        await _in_thread(lambda: self._place.delete(ArtifactRow.name == name))

    async def list(self, query: str = "") -> builtins.list[str]:
        """Return the keys that begin with a prefix, sorted."""
        prefix = self._prefix + _prefix(query)
        names = await _in_thread(lambda: self._place.names(prefix))
        return sorted(name[len(self._prefix) :] for name in names)

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """Return what matches a query, best first."""
        strategy = KeywordSearchStrategy() if self._search_strategy is None else self._search_strategy
        return await strategy.search(self, query)

    def namespace(self, prefix: str) -> Self:
        """Return a view of the keys below a prefix, which share this storage's data and strategy."""
        scoped = copy.copy(self)
        if below := _prefix(prefix).rstrip("/"):
            scoped._prefix = f"{self._prefix}{below}/"
        scoped._namespaced = _NAMESPACED  # type: ignore[attr-defined]
        return scoped

    def clear(self) -> None:
        """Delete all that this storage, or this view of it, holds; the only method that waits for the database itself."""
        with _as_storage_error():
            self._place.delete(_begins(self._prefix))


class ByrefOffloadStorage:
    """The context offloader's own `Storage`: content under references, as artifacts of one conversation.

    For `ContextOffloader(storage=…)`. References are ids of artifacts, so that byref's tools and `$references` of the same
    conversation reach what is offloaded; it expires by the policy's `ttl` after it was last used.

    Raises:
        ByrefError: of `store`: byref could not do it. The offloader then leaves the result as it is.
    """

    def __init__(self, engine: Engine, *, session: str, tenant: str = "default", policy: Policy | None = None) -> None:
        self._place = _Place(engine, tenant, session, policy)

    async def store(self, key: str, content: bytes, content_type: str = "text/plain") -> str:
        """Store content, each time under a reference of its own; the artifact is named `offloaded/{key}`."""
        kept = bytes(content)
        is_recoded = is_textual(content_type) and kept.startswith(MARKS)
        said = f"{_OPAQUE}{content_type}" if is_recoded else content_type
        name = f"{_OFFLOADED}{key}"[:MAX_NAME_CHARS]
        stored = await asyncio.to_thread(
            lambda: self._place.opened().store_artifact(kept, name=name, content_type=said)
        )
        return stored.id

    async def retrieve(self, reference: str) -> tuple[bytes, str]:
        """Return the content of a reference, to the byte, and its content type.

        Raises:
            KeyError: there is none, or it has expired.
        """
        return await asyncio.to_thread(self._retrieve, reference)

    def clear(self) -> None:
        """Delete all that was offloaded in the conversation; waits for the database."""
        self._place.delete(_begins(_OFFLOADED))

    def _retrieve(self, reference: str) -> tuple[bytes, str]:
        found = self._place.opened().get_artifact(reference)
        if found is None or reference not in (found.id, found.pointer):
            raise KeyError(f"Reference not found: {reference}")
        return found.payload.read(), found.content_type.removeprefix(_OPAQUE)


@dataclass(frozen=True, slots=True)
class _Place:
    """A conversation that keeps artifacts by name."""

    engine: Engine
    tenant: str
    session: str
    policy: Policy | None

    def opened(self) -> Session:
        return self.engine.session(self.session, tenant=self.tenant, policy=self.policy)

    def write(self, name: str, data: bytes) -> None:
        """Put a value in the place of all that has its name, in one transaction."""
        if len(name) > MAX_NAME_CHARS:
            raise StorageError(f"Invalid storage key '{name[:100]}…': longer than {MAX_NAME_CHARS} characters")
        scope = self.opened()._scope
        staged, about = store_value(scope, data, name=name, content_type=OCTETS, preview_chars=0)

        def work(connection: Connection) -> None:
            ledger.lock(connection, scope.row)
            new = insert_value(connection, scope, staged, about, name=name, origin="host", step=None)
            _delete(connection, scope.row, ArtifactRow.name == name, ArtifactRow.public_id != new)

        scope.write(work)

    def read(self, name: str) -> bytes | None:
        """Return the value of a name; one that is overwritten while it is read is read anew."""
        session = self.opened()
        for _ in range(MOST_READS - 1):
            with suppress(ArtifactMissing):
                return _value(session, name)
        return _value(session, name)

    def names(self, prefix: str) -> list[str]:
        def work(connection: Connection) -> list[str]:
            opened = lifecycle.find_session(connection, self.tenant, self.session)
            if opened is None:
                return []
            named = select(ArtifactRow.name).where(ArtifactRow.session_id == opened.row, _begins(prefix)).distinct()
            return [name for name in connection.execute(named).scalars() if name is not None]

        return self.engine.database.read(work)

    def delete(self, *which: ColumnElement[bool]) -> None:
        def work(connection: Connection) -> None:
            opened = lifecycle.find_session(connection, self.tenant, self.session)
            if opened is not None:
                _delete(connection, opened.row, *which)

        retried(self.engine.database.write, work)


def _value(session: Session, name: str) -> bytes | None:
    found = session.get_artifact(name)
    return found.payload.read() if found is not None and found.name == name else None


def _delete(connection: Connection, session: int, *which: ColumnElement[bool]) -> None:
    """Delete artifacts that no variable and no step refers to: those of the host."""
    gone = delete(ArtifactRow).where(ArtifactRow.session_id == session, ArtifactRow.origin == "host", *which)
    ids = set(connection.execute(gone.returning(ArtifactRow.blob_id)).scalars())
    blobs.delete_unused(connection, sorted(ids))


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Run work off the event loop; what byref raises is a StorageError."""
    with _as_storage_error():
        return await asyncio.to_thread(work)


@contextmanager
def _as_storage_error() -> Iterator[None]:
    try:
        yield
    except ByrefError as error:
        raise StorageError(f"{type(error).__name__}: {error}") from error


def _key(key: str) -> str:
    name = _prefix(key).rstrip("/")
    if not name:
        raise StorageError("Storage key must not be empty")
    return name


def _prefix(prefix: str) -> str:
    if "\\" in prefix:
        raise StorageError(f"Invalid storage key {prefix[:100]!r}: backslashes are not allowed")
    path = re.sub("/+", "/", prefix).lstrip("/")
    if ".." in path.split("/"):
        raise StorageError(f"Invalid storage key {prefix[:100]!r}: '..' path segments are not allowed")
    return path


def _begins(prefix: str) -> ColumnElement[bool]:
    """The condition of names that begin with a prefix, compared as they are stored: LIKE takes no account of case on SQLite."""
    stored = literal(prefix, EscapedText())
    return func.substr(type_coerce(ArtifactRow.name, Text), 1, func.length(stored)) == stored
