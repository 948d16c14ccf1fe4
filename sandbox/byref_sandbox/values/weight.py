"""How much memory JSON will take as Python's objects, estimated from its text before any object is made.

A text of three bytes becomes an object of sixty, so a bound on the bytes of a reply does not bound the memory of its values. The
estimate counts brackets, commas, colons and quotes, a slice of the text at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_PARTS: Final = 8_000_000
"""Arrays, objects and other values that one JSON value may consist of."""
_ROUGH: Final = 8
"""A rough estimate, which takes a third of the time, is good enough up to this part of what is allowed."""
_SLICE: Final = 1 << 18
_COUNTED: Final = 1 << 22
_ARRAY: Final = 96
_OBJECT: Final = 176
_MEMBER: Final = 40
"""Bytes of a member's place in its object, with the free places beside it."""
_ELEMENT: Final = 10
"""Bytes of an element's place in its array, with the free places beside it."""
_NUMBER: Final = 32
_TEXT: Final = 64
_SHARED_KEYS: Final = 256
"""The decoder makes one object of a key that it has met lately. So up to so many different keys share their objects."""
_KEY: Final = re.compile(rb'"([ !#-\[\]-~]{0,32})"[ \t\n\r]{0,8}:')
_MARKS: Final = (b"[", b"{", b",", b":", b'"')
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ASTRAL: Final = bytes(range(0xF0, 0x100))
_WIDE: Final = bytes(range(0xC4, 0x100))


def has_too_many_parts(data: bytes, most: int = MAX_PARTS) -> bool:
    """Whether JSON has more than `most` arrays, objects and other values. Marks inside texts do not count."""
    if data.startswith(b'"') or _parts(data) <= most:
        return False
    parts = 0
    for outside, _ in _slices(data):
        parts += _parts(outside)
        if parts > most:
            return True
    return False


def is_nested_deeper(data: bytes, levels: int) -> bool:
    """Whether JSON has more than `levels` levels of arrays and objects. Between `levels` and twice as many the answer may be either."""
    left = b""
    for outside, _ in _slices(data):
        left += outside.translate(None, _NO_BRACKETS)
        for _ in range(levels):
            inner = left.replace(b"[]", b"").replace(b"{}", b"")
            if len(inner) == len(left):
                break
            left = inner
        else:
            return True
        if len(left) > levels:
            return True
    return False


def decoded_bytes(data: bytes, most: int) -> int:
    """Estimate the bytes that the objects of JSON take; it is rarely too low. Beyond `most` the answer may be any larger number."""
    arrays, objects, commas, colons, quotes = (_count(data, mark) for mark in _MARKS)
    width = width_of(data)
    crude = _Marks(arrays, objects, commas, colons, quotes, width * len(data))
    if (weight := crude.weight(shared_keys=0)) <= most // _ROUGH:
        return weight
    # The marks may be those of a text that is itself JSON or CSV, so they are counted anew outside of texts.
    exact = _Marks(0, 0, 0, 0, 0, 0)
    for outside, texts in _slices(data):
        exact = exact.with_slice(outside, texts, width)
    if (weight := exact.weight(shared_keys=0)) <= most or exact.weight(shared_keys=exact.colons) > most:
        return weight
    return exact.weight(shared_keys=_shared_keys(data))


def width_of(data: bytes) -> int:
    """Return the most bytes that a character of these texts takes: one wide character makes all others of its text as wide."""
    return 4 if _has_escape(data) else max(map(_width, _cut(data)), default=1)


def _width(text: bytes) -> int:
    if b"\\u" in text:
        return 4
    return 1 if text.isascii() else 4 if _has(text, _ASTRAL) else 2 if _has(text, _WIDE) else 1


def _has_escape(data: bytes) -> bool:
    return any(data.find(b"\\u", at, at + _COUNTED + 1) >= 0 for at in range(0, len(data), _COUNTED))


@dataclass(frozen=True, slots=True)
class _Marks:
    """How often each mark occurs, and the bytes that the characters of texts and numbers take."""

    arrays: int
    objects: int
    commas: int
    colons: int
    quotes: int
    characters: int

    def weight(self, *, shared_keys: int) -> int:
        # Of n members or elements all but one have a comma before them.
        values = self.commas + 1
        texts = max(self.quotes // 2 - self.colons, 0)
        elements = max(self.commas + self.arrays + self.objects - self.colons, 0)
        return (
            _ARRAY * self.arrays
            + _OBJECT * self.objects
            + _MEMBER * self.colons
            + _ELEMENT * elements
            + _TEXT * (texts + self.colons - shared_keys)
            + _NUMBER * max(values - texts, 0)
            + self.characters
        )

    def with_slice(self, outside: bytes, texts: list[bytes], width: int) -> _Marks:
        characters = len(outside) + sum(map(len, texts)) * width
        if width > 1:  # the first and the last may be parts of longer ones, of which others are wide
            characters -= sum(len(text) * (width - _width(text)) for text in texts[1:-1])
        return _Marks(
            self.arrays + outside.count(b"["),
            self.objects + outside.count(b"{"),
            self.commas + outside.count(b","),
            self.colons + outside.count(b":"),
            self.quotes + 2 * len(texts),
            self.characters + characters,
        )


def _parts(data: bytes) -> int:
    return sum(_count(data, mark) for mark in (b"[", b"{", b","))


def _count(data: bytes, mark: bytes) -> int:
    """Count a mark, in pieces: other threads get their turn in between."""
    return sum(data.count(mark, at, at + _COUNTED) for at in range(0, len(data), _COUNTED))


def _has(text: bytes, wanted: bytes) -> bool:
    return len(text) > len(text.translate(None, wanted))


def _cut(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _SLICE] for at in range(0, len(data), _SLICE))


def _slices(data: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield for one slice after the other what is outside of texts, and the texts, without their escaped quotes."""
    at, is_inside = 0, False
    while at < len(data):
        slice_ = data[at : at + _SLICE]
        at += len(slice_)
        if (len(slice_) - len(slice_.rstrip(b"\\"))) & 1:  # what is escaped comes with the backslash
            slice_ += data[at : at + 1]
            at += 1
        if b"\\" in slice_:
            slice_ = slice_.replace(b"\\\\", b"x").replace(b'\\"', b"x")
        pieces = slice_.split(b'"')
        yield b"".join(pieces[is_inside::2]), pieces[not is_inside :: 2]
        is_inside ^= not len(pieces) & 1


def _shared_keys(data: bytes) -> int:
    """Count the keys that share their objects: there are few different ones, and all are short."""
    known: set[bytes] = set()
    count = 0
    for piece in _cut(data):
        found = _KEY.findall(piece)
        count += len(found)
        known.update(found)
        if len(known) > _SHARED_KEYS:
            return 0
    return count
