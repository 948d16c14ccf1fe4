"""Decoding of parts of JSON text: msgspec skips members that the type does not name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import msgspec

from byref_sandbox import jsontext
from byref_sandbox.code.picks import Need
from byref_sandbox.values.gathering import Step

MAX_STEPS = 8
"""Maximum steps of a path: each step that may also be a position doubles the types to make."""
_any = msgspec.json.Decoder()


class Unfit(Exception):
    """The text does not have the expected form, or msgspec cannot tell: the caller has to decode all of it."""


def projected(text: bytes, need: Need, path: Sequence[Step] = ()) -> Any:
    """Return the value with only those members of objects that are on the path or, at its end, needed.

    The last one of duplicate keys counts. Raises Unfit also if a member on the path is not an object, an array or null.
    """
    return _decoded(text, _typed(need), path)


def cut_out(text: bytes, path: Sequence[Step]) -> tuple[Any, int]:
    """Return the value at a path and the length of its text in bytes. Raises Unfit if there is no such value."""
    value = _decoded(text, msgspec.Raw, path)
    try:
        for key in path:
            value = value[key] if isinstance(value, dict) else value[int(str(key))]
        return _any.decode(value), len(value)
    except (ValueError, LookupError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise Unfit(str(error)) from None


def _decoded(text: bytes, kind: Any, path: Sequence[Step]) -> Any:
    if len(path) > MAX_STEPS:
        raise Unfit(f"a path of {len(path):,} steps")
    for key in reversed(path):
        if not isinstance(key, str):
            raise Unfit("records of many places")
        members = _members({key: kind})
        kind = members | list[kind] | None if key.isdecimal() else members | None
    try:
        jsontext.check_depth(text)
        if not text.isascii():
            str(text, "utf-8")  # msgspec does not check the encoding of what it skips
        return msgspec.json.decode(text, type=kind)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise Unfit(str(error)) from None


def _typed(need: Need) -> Any:
    if need is None:
        return Any
    if isinstance(need, list):
        items = _typed(need[0])
        return list[items] | None  # type: ignore[valid-type]
    return _members({name: _typed(of) for name, of in need.items()}) | None


def _members(kinds: dict[str, Any]) -> Any:
    """Return the type of an object with only these members decoded."""
    if not all(map(str.isascii, kinds)):
        # msgspec gives no error: it treats the object as one without the member.
        raise Unfit("msgspec finds no member with such a name")
    return TypedDict("Members", kinds, total=False)  # type: ignore[operator]
