"""Arrays with only their ends in memory are shown like whole arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from byref.artifacts.variables import parts
from byref.describe.preview import preview
from byref.describe.rows import Rows
from byref.describe.schema import Abridged, infer
from byref.describe.shape import kind_of, shape
from byref.describe.truncate import Ends, head_of, head_within, truncate, truncate_json
from byref.jsonscan import Scanned, Scanner, sizes


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {"BLOCK": 1 << 12, "END": 1 << 15, "TEXT_END": 1 << 15}.items():
            patch.setattr(sizes, name, size)
        yield


def scan(data: bytes) -> Scanned:
    scanner = Scanner()
    scanner.feed(data)
    return scanner.finish()


def records(count: int) -> list[dict[str, Any]]:
    return [
        {"id": i, "name": f"User {i}", "bio": "lorem " * (i % 40), "tags": list(range(i % 7)), "at": {"x": i / 7}}
        for i in range(count)
    ]


VALUES: dict[str, Any] = {
    "records": records(8_000),
    "numbers": list(range(200_000)),
    "integers, then a number": [*range(100_000), 0.5],
    "strings": [f'line {i}, with "quotes" and \\ ' * (i % 5) for i in range(20_000)],
    "mixed": [1, "a", None, {"b": 1}, [1, 2], 2.5, True] * 9_000,
    "rows of a table": [[i, str(i), None] for i in range(40_000)],
    "long elements": ["x" * 20_000 for i in range(60)],
    "few long elements": [{"body": "x" * 200_000, "id": i} for i in range(4)],
    "page": {"total": 8_000, "rows": records(8_000), "next": None},
    "two arrays": {"users": records(6_000), "note": "n" * 3_000, "ids": list(range(90_000)), "few": [1, 2, 3]},
    "many arrays": {f"column {i}": list(range(30_000)) for i in range(20)},
}


def characters(text: str) -> int:
    return -(-len(text) // 3)


@pytest.fixture(scope="module", params=list(VALUES))
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any, int]:
    value = VALUES[request.param]
    data = json.dumps(value).encode()
    abridged = scan(data).value
    members = abridged.values() if isinstance(abridged, dict) else [abridged]
    assert any(type(member) is Rows for member in members) or request.param == "few long elements"
    return value, abridged, len(data)


def without_shares(shown: object) -> str:
    """What is shown, without how much each of several gaps is said to stand for, which samples tell."""
    return re.sub(r"\(\S+ tokens omitted\)|truncated \S+ \w?B;", "", json.dumps(shown))


@pytest.mark.parametrize("budget", [30, 100, 500, 1_500])
def test_previews(pair: tuple[Any, Any, int], budget: int) -> None:
    value, abridged, size = pair
    whole = preview(value, budget=budget, measure=characters, total=size // 3)
    found = preview(abridged, budget=budget, measure=characters, total=size // 3)
    if len(whole.omitted or {}) == 2 and "items" in (whole.omitted or {}):  # one gap: no shares
        assert (found.omitted, len(found.text)) == (whole.omitted, len(whole.text))
    assert without_shares(found.value) == without_shares(whole.value)
    assert found.tokens <= budget


@pytest.mark.parametrize("budget", [100, 500, 2_500])
def test_truncated_json(pair: tuple[Any, Any, int], budget: int) -> None:
    value, abridged, size = pair
    whole = truncate_json(value, budget=budget, measure=characters, size=size)
    found = truncate_json(abridged, budget=budget, measure=characters, size=size)
    assert found.omitted_bytes == whole.omitted_bytes
    assert without_shares(json.loads(found.text)) == without_shares(json.loads(whole.text))


def test_words(pair: tuple[Any, Any, int]) -> None:
    value, abridged, _ = pair
    assert shape(abridged) == shape(value)
    assert kind_of(abridged) == kind_of(value)
    assert parts("tool", abridged, shape(abridged)) == parts("tool", value, shape(value))


def test_more_than_the_ends_hold_is_never_shown() -> None:
    value = [{"id": i} for i in range(100_000)]
    abridged = scan(json.dumps(value).encode()).value
    assert type(abridged) is Rows
    shown: Any = preview(abridged, budget=100_000, measure=characters, total=500_000).value
    assert all(
        element in ({"id": i}, {"id": 100_000 - len(shown) + i}) or "omitted" in element
        for i, element in enumerate(shown)
    )
    assert 1_000 < len(shown) - 1 <= len(abridged.head) + len(abridged.tail)


TEXTS = {
    "lines": "".join(f"{i}: something happened, für €{i % 977}\n" for i in range(20_000)),
    "one line": "no line feed at all é " * 20_000,
    "short": "a short text\n" * 100,
    "within both ends": "a longer text\n" * 3_000,
}


@pytest.mark.parametrize("budget", [30, 100, 1_000, 4_000])
@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_texts(text: str, budget: int) -> None:
    ends = scan(text.encode()).text
    assert truncate(ends, budget=budget, measure=characters) == truncate(text, budget=budget, measure=characters)
    assert head_within(ends, budget=budget, measure=characters) == head_within(text, budget=budget, measure=characters)
    assert head_of(ends, budget) == head_of(text, budget)


def test_a_notice_counts_what_is_in_no_end() -> None:
    found = truncate(Ends("head", "tail", 1_000, 2_000), budget=10_000, measure=characters)
    assert found.omitted_bytes == 2_000 - 8 and "truncated 2.0 KB" in found.text
    assert head_of(Ends("head", "tail", 1_000, 2_000), 500) == "head\n...(truncated, 996 more chars)"


def test_full_schemas_of_folded_maps_need_what_has_passed_by() -> None:
    maps = [{f"key {i}-{j}": {"n": j} for j in range(40)} for i in range(500)]
    schema = scan(json.dumps(maps).encode()).schema
    assert schema is not None and schema.folded
    with pytest.raises(Abridged, match="passed by"):
        schema.full()
    assert schema.fitted(5_000, len) == infer(maps).fitted(5_000, len)


def test_full_schemas_of_maps_that_are_still_there() -> None:
    value = {"map": {f"key {j}": {"n": j} for j in range(40)}, "rows": records(5_000)}
    schema = scan(json.dumps(value).encode()).schema
    assert schema is not None and schema.folded
    assert schema.full() == infer(value).full()


def test_an_array_in_memory_beside_one_that_is_not_changes_no_other_member() -> None:
    """What inference has read shares equal places, and to such a place nothing may be added for one of its members alone."""
    whole = [{"x": 1, "y": 2, "d": {"p": 1}, "e": {"p": 2}} for _ in range(50)]
    node = infer(whole, plain=True).node.items
    assert node is not None
    abridged = Rows(len(whole), whole[:2], whole[-2:], whole[9:11], kind_of(whole[0]), node, folded=False)
    other = [{"x": 1, "y": "text", "d": {"p": 1, "q": "new"}, "e": {"p": 2}}]
    expected = infer([{"t": whole}, {"t": other}], plain=True).full()
    for _ in range(2):  # the second reading finds the first one's node unchanged
        assert infer([{"t": abridged}, {"t": other}], plain=True).full() == expected
