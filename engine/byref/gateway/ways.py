"""The two ways to a server that speaks both eras of the protocol, and which of them has the answer to a request.

A server that knows a handshake (until 2025-11-25) is opened with one: only then can it ask, log and tell of changes by itself.
A question of 2026-07-28 is an answer instead. The SDKs for TypeScript and Go make requests of it for who shook hands; the one
for Python cannot carry it then, and says that the result is invalid. Such a request is made again on a second connection,
without a handshake: to make a request again that was answered by a question is what every client of 2026-07-28 does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR

from byref.gateway.calls import INTERACTIVE
from byref.gateway.upstream import Upstream
from byref.gateway.wire import outgoing

MAX_KNOWN = 1_000
"""Tools, prompts and resources of one server of which it is remembered which way has their answers."""
_UNSENDABLE = "invalid result"
"""In the error by which a server says that it has an answer and cannot send it."""

Json = dict[str, Any]
Target = tuple[str, str]
"""A method, and the name or URI that it is about."""

logger = logging.getLogger("byref")


class Ways:
    """Sends a client's requests to one server."""

    def __init__(self, first: Upstream, start: Callable[[Upstream], None]) -> None:
        """`start` runs a second connection for as long as the first."""
        self._first = first
        self._start = start
        self._second: Upstream | None = None
        self._opening = anyio.Lock()
        self._refused_in = 0
        """The life of the server in which it had no second way."""
        self._is_by_second: dict[Target, bool] = {}

    async def request(
        self, method: str, params: Json, *, on_progress: ProgressFnT | None = None, timeout: float | None = None
    ) -> Json:
        """Send a client's request and return the result as the server gave it.

        Raises:
            Unavailable: the server is away, went away meanwhile, or took too long.
            MCPError: the server answered with an error.
        """

        async def sent(way: Upstream) -> Json:
            given = outgoing(params, to_modern=way.is_modern)
            return await way.request(method, given, on_progress=on_progress, timeout=timeout)

        target = method, str(params.get("uri" if method == "resources/read" else "name"))
        known = self._is_by_second.get(target)
        if known and self._second is not None:
            return await sent(self._second)
        try:
            return await sent(self._first)
        except MCPError as error:
            if known is not None or method not in INTERACTIVE or not _is_unsendable(error):
                raise
            second = await self._opened()
            if second is None:
                raise
        try:
            result = await sent(second)
        except MCPError as error:
            self._learn(target, is_by_second=not _is_unsendable(error))
            raise
        self._learn(target, is_by_second=True)
        return result

    async def _opened(self) -> Upstream | None:
        """The second way; None if the server has none, which it is asked once in each of its lives."""
        async with self._opening:
            if self._second is None and self._refused_in != self._first.lives and (second := self._first.second()):
                self._start(second)
                try:
                    await second.settled.wait()
                finally:
                    if not second.is_ready:
                        second.stop()
                if second.is_ready:
                    logger.info("server %r: a second connection is open, without a handshake", self._first.name)
                    self._second = second
                else:
                    self._refused_in = self._first.lives
        return self._second

    def _learn(self, target: Target, *, is_by_second: bool) -> None:
        if len(self._is_by_second) < MAX_KNOWN:
            self._is_by_second[target] = is_by_second


def _is_unsendable(error: MCPError) -> bool:
    return error.code == INTERNAL_ERROR and _UNSENDABLE in error.error.message.lower()
