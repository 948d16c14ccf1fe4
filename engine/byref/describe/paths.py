"""Paths to places of a JSON value, and the one way in which they are written: `repos.*.data.pulls[].user.login`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import Any, Final, TypeAlias

from byref.describe.jsontext import compact, encodable


class Each(Enum):
    """A step that leads to many values."""

    ITEM = "[]"
    """To each item of an array."""
    KEY = "*"
    """To the value of each key of a map: an object whose keys are data, like ids or dates."""


ITEM: Final = Each.ITEM
KEY: Final = Each.KEY


class Cell(str):
    """A step to the cell of one column, in a row that is an array. It is the column's name, or its position in brackets."""

    __slots__ = ("at", "header", "is_named")

    at: int
    is_named: bool
    header: object
    """The row that names the columns, and is none of the others; None where there is no such row."""

    def __new__(cls, at: int, name: str | None = None, header: object = None) -> Cell:
        """Return the step to the cell at a position, whose column may have a name."""
        self = super().__new__(cls, f"[{at}]" if name is None else name)
        self.at, self.is_named, self.header = at, name is not None, header
        return self


Step: TypeAlias = str | Each
"""One step down; a string leads to the member of this name, a `Cell` to the item at its position."""
Path: TypeAlias = tuple[Step, ...]
"""The steps from a value to a place below it. The empty path is the value itself."""

KEY_CHARS: Final = 80
"""Maximum characters of a written key; of a longer one, the first half of this many is written."""
PATH_CHARS: Final = 200
"""Maximum characters of a written path; a longer one loses its first steps."""


def written(path: Path) -> str:
    """Return a path as text of about `PATH_CHARS` characters at most.

    Steps to members are joined by dots; `[]` is each item of an array, `*` the value of each key of a map: `repos.*.pulls[].id`.
    Keys that are no identifiers are written as JSON strings: `paths."/users/{id}".get`. The value itself is `$`, and its items
    are `$[]`. The cells of rows that are arrays are written as members if their columns have names, else by position: `values[][1]`.
    `…` stands for the end of a long key and for the first steps of a long path.
    """
    steps: list[str] = []
    room = PATH_CHARS
    for at in range(len(path) - 1, -1, -1):
        step = path[at]
        is_position = isinstance(step, Cell) and not step.is_named
        text = "[]" if step is ITEM else "*" if step is KEY else str(step) if is_position else written_key(str(step))
        text = f".{text}" if at and step is not ITEM and not is_position else text
        room -= len(text)
        if room < 0 and steps:
            steps.append("…")
            break
        steps.append(text)
    else:
        if not path or path[0] is ITEM:
            steps.append("$")
    return "".join(reversed(steps))


def written_key(key: str) -> str:
    """Return a key as it is written in a path: an identifier as it is, any other key as a JSON string. Long keys are cut."""
    if len(key) > KEY_CHARS:
        return compact(f"{encodable(key[: KEY_CHARS // 2])}…")
    return key if key.isidentifier() else compact(encodable(key))


def stepped(values: Iterable[Any], step: Step) -> Iterator[Any]:
    """Yield what one step leads to from each of several values, in order; nothing from those where there is none."""
    if step is ITEM:
        return chain.from_iterable(each for each in values if type(each) is list)
    if step is KEY:
        return chain.from_iterable(each.values() for each in values if type(each) is dict)
    if isinstance(step, Cell):
        rows = (each for each in values if type(each) is list and each is not step.header)
        return (row[step.at] for row in rows if step.at < len(row))
    return (each[step] for each in values if type(each) is dict and step in each)
