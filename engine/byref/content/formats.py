"""Content blocks as providers and frameworks write them, read into pieces and written again.

The known formats are those of OpenAI (Chat, Responses), Anthropic, MCP, Bedrock and Strands, and LangChain. Blocks may be dicts or
objects of their SDKs, and come alone, in lists, or inside a tool result. A block that cannot be stored (an image behind a URL, an
unknown type) stays as it is, as long as such blocks are small and few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from byref.content import plain, provenance, readers, structured
from byref.content.blocks import Block, to_block
from byref.content.media import Media
from byref.content.plain import from_json, to_json

__all__ = [
    "Piece",
    "from_json",
    "is_image",
    "one",
    "read",
    "replaced",
    "stated",
    "to_json",
    "write",
    "write_text",
]

MAX_BLOCKS: Final = 1_000
"""Maximum blocks of a list; a longer list is data, whatever its elements look like."""
MAX_UNTYPED: Final = 256
"""Maximum blocks of a list of `{"text": …}` only; a longer one is data, because records of one column look the same."""
MAX_UNKNOWN: Final = 8
"""Maximum blocks of unknown types in a list, and at most a quarter of it (or one); a list with more is data."""
MAX_ELSEWHERE: Final = 32
"""Maximum blocks of a list that only name an image or a file kept elsewhere; a list with more is data."""
MAX_UNREAD_BYTES: Final = 65_536
"""A block that cannot be read stays as it is up to this size as JSON; a larger one becomes text, its JSON, so that it is stored."""

_LOOKED_AT: Final = 8
"""Elements at the beginning of a list that are checked: if none of them may be a block, the list is data."""


@dataclass
class Piece:
    """A block, and the mapping in which it arrived."""

    block: Block | Media | None
    """The content; None if it cannot be stored."""
    original: Mapping[Any, Any] | None = None
    """The mapping; None if the output was not made of blocks."""

    @property
    def is_untyped(self) -> bool:
        """Whether its only key says its kind, as Bedrock and Strands write blocks."""
        return self.original is not None and "type" not in self.original

    @property
    def name(self) -> str | None:
        """The name of its content, as the block gives it."""
        return provenance.name(self.original) if self.original is not None else None

    @property
    def source(self) -> str | None:
        """Where its content is from, as the block says it, on one short line; None if it does not say it."""
        return provenance.words(self.original) if self.original is not None else None

    @cached_property
    def content(self) -> dict[str, Any]:
        """The block as the model gets it whole: JSON's types and bytes, equal to what `from_json` reads after `to_json`."""
        return _whole(self.original, self.block) or self._rewritten

    @property
    def _rewritten(self) -> dict[str, Any]:
        if isinstance(self.block, Block):
            return write_text(self.block.text, like=self)
        return write(self.block or to_block(self.original))


def read(output: object) -> tuple[list[Piece], bool] | None:
    """Return the blocks of an output and whether it says that it is an error; None if the output is data without blocks."""
    if isinstance(output, Mapping):
        return _of_mapping(output)
    if isinstance(output, list | tuple):
        pieces = _of_list(output)
        return None if pieces is None else (pieces, False)
    return _of_object(output)


def one(item: Any) -> Piece:
    """Return the piece of one item that is known to be a block, since `read` returned it earlier."""
    try:
        return _piece(item, readers.read(item, tolerant=True))
    except readers.NotABlock:
        return Piece(None, item)


def stated(items: Iterable[Any]) -> list[Piece | None]:
    """Return each item's block, or None if the item is data. The host said that the list holds the output's blocks."""
    pieces: list[Piece | None] = []
    elsewhere = 0
    for item in items:
        mapping = item if isinstance(item, Mapping) else _dumped(item)
        try:
            piece = None if mapping is None else _piece(mapping, readers.read(mapping, tolerant=mapping is not item))
        except readers.NotABlock:
            piece = None
        if piece is not None and piece.block is None:
            elsewhere += 1
            piece = _bounded(piece, as_text=elsewhere > MAX_ELSEWHERE)
        pieces.append(piece)
    return pieces


def write_text(text: str, *, like: Piece) -> dict[str, Any]:
    """Return text as a block in the format of another piece."""
    if like.is_untyped:
        return {"text": text}
    kind = str((like.original or {}).get("type", ""))
    if kind in ("input_text", "input_image", "input_file"):
        return {"type": "input_text", "text": text}
    return {"type": "output_text" if kind == "output_text" else "text", "text": text}


def replaced(piece: Piece, block: Block) -> Piece:
    """Return a piece with another block, in the same format."""
    if piece.original is None:
        return Piece(block)
    if _holds_json(piece.original) and block.parsed[0] == "json":
        return Piece(block, {**piece.original, "json": block.parsed[1]})
    return Piece(block, write_text(block.text, like=piece))


def is_image(item: Mapping[Any, Any]) -> bool:
    """Tell whether a block is an image, even if its bytes could not be read."""
    return "image" in str(item.get("type", "")) or "image" in item


def write(block: Block | Media) -> dict[str, Any]:
    """Return a block in the format of MCP, which `read` understands."""
    if isinstance(block, Block):
        return {"type": "text", "text": block.text}
    if block.kind == "image" or block.content_type.startswith("audio/"):
        return {
            "type": "image" if block.kind == "image" else "audio",
            "data": block.base64,
            "mimeType": block.content_type,
        }
    uri = f"byref:/{quote(block.name or 'document', safe='')}"
    return {"type": "resource", "resource": {"uri": uri, "mimeType": block.content_type, "blob": block.base64}}


# Tool results around blocks


def _of_mapping(output: Mapping[Any, Any]) -> tuple[list[Piece], bool] | None:
    """Read a tool result with blocks inside, or one image or document alone; None if the mapping is data."""
    if len(output) == 1 and isinstance(inner := output.get("toolResult"), Mapping):
        return _of_bedrock(inner)
    keys, kind = output.keys(), output.get("type")
    if kind == "tool_result" and {"tool_use_id"} <= keys <= _ANTHROPIC_RESULT:
        return _inside(output.get("content", ""), bool(output.get("is_error")))
    if kind == "function_call_output" and {"call_id", "output"} <= keys <= _RESPONSES_RESULT:
        return _inside(output["output"], is_error=False)
    if output.get("role") == "tool" and {"tool_call_id", "content"} <= keys <= _CHAT_RESULT:
        return _inside(output["content"], output.get("status") == "error")
    if keys & {"content", "structuredContent"} and keys <= _MCP_RESULT:
        return _of_mcp(output)
    if "toolUseId" in keys or output.get("status") in ("success", "error"):
        return _of_bedrock(output)
    try:
        alone = readers.read(output) if readers.is_known(kind) or len(output) == 1 else None
    except readers.NotABlock:
        return None
    return ([Piece(alone, output)], False) if isinstance(alone, Media) else None


_ANTHROPIC_RESULT: Final = {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}
_RESPONSES_RESULT: Final = {"type", "call_id", "output", "id", "status"}
_CHAT_RESULT: Final = {"role", "tool_call_id", "content", "name", "id", "status"}
_BEDROCK_RESULT: Final = {"toolUseId", "status", "content", "type"}
_MCP_RESULT: Final = {"content", "isError", "structuredContent", "_meta", "resultType"}


def _of_bedrock(output: Mapping[Any, Any]) -> tuple[list[Piece], bool] | None:
    if not output.keys() <= _BEDROCK_RESULT or not isinstance(output.get("content"), list):
        return None
    return _inside(output["content"], output.get("status") == "error")


def _of_mcp(output: Mapping[Any, Any]) -> tuple[list[Piece], bool] | None:
    content, structured_content = output.get("content", []), output.get("structuredContent")
    if not isinstance(content, list):
        return None
    if structured_content is not None or isinstance(output.get("isError"), bool):
        return _with_structured(content, structured_content, bool(output.get("isError")))
    if len(content) > MAX_BLOCKS and all(_text_of(item) is not None for item in content):
        return _inside(content, is_error=False)
    pieces = _of_list(content)
    return None if pieces is None else (pieces, False)


def _of_object(output: object) -> tuple[list[Piece], bool] | None:
    """Read a tool result of an SDK's own type, MCP's or LangChain's; None if the object is data."""
    if isinstance(output, type):
        return None
    if getattr(output, "inline_data", None) is not None and (part := _dumped(output)) is not None:
        return _of_mapping(part)
    content = getattr(output, "content", None)
    if not isinstance(content, list) and getattr(output, "is_error", None) is True:
        return _failed(output, content)
    if not isinstance(content, list | str):
        return None
    if hasattr(output, "tool_call_id"):
        return _inside(content, getattr(output, "status", None) == "error")
    if not isinstance(content, list):
        return None
    for flag, beside in (("isError", "structuredContent"), ("is_error", "structured_content")):
        if hasattr(output, flag) or hasattr(output, beside):
            return _with_structured(content, getattr(output, beside, None), bool(getattr(output, flag, False)))
    return None


def _failed(output: object, content: object) -> tuple[list[Piece], bool] | None:
    """Read what AutoGen and LlamaIndex make of a call that failed; their other results are data."""
    if isinstance(content, str) and (hasattr(output, "call_id") or hasattr(output, "tool_name")):
        return _inside(content, is_error=True)
    items = getattr(output, "result", None)
    if not isinstance(items, list) or len(items) > MAX_BLOCKS or not hasattr(output, "name"):
        return None
    texts = [getattr(item, "content", None) for item in items]
    return _inside("\n".join(text if isinstance(text, str) else to_block(text).text for text in texts), is_error=True)


def _inside(content: object, is_error: bool) -> tuple[list[Piece], bool] | None:
    if isinstance(content, str):
        return [Piece(to_block(content))], is_error
    if not isinstance(content, list):
        return None
    if len(content) > MAX_BLOCKS:
        held = _held(content)
        return None if held is None else ([_as_text(held)], is_error)
    pieces = _of_list(content, declared=True) if content else [Piece(to_block(""))]
    return None if pieces is None else (pieces, is_error)


def _held(content: list[Any]) -> list[Any] | None:
    """Return what the blocks of a long list hold, their texts as `_decoded`; None if one holds neither text nor JSON."""
    held: list[Any] = []
    for item in content:
        keys: set[Any] = set(item) if isinstance(item, Mapping) and len(item) == 1 else set()
        text = item["text"] if keys == {"text"} else _text_of(item)
        if keys == {"json"}:
            held.append(item["json"])
        elif isinstance(text, str):
            held.append(_decoded(text))
        else:
            return None
    return held


def _decoded(text: str) -> Any:
    """Return the value if the text is JSON, else the text itself."""
    kind, value = to_block(text).parsed
    return value if kind == "json" else text


def _with_structured(content: list[Any], value: object, is_error: bool) -> tuple[list[Piece], bool] | None:
    """Return MCP's blocks with its structured content, without texts that repeat that content.

    SDKs wrap a value that is not an object into one, and turn each element of a list into a text.
    """
    if value is None:
        return _inside(content, is_error) or _unknown(content, is_error)
    wrapped = value if isinstance(value, Mapping) else {_WRAPPED: value}
    if content and (whole := structured.elements(wrapped, [_text_of(item) for item in content])) is not None:
        data = to_block(whole if _WRAPPED in wrapped else value)
        return [Piece(data, {"type": "text", "text": data.text})], is_error
    data = to_block(value)
    if not content:
        return [Piece(data)], is_error
    pieces, _ = _inside(content, is_error) or _unknown(content, is_error) or ([_as_text(content)], is_error)
    repeats = structured.repeated(wrapped, [piece.block for piece in pieces])
    if repeats is None:
        return pieces, is_error
    beside = [piece for at, piece in enumerate(pieces) if at not in repeats]
    return [*beside, Piece(data, {"type": "text", "text": data.text})], is_error


def _unknown(content: list[Any], is_error: bool) -> tuple[list[Piece], bool] | None:
    """Return a list of blocks that all have unknown types, unchanged; None if the list is data."""
    if len(content) > MAX_BLOCKS or not all(isinstance(item, Mapping) and _may_be_unknown(item) for item in content):
        return None
    pieces = [_bounded(Piece(None, item), as_text=at >= MAX_UNKNOWN) for at, item in enumerate(content)]
    return pieces, is_error


def _text_of(item: Any) -> str | None:
    """Return the text of an MCP text block; None for any other item."""
    if isinstance(item, Mapping):
        kind, text = item.get("type"), item.get("text")
    else:
        kind, text = getattr(item, "type", None), getattr(item, "text", None)
    return text if kind == "text" and isinstance(text, str) else None


def _as_text(content: list[Any]) -> Piece:
    text = to_block(to_block(content).text)
    return Piece(text, {"type": "text", "text": text.text})


_WRAPPED: Final = "result"
"""The key under which MCP's SDKs wrap a value that is not an object."""


# Lists of blocks


def _of_list(items: Sequence[Any], *, declared: bool = False) -> list[Piece] | None:
    """Return the blocks of a list; None if it is data. For most lists the first elements decide that at no cost.

    A list inside a tool result is `declared` to hold blocks: its strings are texts, and an item that cannot stay as it is becomes
    text, its JSON.
    """
    if not 0 < len(items) <= MAX_BLOCKS or not any(map(_may_be_block, items if declared else items[:_LOOKED_AT])):
        return None
    pieces: list[Piece] = []
    known = unknown = elsewhere = 0
    for item in items:
        mapping = item if isinstance(item, Mapping) else _dumped(item)
        if mapping is None:
            if not declared:
                return None
            text = to_block(item).text
            pieces.append(Piece(to_block(text), {"type": "text", "text": text}))
            continue
        try:
            piece = _piece(mapping, readers.read(mapping, tolerant=declared or mapping is not item))
            known, elsewhere = known + 1, elsewhere + (piece.block is None)
        except readers.NotABlock:
            if not declared and not _may_be_unknown(mapping):
                return None
            piece, unknown = Piece(None, mapping), unknown + 1
        too_many = unknown > MAX_UNKNOWN or elsewhere > MAX_ELSEWHERE
        if too_many and not declared:
            return None
        pieces.append(_bounded(piece, as_text=too_many) if piece.block is None else piece)
    if not known:
        return None
    return pieces if declared or not _are_records(pieces, unknown) else None


def _are_records(pieces: Sequence[Piece], unknown: int) -> bool:
    if unknown > max(1, len(pieces) // 4):
        return True
    return len(pieces) > MAX_UNTYPED and all(piece.is_untyped and isinstance(piece.block, Block) for piece in pieces)


def _may_be_block(item: object) -> bool:
    if isinstance(item, Mapping):
        return readers.is_known(item["type"]) if "type" in item else len(item) == 1 and readers.is_untyped(*item)
    if not callable(getattr(type(item), "model_dump", None)):
        return False
    return readers.is_known(getattr(item, "type", None)) or getattr(item, "inline_data", None) is not None


def _may_be_unknown(item: Mapping[Any, Any]) -> bool:
    """Tell whether the item may be a block of a type newer than byref. With a known type but other keys, it is data."""
    if "type" in item:
        return isinstance(item["type"], str) and not readers.is_known(item["type"])
    return len(item) == 1 and not readers.is_untyped(*item)


def _dumped(item: Any) -> Mapping[Any, Any] | None:
    """Return an SDK's block as the dict that the SDK sends; None for an object without `model_dump`."""
    if not callable(getattr(type(item), "model_dump", None)):
        return None
    dumped = item.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped if isinstance(dumped, Mapping) else None


def _piece(item: Mapping[Any, Any], block: Block | Media | None) -> Piece:
    """Return a piece. JSON inside it is kept as the block read it, because an iterator in the original is exhausted now."""
    if isinstance(block, Block) and _holds_json(item):
        return Piece(block, {**item, "json": block.value if block.from_value else block.text})
    return Piece(block, item)


def _bounded(piece: Piece, *, as_text: bool) -> Piece:
    """Return a block that cannot be read: unchanged if it is small and plain, else as text, its JSON."""
    written = to_block(piece.original)
    if not as_text and written.size <= MAX_UNREAD_BYTES and type(written.value) is dict:
        whole = plain.normalised(written.value)
        if whole is not None:
            return Piece(None, whole)
    text = to_block(written.text)
    return Piece(text, write_text(text.text, like=piece))


def _whole(item: Mapping[Any, Any] | None, block: Block | Media | None) -> dict[str, Any] | None:
    """Return a block as it arrived, as plain data; None if it did not arrive as a block, or nests too deeply."""
    if item is None:
        return None
    if not isinstance(block, Block) or not _holds_json(item):
        return plain.normalised(item)
    beside = plain.normalised({key: member for key, member in item.items() if key != "json"})
    value = plain.value_of(block)
    return None if beside is None or value is None else {**beside, "json": value[0]}


def _holds_json(item: Mapping[Any, Any]) -> bool:
    return "json" in item and item.get("type", "json") == "json"
