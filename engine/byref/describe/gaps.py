"""What was left out of a cut value: where, how much of it, and its share of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from byref.describe.room import Sizes, Within

_SAMPLE: Final = 2_048
_SAMPLES: Final = 10_000
"""Characters of one omitted value, and of one for each gap, that are looked at to divide what was left out."""

Kind = Literal["items", "keys", "characters"]


@dataclass(slots=True, eq=False)
class Gap:
    """Something left out at `path`: `items` of an array, `keys` of an object or `characters` of a string or key."""

    kind: Kind
    path: str
    kept: int
    omitted: int
    sample: Sequence[Any]
    """Some of what was left out of an array or object."""

    def weigh(self, limit: int, within: Within) -> tuple[int, bool]:
        """About how many characters of JSON were left out; whether some of it is larger than the `limit` for one value."""
        if not self.sample:
            return self.omitted, False
        sizes = [within(value, limit) + 1 for value in self.sample]
        return max(sum(sizes) * self.omitted // len(sizes), 1), max(sizes) > limit + 1

    def mark(self, tokens: int) -> str:
        """What a preview says in the place of an array's omitted items, an object's omitted keys or a string's end."""
        if self.kind == "items":
            return f"... ({tokens:,} tokens omitted) ..."
        if self.kind == "characters":
            return f"… ({self.omitted:,} {'more ' if self.kept else ''}characters)"
        return f"{self.omitted:,} {'more ' if self.kept else ''}{'key' if self.omitted == 1 else 'keys'}"


@dataclass(slots=True, eq=False)
class CutString:
    """The first part of a string."""

    head: str
    gap: Gap


def shown(tree: Any, mark: Callable[[Gap], str] | None) -> Any:
    """The cut tree as JSON, with a mark in the place of each gap, or with nothing there where `mark` is None."""
    kind = type(tree)
    if kind is dict:
        members = {}
        for key, member in tree.items():
            if type(member) is not Gap:
                members[key] = shown(member, mark)
            elif mark is not None:
                members[key] = mark(member)
        return members
    if kind is list:
        elements = []
        for element in tree:
            if type(element) is not Gap:
                elements.append(shown(element, mark))
            elif mark is not None:
                elements.append(mark(element))
        return elements
    if kind is CutString:
        return tree.head if mark is None else tree.head + mark(tree.gap)
    return tree


def attribute(gaps: Sequence[Gap], amount: int, per_character: float, sizes: Sizes) -> dict[Gap, int]:
    """Divide the amount left out among the gaps, by the value's `sizes`; what the known sizes do not explain lies beyond what was looked at."""
    limit = min(_SAMPLE, _SAMPLES // len(gaps))
    weighed = {gap: gap.weigh(limit, sizes.within) for gap in gaps}
    weights = {gap: max(round(size * per_character), 1) for gap, (size, _) in weighed.items()}
    beyond = {gap: size for gap, (size, above) in weighed.items() if above}
    unexplained = amount - sum(weights.values())
    if beyond and unexplained > 0:
        known = sum(beyond.values())
        for gap, size in beyond.items():
            weights[gap] += unexplained * size // known
    whole, seen, spent = sum(weights.values()), 0, 0
    parts = {}
    for gap, weight in weights.items():
        seen += weight
        parts[gap] = amount * seen // whole - spent
        spent += parts[gap]
    return parts
