"""Tables with lines between their columns: psql, MySQL, SQLite and DuckDB in a terminal; Markdown; the grids of reStructuredText.

They are known by their rules, the lines that only have `-`, `+`, `|`, `=`, `:` or box-drawing characters. A row's cells are divided
by bars. Where a cell has a bar of its own, the row is cut below the crossings of the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice, pairwise
from string import whitespace
from typing import Final, NamedTuple

import msgspec

from byref_sandbox.tabletext.lines import (
    COUNTS,
    MAX_AROUND,
    Line,
    Parts,
    Unbalanced,
    blocks_of,
    cut,
    display_width,
    goes_on,
    lines_of,
    made,
)
from byref_sandbox.tabletext.result import MAX_TABLES, Format, NotATable, Row, Table, too_many

_RULE: Final = re.compile(r"\s*[-+|=:\u2500-\u257f ]*[-─━═=][-+|=:\u2500-\u257f ]*")
_DRAWN: Final = tuple(map(str.encode, ("──", "━━", "══")))
_OF_RULES: Final = b"-+|=:" + bytes({*"".join(map(chr, range(0x2500, 0x2580))).encode()})
_FIRST_RULE: Final = 8 << 10
"""Bytes in which the first rule is."""
_CLOSING: Final = re.compile(r"[├┝╞╟╠┣][─═━]*(?:[┴╧╩┻╨┷][─═━]*)+[┤┥╡╢╣┫]")
"""The rule above the numbers of rows and columns that DuckDB draws inside of the frame."""
_MAX_COUNTS: Final = 2
"""Lines of such numbers."""
_MAY_BE_RULE: Final = re.compile(r"\s*[-+|=:\u2500-\u257f]")
_CROSSINGS: Final = "+|┼┬┴╋┳┻╪╤╧╬╦╩╇│┃║┿╂╫"
_LEFT: Final = "+|┌┍┏╒╓╔╭├┝┠┣╞╟╠"
"""What a rule of a table in a frame begins with."""
_ABOVE: Final = "┌┍┏╒╓╔╭"
"""What no other rule of such a table begins with than its first."""
_BELOW: Final = "|├┝┠┣╞╟╠"
"""… if rows are above it."""
_BARS: Final = "|│┃║┆┊╎"
_ALIKE: Final = str.maketrans("┃║┆┊╎", "│││││")
"""Bars that stand beside others in one table."""
_MARKDOWN: Final = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_CONTINUED: Final = ("+", "↵")
_WRAPPED: Final = (".", "…")
_DOTS: Final = ("·", "…", "...")
"""What DuckDB and polars write for what they do not show."""
_HEAD_LINES: Final = 64
_LOOKED_LINES: Final = 1_000
"""Lines of a table in which is seen whether rules stand between its rows."""
_NO_TEXT: Final = "-+|=:" + "".join(map(chr, range(0x2500, 0x2580))) + whitespace
"""What rules, and rows without text, are made of."""
_SQL_TYPES: Final = re.compile(
    r"(?:u?(?:tiny|small|big|huge)?int\w*|varchar(?:\[\])*|double|float|boolean|date|timestamp.*|time.*|decimal\(.*\)|blob|uuid|interval|json|struct\(.*|map\(.*|.*\[\]|bit|\"null\"|enum\(.*|union\(.*)"
)
_POLARS_TYPES: Final = re.compile(
    r"[iuf]\d+|str|bool|date|time|cat|enum|null|binary|object|(?:datetime|duration|list|array|struct|decimal)\[.*|"
)


class Layout(NamedTuple):
    """How a table is drawn."""

    format: Format
    bar: str
    width: int
    places: tuple[int, ...]
    """Where a terminal shows the bars between the cells; from the first bar on, if the rows begin with one."""
    is_framed: bool
    """Whether rows begin and end with a bar."""
    is_grid: bool
    """Whether a rule ends each row, so that a row may have several lines."""
    has_gaps: bool = False
    """Whether rows of dots stand for rows that are not shown, and are none themselves."""
    end: int = 0
    """Where a terminal shows the end of the rule of rows without a frame; 0 if it is not known."""


def recognise(data: bytes) -> tuple[Table, ...] | NotATable | None:
    """Read all tables of this kind in a text; None if it has no such rule, or most of it is something else."""
    if not _may_have_rule(data):
        return None
    tables: list[Table] = []
    lines, start, around, inside = list[Line](), 0, 0, 0
    layout: Layout | None = None
    iterator = lines_of(data)
    try:
        while True:
            lines = lines or list(islice(iterator, _HEAD_LINES))
            if not lines:
                break
            found = _first_rule(lines)
            if found is None:
                around += sum(not line.is_blank for line in lines)
                if not tables or around > MAX_AROUND:
                    return None
                _check_outside(lines, layout)
                last = tables[-1]
                end = lines[-1].end
                tables[-1] = _with_footer(last, end)
                lines = []
                continue
            if layout is not None:
                # The last one may have the names of the next table.
                _check_outside(lines[: max(0, found[0] - 1)], layout)
            layout = found[1]
            if len(tables) == MAX_TABLES:
                return too_many(lines[0].number)
            table, end, number = _table(data, lines, found, start)
            around += sum(not line.is_blank for line in lines[: found[0]])
            inside += table.rows
            tables.append(table)
            start = end
            iterator = lines_of(data, end, number)
            lines = []
    except Unbalanced as unbalanced:
        return unbalanced.problem
    return tuple(tables) if tables and around <= max(MAX_AROUND // 4, inside) else None


def _with_footer(table: Table, end: int) -> Table:
    parts = Parts()
    for part in table.parts:
        parts.add(*part)
    parts.add("footer", table.parts[-1].end, end)
    return replace(table, parts=tuple(parts.made))


def _may_have_rule(data: bytes) -> bool:
    """Whether one of the first lines has nothing but what rules have; in most text none has, which is seen before any line is read."""
    head = data[:_FIRST_RULE]
    # One byte is looked for in a tenth of the time that two take.
    has_rule = (b"=" in head and b"==" in head) or (b"-" in head and b"--" in head)
    has_bars = b"|" in head and any(mark in head for mark in (b"|-", b"| -", b"|:-"))
    if not has_rule and not has_bars and (head.isascii() or not any(mark in head for mark in _DRAWN)):
        return False
    lines = head.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    return b"\x1b" in head or any(line and not line.translate(None, _OF_RULES).strip() for line in lines)


def _first_rule(lines: list[Line]) -> tuple[int, Layout] | None:
    """The first rule of a table among lines, and how that table is drawn."""
    for at, line in enumerate(lines):
        text = line.text
        if not _MAY_BE_RULE.match(text) or not _RULE.fullmatch(text):
            continue
        stripped = text.strip()
        before = lines[at - 1].text if at else ""
        after = lines[at + 1].text if at + 1 < len(lines) else ""
        if _MARKDOWN.fullmatch(text) and "|" in before and not set("+┼") & set(text) and "|" in text + before:
            columns = _markdown_cells(before)
            if "|" in stripped and len(_markdown_cells(text)) == len(columns):
                is_framed = before.strip().startswith("|")
                places = tuple(place for place, mark in _shown(text) if mark == "|") if is_framed else ()
                return at, Layout("markdown", "|", len(columns), places, is_framed, False)
            continue
        crossings = [place for place, mark in _shown(text) if mark in _CROSSINGS]
        if after.strip() and after.lstrip()[0] in _BARS and stripped[0] in _LEFT:
            bar = after.lstrip()[0].translate(_ALIKE)
            bars = [place for place, mark in _shown(after.translate(_ALIKE)) if mark == bar]
            crossed = _crossings_of(text)
            if len(crossed) == 2 and len(bars) > 2:  # a first line without crossings, as rich draws it
                below = lines[at + 2].text if at + 2 < len(lines) else ""
                crossed = _crossings_of(below) if _is_rule(below) else crossed
            inner = tuple(place for place in crossed if place)[:-1]
            if len(bars) >= 2:
                return at, Layout("box", bar, len(inner) + 1, crossed, True, False, bar == "│")
        elif crossings and before and stripped[0] in "-─╶━╺" and any(bar in before for bar in _BARS):
            bar = next(bar for bar in _BARS if bar in before).translate(_ALIKE)
            return at, Layout(
                "box", bar, len(crossings) + 1, tuple(crossings), False, False, end=display_width(text.rstrip())
            )
    return None


def _shown(text: str) -> Iterator[tuple[int, str]]:
    place = 0
    for mark in text:
        yield place, mark
        place += display_width(mark)


def _crossings_of(text: str) -> tuple[int, ...]:
    """Where a framed rule has its crossings and corners."""
    return tuple(place for place, mark in _shown(text) if mark not in "-─━═=: ")


def _markdown_cells(text: str) -> list[str]:
    text = text.strip()
    text = text.removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", text)]


def _table(data: bytes, lines: list[Line], found: tuple[int, Layout], start: int) -> tuple[Table, int, int]:
    """Read the table whose first rule was found; returns it, where it ends, and the number of the line there."""
    at, layout = found
    parts = Parts()
    header: list[str] | None = None
    body = lines[at].start
    is_below_names = at > 0 and _is_row(lines[at - 1].text, layout) and lines[at].text.lstrip()[0] in _BELOW
    if layout.format == "markdown" or not layout.is_framed or is_below_names:
        # The header is above the rule.
        if at > 1:
            _check_outside([lines[at - 2]], layout)
        parts.add("preamble", start, lines[at - 1].start)
        parts.add("header", lines[at - 1].start, lines[at].start)
        header = (
            _markdown_cells(lines[at - 1].text)
            if layout.format == "markdown"
            else [cell.strip() for cell in _cells(lines[at - 1], layout)]
        )
        parts.add("rule", lines[at].start, lines[at].end)
        body = lines[at].end
        types, rule = [*islice(lines_of(data, body, lines[at].number + 1), 2), None, None][:2]
        if layout.format == "markdown" and types and rule and _is_rule(rule.text) and _are_types(types.text):
            parts.add("header", types.start, types.end)
            parts.add("rule", rule.start, rule.end)
            body = rule.end
            layout = layout._replace(format="markdown" if "|" in rule.text else "box", has_gaps=True)
    else:
        parts.add("preamble", start, lines[at].start)
        parts.add("rule", lines[at].start, lines[at].end)
        names: list[list[str]] = []
        for line in lines_of(data, lines[at].end, lines[at].number + 1):
            if _is_rule(line.text):
                following = data[line.end : line.end + 64].decode("utf-8", "replace").lstrip()[:1]
                if names and following.translate(_ALIKE) == layout.bar:
                    columns = [[cell.strip() for cell in column] for column in zip(*names, strict=True)]
                    is_polars = _is_of_polars(columns)
                    header = [column[0] for column in columns] if is_polars else _header_of(columns)
                    layout = layout._replace(has_gaps=layout.has_gaps or is_polars)
                    parts.add("header", lines[at].end, line.start)
                    parts.add("rule", line.start, line.end)
                    body = line.end
                break
            if line.text.lstrip()[:1].translate(_ALIKE) != layout.bar or len(names) > 8:
                break
            names.append(_cells(line, layout))
        if header is None:
            body = lines[at].end
    number = lines[at].number + data.count(b"\n", lines[at].start, body)
    unruled = 0
    if layout.format != "markdown" and layout.is_framed:
        ruled, unruled = _between_rows(lines_of(data, body, number), layout)
        layout = layout._replace(is_grid=ruled > unruled)
    end, number = _end(data, body, number, layout, parts)
    ends = [part for part in parts.made if part.kind == "records"] or parts.made
    last = next(part for part in reversed(ends) if part.kind in ("records", "rule", "header"))
    how = Drawn(body, last.end, layout)
    notes = [f"lines of the rows above them, without a rule between: {unruled:,}"] if layout.is_grid and unruled else []
    table = made(layout.format, header, layout.width, parts, how, data, notes=notes, may_wrap=not layout.is_grid)
    return table, end, number


def _are_types(text: str) -> bool:
    """Whether a row below names has their types, as polars writes them."""
    types = _markdown_cells(text)
    return any(types) and all(map(_POLARS_TYPES.fullmatch, types))


def _is_of_polars(columns: list[list[str]]) -> bool:
    """Whether names, dashes and types are above one another; columns that are not shown have dots for a name, and nothing below."""
    return all(len(column) == 3 and (set(column[1]) == {"-"} or column[0] in _DOTS) for column in columns)


def _header_of(columns: list[list[str]]) -> list[str]:
    types = [column[1] for column in columns if len(column) == 2 and column[1] not in _DOTS]
    if types and all(map(_SQL_TYPES.fullmatch, types)):
        return [column[0] for column in columns]
    return [" ".join(filter(None, column)) for column in columns]


def _is_rule(text: str) -> bool:
    return (
        bool(text.strip())
        and any(mark in text for mark in "-─━═=")
        and _RULE.fullmatch(text) is not None
        and (text.strip()[0] not in _BARS or " " not in text.strip())  # cells have blanks around them
    )


def _has_blank_bars(text: str, layout: Layout) -> bool:
    """Whether dashes are cells: no rule of rows without a frame has their bars, with blanks around them."""
    return not layout.is_framed and _is_row(text, layout) and " " in text.strip()


def _between_rows(lines: Iterator[Line], layout: Layout) -> tuple[int, int]:
    """How often a rule is between two rows, and how often none: a line that lacks cells of the first one behind a rule is no row."""
    first: list[str] | None = None
    ruled = unruled = 0
    is_below_rule = False
    for line in islice(lines, _LOOKED_LINES):
        if _is_rule(line.text):
            if is_below_rule or line.text.strip()[0] in _ABOVE or _CLOSING.fullmatch(line.text.strip()):
                break
            is_below_rule = True
            continue
        if not _is_row(line.text, layout):
            break
        cells = [cell.strip() for cell in _cells(line, layout)]
        if first is None or is_below_rule:
            ruled += first is not None
            first = cells
        elif not goes_on(first, cells):
            unruled += 1
        is_below_rule = False
    return ruled, unruled


def _end(data: bytes, body: int, number: int, layout: Layout, parts: Parts) -> tuple[int, int]:
    """Add the records and what follows them to the parts; returns where that ends, and the number of the line there."""
    at, footers = body, 0
    in_footer = is_closed = is_below_rule = False
    for start, stop in blocks_of(data, body, len(data)):
        if not (in_footer or is_closed) and (rows := _plain_rows(data[start:stop], layout)) is not None:
            parts.add("records", start, stop)
            at, number, is_below_rule = stop, number + len(rows), False
            continue
        for line in lines_of(data, start, number, stop):
            text = line.text
            is_row = not in_footer and _is_row(text, layout)
            was_below_rule, is_below_rule = is_below_rule, not in_footer and not is_row and _is_rule(text)
            if is_below_rule and layout.is_framed and (was_below_rule or text.strip()[0] in _ABOVE) and at > body:
                return at, line.number  # another table begins
            if is_row and is_closed:
                footers += 1
                if footers > _MAX_COUNTS or _bars(text, layout) > 2:
                    raise Unbalanced("the row is below the rule that ends the table", line)
                parts.add("footer", line.start, line.end)
            elif is_row and _is_gap(text, layout):
                parts.add("rule", line.start, line.end)
            elif is_row:
                parts.add("records", line.start, line.end)
            elif not in_footer and _is_rule(text) and layout.format != "markdown":
                parts.add("rule", line.start, line.end)
                is_closed = is_closed or _CLOSING.fullmatch(text.strip()) is not None
            elif line.is_blank:
                parts.add("blank", line.start, line.end)
                in_footer = True
            else:
                if in_footer and not COUNTS.match(text):
                    return at, line.number
                in_footer = True
                footers += 1
                parts.add("footer", line.start, line.end)
            at, number = line.end, line.number + 1
            if footers > MAX_AROUND:
                return at, number
    return at, number


def _plain_rows(block: bytes, layout: Layout) -> list[list[str]] | None:
    """The cells of lines that are all rows of one line each, as `_rows` reads them line by line; None if one may be something else."""
    if layout.is_grid or (layout.format == "markdown" and not layout.is_framed):
        return None
    try:
        text = block.decode()
    except UnicodeDecodeError:
        return None
    text = text.replace("\r\n", "\n").removesuffix("\n")
    if any(mark in text for mark in _marks_of(layout)) or text[:1] in _WRAPPED or text[-1:] in _CONTINUED:
        return None
    rows = [line.split(layout.bar) for line in text.split("\n")]
    if {*map(len, rows)} != {layout.width + 2 * layout.is_framed}:
        return None
    cells = [[cell.strip() for cell in row] for row in rows]
    if layout.is_framed:
        if any(row[0] or row[-1] for row in cells):
            return None
        cells = [row[1:-1] for row in cells]
    return cells if all("".join(row).strip(_NO_TEXT) for row in cells) else None


@lru_cache(64)
def _marks_of(layout: Layout) -> tuple[str, ...]:
    """What is in a block that may have more than plain rows: colours, other bars, dots for rows, cells that go on, escapes."""
    bar = layout.bar
    gaps = _dots(layout)
    if layout.format == "markdown":
        return ("\r", "\x1b", "\\", *gaps)
    others = tuple(mark for mark in _BARS if mark.translate(_ALIKE) == bar != mark)
    continued = tuple(mark + end for mark in _CONTINUED for end in (bar, "\n"))
    wrapped = tuple(begin + mark for mark in _WRAPPED for begin in (bar, "\n"))
    return ("\r", "\x1b", *others, *gaps, *continued, *wrapped)


def _is_gap(text: str, layout: Layout) -> bool:
    """Whether a row says that rows are not shown: DuckDB and polars write dots in each cell."""
    if not layout.has_gaps:
        return False
    cells = text.translate(_ALIKE).strip().strip(layout.bar).split(layout.bar)
    return {*map(str.strip, cells)} <= {*_dots(layout)}


def _dots(layout: Layout) -> tuple[str, ...]:
    """What stands in each cell of such a row; three points only where nothing but ASCII is drawn."""
    return _DOTS[: 2 + (layout.bar == "|")] if layout.has_gaps else ()


def _bars(text: str, layout: Layout) -> int:
    return text.translate(_ALIKE).count(layout.bar)


def _check_outside(lines: Sequence[Line], layout: Layout | None) -> None:
    """Raise Unbalanced if one of the lines before or after a table may be a row of it."""
    if layout is None or layout.width < 2:
        return
    bars = layout.width + 1 if layout.is_framed else layout.width - 1
    for line in lines:
        if _is_row(line.text, layout) and _bars(line.text, layout) == bars:
            raise Unbalanced("the line has the bars of a row, but is outside of the table", line)


def _is_row(text: str, layout: Layout) -> bool:
    text = text.translate(_ALIKE)
    if layout.is_framed:
        return text.lstrip()[:1] == layout.bar
    return layout.bar in text


def _cells(line: Line, layout: Layout) -> list[str]:
    """The cells of a row, with their blanks."""
    text, plain = line.text, line.text.translate(_ALIKE)
    bars = [at for at, mark in enumerate(plain) if mark == layout.bar]
    if layout.is_framed:
        if len(bars) < 2 or plain[bars[-1] + 1 :].strip():
            raise Unbalanced("the row does not end with a bar", line, len(text))
        cells = [text[before + 1 : at] for before, at in pairwise(bars)]
    else:
        cells = [text[before + 1 : at] for before, at in pairwise([-1, *bars, len(text)])]
    if len(cells) == layout.width:
        return cells
    if (below := _below(text, layout)) is not None:
        return below
    raise Unbalanced(f"the row has {len(cells)} cells, the table {layout.width} columns", line)


def _below(text: str, layout: Layout) -> list[str] | None:
    """The cells below the crossings of the rule, if a bar is below each of them."""
    cells = [cell[cell[:1].translate(_ALIKE) == layout.bar :] for cell in cut(text, layout.places)]
    if layout.is_framed:
        outside = cells[:1] + cells[-1:]
        cells = cells[1:-1]
        if any(cell.strip() for cell in outside):
            return None
    shown = dict(_shown(text.translate(_ALIKE)))
    fits = all(shown.get(place) == layout.bar for place in layout.places if place)
    return cells if layout.places and len(cells) == layout.width and fits else None


class Drawn(msgspec.Struct, frozen=True, tag="drawn"):
    """Where the rows of a drawn table are, and how they are drawn."""

    start: int
    end: int
    layout: Layout

    def rows(self, source: bytes, names: Sequence[str]) -> Iterator[Row]:
        """Read the records once more."""
        try:
            yield from _rows(source, self.start, self.end, self.layout)
        except Unbalanced as unbalanced:  # only then is it worth counting what may be many tables before this one
            before, line = source.count(b"\n", 0, self.start), unbalanced.problem.line or 0
            unbalanced.problem = replace(unbalanced.problem, line=before + line)
            raise


def _rows(data: bytes, start: int, end: int, layout: Layout) -> Iterator[Row]:
    open_row: list[list[str]] | None = None
    """The lines of each cell of a row that may go on."""
    were: list[bool] = []
    """Which cells of the open row go on in the next line."""
    number = 1
    for begin, stop in blocks_of(data, start, end):
        if open_row is None and (plain := _plain_rows(data[begin:stop], layout)) is not None:
            number += len(plain)
            yield from map(tuple, plain)
            continue
        for line in lines_of(data, begin, number, stop):
            number = line.number + 1
            if line.is_blank:
                continue
            if layout.format != "markdown" and _is_rule(line.text) and not _has_blank_bars(line.text, layout):
                if layout.is_grid and open_row is not None:
                    yield tuple(map("\n".join, open_row))
                    open_row = None
                continue
            if not _is_row(line.text, layout) or _is_gap(line.text, layout):
                continue
            if layout.format == "markdown":
                cells = _markdown_cells(line.text)
                if len(cells) != layout.width and (below := _below(line.text, layout)) is not None:
                    cells = [cell.strip().replace("\\|", "|") for cell in below]
                if len(cells) != layout.width:
                    raise Unbalanced(f"the row has {len(cells)} cells, the table {layout.width} columns", line)
                yield tuple(cells)
                continue
            raw = _cells(line, layout)
            cells = [cell.strip() for cell in raw]
            if layout.is_grid:
                if open_row is None:
                    open_row = [[cell] for cell in cells]
                    continue
                for lines, cell in zip(open_row, cells, strict=True):
                    if cell:
                        lines.append(cell)
                continue
            # psql marks a line feed inside of a cell in the margin at its right, and a cell that it wrapped in both margins.
            if any(cell[:1] in _WRAPPED for cell in raw):
                raise Unbalanced("the row is wrapped", line)
            continued = [cell[-1:] in _CONTINUED and len(cell) > 1 for cell in raw]
            continued[-1] &= layout.end in (0, display_width(line.text))  # nothing else is as long as the rule
            cells = [cell[:-1].rstrip() if more else cell for cell, more in zip(cells, continued, strict=True)]
            if open_row is None and not any(continued):
                yield tuple(cells)
                continue
            if open_row is None:
                open_row, were = [[] for _ in cells], [True] * len(cells)
            for lines, cell, was in zip(open_row, cells, were, strict=True):
                if was:
                    lines.append(cell)
                elif cell:
                    raise Unbalanced("the line goes on where the row above does not", line)
            were = continued
            if not any(continued):
                yield tuple(map("\n".join, open_row))
                open_row = None
    if open_row is not None:
        yield tuple(map("\n".join, open_row))
