"""Statements are compiled once for all engines of a process, as they are for a host's only one.

A run of tests makes thousands of engines, and to compile the same statements for each of them took a quarter of the time of
tests that have a database of their own. SQLAlchemy keeps what it compiled by the dialect that it was compiled for, which each
engine has one of: those of one class whose settings are alike, the server's version among them, count as one here.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

CACHE: LRUCache[Any, Any] = LRUCache(4_000)
NUMBERS: dict[Any, int] = {}
"""One for each way in which dialects are set up."""


def _settings(dialect: DefaultDialect) -> tuple[Any, ...]:
    """What statements are compiled by; of objects that each dialect makes for itself, their classes."""
    plain = (str, int, bytes, tuple, frozenset, type(None), ModuleType)
    values = {
        name: value if isinstance(value, plain) or callable(value) else type(value)
        for name, value in vars(dialect).items()
    }
    return type(dialect), *sorted(values.items(), key=lambda item: item[0])


def _number(dialect: DefaultDialect) -> int:
    """The same for those that are alike; until it has met its server, a dialect is like no other."""
    settings = vars(dialect)
    if "compiled_as" not in settings:
        if "default_isolation_level" not in settings:
            return -id(dialect)
        settings["compiled_as"] = NUMBERS.setdefault(_settings(dialect), len(NUMBERS))
    number: int = settings["compiled_as"]
    return number


def share() -> None:
    """Have all engines that are made from now on share what they compile."""
    make = Engine.__init__

    def __init__(self: Engine, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        if self._compiled_cache is not None:
            self._compiled_cache = CACHE

    Engine.__init__ = __init__  # type: ignore[method-assign]
    DefaultDialect.__hash__ = _number  # type: ignore[method-assign, assignment]
    DefaultDialect.__eq__ = lambda self, other: isinstance(other, DefaultDialect) and _number(self) == _number(other)  # type: ignore[method-assign, assignment]
