"""Questions about objects that the code may have made, answered without running any method of theirs."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, ForwardRef

from byref_sandbox.language import names
from byref_sandbox.language.facades import Facade, facade_name

mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
namespace_of: Callable[[type], types.MappingProxyType[str, Any]] = type.__dict__["__dict__"].__get__
module_of: Callable[[type], object] = type.__dict__["__module__"].__get__


def is_own_frame(namespace: Mapping[str, Any]) -> bool:
    """Whether a function's or frame's globals are those of code of this language."""
    inside = namespace.get("__builtins__")
    return type(inside) is dict and ".getattr" in inside


def not_loaded_in(namespace: Mapping[str, Any]) -> frozenset[str]:
    """Return the variables that are bound, but that a run with these globals was not given."""
    found: frozenset[str] = namespace["__builtins__"].get(NOT_LOADED_NAMES, frozenset())
    return found.difference(namespace)


NOT_LOADED_NAMES = ".not_loaded"
"""The name, which no code can spell, under which builtins hold these variables."""


def own_namespace() -> Mapping[str, Any]:
    """Return the global names and builtins of the code of this language that called; none if no code did."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not is_own_frame(frame.f_globals):
        frame = frame.f_back
    return {} if frame is None else {**frame.f_globals["__builtins__"], **frame.f_globals}


def public_look_up(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Return a `__getattr__` that is never asked for dunder names: numpy asks instances for __array_interface__, which is raw memory."""

    def public_only(self: Any, name: str) -> Any:
        if names.is_dunder(name):
            raise AttributeError(name)
        return look_up(self, name)

    return public_only


def is_own_function(value: object) -> bool:
    """Whether a value is a function of code of this language."""
    return type(value) is types.FunctionType and is_own_frame(value.__globals__)


def annotations_of(owner: Any) -> dict[str, Any]:
    """Return the annotations of a function, or a class's own."""
    if sys.version_info < (3, 14):
        if type(owner) is types.FunctionType:
            return dict(owner.__annotations__)
        return dict(namespace_of(owner).get("__annotations__", {}))
    library: Any = importlib.import_module("annotationlib")
    found: dict[str, Any] = library.get_annotations(owner, format=library.Format.FORWARDREF)
    return found


def plain_hint(hint: object) -> object:
    """Return a type hint. A ForwardRef becomes its text: newer versions of Python evaluate it on request."""
    return hint.__forward_arg__ if type(hint) is ForwardRef else hint


def has(kind: type, name: str) -> bool:
    """Whether a class or one of its bases defines a name."""
    return any(name in cls.__dict__ for cls in mro_of(kind))


def is_there(value: Any, kind: type, name: str) -> bool:
    """Whether a value has an attribute of its own or of its class."""
    return has(kind, name) or name in getattr(value, "__dict__", ()) or (kind is type and has(value, name))


def static(kind: type, name: str) -> object:
    """Return what a class or one of its bases stores under a name, without calling descriptors."""
    for cls in mro_of(kind):
        if name in cls.__dict__:
            return cls.__dict__[name]
    return None


def name_of(value: object) -> str:
    """Return how a value is named in a message: by its module, its class or itself."""
    if type(value) is Facade:
        return f"module {facade_name(value)}"
    return repr(value.__name__ if isinstance(value, type) else type(value).__name__)
