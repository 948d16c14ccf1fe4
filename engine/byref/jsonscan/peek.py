"""Parses single values in the middle of JSON text, without the text around them."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, Final

from byref_sandbox import jsontext

_WINDOWS: Final = (1 << 12, 1 << 16)
"""Bytes in which a value has to end: few at first, then more. A longer value is not one of many similar ones in an array."""
_NUMBER: Final = 64
"""Characters at the end of a window: a number that ends there may go on behind the window."""
_blanks = re.compile(rb"[ \t\n\r]*")
_colons = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*")


class Unreadable(Exception):
    """There is no JSON value at the place, or it does not end within the largest window."""


def value_at(text: bytes, at: int) -> tuple[Any, int]:
    """Return the value that begins at a place, and where it ends. Raises Unreadable."""
    for size in _WINDOWS:
        is_last = at + size >= len(text)
        try:
            jsontext.check_depth(text[at : at + size])
            window, _ = codecs.utf_8_decode(text[at : at + size], "surrogatepass", False)
            value, end = _decoder.raw_decode(window)
        except RecursionError:
            break
        except ValueError:
            if is_last:
                break
            continue
        if is_last or end < len(window) - _NUMBER:
            # The parser counts characters, the caller bytes; in ASCII they are the same.
            return value, at + (end if window.isascii() else len(window[:end].encode("utf-8", "surrogatepass")))
    raise Unreadable("no value was found")


def after_blanks(text: bytes, at: int) -> int:
    """Return the first place, from this one on, that is not blank."""
    found = _blanks.match(text, at)
    assert found is not None
    return found.end()


def colon_at(text: bytes, at: int) -> bytes:
    """Return the first colon of the object that begins at a place, with the blanks around it. Raises Unreadable."""
    _, end = value_at(text, after_blanks(text, at + 1))
    found = _colons.match(text, end)
    if found is None:
        raise Unreadable("a colon was expected")
    return found[0]


def _no_json(constant: str) -> object:
    raise ValueError(constant)


_decoder: Final = json.JSONDecoder(parse_constant=_no_json)
