"""Which schemas msgspec checks instead of jsonschema, and that it refuses what does not fit."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from byref.references.schemas import compiled

FAST: list[tuple[dict[str, Any], Any, Any]] = [
    ({"type": "integer", "minimum": 1, "maximum": 5}, 5, 6),
    ({"type": "number", "exclusiveMinimum": 0}, 0.5, 0),
    ({"type": "number"}, 2, "2"),
    ({"type": "string", "minLength": 1, "maxLength": 2}, "ab", "abc"),
    ({"type": "string", "pattern": "^a+$"}, "aaa", "b"),
    ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, [True, False], [1]),
    ({"type": ["string", "null"]}, None, 1),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 3, []),
    ({"enum": ["a", "b"]}, "b", "c"),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 1, "b": 2}, {"b": 2}),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, {"a": []}, {"b": 1}),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"x": 1}, {"x": "1"}),
    ({"$ref": "#/$defs/row"}, {"id": 1}, {"id": "1"}),
]
SLOW: list[dict[str, Any]] = [
    {"type": "integer", "multipleOf": 2},
    {"type": "string", "pattern": "a", "minLength": 2},
    {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    {"enum": [1, 2]},
    {"$ref": "https://elsewhere"},
]


@pytest.mark.parametrize(("schema", "fits", "does_not"), FAST)
def test_what_most_schemas_say_is_checked_fast(schema: dict[str, Any], fits: Any, does_not: Any) -> None:
    of_rows = {
        "properties": {"rows": {"type": "array", "items": schema}},
        "$defs": {"row": FAST[9][0] | {"properties": {"id": {"type": "integer"}}, "required": ["id"]}},
    }
    wanted, until = compiled(of_rows), time.monotonic() + 10
    alone: Any = replace(wanted, validator=None)  # jsonschema is not asked
    assert alone.errors({"rows": [fits] * 3}, until) == []
    assert wanted.errors({"rows": [fits, does_not]}, until) != []


@pytest.mark.parametrize("schema", SLOW)
def test_what_else_they_say_is_left_to_jsonschema(schema: dict[str, Any]) -> None:
    assert compiled({"properties": {"a": schema}}).quick is None
