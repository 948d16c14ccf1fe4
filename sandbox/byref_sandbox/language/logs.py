"""`logging` and `traceback`: they write to the captured output, and nothing of theirs leads to frames or streams."""

from __future__ import annotations

import functools
import logging
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

LEVELS: Final = {name: getattr(logging, name) for name in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "NOTSET")}
_DEFAULT: Final = "%(levelname)s:%(name)s:%(message)s"


class Logger:
    """Prints records at or above its level, in logging's default format or that of basicConfig()."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.level = 0
        self._settings = settings

    def setLevel(self, level: int | str) -> None:  # noqa: N802
        """Set the level, by number or name."""
        self.level = _level(level)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        """Whether a record of this level is printed."""
        return bool(level >= (self.level or self._settings["level"]))

    def log(self, level: int, message: object, *arguments: Any, **options: Any) -> None:
        """Print one record, %-formatted."""
        if not self.isEnabledFor(level):
            return
        given: Any = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], dict) else arguments
        text = str(message) % given if arguments else str(message)
        record = logging.LogRecord(self.name, level, "<code>", 0, text, None, None)
        print(logging.Formatter(self._settings["format"], self._settings["datefmt"]).format(record))
        if options.get("exc_info"):
            print(format_exc(), end="")

    debug = functools.partialmethod(log, logging.DEBUG)
    info = functools.partialmethod(log, logging.INFO)
    warning = functools.partialmethod(log, logging.WARNING)
    error = functools.partialmethod(log, logging.ERROR)
    critical = functools.partialmethod(log, logging.CRITICAL)

    def exception(self, message: object, *arguments: Any, **options: Any) -> None:
        """Log at ERROR, with the error being handled."""
        self.log(logging.ERROR, message, *arguments, **{"exc_info": True, **options})


def _level(level: int | str) -> int:
    if isinstance(level, str):
        if level not in LEVELS:
            raise ValueError(f"Unknown level: {level!r}")
        return int(LEVELS[level])
    return int(level)


def logging_names() -> dict[str, object]:
    """Return the names of `logging`."""
    settings: dict[str, Any] = {"level": logging.WARNING, "format": _DEFAULT, "datefmt": None}
    root = Logger("root", settings)
    loggers: dict[str, Logger] = {}

    def basic_config(**options: Any) -> None:
        """Set level, format and datefmt; the output is always the captured one."""
        settings.update({name: str(options[name]) for name in ("format", "datefmt") if options.get(name)})
        if options.get("level") is not None:
            settings["level"] = _level(options["level"])

    def get_logger(name: str | None = None) -> Logger:
        return loggers.setdefault(name, Logger(str(name), settings)) if name else root

    methods = ("debug", "info", "warning", "error", "critical", "exception", "log")
    return {
        **LEVELS,
        **{name: getattr(root, name) for name in methods},
        "basicConfig": basic_config,
        "getLogger": get_logger,
        "getLevelName": logging.getLevelName,
        "Logger": Logger,
    }


def _lines(error: BaseException, filename: str = "<code>") -> list[str]:
    places = [
        f'  File "{filename}", line {line}, in {frame.f_code.co_name}\n'
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == filename
    ]
    return ["Traceback (most recent call last):\n", *places, *traceback.format_exception_only(error)]


def format_exc(limit: int | None = None, chain: bool = True) -> str:
    """Return the error being handled, with the lines of the code that it came through."""
    error = sys.exc_info()[1]
    return "NoneType: None\n" if error is None else "".join(_lines(error))


def traceback_names() -> dict[str, Callable[..., object]]:
    """Return the names of `traceback`. Each function takes an error, its class and the error, or nothing for the one being handled."""

    def of(arguments: tuple[Any, ...]) -> BaseException:
        found = [argument for argument in arguments if isinstance(argument, BaseException)]
        if not found:
            raise TypeError("an exception was expected")
        return found[-1]

    return {
        "format_exc": format_exc,
        "print_exc": lambda *_arguments, **_options: print(format_exc(), end=""),
        "format_exception": lambda *arguments, **_options: _lines(of(arguments)),
        "format_exception_only": lambda *arguments, **_options: traceback.format_exception_only(of(arguments)),
        "print_exception": lambda *arguments, **_options: print("".join(_lines(of(arguments))), end=""),
    }
