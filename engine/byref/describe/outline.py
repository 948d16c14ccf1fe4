"""The shape of a value in a short notation, to the leaves: `{total:int,rows:[500 of {id:int,name:str,tags?:[str]}]}`.

- `str int num bool null` are types, `a|b` is either; `[type]` is an array, `[160 of type]` one of that length.
- `{key:type,…}` is an object; `key?` is not in every one of the objects; `(a,b):type` are two keys of one type.
- `{*:type}` is a map, an object whose keys are data; `{*(554):type}` has 554 keys.
- `User={…}` names the shape of an object at its first place; `User` is then an object of this shape.
- `; unmarked: str` at the end gives the type of all keys that stand without one.
- `12 more keys`, `{12 keys}` and `…` stand for what did not fit.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from math import log10
from typing import Final

from byref.describe.maps import as_map
from byref.describe.nodes import ARRAY, BOOLEAN, CONTAINER, INTEGER, NULL, NUMBER, OBJECT, STRING, Node, merge
from byref.describe.paths import written_key
from byref.describe.rows import Rows
from byref.describe.search import most_within

_SCALARS: Final = ((STRING, "str"), (INTEGER, "int"), (NUMBER, "num"), (BOOLEAN, "bool"))
_LEVELS: Final = 40
"""Maximum levels of arrays, maps and objects that are written; `…` stands for what is below."""
_STUB: Final = 9
"""Characters of an object that is not written out, `{12 keys}`."""
_NEAR: Final = 0.75
"""Share of keys that two objects have in common, from which on they are written as one shape."""
_FEW: Final = 6
"""Objects with fewer keys share a shape only if all keys are equal."""
_SHAPES: Final = 300
"""Maximum shapes that are compared with a new one."""
_MERGES: Final = 2_000
"""Maximum places that are joined into shapes; each may take long."""
_SHORT: Final = 16
"""Characters up to which a shape is repeated rather than named."""
_MEASURED: Final = 64
"""Members of an object among which arrays are measured."""
_MEASURED_LEVELS: Final = 3
_GUESS: Final = 3
"""Characters per token for the first try."""
_MOST: Final = 12


@dataclass(frozen=True, slots=True)
class Outlined:
    """The outline of a value within a budget."""

    text: str
    tokens: int
    is_whole: bool
    """Whether it shows every place of the value."""


class Type:
    """What is known of the values at one place: their scalar kinds, the items of arrays, and the shape of objects."""

    __slots__ = ("is_cut", "items", "kinds", "length", "record")

    def __init__(self, kinds: int) -> None:
        self.kinds = kinds
        self.items: Type | None = None
        """The items of arrays; None if there is no array, or if all are empty."""
        self.length: int | None = None
        """The length of the only array at this place."""
        self.record: Record | None = None
        self.is_cut = False
        """Whether containers at this place were not read, because they nest too deeply."""


class Record:
    """A shape of objects: its members, and the values of its keys that are data. Objects at several places may share it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.places = [node]
        self.required = node.required or set()
        self.members: dict[str, Type] = {}
        """The types of the members; filled when it is first looked into."""
        self.rest: Type | None = None

    @property
    def keys(self) -> int:
        """The number of its keys."""
        return len(self.node.members) + len(self.node.rest_keys)


class Outline:
    """The types of a value, found as far as they are asked for."""

    def __init__(self, node: Node, value: object = None) -> None:
        self._lengths: dict[int, int] = {}
        """The lengths of arrays of which there is one, by the `id()` of their place."""
        self._measure(node, value, 0)
        self._records: dict[frozenset[str], Record] = {}
        self._of_place: dict[int, tuple[Node, Record]] = {}
        self._merges = 0
        self._types: dict[int, tuple[Node, Type]] = {}
        self._node = node

    @property
    def root(self) -> Type:
        """The type of the value itself."""
        return self.type_of(self._node)

    def type_of(self, node: Node) -> Type:
        """Return the type of the values at a place."""
        known = self._types.get(id(node))
        if known is not None:
            return known[1]
        found = Type(node.kinds)
        found.is_cut = node.is_cut
        found.length = self._lengths.get(id(node))
        self._types[id(node)] = node, found
        if node.kinds & OBJECT:
            found.record = self._record(node)
        if node.items is not None and node.items.kinds:
            found.items = self.type_of(node.items)
        return found

    def look_into(self, record: Record) -> None:
        """Find the types of a record's members."""
        if not record.members:
            record.members = {key: self.type_of(member) for key, member in record.node.members.items()}

    def fitted(self, budget: int, measure: Callable[[str], int]) -> Outlined | None:
        """Return the most detailed outline in at most `budget` tokens; None if there is none."""
        # Places that join a shape may change what was found before them, so all that fits is found first.
        high = _MOST * budget
        return most_within(
            budget,
            room=_GUESS * budget,
            high=high,
            make=lambda room: self._written(room, measure),
            whole=lambda found: found.is_whole,
        )

    def _measure(self, node: Node, value: object, depth: int) -> None:
        if type(value) is list or type(value) is Rows:
            self._lengths[id(node)] = len(value)
        elif type(value) is dict and depth < _MEASURED_LEVELS:
            for key, member in islice(node.members.items(), _MEASURED):
                if member.kinds & CONTAINER and key in value:
                    self._measure(member, value[key], depth + 1)

    def _written(self, room: int, measure: Callable[[str], int]) -> Outlined:
        while True:
            merges = self._merges
            shown, is_whole = self._select(room)
            if merges == self._merges:
                break
        text = _Writing(shown).text(self.root)
        return Outlined(text, measure(text), is_whole)

    def _record(self, node: Node) -> Record:
        known = self._of_place.get(id(node))
        if known is not None:
            return known[1]
        folded = as_map(node)
        keys = frozenset(folded.members)
        record = self._alike(keys) if folded.rest is None and keys else None
        if record is None:
            record = Record(folded)
            if folded.rest is None and keys:
                self._records[keys] = record
            if folded.rest is not None:
                record.rest = self.type_of(folded.rest)
        else:
            self._merges += 1
            record.node = merge([record.node, folded])
            record.places.append(node)
            record.required = record.node.required or set()
            record.members = {}
            self._records[frozenset(record.node.members)] = record
        self._of_place[id(node)] = node, record
        return record

    def _alike(self, keys: frozenset[str]) -> Record | None:
        found = self._records.get(keys)
        if found is not None or len(keys) < _FEW or len(self._records) > _SHAPES or self._merges > _MERGES:
            return found
        for others, record in self._records.items():
            if len(others) >= _FEW and len(keys & others) >= _NEAR * len(keys | others):
                return record
        return None

    def _select(self, room: int) -> tuple[dict[Record, list[str]], bool]:
        """Choose the members to write in about `room` characters: those nearest to the top first."""
        shown: dict[Record, list[str]] = {}
        pending: list[tuple[float, int, Record]] = []
        seen: set[Record] = set()
        depths: dict[Record, int] = {}

        def found(type_: Type, rank: int) -> int:
            """Note the records of a type, and return its characters, each record as a stub."""
            size, levels = 0, 0
            while True:
                levels += 1
                size += 4 * (type_.kinds & ~(ARRAY | OBJECT)).bit_count()
                record = type_.record
                if record is not None:
                    if record not in seen:
                        seen.add(record)
                        depths[record] = rank
                        heappush(pending, (rank - weight(record), len(seen), record))
                    size += _STUB
                    if record.rest is not None and type_.items is not None:
                        size += found(record.rest, rank)
                below = type_.items or (record.rest if record is not None else None)
                if below is None or levels > _LEVELS:
                    return size
                size, type_ = size + 3, below

        room -= found(self.root, 0)
        is_whole = True
        while pending:
            _, _, record = heappop(pending)
            rank = depths[record]
            if record in shown or not record.node.members:
                continue
            self.look_into(record)
            most, chosen = room, []
            for key in self._ranked(record):
                cost = len(key) + 2 + found(record.members[key], rank + 1)
                if cost > most:
                    break
                most -= cost
                chosen.append(key)
            is_whole = is_whole and len(chosen) == len(record.members)
            if chosen:
                room = most + (_STUB if len(chosen) == len(record.members) else 0)
                shown[record] = chosen
        return shown, is_whole

    @staticmethod
    def _ranked(record: Record) -> Sequence[str]:
        """Return the keys of a record, those first that all of its objects have."""
        keys = list(record.members)
        return [key for key in keys if key in record.required] + [key for key in keys if key not in record.required]


class _Writing:
    """Writes the chosen members."""

    def __init__(self, shown: dict[Record, list[str]]) -> None:
        self._shown = shown
        self._names: dict[Record, str] = {}
        self._defined: set[Record] = set()
        self._unmarked = ""

    def text(self, root: Type) -> str:
        visits, recursive = Counter[Record](), set[Record]()
        marks: Counter[str] = Counter()
        hints: dict[Record, str] = {}
        self._visit(root, "", visits, recursive, set(), hints, marks, 0)
        taken: set[str] = set()
        for record, count in visits.items():
            if count > 1 and record in self._shown and (record in recursive or self._is_long(record)):
                self._names[record] = name = _named(hints[record], taken)
                taken.add(name)
        [(mark, count)] = marks.most_common(1) or [("", 0)]
        if count >= 5:
            self._unmarked = mark
        text = self._type(root, 0)
        return f"{text}; unmarked: {self._unmarked}" if self._unmarked else text

    def _visit(
        self,
        type_: Type,
        hint: str,
        visits: Counter[Record],
        recursive: set[Record],
        inside: set[Record],
        hints: dict[Record, str],
        marks: Counter[str],
        levels: int,
    ) -> None:
        """Count how often each record is written."""
        if levels > _LEVELS:
            return
        if type_.items is not None:
            self._visit(type_.items, hint, visits, recursive, inside, hints, marks, levels + 1)
        record = type_.record
        if record is None:
            return
        visits[record] += 1
        if visits[record] > 1:
            if record in inside:
                recursive.add(record)
            return
        hints[record] = hint
        inside.add(record)
        for key in self._shown.get(record, ()):
            member = record.members[key]
            if (mark := _mark(member)) is not None:
                marks[mark] += 1
            self._visit(member, key, visits, recursive, inside, hints, marks, levels + 1)
        if record.rest is not None:
            self._visit(record.rest, hint, visits, recursive, inside, hints, marks, levels + 1)
        inside.discard(record)

    def _is_long(self, record: Record) -> bool:
        return sum(len(key) + 2 for key in record.node.members) > _SHORT

    def _type(self, type_: Type, levels: int) -> str:
        if levels > _LEVELS:
            return "…"
        kinds = type_.kinds & ~INTEGER if type_.kinds & NUMBER else type_.kinds
        words = [word for kind, word in _SCALARS if kinds & kind]
        if type_.is_cut:
            words.append("…")
        else:
            if kinds & ARRAY:
                length = "" if type_.length is None else f"{type_.length} of "
                words.append(f"[{length}{self._type(type_.items, levels + 1)}]" if type_.items is not None else "[]")
            if type_.record is not None:
                words.append(self._record(type_.record, levels))
        if kinds & NULL:
            words.append("null")
        return "|".join(words)

    def _record(self, record: Record, levels: int) -> str:
        name = self._names.get(record)
        if name is not None:
            if record in self._defined:
                return name
            self._defined.add(record)
        body = self._body(record, levels)
        return body if name is None else f"{name}={body}"

    def _body(self, record: Record, levels: int) -> str:
        chosen = set(self._shown.get(record, ()))
        if not chosen and record.rest is None:
            return f"{{{_keys(record.keys)}}}" if record.keys else "{}"
        # Keys of one type are written together, in the place of the first.
        parts: dict[str, list[str]] = defaultdict(list)
        for key, member in record.members.items():
            if key not in chosen:
                continue
            type_ = "" if _mark(member) == self._unmarked and self._unmarked else self._type(member, levels + 1)
            written = written_key(key) + ("" if key in record.required else "?")
            if not type_ or len(type_) > 200 or "=" in type_:
                parts[f"{written}:{type_}" if type_ else written].append("")
            else:
                parts[f":{type_}"].append(written)
        members = []
        for part, keys in parts.items():
            if not keys[0]:
                members.append(part)
            elif len(keys) == 1:
                members.append(keys[0] + part)
            else:
                members.append(f"({','.join(keys)}){part}")
        if len(chosen) < len(record.node.members):
            members.append(_keys(len(record.node.members) - len(chosen), "more "))
        if record.rest is not None:
            # Of several objects, the number of all their keys together would say little.
            count = f"({len(record.node.rest_keys):,})" if record.node.is_single else ""
            members.append(f"*{count}:{self._type(record.rest, levels + 1)}")
        return f"{{{','.join(members)}}}"


def _mark(type_: Type) -> str | None:
    """Return the type if it is one scalar type, which may be left out."""
    kinds = type_.kinds
    return next((word for kind, word in _SCALARS if kinds == kind), "num" if kinds == INTEGER | NUMBER else None)


def weight(record: Record) -> float:
    """Return by how many levels nearer to the top a record counts because there are many objects of its shape."""
    return 0.8 * log10(max(record.node.objects, 1))


def _keys(count: int, more: str = "") -> str:
    return f"{count:,} {more}{'key' if count == 1 else 'keys'}"


def _named(hint: str, taken: set[str]) -> str:
    """Return a name for a shape, by the key under which it is first met: `PullRequest` for `pull_request`."""
    words = re.findall(r"[A-Za-z][a-z0-9]*", hint)[:3]
    name = "".join(word[0].upper() + word[1:] for word in words)[:24] or "Shape"
    numbered, number = name, 1
    while numbered in taken:
        number += 1
        numbered = f"{name}{number}"
    return numbered
