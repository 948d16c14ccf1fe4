"""A preview of a parsed JSON value: whole records from both ends, omissions stated as data, never over its budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from byref.describe.cuts import CutString, Gap, cut
from byref.describe.jsontext import compact
from byref.describe.room import size_within

_GUESS: Final = 3.2
"""Characters of JSON to a token at first; corrected by measuring."""
_MOST: Final = 16
"""Characters of JSON to a token that are hardly ever reached."""
_ROUNDS: Final = 7
"""How often a preview is cut anew for a better use of its budget; each costs two measurements of at most a budget's text."""
_ENOUGH: Final = 0.93
"""The part of the budget from which on a preview is not grown any more."""
_SAMPLE: Final = 2_048
_SAMPLES: Final = 10_000
"""Characters of one omitted value, and of one for each gap, that are looked at to divide the tokens left out."""
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
    best: Preview | None = None
    low, high = 0, _MOST * budget
    room = size_within(value, high)
    if room > high // 2:
        room = int(_GUESS * budget)
    for _ in range(_ROUNDS):
        found = _at(value, room, measure, total)
        if found.tokens <= budget:
            if best is None or found.tokens > best.tokens:
                best = found
            low = max(low, room)
            if found.omitted is None or found.tokens >= _ENOUGH * budget:
                break
        else:
            high = min(high, room - 1)
        if low >= high:
            break
        wanted = int(room * 0.97 * budget / max(found.tokens, 1))
        room = wanted if low < wanted <= high else (low + high + 1) // 2
    if best is not None:
        return best
    return _minimal(value, budget, measure, total)


def _at(value: object, room: int, measure: Callable[[str], int], total: int) -> Preview:
    tree, gaps = cut(value, room)
    if not gaps:
        text = compact(tree)
        return Preview(tree, text, measure(text), None)
    bare = compact(_shown(tree, None))
    bare_tokens = measure(bare)
    left_out = max(total - bare_tokens, 0)
    parts = _attribute(gaps, left_out, bare_tokens / len(bare))
    value = _shown(tree, parts)
    text = compact(value)
    return Preview(value, text, measure(text), _omitted(parts, left_out))


def _minimal(value: object, budget: int, measure: Callable[[str], int], total: int) -> Preview:
    least = _at(value, 0, measure, total)
    if least.tokens <= budget:
        return least
    text = compact("...")
    tokens = measure(text)
    if tokens > budget:
        raise ValueError(f"a budget of {budget} tokens holds no preview at all; give at least 20")
    return Preview("...", text, tokens, {"tokens": total})


def _shown(tree: Any, tokens: dict[Gap, int] | None) -> Any:
    """The tree as JSON, with its marks, or without them where `tokens` is None."""
    kind = type(tree)
    if kind is dict:
        members = {}
        for key, member in tree.items():
            if type(member) is not Gap:
                members[key] = _shown(member, tokens)
            elif tokens is not None:
                members[key] = member.text(tokens[member])
        return members
    if kind is list:
        elements = []
        for element in tree:
            if type(element) is not Gap:
                elements.append(_shown(element, tokens))
            elif tokens is not None:
                elements.append(element.text(tokens[element]))
        return elements
    if kind is CutString:
        return tree.head if tokens is None else tree.text()
    return tree


def _attribute(gaps: Sequence[Gap], tokens: int, per_character: float) -> dict[Gap, int]:
    """Divide the tokens left out among the gaps; what the known sizes do not explain lies beyond what was looked at."""
    limit = min(_SAMPLE, _SAMPLES // len(gaps))
    sizes = {gap: gap.weigh(limit) for gap in gaps}
    weights = {gap: max(round(size * per_character), 1) for gap, (size, _) in sizes.items()}
    beyond = {gap: size for gap, (size, above) in sizes.items() if above}
    unexplained = tokens - sum(weights.values())
    if beyond and unexplained > 0:
        known = sum(beyond.values())
        for gap, size in beyond.items():
            weights[gap] += unexplained * size // known
    whole, seen, spent = sum(weights.values()), 0, 0
    parts = {}
    for gap, weight in weights.items():
        seen += weight
        parts[gap] = tokens * seen // whole - spent
        spent += parts[gap]
    return parts


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
