"""Staging: a payload's bytes go into the database before anything refers to them, in short transactions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from byref.artifacts import blobs
from byref.artifacts.frames import cut

STAGE_BATCH = 8
"""Frames written by one staging transaction; they are compressed before it begins."""

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
