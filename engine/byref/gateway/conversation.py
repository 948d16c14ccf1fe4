"""One client's conversation: its servers, what they offer, and the session that stores their results."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
    SubscriptionsListenRequestParams,
)

from byref.adapters.common.arguments import may_refer
from byref.adapters.common.functions import session_with
from byref.adapters.mcp import content
from byref.describe.jsontext import without_surrogates
from byref.engine import Engine
from byref.errors import ByrefError, ToolError
from byref.gateway import labels, own, results
from byref.gateway.accounts import Accounts, passes_surely
from byref.gateway.calls import Call, Calls, Context, connection_of, is_modern
from byref.gateway.catalogue import Catalogue, Offered, is_own
from byref.gateway.channel import Unavailable
from byref.gateway.client import Client
from byref.gateway.code import SEARCH, Asking, CodeTools
from byref.gateway.config import GatewayConfig
from byref.gateway.containment import contained, on_thread
from byref.gateway.messages import Allowance, size_of, weight_of
from byref.gateway.questions import asked_in, refused, wire
from byref.gateway.readable import readable
from byref.gateway.upstream import Upstream
from byref.gateway.ways import Ways
from byref.gateway.wire import acceptable, check_headers, dumped, finished, is_question
from byref.session import Session
from byref.tools.code import CODE_INTERPRETER

Json = dict[str, Any]
T = TypeVar("T")

START_SECONDS = 30.0
"""How long lists wait for starting servers while none is ready, in seconds since the conversation began."""
OTHERS_SECONDS = 5.0
"""The same once one server is ready. The client is told by `list_changed` of servers that are ready later."""
MAX_ROUNDS = 10
"""Questions that a server may ask one after the other before it answers a call."""
FIRST_PAUSE, LAST_PAUSE = 0.05, 0.25
"""Seconds before a call whose result is not ready is made again: doubled each time, as the SDK's clients do."""
MAX_SUBSCRIPTIONS = 1_000
MAX_AT_ONCE = 1 << 17
"""Bytes of a result that is processed on the event loop; a longer one is processed on a thread."""
MAX_BY_HTTP = 32 << 20
"""Bytes of a result over HTTP. The SDK writes its JSON on the event loop, where no other client is served meanwhile."""
MAX_REPORTS = 100
"""Progress reports of one call on their way to the client; further ones are dropped."""
_ASKED_BY = "byref-asked-by:"
"""Prefix of the `requestState` for the client; the asking server's name and its own state follow."""
INSTRUCTIONS = (
    "Tools of other MCP servers. A big result is stored whole; in its place you get its variables, schema and a preview. "
    "Work on all of the data with code_interpreter, artifact_jq, artifact_grep and artifact_read, by the variables' names, "
    'and hand it to other tools by reference: "$name" as an argument. Never infer the whole from a preview.'
)

logger = logging.getLogger("byref")


class Conversation:
    """The service for one client. `run` keeps its servers running."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        own_tools: list[Json],
        config: GatewayConfig,
        executor: Executor,
        allowances: Mapping[str, Allowance],
        *,
        capabilities: Json,
        info: Json,
    ) -> None:
        self.session = session
        self._engine = engine
        self._config = config
        self._executor = executor
        self._calls = Calls()
        self._accounts = Accounts()
        self._client = Client(
            self._calls,
            capabilities,
            info,
            on_start=self._restore,
            has=lambda upstream, uri: self._catalogue.may_have(upstream, uri),
        )
        self._upstreams = [
            Upstream(server, self._client, allowances[server.name], start_timeout=config.start_timeout)
            for server in config.servers
        ]
        self._ways = {upstream: Ways(upstream, self._beside) for upstream in self._upstreams}
        self._own_tools = {tool["name"]: tool for tool in own_tools}
        self._code: CodeTools | None = None
        if config.functions is not None and CODE_INTERPRETER.name in self._own_tools:
            self._code = CodeTools(config, config.functions, session, self._learned)
        reserved = (SEARCH,) if self._code is not None and self._code.searches else ()
        self._catalogue = Catalogue(self._upstreams, session.policy, self._thread, self._learned, reserved)
        self._level: str | None = None
        self._subscribed: dict[str, None] = {}
        self._showing = anyio.Lock()
        self._over = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._began = 0.0
        self._busy = 0
        self.used_at = anyio.current_time()

    def _learned(self, tools: tuple[str, ...]) -> Mapping[str, Json | None]:
        """Return what tools have returned so far, as the session sees it: always the same, so that no list of tools changes."""
        scope = self.session._scope
        try:
            return self._engine._seen(scope.tenant, scope.learned_through, scope.policy, tools)
        except ByrefError:
            logger.warning("byref could not look up what tools return", exc_info=True)
            return {}

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress."""
        return not self._busy

    @property
    def is_over(self) -> bool:
        """Whether `close` was called."""
        return self._over.is_set()

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Run the servers until the conversation is closed."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._began = anyio.current_time()
            tasks.start_soon(contained, "the writing down of small results", self._accounts.run)
            for upstream in self._upstreams:
                tasks.start_soon(contained, f"the server {upstream.name!r}", upstream.run)
            task_status.started()
            await self._over.wait()
            tasks.cancel_scope.cancel()

    def _beside(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        assert self._tasks is not None
        self._tasks.start_soon(contained, "a second connection", work)

    def close(self) -> None:
        """End the conversation: `run` stops its servers."""
        self._over.set()

    async def settled(self, seconds: float = START_SECONDS, *, others: float = OTHERS_SECONDS) -> None:
        """Wait until each server has started or failed, or `seconds` (`others`, if one is ready) since the conversation began."""
        with anyio.move_on_at(self._began + seconds) as scope:
            for upstream in self._upstreams:
                while not upstream.settled.is_set():
                    if any(one.is_ready and one.settled.is_set() for one in self._upstreams):
                        scope.deadline = min(scope.deadline, self._began + others)
                    with anyio.move_on_after(0.1):
                        await upstream.settled.wait()

    def instructions(self) -> str:
        """Return the gateway's instructions for the model and those of the servers, each under its server's name."""
        texts = [(upstream.name, upstream.instructions) for upstream in self._upstreams if upstream.instructions]
        return "\n\n".join([INSTRUCTIONS, *(labels.introduced(name, text) for name, text in texts)])

    # Requests and notifications of the client

    async def answer(self, context: Context) -> Json:
        """Answer a request.

        Raises:
            MCPError: the request cannot be answered, or the server answered with an error.
        """
        self.used_at = anyio.current_time()
        self._client.note(context, is_introduced=is_modern(context) or connection_of(context).initialized.is_set())
        handler = self._HANDLERS.get(context.method, Conversation._pass_on)
        params = dict(context.params or {})
        assert self._tasks is not None
        self._busy += 1
        try:
            result = await self._calls.run(context, lambda call: handler(self, call, params), self._tasks)
        except Unavailable as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from error
        except ToolError as error:
            raise MCPError(INVALID_PARAMS, without_surrogates(str(error))) from error
        finally:
            self._busy -= 1
            self.used_at = anyio.current_time()
        _check_length(context, size_of(result))
        if size_of(result) <= MAX_AT_ONCE:
            return finished(readable(context.method, result, context.protocol_version), context)
        return await self._thread(lambda: finished(readable(context.method, result, context.protocol_version), context))

    async def on_notification(self, context: Context) -> None:
        """Handle a notification, which goes to every server unless it concerns the gateway alone."""
        if context.method == "notifications/initialized":
            self._client.note(context, is_introduced=True)
        elif context.method not in ("notifications/cancelled", "notifications/progress"):
            for upstream in self._upstreams:
                await upstream.notify(context.method, context.params)

    async def _list_tools(self, call: Call, params: Json) -> Json:
        # A list within a budget stays as it is first shown, so servers that start slowly have to be in it.
        is_kept = self._code is not None and self._code.searches
        await self.settled(others=START_SECONDS if is_kept else OTHERS_SECONDS)
        offered = await self._catalogue.offered("tools")
        code = self._code
        if code is None:
            shown, ours = [one.shown for one in offered], [*map(own.definition, self._own_tools.values())]
        else:
            async with self._showing:
                shown, ours = await self._thread(lambda: (code.listed(offered), code.own_tools(offered)))
        return {"tools": [*acceptable("tools/list", "tools", shown, call.context), *ours]}

    async def _list_prompts(self, call: Call, params: Json) -> Json:
        await self.settled()
        offered = await self._catalogue.offered("prompts")
        return {"prompts": acceptable("prompts/list", "prompts", [one.shown for one in offered], call.context)}

    async def _list_resources(self, call: Call, params: Json) -> Json:
        """List the servers' resources and the newest stored artifacts on the first page, older artifacts on further pages."""
        await self.settled()
        cursor = params.get("cursor")
        ours, behind = await self._thread(lambda: own.resources(self.session, cursor))
        found = [] if cursor is not None else await self._catalogue.resources("resources")
        listed = {"resources": [*acceptable("resources/list", "resources", found, call.context), *ours]}
        return listed if behind is None else {**listed, "nextCursor": behind}

    async def _list_templates(self, call: Call, params: Json) -> Json:
        await self.settled()
        ours = [dumped(template) for template in content.templates(self.session)]
        found = await self._catalogue.resources("templates")
        key = "resourceTemplates"
        return {key: [*acceptable("resources/templates/list", key, found, call.context), *ours]}

    async def _call_tool(self, call: Call, params: Json) -> Json:
        name, arguments = params["name"], params.get("arguments") or {}
        if self._code is not None and name in (CODE_INTERPRETER.name, SEARCH):
            if name == CODE_INTERPRETER.name:
                return await self._run_code(self._code, call, arguments)
            if self._code.searches:
                return await self._search(self._code, arguments)
        if name in self._own_tools:
            return await self._thread(lambda: own.call(self.session, name, arguments, call.context.protocol_version))
        offered = await self._named("tools", name)
        check_headers(call.context, offered.shown, arguments)
        sent = arguments
        if may_refer(arguments) and self.session.policy.tool(name).references:
            try:
                sent = await self._thread(lambda: own.resolved(self.session, offered.definition, name, arguments))
            except ToolError as error:
                return results.failure(str(error))
        try:
            raw = await self._forward(
                call, offered.upstream, {**params, "name": offered.original, "arguments": sent}, "tools/call"
            )
        except Unavailable as error:
            return results.failure(str(error))
        if is_question(raw):
            return raw
        results.settle_error(raw)
        limit = results.limit_of(offered.definition)
        version = call.context.protocol_version

        async def process() -> Json:
            result, is_stored = await self._thread(
                lambda: results.process(
                    self.session if self._code is None else self._code.apart(offered),
                    raw,
                    tool=name,
                    arguments=arguments,
                    limit=limit,
                    version=version,
                    shows_learned=offered.shows_learned,
                    has_links=self._config.links,
                )
            )
            if is_stored:
                await self._client.notify("notifications/resources/list_changed", None)
            return result

        is_small = size_of(raw) <= MAX_AT_ONCE
        if (
            is_small
            and limit is None
            and passes_surely(self.session.policy, name, raw)
            and self._accounts.later(process)
        ):
            return results.for_version(results.structured(raw, version) if offered.shows_learned else raw, version)
        result = await process()
        if size_of(raw) > MAX_BY_HTTP:
            _check_length(call.context, await self._thread(lambda: weight_of(result, MAX_BY_HTTP)))
        return result

    async def _run_code(self, code: CodeTools, call: Call, arguments: Json) -> Json:
        # Code may call tools of a server that is still starting, so this waits longer than a list does.
        await self.settled(others=START_SECONDS)
        offered = await self._catalogue.offered("tools")
        asking = Asking(call, self._forward, asyncio.get_running_loop())

        def work() -> Json:
            session = session_with(self.session, code.functions(offered, asking), asking.loop)
            return own.call(session, CODE_INTERPRETER.name, arguments, call.context.protocol_version)

        try:
            return await self._thread(work)
        finally:
            asking.is_over = True

    async def _search(self, code: CodeTools, arguments: Json) -> Json:
        await self.settled(others=START_SECONDS)
        offered = await self._catalogue.offered("tools")
        text = await self._thread(lambda: code.found(arguments.get("query"), offered))
        return {"content": [{"type": "text", "text": without_surrogates(text)}]}

    async def _get_prompt(self, call: Call, params: Json) -> Json:
        offered = await self._named("prompts", params["name"])
        return await self._forward(call, offered.upstream, {**params, "name": offered.original}, "prompts/get")

    async def _read_resource(self, call: Call, params: Json) -> Json:
        uri = params["uri"]
        if is_own(uri):
            return {"contents": [await self._thread(lambda: dumped(content.read(self.session, uri)))]}
        return await self._by_owner(call, params, "resources/read")

    async def _subscribe(self, call: Call, params: Json) -> Json:
        uri = params["uri"]
        if is_own(uri):
            return {}  # stored artifacts never change
        result = await self._by_owner(call, params, "resources/subscribe")
        if len(self._subscribed) < MAX_SUBSCRIPTIONS:
            self._subscribed[uri] = None
        return result

    async def _unsubscribe(self, call: Call, params: Json) -> Json:
        self._subscribed.pop(params["uri"], None)
        return {} if is_own(params["uri"]) else await self._by_owner(call, params, "resources/unsubscribe")

    async def _complete(self, call: Call, params: Json) -> Json:
        reference = params["ref"]
        if reference.get("type") == "ref/prompt":
            offered = await self._named("prompts", reference["name"])
            sent = {**params, "ref": {**reference, "name": offered.original}}
            return await self._forward(call, offered.upstream, sent, "completion/complete")
        if is_own(reference["uri"]):
            return {"completion": {"values": []}}
        return await self._by_owner(call, params, "completion/complete", uri=reference["uri"])

    async def _set_level(self, call: Call, params: Json) -> Json:
        self._level = params["level"]
        for upstream in self._upstreams:
            await self._pass_level(upstream)
        return {}

    async def _pass_level(self, upstream: Upstream) -> None:
        if self._level is None or not upstream.has("logging") or upstream.is_modern:
            return
        try:
            await upstream.request("logging/setLevel", {"level": self._level}, timeout=10)
        except (MCPError, Unavailable) as error:
            logger.warning("server %r did not take the level of its log: %s", upstream.name, error)

    async def _subscriptions(self, call: Call, params: Json) -> Json:
        """Open a stream of notifications, which clients since 2026 ask for."""
        wanted = SubscriptionsListenRequestParams.model_validate(params, by_name=False)
        for uri in wanted.notifications.resource_subscriptions or ():
            if not is_own(uri):
                try:
                    await self._by_owner(call, {"uri": uri}, "resources/subscribe")
                except MCPError as error:
                    logger.warning("no server takes a subscription to %.200r: %s", uri, error)
        return dumped(await self._client.listen(call.context, wanted))

    _HANDLERS: Mapping[str, Callable[[Conversation, Call, Json], Any]] = {
        "tools/list": _list_tools,
        "tools/call": _call_tool,
        "prompts/list": _list_prompts,
        "prompts/get": _get_prompt,
        "resources/list": _list_resources,
        "resources/templates/list": _list_templates,
        "resources/read": _read_resource,
        "resources/subscribe": _subscribe,
        "resources/unsubscribe": _unsubscribe,
        "completion/complete": _complete,
        "logging/setLevel": _set_level,
        "subscriptions/listen": _subscriptions,
    }

    async def _pass_on(self, call: Call, params: Json) -> Json:
        """Pass an unknown method on to the servers; the first that knows it answers."""
        await self.settled()
        asker = _asker(params)
        for upstream in (one for one in self._upstreams if asker in (None, one.name)):
            try:
                return await self._forward(call, upstream, params, call.context.method)
            except Unavailable:
                continue
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
        raise MCPError(METHOD_NOT_FOUND, "Method not found", data=call.context.method)

    async def _restore(self, upstream: Upstream) -> None:
        """Send a server that was started, perhaps again, what the client had sent before: log level and subscriptions."""
        await self._pass_level(upstream)
        if upstream in self._ways and upstream.is_at_address:
            self._beside(self._ways[upstream].open)
        for uri in list(self._subscribed):
            owners, _ = await self._catalogue.owners(uri)
            if upstream in owners[:1]:
                try:
                    await self._ways[upstream].request("resources/subscribe", {"uri": uri}, timeout=10)
                except (MCPError, Unavailable) as error:
                    logger.warning("server %r did not take the subscription to %.200r: %s", upstream.name, uri, error)

    # Requests to servers

    async def _named(self, kind: str, name: str) -> Offered:
        """Return the tool or prompt with a name.

        Raises:
            MCPError: there is none.
        """
        # An unknown name may belong to a server that is still starting, so this waits longer than a list does.
        if not self._catalogue.is_given(kind, name):
            await self.settled(others=START_SECONDS)
        found = await self._catalogue.find(kind, name)
        if found is None:
            raise MCPError(INVALID_PARAMS, without_surrogates(self._catalogue.unknown(kind, name)))
        return found

    async def _by_owner(self, call: Call, params: Json, method: str, *, uri: str | None = None) -> Json:
        """Send a request to the server that has a resource, trying the likely servers in turn.

        Raises:
            MCPError: no server accepted it; this is the error of the likeliest.
            Unavailable: no server accepted it, and the likeliest was away.
        """
        await self.settled()
        asker = _asker(params)
        owners, claiming = await self._catalogue.owners(uri or params["uri"])
        if asker is not None:
            owners = [one for one in self._upstreams if one.name == asker]
        failed: MCPError | Unavailable | None = None
        # A request with answers is not tried at a second server: its answers are meant for one alone.
        for at, upstream in enumerate(owners[:1] if "inputResponses" in params else owners):
            try:
                return await self._forward(call, upstream, params, method)
            except (MCPError, Unavailable) as error:
                failed = failed or error
                if at < claiming and isinstance(error, Unavailable):
                    break  # a server that claims the resource is away: no other may answer in its place
        raise failed or MCPError(INVALID_PARAMS, "no server has resources")

    async def _forward(self, call: Call, upstream: Upstream, params: Json, method: str) -> Json:
        """Send a request to a server and return its result; its questions are translated for clients of another era."""
        if is_modern(call.context) and (level := (params.get("_meta") or {}).get(LOG_LEVEL_META_KEY)) != self._level:
            self._level = level if isinstance(level, str) else self._level
            await self._pass_level(upstream)
        sent = _answering(params, upstream.name)
        async with call.at(upstream.name):
            try:
                return await self._asked(call, upstream, sent, method)
            except MCPError as error:
                shown = refused(upstream.name, error, call.able)
                if shown is error:
                    raise
                raise shown from error

    async def _asked(self, call: Call, upstream: Upstream, sent: Json, method: str) -> Json:
        meta = sent.get("_meta") or {}
        reporting = 0

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            nonlocal reporting
            if reporting >= MAX_REPORTS:
                return
            reporting += 1
            try:
                await call.context.session.report_progress(progress, total, message)
            finally:
                reporting -= 1

        pause = FIRST_PAUSE
        for _ in range(MAX_ROUNDS):
            result = await self._ways[upstream].request(
                method,
                sent,
                on_progress=on_progress if "progressToken" in meta else None,
                timeout=self._config.call_timeout,
                about=call,
            )
            if not is_question(result):
                return result
            questions = asked_in(result, upstream.name, call.able)
            if is_modern(call.context):
                return _asking(result, questions, upstream.name)
            sent = {key: value for key, value in sent.items() if key not in ("inputResponses", "requestState")}
            if isinstance(result.get("requestState"), str):
                sent["requestState"] = result["requestState"]
            if questions:
                sent["inputResponses"] = {
                    key: await call.ask(upstream.name, method, params) for key, (method, params) in questions.items()
                }
            else:
                await anyio.sleep(pause)
                pause = min(2 * pause, LAST_PAUSE)
        raise MCPError(INTERNAL_ERROR, f"the server {upstream.name!r} asked more than {MAX_ROUNDS} times")

    async def _thread(self, work: Callable[[], T]) -> T:
        """Run work of the engine on a thread.

        Raises:
            ToolError: text for the model.
            MCPError: any other error of byref; its details are for the host, so they go only to the log.
        """
        try:
            return await on_thread(self._executor, work)
        except ToolError:
            raise
        except ByrefError as error:
            logger.exception("byref could not answer a request")
            raise MCPError(
                INTERNAL_ERROR, f"byref could not answer: {type(error).__name__}; its log says why"
            ) from error


def _check_length(context: Context, length: int) -> None:
    """Check that a result can be sent.

    Raises:
        MCPError: it is too long for HTTP.
    """
    if context.request is not None and length > MAX_BY_HTTP:
        raise MCPError(
            INTERNAL_ERROR,
            f"the result has more than {MAX_BY_HTTP >> 20} MB, which is not passed on by HTTP: ask for a part of it, or run "
            "the gateway as a process of the client's",
        )


def _asking(result: Json, questions: Mapping[str, tuple[str, Json | None]], server: str) -> Json:
    """Return a server's questions for the client; the state, which comes back with the answers, names the server."""
    state = result.get("requestState")
    kept = {key: value for key, value in result.items() if key not in ("inputRequests", "requestState")}
    of = json.dumps([server, *([state] if isinstance(state, str) else [])])
    if questions:
        kept["inputRequests"] = {key: wire(method, params) for key, (method, params) in questions.items()}
    return {**kept, "requestState": f"{_ASKED_BY}{of}"}


def _asker(params: Mapping[str, Any]) -> str | None:
    """Return the server whose questions a request answers, if the request says so."""
    found = _state(params)
    return None if found is None else found[0]


def _answering(params: Json, server: str) -> Json:
    """Return a request as its server gets it: with the server's own state.

    Raises:
        MCPError: it has the answers to another server's questions.
    """
    found = _state(params)
    if found is None:
        return params
    if found[0] != server:
        raise MCPError(INVALID_PARAMS, f"these are answers to questions of the server {found[0]!r}, not of {server!r}")
    kept = {key: value for key, value in params.items() if key != "requestState"}
    return {**kept, "requestState": found[1]} if len(found) > 1 else kept


def _state(params: Mapping[str, Any]) -> list[str] | None:
    state = params.get("requestState")
    if not isinstance(state, str) or not state.startswith(_ASKED_BY):
        return None
    try:
        found = json.loads(state.removeprefix(_ASKED_BY))
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(found, list) and len(found) in (1, 2) and all(isinstance(one, str) for one in found)
    return found if is_ours else None
