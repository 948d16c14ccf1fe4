"""JSON text to its value, chunk by chunk, so that other threads get their turn in between.

A parser written in C keeps the interpreter's lock until it returns: for half a second where the text has 50 MB. Here it is
called for 256 KiB at a time, which takes some milliseconds.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from typing import Any, Final

from byref.jsonscan import chunks
from byref_sandbox import jsontext

_SIZE: Final = 1 << 18
"""Bytes of a chunk, about. It is more only where that many have no comma outside of strings."""
_LONG: Final = 1 << 20
"""Bytes from which on a string is decoded piece by piece."""
_SPARE: Final = 1 << 20
"""Bytes that may be parsed twice, because a guess where to cut was wrong. A right guess adds an eighth of its chunk."""
_WINDOW: Final = 1 << 12
"""Bytes at the end of a block that are searched for a comma first; eight times as many where there is none, and so on."""
_ROUNDS: Final = 4
"""How often pairs of brackets are removed, the innermost first, before each of the others is looked at in Python."""
_NO_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"'))

# A string may end with the text, because a block may end within one. Possessive quantifiers: these never backtrack.
_marks = re.compile(rb'[\[\]{},]|"(?:[^"\\]++|\\.)*+(?:(")|\\?\Z)', re.DOTALL).finditer
_quoted = re.compile(rb'"[^"]*"').sub
_in_string = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL).match
_closing = re.compile(rb'["}\]]*\Z').search
_opening = {
    True: re.compile(rb'[ \t\n\r]*[{\[]*(?:"[^"\\]{0,64}"(?=[ \t\n\r]*:)|")?').match,
    False: re.compile(rb'[ \t\n\r]*"').match,
}


def parse(data: bytes) -> object:
    """Return the value of JSON text in UTF-8, as `jsontext.decode` does; raise NotJSON."""
    if len(data) > chunks.BIG:
        try:
            return parse_chunked(data)
        except jsontext.NotJSON:
            pass  # parsed whole, it is of a form that chunks are not for, or the error says where it stops being JSON
    return jsontext.decode(data)


def parse_chunked(data: bytes) -> object:
    """Return the value of JSON text that is read chunk by chunk or not at all; raise NotJSON, which does not say where.

    Refused is, beside what is no JSON, text that has 256 KiB without a comma outside of strings.
    """
    try:
        with jsontext.collector_paused():
            return _Reader(data).read()
    except (ValueError, RecursionError) as error:
        raise jsontext.NotJSON("the text is no JSON, or of a form that is not read in chunks") from error


class _Reader:
    """Reads one text, once.

    A chunk ends behind a comma that is in no string. It is parsed between a prefix, which opens the arrays and objects that
    the chunk begins in, and a suffix, which closes those that it ends in. Both have a member of their own next to the cut: a
    comma has a member on either side of it, and without these `[1,` and `]` would pass, though `[1,]` is no JSON. So each
    chunk is JSON if and only if the text is.

    Example: `[{"a": 1, "b": [2, 3]}]` may be cut behind `2,`. Its chunks are parsed as `[0,[{"a": 1, "b": [2,LAST]}]]` and as
    `[[{FIRST:[0, 3]}]]`; the outermost array is our own. What is read of the second is added to the arrays and objects that
    were open at the end of the first, level by level.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data.removeprefix(b"\xef\xbb\xbf")
        self._at = 0
        """Where the next chunk begins."""
        self._values: list[Any] = []
        """Our own array around the text. If it has more than one element in the end, text went on behind the value."""
        self._open: list[Any] = [self._values]
        """The arrays and objects that are open at the last cut, each in the one before, as far as they were read."""
        secret = secrets.token_hex(8)  # no key and no string of the text is like that, because nobody else knows it
        self._first, self._last = f"{secret} first", f"{secret} last"
        self._boundary = b""
        """The text around the last cut that was looked for; the text at another one is likely to be the same."""
        self._before = 0
        """How much of that is before the cut."""
        self._spare: float = _SPARE
        """Bytes that may still be parsed twice."""

    def read(self) -> object:
        while len(self._data) - self._at > _SIZE:
            if not self._guess():
                self._scan()
        if self._at < len(self._data) or not self._values:
            self._add(len(self._data), 1, [])
        (value,) = self._values
        return value

    def _guess(self) -> bool:
        """Read a chunk that ends where the text is as it was at the last cut, in the same array or object; False if none does.

        Records are cut so: to look for a few bytes costs nothing. The place may be wrong, in a string or at another level. Then
        the chunk is not a list of members and does not parse: JSON can be read in one way only from where a member begins.
        """
        if not self._boundary or self._spare < 0:
            return False
        found = self._data.find(self._boundary, self._at + _SIZE, min(self._at + 2 * _SIZE, len(self._data) - 1))
        if found < 0:
            return False
        end = found + self._before
        inner, text = self._open[-1], self._data[self._at : end - 1]
        is_array = type(inner) is list
        try:
            members: Any = jsontext.decode(b"[%s]" % text if is_array else b"{%s}" % text)
        except jsontext.NotJSON:
            self._spare -= end - self._at
            return False
        if not members:
            raise ValueError("two commas have a member between them")
        if is_array:
            inner += members
        else:
            inner |= members
        self._spare += (end - self._at) / 8
        self._at = end
        return True

    def _scan(self) -> None:
        """Read a chunk that ends at a comma outside of strings, which is found by the quotes and brackets of the text."""
        at, closed, opened, strings = self._at, 0, list[bool](), list[tuple[int, int]]()
        cut, outside = None, 0
        while cut is None and at < len(self._data):
            block = self._data[at : at + _SIZE]
            comma, quote, leading_out, kinds = _structure(block)
            closed += max(leading_out - len(opened), 0)
            opened = opened[: max(len(opened) - leading_out, 0)] + kinds
            if comma is not None:
                cut = at + comma
            elif quote is not None:
                start, at = at + quote, self._end_of_string(at + quote)
                if at - start > _LONG:
                    strings.append((start, at))
            else:
                at += len(block)
            # Text without commas would be looked through in Python, mark by mark; JSON has such text in strings only.
            outside += len(block) if quote is None else quote
            if cut is None and outside > _SIZE:
                raise ValueError("a comma was expected")
        if cut is None:
            self._add(len(self._data), 1, [], strings)
            return
        if closed >= len(self._open):
            raise ValueError("more is closed than was opened")
        self._add(cut + 1, len(self._open) - closed, opened, strings)
        closing, opening = (
            _closing(self._data[cut - 8 : cut]),
            _opening[type(self._open[-1]) is list](self._data, cut + 1),
        )
        assert closing is not None
        self._boundary = closing[0] + self._data[cut : opening.end()] if opening else b""
        self._before = len(closing[0]) + 1

    def _end_of_string(self, start: int) -> int:
        """Return where a string ends that begins with the quote there."""
        at = start + 1
        while True:
            block = self._data[at : at + _SIZE]
            if (len(block) - len(block.rstrip(b"\\"))) & 1:
                block = block[:-1]  # it ends within an escape
            if not block:
                raise ValueError("the end of a string was expected")
            if b'"' in _without_escapes(block):
                found = _in_string(block)
                assert found is not None
                return at + found.end() + 1
            at += len(block)

    def _add(self, end: int, kept: int, opened: list[bool], strings: Sequence[tuple[int, int]] = ()) -> None:
        """Parse the chunk that ends there, and add it to what was read before.

        At its end the first `kept` of the arrays and objects that are open at its beginning are still so, and in the last of
        them further ones: `opened`, True for an array. `strings` says where its long strings begin and end.
        """
        first, last = json.dumps(self._first).encode(), json.dumps(self._last).encode()
        parts = [b"[" if type(one) is list else b"{%s:" % first for one in self._open]
        parts.append(b"0,")
        decoded = dict[str, str]()
        for start, stop in strings:
            name = f"{self._first} {start}"
            decoded[name] = chunks.joined(jsontext.pieces(self._data[start:stop]))
            parts += (self._data[self._at : start], json.dumps(name).encode())
            self._at = stop
        parts.append(self._data[self._at : end])
        kinds = [type(one) is list for one in self._open[:kept]] + opened
        if end < len(self._data):
            parts.append(last if kinds[-1] else b"%s:0" % last)
        parts += (b"]" if is_array else b"}" for is_array in reversed(kinds))
        self._at = end
        read: Any = jsontext.decode(b"".join(parts))
        if decoded:
            read = _with_strings(read, decoded)
        for one in self._open:
            if type(one) is list:
                inner = read[0]
                del read[0]
                one += read
            else:
                inner = read.pop(self._first)
                one |= read
            read = inner
        del self._open[kept:]
        if end < len(self._data):
            path = self._path(self._open[-1], opened)
            if path is None:
                raise ValueError("the chunk ends in nothing that is open")
            self._open += path
            inner = self._open[-1]
            inner.pop() if type(inner) is list else inner.popitem()

    def _path(self, above: Any, opened: Sequence[bool]) -> list[Any] | None:
        """Return the arrays and objects, each in the one before, at whose end the suffix closed them; None if there are none.

        In an array that is the last element, in an object nearly always the last member; but a key that is there twice has
        kept its first place.
        """
        if not opened:
            return [] if self._last in (above[-1:] if type(above) is list else above) else None
        for below in above[-1:] if type(above) is list else reversed(above.values()):
            if type(below) is (list if opened[0] else dict):
                path = self._path(below, opened[1:])
                if path is not None:
                    return [below, *path]
        return None


def _structure(block: bytes) -> tuple[int | None, int | None, int, list[bool]]:
    """Return where a block, which begins outside of strings, may be cut, and what its brackets before that place do.

    - Where a comma is that is in no string, or None: of those in the last few thousand bytes the last of the least deep, for
      the text around these is likely to come again.
    - If there is none, where a string begins that goes on behind the block, or None.
    - How many brackets close what was open before the block, and what those without a partner open, True for an array.
    """
    marks = _without_escapes(block).translate(None, _NO_MARKS)
    ends_in_string = marks.count(b'"') & 1
    brackets: bytes = _quoted(b"", marks.replace(b'""', b"") + b'"' * ends_in_string)
    window, start = _WINDOW, len(block)
    comma = quote = None
    while comma is None and start:
        start = len(block[: max(len(block) - window, 0)].rstrip(b"\\"))  # not within an escape
        begins_in_string = ends_in_string ^ (_without_escapes(block[start:]).count(b'"') & 1)
        depth = least = behind = 0
        for found in _marks(b'"' * begins_in_string + block[start:]):
            mark, at = found[0][:1], start + found.start() - begins_in_string
            if mark == b",":
                if comma is None or depth <= least:
                    comma, least, behind = at, depth, 0
            elif mark != b'"':
                depth += 1 if mark in b"[{" else -1
                behind += 1
            elif found[1] is None:
                quote = at
        window *= 8
    leading_out, opened = _unpaired(brackets if comma is None else brackets[: len(brackets) - behind])
    return comma, quote, leading_out, opened


def _unpaired(brackets: bytes) -> tuple[int, list[bool]]:
    """Return how many close what is open before them, and what others open that stays open, True for an array."""
    for _ in range(_ROUNDS):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    leading_out, opened = 0, list[bool]()
    for bracket in brackets:
        if bracket in b"[{":
            opened.append(bracket == ord("["))
        elif opened:
            opened.pop()
        else:
            leading_out += 1
    return leading_out, opened


def _without_escapes(text: bytes) -> bytes:
    """Return JSON text without escaped backslashes and quotes: each quote that is left begins or ends a string."""
    return text.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in text else text


def _with_strings(value: Any, strings: dict[str, str]) -> Any:
    """Return a value with long strings in the places of their names."""
    if type(value) is str:
        return strings.get(value, value)
    if type(value) is list:
        return [_with_strings(item, strings) for item in value]
    if type(value) is dict:
        return {_with_strings(key, strings): _with_strings(member, strings) for key, member in value.items()}
    return value
