"""Calls at the same moment cannot pass the limit together, in threads or in processes, and none is refused for nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import ceil

import pytest
from material import prose
from sqlalchemy import create_engine
from sqlalchemy.orm import Session as HostSession
from sqlcheck import check_invariants

from byref import CharCounter, Engine, Entry, Policy, Session, Usage

LIMIT = 70_000
POLICY = Policy(plaintext="truncate", truncate_tokens=50, max_result_tokens=None, context_percentage=None)


@pytest.fixture
def shared(shared_url: str) -> Iterator[Engine]:
    """An engine on a database of this test's own; tokens are characters divided by four."""
    with Engine(shared_url, counter=CharCounter(), policy=POLICY) as engine:
        yield engine
    check_invariants(shared_url)


def begun(engine: Engine, growth: int) -> Session:
    """A conversation whose provider has just counted `growth` tokens for 2,000 of ours."""
    session = engine.session("chat", context_window=100_000)
    session.record_usage(Usage(1_000, 0))
    session.process(prose(8_000), tool="t")
    session.record_usage(Usage(1_000 + growth, 0))
    return session


def check(session: Session) -> list[Entry]:
    """Replay the ledger, which is in one order whatever happened at once; return the outputs that were judged."""
    base, reported, estimated, wrote, last, added = 0, 2_000, 2_000, None, 0, dict[int, int]()
    entries, judged = session.ledger(), []
    assert [entry.step for entry in entries] == list(range(1, len(entries) + 1))

    def context(more: int = 0) -> int:
        return base + ceil((pending(last) + more) * reported / estimated)

    def pending(after: int) -> int:
        return sum(tokens for step, tokens in added.items() if step > after)

    for entry in entries:
        if entry.kind == "compaction":
            base, wrote, last = entry.tokens, None, entry.step
        elif entry.kind == "usage":
            assert entry.input_tokens is not None and entry.output_tokens is not None
            through = entry.detail["through"]
            settled = pending(last) - pending(through)
            growth = entry.input_tokens - base
            if wrote is not None and settled >= 500 and 0 < growth <= 4 * settled:
                believed = sorted([growth, ceil(settled * reported / estimated), growth + wrote])[1]
                kept = min(estimated, 8_000)
                reported, estimated = reported * kept // estimated + believed, kept + settled
                reported = max(ceil(estimated / 2), min(reported, 3 * estimated))
                assert entry.detail["learned"]["calibration"] == round(reported / estimated, 4)
            else:
                assert "learned" not in entry.detail
            base, wrote, last = entry.tokens, entry.output_tokens, through
        else:
            if entry.kind == "output":
                assert entry.detail["context"] == context()
                if entry.reason == "fits":
                    assert context(entry.tokens) <= LIMIT
                if entry.reason == "headroom":
                    assert context(entry.original_tokens or 0) == entry.detail["value"] > LIMIT
                if entry.reason in ("fits", "headroom"):
                    judged.append(entry)
            added[entry.step] = entry.tokens
    assert session.context_tokens() == context()
    return judged


@pytest.mark.slow
@pytest.mark.parametrize(
    "growth", [3_001, *(pytest.param(growth, marks=pytest.mark.slow) for growth in (2_000, 1_403))]
)
@pytest.mark.parametrize("shared_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_sixteen_threads_fill_one_context(shared: Engine, growth: int) -> None:
    begun(shared, growth)
    start = threading.Barrier(16)

    def work(number: int) -> list[str]:
        chance, session = random.Random(number), shared.session("chat")
        start.wait()
        reasons = []
        for turn in range(5):
            text = f"{number:02} {turn:02} {prose(chance.randrange(3_000, 14_000))}"
            reasons.append(session.process(text, tool="t", call_id=f"{number} {turn}").reason)
            if turn % 2:
                session.call("artifact_read", {"artifact_id": "nothing"}, call_id=f"{number} {turn} reply")
        return reasons

    with ThreadPoolExecutor(16) as threads:
        reasons = [reason for each in threads.map(work, range(16)) for reason in each]
    judged = [entry.reason for entry in check(shared.session("chat"))][1:]
    assert sorted(judged) == sorted(reason for reason in reasons if reason != "below_floor")
    assert {"fits", "headroom"} <= set(judged)


@pytest.mark.slow
@pytest.mark.parametrize("shared_url", [pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"], indirect=True)
def test_usage_and_compactions_between_parallel_calls(shared: Engine) -> None:
    session = begun(shared, 2_500)

    def work(number: int) -> None:
        chance = random.Random(number)
        for turn in range(4):
            if number == 0:
                entries = session.ledger()
                through = entries[-1].step - chance.randrange(3)
                given = session.context_tokens() + chance.randrange(-3_000, 3_000)
                session.record_usage(Usage(max(given, 0), chance.randrange(200)), through=through)
            elif number == 1 and turn % 3 == 2:
                session.on_compaction(chance.randrange(20_000))
            else:
                size = chance.randrange(3_000, 40_000)
                session.process(f"{number:02} {turn:02} {prose(size)}", tool="t", call_id=f"{number} {turn}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    check(session)


@pytest.mark.slow
@pytest.mark.parametrize("shared_url", [pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"], indirect=True)
def test_sixteen_threads_bring_the_same_output(shared: Engine) -> None:
    session = begun(shared, 3_000)
    text, small, before = prose(20_000), prose(100), session.context_tokens()
    start = threading.Barrier(16)

    def work(number: int) -> tuple[int | None, int | None]:
        start.wait()
        one = session.process(text, tool="t", call_id="one")
        other = session.process(small, tool="t", call_id="other")
        return one.step, other.step

    with ThreadPoolExecutor(16) as threads:
        steps = set(threads.map(work, range(16)))
    assert len(steps) == 1
    assert session.context_tokens() == before + ceil((5_000 + 25) * 5_000 / 4_000)
    check(session)


def test_a_hosts_rollback_takes_back_what_was_learned_too(shared: Engine, shared_url: str) -> None:
    session = begun(shared, 3_000)
    session.process(prose(8_000), tool="t")
    before, steps = session.context_tokens(), len(session.ledger())
    host = create_engine(shared_url)
    with HostSession(host) as transaction:
        joined = shared.session("chat", db=transaction)
        joined.record_usage(Usage(4_000 + 6_000, 0))
        joined.process(prose(8_001), tool="t")
        assert joined.context_tokens() > before
        transaction.rollback()
    host.dispose()
    assert (session.context_tokens(), len(session.ledger())) == (before, steps)
    check(session)


FILLS = """
import random
from byref import CharCounter, Engine, Policy
policy = Policy(plaintext="truncate", truncate_tokens=50, max_result_tokens=None, context_percentage=None)
with Engine(sys.argv[1], counter=CharCounter(), policy=policy) as engine:
    session = engine.session("chat")
    go()
    for turn in range(10):
        size = random.randrange(6_000, 16_000)
        text = "\\n".join(f"{random.random()} the quick brown fox jumps over the lazy dog." for _ in range(size // 60))
        print(session.process(text, tool="t", call_id=f"call {turn}").reason)
        if turn % 4 == 0:
            session.call("artifact_read", {"artifact_id": "nothing"})
"""


@pytest.mark.slow
def test_four_processes_fill_one_context(shared: Engine, shared_url: str, race: Callable[..., list[str]]) -> None:
    session = begun(shared, 3_001)
    reasons = " ".join(race(4, FILLS, shared_url)).split()
    judged = [entry.reason for entry in check(session)][1:]
    assert len(reasons) == 40
    assert sorted(judged) == sorted(reason for reason in reasons if reason != "below_floor")
    assert {"fits", "headroom"} <= set(judged)
