"""`help(x)`, and what IPython writes `x?`: how something is called, and what its docstring says."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, Final

from byref_sandbox.language.calling import HostFunction
from byref_sandbox.language.facades import Facade, facade_name
from byref_sandbox.language.guards import Guards

MAX_CHARS: Final = 4_000


def helper(guards: Guards) -> Callable[..., None]:
    """Return `help`, which prints."""

    def call(*values: Any) -> None:
        if not values:
            print("help(value) tells how something is called and what it does; dir(value) lists its names")
        for value in values:
            text = _about(guards, value)
            print(text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…")

    call.__name__ = call.__qualname__ = "help"
    return call


def _about(guards: Guards, value: Any) -> str:
    if type(value) is Facade:
        return f"module {facade_name(value)}\n\n{', '.join(dir(value))}"
    if isinstance(value, HostFunction):
        return str(value.__doc__)  # begins with its signature
    is_class = isinstance(value, type)
    if not is_class and not callable(value):
        return f"{type(value).__name__} object\n\n{_about(guards, type(value))}"
    lines = [f"{'class ' if is_class else ''}{getattr(value, '__name__', type(value).__name__)}{_signature(value)}"]
    if doc := guards.dunder(value, "__doc__"):
        lines.append(inspect.cleandoc(doc))
    if is_class:
        lines.append(f"names: {', '.join(name for name in dir(value) if not name.startswith('_'))}")
    return "\n\n".join(lines)


def _signature(value: Any) -> str:
    if type(call := inspect.getattr_static(type(value), "__call__", None)) is types.FunctionType:
        value = types.MethodType(call, value)  # an instance would be compared, by `__eq__` of its class
    try:
        return str(inspect.signature(value))
    except (ValueError, TypeError):
        return "(...)"
