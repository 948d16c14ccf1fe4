"""The example shows one complete element of every array, says exactly what it leaves out, and keeps within its budget."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from benchmarks.envelopes import untrue
from hypothesis import given, settings
from hypothesis import strategies as st
from json_values import EVERYDAY, VALUES, nested

from byref.describe.example import Example, example
from byref.describe.schema import infer

USER = {"login": "ada", "id": 1, "url": "https://api.example.com/users/ada"}
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "one record": ([{"id": n, "name": f"n{n}"} for n in range(9)], [{"id": 0, "name": "n0"}, "... 8 more ..."]),
    "what the first lacks": (
        [{"id": 1, "n": 1, "s": "t", "at": None, "by": {"a": 1}}, {"id": 2, "n": 1, "s": "t", "at": "x", "by": {"a": 2, "b": 3}}, {"id": 3}],
        [{"id": 1, "n": 1, "s": "t", "at": None, "by": {"a": 1}}, {"at": "x", "by": {"b": 3, "...": "1 more key"}, "...": "3 more keys"}, "... 1 more ..."],
    ),
    "the fullest": ([*[{"a": None, "b": None}] * 3, {"a": 1, "b": 2}], ["... 3 more ...", {"a": 1, "b": 2}]),
    "a map": ({f"2026-01-{n}": {"low": n} for n in range(10, 20)}, {"2026-01-10": {"low": 10}, "...": "9 more keys"}),
    "the last where time orders": (
        [{"at": f"2026-01-{n}", "n": n} for n in range(10, 20)],
        [{"at": "2026-01-10", "n": 10}, "... 8 more ...", {"at": "2026-01-19", "n": 19}],
    ),
    "a long string": ([{"t": "x" * 100}], [{"t": "x" * 48 + "… +52 chars"}]),
    "a shape once more": ([{"by": USER, "to": USER}], [{"by": USER, "to": {"login": "ada", "id": 1, "...": "1 more key"}}]),
    "scalars": ([1, 2, 3, 4, 5, "x"], [1, 2, "... 3 more ...", "x"]),
}  # fmt: skip


def characters(text: str) -> int:
    return -(-len(text) // 3)


def shown(value: object, budget: int = 2_000) -> Example | None:
    found = example(value, infer(value).outline, budget=budget, measure=characters)
    assert found is None or found.tokens == characters(found.text) <= budget
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_an_example_shows(name: str) -> None:
    value, wanted = EXAMPLES[name]
    found = shown(value)
    assert found is not None and found.value == wanted == json.loads(found.text)
    assert found.is_complete or name in ("a long string", "a shape once more")
    assert not found.is_whole


@given(VALUES, st.integers(10, 400))
@settings(max_examples=settings.default.max_examples // 2)
def test_any_value_has_an_example_that_parses(value: object, budget: int) -> None:
    found = shown(value, budget)
    if found is None:
        return
    json.loads(found.text)
    if found.is_whole and not re.search(r"\\u|e\+|NaN|…|\.\.\.", json.dumps(value, ensure_ascii=False)):
        assert json.loads(found.text) == value or isinstance(value, str)


@pytest.mark.parametrize("budget", [20, 60, 200, 1_000])
@pytest.mark.parametrize("name", EVERYDAY)
def test_nothing_in_an_example_is_untrue(name: str, budget: int) -> None:
    value = EVERYDAY[name]
    found = shown(value, budget)
    if found is not None and found.value != "...":
        assert not list(untrue._of_preview(found.value, value, "$"))


def test_what_nests_too_deeply_to_be_shown_is_not_called_whole() -> None:
    found = shown(nested(240, [{"a": 1}] * 3))
    assert found is not None and not found.is_whole
