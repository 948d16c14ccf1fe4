"""Databases that fail at any statement, processes that die at any moment, and hosts that change their minds."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from material import page, prose
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session as HostSession
from sqlalchemy.pool import NullPool
from sqlcheck import check_invariants, rows

from byref import Engine, Policy, SessionGone, StorageFailure
from byref.content import to_block
from byref_sandbox import Sandbox

RAISE = Policy(on_storage_failure="raise")
OUTPUTS: dict[str, Any] = {
    "small": "x" * 100,
    "inline": prose(6_000),
    "structured": page(1_500),
    "plain": prose(1_200_000),
}
LESS: dict[str, Any] = {"max_result_tokens": 1_700, "max_threshold_bytes": 30_000}
LITTLE = OUTPUTS | {"structured": page(200), "plain": prose(40_000)}
"""The same with less data, for where `LESS` of it is too big."""


@contextmanager
def failing_at(engine: Engine, number: int, *, kill: bool) -> Iterator[list[int]]:
    """The statement with that number fails: by an error of the driver's, or its server process ends (PostgreSQL)."""
    count = [0]
    database = engine.database.engine

    def before(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("PRAGMA", "BEGIN", "ROLLBACK")) or count[0] < 0:
            return
        count[0] += 1
        if count[0] != number:
            return
        if not kill:
            raise connection.dialect.dbapi.OperationalError("disk I/O error (made by the test)")
        pid = connection.connection.driver_connection.info.backend_pid
        admin = create_engine(database.url, poolclass=NullPool)
        with admin.connect() as other:
            other.execute(text(f"SELECT pg_terminate_backend({pid}, 5000)"))

    event.listen(database, "before_cursor_execute", before)
    try:
        yield count
    finally:
        event.remove(database, "before_cursor_execute", before)


CASES = [
    (kind, name, policy) for kind in ("sqlite", "postgresql") for policy in ("truncate", "raise") for name in LITTLE
]
QUICK = [
    ("sqlite", "structured", "truncate"),
    ("postgresql", "small", "raise"),
]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("shared_url", "name", "on_storage_failure"),
    [pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow) for case in CASES],
    indirect=["shared_url"],
)
def test_a_failure_at_any_statement_leaves_nothing_half_written(
    shared_url: str, sandbox: Sandbox, name: str, on_storage_failure: Any
) -> None:
    output, number, failed = LITTLE[name], 0, True
    policy = Policy(on_storage_failure=on_storage_failure, **LESS)
    with Engine(shared_url, interpreter=sandbox, policy=policy) as engine:
        while failed:
            number += 1
            session = engine.session(f"s{number}", tenant=f"t{number}", context_window=1_000_000)
            result = None
            with failing_at(engine, number, kill=False) as count:
                try:
                    result = session.process(output, tool="t", call_id="c")
                except StorageFailure:
                    assert policy.on_storage_failure == "raise"
            failed = count[0] >= number
            check_invariants(shared_url)
            if result is None:
                assert failed
                assert session.ledger() == []
            elif result.reason == "storage_failure":
                assert failed
                assert (result.step, result.artifacts, result.envelope) == (None, [], None)
                assert result.route == ("inline" if name in ("small", "inline") else "truncate")
                assert result.tokens <= 2_500
                assert session.ledger() == []
            again = session.process(output, tool="t", call_id="c")
            assert again.step == 1
            assert again.reason != "storage_failure"
            assert len(session.ledger()) == 1
    assert number > 2


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.slow
def test_a_server_process_that_ends_at_any_statement_is_survived(
    postgres_url: str, sandbox: Sandbox, name: str
) -> None:
    output, number, failed = OUTPUTS[name], 0, True
    with Engine(postgres_url, interpreter=sandbox, policy=RAISE) as engine:
        while failed:
            number += 1
            session = engine.session(f"s{number}", tenant=f"t{number}", context_window=1_000_000)
            with failing_at(engine, number, kill=True) as count:
                result = session.process(output, tool="t", call_id="c")
            failed = count[0] >= number
            assert result.step == 1
            check_invariants(postgres_url)
            assert len(session.ledger()) == 1
    assert number > 2


# A database file in trouble


def sqlite_path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def survives(engine: Engine, name: str) -> None:
    """A turn goes on without the database, by the default policy, and the other policy says what was wrong."""
    for output, route in (
        (OUTPUTS["small"], "inline"),
        (OUTPUTS["structured"], "truncate"),
        (OUTPUTS["plain"], "truncate"),
    ):
        result = engine.session(name).process(output, tool="t", call_id="c")
        assert (result.route, result.reason, result.step) == (route, "storage_failure", None)
        assert result.tokens <= 2_500
        if route == "inline":
            assert result.content == to_block(output).text
        elif to_block(output).parsed[0] == "json":
            assert json.loads(result.content)["note"].startswith("INCOMPLETE")
        else:
            assert "INCOMPLETE" in result.content


@pytest.mark.slow
def test_a_file_locked_by_another_process(sqlite_url: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byref.db.database.ATTEMPTS", 3)  # the rest is waiting
    with Engine(sqlite_url + "?timeout=0.1", interpreter=sandbox) as engine:
        engine.session("s")
        other = sqlite3.connect(sqlite_path(sqlite_url), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        survives(engine, "s")
        with pytest.raises(StorageFailure, match="locked"):
            engine.session("s", policy=RAISE).process(OUTPUTS["structured"], tool="t")
        other.execute("ROLLBACK")
        other.close()
        assert engine.session("s").process(OUTPUTS["structured"], tool="t", call_id="c").step == 1
    check_invariants(sqlite_url)


def test_a_full_disk(sqlite_url: str, sandbox: Sandbox) -> None:
    with Engine(sqlite_url, interpreter=sandbox) as engine:
        engine.session("s")
        noise = [{"k": os.urandom(40).hex()} for _ in range(20_000)]

        def full(driver: Any, *_: Any) -> None:
            pages = driver.execute("PRAGMA page_count").fetchone()[0]
            driver.execute(f"PRAGMA max_page_count = {pages + 20}")

        def roomy(driver: Any, *_: Any) -> None:
            driver.execute("PRAGMA max_page_count = 1000000")

        event.listen(engine.database.engine, "checkout", full)
        result = engine.session("s").process(noise, tool="t", call_id="c")
        assert (result.route, result.reason, result.step) == ("truncate", "storage_failure", None)
        with pytest.raises(StorageFailure, match="make room on the disk"):
            engine.session("s", policy=RAISE).process(noise, tool="t")
        event.remove(engine.database.engine, "checkout", full)
        event.listen(engine.database.engine, "checkout", roomy)
        assert engine.session("s").process(noise, tool="t", call_id="c").route == "variables"
        assert engine.session("s").variable("t").value() == noise
    check_invariants(sqlite_url)


def test_a_file_that_is_deleted(sqlite_url: str, sandbox: Sandbox) -> None:
    with Engine(sqlite_url, interpreter=sandbox) as engine:
        session = engine.session("s")
        for suffix in ("", "-wal", "-shm"):
            Path(f"{sqlite_path(sqlite_url)}{suffix}").unlink(missing_ok=True)
        engine.database.engine.dispose()
        result = session.process(OUTPUTS["structured"], tool="t", call_id="c")
        assert (result.route, result.reason, result.step) == ("truncate", "storage_failure", None)
        reply = session.call("code_interpreter", {"code": "1 + 1"}, call_id="d")
        assert reply.is_error
        assert "cannot be reached" in reply.content


@pytest.mark.slow
def test_calls_survive_a_failure_at_any_statement(shared_url: str, sandbox: Sandbox) -> None:
    for name, arguments in {
        "code_interpreter": {"code": "total = sum(r['id'] for r in users)\ntotal"},
        "artifact_read": {"artifact_id": "users", "end_line": 3},
        "artifact_jq": {"artifact_id": "users", "expression": "length"},
    }.items():
        number, failed = 0, True
        with Engine(shared_url, interpreter=sandbox) as engine:
            while failed:
                number += 1
                session = engine.session(f"s{number}", tenant=name)
                session.process(page(1_500), tool="t")
                with failing_at(engine, number, kill=False) as count:
                    reply = session.call(name, arguments, call_id="c")
                failed = count[0] >= number
                assert reply.is_error == failed, reply
                if failed:
                    assert reply.content == f"{name}: the stored data cannot be reached right now; try again later."
                    assert len(session.ledger()) == 1
                check_invariants(shared_url)
                again = session.call(name, arguments, call_id="c")
                assert not again.is_error
                assert len(session.ledger()) == 2


# Hosts' own transactions


@pytest.fixture
def host(shared_url: str) -> Iterator[HostSession]:
    """A host's Session on the same database, with a table of its own."""
    engine = create_engine(shared_url)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def manual(driver: Any, _: Any) -> None:
            driver.isolation_level = None
            driver.execute("PRAGMA foreign_keys = ON")

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE notes (n INTEGER PRIMARY KEY)"))
    with HostSession(engine) as opened:
        yield opened
    engine.dispose()


def notes(url: str) -> list[int]:
    return [row.n for row in rows(url, "SELECT n FROM notes ORDER BY n")]


def test_a_hosts_commit_keeps_both(shared_url: str, sandbox: Sandbox, host: HostSession) -> None:
    with Engine(shared_url, interpreter=sandbox) as engine:
        host.execute(text("INSERT INTO notes VALUES (1)"))
        session = engine.session("s", db=host)
        result = session.process(page(1_500), tool="t", call_id="c")
        assert session.variable("users").value() == page(1_500)["users"]
        assert session.call("code_interpreter", {"code": "len(users)"}).content == "1500"
        session.record_usage({"prompt_tokens": 10, "completion_tokens": 1})
        host.commit()
        assert notes(shared_url) == [1]
        later = engine.session("s")
        assert [entry.step for entry in later.ledger()] == [1, 2, 3]
        assert later.process(page(1_500), tool="t", call_id="c").content == result.content
    check_invariants(shared_url)


def test_a_hosts_rollback_takes_all_back_but_sweepable_staging(
    shared_url: str, sandbox: Sandbox, host: HostSession
) -> None:
    with Engine(shared_url, interpreter=sandbox) as engine:
        engine.session("s")
        host.execute(text("INSERT INTO notes VALUES (1)"))
        session = engine.session("s", db=host)
        session.process(page(1_500), tool="t", call_id="c")
        session.process("small", tool="t")
        host.rollback()
        assert notes(shared_url) == []
        later = engine.session("s")
        assert (later.ledger(), later.artifacts(), later.variables(), later.context_tokens()) == ([], [], [], 0)
        check_invariants(shared_url)
        engine.sweep(grace=timedelta(0))
        assert rows(shared_url, "SELECT id FROM byref_blobs") == []
        assert later.process(page(1_500), tool="t", call_id="c").step == 1


def test_the_same_bytes_twice_in_one_host_transaction(shared_url: str, sandbox: Sandbox, host: HostSession) -> None:
    """What the host's transaction has locked is not waited for by a connection of our own."""
    with Engine(shared_url, interpreter=sandbox) as engine:
        engine.session("before").process(page(1_500), tool="t")
        session = engine.session("s", db=host)
        first = session.process(page(1_500), tool="t", call_id="a")
        second = session.process(page(1_500), tool="t", call_id="b")
        host.commit()
        assert [first.route, second.route] == ["variables", "variables"]
        assert first.artifacts[0].digest == second.artifacts[0].digest
    check_invariants(shared_url)


def test_an_error_inside_leaves_the_hosts_work_alone(shared_url: str, sandbox: Sandbox, host: HostSession) -> None:
    with Engine(shared_url, interpreter=sandbox) as engine:
        engine.session("gone")
        session = engine.session("gone", db=host)
        host.execute(text("INSERT INTO notes VALUES (1)"))
        session.end()
        with pytest.raises(SessionGone):
            session.process("x", tool="t")
        host.execute(text("INSERT INTO notes VALUES (2)"))
        host.commit()
        assert notes(shared_url) == [1, 2]


def test_a_failing_statement_inside_leaves_the_hosts_work_alone(
    shared_url: str, sandbox: Sandbox, host: HostSession
) -> None:
    with Engine(shared_url, interpreter=sandbox) as engine:
        session = engine.session("s", db=host)
        host.execute(text("INSERT INTO notes VALUES (1)"))
        connection = host.connection()

        def refuse(_: Any, cursor: Any, statement: str, *rest: Any) -> None:
            if "INSERT INTO byref_ledger" in statement:
                cursor.execute("SELECT * FROM there_is_no_such_table")

        event.listen(connection, "before_cursor_execute", refuse)
        result = session.process(prose(5_000), tool="t", call_id="c")
        event.remove(connection, "before_cursor_execute", refuse)
        assert result.reason == "storage_failure"
        assert session.process(prose(5_000), tool="t", call_id="c").step == 1
        host.execute(text("INSERT INTO notes VALUES (2)"))
        host.commit()
        assert notes(shared_url) == [1, 2]
    check_invariants(shared_url)


# Processes that die

DIES_AT_EVERY_STATEMENT = """
import os, signal, sys
from sqlalchemy import event
from byref import Engine
url, tool = sys.argv[1:]
engine = Engine(url)
users = [{"id": i, "name": f"name {i}", "note": os.urandom(30).hex()} for i in range(40_000)]
engine.session("data", tenant="dies").process({"users": users[:1500], "page": {"n": 1}}, tool="list_users")
number, killed = 0, True
while killed:
    number += 1
    child = os.fork()
    if not child:
        count = [0]
        def before(*_):
            count[0] += 1
            if count[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)
        session = engine.session("data", tenant="dies")
        event.listen(engine.database.engine, "before_cursor_execute", before)
        event.listen(engine.database.engine, "commit", before)
        if tool == "process":
            session.process({"users": users}, tool="t", call_id=f"c{number}")
        else:
            session = engine.session("data", tenant="dies", tools=["store_artifact"])
            value = "".join(os.urandom(40).hex() + "\\n" for _ in range(20_000))
            reply = session.call("store_artifact", {"name": "n", "value": value}, call_id=f"c{number}")
            assert not reply.is_error, reply.content
        os._exit(0)
    killed = os.waitpid(child, 0)[1] == signal.SIGKILL
print(number, "ended", flush=True)
engine.close()
"""


@pytest.mark.parametrize("what", ["process", "call"])
@pytest.mark.slow
def test_a_process_killed_at_any_statement_leaves_nothing_half_written(shared_url: str, what: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", DIES_AT_EVERY_STATEMENT, shared_url, what], capture_output=True, text=True, timeout=120
    )
    assert ended.stdout.endswith("ended\n"), ended.stderr[-2_000:]
    number = int(ended.stdout.split()[0])
    assert number > 8
    check_invariants(shared_url)
    [made] = rows(shared_url, f"SELECT COUNT(*) AS n FROM byref_ledger WHERE call_id = 'c{number}'")
    assert made.n == 1
    with Engine(shared_url) as engine:
        session = engine.session("data", tenant="dies")
        steps = [entry.step for entry in session.ledger()]
        assert steps == list(range(1, len(steps) + 1))
        for variable in session.variables():
            assert variable.value() is not None


WORKS_UNTIL_KILLED = """
import os, sys
from byref import Engine
engine = Engine(sys.argv[1])
session = engine.session("chat", tenant=sys.argv[2], context_window=10**9)
print("ready", flush=True)
i = 0
while True:
    i += 1
    output = "short" if i % 3 else [{"id": j, "noise": os.urandom(20).hex()} for j in range(25_000)]
    result = session.process(output, tool="t", call_id=f"c{i}")
    print(i, result.step, result.route, flush=True)
"""


@pytest.mark.slow
def test_what_a_killed_process_had_answered_is_there(shared_url: str) -> None:
    moments = random.Random(7)
    for life in range(3):
        tenant = f"life {life}"
        child = subprocess.Popen(
            [sys.executable, "-c", WORKS_UNTIL_KILLED, shared_url, tenant], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        first = [child.stdout.readline() for _ in range(3)]
        time.sleep(moments.uniform(0.0, 0.3))
        os.kill(child.pid, signal.SIGKILL)
        lines = first + child.stdout.read().splitlines(keepends=True)
        answered = [line.split() for line in lines if line.endswith("\n")]
        child.wait()
        child.stdout.close()
        check_invariants(shared_url)
        with Engine(shared_url) as engine:
            session = engine.session("chat", tenant=tenant)
            entries = {entry.step: entry for entry in session.ledger()}
            for number, step, route in answered:
                assert (entries[int(step)].call_id, entries[int(step)].route) == (f"c{number}", route)
            assert len(entries) - len(answered) in (0, 1)
            for variable in session.variables():
                assert len(variable.value()) == 25_000  # type: ignore[arg-type]
