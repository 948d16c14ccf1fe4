"""Arrays, Series, DataFrames and indexes as nodes of `exact`: numpy's bytes, or Arrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from byref_sandbox.values import plain
from byref_sandbox.values.exactnodes import NUMPY_KINDS, NotExact, node, nodes, value_of

_ARROW_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def _write_array(value: Any, depth: int) -> Any:
    if value.dtype.kind in NUMPY_KINDS:
        return ["array", value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()]
    if value.dtype.kind == "O":
        objects = value.ravel().tolist()
        if (data := plain.packed(objects)) is not None:
            return ["plain_objects", list(value.shape), data]
        return ["objects", list(value.shape), nodes(objects, depth)]
    raise NotExact(f"an array of {value.dtype}")


def _array(dtype: str, shape: Sequence[int], data: bytes) -> Any:
    return np.frombuffer(bytearray(data), dtype=dtype_of(dtype)).reshape(shape)


def dtype_of(text: str) -> np.dtype[Any]:
    """Return the dtype of a name; raise ValueError of a dtype whose bytes are no data, such as addresses of objects."""
    dtype = np.dtype(text)
    if dtype.kind not in NUMPY_KINDS:
        raise ValueError(f"dtype {text!r}")
    return dtype


def _objects(shape: Sequence[int], nodes: list[Any]) -> Any:
    return np.fromiter(map(value_of, nodes), dtype=object, count=len(nodes)).reshape(shape)


def _plain_objects(shape: Sequence[int], data: bytes) -> Any:
    objects = plain.unpacked(data)
    return np.fromiter(objects, dtype=object, count=len(objects)).reshape(shape)


def _write_column(series: Any, depth: int) -> Any:
    """Return the node of a column without its index: objects one by one, anything else as numpy's bytes or Arrow."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return _write_array(series.to_numpy(), depth)
    if isinstance(dtype, pd.CategoricalDtype):  # Arrow drops the categories of an empty one
        codes = series.cat.codes.to_numpy()
        return ["categorical", _write_labels(dtype.categories, depth), _write_array(codes, depth), dtype.ordered]
    if isinstance(dtype, pd.SparseDtype):
        array, fill = series.array, node(dtype.fill_value, depth)
        places = array.sp_index.to_int_index().indices
        return ["sparse", len(series), _write_array(places, depth), _write_array(array.sp_values, depth), fill]
    column = series.reset_index(drop=True).to_frame("0")
    column.attrs = {}
    try:
        table = pa.Table.from_pandas(column, preserve_index=False, nthreads=1)
    except (pa.ArrowException, TypeError, ValueError):
        raise NotExact(f"a column of {dtype}") from None
    return ["arrow", _write_table(table)]


def _write_table(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_ARROW_OPTIONS) as stream:
        stream.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _read_table(data: bytes) -> Any:
    with pa.ipc.open_stream(pa.py_buffer(data), options=pa.ipc.IpcReadOptions(use_threads=False)) as stream:
        return stream.read_all()


def _arrow(data: bytes) -> Any:
    return _read_table(data).to_pandas(use_threads=False).iloc[:, 0].rename(None)


def _categorical(labels: Any, codes: Any, ordered: bool) -> Any:
    categories = _column(labels)
    dtype = pd.CategoricalDtype(pd.Index(categories, dtype=categories.dtype), ordered)
    return pd.Series(pd.Categorical.from_codes(value_of(codes), dtype=dtype), copy=False)


def _sparse(length: int, places: Any, present: Any, fill: Any) -> Any:
    found, fill_value = value_of(present), value_of(fill)
    dense = np.full(length, fill_value, dtype=found.dtype)
    dense[value_of(places)] = found
    return pd.Series(pd.arrays.SparseArray(dense, fill_value=fill_value), copy=False)


def _column(node: Any) -> Any:
    made = value_of(node)
    return made if isinstance(made, pd.Series) else pd.Series(made, dtype=made.dtype, copy=False)


def _write_index(index: Any, depth: int) -> Any:
    names = nodes(index.names, depth)
    if type(index) is pd.RangeIndex:
        return ["range_index", index.start, index.stop, index.step, names]
    if isinstance(index, pd.MultiIndex):
        levels = [_write_labels(level, depth) for level in index.levels]
        return ["multi_index", levels, [_write_array(np.asarray(codes), depth) for codes in index.codes], names]
    freq = getattr(index, "freqstr", None) if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex) else None
    return ["index", _write_labels(index, depth), freq, names]


def _write_labels(index: Any, depth: int) -> Any:
    if isinstance(index.dtype, np.dtype):
        return _write_array(index.to_numpy(), depth)
    return _write_column(pd.Series(index.array, dtype=index.dtype), depth)


def _range_index(start: int, stop: int, step: int, names: list[Any]) -> pd.RangeIndex:
    return pd.RangeIndex(start, stop, step, name=value_of(names[0]))


def _multi_index(levels: list[Any], codes: list[Any], names: list[Any]) -> pd.MultiIndex:
    values = [_column(level) for level in levels]
    return pd.MultiIndex(
        levels=[pd.Index(level, dtype=level.dtype) for level in values],
        codes=[value_of(code) for code in codes],
        names=[value_of(name) for name in names],
    )


def _index(column: Any, freq: str | None, names: list[Any]) -> Any:
    values = _column(column)
    index: Any = pd.Index(values, dtype=values.dtype, name=value_of(names[0]))
    if freq is not None:
        index.freq = freq
    return index


def _write_series(series: Any, depth: int) -> Any:
    written = ["series", _write_column(series, depth), _write_index(series.index, depth), node(series.name, depth)]
    return written + _write_attrs(series, depth)


def _series(column: Any, index: Any, name: Any, attrs: Any = None) -> Any:
    made = _column(column)
    made.index, made.name, made.attrs = value_of(index), value_of(name), value_of(attrs) or {}
    return made


def _write_attrs(table: Any, depth: int) -> list[Any]:
    """Return the node of a table's attrs, none where it has none, or where they are more than data."""
    return [node(table.attrs, depth)] if table.attrs and keeps_attrs(table) else []


def keeps_attrs(table: Any) -> bool:
    """Whether a table comes back with all its attrs: they are data."""
    try:
        return type(node(table.attrs, 0)) is list
    except NotExact:
        return False


def _write_frame(frame: Any, depth: int) -> Any:
    """Return the node of a DataFrame. Columns that Arrow holds exactly go together, in one table, the others one by one."""
    in_arrow = [number for number, dtype in enumerate(frame.dtypes) if _is_arrow(dtype)]
    columns: list[Any] = [None] * frame.shape[1]
    if in_arrow:
        part = frame.iloc[:, in_arrow].reset_index(drop=True)
        part.columns, part.attrs = [str(n) for n in in_arrow], {}
        try:
            table = pa.Table.from_pandas(part, preserve_index=False, nthreads=1)
        except (pa.ArrowException, TypeError, ValueError):
            raise NotExact("a DataFrame with a column that is no data") from None
        together: Any = _write_table(table)
    else:
        together = None
    for number in set(range(frame.shape[1])) - set(in_arrow):
        columns[number] = _write_column(frame.iloc[:, number], depth)
    labels, index = _write_index(frame.columns, depth), _write_index(frame.index, depth)
    return ["frame", together, columns, labels, index, *_write_attrs(frame, depth)]


def _is_arrow(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biufmM" and dtype.isnative
    return not isinstance(dtype, pd.CategoricalDtype | pd.SparseDtype)


def _frame(together: bytes | None, columns: list[Any], labels: Any, index: Any, attrs: Any = None) -> Any:
    made = _without_attrs(together, columns, labels, index)
    if attrs is not None:
        made.attrs = value_of(attrs)
    return made


def _without_attrs(together: bytes | None, columns: list[Any], labels: Any, index: Any) -> Any:
    made: dict[str, Any] = {}
    if together is not None:
        frame = _read_table(together).to_pandas(use_threads=False)
        if all(node is None for node in columns):
            frame.columns, frame.index = value_of(labels), value_of(index)
            return frame
        made = {name: frame[name] for name in frame.columns}
    made |= {str(number): _column(node) for number, node in enumerate(columns) if node is not None}
    rows_index = value_of(index)
    frame = pd.DataFrame({str(n): made[str(n)] for n in range(len(columns))}, index=pd.RangeIndex(len(rows_index)))
    frame.columns, frame.index = value_of(labels), rows_index
    return frame


WRITERS: Final[Mapping[type, Callable[[Any, int], Any]]] = {
    np.ndarray: _write_array,
    pd.Series: _write_series,
    pd.DataFrame: _write_frame,
}
FAMILIES: Final[Mapping[type, Callable[[Any, int], Any]]] = {
    pd.Index: _write_index,
    pd.api.extensions.ExtensionArray: lambda v, d: ["extension", _write_column(pd.Series(v), d)],
}
READERS: Final[Mapping[str, Callable[..., Any]]] = {
    "array": _array,
    "objects": _objects,
    "plain_objects": _plain_objects,
    "extension": lambda v: _column(v).array,
    "arrow": _arrow,
    "categorical": _categorical,
    "sparse": _sparse,
    "range_index": _range_index,
    "multi_index": _multi_index,
    "index": _index,
    "series": _series,
    "frame": _frame,
}
