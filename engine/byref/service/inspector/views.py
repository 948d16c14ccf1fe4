"""How data is looked at: a table in pages of rows, JSON as a tree, a text by its lines. Each is bounded, whatever the data."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from byref.artifacts.lines import segments
from byref.artifacts.store import Artifact
from byref.service.inspector.sight import Sight, Text
from byref_sandbox import jsontext
from byref_sandbox.values.data import at_path

PARSED_BYTES = 16 << 20
"""Larger data is looked at by its lines, and tables whose records are lines by these."""
ROWS = 100
COLUMNS = 40
CELL_CHARS = 200
NODES = 1_500
CHILDREN = 100
DEPTH = 40
LINES = 200
LINES_CHARS = 2_000
"""Characters of one line."""
COMPARED = 2_000
"""Lines of each of two texts that are compared."""
READ_BYTES = 2 << 20
"""Bytes that are read for one page of lines."""


@dataclass(frozen=True, slots=True)
class Table:
    """A page of a table."""

    columns: list[str]
    left_out: int
    """Columns that are not shown."""
    rows: list[tuple[int, list[Text | None]]]
    """With the number of each, from 0 on."""
    total: int
    first: int
    can_sort: bool

    @property
    def next(self) -> int | None:
        """The first row of the next page; a page of long lines may have fewer rows than others, or none."""
        behind = self.first + max(1, len(self.rows))
        return behind if behind < self.total else None


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a tree."""

    name: str | None
    kind: str
    text: Text | None = None
    children: list[Node] = field(default_factory=list)
    left_out: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a text."""

    lines: list[tuple[int, Text | None]]
    next: int | None
    """The number of the next line; None: these are the last, or the next is too far behind a long line."""
    total: int


def value_of(artifact: Artifact, path: Sequence[Any] = ()) -> tuple[bool, object]:
    """Tell whether an artifact is data that is small enough to be parsed, and return what is at a path in it."""
    if artifact.is_binary or artifact.size_bytes > PARSED_BYTES or artifact.payload.size > PARSED_BYTES:
        return False, None
    if not (artifact.is_json or artifact.is_string or artifact.reading is not None):
        return False, None
    return True, at_path(artifact.parsed, tuple(path))


def records(value: object) -> list[Any] | None:
    """Return the records of a table; None: the value is no table."""
    if not isinstance(value, list) or not value:
        return None
    return value if all(isinstance(one, dict) for one in value[:ROWS]) else None


def table(sight: Sight, found: list[Any], first: int, sort: str | None, descending: bool) -> Table:
    """Return a page of a table, sorted by a column if one is given."""
    numbered = list(enumerate(found))
    if sort is not None:
        numbered.sort(
            key=lambda one: _order(one[1].get(sort) if isinstance(one[1], dict) else None), reverse=descending
        )
    return _page(sight, numbered[first : first + ROWS], len(found), first, can_sort=True)


def table_of_lines(sight: Sight, artifact: Artifact, first: int) -> Table | None:
    """Return a page of a big table whose records each have a line of their own, as byref writes JSON; None: it is none."""
    if not artifact.is_json or artifact.has_own_text or artifact.payload.head(3) != b"[\n{":
        return None
    found = []
    total = artifact.payload.line_count - 2
    for number, line, is_whole in _read(artifact, first + 2, ROWS):
        if number > total + 1 or not is_whole:
            break
        found.append((number - 2, jsontext.decode(line.rstrip(b",\r"))))
    return _page(sight, found, total, first, can_sort=False)


def tree(sight: Sight, value: object) -> list[Node]:
    """Return a value as the nodes of a tree."""
    room = [NODES]
    return [_node(sight, None, value, room, 0)]


def lines(sight: Sight, artifact: Artifact, start: int) -> Lines:
    """Return some lines of a text. A line that goes on for longer than is read ends the page."""
    total = artifact.payload.line_count
    found: list[tuple[int, Text | None]] = []
    last, is_whole = start - 1, True
    for number, line, ends in _read(artifact, start, LINES) if 1 <= start <= total else ():
        found.append((number, sight.text(line.decode("utf-8", "replace").removesuffix("\r"), LINES_CHARS)))
        last, is_whole = number, ends
    return Lines(found, last + 1 if last < total and is_whole and found else None, total)


def difference(sight: Sight, before: Artifact, behind: Artifact) -> tuple[list[tuple[str, Text | None]], bool]:
    """Return the lines in which the beginnings of two texts differ, with their neighbours and what each is; and whether it is all."""
    texts, is_all = [], True
    for one in (before, behind):
        found = _read(one, 1, COMPARED) if one.payload.line_count else []
        is_all = is_all and len(found) == one.payload.line_count and all(ends for _, _, ends in found)
        seen = [sight.text(line.decode("utf-8", "replace").removesuffix("\r"), LINES_CHARS) for _, line, _ in found]
        texts.append([text.text if text is not None else "" for text in seen])
    said = list(difflib.unified_diff(texts[0], texts[1], n=3, lineterm=""))[2:]
    kinds = {"+": "added", "-": "removed", "@": "place", " ": "same"}
    return [(kinds[line[0]], Text(line, len(line))) for line in said[:COMPARED]], is_all and len(said) <= COMPARED


def _read(artifact: Artifact, start: int, most: int) -> list[tuple[int, bytes, bool]]:
    """Return lines with their numbers, and whether each is there to its end; at most `READ_BYTES` are read."""
    found: list[tuple[int, bytes, bool]] = []
    part, read = b"", 0
    for number, piece, ends in segments(artifact.payload.chunks(start), start):
        read += len(piece)
        part += piece
        if ends or read > READ_BYTES:
            found.append((number, part, ends))
            part = b""
        if len(found) == most or read > READ_BYTES:
            break
    return found


def _page(sight: Sight, found: list[tuple[int, Any]], total: int, first: int, *, can_sort: bool) -> Table:
    columns = list(dict.fromkeys(key for _, one in found if isinstance(one, dict) for key in one))
    if any(not isinstance(one, dict) for _, one in found):
        columns.append("")
    shown = columns[:COLUMNS]
    rows = [(number, [_cell(sight, one, column) for column in shown]) for number, one in found]
    return Table(shown, len(columns) - len(shown), rows, total, first, can_sort)


def _cell(sight: Sight, record: Any, column: str) -> Text | None:
    if not isinstance(record, dict):
        return sight.text(_written(record), CELL_CHARS) if column == "" else None
    return sight.text(_written(record[column]), CELL_CHARS) if column in record else None


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "(nested too deeply)"


def _order(value: Any) -> tuple[int, Any]:
    """Numbers come before texts, and what is missing last."""
    if isinstance(value, bool | int | float):
        return (0, value) if value == value else (2, "")
    return (1, value) if isinstance(value, str) else (2, "") if value is None else (1, _written(value))


def _node(sight: Sight, name: str | None, value: object, room: list[int], depth: int) -> Node:
    room[0] -= 1
    match value:
        case dict():
            members: Any = value.items()
            kind = f"object of {len(value):,}"
        case list():
            members = ((str(place), one) for place, one in enumerate(value))
            kind = f"array of {len(value):,}"
        case _:
            return Node(name, type(value).__name__, sight.line(_written(value)))
    children: list[Node] = []
    if depth < DEPTH:
        for key, one in members:
            if len(children) == CHILDREN or room[0] <= 0:
                break
            children.append(_node(sight, sight.name(str(key)), one, room, depth + 1))
    return Node(name, kind, None, children, len(value) - len(children), depth < 2)
