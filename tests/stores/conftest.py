"""Each kind of store for an engine, and an S3 server that goes wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from placed import Opened, Placed, bucket_at, files_at
from s3server import S3, Faults, faulty

from byref.stores import MemoryStore
from byref_sandbox import Sandbox

PAIRS = ({"files", "sqlite"}, {"memory", "postgresql"}, {"s3", "sqlite"})
"""Which store a quick run has with which database: a store knows nothing of where its rows are."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A quick run has each store with one database and one end of a host's transaction, and an S3 server's where a test is
    marked `s3(reason)`.
    """
    here = os.path.dirname(__file__) + os.sep
    for item in items:
        if not str(item.path).startswith(here):
            continue
        cases = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        pair = {cases[name] for name in ("placed", "shared_url") if name in cases}
        is_one = pair in PAIRS and cases.get("commits") in (None, "memory" not in pair)
        if (len(pair) == 2 and not is_one) or ("s3" in pair and item.get_closest_marker("s3") is None):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def faulty_s3(s3: S3) -> Iterator[tuple[S3, Faults]]:
    """The same behind a proxy that goes wrong as it is told."""
    with faulty(s3) as proxied:
        yield proxied


@pytest.fixture(params=["memory", "files", "s3"])
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
