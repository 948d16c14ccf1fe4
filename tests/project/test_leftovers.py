"""A run of tests that is killed leaves nothing running, and no folder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import leftovers
import pytest

RUN = """
import subprocess, sys, time
sys.path.append(sys.argv[1])
import leftovers, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands ignore it, and so do their children
print(leftovers.watch())
for command in sys.argv[2:]:
    subprocess.Popen(["sh", "-c", command], start_new_session=True)
print("begun", flush=True)
time.sleep(600)
"""
STUBBORN = "trap '' TERM INT; while true; do sleep 1; done"


def soon(what: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not what() and time.monotonic() < until:
        time.sleep(0.05)
    return what()


def left(folder: str) -> dict[int, str]:
    return leftovers.marked(f"{leftovers.MARK}={folder}".encode())


def begun(*commands: str, through: tuple[str, ...] = (), **environment: str) -> tuple[subprocess.Popen[str], str]:
    """A run that has started these commands, and its folder."""
    examples = str(Path(leftovers.__file__).parent)
    run = subprocess.Popen(
        [*through, sys.executable, "-c", RUN, examples, *commands],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | environment,
    )
    assert run.stdout is not None
    folder = run.stdout.readline().strip()
    assert run.stdout.readline() == "begun\n"
    run.stdout.close()
    return run, folder


@pytest.mark.parametrize(
    ("how", "command"),
    [
        (signal.SIGKILL, "sleep 600"),
        pytest.param(signal.SIGTERM, "sleep 600", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, "sleep 600", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, STUBBORN, marks=pytest.mark.slow),
    ],
)
def test_what_a_killed_run_had_started_ends(how: signal.Signals, command: str) -> None:
    run, folder = begun(command)
    assert soon(lambda: bool(left(folder)), 10) and Path(folder).is_dir()
    run.send_signal(how)
    run.wait(10)
    assert soon(lambda: not left(folder) and not Path(folder).exists(), 20)


def test_a_run_ends_with_the_make_that_began_it() -> None:
    # The shell stands for make: it is killed, and knows nothing of the run any more.
    make, folder = begun("sleep 600", through=("sh", "-c", '"$@"; true', "make"), MAKELEVEL="1")
    [run] = map(int, Path(f"/proc/{make.pid}/task/{make.pid}/children").read_text().split())
    make.kill()
    make.wait(10)
    assert soon(lambda: leftovers.ended(run) and not left(folder) and not Path(folder).exists(), 20)


FILES = ("journeys/test_races.py", "gateway/test_gateway.py", "stores/test_engine_stores.py")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["pytest", "its workers"])
def test_a_real_run_ends_whole(victim: str, tmp_path: Path) -> None:
    """A PostgreSQL, sandboxes, servers and what they are forked from, in two workers."""
    tests = [str(Path(__file__).parents[1] / name) for name in FILES]
    with (tmp_path / "log").open("w") as log:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "not slow", *tests],
            stdout=log,
            stderr=log,
            cwd=Path(__file__).parents[2],
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        )
    marks: set[str] = set()

    def runs_a_postgresql() -> bool:
        """Below the run is everything that it started; the marks of its workers are those of all."""
        environment: list[bytes] = []
        for child in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split():
            with contextlib.suppress(OSError):  # it has ended
                environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            for line in environment:
                if line.startswith(leftovers.MARK.encode() + b"=") and b"byref-run-" in line:
                    marks.add(line.decode().partition("=")[2])
        return any("postgres" in command for folder in marks for command in left(folder).values())

    try:
        assert soon(runs_a_postgresql, 120), (tmp_path / "log").read_text()
        time.sleep(5)
        if victim == "pytest":
            run.kill()
        else:
            for folder in marks:
                for process, command in left(folder).items():
                    if "exec(eval(" in command:  # execnet's
                        os.kill(process, signal.SIGKILL)
            time.sleep(1)
            run.terminate()
        run.wait(60)
    finally:
        run.kill()
        run.wait()
    ours = {folder for folder in marks if folder != leftovers.folder()}
    assert ours and soon(lambda: not any(map(left, ours)) and not any(Path(folder).exists() for folder in ours), 30)
