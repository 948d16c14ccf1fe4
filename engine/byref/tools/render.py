"""Tools as each provider's API takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from byref.errors import ConfigurationError
from byref.result import FORMATS, Format
from byref.tools.record import Tool


def render(tools: Iterable[Tool], format: Format) -> list[dict[str, Any]]:
    """Return tool definitions: for Gemini one entry that holds all, else one each."""
    match format:
        case "openai":
            return [{"type": "function", "function": _function(tool, "parameters")} for tool in tools]
        case "openai-responses":
            return [{"type": "function", **_function(tool, "parameters")} for tool in tools]
        case "anthropic":
            return [_function(tool, "input_schema") for tool in tools]
        case "mcp":
            return [_function(tool, "inputSchema") for tool in tools]
        case "gemini":
            return [{"function_declarations": [_function(tool, "parameters_json_schema") for tool in tools]}]
        case _:
            raise ConfigurationError(f"format={format!r}: expected one of {list(FORMATS)}")


def _function(tool: Tool, schema_key: str) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, schema_key: tool.schema}
