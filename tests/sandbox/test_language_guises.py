"""Ways around the language that look like something else: copies, parents of libraries' classes, in-place operators, names in options.

Each attack's last expression tells whether it got what it must not have; it ends in a refusal or in nothing.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from byref_sandbox.language.policy import Language

_THIEF = "class Thief:\n    def __radd__(self, other): self.got = other; return other\nthief = Thief()\n"

REFUSED = {
    "a parent's __getattr__ reads anything": "d = pd.DataFrame({'a': [1]})\nsuper(pd.DataFrame, d).__getattr__('__dict__')",
    "a parent's __setattr__ sets anything": "d = pd.DataFrame({'a': [1]})\nsuper(pd.DataFrame, d).__setattr__('__array_interface__', {})",
    "a parent's __init__ fills an object again": "d = pd.DataFrame({'a': [1]})\nsuper(pd.DataFrame, d).__init__([1])",
    "an in-place operator reads what it adds to": _THIEF + "d = pd.DataFrame({'a': [1]})\nd.plot += thief",
    "an in-place operator reads an error's object": _THIEF
    + "try: [].foo\nexcept AttributeError as error:\n    error.obj += thief",
    "a view's base is resized under it": "v = np.arange(10)[:]\nv.base.resize(10 ** 5)\nv[0]",
    "a buffer's array is resized under it": "m = np.arange(10).data\nm.obj.resize(10 ** 5)\nm[0]",
    "codes are made writable": "k = pd.Categorical(['a']).codes\nk.setflags(write=True)\nk[0] = 99\nk[0]",
    "a view of codes is made writable": "k = pd.Categorical(['a']).codes.view()\nk.setflags(1)\nk[0] = 99\nk[0]",
    "codes are made writable by a name": (
        "k = pd.Categorical(['a']).codes\noperator.methodcaller('setflags', write=True)(k)\nk[0] = 99\nk[0]"
    ),
    "what codes are a view of": "k = pd.Categorical(['a']).codes.base\nk[0] = 99\nk[0]",
    "codes of a level": "k = pd.MultiIndex.from_product([['a'], [1]]).codes[0]\nk.setflags(write=True)\nk[0] = 99\nk[0]",
    "two variables": "a = b = np.arange(10)\na.resize(100)",
    "a name to aggregate by, with None": "pd.Series([1]).groupby([1]).agg(None, a='__reduce__')",
    "a name to aggregate by, of a class of text": "class S(str): pass\npd.Series([1]).groupby([1]).agg(a=S('__reduce__'))",
    "a name to aggregate by, in a class of tuples": (
        "class T(tuple): pass\npd.DataFrame({'k': [1], 'v': [1]}).groupby('k').agg(a=T(('v', '__reduce__')))"
    ),
    "an option under a pattern": "type(pd.options.display)({'max_rows': 1}, 'plotting.backend|x').max_rows = 'this'",
    "a random state that points beyond its numbers": (
        "r = np.random.RandomState()\ns = list(r.get_state())\ns[2] = 10 ** 6\nr.set_state(tuple(s))\nr.bytes(8)"
    ),
    "a copy that is something else": """
class X:
    __slots__ = ("_check",)
    target = None
    def __new__(cls):
        return object.__new__(cls) if X.target is None else X.target
class V: pass
x = X()
x._check = lambda name: None
X.target = vars(V())
copy.copy(x)
""",
    "a deep copy that is something else": """
class X(dict):
    target = None
    def __new__(cls, *arguments):
        return dict.__new__(cls) if X.target is None else X.target
x = X()
x.extra = 1
X.target = pd.Series([1])
copy.deepcopy([x])
""",
    "objects as numbers": "np.frombuffer(np.array(['a'], dtype=object), 'i8')[0]",
    "records with objects as numbers": "np.frombuffer(np.zeros(1, [('x', 'O'), ('y', 'i8')]), 'i8')[0]",
    "objects' memory as bytes": "np.array(['a'], dtype=object).data.cast('B')[0]",
    "objects' memory by getattr": "getattr(np.array(['a'], dtype=object), 'data')[:]",
    "objects' memory by a view's class": "type(np.zeros(1).data)(np.array(['a'], dtype=object))",
    "objects' memory in a pattern": "match np.array(['a'], dtype=object):\n    case object(data=found): found[:]",
    "bytes read into objects": "io.BytesIO(b'A' * 8).readinto(np.array(['a'], dtype=object))",
    "bytes packed into objects": "import struct\nstruct.Struct('q').pack_into(np.array(['a'], dtype=object), 0, 65)",
    "blocks that end beyond an array": (
        "b = pd.arrays.SparseArray([0, 1], kind='block').sp_index\nb.blengths[0] = 10 ** 7\nb.to_int_index()"
    ),
    "__deepcopy__ that is no plain method": "class X:\n    __deepcopy__ = lambda self, memo: memo",
}

NOTHING = {
    "what deepcopy keeps of the guards": "memo = {}\ncopy.deepcopy(getattr, memo)\nmemo",
    "what deepcopy keeps of the globals": "memo = {}\ntry: copy.deepcopy(globals(), memo)\nexcept KeyError: pass\nmemo",
    "a memo that takes notes": """
class Notes(dict):
    seen = []
    def get(self, key, default=None): return default
    def __setitem__(self, key, value): self.seen.append(value)
    def __getitem__(self, key): return self.seen
class V: pass
copy.deepcopy(V(), Notes())
Notes.seen
""",
    "the memo that __deepcopy__ is given": """
seen = []
class E:
    def __deepcopy__(self, memo):
        seen.extend(memo.get(id(memo), ()))
        seen.extend(memo.values())
        copy.deepcopy([[]], memo)
        seen.extend(memo.values())
        return self
class V: pass
v = V()
v.a = []
copy.deepcopy([v, E()])
seen
""",
    "the memo of an array": """
memo = {}
class V: pass
np.array([V()], dtype=object).__deepcopy__(memo)
memo
""",
    "the memo of pandas' attrs": """
seen = []
class E:
    def __deepcopy__(self, memo):
        seen.extend(memo.get(id(memo), ()))
        return self
class V: pass
d = pd.DataFrame({"a": [1]})
d.attrs = {"v": V(), "e": E()}
d.copy()
seen
""",
    "what the pattern of a protocol reads of anything": """
from dataclasses import dataclass
@typing.runtime_checkable
class P(typing.Protocol):
    data: object
P._is_protocol = False
P = dataclass(P)
P._is_protocol = True
P.__match_args__
""",
    "the fields behind a dtype's": """
class X:
    def __ror__(self, other): self.got = other; return {}
x = X()
t = np.dtype([("a", "i8")])
t.fields | x
x.got["a"] = (np.dtype("O"), 0)
[] if t.fields["a"][0] == np.dtype("i8") and getattr(t, "fields")["a"][0] == np.dtype("i8") else t
""",
}

WORKS = {
    "resize of a variable": ("a = np.zeros(2)\na.resize((2, 2))\na.shape", (2, 2)),
    "resize in a function": ("def f():\n    a = np.arange(4)\n    a.resize(2)\n    return a.tolist()\nf()", [0, 1]),
    "a deepcopy of one's own": (
        """
class Node:
    def __init__(self, name): self.name, self.links = name, []
    def __deepcopy__(self, memo):
        made = Node(self.name)
        memo[id(self)] = made
        made.links = copy.deepcopy(self.links, memo)
        return made
a, b = Node("a"), Node("b")
a.links.append(b)
b.links.append(a)
c = copy.deepcopy(a)
(c.links[0].links[0] is c, c is not a, copy.deepcopy({"x": [a, a]})["x"][0].name)
""",
        (True, True, "a"),
    ),
    "a deepcopy that calls its parent's": (
        """
class A:
    def __deepcopy__(self, memo): return type(self)()
class B(A):
    def __deepcopy__(self, memo):
        made = super().__deepcopy__(memo)
        made.x = 1
        return made
copy.deepcopy(B()).x
""",
        1,
    ),
    "copies of all kinds": (
        """
from dataclasses import dataclass
@dataclass(frozen=True, slots=True)
class P:
    x: int
class D(dict): pass
class Err(ValueError): pass
class E(enum.Enum):
    A = 1
d = D(a=1)
d.extra = [1]
e = copy.copy(Err("no"))
[copy.copy(P(1)) == copy.deepcopy(P(1)), copy.deepcopy(d).extra, copy.copy(d)["a"], e.args, copy.deepcopy(E.A) is E.A,
 copy.deepcopy([pd.Series([1])])[0].tolist(), np.array([[1]]).__deepcopy__({}).tolist()]
""",
        [True, [1], 1, ("no",), True, [1], [[1]]],
    ),
    "in-place operators on one's own": (
        "class A: pass\na = A()\na.handles, a.fields = 1, [1]\na.handles += 1\na.fields += [2]\n(a.handles, a.fields)",
        (2, [1, 2]),
    ),
    "fields": ("[*np.dtype([('a', 'i8')]).fields, *pd.DataFrame({'fields': [1]}).fields]", ["a", 1]),
    "memory of numbers": (
        "a = np.arange(3)\na.data[0] = 5\n(a.tolist(), np.frombuffer(a.data, a.dtype).tolist(), pd.DataFrame({'data': [1]}).data[0])",
        ([5, 1, 2], [5, 1, 2], 1),
    ),
    "patterns of one's own": (
        """
from dataclasses import dataclass
@dataclass
class Message:
    data: int
    fields: list
match Message(1, [2]):
    case Message(d, f): found = (d, f)
found
""",
        (1, [2]),
    ),
    "arrays of text": (
        "np.char.chararray((2,), itemsize=3).shape, isinstance(np.char.array(['a']), np.char.chararray)",
        ((2,), True),
    ),
    "names of results": (
        "g = pd.DataFrame({'k': [1, 1], 'v': [1, 2]}).groupby('k')\n"
        "[g.agg(None, t=('v', 'sum')).t.tolist(), g.v.agg(t='sum', m=max).values.tolist()]",
        [[3], [[3, 2]]],
    ),
    "a rule in a zone": (
        "from dateutil.rrule import rrulestr\n"
        "[str(d) for d in rrulestr('DTSTART;TZID=Europe/Paris:20240101T090000\\nRRULE:FREQ=DAILY;COUNT=1')]",
        ["2024-01-01 09:00:00+01:00"],
    ),
}


@pytest.fixture(scope="module")
def language() -> Iterator[Language]:
    """Return one language for all."""
    yield Language()


def _run(language: Language, code: str) -> object:
    return language.run(language.compile("import warnings\n" + code), {}, io.StringIO()).value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(language: Language, name: str) -> None:
    with pytest.raises(Exception) as raised:
        _run(language, REFUSED[name])
    assert type(raised.value).__name__ in ("NotAllowed", "Refused")


@pytest.mark.parametrize("name", NOTHING)
def test_it_gets_nothing(language: Language, name: str) -> None:
    assert not _run(language, NOTHING[name])


@pytest.mark.parametrize("name", WORKS)
def test_what_is_meant_well_works(language: Language, name: str) -> None:
    code, expected = WORKS[name]
    assert _run(language, code) == expected


def test_a_zone_of_a_rule_is_no_path(language: Language) -> None:
    code = "from dateutil.rrule import rrulestr\nrrulestr('DTSTART;TZID=/etc/passwd:20240101T090000\\nRRULE:FREQ=DAILY')[0].tzinfo"
    assert _run(language, code) is None


@pytest.mark.parametrize(
    "code",
    [
        "pd.Categorical.from_codes(np.array([99]), categories=['a'], validate=False)",
        "pd.MultiIndex.from_product([['a'], [1]]).set_codes([99], level=0, verify_integrity=False)",
        "np.add.at(pd.Categorical(['a']).codes, 0, 99)",
        "np.maximum.at(pd.Categorical(['a']).codes, [0], [99])",
        "np.put(pd.Categorical(['a']).codes, [0], [99])",
        "np.copyto(pd.Categorical(['a']).codes, 99)",
        "np.putmask(pd.Categorical(['a']).codes, [True], [99])",
        "np.lib.stride_tricks.as_strided(pd.Categorical(['a']).codes)[0] = 99",
        "np.lib.stride_tricks.sliding_window_view(pd.Categorical(['a']).codes, 1, writeable=True)[0] = 99",
        "np.random.default_rng().shuffle(pd.Categorical(['a', 'b']).codes)",
    ],
)
def test_codes_stay_within_their_categories(language: Language, code: str) -> None:
    with pytest.raises(ValueError, match=r"read-only|codes? (need|max)"):
        _run(language, code)


def test_codes_that_are_given_are_copied(language: Language) -> None:
    code = (
        "k = np.array([0, 1], 'int8')\nc = pd.Categorical.from_codes(k, categories=['a', 'b'])\nk[0] = 99\nc.tolist()"
    )
    assert _run(language, code) == ["a", "b"]


def test_arrays_of_ones_own_are_written_to_as_ever(language: Language) -> None:
    code = """
a = np.zeros(3)
np.add.at(a, [0, 0, 2], 1)
a.setflags(write=True, align=True)
view = a[1:]
f = pd.DataFrame({"x": [1, 2]})
f.at[0, "x"] = 7
f.at[1, "x"] += 1
m = pd.MultiIndex.from_product([["a", "b"], [1]]).set_codes([1, 0], level=0)
[a.tolist(), a.base is None, view.base is a, f.x.tolist(), m.tolist(), f.x.dtype.base.name]
"""
    assert _run(language, code) == [[2, 0, 1], True, True, [7, 3], [("b", 1), ("a", 1)], "int64"]


def test_indexes_are_made_and_changed_as_ever(language: Language) -> None:
    code = """
k = np.array([0, 1], "int8")
m = pd.MultiIndex(levels=[["a", "b"], [1, 2]], codes=[k, [0, 1]], names=["x", "y"])
k[0] = 99
n = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", "y"])
[
    m.equals(n), type(m) is pd.MultiIndex, isinstance(n, pd.MultiIndex), pd.MultiIndex.__name__,
    m.set_levels(["c", "d"], level="x").tolist(), pd.MultiIndex.set_codes(m, [1, 0], level=0).tolist(),
    m.levels[0].tolist(), m.codes[1].tolist(), pd.Categorical(["a"]).from_codes([0], ["z"]).tolist(),
    pd.DataFrame({"v": [1, 2]}, index=m).unstack().shape,
]
"""
    assert _run(language, code) == [
        *(True, True, True, "MultiIndex"),
        *([("c", 1), ("d", 2)], [("b", 1), ("a", 2)]),
        *(["a", "b"], [0, 1], ["z"], (2, 2)),
    ]


def test_codes_of_one_level_alone_are_of_the_same_length(language: Language) -> None:
    with pytest.raises(ValueError, match="Unequal code lengths"):
        _run(language, "pd.MultiIndex.from_product([['a'], [1]]).set_codes([0, 0], level=0)")


def test_a_shape_is_set_where_one_variable_holds_the_array(language: Language) -> None:
    code = "def f():\n    b = np.arange(4)\n    b.shape = 2, 2\n    return b.shape\na = np.arange(6)\na.shape = 3, -1\n[a.shape, f()]"
    assert _run(language, code) == [(3, 2), (2, 2)]


def test_a_pattern_prints_nothing_of_itself(language: Language) -> None:
    output = io.StringIO()
    code = "import re\nre.compile('a+b', re.RegexFlag.DEBUG).findall('aab ab')"
    assert language.run(language.compile(code), {}, output).value == ["aab", "ab"]
    assert output.getvalue() == ""
