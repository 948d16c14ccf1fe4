"""Sizes of values as JSON text, and fair shares of a room (the space for a value).

Both are in characters, because tokens can be counted only of a finished text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from byref.describe.rows import Entries, Rows

LEVELS: Final = 150
"""Maximum levels of nesting of a value that is shown whole: each takes a Python call, and the host may be deep in calls itself."""
_DEEP: Final = 900
"""Characters in which an example can be understood."""
_THIN: Final = 300
"""A share with fewer characters is too small for a value that needs more."""
_LEAST: Final = 40
"""Characters that every other value keeps beside an example."""


Within = Callable[[object, int], int]
"""A function like `size_within`."""


def size_within(value: object, limit: int) -> int:
    """Estimate the characters of the value as compact JSON. The work stops at `limit`: any larger value gives `limit` + 1.

    A value that nests deeper than `LEVELS` counts as larger than the limit, so that it is not shown whole.
    """
    if (kind := type(value)) is not dict and kind is not list:
        return min(_size(value, kind, limit), limit + 1)
    size = 0
    level: list[Any] = [value]
    for left in range(LEVELS, 0, -1):
        below: list[Any] = []
        for one in level:
            if left == 1 and one:
                return limit + 1
            size += 2
            members = one
            if type(one) is dict:
                members = one.values()
                size += 3 * len(one)
            if size + 2 * (len(one) + len(below)) > limit:  # every value takes two characters
                return limit + 1
            if members is not one:
                size += sum(map(len, one))
            for member in members:
                kind = type(member)
                if kind is str:
                    size += len(member) + 3
                elif kind is dict or kind is list:
                    below.append(member)
                else:
                    size += _size(member, kind, limit)
            if size + 2 * len(below) > limit:
                return limit + 1
        if not below:
            return size
        level = below
    return limit + 1


def _size(value: Any, kind: type, limit: int) -> int:
    """Return the size of a value that is neither an object nor an array in memory."""
    if kind is str:
        return len(value) + 3
    if kind is int:
        return int(value.bit_length()) * 3 // 10 + 3
    if kind is float:
        return len(repr(value)) + 1
    return limit + 1 if kind is Rows or kind is Entries else 5  # these have more elements than are in memory


class Sizes:
    """Sizes of one value and its parts, each computed once.

    They are found by `id()`, so the values are kept alive here: another object could get the id of a freed one.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, int, int]] = {}

    def within(self, value: object, limit: int) -> int:
        """Estimate like `size_within`."""
        kind = type(value)
        if kind is not dict and kind is not list:
            return min(_size(value, kind, limit), limit + 1)
        # A known size that exceeds the limit it was computed with only says "larger", so a higher limit needs a new estimate.
        _, size, asked = self._known.get(id(value), (None, 0, -1))
        if size > asked >= limit:
            return limit + 1
        if size > asked:
            size = size_within(value, limit)
            self._known[id(value)] = value, size, limit
        return min(size, limit + 1)


def shares(count: int, room: int, demand: Callable[[int, int], int]) -> list[int]:
    """Divide `room` among `count` claimants: one that needs at most an equal share gets what it needs, the others share the rest.

    `demand(i, limit)` returns what claimant i needs; if that is more than `limit`, any larger number will do.
    """
    granted = [0] * count
    pending: Sequence[int] = range(count)
    while pending:
        share = max(room, 0) // len(pending)
        wants = {i: demand(i, share) for i in pending}
        satisfied = [i for i in pending if wants[i] <= share]
        for i in satisfied or pending:
            granted[i] = wants[i] if satisfied else share
            room -= granted[i]
        if not satisfied:
            break
        pending = [i for i in pending if wants[i] > share]
    return granted


def example_shares(count: int, room: int, demand: Callable[[int, int], int], *, few: int) -> list[int]:
    """Divide like `shares`; but if more than `few` claimants get too little to be understood, make the first of them an example.

    The example gets what the others can spare, up to `_DEEP` characters, so that it is shown down to its leaves.
    """
    granted = shares(count, room, demand)
    thin = [i for i, share in enumerate(granted) if demand(i, share) > share]
    if len(thin) <= few or granted[thin[0]] >= _THIN:
        return granted
    first, *others = thin
    pool = sum(granted[i] for i in thin)
    rest = min(granted[first], max((pool - _DEEP) // len(others), min(_LEAST, pool // len(thin))))
    for i in others:
        granted[i] = rest
    granted[first] = pool - rest * len(others)
    return granted
