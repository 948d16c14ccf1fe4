"""A store that a host writes for itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from byref.errors import ArtifactMissing
from byref.stores import check_key


class DictStore:
    """The store of docs/stores.md, in twenty lines."""

    name, compresses = "dict", True

    def __init__(self) -> None:
        self.objects: dict[str, tuple[datetime, bytes]] = {}

    def write(self, key: str, parts: Iterable[bytes], *, content_type: str) -> None:
        self.objects[check_key(key)] = datetime.now(UTC), b"".join(parts)

    def read(self, key: str, offset: int, size: int) -> bytes:
        _, data = self.objects.get(check_key(key), (None, b""))
        if offset < 0 or size < 0:
            raise ValueError(f"{offset=}, {size=}")
        if key not in self.objects or offset + size > len(data):
            raise ArtifactMissing(f"{key}: no bytes {offset} to {offset + size}")
        return data[offset : offset + size]

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.objects.pop(check_key(key), None)

    def keys(self, *, older_than: datetime) -> Iterator[str]:
        return iter([key for key, (written, _) in self.objects.items() if written < older_than])

    def uri(self, key: str) -> str | None:
        return check_key(key) and None
