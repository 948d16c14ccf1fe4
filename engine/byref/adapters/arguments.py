"""Arguments of tools whose framework checks them itself, afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from byref.errors import ToolError
from byref.session import Session
from byref.tools.arguments import as_object


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
