"""Outputs that are small enough to be held are written by one transaction, with the promises of the large ones."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text

from byref import Engine, Policy
from byref.artifacts import staging

POLICY = Policy(max_result_tokens=500, max_session_bytes=None)


def records(tag: str, count: int = 150) -> list[dict[str, object]]:
    return [{"id": i, "tag": tag, "name": f"user {i * 7919}"} for i in range(count)]


@contextmanager
def watched(engine: Engine) -> Iterator[list[str]]:
    """Collect what the database is asked: each statement, and `COMMIT`."""
    database, seen = engine._database.engine, list[str]()

    def executed(_: Any, __: Any, statement: str, *___: Any) -> None:
        seen.append(statement)

    def committed(_: Any) -> None:
        seen.append("COMMIT")

    event.listen(database, "before_cursor_execute", executed)
    event.listen(database, "commit", committed)
    try:
        yield seen
    finally:
        event.remove(database, "before_cursor_execute", executed)
        event.remove(database, "commit", committed)


def blobs(engine: Engine, tenant: str) -> list[Any]:
    """Of a tenant: id, key and whether it is published."""
    query = text("SELECT id, key, published_at IS NOT NULL AS is_out FROM byref_blobs WHERE tenant = :tenant")
    with engine._database.engine.connect() as connection:
        return list(connection.execute(query, {"tenant": tenant}))


def test_a_small_output_is_one_transaction(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=POLICY)
    session.process(records("warm"), tool="rows")
    output = records("new")
    with watched(engine) as seen:
        result = session.process(output, tool="rows", call_id="1")
    assert (result.route, seen.count("COMMIT")) == ("variables", 1)
    assert len([one for one in seen if one.startswith(("INSERT", "UPDATE", "SELECT"))]) <= 18
    assert result.artifacts[0].value == output
    assert [row.is_out for row in blobs(engine, tenant)] == [True, True]


def test_what_is_published_meanwhile_is_looked_at_before_it_is_trusted(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, first = records("same"), engine.session("first", tenant=tenant, policy=POLICY)
    hold, before = staging.hold, []

    def meanwhile(content: staging.Content) -> staging.Held:
        if not before:
            before.append(None)
            before[0] = first.process(output, tool="rows")
            damage = text("UPDATE byref_frames SET data = :data WHERE blob_id = :id")
            with engine._database.engine.begin() as connection:
                connection.execute(damage, {"data": b"torn", "id": before[0].artifacts[0].payload.blob_id})
        return hold(content)

    monkeypatch.setattr(staging, "hold", meanwhile)
    result = engine.session("second", tenant=tenant, policy=POLICY).process(output, tool="rows")
    assert result.artifacts[0].value == output
    assert first.artifacts()[0].value == output
    assert [row.is_out for row in blobs(engine, tenant)] == [True]


def test_the_same_bytes_given_at_once_are_stored_once(engine: Engine, tenant: str) -> None:
    sessions = [engine.session(f"s{i}", tenant=tenant, policy=POLICY) for i in range(6)]
    output = records("at once")
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda session: session.process(output, tool="rows"), sessions))
    assert all(result.artifacts[0].value == output for result in results)
    assert [row.is_out for row in blobs(engine, tenant)].count(True) == 1


def test_equal_blocks_of_one_output_are_stored_once(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=POLICY)
    block = {"type": "text", "text": "[" + ",".join(f'{{"n":{i},"of":"twice"}}' for i in range(600)) + "]"}
    result = session.process([block, block], tool="rows")
    assert len({artifact.payload.blob_id for artifact in result.artifacts}) == 1
    assert [row.is_out for row in blobs(engine, tenant)] == [True]


def test_a_hosts_rollback_takes_the_bytes_along(engine: Engine, tenant: str) -> None:
    host = create_engine(engine._database.engine.url)
    with host.connect() as connection, connection.begin() as transaction:
        session = engine.session("s", tenant=tenant, policy=POLICY, db=connection)
        assert session.process(records("gone"), tool="rows").route == "variables"
        transaction.rollback()
    host.dispose()
    assert blobs(engine, tenant) == []
