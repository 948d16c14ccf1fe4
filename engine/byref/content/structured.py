"""MCP's structured content beside texts, which say the same or something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from byref.content.blocks import Block, to_block
from byref.content.media import Media

MAX_ELEMENTS: Final = 1_000
"""Of the structured content, compared with texts one by one: as many as there can be texts."""


def repeated(said: Mapping[Any, Any], blocks: Sequence[Block | Media | None]) -> set[int] | None:
    """Return the places of the texts that say elements of it; None where one says all of it.

    Servers repeat it as text: as JSON of all of it, of its only member, or of one element after the other.
    """
    texts = {at: block for at, block in enumerate(blocks) if isinstance(block, Block)}
    inner = list(said.values()) if len(said) == 1 else []
    whole = _written([said, *inner])
    if any(_says(block) & whole for block in texts.values()):
        return None
    elements = [element for member in inner if isinstance(member, list) for element in member[: MAX_ELEMENTS + 1]]
    parts = _written(elements) if len(elements) <= MAX_ELEMENTS else set()
    return {at for at, block in texts.items() if _says(block) & parts}


def elements(said: Mapping[Any, Any], texts: Sequence[str | None]) -> list[Any] | None:
    """Return the list that is all of it, where texts say its elements, each one and in their order; None where they do not."""
    [value, *others] = said.values() or [None]
    if others or not isinstance(value, list) or not 0 < len(value) == len(texts):
        return None
    pairs = zip(value, texts, strict=True)
    return value if all(text is not None and _says(to_block(text)) & _written([one]) for one, text in pairs) else None


def _says(block: Block) -> set[bytes]:
    """What a text may say: itself, and what it is the JSON of."""
    kind, value = block.parsed
    if kind == "json":
        return _written([value, block.text])
    return {_PYTHON.get(block.text, block.data), *_written([block.text])}


def _written(values: Sequence[Any]) -> set[bytes]:
    """Each value as JSON, one way of writing for all that are equal; what is no JSON says nothing."""
    found = set()
    for value in values:
        try:
            found.add(_encode(value))
        except (TypeError, ValueError, OverflowError, RecursionError):
            continue
    return found


_PYTHON: Final = {"True": b"true", "False": b"false"}
"""What `str` makes of what JSON writes otherwise."""
_encode = msgspec.json.Encoder(order="deterministic").encode
