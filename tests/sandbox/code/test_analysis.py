"""What is found in code before it runs: names with and without dollars, tables; and no code harms the host."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import time

import pytest

from byref_sandbox.code.analysis import Analysed, Uses
from byref_sandbox.code.source import strip_dollars


@pytest.mark.parametrize(
    ("code", "stripped"),
    [
        ("$users", "users"),
        ("len($users)+$n", "len(users)+n"),
        ('"$users"', '"$users"'),
        ("# $users\n$x", "# $users\nx"),
        ('f"{$users} $users {{$a}}"', 'f"{users} $users {{$a}}"'),
        ("f'''\n{$a['$b']}\n'''", "f'''\n{a['$b']}\n'''"),
        ('"""\n$a\n"""\n$b', '"""\n$a\n"""\nb'),
        ("r'$\\d'", "r'$\\d'"),
        ("x = $a\n\n\ny = $b", "x = a\n\n\ny = b"),
        ("'\u2028$a' + $b", "'\u2028$a' + b"),
        ("$", "$"),
        ("a $ b", "a $ b"),
        ("$é + $_x1", "é + _x1"),
        ("'unclosed $a\n$b", None),
        ("($a", None),
        ("no dollars", "no dollars"),
    ],
)
def test_dollars_are_stripped_outside_strings(code: str, stripped: str | None) -> None:
    got = strip_dollars(code)
    assert got.count("\n") == code.count("\n")
    if stripped is not None:
        assert got == stripped


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("sum(u['age'] for u in users)", {"users"}),
        ("f'{users[0]} {$orders!r:>{width}}'", {"users", "orders", "width"}),
        ("(lambda: users)()", {"users"}),
        ("df('users').merge(df(\"orders\"))", {"df", "users", "orders"}),
        ("frame.query('a > @limit and b < @ other')", {"frame", "limit", "other"}),
        ("q = f'a > @limit'\nframe.query(q)", {"limit"}),
        ("'{users}'.format(**locals())", {"users"}),
        ("globals()['orders']", {"orders"}),
        ("match x:\n    case Point(y): y", {"x", "Point"}),
        ("def broken(:\n  users", {"users"}),
        ("del users", {"users"}),
        ("x += 1", {"x"}),
        ("df($name)", {"name"}),
    ],
)
def test_names_are_a_superset_of_what_is_read(code: str, names: set[str]) -> None:
    assert names <= Analysed(code).uses.names


@pytest.mark.parametrize(
    "code",
    [
        "globals()[f'orders_{y}']",
        "'orders' in globals() and globals()[name]",
        "dir()",
        "vars()",
        "list(map(eval, names))",
        "space = locals",
        "df(f'orders_{y}')",
        "df('orders_%d' % y)",
        "name = 'orders_' + y\ndf(name)",
        "def load(name): return df(name)\nload('{}_orders'.format(y))",
        "[df(n) for n in [f'orders_{y}' for y in (1, 2)]]",
    ],
)
def test_code_that_may_read_data_by_a_name_that_it_computes(code: str) -> None:
    assert Analysed(code).uses.may_read_any


@pytest.mark.parametrize(
    "code",
    [
        "len(orders)",
        "'orders' in globals() and globals()['orders']",
        "globals().get('n', 0)",
        "vars(thing), dir(thing)",
        "frame.eval('a + b')",
        "df(orders), df('orders'), df([1]), df([r for r in orders])",
        "rows = orders[:5]\nprint(f'{len(rows)} rows')\ndf(rows)",
        "for n in ('a', 'b'): df(n)",
        "f'orders_{y}'",
        "df(orders)\nf'orders_{y}'",
        "globals( broken",
    ],
)
def test_other_code_needs_only_what_it_names(code: str) -> None:
    assert not Analysed(code).uses.may_read_any


def test_strings_are_no_names() -> None:
    assert "users" not in Analysed("print('all users')").uses.names


@pytest.mark.parametrize(
    "code",
    [
        "(" * 100_000,
        "(" * 50_000 + "users" + ")" * 50_000,
        "-" * 100_000 + "users",
        "not " * 25_000 + "users",
        "x" + ".a" * 50_000 + "+users",
        "x" + "()" * 50_000 + "+users",
        "[" * 95 + "users" + "]" * 95,
        "lambda: " * 10_000 + "users",
        "1 if users else " * 10_000 + "1",
        "users\0",
        "f'" + "{" * 50_000 + "users",
        "$" * 100_000 + "users",
        "'" * 99_999 + "users",
        "users\n" + " " * 100_000,
        "if 1:\n" * 200 + "users",
        "users\udcff",
        "users + " * 10_000 + "1",
        "x = '''" + "$a " * 30_000 + "''' + users",
    ],
)
def test_hostile_code_is_read_without_harm(code: str) -> None:
    started = time.process_time()
    strip_dollars(code)
    assert "users" in Analysed(code).uses.names or "users" not in code
    assert time.process_time() - started < 5


@pytest.mark.slow
def test_many_dollars_in_one_line_take_linear_time() -> None:
    started = time.process_time()
    assert strip_dollars("$a, " * 100_000) == "a, " * 100_000
    assert strip_dollars("f'" + "{$a}" * 100_000 + "'") == "f'" + "{a}" * 100_000 + "'"
    assert time.process_time() - started < 4


def test_the_host_side_imports_nothing_heavy() -> None:
    heavy = "{'pandas', 'numpy', 'RestrictedPython', 'pyarrow'}"
    code = f"import sys, byref_sandbox.code.analysis; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("code", "tables", "only"),
    [
        ("df('a')", {"a"}, {"a"}),
        ("df(a)", {"a"}, {"a"}),
        ("df($a).shape, len(a)", {"a"}, set()),
        ("df('a').query('x > @a')", {"a"}, {"a"}),
        ("for name in ('a', 'b'): df(name)", {"a", "b", "name"}, {"name"}),
        ("df('a' + 'b')", {"a", "b"}, set()),
        ("df('a'); globals()", {"a"}, set()),
        ("def f(df): return df('a')", {"a"}, set()),
        ("a = 1", set(), set()),
    ],
)
def test_tables_are_told_from_values(code: str, tables: set[str], only: set[str]) -> None:
    uses = Analysed(code).uses
    assert (uses.tables, uses.only_tables) == (tables, only)


@pytest.mark.parametrize(
    ("code", "only", "looked_at"),
    [
        ("pd.DataFrame(a)", {"a"}, set()),
        ("import pandas as pd\nb = pd.DataFrame($a)\nb.x", {"a"}, set()),
        ("import pandas\npandas.DataFrame(a)", {"a"}, set()),
        ("from pandas import DataFrame\nDataFrame(a)", {"a"}, set()),
        ("df(a), pd.DataFrame(a)", {"a"}, set()),
        ("df = pd.DataFrame(a)\ndf.x", {"a"}, set()),
        ("a = pd.DataFrame(a).dropna()\na.x, len(a)", {"a"}, set()),
        ("def f(): return pd.DataFrame(a)", {"a"}, set()),
        ("len(a)\npd.DataFrame(a)", set(), {"a"}),
        ("print(a[0].keys(), f'{a[:3]}', type(a[0]['x']))\na[0]\npd.DataFrame(a)", set(), {"a"}),
        ("a = len(a)\na = pd.DataFrame(a)", set(), set()),
        ("for b in c: a = pd.DataFrame(a)", set(), set()),
        ("[pd.DataFrame(a) for a in b]", set(), set()),
        ("a[0]['x'] = 1\npd.DataFrame(a)", set(), set()),
        ("b = a[0]\npd.DataFrame(a)", set(), set()),
        ("print(a.pop())\npd.DataFrame(a)", set(), set()),
        ("print(*a)\npd.DataFrame(a)", set(), set()),
        ("del a[0]\npd.DataFrame(a)", set(), set()),
        ("a[0] == b\npd.DataFrame(a)", set(), set()),
        ("def print(b): b.clear()\nprint(a)\npd.DataFrame(a)", set(), set()),
        ("from b import change as len\nlen(a)\npd.DataFrame(a)", set(), set()),
        ("pd.DataFrame(a, columns=['x'])", set(), set()),
        ("pd.DataFrame(*a)", set(), set()),
        ("pd.DataFrame(a).query('x in @a')", set(), set()),
        ("vars()\npd.DataFrame(a)", set(), set()),
        ("import numpy as pd\npd.DataFrame(a)", set(), set()),
        ("from b import DataFrame\nDataFrame(a)", set(), set()),
        ("def f(pd): return pd.DataFrame(a)", set(), set()),
        ("try: 1\nexcept E as pd: pd.DataFrame(a)", set(), set()),
        ("match b:\n  case {**pd}: pd.DataFrame(a)", set(), set()),
        ("pd.options.future.infer_string = False\npd.DataFrame(a)", set(), set()),
        ("pd.set_option('mode.string_storage', 'python')\npd.DataFrame(a)", set(), set()),
    ],
)
def test_names_that_are_only_made_dataframes_of(code: str, only: set[str], looked_at: set[str]) -> None:
    uses = Analysed(code).uses
    assert (uses.only_constructed, uses.only_looked_at) == (only, looked_at)


def test_what_code_assigns() -> None:
    code = "a = b\nfor c in d: e += 1\ndef f(g): h = 1\nclass I: pass\n[j for j in k]\nimport l"
    assert Analysed(code).uses.assigned == {"a", "c", "e", "f", "g", "h", "I", "j"}
    assert Analysed("def broken(:\n  a = 1").uses.assigned == frozenset()


def test_it_is_a_text_that_travels_without_its_tree() -> None:
    code = Analysed("$a + 1")
    assert code.uses == Uses(frozenset({"a"}), frozenset(), frozenset(), frozenset())
    for other in (pickle.loads(pickle.dumps(code)), copy.deepcopy(code)):
        assert type(other) is Analysed and other == "$a + 1" and not vars(other)
    assert Analysed.of(code) is code and len(pickle.dumps(code)) < 200
