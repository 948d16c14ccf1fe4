"""`query` and `eval` of frames, and `pd.eval`: their expressions are checked before pandas evaluates them."""

from __future__ import annotations

import ast
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from byref_sandbox.code.words import words
from byref_sandbox.language import names
from byref_sandbox.language.facades import Facade
from byref_sandbox.language.inspecting import is_own_frame
from byref_sandbox.language.refusal import NotAllowed

_NODES = (
    ast.Module, ast.Expr, ast.Assign, ast.BoolOp, ast.boolop, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Compare, ast.cmpop,
    ast.Name, ast.expr_context, ast.Constant, ast.List, ast.Tuple, ast.Call, ast.Attribute, ast.Subscript, ast.Slice, ast.keyword,
)  # fmt: skip
_FUNCTIONS = frozenset(
    words("""sin cos tan exp log expm1 log1p sqrt sinh cosh tanh arcsin arccos arctan arccosh arcsinh arctanh abs log10
    floor ceil arctan2""")
)
_FIXED_OPTIONS = ("engine", "parser", "local_dict", "global_dict", "resolvers", "level")
_computation: Any = importlib.import_module("pandas.core.computation.expr")
_LOCAL: str = importlib.import_module("pandas.core.computation.ops").LOCAL_TAG


def expression_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return `query` or `eval` for expressions of columns, plain values, operators and attributes that the language allows everywhere."""
    plain_names = name == "pd.eval"
    """`pd.eval` sees all variables; methods of frames see those that are written with @."""

    def call(expr: Any = None, *arguments: Any, **options: Any) -> Any:
        if type(expr) is not str:
            raise TypeError(f"{name}() needs an expression as a string")
        if plain_names and arguments:
            raise TypeError(f"{name}() takes its options by keyword")
        frame = sys._getframe(1)
        known: dict[str, Any] = {**frame.f_globals, **frame.f_locals} if is_own_frame(frame.f_globals) else {}
        known.update(options.get("local_dict") or {})
        used = _used_names(expr, name)
        values = {n: known[n] for n, is_marked in used if n in known and (is_marked or plain_names)}
        for variable, value in values.items():
            if type(value) is Facade or isinstance(value, (type, types.ModuleType)) or callable(value):
                raise NotAllowed(
                    f"{variable!r} in {name}() is not a plain value", "compute it before and pass the result"
                )
        for option in _FIXED_OPTIONS if plain_names else (*_FIXED_OPTIONS, "target"):
            options.pop(option, None)
        return method(expr, *arguments, local_dict=values, global_dict={}, engine="python", **options)

    return call


def _used_names(expression: str, method: str) -> set[tuple[str, bool]]:
    """Return the names in an expression, each with whether it is marked with @; raise NotAllowed of an expression that is not harmless."""
    used = set()
    for tree in _parsed(expression, method):
        for node in ast.walk(tree):
            if not isinstance(node, _NODES):
                raise NotAllowed(
                    f"{type(node).__name__} is not available inside {method}()", "use df[df[column] > value] instead"
                )
            if isinstance(node, ast.Attribute) and not names.is_ordinary(node.attr):
                raise NotAllowed(f".{node.attr} is not available inside {method}()", "use df[df[column]...] instead")
            if isinstance(node, ast.Call) and not (
                isinstance(node.func, ast.Attribute) or (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS)
            ):
                raise NotAllowed(f"only methods can be called inside {method}()", "compute it before and use @name")
            if isinstance(node, ast.Name):
                name = node.id.removeprefix(_LOCAL)
                if name.startswith("__"):
                    raise NotAllowed(f"{name!r} is not available inside {method}()")
                used.add((name, name != node.id))
    return used


def _parsed(expression: str, method: str) -> Iterator[ast.Module]:
    """Yield the trees that pandas will evaluate. Its own preparation is used: another reading of quotes and backticks could differ from it."""
    prepare = _computation._compose(
        _computation._replace_locals, _computation._replace_booleans, _computation.clean_backtick_quoted_toks
    )
    for line in expression.splitlines():
        try:
            yield ast.parse(_computation._preparse(line.strip(), f=prepare))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(f"{method}() cannot parse {expression[:200]!r}") from error
