"""The HTTP service: what it adds to a small output, the inspector's pages of a large session, the memory of an upload, many clients.

Pages are of a session with 10,000 steps and artifacts of 1 GiB; each is asked for by a token that may see content.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

import byref
from benchmarks import corpora
from benchmarks.databases import database
from benchmarks.results import Figure, percentile
from byref.service import app, auth

CALLS, SHORT_CALLS = 1_000, 50
STEPS, SHORT_STEPS = 10_000, 50
TABLE_BYTES, SHORT_TABLE_BYTES = 768 << 20, 4 << 20
LOG_BYTES, SHORT_LOG_BYTES = 256 << 20, 2 << 20
VISITS, SHORT_VISITS = 20, 2
UPLOAD_BYTES, SHORT_UPLOAD_BYTES = 1 << 30, 8 << 20
SESSIONS, SHORT_SESSIONS = 200, 8
PIECE_BYTES = 64 << 10
PAGE_BYTES = 200_000
SMALL = {"output": {"id": 1, "status": "shipped", "items": [1, 2, 3]}, "tool": "get_order"}
_SERVING = re.compile(r"serving (http://[^/\s]+)")


def main(short: bool = False) -> Iterator[Figure]:
    """Measure all four; `short` takes small sizes."""
    yield from _added(SHORT_CALLS if short else CALLS)
    yield from _pages(short=short)
    yield _upload(SHORT_UPLOAD_BYTES if short else UPLOAD_BYTES)
    yield _many(SHORT_SESSIONS if short else SESSIONS)


def _added(count: int) -> Iterator[Figure]:
    """What the application takes beside the work itself, in turns in one process, without a socket."""

    async def work(url: str) -> tuple[list[float], list[float]]:
        async with byref.AsyncEngine(url, create=True, jail="language-only") as engine:
            service, token = app(engine), auth.create(engine.database, tenant="acme", name="b", rights=["chat"])
            session = await engine.session("direct", tenant="acme")
            await engine.session("http", tenant="acme")
            direct, http = list[float](), list[float]()
            body = json.dumps(SMALL).encode()
            for _ in range(count):
                began = time.perf_counter()
                await session.process(SMALL["output"], tool="get_order")
                between = time.perf_counter()
                assert await _asked(service, "/v1/sessions/http/process", token, body) == 200
                direct.append(between - began)
                http.append(time.perf_counter() - between)
            return direct, http

    for kind in ("SQLite", "PostgreSQL"):
        with database(kind) as url:
            direct, http = asyncio.run(work(url))
        added = (statistics.median(http) - statistics.median(direct)) * 1e3
        note = f"p50 {statistics.median(http) * 1e3:.2f} ms against {statistics.median(direct) * 1e3:.2f} ms"
        yield Figure(f"added to a small output, {kind}", added, "ms", target="<= 1.5 ms p50", note=note)


async def _asked(service: Any, path: str, token: str, body: bytes) -> int:
    """Send a request to an application, and return the status of its answer."""
    found: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])

    head = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
    about = {"method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": head}
    await service({"type": "http", "http_version": "1.1", "scheme": "http", "root_path": "", **about}, receive, send)
    return found[0]


def _pages(*, short: bool) -> Iterator[Figure]:
    with database("SQLite") as url:
        policy = byref.Policy(max_session_bytes=None, max_artifact_bytes=2 << 30)
        with byref.Engine(url, policy=policy, jail="language-only") as engine:
            _fill(engine, short=short)
        yield from _visited(url, short=short)


def _visited(url: str, *, short: bool) -> Iterator[Figure]:
    """The pages of a session that is there."""
    with byref.Engine(url, jail="language-only") as engine:
        sees, blind = (
            auth.create(engine.database, tenant="acme", name="b", rights=rights)
            for rights in (["inspect", "content"], ["inspect"])
        )
    with _served(url) as (pid, base), httpx.Client(base_url=f"{base}/inspect/", timeout=120) as client:
        for name, link in _links(short=short).items():
            client.get(link, headers={"Cookie": f"byref_inspect={sees}"})  # a template is compiled once
            times, busy = list[float](), _processor(pid)
            for _ in range(SHORT_VISITS if short else VISITS):
                began = time.perf_counter()
                shown = client.get(link, headers={"Cookie": f"byref_inspect={sees}"})
                times.append(time.perf_counter() - began)
                assert shown.status_code == 200, (name, shown.status_code, shown.text[-500:])
            busy = (_processor(pid) - busy) / len(times)
            bare = len(client.get(link, headers={"Cookie": f"byref_inspect={blind}"}).content)
            p95 = percentile(times, 95) * 1e3
            note = f"p50 {percentile(times, 50) * 1e3:.0f} ms, of the processor {busy * 1e3:.0f} ms; "
            note += f"{len(shown.content):,} bytes, without content {bare:,}"
            target, met = "<= 300 ms p95, 200 kB before data", p95 <= 300 and bare <= PAGE_BYTES
            yield Figure(f"page: {name}", p95, "ms", target=target, met=met, note=note)


def _fill(engine: byref.Engine, *, short: bool) -> None:
    session = engine.session("big", tenant="acme", model="claude-sonnet-5", context_window=10**9)
    records = corpora.records(1 << 20)
    rows = json.loads(records)
    table, log = (SHORT_TABLE_BYTES, SHORT_LOG_BYTES) if short else (TABLE_BYTES, LOG_BYTES)

    def table_pieces() -> Iterator[bytes]:
        body = b"[" + b",\n".join(json.dumps(one).encode() for one in rows)
        yield body
        for _ in range(table // len(body)):
            yield b"," + body[1:]
        yield b"]"

    def log_pieces() -> Iterator[bytes]:
        for number in range(log // 80):
            yield b"2026-11-26 12:00:00 INFO request %09d took %03d ms, %019d bytes\n" % (number, number % 997, number)

    assert session.process(table_pieces(), tool="list_users").route == "variables"
    session.store_artifact(log_pieces(), name="log", content_type="text/plain")
    written = engine.session("big", tenant="acme").process({"page": 1, "orders": rows * 8}, tool="list_orders")
    assert written.route == "variables"
    for number in range(SHORT_STEPS if short else STEPS):
        if number % 10 == 9:
            session.record_usage({"input_tokens": 1_000 + number, "output_tokens": 50}, request_id=f"r{number}")
        elif number % 500 == 0:
            session.call("code_interpreter", {"code": f"kept_{number} = {number}\nkept_{number}"}, call_id=f"c{number}")
        else:
            session.process({"id": number, "status": "shipped"}, tool="get_order", call_id=f"o{number}")


def _links(*, short: bool) -> dict[str, str]:
    last = SHORT_STEPS if short else STEPS

    def of(page: str, **query: object) -> str:
        return f"{page}?{urlencode({'session': 'big', **query})}"

    return {
        "sessions": "./",
        "timeline, first steps": of("session"),
        "timeline, last steps": of("session", after=last - 50),
        "errors": of("session", only="errors"),
        "a step with a large output": of("step", step=1),
        "totals": of("ledger"),
        "artifacts": of("artifacts"),
        "variables": of("variables"),
        "code": of("runs"),
        "a run": of("run", run=1),
        "a large table, first rows": of("artifact", variable="list_users"),
        "a table below a key, far rows": of("artifact", variable="orders", row=1_000),
        "a table, sorted": of("artifact", variable="orders", sort="id"),
        "rows that contain a text": of("artifact", variable="orders", containing="nobody has this"),
        "a large text, far lines": of("artifact", artifact="log", view="lines", start=(50_000 if short else 2_000_000)),
        "a search through a large text": of("artifact", artifact="log", grep="nobody has this"),
        "health": "health",
    }


def _upload(size: int) -> Figure:
    """The peak of a server's memory above what it held, while it takes an upload; what an artifact may have is its bound."""
    piece = b"".join(b"line %07d of a text that is uploaded\n" % number for number in range(2_000))[:PIECE_BYTES]

    async def pieces(of: int) -> AsyncIterator[bytes]:
        for _ in range(of // len(piece)):
            yield piece

    async def work(base: str, token: str, pid: int) -> tuple[int, float]:
        head, text = {"Authorization": f"Bearer {token}"}, {"Content-Type": "text/plain"}
        async with httpx.AsyncClient(base_url=f"{base}/v1/sessions", headers=head, timeout=900) as client:
            (await client.put("/s", json={})).raise_for_status()
            (
                await client.post("/s/artifacts", content=pieces(4 << 20), headers=text)
            ).raise_for_status()  # what is loaded once
            Path(f"/proc/{pid}/clear_refs").write_text("5")
            before, began = _status(pid, "VmRSS"), time.perf_counter()
            stored = await client.post("/s/artifacts", params={"name": "big"}, content=pieces(size), headers=text)
            assert stored.status_code == 200, stored.text
            return _status(pid, "VmHWM") - before, time.perf_counter() - began

    with database("SQLite") as url:
        token = _token(url)
        with _served(url) as (pid, base):
            above, seconds = asyncio.run(work(base, token, pid))
    note = f"{size / seconds / 1e6:.0f} MB/s"
    return Figure(f"memory of an upload of {size >> 20:,} MiB", above / 1e6, "MB", target="<= 60 MB", note=note)


def _many(count: int) -> Figure:
    """Sessions at once over two servers on PostgreSQL, each of some turns."""
    rows = json.loads(corpora.records(100_000))

    async def talk(clients: list[httpx.AsyncClient], number: int) -> list[str]:
        wrong: list[str] = []

        async def ask(method: str, path: str, **given: Any) -> None:
            began = time.perf_counter()
            try:
                answer = await clients[number % 2].request(method, f"/v1/sessions/s{number}{path}", **given)
            except httpx.TransportError as error:
                wrong.append(
                    f"{method} {path or '/'}: {type(error).__name__} after {time.perf_counter() - began:.1f} s"
                )
                return
            if not answer.is_success:
                wrong.append(f"{answer.status_code} {answer.text[:200]}")

        await ask("PUT", "", json={"model": "claude-sonnet-5"})
        for turn in range(3):
            await ask("POST", "/process", json={"output": rows, "tool": "list_users", "call_id": f"a{turn}"})
            await ask("POST", "/process", json=SMALL | {"call_id": f"b{turn}"})
            await ask(
                "POST", "/usage", json={"usage": {"input_tokens": 900, "output_tokens": 9}, "request_id": f"{turn}"}
            )
            grep = {"artifact_id": "list_users", "pattern": "u5[0-9]@"}
            await ask("POST", "/call", json={"name": "artifact_grep", "arguments": grep, "call_id": f"c{turn}"})
            await ask("GET", "/ledger")
        return wrong

    async def work(bases: list[str], token: str) -> tuple[list[str], float]:
        limits = httpx.Limits(max_connections=None)
        head = {"Authorization": f"Bearer {token}"}
        clients = [httpx.AsyncClient(base_url=base, headers=head, timeout=300, limits=limits) for base in bases]
        began = time.perf_counter()
        found = await asyncio.gather(*(talk(clients, number) for number in range(count)))
        took = time.perf_counter() - began
        for client in clients:
            await client.aclose()
        return [one for each in found for one in each], took

    with database("PostgreSQL") as url, ExitStack() as stack:
        token = _token(url)
        bases = [stack.enter_context(_served(url))[1] for _ in range(2)]
        wrong, seconds = asyncio.run(work(bases, token))
    note = f"{count * 16 / seconds:.0f} requests/s" + (f"; {wrong[0]}" if wrong else "")
    step = f"errors of {count} sessions at once over 2 workers"
    return Figure(step, len(wrong), "errors", target="<= 0 errors", note=note)


def _token(url: str) -> str:
    byref.db.upgrade(url)
    with byref.Engine(url, jail="language-only") as engine:
        return auth.create(engine.database, tenant="acme", name="b", rights=["read", "chat"])


@contextmanager
def _served(url: str) -> Iterator[tuple[int, str]]:
    """A server of its own on a database: its process, and its address."""
    command = [str(Path(sys.executable).with_name("byref")), "serve", "--db", url, "--port", "0"]
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen([*command, "--jail", "language-only"], stdout=said, stderr=said)
        try:
            yield server.pid, _until(lambda: _SERVING.search(_said(said)), server)[1]
        finally:
            server.terminate()
            server.wait()


def _said(file: Any) -> str:
    file.seek(0)
    return str(file.read())


def _until(ask: Callable[[], re.Match[str] | None], server: subprocess.Popen[bytes]) -> re.Match[str]:
    while server.poll() is None:
        if (found := ask()) is not None:
            return found
        time.sleep(0.05)
    raise RuntimeError(f"the server ended with {server.returncode}")


def _processor(pid: int) -> float:
    """Seconds of processor time that a process took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int, name: str) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition(f"{name}:")[2].split()[0]) * 1024
