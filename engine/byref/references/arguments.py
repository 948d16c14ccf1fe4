"""Parsing of a call's arguments as models write them: an object, its JSON text, or that text in a code fence or JSON string."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from byref.errors import ToolError, shown
from byref.references.coercion import unfenced, without_trailing_commas
from byref_sandbox import jsontext

_LAYERS = 3


class PlainMisfit(ToolError):
    """The arguments do not fit the schema, or cannot be checked, for a reason in which no reference has a part."""


def as_object(arguments: object, bare: str | None = None) -> dict[str, Any]:
    """Return arguments as a dict. They may be a mapping, or JSON text of an object; an empty text or None gives an empty dict.

    `bare` is the name of a tool's only required argument, if it has one: text that is not JSON becomes its value.
    Raises ToolError for anything else.
    """
    for _ in range(_LAYERS):  # models may encode JSON inside a JSON string
        if not isinstance(arguments, str | bytes):
            break
        arguments = decoded(arguments, bare)
    if isinstance(arguments, list) and len(arguments) == 1 and isinstance(arguments[0], Mapping):
        arguments = arguments[0]
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ToolError(f"the arguments must be one JSON object, not {type(arguments).__name__}")
    return {key if isinstance(key, str) else shown(key): value for key, value in arguments.items()}


def decoded(given: str | bytes, bare: str | None) -> object:
    """Return the value of JSON text, with `bare` as in `as_object`. Raises ToolError if the text is not JSON."""
    text = given if isinstance(given, str) else given.decode("utf-8", "replace")
    inner = unfenced(text).strip()
    if not inner or inner == "null":
        return None
    if bare is not None and inner[0] not in '{["':
        return {bare: text}
    try:
        return jsontext.decode(inner.encode("utf-8", "surrogatepass"))
    except jsontext.NotJSON as error:
        try:  # models write line breaks within strings, and commas before closing brackets
            return jsontext.loads(without_trailing_commas(inner), strict=False)
        except ValueError:
            pass
        if bare is not None and inner[0] == '"':
            return {bare: text}
        raise ToolError(f"the arguments are no valid JSON: {error}. Send one JSON object.") from None
