"""Tables of JSON records: columns have the types that a person expects, and no list of Python records is made on the way.

A column is converted only if all its values that are not null are of one kind:

- integers are int64; with nulls float64 where that is exact, else Int64; beyond 64 bits they stay Python's own;
- other numbers are float64, truth values bool, with nulls boolean;
- texts that are ISO 8601 dates or date-times, all with a zone or all without, are datetime64, in the zone that all
  have, else in UTC;
- any other text stays text: `"00123"`, `"2024"` and `"12.50"` are what they say;
- objects, arrays and mixtures stay Python objects, exactly as in the JSON.
"""

from __future__ import annotations

import json
import mmap
import operator
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from byref_sandbox.jail.libc import give_back_memory
from byref_sandbox.jsontext import collector_paused, is_utf8
from byref_sandbox.values import flatjson
from byref_sandbox.values.gathering import is_map_of_records

_HEAD_CHARS: Final = 256 << 10
_HEAD_RECORDS: Final = 1_000
"""First records, whose keys are expected to be those of all. A later record with another key is noticed."""
_MAX_FIELDS: Final = 1_000
_MAX_SPARSENESS: Final = 10
"""Cells that a table may have for each member of a record; cells without a member are nulls."""
_FEW_CELLS: Final = 1_000_000
_FEW_FIELDS: Final = 24
"""A record of so few fields takes little more memory than an empty dict."""
_BLOCK_BYTES: Final = 256 << 10
_FLAT_BYTES: Final = 1 << 20
"""Only from this size on Arrow is tried: where it stops, the text is read twice."""
_COMBINED_BYTES: Final = 1 << 30
"""Bytes up to which the parts of a column are put together."""
_MUCH_BYTES: Final = 4 << 20
_BYTES_PER_MEMBER: Final = 5
"""The least bytes of a member in JSON: `"a":1` and what is around it."""
_EXACT: Final = 2**53
"""Integers up to here are exact as 64-bit floats."""
_ZONE: Final = re.compile(r"(Z|[+-]\d{2}(?::?\d{2})?)$")
_UTC: Final = "UTC"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_NONE: Final = type(None)
_JSON_KINDS: Final = frozenset({dict, list, str, int, float, bool})


class Rules(NamedTuple):
    """What columns become."""

    missing: object
    """What stands for a member that a record lacks."""
    of_arrow: Callable[[Any], pd.Series[Any] | None]
    """Makes a column of flat values; None where they have to be decoded."""
    of_list: Callable[[list[Any]], pd.Series[Any]]
    """Makes a column of decoded values."""


def from_json(payload: bytes | mmap.mmap, path: Sequence[str | int], rules: Rules | None = None) -> pd.DataFrame | None:
    """Return the DataFrame of the records at `path`, by the rules above if none are given; None where there is no array of objects, or its value has to be decoded for it.

    Of a payload that is mapped, this process soon holds only the part that is still to be read.
    """
    rules = rules or _OURS
    if any(isinstance(step, list) for step in path):
        return None
    try:
        if not is_utf8(payload):  # msgspec does not look at the encoding
            return None
        inner = _at(payload, path)
        head, between = _head(inner)
        fields = list(dict.fromkeys(chain.from_iterable(head)))
        if not 0 < len(fields) <= _MAX_FIELDS or _is_sparse(inner, fields):
            return None
        if between and len(payload) >= _FLAT_BYTES:
            forget = _forgetting(payload, inner)
            forget(len(memoryview(inner)))  # the looks at it have brought in all
            # Without a name, so that each column goes when it has been converted.
            frame = of_arrow(flatjson.table(inner, head, fields, between, forget), rules)
            if frame is not None:
                return frame
        return _decoded(inner, fields, rules)
    except (ValueError, LookupError, TypeError, RecursionError, msgspec.MsgspecError):
        return None


def from_records(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the DataFrame of decoded records."""
    fields: dict[str, None] = {}
    for record in records:
        if record.keys() != fields.keys():
            fields.update(dict.fromkeys(record))
    return _frame({name: [record.get(name) for record in records] for name in fields}, len(records), _OURS)


def from_columns(columns: dict[str, list[Any]]) -> pd.DataFrame:
    """Return the DataFrame of equally long lists of decoded values, one or more."""
    return _frame(columns, len(next(iter(columns.values()))), _OURS)


def is_built_quickly(value: object) -> bool:
    """Whether the table of a decoded JSON value is built in the time that its size lets expect.

    If each record has keys of its own, n records of one key each make a table of n × n cells.
    """
    if is_map_of_records(value):
        value = list(cast(Any, value).values())
    if isinstance(value, dict):
        return len(value) <= _MAX_FIELDS
    if type(value) is not list or not all(type(record) is dict for record in value):
        return True  # no records: they are refused at once
    members = sum(map(len, value))
    fields: set[str] = set()
    for record in value:
        fields.update(record)
        if len(fields) > _MAX_FIELDS:
            return False
    return len(fields) * len(value) <= _MAX_SPARSENESS * members + _FEW_CELLS


def _forgetting(payload: bytes | mmap.mmap, inner: msgspec.Raw) -> Callable[[int], object]:
    """Return what lets go of so many first bytes of a text inside a mapped payload. They come back if they are read again."""
    if not isinstance(payload, mmap.mmap):
        return lambda _bytes: None
    skipped = len(payload) - len(memoryview(inner))
    begin = _address(inner) - _address(payload) if skipped else 0

    def forget(size: int) -> None:
        if pages := (begin + size) // mmap.PAGESIZE:
            payload.madvise(mmap.MADV_DONTNEED, 0, pages * mmap.PAGESIZE)

    return forget


def _address(data: mmap.mmap | msgspec.Raw) -> int:
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


def _at(payload: bytes | mmap.mmap, path: Sequence[str | int]) -> msgspec.Raw:
    """Return the JSON text at a path. It is valid, but its numbers may be too large."""
    inner: msgspec.Raw = msgspec.json.decode(payload, type=msgspec.Raw) if not path else msgspec.Raw(payload)
    for step in path:
        kind: Any = dict[str, msgspec.Raw] if isinstance(step, str) else list[msgspec.Raw]
        inner = msgspec.json.decode(inner, type=kind)[step]
    return inner


def _head(text: msgspec.Raw) -> tuple[list[dict[str, Any]], str]:
    """Return the first records and what stands between two of them; no records if the text is not an array of objects."""
    head = bytes(memoryview(text)[:_HEAD_CHARS]).decode("utf-8", "ignore")
    if not head.startswith("["):
        return [], ""
    decoder, position = json.JSONDecoder(), 1
    records: list[dict[str, Any]] = []
    between = ""
    for _ in range(_HEAD_RECORDS):
        if records and not between and (found := flatjson.BETWEEN.match(head, position - 1)):
            between = found[0]
        while head[position : position + 1] and head[position] in " \t\n\r,":
            position += 1
        try:
            record, position = decoder.raw_decode(head, position)
        except ValueError:  # the head ends inside it
            break
        if type(record) is not dict:
            return [], ""
        records.append(record)
    return records, between


def _is_sparse(text: msgspec.Raw, fields: list[str]) -> bool:
    """Whether there may be far more cells than members. Braces inside texts are counted too, which errs on the careful side."""
    if len(fields) <= _FEW_FIELDS:
        return False
    bytes_ = np.frombuffer(text, np.uint8)
    starts = range(0, len(bytes_), _BLOCK_BYTES)
    records = sum(np.count_nonzero(bytes_[start : start + _BLOCK_BYTES] == ord("{")) for start in starts)
    return bool(records * len(fields) > _MAX_SPARSENESS * (len(bytes_) // _BYTES_PER_MEMBER) + _FEW_CELLS)


def _decoded(text: msgspec.Raw, fields: list[str], rules: Rules) -> pd.DataFrame:
    """Decode records into columns; raise ValidationError if one has a key that is not among `fields`."""
    attributes = [f"f{number}" for number in range(len(fields))]
    record = msgspec.defstruct(
        "Record",
        [(attribute, Any, rules.missing) for attribute in attributes],
        rename=dict(zip(attributes, fields, strict=True)),
        forbid_unknown_fields=True,
        gc=False,
    )
    with collector_paused():
        records = msgspec.json.Decoder(list[record]).decode(text)  # type: ignore[valid-type]
        columns = {
            name: list(map(operator.attrgetter(attribute), records))
            for name, attribute in zip(fields, attributes, strict=True)
        }
        size = len(records)
        del records
        return _frame(columns, size, rules)


def of_arrow(table: Any, rules: Rules | None = None) -> pd.DataFrame | None:
    """Return the DataFrame of flat records, by the rules above if none are given; None where one of their columns has to be decoded,
    or there is no table.
    """
    if table is None:
        return None
    rules = rules or _OURS
    made: dict[str, Any] = {}
    names, columns = table.column_names, table.columns
    del table
    for name in names:
        column = columns.pop(0)
        size = column.nbytes
        if column.num_chunks == 1:
            column = column.chunk(0)
        elif size <= _COMBINED_BYTES:
            column = column.combine_chunks()
        made[name] = rules.of_arrow(column)
        if made[name] is None:
            return None
        if size >= _MUCH_BYTES:
            give_back_memory()  # that of the parts, between which others still lie
    return pd.DataFrame(made, copy=False)


def _series(values: Any) -> pd.Series[Any] | None:
    """Convert one column by the rules above; None where a number is too large for 64 bits."""
    if values.null_count == len(values):
        return pd.Series([None] * len(values), dtype=object)
    if values.type == pa.string():
        return _of_texts(values, next(text.as_py() for text in values if text.is_valid))
    if values.null_count and values.type == pa.bool_():
        return pd.Series(values.to_pylist(), dtype="boolean")
    if values.null_count and values.type == pa.int64():
        return _integers(values.to_pylist())
    numbers = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    if values.type == pa.float64() and np.isinf(numbers).any():
        return None
    return pd.Series(numbers if numbers.flags.writeable else numbers.copy(), copy=False)


def _frame(columns: dict[str, list[Any]], size: int, rules: Rules) -> pd.DataFrame:
    """Convert the lists of `columns`. Each is taken out first, so that it is freed as soon as it is converted."""
    made: dict[str, Any] = {}
    for name in list(columns):
        made[name] = rules.of_list(columns.pop(name))
    try:
        return pd.DataFrame(made, index=pd.RangeIndex(size), copy=False)
    except UnicodeEncodeError:  # a name with half of a surrogate pair, which pandas' index of texts cannot hold
        frame = pd.DataFrame(dict(enumerate(made.values())), index=pd.RangeIndex(size), copy=False)
        frame.columns = pd.Index([*made], dtype=object)
        return frame


def column(values: list[Any]) -> pd.Series[Any]:
    """Convert one column of decoded JSON values by the rules above."""
    kinds = set(map(type, values))
    has_nulls = _NONE in kinds
    kinds.discard(_NONE)
    try:
        if kinds == {int}:
            return _integers(values) if has_nulls else pd.Series(np.array(values, dtype=np.int64), copy=False)
        if kinds and kinds <= {int, float}:
            return pd.Series(np.array(values, dtype=np.float64), copy=False)
        if kinds == {bool}:
            return pd.Series(values, dtype="boolean" if has_nulls else "bool")
        if kinds == {str}:
            return _texts(values)
    except (OverflowError, ValueError, pa.ArrowException):  # beyond 64 bits, lone surrogates
        pass
    if kinds <= _JSON_KINDS:
        return pd.Series(np.fromiter(values, dtype=object, count=len(values)), dtype=object, copy=False)
    return pd.Series(values)  # made by the code: pandas knows dates and the like


def _integers(values: list[Any]) -> pd.Series[Any]:
    present = [value for value in values if value is not None]
    if max(present) <= _EXACT and min(present) >= -_EXACT:
        return pd.Series(np.array(values, dtype=np.float64), copy=False)
    return pd.Series(values, dtype="Int64")


def _texts(values: list[Any]) -> pd.Series[Any]:
    return _of_texts(pa.array(values, pa.string()), next(value for value in values if value is not None))


def _of_texts(texts: Any, first: str) -> pd.Series[Any]:
    zone = moments = None
    if _DATE.match(first):
        zone = _zone(texts, first)
        moments = _moments(texts, zone)
    made: pd.Series[Any] = (texts if moments is None else moments).to_pandas(use_threads=False)
    if moments is not None and zone not in (None, _UTC):
        made = made.dt.tz_convert(zone)  # pandas' own form of an offset, whatever the version of Arrow
    return made


def _moments(texts: Any, zone: str | None) -> Any:
    """Return texts as points in time; None unless all are, and all have a zone or, without `zone`, all have none."""
    for unit in ("us", "ns"):
        try:
            return pc.cast(texts, pa.timestamp(unit, zone and _UTC))
        except pa.ArrowInvalid:  # another text, no such day, or more digits than microseconds have
            continue
    return None


def _zone(texts: Any, first: str) -> str | None:
    """Return the zone of points in time: the offset that all of them have, else UTC; None if the first has none."""
    found = _ZONE.search(first) if len(first) > 10 else None
    if found is None:
        return None
    if found[1] == "Z" or not pc.all(pc.ends_with(texts, found[1])).as_py():
        return _UTC
    offset = f"{found[1][:3]}:{found[1][3:].removeprefix(':') or '00'}"
    return _UTC if offset in ("+00:00", "-00:00") else offset


_OURS: Final = Rules(None, _series, column)
