"""The hammer in its short form; `make chaos` is the long one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HAMMER = Path(__file__).parent / "hammer.py"


@pytest.mark.parametrize("kills", [0, 12])
@pytest.mark.parametrize("blobs", [None, "files"])
def test_processes_that_do_everything_at_once_leave_everything_in_order(
    shared_url: str, kills: int, blobs: str | None, tmp_path: Path
) -> None:
    # In a process of its own: it forks, and pytest has threads.
    command = [sys.executable, str(HAMMER), shared_url, "--seconds", "5", "--processes", "6", "--seed", str(7 + kills)]
    if blobs is not None:
        command += ["--blobs", str(tmp_path / blobs)]
    ran = subprocess.run([*command, "--kills", str(kills)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = dict(line.split(": ", 1) for line in ran.stdout.splitlines())
    done = json.loads(said["done"].replace("'", '"'))
    wanted = {"process", "read"} if kills else {"process", "small", "store", "read", "sweep"}
    assert wanted <= done.keys(), done
    assert f"{kills} kills" in ran.stdout
