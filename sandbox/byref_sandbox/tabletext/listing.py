"""Files one on each line, as `ls -l`, `find -ls` and `tar -tv` list them: no line names their columns, but all begin alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from byref_sandbox.tabletext.lines import Line, Parts, Unbalanced, lines_of, made
from byref_sandbox.tabletext.result import NotATable, Row, Table

_MAX_BYTES: Final = 32 << 20
_HEAD_BYTES: Final = 4 << 10
_LEAST_ROWS: Final = 2
_MODE: Final = r"(?P<mode>[-?bcCdDlMnpPs][-r][-w][-xsStT][-r][-w][-xsS][-r][-w][-xtT][.+@]?)"
_OF_MODES: Final = (b"rw", b"r-", b"--", b"-w")
"""Of which each mode has one."""
_ENDS: Final = (b":", b"m", b"K")
"""What the name of a directory ends with; it may have a colour."""
_OF_DAYS: Final = (
    r"(?P<modified>[^\W\d]{3,5}\.? +\d{1,2} +(?:\d\d:\d\d|\d{4})|\d{1,2}\.? [^\W\d]{3,5}\.? +(?:\d\d:\d\d|\d{4})"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d(?:\.\d+)?(?: [+-]\d{4})?)?|\d\d-\d\d \d\d:\d\d)"
)
_LS: Final = re.compile(
    rf" *(?:(?P<inode>\d+|\?) +)?(?:(?P<blocks>[\d.,]+[KMGTPE]?|\?) +)?{_MODE} +(?P<links>\d+|\?) +(?P<owner>\S+) +(?P<group>\S+) +"
    rf"(?P<size>\d[\d.,]*[KMGTPE]?|\d+, *\d+|\?) +{_OF_DAYS} (?P<name>.+)"
)
_TAR: Final = re.compile(
    rf"{_MODE} (?P<owner>[^\s/]+)/(?P<group>\S+) +(?P<size>\d+|\d+,\d+) (?P<modified>\d{{4}}-\d\d-\d\d \d\d:\d\d(?::\d\d)?) (?P<name>.+)"
)
_TOTAL: Final = re.compile(r"total \d[\d.,]*[KMGTPE]?")
_DIRECTORY: Final = re.compile(r"(.*\S):")


def recognise(data: bytes) -> tuple[Table, ...] | NotATable | None:
    """Read such a text; None if its first lines are no list of files."""
    if len(data) > _MAX_BYTES:
        return None
    first = data[:_HEAD_BYTES].lstrip().partition(b"\n")[0].rstrip()
    if not first.startswith(b"total ") and first[-1:] not in _ENDS and not any(mark in first for mark in _OF_MODES):
        return None
    for line in lines_of(data[:_HEAD_BYTES]):
        if not (line.is_blank or _TOTAL.fullmatch(line.text) or _DIRECTORY.fullmatch(line.text)):
            break
    else:
        return None
    pattern = next((pattern for pattern in (_LS, _TAR) if pattern.fullmatch(line.text)), None)
    if pattern is None:
        return None
    parts, names, directories, rows = Parts(), _names(pattern, line), 0, 0
    for line in lines_of(data):
        if line.is_blank:
            parts.add("blank", line.start, line.end)
        elif pattern.fullmatch(line.text):
            rows += 1
            parts.add("records", line.start, line.end)
        elif _TOTAL.fullmatch(line.text):
            parts.add("preamble", line.start, line.end)
        elif _DIRECTORY.fullmatch(line.text):
            directories += 1
            parts.add("header", line.start, line.end)
    if rows < _LEAST_ROWS:
        return None
    names = (["directory"] if directories else []) + names
    try:
        return (made("listing", None, len(names), parts, Listing(len(data)), data, names),)
    except Unbalanced as unbalanced:
        return unbalanced.problem


def _names(pattern: re.Pattern[str], line: Line) -> list[str]:
    """Name the columns of a line. A number alone before the mode may be an inode or a count of blocks."""
    found = pattern.fullmatch(line.text)
    assert found is not None
    names = [name for name, cell in found.groupdict().items() if cell is not None]
    return ["inode or blocks" if name == "inode" and "blocks" not in names else name for name in names]


class Listing(msgspec.Struct, frozen=True, tag="listing"):
    """Files, with the directory that they are in where the text names several."""

    end: int

    def rows(self, source: bytes, names: Sequence[str]) -> Iterator[Row]:
        """Read the files once more."""
        directory: str | None = None
        pattern: re.Pattern[str] | None = None
        for line in lines_of(source[: self.end]):
            pattern = pattern or next((one for one in (_LS, _TAR) if one.fullmatch(line.text)), None)
            found = None if pattern is None else pattern.fullmatch(line.text)
            if found is not None:
                cells = [cell for cell in found.groups() if cell is not None]
                row = [directory, *cells] if names[0] == "directory" else cells
                if len(row) != len(names):
                    raise Unbalanced("the file has other members than the first", line)
                yield row
            elif named := _DIRECTORY.fullmatch(line.text):
                directory = named[1]
            elif not (line.is_blank or _TOTAL.fullmatch(line.text)):
                raise Unbalanced("the line is no file", line)
