"""`eval` as the language has it: an expression, compiled by the language's own transformer, in the names of the code that calls it."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from byref_sandbox.language import names
from byref_sandbox.language.attributes import Namespace
from byref_sandbox.language.inspecting import NOT_LOADED_NAMES, is_own_frame, not_loaded_in
from byref_sandbox.language.refusal import NotAllowed, not_loaded

MAX_CHARS: Final = 100_000
_COMPILED_DEPTH: Final = 2_000
"""The limit of recursion while a text is compiled: up to Python 3.11 the compiler goes three times as deep, on the stack of C."""
_MAX_NOTED: Final = 100
_CACHED: Final = 256
_CACHED_CHARS: Final = 1_000

Compile = Callable[[str], types.CodeType]


def is_variable(name: object) -> bool:
    """Whether code may bind a name that it has as a text."""
    return type(name) is str and name.isidentifier() and not names.is_dunder(name)


@contextlib.contextmanager
def shallow() -> Iterator[None]:
    """Compile text of the code's in here: where the code has raised the limit of recursion, it is lowered meanwhile."""
    limit = sys.getrecursionlimit()
    if limit > _COMPILED_DEPTH:
        sys.setrecursionlimit(_COMPILED_DEPTH)  # RecursionError if the code is deeper already
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def evaluator(compile_expression: Compile, noted: dict[str, types.CodeType]) -> Callable[..., Any]:
    """Return `eval`. `compile_expression` raises SyntaxError and NotAllowed. Expressions that may make functions go into `noted`."""
    cached = functools.lru_cache(_CACHED)(compile_expression)

    def call(source: Any, /, globals: Any = None, locals: Any = None) -> Any:
        text = _text(source)
        with shallow():
            code = (cached if len(text) <= _CACHED_CHARS else compile_expression)(text)
        if len(noted) < _MAX_NOTED and any(type(inner) is types.CodeType for inner in code.co_consts):
            noted[text] = code
        frame, is_direct = _own_frame()
        space: dict[str, Any] = frame.f_globals
        variables: dict[str, Any] | None = None
        if globals is not None:
            space, variables = _space(globals, space), _variables(globals if locals is None else locals, "locals")
        elif locals is not None:
            variables = _variables(locals, "locals")
        elif is_direct and frame.f_locals is not space:
            variables = dict(frame.f_locals)
        try:
            return eval(code, space, variables)
        except NameError as error:
            if error.name in not_loaded_in(space):
                raise not_loaded(str(error.name)) from None
            raise

    call.__name__ = call.__qualname__ = "eval"
    return call


def runner(compile_statements: Compile) -> Callable[[list[Any], Any], list[Callable[[], object]]]:
    """Return what makes functions of texts of statements, for `timeit`: they share a namespace, which has the names of a dict at first.

    `compile_statements` raises SyntaxError and NotAllowed.
    """

    def prepare(sources: list[Any], given: Any) -> list[Callable[[], object]]:
        codes = []
        for source in sources:
            with shallow():
                codes.append(compile_statements(_text(source, "timeit")))
        frame, _ = _own_frame()
        space = _space({} if given is None else given, frame.f_globals)
        return [functools.partial(eval, code, space) for code in codes]

    return prepare


def _text(source: object, function: str = "eval") -> str:
    if isinstance(source, bytes):
        source = source.decode()
    if not isinstance(source, str):
        raise TypeError(f"{function}() arg 1 must be a string or bytes")
    text = str.__str__(source).lstrip(" \t")
    if len(text) > MAX_CHARS:
        hint = "json.loads() and ast.literal_eval() parse data"
        raise NotAllowed(f"{function}() takes at most {MAX_CHARS:,} characters, not {len(text):,}", hint)
    return text


def _own_frame() -> tuple[types.FrameType, bool]:
    """Return the frame of the code that calls `eval`, and whether it does so itself and not through a library, as `map` or `apply` do."""
    frame: types.FrameType | None = sys._getframe(2)
    is_direct = True
    while frame is not None:
        if is_own_frame(frame.f_globals):
            return frame, is_direct
        frame, is_direct = frame.f_back, False
    raise NotAllowed("eval() must be called by the code")


def _variables(given: Any, what: str) -> dict[str, Any]:
    """Return the variables of a dict that code gave."""
    if type(given) not in (dict, Namespace):
        raise TypeError(f"{what} must be a dict")
    there = given.loaded() if isinstance(given, Namespace) else given
    return {name: value for name, value in there.items() if is_variable(name)}


def _space(given: Any, space: dict[str, Any]) -> dict[str, Any]:
    """Return the namespace of an expression whose names are those of a dict; the guards stay, whatever that says of builtins."""
    variables = _variables(given, "globals")
    guarded = space["__builtins__"]
    if "__builtins__" in given:
        own = given["__builtins__"]
        guarded = {name: value for name, value in guarded.items() if not is_variable(name)}
        guarded |= _variables(own, "__builtins__") if type(own) is dict else {}
    if NOT_LOADED_NAMES in guarded and type(given) is not Namespace:
        guarded = {name: value for name, value in guarded.items() if name != NOT_LOADED_NAMES}
    return {**variables, "__builtins__": guarded, "__name__": "__main__"}
