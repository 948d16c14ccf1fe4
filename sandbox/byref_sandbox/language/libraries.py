"""numpy, pandas and pyarrow as the language has them."""

from __future__ import annotations

import contextlib
import decimal
import functools
import importlib
import re
import types
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow
from pandas._config import config
from pandas._config.config import DictWrapper
from pandas.core.indexing import _AtIndexer, _iAtIndexer, _iLocIndexer, _LocIndexer
from pandas.tseries import frequencies, holiday

from byref_sandbox.code.words import words
from byref_sandbox.language import arrays, frames, names, slow
from byref_sandbox.language.allowed import (
    NUMPY_CHECKS,
    NUMPY_HIDDEN,
    NUMPY_HINTS,
    NUMPY_PARTS,
    PANDAS_API_HINTS,
    PANDAS_CHECKS,
    PANDAS_HIDDEN,
    PANDAS_HINTS,
    PANDAS_HOLIDAYS,
    PANDAS_OPTIONS,
    PANDAS_QUERIES,
    PANDAS_READERS,
    PYARROW_TYPES,
    WHERE_INSTALLED,
)
from byref_sandbox.language.arrayfiles import array_file_names, tofile
from byref_sandbox.language.expressions import expression_method
from byref_sandbox.language.facades import Facade, FullStandInMeta, stand_in
from byref_sandbox.language.files import Files
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.modules import Modules, public
from byref_sandbox.language.refusal import NotAllowed
from byref_sandbox.values import construct

_Scalar = TypeVar("_Scalar", bound=np.generic)


def install(guards: Guards, modules: Modules, files: Files) -> None:
    """Add them to the modules, and tell the guards which of their methods and attributes need care."""
    construct.install()
    slow.install()
    _no_dunder_labels()
    _no_zone_files()
    _no_printed_patterns()
    _no_metaclass()
    _numpy(guards, modules, files)
    _pandas(guards, modules, files)
    for name, listed in WHERE_INSTALLED.items():
        with contextlib.suppress(ImportError):
            modules.add(name, public(importlib.import_module(name), listed))
    hints = dict.fromkeys(["array", "table", "Table", "compute", "parquet", "csv"], "use pandas")
    modules.add("pyarrow", public(pyarrow, PYARROW_TYPES), hints=hints)
    guards.wrappers.update(dict.fromkeys(names.TEXT_METHODS, functools.partial(frames.text_method, files)))
    guards.wrappers.update(dict.fromkeys(names.FUNCTION_METHODS, frames.function_method))
    guards.wrappers.update(dict.fromkeys(names.EXPRESSION_METHODS, expression_method))
    guards.wrappers["pivot_table"] = frames.pivot
    guards.wrappers["to_sql"] = frames.to_sql
    guards.wrappers["resize"] = arrays.resize
    guards.wrappers["set_state"] = arrays.set_state
    guards.wrappers["tofile"] = tofile(files)
    guards.memory.update(arrays.MEMORY)
    indexers = (_LocIndexer, _iLocIndexer, _AtIndexer, _iAtIndexer)
    guards.writable_types = (pd.DataFrame, pd.Series, pd.Index, *indexers, types.SimpleNamespace, BaseException)
    guards.writable_attributes[decimal.Context] = words("prec rounding Emin Emax capitals clamp")
    guards.writable_attributes[np.ndarray] = words("shape real imag flat")
    guards.writable_attributes[np.matrix] = guards.writable_attributes[np.ndarray]
    guards.writable_attributes[np.ma.MaskedArray] = guards.writable_attributes[np.ndarray] | {"mask", "fill_value"}
    guards.writable_attributes[arrays.ArrayFlags] = words("writeable")
    guards.stand_ins[arrays.ArrayFlags] = stand_in(type(np.zeros(1).flags), "use array.flags")
    guards.writable_attributes[type(pd.DataFrame().flags)] = words("allows_duplicate_labels")
    groups = (getattr(pd.options, name) for name in _OPTION_GROUPS)
    settable = frozenset(option for group in groups for option in dir(group))
    guards.stand_ins[_Options] = stand_in(DictWrapper, "use pd.set_option()")
    guards.writable_attributes[_Options] = settable - {"string_storage"}


def _no_zone_files() -> None:
    """Keep pandas from reading a file as a time zone: `dateutil//etc/passwd`."""
    vars(importlib.import_module("pandas._libs.tslibs.timezones"))["dateutil_gettz"] = _zone_by_name


def _no_printed_patterns() -> None:
    """Have re.DEBUG print nothing: a stored pattern would print itself in every later run."""
    for name in ("re._compiler", "re._parser"):
        vars(importlib.import_module(name))["SRE_FLAG_DEBUG"] = 0


def _no_metaclass() -> None:
    """Keep CategoricalDtypeType, which inherits from `type`, from making classes without the checks of a class statement."""

    def refuse(*_arguments: object, **_options: object) -> Any:
        raise NotAllowed("CategoricalDtypeType() cannot be called", "use a class statement")

    setattr(importlib.import_module("pandas.core.dtypes.dtypes").CategoricalDtypeType, "__new__", refuse)  # noqa: B010


def _no_dunder_labels() -> None:
    """Keep the labels of a Series from answering protocols.

    A Series gives out its items as attributes, and numpy asks it for `__array_interface__`, which is an address in memory.
    """
    look_up: Callable[[Any, str], Any] = pd.Series.__getattr__

    def public_only(self: Any, name: str) -> Any:
        if names.is_dunder(name):
            raise AttributeError(f"'Series' object has no attribute {name!r}")
        return look_up(self, name)

    if "__getattr__" not in vars(pd.Series):  # once in a process
        setattr(pd.Series, "__getattr__", public_only)  # noqa: B010


def _numpy(guards: Guards, modules: Modules, files: Files) -> None:
    # Filtered by name, before the look-up: numpy imports f2py and ctypeslib as soon as somebody asks for them.
    exposed = public(np, (n for n in _listed(np) if n not in NUMPY_HIDDEN and not n.startswith("_")))
    for name in NUMPY_PARTS:
        part: types.ModuleType = getattr(np, name)
        listed = {n: v for n, v in public(part, getattr(part, "__all__", None)).items() if n not in NUMPY_HIDDEN}
        exposed[name] = modules.add(f"numpy.{name}", listed, part)
    for name, left_out in (
        ("char", ()),
        ("random", ()),
        ("exceptions", ()),
        ("dtypes", ()),
    ):
        part = getattr(np, name)
        found = [n for n in dir(part) if not n.startswith("_")] if name == "exceptions" else _listed(part)
        listed = {n: v for n, v in public(part, found).items() if n not in left_out}
        exposed[name] = modules.add(f"numpy.{name}", listed, part)
    exposed["frombuffer"] = arrays.frombuffer
    vars(exposed["random"])["set_state"] = arrays.set_state(np.random.set_state)
    vars(exposed["ma"]).pop("frombuffer", None)
    guards.replace(memoryview, "use bytes or bytearray")
    for real in public(np.char, ["chararray"]).values():  # deprecated: to read it warns, and a later numpy has none
        vars(exposed["char"])["chararray"] = guards.replace(real, make=arrays.chararray(real))
    exposed["testing"] = modules.add("numpy.testing", public(np.testing, NUMPY_CHECKS), np.testing)
    windows = {"sliding_window_view": np.lib.stride_tricks.sliding_window_view, "as_strided": arrays.as_strided}
    tricks = modules.add("numpy.lib.stride_tricks", windows)
    fields = importlib.import_module("numpy.lib.recfunctions")
    of_fields = modules.add("numpy.lib.recfunctions", public(fields, _listed(fields)), fields)
    exposed["lib"] = modules.add("numpy.lib", {"stride_tricks": tricks, "recfunctions": of_fields}, np.lib)
    array_class = exposed["ndarray"] = guards.replace(np.ndarray, make=arrays.new_array)
    exposed["recarray"] = guards.stand_ins[np.recarray] = arrays.RecordArray
    for name in ("loadtxt", "genfromtxt", "fromregex"):
        exposed[name] = frames.reader(files, getattr(np, name), f"np.{name}")
    exposed["savetxt"] = frames.savetxt(files)
    exposed.update(array_file_names(files))
    exposed.update(bmat=arrays.matrix_of_blocks, nditer=arrays.Iterator)
    guards.stand_ins[np.nditer] = arrays.Iterator
    parts = public(np.rec, words("fromarrays fromrecords format_parser find_duplicate"))
    own = {"array": arrays.record_array, "recarray": arrays.RecordArray, "record": np.record}
    exposed["rec"] = modules.add("numpy.rec", parts | own, np.rec)
    exposed["record"] = np.record
    modules.add("numpy.core.records", vars(exposed["rec"]))
    exposed["core"] = modules.add("numpy.core", {"records": modules.facades["numpy.core.records"]})
    exposed["ScalarType"] = tuple(map(guards.in_place_of, np.ScalarType))
    exposed["__version__"] = np.__version__
    # Not the real hints: their arguments, and a call of them, would give out the real class.
    array_hint = types.GenericAlias(array_class, (Any, types.GenericAlias(np.dtype, (_Scalar,))))
    hints = {"NDArray": array_hint, "ArrayLike": Any, "DTypeLike": Any}
    exposed["typing"] = modules.add("numpy.typing", hints)
    modules.add("numpy", exposed, np, NUMPY_HINTS)


def _pandas(guards: Guards, modules: Modules, files: Files) -> None:
    exposed = {n: v for n, v in public(pd, _listed(pd)).items() if n not in PANDAS_HIDDEN and not n.startswith("read_")}
    kinds = modules.add("pandas.api.types", public(pd.api.types), pd.api.types)
    # The real constructors set any attribute that they get by keyword.
    forward = pd.api.indexers.FixedForwardWindowIndexer
    window = guards.replace(forward, make=lambda window_size=0: forward(window_size=window_size))
    variable = pd.api.indexers.VariableOffsetWindowIndexer
    offset_window = guards.replace(
        variable,
        make=lambda index_array=None, window_size=0, index=None, offset=None: variable(
            index_array, window_size, index, offset
        ),
    )
    indexers = modules.add(
        "pandas.api.indexers",
        {
            "FixedForwardWindowIndexer": window,
            "VariableOffsetWindowIndexer": offset_window,
            "check_array_indexer": pd.api.indexers.check_array_indexer,
        },
        pd.api.indexers,
    )
    exposed["api"] = modules.add("pandas.api", {"types": kinds, "indexers": indexers}, pd.api, PANDAS_API_HINTS)
    exposed["errors"] = modules.add("pandas.errors", public(pd.errors, _listed(pd.errors)))
    exposed["offsets"] = modules.add("pandas.tseries.offsets", public(pd.offsets, _listed(pd.offsets)))
    parts = modules.add("pandas.tseries.frequencies", public(frequencies, ["to_offset", "infer_freq"]))
    days = modules.add("pandas.tseries.holiday", public(holiday, PANDAS_HOLIDAYS), holiday)
    guards.bases.add(holiday.AbstractHolidayCalendar)
    exposed["tseries"] = modules.add(
        "pandas.tseries", {"offsets": exposed["offsets"], "frequencies": parts, "holiday": days}
    )
    exposed["testing"] = modules.add("pandas.testing", public(pd.testing, PANDAS_CHECKS))
    exposed["arrays"] = modules.add("pandas.arrays", public(pd.arrays, _listed(pd.arrays)))
    of_core = modules.add("pandas.core.arrays", vars(exposed["arrays"]))  # where documentation imports them from
    exposed["core"] = modules.add("pandas.core", {"arrays": of_core}, importlib.import_module("pandas.core"))
    for name in PANDAS_READERS:
        exposed[name] = frames.reader(files, getattr(pd, name), f"pd.{name}")
    exposed["read_xml"] = frames.reader(files, frames.xml_reader(pd.read_xml), "pd.read_xml")
    with contextlib.suppress(ImportError):  # python-calamine is not installed: the hints say so
        from byref_sandbox.language.spreadsheets import spreadsheet_names

        exposed.update(spreadsheet_names(files, guards))
    for name in PANDAS_QUERIES:
        exposed[name] = frames.query(getattr(pd, name))
    exposed["MultiIndex"] = guards.replace(pd.MultiIndex, make=arrays.multi_index, kind=FullStandInMeta)
    exposed["eval"] = expression_method(pd.eval, "pd.eval")
    for name in ("pivot_table", "crosstab"):
        exposed[name] = frames.pivot(getattr(pd, name), name)
    for name in PANDAS_OPTIONS:
        exposed[name] = _options(getattr(pd, name), name)
    groups = {name: _Options(getattr(pd.options, name)) for name in _OPTION_GROUPS}
    exposed["options"] = Facade("pandas.options", groups)
    exposed["__version__"] = pd.__version__
    modules.add("pandas", exposed, pd, PANDAS_HINTS)


class _Options:
    """Stands for `pd.options.display` and its like: an attribute of the real ones is the dict of all options."""

    __slots__ = ("_group",)

    def __init__(self, group: DictWrapper) -> None:
        object.__setattr__(self, "_group", group)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in dir(self._group):
            raise AttributeError(f"No such option: {name!r}", name=name)
        found = getattr(self._group, name)
        return _Options(found) if type(found) is DictWrapper else found

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._group, name, value)

    def __dir__(self) -> list[str]:
        return dir(self._group)


_Options.__name__ = _Options.__qualname__ = DictWrapper.__name__


def _listed(module: types.ModuleType) -> list[str]:
    return list(module.__dict__["__all__"])


def _options(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        flat: list[Any] = []
        for argument in arguments:
            flat.extend([x for pair in argument.items() for x in pair] if type(argument) is dict else [argument])
        if name == "reset_option" and (found := _harmless_among(flat[0] if flat else options.get("pat"))):
            for key in found:
                function(key)
            return None
        for key in flat[::2] if name in ("set_option", "option_context") else flat[:1]:
            if type(key) is not str or not _HARMLESS_OPTION.fullmatch(key):
                raise NotAllowed(
                    f"pd.{name}({str(key)[:60]!r}) is not available",
                    f"only these options can be changed: {', '.join(f'{group}.*' for group in _OPTION_GROUPS)}",
                )
        return function(*flat, **options)

    return call


def _harmless_among(pattern: object) -> list[str]:
    """Return those of the options that a pattern means, or `all`, that code may set; none if pandas itself answers for the pattern."""
    if type(pattern) is not str or _HARMLESS_OPTION.fullmatch(pattern) or (len(pattern) < 4 and pattern != "all"):
        return []
    keys: list[str] = vars(config)["_select_options"](pattern)
    return [key for key in keys if key.partition(".")[0] in _OPTION_GROUPS]


def _zone_by_name(name: str) -> Any:
    try:
        zone = importlib.import_module("dateutil.tz").gettz(name) if _ZONE_NAME.fullmatch(name) else None
    except ImportError:  # a run can import nothing
        zone = None
    if zone is None:
        raise NotAllowed(f"the time zone 'dateutil/{name[:60]}' is not available", "name the zone alone: 'Europe/Oslo'")
    return zone


_ZONE_NAME = re.compile(r"[A-Za-z][\w+-]*(/[\w+-]+){0,3}", re.ASCII)
_OPTION_GROUPS = ("display", "mode", "future")
"""Groups of options that may be set. Others name modules and engines by a string (`plotting.backend`, `io.*`) or ask for packages (`compute.*`)."""
_HARMLESS_OPTION = re.compile(
    rf"(\^?({'|'.join(_OPTION_GROUPS)})|max_|min_rows|precision|width|chop|expand|float_format|string_storage)[a-z_.]*"
)
