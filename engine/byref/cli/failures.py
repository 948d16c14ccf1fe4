"""How the command ends: one helpful line instead of a traceback, and an exit code."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
from collections.abc import Iterator

FAILED = 1
USAGE = 2
INTERRUPTED = 130
"""128 + SIGINT, as a shell reports it."""
READER_GONE = 141
"""128 + SIGPIPE."""


class Failed(Exception):
    """The operation failed; the text is for the one who typed the command."""


class WrongUsage(Exception):
    """The command line makes no sense; the text says what was expected."""


def is_debugging() -> bool:
    """Tell whether tracebacks are wanted."""
    return os.environ.get("BYREF_DEBUG", "") not in ("", "0")


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Let the library's warnings be single lines on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Line("byref: %(message)s"))
    logger = logging.getLogger("byref")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


def exit_code(error: BaseException) -> int:
    """Report an error and return the exit code that stands for it."""
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has gone; the interpreter must not try to write the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if is_debugging():
        traceback.print_exception(error)
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
    line = " ".join(message.split())
    sys.stderr.write(f"byref: {line.encode('utf-8', 'replace').decode()}\n")


class _Line(logging.Formatter):
    """One line a record; tracebacks only where they are wanted."""

    def format(self, record: logging.LogRecord) -> str:
        if not is_debugging():
            record.exc_info, record.exc_text = None, None
        return super().format(record)
