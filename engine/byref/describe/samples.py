"""Samples of the values at each place of a parsed JSON value, and all of a place's values where they are worth the work."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, Final, TypeAlias

from byref.describe.grids import Grid
from byref.describe.maps import as_map
from byref.describe.nodes import CONTAINER, NULL, OBJECT, Node
from byref.describe.paths import ITEM, KEY, Cell, Path, Step, stepped
from byref.describe.rows import MAPS, Entries, Rows, Summary

CONTAINERS: Final = (dict, list, Rows, Entries)
_SOME: Final = (Rows, Entries)
_LEVELS: Final = 40
"""Maximum levels of nesting that are read."""
_PLACES: Final = 2_000
"""Maximum places of one level that are read."""
_PLACE: Final = 8_000
"""Work for any place, in nanoseconds, however few values it has."""
_VALUE: Final = 100
"""Work for each value that is sampled."""
_FETCHED: Final = 30
"""Work for each member that is fetched from its object."""
_APART: Final = 5
"""Further work for each member of these objects: the larger they are, the seldomer one is in the processor's cache."""
_FURTHEST: Final = 120
"""The maximum of that."""
_PASSED: Final = 15
"""Work for each item of an array, or value of a map, that is passed on."""
_OPENED: Final = 250
"""Work for each array or map whose items or values are passed on."""
_LEAST, _MOST = 24, 96
"""Minimum and maximum values in a sample, unless there are fewer."""
_DIGEST: Final = 32
"""Characters of the shortest digest."""
_FEWEST: Final = 3
"""Records that are read as columns; fewer are only passed through."""
_OVER: Final = 4
"""How many times its share of the work an object of many members may take; the rest of its members is left out."""
_SHARE: Final = 0.5
"""Share of the work that is left which one level may take; the levels below get the rest."""
_LARGEST: Final = 0.1
"""Share of the work that is left which one place may take, though its level has many: those with most values come first."""


class Work:
    """How much may still be done, in nanoseconds of a usual processor."""

    __slots__ = ("left",)

    def __init__(self, left: float) -> None:
        self.left = left


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of the values at a place, which were read in place of all."""

    path: Path
    count: int


@dataclass(slots=True, eq=False)
class Place:
    """A place of a value, with all of its values, or with some that are spread evenly over them."""

    path: Path
    node: Node
    """What is known of the values, with keys that are data in its `rest`."""
    values: Sequence[Any]
    sample: Sample | None
    """The sample that the values are of; None if they are all."""
    total: float
    """The number of all values, estimated where not all were read."""
    parent: Place | None = None
    _all: _Known | None = field(default=None, init=False)

    @property
    def step(self) -> Step:
        """The last step of the path."""
        return self.path[-1]

    @property
    def has_names(self) -> bool:
        """Whether some of the keys that lead to the values are names of fields, beside others that are data."""
        return self.step is KEY and self.parent is not None and bool(self.parent.node.members)

    @property
    def is_mixed(self) -> bool:
        """Whether values of such fields are, or stand above, some of the values: the node tells of those of the keys alone."""
        return self.parent is not None and (self.has_names or self.parent.is_mixed)

    @property
    def summary(self) -> Summary | None:
        """What all values are, if that is known though only some of them are in memory."""
        if self.parent is None or self.parent.parent is None or not isinstance(self.step, str):
            return None
        above = self.parent.parent.values
        return above[0].summaries.get(self.step) if len(above) == 1 and type(above[0]) is Rows else None

    @property
    def cost(self) -> float:
        """The work to read all values."""
        if self._all is not None or self.sample is None or self.parent is None:
            return 0.0
        above = self.parent
        if isinstance(self.step, Cell):
            cost = _FETCHED * self.total
        elif isinstance(self.step, str):
            members = above.node.members
            is_in_all = above.node.required is not None and self.step in above.node.required
            each = _FETCHED + min(_APART * len(members), _FURTHEST)
            cost = self.total * each * (1 if is_in_all else 2)
        elif self.step is ITEM and above.total == 1:
            cost = 0.0  # the items of a single array are that very list
        else:
            cost = _PASSED * self.total + _OPENED * above.total
        return cost + above.cost

    def all(self) -> _Known:
        """Return all values; or those that are in memory, and a sample that says how many they are."""
        if self._all is None:
            if self.sample is None or self.parent is None:
                self._all = self.values, self.sample
            else:
                above, sample = self.parent.all()
                values = _below(above, self.step)
                if (self.step is ITEM or self.step is KEY) and any(type(one) in _SOME for one in above):
                    sample = Sample(self.path, len(values))
                self._all = values, sample
        return self._all


_Known: TypeAlias = tuple[Sequence[Any], Sample | None]


def _below(values: Sequence[Any], step: Step) -> Sequence[Any]:
    """Return the values that one step leads to; of `Rows`, those that are in memory."""
    if step is ITEM or step is KEY:
        parts = _parts(values, step)
        return parts[0] if len(parts) == 1 and type(parts[0]) is list else list(chain.from_iterable(parts))
    if isinstance(step, Cell):
        return list(stepped(values, step))
    try:
        return list(map(itemgetter(step), values))  # twice as fast, if all of them are objects that have the member
    except (KeyError, TypeError):
        return [one[step] for one in values if type(one) is dict and step in one]


def _parts(values: Sequence[Any], step: Step) -> list[Collection[Any]]:
    """Return the same for all items or all keys, in one part for each array or map."""
    if step is KEY:
        return [one.some.values() if type(one) is Entries else one.values() for one in values if type(one) in MAPS]
    arrays: list[Collection[Any]] = [one for one in values if type(one) is list]
    for rows in [one for one in values if type(one) is Rows]:
        arrays += [rows.head, list(rows.samples), rows.tail]
    return arrays


def places(value: object, node: Node, work: Work, grids: Mapping[int, Grid] | None = None) -> Iterator[Place]:
    """Yield the places of a value, level by level, as far as the work allows. `node` is the value's schema, `grids` are its grids."""
    columns = {(*grid.path, ITEM): grid for grid in (grids or {}).values()}
    level = [Place((), as_map(node), [value], None, 1.0)]
    for _ in range(_LEVELS):
        below: list[Place] = []
        level = sorted(level, key=lambda place: -place.total)[:_PLACES]
        for at, place in enumerate(level):
            if work.left <= 0:
                return
            share = work.left * max(_SHARE / (len(level) - at), _LARGEST)
            for found in _found(place, share, work, columns.get(place.path)):
                may_hold_more = found.node.kinds & CONTAINER or found.is_mixed
                if may_hold_more and any(type(one) in CONTAINERS for one in found.values):
                    below.append(found)
                yield found
        if not below:
            return
        level = below


def _found(place: Place, share: float, work: Work, grid: Grid | None) -> Iterator[Place]:
    """Yield the places directly below a place, of rows that are arrays each column. Only as many values are looked at as the share
    of work pays for.
    """
    node, objects = place.node, [one for one in place.values if type(one) in MAPS]
    columns = len(node.members) + (node.rest is not None) + (node.items is not None)
    if grid is not None:
        columns = len(grid.columns)
    most = max(_LEAST, min(_MOST, int((share / max(columns, 1) - _PLACE) / _VALUE)))
    if grid is not None:
        some, sample = _spread([place.values], most, place.sample, place.path)
        for cell, member in grid.columns.items():
            column = list(stepped(some, cell))
            work.left -= _cost(column, member)
            yield Place((*place.path, cell), as_map(member), column, sample, place.total, place)
        return
    if objects:
        some, sample = _spread([objects], most, place.sample, place.path)
        scale = place.total / len(place.values) * len(objects) / len(some)
        single = len(some) < _FEWEST
        least = work.left - _OVER * share
        for key, member in node.members.items():
            if work.left < least:
                break
            if single:
                column = [one[key] for one in some if key in one and type(one[key]) in CONTAINERS]
                work.left -= _VALUE
                if not column:
                    continue
            elif member.kinds == NULL or all(_is_mute(key, one.get(key)) for one in (some[0], some[-1])):
                work.left -= _VALUE
                continue
            else:
                column = [one[key] for one in some if key in one]
            if column:
                work.left -= _cost(column, member)
                yield Place((*place.path, key), as_map(member), column, sample, scale * len(column), place)
        if node.rest is not None:
            path = (*place.path, KEY)
            maps = _parts(objects, KEY)
            count = sum(map(len, maps))
            total = place.total / len(place.values) * sum(map(len, objects))
            work.left -= _PASSED * count
            sample = place.sample if total == count else Sample(path, count)
            shown, sample = _spread(maps, most, sample, path)
            if shown:
                work.left -= _cost(shown, node.rest)
                yield Place(path, as_map(node.rest), shown, sample, total, place)
    if len(objects) < len(place.values) and node.items is not None:
        path, sample = (*place.path, ITEM), place.sample
        arrays = _parts(place.values, ITEM)
        count = sum(map(len, arrays))
        if any(type(one) is Rows for one in place.values):
            sample = Sample(path, count)
        work.left -= _PASSED * len(arrays)
        total = place.total / len(place.values) * count
        shown, sample = _spread(arrays, most, sample, path)
        if shown:
            work.left -= _cost(shown, node.items)
            yield Place(path, as_map(node.items), shown, sample, total, place)


def _is_mute(key: str, value: object) -> bool:
    """Tell whether nothing is said of values like this: URLs and digests, of which some outputs have many."""
    if type(value) is not str:
        return False
    if value.startswith(("http://", "https://")):
        return True
    return len(value) >= _DIGEST and value.isalnum() and not key.lower().endswith("id")


def _cost(column: Sequence[Any], node: Node) -> float:
    if not node.kinds & ~(NULL | OBJECT):
        return _PLACE / 2 + _PASSED * len(column)  # it is only passed through
    return _PLACE + _VALUE * len(column) if len(column) >= _FEWEST else _VALUE


def _spread(
    parts: Sequence[Collection[Any]], most: int, sample: Sample | None, path: Path
) -> tuple[Sequence[Any], Sample | None]:
    """Return the values of all parts; or, if there are more than `most`, some of them, spread evenly.

    Parts are never joined into one long list: to make one and to free it holds up other threads for 20 ms each.
    """
    count = sum(map(len, parts))
    if count <= most:
        return list(chain.from_iterable(parts)), sample
    chosen = _chosen(count, most)
    if len(parts) == 1 and type(parts[0]) is list:
        return list(itemgetter(*chosen)(parts[0])), Sample(path, most)
    some, passed, at = [], 0, 0
    for part in parts:
        end = passed + len(part)
        if at < most and chosen[at] < end:
            values = part if type(part) is list else list(part)
            while at < most and chosen[at] < end:
                some.append(values[chosen[at] - passed])
                at += 1
        passed = end
    return some, Sample(path, most)


@lru_cache(maxsize=256)
def _chosen(count: int, most: int) -> tuple[int, ...]:
    """Return the places of `most` of so many values: one of each of `most` spans, at a multiple of the golden ratio, modulo one.

    With a fixed step, a period of the data could coincide.
    """
    starts = [at * count // most for at in range(most + 1)]
    spans = enumerate(pairwise(starts))
    return tuple(start + (end - start) * (at * 40503 % 65536) // 65536 for at, (start, end) in spans)
