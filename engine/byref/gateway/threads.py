"""The engine's work, on threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def on_thread(executor: Executor, work: Callable[[], T]) -> T:
    """Run work on a thread; who is cancelled meanwhile is free at once, and the work is committed or rolled back whole."""
    return await asyncio.get_running_loop().run_in_executor(executor, copy_context().run, work)
