"""One row of delimited text at a time, also where its quotes are wrong.

A quote that opens a cell and is never closed, or stands in the middle of one, has several readings. The first of these that gives
the number of cells that the table's rows have is taken:

1. the strict one of RFC 4180, over several lines if a quoted cell has line feeds;
2. on this line alone, with quotes that quote nothing read as text;
3. the lenient one over several lines, where a quoted cell ends at a quote before a delimiter or the end of a line.

If none gives that number, the row is ragged: the strict reading if there is one on this line, else the text between delimiters.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from byref_sandbox.tabletext.result import Dialect

MAX_CELLS: Final = 20_000
"""Columns of a table; text of more stays text. A row that is read has at most one cell more."""
_MAX_CELL_BYTES: Final = 1 << 20
"""Bytes that are looked through for the end of a quoted cell; half of it after each cell that has none, but never less than 4 KiB."""
_LEAST_CELL_BYTES: Final = 1 << 12
_MAX_WAYS: Final = 64
"""Readings of one line that are tried."""
_MAX_TRIED: Final = 100_000
"""Cells of all readings of one line."""


class Line(NamedTuple):
    """A row, and where the next one begins."""

    cells: list[str]
    end: int
    is_strict: bool
    """Whether its quotes are as they should be."""


class Reader:
    """Reads rows of a text in UTF-8 by a dialect."""

    def __init__(self, data: bytes, dialect: Dialect) -> None:
        self.data = data
        self._delimiter = dialect.delimiter.encode()
        self._newline = dialect.newline.encode()
        self._takes_returns = dialect.newline == "\n"
        self._quote = (dialect.quote or "").encode()
        self._escape = dialect.escape
        self._reach = _MAX_CELL_BYTES
        self._searched: tuple[int, int, re.Match[bytes] | None] = (0, 0, None)
        """Where the last search for a closing quote began, how far it went, and what it found."""
        if self._quote:
            quote, boundary = re.escape(self._quote), re.escape(self._delimiter.rstrip(b" ") or self._delimiter)
            end = rb"(?=%s|\r?\n|\r|\Z)" % boundary
            others = rb"[^%s%s]*+" % (quote, rb"\\" if self._escape == "backslash" else b"")
            escaped = rb"(?:\\.|%s%s)" % (quote, quote) if self._escape == "backslash" else quote + quote
            # Possessive: a long cell is read without keeping ways back into it.
            inside = rb"%s(?:%s%s)*+" % (others, escaped, others)
            if dialect.escape == "none":
                inside = rb"(?:[^%s]++|%s(?!%s|\r?\n|\r|\Z))*+" % (quote, quote, boundary)
            self._strict = re.compile(rb"%s(%s)%s%s" % (quote, inside, quote, end), re.DOTALL)
            self._close = re.compile(quote + end)

    def line_end(self, start: int) -> int:
        """Where the line that begins at `start` ends, its newline not included."""
        found = self.data.find(self._newline, start)
        if found < 0:
            return len(self.data)
        return found - self.data.startswith(b"\r", found - 1) if self._takes_returns and found > start else found

    def after(self, end: int) -> int:
        """Where the line after a line that ends at `end` begins."""
        return min(end + self._ends(end) or len(self._newline), len(self.data))

    def _ends(self, at: int) -> int:
        """How many bytes of a line end are at a place."""
        if self._takes_returns and self.data.startswith(b"\r\n", at):
            return 2
        return len(self._newline) if self.data.startswith(self._newline, at) else 0

    def read(self, start: int, width: int | None = None) -> Line:
        """Read the row that begins at `start`; `width` is how many cells it should have, None for any number."""
        end = self.line_end(start)
        if not self._quote or self.data.find(self._quote, start, end) < 0:
            return Line(self._plain(start, end), self.after(end), True)
        strict = self._strict_row(start)
        if strict is not None and (width is None or len(strict.cells) == width):
            return strict
        local = self._local(start, end, width)
        if local is not None and (width is None or len(local) == width):
            return Line(local, self.after(end), False)
        if width is not None:
            lenient = self._lenient(start, width)
            if lenient is not None:
                return lenient
        if strict is not None and strict.end <= self.after(end):
            return strict
        return Line(self._plain(start, end), self.after(end), False)

    def _plain(self, start: int, end: int) -> list[str]:
        return self.data[start:end].decode("utf-8", "surrogatepass").split(self._delimiter.decode(), MAX_CELLS)

    def _closing(self, at: int, end: int) -> re.Match[bytes] | None:
        """Return the first quote from `at` on that closes a cell before `end`. No part of the text is searched again and again.

        What a search found is remembered, and up to where there is none.
        """
        begun, until, found = self._searched
        if begun <= at and found is not None and at <= found.start():
            return found if found.end() <= end else None
        if found is not None or not begun <= at <= until:
            begun, until, found = at, at, None
        if until < end:
            found = self._close.search(self.data, max(at, until), end)
            until = end
            if found is not None and self._close.match(self.data, found.start()) is None:
                until, found = found.start(), None  # it closes a cell only because the search ends there
            self._searched = begun, until, found
        return found

    def _value(self, raw: bytes) -> str:
        quote = self._quote
        if self._escape == "backslash":
            raw = raw.replace(b"\\" + quote, quote)
        if self._escape != "none":
            raw = raw.replace(quote + quote, quote)
        return raw.decode("utf-8", "surrogatepass")

    def _strict_row(self, start: int) -> Line | None:
        """Read a row by the strict rules; None if one of its quoted cells does not end before a delimiter or a line's end, or if
        it has too many cells.
        """
        data, delimiter, quote = self.data, self._delimiter, self._quote
        cells: list[str] = []
        at, limit = start, min(len(data), start + self._reach)
        line = self.line_end(at)
        while len(cells) <= MAX_CELLS:
            if data.startswith(quote, at):
                found = self._strict.match(data, at, limit)
                if found is None:
                    self._reach = max(_LEAST_CELL_BYTES, self._reach // 2)
                    return None
                cells.append(self._value(found[1]))
                at = found.end()
                if at > line:
                    line = self.line_end(at)
            else:
                cut = data.find(delimiter, at, line)
                stop = line if cut < 0 else cut
                cells.append(data[at:stop].decode("utf-8", "surrogatepass"))
                at = stop
            if at >= len(data):
                return Line(cells, at, True)
            if data.startswith(delimiter, at):
                at += len(delimiter)
            elif ends := self._ends(at):
                return Line(cells, at + ends, True)
            else:
                return None
        return None

    def _local(self, start: int, end: int, width: int | None) -> list[str] | None:
        """Read one line with quotes that quote nothing as text, so that it has `width` cells; None if no reading has."""
        data, ways, tried = self.data, 0, 0
        most = MAX_CELLS if width is None else width
        aside: list[tuple[int, list[str]]] = [(start, [])]
        """Readings that were begun: the cells so far, and where the next one begins; -1 behind the last."""
        while aside and tried < _MAX_TRIED:
            at, cells = aside.pop()
            tried -= len(cells)
            while at >= 0 and len(cells) < most:
                cut = data.find(self._delimiter, at, end)
                stop = end if cut < 0 else cut
                value = data[at:stop].decode("utf-8", "surrogatepass")
                if data.startswith(self._quote, at) and ways < _MAX_WAYS:
                    # The nearest closing quote is tried first, and the quote as text later.
                    closing = self._closing(at + len(self._quote), end)
                    if closing is not None and (
                        closing.end() == end or data.startswith(self._delimiter, closing.end())
                    ):
                        ways += 1
                        aside.append((-1 if cut < 0 else stop + len(self._delimiter), [*cells, value]))
                        value = self._value(data[at + len(self._quote) : closing.start()])
                        stop = closing.end()
                        cut = stop if stop < end else -1
                cells.append(value)
                at = -1 if cut < 0 else stop + len(self._delimiter)
            tried += len(cells)
            if at < 0 and (width is None or len(cells) == width):
                return cells
        return None

    def _lenient(self, start: int, width: int) -> Line | None:
        """Read a row over several lines, with quotes inside quoted cells as text, if that gives `width` cells."""
        data, cells, at = self.data, list[str](), start
        limit = min(len(data), start + self._reach)
        line = self.line_end(at)
        while len(cells) < width:
            if data.startswith(self._quote, at) and (closing := self._closing(at + len(self._quote), limit)):
                cells.append(self._value(data[at + len(self._quote) : closing.start()]))
                at = closing.end()
                if at > line:
                    line = self.line_end(at)
            else:
                cut = data.find(self._delimiter, at, line)
                stop = line if cut < 0 else cut
                cells.append(data[at:stop].decode("utf-8", "surrogatepass"))
                at = stop
            if at >= len(data) or self._ends(at):
                if len(cells) != width or self._fits(at, width):
                    return None
                return Line(cells, self.after(at) if at < len(data) else at, False)
            if not data.startswith(self._delimiter, at):
                return None
            at += len(self._delimiter)
        return None

    def _fits(self, at: int, width: int) -> bool:
        """Whether the line that ends at `at` is a row by itself."""
        start = self.data.rfind(self._newline, 0, at) + len(self._newline)
        row = self._strict_row(start)
        return row is not None and len(row.cells) == width
