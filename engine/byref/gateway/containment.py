"""What goes wrong in one call, one server or one conversation ends that alone.

Tasks share groups, and a group ends with the first of its tasks that fails. `except Exception` is not enough: libraries written in
Rust panic with a BaseException (pyo3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger("byref")

_ENDS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


def is_failure(error: BaseException) -> bool:
    """Tell whether something went wrong, and it is not the task or the process that is to end."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_failure, error.exceptions))
    return not isinstance(error, _ENDS)


async def contained(what: str, work: Callable[[], Awaitable[object]]) -> None:
    """Do work of which nothing comes out but the end of the task; a failure is logged, as that of `what`."""
    try:
        await work()
    except BaseException as error:
        if not is_failure(error):
            raise
        logger.exception("%s failed", what)
