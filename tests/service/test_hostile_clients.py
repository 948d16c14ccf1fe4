"""Clients that lie, dawdle and flood, over real sockets: each gets its answer or loses its connection, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import random
import resource
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import httpx
import pytest
from service_kit import House, served
from serving import serving

import byref
from byref import db
from byref.adapters.common.shares import Shares
from byref.cli import connections
from byref.db.payloads import StoredPayload
from byref.service import auth, events, remote, transfers
from byref.service.inspector import live

Hostile = Callable[[str, int, str], Awaitable[None]]
REFUSED = {
    "a header that is too long": ("GET /v1/sessions HTTP/1.1\r\nHost: a\r\nX: " + "x" * 40_000 + "\r\n\r\n", 431),
    "too many headers": ("GET /v1/sessions HTTP/1.1\r\nHost: a\r\n" + "X: 1\r\n" * 500 + "\r\n", 431),
    "a path that is too long": (f"GET /v1/{'x' * 60_000} HTTP/1.1\r\nHost: a\r\n\r\n", 431),
    "two lengths": ("POST /v1/sweep HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
    "a length below zero": ("POST /v1/sweep HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
    "a length that is no number": ("POST /v1/sweep HTTP/1.1\r\nHost: a\r\nContent-Length: 0x10\r\n\r\n", 400),
    "a length and chunks": (
        "POST /v1/sweep HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "no HTTP": ("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "another version": ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
    "another's address": ("GET http://evil.test/v1/sessions HTTP/1.1\r\nHost: a\r\n\r\n", 400),
}
TRICKS = [
    "/v1/../v1/sessions",
    "/v1/%2e%2e/%2e%2e/etc/passwd",
    "/../../etc/passwd",
    "//v1/sessions",
    "/v1//sessions",
    "/v1/sessions/",
    "/V1/sessions",
    "/v1;/sessions",
    "/v1/sessions%00",
    "/v1/sessions%0d%0aX:1",
    "/v1/sessions/a/GET%20",
    "/v1/sessions/%c0%ae%c0%ae/ledger/x",
    "/inspect/../v1/sessions",
    "/inspect/..%2f..%2fetc%2fpasswd",
    "/inspect/templates/base.html",
    "/inspect/inspector.css/../../auth.py",
    "/" + "%25" * 2_000,
]
BIG = random.Random(1).randbytes(30 << 20)
"""More than the buffers of a connection hold."""


async def sent(port: int, data: bytes, *, wait: float = 10) -> bytes:
    """Send bytes, and return what comes until the server closes or says no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(65_536), wait)
    finally:
        writer.close()


def port_of(base: str) -> int:
    return int(base.rpartition(":")[2])


async def is_served(base: str, token: str) -> bool:
    async with httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        return (await client.get("/v1/sessions")).status_code == 200


@pytest.mark.parametrize("what", REFUSED)
def test_requests_that_are_none_are_refused(local_house: House, tenant: str, what: str) -> None:
    data, status = REFUSED[what]

    async def work() -> None:
        async with served(local_house) as base:
            answer = await sent(port_of(base), data.encode("latin-1"))
            assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
            assert await is_served(base, local_house.token(tenant))

    local_house.loop.run_until_complete(work())


def test_paths_lead_nowhere_else(local_house: House, tenant: str) -> None:
    async def work() -> None:
        token = local_house.token(tenant)
        async with served(local_house) as base:
            for path in TRICKS:
                head = f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
                head += f"Cookie: byref_inspect={token}\r\nConnection: close\r\n\r\n"
                answer = await sent(port_of(base), head.encode())
                assert answer[9:12] in (b"404", b"422"), (path, answer[:200])
                assert b"root:" not in answer and b"X:1" not in answer.partition(b"\r\n\r\n")[0], path

    local_house.loop.run_until_complete(work())


@pytest.mark.slow
def test_who_dawdles_is_left_and_others_are_served(
    local_house: House, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.SECONDS, connections.Stage.HEAD, 1.0)
    monkeypatch.setitem(connections.SECONDS, connections.Stage.BODY, 1.0)
    token = local_house.token(tenant)
    head = f"Host: a\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    beginnings = {
        "": b"",
        "half a request": b"GET /v1/sessions HTTP/1.1\r\nHos",
        "half a body": f"PUT /v1/sessions/a HTTP/1.1\r\n{head}Content-Length: 100000\r\n\r\n{{".encode(),
        "half a chunk": f"PUT /v1/sessions/a HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\nff\r\n{{".encode(),
    }

    async def dawdle(port: int, beginning: bytes) -> bytes:
        """Send a byte now and then, for as long as the server lets it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(beginning)
        answer = asyncio.ensure_future(reader.read(65_536))
        until = time.monotonic() + 20
        while not answer.done() and time.monotonic() < until:
            await asyncio.sleep(0.2)
            with suppress(OSError):
                writer.write(b" " if beginning else b"")
        writer.close()
        with suppress(OSError):
            return await answer
        return b""

    async def work() -> None:
        async with served(local_house) as base:
            port = port_of(base)
            slow = [asyncio.ensure_future(dawdle(port, one)) for one in beginnings.values() for _ in range(10)]
            assert await is_served(base, token) and not any(one.done() for one in slow)
            answers = [(await one)[:12] for one in slow]
            assert {*answers} <= {b"", b"HTTP/1.1 408"} and answers[-1] == b"HTTP/1.1 408", answers
            assert await is_served(base, token)

    local_house.loop.run_until_complete(work())


@pytest.mark.slow
def test_a_server_that_is_busy_blames_no_client(
    local_house: House, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.SECONDS, connections.Stage.BODY, 1.0)
    monkeypatch.setattr(connections, "READ_BYTES", 1 << 10)
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.1)
    token = local_house.token(tenant)

    async def keep_busy() -> None:
        while True:
            time.sleep(0.1)
            await asyncio.sleep(0)

    async def work() -> None:
        async with served(local_house) as base:
            head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            body = b'{"tools": null' + b" " * 40_000 + b"}"
            busy = asyncio.ensure_future(keep_busy())
            async with httpx.AsyncClient(base_url=base, headers=head, timeout=120) as client:
                answer = await client.put("/v1/sessions/a", content=body)
            busy.cancel()
            assert answer.status_code == 200, answer.text

    local_house.loop.run_until_complete(work())


def test_who_reads_slowly_is_served_and_who_does_not_read_is_left(
    local_house: House, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Megabytes are in the buffers between them: that these are not empty yet does not mean that nothing was read."""
    monkeypatch.setitem(connections.SECONDS, connections.Stage.READING, 2.0)
    places = Shares(2, several=False)
    monkeypatch.setattr(transfers, "_places", places)

    async def work() -> None:
        session = await local_house.engine.session("chat", tenant=tenant)
        await session.store_artifact(BIG, name="big")
        head = f"GET /v1/sessions/chat/artifacts/big/content HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {local_house.token(tenant)}\r\n\r\n"
        async with served(local_house) as base:
            (reader, slow), (_, silent) = [
                await asyncio.open_connection("127.0.0.1", port_of(base), limit=1) for _ in range(2)
            ]
            for writer in (slow, silent):
                writer.write(head.encode())
            until = time.monotonic() + 8
            while time.monotonic() < until:
                assert await reader.read(20_000)
                await asyncio.sleep(0.05)
            assert places._taken.total() == 1
            for writer in (slow, silent):
                writer.transport.abort()

    local_house.loop.run_until_complete(work())


@pytest.mark.slow
def test_a_connection_outlives_the_pools_of_clients(local_house: House, tenant: str) -> None:
    """httpx and others let go of a connection after five seconds: a server that did so, too, would lose requests on their way."""

    async def work() -> None:
        head = f"GET /v1/sessions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {local_house.token(tenant)}\r\n\r\n".encode()
        async with served(local_house) as base:
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(base))
            for pause in (12, 0):
                writer.write(head)
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
                await reader.readuntil(b"}")
                await asyncio.sleep(pause)
            writer.close()

    local_house.loop.run_until_complete(work())


def test_bodies_of_another_length(local_house: House, tenant: str) -> None:
    """One that ends early makes nothing; what is behind one that is longer than it says is a request of its own, and none."""
    token = local_house.token(tenant)

    async def work() -> None:
        async with served(local_house) as base:
            head = f"PUT /v1/sessions/{{}} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
            _, writer = await asyncio.open_connection("127.0.0.1", port_of(base))
            writer.write((head.format("short") + "Content-Length: 500\r\n\r\n{}").encode())
            await writer.drain()
            writer.close()
            longer = await sent(
                port_of(base), (head.format("long") + "Content-Length: 2\r\n\r\n{}garbage\r\n\r\n").encode()
            )
            assert longer.startswith(b"HTTP/1.1 200 "), longer
            async with httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {token}"}) as client:
                names = [one["id"] for one in (await client.get("/v1/sessions")).json()["items"]]
            assert names == ["long"]

    local_house.loop.run_until_complete(work())


async def hold(port: int, count: int) -> list[asyncio.StreamWriter]:
    """Open connections and say nothing."""
    held: list[asyncio.StreamWriter] = []
    for _ in range(count):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        held.append(writer)
    return held


def test_silent_connections_keep_nobody_out(local_house: House, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_SILENT", 100)
    token = local_house.token(tenant)

    async def work() -> None:
        async with served(local_house) as base:
            held = await hold(port_of(base), 300)
            assert await is_served(base, token)
            for writer in held:
                writer.close()

    local_house.loop.run_until_complete(work())


@pytest.mark.slow
def test_ten_thousand_silent_connections_keep_nobody_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/service.db"
    db.upgrade(url)
    with byref.Engine(url, jail="language-only") as engine:
        token = auth.create(engine.database, tenant="acme", name="t", rights=["read"])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 11_000:
        pytest.skip(f"a process may have {hard:,} files here")

    async def work(base: str, pid: int) -> None:
        held = await hold(port_of(base), 10_000)
        for _ in range(20):
            assert await is_served(base, token)
        files = len([*Path(f"/proc/{pid}/fd").iterdir()])
        assert files < connections.MAX_SILENT + 500, "silent connections are ended"
        for writer in held:
            writer.close()

    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with serving(url) as (process, base):
            asyncio.run(work(base, process.pid))
            assert process.poll() is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("what", ["events", "live", "take", "download"])
def test_no_tenant_has_all_places_of_those_who_wait(
    local_house: House, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    few = Shares(2, several=True)  # one of each tenant
    monkeypatch.setattr(events, "_places", few)
    monkeypatch.setattr(live, "_places", few)
    monkeypatch.setattr(transfers, "_places", few)
    monkeypatch.setattr(remote, "Shares", lambda *_, **__: few)
    house = House(local_house.engine, local_house.loop)

    def asking(client: httpx.AsyncClient) -> httpx.Request:
        if what == "take":
            return client.build_request("POST", "/v1/calls/take", json={"worker": "w", "wait_seconds": 1.5})
        paths = {"events": "/v1/sessions/chat/events", "live": "/inspect/events?session=chat"}
        return client.build_request("GET", paths.get(what, "/v1/sessions/chat/artifacts/big/content"))

    async def work() -> None:
        async with served(house) as base, AsyncExitStack() as clients:

            async def client_of(tenant: str) -> httpx.AsyncClient:
                session = await house.engine.session("chat", tenant=tenant)
                await session.store_artifact(BIG, name="big")
                token = house.token(tenant)
                given = {"headers": {"Authorization": f"Bearer {token}"}, "cookies": {"byref_inspect": token}}
                return await clients.enter_async_context(httpx.AsyncClient(base_url=base, timeout=20, **given))

            mine, theirs = await client_of("greedy"), await client_of("modest")
            first = asyncio.ensure_future(mine.send(asking(mine), stream=True))
            while not few._taken["greedy"]:
                await asyncio.sleep(0.01)
            second = await mine.send(asking(mine))
            assert second.status_code == 503, second.text
            if what != "live":
                assert second.json()["type"] == "urn:byref:too-many-streams" and second.headers["Retry-After"]
            other = await theirs.send(asking(theirs), stream=True)
            assert other.status_code == 200
            for one in (other, await first):
                await one.aclose()
            deadline = time.monotonic() + 10
            while few._taken and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            again = await mine.send(asking(mine), stream=True)
            assert again.status_code == 200
            await again.aclose()

    local_house.loop.run_until_complete(work())


def test_a_download_that_is_not_read_is_in_memory_a_piece_at_a_time(
    local_house: House, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    span, read = StoredPayload.span, list[Generator[bytes]]()

    def watched(payload: StoredPayload, begin: int, end: int) -> Generator[bytes]:
        read.append(span(payload, begin, end))
        return read[-1]

    monkeypatch.setattr(StoredPayload, "span", watched)
    house = House(local_house.engine, local_house.loop)

    async def work() -> None:
        session = await house.engine.session("chat", tenant=tenant)
        await session.store_artifact(BIG, name="big")
        head = f"GET /v1/sessions/chat/artifacts/big/content HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {house.token(tenant)}\r\n\r\n"
        async with served(house) as base:
            gone = [await asyncio.open_connection("127.0.0.1", port_of(base), limit=1) for _ in range(3)]
            for _, writer in gone:
                writer.write(head.encode())
            while sum(one.gi_frame is not None and one.gi_suspended for one in read) < len(gone):
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            assert not [one.name for one in threading.enumerate() if one.name.startswith("byref-frames")]
            for _, writer in gone:
                writer.transport.abort()
            async with asyncio.timeout(10):
                while any(one.gi_frame is not None for one in read):
                    await asyncio.sleep(0.05)

    local_house.loop.run_until_complete(work())
