"""Our tables in a database: which revision it is at, and how it gets to the one that byref needs.

Alembic is imported only where something is migrated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import URL, Engine

from byref.db.revisions import check, current, head, include_name, oldest

if TYPE_CHECKING:
    from byref.db.integrity import Problem
    from byref.db.migrate import Revision
    from byref.stores.protocol import BlobStore

__all__ = ["check", "current", "downgrade", "head", "history", "include_name", "oldest", "upgrade", "verify"]


def upgrade(url_or_engine: str | URL | Engine, revision: str = "head", *, schema: str | None = None) -> None:
    """Bring a database to a revision: see `byref.db.migrate.upgrade`."""
    from byref.db import migrate

    migrate.upgrade(url_or_engine, revision, schema=schema)


def downgrade(url_or_engine: str | URL | Engine, revision: str, *, schema: str | None = None) -> None:
    """Take a database back to a revision: see `byref.db.migrate.downgrade`."""
    from byref.db import migrate

    migrate.downgrade(url_or_engine, revision, schema=schema)


def verify(
    url_or_engine: str | URL | Engine,
    *,
    deep: bool = False,
    schema: str | None = None,
    blobs: BlobStore | None = None,
) -> list[Problem]:
    """Every invariant of the data that does not hold, read-only: see `byref.db.integrity.examine`."""
    from byref.db import integrity

    return list(integrity.examine(url_or_engine, deep=deep, schema=schema, blobs=blobs).problems)


def history() -> list[Revision]:
    """Every revision there is, oldest first."""
    from byref.db import migrate

    return migrate.history()
