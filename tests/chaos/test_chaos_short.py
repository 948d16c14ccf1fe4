"""Some of what `make chaos` does, by its command, for a second each: what no other quick test breaks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCENARIOS = [
    ("disk_full_of_sqlite",),
    pytest.param(("sandbox_killed",), marks=pytest.mark.slow),  # as those of test_standby are, by the quick ones too
    pytest.param(("rolling_upgrade",), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("scenarios", SCENARIOS, ids=" ".join)
def test_what_fails_is_survived(scenarios: tuple[str, ...]) -> None:
    command = [sys.executable, str(Path(__file__).parent), "--seconds", "1", *scenarios]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": ok; ") == len(scenarios), done.stdout
