"""Stored bytes, read frame by frame: from the frames' rows themselves, or from the object that these are the index of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from blake3 import blake3
from sqlalchemy import Connection, bindparam, select, update

from byref.db.tables import BlobRow, FrameRow
from byref.errors import ArtifactMissing, ByrefError
from byref.frames import checksum, unpack
from byref.stores.protocol import BlobStore

logger = logging.getLogger("byref")

READ_AHEAD = 4
"""Frames fetched by one query, and one request to a store."""

_FRAMES = (
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
        FrameRow.number >= bindparam("number"),
    )
    .order_by(FrameRow.number)
    .limit(bindparam("most"))
)
_FRAME_BEFORE = (
    select(FrameRow.number)
    .where(FrameRow.blob_id == bindparam("blob_id"), FrameRow.first_line < bindparam("line"))
    .order_by(FrameRow.first_line.desc(), FrameRow.number.desc())
    .limit(1)
)

_SEAL = (
    update(FrameRow)
    .where(FrameRow.blob_id == bindparam("of_blob"), FrameRow.number == bindparam("of_number"))
    .where(FrameRow.checksum.is_(None))
)

Read = Callable[[Callable[[Connection], Any]], Any]
"""Runs work in a read transaction and returns what it returns."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where stored bytes are read: in short transactions, and in a store of objects if there is one."""

    read: Read
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
        number = self._frame_before(line)
        end = None
        for offset, first_line, data in self._frames(number):
            if end not in (None, offset):
                raise self._missing(f"has a gap before frame {number}")
            yield first_line, data
            end = offset + len(data)
            number += 1
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
            while end < self.size and (frames := self._packed(number, READ_AHEAD)):
                for frame in frames:
                    frame.check()
                    if frame.row.byte_offset != end:
                        raise self._missing(f"has a gap before frame {number}")
                    number, end = number + 1, end + frame.row.size_bytes
            if end != self.size:
                raise self._missing(f"ends at byte {end} of {self.size}")
        except ArtifactMissing as error:
            return str(error)
        return None

    def _missing(self, what: str) -> ArtifactMissing:
        return ArtifactMissing(f"blob {self.blob_id} {what}", blob_id=self.blob_id)

    def _frames(self, number: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield (byte offset, first line, bytes) of the frames from `number` on.

        The first comes alone, for most readers need no other. Of the next few the later ones are unpacked while the
        earlier ones are used.
        """
        first = self._packed(number, 1)
        yield from (frame.unpacked() for frame in first)
        if not first or not (frames := self._packed(number + 1, READ_AHEAD)):
            return
        with ThreadPoolExecutor(2, "byref-frames") as pool:
            number += 1
            while frames:
                for coming in [pool.submit(frame.unpacked) for frame in frames]:
                    yield coming.result()
                number += len(frames)
                frames = self._packed(number, READ_AHEAD)

    def _packed(self, number: int, most: int) -> list[_Packed]:
        """Return the next few frames as they are stored."""
        if self.used is not None:
            self.used()
        given = {"blob_id": self.blob_id, "key": self.key, "number": number, "most": most}
        rows = self.source.read(lambda connection: connection.execute(_FRAMES, given).all())
        for place, row in enumerate(rows, number):
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
            lambda connection: connection.execute(_FRAMES, {**given, "number": len(sums)}).all()
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

    def _frame_before(self, line: int) -> int:
        """Return the number of the last frame that begins before `line`: it holds the line's first byte, or ends there."""
        if line <= 1:
            return 0
        given = {"blob_id": self.blob_id, "line": line}
        return self.source.read(lambda connection: connection.execute(_FRAME_BEFORE, given).scalar()) or 0


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
