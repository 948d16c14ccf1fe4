"""The records and the DataFrame of a table in text are the same, however it is read: cell by cell, or by Arrow."""

from __future__ import annotations

import csv
import io
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byref import Engine
from byref_sandbox.tabletext import Recognised, read, reading, recognise
from byref_sandbox.values import readings, tables


def written(rows: list[dict[str, Any]], **dialect: Any) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0].keys(), **dialect)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def of(text: str | bytes) -> str:
    found = recognise(text, "csv")
    assert isinstance(found, Recognised), str(found)
    return reading.to_text(reading.reading_of(found))


SIMPLE = [
    {"id": n, "name": f"n {n % 50}", "x": n / 4, "ok": n % 2 == 0, "day": f"2026-02-{1 + n % 28:02d}"}
    for n in range(4_000)
]
TEXTS: dict[str, str] = {
    "simple": written(SIMPLE),
    "tabs": written(SIMPLE, delimiter="\t", lineterminator="\n"),
    "all quoted": written(SIMPLE, quoting=csv.QUOTE_ALL),
    "quotes and line feeds in cells": written([row | {"name": f'a "b", \n{row["id"]}'} for row in SIMPLE]),
    "nulls in each column": written(
        [{key: value if n % 7 else "" for key, value in row.items()} for n, row in enumerate(SIMPLE)]
    ),
    "an empty column": written([row | {"name": ""} for row in SIMPLE]),
    "decimal commas and dates of Europe": written(
        [{"x": f"{n},{n % 100:02d}", "day": f"{1 + n % 28:02d}/{1 + n % 12:02d}/2026", "n": n} for n in range(4_000)],
        delimiter=";",
    ),
    "dates of America": written([{"n": n, "day": f"{1 + n % 12}/{1 + n % 28}/2026"} for n in range(4_000)]),
    "times": written(
        [{"n": n, "at": f"2026-01-01 10:{n % 60:02d}:00", "z": f"2026-01-01T10:{n % 60:02d}:00Z"} for n in range(4_000)]
    ),
    "ragged": written(SIMPLE)
    + "1,x\r\n2,y,0.5,True,2026-01-01,more,cells\r\nTotal of all\r\n"
    + written(SIMPLE).split("\r\n", 1)[1],
    "not ASCII": written([row | {"name": f"né {row['id']} 中"} for row in SIMPLE]),
    "backslashes": "id,name\n" + "".join(f'{n},"a \\"b\\" {n}"\n' for n in range(4_000)),
    "returns": written(SIMPLE).replace("\r\n", "\r"),
    "blanks around numbers": "a, b\n" + "".join(f"{n}, {n}\n" for n in range(9_000)),
}


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("name", TEXTS)
def test_records_and_frames_are_the_same_both_ways(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, data = of(TEXTS[name]), TEXTS[name].encode()
    by_arrow = read(text, data)
    monkeypatch.setattr(reading, "_LARGE_BYTES", 1 << 60)
    cell_by_cell = read(text, data)
    assert cell_by_cell == by_arrow and isinstance(cell_by_cell, list) and len(cell_by_cell) >= 4_000
    frame = readings.frame(text, data, [])
    if frame is None:
        assert name in ("ragged", "backslashes", "returns", "blanks around numbers")
    else:
        pd.testing.assert_frame_equal(frame, tables.from_records(cell_by_cell))


def test_ragged_rows_lose_nothing() -> None:
    records = read(of(TEXTS["ragged"]), TEXTS["ragged"].encode())
    assert isinstance(records, list)
    short, long, total = records[4_000:4_003]
    assert short == {"id": 1, "name": "x", "x": None, "ok": None, "day": None}
    assert long == {"id": 2, "name": "y", "x": 0.5, "ok": True, "day": "2026-01-01", "extra": ["more", "cells"]}
    assert total == {**dict.fromkeys(("id", "name", "x", "ok", "day")), "extra": ["Total of all"]}


def test_a_column_may_be_called_extra() -> None:
    rows = "".join(f"{n},{n}\n" for n in range(100))
    records = read(of(f"extra,b\n{rows}1,2,3\n"), f"extra,b\n{rows}1,2,3\n".encode())
    assert isinstance(records, list) and records[-1] == {"extra": 1, "b": 2, "extra_2": ["3"]}


def test_other_encodings_are_read() -> None:
    text = "name;x\n" + "".join(f"Müller {n};{n}\n" for n in range(100))
    for encoding in ("cp1252", "utf-16", "utf-8-sig"):
        records = read(of(text.encode(encoding)), text.encode(encoding))
        assert isinstance(records, list) and records[7] == {"name": "Müller 7", "x": 7}


def test_some_records_are_read_without_all(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXTS["quotes and line feeds in cells"] * 1
    [table] = reading.from_text(of(text)).tables
    data, every = text.encode(), read(of(text), text.encode())
    assert isinstance(every, list)
    places = reading.places(table, data, 20)
    assert len(places) == 20
    for place in places:
        assert reading.records_at(table, data, place, 1)[0] in every
    assert reading.records_at(table, data, places[0], 1) == every[:1]
    assert reading.records_at(table, data, places[-1])[-1] == every[-1]


@given(st.text(max_size=300))
def test_a_reading_that_is_none_of_ours_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        reading.from_text(text)


@given(
    st.lists(
        st.lists(
            st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=8), min_size=3, max_size=3
        ),
        min_size=2,
        max_size=12,
    )
)
def test_all_cells_are_in_the_records(rows: list[list[str]]) -> None:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([["a", "b", "c"], *rows])
    text = file.getvalue()
    found = recognise(text, "csv")
    if isinstance(found, Recognised):
        records = read(of(text), text.encode())
        shown = str(records)
        for row in rows:
            for cell in row:
                words = [
                    word
                    for word in cell.split()
                    if word.isalpha() and word.isascii() and word.lower() not in ("true", "false")
                ]
                assert all(word in shown for word in words)


def test_a_table_of_very_many_columns_is_read_cell_by_cell() -> None:
    """Arrow asks for memory for each of them, which takes longer the more there are."""
    rows = [[f"{1 + n % 28:02d}/{1 + at % 12:02d}/2026", at, f"x{n}"][n % 3] for at in range(8) for n in range(3_000)]
    lines = [",".join(map(str, rows[at : at + 3_000])) for at in range(0, len(rows), 3_000)]
    text = "\n".join([",".join(f"c{n}" for n in range(3_000)), *lines])
    column = of(text)
    assert readings.frame(column, text.encode(), []) is None
    records = read(column, text.encode())
    assert isinstance(records, list) and len(records) == 8
    assert [records[7][name] for name in ("c12", "c13", "c2999")] == ["2026-08-13", 7, "x2999"]


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["{day:02d}/{month:02d}/2026", "{day}", "x{day}.{month}"])
def test_code_uses_a_table_of_twenty_thousand_columns(cell: str) -> None:
    lines = [";".join(cell.format(day=1 + n % 28, month=1 + at % 12) for n in range(20_000)) for at in range(20)]
    text = "\n".join([";".join(f"c{n}" for n in range(20_000)), *lines])
    with Engine("sqlite:///:memory:") as engine:
        session = engine.session("s", context_window=200_000)
        session.process(text, tool="wide")
        for code in ("len(wide), len(wide[0])", "df(wide).shape", "pd.DataFrame(wide).shape"):
            reply = session.call("code_interpreter", {"code": code})
            assert not reply.is_error and "20000" in reply.text, reply.text
