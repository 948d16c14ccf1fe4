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
OF_RUN, NO_IMAGE = "origin = 'run'", "kind <> 'image'"
CAME, MADE = "origin = 'output'", "origin <> 'output'"
INDEXES = (
    ("ix_byref_sessions_created_at", "byref_sessions", ["created_at", "id"], None),
    ("ix_byref_sessions_tenant_created_at", "byref_sessions", ["tenant", "created_at", "id"], None),
    ("ix_byref_ledger_content_route", "byref_ledger", ["session_id", "content_digest", "route", "step"], None),
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
    ("ix_byref_items_session_id", "byref_items", ["session_id", "id"], None),
    ("ix_byref_names_tenant", "byref_names", ["tenant", "id"], None),
    ("ix_byref_artifacts_session_public", "byref_artifacts", ["session_id", "public_id"], None),
    ("ix_byref_artifacts_came", "byref_artifacts", ["session_id", "name", "id"], f"{CAME} AND name IS NOT NULL"),
    ("ix_byref_artifacts_named", "byref_artifacts", ["session_id", "name", "id"], f"{MADE} AND name IS NOT NULL"),
    ("ix_byref_artifacts_made", "byref_artifacts", ["session_id", "step"], MADE),
    (
        "ix_byref_artifacts_files",
        "byref_artifacts",
        ["session_id", "id"],
        f"{OF_RUN} AND name IS NOT NULL AND {NO_IMAGE}",
    ),
    ("ix_byref_artifacts_figures", "byref_artifacts", ["session_id", "id"], f"{OF_RUN} AND kind = 'image'"),
    ("ix_byref_artifacts_values", "byref_artifacts", ["session_id", "id"], f"{OF_RUN} AND name IS NULL AND NOT kept"),
)
PARTS = (
    ("ix_byref_ledger_content", "byref_ledger", ["session_id", "content_digest"]),
    ("ix_byref_variables_artifact_id", "byref_variables", ["artifact_id"]),
    ("ix_byref_names_artifact_id", "byref_names", ["artifact_id"]),
)
"""Of others that are made."""


SORTED = {"name": sa.Text, "public_id": lambda **order: sa.String(64, **order)}
"""Of artifacts: ordered by code point, which SQLite does by itself."""


def upgrade() -> None:
    """Make the columns, empty, a table for tenants, and the indexes; those that are part of others go."""
    op.add_column("byref_sessions", sa.Column("totals", sa.Text(), nullable=True))
    for name in COUNTS:
        column = sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False)
        op.add_column("byref_sessions", column)
    op.add_column("byref_sessions", sa.Column("stored_until", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "byref_tenants",
        sa.Column("tenant", sa.String(512), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stored_blob", sa.BigInteger(), nullable=False),
        sa.Column("stored_name", sa.BigInteger(), nullable=False),
        sa.Column("stored_until", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_byref_tenants")),
    )
    op.drop_index("ix_byref_artifacts_session_name", "byref_artifacts")
    _sort(collation="C")
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
    _sort()
    op.create_index("ix_byref_artifacts_session_name", "byref_artifacts", ["session_id", "name"])
    op.drop_table("byref_tenants")
    for name in ("stored_until", *reversed(COUNTS), "totals"):
        op.drop_column("byref_sessions", name)


def _sort(**order: str) -> None:
    if op.get_context().dialect.name == "postgresql":
        for name, type_ in SORTED.items():
            op.alter_column("byref_artifacts", name, type_=type_(**order))
