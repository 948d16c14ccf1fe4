"""Values on their way out: exact data, and text that reads well."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import tracemalloc
import uuid
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from byref_sandbox.values import exact, shown, values


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: float


@dataclasses.dataclass
class Order:
    x: int
    kind: str = dataclasses.field(default="order", init=False)


DATA = [
    (None, None),
    (True, True),
    (5, 5),
    (2**100, 2**100),
    (-0.1, -0.1),
    (float("nan"), None),
    (float("inf"), None),
    ("é\x00", "é\x00"),
    ("\ud800", "\ud800"),
    (["\ud800", 1], ["\ud800", 1]),
    ((1, (2,)), [1, [2]]),
    ({1, 2}, [1, 2]),
    (frozenset("a"), ["a"]),
    (
        {1: "a", None: "b", False: "c", (1, "x"): "d", 2.5: "e"},
        {"1": "a", "null": "b", "false": "c", "1, x": "d", "2.5": "e"},
    ),
    (collections.Counter([True, True, False]), {"true": 2, "false": 1}),
    ({None: {np.bool_(False): 1}}, {"null": {"false": 1}}),
    ({1: "a", "1": "b", "1_2": "c"}, {"1": "a", "1_2": "b", "1_2_2": "c"}),
    ([{"a": ({None: 4, "null": 1},)}], [{"a": [{"null": 4, "null_2": 1}]}]),
    ({(1, 2): 3, "1, 2": 4}, {"1, 2": 3, "1, 2_2": 4}),
    ({float("nan"): 1, float("nan"): 2}, {"nan": 1, "nan_2": 2}),
    ({np.int64(3): 1}, {"3": 1}),
    ({datetime.date(2024, 1, 2): 1, "a": {1, 2}}, {"2024-01-02": 1, "a": [1, 2]}),
    ({pd.Timestamp("2024-01-02"): 1}, {"2024-01-02T00:00:00": 1}),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    (collections.defaultdict(list, a=[1]), {"a": [1]}),
    (collections.OrderedDict(a=1), {"a": 1}),
    (collections.deque([1, 2]), [1, 2]),
    (range(3), [0, 1, 2]),
    ({"a": 1}.keys(), ["a"]),
    ({"a": 1}.values(), [1]),
    (collections.namedtuple("P", "x y")(1, 2), [1, 2]),
    (Point(1, 2.5), {"x": 1, "y": 2.5}),
    ({(1,): Point(1, 2.5)}, {"1": {"x": 1, "y": 2.5}}),
    ([Order(1), {1}], [{"x": 1, "kind": "order"}, [1]]),
    ({(1,): Order(1), "rows": (Order(2),)}, {"1": {"x": 1, "kind": "order"}, "rows": [{"x": 2, "kind": "order"}]}),
    (Colour.RED, "red"),
    (datetime.date(2024, 1, 2), "2024-01-02"),
    (datetime.datetime(2024, 1, 2, 3, 4), "2024-01-02T03:04:00"),
    (datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "2024-01-02T00:00:00Z"),
    (datetime.time(3, 4), "03:04:00"),
    (decimal.Decimal("1.10"), "1.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (b"ab", "YWI="),
    (1 + 2j, "(1+2j)"),
    (np.int64(7), 7),
    (np.float64(1.5), 1.5),
    (np.float64("nan"), None),
    (np.float32(0.5), 0.5),
    (np.bool_(True), True),
    (np.str_("x"), "x"),
    (np.datetime64("2024-01-02"), "2024-01-02"),
    (np.datetime64("NaT", "ns"), None),
    (np.timedelta64(90, "s"), "P0DT0H1M30S"),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array(5), 5),
    (np.array([1.0, np.nan]), [1.0, None]),
    (np.array(["2024-01-02", "NaT"], dtype="M8[D]"), ["2024-01-02T00:00:00", None]),
    (np.array(["a", None], dtype=object), ["a", None]),
    (pd.NaT, None),
    (pd.NA, None),
    (pd.Timestamp("2024-01-02 03:04", tz="UTC"), "2024-01-02T03:04:00+00:00"),
    (pd.Timedelta("1 day"), "P1DT0H0M0S"),
    (pd.Period("2024-01", "M"), "2024-01"),
    (pd.Interval(0, 1), "(0, 1]"),
    (pd.Index([1, 2]), [1, 2]),
    (pd.DatetimeIndex(["2024-01-02"]), ["2024-01-02T00:00:00"]),
    (pd.MultiIndex.from_tuples([(1, "a")]), [[1, "a"]]),
    (pd.Series([1, 2]).array, [1, 2]),
    (pd.Categorical(["a", "b"]), ["a", "b"]),
    ({"frame": pd.DataFrame({"a": [1]}), "series": pd.Series([1, None])}, {"frame": [{"a": 1}], "series": [1.0, None]}),
    ([np.int64(1), {"a": np.float64(2)}], [1, {"a": 2.0}]),
    ({1: np.float64("nan"), 2: float("inf")}, {"1": None, "2": None}),
]


@pytest.mark.parametrize(
    ("value", "data"), DATA, ids=[f"{type(value).__name__}-{n}" for n, (value, _) in enumerate(DATA)]
)
def test_data(value: object, data: object) -> None:
    assert json.loads(values.to_json(value)) == data


def test_keys_with_the_same_text_stay_apart_in_long_data() -> None:
    value = {1: "a", "1": "b", "rows": list(range(30_000))}
    assert json.loads(values.in_lines(value, values.to_json(value))) == {"1": "a", "1_2": "b", "rows": value["rows"]}


def cyclic() -> list[object]:
    items: list[object] = []
    items.append(items)
    return items


def deep() -> list[object]:
    items: list[object] = []
    for _ in range(300_000):  # newer versions of Python go as deep as there is stack
        items = [items]
    return items


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (cyclic(), "nested too deeply, or contains itself"),
        (deep(), "nested too deeply"),
        ({1: cyclic()}, "nested too deeply"),
        (object(), "an object is no data"),
        ({"a": object()}, "an object is no data"),
        (iter([1]), "a list_iterator is no data"),
        ((i for i in [1]), "a generator is no data"),
        ([10**5000], "digits"),
        ({"a": range(10**20)}, "a range of more than 1,000,000 numbers"),
        (pd.DataFrame({"a": [1]}).groupby("a"), "is no data"),
    ],
)
def test_what_is_no_data_says_so(value: object, words: str) -> None:
    with pytest.raises(values.NotData, match=words):
        values.to_json(value)


@pytest.mark.parametrize("beside", [list, tuple, lambda rows: {"rows": rows}])
def test_what_contains_itself_is_looked_at_once(beside: Callable[[object], object]) -> None:
    """Otherwise its rows would be written once for each level that the stack allows."""
    tree: dict[str, object] = {"rows": [[n, "text"] for n in range(2_000)]}
    tree["child"] = beside([{"parent": tree}])
    tracemalloc.start()
    try:
        with pytest.raises(values.NotData, match="contains itself"):
            values.to_json(tree)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_frames_are_records() -> None:
    frame = pd.DataFrame(
        {
            "n": [1, 2],
            "f": [0.1 + 0.2, np.nan],
            "t": ["a", None],
            "b": [True, False],
            "d": pd.to_datetime(["2024-01-02", None]),
            "z": pd.DatetimeIndex(["2024-01-02 03:00:00.0", "2024-01-02 04:00:00.5"], tz="UTC"),
            "i": pd.array([1, None], dtype="Int64"),
            "c": pd.Categorical(["x", "y"]),
            "o": [[1], {"a": np.int64(2)}],
            "e": [decimal.Decimal("1.5"), None],
            "u": pd.to_timedelta(["1h", None]),
            "big": [2**63, 1],
        }
    )
    assert json.loads(values.records_json(frame)) == [
        {
            "n": 1,
            "f": 0.1 + 0.2,
            "t": "a",
            "b": True,
            "d": "2024-01-02T00:00:00",
            "z": "2024-01-02T03:00:00+00:00",
            "i": 1,
            "c": "x",
            "o": [1],
            "e": "1.5",
            "u": "P0DT1H0M0S",
            "big": 2**63,
        },
        {
            "n": 2,
            "f": None,
            "t": None,
            "b": False,
            "d": None,
            "z": "2024-01-02T04:00:00.500000+00:00",
            "i": None,
            "c": "y",
            "o": {"a": 2},
            "e": None,
            "u": None,
            "big": 1,
        },
    ]


FRAME = pd.DataFrame({"g": ["x", "y", "x"], "v": [1, 2, 3], "w": [1.5, 2.5, 3.5]})


@pytest.mark.parametrize(
    ("frame", "records"),
    [
        (FRAME.groupby("g").sum(), [{"g": "x", "v": 4, "w": 5.0}, {"g": "y", "v": 2, "w": 2.5}]),
        (FRAME[FRAME.v > 1], [{"g": "y", "v": 2, "w": 2.5}, {"g": "x", "v": 3, "w": 3.5}]),
        (FRAME.groupby(["g", "v"]).sum().head(1), [{"g": "x", "v": 1, "w": 1.5}]),
        (FRAME.groupby("g").agg({"v": ["sum", "max"]}).head(1), [{"g": "x", "v_sum": 4, "v_max": 3}]),
        (FRAME[["v", "v"]].head(1), [{"v": 1, "v_2": 1}]),
        (FRAME.describe().loc[["mean"], ["v"]], [{"index": "mean", "v": 2.0}]),
        (pd.DataFrame({"a": [1]}, index=pd.to_datetime(["2024-01-02"])), [{"index": "2024-01-02T00:00:00", "a": 1}]),
        (pd.DataFrame({0: [1], (1, "b"): [2]}), [{"0": 1, "1_b": 2}]),
        (pd.DataFrame(index=range(2)), [{}, {}]),
        (pd.DataFrame({"a": []}), []),
        (
            FRAME.rename_axis("v").reset_index(drop=True).set_index("v", drop=False).head(1),
            [{"v": 1, "g": "x", "v_2": 1, "w": 1.5}],
        ),
    ],
)
def test_an_index_that_says_something_is_kept(frame: pd.DataFrame, records: object) -> None:
    assert json.loads(values.records_json(frame)) == records


@pytest.mark.parametrize(
    ("series", "data", "text"),
    [
        (pd.Series([1, 2]), [1, 2], "2 values\n1\n2"),
        (FRAME.groupby("g")["v"].sum(), {"x": 4, "y": 2}, "2 values of v\nx: 4\ny: 2"),
        (FRAME.groupby(["g", "v"])["w"].sum().head(1), {"x, 1": 1.5}, "1 value of w\nx, 1: 1.5"),
        (
            pd.Series([1, 2], index=["a", "a"]),
            [{"index": "a", "value": 1}, {"index": "a", "value": 2}],
            "2 values\na: 1\na: 2",
        ),
        (pd.Series([None, "x"]), [None, "x"], "2 values\nNaN\nx"),
        (pd.Series([5, 7, 7]).value_counts(), [2, 1], "2 values of count\n7: 2\n5: 1"),
        (
            pd.Series([1.5], index=pd.to_datetime(["2024-01-02"])),
            {"2024-01-02T00:00:00": 1.5},
            "1 value\n2024-01-02T00:00:00: 1.5",
        ),
        (pd.Series([], dtype=float), [], "0 values"),
    ],
)
def test_series(series: pd.Series, data: object, text: str) -> None:
    presented = shown.present(series)
    assert (presented.kind, json.loads(presented.data), presented.text) == ("series", data, text)


def test_a_frame_is_shown_whole_while_it_is_small() -> None:
    presented = shown.present(FRAME)
    assert presented.kind == "dataframe"
    assert presented.text == "3 rows × 3 columns\ng | v | w\nx | 1 | 1.5\ny | 2 | 2.5\nx | 3 | 3.5"


def test_a_big_frame_says_what_is_shown() -> None:
    frame = pd.DataFrame({f"c{n}": range(1200) for n in range(40)})
    text = shown.frame_text(frame)
    lines = text.splitlines()
    assert lines[0] == "1,200 rows × 40 columns; first 10 and last 10 rows shown; first 30 columns shown"
    assert len(lines) == 23
    assert lines[12] == "… 1,180 rows …"
    assert [line.split(" | ")[0] for line in (lines[2], lines[11], lines[13], lines[22])] == ["0", "9", "1190", "1199"]
    assert lines[1].count("|") == 29
    assert shown.frame_text(frame.iloc[:1, :1]) == "1 row × 1 column\nc0\n0"


def test_dates_without_a_time_read_as_dates() -> None:
    frame = pd.DataFrame(
        {"d": pd.to_datetime(["2024-01-02", None]), "t": pd.to_datetime(["2024-01-02 03:00", "2024-01-02 00:00"])}
    )
    assert shown.frame_text(frame).splitlines()[2:] == [
        "2024-01-02 | 2024-01-02T03:00:00",
        "NaN | 2024-01-02T00:00:00",
    ]


def test_a_cell_is_one_bounded_line() -> None:
    text = shown.frame_text(pd.DataFrame({"t": ["a\nb", "x" * 1000], "o": [[1, {"a": 2}], None]}))
    assert text.splitlines()[2] == 'a\\nb | [1,{"a":2}]'
    assert text.splitlines()[3] == "x" * 200 + "… [800 more characters] | NaN"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "none", ""),
        ("plain text", "json", "plain text"),
        (5, "json", "5"),
        (True, "json", "True"),
        (0.1, "json", "0.1"),
        (float("nan"), "json", "nan"),
        (np.float64(0.1), "json", "0.1"),
        (np.bool_(False), "json", "False"),
        (np.int64(0), "json", "0"),
        (np.str_(""), "json", ""),
        (datetime.date(2024, 1, 2), "json", "2024-01-02"),
        (pd.Timestamp("2024-01-02 03:00"), "json", "2024-01-02 03:00:00"),
        ([1, "a"], "json", None),
        ({"a": 1}, "json", None),
    ],
)
def test_text_of_values(value: object, kind: str, text: str | None) -> None:
    presented = shown.present(value)
    assert (presented.kind, presented.text) == (kind, text)


def test_what_is_no_data_is_shown_by_its_repr() -> None:
    presented = shown.present(10**5000)
    assert presented.kind == "repr"
    assert "int" in (presented.text or "")

    class Long:
        def __repr__(self) -> str:
            return "x" * 50_000

    class Liar:
        def __repr__(self) -> str:
            raise KeyError

    assert (shown.present(Long()).text or "").endswith("… [30,000 more characters]")
    assert shown.present(Liar()).text == "<Liar whose repr raised KeyError>"
    assert shown.present({"ids": range(10**12)}).text == "{'ids': range(0, 1000000000000)}"
    assert json.loads(shown.present(Liar()).data) == "<Liar whose repr raised KeyError>"


def test_what_is_kept() -> None:
    frame = values.keep(FRAME.head(1))
    assert frame[:2] == ("dataframe", b'[{"g":"x","v":1,"w":1.5}]')
    assert frame.shape == "DataFrame of 1 row and 3 columns"
    pd.testing.assert_frame_equal(exact.decode(frame.exact), FRAME.head(1))
    assert values.keep(pd.Series([1]))[:2] == ("json", b"[1]")
    assert values.keep(None) == values.Keepsake("json", b"null")
    assert values.keep({"a": [1, 2.5, True, None, "x"]}) == values.Keepsake("json", b'{"a":[1,2.5,true,null,"x"]}')
    big = values.keep(pd.DataFrame({"n": range(values.MAX_CELLS_AS_JSON + 1)}))
    assert (big.data, big.shape) == (b"", "DataFrame of 200,001 rows and 1 column")
    for value, words in ((json, "module"), (len, "method"), (iter([]), "iterator"), (object(), "object")):
        with pytest.raises(values.NotData, match=words):
            values.keep(value)


def test_a_big_frame_converts_quickly() -> None:
    """A loose bound that only something quadratic, or a Python call per cell, would break."""
    import time

    frame = pd.DataFrame(
        {
            "n": range(50_000),
            "f": np.linspace(0, 1, 50_000),
            "d": pd.date_range("2024-01-01", periods=50_000, freq="min"),
        }
    )
    began = time.process_time()
    assert len(values.records_json(frame)) > 2_500_000
    assert time.process_time() - began < 1
