"""Storage that goes away and comes back: each recovery by itself, and the scenarios of `make chaos` in a short form."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import faults_full
import faults_postgres
import faults_s3
import psycopg
import pytest
from faults_relay import Relay
from report import Scenario
from sqlalchemy import Connection, create_engine, make_url, text

from byref import CharCounter, Engine, Policy, StorageFailure
from byref.db import database as database_module
from byref.db import integrity
from byref.db.connections import KEEPALIVES
from byref.db.database import Database

ROWS = [{"id": number} for number in range(3_000)]


@pytest.fixture
def relay(postgres_url: str) -> Iterator[Relay]:
    """A relay in front of PostgreSQL."""
    url = make_url(postgres_url)
    made = Relay(f"{url.query['host']}/.s.PGSQL.{url.port or 5432}")
    yield made
    made.close()


@pytest.fixture
def relayed_url(postgres_url: str, relay: Relay) -> str:
    """The address of the relay."""
    return faults_postgres.through(relay, postgres_url)


@contextmanager
def later(seconds: float, work: Callable[[], object]) -> Iterator[None]:
    """Do something after a while, in another thread."""
    timer = threading.Timer(seconds, work)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def count(connection: Connection) -> int:
    """A read and a write of no consequence."""
    connection.execute(text("UPDATE byref_sessions SET model = model"))
    return int(connection.execute(text("SELECT count(*) FROM byref_sessions")).scalar_one())


def test_a_server_that_is_restarted_is_waited_for(relayed_url: str, relay: Relay) -> None:
    database = Database(relayed_url)
    assert database.write(count) == 0
    for work in (database.write, database.read):
        relay.mode = "refuse"
        with later(0.3, lambda: setattr(relay, "mode", "pass")):
            assert work(lambda connection: connection.execute(text("SELECT 7")).scalar_one()) == 7
    database.close()


def test_a_server_that_stays_away_is_waited_for_once(
    relayed_url: str, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "PATIENCE_SECONDS", 0.3)
    database = Database(relayed_url)
    database.write(count)
    relay.mode = "refuse"
    took = []
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(StorageFailure, match="onnection"):
            database.write(count)
        took.append(time.monotonic() - began)
    assert took[0] >= 0.3 > max(took[1:])
    relay.mode = "pass"
    assert database.write(count) == 0
    relay.mode = "refuse"
    with later(0.1, lambda: setattr(relay, "mode", "pass")):
        assert database.write(count) == 0  # it was back: patience is new
    database.close()


def test_connections_to_what_only_reads_are_given_up(postgres_url: str) -> None:
    """What a connection was told when it began holds until it ends, as a standby's is one for as long as it is open."""
    url = make_url(postgres_url)
    admin = psycopg.connect(f"host={url.query['host']} user=postgres dbname={url.database}", autocommit=True)

    def only_reads(value: str) -> None:
        admin.execute(f"ALTER DATABASE {url.database} SET default_transaction_read_only = {value}".encode())

    only_reads("on")
    database = Database(postgres_url)
    with later(0.3, lambda: (admin.execute("SET default_transaction_read_only = off"), only_reads("off"))):
        assert database.write(count) == 0
    database.close()
    admin.close()


def test_a_server_that_is_gone_without_a_word_is_noticed(relayed_url: str) -> None:
    for url, idle in ((relayed_url, KEEPALIVES["keepalives_idle"]), (f"{relayed_url}&keepalives_idle=77", 77)):
        database = Database(url)
        with database.engine.connect() as connection:
            told = connection.connection.driver_connection.info.get_parameters()  # type: ignore[union-attr]
        assert {name: int(told[name]) for name in KEEPALIVES} == KEEPALIVES | {"keepalives_idle": idle}
        database.close()


@pytest.mark.slow
def test_a_lost_connection_is_replaced_wherever_it_was_lost(postgres_url: str) -> None:
    """Server processes end at random moments: no step twice, none missing."""
    killer = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    stop = threading.Event()
    query = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND random() < 0.5"
    )

    def kill() -> None:
        with killer.connect() as connection:
            while not stop.wait(0.02):
                connection.exec_driver_sql(query)

    killing = threading.Thread(target=kill)
    steps, unknown = [], 0
    with Engine(postgres_url, counter=CharCounter()) as engine:
        session = engine.session("s")
        killing.start()
        try:
            until = time.monotonic() + 1.5
            while time.monotonic() < until or len(steps) < 20:
                result = session.process(f"{len(steps)}", tool="t", call_id=f"{len(steps)}")
                if result.reason == "storage_failure":
                    unknown += 1  # lost during COMMIT: given again, it is there once
                else:
                    steps.append(result.step)
        finally:
            stop.set()
            killing.join()
        assert steps == list(range(1, len(steps) + 1)), unknown
        assert [entry.call_id for entry in session.ledger()] == [f"{number}" for number in range(len(steps))]
    killer.dispose()


def test_a_full_disk_of_the_server_is_told_and_over_once_there_is_room(postgres_url: str) -> None:
    admin = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    refuse = "RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'"
    with Engine(postgres_url, counter=CharCounter()) as engine, admin.connect() as connection:
        session, raising = engine.session("s"), engine.session("r", policy=Policy(on_storage_failure="raise"))
        connection.exec_driver_sql(
            f"CREATE FUNCTION no_room() RETURNS trigger AS $$ BEGIN {refuse}; END $$ LANGUAGE plpgsql"
        )
        connection.exec_driver_sql("CREATE TRIGGER no_room BEFORE INSERT ON byref_frames EXECUTE FUNCTION no_room()")
        began = time.monotonic()
        result = session.process(ROWS, tool="rows", call_id="c")
        assert (result.route, result.reason, result.step) == ("truncate", "storage_failure", None)
        with pytest.raises(StorageFailure, match="No space left on device"):
            raising.process(ROWS, tool="rows", call_id="c")
        assert time.monotonic() - began < 4  # a disk is not full for a moment: it is not waited for
        assert session.process("small", tool="small").step == 1
        connection.exec_driver_sql("DROP TRIGGER no_room ON byref_frames")
        for each in (session, raising):
            assert each.process(ROWS, tool="rows", call_id="c").route == "variables"
            assert each.variable("rows").value() == ROWS
    admin.dispose()


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [*faults_postgres.SCENARIOS, faults_full.postgres_disk_full, *faults_s3.SCENARIOS],
    ids=lambda scenario: scenario.__name__,
)
def test_scenarios(scenario: Scenario, tmp_path: Path) -> None:
    report = scenario(tmp_path, 5, 1)
    assert report.failures == [], report
    least = 2 if scenario in faults_s3.SCENARIOS else 1
    assert report.figures["acknowledged"] > 20 and report.figures["faults"] >= least, report


@pytest.mark.slow
def test_a_silent_store_takes_one_time_out_of_a_turn_and_comes_back(sqlite_url: str) -> None:
    """What its write may have left behind is deleted later: that would wait for another."""
    with faults_s3.bucket(1) as (proxy, opened, direct):
        store = opened()
        with Engine(sqlite_url, blobs=store, counter=CharCounter()) as engine:
            session = engine.session("s")
            proxy.fault = "stall"
            began = time.monotonic()
            assert session.process(ROWS, tool="rows", call_id="c").reason == "storage_failure"
            took, asked = time.monotonic() - began, proxy.hit["stall"]
            assert asked == 3, (asked, took)  # the write, and what the client itself tries again
            proxy.fault = "lost answer"
            assert session.process(ROWS, tool="rows", call_id="d").reason == "storage_failure"
            proxy.fault = None
            result = session.process(ROWS, tool="rows", call_id="c")
            assert result.route == "variables" and session.variable("rows").value() == ROWS
            engine.sweep(grace=timedelta(0))
        there = list(direct.keys(older_than=datetime.now(UTC) + timedelta(days=1)))
        assert len(there) == 1
    assert integrity.examine(sqlite_url, grace=timedelta(0)).problems == ()
