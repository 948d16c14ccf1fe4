"""A small payload, its artifact and the variable bound to it, inserted by one statement.

Most outputs that are stored are small and have one name. On PostgreSQL one statement in place of four spares three round trips
under the session's lock. It inserts before anybody knows whether the quota has room and whether the name is free: it tells
both, and the caller rolls back or binds another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection

from byref.artifacts import blobs, quotas, store, variables
from byref.artifacts.blobs import Published
from byref.artifacts.quotas import Came
from byref.artifacts.staging import Buffered
from byref.artifacts.store import Artifact
from byref.db import linked
from byref.db.linked import Link
from byref.db.payloads import Source
from byref.db.sums import Bytes
from byref.db.tables import ArtifactRow, VariableRow

_PUBLISH = linked.statement(
    blobs.BLOB,
    blobs.FRAME,
    Link(ArtifactRow, store.GIVEN, "blob_id", gives_id=True),
    Link(VariableRow, variables.GIVEN, "artifact_id", to=2, gives_id=True, may_conflict=True),
    beside=[quotas.CAME, variables.ARE_BOUND],
)


class Inserted(NamedTuple):
    """What the statement inserted, and what it saw of the session before."""

    artifact: Artifact
    is_bound: bool
    """Whether the variable was inserted; if not, its name is taken."""
    came: Came
    are_bound: bool
    """Whether the names before it were bound."""


def can_publish(connection: Connection, buffered: Buffered) -> bool:
    """Tell whether one statement is enough: not on SQLite, and not for a payload of several frames."""
    return connection.dialect.name == "postgresql" and len(buffered.frames) == 1


def publish(
    connection: Connection,
    source: Source,
    buffered: Buffered,
    artifact: Mapping[str, Any],
    variable: Mapping[str, Any],
    kept: Bytes,
    before: tuple[str, str],
) -> Inserted | None:
    """Write and publish a payload, insert its artifact, and bind that to a new name; the columns are those of `new_row`.

    Also looks for what the session has stored since the sum `kept`, and whether the names `before` are bound. Returns None, and
    inserts nothing, if the tenant has a published blob with the digest.
    """
    tenant, digest = artifact["tenant"], buffered.content.digest
    size, lines = len(buffered.content.data), buffered.content.lines
    blob = blobs.published_row(tenant, digest, size, lines, buffered.key)
    rows = linked.parameters(blob, blobs.frame_row(tenant, buffered.frames[0]), artifact, variable)
    session_row = artifact["session_id"]
    about = quotas.about_came(session_row, kept) | variables.about_bound(session_row, before)
    found = connection.execute(_PUBLISH, rows | about).one_or_none()
    if found is None:
        return None
    blob_id, artifact_id, variable_id, came, count, are_bound = found
    published = Published(blob_id, buffered.key, None, digest, size, lines)
    inserted = store.inserted(artifact, artifact_id, published, source)
    return Inserted(inserted, variable_id is not None, Came(int(came), count), are_bound)
