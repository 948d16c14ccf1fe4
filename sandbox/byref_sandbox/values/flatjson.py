"""Arrays of flat JSON records, read by Arrow: it makes no Python object of a cell, so it is faster and takes half the memory.

The result is exactly what `tables` says, or there is none. Arrow stops at a value of another kind than the first records have, at an
object or array inside a record, at a key that they lack or that comes twice, at a number beyond 64 bits and at a lone surrogate.
The caller then reads the records in another way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json

from byref_sandbox.values.column import Column
from byref_sandbox.values.uniformjson import Template

_BLOCK_BYTES: Final = 1 << 20
_MAX_RECORD_BYTES: Final = 8 << 20
"""Bytes of the longest record that Arrow reads."""
_TYPES: Final[dict[frozenset[type], pa.DataType]] = {
    frozenset({int}): pa.int64(),
    frozenset({float}): pa.float64(),
    frozenset({int, float}): pa.float64(),
    frozenset({bool}): pa.bool_(),
    frozenset({str}): pa.string(),
}
_FEW_MISSES: Final = 4
"""Blocks in a row that are not alike, after which others are not expected to be."""
_LINE_FEED: Final = ord("\n")
BETWEEN: Final = re.compile(r"\}\s{0,16},\s{0,16}\{")
"""What stands between two records."""

_Bytes = npt.NDArray[np.uint8]


def table(
    text: bytes | msgspec.Raw,
    head: Sequence[dict[str, Any]],
    fields: Sequence[str],
    between: str,
    done: Callable[[int], object] = lambda _bytes: None,
) -> Any:
    """Return the records of an array as an Arrow table; None where they are not all flat and alike.

    `text` is valid JSON in UTF-8. `head` are its first records, `fields` their keys, `between` is what stands between them. `done`
    is told now and then how many bytes of the text have been read.
    """
    types = [_TYPES.get(frozenset({type(record.get(field)) for record in head} - {type(None)})) for field in fields]
    if None in types:
        return None
    options = pa.json.ParseOptions(
        explicit_schema=pa.schema(list(zip(fields, types, strict=True))), unexpected_field_behavior="error"
    )
    made = {field: Column(type_) for field, type_ in zip(fields, types, strict=True)}
    size = memoryview(text).nbytes
    template, misses, is_first = None, 0, True
    for end, lines in _blocks(text, between.encode()):
        if is_first:
            is_first = False
            template = Template.of(bytes(lines).strip().partition(b"\n")[0], fields, types)
        part = template.table(lines) if template is not None and misses < _FEW_MISSES else None
        misses = 0 if part is not None else misses + 1
        if part is None:
            try:
                reading = pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)  # a zygote has one thread
                part = pa.json.read_json(pa.BufferReader(lines), reading, options)
            except pa.ArrowInvalid:
                return None
        for field, column in made.items():
            for chunk in part.column(field).chunks:
                column.add(chunk, end / size)
        done(end)
    return pa.table({field: made.pop(field).whole() for field in fields})


def _blocks(text: bytes | msgspec.Raw, between: bytes) -> Iterator[tuple[int, _Bytes]]:
    """Yield the records with a line for each: the comma between two of them becomes a line feed. Before each block is where it ends.

    Text that looks like such a place may stand inside a string or a record. There it becomes a line feed too, at which Arrow stops.
    """
    whole = np.frombuffer(text, np.uint8)
    begin, size, end = 1, _BLOCK_BYTES, len(whole) - 1  # without the array's brackets
    comma = between.index(b",")
    while begin < end:
        block = whole[begin : min(end, begin + size)].copy()
        found = np.flatnonzero(block[: 1 - len(between)] == between[0])
        for at in range(1, len(between)):
            found = found[block[found + at] == between[at]]
        if begin + size < end:
            if not len(found) and size < _MAX_RECORD_BYTES:
                size *= 2
                continue
            if len(found):
                block = block[: found[-1] + comma]
                found = found[:-1]
        block[found + comma] = _LINE_FEED
        for at in range(comma + 1, len(between) - 1):  # blanks before a record are no part of it
            block[found + at] = _LINE_FEED
        size = _BLOCK_BYTES
        begin += len(block) + 1
        yield min(begin, end), block
