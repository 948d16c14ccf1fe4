"""A damaged description of one row is read as far as it goes, or is an error that the pages name; no other row is concerned."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text, update

from byref import ArtifactMissing, Engine, Policy, Session, db
from byref.artifacts.store import NO_SHAPE
from byref.db.tables import ArtifactRow
from byref.service.inspector import chart

pytestmark = pytest.mark.postgresql("the rows are written past the engine")
USERS = {"users": [{"id": n, "name": f"user {n}"} for n in range(900)]}
BLOCKS = [{"type": "text", "text": "short"}, {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]


@pytest.fixture
def session(engine: Engine, tenant: str) -> Session:
    session = engine.session("s", tenant=tenant, policy=Policy(keep_tokens=100))
    session.process(USERS, tool="users", call_id="u")
    session.process("line\n" * 4_000, tool="log", call_id="l")
    session.process(BLOCKS, tool="blocks", call_id="b")
    return session


@pytest.fixture
def change(engine: Engine, tenant: str) -> Callable[..., None]:
    def change(table: str, column: str, value: object, where: str = "1 = 1") -> None:
        with engine.database.engine.begin() as connection:
            about = {"value": value, "tenant": tenant}
            done = connection.execute(
                text(f"UPDATE byref_{table} SET {column} = :value WHERE tenant = :tenant AND {where}"), about
            )
            assert done.rowcount

    return change


def read(session: Session) -> None:
    """Whatever reads descriptions."""
    session.variables(), session.artifacts(), session.history(), session.ledger(), session.usage(), session.reminder()
    session.explain("u")
    assert session.process(USERS, tool="users", call_id="u").replayed
    assert session.process(BLOCKS, tool="blocks", call_id="b")
    assert session.call("artifact_read", {"artifact_id": session.artifacts()[0].id}).text


@pytest.mark.parametrize("damaged", ['{"use', "17", "["])
def test_a_damaged_shape_is_unknown(
    engine: Engine, session: Session, change: Callable[..., None], damaged: str
) -> None:
    change("artifacts", "shape", damaged)
    assert {one.shape for one in session.artifacts()} <= {NO_SHAPE, "text"}
    assert session.variable("users").value() == USERS
    assert str(session.variable("log").value()).startswith("line\n")
    read(session)
    assert any("shape is damaged" in str(problem) for problem in db.verify(engine.database.engine))


@pytest.mark.parametrize("damaged", ["{", "[]", ""])
def test_a_damaged_detail_of_a_step_is_left_out(
    engine: Engine, session: Session, change: Callable[..., None], damaged: str
) -> None:
    change("ledger", "detail", damaged)
    assert [dict(one.detail) for one in session.ledger()] == [{}] * 3
    read(session)
    assert any("detail is damaged" in str(problem) for problem in db.verify(engine.database.engine))


@pytest.mark.parametrize("damaged", ["no", 17, [17], [[]], [["a", "b"]], [[99, 1 << 70]], {"a": 1}, None])
@pytest.mark.parametrize("name", ["stands", "artifacts", "beside", "variables", "instructions"])
def test_a_member_of_a_detail_that_is_of_another_type_is_left_out(
    session: Session, change: Callable[..., None], name: str, damaged: object
) -> None:
    change("ledger", "detail", json.dumps({name: damaged, "blocks": 2, "mapper": "kept"}))
    assert all(one.detail["mapper"] == "kept" for one in session.ledger())
    assert len(session.history()) == 3
    read(session)


@pytest.mark.parametrize("damaged", ["{", "[]", '{"sets_context": 1}', '{"sets_context": true, "through": "all"}'])
def test_the_chart_is_drawn_over_damaged_details(
    engine: Engine, session: Session, change: Callable[..., None], damaged: str
) -> None:
    session.record_usage({"input_tokens": 900, "output_tokens": 9})
    change("ledger", "detail", damaged)
    points = engine.database.read(lambda connection: chart.points(connection, session._scope.row))
    assert [one.step for one in points] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["value", "limit", "context", "window", "calibration"])
def test_a_decision_is_explained_without_numbers_that_are_none(
    session: Session, change: Callable[..., None], name: str
) -> None:
    numbers = {"value": 1, "limit": 2, "unit": "bytes", "context": 3, "window": 4, "calibration": 1.5}
    change("ledger", "detail", json.dumps(numbers | {name: ["none"]}))
    assert all(str(session.explain(step)) for step in (1, 2, 3))


@pytest.mark.parametrize("damaged", ["[", "17", '{"a": 1}', "[1]"])
def test_what_led_to_an_expired_artifact_may_be_damaged(
    engine: Engine, session: Session, tenant: str, change: Callable[..., None], damaged: str
) -> None:
    id_, past = session.artifacts()[0].id, datetime.now(UTC) - timedelta(hours=1)
    expired = update(ArtifactRow).where(ArtifactRow.tenant == tenant).values(expires_at=past)
    engine.database.write(lambda connection: connection.execute(expired))
    engine.sweep()
    change("tombstones", "variables", damaged)
    change("tombstones", "shape", damaged)
    assert "it expired on" in session.call("artifact_read", {"artifact_id": id_}).text


@pytest.mark.parametrize("damaged", ["[", "17", '{"a": 1}', "[1]", '["nothing"]'])
def test_of_damaged_tools_those_of_the_policy_hold(
    engine: Engine, tenant: str, change: Callable[..., None], damaged: str
) -> None:
    engine.session("t", tenant=tenant, tools=["artifact_jq"])
    change("sessions", "tools", damaged, "name = 't'")
    again = engine.session("t", tenant=tenant)
    assert [tool["name"] for tool in again.tools("anthropic")] == [
        tool["name"] for tool in engine.session("u", tenant=tenant).tools("anthropic")
    ]


@pytest.mark.parametrize("damaged", ["[", "17", '[{"$bytes": "a"}]'])
def test_damaged_blocks_are_their_text(session: Session, change: Callable[..., None], damaged: str) -> None:
    change("ledger", "content", damaged, "step = 3")
    assert session.history()[2].processed == damaged
    read(session)


@pytest.mark.parametrize("damaged", ["[1", "[]", '{"'])
def test_damaged_sums_are_counted_anew(session: Session, change: Callable[..., None], damaged: str) -> None:
    before = session.usage()
    change("sessions", "totals", damaged)
    change("sessions", "totals_through", 2)
    assert session.usage() == before


def test_what_a_path_or_kind_does_not_lead_to_is_missing(session: Session, change: Callable[..., None]) -> None:
    change("variables", "path", '["nope"]', "name = 'users'")
    with pytest.raises(ArtifactMissing, match="the path of the variable 'users' is damaged"):
        session.variable("users").value()
    change("artifacts", "kind", "json", "kind = 'text'")
    with pytest.raises(ArtifactMissing, match="said to be JSON"):
        session.variable("log").value()


@pytest.mark.parametrize("name", ["../o.txt", "o" * 201])
def test_a_file_of_a_run_whose_name_none_can_have_is_left_out(
    session: Session, change: Callable[..., None], name: str
) -> None:
    session.call("code_interpreter", {"code": "for name in ('o.txt', 'p.txt'):\n    open(name, 'w').write(name)"})
    change("artifacts", "name", name, "name = 'o.txt'")
    assert "p.txt" in session.call("code_interpreter", {"code": "open('p.txt').read()"}).text


@pytest.mark.parametrize("table", ["artifacts", "frames"])
def test_no_row_leads_to_data_of_another_tenant(local: Engine, tenant: str, table: str) -> None:
    """Where foreign keys are off, a row may name any blob."""
    own, other = (local.session("s", tenant=tenant + end) for end in "ab")
    artifact, secret = own.store_artifact("own " * 20_000), other.store_artifact("secret " * 20_000)
    given = {"mine": artifact.row_id, "its": secret.row_id}
    blob = "(SELECT blob_id FROM byref_artifacts WHERE id = :{})"
    changes = {
        "artifacts": [f"UPDATE byref_artifacts SET blob_id = {blob.format('its')} WHERE id = :mine"],
        "frames": [
            f"DELETE FROM byref_frames WHERE blob_id = {blob.format('mine')} AND :its",
            f"UPDATE byref_frames SET blob_id = {blob.format('mine')} WHERE blob_id = {blob.format('its')}",
        ],
    }
    with local.database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.commit()
        for change in changes[table]:
            connection.execute(text(change), given)
        connection.commit()
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
    assert "secret" not in own.call("artifact_read", {"artifact_id": artifact.id}).text
    assert len(own.artifacts()) == (table == "frames")
    if table == "frames":
        with pytest.raises(ArtifactMissing):
            artifact.payload.read()
    assert [problem for problem in db.verify(local.database.engine) if "tenant" in str(problem)]


@pytest.mark.parametrize("seconds", [1e300, 1e14])
def test_a_use_is_written_whatever_the_time_to_live(
    engine: Engine, session: Session, change: Callable[..., None], seconds: float
) -> None:
    change("artifacts", "ttl_seconds", seconds)
    for one in session.artifacts():
        one.payload.read()
        engine._uses._note(one.row_id, seconds, 1.0)
    engine._uses.write()
