"""Writes small results into the ledger after the client has received them.

A result below the lowest limit of every gate passes unchanged, whatever the ledger says, so the client need not wait for the
database. One that may be kept as a variable is written first: the next call may name it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from byref.accounting.ledger import dump
from byref.gateway.containment import contained
from byref.gateway.results import is_reshaped
from byref.policy import Policy

MAX_WAITING = 1_000
"""Results waiting to be written; when the queue is full, a result is written before it is answered."""
LAST_SECONDS = 5.0
"""Seconds for writing what is left when the conversation ends."""


class Accounts:
    """A queue of results to be written to the ledger, one after the other."""

    def __init__(self) -> None:
        self._put, self._get = anyio.create_memory_object_stream[Callable[[], Awaitable[Any]]](MAX_WAITING)

    def later(self, work: Callable[[], Awaitable[Any]]) -> bool:
        """Queue work to be done soon; return False if the queue is full or closed."""
        try:
            self._put.send_nowait(work)
        except (anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return False
        return True

    async def run(self) -> None:
        """Do queued work until cancelled, then for at most `LAST_SECONDS` more."""
        try:
            while True:
                await _done(await self._get.receive())
        finally:
            # Shielded, because the cancellation that ends this task would also cancel the last writes.
            with anyio.move_on_after(LAST_SECONDS, shield=True):
                while True:
                    try:
                        await _done(self._get.receive_nowait())
                    except anyio.WouldBlock:
                        break
            self._put.close()
            self._get.close()


async def _done(work: Callable[[], Awaitable[Any]]) -> None:
    await contained("writing down a small result", work)  # a failure is only logged: the client has its answer


def passes_surely(policy: Policy, tool: str, raw: dict[str, Any]) -> bool:
    """Tell whether a result is too small for every gate and to be kept, judged by the policy alone, without the session."""
    own = policy.for_tool(tool)
    try:
        size = len(dump(raw).encode())
    except UnicodeEncodeError:
        return False
    # A token has at least one byte, so a size in bytes below the limit in tokens is below it in tokens too.
    tokens = own.truncate_tokens if raw.get("isError") is True else own.max_result_tokens
    limits = (own.min_threshold_bytes, own.max_output_bytes, tokens, own.keep_tokens)
    return all(limit is None or size < limit for limit in limits) and not is_reshaped(policy, tool, raw)
