"""Gates the results of upstream tools: small results pass unchanged, big ones are stored and replaced."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mcp.types.version import is_version_at_least
from pydantic_core import from_json

from byref.accounting.ledger import dump
from byref.adapters.mcp import content as mcp_content
from byref.adapters.mcp.schemas import OFFLOADED
from byref.content.instructions import KEY
from byref.conversation.result import Result
from byref.describe.jsontext import without_surrogates
from byref.gateway.wire import dumped
from byref.ingest.prepare import NO_MESSAGE
from byref.policy import Policy, ToolPolicy
from byref.session import Session

Json = dict[str, Any]

logger = logging.getLogger("byref")

MAX_RESULT_CHARS: Final = "anthropic/maxResultSizeChars"
"""Key in a tool's `_meta`: how many characters of a result the tool's author wants the model to read."""
_MOST_CHARS = 10_000_000
MAX_BESIDE_CHARS: Final = 65_536
"""Bound in characters for the members of one result that are not gated: `_meta`, annotations and members that the protocol does not
know. Programs get them as they are; all of them are left out if they are longer."""
_READ = frozenset({"content", "structuredContent", "isError", "resultType"})
_CONTENT: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"type", "text"}),
    "image": frozenset({"type", "data", "mimeType"}),
    "audio": frozenset({"type", "data", "mimeType"}),
    "resource": frozenset({"type", "resource"}),
}
"""The members of each type of block that are measured; of a block of another type, all are."""
_OF_RESOURCES = frozenset({"uri", "mimeType", "text", "blob"})
STRUCTURED_SINCE = "2025-06-18"


def settle_error(raw: Json) -> None:
    """Make `isError` a boolean, where a server wrote 1 or a word: clients refuse another value, and must not miss the error."""
    if "isError" in raw and not isinstance(given := raw["isError"], bool):
        raw["isError"] = bool(given) and str(given).lower() not in ("false", "no", "0")


def limit_of(tool: Mapping[str, Any]) -> int | None:
    """Return how many characters of a result the tool's author wants the model to read, if the definition says so."""
    meta = tool.get("_meta")
    limit = meta.get(MAX_RESULT_CHARS) if isinstance(meta, dict) else None
    return limit if type(limit) is int and 0 < limit <= _MOST_CHARS else None


def limited(policy: Policy, tool: str, limit: int, raw: Mapping[str, Any]) -> Policy:
    """Return the policy for one result of a tool that declares a limit: within it the model reads the whole result, else none of
    it.

    Settings of the host's own policy for this tool take precedence over the tool's declaration.
    """
    own = policy.tool(tool)
    if own.knobs:
        return policy
    fits = _characters(raw) <= limit
    knobs: dict[str, Any] = (
        {"max_threshold_bytes": None, "context_percentage": None, "max_result_tokens": None, "max_output_bytes": None}
        if fits
        else {"min_threshold_bytes": 0, "max_output_bytes": 1, "plaintext": "artifact"}
    )
    changed = ToolPolicy(**{**own.settings, **knobs})
    return policy.override(per_tool={**policy.per_tool, tool: changed})


def _characters(raw: Mapping[str, Any]) -> int:
    blocks = raw.get("content")
    texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    size = sum(len(text) for text in texts if isinstance(text, str))
    structured = raw.get("structuredContent")
    return max(size, len(dump(structured)) if structured is not None else 0)


def process(
    session: Session,
    raw: Json,
    *,
    tool: str,
    arguments: object,
    limit: int | None,
    version: str,
    shows_learned: bool = False,
    has_links: bool = True,
) -> tuple[Json, bool]:
    """Take a result into the session; return the result for the client, and whether something was stored.

    A result that the model reads whole is returned exactly as it came, but for what `structured` adds, and the text of an error
    that has none.
    """
    if limit is not None:
        policy = limited(session.policy, tool, limit, raw)
        session = Session(replace(session._scope, policy=policy))
    raw = bounded(raw, tool)
    given = _given(raw)
    result = session.process(given, tool=tool, arguments=arguments, is_error=raw.get("isError") is True)
    if result.route.passes_whole and not is_reshaped(session.policy, tool, given):
        if result.text == NO_MESSAGE:
            raw = {**raw, "content": [{"type": "text", "text": NO_MESSAGE}]}
        return for_version(structured(raw, version) if shows_learned else raw, version), False
    is_structured = "structuredContent" in raw or shows_learned
    replacement = _replacement(raw, result, version, is_structured=is_structured, has_links=has_links)
    return replacement, bool(result.artifacts)


_OF_JAVASCRIPT: Final = frozenset({"constructor", "__proto__", "prototype"})
"""Members that the TypeScript SDK takes for those of an object's class: a result with one is no record to it."""


def structured(raw: Json, version: str) -> Json:
    """Return a result with structured content: of a tool that shows what it returns, clients refuse one without it.

    Some clients read it in place of the content. So a file that is text is in it, and of an image it says where that is.
    """
    value: object = raw.get("structuredContent")
    if isinstance(value, dict) or raw.get("isError") is True or not is_version_at_least(version, STRUCTURED_SINCE):
        return raw
    if value is None:
        blocks = raw.get("content")
        text = "\n".join(map(_in_words, blocks if isinstance(blocks, list) else [blocks]))
        try:
            # As a client reads it: no NaN, no half surrogate pairs, and no deeper, where some levels are around it in the message.
            [[[[[[[[value]]]]]]]] = from_json(f"[[[[[[[[{text}]]]]]]]]", allow_inf_nan=False)
            json.dumps(value, allow_nan=False)  # 1e999 is read as infinite
        except ValueError:
            value = text
    is_record = isinstance(value, dict) and _OF_JAVASCRIPT.isdisjoint(value)
    return {**raw, "structuredContent": value if is_record else {"result": value}}


def _in_words(block: object) -> str:
    if not isinstance(block, dict):
        return block if isinstance(block, str) else ""
    inner = block.get("resource")
    about = inner if isinstance(inner, dict) else block
    if isinstance(text := about.get("text"), str):
        return text
    known = [block.get("type"), about.get("mimeType"), about.get("uri")]
    return f"[{', '.join(one for one in known if isinstance(one, str)) or 'something else'}: see the content]"


def _beside(raw: Json) -> set[str]:
    """Return the names of a result's members that are not for the model."""
    if raw.keys().isdisjoint(("content", "structuredContent")):
        return {"_meta"} & raw.keys()
    return raw.keys() - _READ


def _given(raw: Json) -> Any:
    """Return the part of a result that is measured: the members for the model or, in a result of another form, everything."""
    read = {key: value for key, value in raw.items() if key not in _beside(raw)}
    if raw.keys().isdisjoint(("content", "structuredContent")):
        return read["toolResult"] if list(read) == ["toolResult"] else read
    return {**read, "isError": raw.get("isError") is True}


def bounded(raw: Json, tool: str) -> Json:
    """Return a result without its unmeasured members, its own and those of its blocks, if these are too long."""
    content, unread = raw.get("content"), _beside(raw)
    blocks = content if isinstance(content, list) else []
    parts: list[Any] = [{key: raw[key] for key in unread}, *(about for block in blocks if (about := _about(block)))]
    if sum(len(dump(part)) for part in parts) <= MAX_BESIDE_CHARS:
        return raw
    logger.warning("a result of %r has much beside its content: all but the content is left out", tool)
    kept = {key: value for key, value in raw.items() if key not in unread}
    return {**kept, "content": [plain(block) for block in blocks]} if blocks else kept


def _about(block: Any) -> list[Any]:
    """Return the values of a block's members that are not its content."""
    known = _CONTENT.get(str(block.get("type"))) if isinstance(block, dict) else None
    if known is None:
        return []
    resource = block.get("resource")
    inner = [value for key, value in resource.items() if key not in _OF_RESOURCES] if isinstance(resource, dict) else []
    return [*inner, *(value for key, value in block.items() if key not in known)]


def plain(block: Any) -> Any:
    """Return a block without members that its type does not have; a block of an unknown type is returned as it is."""
    known = _CONTENT.get(str(block.get("type"))) if isinstance(block, dict) else None
    if known is None:
        return block
    kept = {key: value for key, value in block.items() if key in known}
    if isinstance(resource := kept.get("resource"), dict):
        kept["resource"] = {key: value for key, value in resource.items() if key in _OF_RESOURCES}
    return kept


def is_reshaped(policy: Policy, tool: str, given: Any) -> bool:
    """Tell whether the model reads something other than what came: a mapper's output, or data without its instructions."""
    own = policy.tool(tool)
    return own.mapper is not None or own.template is not None or KEY in dump(given)


def _replacement(raw: Json, result: Result, version: str, *, is_structured: bool, has_links: bool) -> Json:
    """Return the client's result in place of one that was stored or reshaped."""
    links = mcp_content.links(result) if has_links else ()
    made = mcp_content.tool_result(result.content, version=version, is_error=result.is_error, links=links)
    kept = {*_beside(raw), "isError", "resultType"}
    found = {key: value for key, value in raw.items() if key in kept}
    found["content"] = dumped(made)["content"]
    if is_structured and is_version_at_least(version, STRUCTURED_SINCE):
        found["structuredContent"] = {OFFLOADED: _stored(result)}
    return found


def _stored(result: Result) -> Json:
    """Return, for the application, what the model reads and what was stored."""
    return {
        "route": result.route,
        "variables": [variable.name for variable in result.variables],
        "artifacts": [
            {"id": artifact.id, "uri": mcp_content.uri_of(artifact), "size_bytes": artifact.payload.size}
            for artifact in result.artifacts
        ],
        **({} if result.envelope is None else {"envelope": json.loads(dump(result.envelope))}),
    }


def for_version(result: Json, version: str) -> Json:
    """Return a result with blocks that the client's protocol version does not know turned into text."""
    content = result.get("content")
    if not isinstance(content, list) or is_version_at_least(version, STRUCTURED_SINCE):
        return result
    changed = [_known(block, version) for block in content]
    return result if changed == content else {**result, "content": changed}


def _known(block: Any, version: str) -> Any:
    kind = block.get("type") if isinstance(block, dict) else None
    since = mcp_content.BLOCKS_SINCE.get(kind) if isinstance(kind, str) else None
    if since is None or is_version_at_least(version, since):
        return block
    shown = {key: value for key, value in block.items() if key != "data"}
    return {"type": "text", "text": json.dumps(shown)}


def failure(text: str) -> Json:
    """Return a result that tells the model what went wrong."""
    return {"content": [{"type": "text", "text": without_surrogates(text)}], "isError": True}
