"""Bodies of HTTP answers: decompressed a piece at a time, and counted as they come.

A megabyte of gzip may be a gigabyte. httpx hands on what a whole chunk becomes; here it stops at the bound.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Final

import anyio
import httpx2

from byref.gateway.messages import MAX_MESSAGE_BYTES, Allowance, Lease, Oversized

ENCODINGS: Final = "gzip, deflate"
"""What is asked for; an answer that is encoded otherwise, or twice, is refused."""
_WINDOWS: Final = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_PIECE: Final = 1 << 16
_TURN: Final = 1 << 20
"""Bytes after which others have their turn."""
_MARK: Final = b"\xef\xbb\xbf"
"""Of UTF-8, which a stream may begin with."""
_MAX_LINES: Final = 100_000
"""Of an event: messages are JSON, which needs one."""
_MAX_ID_BYTES: Final = 1_000
_MAX_RETRY_DIGITS: Final = 6


async def pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield an answer's body, decoded, in small pieces.

    Raises:
        DecodingError: it is not encoded as was asked for.
        StreamError, TransportError: it does not come whole.
    """
    named = response.headers.get("content-encoding", "").strip().lower()
    window = _WINDOWS.get(named)
    if window is None and named not in ("", "identity"):
        raise httpx2.DecodingError(f"its answer is encoded as {named[:50]!r}, which was not asked for")
    decoder = None if window is None else zlib.decompressobj(window)
    since = 0
    async for chunk in response.aiter_raw():
        if decoder is None:
            yield chunk
            continue
        piece = b"more"
        while chunk or piece:
            try:
                piece = decoder.decompress(chunk, _PIECE)
            except zlib.error as error:
                if named != "deflate" or since:
                    raise httpx2.DecodingError(f"its answer is no {named}") from error
                decoder = zlib.decompressobj(-zlib.MAX_WBITS)  # as some servers understand the word
                piece = decoder.decompress(chunk, _PIECE)
            chunk = decoder.unconsumed_tail
            since += len(piece)
            if since > _TURN:
                since = 1
                await anyio.lowlevel.checkpoint()
            if piece:
                yield piece
            elif decoder.eof:
                break


async def body(response: httpx2.Response, allowance: Allowance, most: int = MAX_MESSAGE_BYTES) -> tuple[bytes, Lease]:
    """Return an answer's body, decoded, and the lease for it.

    Raises:
        Oversized: it has more than `most` bytes, or the server's allowance does not suffice.
    """
    lease, found, size = Lease(allowance), list[bytes](), 0
    async for piece in pieces(response):
        size += len(piece)
        if size > most:
            raise Oversized(f"the MCP server {allowance.server!r} answered with more than {most >> 20} MB")
        if size > lease.size:
            await lease.grow(max(_TURN, len(piece)))
        found.append(piece)
    return b"".join(found), lease


class Event:
    """A server-sent event: its data, and what else is of use."""

    __slots__ = ("data", "has_data", "id", "lease", "lines", "name", "retry")

    def __init__(self, lease: Lease) -> None:
        self.name = ""
        self.data = bytearray()
        self.has_data = False
        self.lines = 0
        self.id: str | None = None
        self.retry: float | None = None
        """Seconds."""
        self.lease = lease


async def events(response: httpx2.Response, allowance: Allowance) -> AsyncIterator[Event]:
    """Yield the events of a stream, each of at most `MAX_MESSAGE_BYTES`.

    httpx's own reader keeps each line of an event as an object, of which a message may have a hundred million.

    Raises:
        Oversized: an event is longer, or the server's allowance does not suffice.
    """
    line, event, after_return, is_first = bytearray(), Event(Lease(allowance)), False, True
    async for piece in pieces(response):
        if after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        after_return = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = piece.split(b"\n")
        for end in ended:
            line += end
            if is_first:
                is_first = False
                if line.startswith(_MARK):
                    del line[: len(_MARK)]
            if line:
                _take(event, line)
                line = bytearray()
                event.lines += 1
                if event.lines > _MAX_LINES:
                    raise Oversized(
                        f"the MCP server {allowance.server!r} sent an event of more than {_MAX_LINES:,} lines"
                    )
            elif event.lines:
                if event.has_data or event.id is not None or event.retry is not None:
                    yield event
                event = Event(Lease(allowance))
        line += rest
        held = len(event.data) + len(line)
        if held > MAX_MESSAGE_BYTES:
            raise Oversized(
                f"the MCP server {allowance.server!r} sent an event of more than {MAX_MESSAGE_BYTES >> 20} MB"
            )
        if held > event.lease.size and held > _PIECE:
            await event.lease.grow(_TURN)


def _take(event: Event, line: bytearray) -> None:
    if line.startswith(b"data:"):
        if event.has_data:
            event.data += b"\n"
        event.has_data = True
        with memoryview(line) as view:
            event.data += view[6:] if line.startswith(b"data: ") else view[5:]
        return
    name, _, value = line[: 2 * _MAX_ID_BYTES].partition(b":")
    value = value.removeprefix(b" ")
    if name == b"event":
        event.name = value[:100].decode("utf-8", "replace")
    elif name == b"id" and len(value) <= _MAX_ID_BYTES and b"\0" not in value:
        event.id = value.decode("utf-8", "replace")
    elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
        event.retry = int(value) / 1000
