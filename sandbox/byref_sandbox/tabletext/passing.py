"""Delimited text that is too large for memory: recognised while it passes in pieces, by the rules that text in memory is.

Its first window says what it is; each row of all others is matched or read as there. What only makes sense with all of the text at
hand is not tried: such text stays text, and the reason has the line.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Final, NamedTuple

from byref_sandbox.tabletext import dialects, reading
from byref_sandbox.tabletext.delimited import Delimited, Scan, Span
from byref_sandbox.tabletext.recognising import MARKUP, recognise
from byref_sandbox.tabletext.result import Dialect, NotATable, PartKind, Table
from byref_sandbox.tabletext.rows import Reader

WINDOW: Final = 2 << 20
"""Bytes that are read at once."""
_LARGEST: Final = 4 * WINDOW
"""Bytes in which a row has to end."""
_END_BYTES: Final = 1 << 15
"""Bytes of the first records that are kept."""
_KEPT: Final = 32
"""Records between the ends that are kept: this many, up to twice as many."""
_LONGEST: Final = 1 << 14
"""Bytes of such a record."""
_TRIES: Final = 10_000
"""Line ends, from the last one back, of which one has to end a row."""


class Passed(NamedTuple):
    """A table of which only some records are still at hand."""

    table: Table
    """Its `source` is none."""
    around: tuple[tuple[PartKind, str], ...]
    """Preamble and footer."""
    head: bytes
    """Its first records."""
    samples: bytes
    """Some between the ends."""
    tail: bytes
    """Its last records, none of which is in `head`."""


class Passing:
    """Reads text in pieces of any length, in order, and holds a few windows of it at most. No text makes it raise."""

    def __init__(self, format: str | None = None) -> None:
        """`format` is as in `recognise`."""
        self._format = format
        self._is_forced = format == "csv"
        self._pending = bytearray()
        self._wanted = WINDOW
        """Bytes of it with which it is read."""
        self._scan: Scan | None = None
        self._problem: NotATable | None = None
        self._preamble = ""
        self._head = self._tail = b""
        self._samples: list[bytes] = []
        self._windows, self._step = 0, 1

    def feed(self, data: bytes) -> None:
        """Read the next bytes."""
        if self._problem is None:
            self._pending += data
            if len(self._pending) >= self._wanted:
                self._read(final=False)

    def finish(self) -> Passed | NotATable:
        """Return what the text is; `feed` must not be called afterwards."""
        if self._problem is None:
            self._read(final=True)
        scan = self._scan
        if self._problem is not None or scan is None:
            return self._problem or NotATable("it is empty")
        table = scan.made()
        if scan.odd is not None:
            return _odd(scan.odd)
        if not self._tail:
            return NotATable("it is short")
        around: list[tuple[PartKind, str]] = []
        for part in table.parts:
            if part.kind == "preamble":
                around.append((part.kind, self._preamble))
            elif part.kind == "footer":
                around.append((part.kind, scan.data[-(part.end - part.start) :].decode("utf-8", "replace")))
        return Passed(table, tuple(around), self._head, b"".join(self._samples), self._tail)

    def _read(self, *, final: bool) -> None:
        """Read the rows that are there, as far as it is known where the last of them ends."""
        data = bytes(self._pending) if self._scan else bytes(self._pending).removeprefix(codecs.BOM_UTF8)
        if not self._scan and not self._is_forced and data.lstrip()[:1] in MARKUP:
            self._problem = NotATable("it begins like JSON or markup")
            return
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            decoder.decode(data, final)
        except UnicodeDecodeError:
            self._problem = NotATable("it is not UTF-8, and too large for memory")
            return
        cut, _ = decoder.getstate()  # the beginning of the last character
        data = data.removesuffix(cut)
        found = None if self._scan else dialects.detect(data, force=self._is_forced)
        dialect = self._scan.dialect if self._scan else found.dialect if found else None
        end = len(data) if final or dialect is None else _row_end(data, dialect)
        if not end:
            if len(data) > _LARGEST:
                line = self._scan.line if self._scan else 1
                self._problem = NotATable(
                    f"no row ends in {_LARGEST:,} bytes, of a text that is too large for memory", line
                )
            self._wanted = min(2 * self._wanted, _LARGEST + 1)  # what was read is read again
            return
        self._pending, self._wanted = bytearray(data[end:] + cut), WINDOW
        data = data[:end]
        if self._scan:
            self._scan.go_on(data)
        else:
            self._begin(data, found)
        if self._scan and self._problem is None:
            self._take(self._scan, final=final)

    def _begin(self, data: bytes, found: dialects.Found | None) -> None:
        """Say what a text is that begins with this."""
        whole = recognise(data, self._format, is_utf8=True)
        if isinstance(whole, NotATable):
            self._problem = whole
        elif found is None or whole.tables[0].format != "delimited":
            self._problem = NotATable("a table that is too large for memory has to be delimited text", 1)
        elif found.dialect.escape != "doubled":
            self._problem = NotATable("a table that is too large for memory has to write quotes in quotes twice", 1)
        else:
            self._scan = Scan(data, found.dialect, 0, found.width)
            self._problem = self._scan.begin(force=self._is_forced)
            self._preamble = data[: self._scan.preamble_end].decode()

    def _take(self, scan: Scan, *, final: bool) -> None:
        """Read the records of the window that the scan has, and keep some of them."""
        self._problem = scan.read(force=self._is_forced)
        if self._problem is None and scan.odd is not None and not final:
            self._problem = _odd(scan.odd)
        spans = tuple(Span(start, end, True) for start, end, filled in scan.here if filled is None)
        if self._problem is not None or not spans:
            return
        table = reading.Table("", 0, (reading.Column("", "text"),), Delimited(scan.dialect, spans))
        begin, stop = spans[0].start, spans[-1].end
        places = reading.places(table, scan.data, 3) or [begin]
        if not self._windows:
            first = Reader(scan.data, scan.dialect).read(begin).end - begin
            begin += _row_end(scan.data[begin : begin + _END_BYTES], scan.dialect) or first
            self._head = _records(scan.data, spans, spans[0].start, begin)
        self._tail = _records(scan.data, spans, max(begin, places[-1]), stop)
        if self._windows % self._step == 0 and len(places) > 2 and begin <= places[1]:
            row = Reader(scan.data, scan.dialect).read(places[1])
            if row.end - places[1] <= _LONGEST:
                self._samples.append(scan.data[places[1] : row.end])
            if len(self._samples) >= 2 * _KEPT:
                self._samples, self._step = self._samples[::2], 2 * self._step
        self._windows += 1


def _odd(line: int) -> NotATable:
    return NotATable("the row is unlike the others, of a table that is too large for memory", line)


def _records(data: bytes, spans: Sequence[Span], start: int, stop: int) -> bytes:
    """The rows between two places that are records; blank ones are none."""
    return b"".join(data[max(span.start, start) : min(span.end, stop)] for span in spans)


def _row_end(data: bytes, dialect: Dialect) -> int:
    """Where the last row ends that ends in `data`, which begins with a row; 0 if none does, or that is not found."""
    newline, quote = dialect.newline.encode(), (dialect.quote or "").encode()
    inside = data.count(quote) % 2 if quote else 0
    end = len(data)
    for _ in range(_TRIES):
        at = data.rfind(newline, 0, end)
        if at < 0:
            return 0
        inside ^= data.count(quote, at, end) % 2 if quote else 0
        if not inside:  # between two records each quote that was opened is closed
            return at + len(newline)
        end = at
    return 0
