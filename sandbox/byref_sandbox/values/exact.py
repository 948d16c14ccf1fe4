"""Python values as bytes and back, with their types: a tree of tagged nodes in msgpack, with tables as Arrow.

Values that JSON cannot tell apart come back as they were: tuples, sets, dates, Decimals, bytes, NaN, keys that are no strings,
arrays, Series and DataFrames with their dtypes and index. It is data only: no node names code, so reading runs none. The bytes
are read inside the jail all the same, since a run wrote them.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import re
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from byref_sandbox.jsontext import collector_paused
from byref_sandbox.values import exactnodes, exacttables, plain
from byref_sandbox.values.exactnodes import NotExact as NotExact
from byref_sandbox.values.exactnodes import from_pairs, node, nodes, pairs, value_of
from byref_sandbox.values.exacttables import dtype_of
from byref_sandbox.values.plain import is_json as is_json

_LARGE: Final = 100
"""A container of at least so many members is tried as a whole (`plain.packed`), before its members one by one."""
_SHALLOW: Final = 3
"""Only down to this depth: each try looks at all that is inside, which the tries above it have done already."""
_FACTORIES: Final = {kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple, bool)}


_encoder: Final = msgspec.msgpack.Encoder()


def encode(value: object) -> bytes:
    """Return a value as bytes; raise NotExact of a value that is more than data."""
    try:
        encoded = bytearray()
        _encoder.encode_into(node(value, 0), encoded)  # where memory runs out, `encode` crashes: msgspec 0.22
        return bytes(encoded)
    except (OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise NotExact(str(error)) from None


def decode(data: bytes) -> object:
    """Return the value; raise ValueError of bytes that `encode` did not make."""
    try:
        with collector_paused():
            return value_of(msgspec.msgpack.decode(data))
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


def _write_container(tag: str, write: Callable[[Any, int], list[Any]]) -> Callable[[Any, int], Any]:
    """Return a writer of containers. A large one of plain data is written as a whole, unless it is the value itself, which is stored as JSON."""

    def written(value: Any, depth: int) -> Any:
        is_tried = len(value) >= _LARGE and 1 < depth <= _SHALLOW
        if is_tried and (data := plain.packed(value)) is not None:
            return ["plain", data]
        return [tag, *write(value, depth)]

    return written


def _write_default(value: collections.defaultdict[Any, Any], depth: int) -> Any:
    factory = value.default_factory
    name = getattr(factory, "__name__", "")
    if factory is not None and _FACTORIES.get(name) is not factory:
        raise NotExact("a defaultdict whose default is a function of its own")
    return ["defaultdict", None if factory is None else name, pairs(value, depth)]


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
    moment = pd.Timestamp(np.frombuffer(data, dtype_of(dtype))[0])
    return moment if zone is None else moment.tz_localize("UTC").tz_convert(zone)


def _write_generator(value: Any, depth: int) -> Any:
    """Write a generator of the usual kind (PCG64). The state of others holds an index into memory that compiled code does not check."""
    state = value.bit_generator.state
    if state["bit_generator"] != "PCG64":
        raise NotExact(f"a Generator of {state['bit_generator']}")
    return ["generator", *nodes((*state["state"].values(), state["has_uint32"], state["uinteger"]), depth)]


def _generator(state: Any, increment: Any, has_uint32: Any, uinteger: Any) -> Any:
    bits = np.random.PCG64()
    inner: Any = {"state": value_of(state), "inc": value_of(increment)}
    bits.state = {"bit_generator": "PCG64", "state": inner, "has_uint32": has_uint32, "uinteger": uinteger}
    return np.random.Generator(bits)


def _write_ticks(tag: str) -> Callable[[Any, int], Any]:
    return lambda value, _depth: [tag, value.to_timedelta64().dtype.str, value.to_timedelta64().tobytes()]


_WRITERS: Final[dict[type, Callable[[Any, int], Any]]] = {
    list: _write_container("list", nodes),
    tuple: lambda v, d: ["tuple", *nodes(v, d)],
    dict: _write_container("dict", pairs),
    set: lambda v, d: ["set", *nodes(v, d)],
    frozenset: lambda v, d: ["frozenset", *nodes(v, d)],
    bytearray: lambda v, _d: ["bytearray", bytes(v)],
    complex: lambda v, _d: ["complex", v.real, v.imag],
    range: lambda v, d: ["range", *nodes((v.start, v.stop, v.step), d)],
    slice: lambda v, d: ["slice", *nodes((v.start, v.stop, v.step), d)],
    collections.deque: lambda v, d: ["deque", v.maxlen, nodes(v, d)],
    collections.Counter: lambda v, d: ["Counter", *pairs(v, d)],
    collections.OrderedDict: lambda v, d: ["OrderedDict", *pairs(v, d)],
    collections.defaultdict: _write_default,
    decimal.Decimal: lambda v, _d: ["Decimal", str(v)],
    fractions.Fraction: lambda v, d: ["Fraction", node(v.numerator, d), node(v.denominator, d)],
    datetime.datetime: _write_moment,
    datetime.date: lambda v, _d: ["date", v.toordinal()],
    datetime.time: lambda v, _d: ["time", v.replace(tzinfo=None).isoformat(), v.fold, _write_zone(v.tzinfo)],
    datetime.timedelta: lambda v, _d: ["timedelta", v.days, v.seconds, v.microseconds],
    datetime.timezone: lambda v, _d: ["tzinfo", _write_zone(v)],
    zoneinfo.ZoneInfo: lambda v, _d: ["tzinfo", _write_zone(v)],
    uuid.UUID: lambda v, _d: ["UUID", v.bytes],
    np.random.Generator: _write_generator,
    re.Pattern: lambda v, d: ["pattern", node(v.pattern, d), v.flags],
    type(pd.NA): lambda _v, _d: ["NA"],
    type(pd.NaT): lambda _v, _d: ["NaT"],
    type(...): lambda _v, _d: ["Ellipsis"],
    pd.Timestamp: _write_timestamp,
    pd.Timedelta: _write_ticks("pandas_timedelta"),
    pd.Period: lambda v, _d: ["period", v.ordinal, v.freqstr],
    pd.Interval: lambda v, d: ["interval", node(v.left, d), node(v.right, d), v.closed],
}
_READERS: Final[dict[str, Callable[..., Any]]] = {
    "surrogates": lambda v: v.decode("utf-8", "surrogatepass"),
    "int": lambda v: int(v, 16),
    "plain": plain.unpacked,
    "list": lambda *v: list(map(value_of, v)),
    "tuple": lambda *v: tuple(map(value_of, v)),
    "dict": lambda *v: dict(from_pairs(list(v))),
    "set": lambda *v: set(map(value_of, v)),
    "frozenset": lambda *v: frozenset(map(value_of, v)),
    "bytearray": bytearray,
    "complex": complex,
    "range": lambda *v: range(*map(value_of, v)),
    "slice": lambda *v: slice(*map(value_of, v)),
    "deque": lambda most, v: collections.deque(map(value_of, v), most),
    "Counter": lambda *v: collections.Counter(dict(from_pairs(list(v)))),
    "OrderedDict": lambda *v: collections.OrderedDict(from_pairs(list(v))),
    "defaultdict": lambda name, v: collections.defaultdict(None if name is None else _FACTORIES[name], from_pairs(v)),
    "Decimal": decimal.Decimal,
    "Fraction": lambda n, d: fractions.Fraction(value_of(n), value_of(d)),
    "datetime": lambda v, fold, zone: datetime.datetime.fromisoformat(v).replace(fold=fold, tzinfo=_zone(zone)),
    "date": datetime.date.fromordinal,
    "time": lambda v, fold, zone: datetime.time.fromisoformat(v).replace(fold=fold, tzinfo=_zone(zone)),
    "timedelta": datetime.timedelta,
    "tzinfo": _zone,
    "UUID": lambda v: uuid.UUID(bytes=v),
    "pattern": lambda v, flags: re.compile(value_of(v), flags),
    "generator": _generator,
    "NA": lambda: pd.NA,
    "NaT": lambda: pd.NaT,
    "Ellipsis": lambda: ...,
    "timestamp": _timestamp,
    "pandas_timedelta": lambda dtype, v: pd.Timedelta(np.frombuffer(v, dtype_of(dtype))[0]),
    "period": lambda ordinal, freq: pd.Period(ordinal=ordinal, freq=freq),
    "interval": lambda left, right, closed: pd.Interval(value_of(left), value_of(right), closed),
    "scalar": lambda dtype, v: np.frombuffer(v, dtype_of(dtype))[0],
}

exactnodes.WRITERS.update({**_WRITERS, **exacttables.WRITERS})
exactnodes.FAMILIES.update(exacttables.FAMILIES)
exactnodes.READERS.update({**_READERS, **exacttables.READERS})
