"""A JSON object on each line: such text is JSON once its lines stand between brackets, and is read and described as JSON is."""

from __future__ import annotations

import codecs
import re
from typing import Final

_HEAD: Final = 1 << 16
_FIRST: Final = re.compile(rb"\s*\{[^\n]*\}[ \t\r]*\n\s*\{")
_BLANK: Final = re.compile(rb"\n[ \t\r]*(?=\n)")


def joined(data: bytes) -> bytes | None:
    """Return the lines of a text as the elements of an array; None if the first two are no objects.

    What is returned may be no JSON: a parser says so. Its lines have the numbers that they have in the text.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    if _FIRST.match(data[:_HEAD]) is None and _FIRST.match(data) is None:
        return None
    body = data.rstrip()
    if _BLANK.search(body):
        lines = [line + b"," if line.strip() else line for line in body.split(b"\n")]
        return b"[" + b"\n".join(lines).rstrip(b",") + b"]"
    # A string in JSON has no line feed of its own, so each one stands between two objects.
    return b"[" + body.replace(b"\n", b",\n") + b"]"
