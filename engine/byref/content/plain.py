"""Content as plain data, JSON's types and bytes, which is written as JSON text and read back without a difference."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from byref.content import values
from byref.content.blocks import Block, to_block
from byref.jsonscan import parse
from byref_sandbox import jsontext

MAX_DEPTH: Final = 100
"""Maximum levels of a block's members: each takes two frames of Python's stack, and a host may have used most of it."""
_MARK: Final = "$bytes"
"""The only key of an object that stands for bytes; the value is their base64."""


class _TooDeep(ValueError):
    pass


def normalised(item: Mapping[Any, Any]) -> dict[str, Any] | None:
    """Return a block as it is after `to_json` and `from_json`; None if it nests too deeply or cannot be read."""
    try:
        copy = dict(item)
        if values.repeats_itself(copy):
            return None
        _look_down(copy)
        decoded = jsontext.decode(to_block(_marked(copy)).data)
        _look_down(decoded)
    except values.RAISED:
        return None
    made = _unmarked(decoded)
    return made if isinstance(made, dict) else None


def value_of(block: Block) -> tuple[object] | None:
    """Return a block's value as its JSON says, in a tuple because the value may be None; None if it nests too deeply.

    The value of a block that was not made from a Python value is its text.
    """
    if not block.from_value:
        return (block.text,)
    try:
        value = parse(block.data)
        _look_down(value)
    except (jsontext.NotJSON, _TooDeep):
        return None
    return (value,)


def to_json(content: Sequence[Any]) -> str:
    """Return content as JSON text. Bytes, which Strands' blocks contain, become marked objects."""
    try:
        _look_down(content, MAX_DEPTH + 1)
    except _TooDeep:
        return to_block(content).text
    return to_block(_marked(content)).text


def from_json(text: str) -> list[Any]:
    """Return the content from which `to_json` wrote the text."""
    return list(_unmarked(jsontext.decode(text.encode("utf-8", "surrogatepass"))))


def _marked(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {_MARK: b64encode(value).decode()}
    if isinstance(value, Mapping):
        # A key of data that ends like the mark gets one more dollar, so that it is not read back as bytes.
        return {f"${key}" if str(key).endswith(_MARK) else key: _marked(member) for key, member in value.items()}
    return [_marked(item) for item in value] if isinstance(value, list | tuple) else value


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        if _MARK in value:
            return b64decode(value[_MARK])
        return {key[1:] if key.endswith(_MARK) else key: _unmarked(member) for key, member in value.items()}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def _look_down(value: object, levels: int = MAX_DEPTH) -> None:
    """Raise _TooDeep if lists and dicts nest deeper than this many levels."""
    # Each container counts once per level: shared parts could otherwise make a level exponentially wide.
    level = {id(value): value}
    for _ in range(levels):
        level = {
            id(member): member
            for one in level.values()
            if isinstance(one, _CONTAINERS)
            for member in (one.values() if isinstance(one, dict) else one)
            if isinstance(member, _CONTAINERS)
        }
        if not level:
            return
    raise _TooDeep


_CONTAINERS: Final = (dict, list, tuple)
