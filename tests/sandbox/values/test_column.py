"""Columns that are put together part by part, against Arrow's own way."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byref_sandbox.values import column
from byref_sandbox.values.column import Column

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pa.string(): st.text(max_size=5),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
}


@st.composite
def parts_of(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """Parts as Arrow hands them out: empty ones, views into longer ones, and some with nulls."""
    type_ = draw(st.sampled_from([*VALUES]))
    values = VALUES[type_] | st.none() if draw(st.booleans()) else VALUES[type_]
    parts = []
    for members in draw(st.lists(st.lists(values, max_size=6), max_size=5)):
        begin = draw(st.integers(0, len(members)))
        parts.append(pa.array(members, type_).slice(begin, draw(st.integers(0, len(members)))))
    return type_, parts


@settings(max_examples=40)
@given(parts_of(), st.floats(0.001, 1.0))
def test_a_column_has_all_values_of_its_parts(given_parts: tuple[Any, list[Any]], share: float) -> None:
    type_, parts = given_parts
    made = Column(type_)
    for part in parts:
        made.add(part, share)
    whole = made.whole()
    whole.validate(full=True)
    assert whole.type == type_
    assert whole.to_pylist() == pa.chunked_array(parts, type_).to_pylist()
    if type_ != pa.bool_() and not any(part.null_count for part in parts):
        assert whole.num_chunks == 1


def test_room_is_taken_anew_where_parts_get_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column, "_ROOM", 0)
    parts = [pa.array([f"{n}ä" * n for n in range(size)]) for size in (1, 30, 3, 90)]
    made = Column(pa.string())
    for number, part in enumerate(parts):
        made.add(part, (number + 1) / len(parts))
    assert made.whole().to_pylist() == [text for part in parts for text in part.to_pylist()]
    assert made.whole().num_chunks == 1


def test_texts_beyond_what_an_offset_can_say_are_parts_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column, "_MAX_OFFSET", 5)
    made = Column(pa.string())
    for text in ("abc", "def", "g"):
        made.add(pa.array([text]), 0.5)
    assert made.whole().to_pylist() == ["abc", "def", "g"]
    assert made.whole().num_chunks == 3
