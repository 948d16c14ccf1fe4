"""Samples spread evenly over a sequence of unknown length."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Sampler(Generic[T]):
    """Keeps every k-th of those offered, and doubles k where they become too many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.step = 1
        """k: those with the numbers 0, k, 2k and so on are to be offered."""
        self.samples: list[T] = []

    def offer(self, sample: T) -> None:
        """Keep this one, and if there are too many then, drop every other one."""
        self.samples.append(sample)
        if len(self.samples) > self._most:
            del self.samples[1::2]
            self.step *= 2
