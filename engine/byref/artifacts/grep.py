"""Searching a stored payload line by line, in time linear in its size and without holding it whole."""

from __future__ import annotations

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
"""The least room of an answer; the header may take more, and then stands alone."""
_WINDOW_CHARS = 240
_WINDOWS_PER_LINE = 3
_NUMBER_CHARS = 8
_REASONED_CHARS = 600
COUNTED = 1_000
"""Matching lines that are counted; beyond it an answer says "more than"."""

# One call of RE2 takes at most about 1.6 ns per byte and instruction: the bytes searched at once are chosen so that even
# the worst pattern returns in about a second, to look at the clock.
_SLICE_BYTES = 1 << 20
_MIN_SLICE_BYTES = 32 * 1024
_SLICE_WORK = 64 << 20
_MOST_SLICE_WORK = 640 << 20


@dataclass(frozen=True, slots=True)
class GrepResult:
    """What the model reads, and the number of matching lines: at least that many if the search was not `complete`."""

    text: str
    matches: int
    complete: bool
    shown: int
    """Matching lines that are shown."""


From = Callable[[int, int | None], str]
"""The parameters, in the words of the tool that searches, that begin at a line and end at the last one wanted."""


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

    The pattern is RE2's, matched within single lines (`^` and `$` are a line's ends, a carriage return before the line
    feed is no part of the line); one that does not compile is
    searched as literal text, which the header says. At most `max_matches` matching lines are shown, in at most
    `max_chars` characters; of a line over 500 characters the surroundings of its matches. Beyond `COUNTED` matching lines
    the search stops; after `deadline` seconds it does too, and says how far it came. In a line over 2 KiB to 1 MiB (the more complex the pattern,
    the less), a match longer than a quarter of that may be missed.

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
) -> Found:
    """Search as `grep` does, once, for an answer of several sizes; so many lines around each match are kept in passing."""
    if max_matches < 1:
        raise ValueError(f"max_matches={max_matches!r}: expected at least 1")
    last = check_range(payload, start, end)
    try:
        regexp, literal = compile_pattern(pattern, ignore_case=ignore_case)
        until = time.monotonic() + deadline
        bare = bool(literal) or sees_line_ends(pattern)
        done = _Search(payload, regexp, start, last, max_matches, until, context_lines, bare=bare)
        done.run()
    finally:
        forget_patterns()
    return Found(done, pattern, literal, deadline, end)


@dataclass(frozen=True, slots=True)
class Found:
    """A search that is over."""

    _search: _Search
    _pattern: str
    _literal: str
    _deadline: float
    _end: int | None

    def render(self, max_chars: int, *, context_lines: int = 5, go_on: From = _from_line) -> GrepResult:
        """Return what the model reads in at most `max_chars` characters; ToolError, ValueError as `grep`."""
        if max_chars < MIN_CHARS:
            raise ValueError(f"max_chars={max_chars!r}: expected at least {MIN_CHARS}")
        if context_lines < 0:
            raise ToolError(f"context_lines={context_lines}: expected 0 or more")
        done = self._search
        rows: list[str] = []
        shown = 0
        # Room for the header of an answer that shows all; only where that is not enough, for one that says how to go on.
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
        """Say what was searched for, how much was found, and how to go on; long patterns only where there is room."""
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
        if not total and ("\n" in pattern or "\\n" in pattern):
            notes.append("patterns match within single lines, so a line break never matches")
        elif not total and ("\r" in pattern or "\\r" in pattern):
            notes.append("a carriage return at a line's end is no part of the line")
        return f"[{'; '.join([header, *notes])}]"


class _Search:
    """One pass over the payload's chunks: counts the matching lines, and keeps what is shown of the first ones."""

    def __init__(
        self,
        payload: Payload,
        regexp: Regexp,
        start: int,
        last: int,
        max_matches: int,
        until: float,
        context: int,
        *,
        bare: bool,
    ) -> None:
        self.payload, self.regexp, self.start, self.last, self.until = payload, regexp, start, last, until
        self._found, self.late = 0, False
        self.hits: list[Hit] = []
        self.around: dict[int, str] = {}
        """Lines near those that are shown, by number: what was in hand of them."""
        self._context = context
        # The carriage return before a line feed is taken off what is searched where it matters, else off what is shown.
        self._bare = bare
        self._ending = b"" if bare else b"\r"
        self._free = max_matches
        self._most = max(COUNTED, max_matches)
        self._to_the_end = last == payload.line_count
        # The bytes in hand; where to go on in them; within a line longer than a slice, also the characters of it
        # before the position, and where the search for its next match begins.
        self._chunks: Iterator[tuple[int, bytes]]
        self._data: bytes
        self._position: int
        # Line feeds are counted where a line's number is asked for: in most chunks never.
        self._line: int
        self._counted: int
        self._inside: bool
        self._column: int
        self._resume: int
        most, least = _SLICE_WORK // regexp.programsize, _MOST_SLICE_WORK // regexp.programsize
        self._slice = max(min(_MIN_SLICE_BYTES, least), min(_SLICE_BYTES, most))
        self._seek(start)

    @property
    def line(self) -> int:
        """The number of the line that the position is in."""
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
        """Matching lines that were counted."""
        return min(self._found, self._most)

    def run(self) -> None:
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

    def _search_lines(self, stop: int) -> None:
        """Search whole lines: those from the position up to the line feed, or end, at `stop`."""
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
            self._keep_around(first, line_end)
            at = line_end + 1
        # The others are only counted.
        while not self._free and at <= stop and (match := search(data, at, stop)):
            self._found += 1
            at = data.find(b"\n", match.start(), stop) + 1 or stop + 1
            if self.capped or (not self._found & 63 and self._is_late()):
                self._position = at
                return
        self._position = stop + 1

    def _keep_around(self, first: int, line_end: int) -> None:
        """Keep the lines around one that begins at `first`, as far as they are whole in the bytes in hand."""
        data, number, at = self._data, self.line, first
        for before in range(number - 1, max(self.start, number - self._context) - 1, -1):
            begin = data.rfind(b"\n", 0, max(0, at - 1)) + 1
            if before in self.around or not begin:
                break
            self.around[before] = clipped(data[begin : min(at - 1, begin + CLIPPED_BYTES)], self._ending)
            at = begin
        at = line_end + 1
        for after in range(number + 1, min(self.last, number + self._context) + 1):
            end = data.find(b"\n", at)
            if end < 0:
                break
            self.around[after] = clipped(data[at : min(end, at + CLIPPED_BYTES)], self._ending)
            at = end + 1

    def _search_part(self) -> None:
        """Search a part of a line that is longer than a slice, overlapping the part before by a quarter."""
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
        elif ends:
            self._inside, self._position = False, stop + 1
        else:
            ahead = stop - self._slice // 4
            ahead -= next((back for back in range(4) if data[ahead - back] & 0xC0 != 0x80), 0)
            self._column += len(data[self._position : ahead].decode("utf-8", "replace"))
            self._position, self._resume = ahead, max(ahead, self._resume)

    def _show(self, first: int, column: int, match: Match | None, stop: int, ends: bool) -> bool:
        """Keep what is shown of a matching line; False once no more of it will be.

        `first` is where the part of the line in hand begins, after `column` characters of it; `stop` where it ends.
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
            # Invalid bytes are kept apart, to know how many were shown.
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
        """Have whole lines or more than a slice at hand behind the position, or all there is; False if that is nothing."""
        while (left := len(self._data) - self._position) <= self._slice and (left <= 0 or self._data[-1:] != b"\n"):
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            if left <= 0:
                (self._line, self._data), self._position, self._counted, self._resume = chunk, 0, 0, 0
                continue
            # One byte before the position stays, for `^` and `\b`.
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
            if (begin := behind(data, line - first)) is not None:
                self._data = data
                self._position = self._counted = begin
                return

    def _skip_line(self, feed: int) -> None:
        if feed >= 0:
            self._inside, self._position = False, feed + 1
        elif self.line < self.last:
            self._seek(self.line + 1)
        else:
            self._chunks, self._position = iter(()), len(self._data)

    def _is_late(self) -> bool:
        self.late = self.late or time.monotonic() >= self.until
        return self.late
