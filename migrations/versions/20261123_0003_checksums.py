"""Checksums of frames; marks of what is to be deleted.

Revision ID: 0003
Revises: 0002

Frames that are there get their checksums when they are first read: their bytes may be in a store that no migration reaches.
Older code goes on: what it stores has no checksum yet and may be unused, until somebody looks.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

oldest = "0001"

UNUSED = "may_be_unused"
CLEARING = "clearing_at IS NOT NULL"


def upgrade() -> None:
    """Add the columns; a sweep looks no more at blobs that an artifact needs."""
    op.add_column("byref_frames", sa.Column("checksum", sa.LargeBinary(8), nullable=True))
    op.add_column("byref_sessions", sa.Column("is_deleted", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("byref_sessions", sa.Column("clearing_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_byref_sessions_clearing",
        "byref_sessions",
        ["clearing_at"],
        if_not_exists=True,
        sqlite_where=sa.text(CLEARING),
        postgresql_where=sa.text(CLEARING),
    )
    op.add_column("byref_blobs", sa.Column("may_be_unused", sa.Boolean(), server_default=sa.true(), nullable=False))
    op.execute(
        "UPDATE byref_blobs SET may_be_unused = false"
        " WHERE EXISTS (SELECT 1 FROM byref_artifacts WHERE byref_artifacts.blob_id = byref_blobs.id)"
    )
    op.create_index(
        "ix_byref_blobs_unused",
        "byref_blobs",
        ["staged_at"],
        if_not_exists=True,
        sqlite_where=sa.text(f"{UNUSED} = 1"),  # as queries have it: SQLite proves no more
        postgresql_where=sa.text(UNUSED),
    )
    op.drop_index("ix_byref_blobs_staged_at", "byref_blobs")


GOING = "SELECT id FROM byref_sessions WHERE clearing_at IS NOT NULL"
DELETED = "SELECT id FROM byref_sessions WHERE is_deleted"
UNKEPT = f"SELECT id FROM byref_artifacts WHERE session_id IN ({GOING}) AND NOT kept"


def downgrade() -> None:
    """Delete what is about to be deleted, for older code would find it; drop the columns."""
    for table in ("names", "variables", "tombstones"):
        op.execute(f"DELETE FROM byref_{table} WHERE session_id IN ({GOING})")
    for table in ("ledger", "runs", "items", "artifacts"):
        op.execute(f"DELETE FROM byref_{table} WHERE session_id IN ({DELETED})")
    op.execute(f"UPDATE byref_ledger SET artifact_id = NULL WHERE artifact_id IN ({UNKEPT})")
    op.execute(f"DELETE FROM byref_artifacts WHERE id IN ({UNKEPT})")
    op.execute("DELETE FROM byref_sessions WHERE is_deleted")
    op.create_index("ix_byref_blobs_staged_at", "byref_blobs", ["staged_at"])
    op.drop_index("ix_byref_blobs_unused", "byref_blobs")
    op.drop_column("byref_blobs", "may_be_unused")
    op.drop_index("ix_byref_sessions_clearing", "byref_sessions")
    op.drop_column("byref_sessions", "clearing_at")
    op.drop_column("byref_sessions", "is_deleted")
    op.drop_column("byref_frames", "checksum")
