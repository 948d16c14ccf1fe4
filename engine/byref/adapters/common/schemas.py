"""Schemas of tools as a model is shown them: any argument may be a reference.

Each protocol defines in its own way what a reference is and which keywords may stand beside a choice; `or_reference` is the part
they share.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

REFERENCE: Final[Json] = {"type": "string", "description": "a reference to stored data, such as $orders"}
STRICT_REFERENCE: Final[Json] = {
    "type": "string",
    "description": 'A reference to stored data: $name, $name.path, or {"$var": "name", "jq": "map(.id)"} as JSON text.',
}
_STRICT_OUTSIDE: Final = ("title", "description", "default")
_NARROW: Final = frozenset({"pattern", "format", "maxLength"})
"""Keywords of a string's schema that no reference satisfies."""


def or_reference(schema: Mapping[str, Any], forms: Sequence[Json], outside: Collection[str]) -> Json:
    """Return a schema that accepts an argument, or a reference in its place, in any of these forms.

    Keywords named in `outside` (a title, a default) stay outside of the choice, where clients look for them. If the schema is
    already a choice, it gets these options more.
    """
    around = {key: schema[key] for key in schema if key in outside}
    inside = {key: value for key, value in schema.items() if key not in outside}
    options = inside.get("anyOf")
    if inside.keys() != {"anyOf"} or not isinstance(options, list):
        options = [inside]
    return {**around, "anyOf": [*options, *map(dict, forms)]}


def with_references(schema: Mapping[str, Any]) -> Json | None:
    """Return an object's schema in which every property may be a reference; None if nothing had to change, or nothing may.

    This puts no keywords beside a choice that it makes, because Gemini refuses them. A property with an enumeration stays as it is,
    and so does a schema that refers to a place inside of a property.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or points_inside(schema):
        return None
    shown = {name: _beside_reference(member) for name, member in properties.items()}
    return None if shown == properties else {**schema, "properties": shown}


def _beside_reference(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or schema.keys() & {"enum", "const"} or _takes_text(schema):
        return schema
    is_choice = isinstance(schema.get("anyOf"), list)
    return or_reference(schema, [REFERENCE], schema.keys() - {"anyOf"} if is_choice else ())


def strict_with_references(schema: Mapping[str, Any]) -> Json:
    """Return a schema for OpenAI's strict mode in which every property may be a reference.

    Strict mode has no objects with free keys, so a reference with a jq program is JSON in a string; `Session.resolve` reads it.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or '"#/properties/' in json.dumps(schema):  # these places would move
        return dict(schema)
    return {**schema, "properties": {name: _strictly_beside_reference(member) for name, member in properties.items()}}


def _strictly_beside_reference(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    bare = {key: value for key, value in schema.items() if key not in _STRICT_OUTSIDE}
    if bare == {"type": "string"} or (bare.keys() == {"anyOf"} and {"type": "string"} in bare["anyOf"]):
        return schema
    return or_reference(schema, [STRICT_REFERENCE], _STRICT_OUTSIDE)


def _takes_text(schema: Mapping[str, Any]) -> bool:
    """Tell whether the schema accepts any string."""
    if any(isinstance(one, Mapping) and _takes_text(one) for one in schema.get("anyOf", ())):
        return True
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "string" in kinds or "STRING" in kinds:  # Gemini's spelling
        return not schema.keys() & _NARROW
    return not schema.keys() & {"type", "anyOf", "oneOf", "allOf", "$ref"}


def points_inside(schema: object) -> bool:
    """Tell whether a schema refers to a place in itself that `or_reference` would move."""
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        return True
    return any(place in text for place in ('"#/properties/', '"#/items', '"#"'))
