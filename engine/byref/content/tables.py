"""Text that is a table: what is known of its records, so that it is described and bound as structured data.

The text stays what is stored. The records are read from it again by its `reading` wherever code, jq, SQL or a reference needs them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from byref.content.blocks import NO_JSON, Block
from byref.content.large import Large
from byref.content.summaries import summaries
from byref.describe.nodes import BOOLEAN, INTEGER, NULL, NUMBER, OBJECT, STRING, Node, merge
from byref.describe.rows import Rows
from byref.describe.schema import infer
from byref.describe.shape import kind_of
from byref.describe.values import may_be_key
from byref.errors import one_line
from byref.jsonscan import Described, Scanned, Scanner
from byref_sandbox.tabletext import NotATable, Passed, Passing, Recognised, ndjson, reading, recognise
from byref_sandbox.tabletext.delimited import Delimited, Span
from byref_sandbox.tabletext.result import PartKind, Table

logger = logging.getLogger("byref")

WHOLE_BYTES: Final = 1 << 18
"""Bytes of a text up to which all records are looked at; of a longer one, the first, the last and some between."""
SUMMARISED_BYTES: Final = 1 << 22
"""Bytes of a text up to which the facts that are stated of a column are of all its cells; of a longer one, of the records that were looked at."""
_END_BYTES: Final = 1 << 15
"""Bytes of records at each end of a longer one."""
_SAMPLES: Final = 32
"""Most records between the first and the last that are looked at."""
_SAMPLED_CELLS: Final = 1 << 15
"""About how many cells such records have together: of a table of many columns they are fewer."""
_LEAST_SAMPLES: Final = 4
_BINARY_WITHIN: Final = 1 << 13
"""Bytes at the beginning of what is not UTF-8 in which a NUL says that it is no text in another encoding."""
_AROUND: Final = 80
"""Characters of a preamble or a footer that are said."""
_SAID: Final = 4
_JSON_LINES: Final = "JSON lines"
_BEGINNING: Final = 1 << 18
"""Bytes of a text that is too large for memory in which is seen whether its lines may be JSON objects."""
_NAMED: Final[tuple[PartKind, ...]] = ("preamble", "footer")
_FORMATS: Final = {
    "box": "a drawn table",
    "expanded": "drawn records",
    "markdown": "a Markdown table",
    "aligned": "aligned columns",
    "listing": "a list of files",
}
_TYPES: Final = {
    _JSON_LINES: "application/x-ndjson",
    "CSV": "text/csv",
    'CSV with ";"': "text/csv",
    "TSV": "text/tab-separated-values",
    _FORMATS["markdown"]: "text/markdown",
}
_DELIMITERS: Final = {"\t": "tabs", " ": "blanks", "\x1f": "unit separators", "\x01": "SOH characters"}
_KINDS: Final = {"integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN, "empty": NULL}


def take(block: Block, format: str | None) -> str | None:
    """Take a text for the tables in it, if it is some; otherwise return why not, if it looks like some.

    `format` says what the text is known to be; None: recognise it by its content.
    """
    if block.lossy:
        if 0 in block.data[:_BINARY_WITHIN]:
            return None
    elif block.parse_error != NO_JSON:
        return _take_lines(block) if format in (None, "ndjson") else None
    if format == "ndjson":
        return "its lines are no JSON objects"
    found = recognise(block.data, format, is_utf8=not block.lossy)
    if isinstance(found, NotATable):
        return _reason(found, format)
    read_as = reading.reading_of(found)
    source = reading.decoded(read_as, block.data)
    block.take_for_tables(
        reading.to_text(read_as),
        _said(found, [_around(table, source) for table in found.tables]),
        _described(source, found, read_as),
    )
    return None


class TableScan:
    """Looks for the table in a text that is too large for memory, while it passes in pieces. No text makes it raise."""

    def __init__(self, format: str | None) -> None:
        """`format` is as in `take`."""
        self._format = format
        self._beginning = b""
        self._lines: ndjson.Joining | None = None
        self._array = Scanner()
        self._rows: Passing | None = None
        self._has_failed = False

    def feed(self, data: bytes) -> None:
        """Read the next bytes."""
        if not self._has_failed:
            try:
                self._feed(data)
            except Exception:  # text can always pass as text
                logger.exception("byref could not look for tables in a text; it stays text")
                self._has_failed = True

    def finish(self) -> Passed | Scanned | NotATable:
        """Return what the text is: JSON lines as the array of them."""
        if not self._has_failed:
            try:
                return self._finish()
            except Exception:
                logger.exception("byref could not look for tables in a text; it stays text")
        return NotATable("it could not be looked at")

    def _feed(self, data: bytes) -> None:
        if self._lines is None and self._rows is None:
            self._beginning += data
            if len(self._beginning) < _BEGINNING:
                return
            data = self._begin()
        if self._lines is not None:
            self._array.feed(self._lines.passing(data))
        elif self._rows is not None:
            self._rows.feed(data)

    def _finish(self) -> Passed | Scanned | NotATable:
        if self._lines is None and self._rows is None:
            self._feed(self._begin())
        if self._lines is not None:
            self._array.feed(self._lines.end())
            return self._array.finish()
        assert self._rows is not None
        return self._rows.finish()

    def _begin(self) -> bytes:
        """See what kind of text it may be, and return its beginning."""
        beginning, self._beginning = self._beginning, b""
        if self._format == "ndjson" or (self._format is None and ndjson.begins(beginning)):
            self._lines = ndjson.Joining()
        else:
            self._rows = Passing(self._format)
        return beginning


def take_passed(block: Large, format: str | None) -> str | None:
    """Take a text that is too large for memory for what it was found to be while it passed; otherwise return why not, as `take` does."""
    passed = block.passed
    if passed is None:
        return None
    if isinstance(passed, NotATable):
        return _reason(passed, format)
    if isinstance(passed, Scanned):
        if passed.schema is None:
            return f"its lines are no JSON objects: {passed.parse_error}"
        block.take_for_tables(reading.to_text(reading.JSON_LINES), _JSON_LINES, Described(passed.value, passed.schema))
        return None
    found = Recognised((passed.table,))
    read_as = reading.reading_of(found)
    [table] = read_as.tables
    head, samples, tail = (_excerpt(table, data) for data in (passed.head, passed.samples, passed.tail))
    value = Rows(table.rows, head, tail, samples, kind_of(head[0]), _node(passed.table, table.rows), folded=False)
    block.take_for_tables(
        reading.to_text(read_as), _said(found, [passed.around]), Described(value, infer(value, plain=True))
    )
    return None


def type_of_text(read_as: str | None) -> str:
    """Return the content type of a text that was taken for tables in such a way."""
    return next((kind for said, kind in _TYPES.items() if f"{read_as};".startswith(f"{said};")), "text/plain")


def _reason(found: NotATable, format: str | None) -> str | None:
    return None if found.line is None and format is None else str(found)


def _excerpt(table: reading.Table, data: bytes) -> list[dict[str, Any]]:
    assert isinstance(table.how, Delimited)
    how = Delimited(table.how.dialect, (Span(0, len(data), True),))
    return reading.records(msgspec.structs.replace(table, how=how, rows=0), data) if data else []


def _take_lines(block: Block) -> str | None:
    """Take a text for the JSON objects on its lines."""
    array = ndjson.joined(block.data)
    if array is None:
        return None
    lines = Block("", array)
    if lines.kind != "json":
        return f"its lines are no JSON objects: {lines.parse_error}"
    described = lines.described or Described(lines.outline, infer(lines.outline, plain=True))
    block.take_for_tables(reading.to_text(reading.JSON_LINES), _JSON_LINES, described)
    return None


def _around(table: Table, source: bytes) -> list[tuple[PartKind, str]]:
    """Return preamble and footer."""
    return [
        (part.kind, source[part.start : part.end].decode(errors="replace"))
        for kind in _NAMED
        for part in table.parts
        if part.kind == kind
    ]


def _said(found: Recognised, around: Iterable[Iterable[tuple[PartKind, str]]]) -> str:
    """Return in words how tables are read, and what of the text is in none of their records: `around` has it for each table."""
    [first, *_] = found.tables
    said = [_FORMATS.get(first.format, "CSV")]
    if first.dialect is not None and first.dialect.delimiter != ",":
        name = _DELIMITERS.get(first.dialect.delimiter, f'"{first.dialect.delimiter}"')
        said[0] = "TSV" if name == "tabs" else f"CSV with {name}"
    if first.dialect is not None and first.header is None:
        said.append("without a header")
    for table, texts in zip(found.tables, around, strict=True):
        for kind, text in texts:
            if text := text.strip():
                shown = " ".join(text[: 2 * _AROUND].split())
                said.append(f'{kind} "{shown[:_AROUND]}{"…" if len(shown) > _AROUND else ""}"')
        if (more := len(table.header or ()) - len(table.names)) > 0:
            without = ", ".join((table.header or ())[-more:])
            said.append(f"{more:,} {'name' if more == 1 else 'names'} without a column: {one_line(without, _AROUND)}")
        if table.ragged_rows:
            [row, *_] = table.ragged
            said.append(
                f"{table.ragged_rows:,} ragged {'row' if table.ragged_rows == 1 else 'rows'}, first in line {row.line:,}: "
                f"{row.cells} cells for {len(table.names)} columns"
            )
        said.extend(table.notes)
    return "; ".join(said[:_SAID])


def _described(source: bytes, found: Recognised, read_as: reading.Reading) -> Described:
    if len(source) <= WHOLE_BYTES:
        values: list[Any] = [reading.records(table, source) for table in read_as.tables]
    else:
        values = [_rows(source, *pair) for pair in zip(found.tables, read_as.tables, strict=True)]
    value = (
        values[0] if read_as.is_one else {table.name: one for table, one in zip(read_as.tables, values, strict=True)}
    )
    return Described(value, infer(value, plain=True))


def _rows(source: bytes, table: Table, read_as: reading.Table) -> list[dict[str, Any]] | Rows:
    """Return a table's first, last and some other records, with what is known of all; of a short table, all of them."""
    count = max(_LEAST_SAMPLES, min(_SAMPLES, _SAMPLED_CELLS // len(table.names)))
    places = reading.places(read_as, source, count)
    if not places:
        return reading.records(read_as, source)
    head = reading.records_at(read_as, source, places[0], _END_BYTES)
    tail = reading.records_at(read_as, source, places[-1])
    samples = [one for at in places[1:-1] for one in reading.records_at(read_as, source, at, 1)]
    odd = reading.odd_records(read_as, source)
    node = _node(table, table.rows - len(odd))
    if odd:
        node = merge([node, infer(odd, plain=True).node.items or Node()])
        node.is_sampled = True
    known = (
        summaries(read_as, source, _telling(table, [*head, *samples, *tail])) if len(source) <= SUMMARISED_BYTES else {}
    )
    sizes = {len(record) for record in (*head, *samples, *tail, *odd)}
    kind = kind_of(head[0]) if len(sizes) == 1 else "object"
    return Rows(table.rows, head, tail, samples, kind, node, folded=False, summaries=known)


def _telling(table: Table, records: list[dict[str, Any]]) -> list[str]:
    """Return the columns of which something may be said that is true of all cells: of texts, those that are few or keys."""
    return [
        name
        for name, type_ in zip(table.names, table.types, strict=True)
        if type_.name not in ("text", "empty")
        or type_.nullable
        or may_be_key(name)
        or 2 * len({record[name] for record in records}) <= len(records)
    ]


def _node(table: Table, rows: int) -> Node:
    """Return what is known of this many records that have a cell in each column."""
    node = Node()
    node.kinds, node.objects, node.required = OBJECT, rows, set(table.names)
    for name, type_ in zip(table.names, table.types, strict=True):
        member = node.members[name] = Node()
        member.kinds = _KINDS.get(type_.name, STRING) | (NULL if type_.nullable else 0)
    return node
