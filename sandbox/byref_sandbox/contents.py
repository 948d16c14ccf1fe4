"""The table of contents of a session's state: all that a host understands of the names that code has left.

A run writes the state and another run reads it, both inside the jail (`byref_sandbox.state`). The host stores its streams and blobs
as opaque bytes by digest; this table tells it which of them a run needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import msgspec

FRAME: Final = ".df."
"""Begins the first step of a path to the DataFrame of a variable."""
SETTINGS: Final = ".settings."
"""Begins the names of settings of libraries, which code cannot spell."""
OTHER_INFERENCE: Final = f"{SETTINGS}inference"
"""Stands among them where pandas' options of making columns of text are not those of its beginning."""
LAST: Final = "_"
"""The name of the last value of earlier runs."""
OWN_DUNDERS: Final = frozenset(["__all__", "__author__", "__version__", "__doc__", "__date__", "__license__"])
"""Names of the form `__x__` that code may bind; all others belong to the language."""
MAX_CONTENTS_BYTES: Final = 8 << 20
"""Maximum bytes of a table. Read, it takes up to 25 times as much memory."""
MAX_PROGRAM_CHARS: Final = 4_000_000
"""Maximum characters of all programs whose functions and classes are kept."""
MAX_LAST_BYTES: Final = 64 << 10
"""Maximum bytes of the last value that are kept: nearly every run has one, and few runs use that of another."""
_MAX_NAMES: Final = 10_000
_MAX_NAME_CHARS: Final = 512
_Few = msgspec.Meta(max_length=_MAX_NAMES)
"""Checked before what a table has so many of is read."""

Path = tuple[str | int, ...]
"""The name of a variable of tool data, or that after `FRAME` for its DataFrame; then keys and indexes in it."""


class Versions(msgspec.Struct, frozen=True):
    """What a stream was written with: bytes are read only where all of it is the same."""

    format: int
    python: str
    numpy: str
    pandas: str
    pyarrow: str
    builders: str
    """A digest of what the streams call."""


NO_VERSIONS: Final = Versions(0, "", "", "", "", "")
"""Of contents that no run wrote: each run takes them for those of another version."""


class Name(msgspec.Struct, array_like=True, frozen=True):
    """Where a name is in its part."""

    name: str
    size: int
    pickles: int
    leaves: int = 0
    """How many of the part's blobs are its own."""


class Part(msgspec.Struct, frozen=True):
    """A stream: its names one after the other."""

    names: Annotated[list[Name], _Few]
    leaves: list[bytes]
    """Digests of its blobs, in the order in which the stream takes them; one blob may be there twice. Of each large buffer there are several,
    so that only those are stored anew in which something has changed."""
    digest: bytes
    """Of the stream."""
    paths: list[Path] = []
    """Of objects in tool data that it refers to."""
    imports: list[int] = []
    """Of exports of the base that it refers to."""
    filler: int = 0
    """Numbers of the memo that nothing stands for."""
    programs: Annotated[list[bytes], _Few] = []
    """Of the functions in it."""
    libraries: Annotated[list[str], _Few] = []
    """Of those that are loaded only when code needs them: what it takes to read it."""
    pieces: list[int] = []
    """How many of the blobs are each buffer, in order; none where each is one."""

    def buffers(self) -> Iterator[list[bytes]]:
        """The digests of the blobs of each buffer of the stream."""
        left = iter(self.leaves)
        return (list(itertools.islice(left, count)) for count in (self.pieces or itertools.repeat(1, len(self.leaves))))


class Contents(msgspec.Struct, frozen=True):
    """The table of contents of a session's names."""

    versions: Versions
    parts: Annotated[list[Part], _Few]
    """The first is the base."""
    programs: Annotated[dict[bytes, str], _Few]
    """Texts of programs whose functions and classes are in the parts, by digest."""
    definitions: Annotated[dict[str, bytes], _Few] = {}
    """Names of functions and classes that a statement of a program defines: its digest."""
    looks_up: Annotated[dict[str, list[str]], _Few] = {}
    """Names that such a function or class may look up when it runs."""
    always: list[str] = []
    """Names that any other object may look up."""

    def names(self) -> frozenset[str]:
        """All names of the session that are kept here."""
        found = {name.name for part in self.parts for name in part.names if not name.name.startswith(".")}
        return frozenset(found.union(self.definitions))

    def settings(self) -> frozenset[str]:
        """Names of the settings of libraries that are kept here."""
        return frozenset(name.name for part in self.parts for name in part.names if name.name.startswith(SETTINGS))

    def looked_up(self, names: Iterable[str]) -> frozenset[str]:
        """All names that what these names stand for may look up."""
        found = set(self.always)
        seen = found.union(names)
        waiting = [*seen]
        while waiting:  # each name once: a run may have forged a long chain of them
            further = self.looks_up.get(waiting.pop(), ())
            found.update(further)
            waiting += set(further) - seen
            seen.update(further)
        return frozenset(found)

    def wanted(self, names: Iterable[str]) -> frozenset[str]:
        """These names, and all that what they stand for may look up."""
        return self.looked_up(names).union(names)

    def needed(self, wanted: frozenset[str] | None) -> list[Part]:
        """The parts that a run reads which wants these names, or, of None, all."""
        return self.parts[:1] + [
            part for part in self.parts[1:] if wanted is None or any(name.name in wanted for name in part.names)
        ]


def is_of_code(name: str) -> bool:
    """Whether code may have bound a name. A run that keeps another one tries to replace a part of the language."""
    is_dunder = name.startswith("__") and name.endswith("__")
    return name.isidentifier() and (not is_dunder or name in OWN_DUNDERS)


class Last(msgspec.Struct, frozen=True):
    """The last value that a run has shown, for the next one as `_`: a stream of its own, which shares nothing with others."""

    versions: Versions
    why: str = ""
    """Why there is none."""
    body: bytes = b""
    """The stream; empty if there is none."""
    pickles: int = 0
    libraries: list[str] = []
    """Of those that are loaded only when code needs them: what it takes to read it."""


_DECODER: Final = msgspec.msgpack.Decoder(Contents)


def decode_contents(data: bytes) -> Contents:
    """Contents from the bytes in which they are stored. Raises ValueError."""
    if len(data) > MAX_CONTENTS_BYTES:
        raise ValueError(f"a table of contents of {len(data):,} bytes; at most {MAX_CONTENTS_BYTES:,} are read")
    try:
        contents = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no table of contents of a session: {error}") from None
    # A run wrote it, which may have left the language: the host looks up these names and paths.
    names = [name.name for part in contents.parts for name in part.names if not name.name.startswith(".")]
    names += contents.definitions
    if len(names) > _MAX_NAMES or not all(name.isidentifier() and len(name) <= _MAX_NAME_CHARS for name in names):
        raise ValueError("a table of contents with what is no name, or too many of them")
    if sum(map(len, contents.programs.values())) > MAX_PROGRAM_CHARS:
        raise ValueError(f"a table of contents with programs of more than {MAX_PROGRAM_CHARS:,} characters")
    if not all(path and type(path[0]) is str for part in contents.parts for path in part.paths):
        raise ValueError("a table of contents with a path that does not begin with a variable")
    return contents


def decode_last(data: bytes) -> Last:
    """The last value from the bytes in which it is stored. Raises ValueError."""
    if len(data) > 2 * MAX_LAST_BYTES:
        raise ValueError(f"a last value of {len(data):,} bytes")
    try:
        return _LAST_DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no last value of a session: {error}") from None


_LAST_DECODER: Final = msgspec.msgpack.Decoder(Last)


def encode_last(last: Last) -> bytes:
    """The bytes in which a last value is stored."""
    return msgspec.msgpack.encode(last)


def encode_contents(contents: Contents) -> bytes:
    """The bytes in which contents are stored."""
    return msgspec.msgpack.encode(contents)


def blobs_of(parts: Iterable[Part]) -> list[bytes]:
    """Digests of the streams and blobs of some parts, each once."""
    return list(dict.fromkeys(digest for part in parts for digest in (part.digest, *part.leaves)))
