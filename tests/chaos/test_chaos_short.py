"""Some of what `make chaos` does, by its command, for a second each: what no other quick test breaks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCENARIOS = ("disk_full_of_sqlite", "sandbox_killed", "rolling_upgrade")


def test_full_disks_killed_sandboxes_and_rolling_upgrades() -> None:
    command = [sys.executable, str(Path(__file__).parent), "--seconds", "1", *SCENARIOS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": ok; ") == len(SCENARIOS), done.stdout
