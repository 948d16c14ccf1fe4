"""Bearer tokens of the HTTP service.

Revision ID: 0009
Revises: 0008

Older code goes on: it knows nothing of the table.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

oldest = "0001"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "byref_tokens",
        sa.Column("id", KEY, nullable=False),
        sa.Column("tenant", sa.String(512), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rights", sa.String(64), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_byref_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_byref_tokens_digest")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_byref_tokens_tenant", "byref_tokens", ["tenant", "id"])


def downgrade() -> None:
    """Drop it: clients need new tokens."""
    op.drop_table("byref_tokens")
