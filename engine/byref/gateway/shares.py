"""How what there is of something is shared out between tenants."""

from __future__ import annotations

from collections import Counter


class Shares:
    """A number of places: of several tenants none has more than half of them, and who has few gets one in any case.

    So no more than `places`, and `kept` for each tenant, are ever taken.
    """

    def __init__(self, places: int, *, several: bool, kept: int = 1) -> None:
        self.places = places
        self.share = places // 2 if several else places
        self._kept = kept if several else 0
        self._taken: Counter[str] = Counter()

    @property
    def told(self) -> str:
        """How many there are, for whom there is none."""
        return (
            f"{self.places:,}" if self.share == self.places else f"{self.share:,} of one tenant, {self.places:,} of all"
        )

    def take(self, tenant: str, *, in_exchange: bool = False) -> bool:
        """Take a place for a tenant, if there is one; in exchange for one that it has just given back there is."""
        mine = self._taken[tenant]
        if not in_exchange and mine >= self._kept and (mine >= self.share or self._taken.total() >= self.places):
            return False
        self._taken[tenant] += 1
        return True

    def give_back(self, tenant: str) -> None:
        """Say that a place of a tenant is free again."""
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]
