"""The table for messages of chats."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "messages",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("customer", sa.String(), nullable=False, index=True),
        sa.Column("chat", sa.String(), nullable=False, index=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("messages")
