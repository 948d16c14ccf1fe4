"""Counts of rows of which only some are shown: counted up to a limit, so that the time does not grow with their number."""

from __future__ import annotations

from typing import NamedTuple

MOST_COUNTED = 100
"""Limit of a count; beyond it, only the fact that there are more is known."""


class Counted(NamedTuple):
    """A number of rows: at least `least`, and exactly that if `is_all`."""

    least: int
    is_all: bool = True

    @classmethod
    def of(cls, found: int) -> Counted:
        """Return the meaning of a count that stopped at `MOST_COUNTED + 1`."""
        return cls(min(found, MOST_COUNTED), found <= MOST_COUNTED)

    def __add__(self, other: object) -> Counted:
        """Return the sum; it is exact if both numbers are."""
        if not isinstance(other, Counted):
            return NotImplemented
        return Counted(self.least + other.least, self.is_all and other.is_all)

    def beside(self, shown: int) -> str:
        """Return in words how many there are besides the `shown` ones; empty if there are none."""
        more = self.least - shown
        if self.is_all:
            return f"{more:,}" if more > 0 else ""
        return f"over {more:,}" if more > 0 else "more"
