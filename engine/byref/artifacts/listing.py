"""List a session's artifacts, a page at a time, without reading their bytes and schemas."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Text, bindparam, exists, func, or_, select, text, tuple_, type_coerce

from byref.artifacts.counted import MOST_COUNTED, Counted
from byref.artifacts.store import ID, batched, is_live
from byref.db.column_types import EscapedText
from byref.db.tables import CAME, WAS_MADE, ArtifactRow, VariableRow

MOST_BY_AGE = 200
"""Up to this many artifacts with a prefix are sorted by age; more are listed in the order of an index."""


class Listed(NamedTuple):
    """An artifact as a list shows it."""

    row_id: int
    id: str
    name: str | None
    size_bytes: int
    preview: str
    content_type: str
    stored_at: datetime


class Unbound(NamedTuple):
    """An artifact to which no variable is bound."""

    row_id: int
    id: str
    name: str | None
    size_bytes: int
    shape: str
    """JSON."""
    step: int | None


class Page(NamedTuple):
    """A page of artifacts, and how many artifacts there are from its first one on."""

    listed: list[Listed]
    total: Counted


def page_of(connection: Connection, session_row: int, *, prefix: str, after: int, limit: int) -> Page | None:
    """Return the artifacts whose name or id begins with `prefix`, after the one with the row id `after` (0: from the start).

    They come oldest first. Only if more than `MOST_BY_AGE` begin with the prefix, they are sorted by name or id, and those
    with the same name by age; None then, if the artifact `after` does not begin with the prefix.
    """
    about = {"of_session": session_row, "now": datetime.now(UTC), "behind": after, "most": limit}
    if not _ID_START.startswith(prefix):  # every id begins with "", "a", … "art_": then the prefix excludes nothing
        return _page_of_those(connection, about, prefix)
    listed = [Listed(*row) for row in connection.execute(_ALL, about)]
    count = len(listed)
    if count == limit:
        count = connection.execute(_COUNT, {**about, "most": MOST_COUNTED + 1}).scalar_one()
    return Page(listed, Counted.of(count))


class _At(NamedTuple):
    """A position in a list that is sorted by name or id."""

    key: str
    """A name in its stored form, or an id."""
    row_id: int


def _page_of_those(connection: Connection, about: dict[str, Any], prefix: str) -> Page | None:
    after, limit = about["behind"], about["most"]
    stored = EscapedText().process_bind_param(prefix, connection.dialect) or ""
    queries = [*_BY_NAME, *([_BY_ID] if prefix.startswith(_ID_START) else [])]

    def places(behind: _At, most: int) -> list[_At]:
        place = {"prefix": stored, "beyond": _beyond(stored), "key": behind.key, "behind": behind.row_id, "most": most}
        found = (_At(*row) for query in queries for row in connection.execute(query, {**about, **place}))
        return sorted(found)[:most]

    found = places(_At(stored, 0), MOST_BY_AGE + 1)
    if len(found) <= MOST_BY_AGE:
        ids = sorted(at.row_id for at in found if at.row_id > after)
    else:
        if after:
            called = connection.execute(_CALLED, {"row": after}).one_or_none() or ()
            keys = [key for key in called if key and key.startswith(stored)]
            if not keys:
                return None
            found = places(_At(keys[0], after), max(limit, MOST_COUNTED) + 1)
        ids = [at.row_id for at in found]
    rows = {row.id: row for row in connection.execute(_LISTED, {"ids": ids[:limit]})}
    return Page([Listed(*rows[id_]) for id_ in ids[:limit] if id_ in rows], Counted.of(len(ids)))


def _beyond(text: str) -> str:
    """Return an upper bound, in the order of code points, of all texts that begin with this one."""
    kept = text.rstrip("\U0010ffff")
    if not kept:
        return "\U0010ffff" * _LONGEST
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)


def _listed_by(key: Any, *where: Any) -> Any:
    """Select (key, row id), sorted, of the artifacts whose key begins with the prefix, behind a given position."""
    mine = ArtifactRow.session_id == bindparam("of_session"), is_live(bindparam("now"))
    behind = tuple_(key, ArtifactRow.id) > tuple_(bindparam("key", type_=Text), bindparam("behind"))
    begins = behind, key < bindparam("beyond", type_=Text)
    return select(key, ArtifactRow.id).where(*mine, *begins, *where).order_by(key, ArtifactRow.id).limit(_MOST)


_ID_START = "art_"
_LONGEST = 1_000
"""Longest name, in characters, that a search by prefix finds."""
_MOST: Any = bindparam("most")
_NAME, _PUBLIC_ID = type_coerce(ArtifactRow.name, Text), type_coerce(ArtifactRow.public_id, Text)
_COLUMNS: Any = (
    *(ArtifactRow.id, ArtifactRow.public_id, ArtifactRow.name, ArtifactRow.size_bytes, ArtifactRow.preview),
    *(ArtifactRow.content_type, ArtifactRow.created_at),
)
_BEHIND = (
    ArtifactRow.session_id == bindparam("of_session"),
    ArtifactRow.id > bindparam("behind"),
    is_live(bindparam("now")),
)
_ALL = select(*_COLUMNS).where(*_BEHIND).order_by(ArtifactRow.id).limit(_MOST)
_COUNT = select(func.count()).select_from(select(ArtifactRow.id).where(*_BEHIND).limit(_MOST).subquery())
_LISTED = select(*_COLUMNS).where(ArtifactRow.id.in_(bindparam("ids", expanding=True)))
_BY_NAME = tuple(_listed_by(_NAME, text(origin)) for origin in (CAME, WAS_MADE))
_BY_ID = _listed_by(
    _PUBLIC_ID,
    or_(
        ArtifactRow.name.is_(None),
        bindparam("prefix", type_=Text) > _NAME,
        bindparam("beyond", type_=Text) <= _NAME,
    ),
)
_CALLED = select(_NAME, ArtifactRow.public_id).where(ArtifactRow.id == bindparam("row"))

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
_UNBOUND_ROWS = select(
    *(ArtifactRow.id, ArtifactRow.public_id, ArtifactRow.name, ArtifactRow.size_bytes),
    *(ArtifactRow.shape, ArtifactRow.step),
).where(ArtifactRow.id.in_(bindparam("ids", expanding=True)))


def newest_unbound(
    connection: Connection, session_row: int, limit: int, *, but: Collection[int] = ()
) -> tuple[list[Unbound], Counted]:
    """Return the newest artifacts to which no variable is bound, newest first, and how many there are. Those with the row ids `but`
    are left out.

    Only the newest `max(limit, MOST_COUNTED)` artifacts are looked at.
    """
    window = max(limit, MOST_COUNTED)
    about = {"of_session": session_row, "now": datetime.now(UTC), "window": window}
    ids = [one for one in connection.execute(_UNBOUND, about).scalars() if one not in but]
    is_all = connection.execute(_LOOKED_AT, about).scalar_one() < window
    rows = [row for some in batched(ids[:limit]) for row in connection.execute(_UNBOUND_ROWS, {"ids": some})]
    rows.sort(key=attrgetter("id"), reverse=True)
    return [Unbound(*one) for one in rows], Counted(len(ids), is_all)


def made_by(connection: Connection, session_row: int, step: int) -> list[str]:
    """Return the ids of the artifacts that the reply of a step made, oldest first."""
    row = ArtifactRow
    made = select(row.public_id).where(row.session_id == session_row, row.step == step, text(WAS_MADE), is_live())
    return list(connection.execute(made.order_by(row.id)).scalars())


def row_id_of(connection: Connection, session_row: int, key: str) -> int | None:
    """Return the row id of the session's artifact with that id or pointer."""
    if (match := ID.fullmatch(key)) is None:
        return None
    by_id = select(ArtifactRow.id).where(
        ArtifactRow.session_id == session_row, ArtifactRow.public_id == "art_" + match[1]
    )
    return connection.execute(by_id).scalar_one_or_none()
