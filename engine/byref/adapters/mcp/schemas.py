"""Tools as the model sees them: their schemas say that any argument may be a reference."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from byref.adapters.common.schemas import Json, or_reference, points_inside
from byref.errors import ConfigurationError
from byref.references.schemas import compiled

logger = logging.getLogger("byref")

REFERENCE_FORMS: Final[tuple[Json, ...]] = (
    {"type": "string", "pattern": "^\\$"},
    {"type": "object", "required": ["$var"]},
)
"""A string beginning with `$`, or an object with `$var`. Each form has one type, because clients that make classes of schemas (AutoGen,
LlamaIndex) cannot read a list of types, or drop all but one of them."""
SENTENCE: Final = (
    'Any argument may be a reference to stored data instead of a value: "$name", or '
    '{"$var": "name", "jq": "map(.id)"}; it is replaced by the data before the tool runs.'
)
LEARNED: Final = "What it has returned so far, which is no promise."
OFFLOADED: Final = "byref"
"""The member of structured content that replaces a stored output."""
_OUTSIDE: Final = ("title", "description", "default", "examples", "deprecated")
"""Keywords that describe an argument; they stay outside of the choice, where clients look for them."""
_MAX_CHECKED = 200
"""Properties of an invalid schema that are checked one by one."""
_CHECK_SECONDS = 2.0
"""Time for these checks; properties not checked by then are dropped."""


def sound(tool: Mapping[str, Any]) -> Json:
    """Return a tool's definition with valid schemas: because of one invalid schema providers refuse all tools.

    Of an invalid input schema, the properties that are valid by themselves are kept.
    """
    shown = dict(tool)
    schema = {**shown["inputSchema"], "type": "object"}
    if not _is_schema(schema):
        schema = _sound_part(schema)
        kept = len(schema.get("properties", ()))
        logger.warning("the schema of the tool %.200r is none; %d of its properties are kept", tool.get("name"), kept)
    shown["inputSchema"] = schema
    if "outputSchema" in shown and not _is_schema(shown["outputSchema"]):
        del shown["outputSchema"]
    return shown


def with_references(tool: Json) -> Json:
    """Return a definition with valid schemas in which every argument may be a reference; the rest is unchanged.

    If the schema cannot express that, only the description says it. A tool without arguments is unchanged.
    """
    shown = dict(tool)
    schema = tool["inputSchema"]
    properties = schema.get("properties")
    if not properties and (properties is not None or schema.get("additionalProperties") is False):
        return shown
    if properties and not points_inside(schema):
        members = {name: _beside_reference(member) for name, member in properties.items()}
        shown["inputSchema"] = {**schema, "properties": members}
    description = tool.get("description") or ""
    shown["description"] = f"{description}\n\n{SENTENCE}" if description else SENTENCE
    return shown


def with_offloading(tool: Json) -> Json:
    """Return a tool's definition whose output schema also accepts the replacement of a stored output.

    A schema that cannot become part of a choice, as it refers to places in itself, is left out: clients then check nothing.
    """
    schema = tool.get("outputSchema")
    if schema is None:
        return tool
    shown = {key: value for key, value in tool.items() if key != "outputSchema"}
    if schema.get("type") != "object" or points_inside(schema) or "$id" in schema:
        return shown
    hoisted = ("$schema", "$defs", "definitions", "title", "description")
    outer = {key: schema[key] for key in hoisted if key in schema}
    inner = {key: value for key, value in schema.items() if key not in hoisted}
    replacement = {"type": "object", "required": [OFFLOADED], "properties": {OFFLOADED: {"type": "object"}}}
    return {**shown, "outputSchema": {**outer, "type": "object", "anyOf": [inner, replacement]}}


def with_learned(tool: Json, learned: Json | None) -> Json:
    """Return the definition of a tool whose server does not say what it returns, with what it has returned so far as output schema.

    Anything else fits, too: what was learned is no promise. What is no object is the member "result" of one, as SDKs write it.
    """
    if not learned or learned.get("type") == "string":
        return tool
    if learned.get("type") != "object":
        learned = {"type": "object", "properties": {"result": learned}, "required": ["result"]}
    return {**tool, "outputSchema": {"type": "object", "description": LEARNED, "anyOf": [learned, {}]}}


def _beside_reference(schema: object) -> Any:
    # Clients refuse an argument in any other form if a part of it is repeated in a header. A schema that accepts anything already
    # accepts a reference.
    if not isinstance(schema, dict) or schema.keys() <= set(_OUTSIDE) or _goes_into_header(schema):
        return schema
    return or_reference(schema, REFERENCE_FORMS, _OUTSIDE)


def _goes_into_header(schema: Json) -> bool:
    left: list[object] = [schema]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if "x-mcp-header" in one:
                return True
            members = one.get("properties")
            left.extend(members.values() if isinstance(members, dict) else ())
    return False


def _sound_part(schema: Json) -> Json:
    properties = schema.get("properties")
    given = properties if isinstance(properties, dict) and len(properties) <= _MAX_CHECKED else {}
    places: Json = {
        key: schema[key] for key in ("$defs", "definitions") if key in schema and _is_schema({key: schema[key]})
    }
    until = time.monotonic() + _CHECK_SECONDS
    usable = {
        name: member
        for name, member in given.items()
        if time.monotonic() < until and _is_schema({"properties": {name: member}})
    }
    kept = {name: member for name, member in usable.items() if places or '"$ref"' not in json.dumps(member)}
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str) and name in kept] if isinstance(required, list) else []
    found: Json = {"type": "object", **places, "properties": kept, "required": names}
    return {key: value for key, value in found.items() if value}


def _is_schema(schema: object) -> bool:
    if not isinstance(schema, dict):
        return False
    try:
        compiled(schema)
    except ConfigurationError:
        return False
    return True
