"""`query` and `eval` of frames, whose expressions are checked before pandas parses them."""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from byref_sandbox.language.facades import Facade
from byref_sandbox.language.guards import is_own_frame
from byref_sandbox.language.names import words
from byref_sandbox.language.refusal import NotAllowed

_NODES = (
    ast.Module, ast.Expr, ast.Assign, ast.BoolOp, ast.boolop, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Compare, ast.cmpop,
    ast.Name, ast.expr_context, ast.Constant, ast.List, ast.Tuple, ast.Call, ast.Attribute, ast.Subscript, ast.Slice, ast.keyword,
)  # fmt: skip
_METHODS = frozenset(
    words("""str dt cat isin isna isnull notna notnull between contains startswith endswith match fullmatch lower upper
    strip title len year month day hour minute second dayofweek day_name month_name weekday quarter date days
    total_seconds abs mean max min sum std var median mode astype index fillna round quantile eq ne lt le gt ge
    values shift diff cumsum rank clip size count nunique duplicated T get replace slice split""")
)
_FUNCTIONS = frozenset(
    words("""sin cos tan exp log expm1 log1p sqrt sinh cosh tanh arcsin arccos arctan arccosh arcsinh arctanh abs log10
    floor ceil arctan2""")
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
    plain = re.sub(r"`[^`]*`", "_quoted_", "\n".join(line.strip() for line in expression.splitlines()))
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
        if isinstance(node, ast.Attribute) and node.attr not in _METHODS:
            raise NotAllowed(f".{node.attr} is not available inside {method}()", "use df[df[column]...] instead")
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Attribute) or (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS)
        ):
            raise NotAllowed(f"only methods can be called inside {method}()", "compute it before and use @name")
        if isinstance(node, ast.Name):
            if node.id.startswith("at__"):
                variables.append(node.id.removeprefix("at__"))
            elif node.id.startswith("__"):
                raise NotAllowed(f"{node.id!r} is not available inside {method}()")
    return variables
