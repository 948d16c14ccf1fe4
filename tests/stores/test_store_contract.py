"""The published contract suite over every store of ours, and over one that a third party might write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from s3server import S3

from byref.errors import ArtifactMissing
from byref.stores import BlobStore, FileStore, MemoryStore, ObjectStore, check_key
from byref.stores.contract import BlobStoreContract


class TestMemoryStore(BlobStoreContract):
    @pytest.fixture
    def store(self) -> BlobStore:
        return MemoryStore()


class TestFileStore(BlobStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> BlobStore:
        return FileStore(tmp_path / "blobs")


class TestObjectStore(BlobStoreContract):
    @pytest.fixture
    def store(self, s3: S3) -> BlobStore:
        return ObjectStore(f"s3://{s3.bucket()}", prefix="tool-results/", **s3.settings)


class TestThirdParty(BlobStoreContract):
    @pytest.fixture
    def store(self) -> BlobStore:
        return DictStore()


class DictStore:
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
