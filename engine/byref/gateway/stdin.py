"""Standard input as lines that can be waited for, and given up, at any time."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from typing import BinaryIO

AHEAD = 16
"""Lines that are read before they are wanted."""


class Lines:
    """The lines of standard input, read by a thread of its own: one that the process need not wait for at its end."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        self._file = file or sys.stdin.buffer
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(AHEAD)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield each line, decoded; undecodable bytes are replaced."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="byref-stdin", daemon=True).start()
        while (line := await self._queue.get()) is not None:
            yield line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for line in self._file:
                asyncio.run_coroutine_threadsafe(self._queue.put(line.decode("utf-8", "replace")), loop).result()
            asyncio.run_coroutine_threadsafe(self._queue.put(None), loop).result()
        except (OSError, ValueError, RuntimeError):  # closed, or the loop is
            loop.call_soon_threadsafe(self._end) if not loop.is_closed() else None

    def _end(self) -> None:
        if not self._queue.full():
            self._queue.put_nowait(None)
