"""Blobs in SQL: staged frame by frame, found by digest, published in the commit, swept when nothing needs them.

A staged blob is invisible: nothing refers to it until `publish`. What is staged and never published, and what was
published and lost its last artifact, is taken by `sweep` once `GRACE` is over; a commit refreshes that time under the
row's lock, so that no sweep can take a blob from under it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, exists, func, insert, select, update

from byref.db.tables import GRACE, ArtifactRow, BlobRow, FrameRow
from byref.errors import ArtifactMissing
from byref.frames import Frame, unpack

SWEEP_BLOBS = 100
"""Most blobs one sweep of a transaction takes."""

DELETE_BATCH = 500
"""Most blobs named in one statement."""

READ_AHEAD = 4
"""Frames fetched by one query."""

_UNUSED = ~exists().where(ArtifactRow.blob_id == BlobRow.id)

Read = Callable[[Callable[[Connection], Any]], Any]
"""Runs work in a read transaction and returns what it returns."""


def stage(connection: Connection, tenant: str, digest: bytes, size: int, lines: int) -> int:
    """Insert a blob without frames and return its id."""
    row = insert(BlobRow).values(
        tenant=tenant, key=secrets.token_hex(16), digest=digest, size_bytes=size, line_count=lines, staged_at=_now()
    )
    return int(connection.execute(row.returning(BlobRow.id)).scalar_one())


def add_frames(connection: Connection, tenant: str, blob_id: int, frames: Iterable[Frame]) -> None:
    """Insert frames of a staged blob."""
    rows = [
        {
            "blob_id": blob_id,
            "tenant": tenant,
            "number": frame.number,
            "byte_offset": frame.byte_offset,
            "first_line": frame.first_line,
            "size_bytes": frame.size_bytes,
            "codec": frame.codec,
            "data": frame.data,
        }
        for frame in frames
    ]
    if rows:
        connection.execute(insert(FrameRow), rows)


def find_published(connection: Connection, tenant: str, digest: bytes) -> int | None:
    """Return the id of the tenant's published blob with this digest.

    It takes no lock: a host's transaction on this very thread may hold the row's. Should a sweep take the blob before it
    is committed, `publish` says so.
    """
    query = select(BlobRow.id).where(
        BlobRow.tenant == tenant, BlobRow.digest == digest, BlobRow.published_at.is_not(None)
    )
    return connection.execute(query).scalar_one_or_none()


def published(connection: Connection, tenant: str, digest: bytes) -> int | None:
    """Return the id of the tenant's published blob with this digest and keep sweeps away from it."""
    return connection.execute(
        update(BlobRow)
        .where(BlobRow.tenant == tenant, BlobRow.digest == digest, BlobRow.published_at.is_not(None))
        .values(staged_at=_now())
        .returning(BlobRow.id)
    ).scalar_one_or_none()


def publish(connection: Connection, tenant: str, blob_id: int) -> bool:
    """Make a staged blob visible; False if a sweep has taken it."""
    now = _now()
    done = connection.execute(
        update(BlobRow)
        .where(BlobRow.tenant == tenant, BlobRow.id == blob_id, BlobRow.published_at.is_(None))
        .values(published_at=now, staged_at=now)
    )
    return done.rowcount == 1


def sweep(connection: Connection, grace: timedelta = GRACE, most: int = SWEEP_BLOBS) -> int:
    """Delete blobs that nothing needs, oldest first, and return how many went; one in use elsewhere is not waited for."""
    old = BlobRow.staged_at < _now() - grace
    query = select(BlobRow.id).where(old, _UNUSED).order_by(BlobRow.staged_at).limit(most)
    return delete_unused(connection, connection.execute(query.with_for_update(skip_locked=True)).scalars().all())


def delete_unused(connection: Connection, ids: Sequence[int]) -> int:
    """Delete those of the blobs that no artifact needs, frames first, and return how many went.

    They are locked before they are judged: an artifact that another transaction is inserting is waited for, and seen.
    Frames do not go by ON DELETE CASCADE: a host's SQLite connection may not enforce foreign keys.
    """
    gone = 0
    for start in range(0, len(ids), DELETE_BATCH):
        chosen = BlobRow.id.in_(ids[start : start + DELETE_BATCH])
        connection.execute(select(BlobRow.id).where(chosen).order_by(BlobRow.id).with_for_update())
        unused = connection.execute(select(BlobRow.id).where(chosen, _UNUSED)).scalars().all()
        connection.execute(delete(FrameRow).where(FrameRow.blob_id.in_(unused)))
        gone += connection.execute(delete(BlobRow).where(BlobRow.id.in_(unused))).rowcount
    return gone


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A published blob's bytes, read frame by frame; each frame by a short read of its own."""

    blob_id: int
    key: str
    """The blob's own: an id that came back after a rollback reaches nothing."""
    size: int
    line_count: int
    read_rows: Read = field(compare=False, repr=False)

    def chunks(self, line: int = 1) -> Iterator[tuple[int, bytes]]:
        """Yield (1-based line on which the chunk begins, bytes) from the frame that holds the beginning of `line` on."""
        number = self._frame_before(line)
        end = None
        while frames := self._frames(number):
            for offset, first_line, data in frames:
                if end not in (None, offset):
                    raise ArtifactMissing(f"blob {self.blob_id} has a gap before frame {number}")
                yield first_line, data
                end = offset + len(data)
                number += 1
        if (end or 0) != self.size:
            raise ArtifactMissing(f"blob {self.blob_id} ends at byte {end or 0} of {self.size}")

    def read(self) -> bytes:
        """Return the whole payload."""
        return b"".join(data for _, data in self.chunks())

    def head(self, size: int) -> bytes:
        """Return at most the first `size` bytes."""
        parts, have = [], 0
        for _, data in self.chunks():
            parts.append(data)
            have += len(data)
            if have >= size:
                break
        return b"".join(parts)[:size]

    def _frames(self, number: int) -> list[tuple[int, int, bytes]]:
        """Return the next few frames as (byte offset, first line, bytes)."""
        columns = (FrameRow.byte_offset, FrameRow.first_line, FrameRow.codec, FrameRow.data, FrameRow.size_bytes)
        query = (
            select(*columns)
            .join(BlobRow, BlobRow.id == FrameRow.blob_id)
            .where(FrameRow.blob_id == self.blob_id, BlobRow.key == self.key, FrameRow.number >= number)
            .order_by(FrameRow.number)
            .limit(READ_AHEAD)
        )
        rows = self.read_rows(lambda connection: connection.execute(query).all())
        try:
            return [(offset, line, unpack(codec, bytes(data), size)) for offset, line, codec, data, size in rows]
        except ValueError as error:
            raise ArtifactMissing(f"blob {self.blob_id}, from frame {number}: {error}") from None

    def _frame_before(self, line: int) -> int:
        """Return the number of the last frame that begins before `line`: it holds the line's first byte, or ends there."""
        query = select(func.max(FrameRow.number)).where(FrameRow.blob_id == self.blob_id, FrameRow.first_line < line)
        return self.read_rows(lambda connection: connection.execute(query).scalar()) or 0 if line > 1 else 0


def _now() -> datetime:
    return datetime.now(UTC)
