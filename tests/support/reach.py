"""What code can reach from what it is given: attributes by the language's own rules, calls without arguments, parts of hints, items."""

from __future__ import annotations

import contextlib
import io
import itertools
import types
import typing
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from breach import loot
from pandas._config.config import DictWrapper

from byref_sandbox.code.words import words
from byref_sandbox.language import copying, names
from byref_sandbox.language.eventloop import CancelledError
from byref_sandbox.language.facades import Facade
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.policy import Language
from byref_sandbox.language.refusal import NotAllowed

_WAIT = words("get join sleep acquire wait wait_for ginput waitforbuttonpress exit quit breakpoint")
"""Calls that wait for somebody, or end the process."""
_INNER: tuple[type, ...] = (Guards, DictWrapper, copying._Known, type(np.zeros(1).flags))
"""What the language has others in place of."""


def must_not_be_had(language: Language, value: object) -> str | None:
    """Why a value must not be in the code's hands, if so: a real module or class that has a stand-in, or what stands behind one."""
    kind = type(value)
    if kind in _INNER or kind.__name__ in ("RcParams", "FigureCanvasAgg", "PyCapsule"):
        return f"an object of {kind.__name__}"
    if issubclass(kind, type):
        assert isinstance(value, type)
        if issubclass(value, type) and value is not type:
            return f"{value.__name__}, which makes classes" if _makes_classes(value) else None
        if language._guards.in_place_of(value) is not value:
            return f"the class {value.__name__} itself"
        if issubclass(value, np.ndarray) and value.__new__ is np.ndarray.__new__:
            return f"{value.__name__}, whose constructor is that of ndarray"
    if isinstance(value, property) and loot(value.fget):
        return "a property of a module"
    origin = typing.get_origin(value)
    if origin is not None and origin is not value and (why := must_not_be_had(language, origin)):
        return f"a hint of {why}"
    return loot(value)


def _makes_classes(metaclass: Any) -> bool:
    try:
        metaclass("C", (), {})
    except NotAllowed:
        return False
    return True


class Reach:
    """A walk over what code can reach; `found` says what of it must not be had, `seen` what it went through."""

    def __init__(self, language: Language, depth: int, most: int) -> None:
        self._language = language
        self._depth = depth
        self._most = most
        self.seen: dict[int, object] = {}
        self.found: list[str] = []

    def walk(self, starts: dict[str, object]) -> None:
        queue = [(path, value, 0) for path, value in starts.items()]
        for path, value, depth in iter(lambda: queue.pop(0) if queue else ("", None, -1), ("", None, -1)):
            if len(self.seen) >= self._most:
                return
            if id(value) in self.seen or isinstance(value, (str, bytes, int, float)):
                continue
            self.seen[id(value)] = value
            if why := must_not_be_had(self._language, value):
                self.found.append(f"{path}: {why}")
            elif depth < self._depth:
                queue.extend((path + step, part, depth + 1) for step, part in self._parts(value, path))

    def _parts(self, value: Any, path: str) -> Iterator[tuple[str, object]]:
        known = dir(value) if not isinstance(value, Facade) else list(vars(value))
        for name in known:
            if name.startswith("_"):
                continue
            with contextlib.suppress(Exception):
                read = getattr if names.is_ordinary(name) else self._language._guards.getattr
                yield f".{name}", read(value, name)
        with contextlib.suppress(Exception):
            yield ".__class__", self._language._guards.dunder(value, "__class__")
        hints = vars(self._language._modules.facades["typing"])
        with contextlib.suppress(Exception):
            yield "<origin>", hints["get_origin"](value)
        with contextlib.suppress(Exception):
            yield from ((f"<argument {n}>", part) for n, part in enumerate(hints["get_args"](value)))
        if callable(value) and path.rpartition(".")[2] not in _WAIT:
            with contextlib.suppress(Exception, CancelledError):
                yield "()", value()
        if isinstance(value, type):
            with contextlib.suppress(Exception):
                yield "[int]", value[int]  # type: ignore[index]
        if isinstance(value, (list, tuple, set, frozenset, dict, types.MappingProxyType)):
            items = (
                itertools.chain(value, value.values()) if isinstance(value, (dict, types.MappingProxyType)) else value
            )
            with contextlib.suppress(
                Exception
            ):  # a class of a library's own: sympy's Cycle cannot be looped over while empty
                yield from ((f"[{n}]", item) for n, item in enumerate(itertools.islice(items, 20)))


def reached(language: Language, starts: dict[str, object], depth: int, most: int) -> Reach:
    """The walk from some values."""
    reach = Reach(language, depth, most)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        reach.walk(starts)
    return reach


assert pd  # what the samples are made of
