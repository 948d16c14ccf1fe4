"""Reads and writes messages of untrusted servers and clients: weighed before they are parsed, and on a thread if they are long.

Three bytes of JSON can become an object of sixty, so a bound on a message's bytes does not bound the memory of its objects; and a
parser in C holds the interpreter while it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final

import anyio
import msgspec
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter
from pydantic_core import to_json

from byref.describe.jsontext import without_surrogates
from byref.gateway.containment import is_failure, on_thread
from byref.jsonscan import chunks, parse_chunked
from byref_sandbox import jsontext
from byref_sandbox.values import weight

MAX_MESSAGE_BYTES: Final = 256 << 20
"""Bytes of one message; a server that writes more is stopped."""
MAX_PARTS: Final = 4_000_000
"""Arrays, objects and values in one message."""
ALLOWED_BYTES: Final = 1 << 30
"""Memory for the messages of one server that are being read or worked on, over all its connections."""
ALLOWANCE_SECONDS: Final = 30.0
"""How long a message waits until others have given memory back."""
MAX_LEVELS: Final = 200
"""Nesting of one message: clients do not read deeper nesting, and the SDK does not write it."""
WINDOW_SECONDS: Final = 10.0
WINDOW_NOTIFICATIONS: Final = 2_000
WINDOW_BYTES: Final = 1 << 20
"""Notifications, and their bytes, that one server may send the client in one window; further ones are dropped."""
MAX_ERROR_CHARS: Final = 10_000
"""Length of a server's error text; a longer one is cut."""
_AT_ONCE: Final = 1 << 15
"""Bytes of a message that is read on the event loop."""
_UNCOUNTED: Final = 1 << 12
"""Bytes of a message that is not counted towards the allowance."""
_READERS: Final = 2
"""Threads for messages of each length, shared by all servers: each thread competes with the event loop for the interpreter."""
_LONG: Final = 1 << 20
"""Bytes of a message that counts as long: one at a time is read per server, on threads that shorter ones do not wait for."""
_PART: Final = 8
"""Weight of a value besides its characters."""
_PIECE: Final = 1 << 16
_PAUSE: Final = 0.02

_SCALAR = rb'(?:"[^"\\]{0,200}"|-?[0-9]{1,20}|null)'
_HEAD = re.compile(rb'\s*\{(?:\s*"(?:jsonrpc|id)"\s*:\s*' + _SCALAR + rb"\s*,)*")
_ASKS = re.compile(_HEAD.pattern + rb'\s*"(?:method|params)"')
_TAIL = re.compile(rb'(?:,\s*"(?:jsonrpc|id)"\s*:\s*' + _SCALAR + rb"\s*)+\}\s*\Z")
_ID = re.compile(rb'"id"\s*:\s*(' + _SCALAR + rb")")
_ENDS: Final = 1_000
"""Bytes at either end of a message too large to be parsed in which its id is searched for."""

logger = logging.getLogger("byref")
_readers = ThreadPoolExecutor(_READERS, "byref-gateway-reader")
_long_readers = ThreadPoolExecutor(_READERS, "byref-gateway-long-reader")
_writers = ThreadPoolExecutor(_READERS, "byref-gateway-writer")


class Oversized(Exception):
    """A message exceeds a bound; the text says which."""


class Allowance:
    """The memory that the messages of one server, or of a client, may take over all its connections."""

    def __init__(self, server: str, sender: str | None = None) -> None:
        self.server = server
        self.sender = sender or f"the MCP server {server!r}"
        """The sender's name in errors."""
        self.used = 0
        self.reading = asyncio.Semaphore(1)
        """Held while a long message is read."""
        # Reentrant: `Lease.__del__` may run, and give bytes back, at any allocation, even while this thread holds the lock.
        self._lock = threading.RLock()

    def take(self, size: int) -> bool:
        """Take bytes of the allowance; return False if not enough are left."""
        with self._lock:
            if self.used + size > ALLOWED_BYTES:
                return False
            self.used += size
            return True

    def give(self, size: int) -> None:
        """Give bytes back to the allowance."""
        with self._lock:
            self.used -= size


class Lease:
    """A part of an allowance; it is given back by `release`, or when the lease is garbage-collected."""

    __slots__ = ("_allowance", "size")

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self.size = 0

    async def grow(self, size: int) -> None:
        """Take more of the allowance, and wait until it is free.

        Raises:
            Oversized: it did not get free in time.
        """
        if self.size + size <= ALLOWED_BYTES:
            # Back-pressure: while this waits, the connection is not read further, so the server's own writes block. It polls,
            # because bytes are also given back by the garbage collector, on any thread.
            with anyio.move_on_after(ALLOWANCE_SECONDS):
                while not self._allowance.take(size):
                    await anyio.sleep(_PAUSE)
                self.size += size
                return
        raise Oversized(
            f"{self._allowance.sender} sent more than is accepted at once: {ALLOWED_BYTES >> 30} GB of memory for all of its "
            "messages that are being worked on"
        )

    def release(self) -> None:
        """Give the whole lease back."""
        size, self.size = self.size, 0
        self._allowance.give(size)

    def __del__(self) -> None:
        if self.size:
            self.release()


class Pieces:
    """A buffer for bytes that come in pieces of any size; a server may send them one by one."""

    __slots__ = ("_last", "_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._last = bytearray()
        self.size = 0

    def add(self, piece: bytes | bytearray | memoryview) -> None:
        """Add the next bytes."""
        self.size += len(piece)
        # Small pieces are collected in one buffer: a list entry for each byte would take far more memory than the bytes.
        self._last += piece
        if len(self._last) >= _PIECE:
            self._pieces.append(bytes(self._last))
            self._last = bytearray()

    async def joined(self) -> bytes:
        """Return all bytes as one and empty the buffer; many bytes are joined on a thread."""
        self._pieces.append(bytes(self._last))
        pieces, size = self._pieces, self.size
        self._pieces, self._last, self.size = [], bytearray(), 0
        return _joined(pieces) if size <= _LONG else await on_thread(_long_readers, lambda: _joined(pieces))


def _joined(pieces: list[bytes]) -> bytes:
    whole = b"".join(pieces)  # for long data, join releases the interpreter's lock
    pieces.clear()
    return whole


class Pace:
    """Limits the notifications of one server: their number and their bytes in a window of time."""

    def __init__(self) -> None:
        self._began = 0.0
        self._count = self._bytes = 0

    def admits(self, size: int) -> bool:
        """Count a notification; return False if it exceeds the limit."""
        now = time.monotonic()
        if now - self._began > WINDOW_SECONDS:
            self._began, self._count, self._bytes = now, 0, 0
        self._count, self._bytes = self._count + 1, self._bytes + size
        return self._count <= WINDOW_NOTIFICATIONS and self._bytes <= WINDOW_BYTES


class ServerData:
    """Marks the data of an error that a server sent. The error's code alone could also be that of the SDK's own errors."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data


class Leased(dict[str, Any]):
    """A result or parameters, with a lease that is given back when the object is garbage-collected."""

    __slots__ = ("lease", "size")
    lease: Lease
    size: int
    """Length of the message in bytes."""


def size_of(value: object) -> int:
    """Return the length in bytes of the message that brought a result; 0 if it is not known."""
    return getattr(value, "size", 0)


async def read(data: bytes, allowance: Allowance) -> JSONRPCMessage | None:
    """Return a message, or None if the data is none. A message that is too much becomes an error for the request it answers.

    JSON that only Python accepts (half of a surrogate pair, bytes that are not UTF-8) is read with U+FFFD in their place. An answer
    in a wrong form becomes an error, so that its request does not wait in vain.

    Raises:
        Oversized: the message is too much, and what it answers is not known.
    """
    try:
        message = await parsed(data, allowance)
    except Oversized as error:
        if (id := id_of(data)) is None:
            raise
        return failed(id, str(error))
    if message is None:
        return None if (id := id_of(data)) is None else failed(id, _NO_MESSAGE)
    return message


async def parsed(data: bytes, allowance: Allowance) -> JSONRPCMessage | None:
    """Return a message, or None if the data is none.

    Raises:
        Oversized: the message is too much; `id_of` and `asks` find out which request waits for it.
    """
    lease = Lease(allowance)
    try:
        if len(data) <= _AT_ONCE:
            if len(data) > _UNCOUNTED:
                await lease.grow(weight.decoded_bytes(data, ALLOWED_BYTES))
            message = _read(data, allowance.sender)
        elif len(data) <= _LONG:
            message = await _read_on(_readers, data, allowance, lease)
        else:
            # One long message of each server at a time, so that one server cannot keep both threads busy alone.
            async with allowance.reading:
                message = await _read_on(_long_readers, data, allowance, lease)
    except Oversized:
        raise
    except Exception:
        logger.exception("a message of %s could not be read", allowance.sender)
        message = None
    return None if message is None else _with_lease(message, lease, len(data))


async def _read_on(readers: Executor, data: bytes, allowance: Allowance, lease: Lease) -> JSONRPCMessage | None:
    # Weighed first: parsing allocates the memory, so the allowance has to be there before.
    await lease.grow(await on_thread(readers, lambda: _weighed(data, allowance)))
    return await on_thread(readers, lambda: _read(data, allowance.sender))


_NO_MESSAGE = "the server's answer is no message of this protocol"


def failed(id: int | str | None, reason: str, code: int = INTERNAL_ERROR) -> JSONRPCError:
    """Return an error in place of an answer."""
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=reason))


def _weighed(data: bytes, allowance: Allowance) -> int:
    """Return the memory in bytes that parsing a message takes.

    Raises:
        Oversized: the message has too many levels or parts.
    """
    # The text alone is looked at: nothing of a hostile message becomes an object before it is known to be small enough.
    if weight.is_nested_deeper(data, MAX_LEVELS):
        raise Oversized(f"{allowance.sender} sent more than {MAX_LEVELS} levels in one message")
    if weight.has_too_many_parts(data, MAX_PARTS):
        raise Oversized(f"{allowance.sender} sent more than {MAX_PARTS:,} arrays, objects and values in one message")
    # The decoded text stays in memory while the objects are made from it, so it counts too.
    return weight.decoded_bytes(data, ALLOWED_BYTES) + weight.width_of(data) * len(data)


def _read(data: bytes, sender: str) -> JSONRPCMessage | None:
    try:
        value = _decoded(data)
    except (ValueError, RecursionError):
        return None
    # The nesting of longer messages was checked by `_weighed`, before they were parsed.
    if len(data) <= _AT_ONCE and data.count(b"[") + data.count(b"{") > MAX_LEVELS and _is_deep(value):
        raise Oversized(f"{sender} sent more than {MAX_LEVELS} levels in one message")
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        answers = isinstance(value, dict) and not value.keys().isdisjoint(("result", "error"))
        id = value.get("id") if answers else None
        return failed(id, _NO_MESSAGE) if isinstance(id, int | str) and not isinstance(id, bool) else None
    except BaseException as error:
        if not is_failure(error):
            raise
        return None


def _decoded(data: bytes) -> Any:
    with contextlib.suppress(UnicodeDecodeError):
        text = chunks.decode(data)
        if len(data) <= _AT_ONCE:
            with contextlib.suppress(ValueError, RecursionError):
                return msgspec.json.decode(text)
            return _sendable(json.loads(text, parse_int=jsontext.integer))
        with jsontext.collector_paused():
            value = parse_chunked(data)
        # Only an escape can make half of a surrogate pair: the bytes themselves were valid UTF-8.
        return _sendable(value) if chunks.holds(data, b"\\ud") or chunks.holds(data, b"\\uD") else value
    return _decoded(chunks.encode(chunks.decode(data, "replace")))


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_LEVELS):
        level = [
            member
            for one in level
            for member in (one.values() if isinstance(one, dict) else one)
            if isinstance(member, dict | list) and member
        ]
        if not level:
            return False
    return True


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        if value.isascii():
            return value
        return chunks.joined(map(without_surrogates, chunks.pieces(value)))
    if isinstance(value, dict):
        return {_sendable(key): _sendable(member) for key, member in value.items()}
    return [_sendable(item) for item in value] if isinstance(value, list) else value


def asks(data: bytes) -> bool:
    """Tell whether a message too large to be parsed is a request, judged by its beginning."""
    return _ASKS.match(data[:_ENDS]) is not None


def id_of(data: bytes) -> int | str | None:
    """Return a message's id, looked for only at its two ends: further inside, an id may be that of nested data."""
    head, tail = _HEAD.match(data[:_ENDS]), _TAIL.search(data[-_ENDS:])
    for found in (head, tail):
        if found is not None and (named := _ID.search(found[0])) is not None:
            id = json.loads(named[1])
            return id if isinstance(id, int | str) else None
    return None


def _with_lease(message: JSONRPCMessage, lease: Lease, size: int) -> JSONRPCMessage:
    """Return the message with the lease attached to its contents; an error is cut to the length that may be passed on."""
    if isinstance(message, JSONRPCError):
        error = message.error
        if len(error.message) > MAX_ERROR_CHARS:
            error.message = f"{error.message[:MAX_ERROR_CHARS]}… ({len(error.message):,} characters)"
        error.data = ServerData(None if size > _AT_ONCE else error.data)
        return message
    for name in ("result", "params"):
        if isinstance(given := getattr(message, name, None), dict):
            leased = Leased(given)
            leased.lease, leased.size = lease, size
            setattr(message, name, leased)
    return message


def encoded(message: Any) -> bytes:
    """Return a message as JSON; half of a surrogate pair, which stored data may have, is written as an escape."""
    try:
        text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
        return text.encode()
    except ValueError:
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()


def is_long(message: JSONRPCMessage) -> bool:
    """Tell whether a message takes so long to write that this is done on a thread; the check stops at that bound."""
    return any(weight_of(getattr(message, name, None), _AT_ONCE) > _AT_ONCE for name in ("result", "params"))


def pieces_of(message: JSONRPCMessage) -> Iterator[bytes]:
    """Yield a message's JSON chunk by chunk."""
    return _pieces(
        {name: getattr(message, name) for name in type(message).model_fields if name in message.model_fields_set}
    )


async def sendable(message: JSONRPCMessage) -> bytes:
    """Return a message as JSON; a long one is made on a thread."""
    if not is_long(message):
        return encoded(message)
    return await on_thread(_writers, lambda: _joined(list(pieces_of(message))))


def _pieces(value: Any) -> Iterator[bytes]:
    if weight_of(value, chunks.CHUNK) <= chunks.CHUNK:
        yield _json(value)
    elif isinstance(value, str):
        yield b'"'
        yield from (_json(piece)[1:-1] for piece in chunks.pieces(value))
        yield b'"'
    elif isinstance(value, dict):
        before = b"{"
        for members in _runs(list(value.items())):
            yield before
            if len(members) > 1:
                yield _json(dict(members))[1:-1]
            else:
                yield from _pieces(members[0][0])
                yield b":"
                yield from _pieces(members[0][1])
            before = b","
        yield b"}"
    else:
        before = b"["
        for items in _runs(value):
            yield before
            yield from [_json(items)[1:-1]] if len(items) > 1 else _pieces(items[0])
            before = b","
        yield b"]"


def _runs(members: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Group members into runs of about one chunk; a larger member is a run of its own."""
    first, weight = 0, 0
    for at, member in enumerate(members):
        own = weight_of(member, chunks.CHUNK)
        if at > first and weight + own > chunks.CHUNK:
            yield members[first:at]
            first, weight = at, 0
        weight += own
    yield members[first:]


def weight_of(value: object, most: int) -> int:
    """Estimate a value's length as JSON; the count stops soon after `most`."""
    weight, values = 0, list[Any]([value])
    while values and weight <= most:
        value = values.pop()
        weight += _PART
        if isinstance(value, str):
            weight += len(value)
        elif isinstance(value, dict) and weight + _PART * len(value) <= most:
            values += value
            values += value.values()
        elif isinstance(value, list | tuple) and weight + _PART * len(value) <= most:
            values += value
        elif isinstance(value, dict | list | tuple):
            weight += _PART * len(value)
    return weight


def _json(value: Any) -> bytes:
    try:
        return to_json(value, by_alias=True, inf_nan_mode="null")
    except ValueError:
        return json.dumps(value).encode()
