"""Arguments as models write them: JSON text or an object, checked, and mended where the meaning is plain."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from byref.errors import ToolError
from byref.tools.record import Arguments, Tool
from byref_sandbox import jsontext


def as_object(arguments: object) -> dict[str, Any]:
    """Return arguments as a dict: a mapping, JSON text of an object (nothing at all is an empty one), else ToolError."""
    if isinstance(arguments, str | bytes):
        text = arguments.encode("utf-8", "surrogatepass") if isinstance(arguments, str) else arguments
        if not text.strip():
            return {}
        try:
            arguments = jsontext.decode(text)
        except jsontext.NotJSON as error:
            raise ToolError(f"the arguments are no valid JSON: {error}. Send one JSON object.") from None
        if isinstance(arguments, str):  # JSON in a JSON string
            return as_object(arguments)
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ToolError(f"the arguments must be one JSON object, not {type(arguments).__name__}")
    return {str(key): value for key, value in arguments.items()}


def parse(tool: Tool, arguments: object) -> Arguments:
    """Return a tool's checked arguments; numbers written as text are taken; ToolError names what is wrong."""
    given = {tool.spellings.get(key, key): value for key, value in as_object(arguments).items()}
    known = tool.arguments.__struct_fields__
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ToolError(f"{tool.name} has no argument {key[:100]!r}{hint} It takes: {', '.join(known)}")
    given = {key: value for key, value in given.items() if value is not None}
    try:
        return msgspec.convert(given, tool.arguments, strict=False)
    except msgspec.ValidationError as error:
        if (mended := {key: _unquoted(value) for key, value in given.items()}) != given:
            return parse(tool, mended)
        where = re.sub(r" - at `\$\.?(.*)`$", r": argument '\1'", str(error)).replace("`", "'")
        where = where.replace("Object missing required field", "missing argument")
        raise ToolError(f"{tool.name}: {where}. It takes: {', '.join(known)}") from None


def _unquoted(value: object) -> object:
    """An object or array that a model wrote as JSON in a string, as itself."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return jsontext.decode(value.encode("utf-8", "surrogatepass"))
    except jsontext.NotJSON:
        return value
