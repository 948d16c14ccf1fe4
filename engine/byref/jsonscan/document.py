"""JSON that passes by: an array or an object, of whose big arrays only the ends are kept.

The text is cut at commas between the elements of an array that is the whole or a member of it. The text between two cuts
is decoded behind a prefix that opens what it lies in: all of these are valid if and only if the whole is, and the first
that is not says where.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, Final, NoReturn

from byref.jsonscan import sizes
from byref.jsonscan.array import ArrayScan
from byref.jsonscan.parsing import parse
from byref_sandbox import jsontext

if TYPE_CHECKING:
    from byref.jsonscan.structure import BlockStructure, Structure

_BLANKS: Final = b" \t\n\r"
_ELEMENT: Final = b"[0"
"""Opens an array of which some elements were read."""


class Refused(ValueError):
    """The text is no JSON, or none that can be described in bounded memory."""


class TooMuch(Refused):
    """It may be JSON, and cannot be described."""


class DocumentScan:
    """A root array or object; its structure is looked at where it takes more than one block."""

    def __init__(self, opening: bytes, most: int | None = None) -> None:
        self._most = sizes.MOST if most is None else most
        """The weight, about its bytes, of one element of an array, or of all outside the arrays, that is still described."""
        self._is_array = opening == b"["
        self._depth = 1 if self._is_array else 2
        """Of the elements of arrays that may be read slice by slice."""
        self._structure: Structure | None = None
        self._text = bytearray()
        """What was read and not decoded yet."""
        self._start = 0
        """Where it begins in all text."""
        self._line, self._column = 1, 0
        """And in which line, behind how many characters."""
        self._prefix = b""
        """Opens what it lies in."""
        self._brackets = 0
        self._outside_weight = 0
        """Of what was decoded and is in no array of which only the ends are kept."""
        self._opener: int | None = None
        """Where the array begins, if any, that is open, and of which nothing was read yet."""
        self._stretch: ArrayScan | None = None
        """The array of which something was read, while it is open."""
        self._stand_in = secrets.token_hex()
        """A value, and a key, that cannot be in the text: nobody else knows it."""
        self._members: dict[str, Any] = {}
        self._has_ended = False

    def feed(self, data: bytes) -> None:
        """Read on. Raises Refused."""
        if self._has_ended:
            self._blank(data)
            return
        if self._structure is None:
            if len(self._text) + len(data) <= sizes.BLOCK:
                self._text += data
                return
            from byref.jsonscan.structure import Structure  # numpy is loaded only for what is worth it

            self._structure = Structure()
            data = bytes(self._text) + data
            self._text.clear()
        self._text += data
        block = self._structure.scan(data)
        self._brackets += block.brackets
        if block.deepest > sizes.LEVELS:
            self._refuse(bytes(self._text))
        self._read(block)
        weight = self._outside_weight + self._weight
        if weight > self._most:
            raise TooMuch(_too_large(self._most))

    def finish(self) -> object:
        """Return the value. Raises Refused, and TooDeep."""
        if self._structure is None:
            return self._decoded(len(self._text), b"")
        if not self._has_ended:
            self._refuse(bytes(self._text))
        members = {key: one.value() if type(one) is ArrayScan else one for key, one in self._members.items()}
        return members[self._stand_in] if self._is_array else members

    def _read(self, block: BlockStructure) -> None:
        start = block.start
        if self._stretch is not None:
            closing = block.left(self._depth, start)
            self._slice(closing if closing is not None else block.last_comma(self._depth, start))
            if closing is None:
                return
            start = closing
            self._stretch = None
            self._prefix = _ELEMENT if self._is_array else b'{"%s":%s' % (self._stand_in.encode(), _ELEMENT)
            self._shorten()
        end = block.left(1, start)
        if end is not None:
            self._outside(end + 1, b"")
            self._has_ended = True
            self._blank(bytes(self._text))
            return
        opener = block.entered(self._depth, start)
        if opener is None or opener >= 0:
            self._opener = opener if opener is not None and block.is_array(opener) else None
        if self._opener is not None and block.end - self._opener > sizes.BLOCK:
            cut = block.last_comma(self._depth, self._opener + 1)
            if cut is not None:
                self._stretch = ArrayScan(self._depth)
                self._outside(self._opener, b'"%s"%s' % (self._stand_in.encode(), b"" if self._is_array else b"}"))
                self._opener, self._prefix = None, b""
                self._slice(cut)

    def _outside(self, end: int, suffix: bytes) -> None:
        """Read what is outside of the arrays that are read slice by slice."""
        self._outside_weight += self._weight
        value = self._decoded(end, suffix)
        if self._is_array:
            members: dict[str, Any] = {} if self._prefix else {self._stand_in: value}
        else:
            assert isinstance(value, dict)
            value.pop(self._stand_in, None)
            members = value
        for key in [key for key, member in members.items() if member == self._stand_in]:
            members[key] = self._stretch
        self._members |= members

    def _slice(self, end: int | None) -> None:
        """Read elements of an array up to a cut, or to its end."""
        if end is None:
            return
        size = end - self._start
        assert self._stretch is not None
        if self._prefix and self._leap(end):
            return
        # With one more element, before or behind them: there has to be one on either side of a comma.
        items = self._decoded(end, b"]" if self._prefix else b",0]")
        assert isinstance(items, list)
        del items[0 if self._prefix else -1]
        self._prefix = _ELEMENT
        self._stretch.add(items, size)

    def _leap(self, end: int) -> bool:
        """Go on to a cut without a look at the elements, if they are like those before."""
        assert self._stretch is not None
        text = bytes(memoryview(self._text)[: end - self._start])
        if not self._stretch.leap(text):
            return False
        self._go_on(text, end)
        return True

    @property
    def _weight(self) -> int:
        return len(self._text) + sizes.BRACKET * self._brackets

    def _shorten(self) -> None:
        """Keep less of each array where there are many."""
        arrays = [one for one in self._members.values() if type(one) is ArrayScan]
        if sum(array.size for array in arrays) <= sizes.ENDS:
            return
        for array in arrays:
            array.shorten(sizes.ENDS // (2 * len(arrays)))
        if sum(array.size for array in arrays) > self._most:
            raise TooMuch(_too_large(self._most))

    def _decoded(self, end: int, suffix: bytes) -> object:
        """Return what the text says up to a place that it then begins at."""
        length = end - self._start
        text = bytes(memoryview(self._text)[:length])
        data = b"".join((self._prefix, text, suffix))
        try:
            value = parse(data) if len(data) > sizes.BIG else jsontext.decode(data)
        except jsontext.NotJSON:
            self._refuse(bytes(memoryview(self._text)[: length + 1]))
        self._go_on(text, end)
        return value

    def _go_on(self, text: bytes, end: int) -> None:
        self._advance(text)
        del self._text[: len(text)]
        self._start = end
        self._brackets = 0

    def _advance(self, text: bytes) -> None:
        feeds = text.count(b"\n")
        if feeds:
            self._line += feeds
            self._column = 0
        self._column += len(text[text.rfind(b"\n") + 1 :].decode())

    def _blank(self, data: bytes) -> None:
        """Read what follows the end."""
        more = data.lstrip(_BLANKS)
        self._advance(data[: len(data) - len(more)])
        if more:
            raise Refused(f"invalid JSON: Extra data at line {self._line}, column {self._column + 1}")

    def _refuse(self, text: bytes) -> NoReturn:
        """Raise what Python says of the text, which begins where `_text` does."""
        problem = "nested too deeply"
        try:
            jsontext.check_depth(text)
            json.loads((self._prefix + text).decode(errors="replace"), parse_int=len)
        except json.JSONDecodeError as error:
            line = self._line + error.lineno - 1
            column = error.colno + (self._column - len(self._prefix) if error.lineno == 1 else 0)
            problem = f"{error.msg} at line {line}, column {column}"
        except RecursionError:
            raise TooMuch(f"invalid JSON: {problem}") from None
        raise Refused(f"invalid JSON: {problem}") from None


def _too_large(most: int) -> str:
    return f"one element, or all outside of the big arrays, is more than {most:,} bytes: too large to be described"
