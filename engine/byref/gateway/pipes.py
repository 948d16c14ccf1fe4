"""Standard input and output of the process, as the SDK's stdio transport wants them, without a thread in between.

What waits for a pipe can be given up at any time, so that a signal ends the gateway; and a small message is on its way
without a change of threads.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import anyio

from byref.gateway.messages import MAX_MESSAGE_BYTES

_CHUNK = 1 << 16
_ATOMIC = 4096
"""What a pipe takes at once when it says that it takes anything."""
_LARGE = 1 << 16


@contextmanager
def claimed() -> Iterator[tuple[int, int]]:
    """Yield descriptors of standard input and output; meanwhile what else reads gets nothing, what prints goes to stderr."""
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


class Lines:
    """The lines of a descriptor, each put together once, however many pieces it comes in."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield each line, undecodable bytes replaced; a line longer than any message may be ends them."""
        pieces: list[bytes] = []
        size = 0
        while chunk := await self._chunk():
            *ended, rest = chunk.split(b"\n")
            for piece in ended:
                yield b"".join((*pieces, piece)).decode("utf-8", "replace")
                pieces, size = [], 0
            if rest:
                pieces.append(rest)
                size += len(rest)
            if size > MAX_MESSAGE_BYTES:
                return
        if pieces:
            yield b"".join(pieces).decode("utf-8", "replace")

    async def _chunk(self) -> bytes:
        with suppress(PermissionError):  # of a file, which is always readable
            await anyio.wait_readable(self._descriptor)
        try:
            return os.read(self._descriptor, _CHUNK)
        except OSError:
            return b""


class Output:
    """A descriptor that text is written to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, text: str) -> None:
        """Write all of a text."""
        data = text.encode("utf-8", "replace")
        if len(data) > _LARGE:
            await anyio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)
            return
        while data:
            with suppress(PermissionError):  # of a file, which is always writable
                await anyio.wait_writable(self._descriptor)
            data = data[os.write(self._descriptor, data[:_ATOMIC]) :]

    async def flush(self) -> None:
        """Do nothing: what was written is on its way."""

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
