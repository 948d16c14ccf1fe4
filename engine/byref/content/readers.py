"""The forms of content blocks: which keys each has, and how its text or its bytes are read.

A mapping is a block only if all its keys are known: records of a tool's own have a `type`, an `url` or a `text`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from byref.content import media
from byref.content.blocks import Block, to_block
from byref.content.media import Media

Found = Block | Media | None
"""What a block holds; None where that is elsewhere, or its bytes cannot be read."""


class NoForm(ValueError):
    """A mapping has the form of no known block."""


class Form(NamedTuple):
    """One way to write a block."""

    needs: frozenset[str]
    keys: frozenset[str]
    """All that it may have."""
    read: Callable[[Mapping[Any, Any]], Found]
    """Raises NoForm where what is under the keys is something else."""


def is_known(kind: object) -> bool:
    """Tell whether blocks of this `type` have a known form."""
    return isinstance(kind, str) and kind in _FORMS


def is_untyped(kind: object) -> bool:
    """Tell whether this is the only key of a block as Bedrock and Strands write them."""
    return isinstance(kind, str) and kind in _UNTYPED


def read(item: Mapping[Any, Any], *, tolerant: bool = False) -> Found:
    """Return what a block holds; raise NoForm where it is none.

    A tolerant reader takes unknown keys: for what is a block beyond doubt, so that a provider may add some.
    """
    kind = item.get("type")
    if kind is None:
        return _read_untyped(item)
    if not isinstance(kind, str) or not isinstance(item.get("id"), str | None):
        raise NoForm
    keys = item.keys()
    for form in _FORMS.get(kind, ()):
        if form.needs <= keys and (tolerant or keys <= form.keys):
            return form.read(item)
    raise NoForm


def _read_untyped(item: Mapping[Any, Any]) -> Found:
    if len(item) != 1:
        raise NoForm
    [(kind, inner)] = item.items()
    if not is_untyped(kind):
        raise NoForm
    keys, reader = _UNTYPED[kind]
    if keys is not None and not (isinstance(inner, Mapping) and inner.keys() <= keys):
        raise NoForm
    return reader(kind, inner)


# What has a type


def _form(needs: str, more: str, read: Callable[[Mapping[Any, Any]], Found]) -> Form:
    needed = frozenset(needs.split())
    return Form(needed, needed | {"type"} | frozenset(more.split()), read)


def _text(item: Mapping[Any, Any]) -> Found:
    return to_block(_string(item["text"]))


def _json(item: Mapping[Any, Any]) -> Found:
    return to_block(item["json"])


def _sourced(item: Mapping[Any, Any]) -> Found:
    """Anthropic's."""
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
    raise NoForm


def _data(item: Mapping[Any, Any]) -> Found:
    """MCP's, and LangChain's of old."""
    said = next((item[key] for key in _MEDIA_TYPES if key in item), None)
    if not isinstance(item["data"], str | bytes) or not (isinstance(said, str) or item["type"] == "image"):
        raise NoForm
    return _bytes(item["data"], said, item.get("filename"))


def _base64(item: Mapping[Any, Any]) -> Found:
    """LangChain's."""
    return _bytes(_string(item["base64"]), item.get("mime_type"), item.get("filename"))


def _url(item: Mapping[Any, Any]) -> Found:
    return _at(_string(item["url"]), item.get("filename"))


def _file_id(item: Mapping[Any, Any]) -> Found:
    _string(item["file_id"])
    return None


def _image_url(item: Mapping[Any, Any]) -> Found:
    """OpenAI's, of both APIs."""
    url = item.get("image_url")
    if isinstance(url, Mapping) and url.keys() <= {"url", "detail"}:
        url = url.get("url")
    if url is None and isinstance(item.get("file_id"), str):
        return None
    return _at(_string(url))


def _file(item: Mapping[Any, Any]) -> Found:
    """OpenAI's, of both APIs: a data URL, or base64 alone."""
    file = _mapping(item.get("file", item))
    if file is not item and not file.keys() <= {"file_data", "file_id", "filename", "format", "detail"}:
        raise NoForm
    name = file.get("filename")
    if isinstance(data := file.get("file_data"), str):
        said = name.rpartition(".")[2] if isinstance(name, str) and "." in name else file.get("format")
        return _at(data, name) if data[:5].lower() == "data:" else _bytes(data, said, name)
    _string(file.get("file_id", file.get("file_url")))
    return None


def _input_audio(item: Mapping[Any, Any]) -> Found:
    audio = _mapping(item["input_audio"])
    if not audio.keys() <= {"data", "format"}:
        raise NoForm
    return _bytes(_string(audio.get("data")), f"audio/{_string(audio.get('format', 'wav'))}")


def _resource(item: Mapping[Any, Any]) -> Found:
    """MCP's."""
    resource = _mapping(item["resource"])
    uri = str(resource.get("uri", ""))
    if not uri or not resource.keys() <= _RESOURCE:
        raise NoForm
    if isinstance(resource.get("text"), str):
        return to_block(resource["text"])
    return _bytes(_string(resource.get("blob")), resource.get("mimeType"), unquote(uri.rstrip("/").split("/")[-1]))


def _resource_link(item: Mapping[Any, Any]) -> Found:
    _string(item["uri"])
    return None


def _search_result(item: Mapping[Any, Any]) -> Found:
    _string(item["source"])
    return _texts(item["content"])


def _elsewhere(_: Mapping[Any, Any]) -> Found:
    return None


# What has one key


def _bare_text(_: str, inner: Any) -> Found:
    return to_block(_string(inner))


def _bare_json(_: str, inner: Any) -> Found:
    return to_block(inner)


def _bare_media(kind: str, inner: Mapping[Any, Any]) -> Found:
    """Of Bedrock and Strands."""
    source, format = _mapping(inner.get("source")), inner.get("format")
    if "bytes" in source:
        said = format if kind == "document" else f"{kind}/{format}"
        return _bytes(source["bytes"], said, inner.get("name"))
    if kind == "document" and "text" in source:
        return to_block(_string(source["text"]))
    if kind == "document" and "content" in source:
        return _texts(source["content"])
    if source.keys() & {"s3Location", "location"}:
        return None
    raise NoForm


def _bare_search_result(_: str, inner: Mapping[Any, Any]) -> Found:
    return _texts(inner.get("content"))


def _guarded(_: str, inner: Mapping[Any, Any]) -> Found:
    if "text" in inner:
        return to_block(_string(_mapping(inner["text"]).get("text")))
    return _bare_media("image", _mapping(inner.get("image")))


def _bare_elsewhere(_: str, inner: Mapping[Any, Any]) -> Found:
    return None


# What is inside


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise NoForm
    return value


def _mapping(value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise NoForm
    return value


def _texts(content: object) -> Found:
    """The texts of blocks inside a block; None where there are others among them."""
    if isinstance(content, str):
        return to_block(content)
    if not isinstance(content, Sequence):
        raise NoForm
    found = [read(_mapping(item), tolerant=True) if _has_type(item) else None for item in content]
    texts = [block.text for block in found if isinstance(block, Block)]
    return to_block("\n\n".join(texts)) if len(texts) == len(found) else None


def _has_type(item: object) -> bool:
    """Whether it is a text: other blocks hold blocks again."""
    if not isinstance(item, Mapping):
        raise NoForm
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
_TEXT: Final = _form(
    "text",
    "annotations cache_control citations prompt_cache_breakpoint _meta meta logprobs id index extras",
    _text,
)
_HELD: Final = (
    _form("data", f"{' '.join(_MEDIA_TYPES)} {_LANGCHAIN} annotations _meta meta", _data),
    _form("base64", _LANGCHAIN, _base64),
    _form("url", _LANGCHAIN, _url),
    _form("file_id", _LANGCHAIN, _file_id),
)
_FORMS: Final[dict[str, tuple[Form, ...]]] = {
    **dict.fromkeys(_TEXTS, (_TEXT,)),
    "text-plain": (_form("text", f"{_LANGCHAIN} title context", _text),),
    "json": (_form("json", "", _json),),
    "image": (_form("source", "cache_control transformations", _sourced), *_HELD),
    "audio": _HELD,
    "video": _HELD,
    "document": (_form("source", "title name context citations cache_control", _sourced), *_HELD),
    "file": (_form("file", "cache_control prompt_cache_breakpoint", _file), *_HELD),
    "image_url": (_form("image_url", "cache_control prompt_cache_breakpoint", _image_url),),
    "input_image": (_form("", "image_url file_id detail prompt_cache_breakpoint", _image_url),),
    "input_file": (_form("", "file_data file_id file_url filename detail prompt_cache_breakpoint", _file),),
    "input_audio": (_form("input_audio", "cache_control", _input_audio),),
    "resource": (_form("resource", "annotations _meta meta", _resource),),
    "resource_link": (
        _form("uri name", "title description mimeType size icons annotations _meta meta", _resource_link),
    ),
    "search_result": (_form("source title content", "citations cache_control", _search_result),),
    "tool_reference": (_form("tool_name", "cache_control", _elsewhere),),
}
_SHOWN: Final = frozenset({"format", "source", "error"})
_UNTYPED: Final[dict[str, tuple[frozenset[str] | None, Callable[[str, Any], Found]]]] = {
    "text": (None, _bare_text),
    "json": (None, _bare_json),
    **dict.fromkeys(("image", "audio", "video"), (_SHOWN, _bare_media)),
    "document": (frozenset({"format", "name", "source", "context", "citations"}), _bare_media),
    "searchResult": (frozenset({"source", "title", "content", "citations"}), _bare_search_result),
    "guardContent": (frozenset({"text", "image"}), _guarded),
    "cachePoint": (frozenset({"type", "ttl"}), _bare_elsewhere),
}
