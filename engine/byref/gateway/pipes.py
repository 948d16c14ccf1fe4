"""The client at the process's standard input and output; this replaces the SDK's transport, which uses a thread.

Waiting for a pipe can be cancelled at any time, so a signal ends the gateway. A small message needs no change of threads, and a
large one does not block the event loop while it is read or written.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from byref.gateway.messages import (
    MAX_MESSAGE_BYTES,
    Allowance,
    Oversized,
    Pieces,
    asks,
    encoded,
    failed,
    id_of,
    is_long,
    parsed,
    pieces_of,
)

_CHUNK = 1 << 16
_ATOMIC = 4096
"""Bytes that a pipe surely accepts when it reports that it is writable."""
_LARGE = 1 << 16
_BEGINNING = 1_000
"""Bytes kept of a line that is too long; its id is searched for in them."""
_Received = MemoryObjectReceiveStream[SessionMessage | Exception]
_Sent = MemoryObjectSendStream[SessionMessage]

logger = logging.getLogger("byref")


@contextmanager
def claimed() -> Iterator[tuple[int, int]]:
    """Yield descriptors of standard input and output; meanwhile other code reads nothing from stdin and prints to stderr."""
    # A library that prints, or reads from stdin, would otherwise break into the stream of messages.
    reading, writing, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    try:
        yield reading, writing
    finally:
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        for descriptor in (reading, writing, nothing):
            os.close(descriptor)


class _Asked:
    """The requests of a client that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[int | str] = set()
        self._are_answered = anyio.Event()

    def note(self, message: JSONRPCMessage) -> None:
        """Note a message of the client's: one that asks, or that needs no answer any more. A stream of news never has one."""
        if isinstance(message, JSONRPCRequest) and message.method != "subscriptions/listen":
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._over((message.params or {}).get("requestId"))

    def note_answer(self, message: JSONRPCMessage) -> None:
        """Note a message to the client."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._over(message.id)

    async def answered(self) -> None:
        """Wait until all have their answers; call it when no more of them come."""
        if self._ids:
            await self._are_answered.wait()

    def _over(self, id: object) -> None:
        if isinstance(id, int | str):
            self._ids.discard(id)
        if not self._ids:
            self._are_answered.set()
            self._are_answered = anyio.Event()


@asynccontextmanager
async def client_messages(
    reading: int, writing: int, leaving: anyio.Event | None = None, answer_seconds: float = 0
) -> AsyncIterator[tuple[_Received, _Sent]]:
    """Yield the stream of the client's messages and the stream to the client, in the form that the SDK's server expects.

    The former ends when the client has closed its end, or `leaving` is set; before, requests have `answer_seconds` to be answered.
    A client's message is weighed as a server's is; a request that is too much is answered with an error. A long message is made into
    JSON on a thread, and written chunk by chunk.
    """
    received_in, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, sent_out = anyio.create_memory_object_stream[SessionMessage](0)
    asked = _Asked()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, Lines(reading), received_in, sent.clone(), asked, leaving, answer_seconds)
        tasks.start_soon(_write, sent_out, Output(writing), asked)
        yield received, sent


async def _receive(
    lines: Lines,
    into: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
    asked: _Asked,
    leaving: anyio.Event | None,
    answer_seconds: float,
) -> None:
    async with into, refusals:
        async with anyio.create_task_group() as tasks:
            if leaving is not None:
                tasks.start_soon(_until, leaving, tasks.cancel_scope)
            await _read(lines, into, refusals, asked)
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(answer_seconds):
            await asked.answered()


async def _until(leaving: anyio.Event, scope: anyio.CancelScope) -> None:
    await leaving.wait()
    scope.cancel()


async def _read(
    lines: Lines,
    into: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
    asked: _Asked,
) -> None:
    allowance = Allowance("", "the client")
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for line in lines:
            try:
                if isinstance(line, Begun):
                    raise Oversized(f"the client sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB")
                message = await parsed(line, allowance)
            except Oversized as error:
                beginning = line.text if isinstance(line, Begun) else line
                # A request is answered with an error. An answer to one of our questions becomes an error for whoever waits for
                # it. Only a message without an id can be dropped without leaving somebody waiting.
                if (id := id_of(beginning)) is None:
                    logger.warning("%s; it is dropped", error)
                elif asks(beginning):
                    await refusals.send(SessionMessage(failed(id, str(error), INVALID_REQUEST)))
                else:
                    await into.send(SessionMessage(failed(id, str(error))))
                continue
            if message is not None:
                asked.note(message)
                await into.send(SessionMessage(message))
            elif line.strip():
                await refusals.send(SessionMessage(_refusal(line)))


def _refusal(line: bytes) -> JSONRPCError:
    """Return the error that answers a line that is no message."""
    if line.lstrip().startswith(b"["):
        return failed(None, "batches are not served: send each message in a line of its own", INVALID_REQUEST)
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return failed(None, "the line is no JSON that can be read", PARSE_ERROR)
    return failed(id_of(line) if asks(line) else None, "the line is no message of this protocol", INVALID_REQUEST)


async def _write(messages: MemoryObjectReceiveStream[SessionMessage], output: Output, asked: _Asked) -> None:
    async with messages:
        async for item in messages:
            if is_long(item.message):
                await output.write_long(pieces_of(item.message))
            else:
                await output.write(encoded(item.message) + b"\n")
            asked.note_answer(item.message)


@dataclass(frozen=True, slots=True)
class Begun:
    """The beginning of a line that is longer than any message may be; the rest of the line was dropped."""

    text: bytes


class Lines:
    """The lines read from a descriptor; however many pieces a line comes in, it is joined only once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def __aiter__(self) -> AsyncIterator[bytes | Begun]:
        """Yield each line that is not empty; of a line that is too long, only its beginning."""
        pieces, beginning = Pieces(), b""
        begun: Begun | None = None
        while chunk := await self._chunk():
            *ended, rest = chunk.split(b"\n")
            for piece in ended:
                if begun is not None:  # the end of a line that was too long
                    yield begun
                    begun = None
                elif pieces.size:
                    pieces.add(piece)
                    yield await pieces.joined()
                elif piece:
                    yield piece
            if begun is None and rest:
                beginning = beginning if pieces.size else b""
                beginning += rest[: _BEGINNING - len(beginning)]
                pieces.add(rest)
                if pieces.size > MAX_MESSAGE_BYTES:
                    begun, pieces = Begun(beginning), Pieces()
        if begun is not None:
            yield begun
        elif pieces.size:
            yield await pieces.joined()

    async def _chunk(self) -> bytes:
        with suppress(PermissionError):  # epoll refuses regular files, which are always readable
            await anyio.wait_readable(self._descriptor)
        try:
            return os.read(self._descriptor, _CHUNK)
        except OSError:
            return b""


class Output:
    """A descriptor to which messages are written, one per line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, data: bytes) -> None:
        """Write all of the data, which ends with a line break."""
        if len(data) > _LARGE:
            await self.write_long(iter([data[:-1]]))
            return
        while data:
            with suppress(PermissionError):  # epoll refuses regular files, which are always writable
                await anyio.wait_writable(self._descriptor)
            # No more than a writable pipe accepts at once: a larger write would block the event loop.
            data = data[os.write(self._descriptor, data[:_ATOMIC]) :]

    async def write_long(self, pieces: Iterator[bytes]) -> None:
        """Make the pieces of a line on a thread, and write each at once."""
        # Abandoned when cancelled: a client that does not read would block the thread for ever, and the gateway could not end.
        await anyio.to_thread.run_sync(self._write, pieces, abandon_on_cancel=True)

    def _write(self, pieces: Iterator[bytes]) -> None:
        for piece in chain(pieces, [b"\n"]):
            view = memoryview(piece)
            while view:
                view = view[os.write(self._descriptor, view) :]
