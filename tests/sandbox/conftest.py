"""One sandbox for all tests of a worker; what it must survive is tested on sandboxes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from byref_sandbox import Limits, Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(Limits(wall_seconds=10, cpu_seconds=5, memory_bytes=512 << 20)) as started:
        yield started


@pytest.fixture
def script() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a Python script in a process of its own and gives what it printed."""

    def run(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", source, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            cwd="/",
        )

    return run
