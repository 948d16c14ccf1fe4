"""The formats of content blocks: the keys of each, and the function that reads its text or bytes.

A mapping is a block only if all its keys are known, because a tool's own records may have a `type`, a `url` or a `text`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from byref.content import media
from byref.content.blocks import Block, to_block
from byref.content.media import Media

Found = Block | Media | None
"""The content of a block; None if it is stored elsewhere (a URL, a file id), or if its bytes cannot be read."""


class NotABlock(ValueError):
    """The mapping does not have the format of any known block."""


class BlockFormat(NamedTuple):
    """One format of a block that has a `type`."""

    needs: frozenset[str]
    """Keys that the block must have, besides `type`."""
    keys: frozenset[str]
    """All keys that the block may have."""
    read: Callable[[Mapping[Any, Any]], Found]
    """Reads the block's content. Raises NotABlock if the values under the keys have other types than the format's."""


def is_known(kind: object) -> bool:
    """Tell whether blocks of this `type` have a known format."""
    return isinstance(kind, str) and kind in _TYPED


def is_untyped(kind: object) -> bool:
    """Tell whether this key makes a block that has it alone, as Bedrock and Strands write blocks."""
    return isinstance(kind, str) and kind in _UNTYPED


def read(item: Mapping[Any, Any], *, tolerant: bool = False) -> Found:
    """Return the content of a block; raise NotABlock if the mapping is not a block.

    `tolerant` accepts unknown keys, since providers add some. Use it only where the mapping is certain to be a block.
    """
    kind = item.get("type")
    if kind is None:
        return _read_untyped(item)
    if not isinstance(kind, str) or not isinstance(item.get("id"), str | None):
        raise NotABlock
    keys = item.keys()
    for known in _TYPED.get(kind, ()):
        if known.needs <= keys and (tolerant or keys <= known.keys):
            return known.read(item)
    raise NotABlock


def _read_untyped(item: Mapping[Any, Any]) -> Found:
    if len(item) != 1:
        raise NotABlock
    [(kind, inner)] = item.items()
    if not is_untyped(kind):
        raise NotABlock
    keys, reader = _UNTYPED[kind]
    if keys is not None and not _mapping(inner).keys() <= keys:
        raise NotABlock
    return reader(item)


# Blocks with a `type`


def _format(needs: str, more: str, read: Callable[[Mapping[Any, Any]], Found]) -> BlockFormat:
    needed = frozenset(needs.split())
    return BlockFormat(needed, needed | {"type"} | frozenset(more.split()), read)


def _text(item: Mapping[Any, Any]) -> Found:
    return to_block(_string(item["text"]))


def _json(item: Mapping[Any, Any]) -> Found:
    return to_block(item["json"])


def _sourced(item: Mapping[Any, Any]) -> Found:
    """Read Anthropic's `source`."""
    source = _mapping(item["source"])
    match source.get("type"):
        case "base64" if source.keys() <= {"type", "media_type", "data"}:
            return _bytes(source.get("data"), source.get("media_type"), item.get("title", item.get("name")))
        case "text" if item["type"] == "document":
            return to_block(_string(source.get("data")))
        case "content" if item["type"] == "document":
            return _texts(source.get("content"))
        case "url" | "file" if source.keys() <= {"type", "url", "file_id", "media_type"}:
            return None
    raise NotABlock


def _data(item: Mapping[Any, Any]) -> Found:
    """Read the `data` of MCP's blocks and of LangChain's older ones."""
    content_type = next((item[key] for key in _MEDIA_TYPES if key in item), None)
    if not isinstance(item["data"], str | bytes) or not (isinstance(content_type, str) or item["type"] == "image"):
        raise NotABlock
    return _bytes(item["data"], content_type, item.get("filename"))


def _base64(item: Mapping[Any, Any]) -> Found:
    """Read LangChain's `base64`."""
    return _bytes(_string(item["base64"]), item.get("mime_type"), item.get("filename"))


def _url(item: Mapping[Any, Any]) -> Found:
    return _at(_string(item["url"]), item.get("filename"))


def _image_url(item: Mapping[Any, Any]) -> Found:
    """Read the images of both of OpenAI's APIs."""
    url = item.get("image_url")
    if isinstance(url, Mapping) and url.keys() <= {"url", "detail"}:
        url = url.get("url")
    if url is None and isinstance(item.get("file_id"), str):
        return None
    return _at(_string(url))


def _file(item: Mapping[Any, Any]) -> Found:
    """Read the files of both of OpenAI's APIs: their data is a data URL, or bare base64."""
    file = _mapping(item.get("file", item))
    if file is not item and not file.keys() <= {"file_data", "file_id", "filename", "format", "detail"}:
        raise NotABlock
    name = file.get("filename")
    if isinstance(data := file.get("file_data"), str):
        content_type = name.rpartition(".")[2] if isinstance(name, str) and "." in name else file.get("format")
        return _at(data, name) if data[:5].lower() == "data:" else _bytes(data, content_type, name)
    _string(file.get("file_id", file.get("file_url")))
    return None


def _input_audio(item: Mapping[Any, Any]) -> Found:
    audio = _mapping(item["input_audio"])
    if not audio.keys() <= {"data", "format"}:
        raise NotABlock
    return _bytes(_string(audio.get("data")), f"audio/{_string(audio.get('format', 'wav'))}")


def _resource(item: Mapping[Any, Any]) -> Found:
    """Read MCP's embedded resource."""
    resource = _mapping(item["resource"])
    uri = str(resource.get("uri", ""))
    if not uri or not resource.keys() <= _RESOURCE:
        raise NotABlock
    if isinstance(resource.get("text"), str):
        return to_block(resource["text"])
    return _bytes(_string(resource.get("blob")), resource.get("mimeType"), unquote(uri.rstrip("/").split("/")[-1]))


def _search_result(item: Mapping[Any, Any]) -> Found:
    _string(item["source"])
    return _texts(item["content"])


def _elsewhere(_: Mapping[Any, Any]) -> Found:
    return None


def _named(key: str) -> Callable[[Mapping[Any, Any]], Found]:
    """Return a reader of blocks whose content is elsewhere; their `key` must hold its name as a string."""

    def read_name(item: Mapping[Any, Any]) -> Found:
        _string(item[key])
        return None

    return read_name


# Blocks with a single key


def _bare_media(item: Mapping[Any, Any]) -> Found:
    """Read an image, a document, audio or video of Bedrock and Strands."""
    [(kind, inner)] = item.items()
    source, format = _mapping(inner.get("source")), inner.get("format")
    if "bytes" in source:
        content_type = format if kind == "document" else f"{kind}/{format}"
        return _bytes(source["bytes"], content_type, inner.get("name"))
    if kind == "document" and "text" in source:
        return to_block(_string(source["text"]))
    if kind == "document" and "content" in source:
        return _texts(source["content"])
    if source.keys() & {"s3Location", "location"}:
        return None
    raise NotABlock


def _bare_search_result(item: Mapping[Any, Any]) -> Found:
    return _texts(item["searchResult"].get("content"))


def _inline_data(item: Mapping[Any, Any]) -> Found:
    """Read the bytes of Gemini's parts, in either spelling."""
    [inner] = item.values()
    return _bytes(inner.get("data"), inner.get("mime_type", inner.get("mimeType")))


def _guarded(item: Mapping[Any, Any]) -> Found:
    inner = item["guardContent"]
    if "text" in inner:
        return to_block(_string(_mapping(inner["text"]).get("text")))
    return _bare_media({"image": _mapping(inner.get("image"))})


# Values inside blocks


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise NotABlock
    return value


def _mapping(value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise NotABlock
    return value


def _texts(content: object) -> Found:
    """Return the texts of the blocks inside a block, joined; None if one of them is not a text."""
    if isinstance(content, str):
        return to_block(content)
    if not isinstance(content, Sequence):
        raise NotABlock
    found = [read(_mapping(item), tolerant=True) if _has_type(item) else None for item in content]
    texts = [block.text for block in found if isinstance(block, Block)]
    return to_block("\n\n".join(texts)) if len(texts) == len(found) else None


def _has_type(item: object) -> bool:
    """Tell whether the item is a text block. Others are not read here: they may hold blocks again, to any depth."""
    if not isinstance(item, Mapping):
        raise NotABlock
    return item.get("type", "text") in _TEXTS and "text" in item


def _at(url: str, name: object = None) -> Found:
    found = media.data_url(url)
    return None if found is None else media.of(found[0], found[1], name)


def _bytes(text: object, content_type: object, name: object = None) -> Found:
    data = media.decoded(text)
    return media.of(content_type, data, name) if data else None


_TEXTS: Final = ("text", "input_text", "output_text")
_MEDIA_TYPES: Final = ("mimeType", "mime_type", "media_type", "mediaType")
_RESOURCE: Final = frozenset({"uri", "mimeType", "text", "blob", "name", "title", "size", "_meta", "meta"})

_LANGCHAIN: Final = "mime_type filename id index extras metadata source_type cache_control"
_TEXT: Final = _format(
    "text",
    "annotations cache_control citations prompt_cache_breakpoint _meta meta logprobs id index extras",
    _text,
)
_MEDIA: Final = (
    _format("data", f"{' '.join(_MEDIA_TYPES)} {_LANGCHAIN} annotations _meta meta", _data),
    _format("base64", _LANGCHAIN, _base64),
    _format("url", _LANGCHAIN, _url),
    _format("file_id", _LANGCHAIN, _named("file_id")),
)
_TYPED: Final[dict[str, tuple[BlockFormat, ...]]] = {
    **dict.fromkeys(_TEXTS, (_TEXT,)),
    "text-plain": (_format("text", f"{_LANGCHAIN} title context", _text),),
    "json": (_format("json", "", _json),),
    "image": (_format("source", "cache_control transformations", _sourced), *_MEDIA),
    "audio": _MEDIA,
    "video": _MEDIA,
    "document": (_format("source", "title name context citations cache_control", _sourced), *_MEDIA),
    "file": (_format("file", "cache_control prompt_cache_breakpoint", _file), *_MEDIA),
    "image_url": (_format("image_url", "cache_control prompt_cache_breakpoint", _image_url),),
    "input_image": (_format("", "image_url file_id detail prompt_cache_breakpoint", _image_url),),
    "input_file": (_format("", "file_data file_id file_url filename detail prompt_cache_breakpoint", _file),),
    "input_audio": (_format("input_audio", "cache_control", _input_audio),),
    "resource": (_format("resource", "annotations _meta meta", _resource),),
    "resource_link": (
        _format("uri name", "title description mimeType size icons annotations _meta meta", _named("uri")),
    ),
    "search_result": (_format("source title content", "citations cache_control", _search_result),),
    "tool_reference": (_format("tool_name", "cache_control", _elsewhere),),
}
_SHOWN: Final = frozenset({"format", "source", "error"})
_UNTYPED: Final[dict[str, tuple[frozenset[str] | None, Callable[[Mapping[Any, Any]], Found]]]] = {
    "text": (None, _text),
    "json": (None, _json),
    **dict.fromkeys(("image", "audio", "video"), (_SHOWN, _bare_media)),
    "document": (frozenset({"format", "name", "source", "context", "citations"}), _bare_media),
    **dict.fromkeys(
        ("inline_data", "inlineData"),
        (frozenset({"data", "mime_type", "mimeType", "display_name", "displayName"}), _inline_data),
    ),
    "searchResult": (frozenset({"source", "title", "content", "citations"}), _bare_search_result),
    "guardContent": (frozenset({"text", "image"}), _guarded),
    "cachePoint": (frozenset({"type", "ttl"}), _elsewhere),
}
