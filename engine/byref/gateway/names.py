"""The names that clients see: the server's own name for a thing if it is unambiguous, else with the server's prefix.

The choice depends on the configuration and on the servers' lists, never on which server lists a name first. While some server has
not listed yet, names get their long form, which no other server can have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence

NAME_CHARS = 64
"""Length that every client, and every provider behind it, accepts."""
SEPARATOR = "__"
MAX_NAMES = 20_000
"""Names of one server in the life of a conversation; further ones are left out."""
_SERVER_CHARS = 24
_OURS = "byref"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_RUNS = re.compile(r"[_-]{2,}")
_SIMILAR = str.maketrans("01i", "oll", "_-")

Key = tuple[str, str]
"""A server's name, and the server's own name for the thing."""


class Names:
    """The names given so far. A name once given is never given to another thing."""

    def __init__(self, reserved: Collection[str] = (), servers: Sequence[str] = ()) -> None:
        """`reserved`: names of byref's own; `servers`: all servers, in the order of the configuration."""
        self._reserved = {alike(name) for name in reserved}
        self._given: dict[Key, str] = {}
        self._count: dict[str, int] = {}
        self._taken: set[str] = set(reserved)
        self._prefixes: dict[str, str] = {}
        self._servers: dict[str, str] = {alike(_OURS): ""}
        """The server of each prefix, in the form of `alike`; byref's own prefix belongs to no server."""
        for server in servers:
            self.prefix(server)

    def assign(self, keys: Iterable[Key], *, is_all: bool = True) -> dict[Key, str]:
        """Return a name of at most 64 letters, digits, `_` and `-` for each key; no two are the same.

        A thing keeps its own name if `is_all` is set (every server has listed), if no other server and no tool of byref's has a
        name that looks like it, and if it does not begin with another server's prefix. Otherwise its name is `server__name`.
        """
        keys = [key for key in dict.fromkeys(keys) if key in self._given or self._count.get(key[0], 0) < MAX_NAMES]
        if all(key in self._given for key in keys):
            return {key: self._given[key] for key in keys}
        owners: dict[str, set[str]] = {}
        for server, name in keys:
            for form in {alike(safe(name)), alike(self.prefix(server) + safe(name))}:
                owners.setdefault(form, set()).add(server)
        # Names that are valid unchanged come first, so that no changed name can take one of theirs.
        for key in sorted(keys, key=lambda key: (safe(key[1]) != key[1], key[1])):
            server, name = key
            if key not in self._given and self._count.get(server, 0) < MAX_NAMES:
                is_plain = is_all and owners[alike(safe(name))] == {server} and self._is_its_own(server, safe(name))
                self._taken.add(given := self._name(key, is_plain=is_plain))
                self._given[key] = given
                self._count[server] = self._count.get(server, 0) + 1
        return {key: self._given[key] for key in keys if key in self._given}

    def __contains__(self, given: str) -> bool:
        """Tell whether a name was given, or is reserved."""
        return given in self._taken

    def server_of(self, given: str) -> str | None:
        """Return the server that a name was given for, even if the server does not list the thing any more."""
        return next((server for (server, _), name in self._given.items() if name == given), None)

    def like(self, name: str) -> list[str]:
        """Return the given names whose original name looks like this one."""
        return [given for (_, own), given in self._given.items() if alike(safe(own)) == alike(name)]

    def _is_its_own(self, server: str, name: str) -> bool:
        """Tell whether a name cannot be mistaken for one of another server or of byref."""
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
        """Return a server's prefix: it looks like no other server's, and does not contain the separator."""
        if (known := self._prefixes.get(server)) is not None:
            return known
        prefix = _RUNS.sub("_", _UNSAFE.sub("_", server))[:_SERVER_CHARS].strip("_-") or "server"
        if alike(prefix) in self._servers:
            prefix = f"{prefix}_{_digest((server,))}"
        self._servers[alike(prefix)] = server
        self._prefixes[server] = prefix
        return prefix


def safe(name: str) -> str:
    """Return a name made of the characters and length that every client accepts; a name that is cut gets a digest."""
    clean = _UNSAFE.sub("_", name) or "_"
    return clean if len(clean) <= NAME_CHARS else _marked(clean, ("", name))


def alike(name: str) -> str:
    """Map names that a reader takes for the same to one form: case, separators, `l` and `1`, `o` and `0`."""
    return name.casefold().translate(_SIMILAR)


def _marked(name: str, key: tuple[str, ...]) -> str:
    return f"{name[: NAME_CHARS - 9]}_{_digest(key)}"


def _digest(key: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:8]
