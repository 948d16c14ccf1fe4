"""What a block says of where its content is from: a title, an address, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from byref.content.media import MAX_NAME_CHARS
from byref.errors import one_line

_TITLES: Final = ("title", "name", "filename")
_ADDRESSES: Final = ("uri", "source")
_HOLDERS: Final = ("resource", "searchResult", "document", "file")
"""Members of blocks that hold these members, in the forms of MCP, Bedrock and OpenAI."""
_BRACKETS: Final = str.maketrans("[]", "()")
"""Notices to the model stand in brackets, which no name is to end."""
_CHARS: Final = 120
"""Maximum characters of a title, and of an address, as a model reads them."""


def name(item: Mapping[Any, Any]) -> str | None:
    """Return the name of a block's content: its title, or the last part of its address; None for a search result, which is no file."""
    if item.get("type") == "search_result" or "searchResult" in item:
        return None
    found = _title(item) or unquote((_address(item) or "").rstrip("/").rpartition("/")[2])
    return found[:MAX_NAME_CHARS] or None


def words(item: Mapping[Any, Any]) -> str | None:
    """Return title and address on one line, each in at most 120 characters; None if a block gives neither."""
    title, address = _title(item), _address(item)
    if title and address and title not in unquote(address):
        return f"{_short(title)} ({_short(address)})"
    found = address or title
    return _short(found) if found else None


def _title(item: Mapping[Any, Any]) -> str | None:
    return _member(item, _TITLES)


def _address(item: Mapping[Any, Any]) -> str | None:
    return _member(item, _ADDRESSES)


def _member(item: Mapping[Any, Any], names: tuple[str, ...]) -> str | None:
    inner = next((item[key] for key in _HOLDERS if isinstance(item.get(key), Mapping)), item)
    return next((found for name in names if isinstance(found := inner.get(name), str) and found), None)


def _short(text: str) -> str:
    """Cut a text in its middle: an address tells most at its ends."""
    half = _CHARS // 2
    if len(text) > _CHARS:
        text = f"{text[:half]}…{text[1 - half :]}"
    return one_line(text.translate(_BRACKETS), 10 * _CHARS)
