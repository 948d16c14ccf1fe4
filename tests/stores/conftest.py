"""A real S3 server for all tests of stores, and each kind of store for an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from placed import Opened, Placed, bucket_at, files_at
from s3server import S3, Faults, faulty, s3_server

from byref.stores import MemoryStore
from byref_sandbox import Sandbox

PAIRS = ({"files", "sqlite"}, {"memory", "postgresql"})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A quick run has each store and each database, but not each store with each database, nor each end of a host's
    transaction with each.
    """
    for item in items:
        cases = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        pair = {cases[name] for name in ("placed", "shared_url") if name in cases}
        is_one = pair in PAIRS and cases.get("commits") in (None, "files" in pair)
        if len(pair) == 2 and not is_one and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3 server."""
    with s3_server() as server:
        yield server


@pytest.fixture
def faulty_s3(s3: S3) -> Iterator[tuple[S3, Faults]]:
    """The same behind a proxy that goes wrong as it is told."""
    with faulty(s3) as proxied:
        yield proxied


@pytest.fixture(params=["memory", "files", pytest.param("s3", marks=pytest.mark.slow)])
def placed(request: pytest.FixtureRequest, tmp_path: Path) -> Placed:
    """Each kind of store in turn, empty."""
    if request.param == "memory":
        store = MemoryStore()
        return Placed("memory", store, lambda: store, None)
    if request.param == "files":
        return files_at(tmp_path / "blobs")
    server: S3 = request.getfixturevalue("s3")
    return bucket_at(server, server.bucket())


@pytest.fixture
def opened(sqlite_url: str, sandbox: Sandbox) -> Iterator[Opened]:
    """Opens engines on one SQLite file."""
    opener = Opened(sqlite_url, sandbox)
    yield opener
    for engine in opener.engines:
        engine.close()


@pytest.fixture
def opened_on(shared_url: str, sandbox: Sandbox) -> Iterator[Opened]:
    """Opens engines on one database, of each kind in turn."""
    opener = Opened(shared_url, sandbox)
    yield opener
    for engine in opener.engines:
        engine.close()
