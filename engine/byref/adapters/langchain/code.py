"""An agent's tools as functions that code of byref's interpreter may call: the calls go through the agent's tool node."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from byref.adapters.common.conversations import Conversations, Name, running
from byref.adapters.common.extras import missing
from byref.adapters.common.functions import CodeFunctions, FrameworkTool, FunctionError, shown_only
from byref.adapters.langchain.results import Call, Handled
from byref.calling.approvals import Decision
from byref.conversation.result import Pending
from byref.functions import Function

try:
    from langchain.agents.middleware import AgentState, HumanInTheLoopMiddleware
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import interrupt
except ImportError as error:
    raise missing("byref.adapters.langchain", "langchain", "langchain") from error

in_code: ContextVar[tuple[Function, ...]] = ContextVar("byref_langchain_functions", default=())
"""The functions of the call of code_interpreter that is being answered."""


class CodeTools:
    """Makes functions of an agent's tools. `approval` are patterns of the tools about which the agent asks somebody first."""

    def __init__(self, chosen: CodeFunctions, approval: CodeFunctions | None, conversations: Conversations) -> None:
        self._chosen, self._approval, self._conversations = chosen, approval, conversations

    def __bool__(self) -> bool:
        """Whether any tool may be chosen."""
        return bool(self._chosen)

    def shown(self, tools: Iterable[BaseTool]) -> tuple[Function, ...]:
        """Return the functions as the model is shown them; they are not for calling."""
        return self._chosen.of([self._of(tool, shown_only) for tool in tools])

    def of(
        self,
        tools: Iterable[BaseTool],
        request: ToolCallRequest,
        conversation: Name,
        handler: Callable[[ToolCallRequest], Handled],
    ) -> tuple[Function, ...]:
        """Return the functions for one call of code_interpreter, `request`; `handler` runs a call of a tool."""

        def made(tool: BaseTool) -> FrameworkTool:
            def call(arguments: dict[str, Any]) -> object:
                one = self._call(tool, request, conversation, arguments)
                try:
                    with running(conversation):
                        return _output(one, handler(one.ready))
                except GraphBubbleUp:
                    raise _interrupts(tool) from None

            return self._of(tool, call)

        return self._chosen.of(map(made, tools))

    def awaited(
        self,
        tools: Iterable[BaseTool],
        request: ToolCallRequest,
        conversation: Name,
        handler: Callable[[ToolCallRequest], Awaitable[Handled]],
    ) -> tuple[Function, ...]:
        """Do the same for a run on an event loop."""

        def made(tool: BaseTool) -> FrameworkTool:
            async def call(arguments: dict[str, Any]) -> object:
                one = self._call(tool, request, conversation, arguments)
                try:
                    with running(conversation):
                        return _output(one, await handler(one.ready))
                except GraphBubbleUp:
                    raise _interrupts(tool) from None

            return self._of(tool, call)

        return self._chosen.of(map(made, tools))

    def _of(self, tool: BaseTool, call: Callable[[dict[str, Any]], Any]) -> FrameworkTool:
        asks = _has_human_in_the_loop() if self._approval is None else self._approval.has(tool.name)
        return FrameworkTool(tool.name, tool.description, schema_of(tool) or {}, call, asks, _can_wait())

    def _call(self, tool: BaseTool, request: ToolCallRequest, conversation: Name, arguments: Mapping[str, Any]) -> Call:
        id_ = f"{request.tool_call['id']}-{secrets.token_hex(4)}"
        asked = replace(
            request,
            tool=tool,
            tool_call={"type": "tool_call", "name": tool.name, "args": dict(arguments), "id": id_},
            runtime=replace(request.runtime, tool_call_id=id_),
        )
        return Call(self._conversations, conversation, None, asked, dict(arguments))


def decided(tool: str, call_id: str, pending: Iterable[Pending], fault: str = "") -> dict[str, Decision]:
    """Interrupt the graph for calls in code that wait for approval; in a run that is resumed, return what was decided of them.

    The graph is resumed with decisions by the ids of calls. What is none is passed over, and asked for again: a node that is resumed
    runs from its beginning, and gets all earlier answers once more.
    """
    waiting = {one.id: one for one in pending}
    calls = [
        {"id": id_, "name": one.function, "args": one.arguments, "reason": one.reason} for id_, one in waiting.items()
    ]
    given = interrupt({"tool": tool, "call_id": call_id, "calls": calls, **({"fault": fault} if fault else {})})
    answers = given if isinstance(given, Mapping) else {}
    return {id_: answers[id_] for id_ in waiting if isinstance(answers.get(id_), bool | Mapping)}


def schema_of(tool: BaseTool | None) -> dict[str, Any] | None:
    """Return the JSON Schema of a tool's arguments; None for a tool that another middleware adds during the run."""
    if tool is None:
        return None
    kind: Any = tool.tool_call_schema  # a JSON Schema, or a class of pydantic 1 or 2
    if isinstance(kind, dict):
        return kind
    schema: dict[str, Any] = (kind.model_json_schema if hasattr(kind, "model_json_schema") else kind.schema)()
    return schema


def _output(call: Call, output: Handled) -> object:
    if not isinstance(output, ToolMessage):
        raise FunctionError("it changes the agent's state, which a call from code cannot: call the tool itself")
    if output.status == "error":
        raise FunctionError(output.text)
    return call.value_of(output)


def _interrupts(tool: BaseTool) -> PermissionError:
    return PermissionError(f"the tool {tool.name!r} asks its user, which it cannot do from code: call the tool itself")


def _can_wait() -> bool:
    """Tell whether the running graph can be interrupted: it has somewhere to keep its state."""
    return get_config().get("configurable", {}).get("__pregel_checkpointer") is not None


def _has_human_in_the_loop() -> bool:
    """Tell whether the running agent has a HumanInTheLoopMiddleware, or cannot be looked at.

    Of which tools it asks is known to it alone. LangGraph has no public way to it: the graph's channels, some of which belong to
    that middleware, are an argument of the function by which nodes read them. Where it has none of its own, it may be there.
    """
    own = HumanInTheLoopMiddleware.state_schema.__annotations__.keys() - AgentState.__annotations__.keys()
    arguments = getattr(get_config().get("configurable", {}).get("__pregel_read"), "args", ())
    channels = [one for one in arguments if isinstance(one, Mapping)]
    return not own or not channels or any(own & one.keys() for one in channels)
