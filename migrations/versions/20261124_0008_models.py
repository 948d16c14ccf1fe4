"""Answers of models that code asks, what their calls spend, and the schemas of what tools return.

Revision ID: 0008
Revises: 0007

Older code goes on: the columns have defaults, and it knows nothing of these tables. Usage of models that code has asked ends the
model's turn for it, as any usage does.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

oldest = "0001"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables, and add the columns."""
    op.create_table(
        "byref_answers",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", sa.String(512), nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("content_type", sa.String(255), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "session_id"],
            ["byref_sessions.tenant", "byref_sessions.id"],
            name=op.f("fk_byref_answers_tenant_session_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_answers")),
        sa.UniqueConstraint("tenant", "digest", name=op.f("uq_byref_answers_tenant_digest")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_byref_answers_session_id", "byref_answers", ["session_id"])
    op.create_index("ix_byref_answers_expires_at", "byref_answers", ["expires_at"])
    op.create_table(
        "byref_schemas",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", sa.String(512), nullable=False),
        sa.Column("tool", sa.String(200), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("outputs", sa.BigInteger(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.CheckConstraint("outputs >= 1", name=op.f("ck_byref_schemas_outputs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_schemas")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_byref_schemas_tool", "byref_schemas", ["tenant", "tool", "id"])
    op.add_column(
        "byref_calls", sa.Column("spent_tokens", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
    op.add_column("byref_ledger", sa.Column("in_turn", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("byref_sessions", sa.Column("learned_through", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop them: what models have answered is asked for again, and schemas are learned anew."""
    op.drop_column("byref_sessions", "learned_through")
    op.drop_column("byref_ledger", "in_turn")
    op.drop_column("byref_calls", "spent_tokens")
    op.drop_table("byref_schemas")
    op.drop_table("byref_answers")
