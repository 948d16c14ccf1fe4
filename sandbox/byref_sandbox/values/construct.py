"""The DataFrame that `pd.DataFrame(records)` is, made without pandas looking at each cell; None where that cannot be promised.

It reads the same JSON as `tables` does, but follows pandas' own rules: text stays text, whatever it says, and a missing member is NaN,
not None. Where those rules depend on more than the kinds of a column's values, that column is made by pandas.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from byref_sandbox.values import tables

_NONE: Final = type(None)
_EXACT: Final = 2.0**53


class Constructed(pd.DataFrame):
    """Stands for records that the code only hands to `pd.DataFrame`: of this it makes the DataFrame that it would make of them."""


def from_json(payload: bytes | mmap.mmap, path: Sequence[str | int]) -> Constructed | None:
    """Return what pandas makes of the records at `path`; None where there is no array of objects, or its value has to be decoded for it."""
    frame = tables.from_json(payload, path, _PANDAS)
    return None if frame is None else Constructed(frame)


def from_records(value: object) -> Constructed | None:
    """Return what pandas makes of decoded records; None if they are none, or may be many more cells than members.

    Raise what pandas raises.
    """
    if type(value) is not list or not value or not all(type(record) is dict for record in value):
        return None
    return Constructed(pd.DataFrame(value)) if any(value) and tables.is_built_quickly(value) else None


def expect(made: Iterable[tuple[object, Constructed]]) -> None:
    """In a run: have `pd.DataFrame(value)` take what is made of a value already. Nothing may change these values."""
    _expected.update({id(value): (value, frame) for value, frame in made})


def install() -> None:
    """Have `pd.DataFrame` look for what is expected, once in a process."""
    begin = pd.DataFrame.__init__
    if hasattr(begin, "__wrapped__"):
        return

    @functools.wraps(begin)
    def __init__(  # noqa: N807
        self: pd.DataFrame,
        data: Any = None,
        index: Any = None,
        columns: Any = None,
        dtype: Any = None,
        copy: Any = None,
    ) -> None:
        if type(data) is list and index is None and columns is None and dtype is None:
            data = _expected.get(id(data), (None, data))[1]
        begin(self, data, index, columns, dtype, copy)  # type: ignore[call-arg]

    setattr(pd.DataFrame, "__init__", __init__)  # noqa: B010


_expected: dict[int, tuple[object, Constructed]] = {}
"""By the id of a value; each is held, so that no other object gets its id."""


def _of_arrow(values: Any) -> pd.Series[Any] | None:
    """Make a column of flat values. Arrow reads a missing member as null and `-0` as a negative zero, so it is left where that shows."""
    if values.type == pa.string():
        texts = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        made: pd.Series[Any] = texts.to_pandas(use_threads=False)
        return made
    if values.null_count and values.type == pa.bool_():
        return None
    numbers = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    if numbers.dtype.kind == "f" and (not _is_exact(numbers) or bool((np.signbit(numbers) & (numbers == 0)).any())):
        return None
    return pd.Series(numbers if numbers.flags.writeable else numbers.copy(), copy=False)


def _of_list(values: list[Any]) -> pd.Series[Any]:
    """Make a column of decoded values, where NaN stands for a missing member."""
    kinds = set(map(type, values))
    try:
        if kinds == {int}:
            return pd.Series(np.array(values, dtype=np.int64), copy=False)
        if kinds == {bool}:
            return pd.Series(np.array(values, dtype=bool), copy=False)
        if kinds <= {int, float, _NONE} and kinds != {_NONE} and (int in kinds or _has_numbers(values)):
            numbers = np.array(values, dtype=np.float64)
            if int not in kinds or _is_exact(numbers):
                return pd.Series(numbers, copy=False)
        if str in kinds and kinds <= {str, float, _NONE} and (float not in kinds or not _has_numbers(values)):
            made: pd.Series[Any] = pa.array(values, pa.string(), from_pandas=True).to_pandas(use_threads=False)
            return made
    except (OverflowError, ValueError, pa.ArrowException):  # beyond 64 bits, lone surrogates
        pass
    return pd.DataFrame([(value,) for value in values])[0]


def _has_numbers(values: list[Any]) -> bool:
    """Whether one of the floats is a number, not what stands for a missing member."""
    return any(type(value) is float and value == value for value in values)


def _is_exact(numbers: Any) -> bool:
    """Whether integers among these floats were floats already, or are exact: beyond that, what pandas makes of them depends on the others."""
    return bool((np.abs(numbers[~np.isnan(numbers)]) <= _EXACT).all())


_PANDAS: Final = tables.Rules(float("nan"), _of_arrow, _of_list)
