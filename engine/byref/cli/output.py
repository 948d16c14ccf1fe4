"""What the command prints: plain and stable in a pipe, tables and a spinner on a terminal."""

from __future__ import annotations

import contextlib
import functools
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from byref import errors
from byref.cli.failures import writing

if TYPE_CHECKING:
    from rich.console import Console

MAX_TERMINAL_LINES = 200
"""Of stored data shown on a terminal; a pipe gets all of it."""

LOOSE_WIDTH = 20
"""Of a column of data, which may be broken anywhere."""


def is_terminal() -> bool:
    """Tell whether somebody reads standard output as it comes."""
    return sys.stdout.isatty()


def text(content: str) -> None:
    """Print text, ended by a line break; on a terminal without the control characters by which data could steer it."""
    shown = visible(content) if is_terminal() else encodable(content)
    _write(shown if shown.endswith("\n") else f"{shown}\n")


def data(content: bytes) -> None:
    """Print stored bytes: as they are in a pipe, the first lines of them on a terminal."""
    if not is_terminal():
        with writing():
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            if not content.endswith(b"\n"):
                sys.stdout.buffer.write(b"\n")
        return
    lines = content.decode(errors="replace").split("\n")
    text("\n".join(line[:2000] for line in lines[:MAX_TERMINAL_LINES]))
    if len(lines) > MAX_TERMINAL_LINES or any(len(line) > 2000 for line in lines[:MAX_TERMINAL_LINES]):
        note(f"shown in part: {len(content):,} bytes in {len(lines):,} lines; pipe it to have all of them")


def json(value: object) -> None:
    """Print any value as indented JSON, lone surrogates and all that JSON forbids replaced as `process` does.

    On a terminal what could steer it, or would not be seen, is written as JSON's escapes.
    """
    import msgspec

    from byref.accounting.ledger import dump

    shown = encodable(msgspec.json.format(dump(value), indent=2))
    _write(f"{errors.visible_in_json(shown) if is_terminal() else shown}\n")


def note(message: str) -> None:
    """Say something beside the output, on standard error; on a terminal its lines end between words."""
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
    """Print rows: a table on a terminal, else lines of cells with tabs between them, the columns' names first.

    On a terminal a column without a value is left out; where the rest is too wide so are, one after the other, those of
    `spare`, which is said; then cells are broken between words, those of `loose` columns anywhere, and words last of all.
    """
    cells = _cells(rows)
    if not is_terminal():
        for row in [list(columns), *cells]:
            _write(encodable("\t".join(map(errors.one_cell, row))) + "\n")
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
    """Tell whether the terminal is wide enough for rows without a line break in any."""
    return _fit(_used(columns, _cells(rows)), _console().width)


def _write(shown: str) -> None:
    with writing():
        sys.stdout.write(shown)


def _cells(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    number = _number if is_terminal() else str
    return [["" if cell is None else number(cell) for cell in row] for row in rows]


def _used(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """The cells of each column as a terminal shows them, without columns that have none; the first is always there."""
    shown = {name: [errors.one_cell(visible(row[place])) for row in cells] for place, name in enumerate(columns)}
    return {name: column for name, column in shown.items() if not cells or any(column) or name == columns[0]}


def _natural(used: Mapping[str, Sequence[str]]) -> list[int]:
    return [_widest((name, *column)) for name, column in used.items()]


def _least(used: Mapping[str, Sequence[str]], loose: Sequence[str]) -> list[int]:
    """Return the widths below which words are broken."""
    words = [_widest(word for cell in (name, *column) for word in cell.split()) for name, column in used.items()]
    return [min(width, LOOSE_WIDTH) if name in loose else width for name, width in zip(used, words, strict=True)]


def _fit(used: Mapping[str, Sequence[str]], terminal: int, loose: Sequence[str] = ()) -> bool:
    """Tell whether no cell has to be broken, but those of `loose` columns."""
    widths = [LOOSE_WIDTH if name in loose else width for name, width in zip(used, _natural(used), strict=True)]
    return sum(widths) <= _room(used, terminal)


def _widths(used: Mapping[str, Sequence[str]], terminal: int, loose: Sequence[str]) -> list[int]:
    """Return the columns' widths: the widest give way first, down to where words are broken; beyond only if need be."""
    widths, room = _natural(used), _room(used, terminal)
    for least in (_least(used, loose), [1] * len(used)):
        while sum(widths) > room and any(width > low for width, low in zip(widths, least, strict=True)):
            widest = max(range(len(widths)), key=lambda place: (widths[place] > least[place], widths[place]))
            widths[widest] -= 1
    return widths


def _room(used: Mapping[str, object], terminal: int) -> int:
    """Of a line, what is left for cells: two spaces are between them."""
    return terminal - 2 * (len(used) - 1) - 1


def _widest(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on, on standard error and only on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(f"{errors.one_line(what)} …")):
        yield


def visible(content: str) -> str:
    """Return text with what steers a terminal, or is not seen, written out, but for tabs and line breaks."""
    return errors.visible(encodable(content))


def encodable(content: str) -> str:
    """Return text that the output's encoding takes; what it does not take is replaced."""
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
