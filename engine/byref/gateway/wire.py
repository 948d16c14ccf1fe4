"""Converts results and parameters between versions of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    methods,
)
from pydantic import BaseModel, ValidationError

from byref.gateway.calls import Context, is_modern

Json = dict[str, Any]

_CACHEABLE = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover"}
)
_MODERN = ("resultType", "ttlMs", "cacheScope")
_OF_THE_REQUEST = frozenset({CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY})
"""Keys by which every request of 2026-07-28 describes the client; before, the handshake did so once."""
_OF_THE_CONNECTION = frozenset({PROTOCOL_VERSION_META_KEY, "progressToken"})
_CAPABILITIES = ("roots", "sampling", "elicitation", "experimental")


def capable(capabilities: object) -> Json:
    """Return a client's capabilities as servers get them: only those that the gateway can carry."""
    able = capabilities if isinstance(capabilities, dict) else {}
    return {key: able[key] for key in _CAPABILITIES if key in able}


def dumped(model: BaseModel) -> Json:
    """Return a message of the SDK as the JSON that goes over the wire."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def is_question(result: Mapping[str, Any]) -> bool:
    """Tell whether a result is a question that the client must answer first."""
    return result.get("resultType") == "input_required"


def finished(result: Mapping[str, Any], context: Context) -> Json:
    """Return a result with the members that the client's protocol version requires, without those that it does not know."""
    if not is_modern(context):
        return {key: value for key, value in result.items() if key not in _MODERN}
    found = {"resultType": "complete", **result}
    if context.method in _CACHEABLE and not is_question(found):
        found = {"ttlMs": 0, "cacheScope": "private", **found}
    return found


def acceptable(method: str, key: str, items: list[Json], context: Context) -> list[Json]:
    """Return the items that clients of this version accept: a strict client refuses a whole list for one bad item."""

    def is_accepted(some: list[Json]) -> bool:
        page = {key: some, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        try:
            methods.validate_server_result(method, context.protocol_version, page)
        except ValidationError:
            return False
        return True

    return items if is_accepted(items) else [item for item in items if is_accepted([item])]


def check_headers(context: Context, tool: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Check that the HTTP headers in which a client repeats arguments agree with the call.

    Raises:
        MCPError: they differ; a proxy that reads only the headers would be misled.
    """
    if is_modern(context) and context.request is not None:
        refusal = validate_mcp_param_headers(tool["inputSchema"], arguments, context.request.headers)
        if refusal is not None:
            raise MCPError(refusal.code, refusal.message)


def outgoing(params: Mapping[str, Any], *, to_modern: bool) -> Json:
    """Return a client's parameters for a server, without those that concern the client's own connection."""
    sent = dict(params)
    if not to_modern:
        sent.pop("inputResponses", None)
        sent.pop("requestState", None)
    meta = sent.pop("_meta", None)
    if isinstance(meta, dict):
        dropped = _OF_THE_CONNECTION if to_modern else _OF_THE_CONNECTION | _OF_THE_REQUEST
        kept = {key: value for key, value in meta.items() if key not in dropped}
        if CLIENT_CAPABILITIES_META_KEY in kept:
            kept[CLIENT_CAPABILITIES_META_KEY] = capable(kept[CLIENT_CAPABILITIES_META_KEY])
        if kept:
            sent["_meta"] = kept
    return sent
