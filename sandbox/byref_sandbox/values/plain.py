"""Plain data, which JSON gives back as it was: told apart, and written as msgpack, without a step of Python for each part."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_KINDS: Final = frozenset({dict, list, str, int, float, bool, type(None)})
_CONTAINERS: Final = frozenset({dict, list})
_AT_ONCE: Final = 1_000
"""Containers looked at together: as many as the processor's caches hold."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder()


def is_plain(value: object) -> bool:
    """Whether a value that does not contain itself is of JSON's own types alone, NaN and infinities among its floats."""
    return _nones_in(value) is not None


def is_json(value: object, text: bytes = b"") -> bool:
    """Whether a value that JSON can be made of, so that it does not contain itself, comes back from it as it was.

    With `text`, that JSON, most values are looked at once: for NaN and infinities there is a null in it as for None.
    """
    nones = _nones_in(value)
    if nones is None:
        return False
    if text and text.count(b"null") == nones:
        return True
    floats = ([part for part in members if type(part) is float] for members, kinds in _parts(value) if float in kinds)
    return all(all(map(math.isfinite, some)) for some in floats)


def _nones_in(value: object) -> int | None:
    """How often None is in it; None where something else than plain data is."""
    nones = 0
    for members, kinds in _parts(value):
        if not kinds <= _KINDS:
            return None
        if type(None) in kinds:
            nones += members.count(None)
    return nones


def _parts(value: object) -> Iterator[tuple[list[Any], set[type]]]:
    """All that is in a value, many at a time, with their types."""
    waiting: list[list[Any]] = []
    members: list[Any] = [value]
    while True:
        kinds = set(map(type, members))
        yield members, kinds
        if not kinds.isdisjoint(_CONTAINERS):
            inner = [part for part in members if type(part) in _CONTAINERS]
            waiting.extend(inner[at : at + _AT_ONCE] for at in range(0, len(inner), _AT_ONCE))
        if not waiting:
            return
        members = _members(waiting.pop())


def _members(containers: list[Any]) -> list[Any]:
    """What lists and dicts hold, and the type of a key that is no text, which is no data."""
    members = gc.get_referents(*containers)
    if len(members) == sum(map(len, containers)):
        return members
    # The collector is shown the keys of a dict, too, unless it was made for texts alone: then there are no others.
    members = []
    for container in containers:
        if type(container) is dict:
            members.extend(kind for kind in set(map(type, container)) if kind is not str)
            members.extend(container.values())
        else:
            members.extend(container)
    return members


def packed(value: object) -> bytes | None:
    """The value as msgpack; None where `unpacked` would not give it back as it was."""
    written = bytearray()
    try:
        _encoder.encode_into(value, written)  # where memory runs out, `encode` crashes: msgspec 0.22
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
    return bytes(written) if is_plain(value) else None


def unpacked(data: bytes) -> Any:
    """What `packed` was given; raises MsgspecError."""
    return _decoder.decode(data)
