"""First tables.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
HOST_ID = sa.String(512)
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make every table, referred-to ones first."""
    op.create_table(
        "byref_sessions",
        sa.Column("id", KEY, autoincrement=False, nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("name", HOST_ID, nullable=False),
        sa.Column("model", sa.Text()),
        sa.Column("context_window", sa.BigInteger()),
        sa.Column("policy", sa.Text()),
        sa.Column("tools", sa.Text()),
        sa.Column("next_step", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("context_base", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("base_output_tokens", sa.BigInteger()),
        sa.Column("pending_after", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("pending_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("calibration_reported", sa.BigInteger(), server_default=sa.text("2000"), nullable=False),
        sa.Column("calibration_estimated", sa.BigInteger(), server_default=sa.text("2000"), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("ledger_seconds", sa.Double()),
        sa.Column("expires_at", TIME),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_sessions")),
        sa.UniqueConstraint("tenant", "name", name=op.f("uq_byref_sessions_tenant_name")),
        sa.UniqueConstraint("tenant", "id", name=op.f("uq_byref_sessions_tenant_id")),
        sa.CheckConstraint("next_step >= 1", name=op.f("ck_byref_sessions_next_step")),
        sa.CheckConstraint(
            "context_base >= 0 AND pending_tokens >= 0 AND pending_after >= 0", name=op.f("ck_byref_sessions_context")
        ),
        sa.CheckConstraint(
            "base_output_tokens IS NULL OR base_output_tokens >= 0", name=op.f("ck_byref_sessions_base_output")
        ),
        sa.CheckConstraint(
            "calibration_reported > 0 AND calibration_estimated > 0", name=op.f("ck_byref_sessions_calibration")
        ),
        sa.CheckConstraint(
            "context_window IS NULL OR context_window > 0", name=op.f("ck_byref_sessions_context_window")
        ),
        sa.CheckConstraint(
            "ledger_seconds IS NULL OR ledger_seconds > 0", name=op.f("ck_byref_sessions_ledger_seconds")
        ),
    )
    op.create_index("ix_byref_sessions_expires_at", "byref_sessions", ["expires_at"])

    op.create_table(
        "byref_blobs",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("key", sa.String(80), nullable=False),
        sa.Column("store", sa.String(20)),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("line_count", sa.BigInteger(), nullable=False),
        sa.Column("staged_at", TIME, nullable=False),
        sa.Column("published_at", TIME),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_blobs")),
        sa.UniqueConstraint("key", name=op.f("uq_byref_blobs_key")),
        sa.UniqueConstraint("tenant", "id", name=op.f("uq_byref_blobs_tenant_id")),
        sa.CheckConstraint("size_bytes >= 0 AND line_count >= 0", name=op.f("ck_byref_blobs_sizes")),
        sqlite_autoincrement=True,
    )
    _unique_where("uq_byref_blobs_published", "byref_blobs", ["tenant", "digest"], "published_at IS NOT NULL")
    op.create_index("ix_byref_blobs_staged_at", "byref_blobs", ["staged_at"])

    op.create_table(
        "byref_frames",
        sa.Column("blob_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("byte_offset", sa.BigInteger(), nullable=False),
        sa.Column("first_line", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("codec", sa.String(8), nullable=False),
        sa.Column("data", sa.LargeBinary()),
        sa.Column("object_offset", sa.BigInteger()),
        sa.Column("object_bytes", sa.BigInteger()),
        sa.PrimaryKeyConstraint("blob_id", "number", name=op.f("pk_byref_frames")),
        sa.ForeignKeyConstraint(
            ["tenant", "blob_id"],
            ["byref_blobs.tenant", "byref_blobs.id"],
            name=op.f("fk_byref_frames_tenant_blob_id"),
            ondelete="CASCADE",
        ),
        sa.CheckConstraint(
            "number >= 0 AND byte_offset >= 0 AND first_line >= 1 AND size_bytes > 0",
            name=op.f("ck_byref_frames_place"),
        ),
        sa.CheckConstraint("codec IN ('zstd', 'none')", name=op.f("ck_byref_frames_codec")),
        sa.CheckConstraint(
            "(data IS NULL) = (object_offset IS NOT NULL) AND (object_offset IS NULL) = (object_bytes IS NULL)",
            name=op.f("ck_byref_frames_data"),
        ),
    )
    op.create_index("ix_byref_frames_first_line", "byref_frames", ["blob_id", "first_line", "number"])
    if op.get_context().dialect.name == "postgresql":
        # Frames are compressed already: PostgreSQL's own attempt costs three quarters of the write speed.
        op.execute("ALTER TABLE byref_frames ALTER COLUMN data SET STORAGE EXTERNAL")

    op.create_table(
        "byref_discards",
        sa.Column("id", KEY, nullable=False),
        sa.Column("store", sa.String(20), nullable=False),
        sa.Column("key", sa.String(80), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_discards")),
        sa.UniqueConstraint("store", "key", name=op.f("uq_byref_discards_store_key")),
    )

    op.create_table(
        "byref_artifacts",
        sa.Column("id", KEY, nullable=False),
        sa.Column("public_id", sa.String(64), nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger()),
        sa.Column("blob_id", sa.BigInteger(), nullable=False),
        sa.Column("origin", sa.String(8), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("content_type", sa.String(255), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("json_schema", sa.LargeBinary()),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("ttl_seconds", sa.Double()),
        sa.Column("expires_at", TIME),
        sa.Column("kept", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_artifacts")),
        _of_session("byref_artifacts"),
        sa.ForeignKeyConstraint(
            ["tenant", "blob_id"],
            ["byref_blobs.tenant", "byref_blobs.id"],
            name=op.f("fk_byref_artifacts_tenant_blob_id"),
            ondelete="RESTRICT",
        ),
        sa.UniqueConstraint("public_id", name=op.f("uq_byref_artifacts_public_id")),
        sa.UniqueConstraint("session_id", "id", name=op.f("uq_byref_artifacts_session_id_id")),
        sa.CheckConstraint("kind IN ('json', 'text', 'image', 'document')", name=op.f("ck_byref_artifacts_kind")),
        sa.CheckConstraint("origin IN ('output', 'run', 'model', 'host')", name=op.f("ck_byref_artifacts_origin")),
        sa.CheckConstraint(
            "(ttl_seconds IS NULL) = (expires_at IS NULL) AND ttl_seconds > 0", name=op.f("ck_byref_artifacts_ttl")
        ),
        sa.CheckConstraint("NOT kept OR expires_at IS NULL", name=op.f("ck_byref_artifacts_kept")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_byref_artifacts_session_name", "byref_artifacts", ["session_id", "name"])
    op.create_index("ix_byref_artifacts_session_blob", "byref_artifacts", ["session_id", "blob_id", "expires_at"])
    op.create_index("ix_byref_artifacts_blob_id", "byref_artifacts", ["blob_id"])
    op.create_index("ix_byref_artifacts_expires_at", "byref_artifacts", ["expires_at"])

    op.create_table(
        "byref_variables",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("artifact_id", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(8), nullable=False),
        sa.Column("kind", sa.String(16), server_default=sa.text("'value'"), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_variables")),
        _of_session("byref_variables"),
        sa.ForeignKeyConstraint(
            ["session_id", "artifact_id"],
            ["byref_artifacts.session_id", "byref_artifacts.id"],
            name=op.f("fk_byref_variables_session_id_artifact_id"),
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("session_id", "name", name=op.f("uq_byref_variables_session_id_name")),
        sa.CheckConstraint("origin IN ('output', 'run', 'host')", name=op.f("ck_byref_variables_origin")),
        sa.CheckConstraint("kind IN ('value', 'dataframe')", name=op.f("ck_byref_variables_kind")),
        sa.CheckConstraint("revision >= 1", name=op.f("ck_byref_variables_revision")),
    )
    op.create_index("ix_byref_variables_artifact_id", "byref_variables", ["artifact_id"])

    op.create_table(
        "byref_names",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("artifact_id", sa.BigInteger()),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_names")),
        _of_session("byref_names"),
        sa.ForeignKeyConstraint(
            ["session_id", "artifact_id"],
            ["byref_artifacts.session_id", "byref_artifacts.id"],
            name=op.f("fk_byref_names_session_id_artifact_id"),
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("session_id", "name", name=op.f("uq_byref_names_session_id_name")),
        sa.CheckConstraint("kind IN ('exact', 'source')", name=op.f("ck_byref_names_kind")),
        sa.CheckConstraint("(kind = 'exact') = (artifact_id IS NOT NULL)", name=op.f("ck_byref_names_artifact")),
        sa.CheckConstraint("size_bytes >= 0", name=op.f("ck_byref_names_size")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_byref_names_artifact_id", "byref_names", ["artifact_id"])
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE byref_names ALTER COLUMN data SET STORAGE EXTERNAL")

    op.create_table(
        "byref_ledger",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("tool", sa.Text()),
        sa.Column("call_id", sa.Text()),
        sa.Column("call_digest", sa.LargeBinary(32)),
        sa.Column("content_digest", sa.LargeBinary(32)),
        sa.Column("arguments", sa.Text()),
        sa.Column("route", sa.String(16)),
        sa.Column("reason", sa.String(32)),
        sa.Column("content", sa.Text()),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("original_tokens", sa.BigInteger()),
        sa.Column("original_bytes", sa.BigInteger()),
        sa.Column("artifact_id", KEY),
        sa.Column("is_error", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("model", sa.Text()),
        sa.Column("input_tokens", sa.BigInteger()),
        sa.Column("output_tokens", sa.BigInteger()),
        sa.Column("cache_read_tokens", sa.BigInteger()),
        sa.Column("cache_write_tokens", sa.BigInteger()),
        sa.Column("cost_nanos", sa.BigInteger()),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_ledger")),
        _of_session("byref_ledger"),
        sa.ForeignKeyConstraint(
            ["artifact_id"], ["byref_artifacts.id"], name=op.f("fk_byref_ledger_artifact_id"), ondelete="SET NULL"
        ),
        sa.UniqueConstraint("session_id", "step", name=op.f("uq_byref_ledger_session_id_step")),
        sa.CheckConstraint("step >= 1", name=op.f("ck_byref_ledger_step")),
        sa.CheckConstraint(
            "kind IN ('output', 'reply', 'usage', 'compaction', 'resolution')", name=op.f("ck_byref_ledger_kind")
        ),
        sa.CheckConstraint(
            "route IS NULL OR route IN ('inline', 'variables', 'artifact', 'truncate', 'wholesale', 'placeholder')",
            name=op.f("ck_byref_ledger_route"),
        ),
        sa.CheckConstraint(
            "CASE WHEN kind = 'output' THEN route IS NOT NULL AND reason IS NOT NULL AND original_tokens IS NOT NULL"
            " ELSE route IS NULL AND reason IS NULL END",
            name=op.f("ck_byref_ledger_output"),
        ),
        sa.CheckConstraint(
            "CASE WHEN kind IN ('output', 'reply')"
            " THEN tool IS NOT NULL AND content IS NOT NULL AND content_digest IS NOT NULL"
            " ELSE tool IS NULL AND content IS NULL AND content_digest IS NULL END",
            name=op.f("ck_byref_ledger_content"),
        ),
        sa.CheckConstraint("tokens >= 0", name=op.f("ck_byref_ledger_tokens")),
    )
    for name, columns, kind in [
        ("uq_byref_ledger_output", ["session_id", "call_digest", "content_digest"], "output"),
        ("uq_byref_ledger_usage", ["session_id", "call_digest"], "usage"),
    ]:
        _unique_where(name, "byref_ledger", columns, f"kind = '{kind}' AND call_digest IS NOT NULL")
    op.create_index("ix_byref_ledger_content", "byref_ledger", ["session_id", "content_digest"])
    op.create_index("ix_byref_ledger_artifact_id", "byref_ledger", ["artifact_id"])

    op.create_table(
        "byref_runs",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger()),
        sa.Column("language", sa.String(8), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("result", sa.Text()),
        sa.Column("stdout", sa.Text(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("wall_ms", sa.Double(), nullable=False),
        sa.Column("cpu_ms", sa.Double(), nullable=False),
        sa.Column("peak_bytes", sa.BigInteger(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_runs")),
        _of_session("byref_runs"),
        sa.UniqueConstraint("session_id", "step", name=op.f("uq_byref_runs_session_id_step")),
        sa.CheckConstraint("language IN ('python', 'jq', 'sql')", name=op.f("ck_byref_runs_language")),
    )

    op.create_table(
        "byref_tombstones",
        sa.Column("id", KEY, nullable=False),
        sa.Column("public_id", sa.String(64), nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger()),
        sa.Column("origin", sa.String(8), nullable=False),
        sa.Column("content_type", sa.String(255), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("variables", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text()),
        sa.Column("arguments", sa.Text()),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("expired_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_tombstones")),
        _of_session("byref_tombstones"),
        sa.UniqueConstraint("public_id", name=op.f("uq_byref_tombstones_public_id")),
        sa.CheckConstraint("origin IN ('output', 'run', 'model', 'host')", name=op.f("ck_byref_tombstones_origin")),
    )
    op.create_index("ix_byref_tombstones_session_id", "byref_tombstones", ["session_id"])
    op.create_index("ix_byref_tombstones_expired_at", "byref_tombstones", ["expired_at"])

    op.create_table(
        "byref_items",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", HOST_ID, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("list", HOST_ID, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_items")),
        _of_session("byref_items"),
        sa.UniqueConstraint("session_id", "list", "number", name=op.f("uq_byref_items_session_id_list_number")),
        sa.CheckConstraint("number >= 0", name=op.f("ck_byref_items_number")),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    """Drop every table, referring ones first."""
    for table in (
        "items",
        "tombstones",
        "runs",
        "ledger",
        "names",
        "variables",
        "artifacts",
        "discards",
        "frames",
        "blobs",
        "sessions",
    ):
        op.drop_table(f"byref_{table}")


def _of_session(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant", "session_id"],
        ["byref_sessions.tenant", "byref_sessions.id"],
        name=op.f(f"fk_{table}_tenant_session_id"),
        ondelete="CASCADE",
    )


def _unique_where(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=True, sqlite_where=where, postgresql_where=where)
