"""Converts tool results and usage from and to Strands' form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from byref.adapters.common.extras import missing
from byref.content import formats
from byref.content.blocks import to_block
from byref.content.media import Media
from byref.content.structured import MAX_ELEMENTS, repeated
from byref.conversation.result import Result, ToolReply, sendable
from byref.usage import is_count

try:
    from strands.types.tools import ToolResult, ToolResultContent
except ImportError as error:
    raise missing("byref.adapters.strands", "strands-agents", "strands") from error

_IMAGES: Final = frozenset({"png", "jpeg", "gif", "webp"})
_DOCUMENTS: Final = frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"})


_BESIDE: Final = ("structuredContent", "metadata")
"""Members that Strands adds to the result of an MCP tool for programs; no model reads them."""


class Made(dict[str, Any]):
    """A tool result that Strands made of a Python value."""

    def __init__(self, result: Mapping[str, Any], value: object) -> None:
        super().__init__(result)
        self.value, self.text = value, result["content"][0]["text"]

    @property
    def is_lossy(self) -> bool:
        """Whether the text, unchanged since, is not the value's JSON."""
        content = self["content"]
        if len(content) != 1 or content[0].get("text") is not self.text:
            return False
        try:
            json.dumps(self.value)
        except (TypeError, ValueError, RecursionError):
            return True
        return False


def output_of(result: Mapping[str, Any]) -> Any:
    """Return a tool's output: the value itself if Strands could not write it as JSON, else the content in MCP's or Strands' form.

    MCP's structured content is the data; blocks that only repeat it element by element are left out.
    """
    if isinstance(result, Made) and result.is_lossy:
        return result.value
    content, said = result["content"], result.get("structuredContent")
    plain = {"toolUseId": result["toolUseId"], "status": result["status"], "content": content}
    if isinstance(said, list):
        said = {_WRAPPED: said}
    if not isinstance(said, Mapping):
        return plain
    (name, value), *others = said.items() or [("", None)]
    if not others and isinstance(value, str) and content == [{"text": value}]:
        return plain
    if not others and isinstance(value, list) and _repeat(value, content):
        return {**plain, "content": [{"json": value if name == _WRAPPED else said}]}
    return {"content": content, "structuredContent": said, "isError": result["status"] == "error"}


def as_it_came(result: Mapping[str, Any]) -> ToolResult:
    """Return a tool result unchanged, except for text that some API would refuse."""
    return cast(ToolResult, {**result, "content": sendable(result["content"])})


def replied(result: Mapping[str, Any], read: Result) -> ToolResult:
    """Return a tool result with the content that the model reads, without the members for programs."""
    kept = {key: value for key, value in result.items() if key not in _BESIDE}
    return cast(ToolResult, {**kept, "content": content_of(read)})


def content_of(read: Result | ToolReply) -> list[ToolResultContent]:
    """Return what the model reads as Strands' content: its own blocks unchanged, images and documents in its form."""
    if isinstance(read.content, str):
        return [{"text": sendable(read.content)}]
    return [_block(item) for item in read.content]


def usage_of(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a model's usage."""
    return {name: tokens for name, tokens in usage.items() if is_count(tokens)}


_WRAPPED: Final = "result"
"""Key by which MCP's SDKs wrap a value that is not an object."""


def _repeat(elements: list[Any], content: list[Any]) -> bool:
    """Tell whether the blocks are texts that repeat these elements one by one."""
    if len(elements) != len(content) or not all(block.keys() == {"text"} for block in content):
        return False
    for at in range(0, len(elements), MAX_ELEMENTS):
        part = elements[at : at + MAX_ELEMENTS]
        said = repeated({_WRAPPED: part}, [to_block(block["text"]) for block in content[at : at + MAX_ELEMENTS]])
        if said is None or len(said) < len(part):
            return False
    return True


def _block(item: Any) -> ToolResultContent:
    if isinstance(item, Mapping) and "type" not in item and not isinstance(item.get("text"), str):
        return cast(ToolResultContent, item)
    piece = formats.one(item)
    if not isinstance(media := piece.block, Media):
        return {"text": sendable(item["text"] if isinstance(item.get("text"), str) else formats.to_json([item])[1:-1])}
    source: Any = {"bytes": media.data}
    if media.kind == "image" and media.format in _IMAGES:
        return {"image": {"format": cast(Any, media.format), "source": source}}
    if media.kind == "document" and media.format in _DOCUMENTS:
        name = re.sub(r"[^\w\-()\[\] ]+", "-", media.name or "document", flags=re.ASCII)[:200]
        return {"document": {"format": cast(Any, media.format), "name": name, "source": source}}
    return {"text": media.placeholder}
