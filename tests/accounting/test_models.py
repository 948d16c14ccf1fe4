from __future__ import annotations

import subprocess
import sys
import time
from decimal import Decimal

import pytest
from genai_prices.data_snapshot import get_snapshot

from byref import Engine
from byref.accounting.models import ModelInfo, Models, Price, _look_up, context_window, cost, input_cost, price
from byref.errors import ConfigurationError


@pytest.mark.parametrize(
    ("spellings", "window"),
    [
        (["gpt-4o", "GPT-4o", "gpt-4o-2024-08-06", "openai:gpt-4o", "azure/gpt-4o", "gateway/openai:gpt-4o"], 128_000),
        (["ft:gpt-4o-2024-08-06:org::id", "litellm_proxy/gpt-4o", " gpt-4o "], 128_000),
        (["claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", "claude-sonnet-4-5-20250929"], 200_000),
        (["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock/anthropic.claude-3-haiku-20240307-v1:0"], 200_000),
        (
            ["arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0"],
            200_000,
        ),
        (["arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-5-sonnet-20240620-v1:0"], 200_000),
        (["claude-sonnet-5", "anthropic/claude-sonnet-5", "openrouter/anthropic/claude-sonnet-5"], 1_000_000),
        (["gemini-2.5-pro", "models/gemini-2.5-pro", "vertex_ai/gemini-2.5-pro"], 1_048_576),
        (["projects/p/locations/l/publishers/google/models/gemini-2.5-pro"], 1_048_576),
        (["claude-3-5-sonnet@20240620"], 200_000),
    ],
)
def test_windows_by_any_spelling_of_the_name(spellings, window):
    assert {name: context_window(name) for name in spellings} == dict.fromkeys(spellings, window)


HOSTILE = [
    "",
    " ",
    "no-such-model",
    "my-gpt-4o-clone",
    "ollama/llama3:8b",
    "x" * 10_240,
    "gpt-4o\0",
    "gpt-4o\ngpt-4o",
    "\ud800",
    "/" * 256,
    ":" * 256,
    "a/" * 100,
    "arn:" + "a:/" * 80,
    "ft:",
    "ft:::",
    "../../etc/passwd",
    "claude-" + "-20251211" * 25,
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_not_known_is_none_and_quickly(name):
    context_window("gpt-4o")
    start = time.perf_counter()
    assert context_window(name) is None
    assert price(name) is None
    assert cost(name, input_tokens=10) is None
    assert input_cost(name, 10) is None
    assert time.perf_counter() - start < 0.2


def test_names_do_not_pile_up():
    before = len(get_snapshot()._lookup_cache) + len(get_snapshot()._provider_misses)
    for i in range(1_100):
        context_window(f"m{i}")
    assert _look_up.cache_info().currsize <= 1024
    assert len(get_snapshot()._lookup_cache) + len(get_snapshot()._provider_misses) == before


def test_a_known_name_is_answered_from_memory():
    context_window("gpt-4o")
    start = time.perf_counter()
    for _ in range(1_000):
        context_window("gpt-4o")
    assert time.perf_counter() - start < 0.1


def test_prices():
    assert cost("gpt-4o", input_tokens=50_000) == Decimal("0.125")
    assert price("gpt-4o") == Price(Decimal("2.5"), Decimal(10), Decimal("1.25"), None)
    assert cost("gpt-4o", input_tokens=1_000_000, output_tokens=1_000_000) == Decimal("12.5")
    assert cost("gpt-4o", input_tokens=0) == 0


def test_input_tokens_include_the_cached_ones():
    sonnet = "anthropic/claude-haiku-4-5"
    rates = price(sonnet)
    assert rates is not None and rates.input and rates.cache_read and rates.cache_write
    expected = (700_000 * rates.input + 200_000 * rates.cache_read + 100_000 * rates.cache_write) / 1_000_000
    counted = cost(sonnet, input_tokens=1_000_000, cache_read_tokens=200_000, cache_write_tokens=100_000)
    assert counted == expected
    assert cost("gpt-4o", input_tokens=0, cache_read_tokens=1_000_000) == Decimal("1.25")


def test_what_is_kept_for_an_hour_costs_more():
    five_minutes = cost("claude-haiku-4-5", input_tokens=1_000_000, cache_write_tokens=1_000_000)
    hour = cost(
        "claude-haiku-4-5", input_tokens=1_000_000, cache_write_tokens=1_000_000, cache_write_1h_tokens=1_000_000
    )
    assert five_minutes is not None and hour is not None
    assert hour == 2 * (price("claude-haiku-4-5") or Price()).input
    assert hour > five_minutes
    assert cost("gpt-4o", input_tokens=10, cache_write_1h_tokens=10**9) == cost("gpt-4o", input_tokens=10)


def test_audio_has_a_price_of_its_own():
    def audio(input_tokens: int, audio: int, read: int = 0, audio_read: int = 0) -> Decimal | None:
        more = {"input_audio_tokens": audio, "cache_read_tokens": read, "cache_read_audio_tokens": audio_read}
        return cost("gemini-2.5-flash", input_tokens=input_tokens, **more)

    assert audio(100_000, 90_000) == Decimal("0.093")
    assert audio(100_000, 90_000, 40_000, 40_000) == Decimal("0.057")
    assert audio(100_000, 90_000, 40_000) == audio(100_000, 90_000, 40_000, 30_000)  # it has to be in both
    assert audio(100, 10**6, 10**6, 10**6) == audio(10**6, 10**6, 10**6, 10**6)
    assert cost("gpt-4o", input_tokens=50_000, input_audio_tokens=9) == cost("gpt-4o", input_tokens=50_000)


def test_what_is_not_known_is_no_zero():
    assert cost("gpt-4o", input_tokens=None) is None
    assert cost("gpt-4o", input_tokens=None, output_tokens=None) is None
    assert cost("gpt-4o", input_tokens=10, output_tokens=None) is None
    assert cost("text-embedding-3-small", input_tokens=1_000_000, output_tokens=None) == Decimal("0.02")
    assert cost("gpt-4o", input_tokens=10, cache_read_tokens=None, cache_write_tokens=None) == cost(
        "gpt-4o", input_tokens=10
    )
    house = Models({"house": ModelInfo(input_price=1, output_price=1)})
    assert house.cost("house", input_tokens=10, output_tokens=None) is None
    assert house.cost("house", input_tokens=None, output_tokens=1) is None


def test_the_cost_of_carrying_tokens():
    tokens = 200_000 // 4
    assert input_cost("gpt-4o", tokens) == Decimal("0.125")
    assert input_cost("gpt-4o", 0) == 0
    assert input_cost("no-such-model", tokens) is None
    assert Models({"half": ModelInfo(output_price=1)}).input_cost("half", 1) is None
    assert Models({"gpt-4o": ModelInfo(input_price="0.5")}).input_cost("openai/gpt-4o", tokens) == Decimal("0.025")
    with pytest.raises(ValueError, match="no negative number"):
        input_cost("gpt-4o", -1)


def test_tokens_carried_in_many_requests_are_in_no_tier():
    lowest = input_cost("gemini-2.5-pro", 200_000)
    assert lowest == cost("gemini-2.5-pro", input_tokens=200_000)
    assert input_cost("gemini-2.5-pro", 20_000_000) == 100 * lowest


@pytest.mark.parametrize(
    ("names", "dollars"),
    [
        (["gpt-4o", "gpt-4o-2024-11-20", "openai/gpt-4o", "azure/gpt-4o", "openrouter/openai/gpt-4o"], "2.5"),
        (
            [
                "claude-sonnet-4-5-20250929",
                "anthropic/claude-sonnet-4.5",
                "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "bedrock/converse/anthropic.claude-sonnet-4-20250514-v1:0",
                "vertex_ai/claude-sonnet-4@20250514",
                "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0",
            ],
            "3",
        ),
        (["models/gemini-2.5-pro", "gemini/gemini-2.5-pro", "google-gla:gemini-2.5-pro"], "1.25"),
        (["amazon.nova-lite-v1:0", "us.amazon.nova-lite-v1:0"], "0.06"),
    ],
)
def test_prices_by_any_spelling_of_the_name(names, dollars):
    assert {name: input_cost(name, 1_000_000) for name in names} == dict.fromkeys(names, Decimal(dollars))


def test_tiers_follow_the_size_of_the_request():
    below, above = cost("gemini-2.5-pro", input_tokens=200_000), cost("gemini-2.5-pro", input_tokens=200_001)
    assert below == Decimal("0.25")
    assert above is not None and above > 2 * below * Decimal("0.99")


@pytest.mark.parametrize(
    "field",
    [
        *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
        *("input_audio_tokens", "cache_read_audio_tokens"),
    ],
)
def test_negative_counts_are_refused(field):
    with pytest.raises(ValueError, match="no negative number"):
        cost("gpt-4o", **{"input_tokens": 1, field: -1})


@pytest.mark.parametrize(
    ("own", "spellings", "others"),
    [
        (
            "gpt-4o",
            ["gpt-4o-2024-08-06", "openai/gpt-4o-2024-08-06", "azure:GPT-4o-2024-11-20", "gpt-4o"],
            ["gpt-4o-mini", "gpt-4o-mini-2024-07-18", "my-gpt-4o", "gpt-4o-2024", "ft:gpt-4o-2024-08-06:org::id"],
        ),
        (
            "claude-sonnet-4-5",
            [
                "claude-sonnet-4-5-20250929",
                "vertex_ai/claude-sonnet-4-5@20250929",
                "anthropic.claude-sonnet-4-5-20250929-v1:0",
                "bedrock/us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            ],
            ["claude-sonnet-4", "claude-sonnet-4-5-v2", "claude-sonnet-4-20250514"],
        ),
        ("anthropic.claude-haiku-4-5", ["us.anthropic.claude-haiku-4-5-20251001-v1:0"], ["claude-haiku-4-5"]),
        ("nova-lite", ["amazon.nova-lite-v1:0", "us.amazon.nova-lite-v1:0"], ["nova"]),
        ("gpt-4o-2024-08-06", ["azure/gpt-4o-2024-08-06"], ["gpt-4o", "gpt-4o-2024-11-20"]),
    ],
)
def test_an_override_holds_with_and_without_prefix_and_date(own, spellings, others):
    models = Models({own: ModelInfo(context_window=123)})
    assert {name: models.context_window(name) for name in spellings} == dict.fromkeys(spellings, 123)
    assert 123 not in {models.context_window(name) for name in others}


def test_of_several_overrides_the_most_literal_counts():
    windows = {"gpt-4o": 1, "gpt-4o-2024-08-06": 2, "azure/gpt-4o-2024-08-06": 3, "azure/gpt-4o": 4}
    models = Models({name: ModelInfo(context_window=window) for name, window in windows.items()})
    names = [*windows, "openai/gpt-4o-2024-08-06", "azure/gpt-4o-2024-11-20", "openai/gpt-4o-2024-11-20"]
    assert [models.context_window(name) for name in names] == [1, 2, 3, 4, 2, 4, 1]


def test_an_override_is_used_where_the_answer_names_a_date(tenant: str, sqlite_url: str):
    with Engine(sqlite_url, models={"gpt-4o": ModelInfo(input_price=1)}) as engine:
        session = engine.session("s", tenant=tenant, model="gpt-4o")
        session.record_usage({"model": "gpt-4o-2024-08-06", "usage": {"prompt_tokens": 10**6, "completion_tokens": 0}})
        assert session.usage().cost == 1


def test_overrides_come_first_and_field_by_field():
    models = Models(
        {
            "GPT-4o": ModelInfo(context_window=64_000),
            "house": ModelInfo(context_window=8_192, input_price="0.1", output_price=0.2),
            "free": ModelInfo(input_price=0, output_price=0),
            "claude-haiku-4-5": ModelInfo(input_price=7),
        }
    )
    assert models.context_window("openai/gpt-4o") == 64_000
    assert models.cost("gpt-4o", input_tokens=50_000) == Decimal("0.125")
    assert models.context_window("ollama:house") == models.context_window("HOUSE") == 8_192
    assert models.price("house") == Price(Decimal("0.1"), Decimal("0.2"))
    cached = models.cost("house", input_tokens=100, output_tokens=10, cache_read_tokens=50)
    assert cached == (100 * Decimal("0.1") + 10 * Decimal("0.2")) / 1_000_000
    assert models.context_window("free") is None
    assert models.cost("free", input_tokens=10**9, output_tokens=10**9) == 0
    haiku, listed = models.price("anthropic/claude-haiku-4-5"), price("claude-haiku-4-5")
    assert haiku is not None and listed is not None
    assert (haiku.input, haiku.output, haiku.cache_read) == (7, listed.output, listed.cache_read)
    assert models.cost("claude-haiku-4-5", input_tokens=1_000_000) == 7
    assert context_window("gpt-4o") == 128_000  # other registries do not notice


def test_a_full_name_beats_the_name_behind_its_prefix():
    models = Models({"m": ModelInfo(context_window=1), "azure/m": ModelInfo(context_window=2)})
    assert (models.context_window("azure/m"), models.context_window("openai/m")) == (2, 1)


def test_an_engine_takes_a_dict_of_a_hosts_own_models():
    with Engine("sqlite:///:memory:", models={"house": ModelInfo(context_window=8_192, input_price=2)}) as engine:
        session = engine.session("s", model="house")
        assert session.context_window == 8_192
        session.record_usage({"prompt_tokens": 500_000, "completion_tokens": 0})
        assert session.ledger()[0].cost == 1
    for wrong in ({"house": 8_192}, {1: ModelInfo()}, [("house", ModelInfo())]):
        with pytest.raises(ConfigurationError, match="expected names of models"):
            Engine("sqlite:///:memory:", models=wrong)


def test_a_cost_without_one_of_its_prices_is_none():
    models = Models({"half": ModelInfo(input_price=1)})
    assert models.cost("half", input_tokens=1_000_000) == 1
    assert models.cost("half", input_tokens=1, output_tokens=1) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"context_window": 0},
        {"context_window": True},
        {"context_window": "8k"},
        {"input_price": -1},
        {"output_price": "cheap"},
        {"cache_read_price": float("nan")},
        {"cache_write_price": True},
    ],
)
def test_wrong_overrides_are_refused_by_name(fields):
    with pytest.raises(ConfigurationError, match=next(iter(fields))):
        ModelInfo(**fields)


def test_genai_prices_is_imported_only_when_the_overrides_have_no_answer():
    code = """
import sys
from byref.accounting.models import ModelInfo, Models
models = Models({"house": ModelInfo(context_window=8_192)})
assert models.context_window("vllm/house") == 8_192
assert "genai_prices" not in sys.modules and "pydantic" not in sys.modules
assert models.context_window("gpt-4o") == 128_000
assert "genai_prices" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_no_lookup_touches_the_network():
    code = """
import socket
def refuse(*args, **kwargs): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
from byref.accounting.models import context_window, cost
from byref.accounting.tokens import SampledCounter
assert context_window("gpt-4o") == 128_000 and cost("no-such", input_tokens=1) is None
assert SampledCounter().count("hello world") == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True)
