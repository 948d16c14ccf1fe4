"""What values weigh, estimated, and their members in runs of about the same weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from byref.jsonscan.chunks import sizes

T = TypeVar("T")

_SAMPLES: Final = 8
"""Members looked at of a value or of a run, at least; at most twice as many."""
_BUDGET: Final = 32
"""Containers looked into for one weight, about."""
_SCALAR: Final = 8
"""What a number weighs, and the punctuation of a member."""
_DEEP: Final = 32
"""Levels of a value that are entered to free it."""


def is_heavy(value: object) -> bool:
    """Tell whether a value is more than one slice."""
    return _weight(value) > sizes.CHUNK


def runs(members: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the members in runs of one slice, as far as samples tell; a heavy one that is seen is a run of its own."""
    at, count = 0, 2 * _SAMPLES
    while at < len(members):
        run = members[at : at + count]
        heaviest = max(map(_weight, run[:: len(run) // _SAMPLES or 1]))
        fitting = sizes.CHUNK // heaviest or 1
        if fitting < len(run) and count > 1:
            count = max(1, min(fitting, count // 2))
            continue
        yield run
        at += len(run)
        count = min(fitting, count * 2, sizes.ITEMS)


def free(value: object, depth: int = 0) -> None:
    """Empty the big lists and objects in a value that nobody needs any more: freeing millions at once takes its time."""
    if type(value) is list:
        while value and (weight := _weight(value)) > sizes.BIG:
            count = max(1, min(len(value) * sizes.CHUNK // weight, sizes.ITEMS))
            if count == 1 and depth < _DEEP:
                free(value[-1], depth + 1)
            del value[-count:]
    elif type(value) is dict:
        while len(value) > sizes.ITEMS:
            value.popitem()
        if depth < _DEEP and _weight(value) > sizes.BIG:
            for member in value.values():
                free(member, depth + 1)


def _weight(value: Any, budget: int = _BUDGET) -> int:
    """Estimate the length of a value's JSON by some of its members, more than nothing."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) + _SCALAR
    if kind is not list and kind is not dict and kind is not tuple:
        return 2 * _SCALAR
    if not value:
        return 2
    if not budget:
        return _SCALAR * (1 + len(value))
    members = value.values() if kind is dict else value[:: len(value) // _SAMPLES or 1]
    budget = (budget - 1) // min(len(value), _SAMPLES)
    weights = [_weight(member, budget) for member in islice(members, 2 * _SAMPLES)]
    return _SCALAR + sum(weights) * len(value) // len(weights)
