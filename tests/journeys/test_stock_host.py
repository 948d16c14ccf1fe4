"""In a host's own transactions, made by SQLAlchemy with default settings: on SQLite without foreign keys."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from material import page, prose
from sqlalchemy import Engine as HostEngine
from sqlalchemy import create_engine, make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session as HostSession
from sqlcheck import TABLES, check_invariants, rows

from byref import Engine, Session
from byref_sandbox import Sandbox

UNTOUCHED = ("tombstones", "names", "discards")
"""Tables of which `fill` makes no row."""


@pytest.fixture
def host(shared_url: str) -> Iterator[HostEngine]:
    engine = create_engine(shared_url)
    yield engine
    engine.dispose()


@pytest.fixture
def shared(shared_url: str, sandbox: Sandbox) -> Iterator[Engine]:
    with Engine(shared_url, interpreter=sandbox) as engine:
        yield engine
    check_invariants(shared_url)


def counts(url: str) -> dict[str, int]:
    return {table: rows(url, f"SELECT COUNT(*) FROM byref_{table}")[0][0] for table in TABLES}


def fill(session: Session) -> None:
    session.process(page(2_000), tool="users", call_id="c")
    session.process(prose(1_200_000), tool="log")
    session.call("code_interpreter", {"code": "total = len(users_2)"}, call_id="d")
    session.store_artifact({"a": [1]}, name="mine")


@pytest.mark.quick_cases(1)
def test_the_end_takes_the_data_whatever_the_host_enforces(shared: Engine, shared_url: str, host: HostEngine) -> None:
    with HostSession(host) as transaction:
        session = shared.session("s", db=transaction)
        fill(session)
        transaction.commit()
        assert all(count for table, count in counts(shared_url).items() if table not in UNTOUCHED)
        session.end()
        transaction.commit()
    left = counts(shared_url)
    assert {table for table, count in left.items() if count} == {"sessions", "ledger", "runs"}
    assert rows(shared_url, "SELECT step FROM byref_ledger WHERE artifact_id IS NOT NULL") == []
    later = shared.session("s")
    assert (later.variables(), later.artifacts()) == ([], [])
    assert later.reminder() == "No data is stored in this conversation."
    assert [entry.original for entry in later.history()] == [None, None]
    assert shared.delete_session("s") is True
    assert set(counts(shared_url).values()) == {0}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("how", ["end", "delete_session", "delete_tenant", "sweep"])
def test_nothing_stays_behind_where_foreign_keys_are_off(
    sqlite_url: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Not even by what runs in transactions of our own, should those not enforce them one day."""
    from byref.artifacts import blobs
    from byref.conversation import clearing, lifecycle

    host = create_engine(sqlite_url)
    with Engine(sqlite_url, interpreter=sandbox) as engine:
        fill(engine.session("gone", tenant="t"))
        fill(engine.session("kept"))
        kept = engine.session("kept").variable("users").value()
        with host.begin() as connection:
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 0
            row = lifecycle.find_session(connection, "t", "gone")
            assert row is not None
            if how == "sweep":
                connection.exec_driver_sql("DELETE FROM byref_artifacts WHERE tenant = 't'")
                connection.exec_driver_sql("UPDATE byref_blobs SET may_be_unused = 1 WHERE tenant = 't'")
                assert blobs.sweep(connection, timedelta(hours=-1)).gone == 4
            elif how == "end":
                lifecycle.end(connection, row.row)
                clearing.clear_within(connection, row.row)
            elif how == "delete_session":
                assert clearing.delete_session(lambda work: work(connection), "t", "gone")
            else:
                assert clearing.delete_tenant(lambda work: work(connection), lambda work: work(connection), "t") == 1
        assert engine.session("kept").variable("users").value() == kept
        for table in ("blobs", "frames"):
            assert rows(sqlite_url, f"SELECT COUNT(*) FROM byref_{table} WHERE tenant = 't'") == [(0,)]
        if how in ("delete_session", "delete_tenant"):
            for table in TABLES:
                assert rows(sqlite_url, f"SELECT COUNT(*) FROM byref_{table} WHERE tenant = 't'") == [(0,)]
    host.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg"])
def test_tasks_of_one_event_loop_each_in_a_transaction(
    request: pytest.FixtureRequest, sandbox: Sandbox, driver: str
) -> None:
    url = request.getfixturevalue("sqlite_url" if driver == "aiosqlite" else "postgres_url")
    parsed = make_url(url)
    name = f"{parsed.get_backend_name()}+{driver}"

    async def turn(engine: Engine, host: Any, number: int) -> str:
        async with AsyncSession(host) as transaction:

            def work(inside: HostSession) -> str:
                session = engine.session(f"s{number % 3}", db=inside)
                first = session.process(page(2_000), tool="users")
                assert session.process(f"{number}", tool="t").route == "inline"
                return first.route

            route = await transaction.run_sync(work)
            await transaction.commit()
            return route

    async def main(engine: Engine) -> list[str]:
        host = create_async_engine(parsed.set(drivername=name))
        try:
            async with asyncio.timeout(60):
                return await asyncio.gather(*(turn(engine, host, number) for number in range(6)))
        finally:
            await host.dispose()

    with Engine(url, interpreter=sandbox) as engine:
        assert asyncio.run(main(engine)) == ["variables"] * 6
        assert sum(len(engine.session(f"s{i}").ledger()) for i in range(3)) == 12
    check_invariants(url)


def test_a_unit_of_work_inside_another_is_refused_and_a_context_copied_from_it_is_free(
    shared: Engine, host: HostEngine
) -> None:
    with HostSession(host) as transaction:
        with shared.database.joined(transaction):
            copied = contextvars.copy_context()
            for context in (contextvars.copy_context(), copied):
                with pytest.raises(RuntimeError, match="unit of work"):
                    context.run(shared.sessions)
        transaction.rollback()
    assert copied.run(shared.sessions) == []
