"""Read numbered lines of a stored payload, one bounded page at a time, without holding the whole payload in memory.

Only a line feed ends a line, as in grep and sed; a last line without line feed counts. A carriage return before the line
feed is not shown.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from byref.errors import ToolError

__all__ = [
    "MIN_CHARS",
    "Page",
    "Payload",
    "behind",
    "check_range",
    "decode",
    "number_width",
    "numbered",
    "read_lines",
    "segments",
    "without_returns",
]

MIN_CHARS = 180
"""The smallest `max_chars` of a page: room for the longest note and some characters of a line."""
_NOTE_CHARS = 164
_STRIDE = 16 * 1024
"""Bytes in which line feeds are counted at once. Counting stops near the line, not at the end of a frame of 1 MiB."""


class Payload(Protocol):
    """The stored bytes of an artifact, read in chunks of at most a frame."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    @property
    def line_count(self) -> int:
        """Number of lines; a last line without line feed counts."""

    def chunks(self, line: int = 1) -> Iterator[tuple[int, bytes]]:
        """Yield (first line, bytes) of the chunks in order, from one that begins at or before line `line`.

        The first line is the 1-based number of the line in which the chunk begins, which may be inside that line. Only if
        the first chunk has the number `line` itself, it begins at the beginning of that line.
        """


GoOn = Callable[[int, int, int | None, int], str]
"""Returns the note that says how the reading tool continues, given (line, column, last line wanted or None, total lines)."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines as the model reads them; `next_line` and `next_column` are where the next page begins (None: no more)."""

    text: str
    first: int
    last: int
    next_line: int | None
    next_column: int
    """1-based column in characters; more than 1 if the page was cut inside `next_line`."""
    total_lines: int


def read_lines(
    payload: Payload,
    start: int = 1,
    end: int | None = None,
    *,
    max_chars: int,
    column: int = 1,
    go_on: GoOn | None = None,
) -> Page:
    """Return lines `start` to `end`, 1-based and inclusive, in at most `max_chars` characters.

    The first line is shown from character `column` on (1-based). A page that does not reach `end` closes with the note
    that `go_on` returns. A line that fits into a page of its own is never cut; a longer line is cut, and the next page
    goes on inside it. An `end` past the last line means the last line.

    Raises:
        ToolError: the range or the column is not in the payload.
        ValueError: `max_chars` is under `MIN_CHARS`.
    """
    if max_chars < MIN_CHARS:
        raise ValueError(f"max_chars={max_chars!r}: expected {MIN_CHARS} or more")
    last = check_range(payload, start, end)
    if column < 1:
        raise ToolError(f"start_column={column}: columns are numbered from 1")
    width = number_width(payload.line_count)
    room = max_chars - _NOTE_CHARS
    line_room = room - len(numbered(1, "", width)) - 1
    rows: list[str] = []
    free = line_room
    number, next_line, next_column = start, None, 1
    for number, text, whole in _texts(payload, start, last, column, line_room):
        if whole and len(text) <= free:
            rows.append(numbered(number, text, width))
            free -= len(rows[-1]) + 1
            continue
        next_line = number
        if not rows or (free > line_room // 2 and not (whole and len(text) <= line_room)):
            rows.append(numbered(number, text[:free], width))
            next_column = free + (column if number == start else 1)
        break
    shown_last = number if next_line is None or next_column > 1 else number - 1
    text = "\n".join(rows)
    if next_line is not None:
        text += "\n\n" + (go_on or _how_to_go_on)(
            next_line, next_column, None if end is None else last, payload.line_count
        )
    return Page(text, start, shown_last, next_line, next_column, payload.line_count)


_FAR = 10**15


def check_range(payload: Payload, start: int, end: int | None) -> int:
    """Return the last line of the range that exists; ToolError if the range is empty, reversed or past the end."""
    total = payload.line_count
    start = max(-_FAR, min(start, _FAR))  # a model may write thousands of digits, which an error must not repeat
    if start < 1:
        raise ToolError(f"line {start}: lines are numbered from 1")
    if end is not None and end < start:
        raise ToolError(f"the last line, {end}, is before the first, {start}")
    if total == 0:
        raise ToolError("there are no lines: the artifact is empty")
    if start > total:
        raise ToolError(f"line {start} is past the end: there are {total} lines")
    return total if end is None else min(end, total)


def segments(chunks: Iterable[tuple[int, bytes]], start: int) -> Iterator[tuple[int, bytes, bool]]:
    """Yield (line, bytes, whether the line ends here) from the beginning of line `start` on, without line feeds."""
    number, open_line = start, False
    for first, data in chunks:
        position = 0
        if first < start and not open_line and number == start:
            begin = behind(data, start - first)
            if begin is None:
                continue
            position = begin
        while (feed := data.find(b"\n", position)) >= 0:
            yield number, data[position:feed], True
            number, position, open_line = number + 1, feed + 1, False
        if position < len(data):
            yield number, data[position:], False
            open_line = True
    if open_line:
        yield number, b"", True


def behind(data: bytes, feeds: int) -> int | None:
    """Return the offset behind the given number of line feeds; None if the data has fewer."""
    at = 0
    while (here := data.count(b"\n", at, at + _STRIDE)) < feeds:
        at, feeds = at + _STRIDE, feeds - here
        if at >= len(data):
            return None
    near = data[at : at + _STRIDE]
    return at + len(near) - len(near.split(b"\n", feeds)[-1])


def without_returns(chunks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield chunks of the same lines, without the carriage return before each line feed."""
    # A carriage return at the end of a chunk is held back until the next byte is known.
    held, line = b"", 0
    for first, data in chunks:
        data, held = held + data, b""
        if data.endswith(b"\r"):
            data, held, line = data[:-1], b"\r", first + data.count(b"\n")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        if data:
            yield first, data
    if held:
        yield line, b"\n"


def decode(data: bytes) -> str:
    """Return bytes as text that can be shown: invalid UTF-8 and NUL are replaced by U+FFFD."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def number_width(total: int) -> int:
    """Return the width of the column of line numbers without the marker; every number has at least one blank before it."""
    return max(3, len(str(total)) + 1)


def numbered(number: int, text: str, width: int, marker: str = " ") -> str:
    """Return one row: marker, number aligned to the right, text."""
    return f"{marker}{number:>{width}}| {text}"


def _texts(payload: Payload, start: int, last: int, column: int, room: int) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, text, whether the text is complete); of a line longer than `room`, a little more than `room` characters."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text, skip = "", column - 1
    for number, data, ends in segments(payload.chunks(start), start):
        if number > last:
            return
        piece = decoder.decode(data, ends)
        text += piece[skip:]
        skip -= min(skip, len(piece))
        if ends:
            decoder.reset()
            text = text.removesuffix("\r")
            if number == start and column > 1 and (skip or not text):
                raise ToolError(f"start_column={column} is past the end of line {start}")
            skip = 0
        # Two more than the room: then the part left out is surely more than the line's carriage return.
        if ends or len(text) > room + 2:
            yield number, text.replace("\0", "\ufffd"), ends
            text = ""


def _how_to_go_on(line: int, column: int, end: int | None, total: int) -> str:
    rest = "" if end is None else f", end_line={end}"
    if column > 1:
        cut = f"INCOMPLETE: cut inside line {line} of {total}, before column {column}."
        return f"[{cut} Go on with start_line={line}, start_column={column}{rest}.]"
    return f"[INCOMPLETE: cut before line {line} of {total}. Go on with start_line={line}{rest}.]"
