"""Arguments of tools whose framework checks them itself, afterwards, and may be references in strict mode too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from byref.errors import ConfigurationError, ToolError
from byref.references.arguments import as_object
from byref.session import Session
from byref_sandbox import jsontext

REFERENCE: Final = {
    "type": "string",
    "description": 'A reference to stored data: $name, $name.path, or {"$var": "name", "jq": "map(.id)"} as JSON text.',
}
_MAX_DEPTH: Final = 100


def may_refer(value: object, depth: int = 0) -> bool:
    """Tell whether there may be a reference in arguments: most calls have none, and need not wait for a look-up."""
    if depth > _MAX_DEPTH:
        return True
    if isinstance(value, str):
        return "$" in value or value.startswith(("art_", "art:"))
    if isinstance(value, Mapping):
        return "$var" in value or any(may_refer(member, depth + 1) for member in value.values())
    return isinstance(value, list | tuple) and any(may_refer(item, depth + 1) for item in value)


def refers(arguments: Mapping[str, Any] | str) -> bool:
    """Tell the same of arguments that may be JSON text; what is none may have some where it is written like one."""
    if not isinstance(arguments, str):
        return may_refer(arguments)
    try:
        return may_refer(jsontext.loads(arguments or "{}"))
    except ValueError:
        return any(mark in arguments for mark in ("$", "art_", "art:", "\\u"))


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
    words of what they refuse. By a schema that is none nothing is checked.

    Raises:
        ToolError: a reference is unknown, or what it brought does not fit.
    """
    resolve = partial(session.resolve, arguments, tool=tool, call_id=call_id)
    try:
        return resolve(schema=schema)
    except ConfigurationError:
        return resolve()
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
