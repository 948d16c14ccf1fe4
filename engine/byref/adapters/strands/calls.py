"""Calls of tools in Strands' agents: byref's own tools, references in what the model wrote, and what a function returned."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from byref.adapters.common.extras import missing
from byref.conversation.result import ToolReply
from byref.errors import ConfigurationError
from byref.session import Session

try:
    from pydantic import BaseModel
    from strands import Agent
    from strands.middleware import ToolResultEvent
    from strands.tools.decorator import DecoratedFunctionTool
    from strands.types.tools import AgentTool, ToolGenerator, ToolResult, ToolResultStatus, ToolSpec, ToolUse
except ImportError as error:
    raise missing("byref.adapters.strands", "strands-agents", "strands") from error

from byref.adapters.strands.content import Made, content_of

_T = TypeVar("_T")

_callers: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("byref_strands_callers", default=())
"""Tenants and ids of the conversations of which a tool is running: an agent that this tool runs is none of them."""


class ByrefTool(AgentTool):
    """One of byref's tools, for the agent that calls it."""

    def __init__(self, open_session: Callable[[Agent], Session], spec: Mapping[str, Any]) -> None:
        super().__init__()
        self._open = open_session
        schema = {"json": spec["inputSchema"]}
        self._spec = ToolSpec(name=spec["name"], description=spec["description"], inputSchema=schema)

    @property
    def tool_name(self) -> str:
        """Its name."""
        return self._spec["name"]

    @property
    def tool_spec(self) -> ToolSpec:
        """Its definition."""
        return self._spec

    @property
    def tool_type(self) -> str:
        """Whose it is."""
        return "byref"

    async def stream(self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any) -> ToolGenerator:
        """Answer a call; a mistake of the model's is an error result."""
        agent, call_id = invocation_state["agent"], tool_use["toolUseId"]
        arguments = tool_use["input"]

        def called() -> ToolReply:
            return self._open(agent).call(self.tool_name, arguments, call_id=call_id)

        reply = await asyncio.to_thread(called)
        status: ToolResultStatus = "error" if reply.is_error else "success"
        yield ToolResultEvent({"toolUseId": call_id, "status": status, "content": content_of(reply)})


def is_direct(invocation_state: Mapping[str, Any]) -> bool:
    """Whether a program called the tool, by `agent.tool.…()`: it gives data, and gets data."""
    return "agent" in invocation_state and "event_loop_cycle_id" not in invocation_state


def may_refer(arguments: object) -> bool:
    """Whether references may be among the arguments: most have none, and go to their tool untouched."""
    if not isinstance(arguments, Mapping):
        return False
    written = json.dumps(arguments, default=str)
    return any(mark in written for mark in ("$", "art_", "art:"))


def resolved(session: Session, use: ToolUse, tool: AgentTool | None) -> dict[str, Any]:
    """Return a tool's input with data in place of references.

    Raises:
        ToolError: a reference does not hold, or its data does not fit.
    """
    given, name, call_id = use["input"], use["name"], use["toolUseId"]
    schema = {} if tool is None else tool.tool_spec.get("inputSchema", {}).get("json", {})
    # Strands takes null out of the schemas of optional parameters, and lets it pass all the same.
    stated = {key: value for key, value in given.items() if value is not None}
    required = [key for key in schema.get("required", []) if key in stated or key not in given]
    try:
        data = session.resolve(stated, {**schema, "required": required}, tool=name, call_id=call_id)
    except ConfigurationError:  # no schema that is one: the tool's own affair
        data = session.resolve(stated, tool=name, call_id=call_id)
    return {key: data.get(key) for key in [*given, *data]}


def noting(tool: AgentTool | None) -> AgentTool | None:
    """Return a tool whose result knows what its function returned: of what has no JSON form Strands writes `str`."""
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


async def calling(tenant: str, session: str, events: AsyncGenerator[_T, None]) -> AsyncGenerator[_T, None]:
    """Yield what a tool of a conversation does; agents that it runs can tell.

    Only while it works: who listens to the events is not within the tool.
    """
    while True:
        before = _callers.get()
        _callers.set((*before, (tenant, session)))
        try:
            event = await anext(events)
        except StopAsyncIteration:
            return
        finally:
            _callers.set(before)
        yield event


def is_side_call(session: Session) -> bool:
    """Tell whether a tool of this conversation is running: what a model is asked meanwhile is not the conversation."""
    return (session.tenant, session.id) in _callers.get()
