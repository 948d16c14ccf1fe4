"""The arguments of a call as models write them: an object, JSON text of one, or that text in a code fence or a JSON string."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from byref.errors import ToolError, shown
from byref.references.coercion import unfenced, without_trailing_commas
from byref_sandbox import jsontext

_LAYERS = 3


def as_object(arguments: object, bare: str | None = None) -> dict[str, Any]:
    """Return arguments as a dict: a mapping, JSON text of an object (nothing at all is an empty one), else ToolError.

    Text that is no JSON is the argument `bare`, where a tool has one that alone is required.
    """
    for _ in range(_LAYERS):  # JSON in a JSON string
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
    """Return what JSON text says, `bare` as in `as_object`; ToolError."""
    text = given if isinstance(given, str) else given.decode("utf-8", "replace")
    inner = unfenced(text).strip()
    if not inner or inner == "null":
        return None
    if bare is not None and inner[0] not in '{["':
        return {bare: text}
    try:
        return jsontext.decode(inner.encode("utf-8", "surrogatepass"))
    except jsontext.NotJSON as error:
        try:  # line breaks within strings, commas before closing brackets
            return jsontext.loads(without_trailing_commas(inner), strict=False)
        except ValueError:
            pass
        if bare is not None and inner[0] == '"':
            return {bare: text}
        raise ToolError(f"the arguments are no valid JSON: {error}. Send one JSON object.") from None
