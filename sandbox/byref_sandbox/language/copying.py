"""`copy` as the language has it: three things that Python's deepcopy does would go past the guards.

- It puts all that it copies into its memo, attributes of instances as plain dicts too, and passes that memo to every `__deepcopy__`.
- It sets the attributes of the original on whatever `__new__` returns.
- It copies the names of attributes like values, so that a name with a `__deepcopy__` of its own becomes another name.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from byref_sandbox.language.classes import Classes
from byref_sandbox.language.refusal import NotAllowed

_languages: weakref.WeakSet[Classes] = weakref.WeakSet()


class _Known(dict[int, Any]):
    """The memo of a copy in the making. The code never gets it."""


class Memo(dict[Any, Any]):
    """The memo that a `__deepcopy__` of the code gets: it may enter its own copy there, and pass it on to `copy.deepcopy`."""

    __slots__ = ("_instance", "_known")

    def __init__(self, known: _Known, instance: object) -> None:
        super().__init__()
        self._known = known
        self._instance = instance

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if type(key) is int and key == id(self._instance):
            self._known[key] = value


def deepcopy(x: Any, memo: Any = None) -> Any:
    """Do what copy.deepcopy() does; a memo that is no `Memo` is ignored."""
    known = memo._known if type(memo) is Memo else None
    return copy.deepcopy(x, known if type(known) is _Known else _Known())


def own_deepcopy(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a `__deepcopy__` of the code that gets a `Memo` in place of the memo."""

    def with_memo(self: Any, memo: Any) -> Any:
        if type(memo) is not Memo:
            memo = Memo(memo if type(memo) is _Known else _Known(), self)
        return method(self, memo)

    return with_memo


def _reconstruct(
    x: Any,
    memo: dict[int, Any] | None,
    make: Callable[..., Any],
    arguments: Iterable[Any],
    state: Any = None,
    items: Iterable[Any] | None = None,
    pairs: Iterable[tuple[Any, Any]] | None = None,
    *,
    deepcopy: Callable[[Any, Any], Any] = copy.deepcopy,
) -> Any:
    """Do what copy._reconstruct() does, but only for an instance of the same class, and keep the names of attributes."""

    def copied(value: Any) -> Any:
        return value if memo is None else deepcopy(value, memo)

    made = make(*map(copied, arguments))
    if type(made) is not type(x) and any(guards.is_user_class(type(x)) for guards in _languages):
        raise NotAllowed(
            f"a copy of {type(x).__name__!r} came out as {type(made).__name__!r}", "define __copy__ instead"
        )
    if memo is not None:
        memo[id(x)] = made
    if hasattr(made, "__setstate__"):
        if state is not None:
            made.__setstate__(_named(state, copied) if type(state) is dict else copied(state))
    else:
        held, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
        if held is not None:
            made.__dict__.update(_named(held, copied))
        for name, value in _named(slots or {}, copied).items():
            setattr(made, name, value)
    for item in items or ():
        made.append(copied(item))
    for key, value in pairs or ():
        made[copied(key)] = copied(value)
    return made


def _named(attributes: dict[str, Any], copied: Callable[[Any], Any]) -> dict[str, Any]:
    if not all(type(name) is str for name in attributes):
        raise NotAllowed("attributes whose names are no plain strings cannot be copied", "define __copy__ instead")
    return {name: copied(value) for name, value in attributes.items()}


def install(guards: Classes) -> None:
    """Have this process's module `copy` respect the classes of a language."""
    _languages.add(guards)
    guards.stand_ins[Memo] = dict
    vars(copy)["_reconstruct"] = _reconstruct
