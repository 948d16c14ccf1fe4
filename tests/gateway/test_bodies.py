"""Bodies of HTTP answers: small compressed ones that become large are cut, and other calls hardly notice them."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from bomb_server import MB, squeezed
from gateway_kit import Place, free_port, serving, text_of
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.types import TextResourceContents

from byref.gateway import bodies
from byref.gateway.bodies import events, pieces
from byref.gateway.messages import Allowance, Oversized

BOMBS = str(Path(__file__).parent / "bomb_server.py")


PLAIN = str(Path(__file__).parent / "raw_server.py")


CALM_SECONDS = 0.2
"""That others wait longer than without it, of a hundred calls one aside."""


class Body(httpx2.AsyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


def answer(chunks: list[bytes], encoding: str = "") -> httpx2.Response:
    headers = {"content-encoding": encoding} if encoding else {}
    return httpx2.Response(200, headers=headers, stream=Body(chunks), request=httpx2.Request("GET", "http://x"))


def by_deflate(data: bytes, wbits: int) -> bytes:
    made = zlib.compressobj(wbits=wbits)
    return made.compress(data) + made.flush()


@pytest.mark.parametrize(
    ("chunks", "encoding", "whole"),
    [
        ([b"ab", b"c"], "", b"abc"),
        ([gzip.compress(b"abc" * MB)], "gzip", b"abc" * MB),
        ([bytes([byte]) for byte in gzip.compress(b"abc" * 1_000)], "GZip", b"abc" * 1_000),
        ([by_deflate(b"abc", zlib.MAX_WBITS)], "deflate", b"abc"),
        ([by_deflate(b"abc", -zlib.MAX_WBITS)], "deflate", b"abc"),
        ([b"what"], "gzip", "no gzip"),
        ([b"\x0b"], "br", "not asked for"),
        ([gzip.compress(gzip.compress(b"abc"))], "gzip, gzip", "not asked for"),
        ([squeezed(20 * MB)], "gzip", "more than 16 MB"),
        ([gzip.compress(b" " * MB) + b" " * MB], "gzip", b" " * MB),
    ],
)
def test_bodies_are_decoded_as_far_as_they_may_be_long(
    monkeypatch: pytest.MonkeyPatch, chunks: list[bytes], encoding: str, whole: bytes | str
) -> None:
    async def work() -> bytes:
        async for piece in pieces(answer(chunks, encoding)):
            assert len(piece) <= 1 << 16
        allowance = Allowance("x")
        data, _ = await bodies.body(answer(chunks, encoding), allowance, 16 * MB)
        return data

    if isinstance(whole, bytes):
        assert asyncio.run(work()) == whole
    else:
        with pytest.raises((Oversized, httpx2.DecodingError), match=whole):
            asyncio.run(work())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"data: a\n\n", [("", b"a")]),
        (b"\xef\xbb\xbfdata: a\r\ndata:b\r\n\r\n", [("", b"a\nb")]),
        (b"event: message\rdata: a\r\rdata: b\r\r", [("message", b"a"), ("", b"b")]),
        (b": comment\n\nevent: x\n\ndata\n\ndata:\n\n", [("", b"")]),
        (b"data: a", []),
        (b"\n" * 5_000 + b"data: a\n" + b"\n" * 5_000 + b"data: b\n\n", [("", b"a"), ("", b"b")]),
        (b"id: " + b"x" * 2_000 + b"\nretry: " + b"9" * 5_000 + b"\ndata: a\n\n", [("", b"a")]),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_events_are_read_whatever_pieces_they_come_in(text: bytes, found: list[Any], step: int) -> None:
    async def work() -> list[Any]:
        chunks = [text[at : at + step] for at in range(0, len(text), step)]
        return [(event.name, await event.data.joined()) async for event in events(answer(chunks), Allowance("x"))]

    assert asyncio.run(work()) == found


def test_events_without_end_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_MESSAGE_BYTES", 4 * MB)

    async def work(chunk: bytes) -> None:
        async for _ in events(answer([chunk] * 8), Allowance("x")):
            pass

    for chunk in (b"data:ab\n" * (MB // 8), b"data: " + b"a" * MB):
        with pytest.raises(Oversized, match="an event of more than"):
            asyncio.run(work(chunk))


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    port = free_port()
    with serving([sys.executable, BOMBS, "http", str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


def config(place: Place, url: str) -> str:
    pipe = {"command": sys.executable, "args": [BOMBS, "stdio"]}
    plain = {"command": sys.executable, "args": [PLAIN, "plain"]}
    circles = {"command": sys.executable, "args": [PLAIN, "circles"]}
    return place.write({"pipe": pipe, "web": {"type": "http", "url": url}, "plain": plain, "circles": circles})


def test_a_bomb_is_an_error_of_its_call(place: Place, web: str) -> None:
    async def work() -> None:
        async with place.client("--config", config(place, web)) as client:
            for name, told in {
                "pipe__deep": "200 levels",
                "pipe__levels": "200 levels",
                "pipe__digits": "no message",
                "pipe__small": "small",
                "br": "not asked for",
                "no_gzip": "no gzip",
                "redirect": "HTTP 307",
                "stream_retry": "small",
                "stream_sound": "small",
                "deflate_raw": "small",
                "error_gzip": "HTTP 500",
            }.items():
                assert told in await outcome(client, name), name
            schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            assert list(schemas["own"]["properties"]) == ["y"]
            for name in ("own", "other"):  # their schemas apply themselves to the same value again
                assert '"a $b"' in text_of(await client.call_tool(name, {"x": "a $b"}))
            assert '"name": "raw"' in await outcome(client, "raw")

    asyncio.run(work())
    assert "panicked" not in place.errors()


@pytest.mark.slow
def test_what_is_too_long_for_http_is_an_error(place: Place, web: str) -> None:
    port = free_port()
    words = ("--config", place.write({"web": {"type": "http", "url": web}}))

    async def work() -> None:
        with serving(place.command(*words, "--http", f"127.0.0.1:{port}"), port):
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                assert "more than 32 MB, which is not passed on by HTTP" in await outcome(client, "bomb://33")
                assert await outcome(client, "bomb://0") == "0 MB"

    asyncio.run(work())


def p99(waits: list[float]) -> float:
    return sorted(waits)[max(int(len(waits) * 0.99) - 1, 0)]


async def outcome(client: Client, name: str) -> str:
    try:
        if name.startswith("bomb://"):
            (contents,) = (await client.read_resource(name)).contents
            assert isinstance(contents, TextResourceContents)
            return f"{len(contents.text) >> 20} MB"
        return text_of(await client.call_tool(name, {}))
    except MCPError as error:
        return str(error)


def gateway_in(folder: Path) -> int:
    """The process id of the gateway whose database is there."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"{folder}/gateway.db".encode() in line.read_bytes() and b"byref.cli" in line.read_bytes():
                return int(line.parent.name)
    raise AssertionError("there is no gateway")


def peak_of(pid: int) -> int:
    """The most memory that a process had, in MB."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) >> 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told", "most"),
    [
        ("gzip", "more than 256 MB", 700),
        ("gzip_twice", "not asked for", 50),
        ("deflate", "more than 256 MB", 700),
        ("stream_gzip", "ended without an answer", 100),
        ("stream_lines", "100,000 lines", 700),
        ("stream_parts", "4,000,000", 400),
        ("stream_feeds", "small", 100),
        ("stream_id", "small", 100),
        ("headers", "", 100),
        ("web__error", "no no", 200),
        ("pipe__unasked", "small", 200),
        ("pipe__parts60", "4,000,000", 300),
        ("pipe__members60", "4,000,000", 400),
        ("pipe__blocks", "4,000,000", 200),
        ("pipe__wide", "1 GB of memory", 800),
        ("pipe__notes", "small", 200),
        ("pipe__big_notes", "small", 400),
        ("pipe__text60", "hello world", 700),
        ("pipe__records30", "374491", 700),
        ("gzip_sound", "374491", 700),
        ("bomb://4", "4 MB", 100),
    ],
)
def test_others_hardly_notice_a_bomb(place: Place, web: str, name: str, told: str, most: int) -> None:
    """Most: megabytes of memory that the gateway takes for it."""

    async def work() -> tuple[str, float, int]:
        # Not forked: its memory is its own from the beginning.
        command, *arguments = place.own_command("--config", config(place, web))
        started = StdioServerParameters(command=command, args=arguments, env=dict(os.environ), cwd=place.folder)
        with (place.folder / "stderr").open("a") as log:
            async with Client(stdio_client(started, log), mode="legacy") as client:
                return await beside(client)

    async def beside(client: Client) -> tuple[str, float, int]:
        await client.list_tools()
        pid = gateway_in(place.folder)
        waits: list[float] = []
        over = asyncio.Event()

        async def others() -> None:
            while not over.is_set():
                start = time.monotonic()
                await client.call_tool("raw", {})
                waits.append(time.monotonic() - start)
                await asyncio.sleep(0.01)

        other = asyncio.create_task(others())
        await asyncio.sleep(1)
        alone, before = p99(waits), peak_of(pid)  # what small calls import is there
        waits.clear()
        found = await outcome(client, name)
        over.set()
        await other
        return found, p99(waits) - alone, peak_of(pid) - before

    found, longer, grown = asyncio.run(work())
    assert told in found
    assert grown < most
    assert longer < CALM_SECONDS
