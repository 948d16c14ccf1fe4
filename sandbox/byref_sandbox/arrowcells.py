"""Cells of Arrow's arrays where its own `to_pylist` drops something: digits, offsets to the second, fields of a repeated name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice, pairwise
from operator import methodcaller
from typing import Any, Final

import pyarrow
from pyarrow import compute, types

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def cells(
    array: Any,
    names_of: Callable[[Iterable[str]], Iterable[str]],
    others: Callable[[Any], list[Any]] = methodcaller("to_pylist"),
) -> list[Any]:
    """Return the values of an array, null as None: dates and times as texts, structs as dictionaries, maps as lists of pairs.

    `names_of` gives each field of a struct a name of its own; `others` reads arrays of the types that are not named here.
    """
    kind = array.type
    if isinstance(array, pyarrow.ChunkedArray):
        return [value for chunk in array.chunks for value in cells(chunk, names_of, others)]
    if types.is_dictionary(kind):
        return cells(array.dictionary_decode(), names_of, others)
    if types.is_run_end_encoded(kind):
        values, lengths = _runs(array)
        return [
            one for one, length in zip(cells(values, names_of, others), lengths, strict=True) for _ in range(length)
        ]
    if types.is_timestamp(kind):
        return _moments(array)
    if types.is_date(kind) or types.is_time(kind):
        return _times(array)
    there = array.is_valid().to_pylist()
    if types.is_struct(kind):
        names = [*names_of(field.name for field in kind.fields)]
        columns = [cells(member, names_of, others) for member in array.flatten()]
        rows: Iterable[Any] = zip(*columns, strict=True) if columns else [()] * len(array)
        return [dict(zip(names, row, strict=True)) if valid else None for row, valid in zip(rows, there, strict=True)]
    if types.is_map(kind) and there:
        pairs = zip(*(cells(part, names_of, others) for part in _keys_and_items(array)), strict=True)
        ends = array.offsets.to_pylist()
        lists = [[*islice(pairs, end - begin)] for begin, end in pairwise(ends)]
        return [one if valid else None for one, valid in zip(lists, there, strict=True)]
    if _is_list(kind):
        items = iter(cells(array.flatten(), names_of, others))
        lengths = compute.list_value_length(array).to_pylist()
        return [None if length is None else [*islice(items, length)] for length in lengths]
    return others(array)


def value_count(array: Any) -> int:
    """Return how many values `cells` makes of an array, those inside of others included, without making them."""
    kind = array.type
    parts: Iterable[Any] = ()
    if types.is_dictionary(kind) and types.is_nested(kind.value_type):
        counts = Counter(array.indices.drop_null().to_pylist())
        return sum(times * value_count(array.dictionary.slice(place, 1)) for place, times in counts.items())
    if types.is_run_end_encoded(kind):
        parts = _runs(array)[:1]
    elif types.is_struct(kind):
        parts = array.flatten()
    elif _is_list(kind):
        parts = [array.flatten()]
    elif types.is_map(kind) and len(array):
        parts = _keys_and_items(array)
    elif types.is_union(kind):
        members = {code: array.field(number) for number, code in enumerate(kind.type_codes)}
        places = range(len(array)) if kind.mode == "sparse" else array.offsets.to_pylist()
        parts = (
            members[code].slice(place, 1) for code, place in zip(array.type_codes.to_pylist(), places, strict=True)
        )
    elif isinstance(kind, pyarrow.BaseExtensionType):
        parts = [array.storage]
    return len(array) + sum(map(value_count, parts))


def _runs(array: Any) -> tuple[Any, list[int]]:
    """Return the values of an array that is encoded by runs, and how often each comes."""
    first, count = array.find_physical_offset(), array.find_physical_length()
    begin, end = array.offset, array.offset + len(array)
    ends = [begin, *(min(place, end) for place in array.run_ends.slice(first, count).to_pylist())]
    return array.values.slice(first, count), [after - before for before, after in pairwise(ends)]


def _keys_and_items(array: Any) -> list[Any]:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return [part.slice(first, last - first) for part in (array.keys, array.items)]


def _moments(array: Any) -> list[str | None]:
    """Return timestamps as ISO 8601 writes them. Where the offset of a zone has seconds, which nobody reads, it is the time in UTC."""
    zone = array.type.tz
    utc = array.cast(pyarrow.timestamp(array.type.unit))
    if zone is None:
        return [text and text.replace(" ", "T", 1) for text in _times(utc)]
    local = compute.local_timestamp(array)
    offsets = compute.divide(
        compute.subtract(local.cast(pyarrow.int64()), utc.cast(pyarrow.int64())), _PER_SECOND[array.type.unit]
    ).to_pylist()
    suffixes = {offset: "Z" if offset is None or offset % 60 else _suffix(offset) for offset in {*offsets}}
    if any(offset is not None and offset % 60 for offset in suffixes):
        is_whole = pyarrow.array([offset is None or offset % 60 == 0 for offset in offsets])
        local = compute.if_else(is_whole, local, utc)
    return [
        text and f"{text.replace(' ', 'T', 1)}{suffixes[offset]}"
        for text, offset in zip(_times(local), offsets, strict=True)
    ]


def _times(array: Any) -> list[str | None]:
    """Return dates and times as texts, without the zeros that their unit writes behind the seconds."""
    return [
        text.rstrip("0").rstrip(".") if text and "." in text else text
        for text in compute.cast(array, pyarrow.string()).to_pylist()
    ]


def _suffix(offset: int) -> str:
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}" if offset else "Z"


def _is_list(kind: Any) -> bool:
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )
