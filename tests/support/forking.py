"""Programs that are forked from a process that has imported what they import, which takes a second or more.

`forking.py SOCKET MODULE…` has the modules imported and an engine used, and forks a program for each caller until its standard input ends.
`forking.py SOCKET FILE ARGUMENT…`, or `-m MODULE` for the file, is such a caller: the program has its streams, its folder,
its environment and, but for SIGKILL, its signals; each ends with the other.
"""

import contextlib
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MAX_BYTES = 1 << 17
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
START_SECONDS = 60


class Forks:
    """Where programs are forked that import some modules; it is started when it is first used."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def command(self, *words: str) -> list[str]:
        """The command for what would be told a Python: `-m MODULE ARGUMENT…` or `FILE ARGUMENT…`."""
        if self._folder is None:
            from leftovers import folder  # callers have no path to it

            self._folder = Path(tempfile.mkdtemp(prefix="byref-forks-", dir=folder()))
            self._process = self._started(self._folder / "socket")
        return [sys.executable, "-I", "-S", __file__, str(self._folder / "socket"), *words]

    def go_first(self) -> None:
        """Let this process's shells find `alembic`, `byref` and `python` here."""
        words = {"alembic": ("-m", "alembic"), "byref": ("-m", "byref.cli"), "python": ()}
        commands = {name: shlex.join(self.command(*first)) for name, first in words.items()}
        assert self._folder is not None
        folder = self._folder / "bin"
        folder.mkdir(exist_ok=True)
        for name, command in commands.items():
            (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (folder / name).chmod(0o755)
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"

    def close(self) -> None:
        """What was forked is left alone."""
        if self._process is not None:
            self._process.communicate(timeout=30)
        if self._folder is not None:
            shutil.rmtree(self._folder)

    def _started(self, path: Path) -> subprocess.Popen[bytes]:
        # A process that forks must have one thread.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", __file__, str(path), *self._modules]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
        until = time.monotonic() + START_SECONDS
        while not path.exists():
            assert process.poll() is None and time.monotonic() < until, "nothing to fork programs from"
            time.sleep(0.01)
        return process


FORKS = Forks(
    *("byref.cli.gateway", "byref.cli.mcp", "mcp.server.sse", "mcp.server.stdio", "anyio._backends._asyncio"),
    *("anthropic", "openai.lib.streaming.chat", "openai.resources.chat", "openai.resources.responses"),
    *("aiosqlite", "fastapi", "sqlalchemy.ext.asyncio", "uvicorn.main"),
)
"""Where a test run's servers and examples are forked."""


def call(path: str, *words: str) -> int:
    """Have a program forked, and return its exit code."""
    order = {"words": words, "environment": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        line.connect(path)
        socket.send_fds(line, [json.dumps(order).encode()], [0, 1, 2])
        program = int(line.recv(16) or 0)
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: os.kill(program, number) if program else sys.exit(1))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        code = int(line.recv(16) or 1)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def serve(path: str) -> None:
    """Fork a program for each caller."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{path}.new")
    listener.listen(64)
    os.rename(f"{path}.new", path)
    lines: dict[int, tuple[socket.socket, int]] = {}
    """The line to each caller, and its program's process id, by the program's pidfd."""
    while True:
        poll = select.poll()
        for descriptor in (0, listener.fileno(), *lines, *(line.fileno() for line, _ in lines.values())):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll()}
        if 0 in ready:
            return
        for program, (line, pid) in list(lines.items()):
            if program in ready:
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(OSError):  # the caller may be gone
                    line.send(str(code).encode())
            elif line.fileno() in ready:  # it is gone
                ready.discard(line.fileno())
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            else:
                continue
            os.close(program)
            line.close()
            del lines[program]
        if listener.fileno() in ready:
            line = listener.accept()[0]
            data, streams, _, _ = socket.recv_fds(line, MAX_BYTES, 3)
            pid = os.fork()
            if pid == 0:
                for descriptor in (listener.fileno(), line.fileno(), *lines):
                    os.close(descriptor)
                for other, _ in lines.values():
                    os.close(other.fileno())
                become(json.loads(data), streams)
            for descriptor in streams:
                os.close(descriptor)
            line.send(str(pid).encode())
            lines[os.pidfd_open(pid)] = (line, pid)


def become(order: dict[str, Any], streams: list[int]) -> None:
    """Be the program that was ordered, and end."""
    import atexit
    import runpy
    import threading
    import traceback

    code: object = 0
    try:
        os.setpgid(0, 0)
        for place, descriptor in enumerate(streams):
            os.dup2(descriptor, place)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(order["environment"])
        os.chdir(order["folder"])
        sys.path[1:1] = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
        name, *arguments = order["words"]
        if name == "-m":
            name, *arguments = arguments
            sys.argv[:], sys.path[0] = [name, *arguments], ""
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            sys.argv[:], sys.path[0] = [name, *arguments], str(Path(name).parent)
            runpy.run_path(name, run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        # As the interpreter ends, but for taking itself apart, which copies every page that was shared.
        with contextlib.suppress(BaseException):
            threading._shutdown()  # pools end their threads then, and only then can those be waited for
            atexit._run_exitfuncs()
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def main(path: str, *words: str) -> None:
    """Be a caller, or import and serve."""
    if Path(path).exists():
        sys.exit(call(path, *words))
    import importlib

    from starting_line import warm

    for name in words:
        importlib.import_module(name)
    warm()
    serve(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
