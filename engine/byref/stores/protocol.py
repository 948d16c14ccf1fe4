"""What byref asks of a place for bytes outside SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeGuard, runtime_checkable

from byref.errors import ConfigurationError
from byref.stores.keys import object_key

NAME_CHARS = 20
"""Of a store's name."""
URI_CHARS = 4_096
"""Most of a path or URL that a model is shown; as long as a path may be on Linux."""


@runtime_checkable
class BlobStore(Protocol):
    """Keeps objects of bytes by key. `byref.stores.contract` holds the tests of all that is said here.

    Ownership: the host makes a store, hands it to any number of engines (`Engine(blobs=…)`) and closes it, if that is needed;
    an engine neither closes nor copies it. SQL holds the truth: an object that SQL does not know is garbage, which a sweep
    deletes. So all engines of a store work with one database: of two, each would delete the other's objects.

    Threads: every method is called from any thread, several at once, and from a forked child as well. Each call ends in
    bounded time, whatever the other side does: a turn of a conversation waits for it.

    Errors: a key of another form than `object_key` makes is an `InvalidId` (`check_key` raises it); an object that is not
    there, or ends too early, an `ArtifactMissing`; a store that cannot be reached, or refuses, a `StorageFailure`. No text
    of theirs has a secret in it. Whatever else a method raises is told to the host as a `StorageFailure`.

    A store may have an attribute `model_readable`, too: True says that models read its objects at their paths, with tools of
    the host's.
    """

    name: str
    """Short and lasting: SQL says of each blob which store has it, by this name."""
    compresses: bool
    """Whether byref may keep compressed frames in it; False: an object is the plain bytes, for other programs to read."""

    def write(self, key: str, parts: Iterable[bytes], *, content_type: str) -> None:
        """Keep an object durably, in place of any of that key: readers see the old one or the new one whole.

        `parts` are `bytes` of 0 to 1 MiB each. They are taken in one pass, in the calling thread and in bounded memory, and
        are the caller's: they are not kept after the call. What they raise passes on, and then all is as it was before. A
        write that fails may leave the new object only if it is whole. `content_type` is for other programs that read it.

        When this returns the object is on the disk, or wherever the store keeps it for good: SQL commits a row that refers
        to it next.
        """

    def read(self, key: str, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes of an object from the byte `offset` on.

        Raises:
            ArtifactMissing: there is no such object, or it ends before.
            ValueError: `offset` or `size` is negative.
        """

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, at most 500 at a time; those that are not there are no error.

        Where this raises some of them may be gone: the same keys are given again later.
        """

    def keys(self, *, older_than: datetime) -> Iterator[str]:
        """Yield the key of every object last written before an aware time, in any order and in bounded memory.

        Objects may come and go while this is read, some of them deleted by whoever reads it. What else lies in the same
        place, files of the host's say, is passed over.
        """

    def uri(self, key: str) -> str | None:
        """Return what another program opens, a path or a URL in one line; None where nothing outside this process can.

        It is asked for keys whose object is not written yet, too.
        """


@runtime_checkable
class KeepsDrafts(Protocol):
    """What a store has besides where a process that dies in `write` leaves bytes behind that are no object yet."""

    def drafts(self, *, older_than: datetime, folder: str | None = None) -> Iterator[str]:
        """Yield a name of each that nobody writes any more, last written before a time; `folder`: of keys that begin so."""

    def take_drafts(self, *, older_than: datetime, folder: str | None = None) -> int:
        """Remove them and return how many; what is being written stays, whatever its age."""


def check_store(store: Any) -> None:
    """Raise ConfigurationError for what is no store, or has a name that SQL cannot keep."""
    if isinstance(store, type) or not isinstance(store, BlobStore):
        raise ConfigurationError(
            f"blobs={_named(store)}: expected a store, as FileStore(folder) or ObjectStore(url) of byref.stores"
        )
    name = store.name
    if not (isinstance(name, str) and 1 <= len(name) <= NAME_CHARS and name.isascii() and name.isprintable()):
        raise ConfigurationError(
            f"blobs: the store's name is {name!r:.100}: expected 1 to {NAME_CHARS} ASCII characters"
        )
    check_model_readable(store)


def _named(store: Any) -> str:
    """What was given instead, without its value: a URL may have a key in it."""
    return store.__name__ if isinstance(store, type) else f"{type(store).__name__}(…)"


def is_model_readable(store: object) -> bool:
    """Tell whether the host said of a store that its model reads at the store's paths, with tools of the host's."""
    return getattr(store, "model_readable", False) is True


def check_model_readable(store: BlobStore) -> None:
    """Raise ConfigurationError where a store says that models read at its paths, and has none at which they could."""
    said: object = getattr(store, "model_readable", False)
    if type(said) is not bool:
        raise ConfigurationError(f"model_readable={said!r:.100}: expected True or False")
    if said and (store.compresses or not is_shown(store.uri(object_key("default", "0" * 32, "application/json")))):
        raise ConfigurationError(
            f"model_readable=True: the store {store.name!r} has no paths, in one line of text, at which other programs "
            "find the bytes as they are. FileStore(folder) has, and ObjectStore(url) unless it compresses"
        )


def is_shown(path: object) -> TypeGuard[str]:
    """Tell whether a path or URL is one line of text, and no longer than a model is shown."""
    return isinstance(path, str) and path.isprintable() and len(path) <= URI_CHARS
