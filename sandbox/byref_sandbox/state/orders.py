"""The order of sets between two runs: a set that nobody has changed is to be iterated as before.

A set is iterated in the order of the slots of its table. An item is in the first free slot of those that its hash leads to, so where it
is depends on the size of the table, on what had come before it, and on what was there and has been removed. None of that can be seen;
but slots that would give the order can be found, and an order of adding that leads to them.

After a restart texts have other hashes, and sets of them another order, as in any two processes of Python.
"""

from __future__ import annotations

import datetime
import graphlib
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

_EMPTY_BYTES: Final = set[object]().__sizeof__()
_SLOT_BYTES: Final = 16
_FEWEST_SLOTS: Final = 8
_MOST_SLOTS: Final = 1 << 16
_LINEAR_PROBES: Final = 9
_PERTURB_SHIFT: Final = 5
_MOST_PROBES: Final = 24
_MOST_ITEMS: Final = 10_000
"""Items, and an eighth of the slots, of all sets that are looked at."""
_FEW_ITEMS: Final = 4
_FAR: Final = 1 << 40
_HASHED_ALIKE: Final = frozenset({str, bytes, int, float, bool, type(None), datetime.date})
"""Types whose hashes are the same in the next run, and run no code of the session. A tuple of these is as well."""
_MAX_BITS: Final = 64


class Order(NamedTuple):
    """How a table is filled so that it is iterated in some order."""

    slots: int
    holes: tuple[int, ...]
    """Slots that must not be free while it is filled."""
    items: tuple[Any, ...]
    """In the order in which they are added."""


class Orders:
    """The orders of the sets of one run."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[set[Any], Order | None]] = {}

    def restore(self, orders: Iterable[tuple[set[Any], tuple[Any, ...]]]) -> None:
        """Give sets the orders that `of` has returned of them. Whatever is forged, they keep the same items."""
        for one, parts in orders:
            order = Order(*parts)
            if type(one) is set and all(map(_is_hashed_alike, order.items)) and one == set(order.items):
                _fill(one, order)
                self._found[id(one)] = one, order

    def of(self, sets: Iterable[set[Any]]) -> list[tuple[set[Any], tuple[Any, ...]]]:
        """Return the orders of those sets that would be iterated in another one if their items were added to an empty set."""
        found: list[tuple[set[Any], tuple[Any, ...]]] = []
        room = _MOST_ITEMS
        for one in sets:
            if len(one) < 2:
                continue
            slots = _slots_of(one)
            room -= len(one) + slots // _FEWEST_SLOTS
            if room < 0:
                break
            items = list(one)
            if not all(map(_is_hashed_alike, items)) or _are_same(set(items), items):
                continue
            _, order = self._found.get(id(one), (one, None))
            if order is None or not _leads_to(order, items, slots):
                order = _order(items, slots)
            if order is not None:
                self._found[id(one)] = one, order
                found.append((one, tuple(order)))
        return found


def _slots_of(one: set[Any]) -> int:
    return max(_FEWEST_SLOTS, (one.__sizeof__() - _EMPTY_BYTES) // _SLOT_BYTES)


def _is_hashed_alike(item: object) -> bool:
    if type(item) is int:
        return item.bit_length() <= _MAX_BITS
    return type(item) in _HASHED_ALIKE or (type(item) is tuple and all(map(_is_hashed_alike, item)))


def _are_same(one: Iterable[object], other: Iterable[object]) -> bool:
    return all(map(operator.is_, one, other))


def _leads_to(order: Order, items: Sequence[object], slots: int) -> bool:
    made = set[Any]()
    _fill(made, order)
    return len(made) == len(items) and _slots_of(made) == slots and _are_same(made, items)


def _order(items: list[Any], slots: int) -> Order | None:
    """Return an order of adding that makes a table of so many slots be iterated as these items are; None if none is found."""
    if slots > _MOST_SLOTS:
        return None
    few = itertools.permutations(items) if len(items) <= _FEW_ITEMS else ()
    candidates = itertools.chain(
        [Order(slots, (), tuple(items))], _of_slots(items, slots), (Order(slots, (), each) for each in few)
    )
    return next((order for order in candidates if _leads_to(order, items, slots)), None)


def _fill(one: set[Any], order: Order) -> None:
    """Fill a set anew. Numbers keep the holes, and make the table as large as it was; they are removed again."""
    slots = min(order.slots, _MOST_SLOTS)
    keeping = [slots * _FAR + hole for hole in order.holes]
    wanted = [*keeping, *order.items]
    # From a dict, and only so, a set takes up to this many items at once into a table of twice as many slots and more.
    at_once = slots // 2 - 1
    growing = [-slots * _FAR - number for number in range(at_once - len(wanted))]
    one.clear()
    one.update(dict.fromkeys([*wanted[:at_once], *growing]))
    one.update(wanted[at_once:])
    for number in (*growing, *keeping):
        one.discard(number)


def _of_slots(items: list[Any], slots: int) -> Iterator[Order]:
    places = _places(items, slots)
    if places is None:
        return
    holes: set[int] = set()
    at = {place: number for number, place in enumerate(places)}
    before: dict[int, list[int]] = {}
    for number, (item, place) in enumerate(zip(items, places, strict=True)):
        passed = [*itertools.takewhile(place.__ne__, _probes(hash(item), slots))]
        before[number] = [at[each] for each in passed if each in at]
        holes.update(each for each in passed if each not in at)
    try:
        added = [*graphlib.TopologicalSorter(before).static_order()]
    except graphlib.CycleError:
        return
    yield Order(slots, tuple(sorted(holes)), tuple(items[number] for number in added))


class _Place(NamedTuple):
    """A slot for an item, behind the slots of those before it."""

    slot: int
    passed: int
    """Slots that this item and those before it were led to in vain."""
    before: _Place | None


def _places(items: list[Any], slots: int) -> list[int] | None:
    """Return a slot for each item, in rising order, so that as few slots as possible are passed; None if there are none."""
    best = [_Place(-1, 0, None)]  # in rising order, each with fewer slots passed than those before it
    for item in items:
        rank: dict[int, int] = {}
        for passed, slot in enumerate(itertools.islice(_probes(hash(item), slots), _MOST_PROBES)):
            rank.setdefault(slot, passed)
        found: list[_Place] = []
        lower = iter(best)
        following, before = next(lower, None), None
        for slot in sorted(rank):
            while following is not None and following.slot < slot:
                following, before = next(lower, None), following
            if before is not None and (not found or before.passed + rank[slot] < found[-1].passed):
                found.append(_Place(slot, before.passed + rank[slot], before))
        if not found:
            return None
        best = found
    place: _Place | None = best[-1]
    chosen = []
    while place is not None and place.before is not None:
        chosen.append(place.slot)
        place = place.before
    return chosen[::-1]


def _probes(number: int, slots: int) -> Iterator[int]:
    """Yield the slots to which a hash leads, as `set_add_entry` in CPython's setobject.c goes through them."""
    mask = slots - 1
    perturb = number % (1 << 64)
    at = perturb & mask
    while True:
        yield from range(at, at + _LINEAR_PROBES + 1) if at + _LINEAR_PROBES <= mask else (at,)
        perturb >>= _PERTURB_SHIFT
        at = (at * 5 + 1 + perturb) & mask
