"""A checksum of each frame.

Revision ID: 0003
Revises: 0002

Frames that are there get theirs when they are first read: their bytes may be in a store that no migration reaches.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

oldest = "0001"


def upgrade() -> None:
    """Add the column."""
    op.add_column("byref_frames", sa.Column("checksum", sa.LargeBinary(8), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("byref_frames", "checksum")
