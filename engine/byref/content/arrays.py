"""Tables, arrays and scalars of NumPy, pandas, pyarrow and polars as records, lists and Python's own objects."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from byref_sandbox.values.fields import with_whole_minutes

__all__ = ["NO_TABLE", "key_text", "of_arrow", "of_numpy", "of_pandas", "unique"]

NO_TABLE: Final = object()
"""What `of_arrow` returns of an object that is neither a table nor an array nor a scalar."""
_POWERS = {"s": 0, "ms": 3, "us": 6, "ns": 9, "ps": 12, "fs": 15, "as": 18}
"""How many digits behind the seconds a unit of time has."""


def of_numpy(value: Any) -> object:
    """Return an array or a scalar of NumPy's as lists, records or an object of Python's."""
    if getattr(value, "dtype", None) is not None and value.dtype.names:
        return _of_fields(value)
    listed = _listed(value)
    return str(listed) if type(listed) in (complex, type(value)) else listed


def _of_fields(value: Any) -> object:
    """Return a structured array of NumPy's as records, and one element of it as an object."""
    names = value.dtype.names
    if value.ndim != 1:
        return list(value) if value.ndim else {name: value[name] for name in names}
    columns = [list(value[name]) if value.dtype[name].names else _listed(value[name]) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def of_pandas(value: Any) -> object:
    """Return a frame, or a series with an index of its own, as records, an index or another series as a list, a scalar as Python's object or text."""
    pandas = sys.modules["pandas"]
    if isinstance(value, pandas.DataFrame):
        return _records(value)
    if isinstance(value, pandas.Series):
        if isinstance(value.index, pandas.RangeIndex):
            return _column(value)
        return _records(value.rename("value" if value.name is None else value.name).to_frame())
    if isinstance(value, pandas.MultiIndex):
        return value.tolist()
    if isinstance(value, pandas.Index | pandas.api.extensions.ExtensionArray):
        return _column(pandas.Series(value))
    if pandas.api.types.is_scalar(value) and pandas.isna(value):
        return None
    if isinstance(value, datetime):
        value = with_whole_minutes(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _records(frame: Any) -> list[dict[str, object]]:
    """Return one dict per row. An index other than a RangeIndex becomes a column; repeated column names get a number."""
    pandas = sys.modules["pandas"]
    index = frame.index
    levels = [] if isinstance(index, pandas.RangeIndex) else [index.get_level_values(i) for i in range(index.nlevels)]
    labels = [f"index_{i}" if i else "index" for i in range(len(levels))]
    labels = [label if level.name is None else level.name for label, level in zip(labels, levels, strict=True)]
    # A column keeps its name where a level of the index has the same.
    names = [*unique(map(_label, [*frame.columns, *labels]))]
    names = names[len(frame.columns) :] + names[: len(frame.columns)]
    columns = [_column(pandas.Series(level)) for level in levels]
    columns += [_column(frame.iloc[:, i]) for i in range(len(frame.columns))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else []


def _label(name: object) -> str:
    if isinstance(name, tuple):
        return ".".join(map(_label, name))
    # pandas reads None among names of text as NaN
    return "null" if isinstance(name, float) and name != name else key_text(name)


def unique(columns: Iterable[str]) -> dict[str, None]:
    """Return the names of columns or members, of which those that come again have a number."""
    names: dict[str, None] = {}
    last: Counter[str] = Counter()
    for stem in columns:
        name = stem
        while name in names:
            last[stem] += 1
            name = f"{stem}_{last[stem] + 1}"
        names[name] = None
    return names


def _column(series: Any) -> list[object]:
    """Return the values of a column as Python objects, with None for missing ones."""
    if isinstance(series.dtype, sys.modules["pandas"].ArrowDtype):
        return _cells(series.array.__arrow_array__())
    values: list[object] = series.tolist()
    return [None if missing else value for value, missing in zip(values, series.isna().tolist(), strict=True)]


def of_arrow(value: Any) -> object:
    """Return a table of pyarrow or polars as records, an array or a scalar as its values; `NO_TABLE` if it is none."""
    import pyarrow

    if isinstance(value, pyarrow.Scalar):
        return _cells(pyarrow.array([value], value.type))[0]
    if isinstance(value, pyarrow.Table | pyarrow.RecordBatch):
        names, columns = unique(value.column_names), value.columns
    elif callable(get_columns := getattr(value, "get_columns", None)):
        names, columns = unique(value.columns), get_columns()
    else:
        is_array = isinstance(value, pyarrow.Array | pyarrow.ChunkedArray) or hasattr(value, "to_arrow")
        return _cells(value) if is_array else NO_TABLE
    if not names:
        return [{}] * len(value)
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_cells, columns), strict=True)]


def _cells(array: Any) -> list[Any]:
    """Return the values of an array of pyarrow or a series of polars."""
    from byref_sandbox.arrowcells import cells

    if hasattr(array, "to_arrow"):
        arrow = None
        with suppress(Exception, SystemExit, GeneratorExit):  # integers of 128 bits
            arrow = None if "Object" in str(array.dtype) else array.to_arrow()  # of objects it gives addresses
        if arrow is None:
            return array.to_list()  # type: ignore[no-any-return]
        array = arrow
    return cells(array, unique, _durations)


def _durations(array: Any) -> list[Any]:
    """Return the values of an array of Arrow, durations with all their digits."""
    import pyarrow

    if not pyarrow.types.is_duration(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]
    power = _POWERS[array.type.unit]
    return [None if count is None else _duration(count, power) for count in array.cast(pyarrow.int64()).to_pylist()]


def _listed(value: Any) -> Any:
    """Return an array or a scalar of NumPy as Python's objects: moments and durations that `datetime` cannot hold as texts."""
    listed = value.tolist()
    if (kind := getattr(getattr(value, "dtype", None), "kind", None)) not in ("M", "m"):
        return listed
    numpy = sys.modules["numpy"]
    unit, step = numpy.datetime_data(value.dtype)
    if unit == "generic":
        return listed
    if kind == "M":
        return _texts(listed, lambda count: _trimmed(str(numpy.datetime64(count, (unit, step)))))
    if unit in _POWERS:
        return _texts(listed, lambda count: _duration(count * step, _POWERS[unit]))
    return _texts(listed, lambda count: str(numpy.timedelta64(count, (unit, step))))


def _texts(listed: Any, text: Callable[[int], str]) -> Any:
    if isinstance(listed, list):
        return [_texts(one, text) for one in listed]
    return text(listed) if isinstance(listed, int) else listed


def _trimmed(moment: str) -> str:
    """Return a moment without the zeros that its unit writes behind the seconds."""
    return moment.rstrip("0").rstrip(".") if "." in moment else moment


def _duration(count: int, power: int) -> str:
    """Return a duration of so many units, 10**-power seconds each, as ISO 8601 writes it."""
    seconds, part = divmod(abs(count), 10**power)
    days, seconds = divmod(seconds, 86_400)
    fraction = f".{part:0{power}}".rstrip("0") if part else ""
    clock = f"T{seconds}{fraction}S" if seconds or part else ""
    return f"{'-' if count < 0 else ''}P{f'{days}D' if days or not clock else ''}{clock}"


def key_text(key: object) -> str:
    """Return a key of a dict, or a column's name, as JSON writes it."""
    if isinstance(key, str):
        return str.__str__(key)
    return "null" if key is None else str(key).lower() if isinstance(key, bool) else str(key)
