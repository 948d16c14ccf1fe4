"""The revision of byref's tables in a database: look it up, check it, change it.

Alembic is imported only by functions that migrate.
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
    """Return every violated invariant of the data; read-only: see `byref.db.integrity.examine`."""
    from byref.db import integrity

    return list(integrity.examine(url_or_engine, deep=deep, schema=schema, blobs=blobs).problems)


def history() -> list[Revision]:
    """Return all revisions, oldest first."""
    from byref.db import migrate

    return migrate.history()
