"""One upstream server: it is started, spoken to, and started again when it goes away."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup
from mcp.shared.dispatcher import CallOptions, DispatchContext, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
    RequestId,
)
from mcp.types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from byref.errors import all_visible, one_line, visible
from byref.gateway.channel import Broken, Channel, Unavailable
from byref.gateway.config import LIST_SECONDS, Kind, ServerConfig
from byref.gateway.containment import contained, is_failure
from byref.gateway.http import HTTP_STATUS, NOT_SENT, failure, http_server, sse_server
from byref.gateway.listing import LISTS, Items, listed
from byref.gateway.messages import Allowance, Pace, ServerData, size_of
from byref.gateway.relay import Relay
from byref.gateway.stdio import child_process

FIRST_DELAY = 0.5
LAST_DELAY = 30.0
"""Seconds between attempts to start a server: the first pause, doubled each time up to the last."""
STEADY_SECONDS = 30.0
"""The pauses begin anew after a server that ran so long."""
MAX_NOTIFICATIONS = 1_000
"""Notifications of one server on their way to the client; further ones are dropped."""
MAX_WATCHED = 1_000
"""Resources of one server without a handshake whose changes the server is asked to report."""
HEARD_SECONDS = 5.0
"""Seconds for the server to confirm which of them it reports."""
MAX_QUESTIONS = 100
"""Questions of one server that the client has not answered."""
MAX_INTRODUCTION_BYTES = 1 << 20
"""Length of a server's answer to the handshake."""
PAUSE_SECONDS = 60.0
"""A list that failed is not asked for again for so long; else each list of the client would wait for it."""
SECOND_SECONDS = 10.0
"""Seconds to open a second connection, which has no handshake: at least these, or twice what the first connection took."""
_FIRST_ID = 1_000_000_000
"""First id for requests with a known caller; the SDK's dispatcher gives lower ids by itself."""
LARGE_BYTES = 8_000_000
"""Arguments beyond these may be what a server died of: those that the SDK of TypeScript makes read messages of 10 MiB by stdio."""
FRESH_SECONDS = 5.0
"""A list is asked for again after so long if its server does not report changes."""

Json = dict[str, Any]

logger = logging.getLogger("byref")


class Refused(MCPError):
    """The server itself answered with an error. Its code may be any, even that of an error of the SDK's own."""


class Client(Protocol):
    """The client, as servers reach it. Everything is called on the gateway's event loop."""

    capabilities: Json
    info: Json

    async def on_request(self, upstream: Upstream, method: str, params: Json | None, about: object) -> Json:
        """Answer a server's request. `about` is the value that `Upstream.request` got for the call it belongs to, if known."""

    async def on_notification(self, upstream: Upstream, method: str, params: Json | None) -> None:
        """Handle a server's notification."""

    async def on_started(self, upstream: Upstream) -> None:
        """Handle the start, or restart, of a server."""


class Upstream:
    """One server. `run` keeps it running until it is cancelled."""

    def __init__(
        self,
        config: ServerConfig,
        client: Client,
        allowance: Allowance,
        *,
        start_timeout: float,
        first: Upstream | None = None,
    ) -> None:
        """`first` is the main connection, if this is a second one, without a handshake."""
        self.name = config.name
        self.settled = anyio.Event()
        """Set once the first attempt to start the server has ended, with success or without."""
        self.capabilities: Json = {}
        self.instructions: str | None = None
        self.version = LATEST_HANDSHAKE_VERSION
        self.lives = 0
        """How often the server was ready."""
        self._first = first
        self._took = 0.0
        """Seconds that the last start took."""
        self._config = config
        self._allowance = allowance
        self._kind: Kind = config.kind
        self._client = client
        self._start_timeout = start_timeout
        self._relay = Relay(config.name)
        self._dispatcher: JSONRPCDispatcher[TransportContext] | None = None
        self._lost = anyio.Event()
        self._is_awaited = False
        self._trouble = "it has not been started yet"
        self._retry_at: float | None = None
        self._notifying = self._asking = self._sent = 0
        self._about: dict[RequestId | None, object] = {}
        """The `about` of each request in progress that has one, by request id."""
        self._pace = Pace()
        self._life: TaskGroup | None = None
        self._listening = anyio.CancelScope()
        self._listening_anew = anyio.Lock()
        self._acknowledged = anyio.Event()
        self._watched: set[str] = set()
        self._honoured: set[str] = set()
        self._lists: dict[str, Items] = {}
        self._listing: dict[str, anyio.Lock] = {kind: anyio.Lock() for kind in LISTS}

    @property
    def is_ready(self) -> bool:
        """Whether the server takes requests now."""
        return self._dispatcher is not None

    @property
    def is_at_address(self) -> bool:
        """Whether the server is reached at an address, rather than as a child process."""
        return self._kind != "stdio"

    @property
    def is_modern(self) -> bool:
        """Whether the server speaks the protocol without a handshake."""
        return self.version in MODERN_PROTOCOL_VERSIONS

    def has(self, capability: str) -> bool:
        """Tell whether the server declared a capability."""
        return isinstance(self.capabilities.get(capability), dict)

    def second(self) -> Upstream | None:
        """Return a second connection to the server, which the caller must run; None if there can be none.

        It passes questions and notifications to the same client, keeps no lists, and ends if the server does not speak the protocol
        without a handshake.
        """
        if self.is_modern or self._kind == "sse":
            return None
        seconds = min(self._start_timeout, max(SECOND_SECONDS, 2 * self._took))
        return Upstream(self._config, self._client, self._allowance, start_timeout=seconds, first=self)

    async def run(self) -> None:
        """Start the server, and start it again whenever it is gone, with growing pauses."""
        delay = FIRST_DELAY
        while True:
            began, was_sse = time.monotonic(), self._kind == "sse"
            try:
                await self._live()
            except BaseException as error:
                if not is_failure(error):
                    raise
                self._trouble = failure(error)
                # An address of unknown kind is tried as SSE once; if that fails too, HTTP is tried again.
                if self._config.kind == "auto" and self._kind == "sse" and not self.is_ready:
                    self._kind = "auto" if was_sse else "sse"
            finally:
                self._dispatcher = None
            if self._first is not None and not self.lives:
                logger.info("server %r: no second connection: %s", self.name, self._trouble)
                self.settled.set()
                return
            steady = time.monotonic() - began > STEADY_SECONDS
            delay = FIRST_DELAY if steady else min(2 * delay, LAST_DELAY)
            self._retry_at = time.monotonic() + delay
            self.settled.set()
            logger.warning("server %r: %s; it is started again in %.1f s", self.name, self._trouble, delay)
            await anyio.sleep(delay)
            self._retry_at = None

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: ProgressFnT | None = None,
        timeout: float | None = None,
        about: object = None,
    ) -> Json:
        """Send a request and return the server's result unchanged; `about` is the call for which the server may ask the client.

        Raises:
            Unavailable: the server is away, went away meanwhile, or took too long.
            MCPError: the server answered with an error.
        """
        dispatcher = self._dispatcher
        if dispatcher is None:
            raise Unavailable(self._away())
        sent, options = self._stamped(method, params)
        if on_progress is not None:
            options["on_progress"] = partial(self._pass_progress, on_progress)
        if timeout is not None:
            options["timeout"] = timeout
        if about is not None and self.is_at_address:  # a process has one stream for all its messages: they show no call
            self._sent += 1
            options["request_id"] = id = _FIRST_ID + self._sent
            self._about[id] = about
        try:
            return await _answer(dispatcher, method, sent, options)
        except MCPError as error:
            code = None if isinstance(error, Refused) else error.code
            if code == CONNECTION_CLOSED:
                await self._noticed(dispatcher)
                is_gone = self._dispatcher is not dispatcher
                size = await anyio.to_thread.run_sync(_length, params) if is_gone else 0
                raise Unavailable(self._interrupted(error, size, is_gone=is_gone)) from error
            if code == REQUEST_TIMEOUT and timeout is not None:
                raise Unavailable(
                    f"the MCP server {self.name!r} did not answer within {timeout:g} s; the call was cancelled."
                ) from error
            # clients and our log show the text, so nothing hidden may be in it
            error.error.message = visible(error.message)
            if error.data is not None:
                error.error.data = all_visible(error.data)
            raise
        finally:
            self._about.pop(options.get("request_id"), None)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification, if the server is there and accepts notifications."""
        if self._dispatcher is not None and not self.is_modern:
            await self._dispatcher.notify(method, params, self._stamped(method, None)[1])

    async def watch(self, uri: str, *, is_wanted: bool) -> bool:
        """Ask a server without a handshake to report a resource's changes, or to stop; return whether it reports them now."""
        if is_wanted == (uri in self._watched) or (is_wanted and len(self._watched) >= MAX_WATCHED):
            return uri in self._honoured
        (self._watched.add if is_wanted else self._watched.discard)(uri)
        await self._listen_anew()
        return uri in self._honoured

    async def items(self, kind: str, *, wait: float = LIST_SECONDS) -> list[Json]:
        """Return a list, of a kind of `LISTS`; the last known one if the server is away or too slow."""
        # One request at a time for each list; those who waited for the lock get the list that was just read.
        async with self._listing[kind]:
            known = self._lists.get(kind)
            if (
                self.is_ready
                and self.has(LISTS[kind].capability)
                and (known is None or not self._is_fresh(kind, known))
            ):
                self._lists[kind] = await self._read(kind, known, wait)
            return self._lists[kind].items if kind in self._lists else []

    async def _read(self, kind: str, known: Items | None, wait: float) -> Items:
        """Return a list as the server sends it; if it does not send all of it, what is better: the known one, or the first pages."""
        found = await listed(self, kind, wait)
        if found.error is None:
            return found
        pause = PAUSE_SECONDS if isinstance(found.error, Unavailable) else 0.0
        asked_at = time.monotonic() + pause
        if getattr(found.error, "code", None) == METHOD_NOT_FOUND and not found.items:
            return Items(known.items if known else [], asked_at)
        least = f" to the end, after {len(found.items)} of them" if found.items else ""
        logger.warning("server %r: its %s could not be listed%s: %s", self.name, kind, least, found.error)
        if known is not None and (not known.is_cut or not found.items):
            return replace(known, asked_at=asked_at, error=found.error)
        return replace(found, asked_at=asked_at)

    def known(self, kind: str) -> list[Json]:
        """Return the list that was last read."""
        return self._lists[kind].items if kind in self._lists else []

    async def last(self, kind: str) -> list[Json]:
        """Return the list that was last read; the server is asked only if it was never read."""
        return self.known(kind) if kind in self._lists else await self.items(kind)

    def left_out(self, kind: str) -> list[Json]:
        """Return the last known list of a server that is not ready; the client is told once it is."""
        self._is_awaited = True
        return self.known(kind)

    def forget(self, kind: str) -> None:
        """Have the list asked for again the next time."""
        if kind in self._lists:
            self._lists[kind].asked_at = float("-inf")

    def _is_fresh(self, kind: str, known: Items) -> bool:
        if known.asked_at == float("-inf"):
            return False
        capability = self.capabilities.get(LISTS[kind].capability)
        reports_changes = isinstance(capability, dict) and capability.get("listChanged") is True
        # That it could send its list now is no change which a server reports.
        return (reports_changes and known.error is None) or time.monotonic() - known.asked_at < FRESH_SECONDS

    def _away(self) -> str:
        when = "now" if self._retry_at is None else f"in {max(0.0, self._retry_at - time.monotonic()):.0f} s"
        return (
            f"the MCP server {self.name!r} is not available: {self._trouble}. {self._again} ({when}): "
            "try again shortly, or go on without it."
        )

    @property
    def _again(self) -> str:
        return "A new connection is being made" if self.is_at_address else "It is being restarted"

    def _interrupted(self, error: MCPError, size: int, *, is_gone: bool) -> str:
        """Say why a call got no answer, and whether it may have taken effect; `size` is that of its arguments."""
        reason = (self._trouble if is_gone else "") or error.error.message
        about = error.error.data if isinstance(error.error.data, dict) else {}
        if NOT_SENT in about:
            effect = "the call was never sent"
        elif about.get(HTTP_STATUS) == 404:  # a server does nothing about a request of a session that it does not know
            effect = "the call had no effect"
        else:
            effect = "whether the call took effect is unknown"
        if not is_gone:
            return f"the call to the MCP server {self.name!r} lost its connection ({reason}); {effect}."
        gone = f"the MCP server {self.name!r} went away during the call ({reason}); {effect}."
        if size > LARGE_BYTES and NOT_SENT not in about:
            large = f"Its arguments were {size / 1e6:.0f} MB; many servers read no more than 10 MB: hand on less."
            return f"{gone} {large} {self._again}."
        return f"{gone} {self._again}: try again shortly."

    async def _noticed(self, dispatcher: JSONRPCDispatcher[TransportContext]) -> None:
        """Wait a moment for `run` to find out how the connection ended, so that the error can say it."""
        with anyio.move_on_after(1):
            while self._dispatcher is dispatcher:
                await anyio.sleep(0.01)

    # One life: from a start to the loss of the connection

    async def _live(self) -> None:
        """Connect, shake hands, and stay until the connection is lost; `_trouble` then says why."""
        self._trouble, began = "it is starting", time.monotonic()
        async with AsyncExitStack() as stack:
            channel = await stack.enter_async_context(self._connected())
            self._lost = lost = anyio.Event()
            broken: list[Exception] = []

            async def on_broken(error: Exception) -> None:
                if isinstance(error, Broken):
                    broken.append(error)
                    lost.set()

            dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
                channel.received, channel.sent, on_stream_exception=on_broken
            )

            async def drive(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                await dispatcher.run(self._on_request, self._on_notify, task_status=task_status)
                lost.set()

            async with anyio.create_task_group() as tasks:
                await tasks.start(drive)
                # If the connection is lost during the handshake, the handshake is cancelled; its answer will never come.
                async with anyio.create_task_group() as opening:
                    opening.start_soon(_cancel_when, lost, opening.cancel_scope)
                    await self._shake_hands(dispatcher)
                    opening.cancel_scope.cancel()
                if not lost.is_set():
                    # From here on requests go to this life. The old lists stay known, but are asked for again (-inf is stale).
                    self._dispatcher, self._trouble = dispatcher, ""
                    self.lives, self._took = self.lives + 1, time.monotonic() - began
                    self._lists = {kind: replace(items, asked_at=float("-inf")) for kind, items in self._lists.items()}
                    self._life = tasks
                    if self.is_modern:
                        tasks.start_soon(self._contained, self._listen_anew)
                    tasks.start_soon(self._contained, self._settle)
                    await lost.wait()
                # The reason comes first: requests that failed wait in `_noticed` until the dispatcher is gone, and then quote it.
                self._trouble = failure(broken[0]) if broken else await channel.ending()
                self._dispatcher = self._life = None
                tasks.cancel_scope.cancel()

    def _connected(self) -> AbstractAsyncContextManager[Channel]:
        """Return the channel to the server, by its configured kind; `failure` puts its errors into words."""
        match self._kind:
            case "stdio":
                return child_process(self._config, self._relay, self._allowance)
            case "sse":
                return sse_server(self._config, self._allowance)
        return http_server(self._config, self._allowance)

    async def _contained(self, work: Callable[[], Awaitable[None]]) -> None:
        await contained(f"the server {self.name!r}", work)

    async def _settle(self) -> None:
        if self._first is not None:
            await self._client.on_started(self)
            self.settled.set()
            return
        # Asked before `settled` is set, so that the first answer to the client has this server's tools.
        self._is_awaited = self._is_awaited or self.settled.is_set()
        await self.items("tools")
        self.settled.set()
        logger.info("server %r is there", self.name)
        await self._client.on_started(self)
        if self._is_awaited:  # the client may have listed before the server was ready
            self._is_awaited = False
            for kind in ("tools", "prompts", "resources"):
                await self._client.on_notification(self, f"notifications/{kind}/list_changed", None)

    async def _shake_hands(self, dispatcher: JSONRPCDispatcher[TransportContext]) -> None:
        """Open the protocol with a handshake or, if the server refuses that, without one; a second connection only without.

        Raises:
            Broken: the server accepts neither.
        """
        if self._first is not None:
            if await self._discovered(dispatcher) is None:
                raise Broken(f"it does not speak {LATEST_MODERN_VERSION}")
            return
        hello = {
            "protocolVersion": LATEST_HANDSHAKE_VERSION,
            "capabilities": self._client.capabilities,
            "clientInfo": self._client.info,
        }
        options: CallOptions = {"timeout": self._start_timeout, "cancel_on_abandon": False}
        try:
            result = await _answer(dispatcher, "initialize", hello, options)
            version = result.get("protocolVersion")
            self.version = version if isinstance(version, str) else LATEST_HANDSHAKE_VERSION
            await dispatcher.notify("notifications/initialized", None, self._stamped("", None)[1])
        except MCPError as error:
            code = None if isinstance(error, Refused) else error.code
            if code == CONNECTION_CLOSED:
                await anyio.sleep(1)  # the reason of the loss is found meanwhile, and this task cancelled
            if code == REQUEST_TIMEOUT:
                raise Broken(f"it did not answer the handshake within {self._start_timeout:g} s") from error
            if (found := await self._discovered(dispatcher)) is None:
                self._try_other_kind(error)
                raise Broken(f"it refused the handshake: {one_line(error.error.message)}") from error
            result = found
        if size_of(result) > MAX_INTRODUCTION_BYTES:
            raise Broken(f"its answer to the handshake has more than {MAX_INTRODUCTION_BYTES >> 20} MB")
        capabilities, instructions = result.get("capabilities"), result.get("instructions")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.instructions = instructions if isinstance(instructions, str) else None

    def _try_other_kind(self, refusal: MCPError) -> None:
        """Try SSE the next time if the kind of an address is unknown and the server refused HTTP with a client error."""
        data = None if isinstance(refusal, Refused) else refusal.error.data
        status = data.get(HTTP_STATUS, 0) if isinstance(data, dict) else 0
        if self._kind == "auto" and 400 <= status < 500 and status not in (401, 403, 429):
            self._kind = "sse"

    async def _discovered(self, dispatcher: JSONRPCDispatcher[TransportContext]) -> Json | None:
        """Return the introduction of a server without a handshake; None if it does not speak that protocol."""
        before, self.version = self.version, LATEST_MODERN_VERSION
        try:
            params, options = self._stamped("server/discover", None)
            options |= {"timeout": self._start_timeout, "cancel_on_abandon": False}
            result = await _answer(dispatcher, "server/discover", params, options)
        except MCPError:
            self.version = before
            return None
        supported = result.get("supportedVersions")
        if not isinstance(supported, list) or self.version not in supported:
            self.version = before
            return None
        return result

    async def _listen_anew(self) -> None:
        """Ask a server without a handshake for its notifications anew; the former request ends once the new one is acknowledged."""
        async with self._listening_anew:  # one at a time, so that each gets its own acknowledgement
            if self._life is None or self._dispatcher is None:
                return
            # The new request is made before the old one is cancelled, so that no change between the two is missed.
            before, self._listening, self._acknowledged = self._listening, anyio.CancelScope(), anyio.Event()
            self._life.start_soon(self._contained, partial(self._listen, self._dispatcher, self._listening))
            with anyio.move_on_after(HEARD_SECONDS):
                await self._acknowledged.wait()
            before.cancel()

    async def _listen(self, dispatcher: JSONRPCDispatcher[TransportContext], scope: anyio.CancelScope) -> None:
        wanted: Json = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
        wanted |= {"resourceSubscriptions": sorted(self._watched)} if self._watched else {}
        pause = FIRST_DELAY
        with scope:
            while True:
                began = time.monotonic()
                params, options = self._stamped("subscriptions/listen", {"notifications": wanted})
                try:
                    await _answer(dispatcher, "subscriptions/listen", params, options)
                except MCPError as error:
                    if error.code != CONNECTION_CLOSED or isinstance(error, Refused):
                        return
                # A stream that lasted begins again at once; one that ends immediately is asked for less and less often.
                pause = FIRST_DELAY if time.monotonic() - began > STEADY_SECONDS else min(2 * pause, LAST_DELAY)
                await anyio.sleep(pause)

    def _stamped(self, method: str, params: Mapping[str, Any] | None) -> tuple[Json | None, CallOptions]:
        """Return parameters and options in the form of the server's protocol version."""
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.version}
        if not self.is_modern:
            return (None if params is None else dict(params)), {"headers": headers}
        sent = dict(params or {})
        sent["_meta"] = {
            CLIENT_INFO_META_KEY: self._client.info,
            CLIENT_CAPABILITIES_META_KEY: self._client.capabilities,
            **(sent.get("_meta") or {}),
            PROTOCOL_VERSION_META_KEY: self.version,
        }
        headers[MCP_METHOD_HEADER] = method
        key = NAME_BEARING_METHODS.get(method)
        if key is not None and isinstance(sent.get(key), str):
            headers[MCP_NAME_HEADER] = encode_header_value(sent[key])
        if method == "tools/call":
            headers |= self._repeated(sent)
        return sent, {"headers": headers}

    def _repeated(self, call: Json) -> dict[str, str]:
        """Return the HTTP headers in which a tool's schema wants arguments repeated; none if the schema is invalid in that."""
        listed = (self._first or self).known("tools")
        schema = next((tool["inputSchema"] for tool in listed if tool["name"] == call["name"]), None)
        if schema is None or find_invalid_x_mcp_header(schema) is not None:
            return {}
        return mcp_param_headers(x_mcp_header_map(schema), call.get("arguments") or {})

    # Requests and notifications of the server

    async def _on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> Json:
        if method == "ping":
            return {}
        # Each question holds a task, and perhaps the user's attention: a server must not ask without end.
        if self._asking >= MAX_QUESTIONS:
            raise MCPError(INTERNAL_ERROR, f"{MAX_QUESTIONS} requests are waiting for the client already")
        self._asking += 1
        try:
            came_with = getattr(context, "message_metadata", None)
            related = came_with.related_request_id if isinstance(came_with, ServerMessageMetadata) else None
            given = None if params is None else dict(params)
            return await self._client.on_request(self._first or self, method, given, self._about.get(related))
        finally:
            self._asking -= 1

    async def _pass_progress(
        self, pass_on: ProgressFnT, progress: float, total: float | None, message: str | None
    ) -> None:
        if not self._may_tell(len(message or "")):
            return
        self._notifying += 1
        try:
            await pass_on(progress, total, message)
        finally:
            self._notifying -= 1

    def _may_tell(self, size: int) -> bool:
        """Count a notification for the client; return False if it must be dropped."""
        return self._notifying < MAX_NOTIFICATIONS and self._pace.admits(size)

    async def _on_notify(
        self, _: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        if method in ("notifications/cancelled", "notifications/progress"):
            return  # the dispatcher handles these; of progress it tells `_pass_progress`
        if method == "notifications/subscriptions/acknowledged":
            honoured = (params or {}).get("notifications")
            uris = honoured.get("resourceSubscriptions") if isinstance(honoured, dict) else None
            self._honoured = {uri for uri in uris if isinstance(uri, str)} if isinstance(uris, list) else set()
            self._acknowledged.set()
            return
        if not self._may_tell(size_of(params)):
            # The notification is dropped, but the list has changed: it must be asked for again.
            if method.endswith("/list_changed"):
                for kind in LISTS:
                    (self._first or self).forget(kind)
            return
        if method == "notifications/message":
            params = all_visible(params)
        self._notifying += 1
        try:
            await self._client.on_notification(self._first or self, method, None if params is None else dict(params))
        finally:
            self._notifying -= 1


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _length(params: Mapping[str, Any] | None) -> int:
    """Return how many bytes a request's parameters are as JSON."""
    return len(json.dumps(params, ensure_ascii=False).encode("utf-8", "surrogatepass"))


async def _answer(
    dispatcher: JSONRPCDispatcher[TransportContext], method: str, params: Json | None, options: CallOptions
) -> Json:
    """Send a request and return the result.

    Raises:
        Refused: the server answered with an error.
        MCPError: there is no answer; the codes CONNECTION_CLOSED and REQUEST_TIMEOUT say why.
    """
    try:
        return await dispatcher.send_raw_request(method, params, options)
    except MCPError as error:
        if isinstance(data := error.error.data, ServerData):
            raise Refused(error.code, error.message, data.data) from None
        raise
