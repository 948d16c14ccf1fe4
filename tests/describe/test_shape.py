"""A shape consists of the documented words, and never has more than 200 tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_values import DOCUMENTS, EVERYDAY, VALUES, compatibility, records

from byref.accounting.tokens import SampledCounter
from byref.describe.schema import infer
from byref.describe.shape import kind_of, shape

COUNTER = SampledCounter()


def tokens(value: object) -> int:
    return max(COUNTER.count(json.dumps(value, ensure_ascii=ascii_only), "json") for ascii_only in (True, False))


def test_the_documented_shape() -> None:
    rows = [{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}] * 500
    assert shape({"rows": rows, "next_cursor": "abc"}) == {
        "rows": "array(500) of object(6 keys)",
        "next_cursor": "string",
    }


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1, "integer"),
        (10**30, "integer"),
        (1.5, "number"),
        (True, "boolean"),
        (None, "null"),
        ("x", "string"),
        ([], "array(0)"),
        (["a", "b", "c"], "array(3) of string"),
        ([1, 2.5], "array(2) of number"),
        ([1, "a"], "array(2) of mixed"),
        ([1, True], "array(2) of mixed"),
        ([1, None], "array(2) of mixed"),
        ([None], "array(1) of null"),
        ([{"a": 1}, {"b": 1}], "array(2) of object(1 key)"),
        ([{"a": 1}, {}], "array(2) of object"),
        ([[1, 2], [3, 4]], "array(2) of array(2)"),
        ([[1], []], "array(2) of array"),
        ({}, "object(0 keys)"),
        ({"a": 1}, "object(1 key)"),
        ({"a": 1, "b": 2}, "object(2 keys)"),
    ],
)
def test_every_kind_has_its_words(value: object, words: str) -> None:
    assert kind_of(value) == words
    assert shape({"it": value}) == {"it": words}
    if not isinstance(value, dict):
        assert shape(value) == words


def test_an_empty_object_has_an_empty_shape() -> None:
    assert shape({}) == {}


def test_what_json_does_not_have_is_an_error() -> None:
    with pytest.raises(TypeError, match="tuple"):
        kind_of((1, 2))


def test_members_that_do_not_fit_are_counted() -> None:
    seen = shape({f"column_{i}": records(3) for i in range(600)})
    assert isinstance(seen, dict)
    *names, last = seen
    assert names == [f"column_{i}" for i in range(len(names))] and len(names) >= 8
    assert seen[last] == f"{600 - len(names)} more keys"


def test_top_level_names_of_a_deep_document_are_shown() -> None:
    assert shape(compatibility()) == {
        "__meta": "object(2 keys)",
        "api": "object(60 keys)",
        "browsers": "object(9 keys)",
        "css": "object(2 keys)",
    }


@given(VALUES | DOCUMENTS)
@example([{"a": 1}, {"b": 2}])
@example({"rows": [{"a": {}}, {"a": {"b": 1}}], "maps": [{str(key): {} for key in range(60)}] * 2})
def test_what_was_read_already_tells_the_same(value: object) -> None:
    assert shape(value, infer(value, plain=True).node) == shape(value)


@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_values_stay_under_200_tokens(name: str) -> None:
    value = EVERYDAY[name]
    assert tokens(shape(value)) < 200
    assert shape(value, infer(value, plain=True).node) == shape(value)


@settings(deadline=None)
@given(VALUES, st.dictionaries(st.text(st.characters(codec=None), max_size=60), VALUES, min_size=5, max_size=60))
def test_any_value_stays_under_200_tokens_and_counts_exactly(value: object, members: dict[str, Any]) -> None:
    for one in (value, members):
        seen = shape(one)
        assert tokens(seen) < 200
        if isinstance(one, dict) and isinstance(seen, dict) and len(seen) < len(one):
            assert seen["…"].split()[0] == str(len(one) - len(seen) + 1)


@pytest.mark.parametrize(
    "alphabet", ["qxzjvk", "aQ1z_9X-", "龘鬱爨麤", "🫠🧬", "\x00\x01", "\ud800", "\"\\/'<>", "éüñðþ", "ﷺ"]
)
@pytest.mark.parametrize("length", [1, 4, 9, 40, 5_000])
def test_hostile_keys_stay_under_200_tokens(alphabet: str, length: int) -> None:
    keys = {(alphabet * length)[i : i + length] + alphabet[i % len(alphabet)] * (i % 7) for i in range(200)}
    seen = shape({key: [{"a": 1}] * 54_321 if i < 3 else {} for i, key in enumerate(sorted(keys))})
    assert tokens(seen) < 200
