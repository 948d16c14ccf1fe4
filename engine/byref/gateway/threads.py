"""The engine's work, on threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import copy_context
from typing import TypeVar

from byref.gateway.containment import is_failure

T = TypeVar("T")


class Failed(Exception):
    """What a library threw that is no Exception."""


async def on_thread(executor: Executor, work: Callable[[], T]) -> T:
    """Run work on a thread; who is cancelled meanwhile is free at once, and the work is committed or rolled back whole.

    Raises:
        Failed: a library panicked.
        Exception: what the work raised.
    """
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, copy_context().run, work)
    except BaseException as error:
        if isinstance(error, Exception) or not is_failure(error):
            raise
        raise Failed(f"{type(error).__name__}: {error!s:.200}") from error
