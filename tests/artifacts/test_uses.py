"""An artifact that is used does not expire, also if one process uses it and another one sweeps."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, event, select, update
from sqlalchemy.pool import StaticPool

from byref import Engine, Policy, Session
from byref.artifacts import uses
from byref.db.tables import ArtifactRow
from byref_sandbox import Sandbox

ROWS = [{"id": number, "text": "a word or two"} for number in range(1_000)]
TTL = 1.5
WEEK = timedelta(days=7)
pytestmark = pytest.mark.quick_on("postgresql", "two engines write at once")


def expiries(engine: Engine) -> dict[str, datetime]:
    query = select(ArtifactRow.name, ArtifactRow.expires_at).order_by(ArtifactRow.id)
    return {str(name): at for name, at in engine.database.read(lambda c: c.execute(query).all()) if at is not None}


def move(engine: Engine, by: timedelta) -> None:
    def work(connection: Any) -> None:
        for row, at in connection.execute(select(ArtifactRow.id, ArtifactRow.expires_at)).all():
            connection.execute(update(ArtifactRow).where(ArtifactRow.id == row).values(expires_at=at - by))

    engine.database.write(work)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 15
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def writers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "byref-uses"]


USES: dict[str, Callable[[Session, Any], object]] = {
    "looked_up": lambda s, held: s.get_artifact("looked_up"),
    "value": lambda s, held: held.value,
    "bytes": lambda s, held: held.payload.read(),
    "line": lambda s, held: next(held.payload.chunks()),
    "resolved": lambda s, held: s.resolve({"x": {"$var": "resolved", "jq": "length"}}),
    "variable": lambda s, held: s.call("artifact_read", {"artifact_id": "variable"}),
}


@pytest.mark.slow
def test_what_is_used_lives_while_another_process_sweeps(shared_url: str, sandbox: Sandbox) -> None:
    statements: list[str] = []
    with Engine(shared_url, interpreter=sandbox) as engine, Engine(shared_url, interpreter=sandbox) as other:

        @event.listens_for(engine.database.engine, "before_cursor_execute")
        def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            statements.append(statement)

        session = engine.session("s", policy=Policy(ttl=TTL))
        for name in (*USES, "unused"):
            session.store_artifact([name, *ROWS], name=name)
        held = {artifact.name: artifact for artifact in session.artifacts()}
        begun = time.monotonic()
        reads = 0
        while time.monotonic() < begun + 1.8 * TTL:
            for name, use in USES.items():
                use(session, held[name])
                reads += 1
            session.artifacts()  # a list is no use
            other.sweep()
            time.sleep(0.05)
        assert [artifact.name for artifact in session.artifacts()] == list(USES)
        written = [one for one in statements if one.startswith("UPDATE byref_artifacts")]
        # One for all artifacts, each tenth of their time, and one more where a use came while it was written.
        assert 1 <= len(written) < min(reads, 2 * 1.8 / uses.MOVED), (len(written), reads)
        time.sleep(TTL + 0.3)
        assert other.sweep().artifacts >= len(USES)
        assert session.artifacts() == []


def test_uses_are_written_by_a_thread_that_ends(shared_url: str, sandbox: Sandbox) -> None:
    with Engine(shared_url, interpreter=sandbox) as engine:
        sessions = [engine.session(f"s{number}") for number in range(3)]
        for session in sessions:
            session.store_artifact("x", name=session.id)
            session.get_artifact(session.id)
        assert writers() == []  # a tenth of a week has not passed
        move(engine, WEEK / 2)
        for session in sessions:
            session.get_artifact(session.id)
        [thread] = writers()
        assert thread.daemon
        soon = datetime.now(UTC) + WEEK - timedelta(minutes=1)
        until(lambda: all(at > soon for at in expiries(engine).values()))
        until(lambda: writers() == [])
        move(engine, WEEK / 2)
        sessions[0].get_artifact("s0")
    assert writers() == []
    with Engine(shared_url, interpreter=sandbox) as engine:  # the other one's end has written it
        assert [at > soon for at in expiries(engine).values()] == [True, False, False]


def test_uses_wait_for_no_lock_and_are_tried_again(
    shared_url: str, sandbox: Sandbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses, "LONGEST_WAIT", 0.05)
    with Engine(shared_url, interpreter=sandbox) as engine:
        session = engine.session("s")
        for name in ("free", "locked"):
            session.store_artifact(name, name=name)
        move(engine, WEEK / 2)
        held = {artifact.name: artifact for artifact in session.artifacts()}
        before = expiries(engine)
        host = create_engine(shared_url)
        with host.begin() as connection:
            connection.execute(update(ArtifactRow).where(ArtifactRow.name == "locked").values(tokens=1))
            begun = time.monotonic()
            assert {name: artifact.value for name, artifact in held.items()} == {"free": "free", "locked": "locked"}
            assert time.monotonic() - begun < 1
            if engine.database.dialect == "postgresql":
                until(lambda: expiries(engine)["free"] > before["free"])
            time.sleep(0.2)
            assert expiries(engine)["locked"] == before["locked"]
        until(lambda: all(at > before[name] for name, at in expiries(engine).items()))
        host.dispose()
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


def test_uses_outlive_a_database_that_is_away(
    sqlite_url: str, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    with Engine(sqlite_url, interpreter=sandbox) as engine:
        session = engine.session("s")
        session.store_artifact("x", name="x")
        move(engine, WEEK / 2)
        artifact = session.get_artifact("x")
        assert artifact is not None
        engine._uses._write, write = _away, engine._uses._write
        until(lambda: bool(writers()) and engine._uses._pause > uses.SHORTEST_WAIT)
        assert artifact.value == "x"
        engine._uses._write = write
        until(lambda: expiries(engine)["x"] > datetime.now(UTC) + WEEK - timedelta(minutes=1))
        until(lambda: writers() == [])
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


def _away(_work: Any) -> Any:
    from byref import StorageFailure

    raise StorageFailure


def test_a_forked_child_writes_its_own_uses_only(sqlite_url: str, sandbox: Sandbox) -> None:
    with Engine(sqlite_url, interpreter=sandbox) as engine:
        session = engine.session("s")
        for name in ("parents", "childs"):
            session.store_artifact(name, name=name)
        move(engine, WEEK / 2)
        session.get_artifact("parents")
        assert engine._uses._noted
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert not engine._uses._noted
                session.get_artifact("childs")
                soon = datetime.now(UTC) + WEEK - timedelta(minutes=1)
                until(lambda: expiries(engine)["childs"] > soon)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        until(lambda: expiries(engine)["parents"] > datetime.now(UTC) + WEEK - timedelta(minutes=1))


def test_a_hosts_only_connection_is_left_to_it(sandbox: Sandbox) -> None:
    host = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    with Engine(host, create=True, interpreter=sandbox) as engine:
        session = engine.session("s")
        session.store_artifact("x", name="x")
        move(engine, WEEK / 2)
        session.get_artifact("x")
        assert writers() == []
        engine.sweep()
        assert expiries(engine)["x"] > datetime.now(UTC) + WEEK - timedelta(minutes=1)
