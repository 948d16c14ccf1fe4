"""Shops that are forked: importing the SDK takes more than a second, and many tests need a shop of their own.

`shops.py SOCKET` has the SDK imported, and forks a shop for each caller until its standard input ends. `shops.py SOCKET NAME`
is a caller: the shop has its streams, its folder and its environment; each ends with the other.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

SHOP = str(Path(__file__).parent / "shop_server.py")
MAX_BYTES = 1 << 17


def call(path: str, *arguments: str) -> int:
    """Have a shop forked, and return its exit code."""
    order = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(path)
        socket.send_fds(line, [json.dumps(order).encode()], [0, 1, 2])
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        return int(line.recv(16) or 1)


def serve(path: str) -> None:
    """Fork a shop for each caller."""
    import anyio._backends._asyncio
    import mcp.server.stdio

    assert anyio and mcp
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    lines: dict[int, tuple[socket.socket, int]] = {}
    """The line to each caller, and its shop's process id, by the shop's pidfd."""
    while True:
        poll = select.poll()
        for descriptor in (0, listener.fileno(), *lines, *(line.fileno() for line, _ in lines.values())):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll()}
        if 0 in ready:
            return
        for shop, (line, pid) in list(lines.items()):
            if shop in ready:
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(OSError):  # the caller may be gone
                    line.send(str(code if code >= 0 else 128 - code).encode())
                os.close(shop)
                line.close()
                del lines[shop]
            elif line.fileno() in ready:
                ready.discard(line.fileno())
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)
                os.close(shop)
                line.close()
                del lines[shop]
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
            lines[os.pidfd_open(pid)] = (line, pid)


def become(order: dict[str, Any], streams: list[int]) -> None:
    """Be the shop that was ordered, and end."""
    import runpy
    import traceback

    code: object = 0
    try:
        for place, descriptor in enumerate(streams):
            os.dup2(descriptor, place)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(order["environment"])
        os.chdir(order["folder"])
        sys.argv[:] = [SHOP, *order["arguments"]]
        runpy.run_path(SHOP, run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    if sys.argv[2:]:
        sys.exit(call(*sys.argv[1:]))
    serve(sys.argv[1])
