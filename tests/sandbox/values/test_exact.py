"""Values come back from their bytes as they were, and nothing else comes out of bytes."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import math
import re
import uuid
import zoneinfo
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byref_sandbox.values import exact

VALUES: list[Any] = [
    (1, 2),
    {1, 2},
    frozenset("a"),
    {"a": (1, [2])},
    {1: 2, (1, 2): 3},
    decimal.Decimal("1.10"),
    fractions.Fraction(1, 3),
    datetime.date(2024, 1, 1),
    datetime.datetime(2024, 1, 1, 2, 3, 4, 5),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Paris"), fold=1),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-3))),
    datetime.time(1, 2),
    datetime.timedelta(-1, 2, 3),
    b"\x00\xff",
    bytearray(b"y"),
    2**100,
    -(2**63),
    1 + 2j,
    range(1, 9, 2),
    slice(1, None),
    collections.Counter("aab"),
    collections.defaultdict(list, {"a": [1]}),
    collections.OrderedDict(b=1, a=2),
    collections.deque([1], 3),
    uuid.UUID(int=5),
    re.compile("a+", re.IGNORECASE),
    "\ud800",
    float("inf"),
    ...,
    pd.NaT,
    pd.NA,
    pd.Timestamp("2024-01-01", tz="Europe/Paris"),
    pd.Timestamp("2024-01-01 00:00:00.123456789"),
    pd.Timedelta("1D"),
    pd.Period("2024-01", "M"),
    pd.Interval(1, 2),
    np.float32(1.5),
    np.int8(3),
    np.bool_(True),
    np.datetime64("2024-01-01"),
]
FRAME = pd.DataFrame(
    {
        "i": [1, 2, 3],
        "f": [1.5, math.nan, 2],
        "s": ["a", None, "c"],
        "d": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
        "z": pd.to_datetime(["2024-01-01"] * 3).tz_localize("Europe/Paris"),
        "c": pd.Categorical(["x", "y", "x"], ordered=True),
        "I": pd.array([1, None, 3], dtype="Int64"),
        "b": pd.array([True, None, False], dtype="boolean"),
        "o": [{"a": 1}, [1, 2], None],
        "t": [(1,), {2}, datetime.date(2024, 1, 1)],
        "td": pd.to_timedelta([1, 2, 3], "D"),
        "p": pd.period_range("2024-01", periods=3, freq="M"),
        "iv": pd.interval_range(0, 3),
        "f32": np.array([1, 2, 3], dtype="float32"),
        "x": [1j, 2j, 3j],
        5: [1, 2, 3],
    }
)
TABLES = {
    "everything": FRAME,
    "index": FRAME.set_index("s"),
    "levels": FRAME.set_index(["i", "s"]),
    "aggregated": FRAME.groupby("c", observed=True)[["i", "f"]].agg(["sum", "mean"]),
    "dates": FRAME.set_index("d")[["f"]],
    "nothing": pd.DataFrame(),
    "no rows": FRAME.iloc[:0],
    "no columns": pd.DataFrame(index=[1, 2]),
    "twice": FRAME[["i", "i"]],
    "numbers": pd.DataFrame(np.eye(2)),
    "pivot": FRAME.pivot_table(index="c", columns="s", values="i", observed=False),
    "a series": FRAME["s"],
    "an index with a frequency": pd.Series([1, 2], index=pd.date_range("2024", periods=2, freq="D"), name="x"),
    "a tuple's name": pd.Series({"a": 1, "b": 2.5}).rename(("t", 1)),
    "intervals": pd.cut(FRAME["i"], 2),
    "counts": FRAME["c"].value_counts(),
    "sparse": pd.get_dummies(FRAME["c"], sparse=True).assign(f=pd.arrays.SparseArray([1.5, math.nan, math.nan]), n=1),
    "a sparse series": pd.Series(pd.arrays.SparseArray([0, 0, 3]), index=list("abc"), name="q"),
    "sparse texts": pd.Series(pd.arrays.SparseArray(np.array(["a", "a", "b"], dtype=object), fill_value="a")),
    "in another order of bytes": pd.DataFrame({"v": np.arange(3).astype(">i4"), "s": "x"}),
}


def again(value: object) -> Any:
    return exact.decode(exact.encode(value))


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    found = again(value)
    assert type(found) is type(value)
    assert found is value or found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_comes_back_as_it_was(name: str) -> None:
    table = TABLES[name]
    found = again(table)
    if isinstance(table, pd.Series):
        pd.testing.assert_series_equal(found, table)
    else:
        pd.testing.assert_frame_equal(found, table)
    assert type(found.index) is type(table.index)


@pytest.mark.parametrize("table", [FRAME, FRAME[["i", "f"]], FRAME["s"]], ids=["mixed", "numbers", "a series"])
def test_attrs_that_are_data_come_back(table: Any) -> None:
    table = table.copy()
    table.attrs = {"unit": ("EUR", 1), "at": datetime.date(2024, 1, 1), 1: {2}}
    assert again(table).attrs == table.attrs
    assert again(again(table)).attrs == table.attrs
    table.attrs["f"] = print
    assert again(table).attrs == {}


def test_a_table_that_comes_back_can_be_written_to() -> None:
    frame = again(pd.DataFrame({"a": [1.0, 2.0], "s": ["x", "y"]}))
    frame.loc[0, "a"] = 5
    frame["a"] += 1
    assert frame["a"].tolist() == [6, 3]


def test_arrays_keep_their_type_and_shape() -> None:
    for array in (np.arange(6, dtype="int16").reshape(2, 3), np.array(["a", "bc"]), np.array([[1 + 1j]]), np.array(5)):
        found = again(array)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert (found == array).all()
        found[...] = array
    objects = np.array([{"a": 1}, [1]], dtype=object)
    assert again(objects).tolist() == objects.tolist()


def test_nan_stays_nan() -> None:
    assert math.isnan(again([math.nan])[0])


@pytest.mark.parametrize(
    "value", [object(), lambda: 1, [print], math, pd.Series([print]), collections.defaultdict(lambda: 1)]
)
def test_what_is_more_than_data_is_refused(value: object) -> None:
    with pytest.raises(exact.NotExact):
        exact.encode(value)


def test_what_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(exact.NotExact, match="contains itself"):
        exact.encode(value)


@pytest.mark.parametrize(
    ("value", "is_json"),
    [
        ([1, {"a": None, "b": [True, "é", 2**70, 1.5]}], True),
        ("x", True),
        (None, True),
        ((1,), False),
        ([(1,)], False),
        ({1: 2}, False),
        ([math.nan], False),
        ({"a": {"b": math.inf}}, False),
        (collections.Counter("a"), False),
        ([np.float64(1)], False),
        (datetime.date(2024, 1, 1), False),
    ],
)
def test_what_json_gives_back_is_known(value: object, is_json: bool) -> None:
    assert exact.is_json(value) is is_json


@pytest.mark.parametrize("count", [1, 3_000])
def test_large_plain_values_go_as_a_whole_and_come_back_as_they_were(count: int) -> None:
    row: dict[str, Any] = {
        "i": -1,
        "f": 0.5,
        "n": None,
        "s": "\u00fc",
        "l": [True, {}],
        "nan": float("nan"),
        "inf": -math.inf,
    }
    rows = [dict(row, number=number) for number in range(count)]
    for value in ((rows,), {1: {str(n): [n] for n in range(count)}}, pd.DataFrame({"o": rows, "n": range(count)})):
        assert repr(again(value)) == repr(value)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    "odd", [(1,), {1: 2}, 2**64, np.float64(1.5), "\ud800", {1}, True, datetime.date(2024, 1, 1)], ids=repr
)
def test_one_odd_part_of_a_large_value_comes_back_too(odd: Any) -> None:
    rows: list[Any] = [{"id": number, "tags": ["a", None]} for number in range(3_000)]
    rows[-1]["tags"][1] = odd
    for value in ((rows,), [rows, 1], pd.DataFrame({"o": rows})):
        found = again(value)
        assert repr(found) == repr(value)
        last = found["o"].iloc[-1] if isinstance(found, pd.DataFrame) else found[0][-1]
        assert type(last["tags"][1]) is type(odd)


@pytest.mark.parametrize("text", ["null", "x"])
@pytest.mark.parametrize("odd", [None, float("nan"), math.inf, 1.5])
def test_nulls_in_the_json_tell_of_floats_that_it_does_not_give_back(text: str, odd: Any) -> None:
    value = [{"a": text, "b": None, "c": odd}]
    is_json = odd is None or math.isfinite(odd)
    assert exact.is_json(value, msgspec.json.encode(value)) is exact.is_json(value) is is_json


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.dates(),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers() | st.text(), inner),
        max_leaves=20,
    )
)
def test_any_value_comes_back(value: object) -> None:
    assert again(value) == value


@given(st.binary(max_size=60))
def test_any_other_bytes_are_an_error(data: bytes) -> None:
    try:
        exact.decode(data)
    except ValueError:
        return
    msgspec.msgpack.decode(data)


@pytest.mark.parametrize(
    "node", [["nothing"], ["array", "O", [1], b"12345678"], ["frame", b"x", [], [], []], ["dict", 1], [[]], ["deque", 1], {"a": 1}.keys() and ["period", "x", "y"]]
)  # fmt: skip
def test_forged_nodes_are_an_error(node: Any) -> None:
    with pytest.raises(ValueError, match="no kept value"):
        exact.decode(msgspec.msgpack.encode(node))
