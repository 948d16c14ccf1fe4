"""Tool definitions in the form of each provider's API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from byref.conversation.result import FORMATS, Format
from byref.errors import ConfigurationError
from byref.tools.record import Tool


def render(tools: Iterable[Tool], format: Format, modules: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return tool definitions, with what code may import beyond the usual `modules`: for Gemini one entry that contains all tools, for the others one entry each.

    No definition uses OpenAI's strict mode, because strict mode makes the model write every optional argument in every call.
    The Responses API is strict by default, so strictness is switched off there.
    """
    tools = [tool.with_modules(modules) for tool in tools]
    match format:
        case "openai":
            return [{"type": "function", "function": _function(tool, "parameters")} for tool in tools]
        case "openai-responses":
            return [{"type": "function", **_function(tool, "parameters"), "strict": False} for tool in tools]
        case "anthropic":
            return [_function(tool, "input_schema") for tool in tools]
        case "mcp":
            return [_function(tool, "inputSchema") for tool in tools]
        case "gemini":
            return [{"function_declarations": [_typed(_function(tool, _GEMINI_KEY)) for tool in tools]}]
        case _:
            raise ConfigurationError(f"format={format!r}: expected one of {list(FORMATS)}")


_GEMINI_KEY = "parameters_json_schema"


def _function(tool: Tool, schema_key: str) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, schema_key: tool.schema}


def _typed(function: dict[str, Any]) -> dict[str, Any]:
    """Give every argument a type, which Gemini requires. An argument of any type becomes a string, in which the model writes
    JSON.
    """
    for argument in function[_GEMINI_KEY]["properties"].values():
        argument.setdefault("type", "string")
    return function
