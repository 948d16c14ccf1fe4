"""Within a turn, a call with a call id is answered once; in a later turn the same id is another call."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from material import prose

from byref import Engine, Session, Usage

ALL = ["code_interpreter", "store_artifact", "list_artifacts", "artifact_read"]


@pytest.fixture
def turns(engine: Engine, tenant: str) -> Session:
    return engine.session("turns", tenant=tenant, tools=ALL)


def end_turn(session: Session, how: str) -> None:
    if how == "usage":
        session.record_usage(Usage(input_tokens=100, output_tokens=10))
    else:
        session.on_compaction(50)


@pytest.mark.parametrize("how", ["usage", "compaction"])
def test_a_call_id_comes_back_with_every_turn(turns: Session, how: str) -> None:
    def value() -> tuple[int | None, str]:
        reply = turns.call("code_interpreter", {"code": "n"}, call_id="call_0")
        return reply.step, reply.content

    for n in (1, 2, 3):
        turns.call("code_interpreter", {"code": f"n = {n}"}, call_id="call_1")
        step, content = value()
        assert content == str(n)
        assert value() == (step, content)
        assert turns.call("list_artifacts", {}, call_id="call_2").step == (step or 0) + 1
        end_turn(turns, how)
    assert [entry.kind for entry in turns.ledger()].count("reply") == 9


@pytest.mark.postgresql("a condition on a column of booleans finds the last step that ended a turn")
def test_a_side_call_does_not_end_the_turn(turns: Session) -> None:
    turns.record_usage(Usage(input_tokens=100, output_tokens=10))
    code = {"code": "n = globals().get('n', 0) + 1\nn"}
    first = turns.call("code_interpreter", code, call_id="call_0")
    turns.record_usage(Usage(input_tokens=10), context=False)
    assert turns.call("code_interpreter", code, call_id="call_0") == first
    turns.record_usage(Usage(input_tokens=100, output_tokens=10))
    turns.record_usage(Usage(input_tokens=10), context=False)
    assert turns.call("code_interpreter", code, call_id="call_0").text.startswith("2\n")


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_what_is_run_again_is_accounted_and_what_is_replayed_is_not(turns: Session) -> None:
    first = turns.call("list_artifacts", {}, call_id="call_0")
    assert first.content == "[]"
    assert turns.context_tokens() == first.tokens
    turns.store_artifact("text", name="mine")
    assert turns.call("list_artifacts", {}, call_id="call_0") == first
    assert turns.context_tokens() == first.tokens
    turns.record_usage(Usage(input_tokens=100, output_tokens=10))
    later = turns.call("list_artifacts", {}, call_id="call_0")
    assert '"mine"' in later.content
    assert turns.context_tokens() == 110 + later.tokens
    assert turns.explain("call_0").step == later.step


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_an_output_stays_one_output(turns: Session) -> None:
    first = turns.process(prose(6_000), tool="t", call_id="call_0")
    turns.record_usage(Usage(input_tokens=3_000, output_tokens=10))
    again = turns.process(prose(6_000), tool="t", call_id="call_0")
    assert (again.step, again.content) == (first.step, first.content)


@pytest.mark.slow
@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_in_each_turn_eight_threads_with_one_call_make_one_step(turns: Session) -> None:
    start = threading.Barrier(8)

    def work(_: int) -> tuple[int | None, str]:
        start.wait()
        reply = turns.call("code_interpreter", {"code": "import random\nrandom.random()"}, call_id="call_0")
        return reply.step, reply.content

    seen = set()
    with ThreadPoolExecutor(8) as threads:
        for turn in range(3):
            replies = set(threads.map(work, range(8)))
            assert len(replies) == 1
            seen |= replies
            turns.record_usage(Usage(input_tokens=100, output_tokens=turn))
    assert len(seen) == 3
    assert [entry.kind for entry in turns.ledger()] == ["reply", "usage"] * 3
