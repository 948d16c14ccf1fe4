"""Inside a host: its engine keeps its settings, and its transaction decides what is kept."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Integer, create_engine, event, insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker
from sqlalchemy.pool import StaticPool

from byref import db
from byref.db.connections import sqlite_path
from byref.db.database import Database
from byref.db.tables import SessionRow
from byref.errors import ConfigurationError, StorageFailure, TransactionConflict


class HostBase(DeclarativeBase):
    pass


class User(HostBase):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)


def add_session(connection: Connection, name: str = "chat") -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    connection.execute(insert(SessionRow).values(tenant="acme", name=name, created_at=now))


@pytest.fixture
def engine(shared_url: str) -> Iterator[Engine]:
    """A host's engine, made as SQLAlchemy makes it when told nothing."""
    engine = create_engine(shared_url)
    HostBase.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def database(engine: Engine) -> Database:
    return Database(engine)


def kept(engine: Engine) -> tuple[list[int], list[str]]:
    with Session(engine) as session:
        return list(session.scalars(select(User.id))), list(
            session.scalars(select(SessionRow.name).order_by(SessionRow.name))
        )


class TestJoined:
    @pytest.mark.parametrize("host_first", [True, False])
    def test_the_hosts_commit_keeps_both(self, database: Database, engine: Engine, host_first: bool) -> None:
        with Session(engine) as session:
            if host_first:
                session.add(User(id=1))
                session.flush()
            with database.joined(session) as connection:
                add_session(connection)
            session.merge(User(id=1))
            session.commit()
        assert kept(engine) == ([1], ["chat"])

    @pytest.mark.parametrize("host_first", ["nothing", "read", "write"])
    def test_the_hosts_rollback_leaves_nothing(self, database: Database, engine: Engine, host_first: str) -> None:
        with Session(engine) as session:
            if host_first == "read":
                session.scalars(select(User)).all()
            elif host_first == "write":
                session.add(User(id=1))
                session.flush()
            with database.joined(session) as connection:
                add_session(connection)
            session.rollback()
        assert kept(engine) == ([], [])

    @pytest.mark.parametrize("error", [ValueError("mine"), None])
    def test_an_error_undoes_the_work_and_leaves_the_hosts(
        self, database: Database, engine: Engine, error: Exception | None
    ) -> None:
        with Session(engine) as session:
            session.add(User(id=1))
            session.flush()
            with pytest.raises(ValueError if error else StorageFailure), database.joined(session) as connection:
                add_session(connection)
                if error:
                    raise error
                connection.execute(text("SELECT * FROM nowhere"))
            session.add(User(id=2))
            session.commit()
        assert kept(engine) == ([1, 2], [])

    def test_a_constraint_passes_and_leaves_the_hosts(self, database: Database, engine: Engine) -> None:
        database.write(add_session)
        with Session(engine) as session:
            session.add(User(id=1))
            session.flush()
            with pytest.raises(IntegrityError), database.joined(session) as connection:
                add_session(connection)
            session.commit()
        assert kept(engine) == ([1], ["chat"])

    def test_twice_in_one_transaction(self, database: Database, engine: Engine) -> None:
        with Session(engine) as session:
            for name in ("a", "b"):
                with database.joined(session) as connection:
                    add_session(connection, name)
            session.commit()
        assert kept(engine) == ([], ["a", "b"])

    def test_inside_the_hosts_savepoint(self, database: Database, engine: Engine) -> None:
        with Session(engine) as session:
            session.add(User(id=1))
            nested = session.begin_nested()
            with database.joined(session) as connection:
                add_session(connection)
            nested.rollback()
            session.commit()
        assert kept(engine)[1] == []

    def test_a_connection_and_a_scoped_session_do_as_well(self, database: Database, engine: Engine) -> None:
        with engine.begin() as host, database.joined(host) as connection:
            add_session(connection, "a")
        scope = scoped_session(sessionmaker(engine))
        with database.joined(scope) as connection:
            add_session(connection, "b")
        scope.commit()
        scope.remove()
        assert kept(engine) == ([], ["a", "b"])

    @pytest.mark.parametrize("given", [None, object()])
    def test_anything_else_is_refused(self, database: Database, given: object) -> None:
        with pytest.raises(ConfigurationError, match="run_sync"), database.joined(given):
            pass

    @pytest.mark.parametrize("binds", [None, {User: create_engine("sqlite://")}])
    def test_a_session_without_an_engine_for_our_tables(
        self, database: Database, engine: Engine, binds: dict[Any, Any] | None
    ) -> None:
        with Session(binds=binds) as session:
            with pytest.raises(ConfigurationError, match="give the Connection"), database.joined(session):
                pass
            with database.joined(session.connection(bind_arguments={"bind": engine})) as connection:
                add_session(connection)
            session.commit()
        assert kept_names(database) == ["chat"]

    def test_sqlites_lock_is_waited_for_before_anything_is_read(self, sqlite_url: str) -> None:
        """With a plain BEGIN, as SQLAlchemy's own recipe has it: SQLite lets nobody wait who has read before."""
        engine = create_engine(sqlite_url)
        begun_plainly(engine)
        database, other = Database(engine), sqlite3.connect(sqlite_path(engine.url), check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.3, other.rollback)
        release.start()
        with Session(engine) as session:
            with database.joined(session) as connection:
                assert connection.execute(select(SessionRow.id)).all() == []
                add_session(connection)
            session.commit()
        release.join()
        with Session(engine) as session:
            assert session.execute(select(SessionRow.name)).scalars().all() == ["chat"]
            with other:
                other.execute("UPDATE byref_sessions SET name = 'other'")
            with pytest.raises(TransactionConflict), database.joined(session):
                pass
            session.rollback()
        other.close()
        engine.dispose()

    @pytest.mark.postgresql("its connections can be ended by others")
    def test_a_transaction_that_has_failed_is_a_storage_failure_each_time(self, postgres_url: str) -> None:
        engine = create_engine(postgres_url)
        database = Database(engine)
        with Session(engine) as session:
            pid = session.execute(text("SELECT pg_backend_pid()")).scalar()
            with engine.connect() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            for _ in range(3):
                with pytest.raises(StorageFailure), database.joined(session):
                    pass
        engine.dispose()

    def test_no_other_unit_of_work_meanwhile(self, database: Database, engine: Engine) -> None:
        """It would wait for the host's transaction, which waits for it."""
        with (
            Session(engine) as session,
            database.joined(session),
            pytest.raises(RuntimeError, match="use the connection it was given"),
        ):
            database.write(add_session)
        database.write(add_session)


class TestSchemaInsideAHost:
    """Where a table is looked for is ours to say for our statements, the host's for its own."""

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("ours", [None, "agent"])
    @pytest.mark.parametrize("theirs", [None, {None: "tenant_1"}])
    def test_both_are_right(
        self, empty_postgres_url: str, ours: str | None, theirs: dict[str | None, str] | None
    ) -> None:
        engine = create_engine(empty_postgres_url)
        db.upgrade(engine, schema=ours)
        with engine.begin() as connection:
            connection.execute(text("CREATE SCHEMA tenant_1"))
            connection.execute(text(f"CREATE TABLE {'tenant_1' if theirs else 'public'}.users (id INTEGER)"))
        database = Database(engine, schema=ours)
        with Session(engine.execution_options(schema_translate_map=theirs) if theirs else engine) as session:
            for number in (1, 2):
                session.add(User(id=number))
                session.flush()
                with database.joined(session) as connection:
                    add_session(connection, f"chat-{number}")
            assert session.scalars(select(User.id)).all() == [1, 2]
            session.commit()
        with engine.connect() as connection:
            found = connection.execute(text(f"SELECT name FROM {ours or 'public'}.byref_sessions ORDER BY name"))
            assert found.scalars().all() == ["chat-1", "chat-2"]
        engine.dispose()


class TestAHostsEngine:
    def test_what_the_host_sees_on_its_connections_stays(self, engine: Engine, database: Database) -> None:
        def look() -> list[object]:
            with engine.connect() as connection:
                if engine.dialect.name == "sqlite":
                    pragmas = ("foreign_keys", "journal_mode", "busy_timeout", "synchronous")
                    seen = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas]
                    return [*seen, connection.connection.driver_connection.isolation_level]
                driver = connection.connection.driver_connection
                settings = [driver.read_only, driver.autocommit, driver.cursor_factory]
                return [*settings, connection.get_isolation_level(), connection.get_execution_options()]

        before = look()
        database.write(add_session)
        database.read(lambda connection: connection.execute(select(SessionRow)).all())
        with pytest.raises(StorageFailure):
            database.write(lambda connection: connection.execute(text("nonsense")))
        assert look() == before

    def test_foreign_keys_hold_for_us_though_the_host_has_them_off(self, sqlite_url: str) -> None:
        engine = create_engine(sqlite_url)
        orphan = text("INSERT INTO byref_frames VALUES (99, 0, 't', 0, 1, 1, 'none', x'00', NULL, NULL, NULL)")
        with pytest.raises(IntegrityError, match="FOREIGN KEY"):
            Database(engine).write(lambda connection: connection.execute(orphan))
        with engine.begin() as connection:
            connection.execute(orphan)  # the host's own connection is as lax as it was
        engine.dispose()

    @pytest.mark.parametrize("level", ["AUTOCOMMIT", "SERIALIZABLE"])
    def test_a_write_is_one_transaction_whatever_the_hosts_level(self, shared_url: str, level: str) -> None:
        engine = create_engine(shared_url, isolation_level=level)
        assert commits_by_itself(engine) == (level == "AUTOCOMMIT")
        database = Database(engine)

        def work(connection: Connection) -> None:
            add_session(connection)
            raise ValueError

        with pytest.raises(ValueError):
            database.write(work)
        assert kept_names(database) == []
        database.write(add_session)
        assert kept_names(database) == ["chat"]
        assert commits_by_itself(engine) == (level == "AUTOCOMMIT")
        engine.dispose()

    def test_a_host_that_begins_transactions_itself(self, sqlite_url: str) -> None:
        """The recipe of SQLAlchemy's documentation for SAVEPOINT on SQLite."""
        engine = create_engine(sqlite_url)
        begun: list[str] = []

        @event.listens_for(engine, "connect")
        def connect(driver: object, _record: object) -> None:
            driver.isolation_level = None

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            begun.append("BEGIN")
            connection.exec_driver_sql("BEGIN")

        database = Database(engine)
        database.write(add_session)
        assert kept_names(database) == ["chat"]
        with Session(engine) as session:
            with database.joined(session) as connection:
                add_session(connection, "second")
            session.rollback()
        assert kept_names(database) == ["chat"]
        assert begun
        engine.dispose()

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="the driver of older Pythons has no such setting")
    def test_a_driver_that_is_always_in_a_transaction(self, sqlite_url: str) -> None:
        engine = create_engine(sqlite_url, connect_args={"autocommit": False})
        database = Database(engine)
        database.write(add_session)
        with Session(engine) as session:
            with database.joined(session) as connection:
                add_session(connection, "second")
            session.rollback()
        assert kept_names(database) == ["chat"]
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 0
        engine.dispose()

    def test_a_driver_that_gives_bytes_for_text(self, sqlite_url: str) -> None:
        engine = create_engine(sqlite_url)
        event.listen(engine, "connect", lambda driver, _: setattr(driver, "text_factory", bytes))
        for refused in (Database(engine).prepare, lambda: db.upgrade(engine)):
            with pytest.raises(ConfigurationError, match="text_factory is <class 'bytes'>"):
                refused()
        ours = Database(sqlite_url)
        with engine.connect() as host, pytest.raises(ConfigurationError, match="text_factory"), ours.joined(host):
            pass
        ours.close()
        engine.dispose()

    def test_an_open_transaction_on_a_shared_connection_is_not_touched(self) -> None:
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        database = Database(engine)
        database.prepare()
        with Session(engine) as session:
            with database.joined(session) as connection:
                add_session(connection, "host's")
            with pytest.raises(ConfigurationError, match="somebody's transaction is open"):
                database.write(add_session)
            session.commit()
        assert kept_names(database) == ["host's"]
        engine.dispose()

    def test_closing_us_leaves_the_hosts_pool(self, engine: Engine, database: Database) -> None:
        database.write(add_session)
        pool = engine.pool
        database.close()
        assert engine.pool is pool
        assert kept(engine) == ([], ["chat"])


def kept_names(database: Database) -> list[str]:
    return database.read(lambda c: list(c.scalars(select(SessionRow.name).order_by(SessionRow.name))))


def commits_by_itself(engine: Engine) -> bool:
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        return driver.isolation_level is None if engine.dialect.name == "sqlite" else driver.autocommit


def begun_plainly(engine: Engine) -> None:
    """Have transactions begin as SQLAlchemy's documentation advises for SAVEPOINTs."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")
