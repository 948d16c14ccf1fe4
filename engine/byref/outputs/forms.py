"""Content blocks as providers and frameworks write them, read into blocks and written for a provider.

Known are those of OpenAI (Chat, Responses), Anthropic, MCP, Bedrock and Strands, and LangChain, as dicts or as objects of
their SDKs, alone, in lists, or in a tool result around them. What is known but cannot be stored (an image behind a URL, a
type that nobody knows) stays as it is.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from byref.outputs import media
from byref.outputs.blocks import Block, to_block
from byref.outputs.media import Media

MAX_BLOCKS: Final = 1_000
"""A longer list is data, whatever its elements look like."""
MAX_UNTYPED: Final = 256
"""A longer list of `{"text": …}` alone is data: records of one column look like that, too."""

_LOOKED_AT: Final = 8
_MARK: Final = "$bytes"

_TEXTS: Final = ("text", "input_text", "output_text")
_BESIDE_TEXT: Final = {"type", "text", "annotations", "cache_control", "citations", "_meta", "meta", "logprobs", "id"}
_TYPES: Final = {
    *_TEXTS,
    *("image", "image_url", "input_image", "document", "file", "input_file", "audio", "input_audio"),
    *("resource", "resource_link", "search_result", "tool_reference", "json"),
}
_UNTYPED: Final = ("text", "json", "image", "document", "video", "audio")


@dataclass
class Piece:
    """A block, and the form in which it came."""

    block: Block | Media | None
    """None: it cannot be stored."""
    original: Any = None
    """As it came; None where the output was no list of blocks."""

    @property
    def is_untyped(self) -> bool:
        """Whether it came as Bedrock and Strands write blocks: by its only key."""
        return isinstance(self.original, Mapping) and "type" not in self.original


def read(output: object) -> tuple[list[Piece], bool] | None:
    """Return the blocks that an output is made of and whether it says that it is an error; None if it is just data."""
    if isinstance(output, Mapping):
        return _of_mapping(output)
    if isinstance(output, list | tuple):
        pieces = _of_list(output)
        return None if pieces is None else (pieces, False)
    return _of_object(output)


def write_text(text: str, *, like: Piece) -> dict[str, Any]:
    """Return text as a block in the form of another."""
    return {"text": text} if like.is_untyped else {"type": "text", "text": text}


def replaced(piece: Piece, block: Block) -> Piece:
    """Return a piece with another block, in the same form."""
    if piece.original is None:
        return Piece(block)
    if "json" in piece.original and block.parsed[0] == "json":
        return Piece(block, {**piece.original, "json": block.parsed[1]})
    return Piece(block, write_text(block.text, like=piece))


def is_image(item: Mapping[Any, Any]) -> bool:
    """Tell whether a block that could not be read is an image all the same."""
    return "image" in str(item.get("type", "")) or "image" in item


def write(block: Block | Media) -> dict[str, Any]:
    """Return a block in the form of MCP, which `read` reads again."""
    if isinstance(block, Block):
        return {"type": "text", "text": block.text}
    if block.kind == "image":
        return {"type": "image", "data": block.base64, "mimeType": block.content_type}
    uri = f"byref:/{quote(block.name or 'document', safe='')}"
    return {"type": "resource", "resource": {"uri": uri, "mimeType": block.content_type, "blob": block.base64}}


def _of_mapping(output: Mapping[Any, Any]) -> tuple[list[Piece], bool] | None:
    """A tool result with blocks inside, or one image or document alone."""
    if "toolResult" in output and len(output) == 1 and isinstance(output["toolResult"], Mapping):
        output = output["toolResult"]
    keys = output.keys()
    if "type" in keys and output["type"] == "tool_result" and "content" in keys:
        return _inside(output["content"], bool(output.get("is_error")))
    if "type" in keys and output["type"] == "function_call_output" and "output" in keys:
        return _inside(output["output"], False)
    if "tool_call_id" in keys and output.get("role") == "tool" and "content" in keys:
        return _inside(output["content"], False)
    if isinstance(output.get("content"), list) and output["content"]:
        if keys <= {"toolUseId", "status", "content"} and len(output) > 1:
            return _inside(output["content"], output.get("status") == "error")
        if keys <= {"content", "isError", "structuredContent", "_meta", "resultType"}:
            found = _inside(output["content"], bool(output.get("isError")))
            return None if found is None else (_structured(found[0], output.get("structuredContent")), found[1])
    if keys <= {"content", "isError", "structuredContent", "_meta"} and isinstance(
        output.get("structuredContent"), Mapping
    ):
        return [Piece(to_block(output["structuredContent"]))], bool(output.get("isError"))
    alone = _read(output)
    return ([alone], False) if alone is not None and not isinstance(alone.block, Block) and alone.block else None


def _of_object(output: object) -> tuple[list[Piece], bool] | None:
    """A tool result of an SDK's own type: MCP's, LangChain's."""
    content = getattr(output, "content", None)
    if not isinstance(content, list | str) or isinstance(output, type):
        return None
    if hasattr(output, "tool_call_id"):
        return _inside(content, getattr(output, "status", None) == "error")
    if not isinstance(content, list):
        return None
    for flag, structured in (("isError", "structuredContent"), ("is_error", "structured_content")):
        if hasattr(output, flag) or hasattr(output, structured):
            found = _inside(content, bool(getattr(output, flag, False)))
            return None if found is None else (_structured(found[0], getattr(output, structured, None)), found[1])
    return None


def _inside(content: object, is_error: bool) -> tuple[list[Piece], bool] | None:
    if isinstance(content, str):
        return [Piece(to_block(content))], is_error
    if not isinstance(content, list):
        return None
    pieces = _of_list(content) if content else [Piece(to_block(""), [])]
    return None if pieces is None else (pieces, is_error)


def _of_list(items: Sequence[Any]) -> list[Piece] | None:
    """Blocks, if all are; the first ones tell most data apart at no cost."""
    if not 0 < len(items) <= MAX_BLOCKS or not any(map(_may_be_block, items[:_LOOKED_AT])):
        return None
    pieces: list[Piece] = []
    for item in items:
        mapping = item if isinstance(item, Mapping) else _dumped(item)
        if mapping is None:
            return None
        piece = _read(mapping)
        if piece is None:
            if not _may_be_unknown(mapping):
                return None
            piece = Piece(None, mapping)
        pieces.append(piece)
    if len(items) > MAX_UNTYPED and all(piece.is_untyped and isinstance(piece.block, Block) for piece in pieces):
        return None
    return pieces if any(_read(piece.original) is not None for piece in pieces) else None


def _may_be_block(item: object) -> bool:
    if isinstance(item, Mapping):
        if "type" in item:
            return isinstance(item["type"], str) and item["type"] in _TYPES
        return len(item) == 1 and next(iter(item)) in _UNTYPED
    return getattr(item, "type", None) in _TYPES and callable(getattr(item, "model_dump", None))


def _may_be_unknown(item: Mapping[Any, Any]) -> bool:
    """Whether it may be a block of a type that is new: one that looks like a known type and is not is data."""
    kind = item.get("type")
    return isinstance(kind, str) and kind not in _TYPES if "type" in item else len(item) == 1


def _dumped(item: Any) -> Mapping[Any, Any] | None:
    """An SDK's block as the dict that it is on the wire."""
    if not callable(getattr(type(item), "model_dump", None)):
        return None
    dumped = item.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped if isinstance(dumped, Mapping) else None


def _structured(pieces: list[Piece], structured: object) -> list[Piece]:
    """MCP's structured content beside texts that say something else, in place of those that say parts of it.

    Servers repeat it as text: as JSON of all of it, of its only member, or of one element after the other.
    """
    if not isinstance(structured, Mapping):
        return pieces
    inner = list(structured.values()) if len(structured) == 1 else []
    elements = [element for member in inner if isinstance(member, list) for element in member]
    texts = [piece for piece in pieces if isinstance(piece.block, Block)]
    if any(isinstance(piece.block, Block) and _says(piece.block, [structured, *inner]) for piece in texts):
        return pieces
    repeats = [piece for piece in texts if isinstance(piece.block, Block) and _says(piece.block, elements)]
    data = to_block(structured)
    beside = [piece for piece in pieces if piece not in repeats]
    return [*beside, Piece(data, {"type": "text", "text": data.text})]


def _says(block: Block, values: Sequence[object]) -> bool:
    """Tell whether a text is one of the values, or its JSON."""
    kind, value = block.parsed
    if kind == "json":
        return value in values
    return block.text in values or any(block.text == str(each) for each in values if type(each) in (int, float, bool))


def _read(item: Mapping[Any, Any]) -> Piece | None:
    """One block; None if it has no form of one."""
    if not isinstance(item, Mapping):
        return None
    kind = item.get("type")
    if kind is None:
        return _untyped(item)
    if not isinstance(kind, str) or kind not in _TYPES:
        return None
    if kind in _TEXTS:
        text = item.get("text")
        return Piece(to_block(text), item) if isinstance(text, str) and item.keys() <= _BESIDE_TEXT else None
    if kind == "json":
        return Piece(to_block(item["json"]), item) if item.keys() == {"type", "json"} else None
    return _media(kind, item)


def _media(kind: str, item: Mapping[Any, Any]) -> Piece | None:
    """An image or a file; without a block where its bytes are elsewhere."""
    if kind in ("image_url", "input_image"):
        url = item.get("image_url")
        url = url.get("url") if isinstance(url, Mapping) else url
        return _from_url(item, url) if isinstance(url, str) or "file_id" in item else None
    if kind in ("file", "input_file") and "base64" not in item and "mime_type" not in item:
        file = item.get("file", item)
        if not isinstance(file, Mapping) or not {"file_data", "file_id", "file_url"} & file.keys():
            return None
        return _from_url(item, file.get("file_data"), file.get("filename"))
    if kind == "resource":
        return _resource(item, item.get("resource"))
    if kind in ("resource_link", "search_result", "tool_reference"):
        return Piece(None, item)
    if isinstance(source := item.get("source"), Mapping):
        return _anthropic(item, source)
    for key in ("data", "base64"):  # MCP, LangChain
        if isinstance(item.get(key), str | bytes):
            content_type = item.get("mimeType", item.get("mime_type", item.get("media_type")))
            return _of_bytes(item, item[key], content_type, item.get("filename"))
    return Piece(None, item) if isinstance(item.get("url"), str) or isinstance(item.get("file_id"), str) else None


def _anthropic(item: Mapping[Any, Any], source: Mapping[Any, Any]) -> Piece:
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        return Piece(to_block(source["data"]), item)
    if source.get("type") != "base64":
        return Piece(None, item)
    return _of_bytes(item, source.get("data"), source.get("media_type"), item.get("title", item.get("name")))


def _resource(item: Mapping[Any, Any], resource: object) -> Piece | None:
    if not isinstance(resource, Mapping) or not isinstance(resource.get("uri"), str):
        return None
    if isinstance(resource.get("text"), str):
        return Piece(to_block(resource["text"]), item)
    return _of_bytes(
        item, resource.get("blob"), resource.get("mimeType"), unquote(resource["uri"].rstrip("/").split("/")[-1])
    )


def _from_url(item: Mapping[Any, Any], url: object, name: object = None) -> Piece:
    found = media.data_url(url)
    return Piece(None if found is None else media.of(found[0], found[1], name), item)


def _of_bytes(item: Mapping[Any, Any], text: object, content_type: object, name: object = None) -> Piece:
    data = media.decoded(text)
    return Piece(None if data is None else media.of(content_type, data, name), item)


def _untyped(item: Mapping[Any, Any]) -> Piece | None:
    """Bedrock's and Strands' blocks have one key, which says what they are."""
    if len(item) != 1:
        return None
    [(kind, inner)] = item.items()
    if kind == "text":
        return Piece(to_block(inner), item) if isinstance(inner, str) else None
    if kind == "json":
        return Piece(to_block(inner), item)
    if kind not in _UNTYPED or not isinstance(inner, Mapping) or not isinstance(inner.get("source"), Mapping):
        return None
    format = inner.get("format")
    said = f"{kind}/{format}" if kind in ("image", "video", "audio") else format
    return _of_bytes(item, inner["source"].get("bytes"), said, inner.get("name"))


def to_json(content: Sequence[Any]) -> str:
    """Return content as JSON text; bytes, which Strands' blocks hold, are marked."""
    return to_block(_marked(content)).text


def from_json(text: str) -> list[Any]:
    """Return what `to_json` wrote."""
    return list(_unmarked(json.loads(text)))


def _marked(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {_MARK: b64encode(value).decode()}
    if isinstance(value, Mapping):
        # An object that looks like a mark has another dollar.
        return {f"${key}" if str(key).endswith(_MARK) else key: _marked(member) for key, member in value.items()}
    return [_marked(item) for item in value] if isinstance(value, list | tuple) else value


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        if _MARK in value:
            return b64decode(value[_MARK])
        return {key[1:] if key.endswith(_MARK) else key: _unmarked(member) for key, member in value.items()}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value
