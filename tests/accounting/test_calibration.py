"""A session learns from the providers' counts, and corrects ours by what it has learnt."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from material import Opener, prose

from byref import Session, Usage
from byref.accounting import ledger
from byref.accounting.calibration import LEAST_TOKENS, MEMORY_TOKENS, MOST_GROWTH, PRIOR_TOKENS, Standing

COUNTS = st.integers(0, 10**6)
TEXT = {"plaintext": "truncate", "max_result_tokens": None, "truncate_tokens": 100, "context_percentage": 1.0}


def standing(
    base: int = 0, pending: int = 0, reported: int = PRIOR_TOKENS, estimated: int = PRIOR_TOKENS, output: int | None = 0
) -> Standing:
    return Standing(base=base, base_output=output, pending=pending, reported=reported, estimated=estimated)


@st.composite
def standings(draw: st.DrawFn) -> Standing:
    estimated = draw(st.integers(1, 10**6))
    reported = draw(st.integers(-(-estimated // 2), 3 * estimated))
    return standing(draw(COUNTS), draw(COUNTS), reported, estimated, draw(st.none() | COUNTS))


# The arithmetic


@given(COUNTS, COUNTS, COUNTS, st.integers(1, 10**9))
def test_uncalibrated_every_number_is_our_own(base: int, pending: int, tokens: int, weight: int) -> None:
    now = standing(base, pending, weight, weight)
    assert (now.calibration, now.context, now.expected(tokens)) == (1.0, base + pending, tokens)


@given(standings(), st.lists(COUNTS, max_size=6))
def test_pieces_add_up_to_the_whole(now: Standing, pieces: list[int]) -> None:
    context, pending = now.context, now.pending
    for piece in pieces:
        step = standing(now.base, pending, now.reported, now.estimated)
        assert step.context == context
        context, pending = context + step.expected(piece), pending + piece
    assert context == now.context + now.expected(sum(pieces))


@given(standings(), COUNTS)
def test_rounding_is_up_and_by_less_than_one(now: Standing, tokens: int) -> None:
    exact = now.pending * now.reported
    assert exact <= (now.context - now.base) * now.estimated < exact + now.estimated
    assert abs(now.expected(tokens) * now.estimated - tokens * now.reported) < now.estimated
    assert now.expected(tokens) <= now.expected(tokens + 1)


@pytest.mark.slow
@given(standings(), st.lists(st.tuples(st.integers(0, 50_000), st.integers(-1_000, 200_000)), max_size=8))
def test_the_factor_stays_between_a_half_and_three(now: Standing, seen: list[tuple[int, int]]) -> None:
    for settled, growth in seen:
        learned = now.learned(settled=settled, sent=now.base + growth)
        if learned is not None:
            reported, estimated = learned
            now = standing(now.base, 0, reported, estimated, now.base_output)
        assert 0.5 <= now.calibration <= 3
        assert now.estimated <= max(10**6, MEMORY_TOKENS + 50_000)


@pytest.mark.parametrize("true", [0.7, 0.9, 1.0, 1.2, 1.6, 2.5])
def test_it_comes_near_the_truth_within_five_requests(true: float) -> None:
    now = standing()
    for _ in range(5):
        now = standing(0, 0, *(now.learned(settled=4_000, sent=round(4_000 * true)) or (0, 1)))
    assert now.calibration == pytest.approx(true, rel=0.05)


def test_another_model_is_learned_too() -> None:
    now = standing(reported=2 * 10**6, estimated=10**6)
    for _ in range(5):
        now = standing(0, 0, *(now.learned(settled=4_000, sent=4_000) or (0, 1)))
    assert now.calibration == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize(
    ("settled", "growth", "output"),
    [
        (LEAST_TOKENS - 1, 600, 0),
        (1_000, 0, 0),
        (1_000, -5, 0),
        (1_000, MOST_GROWTH * 1_000 + 1, 0),
        (1_000, 1_500, None),
        (-1_000, 1_500, 0),
    ],
)
def test_what_teaches_nothing(settled: int, growth: int, output: int | None) -> None:
    now = standing(base=10_000, output=output)
    assert now.learned(settled=settled, sent=10_000 + growth) is None


@pytest.mark.parametrize(
    ("settled", "growth", "reported"),
    [(LEAST_TOKENS, 600, 2_600), (1_000, 1, 2_001), (1_000, MOST_GROWTH * 1_000, 6_000), (1_000, 1_500, 3_500)],
)
def test_what_teaches(settled: int, growth: int, reported: int) -> None:
    assert standing(base=10_000).learned(settled=settled, sent=10_000 + growth) == (reported, 2_000 + settled)


def test_reasoning_that_is_not_sent_again_makes_nothing_smaller() -> None:
    """An output of 5,000 tokens, 4,800 of them reasoning: the input grows by 1,200, though 6,000 were pending."""
    now = standing(base=20_000, output=5_000)
    assert now.learned(settled=6_000, sent=21_200) == (2_000 + 6_000, 2_000 + 6_000)
    assert standing(base=20_000, output=100).learned(settled=6_000, sent=23_900) == (2_000 + 4_000, 2_000 + 6_000)
    assert standing(base=20_000, output=5_000).learned(settled=6_000, sent=29_000) == (2_000 + 9_000, 2_000 + 6_000)


# In a session


def factor(session: Session) -> float:
    scope = session._scope
    return scope.read(lambda connection: ledger.standing(connection, scope.row)).calibration


def say(session: Session, given: int | None, made: int | None = 0, *, context: bool = True) -> None:
    session.record_usage(Usage(input_tokens=given, output_tokens=made), context=context)


def test_a_session_begins_with_the_prior(counted: Opener) -> None:
    scope = counted()._scope
    now = scope.read(lambda connection: ledger.standing(connection, scope.row))
    assert (now.reported, now.estimated, now.base_output) == (PRIOR_TOKENS, PRIOR_TOKENS, None)


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_growth_against_what_was_pending_is_the_factor(counted: Opener) -> None:
    session = counted(**TEXT)
    say(session, 1_000, 50)
    session.process(prose(8_000), tool="t")
    assert session.context_tokens() == 1_050 + 2_000
    say(session, 1_050 + 4_000, 100)
    assert factor(session) == (2_000 + 4_000) / (2_000 + 2_000) == 1.5
    assert session.context_tokens() == 5_150
    assert session.ledger()[-1].detail["learned"] == {"counted": 2_000, "grown": 4_000, "calibration": 1.5}
    assert session.process(prose(8_000), tool="t").tokens == 2_000
    assert session.context_tokens() == 5_150 + 3_000
    session.call("artifact_read", {"artifact_id": "nothing"})
    tokens = session.ledger()[-1].tokens
    assert session.context_tokens() == 5_150 + -(-(2_000 + tokens) * 3 // 2)


def test_only_what_the_request_carried_is_compared(counted: Opener) -> None:
    session = counted(**TEXT)
    say(session, 1_000)
    carried = session.process(prose(8_000), tool="t")
    session.process(prose(20_000), tool="t")
    session.record_usage(Usage(4_000, 0), through=carried.step)
    assert factor(session) == (2_000 + 3_000) / (2_000 + 2_000) == 1.25
    assert session.context_tokens() == 4_000 + 6_250
    say(session, 4_000 + 6_250)
    assert factor(session) == (5_000 + 6_250) / (4_000 + 5_000) == 1.25


def test_first_usage_and_the_one_after_a_compaction_teach_nothing(counted: Opener) -> None:
    session = counted(**TEXT)
    session.process(prose(8_000), tool="t")
    say(session, 6_000)
    assert (factor(session), session.context_tokens()) == (1.0, 6_000)
    session.process(prose(8_000), tool="t")
    session.on_compaction(500)
    session.process(prose(8_000), tool="t")
    say(session, 6_000)
    assert (factor(session), session.context_tokens()) == (1.0, 6_000)
    session.process(prose(8_000), tool="t")
    say(session, 9_000)
    assert factor(session) == 1.25


def test_side_calls_and_unknown_numbers_teach_nothing(counted: Opener) -> None:
    session = counted(**TEXT)
    say(session, 1_000)
    session.process(prose(8_000), tool="t")
    say(session, 5_000, context=False)
    say(session, None, 50)
    assert (factor(session), session.context_tokens()) == (1.0, 3_000)
    say(session, 3_000, None)
    session.process(prose(8_000), tool="t")
    say(session, 7_000)  # has the output in it that nobody counted
    assert factor(session) == 1.0


def test_a_compaction_keeps_what_was_learned(counted: Opener) -> None:
    session = counted(**TEXT)
    say(session, 1_000)
    session.process(prose(8_000), tool="t")
    say(session, 5_000)
    session.on_compaction(100)
    session.process(prose(8_000), tool="t")
    assert session.context_tokens() == 100 + 3_000


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_a_request_recorded_twice_teaches_once(counted: Opener) -> None:
    session = counted(**TEXT)
    say(session, 1_000)
    session.process(prose(8_000), tool="t")
    for _ in range(3):
        session.record_usage(Usage(5_000, 0), request_id="r")
    assert factor(session) == 1.5


def test_sessions_learn_each_for_itself(counted: Opener) -> None:
    learns, other = counted(**TEXT), counted(**TEXT)
    for session in (learns, other):
        say(session, 1_000)
        session.process(prose(8_000), tool="t")
    say(learns, 5_000)
    assert (factor(learns), factor(other)) == (1.5, 1.0)


def test_the_gate_judges_what_the_provider_will_count(counted: Opener) -> None:
    """70,000 tokens is the limit, 5,000 are there: 43,333 of ours are 64,999.5 of the provider's."""
    for tokens, decision in ((43_333, ("inline", "fits")), (43_334, ("truncate", "headroom"))):
        session = counted(100_000, **TEXT)
        say(session, 1_000)
        session.process(prose(8_000), tool="t")
        say(session, 5_000)
        result = session.process(prose(tokens * 4), tool="t")
        assert (result.route, result.reason) == decision
        detail = session.ledger()[-1].detail
        assert detail["context"] == 5_000
        if result.route == "inline":
            assert session.context_tokens() == 70_000
        else:
            assert (detail["value"], detail["limit"]) == (70_001, 70_000)


@pytest.mark.parametrize("true", [0.8, 1.3, 2.0])
def test_a_conversation_fills_the_limit_and_no_more_by_the_providers_count(counted: Opener, true: float) -> None:
    """A provider counts `true` tokens for each of ours, and 20 for each message; the limit is 70,000 of its own."""
    session, real = counted(100_000, **TEXT), 3_000
    for turn in range(80):
        say(session, real, 60)
        real += 60 + 20
        result = session.process(f"{turn:04}{prose(9_996)}", tool="t")
        real += round(result.tokens * true) + 20
        if result.route != "inline":
            break
    one = 2_500 * true
    assert 70_000 - one - 1_000 <= real - round(result.tokens * true) <= 70_000 + 100


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_contexts_seen_by_the_gate_follow_each_other(counted: Opener) -> None:
    session = counted(100_000, **TEXT)
    say(session, 1_000)
    session.process(prose(4_002), tool="t")
    say(session, 2_777)
    for turn in range(7):
        session.process(f"{turn}{prose(4_100 + turn)}", tool="t")
    entries = session.ledger()[3:]
    scope = session._scope
    now = scope.read(lambda connection: ledger.standing(connection, scope.row))
    seen = [entry.detail["context"] for entry in entries] + [session.context_tokens()]
    pending = 0
    for entry, (before, after) in zip(entries, pairwise(seen), strict=True):
        assert before == 2_777 + -(-pending * now.reported // now.estimated)
        pending += entry.tokens
        assert after == 2_777 + -(-pending * now.reported // now.estimated)
