"""How the text of an artifact is read as a table.

Revision ID: 0006
Revises: 0005

Older code goes on: it takes such an artifact for the text that it is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

oldest = "0001"


def upgrade() -> None:
    """Add the column."""
    op.add_column("byref_artifacts", sa.Column("reading", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the column: what was read as a table is text again. Older code cannot read names of nested tables: they go."""
    op.execute("DELETE FROM byref_variables WHERE substr(path, 1, 1) = '{'")
    op.drop_column("byref_artifacts", "reading")
