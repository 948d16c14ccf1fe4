"""pandas methods in the form the language has them: text out but no paths, function names from a list."""

from __future__ import annotations

import functools
import inspect
import io
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from byref_sandbox.language import names
from byref_sandbox.language.allowed import NUMPY_HIDDEN
from byref_sandbox.language.refusal import NotAllowed, no_files
from byref_sandbox.language.templates import refused_attribute

_NO_METHODS = frozenset({"loadtxt", "genfromtxt", "savetxt"})


def is_function_name(name: str) -> bool:
    """Whether agg, apply and transform may look a name up: first among the methods of what they work on, then among numpy's functions."""
    if not names.is_ordinary(name) or name in NUMPY_HIDDEN or name in _NO_METHODS:
        return False
    return type(getattr(np, name, None)) is not types.ModuleType


_PATH_ARGUMENTS = ("path_or_buf", "buf", "path", "excel_writer", "filepath_or_buffer", "io")


def text_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`to_csv` and its like: text comes back, or goes into a StringIO or BytesIO."""

    def call(*arguments: Any, **options: Any) -> Any:
        for destination in [*arguments[:1], *(options[key] for key in _PATH_ARGUMENTS if key in options)]:
            if destination is not None and not _only_buffers(destination):
                raise NotAllowed(
                    f".{name}() cannot write to a file: there are no files here",
                    f"call .{name}() without a path to get the text",
                )
        template = options.get("float_format")
        if isinstance(template, str) and (refused := refused_attribute(str.__str__(template))) is not None:
            raise NotAllowed(f"attribute {refused!r} is not available in a format string", "use '{:.2f}'")
        return method(*arguments, **options)

    return call


def reader(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`read_csv` and its like over a StringIO or BytesIO; the text itself is no path here, so it is refused like one."""

    def call(*arguments: Any, **options: Any) -> Any:
        if options.get("engine") == "pyarrow":  # its threads are not there
            raise NotAllowed("engine='pyarrow' is not available", "leave it out; dtype_backend='pyarrow' is there")
        source = (
            arguments[0]
            if arguments
            else next((options[key] for key in (*_PATH_ARGUMENTS, "fname") if key in options), None)
        )
        if not _only_buffers(source) and not (name.startswith("np.") and type(source) is list):
            raise no_files(f"{name}() of a path or address", f"text can be read with {name}(io.StringIO(text))")
        return function(*arguments, **options)

    call.__name__ = function.__name__
    return call


# Functions by name -------------------------------------------------------------------------------------------------------------


def plain_function(function: Any, depth: int = 0) -> Any:
    """A fresh copy of an aggregation: callables as they are, names from the list, in containers of exact builtin types.

    A copy, because what was checked must be what is used: a subclass could answer differently the second time.
    """
    kind = type(function)
    if kind is str:
        if not is_function_name(function):
            raise NotAllowed(
                f"{function!r} is not a function name that agg(), apply() or transform() may use", "pass a lambda"
            )
        return function
    if function is None or depth > 3:
        return None
    if kind is dict:
        return {key: plain_function(value, depth + 1) for key, value in function.items()}
    if kind is pd.NamedAgg:
        passed, named = getattr(function, "args", ()), getattr(function, "kwargs", {})
        return pd.NamedAgg(function[0], plain_function(function[1], depth + 1), *passed, **named)
    if kind is tuple and len(function) == 2 and type(function[0]) is str and depth:
        # ("name of the result", function), the older spelling of a named aggregation
        return (function[0], plain_function(function[1], depth + 1))
    if kind in (list, tuple, set):
        return [plain_function(value, depth + 1) for value in function]
    if isinstance(function, (np.ndarray, pd.Index, pd.Series)) and kind.__module__.partition(".")[0] in (
        "numpy",
        "pandas",
    ):
        return [plain_function(str(v) if issubclass(type(v), str) else v, depth + 1) for v in list(function)]
    if kind in _FUNCTION_TYPES:
        return function
    if callable(function) and not issubclass(kind, (str, list, dict, tuple, set)):
        # An object that can be called may also be iterated over, and pandas would take what it yields for names.
        return lambda *arguments, **options: function(*arguments, **options)
    raise NotAllowed(f"a {kind.__name__} cannot say how to aggregate", "use a function, a name, a list or a dict")


_FUNCTION_TYPES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    functools.partial,
    type,
    np.ufunc,
    type(np.mean),
)


def function_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`agg`, `apply`, `transform`."""

    def call(*arguments: Any, **options: Any) -> Any:
        _no_compiled(options)
        given = [*arguments[:1], *(options[key] for key in _FUNCTION_OPTIONS if key in options)]
        if arguments:
            arguments = (plain_function(arguments[0]), *arguments[1:])
        for key, value in options.items():
            if key in _FUNCTION_OPTIONS:
                options[key] = plain_function(value)
            elif all(function is None for function in given):
                options[key] = _named(value)
        return method(*arguments, **options)

    return call


_FUNCTION_OPTIONS = ("func", "arg")


def _named(value: Any) -> Any:
    """What stands for one column of the result: `agg(total="sum")`, `agg(total=("amount", "sum"))`; as it is, if neither."""
    kind = type(value)
    if issubclass(kind, str) or kind is pd.NamedAgg:
        return plain_function(value)
    if issubclass(kind, tuple | list):
        parts = list(list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value))
        return (parts[0], plain_function(parts[1])) if len(parts) == 2 else value
    return value


def pivot(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`pivot_table` and `crosstab`."""
    signature = inspect.signature(function)

    def call(*arguments: Any, **options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        if "aggfunc" in bound.arguments:
            bound.arguments["aggfunc"] = plain_function(bound.arguments["aggfunc"])
        return function(*bound.args, **bound.kwargs)

    return call


def _no_compiled(options: Mapping[str, object]) -> None:
    if options.get("engine") not in (None, "cython", "python"):
        raise NotAllowed(f"engine={str(options['engine'])!r} is not available", "leave it out")


def _only_buffers(destination: object) -> bool:
    """Whether something to read from or write to is memory only."""
    return type(destination) in (io.StringIO, io.BytesIO)
