"""Functions of clients of the HTTP service, and their calls.

Revision ID: 0010
Revises: 0009

Older code goes on: it knows nothing of the tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

oldest = "0001"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def _of_session(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant", "session_id"],
        ["byref_sessions.tenant", "byref_sessions.id"],
        name=op.f(f"fk_{table}_tenant_session_id"),
        ondelete="CASCADE",
    )


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "byref_remote_functions",
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.String(512), nullable=False),
        sa.Column("functions", sa.Text(), nullable=False),
        _of_session("byref_remote_functions"),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_byref_remote_functions")),
    )
    op.create_index("ix_byref_remote_functions_tenant", "byref_remote_functions", ["tenant", "session_id"])
    op.create_table(
        "byref_remote_calls",
        sa.Column("call_id", KEY, nullable=False),
        sa.Column("tenant", sa.String(512), nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("arguments", sa.LargeBinary(), nullable=False),
        sa.Column("is_repeatable", sa.Boolean(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("taken_at", MOMENT, nullable=True),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        _of_session("byref_remote_calls"),
        sa.ForeignKeyConstraint(
            ["call_id"],
            ["byref_calls.id"],
            name=op.f("fk_byref_remote_calls_call_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_byref_remote_calls")),
    )
    op.create_index("ix_byref_remote_calls_tenant", "byref_remote_calls", ["tenant", "session_id"])


def downgrade() -> None:
    """Drop them: calls that wait for a client are not answered."""
    op.drop_table("byref_remote_calls")
    op.drop_table("byref_remote_functions")
