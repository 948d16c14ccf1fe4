"""A small payload, its artifact, the variable bound to it and the output's step, inserted by one statement.

Most outputs that are stored are small and have one name. On PostgreSQL one statement in place of five spares four round trips
under the session's lock. It inserts before anybody knows whether the quota has room and whether the name is free: it tells
both, and the caller rolls back, or binds another name and appends the step with that.
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
from byref.db.tables import ArtifactRow, LedgerRow, VariableRow

_ARTIFACT = Link(ArtifactRow, store.GIVEN, refers="blob_id", gives=["id"])
_OF_VARIABLE = ["id", "artifact_id"]
_VARIABLE = Link(VariableRow, variables.GIVEN, refers="artifact_id", to=2, gives=_OF_VARIABLE, may_conflict=True)
_OF_OUTPUT = (
    *("tool", "call_id", "call_digest", "content_digest", "arguments", "route", "reason", "content"),
    *("tokens", "original_tokens", "original_bytes", "is_error", "detail"),
)
_OUTPUT = Link(
    LedgerRow,
    ("tenant", "session_id", "step", "created_at", *_OF_OUTPUT),
    {"kind": "'output'", "in_turn": "false"},
    refers="artifact_id",
    to=3,
    condition="are_bound",
)
"""Only if the variable has the name that its text says, and that is the next one."""
_LOOK = quotas.CAME.add_columns(variables.ARE_BOUND)
_PUBLISH = linked.statement(blobs.BLOB, blobs.FRAME, _ARTIFACT, _VARIABLE, beside=_LOOK)
_PUBLISH_AND_APPEND = linked.statement(blobs.BLOB, blobs.FRAME, _ARTIFACT, _VARIABLE, _OUTPUT, beside=_LOOK)


class Inserted(NamedTuple):
    """What the statement inserted, and what it saw of the session before."""

    artifact: Artifact
    is_bound: bool
    """Whether the variable was inserted; if not, its name is taken."""
    is_next: bool
    """Whether it was, and the names before it are bound; then the output's step, if one was given, was appended."""
    came: Came


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
    output: Mapping[str, Any] | None,
) -> Inserted | None:
    """Write and publish a payload, insert its artifact, and bind that to a new name; the columns are those of `new_row`.

    Also looks for what the session has stored since the sum `kept`, and whether the names `before` are bound; if they are, and
    the name was free, the step of an `output` that passes whole is appended. Returns None, and inserts nothing, if the tenant
    has a published blob with the digest.
    """
    tenant, digest = artifact["tenant"], buffered.content.digest
    size, lines = len(buffered.content.data), buffered.content.lines
    blob = blobs.published_row(tenant, digest, size, lines, buffered.key)
    rows = [blob, blobs.only_frame_row(tenant, buffered.frames[0]), artifact, variable]
    if output is not None:
        rows.append({name: output[name] for name in _OF_OUTPUT})
    about = quotas.about_came(artifact["session_id"], kept) | variables.about_bound(before)
    statement = _PUBLISH if output is None else _PUBLISH_AND_APPEND
    found = connection.execute(statement, about | linked.parameters(*rows)).one_or_none()
    if found is None:
        return None
    blob_id, artifact_id, variable_id, came, count, are_bound = found
    published = Published(blob_id, buffered.key, None, digest, size, lines)
    inserted = store.inserted(artifact, artifact_id, published, source)
    is_bound = variable_id is not None
    return Inserted(inserted, is_bound, is_bound and are_bound, Came(int(came), count))
