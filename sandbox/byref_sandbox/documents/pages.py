"""Tables of HTML pages, read by the parser that the standard describes: what browsers make of broken pages is what comes out.

A cell that spans rows or columns is repeated in each. A table inside of a cell is a table of its own, and its text is not in the cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser

from byref_sandbox import wire
from byref_sandbox.documents.building import MAX_COLUMNS, NotATable, check_width, of_texts, text_type
from byref_sandbox.documents.inflating import Room
from byref_sandbox.documents.kinds import wide
from byref_sandbox.tabletext.kinds import NO_VALUE

MAX_TABLES: Final = 1_000
_MAX_DEPTH: Final = 1_000
"""Levels of elements: the parser's time grows with their square."""
_MAX_SPAN: Final = 1_000
"""As the standard says of `colspan`; a `rowspan` ends with its part of the table."""
_MAX_CELLS: Final = 5_000_000
_HEAD: Final = 1 << 10
_AROUND: Final = 60
"""Characters of the text outside of tables that are said."""
_MAX_INNER: Final = 30
"""Tables within tables."""
_TAG: Final = re.compile(
    rb"<(/?)(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr|p|li|td|th|tr|dt|dd|option)[\s>/])[a-z]",
    re.IGNORECASE,
)
"""Tags but for those of elements that nothing is in, or whose end need not be written."""
_TABLE: Final = re.compile(rb"<(/?)table[\s>/]", re.IGNORECASE)
_LINES: Final = re.compile(rb"<(?:br|p|div|li|h[1-6]|dt|dd|pre|blockquote)[\s>/]", re.IGNORECASE)
_SPAN: Final = re.compile(rb"(?:row|col)span", re.IGNORECASE)
_CHARSET: Final = re.compile(rb"charset\s*=\s*[\"']?\s*([\w:.-]+)", re.IGNORECASE)
_APART: Final = "p, div, li, h1, h2, h3, h4, h5, h6, dt, dd, pre, blockquote"
"""Elements whose texts stand on lines of their own."""
_CELLS: Final = ("td", "th")
_VALUES: Final = ("integer", "number", "boolean", "date", "datetime")
_NAME: Final = re.compile(r"[(\"'_]?[^\W\d_]|[#№%]\s*(?:[^\W\d_]|$)")
"""How the name of a column begins."""
_PARTS: Final = ("thead", "tbody", "tfoot")


def read(data: bytes, room: Room) -> Iterator[wire.Frame]:
    """Yield the tables of a page; raise NotATable if there is none that can be read."""
    encoding = wide(data[:_HEAD])
    page_text = data.decode(encoding, "replace").removeprefix("\ufeff") if encoding is not None else _decoded(data)
    if encoding is not None:
        data = page_text.encode("utf-8", "replace")  # what is searched below is ASCII in any other encoding
    if _depth(data) > _MAX_DEPTH:
        raise NotATable(f"its elements are nested more than {_MAX_DEPTH:,} levels deep")
    if _depth(data, _TABLE) > _MAX_INNER:
        raise NotATable(f"its tables are nested more than {_MAX_INNER} levels deep")
    page = LexborHTMLParser(page_text)
    page.strip_tags(["script", "style", "template", "noscript"])
    if _LINES.search(data):
        _divide(page)
    found = page.css("table")
    title = page.css_first("title")
    before = [wire.Aside("title", [text])] if title is not None and (text := _text(title)) else []
    has_spans = _SPAN.search(data) is not None
    inner = {each.mem_id for each in page.css("table table")}
    for number, table in enumerate(found, 1):
        name = f"table {number}"
        if number > MAX_TABLES:
            yield wire.LeftOut(name, f"one of {len(found):,} tables, of which {MAX_TABLES:,} are read")
            return
        try:
            yield _Table(table, name, is_inner=table.mem_id in inner, has_inner=bool(inner), has_spans=has_spans).frame(
                before, room
            )
        except NotATable as error:
            yield wire.LeftOut(name, str(error))
    yield from _around(page, found, inner)


def _around(page: Any, tables: list[Any], inner: set[int]) -> Iterator[wire.LeftOut]:
    """Say what of a page is in none of its tables: the text outside of them, and what its links refer to."""
    links = sum(len(table.css("a[href]")) for table in tables if table.mem_id not in inner)
    if links:
        yield wire.LeftOut("", f"addresses of links in tables, of which the text is there: {links:,}")
    for table in tables:
        if table.mem_id not in inner and table.parent is not None:
            table.remove()
    text = " ".join(_text(page.body).split()) if page.body is not None else ""
    if text:
        shown = text[:_AROUND] + ("…" if len(text) > _AROUND else "")
        yield wire.LeftOut("", f'text outside of tables, {len(text):,} characters: "{shown}"')


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        declared = _CHARSET.search(data[:4096])
        try:
            return data.decode(declared[1].decode() if declared else "cp1252")
        except (LookupError, UnicodeDecodeError):
            return data.decode("cp1252", "replace")


def _depth(data: bytes, tags: re.Pattern[bytes] | None = None) -> int:
    """Return how deeply elements are nested, or those with these tags, by their tags alone."""
    level = most = 0
    for closes in (tags or _TAG).findall(data):
        level = max(0, level + (-1 if closes else 1))
        most = max(most, level)
    return most


def _divide(page: Any) -> None:
    """Put a line feed where a cell's text goes on in another line."""
    for each in page.css("br"):
        each.replace_with("\n")
    for each in page.css(", ".join(f"{cell} {name.strip()}" for cell in _CELLS for name in _APART.split(","))):
        each.insert_after("\n")


def _text(node: Any) -> str:
    lines = (" ".join(line.split()) for line in node.text(deep=True).split("\n"))
    return "\n".join(line for line in lines if line)


class _Table:
    """One table element."""

    def __init__(self, element: Any, name: str, *, is_inner: bool, has_inner: bool, has_spans: bool) -> None:
        self._element = element
        self._name = name
        self._is_inner = is_inner
        self._caption = ""
        self._images = 0
        self._merged = 0
        self._header: list[list[str | None]] = []
        self._body: list[list[str | None]] = []
        self._footer: list[list[str | None]] = []
        self._has_inner = has_inner
        self._has_spans = has_spans
        self._left = _MAX_CELLS
        for part, rows in self._parts():
            grid, all_names = self._grid(rows)
            if part == "thead" and not self._body:
                self._header += grid
            elif part == "tfoot":
                self._footer += grid
            else:
                count = 0
                if not self._header and not self._body:
                    count = next((number for number, is_names in enumerate(all_names) if not is_names), len(grid))
                    count = min(count, 3) if count < len(grid) else min(count, 1)
                self._header += grid[:count]
                self._body += grid[count:]
        if not self._header and _are_names(self._body):
            self._header, self._body = self._body[:1], self._body[1:]

    def _parts(self) -> Iterator[tuple[str, list[Any]]]:
        loose: list[Any] = []
        for child in self._element.iter():
            if child.tag == "caption":
                self._caption = _text(child)
            elif child.tag in _PARTS:
                if loose:
                    yield "tbody", loose
                    loose = []
                yield child.tag, [row for row in child.iter() if row.tag == "tr"]
            elif child.tag == "tr":
                loose.append(child)
        if loose:
            yield "tbody", loose

    def _grid(self, rows: list[Any]) -> tuple[list[list[str | None]], list[bool]]:
        """Return the texts of the rows, those of spanning cells repeated, and which rows have nothing but names."""
        grid: list[list[str | None]] = []
        all_names: list[bool] = []
        spans: dict[int, tuple[int, str | None]] = {}
        for row in rows:
            cells: list[str | None] = []
            names = True
            following: dict[int, tuple[int, str | None]] = {}

            def fill(
                cells: list[str | None],
                following: dict[int, tuple[int, str | None]],
                spans: dict[int, tuple[int, str | None]] = spans,
            ) -> None:
                while len(cells) in spans:
                    count, text = spans[len(cells)]
                    if count > 1:
                        following[len(cells)] = (count - 1, text)
                    cells.append(text)

            for cell in row.iter():
                if cell.tag not in _CELLS:
                    continue
                fill(cells, following)
                text = self._cell(cell)
                names = names and cell.tag == "th"
                across = down = 1
                if self._has_spans:
                    given = cell.attributes
                    across, down = _span(given, "colspan", _MAX_SPAN), _span(given, "rowspan", len(rows))
                self._merged += across > 1 or down > 1
                for _ in range(across):
                    if down > 1:
                        following[len(cells)] = (down - 1, text)
                    cells.append(text)
                    if len(cells) > MAX_COLUMNS:
                        check_width(len(cells))
            for column in sorted(spans):
                if column >= len(cells):
                    cells.extend([None] * (column - len(cells)))
                    fill(cells, following)
            spans = following
            self._left -= len(cells)
            if self._left < 0:
                raise NotATable(f"it has more than {_MAX_CELLS:,} cells")
            if any(cell is not None for cell in cells):
                grid.append(cells)
                all_names.append(names)
        return grid, all_names

    def _cell(self, cell: Any) -> str | None:
        if self._has_inner and cell.css_first("table") is not None:
            copy = cell.clone()
            for inner in copy.css("table"):
                if inner.parent is not None:
                    inner.remove()
            return _text(copy) or None
        text = cell.text(deep=True)
        if "\n" in text:
            return _text(cell) or None
        return " ".join(text.split()) or None

    def frame(self, before: list[wire.Aside], room: Room) -> wire.Table:
        """Return the table as a frame; raise NotATable of a table that only lays out a page."""
        width = max(map(len, (*self._header, *self._body, *self._footer)), default=0)
        if not self._body:
            raise NotATable("it has no rows below the names of its columns" if self._header else "it has no text")
        if not self._header and (len(self._body) < 2 or width < 2):
            raise NotATable("it has one row or one column, and no names: it lays out the page")
        check_width(width)
        notes = []
        if self._merged:
            notes.append(f"cells that span rows or columns: {self._merged:,}; their text is repeated in each")
        if self._is_inner:
            notes.append("it stands inside of another table")
        ragged = sum(len(row) != width for row in self._body)
        if ragged:
            notes.append(f"rows with fewer cells than the {width:,} columns: {ragged:,}")
        for row in (*self._header, *self._body):
            row.extend([None] * (width - len(row)))
        records, types = of_texts(
            [*map(_joined, zip(*self._header, strict=True))] if self._header else [None] * width, self._body, room.left
        )
        after = [
            wire.Aside(f"footer row {number}", [cell for cell in row if cell is not None])
            for number, row in enumerate(self._footer, 1)
        ]
        return records.table(
            self._caption or self._name,
            self._name,
            types=types,
            before=before,
            after=after,
            notes=notes,
            has_names=bool(self._header),
        )


def _span(attributes: Mapping[str, str | None], name: str, most: int) -> int:
    digits = (attributes.get(name) or "").strip()
    if not (digits.isascii() and digits.isdigit()):
        return 1
    count = int(digits[:9])
    return most if count == 0 and name == "rowspan" else max(1, min(count, most))


def _are_names(rows: list[list[str | None]]) -> bool:
    """Whether the first row names columns, though the page does not say so: texts alone, each another, above values in some column."""
    first, *others = rows or [[]]
    there = [cell for cell in first if cell]
    if (
        len(others) < 2
        or not there
        or len(there) < len(first)
        or len({*there}) < len(there)
        or text_type(there) != "text"
    ):
        return False
    if any(text_type([cell]) != "text" or not _NAME.match(cell) for cell in there):
        return False
    return any(
        text_type([row[column] for row in others if column < len(row) and row[column] is not None]) in _VALUES
        for column, name in enumerate(there)
        if not NO_VALUE.fullmatch(name)
    )


def _joined(cells: tuple[str | None, ...]) -> str | None:
    """Return one name of the cells above a column, of which the upper ones may span several."""
    names = [*dict.fromkeys(cell for cell in cells if cell)]
    return " / ".join(names) or None
