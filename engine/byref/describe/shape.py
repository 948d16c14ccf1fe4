"""A value's shape at a glance: one word for each kind, one line for each member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from byref.describe.jsontext import encodable
from byref.describe.rows import Rows

_TURN: Final = 1 << 16
"""Values looked at in one go, in a millisecond or two."""
_SCALARS: Final[dict[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_ROOM: Final = 205.0
"""Tokens a shape may take as JSON, by the cautious estimate below; measured, hostile keys took 196 and words 150."""
_MEMBER: Final = 5.0
"""Tokens of a member's punctuation and its kind's first word."""
_COUNTED: Final[dict[type, float]] = {dict: 5.0, list: 11.0, Rows: 11.0}
"""Tokens of the counts and further words in `object(6 keys)` and `array(500) of object(6 keys)`."""
_KEY: Final = 30.0
"""Tokens of a key from which on it is cut."""


class Elements:
    """The kind that the elements of an array have in common, learnt part by part."""

    __slots__ = ("_sizes", "_types")

    def __init__(self) -> None:
        self._types: set[type] = set()
        self._sizes: set[int] = set()

    def add(self, values: Sequence[Any]) -> None:
        """Learn of further elements."""
        self._types.update(map(type, values))
        if len(self._sizes) < 2 and (self._types == {dict} or self._types == {list}):
            self._sizes.update(map(len, values))

    @property
    def kind(self) -> str:
        """The kind in words, of one element at least: `object(6 keys)`, `object` where sizes differ, `mixed`."""
        if self._types == {int, float}:
            return "number"
        if len(self._types) > 1:
            return "mixed"
        (type_,) = self._types
        if type_ not in (dict, list):
            return _scalar(type_)
        if len(self._sizes) > 1:
            return "object" if type_ is dict else "array"
        (size,) = self._sizes
        return _object(size) if type_ is dict else f"array({size})"


def kind_of(value: object) -> str:
    """The value's kind in a few words: `integer`, `array(3) of string`, `object(1 key)`.

    Raises TypeError for a type that JSON does not have.
    """
    if type(value) is dict:
        return _object(len(value))
    if type(value) is list:
        return f"array({len(value)}) of {_element_kind(value)}" if value else "array(0)"
    if type(value) is Rows:
        return f"array({len(value)}) of {value.element_kind}"
    return _scalar(type(value))


def shape(value: object) -> dict[str, str] | str:
    """The kind of each member of an object, in source order, or the kind of any other value; under 200 tokens as JSON.

    Members that do not fit are counted in a last one, `"…": "412 more keys"`; long keys are cut.
    """
    if type(value) is not dict:
        return kind_of(value)
    shown: dict[str, str] = {}
    room = _ROOM
    for key, member in value.items():
        name, tokens = _cut_key(key)
        tokens += _MEMBER + _COUNTED.get(type(member), 0)
        last = len(shown) + 1 == len(value)
        if name in shown or name == "…" or room < tokens + (0 if last else _MEMBER + _COUNTED[dict]):
            left = len(value) - len(shown)
            shown["…"] = f"{left} more key{'' if left == 1 else 's'}"
            break
        room -= tokens
        shown[name] = kind_of(member)
    return shown


def _scalar(type_: type) -> str:
    if type_ not in _SCALARS:
        raise TypeError(f"expected one of JSON's own types, found {type_.__qualname__}")
    return _SCALARS[type_]


def _object(count: int) -> str:
    return f"object({count} key{'' if count == 1 else 's'})"


def _element_kind(values: Sequence[Any]) -> str:
    elements = Elements()
    for at in range(0, len(values), _TURN):  # so that other threads have their turn in between
        elements.add(values[at : at + _TURN])
    return elements.kind


def _cut_key(key: str) -> tuple[str, float]:
    """The key in at most about `_KEY` tokens, with their number."""
    tokens = 0.0
    for i, character in enumerate(key):
        # Lowercase letters, of which words are made, come two and more to a token. JSON writes control characters and
        # lone surrogates, and if asked for ASCII all others too, as `\\u` and four digits for each UTF-16 unit.
        if character.isascii():
            tokens += 0.7 if character.islower() or character == "_" else 1 if character.isprintable() else 5
        else:
            tokens += 10 if character >= "\U00010000" else 7 if "\ud800" <= character <= "\udfff" else 5
        if tokens > _KEY:
            return encodable(key[:i]) + "…", tokens + 2
    return encodable(key), tokens
