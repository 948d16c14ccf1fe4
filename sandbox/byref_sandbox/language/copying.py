"""`copy` as the language has it.

Python's deepcopy keeps everything it copies in its memo, the attributes of instances as plain dicts among it, and hands that to every
`__deepcopy__`; what `__new__` returns gets the attributes of the original, whatever it is; and the names of those attributes are copied
like values, so that a name with a `__deepcopy__` of its own sets another. None of this may happen past the guards.
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
    """The memo of a copy that is being made: never in the code's hands."""


class Memo(dict[Any, Any]):
    """What a `__deepcopy__` of the code is given: it may say what stands for the instance, and hand it to `copy.deepcopy`."""

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
    """copy.deepcopy(); a memo that is no `Memo` is not looked at."""
    known = memo._known if type(memo) is Memo else None
    return copy.deepcopy(x, known if type(known) is _Known else _Known())


def own_deepcopy(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A `__deepcopy__` of the code, which sees a `Memo` in place of the memo."""

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
    """copy._reconstruct(), for an instance of the same class, with attributes under the names that they had."""

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
    """Have this process's `copy` mind the classes of a language."""
    _languages.add(guards)
    guards.stand_ins[Memo] = dict
    vars(copy)["_reconstruct"] = _reconstruct
