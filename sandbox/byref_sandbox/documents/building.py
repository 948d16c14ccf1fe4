"""Tables as they leave the jail: names of columns, types, and records as JSON, one a line."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from byref_sandbox import wire
from byref_sandbox.jsontext import encodable
from byref_sandbox.tabletext.kinds import PATTERNS, is_exact

MAX_COLUMNS: Final = 20_000
"""Columns of one table."""
_BATCH: Final = 1_000
_MAX_BYTES_SHOWN: Final = 64 << 10
"""Longer binary values are named by their size: as base64 they are of no use to anybody."""
_MAX_AROUND: Final = 2 << 20
"""Characters of what stands before and after a table, and of the names of its columns."""
_INTEGER: Final = re.compile(PATTERNS["integer"])
_DECIMAL: Final = re.compile(rf"(?!-0(?:\.0*)?(?:[eE]|\Z)|-?\.|-?[0-9]+[eE][0-9]){PATTERNS['long']}")
"""As JSON writes numbers, checked by `is_exact`, too. Zero with a sign would come back without it, and `12e3` may be a name."""
_DATE: Final = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
_DATETIME: Final = re.compile(_DATE.pattern + r"[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_NAMES: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "text",
    datetime.date: "date",
    datetime.datetime: "datetime",
    datetime.time: "time",
    datetime.timedelta: "duration",
    bytes: "bytes",
    dict: "object",
    list: "array",
}
_encoder: Final = msgspec.json.Encoder(decimal_format="number")
_Item = TypeVar("_Item")


class NotATable(Exception):
    """Why something is no table, or cannot be read as one."""


class TooBig(NotATable):
    """The records take more bytes than there is room for."""


def unique_names(given: Iterable[object], *, as_they_are: bool = False) -> list[str]:
    """Return names for columns, each another: `name_2` where one came before, `column_3` where there is none.

    Names of a format that has such are kept `as_they_are`, with their blanks, and may be empty; others are read off cells.
    """
    texts = ["" if name is None else encodable(str(name)) for name in given]
    stems = texts if as_they_are else [" ".join(text.split()) for text in texts]
    taken = {*stems}
    made: list[str] = []
    seen: set[str] = set()
    counts: dict[str, int] = {}
    for number, stem in enumerate(stems, 1):
        if not as_they_are:
            stem = stem or f"column_{number}"
        name = stem
        while name in seen or (name != stem and name in taken):
            counts[stem] = counts.get(stem, 1) + 1
            name = f"{stem}_{counts[stem]}"
        seen.add(name)
        made.append(name)
    return made


def check_width(columns: int) -> None:
    """Raise NotATable of too many columns."""
    if columns > MAX_COLUMNS:
        raise NotATable(f"it has {columns:,} columns; a table has at most {MAX_COLUMNS:,}")


def batches(items: Iterable[_Item], size: int = _BATCH) -> Iterable[list[_Item]]:
    """Yield lists of at most `size` items."""
    following = iter(items)
    while batch := list(islice(following, size)):
        yield batch


class Records:
    """Writes the records of one table, and takes note of what is in each column.

    Cells are what JSON has, dates and times of Python, bytes, or `msgspec.Raw`, which is written as it is.
    """

    def __init__(self, titles: Sequence[object], room: int, *, as_they_are: bool = False) -> None:
        """`titles` are the names in the document, used as `unique_names` says; `room` bounds the bytes of the records. Raise NotATable."""
        check_width(len(titles))
        self._titles = ["" if title is None else encodable(str(title)) for title in titles]
        self.names = unique_names(titles, as_they_are=as_they_are)
        self._room = room
        self._kinds: list[set[type]] = [set() for _ in titles]
        self._nulls = [0] * len(titles)
        self._written = bytearray(b"[")
        self._least = len(_encoder.encode(dict.fromkeys(self.names, 0))) + 2
        """Bytes of the shortest record, with what parts it from the next."""
        self.rows = 0
        self.not_finite = 0
        self.cut = 0
        """Binary values that are named by their size."""

    def expect(self, rows: int, values: int = 0) -> None:
        """Raise TooBig if so many rows more, or so many values in them, have no room however short each is.

        A format may declare a billion nulls in some bytes: to make them takes longer than to count them.
        """
        self._check_room(len(self._written) + max(rows * self._least, values * 2))

    def _check_room(self, size: int) -> None:
        if size > self._room:
            raise TooBig(f"its records take more than the {self._room:,} bytes that there is room for")

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write some rows, each with as many cells as there are columns; raise TooBig."""
        for number, column in enumerate(zip(*rows, strict=True)):
            kinds = set(map(type, column))
            if type(None) in kinds:
                self._nulls[number] += column.count(None)
            if float in kinds:
                odd = sum(cell != cell or cell in (_INFINITY, -_INFINITY) for cell in column if type(cell) is float)
                self.not_finite += odd
                self._nulls[number] += odd
            self._kinds[number] |= kinds
        encode, names = _encoder.encode, self.names
        for row in rows:
            try:
                line = encode(dict(zip(names, row, strict=True)))
            except (UnicodeEncodeError, TypeError, msgspec.ValidationError):
                line = encode(dict(zip(names, map(self._plain, row), strict=True)))
            self._written += b"\n" if self._written == b"[" else b",\n"
            self._written += line
            self._check_room(len(self._written))
        self.rows += len(rows)

    def _plain(self, cell: Any) -> Any:
        if isinstance(cell, str):
            return encodable(cell)
        if isinstance(cell, dict):
            return {encodable(str(key)): self._plain(value) for key, value in cell.items()}
        if isinstance(cell, list | tuple):
            return [self._plain(value) for value in cell]
        if cell is None or isinstance(cell, bool | int | float | bytes | msgspec.Raw | datetime.timedelta):
            return cell
        return cell.isoformat() if hasattr(cell, "isoformat") else encodable(str(cell))

    def shown(self, cell: bytes) -> bytes | str:
        """Return a binary value, which is written as base64, or its size in words if it is long."""
        if len(cell) <= _MAX_BYTES_SHOWN:
            return cell
        self.cut += 1
        return f"<{len(cell):,} bytes>"

    def table(
        self,
        name: str,
        place: str,
        *,
        types: Sequence[str] | None = None,
        before: Sequence[wire.Aside] = (),
        after: Sequence[wire.Aside] = (),
        notes: Sequence[str] = (),
        has_names: bool = True,
    ) -> wire.Table:
        """Return the table as a frame. `types` are those of the columns where the document says them."""
        notes = [*notes]
        if self.not_finite:
            notes.append(f"values that are NaN or infinite in the document, and null here: {self.not_finite:,}")
        if self.cut:
            notes.append(
                f"binary values of more than {_MAX_BYTES_SHOWN:,} bytes, of which only the size is here: {self.cut:,}"
            )
        found = [_type_of(kinds) for kinds in self._kinds] if types is None else types
        size = sum(len(cell) for aside in (*before, *after) for cell in aside.cells) + sum(map(len, self.names))
        if size > _MAX_AROUND:
            raise NotATable(f"more than {_MAX_AROUND:,} characters stand in its header and around it")
        columns = [
            wire.Column(column, kind, nulls, title if title != column else "")
            for column, kind, nulls, title in zip(self.names, found, self._nulls, self._titles, strict=True)
        ]
        self._written += b"\n]" if self.rows else b"]"
        return wire.Table(
            encodable(name),
            encodable(place),
            columns,
            self.rows,
            bytes(self._written),
            [*before],
            [*after],
            [encodable(note) for note in notes],
            has_names,
        )


_INFINITY: Final = float("inf")


def _type_of(kinds: set[type]) -> str:
    names = {_NAMES.get(kind, "text") for kind in kinds if kind is not type(None)}
    if len(names) > 1 and names <= {"integer", "number"}:
        return "number"
    if len(names) > 1 and names <= {"date", "datetime"}:
        return "datetime"
    return names.pop() if len(names) == 1 else "mixed" if names else "empty"


def of_texts(titles: Sequence[object], rows: Sequence[Sequence[Any]], room: int) -> tuple[Records, list[str]]:
    """Write rows of texts, and return the types of their columns.

    A column becomes numbers only if each text in it is one as JSON writes them, with digits that a 64-bit float keeps: `007`, `1,234`,
    `+5`, `NA` and integers of more than fifteen digits make it text. A number is written as it stands there (`1.50`). Dates and times
    of ISO 8601 are told, and stay as they are.
    """
    records = Records(titles, room)
    types: list[str] = []
    columns: list[Sequence[Any]] = []
    for column in zip(*rows, strict=True):
        kind = text_type([cell for cell in column if cell is not None])
        types.append(kind)
        columns.append([typed(cell, kind) for cell in column] if kind in ("integer", "number", "boolean") else column)
    for batch in batches(zip(*columns, strict=True)):
        records.add(batch)
    return records, types or ["empty"] * len(titles)


def text_type(cells: Sequence[Any]) -> str:
    """Return the type that all these texts are of in one notation. Where they are no texts, it is their own."""
    kinds = set(map(type, cells))
    if kinds != {str}:
        return _type_of(kinds)
    values = {*cells}
    if all(map(_is_number, values)):
        return "integer" if all(map(_INTEGER.fullmatch, values)) else "number"
    if values <= {"true", "false"}:
        return "boolean"
    if all(map(_DATE.fullmatch, values)):
        return "date"
    return "datetime" if all(map(_DATETIME.fullmatch, values)) else "text"


def _is_number(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text) or (_DECIMAL.fullmatch(text) and is_exact(text)))


def typed(text: str | None, kind: str) -> Any:
    """Return the text as it stands in JSON if its column is of that kind."""
    return msgspec.Raw(text.encode()) if text is not None and kind in ("integer", "number", "boolean") else text
