"""The command's output: plain and stable in a pipe, tables and a spinner on a terminal."""

from __future__ import annotations

import contextlib
import functools
import select
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from byref import errors
from byref.cli.failures import writing

if TYPE_CHECKING:
    from rich.console import Console

MAX_TERMINAL_LINES = 200
"""Lines of stored data shown on a terminal; a pipe gets all of it."""

LOOSE_WIDTH = 20
"""Least width of a `loose` column, whose cells may be broken anywhere."""


def is_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout.isatty()


def text(content: str) -> None:
    """Print text with a final line break; on a terminal, control characters in the data are made visible so they cannot act."""
    shown = visible(content) if is_terminal() else encodable(content)
    write(shown if shown.endswith("\n") else f"{shown}\n")


def data(content: bytes) -> None:
    """Print stored bytes: unchanged in a pipe, only the first lines on a terminal."""
    if not is_terminal():
        _put(content)
        return
    lines = content.decode(errors="replace").split("\n")
    text("\n".join(line[:2000] for line in lines[:MAX_TERMINAL_LINES]))
    if len(lines) > MAX_TERMINAL_LINES or any(len(line) > 2000 for line in lines[:MAX_TERMINAL_LINES]):
        note(f"shown in part: {len(content):,} bytes in {len(lines):,} lines; pipe it to have all of them")


def records(rows: Sequence[Mapping[str, object]]) -> None:
    """Print a table of the first records, for a terminal."""
    columns = list(dict.fromkeys(name for row in rows[:MAX_TERMINAL_LINES] for name in row))
    numbers = [
        name for name in columns if any(type(row.get(name)) in (int, float) for row in rows[:MAX_TERMINAL_LINES])
    ]
    shown = [[row.get(name) for name in columns] for row in rows[:MAX_TERMINAL_LINES]]
    table(columns, shown, right=numbers, spare=columns[:2:-1])
    if len(rows) > MAX_TERMINAL_LINES:
        note(f"the first {MAX_TERMINAL_LINES} of {len(rows):,} records; pipe it to have the text itself")


def json(value: object) -> None:
    """Print any value as indented JSON; lone surrogates and values that JSON forbids are replaced as `process` does.

    On a terminal, control characters and invisible characters are written as JSON escapes.
    """
    import msgspec

    from byref.accounting.ledger import dump

    shown = encodable(msgspec.json.format(dump(value), indent=2))
    write(f"{errors.visible_in_json(shown) if is_terminal() else shown}\n")


def note(message: str) -> None:
    """Print a message on standard error; on a terminal it is wrapped between words."""
    shown = visible(message)
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        fill = functools.partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
        shown = "\n".join(fill(line) for line in shown.split("\n"))
    sys.stderr.write(f"{shown}\n")


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    right: Sequence[str] = (),
    spare: Sequence[str] = (),
    loose: Sequence[str] = (),
) -> None:
    """Print rows: as a table on a terminal, else as lines of cells separated by tabs, with the column names first.

    On a terminal, empty columns are left out. If the table is still too wide, the columns of `spare` are left out one after the
    other, and a note names them. Then cells are wrapped: between words, in `loose` columns anywhere, and inside words last.
    """
    cells = _cells(rows)
    if not is_terminal():
        write("".join(encodable("\t".join(map(errors.one_cell, row))) + "\n" for row in [columns, *cells]))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    used, console, out = _used(columns, cells), _console(), []
    for name in spare:
        if name in used and not _fit(used, console.width, loose):
            del used[name]
            out.append(name)
    drawn = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name, width in zip(used, _widths(used, console.width, loose), strict=True):
        drawn.add_column(name, justify="right" if name in right else "left", overflow="fold", width=width)
    for line in zip(*used.values(), strict=True):
        drawn.add_row(*map(Text, line))
    with writing():
        sys.stdout.flush()
        console.print(drawn)
    if out:
        note(f"there is no room for: {', '.join(out)}; --json has all")


def fits(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Tell whether the terminal is wide enough for the rows without wrapping a cell."""
    return _fit(_used(columns, _cells(rows)), _console().width)


def write(shown: str) -> None:
    """Print text as it is."""
    if hasattr(sys.stdout, "buffer"):
        _put(shown.encode(sys.stdout.encoding or "utf-8", sys.stdout.errors or "strict"))
    else:  # a host's own object
        sys.stdout.write(shown)


def _put(content: bytes) -> None:
    """Write all bytes to standard output.

    Neither the stream of text nor that of bytes does so by itself: without a buffer (PYTHONUNBUFFERED) they pass over what the
    system has not taken, and a pipe that does not block may take nothing for now.
    """
    with writing():
        sys.stdout.flush()
        file: Any = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        rest = memoryview(content)
        while rest:
            if (taken := file.write(rest)) is None:
                select.select([], [file], [])
            else:
                rest = rest[taken:]


def _cells(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    number = _number if is_terminal() else str
    return [["" if cell is None else number(cell) for cell in row] for row in rows]


def _used(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Return each column's cells as a terminal shows them; empty columns are left out, except the first."""
    shown = {name: [errors.one_cell(visible(row[place])) for row in cells] for place, name in enumerate(columns)}
    return {name: column for name, column in shown.items() if not cells or any(column) or name == columns[0]}


def _natural(used: Mapping[str, Sequence[str]]) -> list[int]:
    return [_widest((name, *column)) for name, column in used.items()]


def _least(used: Mapping[str, Sequence[str]], loose: Sequence[str]) -> list[int]:
    """Return for each column the width below which words are broken."""
    words = [_widest(word for cell in (name, *column) for word in cell.split()) for name, column in used.items()]
    return [min(width, LOOSE_WIDTH) if name in loose else width for name, width in zip(used, words, strict=True)]


def _fit(used: Mapping[str, Sequence[str]], terminal: int, loose: Sequence[str] = ()) -> bool:
    """Tell whether no cell must be wrapped, except in `loose` columns."""
    widths = [LOOSE_WIDTH if name in loose else width for name, width in zip(used, _natural(used), strict=True)]
    return sum(widths) <= _room(used, terminal)


def _widths(used: Mapping[str, Sequence[str]], terminal: int, loose: Sequence[str]) -> list[int]:
    """Return the columns' widths: the widest is narrowed first, down to the width of words, and further only if needed."""
    widths, room = _natural(used), _room(used, terminal)
    for least in (_least(used, loose), [1] * len(used)):
        while sum(widths) > room and any(width > low for width, low in zip(widths, least, strict=True)):
            widest = max(range(len(widths)), key=lambda place: (widths[place] > least[place], widths[place]))
            widths[widest] -= 1
    return widths


def _room(used: Mapping[str, object], terminal: int) -> int:
    """Return the characters of a line that are left for cells: two spaces separate the columns."""
    return terminal - 2 * (len(used) - 1) - 1


def _widest(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show a spinner on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(f"{errors.one_line(what)} …")):
        yield


def visible(content: str) -> str:
    """Return text with control and invisible characters written as escapes; tabs and line breaks stay."""
    return errors.visible(encodable(content))


def encodable(content: str) -> str:
    """Return text that the output's encoding can represent; other characters are replaced."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        content.encode(encoding)
    except UnicodeEncodeError:
        content = content.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return content.encode(encoding, "replace").decode(encoding)
    return content


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _number(cell: object) -> str:
    return f"{cell:,}" if type(cell) is int else str(cell)
