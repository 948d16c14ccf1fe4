"""A value's shape at a glance: one word for each kind, one line for each member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from byref.describe.jsontext import encodable
from byref.describe.nodes import OBJECT, Node
from byref.describe.rows import MAPS, Entries, Rows, first_members

_TURN: Final = 1 << 16
"""Values that are read without a break, in a millisecond or two, before other threads get a turn."""
_SCALARS: Final[dict[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
MORE: Final = "…"
"""The key of a last member that counts those that do not fit."""
_ROOM: Final = 205.0
"""Maximum tokens of a shape as JSON, by the cautious estimate below. Measured: hostile keys took 196 tokens, words 150."""
_MEMBER: Final = 5.0
"""Estimated tokens of a member's punctuation and the first word of its kind."""
_COUNTED: Final[dict[type, float]] = {dict: 5.0, Entries: 5.0, list: 11.0, Rows: 11.0}
"""Estimated tokens of the counts and further words in `object(6 keys)` and `array(500) of object(6 keys)`."""
_KEY: Final = 30.0
"""Maximum tokens of a key; a longer one is cut."""


class Elements:
    """The common kind of an array's elements, which are added part by part."""

    __slots__ = ("_sizes", "_types")

    def __init__(self) -> None:
        self._types: set[type] = set()
        self._sizes: set[int] = set()

    def add(self, values: Sequence[Any]) -> None:
        """Add further elements."""
        self._types.update(map(type, values))
        if len(self._sizes) < 2 and (self._types == {dict} or self._types == {list}):
            self._sizes.update(map(len, values))

    @property
    def kind(self) -> str:
        """The common kind in words: `object(6 keys)`, `object` if their sizes differ, or `mixed`. It needs at least one element."""
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


def kind_of(value: object, node: Node | None = None) -> str:
    """Return the value's kind in a few words: `integer`, `array(3) of string`, `object(1 key)`.

    `node`, if given, describes this value and no other: it may save looking at elements. Raises TypeError for a type that JSON does not
    have.
    """
    if type(value) in MAPS:
        return _object(len(value))  # type: ignore[arg-type]
    if type(value) is list:
        return f"array({len(value)}) of {_element_kind(value, node and node.items)}" if value else "array(0)"
    if type(value) is Rows:
        return f"array({len(value)}) of {value.element_kind}"
    return _scalar(type(value))


def shape(value: object, node: Node | None = None) -> dict[str, str] | str:
    """Return the kind of each member of an object, in source order, or the kind of any other value; under 200 tokens as JSON.

    `node` is as for `kind_of`. A last member, `"…": "412 more keys"`, counts those that do not fit; long keys are cut.
    """
    if type(value) is not dict and type(value) is not Entries:
        return kind_of(value, node)
    shown: dict[str, str] = {}
    room = _ROOM
    for key, member in first_members(value).items():
        name, tokens = _cut_key(key)
        tokens += _MEMBER + _COUNTED.get(type(member), 0)
        last = len(shown) + 1 == len(value)
        if name in shown or name == MORE or room < tokens + (0 if last else _MEMBER + _COUNTED[dict]):
            left = len(value) - len(shown)
            shown[MORE] = f"{left} more key{'' if left == 1 else 's'}"
            break
        room -= tokens
        shown[name] = kind_of(member, node and node.members.get(key))
    else:
        if len(shown) < len(value):
            shown[MORE] = f"{len(value) - len(shown)} more keys"
    return shown


def _scalar(type_: type) -> str:
    if type_ not in _SCALARS:
        raise TypeError(f"expected one of JSON's own types, found {type_.__qualname__}")
    return _SCALARS[type_]


def _object(count: int) -> str:
    return f"object({count} key{'' if count == 1 else 's'})"


def _element_kind(values: Sequence[Any], node: Node | None) -> str:
    # Folded or skipped keys are no members; where all objects have all members, they have that many keys.
    if node is not None and node.kinds == OBJECT and node.counts is None and node.rest is None and not node.is_cut:
        return _object(len(node.members))
    elements = Elements()
    for at in range(0, len(values), _TURN):  # so that other threads have their turn in between
        elements.add(values[at : at + _TURN])
    return elements.kind


def _cut_key(key: str) -> tuple[str, float]:
    """Return the key, cut to about `_KEY` tokens, and its estimated tokens."""
    tokens = 0.0
    for i, character in enumerate(key):
        # Words are made of lowercase letters, and a token holds two or more of these. JSON writes control characters and lone
        # surrogates as `\\u` and four digits for each UTF-16 unit; an ASCII encoder writes all other non-ASCII characters so, too.
        if character.isascii():
            tokens += 0.7 if character.islower() or character == "_" else 1 if character.isprintable() else 5
        else:
            tokens += 10 if character >= "\U00010000" else 7 if "\ud800" <= character <= "\udfff" else 5
        if tokens > _KEY:
            return encodable(key[:i]) + "…", tokens + 2
    return encodable(key), tokens
