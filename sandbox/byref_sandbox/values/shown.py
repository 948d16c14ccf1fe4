"""The value of a run, as data and as the text that a model reads best.

This runs inside the jail, on whatever the code left behind: a `__repr__` that lies, loops or bombs does so in there.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pandas as pd

from byref_sandbox.values import exact, values

MAX_REPR_CHARS: Final = 20_000
"""Characters that are shown of the repr of a value that is no data."""
SHOWN_ROWS: Final = 10
"""Rows that are shown from either end of a table with more than `WHOLE_ROWS`."""
WHOLE_ROWS: Final = 40
SHOWN_COLUMNS: Final = 30
SHOWN_CELL_CHARS: Final = 200
MAX_CELLS_SHOWN_AS_JSON: Final = 2_000_000
"""Cells of a table that is sent as JSON when it is the value of a run."""

Kind = Literal["none", "json", "dataframe", "series", "repr"]


class Presented(NamedTuple):
    """A value as data and as text."""

    kind: Kind
    data: bytes
    """JSON."""
    text: str | None
    """None if the JSON itself reads best."""
    exact: bytes = b""
    """A big table with its types (`exact`)."""
    is_partial: bool = False
    """The table is too big for JSON: `data` is null."""


def present(value: object) -> Presented:
    """Return the last expression's value as data and as text. A value that is no data is shown by its repr."""
    try:
        if value is None:
            return Presented("none", b"null", "")
        if isinstance(value, pd.DataFrame):
            return _table("dataframe", value, values.records_of, frame_text(value))
        if isinstance(value, pd.Series):
            return _table("series", value, values.series_data, _series_text(value))
        data = values.to_json(value)
        return Presented("json", values.in_lines(value, data), _scalar_text(value))
    except values.NotData:
        text = _bounded_repr(value)
        return Presented("repr", values.to_json(text), text)


def _table(kind: Kind, table: Any, plain: Callable[[Any], object], text: str) -> Presented:
    packed = b""
    if not is_small(table):
        with contextlib.suppress(exact.NotExact):
            packed = exact.encode(table)
    if packed and table.size > MAX_CELLS_SHOWN_AS_JSON:
        return Presented(kind, b"null", text, packed, is_partial=True)
    value = plain(table)
    return Presented(kind, values.in_lines(value, values.to_json(value)), text, packed)


def frame_text(frame: pd.DataFrame) -> str:
    """Return a DataFrame as a table in text: exact counts, then all rows of a small one, or the first and the last rows."""
    rows, columns = frame.shape
    part, notes, gap = frame, [], None
    if not is_small(frame):
        gap = SHOWN_ROWS if rows > 2 * SHOWN_ROWS else None
        part = pd.concat([frame.iloc[:gap], frame.iloc[-gap:]]) if gap else frame
        notes = [f"first {gap} and last {gap} rows shown"] if gap else []
        if columns > SHOWN_COLUMNS:
            part = part.iloc[:, :SHOWN_COLUMNS]
            notes.append(f"first {SHOWN_COLUMNS} columns shown")
    title = f"{values.counted(rows, 'row')} × {values.counted(columns, 'column')}"
    names, cells = values.columns_of(part, for_text=True)
    if _has_bare_labels(frame.index):
        names, cells = ["", *names], [values.column_of(part.index.to_series()), *cells]
    lines = [" | ".join(map(_cell, row)) for row in zip(*cells, strict=True)]
    if gap:
        lines.insert(gap, f"… {values.counted(rows - 2 * gap, 'row')} …")
    return "\n".join(["; ".join([title, *notes]), " | ".join(map(_cell, names)), *lines])


def _has_bare_labels(index: pd.Index) -> bool:
    """Whether labels are integers without a name: of rows that were chosen, or what was counted. Data leaves them out, text does not."""
    return not values.index_says_something(index) and not isinstance(index, pd.RangeIndex)


def is_small(table: pd.DataFrame | pd.Series) -> bool:
    """Whether a table is shown whole."""
    return len(table) <= WHOLE_ROWS and (table.ndim == 1 or table.shape[1] <= SHOWN_COLUMNS)


def _series_text(series: pd.Series) -> str:
    rows = len(series)
    title = values.counted(rows, "value") + (f" of {series.name!s}" if series.name is not None else "")
    part, gap = series, None
    if not is_small(series):
        gap = SHOWN_ROWS
        part = pd.concat([series.iloc[:gap], series.iloc[-gap:]])
        title += f"; first {gap} and last {gap} shown"
    lines = list(map(_cell, values.column_of(part, for_text=True)))
    if values.index_says_something(series.index) or _has_bare_labels(series.index):
        lines = [f"{_cell(label)}: {line}" for label, line in zip(values.labels_of(part.index), lines, strict=True)]
    if gap:
        lines.insert(gap, f"… {values.counted(rows - 2 * gap, 'value')} …")
    return "\n".join([title, *lines])


def _scalar_text(value: object) -> str | None:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.generic):
        return _scalar_text(value.item()) or str(value)
    if isinstance(value, bool | int | float | complex):
        return repr(value)
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    return None


def _cell(value: object) -> str:
    """Return a cell as one bounded line."""
    if value is None:
        return "NaN"
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool | int | float):
        text = repr(value)
    elif isinstance(value, datetime.date):
        text = value.isoformat()
    else:
        try:
            text = values.to_json(value).decode()
        except values.NotData:
            text = _bounded_repr(value)
    text = (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r") if "\n" in text or "\r" in text else text
    )
    if len(text) > SHOWN_CELL_CHARS:
        return f"{text[:SHOWN_CELL_CHARS]}… [{len(text) - SHOWN_CELL_CHARS:,} more characters]"
    return text


def _bounded_repr(value: object) -> str:
    try:
        text = str(repr(value))
    except Exception as error:  # noqa: BLE001  (the code's own __repr__)
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    if len(text) > MAX_REPR_CHARS:
        return f"{text[:MAX_REPR_CHARS]}… [{len(text) - MAX_REPR_CHARS:,} more characters]"
    return text
