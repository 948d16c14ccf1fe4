"""Decode parts of JSON text and skip the rest."""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from byref_sandbox import jsontext
from byref_sandbox.code.plainjq import Need

MAX_STEPS = 8
"""Most steps of a path: each that may also be a position doubles the types to be made."""
_any = msgspec.json.Decoder()


class Unfit(Exception):
    """The text is not what the need expects, or it cannot be told: all of it has to be decoded."""


def projected(text: bytes, need: Need, path: tuple[str, ...] = ()) -> Any:
    """Return the value with no other members of objects than those on the path and, at its end, those that are needed.

    Of duplicate keys the last one holds. Unfit also where a member on the way is neither an object, an array nor null.
    """
    return _decoded(text, _typed(need), path)


def cut_out(text: bytes, path: tuple[str, ...]) -> tuple[Any, int]:
    """Return the value at a path, and the bytes of its text; Unfit where there is none."""
    value = _decoded(text, msgspec.Raw, path)
    try:
        for key in path:
            value = value[key] if isinstance(value, dict) else value[int(key)]
        return _any.decode(value), len(value)
    except (ValueError, LookupError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise Unfit(str(error)) from None


def _decoded(text: bytes, kind: Any, path: tuple[str, ...]) -> Any:
    if len(path) > MAX_STEPS:
        raise Unfit(f"a path of {len(path):,} steps")
    for key in reversed(path):
        members = _members({key: kind})
        kind = members | list[kind] | None if key.isdecimal() else members | None
    try:
        jsontext.check_depth(text)
        if not text.isascii():
            str(text, "utf-8")  # msgspec does not look at the encoding
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
    """The type of an object of which these members are decoded."""
    if not all(map(str.isascii, kinds)):
        raise Unfit("msgspec finds no member with such a name")  # silently: it takes the object for one without it
    return TypedDict("Members", kinds, total=False)  # type: ignore[operator]
