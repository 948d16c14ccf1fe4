"""Samples spread evenly over what nobody knows the length of."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Sampler(Generic[T]):
    """Keeps every k-th of those offered, and doubles k where they become too many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.step = 1
        """Whose number is a multiple of this is to be offered: 0, k, 2k and so on."""
        self.samples: list[T] = []

    def offer(self, sample: T) -> None:
        """Keep one, and drop every other one if there are too many."""
        self.samples.append(sample)
        if len(self.samples) > self._most:
            del self.samples[1::2]
            self.step *= 2
