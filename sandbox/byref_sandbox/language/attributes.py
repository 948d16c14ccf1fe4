"""Namespaces as dicts: the attributes of an instance, the variables of the code."""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, Iterator, ValuesView
from typing import Any, Final

from byref_sandbox.language.refusal import not_loaded


class _NotLoaded:
    def __repr__(self) -> str:
        return "<not loaded>"


NOT_LOADED: Final = _NotLoaded()
"""Stands for the value of a variable that is bound, but was not given to the run: reading it is an error."""


class Namespace(dict[str, Any]):
    """The dict that `vars(instance)` and `globals()` return. Each change is checked, and then made in the real namespace as well.

    Names in `others` are there, but their values are not.
    """

    def __init__(
        self,
        names: dict[str, Any],
        source: dict[str, Any],
        check: Callable[[str], object],
        others: Collection[str] = (),
    ) -> None:
        super().__init__(names)
        for name in others:
            super().setdefault(name, NOT_LOADED)
        self._check = check
        self._source = source

    def loaded(self) -> dict[str, Any]:
        """Return the names whose values are there."""
        return {name: value for name, value in super().items() if value is not NOT_LOADED}

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if value is NOT_LOADED:
            raise not_loaded(name)
        return value

    def __iter__(self) -> Iterator[str]:
        # With a method of its own, `dict(names)` and `{**names}` take each value by `names[name]`.
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    def items(self) -> Any:
        return ItemsView(self)

    def values(self) -> Any:
        return ValuesView(self)

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    def __setitem__(self, name: str, value: object) -> None:
        self._check(name)
        self._source[name] = value
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self._check(name)
        if name in self:
            self[name]
        super().__delitem__(name)
        del self._source[name]

    def update(self, *arguments: Any, **options: Any) -> None:
        for name, value in dict(*arguments, **options).items():
            self[name] = value

    def __ior__(self, other: Any) -> Namespace:  # type: ignore[override]
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
