"""A faster way to infer the schema of a long list of objects: objects like the earlier ones only have to be counted.

The schema of the list's first chunks becomes a type, and msgspec checks in C whether further chunks are of that type.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from operator import attrgetter, or_
from types import GenericAlias
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from byref.describe.nodes import ARRAY, BOOLEAN, CONTAINER, INTEGER, NULL, NUMBER, OBJECT, STRING, Node

_FIRST: Final = 3
"""Chunks that are read before a type is made; after these, a type saves more with the next chunk than it costs to make."""
_MAX_LEVELS: Final = 8
_MAX_PLACES: Final = 256
"""Maximum places of a value in one type: each object among them takes 40 µs or more to make a type of, and an output may have an
object every few bytes."""
_TYPES: Final[dict[int, Any]] = {NULL: None, BOOLEAN: bool, INTEGER: int, NUMBER: int | float, STRING: str}
_EMPTY: Final = Annotated[list[None], msgspec.Meta(max_length=0)]


class Alike:
    """Counts the objects of chunks that would change nothing but the counts of a node.

    Use it only for plain values, because msgspec accepts a tuple as a list.
    """

    __slots__ = ("_due", "_node", "_read", "_whole")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._read = 0
        """Chunks read since the last type turned out to be too narrow."""
        self._due = _FIRST
        """Chunks to read before the next type is made. It doubles each time, so that few types are made in vain."""
        self._whole: _Place | None = None

    def add(self, chunk: Sequence[Any]) -> bool:
        """Count the chunk's objects and return True if only their number is new; otherwise return False: the caller must read it."""
        if self._whole is None:
            self._read += 1
            if self._read <= self._due:
                return False
            self._whole = _Making().place(self._node, _MAX_LEVELS) if self._node.kinds == OBJECT else None
        if self._whole is not None:
            counts: list[_Counted] = []
            try:
                found = msgspec.convert(chunk, GenericAlias(list, self._whole.accepts))
            except (msgspec.ValidationError, UnicodeEncodeError):
                pass  # msgspec raises UnicodeEncodeError if its message would quote a key with a lone surrogate
            else:
                if self._whole.count(found, counts):
                    for node, objects, optional in counts:
                        if node.counts is not None:
                            for key in node.members:
                                node.counts[key] += optional.get(key, objects)
                        node.objects += objects
                    return True
            self._whole = None
        self._read, self._due = 1, 2 * self._due
        return False


class _Counted(NamedTuple):
    """The objects of a chunk at one place."""

    node: Node
    objects: int
    optional: dict[str, int]
    """How many of them have each key that not all objects have."""


@dataclass(slots=True)
class _Place:
    """The type of the values at a node's place, and the checks that a type cannot express."""

    node: Node
    accepts: Any
    object_type: type | None = None
    members: list[tuple[attrgetter[Any], _Place]] = field(default_factory=list)
    """The members of its objects that need further checks, each with the function that reads its values."""
    optional: list[tuple[str, attrgetter[Any]]] = field(default_factory=list)
    """The keys that not all of its objects have, each with the function that reads its values."""
    items: _Place | None = None
    """The items of its arrays, if they need further checks."""

    @property
    def is_settled(self) -> bool:
        """Whether the type alone says everything, so that its values need no further check."""
        return not self._has_only_floats and self.object_type is None and self.items is None

    @property
    def _has_only_floats(self) -> bool:
        return self.node.kinds & (INTEGER | NUMBER) == NUMBER

    def count(self, column: Sequence[Any], counts: list[_Counted]) -> bool:
        """Count the objects in values of this type; return False if an integer is where the node has seen only floats.

        msgspec accepts an integer as a float, but the schema would change from `number`.
        """
        if self._has_only_floats and int in set(map(type, column)):
            return False
        if self.object_type is not None:
            if self.accepts is not self.object_type:
                column = [value for value in column if type(value) is self.object_type]
            there = {key: len(column) - list(map(get, column)).count(msgspec.UNSET) for key, get in self.optional}
            counts.append(_Counted(self.node, len(column), there))
            if not all(member.count(list(map(get, column)), counts) for get, member in self.members):
                return False
        if self.items is not None:
            arrays = (value for value in column if type(value) is list)
            return self.items.count(list(chain.from_iterable(arrays)), counts)
        return True


class _Making:
    """Makes the type of a node's values; None if no type can tell whether a value would change the node."""

    def __init__(self) -> None:
        self._left = _MAX_PLACES

    def place(self, node: Node, levels: int) -> _Place | None:
        self._left -= 1
        types, place = [type_ for kind, type_ in _TYPES.items() if node.kinds & kind], _Place(node, None)
        if node.kinds & ARRAY:
            if node.items is None or node.items.kinds & CONTAINER:
                return None
            items = self.place(node.items, levels)
            types.append(GenericAlias(list, items.accepts) if items else _EMPTY)
            place.items = items if items and not items.is_settled else None
        if node.kinds & OBJECT:
            if (object_type := self._object_type(node, place, levels - 1)) is None:
                return None
            place.object_type = object_type
            types.append(object_type)
        if not types:
            return None
        place.accepts = reduce(or_, types) if len(types) > 1 else types[0]
        return place

    def _object_type(self, node: Node, place: _Place, levels: int) -> type | None:
        if not levels or node.rest is not None or node.required is None or len(node.members) > self._left:
            return None
        members: dict[str, Any] = {}
        for key, child in node.members.items():
            member = self.place(child, levels)
            if member is None:
                return None
            if key not in node.required:
                member.accepts |= msgspec.UnsetType
                place.optional.append((key, attrgetter(f"m{len(members)}")))
            if not member.is_settled:
                place.members.append((attrgetter(f"m{len(members)}"), member))
            members[key] = member.accepts
        try:
            return object_type(members, node.required, is_closed=True)
        except ValueError:  # a key with characters that a field's name cannot have
            return None


def object_type(members: Mapping[str, Any], required: Container[str], *, is_closed: bool) -> type:
    """Return a msgspec type of objects with these members, as attributes `m0`, `m1` and so on; members not `required` may be UNSET.

    A closed type accepts no other members. Raises ValueError for a key that msgspec cannot use as a field's name.
    """
    fields = [
        (f"m{at}", accepts) if key in required else (f"m{at}", accepts, msgspec.UNSET)
        for at, (key, accepts) in enumerate(members.items())
    ]
    names = {f"m{at}": key for at, key in enumerate(members)}
    return msgspec.defstruct("Object", fields, kw_only=True, rename=names, forbid_unknown_fields=is_closed, gc=False)
