"""Choose and format the rows that show a search: the matching lines and the lines around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from byref.artifacts.lines import Payload, decode, number_width, numbered, segments

__all__ = ["CLIPPED_BYTES", "LINE_CHARS", "Hit", "clipped", "excerpts"]

LINE_CHARS = 500
"""Lines up to this length are shown whole. A longer matching line is shown as windows around its matches, a longer context
line by its beginning."""

CLIPPED_BYTES = 4 * LINE_CHARS + 1
"""Bytes of a line that are read: enough for its first `LINE_CHARS` characters, and to know whether there are more."""


@dataclass(slots=True)
class Hit:
    """A matching line, and the rows that show its matches."""

    line: int
    rows: list[str] = field(default_factory=list)


def excerpts(
    payload: Payload,
    hits: list[Hit],
    around: Mapping[int, str],
    start: int,
    last: int,
    context_lines: int,
    room: int,
) -> tuple[list[str], int]:
    """Return the rows of as many hits as fit into `room` characters, and how many that are.

    Context lines are taken from `around`; the others are read from the payload.
    """
    width = number_width(payload.line_count)
    context = min(context_lines, room // (width + 3))  # no more rows than that can be shown
    rows: list[str] = []
    used = shown = done = 0
    chunks = _Chunks(payload, around)
    for index, hit in enumerate(hits):
        low = max(start, hit.line - context, done + 1)
        high = min(last, hit.line + context)
        if index + 1 < len(hits):
            high = min(high, hits[index + 1].line - 1)
        marked = [numbered(hit.line, text, width, ">") for text in hit.rows]
        before = [numbered(n, text, width) for n, text in chunks.lines(low, hit.line - 1)]
        if rows and low > done + 1:
            before.insert(0, "---")
        cost = _cost(marked)
        if used + cost + (_cost(before) if rows else 0) > room:
            if rows:
                break
            # The first hit alone is too large, but an answer without any hit helps nobody: show as many of its windows as
            # fit, or cut the only one.
            while cost > room and len(marked) > 1:
                cost -= len(marked.pop()) + 1
            if cost > room:
                marked[0] = marked[0][: max(0, room - 2)] + "…"
                cost = _cost(marked)
        if not rows:
            while _cost(before) > room - cost:
                before.pop(0)
        rows += before + marked
        used += _cost(before) + cost
        shown, done = shown + 1, hit.line
        for number, text in chunks.lines(hit.line + 1, high):
            row = numbered(number, text, width)
            if used + len(row) + 1 > room:
                return rows, shown
            rows.append(row)
            used, done = used + len(row) + 1, number
    return rows, shown


def _cost(rows: list[str]) -> int:
    return sum(map(len, rows)) + len(rows)


class _Chunks:
    """Looks lines up by number, in rising order; reads only lines that are neither known nor in the current chunk."""

    def __init__(self, payload: Payload, known: Mapping[int, str]) -> None:
        self._payload = payload
        self._known = known
        self._source: Iterator[tuple[int, bytes]] = iter(())
        self._first, self._data = 0, b""

    def lines(self, low: int, high: int) -> Iterator[tuple[int, str]]:
        """Yield (line, text) from `low` to `high`; of a long line only its beginning."""
        while low <= high:
            if (text_known := self._known.get(low)) is not None:
                yield low, text_known
                low += 1
                continue
            text = b""
            for number, data, ends in segments(self._from(low), low):
                text += data[: CLIPPED_BYTES - len(text)]
                if ends:
                    yield number, clipped(text)
                    low, text = number + 1, b""
                elif len(text) == CLIPPED_BYTES:
                    # Do not read the rest of a long line: look the next line up instead.
                    yield number, clipped(text)
                    low = number + 1
                    break
                if low > high or low in self._known:
                    break
            else:
                return

    def _from(self, line: int) -> Iterator[tuple[int, bytes]]:
        if self._first < line <= self._first + self._data.count(b"\n"):
            yield self._first, self._data
        else:
            self._source = self._payload.chunks(line)
        for chunk in self._source:
            self._first, self._data = chunk
            yield chunk


def clipped(data: bytes, ending: bytes = b"\r") -> str:
    """Return a context line as it is shown: without its ending, cut to `LINE_CHARS`; needs its first `CLIPPED_BYTES` only."""
    text = decode(data.removesuffix(ending))
    return text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + "…"
