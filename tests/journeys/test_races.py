"""The same thing written twice at the same moment: one waits for the other and continues with what it finds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from material import page, records
from sqlalchemy import Engine as HostEngine
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session as HostSession
from sqlcheck import check_invariants

from byref import Engine, StorageFailure
from byref.db.database import RACES
from byref.db.tables import SessionRow
from byref_sandbox import Sandbox

ON_POSTGRESQL = pytest.mark.parametrize(
    "shared_url", [pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"], indirect=True
)
"""SQLite has one writer: a quick run has one race on it."""


@pytest.fixture
def shared(shared_url: str, sandbox: Sandbox) -> Iterator[Engine]:
    """An engine on a database of this test's own."""
    with Engine(shared_url, interpreter=sandbox) as engine:
        yield engine
    check_invariants(shared_url)


@pytest.fixture
def host(postgres_url: str) -> Iterator[HostEngine]:
    """A host's engine on PostgreSQL: SQLite has no two transactions that write at once."""
    engine = create_engine(postgres_url)
    yield engine
    engine.dispose()


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """What each returns; all begin together."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        start.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


@pytest.mark.quick_cases(1)
def test_six_conversations_store_the_same_bytes(shared: Engine) -> None:
    sessions = [shared.session(f"s{i}") for i in range(6)]
    for turn in range(6):
        value = {"turn": turn, "rows": ["y" * 50] * 2_000}
        stored = at_once(*(lambda s=s: s.store_artifact(value) for s in sessions))
        assert len({artifact.digest for artifact in stored}) == 1
        assert len({artifact.payload.blob_id for artifact in stored}) == 1
        assert {len(session.artifacts()) for session in sessions} == {turn + 1}


@pytest.mark.slow
@ON_POSTGRESQL
def test_six_conversations_run_to_the_same_bytes(shared: Engine) -> None:
    sessions = [shared.session(f"s{i}") for i in range(6)]
    for turn in range(2):
        outcomes = at_once(*(lambda s=s: s.run(f"kept = list(range({turn}, 9_000))") for s in sessions))
        assert [outcome.error for outcome in outcomes] == [None] * 6
        assert [session.variable("kept").value()[0] for session in sessions] == [turn] * 6


@ON_POSTGRESQL
def test_six_conversations_are_given_the_same_bytes(shared: Engine) -> None:
    giver, _ = shared.session("giver"), [shared.session(f"s{i}") for i in range(6)]
    artifact = giver.store_artifact(page())
    at_once(*(lambda i=i: giver.share(artifact, f"s{i}") for i in range(6)))
    assert {shared.session(f"s{i}").artifacts()[0].payload.blob_id for i in range(6)} == {artifact.payload.blob_id}


@pytest.mark.slow
@ON_POSTGRESQL
def test_a_conversation_ends_while_others_begin_to_use_its_bytes(shared: Engine) -> None:
    for turn in range(4):
        ending, going = shared.session(f"ending {turn}"), shared.session("going", context_window=10**9)
        output = [turn, *records(1_500)]
        ending.process(output, tool="rows")
        at_once(ending.end, lambda: going.process(output, tool="rows"), lambda: shared.session("x").run("1"))
        assert going.variables()[-1].artifact.value == output


def test_host_transactions_open_the_same_new_conversation(
    postgres_url: str, host: HostEngine, sandbox: Sandbox
) -> None:
    with Engine(postgres_url, interpreter=sandbox) as engine:

        def open_it(name: str) -> int:
            with HostSession(host) as transaction:
                session = engine.session(name, db=transaction)
                step = session.process("x", tool="t").step
                time.sleep(0.02)
                transaction.commit()
            assert step is not None
            return step

        for turn in range(4):
            steps = at_once(*(lambda turn=turn: open_it(f"new {turn}") for _ in range(3)))
            assert sorted(steps) == [1, 2, 3]
        assert len(engine.sessions()) == 4
    check_invariants(postgres_url)


def test_a_conversation_ends_while_a_host_transaction_uses_its_bytes(
    postgres_url: str, host: HostEngine, sandbox: Sandbox
) -> None:
    with Engine(postgres_url, interpreter=sandbox) as engine:
        ending = engine.session("ending")
        ending.process(page(), tool="users")
        engine.session("going")
        with HostSession(host) as transaction, ThreadPoolExecutor(1) as threads:
            engine.session("going", db=transaction).process(page(), tool="users")
            ended = threads.submit(ending.end)
            time.sleep(0.3)
            transaction.commit()
            ended.result(timeout=20)
        assert ending.artifacts() == []
        assert engine.session("going").variable("users").value() == page()
    check_invariants(postgres_url)


def test_a_sweep_waits_for_no_transaction(postgres_url: str, host: HostEngine, sandbox: Sandbox) -> None:
    with Engine(postgres_url, interpreter=sandbox) as engine:
        kept = engine.session("kept")
        artifact = kept.store_artifact(page())
        with HostSession(host) as transaction:
            engine.session("other", db=transaction).store_artifact(page())
            engine.database.write(lambda c: c.exec_driver_sql("DELETE FROM byref_artifacts"))
            started = time.monotonic()
            assert engine.sweep(grace=timedelta(hours=-1)).blobs == 0
            assert time.monotonic() - started < 5
            transaction.commit()
        assert engine.session("other").artifacts()[0].value == artifact.value == page()
        assert engine.sweep(grace=timedelta(hours=-1)).blobs == 0


@pytest.mark.parametrize("joined", [True, False])
def test_what_a_constraint_refuses_for_good_is_said_without_its_values(
    shared: Engine, shared_url: str, joined: bool
) -> None:
    host, runs = create_engine(shared_url), []

    def work(connection: Any) -> None:
        runs.append(1)
        row = connection.execute(SessionRow.__table__.select()).mappings().first()
        connection.execute(insert(SessionRow).values({**row, "id": 1, "policy": "a secret"}))

    shared.session("a name")
    with HostSession(host) as transaction:
        session = shared.session("a name", db=transaction if joined else None)
        with pytest.raises(StorageFailure, match="constraint") as raised:
            session._scope.write(work)
        transaction.commit()
    host.dispose()
    assert len(runs) == RACES
    for word in ("INSERT", "secret", "a name"):
        assert word not in str(raised.value)
    assert raised.value.__context__ is raised.value.__cause__ or raised.value.__context__ is None
