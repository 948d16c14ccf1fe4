"""Find what a value lost when it was written as JSON: bracketed notes stand for the parts that JSON cannot hold."""

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
"""Stands for the parts of a value that is not a list, dict or tuple of the same form as its JSON."""
_PATH_CHARS = 200


def first_note(value: object, block: Block) -> str | None:
    """Return where and why JSON cannot hold a value, as `value['rows'][3]: object is not JSON: …`; None if it can.

    `block` is the written value. A string of the value itself that looks like a note is not taken for one.
    """
    if issubclass(type(value), str | bytes | bytearray | memoryview) or not any(mark in block.data for mark in _MARKS):
        return None
    if block.from_value:
        block.reparse()
    kind, parsed = block.parsed
    for path, original, written in _strings(value, parsed if kind == "json" else block.text):
        if not issubclass(type(original), str) and _NOTE.fullmatch(written):
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
