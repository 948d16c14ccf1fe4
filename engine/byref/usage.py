"""Token usage as providers report it, in one form: input and output inclusive, unknown is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from byref.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request to a model.

    `input_tokens` includes cached ones, `output_tokens` includes reasoning; None is unknown, not zero.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    model: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """As the provider gave it."""

    @property
    def context_tokens(self) -> int | None:
        """What the next request carries at least: this one's input and output; None where the input is unknown."""
        return None if self.input_tokens is None else self.input_tokens + (self.output_tokens or 0)


def normalise(usage: object) -> Usage:
    """Return usage of OpenAI (Chat, Responses), Anthropic, Gemini, a mapping of theirs, or our own `Usage`.

    A whole response that carries its usage is taken too. Anything else is a ConfigurationError.
    """
    if isinstance(usage, Usage):
        _check(usage)
        return usage
    fields = _mapping(usage)
    for key in ("usage", "usage_metadata", "usageMetadata"):
        if isinstance(inner := fields.get(key), Mapping) or hasattr(inner, "__dict__"):
            found = normalise(inner)
            model = fields.get("model", fields.get("model_version"))
            return Usage(
                found.input_tokens,
                found.output_tokens,
                found.cache_read_tokens,
                found.cache_write_tokens,
                found.model or (model if isinstance(model, str) else None),
                found.raw,
            )
    if any(key in fields for key in ("prompt_token_count", "promptTokenCount", "totalTokenCount", "total_token_count")):
        found = _gemini(fields)
    elif "prompt_tokens" in fields or "completion_tokens" in fields:
        found = _openai(fields, "prompt_tokens", "completion_tokens", "prompt_tokens_details")
    elif "cache_read_input_tokens" in fields or "cache_creation_input_tokens" in fields:
        found = _anthropic(fields)
    elif "input_tokens" in fields or "output_tokens" in fields:
        found = _openai(fields, "input_tokens", "output_tokens", "input_tokens_details")
    else:
        raise ConfigurationError(
            f"usage {type(usage).__name__!r} has no token counts that byref knows; expected OpenAI's, Anthropic's or "
            "Gemini's usage, or byref.Usage(input_tokens=…, output_tokens=…)"
        )
    _check(found)
    return found


def _openai(fields: Mapping[str, Any], given: str, made: str, details: str) -> Usage:
    detail = _mapping(fields.get(details))
    own = fields.get("cache_read_tokens"), fields.get("cache_write_tokens")
    cached = detail.get("cached_tokens")
    return Usage(
        fields.get(given),
        fields.get(made),
        own[0] if cached is None else cached,
        own[1],
        raw=_plain(fields),
    )


def _anthropic(fields: Mapping[str, Any]) -> Usage:
    """Anthropic counts cached input apart: all of it is input."""
    fresh, read, written = (
        fields.get(key) for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    known = [count for count in (fresh, read, written) if count is not None]
    return Usage(
        sum(known) if is_count(fresh) and all(map(is_count, known)) else fresh,
        fields.get("output_tokens"),
        read,
        written,
        raw=_plain(fields),
    )


def _gemini(fields: Mapping[str, Any]) -> Usage:
    """Gemini counts thoughts and the prompts of its own tools apart."""

    def get(snake: str) -> Any:
        first, *rest = snake.split("_")
        return fields.get(snake, fields.get(first + "".join(map(str.capitalize, rest))))

    return Usage(
        _sum(get("prompt_token_count"), get("tool_use_prompt_token_count")),
        _sum(get("candidates_token_count"), get("thoughts_token_count")),
        get("cached_content_token_count"),
        raw=_plain(fields),
    )


def _sum(*counts: Any) -> Any:
    """The sum of what is known; what is no count is handed on, for the check to name it."""
    known = [count for count in counts if count is not None]
    for count in known:
        if not is_count(count):
            return count
    return sum(known) if known else None


def _mapping(value: object) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    for name in ("model_dump", "to_dict"):
        if callable(method := getattr(value, name, None)):
            dumped = method()
            return dumped if isinstance(dumped, Mapping) else {}
    return vars(value) if hasattr(value, "__dict__") else {}


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in fields.items()}


MAX_TOKENS = 10**15
"""More in one request is a mistake, and sums of it would not fit a database's integers."""


def is_count(value: object) -> bool:
    """Tell whether a value is a number of tokens."""
    return type(value) is int and 0 <= value <= MAX_TOKENS


def _check(usage: Usage) -> None:
    for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"):
        value = getattr(usage, name)
        if value is not None and not is_count(value):
            raise ConfigurationError(
                f"usage: {name}={value!r}: expected a number of tokens, or None where it is unknown"
            )
