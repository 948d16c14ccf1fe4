"""The outline says nothing untrue, whatever the value is, and shows all of it if there is room."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from benchmarks.envelopes import outline, untrue
from hypothesis import given, settings
from inline_snapshot import snapshot
from json_values import EVERYDAY, VALUES, nested, records

from byref.describe.columns import CHUNK
from byref.describe.outline import Outlined
from byref.describe.schema import infer


def characters(text: str) -> int:
    return -(-len(text) // 3)


def outlined(value: object, budget: int = 5_000) -> Outlined:
    found = infer(value).outline.fitted(budget, characters)
    assert found is not None
    assert found.tokens == characters(found.text) <= budget
    return found


def untruths(value: object, text: str) -> list[str]:
    return list(untrue._of_node(outline.read(text), value, is_closed=True))


user = {"login": "ada", "id": 1, "site_admin": False, "url": "u"}
NOTATIONS: dict[str, tuple[object, str]] = {
    "scalars": (
        {"a": "x", "b": 1, "c": 1.5, "d": True, "e": None, "f": [1, "x"], "g": []},
        "{a:str,b:int,c:num,d:bool,e:null,f:[2 of str|int],g:[]}",
    ),
    "an array at the top": ([{"a": 1}, {"a": 2.5, "b": None}], "[2 of {a:num,b?(1):null}]"),
    "a union": ([1, "x", None, [True], {"a": 1}], "[5 of str|int|[bool]|{a:int}|null]"),
    "keys of one type": ({"x": 1, "y": 2, "z": "s"}, "{(x,y):int,z:str}"),
    "unmarked": (dict.fromkeys("abcde", "s") | {"n": 1}, "{a,b,c,d,e,n:int}; unmarked: str"),
    "a map of records": (
        {f"2026-01-{day}": {"low": 1, "high": 2} for day in range(10, 15)},
        "{*(5):{(low,high):int}}",
    ),
    "a map of words": ({f"v{n}.0": "x" for n in range(100, 120)}, "{*(20):str}"),
    "maps in records": (
        [{"id": n, "by_day": {f"2026-01-{n + d}": d for d in range(10, 13)}} for n in range(5)],
        "[5 of {id:int,by_day:{*:int}}]",
    ),
    "a shape at two places": (
        [{"author": user, "editor": user | {"id": 2}, "text": "t"}],
        "[1 of {author:Author={(login,url):str,id:int,site_admin:bool},editor:Author,text:str}]",
    ),
    "a tree": (
        {"text": "a", "replies": [{"text": "b", "replies": [{"text": "c", "replies": []}]}]},
        "Shape={text:str,replies:[Shape]}",
    ),
    "a tree of names": (
        {
            "api": {
                f"a{i}": {
                    "at": {"n": 1},
                    **{f"b{i}{j}": {"at": {"n": 2}, f"c{i}{j}": {"at": {"n": 3}}} for j in range(5)},
                }
                for i in range(40)
            }
        },
        "{api:{*(40):Api={at:{n:int},*:Api}}}",
    ),
    "keys that are no identifiers": (
        {"x-id": 1, "a.b": "s", "": None, "naïve": True, 'q"': []},
        '{"x-id":int,"a.b":str,"":null,naïve:bool,"q\\"":[]}',
    ),
}


@pytest.mark.parametrize("name", NOTATIONS)
def test_the_notation(name: str) -> None:
    value, text = NOTATIONS[name]
    found = outlined(value)
    assert found.text == text
    assert found.is_whole
    assert not untruths(value, text)


@given(VALUES)
@settings(max_examples=settings.default.max_examples // 2)
def test_nothing_is_untrue_and_all_is_shown(value: object) -> None:
    found = outlined(value, 20_000)
    assert found.is_whole or "…" in found.text
    # The oracle knows neither long keys, which are cut, nor lone surrogates, which are written as escapes.
    if "…" not in found.text and "\\ud" not in json.dumps(value):
        assert not untruths(value, found.text)


@pytest.mark.parametrize("budget", [8, 20, 60, 150, 400])
@pytest.mark.parametrize("name", EVERYDAY)
def test_nothing_is_untrue_at_any_step_of_giving_way(name: str, budget: int) -> None:
    value = EVERYDAY[name]
    found = infer(value).outline.fitted(budget, characters)
    if found is None:
        assert budget < 20
        return
    assert found.tokens <= budget
    assert not untruths(value, found.text)


def test_it_says_how_many_objects_have_a_key() -> None:
    """Whether chunks are read in columns, counted as alike, or begin with other keys."""
    rows = [
        {"id": n, **({"note": "x"} if n % 3 else {}), "by": {"name": "y", **({"mail": "z"} if n % 7 == 0 else {})}}
        for n in range(CHUNK * 20 + 5)
    ]
    for value in (rows, rows[1:], [{"id": -1}, *rows], {"first": [{"second": rows}]}):
        assert outlined(value).text.count("?(") >= 2
        assert not untruths(value, outlined(value).text)
    there = sum("note" in row for row in rows), sum("mail" in row["by"] for row in rows)
    assert f"note?({there[0]:,})" in outlined(rows).text and f"mail?({there[1]:,})" in outlined(rows).text


def test_how_many_objects_have_a_key_gives_way_first() -> None:
    value = [*[{"id": 1, "tag": "x"}] * 1_999, {"id": 2}]
    texts = [outlined(value, budget).text for budget in (10, 12)]
    assert texts == ["[2,000 of {id:int,tag?:str}]", "[2,000 of {id:int,tag?(1,999):str}]"]


def test_more_room_shows_more() -> None:
    value = EVERYDAY["compatibility"]
    texts = [outlined(value, budget).text for budget in (40, 100, 250, 600)]
    sizes = [len(text) for text in texts]
    assert sizes == sorted(sizes) and sizes[0] < sizes[1] < sizes[2]


def test_a_bare_object_stands_only_for_what_does_not_fit() -> None:
    value = [{"user": {"name": "x", "address": {"city": {"name": "y", "zip": "z"}}}}] * 3
    assert "keys" not in outlined(value, 60).text
    assert outlined(value, 8).text == "[3 of {user:{2 keys}}]"


HOSTILE: dict[str, Any] = {
    "many keys": {f"key {n}": n for n in range(100_000)},
    "many objects of many keys": [{f"k{n}_{i}": {"a": n} for i in range(60)} for n in range(300)],
    "deep": nested(900),
    "deep objects": json.loads('{"a":' * 400 + "1" + "}" * 400),
    "long keys": {"k" * 1_000_000: 1, "l" * 1_000_000: {"m" * 1_000_000: "x"}},
    "lone surrogates": {"\ud800": {"\udfff": "\ud800"}},
    "numbers": [float("nan"), float("inf"), 10**400, -0.0],
    "one shape with many variations": [{"a": {f"f{j}": j for j in range(8) if (n >> j) & 1}} for n in range(256)] * 2,
    "shapes in shapes": [{f"s{i}": {f"t{j}": {"u": i, f"v{i}{j}": {}} for j in range(10)} for i in range(12)}] * 2,
    "names like notation": [
        {"*": 1, "[]": {"{": 2}, "str": "int", "12 keys": None, "User={a": 3, "; unmarked: int": 4}
    ],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values_are_outlined_in_bounded_time(name: str) -> None:
    value = HOSTILE[name]
    schema = infer(value, plain=True)
    begun = time.process_time()
    for budget in (30, 400):
        found = schema.outline.fitted(budget, characters)
        assert found is not None and found.tokens <= budget
        found.text.encode()
        if "surrogates" not in name and "long keys" not in name:
            assert not untruths(value, found.text)
    assert time.process_time() - begun < 2


def test_elements_that_were_only_counted_are_not_said_to_be_single() -> None:
    rows = [*records(CHUNK * 8), {"id": 0, "name": "x", "email": "y", "active": True, "score": 0.5}]
    assert outlined(rows).text == snapshot("[4,097 of {id:int,(name,email):str,active:bool,score:num}]")
