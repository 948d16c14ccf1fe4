"""Plain data, which JSON gives back as it was: told apart, and written as msgpack, without a step of Python for each part."""

from __future__ import annotations

import gc
import math
from typing import Any, Final

import msgspec

_KINDS: Final = frozenset({dict, list, str, int, float, bool, type(None)})
_CONTAINERS: Final = frozenset({dict, list})
_AT_ONCE: Final = 1_000
"""Containers looked at together: as many as the processor's caches hold."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder()


def is_json(value: object) -> bool:
    """Whether a value that JSON can be made of, so that it does not contain itself, comes back from it as it was."""
    members: list[Any] | None = [value]
    waiting: list[list[Any]] = []
    while members is not None:
        kinds = set(map(type, members))
        if not kinds <= _KINDS:
            return False
        if float in kinds and not all(map(math.isfinite, [part for part in members if type(part) is float])):
            return False
        if not kinds.isdisjoint(_CONTAINERS):
            inner = [part for part in members if type(part) in _CONTAINERS]
            waiting.extend(inner[at : at + _AT_ONCE] for at in range(0, len(inner), _AT_ONCE))
        if not waiting:
            return True
        members = _members(waiting.pop())
    return False


def _members(containers: list[Any]) -> list[Any] | None:
    """What lists and dicts hold; None where a key is no text."""
    members = gc.get_referents(*containers)
    if len(members) == sum(map(len, containers)):
        return members
    # The collector is shown the keys of a dict, too, unless it was made for texts alone: then there are no others.
    members = []
    for container in containers:
        if type(container) is dict:
            if not set(map(type, container)) <= {str}:
                return None
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
    return bytes(written) if is_json(value) else None


def unpacked(data: bytes) -> Any:
    """What `packed` was given; raises MsgspecError."""
    return _decoder.decode(data)
