"""pandas methods in the form the language has them: text out but no paths, function names from a list, expressions checked."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from byref_sandbox.guards import Facade, Guards, is_own_frame, only_buffers
from byref_sandbox.refusal import NotAllowed, no_files

FUNCTION_NAMES = frozenset(
    [
        "sum",
        "mean",
        "median",
        "min",
        "max",
        "std",
        "var",
        "sem",
        "count",
        "size",
        "nunique",
        "first",
        "last",
        "nth",
        "prod",
        "product",
        "quantile",
        "skew",
        "kurt",
        "kurtosis",
        "any",
        "all",
        "idxmin",
        "idxmax",
        "argmin",
        "argmax",
        "unique",
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
        "cumcount",
        "rank",
        "diff",
        "shift",
        "pct_change",
        "ffill",
        "bfill",
        "fillna",
        "mode",
        "describe",
        "value_counts",
        "abs",
        "round",
        "ngroup",
        "ohlc",
        "lower",
        "upper",
        "strip",
        "title",
        "capitalize",
        "sqrt",
        "exp",
        "log",
        "log1p",
        "log10",
        "expm1",
        "floor",
        "ceil",
        "square",
        "sign",
        "head",
        "tail",
        "isna",
        "isnull",
        "notna",
        "notnull",
        "list",
        "tuple",
        "set",
        "str",
        "int",
        "float",
        "len",
        "zscore",
        "nlargest",
        "nsmallest",
        "interpolate",
        "dropna",
        "corr",
        "cov",
        "ptp",
        "nanmean",
        "nansum",
    ]
)
"""Names of functions that agg, apply and transform take as strings."""

_PATH_ARGUMENTS = ("path_or_buf", "buf", "path", "excel_writer", "filepath_or_buffer", "io")


def text_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`to_csv` and its like: text comes back, or goes into a StringIO or BytesIO."""

    def call(*arguments: Any, **options: Any) -> Any:
        for destination in [*arguments[:1], *(options[key] for key in _PATH_ARGUMENTS if key in options)]:
            if destination is not None and not only_buffers(destination):
                raise NotAllowed(
                    f".{name}() cannot write to a file: there are no files here",
                    f"call .{name}() without a path to get the text",
                    about_files=True,
                )
        return method(*arguments, **options)

    return call


def reader(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`read_csv` and its like over a StringIO or BytesIO; the text itself is no path here, so it is refused like one."""

    def call(*arguments: Any, **options: Any) -> Any:
        source = (
            arguments[0]
            if arguments
            else next((options[key] for key in (*_PATH_ARGUMENTS, "fname") if key in options), None)
        )
        if not only_buffers(source) and not (name.startswith("np.") and type(source) is list):
            refusal = no_files(f"{name}() of a path or address")
            raise NotAllowed(
                refusal.message, f"{refusal.hint}; text can be read with {name}(io.StringIO(text))", about_files=True
            )
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
        if function not in FUNCTION_NAMES:
            raise NotAllowed(
                f"{function!r} is not a function name that agg(), apply() or transform() may use", "pass a lambda"
            )
        return function
    if function is None or depth > 3:
        return None
    if kind is dict:
        return {key: plain_function(value, depth + 1) for key, value in function.items()}
    if kind is pd.NamedAgg:
        return pd.NamedAgg(function[0], plain_function(function[1], depth + 1))
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
    if callable(function) and not issubclass(kind, (str, list, dict, tuple, set)):
        return function
    raise NotAllowed(f"a {kind.__name__} cannot say how to aggregate", "use a function, a name, a list or a dict")


def function_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`agg`, `apply`, `transform`."""

    def call(*arguments: Any, **options: Any) -> Any:
        _no_compiled(options)
        if arguments:
            arguments = (plain_function(arguments[0]), *arguments[1:])
        for key in ("func", "arg"):
            if key in options:
                options[key] = plain_function(options[key])
        if name in ("agg", "aggregate"):
            for key, value in options.items():
                if type(value) in (tuple, list) and len(value) == 2 and key not in ("args", "func", "arg"):
                    options[key] = (value[0], plain_function(value[1]))
                elif type(value) is pd.NamedAgg:
                    options[key] = plain_function(value)
                elif type(value) is str and key not in ("func", "arg", "engine"):
                    options[key] = plain_function(value)  # s.groupby(...).agg(total="sum")
        return method(*arguments, **options)

    return call


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


# Expressions -------------------------------------------------------------------------------------------------------------------

_NODES = (
    ast.Module, ast.Expr, ast.Assign, ast.BoolOp, ast.boolop, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Compare, ast.cmpop,
    ast.Name, ast.expr_context, ast.Constant, ast.List, ast.Tuple, ast.Call, ast.Attribute, ast.Subscript, ast.Slice, ast.keyword,
)  # fmt: skip
_METHODS = frozenset(
    [
        "str",
        "dt",
        "cat",
        "isin",
        "isna",
        "isnull",
        "notna",
        "notnull",
        "between",
        "contains",
        "startswith",
        "endswith",
        "match",
        "fullmatch",
        "lower",
        "upper",
        "strip",
        "title",
        "len",
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "dayofweek",
        "day_name",
        "month_name",
        "weekday",
        "quarter",
        "date",
        "days",
        "total_seconds",
        "abs",
        "mean",
        "max",
        "min",
        "sum",
        "std",
        "var",
        "median",
        "mode",
        "astype",
        "index",
        "fillna",
        "round",
        "quantile",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "values",
        "shift",
        "diff",
        "cumsum",
        "rank",
        "clip",
        "size",
        "count",
        "nunique",
        "duplicated",
        "T",
        "get",
        "replace",
        "slice",
        "split",
    ]
)
_FUNCTIONS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "exp",
        "log",
        "expm1",
        "log1p",
        "sqrt",
        "sinh",
        "cosh",
        "tanh",
        "arcsin",
        "arccos",
        "arctan",
        "arccosh",
        "arcsinh",
        "arctanh",
        "abs",
        "log10",
        "floor",
        "ceil",
        "arctan2",
    ]
)
_FIXED_OPTIONS = ("engine", "parser", "local_dict", "global_dict", "resolvers", "level", "target")


def expression_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`query` and `eval`: the expression holds columns, plain values, operators and a list of methods."""

    def call(expr: Any = None, *arguments: Any, **options: Any) -> Any:
        if type(expr) is not str:
            raise TypeError(f"{name}() needs an expression as a string")
        frame = sys._getframe(1)
        known: dict[str, Any] = {**frame.f_globals, **frame.f_locals} if is_own_frame(frame.f_globals) else {}
        known.update(options.get("local_dict") or {})
        values = {n: known[n] for n in _check_expression(expr, name) if n in known}
        for variable, value in values.items():
            if type(value) is Facade or isinstance(value, (type, types.ModuleType)) or callable(value):
                raise NotAllowed(
                    f"@{variable} in {name}() is not a plain value", "compute it before and pass the result"
                )
        for option in _FIXED_OPTIONS:
            options.pop(option, None)
        return method(expr, *arguments, local_dict=values, global_dict={}, **options)

    return call


def _check_expression(expression: str, method: str) -> list[str]:
    """The names written with @, once the expression is found to be harmless."""
    plain = re.sub(r"`[^`]*`", "_quoted_", expression).replace("\n", " ").strip()
    text = re.sub(r"@\s*([^\W\d]\w*)", r"at__\1", plain)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"{method}() cannot parse {expression[:200]!r}") from error
    variables = []
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise NotAllowed(
                f"{type(node).__name__} is not available inside {method}()", "use df[df[column] > value] instead"
            )
        if isinstance(node, ast.Attribute) and node.attr not in _METHODS and not isinstance(node.value, ast.Name):
            raise NotAllowed(f".{node.attr} is not available inside {method}()", "use df[df[column]...] instead")
        if isinstance(node, ast.Attribute) and node.attr not in _METHODS:
            raise NotAllowed(f".{node.attr} is not available inside {method}()", "use df[df[column]...] instead")
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
            if not (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS):
                raise NotAllowed(f"only methods can be called inside {method}()", "compute it before and use @name")
        if isinstance(node, ast.Name):
            if node.id.startswith("at__"):
                variables.append(node.id.removeprefix("at__"))
            elif node.id.startswith("__"):
                raise NotAllowed(f"{node.id!r} is not available inside {method}()")
    return variables


def install(guards: Guards) -> None:
    """Give the guards what only pandas and numpy know."""
    from pandas._config.config import DictWrapper
    from pandas.core.indexing import _AtIndexer, _iAtIndexer, _iLocIndexer, _LocIndexer

    for name in ("to_csv", "to_json", "to_html", "to_string", "to_markdown", "to_latex"):
        guards.wrappers[name] = text_method
    for name in ("agg", "aggregate", "apply", "transform"):
        guards.wrappers[name] = function_method
    guards.wrappers["pivot_table"] = pivot
    guards.wrappers["query"] = guards.wrappers["eval"] = expression_method
    guards.writable_types = (pd.DataFrame, pd.Series, pd.Index, _LocIndexer, _iLocIndexer, _AtIndexer, _iAtIndexer)
    guards.writable_attributes[np.ndarray] = frozenset({"shape", "real", "imag", "flat"})
    guards.writable_attributes[DictWrapper] = frozenset(dir(pd.options.display))
