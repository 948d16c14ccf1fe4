"""How objects of the standard library and of libraries are taken apart that C does not know: by their exact types."""

from __future__ import annotations

import array as real_array
import collections
import configparser
import contextlib
import copyreg
import csv
import dataclasses
import datetime
import decimal
import functools
import gc
import importlib
import inspect
import io
import itertools
import json
import operator
import queue
import re
import sqlite3
import struct
import types
import typing
import zoneinfo
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd

from byref_sandbox.language import databases, files, getters, logs, packed, readers, styles, typed
from byref_sandbox.language.calling import HostFunction
from byref_sandbox.state import drawings, iterators, remembered
from byref_sandbox.state.builders import BUILDERS, PARSERS, QUEUES, SharedValues
from byref_sandbox.state.codes import Code, Unkept
from byref_sandbox.state.known import MATPLOTLIB, Known, name_of_function, text_dtype

_OF_DECODER: Final = ("object_hook", "parse_float", "parse_int", "parse_constant", "strict", "object_pairs_hook")
_FROZEN: Final = ("rv_continuous_frozen", "rv_discrete_frozen")
_DIALECT: Final = (
    "delimiter",
    "quotechar",
    "escapechar",
    "doublequote",
    "skipinitialspace",
    "lineterminator",
    "quoting",
    "strict",
)
_DICT_VIEWS: Final = {
    type(getattr(kind(), name)()): name
    for kind in (dict[Any, Any], collections.OrderedDict[Any, Any])
    for name in ("keys", "values", "items")
}
_compile: Final[Any] = vars(re)["_compile"]
_FLAGS_IN_TEXT: Final = re.compile(r"\A(?:\(\?[aiLmsux]+\))*")


class Writing(Protocol):
    """What a reducer needs of the writer that asks it."""

    known: Known
    libraries: set[str]
    """Libraries of which something is written."""
    is_trial: bool
    """Whether it is only found out whether something can be written."""

    def is_user_class(self, kind: type, /) -> bool:
        """Tell whether the code made a class."""

    def later(self, obj: Any, make: Any, arguments: tuple[Any, ...], fill: Any, state: object) -> Any:
        """Have an object written empty, and its contents after that."""

    def can_write(self, value: object) -> bool:
        """Tell whether a value can be written by itself, in the room that is left."""


def _remembering(writer: Writing, function: Any) -> Any:
    """A `functools.lru_cache` with what it remembers; where that cannot be kept, it is computed again."""
    make, arguments = BUILDERS["lru"], (function.__wrapped__, function.cache_parameters())
    if writer.is_trial or not (results := remembered.of(function)) or not writer.can_write(results):
        return make, arguments
    return writer.later(function, make, arguments, BUILDERS["fill_lru"], (results, *function.cache_info()[:2]))


def _places(_: Writing, places: Any) -> Any:
    """What `frame.loc` and `frame.iloc` are."""
    if places.axis is not None:
        raise Unkept(f"{places.name} of one axis")
    return BUILDERS["bound"], (places.obj, places.name)


def _context(_: Writing, context: Any) -> Any:
    if inspect.getgeneratorstate(context.gen) != inspect.GEN_CREATED:
        raise Unkept("a context that has been entered")
    return BUILDERS["context"], (context.func, context.args, context.kwds)


def _vectorized(_: Writing, function: Any) -> Any:
    """A function of `np.vectorize` without what a call has made, a ufunc, which the next call makes again."""
    make, arguments, state, *rest = function.__reduce_ex__(5)
    return make, arguments, {**state, "_ufunc": {}}, *rest


def _count(_: Writing, count: Any) -> Any:
    # Newer versions of Python give its state in no other way.
    numbers = re.fullmatch(r"count\((-?\d+)(?:, (-?\d+))?\)", repr(count))
    if numbers is None:
        raise Unkept("an itertools.count of no whole numbers")
    return itertools.count, tuple(int(each) for each in numbers.groups() if each)


def _styler(writer: Writing, styler: Any) -> Any:
    if styles.needs_matplotlib(styler):
        writer.libraries.add(MATPLOTLIB)
    return BUILDERS["styler"], styles.parts(styler)


def _csv_writer(_: Writing, writer: Any) -> Any:
    files = [one.__self__ for one in gc.get_referents(writer) if type(one) is types.BuiltinMethodType]
    if [type(one) for one in files] != [io.StringIO]:
        raise Unkept("a csv.writer into something else than text")
    options = {name: getattr(writer.dialect, name) for name in _DIALECT}
    return BUILDERS["csv_writer"], (files[0], options)


def _connection(_: Writing, connection: Any) -> Any:
    try:
        parts = databases.parts(connection)
    except databases.NotKept as error:
        raise Unkept(str(error)) from error
    state = connection.row_factory, databases.made_for(connection)
    return BUILDERS["connection"], parts, state, None, None, BUILDERS["fill_connection"]


def _cursor(_: Writing, cursor: Any) -> Any:
    try:
        return BUILDERS["cursor"], (cursor.connection, *databases.left_of(cursor))
    except databases.NotKept as error:
        raise Unkept(str(error)) from error


def _archive(_: Writing, archive: Any) -> Any:
    try:
        return BUILDERS["archive"], archive._parts()
    except packed.NotKept as error:
        raise Unkept(f"{error}: close it") from error


def _file(_: Writing, file: Any) -> Any:
    if (parts := file._parts()) is None:
        raise Unkept("an open file: what is in it is kept under its name")
    return BUILDERS["file"], parts


def _parser(_: Writing, parser: Any) -> Any:
    if vars(parser)["_given"]["dict_type"] not in (dict, collections.OrderedDict):
        raise Unkept("a parser of settings that keeps them in other dicts than Python's")
    options, state = readers.parts_of_parser(parser)
    arguments = type(parser).__name__, options
    return BUILDERS["parser"], arguments, state, None, None, BUILDERS["fill_parser"]


def _decoder(_: Writing, decoder: Any) -> Any:
    options = {name: getattr(decoder, name) for name in _OF_DECODER}
    usual, own = json.JSONDecoder().parse_constant, options["parse_constant"]
    if type(own) is type(usual) and own == usual:
        del options["parse_constant"]
    return BUILDERS["decoder"], (options,)


def _queue(writer: Writing, one: Any) -> Any:
    """A queue of threads, of which there is one. Its locks are made anew."""
    if type(one) is queue.SimpleQueue:  # which gives what is in it in no other way
        state: Any = ([one.get_nowait() for _ in range(one.qsize())],)
        for item in state[0]:
            one.put_nowait(item)
    else:
        state = one.queue, one.maxsize, one.unfinished_tasks, getattr(one, "is_shutdown", False)
    return writer.later(one, BUILDERS["thread_queue"], (type(one).__name__,), BUILDERS["fill_thread_queue"], state)


def _number_of_mpmath(writer: Writing, number: Any) -> Any:
    writer.libraries.add("sympy")
    raw = number._mpc_ if hasattr(number, "_mpc_") else (number._mpf_,)
    return BUILDERS["number_of_mpmath"], tuple(part for each in raw for part in _parts_of_mpmath(each))


def _parts_of_mpmath(raw: tuple[Any, ...]) -> tuple[int | float, int]:
    sign, value, power, _ = raw
    if not value and power:  # an infinity, or none
        return importlib.import_module("mpmath").libmp.to_float(raw), 0
    return int(-value if sign else value), int(power)


def _matrix_of_mpmath(writer: Writing, matrix: Any) -> Any:
    writer.libraries.add("sympy")
    return BUILDERS["matrix_of_mpmath"], (matrix.rows, matrix.cols, dict(matrix._matrix__data))


def _pattern(_: Writing, pattern: re.Pattern[Any]) -> Any:
    if type(pattern.pattern) not in (str, bytes):
        raise Unkept("a pattern whose text is of a class of its own")
    return _compile, (pattern.pattern, _given_flags(pattern))


def reduced_by_module(writer: Writing, obj: Any, kind: type) -> Any:
    """Take an object apart whose class a library makes as it needs it; None: it is none of these."""
    module = str(kind.__module__)  # of a compiled class it may be None
    if module in drawings.OF_DISTRIBUTIONS and not writer.is_user_class(kind):
        if kind.__name__ in _FROZEN and kind in writer.known.drawn:
            return _distribution(writer, obj)
        if kind.__name__ in drawings.TABULATED:
            writer.libraries.add("scipy")
            return BUILDERS["tabulated"], (kind.__name__, obj._updated_ctor_param())
    if module == drawings.VARIABLES and kind in writer.known.drawn:
        return BUILDERS["variable"], (kind, *_variable(obj))
    if module in ("pytz", "pytz.tzfile") and issubclass(kind, datetime.tzinfo):
        return BUILDERS["old_zone"], obj.__reduce__()[1]
    if module.startswith("patsy.") and kind in writer.known.drawn:
        return _of_formula(obj, kind)
    return None


def _distribution(writer: Writing, frozen: Any) -> Any:
    """Compiled code and functions made of text are in it, so its parameters are written."""
    dist = frozen.dist
    if type(dist).__name__ in drawings.TABULATED and not writer.is_user_class(type(dist)):
        return BUILDERS["frozen"], (dist, frozen.args, frozen.kwds)
    stats: Any = writer.known.language._modules.facades.get("scipy.stats")
    known = getattr(stats, str(dist.name), None)
    if known is None or type(known) is not type(dist) or known._updated_ctor_param() != dist._updated_ctor_param():
        raise Unkept("a distribution of scipy's stats that is not made by one of its names")
    writer.libraries.add("scipy")
    return BUILDERS["distribution"], (dist.name, frozen.args, frozen.kwds)


def _variable(variable: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a random variable of scipy, and how it is computed where that is not the default."""
    how = {name: getattr(variable, name) for name in ("validation_policy", "cache_policy")}
    null = importlib.import_module("scipy.stats._distribution_infrastructure")._null
    if variable.tol is not null and variable.tol is not None:
        how["tol"] = variable.tol
    return variable._original_parameters, {name: given for name, given in how.items() if given is not None}


def _of_formula(part: Any, kind: type) -> Any:
    """Take a part of a formula, or a matrix made by one, apart. patsy refuses to be pickled: it promises no format to files."""
    if not issubclass(kind, np.ndarray):
        return copyreg.__newobj__, (kind,), vars(part)  # type: ignore[attr-defined]
    if "design_info" not in vars(part):  # a slice of a matrix
        return np.ndarray.__reduce__(part)
    return copyreg.__newobj__, (kind, part.view(np.ndarray), part.design_info)  # type: ignore[attr-defined]


def _contents(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()  # of a variable that has no value yet


def _given_flags(pattern: re.Pattern[Any]) -> int:
    """Return the flags that code gave with a pattern: by them `re` finds the pattern when the code compiles it once more."""
    text: Any = pattern.pattern
    is_text = isinstance(text, str)
    begin: Any = _FLAGS_IN_TEXT.match(text if is_text else text.decode("latin-1"))
    implied = {re.RegexFlag[letter.upper()] for letter in {*begin[0]} - {*"(?)"}} | ({re.UNICODE} if is_text else set())
    return int(pattern.flags & ~functools.reduce(operator.or_, implied, 0))


def _forward_ref(_: Writing, hint: Any) -> Any:
    """A type hint by its text: what Python compiled of it is code, of which a stream has none."""
    text, is_of_code = str.__str__(hint.__forward_arg__), hint.__forward_module__ == "__main__"
    return BUILDERS["forward_ref"], (text, hint.__forward_is_argument__, is_of_code, hint.__forward_is_class__)


def _key_of(zone: zoneinfo.ZoneInfo) -> str:
    if zone.key is None:
        raise Unkept("a time zone without a name")
    return zone.key


REDUCERS: Final[dict[type, Callable[[Writing, Any], Any]]] = {
    types.CellType: lambda _w, c: (BUILDERS["cell"], (), _contents(c) or None, None, None, BUILDERS["fill_cell"]),
    types.MappingProxyType: lambda _w, m: (BUILDERS["proxy"], (gc.get_referents(m)[0],)),
    types.SimpleNamespace: lambda w, s: w.later(s, BUILDERS["namespace"], (), BUILDERS["fill_namespace"], s.__dict__),
    staticmethod: lambda _w, m: (BUILDERS["static"], (m.__func__,)),
    classmethod: lambda _w, m: (BUILDERS["of_class"], (m.__func__,)),
    property: lambda _w, p: (BUILDERS["property"], (p.fget, p.fset, p.fdel, p.__doc__)),
    functools.cached_property: lambda _w, p: (BUILDERS["cached"], (p.func, p.attrname)),
    functools.partialmethod: lambda _w, p: (BUILDERS["partial_method"], (p.func, p.args, p.keywords)),
    np.vectorize: _vectorized,
    itertools.count: _count,
    itertools.cycle: lambda _w, c: (BUILDERS["cycle"], iterators.items_of(c)),
    contextlib._GeneratorContextManager: _context,
    HostFunction: lambda _w, f: (BUILDERS["known"], (name_of_function(f),)),
    logs.Logger: lambda _w, logger: (BUILDERS["logger"], (logger.name,)),
    type(csv.writer(io.StringIO())): _csv_writer,
    **dict.fromkeys((files.TextFile, files.BinaryFile), _file),
    **dict.fromkeys(QUEUES.values(), _queue),
    struct.Struct: lambda _w, s: (struct.Struct, (s.format,)),
    **dict.fromkeys((np.finfo, np.iinfo), lambda _w, i: (type(i), (i.dtype,))),
    databases.Connection: _connection,
    databases.Cursor: _cursor,
    styles.Styler: _styler,
    functools._lru_cache_wrapper: _remembering,
    sqlite3.Row: lambda _w, row: (BUILDERS["row"], (tuple(row.keys()), tuple(row))),
    decimal.Context: lambda _w, c: (
        (BUILDERS["context_of_decimals"], ()) if c is decimal.getcontext() else NotImplemented
    ),
    getters.AttributeGetter: lambda _w, g: (BUILDERS["getter"], ("attrgetter", *getters.given(g))),
    getters.MethodCaller: lambda _w, g: (BUILDERS["getter"], ("methodcaller", *getters.given(g))),
    **dict.fromkeys((type(pd.DataFrame().loc), type(pd.DataFrame().iloc)), _places),
    SharedValues: lambda _w, _r: (BUILDERS["values"], ()),
    pd.StringDtype: lambda _w, d: (
        NotImplemented if (one := text_dtype(d)) is d else (BUILDERS["known"], (f"single:text in {one.storage}",))
    ),
    re.Pattern: _pattern,
    re.Match: lambda _w, m: (BUILDERS["match"], (m.re, m.string, m.span(), m.pos, m.endpos)),
    zoneinfo.ZoneInfo: lambda _w, z: (BUILDERS["zone"], (_key_of(z),)),
    typed.array: lambda _w, a: (BUILDERS["typed"], (a.typecode, real_array.array.tobytes(a._items))),
    typing.TypeVar: lambda _w, t: (
        BUILDERS["type_variable"],
        (t.__name__, t.__constraints__, t.__bound__, t.__covariant__, t.__contravariant__),
    ),
    typing.ForwardRef: _forward_ref,
    typing.NewType: lambda _w, t: (BUILDERS["new_type"], (t.__name__, t.__supertype__)),
    dataclasses.InitVar: lambda _w, v: (BUILDERS["init_variable"], (v.type,)),
    dataclasses.Field: lambda _w, f: (
        BUILDERS["field"],
        ((f.default, f.default_factory, f.init, f.repr, f.hash, f.compare, f.kw_only, dict(f.metadata)),),
    ),
    pd.arrays.IntervalArray: lambda _w, i: (BUILDERS["intervals"], (i._left, i._right, i.closed)),
    configparser.SectionProxy: lambda _w, s: (operator.getitem, (s.parser, s.name)),
    json.JSONDecoder: _decoder,
    Code: lambda _w, c: (BUILDERS["code"], tuple(c)),
    **{
        kind: lambda _w, v, name=name: (BUILDERS["dict_view"], (gc.get_referents(v)[0], name))  # type: ignore[misc]
        for kind, name in _DICT_VIEWS.items()
    },
}


REDUCERS_BY_NAME: Final[dict[str, Callable[[Writing, Any], Any]]] = {
    "zipfile.ZipFile": _archive,
    "xml.etree.ElementTree.ElementTree": lambda _w, tree: (type(tree), (tree.getroot(),)),
    **{f"configparser.{name}": _parser for name in PARSERS},
    **dict.fromkeys(("mpmath.mpf", "mpmath.mpc"), _number_of_mpmath),
    "mpmath.matrix": _matrix_of_mpmath,
}
"""Of classes that each language makes for itself."""
