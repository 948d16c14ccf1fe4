"""Usage as each provider reports it, in one form: cached tokens included, and None for numbers that were not reported."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from byref import ConfigurationError, Engine, Usage
from byref.models import cost
from byref.usage import MAX_TOKENS, normalise
from byref.usage.formats import MARKS

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
BEDROCK = {
    "inputTokens": 60,
    "outputTokens": 20,
    "totalTokens": 120,
    "cacheReadInputTokens": 30,
    "cacheWriteInputTokens": 10,
}
LANGCHAIN = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "input_token_details": {"cache_read": 30, "cache_creation": 10},
    "output_token_details": {"reasoning": 5},
}

FORMS: dict[str, tuple[dict[str, Any], tuple[int | None, ...]]] = {
    "OpenAI Chat": (OPENAI_CHAT, (100, 20, 30, None)),
    "OpenAI Chat, cache written": ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 4}}, (9, 1, 0, 4)),
    "OpenAI Responses": (OPENAI_RESPONSES, (100, 20, 30, None)),
    "OpenAI Realtime": ({"input_tokens": 9, "output_tokens": 1, "input_token_details": {"cached_tokens": 4, "text_tokens": 9}}, (9, 1, 4, None)),
    "DeepSeek": ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5}, (9, 1, 4, None)),
    "Mistral": ({"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10, "num_cached_tokens": 4}, (9, 1, 4, None)),
    "LiteLLM": ({"prompt_tokens": 9, "completion_tokens": 1, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3}, (9, 1, 4, 3)),
    "Anthropic": (ANTHROPIC, (100, 20, 30, 10)),
    "Anthropic, nested cache creation alone": ({"input_tokens": 60, "output_tokens": 20, "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 7}}, (70, 20, None, 10)),
    "Anthropic, web searches": (ANTHROPIC | {"server_tool_use": {"web_search_requests": 3}, "service_tier": "standard"}, (100, 20, 30, 10)),
    "Gemini": (GEMINI, (100, 20, 30, None)),
    "Gemini REST": (GEMINI_REST, (100, 20, 30, None)),
    "Gemini Live": ({"prompt_token_count": 9, "response_token_count": 2, "thoughts_token_count": 1}, (9, 3, None, None)),
    "Gemini, all of it thought": ({"promptTokenCount": 9, "thoughtsTokenCount": 4, "totalTokenCount": 13}, (9, 4, None, None)),
    "Bedrock": (BEDROCK, (100, 20, 30, 10)),
    "Bedrock, no cache": ({"inputTokens": 60, "outputTokens": 20, "totalTokens": 80}, (60, 20, None, None)),
    "Bedrock, kept for an hour": (BEDROCK | {"cacheDetails": [{"ttl": "1h", "inputTokens": 7}, {"ttl": "5m", "inputTokens": 3}]}, (100, 20, 30, 10)),
    "Strands with OpenAI's models": ({"inputTokens": 100, "outputTokens": 20, "totalTokens": 120, "cacheReadInputTokens": 30}, (100, 20, 30, None)),
    "Strands, more cached than sent": ({"inputTokens": 60, "outputTokens": 20, "totalTokens": 80, "cacheReadInputTokens": 90}, (150, 20, 90, None)),
    "Vercel's SDK": ({"inputTokens": 100, "inputTokenDetails": {"noCacheTokens": 60, "cacheReadTokens": 30, "cacheWriteTokens": 10}, "outputTokens": 20, "outputTokenDetails": {}, "totalTokens": 120, "cachedInputTokens": 30}, (100, 20, 30, 10)),
    "Vercel's SDK, a read alone": ({"inputTokens": 100, "inputTokenDetails": {"cacheReadTokens": 30}, "outputTokens": 20, "totalTokens": 120}, (100, 20, 30, None)),
    "Vercel's SDK 5": ({"inputTokens": 100, "outputTokens": 20, "totalTokens": 120, "reasoningTokens": 5, "cachedInputTokens": 30}, (100, 20, 30, None)),
    "Vercel's SDK 5 with Claude": ({"inputTokens": 10, "outputTokens": 20, "totalTokens": 30, "cachedInputTokens": 90}, (100, 20, 90, None)),
    "Vercel's SDK 5 with Gemini, which thinks": ({"inputTokens": 100, "outputTokens": 15, "totalTokens": 120, "reasoningTokens": 5}, (100, 20, None, None)),
    "CrewAI": ({"total_tokens": 120, "prompt_tokens": 100, "cached_prompt_tokens": 30, "completion_tokens": 20, "successful_requests": 1, "cache_creation_tokens": 10}, (100, 20, 30, 10)),
    "xAI": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 150, "completion_tokens_details": {"reasoning_tokens": 30}}, (100, 50, None, None)),
    "a total that is too small": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 20}, (100, 20, None, None)),
    "a total that is no number": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": "150"}, (100, 20, None, None)),
    "LangChain": (LANGCHAIN, (100, 20, 30, 10)),
    "LangChain, kept for an hour": ({"input_tokens": 100, "output_tokens": 20, "input_token_details": {"cache_read": 30, "cache_creation": 0, "ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 4}}, (100, 20, 30, 10)),
    "Chat without details": ({"prompt_tokens": 7, "completion_tokens": 3}, (7, 3, None, None)),
    "details are None": ({"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": None}, (7, 3, None, None)),
    "embeddings": ({"prompt_tokens": 7, "total_tokens": 7}, (7, None, None, None)),
    "Anthropic, no cache used": ({"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": None}, (7, 3, 0, None)),
    "Anthropic, input unknown": ({"input_tokens": None, "output_tokens": 3, "cache_read_input_tokens": 4}, (None, 3, 4, None)),
    "Gemini before its first candidate": ({"prompt_token_count": 7, "candidates_token_count": None}, (7, None, None, None)),
    "our own names": ({"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 2, "cache_write_tokens": 1}, (7, 3, 2, 1)),
    "input_tokens of nobody": ({"input_tokens": 7, "output_tokens": 3}, (7, 3, None, None)),
    "details mark an inclusive count": (OPENAI_RESPONSES | {"cache_read_input_tokens": 30}, (100, 20, 30, None)),
    "zero": ({"input_tokens": 0, "output_tokens": 0}, (0, 0, None, None)),
    "an input of 0 is unknown": ({"input_tokens": 0, "output_tokens": 20, "total_tokens": 20}, (None, 20, None, None)),
    "an input of 0 is unknown, whatever the total": ({"prompt_tokens": 0, "completion_tokens": 20, "total_tokens": 120}, (None, 20, None, None)),
    "all of it from the cache": ({"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 30}, (30, 0, 30, None)),
}  # fmt: skip


def numbers(usage: Usage) -> tuple[int | None, ...]:
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def attributes(value: Any) -> Any:
    """As an SDK gives it: objects with attributes."""
    return SimpleNamespace(**{k: attributes(v) for k, v in value.items()}) if isinstance(value, dict) else value


def properties(value: Any) -> Any:
    """As a wrapper of protocol buffers gives it: nothing in `__dict__`."""
    if not isinstance(value, dict):
        return value
    made = type(
        "Message", (), {"__slots__": (), **{k: property(lambda _, v=v: properties(v)) for k, v in value.items()}}
    )
    return made()


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("form", [dict, attributes, properties])
def test_each_provider(name: str, form: Any) -> None:
    given, expected = FORMS[name]
    assert numbers(normalise(form(given))) == expected


@pytest.mark.parametrize("form", [dict, attributes, properties])
@pytest.mark.parametrize("key", ["usage", "usage_metadata", "usageMetadata"])
def test_a_whole_response_is_taken(form: Any, key: str) -> None:
    found = normalise(form({"id": "r", "model": "gpt-4o", key: OPENAI_CHAT}))
    assert (numbers(found), found.model) == ((100, 20, 30, None), "gpt-4o")


@pytest.mark.parametrize(
    ("response", "model"),
    [
        ({"usageMetadata": GEMINI_REST, "modelVersion": "gemini-2.5-pro"}, "gemini-2.5-pro"),
        ({"usage_metadata": LANGCHAIN, "response_metadata": {"model_name": "gpt-4o-2024-08-06"}}, "gpt-4o-2024-08-06"),
        ({"usage": BEDROCK, "output": {"message": {"role": "assistant"}}, "metrics": {"latencyMs": 4}}, None),
        ({"usage": OPENAI_CHAT, "model": ""}, None),
        ({"usage": OPENAI_CHAT, "model": "m" * 257}, None),
        ({"usage": OPENAI_CHAT, "model": "gpt\0"}, None),
        ({"usage": OPENAI_CHAT, "model": 5}, None),
    ],
)
def test_the_model_is_read_where_it_has_a_name(response: dict[str, Any], model: str | None) -> None:
    found = normalise(response)
    assert (found.model, found.input_tokens) == (model, 100)


def test_an_hour_in_the_cache_is_told_apart() -> None:
    nested = {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 7}
    assert normalise(ANTHROPIC | {"cache_creation": nested}).cache_write_1h_tokens == 7
    assert normalise(FORMS["LangChain, kept for an hour"][0]).cache_write_1h_tokens == 4
    assert normalise(ANTHROPIC).cache_write_1h_tokens is None
    assert normalise(FORMS["Bedrock, kept for an hour"][0]).cache_write_1h_tokens == 7


@pytest.mark.parametrize("form", [dict, attributes, properties])
def test_audio_is_told_apart(form: Any) -> None:
    heard = [{"modality": "TEXT", "token_count": 30}, {"modality": "AUDIO", "token_count": 60}]
    found = normalise(form(GEMINI | {"prompt_tokens_details": heard, "cache_tokens_details": heard[1:]}))
    assert (found.input_audio_tokens, found.cache_read_audio_tokens) == (60, 60)
    rest = [{"modality": "AUDIO", "tokenCount": 60}, {"modality": "AUDIO", "tokenCount": 5}, "AUDIO", None]
    assert normalise(form(GEMINI_REST | {"promptTokensDetails": rest})).input_audio_tokens == 65
    assert normalise(form(GEMINI)).input_audio_tokens is None


def iteration(given: int, made: int, kind: str = "message", **more: Any) -> dict[str, Any]:
    counts = {"input_tokens": given - 1, "output_tokens": made, "cache_read_input_tokens": 1}
    return {"type": kind, "cache_creation_input_tokens": 0, **counts, **more}


def rounds(*entries: dict[str, Any], **top: Any) -> dict[str, Any]:
    """Usage as Anthropic gives it: the sum of the messages, and each of the iterations."""
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counted = [one for one in entries if one["type"] in ("message", "fallback_message")]
    return {name: sum(one[name] for one in counted) for name in names} | {"iterations": list(entries)} | top


ITERATIONS: dict[str, tuple[dict[str, Any], tuple[int | None, ...], int | None]] = {
    "one message": (rounds(iteration(100, 5)), (100, 5, 1, 0), 105),
    "a loop of the provider's tools": (rounds(iteration(100, 5), iteration(200, 6), iteration(300, 7)), (600, 18, 3, 0), 307),
    "a compaction before": (rounds(iteration(900, 9, "compaction"), iteration(200, 6)), (1100, 15, 2, 0), 206),
    "a compaction at the end": (rounds(iteration(800, 6), iteration(900, 9, "compaction")), (1700, 15, 2, 0), 806),
    "a compaction alone": (rounds(iteration(900, 9, "compaction")), (900, 9, 1, 0), None),
    "an advisor": (rounds(iteration(100, 5), iteration(50, 9, "advisor_message", model="o"), iteration(200, 6)), (350, 20, 3, 0), 206),
    "another model": (rounds(iteration(100, 5), iteration(100, 6, "fallback_message", model="o"), output_tokens=6), (200, 6, 2, 0), 106),
    "some are missing": (rounds(iteration(100, 5), iteration(200, 6), input_tokens=5_000), (5_002, 11, 2, 0), None),
    "none": (ANTHROPIC | {"iterations": []}, (100, 20, 30, 10), 120),
    "null": (ANTHROPIC | {"iterations": None}, (100, 20, 30, 10), 120),
    "junk": (ANTHROPIC | {"iterations": [5, "x", None]}, (100, 20, 30, 10), 120),
    "nested": (rounds(iteration(100, 5, iterations=[iteration(1, 1)] * 3), iteration(200, 6)), (300, 11, 2, 0), 206),
    "not Anthropic's": (OPENAI_CHAT | {"iterations": [iteration(100, 5)] * 3}, (100, 20, 30, None), 120),
}  # fmt: skip


@pytest.mark.parametrize("form", [dict, attributes])
@pytest.mark.parametrize("name", ITERATIONS)
def test_of_several_rounds_the_last_is_the_context_and_all_are_counted(name: str, form: Any) -> None:
    given, expected, context = ITERATIONS[name]
    found = normalise(form({"usage": given}))
    assert (numbers(found), found.context_tokens) == (expected, context)
    assert normalise(found) == found
    assert sum(one.input_tokens or 0 for one in found.rounds) in (0, expected[0])


def test_each_round_costs_by_its_own_size_and_model(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, model="claude-sonnet-4-5")
    small, large = cost("claude-sonnet-4-5", input_tokens=90_000), cost("claude-sonnet-4-5", input_tokens=270_000)
    assert small is not None and large is not None and 3 * small < large  # there is a tier
    counted = {"input_tokens": 90_000, "output_tokens": 0}
    one = {"type": "message", **counted}
    session.record_usage({"input_tokens": 270_000, "output_tokens": 0, "iterations": [one] * 3})
    assert (session.usage().cost, session.context_tokens()) == (3 * small, 90_000)
    other = {"type": "advisor_message", "model": "claude-haiku-4-5", **counted}
    session.record_usage({**counted, "iterations": [one, other]})
    assert session.usage().cost == 4 * small + (cost("claude-haiku-4-5", input_tokens=90_000) or 0)
    session.record_usage({**counted, "iterations": [one, other | {"model": "no-such-model"}]})
    assert session.ledger()[-1].cost is None


def test_what_the_providers_own_tools_add_teaches_nothing(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant)
    session.record_usage({"input_tokens": 100, "output_tokens": 0})
    session.process("x" * 8_000, tool="t")
    session.record_usage(rounds(iteration(2_100, 5), iteration(5_000, 5)))
    assert "learned" not in session.ledger()[-1].detail


def test_a_sum_over_a_run_says_nothing_of_the_context() -> None:
    @dataclass
    class RunUsage:
        """Pydantic AI's fields."""

        input_tokens: int = 0
        cache_write_tokens: int = 0
        cache_read_tokens: int = 0
        output_tokens: int = 0
        details: dict[str, int] = field(default_factory=dict)
        requests: int = 0
        tool_calls: int = 0

    one = normalise(RunUsage(input_tokens=100, output_tokens=20, cache_read_tokens=30, requests=1))
    assert (numbers(one), one.context_tokens) == ((100, 20, 30, 0), 120)
    three = normalise(RunUsage(input_tokens=300, output_tokens=20, requests=3))
    assert (three.input_tokens, three.requests, three.context_tokens) == (300, 3, None)
    crew = {"total_tokens": 320, "prompt_tokens": 300, "completion_tokens": 20, "successful_requests": 3}
    for given in (crew, attributes(crew), properties(crew)):
        three = normalise(given)
        assert (three.input_tokens, three.requests, three.context_tokens) == (300, 3, None)
    with pytest.raises(ConfigurationError, match="requests=-1: expected a number"):
        normalise(RunUsage(input_tokens=300, requests=-1))


def test_what_the_provider_gave_is_kept() -> None:
    assert normalise(OPENAI_RESPONSES).raw == OPENAI_RESPONSES
    assert normalise({"usage": ANTHROPIC}).raw == ANTHROPIC
    assert normalise(attributes(LANGCHAIN)).raw == LANGCHAIN
    assert normalise(Usage(input_tokens=1, raw=ANTHROPIC)).raw == ANTHROPIC


class Loop(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__(a=1)
        self["loop"] = self


@pytest.mark.parametrize(
    "junk",
    [object(), b"x", float("inf"), 10**5_000, {1: 2}, ["x" * 10_000] * 10_000, Loop(), print, Mock(), type, {1, 2}, "\ud800"],
    ids=range(12),
)  # fmt: skip
def test_what_is_kept_is_json_of_bounded_size(junk: object) -> None:
    found = normalise({"prompt_tokens": 3, "completion_tokens": 2, "junk": junk})
    assert found.input_tokens == 3
    assert len(json.dumps(found.raw, allow_nan=False)) < 100_000
    assert normalise(found) == found


def test_context_is_input_and_output() -> None:
    assert normalise(ANTHROPIC).context_tokens == 120
    assert Usage(input_tokens=5).context_tokens == 5
    assert Usage(output_tokens=5).context_tokens is None
    assert Usage(input_tokens=0, output_tokens=5).context_tokens == 5


def test_an_input_of_0_costs_an_unknown_amount_and_leaves_the_context(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, model="gpt-4o")
    session.record_usage({"input_tokens": 1_000, "output_tokens": 5})
    session.record_usage({"input_tokens": 0, "output_tokens": 20})
    last = session.ledger()[-1]
    assert (last.input_tokens, last.output_tokens, last.cost) == (None, 20, None)
    assert (session.context_tokens(), session.usage().requests) == (1_005, 2)
    session.record_usage(Usage(input_tokens=0, output_tokens=20))  # as the host itself says
    assert session.context_tokens() == 20


@pytest.mark.parametrize(
    "count", [-1, 1.5, "7", True, MAX_TOKENS + 1, 10**30, 10**5_000, float("nan"), object(), [1]], ids=range(10)
)
@pytest.mark.parametrize("key", ["prompt_tokens", "completion_tokens"])
def test_counts_are_counts(key: str, count: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"usage: {key}=.{{1,100}}: expected a number of tokens"):
        normalise({"prompt_tokens": 1, "completion_tokens": 1} | {key: count})
    with pytest.raises(ConfigurationError, match=r"usage: input_tokens=.{1,100}: expected a number"):
        normalise(Usage(input_tokens=count))


COUNTED = {
    "Anthropic": ANTHROPIC,
    "Gemini": GEMINI,
    "Gemini REST": GEMINI_REST,
    "Bedrock": BEDROCK,
}


@pytest.mark.parametrize("count", ["5", "", [], 1.5, {}])
@pytest.mark.parametrize("name", COUNTED)
def test_a_mistake_is_named_by_the_providers_own_name(name: str, count: object) -> None:
    counts = COUNTED[name]
    for key in counts.keys() - {"totalTokens"}:
        with pytest.raises(
            ConfigurationError, match=f"usage: {key}={re.escape(repr(count))}: expected a number of tok"
        ):
            normalise(counts | {key: count})
    with pytest.raises(ConfigurationError, match=r"usage: prompt_tokens_details\.cached_tokens='3'"):
        normalise({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": "3"}})


NOTHING = (None, 5, "x", b"x", {}, {"tokens": 5}, object(), {"usage": {}}, {"usage": "5"}, {"usage": None}, dict, print)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *((given, "no token counts that byref knows") for given in NOTHING),
        (Mock(), "expected a number of tokens"),
        # a sum is a count, too
        ({"input_tokens": MAX_TOKENS, "output_tokens": 1, "cache_read_input_tokens": 1}, "usage: input_tokens="),
        (Usage(input_tokens=1, requests=True), "usage: requests=True"),
        (Usage(input_tokens=1, model="x" * 300), "usage: model='xxx"),
        (Usage(input_tokens=1, model=7), "usage: model=7"),  # type: ignore[arg-type]
        (Usage(input_tokens=1, raw=[1]), r"usage: raw=\[1\]"),  # type: ignore[arg-type]
        (Usage(input_tokens=1, cache_write_1h_tokens=-1), "usage: cache_write_1h_tokens=-1"),
        (Usage(input_tokens=1, rounds=5), "usage: rounds=5"),  # type: ignore[arg-type]
        (Usage(input_tokens=1, rounds=({},)), "usage: {}"),  # type: ignore[arg-type]
        (Usage(input_tokens=1, rounds=(Usage(input_tokens=-1),)), "usage: input_tokens=-1"),
        (Usage(input_tokens=1, context=Usage(context=Usage())), "expected a byref.Usage, of one round"),
    ],
)
def test_what_is_no_usage_is_refused(given: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        normalise(given)


def raising(error: type[BaseException]) -> property:
    def fail(_: object) -> None:
        raise error("no")

    return property(fail)


def test_objects_that_raise_are_named() -> None:
    broken = type("Broken", (), {"__slots__": (), "prompt_tokens": 5, "completion_tokens": raising(RuntimeError)})()
    with pytest.raises(ConfigurationError, match="'completion_tokens' cannot be read: RuntimeError"):
        normalise(broken)
    for name, value in {
        "usage": raising(ValueError),
        "__dict__": raising(OSError),
    }.items():
        with pytest.raises(ConfigurationError, match=r"cannot be read: (ValueError|OSError)"):
            normalise(type("Broken", (), {name: value})())

    class Items(dict[str, int]):
        def items(self) -> Any:
            raise RuntimeError("no")

    with pytest.raises(ConfigurationError, match="'Items' cannot be read: RuntimeError"):
        normalise(Items(prompt_tokens=5))


def test_more_than_a_usage_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="more than 100 fields"):
        normalise({"prompt_tokens": 1} | dict.fromkeys(map(str, range(1_000)), 1))


def test_each_mark_is_read() -> None:
    for mark in MARKS:
        assert normalise({mark: 1}) != Usage()
        assert 1 in numbers(normalise({mark: 1}))[:2]
