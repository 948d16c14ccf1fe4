"""What the readers of tables in lines share: lines with their places, and a table made of rows that can be read again."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from byref_sandbox.tabletext.kinds import Kind, kind_of, types_of
from byref_sandbox.tabletext.result import Format, How, NotATable, Part, PartKind, Row, Table, unique_names

MAX_AROUND: Final = 40
"""Lines before or after a table that belong to its output; with more it is a document that has a table in it."""
COUNTS: Final = re.compile(r"\s*\(?\d[\d,]* rows?\b|Time: |Query OK|Rows matched|Empty set")
"""What databases write below a table."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[mK]")
"""What terminals take for colours and weight: no text of a line."""
_CHUNK: Final = 4_096
_BLOCK_BYTES: Final = 1 << 16
"""Bytes of whole lines that are looked at together."""


class Line(NamedTuple):
    """A line of the text, without its end, and its place in the text as UTF-8."""

    number: int
    start: int
    end: int
    """Where the next line begins."""
    text: str

    @property
    def is_blank(self) -> bool:
        """Whether nothing is in it."""
        return not self.text.strip()


class Unbalanced(Exception):
    """A line is no part of the table that it is in."""

    def __init__(self, reason: str, line: Line, column: int | None = None) -> None:
        super().__init__(reason)
        self.problem = NotATable(reason, line.number, column)


def lines_of(data: bytes, start: int = 0, number: int = 1, stop: int | None = None) -> Iterator[Line]:
    """The lines of a text in UTF-8, from one that begins at `start` and has this number; up to `stop`, or all. Colours are no text."""
    for begin, end in blocks_of(data, start, len(data) if stop is None else stop):
        block = data[begin:end]
        if block.isascii() and b"\x1b" not in block:
            # Decoded together: a line for itself takes three times as long.
            at = begin
            for text in str(block, "ascii").removesuffix("\n").split("\n"):
                following = min(at + len(text) + 1, end)
                yield Line(number, at, following, text.rstrip("\r"))
                at, number = following, number + 1
            continue
        for part in block.removesuffix(b"\n").split(b"\n"):
            following = min(begin + len(part) + 1, end)
            yield Line(number, begin, following, _decoded(part))
            begin, number = following, number + 1


def _decoded(line: bytes) -> str:
    try:
        text = line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # the data is the beginning of a text, and ends inside a character
        text = line.decode("utf-8", "replace")
    return (_COLOURS.sub("", text) if "\x1b" in text else text).rstrip("\r\n")


def blocks_of(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where blocks of whole lines begin and end."""
    while start < stop:
        end = stop if stop - start <= _BLOCK_BYTES else data.rfind(b"\n", start, start + _BLOCK_BYTES) + 1
        end = end or data.find(b"\n", start + _BLOCK_BYTES, stop) + 1 or stop
        yield start, end
        start = end


def display_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def cut(text: str, places: Sequence[int]) -> list[str]:
    """Cut a line where a terminal shows these columns."""
    if text.isascii():
        return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    cells, at, shown = [""], 0, 0
    for character in text:
        if at < len(places) and shown >= places[at]:
            cells.append("")
            at += 1
        cells[-1] += character
        shown += display_width(character)
    return cells + [""] * (len(places) + 1 - len(cells))


def goes_on(first: Row, line: Row) -> bool:
    """Whether cells may be the rest of a record's, wrapped: they lack some of its first line, have no others, and no value below a value."""
    lacks = False
    for above, cell in zip(first, line, strict=True):
        if not cell:
            lacks = lacks or bool(above)
        elif not above or kind_of(above) != "text" != kind_of(cell):
            return False
    return lacks


class Parts:
    """The parts of a table, one after another."""

    def __init__(self) -> None:
        self.made: list[Part] = []

    def add(self, kind: PartKind, start: int, end: int) -> None:
        """Add the bytes from `start` to `end`."""
        if start == end:
            return
        if self.made and self.made[-1].kind == kind:
            self.made[-1] = Part(kind, self.made[-1].start, end)
        else:
            self.made.append(Part(kind, start, end))


class _Rest:
    """Counts the rows that may be the rest of those above them: programs that wrap cells write each further line as a row."""

    def __init__(self, width: int) -> None:
        self.widest = [0] * width
        """Characters of the longest cell of each column."""
        self._lacking = 0
        self._found: Counter[tuple[tuple[int, int], ...]] = Counter()
        """Of such rows for each column with a cell: it and the room that its first word would have taken in the row above."""

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows as they come."""
        first: Row = ()
        above: Row = ()
        for row in rows:
            places = [at for at, cell in enumerate(row) if cell] if first and "" in row else ()
            if places and 2 * len(places) <= len(row) and goes_on(first, row):
                self._lacking += 1
                cells = [(at, above[at] or "", row[at] or "") for at in places]
                if all(_is_words(one, other) for _, one, other in cells):
                    rooms = [(at, len(one) + 1 + len(other.split(None, 1)[0])) for at, one, other in cells]
                    self._found[tuple(rooms)] += 1
            else:
                first = row
            above = row
            yield row

    @property
    def count(self) -> int:
        """How many there are; 0 if most rows that lack cells are none: a word goes to the next line only where there is no room for it."""
        rest = sum(
            count for rooms, count in self._found.items() if all(room > self.widest[column] for column, room in rooms)
        )
        return rest if 2 * rest > self._lacking else 0


def _is_words(above: str, below: str) -> bool:
    """Whether one text may go on in the line below; codes of one length do not."""
    return above != "" and "\n" not in above and (" " in above or len(below) != len(above))


def _kinds_of(rows: Iterable[Row], widest: list[int]) -> tuple[int, list[set[Kind]]]:
    """How many rows there are, and of what kinds the cells of each column are; their lengths become the widest ones."""
    width = len(widest)
    kinds: list[set[Kind]] = [set() for _ in range(width)]
    iterator, count = iter(rows), 0
    while chunk := list(islice(iterator, _CHUNK)):
        count += len(chunk)
        for column in range(width):
            cells = {row[column] or "" for row in chunk}
            widest[column] = max(widest[column], *map(len, cells))
            if "text" not in kinds[column]:
                kinds[column].update(map(kind_of, cells))
            elif not all(cells):
                kinds[column].add("empty")
    return count, kinds


def made(
    format: Format,
    header: Sequence[str] | None,
    width: int,
    parts: Parts,
    how: How,
    data: bytes,
    names: Sequence[str] | None = None,
    *,
    notes: Sequence[str] = (),
    may_wrap: bool = False,
) -> Table:
    """Make the table whose records are found so. `names` are those of columns that no header names.

    With `may_wrap` its notes say how many rows may be the rest of those above them.

    Raises:
        Unbalanced: a line is no part of it.
    """
    names = unique_names(names or header, width)
    rest = _Rest(width)
    rows = how.rows(data, names)
    count, kinds = _kinds_of(rest.watch(rows) if may_wrap else rows, rest.widest)
    if rest.count:
        notes = [*notes, f"{rest.count:,} of its rows may be the rest of those above them, wrapped"]
    return Table(
        format=format,
        names=names,
        header=None if header is None else tuple(header),
        # What has a comma in a terminal is as often a device's numbers as a decimal.
        types=types_of(
            [column | {"text"} if format == "aligned" and "comma" in column else column for column in kinds]
        ),
        rows=count,
        parts=tuple(parts.made),
        how=how,
        source=data,
        notes=tuple(notes),
    )
