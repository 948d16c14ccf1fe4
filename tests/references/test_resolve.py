"""The ledger notes the references that were replaced in arguments, once, as the model wrote them."""

from __future__ import annotations

import json
import logging
import threading

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session as HostSession

from byref import ConfigurationError, Engine, Policy, Session, SessionGone, StorageFailure, ToolError
from byref.accounting.ledger import Entry
from byref.artifacts.store import Artifact
from byref.db.database import Database

ARGUMENTS = '{"ids":  "$rows[0].id", "all": {"$var": "rows", "jq": "map(.id)"}, "n": 5}'


@pytest.fixture
def rows(session: Session) -> Artifact:
    return session.store_artifact([{"id": 1}, {"id": 2}], name="rows")


def noted(session: Session) -> list[Entry]:
    return [entry for entry in session.ledger() if entry.kind == "resolution"]


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_a_resolution_is_a_step(session: Session, rows: Artifact) -> None:
    before = session.context_tokens()
    assert session.resolve(ARGUMENTS, tool="send", call_id="call_1") == {"ids": 1, "all": [1, 2], "n": 5}
    (entry,) = noted(session)
    assert (entry.arguments, entry.call_id, entry.tokens, entry.tool, entry.content) == (
        ARGUMENTS,
        "call_1",
        0,
        None,
        None,
    )
    assert entry.detail == {
        "tool": "send",
        "references": [
            {"reference": "$rows[0].id", "artifact": rows.id, "at": "ids", "bytes": 1},
            {"reference": '{"$var":"rows","jq":"map(.id)"}', "artifact": rows.id, "at": "all", "bytes": 5},
        ],
        "count": 2,
        "bytes": 6,
    }
    assert session.context_tokens() == before
    assert session.usage().outputs == 0 and session.history() == []
    with pytest.raises(ConfigurationError, match=f"no output or reply {entry.step}"):
        session.explain(entry.step)


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_the_same_call_is_noted_once(session: Session, rows: Artifact) -> None:
    for _ in range(3):
        session.resolve(ARGUMENTS, tool="send", call_id="call_1")
    assert len(noted(session)) == 1
    steps = [entry.step for entry in session.ledger()]
    session.resolve({"ids": "$rows"}, tool="send", call_id="call_1")
    session.resolve(ARGUMENTS, tool="send", call_id="call_2")
    session.resolve(ARGUMENTS, tool="send")
    session.resolve(ARGUMENTS, tool="send")
    assert [entry.step for entry in session.ledger()] == [*steps, *range(steps[-1] + 1, steps[-1] + 5)]
    session.record_usage({"input_tokens": 5, "output_tokens": 5})
    session.resolve(ARGUMENTS, tool="send", call_id="call_1")  # a provider's id comes back in a later turn
    assert len(noted(session)) == 6


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_at_the_same_moment_it_is_noted_once(session: Session, rows: Artifact) -> None:
    start = threading.Barrier(6)

    def work() -> None:
        start.wait()
        session.resolve(ARGUMENTS, call_id="call_1")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(noted(session)) == 1


def test_nothing_is_noted_where_nothing_was_handed_over(session: Session, rows: Artifact) -> None:
    session.resolve({"x": "$HOME", "y": [1]}, call_id="a")
    session.resolve({}, call_id="a")
    for arguments in ({"x": "$rows", "y": {"$var": "nope"}}, {"x": "$rows", "y": {"$var": "rows", "path": "9"}}):
        with pytest.raises(ToolError):
            session.resolve(arguments, call_id="a")
    with pytest.raises(ToolError):
        session.resolve({"x": "$rows"}, {"properties": {"x": {"type": "string"}}}, call_id="a")
    assert session.ledger() == []


@pytest.mark.slow
def test_what_is_noted_is_bounded(session: Session, rows: Artifact) -> None:
    given = {
        "x" * 5_000: ["$rows"] * 900,
        "pad\ud800\0": "\ud800" * 50_000,
        "long": {"$var": "rows", "jq": " " * 5_000 + "."},
    }
    session.resolve(given, tool="t\0\ud800", call_id="\0" * 2_000)
    (entry,) = noted(session)
    assert len(json.dumps(entry.detail)) < 40_000
    assert entry.detail["count"] == 901
    assert len(entry.detail["references"]) == 50
    assert len(entry.arguments or "") < 17_000
    assert entry.call_id is not None
    assert len(entry.call_id) == 512


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_a_database_that_refuses_the_note_does_not_stop_the_call(
    engine: Engine, session: Session, rows: Artifact, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise StorageFailure

    monkeypatch.setattr(Database, "write", refuse)
    with caplog.at_level(logging.ERROR, "byref"):
        assert session.resolve({"x": "$rows[1].id"}, tool="send") == {"x": 2}
    assert "could not note the references in the arguments of 'send'" in caplog.text
    strict = engine.session(session.id, tenant=session.tenant, policy=Policy(on_storage_failure="raise"))
    with pytest.raises(StorageFailure):
        strict.resolve({"x": "$rows[1].id"}, tool="send")


def test_names_of_a_conversation_that_is_gone_are_no_texts(engine: Engine, tenant: str) -> None:
    ended, deleted = (engine.session(name, tenant=tenant) for name in ("ended", "deleted"))
    for session in (ended, deleted):
        session.store_artifact([1], name="rows")
    ended.end()
    engine.delete_session("deleted", tenant=tenant)
    for session in (ended, deleted):
        for arguments in ({"to": "$rows"}, {"to": {"$var": "rows"}}, {"to": "$nosuch"}):
            with pytest.raises(SessionGone):
                session.resolve(arguments, tool="send")
        assert session.resolve({"to": "all"}, tool="send") == {"to": "all"}


def test_a_hosts_rollback_takes_the_note_along(shared_url: str) -> None:
    with Engine(shared_url, interpreter=None) as engine:
        session = engine.session("chat")
        session.store_artifact([1, 2], name="rows")
        host = create_engine(shared_url)
        with HostSession(host) as db:
            inside = engine.session("chat", db=db)
            assert inside.resolve({"x": "$rows[0]"}, call_id="a") == {"x": 1}
            assert len(noted(inside)) == 1
            db.rollback()
        assert noted(session) == []
        with HostSession(host) as db:
            engine.session("chat", db=db).resolve({"x": "$rows[0]"}, call_id="a")
            db.commit()
        assert len(noted(session)) == 1
        host.dispose()


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("a statement takes only so many parameters")
def test_many_names_are_looked_up_at_once(session: Session, rows: Artifact) -> None:
    assert session.resolve({"x": [f"$none_{i}" for i in range(1_500)] + ["$rows[1].id"]})["x"][-1] == 2
