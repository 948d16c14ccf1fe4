"""Servers that fork: the engine is made before the fork, and every worker has connections and processes of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from sqlcheck import check_invariants, rows

APP = """
import os
from byref import AsyncEngine, Engine

URL = os.environ["BYREF_TEST_URL"]
engine = Engine(URL)
engine.session("warm").process("before the fork", tool="warm")
if "BYREF_TEST_WARM" in os.environ:
    assert engine.session("warm").call("code_interpreter", {"code": "40 + 2"}).content == "42"


def answer(number):
    session = engine.session(f"s{int(number) % 3}", context_window=10**7)
    session.process([{"id": i, "name": f"user {i} of {number}"} for i in range(1500)], tool="rows", call_id=number)
    return session.call("code_interpreter", {"code": "len(rows)"}, call_id=f"c{number}").content


def wsgi(environ, start_response):
    body = f"{os.getpid()} {answer(environ['PATH_INFO'].strip('/') or '0')}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async_engine = AsyncEngine(URL)


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    number = scope["path"].strip("/") or "0"
    session = await async_engine.session(f"s{int(number) % 3}", context_window=10**7)
    rows = [{"id": i, "name": f"user {i} of {number}"} for i in range(1500)]
    await session.process(rows, tool="rows", call_id=number)
    reply = await session.call("code_interpreter", {"code": "len(rows)"}, call_id=f"c{number}")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": f"{os.getpid()} {reply.content}".encode()})
"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def children(pid: int) -> set[int]:
    """Every process below this one."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid:
            found |= {int(entry.name)} | children(int(entry.name))
    return found


def alive(pids: set[int]) -> set[int]:
    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return {pid for pid in pids if runs(pid)}


def until(what: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.05)
    return what()


@contextmanager
def serving(
    url: str, folder: Path, *arguments: str, warm: bool
) -> Iterator[tuple[int, Callable[[int], tuple[int, str]]]]:
    """A server with two workers: its process id, and what asks it."""
    (folder / "app.py").write_text(APP)
    port = free_port()
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", *(argument.format(port=port) for argument in arguments)],
            cwd=folder,
            env={**os.environ, "BYREF_TEST_URL": url, "PYTHONPATH": os.pathsep.join(sys.path)}
            | ({"BYREF_TEST_WARM": "1"} if warm else {}),
            stdout=subprocess.DEVNULL,
            stderr=log,
        )

    def ask(number: int) -> tuple[int, str]:
        deadline = time.monotonic() + 30
        while True:
            try:
                with urlopen(f"http://127.0.0.1:{port}/{number}", timeout=30) as response:
                    pid, _, said = response.read().decode().partition(" ")
                    return int(pid), said
            except (URLError, ConnectionError):
                if time.monotonic() > deadline or server.poll() is not None:
                    raise AssertionError((folder / "log").read_text()) from None
                time.sleep(0.1)

    try:
        yield server.pid, ask
    finally:
        server.terminate()
        server.wait(20)


GUNICORN = ("gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:{port}", "--no-control-socket", "app:wsgi")
UVICORN = ("uvicorn", "--workers", "2", "--host", "127.0.0.1", "--port", "{port}", "app:asgi")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "database", "warm", "calls"),
    [
        pytest.param(GUNICORN, "postgres_url", False, 5, id="gunicorn, few calls"),  # code has not run before the fork
        pytest.param(GUNICORN, "postgres_url", True, 16, id="gunicorn", marks=pytest.mark.slow),
        pytest.param(UVICORN, "sqlite_url", True, 16, id="uvicorn", marks=pytest.mark.slow),
    ],
)
def test_workers_answer_at_once_and_leave_nothing_behind(
    request: pytest.FixtureRequest, tmp_path: Path, server: tuple[str, ...], database: str, warm: bool, calls: int
) -> None:
    url: str = request.getfixturevalue(database)
    with serving(url, tmp_path, *server, warm=warm) as (pid, ask):
        ask(0)
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(ask, range(1, calls + 1)))
        assert {said for _, said in answers} == {"1500"}
        workers = {worker for worker, _ in answers}
        assert len(workers) == 2, workers
        killed = workers.pop()
        below = children(killed)
        assert below, "its sandbox runs in processes of its own"
        os.kill(killed, signal.SIGKILL)
        assert until(lambda: not alive(below)), "orphans"
        assert ask(100)[1] == "1500"  # by the other worker, or by a new one
        below = children(pid)
    assert until(lambda: not alive(below)), "orphans"
    check_invariants(url)
    steps = rows(
        url, "SELECT call_id, count(*) FROM byref_ledger WHERE kind = 'output' GROUP BY call_id ORDER BY call_id"
    )
    assert {count for call_id, count in steps if call_id} == {1}
    assert len([call_id for call_id, _ in steps if call_id]) == calls + 2
