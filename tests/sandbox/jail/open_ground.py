"""Attacks without any jail, where they can do no harm: shows that each is real and that its success would be seen.

Run as a script, with attacks as JSON on standard input: name to source. Everything happens in namespaces of its own, with
its own processes, network, mounts and host name, and as root in there; each attack has a parent to kill and a folder to
write to. On standard output: name to what it achieved, or to the reason why it achieved nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy  # noqa: F401  (attacks import it; once is enough)
import pandas  # noqa: F401
import pyarrow  # noqa: F401

NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000  # mounts, UTS, IPC, processes, network
MOUNTS, USER = 0x00020000, 0x10000000
SECONDS = 10
KILLED = 99
libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def isolate() -> None:
    """Returns as process 1 of namespaces of its own; the one that was started waits for it and ends as it does."""
    uid, gid = os.getuid(), os.getgid()
    checked(libc.unshare(NAMESPACES if uid == 0 else NAMESPACES | USER))
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    if child := os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    checked(libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None))
    checked(libc.mount(b"proc", b"/proc", b"proc", 0, None))
    checked(libc.mount(b"none", b"/dev/shm", b"tmpfs", 0, None))
    with socket.socket() as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 1))  # up
    with contextlib.suppress(OSError):
        os.setgroups([1234])
    # No attack that raises a priority gets in the way of what else this machine does.
    os.nice(5)


def serve(port: int) -> None:
    server = socket.create_server(("127.0.0.1", port))

    def answer() -> None:
        while True:
            connection, _ = server.accept()
            kept.append(connection)
            with contextlib.suppress(OSError):  # who only connects may be gone
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nloot")
                connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=answer, daemon=True).start()


def leave_open() -> None:
    """What a careless parent leaves: see jail_attacks.py."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.send(b"letter")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")  # a name that the kernel finds
    listener.listen()
    caller = socket.socket(socket.AF_UNIX)
    caller.connect(listener.getsockname())
    reading, writing = os.pipe()
    _, terminal = pty.openpty()
    fcntl.ioctl(terminal, 0x540E, 0)  # the controlling terminal of this session
    # Out of the way first: one of them may be in the place of another.
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, 50) for each in (theirs.fileno(), terminal, writing, listener.fileno())]
    for place, descriptor in enumerate(high):
        os.dup2(descriptor, place)
    kept.extend((ours, theirs, listener, caller, reading))


kept: list[object] = []


def run(source: str, report: int) -> None:
    """The attack itself, as plain Python."""
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(source, "<attack>", "exec"), names)
        told = {"loot": repr(names["result"])[:100]} if names.get("result") is not None else {"error": "no result"}
    except BaseException as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    os.write(report, json.dumps(told).encode())
    os._exit(0)


def be_zygote(source: str, folder: Path, report: int) -> None:
    os.setsid()
    checked(libc.unshare(MOUNTS))
    leave_open()
    os.chdir(folder)
    child = os.fork()
    if child == 0:
        run(source, report)
    os.close(report)
    _, status = os.waitpid(child, 0)
    os._exit(KILLED if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else 0)


def kill_all() -> None:
    """Ends every other process there is in here."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def attempt(source: str, folder: Path) -> dict[str, str]:
    """What the attack achieved: {"loot": …}, or why it achieved nothing: {"error": …}."""
    sentinel = folder / "byref-sentinel"
    sentinel.write_text("untouched")
    (folder / "byref-folder").mkdir()
    before = sentinel.stat()
    reading, report = os.pipe()
    os.set_inheritable(report, False)
    high = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, 200)
    os.close(report)
    zygote = os.fork()
    if zygote == 0:
        try:
            be_zygote(source.replace("/tmp/", f"{folder}/").replace("'/tmp'", f"'{folder}'"), folder, high)
        finally:
            os._exit(1)
    os.close(high)
    ready, _, _ = select.select([reading], [], [], SECONDS)
    told = os.read(reading, 65536) if ready else b""
    os.close(reading)
    deadline = time.monotonic() + 1
    while not (ended := os.waitpid(zygote, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.002)
    kill_all()
    answer: dict[str, str] = json.loads(told) if told else {"error": "it told nothing"}
    if "loot" in answer:
        return answer
    if ended[0] and (os.WIFSIGNALED(ended[1]) or os.waitstatus_to_exitcode(ended[1]) == KILLED):
        return {"loot": "killed"}
    if sorted(os.listdir(folder)) != ["byref-folder", "byref-sentinel"] or sentinel.stat() != before:
        return {"loot": "the folder is changed"}
    return answer


def main() -> None:
    attacks: dict[str, str] = json.load(sys.stdin)
    isolate()
    serve(int(sys.argv[1]))
    sys.argv = ["attack", "--with", "arguments"]
    os.environ["SECRET"] = "loot"
    told = {}
    for name, source in attacks.items():
        folder = Path(tempfile.mkdtemp(dir="/tmp"))
        try:
            told[name] = attempt(source, folder)
        finally:
            shutil.rmtree(folder)
    print(json.dumps(told), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
