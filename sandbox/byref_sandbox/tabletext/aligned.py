"""Columns that only blanks keep apart: what `df`, `ps`, `kubectl`, `docker` and `lsblk` print, and the simple tables of reStructuredText.

The first line names the columns. Four ways to cut the rows are tried, and one is taken only if every line fits it:

1. each row has as many words as the header;
2. each cell ends where its name does, which is how pandas prints a table without its index;
3. there are columns of the terminal that are blank in every line, and a name above each of what they divide, or at its side;
4. each row has at least as many words as the header, and the last column takes what is left.

A rule of `=` or `-` below the header says where the columns begin, if no cell crosses it. Lines before and after, behind blank ones, are
named; other names below a table begin another one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise, takewhile
from typing import Final, Literal, NamedTuple

import msgspec

from byref_sandbox.tabletext.kinds import kind_of
from byref_sandbox.tabletext.lines import COUNTS, Line, Parts, Unbalanced, cut, display_width, lines_of, made
from byref_sandbox.tabletext.result import MAX_TABLES, NotATable, Row, Table, too_many

_MAX_BYTES: Final = 32 << 20
_HEAD_BYTES: Final = 64 << 10
"""Bytes in which the names are looked for, and a rule above or below them."""
_MAX_PREAMBLE: Final = 8
_MAX_LINE: Final = 4_000
"""Characters of a line; terminals' tables have no longer ones."""
_LEAST_COLUMNS: Final = 3
_LEAST_ROWS: Final = 2
_MANY: Final = 12
"""Lines in which it is no chance that cells have blanks at the same places."""
_JUSTIFIED: Final = 3
"""Lines whose cells end where the names do, before that is taken for no chance."""
_SAMPLED: Final = 60
"""Lines of a table that have to fit before all are read."""
_AROUND: Final = 10
"""Lines that may be in no table; of long tables one for so many rows:"""
_ROWS_FOR_A_LINE: Final = 8
_NAME: Final = re.compile(r"[A-Z%#][A-Z0-9_%#./()-]*")
_TITLED: Final = re.compile(r"[A-Z%#][\w%#./():-]*")
_ALL_TITLED: Final = re.compile(r"[A-Z%#][\w%#./():\x80-\U0010ffff-]*(?:\s+[A-Z%#][\w%#./():\x80-\U0010ffff-]*)+")
_OF_RULES: Final = "-=+ \t─━"
_NAMES_BYTES: Final = 16 << 10
"""Bytes in which names are looked for before any line is read."""
_QUANTITY: Final = re.compile(r"[-+]?\d[\d.,]*(?:[KMGTPEkmgtp]i?[Bb]?|B|%|[smhdwy]|ms|µs)?(?:\d+[smhd])*")
_RULE: Final = re.compile(r"\s*(?:[-=]+)(?:\s+[-=]+)*\s*")
_SOLID: Final = re.compile(r"\s*(?:-{3,}|={3,}|─{3,}|━{3,})\s*")
"""A rule without gaps, below the names or below the last record."""
_RULES: Final = tuple("-=+─━")
"""What rules begin with."""
_DPKG_RULE: Final = re.compile(r"\+\+\+(?:-=+)+")
"""A rule whose gaps are hyphens: what `dpkg -l` writes."""
_NO_QUANTITY: Final = ("", "-", "--", "unlimited", "<none>", "none", "None", "n/a", "N/A", "NaN", "NaT", "<NA>")
"""What stands where a quantity would."""
_PHRASES: Final = frozenset(
    {("Local", "Address"), ("Peer", "Address"), ("Address:Port", "Process"), ("Foreign", "Address"), ("Mounted", "on")}
)
"""Names of two words, of programs whose other names have one blank between them."""
_OCCUPIED: Final = bytes(not chr(code).isspace() for code in range(256))
_words: Final = re.compile(r"\S+").finditer
_LIST: Final = re.compile(r"\s*(?:[-*•>#]|\d+[.)])\s")


class Cutting(NamedTuple):
    """A way to cut a line into cells."""

    way: Literal["words", "first words", "places"]
    places: tuple[int, ...] = ()
    """Where a terminal shows the second cell, the third, …; of the way `first words` only how many cells there are."""

    def cells(self, line: str) -> list[str] | None:
        """Return the cells of a line; None if it does not have as many."""
        if self.way == "words":
            return line.split()
        if self.way == "places":
            return [cell.strip() for cell in cut(line, self.places)]
        cells = line.rstrip().split(None, self.places[0] - 1)
        return cells if len(cells) == self.places[0] else None


def recognise(data: bytes) -> tuple[Table, ...] | NotATable | None:
    """Read such a text; None if its first lines do not look like it."""
    if len(data) > _MAX_BYTES or not _may_have_names(data[:_NAMES_BYTES]):
        return None
    head = list(islice(lines_of(data, stop=min(_HEAD_BYTES, len(data))), _MAX_PREAMBLE + 3))
    at = _header(head)
    if at is None:
        return None
    if len(head) > at + 1 and _is_rule(head[at + 1].text):
        ruled = _ruled(data, head, at, head[at + 1])
        if not isinstance(ruled, NotATable):
            return ruled
        found = _read(data, head, at)  # the rule may be below the names alone
        return found if found is not None else ruled
    if _RULE.fullmatch(head[at].text) and len(head) > at + 2 and _RULE.fullmatch(head[at + 2].text):
        return _ruled(data, head, at + 1, head[at])
    return _read(data, head, at)


def _may_have_names(head: bytes) -> bool:
    """Whether a line of the first ones may name columns, or is a rule; in most text none is, which is seen much sooner than by `_header`."""
    if b"\x1b" in head:
        return True
    lines = str(head, "utf-8", "replace").split("\n", _MAX_PREAMBLE + 3 + _JUSTIFIED)
    for at, line in enumerate(lines[: _MAX_PREAMBLE + 3]):
        text = line.strip()
        if "  " in text or (text and not text.strip(_OF_RULES)) or _ALL_TITLED.fullmatch(text):
            return True
        if text and _are_justified(lines[at : at + 1 + _JUSTIFIED]):
            return True
    return False


def _are_justified(lines: Sequence[str]) -> bool:
    """Whether words of the next lines end where those of the first do: in no other text than a table do they go on doing so."""
    names, below = lines[0].rstrip(), lines[1:]
    if len(below) < _JUSTIFIED or any(len(line.rstrip()) != len(names) for line in below):
        return False
    ends = {end for _, end in _runs(names)}
    return all(ends <= {end for _, end in _runs(line)} for line in below)


class _Found(NamedTuple):
    """The table of some lines that follow one another."""

    header: Line
    names: list[str]
    body: list[Line]
    """Its records; the same names again, and a rule, are among them."""
    cutting: Cutting


def _read(data: bytes, head: Sequence[Line], at: int) -> tuple[Table, ...] | NotATable | None:
    """Read a text whose parts, each of lines that follow one another, are tables, but for a few lines; names are in line `at`."""
    while at and not head[at - 1].is_blank:
        at -= 1
    beginning = next(_sections(lines_of(data[:_HEAD_BYTES], head[at].start, head[at].number)))
    if _found(beginning[:_SAMPLED]) is None:
        return None
    tables: list[Table] = []
    start = around = rows = 0
    try:
        for section in _sections(lines_of(data)):
            found = _found(section)
            if found is None:
                around += len(section)
                if around > _AROUND + max(_AROUND * bool(tables), rows // _ROWS_FOR_A_LINE):
                    return None
                continue
            if len(tables) == MAX_TABLES:
                return too_many(section[0].number)
            tables.append(_made(data, start, found))
            around += len(section) - len(found.body) - 1
            rows += tables[-1].rows
            start = found.body[-1].end
    except Unbalanced:
        return None
    if rows < _LEAST_ROWS or around > max(_AROUND, rows // _ROWS_FOR_A_LINE):
        return None
    parts = Parts()
    for part in tables[-1].parts:
        parts.add(*part)
    rest = data[start:]
    parts.add("footer" if rest.strip() else "blank", start, len(data))
    tables[-1] = replace(tables[-1], parts=tuple(parts.made))
    return tuple(tables)


def _sections(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the lines between blank ones; other names below a table, as netstat has them, begin another section."""
    section: list[Line] = []
    names: Line | None = None
    title = ""
    for line in lines:
        if line.is_blank:
            if section:
                yield section
            section, names = [], None
            continue
        if names is None and len(section) <= _MAX_PREAMBLE and (at := _header([*section, line])) is not None:
            names, title = line, section[at - 1].text if at else ""
        elif names is not None and line.text != names.text and _begins_alike(line.text, names.text):
            before = section.pop() if title and _begins_alike(title, section[-1].text) else None
            yield section
            section, names = [before] if before else [], line
        section.append(line)
    if section:
        yield section


def _begins_alike(text: str, names: str) -> bool:
    """Whether a line begins with the first word of names, and has no value."""
    return text.split(None, 1)[:1] == names.split(None, 1)[:1] and all(kind_of(word) == "text" for word in text.split())


def _found(section: list[Line]) -> _Found | None:
    """Return the table that these lines are, all from the names on; None if they are none."""
    at = _header(section[: _MAX_PREAMBLE + 3])
    if at is None:
        return None
    header = section[at].text.removesuffix(" \\")  # pandas breaks wide tables there
    body = section[at + 1 :]
    header, index = _with_index(header, [line.text for line in body[:2]])
    if index:
        body = body[1:]
    if body and _SOLID.fullmatch(body[0].text):
        body = [body[0], *takewhile(lambda line: not _SOLID.fullmatch(line.text), body[1:])]
    is_solid = bool(body) and _SOLID.fullmatch(body[0].text) is not None
    is_ruled = bool(body) and _is_rule(body[0].text)
    below = [line.text for line in body[is_ruled or is_solid :]]
    rows = [line for line in below if line != header]
    if not rows or max(map(len, rows)) > _MAX_LINE or not _are_pages(below, header):
        return None
    for way in (_by_words, _by_ends, _by_gutters, _by_first_words):
        found = way(header, rows)
        if found is not None:
            names, cutting = found
            if len(rows) == 1 and cutting.way == "first words":
                return None  # any line of so many words has these
            if at and _is_alike(section[at - 1].text, header, cutting):
                return None  # it may be a record, and the names above it
            if index and not _is_full(cutting, index, rows):
                return None  # what is repeated is not there
            is_wide = len(names) >= _LEAST_COLUMNS or (way is _by_ends and len(rows) >= _MANY)
            if is_wide and (is_ruled or _is_evident(names, rows, cutting)):
                return _Found(section[at], names, body, cutting)
    return None


def _are_pages(lines: Sequence[str], names: str) -> bool:
    """Whether the names come again above pages of as many rows, if at all: otherwise they are a record like the others."""
    places = [-1, *(at for at, line in enumerate(lines) if line == names), len(lines)]
    *pages, last = [after - before - 1 for before, after in pairwise(places)]
    return not pages or (pages[0] > 1 and {*pages} == {pages[0]} and last <= pages[0])


def _is_alike(line: str, names: str, cutting: Cutting) -> bool:
    """Whether a line has a word in each column."""
    if cutting.way == "places":
        is_cut = any(line[place - 1 : place].strip() for place in cutting.places)
        return not is_cut and all(map(str.strip, cut(line, cutting.places)))
    words, columns = _runs(line), _runs(names)
    return len(words) == len(columns) and all(
        begin < stop and start < end for (begin, end), (start, stop) in zip(words, columns, strict=True)
    )


def _with_index(header: str, below: Sequence[str]) -> tuple[str, int]:
    """Return the line of names with those of pandas' index in it, which it has in the line below, and where they end; else 0."""
    begin = len(header) - len(header.lstrip())
    names = below[0].rstrip() if len(below) == 2 else ""
    width = display_width(names)
    if (
        not names
        or width > begin
        or len(below[1].rstrip()) <= begin
        or any(kind_of(word) != "text" for word in names.split())
    ):
        return header, 0
    return names + " " * (begin - width) + header[begin:], begin


def _is_full(cutting: Cutting, index: int, rows: Sequence[str]) -> bool:
    """Whether each row has a cell in all columns that begin before a place, if they are several."""
    count = 1 + sum(place < index for place in cutting.places)
    return count == 1 or all(all((cutting.cells(row) or [""])[:count]) for row in rows)


_PADDED: Final = re.compile(r"(?:[^,]*[^,\s],(?=[ \t]))+[^,]*|(?:[^;]*[^;\s];(?=[ \t]))+[^;]*")
"""Names with a delimiter and blanks behind each: delimited text that is padded."""


def _header(head: Sequence[Line]) -> int | None:
    """Which of the first lines names columns; None if none does."""
    for at, line in enumerate(head[: _MAX_PREAMBLE + 1]):
        words = line.text.split()
        below = head[at + 1].text if at + 1 < len(head) else ""
        is_ruled = below.lstrip()[:1] in _RULES  # of most texts it is not, and nothing is matched
        if len(words) > 1 and (
            (words[0][0] in _RULES and _RULE.fullmatch(line.text))
            or (is_ruled and _RULE.fullmatch(below) and len(below.split()) == len(words))
            or (is_ruled and _DPKG_RULE.fullmatch(below))
        ):
            return at
        is_justified = len(words) > 1 and _are_justified([one.text for one in head[at : at + 1 + _JUSTIFIED]])
        if (
            len(words) < _LEAST_COLUMNS - line.text.startswith("  ") and not is_justified
        ):  # the first one may have no name
            continue
        if "\t" in line.text.strip():
            continue  # what stands between tabs may have blanks
        if line.text.rstrip()[-1] in ".,;:?!" or _LIST.match(line.text):
            continue
        if not (
            (is_ruled and (_RULE.fullmatch(below) or _SOLID.fullmatch(below)))
            or "  " in line.text.strip()
            or all(map(_TITLED.fullmatch, words))
            or is_justified
        ):
            continue
        if "-" in words:
            continue  # which stands where a record has no value
        if all(kind_of(word) == "text" and not _QUANTITY.fullmatch(word) for word in words):
            return None if _PADDED.fullmatch(line.text.strip()) else at
    return None


def _is_rule(text: str) -> bool:
    return _DPKG_RULE.fullmatch(text) is not None or (len(text.split()) > 1 and _RULE.fullmatch(text) is not None)


def _made(data: bytes, start: int, found: _Found) -> Table:
    """Make the table whose parts begin at `start`."""
    header, body = found.header, found.body
    parts = Parts()
    parts.add("preamble" if data[start : header.start].strip() else "blank", start, header.start)
    parts.add("header", header.start, body[0].start)
    again = 0
    if _is_rule(body[0].text) or _SOLID.fullmatch(body[0].text):
        parts.add("rule", body[0].start, body[0].end)
        body = body[1:]
    for line in body:
        if line.text == header.text:
            again += 1
            parts.add("header", line.start, line.end)
        else:
            parts.add("records", line.start, line.end)
    how = Aligned(body[0].start, body[0].number, body[-1].end, found.cutting, header.text if again else "")
    notes = [f"the names come again {again:,} {'time' if again == 1 else 'times'}"] if again else []
    return made("aligned", found.names, len(found.names), parts, how, data, notes=notes, may_wrap=True)


class Aligned(msgspec.Struct, frozen=True, tag="aligned"):
    """Where the lines of aligned columns are, and how they are cut."""

    start: int
    number: int
    """That of the first line."""
    end: int
    cutting: Cutting
    repeats: str = ""
    """The line of names, if it comes again between the records."""

    def rows(self, source: bytes, names: Sequence[str]) -> Iterator[Row]:
        """Read the records once more."""
        for line in lines_of(source[: self.end], self.start, self.number):
            if self.repeats and line.text == self.repeats:
                continue
            cells = self.cutting.cells(line.text)
            if cells is None:
                raise Unbalanced("the line does not fit the columns", line)
            yield cells


def _is_evident(names: list[str], body: Sequence[str], cutting: Cutting) -> bool:
    """Whether this is no text that happens to have gaps: a column of quantities, or names in capitals."""
    rows = [cells for line in body[:200] if (cells := cutting.cells(line)) is not None]
    for column in range(len(names)):
        cells = [row[column] for row in rows if row[column] not in _NO_QUANTITY]
        if (len(cells) > 1 or len(cells) == len(rows)) and all(
            _QUANTITY.fullmatch(cell) or kind_of(cell) != "text" for cell in cells
        ):
            return True
    is_loud = all(_NAME.fullmatch(word) for name in names for word in name.split())
    return is_loud and cutting.way != "first words" and len(rows) > 1


# The ways to cut


def _by_words(header: str, body: Sequence[str]) -> tuple[list[str], Cutting] | None:
    names, runs = header.split(), _runs(header)
    if any(len(line.split()) != len(names) or _has_gap(runs, line) for line in body):
        return None
    return names, Cutting("words")


def _by_ends(header: str, body: Sequence[str]) -> tuple[list[str], Cutting] | None:
    ends = [end for _, end in _runs(header)]
    filled: set[int] = set()
    if len(body) < _JUSTIFIED or any("\t" in line for line in (header, *body)):
        return None
    for line in body:
        last: dict[int, int] = {}
        for begin, end in _runs(line):
            at = bisect_left(ends, end)
            if at == len(ends) or (at and begin <= ends[at - 1]):
                return None  # beyond the last name, or across the end of another
            if begin > last.get(at, begin) + 1:
                return None  # two cells, of which one has no name
            last[at] = end
        if any(end != ends[at] for at, end in last.items()):
            return None
        filled.update(last)
    if len(filled) < len(ends):
        return None  # a name of two words, say
    return header.split(), Cutting("places", tuple(ends[:-1]))


def _by_first_words(header: str, body: Sequence[str]) -> tuple[list[str], Cutting] | None:
    names, runs = header.split(), _runs(header)
    count = len(names)
    if any(len(line.split(None, count - 1)) != count or _has_gap(runs, line) for line in body):
        return None
    return names, Cutting("first words", (count,))


def _has_gap(names: Sequence[tuple[int, int]], line: str) -> bool:
    """Whether a word does not stand where its name does, though there is room: by its words, the line would be shifted."""
    ended = 0
    for number, ((begin, _), (begins, ends)) in enumerate(zip(names, _runs(line.expandtabs()), strict=False)):
        following = names[number + 1][0] if number + 1 < len(names) else None
        if ends < begin or (following is not None and begins >= following and ended <= begin):
            return True
        ended = ends
    return False


def _runs(text: str) -> list[tuple[int, int]]:
    """Where a terminal shows the words of a line: the first column of each, and the one behind it."""
    if text.isascii():
        return [found.span() for found in _words(text)]
    runs, shown = [], 0
    for piece in re.split(r"(\s+)", text):
        width = display_width(piece)
        if piece and not piece.isspace():
            runs.append((shown, shown + width))
        shown += width
    return runs


class _Segment(NamedTuple):
    """Columns of the terminal between two that are blank in every line."""

    start: int
    end: int
    name: str
    has_cells: bool


def _by_gutters(header: str, body: Sequence[str]) -> tuple[list[str], Cutting] | None:
    if "\t" in header or any("\t" in line for line in body):
        return None
    words = _runs(header)
    segments = _segments(header, body)
    columns: list[list[_Segment]] = []
    waiting: list[_Segment] = []
    """Segments without a name, which belong to the column before or behind them."""
    for segment in segments:
        if not segment.name:
            waiting.append(segment)
            continue
        if waiting:
            side = _side(columns[-1] if columns else None, waiting, segment, words, is_many=len(body) >= _MANY)
            if side is None:
                return None
            if side == "own":
                columns.append(waiting)
            elif side == "before":
                columns[-1] += waiting
            columns.append([*waiting, segment] if side == "behind" else [segment])
            waiting = []
        else:
            columns.append([segment])
    if not columns:
        return None
    if waiting and _begin(columns[-1], words) > columns[-1][0].start:
        return None  # more cells, behind a last column whose cells are at the right
    columns[-1] += waiting
    gaps = [
        (_begin(other, words) - _stop(one, words), other[0].start - one[-1].end)
        for one, other in pairwise(columns)
        if _name(one) and _name(other) and one[-1].has_cells and other[0].has_cells
    ]
    is_close = any(names == 1 for names, _ in gaps)
    if is_close and len(gaps) > 2 and sum(cells == 1 for _, cells in gaps) == 1:
        ends = next(other[-1].end for one, other in pairwise(columns) if other[0].start - one[-1].end == 1)
        if not all(any(end == ends for _, end in _runs(line)) for line in (header, *body)):  # not at the right
            return None  # two words of one name, each above words of the same cells
    kept: list[list[_Segment]] = []
    joins = False
    for at, column in enumerate(columns):
        name = _name(column)
        is_empty = not any(segment.has_cells for segment in column)
        gap = _begin(column, words) - _stop(columns[at - 1], words) if at and _name(columns[at - 1]) and name else 0
        if joins or (is_empty and gap == 1 and (not is_close or name[0].islower())):
            kept[-1] += column
        else:
            kept.append(column)
        joins = False
        if is_empty and kept[-1] is column and at + 1 < len(columns):
            following = columns[at + 1]
            is_next = _begin(following, words) - _stop(column, words) == 1
            joins = is_next and (not is_close or (name, _name(following).split(":")[0]) in _PHRASES)
            if is_next and not joins and _name(following)[0].islower():
                return None  # two words of one name, or the name of a column without cells
    names = [_name(column) for column in kept]
    if len(kept) < 2 or not all(names[1:]) or any("  " in name for name in names):
        return None
    cutting = Cutting("places", tuple(column[0].start for column in kept[1:]))
    if is_close and any(_may_be_two(name) for name in names):
        several = [at for at, name in enumerate(names) if _may_be_two(name)]
        for line in body:
            cells = cutting.cells(line) or ()
            if any(len(cells[at].split()) > 1 for at in several):
                return None  # it is not known where one column ends and the next begins
    return names, cutting


def _segments(header: str, body: Sequence[str]) -> list[_Segment]:
    cells = _occupied(body)
    above = _occupied([header])
    width = max(len(cells), len(above))
    both = bytes(map(int.__or__, cells.ljust(width, b"\0"), above.ljust(width, b"\0")))
    return [
        _Segment(
            found.start(),
            found.end(),
            cut(header, found.span())[1].strip(),
            b"\1" in cells[found.start() : found.end()],
        )
        for found in re.finditer(b"\1+", both)
    ]


def _occupied(lines: Sequence[str]) -> bytes:
    """For each column of the terminal, whether any line has something there."""
    taken = 0
    for line in lines:
        if line.isascii():
            taken |= int.from_bytes(line.encode().translate(_OCCUPIED), "little")
        else:
            for start, end in _runs(line):
                taken |= int.from_bytes(b"\1" * (end - start), "little") << 8 * start
    return taken.to_bytes((taken.bit_length() + 7) // 8, "little")


def _name(column: list[_Segment]) -> str:
    return " ".join(segment.name for segment in column if segment.name)


def _begin(column: list[_Segment], words: list[tuple[int, int]]) -> int:
    """Where the name of a column begins."""
    return next(start for start, end in words if end > column[0].start)


def _stop(column: list[_Segment], words: list[tuple[int, int]]) -> int:
    """Where the name of a column ends."""
    return next(end for start, end in reversed(words) if start < column[-1].end)


def _side(
    before: list[_Segment] | None,
    segments: list[_Segment],
    behind: _Segment,
    words: list[tuple[int, int]],
    *,
    is_many: bool,
) -> Literal["before", "behind", "own"] | None:
    """Which column segments without a name belong to: one whose name is at their side; None if both may be."""
    gap_behind = behind.start - segments[-1].end
    if before is None:
        return "own" if gap_behind > 1 else "behind"
    gap_before = segments[0].start - before[-1].end
    is_left = _begin(before, words) == before[0].start
    is_right = _stop([behind], words) == behind.end
    if is_left != is_right:
        return "before" if is_left else "behind"
    if (
        is_many
    ):  # a name as wide as its cells is at either side, and cells with the same blanks in each of few lines are chance
        is_left = is_left and _stop(before, words) < before[-1].end
        is_right = is_right and _begin([behind], words) > behind.start
        if is_left != is_right:
            return "before" if is_left else "behind"
    if gap_before == gap_behind:
        return None
    return "before" if gap_before < gap_behind else "behind"


def _may_be_two(name: str) -> bool:
    """Whether a name of several words may be those of several columns."""
    words = name.split()
    return len(words) > 1 and not all(
        word[0].islower() or (before, word.split(":")[0]) in _PHRASES for before, word in pairwise(words)
    )


def _ruled(data: bytes, head: Sequence[Line], at: int, rule: Line) -> tuple[Table, ...] | NotATable | None:
    """Read tables whose rules say where their columns begin."""
    tables: list[Table] = []
    end = 0
    while end < len(data):
        if len(tables) == MAX_TABLES:
            return too_many(rule.number)
        table = _below_rule(data, end, head, at, rule)
        if table is None or isinstance(table, NotATable):
            return table
        tables.append(table)
        end = table.parts[-1].end
        number = rule.number + data.count(b"\n", rule.start, end)
        head = list(islice(lines_of(data, end, number), 3))
        if head and (len(head) < 3 or not _is_rule(head[2].text)):
            return NotATable("the rule is not that of another table", number)
        rule, at = head[0] if head else rule, 1
    return tuple(tables)


def _below_rule(data: bytes, start: int, head: Sequence[Line], at: int, rule: Line) -> Table | NotATable | None:
    """Read a table, from `start` up to the end of the text or to the rule above the next one."""
    begins = [found.start() for found in re.finditer(r"[=+]+" if "+" in rule.text else r"[-=]+", rule.text)]
    places = tuple(begins[1:])
    header = head[at]
    names = [name.strip() for name in cut(header.text, places)]
    first = begins[0]
    if header.text[:first].strip() or len(names) != len(begins) or len(begins) < 2:
        return None
    below = head[at + 1]
    parts = Parts()
    top = rule if rule.number < header.number else header
    parts.add("preamble", start, top.start)
    if top is rule:
        parts.add("rule", rule.start, rule.end)
    parts.add("header", header.start, header.end)
    parts.add("rule", below.start, below.end)
    closes = top is rule
    stop = below.end
    is_closed = is_over = False
    for line in lines_of(data, below.end, below.number + 1):
        if is_closed and _is_rule(line.text):
            break
        rows = line.number - below.number - 1
        # psql writes no blank line above the count, but one below it.
        is_over |= line.text in (f"({rows} rows)", "(1 row)" * (rows == 1)) and data[line.end : line.end + 1] == b"\n"
        if is_over or line.is_blank:
            is_over = True
            parts.add("blank" if line.is_blank else "footer", line.start, line.end)
            if not (line.is_blank or is_closed or COUNTS.match(line.text)):
                return NotATable(
                    "the line is behind a blank one below the table, and no count of its rows", line.number
                )
        elif closes and _RULE.fullmatch(line.text):
            parts.add("rule", line.start, line.end)
            is_closed = is_over = True
        else:
            if any(line.text[place - 1 : place].strip() for place in places) and line.text.isascii():
                return NotATable("a cell is where the rule has a gap", line.number)
            parts.add("records", line.start, line.end)
            stop = line.end
    footer = sum(part.end - part.start for part in parts.made if part.kind == "footer")
    if stop == below.end or footer > max(400, stop - start):
        return None
    how = Aligned(below.end, below.number + 1, stop, Cutting("places", places))
    return made("aligned", names, len(names), parts, how, data, may_wrap=True)
