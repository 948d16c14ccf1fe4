"""Many threads and processes at once: every output is there once, in order, whole."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from material import page, prose, records
from sqlcheck import check_invariants

from byref import Engine, SessionGone
from byref_sandbox import Sandbox


@pytest.mark.parametrize("shared_url", [pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"], indirect=True)
@pytest.mark.parametrize("number_of_threads", [6, pytest.param(16, marks=pytest.mark.slow)])
def test_threads_do_everything_at_once(shared_url: str, sandbox: Sandbox, number_of_threads: int) -> None:
    with Engine(shared_url, interpreter=sandbox) as engine:
        engine.session("s").process(page(1_500), tool="users")

        def work(number: int) -> None:
            session = engine.session("s", context_window=10**9)
            for turn in range(2):
                session.process(records(1_500 + number % 4), tool="rows", call_id=f"{number} {turn}")
                session.process(prose(100), tool="t")
                reply = session.call("code_interpreter", {"code": f"mine_{number} = {turn}\nlen(users_2)"})
                assert reply.content.startswith("1500"), reply.content
                session.record_usage({"prompt_tokens": 5, "completion_tokens": 1}, request_id=f"{turn}")
                engine.sweep(grace=timedelta(minutes=1))

        with ThreadPoolExecutor(number_of_threads) as threads:
            list(threads.map(work, range(number_of_threads)))
        session = engine.session("s")
        entries = session.ledger()
        assert [entry.step for entry in entries] == list(range(1, len(entries) + 1))
        kinds = [entry.kind for entry in entries]
        assert (kinds.count("output"), kinds.count("reply"), kinds.count("usage")) == (
            1 + 4 * number_of_threads,
            2 * number_of_threads,
            2,
        )
        names = [variable.name for variable in session.variables()]
        assert len(names) == len(set(names)) == 3 + 3 * number_of_threads
        for number in range(number_of_threads):
            assert session.variable(f"mine_{number}").value() == 1
        assert (
            len({artifact.digest for artifact in session.artifacts() if artifact.step and artifact.shape != "x"}) >= 5
        )
    check_invariants(shared_url)


@pytest.mark.slow
def test_in_memory_threads_take_turns(sandbox: Sandbox) -> None:
    with Engine("sqlite:///:memory:", interpreter=sandbox) as engine:

        def work(number: int) -> Any:
            session = engine.session(f"s{number % 4}")
            session.process(records(1_500), tool="rows")
            return session.call("code_interpreter", {"code": "len(rows)"}).content

        with ThreadPoolExecutor(16) as threads:
            assert set(threads.map(work, range(16))) == {"1500"}
        assert sum(len(engine.session(f"s{i}").ledger()) for i in range(4)) == 32


WORKS = """
import random
from byref import Engine
with Engine(sys.argv[1]) as engine:
    go()
    for turn in range(5):
        name = f"s{random.randrange(3)}"
        session = engine.session(name, context_window=10**9)
        result = session.process([{"id": i, "turn": turn} for i in range(3_000)], tool="rows", call_id=f"{name} {turn}")
        assert result.route == "variables", result.route
        assert session.variable(result.variables[0].name).value()[-1] == {"id": 2_999, "turn": turn}
        print(name, result.step, result.artifacts[0].id, turn)
"""


@pytest.mark.slow
@pytest.mark.parametrize("shared_url", [pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"], indirect=True)
def test_processes_share_conversations(shared_url: str, race: Callable[..., list[str]]) -> None:
    lines = [line.split() for printed in race(4, WORKS, shared_url) for line in printed.splitlines()]
    assert len(lines) == 20
    seen = {(name, step): (artifact, turn) for name, step, artifact, turn in lines}
    for name, step, artifact, turn in lines:
        assert seen[name, step] == (artifact, turn)
    check_invariants(shared_url)
    with Engine(shared_url) as engine:
        for info in engine.sessions():
            steps = {int(step) for name, step, *_ in lines if name == info.id}
            assert steps == set(range(1, info.steps + 1))


@pytest.mark.slow
@pytest.mark.parametrize("shared_url", [pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"], indirect=True)
def test_deleting_while_others_write(shared_url: str, sandbox: Sandbox) -> None:
    with Engine(shared_url, interpreter=sandbox) as engine:
        chance = random.Random(3)

        def work(number: int) -> None:
            for _ in range(4):
                try:
                    if number % 4 == 0:
                        engine.delete_session("s")
                        engine.sweep(grace=timedelta(seconds=30))
                    else:
                        engine.session("s").process(records(1_500 + chance.randrange(2)), tool="rows")
                except SessionGone:
                    pass

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))
        check_invariants(shared_url)
        session = engine.session("s")
        session.process(records(1_500), tool="last")
        assert session.variable("last").value() == records(1_500)
