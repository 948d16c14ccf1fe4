"""Invariants of a database, whatever happened to the processes that wrote to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import create_engine, event, text

from byref import Engine, db

TABLES = ("sessions", "ledger", "artifacts", "blobs", "frames", "variables", "names", "runs", "tombstones")


def rows(url: str, sql: str, **parameters: Any) -> list[Any]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = list(connection.execute(text(sql), parameters).all())
    engine.dispose()
    return found


@contextmanager
def statements_of(engine: Engine) -> Iterator[list[str]]:
    """The statements that are sent while it lasts; on SQLite with those that begin a transaction."""
    seen: list[str] = []

    def note(_c: object, _k: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(engine.database.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine.database.engine, "before_cursor_execute", note)


BROKEN = (
    "SELECT a.id FROM byref_artifacts a JOIN byref_blobs b ON b.id = a.blob_id WHERE b.published_at IS NULL",
    "SELECT a.id FROM byref_artifacts a LEFT JOIN byref_blobs b ON b.id = a.blob_id WHERE b.id IS NULL",
    """
    SELECT b.id FROM byref_blobs b LEFT JOIN byref_frames f ON f.blob_id = b.id WHERE b.published_at IS NOT NULL
    GROUP BY b.id, b.size_bytes HAVING b.size_bytes <> COALESCE(SUM(f.size_bytes), 0) OR COUNT(f.number) <> COALESCE(MAX(f.number), -1) + 1
    """,
    """
    SELECT s.id FROM byref_sessions s LEFT JOIN byref_ledger l ON l.session_id = s.id
    GROUP BY s.id, s.next_step HAVING s.next_step - 1 <> COALESCE(MAX(l.step), 0) OR COUNT(l.step) <> COALESCE(MAX(l.step), 0)
    """,
    """
    SELECT s.id FROM byref_sessions s LEFT JOIN byref_ledger l
    ON l.session_id = s.id AND l.kind IN ('output', 'reply') AND l.step > s.pending_after
    GROUP BY s.id, s.pending_tokens HAVING s.pending_tokens <> COALESCE(SUM(l.tokens), 0)
    """,
    "SELECT v.id FROM byref_variables v LEFT JOIN byref_artifacts a ON a.id = v.artifact_id WHERE a.id IS NULL",
    """
    SELECT l.id FROM byref_ledger l JOIN byref_sessions s ON s.id = l.session_id
    WHERE l.route IN ('variables', 'artifact') AND l.artifact_id IS NULL AND s.ended_at IS NULL AND l.call_digest IS NOT NULL
    """,
)
"""Each finds rows that there may not be."""


def check_invariants(url: str) -> None:
    """No artifact without all of its bytes, contiguous steps, sums that are the ledger's, no name without data."""
    assert db.verify(url, deep=True) == []
    engine = create_engine(url)
    with engine.connect() as connection:
        for query in BROKEN:
            assert connection.execute(text(query)).all() == [], query
    engine.dispose()
