"""Indexes and sums for long conversations.

Revision ID: 0004
Revises: 0003

The sums say up to which row they go: what older code adds beside them is summed when it is asked for.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

oldest = "0001"

COUNTS = ("totals_through", "stored_bytes", "stored_artifact", "stored_name")
INDEXES = (
    ("ix_byref_ledger_content_step", "byref_ledger", ["session_id", "content_digest", "step"], None),
    ("ix_byref_ledger_call", "byref_ledger", ["session_id", "call_digest", "step"], "call_digest IS NOT NULL"),
    (
        "ix_byref_ledger_expired_call",
        "byref_ledger",
        ["session_id", "call_id", "step"],
        "call_digest IS NULL AND length(call_id) <= 600",
    ),
    ("ix_byref_ledger_turn", "byref_ledger", ["session_id", "kind", "step"], "kind IN ('usage', 'compaction')"),
    ("ix_byref_variables_age", "byref_variables", ["session_id", "origin", "artifact_id", "id"], None),
    ("ix_byref_variables_step", "byref_variables", ["session_id", "step"], None),
    ("ix_byref_variables_session_id", "byref_variables", ["session_id", "id"], None),
    ("ix_byref_names_age", "byref_names", ["session_id", "kind", "id"], None),
    ("ix_byref_variables_artifact", "byref_variables", ["artifact_id", "session_id"], None),
    ("ix_byref_names_artifact", "byref_names", ["artifact_id", "session_id"], None),
    ("ix_byref_artifacts_files", "byref_artifacts", ["session_id", "id"], "origin = 'run' AND name IS NOT NULL"),
)
PARTS = (
    ("ix_byref_ledger_content", "byref_ledger", ["session_id", "content_digest"]),
    ("ix_byref_variables_artifact_id", "byref_variables", ["artifact_id"]),
    ("ix_byref_names_artifact_id", "byref_names", ["artifact_id"]),
)
"""Of others that are made."""


def upgrade() -> None:
    """Make the columns, empty, and the indexes; those that are parts of others go."""
    op.add_column("byref_sessions", sa.Column("totals", sa.Text(), nullable=True))
    for name in COUNTS:
        column = sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False)
        op.add_column("byref_sessions", column)
    for name, table, columns, condition in INDEXES:
        where = None if condition is None else sa.text(condition)
        op.create_index(name, table, columns, if_not_exists=True, sqlite_where=where, postgresql_where=where)
    for name, table, _ in PARTS:
        op.drop_index(name, table)


def downgrade() -> None:
    """Undo."""
    for name, table, columns in PARTS:
        op.create_index(name, table, columns)
    for name, table, _, _ in reversed(INDEXES):
        op.drop_index(name, table)
    for name in (*reversed(COUNTS), "totals"):
        op.drop_column("byref_sessions", name)
