"""Text and JSON cut to head and tail, with a notice that says exactly how much is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from byref.describe.cuts import attribute, cut, shown
from byref.describe.jsontext import compact, noted
from byref.describe.room import Sizes
from byref.describe.rows import MAPS
from byref.describe.search import most_within

_PIECE: Final = 1 << 19
"""Characters that are encoded at once."""
_CHARS_PER_TOKEN: Final = {"text": 4.0, "json": 3.2}


@dataclass(frozen=True, slots=True, repr=False)
class Ends:
    """A text with only its ends in memory."""

    head: str
    """Its beginning; the whole text if that is short."""
    tail: str
    """Its end; the whole text if that is short."""
    characters: int
    """The length of the whole text in characters."""
    size: int
    """The length of the whole text in UTF-8 bytes."""


@dataclass(frozen=True, slots=True)
class Truncated:
    """A text's head and tail with the notice between them."""

    text: str
    tokens: int
    omitted_bytes: int
    """UTF-8 bytes that were left out; together with those of head and tail they make the size of the text."""


def notice(omitted_bytes: int) -> str:
    """Return the notice for the gap between head and tail."""
    return f"... [truncated {readable(omitted_bytes)}; head and tail preserved] ..."


def readable(size: int) -> str:
    """Return a size in decimal units with one decimal: `1.8 MB`, below 1,000 in bytes."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        if value < 999.95 or unit == "GB":
            break
    return f"{value:.1f} {unit}"


def head_of(text: str | Ends, kept: int) -> str:
    """Return a text's first characters and, on a new line, exactly how many more there are."""
    head = text if isinstance(text, str) else text.head
    characters = len(text) if isinstance(text, str) else text.characters
    shown = head[:kept]
    more = characters - len(shown)
    return f"{shown}\n...(truncated, {more} more chars)" if more else head


def head_within(text: str | Ends, *, budget: int, measure: Callable[[str], int]) -> str:
    """Return a long beginning of a text in at most `budget` tokens. It is the longest that a few tries found, not the exact best."""
    head = text if isinstance(text, str) else text.head
    found = most_within(
        budget,
        room=int(budget * _CHARS_PER_TOKEN["text"]),
        high=min(len(head), 16 * budget),
        make=lambda room: Truncated(head[:room], measure(head[:room]), 0),
        whole=lambda found: len(found.text) == len(head),
    )
    return "" if found is None else found.text


def truncate(text: str | Ends, *, budget: int, measure: Callable[[str], int]) -> Truncated:
    """Cut the middle out of `text` until head, notice and tail take at most `budget` tokens.

    The head gets two thirds of the kept text. A cut falls on the end of a line if one is near. A text that fits stays whole.
    """
    ends = Ends(text, text, len(text), _size(text)) if isinstance(text, str) else text
    if ends.characters <= min(16 * budget, len(ends.head)) and (tokens := measure(ends.head)) <= budget:
        return Truncated(ends.head, tokens, 0)
    return most_within(
        budget,
        room=int(budget * _CHARS_PER_TOKEN["text"]),
        high=min(ends.characters, 16 * budget),
        make=lambda room: _cut(ends, room, measure),
        whole=lambda found: not found.omitted_bytes,
    ) or _cut(ends, 0, measure)


def truncate_json(value: object, *, budget: int, measure: Callable[[str], int], size: int) -> Truncated:
    """Cut records and long strings out of a JSON value of `size` bytes until it takes at most `budget` tokens.

    The result is valid JSON: the notice is a string in the place of the missing part. Scalars beside it are kept.
    """
    sizes = Sizes()
    return most_within(
        budget,
        room=int(budget * _CHARS_PER_TOKEN["json"]),
        high=16 * budget + 64,
        make=lambda room: _cut_json(value, room, size, measure, sizes),
        whole=lambda found: not found.omitted_bytes,
    ) or _cut_json(value, 0, size, measure, sizes)


def incomplete_json(value: object, what: str, *, budget: int, measure: Callable[[str], int], size: int) -> str:
    """Return an array or object as `truncate_json` cuts it, with a note inside that says `what` is missing."""
    bare = noted("{}" if type(value) in MAPS else "[]", f"INCOMPLETE: {what}")
    room = budget - measure(bare)
    text = noted(truncate_json(value, budget=max(room, 1), measure=measure, size=size).text, f"INCOMPLETE: {what}")
    return text if measure(text) <= budget else bare


def _cut_json(value: object, room: int, size: int, measure: Callable[[str], int], sizes: Sizes) -> Truncated:
    tree, gaps = cut(value, room, sizes)
    omitted = max(size - _size(compact(shown(tree, None))), 0) if gaps else 0
    parts = attribute(gaps, omitted, 1.0, sizes) if gaps else {}
    text = compact(shown(tree, lambda gap: notice(parts[gap])))
    return Truncated(text, measure(text), omitted)


def _cut(ends: Ends, room: int, measure: Callable[[str], int]) -> Truncated:
    head = _to_line_end(ends.head[: room * 2 // 3])
    tail = _from_line_start(ends.tail[-(room // 3) :] if room >= 3 else "")
    omitted = ends.size - _size(head) - _size(tail)
    body = head + ("" if not head or head.endswith("\n") else "\n") + notice(omitted) + ("\n" + tail if tail else "")
    return Truncated(body, measure(body), omitted)


def _to_line_end(head: str) -> str:
    end = head.rfind("\n") + 1
    return head[:end] if end > len(head) * 3 // 4 else head


def _from_line_start(tail: str) -> str:
    start = tail.find("\n") + 1
    return tail[start:] if 0 < start < len(tail) // 4 else tail


def _size(text: str) -> int:
    if text.isascii():
        return len(text)
    # Encoding in pieces lets other threads run in between.
    return sum(len(text[at : at + _PIECE].encode("utf-8", "surrogatepass")) for at in range(0, len(text), _PIECE))
