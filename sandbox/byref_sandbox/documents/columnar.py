"""Parquet, Arrow IPC files and streams, and Feather. Each says the types of its columns, and has them all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pyarrow
from pyarrow import compute, ipc, parquet, types

from byref_sandbox import wire
from byref_sandbox.arrowcells import cells, value_count
from byref_sandbox.documents.building import MAX_COLUMNS, NotATable, Records, check_width, unique_names
from byref_sandbox.documents.inflating import Room

_ROWS: Final = 1_000
_DIGITS: Final = 15
_MAX_NESTING: Final = 100
_SIMPLE: Final = (
    (types.is_boolean, "boolean"),
    (types.is_integer, "integer"),
    (types.is_floating, "number"),
    (types.is_date, "date"),
    (types.is_timestamp, "datetime"),
    (types.is_time, "time"),
    (types.is_duration, "duration"),
    (types.is_null, "empty"),
)


def read_parquet(data: bytes, room: Room) -> Iterator[wire.Frame]:
    """Yield the table of a Parquet file; raise NotATable."""
    try:
        file = parquet.ParquetFile(pyarrow.BufferReader(data), pre_buffer=False, memory_map=False)
        check_width(file.metadata.num_columns)
        schema = file.schema_arrow
        batches = file.iter_batches(batch_size=_ROWS, use_threads=False)
        yield _table(schema, batches, room, [], declared=file.metadata.num_rows)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise _refused(error, "Parquet") from None


def read_arrow(data: bytes, room: Room) -> Iterator[wire.Frame]:
    """Yield the table of an Arrow IPC file or stream, or of Feather; raise NotATable."""
    options = ipc.IpcReadOptions(use_threads=False)
    source = pyarrow.BufferReader(data)
    notes: list[str] = []
    try:
        if data.startswith(b"FEA1"):
            raise NotATable("it is Feather of version 1: write it again in version 2")
        if data.startswith(b"ARROW1"):
            file = ipc.open_file(source, options=options)
            yield _table(
                file.schema, (file.get_batch(number) for number in range(file.num_record_batches)), room, notes
            )
        else:
            stream = ipc.open_stream(source, options=options)
            yield _table(stream.schema, stream, room, notes)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise _refused(error, "Arrow") from None


def _refused(error: Exception, kind: str) -> Exception:
    if isinstance(error, pyarrow.ArrowMemoryError):
        return MemoryError()
    if isinstance(error, NotATable):
        return error
    return NotATable(
        f"it is no {kind} that can be read: {str(error).splitlines()[0][:500] if str(error) else type(error).__name__}"
    )


def _table(schema: Any, batches: Any, room: Room, notes: list[str], *, declared: int = 0) -> wire.Table:
    check_width(len(schema))
    records = Records(schema.names, room.left, as_they_are=True)
    types_of = [_type_of(field.type) for field in schema]
    for field in schema:
        if _depth(field.type) > _MAX_NESTING:
            raise NotATable(f"column {field.name!r} is nested too deeply")
    records.expect(declared)
    for batch in batches:
        records.expect(batch.num_rows)
        batch.validate()
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            records.expect(part.num_rows, sum(map(value_count, part.columns)))
            columns = [cells(column, _own_names, partial(_shown, records=records)) for column in part.columns]
            records.add([*zip(*columns, strict=True)] if columns else [()] * part.num_rows)
    texts = sum(types.is_decimal(field.type) and field.type.precision > _DIGITS for field in schema)
    if texts:
        notes = [*notes, "decimals of more than 15 digits are text here"]
    if numbered := [name for own, name in zip(schema.names, records.names, strict=True) if own != name]:
        notes = [*notes, f"names that come twice have a number here: {', '.join(numbered)}"]
    return records.table("", "", types=types_of, notes=notes)


_own_names: Final = partial(unique_names, as_they_are=True)


def _depth(kind: Any) -> int:
    level, most = [kind], 0
    while level:
        most += 1
        level = [kind.field(number).type for kind in level for number in range(kind.num_fields)]
        if most > _MAX_NESTING or len(level) > MAX_COLUMNS:
            return _MAX_NESTING + 1
    return most


def _type_of(kind: Any) -> str:
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _type_of(kind.value_type)
    if types.is_decimal(kind):
        return "number" if kind.precision <= _DIGITS else "text"
    for test, name in _SIMPLE:
        if test(kind):
            return name
    if types.is_struct(kind):
        return "object"
    if types.is_nested(kind):
        return "array"
    return "bytes" if _is_bytes(kind) else "text"


def _is_bytes(kind: Any) -> bool:
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or kind == pyarrow.binary_view()
    )


def _shown(column: Any, records: Records) -> list[Any]:
    """Return the values of a column of a type that `cells` knows nothing of as JSON has them."""
    kind = column.type
    if types.is_duration(kind):
        return [_duration(count, kind.unit) for count in compute.cast(column, pyarrow.int64()).to_pylist()]
    if types.is_decimal(kind):
        return [_decimal(value, kind.precision) for value in column.to_pylist()]
    if _is_bytes(kind):
        return [None if value is None else records.shown(value) for value in column.to_pylist()]
    if types.is_nested(kind) or isinstance(kind, pyarrow.BaseExtensionType):
        return [_nested(value.as_py() if _is_safe(kind) else str(value.as_py())) for value in column]
    return column.to_pylist()  # type: ignore[no-any-return]


def _is_safe(kind: Any) -> bool:
    return not isinstance(kind, pyarrow.BaseExtensionType)


def _nested(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _nested(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_nested(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _decimal(value: Any, precision: int) -> Any:
    if value is None or precision <= _DIGITS:
        return value
    return f"{value:f}"


_PER_SECOND: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def _duration(count: int | None, unit: str) -> str | None:
    """Return a duration by ISO 8601, in seconds: `PT90.5S`."""
    if count is None:
        return None
    digits = _PER_SECOND[unit]
    seconds, fraction = divmod(abs(count), 10**digits)
    rest = f".{fraction:0{digits}d}".rstrip("0").rstrip(".") if digits else ""
    return f"{'-' if count < 0 else ''}PT{seconds}{rest}S"
