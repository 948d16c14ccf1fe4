"""How the command ends: one helpful line instead of a traceback, and an exit code."""

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
"""128 + SIGINT, as a shell reports it."""
READER_GONE = 141
"""128 + SIGPIPE."""
ERROR_CHARS = 4_000
"""Of an error's line."""


class Failed(Exception):
    """The operation failed; the text is for the one who typed the command."""


class WrongUsage(Exception):
    """The command line makes no sense; the text says what was expected."""


def is_debugging() -> bool:
    """Tell whether tracebacks are wanted."""
    return os.environ.get("BYREF_DEBUG", "") not in ("", "0")


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Let what the library and all that it uses warn of be single lines on standard error.

    A program that calls the command, and has handlers of its own, goes on to get what libraries log.
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
    """Have something at each standard stream that the command was started without, of which no read or write succeeds.

    Else the next file that is opened would be there, a database say, and be written to. What goes to standard error is lost.
    """
    for name, number, flags, mode in (
        ("stdin", 0, os.O_WRONLY, "r"),
        ("stdout", 1, os.O_RDONLY, "w"),
        ("stderr", 2, os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                if (opened := os.open(os.devnull, flags)) != number:
                    os.close(opened)  # somebody has opened something there already
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Tell what standard output does not take from whatever else fails.

    Raises:
        Failed: the disk is full, say, or it is closed.
        BrokenPipeError: whoever read it has gone.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        _leave_output()
        raise Failed(f"standard output cannot be written to: {error.strerror or error}") from error


def _leave_output() -> None:
    """Keep the interpreter from trying to write the rest when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_code(error: BaseException) -> int:
    """Report an error and return the exit code that stands for it."""
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
    with contextlib.suppress(OSError, ValueError):  # nobody is there to read it
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
    """One line a record, whoever logs it; tracebacks only where they are wanted."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"byref: {line_of(record)}"
        if is_debugging() and record.exc_info and record.exc_info[1]:
            return f"{line}\n{traceback_of(record.exc_info[1])}"
        return line
