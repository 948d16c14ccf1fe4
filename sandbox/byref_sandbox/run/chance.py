"""The random numbers of a run. They are set in the run's own process, before the jail is entered."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np


def seed(numbers: bytes | None) -> None:
    """Seed the generators with the system's randomness, or with `numbers`.

    Without it all runs of a zygote would draw the same from numpy; Python's `random` seeds itself in a new process. With `numbers`,
    all that the system gives out as random is drawn from them as well: `secrets`, `uuid.uuid4`, `os.urandom`,
    `np.random.default_rng()`, `random.Random()`. So code that runs again with the same numbers draws the same.
    """
    if numbers is not None:
        _draw_from(random.Random(numbers))
    np.random.seed(np.frombuffer(os.urandom(32), np.uint32))


def _draw_from(source: random.Random) -> None:
    seed_with = random.Random.seed

    def urandom(size: int, /) -> bytes:
        return source.randbytes(size)

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed_with(self, int.from_bytes(urandom(32)) if a is None else a, version)

    os.urandom = urandom
    vars(random)["_urandom"] = urandom
    random.Random.seed = seed  # type: ignore[method-assign]
    random.seed(int.from_bytes(urandom(32)))
