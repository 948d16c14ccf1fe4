"""A real PgBouncer in front of a test's database."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import URL, make_url

PATIENCE = 20.0
SETTINGS = """\
[databases]
* = host={socket} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
"""


@contextmanager
def pgbouncer(folder: Path, url: str, mode: str) -> Iterator[URL]:
    """The URL of the same database through a pooler; the test is skipped where the machine has no PgBouncer."""
    program = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        pytest.skip("there is no PgBouncer on this machine (Debian's package: pgbouncer)")
    direct = make_url(url)
    server = Path(str(direct.query["host"]))
    port = free_port()
    settings = folder / "pgbouncer.ini"
    size = 3 if mode == "transaction" else 20  # fewer backends than clients, where these share them
    settings.write_text(SETTINGS.format(socket=server, user=direct.username, port=port, mode=mode, size=size))
    owner = server.stat().st_uid  # PgBouncer refuses to run as root, and the server's folder is for its owner alone
    # Its file is read by way of an open descriptor: the folder of the test may be closed to that user.
    with (
        settings.open() as given,
        subprocess.Popen(
            [program, "--quiet", "/dev/stdin"], stdin=given, user=owner if os.geteuid() == 0 else None, extra_groups=[]
        ) as process,
    ):
        try:
            wait_for(port, process)
            yield direct.set(host="127.0.0.1", port=port, query={})
        finally:
            process.terminate()


def free_port() -> int:
    """A port of this machine that nobody has yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server that was started answers at its port."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(f"{process.args!r} does not answer; it ended with {process.poll()}")
