"""The search for the most that fits a budget of tokens. Only a text itself tells its tokens, so each try makes a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

_ROUNDS: Final = 7
"""Tries, at most."""
_ENOUGH: Final = 0.93
"""The part of the budget that is enough, so that no further try is made."""


class Measured(Protocol):
    """Something whose tokens were counted."""

    @property
    def tokens(self) -> int:
        """Tokens of its text."""


Found = TypeVar("Found", bound=Measured)


def most_within(
    budget: int, *, room: int, high: int, make: Callable[[int], Found], whole: Callable[[Found], bool]
) -> Found | None:
    """Return the largest result of `make(room)` that takes at most `budget` tokens; None if none did.

    The first `room`, in characters, is the given one; others are between 0 and `high`. A result that is `whole` ends the search.
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
