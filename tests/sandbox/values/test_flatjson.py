"""Flat records read by Arrow are the table that they were without it, or are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from byref_sandbox.values import flatjson, tables

MOMENT = "2024-01-02T03:04:05Z"
RECORD = {"n": 1, "x": 1.5, "t": "a", "at": MOMENT, "ok": True}


def _both(text: str) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """The table by Arrow's reader, None where it gives up, and without it."""
    try:
        raw = tables._at(text.encode(), ())
    except msgspec.MsgspecError:
        return None, None
    head, between = tables._head(raw)
    fields = list(dict.fromkeys(key for record in head for key in record))
    flat = flatjson.table(raw, head, fields, between) if between and fields else None
    try:
        plain = tables._decoded(raw, fields, tables._OURS)
    except (ValueError, TypeError):
        plain = None
    return (None if flat is None else tables.of_arrow(flat, tables._OURS)), plain


def _text(records: list[Any], between: str = ",") -> str:
    return "[" + between.join(json.dumps(record, separators=(",", ":")) for record in records) + "]"


@pytest.mark.parametrize("between", [",", ", ", ",\n", "\n , \n"])
def test_flat_records_are_read_whatever_stands_between_them(between: str) -> None:
    records = [RECORD | {"n": number, "t": "}" * (number % 3)} for number in range(2_000)]
    flat, plain = _both(_text(records, between))
    assert flat is not None
    assert len(flat) == 2_000
    assert_frame_equal(flat, plain)


@pytest.mark.parametrize(
    "later",
    [
        {"n": 2**53 + 1, "x": 1},
        {"n": None, "x": None, "t": None, "at": None, "ok": None},
        {"n": -0, "x": -0.0, "t": "\0\u2028é😀", "at": "2024-01-02T03:04:05.123456789+02:00"},
        {"at": "soon"},
        {},
        {"x": 5e-324},
    ],
)
def test_later_records_have_their_say_about_the_columns(later: dict[str, Any]) -> None:
    flat, plain = _both(_text([RECORD] * 1_500 + [later] + [RECORD] * 3))
    assert flat is not None
    assert_frame_equal(flat, plain)
    flat.loc[0, "n"] = 7  # a column can be written to
    assert flat.loc[0, "n"] == 7


@pytest.mark.parametrize(
    "later",
    [
        '{"n":1.5}',
        '{"n":1e3}',
        '{"n":9223372036854775808}',
        '{"n":"1"}',
        '{"n":true}',
        '{"x":' + "1" * 400 + "}",
        '{"x":1e999}',
        '{"t":1}',
        '{"t":{"a":1}}',
        '{"t":["a"]}',
        '{"t":"a},{b"}',
        '{"t":"\\ud800"}',
        '{"ok":1}',
        '{"n":1,"n":2}',
        '{"new":1}',
        "null",
        "5",
        "[]",
    ],
)
def test_what_the_reader_does_not_take_exactly_is_left_alone(later: str) -> None:
    one = json.dumps(RECORD, separators=(",", ":"))
    for tail in ("", f",{one}"):
        assert _both("[" + f"{one}," * 1_200 + later + tail + "]")[0] is None


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "a": st.none() | st.integers(-(2**70), 2**70),
                "b": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
                "c": st.none() | st.text(),
                "d": st.booleans() | st.none(),
                "e": st.sampled_from([MOMENT, "2024-01-02", "2024-02-31", None]),
                "f}": st.one_of(st.integers(0, 3), st.text(max_size=2), st.just([{"a": 1}, {"b": 2}])),
            },
        ),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([",", ", ", ",\n"]),
)
def test_whatever_the_records_are(records: list[dict[str, Any]], between: str) -> None:
    flat, plain = _both(_text(records, between))
    if flat is not None:
        assert_frame_equal(flat, plain)


def test_whoever_reads_stays_alone() -> None:
    """A zygote forks: another thread would leave its locks behind."""
    before = len(list(Path("/proc/self/task").iterdir()))
    assert _both(_text([RECORD] * 50_000))[0] is not None
    assert len(list(Path("/proc/self/task").iterdir())) == before


def test_large_text_takes_that_way(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"rows": [RECORD] * 20_000}).encode()
    monkeypatch.setattr(tables, "_decoded", None)
    frame = tables.from_json(text, ("rows",))
    assert frame is not None
    assert str(frame["at"].dtype) == "datetime64[us, UTC]"
