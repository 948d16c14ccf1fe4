"""Behind a pooler that gives every transaction another backend, byref relies on no state of a database session."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from material import page, records
from poolers import pgbouncer
from sqlalchemy import NullPool, create_engine, event, make_url
from sqlalchemy.ext.asyncio import AsyncSession as HostAsyncSession
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session as HostSession
from sqlcheck import check_invariants

from byref import AsyncEngine, ConfigurationError, Engine
from byref_sandbox import Sandbox

SESSION_STATE = ("listen ", "notify ", "advisory_lock", "create temp", "declare ", "prepare ", "set ", "discard ")
"""What outlives a transaction, at the beginning of a statement or in it; `SET LOCAL` and `SET TRANSACTION` do not."""


def turn(engine: Engine, number: int, **options: Any) -> None:
    session = engine.session(f"s{number % 2}", context_window=10**7, **options)
    session.record_usage({"prompt_tokens": 1, "completion_tokens": 1})
    assert session.process(records(1_500 + number), tool=f"rows {number}").route == "variables"
    assert session.process("small", tool="small").route == "inline"
    assert session.call("code_interpreter", {"code": "1 + 1"}).content == "2"
    assert session.variables()


def forget(driver: Any, _record: object) -> None:
    """As PgBouncer does between two transactions."""
    driver.rollback()
    driver.autocommit = True
    driver.execute("DISCARD ALL", prepare=False)
    driver.autocommit = False


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["forgetting", pytest.param("fresh", marks=pytest.mark.slow)])
def test_every_transaction_on_a_backend_that_knows_nothing(postgres_url: str, sandbox: Sandbox, pool: str) -> None:
    if pool == "fresh":
        host = create_engine(postgres_url, poolclass=NullPool)
    else:
        host = create_engine(postgres_url, pool_size=2, max_overflow=0, connect_args={"prepare_threshold": None})
        event.listen(host, "checkin", forget)
    with Engine(host, interpreter=sandbox) as engine:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: turn(engine, number), range(8)))
        for number in range(2):
            with HostSession(create_engine(postgres_url, poolclass=NullPool)) as transaction:
                turn(engine, 8 + number, db=transaction)
                transaction.commit()
    host.dispose()
    check_invariants(postgres_url)


def test_no_statement_of_ours_makes_or_needs_state_of_a_session(postgres_url: str, sandbox: Sandbox) -> None:
    statements: list[str] = []
    with Engine(postgres_url, interpreter=sandbox) as engine:
        event.listen(
            engine.database.engine, "before_cursor_execute", lambda *given: statements.append(given[2].strip().lower())
        )
        turn(engine, 1)
        turn(engine, 2)
        engine.session("s0").end()
        engine.delete_session("s0")
        engine.sweep()
        for _ in range(20):
            assert engine.session("s1").usage()
    assert len(statements) > 50
    assert [s for s in statements if any(s.startswith(word) for word in SESSION_STATE) or "advisory" in s] == []


def prepared(engine: Engine) -> int:
    """How many prepared statements the backend knows that one of the engine's connections leads to."""
    count = "SELECT count(*) FROM pg_prepared_statements"
    return int(engine.database.read(lambda connection: connection.exec_driver_sql(count).scalar_one()))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("said", "least", "most"), [(None, 1, 100), ("1", 6, 100), ("none", 0, 0)])
def test_statements_are_prepared_where_no_pooler_is(
    postgres_url: str, sandbox: Sandbox, said: str | None, least: int, most: int
) -> None:
    url = make_url(postgres_url)
    with Engine(url.update_query_dict({"prepare_threshold": said}) if said else url, interpreter=sandbox) as engine:
        for number in range(3):
            turn(engine, 2 * number)
        assert least <= prepared(engine) <= most
        assert engine.delete_session("s0")
    check_invariants(postgres_url)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["transaction", pytest.param("session", marks=pytest.mark.slow)])
def test_nothing_is_prepared_behind_pgbouncer(postgres_url: str, sandbox: Sandbox, tmp_path: Path, mode: str) -> None:
    with pgbouncer(tmp_path, postgres_url, mode) as url:
        with Engine(url, interpreter=sandbox) as engine:
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda number: turn(engine, number), range(12)))
            assert prepared(engine) == 0
        check_invariants(url.render_as_string(hide_password=False))


def test_a_backend_that_forgets_what_was_prepared_costs_a_connection_and_no_work(
    postgres_url: str, sandbox: Sandbox
) -> None:
    url = make_url(postgres_url).update_query_dict({"prepare_threshold": "0"})
    with Engine(url, interpreter=sandbox) as engine:
        turn(engine, 0)
        assert prepared(engine) > 0
        forgotten: list[int] = []

        def forget_now(driver: Any, _record: object) -> None:
            if driver is not None and len(forgotten) < 2 and driver.info.backend_pid not in forgotten:
                forgotten.append(driver.info.backend_pid)
                driver.pgconn.exec_(b"DEALLOCATE ALL")  # psycopg sees those that go through itself

        event.listen(engine.database.engine, "checkin", forget_now)
        turn(engine, 2)
        turn(engine, 4)
        assert len(forgotten) == 2
        assert len([step for step in engine.session("s0").ledger() if step.tool == "small"]) == 3
    check_invariants(postgres_url)


@pytest.mark.parametrize("number", ["-1", "five"])
def test_a_number_of_uses_is_expected(number: str) -> None:
    with pytest.raises(ConfigurationError, match="prepare_threshold"):
        Engine(f"postgresql://user:secret@127.0.0.1:1/x?connect_timeout=1&prepare_threshold={number}")


@pytest.mark.parametrize("driver", ["asyncpg", pytest.param("psycopg", marks=pytest.mark.slow)])
def test_an_event_loops_host(postgres_url: str, sandbox: Sandbox, driver: str) -> None:
    async def work() -> None:
        host = create_async_engine(make_url(postgres_url).set(drivername=f"postgresql+{driver}"), poolclass=NullPool)
        async with AsyncEngine(postgres_url, interpreter=sandbox) as engine:
            for number in range(3):
                async with HostAsyncSession(host) as transaction:
                    session = await engine.session("s", db=transaction)
                    assert (await session.process(page(1_500 + number), tool="t")).route == "variables"
                    await transaction.commit()
            assert len(await (await engine.session("s")).artifacts()) == 3
        await host.dispose()

    asyncio.run(work())
    check_invariants(postgres_url)
