"""What runs did to names, as it is recorded with them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from material import records
from sqlalchemy import create_engine, text

from byref import Engine, Session, db
from byref.interpreter.effects import MAX_CHARS, Effects, effects
from byref.interpreter.persistence import Committed, Left


def recorded(session: Session) -> Effects:
    """The effects of the last run."""
    query = text("SELECT names FROM byref_runs WHERE session_id = :s ORDER BY id DESC LIMIT 1")
    written: Any = session._scope.read(lambda c: c.execute(query, {"s": session._scope.row}).scalar_one())
    return msgspec.json.decode(written, type=Effects)


@pytest.mark.postgresql("text is written and read")
def test_names_before_and_after_each_run(engine: Engine, session: Session) -> None:
    session.process({"users": records(2_000)}, tool="list_users")
    session.run("import math\nclass Point:\n    x = 1\none, many = 1, [1, 2]\nopen_ = pd.DataFrame().iterrows()")
    first = recorded(session)
    assert dict(first.made) == {"one": "integer", "many": "array(2) of integer", "Point": "class"}
    assert "generator" in first.lost["open_"]
    assert (first.before, first.used, first.changed, first.dropped) == ([], [], {}, [])
    session.call("code_interpreter", {"code": "import math\none += len(users)\nmany.append(3)\nmath.floor(2.5)"})
    second = recorded(session)
    assert (second.made, dict(second.changed)) == ({}, {"one": "integer", "many": "array(3) of integer"})
    assert second.used == ["users"] and second.before == ["Point", "many", "one"]
    session.run("del many\nclass Point:\n    x = 2\nusers = 3\none")
    third = recorded(session)
    assert (third.dropped, dict(third.changed), third.for_this_run) == (["many"], {"Point": "class"}, ["users"])
    session.run("1 / 0")
    assert recorded(session).before == [name for name in third.before or () if name != "many"]
    asking = engine.session(session.id, tenant=session.tenant, tools=["artifact_sql"])
    asking.call("artifact_sql", {"query": "SELECT count(*) AS n FROM users", "save_as": "counted"})
    sql = recorded(session)
    assert (dict(sql.made), sql.used, sql.before) == ({"counted": "DataFrame of 1 row and 1 column"}, ["users"], None)


def test_many_names_are_counted() -> None:
    names = {f"name_{n}" * 30: "\ud800" * 300 for n in range(200)}
    written = effects(Left(), Committed(names, fresh=frozenset(names)), before=names, used=names, for_this_run=())
    found = msgspec.json.decode(written, type=Effects)
    assert len(written) < 8 * MAX_CHARS
    assert len(found.changed) + found.left_out["changed"] == 200 and found.left_out["used"] == 200
    alike = effects(Left(), Committed({}), before=["a" * 200, "a" * 300], used=(), for_this_run=())
    assert msgspec.json.decode(alike, type=Effects).left_out == {"before": 1}  # shown by the same hundred characters


def test_going_back_loses_what_became_of_names_and_nothing_else(shared_url: str) -> None:
    with Engine(shared_url, jail="language-only") as engine:
        session = engine.session("s")
        session.process([{"id": n} for n in range(9_000)], tool="rows")
        assert session.call("artifact_jq", {"artifact_id": "rows", "expression": "length"}).content == "9000"
    made = create_engine(shared_url)
    with made.begin() as connection:
        connection.execute(text("UPDATE byref_runs SET names = '{}'"))
        kept = text("SELECT id, step, code, result, limits FROM byref_runs")
        before = connection.execute(kept).all()
    db.downgrade(shared_url, "0010")
    db.upgrade(shared_url)
    with made.connect() as connection:
        assert connection.execute(kept).all() == before != []
        assert connection.execute(text("SELECT names FROM byref_runs")).scalars().all() == [None]
    made.dispose()
