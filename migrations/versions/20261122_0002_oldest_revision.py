"""Which code works with the tables.

Revision ID: 0002
Revises: 0001

From here on each migration says how old the code may be that goes on working beside it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

oldest = "0001"


def upgrade() -> None:
    """Make the table; `byref.db.migrate` writes it."""
    op.create_table(
        "byref_compatibility",
        sa.Column("revision", sa.String(32), nullable=False),
        sa.Column("oldest", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_byref_compatibility")),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("byref_compatibility")
