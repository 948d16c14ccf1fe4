"""A preview of a parsed JSON value: whole records from both ends, omissions stated as data, never over its budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from byref.describe.cuts import cut
from byref.describe.gaps import Gap, attribute, shown
from byref.describe.jsontext import compact
from byref.describe.room import Sizes
from byref.describe.search import most_within

_GUESS: Final = 3.2
"""Characters of JSON to a token at first; corrected by measuring."""
_MOST: Final = 16
"""Characters of JSON to a token that are hardly ever reached."""
_ENTRIES: Final = 8
"""How many places `omitted` names; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a model sees of a value."""

    value: object
    """What is shown, JSON-able by any strict encoder."""
    text: str
    """The compact JSON text of `value`."""
    tokens: int
    """What `text` measures."""
    omitted: dict[str, object] | None
    """What was left out and where, `None` if nothing was.

    `tokens` in all; `items` of arrays, `keys` of objects and `characters` of strings and keys by path, each with what is
    kept and omitted, summed over the elements of an array (`users[].tags`); `more`: how many further places there are.
    """


def preview(value: object, *, budget: int, measure: Callable[[str], int], total: int) -> Preview:
    """Show as much of the value as `budget` tokens hold, as `measure` counts them; `total` is what the whole takes.

    In an array the element `... (11,900 tokens omitted) ...` stands for the records left out, in an object the member
    `"...": "412 more keys"`, in a string `first part… (12,345 more characters)`. Tokens omitted are `total` less those of
    the preview without such marks, divided among the cuts by the size of what each left out. NaN and infinities are
    shown as strings, lone surrogates as escapes. Raises ValueError if not even `"..."` fits.
    """
    high, sizes = _MOST * budget, Sizes()
    size = sizes.within(value, high)
    return most_within(
        budget,
        room=size if size <= high // 2 else int(_GUESS * budget),
        high=high,
        make=lambda room: _at(value, room, measure, total, sizes),
        whole=lambda found: found.omitted is None,
    ) or _minimal(value, budget, measure, total, sizes)


def _at(value: object, room: int, measure: Callable[[str], int], total: int, sizes: Sizes) -> Preview:
    tree, gaps = cut(value, room, sizes)
    if not gaps:
        text = compact(tree)
        return Preview(tree, text, measure(text), None)
    bare = compact(shown(tree, None))
    bare_tokens = measure(bare)
    left_out = max(total - bare_tokens, 0)
    parts = attribute(gaps, left_out, bare_tokens / len(bare), sizes)
    marked = shown(tree, lambda gap: gap.mark(parts[gap]))
    text = compact(marked)
    return Preview(marked, text, measure(text), _omitted(parts, left_out))


def _minimal(value: object, budget: int, measure: Callable[[str], int], total: int, sizes: Sizes) -> Preview:
    least = _at(value, 0, measure, total, sizes)
    if least.tokens <= budget:
        return least
    text = compact("...")
    tokens = measure(text)
    if tokens > budget:
        raise ValueError(f"a budget of {budget} tokens holds no preview at all; give at least 20")
    return Preview("...", text, tokens, {"tokens": total})


def _omitted(parts: dict[Gap, int], tokens: int) -> dict[str, object]:
    places: dict[tuple[str, str], list[int]] = {}
    for gap, part in parts.items():
        counts = places.setdefault((gap.kind, gap.path), [0, 0, 0])
        counts[0] += gap.kept
        counts[1] += gap.omitted
        counts[2] += part
    omitted: dict[str, Any] = {"tokens": tokens}
    # Records left out matter most, then members, then the ends of strings; and among these the largest.
    order = {"items": 0, "keys": 1, "characters": 2}
    ranked = sorted(places.items(), key=lambda place: (order[place[0][0]], -place[1][2]))
    for (kind, path), (kept, left_out, _) in ranked[:_ENTRIES]:
        omitted.setdefault(kind, {})[path] = {"kept": kept, "omitted": left_out}
    if len(ranked) > _ENTRIES:
        omitted["more"] = len(ranked) - _ENTRIES
    return omitted
