"""What goes wrong in one call, one server or one conversation ends that alone.

Tasks share groups, and a group ends with the first of its tasks that fails. `except Exception` is not enough: libraries that
are written in Rust panic with a BaseException (pyo3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger("byref")

_ENDS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


def is_failure(error: BaseException) -> bool:
    """Tell a failure from what ends the task or the process: a cancellation, an interrupt, an exit."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_failure, error.exceptions))
    return not isinstance(error, _ENDS)


async def contained(what: str, work: Callable[[], Awaitable[object]]) -> None:
    """Do work whose failure is logged, as that of `what`, and goes no further."""
    try:
        await work()
    except BaseException as error:
        if not is_failure(error):
            raise
        logger.exception("%s failed", what)


class Panic(Exception):
    """A library raised what is no Exception."""


async def on_thread(executor: Executor, work: Callable[[], T]) -> T:
    """Run work on a thread, in the caller's context.

    A caller that is cancelled meanwhile is free at once; the work goes on, and is committed or rolled back whole.

    Raises:
        Panic: a library panicked.
        Exception: what the work raised.
    """
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, copy_context().run, work)
    except BaseException as error:
        if isinstance(error, Exception) or not is_failure(error):
            raise
        raise Panic(f"{type(error).__name__}: {error!s:.200}") from error
