"""Instructions in a JSON object that passes by as bytes: members of that name are taken out before anything reads it."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from byref.content.instructions import KEY, cut
from byref_sandbox import jsontext

HELD: Final = 16 << 20
"""Most bytes of one member, and of all that are taken out of one stream: they are held in memory. What is larger stays in."""
_BEGINNING: Final = 4_096
"""An object has to begin within so many bytes; a text that does not is no object."""
_BLANKS: Final = b" \t\r\n"
_FEW: Final = 64
"""Bytes that are looked at one by one, before all before them are copied to look further."""
_OTHERS: Final = bytes(set(range(256)) - set(b'"[]{}'))
_decoder: Final = json.JSONDecoder()


def _spelled(letter: str) -> str:
    digits = f"{ord(letter):04x}"
    return f"(?:{letter}|\\\\u{re.sub('[a-f]', lambda found: f'[{found[0]}{found[0].upper()}]', digits)})"


_KEY: Final = re.compile(b'"%s"' % "".join(map(_spelled, KEY)).encode())
"""The name as JSON may spell it, with escapes."""
_NEXT: Final = re.compile(rb"[ \t\r\n]*" + _KEY.pattern)
_PART: Final = re.compile(rb'"[\\a-zA-Z0-9_]*')
_LONGEST: Final = 6 * len(KEY) + 2
_COLON: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BEHIND: Final = re.compile(rb"[ \t\r\n]*")


class _Incomplete(Exception):
    """The piece ends inside a member: more has to be read before it can be judged."""


class Lifting:
    """Takes the instructions out of a JSON object that is read once, in pieces cut anywhere, in bounded memory.

    Any other text passes unchanged. Members whose value is a string are taken out; with `every`, those of any value. It is
    used for one stream, on one thread.
    """

    def __init__(self, *, every: bool = False) -> None:
        self.instructions: str | None = None
        """The string of the last member that was taken out."""
        self.has_left = False
        """Whether a member was left in because its value is no string."""
        self._every = every
        self._removed: list[tuple[int, bytes]] = []
        self._removed_size = 0
        self._given = 0
        self._is_object: bool | None = None
        self._depth = 0
        self._in_string = self._is_escaped = False

    @property
    def has_removed(self) -> bool:
        """Whether anything was taken out."""
        return bool(self._removed)

    def passing(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what is left of the pieces."""
        text, enough = b"", 0
        for piece in pieces:
            text += piece
            if len(text) < enough:
                continue
            kept, text = self._read(text)
            enough = 2 * len(text)
            if kept:
                self._given += len(kept)
                yield kept
        kept, _ = self._read(text, final=True)
        if kept:
            yield kept

    def restored(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield pieces of what it gave, with what it had taken out."""
        at, removed = 0, iter(self._removed)
        place, member = next(removed, (None, b""))
        for piece in pieces:
            begin, end = at, at + len(piece)
            while place is not None and place < end:
                yield piece[at - begin : place - begin]
                yield member
                at = place
                place, member = next(removed, (None, b""))
            yield piece[at - begin :]
            at = end
        while place is not None:
            yield member
            place, member = next(removed, (None, b""))

    def _read(self, text: bytes, *, final: bool = False) -> tuple[bytes, bytes]:
        """Return what passes of a text, and its end that has to wait for more."""
        if self._is_object is None:
            opening = text[:_BEGINNING].removeprefix(codecs.BOM_UTF8).lstrip(_BLANKS)[:1]
            if not opening and len(text) < _BEGINNING and not final:
                return b"", text
            self._is_object = opening == b"{"
        if not self._is_object:
            return text, b""
        out: list[bytes] = []
        given = at = seen = 0  # bytes in `out`; where what passes goes on; where brackets and quotes are counted to
        found = _KEY.search(text) if KEY.encode() in text or b"\\u" in text else None
        while found is not None:
            name, following = found.start(), found.end()
            self._advance(text[seen:name])
            seen = name
            # A match is the name of a member of the outermost object only outside strings, one level deep, and right behind
            # the brace that opens the object or the comma before the member.
            mark = -1 if self._in_string or self._depth != 1 else _before(text, name)
            if mark >= at and text[mark] in b"{,":
                is_first = text[mark] == ord("{")
                try:
                    end = self._member(text, following, final=final)
                except _Incomplete:
                    if len(text) - mark <= HELD:
                        # The brace is kept back too, and counted again when the rest has come.
                        self._depth -= is_first
                        out.append(text[at:mark])
                        return b"".join(out), text[mark:]
                    end = None
                begin = mark + is_first
                if end is not None and self._removed_size + end - begin <= HELD:
                    end = self._following(text, end, final=final) if is_first else end
                    out.append(text[at:mark])
                    given += mark - at
                    self._remove(given + is_first, text[begin:end])
                    if is_first:  # the member that follows is the first one now: no comma may stand before it
                        self._depth -= 1
                        text, at, seen, following = b"{" + text[end:], 0, 0, 0
                    else:
                        at = seen = following = end
            found = _KEY.search(text, following)
        wait = len(text) if final else self._waiting(text, seen)
        self._advance(text[seen:wait])
        out.append(text[at:wait])
        return b"".join(out), text[wait:]

    def _following(self, text: bytes, end: int, *, final: bool) -> int:
        """Return where the member begins that is to be the first, or the object ends, when the first one is taken out."""
        while text[end : end + 1] == b",":
            end += 1
            name = _NEXT.match(text, end)
            try:
                behind = None if name is None else self._member(text, name.end(), final=final)
            except _Incomplete:
                break
            if behind is None:
                break
            end = behind
        return end

    def _member(self, text: bytes, at: int, *, final: bool) -> int | None:
        """Return where the member ends whose name does so there; None where it is to stay."""
        colon = _COLON.match(text, at)
        value = at if colon is None else colon.end()
        opening = text[value : value + 1]
        if not opening or (colon is None and not text[at:].strip(_BLANKS)):
            if final:
                return None
            raise _Incomplete
        if colon is None:
            return None
        found = None
        if opening == b'"':
            string = _STRING.match(text, value)
            if string is None:
                if final:
                    return None
                raise _Incomplete
            end = string.end()
            try:
                found = json.loads(string[0].decode("utf-8", "surrogatepass"))
            except ValueError:
                return None
        elif not self._every:
            self.has_left = True
            return None
        else:
            rest = text[value:].decode("utf-8", "replace" if final else "ignore")
            try:
                jsontext.check_depth(text[value:])
                _, length = _decoder.raw_decode(rest)
            except (ValueError, RecursionError):
                if final:
                    return None
                raise _Incomplete from None
            end = value + len(rest[:length].encode())
        behind = _BEHIND.match(text, end)
        end = end if behind is None else behind.end()
        if end == len(text) and not final:
            raise _Incomplete
        if text[end : end + 1] not in (b",", b"}"):
            return None
        if found is not None:
            self.instructions = cut(found)
        return end

    def _remove(self, place: int, member: bytes) -> None:
        self._removed.append((self._given + place, member))
        self._removed_size += len(member)

    def _waiting(self, text: bytes, seen: int) -> int:
        """Return where a member of the name may begin of which there is too little yet; the text's end if there is none."""
        mark = _before(text, len(text))
        if mark < 0 or text[mark] not in b"{,":
            quote = text.rfind(b'"', max(seen, len(text) - _LONGEST))
            if quote < 0 or _PART.fullmatch(text, quote) is None:
                return len(text)
            mark = _before(text, quote)
        is_one = mark >= seen and text[mark] in b"{," and len(text) - mark <= HELD
        return mark if is_one else len(text)

    def _advance(self, text: bytes) -> None:
        """Keep count of brackets and quotes."""
        if not text:
            return
        if self._is_escaped:
            text = text[1:]
        slashes = len(text) - len(text.rstrip(b"\\"))
        self._is_escaped = bool(slashes & 1)
        if b"\\" in text:
            text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
        # Two quotes side by side change nothing about what is between others.
        marks = text.translate(None, _OTHERS).replace(b'""', b"")
        parts = marks.split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        self._in_string ^= not len(parts) & 1
        self._depth += outside.count(b"{") + outside.count(b"[") - outside.count(b"}") - outside.count(b"]")


def _before(text: bytes, at: int) -> int:
    """Return where the last byte before a place is that is not blank; -1 if there is none."""
    for place in range(at - 1, max(at - _FEW, 0) - 1, -1):
        if text[place] not in _BLANKS:
            return place
    return len(text[: max(at - _FEW, 0)].rstrip(_BLANKS)) - 1
