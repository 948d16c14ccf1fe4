"""The schemas of a host's tools as the model is shown them: any argument may be a reference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

REFERENCE: Final = {"type": "string", "description": "a reference to stored data, such as $orders"}
_NARROW: Final = ("pattern", "format", "maxLength")
"""What keeps a reference out of a string."""


def with_references(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an object's schema whose properties may all be references; None where they may be so already, or must not.

    A property is put as it is beside a string, with no other keyword around the two: Gemini refuses one. A choice of given
    values stays one, and a schema that refers to a place inside of a property is left alone.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or points_inside(schema):
        return None
    shown = {name: _or_reference(member) for name, member in properties.items()}
    return None if shown == properties else {**schema, "properties": shown}


def _or_reference(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or "enum" in schema or "const" in schema or _takes_text(schema):
        return schema
    options = schema.get("anyOf")
    if isinstance(options, list):
        return {**schema, "anyOf": [*options, dict(REFERENCE)]}
    return {"anyOf": [dict(schema), dict(REFERENCE)]}


def _takes_text(schema: Mapping[str, Any]) -> bool:
    """Whether any string fits."""
    if any(isinstance(one, Mapping) and _takes_text(one) for one in schema.get("anyOf", ())):
        return True
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "string" in kinds:
        return not any(key in schema for key in _NARROW)
    return not any(key in schema for key in ("type", "anyOf", "oneOf", "allOf", "$ref"))


def points_inside(schema: object) -> bool:
    """Tell whether a schema refers to a place that would be elsewhere."""
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        return True
    return any(place in text for place in ('"#/properties/', '"#/items', '"#"'))
