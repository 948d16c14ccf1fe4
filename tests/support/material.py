"""Tool outputs that several tests use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from byref import Session

Opener = Callable[..., Session]
"""Opens a conversation whose tokens are characters divided; keywords are knobs, `window` the model's."""


def records(count: int, width: int = 2) -> list[dict[str, Any]]:
    """Flat records with `id` 1 to `count`."""
    return [{"id": i, **{f"field_{j}": f"value {i}-{j}" for j in range(width)}} for i in range(1, count + 1)]


def page(count: int = 1200) -> dict[str, Any]:
    """Records beside an object and scalars."""
    return {"users": records(count), "pagination": {"page": 1, "pages": 12}, "total": 15_000, "next_cursor": "abc"}


def prose(characters: int) -> str:
    """Text of exactly so many ASCII characters, in lines of 80 that differ."""
    lines = [
        f"{i:06} the quick brown fox jumps over the lazy dog and runs away from all of it."[:79]
        for i in range(characters // 80 + 1)
    ]
    return "\n".join(lines)[:characters].ljust(characters, ".")


def json_text(characters: int) -> str:
    """A JSON array of strings with exactly so many characters."""
    items = [f'"{"x" * 46}"'] * ((characters - 2) // 49)
    text = "[" + ",".join(items) + "]"
    return text[:-2] + "x" * (characters - len(text)) + text[-2:]
