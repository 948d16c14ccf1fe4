"""Arguments of tools whose framework checks them itself, afterwards, and may be references in strict mode too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from byref.errors import ToolError
from byref.session import Session
from byref.tools.arguments import as_object

REFERENCE: Final = {
    "type": "string",
    "description": 'A reference to stored data: $name, $name.path, or {"$var": "name", "jq": "map(.id)"} as JSON text.',
}


def resolved(
    session: Session,
    arguments: dict[str, Any] | str,
    schema: Mapping[str, Any] | None,
    *,
    tool: str,
    call_id: str | None,
) -> dict[str, Any] | str:
    """Return what `Session.resolve` does, or the very arguments where they have no references and do not fit the schema.

    Frameworks take more than a tool's schema says (defaults, `"90"` for a duration), and tell the model in their own
    words of what they refuse.

    Raises:
        ToolError: a reference is unknown, or what it brought does not fit.
    """
    resolve = partial(session.resolve, arguments, tool=tool, call_id=call_id)
    try:
        return resolve(schema=schema)
    except ToolError:
        if resolve() == as_object(arguments):
            return arguments
        raise


def strict_with_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of OpenAI's strict mode with a string, which may be a reference, beside each argument's own schema.

    Strict mode has no objects of any keys: a reference with a program is JSON in that string, which `Session.resolve` reads.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or '"#/properties/' in json.dumps(schema):  # would be elsewhere
        return dict(schema)
    return {**schema, "properties": {name: _or_reference(member) for name, member in properties.items()}}


def _or_reference(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    said = {key: schema[key] for key in ("title", "description", "default") if key in schema}
    rest = {key: value for key, value in schema.items() if key not in said}
    options = rest["anyOf"] if list(rest) == ["anyOf"] else [rest]
    if {"type": "string"} in options:
        return schema
    return {**said, "anyOf": [*options, REFERENCE]}
