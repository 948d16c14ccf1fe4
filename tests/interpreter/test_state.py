"""A session's names between calls: as they were, in any process, beside other calls, and after whatever happens to what is stored."""

from __future__ import annotations

import io
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sqlalchemy import select, update

from byref import Engine, Policy, Session
from byref.artifacts import names
from byref.db.integrity import examine
from byref.db.tables import NameRow
from byref_sandbox import Sandbox
from byref_sandbox.state import known

SETUP = """
from dataclasses import dataclass
import random
def counter():
    count = 0
    def step():
        nonlocal count
        count += 1
        return count
    return step
step = counter()
step()
a = [1]
b = {"a": a}
@dataclass
class Order:
    total: int = 0
    def add(self, more):
        self.total += more
        return self.total
order = Order(2)
array = np.zeros(50_000)
view = array[:3]
np.random.seed(7)
pd.set_option("display.precision", 3)
frame = pd.DataFrame({"n": range(20_000), "s": ["x", "y"] * 10_000})
"""
CHECK = """
a.append(2)
view[0] = 5.0
[step(), b["a"] is a, order.add(1), float(array[0]), round(float(np.random.rand()), 6), pd.get_option("display.precision"), len(frame)]
"""
ADDRESSES = """
rng = np.random.default_rng(0)
draws = {"rng": rng, "n": 2}
times = {counter: 1.5}
stream = np.random.RandomState(0)
"""
"""Names whose values have a repr and no other text."""
FOUND = [2, True, 3, 5.0, 0.076308, 3, 20_000]


def ask(session: Session, code: str, **arguments: object) -> str:
    return session.call("code_interpreter", {"code": code, **arguments}).content


def rows(engine: Engine, session: Session) -> dict[str, int]:
    query = select(NameRow.name, NameRow.size_bytes).where(NameRow.kind == "state", NameRow.tenant == session.tenant)
    return {row.name: row.size_bytes for row in engine.database.read(lambda c: c.execute(query).all())}


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("rows of bytes")
def test_names_are_what_they_were(session: Session, sandbox: Sandbox) -> None:
    assert session.run(SETUP).error is None
    sandbox._forget_sessions()
    outcome = session.run(CHECK)
    assert (outcome.error, outcome.value) == (None, FOUND)
    assert session.run("[a, b['a'] is a, float(array[0]), step()]").value == [[1, 2], True, 5.0, 3]


def test_names_that_stand_for_an_artifact_are_its_bytes_in_later_calls(session: Session, sandbox: Sandbox) -> None:
    file = io.BytesIO()
    pd.DataFrame({"id": range(3_000), "who": "ann"}).to_excel(file, index=False)
    result = session.process(file.getvalue(), tool="report")
    (artifact,) = {one.id for one in session.artifacts() if one.kind == "document"}
    assert artifact in result.text
    kept = f"data = {artifact}\nbook = pd.ExcelFile(data)\ninside = [data]\nbuffer = io.BytesIO(data)"
    assert session.run(f"import io\n{kept}").error is None
    sandbox._forget_sessions()
    outcome = session.run(
        "[len(data), data is inside[0], buffer.getvalue() == data, book.sheet_names, book.parse().shape]"
    )
    assert (outcome.error, outcome.value) == (None, [len(file.getvalue()), True, True, ["Sheet1"], [3_000, 2]])


@pytest.mark.slow
def test_another_engine_goes_on(tmp_path: Path, sandbox: Sandbox) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    for code, found in ((SETUP, None), (CHECK, FOUND), ("step(), len(a)", [3, 2])):
        with Engine(url, interpreter=sandbox) as engine:
            assert engine.session("chat").run(code).value == found
        sandbox._forget_sessions()
    assert examine(url, deep=True).problems == ()


def test_what_nothing_refers_to_any_more_is_not_stored(session: Session, engine: Engine) -> None:
    session.run("array = np.arange(100_000)")
    assert max(rows(engine, session).values()) == 800_000
    session.run("array = array + 1")
    assert sorted(rows(engine, session).values())[-2:] != [800_000, 800_000]
    session.run("del array")
    assert max(rows(engine, session).values()) < 10_000
    session.run("x = 1")
    session.reset()
    assert rows(engine, session) == {}
    assert "name 'x' is not defined" in ask(session, "x")


def test_only_large_names_that_are_needed_are_read(
    chat: Session, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox
) -> None:
    chat.run("big = list(range(100_000))\nother = ['x' * 10] * 50_000\ndef size(): return len(big)\nsmall = 1")
    sandbox._forget_sessions()
    loaded: list[int] = []
    load = names.ValueLoad.__call__
    monkeypatch.setattr(names.ValueLoad, "__call__", lambda self: (loaded.append(self.row_id), load(self))[1])
    assert chat.run("small").value == 1 and loaded == []
    assert chat.run("size()").value == 100_000 and len(loaded) == 1
    assert chat.run("len(other)").value == 50_000 and len(loaded) == 2
    assert chat.run("len(other) + len(big)").value == 150_000 and len(loaded) == 2  # they are warm
    assert chat.run("sorted(n for n in globals() if n in ('big', 'other', 'small'))").value == ["big", "other", "small"]


def test_data_of_a_large_name_follows_what_it_shares(session: Session) -> None:
    """The large one is not read where the code does not name it, and tools have it as it is now all the same."""

    def jq(name: str) -> str:
        return session.call("artifact_jq", {"artifact_id": name, "expression": ".[0]"}).content

    session.run(
        "orders = [{'id': i, 'status': 'open'} for i in range(30_000)]\nfirst = orders[0]\n"
        "def pay(): first['status'] = 'paid'\nother = [1]"
    )
    assert "orders" not in ask(session, "other.append(2)")
    assert "orders" in ask(session, "pay()")
    assert jq("orders") == '{"id":0,"status":"paid"}'
    assert "orders" in ask(session, "d = {'it': first}\nd['it']['id'] = 7")
    assert jq("orders") == '{"id":7,"status":"paid"}'
    session.run("orders = [5]\nfirst['id'] = 8")
    assert jq("orders") == "5"


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("two transactions at once")
def test_two_calls_at_once_both_count(session: Session) -> None:
    """As when a model calls the tool twice in one turn: each begins with the names that were there."""
    session.run("base = [0]\ncount = 0")
    codes = [f"import time\ntime.sleep(0.3)\nmine_{n} = [base, {n}]\ndef f_{n}(): return mine_{n}[1]" for n in range(3)]
    with ThreadPoolExecutor() as pool:
        told = [*pool.map(lambda code: ask(session, code), codes)]
    assert sum("[bound by another call meanwhile: mine_" in text for text in told) == 2, told
    assert "[bound" not in ask(session, "later = 1")
    assert session.run("[f_0(), f_1(), f_2(), len(base)]").value == [0, 1, 2, 1]
    session.run("f_0.seen = 1\nmine_0.append(9)")
    assert session.run("[f_0(), f_1(), f_2(), mine_0[2], mine_1, count]").value == [0, 1, 2, 9, [[0], 1], 0]


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("two transactions at once")
def test_a_change_that_two_calls_at_once_have_made_is_named(session: Session) -> None:
    session.run("x = []\nt = pd.DataFrame({'a': [1]})\nuntouched = [1]\ncount = 0\nas_before = 5")
    codes = [
        f"import time\ntime.sleep(0.3)\nx.append({n})\nt['n{n}'] = {n}\nsame = 7\nz{n} = {n}\ncount += 1\nas_before = 5"
        for n in range(2)
    ]
    with ThreadPoolExecutor() as pool:
        told = [*pool.map(lambda code: ask(session, code), codes)]
    [later] = [n for n, text in enumerate(told) if "meanwhile" in text]
    assert f"[bound by another call meanwhile: z{1 - later}; " in told[later]
    assert "[bound by another call meanwhile: count, t, x; what this call did took the place of that]" in told[later]
    assert session.run("[x, list(t), same, z0, z1, count]").value == [[later], ["a", f"n{later}"], 7, 0, 1, 1]


OWN = """
class Account:
    fee = [0]
    def __init__(self):
        self.total = 0
def mk():
    n = 0
    def inc():
        nonlocal n
        n += 1
        return n
    return inc
a, b, i, j = Account(), Account(), mk(), mk()
r, q = random.Random(1), random.Random(2)
import decimal, time
"""


@pytest.mark.quick_cases(2)
@pytest.mark.postgresql("two transactions at once")
@pytest.mark.parametrize(
    ("first", "second", "asked", "expected"),
    [
        ("a.total = 7", "b.total = 8", "[a.total, b.total, type(a) is type(b)]", [7, 8, True]),
        ("i()", "j()", "[i(), j()]", [2, 2]),
        (
            "r.random()",
            "q.random()",
            "[x.random() == random.Random(n).random() for n, x in enumerate([r, q], 1)]",
            [0, 0],
        ),
        ("Account.fee.append(1)", "i()", "[Account.fee, i(), isinstance(b, Account)]", [[0, 1], 2, True]),
        ("a.total = 7", "decimal.getcontext().prec = 5", "[a.total, decimal.getcontext().prec]", [7, 5]),
        ("decimal.getcontext().prec = 5", "a.total = 7", "[a.total, decimal.getcontext().prec]", [7, 5]),
    ],
)
def test_changes_of_two_calls_at_once_in_what_is_no_data_both_count(
    session: Session, first: str, second: str, asked: str, expected: object
) -> None:
    session.run(OWN)
    session.run("a, b, i, j, r, q = a, b, i, j, r, q")
    told = at_once(session, f"{first}\ntime.sleep(0.4)", f"{second}\ntime.sleep(1.2)")
    assert "a, if" not in told[1] and "b, if" not in told[1]
    assert session.run(asked).value == expected


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("two transactions at once")
def test_a_change_in_what_is_no_data_that_another_call_has_changed_is_told(session: Session) -> None:
    session.run(OWN)
    second = "a.name = 'x'\nAccount.fee.append(5)\ntime.sleep(1.2)"
    told = at_once(session, "a.total = 7\ntime.sleep(0.4)", second)
    assert re.search(r"what this call changed inside of Account, a\b.*, if anything, is lost\]", told[1])
    assert session.run("[a.total, hasattr(a, 'name'), Account.fee]").value == [7, False, [0]]


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("two transactions at once")
@pytest.mark.parametrize("count", [40, 40_000])
def test_a_large_name_of_one_of_two_calls_at_once_is_what_was_kept(session: Session, count: int) -> None:
    session.run(f"import time\nbig = [[i] for i in range({count})]\npart = big[0]")
    told = at_once(session, "part.append('P')\ntime.sleep(0.4)", "big[1].append('B')\ntime.sleep(1.2)")
    assert "kept for later calls: big" in told[1]
    kept = session.call("artifact_jq", {"artifact_id": "big", "expression": ".[:2]"}).content
    assert kept == '[[0],[1,"B"]]'
    assert "lost" not in ask(session, "part")
    assert session.run("[big[:2], part]").value == [[[0], [1, "B"]], [0, "P"]]


def test_a_damaged_record_is_told_until_names_are_kept_again(engine: Engine, tenant: str) -> None:
    chat = engine.session("damaged", tenant=tenant, tools=("code_interpreter",))
    ask(chat, "x = [1]\ndef f(): return 5")
    damaged = update(NameRow).where(NameRow.name == ".state", NameRow.tenant == chat.tenant).values(data=b"damaged")
    engine.database.write(lambda connection: connection.execute(damaged))
    told = "[lost: functions, classes and other names without data, of earlier calls (the stored data is gone or damaged): bind them again]"
    assert told in ask(chat, "f()")
    assert told in ask(chat, "x.append(2)\nx")
    assert ask(chat, "x") == "[1,2]"


def test_a_deletion_beside_a_change_says_that_the_change_is_lost(chat: Session) -> None:
    ask(chat, "import time\nx = []")
    deleted, _ = at_once(chat, "del x\ntime.sleep(1.2)", "x.append(2)\ntime.sleep(0.4)")
    assert deleted == "[bound by another call meanwhile: x; what this call did took the place of that]"
    assert "name 'x' is not defined" in ask(chat, "x")


def at_once(session: Session, *codes: str) -> list[str]:
    with ThreadPoolExecutor() as pool:
        return [*pool.map(lambda code: ask(session, code), codes)]


def test_what_else_is_bound_to_a_name_counts(engine: Engine, tenant: str) -> None:
    session = engine.session("sql", tenant=tenant, policy=Policy(tools=("code_interpreter", "artifact_sql")))
    session.run("x = [1]\ny = {'x': x}\ndef f(): return x")
    session.call("artifact_sql", {"query": "SELECT 5 AS n", "save_as": "x"})
    assert session.run("[type(x).__name__, y['x'], f() is x]").value == ["DataFrame", [1], True]
    session.delete_artifact(session.variable("y").artifact)
    assert "name 'y' is not defined" in ask(session, "y")


def test_why_something_is_lost_is_said_again(chat: Session) -> None:
    assert "not kept: lines (a generator of a library: make a list of it)" in ask(
        chat, "lines = pd.DataFrame().iterrows()"
    )
    for _ in range(2):
        assert "'lines' was not kept: a generator of a library: make a list of it" in ask(chat, "list(lines)")
    ask(chat, "lines = [1]")
    assert ask(chat, "lines") == "[1]"
    ask(chat, "del lines")
    assert "was not kept" not in ask(chat, "lines")


@pytest.mark.slow
def test_another_version_takes_text_and_data(tmp_path: Path) -> None:
    """After an upgrade of Python or of a library, between two calls."""
    url = f"sqlite:///{tmp_path}/upgrade.db"
    with Engine(url) as engine:
        engine.session("chat").run(f"{SETUP}{ADDRESSES}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONDONTWRITEBYTECODE", "1")
        _pretend_upgrade(url)
    with Engine(url) as engine:
        session = engine.session("chat")
        content = ask(session, "[counter()(), Order(1).add(1), a, b, len(frame), order]")
        assert content.startswith("[1,2,[1],{")
        assert "[lost: " in content and "kept by another version of Python or its libraries" in content
        lost = content.partition("[lost: ")[2]
        assert "settings_of_libraries (those of numpy.random, pandas: kept by another" in lost
        assert all(name in lost for name in ("step", "rng", "draws", "times", "stream"))
        assert "NameError" in ask(session, "rng") and "'rng' was not kept: kept by another" in ask(
            session, "rng.random()"
        )
        assert all("NameError" in ask(session, name) for name in ("draws", "times", "stream"))
        again = ask(session, "[counter()(), a, len(frame)]")
        assert again == "[1,[1],20000]"
        assert "'step' was not kept: kept by another version" in ask(session, "step()")
    assert examine(url, deep=True).problems == ()


def _pretend_upgrade(url: str) -> None:
    """Have the record say that another version of pandas wrote it."""
    with Engine(url) as engine:
        kept = engine.database.read(lambda c: names.kept(c, c.execute(select(NameRow.session_id)).scalars().first()))
        [snapshot] = kept.record.snapshots
        other = snapshot.contents.replace(known.pd.__version__.encode(), b"0" * len(known.pd.__version__))
        record = names.Record([names.Snapshot(other)], kept.record.entries, {})

        def write(connection: Any) -> None:
            row = connection.execute(select(NameRow).where(NameRow.name == ".state")).one()
            names.write_record(connection, tenant=row.tenant, session_row=row.session_id, record=record, step=row.step)

        engine.database.write(write)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("which", ["record", "base", "large"])
def test_damage_is_told_and_the_rest_goes_on(session: Session, engine: Engine, sandbox: Sandbox, which: str) -> None:
    session.run("x = [1]\ndef f(): return 5\nbig = list(range(100_000))")
    sizes = rows(engine, session)
    wanted = {
        "record": ".state",
        "large": max(sizes, key=lambda name: sizes[name]),
        "base": min((name for name in sizes if name != ".state"), key=lambda name: sizes[name]),
    }[which]
    damaged = update(NameRow).where(NameRow.name == wanted, NameRow.tenant == session.tenant).values(data=b"damaged")
    engine.database.write(lambda connection: connection.execute(damaged))
    sandbox._forget_sessions()
    assert session.run("x").value == [1]  # tools have it as data
    content = ask(session, "len(big)")
    assert content.startswith(("100000\n[lost: ", "100000\n[now plain data: ")) or (
        which != "record" and content == "100000"
    )
    if which == "large":
        assert session.run("f()").value == 5
    else:
        assert "NameError" in ask(session, "f()")
    assert session.run("def f(): return 6\nx.append(2)").error is None
    assert session.run("[f(), x]").value == [6, [1, 2]]


def test_a_value_that_has_room_only_without_its_name_is_shown(engine: Engine, tenant: str) -> None:
    """The state and the data for tools have room one by one, and not together."""
    session = engine.session("full", tenant=tenant, policy=Policy(max_session_bytes=100_000))
    assert ask(session, "a = 'a' * 20_000\nlen(a)") == "20000\n[kept for later calls: a (string)]"
    content = ask(session, "b = 'b' * 20_000\nlen(b)")
    assert content.startswith("20000\n[not kept: b (the session would have ")
    assert "max_session_bytes=100,000" in content
    assert session.run("b").error is not None
    assert session.run("len(a)").value == 20_000


def test_a_session_at_its_quota_says_what_is_not_kept(engine: Engine, tenant: str) -> None:
    session = engine.session("full", tenant=tenant, policy=Policy(max_session_bytes=40_000))
    session.run("def f(): return 1\nx = [1]")
    content = ask(session, "def g(): return f()\ntext = 'a' * 100_000\ny = [x]")
    assert "not kept: " in content and "max_session_bytes=40,000" in content
    assert session.run("[f(), x]").value == [1, [1]]
