"""A run's value is described from its text as it would be from the value."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byref.describe.shape import kind_of
from byref.describe.truncate import Ends
from byref.jsonscan import lazy
from byref.jsonscan.lazy import LazyJSON
from byref_sandbox import jsontext

LONG: dict[str, Any] = {
    "records": [{"id": number, "name": f"name {number}"} for number in range(20_000)],
    "texts": [f"text {number}" for number in range(40_000)],
    "mixed": [number if number % 3 else {"a": [number]} for number in range(60_000)],
    "an object of arrays": {"rows": [{"id": number} for number in range(40_000)], "total": 40_000},
    "one text": "é\U0001f600\n" * 60_000,
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("lines", [False, True])
def test_long_json_has_the_shape_of_its_value(name: str, lines: bool) -> None:
    value = LONG[name]
    data = msgspec.json.encode(value)
    if lines and isinstance(value, list):
        data = b"[\n" + b",\n".join(map(msgspec.json.encode, value)) + b"\n]"
    found = LazyJSON(data)
    assert len(data) > lazy._SHORT
    assert found.shape == kind_of(value)
    assert isinstance(found.text, Ends)
    text = value if isinstance(value, str) else data.decode()
    assert (found.text.characters, found.text.size) == (len(text), len(text.encode()))
    assert text.startswith(found.text.head) and text.endswith(found.text.tail)
    assert 0.9 < found.tokens(lambda text, _: len(text)) / len(text) < 1.1


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "made",
    [
        lambda: [[0] * 5_000_000],
        lambda: {f"k{number}": number for number in range(700_000)},
        lambda: [[1, "x"]] * 1_000_000,
    ],
    ids=["numbers", "keys", "lists"],
)
def test_what_is_too_much_to_be_outlined_is_counted_and_begins_as_it_does(made: Callable[[], Any]) -> None:
    value = made()
    found = LazyJSON(msgspec.json.encode(value))
    assert found.outline is None or len(found.data) < lazy._SCANNED
    assert found.shape.startswith(f"array({len(value)})" if isinstance(value, list) else f"object({len(value)} keys)")
    glimpse: Any = found.glimpse
    if isinstance(value, dict):
        assert glimpse == {key: value[key] for key in list(value)[: len(glimpse)]} and glimpse
    elif found.outline is None:
        assert glimpse == value[: len(glimpse)] or not glimpse


@pytest.mark.parametrize("size", range(13, 60))
def test_a_string_comes_in_pieces(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(jsontext, "_PIECE", size)
    for text in (
        rb'"\ud83d\ude00\ud83d\ude00\\\\\\\"\u00e9\n\\u0041\\\ud83d\ude00 and so on \ud83d\ude00\ud83d\ude00"',
        "é😀" * 9 + "x" * 50,
        '\\"' * 40,
        "\x01\x02" * 30,
        "",
    ):
        data = text if isinstance(text, bytes) else msgspec.json.encode(text)
        assert "".join(jsontext.pieces(data)) == jsontext.decode(data)
    lone = b'"%s"' % (rb"\ud83d" * 20 + rb"x\ude00" * 9)
    assert "".join(jsontext.pieces(lone)) == jsontext.decode(lone)


@pytest.mark.parametrize(
    "data", [rb'"\ud800"', rb'["\\ud800", "\ud83d\ude00"]', b"[1e999]", '["é"]'.encode(), b"1" * 5_000]
)
def test_json_is_told_without_making_anything_of_it(data: bytes) -> None:
    assert jsontext.is_json(data)


@pytest.mark.parametrize("data", [b"", b"[1,", b"1 2", b'"\xff"', b"[" * 100_000, rb'"\u12"', rb'"\ud8"', b"NaN"])
def test_what_is_no_json_is_told_too(data: bytes) -> None:
    assert not jsontext.is_json(data)


@given(
    st.lists(st.sampled_from(["\\", "u", "d", "D", "8", "f", "\\ud8", "\\u", "\\\\", '"', "00"])).map("".join),
    st.integers(4, 9),
)
def test_surrogates_are_found_wherever_pieces_end(text: str, size: int) -> None:
    data = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsontext, "_PIECE", size)
        assert jsontext._without_surrogates(data) == jsontext._SURROGATE.sub(rb"\\u00", data)


@pytest.mark.slow
def test_many_surrogates_take_a_small_multiple_of_their_bytes() -> None:
    data = b"[%s]" % b",".join([rb'"\ud800"'] * 500_000)
    tracemalloc.start()
    try:
        assert jsontext.is_json(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(data)
