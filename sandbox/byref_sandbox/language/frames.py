"""pandas methods in the language's form: files are those of the run, and functions by name come from a list."""

from __future__ import annotations

import functools
import inspect
import io
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from byref_sandbox.language import names
from byref_sandbox.language.allowed import NUMPY_HIDDEN
from byref_sandbox.language.databases import real_connection
from byref_sandbox.language.files import BUFFERS, Files, compression_of, is_path, name_of
from byref_sandbox.language.refusal import NotAllowed, no_files
from byref_sandbox.language.templates import refused_attribute

_NO_METHODS = frozenset({"loadtxt", "genfromtxt", "savetxt"})


def is_function_name(name: str) -> bool:
    """Whether agg, apply and transform may look up a name, which they do among the object's methods and then among numpy's functions."""
    if not names.is_ordinary(name) or name in NUMPY_HIDDEN or name in _NO_METHODS:
        return False
    return type(getattr(np, name, None)) is not types.ModuleType


_PATH_ARGUMENTS = ("path_or_buffer", "path_or_buf", "buf", "path", "excel_writer", "filepath_or_buffer", "io")


_PACKED = ("to_csv", "to_json", "read_csv", "read_json", "read_table", "read_xml")
"""Methods that compress by the ending of a file's name."""


def text_method(files: Files, method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return `to_csv` or its like: the text is returned, or written into a file of the run, a StringIO or a BytesIO."""

    def call(*arguments: Any, **options: Any) -> Any:
        template = options.get("float_format")
        if isinstance(template, str) and (refused := refused_attribute(str.__str__(template))) is not None:
            raise NotAllowed(f"attribute {refused!r} is not available in a format string", "use '{:.2f}'")
        arguments, options, target = _placed(arguments, options, _PATH_ARGUMENTS)
        if target is None or type(target) in BUFFERS:
            return method(target, *arguments, **options)
        if not is_path(target):
            raise NotAllowed(f".{name}() cannot write to a {type(target).__name__}", "name a file, or leave it out")
        packing = compression_of(target, options.get("compression", "infer")) if name in _PACKED else None
        if packing is not None:
            options["compression"] = packing
        mode = str(options.get("mode", "w")).replace("t", "").replace("b", "")
        encoding, errors = options.get("encoding"), options.get("errors")
        file = files.open(target, f"{mode}b" if packing else mode, -1, *((encoding, errors, "") if not packing else ()))
        try:
            done = method(file, *arguments, **options)
        except BaseException:
            files.abandon(file)
            raise
        file.close()
        return done

    return call


def savetxt(files: Files) -> Callable[..., None]:
    """Return np.savetxt, which writes into a file of the run, a StringIO or a BytesIO."""

    def call(fname: Any, X: Any, *arguments: Any, **options: Any) -> None:  # noqa: N803  numpy's own name
        if is_path(fname):
            packing = compression_of(fname)
            if packing is not None:
                raise NotAllowed(f"np.savetxt() does not write {packing} here", "name a file without that ending")
            with files.open(fname, "w", encoding=options.pop("encoding", None)) as file:
                np.savetxt(file, X, *arguments, **options)
        elif type(fname) in BUFFERS:
            np.savetxt(fname, X, *arguments, **options)
        else:
            raise NotAllowed(f"np.savetxt() cannot write to a {type(fname).__name__}", "name a file")

    call.__name__ = "savetxt"
    return call


def reader(files: Files, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return `read_csv` or its like: it reads a file of this run or an earlier one, a StringIO or a BytesIO. A plain text is a path."""

    def call(*arguments: Any, **options: Any) -> Any:
        if options.get("engine") == "pyarrow":  # it needs threads
            raise NotAllowed("engine='pyarrow' is not available", "leave it out; dtype_backend='pyarrow' is there")
        arguments, options, source = _placed(arguments, options, (*_PATH_ARGUMENTS, "fname"))
        if type(source) in BUFFERS or (name.startswith("np.") and type(source) is list):
            return function(source, *arguments, **options)
        hint = f"text can be read with {name}(io.StringIO(text))"
        if not is_path(source) or "://" in str(source) or not _may_be_name(source):
            raise no_files(f"{name}() of an address or text", hint)
        file = io.BytesIO(files.read(source, hint))
        if name.partition(".")[2] in _PACKED:
            options["compression"] = compression_of(source, options.get("compression", "infer"))
        return function(file, *arguments, **options)

    call.__name__ = function.__name__
    return call


def xml_reader(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `read_xml`, by the parser of Python: that of another package would look up entities and style sheets in files."""

    @functools.wraps(function)
    def call(source: Any, *arguments: Any, parser: object = None, **options: Any) -> Any:
        for name in ("stylesheet", "iterparse", "storage_options"):
            if options.pop(name, None) is not None:
                raise NotAllowed(f"read_xml({name}=...) is not available", "leave it out")
        if isinstance(xpath := options.get("xpath"), str) and xpath.startswith("//"):
            options["xpath"] = f".{str.__str__(xpath)}"  # that parser begins at an element
        return function(source, *arguments, parser="etree", **options)

    return call


def query(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `read_sql` or `read_sql_query`, which ask a connection of the code's."""

    def call(sql: Any, con: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(sql, str):
            raise TypeError(f"a statement must be str, not {type(sql).__name__}")
        return function(str.__str__(sql), real_connection(con), *arguments, **options)

    call.__name__ = function.__name__
    return call


def to_sql(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return `to_sql`, which writes a table through a connection of the code's."""

    def call(name: Any, con: Any, *arguments: Any, **options: Any) -> Any:
        if len(arguments) > 6 or options.get("method") not in (None, "multi"):
            raise NotAllowed("to_sql(method=...) takes 'multi' only", "leave it out")
        return method(str.__str__(name) if isinstance(name, str) else name, real_connection(con), *arguments, **options)

    return call


def _placed(
    arguments: tuple[Any, ...], options: dict[str, Any], keys: Iterable[str]
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Return a call's arguments and options without its file, and the file: the first argument, or an option of one of these names."""
    if arguments:
        return arguments[1:], options, arguments[0]
    key = next((key for key in keys if key in options), None)
    return (), {name: value for name, value in options.items() if name != key}, None if key is None else options[key]


def _may_be_name(source: Any) -> bool:
    try:
        name_of(source)
    except NotAllowed:
        return False
    return True


# Functions by name -------------------------------------------------------------------------------------------------------------


def plain_function(function: Any, depth: int = 0) -> Any:
    """Return a copy of an aggregation: callables as they are, names if they are allowed, containers as exact builtin types.

    It is a copy because what was checked must be what is used: a subclass could answer differently the second time.
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
    """Return `agg`, `apply` or `transform` with its functions checked."""

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
    """Check what makes one column of the result: `agg(total="sum")`, `agg(total=("amount", "sum"))`. Other values stay as they are."""
    kind = type(value)
    if issubclass(kind, str) or kind is pd.NamedAgg:
        return plain_function(value)
    if issubclass(kind, tuple | list):
        parts = list(list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value))
        return (parts[0], plain_function(parts[1])) if len(parts) == 2 else value
    return value


def pivot(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return `pivot_table` or `crosstab` with its functions checked."""
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
