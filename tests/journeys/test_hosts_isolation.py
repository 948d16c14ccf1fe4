"""In a host's transaction: its isolation, its SAVEPOINTs, and what it has to run again; sync, and on an event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from material import page, records
from sampled import sampled
from sqlalchemy import Connection, create_engine, event, make_url, select, text
from sqlalchemy import Engine as HostEngine
from sqlalchemy.ext.asyncio import AsyncSession as HostAsyncSession
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.orm import Session as HostSession
from sqlcheck import check_invariants, rows

from byref import (
    AsyncEngine,
    ConfigurationError,
    Engine,
    Policy,
    Session,
    StorageFailure,
    TransactionConflict,
)
from byref_sandbox import Sandbox

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
SNAPSHOTS = [pytest.param("REPEATABLE READ", marks=pytest.mark.slow), "SERIALIZABLE"]
"""The levels at which a transaction may have to be run again; the strictest in a quick run."""
DRIVERS = [
    pytest.param("aiosqlite", marks=pytest.mark.slow),
    "asyncpg",
    pytest.param("psycopg", marks=pytest.mark.slow),
]


class HostBase(DeclarativeBase):
    pass


class User(HostBase):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture
def url(shared_url: str) -> str:
    return with_users(shared_url)


@pytest.fixture
def pg_url(postgres_url: str) -> str:
    return with_users(postgres_url)


def with_users(url: str) -> str:
    engine = create_engine(url)
    HostBase.metadata.create_all(engine)
    engine.dispose()
    return url


@pytest.fixture
def engine(url: str, sandbox: Sandbox) -> Iterator[Engine]:
    with Engine(url, interpreter=sandbox) as opened:
        yield opened
    check_invariants(url)


@pytest.fixture
def pg(pg_url: str, sandbox: Sandbox) -> Iterator[Engine]:
    with Engine(pg_url, interpreter=sandbox) as opened:
        yield opened
    check_invariants(pg_url)


@pytest.fixture
def host_of() -> Iterator[Callable[..., HostEngine]]:
    made: list[HostEngine] = []

    def make(url: str, **options: Any) -> HostEngine:
        made.append(create_engine(url, **options))
        return made[-1]

    yield make
    for host in made:
        host.dispose()


def tools(session: Session) -> list[str | None]:
    return [entry.tool for entry in session.ledger()]


class TestIsolation:
    @pytest.mark.slow
    @pytest.mark.parametrize("level", [pytest.param("READ COMMITTED", marks=pytest.mark.slow), *SNAPSHOTS])
    def test_every_level_takes_a_whole_turn(
        self, pg: Engine, pg_url: str, host_of: Callable[..., HostEngine], level: str
    ) -> None:
        """The host has read before: where that made a snapshot, our frames have to be in it."""
        with HostSession(host_of(pg_url, isolation_level=level)) as host:
            assert host.scalars(select(User)).all() == []
            session = pg.session("s", db=host)
            session.record_usage({"prompt_tokens": 5, "completion_tokens": 1}, request_id="r")
            result = session.process(page(2_000), tool="list_users", call_id="a")
            assert result.route == "variables"
            assert session.process(page(2_000), tool="list_users", call_id="a").content == result.content
            assert session.process(page(2_000), tool="again", call_id="b").route == "variables"
            assert session.call("code_interpreter", {"code": "len(users)"}).content == "2000"
            assert session.store_artifact(records(3_000), name="kept").value == records(3_000)
            host.add(User(id=1))
            host.commit()
        after = pg.session("s")
        assert after.variable("users").value() == page(2_000)["users"]
        assert rows(pg_url, "SELECT count(*) FROM users") == [(1,)]

    @pytest.mark.parametrize("level", SNAPSHOTS)
    @pytest.mark.parametrize("policy", ["truncate", pytest.param("raise", marks=pytest.mark.slow)])
    def test_a_conflict_is_raised_and_the_host_runs_its_transaction_again(
        self, pg: Engine, pg_url: str, host_of: Callable[..., HostEngine], level: str, policy: Any
    ) -> None:
        host_engine = host_of(pg_url, isolation_level=level)
        pg.session("s")

        def turn(host: HostSession, between: Callable[[], object]) -> str:
            host.add(User(id=1))
            host.flush()
            between()
            session = pg.session("s", db=host, policy=Policy(on_storage_failure=policy))
            route = session.process(page(2_000), tool="mine").route
            host.commit()
            return route

        with HostSession(host_engine) as host:
            with pytest.raises(TransactionConflict, match="run it again") as raised:
                turn(host, lambda: pg.session("s").process("theirs", tool="theirs"))
            assert getattr(raised.value.__cause__, "sqlstate", None) == "40001"
            host.rollback()
            assert turn(host, lambda: None) == "variables"
        assert tools(pg.session("s")) == ["theirs", "mine"]

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("level", SNAPSHOTS)
    @pytest.mark.parametrize(
        "what", sampled(["call", "run", "resolve", "record_usage", "store_artifact", "end", "session"], 3)
    )
    def test_every_method_raises_it(
        self, pg: Engine, pg_url: str, host_of: Callable[..., HostEngine], level: str, what: str
    ) -> None:
        pg.session("s").process(page(2_000), tool="list_users")
        calls: dict[str, Callable[[Session], object]] = {
            "call": lambda session: session.call("artifact_grep", {"artifact_id": "users", "pattern": "9"}),
            "run": lambda session: session.run("x = 1"),
            "resolve": lambda session: session.resolve({"a": "$users"}, tool="t", call_id="c"),
            "record_usage": lambda session: session.record_usage({"prompt_tokens": 5, "completion_tokens": 1}),
            "store_artifact": lambda session: session.store_artifact({"a": 1}),
            "end": lambda session: session.end(),
            "session": lambda session: pg.session("new", db=host),
        }
        with HostSession(host_of(pg_url, isolation_level=level)) as host:
            session = pg.session("s", db=host)
            pg.session("s").process("theirs", tool="theirs")
            pg.session("new")
            with pytest.raises(TransactionConflict):
                calls[what](session)
            host.rollback()
            host.scalars(select(User)).all()

    def test_the_same_bytes_published_meanwhile(
        self, pg: Engine, pg_url: str, host_of: Callable[..., HostEngine]
    ) -> None:
        """The snapshot does not show them, and the constraint refuses them twice."""
        for name in ("a", "b"):
            pg.session(name)
        with HostSession(host_of(pg_url, isolation_level="REPEATABLE READ")) as host:
            session = pg.session("a", db=host)
            pg.session("b").process(page(2_000), tool="t")
            with pytest.raises(TransactionConflict):
                session.process(page(2_000), tool="t")
            host.rollback()
            assert pg.session("a", db=host).process(page(2_000), tool="t").route == "variables"
            host.commit()
        assert rows(pg_url, "SELECT count(*) FROM byref_blobs") == [(1,)]

    @pytest.mark.slow
    @pytest.mark.parametrize("level", LEVELS)
    def test_our_own_transactions_are_retried_beside_such_hosts(
        self, pg: Engine, pg_url: str, host_of: Callable[..., HostEngine], level: str
    ) -> None:
        """Four threads of a host that runs its transaction again, four of ours: each step is there once."""
        host_engine = host_of(pg_url, isolation_level=level, pool_size=8)
        pg.session("s")
        failures: list[BaseException] = []

        def joined(number: int) -> None:
            for i in range(4):
                while True:
                    with HostSession(host_engine) as host:
                        try:
                            pg.session("s", db=host).process(records(900 + 10 * number + i), tool=f"host {number} {i}")
                            host.commit()
                            break
                        except TransactionConflict:
                            host.rollback()

        def own(number: int) -> None:
            for i in range(4):
                assert pg.session("s").process(f"{number} {i}", tool=f"own {number} {i}").step is not None

        def guarded(work: Callable[[int], None], number: int) -> None:
            try:
                work(number)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(work, n)) for n in range(3) for work in (joined, own)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert sorted(map(str, tools(pg.session("s")))) == sorted(
            f"{who} {n} {i}" for who in ("host", "own") for n in range(3) for i in range(4)
        )

    def test_sqlites_snapshot_is_a_conflict_too(
        self, sqlite_url: str, sandbox: Sandbox, host_of: Callable[..., HostEngine]
    ) -> None:
        host_engine = host_of(with_users(sqlite_url))
        begins_by(host_engine, "BEGIN")
        with Engine(sqlite_url, interpreter=sandbox) as engine, HostSession(host_engine) as host:
            engine.session("s")
            host.scalars(select(User)).all()
            engine.session("s").process("theirs", tool="theirs")
            with pytest.raises(TransactionConflict):
                engine.session("s", db=host).process("mine", tool="mine")
            host.rollback()
            engine.session("s", db=host).process("mine", tool="mine")
            host.commit()
            assert tools(engine.session("s")) == ["theirs", "mine"]

    @pytest.mark.parametrize("how", ["as it comes", "autocommit=False", "BEGIN IMMEDIATE", "aiosqlite"])
    @pytest.mark.parametrize("policy", ["truncate", pytest.param("raise", marks=pytest.mark.slow)])
    def test_sqlites_taken_lock_is_a_conflict(
        self, sqlite_url: str, sandbox: Sandbox, host_of: Callable[..., HostEngine], how: str, policy: Any
    ) -> None:
        """The host waits as long as its connection does, and never keeps its own rows without the output."""
        options: dict[str, Any] = {"connect_args": {"timeout": 0.1}}
        if how == "autocommit=False":
            if sys.version_info < (3, 12):
                pytest.skip("sqlite3 has no autocommit before 3.12")
            options["connect_args"]["autocommit"] = False
        host_engine = host_of(with_users(sqlite_url), **options)
        if how == "BEGIN IMMEDIATE":
            begins_by(host_engine, "BEGIN IMMEDIATE")
        with Engine(sqlite_url, interpreter=sandbox) as engine, host_of(sqlite_url).connect() as other:

            def turn(host: HostSession) -> None:
                host.add(User(id=1))
                engine.session("s", db=host, policy=Policy(on_storage_failure=policy)).process("mine", tool="mine")

            async def on_a_loop() -> None:
                loop_engine = create_async_engine(make_url(sqlite_url).set(drivername="sqlite+aiosqlite"), **options)
                async with HostAsyncSession(loop_engine) as host:
                    with pytest.raises(TransactionConflict, match="run it again"):
                        await host.run_sync(lambda plain: turn(plain))
                    await host.rollback()
                await loop_engine.dispose()

            engine.session("s")
            other.exec_driver_sql("BEGIN IMMEDIATE")
            if how == "aiosqlite":
                asyncio.run(on_a_loop())
            with HostSession(host_engine) as host:
                with pytest.raises(TransactionConflict, match="run it again"):
                    turn(host)
                host.rollback()
                other.rollback()
                turn(host)
                host.commit()
            assert tools(engine.session("s")) == ["mine"]

    def test_a_lock_that_the_host_does_not_wait_for_is_a_conflict(
        self, pg: Engine, pg_url: str, host_of: Callable[..., HostEngine]
    ) -> None:
        host_engine = host_of(pg_url, connect_args={"options": "-c lock_timeout=50"})
        pg.session("s")
        with HostSession(host_engine) as first, HostSession(host_engine) as second:
            pg.session("s", db=first).process("first", tool="first")
            with pytest.raises(TransactionConflict, match="run it again"):
                pg.session("s", db=second).process("second", tool="second")
            second.rollback()
            first.commit()
            pg.session("s", db=second).process("second", tool="second")
            second.commit()
        assert tools(pg.session("s")) == ["first", "second"]


def begins_by(host_engine: HostEngine, statement: str) -> None:
    """Begin each transaction by this statement, as SQLAlchemy's own recipe has it."""

    @event.listens_for(host_engine, "connect")
    def connect(driver: Any, _record: object) -> None:
        driver.isolation_level = None

    @event.listens_for(host_engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)


class TestOnAnEventLoop:
    @pytest.mark.parametrize("driver", [pytest.param("asyncpg", marks=pytest.mark.slow), "psycopg"])
    @pytest.mark.parametrize("level", [pytest.param("READ COMMITTED", marks=pytest.mark.slow), *SNAPSHOTS])
    def test_every_level(self, pg_url: str, sandbox: Sandbox, driver: str, level: str) -> None:
        async def work() -> None:
            host_engine = create_async_engine(
                make_url(pg_url).set(drivername=f"postgresql+{driver}"), isolation_level=level
            )
            async with AsyncEngine(pg_url, interpreter=sandbox) as engine, HostAsyncSession(host_engine) as host:
                ours = await engine.session("s")
                assert (await host.scalars(select(User))).all() == []
                session = await engine.session("s", db=host)
                assert (await session.process(page(2_000), tool="list_users")).route == "variables"
                assert (await session.call("code_interpreter", {"code": "len(users)"})).content == "2000"
                await host.commit()  # by default it expires what the host has loaded
                assert len(await ours.artifacts()) == 1
                if level != "READ COMMITTED":
                    await host.scalars(select(User))
                    await ours.process("theirs", tool="theirs")
                    with pytest.raises(TransactionConflict):
                        await session.process("mine", tool="mine")
                    await host.rollback()
                await session.process("mine", tool="mine")
                await host.commit()
                assert [entry.tool for entry in await ours.ledger()][-1] == "mine"
            await host_engine.dispose()

        asyncio.run(work())
        check_invariants(pg_url)

    @pytest.mark.slow
    @pytest.mark.parametrize("driver", DRIVERS)
    def test_nested_savepoints(self, request: pytest.FixtureRequest, sandbox: Sandbox, driver: str) -> None:
        sync = with_users(request.getfixturevalue("sqlite_url" if driver == "aiosqlite" else "postgres_url"))
        parsed = make_url(sync)

        async def work() -> None:
            host_engine = create_async_engine(parsed.set(drivername=f"{parsed.get_backend_name()}+{driver}"))
            async with AsyncEngine(sync, interpreter=sandbox) as engine, HostAsyncSession(host_engine) as host:
                host.add(User(id=1))
                await host.flush()
                session = await engine.session("s", db=host)
                async with host.begin_nested():
                    await session.process(page(2_000), tool="kept")
                    inner = await host.begin_nested()
                    await session.process("gone", tool="gone")
                    host.add(User(id=2))
                    await inner.rollback()
                    await session.process("kept too", tool="kept too")
                await host.commit()
            await host_engine.dispose()

        asyncio.run(work())
        with Engine(sync, interpreter=sandbox) as engine:
            assert tools(engine.session("s")) == ["kept", "kept too"]
            assert engine.session("s").variable("users").value() == page(2_000)["users"]
        assert rows(sync, "SELECT id FROM users") == [(1,)]
        check_invariants(sync)

    @pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg", "psycopg"])
    def test_a_connection_without_transactions_is_refused(
        self, request: pytest.FixtureRequest, sandbox: Sandbox, driver: str
    ) -> None:
        sync = request.getfixturevalue("sqlite_url" if driver == "aiosqlite" else "postgres_url")
        parsed = make_url(sync)

        async def work() -> None:
            host_engine = create_async_engine(
                parsed.set(drivername=f"{parsed.get_backend_name()}+{driver}"), isolation_level="AUTOCOMMIT"
            )
            async with AsyncEngine(sync, interpreter=sandbox) as engine, HostAsyncSession(host_engine) as host:
                with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
                    await engine.session("s", db=host)
            await host_engine.dispose()

        asyncio.run(work())


class TestSavepoints:
    def test_nested_ones_of_the_host(self, engine: Engine, url: str, host_of: Callable[..., HostEngine]) -> None:
        with HostSession(host_of(url)) as host:
            host.add(User(id=1))
            host.flush()
            session = engine.session("s", db=host)
            with host.begin_nested():
                session.process(page(2_000), tool="kept")
                inner = host.begin_nested()
                session.process("gone", tool="gone")
                host.add(User(id=2))
                inner.rollback()
                session.process("kept too", tool="kept too")
            host.commit()
        assert tools(engine.session("s")) == ["kept", "kept too"]
        assert rows(url, "SELECT id FROM users") == [(1,)]

    def test_our_error_inside_one_leaves_it_usable(
        self, engine: Engine, url: str, host_of: Callable[..., HostEngine]
    ) -> None:
        with HostSession(host_of(url)) as host:
            host.add(User(id=1))
            host.flush()
            session = engine.session("s", db=host)
            with host.begin_nested():
                with pytest.raises(StorageFailure):
                    session._scope.write(lambda connection: connection.execute(text("SELECT * FROM nowhere")))
                host.add(User(id=2))
                session.process("after", tool="after")
            host.commit()
        assert tools(engine.session("s")) == ["after"]
        assert rows(url, "SELECT id FROM users ORDER BY id") == [(1,), (2,)]

    def test_what_we_returned_does_not_expire(
        self, engine: Engine, url: str, host_of: Callable[..., HostEngine]
    ) -> None:
        """A host's commit expires its own objects; ours are plain records."""
        with HostSession(host_of(url)) as host:
            user = User(id=1)
            host.add(user)
            session = engine.session("s", db=host)
            result = session.process(page(2_000), tool="list_users")
            artifact, variable = result.artifacts[0], session.variable("users")
            host.commit()
            assert host.expire_on_commit
            statements: list[str] = []
            event.listen(host.get_bind(), "before_cursor_execute", lambda *given: statements.append(given[2]))
            assert "" not in (artifact.id, artifact.shape, variable.name, variable.shape)
            assert statements == []
            assert user.id == 1
            assert statements
            assert artifact.value == page(2_000)

    def test_two_phase(self, pg: Engine, pg_url: str, host_of: Callable[..., HostEngine]) -> None:
        host_engine = host_of(pg_url)
        with host_engine.connect() as host:
            for end, kept in (("rollback", []), ("commit", ["t"])):
                transaction = host.begin_twophase()
                pg.session("s", db=host).process("text", tool="t")
                getattr(transaction, end)()
                assert tools(pg.session("s")) == kept


class TestAutocommit:
    def test_a_connection_that_commits_every_statement_is_refused(
        self, engine: Engine, url: str, host_of: Callable[..., HostEngine]
    ) -> None:
        engine.session("s")
        for host_engine in (
            host_of(url, isolation_level="AUTOCOMMIT"),
            host_of(url).execution_options(isolation_level="AUTOCOMMIT"),
        ):
            with HostSession(host_engine) as host, pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
                engine.session("s", db=host)
            with host_engine.connect() as connection, pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
                engine.session("s", db=connection)
        with host_of(url).connect() as connection:
            engine.session("s", db=connection).process("text", tool="t")
            connection.commit()
        assert tools(engine.session("s")) == ["t"]
