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
    "an in-place operator reads what it adds to": _THIEF + "d = pd.DataFrame({'a': [1]})\nd.to_pickle += thief",
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
    "a class of arrays by a property": "np.ma.array([1]).baseclass((1,), dtype=object, buffer=np.array([1]))",
    "a class of arrays by a mask": "np.ma.masked.baseclass((1,))",
    "a class of arrays by getattr": "getattr(np.ma.array([1]), 'baseclass')((1,))",
    "a class of arrays by attrgetter": "operator.attrgetter('baseclass')(np.ma.array([1]))((1,))",
    "a class of arrays by a property's getter": "np.ma.MaskedArray.baseclass.fget(np.ma.array([1]))",
    "a class of arrays in a pattern": "match np.ma.array([1]):\n    case object(baseclass=found): found((1,))",
    "a class of arrays by a hint": "import numpy.typing as nt\nnt.NDArray((1,), dtype=object, buffer=np.array([1]))",
    "a class of arrays by a hint with arguments": "import numpy.typing as nt\nnt.NDArray[np.int64]((1,), dtype=object, buffer=np.array([1]))",
    "a class of arrays by a hint's origin": "import numpy.typing as nt\ntyping.get_origin(nt.NDArray)((1,))",
    "a class of arrays by a subscript": "np.ndarray[int, np.dtype[np.int64]]((1,))",
    "a class of arrays by a hint's mro": "import numpy.typing as nt\nnt.NDArray.mro()[0]((1,))",
    "a class of arrays by an alias of an alias": "import numpy.typing as nt\ntyping.Annotated[nt.NDArray, 1].mro()",
    "classes by a hint": "typing.get_origin(typing.Type[int])('X', (), {'__array_interface__': {}})",
    "classes by an alias": "typing.Type[int].mro(int)",
    "bases by an alias": "typing.List[int].mro()",
    "a registration by a hint": "class B: pass\ntyping.Sized.register(B)",
    "a registration by a hint of one's own": (
        "T = typing.TypeVar('T')\nclass B(typing.Generic[T], collections.abc.Sized): __match_args__ = ('x',)\nB[int].register(types.GeneratorType)"
    ),
    "what isinstance asks": "class B(collections.abc.Sized): pass\nB._abc_impl",
    "what isinstance asks is set": "class B(collections.abc.Sized): pass\nsetattr(B, '_abc_impl', vars(collections.abc.Sized))",
    "what isinstance asks is set in place": "class B(collections.abc.Sized): pass\nB._abc_impl += 1",
    "what isinstance asks is deleted": "class A(collections.abc.Sized): pass\nclass B(A): pass\ndelattr(B, '_abc_impl')",
    "what a protocol is": "class P(typing.Protocol): pass\nP._is_protocol = False",
    "what a protocol is at run time": "class P(typing.Protocol): pass\nP._is_runtime_protocol = True",
    "what a protocol is as a field": "from dataclasses import dataclass\n@dataclass\nclass P(typing.Protocol):\n    _is_protocol: bool = False",
    "getters of a library's properties": "pd.MultiIndex.codes.fget(pd.MultiIndex.from_product([['a'], [1]]))",
    "getters by attrgetter": "operator.attrgetter('fget')(pd.Series.array)(pd.Series([1]))",
    "setters of a library's properties": "np.ma.MaskedArray.mask.fset(np.ma.array([1]), 1)",
    "codes are made writable by a flag": "k = pd.Categorical(['a']).codes\nk.flags['WRITEABLE'] = True\nk[0] = 99",
    "codes are made writable by a short flag": "k = pd.Categorical(['a']).codes\nk.flags['W'] = 1\nk[0] = 99",
    "codes are made writable by a flag's attribute": "k = pd.Categorical(['a']).codes\nk.flags.writeable = True\nk[0] = 99",
    "codes are made writable by a flag and setattr": "setattr(pd.Categorical(['a']).codes.flags, 'writeable', True)",
    "codes are made writable by a flag and setitem": (
        "operator.setitem(operator.attrgetter('flags')(pd.Categorical(['a']).codes), 'WRITEABLE', True)"
    ),
    "codes are made writable by a flag of a masked view": (
        "k = np.ma.array(pd.Categorical(['a']).codes, copy=False)\nk.flags['WRITEABLE'] = True"
    ),
    "flags of something else": "type(np.zeros(1).flags)(np.zeros(1))",
    "other flags": "np.zeros(1).flags['ALIGNED'] = False",
    "slots with names of their own": """
class K(str):
    def __deepcopy__(self, memo): return "__array_interface__"
class C: __slots__ = (K("k"), "__dict__")
""",
    "slots that are added to": "names = ['a']\nclass C: __slots__ = names\nnames.append('__class__')",
    "slots in a loop": "class C:\n    for __slots__ in [['a']]: pass",
    "slots of a method": "class C:\n    def __slots__(self): pass",
    "text that is equal to all": "class S(str):\n    def __eq__(self, other): return True",
    "text with the hash of another": "class S(str):\n    __hash__ = lambda self: 1",
    "text that is equal to all by another base": "class M:\n    def __eq__(self, other): return True\nclass S(M, str): pass",
    "text that takes what it is added to": "class S(str):\n    def __radd__(self, other): return '__class__'",
    "text with a generated comparison": "from dataclasses import dataclass\n@dataclass\nclass S(str):\n    x: int = 1",
    "a figure of a class of one's own": "plt.figure(FigureClass=print)",
    "figures of a class of one's own": "plt.subplots(FigureClass=print)",
    "a mosaic of a class of one's own": "plt.subplot_mosaic('AB', FigureClass=print)",
    "a frame's figure of a class of one's own": "plt.subplots(2, **{'FigureClass': print})",
    "axes of a projection of one's own": """
class P:
    def _as_mpl_axes(self): return print, {}
plt.subplots(subplot_kw={"projection": P()})
""",
    "axes of a class of one's own": "plt.figure().add_subplot(axes_class=print)",
    "the canvas of a figure": "plt.figure().canvas.print_png",
    "any method by getp": "plt.getp(pd.Series([1]), 'x')",
    "settings by their class": "type(plt.rcParams)({})",
    "options by their class": "type(pd.options.mode)(np.zeros(1)).ctypes",
    "a setting that is deleted": "del plt.rcParams['backend']",
    "a class of classes by a dtype": "pd.CategoricalDtype().type('X', (), {'__array_interface__': {}})",
    "a class of classes by a dtype of Arrow's": (
        "import pyarrow\npd.ArrowDtype(pyarrow.dictionary(pyarrow.int8(), pyarrow.string())).type('X', (), {})"
    ),
    "a class of buffers by a list of classes": "np.ScalarType[6](np.array(['a'], dtype=object))[:]",
    "zones that are forgotten while one is looked for": "zoneinfo.ZoneInfo.clear_cache()",
    "a zone past the cache": "zoneinfo.ZoneInfo.no_cache('UTC')",
    "codes are made writable by a flag that was copied": (
        "k = pd.Categorical(['a']).codes\nf = copy.copy(k.flags)\nf['W'] = True\nk[0] = 99"
    ),
    "codes are made writable by a flag and a partial": (
        "import functools\nfunctools.partial(operator.setitem, pd.Categorical(['a']).codes.flags)('W', True)"
    ),
    "the array behind flags": "np.zeros(1).flags._array",
    "the settings behind settings": "copy.copy(plt.rcParams)._real",
    "the attributes of settings": "vars(plt.rcParams)",
    "a class by the argument of a hint": "typing.get_args(typing.Optional[typing.Type[int]])[0]('X', (), {})",
    "a class by a hint that is called": "typing.Type[int]('X', (), {})",
    "a class by a hint that is inherited from": "class X(typing.Type[int]): pass",
    "a class by a class of holidays": (
        "from pandas.tseries.holiday import AbstractHolidayCalendar\ntype(AbstractHolidayCalendar)('X', (), {})"
    ),
    "a class by a class of zones": "from dateutil.tz import tzutc\ntype(tzutc)('X', (), {})",
    "a class of arrays that is inherited from": "class A(np.ndarray[int, int]): pass",
    "an attribute of a hint is set": "typing.List[int].append = 1",
    "an attribute of a hint of one's own is set": (
        "T = typing.TypeVar('T')\nclass B(typing.Generic[T]): pass\nsetattr(B[int], '_abc_impl', 1)"
    ),
    "raw memory by a hint": "import numpy.typing as nt\nnt.NDArray.ctypes",
    "a method of a hint's class": "import numpy.typing as nt\nnt.NDArray[np.int8].tofile(np.zeros(1), 'x')",
    "a getter as one's own": "class A: x = property(pd.Series.array.fget)",
    "a setter as one's own": "class A: x = property(None, pd.Index.name.fset)",
    "the numbers behind an array": "import array\narray.array('i', [1])._items",
    "an array that is made again": "import array\narray.array('i', [1]).__init__('q')",
    "an array that is inherited from": "import array\nclass A(array.array): pass",
    "a zone that is inherited from": "class Z(zoneinfo.ZoneInfo): pass",
    "a zone from a file by its type": "type(zoneinfo.ZoneInfo('UTC')).from_file(None)",
    "a slot of Python's own": "class A: __slots__ = ('__class__',)",
    "a slot for raw memory": "class A: __slots__ = ['__array_interface__']",
    "a slot of a made class": (
        "from dataclasses import make_dataclass\nclass S(str):\n    def isidentifier(self): return True\n"
        "make_dataclass('D', [S('__array_interface__')], slots=True)"
    ),
    "a template of text that says it is another": (
        "import matplotlib.ticker as mt\nclass S(str):\n    def __str__(self): return self\n    def __format__(self, spec): return 'x'\n"
        "mt.StrMethodFormatter(S('{x.__class__.__mro__}'))(1)"
    ),
    "a template of an object that says it is text": (
        "import matplotlib.ticker as mt\nclass Q:\n    def __str__(self): return '{x.__class__}'\nmt.StrMethodFormatter(Q())(1)"
    ),
    "LaTeX by what draws": """
class P:
    def draw_path(self, renderer, *_): renderer.get_texmanager().make_png("x", 5, 5)
plt.plot([1, 2])[0].set_path_effects([P()])
plt.gcf().savefig("x")
""",
    "a window by lengths that lie": """
class I(int):
    def __sub__(self, other): return 0
    def __mul__(self, other): return 0
np.lib.stride_tricks.as_strided(np.zeros(3), (I(100),), (8,))
""",
    "an array that is shortened by what is put into it": """
a = np.zeros(10_000)
class F:
    def __float__(self):
        a.resize(1)
        return 1.0
a[9_999] = F()
""",
    "an array that gets another shape by what is put into it": """
a = np.zeros(10_000)
class F:
    def __float__(self):
        a.shape = (100, 100)
        return 1.0
a[9_999] = F()
""",
    "a generator's state": "b = np.random.MT19937()\nb.state = b.state",
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
P = dataclass(P)
P.__match_args__
""",
    "an attribute of a namespace that is copied as another": """
class K(str):
    def __deepcopy__(self, memo): return "__array_interface__"
n = copy.deepcopy(types.SimpleNamespace(**{K("k"): {"shape": (1,), "typestr": "|u1", "data": (id([]), True), "version": 3}}))
np.asarray(n).dtype == "u1"
""",
    "the dict of options": "getattr(pd.options.display, 'd', None)",
    "settings as a dict of another's methods": """
try: dict.__setitem__(plt.rcParams, "backend", 5)
except TypeError: pass
try: dict.update(plt.rcParams, backend=5)
except TypeError: pass
plt.rcParams["backend"] == 5 or isinstance(plt.rcParams, dict)
""",
    "a memo of a class of its own": """
seen = []
class E:
    def __deepcopy__(self, memo):
        seen.append(type(memo))
        return self
copy.deepcopy(E())
seen != [dict]
""",
    "hints of newer Pythons that run what they say": (
        "[part for part in typing.get_args(typing.Union['print(1)', int]) if not isinstance(part, str | type)]"
    ),
    "hints of a class of one's own": (
        "class T(typing.TypedDict):\n    x: 'print(1)'\nclass N(typing.NamedTuple):\n    x: 'print(1)'\n"
        "[h for c in (T, N) for h in c.__annotations__.values() if not isinstance(h, str)]"
    ),
    "names behind a copy": """
class E:
    def __deepcopy__(self, memo):
        memo |= {"x": 1}
        return [type(copy.copy(memo)) is dict, *copy.copy(memo)]
copy.deepcopy(E()) != [True, "x"]
""",
    "a flag of a frame with a name of its own": """
try: pd.DataFrame().flags["__array_interface__"] = {}
except ValueError as error: found = None
found
""",
    "names of Python's own by keyword": """
found = []
for make in (pd.DateOffset, plt.figure().add_gridspec(1, 1).update, plt.plot([1])[0].set, plt.plot([1])[0].update):
    try: found.append(make(**{"__array_interface__": 1}))
    except (ValueError, TypeError, AttributeError): pass
found
""",
    "annotations of a library's function": (
        "[f for f in (np.linalg.norm, statistics.mean, pd.DataFrame.pipe, textwrap.wrap) if f.__annotations__]"
    ),
    "defaults that matplotlib goes back to": "plt.rcParamsDefault['font.size'] = 77\nplt.rcdefaults()\nplt.rcParams['font.size'] == 77",
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

STOPPED = {
    "an index that shortens the array it is for": """
from array import array
class X:
    def __index__(self):
        del a[:]
        return 9_000
a = array("q", range(10_000))
for use in (lambda: a[X()], lambda: a.__setitem__(X(), 1), lambda: a.pop(X()), lambda: a.__delitem__(X()), lambda: a.insert(X(), 1), lambda: a[X():9_999:2],
            lambda: a.__setitem__(slice(X(), 9_999, 2), array("q", range(500))), lambda: a.__delitem__(slice(0, X(), 2)), lambda: a * X()):
    a[:] = array("q", range(10_000))
    try: use()
    except (IndexError, ValueError, MemoryError): pass
len(a) < 10_000
""",
    "a value that shortens the array it is for": """
from array import array
class X:
    def __index__(self):
        del a[:]
        return 5
    __float__ = __index__
    def __eq__(self, other):
        del a[:]
        return False
    def __iter__(self): return iter([1, X(), 2])
found = []
for code in "qd":
    a = array(code, range(10_000))
    for use in (lambda: a.__setitem__(9_999, X()), lambda: a.append(X()), lambda: a.insert(9_999, X()), lambda: a.extend([X()] * 1000), lambda: a.extend(X()),
                lambda: a.fromlist([X()] * 1000), lambda: a.count(X()), lambda: a.index(X()), lambda: a.remove(X()), lambda: X() in a):
        a[:] = array(code, range(10_000))
        try: use()
        except (IndexError, ValueError, TypeError): pass
        found.append(len(a) < 10_000)
all(found)
""",
    "a reader that is begun again while it reads": """
import csv
class Lines:
    asked = 0
    def __iter__(self): return self
    def __next__(self):
        self.asked += 1
        if self.asked == 1:
            try: next(reader)
            except ValueError: Lines.refused = True
        if self.asked > 3: raise StopIteration
        return 'a,b,"c\\n'
for make in (csv.reader, lambda lines: csv.DictReader(lines).reader):
    Lines.refused = False
    reader = make(Lines())
    list(reader)
Lines.refused
""",
    "a zone's name that is something else": """
class Key:
    def __hash__(self): return hash("UTC")
    def __eq__(self, other): return [zoneinfo.ZoneInfo(n) for n in ("Europe/Oslo", "Asia/Tokyo", "Africa/Cairo", "America/Lima", "Asia/Seoul")] == []
refused = 0
for make in (zoneinfo.ZoneInfo, type(zoneinfo.ZoneInfo("UTC"))):
    for _ in range(20):
        try: make(Key())
        except TypeError: refused += 1
import dateutil.tz
refused == 40 and dateutil.tz.gettz(Key()) is None
""",
    "a depth that lies": """
import sys
class I(int):
    def __lt__(self, other): return True
    def __gt__(self, other): return True
sys.setrecursionlimit(I(10 ** 8))
sys.getrecursionlimit() == 50_000
""",
    "triangles that are others afterwards": """
import matplotlib.tri as tri
made = tri.Triangulation([0, 1, 0, 1], [0, 0, 1, 1], [[0, 1, 2], [1, 3, 2]])
for part in (made.triangles, made.edges, made.neighbors, made.get_masked_triangles()):
    part[:] = 10 ** 7
for draw in (plt.tricontour, plt.tricontourf, plt.tripcolor):
    draw(made, [1, 2, 3, 4])
made.get_trifinder()(0.1, 0.1)
tri.LinearTriInterpolator(made, [1, 2, 3, 4])(0.1, 0.1)
made.triangles.tolist() == [[0, 1, 2], [1, 3, 2]]
""",
    "codes that are others when they are asked for again": """
class A:
    asked = 0
    def __array__(self, dtype=None, copy=None):
        A.asked += 1
        return np.array([0] if A.asked < 3 else [99], "i1")
class L(list):
    asked = 0
    def __iter__(self):
        L.asked += 1
        return iter([0] if L.asked < 3 else [99])
index = pd.MultiIndex.from_product([["a"], [1]])
[pd.Categorical.from_codes(A(), ["a"]).tolist(), index.set_codes(L([0]), level=0).tolist()] == [["a"], [("a", 1)]]
""",
    "text that is longer than it says": """
class S(str):
    def __len__(self): return 10 ** 9
    def __iter__(self): return iter([])
    def startswith(self, *_): return False
    def __getitem__(self, i): return "x"
import io
out = io.StringIO()
out.write(S("abc"))
[out.getvalue(), "".join([S("ab")]), f"{S('a')}", S("a") + "b", pd.Series([S("ab")]).str.upper()[0]] == ["abc", "ab", "a", "ab", "AB"]
""",
}
"""What ends the process in plain Python, or would lie to it; here each of it is true."""

WORKS = {
    "typed arrays": (
        """
from array import array
a = array("i", [1, 2, 3])
a.append(4)
a.extend([5, 6])
a.insert(0, 0)
a += array("i", [7])
a[0] = 9
a[1:2] = array("i", [8, 8])
c = copy.copy(a)
c.pop()
del c[0]
c.remove(4)
c.reverse()
[a, (a * 2)[::9], c, sum(a), max(a), a == array("i", a), a.index(3), a.count(8), np.array(a).dtype.name, pd.Series(a).sum(), 3 in a, str(a), bytes(a)[:4],
 array("u", "abc").tounicode(), array("d", [1]).tolist(), array("b", b"ab").typecode, a + a == a * 2, array("b", [1]) < array("b", [2]), type(a) is array]
""",
        "[array('i', [9, 8, 8, 2, 3, 4, 5, 6, 7]), array('i', [9, 9]), array('i', [6, 5, 3, 2, 8, 8]), 52, 9, True, 4, 2, 'int32', "
        "np.int64(52), True, \"array('i', [9, 8, 8, 2, 3, 4, 5, 6, 7])\", b'\\t\\x00\\x00\\x00', 'abc', [1.0], 'b', True, True, True]",
    ),
    "readers": (
        """
import csv, io
[list(csv.reader(io.StringIO("a,b\\n1,2"))), list(csv.DictReader(["a,b", "1,2"])), csv.reader(["a|b"], delimiter="|").dialect.delimiter,
 csv.Sniffer().sniff("a;b\\n1;2\\n").delimiter, pd.read_csv(io.StringIO("a;b\\n1;2"), sep=None, engine="python").shape]
""",
        [[["a", "b"], ["1", "2"]], [{"a": "1", "b": "2"}], "|", ";", (1, 2)],
    ),
    "zones": (
        """
from zoneinfo import ZoneInfo
z = ZoneInfo("Europe/Oslo")
[z is ZoneInfo(key="Europe/Oslo"), isinstance(z, ZoneInfo), type(z) is ZoneInfo, z.key, str(pd.Timestamp("2024-07-01", tz=z).utcoffset()), copy.deepcopy(z) == z]
""",
        [True, True, True, "Europe/Oslo", "2:00:00", True],
    ),
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
    "flags of arrays": (
        """
a = np.zeros(3)
a.flags.writeable = False
b = np.zeros(3)
b.flags["WRITEABLE"] = False
try: a[0] = 1
except ValueError as error: found = str(error)
[a.flags.writeable, b.flags["W"], b.flags.c_contiguous, found, a.flags == b.flags, repr(a.flags)[:16], pd.DataFrame().flags.allows_duplicate_labels]
""",
        [False, False, True, "assignment destination is read-only", True, "  C_CONTIGUOUS :", True],
    ),
    "hints of arrays": (
        """
import numpy.typing as npt
from numpy.typing import NDArray, ArrayLike
def f(a: npt.NDArray[np.float64], b: "ArrayLike" = None, c: ArrayLike | None = None) -> np.ndarray:
    x: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = np.zeros(1)
    return x
Both = NDArray[np.int64] | list[int]
[isinstance(f(0), typing.get_origin(NDArray)), typing.get_origin(NDArray[np.int8]) is np.ndarray, typing.get_args(dict[str, int])]
""",
        [True, True, (str, int)],
    ),
    "slots of all kinds": (
        """
class A:
    __slots__ = "one"
class B(A):
    __slots__ = ["_two", "__three"]
    def __init__(self): self.one, self._two, self.__three = 1, [2], 3
    def all(self): return [self.one, self._two, self.__three]
class C(B):
    __slots__: tuple = ("four", "__dict__")
class D:
    __slots__ = {"x": "documented"}
c = C()
c.four, c.five = 4, 5
d = copy.deepcopy(c)
[d.all(), d.four, d.five, d._two is c._two, copy.copy(c)._two is c._two]
""",
        [[1, [2], 3], 4, 5, False, True],
    ),
    "text of a class of one's own": (
        """
class Word(str):
    def __new__(cls, text): return super().__new__(cls, text.strip())
    def __add__(self, other): return Word(str(self) + other)
    def __repr__(self): return f"Word({str(self)})"
class Color(str, enum.Enum):
    RED = "red"
[Word(" a ") + "b" == "ab", {Word("a"): 1}["a"], repr(Word("a")), {Color.RED: 1}["red"], Color("red") is Color.RED]
""",
        [True, 1, "Word(a)", 1, True],
    ),
    "copies of a generic class": (
        """
class Stack(typing.Generic[typing.TypeVar("T")]):
    def __init__(self): self.items = [1]
s = Stack[int]()
[copy.deepcopy(s).items, copy.copy(s).items is s.items]
""",
        [[1], True],
    ),
    "settings": (
        """
import matplotlib as mpl
old = plt.rcParams.copy()
mpl.rcParams["font.size"] = 7
plt.rcParams.update({"figure.figsize": (2, 2)})
with plt.rc_context({"font.size": 3}):
    inside = plt.rcParams["font.size"]
found = [inside, plt.rcParams["font.size"], plt.figure().get_size_inches().tolist(), "font.size" in plt.rcParams, old["font.size"]]
plt.rcParams.update(old)
found + [mpl.rcParams["font.size"], plt.rcParams.get("nothing"), dict(plt.rcParams)["font.size"], list(plt.rcParams.find_all("font.size"))]
""",
        [3.0, 7.0, [2.0, 2.0], True, 10.0, 10.0, None, 10.0, ["font.size"]],
    ),
    "options": (
        "pd.options.display.max_rows = 7\nfound = [pd.get_option('display.max_rows'), pd.options.display.html.border]\n"
        "pd.reset_option('display.max_rows')\n[*found, 'max_rows' in dir(pd.options.display)]",
        [7, 1, True],
    ),
    "projections by name": (
        "[a.name for a in (plt.subplot(projection='polar'), plt.figure().add_subplot(projection='3d'), "
        "plt.subplots(subplot_kw={'polar': True})[1])]",
        ["polar", "3d", "polar"],
    ),
    "getters of one's own properties": (
        "class A:\n    @property\n    def x(self): return 1\nclass B(A):\n    x = property(lambda self: A.x.fget(self) + 1)\nB().x",
        2,
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
    made = Language()
    made.load_plots()
    yield made


def _run(language: Language, code: str) -> object:
    return language.run(language.compile("import warnings, types, copy\n" + code), {}, io.StringIO()).value


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
    value = _run(language, code)
    assert (repr(value) if isinstance(expected, str) else value) == expected


@pytest.mark.parametrize("name", STOPPED)
def test_it_is_stopped_in_time(language: Language, name: str) -> None:
    assert _run(language, STOPPED[name]) is True


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
