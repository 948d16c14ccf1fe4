"""Usage as each provider reports it, in one form: inclusive, and None where nothing was said."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from byref import ConfigurationError, Usage
from byref.usage import MAX_TOKENS, normalise

OPENAI_CHAT = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 30},
}
OPENAI_RESPONSES = {
    "input_tokens": 100,
    "output_tokens": 20,
    "input_tokens_details": {"cached_tokens": 30},
    "output_tokens_details": {"reasoning_tokens": 5},
}
ANTHROPIC = {"input_tokens": 60, "output_tokens": 20, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10}
GEMINI = {
    "prompt_token_count": 90,
    "tool_use_prompt_token_count": 10,
    "candidates_token_count": 15,
    "thoughts_token_count": 5,
    "cached_content_token_count": 30,
}
GEMINI_REST = {
    "promptTokenCount": 90,
    "toolUsePromptTokenCount": 10,
    "candidatesTokenCount": 15,
    "thoughtsTokenCount": 5,
    "cachedContentTokenCount": 30,
}

FORMS: dict[str, tuple[dict[str, Any], tuple[int | None, ...]]] = {
    "OpenAI Chat": (OPENAI_CHAT, (100, 20, 30, None)),
    "OpenAI Responses": (OPENAI_RESPONSES, (100, 20, 30, None)),
    "Anthropic": (ANTHROPIC, (100, 20, 30, 10)),
    "Gemini": (GEMINI, (100, 20, 30, None)),
    "Gemini REST": (GEMINI_REST, (100, 20, 30, None)),
    "Chat without details": ({"prompt_tokens": 7, "completion_tokens": 3}, (7, 3, None, None)),
    "details are None": ({"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": None}, (7, 3, None, None)),
    "embeddings": ({"prompt_tokens": 7, "total_tokens": 7}, (7, None, None, None)),
    "Anthropic, no cache used": ({"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": None}, (7, 3, 0, None)),
    "Gemini before its first candidate": ({"prompt_token_count": 7, "candidates_token_count": None}, (7, None, None, None)),
    "our own names": ({"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 2, "cache_write_tokens": 1}, (7, 3, 2, 1)),
    "zero": ({"input_tokens": 0, "output_tokens": 0}, (0, 0, None, None)),
}  # fmt: skip


def numbers(usage: Usage) -> tuple[int | None, ...]:
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def attributes(value: Any) -> Any:
    """As an SDK gives it: objects with attributes."""
    return SimpleNamespace(**{k: attributes(v) for k, v in value.items()}) if isinstance(value, dict) else value


class Dumping:
    """As pydantic SDKs give it."""

    def __init__(self, value: dict[str, Any]) -> None:
        self._value = value

    def model_dump(self) -> dict[str, Any]:
        return self._value


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("form", [dict, attributes, Dumping])
def test_each_provider(name: str, form: Any) -> None:
    given, expected = FORMS[name]
    assert numbers(normalise(form(given))) == expected


@pytest.mark.parametrize("form", [dict, attributes, Dumping])
@pytest.mark.parametrize("key", ["usage", "usage_metadata", "usageMetadata"])
def test_a_whole_response_is_taken(form: Any, key: str) -> None:
    found = normalise(form({"id": "r", "model": "gpt-4o", key: OPENAI_CHAT}))
    assert (numbers(found), found.model) == ((100, 20, 30, None), "gpt-4o")


def test_what_the_provider_gave_is_kept() -> None:
    assert normalise(OPENAI_RESPONSES).raw == OPENAI_RESPONSES
    assert normalise({"usage": ANTHROPIC}).raw == ANTHROPIC


def test_context_is_input_and_output() -> None:
    assert normalise(ANTHROPIC).context_tokens == 120
    assert Usage(input_tokens=5).context_tokens == 5
    assert Usage(output_tokens=5).context_tokens is None


@pytest.mark.parametrize("given", [None, 5, "x", [], {}, {"tokens": 5}, object(), {"usage": {}}])
def test_what_has_no_counts_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="no token counts that byref knows"):
        normalise(given)


@pytest.mark.parametrize("count", [-1, 1.5, "7", True, MAX_TOKENS + 1, 10**30, float("nan")])
@pytest.mark.parametrize("key", ["prompt_tokens", "completion_tokens"])
def test_counts_are_counts(key: str, count: object) -> None:
    with pytest.raises(ConfigurationError, match="expected a number of tokens"):
        normalise({"prompt_tokens": 1, "completion_tokens": 1} | {key: count})
    with pytest.raises(ConfigurationError, match="input_tokens"):
        normalise(Usage(input_tokens=count))  # type: ignore[arg-type]


@pytest.mark.parametrize("count", ["5", "", [], 1.5, {}])
@pytest.mark.parametrize(
    "counts",
    [
        {"input_tokens": 1, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 1, "output_tokens": 1},
        {"prompt_token_count": 1, "tool_use_prompt_token_count": 1, "candidates_token_count": 1},
        {"promptTokenCount": 1, "thoughtsTokenCount": 1, "cachedContentTokenCount": 1},
    ],
)
def test_counts_that_are_added_up_are_counts_first(counts: dict[str, int], count: object) -> None:
    assert normalise(counts)
    for key in counts:
        with pytest.raises(
            ConfigurationError, match=f"usage: .*={re.escape(repr(count))}: expected a number of tokens"
        ):
            normalise(counts | {key: count})


def test_a_mistake_is_named_as_what_it_is() -> None:
    with pytest.raises(ConfigurationError, match="cache_read_tokens='3'"):
        normalise({"input_tokens": 5, "cache_read_input_tokens": "3"})
