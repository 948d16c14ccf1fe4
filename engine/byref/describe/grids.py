"""Grids: arrays whose items are rows without keys, `{"columns": ["id", "land"], "rows": [[1, "FR"], [2, "US"]]}`.

Databases and spreadsheets answer in this form. What a cell is depends on its position, which a JSON Schema as genson infers it does
not say. So the rows are read once more, column by column, and a header beside them, or in their first row, names the columns.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from byref.describe.columns import Inference
from byref.describe.jsontext import encodable
from byref.describe.maps import as_map
from byref.describe.nodes import ARRAY, BOOLEAN, CONTAINER, INTEGER, NULL, NUMBER, OBJECT, STRING, Node, copied
from byref.describe.paths import ITEM, KEY, Cell, Path, stepped

MAX_COLUMNS: Final = 100
_LEAST_ROWS: Final = 2
_MAX_PLACES: Final = 2_000
_MAX_STEPS: Final = 12
_MAX_ARRAYS: Final = 10_000
_CELLS: Final = 200_000
"""Maximum cells of which the kinds are told by position: that takes 20 to 40 ns each."""
_AT_ONCE: Final = 1_024
"""Rows that are turned into columns together, so that they stay in the processor's cache."""
_NAME_CHARS: Final = 128
_NAMES_CHARS: Final = 4_000
_UP: Final = 4
"""Objects around the rows, from the nearest one on, and levels below each, among which a header is looked for:"""
_DOWN: Final = 3
_MEMBERS: Final = 60
_HEADERS: Final = re.compile(
    r"(column|col|field|header|heading)[_-]?(names?|infos?|list|s)?|row[_-]?type|dimension[_-]?headers?", re.IGNORECASE
)
"""Keys of arrays that name columns."""
_VAGUE_HEADERS: Final = re.compile(r"names?|meta([_-]?data)?|schema|keys", re.IGNORECASE)
"""Keys of arrays that name columns if what they stand beside has one of these keys:"""
_ROWS: Final = re.compile(
    r"(data|rows?|values|records|results?|items|tuples|table)([_-]?(array|data|set|rows))?", re.IGNORECASE
)
_NAMED_BY: Final = (
    "name",
    "Name",
    "columnName",
    "ColumnName",
    "column_name",
    "field",
    "header",
    "label",
    "title",
    "key",
    "id",
)
"""Members that name a column, where the header's items are objects; the first that does."""
_NUMBER: Final = re.compile(r"\s*[-+(]?[$€£]?\s?[\d.,]+\s?%?\)?\s*|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*", re.ASCII)
"""Text that is a value and names no column."""
_COMPARED: Final = 50
_KIND_OF: Final[Mapping[type, int]] = {
    str: STRING,
    int: INTEGER,
    float: NUMBER,
    bool: BOOLEAN,
    type(None): NULL,
    list: ARRAY,
    dict: OBJECT,
}


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The rows at one place, which all have as many cells."""

    path: Path
    """The path to the array of the rows; to several such arrays, if it has steps to many values."""
    rows: int
    """The exact number of rows, without a header."""
    columns: Mapping[Cell, Node]
    """What is known of the cells of each column, in order."""
    has_header: bool
    """Whether the first row names the columns."""
    is_apart: bool = False
    """Whether what arrays and objects hold was read column by column, because several columns have some."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names; empty where nothing names them."""
        return tuple(map(str, self.columns)) if all(cell.is_named for cell in self.columns) else ()


def grids(value: object, node: Node) -> dict[int, Grid]:
    """Return the grids in a parsed JSON value by the `id` of their arrays' nodes; `node` is what the value's schema knows."""
    found: dict[int, Grid] = {}
    for place, path in _candidates(node):
        grid = _grid(value, place, path)
        if grid is not None:
            found[id(place)] = grid
    return found


def _candidates(node: Node) -> Iterator[tuple[Node, Path]]:
    """Yield the places at which all items of arrays are arrays, not all of whose items are containers or plain numbers alike."""
    waiting: deque[tuple[Node, Path]] = deque([(node, ())])
    for _ in range(_MAX_PLACES):
        if not waiting:
            return
        place, path = waiting.popleft()
        if len(path) >= _MAX_STEPS or place.is_cut:
            continue
        if place.kinds & ~NULL == ARRAY and place.items is not None:
            below = place.items
            if below.kinds == ARRAY and below.items is not None and below.items.kinds & ~CONTAINER:
                yield place, path
            elif below.kinds & CONTAINER:
                waiting.append((below, (*path, ITEM)))
        elif place.kinds & OBJECT:
            place = as_map(place)
            waiting.extend((one, (*path, key)) for key, one in place.members.items() if one.kinds & CONTAINER)
            if place.rest is not None and place.rest.kinds & CONTAINER:
                waiting.append((place.rest, (*path, KEY)))


def _grid(value: object, node: Node, path: Path) -> Grid | None:
    arrays = list(islice(_at(value, path), _MAX_ARRAYS + 1))
    if not arrays or len(arrays) > _MAX_ARRAYS or any(type(one) is not list for one in arrays):
        return None
    is_one = len(arrays) == 1
    assert node.items is not None and node.items.items is not None
    cells = node.items.items
    are_mixed = (cells.kinds & ~NULL).bit_count() > 1
    if not is_one and not are_mixed:
        return None  # numbers alone, say: that each column has them is what the schema says
    rows = arrays[0] if is_one else list(chain.from_iterable(arrays))
    width = len(rows[0]) if rows else 0
    if not 1 <= width <= MAX_COLUMNS:
        return None
    names = _header(value, path, width) if is_one else None
    if not are_mixed and names is None and not cells.kinds & STRING:
        return None
    if set(map(len, rows)) != {width}:
        return None
    header = None
    if names is None and is_one and (names := _first_row(rows)) is not None:
        header = rows[0]
    count = len(rows) - (header is not None)
    if count < _LEAST_ROWS or (names is None and not are_mixed):
        return None
    kinds = [cells.kinds] * width
    if count * width <= _CELLS and cells.kinds.bit_count() > 1:
        kinds = _kinds(rows, width, header is not None)
        if names is None and len(set(kinds)) == 1:
            return None
    places = [Cell(at, None if names is None else names[at], header) for at in range(width)]
    columns = {
        place: cells if kind == cells.kinds else _only(cells, kind) for place, kind in zip(places, kinds, strict=True)
    }
    deep = [place for place, kind in zip(places, kinds, strict=True) if kind & CONTAINER]
    if len(deep) < 2:
        return Grid(path, count, columns, has_header=header is not None)
    columns |= {place: _read([row[place.at] for row in rows[header is not None :]]) for place in deep}
    return Grid(path, count, columns, has_header=header is not None, is_apart=True)


def _read(column: list[Any]) -> Node:
    node = Inference(fold=True, plain=True).read(column)
    assert node.items is not None
    return node.items


def _kinds(rows: Sequence[list[Any]], width: int, skip: int) -> list[int]:
    """Return the kinds of the cells of each column."""
    types: list[set[type]] = [set() for _ in range(width)]
    for start in range(skip, len(rows), _AT_ONCE):
        for known, column in zip(types, zip(*rows[start : start + _AT_ONCE], strict=True), strict=True):
            known.update(map(type, column))
    return [sum(_KIND_OF[type_] for type_ in known) for known in types]


def _only(cells: Node, kinds: int) -> Node:
    """Return what is known of the cells of one column, which has some of the kinds of all."""
    node = copied(cells)
    node.kinds = kinds
    if not kinds & ARRAY:
        node.items = None
    if not kinds & OBJECT:
        node.members, node.rest, node.rest_keys, node.required = {}, None, {}, None
    return node


def _at(value: object, path: Path) -> Iterator[Any]:
    """Yield the values at a path, without null."""
    values: Iterator[Any] = iter([value])
    for step in path:
        values = stepped(values, step)
    return (one for one in values if one is not None)


def _header(value: object, path: Path, width: int) -> list[str] | None:
    """Return the names of the columns that stand nearest to the rows: beside them, or beside an object around them."""
    around: list[tuple[dict[str, Any], str]] = []
    for step in path:
        if isinstance(step, str) and type(value) is dict:
            around.append((value, step))
            value = value[step]
        elif step is ITEM and type(value) is list and len(value) == 1:
            value = value[0]
        else:
            return None
    are_rows = bool(around) and _ROWS.fullmatch(around[-1][1]) is not None
    for above, inside in around[: -_UP - 1 : -1]:
        if not are_rows and _has_rows(above, width):
            continue  # a header there names these
        level: list[dict[str, Any]] = [above]
        for _ in range(_DOWN):
            below: list[dict[str, Any]] = []
            for one in level:
                if not are_rows and _has_rows(one, width):
                    continue
                for key, member in islice(one.items(), _MEMBERS):
                    if one is above and key == inside:
                        continue
                    if type(member) is dict:
                        below.append(member)
                    elif type(member) is list and len(member) == width and _is_header(key, are_rows):
                        names = _names(member)
                        if names is not None:
                            return names
            level = below[:_MEMBERS]
    return None


def _has_rows(value: dict[str, Any], width: int) -> bool:
    """Whether a member has rows of so many cells, by its key and its first item."""
    return any(
        type(member) is list and member and type(member[0]) is list and len(member[0]) == width and _ROWS.fullmatch(key)
        for key, member in islice(value.items(), _MEMBERS)
    )


def _is_header(key: str, are_rows: bool) -> bool:
    return _HEADERS.fullmatch(key) is not None or (are_rows and _VAGUE_HEADERS.fullmatch(key) is not None)


def _names(header: Sequence[Any]) -> list[str] | None:
    """Return the names in a header; None if it has none, or some that are equal, empty, long, or no text that can be stored."""
    names: list[Any]
    if all(type(one) is dict for one in header):
        by = next((key for key in _NAMED_BY if all(type(one.get(key)) is str for one in header)), None)
        names = [] if by is None else [one[by] for one in header]
    else:
        names = list(header)
    if not names or any(type(name) is not str or not name.strip() or len(name) > _NAME_CHARS for name in names):
        return None
    if (
        len(set(names)) < len(names)
        or sum(map(len, names)) > _NAMES_CHARS
        or any(encodable(name) != name for name in names)
    ):
        return None
    return names


def _first_row(rows: Sequence[Sequence[Any]]) -> list[str] | None:
    """Return the cells of the first row if they name the columns: text above values that are numbers, dates or no text."""
    names = _names(rows[0])
    if names is None or any(type(one) is not str for one in rows[0]) or any(map(_NUMBER.fullmatch, names)):
        return None
    some = rows[1 : _COMPARED + 1]
    for at in range(len(names)):
        column = [row[at] for row in some if row[at] not in (None, "")]
        if column and all(
            type(one) in (int, float, bool) or (type(one) is str and _NUMBER.fullmatch(one)) for one in column
        ):
            return names
    return None
