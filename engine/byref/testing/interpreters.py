"""The contract of `Interpreter` as tests, which an author of an interpreter runs on it; needs pytest::

    @pytest.fixture(scope="module")
    def mine():
        with MyInterpreter() as interpreter:
            yield interpreter

    class TestMyInterpreter(InterpreterContract):
        @pytest.fixture
        def interpreter(self, mine):
            return mine

Code may be run by processes that are started for it, so tests take seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from byref.engine import Engine
from byref.policy import Policy
from byref.session import Session
from byref_sandbox import Interpreter, Limits

ROWS: Final = [{"id": number, "city": f"city {number % 7}", "total": number / 4} for number in range(2_000)]
LIMITS: Final = Limits(wall_seconds=10, cpu_seconds=1, memory_bytes=512 << 20)
END_SECONDS: Final = 30.0
"""Seconds within which a run has ended that uses up its limits."""
REACHING: Final = {
    "a file": "open('/etc/passwd').read()",
    "a socket": "import socket\nsocket.socket()",
    "a process": "import os\nos.system('true')",
    "the interpreter's classes": "().__class__.__base__.__subclasses__()",
    "an import by name": "__import__('subprocess')",
}
MISTAKES: Final = {
    "1 / 0": "ZeroDivisionError",
    "nothing_of_the_kind": "NameError",
    "rows[2_000]": "IndexError",
    "if:": "SyntaxError",
    "raise KeyError('x')": "KeyError",
}


class InterpreterContract:
    """What every interpreter keeps to, with an engine and without."""

    @pytest.fixture
    def interpreter(self) -> Interpreter:
        """The interpreter to be tested."""
        raise NotImplementedError("a test of an interpreter has a fixture `interpreter`")

    @pytest.fixture
    def engine(self, interpreter: Interpreter, tmp_path: Path) -> Iterator[Engine]:
        with Engine(f"sqlite:///{tmp_path}/contract.db", interpreter=interpreter) as engine:
            yield engine

    @pytest.fixture
    def session(self, engine: Engine) -> Session:
        session = engine.session("one", policy=Policy(run_cpu_seconds=1, run_seconds=10))
        session.process(ROWS, tool="rows")
        return session

    def test_it_is_one(self, interpreter: Interpreter) -> None:
        assert isinstance(interpreter, Interpreter)

    def test_code_works_on_the_data(self, session: Session) -> None:
        assert session.run("len(rows), rows[1]['city'], sum(row['total'] for row in rows)").value == [
            2_000,
            "city 1",
            499_750,
        ]
        assert session.run("df('rows').groupby('city').id.count().to_dict()['city 3']").value == 286

    def test_names_stay_from_run_to_run(self, session: Session) -> None:
        assert session.run("seen, table = {1, 2}, df('rows').head(3)\ndef double(x):\n    return 2 * x").error is None
        assert session.run("seen.add(double(3))\nsorted(seen), list(table.id)").value == [[1, 2, 6], [0, 1, 2]]
        assert session.run("6 in seen").value is True

    def test_names_are_not_another_sessions(self, engine: Engine, session: Session) -> None:
        session.run("secret = 'mine'")
        found = engine.session("two").run("secret").error
        assert found is not None and found.kind == "NameError"

    @pytest.mark.parametrize(("code", "kind"), MISTAKES.items(), ids=MISTAKES.values())
    def test_a_mistake_is_the_outcomes_error(self, session: Session, code: str, kind: str) -> None:
        outcome = session.run(code)
        assert outcome.error is not None and outcome.error.kind == kind
        assert session.run("len(rows)").value == 2_000

    def test_what_is_printed_comes_apart_from_the_value(self, session: Session) -> None:
        outcome = session.run("print('seen')\n2**70")
        assert (outcome.stdout, outcome.value) == ("seen\n", 2**70)

    @pytest.mark.parametrize("code", REACHING.values(), ids=REACHING)
    def test_code_reaches_nothing_of_the_machine(self, session: Session, code: str) -> None:
        assert session.run(code).error is not None

    @pytest.mark.parametrize("code", ["while True: pass", "x = 'x'\nwhile True: x += x"], ids=["time", "memory"])
    def test_a_run_without_end_ends_and_the_next_one_works(self, session: Session, code: str) -> None:
        began = time.perf_counter()
        assert session.run(code).error is not None
        assert time.perf_counter() - began < END_SECONDS
        assert session.run("len(rows)").value == 2_000

    def test_what_it_is_given_is_not_changed(self, interpreter: Interpreter) -> None:
        rows = [{"id": 1}]
        outcome = interpreter.run("rows.append(2)\nrows[0]['id'] = 3\nlen(rows)", {"rows": rows}, limits=LIMITS)
        assert outcome.value == 2 and rows == [{"id": 1}]

    def test_runs_at_once_are_apart(self, interpreter: Interpreter) -> None:
        def run(number: int) -> Any:
            code = "total = 0\nfor _ in range(1000):\n    total += n\ntotal"
            return interpreter.run(code, {"n": number}, session=f"at once {number}", limits=LIMITS).value

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(run, range(8))) == [1000 * number for number in range(8)]

    def test_jq_and_templates(self, interpreter: Interpreter) -> None:
        assert interpreter.jq("map(.id) | add", ROWS, limits=LIMITS).outputs == (b"1999000",)
        for fault in ("error(1)", "def f: f; f", ".["):
            assert interpreter.jq(fault, ROWS, limits=LIMITS).error is not None
        assert interpreter.render("{{ city }} {{ total }}", ROWS[2], limits=LIMITS).text == "city 2 0.5"
        assert interpreter.render("{{ 1 / 0 }}", {}, limits=LIMITS).error is not None
