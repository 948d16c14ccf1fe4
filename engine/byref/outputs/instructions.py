"""`display_instructions_for_model`: what a tool would tell the model, taken out before anything reads the data."""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec

from byref import slices
from byref.outputs.blocks import Block, to_block
from byref_sandbox import jsontext

KEY: Final = "display_instructions_for_model"
MAX_CHARS: Final = 4_000
"""Longer instructions are cut: they are a directive, not data."""


def lift_value(value: object) -> tuple[object, str | None]:
    """Return a value without its instructions, and them: a string under `KEY` at its top."""
    if type(value) is dict and type(value.get(KEY)) is str:
        return {key: member for key, member in value.items() if key != KEY}, _cut(value[KEY])
    return value, None


def lift(block: Block) -> tuple[Block, str | None]:
    """Return a block without its instructions, and them; the rest of a JSON text stays as it was written."""
    if block.from_value:
        rest, lifted = lift_value(block.value)
        return (block, None) if lifted is None else (to_block(rest), lifted)
    data = block.data
    # An escape can spell the key, too.
    if block.text[:4096].lstrip("\ufeff \t\r\n")[:1] != "{" or not (
        slices.holds(data, KEY.encode()) or slices.holds(data, b"\\u")
    ):
        return block, None
    try:
        members = _members(data)
        said: object = msgspec.json.decode(members[KEY]) if KEY in members else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _lift_parsed(block)
    if type(said) is not str:
        return block, None
    del members[KEY]
    return to_block(msgspec.json.encode(members).decode()), _cut(said)


def _members(data: bytes) -> dict[str, msgspec.Raw]:
    return _decoder.decode(data.removeprefix(b"\xef\xbb\xbf"))


def _lift_parsed(block: Block) -> tuple[Block, str | None]:
    """Of JSON that a strict reader does not take."""
    try:
        value, said = lift_value(jsontext.decode(block.data))
    except jsontext.NotJSON:
        return block, None
    return (block, None) if said is None else (to_block(json.dumps(value, separators=(",", ":"))), said)


def _cut(text: str) -> str:
    text = _LONE_SURROGATE.sub("\ufffd", text)
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
