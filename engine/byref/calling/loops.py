"""Where coroutine functions of the host run: on its event loop, if it has one, else on one of byref's own."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any


def submit(
    loop: asyncio.AbstractEventLoop | None,
    context: contextvars.Context,
    make: Callable[[], Coroutine[Any, Any, None]],
    lost: Callable[[], None],
) -> Callable[[], None]:
    """Run a coroutine on an event loop, from another thread; return what cancels it. `lost` is called if somebody else does."""
    where = loop if loop is not None and not loop.is_closed() else _own()
    tasks: list[asyncio.Task[None]] = []
    cancelled = threading.Event()

    def start() -> None:
        if not cancelled.is_set():
            task = where.create_task(make(), context=context)
            task.add_done_callback(ended)
            tasks.append(task)

    def ended(task: asyncio.Task[None]) -> None:
        if task.cancelled() and not cancelled.is_set():
            lost()

    def stop() -> None:
        for task in tasks:
            task.cancel()

    def cancel() -> None:
        cancelled.set()
        if not where.is_closed():
            where.call_soon_threadsafe(stop)

    where.call_soon_threadsafe(start)
    return cancel


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _own() -> asyncio.AbstractEventLoop:
    """Return the event loop of byref's own, which runs in a thread of the process."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="byref-functions", daemon=True).start()
        return _loop


def _after_fork() -> None:
    global _loop, _lock
    _loop, _lock = None, threading.Lock()  # the thread is the parent's


os.register_at_fork(after_in_child=_after_fork)
