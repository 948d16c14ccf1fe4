"""The tables. Keys, checks and foreign keys rule out wrong states, so that the code need not.

Text written by a model or a tool is stored as escaped UTF-8 (`EscapedText`), so that NUL and lone surrogates, which
PostgreSQL refuses, survive. Host ids are at most `ID_BYTES` long, so that they fit an index; call ids, which may be longer,
are found by their digest.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from byref.db.column_types import SORTED_ID, SORTED_TEXT, SURROGATE_KEY, EscapedText, UtcDateTime
from byref.policy.routes import Route
from byref.stores.protocol import NAME_CHARS

GRACE = timedelta(hours=1)
"""Age from which on a blob that nothing refers to is garbage: longer than any call of `process` takes."""
RETIRED = datetime(1970, 1, 1, tzinfo=UTC)
"""The `staged_at` of a blob that nothing can refer to any more and that is being deleted."""
ID_BYTES = 512
"""Longest host id in UTF-8 bytes: PostgreSQL refuses index keys of about 2.7 KB."""
KEY_CHARS = 80
"""Longest key of a blob: no key of an object is longer."""

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

NEVER_REUSED = {"sqlite_autoincrement": True}
"""Keeps SQLite from reusing the ids of deleted rows, so that an outdated id finds nothing. PostgreSQL never reuses them."""

EXPIRED_CALL = "call_digest IS NULL AND length(call_id) <= 600"
"""Condition of the index of steps whose data expired, by their stored call id; a longer one does not fit a PostgreSQL index."""
EXPIRED_CALL_CHARS = 600
ENDS_TURN = "kind IN ('usage', 'compaction')"
IS_OPEN = "state <> 'ended' AND call_digest IS NOT NULL"
IS_FILE = "origin = 'run' AND name IS NOT NULL AND kind <> 'image'"
IS_FIGURE = "origin = 'run' AND kind = 'image'"
IS_VALUE = "origin = 'run' AND name IS NULL AND NOT kept"
CAME = "origin = 'output'"
WAS_MADE = "origin <> 'output'"
"""Conditions of partial indexes. A query must contain the same text, without parameters, for the database to use the index."""


class Base(DeclarativeBase):
    """The base class of byref's tables; the host's tables have another one."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {datetime: UtcDateTime, int: BigInteger, float: Double, bytes: LargeBinary}  # noqa: RUF012


def _random_id() -> int:
    return 1 + secrets.randbits(62)


def _one_of(column: str, *values: str) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"


def _index(name: str, *columns: str, where: str) -> Index:
    """Return a partial index: of the rows that satisfy `where`."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def _of_session() -> ForeignKeyConstraint:
    """Return the foreign key to a session; it includes the tenant, so that a row cannot belong to another tenant's session."""
    return ForeignKeyConstraint(
        ["tenant", "session_id"], ["byref_sessions.tenant", "byref_sessions.id"], ondelete="CASCADE"
    )


class CompatibilityRow(Base):
    """One row: the database's revision, and the oldest revision whose code still works with it."""

    __tablename__ = "byref_compatibility"

    revision: Mapped[str] = mapped_column(String(32), primary_key=True)
    oldest: Mapped[str] = mapped_column(String(32))


class SessionRow(Base):
    """One conversation. `next_step`, the context, its calibration and the sums are changed only under this row's lock."""

    __tablename__ = "byref_sessions"
    __table_args__ = (
        UniqueConstraint("tenant", "name"),
        UniqueConstraint("tenant", "id"),
        CheckConstraint("next_step >= 1", name="next_step"),
        CheckConstraint("context_base >= 0 AND pending_tokens >= 0 AND pending_after >= 0", name="context"),
        CheckConstraint("base_output_tokens IS NULL OR base_output_tokens >= 0", name="base_output"),
        CheckConstraint("calibration_reported > 0 AND calibration_estimated > 0", name="calibration"),
        CheckConstraint("context_window IS NULL OR context_window > 0", name="context_window"),
        CheckConstraint("ledger_seconds IS NULL OR ledger_seconds > 0", name="ledger_seconds"),
        Index("ix_byref_sessions_expires_at", "expires_at"),
        Index("ix_byref_sessions_created_at", "created_at", "id"),
        Index("ix_byref_sessions_tenant_created_at", "tenant", "created_at", "id"),
        Index(
            "ix_byref_sessions_clearing",
            "clearing_at",
            sqlite_where=text("clearing_at IS NOT NULL"),
            postgresql_where=text("clearing_at IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True, autoincrement=False, default=_random_id)
    """Random, so that a handle on a session that was rolled back or deleted does not reach a later one."""
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    name: Mapped[str] = mapped_column(String(ID_BYTES))
    model: Mapped[str | None] = mapped_column(EscapedText)
    context_window: Mapped[int | None]
    policy: Mapped[str | None] = mapped_column(EscapedText)
    tools: Mapped[str | None] = mapped_column(EscapedText)
    next_step: Mapped[int] = mapped_column(server_default=text("1"))
    context_base: Mapped[int] = mapped_column(server_default=text("0"))
    """Tokens of the last usage (input + output) or compaction that set the context."""
    base_output_tokens: Mapped[int | None]
    """How many of these tokens are output; None if no provider counted the base, so that the next usage teaches nothing."""
    pending_after: Mapped[int] = mapped_column(server_default=text("0"))
    """Outputs and replies after this step are not part of `context_base` yet."""
    pending_tokens: Mapped[int] = mapped_column(server_default=text("0"))
    """The tokens of these steps by byref's count. Reserved under the row's lock, so that parallel calls cannot pass the headroom
    gate together."""
    calibration_reported: Mapped[int] = mapped_column(server_default=text("2000"))
    """Tokens that providers counted where byref counted `calibration_estimated`; both start at `PRIOR_TOKENS`."""
    calibration_estimated: Mapped[int] = mapped_column(server_default=text("2000"))
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    ledger_seconds: Mapped[float | None]
    """How long the conversation is kept after its last step, once it has no artifacts; None: until it is deleted."""
    expires_at: Mapped[datetime | None]
    """When a sweep checks next whether that time is over; None if `ledger_seconds` is."""
    is_deleted: Mapped[bool] = mapped_column(server_default=false())
    """True: nobody finds the session any more, its rows are being deleted, and `name` is a name that no host can give."""
    clearing_at: Mapped[datetime | None]
    """Since when rows of the session wait for deletion, because it ended or was deleted; None: no rows wait."""
    totals: Mapped[str | None] = mapped_column(Text)
    """JSON: sums over the ledger's steps up to `totals_through`; None: no sums yet. Later steps are added when asked for."""
    totals_through: Mapped[int] = mapped_column(server_default=text("0"))
    stored_bytes: Mapped[int] = mapped_column(server_default=text("0"))
    """Upper bound of the bytes of artifacts up to the row id `stored_artifact` and of names up to `stored_name`; rows that were
    deleted since are still included."""
    stored_artifact: Mapped[int] = mapped_column(server_default=text("0"))
    stored_name: Mapped[int] = mapped_column(server_default=text("0"))
    stored_until: Mapped[datetime | None]
    """Until then `stored_bytes` is exact: nothing that it counts was deleted or expires before; None: it may be too high."""
    learned_through: Mapped[int | None]
    """The newest row of `SchemaRow` when the session was created: it sees no later ones, so that its tools never change."""


class TenantRow(Base):
    """The sum of a tenant's stored bytes; only tenants whose policy limits them have a row."""

    __tablename__ = "byref_tenants"

    tenant: Mapped[str] = mapped_column(String(ID_BYTES), primary_key=True)
    stored_bytes: Mapped[int]
    """Upper bound of the bytes of blobs up to the row id `stored_blob` and of names up to `stored_name`."""
    stored_blob: Mapped[int]
    stored_name: Mapped[int]
    stored_until: Mapped[datetime | None]
    """As in `SessionRow`."""


class BlobRow(Base):
    """The bytes of artifacts, found by digest within a tenant once they are published."""

    __tablename__ = "byref_blobs"
    __table_args__ = (
        Index(
            "uq_byref_blobs_published",
            "tenant",
            "digest",
            unique=True,
            sqlite_where=text("published_at IS NOT NULL"),
            postgresql_where=text("published_at IS NOT NULL"),
        ),
        Index(
            "ix_byref_blobs_unused",
            "staged_at",
            sqlite_where=text("may_be_unused = 1"),  # the same text as in queries, or SQLite does not use the index
            postgresql_where=text("may_be_unused"),
        ),
        UniqueConstraint("key"),
        UniqueConstraint("tenant", "id"),
        CheckConstraint("size_bytes >= 0 AND line_count >= 0", name="sizes"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    key: Mapped[str] = mapped_column(String(KEY_CHARS))
    """Random; for a blob in a store, the object's whole key."""
    store: Mapped[str | None] = mapped_column(String(NAME_CHARS))
    """The name of the store that has the bytes; None: they are in the frames' rows."""
    digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    size_bytes: Mapped[int]
    line_count: Mapped[int]
    staged_at: Mapped[datetime]
    published_at: Mapped[datetime | None]
    may_be_unused: Mapped[bool] = mapped_column(server_default=true())
    """Whether sweeps check if an artifact needs the blob; False once it is published together with its artifact."""


class FrameRow(Base):
    """One independently compressed piece of a blob, with the offset and the line at which it begins."""

    __tablename__ = "byref_frames"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "blob_id"], ["byref_blobs.tenant", "byref_blobs.id"], ondelete="CASCADE"),
        Index("ix_byref_frames_first_line", "blob_id", "first_line", "number"),
        CheckConstraint("number >= 0 AND byte_offset >= 0 AND first_line >= 1 AND size_bytes > 0", name="place"),
        CheckConstraint(_one_of("codec", "zstd", "none"), name="codec"),
        CheckConstraint(
            "(data IS NULL) = (object_offset IS NOT NULL) AND (object_offset IS NULL) = (object_bytes IS NULL)",
            name="data",
        ),
    )

    blob_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    byte_offset: Mapped[int]
    first_line: Mapped[int]
    """1-based number of the line that contains the frame's first byte."""
    size_bytes: Mapped[int]
    """Size before compression."""
    codec: Mapped[str] = mapped_column(String(8))
    data: Mapped[bytes | None]
    """None if the bytes are part of an object, from `object_offset` on."""
    object_offset: Mapped[int | None]
    object_bytes: Mapped[int | None]
    checksum: Mapped[bytes | None] = mapped_column(LargeBinary(8))
    """XXH3 of the stored bytes and their place; None for a frame written before 0.2 that nobody has read since."""


class DiscardRow(Base):
    """An object whose blob was deleted; the object itself is deleted when its store can be reached."""

    __tablename__ = "byref_discards"
    __table_args__ = (UniqueConstraint("store", "key"),)

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    store: Mapped[str] = mapped_column(String(NAME_CHARS))
    key: Mapped[str] = mapped_column(String(KEY_CHARS))


class ArtifactRow(Base):
    """An immutable stored payload with its description."""

    __tablename__ = "byref_artifacts"
    __table_args__ = (
        _of_session(),
        ForeignKeyConstraint(["tenant", "blob_id"], ["byref_blobs.tenant", "byref_blobs.id"], ondelete="RESTRICT"),
        UniqueConstraint("public_id"),
        UniqueConstraint("session_id", "id"),
        _index("ix_byref_artifacts_came", "session_id", "name", "id", where=f"{CAME} AND name IS NOT NULL"),
        _index("ix_byref_artifacts_named", "session_id", "name", "id", where=f"{WAS_MADE} AND name IS NOT NULL"),
        _index("ix_byref_artifacts_made", "session_id", "step", where=WAS_MADE),
        Index("ix_byref_artifacts_session_public", "session_id", "public_id"),
        Index("ix_byref_artifacts_session_blob", "session_id", "blob_id", "expires_at"),
        Index("ix_byref_artifacts_blob_id", "blob_id"),
        Index("ix_byref_artifacts_expires_at", "expires_at"),
        _index("ix_byref_artifacts_files", "session_id", "id", where=IS_FILE),
        _index("ix_byref_artifacts_figures", "session_id", "id", where=IS_FIGURE),
        _index("ix_byref_artifacts_values", "session_id", "id", where=IS_VALUE),
        CheckConstraint("(ttl_seconds IS NULL) = (expires_at IS NULL) AND ttl_seconds > 0", name="ttl"),
        CheckConstraint("NOT kept OR expires_at IS NULL", name="kept"),
        CheckConstraint(_one_of("kind", "json", "text", "image", "document"), name="kind"),
        CheckConstraint(_one_of("origin", "output", "run", "model", "host"), name="origin"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    public_id: Mapped[str] = mapped_column(SORTED_ID)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    step: Mapped[int | None]
    blob_id: Mapped[int]
    origin: Mapped[str] = mapped_column(String(8))
    kind: Mapped[str] = mapped_column(String(8))
    content_type: Mapped[str] = mapped_column(String(255))
    name: Mapped[str | None] = mapped_column(SORTED_TEXT)
    size_bytes: Mapped[int]
    """Size of the text that the model would read. The stored bytes of a Python value are more: it is stored with one record a
    line, and the line feeds come on top."""
    preview: Mapped[str] = mapped_column(EscapedText)
    """The first characters, and the number of those left out."""
    tokens: Mapped[int]
    shape: Mapped[str] = mapped_column(EscapedText)
    json_schema: Mapped[bytes | None]
    """The whole JSON Schema as zstd-compressed JSON text; None if the payload is not structured."""
    reading: Mapped[str | None] = mapped_column(EscapedText)
    """How a text is read as tables, as `byref_sandbox.tabletext` wrote it, with their shape; None if it is not read so."""
    created_at: Mapped[datetime]
    ttl_seconds: Mapped[float | None]
    """How long the artifact is kept after its last use; None: as long as its session."""
    expires_at: Mapped[datetime | None]
    kept: Mapped[bool] = mapped_column(server_default=false())
    """Whether the artifact survives the end of its session."""


class VariableRow(Base):
    """A name bound to an artifact, to a path inside one, or to the records of many places inside one."""

    __tablename__ = "byref_variables"
    __table_args__ = (
        _of_session(),
        ForeignKeyConstraint(
            ["session_id", "artifact_id"], ["byref_artifacts.session_id", "byref_artifacts.id"], ondelete="CASCADE"
        ),
        UniqueConstraint("session_id", "name"),
        # Both columns of the foreign key: with the session alone, SQLite would look through all of the session's names for
        # each artifact that is deleted.
        Index("ix_byref_variables_artifact", "artifact_id", "session_id"),
        Index("ix_byref_variables_age", "session_id", "origin", "artifact_id", "id"),
        Index("ix_byref_variables_step", "session_id", "step"),
        Index("ix_byref_variables_session_id", "session_id", "id"),
        CheckConstraint(_one_of("origin", "output", "run", "host"), name="origin"),
        CheckConstraint(_one_of("kind", "value", "dataframe"), name="kind"),
        CheckConstraint("revision >= 1", name="revision"),
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    name: Mapped[str] = mapped_column(String(128))
    artifact_id: Mapped[int]
    path: Mapped[str] = mapped_column(EscapedText)
    """JSON array of keys from the artifact's top; `[]` is the whole artifact. For the records of many places, an object of one
    member: its name is the path in words, its value an array of the steps."""
    shape: Mapped[str] = mapped_column(EscapedText)
    origin: Mapped[str] = mapped_column(String(8))
    kind: Mapped[str] = mapped_column(String(16), server_default=text("'value'"))
    """Whether code sees the stored records as plain values or as a DataFrame."""
    step: Mapped[int]
    revision: Mapped[int] = mapped_column(Integer, server_default=text("1"))
    """Incremented each time code rebinds a name that code made."""


class NameRow(Base):
    """What code keeps beside artifacts: a table with its types, or a part of the state of the session's names."""

    __tablename__ = "byref_names"
    __table_args__ = (
        _of_session(),
        ForeignKeyConstraint(
            ["session_id", "artifact_id"], ["byref_artifacts.session_id", "byref_artifacts.id"], ondelete="CASCADE"
        ),
        UniqueConstraint("session_id", "name"),
        Index("ix_byref_names_artifact", "artifact_id", "session_id"),
        Index("ix_byref_names_age", "session_id", "kind", "id"),
        Index("ix_byref_names_tenant", "tenant", "id"),
        CheckConstraint(_one_of("kind", "exact", "source", "state"), name="kind"),
        CheckConstraint("(kind = 'exact') = (artifact_id IS NOT NULL)", name="artifact"),
        CheckConstraint("size_bytes >= 0", name="size"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    name: Mapped[str] = mapped_column(String(128))
    kind: Mapped[str] = mapped_column(String(8))
    artifact_id: Mapped[int | None]
    """The artifact, in JSON, that the variable of this name is bound to; an exact value is deleted with it."""
    digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    size_bytes: Mapped[int]
    """Size before compression."""
    data: Mapped[bytes]
    """Compressed with zstd. Untrusted, because a run wrote it: only a run may load an exact value."""
    step: Mapped[int]


class LedgerRow(Base):
    """One step of a session: append-only."""

    __tablename__ = "byref_ledger"
    __table_args__ = (
        _of_session(),
        UniqueConstraint("session_id", "step"),
        Index(
            "uq_byref_ledger_output",
            "session_id",
            "call_digest",
            "content_digest",
            unique=True,
            sqlite_where=text("kind = 'output' AND call_digest IS NOT NULL"),
            postgresql_where=text("kind = 'output' AND call_digest IS NOT NULL"),
        ),
        Index(
            "uq_byref_ledger_usage",
            "session_id",
            "call_digest",
            unique=True,
            sqlite_where=text("kind = 'usage' AND call_digest IS NOT NULL"),
            postgresql_where=text("kind = 'usage' AND call_digest IS NOT NULL"),
        ),
        Index("ix_byref_ledger_content_route", "session_id", "content_digest", "route", "step"),
        _index("ix_byref_ledger_call", "session_id", "call_digest", "step", where="call_digest IS NOT NULL"),
        _index("ix_byref_ledger_expired_call", "session_id", "call_id", "step", where=EXPIRED_CALL),
        _index("ix_byref_ledger_turn", "session_id", "kind", "step", where=ENDS_TURN),
        Index("ix_byref_ledger_artifact_id", "artifact_id"),
        CheckConstraint("step >= 1", name="step"),
        CheckConstraint(_one_of("kind", "output", "reply", "usage", "compaction", "resolution"), name="kind"),
        CheckConstraint(
            "route IS NULL OR " + _one_of("route", *Route),
            name="route",
        ),
        CheckConstraint(
            "CASE WHEN kind = 'output' THEN route IS NOT NULL AND reason IS NOT NULL AND original_tokens IS NOT NULL"
            " ELSE route IS NULL AND reason IS NULL END",
            name="output",
        ),
        CheckConstraint(
            "CASE WHEN kind IN ('output', 'reply')"
            " THEN tool IS NOT NULL AND content IS NOT NULL AND content_digest IS NOT NULL"
            " ELSE tool IS NULL AND content IS NULL AND content_digest IS NULL END",
            name="content",
        ),
        CheckConstraint("tokens >= 0", name="tokens"),
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    step: Mapped[int]
    kind: Mapped[str] = mapped_column(String(16))
    tool: Mapped[str | None] = mapped_column(EscapedText)
    call_id: Mapped[str | None] = mapped_column(EscapedText)
    """The host's call id, cut for display; steps are found by `call_digest`."""
    call_digest: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    """BLAKE3 of the call id (outputs, replies) or of the request id (usage), with its counts if an earlier request had that id."""
    content_digest: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    arguments: Mapped[str | None] = mapped_column(EscapedText)
    route: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(32))
    content: Mapped[str | None] = mapped_column(EscapedText)
    """The exact text that the model read; the same output given again is answered with it."""
    tokens: Mapped[int]
    """Tokens that the step added to the context; for usage and compaction, the size of the context that they set."""
    original_tokens: Mapped[int | None]
    original_bytes: Mapped[int | None]
    artifact_id: Mapped[int | None] = mapped_column(ForeignKey("byref_artifacts.id", ondelete="SET NULL"))
    is_error: Mapped[bool] = mapped_column(server_default=false())
    model: Mapped[str | None] = mapped_column(EscapedText)
    input_tokens: Mapped[int | None]
    output_tokens: Mapped[int | None]
    cache_read_tokens: Mapped[int | None]
    cache_write_tokens: Mapped[int | None]
    cost_nanos: Mapped[int | None]
    """Cost in billionths of a US dollar; None if the price is unknown."""
    detail: Mapped[str] = mapped_column(EscapedText)
    """JSON: the numbers behind a decision, or the usage as the provider gave it."""
    in_turn: Mapped[bool] = mapped_column(server_default=false())
    """True for usage of a side call, such as that of a model that code has asked: it does not end the turn."""
    created_at: Mapped[datetime]


class RunRow(Base):
    """One run of model-written code, jq included."""

    __tablename__ = "byref_runs"
    __table_args__ = (
        _of_session(),
        UniqueConstraint("session_id", "step"),
        CheckConstraint(_one_of("language", "python", "jq", "sql"), name="language"),
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    step: Mapped[int | None]
    """The step of the reply with the result; None if the host ran the code."""
    language: Mapped[str] = mapped_column(String(8))
    code: Mapped[str] = mapped_column(EscapedText)
    result: Mapped[str | None] = mapped_column(EscapedText)
    stdout: Mapped[str] = mapped_column(EscapedText)
    error: Mapped[str | None] = mapped_column(EscapedText)
    wall_ms: Mapped[float]
    cpu_ms: Mapped[float]
    peak_bytes: Mapped[int]
    limits: Mapped[str] = mapped_column(EscapedText)
    names: Mapped[str | None] = mapped_column(EscapedText)
    """What became of names, as JSON: `byref.interpreter.effects.Effects`; None: it was jq, or an older release recorded it."""
    created_at: Mapped[datetime]


class ProgramRow(Base):
    """A run of code that calls functions of the host, from its first call to its reply."""

    __tablename__ = "byref_programs"
    __table_args__ = (
        _of_session(),
        UniqueConstraint("session_id", "id"),
        Index(
            "uq_byref_programs_call",
            "session_id",
            "call_digest",
            "content_digest",
            unique=True,
            sqlite_where=text(IS_OPEN),
            postgresql_where=text(IS_OPEN),
        ),
        CheckConstraint(_one_of("state", "running", "waiting", "ended"), name="state"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    state: Mapped[str] = mapped_column(String(8))
    """waiting: for somebody's approval of a call."""
    call_id: Mapped[str | None] = mapped_column(EscapedText)
    call_digest: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    """BLAKE3 of the id of the model's call, None if it has none: such a run cannot be begun again."""
    content_digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    """BLAKE3 of the tool's name and arguments: the same call under the same id is the same program."""
    tool: Mapped[str] = mapped_column(String(64))
    arguments: Mapped[str] = mapped_column(EscapedText)
    """As the model wrote them, whole: with them any process runs the program again."""
    owner: Mapped[str] = mapped_column(String(200))
    """The process that runs it."""
    seen_at: Mapped[datetime]
    """When that process was last known to be at it."""
    began_at: Mapped[datetime]
    """The time at which the program began, by its own clock."""
    seed: Mapped[bytes] = mapped_column(LargeBinary(32))
    """What its random numbers come from."""
    after_step: Mapped[int]
    """The session's last step before it."""


class CallRow(Base):
    """One call of a function of the host's: the journal from which an interrupted run goes on."""

    __tablename__ = "byref_calls"
    __table_args__ = (
        _of_session(),
        ForeignKeyConstraint(
            ["session_id", "program_id"], ["byref_programs.session_id", "byref_programs.id"], ondelete="CASCADE"
        ),
        UniqueConstraint("program_id", "digest", "occurrence"),
        UniqueConstraint("public_id"),
        Index("ix_byref_calls_session_id", "session_id", "step", "id"),
        Index("ix_byref_calls_function", "session_id", "function"),
        Index("ix_byref_calls_artifact_id", "artifact_id"),
        CheckConstraint(
            _one_of("state", "waiting", "approved", "refused", "begun", "returned", "raised"), name="state"
        ),
        CheckConstraint("(state = 'raised') = (error IS NOT NULL)", name="error"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    public_id: Mapped[str] = mapped_column(String(64))
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    program_id: Mapped[int]
    function: Mapped[str] = mapped_column(String(64))
    arguments: Mapped[str] = mapped_column(EscapedText)
    """As the code gave them, as JSON, cut if they are long."""
    argument_bytes: Mapped[int]
    """Of all of the arguments."""
    digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    """BLAKE3 of the function's name and all of its arguments."""
    occurrence: Mapped[int]
    """How many calls of this digest the program made before it."""
    state: Mapped[str] = mapped_column(String(8))
    changed: Mapped[str | None] = mapped_column(EscapedText)
    """The arguments, as JSON, with which somebody approved the call instead."""
    content_type: Mapped[str | None] = mapped_column(String(255))
    result: Mapped[bytes | None]
    """The result while the program may need it again, compressed with zstd; None if an artifact has it."""
    artifact_id: Mapped[int | None] = mapped_column(ForeignKey("byref_artifacts.id", ondelete="SET NULL"))
    error_kind: Mapped[str | None] = mapped_column(String(32))
    error: Mapped[str | None] = mapped_column(EscapedText)
    size_bytes: Mapped[int | None]
    """Of the result."""
    tokens: Mapped[int]
    """Tokens of the result, which the model did not read."""
    spent_tokens: Mapped[int] = mapped_column(server_default=text("0"))
    """Tokens that a model has used for the answer; while the call is under way, the most that it may use."""
    wall_ms: Mapped[float | None]
    """While it is under way: what is reserved for it, if the session's calls may only take so long."""
    step: Mapped[int | None]
    """The step of the reply of its program; None until then."""
    created_at: Mapped[datetime]


class AnswerRow(Base):
    """What a model has answered to code: the same question of the same tenant is not asked again."""

    __tablename__ = "byref_answers"
    __table_args__ = (
        _of_session(),
        UniqueConstraint("tenant", "digest"),
        Index("ix_byref_answers_session_id", "session_id"),
        Index("ix_byref_answers_expires_at", "expires_at"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    """The session whose code has asked: with it, the answer is deleted."""
    digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    """BLAKE3 of the function's name, the prompt and the schema."""
    content_type: Mapped[str] = mapped_column(String(255))
    data: Mapped[bytes]
    """The answer, compressed with zstd."""
    tokens: Mapped[int]
    """Tokens of the answer."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class SchemaRow(Base):
    """The schema of what a tool has returned to a tenant. A change of it is a new row, and sessions see the rows before them."""

    __tablename__ = "byref_schemas"
    __table_args__ = (
        Index("ix_byref_schemas_tool", "tenant", "tool", "id"),
        CheckConstraint("outputs >= 1", name="outputs"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    tool: Mapped[str] = mapped_column(String(200))
    data: Mapped[bytes]
    """The JSON Schema as zstd-compressed JSON text."""
    outputs: Mapped[int]
    """How many outputs it was learned from."""
    created_at: Mapped[datetime]


class RemoteFunctionsRow(Base):
    """The functions that a client of the HTTP service has given to a session."""

    __tablename__ = "byref_remote_functions"
    __table_args__ = (_of_session(), Index("ix_byref_remote_functions_tenant", "tenant", "session_id"))

    session_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    functions: Mapped[str] = mapped_column(EscapedText)
    """As the client gave them, as JSON."""


class RemoteCallRow(Base):
    """A call that a client of the HTTP service has to answer, until its program ends."""

    __tablename__ = "byref_remote_calls"
    __table_args__ = (_of_session(), Index("ix_byref_remote_calls_tenant", "tenant", "session_id"))

    call_id: Mapped[int] = mapped_column(
        ForeignKey("byref_calls.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    arguments: Mapped[bytes]
    """All of them, as JSON, compressed with zstd; the journal's are cut."""
    is_repeatable: Mapped[bool]
    worker: Mapped[str | None] = mapped_column(EscapedText)
    """Which client has taken the call; None: nobody has."""
    taken_at: Mapped[datetime | None]
    answer: Mapped[bytes | None]
    """The result or the error as JSON, compressed with zstd; None: it is not there yet."""


class TokenRow(Base):
    """A bearer token of the HTTP service. Only its digest is kept, so nobody who reads the table can use it."""

    __tablename__ = "byref_tokens"
    __table_args__ = (UniqueConstraint("digest"), Index("ix_byref_tokens_tenant", "tenant", "id"), NEVER_REUSED)

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    name: Mapped[str] = mapped_column(EscapedText)
    """What people call it."""
    rights: Mapped[str] = mapped_column(String(64))
    """What it allows, separated by blanks."""
    digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    """SHA-256 of the token, which has 256 random bits: nothing slower is needed."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]


class TombstoneRow(Base):
    """A trace of an expired artifact: enough to say what it was and which call makes it again."""

    __tablename__ = "byref_tombstones"
    __table_args__ = (
        _of_session(),
        UniqueConstraint("public_id"),
        CheckConstraint(_one_of("origin", "output", "run", "model", "host"), name="origin"),
        Index("ix_byref_tombstones_session_id", "session_id"),
        Index("ix_byref_tombstones_expired_at", "expired_at"),
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    public_id: Mapped[str] = mapped_column(String(64))
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    step: Mapped[int | None]
    origin: Mapped[str] = mapped_column(String(8))
    content_type: Mapped[str] = mapped_column(String(255))
    size_bytes: Mapped[int]
    name: Mapped[str | None] = mapped_column(EscapedText)
    variables: Mapped[str] = mapped_column(EscapedText)
    """JSON array of the variables that were bound to the artifact."""
    tool: Mapped[str | None] = mapped_column(EscapedText)
    arguments: Mapped[str | None] = mapped_column(EscapedText)
    shape: Mapped[str] = mapped_column(EscapedText)
    expired_at: Mapped[datetime]


class ItemRow(Base):
    """One text of an ordered list that a framework keeps with a session: an item of its chat, a version of a file."""

    __tablename__ = "byref_items"
    __table_args__ = (
        _of_session(),
        UniqueConstraint("session_id", "list", "number"),
        Index("ix_byref_items_session_id", "session_id", "id"),
        CheckConstraint("number >= 0", name="number"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(SURROGATE_KEY, primary_key=True)
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    session_id: Mapped[int]
    list: Mapped[str] = mapped_column(String(ID_BYTES))
    """The framework's own name of the list."""
    number: Mapped[int]
    """The item's position in the list, counted from 0."""
    text: Mapped[str] = mapped_column(EscapedText)
    created_at: Mapped[datetime]
