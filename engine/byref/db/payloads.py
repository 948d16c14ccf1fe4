"""Stored bytes, read frame by frame: from the frames' rows themselves, or from the object that these are the index of."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from blake3 import blake3
from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.orm import aliased

from byref.db.tables import BlobRow, FrameRow
from byref.errors import ArtifactMissing, ByrefError
from byref.stores.frames import checksum, unpack
from byref.stores.protocol import BlobStore

logger = logging.getLogger("byref")

READ_AHEAD = 4
"""Frames fetched by one query, and one request to a store."""

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
    .join(BlobRow, BlobRow.id == FrameRow.blob_id)
    .where(
        FrameRow.blob_id == bindparam("blob_id"),
        BlobRow.key == bindparam("key"),
    )
    .order_by(FrameRow.number)
    .limit(bindparam("most"))
)
_FROM_NUMBER = _FRAMES.where(FrameRow.number >= bindparam("number"))
_BEFORE_LINE = aliased(FrameRow)
_FROM_LINE = _FRAMES.where(  # the last frame that begins before the line: it holds the line's first byte, or ends there
    FrameRow.number
    >= func.coalesce(
        select(_BEFORE_LINE.number)
        .where(_BEFORE_LINE.blob_id == bindparam("blob_id"), _BEFORE_LINE.first_line < bindparam("line"))
        .order_by(_BEFORE_LINE.first_line.desc(), _BEFORE_LINE.number.desc())
        .limit(1)
        .scalar_subquery(),
        0,
    )
)

_SEAL = (
    update(FrameRow)
    .where(FrameRow.blob_id == bindparam("of_blob"), FrameRow.number == bindparam("of_number"))
    .where(FrameRow.checksum.is_(None))
)

Read = Callable[[Callable[[Connection], Any]], Any]
"""Runs work in a transaction and returns what it returns."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where stored bytes are read: by one statement at a time, and in a store of objects if there is one."""

    read: Read
    """Runs work of one statement."""
    objects: BlobStore | None = None
    write: Read | None = None
    """Runs work in a transaction of its own, for the checksums of frames that have none; None: they stay without."""
    follow: Callable[[int, float | None, datetime | None], Callable[[], None] | None] | None = None
    """Makes what is called when an artifact is used, of its row, its seconds to live and when it expires."""


def uri_of(objects: BlobStore | None, store: str | None, key: str) -> str | None:
    """Return what another program opens to read the very bytes of a blob; None where there is no such."""
    if store is None or objects is None or objects.name != store or objects.compresses:
        return None
    return objects.uri(key)


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A published blob's bytes, read frame by frame; each few of them by a short read of its own."""

    blob_id: int
    key: str
    """The blob's own: an id that came back after a rollback reaches nothing."""
    store: str | None
    """The store that has the object of this key; None: the bytes are in SQL."""
    size: int
    line_count: int
    source: Source = field(compare=False, repr=False)
    used: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """Called whenever some of it is read."""
    compared: dict[int, bytes] = field(default_factory=dict, compare=False, repr=False)
    """Checksums of frames whose rows had none, once the whole was compared with its digest."""

    @property
    def uri(self) -> str | None:
        """What another program opens to read the very bytes, a path or a URL; None where there is no such."""
        return uri_of(self.source.objects, self.store, self.key)

    def chunks(self, line: int = 1) -> Iterator[tuple[int, bytes]]:
        """Yield (1-based line on which the chunk begins, bytes) from the frame that holds the beginning of `line` on."""
        end = None
        for offset, first_line, data in self._frames(line):
            if end not in (None, offset):
                raise self._missing(f"has a gap before byte {offset}")
            yield first_line, data
            end = offset + len(data)
        if (end or 0) != self.size:
            raise self._missing(f"ends at byte {end or 0} of {self.size}")

    def read(self) -> bytes:
        """Return the whole payload."""
        return b"".join([data for _, data in self.chunks()])

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
        """Tell whether every byte is there and is what was stored; nothing is unpacked for it."""
        return self.damage() is None

    def damage(self) -> str | None:
        """Say what is wrong with the stored bytes; None if nothing is. Nothing is unpacked for it."""
        number = end = 0
        try:
            while end < self.size and (frames := self._packed(_FROM_NUMBER, READ_AHEAD, number=number)):
                for frame in frames:
                    frame.check()
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

    def _frames(self, line: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield (byte offset, first line, bytes) of the frames from the one that holds the beginning of `line` on.

        The first comes alone, for most readers need no other. Of the others the next few are unpacked, and more asked for,
        while the earlier ones are used.
        """
        first = self._packed(_FROM_LINE, 1, line=line) if line > 1 else self._packed(_FROM_NUMBER, 1, number=0)
        yield from (frame.unpacked() for frame in first)
        if not (packed := deque(self._behind(first))):
            return
        pool = ThreadPoolExecutor(2, "byref-frames")
        try:
            coming: deque[Future[tuple[int, int, bytes]]] = deque()
            while packed or coming:
                while packed and len(coming) < READ_AHEAD:
                    coming.append(pool.submit((last := packed.popleft()).unpacked))
                    packed = packed or deque(self._behind([last]))
                yield coming.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _behind(self, frames: Sequence[_Packed]) -> list[_Packed]:
        """Return the next few frames behind some."""
        if not frames or frames[-1].end >= self.size:
            return []
        return self._packed(_FROM_NUMBER, READ_AHEAD, number=frames[-1].row.number + 1)

    def _packed(self, frames: Any, most: int, **first: int) -> list[_Packed]:
        """Return the next few frames as they are stored."""
        if self.used is not None:
            self.used()
        given = {"blob_id": self.blob_id, "key": self.key, "most": most, **first}
        rows = self.source.read(lambda connection: connection.execute(frames, given).all())
        if (begin := first.get("number")) is None:
            begin = rows[0].number if rows and rows[0].first_line < first["line"] else 0
        for place, row in enumerate(rows, begin):
            if row.number != place:
                raise self._missing(f"has a gap before frame {row.number}")
        if any(row.checksum is None and row.number not in self.compared for row in rows):
            self._compare()
        return self._stored(rows)

    def _stored(self, rows: Sequence[Any]) -> list[_Packed]:
        data = [row.data for row in rows] if self.store is None else self._of_object(rows)
        return [_Packed(self, row, bytes(stored)) for row, stored in zip(rows, data, strict=True)]

    def _compare(self) -> None:
        """Compare bytes that were stored before frames had checksums with their digest, and give the frames theirs.

        Raises ArtifactMissing where they are not the ones that were stored. Where checksums cannot be written, they hold
        for this object alone.
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
        """Return what the object holds of some frames that follow on each other, by one request."""
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
class PayloadLoad:
    """Reads a stored payload for a run; another machine finds in it where the payload is."""

    payload: StoredPayload

    def __call__(self) -> Iterator[bytes]:
        """Return the payload in pieces."""
        return (data for _, data in self.payload.chunks())


@dataclass(frozen=True, slots=True)
class _Packed:
    """A frame as it is stored."""

    payload: StoredPayload
    row: Any
    data: bytes

    def checksum(self) -> bytes:
        """What it has to be, by what is there."""
        row = self.row
        place = row.number, row.byte_offset, row.first_line, row.size_bytes, row.codec
        return checksum(self.payload.key, *place, self.data)

    def check(self) -> None:
        """Raise ArtifactMissing where it is not what was stored."""
        stored = self.payload.compared.get(self.row.number) if self.row.checksum is None else bytes(self.row.checksum)
        if stored != self.checksum():
            raise self.payload._missing(f"is damaged: frame {self.row.number} has another checksum")

    @property
    def end(self) -> int:
        """The byte of the payload behind it."""
        return int(self.row.byte_offset + self.row.size_bytes)

    def unpacked(self) -> tuple[int, int, bytes]:
        """Return byte offset, first line and bytes of what was stored."""
        self.check()
        return self.row.byte_offset, self.row.first_line, self.content()

    def content(self) -> bytes:
        """Return its bytes, whatever they are."""
        try:
            return unpack(self.row.codec, self.data, self.row.size_bytes)
        except ValueError as error:
            raise self.payload._missing(f"is damaged: frame {self.row.number}: {error}") from None
