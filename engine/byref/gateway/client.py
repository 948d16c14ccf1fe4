"""The client as its servers see it: whom they ask, and whom they tell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_from_wire
from mcp.types import INVALID_REQUEST

from byref.gateway import calls
from byref.gateway.calls import Calls, Context, connection_of, is_modern
from byref.gateway.upstream import Upstream

Json = dict[str, Any]


class Client:
    """One client, whichever version of the protocol it speaks."""

    def __init__(
        self, going_on: Calls, capabilities: Json, info: Json, on_start: Callable[[Upstream], Awaitable[None]]
    ) -> None:
        self.capabilities = capabilities
        self.info = info
        self._on_start = on_start
        bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(bus)
        """Serves streams of what changes, to clients that ask for them."""
        self._bus = bus
        self._calls = going_on
        self._connection: Connection | None = None
        self._is_introduced = anyio.Event()

    def seen(self, context: Context, *, is_introduced: bool) -> None:
        """Take note of a message of the client; until it is introduced it is neither asked nor told anything."""
        self._connection = connection_of(context)
        if is_introduced:
            self._is_introduced.set()

    async def asked(self, upstream: Upstream, method: str, params: Json | None) -> Json:
        """Ask the client what a server asks.

        Raises:
            MCPError: the client answered with an error, or cannot be asked now.
        """
        await self._is_introduced.wait()
        call = self._calls.of(upstream)
        if call is not None:
            return await call.ask(method, params)
        if self._connection is None:
            raise MCPError(INVALID_REQUEST, "there is no client to ask")
        return await self._connection.send_raw_request(method, params)

    async def told(self, upstream: Upstream, method: str, params: Json | None) -> None:
        """Tell the client what a server tells."""
        match method.split("/")[1:]:
            case [("tools" | "prompts") as kind, "list_changed"]:
                upstream.forget(kind)
            case ["resources", "list_changed"]:
                upstream.forget("resources")
                upstream.forget("templates")
        await self._is_introduced.wait()
        call = self._calls.of(upstream)
        if method != "notifications/message" or call is None or not is_modern(call.context):
            await self.tell(method, params)
            return
        # Since 2026 a client gets the log of the request that asks for it, on that request's stream.
        levels = allowed_log_levels(call.context.protocol_version, dict(call.context.meta or {}))
        if (params or {}).get("level") in levels:
            await calls.tell(call.context, method, params)

    async def started(self, upstream: Upstream) -> None:
        """Give a server that was started again what the client had told it before."""
        await self._on_start(upstream)

    async def tell(self, method: str, params: Json | None) -> None:
        """Tell the client: on its connection, and on the streams that it opened for what changes."""
        if (event := event_from_wire(method, params)) is not None:
            await self._bus.publish(event)
        if self._connection is not None:
            await self._connection.notify(method, params)
