"""Reading a long list of similar objects the fast way gives exactly the same description as reading each of them."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
import vega_datasets
from hypothesis import given, settings
from hypothesis import strategies as st
from json_values import HOSTILE_TEXT, SCALARS, compatibility, ragged_records, wide_records

from byref.describe import alike, columns
from byref.describe.columns import CHUNK, Inference
from byref.describe.nodes import Node
from byref.describe.schema import infer

FIRST = 3 * CHUNK
"""Objects that are always read."""
NAMES = st.sampled_from(
    ["id", "a", "b", "m0", "m1", "self", "class", "None", "__init__", "__struct_fields__", "type", "é", "\u202e", ""]
)
NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2**63, -(10**400), 0.0, 1.0, 1e308, math.nan, math.inf]), st.integers(), st.floats()
)
SIMPLE = st.one_of(SCALARS, NUMBERS)
MEMBERS = st.recursive(
    st.one_of(SIMPLE, SIMPLE, st.lists(NUMBERS, max_size=3), st.lists(SIMPLE, max_size=3)),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, MEMBERS, max_size=6)
ODD_KEYS = st.one_of(NAMES, HOSTILE_TEXT)
ODD_MEMBERS = st.one_of(
    MEMBERS, st.lists(OBJECTS, max_size=3), st.lists(st.lists(NUMBERS), max_size=2), st.dictionaries(ODD_KEYS, MEMBERS)
)


def said(node: Node | None) -> object:
    """All that a node says."""
    return node and (
        node.kinds,
        node.arrays_first,
        node.objects,
        node.required,
        said(node.items),
        [(key, said(member)) for key, member in node.members.items()],
        said(node.rest),
        list(node.rest_keys),
    )


class Slow(alike.Alike):
    """Leaves all that there is to be read."""

    def add(self, chunk: object) -> bool:
        return False


def assert_same(value: object, *, fold: bool = True) -> None:
    fast = Inference(fold=fold, plain=True)
    node = fast.read(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "Alike", Slow)
        slow = Inference(fold=fold, plain=True)
        assert said(node) == said(slow.read(value))
    assert fast.folded == slow.folded


def chunks_read(value: list[Any]) -> int:
    """How many chunks of a list of objects were not taken the fast way."""
    counted = 0

    class Counting(Inference):
        def _add(self, node: Node, column: Any, depth: int) -> None:
            nonlocal counted
            counted += depth == 1
            super()._add(node, column, depth)

    with pytest.MonkeyPatch.context() as patched:  # the compiled form has no fast way: it is one
        patched.setattr(columns, "compiled", None)
        Counting(fold=True, plain=True).read(value)
    return counted


@st.composite
def mutated(draw: st.DrawFn, one: Any) -> Any:
    """One like it but for something, here or further down."""
    if not one or not isinstance(one, dict | list) or draw(st.integers(0, 4)) == 0:
        return draw(ODD_MEMBERS)
    one = copy.copy(one)
    at = draw(st.sampled_from(range(len(one)) if isinstance(one, list) else list(one)))
    match draw(st.sampled_from(["drop", "add", "change", "reorder"])):
        case "drop":
            del one[at]
        case "add" if isinstance(one, dict):
            one[draw(ODD_KEYS)] = draw(ODD_MEMBERS)
        case "reorder" if isinstance(one, dict):
            one = dict(reversed(one.items()))
        case _:
            one[at] = draw(mutated(one[at]))
    return one


@st.composite
def alike_but_for_some(draw: st.DrawFn) -> list[Any]:
    kinds = draw(st.lists(OBJECTS, min_size=1, max_size=3))
    length = FIRST + draw(st.sampled_from([0, 1, CHUNK, CHUNK + 1, 2 * CHUNK + 7, 4 * CHUNK - 1, 6 * CHUNK]))
    records = (kinds * length)[:length]
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(FIRST - 1, length - 1) if draw(st.integers(0, 5)) else st.integers(0, length - 1))
        records[at] = draw(mutated(records[at]))
    return records


@settings(max_examples=settings.default.max_examples * 3 // 5)
@given(alike_but_for_some())
def test_what_is_said_is_the_same(records: list[Any]) -> None:
    assert_same(records)
    assert_same({"rows": [{"deep": records}]}, fold=False)


def long(one: Any, *, then: Any = ..., chunks: int = 12) -> list[Any]:
    """Objects that are alike, but for one towards the end."""
    records = [one] * (chunks * CHUNK)
    if then is not ...:
        records[-CHUNK - 1] = then
    return records


LIKE: dict[str, Any] = {"i": 1, "f": 1.5, "s": "x", "n": None, "o": {"p": [2.5], "q": {}}, "e": [], "b": True}


@pytest.mark.parametrize(
    "then",
    [
        {key: value for key, value in LIKE.items() if key != "f"},
        {**LIKE, "more": 1},
        {**LIKE, "\ud800": 1},
        {**LIKE, "i": True},
        {**LIKE, "i": 1.0},
        {**LIKE, "b": 1},
        {**LIKE, "f": 1},
        {**LIKE, "f": None},
        {**LIKE, "s": 1},
        {**LIKE, "n": "x"},
        {**LIKE, "e": [1]},
        {**LIKE, "o": {"p": [2.5, 1], "q": {}}},
        {**LIKE, "o": {"p": [[]], "q": {}}},
        {**LIKE, "o": {"p": [2.5], "q": {"r": 1}}},
        {**LIKE, "o": None},
        [LIKE],
        7,
        None,
    ],
    ids=ascii,
)
def test_one_that_is_not_alike_is_read(then: Any) -> None:
    records = long(LIKE)
    assert chunks_read(records) == 3
    assert_same(records)
    records = long(LIKE, then=then)
    assert chunks_read(records) == 5, "that chunk and the last one"
    assert_same(records)


@pytest.mark.parametrize(
    "then",
    [
        {**LIKE, "i": 10**400},
        {**LIKE, "f": math.nan},
        {**LIKE, "o": {"p": [], "q": {}}},
        dict(reversed(LIKE.items())),
        {**LIKE, "s": "\ud800"},
    ],
    ids=["big", "NaN", "empty", "reordered", "surrogate"],
)
def test_one_of_other_values_is_alike(then: Any) -> None:
    assert chunks_read(long(LIKE, then=then)) == 3
    assert_same(long(LIKE, then=then))


def test_members_that_some_have_are_counted() -> None:
    records = [
        {"id": i, **({"at": {"x": i / 3, "y": {"z": i} if i % 3 else 2}} if i % 2 else {})} for i in range(9_000)
    ]
    assert chunks_read(records) == 3
    assert_same(records)


def test_what_is_never_alike_is_seldom_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    defstruct = msgspec.defstruct

    def counting(*args: Any, **options: Any) -> type:
        nonlocal made
        made += 1
        return defstruct(*args, **options)

    monkeypatch.setattr(msgspec, "defstruct", counting)
    monkeypatch.setattr(columns, "compiled", None)
    records = [{"a": 1, f"key {i // CHUNK}": 1} for i in range(100 * CHUNK)]
    assert_same(records)
    assert 1 <= made <= 6


def test_types_are_bounded() -> None:
    assert chunks_read(long({str(i): i for i in range(200)}, chunks=5)) == 3
    assert chunks_read(long({str(i): i for i in range(300)}, chunks=5)) == 5
    assert chunks_read(long({str(i): {str(j): j for j in range(20)} for i in range(20)}, chunks=5)) == 5
    deep: dict[str, Any] = {}
    for _ in range(20):
        deep = {"deep": deep}
    assert chunks_read(long(deep, chunks=5)) == 5


@pytest.mark.parametrize("fold", [True, pytest.param(False, marks=pytest.mark.slow)])  # as the test of any records does
@pytest.mark.parametrize(
    "value",
    [ragged_records(3_000), wide_records(2_100, 40), [compatibility(2)] * 1_700],
    ids=["ragged", "wide", "maps"],
)
def test_what_is_said_of_everyday_values_is_the_same(value: object, fold: bool) -> None:
    assert_same(value, fold=fold)


def vega() -> list[Path]:
    return sorted((Path(vega_datasets.__file__).parent / "_data").glob("*.json"))


@pytest.mark.parametrize("path", vega(), ids=lambda path: path.stem)
def test_what_is_said_of_real_data_is_the_same(path: Path) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    assert_same(value * 3 if isinstance(value, list) else value)


class Text(str):
    """No type of JSON's."""


@pytest.mark.parametrize("foreign", [Text("x"), (1,)], ids=repr)
def test_what_a_host_gives_is_looked_at_one_by_one(foreign: object) -> None:
    like = {"s": "x", "l": [1]}
    records = long(like, then={**like, "s" if isinstance(foreign, str) else "l": foreign})
    with pytest.raises(columns.NotPlain):
        infer(records)
