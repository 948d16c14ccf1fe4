"""How a text divides its cells, told from its first lines.

Each dialect that may be meant is tried on the first rows. The better one gives more rows of one width, and more cells that are
numbers, dates, single words or nothing: the measure that CleverCSV's authors found (van den Burg, Nazábal and Sutton, "Wrangling messy
CSV files by detecting row and type patterns", 2019), on fewer dialects, and without the texts that prose is cut into.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from byref_sandbox.tabletext.kinds import NUMBERS, kind_of, type_of
from byref_sandbox.tabletext.result import Dialect
from byref_sandbox.tabletext.rows import Line, Reader

DELIMITERS: Final = (",", "\t", ";", "|", ", ", "~", "^", "\x1f", "\x01", ":", " ")
"""What may divide cells, in the order of preference where two do equally well."""
SURE: Final = frozenset(",\t;|\x1f\x01")
"""Delimiters that prose rarely has as often in each line."""
WEAK: Final = frozenset(" :")
"""Delimiters that any text has: there a header has to name the columns, or every cell has to be a number."""
SAMPLE_BYTES: Final = 64 << 10
SAMPLE_ROWS: Final = 120
LONGEST_LINE: Final = 1 << 19
"""Bytes of a first line, up to which four lines are taken for the sample."""
_FIRST_BYTES: Final = 4 << 10
_FIRST_LINES: Final = 48
"""What a delimiter is looked for in before anything is read."""
_LEAST_SHARE: Final = 0.5
"""How many of these lines have to have it equally often."""

_MARKS: Final = tuple((delimiter, delimiter.encode()) for delimiter in DELIMITERS)
_OPENING: Final = tuple(f"{mark}'".encode() for mark in ",\t;|~^\x1f\x01: \r\n")
"""Where single quotes stand around cells; in words they are apostrophes."""
_QUOTED: Final = (
    re.compile(  # a quote comes first, so that the others are skipped fast; what is before it is looked at then
        rb"""(?:"(?<![^,\t;|~^\x1f\x01: \r\n]")[^"]*(?:""[^"]*)*"|'(?<![^,\t;|~^\x1f\x01: \r\n]')[^'\r\n]*')"""
        rb"""(?![^,\t;|~^\x1f\x01: \r\n"'])"""
    )
)
_OPEN: Final = re.compile(rb'"(?:(?<=[,\t;|\r\n]")|(?<=\A"))[^"]*(?:""[^"]*)*\Z')
"""A quoted cell without an end."""
_WORD: Final = re.compile(
    r"""[\w.+-]+@[\w-]+\.[\w.-]+ | https?://\S+ | (?:\d{1,3}\.){3}\d{1,3}(?::\d+)?
    | [-+]?[$€£¥]?\s?\d[\d.,' ]*\s?[%$€£¥]? | \d{1,2}:\d\d(?::\d\d)? | \d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.]+Z?)?
    | [\w./+-]{1,40} | [nN]/[aA] | [-?.*]""",
    re.VERBOSE,
)


FEW_COLUMNS: Final = 3
LONG_CELLS: Final = 0.5
"""Cells of more than three words that each row may have on the average, if there are so few columns and no names."""
_LEAST_ROWS: Final = 8
"""Rows from which it is seen early that they are prose."""
_MAX_HEADER: Final = 3
_LEAST_ALIKE: Final = 0.9
"""How many rows have as many cells as the names, where a weak delimiter would divide all of them alike."""
_VALUE: Final = re.compile(rb"\s*[-+$]?[.,]?[0-9]|\s*\Z")
"""How cells begin that may be values."""
_NO_NAME: Final = re.compile(rb"^(?: {2}|\t|[-*#>])|[.:;{(\[]\s*$")
"""What the names of columns do not begin or end with."""
_BLANKS: Final = 6
"""Blanks in the longest cell that is known: a number with groups of digits."""


class Found(NamedTuple):
    """A dialect, and what of the sample's rows speaks for it."""

    dialect: Dialect
    width: int
    """How many cells most rows have."""
    share: float
    """How many of the rows have so many."""
    score: float


def newline_of(data: bytes) -> Literal["\n", "\r"]:
    """What most lines of the beginning end with: see `Dialect.newline`."""
    head = data[:SAMPLE_BYTES]
    if head.count(b"\r") == head.count(b"\r\n"):
        return "\n"
    if b'"' in head:
        head = _QUOTED.sub(b"", head)  # cells may have line ends of another kind
    return "\r" if head.count(b"\r") - head.count(b"\r\n") > head.count(b"\n") else "\n"


def candidates(data: bytes, newline: str, *, force: bool = False) -> list[str]:
    """The delimiters that about as often come in most of the first lines; none for most text that is no table, unless it is known to be one."""
    size = _FIRST_BYTES
    head = data[:size]
    if b'"' in head or head[:1] == b"'" or (b"'" in head and any(mark in head for mark in _OPENING)):
        head = _QUOTED.sub(b"", head)
        if len(data) > size and _OPEN.search(head):
            more = _OPEN.sub(b"", _QUOTED.sub(b"", data[:SAMPLE_BYTES]))
            if (
                more.count(newline.encode()) > 1
            ):  # a cell so long that the beginning cuts it, and no quote that quotes nothing
                size, head = SAMPLE_BYTES, more
    lines = [line for line in head.split(newline.encode())[:_FIRST_LINES] if line.strip(b" \r")]
    if len(data) > size and len(lines) > 1:
        lines.pop()
    if not lines:
        return []
    chosen = []
    for delimiter, mark in _MARKS:
        if mark not in head or (delimiter == ", " and "," not in chosen):
            continue
        least = len(lines) * (_LEAST_SHARE if delimiter in SURE else 0.9)
        if head.count(mark) < least:
            continue
        found = [count for line in lines if (count := line.count(mark))]
        if len(found) < least:
            continue
        # Of few lines, one of another width weighs much.
        share = len(lines) * 0.4 if delimiter in SURE and len(lines) < 24 else least
        counts = set(found)
        if len(found) - len(counts) + 1 < share:
            continue
        most = max(counts, key=found.count)
        if found.count(most) < share:
            continue
        if force or not (
            (delimiter in WEAK and not _may_begin(data, newline, mark)) or _is_prose(lines, mark, most + 1)
        ):
            chosen.append(delimiter)
    return chosen


def _is_prose(lines: list[bytes], mark: bytes, width: int) -> bool:
    """Whether it is seen from the first lines that these are text with commas: few cells, long ones, and no names above them.

    What this leaves is judged by all that a table is judged by; this is for text that would not be one, in a tenth of the time.
    """
    if width > FEW_COLUMNS:
        return False
    split = [line.split(mark) for line in lines]
    rows = [cells for cells in split if len(cells) == width]
    if len(rows) < _LEAST_ROWS:
        return False
    cells = [cell for row in rows for cell in row]
    if sum(cell.count(b" ") > 2 for cell in cells) * width <= len(cells) * LONG_CELLS:
        return False
    for column in range(width):
        if all(_VALUE.match(row[column]) for row in rows[_MAX_HEADER:]):
            return _VALUE.match(rows[0][column]) is not None  # else it may be a name
    if mark[:1] == b"," and sum(cell.count(b" ") > 6 for cell in cells) > len(cells) * 0.4:
        return True
    return not any(len(row) > 1 and _may_be_names(row) for row in split[: split.index(rows[0]) + 1])


def _may_be_names(row: list[bytes]) -> bool:
    return not any(len(cell) > 80 or _NO_NAME.search(cell) or _VALUE.match(cell) for cell in row if cell.strip())


def _may_begin(data: bytes, newline: str, mark: bytes) -> bool:
    """Whether the first line may name columns, as no cell of it is a value, or may be one of a table of numbers alone."""
    line = (
        data[:_FIRST_BYTES].lstrip().partition(newline.encode())[0].removesuffix(b"\r").translate(None, b"\"'")
    )  # R writes names in quotes
    if mark not in line or (mark == b":" and line[:1].isdigit()):
        return False
    cells = line.decode("utf-8", "replace").split(mark.decode())
    if mark == b" " and all(kind_of(cell) in NUMBERS for cell in cells):
        return True
    return all(kind_of(cell) == "text" and not cell[:1].isdigit() for cell in cells if cell.strip())


def detect(data: bytes, *, force: bool = False) -> Found | None:
    """The dialect of delimited text; None if there is none by which its first rows look like those of a table.

    With `force` the text is known to be delimited, and the best dialect is returned, however little speaks for it.
    """
    newline = newline_of(data)
    delimiters = candidates(data, newline, force=force)
    if force and not SURE.intersection(delimiters):
        delimiters = [*DELIMITERS[:4], *delimiters]
    best: dict[bool, Found] = {}  # of weak delimiters, and of the others
    for delimiter in delimiters:
        for dialect in _dialects(data, delimiter, newline):
            found = _judged(data, dialect, force=force)
            before = best.get(delimiter in WEAK)
            if found is not None and (before is None or found.score > before.score * 1.0001):
                best[delimiter in WEAK] = found
    chosen, weak = best.get(False), best.get(True)
    if weak and not (chosen and (weak.score <= chosen.score * 1.0001 or _divides(data, chosen, weak))):
        chosen = weak
    return chosen and chosen._replace(dialect=_with_bare_quotes(data, chosen))


def _divides(data: bytes, found: Found, weak: Found) -> bool:
    """Whether this divides the cells, and what a weak delimiter divides are words inside them.

    The names are divided as the rows are, no fewer columns are of numbers, dates and the like, and if none is, no blanks follow
    the delimiter, as in prose.
    """
    rows, others = sample(data, found.dialect), sample(data, weak.dialect)
    typed = _typed(rows, found.width)
    return (
        len(rows[0]) == found.width
        and found.share >= _LEAST_ALIKE
        and typed * weak.width >= _typed(others, weak.width) * found.width
        and (typed > 0 or not any(cell[:1] == " " for row in rows for cell in row[1:]))
    )


def _typed(rows: list[list[str]], width: int) -> int:
    """How many columns have values below the first row that are all of a type other than text."""
    body = [row for row in rows[1:] if len(row) == width]
    types = (type_of({kind_of(row[column]) for row in body}) for column in range(width))
    return sum(found.name not in ("text", "empty") for found in types)


def _with_bare_quotes(data: bytes, found: Found) -> Dialect:
    """The dialect, without an escape where quotes inside of quoted cells are written just so."""
    quote = found.dialect.quote
    if (
        found.dialect.escape != "doubled"
        or quote is None
        or quote.encode() not in beginning(data, found.dialect.newline)
    ):
        return found.dialect
    unlike, rows = _unlike(data, found.dialect, found.width)
    if unlike <= max(1, rows * 0.1):
        return found.dialect
    bare = replace(found.dialect, escape="none")
    return bare if _unlike(data, bare, found.width)[0] < max(1, rows * 0.1) else found.dialect


def _unlike(data: bytes, dialect: Dialect, width: int) -> tuple[int, int]:
    """How many rows of the sample have quotes that are not as the dialect says, and how many there are."""
    lines = list(_lines(data, dialect, width))
    return sum(not line.is_strict for line in lines), sum(line.cells != [""] for line in lines)


def _dialects(data: bytes, delimiter: str, newline: Literal["\n", "\r"]) -> Iterator[Dialect]:
    head = data[:SAMPLE_BYTES]
    counts = {quote: _quotings(head, delimiter.encode(), quote) for quote in ('"', "'")}
    quotes = [quote for quote, count in counts.items() if count]
    if "'" in quotes and counts["'"] * 2 < counts['"']:
        quotes.remove("'")
    for quote in quotes:
        if b"\\" + quote.encode() in head:
            yield Dialect(delimiter, quote, "backslash", newline)
        yield Dialect(delimiter, quote, "doubled", newline)
    if not quotes:
        yield Dialect(delimiter, '"', "doubled", newline)


def _quotings(head: bytes, mark: bytes, quote: str) -> int:
    """How many cells begin or end with the quote."""
    sign = quote.encode()
    if sign not in head:
        return 0
    opened = sum(head.count(before + sign) for before in (mark, b"\r", b"\n")) + head.startswith(sign)
    closed = sum(head.count(sign + after) for after in (mark, b"\r", b"\n")) + head.endswith(sign)
    return min(opened, closed)


def sample(data: bytes, dialect: Dialect) -> list[list[str]]:
    """The first rows, but for one that the sample cuts."""
    head = beginning(data, dialect.newline)
    if dialect.quote is not None and dialect.quote.encode() in head:
        return [line.cells for line in _lines(data, dialect, None) if line.cells != [""]]
    texts = dialect.divided(head.decode("utf-8", "replace")).split(dialect.newline, SAMPLE_ROWS)
    if len(texts) > SAMPLE_ROWS or (len(head) < len(data) and len(texts) > 1):
        texts.pop()
    return [text.split(dialect.delimiter) for text in texts if text]


def _lines(data: bytes, dialect: Dialect, width: int | None) -> Iterator[Line]:
    """Yield the first rows, but for one that the sample cuts; `width` is as in `Reader.read`."""
    reader = Reader(beginning(data, dialect.newline), dialect)
    whole = Reader(data, dialect) if len(data) > len(reader.data) else None
    at = 0
    for number in range(SAMPLE_ROWS):
        if at >= len(reader.data):
            return
        line = reader.read(at, width)
        if whole is not None and number and line.end >= len(reader.data):
            return
        if whole is not None and not line.is_strict:
            row = whole.read(at, width)
            if row.is_strict and row.end > len(reader.data):
                return  # a quoted cell that the sample cuts, and not a quote that quotes nothing
        yield line
        at = line.end


def beginning(data: bytes, newline: str) -> bytes:
    """The bytes that the sample is taken from: more of them where the lines are very long."""
    first = data.find(newline.encode(), 0, LONGEST_LINE)
    end = max(SAMPLE_BYTES, min(4 * first, 4 * LONGEST_LINE))
    while end < len(data) and data[end] & 0xC0 == 0x80:  # inside of a character
        end -= 1
    return data[:end]


def _judged(data: bytes, dialect: Dialect, *, force: bool) -> Found | None:
    """What speaks for a dialect; None if it is out of the question, whatever the cells are."""
    rows = sample(data, dialect)
    if not rows:
        return None
    widths = Counter(map(len, rows))
    width, often = max(widths.items(), key=lambda item: (item[1] * (item[0] > 1), item[0]))
    if width == 1 or not (force or _is_plausible(dialect.delimiter, width, often / len(rows), rows[0])):
        return None
    # Every width counts by how often it comes; many different ones count little.
    pattern = sum(count * (cells - 1) / cells for cells, count in widths.items()) / len(widths) ** 0.5 / len(rows)
    looked = [cell for row in rows for cell in row[:64]]
    known = sum(map(_is_known, looked)) / len(looked)
    quoted = 1.0 if dialect.quote is None else 1 - 0.5 * _loose(looked, dialect.quote)
    return Found(dialect, width, often / len(rows), pattern * (0.05 + known) * quoted)


def _loose(cells: list[str], quote: str) -> float:
    """How many cells begin or end with a quote that was read as text."""
    return sum(cell.startswith(quote) or cell.endswith(quote) for cell in cells) / len(cells)


def _is_known(cell: str) -> bool:
    if len(cell) > 80 or cell.count(" ") > _BLANKS:
        return False
    return not cell or _WORD.fullmatch(cell.strip()) is not None or kind_of(cell) != "text"


def _is_plausible(delimiter: str, width: int, share: float, first: list[str]) -> bool:
    """Whether a text that nobody said is a table may be one with this delimiter, if such a share of rows has so many cells."""
    if delimiter == " ":
        return share == 1 and all(first[1:]) and (width > 2 or all(kind_of(cell) in NUMBERS for cell in first))
    if delimiter == ":":
        return share == 1 and width > 3
    if delimiter in ("~", "^"):
        return share >= 0.9 and width > 2
    return share >= 0.6
