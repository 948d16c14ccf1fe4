"""`operator.attrgetter` and `operator.methodcaller` by the rules of the language: objects, so that they are kept between runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LookUp = Callable[[Any, str], Any]
"""How the language looks up an attribute."""


class AttributeGetter:
    """operator.attrgetter."""

    def __init__(self, look_up: LookUp, paths: tuple[str, ...]) -> None:
        if not paths:
            raise TypeError("attrgetter expected 1 argument, got 0")
        for path in paths:
            if type(path) is not str:
                raise TypeError("attribute name must be a string")
        self._look_up, self._paths = look_up, paths

    def __call__(self, value: Any, /) -> Any:
        found = tuple(self._one(value, path) for path in self._paths)
        return found[0] if len(found) == 1 else found

    def _one(self, value: Any, path: str) -> Any:
        for name in path.split("."):
            value = self._look_up(value, name)
        return value

    def __repr__(self) -> str:
        return f"operator.attrgetter({', '.join(map(repr, self._paths))})"


class MethodCaller:
    """operator.methodcaller."""

    def __init__(self, look_up: LookUp, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if type(name) is not str:
            raise TypeError("method name must be a string")
        self._look_up, self._given = look_up, (name, arguments, options)

    def __call__(self, value: Any, /) -> Any:
        name, arguments, options = self._given
        return self._look_up(value, name)(*arguments, **options)

    def __repr__(self) -> str:
        name, arguments, options = self._given
        given = [*map(repr, (name, *arguments)), *(f"{key}={value!r}" for key, value in options.items())]
        return f"operator.methodcaller({', '.join(given)})"


def given(getter: AttributeGetter | MethodCaller) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what a getter was made of."""
    if type(getter) is AttributeGetter:
        return getter._paths, {}
    name, arguments, options = getter._given  # type: ignore[union-attr]
    return (name, *arguments), options


AttributeGetter.__name__ = AttributeGetter.__qualname__ = "attrgetter"
MethodCaller.__name__ = MethodCaller.__qualname__ = "methodcaller"
