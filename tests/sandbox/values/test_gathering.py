"""Records of many places as one list, and maps of records as tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from byref_sandbox.values.bindings import frame_of
from byref_sandbox.values.data import Unusable, at_path
from byref_sandbox.values.gathering import Every, gathered, is_map_of_records, records_of

VALUE: dict[str, Any] = {
    "repos": {
        "a/b": {"pulls": [{"id": 1, "labels": [{"n": "x"}]}, {"id": 2, "labels": []}]},
        "c/d": {"pulls": [{"id": 3, "labels": [{"n": "y"}, {"n": "z"}]}]},
        "e/f": {"pulls": None},
        "g/h": {},
        "i/j": None,
        "k/l": {"pulls": {"id": 4}},
    }
}
GATHERED: dict[str, tuple[tuple[Any, ...], list[Any]]] = {
    "a map": (
        ("repos", Every("*", "repo"), "pulls", Every("[]")),
        [
            {"repo": "a/b", **VALUE["repos"]["a/b"]["pulls"][0]},
            {"repo": "a/b", "id": 2, "labels": []},
            {"repo": "c/d", **VALUE["repos"]["c/d"]["pulls"][0]},
        ],
    ),
    "by position": (
        ("repos", Every("*"), "pulls", Every("[]", "at"), "labels", Every("[]")),
        [{"at": 0, "n": "x"}, {"at": 0, "n": "y"}, {"at": 0, "n": "z"}],
    ),
    "by a member": (
        ("repos", Every("*", "repo"), "pulls", Every("[]", "pull", "id"), "labels", Every("[]")),
        [
            {"repo": "a/b", "pull": 1, "n": "x"},
            {"repo": "c/d", "pull": 3, "n": "y"},
            {"repo": "c/d", "pull": 3, "n": "z"},
        ],
    ),
    "by a member that is not there": (("repos", Every("*"), "pulls", Every("[]", "pull", "no")), []),
    "a member of its own stays": (
        ("repos", Every("*", "id"), "pulls", Every("[]")),
        [{"id": 1, "labels": [{"n": "x"}]}, {"id": 2, "labels": []}, VALUE["repos"]["c/d"]["pulls"][0]],
    ),
    "nothing there": (("no", Every("*"), "pulls", Every("[]")), []),
    "an array where a map is meant": (("repos", Every("*"), "pulls", Every("*")), []),
}


@pytest.mark.parametrize("what", GATHERED)
def test_records_are_gathered(what: str) -> None:
    path, records = GATHERED[what]
    assert gathered(VALUE, path) == at_path(VALUE, path) == at_path(VALUE, json.loads(json.dumps(path))) == records


def test_a_record_is_the_very_object_unless_it_gets_members() -> None:
    [first, *_] = gathered(VALUE, ("repos", Every("*"), "pulls", Every("[]")))
    assert first is VALUE["repos"]["a/b"]["pulls"][0]
    [first, *_] = gathered(VALUE, ("repos", Every("*", "repo"), "pulls", Every("[]")))
    assert first is not VALUE["repos"]["a/b"]["pulls"][0]
    assert first["labels"] is VALUE["repos"]["a/b"]["pulls"][0]["labels"]
    assert "repo" not in VALUE["repos"]["a/b"]["pulls"][0]


def test_a_path_goes_on_in_the_list() -> None:
    path = ("repos", Every("*", "repo"), "pulls", Every("[]"))
    assert at_path(VALUE, (*path, 1, "id")) == 2
    for step in (9, "id"):
        with pytest.raises(Unusable, match="on the path"):
            at_path(VALUE, (*path, step))


MAPS: dict[str, tuple[Any, bool]] = {
    "alike": ({"ann": {"age": 7, "at": "x"}, "bob": {"age": 8}}, True),
    "fields": ({"user": {"name": "x"}, "address": {"city": "y"}}, False),
    "one": ({"ann": {"age": 7}}, False),
    "empty records": ({"ann": {}, "bob": {}}, False),
    "mixed": ({"ann": {"age": 7}, "bob": 8}, False),
    "lists": ({"a": [1], "b": [2]}, False),
    "many, each of its own": ({f"k{n}": {f"m{n}": n} for n in range(33)}, True),
    "some, each of its own": ({f"k{n}": {f"m{n}": n} for n in range(32)}, False),
    "one in common": ({f"k{n}": {"id": n, f"m{n}": n, f"o{n}": n} for n in range(4)}, True),
    "one in common, of few": ({f"k{n}": {"id": n, f"m{n}": n, f"o{n}": n} for n in range(3)}, False),
    "half in common": ({"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2}}, True),
    "few in common": ({"a": {"id": 1, "x": 1, "y": 2}, "b": {"id": 2, "z": 1, "w": 2}}, False),
}


@pytest.mark.parametrize("what", MAPS)
def test_a_map_of_records_is_told_from_a_record(what: str) -> None:
    value, expected = MAPS[what]
    assert is_map_of_records(value) is expected
    assert (len(frame_of(value)) == len(value)) is expected or what in ("one", "lists")


def test_the_table_of_a_map_has_its_keys_in_a_column_of_a_free_name() -> None:
    value = {name: {"key": 1, "key_2": 2, "v": number} for number, name in enumerate("abc")}
    assert records_of(value)[1] == {"key_3": "b", "key": 1, "key_2": 2, "v": 1}
    frame = frame_of({"x": {"a": 1}, "y": {"a": 2, "b": None}})
    assert list(frame.columns) == ["key", "a", "b"]
    assert list(frame["key"]) == ["x", "y"]
