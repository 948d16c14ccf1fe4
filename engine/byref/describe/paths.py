"""Paths to places of a JSON value, and the one way in which they are written: `repos.*.data.pulls[].user.login`."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from byref.describe.jsontext import compact, encodable


class Each(Enum):
    """A step that leads to many values."""

    ITEM = "[]"
    """To each item of an array."""
    KEY = "*"
    """To the value of each key of a map: an object whose keys are data, like ids or dates."""


ITEM: Final = Each.ITEM
KEY: Final = Each.KEY

Step: TypeAlias = str | Each
"""One step down; a string leads to the member of this name."""
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
    are `$[]`. `…` stands for the end of a long key and for the first steps of a long path.
    """
    steps: list[str] = []
    room = PATH_CHARS
    for at in range(len(path) - 1, -1, -1):
        step = path[at]
        text = "[]" if step is ITEM else "*" if step is KEY else written_key(str(step))
        text = f".{text}" if at and step is not ITEM else text
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
