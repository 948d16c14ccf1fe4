"""A Python script in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest


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
