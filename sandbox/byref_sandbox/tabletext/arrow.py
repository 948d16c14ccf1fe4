"""Tables in text as Arrow reads them, many times faster than cell by cell; None where its rules are not those of the text."""

from __future__ import annotations

import codecs
from collections.abc import Collection
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from byref_sandbox.tabletext.delimited import Delimited
from byref_sandbox.tabletext.reading import DATES, FALSE, ORDERS, TRUE, Table

_TYPES: Final = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_BLOCK_BYTES: Final = 1 << 24
_MAX_COLUMNS: Final = 200
"""Columns from which on rows are read one by one. Arrow asks for aligned memory for each column of a block, and in a sandbox glibc takes
longer to find some the more pieces there are: a second for 300 columns of 600 days, more than ten for 1,000 of 200."""


def read(table: Table, source: bytes, only: Collection[str] | None = None) -> Any:
    """Return a table as Arrow's, with dates as texts in ISO 8601; None where its rows have to be read one by one.

    `only` names the columns that are wanted, if these are not all.
    """
    if not isinstance(table.how, Delimited) or len(table.columns) > _MAX_COLUMNS:
        return None
    dialect, spans = table.how.dialect, table.how.spans
    if len(dialect.delimiter) != 1 or not dialect.delimiter.isascii() or dialect.newline == "\r":
        return None
    if len(spans) != 1 or not spans[0].is_strict or (not source.isascii() and not _is_utf8(source)):
        return None
    [span] = spans
    part = memoryview(source)[span.start : span.end]
    if bytes(part[: len(codecs.BOM_UTF8)]) == codecs.BOM_UTF8:  # of the first cell, for us
        return None
    if dialect.escape != "doubled" and dialect.quote and source.find(dialect.quote.encode(), span.start, span.end) >= 0:
        return None
    names = [column.name for column in table.columns]
    wanted = [column for column in table.columns if only is None or column.name in only]
    commas = {column.notation == "1,5" for column in table.columns if column.type == "number"}
    if len(commas) > 1:
        return None
    try:
        found = csv.read_csv(
            pa.BufferReader(pa.py_buffer(part)),
            read_options=csv.ReadOptions(use_threads=False, column_names=names, block_size=_BLOCK_BYTES),
            parse_options=csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote or False,
                newlines_in_values=bool(dialect.quote),
                ignore_empty_lines=False,
            ),
            convert_options=csv.ConvertOptions(
                include_columns=[column.name for column in wanted],
                column_types={column.name: _TYPES.get(column.type, pa.string()) for column in table.columns},
                null_values=[""],
                true_values=TRUE,
                false_values=FALSE,
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                decimal_point="," if True in commas else ".",
            ),
        )
    except pa.ArrowInvalid:  # a blank cell of a column of numbers, say
        return None
    if len(found) != table.rows:
        return None
    # Each change of an Arrow table copies the list of its columns: all are changed at once.
    columns = found.columns
    for at, column in enumerate(wanted):
        if column.type == "empty":  # there may be blanks
            columns[at] = pa.nulls(len(found), pa.string())
        elif column.type in DATES:
            columns[at] = _iso(columns[at], ORDERS.get(column.notation))
    return pa.table(columns, found.column_names)


def _iso(days: Any, order: str | None) -> Any:
    """Dates in a notation as ISO 8601 writes them, digit by digit: a day that no month has stays what it is."""
    days = pc.utf8_trim_whitespace(days)
    if order is not None:
        days = pc.replace_substring_regex(days, r"\b([0-9])\b", r"0\1")
        iso = r"\3-\2-\1" if order.startswith("%d") else r"\3-\1-\2"
        days = pc.replace_substring_regex(days, r"^([0-9]{2})[/.]([0-9]{2})[/.]([0-9]{4})$", iso)
    return pc.if_else(pc.equal(days, ""), None, days)


def _is_utf8(source: bytes) -> bool:
    try:
        str(source, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
