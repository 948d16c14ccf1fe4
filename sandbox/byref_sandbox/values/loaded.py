"""Payloads as far as they are decoded: values that code uses, and tables where it makes DataFrames."""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from byref_sandbox import wire
from byref_sandbox.jail.libc import give_back_memory
from byref_sandbox.jsontext import collector_paused
from byref_sandbox.values import construct, data, sqltables, tables
from byref_sandbox.values.bindings import frame_of
from byref_sandbox.values.construct import Constructed

_ABSENT = object()
_Kind = tuple[dict[bytes, Any], frozenset[bytes], Callable[[bytes | mmap.mmap, list[str | int]], pd.DataFrame | None]]
"""Tables by path, those that are wanted, and what reads one out of JSON."""
_BIG_BYTES: Final = 64 << 20
_FEW_PATHS: Final = 4
"""Paths whose tables are read out of the text, which is scanned once for each step of each. For more paths the value is decoded, once."""
_FEW_STEPS: Final = 8
CALL_SECONDS: Final = 0.5
"""Processor time that a call may take in its zygote for tables, beside the time for the data that it loads."""


class Budget:
    """Processor time for the tables of one call. They are made before its run, where none of its limits hold."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._left = seconds

    @property
    def is_spent(self) -> bool:
        """Whether it is used up: then the run makes what is missing."""
        return self._left <= 0

    def grow(self, seconds: float) -> None:
        """Add time for further work."""
        self._left += seconds

    @contextlib.contextmanager
    def charged(self) -> Iterator[None]:
        """Charge the processor time that is used in here."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._left -= time.thread_time() - began


@dataclass(slots=True)
class Loaded:
    """One payload, as far as it was decoded."""

    value: object = _ABSENT
    frames: dict[bytes, pd.DataFrame] = field(default_factory=dict)
    """DataFrames, by the path of their records."""
    tables: dict[bytes, Any] = field(default_factory=dict)
    """Those of them that a query read, as Arrow tables."""
    constructed: dict[bytes, Constructed | None] = field(default_factory=dict)
    """What pandas itself makes of the records, by their path; None where only pandas can tell."""
    left: set[bytes] = field(default_factory=set)
    """Paths whose tables each run has to make itself, under its own limits."""
    size: int = 0
    """About how many bytes of memory it takes."""

    @property
    def has_value(self) -> bool:
        """Whether the value was decoded."""
        return self.value is not _ABSENT

    def at(self, path: bytes) -> object:
        """Return what is at a path inside the value; raise Unusable."""
        return data.at_path(self.value, json.loads(path))

    def lacks(self, wanted: Wanted) -> bool:
        """Whether the payload is needed to make what is wanted."""
        missing = wanted.frames - self.frames.keys() or wanted.constructed - self.constructed.keys()
        return not self.has_value and (wanted.value or bool(missing))

    def load(self, content_type: str, raw: bytes | mmap.mmap, wanted: Wanted, budget: Budget) -> None:
        """Decode a payload as far as it is wanted; raise Unusable."""
        if (reading := data.reading_of(content_type)) is not None:
            raw = bytes(raw)
            self._load_frames(reading, raw, wanted, budget)
        is_json = content_type == data.JSON or content_type.endswith("+json")
        kinds: tuple[_Kind, ...] = (
            (self.frames, wanted.frames, tables.from_json),
            (self.constructed, wanted.constructed, construct.from_json),
        )
        missing = [(made, path, json.loads(path), read) for made, paths, read in kinds for path in paths - made.keys()]
        if is_json and not wanted.value and len(missing) <= _FEW_PATHS:
            for made, path, steps, read in missing:
                if budget.is_spent or len(steps) > _FEW_STEPS:
                    break
                with budget.charged():
                    frame = read(raw, steps)
                if frame is None:
                    break  # then the value is decoded
                made[path] = frame
        if not is_json or self.lacks(wanted):
            self.value = data.decode(content_type, raw)

    def _load_frames(self, reading: str, raw: bytes, wanted: Wanted, budget: Budget) -> None:
        """Make the wanted DataFrames of tables in a text, as far as they need no list of records."""
        from byref_sandbox.values import readings

        for path in wanted.frames - self.frames.keys():
            if budget.is_spent:
                return
            with budget.charged():
                frame = readings.frame(reading, raw, json.loads(path))
            if frame is not None:
                self.frames[path] = frame

    def is_to_build(self, wanted: Wanted, *, arrow: bool) -> bool:
        """Whether a table is wanted that was neither built nor left to the runs."""
        missing = wanted.frames - self.frames.keys() - self.left or wanted.constructed - self.constructed.keys()
        return bool(
            (self.has_value and missing)
            or (arrow and wanted.frames & self.frames.keys() - self.tables.keys() - self.left)
        )

    def build(self, wanted: Wanted, budget: Budget) -> None:
        """Build the DataFrames that are wanted.

        A value that is no table, or a huge one, is left to the run from now on: there its limits hold, and its error names the
        line. What is beyond the budget is left to this run alone.
        """
        for path in wanted.frames - self.frames.keys() - self.left if self.has_value else ():
            if budget.is_spent:
                return
            try:
                with budget.charged(), collector_paused():
                    value = self.at(path)
                    if not tables.is_built_quickly(value):
                        raise data.Unusable("more cells than data")
                    self.frames[path] = frame_of(value)
            except Exception:  # noqa: BLE001  of whatever kind: the run meets it again
                self.left.add(path)
        for path in wanted.constructed - self.constructed.keys() if self.has_value else ():
            if budget.is_spent:
                return
            with budget.charged(), collector_paused():
                try:
                    self.constructed[path] = construct.from_records(self.at(path))
                except Exception:  # noqa: BLE001  the same
                    self.constructed[path] = None

    def build_arrow(self, wanted: Wanted, budget: Budget) -> None:
        """Make Arrow tables of the DataFrames that are wanted and built; one that cannot be made is left to the run."""
        for path in wanted.frames & self.frames.keys() - self.tables.keys() - self.left:
            if budget.is_spent:
                return
            try:
                with budget.charged():
                    self.tables[path] = sqltables.arrow_of(self.frames[path], is_data=True)
            except Exception:  # noqa: BLE001  of whatever kind: the run meets it again
                self.left.add(path)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request wants of one payload."""

    value: bool
    frames: frozenset[bytes]
    """Paths of records of which it makes DataFrames: `df(orders)`."""
    constructed: frozenset[bytes] = frozenset()
    """Paths of records of which it makes them as pandas does: `pd.DataFrame(orders)`."""


def wanted_of(request: wire.Request) -> list[Wanted]:
    """Return what a request wants of each of its payloads."""
    values = {file.payload for file in request.files}
    if request.state is not None:
        values.update(request.state.blobs.values())
    frames: dict[int, set[bytes]] = {}
    constructed: dict[int, set[bytes]] = {}
    for variable in request.variables:
        if variable.is_value:
            values.add(variable.payload)
        if variable.is_table or variable.frame:
            frames.setdefault(variable.payload, set()).add(variable.path)
        if variable.is_constructed:
            constructed.setdefault(variable.payload, set()).add(variable.path)
    return [
        Wanted(index in values, frozenset(frames.get(index, ())), frozenset(constructed.get(index, ())))
        for index in range(len(request.payloads))
    ]


class Store:
    """What a session zygote has decoded, by key. Beyond `max_bytes` the least recently used entries are dropped."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, Loaded] = OrderedDict()

    @property
    def held_bytes(self) -> int:
        """About how many bytes of memory all entries take."""
        return sum(entry.size for entry in self._entries.values())

    @property
    def has_big_tables(self) -> bool:
        """Whether a standby rehearses work on tables, which costs it some megabytes."""
        return self.held_bytes >= _BIG_BYTES and any(entry.frames for entry in self._entries.values())

    def entry(self, key: str) -> Loaded:
        """Return the entry of a key, which may be new and empty. It is now the most recently used."""
        entry = self._entries.setdefault(key, Loaded())
        self._entries.move_to_end(key)
        return entry

    def trim(self, pinned: Collection[str]) -> None:
        """Drop the least recently used entries that are not in `pinned`, until the rest fits."""
        held = before = self.held_bytes
        for key in list(self._entries):
            if held <= self._max_bytes:
                break
            if key not in pinned:
                held -= self._entries.pop(key).size
        if held < before:
            give_back_memory()
