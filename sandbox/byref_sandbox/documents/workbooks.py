"""Excel workbooks (xlsx, xlsm, xlsb, xls) and OpenDocument spreadsheets, sheet by sheet.

calamine reads the cells. Of xlsx it gives nothing for a cell with an error (`#N/A`), rounds long integers to 64-bit floats, and makes
a dense array of a sheet, however few cells it has. So the XML of each sheet is searched for these first: errors and long numbers
are put in their places afterwards, and a sheet whose cells are too far apart is left out before it is read. Of xls, xlsb and ods they
are counted, and the count is told: there errors are null, and long integers of ods are rounded.
"""

from __future__ import annotations

import datetime
import io
import math
import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, Final
from xml.etree import ElementTree

import python_calamine

from byref_sandbox import wire
from byref_sandbox.documents.building import NotATable, Records, batches
from byref_sandbox.documents.inflating import Room, member_of
from byref_sandbox.tabletext.kinds import NO_VALUE

MAX_SHEETS: Final = 1_000
"""Sheets that are read; others are left out, with their names."""
_MAX_CELLS: Final = 10_000_000
"""Cells of a sheet, the empty ones between its first and last included."""
_MAX_NOTED: Final = 10
_MAX_PREAMBLE: Final = 30
"""Rows of a block in which its header is looked for."""
_CELL: Final = re.compile(rb"<(?:\w+:)?c(?=[\s>/])")
_REFERENCE: Final = re.compile(rb"<(?:\w+:)?c\s(?:[^<>]*?\s)?r\s*=\s*[\"']([A-Z]{1,3})([0-9]{1,7})[\"']")
_ERROR: Final = re.compile(
    rb"<(?:\w+:)?c\s[^<>]*\bt=[\"']e[\"'][^<>]*>(?:(?!</?(?:\w+:)?c[\s>]).)*?<(?:\w+:)?v>([^<]{1,40})<", re.DOTALL
)
_LONG: Final = re.compile(rb"<(?:\w+:)?v>(-?[0-9]{16,})<")
_PLACE: Final = re.compile(rb"\sr\s*=\s*[\"']([A-Z]{1,3})([0-9]{1,7})[\"']")
_TEXT: Final = re.compile(rb"\st=[\"'](?:s|str|inlineStr|b|d|e)[\"']")
_FORMULA: Final = re.compile(rb"<(?:\w+:)?f[\s>/]")
_OLD_ERROR: Final = re.compile(
    rb"(?:\x05\x02\x08\x00.{6}[\x00\x07\x0f\x17\x1d\x24\x2a\x2b]\x01|\x06\x00..{7}.\x02.[\x00\x07\x0f\x17\x1d\x24\x2a\x2b]...\xff\xff)",
    re.DOTALL,
)
"""The records BOOLERR of xls, and FORMULA where its value is an error."""
_BINARY_ERRORS: Final = (3, 11)
"""The records of xlsb for a cell with an error, and for a formula whose value is one."""
_OPEN_ERROR: Final = re.compile(rb"<table:table-cell\s[^<>]*calcext:value-type=\"error\"")
_OPEN_LONG: Final = re.compile(rb"\soffice:value=\"-?[0-9]{16,}\"")
_RELATION: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"

Row = list[Any]


def read(data: bytes, room: Room) -> Iterator[wire.Frame]:
    """Yield a table, or more, of each sheet. Raise NotATable if it is no workbook."""
    book = Workbook(data, room)
    for number, sheet in enumerate(book.sheets):
        if number >= MAX_SHEETS:
            yield wire.LeftOut(sheet.name, f"one of {len(book.sheets):,} sheets, of which {MAX_SHEETS:,} are read")
            if number >= MAX_SHEETS + _MAX_NOTED:
                break
            continue
        if not is_of_cells(sheet):
            yield wire.LeftOut(sheet.name, f"a {_kind_of(sheet.typ)}, which has no cells")
            continue
        try:
            cells, scan = book.sheet(number)
            top, left, rows = _rows(cells, scan)
            notes = [*_notes(sheet, scan), *_merged(cells)]
            yield from _Layout(sheet.name, top, left, rows, notes).tables(room)
        except NotATable as error:
            yield wire.LeftOut(sheet.name, str(error))
    yield from book.others()


class Workbook:
    """A workbook whose sheets are looked at before calamine makes arrays of them.

    Raises:
        NotATable: it is no workbook that can be read.
    """

    def __init__(self, data: bytes, room: Room) -> None:
        self._package = _Package(data, room) if data.startswith(b"PK") else None
        self._old_errors = 0 if self._package is not None else len(_OLD_ERROR.findall(data))
        try:
            self._book = python_calamine.load_workbook(io.BytesIO(data))
            self.sheets: list[Any] = self._book.sheets_metadata
            """What calamine tells of each sheet without reading it."""
        except python_calamine.PasswordError:
            raise NotATable("the workbook is encrypted") from None
        except python_calamine.CalamineError as error:
            raise NotATable(f"it is no workbook that can be read: {error}") from None

    def sheet(self, number: int) -> tuple[Any, Scan]:
        """Return calamine's sheet, and what it does not tell of it. Raise NotATable if it cannot be read as an array."""
        scan = self._package.scan(self.sheets[number].name) if self._package is not None else Scan(b"")
        scan.check()
        try:
            return self._book.get_sheet_by_index(number), scan
        except python_calamine.CalamineError as error:
            raise NotATable(f"it cannot be read: {error}") from None

    def grid(self, number: int) -> list[Row]:
        """Return the cells of a sheet from its first row and column on, as pandas wants them.

        An empty cell is an empty text, one with an error is NaN, and integers are exact. Raises NotATable.
        """
        cells, scan = self.sheet(number)
        places = [*scan.values, *([cells.end] if cells.end is not None else [])]
        if not places:
            return []
        height, width = (max(each) + 1 for each in zip(*places, strict=True))
        if height * width > _MAX_CELLS:
            raise NotATable(_too_far(height, width))
        rows = [[*map(_as_pandas_has_it, row)] for row in cells.to_python(skip_empty_area=False)]
        if scan.values:
            rows += [[] for _ in range(height - len(rows))]
            for row in rows:
                row.extend([""] * (width - len(row)))
            for (row_number, column), text in scan.values.items():
                rows[row_number][column] = int(text) if text.lstrip("-").isdecimal() else math.nan
        return rows

    def others(self) -> Iterator[wire.LeftOut]:
        """Yield what it has beside cells, and what of its cells calamine does not give."""
        if self._package is not None:
            yield from self._package.others()
        errors, long = self._package.lost() if self._package is not None else (self._old_errors, 0)
        if errors:
            yield wire.LeftOut("", f"cells with errors, such as #N/A, which are null: {errors:,}")
        if long:
            yield wire.LeftOut("", f"integers of more than 15 digits, which are rounded: {long:,}")


def is_of_cells(sheet: Any) -> bool:
    """Whether a sheet, as calamine describes it, has cells: others are charts, dialogs and code."""
    return bool(sheet.typ == python_calamine.SheetTypeEnum.WorkSheet)


def _kind_of(kind: Any) -> str:
    words = {"ChartSheet": "chart", "DialogSheet": "dialog", "MacroSheet": "sheet of macros", "Vba": "module of code"}
    return next((text for name, text in words.items() if name in str(kind)), "sheet of another kind")


def _rows(sheet: Any, scan: Scan) -> tuple[int, int, list[Row]]:
    """Return the rows between the first cell and the last that are not empty, and where the first of them stands."""
    if sheet.height * sheet.width > _MAX_CELLS:
        raise NotATable(_too_far(sheet.total_height, sheet.total_width))
    rows = [[*map(_cell, row)] for row in sheet.to_python(skip_empty_area=True)]
    places = [*([sheet.start, sheet.end] if sheet.start is not None else []), *scan.values]
    if not places:
        return 0, 0, []
    first_row, first_column = sheet.start or places[0]
    top, left = (min(each) for each in zip(*places, strict=True))
    bottom, right = (max(each) for each in zip(*places, strict=True))
    rows = [[] for _ in range(first_row - top)] + rows
    rows += [[] for _ in range(bottom + 1 - top - len(rows))]
    rows = [[None] * (first_column - left) + row if row else row for row in rows]
    for row in rows:
        row.extend([None] * (right + 1 - left - len(row)))
    for (number, column), value in scan.values.items():
        rows[number - top][column - left] = value
    return top, left, rows


def _too_far(rows: int, columns: int) -> str:
    return f"its cells lie in {rows:,} rows and {columns:,} columns, which is more than {_MAX_CELLS:,} cells with the empty ones"


def _cell(cell: Any) -> Any:
    if cell == "" and type(cell) is str:
        return None
    if type(cell) is float and cell.is_integer() and abs(cell) < 1e15:
        return int(cell)
    return cell


def _as_pandas_has_it(cell: Any) -> Any:
    if type(cell) is float and cell.is_integer():
        return int(cell)
    if type(cell) is datetime.date:
        return datetime.datetime(cell.year, cell.month, cell.day)
    return cell


class Scan:
    """What calamine does not tell of a sheet, found in its XML."""

    def __init__(self, xml: bytes) -> None:
        self.values: dict[tuple[int, int], str] = {}
        """Errors and long integers, by row and column from 0."""
        self.errors = self.long = 0
        self.formulas = len(_FORMULA.findall(xml))
        self._xml = xml

    def check(self) -> None:
        """Find the cells that need care; raise NotATable where the sheet cannot be read as an array."""
        references = _REFERENCE.findall(self._xml)
        places = {*references}
        if places:
            rows = [int(row) for _, row in places]
            columns = [*map(_column, {column for column, _ in places})]
            # A cell that does not say where it is may be the first.
            is_whole = len(_CELL.findall(self._xml)) == len(references)
            first_row, first_column = (min(rows), min(columns)) if is_whole else (1, 0)
            if (max(rows) - first_row + 1) * (max(columns) - first_column + 1) > _MAX_CELLS:
                raise NotATable(_too_far(max(rows), max(columns) + 1))
        for found in _ERROR.finditer(self._xml):
            self._put(found.start(), found[1].decode("utf-8", "replace"))
            self.errors += 1
        for found in _LONG.finditer(self._xml):
            start = max(
                (match.start() for match in _CELL.finditer(self._xml, max(0, found.start() - 2_000), found.start())),
                default=-1,
            )
            if start < 0:
                raise NotATable("a cell has no place")
            if not _TEXT.search(self._xml, start, self._xml.find(b">", start) + 1):
                self._put(start, found[1].decode())
                self.long += 1
        self._xml = b""

    def _put(self, start: int, value: str) -> None:
        place = _PLACE.search(self._xml, start, self._xml.find(b">", start) + 1)
        if place is None:
            raise NotATable("its cells do not say where they are, and some are errors or long numbers")
        row, column = int(place[2]) - 1, _column(place[1])
        if row >= 1 << 20 or column >= 1 << 14:
            raise NotATable("a cell lies outside of the sheet")
        self.values[row, column] = value


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number - 1


class _Package:
    """The parts of an xlsx file that tell what calamine does not."""

    def __init__(self, data: bytes, room: Room) -> None:
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            self._names = {name.lower(): name for name in self._archive.namelist()}
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise NotATable(f"it is no archive that can be read: {error}") from None
        self._room = room
        room.check_declared(self._archive)
        self._parts = self._sheets() if "xl/workbook.xml" in self._names else {}

    def _sheets(self) -> dict[str, str]:
        try:
            book = ElementTree.fromstring(self._read("xl/workbook.xml"))
            relations = ElementTree.fromstring(self._read("xl/_rels/workbook.xml.rels"))
        except (ElementTree.ParseError, KeyError) as error:
            raise NotATable(f"it is no workbook that can be read: {error}") from None
        targets = {each.get("Id"): each.get("Target", "") for each in relations}
        found: dict[str, str] = {}
        for sheet in book.iter():
            if sheet.tag.endswith("}sheet"):
                target = targets.get(
                    sheet.get(_RELATION) or next((v for k, v in sheet.items() if k.endswith("}id")), ""), ""
                )
                found[sheet.get("name", "")] = (target[1:] if target.startswith("/") else f"xl/{target}").lower()
        return found

    def _read(self, name: str) -> bytes:
        return member_of(self._archive, self._names[name], self._room)

    def scan(self, sheet: str) -> Scan:
        """Return what the XML of a sheet tells."""
        part = self._parts.get(sheet)
        return Scan(self._read(part) if part in self._names else b"")

    def lost(self) -> tuple[int, int]:
        """Return how many cells of xlsb or ods have an error, and how many of ods have a long integer."""
        errors = long = 0
        for low, name in self._names.items():
            if low.startswith("xl/worksheets/") and low.endswith(".bin"):
                errors += sum(kind in _BINARY_ERRORS for kind in _kinds_of_records(self._read(low)))
            elif low == "content.xml":
                xml = member_of(self._archive, name, self._room)
                errors, long = len(_OPEN_ERROR.findall(xml)), len(_OPEN_LONG.findall(xml))
        return errors, long

    def others(self) -> Iterator[wire.LeftOut]:
        """Yield what a workbook has beside cells."""
        for prefix, words in (
            ("xl/charts/", "charts"),
            ("xl/media/", "images"),
            ("xl/externallinks/", "links to other workbooks"),
            ("xl/vbaproject", "macros"),
        ):
            count = sum(name.startswith(prefix) and not name.endswith(".rels") for name in self._names)
            if count:
                yield wire.LeftOut("", f"{words}: {count:,}")


def _kinds_of_records(part: bytes) -> Iterator[int]:
    """Yield the kind of each record of a part of xlsb: a number of one byte or two, a length of up to four, and so many bytes."""
    at = 0
    while at < len(part):
        kind, at = part[at], at + 1
        if kind & 0x80:
            kind, at = (kind & 0x7F) | (part[at] << 7 if at < len(part) else 0), at + 1
        size = shift = 0
        while at < len(part) and shift < 28:
            byte, at = part[at], at + 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        yield kind
        at += size


def _notes(sheet: Any, scan: Scan) -> list[str]:
    notes = []
    if sheet.visible != python_calamine.SheetVisibleEnum.Visible:
        notes.append("the sheet is hidden")
    if scan.formulas:
        notes.append(f"cells with formulas: {scan.formulas:,}; here are the values that were stored with them")
    if scan.errors:
        notes.append(f"cells with errors, such as #N/A, which are text here: {scan.errors:,}")
    if scan.long:
        notes.append(f"integers of more than 15 digits, which are text here: {scan.long:,}")
    return notes


def _merged(sheet: Any) -> list[str]:
    ranges = sheet.merged_cell_ranges
    if not ranges:
        return []
    named = [place(*first, *last) for first, last in ranges[:_MAX_NOTED]]
    more = f" and {len(ranges) - _MAX_NOTED:,} more" if len(ranges) > _MAX_NOTED else ""
    return [f"merged cells, of which the first has the value: {', '.join(named)}{more}"]


def letters(column: int) -> str:
    """Return the letters of a column, counted from 0."""
    text = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(65 + rest) + text
    return text


def place(top: int, left: int, bottom: int, right: int) -> str:
    """Return a range as spreadsheets write it; rows and columns count from 0."""
    first, last = f"{letters(left)}{top + 1}", f"{letters(right)}{bottom + 1}"
    return first if first == last else f"{first}:{last}"


class _Block:
    """Rows of a sheet without an empty row between them."""

    def __init__(self, top: int, rows: list[Row]) -> None:
        self.top = top
        self.rows = rows
        self.counts = [sum(cell is not None for cell in row) for row in rows]

    @property
    def width(self) -> int:
        """The most cells that a row has."""
        return max(self.counts)

    def header(self) -> int | None:
        """Return the row with the names of columns: the first that has texts, each another, over most columns of the rows below."""
        for number, row in enumerate(self.rows[: min(_MAX_PREAMBLE, len(self.rows) - 1)]):
            below = max(self.counts[number + 1 : number + 101])
            cells = [cell for cell in row if cell is not None]
            if len(cells) < max(min(2, self.width), 0.6 * below):
                continue
            if len({str(cell) for cell in cells}) > 0.5 * len(cells) and _are_names(cells):
                return number if len(cells) >= below else self._wider(number, below)
            return None
        return None

    def _wider(self, number: int, below: int) -> int:
        """Return a row shortly below that has names for all columns, and values under them; else the row itself.

        Then what stands above it is a title: `as of, 2024`.
        """
        for later in range(number + 1, min(number + 6, len(self.rows) - 1)):
            following = self.rows[later + 1]
            if self.counts[later] < below or not all(
                isinstance(cell, str) for cell in self.rows[later] if cell is not None
            ):
                continue
            return later if any(cell is not None and not isinstance(cell, str) for cell in following) else number
        return number


def _are_names(cells: Sequence[Any]) -> bool:
    texts = sum(isinstance(cell, str) for cell in cells)
    if texts == len(cells):  # a text beside nothing but `n/a` is of a record
        return texts == 1 or not all(NO_VALUE.fullmatch(cell.strip()) for cell in cells[1:])
    # Years and dates as names: `region, 2023, 2024`.
    return (
        texts > 0 and isinstance(cells[0], str) and all(_is_period(cell) for cell in cells if not isinstance(cell, str))
    )


def _is_period(cell: Any) -> bool:
    return isinstance(cell, datetime.date) or (type(cell) is int and 1800 <= cell <= 2200)


class _Layout:
    """The tables of one sheet, and what stands around them.

    Rows without a row of empty cells between them are a block. A block that has names of columns begins a table; one without goes on
    with the table above, unless it has more columns. Blocks of one cell a row are titles, notes and sums around tables.
    """

    def __init__(self, name: str, top: int, left: int, rows: list[Row], notes: list[str]) -> None:
        self._name = name
        self._left = left
        self._notes = notes
        self._blocks: list[_Block] = []
        start: int | None = None
        filled = [any(cell is not None for cell in row) for row in rows]
        for number, is_filled in enumerate([*filled, False]):
            if is_filled and start is None:
                start = number
            elif not is_filled and start is not None:
                self._blocks.append(_Block(top + start, rows[start:number]))
                start = None

    def tables(self, room: Room) -> Iterator[wire.Frame]:
        """Yield the tables; of a sheet without cells, that it is left out."""
        if not self._blocks:
            yield wire.LeftOut(self._name, "the sheet is empty")
            return
        found = self._divided()
        for number, (before, header, body, after) in enumerate(found):
            try:
                yield self._table(room, before, header, body, after, is_only=len(found) == 1, is_first=number == 0)
            except NotATable as error:
                yield wire.LeftOut(self._name, str(error))

    def _divided(self) -> list[tuple[list[_Block], _Block | None, list[_Block], list[_Block]]]:
        widest = max(block.width for block in self._blocks)
        found: list[tuple[list[_Block], _Block | None, list[_Block], list[_Block]]] = []
        waiting: list[_Block] = []
        for block in self._blocks:
            if block.width == 1 < widest:
                waiting.append(block)
                continue
            header = block.header()
            if (
                header is None
                and found
                and not waiting
                and block.width <= max(part.width for part in (found[-1][1], *found[-1][2]) if part)
            ):
                found[-1][2].append(block)
                continue
            before, waiting = waiting, []
            if header:
                before = [*before, _Block(block.top, block.rows[:header])]
            names = None if header is None else _Block(block.top + header, block.rows[header : header + 1])
            start = 0 if header is None else header + 1
            body = _Block(block.top + start, block.rows[start:])
            last = len(body.rows)
            while widest > 2 and last > 1 and len(body.rows) - last < 5 and _is_note(body.rows[last - 1]):
                last -= 1
            after = [_Block(body.top + last, body.rows[last:])] if last < len(body.rows) else []
            found.append((before, names, [_Block(body.top, body.rows[:last])], after))
        if found:
            found[-1][3].extend(waiting)
            return found
        return [([], None, waiting, [])]

    def _table(
        self,
        room: Room,
        before: list[_Block],
        header: _Block | None,
        body: list[_Block],
        after: list[_Block],
        *,
        is_only: bool,
        is_first: bool,
    ) -> wire.Table:
        rows = [row for block in body for row in block.rows]
        filled = [
            number
            for number, column in enumerate(zip(*([*header.rows] if header else []), *rows, strict=True))
            if any(cell is not None for cell in column)
        ]
        titles = [header.rows[0][number] if header else None for number in filled]
        records = Records([None if title is None else _text(title) for title in titles], room.left)
        for batch in batches(rows):
            records.add([[row[number] for number in filled] for row in batch])
        top = (header or body[0]).top
        bottom = body[-1].top + len(body[-1].rows) - 1
        where = place(top, self._left + filled[0], bottom, self._left + filled[-1])
        return records.table(
            self._name if is_only else f"{self._name} {where}",
            f"{self._name}!{where}",
            before=_asides(before),
            after=_asides(after),
            notes=self._notes if is_first else (),
            has_names=header is not None,
        )


def _is_note(row: Row) -> bool:
    cells = [cell for cell in row if cell is not None]
    return len(cells) == 1 and isinstance(cells[0], str)


def _asides(blocks: list[_Block]) -> list[wire.Aside]:
    return [
        wire.Aside(f"row {block.top + number + 1}", [_text(cell) for cell in row if cell is not None])
        for block in blocks
        for number, row in enumerate(block.rows)
    ]


def _text(cell: Any) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
