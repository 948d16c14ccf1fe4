"""Processes that do something at the same moment; forked from one that has everything imported, which no race waits for.

Run as a script it is that one: it reads a race a line, and writes a line when all are through.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

SECONDS = 120
END_SECONDS = 10


class Stable:
    """Where the processes come from. They have nothing open and no thread, as if they were new."""

    def __init__(self) -> None:
        # A process that forks must have one thread.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def race(self, processes: int, script: str, *arguments: str) -> list[str]:
        """What each printed; fails with what one complained."""
        assert self._process.stdin and self._process.stdout
        with tempfile.TemporaryDirectory(prefix="byref-race-") as folder:
            order = {"processes": processes, "script": script, "arguments": arguments, "folder": folder}
            print(json.dumps(order), file=self._process.stdin, flush=True)
            codes = json.loads(self._process.stdout.readline())
            said = [
                [Path(folder, f"{number}.{kind}").read_text() for kind in ("out", "err")] for number in range(processes)
            ]
        complaints = [errors for _, errors in said if errors]
        assert not complaints, complaints
        assert codes == [0] * processes, codes
        return [output.strip() for output, _ in said]

    def close(self) -> None:
        """No race is on."""
        self._process.communicate(timeout=30)


def warm() -> None:
    """Import and compile what a race of engines would, and leave nothing open."""
    import compiled
    import psycopg
    import sqlalchemy.dialects.postgresql.psycopg

    import byref.stores
    import byref_sandbox

    assert psycopg and sqlalchemy.dialects.postgresql.psycopg and byref_sandbox and byref.stores
    compiled.share()
    with byref.Engine("sqlite:///:memory:") as engine:
        session = engine.session("warm", context_window=100_000)
        session.process([{"id": number} for number in range(3_000)], tool="t", call_id="c")
        session.process("text " * 20_000, tool="t")
        session.store_artifact("kept", name="kept")
        session.call("artifact_grep", {"artifact_id": "kept", "pattern": "k"}, call_id="d")
        session.ledger(), session.variables(), session.artifacts(), engine.sessions()
        session.end()
        engine.sweep()
    until = time.monotonic() + END_SECONDS  # Python counts a thread as ended a moment before the kernel does
    while (threads := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < until:
        time.sleep(0.01)
    assert threads == 1, f"{threads} threads in a process that forks"
    gc.collect()
    gc.freeze()


def serve() -> None:
    """Start each race that is ordered; returns in a process of a race with its script still to run, and at the end."""
    for line in sys.stdin:
        order = json.loads(line)
        ready, say_ready = os.pipe()
        wait, let_go = os.pipe()
        children = []
        for number in range(order["processes"]):
            if (child := os.fork()) == 0:
                os.close(ready)
                os.close(let_go)
                line_up(order, number, say_ready, wait)
                return
            children.append(child)
        os.close(say_ready)
        os.close(wait)
        with os.fdopen(ready, "rb") as those_ready:
            those_ready.read(len(children))  # less where one ends before it is ready
        os.close(let_go)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


SCRIPT: dict[str, Any] = {}
"""What is run, in a process of a race: its source and its names."""


def line_up(order: dict[str, Any], number: int, say_ready: int, wait: int) -> None:
    """Make this a process like one that was started with the script."""
    import signal

    signal.alarm(SECONDS)
    stream: IO[str]
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
        with Path(order["folder"], f"{number}.{name}").open("wb") as opened:
            os.dup2(opened.fileno(), stream.fileno())
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.argv = ["-c", *order["arguments"]]

    def go() -> None:
        os.write(say_ready, b".")
        os.close(say_ready)
        os.read(wait, 1)
        os.close(wait)

    SCRIPT.update(source=order["script"], names={"__name__": "__main__", "sys": sys, "go": go})


if __name__ == "__main__":
    warm()
    serve()
    if SCRIPT:
        exec(compile(SCRIPT["source"], "<race>", "exec"), SCRIPT["names"])
        # As the interpreter ends, but for taking itself apart, which copies every page that was shared.
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
