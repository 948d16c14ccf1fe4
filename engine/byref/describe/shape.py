"""A value's shape at a glance: one word for each kind, one line for each member."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from byref.describe.jsontext import encodable

T = TypeVar("T")

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
_COUNTED: Final[dict[type, float]] = {dict: 5.0, list: 11.0}
"""Tokens of the counts and further words in `object(6 keys)` and `array(500) of object(6 keys)`."""
_KEY: Final = 30.0
"""Tokens of a key from which on it is cut."""


def kind_of(value: object) -> str:
    """The value's kind in a few words: `integer`, `array(3) of string`, `object(1 key)`.

    Raises TypeError for a type that JSON does not have.
    """
    word = _SCALARS.get(type(value))
    if word is not None:
        return word
    if type(value) is dict:
        return _object(len(value))
    if type(value) is list:
        return f"array({len(value)}) of {_element_kind(value)}" if value else "array(0)"
    raise TypeError(f"expected one of JSON's own types, found {type(value).__qualname__}")


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


def _object(count: int) -> str:
    return f"object({count} key{'' if count == 1 else 's'})"


def _element_kind(values: list[Any]) -> str:
    types = set(_each(type, values))
    if types == {int, float}:
        return "number"
    if len(types) > 1:
        return "mixed"
    (type_,) = types
    if type_ not in (dict, list):
        return kind_of(values[0])
    sizes = set(_each(len, values))
    if len(sizes) > 1:
        return "object" if type_ is dict else "array"
    (size,) = sizes
    return _object(size) if type_ is dict else f"array({size})"


def _each(of: Callable[[Any], T], values: list[Any]) -> Iterator[T]:
    """`map`, which lets other threads have their turn in between."""
    return (result for at in range(0, len(values), _TURN) for result in set(map(of, values[at : at + _TURN])))


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
