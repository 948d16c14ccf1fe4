"""Records one below another, a member on each line, as `psql -x` and `mysql -E` write them.

psql marks where a value goes on in the next line. mysql does not: there a line is a member's if its name ends where those of the first
record do, and any other is of the value above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from byref_sandbox.tabletext.lines import (
    COUNTS,
    MAX_AROUND,
    Line,
    Parts,
    Unbalanced,
    cut,
    display_width,
    lines_of,
    made,
)
from byref_sandbox.tabletext.result import MAX_TABLES, NotATable, Row, Table, too_many, unique_names

_BEGINS: Final = re.compile(r"[-+\u2500-\u257f]{1,2}\[ RECORD (\d+) \][-+\u2500-\u257f]*|\*{10,} (\d+)\. row \*{10,}")
_BARS: Final = "|│║"
_FRAMED: Final = "+┌├╔╠╓╟╒╞"
"""What the line above a record begins with where bars are at both ends of its members."""
_MEMBER: Final = re.compile(r"\s*(|[^\s|│║].*?)\s+([|│║]) ?(.*)")
_LAST: Final = re.compile(r"[└╚╙╘+][-─═┴╧╨╩+]*[┘╝╜╛+]")
_CONTINUED: Final = ("+", "↵")
_MYSQL_COUNT: Final = re.compile(r"\d+ rows? in set\b.*")
_FIRST: Final = 2_048
"""Bytes in which the first record begins."""

_Members = list[tuple[str, list[str]]]
"""The names of members, and the lines of their values."""


def recognise(data: bytes) -> tuple[Table, ...] | NotATable | None:
    """Read such a text, a table for each result; None if it does not begin so."""
    head = data[:_FIRST]
    if b"RECORD 1 ]" not in head and b" 1. row *" not in head:
        return None
    if not any(_BEGINS.fullmatch(line.text) for line in lines_of(head)):
        return None
    tables: list[Table] = []
    end, number = 0, 1
    try:
        while end < len(data):
            if len(tables) == MAX_TABLES:
                return too_many(number)
            start, before = end, number
            parts, number = _parts(data, start, before)
            end, how = parts.made[-1].end, _between(parts)
            number_of_first = before + data.count(b"\n", start, how.start)
            names, records, members, further = dict[str, None](), 0, 0, 0
            for record in _records(data, how, number_of_first):
                names.update(dict.fromkeys(name for name, _ in record))
                records, members = records + 1, members + len(record)
                further += sum(len(lines) - 1 for _, lines in record)
            if records * len(names) > 1_000_000 + members * 20:
                return NotATable(
                    f"its {records:,} records have {len(names):,} different members, few of them in common"
                )
            is_told = further and data.startswith(b"*", how.start)
            notes = [f"lines of the values above them, which begin no member: {further:,}"] if is_told else []
            tables.append(made("expanded", list(names), len(names), parts, how, data, notes=notes))
    except Unbalanced as unbalanced:
        return unbalanced.problem
    return tuple(tables)


def _parts(data: bytes, start: int, number: int) -> tuple[Parts, int]:
    """The parts of the result that begins at `start`, and the number of the line behind it."""
    parts, blank = Parts(), Parts()
    is_mysql = begun = ended = False
    around = 0
    for line in lines_of(data, start, number):
        begins = _BEGINS.fullmatch(line.text)
        if begins and begun and (begins[1] or begins[2]) == "1":
            break
        if begins and not ended:
            begun, is_mysql = True, line.text[0] == "*"
        elif begins:
            raise Unbalanced("the record is below the end of the others", line)
        is_outside = ended or not begun
        if is_mysql and not is_outside and line.is_blank:
            blank.add("blank", line.start, line.end)  # of a value, if anything follows
            number = line.number + 1
            continue
        for _, begin, stop in blank.made:
            parts.add("records", begin, stop)
        blank = Parts()
        if begins or (is_mysql and not is_outside and not _MYSQL_COUNT.fullmatch(line.text)):
            parts.add("records", line.start, line.end)
        elif line.is_blank:
            ended = begun
            parts.add("blank", line.start, line.end)
        elif not is_outside and _LAST.fullmatch(line.text):
            parts.add("rule", line.start, line.end)
        elif _MEMBER.fullmatch(line.text) or not (is_outside or COUNTS.match(line.text)):
            if is_outside or not any(bar in line.text for bar in _BARS):
                raise Unbalanced("the line is no member of a record", line)
            parts.add("records", line.start, line.end)
        else:
            ended, around = begun, around + 1
            if around > MAX_AROUND:
                raise Unbalanced("too many lines are around the records", line)
            parts.add("footer" if begun else "preamble", line.start, line.end)
        number = line.number + 1
    for part in blank.made:
        parts.add(*part)
    return parts, number


def _between(parts: Parts) -> Expanded:
    """Where the records of a result are."""
    records = [part for part in parts.made if part.kind == "records"]
    return Expanded(records[0].start, records[-1].end)


def _records(data: bytes, how: Expanded, number: int = 1) -> Iterator[_Members]:
    """The members of each record, each name another; `number` is that of the first line."""
    records = _mysql if data.startswith(b"*", how.start) else _psql
    for record in records(lines_of(data, how.start, number, how.end)):
        names = [name.strip() for name, _ in record]
        if len(set(names)) < len(names):
            names = list(unique_names(names, len(names)))
        yield [(name, lines) for name, (_, lines) in zip(names, record, strict=True)]


def _psql(lines: Iterator[Line]) -> Iterator[_Members]:
    record: _Members = []
    is_framed, begun, place = False, False, 0
    for line in lines:
        text = line.text
        if _BEGINS.fullmatch(text):
            if begun:
                yield record
            record, is_framed, begun = [], text[0] in _FRAMED and text[1] != "[", True
            continue
        if _LAST.fullmatch(text):
            continue
        if is_framed:
            text = text.strip()
            if text[:1] not in _BARS or text[-1:] not in _BARS:
                raise Unbalanced("the member does not end with a bar", line)
            text = text[1:-1].rstrip()
        found = _MEMBER.fullmatch(text)
        if found is None:
            raise Unbalanced("the line is no member of a record", line)
        name, value = found[1], found[3]
        bar = display_width(text[: found.start(2)])
        place = place if record else bar
        if bar != place:
            raise Unbalanced("the bar of the member is not below that of the first one", line)
        if name:
            record.append((name, [value]))
        elif record and record[-1][1][-1].endswith(_CONTINUED):
            of_value = record[-1][1]
            of_value[-1] = of_value[-1][:-1].rstrip()
            of_value.append(value)
        else:
            raise Unbalanced("the member has no name", line)
    yield record


def _mysql(lines: Iterator[Line]) -> Iterator[_Members]:
    record: _Members = []
    names: list[str] = []
    begun, width = False, -1
    """Where a terminal shows the colons behind the names."""
    for line in lines:
        if _BEGINS.fullmatch(line.text):
            if begun:
                names = _checked(record, names, line)
                yield record
            record, begun = [], True
            continue
        if width < 0:
            width = display_width(line.text.partition(":")[0])
        name, value = cut(line.text, (width,))
        if name.strip() and not name[-1].isspace() and (value == ":" or value.startswith(": ")):
            record.append((name, [value[2:]]))
        elif record:
            record[-1][1].append(line.text)
        else:
            raise Unbalanced("the line is no member of a record", line)
    _checked(record, names, line)
    yield record


def _checked(record: _Members, names: list[str], line: Line) -> list[str]:
    """Return the names of the record above a line; raise Unbalanced if they are not those of the first one."""
    found = [name for name, _ in record]
    if names and found != names:
        raise Unbalanced("the record above does not have the members of the first one", line)
    if not names and any(len(lines) > 1 for _, lines in record) and all(name[0].isspace() for name in found):
        raise Unbalanced("no name in the record above is as long as they are wide", line)
    return found


class Expanded(msgspec.Struct, frozen=True, tag="expanded"):
    """Where records with a member on each line are; from the first one on, if that is not known."""

    start: int = 0
    end: int = 0

    def rows(self, source: bytes, names: Sequence[str]) -> Iterator[Row]:
        """Read the members of these names of each record once more."""
        for record in _records(source, self if self.end else _between(_parts(source, 0, 1)[0])):
            members = {name: "\n".join(lines) for name, lines in record}
            yield [members.get(name) for name in names]
