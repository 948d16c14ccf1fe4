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

from byref.describe.example import Example, Examples, _Choice
from byref.describe.schema import infer

USER = {"login": "ada", "id": 1, "url": "https://api.example.com/users/ada"}
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "one record": ([{"id": n, "name": f"n{n}"} for n in range(9)], [{"id": 0, "name": "n0"}, "... 8 more ..."]),
    "what the first lacks": (
        [{"id": 1, "n": 1, "s": "t", "at": None, "by": {"a": 1}}, {"id": 2, "n": 1, "at": "x", "by": {"b": 3}}, {"id": 3, "tag": "y"}],
        [{"id": 1, "n": 1, "s": "t", "at": None, "by": {"a": 1}}, {"at": "x", "by": {"b": 3}, "...": "2 more keys"}, {"tag": "y", "...": "1 more key"}],
    ),
    "the fullest": ([*[{"a": None, "b": None}] * 3, {"a": 1, "b": 2}], ["... 3 more ...", {"a": 1, "b": 2}]),
    "other keys of a map": (
        [{"name": {f"n{i}-{j}": {"a": 1} for j in range(i + 1)}} for i in range(100, 104)],
        [{"name": {"n100-0": {"a": 1}, "...": "100 more keys"}}, "... 3 more ..."],
    ),
    "the fullest at any depth": (
        [{"by": {"a": None}}, {"by": {"a": {"b": 1}}}, {"by": {"a": None}}],
        ["... 1 more ...", {"by": {"a": {"b": 1}}}, "... 1 more ..."],
    ),
    "what an entry lacks": (
        {f"k-{n:03}": {"id": n, **({"max": 3} if n == 5 else {"min": 1, "at": 2})} for n in range(100, 140)} | {"k-005": {"id": 5, "max": 3}},
        {"k-100": {"id": 100, "min": 1, "at": 2}, "k-005": {"max": 3, "...": "1 more key"}, "...": "39 more keys"},
    ),
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
    found = Examples(value, infer(value).outline).fitted(budget, characters)
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


def tree(levels: int, number: int = 1) -> dict[str, Any]:
    """A tree whose objects have five objects each, and none a key of another."""
    if not levels:
        return {"v": number}
    return {f"n{5 * number + n}": tree(levels - 1, 5 * number + n) for n in range(5)}


@pytest.mark.parametrize("budget", [100, 600])
def test_of_a_tree_with_scalars_at_its_ends_alone_one_end_is_shown(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    plain = _Choice._open_object

    def open_object(self: _Choice, part: Any, *arguments: Any) -> None:
        opened.append(part)
        plain(self, part, *arguments)

    monkeypatch.setattr(_Choice, "_open_object", open_object)
    found = shown(tree(6), budget)
    assert found is not None and re.search(r'"v":\d+', found.text) and not found.is_whole
    assert len(opened) < 1_500  # of 19,531


FULL = {
    "id": 7,
    "sha": "0123456789abcdef0123456789abcdef",
    "html_url": "https://example.com/things/number/7/as/a/page/for/people",
    "api_url": "https://example.com/api/v3/things/number/7/as/an/object",
    "closed_at": None,
    "title": "a long title that is longer than all that is shown of it " * 3,
    "names": {"eng": {"common": "a", "official": "b"}, "fra": {"common": "c", "official": "d"}},
    "by": {"login": "ada", "groups": {"first": {"name": "x"}}},
}
THINGS = [FULL, {"id": 8, "tag": "t"}, {"id": 9, "mark": 1}, *[{"id": n} for n in range(10, 40)]]


@pytest.mark.parametrize(
    ("aim", "wanted", "unwanted"),
    [
        (500, ['a long title that is longer than all that is sho…', FULL["sha"], "api_url", '"fra"', '"tag"', '"mark"'], []),
        (160, ['"a long title that is longer than…', "0123456789… +22", "https://example.com/things/numb", "api_url", '"fra"', '"mark"'], []),
        (20, ['"a long title that is…', "0123456789… +22", "html_url", '"eng"', '"tag"'], ["api_url", '"fra"', '"mark"']),
    ],
)  # fmt: skip
def test_beyond_the_aim_less_is_shown_of_each_place(aim: int, wanted: list[str], unwanted: list[str]) -> None:
    found = Examples(THINGS, infer(THINGS).outline).fitted(500, characters, aim=aim)
    assert found is not None and found.is_complete
    assert [text for text in wanted if text not in found.text] == []
    assert [text for text in unwanted if text in found.text] == []


def test_links_and_ids_and_null_give_way_to_what_is_one_level_below() -> None:
    there = [
        [name for name in ("title", '"common"', "login", "sha", "api_url", "closed_at") if name in found.text]
        for budget in range(30, 400, 5)
        if (found := Examples(THINGS, infer(THINGS).outline).fitted(budget, characters)) is not None
    ]
    late = {"sha", "api_url", "closed_at"}
    assert all({"title", "login"} <= set(names) for names in there if late & set(names))
    assert any("login" in names and not late & set(names) for names in there)
