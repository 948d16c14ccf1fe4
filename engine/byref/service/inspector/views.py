"""How data is looked at: a table in pages of rows, JSON as a tree, a text by its lines. Each is bounded, whatever the data."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from byref.artifacts.lines import segments
from byref.artifacts.store import Artifact
from byref.service.inspector.bigtables import READ_BYTES, ROWS, Rows
from byref.service.inspector.sight import REDACTED_AHEAD, Sight, Text
from byref_sandbox.values.data import at_path

PARSED_BYTES = 16 << 20
"""Larger data is not parsed, so that it is no tree, and its tables are not sorted."""
SMALL_BYTES = 1 << 20
"""Smaller data is always parsed."""
COLUMNS = 40
CELL_CHARS = 200
NODES = 1_500
CHILDREN = 100
DEPTH = 40
OPEN = 12
"""Members of a value below the top that is unfolded."""
LINES = 200
LINES_CHARS = 2_000
"""Characters of one line."""
COMPARED = 2_000
"""Lines of each of two texts that are compared."""
_encode = json.JSONEncoder(ensure_ascii=False).encode
"""`json.dumps` with an argument makes an encoder at each call, which takes longer than to write a cell."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value in a table."""

    text: Text | None
    kind: str
    """Its class on the page: that of numbers, of null, or none."""


@dataclass(frozen=True, slots=True)
class Table:
    """A page of a table."""

    columns: list[str]
    left_out: int
    """Columns that are not shown."""
    rows: list[tuple[int, list[Cell | None]]]
    """With the number of each, from 0 on."""
    total: int
    """Rows of the whole table; of those that are searched, if a text is looked for."""
    first: int
    next: int | None
    """The first row of the next page."""
    can_sort: bool
    can_search: bool
    can_jump: bool
    """Whether a page can begin with any row."""
    place: int | None = None
    """Where the next page begins, if that cannot be told from its first row."""
    is_late: bool = False
    """Not all rows were searched, because of the time."""


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


@dataclass(frozen=True, slots=True)
class Redacted:
    """Some lines of a text as they are seen: a payload to be searched instead of the text."""

    start: int
    """The number of the first."""
    line_count: int
    """The number of the last; of the whole text, if these are its last ones."""
    data: bytes

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.data)

    def chunks(self, line: int = 1) -> Iterator[tuple[int, bytes]]:
        """Yield all lines."""
        yield self.start, self.data


def can_parse(artifact: Artifact) -> bool:
    """Tell whether an artifact is data that is small enough to be parsed."""
    if artifact.is_binary or artifact.size_bytes > PARSED_BYTES or artifact.payload.size > PARSED_BYTES:
        return False
    return artifact.is_json or artifact.is_string or artifact.reading is not None


def value_of(artifact: Artifact, path: Sequence[Any] = ()) -> object:
    """Return what is at a path in an artifact that can be parsed."""
    return at_path(artifact.parsed, tuple(path))


def records(value: object) -> list[Any] | None:
    """Return the records of a table; None: the value is no table."""
    if not isinstance(value, list) or not value:
        return None
    return value if all(isinstance(one, dict) for one in value[:ROWS]) else None


def table(sight: Sight, found: list[Any], first: int, sort: str | None, descending: bool, wanted: str) -> Table:
    """Return a page of a table, sorted by a column if one is given, with the rows that contain a text."""
    # Rows are known by their places until they are shown: a tuple for each would make Python look for garbage among all rows.
    places: Sequence[int] = range(len(found))
    if wanted:
        sought = wanted.casefold()
        places = [place for place in places if _contains(found[place], sought)]
    if sort is not None:
        places = _sorted(found, places, sort, descending)
    following = first + ROWS if first + ROWS < len(places) else None
    page = Rows([(place, found[place]) for place in places[first : first + ROWS]], len(places), following)
    return _page(sight, page, first, can_sort=sight.has_bytes, can_search=sight.has_bytes, can_jump=True)


def table_by_range(sight: Sight, page: Rows, first: int, **what: bool) -> Table:
    """Return a page of a table of which only these rows were read; `what` says what else can be done with it, as in `Table`."""
    return _page(sight, page, first, **what)


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


def redacted(sight: Sight, artifact: Artifact, start: int, seconds: float) -> Redacted:
    """Return lines from `start` on as they are seen, as many as are read for a page and redacted in time.

    Each is redacted before it is searched: a match in what is hidden would tell it, and a cut around a match might hide from
    `Redact` that it is a secret.
    """
    until = time.monotonic() + seconds
    found: list[str] = []
    for _, line, ends in _read(artifact, start, READ_BYTES):
        text = sight.redacted(line.decode("utf-8", "replace").removesuffix("\r"), 0 if ends else REDACTED_AHEAD)
        found.append(text.replace("\n", " "))
        if time.monotonic() > until:
            break
    return Redacted(start, start + len(found) - 1, "\n".join(found).encode("utf-8", "replace"))


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


def _page(sight: Sight, page: Rows, first: int, **what: bool) -> Table:
    columns = list(dict.fromkeys(key for _, one in page.rows if isinstance(one, dict) for key in one))
    if any(not isinstance(one, dict) for _, one in page.rows):
        columns.append("")
    shown = columns[:COLUMNS]
    rows = [(number, [_cell(sight, one, column) for column in shown]) for number, one in page.rows]
    left_out = len(columns) - len(shown)
    return Table(shown, left_out, rows, page.total, first, page.next, place=page.place, is_late=page.is_late, **what)


def _cell(sight: Sight, record: Any, column: str) -> Cell | None:
    if not isinstance(record, dict):
        return _shown(sight, record) if column == "" else None
    return _shown(sight, record[column]) if column in record else None


def _shown(sight: Sight, value: Any) -> Cell:
    kind = "none" if value is None else "n" if isinstance(value, int | float) and not isinstance(value, bool) else ""
    return Cell(sight.text(_written(value), CELL_CHARS), kind)


def _contains(record: Any, sought: str) -> bool:
    for value in record.values() if isinstance(record, dict) else (record,):
        if sought in (value if isinstance(value, str) else _written(value)).casefold():
            return True
    return False


def _sorted(found: list[Any], places: Sequence[int], column: str, descending: bool) -> list[int]:
    """Order rows by the values of a column: numbers, then texts, then rows without a value; backwards if `descending`."""
    values: dict[int, Any] = {}
    kinds: tuple[list[int], ...] = ([], [], [])
    for place in places:
        kind, values[place] = _order(one.get(column) if isinstance(one := found[place], dict) else None)
        kinds[kind].append(place)
    ordered = [sorted(kind, key=values.__getitem__, reverse=descending) for kind in kinds]
    return [place for kind in (reversed(ordered) if descending else ordered) for place in kind]


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        if type(value) is int or (type(value) is float and value - value == 0):
            return repr(value)
        return _encode(value)
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
    return Node(
        name, kind, None, children, len(value) - len(children), depth == 0 or (depth == 1 and len(value) <= OPEN)
    )
