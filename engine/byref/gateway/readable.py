"""Converts results to a form that every client can read: parts that the protocol has no form for become text.

A strict client refuses a whole result because of one unknown part, and its model then learns nothing of the rest.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp.types import (
    CORE_RESULT_TYPES,
    BlobResourceContents,
    ContentBlock,
    TextResourceContents,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least
from pydantic import TypeAdapter, ValidationError

from byref.describe.jsontext import without_surrogates
from byref.gateway.results import STRUCTURED_SINCE, plain

Json = dict[str, Any]

_KINDS = frozenset({"text", "image", "audio", "resource", "resource_link"})
_BLOCK: Final[TypeAdapter[Any]] = TypeAdapter(ContentBlock)
_CONTENTS: Final[TypeAdapter[Any]] = TypeAdapter(TextResourceContents | BlobResourceContents)
_BASE64 = (string.ascii_letters + string.digits + "+/=" + string.whitespace).encode()
_BINARY = ("data", "blob")
_UNREAD = frozenset({"_meta", "isError", "resultType", "content"})
_WHOLE = ("structuredContent", "toolResult")
"""Members that stand for the whole of a result without content; the second is from the protocol of 2024."""
_SHORT = 64
"""Characters of possible binary data that are shown as text."""


def readable(method: str, result: Json, version: str) -> Json:
    """Return a result as clients of a protocol version accept it; only results of calls, prompts and resources are changed.

    Unknown members beside the content stay: clients do not refuse a result because of them.
    """
    kind = result.get("resultType")
    if isinstance(kind, str) and kind not in CORE_RESULT_TYPES and version in MODERN_PROTOCOL_VERSIONS:
        return result  # an extension defines this form
    if kind == "input_required" or method not in _FORMS:
        return result
    kept = {
        key: value
        for key, value in result.items()
        if not (key == "_meta" and not isinstance(value, dict))
        and not (key == "resultType" and not isinstance(value, str))
    }
    return _FORMS[method](kept, version)


def _called(result: Json, version: str) -> Json:
    found = dict(result)
    if type(found.get("isError", False)) is not bool:
        del found["isError"]
    content = [_block(block) for block in _items(result.get("content"))]
    structured = result.get("structuredContent")
    if "structuredContent" in result and not _is_structure(structured, version):
        del found["structuredContent"]
        content = content or ([] if structured is None else [_text(structured)])
    elif "content" not in result and (read := {key: result[key] for key in result if key not in _UNREAD}):
        alone = next((key for key in _WHOLE if key in read), None)
        content = [_text(read[alone] if alone else read)]
    return {**found, "content": content}


def _is_structure(value: object, version: str) -> bool:
    is_free = version in MODERN_PROTOCOL_VERSIONS or not is_version_at_least(version, STRUCTURED_SINCE)
    return is_free or isinstance(value, dict)


def _prompt(result: Json, version: str) -> Json:
    messages = []
    for message in _items(result.get("messages")):
        given: Mapping[str, Any] = message if isinstance(message, dict) else {"content": message}
        role = given.get("role") if given.get("role") in ("user", "assistant") else "user"
        # A prompt's message has exactly one block, so each further block becomes a message of its own.
        messages += [{**given, "role": role, "content": _block(block)} for block in _items(given.get("content"))]
    found = {**result, "messages": messages}
    if not isinstance(found.get("description", ""), str):
        del found["description"]
    return found


def _read(result: Json, version: str) -> Json:
    contents = []
    for item in _items(result.get("contents")):
        given = _without_none(item)
        if not (isinstance(given, dict) and _fits(_CONTENTS, given)):
            uri = given.get("uri") if isinstance(given, dict) else None
            given = {"uri": uri if isinstance(uri, str) else "", "text": _as_text(given)}
        contents.append(given)
    return {**result, "contents": contents}


_FORMS: Final[Mapping[str, Callable[[Json, str], Json]]] = {
    "tools/call": _called,
    "prompts/get": _prompt,
    "resources/read": _read,
}


def _items(value: object) -> list[Any]:
    """Return a list: a list as it is, any other value as its only item, None as no item."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _block(given: object) -> Json:
    block = _without_none(given)
    if isinstance(block, dict) and isinstance(block.get("resource"), dict):
        block = {**block, "resource": _without_none(block["resource"])}
    if not isinstance(block, dict) or str(block.get("type")) not in _KINDS:
        return _text(block)
    for form in (block, plain(block)):
        if _fits(_BLOCK, form):
            return form
    resource = block.get("resource")
    return _text(resource if isinstance(resource, dict) else block)


def _fits(form: TypeAdapter[Any], value: Json) -> bool:
    try:
        form.validate_python(value, by_name=False)
    except (ValidationError, RecursionError):
        return False
    resource = value.get("resource")
    holders = (value, resource) if isinstance(resource, dict) else (value,)
    return all(_is_base64(holder[key]) for holder in holders for key in _BINARY if key in holder)


def _is_base64(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and not value.encode().translate(None, _BASE64)


def _without_none(value: object) -> Any:
    """Drop members that are null: SDKs that tell null from a missing member refuse them."""
    if isinstance(value, dict) and None in value.values():
        return {key: member for key, member in value.items() if member is not None}
    return value


def _text(value: object) -> Json:
    return {"type": "text", "text": _as_text(value)}


def _as_text(value: object) -> str:
    """Return a value as text: the text alone if it has no more, else JSON without binary data, which nobody can read."""
    if isinstance(value, dict):
        value = {
            key: member
            for key, member in value.items()
            if not (key in _BINARY and _is_base64(member) and len(member) > _SHORT)
        }
        if "text" in value and value.keys() <= {"type", "text", "uri", "mimeType"}:
            value = value["text"]
    return without_surrogates(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
