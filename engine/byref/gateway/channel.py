"""A message channel to a server, whatever the transport."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification


class Broken(Exception):
    """The connection is unusable; the text says why."""


class Unavailable(Exception):
    """The server did not answer; the text tells the model what happened and what it can do."""


class Inbox:
    """The end of a stream at which the SDK's dispatcher reads; it lets go of a message once the next one is asked for.

    The dispatcher holds what it has handed on until another message comes, and with it the memory that the other one may need.
    """

    def __init__(self, stream: MemoryObjectReceiveStream[SessionMessage | Exception]) -> None:
        self._stream = stream
        self._last: Any = None

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        if isinstance(self._last, SessionMessage):
            self._last.message = _NOTHING
        self._last = None
        self._last = item = await self._stream.receive()
        return item

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    async def aclose(self) -> None:
        """Close the stream."""
        self._stream.close()

    def __aiter__(self) -> Inbox:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stream.close()


_NOTHING: Final = JSONRPCNotification(jsonrpc="2.0", method="")


@dataclass(frozen=True, slots=True)
class Channel:
    """The two streams of a connection; whoever opened the channel closes both."""

    received: Any
    """Stream of session messages and exceptions from the server; the SDK's dispatcher reads it."""
    sent: Any
    """Stream of session messages to the server; the SDK's dispatcher writes to it."""
    ending: Callable[[], Awaitable[str]]
    """Returns why the server sends nothing more."""


@asynccontextmanager
async def streams() -> AsyncIterator[
    tuple[
        MemoryObjectSendStream[SessionMessage | Exception],
        Inbox,
        MemoryObjectSendStream[SessionMessage],
        MemoryObjectReceiveStream[SessionMessage],
    ]
]:
    """Yield both ends of the receiving and of the sending stream; all four are closed at the end."""
    # Without a buffer: a sender waits until its message is received, so that no queue grows when one side is slow.
    received_in, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, sent_out = anyio.create_memory_object_stream[SessionMessage](0)
    async with received_in, received, sent, sent_out:
        yield received_in, Inbox(received), sent, sent_out
