"""Arrays that were too large to be kept: their ends, and what was learnt of the rest while it passed by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from byref.describe.nodes import Node


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows:
    """An array of which only the ends are in memory; it stands where a list would, at the top or as a member there."""

    length: int
    head: list[Any]
    """Its first elements, at least one; they and `tail` do not overlap."""
    tail: list[Any]
    """Its last elements, at least one."""
    samples: Sequence[Any]
    """Some of the elements between the ends, in order; at least one."""
    element_kind: str
    """In words: `object(6 keys)`."""
    node: Node
    """What all of its elements are like."""
    folded: bool
    """Whether maps were folded in `node`."""

    def __len__(self) -> int:
        return self.length


def ends(values: list[Any] | Rows) -> tuple[list[Any], list[Any]]:
    """Return the first and the last elements, as many as are in memory: of a list, all and all."""
    return (values.head, values.tail) if type(values) is Rows else (values, values)  # type: ignore[return-value]


def between(values: list[Any] | Rows, start: int, stop: int, most: int) -> list[Any]:
    """Return some of the elements from `start` to `stop`, at most so many, spread evenly."""
    if type(values) is Rows:
        samples = values.samples
        return list(samples[:: max(len(samples) // most, 1)])[:most]
    return values[start : stop : max((stop - start) // most, 1)][:most]  # type: ignore[index]
