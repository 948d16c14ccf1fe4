"""Names that clients see: as the server says them, with its own name in front where two say the same."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable

NAME_CHARS = 64
"""What every client, and every provider behind it, takes."""
SEPARATOR = "__"
_SERVER_CHARS = 24
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")

Key = tuple[str, str]
"""A server's name, and what it calls the thing."""


class Names:
    """The names given so far. Once given, a name stays with what it was given for, for as long as the gateway runs."""

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self._reserved = frozenset(reserved)
        self._given: dict[Key, str] = {}
        self._taken: set[str] = set(reserved)

    def assign(self, keys: Iterable[Key]) -> dict[Key, str]:
        """Return a name of at most 64 letters, digits, `_` and `-` for each key, no two the same.

        It is the name as it is, if no other server and none of our own tools has it, else `server__name`.
        """
        keys = list(dict.fromkeys(keys))
        plain = Counter(name for _, name in {(server, safe(name)) for server, name in keys})
        # What needs no change comes first, so that it gets its own name.
        for key in sorted(keys, key=lambda key: safe(key[1]) != key[1]):
            if key not in self._given:
                self._given[key] = self._name(key, is_shared=plain[safe(key[1])] > 1)
                self._taken.add(self._given[key])
        return {key: self._given[key] for key in keys}

    def server_of(self, given: str) -> str | None:
        """Return whose name it is, also if what it named is not listed any more."""
        return next((server for (server, _), name in self._given.items() if name == given), None)

    def _name(self, key: Key, *, is_shared: bool) -> str:
        server, name = key
        if not is_shared and (bare := safe(name)) not in self._taken:
            return bare
        full = f"{safe(server)[:_SERVER_CHARS]}{SEPARATOR}{safe(name)}"
        if len(full) <= NAME_CHARS and full not in self._taken:
            return full
        return _marked(full, key)


def safe(name: str) -> str:
    """Return a name with only what every client takes; what has to be cut is told apart by a digest."""
    clean = _UNSAFE.sub("_", name) or "_"
    return clean if len(clean) <= NAME_CHARS else _marked(clean, ("", name))


def _marked(name: str, key: Key) -> str:
    digest = hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name[: NAME_CHARS - 9]}_{digest}"
