"""The events of one stream become the usage of one request."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from byref import ConfigurationError, Session, Usage
from byref.usage import MAX_EVENTS, normalise

BEDROCK = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "hello"}}},
    {"messageStop": {"stopReason": "end_turn"}},
    {
        "metadata": {
            "usage": {"inputTokens": 60, "outputTokens": 20, "cacheReadInputTokens": 30, "cacheWriteInputTokens": 10},
            "metrics": {"latencyMs": 5},
        }
    },
]
CLAUDE = [
    {"type": "message_start", "message": {"id": "m", "model": "claude-haiku-4-5", "usage": {"input_tokens": 60, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10, "output_tokens": 1}}},
    {"type": "ping"},
    {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20, "input_tokens": None}},
    {"type": "message_stop"},
]  # fmt: skip
LANGCHAIN = [
    {"id": "run-1", "content": "", "usage_metadata": {"input_tokens": 100, "output_tokens": 0, "total_tokens": 100, "input_token_details": {"cache_read": 30, "cache_creation": 10}}},
    {"id": "run-1", "content": "hel", "usage_metadata": None},
    {"id": "msg_2", "content": "lo", "usage_metadata": {"input_tokens": 0, "output_tokens": 12, "total_tokens": 12}},
    {"id": "run-1", "content": "", "usage_metadata": {"input_tokens": 0, "output_tokens": 8, "total_tokens": 8, "input_token_details": {"cache_read": 0}}},
]  # fmt: skip
STREAMS = {
    "Bedrock": BEDROCK,
    "Strands": [{"event": event} for event in BEDROCK],
    "Anthropic": CLAUDE,
    "LangChain": LANGCHAIN,
    "its usages": [CLAUDE[0]["message"]["usage"], CLAUDE[2]["usage"]],  # type: ignore[index]
}


@pytest.mark.parametrize("form", [list, tuple, deque, iter])
@pytest.mark.parametrize("name", STREAMS)
def test_events_are_merged(name: str, form: Any) -> None:
    found = normalise(form(STREAMS[name]))
    counted = found.input_tokens, found.output_tokens, found.cache_read_tokens, found.cache_write_tokens
    assert counted == (100, 20, 30, 10)


def test_events_whose_data_has_the_usage() -> None:
    chunk = {"id": "m", "model": "mistral-large-latest", "choices": []}
    used = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10, "num_cached_tokens": 4}
    found = normalise([{"data": chunk}, {"data": chunk | {"usage": used}}])
    assert (found.input_tokens, found.cache_read_tokens, found.model) == (9, 4, "mistral-large-latest")


@pytest.mark.parametrize(
    "last",
    [
        {"choices": [], "x_groq": {"id": "r", "usage": {"prompt_tokens": 9, "completion_tokens": 1}}},
        {"choices": [{"delta": {}, "usage": {"prompt_tokens": 9, "completion_tokens": 1}}]},
    ],
    ids=["Groq", "Moonshot"],
)
def test_usage_beside_the_chunks_own(last: dict[str, Any]) -> None:
    first = {"id": "c", "choices": [{"delta": {"content": "Hi"}}], "usage": None}
    for beside in ({}, {"usage": None}):
        found = normalise([first, {"id": "c", "model": "m", **last, **beside}])
        assert (found.input_tokens, found.output_tokens, found.model) == (9, 1, "m")


def test_counts_so_far_are_not_summed() -> None:
    events = [{"id": "c", "usage": {"prompt_tokens": 9, "completion_tokens": n}} for n in range(50)]
    assert (normalise(events).input_tokens, normalise(events).output_tokens) == (9, 49)


def test_an_input_of_0_does_not_take_the_place_of_a_known_one() -> None:
    events = [*CLAUDE[:2], {"type": "message_delta", "usage": {"input_tokens": 0, "output_tokens": 20}}]
    for given, expected in ((events, 100), (events[::-1], 100), (events[2:], None)):
        assert normalise(given).input_tokens == expected


def test_a_broken_off_stream_has_what_it_said() -> None:
    found = normalise(CLAUDE[:2])
    assert (found.input_tokens, found.output_tokens) == (100, 1)


def test_events_of_several_requests_are_refused() -> None:
    responses = [{"id": f"resp_{n}", "usage": {"prompt_tokens": 9, "completion_tokens": 1}} for n in range(2)]
    with pytest.raises(ConfigurationError, match="'resp_0' and of 'resp_1'; expected those of one request"):
        normalise(responses)
    counts = {"usage_metadata": {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}}
    for one, other in (("lc_run--1", "lc_run--2"), ("run-1", "run-2-0"), ("msg_1", "msg_2")):
        with pytest.raises(ConfigurationError, match=f"'{one}' and of '{other}'; expected those of one request"):
            normalise([{"id": one, **counts}, {"content": "a tool's result"}, {"id": other, **counts}])


@pytest.mark.parametrize(
    "events", [[*BEDROCK, *BEDROCK], [{"event": event} for event in BEDROCK] * 2, [Usage(9, 1)] * 2]
)
def test_a_second_whole_usage_is_refused(events: Any) -> None:
    with pytest.raises(ConfigurationError, match="more than one request; record each request by itself"):
        normalise(events)


@pytest.mark.parametrize("events", [[], (), [None, 5, "x", b"x", [], {}, object()], [{"usage": None}], iter([])])
def test_no_usage_at_all(events: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"none of the \d events .*include_usage"):
        normalise(events)


@pytest.mark.parametrize("most", [5_000, pytest.param(MAX_EVENTS, marks=pytest.mark.slow)])
def test_endless_streams_end(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("byref.usage.MAX_EVENTS", most)
    began = time.monotonic()
    with pytest.raises(ConfigurationError, match=f"more than {most:,} events"):
        normalise(itertools.repeat(None))
    assert time.monotonic() - began < 10


def test_a_mistake_in_one_event_is_named() -> None:
    with pytest.raises(ConfigurationError, match="output_tokens=-20"):
        normalise([*CLAUDE, {"usage": {"output_tokens": -20}}])
    with pytest.raises(ConfigurationError, match="output_tokens='8'"):
        normalise([*LANGCHAIN, {"usage_metadata": {"output_tokens": "8"}}])


def test_what_the_stream_raises_is_the_hosts() -> None:
    def broken() -> Iterator[Any]:
        yield CLAUDE[0]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        normalise(broken())


def test_asynchronous_streams_are_read_by_the_host() -> None:
    async def events() -> AsyncIterator[Any]:
        yield CLAUDE[0]

    with pytest.raises(ConfigurationError, match="async for"):
        normalise(events())


def test_cyclic_wrappers_end() -> None:
    event: dict[str, Any] = {}
    event["response"] = event
    with pytest.raises(ConfigurationError, match="no token counts"):
        normalise(event)


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_a_session_takes_a_stream(session: Session) -> None:
    session.record_usage(iter(CLAUDE))
    assert session.context_tokens() == 120
    used = session.usage()
    assert (used.requests, used.input_tokens, used.cache_read_tokens) == (1, 100, 30)
    assert used.cost is not None and used.cost > 0
    session.record_usage({"input_tokens": 900, "output_tokens": 100, "requests": 3})
    assert session.context_tokens() == 120
    assert session.usage().input_tokens == 1_000


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_an_unknown_part_is_no_cost(session: Session) -> None:
    session.record_usage({"model": "no-such-model", "usage": {"prompt_tokens": 9, "completion_tokens": 9}})
    session.record_usage({"model": "gpt-4o", "usage": {"completion_tokens": 9}})
    session.record_usage({"model": "gpt-4o", "usage": {"prompt_tokens": 9}})
    assert session.usage().cost is None
    session.record_usage({"model": "text-embedding-3-small", "usage": {"prompt_tokens": 1_000_000}}, context=False)
    assert str(session.usage().cost) == "0.02"
