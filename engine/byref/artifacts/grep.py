"""Search a stored payload line by line, in time linear in its size and without holding the whole payload in memory."""

from __future__ import annotations

import codecs
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from byref.artifacts.excerpts import CLIPPED_BYTES, LINE_CHARS, Hit, clipped, excerpts
from byref.artifacts.lines import Payload, behind, check_range, decode, without_returns
from byref.artifacts.patterns import (
    SHOWN_CHARS,
    Match,
    Regexp,
    compile_pattern,
    forget_patterns,
    sees_line_ends,
    shortened,
)
from byref.errors import ToolError

__all__ = ["COUNTED", "MIN_CHARS", "Found", "GrepResult", "grep", "search"]

MIN_CHARS = 40
"""The smallest `max_chars` that a caller may give. A header may still be longer; it is then the whole answer."""
_WINDOW_CHARS = 240
_WINDOWS_PER_LINE = 3
_NUMBER_CHARS = 8
_REPEATS = re.compile(r"[*+{]")
"""Without one of these a pattern's matches are about as long as the pattern."""
_REASONED_CHARS = 600
COUNTED = 1_000
"""Number of matching lines after which the search stops counting; the answer then says "more than"."""

# One call of RE2 cannot be interrupted and takes at most about 1.6 ns per byte and instruction. So the number of bytes
# per call is limited such that even the worst pattern returns within about a second, and the deadline can be checked.
_SLICE_BYTES = 1 << 20
_MIN_SLICE_BYTES = 32 * 1024
_SLICE_WORK = 64 << 20
_MOST_SLICE_WORK = 640 << 20
_LONG_BYTES = 16 << 20
"""A line of up to so many bytes is searched as a whole, unless the pattern would take longer than a second for it."""


@dataclass(frozen=True, slots=True)
class GrepResult:
    """The answer for the model and its figures."""

    text: str
    matches: int
    """Number of matching lines; a lower bound if the search is not `complete`."""
    complete: bool
    shown: int
    """Number of matching lines that `text` shows."""


From = Callable[[int, int | None], str]
"""Returns the arguments with which the calling tool continues the search, given the first line and the last line or None."""


def _from_line(line: int, end: int | None) -> str:
    return f"start_line={line}" + ("" if end is None else f", end_line={end}")


def grep(
    payload: Payload,
    pattern: str,
    *,
    context_lines: int = 5,
    start: int = 1,
    end: int | None = None,
    ignore_case: bool = False,
    max_matches: int = 50,
    max_chars: int,
    deadline: float = 10.0,
) -> GrepResult:
    """Return the lines from `start` to `end` (1-based, inclusive) that match `pattern`, with the lines around them.

    The pattern has RE2's syntax and is matched within single lines: `^` and `$` match a line's ends, and a carriage
    return before the line feed does not belong to the line. A pattern that does not compile is searched as literal
    text, and the header says so.

    The answer has at most `max_chars` characters and shows at most `max_matches` matching lines; of a line over 500
    characters it shows only the text around the matches. The search stops beyond `COUNTED` matching lines, and after
    `deadline` seconds; the answer then says how far it came. Lines of more than 16 MiB (less for more complex patterns) are searched
    in overlapping parts: a long match may be missed there, and the answer says in which line, and how long.

    Raises:
        ToolError: the range is not in the payload, or the pattern is empty or too large.
        ValueError: `max_chars` is under `MIN_CHARS`, or `max_matches` under 1.
    """
    found = search(
        payload,
        pattern,
        start=start,
        end=end,
        ignore_case=ignore_case,
        max_matches=max_matches,
        deadline=deadline,
        context_lines=context_lines,
        max_chars=max_chars,
    )
    return found.render(max_chars, context_lines=context_lines)


def search(
    payload: Payload,
    pattern: str,
    *,
    start: int = 1,
    end: int | None = None,
    ignore_case: bool = False,
    max_matches: int = 50,
    deadline: float = 10.0,
    context_lines: int = 0,
    counted: int = COUNTED,
    max_chars: int | None = None,
) -> Found:
    """Search as `grep` does, and return a result that can be rendered several times, in different sizes up to `max_chars`.

    It ends beyond `counted` matching lines, or beyond `max_matches` if these are more. Up to `context_lines` lines around each match are kept during the search, so that rendering need not read them again.
    """
    if max_matches < 1:
        raise ValueError(f"max_matches={max_matches!r}: expected at least 1")
    last = check_range(payload, start, end)
    try:
        regexp, literal = compile_pattern(pattern, ignore_case=ignore_case)
        until = time.monotonic() + deadline
        bare = bool(literal) or sees_line_ends(pattern)
        room = sys.maxsize if max_chars is None else max_chars
        done = _Search(
            payload, regexp, start, last, max_matches, until, context_lines, room, bare=bare, counted=counted
        )
        done.run()
    finally:
        forget_patterns()
    return Found(done, pattern, literal, deadline, end)


@dataclass(frozen=True, slots=True)
class Found:
    """A finished search, ready to be rendered."""

    _search: _Search
    _pattern: str
    _literal: str
    _deadline: float
    _end: int | None

    @property
    def lines(self) -> list[int]:
        """The numbers of the first matching lines, at most `max_matches`."""
        return [hit.line for hit in self._search.hits]

    @property
    def is_late(self) -> bool:
        """Whether the deadline ended the search."""
        return self._search.late

    @property
    def next_line(self) -> int | None:
        """The line from which another search goes on; None if all matching lines are in `lines`."""
        search, lines = self._search, self.lines
        if lines and search.matches > len(lines):
            return lines[-1] + 1
        return None if search.complete else search.line if search.late else lines[-1] + 1

    def render(self, max_chars: int, *, context_lines: int = 5, go_on: From = _from_line) -> GrepResult:
        """Return the answer for the model in at most `max_chars` characters; raises ToolError and ValueError as `grep` does."""
        if max_chars < MIN_CHARS:
            raise ValueError(f"max_chars={max_chars!r}: expected at least {MIN_CHARS}")
        if context_lines < 0:
            raise ToolError(f"context_lines={context_lines}: expected 0 or more")
        done = self._search
        rows: list[str] = []
        shown = 0
        # First reserve room only for the shorter header of an answer that shows all matches. If they do not fit, render
        # again with room for the longer header that says how to go on.
        for assumed in (0,) if done.capped else (done.matches, 0):
            reserve = 1 if assumed else len(f", or go on with {go_on(done.last, self._end)}") + _NUMBER_CHARS
            room = max_chars - len(self._header(assumed, max_chars, go_on)) - reserve
            if room > 0:
                rows, shown = excerpts(done.payload, done.hits, done.around, done.start, done.last, context_lines, room)
            if shown == done.matches:
                break
        header = self._header(shown, max_chars, go_on)
        return GrepResult("\n".join([header, "", *rows] if rows else [header]), done.matches, done.complete, shown)

    def _header(self, shown: int, max_chars: int, go_on: From) -> str:
        """Say what was searched for, how much was found and how to go on; a long pattern is cut to fit `max_chars`."""
        search, total, pattern = self._search, self._search.matches, self._pattern
        most = min(SHOWN_CHARS, max_chars // 16)
        count = f"{total:,}" if search.complete else f"more than {total:,}" if total else "no"
        header = f"{count} {'match' if total == 1 else 'matches'} for /{shortened(pattern, most)}/"
        if self._literal:
            header += ", searched as literal text"
            if max_chars > _REASONED_CHARS:
                header += f" (no usable regular expression: {shortened(self._literal)})"
        notes = []
        if shown < total or search.capped:
            following = search.hits[shown - 1].line + 1 if shown else 0
            further = f", or go on with {go_on(following, self._end)}" if shown and following <= search.last else ""
            notes.append(f"INCOMPLETE: first {shown} shown. Narrow the pattern{further}")
        if search.late:
            stopped = f"the search stopped in line {search.line} after {self._deadline:g} seconds"
            known = "" if notes else f". Go on with {go_on(search.line, self._end)}"
            notes.append(f"{'' if notes else 'INCOMPLETE: '}{stopped}{known}")
        if search.parted and (not self._literal and _REPEATS.search(pattern)):
            notes.append(
                f"line {search.parted} is so long that matches of more than {search.overlap:,} bytes are not found in it"
            )
        if not total and ("\n" in pattern or "\\n" in pattern):
            notes.append("patterns match within single lines, so a line break never matches")
        elif not total and ("\r" in pattern or "\\r" in pattern):
            notes.append("a carriage return at a line's end is no part of the line")
        return f"[{'; '.join([header, *notes])}]"


class _Search:
    """One pass over the payload's chunks: counts the matching lines, and keeps the rows to show of the first ones."""

    def __init__(
        self,
        payload: Payload,
        regexp: Regexp,
        start: int,
        last: int,
        max_matches: int,
        until: float,
        context: int,
        room: int,
        *,
        bare: bool,
        counted: int,
    ) -> None:
        self.payload, self.regexp, self.start, self.last, self.until = payload, regexp, start, last, until
        self._found, self.late = 0, False
        self.hits: list[Hit] = []
        self.around: dict[int, str] = {}
        """Context lines by number: those that were in memory anyway when a match was found near them."""
        self._context = context
        # A carriage return before a line feed must not be seen by the pattern. If it could decide a match, it is removed
        # before the search, which copies the data; otherwise only from the text shown, which is faster.
        self._bare = bare
        self._ending = b"" if bare else b"\r"
        self._free, self._room = max_matches, room
        self._most = max(counted, max_matches)
        self._to_the_end = last == payload.line_count
        # `_data` holds the current bytes, `_position` is where to go on in them. `_inside` means that the position is
        # within a line longer than a slice: `_column` is then the number of its characters before the position, and
        # `_resume` is where the search for its next match begins.
        self._chunks: Iterator[tuple[int, bytes]]
        self._data: bytes
        self._position: int
        # Line feeds are counted only when a line's number is needed, which most chunks never do: `_line` is the number
        # of the line at offset `_counted`.
        self._line: int
        self._counted: int
        self._inside: bool
        self._column: int
        self._resume: int
        most, least = _SLICE_WORK // regexp.programsize, _MOST_SLICE_WORK // regexp.programsize
        self._slice = max(min(_MIN_SLICE_BYTES, least), min(_SLICE_BYTES, most))
        self._long = max(self._slice, min(_LONG_BYTES, least))
        self.parted = 0
        """The first line that was searched in parts, in none of which a match was found; 0: there is none."""
        self._seek(start)

    @property
    def line(self) -> int:
        """The 1-based number of the line at the current position."""
        if self._counted < self._position:
            self._line += self._data.count(b"\n", self._counted, self._position)
            self._counted = self._position
        return self._line

    @property
    def complete(self) -> bool:
        """Whether all lines were searched."""
        return not self.late and not self.capped

    @property
    def capped(self) -> bool:
        """Whether there are more matching lines than are counted."""
        return self._found > self._most

    @property
    def matches(self) -> int:
        """The number of matching lines, counted up to the limit."""
        return min(self._found, self._most)

    def run(self) -> None:
        """Search until the last line, the limit of counted lines or the deadline; results are in the attributes."""
        while self._fill() and (self._to_the_end or self.line <= self.last):
            if self._is_late() or not self.complete:
                return
            if self._inside:
                self._search_part()
                continue
            stop = len(self._data)
            if stop - self._position > self._slice:
                stop = self._data.rfind(b"\n", self._position, self._position + self._slice)
            elif self._data.endswith(b"\n"):
                stop -= 1
            if stop < 0:
                self._inside, self._column, self._resume = True, 0, self._position
            else:
                self._search_lines(stop)

    @property
    def overlap(self) -> int:
        """Bytes of a match that is found wherever the parts of a long line begin."""
        return self._slice // 4

    def _end_of_long_line(self) -> int:
        """Load the rest of a line that is longer than a slice, and return where it ends; -1 if it is too long to be searched as a whole."""
        pieces, looked_at = [self._data], self._position
        size, end = len(self._data), -1
        while size - self._position <= self._long:
            end = pieces[-1].find(b"\n", looked_at)
            chunk = next(self._chunks, None) if end < 0 else None
            if chunk is None:
                break
            pieces.append(chunk[1])
            size, looked_at = size + len(chunk[1]), 0
        if len(pieces) > 1:
            self._data = b"".join(pieces)
        if end >= 0:
            end += size - len(pieces[-1])
        elif size - self._position <= self._long:
            end = size
        return end if end - self._position <= self._long else -1

    def _search_lines(self, stop: int) -> None:
        """Search the whole lines between the position and `stop`, the offset of a line feed or of the end of the data."""
        data, at, search = self._data, self._position, self.regexp.search
        if not self._to_the_end and data.count(b"\n", at, stop) > (feeds := self.last - self.line):
            stop -= len(data[at:stop].split(b"\n", feeds + 1)[-1]) + 1
        while self._free and at <= stop and (match := search(data, at, stop)):
            begin = match.start()
            first = data.rfind(b"\n", at, begin) + 1 or at
            line_end = data.find(b"\n", begin, stop)
            line_end = stop if line_end < 0 else line_end
            self._position = first
            self._found += 1
            self.hits.append(Hit(self.line))
            self._show(first, 0, match, line_end, True)
            before = self._keep_around(first, line_end)
            # Of the first hit's rows those that do not fit are left out, so that they take no certain room.
            if len(self.hits) > 1:
                self._room -= sum(map(len, self.hits[-1].rows)) + before
            if self._room < 0:
                self._free = 0
            at = line_end + 1
        # Enough rows are kept: further matching lines are only counted, because to number a line takes longer than to find it.
        while not self._free and at <= stop and (match := search(data, at, stop)):
            self._found += 1
            at = data.find(b"\n", match.start(), stop) + 1 or stop + 1
            if self.capped or (not self._found & 63 and self._is_late()):
                self._position = at
                return
        self._position = stop + 1

    def _keep_around(self, first: int, line_end: int) -> int:
        """Keep the context of the line that begins at `first`: only lines that are whole in the current data.

        Return the characters of the lines before it that were not kept yet.
        """
        data, number, at, before_it = self._data, self.line, first, 0
        earlier = self.hits[-2].line if len(self.hits) > 1 else 0
        for before in range(number - 1, max(self.start - 1, earlier, number - self._context - 1), -1):
            begin = data.rfind(b"\n", 0, max(0, at - 1)) + 1
            if before in self.around or not begin:
                break
            self.around[before] = clipped(data[begin : min(at - 1, begin + CLIPPED_BYTES)], self._ending)
            at, before_it = begin, before_it + len(self.around[before])
        at = line_end + 1
        for after in range(number + 1, min(self.last, number + self._context) + 1):
            end = data.find(b"\n", at)
            if end < 0:
                break
            self.around[after] = clipped(data[at : min(end, at + CLIPPED_BYTES)], self._ending)
            at = end + 1
        return before_it

    def _search_part(self) -> None:
        """Search one part of a line that is longer than a slice.

        Each part overlaps the one before by a quarter of a slice, so that a match across the border is found.
        """
        data, window = self._data, self._position + self._slice
        feed = data.find(b"\n", self._position, window)
        ends = feed >= 0 or len(data) <= window
        stop = feed if feed >= 0 else min(window, len(data))
        seen = bool(self.hits) and self.hits[-1].line == self.line
        match = self.regexp.search(data, self._resume, stop)
        if match and not seen:
            self._found += 1
            if self._free:
                self.hits.append(Hit(self.line))
                seen = True
        if match and seen and self._show(self._position, self._column, match, stop, ends):
            match = None
        if match:
            self._skip_line(feed)
        elif not (seen or ends or self._column) and (end := self._end_of_long_line()) >= 0:
            self._inside = False  # nothing is found in its beginning: all of the line is searched at once
            self._search_lines(end)
        elif ends:
            self.parted = self.parted or (0 if seen else self.line)
            self._inside, self._position = False, stop + 1
        else:
            ahead = stop - self._slice // 4
            # Go back to the beginning of a UTF-8 character, so that the part's first character is not cut.
            ahead -= next((back for back in range(4) if data[ahead - back] & 0xC0 != 0x80), 0)
            self._column += len(data[self._position : ahead].decode("utf-8", "replace"))
            self._position, self._resume = ahead, max(ahead, self._resume)

    def _show(self, first: int, column: int, match: Match | None, stop: int, ends: bool) -> bool:
        """Keep the rows that show a matching line or a part of one; return False when the line needs no more rows.

        `first` and `stop` are the offsets at which the part begins and ends, `column` is the number of the line's
        characters before it, and `ends` tells that the line ends at `stop`.
        """
        data, hit = self._data, self.hits[-1]
        if ends and not column and stop - first <= 4 * LINE_CHARS:
            text = decode(data[first:stop].removesuffix(self._ending))
            if len(text) <= LINE_CHARS:
                hit.rows.append(text)
                self._free -= 1
                return False
        most = self._free if self.start == self.last else min(self._free, _WINDOWS_PER_LINE - len(hit.rows))
        at = first
        while match and most:
            begin = match.start()
            before = data[max(at, begin - _WINDOW_CHARS - 4) : begin].decode("utf-8", "replace")[-_WINDOW_CHARS // 4 :]
            # Surrogate escapes turn back into exactly the same bytes, so the number of bytes shown is exact even where
            # the data is not UTF-8: the next window begins behind them.
            ahead = data[begin : min(stop, begin + 4 * _WINDOW_CHARS)].decode("utf-8", "surrogateescape")
            after = ahead[: _WINDOW_CHARS * 3 // 4].encode("utf-8", "surrogateescape")
            at = begin + max(1, len(after))
            character = column + len(data[first:begin].decode("utf-8", "replace"))
            left = "…" if character > len(before) else ""
            right = "" if ends and at >= stop else "…"
            text = (before + after.decode("utf-8", "replace")).replace("\0", "\ufffd")
            if ends and at >= stop:
                text = text.removesuffix(self._ending.decode())
            hit.rows.append(f"[column {character + 1}] {left}{text}{right}")
            self._free, most = self._free - 1, most - 1
            match = self.regexp.search(data, at, stop) if at < stop and not self._is_late() else None
        self._resume = at
        if match or (not most and not ends):
            narrow = "" if self.start == self.last else f": search line {self.line} alone to see them"
            hit.rows.append(f"[line {self.line} goes on, with more matches perhaps{narrow}]")
        return not match and bool(most)

    def _fill(self) -> bool:
        """Load chunks until the data behind the position is more than a slice, ends with a line feed, or is all there is.

        Return False if nothing is left.
        """
        while (left := len(self._data) - self._position) <= self._slice and (left <= 0 or self._data[-1:] != b"\n"):
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            if left <= 0:
                (self._line, self._data), self._position, self._counted, self._resume = chunk, 0, 0, 0
                continue
            # One byte before the position is kept, because `^` and `\b` look at it.
            self._line, keep = self.line, max(0, self._position - 1)
            self._data = self._data[keep:] + chunk[1]
            self._position, self._resume = self._position - keep, max(0, self._resume - keep)
            self._counted = self._position
        return self._position < len(self._data)

    def _seek(self, line: int) -> None:
        """Go to the beginning of `line`."""
        self._data, self._position, self._resume, self._column, self._inside = b"", 0, 0, 0, False
        self._line, self._counted = line, 0
        chunks = self.payload.chunks(line)
        self._chunks = without_returns(chunks) if self._bare else chunks
        for first, data in self._chunks:
            if first == 1 and line == 1:
                # A reader sees no byte order mark, so `^` matches behind it.
                data = data.removeprefix(codecs.BOM_UTF8)
            if (begin := behind(data, line - first)) is not None:
                self._data = data
                self._position = self._counted = begin
                return

    def _skip_line(self, feed: int) -> None:
        """Go to the next line; if its line feed was not found in the data (`feed` < 0), find it by the payload's index."""
        if feed >= 0:
            self._inside, self._position = False, feed + 1
        elif self.line < self.last:
            self._seek(self.line + 1)
        else:
            self._chunks, self._position = iter(()), len(self._data)

    def _is_late(self) -> bool:
        self.late = self.late or time.monotonic() >= self.until
        return self.late
