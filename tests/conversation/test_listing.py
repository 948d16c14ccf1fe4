"""Lists of sessions and tenants: what each stores, what its model read, what it cost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from material import records
from sqlalchemy import event

from byref import AsyncEngine, Engine, Policy, SessionInfo
from byref.artifacts import quotas
from byref.conversation import room

USAGE = {"input_tokens": 1_000, "output_tokens": 10, "cache_read_input_tokens": 0, "model": "claude-sonnet-5"}


def stored(engine: Engine, tenant: str, session: str, knob: str) -> int:
    """Return what a quota counts."""
    scope = engine.session(session, tenant=tenant)._scope
    policy = Policy(**{"max_session_bytes": None, "max_tenant_bytes": None, knob: 1})
    found = engine.database.read(lambda c: quotas.excess(c, policy, room.owner_of(scope), {b"1": 1 << 40}))
    assert found is not None
    return found.value - (1 << 40)


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_sums_are_those_of_the_ledger_and_of_the_quotas(engine: Engine, tenant: str) -> None:
    one, two = (engine.session(name, tenant=tenant, model="claude-sonnet-5") for name in ("one", "two"))
    for session in (one, two):
        session.process(records(2_000), tool="rows")  # stored once for both
    one.process(records(2_001), tool="rows")
    one.process("small", tool="t")
    one.run("k = {1, 2, 3}")
    one.store_artifact("x" * 500)
    one.store_artifact("x" * 500)
    one.record_usage(USAGE)
    one.record_usage(USAGE, context=False)
    two.record_usage({"input_tokens": 5, "model": "a model without a price"})
    engine.session("three", tenant=tenant)
    engine.session("one", tenant=f"{tenant} other").process(records(2_000), tool="rows")

    infos = engine.sessions(tenant)
    assert [info.id for info in infos] == ["one", "two", "three"]
    for info in infos:
        totals = engine.session(info.id, tenant=tenant).usage()
        told = (info.input_tokens, info.output_tokens, info.tokens, info.tokens_saved, info.cost)
        assert told == (
            totals.input_tokens,
            totals.output_tokens,
            totals.tokens,
            totals.tokens_saved,
            totals.cost,
        )
        assert info.stored_bytes == stored(engine, tenant, info.id, "max_session_bytes")
    assert infos[0].cost is not None and infos[0].cost > 0
    assert (infos[1].cost, infos[2].cost, infos[2].input_tokens) == (None, None, None)

    mine, other = (info for info in engine.tenants() if info.id.startswith(tenant))
    assert (mine.id, mine.sessions, mine.steps) == (tenant, 3, sum(info.steps for info in infos))
    assert mine.stored_bytes == stored(engine, tenant, "one", "max_tenant_bytes") < sum(i.stored_bytes for i in infos)
    assert (mine.cost, mine.input_tokens, mine.created_at) == (infos[0].cost, 2_005, infos[0].created_at)
    assert mine.tokens_saved == sum(info.tokens_saved for info in infos)
    assert (other.sessions, other.cost) == (1, None)
    assert [info.id for info in engine.sessions(None) if info.tenant == other.id] == ["one"]

    one.end()
    assert engine.sessions(tenant)[0].stored_bytes == 0
    assert replace(engine.sessions(tenant)[0], stored_bytes=infos[0].stored_bytes, ended_at=None) == infos[0]
    engine.delete_tenant(other.id)
    assert other.id not in [info.id for info in engine.tenants()]


@pytest.mark.postgresql("a statement is the database's")
def test_a_list_is_one_statement_however_long_it_is(engine: Engine, tenant: str) -> None:
    for number in range(5):
        engine.session(f"s{number}", tenant=tenant).process(records(300), tool="rows")
    statements: list[str] = []

    def seen(connection: object, cursor: object, statement: str, *_: object) -> None:
        if "byref_" in statement:
            statements.append(statement)

    event.listen(engine.database.engine, "before_cursor_execute", seen)
    try:
        assert len(engine.sessions(tenant)) == 5
        assert len(engine.sessions(None)) >= 5
        assert tenant in [info.id for info in engine.tenants()]
    finally:
        event.remove(engine.database.engine, "before_cursor_execute", seen)
    assert len(statements) == 3


def test_a_cost_is_known_or_none(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant)
    session.record_usage({"input_tokens": 1_000_000, "output_tokens": 0, "model": "no such model"})

    def of_tenant() -> Decimal | None:
        return next(info.cost for info in local.tenants() if info.id == tenant)

    assert (local.sessions(tenant)[0].cost, of_tenant()) == (None, None)
    session.record_usage({"input_tokens": 1_000_000, "output_tokens": 0, "model": "claude-sonnet-4-5"})
    assert of_tenant() == local.sessions(tenant)[0].cost == session.usage().cost
    assert isinstance(of_tenant(), Decimal)


def test_the_asynchronous_engine_lists_the_same(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"

    async def listed() -> tuple[list[SessionInfo], list[str]]:
        async with AsyncEngine(url) as engine:
            for tenant in ("a", "b"):
                await engine.session("s", tenant=tenant)
            return await engine.sessions(None), [info.id for info in await engine.tenants()]

    infos, tenants = asyncio.run(listed())
    assert ([info.tenant for info in infos], tenants) == (["a", "b"], ["a", "b"])
    with Engine(url) as engine:
        assert engine.sessions(None) == infos
