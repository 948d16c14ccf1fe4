"""A small payload, its artifact and the variable bound to it, inserted by one statement.

Most outputs that are stored are small and have one name. On PostgreSQL one statement in place of three spares two round trips
under the session's lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from byref.artifacts import blobs, store, variables
from byref.artifacts.blobs import Published
from byref.artifacts.staging import Buffered
from byref.artifacts.store import Artifact
from byref.db import linked
from byref.db.linked import Link
from byref.db.payloads import Source
from byref.db.tables import ArtifactRow, VariableRow

_PUBLISH = linked.statement(
    blobs.BLOB,
    blobs.FRAME,
    Link(ArtifactRow, store.GIVEN, "blob_id", gives_id=True),
    Link(VariableRow, variables.GIVEN, "artifact_id", to=2),
)


def publish(
    connection: Connection, source: Source, buffered: Buffered, artifact: Mapping[str, Any], variable: Mapping[str, Any]
) -> Artifact | None:
    """Write and publish a payload, insert its artifact, and bind that to a new name; the columns are those of `new_row`.

    Returns None, and inserts nothing, if that takes several statements: on SQLite, for a payload of several frames, and if the
    tenant has a published blob with the digest.
    """
    if connection.dialect.name != "postgresql" or len(buffered.frames) != 1:
        return None
    tenant, digest = artifact["tenant"], buffered.content.digest
    size, lines = len(buffered.content.data), buffered.content.lines
    blob = blobs.published_row(tenant, digest, size, lines, buffered.key)
    rows = blob, blobs.frame_row(tenant, buffered.frames[0]), artifact, variable
    found = connection.execute(_PUBLISH, linked.parameters(*rows)).one_or_none()
    if found is None:
        return None
    return store.inserted(artifact, found[1], Published(found[0], buffered.key, None, digest, size, lines), source)
