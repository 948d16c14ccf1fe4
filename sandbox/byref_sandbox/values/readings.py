"""DataFrames of the tables in a text, without a list of records on the way: those that `tables` makes of the records."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from byref_sandbox.tabletext import arrow, reading
from byref_sandbox.values import tables


def frame(text: str, payload: bytes, path: Sequence[str | int]) -> pd.DataFrame | None:
    """Return the DataFrame of a table by its reading; None where its records have to be read. Raises `tabletext.Damaged`."""
    read_as, source = reading.opened(text, payload)
    wanted = [table for table in read_as.tables if list(path) == ([] if read_as.is_one else [table.name])]
    if not wanted:
        return None
    found = arrow.read(wanted[0], source)
    if found is not None and found.num_rows != wanted[0].rows:
        raise reading.Damaged("how its tables are read does not fit the text")
    return None if found is None else tables.of_arrow(found)
