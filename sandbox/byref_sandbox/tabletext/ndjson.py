"""A JSON object on each line: such text is JSON once its lines stand between brackets, and is read and described as JSON is."""

from __future__ import annotations

import codecs
import re
from typing import Final

_HEAD: Final = 1 << 16
_FIRST: Final = re.compile(rb"\s*\{[^\n]*\}[ \t\r]*\n\s*\{")
_BLANK: Final = re.compile(rb"\n[ \t\r]*(?=\n)")
_BLANKS: Final = b" \t\r\n"
"""What JSON takes for blanks."""


def begins(data: bytes) -> bool:
    """Tell whether a text begins with two lines that may be JSON objects."""
    data = data.removeprefix(codecs.BOM_UTF8)
    return (_FIRST.match(data[:_HEAD]) or _FIRST.match(data)) is not None


def joined(data: bytes) -> bytes | None:
    """Return the lines of a text as the elements of an array; None if the first two are no objects.

    What is returned may be no JSON: a parser says so. Its lines have the numbers that they have in the text.
    """
    if not begins(data):
        return None
    body = data.removeprefix(codecs.BOM_UTF8).rstrip(_BLANKS)
    if _BLANK.search(body):
        lines = [line + b"," if line.strip(_BLANKS) else line for line in body.split(b"\n")]
        return b"[" + b"\n".join(lines).rstrip(b",") + b"]"
    # A string in JSON has no line feed of its own, so each one stands between two objects.
    return b"[" + body.replace(b"\n", b",\n") + b"]"


class Joining:
    """Writes the lines of a text that passes in pieces as the elements of an array, as `joined` does."""

    def __init__(self) -> None:
        self._before = b"["
        self._gap = b""
        """The line feed behind what was passed on: perhaps no object follows it."""

    def passing(self, data: bytes) -> bytes:
        """Return what the next bytes add to the array."""
        data = self._gap + data
        if self._before:
            data = data.removeprefix(codecs.BOM_UTF8).lstrip(_BLANKS)
        if not data:
            return b""
        before, self._before = self._before, b""
        body = data.rstrip(_BLANKS)
        # The end of the data may cut a string, of which blanks are a part; one that has a line feed in it is no JSON.
        inside, self._gap, _ = data[len(body) :].partition(b"\n")
        return before + _BLANK.sub(b"", body + inside).replace(b"\n", b",\n")

    def end(self) -> bytes:
        """Return the end of the array."""
        return self._before + b"]"
