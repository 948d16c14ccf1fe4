"""Big payloads encoded, parsed and freed in slices, so that other threads get their turn in between.

One call of a C function keeps the interpreter's lock until it returns: half a second for parsing 50 MB of JSON. A slice
takes a few milliseconds.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from json import JSONDecoder
from json import decoder as json_decoder
from typing import Any, Final

import msgspec

from byref_sandbox import jsontext

BIG: Final = 1 << 20
"""Characters or bytes beyond which slices are worth their while."""
SLICE: Final = 1 << 18
"""Characters parsed at once, at least; at most four times as many."""
CHUNK: Final = 1 << 20
"""Characters or bytes encoded or looked through at once."""
ITEMS: Final = 2048
"""Members encoded or freed at once."""

_DEEP: Final = 4
"""Levels of objects that are entered; a member further down is parsed whole."""
_ENTERED: Final = 256
"""Members of one object that are entered; in a map the values are small."""
_SHORT: Final = 4096
"""Characters of an array that are read element by element before it is cut: most arrays are short."""
_TRIES: Final = 3
_FAILURES: Final = 32
"""Cuts that may turn out to be in the wrong place, for one slice and in all, before no further one is tried."""

_space = re.compile(r"[ \t\n\r]*").match
_closing = re.compile(r'["}\]]*\Z').search
_opening = re.compile(r'[{\[]*(?:"[^"\\]{0,64}"(?=[ \t\n\r]*:)|")?').match
_scanstring: Callable[[str, int, bool], tuple[str, int]] = vars(json_decoder)["scanstring"]
_decode = msgspec.json.Decoder().decode


def encode(text: str) -> bytes:
    """Return text in UTF-8; raise UnicodeEncodeError for a lone surrogate."""
    if len(text) <= BIG:
        return text.encode()
    return b"".join([text[at : at + CHUNK].encode() for at in range(0, len(text), CHUNK)])


def decode(data: bytes) -> str:
    """Return UTF-8 as text; raise UnicodeDecodeError."""
    if len(data) <= BIG:
        return data.decode()
    decoder = codecs.getincrementaldecoder("utf-8")()
    pieces = [decoder.decode(data[at : at + CHUNK]) for at in range(0, len(data), CHUNK)]
    return "".join([*pieces, decoder.decode(b"", final=True)])


def unbroken(data: bytes) -> str:
    """Return UTF-8 as text without its line feeds."""
    pieces, at = [], 0
    while at < len(data):
        end = data.find(b"\n", at + CHUNK) + 1 or len(data)
        pieces.append(data[at:end].replace(b"\n", b"").decode())
        at = end
    return "".join(pieces)


def line_feeds(data: bytes) -> int:
    """Return how many line feeds there are."""
    return sum(data.count(b"\n", at, at + CHUNK) for at in range(0, len(data), CHUNK))


def holds(data: bytes, word: bytes) -> bool:
    """Tell whether the word is in the data."""
    return any(data.find(word, at, at + CHUNK + len(word)) >= 0 for at in range(0, len(data), CHUNK))


def parse(text: str, data: bytes) -> object:
    """Return the value of JSON text, of which `data` is the UTF-8, as `jsontext.decode` does; raise NotJSON."""
    if len(text) > BIG:
        try:
            return _Reader(text).read()
        except (ValueError, IndexError, StopIteration, RecursionError):
            pass  # parsed whole, it is either of another form or no JSON, and then the error says where
    return jsontext.decode(data)


def free(value: object, depth: int = 0) -> None:
    """Empty the big lists and objects in a value that nobody needs any more: freeing millions at once takes its time."""
    if type(value) is list:
        while len(value) > ITEMS:
            del value[-ITEMS:]
    elif type(value) is dict and depth < _DEEP:
        while len(value) > ITEMS:
            value.popitem()
        for member in value.values():
            free(member, depth + 1)


class _Reader:
    """Reads one text, array by array.

    A slice of an array ends where the text looks as it does between the first two elements. That may be a place inside a
    string or further down, but then the slice is no list of JSON values: what precedes it was read to the end of an
    element, and JSON read from there has one reading only.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._scan: Callable[[str, int], tuple[Any, int]] = vars(JSONDecoder())["scan_once"]
        self._failures = 0

    def read(self) -> object:
        value, end = self._value(self._skip(0), 0)
        if self._skip(end) != len(self._text):
            raise ValueError("extra data")
        return value

    def _skip(self, at: int) -> int:
        found = _space(self._text, at)
        assert found is not None
        return found.end()

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        match self._text[at]:
            case "[":
                return self._array(at)
            case "{" if depth < _DEEP:
                return self._object(at, depth)
        return self._scan(self._text, at)

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        text, members = self._text, dict[str, Any]()
        at = self._skip(at + 1)
        if text[at] == "}":
            return members, at + 1
        while True:
            if text[at] != '"':
                raise ValueError("a key was expected")
            key, at = _scanstring(text, at + 1, True)
            at = self._skip(at)
            if text[at] != ":":
                raise ValueError("a colon was expected")
            at = self._skip(at + 1)
            members[key], at = self._value(at, depth + 1) if len(members) < _ENTERED else self._scan(text, at)
            at, ended = self._next(at, "}")
            if ended:
                return members, at

    def _array(self, at: int) -> tuple[list[Any], int]:
        text, items = self._text, list[Any]()
        at = self._skip(at + 1)
        if text[at] == "]":
            return items, at + 1
        boundary, resume = None, at + _SHORT
        while True:
            if boundary is not None and at >= resume:
                cut = self._slice(items, at, boundary)
                resume = at + SLICE
                if cut is not None:
                    at = resume = cut
            value, end = self._scan(text, at)
            items.append(value)
            at, ended = self._next(end, "]")
            if ended:
                return items, at
            if boundary is None:
                boundary = self._boundary(end, at)

    def _next(self, at: int, closing: str) -> tuple[int, bool]:
        """Return where the next member begins, or the end of them all."""
        at = self._skip(at)
        if self._text[at] == closing:
            return at + 1, True
        if self._text[at] != ",":
            raise ValueError("a comma was expected")
        return self._skip(at + 1), False

    def _boundary(self, end: int, at: int) -> tuple[str, int, int]:
        """Return the text from the end of one element to the beginning of the next, and where in it the two are."""
        closing, opening = _closing(self._text[max(0, end - 8) : end]), _opening(self._text, at)
        assert closing is not None
        assert opening is not None
        first = len(closing[0])
        return closing[0] + self._text[end:at] + opening[0], first, first + at - end

    def _slice(self, items: list[Any], at: int, boundary: tuple[str, int, int]) -> int | None:
        """Add the elements from `at` on to the next cut and return where the one after them begins."""
        looks, end, beginning = boundary
        found = at + SLICE - 1
        for _ in range(min(_TRIES, _FAILURES - self._failures)):
            found = self._text.find(looks, found + 1, at + 4 * SLICE)
            if found < 0:
                break
            try:
                items += _decode(f"[{self._text[at : found + end]}]")
            except (ValueError, RecursionError):
                self._failures += 1
            else:
                return found + beginning
        return None
