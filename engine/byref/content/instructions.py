"""`display_instructions_for_model`: a tool's instructions to the model, taken out of its output before anything reads the data."""

from __future__ import annotations

import json
from typing import Final

import msgspec

from byref.content.blocks import Block, to_block
from byref.describe.jsontext import without_surrogates
from byref.jsonscan import chunks, parse
from byref_sandbox import jsontext

KEY: Final = "display_instructions_for_model"
MAX_CHARS: Final = 4_000
"""Maximum characters; longer instructions are cut, because they are a directive and not data."""


def lift_value(value: object) -> tuple[object, str | None]:
    """Return a value without its instructions, and the instructions: the string under `KEY` at the value's top."""
    if type(value) is dict and isinstance(found := value.get(KEY), str):
        return {key: member for key, member in value.items() if key != KEY}, cut(str.__str__(found))
    return value, None


def lift(block: Block) -> tuple[Block, str | None]:
    """Return a block without its instructions, and the instructions. The other members of a JSON text keep their spelling."""
    if block.from_value:
        return _lift_from_value(block)
    if block.text[:4096].lstrip("\ufeff \t\r\n")[:1] != "{":
        return block, None
    data = block.data
    # The key may be spelled with escapes: its characters are from `_` to `z`.
    is_escaped = chunks.holds(data, b"\\u005", b"\\u006", b"\\u007")
    if not (is_escaped or chunks.holds(data, KEY.encode())):
        return block, None
    try:
        members = _members(data)
        found: object = msgspec.json.decode(members[KEY]) if KEY in members else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _lift_parsed(block)
    if KEY in members and type(found) is not str and (is_escaped or data.count(KEY.encode()) > 1):
        found = _last_string(block)
    if type(found) is not str:
        return block, None
    del members[KEY]
    return to_block(msgspec.json.encode(members).decode()), cut(found)


def _lift_from_value(block: Block) -> tuple[Block, str | None]:
    value = block.value
    if type(value) is not dict:
        return block, None
    if not {str}.issuperset(map(type, value)) or type(value.get(KEY, "")) is not str:
        # Enum members and the like: only their JSON tells whether they equal the key, or are a string.
        if not chunks.holds(block.data, KEY.encode()):
            return block, None
        try:
            value = parse(block.data)
        except jsontext.NotJSON:
            return block, None
    rest, lifted = lift_value(value)
    return (block, None) if lifted is None else (to_block(rest), lifted)


def _members(data: bytes) -> dict[str, msgspec.Raw]:
    jsontext.check_depth(data)
    return _decoder.decode(data.removeprefix(b"\xef\xbb\xbf"))


def _lift_parsed(block: Block) -> tuple[Block, str | None]:
    """Do the work of `lift` for JSON that msgspec refuses and the lenient decoder accepts."""
    try:
        value = jsontext.decode(block.data)
    except jsontext.NotJSON:
        return block, None
    if type(value) is not dict or KEY not in value:
        return block, None
    found = value.pop(KEY)
    found = found if type(found) is str else _last_string(block)
    return (block, None) if found is None else (to_block(json.dumps(value, separators=(",", ":"))), cut(found))


def _last_string(block: Block) -> str | None:
    """Return the last string under the key at the top; JSON may repeat a key, and most readers take the last member."""
    top: list[tuple[str, object]] = []

    def keep(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal top
        top = pairs  # the hook is called for the outermost object last
        return dict(pairs)

    try:
        jsontext.check_depth(block.data)
        json.loads(block.text.removeprefix("\ufeff"), object_pairs_hook=keep, parse_int=lambda _: 0)
    except (ValueError, RecursionError):
        return None
    return next((member for key, member in reversed(top) if key == KEY and type(member) is str), None)


def cut(text: str) -> str:
    """Return instructions as a model reads them: valid Unicode of at most `MAX_CHARS` characters."""
    text = without_surrogates(text)
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"


_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
