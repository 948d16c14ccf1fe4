"""`byref.db.verify` finds nothing in what byref wrote, and everything that anybody broke."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine as SqlEngine
from sqlalchemy import create_engine, event, text

import byref
from byref import Engine, SchemaMismatch, StorageFailure
from byref.db import integrity

USERS = [{"id": n, "name": f"user {n} " * 40} for n in range(4_000)]


def fill(url: str) -> None:
    """Something in every table; the users have two frames, a line each."""
    with Engine(url) as engine:
        for tenant in ("a", "b"):
            session = engine.session("s", tenant=tenant)
            session.process({"users": USERS, "page": {"n": 1}}, tool="users", call_id="c", arguments={"p": 1})
            session.process("small", tool="t")
            session.call("code_interpreter", {"code": "total = 1"}, call_id="d")
            session.record_usage({"prompt_tokens": 5, "completion_tokens": 1}, request_id="r")
            session.process("more", tool="t")
            session.store_artifact("kept", name="kept")
            session.keep("kept")
        calling = engine.session(
            "calling", functions=[byref.Function("get", lambda: 1), byref.Function("pay", lambda: 1, approval=True)]
        )
        calling.call("code_interpreter", {"code": "get()"}, call_id="e")
        calling.call("code_interpreter", {"code": "get(), pay()"}, call_id="f")  # waits: the result of get() is kept
        ended = engine.session("ended")
        ended.store_artifact("kept")
        ended.keep(ended.artifacts()[0])
        ended.end()
        brief = engine.session("brief", policy=byref.Policy(ttl=0.5))
        brief.store_artifact("gone")
        time.sleep(0.5)
        engine.sweep(grace=timedelta(0))


@pytest.fixture(scope="module")
def filled_sqlite(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Path:
    path = shutil.copy(migrated_sqlite, tmp_path_factory.mktemp("filled") / "filled.db")
    fill(f"sqlite:///{path}")
    return Path(path)


@pytest.mark.quick_cases(1)
def test_what_has_expired_and_is_not_swept_yet_is_no_fault(shared_url: str) -> None:
    policy = byref.Policy(ttl=0.3, max_session_bytes=2_000_000)
    with Engine(shared_url, policy=policy) as engine:
        session = engine.session("brief")
        assert session.process(USERS, tool="users").artifacts
        assert not session.process([*USERS, {}], tool="users").artifacts
        time.sleep(0.35)
        assert session.process([*USERS, {}, {}], tool="users").artifacts  # counted anew, without the first
    assert byref.db.verify(shared_url) == []


@pytest.fixture(scope="module")
def looking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlEngine]:
    """What looks at each broken file in turn: it compiles the statements once, which takes longer than to run them."""
    engine = create_engine(f"sqlite:///{tmp_path_factory.mktemp('broken') / 'broken.db'}")
    yield engine
    engine.dispose()


@pytest.fixture
def broken(looking: SqlEngine, filled_sqlite: Path) -> Callable[[str], SqlEngine]:
    """Make a copy of a filled file in which a statement was run that no key or check hindered; give what looks at it."""

    def make(statement: str) -> SqlEngine:
        looking.dispose()
        path = shutil.copy(filled_sqlite, file(looking))
        engine = create_engine(f"sqlite:///{path}")

        @event.listens_for(engine, "connect")
        def _(driver: Any, _record: object) -> None:
            driver.execute("PRAGMA ignore_check_constraints = ON")

        with engine.begin() as connection:
            for one in statement.split(";"):
                connection.execute(text(one))
        engine.dispose()
        return looking

    return make


def file(engine: SqlEngine) -> Path:
    """Where the database is."""
    assert engine.url.database is not None
    return Path(engine.url.database)


@pytest.mark.quick_cases(1)
def test_what_byref_wrote_is_in_order(shared_url: str) -> None:
    fill(shared_url)
    report = integrity.examine(shared_url, deep=True)
    assert report.problems == ()
    assert byref.db.verify(shared_url, deep=True) == []
    figures = report.figures
    assert (figures["sessions"], figures["ended_sessions"], figures["tenants"]) == (5, 1, 3)
    assert (figures["artifacts"], figures["kept_artifacts"], figures["tombstones"]) == (7, 3, 1)
    assert (figures["ledger"], figures["runs"], figures["variables"]) == (11, 3, 8)
    assert figures["blobs"] == 7 and figures["frames"] >= 9
    assert figures["payload_bytes"] > figures["stored_bytes"] > 0
    assert (
        figures["staged_blobs"]
        == figures["retired_blobs"]
        == figures["unused_blobs"]
        == figures["expired_artifacts"]
        == 0
    )


LAST = "(SELECT MAX(id) FROM byref_artifacts)"
BIG = "(SELECT blob_id FROM byref_frames WHERE number = 1 LIMIT 1)"
OLD = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%d %H:%M:%S.%f")


BROKEN = [
    ("DELETE FROM byref_sessions WHERE name = 'ended'", "no such session", "byref_artifacts"),
    ("UPDATE byref_ledger SET tenant = 'x' WHERE id = 1", "no such session", "byref_ledger"),
    ("UPDATE byref_variables SET tenant = 'x' WHERE id = 1", "no such session", "byref_variables"),
    ("UPDATE byref_runs SET session_id = 7 WHERE id = 1", "no such session", "byref_runs"),
    ("UPDATE byref_tombstones SET session_id = 7", "no such session", "byref_tombstones"),
    ("INSERT INTO byref_items (tenant, session_id, list, number, text, created_at) VALUES ('a', 7, 'l', 0, '', '2026-01-01')",
     "no such session", "byref_items"),
    (f"DELETE FROM byref_blobs WHERE id = {BIG}", "artifact without bytes", "byref_artifacts"),
    (f"DELETE FROM byref_blobs WHERE id = {BIG}", "frame without a blob", "byref_frames"),
    (f"UPDATE byref_blobs SET tenant = 'x' WHERE id = {BIG}", "artifact without bytes", "byref_artifacts"),
    (f"UPDATE byref_blobs SET published_at = NULL WHERE id = {BIG}", "artifact of unpublished bytes", "byref_artifacts"),
    ("UPDATE byref_variables SET artifact_id = 9999 WHERE id = 1", "variable without data", "byref_variables"),
    (f"UPDATE byref_variables SET artifact_id = {LAST} WHERE id = 1", "variable without data", "byref_variables"),
    ("UPDATE byref_ledger SET artifact_id = 9999 WHERE id = 1", "step without its artifact", "byref_ledger"),
    (f"UPDATE byref_ledger SET artifact_id = {LAST} WHERE id = 1", "step without its artifact", "byref_ledger"),
    (f"UPDATE byref_blobs SET digest = x'00' WHERE id = {BIG}", "digest", "byref_blobs"),
    (f"DELETE FROM byref_frames WHERE number = 1 AND blob_id = {BIG}", "bytes missing", "byref_blobs"),
    (f"DELETE FROM byref_frames WHERE number = 0 AND blob_id = {BIG}", "frames with a gap", "byref_frames"),
    (f"UPDATE byref_frames SET number = 9 WHERE number = 1 AND blob_id = {BIG}", "frames with a gap", "byref_frames"),
    (f"UPDATE byref_frames SET byte_offset = 5 WHERE number = 1 AND blob_id = {BIG}", "frames with a gap", "byref_frames"),
    (f"UPDATE byref_frames SET first_line = 2 WHERE number = 0 AND blob_id = {BIG}", "line numbers", "byref_frames"),
    (f"UPDATE byref_frames SET first_line = 0 WHERE number = 1 AND blob_id = {BIG}", "line numbers", "byref_frames"),
    (f"UPDATE byref_frames SET first_line = 99999999 WHERE number = 1 AND blob_id = {BIG}", "line numbers", "byref_frames"),
    (f"UPDATE byref_blobs SET line_count = 0 WHERE id = {BIG}", "line numbers", "byref_blobs"),
    (f"UPDATE byref_blobs SET line_count = 999999999 WHERE id = {BIG}", "line numbers", "byref_blobs"),
    ("DROP INDEX uq_byref_blobs_published; UPDATE byref_blobs SET tenant = 'a', digest = (SELECT digest FROM byref_blobs WHERE id = 1)",
     "bytes published twice", "byref_blobs"),
    (f"INSERT INTO byref_blobs (tenant, key, digest, size_bytes, line_count, staged_at) VALUES ('a', 'k', zeroblob(32), 0, 0, '{OLD}')",
     "orphan", "byref_blobs"),
    ("DELETE FROM byref_ledger WHERE step = 2 AND tenant = 'a'", "ledger with a gap", "byref_sessions"),
    ("DELETE FROM byref_ledger WHERE step = 5 AND tenant = 'a'", "ledger with a gap", "byref_sessions"),
    ("UPDATE byref_sessions SET next_step = 9 WHERE tenant = 'a'", "ledger with a gap", "byref_sessions"),
    ("UPDATE byref_sessions SET pending_tokens = pending_tokens + 1 WHERE tenant = 'a'", "pending tokens", "byref_sessions"),
    ("UPDATE byref_runs SET step = 1 WHERE id = 1", "run without its reply", "byref_runs"),
    ("UPDATE byref_artifacts SET kept = 0 WHERE tenant = 'default'", "artifact of an ended session", "byref_artifacts"),
    ("UPDATE byref_sessions SET ended_at = created_at WHERE tenant = 'a'", "row of an ended session", "byref_variables"),
    ("UPDATE byref_sessions SET ended_at = created_at WHERE name = 'brief'", "row of an ended session", "byref_tombstones"),
    ("UPDATE byref_tombstones SET public_id = (SELECT public_id FROM byref_artifacts LIMIT 1)",
     "tombstone of a live artifact", "byref_tombstones"),
    ("UPDATE byref_calls SET program_id = 7 WHERE id = 1", "call without its program", "byref_calls"),
    ("UPDATE byref_calls SET step = 1 WHERE state = 'waiting'", "call of a step", "byref_calls"),
    ("UPDATE byref_programs SET state = 'ended'", "result of an ended program", "byref_calls"),
    ("UPDATE byref_calls SET result = x'00' WHERE state = 'waiting'", "result of no call", "byref_calls"),
    ("UPDATE byref_calls SET artifact_id = 1 WHERE state = 'waiting'", "result of no call", "byref_calls"),
    ("UPDATE byref_calls SET step = 7 WHERE step IS NOT NULL", "call without its reply", "byref_calls"),
    ("UPDATE byref_calls SET session_id = 99 WHERE id = 1", "no such session", "byref_calls"),
    ("UPDATE byref_programs SET session_id = 99 WHERE id = 1", "no such session", "byref_programs"),
    ("UPDATE byref_ledger SET artifact_id = NULL WHERE id = 1", "output without its artifact", "byref_ledger"),
    *((f"UPDATE byref_variables SET name = '{name}' WHERE id = 1", "name", "byref_variables") for name in ("a\x1fb", "", "1a")),
    ("UPDATE byref_variables SET path = '[1' WHERE id = 1", "JSON", "byref_variables"),
    ("UPDATE byref_variables SET path = '[1]' WHERE id = 1", "JSON", "byref_variables"),
    *((f"UPDATE byref_variables SET path = '{path}' WHERE id = 1", "JSON", "byref_variables")
      for path in ('{"a": 1}', '{}', '{"a": ["b"], "c": []}', '{"a": [["*", ""]]}', '{"a": [["*", "", 1]]}')),
    ("UPDATE byref_tombstones SET variables = '{}'", "JSON", "byref_tombstones"),
    ("""UPDATE byref_tombstones SET variables = '{"a": ["b"]}'""", "JSON", "byref_tombstones"),
]  # fmt: skip


def first_of_each(cases: list[tuple[str, str, str]]) -> list[Any]:
    """A quick run breaks each invariant of a table in one way."""
    first = {(check, table): statement for statement, check, table in reversed(cases)}
    return [pytest.param(*case, marks=[] if first[case[1:]] == case[0] else pytest.mark.slow) for case in cases]


@pytest.mark.quick_cases(18)
@pytest.mark.parametrize(("statement", "check", "table"), first_of_each(BROKEN))
def test_each_invariant_is_looked_at(
    broken: Callable[[str], SqlEngine], statement: str, check: str, table: str
) -> None:
    problems = byref.db.verify(broken(statement))
    assert (check, table) in {(problem.check, problem.table) for problem in problems}, problems
    for problem in problems:
        assert str(problem) == f"{problem.check}: {problem.table}, {problem.row}: {problem.detail}"
        assert "{" not in problem.detail and "None" not in problem.detail


def test_a_path_to_many_places_is_sound(broken: Callable[[str], SqlEngine]) -> None:
    path = '{"users[]": ["users", ["[]", "", ""]]}'
    assert byref.db.verify(broken(f"UPDATE byref_variables SET path = '{path}' WHERE name = 'users_2'")) == []


@pytest.mark.parametrize(
    "change",
    [
        "data = zeroblob(40)",
        "data = substr(data, 1, 100)",
        "codec = 'none'",
        "first_line = 7",
        "checksum = zeroblob(8)",
    ],
)
def test_frames_are_compared_with_their_checksums(broken: Callable[[str], SqlEngine], change: str) -> None:
    engine = broken(f"UPDATE byref_frames SET {change} WHERE number = 1 AND blob_id = {BIG}")
    assert "damaged frame" in {problem.check for problem in byref.db.verify(engine)}
    assert "damaged frame" in {problem.check for problem in byref.db.verify(engine, deep=True)}


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        (f"UPDATE byref_blobs SET digest = zeroblob(32) WHERE id = {BIG}", "digest"),
        (f"UPDATE byref_blobs SET line_count = 7 WHERE id = {BIG}", "line numbers"),
    ],
)
def test_payloads_are_unpacked_only_in_depth(broken: Callable[[str], SqlEngine], statement: str, check: str) -> None:
    engine = broken(statement)
    assert byref.db.verify(engine) == []
    assert check in {problem.check for problem in byref.db.verify(engine, deep=True)}


def test_a_damaged_file_is_found_in_depth(broken: Callable[[str], SqlEngine]) -> None:
    engine = broken("SELECT 1")
    path = file(engine)
    data = bytearray(path.read_bytes())
    with engine.connect() as connection:
        page = connection.execute(
            text("SELECT rootpage FROM sqlite_master WHERE name = 'ix_byref_artifacts_blob_id'")
        ).scalar_one()
    engine.dispose()
    data[(page - 1) * 4096 : (page - 1) * 4096 + 64] = bytes(64)
    path.write_bytes(data)
    try:
        found = {problem.check for problem in byref.db.verify(engine, deep=True)}
    except StorageFailure:
        return
    assert "damaged file" in found


def test_problems_are_bounded(broken: Callable[[str], SqlEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integrity, "MOST", 3)
    problems = byref.db.verify(broken("UPDATE byref_ledger SET tenant = 'x'"))
    assert len([problem for problem in problems if problem.check == "no such session"]) == 3


def test_what_is_about_to_be_committed_is_no_problem(broken: Callable[[str], SqlEngine]) -> None:
    engine = broken(
        f"UPDATE byref_blobs SET staged_at = '{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}'; DELETE FROM byref_artifacts WHERE name = 'kept'"
    )
    assert byref.db.verify(engine) == []
    assert {problem.check for problem in integrity.examine(engine, grace=timedelta(0)).problems} == {"orphan"}


def test_nothing_is_changed(broken: Callable[[str], SqlEngine]) -> None:
    engine = broken("SELECT 1")
    path = file(engine)
    before = path.read_bytes()
    assert byref.db.verify(engine, deep=True) == []
    assert path.read_bytes() == before


def test_another_schema_is_none_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch):
        byref.db.verify(f"sqlite:///{tmp_path / 'new.db'}")
