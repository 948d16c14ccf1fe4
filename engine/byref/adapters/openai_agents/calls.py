"""Calls of tools in the OpenAI Agents SDK: their definitions for the model, approval, and results before the SDK cuts them."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from byref.adapters.common.extras import missing
from byref.adapters.common.schemas import strict_with_references
from byref.adapters.mcp.schemas import SENTENCE, sound, with_references
from byref_sandbox import jsontext

try:
    from agents import FunctionTool, RunContextWrapper
    from agents.mcp import MCPServer
except ImportError as error:
    raise missing("byref.adapters.openai_agents", "openai-agents", "openai-agents") from error

_MARK: Final = "_byref"
"""Attribute that marks a server's `call_tool` that already records results."""
_overheard_by: ContextVar[list[object] | None] = ContextVar("byref_openai_agents_overheard", default=None)
"""The list for the server's own result of the current call."""


@contextmanager
def overhearing(overheard: list[object] | None) -> Iterator[list[object] | None]:
    """Record the server's result in the list while this lasts; None: record nothing."""
    token = _overheard_by.set(overheard)
    try:
        yield overheard
    finally:
        _overheard_by.reset(token)


def overhear(server: MCPServer) -> None:
    """Record a server's results as it returns them: the SDK passes on only a part of them."""
    call: Any = server.call_tool
    if getattr(call, _MARK, False):
        return

    @functools.wraps(call)
    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        result = await call(*args, **kwargs)
        overheard = _overheard_by.get()
        if overheard is not None:
            overheard[:] = [result]
        return result

    setattr(call_tool, _MARK, True)
    server.call_tool = call_tool  # type: ignore[method-assign]


def offered(tool: FunctionTool) -> tuple[dict[str, Any], str]:
    """Return a tool's schema and description as the model sees them: any argument may be a reference."""
    shown = {"description": tool.description, "inputSchema": tool.params_json_schema}
    if not tool.strict_json_schema:
        given: dict[str, Any] = with_references(sound(shown))
        return given["inputSchema"], given["description"]
    schema = strict_with_references(tool.params_json_schema)
    if schema == tool.params_json_schema:
        return schema, tool.description
    return schema, f"{tool.description}\n\n{SENTENCE}" if tool.description else SENTENCE


async def asks(tool: FunctionTool, context: RunContextWrapper[Any], arguments: str, call_id: str) -> bool:
    """Tell whether a call needs approval, by the SDK's own rule: always, if validation would change the arguments, as the tool's
    policy cannot judge them then.
    """
    policy: Any = tool.needs_approval
    if not callable(policy):
        return bool(policy)
    prepare = getattr(tool.on_invoke_tool, "prepare_arguments", None)
    prepared = None if prepare is None else prepare(arguments, tool.name)
    if prepared is not None and not prepared.unchanged:
        return True
    asked = policy(context, jsontext.loads(arguments), call_id)
    return bool(await asked if inspect.isawaitable(asked) else asked)


def schema_of(tool: FunctionTool) -> dict[str, Any]:
    """Return the schema for resolving references: strict schemas require even arguments with a default; the SDK does not."""
    strict = tool.strict_json_schema
    return {key: value for key, value in tool.params_json_schema.items() if not (strict and key == "required")}


def parsed(arguments: str) -> dict[str, Any] | str:
    """Return a call's arguments as the SDK gives them to `needs_approval`; as they are written if they are no object."""
    try:
        read = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return read if isinstance(read, dict) else arguments
