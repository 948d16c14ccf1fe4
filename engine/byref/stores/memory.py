"""Objects in this process's memory: for development and tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from byref.errors import ArtifactMissing
from byref.stores.keys import check_key, check_range
from byref.stores.protocol import check_model_readable


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytearray
    content_type: str
    written_at: datetime


class MemoryStore:
    """Keeps objects as long as the process lives, or until `clear()`; a forked child continues with its own copy.

    Every method is a single dict operation, which is atomic: there is no lock that a fork could leave locked. Models can read
    its objects only with the session's tools, so `model_readable=True` is a ConfigurationError.
    """

    name = "memory"
    compresses = True

    def __init__(self, *, model_readable: bool = False) -> None:
        self.model_readable = model_readable
        check_model_readable(self)
        self._objects: dict[str, _Object] = {}

    def write(self, key: str, parts: Iterable[bytes], *, content_type: str) -> None:
        """Write an object, replacing any with the same key."""
        check_key(key)
        data = bytearray()
        for part in parts:
            data += part
        self._objects[key] = _Object(data, content_type, datetime.now(UTC))

    def read(self, key: str, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes from `offset`; `ArtifactMissing` if the object does not exist or is shorter."""
        check_range(offset, size)
        found = self._object(key)
        if offset + size > len(found.data):
            raise ArtifactMissing(
                f"in the store 'memory' {key!r} ends at byte {len(found.data)}, before {offset + size}"
            )
        return bytes(memoryview(found.data)[offset : offset + size])

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; missing objects are no error."""
        for key in [check_key(key) for key in keys]:
            self._objects.pop(key, None)

    def keys(self, *, older_than: datetime) -> Iterator[str]:
        """Yield the key of every object last written before `older_than`."""
        for key, found in list(self._objects.items()):
            if found.written_at < older_than:
                yield key

    def uri(self, key: str) -> None:
        """Return None: no other program can read it."""
        check_key(key)

    def content_type(self, key: str) -> str:
        """Return the content type with which an object was written; `ArtifactMissing` if there is no such object."""
        return self._object(key).content_type

    @property
    def size_bytes(self) -> int:
        """The number of bytes of all objects together."""
        return sum(len(found.data) for found in list(self._objects.values()))

    def clear(self) -> None:
        """Remove every object; reading artifacts whose bytes were here then raises `ArtifactMissing`."""
        self._objects.clear()

    def _object(self, key: str) -> _Object:
        found = self._objects.get(check_key(key))
        if found is None:
            raise ArtifactMissing(f"the store 'memory' has no object {key!r}")
        return found
