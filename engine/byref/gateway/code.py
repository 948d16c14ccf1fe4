"""The servers' tools as functions that code of byref's interpreter may call, and the list of tools when it is short."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.types.version import LATEST_MODERN_VERSION

from byref.adapters.common.functions import (
    CodeFunctions,
    FrameworkTool,
    FunctionError,
    as_data,
    python_name,
    session_with,
)
from byref.errors import visible
from byref.functions import Function
from byref.gateway import labels, own, search
from byref.gateway.calls import Call
from byref.gateway.catalogue import Learned, Offered
from byref.gateway.channel import Unavailable
from byref.gateway.config import FunctionsConfig, GatewayConfig
from byref.gateway.names import SEPARATOR, Names
from byref.gateway.readable import readable
from byref.gateway.results import settle_error
from byref.gateway.upstream import Upstream
from byref.gateway.wire import is_question
from byref.session import Session
from byref.tools.code import CODE_INTERPRETER

Json = dict[str, Any]
Forward = Callable[[Call, Upstream, Json, str], Awaitable[Json]]

SEARCH: Final = "search_tools"
MAX_FOUND: Final = 10
CALL_SECONDS: Final = 300.0
"""Seconds for one call, with the time in which the user decides about it: so long a run may wait for functions."""
_OURS: Final = ""
"""The name under which the gateway itself asks the client; no server has it."""
_SEARCH_TOOL: Final[Json] = {
    "name": SEARCH,
    "description": (
        "Find further tools of the servers, which are not in the list of tools, by words of what they do or take. What it finds "
        "are functions that code of code_interpreter calls by their names."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "words, such as: list orders of a customer"}},
        "required": ["query"],
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


class CodeTools:
    """The tools of one conversation's servers as functions of its code.

    What the client has been shown stays as it is for as long as the conversation lasts, so that a model's prompt keeps its prefix.
    Not thread-safe: it is used on the event loop, and by one thread at a time.
    """

    def __init__(self, config: GatewayConfig, functions: FunctionsConfig, session: Session, learned: Learned) -> None:
        """`learned` gives what tools have returned so far, by their names."""
        self._learned = learned
        self._budget = config.tools_tokens
        self._chosen = CodeFunctions(functions.tools, argument='"byref"."functions"."tools"')
        self._allowed = (
            None if functions.allow is None else CodeFunctions(functions.allow, argument='"byref"."functions"."allow"')
        )
        self._session = session
        self._prefixes = Names(servers=[server.name for server in config.servers])
        self._own: list[Json] | None = None
        """The definitions of byref's own tools, as the client was shown them."""
        self._listed: dict[str, Json] | None = None
        """The servers' tools that the client was shown, by name, if there is a budget."""
        self._tokens = 0
        self._is_short = False

    @property
    def searches(self) -> bool:
        """Whether the client has a tool by which it finds others."""
        return self._budget is not None

    def own_tools(self, offered: Sequence[Offered]) -> list[Json]:
        """Return the definitions of byref's own tools; code_interpreter's shows the functions that were there at first."""
        if self._own is None:
            shown = session_with(self._session, self._functions(offered, None)).tools("mcp")
            self._own = [self._annotated(own.definition(tool)) for tool in shown]
            self._own += [_SEARCH_TOOL] if self.searches else []
        return self._own

    def listed(self, offered: Sequence[Offered]) -> list[Json]:
        """Return the definitions of the servers' tools that the client is shown.

        Within the budget these are all. If they are more when the client first asks, it is shown a short list from then on: those
        first that code cannot call without asking, as far as they fit. No tool comes into a short list later or leaves it; a
        definition that its server changes is shown changed.
        """
        if self._budget is None:
            return [one.shown for one in offered]
        sizes = {_name(one): self._size(one.shown) for one in offered}
        if self._listed is None:
            self._is_short = sum(sizes.values()) > self._budget
            chosen: set[str] = set()
            for one in sorted(offered, key=self._is_free):
                if self._tokens + sizes[_name(one)] <= self._budget:
                    self._tokens += sizes[_name(one)]
                    chosen.add(_name(one))
            self._listed = {_name(one): one.shown for one in offered if _name(one) in chosen}
        for one in offered:
            name = _name(one)
            if name in self._listed:
                self._listed[name] = one.shown
            elif not self._is_short and self._tokens + sizes[name] <= self._budget:
                self._tokens += sizes[name]
                self._listed[name] = one.shown
            elif not self._is_short:
                self._is_short = True
        return list(self._listed.values())

    def found(self, query: object, offered: Sequence[Offered]) -> str:
        """Return the tools that a query finds, a line each, as the model reads them."""
        if not isinstance(query, str) or not query.strip():
            return f'{SEARCH}: expected words as "query"'
        tools = [{**one.definition, "name": _name(one)} for one in offered]
        functions = {tool.name: tool for tool in self._functions(offered, None)}
        lines: list[str] = []
        for at in search.found(query, tools, MAX_FOUND):
            function = functions.get(python_name(tools[at]["name"]))
            lines.append(f"{tools[at]['name']}: code cannot call it" if function is None else function.summary)
        if not lines:
            return f"No tool has any of these words; there are {len(offered):,} tools. Try others."
        return "Functions for code_interpreter (help(name) in code shows one whole):\n" + "\n".join(lines)

    def apart(self, one: Offered) -> Session:
        """Return the session for an output of a tool: its variables get no name that code reads as a function."""
        return self._chosen.apart(self._session, _name(one), self._long_name(one))

    def functions(self, offered: Sequence[Offered], asking: Asking) -> tuple[Function, ...]:
        """Return the functions for one call of code_interpreter."""
        return self._functions(offered, asking)

    def _functions(self, offered: Sequence[Offered], asking: Asking | None) -> tuple[Function, ...]:
        made = self._chosen.of([self._tool(one, asking) for one in offered])
        # Reversed, since of two alike the first is a function.
        names = {python_name(_name(one)): _name(one) for one in reversed(offered)}
        learned = self._learned(tuple(names[one.name] for one in made if one.returns is None))
        return tuple(replace(one, learned=learned.get(names[one.name])) for one in made)

    def _tool(self, one: Offered, asking: Asking | None) -> FrameworkTool:
        definition, asks = one.definition, not self._is_free(one)
        returns: Any = definition.get("outputSchema")
        is_wrapped = isinstance(returns, Mapping) and _is_wrapping(returns)
        if is_wrapped:
            returns = returns["properties"]["result"]
        about = "Asks the user first. " if asks else ""
        description = definition.get("description")

        async def call(arguments: Json) -> object:
            if asking is None:
                raise FunctionError("this function is not there now")
            return await asking.called(one, arguments, asks=asks)

        is_declared = isinstance(returns, Mapping)
        return FrameworkTool(
            _name(one),
            f"{labels.label(one.upstream.name)} {about}{visible(description if isinstance(description, str) else '')}",
            definition["inputSchema"],
            call,
            returns=returns if is_declared else None,
            also=(self._long_name(one),),
            read=partial(_data, is_declared=is_declared, is_wrapped=is_wrapped),
            options={"timeout": CALL_SECONDS, **({"concurrency": 1} if asks else {})},
        )

    def _is_free(self, one: Offered) -> bool:
        """Tell whether code may call a tool without asking the user."""
        if self._allowed is not None:
            return self._allowed.has(_name(one)) or self._allowed.has(self._long_name(one))
        annotations = one.definition.get("annotations")
        return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True

    def _long_name(self, one: Offered) -> str:
        return f"{self._prefixes.prefix(one.upstream.name)}{SEPARATOR}{one.original}"

    def _annotated(self, definition: Json) -> Json:
        if definition["name"] != CODE_INTERPRETER.name:
            return definition
        annotations = {**definition.get("annotations", {}), "openWorldHint": True}
        if self._allowed is not None:  # the host's own word, which may name tools that write
            annotations["readOnlyHint"] = False
            annotations.pop("destructiveHint", None)
        return {**definition, "annotations": annotations}

    def _size(self, shown: Json) -> int:
        return self._session._scope.count(json.dumps(shown), "json")


class Asking:
    """Makes the calls of one run of code, for one request of the client."""

    def __init__(self, call: Call, forward: Forward, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_over = False
        """Whether the run has ended: what it left under way may not ask the user any more."""
        self._call, self._forward = call, forward

    async def called(self, one: Offered, arguments: Json, *, asks: bool) -> Json:
        """Call a server's tool, after the user has agreed if the call `asks`."""
        if asks:
            await self._agreed(one, arguments)
        if self.is_over:
            raise FunctionError("the call is over")
        try:
            params = {"name": one.original, "arguments": arguments}
            raw = await self._forward(self._call, one.upstream, params, "tools/call")
        except Unavailable as error:
            raise FunctionError(str(error)) from None
        except MCPError as error:
            raise FunctionError(error.error.message) from None
        if is_question(raw):
            raise PermissionError("the server asks the user, which it cannot do while code runs: call the tool itself")
        return raw

    async def _agreed(self, one: Offered, arguments: Json) -> None:
        """Ask the user.

        Raises:
            PermissionError: the user did not agree, or the client cannot ask.
        """
        declared = self._call.able.get("elicitation")
        can_ask = isinstance(declared, dict) and ("form" in declared or "url" not in declared)
        if not can_ask or not self._call.can_ask or self.is_over:
            raise PermissionError(
                "code may call it only if the user agrees, and this client cannot ask: call the tool itself"
            )
        server = labels.label(one.upstream.name)
        written = json.dumps(arguments, ensure_ascii=False, indent=1)
        lines = [f"May code that the model wrote call {_name(one)} of {server} with this?"]
        lines += [f"> {line}" for line in labels.lines(written)]
        params = {"message": "\n".join(lines), "requestedSchema": {"type": "object", "properties": {}}}
        try:
            async with self._call.at(_OURS):
                answer = await self._call.ask(_OURS, "elicitation/create", params)
        except MCPError as error:
            raise PermissionError(f"the user could not be asked: {error.error.message}") from None
        if answer.get("action") != "accept":
            raise PermissionError("the user did not agree")


def _name(one: Offered) -> str:
    return str(one.shown["name"])


def _is_wrapping(schema: Mapping[str, Any]) -> bool:
    """Tell whether the SDK has put a result that is no object into one, under "result"."""
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and properties.keys() == {"result"}


def _data(raw: Any, *, is_declared: bool, is_wrapped: bool) -> object:
    """Return a server's result as code gets it: of a tool that declares its result, the structured content and never its text."""
    settle_error(raw)
    raw = readable("tools/call", raw, LATEST_MODERN_VERSION)  # of that protocol, structured content may be any value
    has_own = is_declared and raw.get("structuredContent") is not None and not raw.get("isError")
    value = raw["structuredContent"] if has_own else as_data(raw)
    return value["result"] if is_wrapped and isinstance(value, dict) and value.keys() == {"result"} else value
