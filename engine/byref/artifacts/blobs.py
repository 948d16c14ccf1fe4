"""Blobs' rows: staged, found by digest, published in the commit, swept when nothing needs them.

A staged blob is invisible: nothing refers to it until `publish`. One that is never published is deleted by `sweep` once it is
older than `GRACE`.

Blobs have no count of the artifacts that need them. Whether a blob is needed is asked when it may go, under its row's lock:
an artifact that another transaction is inserting holds that row by its foreign key, so it is waited for and seen. A commit
that publishes a blob, or finds it published, renews its age under the same lock: no sweep deletes it from under the commit.

The object of a blob that goes is noted in the same transaction (`DiscardRow`) and deleted from its store afterwards, for
that cannot be rolled back.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, delete, exists, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from byref.db import sums
from byref.db.tables import GRACE, RETIRED, ArtifactRow, BlobRow, DiscardRow, FrameRow
from byref.stores.frames import Frame

SWEEP_BLOBS = 100
"""Most blobs one sweep of a transaction takes."""

DELETE_BATCH = 500
"""Most blobs named in one statement."""

AT_ONCE_BYTES = 8 << 20
"""Most bytes that are deleted from SQL in one transaction with what referred to them; `drain` deletes the rest in steps."""

DRAIN_FRAMES = 4
"""Frames, of a mebibyte each, that are deleted by one statement."""

UNSEALED = bytes(32)
"""Stands for the digest of a blob that is still being written."""

_PUBLISHED = (BlobRow.id, BlobRow.key, BlobRow.store, BlobRow.digest, BlobRow.size_bytes, BlobRow.line_count)
_UNUSED = ~exists().where(ArtifactRow.blob_id == BlobRow.id)
# Built once: building takes longer than running what it builds.
_STAGE = insert(BlobRow).returning(BlobRow.id)
_PUBLISH_NEW = {
    dialect.__name__.rpartition(".")[2]: dialect.insert(BlobRow).on_conflict_do_nothing().returning(BlobRow.id)
    for dialect in (sqlite, postgresql)
}
_ADD_FRAMES = insert(FrameRow)


def _publish_with_frame() -> Any:
    """A new blob and its only frame by one statement, which spares a round trip: nothing of them where there is the blob.

    Each column `x` of either is the parameter `new_x`: what both have is equal. SQLite has no INSERT inside a statement.
    """
    blobs, frames = BlobRow.__table__.c, FrameRow.__table__.c
    values: Any = {column.name: bindparam(f"new_{column.name}") for column in blobs if column.name != "id"}
    blob = postgresql.insert(BlobRow).values(values).on_conflict_do_nothing().returning(BlobRow.id).cte("blob")
    given = [bindparam(f"new_{column.name}", type_=column.type) for column in frames if column.name != "blob_id"]
    names = ["blob_id", *(column.name for column in frames if column.name != "blob_id")]
    frame = insert(FrameRow).from_select(names, select(blob.c.id, *given)).cte("frame")
    return select(blob.c.id).add_cte(frame)


_PUBLISH_WITH_FRAME = _publish_with_frame()
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
    """Return a fresh name for a blob: an id that comes back after a rollback has another."""
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
    """Insert a blob without frames and return its id; `key` is that of its object in `store`, if it has one."""
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
    """Insert a published blob with its frames and return its id; None, and nothing is inserted, where there is one."""
    now = _now()
    about = {"digest": digest, "size_bytes": size, "line_count": lines, "staged_at": now, "published_at": now}
    row = {"tenant": tenant, "key": key, "store": None, **about, "may_be_unused": False}
    if connection.dialect.name == "postgresql" and len(frames) == 1:
        both = row | _frame_row(tenant, frames[0])
        found: int | None = connection.execute(
            _PUBLISH_WITH_FRAME, {f"new_{name}": value for name, value in both.items()}
        ).scalar_one_or_none()
        return found
    found = connection.execute(_PUBLISH_NEW[connection.dialect.name], row).scalar_one_or_none()
    if found is not None:
        add_frames(connection, tenant, found, frames)
    return found


def add_frames(connection: Connection, tenant: str, blob_id: int, frames: Iterable[Frame]) -> None:
    """Insert frames of a staged blob."""
    rows = [{"blob_id": blob_id, **_frame_row(tenant, frame)} for frame in frames]
    if rows:
        connection.execute(_ADD_FRAMES, rows)


def _frame_row(tenant: str, frame: Frame) -> dict[str, Any]:
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


def seal(connection: Connection, tenant: str, blob_id: int, digest: bytes, size: int, lines: int) -> bool:
    """Write the digest and sizes of a blob that was staged before they were known; False if a sweep has deleted it."""
    new = {"new_digest": digest, "new_size": size, "new_lines": lines}
    return connection.execute(_SEAL, _now_of(tenant, blob_id) | new).rowcount == 1


def put_off(connection: Connection, tenant: str, blob_id: int) -> bool:
    """Renew the age of a blob that is still being written; False if a sweep has deleted it."""
    return connection.execute(_PUT_OFF, _now_of(tenant, blob_id)).rowcount == 1


class Sweep(NamedTuple):
    """What one sweep took."""

    gone: int
    is_full: bool
    """There may be more."""


class Published(NamedTuple):
    """A published blob, and where its bytes are."""

    id: int
    key: str
    store: str | None
    """None: in SQL."""
    digest: bytes
    size: int
    lines: int


def take_over(connection: Connection, tenant: str, published: Published, staged_id: int) -> bool:
    """Give a published blob the bytes of a staged one, which goes; False if another has done so, or holds the row.

    It does not wait for the row's lock: a host's transaction on this very thread may have it, and would be waited for in
    vain. The blob gets the staged one's key, too: checksums of frames are made with it.
    """
    here = BlobRow.id == published.id, BlobRow.key == published.key
    staged = BlobRow.id == staged_id, BlobRow.tenant == tenant, BlobRow.published_at.is_(None)
    old = connection.execute(select(BlobRow.id).where(*here).with_for_update(skip_locked=True)).one_or_none()
    new = connection.execute(select(BlobRow.key, BlobRow.store).where(*staged).with_for_update()).one_or_none()
    if old is None or new is None:
        delete_unused(connection, [staged_id])
        return False
    connection.execute(delete(FrameRow).where(FrameRow.blob_id == published.id))
    connection.execute(update(FrameRow).where(FrameRow.blob_id == staged_id).values(blob_id=published.id))
    connection.execute(delete(BlobRow).where(BlobRow.id == staged_id))
    connection.execute(update(BlobRow).where(*here).values(key=new.key, store=new.store))
    if published.store is not None:
        connection.execute(insert(DiscardRow).values(store=published.store, key=published.key))
    return True


def find_published(connection: Connection, tenant: str, digest: bytes) -> Published | None:
    """Return the tenant's published blob with this digest.

    It takes no lock: a host's transaction on this very thread may hold the row's, and would be waited for in vain. If a
    sweep deletes the blob before the commit, `publish` finds it missing.
    """
    row = connection.execute(_FIND_PUBLISHED, {"of_tenant": tenant, "of_digest": digest}).one_or_none()
    return None if row is None else Published(*row)


def key_of(connection: Connection, blob_id: int) -> str | None:
    """Return a blob's key; None if it is gone."""
    return connection.execute(_KEY, {"of_blob": blob_id}).scalar_one_or_none()


def published(connection: Connection, tenant: str, digest: bytes) -> Published | None:
    """Return the tenant's published blob with this digest, locked and with its age renewed: no sweep deletes it."""
    of = {"of_tenant": tenant, "of_digest": digest, "now": _now()}
    row = connection.execute(_KEEP_PUBLISHED, of).one_or_none()
    return None if row is None else Published(*row)


def publish(connection: Connection, tenant: str, blob_id: int) -> Published | None:
    """Make a staged blob visible; None if a sweep has taken it."""
    row = connection.execute(_PUBLISH, _now_of(tenant, blob_id)).one_or_none()
    return None if row is None else Published(*row)


def sweep(connection: Connection, grace: timedelta = GRACE, most: int = SWEEP_BLOBS) -> Sweep:
    """Delete blobs that nothing needs, oldest first; one that another transaction has locked is left to the next sweep.

    Only blobs that may be unused are looked at, by an index of their own: those that no commit has published, and
    those whose last artifact went without them. So a sweep that finds nothing takes as long whatever is stored.
    """
    old = BlobRow.may_be_unused, BlobRow.staged_at < _now() - grace
    query = select(BlobRow.id).where(*old).order_by(BlobRow.staged_at).limit(most)
    ids = connection.execute(query.with_for_update(skip_locked=True)).scalars().all()
    # An older byref publishes blobs without clearing the mark: it is cleared here, or each sweep would look at them again.
    used = BlobRow.id.in_(ids), ~_UNUSED
    connection.execute(update(BlobRow).where(*used).values(may_be_unused=False))
    return Sweep(delete_unused(connection, ids), is_full=len(ids) == most)


def delete_unused(connection: Connection, ids: Sequence[int]) -> int:
    """Delete those of the blobs that no artifact needs, frames first, and return how many went.

    Blobs are locked, in the order of their ids so that no two transactions wait for each other, before it is asked whether
    an artifact needs them: one that another transaction is inserting is waited for, and seen. Frames do not go by ON DELETE
    CASCADE: a host's SQLite connection may not enforce foreign keys. Blobs beyond `AT_ONCE_BYTES` are only made unfindable
    (`RETIRED`): `drain` deletes them in steps between which others write.
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
    """Delete frames of blobs that `delete_unused` left, until a time (monotonic); False if there are none."""
    left = select(BlobRow.id).where(BlobRow.may_be_unused, BlobRow.staged_at <= RETIRED)
    blob = connection.execute(left.limit(1).with_for_update(skip_locked=True)).scalar_one_or_none()
    if blob is None:
        return False
    while True:
        some = select(FrameRow.number).where(FrameRow.blob_id == blob).limit(DRAIN_FRAMES)
        here = FrameRow.blob_id == blob, FrameRow.number.in_(some)
        if connection.execute(delete(FrameRow).where(*here)).rowcount < DRAIN_FRAMES:
            _delete(connection, BlobRow.id == blob)
            return True
        if time.monotonic() > until:
            return True


def delete_staged(connection: Connection, tenant: str, key: str) -> int:
    """Delete the blob of a key if it was never published, and return how many went: none where its row is locked."""
    here = BlobRow.tenant == tenant, BlobRow.key == key, BlobRow.published_at.is_(None)
    found = connection.execute(select(BlobRow.id).where(*here).with_for_update(skip_locked=True))
    return delete_unused(connection, found.scalars().all())


def delete_staged_before(connection: Connection, tenant: str, time: datetime, most: int) -> int:
    """Delete some of a tenant's blobs that may be unused and were staged before a time; return how many went."""
    old = BlobRow.tenant == tenant, BlobRow.may_be_unused, BlobRow.staged_at <= time
    query = select(BlobRow.id).where(*old, _UNUSED).limit(most).with_for_update(skip_locked=True)
    return delete_unused(connection, connection.execute(query).scalars().all())


def _delete(connection: Connection, which: ColumnElement[bool]) -> int:
    discarded = select(BlobRow.store, BlobRow.key).where(which, BlobRow.store.is_not(None))
    connection.execute(insert(DiscardRow).from_select(["store", "key"], discarded))
    connection.execute(delete(FrameRow).where(FrameRow.blob_id.in_(select(BlobRow.id).where(which))))
    return connection.execute(delete(BlobRow).where(which)).rowcount


def _now_of(tenant: str, blob_id: int) -> dict[str, Any]:
    return {"of_tenant": tenant, "of_blob": blob_id, "now": _now()}


def _now() -> datetime:
    return datetime.now(UTC)
