"""Resolves references in tool arguments that the framework itself checks afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from byref.errors import ConfigurationError
from byref.references.arguments import PlainMisfit, as_object
from byref.session import Session
from byref_sandbox import jsontext

_MAX_DEPTH: Final = 100


def may_refer(value: object, depth: int = 0) -> bool:
    """Tell whether arguments may contain a reference: most contain none, and their calls need no look-up."""
    if depth > _MAX_DEPTH:
        return True
    if isinstance(value, str):
        return "$" in value or value.startswith(("art_", "art:"))
    if isinstance(value, Mapping):
        return "$var" in value or any(may_refer(member, depth + 1) for member in value.values())
    return isinstance(value, list | tuple) and any(may_refer(item, depth + 1) for item in value)


def refers(arguments: Mapping[str, Any] | str) -> bool:
    """Tell the same of arguments that may be JSON text; for text that does not parse, whether it contains a reference's mark."""
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
    is_strict: bool = False,
) -> dict[str, Any] | str:
    """Return the result of `Session.resolve`, or the same arguments if they have no references and do not fit the schema.

    Frameworks accept more than a tool's schema says (defaults, `"90"` for a duration) and word their own refusals, so they get such
    arguments; with `is_strict` byref refuses them, as it does in either case where a text that does not fit looks like a reference. If
    `schema` is invalid, nothing is checked against it.

    Raises:
        ToolError: a reference is unknown, misspelt where text does not fit, or its data does not fit.
    """
    resolve = partial(session.resolve, arguments, tool=tool, call_id=call_id)
    try:
        return resolve(schema=schema)
    except ConfigurationError:
        return resolve()
    except PlainMisfit:
        if not is_strict and resolve() == as_object(arguments):
            return arguments
        raise
