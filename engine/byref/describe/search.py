"""The search for the largest result that fits a budget of tokens.

Tokens can be counted only of a finished text, so each try makes one, and the tries are few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

_ROUNDS: Final = 7
"""Maximum number of tries."""
ENOUGH: Final = 0.93
"""Share of the budget from which on a result is good enough to end the search."""


class Measured(Protocol):
    """A result whose tokens were counted."""

    @property
    def tokens(self) -> int:
        """Tokens of its text."""


Found = TypeVar("Found", bound=Measured)


def most_within(
    budget: int,
    *,
    room: int,
    high: int,
    make: Callable[[int], Found],
    whole: Callable[[Found], bool],
    enough: float = ENOUGH,
) -> Found | None:
    """Return the largest result of `make(room)` that takes at most `budget` tokens; None if no try fitted.

    The first try uses the given `room`, in characters; later ones lie between 0 and `high`. A result that is `whole`, so that
    more room cannot improve it, ends the search; so does one that takes `enough` of the budget, a share.
    """
    best: Found | None = None
    low = 0
    for _ in range(_ROUNDS):
        found = make(room)
        if found.tokens <= budget:
            if best is None or found.tokens > best.tokens:
                best = found
            low = max(low, room)
            if whole(found) or found.tokens >= enough * budget:
                break
        else:
            high = min(high, room - 1)
        if low >= high:
            break
        # The tokens per character of this try predict the next room; bisection takes over where the prediction is out of range.
        wanted = int(room * 0.97 * budget / max(found.tokens, 1))
        room = wanted if low < wanted <= high else (low + high + 1) // 2
    return best
