"""JSON text that any strict decoder reads."""

from __future__ import annotations

import msgspec


def compact(value: object) -> str:
    """The compact JSON text of a JSON value. Raises UnicodeEncodeError for a lone surrogate."""
    return msgspec.json.encode(value).decode()


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot hold, written as escapes."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
