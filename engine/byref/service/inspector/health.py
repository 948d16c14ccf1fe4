"""The page of health: the database, what waits, and which walls of the sandbox are in force."""

from __future__ import annotations

import platform
import sqlite3
import time
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

from sqlalchemy import Connection, func, literal, select

from byref.calling import approvals
from byref.db import revisions
from byref.db.tables import ArtifactRow, BlobRow, SessionRow
from byref.service.inspector.looks import Look, Page
from byref.service.inspector.rendering import in_json
from byref_sandbox import probe

_walls = cache(probe)
"""They are tried once, because that takes half a second and they are the kernel's."""
WAITING = 50
"""Runs that wait for approvals, the oldest."""


def health(look: Look) -> Page:
    """Show what `byref doctor` finds, as far as it is about this process, and what waits of the tenant."""
    began = time.perf_counter()
    dialect = look.read(
        lambda connection: (connection.execute(select(literal(1))).scalar(), connection.dialect.name)[1]
    )
    asked_ms = (time.perf_counter() - began) * 1000

    def work(connection: Connection) -> dict[str, Any]:
        now = datetime.now(UTC)
        mine = ArtifactRow.tenant == look.tenant
        expired = (
            select(func.count()).select_from(ArtifactRow).where(mine, ArtifactRow.expires_at <= now, ~ArtifactRow.kept)
        )
        stored = (
            select(BlobRow.store, func.count().label("payloads"), func.sum(BlobRow.size_bytes).label("size"))
            .where(BlobRow.tenant == look.tenant, BlobRow.published_at.is_not(None))
            .group_by(BlobRow.store)
            .order_by(BlobRow.store)
        )
        open_ = (
            select(func.count()).select_from(SessionRow).where(SessionRow.tenant == look.tenant, ~SessionRow.is_deleted)
        )
        return {
            "expired": connection.execute(expired).scalar_one(),
            "stored": connection.execute(stored).all(),
            "revision": revisions.state_of(connection, look.database.schema).revision,
            "sessions": connection.execute(open_).scalar_one(),
            "pending": approvals.runs(connection, look.tenant, WAITING),
        }

    values = look.read(work) | {
        "byref": version("byref"),
        "python": f"{platform.python_version()} on {platform.system()}",
        "dialect": f"SQLite {sqlite3.sqlite_version}" if dialect == "sqlite" else "PostgreSQL",
        "asked_ms": asked_ms,
        "needed": revisions.head(),
        "walls": _walls(),
        "interpreter": None if look.interpreter is None else type(look.interpreter).__name__,
    }
    values["pending"] = [
        (one, [(call, look.sight.line(in_json(call.arguments))) for call in one.calls]) for one in values["pending"]
    ]
    return Page("health", values)
