"""Modules that read and write text: `configparser`, `xml.etree.ElementTree`, `mimetypes` and `pytz`, over the files of a run."""

from __future__ import annotations

import configparser
import contextlib
import errno
import functools
import importlib
import io
import mimetypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.etree import ElementTree

from byref_sandbox.code.words import words
from byref_sandbox.language.files import BUFFERS, Files, is_path, text_of
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.refusal import NotAllowed


def reader_names(files: Files, guards: Guards) -> dict[str, dict[str, object]]:
    """Return the names of each module that touch files."""
    return {
        "configparser": _parsers(files, guards),
        "xml.etree.ElementTree": _trees(files, guards),
        "mimetypes": _types_of_files(),
        **_zones(),
    }


def _handle(files: Files, source: Any, mode: str, what: str, **options: Any) -> Any:
    """Return an open handle: of a file of the run, or the given one."""
    if is_path(source):
        return files.open(source, mode, **options)
    if type(source) not in BUFFERS:
        raise NotAllowed(f"{what} of a {type(source).__name__} is not available", "name a file, or use an io.StringIO")
    return contextlib.nullcontext(source)


def _parsers(files: Files, guards: Guards) -> dict[str, object]:
    def read(self: configparser.RawConfigParser, filenames: Any, encoding: str | None = None) -> list[str]:
        """Read the files that there are, and return their names."""
        found = [name for name in ([filenames] if is_path(filenames) else filenames) if files.has(name)]
        for name in found:
            with files.open(name, encoding=encoding) as file:
                self.read_file(file, source=text_of(name))
        return [text_of(name) for name in found]

    made: dict[str, object] = {}
    for name in ("ConfigParser", "RawConfigParser"):
        base = getattr(configparser, name)
        own = {"__init__": _remembering(base), "read": read, "__module__": "configparser"}
        cls = type(name, (base,), own)
        guards.writable_attributes[cls] = words("optionxform")
        made[name] = cls
    return made


def _remembering(base: Any) -> Callable[..., None]:
    """Return an `__init__` that remembers the options: each version of Python keeps them elsewhere."""

    def initialize(
        self: Any, defaults: Any = None, dict_type: Any = dict, allow_no_value: bool = False, **options: Any
    ) -> None:
        base.__init__(self, defaults, dict_type, allow_no_value, **options)
        self._given = {"dict_type": dict_type, "allow_no_value": allow_no_value, **options}

    return initialize


def parts_of_parser(parser: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the options with which a parser was made, and what is in it."""
    held = vars(parser)
    converters = {name: convert for name, convert in parser.converters._data.items() if convert is not None}
    sections = {name: dict(section) for name, section in held["_sections"].items()}
    return {**held["_given"], "converters": converters}, (dict(held["_defaults"]), sections, held.get("optionxform"))


def fill_parser(parser: Any, defaults: Mapping[str, Any], sections: Mapping[str, Any], transform: Any) -> None:
    """Give a new parser what was in one."""
    parser._defaults.update(defaults)
    for name, section in sections.items():
        parser._sections[name] = dict(section)
        parser._proxies[name] = configparser.SectionProxy(parser, name)
    if transform is not None:
        parser.optionxform = transform


def _trees(files: Files, guards: Guards) -> dict[str, object]:
    guards.writable_attributes[ElementTree.Element] = words("tag text tail attrib")

    class Tree(ElementTree.ElementTree):
        """An XML document that is read from and written to files of the run."""

        def __init__(self, element: Any = None, file: Any = None) -> None:
            super().__init__(element)
            if file is not None:
                self.parse(file)

        def parse(self, source: Any, parser: object = None) -> Any:
            if parser is not None:
                raise NotAllowed("parse(parser=...) is not available", "leave it out")
            with _handle(files, source, "rb", "parse()") as file:
                root = ElementTree.fromstring(file.read())
            self._setroot(root)
            return root

        def write(self, file_or_filename: Any, encoding: str | None = None, *arguments: Any, **options: Any) -> None:
            made = io.StringIO() if encoding == "unicode" else io.BytesIO()
            super().write(made, encoding or "us-ascii", *arguments, **options)
            mode = "w" if encoding == "unicode" else "wb"
            with _handle(files, file_or_filename, mode, "write()") as file:
                file.write(made.getvalue())

    Tree.__name__ = Tree.__qualname__ = "ElementTree"
    Tree.__module__ = "xml.etree.ElementTree"

    def iterparse(source: Any, events: Iterable[str] | None = None, parser: object = None) -> Any:
        wanted: Any = ("end",) if events is None else tuple(events)
        pulled: Any = ElementTree.XMLPullParser(wanted)
        with _handle(files, source, "rb", "iterparse()") as file:
            pulled.feed(file.read())
        pulled.close()
        return iter(list(pulled.read_events()))

    return {"ElementTree": Tree, "parse": lambda source, parser=None: Tree(file=source), "iterparse": iterparse}


def _types_of_files() -> dict[str, object]:
    mimetypes.init([])  # what the machine's files say differs from machine to machine
    known = mimetypes.MimeTypes()
    return {name: _method(known, name) for name in ("guess_type", "guess_extension", "guess_all_extensions")}


def _method(known: mimetypes.MimeTypes, name: str) -> Callable[..., Any]:
    return lambda *arguments, **options: getattr(known, name)(*arguments, **options)


@functools.cache
def _pytz() -> Any:
    """Return `pytz`, with all that it would read from files on first use already read; None if it is not installed."""
    try:
        pytz: Any = importlib.import_module("pytz")
    except ImportError:
        return None
    stored: dict[str, bytes] = {}
    read = pytz.open_resource

    def is_stored(name: str) -> bool:
        with contextlib.suppress(OSError), read(name) as file:
            stored[name] = file.read()
        return name in stored

    pytz.resource_exists = is_stored  # it is asked for each name, once, unless somebody listed the zones before
    for name in [*pytz.all_timezones, *pytz.common_timezones]:
        if name not in stored:
            is_stored(name)
    pytz.country_timezones._fill()
    pytz.country_names._fill()

    def open_resource(name: str) -> io.BytesIO:
        if name not in stored:
            raise OSError(errno.ENOENT, "No such zone", name)
        return io.BytesIO(stored[name])

    vars(pytz).update(open_resource=open_resource, resource_exists=stored.__contains__)
    return pytz


def _zones() -> dict[str, dict[str, object]]:
    pytz = _pytz()
    if pytz is None:
        return {}

    def timezone(zone: Any) -> Any:
        """Return a zone by its name; raise UnknownTimeZoneError."""
        if not isinstance(zone, str):
            raise pytz.UnknownTimeZoneError(zone)
        return pytz.timezone(str.__str__(zone))

    errors = words("UnknownTimeZoneError AmbiguousTimeError NonExistentTimeError InvalidTimeError")
    return {
        "pytz": {
            **{name: getattr(pytz, name) for name in errors | words("utc UTC FixedOffset BaseTzInfo ZERO HOUR")},
            "timezone": timezone,
            **{name: list(getattr(pytz, name)) for name in ("all_timezones", "common_timezones")},
            **{f"{name}_set": frozenset(getattr(pytz, name)) for name in ("all_timezones", "common_timezones")},
            **{name: getattr(pytz, name) for name in ("country_timezones", "country_names")},
            "__version__": pytz.__version__,
        },
        "pytz.exceptions": {name: getattr(pytz, name) for name in errors},
    }
