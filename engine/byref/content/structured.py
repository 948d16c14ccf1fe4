"""Detection of texts that repeat MCP's structured content: servers send both, and the data should count only once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from byref.content.blocks import Block, to_block
from byref.content.media import Media

MAX_ELEMENTS: Final = 1_000
"""Maximum elements of structured content that are compared with texts one by one: there cannot be more texts than this."""


def repeated(content: Mapping[Any, Any], blocks: Sequence[Block | Media | None]) -> set[int] | None:
    """Return the places of the texts that repeat elements of structured content; None if one text repeats all of it.

    A text may be the JSON of the whole content, of its only member, or of one element.
    """
    texts = {at: block for at, block in enumerate(blocks) if isinstance(block, Block)}
    inner = list(content.values()) if len(content) == 1 else []
    whole = _written([content, *inner])
    if any(_meanings(block) & whole for block in texts.values()):
        return None
    elements = [element for member in inner if isinstance(member, list) for element in member[: MAX_ELEMENTS + 1]]
    parts = _written(elements) if len(elements) <= MAX_ELEMENTS else set()
    return {at for at, block in texts.items() if _meanings(block) & parts}


def elements(content: Mapping[Any, Any], texts: Sequence[str | None]) -> list[Any] | None:
    """Return the list that is the whole structured content, if the texts repeat its elements in order; else None."""
    [value, *others] = content.values() or [None]
    if others or not isinstance(value, list) or not 0 < len(value) == len(texts):
        return None
    pairs = zip(value, texts, strict=True)
    return (
        value if all(text is not None and _meanings(to_block(text)) & _written([one]) for one, text in pairs) else None
    )


def _meanings(block: Block) -> set[bytes]:
    """Return the JSON of everything that a text may stand for: the text itself, and the value of which it is the JSON."""
    kind, value = block.parsed
    if kind == "json":
        return _written([value, block.text])
    return {_PYTHON.get(block.text, block.data), *_written([block.text])}


def _written(values: Sequence[Any]) -> set[bytes]:
    """Return each value as JSON, in one spelling for equal values. Values that are not JSON are left out."""
    found = set()
    for value in values:
        try:
            found.add(_encode(value))
        except (TypeError, ValueError, OverflowError, RecursionError):
            continue
    return found


_PYTHON: Final = {"True": b"true", "False": b"false"}
"""Python's spelling of booleans, and JSON's: servers may write `str(value)`."""
_encode = msgspec.json.Encoder(order="deterministic").encode
