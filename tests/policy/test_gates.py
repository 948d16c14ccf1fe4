"""Which outputs are too big: every boundary at, below and above it, and the order of the rules."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from material import Opener, json_text, prose, records

from byref import CharCounter, Engine, Policy, Session, Usage
from byref.policy.gates import byte_threshold, headroom, headroom_limit, per_output

# The rules by themselves


@given(st.integers(0, 100), st.integers(1, 1_000_000))
def test_percentages_are_exact_where_floats_are_not(percent: int, hundreds: int) -> None:
    window = hundreds * 100
    policy = Policy(
        headroom_percentage=percent / 100,
        context_percentage=percent / 100,
        min_threshold_bytes=0,
        max_threshold_bytes=10**12,
    )
    assert byte_threshold(policy, window) == hundreds * percent * 4
    assert headroom_limit(policy, window) == (None if percent == 100 else hundreds * percent)


# Every knob at, below and above its boundary, all others out of the way: (knobs, size, tokens) and the reason.
OPEN: dict[str, Any] = {
    "context_percentage": None,
    "min_threshold_bytes": 0,
    "max_threshold_bytes": None,
    "headroom_percentage": 1.0,
    "max_result_tokens": None,
    "max_output_bytes": None,
}


@pytest.mark.parametrize(
    ("knobs", "below", "at", "above", "reason"),
    [
        ({"max_result_tokens": 100}, True, True, False, "max_result_tokens"),
        ({"max_output_bytes": 100}, True, False, False, "max_output_bytes"),
        ({"max_threshold_bytes": 100}, True, True, False, "above_ceiling"),
        ({"context_percentage": 0.25}, True, True, False, "context_percentage"),
    ],
)
def test_a_gate_by_itself(knobs: dict[str, Any], below: bool, at: bool, above: bool, reason: str) -> None:
    for size, fits in ((0, True), (99, below), (100, at), (101, above), (10**12, above)):
        verdict = per_output(Policy(**OPEN | knobs), size=size, tokens=size, window=100)
        assert (verdict.fits, verdict.reason) == (fits, "fits" if fits else reason)
        assert verdict.limit == 100


def test_the_floor_by_itself() -> None:
    policy = Policy(**OPEN | {"min_threshold_bytes": 100, "context_percentage": 0.0})
    for size, reason in ((0, "below_floor"), (99, "below_floor"), (100, "fits"), (101, "context_percentage")):
        assert per_output(policy, size=size, tokens=size, window=100).reason == reason


def test_with_every_gate_open_everything_fits() -> None:
    verdict = per_output(Policy(**OPEN), size=10**15, tokens=10**15, window=1)
    assert (verdict.fits, verdict.reason, verdict.unit) == (True, "fits", "tokens")
    assert headroom(Policy(**OPEN), tokens=10**15, context=10**15, window=1).fits


# Where knobs disagree, one of them wins: docs/policy.md has this table.
CONFLICTS: dict[str, tuple[dict[str, Any], int, int, str]] = {
    "switched off beats an error": ({"enabled": False, "is_error": True}, 10**9, 10**9, "disabled"),
    "switched off beats every limit": ({"enabled": False, "max_result_tokens": 1}, 10**9, 10**9, "disabled"),
    "our own tools beat errors and limits": ({"own_tool": True, "is_error": True}, 10**9, 10**9, "own_tool"),
    "an error beats the absolute limits": ({"is_error": True, "max_result_tokens": 1}, 100, 50, "error"),
    "an error beats the ceiling": ({"is_error": True, "max_threshold_bytes": 50}, 100, 50, "error"),
    "tokens before bytes": ({"max_result_tokens": 10, "max_output_bytes": 10}, 100, 100, "max_result_tokens"),
    "max_result_tokens beats the floor": (
        {"max_result_tokens": 10, "min_threshold_bytes": 1_000}, 100, 11, "max_result_tokens"
    ),
    "max_output_bytes beats a floor above it": (
        {"max_output_bytes": 100, "min_threshold_bytes": 1_000}, 100, 1, "max_output_bytes"
    ),
    "below both, the floor": ({"max_output_bytes": 100, "min_threshold_bytes": 1_000}, 99, 1, "below_floor"),
    "max_output_bytes beats a ceiling below it": (
        {"max_output_bytes": 100, "max_threshold_bytes": 50}, 100, 1, "max_output_bytes"
    ),
    "between the two, the ceiling": ({"max_output_bytes": 100, "max_threshold_bytes": 50}, 51, 1, "above_ceiling"),
    "the floor beats a smaller share of the window": (
        {"min_threshold_bytes": 1_000, "context_percentage": 0.1}, 1_000, 1, "fits"
    ),
    "above the floor, the share": (
        {"min_threshold_bytes": 1_000, "context_percentage": 0.1}, 1_001, 1, "context_percentage"
    ),
    "the ceiling beats a larger share": (
        {"max_threshold_bytes": 50, "context_percentage": 1.0}, 51, 1, "above_ceiling"
    ),
    "floor and ceiling in one place: just that size": (
        {"min_threshold_bytes": 50, "max_threshold_bytes": 50, "context_percentage": 0.0}, 50, 1, "fits"
    ),
    "and no more": (
        {"min_threshold_bytes": 50, "max_threshold_bytes": 50, "context_percentage": 0.0}, 51, 1, "above_ceiling"
    ),
    "a share of nothing lets nothing through": ({"context_percentage": 0.0}, 1, 0, "context_percentage"),
    "but what is empty": ({"context_percentage": 0.0}, 0, 0, "fits"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFLICTS)
def test_where_knobs_disagree_one_wins(name: str) -> None:
    knobs, size, tokens, reason = CONFLICTS[name]
    about = {key: True for key in ("is_error", "own_tool") if key in knobs}
    policy = Policy(**OPEN | {key: value for key, value in knobs.items() if key not in about})
    assert per_output(policy, size=size, tokens=tokens, window=100, **about).reason == reason


@pytest.mark.parametrize(
    ("percentage", "context", "tokens", "fits"),
    [
        (1.0, 150, 50, True),  # off, also beyond the window
        (0.999, 99, 1, False),
        (0.99, 98, 1, True),
        (0.0, 0, 1, False),
        (0.0, 0, 0, True),
        (0.5, 60, 0, False),  # what is past the limit already takes not even nothing
        (0.5, 50, 0, True),
    ],
)
def test_headroom_at_its_ends(percentage: float, context: int, tokens: int, fits: bool) -> None:
    policy = Policy(headroom_percentage=percentage)
    assert headroom(policy, tokens=tokens, context=context, window=100).fits == fits


@given(
    st.builds(
        Policy,
        enabled=st.booleans(),
        context_percentage=st.none() | st.floats(0, 1),
        min_threshold_bytes=st.integers(0, 60),
        max_threshold_bytes=st.none() | st.integers(60, 120),
        max_result_tokens=st.none() | st.integers(1, 100),
        max_output_bytes=st.none() | st.integers(1, 100),
        truncate_tokens=st.integers(50, 100),
        errors=st.sampled_from(["truncate", "inline"]),
    ),
    st.integers(0, 150),
    st.integers(0, 150),
    st.integers(1, 100),
    st.booleans(),
    st.booleans(),
)
def test_any_policy_decides_as_the_rules_read(
    policy: Policy, size: int, tokens: int, window: int, is_error: bool, own_tool: bool
) -> None:
    share = None if policy.context_percentage is None else int(window * policy.context_percentage * 4 + 1e-6)
    ceiling = policy.max_threshold_bytes
    rules = [
        ("disabled", True, not policy.enabled),
        ("own_tool", True, own_tool),
        ("error", policy.errors == "inline" or tokens <= policy.truncate_tokens, is_error),
        ("max_result_tokens", False, policy.max_result_tokens is not None and tokens > policy.max_result_tokens),
        ("max_output_bytes", False, policy.max_output_bytes is not None and size >= policy.max_output_bytes),
        ("below_floor", True, size < policy.min_threshold_bytes),
        ("above_ceiling", False, ceiling is not None and size > ceiling),
        ("context_percentage", False, share is not None and size > max(share, policy.min_threshold_bytes)),
        ("fits", True, True),
    ]
    reason, fits = next((reason, fits) for reason, fits, applies in rules if applies)
    verdict = per_output(policy, size=size, tokens=tokens, window=window, is_error=is_error, own_tool=own_tool)
    assert (verdict.reason, verdict.fits) == (reason, fits)


@pytest.mark.parametrize(("tokens", "fits"), [(0, True), (29_999, True), (30_000, True), (30_001, False)])
def test_headroom_at_its_limit(tokens: int, fits: bool) -> None:
    verdict = headroom(Policy(), tokens=tokens, context=40_000, window=100_000)
    assert (verdict.fits, verdict.value, verdict.limit, verdict.unit) == (fits, 40_000 + tokens, 70_000, "tokens")


# Through `process`, on every database

BARE = {"max_result_tokens": None, "plaintext": "truncate"}
"""Only the byte gates and headroom, and text is truncated where they fire."""


def full(session: Session, tokens: int) -> Session:
    session.record_usage(Usage(input_tokens=tokens, output_tokens=0))
    return session


def decide(session: Session, output: object) -> tuple[str, str]:
    result = session.process(output, tool="t")
    if result.route in ("inline", "wholesale"):
        assert result.content == output
    else:
        assert result.content != output
    return result.route, result.reason


Decided = list[tuple[object, str, str]]
EDGES: dict[str, tuple[dict[str, Any], int, Decided]] = {
    "the floor beats everything but the absolute limits": (
        BARE, 198_000,
        [(prose(1_023), "inline", "below_floor"), (prose(4_095), "inline", "below_floor"), (prose(4_096), "truncate", "headroom")],
    ),
    "the floor counts bytes, not characters": (
        BARE, 198_000, [("\u00e9" * 2_047, "inline", "below_floor"), ("\u00e9" * 2_048, "truncate", "headroom")],
    ),
    "a share of the window": (
        BARE | {"window": 8_000, "headroom_percentage": 1.0}, 0,
        [(prose(7_999), "inline", "fits"), (prose(8_000), "inline", "fits"), (prose(8_001), "truncate", "context_percentage")],
    ),
    "the share counts bytes": (
        BARE | {"headroom_percentage": 1.0}, 0,
        [(prose(190_000), "inline", "fits"), ("\u6f22" * 70_000, "truncate", "context_percentage")],
    ),
    "the ceiling beats any window": (
        BARE | {"window": 10_000_000}, 0,
        [(prose(1_048_575), "inline", "fits"), (prose(1_048_576), "inline", "fits"), (prose(1_048_577), "truncate", "above_ceiling")],
    ),
    "tokens of text": (
        {"plaintext": "truncate"}, 0,
        [(prose(27_996), "inline", "fits"), (prose(28_000), "inline", "fits"), (prose(28_001), "truncate", "max_result_tokens")],
    ),
    "tokens of JSON": (
        {"plaintext": "truncate"}, 0,
        [(json_text(13_998), "inline", "fits"), (json_text(14_000), "inline", "fits"), (json_text(14_001), "variables", "max_result_tokens")],
    ),
    "bytes are too many at their limit": (
        BARE | {"max_output_bytes": 51_200}, 0,
        [(prose(51_199), "inline", "fits"), (prose(51_200), "truncate", "max_output_bytes"),
         ("\u00e9" * 25_600, "truncate", "max_output_bytes"), ("\u00e9" * 25_599, "inline", "fits")],
    ),
    "absolute limits go before the floor": (
        {"max_result_tokens": 600, "plaintext": "truncate"}, 0,
        [(prose(2_400), "inline", "below_floor"), (prose(2_401), "truncate", "max_result_tokens")],
    ),
    "just below headroom's limit": (BARE | {"window": 100_000}, 68_000, [(prose(7_996), "inline", "fits")]),
    "at headroom's limit": (BARE | {"window": 100_000}, 68_000, [(prose(8_000), "inline", "fits")]),
    "above headroom's limit": (BARE | {"window": 100_000}, 68_000, [(prose(8_001), "truncate", "headroom")]),
    "headroom is off at one": (
        BARE | {"window": 10_000, "headroom_percentage": 1.0}, 15_000, [(prose(5_000), "inline", "fits")],
    ),
    "neither gate fires": (BARE, 0, [(prose(50_000), "inline", "fits")]),
    "the output's alone": (BARE, 0, [(prose(250_000), "truncate", "context_percentage")]),
    "headroom's alone": (BARE, 139_000, [(prose(50_000), "truncate", "headroom")]),
    "both": (BARE, 139_000, [(prose(250_000), "truncate", "context_percentage")]),
}  # fmt: skip
"""Knobs, the context's tokens, and outputs in their order with what becomes of each."""


@pytest.mark.parametrize("name", EDGES)
def test_what_becomes_of_outputs_at_the_edges(counted: Opener, name: str) -> None:
    knobs, context, outputs = EDGES[name]
    session = full(counted(**knobs), context)
    assert [decide(session, output) for output, _, _ in outputs] == [(route, reason) for _, route, reason in outputs]


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_headroom_catches_many_medium_outputs(counted: Opener) -> None:
    session = counted(100_000, **BARE)
    routes = [session.process(prose(20_000), tool="t").route for _ in range(15)]
    assert routes == ["inline"] * 14 + ["truncate"]


def test_headroom_judges_neither_errors_nor_our_own_tools(counted: Opener) -> None:
    session = full(counted(truncate_tokens=2_500, **BARE), 199_000)
    failed = session.process(prose(10_000), tool="t", is_error=True)
    assert (failed.route, failed.reason) == ("inline", "error")
    assert session.process(prose(10_000), tool="artifact_read").reason == "own_tool"


def test_switched_off_headroom_lets_the_context_pass_the_window(counted: Opener) -> None:
    session = full(counted(100_000, headroom_percentage=1.0, **BARE), 150_000)
    assert decide(session, prose(5_000)) == ("inline", "fits")
    assert session.context_tokens() == 151_250


def test_compaction_makes_room_and_changes_no_earlier_envelope(counted: Opener) -> None:
    session = full(counted(100_000), 69_000)
    before = session.process(records(200), tool="t", call_id="c")
    assert (before.route, before.reason) == ("variables", "headroom")
    session.on_compaction(5_000)
    assert session.process(records(200), tool="t").route == "inline"
    assert session.process(records(200), tool="t", call_id="c").content == before.content


def test_switched_off_everything_passes(counted: Opener) -> None:
    session = full(counted(1_000, enabled=False), 5_000)
    output = prose(3_000_000)
    result = session.process(output, tool="t")
    assert (result.route, result.reason, result.content, result.artifacts) == ("inline", "disabled", output, [])


def test_one_tool_may_have_knobs_of_its_own(counted: Opener) -> None:
    session = counted(
        plaintext="truncate", per_tool={"get_cart": {"enabled": False}, "strict": {"max_result_tokens": 10}}
    )
    cart = records(4_000)
    assert session.process(cart, tool="get_cart").route == "inline"
    assert session.process(cart, tool="other").route == "variables"
    assert session.process(prose(400), tool="strict").reason == "max_result_tokens"


# Text


def test_text_goes_whole_within_ceiling_and_headroom(counted: Opener) -> None:
    session = counted()
    letter, report = prose(4_200), prose(40_000)
    assert decide(session, letter) == ("inline", "fits")
    assert decide(session, report) == ("wholesale", "max_result_tokens")
    assert [variable.value() for variable in session.variables()] == [letter, report]
    assert decide(session, prose(2_000_000))[0] == "truncate"
    assert decide(full(counted(), 138_000), report)[0] == "truncate"


def test_wholesale_at_the_boundaries(counted: Opener) -> None:
    session = counted(10_000_000, wholesale_tokens=None)
    assert decide(session, prose(1_048_576)) == ("wholesale", "max_result_tokens")
    assert decide(session, prose(1_048_577)) == ("truncate", "max_result_tokens")
    at, above = (full(counted(100_000), 60_000) for _ in range(2))
    assert decide(at, prose(40_000)) == ("wholesale", "max_result_tokens")
    assert decide(above, prose(40_001)) == ("truncate", "headroom")


@pytest.mark.parametrize("size", [40_000, 2_000_000])
def test_a_fixed_choice_for_text_is_kept(counted: Opener, size: int) -> None:
    text = prose(size)
    assert counted(plaintext="truncate").process(text, tool="t").route == "truncate"
    assert counted(plaintext="artifact").process(text, tool="t").route == "artifact"
    assert counted(plaintext="artifact", mode="truncate").process(text, tool="t").route == "truncate"


# Structured: by the tools there are


@pytest.mark.parametrize(
    ("tools", "route"),
    [
        ([], "truncate"),
        (["list_artifacts"], "truncate"),
        (["get_artifact", "store_artifact"], "artifact"),
        (["artifact_read"], "artifact"),
        (["artifact_grep"], "artifact"),
        (["artifact_jq"], "artifact"),
        (["artifact_read", "artifact_jq"], "artifact"),
        (["code_interpreter"], "variables"),
        (["artifact_read", "code_interpreter"], "variables"),
    ],
)
def test_never_a_reference_the_model_cannot_follow(counted: Opener, tools: list[str], route: str) -> None:
    session = counted(tools=tools)
    result = session.process(records(2_000), tool="t")
    assert result.route == route
    text = session.process(prose(2_000_000), tool="t")
    assert text.route == "truncate"
    for name in ("code_interpreter", "artifact_read", "artifact_grep", "artifact_jq"):
        assert name in tools or (name not in result.content and name not in text.content)
    readable = {"code_interpreter", "artifact_read", "artifact_grep", "get_artifact"} & set(tools)
    assert ("art_" in text.content) == bool(readable)


# Errors


def test_an_error_is_never_behind_a_reference(counted: Opener) -> None:
    for output in (
        prose(10_000),
        prose(10_001),
        prose(3_000_000),
        records(50_000),
        '{"error": "' + "x" * 100_000 + '"}',
    ):
        session = full(counted(), 199_000)
        result = session.process(output, tool="t", is_error=True)
        assert result.is_error
        assert result.route == ("inline" if result.original_tokens <= 2_500 else "truncate")
        assert result.reason == "error"
        assert result.tokens <= 2_500


# Many at once


def check_reservations(session: Session, limit: int) -> int:
    """Outputs that the gate let in found room for themselves, and the ledger's sums are what each of them saw."""
    context, entered = 0, 0
    for entry in session.ledger():
        assert entry.detail["context"] == context
        if entry.route in ("inline", "wholesale") and entry.reason != "below_floor":
            assert context + entry.tokens <= limit
            entered += 1
        context += entry.tokens
    assert session.context_tokens() == context
    return entered


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_parallel_calls_cannot_pass_the_gate_together(counted: Opener) -> None:
    session = counted(20_000, plaintext="truncate", truncate_tokens=100, max_result_tokens=None)
    start = threading.Barrier(16)

    def work(i: int) -> str:
        start.wait()
        return session.process(f"{i:02}" + prose(7_998), tool="t", call_id=f"call {i}").route

    with ThreadPoolExecutor(16) as threads:
        routes = list(threads.map(work, range(16)))
    entered = check_reservations(session, 14_000)
    assert entered == routes.count("inline") and 5 <= entered <= 7
    assert [entry.step for entry in session.ledger()] == list(range(1, 17))


PROCESS = """
from byref import CharCounter, Engine, Policy
with Engine(sys.argv[1], counter=CharCounter(), policy=Policy(plaintext="truncate", truncate_tokens=100, max_result_tokens=None)) as engine:
    session = engine.session("chat", tenant="t", context_window=20_000)
    go()
    text = "\\n".join(f"{i:06} the quick brown fox jumps over the lazy dog." for i in range(160))[:8_000]
    print(*[session.process(text, tool="t").route for _ in range(4)])
"""


@pytest.mark.slow
def test_processes_cannot_pass_the_gate_together(shared_url: str, race: Callable[..., list[str]]) -> None:
    routes = " ".join(race(4, PROCESS, shared_url)).split()
    with Engine(shared_url, counter=CharCounter()) as engine:
        session = engine.session("chat", tenant="t")
        entered = check_reservations(session, 14_000)
    assert entered == routes.count("inline") and 5 <= entered <= 7
    assert len(routes) == 16
