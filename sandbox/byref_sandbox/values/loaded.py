"""What is decoded of the payloads a run needs: values where the code uses them, tables where it makes DataFrames."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from byref_sandbox import wire
from byref_sandbox.jsontext import collector_paused
from byref_sandbox.values import data, sqltables, tables
from byref_sandbox.values.bindings import frame_of

_ABSENT = object()
_BIG_BYTES: Final = 64 << 20
_FEW_PATHS: Final = 4
"""The text is read once for each, and for each of its steps; of more the value is decoded, once for all."""
_FEW_STEPS: Final = 8
CALL_SECONDS: Final = 0.5
"""What tables may take a call in its zygote, beside the time for the data it loads."""


class Budget:
    """Processor time for the tables of one call; made before its run, they are under none of its limits."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._left = seconds

    @property
    def is_spent(self) -> bool:
        """Whether what is left to make is left to the run."""
        return self._left <= 0

    def grow(self, seconds: float) -> None:
        """There is more to do."""
        self._left += seconds

    @contextlib.contextmanager
    def charged(self) -> Iterator[None]:
        """Takes off what is done in here."""
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
    """By the path of their records."""
    tables: dict[bytes, Any] = field(default_factory=dict)
    """The same as Arrow tables, of those that a query read."""
    left: set[bytes] = field(default_factory=set)
    """Paths whose tables each run has to make for itself, if it can."""
    size: int = 0
    """About its memory."""

    @property
    def has_value(self) -> bool:
        """Whether the value was made."""
        return self.value is not _ABSENT

    def at(self, path: bytes) -> object:
        """What is at a path inside the value; raises Unusable."""
        return data.at_path(self.value, json.loads(path))

    def lacks(self, wanted: Wanted) -> bool:
        """Whether the payload itself is needed for what is wanted."""
        return not self.has_value and (wanted.value or bool(wanted.frames - self.frames.keys()))

    def load(self, content_type: str, raw: bytes, wanted: Wanted, budget: Budget) -> None:
        """Decodes a payload as far as it is wanted; raises Unusable."""
        is_json = content_type == data.JSON or content_type.endswith("+json")
        missing = {path: json.loads(path) for path in wanted.frames - self.frames.keys()}
        if is_json and not wanted.value and len(missing) <= _FEW_PATHS:
            for path, steps in missing.items():
                if budget.is_spent or len(steps) > _FEW_STEPS:
                    break
                with budget.charged():
                    frame = tables.from_json(raw, steps)
                if frame is None:
                    break  # the value is decoded
                self.frames[path] = frame
        if not is_json or self.lacks(wanted):
            self.value = data.decode(content_type, raw)

    def is_to_build(self, wanted: Wanted, *, arrow: bool) -> bool:
        """Whether a table is wanted that is not there, and was not left to the runs before."""
        missing = wanted.frames - self.frames.keys() - self.left if self.has_value else frozenset[bytes]()
        return bool(missing or (arrow and wanted.frames & self.frames.keys() - self.tables.keys() - self.left))

    def build(self, wanted: Wanted, budget: Budget) -> None:
        """Makes the DataFrames that are wanted of the value; what is no table, or a huge one, is left to the run.

        There the code can be named, and its limits hold. So is what is beyond the budget, but for this run alone.
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

    def build_arrow(self, wanted: Wanted, budget: Budget) -> None:
        """Makes Arrow tables of the DataFrames that are wanted and there; one that cannot be made is left to the run."""
        for path in wanted.frames & self.frames.keys() - self.tables.keys() - self.left:
            if budget.is_spent:
                return
            try:
                with budget.charged():
                    self.tables[path] = sqltables.arrow_of(self.frames[path])
            except Exception:  # noqa: BLE001  of whatever kind: the run meets it again
                self.left.add(path)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request wants of one payload."""

    value: bool
    frames: frozenset[bytes]


def wanted_of(request: wire.Request) -> list[Wanted]:
    """What a request wants of each of its payloads."""
    values = {file.payload for file in request.files}
    frames: dict[int, set[bytes]] = {}
    for variable in request.variables:
        if variable.is_value:
            values.add(variable.payload)
        if variable.is_table or variable.frame:
            frames.setdefault(variable.payload, set()).add(variable.path)
    return [Wanted(index in values, frozenset(frames.get(index, ()))) for index in range(len(request.payloads))]


class Store:
    """What a session zygote keeps decoded, by key: least recently used out first beyond `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, Loaded] = OrderedDict()

    @property
    def held_bytes(self) -> int:
        """About the memory of what is kept."""
        return sum(entry.size for entry in self._entries.values())

    @property
    def has_big_tables(self) -> bool:
        """Whether runs that compute with tables are worth some megabytes of a standby's."""
        return self.held_bytes >= _BIG_BYTES and any(entry.frames for entry in self._entries.values())

    def entry(self, key: str) -> Loaded:
        """What is kept under a key, perhaps nothing yet; it is now the most recently used."""
        entry = self._entries.setdefault(key, Loaded())
        self._entries.move_to_end(key)
        return entry

    def trim(self, pinned: Collection[str]) -> None:
        """Lets the least recently used go that are not in `pinned`, until the rest fits."""
        held = self.held_bytes
        for key in list(self._entries):
            if held <= self._max_bytes:
                return
            if key not in pinned:
                held -= self._entries.pop(key).size
