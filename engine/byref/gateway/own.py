"""byref's own tools and resources, beside those of the servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from byref import Session
from byref.adapters import mcp_content
from byref.errors import ConfigurationError
from byref.gateway.wire import dumped

Json = dict[str, Any]

MAX_RESOURCES = 100
"""Stored artifacts in the list of resources, the newest ones; the others are there by their URIs."""
_WRITES = ("code_interpreter", "store_artifact")


def definition(tool: Mapping[str, Any]) -> Json:
    """Return a tool's definition with what clients want to know before they ask their user."""
    hints = {"readOnlyHint": tool["name"] not in _WRITES, "destructiveHint": False, "openWorldHint": False}
    return {**tool, "annotations": hints}


def call(session: Session, name: str, arguments: Json, version: str) -> Json:
    """Return the result of one of the session's own tools; it is never gated."""
    reply = session.call(name, arguments)
    return dumped(mcp_content.tool_result(reply.content, version=version, is_error=reply.is_error))


def resources(session: Session) -> list[Json]:
    """Return the session's newest artifacts as entries of a list of resources."""
    names: dict[str, list[str]] = {}
    for variable in session.variables():
        names.setdefault(variable.artifact.id, []).append(variable.name)
    newest = session.artifacts()[-MAX_RESOURCES:]
    return [dumped(mcp_content.resource(artifact, names.get(artifact.id, ()))) for artifact in newest]


def resolved(session: Session, tool: Mapping[str, Any], name: str, arguments: Json) -> Json:
    """Return arguments of a server's tool with the data in place of references, checked against the server's own schema.

    Raises:
        ToolError: text for the model: the reference is unknown, its jq fails, or the data does not fit.
    """
    try:
        return session.resolve(arguments, tool["inputSchema"], tool=name)
    except ConfigurationError:  # a schema that is none is the server's to mind
        return session.resolve(arguments, tool=name)
