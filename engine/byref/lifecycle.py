"""How conversations begin and end: opening, sharing, ending, deleting, sweeping."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, delete, insert, select, update

from byref import ledger
from byref.artifacts import blobs, store
from byref.artifacts.store import Artifact, Description
from byref.db.tables import (
    ID_BYTES,
    ArtifactRow,
    BlobRow,
    FrameRow,
    LedgerRow,
    RunRow,
    SessionRow,
    TombstoneRow,
    VariableRow,
)
from byref.errors import ArtifactMissing, ConfigurationError, InvalidId
from byref.scope import Scope

_OF_SESSION = (VariableRow, LedgerRow, RunRow, TombstoneRow, ArtifactRow)
"""What is deleted with a session, referring tables first. Not left to ON DELETE CASCADE: a host's SQLite connection may
not enforce foreign keys."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a listing shows it."""

    id: str
    tenant: str
    model: str | None
    steps: int
    created_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Opened:
    """A session's row: what was given when it was created."""

    row: int
    model: str | None
    context_window: int | None
    policy: str | None
    tools: tuple[str, ...] | None


def check_id(name: str, value: object) -> str:
    """Return a host's id if it can be kept as it is: 1 to 512 bytes of UTF-8 without NUL; else InvalidId."""
    if not isinstance(value, str):
        raise InvalidId(f"{name}={value!r:.100}: expected a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidId(f"{name}={value!r:.100}: has a lone surrogate, which no database keeps") from None
    if not 0 < size <= ID_BYTES or "\0" in value:
        raise InvalidId(
            f"{name}={value[:100]!r}: expected 1 to {ID_BYTES} bytes of UTF-8 without NUL, not {size} bytes"
        )
    return value


def open_session(
    connection: Connection,
    *,
    tenant: str,
    name: str,
    model: str | None,
    context_window: int | None,
    policy: str | None,
    tools: tuple[str, ...] | None,
) -> Opened:
    """Insert a session."""
    values = {
        "tenant": tenant,
        "name": name,
        "model": model,
        "context_window": context_window,
        "policy": policy,
        "tools": None if tools is None else json.dumps(tools),
        "created_at": datetime.now(UTC),
    }
    row = connection.execute(insert(SessionRow).values(**values).returning(SessionRow.id)).scalar_one()
    return Opened(row, model, context_window, policy, tools)


def find_session(connection: Connection, tenant: str, name: str) -> Opened | None:
    """Return a session by the host's id."""
    columns = (SessionRow.id, SessionRow.model, SessionRow.context_window, SessionRow.policy, SessionRow.tools)
    row = connection.execute(select(*columns).where(SessionRow.tenant == tenant, SessionRow.name == name)).one_or_none()
    if row is None:
        return None
    tools = None if row.tools is None else tuple(json.loads(row.tools))
    return Opened(row.id, row.model, row.context_window, row.policy, tools)


def sessions(connection: Connection, tenant: str) -> list[SessionInfo]:
    """Return a tenant's sessions, oldest first."""
    columns = (SessionRow.name, SessionRow.model, SessionRow.next_step, SessionRow.created_at, SessionRow.ended_at)
    rows = connection.execute(
        select(*columns).where(SessionRow.tenant == tenant).order_by(SessionRow.created_at, SessionRow.id)
    )
    return [SessionInfo(row.name, tenant, row.model, row.next_step - 1, row.created_at, row.ended_at) for row in rows]


def share(scope: Scope, artifact: Artifact, with_: str) -> Artifact:
    """Insert an artifact of the same blob into another session of the tenant."""
    with_ = check_id("with_", with_)
    other = scope.read(lambda connection: find_session(connection, scope.tenant, with_))
    if other is None:
        raise ConfigurationError(f"no session {with_!r} of tenant {scope.tenant!r} to share with")

    def work(connection: Connection) -> str:
        ledger.lock(connection, other.row)
        blob_id = blobs.published(connection, scope.tenant, artifact.digest)
        if blob_id is None:
            raise ArtifactMissing(f"the artifact {artifact.id!r} was deleted while it was shared")
        public_id = store.new_id()
        about = Description(
            artifact.kind,
            artifact.content_type,
            artifact.size_bytes,
            artifact.preview,
            artifact.tokens,
            artifact.shape,
            artifact.packed_schema,
        )
        store.insert_artifact(
            connection,
            tenant=scope.tenant,
            session_id=other.row,
            blob_id=blob_id,
            public_id=public_id,
            step=None,
            origin="host",
            name=artifact.name,
            about=about,
        )
        return public_id

    public_id = scope.write(work)
    shared = scope.read(lambda connection: store.find(connection, scope.read, other.row, public_id))
    if shared is None:
        raise ArtifactMissing(f"the artifact {public_id!r} was deleted while it was shared")
    return shared


def end(connection: Connection, session_row: int) -> None:
    """Delete a session's artifacts and variables, and let it take nothing more in; its ledger stays."""
    connection.execute(
        update(SessionRow)
        .where(SessionRow.id == session_row, SessionRow.ended_at.is_(None))
        .values(ended_at=datetime.now(UTC))
    )
    ids = _blob_ids(connection, session_row)
    connection.execute(delete(VariableRow).where(VariableRow.session_id == session_row))
    refers = LedgerRow.session_id == session_row, LedgerRow.artifact_id.is_not(None)
    connection.execute(update(LedgerRow).where(*refers).values(artifact_id=None))
    connection.execute(delete(ArtifactRow).where(ArtifactRow.session_id == session_row))
    blobs.delete_unused(connection, ids)


def delete_session(connection: Connection, tenant: str, name: str) -> bool:
    """Delete a session and all that was its own; False if there is none."""
    here = select(SessionRow.id).where(SessionRow.tenant == tenant, SessionRow.name == name)
    row = connection.execute(here.with_for_update()).scalar_one_or_none()
    if row is None:
        return False
    ids = _blob_ids(connection, row)
    for table in _OF_SESSION:
        connection.execute(delete(table).where(table.session_id == row))
    connection.execute(delete(SessionRow).where(SessionRow.id == row))
    blobs.delete_unused(connection, ids)
    return True


def delete_tenant(connection: Connection, tenant: str) -> int:
    """Delete everything of a tenant and return how many sessions it had."""
    here = select(SessionRow.id).where(SessionRow.tenant == tenant)
    connection.execute(here.order_by(SessionRow.id).with_for_update())
    for table in _OF_SESSION:
        connection.execute(delete(table).where(table.session_id.in_(here)))
    gone = connection.execute(delete(SessionRow).where(SessionRow.tenant == tenant)).rowcount
    theirs = select(BlobRow.id).where(BlobRow.tenant == tenant)
    connection.execute(delete(FrameRow).where(FrameRow.blob_id.in_(theirs)))
    connection.execute(delete(BlobRow).where(BlobRow.tenant == tenant))
    return gone


def sweep(write: Callable[[Callable[[Connection], int]], int], grace: timedelta) -> int:
    """Delete what nothing needs any more, a bounded number at a time, and return how many blobs went."""
    total = 0
    while True:
        gone = write(lambda connection: blobs.sweep(connection, grace))
        total += gone
        if gone < blobs.SWEEP_BLOBS:
            return total


def sweep_batch(write: Callable[[Callable[[Connection], int]], int]) -> bool:
    """Delete a batch of what nothing needs any more and tell whether there may be more."""
    return write(blobs.sweep) == blobs.SWEEP_BLOBS


def _blob_ids(connection: Connection, session_row: int) -> list[int]:
    query = select(ArtifactRow.blob_id).where(ArtifactRow.session_id == session_row).distinct()
    return list(connection.execute(query.order_by(ArtifactRow.blob_id)).scalars())
