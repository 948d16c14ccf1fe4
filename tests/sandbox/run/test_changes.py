"""What code changes in place of that which earlier runs left comes back as if assigned; what is unchanged does not."""

from __future__ import annotations

import json

import pytest
from remembered import Session

from byref_sandbox import Data, Limits, Outcome, Sandbox
from byref_sandbox.code.inplace import Changed, changed_in_place
from byref_sandbox.code.readonly import is_read_only
from byref_sandbox.outcome import STOPPED

LEFT = """
import datetime
from collections import Counter, defaultdict, deque
plain = [1, {'a': [1]}, 'b']
days = {'a': ['2024-01-02']}
large = [2 ** 70, 1]
seen = {1, 2}
counts = Counter('aab')
pair = ([1], {2})
deep = {'k': [{'s': {1}}]}
found = defaultdict(list, a=[1])
queue = deque([1, 2], 5)
array = np.array([1.0, 2.0])
series = pd.Series([1, 2], index=['x', 'y'])
frame = pd.DataFrame({'n': [2, 1], 's': ['a', None], 'k': pd.Categorical(['x', 'y']), 'o': [[1], {'a': 1}]})
simple = pd.DataFrame({'n': [2, 1], 's': ['a', None], 'd': pd.to_datetime(['2024-01-02', '2024-01-03'])})
numbers = np.random.default_rng(1)
text = 'abc'
number = 5
"""
MORE = "t = 0\nt += 1\n"
"""Code of which its text alone does not say that it changes nothing."""
NAMES = {*"plain days large seen counts pair deep found queue array series frame simple numbers text number".split()}  # noqa: SIM905


@pytest.fixture(scope="module")
def begun(sandbox: Sandbox) -> Session:
    session = Session(sandbox, "changes")
    outcome = session.run(LEFT)
    assert outcome.bound.keys() | outcome.named.keys() >= NAMES, outcome
    return session


@pytest.fixture
def left(begun: Session) -> Session:
    """A session as it is after that."""
    return begun.copy()


RECORDS = json.dumps([{"a": 1, "b": "x"}, {"a": 2, "b": None}]).encode()
GIVEN = {"table": Data("changes table", lambda: RECORDS, frame=True, kept=True)}
"""What is kept as data, and is not in the session's state."""


def changed(left: Session, code: str) -> set[str]:
    outcome = left.run(code, GIVEN)
    assert outcome.error is None, outcome.error
    return {name for name in (*outcome.bound, *outcome.unkept) if name in NAMES | {"table"}}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("plain.append(2)", "plain"),
        ("plain[1]['a'][0] = 2", "plain"),
        ("plain[1] = {'a': [True]}", "plain"),
        ("plain[0] = 1.0", "plain"),
        ("del days['a']", "days"),
        ("days |= {'b': 1}", "days"),
        ("large[0] += 1", "large"),
        ("seen.add(3)", "seen"),
        ("seen.discard(1)\nseen.add(9)", "seen"),
        ("counts.update('b')", "counts"),
        ("counts['a'] -= 1", "counts"),
        ("pair[0].append(5)", "pair"),
        ("deep['k'][0]['s'].add(2)", "deep"),
        ("found['a'].append(2)", "found"),
        ("found['new']", "found"),
        ("queue.rotate()", "queue"),
        ("array[0] = 5", "array"),
        ("series['x'] = 5", "series"),
        ("series.name = 'new'", "series"),
        ("frame['x'] = 1", "frame"),
        ("frame.loc[0, 'n'] = 7", "frame"),
        ("frame.sort_values('n', inplace=True)", "frame"),
        ("frame.columns = list('abcd')", "frame"),
        ("frame['o'].iloc[0].append(2)", "frame"),
        ("df('frame')['x'] = 1", "frame"),
        ("frame.insert(0, 'x', 1)", "frame"),
        ("frame.drop(columns='n', inplace=True)", "frame"),
        ("frame['k'] = frame['k'].cat.rename_categories(['x', 'z'])", "frame"),
        ("simple.loc[1, 's'] = 'b'", "simple"),
        ("simple['n'] = simple['n'].astype('int32')", "simple"),
        ("simple['d'] = simple['d'].dt.as_unit('ms')", "simple"),
        ("simple.index = [1, 2]", "simple"),
        ("simple.columns.name = 'new'", "simple"),
        ("table.loc[0, 'a'] = 5", "table"),
        ("table['b'] = table['b'].fillna('')", "table"),
        ("import heapq\nheapq.heappush(plain[1]['a'], 0)", "plain"),
        ("import random\nrandom.seed(1)\nrandom.shuffle(frame['o'].iloc[1].setdefault('l', [1]))", "frame"),
        ("other = plain\nother.append(1)", "plain"),
        ("for one in [plain, days]:\n    one.clear()", "plain days"),
        ("def clear(x):\n    x.clear()\nclear(seen)\nclear(deep['k'])", "seen deep"),
        ("[each.append(0) for each in (plain, pair[0])]", "plain pair"),
        ("list(map(lambda x: x.popitem(), [days, counts]))", "days counts"),
    ],
)
def test_what_changes_comes_back(left: Session, code: str, names: str) -> None:
    assert changed(left, code) == set(names.split())


@pytest.mark.parametrize("before", ["", MORE])
@pytest.mark.parametrize(
    "code",
    [
        " + ".join(f"len(str({name}))" for name in sorted(NAMES | {"table"})),
        "[frame.groupby('n')['n'].sum(), frame.sort_values('n'), table.groupby('b').sum(), series.sum(), found.get('c')]",
        "frame.copy().rename(columns={'n': 'm'}), list(seen), dict(days), sorted(plain[1]), counts.most_common(1)",
    ],
)
def test_what_is_only_read_does_not(left: Session, before: str, code: str) -> None:
    assert changed(left, before + code) == set()


@pytest.mark.parametrize(
    ("code", "look"),
    [
        ("plain[1]['a'] = (1,)", "plain[1]['a'] == (1,)"),
        ("days['a'][0] = datetime.date(2024, 1, 2)", "days['a'][0].day == 2"),
        ("old = numbers.random()", "numbers.random() != old == np.random.default_rng(1).random()"),
    ],
)
def test_what_only_code_sees_is_kept_and_not_told(left: Session, code: str, look: str) -> None:
    """Its JSON is what it was."""
    assert changed(left, code) == set()
    assert left.value(look) is True


def test_what_is_changed_and_changed_back_does_not(left: Session) -> None:
    """And the order of a set is that of the process that wrote it."""
    left.run("words = {f'word {number}' for number in range(300)}")
    code = "plain.append(1)\nplain.pop()\nframe['x'] = 1\ndel frame['x']\nt = len(words)\nt += 1"
    assert changed(left, code) == set()


def test_what_is_not_of_runs_is_not_looked_at(sandbox: Sandbox) -> None:
    outcome = sandbox.run("given.append(1)\nstored.append(1)", {"given": [1], "stored": Data("stored", lambda: b"[1]")})
    assert (outcome.error, outcome.bound) == (None, {})


def test_a_changed_value_is_all_that_comes_back(left: Session) -> None:
    outcome = left.run("further = plain\nplain.append(seen)\nplain = 1\ndel seen, days")
    assert outcome.bound["plain"].data == b"1"
    assert outcome.bound["further"].data == b'[1,{"a":[1]},"b",[1,2]]'
    assert outcome.unkept.keys() == {"seen", "days"}


@pytest.mark.slow
def test_what_cannot_be_kept_any_more_is_named(left: Session) -> None:
    outcome = left.run("plain.append(pd.DataFrame().iterrows())\npair[0].append(lambda: 1)\ndays['b'] = days")
    assert outcome.bound == {}
    assert outcome.unkept == {"plain": "a generator of a library: make a list of it"}
    assert outcome.named == {"pair": "tuple", "days": "dict"}  # which are no JSON
    assert left.value("[pair[0][-1](), days['b'] is days]") == [1, True]


def test_why_an_array_of_numpys_strings_is_not_kept(left: Session) -> None:
    outcome = left.run("texts = np.array(['a', 'bb'], dtype=np.dtypes.StringDType())\nkept = texts.astype(object)")
    assert outcome.unkept == {"texts": "an array of numpy's StringDType: array.astype(object) is kept"}


def test_changes_before_an_error_come_back(left: Session) -> None:
    outcome = left.run("plain.append(2)\nseen.add(3)\n1 / 0\ndays.clear()")
    assert outcome.error is not None
    assert outcome.bound.keys() == {"plain", "seen"}


@pytest.mark.parametrize(
    "source",
    [
        "def add():\n    frame['x'] = 1\n    plain.append(1)",
        "class Adder:\n    def __call__(self):\n        plain.append(1)",
    ],
)
def test_definitions_of_earlier_runs_change_it(left: Session, source: str) -> None:
    call = "add()" if "add" in source else "Adder()()"
    left.run(source)
    outcome = left.run(call)
    assert outcome.error is None
    assert outcome.bound.keys() == ({"frame", "plain"} if "add" in source else {"plain"})


def test_a_run_that_is_stopped_names_what_it_changes(left: Session) -> None:
    code = "plain.append(1)\nlen(seen)\nwhile True: pass"
    left.options["limits"] = Limits(wall_seconds=0.2)
    outcome: Outcome = left.run(code)
    assert outcome.error is not None
    assert (outcome.bound, outcome.unkept) == ({}, {"plain": STOPPED})


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("rows.append(1)", "rows"),
        ("rows[0]['x'] = 1", "rows"),
        ("$rows[0]['x'] += 1", "rows"),
        ("del page['rows'][0]", "page"),
        ("rows += [1]", "rows"),
        ("for r in rows:\n    r['x'] = r['a']", "rows"),
        ("for i, r in enumerate(rows):\n    r.update(i=i)", "rows"),
        ("for k, v in page.items():\n    v.append(k)", "page"),
        ("for a, b in zip(rows, rows):\n    b['x'] = a['x']", "rows"),
        ("first = rows[0]\nsame = first\nsame['x'] = 1", "rows"),
        ("a, b = rows[0], {}\nb['x'] = 1\na['x'] = 1", "rows"),
        ("big = [r for r in rows if r['n'] > 1]\nbig[0]['x'] = 1", "rows"),
        ("by = {r['id']: r for r in rows}\nby[1]['x'] = 1", "rows"),
        ("[r.pop('x') for r in rows]", "rows"),
        ("max(rows, key=len)['x'] = 1", "rows"),
        ("def fix(r):\n    r['x'] = 1\nfor r in rows:\n    fix(r)", "rows"),
        ("def fix(r):\n    r['x'] = 1\nlist(map(fix, rows))", "rows"),
        ("list(map(lambda r: r.update(x=1), rows))", "rows"),
        ("def first(): return rows[0]\nfirst()['x'] = 1", "rows"),
        ("def f():\n    rows.clear()", "rows"),
        ("import random\nrandom.shuffle(rows)", "rows"),
        ("import heapq as h\nh.heapify(page['rows'])", "page"),
        ("(rows or [{}])[0]['x'] = 1", "rows"),
        ("rows[:2][0]['x'] = 1", "rows"),
        ("list(rows)[0]['x'] = 1", "rows"),
        ("page.get('rows').sort()", "page"),
        ("copy.copy(rows)[0]['x'] = 1", "rows"),
        ("df('rows')['x'] = 1", "rows:df"),
        ("df(rows).loc[0, 'x'] = 1", "rows:df"),
        ("df($rows).drop(columns='x', inplace=True)", "rows:df"),
        ("rows.rename(inplace=True)\nrows.columns = []", "rows"),
        # what is the code's own
        ("new = []\nfor r in rows:\n    new.append(r)\nnew.sort()", ""),
        ("new = list(rows)\nnew.append(1)\nnew2 = rows + [1]\nnew2.pop()\nnew3 = rows[:]\nnew3.clear()", ""),
        ("new = [dict(r, x=1) for r in rows]\nnew[0]['x'] = 2\nnew.append(1)", ""),
        ("for r in rows:\n    r = {**r, 'x': 1}\n    r2 = r.copy()", ""),
        ("frame = df('rows')\nframe['x'] = 1\nframe.drop(columns='a', inplace=True)", ""),
        ("df('rows').copy()['x'] = 1\ndf('rows').head().pop('x')", ""),
        ("n = 0\nfor r in rows:\n    n += r['n']", ""),
        ("def f(rows):\n    rows.append(1)\nf([])", ""),
        ("def f():\n    rows = []\n    rows.append(1)", ""),
        ("copy.deepcopy(rows)[0]['x'] = 1", ""),
        ("other.append(1)\nrows[0].x()\nrows", ""),
        ("df('rows').sort_values('x', inplace=False)", ""),
        ("rows.append(1", ""),
    ],
)
def test_changes_are_told_from_the_text(code: str, names: str) -> None:
    expected = {Changed(name.partition(":")[0], ":" in name) for name in names.split()}
    assert changed_in_place(code, (), {"rows", "page"}).keys() == expected


def test_lines_and_bounds() -> None:
    code = "rows[0]['x'] = 1\nrows.append(1)\nusers.append(1)\nfix()"
    assert changed_in_place(code, ["def fix():\n    page.clear()"], {"rows", "users", "page"}) == {
        Changed("rows"): 1,
        Changed("users"): 3,
        Changed("page"): 0,
    }
    assert changed_in_place("rows.append(1)\n" * 100_000, (), {"rows"}) == {}
    assert changed_in_place("rows.append(1)", (), ()) == {}
    chain = "rows" + ".pop()" * 15_000
    assert changed_in_place(chain, (), {"rows"}) == {}
    many = "\n".join(f"n{i} = [n{i - 1}, rows]" for i in range(1, 2_000)) + "\nn5[1].append(1)"
    assert changed_in_place(many, (), {"rows"}) == {Changed("rows"): 2000}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("t = 0\nfor r in rows:\n    t += r['n']", True),
        ("n: int = 0\nwhile n < len(rows):\n    n += 1", True),
        ("own = []\nfor r in rows:\n    own.append(r)\nown.sort(key=str)\nown[0] = rows", True),
        ("from collections import defaultdict\ng = defaultdict(list)\nfor r in rows:\n    g[r['a']].append(r)", True),
        ("g = {}\nfor r in rows:\n    if r['a'] not in g:\n        g[r['a']] = []\n    g[r['a']].append(r)", True),
        ("g = {}\nfor r in rows:\n    g.setdefault(r['a'], []).append(r)", True),
        ("g = {}\nfor r in rows:\n    g[r['a']] = g.get(r['a'], 0) + r['n']", True),
        ("c = Counter()\nfor r in rows:\n    c[r['a']] += 1\nc.most_common(1)", True),
        ("a, b = [], 0\nfor r in rows:\n    a.append(r)\n    b += 1", True),
        ("new = [{**r, 'x': 1} for r in rows]\nnew[0]['x'] = 2", True),
        ("own = list(rows)\nown.pop()", True),
        ("s = ''\nfor r in rows:\n    s += f'{r}'", True),
        ("own = rows.copy()\nown.append(1)", True),
        ("own = df('rows').copy()\nown['day'] = pd.to_datetime(own['day'])\nown.loc[own['n'] > 1, 'n'] = 0", True),
        ("own = [r.copy() for r in rows]\nown[0]['x'] = 2", True),
        ("own = rows.copy()\nown[0]['x'] = 2", False),
        ("own = rows.copy()\nown[0].append(2)", False),
        ("own = rows.copy()\nown[0] += [2]", False),
        ("own = df('rows')\nown['day'] = 1", False),
        ("own = df('rows')\nown.loc[0, 'day'] = 1", False),
        ("own = df('rows').copy()\nif rows:\n    own = df('rows')\nown['day'] = 1", False),
        ("own = df('rows').copy()\nown['l'][0].append(1)", False),
        ("own = df('rows').copy()\nown['l'].loc[0] = 1", False),
        ("df('rows').loc[0, 'n'] = 1", False),
        ("rows.copy().append(1)", False),
        ("own = copy(rows)\nown.append(1)", False),
        ("own = rows\nown.append(1)", False),
        ("own = []\nown = rows\nown.append(1)", False),
        ("own = []\nfor own in rows:\n    own.append(1)", False),
        ("own = []\n[own.append(1) for own in rows]", False),
        ("own = []\nlist(map(lambda own: own.append(1), rows))", False),
        ("own = [1] if rows else rows\nown.append(1)", False),
        ("own = [] or rows\nown.append(1)", False),
        ("own = max([rows])\nown.append(1)", False),
        ("own = [rows]\nown[0].append(1)", False),
        ("own = []\nown.append(rows)\nown[0].append(1)", False),
        ("own = [1]\nown[:] = [rows]\nown[0].append(1)", False),
        ("own = [1]\nown += [rows]\nown[0].append(1)", False),
        ("own = [[]]\nown[0:1] += [rows]\nown[0].append(1)", False),
        ("own = [[]]\nown[place] = [rows]\nown[0].append(1)", False),
        ("own = [[]]\nif rows:\n    own = {}\nown[place] = [rows]\nown[0].append(1)", False),
        ("own = {}\nif rows:\n    own = [[]]\nown[place] = [rows]\nown[0].append(1)", False),
        ("own = {}\nown['a'], b = rows, 1\nown['a'].append(1)", False),
        ("own = {}\nown['a'], b = zip(rows)\nown['a'] += [1]", False),
        ("own = {}\nfor own['a'] in [rows]:\n    own['a'].append(1)", False),
        ("own = {}\nown['a'] = own['b'] = rows\nown['a'] += [1]", False),
        ("own = {}\nown.update(a=rows)\nown['a'] += [1]", False),
        ("own = {}\nown.setdefault('a', rows).append(1)", False),
        ("own = {}\nown.setdefault('a', [])\nown.setdefault('b', rows)\nown['b'].append(1)", False),
        ("own = defaultdict(lambda: rows)\nown['a'].append(1)", False),
        ("own = {'a': [rows]}\nown['a'][0] += [1]", False),
        ("own = {**{'a': rows}}\nown['a'].append(1)", False),
        ("def list(x): return x\nown = list(rows)\nown.append(1)", False),
        ("import math as dict\nown = dict(rows)\nown.append(1)", False),
        ("rows.append(1)\nrows = []", False),
        ("(own := rows)\nown.append(1)\nown = []", False),
        ("own = []\nput = own.append\nown.pop().append(1)", False),
        ("own += [1]", False),
        ("rows += [1]", False),
        ("rows[0]['n'] += 1", False),
    ],
)
def test_code_that_changes_only_what_it_makes_is_known(code: str, expected: bool) -> None:
    assert is_read_only(code, {"rows", "place"}) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("count = 0\nfor r in rows:\n    count += 1", True),
        ("for r in rows:\n    count += r['n']", True),
        ("out = []\nfor r in rows:\n    out.append(r)", True),
        ("n, out = 0, [r for r in rows]\nout.append(n)", True),
        ("out.append(1)\nout = []", False),
        ("def f():\n    out.append(1)\nf()\nout = []", False),
        ("out = [out.append(1)]", False),
        ("if rows:\n    out = []\nout.append(1)", False),
        ("out += [1]", False),
        ("count = rows\ncount += [1]", False),
    ],
)
def test_names_of_earlier_runs_are_used_again(code: str, expected: bool) -> None:
    assert is_read_only(code, {"rows", "out", "count"}, {"count"}) is expected
