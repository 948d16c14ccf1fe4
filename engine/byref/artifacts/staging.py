"""Staging: a payload's bytes are stored before anything refers to them, in short transactions.

A large payload would hold the session's lock, and SQLite's one writer, for as long as it takes to write. So its frames are
written first, a batch per transaction, under a blob that nobody can find: it is not published. The commit then publishes it
by one UPDATE. A small payload (`BUFFERED_BYTES`) is only compressed beforehand and written by the commit itself: one
transaction instead of three.

The bytes go into the frames' rows, or into one object of a store, of which the frames are the index. A crash may come
between any two of these steps. It leaves a blob that was never published, which a sweep deletes after `GRACE`; and because
an object is written after its blob's row, the sweep finds every object by its row.
"""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from blake3 import blake3
from sqlalchemy import Connection

from byref.artifacts import blobs
from byref.artifacts.blobs import Published
from byref.db import discards
from byref.db.payloads import Source, StoredPayload
from byref.db.tables import GRACE
from byref.errors import ArtifactMissing, StorageFailure
from byref.stores.frames import Ahead, Frame, compressing, cut
from byref.stores.keys import object_key
from byref.stores.protocol import BlobStore, is_model_readable

logger = logging.getLogger("byref")

STAGE_BATCH = 8
"""Frames written by one staging transaction. They are compressed before it begins, so that no lock is held meanwhile. For an
object: number of frames after which its blob's age is renewed, so that no sweep takes it for abandoned."""

PUT_OFF_SECONDS = GRACE.total_seconds() / 10
"""Time after which a slow stream renews its blob's age, even before a batch is full: a sweep would take it for abandoned."""

BUFFERED_BYTES = 2 << 20
"""Most bytes of one output that are kept in memory until its commit writes them; a larger payload is staged."""

BUFFERED_EACH_BYTES = 256 << 10
"""Most bytes of a payload that is one of any number, as the values of a run are, and is written by their commit."""

_ATTEMPTS = 4

Transact = Callable[[Callable[[Connection], Any]], Any]


class Leavable(Protocol):
    """A host's transaction on an event loop, whose task may be cancelled while another thread works in the transaction.

    Its methods are called from the thread that stages, and may raise; exceptions are passed on.
    """

    def on_leave(self, undo: Callable[[Connection], object]) -> None:
        """Remember `undo`, which deletes what was staged, and run it in the host's transaction if the task is cancelled."""

    def apart(self, work: Callable[[Connection], Any]) -> Any:
        """Run work in a transaction of its own and return its result; None if that is impossible, as on SQLite."""


@dataclass(frozen=True, slots=True)
class Place:
    """The database and the store to which a tenant's payloads are written."""

    transact: Transact
    tenant: str
    objects: BlobStore | None
    """The store; None: payloads are written to SQL."""
    leavable: Leavable | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes to be stored, with their digest, number of lines and content type."""

    data: bytes
    digest: bytes
    lines: int
    content_type: str


@dataclass(frozen=True, slots=True)
class Staged:
    """A blob that is staged, or was found published with the same bytes."""

    blob_id: int
    key: str
    store: str | None
    digest: bytes
    size: int
    lines: int
    content: Content | None
    """The content to write again if the blob is deleted before the commit; None for a stream, which cannot be read twice."""
    buffered: Buffered | None = None
    """The compressed bytes where nothing is staged yet, and the commit writes them."""


def begun(place: Place, data: bytes) -> Ahead | None:
    """Start to compress a payload on other threads; None if its store keeps plain bytes.

    The caller owns the result, and must give it to `stage` or close it.
    """
    return compressing(data) if _compresses(place) else None


@dataclass(frozen=True, slots=True)
class Buffered:
    """A small payload that its commit will write: its compressed frames, with checksums for the blob's key."""

    content: Content
    key: str
    frames: list[Frame]


def buffer(content: Content) -> Buffered:
    """Compress a payload that goes into SQL for `publish_buffered`."""
    key = blobs.new_key()
    return Buffered(content, key, [frame.placed(key) for frame in cut([content.data])])


def publish_buffered(connection: Connection, tenant: str, buffered: Buffered) -> Published | None:
    """Write and publish a payload; None if the tenant has a published blob with the digest.

    That blob's bytes may be damaged, and checking them under the session's lock would take too long: the caller rolls its
    commit back and uses `stage`, which checks them. A blob with the key of `buffered` is returned all the same: this very
    transaction wrote it, for an equal part of the same output.
    """
    size, lines = len(buffered.content.data), buffered.content.lines
    blob_id = blobs.publish_new(
        connection, tenant, buffered.content.digest, size, lines, buffered.frames, key=buffered.key
    )
    if blob_id is None:
        found = blobs.find_published(connection, tenant, buffered.content.digest)
        return found if found is not None and found.key == buffered.key else None
    return Published(blob_id, buffered.key, None, buffered.content.digest, size, lines)


def stage(place: Place, content: Content, ahead: Ahead | None = None) -> Staged:
    """Write a payload, unless the tenant has a published blob with the same bytes; `ahead` are its frames from `begun`.

    Published bytes are read and compared with their checksums before anything new refers to them. If they are damaged or
    lost, they are written again, which repairs every artifact that has them.
    """
    found: Published | None = place.transact(lambda c: blobs.find_published(c, place.tenant, content.digest))
    if found is None:
        return _write(place, [content.data], content.content_type, content, ahead)
    if not _is_there(place, found, len(content.data)):
        _write_again(place, found, content)
    return Staged(found.id, found.key, found.store, content.digest, len(content.data), content.lines, content)


def prepare(place: Place, content: Content, ahead: Ahead | None = None) -> Staged:
    """Do what `stage` does, but leave few bytes that go into SQL to `publish_kept`, in the commit."""
    size = len(content.data)
    if place.objects is not None or ahead is not None or size > BUFFERED_EACH_BYTES:
        return stage(place, content, ahead)
    buffered = buffer(content)
    return Staged(0, buffered.key, None, content.digest, size, content.lines, content, buffered)


def stage_stream(place: Place, pieces: Iterable[bytes], content_type: str) -> Staged:
    """Write a payload while it arrives. If its pieces raise, nothing of it is kept, and the exception is passed on.

    The digest is known only at the end, so the payload is always written, even if equal bytes exist: `publish` prefers
    those.
    """
    staged = _write(place, pieces, content_type, None)
    found = place.transact(lambda c: blobs.find_published(c, place.tenant, staged.digest))
    if found is not None and not _is_there(place, found, staged.size):
        place.transact(lambda connection: blobs.take_over(connection, place.tenant, found, staged.blob_id))
    return staged


def publish(connection: Connection, tenant: str, blob_id: int, digest: bytes) -> Published | None:
    """Return the published blob with these bytes, or publish the staged one; None if a sweep has deleted that.

    The look-up is an UPDATE, which locks the row and renews its age, so that no sweep deletes it before this commit.
    """
    return blobs.published(connection, tenant, digest) or blobs.publish(connection, tenant, blob_id)


def publish_kept(connection: Connection, place: Place, staged: Staged) -> Published:
    """Do what `publish` does, and write the bytes again if they were deleted meanwhile, or were left to this transaction.

    They are written in this transaction, which then holds its locks for longer, so that nothing can delete them again. Here, too,
    equal bytes that are published already are compared with their checksums before they are used: those of `prepare` are few.

    Raises:
        ArtifactMissing: the bytes were deleted each time, or came as a stream.
    """
    here = replace(place, transact=lambda work: work(connection), leavable=None)
    for _ in range(_ATTEMPTS):
        if staged.buffered is not None:
            published = publish_buffered(connection, place.tenant, staged.buffered)
        else:
            published = publish(connection, place.tenant, staged.blob_id, staged.digest)
        if published is not None:
            return published
        if staged.content is None:
            break
        staged = stage(here, staged.content)
    raise ArtifactMissing("the bytes were deleted again and again before anything could refer to them")


def new_key(place: Place, content_type: str) -> tuple[str | None, str]:
    """Return (name of the store or None for SQL, new key) for a blob."""
    name = blobs.new_key()
    if place.objects is None:
        return None, name
    return place.objects.name, object_key(place.tenant, name, content_type)


def abandon(place: Place, blob_id: int, key: str | None = None) -> None:
    """Delete a blob that will not be published, and its object; if that fails, a sweep does it later.

    `key` is the object's key, in case a sweep deleted the row before the object was written, so that the row cannot tell
    it. If the task of an asynchronous call was cancelled, its transaction cannot be used here: `on_leave` deletes the row.
    """

    def work(connection: Connection) -> str | None:
        found = blobs.key_of(connection, blob_id)
        blobs.delete_unused(connection, [blob_id])
        return None if blobs.key_of(connection, blob_id) else found or key

    try:
        gone: str | None = place.transact(work)
    except StorageFailure:
        logger.warning("byref left a blob that was not stored to the next sweep", exc_info=True)
        return
    except CancelledError:
        if place.leavable is not None:
            _abandon_apart(place, place.leavable, blob_id, key)
        return
    if place.objects is not None and gone is not None:
        discards.try_to_delete(place.transact, place.objects, gone)


def _abandon_apart(place: Place, left: Leavable, blob_id: int, key: str | None) -> None:
    def work(connection: Connection) -> str | None:
        found = blobs.key_of(connection, blob_id)
        return found if found and blobs.delete_staged(connection, place.tenant, found) else None

    try:
        gone: str | None = left.apart(work) or key
    except StorageFailure:
        logger.warning("byref left a blob that was not stored to the next sweep", exc_info=True)
        return
    if place.objects is not None and gone is not None:
        discards.try_to_delete(left.apart, place.objects, gone)


def _write(
    place: Place, pieces: Iterable[bytes], content_type: str, content: Content | None, ahead: Ahead | None = None
) -> Staged:
    """Write pieces as a new blob; `content` has its digest, size and lines; None for a stream, which ends before they are known."""
    tally = _Tally()
    whole = (content.digest, len(content.data), content.lines) if content else (blobs.UNSEALED, 0, 0)
    store, key = new_key(place, content_type)
    blob_id: int | None = None

    def coming() -> Iterator[bytes]:
        # A slow stream fills no batch for a long time. Its age is renewed between pieces, or a sweep would delete the blob.
        put_off_at = time.monotonic()
        for piece in tally.of(pieces):
            if blob_id is not None and time.monotonic() - put_off_at > PUT_OFF_SECONDS:
                _add(place, blob_id, [])
                put_off_at = time.monotonic()
            yield piece

    try:
        # Registered before the row exists: a cancellation may come at any time after.
        if place.leavable is not None:
            place.leavable.on_leave(lambda connection: blobs.delete_staged(connection, place.tenant, key))
        come = coming() if content is None else pieces
        with closing(ahead or cut(come, compresses=_compresses(place))) as cuts:
            frames = (frame.placed(key) for frame in cuts)
            # One transaction writes the blob's row and its first frames, which is all for most payloads. An object is written
            # only after its blob's row, so that a sweep can find it by the row.
            first = list(islice(frames, STAGE_BATCH)) if place.objects is None else []

            def begin(connection: Connection) -> int:
                staged = blobs.stage(connection, place.tenant, *whole, key=key, store=store)
                blobs.add_frames(connection, place.tenant, staged, first)
                return staged

            blob_id = int(place.transact(begin))
            if place.objects is None:
                while batch := list(islice(frames, STAGE_BATCH)):
                    _add(place, blob_id, batch)
            else:
                _add(place, blob_id, _write_object(place, place.objects, blob_id, key, frames, content_type))
        if content is None:  # a stream: only now its digest is known
            whole = tally.digest(), tally.size, tally.lines
            if not place.transact(lambda connection: blobs.seal(connection, place.tenant, blob_id, *whole)):
                raise StorageFailure("what was staged of a stream was swept while it came: it came too slowly")
    except BaseException:  # CancelledError and KeyboardInterrupt too: what was staged must not stay
        if blob_id is not None:
            abandon(place, blob_id, key)
        raise
    return Staged(blob_id, key, store, *whole, content)


def _add(place: Place, blob_id: int, frames: list[Frame]) -> None:
    """Write frames, if any, and renew the blob's age, so that no sweep takes it for abandoned."""

    def work(connection: Connection) -> None:
        if not blobs.put_off(connection, place.tenant, blob_id):
            raise StorageFailure("what was staged was swept while it was written: it was written too slowly")
        blobs.add_frames(connection, place.tenant, blob_id, frames)

    place.transact(work)


def _write_object(
    place: Place, objects: BlobStore, blob_id: int, key: str, frames: Iterable[Frame], content_type: str
) -> list[Frame]:
    """Write the frames as one object and return its index: frames without data, with their places in the object."""
    index: list[Frame] = []

    def parts() -> Iterator[bytes]:
        offset = 0
        for frame in frames:
            data = bytes(frame.data or b"")
            # Only the place of each frame stays in memory; its bytes go to the store at once.
            index.append(replace(frame, data=None, object_offset=offset, object_bytes=len(data)))
            offset += len(data)
            yield data
            if len(index) % STAGE_BATCH == 0:
                _add(place, blob_id, [])

    objects.write(key, parts(), content_type=content_type)
    return index


def _is_there(place: Place, found: Published, size: int) -> bool:
    """Tell whether a published blob's bytes can be read here, and are the ones that were stored.

    They may be in a store that the engine does not have any more, or that has lost them. If models read objects at the
    store's paths, bytes in SQL count as missing, because no model can read them there.
    """
    if found.store is None:
        if is_model_readable(place.objects):
            return False
    elif place.objects is None or place.objects.name != found.store:
        return False
    source = Source(place.transact, place.objects, place.transact)
    return StoredPayload(found.id, found.key, found.store, size, 0, source).is_sound()


def _write_again(place: Place, found: Published, content: Content) -> None:
    """Repair a published blob: stage its bytes as a new blob, then replace the lost ones in one transaction."""
    staged = _write(place, [content.data], content.content_type, content)
    place.transact(lambda connection: blobs.take_over(connection, place.tenant, found, staged.blob_id))


def _compresses(place: Place) -> bool:
    return place.objects is None or place.objects.compresses


class _Tally:
    """Computes the digest, size and number of lines of a stream while it passes."""

    def __init__(self) -> None:
        self._hash = blake3()
        self._line_feeds = 0
        self._last = b""
        self.size = 0

    def of(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._hash.update(piece)
            self._line_feeds += piece.count(b"\n")
            self.size += len(piece)
            self._last = piece[-1:] or self._last
            yield piece

    def digest(self) -> bytes:
        return bytes(self._hash.digest())

    @property
    def lines(self) -> int:
        return self._line_feeds + (self._last not in (b"", b"\n"))
