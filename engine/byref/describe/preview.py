"""A preview of a parsed JSON value: whole records from both ends, with omissions stated as data, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from byref.describe.cuts import Gap, attribute, cut, shown
from byref.describe.jsontext import compact
from byref.describe.room import Sizes
from byref.describe.search import most_within

_GUESS: Final = 3.2
"""Characters of JSON per token for the first try; measuring corrects it."""
_MOST: Final = 16
"""Upper limit of the characters of JSON per token; hardly any text has more."""
_ENTRIES: Final = 8
"""Maximum places that `omitted` names; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The part of a value that a model sees."""

    value: object
    """The shown part, in types that any strict JSON encoder writes."""
    text: str
    """The compact JSON text of `value`."""
    tokens: int
    """The tokens of `text`."""
    omitted: dict[str, object] | None
    """The omissions and their places; None if the whole value is shown.

    `tokens` is the sum of all omissions. `items` of arrays, `keys` of objects, and `characters` of strings and keys map a path
    to the numbers kept and omitted, summed over the elements of an array (`users[].tags`). `more` counts further places.
    """


def preview(
    value: object, *, budget: int, measure: Callable[[str], int], total: int, size: int | None = None
) -> Preview:
    """Show as much of the value as fits `budget` tokens, counted by `measure`; `total` is the tokens of the whole value.

    `size`, the bytes of its text, makes the first guess better.

    The element `... (11,900 tokens omitted) ...` marks omitted records of an array, the member `"...": "412 more keys"` those of
    an object, and `first part… (12,345 more characters)` a cut string. Tokens omitted are `total` less those of the preview
    without these marks; they are divided among the cuts by the size of each omission. NaN and infinities are shown as strings,
    lone surrogates as escapes. Raises ValueError if not even `"..."` fits.
    """
    cuts = _Cuts(value, measure, total)
    high = _MOST * budget
    whole = cuts.sizes.within(value, high)
    guess = _GUESS if size is None else min(_GUESS, size / max(total, 1))
    found = most_within(
        budget,
        room=whole if whole <= high // 2 else int(guess * budget),
        high=high,
        make=cuts.at,
        whole=lambda found: found.omitted is None,
    )
    found = found or cuts.at(0)
    if found.tokens <= budget:
        return found
    text = compact("...")
    tokens = measure(text)
    if tokens > budget:
        raise ValueError(f"a budget of {budget} tokens holds no preview at all; give at least 20")
    return Preview("...", text, tokens, {"tokens": total})


class _Cuts:
    """Previews of one value in several rooms. Rooms that lead to the same text share one preview."""

    def __init__(self, value: object, measure: Callable[[str], int], total: int) -> None:
        self._value, self._measure, self._total = value, measure, total
        self._known: dict[str, Preview] = {}
        self.sizes = Sizes()

    def at(self, room: int) -> Preview:
        tree, gaps = cut(self._value, room, self.sizes)
        bare = compact(shown(tree, None) if gaps else tree)
        known = self._known.get(bare)
        if known is None:
            known = self._known[bare] = self._marked(tree, gaps, bare)
        return known

    def _marked(self, tree: Any, gaps: Sequence[Gap], bare: str) -> Preview:
        tokens = self._measure(bare)
        if not gaps:
            return Preview(tree, bare, tokens, None)
        left_out = max(self._total - tokens, 0)
        parts = attribute(gaps, left_out, tokens / len(bare), self.sizes)
        marked = shown(tree, lambda gap: gap.mark(parts[gap]))
        text = compact(marked)
        return Preview(marked, text, self._measure(text), _omitted(parts, left_out))


def _omitted(parts: dict[Gap, int], tokens: int) -> dict[str, object]:
    places: dict[tuple[str, str], list[int]] = {}
    for gap, part in parts.items():
        counts = places.setdefault((gap.kind, gap.path), [0, 0, 0])
        counts[0] += gap.kept
        counts[1] += gap.omitted
        counts[2] += part
    omitted: dict[str, Any] = {"tokens": tokens}
    # Omitted records matter most, then members, then the ends of strings; within each kind, the largest omissions come first.
    order = {"items": 0, "keys": 1, "characters": 2}
    ranked = sorted(places.items(), key=lambda place: (order[place[0][0]], -place[1][2]))
    for (kind, path), (kept, left_out, _) in ranked[:_ENTRIES]:
        omitted.setdefault(kind, {})[path] = {"kept": kept, "omitted": left_out}
    if len(ranked) > _ENTRIES:
        omitted["more"] = len(ranked) - _ENTRIES
    return omitted
