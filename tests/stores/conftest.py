"""A real S3 server for all tests of stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from s3server import S3, Faults, faulty, s3_server


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
