"""The tables. Wrong states are made impossible here: by keys, checks and foreign keys, not by the code above.

Text that a model or a tool wrote is kept as escaped UTF-8 (see `EscapedText`): NUL and lone surrogates, which PostgreSQL
refuses, survive. Host ids are at most `ID_BYTES` long, so that they fit an index; call ids are found by digest.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
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
from sqlalchemy.types import TypeDecorator

from byref.policy.routes import Route
from byref.stores.protocol import NAME_CHARS

GRACE = timedelta(hours=1)
"""Age at which a blob that nothing refers to is garbage: longer than any `process` takes."""
RETIRED = datetime(1970, 1, 1, tzinfo=UTC)
"""When a blob was staged that nothing can refer to any more, and that is to be deleted."""
ID_BYTES = 512
"""Longest host id in UTF-8 bytes: PostgreSQL refuses index keys of about 2.7 KB."""
KEY_CHARS = 80
"""Of a blob: no key of an object is longer."""

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

NEVER_REUSED = {"sqlite_autoincrement": True}
"""Ids of deleted rows do not come back, so that whoever still holds one reaches nothing. PostgreSQL does so anyway."""

SURROGATE_KEY = BigInteger().with_variant(Integer, "sqlite")


EXPIRED_CALL = "call_digest IS NULL AND length(call_id) <= 600"
"""Steps whose data expired, by call id as it is stored: no longer one fits an index key on PostgreSQL."""
EXPIRED_CALL_CHARS = 600
ENDS_TURN = "kind IN ('usage', 'compaction')"
IS_FILE = "origin = 'run' AND name IS NOT NULL AND kind <> 'image'"
IS_FIGURE = "origin = 'run' AND kind = 'image'"
IS_VALUE = "origin = 'run' AND name IS NULL AND NOT kept"
CAME = "origin = 'output'"
WAS_MADE = "origin <> 'output'"
"""What indexes are limited to; a query that is to use one says so in the same words, not by parameters."""


class UtcDateTime(TypeDecorator[datetime]):
    """An aware point in time, kept and returned in UTC on every database."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times; SQLite keeps no zone, so everything is written in UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"an aware datetime was expected, not {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give the zone back where the database has none."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class EscapedText(TypeDecorator[str]):
    r"""Any Python string: backslash, NUL and lone surrogates are escaped as `\\`, `\0` and `\udXXX`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape what a database refuses."""
        if value is None:
            return None
        value = value.replace("\\", "\\\\").replace("\0", "\\0")
        try:
            value.encode()
        except UnicodeEncodeError:
            return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in value)
        return value

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo the escapes."""
        if value is None or "\\" not in value:
            return value
        parts, position = [], 0
        while (found := value.find("\\", position)) >= 0:
            parts.append(value[position:found])
            mark = value[found + 1]
            parts.append({"\\": "\\", "0": "\0"}.get(mark) or chr(int(value[found + 2 : found + 6], 16)))
            position = found + (6 if mark == "u" else 2)
        parts.append(value[position:])
        return "".join(parts)


SORTED_TEXT = EscapedText().with_variant(EscapedText(collation="C"), "postgresql")
SORTED_ID = String(64).with_variant(String(64, collation="C"), "postgresql")
"""Ordered by code point on every database, whatever its language: what begins alike stands together."""


class Base(DeclarativeBase):
    """All of byref's tables, none of the host's."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {datetime: UtcDateTime, int: BigInteger, float: Double, bytes: LargeBinary}  # noqa: RUF012


def _random_id() -> int:
    return 1 + secrets.randbits(62)


def _one_of(column: str, *values: str) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"


def _index(name: str, *columns: str, where: str) -> Index:
    """An index of some rows only."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def _of_session() -> ForeignKeyConstraint:
    """A row and its session are of one tenant, by key."""
    return ForeignKeyConstraint(
        ["tenant", "session_id"], ["byref_sessions.tenant", "byref_sessions.id"], ondelete="CASCADE"
    )


class CompatibilityRow(Base):
    """How old the code may be that works with the tables: one row, for the revision that the database is at."""

    __tablename__ = "byref_compatibility"

    revision: Mapped[str] = mapped_column(String(32), primary_key=True)
    oldest: Mapped[str] = mapped_column(String(32))


class SessionRow(Base):
    """One conversation. `next_step`, the context, its calibration and the sums change only under this row's lock."""

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
    """Random: a handle on a session that was rolled back or deleted must not reach the next one."""
    tenant: Mapped[str] = mapped_column(String(ID_BYTES))
    name: Mapped[str] = mapped_column(String(ID_BYTES))
    model: Mapped[str | None] = mapped_column(EscapedText)
    context_window: Mapped[int | None]
    policy: Mapped[str | None] = mapped_column(EscapedText)
    tools: Mapped[str | None] = mapped_column(EscapedText)
    next_step: Mapped[int] = mapped_column(server_default=text("1"))
    context_base: Mapped[int] = mapped_column(server_default=text("0"))
    """Tokens of the last context-setting usage (input + output) or compaction."""
    base_output_tokens: Mapped[int | None]
    """How many of them the model wrote; None where no provider counted the base: nothing can be learned from the next."""
    pending_after: Mapped[int] = mapped_column(server_default=text("0"))
    """Outputs and replies after this step are not part of `context_base` yet."""
    pending_tokens: Mapped[int] = mapped_column(server_default=text("0"))
    """Their sum, by our count: reserved under the row's lock, so that parallel calls cannot pass the gate together."""
    calibration_reported: Mapped[int] = mapped_column(server_default=text("2000"))
    """What providers counted where our counter had `calibration_estimated` tokens; the start is `PRIOR_TOKENS` of both."""
    calibration_estimated: Mapped[int] = mapped_column(server_default=text("2000"))
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    ledger_seconds: Mapped[float | None]
    """How long the conversation is kept after its last step, once it has no artifacts; None: until it is deleted."""
    expires_at: Mapped[datetime | None]
    """When a sweep looks whether that time is over; None where `ledger_seconds` is."""
    is_deleted: Mapped[bool] = mapped_column(server_default=false())
    """Nobody finds it any more; what is left of it is being deleted. `name` is none of a host's then."""
    clearing_at: Mapped[datetime | None]
    """Since when rows of it are to be deleted, because it ended or was deleted; None: there are none."""
    totals: Mapped[str | None] = mapped_column(Text)
    """JSON: sums over the ledger's steps up to `totals_through`; None: over none. Later steps are summed when asked for."""
    totals_through: Mapped[int] = mapped_column(server_default=text("0"))
    stored_bytes: Mapped[int] = mapped_column(server_default=text("0"))
    """At most what artifacts up to the row id `stored_artifact` and names up to `stored_name` have stored: of what has gone
    since it is not known."""
    stored_artifact: Mapped[int] = mapped_column(server_default=text("0"))
    stored_name: Mapped[int] = mapped_column(server_default=text("0"))
    stored_until: Mapped[datetime | None]
    """Until then nothing goes by itself of what `stored_bytes` counts, and nothing has gone since; None: it may have."""


class TenantRow(Base):
    """What a tenant has stored, of those whose policy bounds that."""

    __tablename__ = "byref_tenants"

    tenant: Mapped[str] = mapped_column(String(ID_BYTES), primary_key=True)
    stored_bytes: Mapped[int]
    """At most what blobs up to the row id `stored_blob` and names up to `stored_name` have stored."""
    stored_blob: Mapped[int]
    stored_name: Mapped[int]
    stored_until: Mapped[datetime | None]
    """As a session's."""


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
            sqlite_where=text("may_be_unused = 1"),  # as queries have it: SQLite proves no more
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
    """Random; of an object its whole key in the store."""
    store: Mapped[str | None] = mapped_column(String(NAME_CHARS))
    """The name of the store that has the bytes; None: the frames have."""
    digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    size_bytes: Mapped[int]
    line_count: Mapped[int]
    staged_at: Mapped[datetime]
    published_at: Mapped[datetime | None]
    may_be_unused: Mapped[bool] = mapped_column(server_default=true())
    """Whether a sweep looks if anything needs it: not so once it was published along with its artifact."""


class FrameRow(Base):
    """One independently compressed piece of a blob, with the offset and line on which it begins."""

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
    """1-based line in which the frame's first byte lies."""
    size_bytes: Mapped[int]
    """Uncompressed."""
    codec: Mapped[str] = mapped_column(String(8))
    data: Mapped[bytes | None]
    """None where the bytes are part of an object, from `object_offset` on."""
    object_offset: Mapped[int | None]
    object_bytes: Mapped[int | None]
    checksum: Mapped[bytes | None] = mapped_column(LargeBinary(8))
    """XXH3 of what is stored, at its place; None of a frame written before 0.2 that nobody has read since."""


class DiscardRow(Base):
    """An object whose blob is gone: it is to be deleted from its store, whenever that can be reached."""

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
    """Of the text that the model would read: a Python value is stored one record a line, with line feeds beside that."""
    preview: Mapped[str] = mapped_column(EscapedText)
    """The first characters, and how many more there are."""
    tokens: Mapped[int]
    shape: Mapped[str] = mapped_column(EscapedText)
    json_schema: Mapped[bytes | None]
    """The whole JSON Schema as zstd-compressed JSON text; None where the payload is not structured."""
    created_at: Mapped[datetime]
    ttl_seconds: Mapped[float | None]
    """How long it is kept after it was last used; None: as long as its session."""
    expires_at: Mapped[datetime | None]
    kept: Mapped[bool] = mapped_column(server_default=false())
    """It survives the end of its session."""


class VariableRow(Base):
    """A name bound to an artifact, to a path inside one, or to a small value of its own."""

    __tablename__ = "byref_variables"
    __table_args__ = (
        _of_session(),
        ForeignKeyConstraint(
            ["session_id", "artifact_id"], ["byref_artifacts.session_id", "byref_artifacts.id"], ondelete="CASCADE"
        ),
        UniqueConstraint("session_id", "name"),
        # Both, as the key has them: by the session alone SQLite would look through all of its names for each artifact that goes.
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
    """JSON array of keys from the artifact's top: `[]` is the whole of it."""
    shape: Mapped[str] = mapped_column(EscapedText)
    origin: Mapped[str] = mapped_column(String(8))
    kind: Mapped[str] = mapped_column(String(16), server_default=text("'value'"))
    """Whether code sees the stored records as they are or as a DataFrame."""
    step: Mapped[int]
    revision: Mapped[int] = mapped_column(Integer, server_default=text("1"))
    """Raised by one each time code rebinds a name that code made."""


class NameRow(Base):
    """What code bound and JSON does not tell: a variable's value with its types, or the source of a definition."""

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
        CheckConstraint(_one_of("kind", "exact", "source"), name="kind"),
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
    """The JSON that the variable of this name is bound to: an exact value goes with it."""
    digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    size_bytes: Mapped[int]
    """Uncompressed."""
    data: Mapped[bytes]
    """Compressed with zstd. A run wrote it: only a run may read what is exact."""
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
    """As the host gave it, capped for display: `call_digest` is what finds it."""
    call_digest: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    """BLAKE3 of the call id (outputs, replies) or of the request id (usage)."""
    content_digest: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    arguments: Mapped[str | None] = mapped_column(EscapedText)
    route: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(32))
    content: Mapped[str | None] = mapped_column(EscapedText)
    """What the model read, to the byte: an output given again is answered with it."""
    tokens: Mapped[int]
    """What the step added to the context; for usage and compaction, the context they set."""
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
    """Cost in billionths of a US dollar; None where the price is unknown."""
    detail: Mapped[str] = mapped_column(EscapedText)
    """JSON: the verdict's numbers, or the usage as the provider gave it."""
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
    """The step of the reply that carried the result; None when the host ran it."""
    language: Mapped[str] = mapped_column(String(8))
    code: Mapped[str] = mapped_column(EscapedText)
    result: Mapped[str | None] = mapped_column(EscapedText)
    stdout: Mapped[str] = mapped_column(EscapedText)
    error: Mapped[str | None] = mapped_column(EscapedText)
    wall_ms: Mapped[float]
    cpu_ms: Mapped[float]
    peak_bytes: Mapped[int]
    limits: Mapped[str] = mapped_column(EscapedText)
    created_at: Mapped[datetime]


class TombstoneRow(Base):
    """What is left of an artifact that expired: enough to say what it was and which call makes it again."""

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
    """JSON array of the names that were bound to it."""
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
    """Which list, by the framework's own name."""
    number: Mapped[int]
    """Its place, counted from 0."""
    text: Mapped[str] = mapped_column(EscapedText)
    created_at: Mapped[datetime]
