"""Inference by columns: the kinds of value at each place of a parsed JSON value.

The values of one place are read together, as a column, so that C loops do the work for each value. The items of a list are read
in chunks, which stay in the processor's cache and bound the memory of the columns.

`_columns.c` is the same in C, for whole values. It is used where it was compiled, and leaves to this module what is not plain JSON;
docs/decisions/compiled-inference.md has the reasons. What changes here changes there; a test compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, cast

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
    own,
    places,
)
from byref.describe.rows import MAPS, Entries, Rows
from byref.extensions import load

if TYPE_CHECKING:
    from byref.describe import _columns as compiled
else:
    compiled = load("byref.describe._columns", 2)

MAX_DEPTH: Final = 250
"""Maximum described levels of nesting. Decoders stop between 500 and 1,024, and a schema nests deeper than its value."""
FRAMES: Final = 2
"""Calls that reading one level takes in Python, and at most as many take those who read the nodes."""
DEPTHS: Final = (MAX_DEPTH, 100, 30)
"""Depths to try in turn: if the caller is already deep in calls, Python's stack may have no room for the first."""
CHUNK: Final = 512
"""Items of a list that are read at once."""
_SIMPLE_ITEMS: Final = 1 << 14
"""Maximum items of arrays that are read at once if their types alone decide their kinds."""
MAP_KEYS: Final = 32
"""An object with more rare keys than this is a map if their values are all arrays or all objects: its keys are data."""
WIDE_KEYS: Final = 1_000
"""An object with more rare keys than this is a map, whatever its values are."""
FEW_OBJECTS: Final = 4
"""Up to so many objects with more than `WIDE_KEYS` keys are maps even if they have the same keys: revisions of one map, or its pages."""


class NotPlain(ValueError):
    """The value contains something that JSON does not have, such as a tuple, a date, a key that is not a string, or NaN."""


class TooDeep(ValueError):
    """The value nests deeper than can be described."""


class Abridged(ValueError):
    """Elements that have to be read again are no longer in memory."""


class _Missing:
    """A marker in a column for an object that lacks the key."""


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
    Entries: OBJECT,
    _Missing: 0,
}


class Inference:
    """One reading of a value into nodes. If keys were `folded` on the way, the nodes are not exact."""

    __slots__ = ("_known", "deepest", "fold", "folded", "is_cut", "is_partial", "plain")

    def __init__(self, *, fold: bool, plain: bool, deepest: int = MAX_DEPTH) -> None:
        self.fold = fold
        self.deepest = deepest
        """Maximum levels of nesting that are read."""
        self.is_cut = False
        """Whether containers below these levels were skipped."""
        self.plain = plain
        """Whether a JSON decoder is known to have made the value. If so, its numbers need not be finite."""
        self.folded = False
        self.is_partial = False
        """Whether `Rows` or `Entries` stood for a part of what was read."""
        self._known: dict[object, Node] = {}
        """Equal places of all values that the compiled form reads: they share one node."""

    def read(self, value: object) -> Node:
        """Read a whole value, in which `Rows` and `Entries` may stand for lists and maps. Raises NotPlain, TooDeep and Abridged.

        A plain value raises TooDeep only if the caller is so deep in calls that not even the last of `DEPTHS` can be read.
        """
        if compiled is not None and (found := self._compiled(value)) is not None:
            node, self.folded, self.is_cut = found
            return node
        # How deep Python can go depends on the caller's own depth, which is not known: so fewer levels are tried in turn.
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

    def _compiled(self, value: object) -> tuple[Node, bool, bool] | None:
        """Return what the compiled form reads: the node, whether keys were folded, places cut; None if Python has to read the value.

        It needs no calls of Python's, but those who read its nodes do: so it goes no deeper than there is room for.
        """
        assert compiled is not None
        read = None
        for deepest in reversed(DEPTHS):
            if not _has_room(FRAMES * deepest):
                break
            levels = min(deepest, self.deepest)
            bounds = (MAP_KEYS, WIDE_KEYS, FEW_OBJECTS, CHUNK)
            read = compiled.read(value, _node, self._known, self.plain, self.fold, levels, *bounds)
            if read is None or not read[2]:
                break
        return read

    def add(self, node: Node, column: Sequence[Any], depth: int) -> None:
        """Read further values of a place at this depth. Pass the elements of an array by `CHUNK`. Raises like `read`."""
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
                if not self.plain:  # the value may contain itself, so skipping here could leave endless work beside it
                    raise TooDeep(f"the value nests deeper than {MAX_DEPTH} levels")
                self.is_cut = node.is_cut = True
                node.kinds |= kinds
                return
            if not node.kinds & CONTAINER:
                node.arrays_first = (
                    not kinds & OBJECT or next(t for t in map(type, column) if _KINDS[t] & CONTAINER) not in MAPS
                )
            if kinds & OBJECT:
                objects = column if len(types) == 1 else [value for value in column if type(value) is dict]
                if Entries in types:
                    [entries] = column  # they stand alone at their place
                    self._add_entries(node, entries, depth + 1)
                else:
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
        """Read the items of arrays if their types alone decide their kinds; return False if they need the full reading."""
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
        self.is_partial = True
        for rows in several:
            known = rows.unfolded if rows.folded and not self.fold else rows.node
            if known is None:
                raise Abridged(f"of {len(rows)} elements all but {len(rows.head) + len(rows.tail)} have passed by")
            self.folded |= rows.folded and self.fold
            self.is_cut |= any(place.is_cut for place in places(known))
            node.items = own(merge([node.items or Node(), known]))

    def _add_entries(self, node: Node, entries: Entries, depth: int) -> None:
        self.is_partial = True
        if not self.fold:
            self._add_objects(node, [cast("dict[str, Any]", entries.whole())], depth)
            return
        known = entries.node
        self.folded = True
        node.objects, node.required, node.rest, node.rest_keys = (
            known.objects,
            known.required,
            known.rest,
            known.rest_keys,
        )

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
        members, known = node.members, len(node.members)
        there: dict[str, int] = {}
        columns: Iterable[tuple[str, Sequence[Any]]]
        if not others and not folding:
            # All objects have the same keys in the same order, so one `zip` transposes them without a look-up.
            columns = zip(first, zip(*map(dict.values, objects), strict=True), strict=True)
        else:
            columns = _columns(objects, [key for key in keys if key not in folding], required)
        for key, column in columns:
            child = members.get(key)
            if child is None:
                _check_key(key)
                child = members[key] = Node()
            self._add(child, column, depth)
            there[key] = len(column) if key in required else len(column) - column.count(_MISSING)
        _count(node, there, known, len(objects))
        node.objects += len(objects)
        node.required = required if node.required is None else node.required & required

    def _add_object(self, node: Node, one: dict[str, Any], depth: int) -> None:
        """Read a single object without folding, with the same result as `_add_objects`.

        It is a fast path: documents that are not tables have many columns of one object.
        """
        members, known = node.members, len(node.members)
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
        if node.objects:
            _count(node, dict.fromkeys(one, 1), known, 1)
        node.objects += 1
        node.required = set(one) if node.required is None else node.required & one.keys()

    def _foldable(self, node: Node, keys: Collection[str], objects: Sequence[dict[str, Any]]) -> set[str]:
        """Return the keys that are data rather than names of fields."""
        new = [key for key in keys if key not in node.members]
        if node.rest is not None:
            return set(new)
        if len(new) <= MAP_KEYS and len(new) + len(node.members) <= WIDE_KEYS:
            return set()
        count = len(objects)
        few = FEW_OBJECTS if len(new) + len(node.members) > WIDE_KEYS else 1
        # A new key that more than half of these objects have is the name of a field that came late, not data.
        if count <= few or node.objects >= count:
            rare = new
        elif len(keys) * count == sum(map(len, objects)):
            return set()
        else:
            counts = Counter(chain.from_iterable(objects))
            rare = [key for key in new if 2 * counts[key] <= count]
        if rare and len(rare) + len(node.members) > WIDE_KEYS:
            return set(rare)
        if len(rare) <= MAP_KEYS:
            return set()
        values: dict[str, Any] = {}
        for one in objects:
            values.update(one)
        folding: set[str] = set()
        for kind in (OBJECT, ARRAY):
            of_kind = [key for key in rare if _KINDS.get(type(values[key])) == kind]
            if len(of_kind) > MAP_KEYS:
                folding.update(of_kind)
        return folding


def _count(node: Node, there: Mapping[str, int], known: int, objects: int) -> None:
    """Count further objects, `there` with each key; `known` members were there before."""
    fits = not node.objects or known == len(node.members)
    if node.counts is None and fits and all(there.get(key) == objects for key in node.members):
        return
    counts = node.counted(known)
    for key, count in there.items():
        counts[key] = counts.get(key, 0) + count


def _node(said: tuple[Any, ...], rest_keys: dict[str, None] | None, in_all: list[str]) -> Node:
    """Return what the compiled form read of a place: the key, the count and the node of each member come last.

    `in_all` are the folded keys that all objects have.
    """
    node = Node()
    node.kinds, node.objects, node.arrays_first, node.is_cut, node.items, node.rest, has_counts, *_ = said
    if node.objects:
        keys, counts = said[7::3], said[8::3]
        node.members = dict(zip(keys, said[9::3], strict=True))
        node.rest_keys = rest_keys or {}
        node.required = {key for key, count in zip(keys, counts, strict=True) if count == node.objects}
        node.required.update(in_all)
        if has_counts:
            node.counts = dict(zip(keys, counts, strict=True))
    return node


def may_be_folded(node: Node) -> bool:
    """Tell whether keys of a node without folded ones might have been folded if its objects had been read in other chunks.

    Keys that all objects have are only folded if they are many.
    """
    if len(node.members) > WIDE_KEYS:
        return True
    some = [member.kinds for key, member in node.members.items() if key not in (node.required or ())]
    return any(sum(bool(kinds & kind) for kinds in some) > MAP_KEYS for kind in (OBJECT, ARRAY))


def _has_room(calls: int) -> bool:
    """Tell whether Python's stack has room for so many calls."""
    try:
        _call(calls)
    except RecursionError:
        return False
    return True


def _call(more: int) -> None:
    if more:
        _call(more - 1)


def _check_key(key: object) -> None:
    if type(key) is not str:
        raise NotPlain(f"expected keys that are strings, found {type(key).__qualname__}")


def _check_finite(column: Sequence[float]) -> None:
    # A finite sum proves that all numbers are finite. The sum of finite numbers may overflow, so only then each one is checked.
    if not isfinite(sum(column)) and not all(map(isfinite, column)):
        raise NotPlain("expected finite numbers, found " + repr(next(x for x in column if not isfinite(x))))


def _values(objects: Iterable[dict[str, Any]], keys: set[str]) -> Iterator[Any]:
    for key in keys:
        _check_key(key)
    return (value for one in objects for key, value in one.items() if key in keys)


def _keysets(objects: Sequence[dict[str, Any]]) -> Sequence[tuple[str, ...]]:
    """Return the different sequences of keys that the objects have, each once; the first object's comes first."""
    first = tuple(objects[0])
    keys = list(chain.from_iterable(objects))
    # If the keys of all objects, put together, repeat the first object's, then each object has exactly these keys: an object
    # with more of them would have one twice.
    if len(keys) == len(first) * len(objects) and keys == list(first) * len(objects):
        return [first]
    return list(dict.fromkeys(map(tuple, objects)))


def _columns(
    objects: Sequence[dict[str, Any]], keys: list[str], required: set[str]
) -> Iterable[tuple[str, Sequence[Any]]]:
    """Yield the columns of objects whose keys differ, in the order of `keys`; absent values are skipped or marked as missing."""
    # A C loop for each key is faster, but it also visits absent values: it is used only while these are at most three of four.
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
