"""Reads a stream into objects. That is done only in the jailed run that binds them: see the decision "state-graph"."""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from byref_sandbox.state.builders import Builders

NANS: Final = (np.nan, math.nan)
"""What libraries name: these come back as themselves, since `nan in values` looks for the very object."""


class Reader(pickle.Unpickler):
    """Reads what a Writer wrote, name by name, with the same `given` objects.

    It has no globals: a stream can call only the builders. After an error it must not be used again.
    """

    def __init__(
        self, body: bytes, builders: Builders, given: Sequence[object], filler: int, leaves: Iterable[Any]
    ) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, buffers=leaves)
        self._body = body
        self._at = 0
        self._memorized: Sequence[object] = ()
        self._nans: dict[int, float] = dict(enumerate(NANS))
        self._memorize([*builders.all(), *given, *[None] * filler])

    def _memorize(self, objects: Sequence[object]) -> None:
        """Put objects into the memo, under the next numbers.

        A small pickle does that. A memo that is set from outside would be lost with the next object, because CPython counts
        only the entries that it made itself.
        """
        self._memorized = objects
        self._load(b"\x80\x05" + b"".join(b"J%sQ\x940" % n.to_bytes(4, "little") for n in range(len(objects))) + b"N.")
        self._memorized = ()

    def persistent_load(self, pid: Any) -> object:
        """Answer the persistent ids of these small pickles; in other pickles they are those of what is no number."""
        if self._memorized:
            return self._memorized[pid]
        if type(pid) is not int:
            raise pickle.UnpicklingError("no number of what is no number")
        return self._nans.setdefault(pid, float("nan"))

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse: no stream may name a global."""
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a graph"[:200])

    def read(self, size: int, count: int) -> Any:
        """Return the next value, which has `size` bytes and `count` pickles. Raises whatever a forged stream leads to."""
        data = self._body[self._at : self._at + size]
        self._at += size
        value = self._load(data)
        for _ in range(count - 1):
            for obj, fill, state in self.load():
                fill(obj, state)
        return value

    def leave_out(self, size: int, objects: Sequence[object]) -> None:
        """Skip a value. Others refer to its objects by their numbers, and get these objects instead."""
        self._at += size
        self._memorize(objects)

    def _load(self, data: bytes) -> Any:
        self._file.seek(0)
        self._file.truncate()
        self._file.write(data)
        self._file.seek(0)
        return self.load()
