"""The results and replies of a session, and their messages in each provider's format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.content import rendering
from byref.describe.jsontext import without_surrogates
from byref.errors import ConfigurationError
from byref.policy.routes import Route

Format = Literal["openai", "openai-responses", "anthropic", "gemini", "mcp"]
FORMATS: tuple[Format, ...] = ("openai", "openai-responses", "anthropic", "gemini", "mcp")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of processing one tool output."""

    content: str | list[Any]
    """The content for the model: text, or content blocks if the tool returned some and they did not all become one text."""
    route: Route
    """inline, variables, artifact, truncate, wholesale or placeholder: a str"""
    reason: str
    """The rule that decided: see `byref.policy.gates.Reason`."""
    step: int | None
    """The number of its step in the ledger; None if the database was away."""
    envelope: dict[str, Any] | None
    """On the routes variables and artifact: the object whose JSON text is `content`, or the largest block of `content`."""
    artifacts: list[Artifact]
    variables: list[Variable]
    tokens: int
    original_tokens: int
    is_error: bool = False
    instructions: str | None = None
    """Text for a system message, if the tool may instruct the model: see `Policy.trusted_instructions`."""
    tool: str = field(default="", repr=False)
    replayed: bool = field(default=False, repr=False, compare=False)
    """Whether it is the result of the same output, which was given before under the same call id."""

    @property
    def tokens_saved(self) -> int:
        """Tokens that the model does not have to read."""
        return max(0, self.original_tokens - self.tokens)

    @property
    def text(self) -> str:
        """`content` as one text, with placeholders for images and documents."""
        return rendering.as_text(self.content)

    def message(self, format: Format, call_id: str | None) -> Any:
        """Return the tool result in the form of the provider's API: a dict. Gemini's calls may have no id, nor those of MCP."""
        return message(format, self.content, call_id, is_error=self.is_error, tool=self.tool)


@dataclass(frozen=True, slots=True)
class Pending:
    """A call of a function, made by code, that waits for somebody's approval: see `Session.resume`."""

    id: str
    function: str
    arguments: Mapping[str, Any] | str
    """By the names of the parameters; the beginning of their JSON if they are very long."""
    reason: str


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A run of code that waits for approvals: `Session.resume(call_id, {…})` of its session goes on with it."""

    tenant: str
    session: str
    call_id: str
    calls: tuple[Pending, ...]
    """What waits, oldest first."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The answer of one of the session's own tools."""

    content: str | list[Any]
    """Text, or content blocks if an image or a document was asked for."""
    is_error: bool
    step: int | None = None
    tokens: int = 0
    tool: str = field(default="", repr=False)
    pending: tuple[Pending, ...] = ()
    """Calls that wait for somebody's approval. Until they are decided, the code has no result, and the reply no step."""

    @property
    def instructions(self) -> None:
        """Always None; it exists so that hosts can treat results and replies alike."""

    @property
    def text(self) -> str:
        """`content` as one text, with placeholders for images and documents."""
        return rendering.as_text(self.content)

    def message(self, format: Format, call_id: str | None) -> Any:
        """As `Result.message`."""
        return message(format, self.content, call_id, is_error=self.is_error, tool=self.tool)


def message(
    format: Format, content: str | list[Any], call_id: str | None, *, is_error: bool, tool: str
) -> dict[str, Any]:
    """Return a tool result in the form of a provider's API, with lone surrogates, which no API accepts, as U+FFFD."""
    if format not in FORMATS:
        raise ConfigurationError(f"format={format!r}: expected one of {list(FORMATS)}")
    if call_id is None and format not in ("gemini", "mcp"):
        raise ConfigurationError(f"call_id=None: expected the id of the call, which the message {format!r} names")
    body, call_id, tool = sendable(rendering.render(content, format)), sendable(call_id), sendable(tool)
    match format:
        case "openai":
            return {"role": "tool", "tool_call_id": call_id, "content": body}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": call_id, "output": body}
        case "anthropic":
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": body}
            return {"role": "user", "content": [block | {"is_error": True} if is_error else block]}
        case "gemini":
            text, parts = body
            response: dict[str, Any] = {
                **({"id": call_id} if call_id else {}),
                "name": tool,
                "response": {"error" if is_error else "output": text},
            }
            return {"role": "user", "parts": [{"function_response": response | ({"parts": parts} if parts else {})}]}
        case "mcp":
            return {"content": body, "isError": is_error}


def sendable(value: Any) -> Any:
    """Return a value with U+FFFD for lone surrogates in its texts and keys, because no API accepts them."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {sendable(key): sendable(member) for key, member in value.items()}
    return [sendable(item) for item in value] if isinstance(value, list | tuple) else value
