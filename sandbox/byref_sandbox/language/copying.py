"""`copy` as the language has it.

Python's deepcopy keeps everything it copies in its memo, the attributes of instances as plain dicts among it, and hands that to every
`__deepcopy__`; and what `__new__` returns gets the attributes of the original, whatever it is. Neither may happen past the guards.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from byref_sandbox.language.refusal import NotAllowed

if TYPE_CHECKING:
    from byref_sandbox.language.guards import Guards

_languages: weakref.WeakSet[Guards] = weakref.WeakSet()


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
    return copy.deepcopy(x, memo._known if type(memo) is Memo else _Known())


def own_deepcopy(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A `__deepcopy__` of the code, which sees a `Memo` in place of the memo."""

    def with_memo(self: Any, memo: Any) -> Any:
        if type(memo) is not Memo:
            memo = Memo(memo if type(memo) is _Known else _Known(), self)
        return method(self, memo)

    return with_memo


class _Reducers:
    """copy's table of how classes are taken apart, with those of the code."""

    def __init__(self, others: dict[type, Callable[[Any], Any]]) -> None:
        self.others = others

    def get(self, cls: type) -> Callable[[Any], Any] | None:
        """How instances of a class are taken apart, if not by themselves."""
        return _reduced if any(guards.is_user_class(cls) for guards in _languages) else self.others.get(cls)


def _reduced(instance: Any) -> Any:
    reduced = instance.__reduce_ex__(4)
    if type(reduced) is not tuple:
        return reduced
    make, arguments, *state = reduced

    def remake(*given: Any) -> Any:
        made = make(*given)
        if type(made) is not type(instance):
            raise NotAllowed(
                f"a copy of {type(instance).__name__!r} came out as {type(made).__name__!r}", "define __copy__ instead"
            )
        return made

    return (remake, arguments, *state)


def install(guards: Guards) -> None:
    """Have this process's `copy` mind the classes of a language."""
    _languages.add(guards)
    if type(vars(copy)["dispatch_table"]) is not _Reducers:
        vars(copy)["dispatch_table"] = _Reducers(vars(copy)["dispatch_table"])
