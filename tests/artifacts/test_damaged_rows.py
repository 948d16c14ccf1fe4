"""A damaged description of one row is read as far as it goes, or is an error that the pages name; no other row is concerned."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

from byref import ArtifactMissing, Engine, Policy, Session, db
from byref.artifacts.store import NO_SHAPE

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


@pytest.mark.parametrize("seconds", [1e300, 1e14])
def test_a_use_is_written_whatever_the_time_to_live(
    engine: Engine, session: Session, change: Callable[..., None], seconds: float
) -> None:
    change("artifacts", "ttl_seconds", seconds)
    for one in session.artifacts():
        one.payload.read()
        engine._uses._note(one.row_id, seconds, 1.0)
    engine._uses.write()
