"""Search for tools by words: BM25 over their names, descriptions and parameters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

MAX_QUERY_WORDS: Final = 50
MAX_TEXT_CHARS: Final = 20_000
"""Characters of one tool that are searched."""
_NAME_WEIGHT: Final = 3
"""How often a word of a tool's name counts."""
_K1: Final = 1.2
_B: Final = 0.75
"""The usual constants of BM25: how soon a repeated word stops to count, and how much a long text is held against a tool."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def found(query: str, tools: Sequence[Mapping[str, Any]], most: int) -> list[int]:
    """Return the places of the tools that have a word of the query, the best first, at most so many."""
    counts = [Counter(_words_of(tool)) for tool in tools]
    lengths = [count.total() for count in counts]
    average = sum(lengths) / len(lengths) if lengths else 0.0
    scores = [0.0] * len(counts)
    for word in dict.fromkeys(words(query)[:MAX_QUERY_WORDS]):
        having = [at for at, count in enumerate(counts) if word in count]
        rarity = math.log(1 + (len(counts) - len(having) + 0.5) / (len(having) + 0.5))
        for at in having:
            often = counts[at][word]
            scores[at] += rarity * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * lengths[at] / average))
    ranked = sorted((at for at, score in enumerate(scores) if score), key=lambda at: -scores[at])
    return ranked[:most]


def words(text: str) -> list[str]:
    """Return the words of a text in small letters, those of `listOrders` and `list_orders` one by one, without a plural's s."""
    return [_singular(word.lower()) for word in _WORD.findall(text[:MAX_TEXT_CHARS])]


def _singular(word: str) -> str:
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return f"{word[:-3]}y" if word.endswith("ies") and len(word) > 4 else word[:-1]
    return word


def _words_of(tool: Mapping[str, Any]) -> Iterator[str]:
    for _ in range(_NAME_WEIGHT):
        yield from words(str(tool.get("name", "")))
    for key in ("title", "description"):
        if isinstance(text := tool.get(key), str):
            yield from words(text)
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, member in properties.items() if isinstance(properties, Mapping) else ():
        yield from words(str(name))
        if isinstance(member, Mapping) and isinstance(text := member.get("description"), str):
            yield from words(text)
