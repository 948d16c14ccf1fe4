"""Parses JSON text chunk by chunk, so that other threads can run between two chunks.

A parser written in C keeps the interpreter's lock until it returns: half a second for 50 MB of text. Here it is called with
256 KiB at a time, which takes a few milliseconds. docs/decisions/parsing-in-chunks.md has the reasons and the costs.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from typing import Any, Final

from byref.jsonscan import chunks
from byref.jsonscan.marks import compiled
from byref_sandbox import jsontext

_SIZE: Final = 1 << 18
"""Approximate bytes of a chunk. A chunk is longer only if that many bytes have no comma outside of strings."""
_LONG: Final = 1 << 20
"""Bytes of a string above which it is decoded piece by piece."""
_SPARE: Final = 1 << 20
"""Bytes that may be parsed twice because a guess where to cut was wrong. A right guess adds an eighth of its chunk."""
_WINDOW: Final = 1 << 12
"""Bytes at the end of a block in which a comma is searched for first; eight times as many if there is none, and so on."""
_ROUNDS: Final = 4
"""How often adjacent pairs of brackets are removed, the innermost first, before the rest is walked through in Python."""
_FEW: Final = 1 << 13
"""Escapes that are removed one by one; of more, all are at once."""
_NO_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"'))

# A string may end with the text, because a block may end inside one. The quantifiers are possessive: they never backtrack, so
# hostile text cannot make them slow.
_marks = re.compile(rb'[\[\]{},]|"(?:[^"\\]++|\\.)*+(?:(")|\\?\Z)', re.DOTALL).finditer
_escapes = re.compile(rb'\\[\\"]').subn
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
            pass  # parsed whole below: either chunks do not fit its form, or the parser's error says where it stops being JSON
    return jsontext.decode(data)


def parse_chunked(data: bytes) -> object:
    """Return the value of JSON text, read chunk by chunk.

    Raises:
        NotJSON: the text is not JSON, or has 256 KiB without a comma outside of strings. The error does not say where.
    """
    try:
        with jsontext.collector_paused():
            return _Reader(data).read()
    except (ValueError, RecursionError) as error:
        raise jsontext.NotJSON("the text is no JSON, or of a form that is not read in chunks") from error


class _Reader:
    """Reads one text, once.

    A chunk ends behind a comma that is outside of strings. The chunk is parsed between a prefix, which opens the arrays and objects
    that it begins in, and a suffix, which closes those that it ends in. Prefix and suffix each contain a member of their own next
    to the cut, because a comma needs a member on both sides: without them `[1,` and `]` would pass, though `[1,]` is not JSON. So
    all chunks are JSON if and only if the text is.

    Example: `[{"a": 1, "b": [2, 3]}]` may be cut behind `2,`. The chunks are parsed as `[0,[{"a": 1, "b": [2,LAST]}]]` and as
    `[[{FIRST:[0, 3]}]]`; the outermost array is our own. The members of the second chunk are then added, level by level, to the
    arrays and objects that were open at the end of the first.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data.removeprefix(b"\xef\xbb\xbf")
        self._at = 0
        """Where the next chunk begins."""
        self._values: list[Any] = []
        """Our own array around the text. If it has more than one element in the end, there was text behind the value."""
        self._open: list[Any] = [self._values]
        """The arrays and objects that are open at the last cut, each inside the one before, with the members read so far."""
        # Whoever wrote the text cannot know this, so no key and no string of the text equals our own members.
        secret = secrets.token_hex(8)
        self._first, self._last = f"{secret} first", f"{secret} last"
        self._boundary = b""
        """The text around the last cut that `_scan` found; in a list of records it is likely to come again at the next cut."""
        self._before = 0
        """Bytes of `_boundary` that are before the cut."""
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
        """Read a chunk that ends where the text around the last cut comes again; return False if it does not come or is wrong.

        Records are cut this way, because a search for a few bytes costs next to nothing. The place may be wrong: inside a string,
        or at another level. Then the chunk is not a list of members and does not parse, because from the beginning of a member
        JSON can be read in one way only. What goes beyond the standard is left to `_scan`: a wrong guess is not read twice.
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
            members: Any = jsontext.decode_strict(b"[%s]" % text if is_array else b"{%s}" % text)
        except jsontext.NotJSON:
            self._spare -= end - self._at
            return False
        # The chunk begins behind a comma and ends at one. Without a member between them the text has two commas in a row.
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
        """Read a chunk that ends at a comma outside of strings, found by the quotes and brackets of the text."""
        # `closed` counts the brackets that close arrays and objects which were open at `self._at`; `opened` are those that the
        # chunk opens and leaves open, True for an array; `strings` are the places of long strings in the chunk.
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
            # Text without commas outside of strings would be walked through in Python, mark by mark. That would be slow, so it is
            # left to the parser.
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
        """Return the place behind the string whose opening quote is at `start`."""
        at = start + 1
        while True:
            block = self._data[at : at + _SIZE]
            if (len(block) - len(block.rstrip(b"\\"))) & 1:
                block = block[:-1]  # the block ends in the middle of an escape: its backslash belongs to the next block
            if not block:
                raise ValueError("the end of a string was expected")
            if b'"' in _without_escapes(block):
                found = _in_string(block)
                assert found is not None
                return at + found.end() + 1
            at += len(block)

    def _add(self, end: int, kept: int, opened: list[bool], strings: Sequence[tuple[int, int]] = ()) -> None:
        """Parse the chunk that ends at `end`, and add its members to the values read before.

        At its end the first `kept` of the arrays and objects in `_open` are still open, and inside the last of them further ones,
        `opened`: True for an array. `strings` are the beginnings and ends of its long strings.
        """
        first, last = json.dumps(self._first).encode(), json.dumps(self._last).encode()
        parts = [b"[" if type(one) is list else b"{%s:" % first for one in self._open]
        parts.append(b"0,")
        # A long string is decoded apart, piece by piece. A short secret takes its place in the text that the parser gets.
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
        # The prefix has put the continuation of each open array or object first in the value that continues the one around it.
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
            inner = self._open[-1]  # its last member is our own, from the suffix
            inner.pop() if type(inner) is list else inner.popitem()

    def _path(self, above: Any, opened: Sequence[bool]) -> list[Any] | None:
        """Return the arrays and objects that the suffix closed, each inside the one before; None if the chunk ends in none.

        In an array each is the last element, in an object nearly always the last member; but a key that occurs twice keeps its
        first place in a dict, so all members are tried, from the last to the first.
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
    """Return the place at which a block may be cut, and the effect of its brackets before that place.

    The block has to begin outside of strings. The four values are:

    - the place of a comma outside of strings, or None. Of the commas in the last few thousand bytes it is the last of the least
      deep ones, because the text around these is likely to come again;
    - the place of a string that goes on behind the block, or None;
    - the number of brackets that close what was open before the block;
    - the arrays (True) and objects (False) that the block opens and leaves open.

    `_marks.c` has the same in C, which in a block without a comma at its end takes the last one.
    """
    if compiled is not None:
        place, start, closed, opened_there = compiled.structure(block, _WINDOW)
        kinds = [bracket == ord("[") for bracket in opened_there]
        return None if place < 0 else place, None if start < 0 else start, closed, kinds
    # Each step is one operation of `bytes` on the whole block; a loop over its characters in Python would be far slower. First
    # only brackets and quotes are kept, then the strings between quotes are removed: brackets that are left are structure.
    marks = _without_escapes(block).translate(None, _NO_MARKS)
    ends_in_string = marks.count(b'"') & 1
    brackets: bytes = _quoted(b"", marks.replace(b'""', b"") + b'"' * ends_in_string)
    window, start = _WINDOW, len(block)
    comma = quote = None
    while comma is None and start:
        start = len(block[: max(len(block) - window, 0)].rstrip(b"\\"))  # so that no escape is cut in two
        # Strings are known from the block's end backwards: an odd number of quotes from here to a known state flips that state.
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
    """Return how many brackets close what was open before, and which arrays (True) and objects stay open."""
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
    """Remove escaped backslashes and escaped quotes from JSON text: every quote that is left begins or ends a string."""
    without, count = _escapes(b"", text, _FEW)
    return without if count < _FEW else text.replace(rb"\\", b"").replace(rb"\"", b"")


def _with_strings(value: Any, strings: dict[str, str]) -> Any:
    """Return the value with each name of a long string replaced by that string."""
    if type(value) is str:
        return strings.get(value, value)
    if type(value) is list:
        return [_with_strings(item, strings) for item in value]
    if type(value) is dict:
        return {_with_strings(key, strings): _with_strings(member, strings) for key, member in value.items()}
    return value
