"""Rows of tables that are too large to be parsed for a page: only the bytes of the rows that are shown are read.

Where each row is a line, as in JSON that byref wrote, delimited text and JSON lines, any row is found by its number. Rows of JSON
that somebody else wrote are found from the row before.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from byref.artifacts.grep import search
from byref.artifacts.lines import behind, segments
from byref.artifacts.store import Artifact
from byref.errors import ToolError
from byref_sandbox import jsontext
from byref_sandbox.tabletext import reading
from byref_sandbox.tabletext.delimited import Delimited, Span

ROWS: Final = 100
READ_BYTES: Final = 2 << 20
"""Bytes that are read for one page."""
SECONDS: Final = 0.15
"""For the search of a page's rows; the next page goes on where it ended."""

_TOTAL = re.compile(r"array\((\d{1,12})\) of object\b")
_SPACE = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a page, with their numbers from 0 on."""

    rows: list[tuple[int, Any]]
    total: int
    next: int | None
    """The row that the next page begins with."""
    place: int | None = None
    """The byte at which that row begins, where rows are found in no other way."""
    is_late: bool = False
    """The search for rows ended before there were enough, because of the time."""


@dataclass(frozen=True, slots=True)
class ByLines:
    """A table that has each row in a line."""

    artifact: Artifact
    first_line: int
    total: int
    decode: Callable[[Sequence[bytes]], list[Any]]

    def page(self, first: int) -> Rows:
        """Return the rows from `first` on. A page of long rows has fewer."""
        most = min(ROWS, max(0, self.total - first))
        lines, size = [], 0
        part = b""
        for _, piece, ends in segments(self._chunks(first), self.first_line + first) if most else ():
            part, size = part + piece, size + len(piece)
            if ends:
                lines.append(part)
                part = b""
            if len(lines) == most or size > READ_BYTES:
                break
        rows = list(enumerate(self.decode(lines), first))
        behind_these = first + max(1, len(rows))  # a row that is longer than a page is passed over
        return Rows(rows, self.total, behind_these if behind_these < self.total else None)

    def containing(self, text: str, first: int) -> Rows:
        """Return the rows from `first` on whose lines contain a text, in upper or lower case, as far as they are found in time."""
        last = self.first_line + self.total - 1
        start = self.first_line + first
        if start > last:
            return Rows([], self.total, None)
        until = time.monotonic() + SECONDS
        try:
            found = search(
                self.artifact.payload,
                re.escape(text),
                start=start,
                end=last,
                ignore_case=True,
                max_matches=ROWS,
                counted=ROWS,
                deadline=SECONDS,
            )
        except ToolError:
            return Rows([], self.total, None)
        rows: list[tuple[int, Any]] = []
        for number, line in self._lines([hit - self.first_line for hit in found.lines]):
            rows += [(number, one) for one in self.decode([line])]
            if time.monotonic() > until + SECONDS:
                return Rows(rows, self.total, number + 1, is_late=True)
        goes_on = None if found.next_line is None else found.next_line - self.first_line
        return Rows(rows, self.total, goes_on, is_late=found.is_late)

    def _chunks(self, row: int) -> Iterator[tuple[int, bytes]]:
        return self.artifact.payload.chunks(self.first_line + row)

    def _lines(self, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of rows in order; those in one chunk are read together."""
        data, begin = b"", 0
        for number in numbers:
            line = self.first_line + number
            at = behind(data, line - begin) if data and line >= begin else None
            end = -1 if at is None else data.find(b"\n", at)
            if at is None or end < 0:
                chunks = self._chunks(number)
                begin, data = next(chunks)
                at = behind(data, line - begin) or 0
                end = data.find(b"\n", at)
                while end < 0 and len(data) - at < READ_BYTES and (more := next(chunks, None)) is not None:
                    data += more[1]
                    end = data.find(b"\n", at)
            yield number, data[at : end if end >= 0 else len(data)]


@dataclass(frozen=True, slots=True)
class ByPlace:
    """A table in JSON that somebody else wrote."""

    artifact: Artifact
    start: int
    """Where the first row begins."""
    total: int

    def page(self, first: int, place: int) -> Rows:
        """Return the rows from `first` on, which begins at `place`; a place that is none has no rows."""
        place = place or self.start
        if first == 0:
            place = self.start
        size = self.artifact.payload.size
        data = b"".join(self.artifact.payload.span(min(place, size), min(place + READ_BYTES, size)))
        text = data.decode("utf-8", "ignore")  # a character that is cut at the end is in no whole row
        rows: list[tuple[int, Any]] = []
        at, is_over = 0, False
        while len(rows) < ROWS:
            try:
                value, end = _decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                break
            rows.append((first + len(rows), value))
            end = _behind_space(text, end)
            if end == len(text):  # it may be cut, or be followed by something
                if place + len(data) < size:
                    rows.pop()
                break
            if is_over := text[end] != ",":
                break
            at = _behind_space(text, end + 1)
        if is_over or not rows:
            return Rows(rows, self.total, None)
        following = first + len(rows)
        return Rows(rows, self.total, following, place + len(text[:at].encode()))


def table(artifact: Artifact, path: Sequence[Any], shape: object) -> ByLines | ByPlace | None:
    """Return the table at a path in an artifact, as far as it is found without reading all of it; None: it is none."""
    total = _TOTAL.match(shape) if isinstance(shape, str) else None
    if total is None or artifact.is_binary or len(path) > 1 or not all(isinstance(key, str) for key in path):
        return None
    rows = int(total[1])
    if artifact.reading is not None:
        return None if path else _of_text(artifact, artifact.reading, rows)
    if not artifact.is_json:
        return None
    if artifact.has_own_text:
        start = _start(artifact.payload.head(READ_BYTES), path)
        return None if start is None else ByPlace(artifact, start, rows)
    if not path:
        return ByLines(artifact, 2, rows, _json) if artifact.payload.head(3) == b"[\n{" else None
    line = _line_of(artifact, json.dumps(path[0], ensure_ascii=False).encode(errors="replace") + b":[")
    return None if line is None else ByLines(artifact, line + 1, rows, _json)


def _json(lines: Sequence[bytes]) -> list[Any]:
    return [jsontext.decode(line.rstrip(b",\r")) for line in lines]


def _of_text(artifact: Artifact, stored: str, rows: int) -> ByLines | None:
    """Return the table of a text that has a record in each of its lines."""
    try:
        known = reading.from_text(stored)
    except reading.Damaged:
        return None
    count = artifact.payload.line_count
    if not known.tables:
        return ByLines(artifact, 1, rows, _json) if count == rows else None
    one = known.tables[0]
    if len(known.tables) > 1 or not isinstance(one.how, Delimited) or known.encoding != "utf-8":
        return None
    spans = one.how.spans
    above = b"".join(artifact.payload.span(0, min(spans[0].start, READ_BYTES))) if spans else b""
    if len(spans) != 1 or len(above) != spans[0].start or count != above.count(b"\n") + rows:
        return None

    def decode(lines: Sequence[bytes]) -> list[Any]:
        text = b"".join(line + b"\n" for line in lines)
        how = msgspec.structs.replace(one.how, spans=(Span(0, len(text), spans[0].is_strict),))
        part = msgspec.structs.replace(one, rows=len(lines), how=how)
        found = reading.read(reading.to_text(msgspec.structs.replace(known, tables=(part,))), text)
        return found if isinstance(found, list) else []

    return ByLines(artifact, above.count(b"\n") + 1, rows, decode)


def _line_of(artifact: Artifact, key: bytes) -> int | None:
    """Return the line that is this key of the top, if it is found in time: no other line is like it, because none has two keys."""
    until, before = time.monotonic() + SECONDS, b""
    for line, chunk in artifact.payload.chunks():
        data = before + chunk
        if (at := data.find(b"\n" + key + b"\n")) >= 0:
            return line - before.count(b"\n") + data.count(b"\n", 0, at) + 1
        if time.monotonic() > until:
            return None
        before = data[-len(key) - 2 :]
    return None


def _start(head: bytes, path: Sequence[str]) -> int | None:
    """Return where the first element of an array begins; only what stands before it is looked at."""
    text = head.decode("utf-8", "ignore")
    at = _behind_space(text, 1 if text.startswith("\ufeff") else 0)
    if path:
        if text[at : at + 1] != "{":
            return None
        try:
            at = _behind_space(text, at + 1)
            while text[at : at + 1] == '"':
                key, at = _decoder.raw_decode(text, at)
                at = _behind_space(text, _behind_space(text, at) + 1)
                if key == path[0]:
                    break
                _, at = _decoder.raw_decode(text, at)
                at = _behind_space(text, _behind_space(text, at) + 1)
            else:
                return None
        except (ValueError, RecursionError):
            return None
    if text[at : at + 1] != "[":
        return None
    return len(text[: _behind_space(text, at + 1)].encode())


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
