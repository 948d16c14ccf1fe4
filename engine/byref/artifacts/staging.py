"""Staging: a payload's bytes go into the database before anything refers to them, in short transactions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from byref.artifacts import blobs
from byref.errors import ArtifactMissing
from byref.frames import cut

STAGE_BATCH = 8
"""Frames written by one staging transaction; they are compressed before it begins."""

_ATTEMPTS = 4

Transact = Callable[[Callable[[Connection], Any]], Any]


def stage(transact: Transact, tenant: str, data: bytes, digest: bytes, lines: int) -> int:
    """Write a payload's frames, or find its bytes published already in the tenant; return the blob's id."""
    known = transact(lambda connection: blobs.find_published(connection, tenant, digest))
    if known is not None:
        return int(known)
    frames = cut(data)
    batch = list(islice(frames, STAGE_BATCH))

    def begin(connection: Connection) -> int:
        blob_id = blobs.stage(connection, tenant, digest, len(data), lines)
        blobs.add_frames(connection, tenant, blob_id, batch)
        return blob_id

    blob_id = int(transact(begin))
    while batch := list(islice(frames, STAGE_BATCH)):
        transact(lambda connection: blobs.add_frames(connection, tenant, blob_id, batch))
    return blob_id


def publish(connection: Connection, tenant: str, blob_id: int, digest: bytes) -> int | None:
    """Return the published blob with these bytes, publishing the staged one if there is none; None if a sweep took it."""
    known = blobs.published(connection, tenant, digest)
    if known is not None:
        return known
    return blob_id if blobs.publish(connection, tenant, blob_id) else None


def publish_kept(connection: Connection, tenant: str, blob_id: int, digest: bytes, data: bytes, lines: int) -> int:
    """Return the published blob with these bytes, as `publish`; what was deleted meanwhile is written once more, in here.

    Raises ArtifactMissing where it is deleted each time.
    """
    for _ in range(_ATTEMPTS):
        published = publish(connection, tenant, blob_id, digest)
        if published is not None:
            return published
        blob_id = stage(lambda work: work(connection), tenant, data, digest, lines)
    raise ArtifactMissing("the bytes were deleted again and again before anything could refer to them")
