"""Runs tasks, each in a process of its own with a time limit: in plain Python, under the language alone, or behind both walls.

`python walls.py plain|language|both [libraries]` is the process that those of the tasks are forked from, as a zygote is: it imports what they
need once. It reads a task from each line of standard input and answers each with a line.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import checks
from disk import Disk

from byref_sandbox.code.analysis import Analysed
from byref_sandbox.code.libraries import LIBRARIES, named
from byref_sandbox.jail.jail import Terms, address_space

WALLS = ("plain", "language", "both")
SECONDS = 60
"""The processor time of a task; on a busy machine it may wait a few times as long."""
WALL_SECONDS = 240.0
MEMORY_BYTES = 2 << 30
_QUIET = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT")


class Walls:
    """Answers tasks one after the other. Those that need libraries which the sandbox loads only for them have a process of their own."""

    def __init__(self, walls: str) -> None:
        self._walls = walls
        self._servers: dict[bool, _Server] = {}

    def run(self, task: dict[str, Any]) -> checks.Cells:
        """Run one task."""
        needs = self._walls != "plain" and bool(_libraries(task))
        if needs not in self._servers:
            self._servers[needs] = _Server([self._walls, *(["libraries"] if needs else [])])
        return self._servers[needs].run(task)

    def close(self) -> None:
        """End the processes."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()


def _libraries(task: dict[str, Any]) -> list[str]:
    """The libraries that the sandbox would load for the code of a task."""
    texts = [task["code"], *task["cells"], *checks.contexts(task)]
    return named([Analysed.of(text) for text in texts])


class _Server:
    """The client's end of one process."""

    def __init__(self, arguments: list[str]) -> None:
        environment = {**os.environ, **dict.fromkeys(_QUIET, "1"), "MPLBACKEND": "Agg", "TZ": "UTC"}
        environment["OPENPYXL_LXML"] = "False"  # lxml would write to the real disk
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def run(self, task: dict[str, Any]) -> checks.Cells:
        """Run one task."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(task).encode() + b"\n")
        self._process.stdin.flush()
        return [(bool(ok), str(text)) for ok, text in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def _serve(walls: str, *more: str) -> None:
    os.nice(5)
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    jail = language = None
    if walls == "plain":
        for name in ("pandas", "numpy", "matplotlib.pyplot", "scipy.stats", "sklearn", "seaborn"):
            with contextlib.suppress(ImportError):
                __import__(name)
    else:
        from byref_sandbox.jail.jail import Jail

        if walls == "both":
            # As this user: once another, the process could import nothing more that a test needs, where only this one can read.
            jail = Jail(("identity",))
            jail.isolate()
        from byref_sandbox.language.policy import Language
        from byref_sandbox.zygote.warm import warm

        language = Language()
        warm(language)
        language.learn_plots()
        for library in LIBRARIES if more else ():
            language.learn(library)
        import unittest.mock  # noqa: F401  (tests want it)

        Disk(language).warm_up()

        if jail is not None:
            jail.prepare()
    gc.collect()
    gc.freeze()  # as zygotes do, in plain Python too: the collector would look through all that was imported
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_run(json.loads(line), language, jail)).encode() + b"\n")
        answers.flush()


def _run(task: dict[str, Any], language: Any, jail: Any) -> checks.Cells:
    place = tempfile.mkdtemp() if jail is None else ""
    read_end, write_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            _child(task, language, jail, place, write_end, parent)
        except BaseException as error:
            os.write(write_end, json.dumps([(False, f"Harness: {checks.described(error)}")]).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    parts, deadline = [], time.monotonic() + WALL_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        if select.select([read_end], [], [], left)[0]:
            part = os.read(read_end, 1 << 20)
            if not part:
                break
            parts.append(part)
    os.close(read_end)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if place:
        shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(ValueError):
        return list(json.loads(b"".join(parts)))
    if left <= 0 or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        return [(False, f"TimeLimit: more than {SECONDS} s")]
    return [(False, f"Crash: the process ended with status {status}")]


def _child(task: dict[str, Any], language: Any, jail: Any, place: str, reply: int, parent: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    python: checks.Python = checks.Plain()
    disk = None
    if language is not None:
        disk = Disk(language) if checks.uses_files(task) else None
        python = checks.InLanguage(language, disk)
    python.give(checks.given(task))
    if place:
        os.environ["TMPDIR"] = place
        os.chdir(place)
    warnings.simplefilter("ignore")
    if language is not None:
        checks.imports(task)
    if jail is None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    room = address_space() + MEMORY_BYTES
    if disk is not None:
        disk.mount()
    if jail is not None:
        jail.enter(Terms((reply,), room, SECONDS, parent))
    answer = json.dumps(checks.run(task, python)).encode()
    view = memoryview(answer)
    while view:
        view = view[os.write(reply, view) :]


if __name__ == "__main__":
    _serve(*sys.argv[1:])
