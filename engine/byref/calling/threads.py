"""Threads of byref's own for programs that call functions, and for what the functions return.

The default executor of an event loop is the host's, whose own functions need it: programs that wait there for functions could hold
all of its threads.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import cache
from typing import Final, TypeVar

T = TypeVar("T")

MOST_PROGRAMS: Final = 256
"""Programs of one process that adapters run at once. A function of one may wait for another, of an agent that is called as a tool."""

given_up: ContextVar[Future[None] | None] = ContextVar("byref_given_up", default=None)
"""Is done once nobody waits any more for the program that runs in this context."""


async def run_program(work: Callable[[], T]) -> T:
    """Run work, which may run a program, on a thread, in the caller's context.

    A caller that is cancelled is free at once. The program calls no further function then, and ends when it next asks for one.
    """
    is_given_up: Future[None] = Future()
    context = copy_context()
    context.run(given_up.set, is_given_up)
    try:
        return await asyncio.get_running_loop().run_in_executor(_programs(), context.run, work)
    except asyncio.CancelledError:
        is_given_up.set_result(None)
        raise


@cache
def results() -> ThreadPoolExecutor:
    """Return the threads that read and encode what functions return; nothing that waits for a program may run there."""
    return ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4), "byref-results")


@cache
def _programs() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_PROGRAMS, "byref-programs")


def _after_fork() -> None:
    results.cache_clear()  # the threads are the parent's
    _programs.cache_clear()


os.register_at_fork(after_in_child=_after_fork)
