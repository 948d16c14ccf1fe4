"""The soak's verdict, and its load for a moment; `make soak` is the long one."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from samples import GROWTH, sample, slope, verdicts

CHANCE = random.Random(3)


def series(name: str, per_sample: float) -> list[dict[str, float]]:
    """Two hundred samples of a warm-up and a plateau with noise, on which one thing grows."""
    plateau = dict.fromkeys(GROWTH, 100.0)
    return [
        {
            each: value * min(1.0, at / 50) + CHANCE.uniform(-2, 2) + (at * per_sample if each == name else 0)
            for each, value in plateau.items()
        }
        for at in range(200)
    ]


@pytest.mark.parametrize("name", GROWTH)
def test_what_grows_is_told_from_what_comes_and_goes(name: str) -> None:
    assert [verdict.name for verdict in verdicts(series(name, 10.0)) if not verdict.is_flat] == [name]


def test_a_plateau_and_a_fall_are_flat() -> None:
    assert all(verdict.is_flat for name in GROWTH for verdict in verdicts(series(name, -0.2)))
    assert slope([5, 4, 3]) == -1
    assert slope([7]) == 0


def test_a_process_is_looked_at_by_its_id() -> None:
    script = "import time; print('up', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline()
        seen = sample([child.pid], [], 5_000_000, [0.002, 0.001, 0.5])
        child.kill()
    assert 1 < seen["host MB"] < 100
    assert (seen["threads"], seen["processes"], seen["database MB"], seen["p50 ms"]) == (1, 1, 5, 2)
    assert sample([child.pid], [], 0, []) == dict.fromkeys(GROWTH, 0) | {"processes": 1}


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--processes", "2"], ["--http"]])
def test_a_short_soak_leaves_nothing(more: list[str]) -> None:
    command = [
        sys.executable,
        str(Path(__file__).parent),
        "--minutes",
        "0.4",
        "--every",
        "1",
        "--sessions",
        "6",
        "--workers",
        "4",
    ]
    ran = subprocess.run([*command, *more], capture_output=True, text=True, timeout=400)
    assert "acts in" in ran.stdout, ran.stdout + ran.stderr
    # So short a run is still warming up: what it may not do is fail, or leave something.
    told = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    assert [line for line in told if "rises by" not in line and "too short" not in line] == [], ran.stdout
