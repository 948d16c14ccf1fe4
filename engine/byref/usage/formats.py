"""Which fields of each provider's usage hold the token counts, and how to read them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeGuard

from byref.errors import ConfigurationError, shown

MAX_TOKENS = 10**15
"""Largest accepted count: a larger one is surely a mistake, and sums of such counts would not fit a database's integers."""


class Form(NamedTuple):
    """Paths of the fields that hold a provider's counts: `a + b` adds those that are known, `a | b` takes the first known.

    `a[b=c].d` is the sum of `d` over the objects in the list `a` whose `b` is `c`.
    """

    input: str
    output: str
    cache_read: str
    cache_write: str = ""
    cache_write_1h: str = ""
    total: str = ""
    """What tells where a count leaves something out; read as it is, and nothing if it is no number."""
    audio: str = ""
    cache_read_audio: str = ""
    cached_apart: bool = False
    """Whether `input` excludes cached tokens, so that they have to be added."""


_CHAT = Form(
    "prompt_tokens",
    "completion_tokens",
    # DeepSeek's, Moonshot's, Mistral's, LiteLLM's and CrewAI's names follow OpenAI's.
    "prompt_tokens_details.cached_tokens | prompt_cache_hit_tokens | cached_tokens | num_cached_tokens"
    " | cache_read_input_tokens | cached_prompt_tokens",
    "prompt_tokens_details.cache_write_tokens | prompt_tokens_details.cache_creation_tokens"
    " | cache_creation_input_tokens | cache_creation_tokens",
    total="total_tokens",
)
_RESPONSES = Form(  # also the forms of LangChain, OpenAI's Realtime API, Pydantic AI and byref, with their field names
    "input_tokens",
    "output_tokens",
    "input_tokens_details.cached_tokens | input_token_details.cache_read | input_token_details.cached_tokens"
    " | cache_read_tokens",
    "input_tokens_details.cache_write_tokens"
    " | input_token_details.cache_creation + input_token_details.ephemeral_5m_input_tokens"
    " + input_token_details.ephemeral_1h_input_tokens | cache_write_tokens",
    "input_token_details.ephemeral_1h_input_tokens | cache_write_1h_tokens",
)
ANTHROPIC = Form(
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens | cache_creation.ephemeral_5m_input_tokens + cache_creation.ephemeral_1h_input_tokens",
    "cache_creation.ephemeral_1h_input_tokens",
    cached_apart=True,
)
_BEDROCK = Form(
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
    "cacheDetails[ttl=1h].inputTokens",
    total="totalTokens",
    cached_apart=True,
)
VERCEL = Form(  # the package `ai`: first the names of its version 6, then those of 5
    "inputTokens",
    "outputTokens",
    "inputTokenDetails.cacheReadTokens | cachedInputTokens",
    "inputTokenDetails.cacheWriteTokens",
    total="totalTokens",
)
_GEMINI = Form(  # response_token_count belongs to the Live API
    "prompt_token_count + tool_use_prompt_token_count",
    "candidates_token_count + response_token_count + thoughts_token_count",
    "cached_content_token_count",
    audio="prompt_tokens_details[modality=AUDIO].token_count",
    cache_read_audio="cache_tokens_details[modality=AUDIO].token_count",
)
_GEMINI_REST = Form(
    "promptTokenCount + toolUsePromptTokenCount",
    "candidatesTokenCount + responseTokenCount + thoughtsTokenCount",
    "cachedContentTokenCount",
    audio="promptTokensDetails[modality=AUDIO].tokenCount",
    cache_read_audio="cacheTokensDetails[modality=AUDIO].tokenCount",
)
_VERCEL_MARKS = ("inputTokenDetails", "outputTokenDetails", "cachedInputTokens", "reasoningTokens")
_INCLUSIVE_MARKS = ("input_tokens_details", "input_token_details", "cache_read_tokens", "cache_write_tokens")

_FORMS = (_GEMINI, _GEMINI_REST, _CHAT, VERCEL, _BEDROCK, _RESPONSES, ANTHROPIC)


def _names(*parts: str) -> frozenset[str]:
    return frozenset(path.partition(".")[0] for part in parts for path in part.split() if path not in "+|")


MARKS = frozenset().union(*(_names(form.input, form.output) for form in _FORMS))
"""Fields of which at least one makes an object a usage."""
INPUTS = frozenset().union(*(_names(form.input) for form in _FORMS))
"""Those of `MARKS` that are the input."""
REQUESTS = "requests | successful_requests"
"""Where frameworks say over how many requests they have summed, CrewAI under the second name."""
NAMES = tuple(
    sorted(
        {"iterations", "type", *_VERCEL_MARKS}.union(
            *(re.findall(r"\w+", " ".join((REQUESTS, *form[:-1]))) for form in _FORMS)
        )
    )
)
"""The names of all fields that are read, nested ones included."""


def is_count(value: object) -> TypeGuard[int]:
    """Tell whether a value is a number of tokens."""
    return type(value) is int and 0 <= value <= MAX_TOKENS


def form_of(fields: dict[str, Any]) -> Form:
    """Return the form of fields that include one of `MARKS`.

    Bedrock's fields are the Vercel SDK's without any of `_VERCEL_MARKS`.
    Anthropic's is the default: without any of `_INCLUSIVE_MARKS` no cached tokens are known that OpenAI would include.
    """
    for form in (_GEMINI, _GEMINI_REST, _CHAT, _BEDROCK):
        if any(fields.get(name) is not None for name in _names(form.input, form.output)):
            is_vercel = form is _BEDROCK and any(fields.get(name) is not None for name in _VERCEL_MARKS)
            return VERCEL if is_vercel else form
    return _RESPONSES if any(fields.get(name) is not None for name in _INCLUSIVE_MARKS) else ANTHROPIC


def total(fields: dict[str, Any], part: str) -> int | None:
    """Return the number that one expression of a `Form` stands for; None if none of its fields is known."""
    for choice in part.split(" | ") if part else ():
        known = [number for path in choice.split(" + ") if (number := count(fields, path)) is not None]
        if known:
            return sum(known)
    return None


def count(fields: dict[str, Any], path: str) -> int | None:
    """Return the number at the dotted `path`, or None if there is none; ConfigurationError if it is no number of tokens."""
    value: Any = fields
    if "[" in path:
        name, key, chosen, rest = re.split(r"\[|=|\]\.", path)
        each = [one for one in fields.get(name) or () if isinstance(one, dict) and one.get(key) == chosen]
        known = [number for one in each if (number := count(one, rest)) is not None]
        return sum(known) if known else None
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return None
    if not is_count(value):
        raise no_count(path, value)
    return int(value)


def no_count(name: str, value: object) -> ConfigurationError:
    """Return the error for a value that stands where a number of tokens should."""
    return ConfigurationError(
        f"usage: {name}={shown(value)}: expected a number of tokens, 0 to 10**15, or None where it is unknown"
    )
