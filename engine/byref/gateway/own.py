"""byref's own tools and resources, beside those of the servers."""

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
"""Stored artifacts in a page of the list of resources, the newest ones first."""


def definition(tool: Mapping[str, Any]) -> Json:
    """Return a tool's definition with what clients want to know before they ask their user."""
    return dumped(mcp.definition(tool))


def call(session: Session, name: str, arguments: Json, version: str) -> Json:
    """Return the result of one of the session's own tools; it is never gated."""
    reply = session.call(name, arguments)
    return dumped(content.tool_result(reply.content, version=version, is_error=reply.is_error))


def resources(session: Session, cursor: object = None) -> tuple[list[Json], str | None]:
    """Return the session's newest artifacts, or those before a cursor, as entries of a list, and the next cursor.

    Raises:
        ToolError: the cursor is none of this list's, or what it named has expired.
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
    """Return arguments of a server's tool with the data in place of references, checked against the server's own schema.

    Raises:
        ToolError: text for the model: the reference is unknown, its jq fails, or the data does not fit.
    """
    try:
        return session.resolve(arguments, tool["inputSchema"], tool=name)
    except ConfigurationError:  # a schema that is none is the server's to mind
        return session.resolve(arguments, tool=name)
