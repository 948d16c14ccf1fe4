"""byref as a server of the Model Context Protocol: a session's tools, and its artifacts as resources.

`server` makes a low-level server of the official SDK: run it over stdio, or mount its `streamable_http_app()` in your own ASGI
application. `byref mcp` does both.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection

from byref.adapters.common.conversations import Name, named
from byref.adapters.common.extras import check_engine, missing
from byref.adapters.common.shares import SharedThreads
from byref.artifacts import listing
from byref.conversation import lifecycle
from byref.describe.jsontext import without_surrogates
from byref.engine import Engine
from byref.errors import ArtifactMissing, ConfigurationError, InvalidId, SessionGone, ToolError
from byref.policy import INTERPRETER, Policy
from byref.session import Session

try:
    from mcp import types
    from mcp.server import NotificationOptions, Server
    from mcp.server.auth.provider import AccessToken
    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged
    from mcp.shared.exceptions import MCPError
    from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    from byref.adapters.mcp import content
except ImportError as error:
    raise missing("byref.adapters.mcp", "mcp", "mcp") from error

__all__ = ["INSTRUCTIONS", "SESSION_HEADER", "BearerTokens", "Context", "server", "tenant_of_token"]

logger = logging.getLogger("byref")

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")

SESSION_HEADER = "x-byref-session"
"""Header by which an HTTP request names its session."""
PAGE = 100
"""Resources on one page of the list."""
HEARTBEAT_SECONDS = 5.0
"""Seconds between two progress notifications, for a client that asked for them."""
WORKERS = min(32, (os.cpu_count() or 1) + 4)
"""Threads for the engine's work, as many as asyncio's default; of several tenants none may use more than half of them, and each has
at least one."""
MAX_LISTENERS = 1024
"""Streams of notifications open at once."""

INSTRUCTIONS = (
    "Keeps big data outside the conversation. Hand a big output to process_output: it is stored whole, and you get its "
    "variables, schema and a preview. Work on all of the data with the other tools, by the variables' names; never infer "
    "the whole from a preview."
)

PROCESS_OUTPUT = types.Tool(
    name="process_output",
    description="Take in a tool's output, or any data. What is small comes back unchanged; what is big is stored whole and "
    "comes back as variables, schema and preview, for the other tools to work on.",
    input_schema={
        "type": "object",
        "properties": {
            "output": {"description": "The output: JSON of any kind, text, or a tool's content blocks."},
            "tool": {"type": "string", "description": "Name of the tool that gave it; variables are named after it."},
            "is_error": {"type": "boolean", "description": "Whether the tool failed (default false)."},
        },
        "required": ["output"],
        "additionalProperties": False,
    },
    annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False),
)
_WRITES = (INTERPRETER, "store_artifact")
"""The session's own tools that create artifacts."""


def server(
    engine: Engine,
    *,
    tenant: str | Callable[[Context], str] = "default",
    session: str | Callable[[Context], str] | None = None,
    model: str | None = None,
    policy: Policy | None = None,
    tools: Sequence[str] | None = None,
    name: str = "byref",
    instructions: str | None = INSTRUCTIONS,
    links: bool = True,
) -> Server[Any]:
    """Return an MCP server for the engine's sessions: their tools and `process_output`, and their artifacts as resources.

    `tenant` and `session` are ids, or functions of the request's context that return the tenant and the conversation of the
    request. With `session=None` an HTTP request belongs to the session in its header `X-Byref-Session`, else to one of its
    connection (`Mcp-Session-Id`), else to one named after the client. Data of other sessions is never found. `model`, `policy` and
    `tools` are those of `Engine.session`. The server never learns the usage of a model, so set `headroom_percentage=1.0` in a
    policy of your own. With `links=False` results have no links to artifacts: some clients refuse the whole result because of one.
    """
    settings = {"model": model, "policy": policy, "tools": tools}
    threads = SharedThreads(WORKERS, "byref-mcp", several=callable(tenant))
    return _Server(_Sessions(check_engine(engine), tenant, session, settings), threads, name, instructions, links=links)


def tenant_of_token(context: Context) -> str:
    """Return the tenant of a request with a bearer token: the token's client id.

    Raises:
        MCPError: no token was verified.
    """
    user = None if context.request is None else context.request.scope.get("user")
    token = getattr(user, "access_token", None)
    if not isinstance(token, AccessToken):
        raise MCPError(types.INVALID_REQUEST, "a bearer token is needed")
    return token.client_id


class BearerTokens:
    """Tokens that each stand for a tenant: a verifier for the SDK's `token_verifier=`, to be used with `tenant_of_token`.

    Raises:
        ConfigurationError: there is no token, or a token cannot be sent in a header.
    """

    def __init__(self, tenants: Mapping[str, str]) -> None:
        if not tenants:
            raise ConfigurationError("tenants={}: expected a tenant for each token")
        for token, tenant in tenants.items():
            lifecycle.check_id("tenant", tenant)
            if not (
                isinstance(token, str) and token.isascii() and token.isprintable() and token.strip() == token != ""
            ):
                raise ConfigurationError(f"a token of tenant {tenant!r} is empty or has what no header can carry")
        # Tokens are looked up by their digest, so that the time of the look-up reveals nothing of a token.
        self._tenants = {_digest(token): tenant for token, tenant in tenants.items()}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return an access token whose client id is the tenant; None if the token is unknown."""
        tenant = self._tenants.get(_digest(token))
        return None if tenant is None else AccessToken(token=token, client_id=tenant, scopes=[])


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class _ProcessArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    output: Any
    tool: str = "output"
    is_error: bool = False


class _Sessions:
    """Finds the session of each request."""

    def __init__(
        self,
        engine: Engine,
        tenant: str | Callable[[Context], str],
        session: str | Callable[[Context], str] | None,
        settings: Mapping[str, Any],
    ) -> None:
        self._engine, self._tenant, self._session, self._settings = engine, tenant, session, settings

    def key(self, context: Context) -> Name:
        """Return the tenant and the id of the request's session."""
        try:
            session = _own_session(context) if self._session is None else named(self._session, context)
            return named(self._tenant, context), session
        except MCPError:
            raise
        except Exception as error:
            logger.exception("byref cannot tell whose request it is")
            raise MCPError(types.INVALID_REQUEST, "byref cannot tell whose request this is") from error

    def is_named(self, context: Context) -> bool:
        """Tell whether the host or the request names the session."""
        return self._session is not None or names_its_session(context)

    def open(self, key: Name) -> Session:
        """Return the session with this tenant and id; it is created if need be."""
        tenant, name = key
        return self._engine.session(name, tenant=tenant, **self._settings)

    def made_by(self, key: Name, step: int | None) -> list[str]:
        """Return the ids of the artifacts that a step of a session made."""

        def work(connection: Connection) -> list[str]:
            opened = lifecycle.find_session(connection, *key)
            return [] if opened is None or step is None else listing.made_by(connection, opened.row, step)

        return self._engine.database.read(work)


def session_named_by(context: Context) -> str | None:
    """Return the session that an HTTP request names in its header; None if it names none.

    Raises:
        MCPError: the header is repeated: each proxy on the way could read another one of them.
    """
    found = [] if context.request is None else context.request.headers.getlist(SESSION_HEADER)
    if len(found) > 1:
        raise MCPError(types.INVALID_REQUEST, f"{SESSION_HEADER} is given more than once")
    return str(found[0]) if found else None


def names_its_session(context: Context) -> bool:
    """Tell whether a request without a connection of its own is identified by more than its client's name."""
    return context.request is None or SESSION_HEADER in context.request.headers


def _own_session(context: Context) -> str:
    if (found := session_named_by(context)) is not None:
        return found
    if context.request is not None:
        connection = context.request.headers.get("mcp-session-id")
        if connection and context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            return f"mcp-{connection}"
    client = context.session.client_params
    return "mcp" if client is None else f"mcp-client-{client.client_info.name}"


class _Server(Server[Any]):
    """The handlers of one server; work of the engine runs on threads, never on the event loop."""

    def __init__(
        self, sessions: _Sessions, threads: SharedThreads, name: str, instructions: str | None, *, links: bool
    ) -> None:
        super().__init__(
            name,
            version=own_version(),
            instructions=instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=self._listen,
        )
        self.add_request_handler("server/discover", types.RequestParams, self._discover)
        self._sessions = sessions
        self._threads = threads
        self._links = links
        self._listened: dict[Name, tuple[InMemorySubscriptionBus, int]] = {}

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **others: Any
    ) -> InitializationOptions:
        """Declare that the list of resources changes, for every transport."""
        options = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(options, *more, **others)

    async def _discover(self, context: Context, params: types.RequestParams) -> types.DiscoverResult:
        """Offer the protocol without connections only if the request itself names its session."""
        is_named = self._sessions.is_named(context)
        return types.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS if is_named else HANDSHAKE_PROTOCOL_VERSIONS),
            capabilities=self.get_capabilities(protocol_version=context.protocol_version),
            instructions=self.instructions,
        )

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        key = self._sessions.key(context)
        own = await self._run(key, context, lambda: self._sessions.open(key).tools("mcp"))
        return types.ListToolsResult(tools=[PROCESS_OUTPUT, *map(definition, own)])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        key, version, arguments = self._sessions.key(context), context.protocol_version, params.arguments or {}
        if params.name == PROCESS_OUTPUT.name:
            result, changed = await self._run(key, context, lambda: self._process(key, arguments, version))
        else:
            result, changed = await self._run(key, context, lambda: self._call(key, params.name, arguments, version))
        if changed:
            await self._notify(context, key)
        return result

    def _process(self, key: Name, arguments: dict[str, Any], version: str) -> tuple[types.CallToolResult, bool]:
        try:
            given = msgspec.convert(arguments, _ProcessArguments)
        except (msgspec.ValidationError, UnicodeError) as error:
            example = '{"output": [{"id": 1}], "tool": "list_users"}'
            message = without_surrogates(f"{PROCESS_OUTPUT.name}: {error}; e.g. {example}")
            return content.tool_result(message, version=version, is_error=True), False
        session = self._sessions.open(key)
        result = session.process(given.output, tool=given.tool, is_error=given.is_error)
        made = content.tool_result(
            result.content,
            version=version,
            is_error=result.is_error,
            links=content.links(result) if self._links else (),
            envelope=result.envelope,
        )
        return made, bool(result.artifacts)

    def _call(self, key: Name, name: str, arguments: dict[str, Any], version: str) -> tuple[types.CallToolResult, bool]:
        session = self._sessions.open(key)
        reply = session.call(name, arguments)
        ids = self._sessions.made_by(key, reply.step) if name in _WRITES else []
        made = [artifact for id_ in ids if (artifact := session.get_artifact(id_)) is not None]
        # Small artifacts are in the reply itself, and of images the model sees the bytes, so only big ones are linked.
        big = [one for one in made if one.payload.size >= session.policy.min_threshold_bytes] if self._links else []
        links = map(content.link, big)
        return content.tool_result(reply.content, version=version, is_error=reply.is_error, links=links), bool(made)

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        key, cursor = self._sessions.key(context), None if params is None else params.cursor

        def work() -> types.ListResourcesResult:
            session = self._sessions.open(key)
            try:
                found = session.artifacts(after=cursor, limit=PAGE + 1)
            except ConfigurationError:
                raise ToolError(
                    "the cursor is of no page of this list, or what it named has expired: begin anew"
                ) from None
            page = found[:PAGE]
            return types.ListResourcesResult(
                resources=content.resources(session, page),
                next_cursor=page[-1].id if len(found) > PAGE else None,
            )

        return await self._run(key, context, work)

    async def _list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        key = self._sessions.key(context)
        found = await self._run(key, context, lambda: content.templates(self._sessions.open(key)))
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        key = self._sessions.key(context)
        contents = await self._run(key, context, lambda: content.read(self._sessions.open(key), params.uri))
        return types.ReadResourceResult(contents=[contents])

    async def _run(self, key: Name, context: Context, work: Callable[[], T]) -> T:
        return await _on_thread(self._threads.of(key[0]), context, work)

    async def _notify(self, context: Context, key: Name) -> None:
        """Notify the client, and all other listeners of the session, that the list of resources has changed."""
        await context.session.send_resource_list_changed()
        if key in self._listened:
            await self._listened[key][0].publish(ResourcesListChanged())

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream with the notifications of one session only."""
        key = self._sessions.key(context)
        if sum(count for _, count in self._listened.values()) >= MAX_LISTENERS:
            raise MCPError(types.INTERNAL_ERROR, f"{MAX_LISTENERS:,} streams are open, the most that are accepted")
        bus, count = self._listened.get(key, (InMemorySubscriptionBus(), 0))
        self._listened[key] = bus, count + 1
        try:
            return await ListenHandler(bus)(context, params)
        finally:
            bus, count = self._listened.pop(key)
            if count > 1:
                self._listened[key] = bus, count - 1


def definition(tool: Mapping[str, Any]) -> types.Tool:
    """Return one of the session's own tools, with the annotations by which clients decide whether to ask their user."""
    annotations = types.ToolAnnotations(
        read_only_hint=tool["name"] not in _WRITES, destructive_hint=False, open_world_hint=False
    )
    return types.Tool(
        name=tool["name"],
        description=tool["description"],
        input_schema=tool["inputSchema"],
        annotations=annotations,
    )


async def _on_thread(executor: Executor, context: Context, work: Callable[[], T]) -> T:
    """Run work on a thread; meanwhile report progress to a client that asked for it.

    A cancelled request returns at once; work that has begun goes on to its end, and is committed or rolled back as a whole.
    """
    given_up = threading.Event()
    running = asyncio.get_running_loop().run_in_executor(executor, copy_context().run, _answered, work, given_up)
    waited = 0.0
    try:
        while not (await asyncio.wait({running}, timeout=HEARTBEAT_SECONDS))[0]:
            waited += HEARTBEAT_SECONDS
            await context.session.report_progress(waited, message=f"{waited:.0f} s")
        return running.result()
    finally:
        given_up.set()
        running.cancel()


def _answered(work: Callable[[], T], given_up: threading.Event) -> T:
    """Return the work's result, or raise an error for the client; details that only the host may see go only to the log."""
    try:
        return work()
    except (ToolError, InvalidId, SessionGone) as error:
        raise MCPError(types.INVALID_PARAMS, without_surrogates(str(error))) from error
    except ArtifactMissing as error:
        logger.exception("byref could not read what a client asked for")
        raise MCPError(types.INTERNAL_ERROR, "the stored data is gone") from error
    except Exception as error:  # its text may contain details of the host
        # A server that ends closes the engine of calls that nobody waits for any more.
        is_expected = given_up.is_set() and isinstance(error, ConfigurationError)
        logger.log(logging.DEBUG if is_expected else logging.ERROR, "byref could not answer a request", exc_info=True)
        raise MCPError(types.INTERNAL_ERROR, "byref could not answer; its log says why") from error


def own_version() -> str:
    """Return byref's version as MCP peers state theirs; empty if byref is not installed."""
    try:
        return version("byref")
    except PackageNotFoundError:
        return ""
