"""Small results, taken into the ledger after the client has them.

What is below the floor of every gate passes as it is, whatever the ledger says: the client need not wait for it.
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
"""Results that are still to be written down; of more each is written before it is answered."""
LAST_SECONDS = 5.0
"""To write down what is left at the end."""


class Accounts:
    """What is to be written down, one after the other."""

    def __init__(self) -> None:
        self._put, self._get = anyio.create_memory_object_stream[Callable[[], Awaitable[Any]]](MAX_WAITING)

    def later(self, work: Callable[[], Awaitable[Any]]) -> bool:
        """Have work done soon; False if there is too much of it already."""
        try:
            self._put.send_nowait(work)
        except (anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return False
        return True

    async def run(self) -> None:
        """Do the work, until this is cancelled and nothing is left or the time is over."""
        try:
            while True:
                await _done(await self._get.receive())
        finally:
            with anyio.move_on_after(LAST_SECONDS, shield=True):
                while True:
                    try:
                        await _done(self._get.receive_nowait())
                    except anyio.WouldBlock:
                        break
            self._put.close()
            self._get.close()


async def _done(work: Callable[[], Awaitable[Any]]) -> None:
    await contained("writing down a small result", work)  # the client has its answer


def passes_surely(policy: Policy, tool: str, raw: dict[str, Any]) -> bool:
    """Tell whether a result passes every gate as it is, without a look at the session."""
    own = policy.for_tool(tool)
    try:
        size = len(dump(raw).encode())
    except UnicodeEncodeError:
        return False
    # A token has at least one byte.
    tokens = own.truncate_tokens if raw.get("isError") is True else own.max_result_tokens
    limits = (own.min_threshold_bytes, own.max_output_bytes, tokens)
    return all(limit is None or size < limit for limit in limits) and not is_reshaped(policy, tool, raw)
