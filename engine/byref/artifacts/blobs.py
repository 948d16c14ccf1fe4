"""The rows of blobs: staged, found by digest, published in the commit, and swept when no artifact needs them.

A staged blob is invisible: nothing refers to it until `publish`. If it is never published, `sweep` deletes it once it is
older than `GRACE`.

Blobs do not count the artifacts that need them. Before a blob is deleted, its row is locked and the artifacts are searched:
a transaction that is inserting an artifact locks the row too, by the foreign key, so the search waits for it and sees the
artifact. A commit that publishes a blob, or finds it published, renews its age under the same lock, so that no sweep deletes
it before the commit is done.

When a blob is deleted, its object is noted in the same transaction (`DiscardRow`) and deleted from its store afterwards,
because deletion from a store cannot be rolled back.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, delete, exists, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from byref.db import linked, sums
from byref.db.tables import GRACE, RETIRED, ArtifactRow, BlobRow, DiscardRow, FrameRow
from byref.stores.frames import Frame

SWEEP_BLOBS = 100
"""Most blobs that one call of `sweep` looks at."""

DELETE_BATCH = 500
"""Most blobs that one statement names."""

AT_ONCE_BYTES = 8 << 20
"""Most bytes that are deleted from SQL in the transaction that deletes their artifacts; `drain` deletes the rest in steps."""

DRAIN_FRAMES = 4
"""Frames, of up to 1 MiB each, that one statement deletes."""

UNSEALED = bytes(32)
"""Placeholder for the digest of a blob that is still being written."""

_PUBLISHED = (BlobRow.id, BlobRow.key, BlobRow.store, BlobRow.digest, BlobRow.size_bytes, BlobRow.line_count)
_UNUSED = ~exists().where(ArtifactRow.blob_id == BlobRow.id)
_NOT_RETIRED = BlobRow.staged_at > RETIRED
"""Those that are retired were counted as deleted; `drain` deletes them."""
# Built once, because building a statement takes longer than running it.
_STAGE = insert(BlobRow).returning(BlobRow.id)
_PUBLISH_NEW = {
    dialect.__name__.rpartition(".")[2]: dialect.insert(BlobRow).on_conflict_do_nothing().returning(BlobRow.id)
    for dialect in (sqlite, postgresql)
}
_ADD_FRAMES = insert(FrameRow)


_OF_BLOB = ("tenant", "key", "digest", "size_bytes", "line_count", "staged_at", "published_at")
BLOB = linked.Link(BlobRow, _OF_BLOB, {"may_be_unused": "false"}, gives=["id"])
"""A published blob whose bytes are in SQL."""
_OF_FRAME = ("tenant", "size_bytes", "codec", "data", "checksum")
FRAME = linked.Link(FrameRow, _OF_FRAME, {"number": "0", "byte_offset": "0", "first_line": "1"}, refers="blob_id")
"""The only frame of that blob."""
_PUBLISH_WITH_FRAME = linked.statement(BLOB, FRAME)
_THEIRS = (
    BlobRow.tenant == bindparam("of_tenant"),
    BlobRow.digest == bindparam("of_digest"),
    BlobRow.published_at.is_not(None),
)
_FIND_PUBLISHED = select(*_PUBLISHED).where(*_THEIRS)
_KEEP_PUBLISHED = (
    update(BlobRow).where(*_THEIRS).values(staged_at=bindparam("now"), may_be_unused=False).returning(*_PUBLISHED)
)
_STAGED = update(BlobRow).where(
    BlobRow.tenant == bindparam("of_tenant"), BlobRow.id == bindparam("of_blob"), BlobRow.published_at.is_(None)
)
_PUT_OFF = _STAGED.values(staged_at=bindparam("now"))
_SEAL = _PUT_OFF.values(
    digest=bindparam("new_digest"), size_bytes=bindparam("new_size"), line_count=bindparam("new_lines")
)
_PUBLISH = _PUT_OFF.values(published_at=bindparam("now"), may_be_unused=False).returning(*_PUBLISHED)
_KEY = select(BlobRow.key).where(BlobRow.id == bindparam("of_blob"))


def new_key() -> str:
    """Return a new random name for a blob. It tells blobs apart whose row ids are equal, as may happen after a rollback."""
    return secrets.token_hex(16)


def stage(
    connection: Connection,
    tenant: str,
    digest: bytes = UNSEALED,
    size: int = 0,
    lines: int = 0,
    *,
    key: str | None = None,
    store: str | None = None,
) -> int:
    """Insert a blob without frames and return its id; `key` is the key of its object in `store`, if it has one."""
    about = {"digest": digest, "size_bytes": size, "line_count": lines, "staged_at": _now()}
    row = {
        "tenant": tenant,
        "key": key or new_key(),
        "store": store,
        **about,
        "published_at": None,
        "may_be_unused": True,
    }
    return int(connection.execute(_STAGE, row).scalar_one())


def publish_new(
    connection: Connection, tenant: str, digest: bytes, size: int, lines: int, frames: Sequence[Frame], *, key: str
) -> int | None:
    """Insert a published blob with its frames and return its id; None, and nothing is inserted, if the tenant has one."""
    row = published_row(tenant, digest, size, lines, key)
    if connection.dialect.name == "postgresql" and len(frames) == 1:
        both = linked.parameters(row, only_frame_row(tenant, frames[0]))
        found: int | None = connection.execute(_PUBLISH_WITH_FRAME, both).scalar_one_or_none()
        return found
    found = connection.execute(_PUBLISH_NEW[connection.dialect.name], row).scalar_one_or_none()
    if found is not None:
        add_frames(connection, tenant, found, frames)
    return found


def published_row(tenant: str, digest: bytes, size: int, lines: int, key: str) -> dict[str, Any]:
    """Return the columns of a published blob whose bytes are in SQL."""
    now = _now()
    about = {"digest": digest, "size_bytes": size, "line_count": lines, "staged_at": now, "published_at": now}
    return {"tenant": tenant, "key": key, "store": None, **about, "may_be_unused": False}


def add_frames(connection: Connection, tenant: str, blob_id: int, frames: Iterable[Frame]) -> None:
    """Insert frames of a staged blob."""
    rows = [{"blob_id": blob_id, **frame_row(tenant, frame)} for frame in frames]
    if rows:
        connection.execute(_ADD_FRAMES, rows)


def frame_row(tenant: str, frame: Frame) -> dict[str, Any]:
    """Return the columns of a frame, without its blob's id."""
    return {
        "tenant": tenant,
        "number": frame.number,
        "byte_offset": frame.byte_offset,
        "first_line": frame.first_line,
        "size_bytes": frame.size_bytes,
        "codec": frame.codec,
        "data": frame.data,
        "object_offset": frame.object_offset,
        "object_bytes": frame.object_bytes,
        "checksum": frame.checksum,
    }


def only_frame_row(tenant: str, frame: Frame) -> dict[str, Any]:
    """Return what `FRAME` is given of a blob's only frame, whose bytes are in SQL."""
    row = frame_row(tenant, frame)
    return {name: row[name] for name in FRAME.columns}


def seal(connection: Connection, tenant: str, blob_id: int, digest: bytes, size: int, lines: int) -> bool:
    """Write the digest and sizes of a blob, once its stream has ended; False if a sweep has deleted the blob."""
    new = {"new_digest": digest, "new_size": size, "new_lines": lines}
    return connection.execute(_SEAL, _now_of(tenant, blob_id) | new).rowcount == 1


def put_off(connection: Connection, tenant: str, blob_id: int) -> bool:
    """Renew the age of a blob that is still being written; False if a sweep has deleted it."""
    return connection.execute(_PUT_OFF, _now_of(tenant, blob_id)).rowcount == 1


class Sweep(NamedTuple):
    """The result of one sweep."""

    gone: int
    """Number of blobs that were deleted."""
    is_full: bool
    """Whether there may be more to delete."""


class Published(NamedTuple):
    """A published blob and the place of its bytes."""

    id: int
    key: str
    store: str | None
    """The name of the store that has the bytes; None: they are in SQL."""
    digest: bytes
    size: int
    lines: int


def take_over(connection: Connection, tenant: str, published: Published, staged_id: int) -> bool:
    """Move the bytes of a staged blob to a published one; False if another transaction has done so, or holds the row.

    It does not wait for the row's lock: a host's transaction on this very thread may hold it, and the wait would never end.
    The blob also gets the staged one's key, because the frames' checksums include it.
    """
    here = BlobRow.id == published.id, BlobRow.key == published.key
    staged = BlobRow.id == staged_id, BlobRow.tenant == tenant, BlobRow.published_at.is_(None)
    # `here` compares the key too: if another transaction has repaired the blob, its key has changed and this finds no row.
    old = connection.execute(select(BlobRow.id).where(*here).with_for_update(skip_locked=True)).one_or_none()
    new = connection.execute(select(BlobRow.key, BlobRow.store).where(*staged).with_for_update()).one_or_none()
    if old is None or new is None:
        delete_unused(connection, [staged_id])
        return False
    # The order matters: the damaged frames go before the new ones take their numbers, and the staged blob goes before its key,
    # which is unique, moves to the published one.
    connection.execute(delete(FrameRow).where(FrameRow.blob_id == published.id))
    connection.execute(update(FrameRow).where(FrameRow.blob_id == staged_id).values(blob_id=published.id))
    connection.execute(delete(BlobRow).where(BlobRow.id == staged_id))
    connection.execute(update(BlobRow).where(*here).values(key=new.key, store=new.store))
    if published.store is not None:
        connection.execute(insert(DiscardRow).values(store=published.store, key=published.key))
    return True


def find_published(connection: Connection, tenant: str, digest: bytes) -> Published | None:
    """Return the tenant's published blob with this digest.

    It takes no lock: a host's transaction on this very thread may hold the row's lock, and the wait would never end. If a
    sweep deletes the blob before the commit, `publish` finds it missing.
    """
    row = connection.execute(_FIND_PUBLISHED, {"of_tenant": tenant, "of_digest": digest}).one_or_none()
    return None if row is None else Published(*row)


def key_of(connection: Connection, blob_id: int) -> str | None:
    """Return a blob's key; None if it is gone."""
    return connection.execute(_KEY, {"of_blob": blob_id}).scalar_one_or_none()


def published(connection: Connection, tenant: str, digest: bytes) -> Published | None:
    """Lock the tenant's published blob with this digest, renew its age so that no sweep deletes it, and return it."""
    of = {"of_tenant": tenant, "of_digest": digest, "now": _now()}
    row = connection.execute(_KEEP_PUBLISHED, of).one_or_none()
    return None if row is None else Published(*row)


def publish(connection: Connection, tenant: str, blob_id: int) -> Published | None:
    """Make a staged blob visible and return it; None if a sweep has deleted it."""
    row = connection.execute(_PUBLISH, _now_of(tenant, blob_id)).one_or_none()
    return None if row is None else Published(*row)


def sweep(connection: Connection, grace: timedelta = GRACE, most: int = SWEEP_BLOBS) -> Sweep:
    """Delete blobs that nothing needs, oldest first; those locked by other transactions are left to the next sweep.

    Only blobs marked `may_be_unused` are looked at, by a partial index: those that no commit has published, and those that
    stayed behind when their last artifact was deleted. So a sweep that finds nothing is fast however much is stored. Those that
    are retired are left to `drain`.
    """
    old = BlobRow.may_be_unused, BlobRow.staged_at < _now() - grace, _NOT_RETIRED
    query = select(BlobRow.id).where(*old).order_by(BlobRow.staged_at).limit(most)
    ids = connection.execute(query.with_for_update(skip_locked=True)).scalars().all()
    # An older byref publishes blobs without clearing the mark. Clear it here, or each sweep would look at them again.
    used = BlobRow.id.in_(ids), ~_UNUSED
    connection.execute(update(BlobRow).where(*used).values(may_be_unused=False))
    return Sweep(delete_unused(connection, ids), is_full=len(ids) == most)


def delete_unused(connection: Connection, ids: Sequence[int]) -> int:
    """Delete the given blobs that no artifact needs, and return how many.

    The blobs are locked before their artifacts are searched, so that an artifact which another transaction is inserting is
    waited for and seen; and in the order of their ids, so that two transactions do not deadlock. Frames are deleted
    explicitly, before the blobs, because a host's SQLite connection may not enforce ON DELETE CASCADE. Blobs beyond
    `AT_ONCE_BYTES` are only marked as deleted (`RETIRED`): `drain` deletes them in steps, between which others can write.
    """
    gone = 0
    for start in range(0, len(ids), DELETE_BATCH):
        sums.freed_of_tenants(connection, ids[start : start + DELETE_BATCH])
        chosen = BlobRow.id.in_(ids[start : start + DELETE_BATCH])
        connection.execute(select(BlobRow.id).where(chosen).order_by(BlobRow.id).with_for_update())
        unused = connection.execute(select(BlobRow.id, BlobRow.size_bytes, BlobRow.store).where(chosen, _UNUSED)).all()
        here, later, size = list[int](), list[int](), 0
        for blob in unused:
            size += blob.size_bytes if blob.store is None else 0
            (here if size <= AT_ONCE_BYTES else later).append(blob.id)
        gone += _delete(connection, BlobRow.id.in_(here))
        retired = {"published_at": None, "staged_at": RETIRED, "may_be_unused": True}
        if later:
            gone += connection.execute(update(BlobRow).where(BlobRow.id.in_(later)).values(retired)).rowcount
    return gone


def drain(connection: Connection, until: float) -> bool:
    """Delete frames of the blobs that `delete_unused` retired, until the monotonic time `until`; False if there are none."""
    left = select(BlobRow.id).where(BlobRow.may_be_unused, BlobRow.staged_at <= RETIRED)
    blob = connection.execute(left.limit(1).with_for_update(skip_locked=True)).scalar_one_or_none()
    if blob is None:
        return False
    # A few frames for each statement: the caller's time limit is checked between them, and SQLite's writer is not kept for long.
    # The last frames go first: what is left has no gap.
    while True:
        some = select(FrameRow.number).where(FrameRow.blob_id == blob).order_by(FrameRow.number.desc())
        here = FrameRow.blob_id == blob, FrameRow.number.in_(some.limit(DRAIN_FRAMES))
        if connection.execute(delete(FrameRow).where(*here)).rowcount < DRAIN_FRAMES:
            _delete(connection, BlobRow.id == blob)
            return True
        if time.monotonic() > until:
            return True


def delete_staged(connection: Connection, tenant: str, key: str) -> int:
    """Delete the blob with a key if it was never published; return the number of blobs deleted, 0 if its row is locked."""
    here = BlobRow.tenant == tenant, BlobRow.key == key, BlobRow.published_at.is_(None)
    found = connection.execute(select(BlobRow.id).where(*here).with_for_update(skip_locked=True))
    return delete_unused(connection, found.scalars().all())


def delete_staged_before(connection: Connection, tenant: str, time: datetime, most: int) -> int:
    """Delete up to `most` unused blobs of a tenant that were staged before a time, and return how many."""
    old = BlobRow.tenant == tenant, BlobRow.may_be_unused, BlobRow.staged_at <= time, _NOT_RETIRED
    query = select(BlobRow.id).where(*old, _UNUSED).limit(most).with_for_update(skip_locked=True)
    return delete_unused(connection, connection.execute(query).scalars().all())


def _delete(connection: Connection, which: ColumnElement[bool]) -> int:
    # The object's key is noted before the row that names it goes; both in this transaction, so that no object is forgotten.
    discarded = select(BlobRow.store, BlobRow.key).where(which, BlobRow.store.is_not(None))
    connection.execute(insert(DiscardRow).from_select(["store", "key"], discarded))
    connection.execute(delete(FrameRow).where(FrameRow.blob_id.in_(select(BlobRow.id).where(which))))
    return connection.execute(delete(BlobRow).where(which)).rowcount


def _now_of(tenant: str, blob_id: int) -> dict[str, Any]:
    return {"of_tenant": tenant, "of_blob": blob_id, "now": _now()}


def _now() -> datetime:
    return datetime.now(UTC)
