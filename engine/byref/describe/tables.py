"""Tables inside a JSON value: arrays of records, maps of records, and grids whose columns have names, at any depth.

They are found on the nodes of the schema, which have counted the objects of every place, so the value is not read again. Of text
that was matched instead of parsed they have counted only some: there `Rows.inside` counts the others, of the tables that are told.
What it cannot count is not told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from byref.describe.grids import Grid
from byref.describe.jsontext import encodable
from byref.describe.maps import as_map
from byref.describe.nodes import ARRAY, CONTAINER, INTEGER, NULL, OBJECT, STRING, Node
from byref.describe.paths import ITEM, KEY, Each, Path, stepped
from byref.describe.rows import Entries, Rows

MAX_TABLES: Final = 6
"""Tables that are told of one value: those that questions are about, as far as rows and columns tell."""
LEAST_ROWS: Final = 2
_MAX_PLACES: Final = 2_000
_MAX_STEPS: Final = 16
_MAX_EACH: Final = 3
"""Arrays and maps on the way to one table."""
_KEY_CHARS: Final = 256
"""A table behind a longer key is not told of."""
_LEAST_KEYS: Final = 2
"""An object with fewer members that are no scalars is a record."""
_MANY_VALUES: Final = 2_000
"""Values of a map that are looked at one by one. Where a map has more, its text was parsed: outside of long arrays, text that is
matched is short."""
_MANY_MEMBERS: Final = 200
"""Members of one object that are looked into; a table is rarely behind one of more."""
_LEAST_SHARE: Final = 0.01
"""How much a table counts at least, beside the first one."""
_COLUMNS: Final = 12
"""Columns of a table that count for its rank."""
_IDS: Final = ("id", "_id", "uuid", "guid", "key", "number", "sha", "slug", "code", "name")
"""Members that may tell the items of an array apart, the best first."""
MANY_ITEMS: Final = 50_000
"""Items of an array on the way to a table that are looked at for such a member."""
_FIRST: Final = 64
"""Items that are looked at before all of them."""
_INSIDE: Final = 0.3
"""How much less a table counts for each array or map that it is inside of."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """An array or a map of records, or what all arrays or maps at one place hold together."""

    path: Path
    """The path to each of its records, whose last step is `ITEM` or `KEY`: `repos.*.data.pulls[]`."""
    rows: int
    """The exact number of its records."""
    node: Node
    """What is known of its records."""
    ids: Mapping[int, str] = field(default_factory=dict)
    """For arrays on the way to it, by the number of their step in the path: the member that tells the items of one array apart, if
    one does."""
    cells: tuple[str, ...] = ()
    """The names of the columns, where its records are made of rows that are arrays."""
    has_header: bool = False
    """Whether the first of these rows is no record, because it has the names."""

    @property
    def is_one(self) -> bool:
        """Whether it is one array, or one map, of the value: neither gathered from several, nor made of other rows."""
        return not self.cells and not any(isinstance(step, Each) for step in self.path[:-1])

    @property
    def worth(self) -> float:
        """Its rank: the more cells, the higher, and the deeper inside others, the lower."""
        columns = len(self.node.members) + (self.node.rest is not None)
        inside = sum(isinstance(step, Each) for step in self.path[:-1])
        return self.rows * min(columns, _COLUMNS) * _INSIDE**inside


def tables(
    value: object,
    node: Node,
    most: int = MAX_TABLES,
    *,
    grids: Mapping[int, Grid] | None = None,
    is_partial: bool = True,
) -> list[Table]:
    """Return the tables inside a value that matter most, at most `most`, the first of them first.

    `node` is what the schema of the value knows (`Schema.node`), `grids` are its rows without keys (`Schema.grids`). A value that is
    partial (`Schema.is_partial`) is looked into for what its node does not tell.
    """
    found: list[tuple[Table, _Place | None]] = [
        one for one in _found(value, node, is_partial) if one[0].rows >= LEAST_ROWS
    ]
    found += ((_of_grid(grid), None) for grid in (grids or {}).values() if grid.names)
    found.sort(key=_rank)  # stable: of equals the one that comes first
    told: list[tuple[Table, _Place | None]] = []
    for table, place in found:
        if len(told) == most:
            break
        if len(table.path) <= 2 or table.worth >= _LEAST_SHARE * found[0][0].worth:
            rows = table.rows if place is None else place.counted(table)
            if rows is not None and rows >= LEAST_ROWS:
                told.append((replace(table, rows=rows), place))
    told.sort(key=_rank)
    known: dict[Path, tuple[list[Any], str | None]] = {}
    return [
        table if table.is_one or table.cells else replace(table, ids=_ids(value, table.path, place, known))
        for table, place in told
    ]


def _rank(found: tuple[Table, _Place | None]) -> float:
    return -found[0].worth


def _of_grid(grid: Grid) -> Table:
    node = Node()
    node.kinds, node.objects = OBJECT, grid.rows
    node.members = {str(cell): below for cell, below in grid.columns.items()}
    node.required = set(node.members)
    return Table((*grid.path, ITEM), grid.rows, node, cells=grid.names, has_header=grid.has_header)


def below_map(node: Node) -> Node | None:
    """Return what the values of a map have in common: an object whose keys are data, as `as_map` finds; None for other objects."""
    if node.rest is None and sum(bool(member.kinds & CONTAINER) for member in node.members.values()) < _LEAST_KEYS:
        return None
    folded = as_map(node)
    if folded.rest is None:
        return None
    kind = folded.rest.kinds & CONTAINER
    if kind not in (ARRAY, OBJECT) or any(member.kinds & kind for member in folded.members.values()):
        return None
    return folded.rest


class _Place(NamedTuple):
    node: Node
    path: Path
    values: Sequence[Any] | None
    """The values there; None where they are many."""
    above: _Place | None = None
    rows: Sequence[Rows] = ()
    """The arrays above it of which only some elements are in memory."""
    inside: Path = ()
    """The path to it from the elements of these arrays."""
    each: int = 0
    """The number of arrays and maps on the way to it."""

    def down(self, node: Node, step: str | Each, values: Sequence[Any] | None = None) -> _Place:
        """Return the place one step down."""
        each = self.each + isinstance(step, Each)
        return _Place(
            node, (*self.path, step), values, self, self.rows, (*self.inside, step) if self.rows else (), each
        )

    def estimated(self, node: Node) -> int:
        """Return about how many records the table at this place has; `node` has counted those of the elements that were parsed."""
        parsed = sum(each.node.objects for each in self.rows)
        return node.objects * sum(map(len, self.rows)) // parsed if parsed else node.objects

    def counted(self, table: Table) -> int | None:
        """Return exactly how many records the table at this place has; None if that is unknown."""
        if not self.rows:
            return table.rows
        more = [each.inside((*self.inside, table.path[-1])) for each in self.rows]
        return None if None in more else table.node.objects + sum(count for count in more if count is not None)


def _found(value: object, node: Node, is_partial: bool) -> Iterator[tuple[Table, _Place]]:
    """Yield each table, with the place of the array or map that it is."""
    # The node tells all but what `Rows` left out.
    waiting = deque([_Place(node, (), [value] if is_partial else None)])
    places = 0
    while waiting and places < _MAX_PLACES:
        places += 1
        place = waiting.popleft()
        node, path = place.node, place.path
        if node.is_cut or len(path) >= _MAX_STEPS or place.each > _MAX_EACH:
            continue
        kind = node.kinds & ~NULL
        if kind == ARRAY and node.items is not None:
            rows = [each for each in place.values or () if type(each) is Rows]
            if node.items.kinds == OBJECT and _is_record(node.items):
                lengths = (len(each) for each in place.values or () if type(each) in (list, Rows))
                counted = sum(lengths) if rows else place.estimated(node.items)
                yield Table((*path, ITEM), counted, node.items), place
            items = place.down(node.items, ITEM)
            waiting.append(items._replace(rows=rows) if rows else items)
        elif kind == OBJECT:
            below = below_map(node)
            waiting.extend(_members(place, below))
            if below is not None and below.kinds == OBJECT and _is_pure(node) and _is_record(below):
                yield Table((*path, KEY), place.estimated(below), below), place


def _is_pure(node: Node) -> bool:
    """Tell whether all values of a map are records: then the map as a whole is the table."""
    return all(member.kinds == OBJECT for member in node.members.values())


def _is_record(node: Node) -> bool:
    """Tell whether objects have fields: not all of their keys are data."""
    return bool(node.members)


def _ids(
    value: object, path: Path, place: _Place | None, known: dict[Path, tuple[list[Any], str | None]]
) -> dict[int, str]:
    """Return for each array on a path the member of its items that tells them apart, if there is one and they are few.

    `known` has the values that each path led to, and that member: several tables may be on one way.
    """
    nodes: list[Node] = []
    while place is not None:
        nodes.insert(0, place.node)
        place = place.above
    found: dict[int, str] = {}
    values: list[Any] = [value]
    for at, (step, node) in enumerate(zip(path, nodes[1:], strict=False)):
        if Rows in set(map(type, values)):
            name = _id_of_rows(node, values) if step is ITEM else None
            return found if name is None else {**found, at: name}
        reached = known.get(path[: at + 1])
        if reached is None:
            below, name = list(islice(stepped(values, step), MANY_ITEMS + 1)), None
            if step is ITEM and node.kinds == OBJECT and len(below) <= MANY_ITEMS:
                arrays = [one for one in values if type(one) is list]
                name = _id_among(node, [below]) or (_id_among(node, arrays) if len(arrays) > 1 else None)
            reached = known[path[: at + 1]] = below, name
        values, name = reached
        if len(values) > MANY_ITEMS:
            return found
        if name is not None:
            found[at] = name
    return found


def id_names(node: Node) -> Iterator[str]:
    """Yield the members that records of a place have all, and that may tell them apart; the best first."""
    for name in _IDS:
        member = node.members.get(name)
        if member is not None and member.kinds in (STRING, INTEGER) and name in (node.required or ()):
            yield name


def _id_of_rows(node: Node, arrays: Sequence[Any]) -> str | None:
    """Return the member that tells the records of each array apart; some of the arrays are not in memory."""
    known = [one.ids for one in arrays if type(one) is Rows]
    names = {None if ids is None else ids[0] for ids in known}
    name = names.pop()
    lists = [one for one in arrays if type(one) is list]
    if name is None or names or name not in id_names(node) or sum(map(len, arrays)) > MANY_ITEMS:
        return None
    return name if all(_are_distinct(records, name) for records in lists) else None


def _are_distinct(records: Sequence[Any], name: str) -> bool:
    """Tell whether a member is another one in each record; mostly the first few tell that it is not."""
    member = itemgetter(name)
    if len(records) > _FIRST and len(set(map(member, records[:_FIRST]))) < _FIRST:
        return False
    return len(set(map(member, records))) == len(records)


def _id_among(node: Node, arrays: Sequence[Sequence[Any]]) -> str | None:
    """Return the member that each record has and that is another one in each record of an array; the best one, or None."""
    for name in id_names(node):
        if all(_are_distinct(records, name) for records in arrays):
            return name
    return None


def _members(place: _Place, below: Node | None) -> Iterator[_Place]:
    """The places below an object: one for all values of a map, else one for each member."""
    node, values = place.node, place.values
    if below is None:
        inner = [(key, member) for key, member in node.members.items() if member.kinds & CONTAINER]
        for key, member in inner[:_MANY_MEMBERS]:
            if len(key) <= _KEY_CHARS and encodable(key) == key:
                its = None if values is None else [one[key] for one in values if type(one) is dict and key in one]
                yield place.down(member, key, its)
        return
    if values is not None:
        if Entries in set(map(type, values)):  # which have no `Rows` within
            yield place.down(below, KEY)
            return
        maps = [one for one in values if type(one) is dict]
        if sum(map(len, maps)) <= _MANY_VALUES:
            yield place.down(below, KEY, [each for one in maps for each in one.values()])
            return
        if Rows in set(map(type, chain.from_iterable(map(dict.values, maps)))):
            return  # of a stream: what is below is not counted
    yield place.down(below, KEY)
