"""With a host's AsyncSession or AsyncConnection, its commit keeps our work with its own, and its rollback leaves nothing of
either."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any

import pytest
from material import page, records
from sampled import sampled
from sqlalchemy import create_engine, make_url, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.ext.asyncio import AsyncEngine as HostEngine
from sqlalchemy.ext.asyncio import AsyncSession as HostSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlcheck import check_invariants

from byref import AsyncEngine, AsyncSession, ConfigurationError, Engine, StorageFailure
from byref.conversation.host import EventLoopHost
from byref_sandbox import Sandbox


class HostBase(DeclarativeBase):
    pass


class User(HostBase):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)


DRIVERS = ["aiosqlite", "asyncpg", "psycopg"]


@pytest.fixture(params=[*DRIVERS[:2], pytest.param(DRIVERS[2], marks=pytest.mark.slow)])
def host_url(request: pytest.FixtureRequest) -> str:
    """The host's own URL of a database that has its table and ours."""
    sync = request.getfixturevalue("sqlite_url" if request.param == "aiosqlite" else "postgres_url")
    engine = create_engine(sync)
    HostBase.metadata.create_all(engine)
    engine.dispose()
    url = make_url(sync)
    return url.set(drivername=f"{url.get_backend_name()}+{request.param}").render_as_string(hide_password=False)


@pytest.fixture
def url(host_url: str) -> str:
    """Our own URL of the same database."""
    parsed = make_url(host_url)
    name = "sqlite" if parsed.get_backend_name() == "sqlite" else "postgresql+psycopg"
    return parsed.set(drivername=name).render_as_string(hide_password=False)


@asynccontextmanager
async def both(host_url: str, url: str, sandbox: Sandbox, **settings: Any) -> AsyncIterator[tuple[AsyncEngine, Any]]:
    """An engine of ours, and what makes the host's sessions."""
    host = create_async_engine(host_url)
    try:
        async with AsyncEngine(url, interpreter=sandbox, **settings) as engine:
            yield engine, async_sessionmaker(host, expire_on_commit=False)
    finally:
        await host.dispose()


_STEPS_OF_ALL = """
    SELECT COALESCE(l.tool, l.kind) FROM byref_ledger l JOIN byref_sessions s ON s.id = l.session_id
    ORDER BY s.name, l.step
"""


def kept(url: str) -> tuple[list[int], list[str]]:
    """The host's rows and the tools of our steps."""
    engine = create_engine(url)
    with Session(engine) as session:
        users = list(session.scalars(select(User.id).order_by(User.id)))
        steps = list(session.scalars(text(_STEPS_OF_ALL)))
    engine.dispose()
    check_invariants(url)
    return users, steps


async def converse(session: AsyncSession) -> None:
    """Most of what a turn does."""
    await session.record_usage({"prompt_tokens": 10, "completion_tokens": 1})
    result = await session.process(page(), tool="list_users", call_id="a")
    assert result.route == "variables"
    assert (await session.process(page(), tool="list_users", call_id="a")).content == result.content
    reply = await session.call("code_interpreter", {"code": "kept = users[:3]\nlen(users)"})
    assert reply.content.startswith("1200"), reply.content
    assert "value 99-0" in (await session.call("artifact_grep", {"artifact_id": "users", "pattern": "99-0"})).content
    assert (await session.resolve({"a": "$pagination"})) == {"a": {"page": 1, "pages": 12}}
    assert await session.value(await session.variable("kept")) == page()["users"][:3]


STEPS = ["usage", "list_users", "code_interpreter", "artifact_grep", "resolution"]


class TestTransactions:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("host_first", sampled([True, False], 2))
    def test_the_hosts_commit_keeps_both(self, host_url: str, url: str, sandbox: Sandbox, host_first: bool) -> None:
        async def work() -> None:
            async with both(host_url, url, sandbox) as (engine, make_session):
                async with make_session() as host:
                    if host_first:
                        host.add(User(id=1))
                        await host.flush()
                    await converse(await engine.session("s", db=host))
                    await host.merge(User(id=1))
                    await host.commit()
                assert len(await (await engine.session("s")).artifacts()) == 2

        asyncio.run(work())
        assert kept(url) == ([1], STEPS)

    def test_the_hosts_rollback_leaves_nothing(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with both(host_url, url, sandbox) as (engine, make_session), make_session() as host:
                host.add(User(id=1))
                await host.flush()
                await converse(await engine.session("s", db=host))
                await host.rollback()
                assert await engine.sessions() == []

        asyncio.run(work())
        assert kept(url) == ([], [])

    @pytest.mark.slow
    def test_a_connection(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        async def work(end: Callable[[AsyncConnection], Awaitable[None]]) -> None:
            host_engine: HostEngine = create_async_engine(host_url)
            async with AsyncEngine(url, interpreter=sandbox) as engine, host_engine.connect() as host:
                await host.execute(text("INSERT INTO users VALUES (1)"))
                await converse(await engine.session("s", db=host))
                await end(host)
            await host_engine.dispose()

        asyncio.run(work(AsyncConnection.rollback))
        assert kept(url) == ([], [])
        asyncio.run(work(AsyncConnection.commit))
        assert kept(url) == ([1], STEPS)

    @pytest.mark.parametrize("host_url", DRIVERS, indirect=True)
    def test_a_scoped_session(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with both(host_url, url, sandbox) as (engine, make_session):
                scoped = async_scoped_session(make_session, asyncio.current_task)
                await (await engine.session("s", db=scoped)).process("a", tool="t")
                await scoped.commit()
                await scoped.remove()

        asyncio.run(work())
        assert kept(url) == ([], ["t"])

    def test_an_error_is_undone_and_leaves_the_hosts_work(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with both(host_url, url, sandbox) as (engine, make_session), make_session() as host:
                host.add(User(id=1))
                await host.flush()
                session = await engine.session("s", db=host)
                await session.process("before", tool="before")

                def fail(connection: Any) -> None:
                    connection.execute(text("INSERT INTO users VALUES (7)"))
                    connection.execute(text("SELECT * FROM nowhere"))

                with pytest.raises(StorageFailure):
                    await session._run(session._session._scope.write, fail)
                await session.process("after", tool="after")
                host.add(User(id=2))
                await host.commit()

        asyncio.run(work())
        assert kept(url) == ([1, 2], ["before", "after"])

    def test_two_conversations_in_one_transaction(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with both(host_url, url, sandbox) as (engine, make_session), make_session() as host:
                first, second = [await engine.session(name, db=host) for name in ("a", "b")]
                await first.process(page(), tool="one")
                await second.process(page(), tool="two")
                artifact = (await first.artifacts())[0]
                assert await second.value(await first.share(artifact, "b")) == page()
                await host.commit()

        asyncio.run(work())
        assert kept(url) == ([], ["one", "two"])

    @pytest.mark.slow
    def test_calls_at_once_in_one_transaction_take_turns(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with both(host_url, url, sandbox) as (engine, make_session), make_session() as host:
                sessions = [await engine.session(name, db=host) for name in ("a", "b", "b")]
                calls = [sessions[i % 3].process(records(1_500 + i), tool="t", call_id=str(i)) for i in range(12)]
                await asyncio.gather(*calls)
                await host.commit()

        asyncio.run(work())
        assert kept(url) == ([], ["t"] * 12)

    def test_many_transactions_at_once(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        """More of them, on one conversation, than there are workers: each waits for the one before it to commit."""
        if "sqlite" in url:
            pytest.skip("SQLite has one writer: transactions of one process cannot be open at once")

        async def turn(engine: AsyncEngine, make_session: Any, number: int) -> None:
            async with make_session() as host:
                session = await engine.session("s", db=host)
                for i in range(3):
                    await session.process(f"{number} {i}", tool="t")
                await host.commit()

        async def work() -> None:
            async with both(host_url, url, sandbox, workers=1) as (engine, make_session):
                await engine.session("s")
                async with asyncio.timeout(30):
                    await asyncio.gather(*(turn(engine, make_session, number) for number in range(10)))

        asyncio.run(work())
        assert kept(url) == ([], ["t"] * 30)


class TestRefused:
    def test_what_is_no_transaction_on_an_event_loop(self, url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            host = create_engine(url)
            async with AsyncEngine(url, interpreter=sandbox) as engine:
                with Session(host) as session, pytest.raises(ConfigurationError, match="AsyncConnection was expected"):
                    await engine.session("s", db=session)
            host.dispose()

        asyncio.run(work())

    def test_data_read_by_a_sync_method(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with both(host_url, url, sandbox) as (engine, make_session), make_session() as host:
                session = await engine.session("s", db=host)
                artifact = await session.store_artifact(page())
                with pytest.raises(ConfigurationError, match=r"await session\.value"):
                    _ = artifact.value
                assert await session.value(artifact) == page()

        asyncio.run(work())

    def test_a_connection_that_is_not_open(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            host = create_async_engine(host_url)
            async with AsyncEngine(url, interpreter=sandbox) as engine:
                with pytest.raises(ConfigurationError, match="not open"):
                    await engine.session("s", db=host.connect())
            await host.dispose()

        asyncio.run(work())

    def test_the_sync_engine_names_the_way(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        host = HostSession(create_async_engine(host_url))
        with Engine(url, interpreter=sandbox) as engine, pytest.raises(ConfigurationError, match="run_sync"):
            engine.session("s", db=host)


class TestCancelling:
    @pytest.mark.quick_cases(1)
    def test_at_any_moment_the_host_can_go_on_or_roll_back(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        chance = random.Random(5)

        async def work() -> int:
            cancelled = 0
            async with both(host_url, url, sandbox) as (engine, make_session):
                await engine.session("s")
                for i in range(60):
                    async with make_session() as host:
                        host.add(User(id=i))
                        await host.flush()
                        session = await engine.session("s", db=host)
                        calls = [
                            lambda: session.process(records(1_500 + i), tool="rows", call_id=f"{i}"),
                            lambda: session.process("small", tool="t", call_id=f"{i}"),
                            lambda: session.call("artifact_grep", {"artifact_id": "rows", "pattern": "9"}),
                        ]
                        call = asyncio.ensure_future(calls[i % 3]())
                        await asyncio.sleep(chance.random() ** 2 * 0.03)
                        call.cancel()
                        started = time.perf_counter()
                        with contextlib.suppress(asyncio.CancelledError):
                            await call
                        cancelled += call.cancelled()
                        assert time.perf_counter() - started < 0.5
                        await (host.rollback() if i % 4 == 0 else host.commit())
            return cancelled

        assert asyncio.run(work()) > 12
        users, _ = kept(url)
        assert users == [i for i in range(60) if i % 4]

    def test_calls_that_are_cancelled_together_end_when_none_is_at_the_transaction(self) -> None:
        done: list[str] = []

        async def work() -> None:
            async with HostSession(create_async_engine("sqlite+aiosqlite://")) as host:
                joined, began = EventLoopHost(host), asyncio.Event()

                def slow() -> None:
                    def unit(_: object) -> None:
                        began.set()
                        joined.compute(lambda: time.sleep(0.2))
                        done.append("slow")

                    joined.run(unit)

                def waits() -> None:
                    joined.run(lambda _: done.append("waits"))

                def submit(call: Callable[[], Any]) -> Any:
                    return threads.submit(copy_context().run, call)

                at_work = asyncio.ensure_future(joined.call(submit, slow))
                await began.wait()
                together = asyncio.gather(
                    joined.call(submit, waits), asyncio.wait_for(at_work, 10), joined.call(submit, waits)
                )
                await asyncio.sleep(0.02)
                together.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await together
                assert done == ["slow"]

        with ThreadPoolExecutor(3) as threads:
            asyncio.run(work())

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("host_url", DRIVERS, indirect=True)
    def test_while_it_waits_for_a_lock(self, host_url: str, url: str, sandbox: Sandbox) -> None:
        """It is not waited for: the host's transaction is lost, as it is when any statement of its own is cancelled."""
        if "sqlite" in url:
            pytest.skip("SQLite waits for its lock in the driver, where nothing can be cancelled")

        async def work() -> None:
            async with both(host_url, url, sandbox) as (engine, make_session):
                await engine.session("s")
                async with make_session() as holder, make_session() as host:
                    await (await engine.session("s", db=holder)).process("first", tool="first")
                    waiting = asyncio.create_task((await engine.session("s", db=host)).process("second", tool="second"))
                    await asyncio.sleep(0.2)
                    started = time.perf_counter()
                    waiting.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await waiting
                    assert time.perf_counter() - started < 3
                    await host.rollback()
                    await holder.commit()
                await (await engine.session("s")).process("third", tool="third")

        asyncio.run(work())
        assert kept(url) == ([], ["first", "third"])


def test_without_greenlet_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["greenlet"] = None
import byref
try:
    import byref.conversation.host
except byref.ConfigurationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "asyncio in SQLAlchemy needs greenlet: pip install 'byref[async]'\n", done
