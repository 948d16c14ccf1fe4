"""Tool definitions in the form of each provider's API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from byref.conversation.result import FORMATS, Format
from byref.errors import ConfigurationError
from byref.functions import Function
from byref.policy import Policy
from byref.tools.record import Tool


def render(
    tools: Iterable[Tool],
    format: Format,
    policy: Policy,
    modules: Sequence[str] = (),
    functions: Sequence[Function] = (),
) -> list[dict[str, Any]]:
    """Return the tool definitions of a session with that policy, whose code may also import `modules` and call `functions`.

    For Gemini they are one entry that contains all tools, for the others one entry each.

    No definition uses OpenAI's strict mode, because strict mode makes the model write every optional argument in every call.
    The Responses API is strict by default, so strictness is switched off there.
    """

    def function(tool: Tool, schema_key: str) -> dict[str, Any]:
        return {"name": tool.name, "description": tool.described(policy, modules, functions), schema_key: tool.schema}

    match format:
        case "openai":
            return [{"type": "function", "function": function(tool, "parameters")} for tool in tools]
        case "openai-responses":
            return [{"type": "function", **function(tool, "parameters"), "strict": False} for tool in tools]
        case "anthropic":
            return [function(tool, "input_schema") for tool in tools]
        case "mcp":
            return [function(tool, "inputSchema") for tool in tools]
        case "gemini":
            return [{"function_declarations": [_typed(function(tool, _GEMINI_KEY)) for tool in tools]}]
        case _:
            raise ConfigurationError(f"format={format!r}: expected one of {list(FORMATS)}")


_GEMINI_KEY = "parameters_json_schema"


def _typed(function: dict[str, Any]) -> dict[str, Any]:
    """Give every argument a type, which Gemini requires. An argument of any type becomes a string, in which the model writes
    JSON.
    """
    for argument in function[_GEMINI_KEY]["properties"].values():
        argument.setdefault("type", "string")
    return function
