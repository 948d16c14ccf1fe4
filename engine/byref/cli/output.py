"""What the command prints: plain and stable in a pipe, tables and a spinner on a terminal."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

MAX_TERMINAL_LINES = 200
"""Of stored data shown on a terminal; a pipe gets all of it."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def is_terminal() -> bool:
    """Tell whether somebody reads standard output as it comes."""
    return sys.stdout.isatty()


def text(content: str) -> None:
    """Print text, ended by a line break; on a terminal without the control characters by which data could steer it."""
    shown = visible(content) if is_terminal() else encodable(content)
    sys.stdout.write(shown if shown.endswith("\n") else f"{shown}\n")


def data(content: bytes) -> None:
    """Print stored bytes: as they are in a pipe, the first lines of them on a terminal."""
    if not is_terminal():
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
    """Print any value as indented JSON, lone surrogates and all that JSON forbids replaced as `process` does."""
    import msgspec

    from byref.ledger import dump

    sys.stdout.write(encodable(msgspec.json.format(dump(value), indent=2)) + "\n")


def note(message: str) -> None:
    """Say something beside the output, on standard error."""
    sys.stderr.write(f"{visible(encodable(message)) if sys.stderr.isatty() else encodable(message)}\n")


def table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "", right: Sequence[str] = ()
) -> None:
    """Print rows: a table on a terminal, else lines of cells with tabs between them, the columns' names first."""
    cells = [["" if cell is None else _number(cell) if is_terminal() else str(cell) for cell in row] for row in rows]
    if not is_terminal():
        for row in [list(columns), *cells]:
            sys.stdout.write(encodable("\t".join(_one_line(cell) for cell in row)) + "\n")
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*(Text(_one_line(visible(cell))) for cell in row))
    sys.stdout.flush()
    _console().print(drawn)


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on, on standard error and only on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …"):
        yield


def visible(content: str) -> str:
    """Return text with control characters written out, but for tabs and line breaks."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", encodable(content))


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


def _one_line(cell: str) -> str:
    return " ".join(cell.split()) if any(mark in cell for mark in "\t\n\r\v\f") else cell
