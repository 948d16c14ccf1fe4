"""byref's own tools and resources, which clients see beside those of the servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from byref.adapters import mcp
from byref.adapters.mcp import content
from byref.artifacts import store
from byref.errors import ConfigurationError, ToolError
from byref.gateway.wire import dumped
from byref.session import Session

Json = dict[str, Any]

MAX_RESOURCES = 100
"""Stored artifacts on one page of the list of resources, newest first."""


def definition(tool: Mapping[str, Any]) -> Json:
    """Return the definition of one of byref's tools in the protocol's form, with annotations."""
    return dumped(mcp.definition(tool))


def call(session: Session, name: str, arguments: Json, version: str) -> Json:
    """Call one of the session's own tools; its result is never gated."""
    reply = session.call(name, arguments)
    return dumped(content.tool_result(reply.content, version=version, is_error=reply.is_error))


def resources(session: Session, cursor: object = None) -> tuple[list[Json], str | None]:
    """Return a page of the session's artifacts, newest first, and the cursor of the next page.

    Raises:
        ToolError: the cursor is not from this list, or its artifact has expired.
    """
    scope = session._scope
    found = scope.read(
        lambda c: store.older(
            c, scope.source, scope.row, before=None if cursor is None else str(cursor), limit=MAX_RESOURCES + 1
        )
    )
    if found is None:
        raise ToolError("the cursor is of no page of this list, or what it named has expired: begin anew")
    page = found[:MAX_RESOURCES]
    listed = [dumped(one) for one in content.resources(session, page[::-1])]
    return listed, page[-1].id if len(found) > MAX_RESOURCES else None


def resolved(session: Session, tool: Mapping[str, Any], name: str, arguments: Json) -> Json:
    """Replace references in a server tool's arguments by data, checked against the server's own schema.

    Raises:
        ToolError: text for the model: the reference is unknown, its jq fails, or the data does not fit.
    """
    try:
        return session.resolve(arguments, tool["inputSchema"], tool=name)
    except ConfigurationError:  # an invalid schema is the server's fault: resolve without one
        return session.resolve(arguments, tool=name)
