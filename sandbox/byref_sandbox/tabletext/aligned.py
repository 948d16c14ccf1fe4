"""Columns that only blanks keep apart: what `df`, `ps`, `kubectl`, `docker` and `lsblk` print, and the simple tables of reStructuredText.

The first line names the columns. Three ways to cut the rows are tried, and one is taken only if every line fits it:

1. each row has as many words as the header;
2. there are columns of the terminal that are blank in every line, and a name above each of what they divide;
3. each row has at least as many words as the header, and the last column takes what is left.

A rule of `=` or `-` below the header says where the columns begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

import msgspec

from byref_sandbox.tabletext.kinds import kind_of
from byref_sandbox.tabletext.lines import COUNTS, Line, Parts, Unbalanced, cut, lines_of, made
from byref_sandbox.tabletext.result import NotATable, Row, Table

_MAX_BYTES: Final = 32 << 20
_HEAD_BYTES: Final = 64 << 10
"""Bytes in which the names are looked for, and a rule above or below them."""
_MAX_PREAMBLE: Final = 4
_MAX_LINE: Final = 4_000
"""Characters of a line; terminals' tables have no longer ones."""
_LEAST_COLUMNS: Final = 3
_NAME: Final = re.compile(r"[A-Z%#][A-Z0-9_%#./()-]*")
_QUANTITY: Final = re.compile(r"[-+]?\d[\d.,]*(?:[KMGTPEkmgtp]i?[Bb]?|B|%|[smhdwy]|ms|µs)?(?:\d+[smhd])*")
_RULE: Final = re.compile(r"\s*(?:[-=]+)(?:\s+[-=]+)*\s*")
_LIST: Final = re.compile(r"\s*(?:[-*•>#]|\d+[.)])\s")


class Cutting(NamedTuple):
    """A way to cut a line into cells."""

    way: Literal["words", "first words", "places"]
    places: tuple[int, ...] = ()
    """Where a terminal shows the second cell, the third, …; of the way `first words` only how many cells there are."""

    def cells(self, line: str) -> list[str] | None:
        """Return the cells of a line; None if it does not have as many."""
        if self.way == "words":
            return line.split()
        if self.way == "places":
            return [cell.strip() for cell in cut(line, self.places)]
        cells = line.rstrip().split(None, self.places[0] - 1)
        return cells if len(cells) == self.places[0] else None


def recognise(data: bytes) -> tuple[Table, ...] | NotATable | None:
    """Read such a text; None if its first lines do not look like it."""
    if len(data) > _MAX_BYTES:
        return None
    head = list(islice(lines_of(data[:_HEAD_BYTES]), _MAX_PREAMBLE + 3))
    at = _header(head)
    if at is None:
        return None
    if len(head) > at + 1 and _RULE.fullmatch(head[at + 1].text) and len(head[at + 1].text.split()) > 1:
        return _ruled(data, head, at, head[at + 1])
    if _RULE.fullmatch(head[at].text) and len(head) > at + 2 and _RULE.fullmatch(head[at + 2].text):
        return _ruled(data, head, at + 1, head[at])
    body = list(lines_of(data, head[at].end, head[at].number + 1))
    while body and body[-1].is_blank:
        body.pop()
    if len(body) < 2 or any(line.is_blank or len(line.text) > _MAX_LINE for line in body):
        return None
    header = head[at].text
    for way in (_by_words, _by_gutters, _by_first_words):
        found = way(header, [line.text for line in body])
        if found is not None:
            names, cutting = found
            if len(names) >= _LEAST_COLUMNS and _is_evident(names, body, cutting):
                return (_made(data, head[at], names, body, cutting),)
    return None


_PADDED: Final = re.compile(r"(?:[^,]*[^,\s],(?=[ \t]))+[^,]*|(?:[^;]*[^;\s];(?=[ \t]))+[^;]*")
"""Names with a delimiter and blanks behind each: delimited text that is padded."""


def _header(head: Sequence[Line]) -> int | None:
    """Which of the first lines names columns; None if none does."""
    for at, line in enumerate(head[: _MAX_PREAMBLE + 1]):
        words = line.text.split()
        below = head[at + 1].text if at + 1 < len(head) else ""
        if len(words) > 1 and (
            _RULE.fullmatch(line.text) or (_RULE.fullmatch(below) and len(below.split()) == len(words))
        ):
            return at
        if len(words) < _LEAST_COLUMNS:
            continue
        if line.text.rstrip()[-1] in ".,;:?!" or _LIST.match(line.text):
            continue
        if not (_RULE.fullmatch(below) or "  " in line.text.strip() or all(map(_NAME.fullmatch, words))):
            continue
        if all(kind_of(word) == "text" for word in words):
            return None if _PADDED.fullmatch(line.text.strip()) else at
    return None


def _made(data: bytes, header: Line, names: list[str], body: list[Line], cutting: Cutting) -> Table:
    parts = Parts()
    parts.add("preamble", 0, header.start)
    parts.add("header", header.start, header.end)
    for line in body:
        parts.add("records", line.start, line.end)
    parts.add("blank", body[-1].end, len(data))
    how = Aligned(header.end, header.number + 1, body[-1].end, cutting)
    return made("aligned", names, len(names), parts, how, data)


class Aligned(msgspec.Struct, frozen=True, tag="aligned"):
    """Where the lines of aligned columns are, and how they are cut."""

    start: int
    number: int
    """That of the first line."""
    end: int
    cutting: Cutting

    def rows(self, source: bytes, names: Sequence[str]) -> Iterator[Row]:
        """Read the records once more."""
        for line in lines_of(source[: self.end], self.start, self.number):
            cells = self.cutting.cells(line.text)
            if cells is None:
                raise Unbalanced("the line does not fit the columns", line)
            yield cells


def _is_evident(names: list[str], body: list[Line], cutting: Cutting) -> bool:
    """Whether this is no text that happens to have gaps: a column of quantities, or names in capitals."""
    rows = [cells for line in body[:200] if (cells := cutting.cells(line.text)) is not None]
    for column in range(len(names)):
        cells = [row[column] for row in rows if row[column]]
        if len(cells) > 1 and all(_QUANTITY.fullmatch(cell) or kind_of(cell) != "text" for cell in cells):
            return True
    return all(_NAME.fullmatch(word) for name in names for word in name.split())


# The ways to cut


def _by_words(header: str, body: Sequence[str]) -> tuple[list[str], Cutting] | None:
    names = header.split()
    if any(len(line.split()) != len(names) or _has_gap(header, line) for line in body):
        return None
    return names, Cutting("words")


def _by_first_words(header: str, body: Sequence[str]) -> tuple[list[str], Cutting] | None:
    names = header.split()
    count = len(names)
    if any(len(line.split(None, count - 1)) != count or _has_gap(header, line) for line in body):
        return None
    return names, Cutting("first words", (count,))


def _has_gap(header: str, line: str) -> bool:
    """Whether nothing stands below one of the names, though there is room: by its words, the line would be shifted."""
    if not (header.isascii() and line.isascii()):
        return False
    begins = [name.start() for name in re.finditer(r"\S+", header)]
    ended = 0
    for begin, following, word in zip(begins, begins[1:], re.finditer(r"\S+", line), strict=False):
        if word.start() >= following and ended <= begin:
            return True
        ended = word.end()
    return False


def _by_gutters(header: str, body: Sequence[str]) -> tuple[list[str], Cutting] | None:
    if not all(line.isascii() for line in body):
        return None
    width = max(len(header), *map(len, body))
    blank = [True] * width
    for line in (header, *body):
        for found in re.finditer(r"\S+", line):
            blank[found.start() : found.end()] = [False] * (found.end() - found.start())
    begins = [at for at in range(width) if not blank[at] and (at == 0 or blank[at - 1])]
    names = [name.strip() for name in cut(header.ljust(width), begins[1:])]
    # A name of several words may stand above a gap of its own column.
    places, kept = begins[:1], names[:1]
    for place, name in zip(begins[1:], names[1:], strict=True):
        starts_behind_one = place > 0 and header[place - 2 : place - 1].strip() and header[place - 1 : place] == " "
        is_empty = not any(
            line[place:].strip() if place == begins[-1] else line[place : begins[begins.index(place) + 1]].strip()
            for line in body
        )
        if not name or (is_empty and starts_behind_one):
            kept[-1] = f"{kept[-1]} {name}".strip()
        else:
            places.append(place)
            kept.append(name)
    if len(kept) < 2 or not all(kept[1:]) or any("  " in name for name in kept):
        return None
    return kept, Cutting("places", tuple(places[1:]))


def _ruled(data: bytes, head: Sequence[Line], at: int, rule: Line) -> tuple[Table, ...] | NotATable | None:
    """Read a table whose rule says where its columns begin."""
    begins = [found.start() for found in re.finditer(r"[-=]+", rule.text)]
    places = tuple(begins[1:])
    header = head[at]
    names = [name.strip() for name in cut(header.text, places)]
    first = begins[0]
    if header.text[:first].strip() or len(names) != len(begins) or len(begins) < 2:
        return None
    below = head[at + 1]
    parts = Parts()
    top = rule if rule.number < header.number else header
    parts.add("preamble", 0, top.start)
    if top is rule:
        parts.add("rule", rule.start, rule.end)
    parts.add("header", header.start, header.end)
    parts.add("rule", below.start, below.end)
    closes = top is rule
    stop = end = below.end
    is_over = False
    for line in lines_of(data, below.end, below.number + 1):
        if is_over or line.is_blank:
            is_over = is_over or line.is_blank
            parts.add("blank" if line.is_blank else "footer", line.start, line.end)
            if not (line.is_blank or closes or COUNTS.match(line.text)):
                return NotATable(
                    "the line is behind a blank one below the table, and no count of its rows", line.number
                )
        elif closes and _RULE.fullmatch(line.text):
            parts.add("rule", line.start, line.end)
            is_over = True
        else:
            if any(line.text[place - 1 : place].strip() for place in places) and line.text.isascii():
                return NotATable("a cell is where the rule has a gap", line.number)
            parts.add("records", line.start, line.end)
            stop = line.end
        end = line.end
    if stop == below.end or end < len(data):
        return None
    footer = sum(part.end - part.start for part in parts.made if part.kind == "footer")
    if footer > max(400, stop):
        return None
    return (
        made(
            "aligned",
            names,
            len(names),
            parts,
            Aligned(below.end, below.number + 1, stop, Cutting("places", places)),
            data,
        ),
    )
