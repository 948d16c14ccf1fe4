"""Further modules that a host allows by name: they are checked once more where they are loaded, and code gets what reaches nothing.

The check reads sources (`code.checking`). What it cannot see, the values that are there once a module is loaded, is looked at here:
a function or class is given out only if it was read, and nothing of it leads to a module, or to what code does not have.
"""

from __future__ import annotations

import calendar
import contextlib
import copy
import csv
import datetime
import decimal
import enum
import functools
import importlib
import random
import re
import sys
import types
import typing
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from pandas._config import config as pandas_config

from byref_sandbox.code.checking import Checked, check
from byref_sandbox.language.modules import Modules
from byref_sandbox.language.science.walls import refused

_PLAIN: Final = frozenset(
    {str, bytes, int, float, complex, bool, type(None), range, re.Pattern, decimal.Decimal, type(...)}
    | {datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone}
)
_DEPTH: Final = 3
_MAX_ITEMS: Final = 500
_MAX_WRAPPED: Final = 10
"""Functions around one another."""
_OF_PYTHON: Final = frozenset({"builtins", "abc", "typing", "enum", "collections", "collections.abc"})
"""Modules whose classes may stand above a class that code gets."""
_NOWHERE: Final = "/nonexistent/byref"
_REFUSED: Final = refused("", "").__code__
_LOADED_BY_THEMSELVES: Final = frozenset(
    {"__doc__", "__abstractmethods__", "_abc_impl", "__parameters__", "__annotations__"}
)


def load(name: str, modules: Modules, builtins: Mapping[str, Any]) -> None:
    """Import a module and add its facades; raise ImportError of one that may not be there, with the reason."""
    checked = check(name)
    if checked.refused:
        raise ImportError(f"{name} may not be there: {checked.refused[0]}", name=name)
    given = {id(v): v for facade in modules.facades.values() for v in vars(facade).values()}
    given |= {id(value): value for value in builtins.values()}
    classes = [value for value in given.values() if isinstance(value, type)]
    functions = [value for value in given.values() if type(value) is types.FunctionType]
    with _unchanged(classes, functions), _settings_as_they_were(), _from_source(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in dict.fromkeys([name, *checked.modules]):
            try:
                importlib.import_module(module)
            except Exception as error:
                if module == name:
                    raise ImportError(f"{name} cannot be loaded: {type(error).__name__}: {error}", name=name) from error
    _replace_methods(checked)
    fitting = _Fitting(checked, given)
    own = [module for module in checked.modules if module == name or module.startswith(f"{name}.")]
    public = [module for module in own if module in sys.modules and not _is_internal(module)]
    for part in _above(name):
        modules.add(part, {}, sys.modules[part])
    for module in sorted(public):
        real = sys.modules[module]
        attributes = fitting.names_of(real)
        hints = {n: f"it would reach {why.partition(':')[0]}" for n, why in fitting.left_out(real).items()}
        facade = modules.add(module, attributes, real, hints)
        above, _, part = module.rpartition(".")
        if above:
            vars(modules.facades[above]).setdefault(part, facade)


def _is_internal(module: str) -> bool:
    return any(part.startswith("_") or part in ("tests", "test") for part in module.split("."))


def _above(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


@contextlib.contextmanager
def _unchanged(classes: Iterable[type], functions: Iterable[types.FunctionType]) -> Iterator[None]:
    """Put classes and functions back as they were, and raise ImportError, if what is done here has changed one."""
    before = [(kind, dict(vars(kind))) for kind in classes]
    had_parts = [(function, *_parts_of(function)) for function in functions]
    yield
    changed = []
    for kind, had in before:
        has = vars(kind)
        names = {n for n in {*had, *has} if had.get(n, before) is not has.get(n, before)} - _LOADED_BY_THEMSELVES
        for name in names:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(kind, name, had[name]) if name in had else delattr(kind, name)
                changed.append(f"{kind.__name__}.{name}")
    for function, code, defaults, by_name in had_parts:
        if _parts_of(function) != (code, defaults, by_name):
            function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, by_name
            changed.append(function.__qualname__)
    if changed:
        raise ImportError(f"it changes what is not its own: {', '.join(changed[:3])}")


def _parts_of(function: types.FunctionType) -> tuple[Any, ...]:
    named = function.__kwdefaults__
    return function.__code__, function.__defaults__, None if named is None else dict(named)


@contextlib.contextmanager
def _settings_as_they_were() -> Iterator[None]:
    """Undo what importing a module sets for all of the process: sessions that share it begin as others do."""
    context, options = decimal.getcontext().copy(), copy.deepcopy(vars(pandas_config)["_global_config"])
    before = random.getstate(), np.random.get_state(), np.geterr()
    printing: Any = np.get_printoptions()
    first_day, field_size, depth = calendar.firstweekday(), csv.field_size_limit(), sys.getrecursionlimit()
    try:
        yield
    finally:
        state, numbers, errors = before
        random.setstate(state)
        np.random.set_state(numbers)
        np.seterr(**errors)
        np.set_printoptions(**{name: value for name, value in printing.items() if name != "override_repr"})
        decimal.setcontext(context)
        vars(pandas_config)["_global_config"].clear()
        vars(pandas_config)["_global_config"].update(options)
        calendar.setfirstweekday(first_day)
        csv.field_size_limit(field_size)
        sys.setrecursionlimit(depth)


@contextlib.contextmanager
def _from_source() -> Iterator[None]:
    """Have modules compiled of the sources that were read: bytes beside them may have been made of others."""
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = _NOWHERE, True
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


def _replace_methods(checked: Checked) -> None:
    for place, why in checked.reached.items():
        module, _, name = place.partition(":")
        owner, _, method = name.rpartition(".")
        kind: Any = sys.modules.get(module)
        for step in owner.split(".") if owner else ():
            kind = getattr(kind, step, None)
        if isinstance(kind, type) and method in vars(kind):
            with contextlib.suppress(AttributeError, TypeError):
                setattr(kind, method, refused(f".{method}()", f"it would reach {why.partition(':')[0]}"))


class _Fitting:
    """Says which values of a loaded module code may have. `given` is what it has already, by id."""

    def __init__(self, checked: Checked, given: Mapping[int, object]) -> None:
        self._checked = checked
        self._given = given
        self._spaces = {id(vars(sys.modules[name])): name for name in checked.modules if name in sys.modules}
        self._at: dict[tuple[str, int], list[str]] = {}
        """What begins in a line of a module."""
        for place, lines in checked.places.items():
            for line in lines:
                self._at.setdefault((place.partition(":")[0], line), []).append(place)
        self._classes: dict[type, bool] = {}

    def names_of(self, module: types.ModuleType) -> dict[str, Any]:
        """Return the public names of a module that code may have."""
        # Not by getattr: a module's own `__getattr__` could do anything.
        held = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        found = {name: value for name, value in held.items() if self._is_fit(value, name)}
        if type(version := vars(module).get("__version__")) is str:
            found["__version__"] = version
        return found

    def left_out(self, module: types.ModuleType) -> dict[str, str]:
        """By name of those that it left out: what they reach, as far as that is known."""
        reasons = {}
        for name, value in vars(module).items():
            if why := self._checked.reached.get(self._place(value, name)):
                reasons[name] = why
        return reasons

    def _place(self, value: Any, name: str = "") -> str:
        """Where the source has a function or class, by what it says of itself."""
        value = _unwrapped(value)
        named = str(getattr(value, "__qualname__", "")).partition(".<locals>")[0]
        return f"{getattr(value, '__module__', '')}:{name if named == '<lambda>' else named}"

    def _is_read(self, kind: type) -> bool:
        """Whether a class was read and reaches nothing. It is looked up where it says that it is."""
        found: Any = sys.modules.get(kind.__module__)
        for step in kind.__qualname__.split("."):
            found = (
                getattr(vars(found).get(step), "__func__", vars(found).get(step))
                if hasattr(found, "__dict__")
                else None
            )
        place = f"{kind.__module__}:{kind.__qualname__}"
        return found is kind and place in self._checked.places and place not in self._checked.reached

    def _is_read_function(self, function: types.FunctionType) -> bool:
        """Whether a function was read and reaches nothing, by its code: its name may be that of another."""
        module, code = self._spaces.get(id(function.__globals__)), function.__code__
        if module is None:
            return id(function) in self._given or code is _REFUSED or _is_made(function)
        name, _, inner = code.co_qualname.partition(".<locals>")
        if name.rpartition(".")[2] == "<lambda>":  # of one that has no name, what it stands in was read with it
            places = self._at.get((module, code.co_firstlineno), [])
            return all(place not in self._checked.reached for place in places)
        place = f"{module}:{name}"
        is_there = bool(inner) or code.co_firstlineno in self._checked.places.get(place, ())
        return is_there and place in self._checked.places and place not in self._checked.reached

    def _are_read(self, value: Any) -> bool:
        """Whether a function, and each that it is wrapped around, was read and reaches nothing."""
        for _ in range(_MAX_WRAPPED):
            if type(value) is types.FunctionType and not self._is_read_function(value):
                return False
            if (value := getattr(value, "__wrapped__", None)) is None:
                return True
        return False

    def _is_fit(self, value: Any, name: str = "", depth: int = 0) -> bool:
        kind = type(value)
        if kind in _PLAIN:
            return True
        if depth > _DEPTH or kind is types.ModuleType:
            return False
        if id(value) in self._given:
            return True
        if kind in (tuple, frozenset):
            return len(value) <= _MAX_ITEMS and all(self._is_fit(item, "", depth + 1) for item in value)
        if kind is types.FunctionType or kind is functools._lru_cache_wrapper:
            return self._is_fit_function(value, depth)
        if kind is types.BuiltinFunctionType:  # a method of a class that code has: `chain.from_iterable`
            return id(value.__self__) in self._given and isinstance(value.__self__, type) and value.__name__[0] != "_"
        if kind is functools.partial:
            parts = (value.func, *value.args, *value.keywords.values())
            return all(self._is_fit(part, "", depth + 1) for part in parts)
        if issubclass(kind, type):
            return self._is_fit_class(value, depth)
        if not self._is_fit_class(kind, depth):
            return False
        for attribute in dir(value):
            if not attribute.startswith("_"):
                try:
                    held = getattr(value, attribute)
                except Exception:  # noqa: BLE001  (a property may raise anything)
                    continue
                if type(held) is not types.MethodType and not self._is_fit_member(held, attribute, depth + 1):
                    return False
        return True

    def _is_fit_function(self, value: Any, depth: int) -> bool:
        if not isinstance(_unwrapped(value), types.FunctionType):
            return False
        attributes = {n: v for n, v in vars(value).items() if not n.startswith("_")}
        return self._are_read(value) and all(self._is_fit(v, n, depth + 1) for n, v in attributes.items())

    def _is_fit_class(self, kind: Any, depth: int) -> bool:
        if kind not in self._classes:
            self._classes[kind] = True  # while it is looked at: its attributes may lead back to it
            self._classes[kind] = self._is_harmless_class(kind, depth)
        return self._classes[kind]

    def _is_harmless_class(self, kind: Any, depth: int) -> bool:
        if issubclass(kind, type) or type(kind).__module__ not in ("builtins", "abc", "enum", "typing"):
            return False
        for base in kind.__mro__:
            if base is not kind and (id(base) in self._given or base.__module__ in _OF_PYTHON):
                continue
            if not self._is_read(base):
                return False
            for name, value in vars(base).items():
                if not name.startswith("_") and not self._is_fit_member(value, name, depth + 1):
                    return False
        return True

    def _is_fit_member(self, value: Any, name: str, depth: int) -> bool:
        """Whether an attribute of a class leads nowhere else. Its methods were read with it."""
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if callable(value) and not isinstance(value, type) and not self._are_read(value):
            return False
        value = _unwrapped(value)
        kind = type(value)
        if kind is types.FunctionType:
            return True
        if kind in _DESCRIPTORS or issubclass(kind, property):
            return True
        if kind in (list, dict, set):
            items = [*value, *value.values()] if kind is dict else [*value]
            return len(items) <= _MAX_ITEMS and all(self._is_fit(item, "", depth + 1) for item in items)
        if isinstance(value, enum.Enum | typing.TypeVar):
            return True
        return self._is_fit(value, name, depth)


_DESCRIPTORS: Final = frozenset(
    {
        property,
        functools.cached_property,
        types.MemberDescriptorType,
        types.GetSetDescriptorType,
        types.MethodDescriptorType,
    }
    | {types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.DynamicClassAttribute, enum.property}
    | {type(vars(typing.NamedTuple("_Pair", [("a", int)]))["a"])}
)


def _is_made(function: types.FunctionType) -> bool:
    """Whether a function was made by dataclasses or functools, from a template of theirs."""
    return function.__globals__.get("__name__") in ("functools", "dataclasses", "collections", "enum", "typing", "abc")


def _unwrapped(value: Any) -> Any:
    for _ in range(_DEPTH):
        inner = getattr(value, "__wrapped__", None) if callable(value) and not isinstance(value, type) else None
        if inner is None:
            break
        value = inner
    return value
