"""Tombstones: records of expired artifacts, which tell those who name one what it was and how to get it again.

An artifact cannot be found from the moment at which it expires; a sweep turns its row into a tombstone later. This module
finds both: expired rows and tombstones.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select, update

from byref.artifacts import blobs, store, variables
from byref.db import sums
from byref.db.tables import ArtifactRow, LedgerRow, NameRow, TombstoneRow, VariableRow

KEPT = timedelta(days=30)
"""How long a tombstone is kept."""
MOST = 1_000
"""Most tombstones of one session; the newest are kept."""
ARGUMENT_CHARS = 2_000
"""Characters of a call's arguments that the text shows."""
GONE = "the stored data is gone or damaged"
"""Beginning of the text for the model if bytes are missing, or are not the ones that were stored."""
_SHAPE_CHARS = 300
_LONGEST = 1_000
"""Longest name, in characters, that is searched for."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What an artifact was, when it expired, and which call made it."""

    id: str
    step: int | None
    origin: str
    """output, run, model or host"""
    content_type: str
    size_bytes: int
    name: str | None
    variables: tuple[str, ...]
    """The names that were bound to it or to a part of it."""
    tool: str | None
    arguments: str | None
    """The call's arguments, as the model wrote them."""
    shape: object
    expired_at: datetime

    def answers_to(self, key: str) -> bool:
        """Tell whether the artifact had that id, pointer, variable (with or without `$`) or name."""
        bare = _bare(key)
        alias = variables.ALIAS.match(bare)
        if alias and self.origin == "output" and self.variables:
            return self.step == int(alias[1])
        return bare == self.id or bare in self.variables or bare == self.name

    def message(self, key: str) -> str:
        """Return the text for those who name it: what it was, when it expired, and how to get it again."""
        when = self.expired_at.strftime("%Y-%m-%d %H:%M UTC")
        shape = json.dumps(self.shape, ensure_ascii=False) if not isinstance(self.shape, str) else self.shape
        what = f"{self.content_type}, {self.size_bytes:,} bytes, {_cut(shape, _SHAPE_CHARS)}"
        cure = _cure(self.origin, self.tool, self.arguments)
        return f"{key[:100]!r} is gone: it expired on {when}. It was {what}. {cure}"


def _bare(key: str) -> str:
    """Return a key in the form of the tables: a pointer as an id, a variable without `$`."""
    bare = key.strip().removeprefix("$")
    return "art_" + bare.removeprefix("art:") if bare.startswith("art:") else bare


def find(connection: Connection, session_row: int, keys: Collection[str]) -> dict[str, Tombstone]:
    """Return, for each key that named an expired artifact or variable of the session, the newest tombstone."""
    found: dict[str, Tombstone] = {}
    for some in store.batched(keys):
        called = _Called.of(some)
        # The caller found no live artifact with these keys: a row that a key finds has expired, but was not swept yet.
        expired = ArtifactRow.id.in_(_rows_called(connection, session_row, called))
        gone = _dying(connection, and_(ArtifactRow.session_id == session_row, expired), MOST)
        known = [_tombstone(row) for row in (*gone[::-1], *_swept(connection, session_row, called))]
        for key in some:
            one = next((tombstone for tombstone in known if tombstone.answers_to(key)), None)
            if one is not None:
                found[key] = one
    return found


class _Called(NamedTuple):
    """The possible meanings of some keys, in the form of the tables."""

    ids: set[str]
    names: set[str]
    variables: set[str]
    steps: set[int]
    """The steps N of aliases `var_step_N`."""

    @classmethod
    def of(cls, keys: Collection[str]) -> _Called:
        bare = {_bare(key) for key in keys}
        steps = {int(alias[1]) for name in bare if (alias := variables.ALIAS.match(name))}
        names = {name for name in bare if len(name) <= _LONGEST}
        return cls({name for name in bare if store.is_id(name)}, names, set(filter(variables.is_name, bare)), steps)


def _rows_called(connection: Connection, session_row: int, called: _Called) -> set[int]:
    """Return the row ids of artifacts with these keys, expired or not; for each name, of the newest artifact."""
    artifact, variable = ArtifactRow.session_id == session_row, VariableRow.session_id == session_row
    queries = (
        (called.ids, select(ArtifactRow.id).where(artifact, ArtifactRow.public_id.in_(called.ids))),
        (called.variables, select(VariableRow.artifact_id).where(variable, VariableRow.name.in_(called.variables))),
        (called.steps, select(VariableRow.artifact_id).where(variable, VariableRow.step.in_(called.steps))),
    )
    rows = {row for some, query in queries if some for row in connection.execute(query).scalars()}
    return rows | store.rows_ever_named(connection, session_row, called.names)


def _swept(connection: Connection, session_row: int, called: _Called) -> list[Mapping[str, Any]]:
    """Return the rows of tombstones that may match, newest first; there are at most `MOST`."""
    columns = [column for column in TombstoneRow.__table__.c if column.name not in ("id", "tenant", "session_id")]
    by_variable = (
        TombstoneRow.variables.contains(json.dumps(name), autoescape=True) for name in sorted(called.variables)
    )
    may_be = or_(
        TombstoneRow.public_id.in_(called.ids),
        TombstoneRow.name.in_(called.names),
        TombstoneRow.step.in_(called.steps),
        *by_variable,
    )
    rows = select(*columns).where(TombstoneRow.session_id == session_row, may_be).order_by(TombstoneRow.id.desc())
    return [dict(row) for row in connection.execute(rows).mappings()]


def expire(connection: Connection, row_ids: Collection[int]) -> tuple[int, int]:
    """Turn the expired ones of some artifacts into tombstones; return their number, and the number of blobs deleted.

    The caller has locked their sessions. The digest of an output's call is deleted too: when the same call is made again,
    its output is not taken for a repetition, but stored again.
    """
    dying = _dying(connection, ArtifactRow.id.in_(row_ids), len(row_ids), lock=True)
    if not dying:
        return 0, 0
    rows = [row["row_id"] for row in dying]
    hidden = ("row_id", "blob_id")
    connection.execute(
        insert(TombstoneRow), [{name: value for name, value in row.items() if name not in hidden} for row in dying]
    )
    connection.execute(update(LedgerRow).where(LedgerRow.artifact_id.in_(rows)).values(artifact_id=None))
    for session_row in {row["session_id"] for row in dying}:
        steps = {row["step"] for row in dying if row["session_id"] == session_row and row["origin"] == "output"}
        outputs = LedgerRow.session_id == session_row, LedgerRow.step.in_(steps), LedgerRow.kind == "output"
        connection.execute(update(LedgerRow).where(*outputs).values(call_digest=None))
        _cap(connection, session_row)
    for table in (NameRow, VariableRow):
        connection.execute(delete(table).where(table.artifact_id.in_(rows)))
    connection.execute(delete(ArtifactRow).where(ArtifactRow.id.in_(rows)))
    sums.freed(connection, {row["session_id"] for row in dying})
    return len(rows), blobs.delete_unused(connection, sorted({row["blob_id"] for row in dying}))


def cure(connection: Connection, session_row: int, blob_id: int | None) -> str:
    """Return the text for the model if stored bytes cannot be read any more: it names the call that makes them again."""
    made = select(ArtifactRow.step, ArtifactRow.origin).where(
        ArtifactRow.session_id == session_row, ArtifactRow.blob_id == blob_id
    )
    found = connection.execute(made.order_by(ArtifactRow.id.desc()).limit(1)).one_or_none()
    if found is None:
        return f"{GONE}; call the tool that made it again"
    call = select(LedgerRow.tool, LedgerRow.arguments).where(
        LedgerRow.session_id == session_row, LedgerRow.step == found.step, LedgerRow.kind.in_(("output", "reply"))
    )
    tool, arguments = connection.execute(call).one_or_none() or (None, None)
    return f"{GONE}. {_cure(found.origin, tool, arguments)}"


def sweep(connection: Connection, most: int) -> int:
    """Delete up to `most` tombstones that are older than `KEPT` and return how many."""
    old = select(TombstoneRow.id).where(TombstoneRow.expired_at < datetime.now(UTC) - KEPT)
    ids = connection.execute(old.order_by(TombstoneRow.expired_at).limit(most).with_for_update(skip_locked=True))
    return connection.execute(delete(TombstoneRow).where(TombstoneRow.id.in_(ids.scalars().all()))).rowcount


def _dying(
    connection: Connection, which: ColumnElement[bool], most: int, *, lock: bool = False
) -> list[dict[str, Any]]:
    """Return expired artifacts, oldest first, as rows of tombstones, with `row_id` and `blob_id` added."""
    row = ArtifactRow
    query = (
        select(
            row.id.label("row_id"),
            row.blob_id,
            row.public_id,
            row.tenant,
            row.session_id,
            row.step,
            row.origin,
            row.content_type,
            row.size_bytes,
            row.name,
            row.shape,
            row.expires_at.label("expired_at"),
        )
        .where(which, row.expires_at <= datetime.now(UTC))
        .order_by(row.expires_at, row.id)
        .limit(most)
    )
    dying = connection.execute(query.with_for_update(skip_locked=True) if lock else query).mappings().all()
    if not dying:
        return []
    variables: dict[int, list[str]] = {}
    bound = select(VariableRow.artifact_id, VariableRow.name).where(
        VariableRow.artifact_id.in_([one["row_id"] for one in dying])
    )
    for artifact_id, name in connection.execute(bound.order_by(VariableRow.id)):
        variables.setdefault(artifact_id, []).append(name)
    steps = {one["step"] for one in dying if one["step"] is not None}
    called = select(LedgerRow.session_id, LedgerRow.step, LedgerRow.tool, LedgerRow.arguments).where(
        LedgerRow.session_id.in_({one["session_id"] for one in dying}),
        LedgerRow.step.in_(steps),
        LedgerRow.kind.in_(("output", "reply")),
    )
    calls = {(session, step): (tool, arguments) for session, step, tool, arguments in connection.execute(called)}
    made = []
    for one in dying:
        tool, arguments = calls.get((one["session_id"], one["step"]), (None, None))
        names = json.dumps(variables.get(one["row_id"], []))
        made.append({**one, "variables": names, "tool": tool, "arguments": arguments})
    return made


def _cap(connection: Connection, session_row: int) -> None:
    mine = TombstoneRow.session_id == session_row
    last = connection.execute(
        select(TombstoneRow.id).where(mine).order_by(TombstoneRow.id.desc()).offset(MOST).limit(1)
    )
    if (row_id := last.scalar_one_or_none()) is not None:
        connection.execute(delete(TombstoneRow).where(mine, TombstoneRow.id <= row_id))


_AS_STORED = [one.name for one in fields(Tombstone) if one.name not in ("id", "variables", "shape")]


def _tombstone(row: Mapping[str, Any]) -> Tombstone:
    return Tombstone(
        **{name: row[name] for name in _AS_STORED},
        id=row["public_id"],
        variables=_names_in(row["variables"]),
        shape=store.shape_in(row["shape"], ""),
    )


def _names_in(column: str) -> tuple[str, ...]:
    """Return the names that led to an artifact; of a damaged column, none."""
    try:
        return msgspec.convert(json.loads(column), tuple[str, ...])
    except (ValueError, RecursionError):
        return ()


def _cure(origin: str, tool: str | None, arguments: str | None) -> str:
    if tool is None:
        return "The application stored it, and would have to store it again."
    if origin == "model":
        return f"Store it with {tool} again, if it is needed."
    given = f" with {_cut(arguments, ARGUMENT_CHARS)}" if arguments else ""
    return f"Call {tool} again{given} to have it again."


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
