"""Outputs small enough to be buffered are written by one transaction, with the same guarantees as large ones."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text

from byref import Engine, Policy
from byref.artifacts import staging, variables
from byref.ingest import process
from byref.ingest.outlook import Outlook

POLICY = Policy(max_result_tokens=500)


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
    for tag in "abc":
        session.process(records(tag), tool="rows")
    output = records("new")
    with watched(engine) as seen:
        result = session.process(output, tool="rows", call_id="1")
    assert (result.route, seen.count("COMMIT")) == ("variables", 1)
    asked = [one for one in seen if one.startswith(("INSERT", "UPDATE", "SELECT", "WITH"))]
    assert len(asked) == (9 if engine._database.dialect == "sqlite" else 4)
    assert asked[0].count("SELECT") == 2, (
        "PostgreSQL takes 3 ms to plan a look-up of each route, though nothing is there"
    )
    assert result.artifacts[0].value == output
    assert [row.is_out for row in blobs(engine, tenant)] == [True] * 4


def test_what_is_published_meanwhile_is_looked_at_before_it_is_trusted(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, first = records("same"), engine.session("first", tenant=tenant, policy=POLICY)
    hold, before = staging.buffer, []

    def meanwhile(content: staging.Content) -> staging.Buffered:
        if not before:
            before.append(None)
            before[0] = first.process(output, tool="rows")
            damage = text("UPDATE byref_frames SET data = :data WHERE blob_id = :id")
            with engine._database.engine.begin() as connection:
                connection.execute(damage, {"data": b"torn", "id": before[0].artifacts[0].payload.blob_id})
        return hold(content)

    monkeypatch.setattr(staging, "buffer", meanwhile)
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


def test_what_is_returned_is_what_would_be_read(engine: Engine, tenant: str) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo" + "A" * 4_000, "mimeType": "image/png"}
    outputs: list[Any] = [
        {"rows": records("a"), "page": {"next": None}, "lone \ud800": [1]},
        "\n".join(f"line {i} of a log\0" for i in range(2_000)),
        [{"type": "text", "text": "a caption"}, image, {"type": "text", "text": str(records("text"))}],
        str(records("as text")).encode(),
    ]
    for policy in (POLICY, Policy(max_result_tokens=500, envelope_form="pointers", mode="artifact", ttl=None)):
        session = engine.session(f"s{policy.envelope_form}", tenant=tenant, policy=policy)
        for number, output in enumerate(outputs):
            result = session.process(output, tool="rows", call_id=str(number))
            again = session.process(output, tool="rows", call_id=str(number))
            assert result.artifacts, number
            for way in (again, result):
                assert way.artifacts == [session.get_artifact(artifact.id) for artifact in result.artifacts]
                assert way.variables == [session.variable(variable.name) for variable in result.variables]
                for artifact in way.artifacts:
                    assert artifact.payload.read()


def test_what_is_recorded_between_the_look_and_the_commit_is_seen(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = engine.session("s", tenant=tenant, policy=POLICY)
    output, look, meanwhile = records("same"), process.look, list[Any]()

    def late(*about: Any) -> Outlook:
        found = look(*about)
        if meanwhile:
            work = meanwhile.pop()
            with ThreadPoolExecutor(1) as elsewhere:
                elsewhere.submit(work).result()
        return found

    monkeypatch.setattr(process, "look", late)
    meanwhile.append(lambda: session.process(output, tool="rows", call_id="1"))
    result = session.process(output, tool="rows", call_id="1")
    assert (result.step, len(session.ledger()), len(session.artifacts())) == (1, 1, 1)

    text = "\n".join(f"line {i}" for i in range(3_000))
    first = session.process(text, tool="log")
    assert "That is above" in session.process(text, tool="log").text
    meanwhile.append(lambda: session.on_compaction(100))
    again = session.process(text, tool="log")
    assert ("That is above" in again.text, len(again.text) > len(first.text) // 2) == (False, True)


def test_names_go_on_whoever_gave_the_last(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=POLICY)
    blocks = [
        {"type": "text", "text": "[" + ",".join(f'{{"n":{i},"of":{j}}}' for i in range(600)) + "]"} for j in (1, 2)
    ]

    def given(output: Any, *, last: int | None = None) -> list[str]:
        for key in list(variables._given):  # as another process knows it
            variables._given.pop(key) if last is None else variables._given.update({key: last})
        return [variable.name for variable in session.process(output, tool="rows").variables]

    names = [given(records(str(last)), last=last) for last in (None, 2, 2, 2, 900)]
    assert names == [["rows"], ["rows_2"], ["rows_3"], ["rows_4"], ["rows_5"]]
    with engine._database.engine.begin() as connection:  # as if it had expired
        connection.execute(text("DELETE FROM byref_variables WHERE name = 'rows_3'"))
    assert given(blocks, last=2) == ["rows_3", "rows_6"]
    assert given(blocks[:1], last=6) == ["rows_7"]
