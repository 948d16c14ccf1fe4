"""How the tables of a text are read again: what was recognised, written once, so that nobody has to recognise it twice.

A reading is JSON of our own, stored beside the text. It names the bytes that hold records, how their cells are divided, and the
columns with their types. With it, any later release gives the same records.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, cast

import msgspec

from byref_sandbox import jsontext
from byref_sandbox.tabletext import ndjson
from byref_sandbox.tabletext.aligned import Aligned
from byref_sandbox.tabletext.boxes import Drawn
from byref_sandbox.tabletext.delimited import Delimited, Span
from byref_sandbox.tabletext.expanded import Expanded
from byref_sandbox.tabletext.kinds import TypeName, kind_of, may_have
from byref_sandbox.tabletext.listing import Listing
from byref_sandbox.tabletext.result import Dialect, Recognised, unique_names
from byref_sandbox.tabletext.rows import Reader

EXTRA: Final = "extra"
"""The member of a ragged record that holds its cells beyond the last column; or all of its cells, if one is not of its column's
type. A number is behind it where a column has the name."""
_LONG_BYTES: Final = 1 << 17
"""Bytes of a table of which not all records are read to show some."""
_TAIL_BYTES: Final = 1 << 14
"""Bytes before the end in which the last place is."""
_TRIES: Final = 1_000
"""Lines after a place that are tried."""

ORDERS: Final = {
    "day/month/year": "%d/%m/%Y",
    "month/day/year": "%m/%d/%Y",
    "day.month.year": "%d.%m.%Y",
    "month.day.year": "%m.%d.%Y",
}
"""Notations of dates, which records have as ISO 8601 writes them."""

DATES: Final = ("date", "datetime")
TRUE: Final = ("true", "True", "TRUE")
FALSE: Final = ("false", "False", "FALSE")
_LARGE_BYTES: Final = 1 << 16
"""From here on Arrow reads a table, if it can."""

_CELLS_PER_BYTE: Final = 4
"""Most cells of a table for each byte of its text. A cell takes a byte or more, but ragged rows lack some."""

Records = list[dict[str, Any]]


class Damaged(ValueError):
    """A stored reading is none, or is not that of this text."""


class Column(msgspec.Struct, array_like=True, frozen=True):
    """A column: its name, its type, and how its values are written where that is not JSON's or ISO 8601's way."""

    name: str
    type: str
    notation: str = ""


How = Delimited | Drawn | Aligned | Expanded | Listing


class Table(msgspec.Struct, array_like=True, frozen=True):
    """A table: its columns, and how its records are found in the text."""

    name: str
    rows: int
    columns: tuple[Column, ...]
    how: How

    @property
    def size(self) -> int:
        """The bytes of its records, if it is delimited text."""
        return sum(span.end - span.start for span in self.how.spans) if isinstance(self.how, Delimited) else 0


class Reading(msgspec.Struct, array_like=True, frozen=True):
    """The tables of a text in some encoding; none if it has a JSON object on each line."""

    encoding: str
    tables: tuple[Table, ...]

    @property
    def is_one(self) -> bool:
        """Whether the text is one table; otherwise the value is an object of tables by name."""
        return len(self.tables) == 1


JSON_LINES: Final = Reading("utf-8", ())


def reading_of(recognised: Recognised) -> Reading:
    """Return how the tables that were recognised are read."""
    tables = [
        Table(
            f"table_{number}",
            table.rows,
            tuple(
                Column(name, type_.name, type_.notation) for name, type_ in zip(table.names, table.types, strict=True)
            ),
            cast(How, table.how),
        )
        for number, table in enumerate(recognised.tables, 1)
    ]
    return Reading(recognised.encoding, tuple(tables))


def to_text(reading: Reading) -> str:
    """Return a reading as it is stored."""
    return msgspec.json.encode(reading).decode()


def from_text(text: str) -> Reading:
    """Return the reading that `to_text` wrote; raise Damaged for any other text."""
    try:
        return msgspec.json.decode(text, type=Reading)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise Damaged(f"how its tables are read is damaged: {error}") from None


def opened(text: str, data: bytes) -> tuple[Reading, bytes]:
    """Return a stored reading, and the bytes that its places are in; raise Damaged if it cannot be that of this text."""
    reading = from_text(text)
    try:
        source = decoded(reading, data)
    except (LookupError, ValueError) as error:
        raise Damaged(f"how its tables are read is damaged: {error}") from None
    if not all(_may_fit(table, len(source)) for table in reading.tables) or (
        len({table.name for table in reading.tables}) != len(reading.tables)
        or sum(table.rows for table in reading.tables) > len(source)
    ):
        raise Damaged("how its tables are read does not fit the text")
    return reading, source


def _may_fit(table: Table, size: int) -> bool:
    """Tell whether a text of so many bytes may have the table: its columns, its cells, and the places of its records."""
    names = {column.name for column in table.columns}
    if not names or len(names) != len(table.columns) or table.rows < 0:
        return False
    if table.rows * len(names) > _CELLS_PER_BYTE * (size + len(names)):
        return False
    places = (
        [place for span in table.how.spans for place in (span.start, span.end)]
        if isinstance(table.how, Delimited)
        else []
    )
    return places == sorted(places) and all(0 <= place <= size for place in (*places[:1], *places[-1:]))


def read(text: str, data: bytes) -> Records | dict[str, Records]:
    """Return the records of a text by a stored reading: those of its only table, or those of each table by its name.

    Raises Damaged if the reading is not that of the text.
    """
    reading, source = opened(text, data)
    if not reading.tables:
        lines = ndjson.joined(data)
        if lines is None:
            raise Damaged("its lines are no JSON objects")
        return cast(Records, jsontext.decode(lines))
    found: dict[str, Records] = {}
    for table in reading.tables:
        try:
            found[table.name] = records(table, source)
        except Exception as error:  # noqa: BLE001  whatever a reading makes of a text that it is not of
            raise Damaged(f"how its tables are read does not fit the text: {error}") from None
        if len(found[table.name]) != table.rows:
            raise Damaged(f"its table has {len(found[table.name]):,} rows instead of {table.rows:,}")
    return next(iter(found.values())) if reading.is_one else found


def records(table: Table, source: bytes) -> Records:
    """Return the records of a table, with numbers and truth values as such, dates as ISO 8601 writes them, and None for empty cells."""
    names = [column.name for column in table.columns]
    if table.size >= _LARGE_BYTES:
        from byref_sandbox.tabletext import arrow

        if (found := arrow.read(table, source)) is not None:
            return [dict(zip(names, row, strict=True)) for row in zip(*map(_values, found.columns), strict=True)]
    columns, extra = cells(table, source)
    values = [values_of(column, column_cells) for column, column_cells in zip(table.columns, columns, strict=True)]
    made: Records = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    if extra:
        [*_, name] = unique_names([*names, EXTRA], len(names) + 1)
        for at, more in extra.items():
            made[at][name] = more
    return made


def cells(table: Table, source: bytes) -> tuple[list[Sequence[str | None]], dict[int, list[str]]]:
    """Return the cells of each column, None where a ragged row has none, and the further cells of such rows."""
    width = len(table.columns)
    rows: list[Sequence[Any]] = list(table.how.rows(source, [column.name for column in table.columns]))
    extra: dict[int, list[str]] = {}
    for at, row in enumerate(rows):
        if len(row) != width:
            fitting = row[:width] if all(map(_fits, row, table.columns)) else []
            rows[at] = fitting
            if more := row[len(fitting) :]:
                extra[at] = list(more)
    columns = list(zip_longest(*rows)) if rows else []
    columns += [(None,) * len(rows)] * (width - len(columns))
    return columns, extra  # type: ignore[return-value]


def _values(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def places(table: Table, source: bytes, count: int) -> list[int]:
    """Return where some records begin, about `count`, spread evenly; the first of all and one near the end are among them.

    None if the table is short, or if its quotes do not tell whether a place is inside a cell.
    """
    if not isinstance(table.how, Delimited) or table.how.dialect.escape == "backslash":
        return []
    spans = [span for span in table.how.spans if span.is_strict]
    size = sum(span.end - span.start for span in spans)
    if size < _LONG_BYTES:
        return []
    found, passed, wanted = (
        [table.how.spans[0].start],
        0,
        [(size - _TAIL_BYTES) * n // (count - 1) for n in range(1, count)],
    )
    for span in spans:
        upto = passed + span.end - span.start
        targets = [span.start + at - passed for at in wanted if passed <= at < upto]
        found += [at for at in _row_ends(table.how.dialect, source, span, targets) if at > found[-1]]
        passed = upto
    return found if len(found) > count // 2 else []


def _row_ends(dialect: Dialect, source: bytes, span: Span, targets: Sequence[int]) -> Iterator[int]:
    """Yield where rows begin inside of a span of strict ones, the first behind each target."""
    quote, newline = (dialect.quote or "").encode(), dialect.newline.encode()
    is_quoted = bool(quote) and source.find(quote, span.start, span.end) >= 0
    quotes, counted = 0, span.start
    for target in targets:
        at = max(target, counted)
        for _ in range(_TRIES):
            at = source.find(newline, at, span.end) + len(newline)
            if not len(newline) <= at < span.end:
                return
            if is_quoted:
                quotes += source.count(quote, counted, at)
                counted = at
            if quotes % 2 == 0:  # between two records, each quote that was opened is closed
                yield at
                break


def records_at(table: Table, source: bytes, start: int, most: int | None = None) -> Records:
    """Return the records from a place on: all of them, or those that begin within `most` bytes."""
    assert isinstance(table.how, Delimited)
    chosen: list[Span] = []
    for span in table.how.spans:
        begin, end = max(span.start, start), span.end
        if end <= start:
            continue
        if most is not None:
            if begin >= start + most:
                break
            if span.is_strict and end > start + most:
                reader, end = Reader(source, table.how.dialect), begin
                while end < min(span.end, start + most):
                    end = reader.read(end).end
        chosen.append(Span(begin, end, span.is_strict))
    return records(_of(table, chosen), source)


def odd_records(table: Table, source: bytes) -> Records:
    """Return the records that were read with care: the ragged ones are among them."""
    spans = table.how.spans if isinstance(table.how, Delimited) else ()
    return records(_of(table, [span for span in spans if not span.is_strict]), source)


def _of(table: Table, spans: Sequence[Span]) -> Table:
    assert isinstance(table.how, Delimited)
    return msgspec.structs.replace(table, how=Delimited(table.how.dialect, tuple(spans)))


def values_of(column: Column, texts: Sequence[str | None]) -> list[Any]:
    """Return the values of a column's cells."""
    if column.type == "empty":
        return [None] * len(texts)
    convert = _CONVERT.get(column.type)
    if column.notation == "1,5":
        convert = _comma
    elif (order := ORDERS.get(column.notation)) is not None:
        convert = _iso(order)
    if convert is None and column.type in DATES:
        return [(text and text.strip()) or None for text in texts]
    if convert is None:
        return [text or None for text in texts]
    try:
        return list(map(convert, texts))  # type: ignore[arg-type]  # most columns have no empty cells
    except (LookupError, ValueError, TypeError, AttributeError):
        return [convert(text.strip()) if text and not text.isspace() else None for text in texts]


def _fits(cell: str, column: Column) -> bool:
    """Whether a cell of a ragged row is of its column's type."""
    return may_have(cast(TypeName, column.type), column.notation, kind_of(cell))


def decoded(reading: Reading, data: bytes) -> bytes:
    """Return a text in UTF-8, which the places of a reading are in."""
    if reading.encoding == "utf-8":
        return data.removeprefix(codecs.BOM_UTF8)
    return data.decode(reading.encoding, "replace").encode("utf-8", "surrogatepass")


def _comma(text: str) -> float:
    return float(text.replace(",", "."))


def _iso(order: str) -> Callable[[str], str]:
    day, month = (0, 1) if order.startswith("%d") else (1, 0)
    mark = order[2]

    def convert(text: str) -> str:
        parts = text.strip().split(mark)
        return f"{parts[2]}-{parts[month]:0>2}-{parts[day]:0>2}"

    return convert


def _boolean(text: str) -> bool:
    return _TRUTHS[text.strip()]


_TRUTHS: Final = {word: word in TRUE for word in (*TRUE, *FALSE)}
_CONVERT: Final[dict[str, Callable[[str], Any]]] = {"integer": int, "number": float, "boolean": _boolean}
