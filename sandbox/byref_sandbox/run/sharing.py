"""Mutable parts that names have in common. Each name is stored by itself, so that in the next run these parts are copies."""

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
"""Parts that are looked at; it takes some two milliseconds."""
_BY_KEY: Final = frozenset({dict, collections.defaultdict, collections.OrderedDict})
_IN_ORDER: Final = frozenset({list, tuple, collections.deque})
_LEAVES: Final = frozenset({set, bytearray, collections.Counter, np.ndarray, pd.DataFrame, pd.Series})
_LOOKED_AT: Final = _BY_KEY | _IN_ORDER | _LEAVES


def shared(new: Mapping[str, object], given: Mapping[str, object]) -> dict[str, str]:
    """Return, for each name in `new` that shares a mutable part, a name with which it shares it; that may be its own name.

    `new` are values that the code bound, `given` values that earlier runs left. Only the first `MOST` parts are looked at.
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


def with_shares(frames: list[wire.Frame], shared: Mapping[str, str]) -> list[wire.Frame]:
    """Return the frames of a reply; each frame of a name says with which name it shares a part."""
    return [
        msgspec.structs.replace(frame, shares=shared[frame.name])
        if isinstance(frame, wire.Kept | wire.Same) and frame.name in shared
        else frame
        for frame in frames
    ]
