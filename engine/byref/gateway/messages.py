"""Messages of strangers: weighed before anything is made of them, and read chunk by chunk on a thread where that takes long.

Three bytes of JSON become an object of sixty. What bounds the bytes of a message does not bound what becomes of them, and a
parser in C stops everything else while it runs.
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
"""Of one message; a server that writes more is stopped."""
MAX_PARTS: Final = 4_000_000
"""Arrays, objects and values of one message."""
ALLOWED_BYTES: Final = 1 << 30
"""What the messages of one server that are being read or worked on may take, of all its connections together."""
ALLOWANCE_SECONDS: Final = 30.0
"""How long a message waits for others to be done with."""
MAX_LEVELS: Final = 200
"""Of one message: what is nested more deeply neither clients read nor the SDK writes."""
WINDOW_SECONDS: Final = 10.0
WINDOW_NOTIFICATIONS: Final = 2_000
WINDOW_BYTES: Final = 1 << 20
"""What one server may tell the client by itself in such a window; more is dropped."""
MAX_ERROR_CHARS: Final = 10_000
"""Of a server's error; a longer text is cut."""
_AT_ONCE: Final = 1 << 15
"""Bytes that are read on the loop."""
_UNCOUNTED: Final = 1 << 12
"""Bytes of a message that counts as nothing."""
_READERS: Final = 2
"""Threads that read messages of either length, of all servers: each takes its turns with the loop."""
_LONG: Final = 1 << 20
"""Bytes of a message that takes long; a server has one of them read at a time, and shorter ones do not wait for it."""
_PART: Final = 8
"""What a value weighs beside its characters."""
_PIECE: Final = 1 << 16
_PAUSE: Final = 0.02

_SCALAR = rb'(?:"[^"\\]{0,200}"|-?[0-9]{1,20}|null)'
_HEAD = re.compile(rb'\s*\{(?:\s*"(?:jsonrpc|id)"\s*:\s*' + _SCALAR + rb"\s*,)*")
_ASKS = re.compile(_HEAD.pattern + rb'\s*"(?:method|params)"')
_TAIL = re.compile(rb'(?:,\s*"(?:jsonrpc|id)"\s*:\s*' + _SCALAR + rb"\s*)+\}\s*\Z")
_ID = re.compile(rb'"id"\s*:\s*(' + _SCALAR + rb")")
_ENDS: Final = 1_000
"""Bytes at either end in which the id is looked for that a message too large to be read answers."""

logger = logging.getLogger("byref")
_readers = ThreadPoolExecutor(_READERS, "byref-gateway-reader")
_long_readers = ThreadPoolExecutor(_READERS, "byref-gateway-long-reader")
_writers = ThreadPoolExecutor(_READERS, "byref-gateway-writer")


class Oversized(Exception):
    """A message is more than may be held; the text says which bound."""


class Allowance:
    """What the messages of one server, or of a client, may take of memory, all its connections together."""

    def __init__(self, server: str, sender: str | None = None) -> None:
        self.server = server
        self.sender = sender or f"the MCP server {server!r}"
        """As errors name it."""
        self.used = 0
        self.reading = asyncio.Semaphore(1)
        """Of a long message."""
        self._lock = threading.RLock()

    def take(self, size: int) -> bool:
        """Take so many bytes; False if there are not so many left."""
        with self._lock:
            if self.used + size > ALLOWED_BYTES:
                return False
            self.used += size
            return True

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._lock:
            self.used -= size


class Lease:
    """A part of an allowance, given back by who has it, or once nobody has it any more."""

    __slots__ = ("_allowance", "size")

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self.size = 0

    async def grow(self, size: int) -> None:
        """Take more, when it is there.

        Raises:
            Oversized: it was not there in time.
        """
        if self.size + size <= ALLOWED_BYTES:
            with anyio.move_on_after(ALLOWANCE_SECONDS):
                while not self._allowance.take(size):
                    await anyio.sleep(_PAUSE)
                self.size += size
                return
        raise Oversized(
            f"{self._allowance.sender} sent more than is taken at once: {ALLOWED_BYTES >> 30} GB of memory for all of its "
            "messages that are being worked on"
        )

    def release(self) -> None:
        """Give all of it back."""
        size, self.size = self.size, 0
        self._allowance.give(size)

    def __del__(self) -> None:
        if self.size:
            self.release()


class Pieces:
    """Bytes as they come, in pieces of any size: a server may send them one by one."""

    __slots__ = ("_last", "_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._last = bytearray()
        self.size = 0

    def add(self, piece: bytes | bytearray | memoryview) -> None:
        """Add what came next."""
        self.size += len(piece)
        self._last += piece
        if len(self._last) >= _PIECE:
            self._pieces.append(bytes(self._last))
            self._last = bytearray()

    async def joined(self) -> bytes:
        """Return all of them as one, and begin anew; many are put together on a thread."""
        self._pieces.append(bytes(self._last))
        pieces, size = self._pieces, self.size
        self._pieces, self._last, self.size = [], bytearray(), 0
        return _joined(pieces) if size <= _LONG else await on_thread(_long_readers, lambda: _joined(pieces))


def _joined(pieces: list[bytes]) -> bytes:
    whole = b"".join(pieces)  # which gives the interpreter's lock back
    pieces.clear()
    return whole


class Pace:
    """How much a server may tell by itself: so many notifications, and bytes of them, in a window of time."""

    def __init__(self) -> None:
        self._began = 0.0
        self._count = self._bytes = 0

    def admits(self, size: int) -> bool:
        """Count a notification; False if it is too much."""
        now = time.monotonic()
        if now - self._began > WINDOW_SECONDS:
            self._began, self._count, self._bytes = now, 0, 0
        self._count, self._bytes = self._count + 1, self._bytes + size
        return self._count <= WINDOW_NOTIFICATIONS and self._bytes <= WINDOW_BYTES


class ServerData:
    """The data of an error that a server answered with. By its code alone it could be the SDK's own error for no answer."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data


class Held(dict[str, Any]):
    """A result or parameters, with the lease that is given back when they are gone."""

    __slots__ = ("lease", "size")
    lease: Lease
    size: int
    """Bytes of the message."""


def size_of(value: object) -> int:
    """Return how many bytes the message had that brought a result; 0 where that is not known."""
    return getattr(value, "size", 0)


async def read(data: bytes, allowance: Allowance) -> JSONRPCMessage | None:
    """Return a message; None if it is none. One that is too much becomes an error for who waits for it.

    What is JSON to Python alone (half of a surrogate pair, bytes that are no UTF-8) is read with U+FFFD in its place; an
    answer that is no object becomes an error, so that who waits for it is told.

    Raises:
        Oversized: it is too much, and nobody knows what it answers.
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
    """Return a message; None if it is none.

    Raises:
        Oversized: it is too much; `id_of` and `asks` say who waits for what.
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
            async with allowance.reading:
                message = await _read_on(_long_readers, data, allowance, lease)
    except Oversized:
        raise
    except Exception:
        logger.exception("a message of %s could not be read", allowance.sender)
        message = None
    return None if message is None else _with_lease(message, lease, len(data))


async def _read_on(readers: Executor, data: bytes, allowance: Allowance, lease: Lease) -> JSONRPCMessage | None:
    await lease.grow(await on_thread(readers, lambda: _weighed(data, allowance)))
    return await on_thread(readers, lambda: _read(data, allowance.sender))


_NO_MESSAGE = "the server's answer is no message of this protocol"


def failed(id: int | str, reason: str, code: int = INTERNAL_ERROR) -> JSONRPCError:
    """Return an error in the place of an answer."""
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=reason))


def _weighed(data: bytes, allowance: Allowance) -> int:
    """How many bytes the objects take that become of a message.

    Raises:
        Oversized: they are too many, in number or in bytes.
    """
    if weight.is_nested_deeper(data, MAX_LEVELS):
        raise Oversized(f"{allowance.sender} sent more than {MAX_LEVELS} levels in one message")
    if weight.has_too_many_parts(data, MAX_PARTS):
        raise Oversized(f"{allowance.sender} sent more than {MAX_PARTS:,} arrays, objects and values in one message")
    # The text that the objects are made from is there as long as they are made.
    return weight.decoded_bytes(data, ALLOWED_BYTES) + weight.width_of(data) * len(data)


def _read(data: bytes, sender: str) -> JSONRPCMessage | None:
    try:
        value = _decoded(data)
    except (ValueError, RecursionError):
        return None
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
    """Tell whether a message that is too large to be read is a request, as far as it begins like one."""
    return _ASKS.match(data[:_ENDS]) is not None


def id_of(data: bytes) -> int | str | None:
    """Return the id at one of the ends of a message, where nothing but the message itself can have one."""
    head, tail = _HEAD.match(data[:_ENDS]), _TAIL.search(data[-_ENDS:])
    for found in (head, tail):
        if found is not None and (named := _ID.search(found[0])) is not None:
            id = json.loads(named[1])
            return id if isinstance(id, int | str) else None
    return None


def _with_lease(message: JSONRPCMessage, lease: Lease, size: int) -> JSONRPCMessage:
    """The message, whose contents hold the lease; of an error no more than may be told."""
    if isinstance(message, JSONRPCError):
        error = message.error
        if len(error.message) > MAX_ERROR_CHARS:
            error.message = f"{error.message[:MAX_ERROR_CHARS]}… ({len(error.message):,} characters)"
        error.data = ServerData(None if size > _AT_ONCE else error.data)
        return message
    for name in ("result", "params"):
        if isinstance(given := getattr(message, name, None), dict):
            held = Held(given)
            held.lease, held.size = lease, size
            setattr(message, name, held)
    return message


def encoded(message: Any) -> bytes:
    """Return a message as JSON; half of a surrogate pair, which stored data may have, as its escape."""
    try:
        text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
        return text.encode()
    except ValueError:
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()


def is_long(message: JSONRPCMessage) -> bool:
    """Tell whether to write a message takes so long that it is not done on the loop; it is looked at no further than that."""
    return any(weight_of(getattr(message, name, None), _AT_ONCE) > _AT_ONCE for name in ("result", "params"))


def pieces_of(message: JSONRPCMessage) -> Iterator[bytes]:
    """Yield the JSON of a message, chunk by chunk."""
    return _pieces(
        {name: getattr(message, name) for name in type(message).model_fields if name in message.model_fields_set}
    )


async def sendable(message: JSONRPCMessage) -> bytes:
    """Return a message as JSON, made on a thread where that takes long."""
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
    """The members in runs of one chunk; one that is more than a chunk is a run of its own."""
    first, weight = 0, 0
    for at, member in enumerate(members):
        own = weight_of(member, chunks.CHUNK)
        if at > first and weight + own > chunks.CHUNK:
            yield members[first:at]
            first, weight = at, 0
        weight += own
    yield members[first:]


def weight_of(value: object, most: int) -> int:
    """Return about how long a value is as JSON, up to a bit more than `most`."""
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
