"""What a call of a conversation reads does not grow with what the conversation holds: counted, and seen in the plans.

SQLite tells how many steps of its machine a call took; on both databases each statement of a call is explained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from benchmarks import bench_growth
from benchmarks.bench_growth import CALLS, LISTS
from sqlalchemy import Connection, event, select, update

import byref
from byref import db
from byref.db.tables import SessionRow

FEW, MANY = 480, 2_500
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
        for tenant, stored in (("few", FEW), ("many", MANY), (None, MANY)):
            bench_growth.populate(engine, tenant, stored)
        small, large = (bench_growth.filled(engine, stored) for stored in (FEW, MANY))
        bench_growth.analyse(engine)
        for name, call in CALLS.items():
            if name != "reset":
                call(small), call(large)
        yield engine, small, large


@pytest.mark.slow
def test_what_the_benchmark_fills_is_whole(filled: tuple[byref.Engine, byref.Session, byref.Session]) -> None:
    engine, _, large = filled
    assert db.verify(engine._database.engine) == []

    def kept(connection: Connection) -> Any:
        columns = (SessionRow.totals_through, SessionRow.stored_artifact, SessionRow.stored_name)
        return connection.execute(select(*columns).where(SessionRow.id == large._scope.row)).one()

    assert min(engine._database.read(kept)) > 600


@pytest.mark.slow
def test_sums_that_are_wrong_are_found(filled: tuple[byref.Engine, byref.Session, byref.Session]) -> None:
    engine, small, _ = filled
    with engine._database.engine.begin() as connection:
        first = connection.execute(select(SessionRow.id).where(SessionRow.tenant == "few").limit(3)).scalars().all()
    broken = dict(zip(first, ("totals = '{}'", "totals = 'no JSON'", "totals_through = next_step"), strict=True))
    broken[small._scope.row] = "stored_bytes = 9"
    set_to = [f"UPDATE byref_sessions SET {to} WHERE id = {row}" for row, to in broken.items()]
    tenant = "INSERT INTO byref_tenants (tenant, stored_bytes, stored_blob, stored_name) VALUES ('default', 9, 99, 0)"
    with engine._database.engine.begin() as connection:
        held = connection.execute(select(SessionRow.__table__).where(SessionRow.id.in_(broken))).mappings().all()
        for statement in (*set_to, tenant):
            connection.exec_driver_sql(statement)
    try:
        found = {(problem.check, problem.row) for problem in db.verify(engine._database.engine)}
        totals = {("totals", f"id {row}") for row in first}
        assert found == totals | {("stored bytes", f"id {small._scope.row}"), ("stored bytes", "tenant default")}
    finally:
        with engine._database.engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM byref_tenants")
            for one in held:
                back = {name: one[name] for name in ("totals", "totals_through", "stored_bytes")}
                connection.execute(update(SessionRow).where(SessionRow.id == one["id"]).values(back))


@pytest.mark.slow
def test_pages_of_conversations_and_tenants_are_the_whole(
    filled: tuple[byref.Engine, byref.Session, byref.Session],
) -> None:
    engine = filled[0]
    lists: tuple[tuple[Callable[..., list[Any]], Callable[[Any], Any]], ...] = (
        (partial(engine.sessions, "few"), lambda info: info.id),
        (partial(engine.sessions, None), lambda info: info),
        (engine.tenants, lambda info: info.id),
    )
    for listed, key in lists:
        whole = listed()
        assert len(whole) >= FEW
        page, seen = listed(limit=997), []
        while page:
            seen += page
            page = listed(after=key(page[-1]), limit=997)
        assert seen == whole
        for limit in (0, -1, 2.0, "3", True):
            with pytest.raises(byref.ConfigurationError, match="limit="):
                listed(limit=limit)
    for tenant, after in (("few", "none"), (None, "chat 1"), ("few", engine.sessions("many", limit=1)[0])):
        with pytest.raises(byref.ConfigurationError, match="after="):
            engine.sessions(tenant, after=after, limit=1)
    assert {(one.input_tokens, one.output_tokens, one.steps) for one in engine.sessions("few")} == {(9, 1, 1)}
    assert [(one.sessions, one.input_tokens) for one in engine.tenants(after="default", limit=1)] == [(FEW, 9 * FEW)]


@pytest.mark.slow
def test_a_list_by_a_prefix_is_whole(filled: tuple[byref.Engine, byref.Session, byref.Session]) -> None:
    """Whether few begin with it, which come by age, or many, which come by name."""
    _, small, large = filled
    for session in (small, large):
        for prefix in ("report", "report 1", "out/", "page", "art_7", "art:8", "zzz"):
            stored = [(one.name or "", one.pointer) for one in session.artifacts()]
            begins = {pointer for name, pointer in stored if name.startswith(prefix)}
            begins |= {pointer for _, pointer in stored if pointer.startswith(prefix.replace("art_", "art:"))}
            after, seen = "", []
            while True:
                reply = session.call("list_artifacts", {"prefix": prefix, "limit": 100, "after": after}).text
                page, note = reply.partition("\n[INCOMPLETE")[::2] if "\n[INCOMPLETE" in reply else (reply, "")
                entries = [entry for entry in json.loads(page) if isinstance(entry, dict)]
                seen += [entry["pointer"] for entry in entries]
                if "Go on with after" not in reply:
                    break
                after = seen[-1]
            assert sorted(seen) == sorted(begins), (prefix, note)
    beyond = large.call("list_artifacts", {"prefix": "report", "after": large.artifacts(limit=1)[0].pointer})
    assert beyond.is_error and "is not in the list by prefix='report'" in beyond.text


@pytest.mark.slow
def test_a_quota_that_is_reached_is_counted_once(
    filled: tuple[byref.Engine, byref.Session, byref.Session],
) -> None:
    """And again once something has gone; what is free is told exactly."""
    engine, small, large = filled
    for knob in ("max_session_bytes", "max_tenant_bytes"):
        counted = [0, 0]
        for at, session in enumerate((small, large)):
            whole = {one.digest: one.payload.size for one in session.artifacts()}
            info = {"max_session_bytes": next(i for i in engine.sessions() if i.id == session.id)}
            info["max_tenant_bytes"] = next(i for i in engine.tenants() if i.id == "default")
            stored = info[knob].stored_bytes
            full = engine.session(session.id, policy=byref.Policy(**{"max_session_bytes": None, knob: stored + 10}))
            for _ in range(2):
                with pytest.raises(byref.QuotaExceeded, match=f" {stored + 11:,} bytes stored"):
                    full.store_artifact("x" * 11)
            with steps_of(engine) as steps:
                with pytest.raises(byref.QuotaExceeded):
                    full.store_artifact("y" * 11)
                counted[at] = steps[0]
            made = full.store_artifact("z" * 10)
            with pytest.raises(byref.QuotaExceeded, match=f" {stored + 21:,} bytes stored"):
                full.store_artifact("x" * 11)
            assert full.delete_artifact(made) and made.digest not in whole
            assert full.delete_artifact(full.store_artifact("w" * 10))
        if engine._database.dialect == "sqlite":
            assert counted[1] <= 1.5 * counted[0] + SLACK


PAGED: dict[str, tuple[Callable[..., list[Any]], Callable[[Any], Any]]] = {
    "ledger": (byref.Session.ledger, lambda entry: entry.step),
    "variables": (byref.Session.variables, lambda variable: variable.name),
    "artifacts": (byref.Session.artifacts, lambda artifact: artifact.id),
}


@pytest.mark.quick_cases(1)
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


@pytest.mark.parametrize("name", [*LISTS, *CALLS])
def test_a_call_reads_no_more_where_more_is_stored(
    name: str, filled: tuple[byref.Engine, byref.Session, byref.Session]
) -> None:
    engine, small, large = filled
    call: Callable[[Any], Any] = CALLS[name] if name in CALLS else partial(LISTS[name], engine)
    few, many = (small, large) if name in CALLS else ("few", "many")
    if name == "reset":  # the first forgets what there is
        call(few), call(many)
    with statements_of(engine) as statements, steps_of(engine) as counted:
        call(many)
        much, counted[0] = counted[0], 0
        executed = list(statements)
        call(few)
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
    found = [row.detail for row in plan if re.match(r"SCAN (?!CONSTANT|anon_|wanted|\()", row.detail)]
    return [*found, statement] if found else []


_ONLY_BY_INDEX = [f"SET LOCAL enable_{way} = off" for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "sort")]


def postgresql_scans(engine: byref.Engine, statement: str, parameters: Any) -> list[str]:
    """What a plan on PostgreSQL goes through in more rows than any bound allows.

    So little is stored here that reading all of it may well be cheapest: that there is a plan which does not is what is to
    be seen, and that it is the one which is chosen where much is stored, the benchmark measures.
    """
    with engine._database.engine.connect() as connection:
        for setting in _ONLY_BY_INDEX:
            connection.exec_driver_sql(setting)
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
