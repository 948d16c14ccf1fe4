"""A session's state under faults: engines at once, processes that are killed while they write, and flipped bits."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from byref import Engine, Session
from byref.db.integrity import examine
from byref.db.tables import NameRow
from byref.interpreter import persistence
from byref_sandbox import Outcome, Sandbox


def ask(session: Session, code: str) -> str:
    return session.call("code_interpreter", {"code": code}).content


MEMBERS = """from contextlib import contextmanager
@contextmanager
def noted(n):
    yield D.seen.append(n)
@dataclasses.dataclass(slots=True)
class D:
    n: int = 1
    seen: typing.ClassVar[list] = []
    made = 3
class C:
    @noted(8)
    def m(self):
        return D.seen"""
"""Classes with members that libraries have made."""


class Overtaken(Sandbox):
    """An interpreter right before whose runs another worker binds names anew, and that has nothing in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.first: list[Callable[[], object]] = []

    def run(self, *arguments: Any, **options: Any) -> Outcome:
        self._overtaken()
        return super().run(*arguments, **options)

    def sql(self, *arguments: Any, **options: Any) -> Outcome:
        self._overtaken()
        return super().sql(*arguments, **options)

    def _overtaken(self) -> None:
        if self.first:
            self.first.pop(0)()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("made", "tool", "asked"),
    [
        ("{{n: (n,) for n in range({0})}}", "code_interpreter", {"code": "len(big)"}),
        ("pd.DataFrame({{'n': range({0})}})", "artifact_sql", {"query": "SELECT count(*) FROM $big"}),
    ],
    ids=["code", "query"],
)
def test_what_another_worker_binds_anew_meanwhile_is_the_new_one(
    shared_url: str, sandbox: Sandbox, made: str, tool: str, asked: dict[str, str]
) -> None:
    with (
        Overtaken() as overtaken,
        Engine(shared_url, interpreter=sandbox) as one,
        Engine(shared_url, interpreter=overtaken) as two,
    ):
        first, second = (engine.session("chat", tools=("code_interpreter", "artifact_sql")) for engine in (one, two))

        def bind(count: int) -> Callable[[], object]:
            return lambda: ask(first, "big = " + made.format(count))

        bind(20_000)()
        overtaken.first = [bind(30_000), bind(25_000)]
        assert second.call(tool, asked).content.splitlines()[-1] == "25000"
        assert not overtaken.first


@pytest.mark.slow
def test_engines_at_once_lose_nothing(shared_url: str, sandbox: Sandbox) -> None:
    """Each binds names of its own and changes one that all have; none of it is lost without a word."""
    with Engine(shared_url, interpreter=sandbox) as first, Engine(shared_url, interpreter=sandbox) as second:
        first.session("shared").run(f"base = [0]\ndef of(n): return n\n{MEMBERS}")

        def work(number: int) -> list[str]:
            session = (first, second)[number % 2].session("shared")
            codes = (f"x{number} = [{number}]\ndef f{number}(): return x{number}", f"y{number} = {{'of': x{number}}}")
            return [ask(session, code) for code in codes]

        with ThreadPoolExecutor(3) as pool:
            replies = list(pool.map(work, range(3)))
        assert not any("Error" in reply for each in replies for reply in each), replies
        # What y1 shares with x1 is a copy where another run has ended meanwhile: each run's names are a snapshot over the others'.
        check = "[[f0(), f1(), f2()], [y0['of'], y1['of'], y2['of']], [x0, x1, x2], base, of(4), C().m(), D.made]"
        assert second.session("shared").run(check).value == [*[[[0], [1], [2]]] * 3, [0], 4, [8], 3]
    assert examine(shared_url, deep=True).problems == ()


def test_runs_at_once_beyond_the_bound_are_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistence, "MAX_SNAPSHOTS", 2)
    session.run("base = 1")
    codes = [f"import time\ntime.sleep(0.5)\ndef f{n}(): return {n}" for n in range(4)]
    with ThreadPoolExecutor() as pool:
        assert [one.error for one in pool.map(session.run, codes)] == [None] * 4
    found = [ask(session, f"f{n}()") for n in range(4)]
    there = [n for n in range(4) if found[n] == str(n)]
    assert len(there) >= 2
    assert all("runs at once" in found[n] for n in range(4) if n not in there), found


FLIPPED = (
    "x = [1]\ny = {'x': x}\ndef f(): return x\nbig = list(range(60_000))\nt = pd.DataFrame({'n': range(3_000)})\n"
    + MEMBERS
    + "\n7"
)
LOOK = "[f() is y['x'], x, sum(big), int(t.n.sum()), C().m()[0], D.made, _]"
SEEN = "[true,[1],1799970000,4498500,8,3,7]"


@pytest.mark.slow
def test_flipped_bits_are_told(session: Session, engine: Engine, sandbox: Sandbox) -> None:
    """In any stored part: what code gives is right, or the reply says what is lost, or why a name is not there."""
    ask(session, FLIPPED)
    assert ask(session, LOOK) == SEEN
    ask(session, "7")  # LOOK has changed the last value
    mine = NameRow.tenant == session.tenant
    query = select(NameRow.id, NameRow.name, NameRow.data).where(mine, NameRow.kind == "state")
    rows = engine.database.read(lambda connection: connection.execute(query).all())
    assert len(rows) >= 4
    chance = random.Random(5)

    def put(row_id: int, data: bytes) -> None:
        statement = update(NameRow).where(NameRow.id == row_id).values(data=data)
        engine.database.write(lambda connection: connection.execute(statement))

    for number in range(len(rows)):
        rows = engine.database.read(lambda connection: connection.execute(query).all())
        row = rows[number % len(rows)]
        data = bytes(row.data)
        place = chance.randrange(len(data))
        put(row.id, data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :])
        sandbox._forget_sessions()
        content = ask(session, LOOK.replace("_]", "'_' in globals() and _]"))
        is_right = content.startswith((SEEN, SEEN.replace(",7]", ",false]")))
        assert is_right or "lost" in content or "Error" in content, (row.name, content)
        ask(session, FLIPPED)


WRITER = """
import sys
from byref import Engine
with Engine(sys.argv[1]) as engine:
    session = engine.session("chat")
    session.run("if 'n' not in globals():\\n    n, xs, pad = 0, [], list(range(30_000))\\n    def count(): return n")
    print("ready", flush=True)
    while True:
        session.run("n += 1\\nxs.append(n)\\npad[0] = n\\nseen = xs")
        print("done", flush=True)
"""


@pytest.mark.slow
def test_a_session_is_whole_after_its_writer_was_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/killed.db"
    chance = random.Random(3)
    for _ in range(6):
        command = [sys.executable, "-c", WRITER, url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0.05, 1.0))
            process.kill()
            done = process.stdout.read().count(b"done")
        with Engine(url) as engine:
            session = engine.session("chat")
            n, entries, length, first, is_same = session.run(
                "[n, count(), len(xs), pad[0], seen is xs if n else True]"
            ).value
            assert (entries, length, first, is_same) == (n, n, n, True) and n >= done
        assert examine(url, deep=True).problems == ()
