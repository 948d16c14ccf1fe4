"""The client as its servers see it: the destination of their requests and notifications.

A server reaches the client only in its own name: it may ask only while it works on a request of the client (the protocol's rule
since 2026, SEP-2260), and its texts carry its name.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_from_wire
from mcp.types import INVALID_REQUEST, METHOD_NOT_FOUND
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from byref.gateway import calls, labels, questions
from byref.gateway.calls import Calls, Context, able, connection_of, is_modern
from byref.gateway.upstream import Upstream

ROOTS_SECONDS = 60.0
"""Seconds for the client to answer `roots/list` when the server that asks works on no call."""
ROOTS = "roots/list"
LOG = "notifications/message"

Json = dict[str, Any]

logger = logging.getLogger("byref")


class Client:
    """One client, of any protocol version."""

    def __init__(
        self,
        going_on: Calls,
        capabilities: Json,
        info: Json,
        on_start: Callable[[Upstream], Awaitable[None]],
        has: Callable[[Upstream, str], bool],
    ) -> None:
        """`on_start` is called with each server that was started; `has` tells whether a resource may belong to a server."""
        self.capabilities = capabilities
        self.info = info
        self._on_start = on_start
        self._has = has
        bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(bus)
        """Serves the notification streams that clients since 2026 open."""
        self._bus = bus
        self._calls = going_on
        self._connection: Connection | None = None
        self._is_introduced = anyio.Event()

    def note(self, context: Context, *, is_introduced: bool) -> None:
        """Note the connection of a message; the client gets no requests or notifications until it is introduced."""
        self._connection = connection_of(context)
        if is_introduced:
            self._is_introduced.set()

    async def on_request(self, upstream: Upstream, method: str, params: Json | None, about: object) -> Json:
        """Pass a server's request on to the client, on the stream of the call `about`, or of one that the server works on.

        A server at an address shows by the stream of its request which call it asks about; a process has only one stream. A server
        asks for the roots as soon as it knows the client; no user sees that question, so it needs no call.

        Raises:
            MCPError: the client answered with an error, or must not be asked that now.
        """
        if method not in questions.QUESTIONS:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", data=method)
        await self._is_introduced.wait()
        call = self._calls.of(upstream.name, about)
        if call is not None:
            shown = questions.shown(upstream.name, method, params, call.able)
            return await call.ask(upstream.name, method, shown)
        connection = self._connection
        if method != ROOTS or connection is None or connection.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(
                INVALID_REQUEST,
                f"{method} is not passed on: the client is asked in the course of a call, and no call to the server "
                f"{upstream.name!r} is running",
            )
        shown = questions.shown(upstream.name, method, params, able(connection))
        return await connection.send_raw_request(method, shown, {"timeout": ROOTS_SECONDS})

    async def on_notification(self, upstream: Upstream, method: str, params: Json | None) -> None:
        """Pass a server's notification on to the client if the protocol knows it."""
        given = params or {}
        match method.split("/")[1:]:
            case [("tools" | "prompts") as kind, "list_changed"]:
                upstream.forget(kind)
            case ["resources", "list_changed"]:
                upstream.forget("resources")
                upstream.forget("templates")
            case ["resources", "updated"]:
                if not isinstance(uri := given.get("uri"), str) or not self._has(upstream, uri):
                    return
            case ["elicitation", "complete"]:
                params = {**given, "elicitationId": questions.named(upstream.name, given.get("elicitationId"))}
            case ["message"]:
                await self._is_introduced.wait()
                await self._log(upstream, given)
                return
            case _:
                logger.debug("server %r: %.100r is not of the protocol", upstream.name, method)
                return
        await self._is_introduced.wait()
        await self.notify(method, params)

    async def _log(self, upstream: Upstream, params: Json) -> None:
        source = params.get("logger")
        params = {**params, "logger": labels.titled(upstream.name, source if isinstance(source, str) else "")}
        call = self._calls.of(upstream.name)
        if call is not None and is_modern(call.context):
            # Since 2026 a client gets log messages only on the stream of a request that asked for them.
            levels = allowed_log_levels(call.context.protocol_version, dict(call.context.meta or {}))
            if params.get("level") in levels:
                await calls.notify(call.context, LOG, params)
        elif self._connection is not None and self._connection.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await self.notify(LOG, params)

    async def on_started(self, upstream: Upstream) -> None:
        """Send a server that was started again what the client had sent it before."""
        await self._on_start(upstream)

    async def notify(self, method: str, params: Json | None) -> None:
        """Notify the client on its connection and on the notification streams that it opened."""
        if (event := event_from_wire(method, params)) is not None:
            await self._bus.publish(event)
        if self._connection is not None:
            await self._connection.notify(method, params)
