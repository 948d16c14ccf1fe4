"""How long an event loop stands still while megabytes are processed: `python loop_lag.py URL KIND SHARE` prints seconds; all of it is 50 MB."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from material import records

from byref import AsyncEngine

T = TypeVar("T")

LINE = "2026-01-01 12:00:00 INFO request 7 took 12 ms\n"
FIFTY = 50_000_000
SHARE = float(sys.argv[3]) if __name__ == "__main__" else 1.0
LINES, ROWS, GROUP, NUMBERS = (int(SHARE * whole) for whole in (FIFTY // len(LINE), 700_000, 70_000, 26_000))
OUTPUTS: dict[str, Callable[[], Any]] = {
    "JSON text": lambda: json.dumps(records(ROWS, 1)),
    "nested JSON text": lambda: json.dumps([{"groups": [records(GROUP, 1)]} for _ in range(10)]),
    "text": lambda: LINE * LINES,
    "objects": lambda: records(ROWS, 1),
    "nested objects": lambda: [[records(GROUP, 1)] for _ in range(10)],
    "rows of numbers": lambda: [[i / 7 for i in range(NUMBERS)] for _ in range(100)],
    "a long string": lambda: {"log": LINE * LINES},
    "bytes of JSON": lambda: json.dumps(records(ROWS, 1)).encode(),
    "bytes of text": lambda: (LINE * LINES).encode(),
}
ONE_STRING = ("a long string", "bytes of JSON", "bytes of text")


class Shares:
    """How long threads of this process have had a processor, and the thread that asks has waited for one, in seconds.

    Nothing here lets go of the interpreter, as reading a file does: whoever asked would then wait for it himself.
    """

    def __init__(self, statistics: int) -> None:
        self._statistics = statistics
        self._read = ctypes.PyDLL(None).pread
        self._line = ctypes.create_string_buffer(80)

    def waited(self) -> float:
        """The second number of the thread's statistics."""
        self._line.raw = bytes(80)
        self._read(self._statistics, self._line, 79, 0)
        return int(self._line.value.split()[1]) / 1e9

    def had(self) -> dict[int, float]:
        """By the system's number of each thread of Python."""
        found = {}
        for thread in threading.enumerate():
            with contextlib.suppress(OSError, TypeError):  # it has ended, or not begun
                found[thread.native_id] = time.clock_gettime(~thread.native_id << 3 | 6)  # Linux's name for its clock
        return found


async def lag_during(work: Awaitable[T]) -> tuple[T, float]:
    """What was awaited, and the longest time for which this process held up the loop meanwhile, in seconds.

    Between two ticks the loop is held up by what its thread computes, and by what others compute that do not let it have
    the interpreter: at most for as long as it and the busiest of them had a processor. While its thread waited for a
    processor, other programs had them.
    """
    lags: list[float] = []
    loop = threading.get_native_id()

    async def ticks(shares: Shares) -> None:
        before, waited, past = time.perf_counter(), shares.waited(), shares.had()
        while True:
            await asyncio.sleep(0.001)
            now, wait, present = time.perf_counter(), shares.waited(), shares.had()
            had = {thread: seconds - past.get(thread, 0.0) for thread, seconds in present.items()}
            held = had.pop(loop) + max(had.values(), default=0.0)
            lags.append(min(now - before - (wait - waited), held))
            before, waited, past = now, wait, present

    with open("/proc/thread-self/schedstat", "rb") as statistics:
        ticking = asyncio.create_task(ticks(Shares(statistics.fileno())))
        await asyncio.sleep(0.005)
        result = await work
        await asyncio.sleep(0.005)  # a tick that was held up comes now
        ticking.cancel()
    return result, max(lags)


async def longest_lag(url: str, kind: str) -> float:
    """The longest of one output of that kind, taken in by an engine that has taken in others."""
    output = OUTPUTS[kind]()
    async with AsyncEngine(url) as engine:
        session = await engine.session("s")
        await session.process(records(1_500), tool="warm")
        gc.collect()  # else whoever makes the next object looks through all that the host has made
        result, lag = await lag_during(session.process(output, tool="big"))
    assert result.route == ("truncate" if kind in ("text", "bytes of text") else "variables"), result.route
    return lag


if __name__ == "__main__":
    print(asyncio.run(longest_lag(sys.argv[1], sys.argv[2])))
