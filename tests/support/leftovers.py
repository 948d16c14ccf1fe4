"""Ends what a run of tests leaves running, however the run ended: by itself, by a signal, by SIGKILL.

`watch()` marks this process's environment, which all that it starts from then on inherits, and starts a watcher in a session
of its own: `leftovers.py FOLDER PROCESS…`. As soon as one of the processes has ended, the watcher ends every process that has
the mark, says which those were, and removes the folder.
"""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

MARK = "BYREF_TEST_RUN"
"""In the environment of all that a run starts: the folder for what has to go with the run."""
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
"""Where files wait for no disk, and the bytes that have to be free there: a run's PostgreSQL takes a tenth of them."""
GRACE, PATIENCE = 1.0, 5.0
"""Seconds for a process to end by itself, and to end once it is asked to."""


def watch() -> Path:
    """Have all that this process starts ended after it, and after `make` where it was started by that; return the folder."""
    folder = Path(tempfile.mkdtemp(prefix="byref-run-", dir=_in_memory()))
    os.environ[MARK] = str(folder)
    lives = [os.getpid(), *([os.getppid()] if "MAKELEVEL" in os.environ else [])]
    command = [sys.executable, "-I", "-S", __file__, str(folder), *map(str, lives)]
    os.waitpid(os.posix_spawn(command[0], command, {}, setsid=True), 0)
    return folder


def _in_memory() -> Path | None:
    """A file system in memory with room for a run; None: where temporary files belong."""
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    return MEMORY if roomy else None


def folder() -> str | None:
    """Where this run's own folders belong; None outside a run."""
    return os.environ.get(MARK)


def ended(process: int) -> bool:
    """Whether a process is gone, but perhaps for its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def marked(mark: bytes) -> dict[int, str]:
    """The processes that have the mark, and what each runs."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (place / "environ").read_bytes().split(b"\0"):
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended, or is another user's
            continue
    return found


def end(run: int, mark: bytes) -> None:
    """End a run and all that has its mark: asked first, PostgreSQL by a second signal for "now", then killed."""
    started = time.monotonic()
    asked: set[int] = set()
    looks = 0  # at nobody: a program that is just being begun has no environment for a moment
    while looks < 3:
        time.sleep(0.05)
        left = marked(mark) | ({} if ended(run) else {run: "the run itself"})
        looks = 0 if left else looks + 1
        passed = time.monotonic() - started
        for process, command in left.items():
            if passed < GRACE or (process in asked and passed < GRACE + PATIENCE):
                continue
            if process not in asked:
                print(f"left running by the tests, ended now: {process} {command[:150]}", file=sys.stderr, flush=True)
            asked.add(process)
            for number in [signal.SIGTERM, signal.SIGINT] if passed < GRACE + PATIENCE else [signal.SIGKILL]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)


def main(folder: str, *processes: str) -> None:
    """Be the watcher, and nobody's child: what is below a run is what its tests started."""
    if os.fork():
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    run, *others = map(int, processes)
    while not any(map(ended, (run, *others))):
        time.sleep(0.2)
    end(run, f"{MARK}={folder}".encode())
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
