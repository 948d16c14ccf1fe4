"""Functions of the host that code calls: programs, and the journal of their calls.

Revision ID: 0007
Revises: 0006

Older code goes on: it knows nothing of these tables, and its programs call no functions.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

oldest = "0001"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
OPEN = "state <> 'ended' AND call_digest IS NOT NULL"
STATES = "state IN ('waiting', 'approved', 'refused', 'begun', 'returned', 'raised')"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "byref_programs",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", sa.String(512), nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("call_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("content_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("tool", sa.String(64), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("seen_at", MOMENT, nullable=False),
        sa.Column("began_at", MOMENT, nullable=False),
        sa.Column("seed", sa.LargeBinary(32), nullable=False),
        sa.Column("after_step", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('running', 'waiting', 'ended')", name=op.f("ck_byref_programs_state")),
        sa.ForeignKeyConstraint(
            ["tenant", "session_id"],
            ["byref_sessions.tenant", "byref_sessions.id"],
            name=op.f("fk_byref_programs_tenant_session_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_programs")),
        sa.UniqueConstraint("session_id", "id", name=op.f("uq_byref_programs_session_id_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_byref_programs_call",
        "byref_programs",
        ["session_id", "call_digest", "content_digest"],
        unique=True,
        sqlite_where=sa.text(OPEN),
        postgresql_where=sa.text(OPEN),
    )
    op.create_table(
        "byref_calls",
        sa.Column("id", KEY, nullable=False),
        sa.Column("public_id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(512), nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("program_id", sa.BigInteger(), nullable=False),
        sa.Column("function", sa.String(64), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("argument_bytes", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("occurrence", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("changed", sa.Text(), nullable=True),
        sa.Column("content_type", sa.String(255), nullable=True),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("artifact_id", KEY, nullable=True),
        sa.Column("error_kind", sa.String(32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("wall_ms", sa.Double(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.CheckConstraint(STATES, name=op.f("ck_byref_calls_state")),
        sa.CheckConstraint("(state = 'raised') = (error IS NOT NULL)", name=op.f("ck_byref_calls_error")),
        sa.ForeignKeyConstraint(
            ["tenant", "session_id"],
            ["byref_sessions.tenant", "byref_sessions.id"],
            name=op.f("fk_byref_calls_tenant_session_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["session_id", "program_id"],
            ["byref_programs.session_id", "byref_programs.id"],
            name=op.f("fk_byref_calls_session_id_program_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["artifact_id"], ["byref_artifacts.id"], name=op.f("fk_byref_calls_artifact_id"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_calls")),
        sa.UniqueConstraint(
            "program_id", "digest", "occurrence", name=op.f("uq_byref_calls_program_id_digest_occurrence")
        ),
        sa.UniqueConstraint("public_id", name=op.f("uq_byref_calls_public_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_byref_calls_session_id", "byref_calls", ["session_id", "step", "id"])
    op.create_index("ix_byref_calls_function", "byref_calls", ["session_id", "function"])
    op.create_index("ix_byref_calls_artifact_id", "byref_calls", ["artifact_id"])


def downgrade() -> None:
    """Drop the tables: programs that wait for an approval are lost."""
    op.drop_table("byref_calls")
    op.drop_table("byref_programs")
