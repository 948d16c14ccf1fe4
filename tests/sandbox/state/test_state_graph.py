"""What is written of a session and when: parts, blobs, references to tool data, bounds, and other versions."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from notebook import Notebook

from byref_sandbox.language.policy import Language
from byref_sandbox.state.graph import LARGE_BYTES, MAX_NAMES, Graph, last_of_literal
from byref_sandbox.state.known import Known

ORDERS = [{"id": number, "lines": [{"sku": "a", "n": number}]} for number in range(50)]


@pytest.fixture(scope="module")
def language() -> Language:
    return Language()


@pytest.fixture(scope="module")
def known(language: Language) -> Known:
    return Known(language)


@pytest.fixture
def notebook(language: Language, known: Known) -> Notebook:
    return Notebook(language, known=known)


def test_what_did_not_change_is_not_sent(notebook: Notebook) -> None:
    notebook.run("a = [1]\nt = pd.DataFrame({'x': range(3)})\ndef f():\n    return a\nbig = np.arange(3_000_000.0)")
    assert notebook.stored.sent > 24_000_000
    notebook.run("f()")
    notebook.run("f()")
    assert notebook.stored.sent == 0
    notebook.run("a.append(2)")
    assert 0 < notebook.stored.sent < 10_000
    assert notebook.run("(a, float(big[-1]))") == ([1, 2], 2_999_999.0)


def test_of_a_table_only_changed_columns_are_sent(notebook: Notebook) -> None:
    notebook.run("t = pd.DataFrame({'x': np.arange(10_000), 'y': np.arange(10_000) / 3})")
    notebook.run("t['z'] = np.ones(10_000)")
    assert notebook.stored.sent < 90_000
    notebook.run("t.loc[0, 'z'] = 5.0")
    assert notebook.stored.sent < 90_000
    assert notebook.run("(int(t['x'].sum()), float(t['z'].sum()))") == (49_995_000, 10_004.0)


def test_a_table_with_texts_and_lists_is_written_once_and_the_same_after_it_is_read(notebook: Notebook) -> None:
    notebook.run("t = pd.DataFrame({'s': ['ab', None], 'u': ['cd', 'ef'], 'l': [['gh'], [{'n': 1}]]})")
    assert all(b"G\x7f\xf8" not in blob for blob in notebook.stored.blobs.values())  # a NaN has all be written again
    notebook.run("len(t)")
    assert notebook.stored.sent == 0
    dtypes = "[t[c].dtype for c in ('s', 'u')] == ['str'] * 2, t['s'].dtype.na_value is np.nan, t['s'].isna().tolist()"
    assert notebook.run(dtypes) == (True, True, [False, True])


@pytest.mark.parametrize("storage", ["python", "pyarrow"])
@pytest.mark.parametrize("missing", ["np.nan", "pd.NA"])
def test_texts_come_back_as_they_were_stored(notebook: Notebook, storage: str, missing: str) -> None:
    notebook.run(f"d = pd.StringDtype({storage!r}, {missing})\nt = pd.Series(['ab', None], dtype=d)")
    assert notebook.run(f"(t.dtype == d, d.storage, d.na_value is {missing}, t[0])") == (True, storage, True, "ab")


def test_a_record_does_not_take_a_large_array_along(notebook: Notebook) -> None:
    notebook.run(
        "all = np.zeros(100_000, dtype=[('i', 'i8'), ('f', 'f8')])\nall[0] = (7, 0.5)\nrow, of = all[0], pd.DataFrame({'x': range(200_000)}).to_records()[3]\ndel all"
    )
    assert notebook.stored.sent < 10_000
    assert notebook.run("(int(row['i']), float(row['f']), int(of.x))") == (7, 0.5, 3)


def test_equal_blobs_are_stored_once_and_bound_apart(notebook: Notebook) -> None:
    notebook.run("a = np.zeros(10_000)\nb = np.zeros(10_000)")
    assert len(notebook.stored.table.parts[0].leaves) == 2
    assert len(set(notebook.stored.table.parts[0].leaves)) == 1
    assert notebook.run("a[0] = 1\nfloat(b[0])") == 0.0


@pytest.mark.parametrize("value", [None, True, 7, -(10**40), 1.5, float("nan"), "", "é\0", "x" * 300, b"ab"])
def test_a_last_value_that_is_a_literal_is_written_as_any_other(known: Known, value: object) -> None:
    assert last_of_literal(value, known.versions) == Graph(known, {}, {}).write_last(value, {})
    assert last_of_literal([value], known.versions) is None


def test_of_a_large_array_only_what_has_changed_is_stored_anew(notebook: Notebook) -> None:
    notebook.run(
        "a = np.arange(2_500_000.0)\nb = a[:10]\nf = pd.DataFrame({'n': np.arange(1_500_000), 's': ['é'] * 1_500_000, 'm': 1.5})\n"
        "c = np.arange(20_000)"
    )
    (base, *others) = notebook.stored.table.parts
    assert max(each for part in (base, *others) for each in part.pieces or [1]) > 3
    whole = notebook.stored.sent
    assert whole > 40_000_000
    notebook.run("a[5] = -1.0")
    assert 0 < notebook.stored.sent < whole // 6
    notebook.run("f.loc[1_400_000, 'n'] = -7")
    assert 0 < notebook.stored.sent < whole // 6
    notebook.run("a[2_400_000] = c[-1]")
    assert 0 < notebook.stored.sent < whole // 6
    found = notebook.run(
        "[float(b[5]), int(f['n'].sum() - f['n'][1_400_000]), f['s'][7], float(a[2_400_000]), int(c.sum()), float(f['m'].sum())]"
    )
    numbers = 1_500_000 * 1_499_999 // 2
    assert found == [-1.0, numbers - 1_400_000, "é", 19_999.0, 20_000 * 19_999 // 2, 2_250_000.0]
    assert notebook.run("[a.flags.writeable, len(a)]") == [True, 2_500_000]


LARGE = f"""
class Row:
    def __init__(self, n):
        self.n = n
rows = [Row(n) for n in range({LARGE_BYTES // 8})]
first = rows[0]
words = [str(n) * 3 for n in range({LARGE_BYTES // 8})]
small = [1]
def count():
    return len(words)
"""


def test_large_names_are_read_only_where_they_are_wanted(notebook: Notebook) -> None:
    notebook.run(LARGE)
    parts = notebook.stored.table.parts
    assert [[name.name for name in part.names] for part in parts[1:]] == [["rows"], ["words"]]
    table = notebook.stored.table
    assert "words" in table.wanted(["count"])  # the function looks it up
    assert "words" not in table.wanted(["small"])
    notebook.run("first.n = -7\nsmall.append(2)", wanted=["first", "small"])
    assert parts[1].digest == notebook.stored.table.parts[1].digest or "rows" in notebook.stored.table.names()
    with pytest.raises(NameError):
        notebook.run("rows", wanted=["small"])
    assert notebook.run("(rows[0] is first, rows[0].n, type(rows[1]) is Row, count(), small)") == (
        True,
        -7,
        True,
        LARGE_BYTES // 8,
        [1, 2],
    )


@pytest.mark.slow
def test_a_large_name_that_was_not_read_outlives_what_it_refers_to(notebook: Notebook) -> None:
    notebook.run(LARGE)
    notebook.run("del Row\ndel first", wanted=[])
    assert notebook.run("(rows[3].n, type(rows[0]).__name__, rows[0].n)") == (3, "Row", 0)
    notebook.run("rows = 5", wanted=[])
    assert notebook.run("rows") == 5
    assert [name.name for part in notebook.stored.table.parts[1:] for name in part.names] == ["words"]


def test_large_names_that_share_something_are_one_part(notebook: Notebook) -> None:
    count = LARGE_BYTES // 4
    notebook.run(f"part = [[n] for n in range({count})]\na = [1, *part]\nb = [2, *part]\ndel part")
    assert [[name.name for name in part.names] for part in notebook.stored.table.parts[1:]] == [["a", "b"]]
    assert notebook.run("a[1].append(5)\nb[1]") == [0, 5]


def test_tool_data_is_referred_to(language: Language, known: Known) -> None:
    notebook = Notebook(language, lambda: {"orders": msgspec.json.decode(msgspec.json.encode(ORDERS))}, known=known)
    notebook.run("same = orders\nlast = orders[-1]\nlines = [o['lines'] for o in orders[:2]]")
    assert notebook.stored.sent < 1_000
    assert notebook.stored.table.parts[0].paths
    assert notebook.run("(same is orders, last is orders[49], lines[1] is orders[1]['lines'])") == (True, True, True)


PAGE = {
    "page": {"number": [1], "of": ["q", "w"]},
    "rows": [
        {"id": n, "who": f"w{n}", "tags": [f"t{n % 3}", n], "in": {"a": [n], "b": {"c": ["x", n]}}} for n in range(6)
    ],
}


def page() -> dict[str, Any]:
    """An output, its parts that are variables as well, and a table of records in it."""
    whole = msgspec.json.decode(msgspec.json.encode(PAGE))
    return {"orders": whole, "page": whole["page"], "rows": whole["rows"]}


def a_part(draw: random.Random, space: dict[str, Any], names: list[str]) -> str:
    text = draw.choice(names)
    found = space[text]
    for _ in range(draw.randrange(6)):
        steps = [*found] if type(found) is dict else [*range(len(found))][:3] if type(found) is list else []
        steps = [step for step in steps if isinstance(found[step], list | dict)]
        if not steps:
            break
        step = draw.choice(steps)
        text, found = f"{text}[{step!r}]", found[step]
    return text


def a_statement(draw: random.Random, space: dict[str, Any], own: list[str]) -> str:
    part, other = (a_part(draw, space, ["orders", "page", "rows", *own]) for _ in range(2))
    rows = draw.choice(["rows", "orders['rows']", "[y for y in rows if y['id'] % 2]"])
    value = draw.choice(
        [part] * 5
        + [
            f"[{part}, {other}]",
            f"{{'h': {part}, 'g': [{other}]}}",
            "['q', 'w', 'q', 1]",
            "{'w0': [5], 'id': ['t1', 1]}",
        ]
        + [f"pd.DataFrame({rows})", f"[y['tags'] for y in {rows}]", f"pd.DataFrame({rows})['tags']"]
        + [f"pd.DataFrame({rows})['in'][{draw.randrange(3)}]", f"{{y['who']: [y['id'], 'w1'] for y in {rows}}}"]
    )
    return f"v{draw.randrange(7)} = {value}"


def as_graph(value: object, seen: dict[int, int]) -> object:
    """A value, with which of its parts are one object."""
    if isinstance(value, list | dict | pd.DataFrame | pd.Series):
        if id(value) in seen:
            return seen[id(value)]
        seen[id(value)] = len(seen)
    if isinstance(value, pd.DataFrame):
        return {name: as_graph(value[name].tolist(), seen) for name in value.columns}
    if isinstance(value, dict):
        return {key: as_graph(one, seen) for key, one in value.items()}
    return [as_graph(one, seen) for one in value] if isinstance(value, list | pd.Series) else value


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("seed", range(20))
def test_names_of_parts_of_several_variables_come_back_as_they_were(
    language: Language, known: Known, seed: int
) -> None:
    draw = random.Random(seed)
    notebook = Notebook(language, page, known=known)
    plain: dict[str, Any] = {"pd": pd, **page()}
    for _ in range(10):
        code = ""
        for _ in range(draw.randrange(1, 4)):
            own = sorted(name for name in plain if name[0] == "v")
            code += a_statement(draw, plain, own) + "\n"
            exec(code.splitlines()[-1], plain)
        notebook.run(code)
        own = sorted(name for name in plain if name[0] == "v")
        asked = [
            *draw.sample(own, draw.randrange(1, len(own) + 1)),
            *draw.sample(["orders", "rows"], draw.randrange(3)),
        ]
        assert as_graph(notebook.run(f"[{', '.join(asked)}]"), {}) == as_graph([plain[name] for name in asked], {}), (
            code
        )
        assert not notebook.lost


def test_a_part_of_a_part_is_one_object(language: Language, known: Known) -> None:
    notebook = Notebook(language, lambda: {"orders": msgspec.json.decode(msgspec.json.encode(ORDERS))}, known=known)
    notebook.run("lines = orders[3]['lines']\nlast, line = orders[3], lines[0]\nothers = orders[5:8]")
    assert len(notebook.stored.table.parts[0].paths) == 6
    assert notebook.run("(last['lines'] is lines, lines[0] is line, last is orders[3])") == (True, True, True)
    deep: Any = []
    for _ in range(200):
        deep = {"next": [deep]}
    notebook = Notebook(language, lambda: {"deep": deep}, known=known)
    notebook.run("found = []\none = deep\nwhile one:\n    one = one['next'][0]\n    found.append(one)")
    assert notebook.run("all(a['next'][0] is b for a, b in zip(found, found[1:]))") is True


def test_of_a_stream_in_which_a_number_means_two_objects_what_is_certain_is_read(
    language: Language, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As earlier releases wrote where two variables had the same object."""
    inside = Graph._inside

    def twice(self: Graph, *given: Any, **options: Any) -> list[Any]:
        found = inside(self, *given, **options)
        return found + [(path[1:], one) for path, one in found if path[0] == "orders"]

    with monkeypatch.context() as patch:
        patch.setattr(Graph, "_inside", twice)
        notebook = Notebook(language, page, known=known)
        notebook.run("tags = orders['rows'][0]['tags']\nx = ['q', 'w', 'q']\ny = [x, 'q']\nn = 5")
    assert notebook.stored.table.parts[0].filler < 0
    assert notebook.run("n") == 5
    assert notebook.lost.keys() <= {"tags", "x", "y"}
    for name in {"tags", "x", "y"} - notebook.lost.keys():
        assert notebook.run(name) == {"tags": ["t0", 0], "x": ["q", "w", "q"], "y": [["q", "w", "q"], "q"]}[name]


def test_tool_data_that_the_run_changed_is_kept_by_value(language: Language, known: Known) -> None:
    notebook = Notebook(language, lambda: {"orders": msgspec.json.decode(msgspec.json.encode(ORDERS))}, known=known)
    notebook.run("last = orders[-1]\nlast['id'] = 'mine'", changed=("orders",))
    assert notebook.run("(last['id'], orders[-1]['id'])") == ("mine", 49)
    notebook.run("first = orders[0]\norders.insert(0, 5)")
    assert notebook.run("first['id']") == 0


def test_tool_data_that_is_gone_takes_down_what_refers_to_it(language: Language, known: Known) -> None:
    data: dict[str, Any] = {"orders": ORDERS}
    notebook = Notebook(language, lambda: data, known=known)
    notebook.run("last = orders[-1]\nn = [1]\nalso = [last]")
    data.clear()
    assert notebook.run("n") == [1]
    assert notebook.lost.keys() == {"last", "also"}
    assert "no longer there" in notebook.lost["last"]


def test_another_version_defines_functions_from_their_text(notebook: Notebook, known: Known) -> None:
    notebook.run("""
@dataclasses.dataclass
class P:
    x: int = 1
def double(n):
    return n * factor
triple = lambda n: n * 3
factor = 2
def make():
    n = 0
    def nxt():
        return n
    return nxt
nxt = make()
xs = [1]
""")
    before = notebook.stored.table
    old = msgspec.structs.replace(before, versions=msgspec.structs.replace(before.versions, pandas="1.0"))
    space = known.language.space({})
    graph = Graph(known, space, {})
    lost = graph.read(old, lambda _digest: pytest.fail("read"), lambda _digest: pytest.fail("read"))
    assert lost.keys() == {"nxt", "xs", "factor"}  # of these a host has those that are data, in another form
    space["factor"] = 10
    assert (space["double"](2), space["triple"](2), repr(space["P"](4))) == (20, 6, "P(x=4)")
    written = graph.write({name: space[name] for name in ("double", "P")})
    assert written.contents.versions == known.versions
    assert written.contents.definitions.keys() == {"double", "P"}


def test_a_stream_that_is_not_there_is_named(known: Known, notebook: Notebook) -> None:
    notebook.run("a = [1]\nb = np.zeros(5_000)")
    nothing: dict[bytes, bytes] = {}
    table = notebook.stored.table
    lost = Graph(known, known.language.space({}), {}).read(table, nothing.__getitem__, nothing.__getitem__)
    assert lost.keys() == {"a", "b"}
    bodies = notebook.stored.blobs
    space = known.language.space({})
    lost = Graph(known, space, {}).read(table, bodies.__getitem__, nothing.__getitem__)
    assert lost.keys() == {"b"}
    assert space["a"] == [1]


def test_what_has_no_room_is_named(known: Known) -> None:
    space = known.language.space({})
    graph = Graph(known, space, {}, max_bytes=100_000)
    written = graph.write({"a": [1], "b": "x" * 200_000, "c": np.zeros(50_000), "d": [2]})
    assert written.lost.keys() == {"b", "c"}
    assert all("too big" in why for why in written.lost.values())
    assert written.contents.names() == {"a", "d"}
    written = graph.write({f"n{number}": "x" * 10_000 for number in range(100)})
    assert 0 < len(written.contents.names()) < 12
    assert len(written.lost) + len(written.contents.names()) == 100


def test_more_names_than_there_may_be_are_named(known: Known) -> None:
    written = Graph(known, known.language.space({}), {}).write(
        {f"n{number}": number for number in range(MAX_NAMES + 5)}
    )
    assert len(written.lost) >= 5
    assert len(written.contents.names()) + len(written.lost) == MAX_NAMES + 5


def test_ten_restarts_change_nothing(notebook: Notebook) -> None:
    notebook.run(
        "a = np.arange(6)\nv = a[::2]\nl = [1]\nd = {'l': l}\ndef f(x, to=[]):\n    to.append(x)\n    return to\nf(1)"
    )
    digests = set()
    for _ in range(10):
        notebook.run("None")
        digests.add(notebook.stored.table.parts[0].digest)
    assert len(digests) == 1
    assert notebook.run("v[1] = 9\nl.append(2)\n(a.tolist(), d, f(2))") == ([0, 1, 9, 3, 4, 5], {"l": [1, 2]}, [1, 2])
