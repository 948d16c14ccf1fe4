"""Arrays too large to be kept in memory: their ends, and what was learnt of the rest while it passed by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from byref.describe.nodes import Node


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows:
    """An array of which only the ends are in memory. It stands where the list would, at the top or in objects there."""

    length: int
    head: list[Any]
    """Its first elements, at least one. None of them is in `tail`."""
    tail: list[Any]
    """Its last elements, at least one."""
    samples: Sequence[Any]
    """Some of the elements between the ends, in order; at least one."""
    element_kind: str
    """What the elements have in common, in words: `object(6 keys)`."""
    node: Node
    """What was learnt of all elements."""
    folded: bool
    """Whether `node` has maps with folded keys, and so is not exact."""

    def __len__(self) -> int:
        return self.length


def ends(values: list[Any] | Rows) -> tuple[list[Any], list[Any]]:
    """Return the first and the last elements that are in memory; of a list, each time all of them."""
    return (values.head, values.tail) if type(values) is Rows else (values, values)  # type: ignore[return-value]


def between(values: list[Any] | Rows, start: int, stop: int, most: int) -> list[Any]:
    """Return at most `most` of the elements from `start` to `stop`, spread evenly."""
    if type(values) is Rows:
        samples = values.samples
        return list(samples[:: max(len(samples) // most, 1)])[:most]
    return values[start : stop : max((stop - start) // most, 1)][:most]  # type: ignore[index]
