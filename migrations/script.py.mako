"""${message}.

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
Create Date: ${create_date}
"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = "${up_revision}"
down_revision = "${down_revision}"
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}

# The oldest revision whose code works with the tables as this leaves them: that of ${down_revision} if this only adds what
# older code need not know (expand), this one's own if older code would fail (contract). See docs/migrations.md.
oldest = "${down_revision}"


def upgrade() -> None:
    """Apply."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Undo."""
    ${downgrades if downgrades else "pass"}
