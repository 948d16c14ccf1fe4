"""A column of a table that comes in parts, each of which is put where it stays.

Parts that are kept until all are there take memory for the whole column once more when they are put together, and new memory is slow:
the kernel has to clear it, and where the machine is a virtual one, its host has to find it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_MORE: Final = 1.1
"""So much more room is taken than the parts so far let expect."""
_ROOM: Final = 4_096
_MAX_OFFSET: Final = 2**31 - 1
_FIXED: Final = {pa.int64(): np.dtype(np.int64), pa.float64(): np.dtype(np.float64)}


class Column:
    """The parts of one column so far. Those with nulls, and those of truth values, are kept as they are, with all that come after them."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._is_text = type_ == pa.string()
        self._parts: list[pa.Array] = []
        self._rows = self._at = 0
        """Values in the buffers, and where the next value begins in the buffer of values."""
        self._values: npt.NDArray[Any] = np.empty(0, np.uint8 if self._is_text else _FIXED.get(type_))
        self._offsets = np.zeros(1, np.int32)
        """Of texts."""

    def add(self, part: pa.Array, share: float) -> None:
        """Add values. `share` is the part of the whole that has come, with these."""
        if not len(part):
            return
        if self._parts or part.null_count or (part.type not in _FIXED and not self._is_text):
            self._parts.append(part)
            return
        rows, begin = len(part), part.offset
        buffers = part.buffers()
        if self._is_text:
            offsets = np.frombuffer(buffers[1], np.int32)[begin : begin + rows + 1]
            first, last = int(offsets[0]), int(offsets[-1])
            if self._at + last - first > _MAX_OFFSET:
                self._parts.append(part)
                return
            data = np.frombuffer(buffers[2] or b"", np.uint8)[first:last]
            self._offsets = _with_room(self._offsets, self._rows + 1, rows, share)
            np.add(offsets[1:], self._at - first, out=self._offsets[self._rows + 1 : self._rows + 1 + rows])
        else:
            data = np.frombuffer(buffers[1], self._values.dtype)[begin : begin + rows]
        self._values = _with_room(self._values, self._at, len(data), share)
        self._values[self._at : self._at + len(data)] = data
        self._at += len(data)
        self._rows += rows

    def whole(self) -> Any:
        """Return all values."""
        values = pa.py_buffer(self._values[: self._at])
        buffers = [None, values]
        if self._is_text:
            buffers = [None, pa.py_buffer(self._offsets[: self._rows + 1]), values]
        if self._parts and not self._rows:
            return pa.chunked_array(self._parts, self._type)
        return pa.chunked_array([pa.Array.from_buffers(self._type, self._rows, buffers), *self._parts], self._type)


def _with_room(buffer: npt.NDArray[Any], used: int, more: int, share: float) -> npt.NDArray[Any]:
    """Return a buffer, or a larger copy of its used part, with room for some more: for as much as is to come, where it has to grow."""
    if used + more <= len(buffer):
        return buffer
    larger = np.empty(max(int((used + more) / share * _MORE), used + more) + _ROOM, buffer.dtype)
    larger[:used] = buffer[:used]
    return larger
