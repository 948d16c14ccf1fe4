"""Read stored bytes frame by frame: from the frames' rows in SQL, or from an object of which these rows are the index."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from blake3 import blake3
from sqlalchemy import Connection, and_, bindparam, func, select, update
from sqlalchemy.orm import aliased

from byref.db.tables import BlobRow, FrameRow
from byref.errors import ArtifactMissing, ByrefError
from byref.stores.frames import FRAME_BYTES, beginning, checksum, unpack, unpack_from
from byref.stores.protocol import BlobStore

logger = logging.getLogger("byref")

READ_AHEAD = 4
"""Number of frames fetched by one query, or by one request to a store; also of those that are unpacked ahead of a reader."""
MOST_AHEAD = 16
"""The same for a reader that goes on, if the frames pack so well that all have about as many bytes as `READ_AHEAD` of full size."""

_FRAMES: Any = (  # SQLAlchemy 2.0 and 2.1 spell the type of a query differently
    select(
        FrameRow.number,
        FrameRow.byte_offset,
        FrameRow.first_line,
        FrameRow.codec,
        FrameRow.size_bytes,
        FrameRow.data,
        FrameRow.object_offset,
        FrameRow.object_bytes,
        FrameRow.checksum,
    )
    .join(BlobRow, and_(BlobRow.id == FrameRow.blob_id, BlobRow.tenant == FrameRow.tenant))
    .where(
        FrameRow.blob_id == bindparam("blob_id"),
        BlobRow.key == bindparam("key"),
    )
    .order_by(FrameRow.number)
    .limit(bindparam("most"))
)
_FROM_NUMBER = _FRAMES.where(FrameRow.number >= bindparam("number"))
_EARLIER = aliased(FrameRow)
# From the last frame that begins on an earlier line: it holds the line's first byte, or ends right before it.
_FROM_LINE = _FRAMES.where(
    FrameRow.number
    >= func.coalesce(
        select(_EARLIER.number)
        .where(_EARLIER.blob_id == bindparam("blob_id"), _EARLIER.first_line < bindparam("line"))
        .order_by(_EARLIER.first_line.desc(), _EARLIER.number.desc())
        .limit(1)
        .scalar_subquery(),
        0,
    )
)
# From the last frame that begins at or before a byte of the payload.
_FROM_BYTE = _FRAMES.where(
    FrameRow.number
    >= select(func.max(_EARLIER.number))
    .where(_EARLIER.blob_id == bindparam("blob_id"), _EARLIER.byte_offset <= bindparam("byte"))
    .scalar_subquery()
)

_SEAL = (
    update(FrameRow)
    .where(FrameRow.blob_id == bindparam("of_blob"), FrameRow.number == bindparam("of_number"))
    .where(FrameRow.checksum.is_(None))
)

Read = Callable[[Callable[[Connection], Any]], Any]
"""Runs work in a transaction and returns the work's result."""


@dataclass(frozen=True, slots=True)
class Source:
    """The database, and the store of objects if there is one, from which stored bytes are read."""

    read: Read
    """Runs work that consists of one statement."""
    objects: BlobStore | None = None
    write: Read | None = None
    """Runs work in a transaction of its own, to add checksums to frames that have none; None: they stay without."""
    follow: Callable[[int, float | None, datetime | None], Callable[[], None] | None] | None = None
    """Returns the function to call when an artifact is used, given its row id, time to live in seconds and expiry."""
    as_json: Callable[[StoredPayload, bytes], bytes] | None = None
    """Returns the JSON of a value that is stored with its types alone, given its payload and digest; None: nothing here can read it."""


def uri_of(objects: BlobStore | None, store: str | None, key: str) -> str | None:
    """Return the path or URL at which another program can read a blob's plain bytes; None if there is none."""
    if store is None or objects is None or objects.name != store or objects.compresses:
        return None
    return objects.uri(key)


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A published blob's bytes, read a few frames at a time, each time in a short transaction of its own."""

    blob_id: int
    key: str
    """The blob's key. It is compared at each read, so that a row id reused after a rollback finds nothing."""
    store: str | None
    """The name of the store that has the object with this key; None: the bytes are in SQL."""
    size: int
    line_count: int
    source: Source = field(compare=False, repr=False)
    used: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """Called whenever a part of the payload is read."""
    compared: dict[int, bytes] = field(default_factory=dict, compare=False, repr=False)
    """Checksums of frames whose rows have none, computed when the whole payload was compared with its digest."""

    @property
    def uri(self) -> str | None:
        """The path or URL at which another program can read the plain bytes; None if there is none."""
        return uri_of(self.source.objects, self.store, self.key)

    def chunks(self, line: int = 1) -> Iterator[tuple[int, bytes]]:
        """Yield (1-based line on which the chunk begins, bytes) from a chunk with the beginning of `line`, or right before it, on."""
        return self._joined(self._frames(_FROM_LINE, line=line))

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield (1-based line on which the frame begins, bytes) of each frame: faster than `chunks` for who reads all."""
        return self._joined(self._frames(_FROM_NUMBER, number=0))

    def _joined(self, parts: Iterator[tuple[int, int, bytes]]) -> Iterator[tuple[int, bytes]]:
        end = None
        for offset, first_line, data in parts:
            # Frames may have been deleted, or be there twice, though each matches its own checksum.
            if end not in (None, offset):
                raise self._missing(f"has a gap before byte {offset}")
            yield first_line, data
            end = offset + len(data)
        if (end or 0) != self.size:
            raise self._missing(f"ends at byte {end or 0} of {self.size}")

    def span(self, begin: int, end: int) -> Generator[bytes, None, None]:
        """Yield the bytes from the offset `begin` up to `end`, which are in the payload; frames before and behind are not read.

        Nothing is read ahead and no thread is kept: there may be many readers, and each may take its time over a piece.
        """
        at = begin
        found = self._packed(_FROM_BYTE, 1, byte=begin) if begin < end else []
        while found:
            offset, _, data = (frame := found.pop()).unpacked()
            if not offset <= at < offset + len(data):
                raise self._missing(f"has a gap before byte {offset}")
            yield data[at - offset : end - offset]
            at = min(offset + len(data), end)
            if at == end:
                return
            found = self._behind([frame], 1)
        if at < end:
            raise self._missing(f"ends at byte {at} of {self.size}")

    def read(self) -> bytes:
        """Return the whole payload."""
        return b"".join([data for _, data in self.frames()])

    def head(self, size: int) -> bytes:
        """Return at most the first `size` bytes."""
        parts, have = [], 0
        for _, data in self.chunks():
            parts.append(data)
            have += len(data)
            if have >= size:
                break
        return b"".join(parts)[:size]

    def is_sound(self) -> bool:
        """Tell whether all bytes are present and match their checksums; nothing is unpacked."""
        return self.damage() is None

    def damage(self) -> str | None:
        """Describe the damage of the stored bytes; None if there is none. Only checksums are compared, nothing is unpacked."""
        number = end = 0
        try:
            while end < self.size and (frames := self._packed(_FROM_NUMBER, READ_AHEAD, number=number)):
                for frame in frames:
                    frame.check()
                    # A checksum covers one frame; the offsets show that they follow each other without a gap.
                    if frame.row.byte_offset != end:
                        raise self._missing(f"has a gap before frame {number}")
                    number, end = number + 1, frame.end
            if end != self.size:
                raise self._missing(f"ends at byte {end} of {self.size}")
        except ArtifactMissing as error:
            return str(error)
        return None

    def _missing(self, what: str) -> ArtifactMissing:
        return ArtifactMissing(f"blob {self.blob_id} {what}", blob_id=self.blob_id)

    def _frames(self, query: Any, **first: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield (byte offset, first line, bytes) of the frames from the first that `query` finds on.

        The first frame is fetched alone, because most readers need no other, and comes in pieces from the one with a `line`
        on. The following frames are fetched a few at a time, and unpacked in the background, ahead of the reader.
        """
        found = self._packed(query, 1, **first)
        for frame in found:
            yield from frame.from_line(first["line"]) if "line" in first else (frame.unpacked(),)
        most = READ_AHEAD
        if not (packed := deque(self._behind(found, most))):
            return
        # At most READ_AHEAD frames are unpacked and not yet read, so that memory is bounded however slow the reader is.
        pool = ThreadPoolExecutor(2, "byref-frames")
        try:
            coming: deque[Future[tuple[int, int, bytes]]] = deque()
            while packed or coming:
                while packed and len(coming) < READ_AHEAD:
                    coming.append(pool.submit((last := packed.popleft()).unpacked))
                yield coming.popleft().result()
                if not packed:  # only now: a reader that has enough needs no others, one that goes on may need many
                    most = min(2 * most, MOST_AHEAD)
                    packed = deque(self._behind([last], most))
        finally:
            pool.shutdown(cancel_futures=True)

    def _behind(self, frames: Sequence[_Packed], most: int) -> list[_Packed]:
        """Return the next few stored frames behind the given ones: at most `most`, and fewer if these pack badly."""
        if not frames or frames[-1].end >= self.size:
            return []
        # A query costs as much as the frames that it fetches if these pack well. The last one tells how the next ones do.
        fitting = READ_AHEAD * FRAME_BYTES // max(1, len(frames[-1].data))
        return self._packed(_FROM_NUMBER, min(most, max(READ_AHEAD, fitting)), number=frames[-1].row.number + 1)

    def _packed(self, frames: Any, most: int, **first: int) -> list[_Packed]:
        """Fetch the next few frames, still packed, and check that their numbers have no gap."""
        if self.used is not None:
            self.used()
        given = {"blob_id": self.blob_id, "key": self.key, "most": most, **first}
        rows = self.source.read(lambda connection: connection.execute(frames, given).all())
        if (begin := first.get("number")) is None:
            # Whether the first row is the right one shows in its line or its offset; otherwise it has to be the first frame.
            is_before = rows and (
                rows[0].first_line < first["line"] if "line" in first else rows[0].byte_offset <= first["byte"]
            )
            begin = rows[0].number if is_before else 0
        for place, row in enumerate(rows, begin):
            if row.number != place:
                raise self._missing(f"has a gap before frame {row.number}")
        # Payloads of releases before checksums: the digest of the whole is compared once, and gives each frame its checksum.
        if any(row.checksum is None and row.number not in self.compared for row in rows):
            self._compare()
        return self._stored(rows)

    def _stored(self, rows: Sequence[Any]) -> list[_Packed]:
        data = [row.data for row in rows] if self.store is None else self._of_object(rows)
        return [_Packed(self, row, bytes(stored)) for row, stored in zip(rows, data, strict=True)]

    def _compare(self) -> None:
        """Compare a payload stored before frames had checksums with its digest, and add the checksums to its frames.

        Raises ArtifactMissing if the digest differs. If the checksums cannot be written, only this Python object has them.
        """
        digest, sums = blake3(), list[dict[str, Any]]()
        given = {"blob_id": self.blob_id, "key": self.key, "most": READ_AHEAD}
        while rows := self.source.read(
            lambda connection: connection.execute(_FROM_NUMBER, {**given, "number": len(sums)}).all()
        ):
            for frame in self._stored(rows):
                digest.update(frame.content())
                sums.append({"of_blob": self.blob_id, "of_number": frame.row.number, "checksum": frame.checksum()})
        here = BlobRow.id == self.blob_id, BlobRow.key == self.key
        stored = self.source.read(lambda c: c.execute(select(BlobRow.digest).where(*here)).scalar_one_or_none())
        if stored is None or digest.digest() != bytes(stored):
            raise self._missing("does not have the bytes that were stored: they have another digest")
        self.compared.update({one["of_number"]: one["checksum"] for one in sums})
        if self.source.write is not None:
            try:
                self.source.write(lambda connection: connection.execute(_SEAL, sums))
            except ByrefError:
                logger.warning("byref could not write the checksums of blob %d", self.blob_id, exc_info=True)
            else:
                logger.info("byref compared blob %d with its digest and gave its frames checksums", self.blob_id)

    def _of_object(self, rows: Sequence[Any]) -> list[bytes]:
        """Return the stored bytes of some consecutive frames from their object, with one request."""
        if not rows:
            return []
        objects = self.source.objects
        if objects is None or objects.name != self.store:
            raise ArtifactMissing(
                f"the bytes of blob {self.blob_id} are in the store {self.store!r}: give the engine that store as `blobs`",
                blob_id=self.blob_id,
            )
        begin = rows[0].object_offset
        try:
            data = objects.read(self.key, begin, sum(row.object_bytes for row in rows))
        except ArtifactMissing as error:
            error.blob_id = self.blob_id
            raise
        return [data[row.object_offset - begin :][: row.object_bytes] for row in rows]


@dataclass(frozen=True, slots=True)
class Converted(StoredPayload):
    """A stored payload in another form, which is in memory."""

    data: bytes = field(default=b"", compare=False, repr=False)

    @property
    def uri(self) -> str | None:
        """None: no other program can read it."""
        return None

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield all bytes as one frame that begins at line 1."""
        if self.data:
            yield 1, self.data

    def chunks(self, line: int = 1) -> Iterator[tuple[int, bytes]]:
        """Yield all bytes as one chunk that begins at line 1."""
        return self.frames()

    def span(self, begin: int, end: int) -> Generator[bytes, None, None]:
        """Yield the bytes from the offset `begin` up to `end`."""
        yield self.data[begin:end]


@dataclass(frozen=True, slots=True)
class PayloadLoad:
    """Reads a stored payload for a run; its fields tell an interpreter on another machine where the payload is."""

    payload: StoredPayload

    def __call__(self) -> Iterator[bytes]:
        """Return the payload in pieces."""
        return (data for _, data in self.payload.frames())


@dataclass(frozen=True, slots=True)
class _Packed:
    """A frame as it is stored."""

    payload: StoredPayload
    row: Any
    data: bytes

    def checksum(self) -> bytes:
        """Return the checksum of the bytes that were found."""
        row = self.row
        place = row.number, row.byte_offset, row.first_line, row.size_bytes, row.codec
        return checksum(self.payload.key, *place, self.data)

    def check(self) -> bytes:
        """Return the checksum; raise ArtifactMissing if the bytes do not have that with which they were stored."""
        stored = self.payload.compared.get(self.row.number) if self.row.checksum is None else bytes(self.row.checksum)
        if stored != (found := self.checksum()):
            raise self.payload._missing(f"is damaged: frame {self.row.number} has another checksum")
        return found

    @property
    def end(self) -> int:
        """The offset in the payload of the first byte behind the frame."""
        return int(self.row.byte_offset + self.row.size_bytes)

    def unpacked(self) -> tuple[int, int, bytes]:
        """Return byte offset, first line and uncompressed bytes, after a check."""
        self.check()
        return self.row.byte_offset, self.row.first_line, self.content()

    def from_line(self, line: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield byte offset, first line and bytes of pieces from the one in which a line begins on, after a check."""
        row = self.row
        known = beginning(self.payload.key, row.number, self.check(), row.size_bytes)
        with self._damage():
            for offset, feeds, data in unpack_from(row.codec, self.data, row.size_bytes, line - row.first_line, known):
                yield row.byte_offset + offset, row.first_line + feeds, data

    def content(self) -> bytes:
        """Return the uncompressed bytes without comparing checksums."""
        with self._damage():
            return unpack(self.row.codec, self.data, self.row.size_bytes)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise self.payload._missing(f"is damaged: frame {self.row.number}: {error}") from None
