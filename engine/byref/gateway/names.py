"""Names that clients see: as the server says them where nobody else may be meant, else with the server's own name in front.

Which it is depends on the configuration and on what the servers list, never on who lists it first: as long as a server has
not said what it has, names are given in their long form, which no other server can have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence

NAME_CHARS = 64
"""What every client, and every provider behind it, takes."""
SEPARATOR = "__"
MAX_NAMES = 20_000
"""Of one server, in the life of a gateway; what it lists under others then is left out."""
_SERVER_CHARS = 24
_OURS = "byref"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_RUNS = re.compile(r"[_-]{2,}")
_SIMILAR = str.maketrans("01i", "oll", "_-")

Key = tuple[str, str]
"""A server's name, and what it calls the thing."""


class Names:
    """The names given so far. Once given, a name stays with what it was given for, for as long as the gateway runs."""

    def __init__(self, reserved: Collection[str] = (), servers: Sequence[str] = ()) -> None:
        """`reserved`: names that are no server's; `servers`: all that there may be, in the order of the configuration."""
        self._reserved = {alike(name) for name in reserved}
        self._given: dict[Key, str] = {}
        self._count: dict[str, int] = {}
        self._taken: set[str] = set(reserved)
        self._prefixes: dict[str, str] = {}
        self._servers: dict[str, str] = {alike(_OURS): ""}
        """Whose a prefix is, or what looks like it; none is a server's of the gateway's own name."""
        for server in servers:
            self.prefix(server)

    def assign(self, keys: Iterable[Key], *, is_all: bool = True) -> dict[Key, str]:
        """Return a name of at most 64 letters, digits, `_` and `-` for each key, no two the same.

        It is the name as it is if `is_all` (no server is still to be heard of) and no other server and no tool of our own has
        it or one that looks like it, and if it does not begin as another server's names do; else `server__name`.
        """
        keys = [key for key in dict.fromkeys(keys) if key in self._given or self._count.get(key[0], 0) < MAX_NAMES]
        if all(key in self._given for key in keys):
            return {key: self._given[key] for key in keys}
        owners: dict[str, set[str]] = {}
        for server, name in keys:
            for form in {alike(safe(name)), alike(self.prefix(server) + safe(name))}:
                owners.setdefault(form, set()).add(server)
        # What needs no change comes first, so that it gets its own name.
        for key in sorted(keys, key=lambda key: (safe(key[1]) != key[1], key[1])):
            server, name = key
            if key not in self._given and self._count.get(server, 0) < MAX_NAMES:
                is_plain = is_all and owners[alike(safe(name))] == {server} and self._is_its_own(server, safe(name))
                self._taken.add(given := self._name(key, is_plain=is_plain))
                self._given[key] = given
                self._count[server] = self._count.get(server, 0) + 1
        return {key: self._given[key] for key in keys if key in self._given}

    def __contains__(self, given: str) -> bool:
        """Tell whether a name was given to something, or is no server's."""
        return given in self._taken

    def server_of(self, given: str) -> str | None:
        """Return whose name it is, also if what it named is not listed any more."""
        return next((server for (server, _), name in self._given.items() if name == given), None)

    def like(self, name: str) -> list[str]:
        """Return the names that were given to what servers call so, or nearly so."""
        return [given for (_, own), given in self._given.items() if alike(safe(own)) == alike(name)]

    def _is_its_own(self, server: str, name: str) -> bool:
        """Whether nobody takes a name for one of another server or of ours."""
        if alike(name) in self._reserved or alike(name).startswith(alike(_OURS)):
            return False
        head, *others = _RUNS.split(name)
        return not others or self._servers.get(alike(head), server) == server

    def _name(self, key: Key, *, is_plain: bool) -> str:
        server, name = key
        if is_plain and (bare := safe(name)) not in self._taken:
            return bare
        full = f"{self.prefix(server)}{SEPARATOR}{safe(name)}"
        if len(full) <= NAME_CHARS and full not in self._taken:
            return full
        found, salt = _marked(full, key), 0
        while found in self._taken:
            found, salt = _marked(full, (*key, str(salt))), salt + 1
        return found

    def prefix(self, server: str) -> str:
        """Return what stands before the separator in a server's names: no other's is like it, and the separator is not in it."""
        if (known := self._prefixes.get(server)) is not None:
            return known
        prefix = _RUNS.sub("_", _UNSAFE.sub("_", server))[:_SERVER_CHARS].strip("_-") or "server"
        if alike(prefix) in self._servers:
            prefix = f"{prefix}_{_digest((server,))}"
        self._servers[alike(prefix)] = server
        self._prefixes[server] = prefix
        return prefix


def safe(name: str) -> str:
    """Return a name with only what every client takes; what has to be cut is told apart by a digest."""
    clean = _UNSAFE.sub("_", name) or "_"
    return clean if len(clean) <= NAME_CHARS else _marked(clean, ("", name))


def alike(name: str) -> str:
    """Return what names have in common that a reader takes for the same: case, separators, `l` and `1`, `o` and `0`."""
    return name.casefold().translate(_SIMILAR)


def _marked(name: str, key: tuple[str, ...]) -> str:
    return f"{name[: NAME_CHARS - 9]}_{_digest(key)}"


def _digest(key: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:8]
