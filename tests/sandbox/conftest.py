"""A Python script in a process of its own; a sandbox that may be broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from byref_sandbox import Limits, Sandbox


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def lasting_breakable() -> Iterator[Sandbox]:
    with Sandbox(Limits(wall_seconds=5, cpu_seconds=5)) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def breakable(lasting_breakable: Sandbox) -> Sandbox:
    """A sandbox whose processes tests may break, without the sessions of other files' tests."""
    with lasting_breakable._lock:
        lasting_breakable._forget_sessions()
    return lasting_breakable.start()
