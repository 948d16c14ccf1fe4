"""Converts answers of sessions to results and resources of the Model Context Protocol."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from byref.accounting.ledger import dump
from byref.adapters.common.extras import missing
from byref.artifacts.lines import check_range, segments
from byref.artifacts.store import Artifact, decode_text
from byref.artifacts.variables import names_of
from byref.content import rendering
from byref.conversation.result import Result, sendable
from byref.errors import ToolError
from byref.session import Session

try:
    from mcp import types
    from mcp.shared.uri_template import UriTemplate
    from mcp.types.version import is_version_at_least
except ImportError as error:
    raise missing("byref.adapters.mcp", "mcp", "mcp") from error

MAX_RESOURCE_BYTES = 3 << 20
"""Size of a resource that is sent whole: as base64 it still fits into 4 MiB, the limit of MCP's SDK for a request's body."""
MAX_LINKS = 20
"""Artifacts linked by one result."""
_NAME_CHARS = 256
_LINE_DIGITS = 15

ARTIFACT = UriTemplate.parse("byref://artifact/{id}")
LINES = UriTemplate.parse("byref://artifact/{id}/lines/{first}-{last}")
JQ = UriTemplate.parse("byref://artifact/{id}/jq{?expression}")

_BLOCKS = ("text", "image", "resource", "audio", "resource_link")
BLOCKS_SINCE = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""The first protocol version with each type of block; clients of earlier versions refuse a result that has one."""


def uri_of(artifact: Artifact) -> str:
    """Return the URI of an artifact as a resource of its session."""
    return ARTIFACT.expand({"id": artifact.id})


def _sendable(value: Any) -> Any:
    return sendable(json.loads(dump(value)))


def resource(artifact: Artifact, names: Iterable[str] = ()) -> types.Resource:
    """Return an artifact as an entry of a list; `names` are its variables."""
    return types.Resource(**_described(artifact, names))


def resources(session: Session, artifacts: Sequence[Artifact]) -> list[types.Resource]:
    """Return artifacts of a session as entries of a list."""
    names = session._scope.read(lambda connection: names_of(connection, [one.row_id for one in artifacts]))
    return [resource(artifact, names.get(artifact.row_id, ())) for artifact in artifacts]


def link(artifact: Artifact, names: Iterable[str] = ()) -> types.ResourceLink:
    """Return an artifact as a block of a tool's result; `names` are its variables."""
    return types.ResourceLink(**_described(artifact, names))


def links(result: Result) -> list[types.ResourceLink]:
    """Return links to the artifacts of an output, as blocks of a tool's result."""
    names: dict[str, list[str]] = {}
    for variable in result.variables:
        names.setdefault(variable.artifact.id, []).append(variable.name)
    return [link(artifact, names.get(artifact.id, ())) for artifact in result.artifacts]


def _described(artifact: Artifact, names: Iterable[str]) -> dict[str, Any]:
    shape = artifact.shape if isinstance(artifact.shape, str) else json.dumps(artifact.shape)
    name = artifact.name or next(iter(names), artifact.id)
    return {
        "uri": uri_of(artifact),
        "name": sendable(name[:_NAME_CHARS]),
        "description": sendable(shape[:_NAME_CHARS]),
        "mime_type": sendable(artifact.content_type),
        "size": artifact.payload.size,
    }


def tool_result(
    content: str | list[Any],
    *,
    version: str,
    is_error: bool = False,
    links: Iterable[types.ResourceLink] = (),
    envelope: Mapping[str, Any] | None = None,
) -> types.CallToolResult:
    """Return what the model reads as a tool's result: content for the model, the envelope for the application.

    `version` is the protocol version of the connection: a client gets no blocks and no structured content that its version does not
    know.
    """
    blocks: list[types.ContentBlock] = [_as_block(block, version) for block in rendering.render(content, "mcp")]
    if _knows("resource_link", version):
        blocks += list(links)[:MAX_LINKS]
    structured = _sendable(envelope) if envelope is not None and _knows("resource_link", version) else None
    return types.CallToolResult(content=blocks, structured_content=structured, is_error=is_error)


def _as_block(block: Mapping[str, Any], version: str) -> types.ContentBlock:
    """Return a block in the protocol's form; a block that this protocol version does not know becomes text."""
    clean = _sendable(block)
    try:
        if _knows(clean["type"], version):
            return types.CallToolResult.model_validate({"content": [clean]}, by_name=False).content[0]
    except ValueError:
        pass
    return types.TextContent(text=sendable(rendering.as_text([block])))


def _knows(kind: str, version: str) -> bool:
    return kind in _BLOCKS and (kind not in BLOCKS_SINCE or is_version_at_least(version, BLOCKS_SINCE[kind]))


def templates(session: Session) -> list[types.ResourceTemplate]:
    """Return the URI templates of the session's resources."""
    found = [
        (ARTIFACT, "artifact", "A stored payload, whole, by its id or name."),
        (LINES, "lines", "Lines of a stored payload, from 1, both included."),
    ]
    if session.owns("artifact_jq"):
        found.append((JQ, "jq", "What a jq filter gives of stored JSON, within the bounds of artifact_jq."))
    return [types.ResourceTemplate(uri_template=str(uri), name=name, description=text) for uri, name, text in found]


def read(session: Session, uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    """Return the contents of one of the session's resources.

    Raises:
        ToolError: there is no such resource, or it is too large to be sent whole; the text says what to do.
        ArtifactMissing: the stored bytes are gone.
    """
    if (found := ARTIFACT.match(uri)) is not None:
        return _whole(session, uri, _artifact(session, found))
    if (found := LINES.match(uri)) is not None:
        return _lines(session, uri, _artifact(session, found), _line(found["first"]), _line(found["last"]))
    if (found := JQ.match(uri)) is not None and session.owns("artifact_jq"):
        artifact = _artifact(session, found)
        reply = session.call("artifact_jq", {"artifact_id": artifact.id, "expression": found.get("expression", ".")})
        if reply.is_error:
            raise ToolError(reply.text)
        return types.TextResourceContents(uri=sendable(uri), mime_type="text/plain", text=sendable(reply.text))
    known = ", ".join(template.uri_template for template in templates(session))
    raise ToolError(f"no resource {uri[:200]!r}; there are: {known}")


def _artifact(session: Session, found: Mapping[str, Any]) -> Artifact:
    artifact = session.get_artifact(str(found["id"]))
    if artifact is None:
        raise ToolError(f"no artifact {str(found['id'])[:100]!r} in this session")
    return artifact.readable


def _line(digits: object) -> int:
    if not (isinstance(digits, str) and digits.isascii() and digits.isdecimal() and len(digits) <= _LINE_DIGITS):
        raise ToolError(f"{str(digits)[:50]!r}: expected the number of a line")
    return int(digits)


def _whole(session: Session, uri: str, artifact: Artifact) -> types.TextResourceContents | types.BlobResourceContents:
    if artifact.payload.size > MAX_RESOURCE_BYTES:
        raise _too_large(session, artifact, artifact.payload.size)
    data = artifact.payload.read()
    if artifact.is_binary:
        encoded = base64.b64encode(data).decode()
        return types.BlobResourceContents(uri=sendable(uri), mime_type=artifact.content_type, blob=encoded)
    return _text(uri, artifact, data)


def _lines(session: Session, uri: str, artifact: Artifact, first: int, last: int) -> types.TextResourceContents:
    if artifact.is_binary:
        raise ToolError(f"artifact {artifact.id} is {artifact.content_type}: it has no lines")
    last = check_range(artifact.payload, first, last)
    data = bytearray()
    for number, piece, ends in segments(artifact.payload.chunks(first), first):
        if number > last:
            break
        data += piece + b"\n" if ends else piece
        if len(data) > MAX_RESOURCE_BYTES:
            raise _too_large(session, artifact, len(data))
    return _text(uri, artifact, bytes(data.removesuffix(b"\n")), "text/plain")


def _text(uri: str, artifact: Artifact, data: bytes, mime_type: str | None = None) -> types.TextResourceContents:
    return types.TextResourceContents(
        uri=sendable(uri),
        mime_type=mime_type or artifact.content_type,
        text=sendable(decode_text(data)),
    )


def _too_large(session: Session, artifact: Artifact, size: int) -> ToolError:
    tools = [tool["name"] for tool in session.tools("mcp") if tool["name"].startswith(("artifact_", "code_"))]
    ways = f"read {LINES}" + (f", or use {', '.join(tools)}" if tools and not artifact.is_binary else "")
    ways = "the host has it" if artifact.is_binary else ways
    return ToolError(
        f"artifact {artifact.id} is too large to be given whole: {size:,} bytes, at most {MAX_RESOURCE_BYTES:,}; {ways}"
    )
