"""sympy and mpmath as the language has them: text becomes expressions, and expressions become functions, without unchecked `eval`."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from byref_sandbox.code.words import words
from byref_sandbox.language import names as rules
from byref_sandbox.language.inspecting import is_own_function
from byref_sandbox.language.refusal import NotAllowed
from byref_sandbox.language.science.walls import Given, Names, in_form, patch, plain_text, refused

_MAX_TEXT = 20_000
_MAX_DIGITS = 1_000_000
_OPERATORS = (
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Constant,
    ast.Name, ast.Call, ast.keyword, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Subscript, ast.Slice, ast.Starred, ast.IfExp,
)  # fmt: skip
_EXPRESSION = (*_OPERATORS, ast.Expression, ast.Attribute)
_FUNCTION = (
    *_OPERATORS, ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.Expr, ast.Lambda, ast.GeneratorExp,
    ast.ListComp, ast.comprehension, ast.Attribute,
)  # fmt: skip
_BACKENDS = words("numpy scipy math mpmath sympy cmath")
_PRINTED = words("""abs min max sum range len int float complex bool round pow map zip list tuple all any iter print True False None
    slice isinstance""")
"""Builtins that sympy's printers write."""


def sympy(given: Given) -> Names:
    """Put the walls of sympy up."""
    sympy = importlib.import_module("sympy")
    parser = importlib.import_module("sympy.parsing.sympy_parser")
    lambdas = importlib.import_module("sympy.utilities.lambdify")
    top = {name: value for name, value in vars(sympy).items() if not name.startswith("_") and callable(value)}
    for name in words(
        "lambdify preview test doctest init_session init_printing var source plot3d interactive_traversal"
    ):
        top.pop(name, None)
    init_printing = in_form(sympy.init_printing, _init_printing)
    space = {**top, "__builtins__": {}, **{name: getattr(builtins, name) for name in ("max", "min", "abs")}}
    patch("sympy.parsing.sympy_parser", "eval_expr", lambda _real: _evaluator(space))
    parse = _parse(parser.parse_expr, space)
    patch("sympy.parsing.sympy_parser", "parse_expr", lambda _real: parse)
    patch("sympy.external.importtools", "import_module", lambda _real: lambda *_arguments, **_options: None)
    patch("sympy.polys.polyconfig", "configure", lambda _real: refused("configure()", "leave it out"))
    for module in ("numpy", "math", "mpmath", "sympy", "scipy"):
        try:
            lambdas._import(module)
        except ImportError:
            continue
    known = _known(given, lambdas)
    vars(lambdas)["compile"] = _checked_source
    vars(lambdas)["exec"] = functools.partial(_checked_exec, known)
    patch("sympy.utilities.lambdify", "lambdify", lambda real: _lambdify(real, has_scipy=bool(lambdas.SCIPY)))
    made = in_form(lambdas.lambdify, lambdas.lambdify)
    vars(sympy)["lambdify"] = made
    no_drawing = {
        name: refused(f"sympy.{name}()", "lambdify the expression and draw it with matplotlib") for name in _DRAWING
    }
    return {
        "sympy": {"lambdify": made, "parse_expr": parse, "init_printing": init_printing, **no_drawing},
        "sympy.interactive": {"init_printing": init_printing},
        "sympy.utilities.lambdify": {"lambdify": made},
        "sympy.utilities": {"lambdify": made},
        "sympy.parsing.sympy_parser": {"parse_expr": parse},
        "sympy.plotting": no_drawing,
    }


def _init_printing(*_arguments: object, **_options: object) -> None:
    """Do nothing: there is no terminal or notebook whose output it would set."""


_init_printing.__name__ = _init_printing.__qualname__ = "init_printing"
_DRAWING = words("plot plot_parametric plot_implicit plot3d plot3d_parametric_line plot3d_parametric_surface textplot")


def mpmath(given: Given) -> Names:
    """Put the walls of mpmath up: methods of its contexts that evaluate text, draw, or read."""
    contexts = importlib.import_module("mpmath")
    for name in words("findpoly_ plot cplot splot runtests load_zeta_zeros"):
        for context in (contexts.mp, contexts.fp, contexts.iv):
            if hasattr(type(context), name):
                setattr(type(context), name, refused(f"mpmath.{name}()", "leave it out"))
    patch("mpmath.identification", "IdentificationMethods.identify", _of_numbers)
    given.guards.writable_attributes[type(contexts.mp)] = words("pretty trap_complex")
    given.guards.setters["dps"] = given.guards.setters["prec"] = (type(contexts.mp), _Precision)
    return {}


class _Precision:
    """Stands for a context of mpmath whose precision is set."""

    __slots__ = ("_context",)

    def __init__(self, context: Any) -> None:
        self._context = context

    @property
    def dps(self) -> int:
        return int(self._context.dps)

    @dps.setter
    def dps(self, digits: Any) -> None:
        self._context.dps = _checked_digits(int(digits))

    @property
    def prec(self) -> int:
        return int(self._context.prec)

    @prec.setter
    def prec(self, bits: Any) -> None:
        bits = int(bits)
        _checked_digits(bits * 3 // 10)  # a digit has 3.3 bits
        self._context.prec = bits


def _checked_digits(digits: int) -> int:
    if digits > _MAX_DIGITS:
        raise NotAllowed(f"a precision of more than {_MAX_DIGITS:,} digits is not available")
    return digits


def _of_numbers(real: Any) -> Any:
    """Have `identify` take constants as a dict of numbers, as sympy gives them: names of constants would be evaluated."""

    @functools.wraps(real)
    def identify(ctx: Any, x: Any, constants: Any = (), *arguments: Any, **options: Any) -> Any:
        if constants and type(constants) is not dict:
            raise NotAllowed("mpmath.identify() takes constants as a dict of numbers", "{'pi': mpmath.pi}")
        return real(ctx, x, dict(constants), *arguments, **options)

    return identify


def warm_sympy() -> None:
    """Simplify, solve and print once: sympy looks things up on first use."""
    sympy = importlib.import_module("sympy")
    x = sympy.Symbol("x")
    (
        str(sympy.solve(sympy.sympify("x**2 - 1"), x)),
        sympy.latex(sympy.integrate(sympy.sin(x), x)),
        sympy.pretty(sympy.simplify(x / x)),
    )
    sympy.lambdify(x, sympy.sin(x), "numpy")(np.zeros(1))


# Text to expressions -----------------------------------------------------------------------------------------------------------


def _parse(real: Any, space: Mapping[str, Any]) -> Any:
    @functools.wraps(real)
    def parse_expr(
        s: Any, local_dict: Any = None, transformations: Any = None, global_dict: Any = None, evaluate: Any = True
    ) -> Any:
        if len(str.__str__(s)) > _MAX_TEXT:
            raise NotAllowed(f"an expression of more than {_MAX_TEXT:,} characters is not available")
        options = {} if transformations is None else {"transformations": transformations}
        known = {plain_text(name): value for name, value in {**(global_dict or {}), **(local_dict or {})}.items()}
        return real(str.__str__(s), known, **options, global_dict=dict(space), evaluate=bool(evaluate))

    return parse_expr


def _evaluator(space: Mapping[str, Any]) -> Any:
    def eval_expr(code: Any, local_dict: Mapping[str, Any], global_dict: Any) -> Any:
        return _expression(space, code, local_dict, global_dict)

    return eval_expr  # no `partial`, of which code could read what it holds


def _expression(space: Mapping[str, Any], code: Any, local_dict: Mapping[str, Any], global_dict: Any) -> Any:
    """Evaluate what the parser of sympy made of a text: names of sympy, and those that the caller gave."""
    if type(code) is not str:  # evaluate=False: the parser compiles a tree, whose source is in nobody's hands
        raise NotAllowed("evaluate=False is not available for text", "use sympy.UnevaluatedExpr")
    tree = ast.parse(code.strip(), mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, _EXPRESSION):
            raise NotAllowed(f"{type(node).__name__} is not available in the text of an expression", "write it as code")
        if isinstance(node, ast.Attribute) and not rules.is_ordinary(node.attr):
            raise NotAllowed(f"attribute {node.attr!r} is not available in the text of an expression")
        if isinstance(node, ast.Name) and rules.is_dunder(node.id):
            raise NotAllowed(f"{node.id!r} is not available in the text of an expression")
    return eval(compile(tree, "<expression>", "eval"), dict(space), local_dict)


# Expressions to functions ------------------------------------------------------------------------------------------------------


def _lambdify(real: Any, *, has_scipy: bool) -> Any:
    @functools.wraps(real)
    def lambdify(
        args: Any,
        expr: Any,
        modules: Any = None,
        printer: Any = None,
        use_imps: Any = True,
        dummify: Any = False,
        cse: Any = False,
        **_options: Any,
    ) -> Any:
        if printer is not None:
            raise NotAllowed("lambdify(printer=…) is not available", "name a module: modules='numpy'")
        if modules is None:
            modules = ["scipy", "numpy"] if has_scipy else ["numpy"]
        listed = [modules] if isinstance(modules, (str, dict)) else list(modules)
        given: list[Any] = []
        for module in listed:
            if isinstance(module, dict):
                given.append({plain_text(name): value for name, value in module.items()})
            elif plain_text(module) in _BACKENDS - {"cmath"}:
                given.append(plain_text(module))
            else:
                raise NotAllowed(
                    f"lambdify(modules={str(module)[:60]!r}) is not available",
                    f"there are: {', '.join(sorted(_BACKENDS))}",
                )
        return real(args, expr, given, None, bool(use_imps), bool(dummify), bool(cse) if cse in (True, False) else True)

    return lambdify


def _checked_source(source: Any, filename: str, mode: str) -> Any:
    """`compile` for lambdify: its source may do arithmetic and call what it names."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if not isinstance(node, _FUNCTION):
            raise NotAllowed(f"{type(node).__name__} is not available in a function that lambdify makes")
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and rules.is_ordinary(node.attr)):
            raise NotAllowed(f"attribute {node.attr!r} is not available in a function that lambdify makes")
        for name in (getattr(node, field, None) for field in ("id", "arg", "name", "attr")):
            if type(name) is str and (rules.is_dunder(name) or name in rules.REFUSED_ATTRIBUTES):
                raise NotAllowed(f"{name!r} is not available in a function that lambdify makes")
    return _Checked(
        compile(tree, filename, mode),
        frozenset(_free(tree)),
        {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)},
    )


class _Checked:
    """Source that was checked: its code, and the names that it reads."""

    def __init__(self, code: Any, names: frozenset[str], attributes: set[str]) -> None:
        self.code = code
        self.names = names
        self.attributes = attributes


def _free(tree: ast.AST) -> Iterable[str]:
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))


def _checked_exec(known: frozenset[int], code: Any, space: dict[str, Any], local: dict[str, Any] | None = None) -> None:
    """`exec` for lambdify: the names that its source reads stand for functions which code has anyway."""
    if not isinstance(code, _Checked):
        raise NotAllowed("lambdify() cannot load a module here", "name one of: numpy, math, mpmath, sympy")
    for name in code.names & space.keys():
        value = space[name]
        if not (
            id(value) in known
            or is_own_function(value)
            or isinstance(value, (int, float, complex, np.ndarray, np.generic))
            or _is_symbolic(value)
        ):
            raise NotAllowed(f"{name!r} is not available in a function that lambdify makes")
    inside = {name: value for name, value in space.items() if name in code.names}
    inside["__builtins__"] = {name: getattr(builtins, name) for name in _PRINTED}
    if code.attributes:
        raise NotAllowed("this expression cannot be made a function", "lambdify it with modules='sympy'")
    exec(code.code, inside, local)


def _is_symbolic(value: Any) -> bool:
    basic = importlib.import_module("sympy.core.basic").Basic
    return isinstance(value, basic) or (isinstance(value, type) and issubclass(value, basic))


def _known(given: Given, lambdas: Any) -> frozenset[int]:
    """The functions that lambdified code may call, by id: those of the language's own modules, of mpmath and of special functions."""
    held: list[Any] = [getattr(builtins, name) for name in _PRINTED]
    facades = given.modules.facades
    for name in ("numpy", "math", "cmath", "numpy.linalg", "scipy.special", "scipy.constants"):
        if name in facades:
            held.extend(vars(facades[name]).values())
    held.extend(getattr(np, name) for name in dir(np) if isinstance(getattr(np, name, None), np.ufunc))
    held.extend(vars(math).values())
    for space in (lambdas.SYMPY, lambdas.MPMATH):
        refused_there = words("lambdify sympify parse_expr preview plot")
        held.extend(
            value
            for name, value in space.items()
            if callable(value) and name not in refused_there and not name.startswith("_")
        )
    special = importlib.import_module("sys").modules.get("scipy.special")
    if special is not None:
        held.extend(value for value in vars(special).values() if isinstance(value, np.ufunc))
    _held.extend(held)
    return frozenset(map(id, held))


_held: list[Any] = []
"""Objects whose ids are known: they must not become those of others."""
