"""The functions that a stream may call while it is read.

A stream may be forged by code that has broken out of the language. So each builder checks its arguments, and makes nothing that
the language would refuse to its code. The C unpickler can still set attributes on objects that the stream names (BUILD): the
decision "state-graph" says what only the jail prevents.

Builders in pairs make an object empty (`payload`) and fill it later (`fill_payload`), so that a graph can have cycles.
"""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import functools
import importlib
import inspect
import io
import itertools
import queue
import types
import typing
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from pandas.tseries import holiday

from byref_sandbox.code.words import words
from byref_sandbox.functions import MAX_NAME_CHARS
from byref_sandbox.language import arrays, databases, names, readers, styles, typed
from byref_sandbox.language.calling import HostFunction
from byref_sandbox.language.files import MODE as OPEN_MODE
from byref_sandbox.language.modules import GENERATED_MODULE
from byref_sandbox.language.policy import Language
from byref_sandbox.state import drawings, helpers, iterators, remembered
from byref_sandbox.state.codes import Code, Codes, Unkept

_managers: Any = importlib.import_module("pandas.core.internals.managers")
MANAGERS: Final[tuple[Any, ...]] = (_managers.BlockManager, _managers.SingleBlockManager)
"""What the tables and columns of pandas hold their values in."""
SharedValues: Final[Any] = importlib.import_module("pandas._libs.internals").BlockValuesRefs
"""What those of them hold in common that share values until one of them is changed."""
FIXED: Final[tuple[type, ...]] = (bool, int, float, str, bytes, tuple, frozenset)
"""Base classes of the code's classes whose value is given when an instance is made."""
PAYLOADS: Final[tuple[type, ...]] = (dict, list, set, collections.deque)
"""Base classes whose items are filled in afterwards."""
KINDS_OF_ARRAYS: Final[tuple[Any, ...]] = (np.matrix, np.recarray, arrays.RecordArray)
"""Arrays by another name, without attributes of their own."""
LAYOUTS: Final[Mapping[type, tuple[str, ...]]] = {
    datetime.datetime: ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo"),
    datetime.date: ("year", "month", "day"),
    datetime.tzinfo: (),
}
"""The other base classes, with the attributes from which an instance is made."""
READING: Final = ("r", "rt", "rb", "tr", "br")
"""Modes of files that are only read."""
PARSERS: Final = ("ConfigParser", "RawConfigParser")
"""Of configparser."""
QUEUES: Final[Mapping[str, Any]] = {
    kind.__name__: kind for kind in (queue.Queue, queue.PriorityQueue, queue.LifoQueue, queue.SimpleQueue)
}
"""Queues of threads, by name."""
FUNCTIONS: Final = "functions:"
"""How the names of the host's functions begin."""
SMALL_BYTES: Final = 16 << 10
"""An array of up to this size owns its memory; a larger one is a view of the blob in which it came."""
_HEAP_TYPE: Final = 1 << 9
_MAX_DIMENSIONS: Final = 64
_RARELY_SET: Final = ("name", "qualname", "doc", "defaults", "kwdefaults", "annotations")

namespace_of: Callable[[type], types.MappingProxyType[str, Any]] = type.__dict__["__dict__"].__get__
mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__


def type_of_layout(cls: type) -> type:
    """Return the first class of compiled code among a class's bases: the only one whose `__new__` may make an instance."""
    return next(each for each in mro_of(cls) if not each.__flags__ & _HEAP_TYPE)


class Builders:
    """The builders of one reading. `space` is the namespace of the run that reads; `by_name` are the objects that it knows by
    name, `figures` the classes of parts of figures, `listed` those and the classes of models.
    """

    def __init__(
        self,
        language: Language,
        codes: Codes,
        space: dict[str, Any],
        by_name: Mapping[str, object],
        figures: frozenset[type] = frozenset(),
        listed: frozenset[type] = frozenset(),
    ) -> None:
        self._by_name = by_name
        self._guards = language._guards
        self._facades: Mapping[str, Any] = language._modules.facades
        self._files = language.files
        self._codes = codes
        self._space = space
        self._drawn = figures
        self._listed = listed
        self._guarded: dict[type, frozenset[str]] = {}
        self._empty: dict[type, list[tuple[Any, tuple[Any, ...]]]] = {}
        """Classes that have no attributes yet, and the classes made from them that are filled after them, with their attributes."""
        self.there: Mapping[Code, type] = {}
        """Classes by place, of which instances are made where a stream makes the same class again."""
        self._instead: dict[type, type] = {}
        """For a class that was made again, the one of these."""

    def all(self) -> list[Callable[..., Any]]:
        """Return the builders of this reading, in the order of BUILDERS."""
        return [getattr(self, name) for name in BUILDERS]

    def known(self, name: str) -> object:
        """Return an object of the language or of a library, which each process has."""
        if type(name) is str and name.startswith(FUNCTIONS) and name not in self._by_name:
            return HostFunction.absent(name.removeprefix(FUNCTIONS)[:MAX_NAME_CHARS])
        if type(name) is not str or name not in self._by_name:
            raise Unkept(f"{str(name)[:100]!r}, which this version does not have")
        return self._by_name[name]

    def _check_instance(self, obj: Any) -> None:
        if not self._guards.is_user_class(type(obj)):
            raise Unkept("an instance of no class of the code")

    def _check_class(self, cls: Any) -> None:
        if not self._guards.is_user_class(cls):
            raise Unkept("no class of the code")

    def _class_of(self, cls: Any) -> Any:
        self._check_class(cls)
        return self._instead.get(cls, cls)

    # Functions -----------------------------------------------------------------------------------------------------------------

    def code(self, program: bytes, number: int, qualname: str) -> types.CodeType:
        """Return a code object of a program, which the language compiles."""
        return self._codes.find(program, number, qualname)

    def function(self, code: types.CodeType, closure: tuple[types.CellType, ...] | None) -> types.FunctionType:
        """Make a function of the run's namespace."""
        self._codes.place_of(code)
        return types.FunctionType(code, self._space, code.co_name, None, closure)

    def fill_function(self, function: types.FunctionType, state: dict[str, Any]) -> None:
        """Give a function what its definition, or later code, has set."""
        if type(function) is not types.FunctionType or function.__globals__ is not self._space:
            raise Unkept("no function of the code")
        for name in _RARELY_SET:
            if name in state:
                setattr(function, f"__{name}__", state[name])
        function.__dict__.update(check_names(state.get("attributes", {})))
        function.__module__ = "__main__"

    def cell(self) -> types.CellType:
        """Make a variable that functions share."""
        return types.CellType()

    def fill_cell(self, cell: types.CellType, contents: tuple[Any, ...]) -> None:
        """Give a shared variable its value."""
        if type(cell) is not types.CellType:
            raise Unkept("no cell")
        (cell.cell_contents,) = contents

    def method(self, function: Any, owner: Any) -> types.MethodType:
        """Make a method of an instance or a class."""
        return types.MethodType(function, owner)

    def bound(self, owner: Any, name: str) -> Any:
        """Return a method of compiled code, if the language's rules allow it."""
        return self._guards.getattr(owner, name)

    def drawn_method(self, owner: Any, name: str) -> types.MethodType:
        """Return a method of a part of a figure."""
        kind = type(owner)
        is_mixed = not self._guards.is_user_class(kind) and drawings.is_mixed(kind, self._drawn)
        if type(name) is not str or not (kind in self._drawn or is_mixed):
            raise Unkept("no method of a figure")
        return drawings.method(owner, name)

    def library_function(self, owner: Any, name: str, number: int) -> types.FunctionType:
        """Return a method of a class of a figure or model as a function, or the function of that number inside it."""
        if owner not in self._listed or type(name) is not str:
            raise Unkept("no function of a figure or model")
        return drawings.function(owner, name, number)

    def logger(self, name: str) -> Any:
        """`logging.getLogger`; what it was set to is among the settings."""
        return self._facades["logging"].getLogger(name)

    def csv_writer(self, file: Any, options: dict[str, Any]) -> Any:
        """`csv.writer`, into text in memory."""
        if type(file) is not io.StringIO:
            raise Unkept("a csv.writer into something else than text")
        return self._facades["csv"].writer(file, **options)

    def archive(self, *parts: Any) -> Any:
        """Make a `zipfile.ZipFile` over a copy of its bytes."""
        return self._facades["zipfile"].ZipFile._of(*parts)

    def file(self, key: str | None, name: str, mode: str, content: Any, place: int, *as_text: Any) -> Any:
        """Make a file of the run from which the rest is read, or a closed one."""
        if type(mode) is not str or not OPEN_MODE.fullmatch(mode) or (content is not None and mode not in READING):
            raise Unkept("no file that is read")
        return self._files.reopened(key, name, mode, content, place, *as_text)

    def parser(self, name: str, options: dict[str, Any]) -> Any:
        """`configparser.ConfigParser` and `RawConfigParser`."""
        if name not in PARSERS:
            raise Unkept("no parser of settings")
        return vars(self._facades["configparser"])[name](**options)

    def fill_parser(self, parser: Any, state: tuple[Any, ...]) -> None:
        """Give a parser its sections."""
        if type(parser) not in [vars(self._facades["configparser"])[name] for name in PARSERS]:
            raise Unkept("no parser of settings")
        readers.fill_parser(parser, *state)

    def thread_queue(self, name: str) -> Any:
        """Make a queue of threads."""
        if name not in QUEUES:
            raise Unkept("no queue")
        return QUEUES[name]()

    def fill_thread_queue(self, made: Any, state: tuple[Any, ...]) -> None:
        """Give a queue what is in it."""
        items, *rest = state
        if type(made) is queue.SimpleQueue:
            for item in items:
                made.put_nowait(item)
        elif type(made) in QUEUES.values() and type(items) is type(made.queue):
            made.queue = items
            made.maxsize, made.unfinished_tasks, is_shut = rest
            if is_shut:
                made.shutdown()
        else:
            raise Unkept("no queue")

    def decoder(self, options: dict[str, Any]) -> Any:
        """`json.JSONDecoder`."""
        return self._facades["json"].JSONDecoder(**options)

    def connection(self, level: str | None, types: int, *parts: Any) -> Any:
        """`sqlite3.connect(":memory:")`, and what was in the database."""
        made = self._facades["sqlite3"].connect(":memory:", detect_types=types, isolation_level=level)
        databases.fill(made, *parts)
        return made

    def fill_connection(self, connection: Any, state: tuple[Any, Any]) -> None:
        """Give a connection to a database what the code has set and made for it."""
        databases.real_connection(connection)
        connection.row_factory, made = state
        databases.make_for(connection, made)

    def cursor(self, connection: Any, *left: Any) -> Any:
        """Make a cursor of a database, with the rows that are left of its query."""
        databases.real_connection(connection)
        made = databases.Cursor(connection)
        databases.resume(made, *left)
        return made

    def distribution(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Make a distribution of scipy again with its parameters, as `stats.norm(5, 2)` does."""
        made = vars(self._facades["scipy.stats"]).get(name)
        if type(made).__module__ not in drawings.DISTRIBUTIONS:
            raise Unkept("no distribution of scipy's stats")
        return made(*arguments, **options)

    def tabulated(self, kind: str, options: dict[str, Any]) -> Any:
        """Make a distribution of scipy again from the numbers of which it was made: `stats.rv_discrete(values=…)`, `stats.rv_histogram(…)`."""
        return vars(self._facades["scipy.stats"])[drawings.TABULATED[kind]](**options)

    def frozen(self, distribution: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Make a distribution with fixed parameters of one that was made from numbers."""
        kind = type(distribution)
        if kind.__name__ not in drawings.TABULATED or kind.__module__ not in drawings.OF_DISTRIBUTIONS:
            raise Unkept("no distribution that was made from numbers")
        return distribution(*arguments, **options)

    def variable(self, kind: Any, parameters: dict[str, Any], how: dict[str, Any]) -> Any:
        """Make a random variable of scipy: by its own `__new__` alone, a `stats.Normal` would be another one."""
        if kind not in self._listed or kind.__module__ != drawings.VARIABLES:
            raise Unkept("no class of random variables")
        return kind(**parameters, **how)

    def number_of_mpmath(self, *parts: int | float) -> Any:
        """Make a number of mpmath of a whole number and its power of two, or of a float that is none; for each part of a complex one."""
        mpmath: Any = importlib.import_module("mpmath")
        if not all(type(part) in (int, float) for part in parts) or len(parts) not in (2, 4):
            raise Unkept("no number of mpmath")
        made = [
            mpmath.libmp.from_float(value) if type(value) is float else mpmath.libmp.from_man_exp(value, power)
            for value, power in zip(parts[::2], parts[1::2], strict=True)
        ]
        return mpmath.mp.make_mpf(*made) if len(made) == 1 else mpmath.mp.make_mpc(tuple(made))

    def matrix_of_mpmath(self, rows: int, columns: int, items: dict[tuple[int, int], Any]) -> Any:
        """Make a matrix of mpmath."""
        mp: Any = importlib.import_module("mpmath").mp
        places = all(row in range(rows) and column in range(columns) for row, column in items)
        if not places or not all(type(item) in (mp.mpf, mp.mpc) for item in items.values()):
            raise Unkept("no matrix of mpmath")
        made = mp.matrix(int(rows), int(columns))
        for place, item in items.items():
            made[place] = item
        return made

    def undefined_function(self, name: str, assumptions: dict[str, Any]) -> Any:
        """`sympy.Function(name)`."""
        if type(name) is not str:
            raise Unkept("a function without a name")
        return vars(self._facades["sympy"])["Function"](name, **assumptions)

    def styler(self, data: Any, options: dict[str, Any], calls: list[Any]) -> Any:
        """Make a table with its style."""
        return styles.restored(data, options, calls)

    def lru(self, function: Any, options: dict[str, Any]) -> Any:
        """Make a `functools.lru_cache`."""
        return functools.lru_cache(maxsize=options["maxsize"], typed=options["typed"])(function)

    def fill_lru(self, function: Any, state: tuple[Any, ...]) -> None:
        """Have a `functools.lru_cache` remember results; the function in it, which must be the code's, is not called."""
        if type(function) is not functools._lru_cache_wrapper:
            raise Unkept("no function that remembers")
        inner = remembered.inner_of(function)
        if inner is None or inner.__globals__ is not self._space:
            raise Unkept("a function that remembers, of none of the code")
        if not any(function.cache_info()[:2]):  # in a cycle it may be named twice
            remembered.fill(function, inner, *state)

    def getter(self, kind: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """`operator.attrgetter` and `operator.methodcaller`."""
        if kind not in ("attrgetter", "methodcaller"):
            raise Unkept("no function that looks something up")
        return vars(self._facades["operator"])[kind](*arguments, **options)

    def context_of_decimals(self) -> Any:
        """`decimal.getcontext()`; what it was set to is among the settings."""
        return decimal.getcontext()

    def row(self, keys: tuple[str, ...], values: tuple[Any, ...]) -> Any:
        """Make a `sqlite3.Row`."""
        return databases.row_of(keys, values)

    def helper(self, maker: str, given: tuple[Any, ...]) -> Any:
        """Have a library make a function of one of the code's once more."""
        return helpers.make(maker, given)

    def context(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Make a context of a generator that has not begun."""
        self._check_generator(function)
        return contextlib.contextmanager(function)(*arguments, **options)

    def generator(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Make a generator or coroutine that has not begun. Nothing of the code runs."""
        self._check_generator(function, inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
        return function(*arguments, **options)

    def ended_generator(self, prefix: str) -> Any:
        """Make a generator or coroutine that has ended."""
        if type(prefix) is not str or prefix not in iterators.KINDS.values():
            raise Unkept("no generator")
        return iterators.ended(prefix)

    def cycle(self, items: list[Any], given: int) -> Any:
        """Make an `itertools.cycle` that has given so many of its items."""
        if type(items) is not list or type(given) is not int or not 0 <= given <= len(items):
            raise Unkept("no cycle")
        made = itertools.cycle(items)
        for _ in range(given):
            next(made)
        return made

    def _check_generator(self, function: Any, kinds: int = inspect.CO_GENERATOR) -> None:
        if (
            type(function) is not types.FunctionType
            or function.__globals__ is not self._space
            or not function.__code__.co_flags & kinds
        ):
            raise Unkept("no generator of the code")

    def static(self, function: Any) -> Any:
        """`staticmethod`."""
        return staticmethod(function)

    def of_class(self, function: Any) -> Any:
        """`classmethod`."""
        return classmethod(function)

    def property(self, getter: Any, setter: Any, deleter: Any, doc: Any) -> Any:
        """`property`."""
        return property(getter, setter, deleter, doc)

    def cached(self, function: Any, name: str | None) -> Any:
        """Make a `functools.cached_property`, under the name that it had."""
        made: Any = functools.cached_property(function)
        if name is not None:
            made.__set_name__(None, name)
        return made

    def partial_method(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """`functools.partialmethod`."""
        return functools.partialmethod(function, *arguments, **options)

    # Classes -------------------------------------------------------------------------------------------------------------------

    def make_class(self, how: str, name: str, bases: tuple[Any, ...], options: dict[str, Any], meta: str) -> Any:
        """Make a class without methods and attributes. No method of the code runs."""
        made = self._made_class(how, name, bases, options, meta)
        self._empty[made] = []
        return made

    def _made_class(self, how: str, name: str, bases: tuple[Any, ...], options: dict[str, Any], meta: str) -> Any:
        if type(name) is not str or type(bases) is not tuple or type(options) is not dict:
            raise Unkept("no description of a class")
        if how == "namedtuple":
            make: Any = self._facades["collections"].namedtuple
            # Renamed are fields that have no name of their own, as columns of pandas may, to what they were called.
            return make(name, options["fields"], rename=True, defaults=options["defaults"])
        if how == "typed_dict":
            make = vars(typing)["TypedDict"]
            return self._guards.adopt(make(name, {}, total=bool(options["total"])))
        for base in bases:
            if not self._guards._is_base(base):
                raise Unkept("a class that is made from a base which none may be made from")
        if how == "enum":
            return self._enumeration(name, bases, options)
        if how != "class":
            raise Unkept("no kind of class")
        space: dict[str, Any] = {"__module__": "__main__"}
        if "__orig_bases__" in options:
            space["__orig_bases__"] = options["__orig_bases__"]
        if "__slots__" in options:
            space["__slots__"] = _slots(options["__slots__"])
        kind = _METACLASSES[meta]
        return self._guards.adopt(self._without_hooks(bases, lambda: kind(name, bases, space)))

    def _without_hooks(self, bases: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Make a class without calling an `__init_subclass__` of the code: it ran when the class was first made."""
        hook = "__init_subclass__"
        held = {
            each: namespace_of(each)[hook]
            for base in bases
            if isinstance(base, type)
            for each in mro_of(base)
            if self._guards.is_user_class(each) and hook in namespace_of(each)
        }
        try:
            for each in held:
                type.__delattr__(each, hook)
            return make()
        finally:
            for each, value in held.items():
                type.__setattr__(each, hook, value)

    def _enumeration(self, name: str, bases: tuple[Any, ...], options: dict[str, Any]) -> Any:
        meta: Any = next((type(base) for base in bases if issubclass(type(base), enum.EnumMeta)), None)
        if meta is None:
            raise Unkept("no enumeration")
        members = check_names(options["members"])
        for each, attributes in options["values"].items():
            self.fill_instance(members[each], attributes)
        space = meta.__prepare__(name, bases)
        data: Any = meta._get_mixins_(name, bases)[0]
        is_of_data = type_of_layout(data) is object and dataclasses.is_dataclass(data)
        for each, value in members.items():
            space[each] = enum.member((value,) if is_of_data else value)  # a function alone would be a method
        if is_of_data:
            space["__new__"] = _member_of_data
        space["__module__"] = "__main__"
        with _aside(bases, self._guards.is_user_class):
            made = self._guards.adopt(meta.__new__(meta, name, bases, space))
        if is_of_data:
            type.__delattr__(made, "__new_member__")
            type.__setattr__(made, "_new_member_", object.__new__)
        for each, attributes in options["attributes"].items():
            for attribute, value in check_names(attributes).items():
                _put(made.__members__[each], attribute, value)
        return made

    def fill_class(self, cls: Any, state: tuple[Any, ...]) -> None:
        """Give a class its attributes; the methods of a dataclass are generated again."""
        self._check_class(cls)
        own, annotations, data, qualname, place, is_checkable = state
        empty = next((each for each in mro_of(cls)[1:] if each in self._empty), None)
        if data is not None and empty is not None:  # it is in an attribute of its base, whose fields it needs
            self._empty[empty].append((cls, state))
            return
        self._guarded.clear()
        made = dict(namespace_of(cls))
        if place is not None and (there := self.there.get(Code(*place))) is not None:
            self._instead[cls] = there
        elif place is not None:
            self._codes.classes[cls] = Code(*place)
        for name, value in check_names(own).items():
            type.__setattr__(cls, name, value)
        if data is not None:
            flags, fields, hints = data
            _set_fields(cls, fields, hints)
            decorate: Any = self._facades["dataclasses"].dataclass
            decorate(**flags)(cls)
            if "__slots__" in made:
                slots = {name: made[name] for name in fields.keys() & made.keys()}
                for name, value in (slots | (_STATE_OF_FROZEN if flags["frozen"] else {})).items():
                    type.__setattr__(cls, name, value)
            for name in fields.keys() & own.keys():
                type.__setattr__(cls, name, own[name])  # as code has set it since the class was made
        if annotations:
            type.__setattr__(cls, "__annotations__", annotations)
        type.__setattr__(cls, "__qualname__", qualname)
        if is_checkable:
            typing.runtime_checkable(cls)
        if issubclass(type(cls), abc.ABCMeta):
            abc.update_abstractmethods(cls)
        for waiting in self._empty.pop(cls, ()):
            self.fill_class(*waiting)

    def member(self, cls: Any, name: str | None, value: Any) -> Any:
        """Return a member of an enumeration; combined flags have no name."""
        if not issubclass(type(cls), enum.EnumMeta):
            raise Unkept("no enumeration")
        return cls.__members__[name] if name in cls.__members__ else enum.EnumMeta.__call__(cls, value)

    # Instances -----------------------------------------------------------------------------------------------------------------

    def instance(self, cls: Any) -> Any:
        """Make an instance without attributes; its `__new__` and `__init__` are not called."""
        return object.__new__(self._class_of(cls))

    def fixed(self, cls: Any, value: Any) -> Any:
        """Make an instance of a class of the code that is a number, a text or a tuple."""
        cls = self._class_of(cls)
        base = next(each for each in FIXED if issubclass(cls, each))
        if type(value) is not base:
            raise Unkept("no value for such an instance")
        return base.__new__(cls, value)

    def moment(self, cls: Any, parts: tuple[Any, ...]) -> Any:
        """Make an instance of a class of the code that is a date, a time or a time zone."""
        cls = self._class_of(cls)
        base = next(each for each in LAYOUTS if issubclass(cls, each))
        return base.__new__(cls, *parts)

    def fill_instance(self, obj: Any, attributes: dict[str, Any]) -> None:
        """Give an instance its attributes; neither its `__setattr__` nor a property or descriptor of its class is called."""
        self._check_instance(obj)
        guarded = self._guarded_names(type(obj))
        for name, value in check_names(attributes).items():
            if name in guarded:
                _put(obj, name, value)
            else:
                object.__setattr__(obj, name, value)

    def _guarded_names(self, cls: type) -> frozenset[str]:
        """Names that objects in a class answer for, such as properties."""
        found = self._guarded.get(cls)
        if found is None:
            held = [
                pair for each in mro_of(cls) if self._guards.is_user_class(each) for pair in namespace_of(each).items()
            ]
            found = self._guarded[cls] = frozenset(
                name for name, one in held if type(one) is not types.MemberDescriptorType and _takes_values(one)
            )
        return found

    def payload(self, cls: Any, maxlen: int | None) -> Any:
        """Make an empty instance of a class of the code that is a container."""
        cls = self._class_of(cls)
        base = next(each for each in PAYLOADS if issubclass(cls, each))
        layout: Any = collections.OrderedDict if issubclass(cls, collections.OrderedDict) else base
        layout = collections.defaultdict if issubclass(cls, collections.defaultdict) else layout
        made = layout.__new__(cls)
        if base is collections.deque and maxlen is not None:
            collections.deque.__init__(made, (), maxlen)
        return made

    def fill_payload(self, obj: Any, state: tuple[Any, ...]) -> None:
        """Give a container its items; `append`, `add` and `__setitem__` of the code are not called."""
        attributes, items, default = state
        self.fill_instance(obj, attributes)
        base: Any = next(each for each in PAYLOADS if issubclass(type(obj), each))
        if base is dict:
            store: Any = collections.OrderedDict if issubclass(type(obj), collections.OrderedDict) else dict
            for key, value in items:
                store.__setitem__(obj, key, value)
        else:
            add = set.add if base is set else base.append
            for item in items:
                add(obj, item)
        if default is not None:
            collections.defaultdict.__dict__["default_factory"].__set__(obj, default)

    def error(self, cls: Any, arguments: tuple[Any, ...]) -> Any:
        """Make an exception; `__new__` and `__init__` of the code are not called."""
        if not issubclass(type(cls), type) or not issubclass(cls, BaseException):
            raise Unkept("no class of errors")
        if not self._guards.is_user_class(cls):
            return cls(*arguments)
        made = type_of_layout(cls).__new__(cls, *arguments)
        made.args = arguments
        return made

    def fill_error(self, obj: Any, state: tuple[Any, ...]) -> None:
        """Give an exception its attributes and its cause."""
        if not issubclass(type(obj), BaseException):
            raise Unkept("no error")
        attributes, (cause, context, is_suppressed) = state
        guarded = self._guarded_names(type(obj))
        for name, value in check_names(attributes).items():
            if name in guarded:
                _put(obj, name, value)
            else:
                BaseException.__setattr__(obj, name, value)
        obj.__cause__, obj.__context__, obj.__suppress_context__ = cause, context, is_suppressed

    def namespace(self) -> types.SimpleNamespace:
        """`types.SimpleNamespace()`."""
        return types.SimpleNamespace()

    def fill_namespace(self, obj: Any, attributes: dict[str, Any]) -> None:
        """Give a namespace its attributes."""
        if type(obj) is not types.SimpleNamespace:
            raise Unkept("no namespace")
        obj.__dict__.update(check_names(attributes))

    def proxy(self, mapping: Any) -> Any:
        """Make a read-only view of a dict."""
        if type(mapping) not in _DICTS:
            raise Unkept("no dict")
        return types.MappingProxyType(mapping)

    def dict_view(self, mapping: Any, name: str) -> Any:
        """Return the keys, values or items view of a dict."""
        if type(mapping) not in _DICTS or name not in ("keys", "values", "items"):
            raise Unkept("no dict")
        return getattr(type(mapping), name)(mapping)

    # Arrays --------------------------------------------------------------------------------------------------------------------

    def array(self, buffer: Any, shape: Any, dtype: Any, order: str, is_writable: bool) -> Any:
        """Make an array over a blob or, if it is small, one with its own memory. numpy checks that the blob is large enough."""
        kind = _plain_dtype(dtype)
        made: Any = np.ndarray(_shape(shape), kind, buffer, order="F" if order == "F" else "C")
        if made.nbytes < SMALL_BYTES or (not made.flags.writeable and is_writable):
            made = made.copy(order="K")
        if not is_writable:
            made.flags.writeable = False
        return made

    def view(self, root: Any, shape: Any, dtype: Any, offset: int, strides: Any, is_writable: bool) -> Any:
        """Make an array that is a view of the memory of another array, and of nothing else."""
        kind = np.dtype(dtype)
        if type(root) is not np.ndarray or not root.flags.forc or root.dtype.hasobject != kind.hasobject:
            raise Unkept("no memory to look at")
        shape, strides = _shape(shape), tuple(strides)
        if kind.hasobject:
            _check_objects(root, kind, shape, offset, strides)
            flat = root.ravel(order="K")[offset // kind.itemsize :]
            made: Any = np.lib.stride_tricks.as_strided(flat, shape, strides)
        else:
            # numpy checks the bounds for all strides.
            made = np.ndarray(shape, kind, root if root.flags.c_contiguous else root.T, offset, strides)
        if not is_writable:
            made.flags.writeable = False
        return made

    def of_kind(self, array: Any, kind: Any) -> Any:
        """Look at an array as a matrix, or as one of records."""
        if type(array) is not np.ndarray or kind not in KINDS_OF_ARRAYS or array.dtype.hasobject:
            raise Unkept("no array")
        return array.view(kind)

    def element(self, root: Any, dtype: Any, offset: int) -> Any:
        """Return a record in the memory of an array."""
        return self.view(root, (), dtype, offset, (), is_writable=True)[()]

    def masked(self, array: Any, mask: Any, fill: Any, is_hard: bool, is_shared: bool) -> Any:
        """Make a masked array over an array and, unless it is None, a mask."""
        if type(array) is not np.ndarray or array.dtype.hasobject:
            raise Unkept("no array")
        made: Any = array.view(np.ma.MaskedArray)
        if mask is not None:
            if (
                type(mask) is not np.ndarray
                or mask.shape != array.shape
                or mask.dtype != np.ma.make_mask_descr(array.dtype)
            ):
                raise Unkept("no mask of the array")
            made._mask = mask
        if fill is not None:
            made.fill_value = fill
        made._hardmask, made._sharedmask = bool(is_hard), bool(is_shared)
        return made

    def objects(self, shape: Any, order: str) -> Any:
        """Make an array of objects, all of them None."""
        return np.empty(_shape(shape), object, order="F" if order == "F" else "C")

    def fill_objects(self, array: Any, state: tuple[Any, ...]) -> None:
        """Give an array its objects. None of them is asked for its type or length."""
        members, is_writable = state
        if type(array) is not np.ndarray or array.dtype.kind != "O" or len(members) != array.size:
            raise Unkept("no array for these objects")
        flat = array.reshape(-1, order="A")
        for number, member in enumerate(members):
            flat[number] = member
        array.flags.writeable = bool(is_writable)

    def values(self) -> Any:
        """Make what pandas' objects hold in common that share values until one of them is changed."""
        return SharedValues()

    def fill_sharing(self, owner: Any, state: tuple[Any, ...]) -> None:
        """Make the blocks of a table, or an index, share their values with others: a change of them makes a copy first. An index gets
        its attributes.
        """
        shared, own = state
        if type(owner) in MANAGERS and own is not None:
            owner.__setstate__(own)
        is_index = isinstance(owner, pd.Index)
        if not is_index and type(owner) not in MANAGERS:
            raise Unkept("no table")
        if is_index and own is not None:
            vars(owner).update(check_names(own))
        for each, held in zip((owner,) if is_index else owner.blocks, shared, strict=True):
            if type(held) is SharedValues and is_index:
                owner._references = held
                held.add_index_reference(owner)
            elif type(held) is SharedValues:
                each.refs = held
                held.add_reference(each)

    def intervals(self, left: Any, right: Any, closed: str) -> Any:
        """Make pandas' array of intervals. It checks the ends."""
        return pd.arrays.IntervalArray.from_arrays(left, right, closed)  # type: ignore[arg-type]

    def typed(self, code: str, data: bytes) -> Any:
        """The language's `array.array`."""
        made = typed.array(code)
        made.frombytes(data)
        return made

    # Others --------------------------------------------------------------------------------------------------------------------

    def match(self, pattern: Any, text: Any, span: tuple[int, int], pos: int, endpos: int) -> Any:
        """Make a match of a pattern: it is searched again or, of a match that was not the first, matched again at the same place."""
        ways = (pattern.search, pos, endpos), (pattern.match, span[0], endpos), (pattern.fullmatch, *span)
        for find, begin, end in ways:
            found = find(text, begin, end)
            if found is not None and found.span() == span:
                return found
        raise Unkept("a match that is not found again")

    def zone(self, key: str) -> zoneinfo.ZoneInfo:
        """Return a time zone by its name."""
        return zoneinfo.ZoneInfo(str.__str__(key))

    def old_zone(self, name: str | int, *parts: Any) -> Any:
        """Return a time zone of pytz, or what it was at some time, by its name; or one with so many minutes."""
        if type(name) is int:
            return self._facades["pytz"].FixedOffset(name)
        if type(name) is not str or not all(type(part) in (int, str) for part in parts):
            raise Unkept("a time zone without a name")
        self._facades["pytz"].timezone(name)  # which looks only at those that were read before
        return vars(importlib.import_module("pytz"))["_p"](name, *parts)

    def type_variable(self, name: str, constraints: Any, bound: Any, is_co: bool, is_contra: bool) -> Any:
        """`typing.TypeVar`."""
        return typing.TypeVar(name, *constraints, bound=bound, covariant=is_co, contravariant=is_contra)

    def forward_ref(self, text: str, is_argument: bool, is_of_code: bool, is_class: bool) -> Any:
        """`typing.ForwardRef`. Its text is compiled once more, and not evaluated."""
        if type(text) is not str:
            raise Unkept("a type hint without a text")
        module = "__main__" if is_of_code else None
        return typing.ForwardRef(text, is_argument=is_argument, module=module, is_class=is_class)

    def new_type(self, name: str, supertype: Any) -> Any:
        """`typing.NewType`."""
        return typing.NewType(name, supertype)

    def init_variable(self, kind: Any) -> Any:
        """`dataclasses.InitVar`."""
        return dataclasses.InitVar(kind)

    def field(self, given: tuple[Any, ...]) -> Any:
        """`dataclasses.field`."""
        return _field(*given)


BUILDERS: Final[Mapping[str, Callable[..., Any]]] = {
    name: made
    for name, made in vars(Builders).items()
    if name[0] != "_" and name != "all" and type(made) is types.FunctionType
}
"""The builders by name. A writer's stream refers to these; a reader replaces them by its own methods."""

_STATE_OF_FROZEN: Final[dict[str, Any]] = {
    f"__{name}__": vars(dataclasses)[f"_dataclass_{name}"] for name in ("getstate", "setstate")
}
"""What `dataclasses` gives a frozen class when it makes its slots: instances are copied by these."""
_OF_MEMBERS: Final = words("__init__ __new__ __new_member__ __setattr__ __init_subclass__ _generate_next_value_")
_DICTS: Final = (dict, collections.defaultdict, collections.OrderedDict, collections.Counter)
_METACLASSES: Final[Mapping[str, Any]] = {
    "": type,
    "ABCMeta": abc.ABCMeta,
    "_ProtocolMeta": type(typing.Protocol),
    "HolidayCalendarMetaClass": type(holiday.AbstractHolidayCalendar),
}


def check_names(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of the code's class without those through which the interpreter itself would run code or look
    things up.
    """
    if type(attributes) is not dict or not all(type(name) is str for name in attributes):
        raise Unkept("attributes that have no names")
    for name in attributes:
        if name in names.REFUSED_ATTRIBUTES or (names.is_dunder(name) and name not in _DUNDERS):
            raise Unkept(f"the attribute {name!r}, which code cannot set")
    return attributes


_DUNDERS: Final = names.CLASS_DUNDERS | {
    "__name__", "__qualname__", "__module__", "__notes__", "__isabstractmethod__", "__wrapped__", "__hash__",
    "__protocol_attrs__", "__orig_class__", "__new_member__", "__no_type_check__", "__final__", "__override__",
    "__networkx_cache__",
}  # fmt: skip


def _takes_values(held: Any) -> bool:
    """Whether an object in a class is asked when an attribute of its name is set."""
    return any(name in namespace_of(each) for each in mro_of(type(held)) for name in ("__set__", "__delete__"))


def _put(obj: Any, name: str, value: Any) -> None:
    """Set an attribute where the interpreter keeps it: in a slot, or in the instance's dict."""
    for each in mro_of(type(obj)):
        if type(slot := namespace_of(each).get(name)) is types.MemberDescriptorType:
            slot.__set__(obj, value)
            return
    object.__getattribute__(obj, "__dict__")[name] = value


def _field(
    default: Any, factory: Any, init: bool, shown: bool, hashed: Any, compared: bool, kw_only: Any, metadata: Any
) -> Any:
    given: dict[str, Any] = {}
    if default is not dataclasses.MISSING:
        given["default"] = default
    if factory is not dataclasses.MISSING:
        given["default_factory"] = factory
    return dataclasses.field(
        **given, init=init, repr=shown, hash=hashed, compare=compared, kw_only=kw_only, metadata=metadata
    )


def _set_fields(cls: Any, fields: dict[str, Any], annotations: dict[str, Any]) -> None:
    type.__setattr__(cls, "__annotations__", annotations)
    for name, given in check_names(fields).items():
        type.__setattr__(cls, name, _field(*given))


def _slots(given: Any) -> Any:
    names_given = (given,) if type(given) is str else tuple(given)
    if not all(type(name) is str for name in names_given):
        raise Unkept("slots that have no names")
    return names_given


@contextlib.contextmanager
def _aside(bases: tuple[Any, ...], is_own: Callable[[object], bool]) -> Any:
    """Set aside those methods of the code that run when an enumeration and its members are made."""
    held = {
        (each, name): namespace_of(each)[name]
        for base in bases
        for each in mro_of(base)
        if is_own(each)
        for name in _OF_MEMBERS
        if _is_of_code(namespace_of(each).get(name))
    }
    try:
        for each, name in held:
            type.__delattr__(each, name)
        yield
    finally:
        for (each, name), value in held.items():
            type.__setattr__(each, name, value)


def _is_of_code(held: Any) -> bool:
    function = held.__func__ if type(held) in (staticmethod, classmethod) else held
    return type(function) is types.FunctionType and function.__module__ in ("__main__", GENERATED_MODULE)


def _member_of_data(cls: Any, value: Any) -> Any:
    """Make a member whose value is there already: an enumeration that mixes in a dataclass would make one of what it is given."""
    made = object.__new__(cls)
    made._value_ = value
    return made


def _plain_dtype(given: Any) -> Any:
    kind = np.dtype(given)
    if kind.hasobject:
        raise Unkept("objects cannot be made of bytes")
    return kind


def _shape(given: Any) -> tuple[int, ...]:
    shape = tuple(given)
    if len(shape) > _MAX_DIMENSIONS or not all(type(each) is int and each >= 0 for each in shape):
        raise Unkept("no shape")
    return shape


def _check_objects(root: Any, kind: Any, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> None:
    """Raise Unkept unless each place is one of the root's: bytes between two objects are not an address."""
    size = kind.itemsize
    steps = (offset, *strides)
    if kind.kind != "O" or len(strides) != len(shape) or not all(type(n) is int and n % size == 0 for n in steps):
        raise Unkept("no places of objects")
    spans = [(count - 1) * stride for count, stride in zip(shape, strides, strict=True) if count]
    low = offset + sum(span for span in spans if span < 0)
    high = offset + sum(span for span in spans if span > 0)
    if 0 not in shape and not (low >= 0 and high + size <= root.nbytes):
        raise Unkept("places outside of the array")
    if not 0 <= offset <= root.nbytes:
        raise Unkept("places outside of the array")
