"""Attacks on a session's graph: by code within the language, and by streams that code out of it has forged."""

from __future__ import annotations

import pickle
from typing import Final

from byref_sandbox.contents import Name
from byref_sandbox.state.builders import BUILDERS

_HOOK = "print('RAN')"

# With the language intact. What a cell leaves is written, read and written again: nothing may print RAN meanwhile.
INTACT: Final[dict[str, str]] = {
    "__reduce__": "class C:\n    def __reduce__(self):\n        print('RAN')\n        return (list, ())\nc = C()",
    "__reduce_ex__": "class C:\n    def __reduce_ex__(self, p):\n        print('RAN')\nc = C()",
    "__getstate__": "class C:\n    def __getstate__(self):\n        print('RAN')\nc = C()",
    "__setstate__": "class C:\n    def __setstate__(self, s):\n        print('RAN')\nc = C()",
    "__getnewargs__": "class C(tuple):\n    def __getnewargs__(self):\n        print('RAN')\nc = C()",
    "__getnewargs_ex__": "class C(int):\n    def __getnewargs_ex__(self):\n        print('RAN')\nc = C()",
    "pickle": "import pickle\nc = pickle.dumps(1)",
    "copyreg": "import copyreg\ncopyreg.pickle(int, print)",
    "a hook by setattr": "class C: pass\nsetattr(C, '__reduce_ex__', lambda s, p: print('RAN'))\nc = C()",
    "a hook on an instance by setattr": "class C: pass\nc = C()\nsetattr(c, '__reduce__', lambda: print('RAN'))",
    "a hook by vars": "class C: pass\nc = C()\nvars(c)['__reduce__'] = lambda: print('RAN')",
    "a hook by globals": "globals()['__reduce__'] = 1",
    "a hook on a function": "def f(): pass\nf.__reduce__ = lambda: print('RAN')",
    "a hook by a dataclass": "C = dataclasses.make_dataclass('C', ['__reduce__'])",
    "a hook by a named tuple": "C = collections.namedtuple('C', ['__reduce__'])",
    "a hook by a namespace": "from types import SimpleNamespace\nc = SimpleNamespace(**{'__reduce_ex__': lambda p: print('RAN')})",
    "a hook in an enumeration": "class E(enum.Enum):\n    A = 1\n    def __reduce_ex__(self, p):\n        print('RAN')\ne = E.A",
    "a hook by slots": "class C:\n    __slots__ = ('__reduce__',)\nc = C()",
    "a hook of a library": "np.ndarray.__reduce__ = lambda s: print('RAN')",
    "type with three arguments": "C = type('C', (), {'__reduce__': lambda s: print('RAN')})",
    "a metaclass": "class M(type):\n    def __call__(cls):\n        print('RAN')\nclass C(metaclass=M): pass",
    "__getattribute__": "class C:\n    def __getattribute__(self, n):\n        print('RAN')\nc = C()",
    "__class__": "class C:\n    @property\n    def __class__(self):\n        print('RAN')\n        return int\nc = C()",
    "__dict__": "class C:\n    @property\n    def __dict__(self):\n        print('RAN')\n        return {}\nc = C()",
    "__del__": "class C:\n    def __del__(self):\n        print('RAN')\nc = C()",
    "__instancecheck__": "class C:\n    def __instancecheck__(cls, o):\n        print('RAN')\nc = C()",
    "__subclasshook__": "from abc import ABC\nclass C(ABC):\n    @classmethod\n    def __subclasshook__(cls, o):\n        print('RAN')\nc = 1",
    "__mro_entries__": "class C:\n    def __mro_entries__(self, b):\n        print('RAN')\n        return ()\nclass D(C()): pass",
    "__getattr__": "class C:\n    def __getattr__(self, n):\n        print('RAN')\n        return lambda *a: (list, ())\nc = C()\nl = [c, c]",
    "__init__ and __new__": "armed = False\nclass C:\n    def __new__(cls, *a):\n        print('RAN') if armed else None\n        return super().__new__(cls)\n    def __init__(self, *a):\n        print('RAN') if armed else None\nc = C(1)\narmed = True",
    "__setattr__": "armed = False\nclass C:\n    def __setattr__(self, n, v):\n        print('RAN') if armed else None\n        super().__setattr__(n, v)\nc = C()\nc.x = 1\narmed = True",
    "__init_subclass__": "armed = False\nclass B:\n    def __init_subclass__(cls, **k):\n        print('RAN') if armed else None\nclass C(B): pass\nc = C()\narmed = True",
    "__set_name__": "armed = False\nclass D:\n    def __set_name__(self, o, n):\n        print('RAN') if armed else None\n    def __get__(self, o, t=None):\n        print('RAN') if armed else None\nclass C:\n    d = D()\nc = C()\narmed = True",
    "a property": "class C:\n    @property\n    def x(self):\n        print('RAN')\n    @functools.cached_property\n    def y(self):\n        print('RAN')\nc = C()",
    "a descriptor that has data": "class D:\n    def __get__(self, o, t=None):\n        print('RAN')\n    def __set__(self, o, v):\n        print('RAN')\n    def __delete__(self, o):\n        print('RAN')\nclass C:\n    x = D()\nc = C()",
    "truth, length and iteration": "class C:\n    def __bool__(self):\n        print('RAN')\n        return True\n    def __len__(self):\n        print('RAN')\n        return 1\n    def __iter__(self):\n        print('RAN')\n        return iter(())\n    def __contains__(self, x):\n        print('RAN')\nc = C()\nl = [c, {'a': c}, (c,)]",
    "equality": "class C:\n    def __eq__(self, o):\n        print('RAN')\n        return True\nc = C()\nl = [c, C(), c]",
    "comparison and conversion": "class C(int):\n    def __int__(self):\n        print('RAN')\n        return 1\n    def __index__(self):\n        print('RAN')\n        return 1\n    def __lt__(self, o):\n        print('RAN')\nc = C(5)\nl = [c]",
    "a float that lies": "class C(float):\n    def __float__(self):\n        print('RAN')\n        return 0.0\nc = C(5)",
    "bytes that lie": "class C(bytes):\n    def __bytes__(self):\n        print('RAN')\n        return b''\n    def __len__(self):\n        print('RAN')\n        return 9\nc = C(b'ab')",
    "a tuple that lies": "class C(tuple):\n    def __iter__(self):\n        print('RAN')\n        return iter(())\n    def __len__(self):\n        print('RAN')\n        return 9\n    def __getitem__(self, i):\n        print('RAN')\nc = C((1, 2))",
    "a frozen set that lies": "class C(frozenset):\n    def __iter__(self):\n        print('RAN')\n        return iter(())\nc = C((1, 2))",
    "a dict that lies": "class C(dict):\n    def items(self):\n        print('RAN')\n        return []\n    def keys(self):\n        print('RAN')\n    def __iter__(self):\n        print('RAN')\n    def __getitem__(self, k):\n        print('RAN')\n    def __setitem__(self, k, v):\n        print('RAN') if v == 9 else super().__setitem__(k, v)\nc = C()\nc['a'] = 1\ndict.update(c, b=9)",
    "a list that lies": "class C(list):\n    def append(self, x):\n        print('RAN')\n    def extend(self, x):\n        print('RAN')\n    def __iter__(self):\n        print('RAN')\n    def __len__(self):\n        print('RAN')\n        return 0\nc = C([1, 2])",
    "a set that lies": "class C(set):\n    def add(self, x):\n        print('RAN')\n    def __iter__(self):\n        print('RAN')\nc = C([1, 2])",
    "a deque that lies": "class C(collections.deque):\n    def append(self, x):\n        print('RAN')\n    def __iter__(self):\n        print('RAN')\nc = C([1, 2])",
    "a default dict that lies": "def make():\n    print('RAN')\nclass C(collections.defaultdict):\n    def __missing__(self, k):\n        print('RAN')\nc = C(make)\nd = collections.defaultdict(make)\nd['a'] = 1",
    "a counter that lies": "class C(collections.Counter):\n    def update(self, *a):\n        print('RAN') if a and a[0] == 'x' else super().update(*a)\n    def items(self):\n        print('RAN')\nc = C('aab')",
    "an ordered dict that lies": "class C(collections.OrderedDict):\n    def items(self):\n        print('RAN')\n    def __setitem__(self, k, v):\n        super().__setitem__(k, v)\nc = C(a=1)",
    "a user dict that lies": "class C(collections.UserDict):\n    def __setitem__(self, k, v):\n        print('RAN') if v == 9 else super().__setitem__(k, v)\nc = C(a=1)\nc.data['b'] = 9",
    "a text that lies": "class S(str):\n    def __hash__(self):\n        print('RAN')\n        return 1",
    "a text that is no name": "class S(str):\n    def strip(self):\n        print('RAN')\nclass C: pass\nc = C()\nsetattr(c, S('x'), 1)",
    "a dataclass that is made again": "armed = False\ndef make():\n    print('RAN') if armed else None\n    return []\n@dataclasses.dataclass\nclass C:\n    x: int\n    l: list = dataclasses.field(default_factory=make)\n    def __post_init__(self):\n        print('RAN') if armed else None\nc = C(1)\narmed = True",
    "a dataclass with slots that is made again": "armed = False\n@dataclasses.dataclass(slots=True)\nclass C:\n    x: int\n    def __post_init__(self):\n        print('RAN') if armed else None\nc = C(1)\narmed = True",
    "an enumeration that is made again": "armed = False\nclass E(enum.Enum):\n    A = 1\n    def __init__(self, v):\n        print('RAN') if armed else None\n    @classmethod\n    def _missing_(cls, v):\n        print('RAN')\ne = E.A\narmed = True",
    "an enumeration that numbers itself": "armed = False\nclass E(enum.Enum):\n    def _generate_next_value_(name, start, count, last):\n        print('RAN') if armed else None\n        return name\n    A = enum.auto()\ne = E.A\narmed = True",
    "an enumeration that is inherited": "armed = False\nclass B(enum.Enum):\n    def __init__(self, v):\n        print('RAN') if armed else None\nclass E(B):\n    A = 1\ne = E.A\narmed = True",
    "an enumeration of a dataclass that is made again": "armed = False\n@dataclasses.dataclass\nclass B:\n    x: int\n    def __post_init__(self):\n        print('RAN') if armed else None\n    def __init_subclass__(cls, **k):\n        print('RAN') if armed else None\n    def __setattr__(self, n, v):\n        print('RAN') if armed else None\n        self.__dict__[n] = v\nclass E(B, enum.Enum):\n    A = 1\n    B = 2\ne = E.A\narmed = True",
    "a named tuple that is made again": "armed = False\nfrom typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    def __len__(self):\n        print('RAN')\n        return 1\np = P(1)\nclass Q(P):\n    def __new__(cls, *a):\n        print('RAN') if armed else None\n        return super().__new__(cls, *a)\nq = Q(1)\narmed = True",
    "an error that is made again": "armed = False\nclass Bad(Exception):\n    def __init__(self, *a):\n        print('RAN') if armed else None\n        super().__init__(*a)\n    def __str__(self):\n        print('RAN')\n        return ''\n    @property\n    def args(self):\n        print('RAN')\n        return ()\ne = Bad(1)\narmed = True",
    "a time zone that lies": "import datetime as dt\nclass Z(dt.tzinfo):\n    def utcoffset(self, d):\n        print('RAN')\n        return dt.timedelta(0)\n    def dst(self, d):\n        print('RAN')\nz = Z()\nt = dt.datetime(2024, 1, 1, tzinfo=z)",
    "a date that lies": "import datetime as dt\nclass D(dt.datetime):\n    @property\n    def year(self):\n        print('RAN')\n        return 1\n    def isoformat(self):\n        print('RAN')\nd = D(2024, 1, 1)",
    "functions in a vectorizer": "def f(x):\n    print('RAN')\nv = np.vectorize(f, otypes=[float])",
    "a partial and a map": "def f(*a):\n    print('RAN')\np = functools.partial(f, 1)\nm = map(f, [1])\nk = filter(f, [1])",
    "a cached function": "@functools.lru_cache\ndef f():\n    print('RAN')\ng = f",
    "an object in an array": "class C:\n    def __eq__(self, o):\n        print('RAN')\n    def __len__(self):\n        print('RAN')\n        return 2\n    def __getitem__(self, i):\n        print('RAN')\n        return 1\na = np.empty(2, object)\na[0] = C()\na[1] = C()",
    "an object in a table": "class C:\n    def __eq__(self, o):\n        print('RAN')\n        return True\n    def __len__(self):\n        print('RAN')\n        return 2\nt = pd.DataFrame({'x': pd.Series([1, 2])})\nt['x'] = t['x'].astype(object)\nt.iat[0, 0] = 5\nt.attrs['c'] = C()",
    "a name of a class that lies": "class C:\n    g = (i for i in [1])\nC.__name__ = 'x' * 1000 if False else 'D'\nc = C()",
    "a reader of JSON whose constant compares": "import json\nclass E:\n    def __eq__(self, o):\n        print('RAN')\n        return True\n    def __call__(self, x):\n        return 'const'\nd = json.JSONDecoder(parse_constant=E())",
    "settings in a dict that lies": "import configparser\nclass D(dict):\n    armed = False\n    def keys(self):\n        print('RAN') if D.armed else None\n        return super().keys()\n    def __iter__(self):\n        print('RAN') if D.armed else None\n        return super().__iter__()\n    def __setitem__(self, k, v):\n        print('RAN') if D.armed else None\n        super().__setitem__(k, v)\nc = configparser.ConfigParser(dict_type=D)\nc.read_string('[a]\\nx = 1')\nD.armed = True",
    "a pattern of bytes that lies": "class B(bytes):\n    armed = False\n    def decode(self, *a):\n        print('RAN') if B.armed else None\n        return bytes.decode(self, *a)\n    def __hash__(self):\n        print('RAN') if B.armed else None\n        return 1\np = re.compile(B(b'a'))\nB.armed = True",
    "text like a reference": "a = [1]\nb = ['j\\x00\\x00\\x00Z', b'j\\x00\\x00\\x00Z', 'j\\x01\\x00\\x00Z' * 50]\nc = a",
    "a name of settings": "globals()['.settings.csv'] = 1",
    "a name of exports": "globals()['.exports'] = {}",
    "the builtins": "__builtins__ = {}",
    "a dict of all names": "g = globals()",
    "the names of an instance": "class C: pass\nc = C()\nc.x = 1\nv = vars(c)",
    "a context manager that is left open": "from contextlib import contextmanager\n@contextmanager\ndef f():\n    try:\n        yield\n    finally:\n        print('RAN')\nwith f():\n    pass\nx = 1",
    "a generator in the middle of its work": "def f():\n    try:\n        yield 1\n    finally:\n        pass\ng = f()\nnext(g)",
}  # fmt: skip

HASHES: Final[dict[str, tuple[str, set[str]]]] = {
    # The one kind of method that does run: a dict cannot be built without. What it does ends with its name.
    "a hash that raises later": ("armed = False\nclass K:\n    def __hash__(self):\n        if armed:\n            raise ValueError('no')\n        return 1\nd = {K(): 1}\nx = [5]\ny = x\narmed = True", {"d"}),
    "a hash that ends the program": ("armed = False\nclass K:\n    def __hash__(self):\n        if armed:\n            raise SystemExit\n        return 1\nd = {K(): 1}\nx = [5]\ny = x\narmed = True", {"d"}),
    "two hashes, one of which raises": ("armed = False\nclass K:\n    def __init__(self, bad):\n        self.bad = bad\n    def __hash__(self):\n        if armed and self.bad:\n            raise ValueError('no')\n        return 1\n    def __eq__(self, o):\n        return self is o\nd = {K(True): 1}\ne = {K(False): 1}\nx = [5]\ny = x\narmed = True", {"d"}),
    "an equality that raises later": ("armed = False\nclass K:\n    def __hash__(self):\n        return 1\n    def __eq__(self, o):\n        if armed:\n            raise ValueError('no')\n        return False\nd = {K(): 1, K(): 2}\nx = [5]\ny = x\narmed = True", {"d"}),
    "a hash that changes other names": ("armed = False\nclass K:\n    def __hash__(self):\n        if armed:\n            x.append(6)\n        return 1\nd = {K(): 1}\nx = [5]\ny = x\narmed = True", set()),
    "a hash over an attribute that is gone": ("class K:\n    def __init__(self):\n        self.a = 1\n    def __hash__(self):\n        return self.a\nk = K()\nd = {k: 1}\ndel k.a\nx = [5]\ny = x", {"d", "k"}),
}  # fmt: skip


# With the language fallen: code has written what it wants to where the stream is. ---------------------------------------------

_NUMBERS: Final = {name: number for number, name in enumerate(BUILDERS)}


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + len(data).to_bytes(4, "little") + data


def number(value: int) -> bytes:
    return b"J" + value.to_bytes(4, "little", signed=True)


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + b"(" + b"".join(arguments) + b"tR"


def make(name: str, *arguments: bytes) -> bytes:
    return call(b"h" + bytes([_NUMBERS[name]]), *arguments)


def known(name: str) -> bytes:
    return make("known", text(name))


def table(**items: bytes) -> bytes:
    return b"}" + b"".join(text(key) + value + b"s" for key, value in items.items())


def values(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def plain(value: object) -> bytes:
    """The opcodes of a plain value, without what begins and ends a pickle."""
    return pickle.dumps(value, 2)[2:-1].replace(b"q\x00", b"").replace(b"q\x01", b"")


NONE, TRUE, EMPTY = b"N", b"\x88", b"}"
USER: Final = make("make_class", text("class"), text("C"), values(known("builtins:object")), EMPTY, text(""))
_IN_CLASS = lambda **own: make("fill_class", USER, values(table(**own), EMPTY, NONE, text("C"), NONE, b"\x89"))  # noqa: E731
_A_LIST = b"]"

FORGED: Final[dict[str, bytes]] = {
    # Each of them is an error of its name alone.
    "a global": b"cos\nsystem\n",
    "a global on the stack": text("builtins") + text("eval") + b"\x93",
    "a global of this package": b"cbyref_sandbox.state.builders\nBuilders\n",
    "a global of the pickle module": b"c_pickle\nloads\n",
    "an instance by its class": b"(ios\nsystem\n",
    "an object by its class": b"(" + text("x") + b"o",
    "an extension": b"\x82\x01",
    "a persistent object": b"Pos\n",
    "a persistent object by a text": text("x") + b"Q",
    "a name that is not known": known("os:system"),
    "a name that is no text": make("known", _A_LIST),
    "eval": call(known("builtins:eval"), text("1 + 1")),
    "exec": call(known("builtins:exec"), text("x = 1")),
    "compile": call(known("builtins:compile"), text("1"), text("f"), text("eval")),
    "a file": call(known("builtins:open"), text("/etc/passwd")),
    "a private attribute": call(known("builtins:getattr"), known("pandas:DataFrame"), text("_mgr")),
    "a class behind an object": call(known("builtins:getattr"), known("pandas:DataFrame"), text("__subclasses__")),
    "a helper of another maker": make("helper", text("eval"), values(text("1"))),
    "a helper of no function": make("helper", text("context_manager"), values(known("json:"))),
    "a helper of a class": make("helper", text("context_manager"), values(known("builtins:object"))),
    "a helper in a context that is none": make("helper", text("in_context"), values(known("json:"), known("builtins:len"))),
    "a helper of too many": make("helper", text("in_context"), values(text("x"), text("y"), text("z"))),
    "a helper of nothing": make("helper", text("context_manager"), values()),
    "a helper of a library that is not loaded": make("helper", text("no_such"), values(text("x"))),
    "a cycle of no list": make("cycle", text("ab"), number(1)),
    "a cycle that has given more than it has": make("cycle", plain([1]), number(2)),
    "a generator of a library's function": make("generator", known("builtins:print"), values(text("RAN")), EMPTY),
    "the end of no generator": make("ended_generator", EMPTY),
    "a queue of no kind": make("thread_queue", text("Thread")),
    "a generator of a function that is none": make("generator", known("functools:reduce"), values(), EMPTY),
    "a context of a library's function": make("context", known("builtins:exec"), values(text("x = 1")), EMPTY),
    "a context of a function that is no generator": make("context", known("functools:reduce"), values(), EMPTY),
    "a parser of another module": make("parser", text("BasicInterpolation"), EMPTY),
    "an archive of a text": make("archive", text("/etc/passwd"), text("r"), text("x"), text("y"), text("z"), text("u")),
    "a file that is written": make("file", text("a"), text("a"), text("w"), text("x"), b"K\x00", text("utf-8"), text("strict"), b"N"),
    "a file of no mode": make("file", text("a"), text("a"), text("../r"), b"N", b"K\x00"),
    "intervals of texts": make("intervals", text("ab"), text("cd"), text("right")),
    "a decoder of no options": make("decoder", values(text("object_hook"))),
    "a zone that is a path": make("old_zone", text("../../../etc/passwd")),
    "a type hint of no text": make("forward_ref", known("builtins:str"), TRUE, TRUE, TRUE),
    "a type hint by its class": call(known("typing:ForwardRef"), text("x")),
    "a zone of a class": make("old_zone", known("builtins:object")),
    "the metaclass of a library": make("make_class", text("class"), text("C"), values(known("builtins:object")), EMPTY, text("type")),
    "a hook as a method": make("bound", values(), text("__reduce_ex__")),
    "the namespace of a module": make("bound", known("json:"), text("__dict__")),
    "code of no program": make("code", b"C\x10" + b"x" * 16, number(1), text("f")),
    "code with a wrong number": make("code", b"C\x10" + b"p" * 16, number(99), text("f")),
    "a module's own code": make("code", b"C\x10" + b"p" * 16, number(0), text("<module>")),
    "code by a negative number": make("code", b"C\x10" + b"p" * 16, number(-1), text("f")),
    "code under another's name": make("code", b"C\x10" + b"p" * 16, number(1), text("g")),
    "a program that the language refuses": make("code", b"C\x10" + b"q" * 16, number(1), text("f")),
    "a function of what is no code": make("function", text("x"), NONE),
    "a function without its cells": make("function", make("code", b"C\x10" + b"r" * 16, number(2), text("make.<locals>.f")), NONE),
    "a function that is a library's": make("fill_function", known("functools:reduce"), EMPTY),
    "a cell that is none": make("fill_cell", _A_LIST, values(NONE)),
    "a class from a type": make("make_class", text("class"), text("C"), values(known("builtins:type")), EMPTY, text("")),
    "a class from an array": make("make_class", text("class"), text("C"), values(known("numpy:ndarray")), EMPTY, text("")),
    "a class from a table": make("make_class", text("class"), text("C"), values(known("pandas:DataFrame")), EMPTY, text("")),
    "a class of an unknown kind": make("make_class", text("other"), text("C"), values(), EMPTY, text("")),
    "a class with an unknown metaclass": make("make_class", text("class"), text("C"), values(), EMPTY, text("type")),
    "an enumeration of nothing": make("make_class", text("enum"), text("C"), values(), table(members=EMPTY, attributes=EMPTY), text("")),
    "a class with numbers for slots": make("make_class", text("class"), text("C"), values(), table(__slots__=values(number(1))), text("")),
    "a hook in a class": _IN_CLASS(__reduce__=known("builtins:len")),
    "a destructor in a class": _IN_CLASS(__del__=known("builtins:len")),
    "look-ups in a class": _IN_CLASS(__getattribute__=known("builtins:len")),
    "another class of a class": _IN_CLASS(__class__=known("builtins:int")),
    "a buffer in a class": _IN_CLASS(__array_interface__=EMPTY),
    "attributes of a library's class": make("fill_class", known("pandas:DataFrame"), values(table(x=NONE), EMPTY, NONE, text("x"), NONE, b"\x89")),
    "an instance of a library's class": make("instance", known("pandas:DataFrame")),
    "an instance of object": make("instance", known("builtins:object")),
    "attributes of a module": make("fill_instance", known("json:"), table(x=NONE)),
    "attributes of a list": make("fill_instance", _A_LIST, table(x=NONE)),
    "a number of the wrong kind": make("fixed", USER, number(1)),
    "a container that is none": make("payload", USER, NONE),
    "items of a library's container": make("fill_payload", known("collections:Counter"), values(EMPTY, _A_LIST, NONE)),
    "an error that is none": make("error", known("builtins:str"), values()),
    "a cause that is none": make("fill_error", call(known("builtins:ValueError")), values(EMPTY, values(number(1), NONE, TRUE))),
    "a namespace that is a module": make("fill_namespace", known("json:"), table(x=NONE)),
    "a hook in a namespace": make("fill_namespace", make("namespace"), table(__reduce_ex__=NONE)),
    "a proxy of no dict": make("proxy", known("json:")),
    "a view of no dict": make("dict_view", known("json:"), text("keys")),
    "another method of a dict": make("dict_view", EMPTY, text("clear")),
    "a member of no enumeration": make("member", known("builtins:int"), text("x"), number(1)),
    "objects from bytes": make("array", b"C\x08" + b"A" * 8, values(number(1)), text("O"), text("C"), TRUE),
    "an array larger than its bytes": make("array", b"C\x08" + b"A" * 8, values(number(1 << 20)), text("<f8"), text("C"), TRUE),
    "an array of a negative size": make("array", b"C\x08" + b"A" * 8, values(number(-1)), text("<f8"), text("C"), TRUE),
    "an array of many dimensions": make("array", b"C\x08" + b"A" * 8, values(*[number(1)] * 100), text("<f8"), text("C"), TRUE),
    "a view beside an array": make("view", make("array", b"C\x08" + b"A" * 8, values(number(1)), text("<f8"), text("C"), TRUE), values(number(4)), text("<f8"), number(-8), values(number(8)), TRUE),
    "a view far beyond an array": make("view", make("array", b"C\x08" + b"A" * 8, values(number(1)), text("<f8"), text("C"), TRUE), values(number(2)), text("<f8"), number(0), values(number(1 << 30)), TRUE),
    "objects from numbers": make("view", make("array", b"C\x08" + b"A" * 8, values(number(1)), text("<f8"), text("C"), TRUE), values(number(1)), text("O"), number(0), values(number(8)), TRUE),
    "numbers from objects": make("view", make("objects", values(number(2)), text("C")), values(number(1)), text("<f8"), number(0), values(number(8)), TRUE),
    "objects between two objects": make("view", make("objects", values(number(2)), text("C")), values(number(1)), text("O"), number(4), values(number(8)), TRUE),
    "objects beside an array": make("view", make("objects", values(number(2)), text("C")), values(number(3)), text("O"), number(0), values(number(8)), TRUE),
    "objects before an array": make("view", make("objects", values(number(2)), text("C")), values(number(2)), text("O"), number(0), values(number(-8)), TRUE),
    "more objects than places": make("fill_objects", make("objects", values(number(2)), text("C")), values(values(NONE, NONE, NONE), TRUE)),
    "a view of a table": make("view", known("pandas:DataFrame"), values(number(1)), text("<f8"), number(0), values(number(8)), TRUE),
    "a time zone by a path": make("zone", text("../../../etc/passwd")),
    "a match of no pattern": make("match", known("json:"), text("x"), values(number(0), number(1)), number(0), number(1)),
    "a memo that is empty": b"j\xff\xff\x00\x00",
    "a stack that is empty": b"0000",
    "a mark that is missing": b"t",
    "a text that never ends": b"X\xff\xff\xff\x7fab",
    "a text of no size": b"\x8d" + b"\xff" * 8 + b"ab",
    "a frame that never ends": b"\x95" + (1 << 40).to_bytes(8, "little") + b"N",
    "a buffer that is missing": b"\x97",
    "a buffer that is none": b"N\x98",
    "an unknown opcode": b"\xff",
    "a protocol of the future": b"\x80\x09N",
    "nothing at all": b"",
    "text that is no UTF-8": b"X\x02\x00\x00\x00\xff\xfe",
    "a tuple that calls nothing": values(number(1)) + values() + b"R",
    "a state without an object": EMPTY + EMPTY + b"b0" * 3,
    "a state for a number": number(1) + table(x=NONE) + b"b",
    "an argument list that is none": known("builtins:list") + number(1) + b"R",
    "a new object of no class": number(1) + values() + b"\x81",
    "a module as a function": call(known("json:")),
}  # fmt: skip

IN_JAIL: Final[dict[str, bytes]] = {
    # These crash, hang or fill the memory of their run.
    "a memo without end": NONE + b"r\xff\xff\xff\x7f",
    "bytes without end": b"\x96" + (1 << 44).to_bytes(8, "little"),
    "a list without end": call(known("builtins:list"), call(known("itertools.count"))),
    "a number without end": call(known("builtins:pow"), number(10), call(known("builtins:pow"), number(10), number(10))),
    "an array without end": make("objects", values(number(1 << 30), number(1 << 30))),
    "an array that is forged": call(known("numpy._core.multiarray:_reconstruct"), known("numpy:ndarray"), values(number(0)), b"C\x01b") + values(number(1), values(number(1 << 16)), call(known("numpy:dtype"), text("O")), b"\x89", b"C\x08" + b"A" * 8) + b"b",
    "a pattern that hangs": call(known("re.match"), text("(a+)+$"), text("a" * 64 + "b")),
}  # fmt: skip

ONLY_THE_JAIL: Final[dict[str, bytes]] = {
    # These break the language in the run that reads them, and in no other.
    "an attribute of a module": known("json:") + table(dumps=known("builtins:len")) + b"b",
    "the code of a library's function": known("textwrap.dedent") + values(NONE, table(__defaults__=values(number(1)))) + b"b",
    "an attribute of a library's function": known("textwrap.dedent") + table(mark=number(1)) + b"b",
}  # fmt: skip


def pickled(opcodes: bytes) -> bytes:
    return b"\x80\x05" + opcodes + b"."


def entry(name: str, stream: bytes, pickles: int = 1) -> Name:
    return Name(name, len(stream), pickles)
