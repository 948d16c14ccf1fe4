"""Arrays and maps of which only some elements are in memory: their ends, and what is known of the rest without parsing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from byref.describe.nodes import Node
    from byref.describe.paths import Path


@dataclass(frozen=True, slots=True)
class Summary:
    """What all values of a member are, in every element that has it."""

    count: int
    nulls: int
    counts: Mapping[Any, int] | None = None
    """How often each value occurs that is not null; None if there are many."""
    range: tuple[Any, Any] | None = None
    """The least and the greatest number, or the first and the last date or time; None if there are none."""
    is_unique: bool = False
    """Whether no two of the values are equal, and none is null or empty."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows:
    """An array with only its ends in memory. It takes the list's place at the top of a value, or in objects at the top."""

    length: int
    head: list[Any]
    """Its first elements, at least one. It shares no element with `tail`."""
    tail: list[Any]
    """Its last elements, at least one."""
    samples: Sequence[Any]
    """Some of the elements between the ends, in order; at least one."""
    element_kind: str
    """The common kind of the elements, in words: `object(6 keys)`."""
    node: Node
    """The schema of all elements."""
    folded: bool
    """Whether `node` has maps with folded keys, so that it is not exact."""
    inside: Callable[[Path], int | None] = field(default=lambda path: None)
    """Returns how many objects there are at a path from the elements that `node` did not count, because they were matched and not
    parsed; None if that is unknown."""
    ids: tuple[str, frozenset[Any]] | None = None
    """A member that tells the elements apart, and its values in all of them; None if no such member is known."""
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    """What all values of some members are, by their names."""
    unfolded: Node | None = None
    """The exact schema where `node` is not; None if it is unknown."""

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Entries:
    """A map with only some of its members in memory. It takes the object's place at the top of a value, or in objects at the top."""

    node: Node
    """The schema of the map. All of its keys are folded; their common place is exact but for folded keys below it."""
    head: Mapping[str, Any]
    """Its first members, at least one."""
    some: Mapping[str, Any]
    """All members in memory, in order: the first, some between, the last."""
    whole: Callable[[], object]
    """Parses all of it."""

    def __len__(self) -> int:
        """The number of all members."""
        return len(self.node.rest_keys)

    def __contains__(self, key: object) -> bool:
        """Tell whether any member has the key."""
        return key in self.node.rest_keys

    def keys(self) -> KeysView[str]:
        """The keys of all members, in order."""
        return self.node.rest_keys.keys()

    def __iter__(self) -> Iterator[str]:
        """The keys of the members in memory."""
        return iter(self.some)

    def __getitem__(self, key: str) -> Any:
        """A member in memory."""
        return self.some[key]

    @property
    def behind_head(self) -> list[Any]:
        """The values in memory behind those of the first members."""
        return list(self.some.values())[len(self.head) :]


MAPS: Final = (dict, Entries)


def ends(values: list[Any] | Rows) -> tuple[list[Any], list[Any]]:
    """Return the first and the last elements in memory. Both are the whole list if `values` is a list."""
    return (values.head, values.tail) if type(values) is Rows else (values, values)  # type: ignore[return-value]


def first_members(value: dict[str, Any] | Entries) -> Mapping[str, Any]:
    """Return the first members of an object; all, if they are in memory."""
    return value.head if type(value) is Entries else value  # type: ignore[return-value]


def between(values: list[Any] | Rows, start: int, stop: int, most: int) -> list[Any]:
    """Return at most `most` of the elements from `start` to `stop`, spread evenly."""
    if type(values) is Rows:
        samples = values.samples
        return list(samples[:: max(len(samples) // most, 1)])[:most]
    return values[start : stop : max((stop - start) // most, 1)][:most]  # type: ignore[index]
