"""Python values as bytes and back, with their types: data only, one msgpack tree of tagged nodes, tables as Arrow.

What JSON cannot tell apart comes back as it was: tuples, sets, dates, Decimals, bytes, NaN, keys that are no strings,
arrays, Series and DataFrames with their dtypes and index. Nothing in it names code, so reading it runs none; it is read
inside the jail all the same, for a run wrote it.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import math
import re
import uuid
import zoneinfo
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

_MAX_DEPTH: Final = 200
_INT64: Final = 2**63
_ARROW_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_JSON_KINDS: Final = frozenset({dict, list, str, int, float, bool, type(None)})
_NUMPY_KINDS: Final = "biufcmMSU"
_FACTORIES: Final = {kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple, bool)}


class NotExact(ValueError):
    """The value is more than data; the message says what it is."""


def is_json(value: object) -> bool:
    """Whether a value that JSON can be made of comes back from it as it was, types included."""
    waiting: list[Any] = [[value]]
    while waiting:
        container = waiting.pop()
        members: Any = container
        if type(container) is dict:
            if not set(map(type, container)) <= {str}:
                return False
            members = container.values()
        kinds = set(map(type, members))
        if not kinds <= _JSON_KINDS:
            return False
        if float in kinds and not all(math.isfinite(member) for member in members if type(member) is float):
            return False
        if not kinds.isdisjoint((list, dict)):
            waiting.extend(member for member in members if type(member) in (list, dict))
    return True


_encoder: Final = msgspec.msgpack.Encoder()


def encode(value: object) -> bytes:
    """Raises NotExact."""
    try:
        encoded = bytearray()
        _encoder.encode_into(_node(value, 0), encoded)  # where memory runs out, `encode` crashes: msgspec 0.22
        return bytes(encoded)
    except (OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise NotExact(str(error)) from None


def decode(data: bytes) -> object:
    """The value; raises ValueError on anything that `encode` did not make."""
    try:
        return _value(msgspec.msgpack.decode(data))
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        RecursionError,
        msgspec.MsgspecError,
        pa.ArrowException,
    ) as error:
        raise ValueError(f"no kept value: {error}") from None


# A node is None, bool, a 64-bit int, a finite or infinite float, str, bytes, or [tag, content…].


def _node(value: Any, depth: int) -> Any:
    kind = type(value)
    if value is None or kind in (bool, float, bytes):
        return value
    if kind is str:
        return (
            value
            if value.isascii() or not _has_surrogates(value)
            else ["surrogates", value.encode("utf-8", "surrogatepass")]
        )
    if kind is int:
        return value if -_INT64 <= value < _INT64 else ["int", hex(value)]
    if depth > _MAX_DEPTH:
        raise NotExact("nested too deeply, or contains itself")
    write = _WRITERS.get(kind)
    if write is not None:
        return write(value, depth + 1)
    if isinstance(value, np.generic) and value.dtype.kind in _NUMPY_KINDS:
        return ["scalar", value.dtype.str, value.tobytes()]
    if isinstance(value, pd.Index):
        return _write_index(value, depth + 1)
    if isinstance(value, pd.api.extensions.ExtensionArray):
        return ["extension", _write_column(pd.Series(value), depth + 1)]
    name: str = type.__dict__["__name__"].__get__(kind)
    raise NotExact(f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name[:60]}")


def _value(node: Any) -> Any:
    if type(node) is not list:
        return node
    return _READERS[node[0]](*node[1:])


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _nodes(values: Any, depth: int) -> list[Any]:
    return [_node(value, depth) for value in values]


def _pairs(value: Any, depth: int) -> list[Any]:
    return [_node(part, depth) for item in value.items() for part in item]


def _from_pairs(flat: list[Any]) -> list[tuple[Any, Any]]:
    values = [_value(node) for node in flat]
    return list(zip(values[::2], values[1::2], strict=True))


def _write_default(value: collections.defaultdict[Any, Any], depth: int) -> Any:
    factory = value.default_factory
    name = getattr(factory, "__name__", "")
    if factory is not None and _FACTORIES.get(name) is not factory:
        raise NotExact("a defaultdict whose default is a function of its own")
    return ["defaultdict", None if factory is None else name, _pairs(value, depth)]


def _write_moment(value: datetime.datetime, _depth: int) -> Any:
    return ["datetime", value.replace(tzinfo=None).isoformat(), value.fold, _write_zone(value.tzinfo)]


def _write_zone(zone: datetime.tzinfo | None) -> Any:
    if zone is None or zone is datetime.UTC:
        return None if zone is None else "utc"
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        return ["zone", zone.key]
    if type(zone) is datetime.timezone:
        offset = zone.utcoffset(None)
        return ["offset", offset.days, offset.seconds, offset.microseconds]
    raise NotExact(f"a time zone of its own ({type(zone).__name__})")


def _zone(node: Any) -> datetime.tzinfo | None:
    if node is None or node == "utc":
        return None if node is None else datetime.UTC
    if node[0] == "zone":
        return zoneinfo.ZoneInfo(node[1])
    return datetime.timezone(datetime.timedelta(*node[1:]))


def _write_array(value: Any, depth: int) -> Any:
    if value.dtype.kind in _NUMPY_KINDS:
        return ["array", value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()]
    if value.dtype.kind == "O":
        return ["objects", list(value.shape), _nodes(value.ravel().tolist(), depth)]
    raise NotExact(f"an array of {value.dtype}")


def _array(dtype: str, shape: Sequence[int], data: bytes) -> Any:
    return np.frombuffer(bytearray(data), dtype=_dtype(dtype)).reshape(shape)


def _dtype(text: str) -> np.dtype[Any]:
    dtype = np.dtype(text)
    if dtype.kind not in _NUMPY_KINDS:
        raise ValueError(f"dtype {text!r}")
    return dtype


def _objects(shape: Sequence[int], nodes: list[Any]) -> Any:
    return np.fromiter(map(_value, nodes), dtype=object, count=len(nodes)).reshape(shape)


def _write_column(series: Any, depth: int) -> Any:
    """A column's values, without its index: objects one by one, all else as numpy's bytes or Arrow."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return _write_array(series.to_numpy(), depth)
    if isinstance(dtype, pd.CategoricalDtype):  # Arrow drops the categories of an empty one
        codes = series.cat.codes.to_numpy()
        return ["categorical", _write_labels(dtype.categories, depth), _write_array(codes, depth), dtype.ordered]
    try:
        table = pa.Table.from_pandas(series.reset_index(drop=True).to_frame("0"), preserve_index=False, nthreads=1)
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
    return pd.Series(pd.Categorical.from_codes(_value(codes), dtype=dtype), copy=False)


def _column(node: Any) -> Any:
    made = _value(node)
    return made if isinstance(made, pd.Series) else pd.Series(made, dtype=made.dtype, copy=False)


def _write_index(index: Any, depth: int) -> Any:
    names = _nodes(index.names, depth)
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
    return pd.RangeIndex(start, stop, step, name=_value(names[0]))


def _multi_index(levels: list[Any], codes: list[Any], names: list[Any]) -> pd.MultiIndex:
    values = [_column(level) for level in levels]
    return pd.MultiIndex(
        levels=[pd.Index(level, dtype=level.dtype) for level in values],
        codes=[_value(code) for code in codes],
        names=[_value(name) for name in names],
    )


def _index(column: Any, freq: str | None, names: list[Any]) -> Any:
    values = _column(column)
    index: Any = pd.Index(values, dtype=values.dtype, name=_value(names[0]))
    if freq is not None:
        index.freq = freq
    return index


def _write_series(series: Any, depth: int) -> Any:
    return ["series", _write_column(series, depth), _write_index(series.index, depth), _node(series.name, depth)]


def _series(column: Any, index: Any, name: Any) -> Any:
    made = _column(column)
    made.index, made.name = _value(index), _value(name)
    return made


def _write_frame(frame: Any, depth: int) -> Any:
    """Columns that Arrow holds exactly go together, in one table; others are written one by one."""
    in_arrow = [number for number, dtype in enumerate(frame.dtypes) if _is_arrow(dtype)]
    columns: list[Any] = [None] * frame.shape[1]
    if in_arrow:
        part = frame.iloc[:, in_arrow].reset_index(drop=True)
        part.columns = [str(n) for n in in_arrow]
        try:
            table = pa.Table.from_pandas(part, preserve_index=False, nthreads=1)
        except (pa.ArrowException, TypeError, ValueError):
            raise NotExact("a DataFrame with a column that is no data") from None
        together: Any = _write_table(table)
    else:
        together = None
    for number in set(range(frame.shape[1])) - set(in_arrow):
        columns[number] = _write_column(frame.iloc[:, number], depth)
    return ["frame", together, columns, _write_index(frame.columns, depth), _write_index(frame.index, depth)]


def _is_arrow(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biufmM"
    return not isinstance(dtype, pd.CategoricalDtype)


def _frame(together: bytes | None, columns: list[Any], labels: Any, index: Any) -> Any:
    made: dict[str, Any] = {}
    if together is not None:
        frame = _read_table(together).to_pandas(use_threads=False)
        if all(node is None for node in columns):
            frame.columns, frame.index = _value(labels), _value(index)
            return frame
        made = {name: frame[name] for name in frame.columns}
    made |= {str(number): _column(node) for number, node in enumerate(columns) if node is not None}
    rows_index = _value(index)
    frame = pd.DataFrame({str(n): made[str(n)] for n in range(len(columns))}, index=pd.RangeIndex(len(rows_index)))
    frame.columns, frame.index = _value(labels), rows_index
    return frame


def _write_timestamp(value: Any, _depth: int) -> Any:
    return [
        "timestamp",
        value.to_datetime64().dtype.str,
        value.to_datetime64().tobytes(),
        _write_zone_name(value.tzinfo),
    ]


def _write_zone_name(zone: Any) -> Any:
    return None if zone is None else str(zone)


def _timestamp(dtype: str, data: bytes, zone: str | None) -> Any:
    moment = pd.Timestamp(np.frombuffer(data, _dtype(dtype))[0])
    return moment if zone is None else moment.tz_localize("UTC").tz_convert(zone)


def _write_ticks(tag: str) -> Callable[[Any, int], Any]:
    return lambda value, _depth: [tag, value.to_timedelta64().dtype.str, value.to_timedelta64().tobytes()]


_WRITERS: Final[dict[type, Callable[[Any, int], Any]]] = {
    list: lambda v, d: ["list", *_nodes(v, d)],
    tuple: lambda v, d: ["tuple", *_nodes(v, d)],
    dict: lambda v, d: ["dict", *_pairs(v, d)],
    set: lambda v, d: ["set", *_nodes(v, d)],
    frozenset: lambda v, d: ["frozenset", *_nodes(v, d)],
    bytearray: lambda v, _d: ["bytearray", bytes(v)],
    complex: lambda v, _d: ["complex", v.real, v.imag],
    range: lambda v, d: ["range", *_nodes((v.start, v.stop, v.step), d)],
    slice: lambda v, d: ["slice", *_nodes((v.start, v.stop, v.step), d)],
    collections.deque: lambda v, d: ["deque", v.maxlen, _nodes(v, d)],
    collections.Counter: lambda v, d: ["Counter", *_pairs(v, d)],
    collections.OrderedDict: lambda v, d: ["OrderedDict", *_pairs(v, d)],
    collections.defaultdict: _write_default,
    decimal.Decimal: lambda v, _d: ["Decimal", str(v)],
    fractions.Fraction: lambda v, d: ["Fraction", _node(v.numerator, d), _node(v.denominator, d)],
    datetime.datetime: _write_moment,
    datetime.date: lambda v, _d: ["date", v.toordinal()],
    datetime.time: lambda v, _d: ["time", v.replace(tzinfo=None).isoformat(), v.fold, _write_zone(v.tzinfo)],
    datetime.timedelta: lambda v, _d: ["timedelta", v.days, v.seconds, v.microseconds],
    datetime.timezone: lambda v, _d: ["tzinfo", _write_zone(v)],
    zoneinfo.ZoneInfo: lambda v, _d: ["tzinfo", _write_zone(v)],
    uuid.UUID: lambda v, _d: ["UUID", v.bytes],
    re.Pattern: lambda v, d: ["pattern", _node(v.pattern, d), v.flags],
    type(pd.NA): lambda _v, _d: ["NA"],
    type(pd.NaT): lambda _v, _d: ["NaT"],
    type(...): lambda _v, _d: ["Ellipsis"],
    pd.Timestamp: _write_timestamp,
    pd.Timedelta: _write_ticks("pandas_timedelta"),
    pd.Period: lambda v, _d: ["period", v.ordinal, v.freqstr],
    pd.Interval: lambda v, d: ["interval", _node(v.left, d), _node(v.right, d), v.closed],
    np.ndarray: _write_array,
    pd.Series: _write_series,
    pd.DataFrame: _write_frame,
}
_READERS: Final[dict[str, Callable[..., Any]]] = {
    "surrogates": lambda v: v.decode("utf-8", "surrogatepass"),
    "int": lambda v: int(v, 16),
    "list": lambda *v: list(map(_value, v)),
    "tuple": lambda *v: tuple(map(_value, v)),
    "dict": lambda *v: dict(_from_pairs(list(v))),
    "set": lambda *v: set(map(_value, v)),
    "frozenset": lambda *v: frozenset(map(_value, v)),
    "bytearray": bytearray,
    "complex": complex,
    "range": lambda *v: range(*map(_value, v)),
    "slice": lambda *v: slice(*map(_value, v)),
    "deque": lambda most, v: collections.deque(map(_value, v), most),
    "Counter": lambda *v: collections.Counter(dict(_from_pairs(list(v)))),
    "OrderedDict": lambda *v: collections.OrderedDict(_from_pairs(list(v))),
    "defaultdict": lambda name, v: collections.defaultdict(None if name is None else _FACTORIES[name], _from_pairs(v)),
    "Decimal": decimal.Decimal,
    "Fraction": lambda n, d: fractions.Fraction(_value(n), _value(d)),
    "datetime": lambda v, fold, zone: datetime.datetime.fromisoformat(v).replace(fold=fold, tzinfo=_zone(zone)),
    "date": datetime.date.fromordinal,
    "time": lambda v, fold, zone: datetime.time.fromisoformat(v).replace(fold=fold, tzinfo=_zone(zone)),
    "timedelta": datetime.timedelta,
    "tzinfo": _zone,
    "UUID": lambda v: uuid.UUID(bytes=v),
    "pattern": lambda v, flags: re.compile(_value(v), flags),
    "NA": lambda: pd.NA,
    "NaT": lambda: pd.NaT,
    "Ellipsis": lambda: ...,
    "timestamp": _timestamp,
    "pandas_timedelta": lambda dtype, v: pd.Timedelta(np.frombuffer(v, _dtype(dtype))[0]),
    "period": lambda ordinal, freq: pd.Period(ordinal=ordinal, freq=freq),
    "interval": lambda left, right, closed: pd.Interval(_value(left), _value(right), closed),
    "scalar": lambda dtype, v: np.frombuffer(v, _dtype(dtype))[0],
    "array": _array,
    "objects": _objects,
    "extension": lambda v: _column(v).array,
    "arrow": _arrow,
    "categorical": _categorical,
    "range_index": _range_index,
    "multi_index": _multi_index,
    "index": _index,
    "series": _series,
    "frame": _frame,
}
