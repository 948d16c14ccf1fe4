"""The lines in which a Python value is stored: the compiled form breaks an object as the Python form does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from random import Random
from types import ModuleType
from typing import Any

import c_modules
import msgspec
import pytest
from hypothesis import given
from json_values import DOCUMENTS, EVERYDAY, VALUES

from byref.content import values
from byref.jsonscan import chunks

OUTSIDE = (0, 0, 0, 0, 0, 0)


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    module = c_modules.compiled("byref/jsonscan/_marks", tmp_path_factory.mktemp("compiled"))
    installed, values.compiled = values.compiled, module
    yield module
    values.compiled = installed


def written(value: object) -> tuple[object, bytes, int] | str:
    try:
        return values.written(value)
    except UnicodeEncodeError as error:  # half of a surrogate pair in a text of its own
        return str(error)


def assert_both_agree(value: object) -> None:
    found, module = written(value), values.compiled
    values.compiled = None  # type: ignore[assignment]
    try:
        assert found == written(value)
    finally:
        values.compiled = module
    if not isinstance(found, str):
        assert found[2] == found[1].count(b"\n")


@given(VALUES | DOCUMENTS)
def test_both_forms_write_the_same(value: object) -> None:
    assert_both_agree({"value": value, "b": {"c": value}})


@pytest.mark.parametrize("name", EVERYDAY)
def test_both_forms_write_everyday_values_the_same(name: str) -> None:
    assert_both_agree({"": EVERYDAY[name]})


def test_the_members_of_three_objects_and_the_elements_of_an_array_are_on_lines_of_their_own() -> None:
    value = {"a": {"b": {"c": {"d": {}, "e": []}, "f": [[1, 2], {"g": 3}]}}, "h": [], "i": {}, "j": ["},{"]}
    lines = (
        b'{\n"a":{\n"b":{\n"c":{"d":{},"e":[]},\n"f":[\n[1,2],\n{"g":3}\n]\n}\n},\n"h":[],\n"i":{},\n"j":[\n"},{"\n]\n}'
    )
    assert values.written(value)[1:] == (lines, lines.count(b"\n"))


@pytest.mark.parametrize(
    "value",
    [
        {"a": (1, 2)},
        {"a": {"b": OrderedDict(c={})}},
        {"a": msgspec.Raw(b'{"b": [1, 2]}')},
        {"a": [msgspec.Raw(b'{"b":\n[1, 2]}')]},
        {"a": [[msgspec.Raw(b'"')]]},
        {"a": Decimal("NaN"), "b": {"c": [Decimal("1.5")]}},
        {1: {None: [{2.5: True}]}},
        {"a": [object], "b": {"c": {1, 2}}},
        {"a": 10**400, "b": {"c": [float("inf")]}},
        {"a" * chunks.CHUNK: "\\" * chunks.CHUNK, "b": ['"' * (3 * chunks.CHUNK)], "c": [["{" * chunks.CHUNK] * 3]},
        {"a": {str(number): [number] for number in range(3 * chunks.ITEMS)}},
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_text_does_not_tell_is_written_the_same(value: dict[Any, Any]) -> None:
    assert_both_agree(value)


@pytest.mark.parametrize("seed", range(3))
def test_any_bytes_are_read_and_kept(compiled: ModuleType, seed: int) -> None:
    """Wherever the pieces are cut, and whatever is in them."""
    random = Random(seed)
    for _ in range(100):
        text = bytes(random.choices(b'{}[],:"\\a1', k=random.randrange(60)))
        whole, feeds, end = compiled.broken(text, OUTSIDE)
        assert (whole.replace(b"\n", b""), whole.count(b"\n")) == (text, feeds)
        cuts = sorted(random.choices(range(len(text) + 1), k=3))
        parts, place = [], OUTSIDE
        for start, stop in pairwise([0, *cuts, len(text)]):
            part, _, place = compiled.broken(text[start:stop], place)
            parts.append(part)
        assert (b"".join(parts), place) == (whole, end)
        comma, quote, closed, opened = compiled.structure(text, random.randrange(20))
        assert comma < 0 or text[comma : comma + 1] == b","
        assert quote < 0 or text[quote : quote + 1] == b'"'
        assert closed + len(opened) <= len(text)
