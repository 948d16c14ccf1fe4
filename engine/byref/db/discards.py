"""Delete objects that nothing refers to any more, after the transaction that deleted their blobs.

A transaction can be rolled back, but a deletion from a store cannot; and the store may be unreachable. So the transaction
that deletes a blob only notes its object (`DiscardRow`). Afterwards the object is deleted, and then the note: a crash in
between leaves a note for a missing object, which is no error.

Before an object is deleted, the commit that noted it is flushed to the disk (`sync`): SQLite may lose its last commits in a
power cut, and a blob that comes back in this way must still have its object. So a power cut can leave objects without a row,
but never a row without its object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Connection, delete, select

from byref.db.connections import sync
from byref.db.tables import BlobRow, DiscardRow
from byref.errors import StorageFailure
from byref.stores.guarded import Guarded
from byref.stores.keys import folder_of
from byref.stores.protocol import BlobStore, KeepsDrafts

logger = logging.getLogger("byref")

BATCH = 500
"""Objects deleted by one request, and keys named in one statement."""

NO_GRACE = timedelta(0)

Transact = Callable[[Callable[[Connection], Any]], Any]


def empty(transact: Transact, objects: BlobStore | None) -> int:
    """Delete the noted objects of a store and return how many; StorageFailure if it cannot be reached."""
    gone = 0
    while objects is not None and (noted := transact(lambda connection: _noted(connection, objects.name))):
        objects.delete([key for _, key in noted])
        rows = [row for row, _ in noted]
        transact(lambda connection: connection.execute(delete(DiscardRow).where(DiscardRow.id.in_(rows))))  # noqa: B023
        gone += len(noted)
    return gone


def try_to_delete(transact: Transact, objects: BlobStore, key: str) -> None:
    """Delete one object that nothing has ever referred to, and its note if it has one; a failure is left to the next sweep.

    If the store has just failed, nothing is tried: a turn of a conversation should wait for one time-out only. Unlike
    `empty` this may run inside a transaction that is rolled back later: it touches none of the objects noted there.
    """
    if isinstance(objects, Guarded) and objects.is_away:
        return
    here = DiscardRow.store == objects.name, DiscardRow.key == key
    try:
        objects.delete([key])
        transact(lambda connection: connection.execute(delete(DiscardRow).where(*here)))
    except StorageFailure:
        logger.warning("byref left an object without a blob to the next sweep", exc_info=True)


def try_to_empty(transact: Transact, objects: BlobStore | None) -> None:
    """Do what `empty` does, but leave failures to the next sweep."""
    if isinstance(objects, Guarded) and objects.is_away:
        return
    try:
        empty(transact, objects)
    except StorageFailure:
        logger.warning("byref left objects without a blob to the next sweep", exc_info=True)


def left_in(transact: Transact, objects: BlobStore | None) -> str | None:
    """Return the name of another store than this one that has noted objects; None if there is none."""
    others = select(DiscardRow.store).where(DiscardRow.store != ("" if objects is None else objects.name)).limit(1)
    name: str | None = transact(lambda connection: connection.execute(others).scalar())
    return name


def delete_drafts(objects: BlobStore | None, grace: timedelta = NO_GRACE, *, tenant: str | None = None) -> None:
    """Remove drafts that killed writers have left in a store and that are older than `grace`; `tenant` limits it to one."""
    if isinstance(objects, KeepsDrafts):
        folder = None if tenant is None else folder_of(tenant)
        objects.take_drafts(older_than=datetime.now(UTC) - grace, folder=folder)


def drafts(objects: BlobStore | None, grace: timedelta) -> Iterator[str]:
    """Yield the names of the drafts that `delete_drafts` would remove."""
    if isinstance(objects, KeepsDrafts):
        yield from objects.drafts(older_than=datetime.now(UTC) - grace)


def delete_strays(transact: Transact, objects: BlobStore | None, grace: timedelta) -> int:
    """Delete the objects that are older than `grace` and have no row in SQL; return how many.

    The store is listed first, then SQL is asked: a blob's row is committed before its object is written, so an object that
    was listed and has no row will never get one.
    """
    gone = 0
    found = strays(transact, objects, grace)
    while objects is not None and (keys := list(islice(found, BATCH))):
        objects.delete(keys)
        gone += len(keys)
    return gone


def strays(transact: Transact, objects: BlobStore | None, grace: timedelta) -> Iterator[str]:
    """Yield the keys of the objects that `delete_strays` would delete."""
    if objects is None:
        return
    listed = objects.keys(older_than=datetime.now(UTC) - grace)
    while keys := list(islice(listed, BATCH)):
        yield from transact(lambda connection: _unknown(connection, objects.name, keys))


def _noted(connection: Connection, store: str) -> list[tuple[int, str]]:
    query = select(DiscardRow.id, DiscardRow.key).where(DiscardRow.store == store).order_by(DiscardRow.id)
    noted = [(row.id, row.key) for row in connection.execute(query.limit(BATCH))]
    if noted:
        sync(connection)
    return noted


def _unknown(connection: Connection, store: str, keys: list[str]) -> list[str]:
    query = select(BlobRow.key).where(BlobRow.store == store, BlobRow.key.in_(keys))
    known = set(connection.execute(query).scalars())
    unknown = [key for key in keys if key not in known]
    if unknown:
        sync(connection)
    return unknown
