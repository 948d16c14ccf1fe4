"""Text that is a table: what is known of its records, so that it is described and bound as structured data.

The text stays what is stored. The records are read from it again by its `reading` wherever code, jq, SQL or a reference needs them.
"""

from __future__ import annotations

from typing import Any, Final

from byref.content.blocks import NO_JSON, Block
from byref.content.summaries import summaries
from byref.describe.nodes import BOOLEAN, INTEGER, NULL, NUMBER, OBJECT, STRING, Node, merge
from byref.describe.rows import Rows
from byref.describe.schema import infer
from byref.describe.shape import kind_of
from byref.describe.values import may_be_key
from byref.jsonscan import Described
from byref_sandbox.tabletext import NotATable, Recognised, ndjson, reading, recognise
from byref_sandbox.tabletext.result import Table

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
_FORMATS: Final = {
    "box": "a drawn table",
    "expanded": "drawn records",
    "markdown": "a Markdown table",
    "aligned": "aligned columns",
    "listing": "a list of files",
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
        return None if found.line is None and format is None else str(found)
    read_as = reading.reading_of(found)
    source = reading.decoded(read_as, block.data)
    block.take_for_tables(reading.to_text(read_as), _said(found, source), _described(source, found, read_as))
    return None


def _take_lines(block: Block) -> str | None:
    """Take a text for the JSON objects on its lines."""
    array = ndjson.joined(block.data)
    if array is None:
        return None
    lines = Block("", array)
    if lines.kind != "json":
        return f"its lines are no JSON objects: {lines.parse_error}"
    described = lines.described or Described(lines.outline, infer(lines.outline, plain=True))
    block.take_for_tables(reading.to_text(reading.JSON_LINES), "JSON lines", described)
    return None


def _said(found: Recognised, source: bytes) -> str:
    """Return in words how tables are read, and what of the text is in none of their records."""
    [first, *_] = found.tables
    said = [_FORMATS.get(first.format, "CSV")]
    if first.dialect is not None and first.dialect.delimiter != ",":
        name = _DELIMITERS.get(first.dialect.delimiter, f'"{first.dialect.delimiter}"')
        said[0] = "TSV" if name == "tabs" else f"CSV with {name}"
    for table in found.tables:
        for kind in ("preamble", "footer"):
            for part in table.parts:
                if part.kind == kind and (text := source[part.start : part.end].decode(errors="replace").strip()):
                    shown = " ".join(text[: 2 * _AROUND].split())
                    said.append(f'{kind} "{shown[:_AROUND]}{"…" if len(shown) > _AROUND else ""}"')
        if table.ragged_rows:
            [row, *_] = table.ragged
            said.append(
                f"{table.ragged_rows:,} ragged {'row' if table.ragged_rows == 1 else 'rows'}, first in line {row.line:,}: "
                f"{row.cells} cells for {len(table.names)} columns"
            )
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
    return Rows(
        table.rows,
        head,
        tail,
        samples,
        kind_of(head[0]) if len(sizes) == 1 else "object",
        node,
        folded=False,
        summaries=known,
    )


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
