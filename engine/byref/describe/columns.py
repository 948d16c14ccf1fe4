"""Inference by columns: which kinds of value there are at each place of a parsed JSON value.

The values of one place are read together, as a column, so that loops in C do the work for each value. A list's items are read in
chunks: these stay in the processor's cache, and bound the memory that their columns take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from math import isfinite
from operator import itemgetter
from typing import Any, Final, cast

from byref.describe.alike import Alike
from byref.describe.nodes import (
    ARRAY,
    BOOLEAN,
    CONTAINER,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    SIMPLE,
    STRING,
    Node,
    merge,
    places,
)
from byref.describe.rows import Rows

MAX_DEPTH: Final = 250
"""Levels of nesting that are described. Decoders stop between 500 and 1,024, and a schema nests deeper than its value."""
DEPTHS: Final = (MAX_DEPTH, 100, 30)
"""What is tried in turn: where the caller is already deep in calls, Python's stack may have no room for the first."""
CHUNK: Final = 512
"""Items of a list read at once."""
_SIMPLE_ITEMS: Final = 1 << 14
"""Items of arrays that are read at once where their types say all of them."""
MAP_KEYS: Final = 32
"""Rare keys above which an object is a map, if their values are all arrays or all objects: its keys are data."""
WIDE_KEYS: Final = 1_000
"""Rare keys above which an object is a map whatever its values are."""


class NotPlain(ValueError):
    """The value holds something JSON does not have, such as a tuple, a date, a key that is no string, or NaN."""


class TooDeep(ValueError):
    """The value nests deeper than can be described."""


class Abridged(ValueError):
    """Elements that would have to be read again are not in memory any more."""


class _Missing:
    """Stands in a column for an object that lacks the key."""


_MISSING: Final = _Missing()
_KINDS: Final[dict[type, int]] = {
    type(None): NULL,
    bool: BOOLEAN,
    int: INTEGER,
    float: NUMBER,
    str: STRING,
    list: ARRAY,
    Rows: ARRAY,
    dict: OBJECT,
    _Missing: 0,
}


class Inference:
    """One reading of a value into nodes. If keys were `folded` meanwhile, the nodes are not exact."""

    __slots__ = ("deepest", "fold", "folded", "is_cut", "plain")

    def __init__(self, *, fold: bool, plain: bool, deepest: int = MAX_DEPTH) -> None:
        self.fold = fold
        self.deepest = deepest
        """Levels of nesting that are read."""
        self.is_cut = False
        """Whether there were containers below these levels, which were not read."""
        self.plain = plain
        """Whether a decoder of JSON is known to have made the value; then its numbers need not be finite."""
        self.folded = False

    def read(self, value: object) -> Node:
        """Read a whole value, in which `Rows` may stand for lists. Raises NotPlain, TooDeep and Abridged.

        A plain value is TooDeep only where the caller is so deep in calls that not even the last of `DEPTHS` can be read.
        """
        for deepest in DEPTHS:
            node, self.deepest = Node(), min(deepest, self.deepest)
            try:
                self.add(node, [value], 0)
            except TooDeep:
                if not self.plain or deepest == DEPTHS[-1]:
                    raise
            else:
                break
        return node

    def add(self, node: Node, column: Sequence[Any], depth: int) -> None:
        """Read further values of a place at this depth; of an array's elements give `CHUNK` at once. Raises like `read`."""
        try:
            self._add(node, column, depth)
        except RecursionError:
            raise TooDeep("the value nests deeper than the interpreter's recursion limit leaves room for") from None

    def _add(self, node: Node, column: Sequence[Any], depth: int) -> None:
        types = set(map(type, column))
        kinds = 0
        for type_ in types:
            kind = _KINDS.get(type_)
            if kind is None:
                raise NotPlain(f"expected JSON's own types, found {type_.__module__}.{type_.__qualname__}")
            kinds |= kind
        if kinds & NUMBER and not self.plain:
            _check_finite(column if len(types) == 1 else [value for value in column if type(value) is float])
        if kinds & CONTAINER:
            if depth >= self.deepest:
                if not self.plain:  # it may hold itself, and then reading what is beside it could take for ever
                    raise TooDeep(f"the value nests deeper than {MAX_DEPTH} levels")
                self.is_cut = node.is_cut = True
                node.kinds |= kinds
                return
            if not node.kinds & CONTAINER:
                node.arrays_first = (
                    not kinds & OBJECT or next(t for t in map(type, column) if _KINDS[t] & CONTAINER) is not dict
                )
            if kinds & OBJECT:
                objects = column if len(types) == 1 else [value for value in column if type(value) is dict]
                self._add_objects(node, objects, depth + 1)
            if kinds & ARRAY:
                arrays = column if len(types) == 1 else [value for value in column if type(value) is list]
                node.items = node.items or Node()
                if Rows in types:
                    arrays = [value for value in arrays if type(value) is list]
                    self._add_rows(node, [value for value in column if type(value) is Rows])
                if not self._add_simple(node.items, arrays):
                    self._add_chunks(node.items, chain.from_iterable(arrays), depth + 1)
        node.kinds |= kinds

    def _add_simple(self, node: Node, arrays: Sequence[list[Any]]) -> bool:
        """Read the items of arrays if their types say all of them; return False if they have to be read like any others."""
        first = next(chain.from_iterable(arrays), None)
        if not _KINDS.get(type(first), 0) & SIMPLE or sum(map(len, arrays)) > _SIMPLE_ITEMS:
            return False
        kinds = 0
        for type_ in set(map(type, chain.from_iterable(arrays))):
            kinds |= _KINDS.get(type_, 0) & SIMPLE or CONTAINER
        if kinds & CONTAINER:
            return False
        node.kinds |= kinds
        return True

    def _add_chunks(self, node: Node, values: Iterator[Any], depth: int) -> None:
        alike = Alike(node) if self.plain else None
        while chunk := list(islice(values, CHUNK)):
            if alike is None or not alike.add(chunk):
                self._add(node, chunk, depth)

    def _add_rows(self, node: Node, several: Iterable[Rows]) -> None:
        for rows in several:
            if rows.folded and not self.fold:
                raise Abridged(f"of {len(rows)} elements all but {len(rows.head) + len(rows.tail)} have passed by")
            self.folded |= rows.folded
            self.is_cut |= any(place.is_cut for place in places(rows.node))
            node.items = merge([node.items or Node(), rows.node])

    def _add_objects(self, node: Node, objects: Sequence[dict[str, Any]], depth: int) -> None:
        if len(objects) == 1 and node.rest is None and (len(objects[0]) <= MAP_KEYS or not self.fold):
            self._add_object(node, objects[0], depth)
            return
        keysets = _keysets(objects)
        first, *others = keysets
        required = set(first).intersection(*others)
        keys = dict.fromkeys(chain.from_iterable(keysets)) if others else first
        folding = self._foldable(node, keys, objects) if self.fold else set()
        if folding:
            self.folded = True
            node.fold(dict.fromkeys(key for key in keys if key in folding))
            self._add_chunks(cast(Node, node.rest), _values(objects, folding), depth)
        members = node.members
        columns: Iterable[tuple[str, Sequence[Any]]]
        if not others and not folding:
            columns = zip(first, zip(*map(dict.values, objects), strict=True), strict=True)
        else:
            columns = _columns(objects, [key for key in keys if key not in folding], required)
        for key, column in columns:
            child = members.get(key)
            if child is None:
                _check_key(key)
                child = members[key] = Node()
            self._add(child, column, depth)
        node.objects += len(objects)
        node.required = required if node.required is None else node.required & required

    def _add_object(self, node: Node, one: dict[str, Any], depth: int) -> None:
        """Read a single object of which no key is folded, as `_add_objects` would. Documents that are no tables have many."""
        members = node.members
        for key, value in one.items():
            child = members.get(key)
            if child is None:
                _check_key(key)
                child = members[key] = Node()
            kind = _KINDS.get(type(value), 0)
            if kind & SIMPLE:
                child.kinds |= kind
            else:
                self._add(child, (value,), depth)
        node.objects += 1
        node.required = set(one) if node.required is None else node.required & one.keys()

    def _foldable(self, node: Node, keys: Iterable[str], objects: Sequence[dict[str, Any]]) -> set[str]:
        """Return those of the keys that are data rather than names of fields."""
        new = [key for key in keys if key not in node.members]
        if node.rest is not None:
            return set(new)
        if len(new) <= MAP_KEYS and len(new) + len(node.members) <= WIDE_KEYS:
            return set()
        count = len(objects)
        if count == 1 or node.objects >= count:
            rare = new
        else:
            counts = Counter(chain.from_iterable(objects))
            rare = [key for key in new if 2 * counts[key] <= count]
        if rare and len(rare) + len(node.members) > WIDE_KEYS:
            return set(rare)
        values: dict[str, Any] = {}
        for one in objects:
            values.update(one)
        folding: set[str] = set()
        for kind in (OBJECT, ARRAY):
            of_kind = [key for key in rare if _KINDS.get(type(values[key])) == kind]
            if len(of_kind) > MAP_KEYS:
                folding.update(of_kind)
        return folding


def may_be_folded(node: Node) -> bool:
    """Whether keys of a node that has none folded might be folded if its objects had been read at once, or in other chunks.

    Keys that all objects have are never folded.
    """
    some = [member.kinds for key, member in node.members.items() if key not in (node.required or ())]
    if some and len(node.members) > WIDE_KEYS:
        return True
    return any(sum(bool(kinds & kind) for kinds in some) > MAP_KEYS for kind in (OBJECT, ARRAY))


def _check_key(key: object) -> None:
    if type(key) is not str:
        raise NotPlain(f"expected keys that are strings, found {type(key).__qualname__}")


def _check_finite(column: Sequence[float]) -> None:
    # A sum over finite numbers is finite unless it overflows; only then is each one looked at.
    if not isfinite(sum(column)) and not all(map(isfinite, column)):
        raise NotPlain("expected finite numbers, found " + repr(next(x for x in column if not isfinite(x))))


def _values(objects: Iterable[dict[str, Any]], keys: set[str]) -> Iterator[Any]:
    for key in keys:
        _check_key(key)
    return (value for one in objects for key, value in one.items() if key in keys)


def _keysets(objects: Sequence[dict[str, Any]]) -> Sequence[tuple[str, ...]]:
    """Return the objects' keys in order, each different sequence once; the first object's is the first."""
    first = tuple(objects[0])
    keys = list(chain.from_iterable(objects))
    # As no object has a key twice, none is longer than the first where the keys repeat the first's all along.
    if len(keys) == len(first) * len(objects) and keys == list(first) * len(objects):
        return [first]
    return list(dict.fromkeys(map(tuple, objects)))


def _columns(
    objects: Sequence[dict[str, Any]], keys: list[str], required: set[str]
) -> Iterable[tuple[str, Sequence[Any]]]:
    """Yield the columns of objects whose keys differ, in the order of `keys`; lacking values may be marked as missing."""
    if len(keys) * len(objects) <= 4 * sum(map(len, objects)):
        for key in keys:
            if key in required:
                yield key, list(map(itemgetter(key), objects))
            else:
                yield key, list(map(dict.get, objects, repeat(key), repeat(_MISSING)))
        return
    columns: dict[str, list[Any]] = {key: [] for key in keys}
    for one in objects:
        for key, value in one.items():
            if key in columns:
                columns[key].append(value)
    yield from columns.items()
