"""Tables of JSON records: what each column becomes, and that the text and the list of records give the same."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
import pytest

from byref_sandbox.values import tables
from byref_sandbox.values.loaded import Budget, Loaded, Wanted

MOMENT = "2024-01-02T03:04:05"


@pytest.mark.parametrize(
    ("values", "dtype", "found"),
    [
        ([1, 2], "int64", [1, 2]),
        ([1, None], "float64", [1.0, math.nan]),
        ([2**60, None], "Int64", [2**60, pd.NA]),
        ([2**70, 1], "object", [2**70, 1]),
        ([1, 2.5, None], "float64", [1.0, 2.5, math.nan]),
        ([True, False], "bool", [True, False]),
        ([True, None], "boolean", [True, pd.NA]),
        (["00123", "7"], "str", ["00123", "7"]),
        (["12.50", "3"], "str", ["12.50", "3"]),
        (["2024", "2025"], "str", ["2024", "2025"]),
        (["2024-01-02", None], "datetime64[us]", [pd.Timestamp("2024-01-02"), pd.NaT]),
        (["2024-01-02", MOMENT], "datetime64[us]", [pd.Timestamp("2024-01-02"), pd.Timestamp(MOMENT)]),
        ([MOMENT.replace("T", " ")], "datetime64[us]", [pd.Timestamp(MOMENT)]),
        ([MOMENT + ".123456789"], "datetime64[ns]", [pd.Timestamp(MOMENT + ".123456789")]),
        ([MOMENT + "Z", MOMENT + "+02:00"], "datetime64[us, UTC]", [pd.Timestamp(MOMENT + "Z"), pd.Timestamp(MOMENT + "+02:00")]),
        ([MOMENT + "-0330", None], "datetime64[us, UTC-03:30]", [pd.Timestamp(MOMENT + "-03:30"), pd.NaT]),
        ([MOMENT.replace("T", " ") + "+01"], "datetime64[us, UTC+01:00]", [pd.Timestamp(MOMENT + "+01:00")]),
        (["2024-01-02-07"], "str", ["2024-01-02-07"]),
        ([MOMENT + "+00:00"], "datetime64[us, UTC]", [pd.Timestamp(MOMENT + "Z")]),
        ([MOMENT + "Z", "2024-01-02"], "str", [MOMENT + "Z", "2024-01-02"]),
        (["2024-01-02", "soon"], "str", ["2024-01-02", "soon"]),
        (["2024-02-31"], "str", ["2024-02-31"]),
        (["2024-01-02-7"], "str", ["2024-01-02-7"]),
        ([{"a": 1}, None], "object", [{"a": 1}, None]),
        ([[1], [2]], "object", [[1], [2]]),
        ([1, "a"], "object", [1, "a"]),
        ([True, 1], "object", [True, 1]),
        ([None, None], "object", [None, None]),
        (["\ud800"], "object", ["\ud800"]),
    ],
)  # fmt: skip
def test_what_a_column_becomes(values: list[Any], dtype: str, found: list[Any]) -> None:
    for frame in (
        tables.from_records([{"x": value} for value in values]),
        _of_text([{"x": value} for value in values]),
    ):
        dtype = str(pd.Series(["a"]).dtype) if dtype == "str" else dtype
        assert str(frame["x"].dtype) == dtype
        for one, expected in zip(frame["x"].tolist(), found, strict=True):
            assert one is expected or one == expected or (one != one and expected != expected)


def _of_text(records: list[dict[str, Any]]) -> pd.DataFrame:
    frame = tables.from_json(json.dumps(records).encode(), ())
    return tables.from_records(records) if frame is None else frame  # lone surrogates need the lenient reader


RECORDS = [{"id": number, "tags": ["a"], "at": {"x": number}, "w é": "2024-01-01"} for number in range(5)]


@pytest.mark.parametrize("indent", [None, 1])
def test_records_anywhere_in_a_text(indent: int | None) -> None:
    text = json.dumps({"page": [{"rows": RECORDS}], "total": 5}, indent=indent).encode()
    frame = tables.from_json(text, ("page", 0, "rows"))
    assert frame is not None
    pd.testing.assert_frame_equal(frame, tables.from_records(RECORDS))
    assert list(frame) == ["id", "tags", "at", "w é"]
    assert frame["at"][3] == {"x": 3}


def test_keys_that_come_late_or_not_at_all() -> None:
    records: list[dict[str, Any]] = [{"b": 1}, {"a": 2, "b": 3}]
    frame = _of_text(records)
    assert list(frame) == ["b", "a"]
    late = [{"a": 1}] * 1_500 + [{"z": 1}]
    assert tables.from_json(json.dumps(late).encode(), ()) is None
    assert list(tables.from_records(late)) == ["a", "z"]


@pytest.mark.parametrize(
    "text", ["{}", "[]", "[1]", "[[1]]", "5", "", "[{]", '[{"a":1},2]', "[{}]", '[{"a":NaN}]', "[" * 9_999]
)
def test_what_is_no_table_is_left_to_others(text: str) -> None:
    assert tables.from_json(text.encode(), ()) is None


def test_a_path_that_is_not_there() -> None:
    for path in (("a", "b"), (5,), ("nothing",)):
        assert tables.from_json(b'{"a":[{"b":1}]}', path) is None


def test_no_text_in_another_encoding() -> None:
    assert tables.from_json('[{"a":"é"}]'.encode("latin-1"), ()) is None


def test_a_budget_that_is_spent_leaves_tables_to_whoever_has_one() -> None:
    text = json.dumps({f"t{number}": [{"a": number}] for number in range(3)}).encode()
    wanted = Wanted(value=False, frames=frozenset(json.dumps([f"t{number}"]).encode() for number in range(3)))
    loaded = Loaded()
    loaded.load("application/json", text, wanted, Budget(0))
    loaded.build(wanted, Budget(0))
    loaded.build_arrow(wanted, Budget(0))
    assert loaded.has_value
    assert (loaded.frames, loaded.tables, loaded.left) == ({}, {}, set())
    assert loaded.is_to_build(wanted, arrow=False)
    loaded.build(wanted, Budget())
    assert loaded.frames.keys() == wanted.frames
    assert sorted(frame["a"][0] for frame in loaded.frames.values()) == [0, 1, 2]


@pytest.mark.parametrize(("paths", "depth", "is_decoded"), [(4, 1, False), (5, 1, True), (1, 8, False), (1, 9, True)])
def test_a_text_is_not_read_again_and_again(paths: int, depth: int, is_decoded: bool) -> None:
    value: Any = {f"t{number}": [{"a": number}] for number in range(paths)}
    for _ in range(depth - 1):
        value = {"in": value}
    steps = ["in"] * (depth - 1)
    wanted = Wanted(False, frozenset(json.dumps([*steps, f"t{number}"]).encode() for number in range(paths)))
    loaded = Loaded()
    loaded.load("application/json", json.dumps(value).encode(), wanted, Budget())
    assert loaded.has_value is is_decoded
    loaded.build(wanted, Budget())
    assert loaded.frames.keys() == wanted.frames
