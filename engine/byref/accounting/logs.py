"""Make the library's log safe: a record is one line without control characters, whatever foreign text is in it.

Hosts have their own handlers, so records are made safe before any handler: at the logger `byref`, which all modules use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from byref.errors import one_line, visible

LINE_CHARS = 2_000
"""Longest record, and longest line of a traceback."""
TRACEBACK_CHARS = 100_000
_CHAINED = 50
"""Most exceptions of a chain that are looked at."""


def line_of(record: logging.LogRecord) -> str:
    """Return a record's message as one line."""
    return one_line(record.getMessage(), LINE_CHARS)


def traceback_of(error: BaseException) -> str:
    """Return a traceback whose lines are all indented, so that none of them can be taken for a record of its own."""
    import traceback

    text = "".join(traceback.format_exception(error))[:TRACEBACK_CHARS]
    return "\n".join(f"  {visible(line)[:LINE_CHARS]}" for line in text.rstrip("\n").split("\n"))


def keep_plain() -> None:
    """Make the records of the logger `byref` safe from now on; one call is enough."""
    logging.getLogger("byref").addFilter(_plain)


def _plain(record: logging.LogRecord) -> bool:
    """Change a record only if it is not safe: tools that group records by their format string still find the others."""
    try:
        message, line = record.getMessage(), line_of(record)
    except (TypeError, ValueError):  # the arguments do not fit the format: the handler reports that
        return True
    if line != message:
        record.msg, record.args = line, ()
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and not all(map(_is_plain, _led_to(error))):
        record.exc_text = traceback_of(error)  # formatters write this text, if it is set, instead of the traceback
    return True


def _is_plain(error: BaseException) -> bool:
    try:
        return all(one_line(text, LINE_CHARS) == text for text in (str(error), *getattr(error, "__notes__", ())))
    except Exception:  # noqa: BLE001  an error's own __str__ may do anything
        return False


def _led_to(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that led to it."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo and len(seen) < _CHAINED:
        each = todo.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            todo += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
