"""What code bound is there in the next run, as it was."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from remembered import Session
from sampled import sampled

from byref_sandbox import EXACT, Data, Limits, Outcome, Sandbox, Snapshot, State
from byref_sandbox.contents import (
    NO_VERSIONS,
    Contents,
    Last,
    decode_contents,
    decode_last,
    encode_contents,
    encode_last,
)
from byref_sandbox.outcome import FOREIGN_STATE

Chain = Callable[..., Outcome]


@pytest.fixture(params=[None, "state"])
def chain(sandbox: Sandbox, request: pytest.FixtureRequest) -> Chain:
    """Runs code after code, each with what those before it left."""
    session = Session(sandbox, request.param)
    return lambda code, **variables: session.run(code, variables)


def test_values_come_back_with_their_types(chain: Chain) -> None:
    chain(
        "import decimal, datetime, collections\ns = {1, 2}\nt = (1, [2])\nd = decimal.Decimal('1.10')\n"
        "day = datetime.date(2024, 1, 31)\nn = float('nan')\nc = collections.Counter('aab')\nk = {1: 'a'}"
    )
    outcome = chain("[s == {1, 2}, t, str(d * 2), day.year, n != n, c.most_common(1), k[1], type(c).__name__]")
    assert outcome.value == [True, [1, [2]], "2.20", 2024, True, [["a", 2]], "a", "Counter"]


def test_tables_come_back_with_their_types(chain: Chain) -> None:
    chain(
        "frame = pd.DataFrame({'d': pd.to_datetime(['2024-01-01']), 'c': pd.Categorical(['x']), 'i': pd.array([None], 'Int64'),"
        " 'o': [{'a': 1}]}, index=pd.Index(['r'], name='row'))\nseries = frame['d']\narray = np.arange(3, dtype='int8')"
    )
    outcome = chain(
        "[frame.dtypes.astype(str).tolist(), frame.index.name, frame.o['r'], series.dt.year['r'], str(array.dtype)]"
    )
    assert outcome.error is None, outcome.error
    assert outcome.value[0][1:] == ["category", "Int64", "object"]
    assert outcome.value[0][0].startswith("datetime64")
    assert outcome.value[1:] == ["row", {"a": 1}, 2024, "int8"]


def test_definitions_come_back(chain: Chain) -> None:
    outcome = chain(
        """
import statistics as st
from functools import partial, lru_cache
from dataclasses import dataclass
FACTOR = 3
def outer(f):
    def inner(*a):
        return f(*a) + 1
    return inner
@outer
def plus(x): return x
def scaled(x, by=2): return helper(x) * by * FACTOR
def helper(x): return st.mean([x, x])
square = lambda v: v * v
triple = partial(scaled, by=3)
add_one = outer(lambda x: x)
@lru_cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
@dataclass
class Point:
    x: int
    def doubled(self): return Point(self.x * 2)
class Child(Point): pass
if True:
    def inside(): return 'inside'
"""
    )
    assert outcome.error is None
    assert outcome.unkept == {}
    assert {name for name, what in outcome.named.items() if what == "class"} == {"Point", "Child"}
    outcome = chain(
        "[plus(1), scaled(1), square(4), triple(1), fib(30), Child(2).doubled().x, inside(), st.median([1, 3]), add_one(1)]"
    )
    assert outcome.error is None, outcome.error
    assert outcome.value == [2, 6, 16, 9, 832040, 4, "inside", 2, 2]
    assert outcome.named == {}
    assert chain("Child(1)").error is None


def test_a_definition_finds_the_variables_it_names(chain: Chain) -> None:
    chain("def total(): return sum(r['n'] for r in rows)\ndef table(): return df('rows')['n'].max()")
    rows = Data("state rows", lambda: json.dumps([{"n": 1}, {"n": 2}]).encode())
    assert chain("[total(), table()]", rows=rows).value == [3, 2]


def test_names_bound_before_an_error_are_kept(chain: Chain) -> None:
    outcome = chain("before = 1\ndef f(): return before\n1 / 0\nafter = 2")
    assert outcome.error.kind == "ZeroDivisionError"
    assert chain("before + f()").value == 2
    missing = chain("after")
    assert missing.error.kind == "NameError"


def test_an_error_in_an_earlier_definition_points_at_its_call(chain: Chain) -> None:
    chain("def f(x):\n    y = 1\n    return y / x")
    outcome = chain("a = 1\nf(0)")
    assert (outcome.error.kind, outcome.error.line) == ("ZeroDivisionError", 2)


def test_definitions_of_another_version_are_defined_again(sandbox: Sandbox) -> None:
    """Each for itself, and under the same language."""
    sources = {
        "good": "def good(): return 1",
        "bad": "def bad(x=nowhere): return x",
        "worse": "import socket as worse",
        "m": "import math as m",
        "bases": "bases = ().__class__.__bases__",
        "file": "file = open('/etc/passwd')",
    }
    programs = {name.encode(): source for name, source in sources.items()}
    contents = encode_contents(Contents(NO_VERSIONS, [], programs, {name: name.encode() for name in sources}))
    state = State((Snapshot(contents),))
    assert sandbox.run("good()", state=state).error.kind == FOREIGN_STATE  # before the host has said that it knows
    foreign = replace(state, is_foreign=True)
    outcome = sandbox.run("[good(), m.sqrt(4)]", state=foreign)
    assert outcome.value == [1, 2.0]
    assert outcome.missed.keys() == {"bad", "worse", "bases", "file"}
    for name in ("bad", "worse", "bases", "file"):
        assert sandbox.run(name, state=foreign).error.kind == "NameError"
    assert sandbox.run("good()", state=State((Snapshot(outcome.contents),), outcome.blobs)).value == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = pd.DataFrame().iterrows()", "a generator of a library"),
        ("def f():\n    yield 1\n    yield 2\nx = f()\nnext(x)", "a generator that has begun"),
        ("x = [n for n in [iter({1: 2})]]", "an open iterator"),
        ("x = [open('a', 'w')]", "an open file"),
        ("import itertools\nx = itertools.cycle(range(10**9))", "a cycle of 10,000 items or more"),
    ],
)
def test_what_could_not_be_kept_is_named(sandbox: Sandbox, code: str, reason: str) -> None:
    outcome = sandbox.run(code)
    assert outcome.error is None
    assert reason in outcome.unkept["x"]


def test_what_a_library_is_loaded_with_is_no_setting_of_the_code(chain: Chain) -> None:
    """Settings are read before any code of the session."""
    assert decode_contents(chain("import matplotlib\nx = 1").contents).settings() == frozenset()
    changed = chain("matplotlib.rcParams['lines.linewidth'] = 3").contents
    assert decode_contents(changed).settings() == {".settings.matplotlib"}


def test_a_file_that_is_read_goes_on_where_it_was(chain: Chain) -> None:
    code = "with open('a.txt', 'w') as file:\n    file.write('1\\r\\n2\\n3\\n')\ntext, data, ends = open('a.txt'), open('a.txt', 'rb'), open('a.txt', newline='')\n"
    outcome = chain(f"{code}held = [file]\ntext.readline(), data.read(2), ends.readline()")
    assert (outcome.error, outcome.unkept) == (None, {})
    assert "file" not in outcome.named  # each `with` leaves one
    code = "[text.readline(), data.read().decode(), [*ends], text.name, data.mode, text.encoding, held[0].closed]"
    assert chain(code).value == ["2\n", "\n2\n3\n", ["2\n", "3\n"], "a.txt", "rb", "utf-8", True]
    assert chain("text.read()").value == "3\n"


def test_a_run_that_was_stopped_says_that_its_names_are_gone(sandbox: Sandbox) -> None:
    outcome = sandbox.run("x = [1]\nwhile True: pass", limits=Limits(cpu_seconds=0.3, wall_seconds=5))
    assert outcome.error.kind == "CpuLimit"
    assert outcome.unkept == {"x": "the run was stopped"}


@pytest.mark.slow
def test_a_table_too_big_for_json_is_kept_all_the_same(chain: Chain) -> None:
    outcome = chain("big = pd.DataFrame({'n': range(300_000), 's': ['x'] * 300_000})\nbig")
    assert (outcome.bound["big"].data, outcome.bound["big"].shape) == (b"", "DataFrame of 300,000 rows and 2 columns")
    assert outcome.text.startswith("300,000 rows × 2 columns; first 10 and last 10 rows shown\n")
    assert chain("[len(big), int(big.n.max())]").value == [300_000, 299_999]


def test_a_value_too_big_for_json_is_a_table_still(sandbox: Sandbox) -> None:
    outcome = sandbox.run("pd.DataFrame({c: range(300_000) for c in 'abcdefgh'})")
    assert (outcome.kind, outcome.value, outcome.is_partial) == ("dataframe", None, True)
    again = sandbox.run("t.shape", {"t": Data("big value", lambda: outcome.exact, EXACT)})
    assert again.value == [300_000, 8]


def test_kept_bytes_that_no_run_wrote_are_an_error(sandbox: Sandbox) -> None:
    for session in (None, "forged"):
        outcome = sandbox.run("x", {"x": Data("forged", lambda: b"\x91\xa3foo", EXACT)}, session=session)
        assert outcome.error.message.startswith("variable 'x' could not be read: no kept value")


RECORDS = json.dumps([{"id": 1, "day": "2024-01-02"}, {"id": 2, "day": "2024-03-04"}]).encode()


@pytest.mark.parametrize("session", [None, "lazy tables"])
@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("df('rows')['day'].dt.month.tolist()", [1, 3]),
        ("df(rows)['day'].dt.month.tolist()", [1, 3]),
        ("rows[0]['day']", "2024-01-02"),
        ("[df(rows).shape, rows[0]['day']]", [[2, 2], "2024-01-02"]),
        ("[df(n).shape[0] for n in ('rows', 'rows')]", [2, 2]),
        ("df = df(rows)\ndf['id'].sum()", 3),
        ("rows = df(rows)\nlen(rows)", 2),
        ("def f(df): return df\nf(rows)[0]['id']", 1),
        ("df('rows').loc[0, 'id'] = 9\n[rows[0]['id'], int(df('rows')['id'].sum())]", [1, 11]),
        ("[r for r in [rows]][0] is rows", True),
        ("pd.DataFrame(rows)['day'].tolist()[0]", "2024-01-02"),
    ],
)
def test_values_and_tables_of_the_same_data(sandbox: Sandbox, code: str, value: object, session: str | None) -> None:
    outcome = sandbox.run(code, {"rows": Data(f"lazy {code}", lambda: RECORDS)}, session=session)
    assert outcome.error is None, outcome.error
    assert outcome.value == value


def test_data_is_read_again_only_for_what_is_not_there(sandbox: Sandbox) -> None:
    loads: list[int] = []

    def load() -> bytes:
        loads.append(1)
        return RECORDS

    variables = {"rows": Data("counted", load)}
    for code, count in (
        ("df(rows).shape", 1),
        ("df('rows').shape", 1),
        ("len(rows)", 2),
        ("df(rows).shape", 2),
        ("rows[0]", 2),
    ):
        assert sandbox.run(code, variables, session="counted").error is None
        assert len(loads) == count, code


def test_a_large_name_may_be_all_there_is(chain: Chain) -> None:
    chain("big = list(range(100_000))")
    assert chain("nowhere").error.kind == "NameError"
    assert chain("len(big)").value == 100_000


def test_deleted_names_are_told(chain: Chain) -> None:
    chain("x = 1\ny = 2\ndef f(): return 3")
    assert chain("del x, f\nz = 1\ndel z").unkept == {"x": "deleted by the code", "f": "deleted by the code"}
    assert chain("del y\n1 / 0").unkept == {"y": "deleted by the code"}


def test_what_there_is_no_memory_to_write_down_is_named_and_the_rest_is_kept(sandbox: Sandbox) -> None:
    outcome = sandbox.run("y = 1\nx = bytes(300 << 20)\nlen(x)", limits=Limits(memory_bytes=512 << 20))
    assert (outcome.error, outcome.value, list(outcome.bound)) == (None, 300 << 20, ["y"])
    assert outcome.unkept == {"x": "too big: more than the 67,108,864 bytes that are kept between two runs"}
    shown = sandbox.run("y = 1\nx = bytes(300 << 20)\nx", limits=Limits(memory_bytes=512 << 20))
    assert (shown.error.kind, list(shown.bound), list(shown.unkept)) == ("MemoryLimit", ["y"], ["x"])


def test_random_numbers_and_patterns_go_on(chain: Chain) -> None:
    chain("rng = np.random.default_rng(7)\nfirst = rng.integers(0, 10**9)\npat = re.compile('a+', re.I)")
    wanted = chain("r = np.random.default_rng(7)\nr.integers(0, 10**9)\nr.integers(0, 10**9, 3).tolist()").value
    assert chain("[rng.integers(0, 10**9, 3).tolist(), pat.findall('xAa')]").value == [wanted, ["Aa"]]


LAST = [
    # Codes, each with what it gives, or a word of why the last value is not there.
    (
        ("41 + 1", 42),
        ("_ + 1", 43),
        ("x = 5", None),
        ("_ + x", 48),
        ("print(_)", None),
        ("1 / 0", "division"),
        ("_", 48),
    ),
    (("[1, 2]", [1, 2]), ("_.append(3)", None), ("_", [1, 2, 3]), ("sum(_)", 6)),
    (
        ("for _ in range(3): pass\n_", 2),
        ("'other'", "other"),
        ("_", 2),
        ("del _", None),
        ("_", "not defined"),
        ("7", 7),
        ("_", 7),
    ),
    (("pd.Series([3, 1], index=['a', 'b'])", {"a": 3, "b": 1}), ("_.sort_values().index[0]", "b"), ("_", "b")),
    (("9", 9), ("_ = 4", None), ("_", 4), ("8", 8), ("_", 4)),
    (("9", 9), ("del _", None), ("_", "not defined")),
    (("t = pd.DataFrame({'a': range(90_000)})\nt.head(2).a", [0, 1]), ("len(_)", 2)),
    (("x = [1]\nx", [1]), ("_", "the value of x: use that")),
    (("x = {'a': [1]}\nx['a']", [1]), ("_", "part of a value that has a name: give it a name")),
    (("x = [1]\n{'a': x}", {"a": [1]}), ("_", "shares the value of x")),
    (("x = np.arange(5)\nx[1:3]", [1, 2]), ("_", "shares the value of x")),
    (("class C:\n    def __repr__(self): return 'C'\nC()", "C"), ("_", "classes of the code")),
    (("'a' * 70_000 + 'b'", "a" * 70_000 + "b"), ("len(_)", "too big")),
    (("5", 5), ("globals()['_']", 5), ("def f(): return _\nf()", 5)),
    (("orders[0]", {"id": 1}), ("_['id']", 1), ("orders", [{"id": 1}]), ("len(_)", 1)),
]


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    "cells",
    sampled([(cells,) for cells in LAST], 2),
    ids=[cells[-1][0] + " after " + cells[0][0][:40] for cells in LAST],
)
def test_the_last_value_is_there_in_the_next_run(chain: Chain, cells: tuple[tuple[str, object], ...]) -> None:
    for code, wanted in cells:
        outcome = chain(code, orders=[{"id": 1}])
        if outcome.error is not None:
            assert str(wanted) in f"{outcome.error.message} {outcome.error.hint}", code
        else:
            assert outcome.value == wanted, code
        assert "_" not in {**outcome.bound, **outcome.missed}
        assert outcome.unkept.get("_") in (None, "deleted by the code")


def test_the_last_value_of_another_version_or_a_damaged_one_is_told(sandbox: Sandbox) -> None:
    session = Session(sandbox)
    session.run("42")
    for last, why in (
        (encode_last(Last(NO_VERSIONS, "", b"N.", 1)), "another version"),
        (session.last[:-20] + bytes(20), ""),
        (encode_last(Last(decode_last(session.last).versions, "", b"cos\nsystem\n.", 1)), "could not be kept"),
    ):
        try:
            outcome = sandbox.run("_", state=State((), last=last))
        except ValueError:
            continue
        assert outcome.error.kind == "NameError" and why in outcome.error.hint


def test_loggers_go_on(chain: Chain) -> None:
    chain(
        "import logging\nlogging.basicConfig(level=logging.INFO, format='%(levelname)s %(message)s')\n"
        "lines = []\nclass Lines(logging.Handler):\n    def emit(self, record): lines.append(self.format(record))\n"
        "h = Lines()\nh.setFormatter(logging.Formatter('{name}: {message}', style='{'))\n"
        "logger = logging.getLogger('app')\nlogger.addHandler(h)\nlogger.setLevel('DEBUG')\nlogger.propagate = False"
    )
    outcome = chain(
        "logger.debug('a')\nlogging.info('b')\n[lines, logging.getLogger('app') is logger, h in logger.handlers]"
    )
    assert outcome.error is None, outcome.error
    assert (outcome.value, outcome.stdout) == ([["app: a"], True, True], "INFO b\n")
    assert chain("logging.getLogger('app').info('c')\nlines").value == ["app: a", "app: c"]


def test_a_formatter_of_an_earlier_run_reads_no_attributes(chain: Chain) -> None:
    code = "import logging\nclass F(logging.Formatter): pass\nf = F('%(message)s')\nf._given = ('{message.__class__}', None, '{', True, None)"
    chain(code)
    outcome = chain("record = logging.LogRecord('n', 20, 'p', 0, 'm', None, None)\nf.format(record)")
    assert outcome.error.kind == "NotAllowed"


def test_a_name_for_one_record_of_many_takes_no_memory_for_the_others(sandbox: Sandbox) -> None:
    """The record is looked for among all, as its place is kept and not its copy."""
    session = Session(sandbox, "many")
    orders = Data("orders", lambda: json.dumps([{"id": number, "s": "x"} for number in range(200_000)]).encode())
    outcome = session.run("for order in orders:\n    pass\norder['id']", {"orders": orders})
    assert outcome.value == 199_999, outcome.error
    assert session.value("order is orders[-1]", {"orders": orders}) is True
    if sys.version_info < (3, 14):  # from there on the collector does not tell what holds texts and numbers alone
        assert outcome.usage.peak_bytes < 20_000_000
