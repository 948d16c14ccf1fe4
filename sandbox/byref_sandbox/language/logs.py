"""`logging` and `traceback`: they write to the captured output, and nothing of theirs leads to frames or streams."""

from __future__ import annotations

import functools
import logging
import posixpath
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from byref_sandbox.language.files import Files, text_of
from byref_sandbox.language.refusal import NotAllowed
from byref_sandbox.language.templates import refused_attribute

LEVELS: Final = {name: getattr(logging, name) for name in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "NOTSET")}
_DEFAULT: Final = "%(levelname)s:%(name)s:%(message)s"
Accepts = Callable[[object], bool]
"""Whether a value is a stream that a handler may write to."""


class Formatter:
    """Writes records as text. Classes of the code's inherit from it, so Python's own formatter is not within its instances' reach."""

    def __init__(
        self,
        fmt: str | None = None,
        datefmt: str | None = None,
        style: Any = "%",
        validate: bool = True,
        *,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        text = None if fmt is None else str.__str__(fmt)
        self.datefmt = datefmt
        self._given = text, datefmt, style, bool(validate), None if defaults is None else dict(defaults)
        _formatter(self._given)

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text."""
        return _formatter(self._given).format(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return the time of a record as text."""
        return _formatter(self._given).formatTime(record, datefmt)


def _formatter(given: tuple[Any, ...]) -> logging.Formatter:
    """Make Python's own formatter, of what may come from code or from the state of its session."""
    text, datefmt, style, validate, defaults = given
    if type(text) not in (str, type(None)) or style not in ("%", "{", "$"):
        raise ValueError("Style must be one of: %,{,$")
    if text is not None and style == "{" and (refused := refused_attribute(text)) is not None:
        raise NotAllowed(f"attribute {refused!r} is not available in a format string", "name fields of the record")
    return logging.Formatter(text, datefmt, cast(Any, style), validate, defaults=defaults)


class Filter:
    """Lets pass records of a logger and of those below it."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def filter(self, record: Any) -> Any:
        """Whether a record passes."""
        return not self.name or f"{record.name}.".startswith(f"{self.name}.")


class _Filtered:
    """What loggers and handlers have in common: a level and filters."""

    def __init__(self, level: int | str = 0) -> None:
        self.level = _level(level)
        self.filters: list[Any] = []

    def setLevel(self, level: int | str) -> None:  # noqa: N802
        """Set the level, by number or name."""
        self.level = _level(level)

    def addFilter(self, filter: Any) -> None:  # noqa: N802
        """Have a filter decide on each record: a function, or an object with a method `filter`."""
        self.filters.append(filter)

    def removeFilter(self, filter: Any) -> None:  # noqa: N802
        """Take a filter away."""
        self.filters = [each for each in self.filters if each is not filter]

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether all filters let a record pass."""
        return all(each(record) if callable(each) else each.filter(record) for each in self.filters)


class Handler(_Filtered):
    """Does something with records. A class of the code's may define `emit`."""

    def __init__(self, level: int | str = 0) -> None:
        super().__init__(level)
        self.formatter: Any = None

    def setFormatter(self, fmt: Any) -> None:  # noqa: N802
        """Set how records are written."""
        self.formatter = fmt

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text."""
        return str((self.formatter or _PLAIN).format(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        raise NotImplementedError("emit must be implemented by Handler subclasses")

    def handle(self, record: logging.LogRecord) -> None:
        """Write a record, if its level and the filters let it pass."""
        if record.levelno >= self.level and self.filter(record):
            self.emit(record)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Be used no more."""


class NullHandler(Handler):
    """Does nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        """Nothing."""


class Logger(_Filtered):
    """Gives records at or above its level to handlers; prints them where there are none, in logging's default format or that of basicConfig()."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        super().__init__()
        self.name = name
        self.handlers: list[Any] = []
        self.propagate = True
        self.disabled = False
        self._settings = settings

    def __setattr__(self, name: str, value: object) -> None:
        # An object of the code's would answer when the session's settings are compared.
        super().__setattr__(name, bool(value) if name in ("propagate", "disabled") else value)

    @property
    def parent(self) -> Logger | None:
        """The nearest logger above, by the dots in the name; above all others is the root, which has none."""
        root: Logger = self._settings["root"]
        name = self.name
        while name := name.rpartition(".")[0]:
            if name in self._settings["loggers"]:
                return cast(Logger, self._settings["loggers"][name])
        return None if self is root else root

    def _upwards(self) -> Iterator[Logger]:
        """Yield this logger and all above it."""
        logger: Logger | None = self
        while logger is not None:
            yield logger
            logger = logger.parent

    def _all_handlers(self) -> list[Any]:
        """Return the handlers that records are given to."""
        found: list[Any] = []
        for logger in self._upwards():
            found += logger.handlers
            if not logger.propagate:
                break
        return found

    def _reaches_root(self) -> bool:
        return all(logger.propagate for logger in self._upwards() if logger.parent is not None)

    def getEffectiveLevel(self) -> int:  # noqa: N802
        """Return the level that counts: that of the nearest logger that has one, from here upwards."""
        return next((logger.level for logger in self._upwards() if logger.level), logging.NOTSET)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        """Whether a record of this level is written."""
        return not self.disabled and level > self._settings["disabled"] and level >= self.getEffectiveLevel()

    def addHandler(self, hdlr: Any) -> None:  # noqa: N802
        """Give records to a handler."""
        if not isinstance(hdlr, Handler):
            raise TypeError(f"a handler was expected, not {type(hdlr).__name__}")
        if hdlr not in self.handlers:
            self.handlers.append(hdlr)

    def removeHandler(self, hdlr: Any) -> None:  # noqa: N802
        """Give no more records to a handler."""
        self.handlers = [each for each in self.handlers if each is not hdlr]

    def hasHandlers(self) -> bool:  # noqa: N802
        """Whether this logger, or one above it that it gives records to, has handlers."""
        return bool(self._all_handlers()) or (self._settings["is_configured"] and self._reaches_root())

    def getChild(self, suffix: str) -> Logger:  # noqa: N802
        """Return a logger below this one."""
        made: Logger = self._settings["get"](suffix if self.parent is None else f"{self.name}.{suffix}")
        return made

    def log(self, level: int, message: object, *arguments: Any, **options: Any) -> None:
        """Write one record, %-formatted."""
        if not self.isEnabledFor(level):
            return
        given: Any = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], dict) else arguments
        text = str(message) % given if arguments else str(message)
        record = logging.LogRecord(self.name, level, "<code>", 0, text, None, None, "<module>")
        for name, value in dict(options.get("extra") or {}).items():
            if name in ("message", "asctime") or name in vars(record):
                raise KeyError(f"Attempt to overwrite {name!r} in LogRecord")
            vars(record)[str.__str__(name)] = value
        if options.get("exc_info"):
            record.exc_text = format_exc().rstrip("\n")
        if self.filter(record):
            self.handle(record)

    def handle(self, record: logging.LogRecord) -> None:
        """Give a record to the handlers."""
        found = self._all_handlers()
        for handler in found:
            handler.handle(record)
        if not found and (self.propagate or record.levelno >= logging.WARNING):
            print(
                Formatter(self._settings["format"], self._settings["datefmt"], self._settings["style"]).format(record)
            )

    debug = functools.partialmethod(log, logging.DEBUG)
    info = functools.partialmethod(log, logging.INFO)
    warning = functools.partialmethod(log, logging.WARNING)
    warn = warning
    error = functools.partialmethod(log, logging.ERROR)
    critical = functools.partialmethod(log, logging.CRITICAL)
    fatal = critical

    def exception(self, message: object, *arguments: Any, **options: Any) -> None:
        """Log at ERROR, with the error being handled."""
        self.log(logging.ERROR, message, *arguments, **{"exc_info": True, **options})


class Logging:
    """The settings and loggers of one language, for the state of a session."""

    _PLAIN: Final = ("format", "datefmt", "style", "disabled", "is_configured")
    _OF_LOGGERS: Final = ("level", "filters", "handlers", "propagate", "disabled")

    def __init__(self, root: Logger) -> None:
        self._root, self._settings = root, root._settings

    def read(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Return the settings, and the attributes of the root and of loggers that have any of their own, by name."""
        plain = {name: self._settings[name] for name in self._PLAIN} | {"level": self._root.level}
        loggers = {"root": self._root, **self._settings["loggers"]}
        fresh = vars(Logger("", {}))
        found = {
            name: own
            for name, one in loggers.items()
            if (own := {at: vars(one)[at] for at in self._OF_LOGGERS if vars(one)[at] != fresh[at]})
        }
        return plain, found

    def apply(self, value: Any) -> None:
        """Set what `read` has returned in another process."""
        plain, loggers = value
        self._settings.update({name: plain[name] for name in self._PLAIN if name in plain})
        self._root.level = plain["level"]
        for name, own in loggers.items():
            logger = self._settings["get"](name)
            for at in self._OF_LOGGERS:
                if at in own:
                    setattr(logger, at, own[at])


def _level(level: int | str) -> int:
    if isinstance(level, str):
        if level not in LEVELS:
            raise ValueError(f"Unknown level: {level!r}")
        return int(LEVELS[level])
    return int(level)


_PLAIN: Final = Formatter()


def _stream_handlers(files: Files, accepts: Accepts) -> dict[str, Any]:
    class StreamHandler(Handler):
        """Writes into a stream: into the captured output, if none is named."""

        terminator = "\n"

        def __init__(self, stream: Any = None) -> None:
            super().__init__()
            if stream is not None and not accepts(stream):
                raise NotAllowed(
                    f"a {type(stream).__name__} cannot be logged to", "use an io.StringIO, or leave it out"
                )
            self._stream = stream

        def emit(self, record: logging.LogRecord) -> None:
            """Write a record as a line."""
            text = self.format(record) + self.terminator
            if self._stream is None:
                sys.stderr.write(text)
            elif accepts(self._stream):
                self._stream.write(text)

    class FileHandler(StreamHandler):
        """Writes into a file of the run."""

        def __init__(
            self, filename: Any, mode: str = "a", encoding: str | None = None, *_arguments: Any, **_options: Any
        ) -> None:
            self._file = files.open(filename, mode, encoding=encoding)
            super().__init__(self._file)
            self.baseFilename = posixpath.join("/", text_of(filename))

        def close(self) -> None:
            """Close the file."""
            self._file.close()

    made: dict[str, Any] = {"StreamHandler": StreamHandler, "FileHandler": FileHandler}
    for name, cls in made.items():
        cls.__qualname__, cls.__module__ = name, "logging"
    return made


def logging_names(files: Files, accepts: Accepts) -> dict[str, object]:
    """Return the names of `logging`."""
    settings: dict[str, Any] = {
        "format": _DEFAULT,
        "datefmt": None,
        "style": "%",
        "disabled": -1,
        "is_configured": False,
    }
    root = Logger("root", settings)
    root.setLevel(logging.WARNING)
    loggers: dict[str, Logger] = {}
    streams = _stream_handlers(files, accepts)

    def basic_config(**options: Any) -> None:
        """Set level, format and handlers, once or with `force`; without a file or handlers the output is the captured one."""
        if options.get("force"):
            root.handlers = []
        elif root.handlers or settings["is_configured"]:
            return
        settings.update({"format": _DEFAULT, "datefmt": None, "style": "%", "is_configured": True})
        settings.update({name: str(options[name]) for name in ("format", "datefmt", "style") if options.get(name)})
        if options.get("level") is not None:
            root.setLevel(options["level"])
        wanted = list(options.get("handlers") or ())
        if options.get("filename") is not None:
            wanted.append(streams["FileHandler"](options["filename"], options.get("filemode", "a")))
        elif options.get("stream") is not None:
            wanted.append(streams["StreamHandler"](options["stream"]))
        for handler in wanted:
            if handler.formatter is None:
                handler.setFormatter(Formatter(settings["format"], settings["datefmt"], settings["style"]))
            root.addHandler(handler)

    def get_logger(name: str | None = None) -> Logger:
        return loggers.setdefault(name, Logger(str(name), settings)) if name and name != "root" else root

    def disable(level: int | str = logging.CRITICAL) -> None:
        settings["disabled"] = _level(level)

    settings |= {"get": get_logger, "root": root, "loggers": loggers}
    methods = ("debug", "info", "warning", "warn", "error", "critical", "fatal", "exception", "log")
    return {
        **LEVELS,
        **{name: getattr(root, name) for name in methods},
        **streams,
        "WARN": logging.WARNING,
        "FATAL": logging.CRITICAL,
        "BASIC_FORMAT": logging.BASIC_FORMAT,
        "basicConfig": basic_config,
        "getLogger": get_logger,
        "getLevelName": logging.getLevelName,
        "getLevelNamesMapping": lambda: dict(LEVELS),
        "disable": disable,
        "shutdown": lambda: None,
        "captureWarnings": lambda capture: None,
        "root": root,
        "Logger": Logger,
        "Handler": Handler,
        "NullHandler": NullHandler,
        "Filter": Filter,
        "Formatter": Formatter,
        "LogRecord": logging.LogRecord,
    }


BASES: Final = ("Handler", "StreamHandler", "FileHandler", "NullHandler", "Formatter", "Filter")
"""What a class of the code's may inherit from."""
for _class in (Formatter, Filter, Handler, NullHandler, Logger):
    _class.__module__ = "logging"


_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"


def _lines(error: BaseException, filename: str = "<code>") -> list[str]:
    places = [
        f'  File "{filename}", line {line}, in {frame.f_code.co_name}\n'
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == filename
    ]
    begin = ["Traceback (most recent call last):\n"] if error.__traceback__ is not None else []
    return [*begin, *places, *traceback.format_exception_only(error)]


def _chained(error: BaseException, chain: bool) -> list[str]:
    """Return the lines of an error, after those of what it was raised from."""
    parts, seen = [_lines(error)], {id(error)}
    while chain:
        said, before = _CAUSE, error.__cause__
        if before is None and not error.__suppress_context__:
            said, before = _CONTEXT, error.__context__
        if before is None or id(before) in seen:
            break
        error = before
        seen.add(id(error))
        parts += [[said], _lines(error)]
    return [line for part in reversed(parts) for line in part]


def format_exc(limit: int | None = None, chain: bool = True) -> str:
    """Return the error being handled, with the lines of the code that it came through."""
    error = sys.exc_info()[1]
    return "NoneType: None\n" if error is None else "".join(_chained(error, chain))


def traceback_names(accepts: Accepts) -> dict[str, Callable[..., object]]:
    """Return the names of `traceback`. Functions take an error, its class and the error, or nothing for the one being handled;
    `accepts` tells whether they may write into a value.
    """

    def of(exc: Any, value: Any) -> BaseException:
        found = [each for each in (value, exc) if isinstance(each, BaseException)]
        if not found:
            raise TypeError("an exception was expected")
        return found[0]

    def show(text: str, file: Any) -> None:
        if file is not None and not accepts(file):
            raise NotAllowed(f"a {type(file).__name__} cannot be printed to", "use an io.StringIO, or leave it out")
        print(text, end="", file=file)

    def print_exc(limit: int | None = None, file: Any = None, chain: bool = True) -> None:
        show(format_exc(limit, chain), file)

    def format_exception(
        exc: Any, /, value: Any = None, tb: Any = None, limit: int | None = None, chain: bool = True
    ) -> list[str]:
        return _chained(of(exc, value), chain)

    def print_exception(
        exc: Any, /, value: Any = None, tb: Any = None, limit: int | None = None, file: Any = None, chain: bool = True
    ) -> None:
        show("".join(_chained(of(exc, value), chain)), file)

    def format_exception_only(exc: Any, /, value: Any = None) -> list[str]:
        return traceback.format_exception_only(of(exc, value))

    made = (format_exc, print_exc, format_exception, print_exception, format_exception_only)
    return {one.__name__: one for one in made}
