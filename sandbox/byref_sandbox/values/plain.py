"""Plain data, which JSON gives back as it was: recognised, and written as msgpack, without a step of Python for each part."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_KINDS: Final = frozenset({dict, list, str, int, float, bool, type(None)})
_CONTAINERS: Final = frozenset({dict, list})
_AT_ONCE: Final = 1_000
"""Containers that are looked at together: as many as fit into the processor's caches."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder()


def is_plain(value: object, most: int = 0) -> bool:
    """Whether a value consists of JSON's own types alone, and, if that is given, of at most `most` parts; NaN and infinities may be among its
    floats. Without `most` it must not contain itself.
    """
    return _nones_in(value, most) is not None


def is_json(value: object, text: bytes = b"") -> bool:
    """Whether a value comes back from its JSON as it was. Without `text` it must not contain itself.

    `text` is that JSON, and saves a second look at most values: NaN and infinities become null as None does, so that without them there
    are as many nulls as Nones. It also bounds the look at a value that contains itself, in place of which the text says something else.
    """
    nones = _nones_in(value, len(text))
    if nones is None:
        return False
    if text and text.count(b"null") == nones:
        return True
    floats = ([part for part in members if type(part) is float] for members, kinds in _parts(value) if float in kinds)
    return all(all(map(math.isfinite, some)) for some in floats)


def _nones_in(value: object, most: int = 0) -> int | None:
    """Return how often None is in a value; None if it holds anything but plain data, or more than `most` parts, if that is given."""
    nones = parts = 0
    for members, kinds in _parts(value):
        parts += len(members)
        if not kinds <= _KINDS or (most and parts > most):
            return None
        if type(None) in kinds:
            nones += members.count(None)
    return nones


def _parts(value: object) -> Iterator[tuple[list[Any], set[type]]]:
    """Yield all that is in a value, many parts at a time, with the set of their types."""
    waiting: list[list[Any]] = []
    members: list[Any] = [value]
    while True:
        kinds = set(map(type, members))
        yield members, kinds
        if not kinds.isdisjoint(_CONTAINERS):
            inner = members if kinds <= _CONTAINERS else [part for part in members if type(part) in _CONTAINERS]
            waiting.extend(inner[at : at + _AT_ONCE] for at in range(0, len(inner), _AT_ONCE))
        if not waiting:
            return
        members = _members(waiting.pop())


def _members(containers: list[Any]) -> list[Any]:
    """Return what lists and dicts hold. A key that is no text is returned as its type, which counts as no data."""
    members = gc.get_referents(*containers)
    if len(members) == sum(map(len, containers)):
        return members
    # `get_referents` lists the keys of a dict as well, unless all its keys are texts: Python stores such dicts in another way.
    members = []
    for container in containers:
        if type(container) is dict:
            members.extend(kind for kind in set(map(type, container)) if kind is not str)
            members.extend(container.values())
        else:
            members.extend(container)
    return members


def containers_in(containers: list[Any]) -> list[Any]:
    """Return the lists and dicts that are directly inside of these lists and dicts.

    Looking at an object counts a reference to it, so it writes to memory, which a run has to itself from then on. The collector of Python
    before 3.14 does not track a dict of texts and numbers alone, and what such a dict holds is not looked at.
    """
    tracked = [*filter(gc.is_tracked, containers)]
    found: list[Any] = []
    for at in range(0, len(tracked), _AT_ONCE):
        found += (one for one in gc.get_referents(*tracked[at : at + _AT_ONCE]) if type(one) in _CONTAINERS)
    return found


def packed(value: object) -> bytes | None:
    """Return the value as msgpack; None where `unpacked` would not give it back as it was."""
    written = bytearray()
    try:
        _encoder.encode_into(value, written)  # where memory runs out, `encode` crashes: msgspec 0.22
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
    return bytes(written) if is_plain(value) else None


def unpacked(data: bytes) -> Any:
    """Return the value that `packed` was given; raise MsgspecError."""
    return _decoder.decode(data)
