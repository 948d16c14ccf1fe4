"""Mutable parts that names have in common: each name is kept by itself, so that in the next run they are copies."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from byref_sandbox import wire

MOST: Final = 20_000
"""Parts that are looked at: some two milliseconds."""
_BY_KEY: Final = frozenset({dict, collections.defaultdict, collections.OrderedDict})
_IN_ORDER: Final = frozenset({list, tuple, collections.deque})
_LEAVES: Final = frozenset({set, bytearray, collections.Counter, np.ndarray, pd.DataFrame, pd.Series})
_LOOKED_AT: Final = _BY_KEY | _IN_ORDER | _LEAVES


def shared(new: Mapping[str, object], given: Mapping[str, object]) -> dict[str, str]:
    """Return, by name of what the code bound, a name, its own or another, with which it has a mutable part in common.

    `given` are values that earlier runs left. What comes after the first parts is not looked at.
    """
    owners: dict[int, str] = {}
    found: dict[str, str] = {}
    left = MOST
    for name, value in chain(new.items(), given.items()):
        waiting: list[Any] = [value] if type(value) in _LOOKED_AT else []
        while waiting and left > 0:
            part = waiting.pop()
            kind = type(part)
            if kind is not tuple and (owner := owners.get(id(part))) is not None:
                if name in new:
                    found.setdefault(name, owner)
                elif owner in new:
                    found.setdefault(owner, name)
                continue
            if kind is not tuple:
                owners[id(part)] = name
            members: Iterable[Any] = part.values() if kind in _BY_KEY else part if kind in _IN_ORDER else ()
            looked_at = list(islice(members, left))
            left -= 1 + len(looked_at)
            waiting += [member for member in looked_at if type(member) in _LOOKED_AT]
    return found


def told(frames: list[wire.Frame], shared: Mapping[str, str]) -> list[wire.Frame]:
    """Return the frames of a reply, those of names with what they share."""
    return [
        msgspec.structs.replace(frame, shares=shared[frame.name])
        if isinstance(frame, wire.Kept | wire.Same) and frame.name in shared
        else frame
        for frame in frames
    ]
