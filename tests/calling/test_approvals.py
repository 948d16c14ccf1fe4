"""Runs of code that wait for approvals, as a tenant's host sees them."""

from __future__ import annotations

import pytest

from byref import ConfigurationError, Engine, Function, PendingRun, Session

pytestmark = pytest.mark.postgresql("the tables of calls")


def refund(order: int) -> int:
    """Pay back an order."""
    return order


def test_the_runs_of_a_tenant_that_wait_are_listed_until_they_are_decided(engine: Engine, tenant: str) -> None:
    def opened(name: str, whose: str = tenant) -> Session:
        return engine.session(name, tenant=whose, functions=[Function.of(refund, approval=True)])

    for name, whose, orders in (("b", tenant, "1, 2"), ("a", tenant, "3"), ("a", f"{tenant} 2", "4")):
        code = f"import asyncio\nawait asyncio.gather(*map(refund, [{orders}]))"
        assert opened(name, whose).call("code_interpreter", {"code": code}, call_id="c1").pending
    opened("a").call("code_interpreter", {"code": "refund(5)"})  # without an id nobody can go on with it
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
