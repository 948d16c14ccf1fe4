"""The text of a model's answer, in a response of any provider's SDK, as an object or as JSON."""

from __future__ import annotations

from inspect import isroutine

from byref.usage.objects import MISSING, getter, readable

_PLACES = ("output_text", "choices", "candidates", "output", "message", "content", "parts", "text")
"""Fields that lead to the text, in this order: OpenAI's Responses SDK; OpenAI Chat; Gemini; Responses, Bedrock and Pydantic AI;
Chat, Bedrock and Ollama; Anthropic and LangChain."""
_ALTERNATIVES = ("choices", "candidates")
"""Lists of several answers to one question, of which the first is taken."""
_NO_ANSWER = ("reasoning", "thinking", "redacted_thinking", "tool_use", "function_call")
_MAX_DEPTH = 8
_MAX_PARTS = 10_000


@readable
def text_of(response: object) -> str | None:
    """Return the text of a response; None if there is none. A model's reasoning is no part of it.

    Raises:
        ConfigurationError: the object cannot be read.
    """
    return _text(response, _MAX_DEPTH)


def _text(value: object, depth: int) -> str | None:
    if isinstance(value, str):
        return str.__str__(value)
    if depth == 0 or value is None or isroutine(value) or isinstance(value, type | int | float | bytes | bytearray):
        return None
    if isinstance(value, list | tuple):
        parts = [text for part in value[:_MAX_PARTS] if (text := _text(part, depth - 1)) is not None]
        return "".join(parts) if parts else None
    get = getter(value)
    if get("type") in _NO_ANSWER or get("thought") is True:
        return None
    for name in _PLACES:
        found = get(name)
        if found is MISSING or found is None:
            continue
        if name in _ALTERNATIVES and isinstance(found, list | tuple):
            found = found[0] if found else None
        if (text := _text(found, depth - 1)) is not None:
            return text
    return None
