"""Counts the objects inside of elements that an expression matched: the rows of tables inside records.

msgspec reads the text of the elements with a type that has nothing but the members on the way to such objects. It skips all
others and keeps no values, so that takes a fifth of the time of parsing: as long as searching the text for one key. As a parser
does it, the numbers are exact; if it refuses the text, they are unknown, and none is ever guessed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import attrgetter, or_
from types import GenericAlias
from typing import Any, Final

import msgspec

from byref.describe.maps import looks_like_data
from byref.describe.nodes import ARRAY, BOOLEAN, CONTAINER, INTEGER, NULL, NUMBER, OBJECT, STRING, Node
from byref.describe.paths import ITEM, KEY, Each, Path

_MOST: Final = 32
"""Most places that are counted, those nearest to the elements first."""
_MAX_PLACES: Final = 2_000
_MAX_LEVELS: Final = 10
_SCALARS: Final[dict[int, Any]] = {NULL: None, BOOLEAN: bool, INTEGER: int, NUMBER: int | float, STRING: str}


class _Object(msgspec.Struct, gc=False):
    """An object, without its members."""


class Counter:
    """Reads text of elements that a node describes, and counts objects inside of them."""

    def __init__(self, node: Node, places: Iterable[Path], name: str | None = None) -> None:
        """`places` are the paths from the elements to the objects, `name` is a member of all elements whose values are kept.

        Raises ValueError if msgspec has no type for them.
        """
        self.values: list[Any] = []
        """The values of the member, of all elements that were counted."""
        self._root = _Place(node)
        for path in places:
            self._root.reach(path)
        self._value = None
        if name is not None:
            self._root.reach((name,))
            self._value = attrgetter(f"f{list(self._root.members).index(name)}")
        try:
            self._decoder = msgspec.json.Decoder(GenericAlias(list, self._root.type()))
        except TypeError as error:
            raise ValueError(str(error)) from None

    def count(self, text: bytes | memoryview) -> dict[Path, int]:
        """Return the number of objects at each place, in the text of whole elements with commas between them; `()` are the elements.

        Raises ValueError if msgspec does not read the text.
        """
        elements: list[Any] = self._decoder.decode(b"[%s]" % text)
        counts: dict[Path, int] = {(): len(elements)}
        if self._value is not None:
            self.values += map(self._value, elements)
        self._root.count(elements, (), counts)
        return counts


class _Place:
    """A place on the way to objects that are counted."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.is_wanted = False
        self.members: dict[str, _Place] = {}
        self.items: _Place | None = None

    def reach(self, path: Path) -> None:
        """Go down to a place whose objects are counted."""
        place = self
        for step in path:
            if isinstance(step, str):
                place = place.members.setdefault(step, _Place(place.node.members[step]))
            else:
                assert place.node.items is not None
                place.items = place.items or _Place(place.node.items)
                place = place.items
        place.is_wanted = True

    def type(self) -> Any:
        """Return the type that msgspec reads the place with."""
        kinds = self.node.kinds
        ways: list[Any] = [type_ for kind, type_ in _SCALARS.items() if kinds & kind]
        if kinds & ARRAY:
            ways.append(GenericAlias(list, msgspec.Raw if self.items is None else self.items.type()))
        if kinds & OBJECT:
            fields = [
                (f"f{at}", member.type() | msgspec.UnsetType, msgspec.field(default=msgspec.UNSET, name=key))
                for at, (key, member) in enumerate(self.members.items())
            ]
            ways.append(msgspec.defstruct("Members", fields, gc=False) if fields else _Object)
        return reduce(or_, ways) if ways else Any

    def count(self, values: Sequence[Any], path: Path, counts: dict[Path, int]) -> None:
        """Count the objects among the values of the place, and of those below it."""
        if self.items is not None:
            arrays = values if self.node.kinds == ARRAY else [value for value in values if type(value) is list]
            if self.items.is_last and self.items.node.kinds == OBJECT:
                counts[*path, ITEM] = sum(map(len, arrays))
            else:
                self.items.count(list(chain.from_iterable(arrays)), (*path, ITEM), counts)
        if self.node.kinds & OBJECT:
            objects = values if self.node.kinds == OBJECT else [value for value in values if _is_object(value)]
            if self.is_wanted:
                counts[path] = len(objects)
            for at, (key, member) in enumerate(self.members.items()):
                below = list(map(attrgetter(f"f{at}"), objects))
                if key not in (self.node.required or ()):
                    below = [value for value in below if value is not msgspec.UNSET]
                member.count(below, (*path, key), counts)

    @property
    def is_last(self) -> bool:
        """Whether nothing below it is counted."""
        return not self.members and self.items is None


def _is_object(value: object) -> bool:
    return isinstance(value, msgspec.Struct)


def wanted(node: Node) -> tuple[list[Path], set[Path]]:
    """Return the paths, from elements, to objects that may be rows of tables; and the paths to all objects inside of the elements.

    The first ones are items of arrays, and values of keys that may be data. Of them, `_MOST` are returned at most.
    """
    found: list[Path] = []
    known: set[Path] = set()
    waiting: deque[tuple[Path, Node]] = deque([((), node)])
    for _ in range(_MAX_PLACES):
        if not waiting:
            break
        path, node = waiting.popleft()
        if node.kinds & OBJECT:
            known.add(path)
        if len(path) == _MAX_LEVELS:
            continue
        if node.kinds & ARRAY and node.items is not None and node.items.kinds & CONTAINER:
            if node.items.kinds == OBJECT:
                found.append((*path, ITEM))
            waiting.append(((*path, ITEM), node.items))
        inner = {key: member for key, member in node.members.items() if member.kinds & CONTAINER and _is_name(key)}
        data = [key for key in inner if key not in (node.required or ()) or looks_like_data(key)]
        found += [(*path, key) for key in data if len(data) > 1 and inner[key].kinds & OBJECT]
        waiting += [((*path, key), member) for key, member in inner.items()]
    return found[:_MOST], known


def _is_name(key: str) -> bool:
    """Tell whether msgspec takes a key for the name of a field."""
    return key.isprintable() and '"' not in key and "\\" not in key


def objects(node: Node, counts: Mapping[Path, int], path: Path) -> int | None:
    """Return the number of objects at a path, in which `KEY` stands for all members; None if it is unknown.

    `counts` has the number of elements at `()`, and the numbers of the objects that were counted.
    """
    if not counts[()]:
        return 0
    total = 0
    for place in _places(node, path):
        count = None if place is None else _objects(node, counts, place)
        if count is None:
            return None
        total += count
    return total


def _places(node: Node, path: Path) -> Iterator[Path | None]:
    """Yield the paths of the places with objects that a path leads to; None for those that cannot be told apart."""
    found: list[tuple[Path, Node]] = [((), node)]
    for step in path:
        below: list[tuple[Path, Node]] = []
        for at, one in found:
            if step is ITEM:
                below += [((*at, ITEM), one.items)] if one.items is not None else []
            elif one.rest is not None:
                yield None
            elif step is KEY:
                below += [((*at, key), member) for key, member in one.members.items()]
            elif not isinstance(step, Each) and step in one.members:
                below.append(((*at, step), one.members[step]))
        found = below
    yield from (at for at, one in found if one.kinds & OBJECT)


def _objects(root: Node, counts: Mapping[Path, int], path: Path) -> int | None:
    """Return the number of objects at one place; a place that each object above it has exactly once has as many as that one."""
    if path in counts:
        return counts[path]
    *above, last = path
    node = root
    for step in above:
        below = node.members[step] if isinstance(step, str) else node.items
        assert below is not None
        node = below
    if isinstance(last, str) and last in (node.required or ()) and node.members[last].kinds == OBJECT:
        return _objects(root, counts, tuple(above))
    return None
