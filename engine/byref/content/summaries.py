"""What all cells of a table's columns are, as Arrow counts them: without a Python object for each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from byref.describe.rows import Summary
from byref_sandbox.tabletext import reading

_FEW: Final = 500
"""Distinct values that are counted."""
_FIRST: Final = 4_096
"""Cells of which no more may be distinct, so that the others are looked at."""
_NO_RANGE: Final = ("text", "boolean")
_KEYS: Final = ("integer", "text")
"""Types of columns by which records are found."""


def summaries(table: reading.Table, source: bytes, only: Collection[str]) -> dict[str, Summary]:
    """Return what all cells of these columns are, by their names; nothing where rows have to be read one by one."""
    from byref_sandbox.tabletext import arrow  # heavy

    found = arrow.read(table, source, only)
    if found is None:
        return {}
    types = {column.name: column.type for column in table.columns}
    return {name: _summary(column, types[name]) for name, column in zip(found.column_names, found.columns, strict=True)}


def _summary(column: Any, type_: str) -> Summary:
    import pyarrow.compute as pc

    counts, first = None, column.slice(0, _FIRST)
    distinct = pc.count_distinct(first).as_py()
    if distinct <= _FEW:
        pairs = pc.value_counts(column.drop_null())
        if len(pairs) <= _FEW:
            counts = dict(
                zip(*map(list, (pairs.field("values").to_pylist(), pairs.field("counts").to_pylist())), strict=True)
            )
    ends = None if type_ in _NO_RANGE else tuple(pc.min_max(column).as_py().values())
    return Summary(
        len(column),
        column.null_count,
        counts,
        None if ends is None or None in ends else ends,
        is_unique=type_ in _KEYS
        and not column.null_count
        and distinct == len(first)
        and pc.count_distinct(column).as_py() == len(column)
        and (type_ != "text" or not pc.any(pc.equal(column, "")).as_py()),
    )
