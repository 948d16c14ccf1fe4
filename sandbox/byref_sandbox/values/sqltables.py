"""DataFrames as the tables of a query, and its result as a DataFrame. Both go through Arrow, which copies little."""

from __future__ import annotations

import decimal
import re
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from byref_sandbox.jsontext import encodable
from byref_sandbox.values import values

MAX_FIELDS: Final = 200
"""Members of one nested column. An object with more of them is more of a map, and is given as JSON text."""
_JSON_FIELD: Final = {b"ARROW:extension:name": b"arrow.json", b"ARROW:extension:metadata": b""}
_OWN_NAME: Final = b"byref:name"
"""Key of a column's metadata: its name in the data, where an earlier column has the same but for case."""
_EXACT_DIGITS: Final = 15
"""Decimals of so many digits are exact as 64-bit floats."""
_INT64: Final = 2**63
_EXACT_INTEGER: Final = 2**53


_OFFSET: Final = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_ZONE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{0,60}")
_NAMED_OFFSET: Final = re.compile(r"Etc/GMT([+-])([0-9]{1,2})")


class Stream:
    """A table that a query may read as often as it likes. Without it DuckDB would read Arrow through pyarrow's own scanner."""

    __slots__ = ("_table",)

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an ArrowArrayStream."""
        return self._table.__arrow_c_stream__(requested_schema)


def arrow_of(frame: pd.DataFrame, *, is_data: bool = False) -> Any:
    """Return a DataFrame as an Arrow table. An index that says something comes first; values that Arrow has no type for become JSON text.

    `is_data`: it was made of stored data, where pandas has whole numbers with nulls as floats. In SQL they are integers.
    """
    if values.index_says_something(frame.index):
        frame = frame.reset_index(allow_duplicates=True)
    names, columns = [], []
    for position, label in enumerate(frame.columns):
        name = "_".join(str(part) for part in label if part != "") if isinstance(label, tuple) else str(label)
        series = frame.iloc[:, position]
        whole = _whole_numbers(series) if is_data and series.dtype == np.float64 else None
        column, is_json = _column(series) if whole is None else (whole, False)
        names.append((encodable(name) or f"column_{position + 1}", is_json))
        columns.append(column)
    fields = [
        pa.field(
            name,
            column.type,
            metadata=(_JSON_FIELD if is_json else {}) | ({} if name == own else {_OWN_NAME: own.encode()}),
        )
        for name, (own, is_json), column in zip(_unique([name for name, _ in names]), names, columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def renamed(table: Any) -> dict[str, str]:
    """Return the columns of a table of `arrow_of` whose names another one has, too, but for case: their own names and those they got."""
    found = [
        (field.metadata[_OWN_NAME].decode(), field.name)
        for field in table.schema
        if _OWN_NAME in (field.metadata or {})
    ]
    return dict(found)


def zones(table: Any) -> set[str]:
    """Return the zones that a table's columns are in."""
    return {kind.tz for kind in table.schema.types if pa.types.is_timestamp(kind) and kind.tz is not None}


def zone_name(zone: str) -> str | None:
    """Return the name that DuckDB has for a zone; None if it has none. Of offsets it has whole hours, with the sign of POSIX."""
    offset = _OFFSET.fullmatch(zone)
    if offset is None:
        return zone if _ZONE_NAME.fullmatch(zone) else None
    sign, hours, minutes = offset.groups()
    return f"Etc/GMT{'-' if sign == '+' else '+'}{int(hours)}" if minutes == "00" else None


def _whole_numbers(series: pd.Series[Any]) -> Any:
    """Return a column of floats as one of integers if nulls are all that keeps it from being one; else None."""
    numbers = series.to_numpy()
    missing = np.isnan(numbers)
    there = numbers[~missing]
    if len(there) in (0, len(numbers)) or not (np.abs(there) <= _EXACT_INTEGER).all() or (there % 1).any():
        return None
    return pa.array(np.where(missing, 0, numbers).astype(np.int64), mask=missing)


def _column(series: pd.Series[Any]) -> tuple[Any, bool]:
    """Return one column, and whether it is JSON text."""
    if isinstance(series.dtype, pd.SparseDtype):
        series = series.astype(series.dtype.subtype)
    elif isinstance(series.dtype, np.dtype) and not series.dtype.isnative:
        series = series.astype(series.dtype.newbyteorder("="))
    try:
        column = pa.array(series, from_pandas=True)
        if pa.types.is_float16(column.type):
            column = column.cast(pa.float32())
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if isinstance(kind, pa.BaseExtensionType):  # intervals and periods, also as categories
            column = pa.array(series.map(str, na_action="ignore"), from_pandas=True)
        if _is_readable(column.type):
            return column, False
    except OverflowError:
        if (big := _big_integers(series)) is not None:
            return big, False
    except (ValueError, TypeError, pa.ArrowException):  # mixtures, lone surrogates, types of Python's own
        cells = series.tolist()
        if all(type(value) is str or value is None or value != value for value in cells):
            return pa.array([encodable(value) if type(value) is str else None for value in cells], pa.string()), False
    return pa.array([None if value is None else _json_text(value) for value in series], pa.string()), True


def _json_text(value: object) -> str | None:
    if isinstance(value, float) and value != value:
        return None
    try:
        return values.to_json(value).decode()
    except values.NotData as error:
        raise ValueError(str(error)) from None


def _big_integers(series: pd.Series[Any]) -> Any:
    present = series.dropna()
    if not all(type(value) is int for value in present):
        return None
    try:
        return pa.array([None if value is None else decimal.Decimal(value) for value in series], pa.decimal128(38, 0))
    except pa.ArrowException:
        return None


def _is_readable(kind: Any) -> bool:
    """Whether DuckDB can read the type: it refuses objects without members and short floats, and objects with very many are of no use."""
    waiting, fields = [kind], 0
    while waiting:
        kind = waiting.pop()
        if pa.types.is_struct(kind):
            names = [field.name.lower() for field in kind]
            fields += len(names)
            if not names or len(set(names)) < len(names) or fields > MAX_FIELDS or "" in names:
                return False
            waiting.extend(field.type for field in kind)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            waiting.append(kind.value_type)
        elif pa.types.is_float16(kind):
            return False
    return True


def frame_of(table: Any) -> pd.DataFrame:
    """Return a result as a DataFrame: whole numbers stay whole, dates become datetime64, nested values Python objects."""
    columns = [_series(column.combine_chunks()) for column in table.columns]
    frame = pd.DataFrame(dict(enumerate(columns)), index=pd.RangeIndex(table.num_rows), copy=False)
    frame.columns = pd.Index(_unique(table.column_names), dtype=object)
    return frame


def _series(column: Any) -> pd.Series[Any]:
    kind = column.type
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_integer(kind) and column.null_count:
        dtype = f"{'U' if pa.types.is_unsigned_integer(kind) else ''}Int{kind.bit_width}"
        return pd.Series(column.to_pylist(), dtype=dtype)
    if pa.types.is_boolean(kind) and column.null_count:
        return pd.Series(column.to_pylist(), dtype="boolean")
    if pa.types.is_nested(kind):
        return pd.Series(column.to_pylist(maps_as_pydicts="lossy"), dtype=object)
    if pa.types.is_interval(kind):
        return _intervals(column.to_pylist())
    if pa.types.is_null(kind):
        return pd.Series([None] * len(column), dtype=object)
    if pa.types.is_timestamp(kind) and (named := _NAMED_OFFSET.fullmatch(kind.tz or "")):
        sign, hours = named.groups()
        column = column.cast(pa.timestamp(kind.unit, f"{'+' if sign == '-' else '-'}{int(hours):02}:00"))
    made: pd.Series[Any] = column.to_pandas(date_as_object=False, use_threads=False)
    return made


def _decimals(column: Any) -> pd.Series[Any]:
    """Return a column of decimals. Without a fraction they are integers, which sums may be beyond 64 bits; others are floats where that is exact."""
    values = column.to_pylist()
    present = [value for value in values if value is not None]
    if column.type.scale == 0:
        whole = [None if value is None else int(value) for value in values]
        if all(-_INT64 <= value < _INT64 for value in whole if value is not None):
            return pd.Series(whole, dtype="int64" if len(present) == len(values) else "Int64")
        return pd.Series(whole, dtype=object)
    if all(len(value.as_tuple().digits) <= _EXACT_DIGITS for value in present):
        return pd.Series([None if value is None else float(value) for value in values], dtype="float64")
    return pd.Series(values, dtype=object)


def _intervals(parts: list[Any]) -> pd.Series[Any]:
    if any(part is not None and part.months for part in parts):
        texts = [None if part is None else _interval_text(part) for part in parts]
        return pd.Series(texts, dtype="str")
    spans = [
        None if part is None else pd.Timedelta(days=part.days, microseconds=part.nanoseconds // 1000) for part in parts
    ]
    return pd.Series(spans, dtype="timedelta64[us]")


def _interval_text(part: Any) -> str:
    clock = pd.Timedelta(microseconds=part.nanoseconds // 1000)
    shown = [f"{part.months} months"] + [f"{part.days} days"] * bool(part.days)
    return " ".join(shown + [str(clock.to_pytimedelta())] * bool(part.nanoseconds))


def _unique(names: list[str]) -> list[str]:
    return values.unique(names, str.lower)  # SQL does not see by case that two names differ
