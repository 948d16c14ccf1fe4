"""Calls of tools in Strands' agents: byref's own tools, schemas for resolving references, and functions' return values."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar, cast

from byref.adapters.common.conversations import Name, running
from byref.adapters.common.extras import missing
from byref.adapters.common.functions import FrameworkTool, FunctionError, asks_first
from byref.calling.threads import run_program
from byref.conversation.result import ToolReply

try:
    from pydantic import BaseModel
    from strands import Agent
    from strands.middleware import ToolResultEvent
    from strands.tools.decorator import DecoratedFunctionTool
    from strands.types.tools import AgentTool, ToolGenerator, ToolResult, ToolResultStatus, ToolSpec, ToolUse
except ImportError as error:
    raise missing("byref.adapters.strands", "strands-agents", "strands") from error

from byref.adapters.strands.content import Made, content_of, output_of

_T = TypeVar("_T")


class ByrefTool(AgentTool):
    """One of byref's tools, which works in the conversation of the agent that calls it."""

    def __init__(self, answer: Callable[[Agent, ToolUse], ToolReply], spec: Mapping[str, Any]) -> None:
        super().__init__()
        self._answer = answer
        schema = {"json": spec["inputSchema"]}
        self._spec = ToolSpec(name=spec["name"], description=spec["description"], inputSchema=schema)

    @property
    def tool_name(self) -> str:
        """The tool's name."""
        return self._spec["name"]

    @property
    def tool_spec(self) -> ToolSpec:
        """The tool's definition."""
        return self._spec

    @property
    def tool_type(self) -> str:
        """The kind of tool, in Strands' terms."""
        return "byref"

    async def stream(self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any) -> ToolGenerator:
        """Answer a call; a mistake of the model becomes an error result."""
        reply = await run_program(partial(self._answer, invocation_state["agent"], tool_use))
        status: ToolResultStatus = "error" if reply.is_error else "success"
        yield ToolResultEvent({"toolUseId": tool_use["toolUseId"], "status": status, "content": content_of(reply)})


def in_code(agent: Agent, tool: AgentTool) -> FrameworkTool:
    """Return an agent's tool as code may be given it: each call is a direct one, which no message records."""
    spec = tool.tool_spec

    def call(arguments: dict[str, Any]) -> object:
        try:
            result = getattr(agent.tool, tool.tool_name)(record_direct_tool_call=False, **arguments)
        except RuntimeError as error:
            if "interrupt" in str(error):
                raise asks_first(tool.tool_name) from None
            raise
        if result["status"] == "error":
            raise FunctionError("\n".join(str(block["text"]) for block in result["content"] if "text" in block))
        return output_of(result)

    return FrameworkTool(tool.tool_name, spec["description"], spec["inputSchema"]["json"], call)


def is_direct(invocation_state: Mapping[str, Any]) -> bool:
    """Tell whether a program called the tool, by `agent.tool.…()`: it passes data and gets data."""
    return "agent" in invocation_state and "event_loop_cycle_id" not in invocation_state


def schema_for(given: Mapping[str, Any], tool: AgentTool | None) -> dict[str, Any]:
    """Return the schema of a tool's input without requiring arguments that are given as null.

    Strands removes null from the schemas of optional parameters, but accepts it.
    """
    schema = {} if tool is None else tool.tool_spec.get("inputSchema", {}).get("json", {})
    return {**schema, "required": [key for key in schema.get("required", []) if given.get(key, "") is not None]}


def noting(tool: AgentTool | None) -> AgentTool | None:
    """Return a tool whose results keep the function's return value: Strands writes `str` of values without a JSON form."""
    if not isinstance(tool, DecoratedFunctionTool) or not hasattr(tool, "_wrap_tool_result"):
        return tool
    written, noted = tool._wrap_tool_result, copy.copy(tool)

    def wrap(tool_use_d: str, result: Any, exception: Exception | None = None) -> ToolResultEvent:
        event = written(tool_use_d, result, exception)
        is_made = isinstance(result, dict) and "status" in result and "content" in result
        if is_made or isinstance(result, str | BaseModel | Iterator) or hasattr(result, "read"):
            return event
        return ToolResultEvent(cast(ToolResult, Made(event.tool_result, result)), exception=event.exception)

    noted._wrap_tool_result = wrap  # type: ignore[method-assign]
    return noted


async def calling(name: Name, events: AsyncGenerator[_T, None]) -> AsyncGenerator[_T, None]:
    """Yield the events of a conversation's tool, which is marked as running only while it works.

    The code that consumes the events is not part of the tool.
    """
    while True:
        with running(name):
            try:
                event = await anext(events)
            except StopAsyncIteration:
                return
        yield event
