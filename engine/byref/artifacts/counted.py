"""How many there are of what only some are shown: counted up to a bound, so that it takes no longer where there are more."""

from __future__ import annotations

from typing import NamedTuple

MOST_COUNTED = 100
"""Beyond so many it is only said that there are more."""


class Counted(NamedTuple):
    """A number of rows, exact up to `MOST_COUNTED`."""

    least: int
    is_all: bool = True

    @classmethod
    def of(cls, found: int) -> Counted:
        """What a count that stops behind `MOST_COUNTED` says."""
        return cls(min(found, MOST_COUNTED), found <= MOST_COUNTED)

    def __add__(self, other: object) -> Counted:
        """Both together."""
        if not isinstance(other, Counted):
            return NotImplemented
        return Counted(self.least + other.least, self.is_all and other.is_all)

    def beside(self, shown: int) -> str:
        """How many there are beside those that are shown, in words; empty where there is none."""
        more = self.least - shown
        if self.is_all:
            return f"{more:,}" if more > 0 else ""
        return f"over {more:,}" if more > 0 else "more"
