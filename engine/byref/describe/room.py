"""Sizes of values as JSON text, and fair shares of a room. Both in characters; tokens are measured on the text itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from byref.describe.rows import Rows

LEVELS: Final = 150
"""Levels of nesting of a value that may be shown whole: each is a call of Python's, of which a host may have used most."""
_DEEP: Final = 900
"""Characters after which an example is deep enough to understand."""
_THIN: Final = 300
"""Characters below which a share shows too little of what asked for more."""
_LEAST: Final = 40
"""Characters that others keep beside an example."""


def size_within(value: object, limit: int) -> int:
    """About how many characters the value takes as compact JSON; at most `limit` + 1, and no more work than that.

    More than the limit, too, is what nests deeper than `LEVELS`: it is not shown whole, and nobody calls that deep.
    """
    size = 0
    level: list[Any] = [value]
    for _ in range(LEVELS):
        below: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is str:
                size += len(one) + 3
            elif kind is dict:
                size += 2
                for key, member in one.items():
                    size += len(key) + 3
                    below.append(member)
                    if size + 2 * len(below) > limit:
                        break
            elif kind is list:
                size += 2
                below.extend(one if len(one) <= limit else one[:limit])
            elif kind is int:
                size += one.bit_length() * 3 // 10 + 3
            elif kind is float:
                size += len(repr(one)) + 1
            elif kind is Rows:
                size = limit + 1  # more than is in memory
            else:
                size += 5
            if size + 2 * len(below) > limit:  # every value takes two characters
                return limit + 1
        if not below:
            return size
        level = below
    return limit + 1


def shares(count: int, room: int, demand: Callable[[int, int], int]) -> list[int]:
    """Divide `room` among `count` askers: whoever asks for no more than an equal share gets it, the others share the rest.

    `demand(i, limit)` says what asker i wants; above `limit` any larger number will do.
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
    """As `shares`, but where more than `few` get too little to be understood, the first of them is an example to the rest.

    It gets what the others can spare, up to 900 characters, so that it is shown to its depth.
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
