"""The OpenAPI 3.1 document of the service, made of the table of operations."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from byref.service.operations import OPERATIONS, Operation, is_response
from byref.service.problems import MEDIA_TYPE, ProblemDetails

_REFERENCE = "#/components/schemas/{name}"
_ANY_BYTES: dict[str, Any] = {"*/*": {"schema": {}}}


@cache
def document() -> bytes:
    """Return the document as JSON."""
    replies = [one.reply for one in OPERATIONS if one.reply is not None and not is_response(one)]
    types = list(dict.fromkeys([*(one.given for one in OPERATIONS), *replies, ProblemDetails]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    _open(components)
    # A struct cannot say that one of its two fields is needed.
    components["CallAnswer"]["oneOf"] = [
        {"required": ["result"]},
        {"required": ["error"], "properties": {"error": {"type": "object"}}},
    ]
    known = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(f"/v1{one.path}", {})[one.method.lower()] = _described(one, known, components)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "byref", "version": "1", "description": "Big tool outputs by reference."},
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{"token": []}],
        }
    )


def _open(schema: object) -> None:
    """Say of objects of any members that they have any: generators of types take `{"type": "object"}` for one that has none."""
    if isinstance(schema, list):
        for one in schema:
            _open(one)
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" not in schema:
            schema.setdefault("additionalProperties", True)
        for one in schema.values():
            _open(one)


def _described(one: Operation, known: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]
    described: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary.partition(". ")[0].rstrip("."),
        "description": f"{one.summary} Needs the right `{one.right}`.",
    }
    if one.takes_json:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": known[one.given]}}}
    else:
        said = components[one.given.__name__]
        for name, schema in said["properties"].items():
            required = name in said.get("required", [])
            parameters.append({"name": name, "in": "query", "required": required, "schema": schema})
    if one.takes_stream:
        described["requestBody"] = {"required": True, "content": _ANY_BYTES}
    described["parameters"] = parameters
    problem = {"description": "A problem", "content": {MEDIA_TYPE: {"schema": known[ProblemDetails]}}}
    described["responses"] = {**_replies(one, known), "default": problem}
    return described


def _replies(one: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    if one.reply is None:
        return {"204": {"description": "Done"}}
    if not is_response(one):
        return {"200": {"description": "Done", "content": {"application/json": {"schema": known[one.reply]}}}}
    if one.name == "follow_events":
        return {"200": {"description": "Events", "content": {"text/event-stream": {"schema": {"type": "string"}}}}}
    if one.method == "HEAD":
        return {"200": {"description": "The headers"}, "304": {"description": "As it was"}}
    part = {"description": "The bytes, or a range of them", "content": _ANY_BYTES}
    return {"200": part, "206": part, "304": {"description": "As it was"}}
