"""Changes that code makes in place to values of earlier calls are there in the next call; data that tools stored is unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from material import records
from sqlalchemy import text

from byref import Engine, Session
from byref.db.integrity import examine
from byref_sandbox import Sandbox

LEFT = """
frame = df('users')[['id']].copy()
d = {'a': 1}
seen = {1}
L = [1, 2]
pair = ([1], {2})
def note(x):
    L.append(x)
    d['noted'] = x
"""
MORE = "t = 0\nt += 1\n"
NOTHING = "[no output: nothing was printed, and the last statement is no expression]"


def begun(session: Session) -> Session:
    session.process({"users": records(3_000), "total": 3_000}, tool="list_users")
    session.run(LEFT)
    return session


@pytest.fixture
def given(chat: Session) -> Session:
    """In memory."""
    return begun(chat)


@pytest.fixture
def everywhere(session: Session) -> Session:
    """On each database."""
    return begun(session)


def ask(session: Session, code: str, **arguments: object) -> str:
    return session.call("code_interpreter", {"code": code, **arguments}).content


def revisions(session: Session) -> dict[str, int]:
    return {variable.name: variable.revision for variable in session.variables()}


def stored(engine: Engine, session: Session) -> list[int]:
    tables = ("blobs", "names", "artifacts")
    query = " UNION ALL ".join(f"SELECT COUNT(*) FROM byref_{table} WHERE tenant = :t" for table in tables)
    return list(engine.database.read(lambda c: c.execute(text(query), {"t": session.tenant}).scalars()))


def test_it_is_kept_and_said(everywhere: Session, sandbox: Sandbox) -> None:
    assert ask(everywhere, "frame['x'] = 1\nd['b'] = 2\nseen.add(3)\nL.append(3)\npair[0].append(5)") == (
        "[kept for later calls: frame (DataFrame of 3,000 rows and 2 columns), d (object(2 keys)), seen (set), "
        "L (array(3) of integer), pair (tuple)]"
    )
    for _ in range(2):
        found = "[list(frame), d, seen == {1, 3}, L, pair == ([1, 5], {2})]"
        assert everywhere.run(found).value == [["id", "x"], {"a": 1, "b": 2}, True, [1, 2, 3], True]
        sandbox._forget_sessions()
    assert everywhere.call("artifact_jq", {"artifact_id": "d", "expression": ".b"}).content == "2"
    assert ask(everywhere, "x = frame.pop('x').size\n[one.clear() for one in (d, L)]\ndel x\nlen(frame)") == (
        "3000\n[kept for later calls: frame (DataFrame of 3,000 rows and 1 column), d (object(0 keys)), L (array(0))]"
    )
    assert everywhere.run("[list(frame), d, L]").value == [["id"], {}, []]


@pytest.mark.slow
@pytest.mark.postgresql("equal bytes are found by a unique index")
def test_what_is_unchanged_is_not_written_again(everywhere: Session, engine: Engine) -> None:
    everywhere.run("len(L)")  # the last value, `_`, has a row of its own
    before, at = stored(engine, everywhere), revisions(everywhere)
    for more in ("", MORE):
        assert (
            everywhere.run(more + "[len(frame), d['a'], len(seen), L[0], len(pair), frame['id'].max()]").error is None
        )
    everywhere.run("L.append(1)\nL.pop()\nd['a'] = 1")
    assert {name: revision for name, revision in revisions(everywhere).items() if name != "t"} == at
    everywhere.run("del t")
    assert stored(engine, everywhere)[1] == before[1]
    everywhere.run("L.append(9)\nlen(d), len(seen)")
    assert {name for name, revision in revisions(everywhere).items() if revision != at[name]} == {"L"}


def test_functions_and_other_names_change_it(given: Session) -> None:
    assert ask(given, "note(7)") == "[kept for later calls: d (object(2 keys)), L (array(3) of integer)]"
    assert ask(given, "other = L\nother.append(8)") == (
        "[kept for later calls: L (array(4) of integer), other (array(4) of integer)]"
    )
    assert ask(given, "note(9)\nother is L") == (
        "True\n[kept for later calls: d (object(2 keys)), L (array(5) of integer), other (array(5) of integer)]"
    )
    assert given.run("[L, d, other]").value == [[1, 2, 7, 8, 9], {"a": 1, "noted": 9}, [1, 2, 7, 8, 9]]


def test_changes_before_an_error_are_kept(given: Session) -> None:
    content = ask(given, "L.append(3)\nseen.add(4)\nmissing\nd.clear()")
    assert content.startswith("NameError at line 3")
    assert content.endswith("\n[kept for later calls: seen (set), L (array(3) of integer)]")
    assert given.run("[L, seen == {1, 4}, d]").value == [[1, 2, 3], True, {"a": 1}]


def test_what_cannot_be_kept_any_more_goes(given: Session) -> None:
    assert (
        ask(given, "L.append(pd.DataFrame().iterrows())")
        == "[not kept: L (a generator of a library: make a list of it)]"
    )
    content = ask(given, "L")
    assert content.startswith("NameError at line 1: name 'L' is not defined")
    assert "'L' was not kept: a generator of a library: make a list of it" in content


def test_attributes_of_a_table_are_kept_or_told(given: Session) -> None:
    given.run("frame.source, column = 'web', frame['id']\ncolumn.unit = {'of': 'kg'}")
    assert given.run("frame.source, column.unit").value == ["web", {"of": "kg"}]
    assert "no longer DataFrame with its rows, source)" in ask(given, "frame.rows = iter({}.items())")
    assert given.run("hasattr(frame, 'source'), len(frame), column.unit").value == [False, 3_000, {"of": "kg"}]


def test_a_stopped_run_says_what_is_as_before(given: Session) -> None:
    content = ask(given, "L.append(3)\nlen(d)\nx = [0] * 10 ** 12")
    assert content.splitlines()[0].startswith("MemoryLimit at line 3")
    assert content.endswith("[not kept: L (the run was stopped)]")
    assert given.run("L").value == [1, 2]


@pytest.mark.slow
def test_a_further_name_of_stored_data_becomes_a_value_of_its_own(everywhere: Session, sandbox: Sandbox) -> None:
    everywhere.run("rows = users\ntable = df('users')\npart = list_users['users']")
    content = ask(everywhere, "rows[0]['new'] = 1\ntable['new'] = 1\npart.reverse()\nlen(users)")
    keys = len(records(1)[0])
    assert content == (
        f"3000\n[kept for later calls: rows (array(3000) of object), "
        f"table (DataFrame of 3,000 rows and {keys + 1} columns), part (array(3000) of object)]"
    )
    sandbox._forget_sessions()
    assert everywhere.run("['new' in rows[-1], 'new' in table, part[-1]['id'], part is rows]").value == [
        True,
        True,
        records(1)[0]["id"],
        True,
    ]
    assert everywhere.run("['new' in users[0], 'new' in df('users'), users[0]['id']]").value == [
        False,
        False,
        records(1)[0]["id"],
    ]
    assert everywhere.variable("users").value() == records(3_000)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("users.append(1)\nlen(users)", "3001\n[users: changed"),
        ("for row in users:\n    row['x'] = 1", "[users: changed"),
        ("$list_users['users'].clear()", "[list_users: changed"),
        ("first = users[0]\nfirst['x'] = 1", "[users: changed"),
        ("df('users')['x'] = 1\nusers.sort(key=str)", "[users: changed"),
    ],
)
def test_what_tools_stored_is_changed_for_one_run_only(given: Session, code: str, told: str) -> None:
    content = ask(given, code)
    assert content.startswith(told + " for this run only; the stored data is unchanged]")
    assert given.run("[len(users), len(list_users['users']), 'x' in users[0]]").value == [3000, 3000, False]


def test_what_is_not_changed_is_not_told(given: Session) -> None:
    assert ask(given, "big = [r for r in users if r['id'] > 2]\nbig.clear()\nt = df('users')\nt['x'] = 1").startswith(
        "[kept for later calls: big (array(0)), t (DataFrame of 3,000 rows"
    )
    content = ask(given, "1 / 0\nusers.clear()")
    assert "users" not in content.splitlines()[-1]
    assert ask(given, "users = users[:1]\nusers.clear()") == (
        "[users: assigned for this run only; the stored data is unchanged]"
    )
    assert ask(given, "df('L')['x'] = 1") == "[L: changed for this run only; the stored data is unchanged]"
    assert "changed for this run" not in ask(given, "df(users).append({'id': 1})")


@pytest.mark.slow
def test_another_engine_goes_on(tmp_path: Path, sandbox: Sandbox) -> None:
    url = f"sqlite:///{tmp_path}/changes.db"
    for number in range(3):
        with Engine(url, interpreter=sandbox) as engine:
            session = engine.session("chat")
            session.run(f"seen.add({number})\nplain.append({number})" if number else "seen = {0}\nplain = [0]")
        sandbox._forget_sessions()
    with Engine(url, interpreter=sandbox) as engine:
        assert engine.session("chat").run("[seen == {0, 1, 2}, plain]").value == [True, [0, 1, 2]]
    assert examine(url, deep=True).problems == ()


STEPS = [
    "d = {'n': [1], 'm': {}}\nrows = [{'a': i} for i in range(3)]\ns = {'x'}\nt = pd.DataFrame({'a': [3, 1, 2]})\nall_ = [d]",
    "d['n'].append(2)",
    "for row in rows:\n    row['b'] = row['a'] * 2\ndel row",
    "t['b'] = t['a'] * 2",
    "s |= {'y'}\ns.discard('x')",
    "t.loc[t['a'] == 1, 'b'] = 0\nt = t.sort_values('a')",
    "def grow(x, by=1):\n    x['m'][str(len(x['m']))] = by\n    return len(x['m'])",
    "grow(d), grow(d, by=[2])",
    "d['m']['1'].append(rows)",
    "rows += [{'a': 9}]\nlen(rows)",
    "t.index = list('xyz')\nt.loc['x', 'c'] = 5.0",
    "counts = {}\nfor row in rows:\n    counts[row['a']] = counts.get(row['a'], 0) + 1\ndel row",
    "counts.pop(9)\nrows.pop()\nd.setdefault('z', ()), t.pop('b').sum()",
    "df = t\ndel t",
    "df['e'] = 1\ndf.insert(0, 'first', range(3))",
]


@pytest.mark.slow
def test_calls_are_to_values_what_one_program_is(chat: Session, sandbox: Sandbox) -> None:
    import pandas as pd

    here: dict[str, Any] = {"pd": pd}
    for number, step in enumerate(STEPS):
        exec(step, here)
        outcome = chat.run(step)
        assert outcome.error is None, (step, outcome.error)
        if number % 5 == 4:
            sandbox._forget_sessions()
    names = "str([d, rows, s, counts, df.to_dict(), str(df.dtypes.to_dict()), list(df.index)])"
    assert chat.run(names).value == eval(names, here)
