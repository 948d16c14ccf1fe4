"""Content as each provider's API takes it inside a tool result: text, images and documents in the provider's own blocks.

A block in the provider's own form keeps the keys that the provider accepts; any other block is rewritten. A block that cannot be
rewritten (its bytes are elsewhere, or the provider has no such type) becomes text: a placeholder, or its JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from byref.content import formats
from byref.content.blocks import Block
from byref.content.formats import Piece
from byref.content.media import Media
from byref.errors import one_line

MAX_READABLE_BYTES: Final = 8_000
"""Maximum bytes of an image of text (SVG) that is given as text: about as many tokens as a provider counts for an image."""

MAX_CITED_CHARS: Final = 2_000
"""Maximum characters of the title and of the source of a search result that are written into its text."""

_SEEN: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Image types that Anthropic and OpenAI accept."""
_GEMINI: Final = frozenset({"image/jpeg", "image/png", "image/webp", "application/pdf", "text/plain"})
"""Content types that Gemini accepts beside a function's response."""

_OWN: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "openai": {"text": ("text", "")},
    "openai-responses": {
        "input_text": ("text", ""),
        "input_image": ("", "image_url file_id detail"),
        "input_file": ("", "file_data file_url file_id filename detail"),
    },
    "anthropic": {
        "text": ("text", "cache_control"),
        "image": ("source", "cache_control"),
        "document": ("source", "title context citations cache_control"),
        "search_result": ("source title content", "citations cache_control"),
        "tool_reference": ("tool_name", "cache_control"),
    },
    "mcp": {
        "text": ("text", "annotations _meta"),
        "image": ("data mimeType", "annotations _meta"),
        "audio": ("data mimeType", "annotations _meta"),
        "resource": ("resource", "annotations _meta"),
        "resource_link": ("uri name", "title description mimeType size icons annotations _meta"),
    },
}
"""For each provider's API and type of block: the keys that the block must have, and those that it may have."""


def render(content: str | list[Any], format: str) -> Any:
    """Return content in the format of a tool result. Text stays text, or a block for MCP; Gemini gets a pair of text and parts."""
    if isinstance(content, str):
        return (
            [{"type": "text", "text": content}] if format == "mcp" else (content, []) if format == "gemini" else content
        )
    pieces = [formats.one(item) for item in content]
    if format == "gemini":
        media = [piece.block for piece in pieces if isinstance(piece.block, Media)]
        parts = [
            {"inline_data": {"mime_type": m.content_type, "data": m.base64}} for m in media if m.content_type in _GEMINI
        ]
        return as_text(content), parts
    blocks = [_block(piece, format) for piece in pieces]
    if format != "anthropic":
        return blocks
    # Anthropic refuses blocks of blank text, and takes a result without any block.
    return [block for block in blocks if not _is_blank(block)] or ""


def _is_blank(block: Mapping[Any, Any]) -> bool:
    return block["type"] == "text" and not block["text"].strip()


def as_text(content: str | list[Any]) -> str:
    """Return content as one text, with placeholders for images and documents."""
    return content if isinstance(content, str) else "\n\n".join(_text(formats.one(item)) for item in content)


def _block(piece: Piece, format: str) -> dict[str, Any]:
    own = _own(piece, format)
    if isinstance(piece.block, Media):
        made = _media(piece.block, format)
        if own is None or own["type"] != made["type"]:
            return made
        return {**made, **own, **_carrying(made, own)}
    if own is not None and (piece.block is not None or _is_sendable(own, format)):
        return own
    return {"type": "input_text" if format == "openai-responses" else "text", "text": _text(piece)}


def _own(piece: Piece, format: str) -> dict[str, Any] | None:
    """Return the original block with only the keys that the provider accepts; None if it is not in the provider's form."""
    item = piece.original if isinstance(piece.original, Mapping) else {}
    kind = item.get("type")
    if not isinstance(kind, str) or kind not in _OWN[format]:
        return None
    needs, more = (keys.split() for keys in _OWN[format][kind])
    if any(item.get(key) is None for key in needs):
        return None
    if kind == "search_result" and not all(isinstance(item[key], str) for key in ("source", "title")):
        return None
    return {key: item[key] for key in ("type", *needs, *more) if item.get(key) is not None}


def _carrying(made: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the rewritten member that carries the bytes, in base64 as the provider accepts it; a resource keeps its URI."""
    if "resource" in made:
        return {"resource": {**own["resource"], "blob": made["resource"]["blob"]}}
    return {key: made[key] for key in ("source", "data", "mimeType", "image_url", "file_data") if key in made}


def _is_sendable(own: dict[str, Any], format: str) -> bool:
    """Tell whether the provider accepts a block whose bytes are elsewhere or unreadable: it has to accept that kind of pointer."""
    if format == "anthropic" and "source" in own and own["type"] != "search_result":
        source = own["source"] if isinstance(own["source"], Mapping) else {}
        match source.get("type"):
            case "url":
                return isinstance(source.get("url"), str)
            case "file":
                return isinstance(source.get("file_id"), str)
            case "content" if own["type"] == "document" and isinstance(parts := source.get("content"), list):
                return 0 < len(parts) <= formats.MAX_BLOCKS and all(map(_is_part, parts))
        return False
    if format == "openai-responses":
        url = own.get("image_url", own.get("file_url", ""))
        return isinstance(own.get("file_id"), str) or (isinstance(url, str) and url.startswith(("http://", "https://")))
    return own["type"] in ("resource_link", "tool_reference")


def _is_part(item: object) -> bool:
    """Tell whether Anthropic accepts a block, as it is, inside of a document."""
    if not isinstance(item, Mapping) or item.get("type") not in ("text", "image"):
        return False
    return _block(formats.one(item), "anthropic") == item and not _is_blank(item)


def _text(piece: Piece) -> str:
    if isinstance(piece.block, Block):
        return _provenance(piece.original or {}) + piece.block.text
    return piece.block.placeholder if piece.block is not None else formats.to_json([piece.original])[1:-1]


def _provenance(item: Mapping[Any, Any]) -> str:
    """Return the lines that say which page a search result is of, for the model to cite; no text for any other block."""
    found = item if item.get("type") == "search_result" else item.get("searchResult")
    if not isinstance(found, Mapping):
        return ""
    lines = [f"{key}: {one_line(found[key], MAX_CITED_CHARS)}\n" for key in ("title", "source") if found.get(key)]
    return "".join(lines) + "\n" if lines else ""


def _media(media: Media, format: str) -> dict[str, Any]:
    url = f"data:{media.content_type};base64,{media.base64}"
    match format:
        case "anthropic" if media.content_type in _SEEN or media.content_type == "application/pdf":
            source = {"type": "base64", "media_type": media.content_type, "data": media.base64}
            title = {"title": media.name} if media.name and media.kind == "document" else {}
            return {"type": media.kind, "source": source, **title}
        case "openai-responses" if media.content_type in _SEEN:
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case "openai-responses" if media.kind == "document" and not media.content_type.startswith(("audio/", "video/")):
            return {"type": "input_file", "file_data": url, "filename": media.name or f"document.{media.format}"}
        case "mcp":
            return formats.write(media)
    # Reached also for all media of OpenAI's Chat API, which accepts only text from tools.
    kind = "input_text" if format == "openai-responses" else "text"
    return {"type": kind, "text": _readable(media) or media.placeholder}


def _readable(media: Media) -> str | None:
    """Return the text of an image or document that consists of text; None for any other, and for an image that is too large."""
    is_text = media.content_type.startswith("text/") or media.content_type in ("image/svg+xml", "application/json")
    if not is_text or (media.kind == "image" and media.size > MAX_READABLE_BYTES):
        return None
    try:
        return media.data.decode()
    except UnicodeDecodeError:
        return None
