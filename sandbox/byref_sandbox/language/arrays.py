"""numpy's ways to look at memory, in the form the language has them: no further than an array reaches."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from byref_sandbox.language.inspecting import is_own_frame
from byref_sandbox.language.refusal import NotAllowed


class _AnyRecordArray(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, np.recarray)


class RecordArray(np.recarray[Any, Any], metaclass=_AnyRecordArray):
    """`np.recarray` for views alone: its constructor would take any bytes for objects."""

    def __new__(cls, *_arguments: object, **_options: object) -> RecordArray:
        """Refused."""
        raise NotAllowed("recarray() cannot be called", "use array.view(np.recarray) or a DataFrame")


RecordArray.__name__ = RecordArray.__qualname__ = "recarray"
RecordArray.__module__ = "numpy"


def check_buffer(buffer: Any, what: str) -> None:
    """Raise NotAllowed where a buffer is of objects: bytes that are written there are addresses."""
    array = buffer if isinstance(buffer, np.ndarray) else np.asarray(memoryview(buffer))
    if array.dtype.hasobject:
        raise NotAllowed(f"{what} of objects is not available", "use array.tolist(), or np.array(list, dtype=...)")


def frombuffer(buffer: Any, *arguments: Any, **options: Any) -> Any:
    """`np.frombuffer`, but not of objects."""
    check_buffer(buffer, "frombuffer()")
    return np.frombuffer(buffer, *arguments, **options)


def chararray(shape: Any, itemsize: int = 1, unicode: bool = False, *, order: Any = "C") -> Any:
    """`np.char.chararray` over memory of its own."""
    make: Any = np.char.chararray
    return make(shape, itemsize, unicode, order=order)


def resize(method: Callable[..., Any], _name: str) -> Callable[..., Any]:
    """`array.resize` of an array that one variable holds and nothing else: all else would point to freed memory.

    numpy's own check lets one holder through, and does not ask whether it is a view.
    """

    def call(*shape: Any, refcheck: bool = True) -> None:
        lengths = [tuple(map(operator.index, n)) if isinstance(n, tuple | list) else operator.index(n) for n in shape]
        frame = sys._getframe(1)
        array = method.__self__  # type: ignore[attr-defined]
        references = sys.getrefcount(array)
        held = is_own_frame(frame.f_globals) and any(
            value is array for space in (frame.f_globals, frame.f_locals) for value in space.values()
        )
        if references > _OF_ONE_VARIABLE or not held:
            raise NotAllowed(
                "this array cannot be resized: more than one variable holds it", "use np.resize(array, shape)"
            )
        method(*lengths, refcheck=False)

    return call


_OF_ONE_VARIABLE = 4
"""References to an array while `resize` runs: the variable's, the method's, its own, that of the count."""


def as_strided(
    x: Any,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    subok: bool = False,
    writeable: bool = True,
) -> Any:
    """`np.lib.stride_tricks.as_strided` within the memory of `x`; raises NotAllowed beyond it, and for arrays of objects."""
    array = np.array(x, copy=None, subok=False)
    if array.dtype.hasobject:
        raise NotAllowed("as_strided() of objects is not available", "use slices")
    lengths = array.shape if shape is None else tuple(operator.index(n) for n in shape)
    steps = array.strides if strides is None else tuple(operator.index(n) for n in strides)
    if len(lengths) != len(steps) or min(lengths, default=0) < 0:
        raise ValueError("shape and strides must be of the same length, and no length negative")
    start = array.__array_interface__["data"][0]
    first, end = np.lib.array_utils.byte_bounds(array)
    reach = [(n - 1) * step for n, step in zip(lengths, steps, strict=True)]
    before = start + sum(min(0, distance) for distance in reach)
    after = start + sum(max(0, distance) for distance in reach) + array.itemsize
    if 0 not in lengths and (before < first or after > end):
        raise NotAllowed("as_strided() cannot look beyond its array", "use np.lib.stride_tricks.sliding_window_view()")
    return np.lib.stride_tricks.as_strided(array, lengths, steps, writeable=bool(writeable))
