"""Released revisions never change, and an upgrade that is raced or killed leaves one revision or the other."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from frozen import released, statements
from kept import RELEASED, unpacked
from sqlalchemy import create_engine, make_url, text
from structure import structure

from byref import db
from byref.db.integrity import examine

CHAOS = Path(__file__).parents[1] / "chaos"
LONG = timedelta(days=100_000)

KILLED = """
import os
from sqlalchemy import Engine, event
from byref import db
import byref.db.migrate
go()
url, before, finished = sys.argv[1], sys.argv[2], False
for last in range(1, 200, int(sys.argv[3])):
    if (child := os.fork()) == 0:
        done = 0
        @event.listens_for(Engine, "before_cursor_execute")
        def kill(*_):
            global done
            done += 1
            if done == last:
                os.kill(os.getpid(), 9)
        db.upgrade(url)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(db.current(url))
    if status == 0:
        break
    assert status == -9, status
    assert db.current(url) == before
"""


@pytest.mark.parametrize("revision", RELEASED)
@pytest.mark.parametrize("url", ["sqlite://", "postgresql+psycopg://"])
def test_what_was_released_is_not_edited(revision: str, url: str) -> None:
    assert statements(revision, url).split() == released(revision, make_url(url).get_backend_name()).split()


@pytest.mark.parametrize("revision", RELEASED)
def test_a_released_database_is_what_its_migrations_make(
    revision: str, empty_url: str, tmp_path: Path, make_postgres: Callable[[], str]
) -> None:
    unpacked(revision, empty_url, tmp_path)
    made = f"sqlite:///{tmp_path / 'made.db'}" if empty_url.startswith("sqlite") else make_postgres()
    db.upgrade(made, revision)
    found = []
    for url in (empty_url, made):
        engine = create_engine(url)
        found.append(structure(engine))
        engine.dispose()
    assert found[0] == found[1]


@pytest.mark.slow
def test_many_processes_upgrade_at_once(empty_url: str, tmp_path: Path, race: Callable[..., list[str]]) -> None:
    kept = unpacked(RELEASED[0], empty_url, tmp_path)
    script = (
        "from byref import db\nimport byref.db.migrate\ngo()\ndb.upgrade(sys.argv[1])\nprint(db.current(sys.argv[1]))"
    )
    assert race(5, script, empty_url) == [db.head()] * 5
    figures = dict(examine(empty_url, grace=LONG).figures)
    assert {name: figures[name] for name in kept.figures} == kept.figures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "step"),
    [("sqlite", 12), *(pytest.param(kind, 1, marks=pytest.mark.slow) for kind in ("sqlite", "postgresql"))],
)
def test_killed_at_any_statement_it_is_done_or_not_begun(
    kind: str, step: int, request: pytest.FixtureRequest, tmp_path: Path, race: Callable[..., list[str]]
) -> None:
    empty_url = (
        f"sqlite:///{tmp_path / 'kept.db'}" if kind == "sqlite" else request.getfixturevalue("empty_postgres_url")
    )
    kept = unpacked(RELEASED[0], empty_url, tmp_path)
    [said] = race(1, KILLED, empty_url, kept.revision, str(step))
    *killed, last = said.split()
    assert (set(killed), last) == ({kept.revision}, db.head())
    assert len(killed) > 20 / step
    report = examine(empty_url, grace=LONG)
    assert report.problems == ()
    assert {name: report.figures[name] for name in kept.figures} == kept.figures


@pytest.mark.slow
def test_deploys_replace_processes_while_the_database_is_migrated(postgres_server: str) -> None:
    """Three versions of the package, in processes of their own: see `tests/chaos/faults_versions.py`."""
    command = [sys.executable, str(CHAOS), "--short", "rolling_upgrade"]
    environment = os.environ | {"BYREF_CHAOS_POSTGRESQL": postgres_server}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
def test_many_rows_are_no_matter(empty_url: str) -> None:
    """An upgrade of a database with 100,000 steps takes as long as it holds nobody up: a second."""
    db.upgrade(empty_url, RELEASED[0])
    engine = create_engine(empty_url)
    with engine.begin() as connection:
        sessions = [{"id": number, "name": f"chat {number}"} for number in range(1, 1_001)]
        connection.execute(
            text(
                "INSERT INTO byref_sessions (id, tenant, name, created_at, next_step)"
                " VALUES (:id, 't', :name, CURRENT_TIMESTAMP, 101)"
            ),
            sessions,
        )
        connection.execute(
            text(
                "INSERT INTO byref_ledger (tenant, session_id, step, kind, tokens, detail, created_at)"
                " SELECT 't', a.id, b.id, 'compaction', 1, '{}', CURRENT_TIMESTAMP FROM byref_sessions a, byref_sessions b"
                " WHERE b.id <= 100"
            )
        )
    begun = time.monotonic()
    db.upgrade(engine)
    took = time.monotonic() - begun
    print(f"{engine.dialect.name}: {took * 1000:.0f} ms")
    assert took < 5
    report = examine(engine)
    assert (report.problems, report.figures["ledger"]) == ((), 100_000)
    engine.dispose()
