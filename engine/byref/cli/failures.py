"""How the command ends: with one helpful line instead of a traceback, and with an exit code."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import TextIO

from byref.accounting.logs import line_of, traceback_of
from byref.errors import one_line

FAILED = 1
USAGE = 2
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""
READER_GONE = 141
"""128 + SIGPIPE."""
ERROR_CHARS = 4_000
"""Length of an error's line."""


class Failed(Exception):
    """The operation failed; the text is for the person at the shell."""


class WrongUsage(Exception):
    """The command line is wrong; the text says what was expected."""


def is_debugging() -> bool:
    """Tell whether the user wants tracebacks."""
    return os.environ.get("BYREF_DEBUG", "") not in ("", "0")


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print warnings and log records of all libraries as single lines on standard error.

    If a program calls the command and has log handlers of its own, they still get the records of other libraries.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Line())
    logger, root = logging.getLogger("byref"), logging.getLogger()
    loggers = [logger] if root.handlers else [logger, root]
    propagates, logger.propagate = logger.propagate, False
    for each in loggers:
        each.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            yield
    finally:
        for each in loggers:
            each.removeHandler(handler)
        logger.propagate = propagates


def open_what_is_closed() -> None:
    """Put a file at each standard stream that is closed; reading from it or writing to it fails.

    Otherwise the next file to be opened, such as a database, would get that descriptor's number, and output would be written into
    it. Messages for a closed standard error are lost.
    """
    for name, number, flags, mode in (
        ("stdin", 0, os.O_WRONLY, "r"),
        ("stdout", 1, os.O_RDONLY, "w"),
        ("stderr", 2, os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                if (opened := os.open(os.devnull, flags)) != number:
                    os.close(opened)  # another file already has that number
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Tell errors of standard output from any others.

    Raises:
        Failed: standard output cannot be written to, e.g. because the disk is full or it is closed.
        BrokenPipeError: the reader of standard output has gone.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        _leave_output()
        raise Failed(f"standard output cannot be written to: {error.strerror or error}") from error


def _leave_output() -> None:
    """Keep the interpreter from writing its buffered output at exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_code(error: BaseException) -> int:
    """Report an error and return its exit code."""
    if isinstance(error, BrokenPipeError):
        _leave_output()
        return READER_GONE
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if is_debugging():
        sys.stderr.write(f"byref: {type(error).__name__}\n{traceback_of(error)}\n")
    else:
        _say(_message(error))
    return USAGE if isinstance(error, WrongUsage) else FAILED


def _message(error: BaseException) -> str:
    from byref.errors import ByrefError, ToolError

    if isinstance(error, Failed | WrongUsage | ByrefError | ToolError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    return f"{type(error).__name__}: {error} (BYREF_DEBUG=1 shows where)"


def _say(message: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody reads standard error
        sys.stderr.write(f"byref: {one_line(message, ERROR_CHARS)}\n")


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _say(f"{category.__name__}: {message}")


class _Line(logging.Formatter):
    """Formats each log record as one line; tracebacks are added only if the user wants them."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"byref: {line_of(record)}"
        if is_debugging() and record.exc_info and record.exc_info[1]:
            return f"{line}\n{traceback_of(record.exc_info[1])}"
        return line
