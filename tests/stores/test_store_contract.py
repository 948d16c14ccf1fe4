"""The published contract suite over every store of ours, and over one that a third party might write."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_store import DictStore
from s3server import S3

from byref.stores import BlobStore, FileStore, MemoryStore, ObjectStore
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
