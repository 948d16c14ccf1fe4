"""Text cut to its head and tail, with a notice that says exactly how much is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_CHARS_PER_TOKEN = 4.0
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Truncated:
    """A text's head and tail around the notice."""

    text: str
    tokens: int
    omitted_bytes: int
    """UTF-8 bytes left out: those of head and tail and these are all of the text's."""


def notice(omitted_bytes: int) -> str:
    """Return the notice that stands in the gap."""
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


def truncate(text: str, *, budget: int, measure: Callable[[str], int]) -> Truncated:
    """Cut the middle out of `text` until head, notice and tail take at most `budget` tokens.

    Two thirds of what is kept are head. Cuts fall on line ends where there is one nearby. The whole text where it fits.
    """
    size = _size(text)
    if len(text) <= 16 * budget and (tokens := measure(text)) <= budget:
        return Truncated(text, tokens, 0)
    room, low, high = int(budget * _CHARS_PER_TOKEN), 0, min(len(text), 16 * budget)
    best: Truncated | None = None
    for _ in range(_ROUNDS):
        found = _cut(text, min(room, high), size, measure)
        if found.tokens <= budget:
            best, low = found, room
            if found.tokens >= 0.93 * budget:
                break
        else:
            high = min(high, room) - 1
        if low >= high:
            break
        wanted = int(room * 0.97 * budget / max(found.tokens, 1))
        room = wanted if low < wanted < high else (low + high + 1) // 2
    return best or _cut(text, 0, size, measure)


def _cut(text: str, room: int, size: int, measure: Callable[[str], int]) -> Truncated:
    head = _to_line_end(text[: room * 2 // 3])
    tail = _from_line_start(text[len(text) - room // 3 :] if room >= 3 else "")
    omitted = size - _size(head) - _size(tail)
    body = head + ("" if not head or head.endswith("\n") else "\n") + notice(omitted) + ("\n" + tail if tail else "")
    return Truncated(body, measure(body), omitted)


def _to_line_end(head: str) -> str:
    end = head.rfind("\n") + 1
    return head[:end] if end > len(head) * 3 // 4 else head


def _from_line_start(tail: str) -> str:
    start = tail.find("\n") + 1
    return tail[start:] if 0 < start < len(tail) // 4 else tail


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
