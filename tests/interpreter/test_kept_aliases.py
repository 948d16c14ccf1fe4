"""A further name for stored data keeps the data without storing it again, and otherwise behaves like all names that code binds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from material import records
from sqlalchemy import delete, event, text, update

from byref import Engine, Policy, Session
from byref.db.integrity import examine
from byref.db.tables import ArtifactRow, NameRow, VariableRow
from byref.interpreter import persistence
from byref_sandbox import Sandbox

LEFT = "rows = users\ntable = df('users')\nwhole = list_users"


@pytest.fixture
def given(session: Session) -> Session:
    session.process({"users": records(3_000), "total": 3_000}, tool="list_users")
    return session


def ask(session: Session, code: str, **arguments: object) -> str:
    return session.call("code_interpreter", {"code": code, **arguments}).content


def stored(engine: Engine, session: Session) -> tuple[int, int]:
    """Blobs of the tenant and exact values."""
    query = text(
        "SELECT (SELECT COUNT(*) FROM byref_blobs WHERE tenant = :t), (SELECT COUNT(*) FROM byref_names WHERE tenant = :t)"
    )
    return tuple(engine.database.read(lambda c: c.execute(query, {"t": session.tenant}).one()))


@pytest.mark.postgresql("equal bytes are found by a unique index")
def test_nothing_is_stored_again(given: Session, engine: Engine) -> None:
    before = stored(engine, given)
    keys = len(records(1)[0])
    assert ask(given, LEFT) == (
        f"[kept for later calls: rows (array(3000) of object({keys} keys)), "
        f"table (DataFrame of 3,000 rows and {keys} columns), whole (object(2 keys))]"
    )
    assert stored(engine, given) == (before[0], before[1] + 2)  # the state of the session, which refers to it
    found = {variable.name: variable for variable in given.variables()}
    assert [(found[n].path, found[n].kind, found[n].origin) for n in ("rows", "table", "whole")] == [
        (("users",), "value", "run"),
        (("users",), "dataframe", "run"),
        ((), "value", "run"),
    ]
    assert found["rows"].value() == found["table"].value() == records(3_000)
    assert given.call("artifact_jq", {"artifact_id": "rows", "expression": "length"}).content == "3000"


def test_names_keep_their_data_when_its_name_gets_other_data(session: Session) -> None:
    session.store_artifact([1, 2, 3] * 500, name="data")
    ask(session, "h = data\nl = [data]\ndef first(): return l[0]\nclass Box: pass\nbox = Box()\nbox.rows = data")
    session.store_artifact([1], name="data")
    for _ in range(2):
        assert (
            ask(session, "[len(h), len(first()), len(box.rows), h is box.rows, len(data)]") == "[1500,1500,1500,true,1]"
        )
        ask(session, "more = [data, h]")
    session.store_artifact([2, 3], name="data")
    assert ask(session, "[len(one) for one in [*more, box.rows, data]]") == "[1,1500,1500,2]"


def test_names_lose_deleted_data_also_where_its_name_gets_other_data(session: Session) -> None:
    of = session.process(records(3_000), tool="users").artifacts[0]
    ask(session, "class Box: pass\nbox = Box()\nbox.rows = users")
    assert session.delete_artifact(of)
    session.process(records(2_000), tool="users")
    told = ask(session, "len(box.rows)")
    assert "name 'box' is not defined" in told and "[lost: box, Box (it referred to something that is no longer" in told


@pytest.mark.parametrize("code", ["len(rows)", "len(hit)", "text = 'b'"])
def test_names_that_are_plain_data_without_deleted_data_are_told_once(session: Session, code: str) -> None:
    of = session.process(records(3_000), tool="users").artifacts[0]
    ask(session, "rows = users[:2]; hit = {'x': users[3]}")
    assert session.delete_artifact(of)
    told = "[now plain data: rows, hit (it referred to something that is no longer there)]"
    assert told in ask(session, code)
    assert ask(session, "len(rows), hit['x']['id']") == "[2,4]"
    assert "plain data" not in ask(session, "rows.append(hit)\nmore = hit")
    assert ask(session, "rows[2] is hit is more") == "True"


def test_later_runs_find_what_was_kept(given: Session, sandbox: Sandbox) -> None:
    given.run(LEFT)
    for _ in range(2):
        assert given.run("[rows == users, rows is users, len(table), len(whole['users'])]").value == [
            True,
            True,
            3000,
            3000,
        ]
        assert given.run("type(table).__name__").value == "DataFrame"
        assert given.run("table.equals(df('users')) and df('rows').equals(table)").value is True
        sandbox._forget_sessions()


def test_code_that_is_run_again_leaves_its_names_what_they_are(session: Session) -> None:
    for _ in range(2):
        session.run("s = pd.Series([1, 2])\na = [1]\nb = a")
    session.run("t = s\na.append(2)")
    session.run("s = a")
    assert session.run("x = 1\n(a is b is s, b, t.tolist())").value == [True, [1, 2], [1, 2]]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("code", ["result = 5", "del result", "result = [result[0]]"])
def test_what_refers_to_a_value_outlives_its_name(session: Session, code: str) -> None:
    ask(session, "[{'i': i, 't': [i]} for i in range(9000)]")
    assert session.run("one, same = result[0], result\none is same[0]").value is True
    session.run(code)
    assert session.run("(one, len(same), one is same[0])").value == [{"i": 0, "t": [0]}, 9_000, True]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("rows[0]['n'] = 'changed'\nassert users[0] is rows[0] is whole['users'][0]", [3000, 3000, 2, False, True]),
        ("users.clear()\nassert rows == whole['users'] == [] and len(table) == 3000", [0, 3000, 2, False, False]),
        ("table['new'] = 1\nassert 'new' in df('users') and 'new' not in rows[0]", [3000, 3000, 2, True, False]),
        ("whole.clear()\nassert list_users == {} and len(rows) == 3000", [3000, 3000, 0, False, False]),
    ],
)
def test_what_code_changes_in_one_name_stays_in_it(given: Session, code: str, left: list[object]) -> None:
    """And in what it is a name of as well, until the run ends: then what tools stored is as it was."""
    given.run(LEFT)
    outcome = given.run(code)
    assert outcome.error is None, outcome.error
    found = "[len(rows), len(table), len(whole), 'new' in table, 'changed' in str(rows[:1])]"
    assert given.run(found).value == left
    assert given.run("len(users), len(list_users['users']), 'changed' in str(users[0])").value == [3000, 3000, False]
    assert given.variable("users").value() == records(3_000)


def test_names_go_on_to_what_they_are_bound_next(given: Session) -> None:
    given.run(LEFT)
    given.run("rows = rows[:2]\ntable = {1}\nwhole = 1")
    assert given.run("[len(rows), table == {1}, whole, len(users)]").value == [2, True, 1, 3000]
    given.run("rows = users\ntable = df(users)")
    assert given.run("[len(rows), table.shape[0]]").value == [3000, 3000]
    given.run("further = rows\nbeside = table")
    assert given.run("[len(further), type(beside).__name__, beside.shape[0]]").value == [3000, "DataFrame", 3000]
    given.run("del rows, further")
    assert {variable.name for variable in given.variables()} == {"list_users", "users", "table", "whole", "beside"}


def test_it_outlives_what_it_was_given(given: Session, engine: Engine) -> None:
    given.run(LEFT)
    [origin, *_] = given.artifacts()

    def expire(connection: object) -> None:
        row = ArtifactRow.id == origin.row_id
        connection.execute(update(ArtifactRow).where(row).values(ttl_seconds=1, expires_at=ArtifactRow.created_at))  # type: ignore[attr-defined]

    engine.database.write(expire)
    engine.sweep()
    assert {variable.name for variable in given.variables()} == {"rows", "table", "whole"}
    assert given.run("[len(rows), len(table), len(whole['users'])]").value == [3000, 3000, 3000]


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_what_is_deleted_while_the_code_runs_is_told(
    given: Session, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is not there, what it stood for until then is gone, and both the host and the model read why."""
    given.run("rows = {1}")

    def gone(connection: object) -> None:
        for table in (NameRow, VariableRow, ArtifactRow):
            connection.execute(delete(table).where(table.tenant == given.tenant))  # type: ignore[attr-defined]
        connection.execute(text("DELETE FROM byref_frames WHERE tenant = :t"), {"t": given.tenant})  # type: ignore[attr-defined]
        connection.execute(text("DELETE FROM byref_blobs WHERE tenant = :t"), {"t": given.tenant})  # type: ignore[attr-defined]

    def meanwhile(*given: Any, **knobs: Any) -> Any:
        engine.database.write(gone)
        return staged(*given, **knobs)

    staged = persistence.stage
    why = "its data expired, or was deleted, while the code ran"
    with monkeypatch.context() as patched:
        patched.setattr(persistence, "stage", meanwhile)
        outcome = given.run("rows = users\nother = 7")
    assert outcome.error is None and outcome.unkept == {"rows": why}
    assert [variable.name for variable in given.variables()] == ["other"]
    given.process({"users": records(3_000), "total": 3_000}, tool="list_users", call_id="again")
    with monkeypatch.context() as patched:
        patched.setattr(persistence, "stage", meanwhile)
        assert f"[not kept: rows ({why})]" in ask(given, "rows = users")
    assert given.variables() == []


@pytest.mark.postgresql("foreign keys and what is deleted with what")
def test_reset_and_end_take_it_along(given: Session, engine: Engine) -> None:
    given.run(LEFT)
    before = stored(engine, given)
    given.reset()
    assert {variable.name for variable in given.variables()} == {"list_users", "users"}
    assert len(given.artifacts()) == 1 and stored(engine, given) == (before[0], 0)
    given.run(LEFT)
    given.end()
    engine.sweep()
    assert given.variables() == [] and stored(engine, given)[1] == 0


def test_it_takes_no_room(engine: Engine, tenant: str) -> None:
    session = engine.session("small", tenant=tenant, policy=Policy(max_session_bytes=500_000, ttl=timedelta(days=1)))
    session.process({"users": records(3_000)}, tool="list_users")
    assert "not kept" not in ask(session, "\n".join(f"rows_{i} = users\ntable_{i} = df('users')" for i in range(20)))
    assert session.run("len(rows_19) + len(table_3)").value == 6000


def test_what_was_changed_is_kept_as_it_is(given: Session) -> None:
    given.run("rows = users\nrows[0]['n'] = (1, 2)\ntable = df('users')\ntable['new'] = 1")
    assert given.run("[type(rows[0]['n']).__name__, int(table['new'].sum()), 'new' in df('users')]").value == [
        "tuple",
        3000,
        False,
    ]


def test_a_function_that_changes_what_it_is_given_is_seen(given: Session) -> None:
    given.run("def cut(v): del v[10:]")
    given.run("rows = users\ncut(rows)")
    assert given.run("[len(rows), len(users)]").value == [10, 3000]


@pytest.mark.slow
def test_the_database_is_sound(tmp_path: Path, sandbox: Sandbox) -> None:
    url = f"sqlite:///{tmp_path}/aliases.db"
    with Engine(url, interpreter=sandbox) as engine:
        session = engine.session("chat")
        session.process({"users": records(3_000)}, tool="list_users")
        session.run(LEFT)
        session.run("rows = table\nwhole = rows")
    assert examine(url, deep=True).problems == ()


@pytest.mark.slow
def test_thousands_of_names_are_let_go_of_in_few_statements(engine: Engine, tenant: str) -> None:
    session = engine.session("many", tenant=tenant)
    session.run("gone = 'before'")
    statements: list[str] = []
    event.listen(
        engine.database.engine, "before_cursor_execute", listener := lambda *given: statements.append(given[2])
    )
    outcome = session.run("\n".join(f"a{number} = [{number}]" for number in range(3_000)) + "\ndel gone")
    event.remove(engine.database.engine, "before_cursor_execute", listener)
    assert outcome.error is None and len(statements) < 100
    assert session.run("a0").value == [0]
    for name in ("a2999", "gone"):  # beyond what is kept, and deleted
        assert (error := session.run(name).error) is not None and error.kind == "NameError"


EDITS = {
    "a column": "f['v'] = f['v'].fillna(0)",
    "cells": "f.loc[f.k == 1, 'a'] = 'X'",
    "a cell": "f.iat[0, 0] = 'Y'",
    "labels of columns": "f.columns = ['A', 'B', 'K', 'V', 'C', 'T']",
    "labels of rows": "f.index = range(5, len(f) + 5)",
    "a name of labels": "f.index.name = 'number'",
    "an order": "f.sort_values('k', ascending=False, inplace=True)",
    "a kind": "f['b'] = f['b'].astype('category')",
    "what a cell holds": "f.loc[2, 't'].append(7)",
    "nothing": "t = 0\nt += 1",
}
LOOK = "[[str(c) for c in f.columns], str(f.index[0]), f.index.name, str(f.dtypes.tolist()), f.iloc[:3].values.tolist(), int(f.isna().sum().sum())]"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, sandbox: Sandbox) -> Session:
    """A session whose data is too large to be compared with what it was before code ran."""
    engine = Engine(f"sqlite:///{tmp_path_factory.mktemp('large')}/large.db", create=True, interpreter=sandbox)
    session = engine.session("large")
    session.process(
        [
            {"a": f"a{n}", "b": f"b{n % 3}", "k": n % 3, "v": n / 2 if n % 9 else None, "c": f"c{n}", "t": [n]}
            for n in range(110_000)
        ],
        tool="rows",
    )
    return session


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("where", ["at once", "later", "through a name of its own"])
@pytest.mark.parametrize(
    "edit",
    [pytest.param(edit, marks=() if edit in ("a column", "what a cell holds") else pytest.mark.slow) for edit in EDITS],
)
def test_what_code_changes_in_a_large_table_is_kept(large: Session, edit: str, where: str) -> None:
    if where == "later":
        ask(large, "f = df(rows)")
    make = {"at once": "f = df(rows)", "later": "f", "through a name of its own": "make = df\nf = make(rows)"}[where]
    before = large.run(f"{make}\n{EDITS[edit]}\n{LOOK}").value
    assert large.run(LOOK).value == before
    pristine = large.run(LOOK.replace("f.", "df(rows).")).value
    assert (pristine == before) is (edit == "nothing")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("left", "edit", "shown"),
    [
        ("own = rows", "for r in own: r['k'] = 7", "sum(r['k'] for r in own)"),
        pytest.param("own = rows", "own.reverse()", "own[0]['k']", marks=pytest.mark.slow),
        pytest.param("own = rows[5]", "own['k'] = 9", "own['k']", marks=pytest.mark.slow),
        ("own = {'d': rows}", "own['d'][3]['k'] = 9", "own['d'][3]['k']"),
        ("own = rows\ndef change():\n    rows[3]['k'] = 9", "change()", "own[3]['k']"),
    ],
)
def test_what_code_changes_through_a_name_of_large_data_is_kept(
    large: Session, left: str, edit: str, shown: str
) -> None:
    ask(large, left)
    before = large.run(f"{edit}\n{shown}").value
    assert large.run(shown).value == before
    assert large.run("rows[3]['k']").value == 0
