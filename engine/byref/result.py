"""What a session answers with, and how it becomes a message of each provider."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from byref.artifacts.store import Artifact
from byref.errors import ConfigurationError
from byref.variables import Variable

Format = Literal["openai", "openai-responses", "anthropic", "gemini", "mcp"]
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
FORMATS: tuple[Format, ...] = ("openai", "openai-responses", "anthropic", "gemini", "mcp")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one tool output."""

    content: str
    """What the model reads."""
    route: str
    """inline, variables, artifact, truncate, wholesale or placeholder"""
    reason: str
    """Which rule decided: see `byref.gates.Reason`."""
    step: int | None
    """Its place in the ledger; None where the database was away."""
    envelope: dict[str, Any] | None
    """What `content` is the JSON text of, on the routes variables and artifact."""
    artifacts: list[Artifact]
    variables: list[Variable]
    tokens: int
    original_tokens: int
    is_error: bool = False
    instructions: str | None = None
    """For a system message, where the tool may instruct the model."""
    tool: str = field(default="", repr=False)

    @property
    def tokens_saved(self) -> int:
        """Tokens that the model does not have to read."""
        return max(0, self.original_tokens - self.tokens)

    def message(self, format: Format, call_id: str) -> dict[str, Any]:
        """Return the tool result as the provider's API takes it."""
        return message(format, self.content, call_id, is_error=self.is_error, tool=self.tool)


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What one of the session's own tools answered."""

    content: str
    is_error: bool
    step: int | None = None
    tokens: int = 0
    tool: str = field(default="", repr=False)

    @property
    def instructions(self) -> None:
        """A reply carries none; so that hosts may treat results and replies alike."""

    def message(self, format: Format, call_id: str) -> dict[str, Any]:
        """Return the reply as the provider's API takes it."""
        return message(format, self.content, call_id, is_error=self.is_error, tool=self.tool)


def message(format: Format, content: str, call_id: str, *, is_error: bool, tool: str) -> dict[str, Any]:
    """Return a tool result as a provider's API takes it; lone surrogates, which no API takes, as U+FFFD."""
    content = _LONE_SURROGATE.sub("\ufffd", content)
    match format:
        case "openai":
            return {"role": "tool", "tool_call_id": call_id, "content": content}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": call_id, "output": content}
        case "anthropic":
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": content}
            return {"role": "user", "content": [block | {"is_error": True} if is_error else block]}
        case "gemini":
            response = {"error": content} if is_error else {"output": content}
            part = {"function_response": {"id": call_id, "name": tool, "response": response}}
            return {"role": "user", "parts": [part]}
        case "mcp":
            return {"content": [{"type": "text", "text": content}], "isError": is_error}
        case _:
            raise ConfigurationError(f"format={format!r}: expected one of {list(FORMATS)}")
