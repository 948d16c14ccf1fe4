"""What tests mock is mocked for the code under test as well: it finds the names of modules in facades, not in the modules."""

from __future__ import annotations

import builtins
import sqlite3
import sys
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock


class Mocks:
    """Has each `mock.patch` of a name that the language has be one of the language, too. A name that it lacks stays away."""

    def __init__(self, language: Any, space: dict[str, Any], module: types.ModuleType) -> None:
        self._facades = {name: vars(facade) for name, facade in language._modules.facades.items()}
        self._space, self._module = space, module
        self._before: dict[int, list[tuple[dict[str, Any], str, Any]]] = {}

    def follow(self) -> None:
        """From now on, in this process. Tests that hand over a database in memory get one of the language's."""
        if (sqlite := self._facades.get("sqlite3")) is not None:
            real, ours = sqlite3.connect, sqlite["connect"]
            sqlite3.connect = lambda database, *given, **options: (  # type: ignore[assignment]
                (ours if database == ":memory:" else real)(database, *given, **options)
            )
        kind: Any = mock._patch  # type: ignore[attr-defined]
        enter, leave = kind.__enter__, kind.__exit__

        def entered(patch: Any) -> Any:
            made = enter(patch)
            name = patch.attribute
            before = self._before[id(patch)] = [
                (names, name, names[name]) for names in self._places(patch.target) if name in names
            ]
            for names, _, _ in before:
                names[name] = getattr(patch.target, name)
            return made

        def left(patch: Any, *error: Any) -> Any:
            for names, name, value in self._before.pop(id(patch), []):
                names[name] = value
            return leave(patch, *error)

        kind.__enter__, kind.__exit__ = entered, left

    def _places(self, target: object) -> Iterator[dict[str, Any]]:
        if target is builtins:
            yield self._space["__builtins__"]
        elif target is self._module:
            yield self._space
        else:
            yield from (
                names for module, names in self._facades.items() if any(one is target for one in _found(module))
            )


def _found(module: str) -> tuple[object, object]:
    """What a module's name stands for when tests import it, and as a chain of attributes: a disk in memory replaces only that of `os.path`."""
    top, *steps = module.split(".")
    found: object = sys.modules.get(top)
    for step in steps:
        try:
            found = getattr(found, step)
        except Exception:  # numpy imports some of its parts when they are asked for, which a jail does not let it
            found = None
    return sys.modules.get(module, found), found
