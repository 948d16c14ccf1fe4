"""The attributes of an instance of a user's class, as a dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Attributes(dict[str, Any]):
    """What `vars(instance)` gives: a dict whose changes go through the same checks as `instance.name = value`."""

    def __init__(self, instance: object, check: Callable[[str], object]) -> None:
        super().__init__(instance.__dict__)
        self._check = check
        self._instance = instance

    def __setitem__(self, name: str, value: object) -> None:
        self._check(name)
        self._instance.__dict__[name] = value
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self._check(name)
        super().__delitem__(name)
        del self._instance.__dict__[name]

    def update(self, *arguments: Any, **options: Any) -> None:
        for name, value in dict(*arguments, **options).items():
            self[name] = value

    def __ior__(self, other: Any) -> Attributes:  # type: ignore[override,misc]
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
