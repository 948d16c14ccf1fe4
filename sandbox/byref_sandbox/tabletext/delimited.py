"""Delimited text: CSV, TSV, and whatever else stands between cells.

Rows are matched by an expression of what is known of them, and read one by one where they differ. So each byte is in a row that was
matched or read, in the header, or in a named part before or after them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from byref_sandbox.tabletext import dialects
from byref_sandbox.tabletext.header import has_letter, has_names, has_row_names, header_rows, is_sentence
from byref_sandbox.tabletext.kinds import NUMBERS, Kind, kind_of, type_of, types_of
from byref_sandbox.tabletext.matcher import Matcher
from byref_sandbox.tabletext.result import (
    MAX_TABLES,
    Dialect,
    NotATable,
    Part,
    PartKind,
    Ragged,
    Table,
    too_many,
    unique_names,
)
from byref_sandbox.tabletext.rows import MAX_CELLS, Line, Reader

MAX_RAGGED: Final = 0.1
"""Share of rows with more or fewer cells than the others; with more it is no table."""
_FEW_ROWS: Final = 5
"""Rows from which on one may be ragged."""
_MAX_PREAMBLE: Final = 30
"""Rows before the header."""
_NAMED_DELIMITER: Final = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=[^\r\n]"?\r?\n', re.IGNORECASE)
"""What Excel reads the delimiter of, above the names."""
_DIGITS: Final = re.compile("[0-9]+")
_ID: Final = re.compile("[A-Za-z_#-]*[0-9][A-Za-z0-9_#-]*")
_MAX_TOLD: Final = 20
"""Ragged and repaired rows that are named."""
_FIRST_ROWS: Final = 64
"""Rows that are read before the first expression is made."""
_MOST_AT_ONCE: Final = 256
"""Most rows that are read one by one where one does not match. The first time it is one, then twice as many each time."""
_LOOKED_BYTES: Final = 1 << 14
"""Bytes at the beginning in which is seen whether all cells are quoted."""
_MAX_EXPRESSIONS: Final = 20_000
"""Columns of all expressions that are made of one table; to make one takes about 30 microseconds for each column."""
_MAX_IN_A_ROW: Final = 1_000
"""Ragged rows one after another; with more the text has changed into something else."""
_MAX_ODD: Final = 50_000
"""Rows that are kept one by one because they cannot be read again by the strict rules."""
_MAX_PIECES: Final = 20_000
"""Pieces that blank rows divide the other rows into."""
_MAX_SINGLE: Final = 200_000
"""Rows that are read one by one though an expression of what is known of them was made, blank ones included."""
_ENDS_CODE: Final = re.compile(r"$|//|/\*|#|--")
"""What stands behind the comma of a list in code."""


class _Begin(NamedTuple):
    """The rows before the first record."""

    header: tuple[str, ...] | None
    preamble_end: int
    start: int
    """Where the records begin."""


class _Segment(NamedTuple):
    """Records that are read again by the strict rules, or one row that was read with care."""

    start: int
    end: int
    filled: int | None
    """How many cells of such a row are not blank; None of those that are read again."""


def recognise(data: bytes, *, force: bool = False) -> tuple[Table, ...] | NotATable:
    """Read delimited text in UTF-8. With `force` the text is known to be delimited, and only what no reading balances is refused."""
    found = dialects.detect(data, force=force)
    if found is None:
        return NotATable("its lines do not have the same number of cells, whatever divides them")
    if found.width > MAX_CELLS:
        return NotATable(f"it has {found.width:,} columns; a table has at most {MAX_CELLS:,}", 1)
    tables: list[Table] = []
    at = 0
    while at < len(data):
        if len(tables) == MAX_TABLES:
            return too_many(data.count(found.dialect.newline.encode(), 0, at) + 1)
        scan = Scan(data, found.dialect, at, found.width if not tables else None)
        table = scan.table(force=force)
        if isinstance(table, NotATable):
            return table
        tables.append(table)
        if scan.at <= at:
            break
        at = scan.at
    if not force and (reason := _doubt(tables, found)):
        return reason
    return tuple(tables)


def _doubt(tables: Sequence[Table], found: dialects.Found) -> NotATable | None:
    """Why this is rather text with some commas in it."""
    first = tables[0]
    there = [
        kind.name != "empty" or bool(name.strip())
        for kind, name in zip(first.types, first.header or [""] * len(first.types), strict=False)
    ]
    if sum(there) < 2 <= len(first.names):
        return NotATable("all of its columns but one are empty")
    rows = dialects.sample(first.source, found.dialect)
    if found.dialect.delimiter.startswith(",") and sum(any(map(_is_open, row)) for row in rows) * 2 > len(rows):
        return NotATable("its cells begin brackets that they do not end, as code does")
    typed = sum(kind.name not in ("text", "empty") for kind in first.types)
    if sum(table.rows for table in tables) < 1 or (first.rows < 2 and not (first.header and typed)):
        return NotATable("it has fewer than two rows")
    if typed:
        return None
    if len(first.names) == 2 and sum(_ENDS_CODE.match(row[-1].strip()) is not None for row in rows) * 2 > len(rows):
        return NotATable("its lines end with a comma, as a list in code does")
    if len(first.names) > 1 and first.rows > 2 and _is_quoted(first):
        return None
    if found.dialect.delimiter in dialects.SURE - {","} and len(first.names) > 1 and first.rows > 2:
        return None
    if first.header and first.rows > _FEW_ROWS and _has_ids(first):
        return None
    cells = [cell for row in dialects.sample(data=_head(first), dialect=found.dialect)[:40] for cell in row]
    long = sum(len(cell.split()) > 6 for cell in cells)
    if first.rows < 4 or (cells and long > len(cells) * 0.3 and len(first.names) < 4):
        return NotATable("nothing but punctuation tells it from prose")
    return None


def _is_open(cell: str) -> bool:
    """Whether a cell has other brackets that begin than brackets that end."""
    return sum(map(cell.count, "([{")) != sum(map(cell.count, ")]}"))


def _is_quoted(table: Table) -> bool:
    """Whether each line begins and ends with a quote, and all quotes quote something."""
    quote = (table.dialect.quote or "") if table.dialect else ""
    lines = table.source[:_LOOKED_BYTES].decode("utf-8", "replace").splitlines()[:_FIRST_ROWS]
    return not table.repaired and bool(quote) and all(line[:1] == line[-1:] == quote for line in lines[:-1])


def _has_ids(table: Table) -> bool:
    """Whether the first cell of each record is another word, all of one form with digits in it: E1, E2."""
    ids = [row[0] or "" for _, row in zip(range(_FIRST_ROWS), table.records(), strict=False)]
    forms = {_DIGITS.sub("0", cell) for cell in ids}
    return len(set(ids)) == len(ids) and len(forms) == 1 and all(map(_ID.fullmatch, ids))


def _head(table: Table) -> bytes:
    rows = []
    for _, row in zip(range(40), table.records(), strict=False):
        rows.append("\t".join((cell or "").replace("\t", " ") for cell in row))
    return "\n".join(rows).encode("utf-8", "surrogatepass")


class Scan:
    """Reads one table, which ends with the text, or before a header of another one. The text may come in pieces: see `go_on`."""

    def __init__(self, data: bytes, dialect: Dialect, at: int, width: int | None) -> None:
        self.data, self.dialect, self.at = data, dialect, at
        self.preamble_end = at
        self._before = self._lines_before = 0
        """Bytes and lines of the text before `data`."""
        self._reader = Reader(data, dialect)
        self._width = width or 0
        self._header: tuple[str, ...] | None = None
        self._kinds: list[set[Kind]] = []
        self._parts: list[Part] = []
        self._segments: list[_Segment] = []
        self._ragged: list[tuple[int, Ragged]] = []
        """Where ragged rows begin, and what is told of them."""
        self._ragged_rows = 0
        self._in_a_row = 0
        self._repaired: list[tuple[int, int]] = []
        """Where rows begin whose quotes were read as text, and in which lines."""
        self._rows = 0
        self._odd = self._single = 0
        self._ends = False

    def table(self, *, force: bool) -> Table | NotATable:
        """Read the table from a text that is all there."""
        return self.begin(force=force) or self.read(force=force) or self.made()

    def begin(self, *, force: bool) -> NotATable | None:
        """Read what stands before the records."""
        start = self.at
        begin = self._begin(force=force)
        if begin is None:
            return NotATable(f"its rows have {self._width} cells at first, but no others do", self._line(start))
        if not force and self.dialect.delimiter in dialects.WEAK and not self._is_sure(begin):
            return NotATable("its columns have no names, and nothing but blanks or colons divides them")
        if not force and begin.header is None and self._is_prose(begin.start):
            return NotATable("its columns have no names, and nothing but punctuation tells it from prose")
        self._part("preamble", start, begin.preamble_end)
        self._part("header", begin.preamble_end, begin.start)
        self.preamble_end, self.at, self._header = begin.preamble_end, begin.start, begin.header
        return None

    def read(self, *, force: bool) -> NotATable | None:
        """Read the records in `data`."""
        problem = self._read_rows(force=force)
        if problem is None:
            self._check_exact()
        return problem

    def go_on(self, data: bytes) -> None:
        """Take the following part of the text, which begins with a row, in place of the one that was read."""
        self._before += len(self.data)
        self._lines_before += self.data.count(self.dialect.newline.encode())
        self.data, self.at = data, 0
        self._reader = Reader(data, self.dialect)

    @property
    def here(self) -> list[_Segment]:
        """The records in `data`, by their places there."""
        before = self._before
        return [
            _Segment(max(0, one.start - before), one.end - before, one.filled)
            for one in self._segments
            if one.end > before
        ]

    @property
    def line(self) -> int:
        """The line after all that was read."""
        return self._line(self.at)

    @property
    def odd(self) -> int | None:
        """The first line that is no row as the others are, or begins another table; None if there is none."""
        if self._ends:
            return self._line(self.at)
        lines = [told.line for _, told in self._ragged[:1]] + [line for _, line in self._repaired[:1]]
        return min(lines, default=None)

    def made(self) -> Table:
        """Return the table, once all records were read."""
        self._footer()
        return Table(
            format="delimited",
            names=unique_names(self._header, self._width),
            header=self._header,
            types=types_of(self._kinds),
            rows=self._rows,
            parts=tuple(self._parts),
            ragged=tuple(told for _, told in self._ragged[:_MAX_TOLD]),
            ragged_rows=self._ragged_rows,
            repaired=tuple(line for _, line in self._repaired),
            dialect=self.dialect,
            how=Delimited(self.dialect, tuple(_spans(self._segments))),
            source=self.data,
        )

    def _is_sure(self, begin: _Begin) -> bool:
        """Whether there is more than blanks or colons: names of three columns and a value, or numbers alone."""
        if begin.header is None:
            return all(kinds and kinds <= NUMBERS for kinds in self._kinds)
        if self.dialect.delimiter == ":" and b"  " in self.data[begin.start : begin.start + _LOOKED_BYTES]:
            return False  # columns that blanks keep apart, with colons in them
        return self._width > 2 and not all("text" in kinds for kinds in self._kinds)

    def _is_prose(self, start: int) -> bool:
        """Whether few cells and long ones follow, as of a log whose times have a comma."""
        if self._width > dialects.FEW_COLUMNS:
            return False
        cells, long, at = 0, 0, start
        for _ in range(_FIRST_ROWS):
            if at >= len(self.data):
                break
            line = self._reader.read(at, self._width)
            cells, long, at = cells + len(line.cells), long + sum(cell.count(" ") > 2 for cell in line.cells), line.end
        return long * self._width > cells * dialects.LONG_CELLS

    # The rows before the records

    def _begin(self, *, force: bool) -> _Begin | None:
        """Find preamble and header, and learn the kinds of the first records."""
        lines: list[tuple[int, Line]] = []
        at = self.at
        if not at and (named := _NAMED_DELIMITER.match(self.data)):
            at = named.end()
        while at < len(self.data) and len(lines) < _FIRST_ROWS + _MAX_PREAMBLE:
            line = self._reader.read(at, self._width or None)
            lines.append((at, line))
            at = line.end
        if not self._width:
            self._width = max((len(line.cells) for _, line in lines[:4]), default=1)
            if self._width > MAX_CELLS:
                return None
        fitting = [len(line.cells) == self._width for _, line in lines]

        def fit(at: int) -> list[list[str]]:
            return [line.cells for (_, line), fits in zip(lines[at:], fitting[at:], strict=True) if fits]

        first = 0
        while (
            first < len(lines)
            and first < _MAX_PREAMBLE
            and (not fitting[first] or self._is_title(lines[first][1].cells, fit(first + 1)))
        ):
            first += 1
        if first == len(lines) or first == _MAX_PREAMBLE or (first and not any(fitting[first:])):
            first = 0
            if not force and not fitting[0]:
                return None
        before = [line.cells for _, line in lines[:first]]
        if first and not has_names(fit(first), self._width) and not self._is_preamble(before, fit(first)):
            last = before[-1]  # it may be the names, with a delimiter too many behind them
            are_names = len(last) > self._width and not any(last[self._width :]) and self._is_preamble(before[:-1], [])
            first = first - 1 if are_names else 0
        body = fit(first)
        ragged_header = not fitting[first]
        if ragged_header:
            body.insert(0, lines[first][1].cells)
        count = header_rows(body, self._width)
        preamble_end = lines[first][0]
        if not count:
            header, start = None, preamble_end
        else:
            start = lines[first + count - 1][1].end
            header = tuple(
                " ".join(filter(None, (row[column].strip() if column < len(row) else "" for row in body[:count])))
                if count > 1
                else (body[0][column] if column < len(body[0]) else "")
                for column in range(max(self._width, *(len(row) for row in body[:count])))
            )
        if header is not None and len(header) > self._width and not any(header[1::2]):
            header = header[::2]  # `||id||name||` above `|1|x|`: names in wikis
        if header is not None and len(header) > self._width == sum(map(bool, map(str.strip, header))):
            header = tuple(filter(str.strip, header))  # with a delimiter too many inside, the names would be shifted
        if header is not None and ragged_header and has_row_names(body, self._width):
            header = ("", *header[: self._width - 1])
        self._kinds = [set() for _ in range(self._width)]
        for row in body[count:]:
            self._learn(row)
        return _Begin(header, preamble_end, start)

    def _is_title(self, cells: list[str], below: list[list[str]]) -> bool:
        """Whether a row of the right width is blank, a title in the first cell, or a sentence above names."""
        if self._width > 2 and not any(cell.strip() for cell in cells[1:]):
            return True
        return is_sentence(cells, below) and has_names(below, self._width)

    def _is_preamble(self, rows: list[list[str]], below: list[list[str]]) -> bool:
        """Whether the rows before the first fitting one are lines about the table, and no shorter rows of it."""
        most = max(1, self._width // 2)
        return all(sum(map(bool, map(str.strip, row))) <= most or is_sentence(row, below) for row in rows)

    def _learn(self, cells: Sequence[str]) -> None:
        for kinds, cell in zip(self._kinds, cells, strict=False):
            if "text" not in kinds:
                kinds.add(kind_of(cell))
            elif not cell:
                kinds.add("empty")

    def _is_known(self, cells: Sequence[str]) -> bool:
        """Whether a row is like those before it: no cell of it is of a kind that its column has not had."""
        return all(
            (cell or "empty" in kinds) if "text" in kinds else kind_of(cell) in kinds
            for kinds, cell in zip(self._kinds, cells, strict=True)
        )

    # The records

    def _read_rows(self, *, force: bool) -> NotATable | None:
        at_once, expressions = 1, 0
        matcher: Matcher | None = None
        known: list[int] = []
        wide = False
        has_feeds = False
        while self.at < len(self.data) and not self._ends:
            now = [len(kinds) for kinds in self._kinds]
            if not wide and (matcher is None or now != known) and expressions < _MAX_EXPRESSIONS:
                try:
                    matcher = Matcher(self.dialect, self._kinds, lines=has_feeds)
                except ValueError:
                    wide = True
                known, expressions = now, expressions + self._width
            if matcher is not None and not wide:
                end = matcher.end(self.data, self.at)
                if end > self.at:
                    self._matched(end, has_feeds=has_feeds)
                    at_once = 1
                    continue
            before, single = self._odd, int(not wide and expressions < _MAX_EXPRESSIONS)
            for _ in range(at_once):
                if self.at >= len(self.data) or self._ends:
                    break
                start = self.at
                self._read_row(force=force)
                self._single += single
                if not has_feeds and self.data.find(b"\n", start, max(start, self.at - 2)) >= 0 and self._odd == before:
                    has_feeds, known = True, []
            at_once = min(at_once * 2, _MOST_AT_ONCE)
            if not force and (self._in_a_row > _MAX_IN_A_ROW or self._ragged_rows > 20 + self._rows * MAX_RAGGED):
                return self._refusal()
            if self._odd > _MAX_ODD:
                line = self._repaired[0][1] if self._repaired else self._ragged[0][1].line
                return NotATable(f"more than {_MAX_ODD:,} of its rows are unlike the others", line)
            if len(self._segments) > 2 * self._odd + _MAX_PIECES:
                return NotATable(
                    f"blank rows divide the others into more than {_MAX_PIECES:,} pieces", self._line(self.at)
                )
            if self._single > _MAX_SINGLE:
                return NotATable(
                    f"more than {_MAX_SINGLE:,} of its rows have to be read one by one", self._line(self.at)
                )
        if not force and self._ragged_rows > max(int(self._rows >= _FEW_ROWS), self._rows * MAX_RAGGED):
            return self._refusal()
        return None

    def _refusal(self) -> NotATable:
        _, told = self._ragged[0]
        return NotATable(
            f"{self._ragged_rows:,} of the first {self._rows:,} rows do not have {self._width} cells; the first has {told.cells}",
            told.line,
        )

    def _matched(self, end: int, *, has_feeds: bool) -> None:
        """Take the records up to `end`, which the expression matched."""
        start, newline = self.at, self.dialect.newline.encode()
        # Without line feeds inside cells each one ends a row; one byte is counted in half of the time of two.
        count = self.data.count(newline if has_feeds else newline[-1:], start, end)
        if has_feeds and self.dialect.escape == "none":  # an odd number of quotes may be inside of a cell
            count = sum(1 for _ in Delimited(self.dialect, (Span(start, end, True),)).rows(self.data, ()))
        elif has_feeds and self.dialect.quote is not None:
            count -= _quoted_newlines(self.data, start, end, self.dialect)
        self._rows += count
        self._in_a_row = 0
        self._segment(start, end)
        self._part("records", start, end)
        self.at = end

    def _read_row(self, *, force: bool) -> None:
        start = self.at
        line = self._reader.read(start, self._width)
        cells = line.cells
        if cells == [""] and self._width > 1:
            self._part("blank", start, line.end)
            self.at = line.end
            if self._rows and self._is_another(line.end):
                self._ends = True
            return
        is_new = len(cells) != self._width or not self._is_known(cells)
        if is_new and self._rows and self._is_another(start, cells):
            self._ends = True
            return
        self._rows += 1
        if len(cells) == self._width:
            self._in_a_row = 0
            if is_new:
                self._learn(cells)
            self._part("records", start, line.end)
        else:
            self._ragged_rows += 1
            self._in_a_row += 1
            if len(self._ragged) < _MAX_TOLD:
                self._ragged.append((self._before + start, Ragged(self._line(start), len(cells))))
            self._part("ragged", start, line.end)
        if not line.is_strict and len(self._repaired) < _MAX_TOLD:
            self._repaired.append((self._before + start, self._line(start)))
        if line.is_strict and len(cells) == self._width:
            self._segment(start, line.end)
        else:
            self._odd += 1
            filled = sum(bool(cell.strip()) for cell in cells)
            self._segments.append(_Segment(self._before + start, self._before + line.end, filled))
        self.at = line.end

    def _is_another(self, at: int, head: list[str] | None = None) -> bool:
        """Whether another table begins at `at`: a row of names, where this one has values."""
        cells = head or self._reader.read(at).cells
        typed = [column for column, kinds in enumerate(self._kinds) if type_of(kinds).name not in ("text", "empty")]
        if len(typed) < 2 or len(cells) < 2 or any(not cell.strip() for cell in cells[:2]):
            return False
        if any(kind_of(cell) not in ("text", "empty") for cell in cells) or len(set(cells)) < len(
            [c for c in cells if c]
        ):
            return False
        wrong = sum(column < len(cells) and kind_of(cells[column]) == "text" for column in typed)
        if wrong < 2 or not all(has_letter(cell) for cell in cells if cell.strip()):
            return False
        following = self._reader.read(self._reader.read(at).end)
        return len(following.cells) == len(cells) and any(
            kind_of(cell) not in ("text", "empty") for cell in following.cells
        )

    def _footer(self) -> None:
        """Take ragged rows of one cell at the end of the table for what they are."""
        taken = 0
        while taken < len(self._parts) and self._parts[-1 - taken].kind in ("ragged", "blank"):
            taken += 1
        last = len(self._parts) - taken
        ragged = [
            segment
            for segment in self._segments
            if segment.filled is not None and segment.start >= (self._parts[last - 1].end if last else 0)
        ]
        if not taken or not ragged or any((segment.filled or 0) > 1 for segment in ragged) or self._width < 2:
            return
        if self._rows == len(ragged):
            return
        start, end = self._parts[last].start, self._parts[-1].end
        self._parts[last:] = [Part("footer", start, end)]
        self._rows -= len(ragged)
        self._ragged_rows -= len(ragged)
        self._odd -= len(ragged)
        self._segments = [segment for segment in self._segments if segment.start < start]
        self._ragged = [(at, told) for at, told in self._ragged if at < start]
        self._repaired = [(at, line) for at, line in self._repaired if at < start]

    def _check_exact(self) -> None:
        """Make columns text whose numbers have more digits than a 64-bit float keeps."""
        is_number = [type_of(kinds).name == "number" for kinds in self._kinds]
        columns = [at for at, kinds in enumerate(self._kinds) if "long" in kinds and is_number[at]]
        if not columns:
            return
        found = _columns(self.data, self.here, self.dialect, columns, self._width)
        for column, values in zip(columns, found, strict=True):
            # Most of them are what is written of the number that is read of them; the others are looked at one by one.
            if any(
                shown != value and kind_of(value) == "text"
                for shown, value in zip(_written(values), values, strict=True)
            ):
                self._kinds[column].add("text")

    # What it is made of

    def _part(self, kind: PartKind, start: int, end: int) -> None:
        if start == end:
            return
        start, end = self._before + start, self._before + end
        if self._parts and self._parts[-1].kind == kind and kind != "ragged":
            self._parts[-1] = Part(kind, self._parts[-1].start, end)
        else:
            self._parts.append(Part(kind, start, end))

    def _segment(self, start: int, end: int) -> None:
        start, end = self._before + start, self._before + end
        if self._segments and self._segments[-1].filled is None and self._segments[-1].end == start:
            self._segments[-1] = _Segment(self._segments[-1].start, end, None)
        else:
            self._segments.append(_Segment(start, end, None))

    def _line(self, at: int) -> int:
        """The number of the line that begins at a byte of `data`."""
        return self._lines_before + self.data.count(self.dialect.newline.encode(), 0, at) + 1


def _quoted_newlines(data: bytes, start: int, end: int, dialect: Dialect) -> int:
    """How many newlines of rows that are quoted as they should be are inside quoted cells."""
    import numpy as np

    view = np.frombuffer(data, np.uint8, end - start, start)
    quotes = np.flatnonzero(view == ord(dialect.quote or '"'))
    if dialect.escape == "backslash" and len(quotes):
        quotes = quotes[(quotes == 0) | (view[quotes - 1] != ord("\\"))]
    feeds = np.flatnonzero(view == ord(dialect.newline[-1]))
    if len(dialect.newline) > 1:
        feeds = feeds[(feeds > 0) & (view[feeds - 1] == ord(dialect.newline[0]))]
    return int((np.searchsorted(quotes, feeds) & 1).sum())


def _columns(
    data: bytes, segments: Sequence[_Segment], dialect: Dialect, columns: Sequence[int], width: int
) -> list[list[str]]:
    """The cells of some columns that are not empty."""
    found: list[list[str]] = [[] for _ in columns]
    for segment in segments:
        if segment.filled is None and (
            not dialect.quote or data.find(dialect.quote.encode(), segment.start, segment.end) < 0
        ):
            text = dialect.divided(data[segment.start : segment.end].decode("utf-8", "surrogatepass"))
            cells = text.replace(dialect.newline, dialect.delimiter).split(dialect.delimiter)
            for column, values in zip(columns, found, strict=True):
                values += filter(None, cells[column::width])
        else:
            rows = Delimited(dialect, tuple(_spans([segment]))).rows(data, [""] * width)
            for row in rows:
                if len(row) == width:
                    for column, values in zip(columns, found, strict=True):
                        if row[column]:
                            values.append(row[column])
    return found


def _written(values: Sequence[str]) -> Sequence[str]:
    """Write the 64-bit floats that are read of numbers, as shortly as gives them again; JSON's reader and writer are fast at that."""
    try:
        written = msgspec.json.encode(msgspec.json.decode(f"[{','.join(values)}]", type=list[float]))[1:-1].decode()
        shown = written.split(",") if written else []
    except (msgspec.DecodeError, UnicodeEncodeError):  # `.5`, a blank cell
        shown = []
    return (
        shown
        if len(shown) == len(values)
        else [repr(float(value.strip())) if value.strip() else value for value in values]
    )


class Span(msgspec.Struct, array_like=True, frozen=True):
    """Bytes that hold records."""

    start: int
    end: int
    is_strict: bool
    """Whether all their quotes are as they should be."""


class Delimited(msgspec.Struct, frozen=True, tag="delimited"):
    """Where the records of delimited text are, and how their cells are divided."""

    dialect: Dialect
    spans: tuple[Span, ...]

    def rows(self, source: bytes, names: Sequence[str]) -> Iterator[list[str]]:
        """Read the records once more. A ragged one has another number of cells than there are names."""
        dialect, width = self.dialect, len(names)
        reader, quote = Reader(source, dialect), (dialect.quote or "").encode()
        is_plain = len(dialect.delimiter) == 1 and dialect.escape == "doubled" and dialect.newline != "\r"
        for span in self.spans:
            if span.is_strict and (not quote or source.find(quote, span.start, span.end) < 0):
                text = dialect.divided(source[span.start : span.end].decode("utf-8", "surrogatepass"))
                for line in text.split(dialect.newline):
                    yield line.split(dialect.delimiter)
            elif (
                span.is_strict
                and is_plain
                and span.end - span.start < csv.field_size_limit()
                and not _has_other_ends(dialect, source, span)
            ):
                text = source[span.start : span.end].decode("utf-8", "surrogatepass")
                yield from csv.reader(_lines(text), delimiter=dialect.delimiter, quotechar=dialect.quote)
            else:
                at = span.start
                while at < span.end:
                    row = reader.read(at, None if span.is_strict else width)
                    yield row.cells
                    at = row.end


def _has_other_ends(dialect: Dialect, source: bytes, span: Span) -> bool:
    """Whether there are line ends that are not the dialect's: at these, too, Python's module would end a row."""
    ends = source.count(b"\r\n", span.start, span.end)
    is_mixed = dialect.newline == "\r\n" and source.count(b"\n", span.start, span.end) != ends
    return is_mixed or source.count(b"\r", span.start, span.end) != ends


def _lines(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _spans(segments: Sequence[_Segment]) -> Iterator[Span]:
    """Yield the bytes of records, those that follow one another and are read alike together."""
    for is_strict, some in groupby(segments, lambda segment: segment.filled is None):
        start = end = -1
        for segment in some:
            if segment.start != end:
                if end >= 0:
                    yield Span(start, end, is_strict)
                start = segment.start
            end = segment.end
        yield Span(start, end, is_strict)
