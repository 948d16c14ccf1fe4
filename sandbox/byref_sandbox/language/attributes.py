"""Namespaces as dicts: the attributes of an instance, the variables of the code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Namespace(dict[str, Any]):
    """The dict that `vars(instance)` and `globals()` return. Each change is checked, and then made in the real namespace as well."""

    def __init__(self, names: dict[str, Any], source: dict[str, Any], check: Callable[[str], object]) -> None:
        super().__init__(names)
        self._check = check
        self._source = source

    def __setitem__(self, name: str, value: object) -> None:
        self._check(name)
        self._source[name] = value
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self._check(name)
        super().__delitem__(name)
        del self._source[name]

    def update(self, *arguments: Any, **options: Any) -> None:
        for name, value in dict(*arguments, **options).items():
            self[name] = value

    def __ior__(self, other: Any) -> Namespace:  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        if name in self:
            value = self[name]
            del self[name]
            return value
        return super().pop(name, *default)

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def popitem(self) -> tuple[str, Any]:
        name = next(reversed(self))
        return name, self.pop(name)
