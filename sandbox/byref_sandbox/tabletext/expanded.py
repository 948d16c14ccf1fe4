"""Records one below another, a member on each line, as `psql -x` and `mysql -E` write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from byref_sandbox.tabletext.lines import COUNTS, Parts, Unbalanced, lines_of, made
from byref_sandbox.tabletext.result import NotATable, Row, Table

_PSQL: Final = re.compile(r"-\[ RECORD \d+ \](?:-*\+?-*)|(?:┌─|├─|╔═|╠═|\+-)\[ RECORD \d+ \][-─═┬┼╤╪+]*[┐┤╗╣+]?")
_MYSQL: Final = re.compile(r"\*{10,} \d+\. row \*{10,}")
_MEMBER: Final = re.compile(r"[│|║]?\s*(.*?)\s*(?:\||│|║)\s?(.*?)(?:\s*[│║|])?")
_MYSQL_MEMBER: Final = re.compile(r"\s*(\S[^:]*): ?(.*)")
_LAST: Final = re.compile(r"[└╚+][-─═┴╧+]*[┘╝+]")


def recognise(data: bytes) -> tuple[Table, ...] | NotATable | None:
    """Read such a text; None if it does not begin so."""
    head = data[:2_048]
    if b"RECORD 1 ]" not in head and b" 1. row *" not in head:
        return None
    parts = Parts()
    begun, ended = False, False
    for line in lines_of(data):
        if _PSQL.match(line.text) or _MYSQL.fullmatch(line.text):
            begun = True
            parts.add("records", line.start, line.end)
        elif not begun:
            parts.add("preamble", line.start, line.end)
        elif line.is_blank or ended or COUNTS.match(line.text):
            ended = True
            parts.add("blank" if line.is_blank else "footer", line.start, line.end)
        else:
            parts.add("records", line.start, line.end)
    try:
        names, records, members = dict[str, None](), 0, 0
        for record in _records(data):
            names.update(dict.fromkeys(name for name, _ in record))
            records, members = records + 1, members + len(record)
        if records * len(names) > 1_000_000 + members * 20:
            return NotATable(f"its {records:,} records have {len(names):,} different members, few of them in common")
        return (made("expanded", list(names), len(names), parts, Expanded(), data),)
    except Unbalanced as unbalanced:
        return unbalanced.problem


def _records(data: bytes) -> Iterator[list[tuple[str, str]]]:
    record: list[tuple[str, str]] | None = None
    is_mysql, continues = False, False
    for line in lines_of(data):
        if _PSQL.match(line.text) or _MYSQL.fullmatch(line.text):
            is_mysql = line.text.startswith("*")
            if record is not None:
                yield record
            record = []
        elif record is None:
            continue
        elif line.is_blank or COUNTS.match(line.text):
            break
        elif _LAST.fullmatch(line.text):
            continue
        else:
            found = (_MYSQL_MEMBER if is_mysql else _MEMBER).fullmatch(line.text)
            if found is None:
                raise Unbalanced("the line is no member of a record", line)
            name, value = found[1].strip(), found[2]
            more = not is_mysql and value.endswith(("+", "↵"))
            value = value[:-1].rstrip() if more else value
            if continues and not name:
                record[-1] = (record[-1][0], f"{record[-1][1]}\n{value}")
            elif not name:
                raise Unbalanced("the member has no name", line)
            else:
                record.append((name, value))
            continues = more
    if record is not None:
        yield record


class Expanded(msgspec.Struct, frozen=True, tag="expanded"):
    """Records with a member on each line."""

    def rows(self, source: bytes, names: Sequence[str]) -> Iterator[Row]:
        """Read the members of these names of each record once more."""
        for record in _records(source):
            members = dict(record)
            yield [members.get(name) for name in names]
