"""JSON as tools really send it: read strictly and fast first, then leniently, since Python itself writes some things that JSON forbids."""

from __future__ import annotations

import codecs
import gc
import json
import mmap
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Any

import msgspec

MAX_INTEGER_DIGITS = 4300
"""Longer integers stay strings of digits, since Python refuses to convert them (CVE-2020-10735)."""

_strict = msgspec.json.Decoder()
_any = msgspec.json.Decoder(msgspec.Raw)
MAX_LEVELS = 5_000
"""Text nested more deeply is refused, however high the host's recursion limit is. Readers written in C go by that limit alone, and at
some 40,000 levels the usual stack of 8 MB is full, which ends the process."""
_MAX_ROUNDS = 64
_BRACKETS_AND_QUOTES = b'[]{}"'
_NEITHER = bytes(set(range(256)) - set(_BRACKETS_AND_QUOTES))
_QUOTED = re.compile(rb'"[^"]*"?')
_PIECE = 1 << 18
"""Bytes that are looked at in one go."""
_ESCAPE = 6
"""Bytes of the longest escape."""
_HIGH = re.compile(rb"\\u[dD][89abAB]")
_LOW = re.compile(rb"\\u[dD][c-fC-F]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_MOST_CUT = 3
"""Bytes of such a match that a piece can end with and not hold all of it."""
_MANY_OBJECTS = 100_000
_LONGEST_PAUSE = 10.0
"""After so many seconds of pauses that overlap, the collector looks for cycles once."""
_pausing = threading.RLock()
_pauses = 0
_paused_since = 0.0


class NotJSON(ValueError):
    """The text is no JSON; the message says where."""


_TOO_DEEP = "nested too deeply"


def decode(data: bytes | mmap.mmap | memoryview, read: Callable[[Any], Any] = _strict.decode) -> object:
    """Return the value of JSON text in UTF-8, lone surrogates tolerated; raise NotJSON. `read` reads what is strict JSON.

    Beyond the standard: a byte-order mark, NaN, Infinity, numbers too large for a float (infinity), escaped lone
    surrogates. Of duplicate keys the last one holds. Integers are exact up to `MAX_INTEGER_DIGITS`. Nesting is bounded by
    Python's recursion limit, and by `MAX_LEVELS`.
    """
    if not isinstance(data, bytes) and (sys.getrecursionlimit() > MAX_LEVELS or data[:3] == codecs.BOM_UTF8):
        data = bytes(data)
    if isinstance(data, bytes):
        data = data.removeprefix(codecs.BOM_UTF8)
        if is_too_deep(data):
            raise NotJSON(_TOO_DEEP)
    with collector_paused():
        if is_utf8(data):  # msgspec does not look at the encoding
            with suppress(msgspec.DecodeError, RecursionError):
                return read(data)
        try:
            return json.loads(str(data, "utf-8", "surrogatepass"), parse_int=integer)
        except UnicodeDecodeError:
            raise NotJSON("not UTF-8") from None
        except json.JSONDecodeError as error:
            raise NotJSON(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
        except RecursionError:
            raise NotJSON(_TOO_DEEP) from None


def decode_strict(data: bytes) -> object:
    """Return the value of JSON text in UTF-8, with nothing that is beyond the standard; raise NotJSON."""
    if is_too_deep(data):
        raise NotJSON(_TOO_DEEP)
    with collector_paused():
        if not is_utf8(data):
            raise NotJSON("not UTF-8")
        try:
            return _strict.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise NotJSON(str(error)) from None


def loads(text: str, *, strict: bool = True) -> Any:
    """Return the value of a short JSON text as `json.loads` does; raise NotJSON, or another ValueError.

    Unless it is `strict`, strings may hold control characters.
    """
    if is_too_deep(text.encode("utf-8", "surrogatepass")):
        raise NotJSON(_TOO_DEEP)
    try:
        return json.loads(text, strict=strict)
    except RecursionError:
        raise NotJSON(_TOO_DEEP) from None


def is_too_deep(data: bytes) -> bool:
    """Whether JSON has more than `MAX_LEVELS` levels. It may say so of a text with up to `2 * _MAX_ROUNDS` levels less.

    Where Python's recursion limit is no higher than `MAX_LEVELS`, the readers themselves refuse, and the answer is no.
    """
    if sys.getrecursionlimit() <= MAX_LEVELS or data.count(b"[") + data.count(b"{") <= MAX_LEVELS:
        return False
    brackets = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _NEITHER)
    brackets = _QUOTED.sub(b"", brackets.replace(b'""', b""))
    # Each round removes the innermost level, or two. Of real data nothing is left after a few rounds.
    most = MAX_LEVELS
    while most > MAX_LEVELS - 2 * _MAX_ROUNDS:
        before, most = len(brackets), most - 2
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(brackets) <= most:
            return False
        if before - len(brackets) < before // 256:
            break
    return any(level > most for level in accumulate(1 if bracket in b"[{" else -1 for bracket in brackets))


def check_depth(data: bytes) -> None:
    """Raise RecursionError where JSON is nested too deeply for a reader in C."""
    if is_too_deep(data):
        raise RecursionError


def is_json(data: bytes) -> bool:
    """Whether bytes are JSON in UTF-8 that is not nested too deeply to be read; no objects are made."""
    try:
        return (
            is_utf8(data)
            and not is_too_deep(data)
            # msgspec refuses lone surrogates, which are accepted here: it is asked again with another character in their place.
            and (_is_valid(data) or (b"\\u" in data and _is_valid(_without_surrogates(data))))
        )
    except RecursionError:
        return False


def is_utf8(data: bytes | mmap.mmap | memoryview) -> bool:
    """Whether bytes are UTF-8. It never makes all of the text, which may be four times as large."""
    if isinstance(data, bytes) and data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_within = False
    try:
        for at in range(0, len(data), _PIECE):
            piece = bytes(data[at : at + _PIECE])
            if is_within or not piece.isascii():
                decoder.decode(piece)
                is_within = bool(decoder.getstate()[0])
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def _without_surrogates(data: bytes) -> bytes:
    """Return JSON of the same length with other escapes in place of those of surrogates, taken piece by piece.

    `re.sub` makes an object of every stretch between two matches, so of six million surrogates it took 25 times the bytes.
    """
    made, at = bytearray(), 0
    while at < len(data):
        end = min(at + _PIECE, len(data))
        if end < len(data) and (start := data.rfind(b"\\", end - _MOST_CUT, end)) >= 0:
            end = start
        made += _SURROGATE.sub(rb"\\u00", data[at:end])
        at = end
    return bytes(made)


def _is_valid(data: bytes) -> bool:
    try:
        _any.decode(data)
    except msgspec.DecodeError:
        return False
    return True


def on_one_line(data: bytes) -> str:
    """Return JSON as text without line feeds, which no string of it can hold."""
    return (data.replace(b"\n", b"") if b"\n" in data else data).decode("utf-8", "replace")


def encodable(text: str) -> str:
    """Return a text with its lone surrogates, which UTF-8 cannot hold, as escapes; the very same text if it has none."""
    text = str.__str__(text)  # a text of a class that the code made has methods that lie
    try:
        for at in range(0, len(text), _PIECE):
            text[at : at + _PIECE].encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def ends(data: bytes, size: int) -> str:
    """Return the beginning and the end of JSON of more than `size` bytes, with the number of bytes between them."""
    half = size // 2
    head, tail = on_one_line(data[:half]), on_one_line(data[-half:])
    return f"{head}\n... [{len(data) - 2 * half:,} bytes of JSON are left out] ...\n{tail}"


def pieces(data: bytes) -> Iterator[str]:
    """Yield the text of a JSON string, a piece at a time; raise NotJSON."""
    at, end = 1, len(data) - 1
    while at < end:
        until = min(at + _PIECE, end)
        for cut in range(until, max(until - 2 * _ESCAPE, at), -1):
            piece = data[at:cut]
            if cut == end or not _is_within_a_character(piece, data[cut : cut + _ESCAPE]):
                break
        yield str(decode(b'"%s"' % piece))
        at = cut


def _is_within_a_character(before: bytes, after: bytes) -> bool:
    """Whether a cut in a string would part the bytes of a character, of an escape, or of two escapes that are one character."""
    start = before.rfind(b"\\", -_ESCAPE)
    slashes = len(before[: start + 1]) - len(before[: start + 1].rstrip(b"\\"))
    if slashes & 1:
        escape = before[start:]
        if len(escape) < 2 or (escape[1:2] == b"u" and len(escape) < _ESCAPE):
            return True
        if len(escape) == _ESCAPE and _HIGH.match(escape) and _LOW.match(after):
            return True
    return after[0] & 0xC0 == 0x80


def integer(digits: str) -> int | str:
    """Return an integer, or its digits if they are more than Python converts."""
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else digits


@contextmanager
def collector_paused() -> Iterator[None]:
    """Switch the cycle collector off while millions of objects are made that have no cycles: parsing 100 MB is 2.4 times as fast.

    If many objects are there in the end, they count as old at once: otherwise the collector would go through all of them twice, which
    takes as long as the parsing did. Threads share one pause, which ends with the last of them. A collector that the host switched off
    stays off, and what it froze stays frozen.
    """
    global _pauses, _paused_since
    with _pausing:
        is_ours = _pauses > 0 or gc.isenabled()
        if is_ours:
            _pauses += 1
        if _pauses == 1:
            _paused_since = time.monotonic()
            gc.disable()
    try:
        yield
    finally:
        if is_ours:
            with _pausing:
                _pauses -= 1
                _end_pause()


def _end_pause() -> None:
    """Switch the collector on again if no thread needs the pause. If threads always need it, have it look for cycles every now and then."""
    global _paused_since
    has_many = gc.get_count()[0] > _MANY_OBJECTS
    is_long = time.monotonic() - _paused_since > _LONGEST_PAUSE
    if (not _pauses or is_long) and has_many and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
    elif is_long and not has_many:
        gc.collect(1)
    if is_long:
        _paused_since = time.monotonic()
    if not _pauses:
        gc.enable()
