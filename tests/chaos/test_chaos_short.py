"""Some of what `make chaos` does, each in its process, for a second: what no other quick test breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import kit
import pytest

SCENARIOS = [
    "disk_full_of_sqlite",
    pytest.param("calls_killed", marks=pytest.mark.slow),  # as quick tests of the journal are
    pytest.param("sandbox_killed", marks=pytest.mark.slow),  # as those of test_standby are, by the quick ones too
    pytest.param("rolling_upgrade", marks=pytest.mark.slow),
    pytest.param("servers_killed", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_fails_is_survived(scenario: str, postgres_server: str, tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).parent), "--alone", str(tmp_path), "--seconds", "1", "--seed", "8"]
    done = subprocess.run(
        [*command, scenario],
        env=os.environ | {kit.POSTGRESQL: postgres_server},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["name"], report["failures"]) == (scenario, [])
    assert report["figures"].get("kills", 1) > 0
