"""Text to bytes and back."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final

from byref.jsonscan.chunks import sizes

_SEARCHED: Final = 1 << 16
"""Bytes from which on it is worth its while to hand a search over to another library."""


def pieces(text: str) -> Iterator[str]:
    """Yield text in pieces."""
    for at in range(0, len(text), sizes.CHUNK):
        yield text[at : at + sizes.CHUNK]


def joined(parts: Iterable[str]) -> str:
    """Return the parts as one text.

    CPython lengthens a string in place where nothing else refers to it; `str.join` would copy all of them at once.
    """
    text = ""
    for part in parts:
        text += part
    return text


def encode(text: str) -> bytes:
    """Return text in UTF-8; raise UnicodeEncodeError for a lone surrogate."""
    if len(text) <= (sizes.COPIED if text.isascii() else sizes.BIG):
        return text.encode()
    return b"".join([piece.encode() for piece in pieces(text)])  # which gives the lock back, unlike `str.join`


def size(text: str) -> int:
    """Return how many bytes text has in UTF-8."""
    return len(text) if text.isascii() else sum(len(piece.encode("utf-8", "surrogatepass")) for piece in pieces(text))


def decode(data: bytes, errors: str = "strict") -> str:
    """Return UTF-8 as text; raise UnicodeDecodeError, unless `errors` is "replace"."""
    if len(data) <= sizes.BIG:
        return data.decode("utf-8", errors)
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    return joined(decoder.decode(data[at : at + sizes.CHUNK], at + sizes.CHUNK >= len(data)) for at in _steps(data))


def unbroken(data: bytes) -> str:
    """Return UTF-8 as text without its line feeds."""
    if len(data) <= sizes.COPIED:
        return data.replace(b"\n", b"").decode()
    decoder = codecs.getincrementaldecoder("utf-8")()
    return joined(decoder.decode(data[at : at + sizes.CHUNK].replace(b"\n", b"")) for at in _steps(data))


def line_feeds(data: bytes) -> int:
    """Return how many line feeds there are."""
    if len(data) <= sizes.COPIED and data.find(b"\n") < 0:  # finding none is faster than counting them
        return 0
    return sum(data.count(b"\n", at, at + sizes.CHUNK) for at in _steps(data))


def holds(data: bytes, word: bytes) -> bool:
    """Tell whether the word is in the data."""
    return word in data if len(data) < _SEARCHED else _search(word)(data) is not None


@cache
def _search(word: bytes) -> Callable[[bytes], object]:
    """RE2 finds a word several times as fast as `bytes.find`, and without the lock."""
    import re2

    return re2.compile(re2.escape(word)).search  # type: ignore[no-any-return]


def _steps(data: bytes) -> range:
    return range(0, len(data), sizes.CHUNK)
