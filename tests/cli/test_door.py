"""`byref gateway --http` and `byref mcp --http` with hostile clients: what is refused, how soon, and that nothing is left of
it."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from gateway_kit import free_port
from mcp.server import Server

import byref
from byref.adapters import mcp as adapter
from byref.adapters.common import bodies
from byref.cli import connections, door, serving
from byref.gateway import server as gateway_server
from byref.gateway.config import read_config
from byref.gateway.server import Gateway

TENANTS = {"acme": "acme-token", "globex": "globex-token"}
MODERN = "2026-07-28"
LIMIT = 1 << 20
POST = {
    "Host": "127.0.0.1",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Authorization": "Bearer acme-token",
}
GET = {key: POST[key] for key in ("Host", "Accept", "Authorization")}


def message(method: str, id: int | None = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **({"id": id} if id else {})}).encode()


HELLO = message(
    "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "doors", "version": "1"}
)


def request(
    body: bytes = HELLO, method: str = "POST", target: str = "/mcp", line: str = "HTTP/1.1", **changed: Any
) -> bytes:
    """The bytes of a request; a header that is None is left out, `__` stands for `-`."""
    headers: dict[str, str | None] = dict(POST if method == "POST" else GET)
    if method == "POST":
        headers["Content-Length"] = str(len(body))
    headers |= {key.replace("__", "-"): value for key, value in changed.items()}
    lines = [f"{method} {target} {line}", *(f"{key}: {value}" for key, value in headers.items() if value is not None)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body if method == "POST" else b"")


def of_session(begun: Answer) -> dict[str, Any]:
    """The header of what an answer has begun."""
    return {"Mcp__Session__Id": begun.headers["mcp-session-id"]}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """What it says in the protocol."""
        text = self.body.decode()
        if "data: " in text:
            text = next(line for line in text.splitlines() if line.startswith("data: "))[6:]
        found = json.loads(text)
        assert isinstance(found, dict)
        return found


class Served:
    """A server in this process."""

    def __init__(self, server: Server[Any], gateway: Gateway | None, port: int, http: connections.Server) -> None:
        self.server, self.gateway, self.port, self.http = server, gateway, port, http

    async def send(self, *parts: bytes, pause: float = 0.0) -> Answer:
        """Send bytes on a connection of their own, and read one answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for part in parts:
                writer.write(part)
                await asyncio.sleep(pause)
            return await answer(reader, is_head=parts[0].startswith(b"HEAD"))
        finally:
            writer.close()

    def connection(self, client: Any) -> connections.Connection | None:
        """The server's end of a client's socket."""
        for one in self.http.server_state.connections:
            if isinstance(one, connections.Connection) and one.client == client:
                return one
        return None

    async def begin(self, tenant: str = "acme", **headers: Any) -> Answer:
        return await self.send(request(Authorization=f"Bearer {tenant}-token", **headers))

    @property
    def made(self) -> int:
        """Sessions and conversations."""
        return len(self.server.session_manager._server_instances) + (len(self.gateway._running) if self.gateway else 0)


async def answer(reader: asyncio.StreamReader, seconds: float = 10.0, *, is_head: bool = False) -> Answer:
    async with asyncio.timeout(seconds):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in head[1:])}
        body = b""
        if "content-length" in headers and not is_head:
            body = await reader.readexactly(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        elif headers.get("connection") == "close" and not is_head:
            body = await reader.read()
        return Answer(int(head[0].split()[1]), headers, body)


async def is_closed(reader: asyncio.StreamReader, seconds: float = 5.0) -> bool:
    """Whether the server closes a connection, without more to say."""
    try:
        async with asyncio.timeout(seconds):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@asynccontextmanager
async def served(kind: str, folder: Path, *, tokens: dict[str, str] | None = TENANTS) -> AsyncIterator[Served]:
    """A door of either verb, as the command line opens it."""
    file = folder / "tokens.json"
    file.write_text(json.dumps(tokens))
    (folder / "mcp.json").write_text('{"mcpServers": {"away": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}}')
    port = free_port()
    given = Namespace(http=f"127.0.0.1:{port}", tokens=str(file) if tokens else None, allow_host=[], tenant="default")
    place = serving.place_of(given)
    assert place is not None
    tenant = adapter.tenant_of_token if tokens else "default"
    with byref.Engine(f"sqlite:///{folder / 'doors.db'}") as engine:
        gateway = None
        if kind == "gateway":
            config = read_config(str(folder / "mcp.json"))
            gateway = Gateway(engine, config, tenant=tenant, has_several_tenants=place.is_of_several)
        server = gateway.server if gateway else adapter.server(engine, tenant=tenant)
        opened: list[connections.Server] = []
        init = connections.Server.__init__

        def noted(self: connections.Server, *arguments: Any, **settings: Any) -> None:
            init(self, *arguments, **settings)
            opened.append(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connections.Server, "__init__", noted)
            running = asyncio.create_task(serving.serve_http(server, place, idle_seconds=1800, max_body_bytes=LIMIT))
            while not (opened and opened[0].started):
                assert not running.done(), running.result()
                await asyncio.sleep(0.01)
        try:
            yield Served(server, gateway, port, opened[0])
        finally:
            opened[0].should_exit = True
            await running


def run(kind: str, folder: Path, work: Callable[[Served], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def main() -> None:
        async with served(kind, folder, **settings) as server:
            await work(server)

    asyncio.run(main())


both = pytest.mark.parametrize("kind", ["gateway", "mcp"])
MODERN_HEADERS: dict[str, Any] = {"MCP__Protocol__Version": MODERN, "Mcp__Method": "tools/list"}

REFUSED: dict[str, tuple[bytes, int]] = {
    "no host": (request(Host=None, line="HTTP/1.0"), 421),
    "another's host": (request(Host="evil.example"), 421),
    "another's host, our port": (request(Host="evil.example:8000"), 421),
    "host that begins as ours": (request(Host="localhost.evil.example"), 421),
    "host with a user": (request(Host="localhost:80@evil.example"), 421),
    "host with a port that is none": (request(Host="localhost:evil"), 421),
    "host, IPv6 of others": (request(Host="[::2]"), 421),
    "host, IPv6 that is none": (request(Host="[::1:::]"), 421),
    "host, IPv6 without brackets": (request(Host="::1"), 421),
    "host, a number": (request(Host="2130706433"), 421),
    "host, a list": (request(Host="localhost, evil.example"), 421),
    "origin of others": (request(Origin="https://evil.example"), 403),
    "origin null": (request(Origin="null"), 403),
    "origin, empty": (request(Origin=""), 403),
    "origin that begins as ours": (request(Origin="http://localhost.evil.example"), 403),
    "origin with a user": (request(Origin="http://localhost:80@evil.example"), 403),
    "origin of a file": (request(Origin="file://"), 403),
    "origin of an extension": (request(Origin="chrome-extension://localhost"), 403),
    "origins, a list": (request(Origin="http://localhost http://evil.example"), 403),
    "origins, two": (request(Origin="http://localhost\r\nOrigin: http://evil.example"), 400),
    "a page's simple request": (request(Content__Type="text/plain", Origin="https://evil.example"), 403),
    "simple request of our own page": (request(Content__Type="text/plain"), 415),
    "form": (request(Content__Type="application/x-www-form-urlencoded"), 415),
    "no content type": (request(Content__Type=None), 415),
    "content type that begins as JSON": (request(Content__Type="application/json-seq"), 415),
    "content type hidden in another": (request(Content__Type="text/plain; a=application/json"), 415),
    "content types, two": (request(Content__Type="application/json\r\nContent-Type: text/plain"), 400),
    "waits to be told to go on": (request(b"", Content__Length="1000", Expect="100-continue", Origin="null"), 403),
    "compressed": (request(Content__Encoding="gzip"), 415),
    "no accept": (request(Accept=None), 406),
    "accept without events": (request(Accept="application/json"), 406),
    "accept without JSON": (request(Accept="text/event-stream"), 406),
    "put": (request(method="PUT"), 405),
    "patch": (request(method="PATCH"), 405),
    "head": (request(method="HEAD"), 405),
    "trace": (request(method="TRACE"), 405),
    "options that are no preflight": (request(method="OPTIONS"), 405),
    "a method that nobody knows": (request(method="BREW"), 405),
    "modern, get": (request(method="GET", **MODERN_HEADERS), 405),
    "modern, delete": (request(method="DELETE", **MODERN_HEADERS), 405),
    "elsewhere": (request(target="/"), 404),
    "elsewhere, doubled": (request(target="//mcp"), 404),
    "elsewhere, below": (request(target="/mcp/x"), 404),
    "no token": (request(Authorization=None), 401),
    "empty token": (request(Authorization="Bearer "), 401),
    "wrong token": (request(Authorization="Bearer acme-toke"), 401),
    "token of another kind": (request(Authorization="Basic acme-token"), 401),
    "tokens, two": (request(Authorization="Bearer acme-token\r\nAuthorization: Bearer globex-token"), 400),
    "too large": (request(Content__Length=str(LIMIT + 1)), 413),
    "far too large": (request(Content__Length="9" * 20), 413),
    "name of a session that is none": (request(X__Byref__Session="x" * 600), 400),
    "names of a session, two": (request(X__Byref__Session="a\r\nX-Byref-Session: b"), 400),
    "another method first": (request(message("tools/list")), 400),
    "ping first": (request(message("ping")), 400),
    "notification first": (request(message("notifications/initialized", id=None)), 400),
    "initialize as a notification": (request(message("initialize", id=None)), 400),
    "initialize without parameters": (request(b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}'), 400),
    "initialize with a list": (request(HELLO.replace(b'"2.0"', b'["2.0"]')), 400),
    "initialize of no version": (request(HELLO.replace(b'"2025-06-18"', b"7")), 400),
    "initialize with an id that is none": (request(HELLO.replace(b'"id": 1', b'"id": {}')), 400),
    "a batch": (request(b"[" + HELLO + b"]"), 400),
    "an empty batch": (request(b"[]"), 400),
    "an answer": (request(b'{"jsonrpc": "2.0", "id": 1, "result": {}}'), 400),
    "no JSON": (request(b"{"), 400),
    "no text": (request(b"\xff\xfe"), 400),
    "deep JSON": (request(b"[" * 9_000), 400),
    "nothing": (request(b""), 400),
    "initialize of many values": (request(HELLO[:-1] + b', "x": [' + b"[]," * 10_000 + b"0]}"), 413),
    "large initialize": (request(HELLO[:-1] + b', "x": "' + b"x" * 300_000 + b'"}'), 413),
    "get without a session": (request(method="GET"), 400),
    "delete without a session": (request(method="DELETE"), 400),
    "get of a session that is none": (request(method="GET", Mcp__Session__Id="a" * 32), 404),
    "delete of a session that is none": (request(method="DELETE", Mcp__Session__Id="a" * 32), 404),
    "post to a session that is none": (request(Mcp__Session__Id="a" * 32), 404),
    "sessions, two": (request(Mcp__Session__Id="a\r\nMcp-Session-Id: b"), 400),
    "get with a body": (request(method="GET", Content__Length="1000000"), 400),
}


@pytest.mark.quick_cases(1)
@both
def test_what_is_refused_makes_no_session(tmp_path: Path, kind: str) -> None:
    async def work(server: Served) -> None:
        for name, (sent, status) in REFUSED.items():
            found = await server.send(sent)
            assert found.status == status, (name, found)
            if not sent.startswith(b"HEAD"):
                assert found.message["error"]["message"], name
        assert server.made == 0
        # A body that is refused is not waited for.
        assert (await server.send(request(b"", Content__Length=str(LIMIT), Origin="null"))).status == 403

    run(kind, tmp_path, work)


TAKEN: dict[str, bytes] = {
    "as it is": request(),
    "host in capitals": request(Host="LOCALHOST:8000"),
    "host, IPv6": request(Host="[::1]:8000"),
    "host, IPv6 at length": request(Host="[0:0:0:0:0:0:0:1]"),
    "origin of this machine": request(Origin="http://localhost:6274"),
    "origin, IPv6": request(Origin="http://[::1]:6274"),
    "content type with a charset": request(Content__Type="Application/JSON; charset=utf-8"),
    "any accepted": request(Accept="*/*"),
    "kind of token in small letters": request(Authorization="bearer acme-token"),
    "path with a slash": request(target="/mcp/"),
    "much that looks like values": request(HELLO[:-1] + b', "x": "' + b'[,{\\"\\\\' * 30_000 + b'"}'),
    "blanks around": request(b" " * 100_000 + HELLO + b"\n"),
    "chunks": request(Content__Length=None, Transfer__Encoding="chunked").replace(
        HELLO, b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(HELLO), HELLO)
    ),
    "wants to change the protocol": request(Connection="Upgrade", Upgrade="websocket"),
    "HTTP/1.0": request(line="HTTP/1.0"),
    "a version that is to come": request(HELLO.replace(b"2025-06-18", b"2999-01-01")),
}


@pytest.mark.quick_cases(1)
@both
def test_what_clients_send_is_taken(tmp_path: Path, kind: str) -> None:
    async def work(server: Served) -> None:
        for name, sent in TAKEN.items():
            found = await server.send(sent)
            assert found.status == 200, (name, found)
            assert found.message["result"]["protocolVersion"], name
            ended = await server.send(request(method="DELETE", **of_session(found)))
            assert ended.status == 200, name
        async with asyncio.timeout(5):
            while server.made:
                await asyncio.sleep(0.02)

    run(kind, tmp_path, work)


CHUNKED = request(Content__Length=None, Transfer__Encoding="chunked")[: -len(HELLO)]
MALFORMED: dict[str, tuple[bytes, int]] = {
    "lengths of two kinds": (request(Transfer__Encoding="chunked"), 400),
    "lengths, two": (request(Content__Length="5\r\nContent-Length: 6"), 400),
    "lengths, twice the same": (request(Content__Length=f"{len(HELLO)}\r\nContent-Length: {len(HELLO)}"), 400),
    "lengths, a list": (request(Content__Length=f"{len(HELLO)}, {len(HELLO)}"), 400),
    "length with a sign": (request(Content__Length=f"+{len(HELLO)}"), 400),
    "length, negative": (request(Content__Length="-1"), 400),
    "length, hexadecimal": (request(Content__Length="0x10"), 400),
    "length, empty": (request(Content__Length=""), 400),
    "an encoding that is none": (request(Content__Length=None, Transfer__Encoding="xchunked"), 501),
    "encodings, a list": (request(Content__Length=None, Transfer__Encoding="gzip, chunked"), 501),
    "encodings, two": (request(Content__Length=None, Transfer__Encoding="chunked\r\nTransfer-Encoding: chunked"), 400),
    "encoding with a blank before the colon": (
        request(**{"Content__Length": None, "Transfer-Encoding ": "chunked"}),
        400,
    ),
    "chunks under HTTP/1.0": (request(Content__Length=None, Transfer__Encoding="chunked", line="HTTP/1.0"), 400),
    "a chunk that is none": (CHUNKED + b"x\r\n", 400),
    "a chunk with a sign": (CHUNKED + b"+5\r\nhello\r\n", 400),
    "a chunk longer than it says": (CHUNKED + b"2\r\nhello\r\n0\r\n\r\n", 400),
    "an endless size of a chunk": (CHUNKED + b"0" * 100_000, 431),
    "endless extensions of a chunk": (CHUNKED + b"1;" + b"x" * 100_000, 431),
    "endless trailers": (CHUNKED + b"0\r\n" + b"a: b\r\n" * 20_000, 431),
    "chunks of a byte": (CHUNKED + b"1\r\n{\r\n" * 150_000, 400),
    "chunks with long extensions": (CHUNKED + (b"1;" + b"x" * 8_000 + b"\r\n{\r\n") * 60, 400),
    "a line without CR": (request().replace(b"\r\nAccept", b"\nAccept"), 400),
    "no line with CR": (request(b"").replace(b"\r\n", b"\n"), 400),
    "a header that goes on": (request(X__A="a\r\n b"), 400),
    "a blank before the first header": (request().replace(b"\r\nHost", b"\r\n Host"), 400),
    "a name with a blank": (request(**{"X A": "b"}), 400),
    "a header without a colon": (request().replace(b"Accept:", b"Accept"), 400),
    "a NUL": (request(X__A="a\0b"), 400),
    "hosts, two": (request(Host="localhost\r\nHost: evil.example"), 400),
    "no host": (request(Host=None), 400),
    "absolute target": (request(target="http://evil.example/mcp"), 400),
    "connect": (request(method="CONNECT", target="evil.example:443"), 400),
    "a target with a blank": (request(target="/mcp x"), 400),
    "too many headers": (request(**{f"X{number}": "1" for number in range(200)}), 431),
    "headers too large": (request(X__A="x" * 20_000), 431),
    "endless target": (b"GET /" + b"x" * 100_000, 431),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "HTTP/1.2": (request(line="HTTP/1.2"), 505),
    "HTTP/0.9": (b"GET /mcp\r\n\r\n", 400),
    "TLS": (bytes.fromhex("16030100f8010000f40303") + os.urandom(240), 400),
    "noise": (b"\0" * 1000, 400),
    "blank lines": (b"\r\n\r\n", 400),
}


def test_what_proxies_may_read_otherwise_closes_the_connection(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def work(server: Served) -> None:
        for name, (sent, status) in MALFORMED.items():
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(sent)
            found = await answer(reader)
            assert found.status == status, (name, found)
            # What follows is never read as a request.
            writer.write(request())
            assert await is_closed(reader), name
            writer.close()
        assert server.made == 0

    run("mcp", tmp_path, work)
    assert len(capfd.readouterr().err.splitlines()) == 1  # a stranger fills no log


@pytest.mark.quick_cases(1)
@both
def test_sessions_are_made_by_initialize_alone(tmp_path: Path, kind: str) -> None:
    async def work(server: Served) -> None:
        begun = await server.begin()
        named = of_session(begun)
        made = server.made
        for body in (HELLO, message("ping"), message("tools/list"), message("initialize"), b"[]", b"{", b"7"):
            assert (await server.send(request(body, **named))).status in (200, 400)
        for tenant, status in (("acme", 200), ("globex", 404)):
            found = await server.send(request(message("ping"), Authorization=f"Bearer {tenant}-token", **named))
            assert found.status == status
        assert server.made == made
        assert (await server.send(request(method="DELETE", **named))).status == 200
        for method in ("POST", "GET", "DELETE"):
            assert (await server.send(request(method=method, **named))).status == 404
        async with asyncio.timeout(5):
            while server.made:
                await asyncio.sleep(0.02)

    run(kind, tmp_path, work)


@pytest.mark.quick_cases(1)
@both
def test_a_client_that_was_cut_off_gets_a_stream(tmp_path: Path, kind: str) -> None:
    async def work(server: Served) -> None:
        named = of_session(await server.begin())
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request(method="GET", Last__Event__ID="1", **named))
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            assert b" 200 " in head and b"text/event-stream" in head
            writer.close()
            assert (await server.send(request(message("ping"), **named))).status == 200
            await asyncio.sleep(0.3)

    run(kind, tmp_path, work)


def test_pipelined_requests_are_answered_one_after_the_other(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        refused = request(b"", Content__Type="text/plain")
        writer.write(refused * 200 + request() + refused)
        assert [(await answer(reader)).status for _ in range(202)] == [415] * 200 + [200, 415]
        writer.close()

    run("mcp", tmp_path, work)


@pytest.mark.slow
@pytest.mark.parametrize("constants", [{"SECONDS": 1}])
def test_strangers_have_a_deadline_and_tenants_get_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, constants: dict[str, int]
) -> None:
    seconds = dict.fromkeys(connections.SECONDS, constants["SECONDS"])
    monkeypatch.setattr(connections, "SECONDS", seconds)
    monkeypatch.setattr(connections, "MAX_SILENT", 50)
    head, _, body = request().partition(b"\r\n\r\n")

    async def drip(server: Served, sent: bytes) -> Answer | None:
        """A byte now and then, and what it is answered in the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        answered = asyncio.create_task(answer(reader))
        for byte in sent:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.1)
            if answered.done():
                assert await is_closed(reader)
                break
        found = await answered
        writer.close()
        return found

    async def work(server: Served) -> None:
        silent = await asyncio.open_connection("127.0.0.1", server.port)
        slow = [
            asyncio.create_task(drip(server, sent))
            for sent in (head, request(b" " * 100, Content__Type="text/plain")[:-100], head + b"\r\n\r\n" + b" " * 100)
        ]
        by_head, by_end, by_body = await asyncio.gather(*slow)
        assert by_head is not None and by_body is not None and by_end is not None
        assert by_head.status == by_end.status == by_body.status == 408
        assert await is_closed(silent[0])
        # A body that nobody wants is not read for ever, one that comes is taken.
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(b"", Content__Length="100000", Authorization=None))
        assert (await answer(reader)).status == 401
        assert await is_closed(reader)
        writer.close()
        assert (await server.send(head + b"\r\n\r\n", body, pause=0.3)).status == 200
        # More than may be silent: the oldest go, and who speaks is heard.
        many = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(120)]
        for _, writer in many[:100]:
            writer.write(b"POST /mcp HTTP/1.1\r\nHost:")
        for tenant in TENANTS:
            assert (await server.begin(tenant)).status == 200
        ended = await asyncio.gather(*(is_closed(reader, 0.2) for reader, _ in many))
        assert all(ended[:60]) and not any(ended[-20:])
        for _, writer in [silent, *many]:
            writer.close()

    run("mcp", tmp_path, work)


@pytest.mark.slow
def test_who_does_not_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS", dict.fromkeys(connections.SECONDS, 1))
    big = message("tools/call", name="process_output", arguments={"output": "x" * 90_000})

    async def work(server: Served) -> None:
        begun = await server.begin()
        named = of_session(begun)
        with socket.create_connection(("127.0.0.1", server.port)) as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.setblocking(False)
            name = reader.getsockname()
            async with asyncio.timeout(5):
                while (connection := server.connection(name)) is None:
                    await asyncio.sleep(0.01)
            connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            await asyncio.get_running_loop().sock_sendall(reader, request(big, **named) * 5)
            most = 0
            async with asyncio.timeout(10):
                while server.connection(name):
                    most = max(most, connection.transport.get_write_buffer_size())
                    await asyncio.sleep(0.01)
            assert 0 < most < 200 << 10  # the others are not made before the first is read
        assert (await server.send(request(message("ping"), **named))).status == 200

    run("mcp", tmp_path, work)


META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "doors", "version": "1"},
}
THREE = {**TENANTS, "initech": "initech-token"}


def modern(name: str, tenant: str = "acme") -> bytes:
    """A request of the protocol without sessions, for a conversation of a name."""
    return request(
        message("tools/list", _meta=META),
        Authorization=f"Bearer {tenant}-token",
        X__Byref__Session=name,
        **MODERN_HEADERS,
    )


def test_one_tenant_leaves_the_others_their_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MAX_SESSIONS", 6)
    monkeypatch.setattr(door, "ROOM_SECONDS", 0.3)

    async def work(server: Served) -> None:
        begun = [await server.begin() for _ in range(3)]
        refused = await server.begin()
        assert refused.status == 503 and refused.headers["retry-after"]
        assert refused.message["error"]["message"] == (
            "too many sessions are open (3 of one tenant, 6 of all): end one with DELETE, or come again; one "
            "that is not used for 0 s makes room by itself"
        )
        assert server.made == 3
        others = [await server.begin(tenant) for tenant in ("globex", "globex", "globex", "initech")]
        assert [one.status for one in others] == [200] * 4
        assert (await server.begin("initech")).status == 503
        # What is in use stays, of the others the one that was used longest ago makes room.
        first, second, third = map(of_session, begun)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(method="GET", **first))
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        assert (await server.send(request(message("ping"), **second))).status == 200
        await asyncio.sleep(0.3)
        assert (await server.begin()).status == 200
        found = [(await server.send(request(message("ping"), **one))).status for one in (first, second, third)]
        assert found == [200, 200, 404]
        writer.close()
        assert server.made == 7

    run("mcp", tmp_path, work, tokens=THREE)


@pytest.mark.slow
def test_one_tenant_leaves_the_others_their_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_server, "MAX_CONVERSATIONS", 6)

    async def work(server: Served) -> None:
        assert server.gateway is not None
        begun = await server.begin()
        for name in ("a", "b"):
            assert "result" in (await server.send(modern(name))).message
        made = server.made
        for refused in (await server.send(modern("c")), await server.begin()):
            assert "(3 of one tenant, 6 of all)" in refused.message["error"]["message"]
        # An `initialize` that is refused inside leaves nothing, what is open goes on.
        assert made == 4
        async with asyncio.timeout(5):
            while server.made > made:
                await asyncio.sleep(0.02)
        assert "result" in (await server.send(modern("a"))).message
        for tenant in ("globex", "globex", "globex", "initech"):
            assert "result" in (await server.begin(tenant)).message
        monkeypatch.setattr(gateway_server, "ROOM_SECONDS", 0.5)
        await asyncio.sleep(0.5)
        assert "result" in (await server.send(modern("a"))).message
        assert "result" in (await server.send(modern("c"))).message
        # The first has made room; its client finds its data again, with servers that were started anew.
        await asyncio.sleep(0.5)
        named = of_session(begun)
        listed = await server.send(request(message("tools/list"), **named))
        assert listed.message["result"]["tools"]
        assert len(server.gateway._running) == 7

    run("gateway", tmp_path, work, tokens=THREE)


def test_one_tenant_leaves_the_others_room_for_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MAX_REQUESTS", 8)
    monkeypatch.setattr(door, "KEPT_REQUESTS", 2)
    monkeypatch.setattr(door, "MAX_BODIES_BYTES", 200_000)

    async def work(server: Served) -> None:
        sockets = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(4)]
        for _, writer in sockets:
            writer.write(request(HELLO, Content__Length="150000"))
        # Only one of them is read, until it is whole; the others wait, as their clients do.
        refused = await retried(lambda: server.begin(), 503)
        assert "under way (4 of one tenant, 8 of all)" in refused.message["error"]["message"]
        assert (await server.begin("globex")).status == 200
        for at, (reader, writer) in enumerate(sockets):
            writer.write(b" " * (150_000 - len(HELLO)))
            assert (await answer(reader)).status == 200, at
            writer.close()
        assert (await retried(lambda: server.begin(), 200)).status == 200

    run("mcp", tmp_path, work)


async def retried(asked: Callable[[], Coroutine[Any, Any, Answer]], status: int) -> Answer:
    """Ask until the answer has a status."""
    async with asyncio.timeout(10):
        while (found := await asked()).status != status:
            await asyncio.sleep(0.02)
    return found


@pytest.mark.parametrize("piece", [1, 2, 3, 1000])
def test_values_are_counted_outside_of_texts_alone(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(bodies, "PIECE_BYTES", piece)
    inside = json.dumps(['[{,"\\', "\\\\", '"', "", '\\"[', {'"[,\\"': '\\"'}])
    for text, values in ((inside, 7), ("[]", 1), ('"[,', 0), ("[1,2,[{}]]", 5), ("\\" * 9 + "[", 1)):
        for most in range(12):
            assert asyncio.run(bodies.has_more_values(text.encode(), most)) is (values > most), (text, most)


def test_a_request_of_more_values_than_are_decoded_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MAX_VALUES", 1_000)

    async def work(server: Served) -> None:
        named = of_session(await server.begin())
        for values, status in ((900, 200), (1_000, 413)):
            body = message("tools/call", name="process_output", arguments={"output": [1] * values})
            assert (await server.send(request(body, **named))).status == status

    run("mcp", tmp_path, work)


# Heavy ones, against a process of its own


@contextmanager
def process(folder: Path, *words: str) -> Iterator[tuple[int, int]]:
    """`byref mcp --http`: its port, and the id of its process."""
    port = free_port()
    command = [sys.executable, "-m", "byref.cli", "mcp", "--db", str(folder / "doors.db")]
    started = subprocess.Popen([*command, "--http", f"127.0.0.1:{port}", *words], stderr=subprocess.PIPE)
    assert started.stderr
    try:
        started.stderr.readline()
        yield port, started.pid
    finally:
        started.terminate()
        started.communicate()


def memory(process: int) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def told(port: int, *sent: bytes) -> list[Answer]:
    """Send requests, each when the one before is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = []
    for one in sent:
        writer.write(one)
        found.append(await answer(reader, 30))
    writer.close()
    return found


@pytest.mark.slow
def test_pages_and_sessions_leave_no_memory(tmp_path: Path) -> None:
    page = request(HELLO + b" " * 5_000, Content__Type="text/plain", Origin="https://evil.example")

    async def pages(port: int, count: int) -> None:
        for _ in range(10):
            assert {one.status for one in await told(port, *[page] * (count // 10))} == {403}

    async def sessions(port: int, count: int) -> None:
        for _ in range(count):
            begun = await told(port, request())
            ended = await told(port, request(method="DELETE", **of_session(begun[0])))
            assert (begun[0].status, ended[0].status) == (200, 200)

    with process(tmp_path) as (port, pid):
        for work, count in ((pages, 3_000), (sessions, 500)):
            asyncio.run(work(port, 100))
            before = memory(pid)
            asyncio.run(work(port, count))
            assert memory(pid) - before < 4 << 20, work.__name__


@pytest.mark.slow
@pytest.mark.parametrize(("count", "says"), [(520, b"POST /mcp HTTP/1.1\r\nHost: "), (10_000, b"")])
def test_a_flood_keeps_no_tenant_out(tmp_path: Path, count: int, says: bytes) -> None:
    (tmp_path / "tokens.json").write_text(json.dumps(TENANTS))
    flood = (
        "import resource, socket, sys, time\n"
        "port, count, says = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))\n"
        "held = [socket.create_connection(('127.0.0.1', port)) for _ in range(count)]\n"
        "for one in held:\n"
        "    try: one.send(says)\n"
        "    except OSError: pass\n"
        "print('held', flush=True)\n"
        "time.sleep(60)\n"
    )
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < count + 100:
        pytest.skip("this machine lets a process have too few files")

    async def work(port: int) -> list[float]:
        named = of_session((await told(port, request()))[0])
        times = []
        while len(times) < 300:
            began = time.monotonic()
            assert (await told(port, request(message("ping"), **named)))[0].status == 200
            times.append(time.monotonic() - began)
        return sorted(times)

    with process(tmp_path, "--tokens", str(tmp_path / "tokens.json")) as (port, pid):
        attacker = subprocess.Popen(
            [sys.executable, "-c", flood, str(port), str(count), says.hex()], stdout=subprocess.PIPE
        )
        try:
            times = asyncio.run(work(port))
            assert times[int(len(times) * 0.98)] < 0.5
            assert attacker.stdout and attacker.stdout.readline() == b"held\n"
            files = [len(os.listdir(f"/proc/{pid}/fd"))]
            end = time.monotonic() + 5
            while (
                files[-1] >= connections.MAX_SILENT + 50
            ):  # some are accepted before those that go for them are closed
                assert time.monotonic() < end, files
                time.sleep(0.05)
                files.append(len(os.listdir(f"/proc/{pid}/fd")))
            assert max(files) < 2 * connections.MAX_SILENT
        finally:
            attacker.kill()
            attacker.communicate()
