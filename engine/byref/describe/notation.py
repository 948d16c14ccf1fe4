"""The short notation of types: `{total:int,rows:[500 of {id:int,name:str,tags?:[str]}]}`.

- `str int num bool null` are types, `a|b` is either; `[type]` is an array, `[160 of type]` one of that length.
- `[id:int,name:str]` is a row without keys: an array whose first item is an integer, in a column that a header calls `id`.
  `[int,str]` is one whose columns have no names; `[header,500 of [id:int,name:str]]` has the names in its first row.
- `{key:type,…}` is an object; `key?` is not in every one of the objects, `key?(4)` is in four; `(a,b):type` are two keys of one type.
- `{*:type}` is a map, an object whose keys are data; `{*(554):type}` has 554 keys. Beside other keys, `*` is every further key.
- `User={…}` names the shape of an object at its first place; `User` is then an object of this shape.
- `; unmarked: str` at the end gives the type of all keys that stand without one.
- `{12 keys}`, `12 more keys` and `…` stand for what did not fit.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Final

from byref.describe.jsontext import compact
from byref.describe.nodes import ARRAY, BOOLEAN, INTEGER, NULL, NUMBER, STRING
from byref.describe.outline import Record, Type
from byref.describe.paths import written_key

_SCALARS: Final = ((STRING, "str"), (INTEGER, "int"), (NUMBER, "num"), (BOOLEAN, "bool"))
_WORDS: Final = frozenset(word for _, word in _SCALARS) | {"null"}
"""Words that stand for types: in a row, a column of such a name is written in quotes."""
_LEVELS: Final = 60
"""Maximum levels of arrays, maps and objects that are written."""
_SHORT: Final = 16
"""Characters up to which a shape is repeated rather than named, if it is quite the same everywhere."""
_UNMARKED: Final = 5
"""Minimum keys of the most frequent scalar type that makes it worth leaving out."""
_GROUPED: Final = 200
"""Maximum characters of a type that is written once for several keys."""
_NAME_CHARS: Final = 24


def written(root: Type, *, has_counts: bool) -> str:
    """Return a type in the short notation, with the members that were looked into.

    With counts, a key that not all objects have is written with the number of those that have it, where one place has all of them.
    """
    return _Writing(root, has_counts=has_counts).text


class _Writing:
    def __init__(self, root: Type, *, has_counts: bool) -> None:
        self._has_counts = has_counts
        self._visits: Counter[Record] = Counter()
        self._recursive: set[Record] = set()
        self._marks: Counter[str] = Counter()
        self._hints: dict[Record, str] = {}
        self._visit(root, "", set(), 0)
        self._names = self._named()
        self._defined: set[Record] = set()
        self._shared = 0
        """Records of several places around what is being written: no length in them holds everywhere."""
        [(mark, count)] = self._marks.most_common(1) or [("", 0)]
        self._unmarked = mark if count >= _UNMARKED else None
        self.text = self._type(root, 0)
        if self._unmarked is not None:
            self.text += f"; unmarked: {self._unmarked}"

    def _visit(self, type_: Type, hint: str, inside: set[Record], levels: int) -> None:
        """Count how often each record and each scalar type is written."""
        if levels > _LEVELS:
            return
        if type_.items is not None:
            self._visit(type_.items, hint, inside, levels + 1)
        for cell, below in type_.cells:
            if cell.is_named and (mark := _scalar(below)) is not None:
                self._marks[mark] += 1
            if type_.items is None:
                self._visit(below, str(cell), inside, levels + 1)
        record = type_.record
        if record is None:
            return
        self._visits[record] += 1
        if self._visits[record] > 1:
            if record in inside:
                self._recursive.add(record)
            return
        self._hints[record] = hint
        inside.add(record)
        for key, member in record.members.items():
            mark = _scalar(member)
            if mark is not None:
                self._marks[mark] += 1
            self._visit(member, key, inside, levels + 1)
        if record.rest is not None:
            self._visit(record.rest, hint, inside, levels + 1)
        inside.discard(record)

    def _named(self) -> dict[Record, str]:
        names: dict[Record, str] = {}
        taken: set[str] = set()
        for record, visits in self._visits.items():
            is_long = sum(len(key) + 2 for key in record.members) > _SHORT
            if record.members and (record.is_varied or (visits > 1 and (is_long or record in self._recursive))):
                names[record] = _name(self._hints[record], taken)
                taken.add(names[record])
        return names

    def _rarely(self, record: Record, key: str) -> str:
        """Return the mark of a key that not all objects have, with how many have it if that was counted at one place alone."""
        is_counted = record.joined == 1 and not self._shared and not record.is_varied and not record.node.is_sampled
        if not self._has_counts or not is_counted:
            return "?"
        return f"?({record.node.count(key):,})"

    def _type(self, type_: Type, levels: int) -> str:
        if levels > _LEVELS or type_.is_cut:
            return "…"
        kinds = type_.kinds & ~INTEGER if type_.kinds & NUMBER else type_.kinds
        words = [word for kind, word in _SCALARS if kinds & kind]
        if kinds & ARRAY:
            length = "" if type_.length is None or self._shared else f"{type_.length - type_.has_header:,} of "
            header = "header," if type_.has_header else ""
            if type_.cells:
                words.append(f"[{self._row(type_, levels)}]")
            else:
                words.append(
                    "[]" if type_.items is None else f"[{header}{length}{self._type(type_.items, levels + 1)}]"
                )
        if type_.record is not None:
            words.append(self._record(type_.record, type_.keys, levels))
        if kinds & NULL:
            words.append("null")
        return "|".join(words)

    def _row(self, row: Type, levels: int) -> str:
        """Return the cells of a row in their order; neighbours of one type are written together."""
        parts: list[tuple[str, list[str]]] = []
        for cell, below in row.cells:
            scalar = _scalar(below)
            is_alone = len(row.cells) == 1 and not row.more_cells  # without its type, it would look like a shape's name
            is_unmarked = cell.is_named and scalar is not None and scalar == self._unmarked and not is_alone
            type_ = "" if is_unmarked else self._type(below, levels + 1)
            name = "" if not cell.is_named else compact(str(cell)) if cell in _WORDS else written_key(str(cell))
            if name and type_ and parts and parts[-1][0] == type_ and "=" not in type_:
                parts[-1][1].append(name)
            else:
                parts.append((type_, [name]))
        cells = [
            type_
            if not names[0]
            else (names[0] if len(names) == 1 else f"({','.join(names)})") + f":{type_}" * bool(type_)
            for type_, names in parts
        ]
        if row.more_cells:
            cells.append(f"{row.more_cells:,} more {'cell' if row.more_cells == 1 else 'cells'}")
        return ",".join(cells)

    def _record(self, record: Record, keys: int, levels: int) -> str:
        if not record.members and record.rest is None:
            return f"{{{_keys(keys)}}}" if keys else "{}"
        name = self._names.get(record)
        if name is not None and record in self._defined:
            return name
        self._defined.add(record)
        is_shared = self._visits[record] > 1
        self._shared += is_shared
        body = self._body(record, levels)
        self._shared -= is_shared
        return body if name is None else f"{name}={body}"

    def _body(self, record: Record, levels: int) -> str:
        # Keys of one type are written together, at the place of the first.
        parts: dict[str, list[str]] = defaultdict(list)
        required = record.node.required or ()
        for key in record.node.members:
            member = record.members.get(key)
            if member is None:
                continue
            scalar = _scalar(member)
            type_ = "" if scalar == self._unmarked and scalar is not None else f":{self._type(member, levels + 1)}"
            one = written_key(key) + ("" if key in required else self._rarely(record, key))
            if not type_ or len(type_) > _GROUPED or "=" in type_:
                parts[one + type_] = []
            else:
                parts[type_].append(one)
        members = []
        for part, keys in parts.items():
            members.append(part if not keys else keys[0] + part if len(keys) == 1 else f"({','.join(keys)}){part}")
        if record.rest is not None:
            # Of several objects, the number of all their keys together would say little.
            count = f"({record.folded:,})" if record.node.is_single and not self._shared else ""
            members.append(f"*{count}:{self._type(record.rest, levels + 1)}")
        elif len(record.members) < len(record.node.members):
            members.append(_keys(len(record.node.members) - len(record.members), "more "))
        return f"{{{','.join(members)}}}"


def _scalar(type_: Type) -> str | None:
    """Return the type if it is one scalar type, which may be left out."""
    return next(
        (word for kind, word in _SCALARS if type_.kinds == kind),
        "num" if type_.kinds == INTEGER | NUMBER else None,
    )


def _keys(count: int, more: str = "") -> str:
    return f"{count:,} {more}{'key' if count == 1 else 'keys'}"


def _name(hint: str, taken: set[str]) -> str:
    """Return a name for a shape, after the key at which it is first met: `PullRequest` for `pull_request`."""
    words = re.findall(r"[A-Za-z][a-z0-9]*", hint[:80])[:3]
    name = "".join(word[0].upper() + word[1:] for word in words)[:_NAME_CHARS] or "Shape"
    numbered, number = name, 1
    while numbered in taken:
        number += 1
        numbered = f"{name}{number}"
    return numbered
