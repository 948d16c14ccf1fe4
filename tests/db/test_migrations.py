"""A database can be built, unbuilt and rebuilt at every revision, and ends up as the tables in the code say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sampled import sampled
from sqlalchemy import Connection, Engine, create_engine, inspect, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import StaticPool
from structure import structure

import byref
from byref import db
from byref.db import migrate, revisions
from byref.db.database import Database
from byref.db.failures import options_of, storage_failure
from byref.db.tables import Base
from byref.errors import ConfigurationError, SchemaMismatch, StorageFailure

CHECKOUT = Path(__file__).parents[2]
TABLES = {*Base.metadata.tables, "byref_version"}


ON_SQLITE = pytest.mark.parametrize(
    "empty_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
"""What is decided before a database does anything of its own."""


@pytest.fixture
def engine(empty_url: str) -> Iterator[Engine]:
    engine = create_engine(empty_url)
    yield engine
    engine.dispose()


@pytest.fixture
def migrated(shared_url: str) -> Iterator[Engine]:
    """The same on a copy of a database that was migrated once."""
    engine = create_engine(shared_url)
    yield engine
    engine.dispose()


def test_there_is_one_head_and_the_list_of_revisions_is_right() -> None:
    scripts = ScriptDirectory.from_config(migrate._config())
    assert scripts.get_heads() == [revisions.HEAD] == [db.head()]
    assert tuple(record.revision for record in db.history()) == revisions.REVISIONS
    assert [record.down_revision for record in db.history()] == [None, *revisions.REVISIONS[:-1]]
    assert all(record.message for record in db.history())


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "revision",
    [pytest.param(name, marks=pytest.mark.slow) for name in revisions.REVISIONS[:-3]] + [*revisions.REVISIONS[-3:]],
)
def test_every_step_can_be_retraced(engine: Engine, revision: str) -> None:
    before = {record.revision: record.down_revision for record in db.history()}[revision]
    db.upgrade(engine, revision)
    built = structure(engine)
    db.downgrade(engine, before or "base")
    assert db.current(engine) == before
    db.upgrade(engine, revision)
    assert db.current(engine) == revision
    assert structure(engine) == built


def test_names_that_older_code_cannot_read_go(shared_url: str) -> None:
    teams = [{"team": {"members": [{"n": n, "team": team} for n in range(40)]}} for team in range(100)]
    with byref.Engine(shared_url) as engine:
        engine.session("s").process({"results": teams}, tool="teams")
    names = text("SELECT name, substr(path, 1, 1) FROM byref_variables")
    database = create_engine(shared_url)
    with database.connect() as connection:
        before = {tuple(row) for row in connection.execute(names)}
    assert {path for _, path in before} == {"[", "{"}
    db.downgrade(database, "0002")
    with database.connect() as connection:
        assert {tuple(row) for row in connection.execute(names)} == {row for row in before if row[1] == "["}
    database.dispose()


def test_base_leaves_no_table_of_ours(migrated: Engine) -> None:
    assert set(inspect(migrated).get_table_names()) == TABLES
    db.downgrade(migrated, "base")
    assert set(inspect(migrated).get_table_names()) == {"byref_version"}
    assert db.current(migrated) is None


def test_the_tables_in_the_code_are_those_of_the_migrations(
    migrated: Engine, tmp_path: Path, make_postgres: Callable[..., str]
) -> None:
    with migrate.exclusive(migrated) as connection:
        command.check(migrate._config(connection))
    made_by_code = create_engine(
        f"sqlite:///{tmp_path / 'code'}" if migrated.dialect.name == "sqlite" else make_postgres()
    )
    with made_by_code.begin() as connection:
        Base.metadata.create_all(connection)
        if migrated.dialect.name == "postgresql":  # which no table in the code can say
            for table in ("byref_frames", "byref_names"):
                connection.execute(text(f"ALTER TABLE {table} ALTER data SET STORAGE EXTERNAL"))
    expected = structure(made_by_code)
    made_by_code.dispose()
    assert [row for row in structure(migrated) if "byref_version" not in " ".join(row)] == expected


def test_drift_would_be_noticed(migrated: Engine) -> None:
    with migrated.begin() as connection:
        connection.execute(text("ALTER TABLE byref_runs ADD COLUMN stray INTEGER"))
    with pytest.raises(CommandError, match="stray"), migrate.exclusive(migrated) as connection:
        command.check(migrate._config(connection))


def test_frames_are_kept_out_of_line_and_uncompressed(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        query = "SELECT attstorage FROM pg_attribute WHERE attrelid = 'byref_frames'::regclass AND attname = 'data'"
        assert connection.execute(text(query)).scalar_one() == "e"
    engine.dispose()


def test_upgrading_again_changes_nothing(migrated: Engine) -> None:
    built = structure(migrated)
    db.upgrade(migrated)
    assert structure(migrated) == built


@pytest.mark.quick_cases(1)
def test_many_processes_may_start_on_a_new_database_at_once(empty_url: str, race: Callable[..., list[str]]) -> None:
    script = """
from byref import db
from byref.db.database import Database
from byref.db.failures import options_of, storage_failure
import byref.db.migrate
go()
database = Database(sys.argv[1])
database.prepare(create=None if database.dialect == "sqlite" else True)
print(db.current(database.engine))
database.close()
"""
    assert race(6, script, empty_url) == [revisions.HEAD] * 6


def test_tables_that_another_process_makes_between_two_looks_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    database = Database(url)
    is_empty = database._is_empty

    def made_meanwhile() -> bool:
        db.upgrade(url)
        return is_empty()

    monkeypatch.setattr(database, "_is_empty", made_meanwhile)
    database.prepare()
    assert db.current(database.engine) == revisions.HEAD
    database.close()


@pytest.mark.slow
def test_threads_may_migrate_several_databases_at_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    urls = [f"sqlite:///{tmp_path / f'{number}.db'}" for number in range(4)] * 2
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(db.upgrade, urls))
    assert {db.current(url) for url in urls} == {revisions.HEAD}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("failing_at", ["byref_frames", "byref_tombstones", "byref_version"])
def test_a_failed_migration_leaves_nothing(engine: Engine, failing_at: str) -> None:
    with engine.begin() as connection:  # a view of the same name: CREATE TABLE fails half-way
        connection.execute(text(f"CREATE VIEW {failing_at} AS SELECT 1 AS version_num"))
    with pytest.raises((StorageFailure, SchemaMismatch), match=failing_at if failing_at != "byref_version" else "'1'"):
        db.upgrade(engine)
    assert inspect(engine).get_table_names() == []
    with engine.begin() as connection:
        connection.execute(text(f"DROP VIEW {failing_at}"))
    db.upgrade(engine)
    assert db.current(engine) == revisions.HEAD


def test_a_failed_downgrade_leaves_everything(migrated: Engine) -> None:
    with migrated.begin() as connection:  # one of the last that it drops
        connection.execute(
            text(
                "DROP TABLE byref_blobs CASCADE" if migrated.dialect.name == "postgresql" else "DROP TABLE byref_blobs"
            )
        )
    built = structure(migrated)
    with pytest.raises(StorageFailure):
        db.downgrade(migrated, "base")
    assert structure(migrated) == built


@ON_SQLITE
@pytest.mark.parametrize("revision", ["9999", "no such", "head:base", "", "+99"])
def test_an_unknown_revision_is_named(engine: Engine, revision: str) -> None:
    with pytest.raises(ConfigurationError, match="there are base, 0001"):
        db.upgrade(engine, revision)
    assert inspect(engine).get_table_names() == []


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite:////tmp/a b.db", "--db 'sqlite:////tmp/a b.db'"),
        ("postgresql+psycopg://host/shop", "--db postgresql+psycopg://host/shop"),
        ("postgresql://me:@host:5/shop", "--db postgresql://me@host:5/shop"),
        ("postgresql://me:s3cret@host:5/shop", "--db 'postgresql://me:***@host:5/shop'"),
        (
            "postgresql://me@/shop?host=/var/run/pg&password=s3cret&sslmode=require&sslpassword=s3cret",
            "--db 'postgresql://me@/shop?host=/var/run/pg&password=***&sslmode=require&sslpassword=***'",
        ),
    ],
)
def test_what_names_a_database_on_the_command_line(url: str, named: str) -> None:
    assert options_of(make_url(url)) == named
    assert options_of(make_url(url), "a;b") == f"{named} --schema 'a;b'"


@pytest.mark.parametrize(
    ("password", "said", "shown"),
    [
        ("p", "connection to port 9 failed", "connection to port 9 failed"),
        ("p", 'missing "=" after "p"', 'missing "=" after "***"'),
        ("s3cret", "user=me password=s3cret", "user=me password=***"),
        ("s3cret/word", "at s3cret%2Fword@host, s3cret/word", "at ***@host, ***"),
        ("longer than words", "xlonger than wordsx", "x***x"),
    ],
)
def test_passwords_are_masked_and_words_are_left_whole(password: str, said: str, shown: str) -> None:
    url = make_url("postgresql://me@host/x").set(password=password)
    told = str(storage_failure(OperationalError("SELECT 1", {}, Exception(said)), url))
    assert told == f"the database postgresql://me:***@host/x: {shown}"


class TestMismatch:
    def test_nothing_there(self, engine: Engine) -> None:
        with pytest.raises(SchemaMismatch) as caught:
            db.check(engine)
        assert "has no byref tables" in str(caught.value)
        assert f"`byref db upgrade {options_of(engine.url)}`" in str(caught.value)
        assert "byref.db.upgrade(engine)" in str(caught.value)

    def test_of_a_database_in_memory_no_command_is_named(self) -> None:
        with pytest.raises(SchemaMismatch) as caught:
            db.check("sqlite:///:memory:")
        assert str(caught.value).endswith(f"this byref needs '{db.head()}': call byref.db.upgrade(engine)")

    def test_a_schema_is_part_of_the_cure(self, empty_postgres_url: str) -> None:
        with pytest.raises(SchemaMismatch) as caught:
            db.check(empty_postgres_url, schema="my schema")
        assert " --schema 'my schema'`" in str(caught.value)
        assert str(caught.value).endswith("or call byref.db.upgrade(engine, schema='my schema')")

    def test_up_to_date(self, migrated: Engine) -> None:
        db.check(migrated)

    def test_older(self, migrated: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        at = revisions.HEAD
        monkeypatch.setattr(revisions, "REVISIONS", (*revisions.REVISIONS, "0999"))
        monkeypatch.setattr(revisions, "HEAD", "0999")
        with pytest.raises(
            SchemaMismatch, match=rf"is at revision '{at}', and this byref needs '0999': run `byref db upgrade --db "
        ):
            db.check(migrated)

    @pytest.mark.quick_on("sqlite", "it is decided before a database does anything of its own")
    @pytest.mark.parametrize("act", [db.check, db.upgrade, lambda engine: db.downgrade(engine, "base")])
    def test_newer(self, migrated: Engine, act: Callable[[Engine], None]) -> None:
        built = structure(migrated)
        with migrated.begin() as connection:
            connection.execute(text("UPDATE byref_version SET version_num = 'ffff'"))
        with pytest.raises(SchemaMismatch, match=r"'ffff'.* newer byref\. Upgrade the package"):
            act(migrated)
        assert structure(migrated) == built

    @pytest.mark.parametrize("act", [db.check, db.current])
    def test_several(self, migrated: Engine, act: Callable[[Engine], object]) -> None:
        with migrated.begin() as connection:
            connection.execute(text("INSERT INTO byref_version VALUES ('0001')"))
        with pytest.raises(
            ConfigurationError, match=rf"byref_version has several rows \(0001, {revisions.HEAD}\): .+delete"
        ):
            act(migrated)


class TestCompatibility:
    """A database that a newer byref has migrated says how old the code may be that works with it."""

    @pytest.fixture
    def newer(self, migrated: Engine) -> Callable[..., Engine]:
        def make(oldest: str, marked: str = "ffff") -> Engine:
            with migrated.begin() as connection:
                connection.execute(text("UPDATE byref_version SET version_num = 'ffff'"))
                given = {"marked": marked, "oldest": oldest}
                connection.execute(text("UPDATE byref_compatibility SET revision = :marked, oldest = :oldest"), given)
            return migrated

        return make

    @pytest.mark.quick_cases(1)
    def test_each_migration_says_it(self, engine: Engine) -> None:
        known = revisions.REVISIONS
        for record in db.history():
            assert known.index(record.oldest) <= known.index(record.revision)
        said = {record.revision: record.oldest for record in db.history()} | {"0001": None}
        for move, there in ((db.upgrade, known), (db.downgrade, known[-2::-1]), (db.upgrade, known[1:])):
            for revision in there:
                move(engine, revision)
                assert (db.current(engine), db.oldest(engine)) == (revision, said[revision])

    @pytest.mark.parametrize("oldest", sampled(revisions.REVISIONS, 3))
    def test_code_that_is_not_too_old_works(
        self, newer: Callable[..., Engine], oldest: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        engine = newer(oldest)
        built = structure(engine)
        for act in (
            db.check,
            db.upgrade,
            *(lambda engine, create=create: Database(engine).prepare(create) for create in (None, True, False)),
        ):
            caplog.clear()
            act(engine)
            [record] = caplog.records
            assert (record.name, record.levelname) == ("byref", "WARNING")
            assert f"at revision 'ffff', and this byref is made for '{revisions.HEAD}'" in record.getMessage()
            assert f"code since '{oldest}' works with it" in record.getMessage()
        assert structure(engine) == built
        assert (db.current(engine), db.oldest(engine)) == ("ffff", oldest)

    @pytest.mark.parametrize("act", [lambda e: db.upgrade(e, revisions.HEAD), lambda e: db.downgrade(e, "base")])
    def test_only_the_newer_can_migrate_it(self, newer: Callable[..., Engine], act: Callable[[Engine], None]) -> None:
        engine = newer(revisions.HEAD)
        with pytest.raises(SchemaMismatch, match=r"'ffff'.*newer byref.*Upgrade the package"):
            act(engine)
        assert db.current(engine) == "ffff"

    @pytest.mark.quick_on("sqlite", "it is decided before a database does anything of its own")
    @pytest.mark.parametrize(
        ("oldest", "marked"),
        [("fffe", "ffff"), ("ffff", "ffff"), ("0001", "fffe")],
        ids=["later", "itself", "another's"],
    )
    def test_code_that_is_too_old_is_refused(self, newer: Callable[..., Engine], oldest: str, marked: str) -> None:
        engine = newer(oldest, marked)
        for act in (db.check, db.upgrade, lambda engine: Database(engine).prepare(True)):
            with pytest.raises(
                SchemaMismatch, match=r"'ffff', which this byref does not know.*Upgrade the package"
            ) as told:
                act(engine)
            assert (f"works with byref of revision '{oldest}' or newer" in str(told.value)) == (marked == "ffff")

    def test_it_is_looked_at(self, newer: Callable[..., Engine]) -> None:
        engine = newer("0001")
        assert db.verify(engine) == []
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE byref_version SET version_num = '{revisions.HEAD}'"))
            connection.execute(text("DELETE FROM byref_compatibility"))
        [problem] = db.verify(engine)
        assert (problem.check, problem.table) == ("compatibility", "byref_compatibility")

    def test_in_a_schema(self, empty_postgres_url: str) -> None:
        db.upgrade(empty_postgres_url, schema="agent")
        assert db.oldest(empty_postgres_url, schema="agent") == db.history()[-1].oldest
        assert db.oldest(empty_postgres_url) is None
        assert db.verify(empty_postgres_url, schema="agent") == []


class TestTablesInUse:
    """A migration does not make everybody wait who comes after it while it waits itself."""

    @pytest.fixture
    def reader(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
        monkeypatch.setattr(migrate, "LOCK_SECONDS", 0.2)
        engine = create_engine(postgres_url)
        with engine.connect() as connection:
            connection.execute(text("SELECT count(*) FROM byref_ledger"))
            yield connection
        engine.dispose()

    def test_it_gives_up_and_changes_nothing(
        self, reader: Connection, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(migrate, "LOCK_ATTEMPTS", 2)
        with pytest.raises(StorageFailure, match="lock timeout"):
            db.downgrade(postgres_url, "base")
        assert db.current(postgres_url) == revisions.HEAD

    def test_it_comes_to_its_turn_and_others_go_on(self, reader: Connection, postgres_url: str) -> None:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool, create_engine(postgres_url).connect() as other:
            done = pool.submit(db.downgrade, postgres_url, "base")
            waits = []
            for _ in range(5):
                begun = time.monotonic()
                other.execute(text("SELECT count(*) FROM byref_ledger"))
                other.rollback()
                waits.append(time.monotonic() - begun)
                time.sleep(0.1)
            assert not done.done()
            reader.rollback()
            done.result(timeout=60)
        other.engine.dispose()
        assert db.current(postgres_url) is None
        assert max(waits) < 5

    def test_a_hosts_own_limit_is_kept(self, reader: Connection, postgres_url: str) -> None:
        options = {"options": "-c lock_timeout=7s"}
        engine = create_engine(postgres_url, connect_args=options)
        with migrate.exclusive(engine) as connection:
            assert connection.exec_driver_sql("SHOW lock_timeout").scalar_one() == "7s"
        engine.dispose()
        with migrate.exclusive(postgres_url) as connection:
            assert connection.exec_driver_sql("SHOW lock_timeout").scalar_one() == "200ms"


def test_asking_makes_no_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'absent.db'}"
    assert db.current(url) is None
    with pytest.raises(SchemaMismatch):
        db.check(url)
    assert list(tmp_path.iterdir()) == []


class TestInsideAHost:
    """A host's tables, its `alembic_version` and its autogenerate live in the same database."""

    @pytest.fixture
    def host(self, engine: Engine) -> Engine:
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE users (id INTEGER PRIMARY KEY)"))
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
            connection.execute(text("INSERT INTO alembic_version VALUES ('host-rev')"))
        return engine

    def version(self, connection: Connection) -> object:
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()

    @pytest.mark.quick_cases(1)
    def test_neither_notices_the_other(self, host: Engine) -> None:
        before = set(inspect(host).get_table_names())
        db.upgrade(host)
        with migrate.exclusive(host) as connection:
            command.check(migrate._config(connection))
            assert self.version(connection) == "host-rev"
        db.downgrade(host, "base")
        assert set(inspect(host).get_table_names()) == before | {"byref_version"}
        with host.connect() as connection:
            assert self.version(connection) == "host-rev"

    @pytest.mark.quick_cases(1)
    def test_the_hosts_autogenerate_leaves_our_tables_alone(self, host: Engine) -> None:
        db.upgrade(host)

        def changes(**options: object) -> set[str]:
            from sqlalchemy import MetaData

            with host.connect() as connection:
                context = MigrationContext.configure(connection, opts=options)
                found = compare_metadata(context, MetaData())
            return {change[1].name for change in found if change[0] == "remove_table"}

        assert changes(include_name=db.include_name) == {"users"}
        assert changes() == {"users", *TABLES}  # what include_name is there to prevent

    @pytest.mark.quick_cases(1)
    def test_the_hosts_engine_is_as_it_was(self, host: Engine) -> None:
        if host.dialect.name == "sqlite":
            with host.connect() as connection:
                before = [
                    connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("foreign_keys", "journal_mode")
                ]
            db.upgrade(host)
            with host.connect() as connection:
                after = [
                    connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("foreign_keys", "journal_mode")
                ]
            assert after == before == [0, "delete"]
        else:
            level = host.dialect.default_isolation_level
            db.upgrade(host)
            with host.connect() as connection:
                assert connection.get_isolation_level() == level
                assert connection.exec_driver_sql("SHOW search_path").scalar() == '"$user", public'

    def test_a_host_in_autocommit_or_serializable_still_migrates_whole(self, empty_postgres_url: str) -> None:
        for level in ("AUTOCOMMIT", "SERIALIZABLE"):
            engine = create_engine(empty_postgres_url, isolation_level=level)
            with engine.connect() as connection:
                connection.exec_driver_sql("CREATE VIEW byref_tombstones AS SELECT 1 AS one")
                connection.commit()
            with pytest.raises(StorageFailure):
                db.upgrade(engine)
            assert inspect(engine).get_table_names() == []
            with engine.connect() as connection:
                connection.exec_driver_sql("DROP VIEW byref_tombstones")
                connection.commit()
            engine.dispose()


class TestSchema:
    """On PostgreSQL the tables may live in a schema of their own."""

    NAME = 'Agent "memory"'

    def test_up_and_down(self, empty_postgres_url: str) -> None:
        engine = create_engine(empty_postgres_url)
        db.upgrade(engine, schema=self.NAME)
        assert set(inspect(engine).get_table_names(schema=self.NAME)) == TABLES
        assert inspect(engine).get_table_names() == []
        assert db.current(engine, schema=self.NAME) == revisions.HEAD
        assert db.current(engine) is None
        db.check(engine, schema=self.NAME)
        with migrate.exclusive(engine, schema=self.NAME) as connection:
            command.check(migrate._config(connection))
        db.upgrade(engine, schema="second")
        db.downgrade(engine, "base", schema=self.NAME)
        assert set(inspect(engine).get_table_names(schema=self.NAME)) == {"byref_version"}
        assert db.current(engine, schema="second") == revisions.HEAD
        engine.dispose()

    def test_a_failure_leaves_no_schema(self, empty_postgres_url: str) -> None:
        engine = create_engine(empty_postgres_url)
        with pytest.raises(ConfigurationError):
            db.upgrade(engine, "9999", schema="agent")
        assert "agent" not in inspect(engine).get_schema_names()
        engine.dispose()

    @pytest.mark.parametrize("schema", ["", "x" * 64, "a\0b", "\ud800", 5])
    def test_names_that_cannot_be(self, empty_postgres_url: str, schema: str) -> None:
        with pytest.raises(ConfigurationError, match="1 to 63 bytes"):
            db.upgrade(empty_postgres_url, schema=schema)

    def test_sqlite_has_none(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="only PostgreSQL has schemas"):
            db.upgrade(f"sqlite:///{tmp_path / 'x.db'}", schema="agent")


class TestCommandLine:
    """`alembic` in a checkout does what `byref.db` does."""

    def alembic(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "alembic", *arguments],
            cwd=CHECKOUT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )

    @pytest.mark.slow
    def test_up_and_down(self, empty_url: str) -> None:
        up = self.alembic("upgrade", "head", BYREF_DB=empty_url)
        assert up.returncode == 0, up.stderr
        db.check(empty_url)
        down = self.alembic("-x", f"url={empty_url}", "downgrade", "base")
        assert down.returncode == 0, down.stderr
        assert db.current(empty_url) is None

    @pytest.mark.slow
    def test_offline(self, tmp_path: Path, empty_postgres_url: str) -> None:
        given = self.alembic("-x", "url=sqlite://", "upgrade", "head", "--sql")
        assert given.returncode == 0, given.stderr
        import sqlite3

        with sqlite3.connect(tmp_path / "offline.db") as connection:
            connection.executescript(given.stdout.replace(" RETURNING version_num", ""))
        connection.close()
        db.check(f"sqlite:///{tmp_path / 'offline.db'}")

        given = self.alembic("-x", f"url={empty_postgres_url}", "-x", "schema=agent", "upgrade", "head", "--sql")
        assert given.returncode == 0, given.stderr
        engine = create_engine(empty_postgres_url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(given.stdout)
        db.check(engine, schema="agent")
        engine.dispose()

    @pytest.mark.slow
    def test_it_asks_which_database(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "BYREF_DB"}
        done = subprocess.run(
            [sys.executable, "-m", "alembic", "upgrade", "head"],
            cwd=CHECKOUT,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        assert "BYREF_DB" in done.stdout + done.stderr


@pytest.mark.slow
def test_a_package_finds_its_scripts_inside_itself(tmp_path: Path) -> None:
    """In a wheel the scripts are at byref/migrations, and no checkout is near."""
    shutil.copytree(CHECKOUT / "engine" / "byref", tmp_path / "byref")
    shutil.copytree(CHECKOUT / "migrations", tmp_path / "byref" / "migrations")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from byref import db; assert db.__file__.startswith(sys.argv[1]), db.__file__\n"
        "db.upgrade(sys.argv[2]); db.check(sys.argv[2])"
    )
    url = f"sqlite:///{tmp_path / 'x.db'}"
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path), url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_alembic_is_imported_only_to_migrate(sqlite_url: str) -> None:
    script = (
        "import sys; from byref.db.database import Database\n"
        "database = Database(sys.argv[1]); database.prepare(); database.close()\n"
        "assert 'alembic' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script, sqlite_url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_in_memory_database_of_a_host_migrates() -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    Database(engine).prepare()
    assert set(inspect(engine).get_table_names()) == TABLES
    engine.dispose()


def test_starting_is_quick(tmp_path: Path) -> None:
    """In processor time, which other processes cannot lengthen."""
    begun = time.process_time()
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    database.prepare()
    made = time.process_time() - begun
    checks = []
    for _ in range(5):
        begun = time.process_time()
        database.prepare()
        checks.append(time.process_time() - begun)
    database.close()
    assert made < 0.4
    assert min(checks) < 0.005
