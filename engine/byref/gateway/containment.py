"""Keeps a failure inside the one call, server or conversation in which it happened.

Tasks share task groups, and the first task that fails ends its whole group. `except Exception` is not enough: libraries written in
Rust (pyo3) panic with a BaseException.
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
    """Tell a failure from an end that is wanted: a cancellation, an interrupt, an exit."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_failure, error.exceptions))
    return not isinstance(error, _ENDS)


async def contained(what: str, work: Callable[[], Awaitable[object]]) -> None:
    """Do work; log its failure under the name `what` instead of raising it."""
    try:
        await work()
    except BaseException as error:
        if not is_failure(error):
            raise
        logger.exception("%s failed", what)


class Panic(Exception):
    """A library raised a BaseException that is not an Exception, as pyo3 does for a panic in Rust."""


async def on_thread(executor: Executor, work: Callable[[], T]) -> T:
    """Run work on a thread, in the caller's context.

    A caller that is cancelled is free at once; the work goes on in its thread, and is committed or rolled back whole.

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
