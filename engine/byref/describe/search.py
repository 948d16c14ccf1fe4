"""The search for the most that fits a budget of tokens, where only a text itself tells how many it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

_ROUNDS: Final = 7
"""How often something is made anew for a better use of its budget."""
_ENOUGH: Final = 0.93
"""The part of the budget from which on nothing is made any more."""


class Measured(Protocol):
    """Something whose tokens were counted."""

    @property
    def tokens(self) -> int:
        """What its text takes."""


Found = TypeVar("Found", bound=Measured)


def most_within(
    budget: int, *, room: int, high: int, make: Callable[[int], Found], whole: Callable[[Found], bool]
) -> Found | None:
    """Return the largest of what `make(room)` gives that takes at most `budget` tokens, None if nothing did.

    `room`, in characters, begins as given and stays between 0 and `high`; the search ends early at what is `whole`.
    """
    best: Found | None = None
    low = 0
    for _ in range(_ROUNDS):
        found = make(room)
        if found.tokens <= budget:
            if best is None or found.tokens > best.tokens:
                best = found
            low = max(low, room)
            if whole(found) or found.tokens >= _ENOUGH * budget:
                break
        else:
            high = min(high, room - 1)
        if low >= high:
            break
        wanted = int(room * 0.97 * budget / max(found.tokens, 1))
        room = wanted if low < wanted <= high else (low + high + 1) // 2
    return best
