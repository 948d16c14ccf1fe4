"""An example of a value: of every array and map one complete element, with long strings cut, within a budget of tokens.

The schema says what there is; the example shows once what it looks like. So an array shows the element with most members, and of a
second one only the members that the first lacks. Members nearest to the top come first, and what was shown elsewhere comes last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Final

from byref.describe.cuts import digits, mark_in, plain
from byref.describe.jsontext import compact, encodable
from byref.describe.outline import Outline, Record, Type, Types
from byref.describe.room import size_within
from byref.describe.rows import Rows, ends
from byref.describe.search import most_within

_STRINGS: Final = (48, 32, 20)
"""Characters of a string to try in turn: the first with which everything fits, or else the last."""
_CANDIDATES: Final = 24
"""Elements at the beginning of an array, and entries of a map, that are compared."""
_SPREAD: Final = 16
"""Further elements that are compared, spread evenly over a long array."""
_COUNTED: Final = 1 << 18
"""Maximum elements whose numbers of keys are all compared."""
_FEW: Final = 4
"""Scalars of an array that are shown."""
_ENTRIES: Final = 8
"""Scalar entries of a map that are shown if these are all; of more, a few."""
_KEY: Final = 80
_LEVELS: Final = 60
_ALIKE: Final = 2
"""Links that begin alike, and objects with the same keys, that are shown of one object."""
_LINK: Final = 12
"""Characters in which links may begin alike."""
_LACKING_LEVELS: Final = 3
_AGAIN: Final = 2
"""Members that are shown of an object whose shape was shown elsewhere."""
_MARK: Final = 22
"""Characters of a mark for what was left out."""
_GUESS: Final = 3
_MOST: Final = 12
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Example:
    """The part of a value that a model sees."""

    value: object
    text: str
    """The compact JSON text of `value`."""
    tokens: int
    is_whole: bool
    """Whether nothing was left out."""
    is_complete: bool
    """Whether everything was shown that an example shows, though strings may be cut."""


class _Scalar:
    """A value that is written as it is, or a string that may be cut."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def size(self, most: int) -> int:
        if type(self.value) is str:
            return min(len(self.value), most + 10) + 2
        return min(size_within(self.value, 40), most + 10)


class _Object:
    __slots__ = ("keys", "members", "only", "record", "value")

    def __init__(self, value: dict[str, Any], record: Record | None, only: Lacking | None = None) -> None:
        self.value = value
        self.record = record
        self.only = only
        """The keys that are shown at most; None for all."""
        self.members: dict[str, _Part] = {}


class _Array:
    __slots__ = ("items", "type", "value")

    def __init__(self, value: list[Any] | Rows, type_: Type | None) -> None:
        self.value = value
        self.type = type_
        """The type of the items."""
        self.items: dict[int, _Part] = {}


_Part = _Scalar | _Object | _Array
Lacking = Mapping[str, "Lacking | None"]
"""The members that another value lacks; None for a member that it lacks altogether."""


def example(value: object, outline: Outline, *, budget: int, measure: Callable[[str], int]) -> Example | None:
    """Return an example of the value in at most `budget` tokens, counted by `measure`; None if none fits."""
    return most_within(
        budget,
        room=_GUESS * budget,
        high=_MOST * budget,
        make=lambda room: _within(value, outline, room, measure),
        whole=lambda found: found.is_complete,
    )


def _within(value: object, outline: Outline, room: int, measure: Callable[[str], int]) -> Example:
    for most in _STRINGS:
        choice = _Choice(outline, room, most)
        root = choice.of(value)
        if choice.is_complete:
            break
    writing = _Writing(most)
    shown = writing.shown(root)
    text = compact(shown)
    is_complete = choice.is_complete and (most == _STRINGS[0] or not writing.cuts)
    is_whole = not (choice.is_empty or writing.cuts or writing.gaps)
    return Example(shown, text, measure(text), is_whole, is_complete)


class _Choice:
    """Chooses what to show in about `room` characters, with at most `most` characters of each string."""

    def __init__(self, outline: Outline, room: int, most: int) -> None:
        self._types = Types(outline)
        self._left = room
        self._most = most
        self._pending: list[tuple[float, int, int, _Object | _Array, Callable[[_Part], None]]] = []
        self._count = 0
        self._seen: set[Record] = set()
        self._weights: dict[Record, float] = {}
        self.is_complete = True
        self.is_empty = False
        """Whether nothing was placed: there was no room, or it nests too deeply."""

    def of(self, value: object) -> _Part:
        root: list[_Part] = []
        self._offer(value, self._types.root, 0, root.append, 2)
        while self._pending:
            _, _, depth, part, place = heappop(self._pending)
            if depth > _LEVELS:
                self.is_complete = False
                continue
            cost = 4
            if self._left < cost + _MARK and root:
                self.is_complete = False
                continue
            if isinstance(part, _Object):
                self._open_object(part, depth, place)
            else:
                self._open_array(part, depth, place)
        self.is_empty = not root
        return root[0] if root else _Scalar("...")

    def _offer(
        self,
        value: Any,
        type_: Type | None,
        depth: int,
        place: Callable[[_Part], None],
        cost: int,
        only: Lacking | None = None,
        later: float = 0,
    ) -> bool:
        """Place a scalar if there is room for it, and note a container for later; return False if there is no room."""
        kind = type(value)
        part: _Object | _Array
        if kind is dict and value:
            record = type_.record if type_ is not None else None
            part = _Object(value, record, only)
            rank = depth - self._weight(record) + later
        elif (kind is list or kind is Rows) and len(value):
            items = type_.items if type_ is not None else None
            part = _Array(value, items)
            record = items.record if items is not None else None
            rank = depth - self._weight(record) + later
        else:
            scalar = _Scalar(value)
            cost += scalar.size(self._most)
            if cost > self._left:
                self.is_complete = False
                return False
            self._left -= cost
            place(scalar)
            return True
        self._count += 1
        heappush(self._pending, (rank, self._count, depth, part, place))
        return True

    def _weight(self, record: Record | None) -> float:
        """Return the weight of a record as it was when it was first met, so that of equal ones the first one comes first."""
        return 0 if record is None else self._weights.setdefault(record, record.weight)

    def _open_object(self, part: _Object, depth: int, attach: Callable[[_Part], None]) -> None:
        record, value = part.record, part.value
        self._left -= 4
        keys: Sequence[str]
        again = False
        if part.only is not None:
            keys = list(part.only)
        elif record is None:
            keys = list(islice(value, _ENTRIES))
        else:
            keys = [key for key in islice(value, 2_000) if key in record.node.members]
            if keys:
                again = record in self._seen
                self._seen.add(record)
            if record.rest is not None:
                keys = [*keys, *self._entries(record, value)]
        if again:
            keys = [key for key in keys if type(value[key]) not in (dict, list, Rows) and value[key] is not None][
                :_AGAIN
            ]
        else:
            keys = list(_telling(value, keys, None if record is None else record.node.members))
        for key in keys:
            type_ = None
            if record is not None:
                type_ = self._types.member(record, key) if key in record.node.members else record.rest

            def place(child: _Part, key: str = key) -> None:
                if not part.members:
                    attach(part)
                part.members[key] = child

            self._offer(value[key], type_, depth + 1, place, min(len(key), _KEY) + 4, self._only(part, key))
        if len(keys) < len(value):
            self._left -= _MARK

    @staticmethod
    def _only(part: _Object, key: str) -> Lacking | None:
        """Return what is shown of a member at most; None for all."""
        return None if part.only is None else part.only[key]

    def _entries(self, record: Record, value: dict[str, Any]) -> list[str]:
        """Return the keys of the entries of a map that are shown."""
        names = [key for key in islice(value, 256) if key not in record.node.members]
        first = names[:_CANDIDATES]
        if not any(type(value[key]) in (dict, list, Rows) for key in first):
            return names if len(names) <= _ENTRIES else names[:2]
        best = max(first, key=lambda key: _fullness(value[key]))
        return [best]

    def _open_array(self, part: _Array, depth: int, attach: Callable[[_Part], None]) -> None:
        values = part.value
        count = len(values)
        candidates = list(_candidates(values))
        scalars = [(at, one) for at, one in candidates if type(one) not in (dict, list)]
        chosen: list[tuple[int, Any, Lacking | None, float]] = []
        if len(scalars) == len(candidates):
            kinds: dict[type, int] = {}
            for at, one in scalars:
                kinds.setdefault(type(one), at)
            places = range(count) if count <= _FEW else sorted({0, 1, count - 1, *kinds.values()})
            known = dict(candidates)
            chosen = [(at, known[at], None, 0) for at in places if at in known]
        else:
            at, best = _best(candidates)
            chosen.append((at, best, None, 0))
            for type_ in {type(one): None for _, one in candidates}:
                if type_ is not type(best) and type_ is not type(None):
                    chosen.append((*next((at, one) for at, one in candidates if type(one) is type_), None, 0.5))
            second = _second(best, candidates)
            if second is not None:
                chosen.append((*second, 1.5))
            elif _is_ordered(best, candidates):
                at, last = candidates[-1]
                if at == count - 1 and size_within(last, 400) <= 400:
                    chosen.append((at, last, dict.fromkeys(last), 1.5))
        for at, one, only, later in chosen:
            if at in part.items:
                continue

            def place(child: _Part, at: int = at) -> None:
                if not part.items:
                    attach(part)
                part.items.setdefault(at, child)

            self._offer(one, part.type, depth, place, 2, only, later)
        if len(chosen) < count:
            self._left -= _MARK


def _candidates(values: list[Any] | Rows) -> Iterator[tuple[int, Any]]:
    """Yield some elements with their places, in order."""
    head, tail = ends(values)
    count = len(values)
    yield from enumerate(islice(head, _CANDIDATES))
    if type(values) is Rows:
        yield count - 1, tail[-1]
        return
    step = max((count - _CANDIDATES) // _SPREAD, 1)
    places = set(range(_CANDIDATES, count, step)) | {count - 1}
    if count <= _COUNTED and type(head[0]) is dict:
        sizes = [len(one) if type(one) is dict else 0 for one in head]
        places.add(sizes.index(max(sizes)))
    for at in sorted(places):
        if at >= _CANDIDATES:
            yield at, head[at]


def _best(candidates: Sequence[tuple[int, Any]]) -> tuple[int, Any]:
    """Return the first element if it is nearly as full as the fullest, which is returned otherwise."""
    fullest = max(candidates, key=lambda one: _fullness(one[1]))
    first = next((one for one in candidates if type(one[1]) is type(fullest[1])), fullest)
    full, most = _fullness(first[1])[0], _fullness(fullest[1])[0]
    return first if 5 * full >= 4 * most else fullest


def _fullness(value: object) -> tuple[int, int]:
    """Return how much a value shows: the number of its members that are not empty, and of those of its objects."""
    if type(value) is dict:
        own = below = 0
        for member in islice(value.values(), 300):
            if member is not None and member != [] and member != {} and member != "":
                own += 1
                if type(member) is dict:
                    below += sum(1 for one in islice(member.values(), 100) if one is not None)
                elif type(member) is list:
                    below += 1
        return own, below
    if type(value) is list:
        return min(len(value), 8), 0
    return 0, 0


def _second(best: object, candidates: Sequence[tuple[int, Any]]) -> tuple[int, Any, Lacking] | None:
    """Return the element that has most of what the best one lacks, and that."""
    found: tuple[int, Any, Lacking] | None = None
    most = 0
    for at, one in candidates:
        lacking, count = _lacking(best, one, 0)
        if count > most:
            found, most = (at, one, lacking), count
    return found


def _lacking(best: object, one: object, level: int) -> tuple[dict[str, Lacking | None], int]:
    """Return the members of a value that another one lacks or has empty, and their number."""
    found: dict[str, Lacking | None] = {}
    count = 0
    if type(best) is not dict or type(one) is not dict:
        return found, 0
    for key, member in islice(one.items(), 300):
        other = best.get(key)
        if _is_empty(member):
            continue
        if _is_empty(other):
            found[key] = None
            count += 1
        elif type(member) is dict and type(other) is dict and level < _LACKING_LEVELS:
            below, more = _lacking(other, member, level + 1)
            if more:
                found[key] = below
                count += more
    return found, count


def _is_empty(value: object) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _telling(value: dict[str, Any], keys: Sequence[str], fields: Container[str] | None) -> Iterator[str]:
    """Yield the keys whose values teach something: scalars first, then containers; of links that begin alike only the first few.

    Of several containers that hold the same, as translations do, the first few come.
    """
    links: Counter[str] = Counter()
    alike: Counter[tuple[str, ...]] = Counter()
    below: list[str] = []
    for key in keys:
        member = value[key]
        if type(member) is str and len(member) > _LINK and "://" in member[:_LINK]:
            links[member[:_LINK]] += 1
            if links[member[:_LINK]] > _ALIKE:
                continue
        if type(member) is dict and member:
            names = tuple(islice(member, 8))
            alike[names] += 1
            if alike[names] <= _ALIKE:
                below.append(key)
        elif type(member) in (list, Rows) and len(member):
            below.append(key)
        else:
            yield key
    yield from below


def _is_ordered(best: object, candidates: Sequence[tuple[int, Any]]) -> bool:
    """Tell whether the elements are ordered by a time, so that the last one says where they end."""
    if type(best) is not dict:
        return False
    for key, member in islice(best.items(), 50):
        if type(member) is str and _TIME.match(member):
            times = [one.get(key) for _, one in candidates if type(one) is dict]
            texts = [time for time in times if type(time) is str]
            if len(texts) == len(times) and len(set(texts)) > 2 and texts in (sorted(texts), sorted(texts)[::-1]):
                return True
    return False


class _Writing:
    """Writes the chosen parts, and marks for what was left out."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.cuts = 0
        """Strings that were cut."""
        self.gaps = 0
        """Places at which something was left out."""

    def shown(self, part: _Part) -> Any:
        if isinstance(part, _Scalar):
            return self._scalar(part.value)
        if isinstance(part, _Object):
            members: dict[str, Any] = {}
            for key in (
                part.value if len(part.members) > 8 else sorted(part.members, key=list(islice(part.value, 3_000)).index)
            ):
                if (child := part.members.get(key)) is None:
                    continue
                name = (
                    encodable(key)
                    if len(key) <= _KEY
                    else f"{encodable(key[: _KEY // 2])}… +{len(key) - _KEY // 2:,} chars"
                )
                if name in members:
                    continue
                members[name] = self.shown(child)
            if len(members) < len(part.value):
                left = len(part.value) - len(members)
                self.gaps += 1
                members[mark_in(part.value)] = f"{left:,} {'more ' if members else ''}{'key' if left == 1 else 'keys'}"
            return members
        elements: list[Any] = []
        following = 0
        for at in sorted(part.items):
            if at > following:
                elements.append(self._gap(at - following))
            elements.append(self.shown(part.items[at]))
            following = at + 1
        if following < len(part.value):
            elements.append(self._gap(len(part.value) - following))
        return elements

    def _gap(self, count: int) -> str:
        self.gaps += 1
        return f"... {count:,} more ..."

    def _scalar(self, value: Any) -> Any:
        if type(value) is int and value.bit_length() > 128:
            value = digits(value)
        if type(value) is not str:
            return plain(value)
        if len(value) <= self._most + 10:
            return encodable(value)
        self.cuts += 1
        return f"{encodable(value[: self._most])}… +{len(value) - self._most:,} chars"
