"""The outline of a value: the types of its places, as many of them as a budget holds, in a short notation.

Objects of one shape, wherever they stand, share one `Record`, so that their members are written once. Places are looked into one by
one, those nearest to the top and with most objects first; what is never looked into costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice
from math import log10
from typing import Final

from byref.describe.grids import Grid
from byref.describe.maps import as_map
from byref.describe.nodes import ARRAY, CONTAINER, OBJECT, Merged, Node, merge
from byref.describe.paths import Cell
from byref.describe.rows import Rows
from byref.describe.search import most_within

_STUB: Final = 9
"""Characters of an object that is not written out, `{12 keys}`."""
_NAME: Final = 4
"""Characters of the name of a record that is written elsewhere."""
_LEVELS: Final = 40
"""Maximum arrays and maps in a row that are looked into."""
_NEAR: Final = 0.75
"""Share of keys that two objects have in common, from which on they are taken for one shape."""
_FEW: Final = 6
"""Objects with fewer keys are of one shape only if all keys are equal."""
_RECORDS: Final = 200
"""Maximum records that a new place is compared with."""
_JOINED: Final = 32
"""Maximum places that change one record. In a tree of comments, say, each level of replies may be one."""
_MEASURED: Final = 64
"""Members of an object among which arrays are measured, at each of so many levels:"""
_MEASURED_LEVELS: Final = 3
_MAP: Final = 0.5
"""Levels that a map counts for; a member counts for one."""
_MET: Final = 0.7
"""Levels nearer to the top that a record counts for ten times as many places that it is met at."""
_MERGED: Final = 50_000
"""Maximum places that are read to join shapes, and at most so many times all places of the value:"""
_READ_AGAIN: Final = 10
_CELLS: Final = 0.5
"""Share of the room that the cells of all rows without keys may take; those that have none are counted."""
_GUESS: Final = 3
"""Characters per token for the first try; measuring corrects it."""
_MOST: Final = 8
"""No outline has as many characters per token."""


@dataclass(frozen=True, slots=True)
class Outlined:
    """The outline of a value within a budget."""

    text: str
    tokens: int
    is_whole: bool
    """Whether it shows every place of the value."""


class Type:
    """What is known of the values at one place: their kinds, the items of arrays, and the shape of objects."""

    __slots__ = ("cells", "has_header", "is_cut", "items", "keys", "kinds", "length", "more_cells", "record")

    def __init__(self, node: Node, length: int | None) -> None:
        self.kinds = node.kinds
        self.is_cut = node.is_cut
        """Whether containers at this place were not read, because they nest too deeply."""
        self.keys = len(node.members) + len(node.rest_keys)
        """The number of keys of its objects."""
        self.length = length
        """The length of the only array at this place; None if there are several."""
        self.items: Type | None = None
        """The items of arrays; None if there is no array, if all are empty, or if the cells say what is in them."""
        self.record: Record | None = None
        self.cells: Sequence[tuple[Cell, Type]] = ()
        """The cells of arrays that are rows without keys, where those of one column have a type of their own, or a name."""
        self.more_cells = 0
        """Further cells, for which there was no room."""
        self.has_header = False
        """Whether the first item of the only array at this place names the cells of the others."""


class Record:
    """A shape of objects. Those at several places share it if their keys are nearly the same; then it says what holds of all."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.joined = 1
        """The number of places that made it."""
        self.is_varied = False
        """Whether what it says holds of all its places together, but less would do for one of them."""
        self.members: dict[str, Type] = {}
        """The members that were looked into."""
        self.rest: Type | None = None
        """The values of keys that are data."""
        self.folded = len(node.rest_keys)
        """The number of keys whose values are `rest`."""

    @property
    def weight(self) -> float:
        """By how many levels nearer to the top it counts because there are many objects of its shape, and few keys to write."""
        return 0.7 * log10(max(self.node.objects, 1)) - 0.5 * log10(max(len(self.node.members), 1))


class Outline:
    """The types of a value: what all tries to write them share."""

    def __init__(self, node: Node, value: object, grids: Mapping[int, Grid]) -> None:
        self.node = node
        self._lengths: dict[int, int] = {}
        self._joined: dict[tuple[Node, ...], Node] = {}
        self._merged: Merged = {}
        self._covered: dict[tuple[Node, Node, int], bool] = {}
        self._places: dict[Node, int] = {}
        self._measure(node, value, 0)
        self.grids = grids
        """Rows without keys, by the `id` of the node of their array."""

    def fitted(self, budget: int, measure: Callable[[str], int]) -> Outlined | None:
        """Return the most detailed outline in at most `budget` tokens of text, counted by `measure`; None if none fits."""
        return most_within(
            budget,
            room=_GUESS * budget,
            high=_MOST * budget,
            make=lambda room: self._written(room, budget, measure),
            whole=lambda found: found.is_whole,
        )

    def length(self, node: Node) -> int | None:
        """Return the length of the array at a place, if it is the only one there."""
        return self._lengths.get(id(node))

    def joined(self, first: Node, second: Node) -> Node | None:
        """Return one node for two; None if so much was joined already that it would take too long."""
        # What only one of them has is shared, not copied; so the smaller one says how much work it is at most.
        return self._merge((first, second), min(self._count(first), self._count(second)))

    def merged(self, nodes: Sequence[Node]) -> Node | None:
        """Return one node for several; None if so much was joined already that it would take too long."""
        return self._merge(tuple(nodes), sum(map(self._count, nodes))) if len(nodes) > 1 else nodes[0]

    def _merge(self, nodes: tuple[Node, ...], work: int) -> Node | None:
        known = self._joined.get(nodes)
        if known is None and self._takes(min(work, self._left + 1)):
            known = self._joined[nodes] = merge(nodes, self._merged)
        return known

    def covers(self, wide: Node, narrow: Node, levels: int = _LEVELS) -> bool:
        """Tell whether all that a node says holds if another one says it, so that the other need not be merged with it."""
        if wide is narrow:
            return True
        key = wide, narrow, levels
        known = self._covered.get(key)
        if known is None:
            known = self._covered[key] = self._covers(wide, narrow, levels)
        return known

    def _covers(self, wide: Node, narrow: Node, levels: int) -> bool:
        if narrow.kinds & ~wide.kinds or narrow.is_cut or not levels:
            return False
        if not (wide.required or set()) <= (narrow.required or set()) and narrow.objects:
            return False
        below = [] if narrow.items is None else [(wide.items, narrow.items)]
        if narrow.rest is not None:
            # Which of the keys that are data has which value is not known: so each place that they lead to has to cover all.
            below.append((wide.rest, narrow.rest))
            below += [(member, narrow.rest) for key, member in wide.members.items() if key in narrow.rest_keys]
        for key, member in narrow.members.items():
            one = wide.members.get(key, wide.rest)
            if one is None or member.kinds & ~one.kinds:
                return False
            if member.kinds & CONTAINER or levels == 1:
                below.append((one, member))
        for one, other in below:  # noqa: SIM110, a generator would be one more call for each level
            if one is None or not self.covers(one, other, levels - 1):
                return False
        return True

    def _count(self, node: Node) -> int:
        """Count the place and all places below it."""
        known = self._places.get(node)
        if known is None:
            known = 1
            for place in (*node.members.values(), node.items, node.rest):
                if place is not None:
                    known += self._count(place) if place.kinds & CONTAINER else 1
            self._places[node] = known
        return known

    def _takes(self, work: int) -> bool:
        """Take as many places from those that may still be read; return False if there are not as many."""
        if work > self._left:
            self._left -= work // 4  # for the counting, so that it is not tried without end
            return False
        self._left -= work
        return True

    @cached_property
    def _left(self) -> int:
        """How many places may still be read to join shapes: a shape inside itself, level by level, would be read at each level."""
        return min(self._count(self.node) * _READ_AGAIN, _MERGED)

    def _measure(self, node: Node, value: object, depth: int) -> None:
        if type(value) is list or type(value) is Rows:
            self._lengths[id(node)] = len(value)
        elif type(value) is dict and depth < _MEASURED_LEVELS:
            for key, member in islice(node.members.items(), _MEASURED):
                if member.kinds & CONTAINER and key in value:
                    self._measure(member, value[key], depth + 1)

    def _written(self, room: int, budget: int, measure: Callable[[str], int]) -> Outlined:
        from byref.describe.notation import written

        types = Types(self)
        is_whole = types.look_around(room)
        if is_whole:  # how often a key is there gives way before a key does
            counted = written(types.root, has_counts=True)
            if (tokens := measure(counted)) <= budget:
                return Outlined(counted, tokens, is_whole)
        text = written(types.root, has_counts=False)
        return Outlined(text, measure(text), is_whole)


class Types:
    """The types of the places that were looked at in one try, and their records."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._known: dict[int, tuple[Node, Type]] = {}
        self._records: dict[frozenset[str], Record] = {}
        self._mapped: dict[frozenset[str], Record] = {}
        """Records that have further keys that are data, by their other keys. In a tree whose keys are names, say, each node is one."""
        self._changed: dict[Record, None] = {}
        """Records that another place has joined: if they were looked into, they have to be again."""
        self.root = self.of(outline.node)

    def of(self, node: Node) -> Type:
        """Return the type of the values at a place."""
        found = first = None
        grids_met: list[tuple[Type, Grid]] = []
        for _ in range(_LEVELS):
            known = self._known.get(id(node))
            if known is not None:
                below = known[1]
            else:
                below = Type(node, self._outline.length(node))
                self._known[id(node)] = node, below
                if node.kinds & OBJECT and not node.is_cut:
                    below.record = self._record(node)
                if (grid := self._outline.grids.get(id(node))) is not None:
                    grids_met.append((below, grid))
            if first is None:
                first = below
            if found is not None:
                found.items = below
            if known is not None or node.items is None or not node.items.kinds:
                break
            if grids_met and grids_met[-1][0] is found and grids_met[-1][1].is_apart:
                break  # each of the cells says what is in it
            found, node = below, node.items
        for rows, grid in grids_met:
            if rows.items is not None and not rows.items.cells:
                rows.has_header = grid.has_header
                rows.items.cells = [
                    (cell, self.of(below) if grid.is_apart else self._cell(rows.items, below))
                    for cell, below in grid.columns.items()
                ]
        assert first is not None
        return first

    def _cell(self, row: Type, node: Node) -> Type:
        """Return the type of one column's cells: that of all cells of the rows, with its kinds alone."""
        if row.items is None or node.kinds == row.items.kinds:
            return row.items or Type(node, None)
        cell = Type(node, None)
        cell.items = row.items.items if node.kinds & ARRAY else None
        cell.record = row.items.record if node.kinds & OBJECT else None
        cell.keys = row.items.keys
        return cell

    def member(self, record: Record, key: str) -> Type:
        """Return the type of a member."""
        found = record.members.get(key)
        if found is None:
            found = record.members[key] = self.of(record.node.members[key])
        return found

    def look_around(self, room: int) -> bool:
        """Look into as many records as can be written in about `room` characters; return whether these are all.

        The records with most weight and nearest to the top come first; of a record that has too many members, the members that
        all objects have.
        """
        return _Looking(self, room).all()

    def merged(self, nodes: Sequence[Node]) -> Type:
        """Return the type of the values at several places; one that says nothing if it would take too long to find it."""
        merged = self._outline.merged(nodes)
        if merged is None:
            merged = Node()
            merged.is_cut = True
        return self.of(merged)

    def take_changed(self) -> Iterable[Record]:
        """Return the records whose members have to be looked into anew, and forget them."""
        changed, self._changed = self._changed, {}
        return changed

    def _record(self, node: Node) -> Record:
        node = as_map(node)
        keys = frozenset(node.members)
        if not keys:
            record = Record(node)
            if node.rest is not None:
                record.rest = self.of(node.rest)
            return record
        records = self._records if node.rest is None else self._mapped
        alike = self._alike(keys) if node.rest is None else self._mapped.get(keys)
        if alike is None or alike.joined >= _JOINED:
            alike = records[keys] = Record(node)
        elif self._outline.covers(alike.node, node):
            alike.is_varied = alike.is_varied or not self._outline.covers(node, alike.node)
        elif (joined := self._outline.joined(alike.node, node)) is None:
            return Record(node)
        else:
            alike.joined += 1
            alike.is_varied = True
            alike.node = joined
            self._changed[alike] = None
            records[frozenset(joined.members)] = alike
        return alike

    def _alike(self, keys: frozenset[str]) -> Record | None:
        found = self._records.get(keys)
        if found is None and len(keys) >= _FEW:
            for others, record in islice(self._records.items(), _RECORDS):
                if len(others) >= _FEW and len(keys & others) >= _NEAR * len(keys | others):
                    found = record
                    break
        return found


class _Looking:
    """One round of looking into records."""

    def __init__(self, types: Types, room: int) -> None:
        self._types = types
        self._left = room
        self._most_of_cells = int(room * _CELLS)
        self._is_cut = False
        """Whether cells of rows were left out."""
        self._ranks: dict[Record, float] = {}
        self._met: Counter[Record] = Counter()
        """At how many places each record was met: once it is written, all others take no more than its name."""
        self._spent: dict[Record, int] = {}
        self._pending: list[tuple[float, int, Record]] = []
        self._pushed = 0

    def all(self) -> bool:
        self._left -= self._meet(self._types.root, 0)
        is_whole = True
        while self._pending:
            _, _, record = heappop(self._pending)
            if record in self._spent or not record.node.members:
                continue
            is_whole = self._look_into(record) and is_whole
            for changed in self._types.take_changed():
                if changed not in self._ranks:
                    continue
                self._left += self._spent.pop(changed, 0)
                changed.members = {}
                changed.rest = None  # it has members, so that its rest is found when these are looked into
                self._push(changed)
        return is_whole and not self._is_cut

    def _push(self, record: Record) -> None:
        rank = self._ranks[record] - record.weight - _MET * log10(self._met[record])
        self._pushed += 1
        heappush(self._pending, (rank, self._pushed, record))

    def _meet(self, type_: Type, rank: float) -> int:
        """Note the records of a type, and return its characters, with each record as a stub."""
        size = 0
        for _ in range(_LEVELS):
            size += 4 * (type_.kinds & ~CONTAINER).bit_count() + 2
            if type_.cells:
                size += self._meet_cells(type_, rank)
            record = type_.record
            below = type_.items
            if record is not None:
                is_new = record not in self._ranks
                size += _STUB if is_new else _NAME
                self._ranks[record] = min(rank, self._ranks.get(record, rank))
                self._met[record] += 1
                if record not in self._spent:
                    self._push(record)  # again, because more objects make it weigh more
                if is_new and record.rest is not None:
                    size += self._meet(record.rest, rank + _MAP) if below is not None else 0
                    below = below or record.rest
                    rank += _MAP
            if below is None:
                break
            type_ = below
        return size

    def _meet_cells(self, row: Type, rank: float) -> int:
        """Keep the first cells of a row, as many as there is room for, and return their characters.

        What they hold is met as items, or here where each of them has types of its own.
        """
        used = shown = 0
        for cell, type_ in row.cells:
            used += len(cell) + 4 * type_.kinds.bit_count() + 2
            if used > self._most_of_cells:
                self._is_cut = True
                break
            shown += 1
            if row.items is None and type_.kinds & CONTAINER:
                used += self._meet(type_, rank)
        row.more_cells += len(row.cells) - shown
        row.cells = row.cells[:shown]
        return used

    def _look_into(self, record: Record) -> bool:
        """Look into as many members of a record as there is room for; return whether these are all."""
        node, rank = record.node, self._ranks[record] + 1
        required = node.required or ()
        keys = [key for key in node.members if key in required] + [key for key in node.members if key not in required]
        left, hidden = self._left + _STUB, 0
        most = left - (4 * _STUB if node.rest is not None else 0)
        for at, key in enumerate(keys):
            cost = len(key) + 3 + _least(node.members[key])
            if cost > most:
                hidden = len(keys) - at
                break
            cost = len(key) + 2 + self._meet(self._types.member(record, key), rank)
            most -= cost
            left -= cost
        if node.rest is not None and record.members:
            # A member that is not written counts as one of the keys that are data, of which only the common type is written.
            rest = [node.rest, *(node.members[key] for key in keys[len(keys) - hidden :])]
            record.rest = self._types.merged(rest)
            record.folded = len(node.rest_keys) + hidden
            left -= self._meet(record.rest, rank - 1 + _MAP)
        if record.members:
            self._spent[record] = self._left - left
            self._left = left
        return not hidden


def _least(node: Node) -> int:
    """Return the characters of the shortest type of a place."""
    return 3 * (node.kinds & ~CONTAINER).bit_count() + (_STUB if node.kinds & OBJECT else 2)
