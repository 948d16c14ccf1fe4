"""JSON as editors let their users write it: with comments and trailing commas."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|/\*.*?\*/|[^"/]+|/', re.DOTALL)
"""A string, a comment, or the text between them."""
_LAST_COMMA: Final = re.compile(r",(\s*[\]}])")


def loads(data: bytes) -> Any:
    """Return the value of JSON text that may have comments and trailing commas; plain JSON is parsed as it is.

    Raises:
        ValueError: it is not JSON even then; line and column are those of the original text.
    """
    text = data.decode("utf-8-sig")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(_plain(text))


def _plain(text: str) -> str:
    """Replace comments and trailing commas by blanks, so that everything else keeps its line and column."""
    tokens = [_blank(token) if token.startswith(("//", "/*")) else token for token in _TOKEN.findall(text)]
    strings = [token for token in tokens if token.startswith('"')]
    # Commas are searched in a copy whose strings are masked: a comma before a bracket inside a string must stay.
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
