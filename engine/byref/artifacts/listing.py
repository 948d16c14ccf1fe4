"""Lists of a session's artifacts, a page at a time: nothing of their bytes and schemas is read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Connection, Text, bindparam, exists, func, literal, or_, select, type_coerce

from byref.artifacts.counted import MOST_COUNTED, Counted
from byref.artifacts.store import batched, is_live
from byref.db.tables import ArtifactRow, EscapedText, VariableRow

ID = re.compile(r"art[_:]([\w-]{1,60})", re.ASCII)
"""An artifact's id, or its pointer."""


class Listed(NamedTuple):
    """What a list says of an artifact."""

    row_id: int
    id: str
    name: str | None
    size_bytes: int
    preview: str
    content_type: str
    stored_at: datetime


class Unbound(NamedTuple):
    """What there is to say of an artifact that no variable stands for."""

    row_id: int
    id: str
    name: str | None
    size_bytes: int
    shape: str
    """JSON."""
    step: int | None


def page_of(
    connection: Connection, session_id: int, *, prefix: str, after: int, limit: int
) -> tuple[list[Listed], Counted]:
    """Return the oldest artifacts behind a row id whose name or id begins with `prefix`, and how many there are."""
    row = ArtifactRow
    where = [row.session_id == session_id, row.id > after, is_live()]
    if prefix:
        # Compared as it is stored: LIKE takes no account of case on SQLite.
        stored = EscapedText().process_bind_param(prefix, connection.dialect) or ""
        begins = func.substr(type_coerce(row.name, Text), 1, len(stored)) == literal(stored, Text)
        where.append(or_(begins, func.substr(row.public_id, 1, len(prefix)) == literal(stored, Text)))
    query = select(row.id, row.public_id, row.name, row.size_bytes, row.preview, row.content_type, row.created_at)
    rows = connection.execute(query.where(*where).order_by(row.id).limit(limit)).all()
    count = len(rows)
    if count == limit:
        counted = select(row.id).where(*where).order_by(row.id).limit(MOST_COUNTED + 1).subquery()
        count = connection.execute(select(func.count()).select_from(counted)).scalar_one()
    return [Listed(*one) for one in rows], Counted.of(count)


_NEWEST = (
    select(ArtifactRow.id)
    .where(ArtifactRow.session_id == bindparam("of_session"), is_live(bindparam("now")))
    .order_by(ArtifactRow.id.desc())
    .limit(bindparam("window"))
    .subquery()
)
_UNBOUND = (
    select(_NEWEST.c.id).where(~exists().where(VariableRow.artifact_id == _NEWEST.c.id)).order_by(_NEWEST.c.id.desc())
)
_LOOKED_AT = select(func.count()).select_from(_NEWEST)
_TOLD = select(
    *(ArtifactRow.id, ArtifactRow.public_id, ArtifactRow.name, ArtifactRow.size_bytes),
    *(ArtifactRow.shape, ArtifactRow.step),
).where(ArtifactRow.id.in_(bindparam("ids", expanding=True)))


def newest_unbound(connection: Connection, session_id: int, limit: int) -> tuple[list[Unbound], Counted]:
    """Return the artifacts stored last that no variable stands for, newest first, and how many there are.

    No more than `limit` and `MOST_COUNTED` of the newest are looked at.
    """
    window = max(limit, MOST_COUNTED)
    about = {"of_session": session_id, "now": datetime.now(UTC), "window": window}
    ids = connection.execute(_UNBOUND, about).scalars().all()
    is_all = connection.execute(_LOOKED_AT, about).scalar_one() < window
    rows = [row for some in batched(ids[:limit]) for row in connection.execute(_TOLD, {"ids": some})]
    rows.sort(key=attrgetter("id"), reverse=True)
    return [Unbound(*one) for one in rows], Counted(len(ids), is_all)


def made_by(connection: Connection, session_id: int, step: int) -> list[str]:
    """Return the ids of the artifacts that a step of the session's ledger made, oldest first."""
    row = ArtifactRow
    made = select(row.public_id).where(row.session_id == session_id, row.step == step, is_live())
    return list(connection.execute(made.order_by(row.id)).scalars())


def row_id_of(connection: Connection, session_id: int, key: str) -> int | None:
    """Return the row id of the session's artifact with that id or pointer."""
    if (match := ID.fullmatch(key)) is None:
        return None
    by_id = select(ArtifactRow.id).where(
        ArtifactRow.session_id == session_id, ArtifactRow.public_id == "art_" + match[1]
    )
    return connection.execute(by_id).scalar_one_or_none()
