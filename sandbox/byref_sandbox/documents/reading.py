"""Which reader a document goes to. What a reader needs is imported by `load`, before the jail is entered."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any, Final

from byref_sandbox import wire
from byref_sandbox.documents import kinds
from byref_sandbox.documents.building import NotATable
from byref_sandbox.documents.inflating import Room

_READERS: Final = {
    "excel": ("workbooks", "python_calamine"),
    "parquet": ("columnar", "pyarrow"),
    "arrow": ("columnar", "pyarrow"),
    "sqlite": ("databasefiles", "sqlite3"),
    "html": ("pages", "selectolax"),
    "xml": ("elements", "pyexpat"),
    "yaml": ("yamlfiles", "yaml"),
    "zip": ("archives", "zipfile"),
    "gzip": ("archives", "zlib"),
}
"""By kind: the module here, and what must be installed for it."""
_ARCHIVES: Final = ("zip", "gzip")


def kind_of(data: bytes, content_type: str, name: str) -> str | None:
    """Return the reader for a document, by its content."""
    kind = kinds.looks_like(data, content_type=content_type, name=name)
    return kinds.of_archive(data) if kind == "zip" else kind


def load(kind: str | None) -> None:
    """Import what it takes to read a document of this kind; of an archive, what may be in it."""
    for name, (module, needed) in _READERS.items():
        if (name == kind or kind in _ARCHIVES) and is_installed(needed):
            importlib.import_module(f"{__package__}.{module}")


def load_all() -> None:
    """Import all that any document needs, where nobody could not read it later: uv and pyenv put Python into root's folder."""
    load("zip")


def is_installed(package: str) -> bool:
    """Whether what a reader needs is there: `byref[tables]` brings it."""
    return importlib.util.find_spec(package) is not None


def read(data: bytes, content_type: str, name: str, room: Room) -> Iterator[wire.Frame]:
    """Yield the frames of a document's tables; raise NotATable if it has none."""
    yield from _read(data, name, room, 0, content_type)


def _read(data: bytes, name: str, room: Room, level: int, content_type: str = "") -> Iterator[wire.Frame]:
    kind = kind_of(data, content_type, name)
    if kind is None:
        raise NotATable("it is no document that has tables")
    for frame in _frames(kind, data, name, room, level):
        # What is in an archive was counted where it was read.
        if isinstance(frame, wire.Table | wire.Member) and kind not in _ARCHIVES:
            room.left -= len(frame.records if isinstance(frame, wire.Table) else frame.data)
        yield frame


def _frames(kind: str, data: bytes, name: str, room: Room, level: int) -> Iterator[wire.Frame]:
    module, needed = _READERS[kind]
    reader: Any = importlib.import_module(f"{__package__}.{module}") if is_loaded(module) else None
    if reader is None:
        raise NotATable(f"to read it takes {needed}, which is not installed: pip install 'byref[tables]'")
    frames: Iterator[wire.Frame]
    if kind == "gzip":
        frames = reader.read_gzip(data, name, room, level, _read)
    elif kind == "zip":
        frames = reader.read_zip(data, room, level, _read)
    else:
        frames = getattr(reader, {"parquet": "read_parquet", "arrow": "read_arrow"}.get(kind, "read"))(data, room)
    return frames


def is_loaded(module: str) -> bool:
    """Whether `load` has imported a reader: inside the jail nothing can be imported."""
    return f"{__package__}.{module}" in sys.modules
