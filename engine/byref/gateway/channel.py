"""A way to a server, whatever carries it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage


class Broken(Exception):
    """The connection is of no more use; the text says why."""


class Unavailable(Exception):
    """The server did not answer; the text says to the model what happened and what comes next."""


@dataclass(frozen=True, slots=True)
class Channel:
    """What is received and what is sent; whoever opened the channel closes both."""

    received: Any
    """A stream that the SDK's dispatcher reads, of its session messages and of exceptions."""
    sent: Any
    """A stream that it writes to."""
    ending: Callable[[], Awaitable[str]]
    """Why nothing more is received."""


@asynccontextmanager
async def streams() -> AsyncIterator[
    tuple[
        MemoryObjectSendStream[SessionMessage | Exception],
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
        MemoryObjectReceiveStream[SessionMessage],
    ]
]:
    """Yield both ends of what is received and of what is sent, and close them all at the end."""
    received_in, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, sent_out = anyio.create_memory_object_stream[SessionMessage](0)
    async with received_in, received, sent, sent_out:
        yield received_in, received, sent, sent_out
