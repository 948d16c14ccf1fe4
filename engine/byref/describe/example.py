"""An example of a value: of every array and map one complete element, with long strings cut, within a budget of tokens.

The schema says what there is; the example shows once what it looks like. So an array shows the element with most members, and of a
second one only the members that the first lacks. Members nearest to the top come first, and what was shown elsewhere comes last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import Any, Final, Generic, TypeVar, cast

from byref.describe.cuts import digits, mark_in, plain
from byref.describe.jsontext import compact, encodable
from byref.describe.outline import Outline, Record, Type, Types
from byref.describe.room import size_within
from byref.describe.rows import Entries, Rows, ends
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
_CELLS: Final = 40
"""Cells of a row that are shown."""
_ENTRIES: Final = 4
"""Scalar entries of a map that are shown if these are all; of more, a few."""
_KEY: Final = 80
_LEVELS: Final = 60
_OPENED: Final = 100
"""Containers that are opened: of some hundred published documents none needed more than 94."""
_MAP: Final = 0.5
"""Levels that a map counts for; a member counts for one."""
_ALIKE: Final = 2
"""Links that begin alike, and objects with the same keys, that are shown of one object."""
_LINK: Final = 12
"""Characters in which links may begin alike."""
_LINK_SHOWN: Final = 30
"""Characters of a link that are shown at least, since its host says little."""
_LACKING_LEVELS: Final = 3
_MORE: Final = 2
"""Maximum elements that are shown because they have what those before them lack."""
_SHORT: Final = 120
"""Characters of an element up to which no other one that shows as much is shorter by enough to be shown in its place."""
_SHORTER: Final = 0.8
_WEIGHED: Final = 1_500
"""Maximum characters of an element that are weighed."""
_WORTH: Final = 16
"""Characters of the key of an entry that have to be outweighed by one more member that is lacking."""
_SECOND: Final = 1.5
_THIRD: Final = 2.5
"""Levels by which these elements are shown later than the first."""
_MAPPED: Final = 5_000
"""Maximum keys of a map among which its entries are chosen."""
_COUNTED_LEVELS: Final = 6
_VISITED: Final = 300
"""Maximum members of one element that are visited to count what it shows."""
_LATER: Final = 1.25
"""Levels by which links after the first, and null, are shown later than other members."""
_AGAIN: Final = 2
"""Members that are shown of an object whose shape was shown elsewhere."""
_MARK: Final = 22
"""Characters of a mark for what was left out."""
_GUESS: Final = 3
_MOST: Final = 12
_OPAQUE: Final = 20
"""Characters of the shortest id or digest that is cut short, and shown later than other members."""
_LONGEST: Final = 200
_OPAQUE_SHOWN: Final = 10
_OPAQUE_TEXT: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w+/=-]+")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d")


_K = TypeVar("_K")


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

    __slots__ = ("cost", "value")

    def __init__(self, value: object, cost: int = 0) -> None:
        self.value = value
        self.cost = cost
        """The characters that its place takes beside it."""

    def size(self, most: int) -> int:
        if type(self.value) is str:
            return min(len(self.value), _cut(self.value, most) + 10) + 2
        return min(size_within(self.value, 40), most + 10)


class _Object:
    __slots__ = ("keys", "members", "only", "record", "value")

    def __init__(self, value: dict[str, Any] | Entries, record: Record | None, only: Lacking | None = None) -> None:
        self.value = value
        self.record = record
        self.only = only
        """The keys that are shown at most; None for all."""
        self.members: dict[str, _Part] = {}


class _Array:
    __slots__ = ("has_header", "is_row", "items", "type", "value")

    def __init__(self, value: list[Any] | Rows, type_: Type | None) -> None:
        self.value = value
        self.type = type_.items if type_ is not None else None
        """The type of the items."""
        self.is_row = type_ is not None and bool(type_.cells)
        """Whether it is a row, in which the position of each cell says what it is."""
        self.has_header = type_ is not None and type_.has_header
        self.items: dict[int, _Part] = {}


_Part = _Scalar | _Object | _Array
Lacking = Mapping[str, "Lacking | None"]
"""The members that another value lacks; None for a member that it lacks altogether."""


class Examples:
    """Examples of one value: what all tries to make one share."""

    def __init__(self, value: object, outline: Outline) -> None:
        self._value = value
        self._types = Types(outline)
        self._elements = _Elements(self._types)
        self._strings: Sequence[int] = _STRINGS
        self._too_little: dict[int, int] = {}
        """The most characters in which there was no room for everything, by the characters of strings."""

    def fitted(self, budget: int, measure: Callable[[str], int], *, aim: int | None = None) -> Example | None:
        """Return an example of the value in at most `budget` tokens, counted by `measure`; None if none fits.

        Strings are cut shorter where the example would otherwise take more than `aim` tokens, and so are fewer elements shown.
        """
        self._strings = _STRINGS
        return most_within(
            budget,
            room=_GUESS * budget,
            high=_MOST * budget,
            make=lambda room: self._within(room, measure, budget if aim is None else aim),
            whole=lambda found: found.is_complete,
        )

    def _within(self, room: int, measure: Callable[[str], int], aim: int) -> Example:
        is_improvable = False
        for most in self._strings:
            is_last = most == _STRINGS[-1]
            if not is_last and room <= self._too_little.get(most, 0):
                is_improvable = True
                continue
            choice = _Choice(self._types, self._elements, room, most, must_be_complete=not is_last)
            choice.is_thrifty = is_last
            root = choice.of(self._value)
            is_improvable = is_improvable or not choice.is_complete
            if not choice.is_complete and not is_last:
                self._too_little[most] = room
                continue
            writing = _Writing(most)
            shown = writing.shown(root)
            text = compact(shown)
            tokens = measure(text)
            if tokens <= aim or is_last:
                break
            self._strings = self._strings[1:]  # with more room, it would take no fewer tokens
        is_whole = not (choice.is_empty or writing.cuts or writing.gaps)
        return Example(shown, text, tokens, is_whole, choice.is_complete and not is_improvable)


class _Choice:
    """Chooses what to show in about `room` characters, with at most `most` characters of each string."""

    def __init__(
        self, types: Types, elements: _Elements, room: int, most: int, *, must_be_complete: bool = False
    ) -> None:
        self._types = types
        self._elements = elements
        self._left = room
        self._unopened = _OPENED
        """How many more containers may be opened: a tree whose objects have nothing but objects would be opened to its last one."""
        self._most = most
        self._must_be_complete = must_be_complete
        """Whether it may stop as soon as it finds that something has no room."""
        self._pending: list[tuple[float, int, float, _Part, Callable[[_Part], None]]] = []
        self._count = 0
        self._seen: set[Record] = set()
        self._weights: dict[Record, float] = {}
        self.is_complete = True
        """Whether there was room for all that is to be shown."""
        self.is_thrifty = False
        """Whether less is shown than otherwise of what the first elements lack, and of members that are alike."""
        self.is_empty = False
        """Whether nothing was placed: there was no room, or it nests too deeply."""

    def of(self, value: object) -> _Part:
        root: list[_Part] = []
        self._offer(value, self._types.root, 0, root.append, 2)
        while self._pending and (self.is_complete or not self._must_be_complete):
            _, _, depth, part, place = heappop(self._pending)
            if depth > _LEVELS:
                continue
            if self._left < 4 + _MARK and root:
                self.is_complete = False
                break  # nothing that is pending takes less
            if isinstance(part, _Scalar):
                if part.size(self._most) + part.cost > self._left:
                    self.is_complete = False
                else:
                    self._left -= part.size(self._most) + part.cost
                    place(part)
                continue
            self._unopened -= 1
            if self._unopened < 0:
                if root:
                    continue
                self._pending.clear()  # of one path the end is shown, so that something is
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
        depth: float,
        place: Callable[[_Part], None],
        cost: int,
        only: Lacking | None = None,
        later: float = 0,
    ) -> bool:
        """Place a scalar if there is room for it, and note a container for later; return False if there is no room."""
        kind = type(value)
        part: _Part
        if (kind is dict or kind is Entries) and value:
            record = type_.record if type_ is not None else None
            part = _Object(value, record, only)
            rank = depth - self._weight(record) + later
        elif (kind is list or kind is Rows) and len(value):
            part = _Array(value, type_)
            record = part.type.record if part.type is not None else None
            rank = depth - self._weight(record) + later
        else:
            part = _Scalar(value, cost)
            if not later:
                cost += part.size(self._most)
                if cost > self._left:
                    self.is_complete = False
                    return False
                self._left -= cost
                place(part)
                return True
            rank = depth + later
        self._count += 1
        heappush(self._pending, (rank, self._count, depth, part, place))
        return True

    def _weight(self, record: Record | None) -> float:
        """Return the weight of a record as it was when it was first met, so that of equal ones the first one comes first."""
        return 0 if record is None else self._weights.setdefault(record, record.weight)

    def _open_object(self, part: _Object, depth: float, attach: Callable[[_Part], None]) -> None:
        record, value = part.record, part.value
        self._left -= 4
        keys: Sequence[str]
        entries: Sequence[_Chosen[str]] = ()
        again = False
        if part.only is not None:
            keys = list(part.only)
            if self.is_thrifty:
                keys = [key for key in keys if type(value[key]) not in (dict, list)] or keys
        elif record is None:
            keys = list(islice(value, _ENTRIES))
        else:
            keys = [key for key in islice(value, 2_000) if key in record.node.members]
            if keys:
                again = record in self._seen
                self._seen.add(record)
            if record.rest is not None:
                entries = self._elements.of_map(value, record)
        if again:
            # A shape that was shown before is recognized by its first members.
            keys = [*keys, *(entry.key for entry in entries)]
            scalars = (
                key for key in keys if type(value[key]) not in (dict, list, Rows, Entries) and value[key] is not None
            )
            keys, entries = list(islice(scalars, _AGAIN)), ()

        def offer(key: str, only: Lacking | None, later: float) -> None:
            def place(child: _Part) -> None:
                if not part.members:
                    attach(part)
                part.members[key] = child

            type_, level = None, 1.0
            if record is not None and key in record.node.members:
                type_ = self._types.member(record, key)
            elif record is not None:
                type_, level = record.rest, _MAP
            self._offer(value[key], type_, depth + level, place, min(len(key), _KEY) + 4, only, later)

        count = len(entries)
        for key, later in self._telling(part, keys):
            count += 1
            offer(key, self._only(part, key), later)
        for entry in [entry for entry in entries if not (self.is_thrifty and entry.only is not None)]:
            offer(entry.key, entry.only, entry.later)
        if count < len(value):
            self._left -= _MARK

    def _telling(self, part: _Object, keys: Sequence[str]) -> Iterator[tuple[str, float]]:
        """Yield the keys whose values teach something, and how much later than others each is shown.

        Scalars come before containers. Of links that begin alike, and of containers that hold the same, as translations do, only
        the first few come; links after the first, ids, and null give way to what is one level below.
        """
        most = 1 if self.is_thrifty else _ALIKE
        links: Counter[str] = Counter()
        alike: Counter[object] = Counter()
        below: list[str] = []
        for key in keys:
            member = part.value[key]
            later = 0.0
            if type(member) is str and len(member) > _LINK:
                if "://" in member[:_LINK]:
                    links[member[:_LINK]] += 1
                    if links[member[:_LINK]] > most:
                        continue
                    later = _LATER if links.total() > 1 else 0.0
                elif _is_opaque(member):
                    later = _LATER
            if type(member) is dict and member:
                shape = self._shape(part, key, member)
                alike[shape] += 1
                if alike[shape] <= (most if len(member) > 1 else _ALIKE):
                    below.append(key)
            elif type(member) in (list, Rows, Entries) and len(member):
                below.append(key)
            else:
                yield key, later if member is not None else _LATER
        for key in below:
            yield key, 0.0

    def _shape(self, part: _Object, key: str, member: dict[str, Any]) -> object:
        """Return something that is equal for members that hold the same: maps of equal values, and objects of equal keys."""
        record = None
        if part.record is not None and key in part.record.node.members:
            record = self._types.member(part.record, key).record
        if record is not None and record.rest is not None and not record.node.members:
            return record.rest.kinds, record.rest.record
        return tuple(islice(member, 8))

    @staticmethod
    def _only(part: _Object, key: str) -> Lacking | None:
        """Return what is shown of a member at most; None for all."""
        return None if part.only is None else part.only[key]

    def _open_array(self, part: _Array, depth: float, attach: Callable[[_Part], None]) -> None:
        chosen: Sequence[_Chosen[int]]
        if part.is_row:
            chosen = [_Chosen(at, cell) for at, cell in enumerate(ends(part.value)[0][:_CELLS])]
        else:
            chosen = [
                one
                for one in self._elements.of_array(part.value, part.type, has_header=part.has_header)
                if not (self.is_thrifty and one.later == _THIRD)
            ]
        for element in chosen:

            def place(child: _Part, at: int = element.key) -> None:
                if not part.items:
                    attach(part)
                part.items.setdefault(at, child)

            self._offer(element.value, part.type, depth, place, 2, element.only, element.later)
        if len(chosen) < len(part.value):
            self._left -= _MARK


@dataclass(frozen=True, slots=True)
class _Chosen(Generic[_K]):
    """An element of an array or map that is shown."""

    key: _K
    """Its place in the array, or its key in the map."""
    value: Any
    only: Lacking | None = None
    """What is shown of it at most; None for all."""
    later: float = 0.0
    """How many levels further from the top it counts than it is."""


class _Elements:
    """Chooses the elements of arrays and maps that are shown, each time the same."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self._arrays: dict[int, Sequence[_Chosen[int]]] = {}
        self._maps: dict[int, Sequence[_Chosen[str]]] = {}

    def of_array(
        self, values: list[Any] | Rows, type_: Type | None, *, has_header: bool = False
    ) -> Sequence[_Chosen[int]]:
        """Return the elements of an array that are shown; `type_` is that of its elements."""
        known = self._arrays.get(id(values))
        if known is None:
            are_rows = type_ is not None and type_.cells
            known = self._rows(values, has_header) if are_rows else self._of_array(values, type_)
            self._arrays[id(values)] = known
        return known

    def of_map(self, value: dict[str, Any] | Entries, record: Record) -> Sequence[_Chosen[str]]:
        """Return the entries of a map that are shown: the members that are no fields of its record."""
        known = self._maps.get(id(value))
        if known is None:
            known = self._maps[id(value)] = self._of_map(value, record)
        return known

    def _of_map(self, value: dict[str, Any] | Entries, record: Record) -> Sequence[_Chosen[str]]:
        names = [key for key in islice(value, _MAPPED) if key not in record.node.members]
        if len(names) > _CANDIDATES + _SPREAD:
            step = (len(names) - _CANDIDATES) // (_SPREAD - 1)
            names = [*names[:_CANDIDATES], *names[_CANDIDATES:-1:step][: _SPREAD - 1], names[-1]]
        candidates = [(key, value[key]) for key in names]
        if any(type(one) in (dict, list, Rows) for _, one in candidates):
            return self._best(candidates, record.rest)
        return [_Chosen(*one) for one in (candidates if len(candidates) <= _ENTRIES else candidates[:2])]

    @staticmethod
    def _rows(values: list[Any] | Rows, has_header: bool) -> Sequence[_Chosen[int]]:
        """Return the row with fewest empty cells, the first of several, behind the row that names the columns if there is one."""
        header, rows = [], list(_candidates(values))
        if has_header:
            header, rows = [_Chosen(*rows[0])], rows[1:]
        return [*header, _Chosen(*min(rows, key=lambda row: sum(map(_is_empty, row[1]))))]

    def _of_array(self, values: list[Any] | Rows, type_: Type | None) -> Sequence[_Chosen[int]]:
        count = len(values)
        candidates = list(_candidates(values))
        if not any(type(one) in (dict, list) for _, one in candidates):
            kinds: dict[type, int] = {}
            for at, one in candidates:
                kinds.setdefault(type(one), at)
            last = 1 if set(kinds) == {str} else count - 1  # of numbers, the last one may be their greatest
            places = range(count) if count <= _FEW else sorted({0, 1, last, *kinds.values()})
            known = dict(candidates)
            return [_Chosen(at, known[at]) for at in places if at in known]
        chosen = self._best(candidates, type_)
        best = chosen[0].value
        if len(chosen) == 1 and _is_ordered(best, candidates):
            at, last = candidates[-1]
            if at == count - 1 and at != chosen[0].key and size_within(last, 400) <= 400:
                chosen.append(_Chosen(at, last, dict.fromkeys(last), _SECOND))
        return chosen

    def _best(self, candidates: Sequence[tuple[_K, Any]], type_: Type | None) -> list[_Chosen[_K]]:
        """Return the element that shows most, one of each other kind, and those that have what all before them lack."""
        places = _Places(self._types)
        counts = [places.count(one, type_) for _, one in candidates]
        most_shown = max(counts)
        full = [one for one, count in zip(candidates, counts, strict=True) if count == most_shown]
        sizes: dict[_K, int] = {}

        def size_of(element: tuple[_K, Any]) -> int:
            if (known := sizes.get(element[0])) is None:
                known = sizes[element[0]] = _size(element)
            return known

        key, best = full[0]
        size = size_of(full[0])
        if size > _SHORT:
            shortest = min(full[:_CANDIDATES], key=size_of)
            if size_of(shortest) < _SHORTER * size:
                key, best = shortest
        chosen = [_Chosen(key, best)]
        for kind in {type(one): None for _, one in candidates}:
            if kind is not type(best) and kind is not type(None):
                chosen.append(_Chosen(*next((key, one) for key, one in candidates if type(one) is kind), later=0.5))
        shown = best
        if isinstance(key, int):  # of equal ones, a neighbour leaves no gap that has to be counted
            at = key
            candidates = sorted(candidates, key=lambda one: abs(cast(int, one[0]) - at))
        else:
            candidates = sorted(candidates, key=size_of)
        for more in range(_MORE):
            lacking, most, found = {}, -inf, None
            with_more: list[tuple[_K, Any]] = []
            for key, one in candidates:
                missing, count = self._lacking(shown, one, type_, 0)
                if count:
                    with_more.append((key, one))
                worth = count - (len(key) / _WORTH if isinstance(key, str) else 0)
                if count and worth > most:
                    lacking, most, found = missing, worth, (key, one)
            if found is None:
                break
            chosen.append(_Chosen(*found, lacking, _SECOND if not more else _THIRD))
            candidates = with_more  # the others lack nothing beside more, either
            shown = _joined(shown, found[1], lacking)
        return chosen

    def _lacking(
        self, best: object, one: object, type_: Type | None, level: int
    ) -> tuple[dict[str, Lacking | None], int]:
        """Return the members of a value that another one lacks or has empty, and their number."""
        found: dict[str, Lacking | None] = {}
        count = 0
        if type(best) is not dict or type(one) is not dict:
            return found, 0
        record = type_.record if type_ is not None else None
        fields = None if record is None or record.rest is None else record.node.members
        # Another key of a map shows nothing new, as long as one of them is shown.
        is_mapped = fields is not None and any(other or not _is_empty(other) for other in islice(best.values(), 20))
        if is_mapped and not fields:
            return found, 0
        for key, member in islice(one.items(), 300):
            is_field = fields is None or key in fields
            if (is_mapped and not is_field) or (not member and _is_empty(member)):
                continue
            other = best.get(key)
            if not other and _is_empty(other):
                found[key] = None
                count += 1
            elif is_field and type(member) is dict and type(other) is dict and level < _LACKING_LEVELS:
                below = self._types.member(record, key) if record is not None and key in record.node.members else None
                missing, more = self._lacking(other, member, below, level + 1)
                if more:
                    found[key] = missing
                    count += more
        return found, count


def _size(element: tuple[object, Any]) -> int:
    """Return about how many characters an element of an array or map takes."""
    key, value = element
    return size_within(value, _WEIGHED) + (len(key) if isinstance(key, str) else 0)


def _joined(shown: dict[str, Any], more: dict[str, Any], only: Lacking) -> dict[str, Any]:
    """Return an object with the members of two of which both are shown, of the second only some."""
    return shown | {
        key: more[key] if below is None else _joined(shown[key], more[key], below) for key, below in only.items()
    }


class _Places:
    """Counts the places at which elements have values, so that the one that shows most can be chosen."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self._left = 0

    def count(self, value: object, type_: Type | None) -> int:
        """Return at how many places a value shows something; all entries of a map are at one place."""
        self._left = _VISITED
        return self._below(value, type_, _COUNTED_LEVELS)

    def _below(self, value: object, type_: Type | None, levels: int) -> int:
        if levels and type(value) is list:
            items = type_.items if type_ is not None else None
            counts = (self._below(one, items, levels - 1) for one in value[:_FEW] if type(one) in (dict, list))
            return max(counts, default=0)
        if type(value) is not dict:
            return 0
        record = type_.record if type_ is not None else None
        count = 0
        is_mapped = False
        for key, member in value.items():
            self._left -= 1
            if self._left < 0:
                break
            if not member and _is_empty(member):
                continue
            is_field = record is None or record.rest is None or key in record.node.members
            if not is_field and is_mapped:
                continue
            is_mapped = is_mapped or not is_field
            count += 1
            if levels and type(member) in (dict, list):
                below = None
                if record is not None:
                    below = self._types.member(record, key) if key in record.node.members else record.rest
                count += self._below(member, below, levels - 1)
        return count


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
        are_alike = set(map(type, head)) == {dict}
        sizes = list(map(len, head)) if are_alike else [len(one) if type(one) is dict else 0 for one in head]
        places.add(sizes.index(max(sizes)))
    for at in sorted(places):
        if at >= _CANDIDATES:
            yield at, head[at]


def _is_empty(value: object) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _is_opaque(text: str) -> bool:
    """Tell whether a string is an id or digest, of which a reader learns little."""
    return len(text) >= _OPAQUE and _OPAQUE_TEXT.fullmatch(text[:_LONGEST]) is not None


def _cut(text: str, most: int) -> int:
    """Return how many characters of a string are shown if it is cut."""
    if most == _STRINGS[0]:
        return most
    if "://" in text[:_LINK]:
        return max(most, _LINK_SHOWN)
    return min(most, _OPAQUE_SHOWN) if _is_opaque(text) else most


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
            # The members are written in the object's order. All that are shown are among its first keys.
            left = len(part.members)
            for key in part.value:
                if not left:
                    break
                if (child := part.members.get(key)) is None:
                    continue
                left -= 1
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
        most = _cut(value, self._most)
        if len(value) <= most + 10:
            return encodable(value)
        self.cuts += 1
        return f"{encodable(value[:most])}… +{len(value) - most:,} chars"
