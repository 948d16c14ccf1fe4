"""The schema of many values that come one after the other: each schema is merged into what is known, and maps are folded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from byref.describe.fit import fit, render
from byref.describe.maps import as_map, fold, looks_like_data
from byref.describe.nodes import ARRAY, BOOLEAN, CONTAINER, INTEGER, NULL, NUMBER, OBJECT, STRING, Node
from byref.describe.schema import infer

MAX_CHARS: Final = 16_000
"""Characters of a learned schema; a larger one is more general."""
_ANY_KEY: Final = ""
"""The pattern that stands for the keys of a map while schemas are merged: genson merges those, and not `additionalProperties`."""
_KINDS: Final = {
    "null": NULL,
    "boolean": BOOLEAN,
    "integer": INTEGER,
    "number": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
}
_MAX_DEPTH: Final = 100


def of_value(value: object) -> dict[str, Any]:
    """Return the schema of a parsed JSON value, which our own decoder made, with its maps folded."""
    schema: dict[str, Any] = _bare(render(_folded(infer(value, plain=True).node, 0)))
    return schema


def merged(schemas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one schema of all values that any of the schemas is of, in at most `MAX_CHARS` characters.

    The schemas are those that `of_value` and this function make. Keys that look like data are folded even where there is one: what
    is learned is shown in other conversations, and an id or an address is nobody's but its own.
    """
    first, *others = schemas
    if others:
        from genson import SchemaBuilder  # imported late: only what learns needs it

        builder = SchemaBuilder(schema_uri=None)
        for one in (first, *others):
            builder.add_schema(_with_patterns(one, 0))
        first = builder.to_schema()
    node = _folded(_node(first, 0), 0)
    schema: dict[str, Any] = _bare(fit(node, MAX_CHARS, len, head={}))
    return schema


def _bare(schema: Any) -> Any:
    """Return the schema without descriptions, which quote keys that were folded."""
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for name, one in schema.items():
        if name == "properties":
            made[name] = {key: _bare(member) for key, member in one.items()}
        elif name == "anyOf":
            made[name] = [_bare(option) for option in one]
        elif name != "description":
            made[name] = _bare(one)
    return made


def _with_patterns(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}
    made: dict[str, Any] = {"type": schema["type"]} if "type" in schema else {}
    if "object" in made.get("type", ()):
        made["required"] = list(
            schema.get("required", ())
        )  # genson takes an object without it for one that says nothing of it
    if isinstance(rest := schema.get("additionalProperties"), Mapping):
        made["patternProperties"] = {_ANY_KEY: _with_patterns(rest, depth + 1)}
    if isinstance(items := schema.get("items"), Mapping):
        made["items"] = _with_patterns(items, depth + 1)
    if isinstance(properties := schema.get("properties"), Mapping):
        made["properties"] = {name: _with_patterns(one, depth + 1) for name, one in properties.items()}
    if isinstance(options := schema.get("anyOf"), list):
        made["anyOf"] = [_with_patterns(one, depth + 1) for one in options]
    return made


def _node(schema: Any, depth: int) -> Node:
    """Return a schema, as it is stored or as genson has merged it, as observations."""
    if depth > _MAX_DEPTH:
        return Node()
    if len(schema) == 1 and (leaf := _LEAVES.get(str(schema.get("type")))) is not None:  # so are most places
        return leaf
    node = Node()
    for one in schema.get("anyOf", [schema]):
        kinds = one.get("type", [])
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            node.kinds |= _KINDS.get(kind, 0)
        if isinstance(items := one.get("items"), dict):
            node.items = _node(items, depth + 1)
        for name, member in one.get("properties", {}).items():
            node.members[name] = _node(member, depth + 1)
        rest = one.get("patternProperties", {}).get(_ANY_KEY, one.get("additionalProperties"))
        if isinstance(rest, dict):
            node.rest = _node(rest, depth + 1)
        if one.get("type") == "object" or "properties" in one or node.rest is not None:
            node.objects = 2  # several: a key that each of them has is the name of a field
            node.required = set(one.get("required", ()))
    return node


def _leaf(kinds: int) -> Node:
    node = Node()
    node.kinds = kinds
    return node


_LEAVES: Final = {name: _leaf(kinds) for name, kinds in _KINDS.items() if not kinds & CONTAINER}
"""Places with one kind of scalar, which nobody changes."""


def _folded(node: Node, depth: int) -> Node:
    """Return the node with its maps folded, at all places."""
    if depth > _MAX_DEPTH or not node.kinds & CONTAINER:
        return node
    made = as_map(node)
    made = fold(made, [key for key in made.members if looks_like_data(key)])
    if made.rest is not None:
        # A key that not every object has, and whose values are those of the map, is one more key of the map: what was learned once
        # must not be learned again as something else.
        required = made.required or ()
        more = [
            key for key, member in made.members.items() if key not in required and _scalar(member) == _scalar(made.rest)
        ]
        made = fold(made, more) if more else made
    made.members = {key: _folded(member, depth + 1) for key, member in made.members.items()}
    if made.required is not None:
        made.required = made.required & made.members.keys()
    if made.rest is not None:
        made.rest = _folded(made.rest, depth + 1)
    if made.items is not None:
        made.items = _folded(made.items, depth + 1)
    return made


def _scalar(node: Node) -> int:
    """Return the kinds of a place's values, without null, and with whole numbers for numbers."""
    kinds = node.kinds & ~NULL
    return kinds & ~INTEGER | NUMBER if kinds & INTEGER else kinds
