"""Runs of code that wait for approvals, as a tenant's host sees them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, create_engine, update
from sqlalchemy.orm import Session as HostSession

from byref import ConfigurationError, Engine, Function, PendingRun, Policy, Session
from byref.calling import approvals
from byref.conversation import programs
from byref.db.tables import ArtifactRow, SessionRow
from byref.tools import calls

pytestmark = pytest.mark.postgresql("the tables of calls")


def refund(order: int) -> int:
    """Pay back an order."""
    return order


@pytest.mark.quick_cases(1)
def test_the_runs_of_a_tenant_that_wait_are_listed_until_they_are_decided(engine: Engine, tenant: str) -> None:
    def opened(name: str, whose: str = tenant) -> Session:
        return engine.session(name, tenant=whose, functions=[Function.of(refund, approval=True)])

    for name, whose, orders in (("b", tenant, "1, 2"), ("a", tenant, "3"), ("a", f"{tenant} 2", "4")):
        code = f"import asyncio\nawait asyncio.gather(*map(refund, [{orders}]))"
        assert opened(name, whose).call("code_interpreter", {"code": code}, call_id="c1").pending
    opened("a").call("code_interpreter", {"code": "refund(5)"})  # without an id nobody could go on with it
    runs = engine.pending(tenant)
    assert [(one.tenant, one.session, one.call_id) for one in runs] == [(tenant, "b", "c1"), (tenant, "a", "c1")]
    assert [[call.arguments for call in one.calls] for one in runs] == [[{"order": 1}, {"order": 2}], [{"order": 3}]]
    assert engine.pending(tenant, limit=1) == runs[:1]
    assert {one.tenant for one in engine.pending(None)} >= {tenant, f"{tenant} 2"}
    with pytest.raises(ConfigurationError, match="limit"):
        engine.pending(tenant, limit=0)

    def resumed(run: PendingRun) -> str:
        session = opened(run.session, run.tenant)
        return session.resume(run.call_id, {call.id: True for call in run.calls}).text

    assert resumed(runs[0]) == "[1,2]"
    assert engine.pending(tenant) == runs[1:]
    opened("a").end()
    assert engine.pending(tenant) == []


def test_a_run_waits_no_longer_than_the_results_that_it_needs(engine: Engine, tenant: str) -> None:
    policy = Policy(ttl=timedelta(hours=1))
    functions = [Function("get", lambda: ["x" * 20] * 1_000), Function.of(refund, approval=True)]
    for name, code in (("large", "len(get()), refund(1)"), ("small", "refund(2)")):
        session = engine.session(name, tenant=tenant, functions=functions, policy=policy)
        assert session.call("code_interpreter", {"code": code}, call_id="c1").pending
    engine.sweep()
    assert [one.session for one in engine.pending(tenant)] == ["large", "small"]

    def age(connection: Connection) -> None:
        old = datetime.now(UTC) - timedelta(minutes=1)
        connection.execute(update(ArtifactRow).where(ArtifactRow.tenant == tenant).values(expires_at=old))

    engine.database.write(age)
    engine.sweep()
    assert [one.session for one in engine.pending(tenant)] == ["small"]
    large = engine.session("large", tenant=tenant, functions=functions)
    assert large.pending() == []
    with pytest.raises(ConfigurationError, match="no code waits"):
        large.resume("c1", {})


def test_a_run_ends_with_its_session_that_was_idle(engine: Engine, tenant: str) -> None:
    session = engine.session(
        "idle",
        tenant=tenant,
        functions=[Function.of(refund, approval=True)],
        policy=Policy(ledger_ttl=timedelta(days=1)),
    )
    assert session.call("code_interpreter", {"code": "refund(2)"}, call_id="c1").pending

    def age(connection: Connection) -> None:
        old = datetime.now(UTC) - timedelta(days=2)
        mine = update(SessionRow).where(SessionRow.tenant == tenant)
        connection.execute(mine.values(expires_at=old, created_at=old))

    engine.database.write(age)
    engine.sweep()
    assert engine.pending(tenant) == []


def test_code_of_a_call_without_an_id_cannot_wait(engine: Engine, tenant: str) -> None:
    session = engine.session("chat", tenant=tenant, functions=[Function.of(refund, approval=True)])
    code = "try:\n    refund(1)\nexcept PermissionError as error:\n    print(error)"
    reply = session.call("code_interpreter", {"code": code})
    assert "without an id" in reply.text and not reply.pending
    outcome = session.run(code)
    assert "without an id" in outcome.stdout and session.pending() == []


def test_a_run_that_expires_after_its_calls_were_decided_is_not_begun_anew(engine: Engine, tenant: str) -> None:
    """A sweep may come between what `resume` writes and the run: another run would make the same calls once more."""
    made: list[int] = []

    def get(number: int) -> list[str]:
        made.append(number)
        return ["x" * 20] * 1_000

    functions = [Function.of(get), Function.of(refund, approval=True)]
    session = engine.session("chat", tenant=tenant, functions=functions, policy=Policy(ttl=timedelta(hours=1)))
    [waiting] = session.call("code_interpreter", {"code": "len(get(1)), refund(1)"}, call_id="c1").pending
    found = approvals.decide(session._scope, "c1", {waiting.id: True})

    def age(connection: Connection) -> None:
        old = datetime.now(UTC) - timedelta(minutes=1)
        connection.execute(update(ArtifactRow).where(ArtifactRow.tenant == tenant).values(expires_at=old))

    engine.database.write(age)
    engine.sweep()
    with pytest.raises(ConfigurationError, match="no code waits under the call id 'c1': it has ended"):
        calls.call(session._scope, found.tool, found.arguments, "c1", found.row)
    assert made == [1]


def test_what_was_approved_is_not_made_again_after_a_rollback_of_the_hosts(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But on SQLite, whose one writer the host's transaction is: the journal is then part of it.

    The program is gone on with at once, though the database has it as running: this process knows that it does not run it.
    """
    monkeypatch.setattr(programs, "LEASE_SECONDS", 3_600)
    made: list[int] = []

    def pay(order: int) -> int:
        made.append(order)
        return order

    functions = [Function.of(pay, approval=True)]
    session = engine.session("a", tenant=tenant, functions=functions)
    [one] = session.call("code_interpreter", {"code": "pay(7)"}, call_id="c1").pending
    its = create_engine(engine.database.engine.url)
    with HostSession(its) as host:
        joined = engine.session("a", tenant=tenant, db=host, functions=functions)
        assert joined.resume("c1", {one.id: True}).text == "7"
        host.rollback()
    its.dispose()
    assert session.resume("c1", {one.id: True}).text == "7"
    assert made == ([7] if engine.database.dialect == "postgresql" else [7, 7])
