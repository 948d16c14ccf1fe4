"""Code that computes the names of variables finds all of the session's data, or is told what it did not get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from material import records
from sqlalchemy import select

from byref import Engine, Session
from byref.artifacts import variables
from byref.db.tables import RunRow
from byref.interpreter import inputs
from byref_sandbox import Outcome, Sandbox

NOT_LOADED = "'orders_big' is bound, but was not loaded"
CURE = "write its name in the code"


@pytest.fixture
def given(session: Session) -> Session:
    """Orders of two years, and of a third that is too large to be read without being named."""
    stock(session)
    return session


def stock(session: Session) -> None:
    session.process(records(3_000), tool="orders_2023")
    session.process(records(2_000), tool="orders_2024")
    session.process([{"id": n, "text": "x" * 900} for n in range(33_000)], tool="orders_big")


def ask(session: Session, code: str) -> str:
    reply = session.call("code_interpreter", {"code": code})
    assert not reply.is_error, reply.content
    return reply.content


def mistake(session: Session, code: str) -> str:
    reply = session.call("code_interpreter", {"code": code})
    assert reply.is_error, reply.content
    return reply.content


YEARS = "(2023, 2024)"
READ = [
    ("sorted(n for n in globals() if n.startswith('orders_2'))", ["orders_2023", "orders_2024"]),
    ("[n for n in dir() if n.startswith('orders')]", ["orders_2023", "orders_2024", "orders_big"]),
    (f"[f'orders_{{y}}' in globals() for y in (*{YEARS}, 2025, 'big')]", [True, True, False, True]),
    (f"[len(globals()[f'orders_{{y}}']) for y in {YEARS}]", [3000, 2000]),
    (f"here = locals()\n[len(here.get('orders_' + str(y), [])) for y in {YEARS}]", [3000, 2000]),
    (f"here = vars()\n[len(here['orders_%d' % y]) for y in {YEARS}]", [3000, 2000]),
    (f"[len(eval(f'orders_{{y}}')) for y in {YEARS}]", [3000, 2000]),
    (f"[eval(f'len(orders_{{y}})', globals()) for y in {YEARS}]", [3000, 2000]),
    (f"[len(df(f'orders_{{y}}')) for y in {YEARS}]", [3000, 2000]),
    (f"[len(df('orders_{{}}'.format(y))) for y in {YEARS}]", [3000, 2000]),
    ("name = '_'.join(['orders', '2023'])\nlen(df(name))", 3000),
    (f"def total():\n    return sum(len(globals()[f'orders_{{y}}']) for y in {YEARS})\ntotal()", 5000),
    ("here = globals()\n[len(here[n]) for n in sorted(here) if n.startswith('orders_2')]", [3000, 2000]),
    ("len(globals().setdefault('orders_' + '2023', [])), len(globals().pop('orders_' + '2024', []))", [3000, 2000]),
]


def test_names_that_the_code_computes_are_there(given: Session) -> None:
    for code, value in READ * 2:
        outcome = given.run(code)
        assert outcome.error is None, code
        assert json.loads(outcome.json) == value, code


@pytest.mark.slow
def test_what_is_too_large_is_never_left_out_without_a_word(given: Session) -> None:
    for code in (
        "len(globals()['orders_' + 'big'])",
        "len(globals().get('orders_' + 'big', []))",
        "try:\n    n = len(vars()['orders_' + 'big'])\nexcept KeyError:\n    n = 0",
        "try:\n    n = eval('len(orders_' + 'big)')\nexcept NameError:\n    n = 0",
        "eval('len(orders_' + 'big)', globals())",
        "df('orders_' + 'big')",
        "sum(len(v) for v in globals().values() if isinstance(v, list))",
        "[len(v) for n, v in globals().items() if n.startswith('orders')]",
        "dict(globals())",
        "{**locals()}",
        "globals().copy()",
        "globals() | {}",
        "del globals()['orders_' + 'big']",
    ):
        told = mistake(given, code)
        assert told.startswith("NotAllowed at line ") and NOT_LOADED in told and told.endswith(CURE), code
    assert given.run("len(globals()['orders_big'])").value == 33_000


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("the newest names and their sizes are found by the database")
def test_what_begins_as_the_code_says_comes_before_what_is_newer(
    given: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MAX_UNNAMED_ARTIFACTS", 10)
    for number in range(14):
        given.process(records(200), tool=f"note_{number}")
    assert ask(given, "[len(globals()[f'orders_{y}']) for y in (2023, 2024)]") == "[3000,2000]"
    assert ask(given, "len([n for n in dir() if n[:4] == 'note'])") == "14"
    assert "is bound, but was not loaded" in mistake(given, "[globals()[n] for n in dir() if n[:3] == 'ord']")


def test_of_an_artifact_with_very_many_names_some_are_given(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_UNNAMED_NAMES", 5)
    session.process({f"part_{n}": records(300) for n in range(9)}, tool="parts")
    assert ask(session, "len([n for n in globals() if n[:4] == 'part'])") == "10"
    listed = ask(session, "[n for n in dir() if n[:4] == 'part']")
    given = [
        n
        for n in json.loads(listed)
        if not session.call("code_interpreter", {"code": f"len(vars()['{n[:3]}' + '{n[3:]}'])"}).is_error
    ]
    assert len(given) == 5


def test_functions_of_earlier_calls_find_them(given: Session) -> None:
    ask(given, "def total():\n    return sum(len(globals().get(f'orders_{y}', [])) for y in (2023, 2024))")
    ask(given, "def load(year):\n    return df(f'orders_{year}')")
    for _ in range(2):
        assert ask(given, "total(), load(2023).shape[0], load(2024).shape[0]") == "[5000,3000,2000]"
    assert NOT_LOADED in mistake(given, "load('big')")


def test_they_are_told_of_as_those_that_are_written(given: Session, engine: Engine) -> None:
    assert ask(given, "globals()[f'orders_{2023}'] = 5\nglobals()[f'orders_{2023}']") == (
        "5\n[orders_2023: assigned for this run only; the stored data is unchanged]"
    )
    assert ask(given, "globals()['orders_' + 'big'] = 6\nglobals()['orders_' + 'big']") == (
        "6\n[orders_big: assigned for this run only; the stored data is unchanged]"
    )
    assert ask(given, "n = len(globals()[f'orders_{2023}'])") == "[kept for later calls: n (integer)]"
    assert ask(given, "x = globals()[f'orders_{2024}']") == (
        "[kept for later calls: x (array(2000) of object(3 keys))]"
    )
    assert ask(given, "orders_2024 is x, len(x)") == "[true,2000]"
    query = select(RunRow.names).where(RunRow.tenant == given.tenant).order_by(RunRow.id)
    runs = engine.database.read(lambda connection: connection.execute(query).scalars().all())
    assert [json.loads(one).get("used", []) for one in runs] == [[], [], [], [], ["orders_2024"]]


def test_changes_in_place_are_told_and_names_keep_them(given: Session) -> None:
    for code in ("globals()[f'orders_{2023}'].append({})", "df(f'orders_{2023}')['id'] = 5"):
        assert ask(given, code) == "[orders_2023: changed for this run only; the stored data is unchanged]", code
    assert "changed" not in ask(given, "globals()[f'orders_{2023}'][:1]")
    given.process([[n] for n in range(400_000)], tool="pairs_1")
    ask(given, "x = globals()[f'pairs_{1}']\nx[0].append(7)")
    assert ask(given, "x[0], len(x), pairs_1[0]") == "[[0,7],400000,[0]]"


def test_what_is_hidden_or_only_a_further_name_is_not_listed(engine: Engine, tenant: str) -> None:
    def get_orders() -> str:
        return "called"

    before = engine.session("chat", tenant=tenant)
    before.process(records(3_000), tool="get_orders")
    before.process(records(3_000), tool="users")
    session = engine.session("chat", tenant=tenant, functions=[get_orders])
    session.store_artifact([1, 2, 3] * 500, name="data")
    ask(session, "kept = [data]")
    session.store_artifact([1], name="data")
    code = "sorted(n for n in dir() if n[0] != '_'), len(kept[0]), 'get_' + 'orders' in globals()"
    assert ask(session, code) == '[["df","kept","users"],1500,false]'


@pytest.mark.slow
def test_only_code_that_computes_names_pays(given: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    sized = variables.sized
    monkeypatch.setattr(variables, "sized", lambda *about: (asked.append(1), sized(*about))[1])
    for code in (
        "1 + 1",
        "len(orders_2023)",
        "'orders_2023' in globals()",
        "globals()['orders_2023'][0]",
        "globals().get('n', 0)",
        "rows = [r for r in orders_2023 if r['id'] > 5]\nprint(f'{len(rows)} rows: {df(rows).shape}')",
        "df(orders_2023).shape",
        "df('orders_2023').eval('id + 1').sum()",
    ):
        assert given.run(code).error is None
        assert asked == [], code
    assert given.run("dir()").error is None
    assert asked


def test_another_process_and_an_interpreter_that_is_sent_the_code(tmp_path: Path, sandbox: Sandbox) -> None:
    class Own:
        def run(self, code: str, *about: Any, **options: Any) -> Outcome:
            return sandbox.run(msgspec.json.decode(msgspec.json.encode(code)), *about, **options)

        jq, pick, render, sql, close = sandbox.jq, sandbox.pick, sandbox.render, sandbox.sql, sandbox.close

    url = f"sqlite:///{tmp_path}/byref.db"
    with Engine(url, interpreter=sandbox) as first:
        session = first.session("chat")
        stock(session)
        ask(session, "def load(year):\n    return df(f'orders_{year}')")
        ask(session, "def total():\n    return sum(len(globals()[f'orders_{y}']) for y in (2023, 2024))")
    with Engine(url, interpreter=Own()) as second:
        session = second.session("chat")
        assert ask(session, "total(), load(2023).shape[0]") == "[5000,3000]"
        assert ask(session, "[len(globals()[f'orders_{y}']) for y in (2023, 2024)]") == "[3000,2000]"
        assert NOT_LOADED in mistake(session, "globals()['orders_' + 'big']")
        assert NOT_LOADED in mistake(session, "load('big')")
