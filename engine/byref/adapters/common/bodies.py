"""Bodies of HTTP requests: how much of them is in memory at once, and how many values are in one."""

from __future__ import annotations

from collections import Counter
from typing import Final

import anyio

MAX_VALUES: Final = 1_000_000
"""Values in a body's JSON: each costs a hundred times its bytes in memory, and all requests wait while it is parsed."""
PIECE_BYTES = 256 << 10
"""Bytes of a body that are examined before other requests have their turn."""


class Bodies:
    """Counts the bytes of each tenant's bodies in progress, of which there are at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes: Counter[str] = Counter()
        self._changed = anyio.Event()

    async def take(self, tenant: str, size: int) -> None:
        """Wait until there is room; a tenant's first body always has room."""
        while size and self._bytes[tenant] and self._bytes[tenant] + size > self._most:
            await self._changed.wait()
        self._bytes[tenant] += size

    def give_back(self, tenant: str, size: int) -> None:
        """Let others have the room of so many bytes."""
        self._bytes[tenant] -= size
        if not self._bytes[tenant]:
            del self._bytes[tenant]
        self._changed.set()
        self._changed = anyio.Event()


async def has_more_values(body: bytes, most: int) -> bool:
    """Tell whether JSON has more than `most` values, without parsing it: by counting separators outside of strings."""
    # Counting in the whole text, strings included, only overestimates, so few separators need no closer look.
    if _values(body) <= most:
        return False
    found, is_inside, begin = 0, False, 0
    while begin < len(body):
        end = begin + PIECE_BYTES
        while body[end - 1 : end] == b"\\":  # do not separate a backslash from what it escapes
            end += 1
        texts = body[begin:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        found += _values(b"".join(texts[is_inside::2]))
        if found > most:
            return True
        is_inside ^= len(texts) % 2 == 0
        begin = end
        await anyio.sleep(0)
    return False


def _values(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
