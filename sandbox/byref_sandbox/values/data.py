"""Data on its way into a run: the host names it, a zygote or the run decodes it."""

from __future__ import annotations

import codecs
import mmap
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from byref_sandbox import jsontext, tabletext
from byref_sandbox.values import plain, sharing
from byref_sandbox.values.gathering import Step, gathered, gathering

JSON: Final = "application/json"
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
EXACT: Final = "application/vnd.byref.value"
"""Content type of a value with its types, as an earlier run wrote it. Only a run reads it, inside the jail."""
_TABLES: Final = "application/vnd.byref.tables;"
"""Content type of a text that is read as tables, with how it is read behind it."""

Load = Callable[[], bytes | Iterable[bytes]]
"""Returns a payload, whole or in pieces."""


@dataclass(frozen=True, slots=True)
class Data:
    """A value that is stored somewhere. It is loaded only when no warm session has decoded it yet."""

    key: str
    """Identifies the payload, a digest for example: equal keys mean equal bytes."""
    load: Load
    content_type: str = JSON
    """application/json is bound as its value, text/* as str, `EXACT` as the value that was encoded, what `type_of_tables` gives as
    the records that are read, anything else as bytes."""
    path: tuple[Step, ...] = ()
    """Keys and indexes that lead to the variable inside the JSON value. With `Every` steps it is the list of all records there."""
    frame: bool = False
    """Bind the DataFrame of its records."""
    parts: tuple[tuple[str, ...], ...] = ()
    """Paths inside the variable. Where code gives what is at one of them a further name, the outcome says so (`Outcome.same`)
    instead of sending the value again. The empty path is the variable itself. Other values always come back as data."""
    kept: bool = False
    """An earlier run left it: if code changes it in place, it comes back as if the code had assigned it (`Outcome.bound`)."""
    is_hidden: bool = False
    """What the state refers to by this name is found, but the code does not find the name: it is the host's own."""
    is_name_only: bool = False
    """It only says that the name is bound: it is never loaded, and code that reads it gets an error."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The names of a session as one run has written them."""

    contents: bytes = field(repr=False)
    """A table of contents. A run wrote it: `byref_sandbox.contents` reads it under bounds."""
    names: tuple[str, ...] = ()
    """Of a further snapshot: the names that are taken of it."""


@dataclass(frozen=True, slots=True)
class State:
    """The names that code of a session has bound, with their identity, as its runs wrote them: opaque bytes for the host.

    A host stores `Outcome.state` and its `blobs`, and gives them to the next run of the same session, and to no other. Only a
    run reads them, inside the jail.
    """

    snapshots: tuple[Snapshot, ...]
    """The first is whole. Where two runs began with the same state, the one that ends later is a further snapshot over the other's."""
    blobs: Mapping[bytes, Data | bytes] = field(default_factory=dict, repr=False)
    """What the snapshots refer to, by digest (BLAKE3). A blob is loaded only if a run needs it."""
    missing: Mapping[bytes, str] = field(default_factory=dict)
    """Why some of them cannot be read: names that need them are lost, and are said to be."""
    without: tuple[str, ...] = ()
    """Names in it that stand for something else by now."""
    shown: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Digests of the data that the host has of names (`Bound.digest`): what is the same is not sent again."""
    definitions: tuple[str, ...] | None = None
    """Definitions of functions and classes in it that the code uses, if the host has looked for them already."""
    last: bytes = field(default=b"", repr=False)
    """The last value of the runs before (`Outcome.last`): `_` in this one."""
    is_foreign: bool = False
    """Another version of Python or of a library wrote it: functions and classes are defined again from their text, and all
    else is lost, unless it is given as `Data` that is `kept`."""


class Unusable(ValueError):
    """The data cannot be bound as asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Exact:
    """A value of content type `EXACT`, still as bytes: only a run decodes it."""

    data: bytes


def type_of_tables(reading: str) -> str:
    """Return the content type of a text that is read as tables in this way."""
    return _TABLES + reading


def reading_of(content_type: str) -> str | None:
    """Return how a text of a content type is read as tables; None if it is not read so."""
    return content_type.removeprefix(_TABLES) if content_type.startswith(_TABLES) else None


def decode(content_type: str, payload: bytes | mmap.mmap | memoryview) -> object:
    """Return the value of a payload; raise Unusable."""
    if (reading := reading_of(content_type)) is not None:
        try:
            return tabletext.read(reading, bytes(payload))
        except tabletext.Damaged as error:
            raise Unusable(f"not readable as a table: {error}") from None
    if content_type == EXACT:
        return Exact(bytes(payload))
    if content_type == JSON or content_type.endswith("+json"):
        try:
            return sharing.decode(payload)
        except jsontext.NotJSON as error:
            raise Unusable(f"not JSON: {error}") from None
    if content_type.startswith("text/"):
        text = memoryview(payload)[len(codecs.BOM_UTF8) if payload[:3] == codecs.BOM_UTF8 else 0 :]
        try:
            return str(text, "utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return str(memoryview(payload), "utf-8", "replace")
    return bytes(payload)


def at_path(value: object, path: Sequence[Any]) -> object:
    """Return what is at `path` inside a decoded value: the records, if it has `Every` steps. Raise Unusable."""
    if last := gathering(path):
        value, path = gathered(value, path[:last]), path[last:]
    for step in path:
        try:
            value = value[step]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            raise Unusable(f"there is no {step!r} on the path {list(path)!r}") from None
    return value


def encode(name: str, value: object) -> tuple[str, bytes, bool]:
    """Return content type, payload and whether it is a DataFrame, of a plain value that the host binds; raise TypeError."""
    if isinstance(value, str):
        return TEXT, value.encode("utf-8", "surrogatepass"), False
    if isinstance(value, bytes | bytearray | memoryview):
        return BYTES, bytes(value), False
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame | pandas.Series):
        from byref_sandbox.values import exact

        try:
            return EXACT, exact.encode(value), isinstance(value, pandas.DataFrame)
        except exact.NotExact as error:
            raise TypeError(f"variable {name!r} cannot be bound: {error}") from None
    return JSON, encode_json(name, value), False


def encode_exactly(value: object) -> tuple[str, bytes]:
    """Return content type and payload of a value with its types: JSON or text where those give it back as it was; raise TypeError."""
    if type(value) is str:
        return TEXT, value.encode("utf-8", "surrogatepass")
    try:
        encoded = msgspec.json.encode(value)
        if plain.is_json(value, encoded):
            return JSON, encoded
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass  # no JSON: lone surrogates, say
    from byref_sandbox.values import exact

    try:
        return EXACT, exact.encode(value)
    except exact.NotExact as error:
        raise TypeError(f"it is no data: {error}") from None


def encode_json(name: str, value: object) -> bytes:
    """Return a plain value as JSON; raise TypeError that names the variable."""
    import json

    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"variable {name!r} cannot be bound: {error}. Give plain data (what JSON can hold), str, bytes, "
            f"a DataFrame or a Data"
        ) from None
