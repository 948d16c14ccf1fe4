"""What comes of recognising: tables whose parts are all of the text, or the reason why the text is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol

from byref_sandbox.tabletext.kinds import Type

Format = Literal["delimited", "box", "expanded", "markdown", "aligned", "listing"]
PartKind = Literal["preamble", "header", "rule", "records", "ragged", "blank", "footer"]
Row = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How delimited text divides and quotes its cells."""

    delimiter: str
    """What stands between two cells; `", "` where a blank follows each comma."""
    quote: str | None = '"'
    """What stands around cells that hold the delimiter; None if nothing does."""
    escape: Literal["doubled", "backslash", "none"] = "doubled"
    """How a quote is written inside such a cell: twice, behind a backslash, or just so."""
    newline: Literal["\n", "\r\n", "\r"] = "\n"
    """What rows end with. A carriage return before a line feed is of the line end, so that rows of two files end alike; tables of earlier
    versions say `"\\r\\n"`, in whose cells a line feed alone is text."""

    def divided(self, text: str) -> str:
        """Return rows without quotes with nothing but `newline` between them."""
        if self.newline == "\n":
            text = text.replace("\r\n", "\n")
        return text.removesuffix(self.newline)


class Part(NamedTuple):
    """A part of the text: what it is, and from which byte of the text as UTF-8 to which."""

    kind: PartKind
    start: int
    end: int


class Ragged(NamedTuple):
    """A row that has more or fewer cells than the table has columns."""

    line: int
    cells: int


class How(Protocol):
    """How the records of a table are found in its text: plain data, which a reading stores."""

    def rows(self, source: bytes, names: Sequence[str]) -> Iterator[Row]:
        """Read the cells of each record, in order, of a text in UTF-8; `names` are those of the columns.

        A cell is None where the record has no such member.
        """


@dataclass(frozen=True)
class Table:
    """A table in a text.

    Its `parts` follow one another without a gap. Its rows have `len(names)` cells, but for those that `ragged` tells.
    """

    format: Format
    names: tuple[str, ...]
    """The columns' names, each another: `column_2` where there was none, `name_2` where one came twice."""
    header: tuple[str, ...] | None
    """The names as they are written; None where the table has none."""
    types: tuple[Type, ...]
    """What all cells of each column are; `text` where they are not of one notation."""
    rows: int
    """How many records there are, the ragged ones included."""
    parts: tuple[Part, ...]
    how: How
    source: bytes = field(repr=False, compare=False)
    """The text in UTF-8."""
    ragged: tuple[Ragged, ...] = ()
    """The first of the ragged rows; `ragged_rows` counts all."""
    ragged_rows: int = 0
    repaired: tuple[int, ...] = ()
    """Lines, the first of them, where a quotation mark was read as text because it quotes nothing."""
    dialect: Dialect | None = None
    notes: tuple[str, ...] = ()
    """What else is to be told of how it is read."""

    def records(self) -> Iterator[tuple[str | None, ...]]:
        """The cells of each record, in order, as they are written without their quotes."""
        return map(tuple, self.how.rows(self.source, self.names))


MAX_TABLES: Final = 1_000
"""Tables in one text."""


@dataclass(frozen=True)
class Recognised:
    """All tables of a text, in order. Their parts are the whole text."""

    tables: tuple[Table, ...]
    encoding: str = "utf-8"
    """How the bytes were read; the places in `parts` are those of the text in UTF-8."""


@dataclass(frozen=True)
class NotATable:
    """Why the text stays text."""

    reason: str
    line: int | None = None
    """Of the text, from 1; None where no place is to blame."""
    column: int | None = None
    """Of the line, from 1, in characters."""

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        return f"{place}{self.reason}"


def too_many(line: int) -> NotATable:
    """Say of a text that it has more than `MAX_TABLES` tables, of which the next one begins in this line."""
    return NotATable(f"it has more than {MAX_TABLES:,} tables", line)


def unique_names(header: Sequence[str] | None, width: int) -> tuple[str, ...]:
    """Names for `width` columns, each another: those of the header, with a number behind what came before, and `column_N`."""
    given = [cell.strip() for cell in header or ()][:width]
    given += [""] * (width - len(given))
    taken = {name for name in given if name}
    seen: set[str] = set()
    made: list[str] = []
    for number, name in enumerate(given, 1):
        stem, count = name or f"column_{number}", 1
        candidate = stem
        while candidate in seen or (candidate in taken and candidate != name):
            count += 1
            candidate = f"{stem}_{count}"
        seen.add(candidate)
        made.append(candidate)
    return tuple(made)
