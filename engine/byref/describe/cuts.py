"""Cutting a parsed JSON value down to a room in characters.

`cut` returns the value with a `Gap` for each omission; `attribute` divides the omitted amount among the gaps, and `shown` writes a
mark in the place of each. Room goes first to scalars beside big arrays, then to whole records from both ends of an array, then
to the beginnings of long strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Any, Final, Literal

from byref.describe.jsontext import encodable
from byref.describe.room import Sizes, Within, example_shares, shares, size_within
from byref.describe.rows import Entries, Rows, between, ends, first_members

_DEPTH: Final = 40
"""A value below this level is shown only if it fits whole: a model reads no deeper."""
_FEW: Final = 4
"""An array of at most this many elements shows each of them, however large they are."""
_SMALL: Final = 100
"""A scalar of at most this many characters is kept before containers and long strings get any room."""
_LEAST: Final = 40
"""Minimum characters for the inside of a container or long string to be worth showing."""
_DECENT: Final = 160
"""Characters for each shown container of an object that has to omit others."""
_THIN: Final = 60
"""Minimum characters for each container of an object. If there are fewer, some are omitted so that the others can be understood."""
_GAP: Final = 40
"""Characters reserved for a mark."""
_KEY: Final = 80
"""Maximum characters of a key; a longer one is cut."""
_DIGITS: Final = 4_000
"""Up to this many digits, Python writes an integer as decimal text whatever limit the process has set."""
_SAMPLES: Final = 5
"""Omitted elements that are sampled to estimate the size of an omission."""
_PATH: Final = 80
"""Maximum characters of a path; a longer one loses its beginning."""
_SAMPLE: Final = 2_048
"""Maximum characters of one sampled value that are read to weigh a gap."""
_SAMPLED: Final = 10_000
"""Characters that are read of one sampled value per gap, summed over all gaps."""

Kind = Literal["items", "keys", "characters"]


@dataclass(slots=True, eq=False)
class Gap:
    """An omission at `path`: `items` of an array, `keys` of an object, or `characters` of a string or key."""

    kind: Kind
    path: str
    kept: int
    omitted: int
    sample: Sequence[Any]
    """Some of the values that were omitted from an array or object."""

    def weigh(self, limit: int, within: Within) -> tuple[int, bool]:
        """Return the estimated characters of JSON that were omitted, and whether a sampled value was larger than the `limit`."""
        if not self.sample:
            return self.omitted, False
        sizes = [within(value, limit) + 1 for value in self.sample]
        return max(sum(sizes) * self.omitted // len(sizes), 1), max(sizes) > limit + 1

    def mark(self, tokens: int) -> str:
        """Return the mark of a preview for the omitted items or keys, or for the omitted end of a string."""
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


def cut(value: object, room: int, sizes: Sizes | None = None) -> tuple[Any, list[Gap]]:
    """Return the value in about `room` characters, as JSON with `Gap` and `CutString` objects in it, and its gaps in order.

    Several cuts of one value may share the `sizes` of its parts.
    """
    cutter = _Cutter(sizes or Sizes())
    return cutter.cut(value, room, "", 0), cutter.gaps


def shown(tree: Any, mark: Callable[[Gap], str] | None) -> Any:
    """Return the cut value as JSON with a mark in the place of each gap. If `mark` is None, the gaps are dropped."""
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
    """Divide the omitted amount, in tokens or bytes, among the gaps by the sizes of their samples.

    `per_character` converts characters to that unit. If the samples explain less than the whole amount, the rest goes to the
    gaps with a sampled value that was larger than the limit of reading. The parts add up to `amount` exactly.
    """
    limit = min(_SAMPLE, _SAMPLED // len(gaps))
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


class _Cutter:
    def __init__(self, sizes: Sizes) -> None:
        self.gaps: list[Gap] = []
        self._within = sizes.within

    def cut(self, value: Any, room: int, path: str, depth: int) -> Any:
        if self._within(value, room) <= room:
            return plain(value)
        if type(value) is dict or type(value) is Entries:
            return self._object(value, room if depth < _DEPTH else 0, path, depth + 1)
        if type(value) is list or type(value) is Rows:
            return self._array(value, room if depth < _DEPTH else 0, path, depth + 1)
        if type(value) is str:
            return self._string(value, room, path)
        if type(value) is int:
            return self._string(digits(value), room, path)
        return plain(value)

    def _gap(self, kind: Kind, path: str, kept: int, omitted: int, sample: Sequence[Any] = ()) -> Gap:
        gap = Gap(kind, path or "$", kept, omitted, sample)
        self.gaps.append(gap)
        return gap

    def _string(self, value: str, room: int, path: str) -> CutString:
        kept = max(room - _GAP, 0)
        omitted = len(value) - kept
        return CutString(encodable(value[:kept]), self._gap("characters", path, kept, omitted))

    def _array(self, values: list[Any] | Rows, room: int, path: str, depth: int) -> list[Any]:
        count, below = len(values), f"{path or '$'}[]"
        start, end = ends(values)
        if count <= _FEW and count <= len(start) and room >= count * _LEAST:
            granted = shares(count, room - 2 - count, lambda i, limit: self._within(start[i], limit))
            few: list[Any] = []
            for value, share in zip(start, granted, strict=True):
                few.append(self.cut(value, share, below, depth))
            return few
        left = room - 2 - _GAP
        head, tail = _whole_ends(start, end, count, left, self._within)
        if head:
            shown: list[Any] = []
            for value in start[:head]:
                shown.append(plain(value))
            if head + tail < count:
                shown.append(self._items_gap(values, head, tail, path))
            for value in end[len(end) - tail :]:
                shown.append(plain(value))
            return shown
        if left < _LEAST:
            return [self._items_gap(values, 0, 0, path)]
        if left < 2 * _LEAST or count == 1:
            shown = [self.cut(start[0], left, below, depth)]
            return shown if count == 1 else [*shown, self._items_gap(values, 1, 0, path)]
        outer = (start[0], end[-1])
        granted = shares(2, left, lambda i, limit: self._within(outer[i], limit))
        first = self.cut(outer[0], granted[0], below, depth)
        gap = self._items_gap(values, 1, 1, path)
        return [first, gap, self.cut(outer[1], granted[1], below, depth)]

    def _items_gap(self, values: list[Any] | Rows, head: int, tail: int, path: str) -> Gap:
        omitted = len(values) - head - tail
        sample = between(values, head, head + omitted, _SAMPLES)
        return self._gap("items", path, head + tail, omitted, sample)

    def _object(self, value: dict[str, Any] | Entries, room: int, path: str, depth: int) -> dict[str, Any]:
        members = list(islice(first_members(value).items(), max(room, 0) // 6 + 1))
        chosen = _choose(members, room - 2, complete=len(members) == len(value))
        left = room - 2 - (_GAP if len(chosen) < len(value) else 0)
        small = {i for i in chosen if _is_small(members[i][1])}
        for i in chosen:
            left -= min(len(members[i][0]), _KEY) + 4 + (size_within(members[i][1], _SMALL) if i in small else 0)
        large = [i for i in chosen if i not in small]
        granted = example_shares(
            len(large),
            left,
            lambda n, limit: self._within(members[large[n]][1], limit),
            few=_FEW - 1 if len(chosen) == len(value) else 1,
        )
        room_of = dict(zip(large, granted, strict=True))
        shown: dict[str, Any] = {}
        for i in chosen:
            key, member = members[i]
            name, below = self._key(key, path), _join(path, key)
            if name not in shown:
                shown[name] = self.cut(member, room_of.get(i, _SMALL), below, depth)
        if len(shown) < len(value):
            left_out = [member for i, (_, member) in enumerate(members) if i not in room_of and i not in small]
            if type(value) is Entries:
                left_out += value.behind_head
            omitted = len(value) - len(shown)
            shown[mark_in(value)] = self._gap("keys", path, len(shown), omitted, left_out[:_SAMPLES])
        return shown

    def _key(self, key: str, path: str) -> str:
        if len(key) <= _KEY:
            return encodable(key)
        gap = self._gap("characters", _join(path, key), _KEY // 2, len(key) - _KEY // 2)
        return encodable(key[: _KEY // 2]) + gap.mark(0)


def _whole_ends(start: list[Any], end: list[Any], count: int, room: int, within: Within) -> tuple[int, int]:
    """Return how many whole elements to show from the start (two thirds of them) and from the end: at least one each, or 0, 0."""
    last = within(end[-1], room) + 1
    first = within(start[0], room) + 1
    if count < 2 or first + last > room:
        return 0, 0
    left, head, tail = room - first - last, 1, 1
    while head + tail < count and head < len(start) and tail < len(end):
        from_start = head <= 2 * tail
        size = within(start[head] if from_start else end[-1 - tail], left) + 1
        if size > left:
            break
        left -= size
        if from_start:
            head += 1
        else:
            tail += 1
    return head, tail


def _choose(members: Sequence[tuple[str, Any]], room: int, *, complete: bool) -> list[int]:
    """Return the positions of the members to show, in order. Small scalars get room first, then containers and long strings."""
    costs = [min(len(key), _KEY) + 4 for key, _ in members]
    small = [i for i, (_, value) in enumerate(members) if _is_small(value)]
    large = sorted(set(range(len(members))).difference(small))
    for i in small:
        costs[i] += size_within(members[i][1], _SMALL)
    small_cost, large_cost = sum(costs[i] for i in small), sum(costs[i] for i in large)
    if complete and small_cost + large_cost + len(large) * _THIN <= room:
        return list(range(len(members)))
    room -= _GAP
    small_room = room - min(large_cost + len(large) * _DECENT, room // 2)
    chosen = list(_affordable(small, costs, 0, small_room))
    left = room - sum(costs[i] for i in chosen)
    chosen += _affordable(large, costs, min(max(left // 3, _LEAST), _DECENT), left)
    return sorted(chosen)


def _affordable(candidates: Iterable[int], costs: Sequence[int], each: int, room: int) -> Iterable[int]:
    large = room // 4
    for i in candidates:
        cost = costs[i] + each
        if cost <= room:
            room -= cost
            yield i
        elif cost <= large:
            return


def _is_small(value: object) -> bool:
    return type(value) not in (dict, list) and size_within(value, _SMALL) <= _SMALL


def plain(value: Any) -> Any:
    """Return a copy that any strict JSON encoder writes: NaN and infinities as strings, lone surrogates as escapes.

    The recursion is bounded: a value that was found to fit nests no deeper than `room.LEVELS`.
    """
    kind = type(value)
    if kind is dict:
        members = {}
        for key, member in value.items():
            name = encodable(key)
            while name in members:
                name += "_"
            members[name] = plain(member)
        return members
    if kind is list:
        elements = []
        for element in value:
            elements.append(plain(element))
        return elements
    if kind is str:
        return encodable(value)
    if kind is float and not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if kind is int and value.bit_length() > 3 * _DIGITS:
        return digits(value)
    return value


def digits(value: int) -> str:
    return str(value) if value.bit_length() <= 3 * _DIGITS else hex(value)


def _join(path: str, key: str) -> str:
    name = encodable(key[:_PATH])
    joined = f"{path}.{name}" if path else name
    return joined if len(joined) <= _PATH else f"…{joined[1 - _PATH :]}"


def mark_in(value: dict[str, Any] | Entries) -> str:
    mark = "..."
    while mark in value:
        mark += "."
    return mark
