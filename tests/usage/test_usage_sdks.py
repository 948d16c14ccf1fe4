"""Usage as the providers' own SDKs give it: their typed objects, whole responses and streams."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from byref import ConfigurationError, Usage
from byref.usage import normalise

NAMES = (
    "Chat usage",
    "Chat completion",
    "Chat stream",
    "Chat's last chunk",
    "embeddings",
    "Responses response",
    "Responses stream",
    "Claude usage",
    "Claude message",
    "Claude stream",
    "Claude's last delta",
    "Gemini usage",
    "Gemini response",
    "Gemini stream",
    "Gemini Live",
)


@pytest.fixture(scope="module")
def sdk() -> Any:
    """The module with everything that the SDKs' types make; collecting the tests does not import it."""
    import sdk_usages

    return sdk_usages


def test_every_form_is_named_here(sdk: Any) -> None:
    assert tuple(sdk.FORMS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_typed_objects(sdk: Any, name: str) -> None:
    given, expected = sdk.FORMS[name]
    found = normalise(given)
    assert json.loads(json.dumps(found.raw, allow_nan=False)) == found.raw != {}
    assert expected == Usage(
        found.input_tokens,
        found.output_tokens,
        found.cache_read_tokens,
        found.cache_write_tokens,
        found.model,
        cache_write_1h_tokens=found.cache_write_1h_tokens,
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_same_as_plain_dicts(sdk: Any, name: str) -> None:
    given, _ = sdk.FORMS[name]
    dumped = [event.model_dump() for event in given] if isinstance(given, list) else given.model_dump()
    plain, typed = normalise(dumped), normalise(given)
    assert (plain.input_tokens, plain.output_tokens, plain.model) == (
        typed.input_tokens,
        typed.output_tokens,
        typed.model,
    )
    assert plain.cache_read_tokens == typed.cache_read_tokens


def test_the_raw_usage_has_what_byref_does_not_read(sdk: Any) -> None:
    assert normalise(sdk.claude_stream()).raw["server_tool_use"] == {"web_search_requests": 2, "web_fetch_requests": 0}
    raw = normalise(sdk.gemini_chunk(**sdk.GEMINI_USAGE)).raw
    assert raw["traffic_type"] == "ON_DEMAND"
    assert raw["prompt_tokens_details"] == [{"modality": "TEXT", "token_count": 90}]


def test_what_a_gateway_adds_is_kept(sdk: Any) -> None:
    usage = sdk.CompletionUsage.model_validate(sdk.CHAT_USAGE | {"cost": 0.25, "prompt_cache_hit_tokens": 30})
    assert normalise(usage).raw["cost"] == 0.25


def test_what_a_gateway_leaves_out_is_unknown(sdk: Any) -> None:
    usage = sdk.CompletionUsage.model_construct(prompt_tokens=None, completion_tokens=5)
    assert normalise(usage).input_tokens is None
    with pytest.raises(ConfigurationError, match="completion_tokens='5'"):
        normalise(sdk.CompletionUsage.model_construct(prompt_tokens=5, completion_tokens="5"))


@pytest.mark.parametrize("name", ["Chat stream", "Claude stream", "Gemini stream"])
def test_a_stream_without_usage_says_how_to_have_it_sent(sdk: Any, name: str) -> None:
    events = sdk.WITHOUT_USAGE[name]
    with pytest.raises(ConfigurationError, match=re.escape('stream_options={"include_usage": True}')):
        normalise(events)
    with pytest.raises(ConfigurationError, match="give all of them"):
        normalise(events[0])
