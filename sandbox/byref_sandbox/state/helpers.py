"""Functions that a library has made of a function of the code, as `contextlib.contextmanager` does.

Such a function belongs to the library, but what it calls is the code's. So a stream names the library's maker and has its arguments,
and the reader has it make the function once more.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from byref_sandbox.state.codes import Unkept

MAKERS: Final[Mapping[str, tuple[str, str]]] = {
    "context_manager": ("contextlib", "contextmanager"),
    "async_context_manager": ("contextlib", "asynccontextmanager"),
    "in_context": ("contextlib", "ContextDecorator.__call__"),
    "in_async_context": ("contextlib", "AsyncContextDecorator.__call__"),
    "look_up": ("byref_sandbox.language.inspecting", "public_look_up"),
    "set_output": ("sklearn.utils._set_output", "_wrap_method_output"),
}
"""Modules and names of the makers. None of them calls what it is given; each returns the one function that is inside it."""
_CONTEXTS: Final = (contextlib.ContextDecorator, contextlib.AsyncContextDecorator)


def codes() -> dict[types.CodeType, str]:
    """Return the code of the functions that the makers return, with the makers' names; of libraries only those that are loaded."""
    return {_inner(maker): name for name in MAKERS if (maker := _maker(name)) is not None}


def arguments(function: types.FunctionType, name: str) -> tuple[Any, ...]:
    """Return what a maker was called with. Raises Unkept for what `make` would refuse."""
    maker: Any = _maker(name)
    held = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    found = tuple(held[each].cell_contents for each in _parameters(maker))
    _check(found)
    return found


def make(name: str, given: tuple[Any, ...]) -> Any:
    """Return what a maker makes of these arguments. Raises Unkept for a maker or arguments that no code of the session can have had."""
    maker = _maker(name) if name in MAKERS else None
    if maker is None or len(given) != len(_parameters(maker)):
        raise Unkept("a function of a library that is not there")
    _check(given)
    return maker(*given)


def _maker(name: str) -> Callable[..., Any] | None:
    module, path = MAKERS[name]
    try:
        found: Callable[..., Any] = operator.attrgetter(path)(sys.modules[module])
    except (KeyError, AttributeError):  # not loaded here, or another version
        return None
    return found


def _inner(maker: Any) -> types.CodeType:
    found = (each for each in maker.__code__.co_consts if type(each) is types.CodeType)
    return next(each for each in found if each.co_name != "__annotate__")  # which newer versions of Python add


def _parameters(maker: Any) -> tuple[str, ...]:
    return tuple(maker.__code__.co_varnames[: maker.__code__.co_argcount])


def _check(given: tuple[Any, ...]) -> None:
    """A function, and beside it at most a context or a text."""
    functions = [each for each in given if type(each) in (types.FunctionType, types.MethodType)]
    others = [each for each in given if type(each) is str or issubclass(type(each), _CONTEXTS)]
    if len(functions) != 1 or len(functions) + len(others) != len(given):
        raise Unkept("a function of a library, made of none of the code")
