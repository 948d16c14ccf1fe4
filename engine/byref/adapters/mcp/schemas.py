"""Tools as the model sees them: any argument may be a reference, and the schemas say so."""

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

REFERENCE: Final[Json] = {"type": ["string", "object"], "pattern": "^\\$", "required": ["$var"]}
"""A string that begins with `$`, or an object with `$var`: each keyword holds for one of the two types."""
SENTENCE: Final = (
    'Any argument may be a reference to stored data instead of a value: "$name", or '
    '{"$var": "name", "jq": "map(.id)"}; it is replaced by the data before the tool runs.'
)
OFFLOADED: Final = "byref"
"""The member of structured content that stands for what is stored."""
_OUTSIDE: Final = ("title", "description", "default", "examples", "deprecated")
"""Keywords that describe an argument, and stay where clients look for them."""
_MAX_MENDED = 200
"""Properties that are looked at one by one."""
_MEND_SECONDS = 2.0
"""To look at them; those that are left then are not kept."""


def sound(tool: Mapping[str, Any]) -> Json:
    """Return a tool's definition with schemas that are such: what is none would have providers refuse all tools.

    Of an input schema that is none those properties stay that are sound by themselves.
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
    """Return a sound definition whose arguments may all be references; the rest of it is as it was.

    Where the schema cannot say it the description does alone; a tool without arguments is left as it is.
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
    """Return a tool's definition whose output schema holds as well for what stands in place of a stored output.

    A schema that cannot be put beside another (it refers to places of its own) is left out: clients then check nothing.
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
    stand = {"type": "object", "required": [OFFLOADED], "properties": {OFFLOADED: {"type": "object"}}}
    return {**shown, "outputSchema": {**outer, "type": "object", "anyOf": [inner, stand]}}


def _beside_reference(schema: object) -> Any:
    # Clients refuse what goes into a header, whole or a part, in any other form; what takes anything takes a reference.
    if not isinstance(schema, dict) or schema.keys() <= set(_OUTSIDE) or _goes_into_header(schema):
        return schema
    return or_reference(schema, REFERENCE, _OUTSIDE)


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
    given = properties if isinstance(properties, dict) and len(properties) <= _MAX_MENDED else {}
    places: Json = {
        key: schema[key] for key in ("$defs", "definitions") if key in schema and _is_schema({key: schema[key]})
    }
    until = time.monotonic() + _MEND_SECONDS
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
