"""Tool results and usage as Strands writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from byref.adapters.extras import missing
from byref.outputs import forms
from byref.outputs.media import Media
from byref.result import Result, ToolReply

try:
    from strands.types.tools import ToolResultContent
except ImportError as error:
    raise missing("byref.adapters.strands", "strands-agents", "strands") from error

_IMAGES: Final = frozenset({"png", "jpeg", "gif", "webp"})
_DOCUMENTS: Final = frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"})


def content_of(read: Result | ToolReply) -> list[ToolResultContent]:
    """Return what the model reads as Strands' content: blocks in its form as they came, images and documents written in it."""
    if isinstance(read.content, str):
        return [{"text": _sendable(read.content)}]
    return [_block(item) for item in read.content]


def usage_of(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's usage with the cached tokens told apart: of OpenAI and Gemini they are within the input.

    Strands' `totalTokens` tells: it is input and output alone where the cached ones are within.
    """
    read, written = (usage.get(name) or 0 for name in ("cacheReadInputTokens", "cacheWriteInputTokens"))
    given = dict(usage)
    is_within = usage.get("totalTokens") == usage["inputTokens"] + (usage.get("outputTokens") or 0)
    if not is_within or not 0 < read + written <= usage["inputTokens"]:
        return given
    return given | {"inputTokens": usage["inputTokens"] - read - written}


def _block(item: Any) -> ToolResultContent:
    if isinstance(item, Mapping) and "type" not in item and not isinstance(item.get("text"), str):
        return cast(ToolResultContent, item)
    piece = forms.one(item)
    if not isinstance(media := piece.block, Media):
        return {"text": _sendable(item["text"] if isinstance(item.get("text"), str) else forms.to_json([item])[1:-1])}
    source: Any = {"bytes": media.data}
    if media.kind == "image" and media.format in _IMAGES:
        return {"image": {"format": cast(Any, media.format), "source": source}}
    if media.kind == "document" and media.format in _DOCUMENTS:
        name = re.sub(r"[^\w\-()\[\] ]+", "-", media.name or "document", flags=re.ASCII)[:200]
        return {"document": {"format": cast(Any, media.format), "name": name, "source": source}}
    return {"text": media.placeholder}


def _sendable(text: str) -> str:
    """Text without lone surrogates, which no API takes."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
