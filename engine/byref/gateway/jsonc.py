"""JSON as editors let their users write it: with comments, and commas after the last item."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|/\*.*?\*/|[^"/]+|/', re.DOTALL)
"""A string, a comment, or what is between them."""
_LAST_COMMA: Final = re.compile(r",(\s*[\]}])")


def loads(data: bytes) -> Any:
    """Return what JSON says, comments and commas after the last item passed over; plain JSON is read as it is.

    Raises:
        ValueError: it is not JSON even so; line and column are those of the text.
    """
    text = data.decode("utf-8-sig")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(_plain(text))


def _plain(text: str) -> str:
    """The text with blanks in place of comments and last commas, so that all else stays where it is."""
    tokens = [_blank(token) if token.startswith(("//", "/*")) else token for token in _TOKEN.findall(text)]
    strings = [token for token in tokens if token.startswith('"')]
    masked = "".join('"' + "s" * (len(token) - 1) if token.startswith('"') else token for token in tokens)
    masked = _LAST_COMMA.sub(r" \1", masked)
    found, at = [], 0
    for string in strings:
        begin = masked.index('"', at)
        found += [masked[at:begin], string]
        at = begin + len(string)
    return "".join([*found, masked[at:]])


def _blank(comment: str) -> str:
    return re.sub(r"[^\n]", " ", comment)
