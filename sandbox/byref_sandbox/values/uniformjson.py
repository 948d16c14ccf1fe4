"""Arrays of flat JSON records that are all written in one way: the same keys in the same order, with the same blanks between them.

Arrow's reader of delimited text splits them at their quotes, several times faster than a reader of JSON reads them. Each record then
has the same number of parts: what is in quotes stands at the odd ones, keys and texts in turn, and what is between them at the even ones.
Where all even parts and all keys are those of the first record, except for the numbers in them, the text is known to its last byte:
it is the first record with other values in it. No other text is read here.

Two things are written anew for that, in ways that mean the same: escaped quotes and backslashes become escapes without quotes, so that
each quote begins or ends a string, and a null in place of a text becomes a text that no JSON has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

_BACKSLASH: Final = ord("\\")
_NULL: Final = "\x01"
"""Stands for a null among texts: in JSON a control character is escaped."""
_BEFORE_NUMBER: Final = re.compile(rb"(\s*:\s*)([^\s,}]+)(\s*[,}]\s*)")
_BEFORE_TEXT: Final = re.compile(rb"\s*:\s*")
_MAX_FIELDS: Final = 200
"""Records with more are seldom alike, and each of their parts is a column for a while."""


class _Number(NamedTuple):
    before: str
    behind: str


class Template:
    """What is the same in all records: their text, without values."""

    @classmethod
    def of(cls, first: bytes, fields: Sequence[str], types: Sequence[pa.DataType]) -> Template | None:
        """Return that of records with these keys, from the text of the first; None where it is not like that."""
        try:
            return cls(first, fields, types) if len(fields) <= _MAX_FIELDS else None
        except (ValueError, IndexError, UnicodeError):
            return None

    def __init__(self, first: bytes, fields: Sequence[str], types: Sequence[pa.DataType]) -> None:
        """Raise ValueError where the first record is not like that."""
        self._types = dict(zip(fields, types, strict=True))
        self._nulls = [
            (key + colon + b"null", key + colon + f'"{_NULL}"'.encode())
            for field, type_ in self._types.items()
            if type_ == pa.string()
            for key in [json.dumps(field, ensure_ascii=False).encode()]
            for colon in {*re.findall(rb'"(\s*:\s*)', first)}
        ]
        self._fixed: dict[int, bytes] = {}
        self._places: dict[str, int] = {}
        self._numbers: dict[str, _Number] = {}
        self._has_nulls = False
        parts = self._without_nulls(_without_escaped_quotes(first)).split(b'"')
        self._fixed[0], at = parts[0], 1
        for field, type_ in self._types.items():
            if parts[at] != field.encode() or at + 1 >= len(parts):
                raise ValueError("other keys, or in another order")
            self._fixed[at], between = parts[at], parts[at + 1]
            if type_ == pa.string():
                if not _BEFORE_TEXT.fullmatch(between) or at + 3 >= len(parts):
                    raise ValueError("no text")
                self._fixed[at + 1], self._places[field], self._fixed[at + 3] = between, at + 2, parts[at + 3]
                at += 4
            elif found := _BEFORE_NUMBER.fullmatch(between):
                self._places[field], self._numbers[field] = at + 1, _Number(found[1].decode(), found[3].decode())
                at += 2
            else:
                raise ValueError("no number")
        if at != len(parts) or any(b"\n" in part for part in self._fixed.values()):
            raise ValueError("more than its fields, or more than one line")
        names = [str(number) for number in range(len(parts))]
        types_of = {str(number): pa.binary(len(part)) for number, part in self._fixed.items()}
        self._read = pa.csv.ReadOptions(use_threads=False, column_names=names)
        self._parse = pa.csv.ParseOptions(delimiter='"', quote_char=False, escape_char=False)
        self._convert = [
            pa.csv.ConvertOptions(
                check_utf8=False,
                column_types={**dict.fromkeys(names, pa.string()), **types_of},
                null_values=[_NULL] * has_nulls,
                strings_can_be_null=has_nulls,
            )
            for has_nulls in (False, True)
        ]

    def table(self, lines: npt.NDArray[np.uint8]) -> pa.Table | None:
        """Return records, one on each line, as an Arrow table; None where they are not all alike."""
        text: Any = lines
        if has_escapes := bool((lines == _BACKSLASH).any()):
            text = _without_escaped_quotes(lines.tobytes())
        made = None if self._has_nulls else self._table(text, has_escapes, has_nulls=False)
        if made is None and b"null" in (text := bytes(text)):
            made = self._table(self._without_nulls(text), has_escapes, has_nulls=True)
            self._has_nulls = made is not None
        return made

    def _table(self, text: Any, has_escapes: bool, *, has_nulls: bool) -> pa.Table | None:
        self._read.block_size = len(text) + 1
        try:
            parts = pa.csv.read_csv(pa.BufferReader(text), self._read, self._parse, self._convert[has_nulls])
            if not all(_is_all(parts.column(at), part) for at, part in self._fixed.items()):
                return None
            columns = [self._column(_whole(parts.column(at)), field, has_escapes) for field, at in self._places.items()]
        except (ValueError, UnicodeError):  # Arrow's own among them
            return None
        return pa.table(columns, pa.schema(list(self._types.items())))

    def _without_nulls(self, text: bytes) -> bytes:
        for null, stands_for_it in self._nulls:
            text = text.replace(null, stands_for_it)
        return text

    def _column(self, texts: Any, field: str, has_escapes: bool) -> Any:
        """Return the values of one column; raise ValueError where there is another kind of value."""
        type_ = self._types[field]
        if type_ == pa.string():
            return _without_backslashes(texts) if has_escapes else texts
        before, behind = self._numbers[field]
        if not pc.all(pc.and_(pc.starts_with(texts, before), pc.ends_with(texts, behind))).as_py():
            raise ValueError("other text around a number")
        numbers = pc.utf8_slice_codeunits(texts, len(before), -len(behind))
        nulls = pc.equal(numbers, "null")
        if pc.any(nulls).as_py():
            numbers = pc.if_else(nulls, None, numbers)
        if type_ == pa.bool_() and not pc.all(pc.is_in(numbers, pa.array(["true", "false", None]))).as_py():
            raise ValueError("no truth value")
        return pc.cast(numbers, type_)


def _whole(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_all(column: Any, part: bytes) -> bool:
    return all(
        chunk.null_count == 0
        and chunk.buffers()[1]
        .slice(chunk.offset * len(part), len(chunk) * len(part))
        .equals(pa.py_buffer(part * len(chunk)))
        for chunk in column.chunks
    )


def _without_escaped_quotes(text: bytes) -> bytes:
    """Return JSON of the same meaning in which each quote begins or ends a string."""
    # From left to right: a run of backslashes begins with an escape, so its pairs are escaped backslashes.
    return text.replace(rb"\\", rb"\u005c").replace(rb"\"", rb"\u0022")


def _without_backslashes(texts: Any) -> Any:
    """Return what JSON strings say of which `texts` is what stands between their quotes; raise ValueError."""
    escaped = pc.fill_null(pc.match_substring(texts, "\\"), False)
    if not pc.any(escaped).as_py():
        return texts
    values = json.loads('["' + '","'.join(texts.filter(escaped).to_pylist()) + '"]')
    return pc.replace_with_mask(texts, escaped, pa.array(values, pa.string()))
