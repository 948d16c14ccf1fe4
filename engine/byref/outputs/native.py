"""Content as each provider's API takes it inside a tool result: text, images and documents in the provider's own blocks.

A block in another provider's form is rewritten; one that cannot be (its bytes are elsewhere) goes as it is where it is in
the provider's form, else as its JSON.
"""

from __future__ import annotations

from typing import Any

from byref.outputs import forms
from byref.outputs.blocks import Block
from byref.outputs.forms import Piece
from byref.outputs.media import Media

_OWN_TYPES = {
    "openai": ("text",),
    "openai-responses": ("input_text", "input_image", "input_file"),
    "anthropic": ("text", "image", "document", "search_result", "tool_reference"),
    "mcp": ("text", "image", "audio", "resource", "resource_link"),
}


def render(content: str | list[Any], format: str) -> Any:
    """Return content for a tool result: text as it is (MCP: as a block); for Gemini a pair of text and further parts."""
    if isinstance(content, str):
        return (
            [{"type": "text", "text": content}] if format == "mcp" else (content, []) if format == "gemini" else content
        )
    pieces = [_piece(item) for item in content]
    if format == "gemini":
        media = [piece.block for piece in pieces if isinstance(piece.block, Media)]
        return as_text(content), [{"inline_data": {"mime_type": m.content_type, "data": m.base64}} for m in media]
    return [_block(piece, format) for piece in pieces]


def as_text(content: str | list[Any]) -> str:
    """Return content as one text, with placeholders for images and documents."""
    return content if isinstance(content, str) else "\n\n".join(_text(_piece(item)) for item in content)


def _piece(item: Any) -> Piece:
    found = forms.read([item])
    return Piece(None, item) if found is None else found[0][0]


def _block(piece: Piece, format: str) -> Any:
    if isinstance(piece.block, Media):
        return _media(piece.block, format)
    own = isinstance(piece.original, dict) and piece.original.get("type") in _OWN_TYPES[format]
    if own and not (format == "mcp" and "source" in piece.original):
        return piece.original
    return {"type": "input_text" if format == "openai-responses" else "text", "text": _text(piece)}


def _text(piece: Piece) -> str:
    if isinstance(piece.block, Block):
        return piece.block.text
    return piece.block.placeholder if piece.block is not None else forms.to_json([piece.original])[1:-1]


def _media(media: Media, format: str) -> dict[str, Any]:
    url = f"data:{media.content_type};base64,{media.base64}"
    match format:
        case "anthropic" if media.kind == "image" or media.content_type == "application/pdf":
            source = {"type": "base64", "media_type": media.content_type, "data": media.base64}
            title = {"title": media.name} if media.name and media.kind == "document" else {}
            return {"type": media.kind, "source": source, **title}
        case "openai-responses" if media.kind == "image":
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case "openai-responses":
            return {"type": "input_file", "file_data": url, "filename": media.name or f"document.{media.format}"}
        case "mcp":
            return forms.write(media)
    return {"type": "text", "text": media.placeholder}  # OpenAI's Chat API takes text alone from tools
