"""JSON text to its value."""

from __future__ import annotations

import re
from collections.abc import Callable
from json import JSONDecoder
from json import decoder as json_decoder
from typing import Any, Final, NamedTuple

import msgspec

from byref.jsonscan.chunks import sizes
from byref_sandbox import jsontext

_DEEP: Final = 32
"""Levels that are entered; a member further down is parsed whole."""
_TRIES: Final = 3
"""Places that are tried for the end of one slice."""

_space = re.compile(r"[ \t\n\r]*").match
_closing = re.compile(r'["}\]]*\Z').search
_opening = re.compile(r'[{\[]*(?:"[^"\\]{0,64}"(?=[ \t\n\r]*:)|")?').match
_string_part = re.compile(
    r'[^"\\]*+(?:(?:\\u[dD][89abAB]\w\w(?:\\u[dD][c-fC-F]\w\w|(?=.{6}))|\\u(?![dD][89abAB])\w{4}|\\[^u])[^"\\]*+)*+',
    re.DOTALL,
).match
"""As much of a string as does not end within an escape, or between the two that make one character."""
_scanstring: Callable[[str, int, bool], tuple[str, int]] = vars(json_decoder)["scanstring"]
_decode = msgspec.json.Decoder().decode


def parse(text: str, data: bytes) -> object:
    """Return the value of JSON text, of which `data` is the UTF-8, as `jsontext.decode` does; raise NotJSON."""
    if len(text) > sizes.BIG and not jsontext.is_too_deep(data):
        try:
            return _Reader(text).read()
        except (ValueError, IndexError, StopIteration, RecursionError):
            pass  # parsed whole, it is either of another form or no JSON, and then the error says where
    return jsontext.decode(data)


def parse_chunked(text: str) -> object:
    """Return the value of JSON text that is read slice by slice or not at all; raise NotJSON."""
    try:
        return _Reader(text).read()
    except (ValueError, IndexError, StopIteration, RecursionError) as error:
        raise jsontext.NotJSON("the text is no JSON, or of a form that is not read in slices") from error


class _Sliced(NamedTuple):
    members: Any
    end: int
    """Where the next member begins; or where what they are members of ends."""
    is_last: bool


class _Reader:
    """Reads one text member by member, and where members are small, slice by slice.

    A slice ends where the text looks as it does between the first two members. That may be a place inside a string or
    further down, but then the slice is no list of members: what precedes it was read to the end of a member, and JSON
    read from there has one reading only.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._scan: Callable[[str, int], tuple[Any, int]] = vars(JSONDecoder())["scan_once"]
        self._spare = len(text)
        """Characters that may be read in vain, so that no text takes more than twice its time."""

    def read(self) -> object:
        value, end = self._entered(self._skip(0), 0)
        if self._skip(end) != len(self._text):
            raise ValueError("extra data")
        return value

    def _skip(self, at: int) -> int:
        while True:
            found = _space(self._text, at, at + sizes.CHUNK)
            assert found is not None
            if found.end() < at + sizes.CHUNK:
                return found.end()
            at = found.end()

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        """Return a value and where it ends; one that is too long for a window is entered."""
        for window in sizes.WINDOWS:
            if self._spare < window:
                return self._scan(self._text, at)
            try:
                value, end = self._scan(self._text[at : at + window], 0)
            except (ValueError, StopIteration):
                self._spare -= window
            else:
                if end < window:  # a number may go on behind it
                    return value, at + end
        return self._entered(at, depth)

    def _entered(self, at: int, depth: int) -> tuple[Any, int]:
        match self._text[at]:
            case "[" if depth < _DEEP:
                return self._array(at, depth)
            case "{" if depth < _DEEP:
                return self._object(at, depth)
            case '"':
                return self._string(at)
        return self._scan(self._text, at)

    def _string(self, at: int) -> tuple[str, int]:
        value, at = "", at + 1
        while True:
            found = _string_part(self._text, at, at + sizes.SLICE)
            assert found is not None
            end = found.end()
            has_ended = self._text[end] == '"'
            if end == at and not has_ended:
                raise ValueError("an escape or the end of the string was expected")
            value += _scanstring(f'{self._text[at:end]}"', 0, True)[0]
            if has_ended:
                return value, end + 1
            at = end

    def _array(self, at: int, depth: int) -> tuple[list[Any], int]:
        text, items = self._text, list[Any]()
        at = self._skip(at + 1)
        if text[at] == "]":
            return items, at + 1
        boundary, resume = None, at + sizes.WINDOWS[0]
        while True:
            if boundary is not None and at >= resume:
                sliced = self._slice("[", at, boundary, "]")
                if sliced is not None:
                    items += sliced.members
                    at = resume = sliced.end
                    if sliced.is_last:
                        return items, at
                    continue
                resume = at + sizes.SLICE
            begun = at
            value, end = self._value(at, depth + 1)
            items.append(value)
            at, has_ended = self._next(end, "]")
            if has_ended:
                return items, at
            if end - begun > sizes.SLICE:
                resume = at + sizes.SLICE  # what is next to so long a member may be as long
            elif boundary is None:
                opening = _opening(text, at)
                assert opening is not None
                boundary = self._boundary(end, at, opening[0])

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        text, members = self._text, dict[str, Any]()
        at = self._skip(at + 1)
        if text[at] == "}":
            return members, at + 1
        boundary, resume = None, at + sizes.WINDOWS[0]
        while True:
            if boundary is not None and at >= resume:
                sliced = self._slice("{", at, boundary, "}")
                if sliced is not None:
                    members |= sliced.members
                    at = resume = sliced.end
                    if sliced.is_last:
                        return members, at
                    continue
                resume = at + sizes.SLICE
            begun = at
            if text[at] != '"':
                raise ValueError("a key was expected")
            key, at = self._value(at, depth + 1)
            at = self._skip(at)
            if text[at] != ":":
                raise ValueError("a colon was expected")
            members[key], end = self._value(self._skip(at + 1), depth + 1)
            at, has_ended = self._next(end, "}")
            if has_ended:
                return members, at
            if end - begun > sizes.SLICE:
                resume = at + sizes.SLICE
            elif boundary is None:
                boundary = self._boundary(end, at, '"')

    def _next(self, at: int, closing: str) -> tuple[int, bool]:
        """Return where the next member begins, or the end of them all."""
        at = self._skip(at)
        if self._text[at] == closing:
            return at + 1, True
        if self._text[at] != ",":
            raise ValueError("a comma was expected")
        return self._skip(at + 1), False

    def _boundary(self, end: int, at: int, opening: str) -> tuple[str, int, int]:
        """Return the text from the end of one member to the beginning of the next, and where in it the two are."""
        closing = _closing(self._text[max(0, end - 8) : end])
        assert closing is not None
        first = len(closing[0])
        return closing[0] + self._text[end:at] + opening, first, first + at - end

    def _slice(self, before: str, at: int, boundary: tuple[str, int, int], after: str) -> _Sliced | None:
        """Return the members from `at` on to the next cut, or to the end of them all if that is nearer."""
        looks, end, beginning = boundary
        found = at + sizes.SLICE - 1
        for _ in range(_TRIES):
            found = self._text.find(looks, found + 1, at + 4 * sizes.SLICE)
            if found < 0 or self._spare < found - at:
                break
            try:
                members = _decode(f"{before}{self._text[at : found + end]}{after}")
            except (ValueError, RecursionError):
                self._spare -= found - at
            else:
                return _Sliced(members, found + beginning, False)
            if (ended := self._ending(before, at, found)) is not None:
                return ended
        return self._ending(before, at, at + sizes.SLICE) if found < 0 else None

    def _ending(self, before: str, at: int, end: int) -> _Sliced | None:
        """Return the members from `at` on if they end before `end`."""
        if self._spare < end - at:
            return None
        try:
            members, length = self._scan(f"{before}{self._text[at:end]}", 0)
        except (ValueError, StopIteration):
            self._spare -= end - at
            return None
        return _Sliced(members, at + length - 1, True)
