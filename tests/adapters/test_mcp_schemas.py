"""Tools' schemas: every argument may be a reference, a replaced output is valid, an invalid schema becomes valid."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from byref.adapters.mcp.schemas import SENTENCE, sound, with_learned, with_offloading, with_references


def tool(properties: Any, **more: Any) -> dict[str, Any]:
    return {"name": "t", "description": "does it", "inputSchema": {"type": "object", "properties": properties, **more}}


def test_every_argument_takes_a_reference_and_says_what_it_said() -> None:
    properties = {
        "n": {"type": "integer", "minimum": 3, "description": "how many", "default": 4},
        "e": {"enum": ["a", "b"]},
        "u": {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}], "title": "U"},
        "o": {"type": "object", "required": ["x"], "additionalProperties": False, "properties": {"x": {}}},
        "r": {"$ref": "#/$defs/R"},
        "any": {},
        "yes": True,
    }
    given = tool(properties, required=["n"], **{"$defs": {"R": {"type": "boolean"}}, "additionalProperties": False})
    schema = with_references(sound(given))["inputSchema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    for name in properties:
        for reference in ("$x", {"$var": "x"}, {"$var": "x", "jq": "."}):
            jsonschema.validate({"n": 3, name: reference}, schema)
    for wrong in ({"n": 2}, {"n": "x"}, {"n": 3, "e": "c"}, {"n": 3, "r": 1}, {"n": 3, "more": 1}, {}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    assert schema["properties"]["n"]["description"] == "how many" and schema["properties"]["n"]["default"] == 4
    assert schema["properties"]["u"]["title"] == "U" and len(schema["properties"]["u"]["anyOf"]) == 4


def test_no_reference_has_a_list_of_types_which_some_clients_cannot_read() -> None:
    schema = with_references(tool({"ids": {"type": "array"}, "u": {"anyOf": [{"type": "string"}, {"type": "null"}]}}))
    kinds = {
        name: [one["type"] for one in member["anyOf"]] for name, member in schema["inputSchema"]["properties"].items()
    }
    assert kinds == {"ids": ["array", "string", "object"], "u": ["string", "null", "string", "object"]}


@pytest.mark.parametrize(
    "given", [tool({}), {"name": "t", "inputSchema": {"type": "object", "additionalProperties": False}}]
)
def test_a_tool_without_arguments_is_left_alone(given: dict[str, Any]) -> None:
    assert with_references(sound(given)) == given


@pytest.mark.parametrize(
    "given",
    [
        tool({"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}),
        {"name": "t", "description": "does it", "inputSchema": {"type": "object"}},
    ],
)
def test_where_a_schema_cannot_be_widened_the_description_says_it(given: dict[str, Any]) -> None:
    found = with_references(sound(given))
    assert found == {**given, "description": f"does it\n\n{SENTENCE}"}


def test_of_a_schema_that_is_none_the_sound_properties_stay() -> None:
    properties = {"a": {"type": "integer"}, "b": {"type": "nothing"}, "c": {"$ref": "#/$defs/none"}}
    found = sound({"name": "t", "inputSchema": {"properties": properties, "required": ["a", "b", 3]}})
    assert found["inputSchema"] == {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def test_an_argument_that_goes_into_a_header_stays_as_it_is() -> None:
    member = {"type": "string", "x-mcp-header": "Region"}
    assert with_references(sound(tool({"region": member})))["inputSchema"]["properties"]["region"] == member


@pytest.mark.parametrize(
    "schema", [{"type": 3}, {"properties": []}, {"type": "object", "required": "x"}, {"type": "string"}]
)
def test_schemas_that_are_none_become_such(schema: dict[str, Any]) -> None:
    found = sound({"name": "t", "inputSchema": schema, "outputSchema": {"type": "nothing"}})
    jsonschema.Draft202012Validator.check_schema(found["inputSchema"])
    assert found["inputSchema"]["type"] == "object" and "outputSchema" not in found


def test_an_output_schema_holds_for_what_it_held_for_and_for_what_is_stored() -> None:
    output = {
        "type": "object",
        "title": "T",
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
        "required": ["rows"],
        "additionalProperties": False,
        "$defs": {"Row": {"type": "integer"}},
    }
    schema = with_offloading({**tool({}), "outputSchema": output})["outputSchema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"rows": [1]}, schema)
    jsonschema.validate({"byref": {"route": "variables"}}, schema)
    for wrong in ({"rows": ["a"]}, {}, {"rows": [1], "more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    assert schema["type"] == "object" and schema["title"] == "T"


def test_what_a_tool_has_returned_is_shown_and_is_no_promise() -> None:
    known = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for learned, inner in ((known, known), ({"type": "array"}, {"type": "array"})):
        shown = with_learned(tool({}), learned)["outputSchema"]
        jsonschema.Draft202012Validator.check_schema(shown)
        part = shown["anyOf"][0]
        assert (part if learned is known else part["properties"]["result"]) == inner
        for value in ({"a": 1}, {"a": "x"}, {"result": []}, {"byref": {}}, {}):
            jsonschema.validate(value, shown)
    for nothing in (None, {}, {"type": "string"}):
        assert with_learned(tool({}), nothing) == tool({})


@pytest.mark.parametrize("more", [{"$id": "https://x.example/s"}, {"properties": {"a": {"$ref": "#"}}}])
def test_an_output_schema_that_cannot_stand_beside_another_is_left_out(more: dict[str, Any]) -> None:
    assert "outputSchema" not in with_offloading({**tool({}), "outputSchema": {"type": "object", **more}})
