"""Which names each run of code found, made, changed and dropped.

Revision ID: 0011
Revises: 0010

Older code goes on: of the runs that it records, nobody knows this.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

oldest = "0001"


def upgrade() -> None:
    """Add the column."""
    op.add_column("byref_runs", sa.Column("names", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the column: the inspector no longer tells what became of names."""
    op.drop_column("byref_runs", "names")
