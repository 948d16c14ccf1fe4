"""Standard input as lines that can be waited for, and given up, at any time."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator

from byref.gateway.channel import MAX_MESSAGE_BYTES

AHEAD = 16
"""Lines that are read before they are wanted."""
_CHUNK = 1 << 16


class Lines:
    """The lines of standard input, read by a thread of its own: one that the process need not wait for at its end."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(AHEAD)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield each line, decoded; undecodable bytes are replaced."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="byref-stdin", daemon=True).start()
        while (line := await self._queue.get()) is not None:
            yield line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for line in self._lines():
                asyncio.run_coroutine_threadsafe(self._queue.put(line.decode("utf-8", "replace")), loop).result()
            asyncio.run_coroutine_threadsafe(self._queue.put(None), loop).result()
        except RuntimeError:
            return  # the loop is closed: nobody waits for more

    def _lines(self) -> Iterator[bytes]:
        """Each line, put together once. Not by `sys.stdin`, whose lock this thread would hold when the process ends."""
        pieces: list[bytes] = []
        size = 0
        while chunk := self._chunk():
            *ended, rest = chunk.split(b"\n")
            for piece in ended:
                yield b"".join((*pieces, piece))
                pieces, size = [], 0
            if rest:
                pieces.append(rest)
                size += len(rest)
            if size > MAX_MESSAGE_BYTES:
                return
        if pieces:
            yield b"".join(pieces)

    def _chunk(self) -> bytes:
        try:
            return os.read(self._descriptor, _CHUNK)
        except OSError:
            return b""
