"""The gateway as an MCP server: whose request it is, and the conversation that answers it.

The SDK's server owns transports, eras and the handshake; all requests are answered by a middleware, which gets them and
gives results as they are, so that what this version of the SDK does not know passes as well.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, methods
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from byref import Engine, Session
from byref.adapters.mcp import SESSION_HEADER
from byref.errors import ByrefError
from byref.gateway.calls import Context, connection_of, is_modern
from byref.gateway.config import GatewayConfig
from byref.gateway.containment import contained, is_failure
from byref.gateway.conversation import Conversation
from byref.gateway.threads import on_thread
from byref.gateway.wire import capable, dumped, finished

WORKERS = 32
"""Threads of the engine's work, of all conversations."""
MAX_CONVERSATIONS = 100
IDLE_SECONDS = 1_800.0
"""A conversation without a connection of its own ends so long after its last request."""
INTRODUCTION_SECONDS = 2.0
"""How long the handshake waits for what servers would tell the model about themselves: clients give it little time."""
CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
}

logger = logging.getLogger("byref")


class Gateway:
    """Serves any number of clients. Each has servers of its own: what they remember of one client no other gets to see."""

    def __init__(
        self,
        engine: Engine,
        config: GatewayConfig,
        *,
        tenant: str | Callable[[Context], str] = "default",
        session: str | None = None,
        model: str | None = None,
        context_window: int | None = None,
    ) -> None:
        self._engine = engine
        self._config = config
        self._tenant = tenant
        self._session = session
        self._settings: dict[str, Any] = {"model": model, "context_window": context_window}
        self._executor = ThreadPoolExecutor(WORKERS, "byref-gateway")
        self._own = f"gateway-{secrets.token_hex(8)}"
        self._shared: dict[tuple[str, str], Conversation] = {}
        self._opening = anyio.Lock()
        self._open = 0
        self._tasks: TaskGroup | None = None
        self.server: Server[Any] = Server("byref-gateway", version=_version(), lifespan=self._lifespan)
        """To run over stdio, or by its `streamable_http_app()`."""
        self.server.middleware.append(self._answer)

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(contained, "the end of idle conversations", self._end_idle)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        try:
            return await self._answered(ctx, call_next)
        except (MCPError, ValidationError):
            raise
        except BaseException as error:
            if not is_failure(error):
                raise
            logger.exception("byref could not answer a request")
            raise MCPError(
                INTERNAL_ERROR, f"byref could not answer: {type(error).__name__}; its log says why"
            ) from None

    async def _answered(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            await call_next(ctx)
            conversation = self._known(ctx)
            if conversation is not None:
                await conversation.heard(ctx)
            return None
        if ctx.method == "ping":
            return await call_next(ctx)
        if ctx.method in ("initialize", "server/discover"):
            return await self._introduce(ctx, call_next)
        if not connection_of(ctx).initialize_accepted:
            raise MCPError(INVALID_PARAMS, "the connection is not initialized yet")
        if ctx.method in methods.SPEC_CLIENT_METHODS:
            try:
                methods.validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
            except KeyError:
                raise MCPError(METHOD_NOT_FOUND, "Method not found", data=ctx.method) from None
        return await (await self._conversation(ctx)).answer(ctx)

    async def _introduce(self, context: Context, call_next: CallNext) -> HandlerResult:
        """Say what the gateway is; the servers start meanwhile."""
        found = await call_next(context)
        result = dumped(found) if not isinstance(found, dict | None) else dict(found or {})
        modern = context.method == "server/discover"
        if modern and not self._is_told(context):
            # A client that would be one of many under the same name gets a connection of its own by the handshake.
            result["supportedVersions"] = list(HANDSHAKE_PROTOCOL_VERSIONS)
            return finished(result, context)
        conversation = await self._conversation(context)
        await conversation.settled(INTRODUCTION_SECONDS)
        result["capabilities"] = CAPABILITIES if modern else {**CAPABILITIES, "logging": {}}
        result["instructions"] = conversation.instructions()
        return finished(result, context)

    def _is_told(self, context: Context) -> bool:
        """Whether a request says by itself which conversation it is of."""
        return self._session is not None or context.request is None or SESSION_HEADER in context.request.headers

    def _known(self, context: Context) -> Conversation | None:
        if not is_modern(context):
            found = connection_of(context).state.get("byref")
            return found if isinstance(found, Conversation) else None
        return None

    async def _conversation(self, context: Context) -> Conversation:
        """The conversation of a request, made if need be."""
        async with self._opening:
            known = self._known(context)
            if known is not None:
                return known
            tenant = self._tenant if isinstance(self._tenant, str) else self._tenant(context)
            name = self._session_name(context)
            if is_modern(context):
                if (tenant, name) not in self._shared:
                    self._shared[tenant, name] = await self._make(context, tenant, name)
                return self._shared[tenant, name]
            connection = connection_of(context)
            conversation = await self._make(context, tenant, name)
            connection.state["byref"] = conversation
            connection.exit_stack.callback(conversation.close)
            return conversation

    async def _make(self, context: Context, tenant: str, name: str) -> Conversation:
        if self._open >= MAX_CONVERSATIONS:
            raise MCPError(INTERNAL_ERROR, f"{MAX_CONVERSATIONS} conversations are open, no more are taken")
        capabilities, info = _introduced(context)
        assert self._tasks is not None

        def work() -> tuple[Session, list[dict[str, Any]]]:
            session = self._engine.session(name, tenant=tenant, **self._settings)
            return session, session.tools("mcp")

        try:
            session, tools = await on_thread(self._executor, work)
        except ByrefError as error:
            logger.exception("byref could not open a session")
            raise MCPError(INTERNAL_ERROR, f"byref could not open a session: {type(error).__name__}") from error
        conversation = Conversation(
            self._engine, session, tools, self._config, self._executor, capabilities=capabilities, info=info
        )
        await self._tasks.start(self._run, conversation)
        return conversation

    async def _run(self, conversation: Conversation, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        self._open += 1
        try:
            await contained("a conversation", partial(conversation.run, task_status=task_status))
        finally:
            self._open -= 1

    def _session_name(self, context: Context) -> str:
        if self._session is not None:
            return self._session
        if context.request is None:
            return self._own
        named = context.request.headers.getlist(SESSION_HEADER)
        if len(named) > 1:
            raise MCPError(INVALID_REQUEST, f"{SESSION_HEADER} is given more than once")
        if named:
            return str(named[0])
        if not is_modern(context):
            return f"gateway-{connection_of(context).session_id or secrets.token_hex(8)}"
        client = context.session.client_params
        return "gateway" if client is None else f"gateway-client-{client.client_info.name}"

    async def _end_idle(self) -> None:
        while True:
            await anyio.sleep(60)
            before = anyio.current_time() - IDLE_SECONDS
            for key, conversation in list(self._shared.items()):
                if conversation.used_at < before:
                    conversation.close()
                    del self._shared[key]


def _introduced(context: Context) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the client says it can do, and what it is, as the servers are to hear it."""
    if context.method == "initialize":
        params = context.params or {}
        capabilities, info = params.get("capabilities"), params.get("clientInfo")
    else:
        session = context.session
        capabilities = None if session.client_capabilities is None else dumped(session.client_capabilities)
        info = None if session.client_params is None else dumped(session.client_params.client_info)
    named = info if isinstance(info, dict) else {"name": "byref-gateway", "version": _version()}
    return capable(capabilities), named


def _version() -> str:
    try:
        return version("byref")
    except PackageNotFoundError:
        return "0"
