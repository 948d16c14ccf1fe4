"""What a value lost on its way into JSON: the bracketed notes that stand where it could not be written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from byref.content import Block

_MARKS = (
    b" is not JSON: ",
    b" could not be read: ",
    b"[circular reference to ",
    b"[nested deeper than ",
    b"[integer of ",
    b" repeats its own parts ",
)
_NOTE = re.compile(
    r"\[(?:[^\]\s]+ is not JSON: .*|(?:output of type )?\S+ could not be read: \w+|circular reference to \S+"
    r"|nested deeper than \d+ levels|integer of \d+ bits|output of type \S+ repeats its own parts .*)\]",
    re.DOTALL,
)
_UNKNOWN = object()
"""In the place of a value that is not a list, dict or tuple of the same form as its JSON."""
_PATH_CHARS = 200


def first_note(value: object, block: Block) -> str | None:
    """Return where a value is not what JSON can hold, and why: `value['rows'][3]: object is not JSON: …`; else None.

    `block` is what the value became. Text of a value's own that reads like a note is none.
    """
    if issubclass(type(value), str | bytes | bytearray | memoryview) or not any(mark in block.data for mark in _MARKS):
        return None
    if block.from_value:
        block.reparse()
    kind, parsed = block.parsed
    for path, original, written in _strings(value, parsed if kind == "json" else block.text):
        if not isinstance(original, str) and _NOTE.fullmatch(written):
            where = path if len(path) <= _PATH_CHARS else f"{path[:_PATH_CHARS]}…"
            return f"value{where}: {written[1:-1]}"
    return None


def _strings(value: object, written: object) -> Iterator[tuple[str, object, str]]:
    """Yield (path, the original part, its text) of every string in a written value, in order."""
    left: list[tuple[str, Any, Any]] = [("", value, written)]
    while left:
        path, original, now = left.pop()
        if isinstance(now, str):
            yield path, original, now
        elif isinstance(now, list):
            alike = type(original) in (list, tuple) and len(original) == len(now)
            parts = original if alike else [_UNKNOWN] * len(now)
            left += [(f"{path}[{i}]", parts[i], now[i]) for i in range(len(now) - 1, -1, -1)]
        elif isinstance(now, dict):
            alike = type(original) is dict and len(original) == len(now)
            parts = list(original.values()) if alike else [_UNKNOWN] * len(now)
            members = [(f"{path}[{key!r}]", part, now[key]) for key, part in zip(now, parts, strict=True)]
            left += reversed(members)
