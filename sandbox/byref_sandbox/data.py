"""Data on its way into a run: named on the host's side, decoded on the other."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from byref_sandbox import jsontext

if TYPE_CHECKING:
    import pandas as pd

JSON: Final = "application/json"
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"

Load = Callable[[], bytes | Iterable[bytes]]
"""Reads a payload, whole or in pieces."""


@dataclass(frozen=True, slots=True)
class Data:
    """A value that is stored somewhere: named by its digest, and read only when no warm session holds it yet."""

    key: str
    """Names the payload: equal keys mean equal bytes."""
    load: Load
    content_type: str = JSON
    """application/json is bound as its value, text/* as str, anything else as bytes."""
    path: tuple[str | int, ...] = ()
    """Where inside the JSON value the variable is."""
    frame: bool = False
    """Bound as a DataFrame of its records."""


class Unusable(ValueError):
    """The data cannot be bound as asked; the message says why."""


def decode(content_type: str, payload: bytes) -> object:
    """The value of a payload; raises Unusable."""
    if content_type == JSON or content_type.endswith("+json"):
        try:
            return jsontext.decode(payload)
        except jsontext.NotJSON as error:
            raise Unusable(f"not JSON: {error}") from None
    if content_type.startswith("text/"):
        try:
            return payload.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return payload.decode("utf-8", "replace")
    return payload


def at_path(value: object, path: Collection[str | int]) -> object:
    """What is at `path` inside a decoded value; raises Unusable."""
    for step in path:
        try:
            value = value[step]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            raise Unusable(f"there is no {step!r} on the path {list(path)!r}") from None
    return value


def encode(name: str, value: object) -> tuple[str, bytes, bool]:
    """Content type, payload and whether it is a DataFrame, of a plain value the host binds; raises TypeError."""
    if isinstance(value, str):
        return TEXT, value.encode("utf-8", "surrogatepass"), False
    if isinstance(value, bytes | bytearray | memoryview):
        return BYTES, bytes(value), False
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        from byref_sandbox.values import records_json

        return JSON, records_json(value), True
    return JSON, encode_json(name, value), False


def encode_json(name: str, value: object) -> bytes:
    """JSON of a plain value; raises TypeError naming the variable."""
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


@dataclass(slots=True)
class _Entry:
    value: object
    frames: dict[bytes, pd.DataFrame]
    size: int


class Store:
    """What a session zygote keeps decoded, by key: least recently used out first beyond `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    @property
    def held_bytes(self) -> int:
        """About the memory of what is kept."""
        return sum(entry.size for entry in self._entries.values())

    def add(self, key: str, value: object, size: int, pinned: Collection[str]) -> None:
        """Keeps a value of about `size` bytes, and lets the oldest go that are not in `pinned`."""
        self._entries[key] = _Entry(value, {}, size)
        self.trim(pinned)

    def trim(self, pinned: Collection[str]) -> None:
        """Lets the least recently used go until the rest fits."""
        held = self.held_bytes
        for key in list(self._entries):
            if held <= self._max_bytes:
                return
            if key not in pinned:
                held -= self._entries.pop(key).size

    def value(self, key: str) -> object:
        """The decoded value; it is now the most recently used."""
        self._entries.move_to_end(key)
        return self._entries[key].value

    def frame(self, key: str, path: bytes) -> pd.DataFrame | None:
        """The DataFrame built before from what is at `path`, if any."""
        return self._entries[key].frames.get(path)

    def keep_frame(self, key: str, path: bytes, frame: pd.DataFrame, size: int) -> None:
        """Keeps a DataFrame with the value it was built from."""
        self._entries[key].frames[path] = frame
        self._entries[key].size += size
