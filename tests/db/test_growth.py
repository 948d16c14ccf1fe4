"""What a call of a conversation reads does not grow with what the conversation holds: counted, and seen in the plans.

SQLite tells how many steps of its machine a call took; on both databases each statement of a call is explained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from benchmarks import bench_growth
from benchmarks.bench_growth import CALLS
from sqlalchemy import Connection, event, select, update

import byref
from byref import db
from byref.db.tables import SessionRow

FEW, MANY = 120, 2_500
MOST_ROWS = 1_300
"""Rows that one node of a plan may go through: as many as the bounded windows over what is newest."""
EVERY = 10
"""Steps of SQLite's machine between two calls of the handler that counts."""
SLACK = 300
"""Handler calls that do not matter: trees of indexes are deeper, pages of them more."""


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def filled(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    make_postgres: Callable[..., str],
    shared_sandbox: None,
) -> Iterator[tuple[byref.Engine, byref.Session, byref.Session]]:
    """An engine, and a conversation that holds little and one that holds much."""
    is_sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path_factory.mktemp('growth') / 'growth.db'}" if is_sqlite else make_postgres()
    with byref.Engine(url, create=True, policy=bench_growth.POLICY) as engine:
        small, large = (bench_growth.filled(engine, stored) for stored in (FEW, MANY))
        bench_growth.analyse(engine)
        for call in CALLS.values():
            call(small), call(large)
        yield engine, small, large


@pytest.mark.slow
def test_what_the_benchmark_fills_is_whole(filled: tuple[byref.Engine, byref.Session, byref.Session]) -> None:
    engine, _, large = filled
    assert db.verify(engine._database.engine) == []

    def kept(connection: Connection) -> Any:
        columns = (SessionRow.totals_through, SessionRow.stored_artifact, SessionRow.stored_name)
        return connection.execute(select(*columns).where(SessionRow.id == large._scope.row)).one()

    assert min(engine._database.read(kept)) > 1_000


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        ("totals = '{}'", "totals"),
        ("totals = 'no JSON'", "totals"),
        ("totals_through = next_step", "totals"),
        ("stored_bytes = 9", "stored bytes"),
    ],
)
def test_sums_that_are_wrong_are_found(
    broken: str, check: str, filled: tuple[byref.Engine, byref.Session, byref.Session]
) -> None:
    engine, _, large = filled
    with engine._database.engine.begin() as connection:
        held = (
            connection.execute(select(SessionRow.__table__).where(SessionRow.id == large._scope.row)).mappings().one()
        )
        connection.exec_driver_sql(f"UPDATE byref_sessions SET {broken} WHERE id = {large._scope.row}")
    try:
        assert check in {problem.check for problem in db.verify(engine._database.engine)}
    finally:
        with engine._database.engine.begin() as connection:
            back = {name: held[name] for name in ("totals", "totals_through", "stored_bytes")}
            connection.execute(update(SessionRow).where(SessionRow.id == large._scope.row).values(back))


PAGED: dict[str, tuple[Callable[..., list[Any]], Callable[[Any], Any]]] = {
    "ledger": (byref.Session.ledger, lambda entry: entry.step),
    "variables": (byref.Session.variables, lambda variable: variable.name),
    "artifacts": (byref.Session.artifacts, lambda artifact: artifact.id),
}


@pytest.mark.parametrize("name", PAGED)
def test_pages_are_the_whole(name: str, filled: tuple[byref.Engine, byref.Session, byref.Session]) -> None:
    session, (listed, key) = filled[1], PAGED[name]
    whole = listed(session)
    pages = [listed(session, limit=50)]
    while pages[-1]:
        pages.append(listed(session, after=key(pages[-1][-1]), limit=50))
    assert [one for page in pages for one in page] == whole
    assert len(whole) > 100 and {len(page) for page in pages[:-2]} == {50}
    for limit in (0, -1, 2.0, "3", True):
        with pytest.raises(byref.ConfigurationError, match="limit="):
            listed(session, limit=limit)
    for after in ("art_gone", "no name", "\0", -1, 1.5):
        with pytest.raises(byref.ConfigurationError, match="after"):
            listed(session, after=after, limit=1)


def test_sums_are_those_of_the_ledger(filled: tuple[byref.Engine, byref.Session, byref.Session]) -> None:
    """Whatever wrote the steps: one that knows nothing of sums leaves them to be added."""
    _, small, large = filled
    for session in (small, large):
        entries, totals = session.ledger(), session.usage()
        outputs = [entry for entry in entries if entry.kind == "output"]
        usages = [entry for entry in entries if entry.kind == "usage"]
        assert (totals.outputs, totals.requests) == (len(outputs), len(usages))
        assert totals.original_tokens == sum(entry.original_tokens or 0 for entry in outputs)
        assert totals.tokens == sum(entry.tokens for entry in outputs)
        assert totals.input_tokens == sum(entry.input_tokens or 0 for entry in usages)
        assert (totals.cost, totals.cache_read_tokens) == (None, None)


@contextmanager
def steps_of(engine: byref.Engine) -> Iterator[list[int]]:
    """Count what SQLite's machine does on all of an engine's connections."""
    counted = [0]

    def tick() -> int:
        counted[0] += 1
        return 0

    def begin(driver: Any, *_: object) -> None:
        driver.set_progress_handler(tick, EVERY)

    def end(driver: Any, *_: object) -> None:
        driver.set_progress_handler(None, EVERY)

    if engine._database.dialect != "sqlite":
        yield counted
        return
    event.listen(engine._database.engine, "checkout", begin)
    event.listen(engine._database.engine, "checkin", end)
    try:
        yield counted
    finally:
        event.remove(engine._database.engine, "checkout", begin)
        event.remove(engine._database.engine, "checkin", end)


@contextmanager
def statements_of(engine: byref.Engine) -> Iterator[list[tuple[str, Any]]]:
    """Collect the statements, as the driver gets them, with their parameters."""
    seen: list[tuple[str, Any]] = []

    def note(_c: object, _k: object, statement: str, parameters: Any, _x: object, many: bool) -> None:
        if statement.lstrip()[:6].upper() in ("SELECT", "UPDATE", "DELETE") and not many:
            seen.append((statement, parameters))

    event.listen(engine._database.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine._database.engine, "before_cursor_execute", note)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_reads_no_more_where_more_is_stored(
    name: str, filled: tuple[byref.Engine, byref.Session, byref.Session]
) -> None:
    engine, small, large = filled
    with statements_of(engine) as statements, steps_of(engine) as counted:
        CALLS[name](large)
        much, counted[0] = counted[0], 0
        executed = list(statements)
        CALLS[name](small)
        little = counted[0]
    if engine._database.dialect == "sqlite":
        assert much <= 1.5 * little + SLACK
        assert [plan for plan in (sqlite_scans(engine, *one) for one in executed) if plan] == []
    else:
        assert [plan for plan in (postgresql_scans(engine, *one) for one in executed) if plan] == []


def sqlite_scans(engine: byref.Engine, statement: str, parameters: Any) -> list[str]:
    """What a plan on SQLite goes through as a whole, or sorts; what a LIMIT has picked before may be."""
    with engine._database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    found = [row.detail for row in plan if re.match(r"SCAN (?!CONSTANT|anon_|\()", row.detail)]
    return [*found, statement] if found else []


def postgresql_scans(engine: byref.Engine, statement: str, parameters: Any) -> list[str]:
    """What a plan on PostgreSQL goes through in more rows than any bound allows."""
    with engine._database.engine.connect() as connection:
        [[[plan]]] = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters).all()
        connection.rollback()
    found = [
        f"{node['Node Type']} {node.get('Relation Name', '')} {node.get('Index Name', '')}: {rows:,} rows"
        for node in nodes(plan["Plan"])
        if (rows := _rows(node)) > MOST_ROWS
    ]
    return [*found, statement] if found else []


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each node of a plan."""
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def _rows(node: dict[str, Any]) -> int:
    """Rows that a node went through."""
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])
