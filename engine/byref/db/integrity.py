"""Check that a database satisfies all invariants. Read-only; each invariant is one query or one pass over the bytes.

Also checks violations that the tables' keys and constraints rule out, because a host's SQLite connection may not enforce
foreign keys, and because files get damaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from blake3 import blake3
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    LargeBinary,
    and_,
    exists,
    func,
    not_,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.orm import aliased

from byref.db import sums
from byref.db.database import Database
from byref.db.discards import drafts, strays
from byref.db.payloads import Source, StoredPayload
from byref.db.revisions import HEAD, REVISIONS
from byref.db.tables import (
    GRACE,
    RETIRED,
    AnswerRow,
    ArtifactRow,
    BlobRow,
    CallRow,
    CompatibilityRow,
    DiscardRow,
    FrameRow,
    ItemRow,
    LedgerRow,
    NameRow,
    ProgramRow,
    RemoteCallRow,
    RemoteFunctionsRow,
    RunRow,
    SchemaRow,
    SessionRow,
    TenantRow,
    TokenRow,
    TombstoneRow,
    VariableRow,
)
from byref.describe.packing import unpack_schema
from byref.errors import ArtifactMissing
from byref.policy.routes import Route
from byref.stores.frames import unpack
from byref.stores.guarded import Guarded
from byref.stores.protocol import BlobStore

MOST = 1_000
"""Largest number of problems that are reported of one kind."""
BATCH = 100
"""Blobs that one query selects for the check of their bytes."""
NAMES = 4
"""Values kept by code that one query loads; few, because each has up to tens of megabytes."""

_TABLES = (
    SessionRow,
    LedgerRow,
    ArtifactRow,
    VariableRow,
    NameRow,
    BlobRow,
    FrameRow,
    RunRow,
    ProgramRow,
    CallRow,
    AnswerRow,
    SchemaRow,
    TombstoneRow,
    ItemRow,
    DiscardRow,
    RemoteCallRow,
    RemoteFunctionsRow,
    TokenRow,
)
_OF_SESSION = (
    LedgerRow,
    ArtifactRow,
    VariableRow,
    NameRow,
    RunRow,
    ProgramRow,
    CallRow,
    AnswerRow,
    TombstoneRow,
    ItemRow,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A violated invariant."""

    check: str
    """Short name of the invariant."""
    table: str
    row: str
    """The row that violates it, such as `id 17` or `blob 3 frame 2`."""
    detail: str

    def __str__(self) -> str:
        """Return the problem as one line."""
        return f"{self.check}: {self.table}, {self.row}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Report:
    """The counts of an examination, and the problems found."""

    figures: Mapping[str, int]
    problems: tuple[Problem, ...]


def examine(
    url_or_engine: str | URL | Engine,
    *,
    deep: bool = False,
    schema: str | None = None,
    grace: timedelta = GRACE,
    blobs: BlobStore | None = None,
) -> Report:
    """Check every invariant, compare every frame with its checksum, and count rows and bytes.

    With `deep` each payload is also unpacked and compared with its digest, SQLite's own integrity check runs, and the
    store is searched for objects and drafts that belong to no blob. `blobs` is the store of objects, if there is one;
    without it, the bytes of objects are not read. Orphans younger than `grace` are no problem: a transaction may be
    about to use them.

    Raises:
        SchemaMismatch: the tables are not at the revision that this byref knows.
        StorageFailure: the database or the store cannot be reached.
    """
    database = Database(url_or_engine, schema=schema)
    objects = None if blobs is None else Guarded(blobs)
    try:
        database.prepare(create=False)
        figures, problems = database.read(lambda connection: (_figures(connection), list(_found(connection, grace))))
        problems += _damage(database, objects, deep=deep)
        if deep:
            problems += _strays(database, objects, grace)
    finally:
        database.close()
    return Report(figures, tuple(problems))


def _figures(connection: Connection) -> dict[str, int]:
    def one(query: Any) -> int:
        return int(connection.execute(query).scalar() or 0)

    def count(table: Any, *where: Any) -> int:
        return one(select(func.count()).select_from(table).where(*where))

    now = datetime.now(UTC)
    figures = {table.__tablename__.removeprefix("byref_"): count(table) for table in _TABLES}
    figures["ended_sessions"] = count(SessionRow, SessionRow.ended_at.is_not(None))
    figures["kept_artifacts"] = count(ArtifactRow, ArtifactRow.kept)
    figures["expired_artifacts"] = count(ArtifactRow, ArtifactRow.expires_at <= now)
    figures["staged_blobs"] = count(BlobRow, BlobRow.published_at.is_(None), BlobRow.staged_at > RETIRED)
    figures["retired_blobs"] = count(BlobRow, BlobRow.may_be_unused, BlobRow.staged_at <= RETIRED)
    figures["unused_blobs"] = count(BlobRow, ~exists().where(ArtifactRow.blob_id == BlobRow.id))
    figures["payload_bytes"] = one(select(func.sum(BlobRow.size_bytes)))
    stored = func.coalesce(FrameRow.object_bytes, func.length(FrameRow.data))
    figures["stored_bytes"] = one(select(func.sum(stored)))
    figures["frames_without_checksum"] = count(FrameRow, FrameRow.checksum.is_(None))
    figures["objects"] = count(BlobRow, BlobRow.store.is_not(None))
    figures["tenants"] = one(select(func.count(SessionRow.tenant.distinct())))
    return figures


def _found(connection: Connection, grace: timedelta) -> Iterator[Problem]:
    """Yield the problems that queries on one snapshot of the database find, at most `MOST` of each kind."""
    for check, table, query, detail in (*_references(), *_bytes(grace), *_sessions(), *_states()):
        for row in connection.execute(query.limit(MOST)).mappings():
            yield Problem(check, table.__tablename__, _named(dict(row)), detail.format_map(row))
    yield from _totals(connection)
    yield from _names(connection)
    yield from _json(connection)
    yield from _compatibility(connection)


_Check = tuple[str, Any, Any, str]  # SQLAlchemy 2.0 and 2.1 spell the type of a query differently


def _references() -> Iterator[_Check]:
    """Yield the checks for rows that refer to a missing row, or to a row of another tenant or session."""
    for table in _OF_SESSION:
        there = exists().where(SessionRow.id == table.session_id, SessionRow.tenant == table.tenant)
        query = select(table.id, table.session_id).where(~there)
        yield "no such session", table, query, "session {session_id} of the same tenant is not there"
    blob = exists().where(BlobRow.id == ArtifactRow.blob_id, BlobRow.tenant == ArtifactRow.tenant)
    published = exists().where(BlobRow.id == ArtifactRow.blob_id, BlobRow.published_at.is_not(None))
    stored = select(ArtifactRow.id, ArtifactRow.public_id, ArtifactRow.blob_id)
    yield (
        "artifact without bytes",
        ArtifactRow,
        stored.where(~blob),
        "{public_id}: blob {blob_id} of the same tenant is not there",
    )
    yield (
        "artifact of unpublished bytes",
        ArtifactRow,
        stored.where(blob, ~published),
        "{public_id}: blob {blob_id} is only staged",
    )
    data = exists().where(ArtifactRow.id == VariableRow.artifact_id, ArtifactRow.session_id == VariableRow.session_id)
    variables = select(VariableRow.id, VariableRow.name, VariableRow.artifact_id).where(~data)
    yield (
        "variable without data",
        VariableRow,
        variables,
        "{name}: artifact {artifact_id} of the same session is not there",
    )
    bound = exists().where(
        VariableRow.session_id == NameRow.session_id,
        VariableRow.name == NameRow.name,
        VariableRow.artifact_id == NameRow.artifact_id,
    )
    exact = select(NameRow.id, NameRow.name).where(NameRow.kind == "exact", ~bound)
    yield "exact value without its variable", NameRow, exact, "{name}: no variable is bound to its artifact"
    twice = exists().where(VariableRow.session_id == NameRow.session_id, VariableRow.name == NameRow.name)
    source = select(NameRow.id, NameRow.name).where(NameRow.kind == "source", twice)
    yield "name bound twice", NameRow, source, "{name}: it is a variable as well"
    made = exists().where(ArtifactRow.id == LedgerRow.artifact_id, ArtifactRow.session_id == LedgerRow.session_id)
    pointing = select(LedgerRow.id, LedgerRow.step, LedgerRow.artifact_id).where(
        LedgerRow.artifact_id.is_not(None), ~made
    )
    yield (
        "step without its artifact",
        LedgerRow,
        pointing,
        "step {step}: artifact {artifact_id} of the same session is not there",
    )
    program = exists().where(ProgramRow.id == CallRow.program_id, ProgramRow.session_id == CallRow.session_id)
    calls = select(CallRow.id, CallRow.program_id).where(~program)
    yield "call without its program", CallRow, calls, "program {program_id} of the same session is not there"
    owner = exists().where(BlobRow.id == FrameRow.blob_id, BlobRow.tenant == FrameRow.tenant)
    frames = select(FrameRow.blob_id, FrameRow.number).where(~owner)
    yield "frame without a blob", FrameRow, frames, "blob {blob_id} of the same tenant is not there"


def _bytes(grace: timedelta) -> Iterator[_Check]:
    """Yield the checks of blobs and frames."""
    yield (
        "digest",
        BlobRow,
        select(BlobRow.id).where(func.length(type_coerce(BlobRow.digest, LargeBinary)) != 32),
        "its digest has not 32 bytes",
    )
    twin = aliased(BlobRow)
    twice = exists().where(
        twin.tenant == BlobRow.tenant,
        twin.digest == BlobRow.digest,
        twin.published_at.is_not(None),
        twin.id < BlobRow.id,
    )
    query = select(BlobRow.id).where(BlobRow.published_at.is_not(None), twice)
    yield "bytes published twice", BlobRow, query, "the tenant has them under another id, too"
    totals = (
        select(FrameRow.blob_id, func.sum(FrameRow.size_bytes).label("size"), func.count().label("frames"))
        .group_by(FrameRow.blob_id)
        .subquery()
    )
    size = func.coalesce(totals.c.size, 0)
    short = select(BlobRow.id, BlobRow.size_bytes, size.label("there")).outerjoin(
        totals, totals.c.blob_id == BlobRow.id
    )
    short = short.where(BlobRow.published_at.is_not(None), BlobRow.size_bytes != size)
    yield "bytes missing", BlobRow, short, "{there} of {size_bytes} bytes are there"
    over: dict[str, Any] = {"partition_by": FrameRow.blob_id, "order_by": FrameRow.number}
    placed = select(
        FrameRow.blob_id,
        FrameRow.number,
        FrameRow.byte_offset,
        FrameRow.first_line,
        (func.row_number().over(**over) - 1).label("place"),
        (func.sum(FrameRow.size_bytes).over(**over) - FrameRow.size_bytes).label("offset"),
        func.lag(FrameRow.first_line, 1, 1).over(**over).label("line_before"),
        func.lag(FrameRow.size_bytes, 1, 0).over(**over).label("size_before"),
    ).subquery()
    frame = select(placed.c.blob_id, placed.c.number, placed.c.place, placed.c.byte_offset, placed.c.offset)
    yield "frames with a gap", FrameRow, frame.where(placed.c.number != placed.c.place), "number {place} was expected"
    displaced = placed.c.byte_offset != placed.c.offset
    yield "frames with a gap", FrameRow, frame.where(displaced), "it begins at byte {byte_offset}, expected at {offset}"
    lines = or_(
        placed.c.first_line < placed.c.line_before,
        placed.c.first_line > placed.c.line_before + placed.c.size_before,
        and_(placed.c.number == 0, placed.c.first_line != 1),
    )
    line = select(placed.c.blob_id, placed.c.number, placed.c.first_line, placed.c.line_before).where(lines)
    yield "line numbers", FrameRow, line, "it begins on line {first_line}, the one before on {line_before}"
    last = select(BlobRow.id, BlobRow.line_count).where(
        or_(BlobRow.line_count > BlobRow.size_bytes, and_(BlobRow.size_bytes > 0, BlobRow.line_count < 1))
    )
    yield "line numbers", BlobRow, last, "{line_count} lines are not possible"
    unused = select(BlobRow.id, BlobRow.staged_at).where(
        BlobRow.may_be_unused,
        BlobRow.staged_at > RETIRED,  # the frames of others go step by step: what is left of them is no fault
        BlobRow.staged_at < datetime.now(UTC) - grace,
        ~exists().where(ArtifactRow.blob_id == BlobRow.id),
    )
    yield "orphan", BlobRow, unused, "nothing has needed it since {staged_at:%Y-%m-%d %H:%M}; a sweep deletes it"
    unseen = select(BlobRow.id).where(
        ~BlobRow.may_be_unused,
        BlobRow.staged_at < datetime.now(UTC) - grace,
        ~exists().where(ArtifactRow.blob_id == BlobRow.id),
    )
    yield "orphan", BlobRow, unseen, "nothing needs it, but may_be_unused is false: no sweep looks at it"


def _sessions() -> Iterator[_Check]:
    """Yield the checks that steps have no gaps, and that a session's sums are those of its ledger."""
    steps = (
        select(LedgerRow.session_id, func.max(LedgerRow.step).label("last"), func.count().label("steps"))
        .group_by(LedgerRow.session_id)
        .subquery()
    )
    last, count = func.coalesce(steps.c.last, 0), func.coalesce(steps.c.steps, 0)
    taken = SessionRow.next_step - 1
    query = (
        select(SessionRow.id, taken.label("taken"), last.label("last"), count.label("steps"))
        .outerjoin(steps, steps.c.session_id == SessionRow.id)
        .where(or_(taken != last, count != last), ~SessionRow.is_deleted)
    )
    yield "ledger with a gap", SessionRow, query, "{taken} steps were taken; {steps} are there, up to {last}"
    pending = (
        select(func.coalesce(func.sum(LedgerRow.tokens), 0))
        .where(
            LedgerRow.session_id == SessionRow.id,
            LedgerRow.kind.in_(("output", "reply")),
            LedgerRow.step > SessionRow.pending_after,
        )
        .scalar_subquery()
    )
    query = select(SessionRow.id, SessionRow.pending_tokens, pending.label("sum")).where(
        SessionRow.pending_tokens != pending, ~SessionRow.is_deleted
    )
    yield "pending tokens", SessionRow, query, "{pending_tokens} are pending, the ledger's sum is {sum}"
    run = select(RunRow.id, RunRow.step).where(
        RunRow.step.is_not(None),
        ~exists().where(
            LedgerRow.session_id == RunRow.session_id, LedgerRow.step == RunRow.step, LedgerRow.kind == "reply"
        ),
    )
    yield "run without its reply", RunRow, run, "step {step} is no reply"

    # The bytes of a session are an upper bound: deletions lower the sum only when it is counted anew. So it is a problem
    # only if more is stored than the sum says. What has expired counts no more, before it is swept, too.
    bytes_of = select(func.coalesce(func.sum(BlobRow.size_bytes), 0)).where(
        BlobRow.id.in_(
            select(ArtifactRow.blob_id)
            .where(
                ArtifactRow.session_id == SessionRow.id,
                ArtifactRow.id <= SessionRow.stored_artifact,
                or_(ArtifactRow.expires_at.is_(None), ArtifactRow.expires_at > datetime.now(UTC)),
            )
            .correlate(SessionRow)
        )
    )
    names_of = select(func.coalesce(func.sum(NameRow.size_bytes), 0)).where(
        NameRow.session_id == SessionRow.id, NameRow.id <= SessionRow.stored_name
    )
    there = bytes_of.correlate(SessionRow).scalar_subquery() + names_of.scalar_subquery()
    short: Any = select(SessionRow.id, SessionRow.stored_bytes, there.label("there")).where(
        or_(SessionRow.stored_artifact > 0, SessionRow.stored_name > 0), SessionRow.stored_bytes < there
    )
    too_few = "at most {stored_bytes} bytes are said to be stored, {there} are"
    yield "stored bytes", SessionRow, short, too_few
    bytes_of = select(func.coalesce(func.sum(BlobRow.size_bytes), 0)).where(
        BlobRow.tenant == TenantRow.tenant, BlobRow.id <= TenantRow.stored_blob, BlobRow.published_at.is_not(None)
    )
    names_of = select(func.coalesce(func.sum(NameRow.size_bytes), 0)).where(
        NameRow.tenant == TenantRow.tenant, NameRow.id <= TenantRow.stored_name
    )
    there = bytes_of.scalar_subquery() + names_of.scalar_subquery()
    fewer: Any = select(TenantRow.tenant, TenantRow.stored_bytes, there.label("there"))
    yield "stored bytes", TenantRow, fewer.where(TenantRow.stored_bytes < there), too_few
    ahead = select(SessionRow.id, SessionRow.totals_through, taken.label("taken"))
    ahead = ahead.where(SessionRow.totals_through > taken)
    yield "totals", SessionRow, ahead, "they are those of {totals_through} steps; {taken} were taken"


def _totals(connection: Connection) -> Iterator[Problem]:
    """Compare the totals that sessions keep with the sums of their ledgers."""
    found = 0
    kept = select(SessionRow.id, SessionRow.totals, SessionRow.totals_through)
    kept = kept.where(SessionRow.totals.is_not(None), ~SessionRow.is_deleted)
    for session_row, totals, through in connection.execute(kept).yield_per(MOST):
        counted = sums.through(connection, session_row, through)
        try:
            is_right = json.loads(totals or "null") == counted
        except ValueError:
            is_right = False
        if not is_right and found < MOST:
            found += 1
            yield Problem(
                "totals", SessionRow.__tablename__, f"id {session_row}", f"they are not the sums of {through} steps"
            )


def _states() -> Iterator[_Check]:
    """Yield the checks for rows that should have been deleted together with others, and for steps that exist twice."""
    over = SessionRow.ended_at.is_not(None), SessionRow.clearing_at.is_(None)
    ended = exists().where(SessionRow.id == ArtifactRow.session_id, *over)
    query = select(ArtifactRow.id, ArtifactRow.public_id).where(ended, not_(ArtifactRow.kept))
    yield "artifact of an ended session", ArtifactRow, query, "{public_id} is not kept"
    for table in (VariableRow, NameRow, TombstoneRow):
        of_ended = exists().where(SessionRow.id == table.session_id, *over)
        yield "row of an ended session", table, select(table.id).where(of_ended), "it should have gone"
    alive = exists().where(ArtifactRow.public_id == TombstoneRow.public_id)
    stones = select(TombstoneRow.id, TombstoneRow.public_id).where(alive)
    yield "tombstone of a live artifact", TombstoneRow, stones, "{public_id} is there"
    lost = select(LedgerRow.id, LedgerRow.step).where(
        LedgerRow.route.in_([route.value for route in Route if route.is_reference]),
        LedgerRow.artifact_id.is_(None),
        LedgerRow.call_digest.is_not(None),
        exists().where(SessionRow.id == LedgerRow.session_id, SessionRow.ended_at.is_(None)),
    )
    yield "output without its artifact", LedgerRow, lost, "step {step} names data that is gone and did not expire"
    of_open = exists().where(ProgramRow.id == CallRow.program_id, ProgramRow.state != "ended")
    ended = exists().where(ProgramRow.id == CallRow.program_id, ProgramRow.state == "ended")
    calls = select(CallRow.id, CallRow.step).where(of_open, CallRow.step.is_not(None))
    yield "call of a step", CallRow, calls, "it has step {step}, though its program has not ended"
    kept = select(CallRow.id, CallRow.public_id).where(ended, CallRow.result.is_not(None))
    yield "result of an ended program", CallRow, kept, "{public_id}: nobody needs it any more"
    early = select(CallRow.id, CallRow.state).where(
        CallRow.state.not_in(("returned", "raised")), or_(CallRow.result.is_not(None), CallRow.artifact_id.is_not(None))
    )
    yield "result of no call", CallRow, early, "it is {state}, but has a result"
    replied = exists().where(
        LedgerRow.session_id == CallRow.session_id, LedgerRow.step == CallRow.step, LedgerRow.kind == "reply"
    )
    calls = select(CallRow.id, CallRow.step).where(CallRow.step.is_not(None), ~replied)
    yield "call without its reply", CallRow, calls, "step {step} is no reply"
    later = aliased(LedgerRow)
    forward = select(LedgerRow.id, LedgerRow.step).where(
        exists().where(later.session_id == LedgerRow.session_id, later.step == LedgerRow.step, later.id != LedgerRow.id)
    )
    yield "step taken twice", LedgerRow, forward, "step {step} is there again"


def _names(connection: Connection) -> Iterator[Problem]:
    """Check that variables have names that code can spell; others are left out wherever variables are read."""
    found = 0
    for row_id, name in connection.execute(select(VariableRow.id, VariableRow.name)).yield_per(MOST):
        if not name.isidentifier() and found < MOST:
            found += 1
            yield Problem("name", VariableRow.__tablename__, f"id {row_id}", f"{name!r:.100} is no identifier")


def _json(connection: Connection) -> Iterator[Problem]:
    """Check that the columns with JSON hold arrays of strings; a path may also be an object of one member, an array of steps."""
    columns = ((VariableRow, VariableRow.path), (TombstoneRow, TombstoneRow.variables))
    for table, column in columns:
        found = 0
        for row_id, text in connection.execute(select(table.id, column)).yield_per(MOST):
            try:
                value = json.loads(text)
                steps = column is VariableRow.path and isinstance(value, dict) and len(value) == 1
                value = next(iter(value.values())) if steps else value
                is_good = isinstance(value, list) and all(
                    isinstance(part, str) or (steps and _is_step(part)) for part in value
                )
            except ValueError:
                is_good = False
            if not is_good and found < MOST:
                found += 1
                yield Problem("JSON", table.__tablename__, f"id {row_id}", f"{column.key} is no array of strings")
    described: Any = ((ArtifactRow, ArtifactRow.shape, (str, dict)), (LedgerRow, LedgerRow.detail, (dict,)))
    for described_by, text_of, kinds in described:
        found = 0
        for row_id, text in connection.execute(select(described_by.id, text_of)).yield_per(MOST):
            if not _is_one_of(text, kinds) and found < MOST:
                found += 1
                yield Problem("JSON", described_by.__tablename__, f"id {row_id}", f"{text_of.key} is damaged")


def _is_one_of(text: str, kinds: tuple[type, ...]) -> bool:
    try:
        return isinstance(json.loads(text), kinds)
    except (ValueError, RecursionError):
        return False


def _is_step(value: object) -> bool:
    """Tell whether it is a step of a path that leads to many values: what it goes through, a column, a member."""
    return isinstance(value, list) and len(value) == 3 and all(isinstance(part, str) for part in value)


def _compatibility(connection: Connection) -> Iterator[Problem]:
    """Check the one row in which a migration says which older revisions of the code can still work with the database."""
    marks = [
        tuple(row) for row in connection.execute(select(CompatibilityRow.revision, CompatibilityRow.oldest).limit(9))
    ]
    if not (len(marks) == 1 and marks[0][0] not in REVISIONS[:-1] and marks[0][1] in REVISIONS):
        detail = f"{marks!r:.200} is there, one row was expected: {HEAD!r} and the oldest revision that works with it"
        yield Problem("compatibility", CompatibilityRow.__tablename__, "all rows", detail)


def _damage(database: Database, objects: BlobStore | None, *, deep: bool) -> Iterator[Problem]:
    """Check the stored bytes of published blobs and kept values; `deep` also unpacks payloads and checks SQLite's file."""
    if deep and database.dialect == "sqlite":
        for line in database.read(lambda c: c.exec_driver_sql("PRAGMA integrity_check(10)").scalars().all()):
            if line != "ok":
                yield Problem("damaged file", "sqlite", "PRAGMA integrity_check", str(line))
    source = Source(database.ask, objects)
    after = 0
    while True:
        blobs = database.read(lambda c, after=after: _batch(c, after))  # type: ignore[misc]
        for blob in blobs:
            if blob.store is None or (objects is not None and blob.store == objects.name):
                yield from _damage_of(database, source, blob, deep=deep)
        if len(blobs) < BATCH:
            break
        after = blobs[-1].id
    if deep:
        yield from database.read(lambda c: list(_schemas(c)))
    after = 0
    while names := database.read(lambda c, after=after: _names_behind(c, after)):  # type: ignore[misc]
        for name in names:
            if (damage := _damage_of_name(name)) is not None:
                yield Problem("damaged value", "byref_names", f"id {name.id}", f"{name.name}: {damage}")
        after = names[-1].id


def _schemas(connection: Connection) -> Iterator[Problem]:
    """Unpack what was learned of tools, and the schemas of artifacts."""
    for table, column in ((SchemaRow, SchemaRow.data), (ArtifactRow, ArtifactRow.json_schema)):
        found = 0
        for row_id, packed in connection.execute(select(table.id, column).where(column.is_not(None))).yield_per(BATCH):
            try:
                unpack_schema(packed or b"")
            except ValueError as error:
                if found < MOST:
                    found += 1
                    yield Problem("damaged schema", table.__tablename__, f"id {row_id}", str(error))


def _names_behind(connection: Connection, after: int) -> list[Any]:
    columns = (NameRow.id, NameRow.name, NameRow.digest, NameRow.size_bytes, NameRow.data)
    return list(connection.execute(select(*columns).where(NameRow.id > after).order_by(NameRow.id).limit(NAMES)))


def _damage_of_name(row: Any) -> str | None:
    try:
        is_sound = blake3(unpack("zstd", bytes(row.data), row.size_bytes)).digest() == bytes(row.digest)
    except ValueError as error:
        return str(error)
    return None if is_sound else "it has another digest"


def _batch(connection: Connection, after: int) -> list[Any]:
    columns = (BlobRow.id, BlobRow.key, BlobRow.store, BlobRow.digest, BlobRow.size_bytes, BlobRow.line_count)
    query = select(*columns).where(BlobRow.id > after, BlobRow.published_at.is_not(None)).order_by(BlobRow.id)
    return list(connection.execute(query.limit(BATCH)))


def _damage_of(database: Database, source: Source, blob: Any, *, deep: bool) -> list[Problem]:
    """Return the damage of one blob; its frames are read a few at a time."""
    payload = StoredPayload(blob.id, blob.key, blob.store, blob.size_bytes, blob.line_count, source)
    if deep:
        found = _compared(payload, blob)
    else:
        damage = payload.damage()
        found = [] if damage is None else [Problem("damaged frame", "byref_blobs", f"id {blob.id}", damage)]
    if not found:
        return []
    # The frames are read in several transactions: a blob that was deleted in between looks damaged, but is no problem.
    here = BlobRow.id == blob.id, BlobRow.key == blob.key
    return found if database.read(lambda c: c.execute(select(BlobRow.id).where(*here)).scalar()) is not None else []


def _compared(payload: StoredPayload, blob: Any) -> list[Problem]:
    """Unpack a payload, and compare it with its digest and its line numbers."""
    digest, line, last = blake3(), 1, b""
    found: list[Problem] = []
    try:
        for number, (first_line, content) in enumerate(payload.frames()):
            if first_line != line:
                place = f"blob {blob.id} frame {number}"
                found.append(
                    Problem("line numbers", "byref_frames", place, f"it begins on line {first_line}, not on {line}")
                )
            digest.update(content)
            line += content.count(b"\n")
            last = content[-1:]
    except ArtifactMissing as error:
        found.append(Problem("damaged frame", "byref_blobs", f"id {blob.id}", str(error)))
    else:
        if digest.digest() != bytes(blob.digest):
            found.append(Problem("digest", "byref_blobs", f"id {blob.id}", "its bytes have another digest"))
        lines = line - (last in (b"\n", b""))
        if lines != blob.line_count:
            detail = f"it has {lines} lines, not {blob.line_count}"
            found.append(Problem("line numbers", "byref_blobs", f"id {blob.id}", detail))
    return found


def _strays(database: Database, objects: BlobStore | None, grace: timedelta) -> Iterator[Problem]:
    """Yield objects that belong to no blob and drafts that nobody writes.

    Objects whose deletion is already noted, and those that were deleted since the store listed them, are no problem.
    """
    if objects is None:
        return
    for key in strays(database.read, objects, grace):
        noted = select(DiscardRow.id).where(DiscardRow.store == objects.name, DiscardRow.key == key)
        if database.read(lambda c, noted=noted: c.execute(noted).scalar()) is None and _is_there(objects, key):  # type: ignore[misc]
            yield Problem("stray object", "store", key, "no blob has it; a sweep deletes it")
    for name in drafts(objects, grace):
        yield Problem("abandoned draft", "store", name, "a write that was killed has left it; a sweep deletes it")


def _is_there(objects: BlobStore, key: str) -> bool:
    try:
        objects.read(key, 0, 0)
    except ArtifactMissing:
        return False
    return True


def _named(row: Mapping[str, Any]) -> str:
    if "id" in row:
        return f"id {row['id']}"
    return f"blob {row['blob_id']} frame {row['number']}" if "blob_id" in row else f"tenant {row['tenant']}"
