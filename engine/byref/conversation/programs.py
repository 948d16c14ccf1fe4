"""The end of programs, which are runs of code that call functions of the host (`byref.calling`)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, and_, delete, or_, select, text, update

from byref.db.tables import IS_OPEN, ArtifactRow, CallRow, ProgramRow, RemoteCallRow

LEASE_SECONDS: Final = 15.0
"""A program whose process was not heard of for so long may be taken over."""
OPEN_DAYS: Final = 7
"""A program that was interrupted is ended if nobody has gone on with it for so long: by default, artifacts that nobody uses live as
long."""


def end(connection: Connection, program: int, step: int | None) -> None:
    """End a program with the step of its reply, None if it has none. The results of its calls are not needed any more."""
    connection.execute(update(ProgramRow).where(ProgramRow.id == program).values(state="ended", arguments=""))
    connection.execute(update(CallRow).where(CallRow.program_id == program).values(step=step, result=None))
    calls = select(CallRow.id).where(CallRow.program_id == program)
    connection.execute(delete(RemoteCallRow).where(RemoteCallRow.call_id.in_(calls)))


def end_all(connection: Connection, session_row: int) -> None:
    """End all programs of a session that has ended: nobody can go on with them."""
    here = ProgramRow.session_id == session_row, ProgramRow.state != "ended"
    for row in connection.execute(select(ProgramRow.id).where(*here)).scalars().all():
        end(connection, row, None)


def end_expired(connection: Connection, session_rows: Collection[int]) -> None:
    """End programs of sessions that wait for an approval, and of which a result has expired: they can never go on."""
    there = select(ArtifactRow.id).where(ArtifactRow.id == CallRow.artifact_id).exists()
    lost = (
        select(CallRow.program_id)
        .join(ProgramRow, ProgramRow.id == CallRow.program_id)
        .where(ProgramRow.session_id.in_(session_rows), ProgramRow.state == "waiting")
        .where(CallRow.state == "returned", CallRow.result.is_(None), ~there)
    )
    for row in connection.execute(lost.distinct()).scalars().all():
        end(connection, row, None)


def sweep(connection: Connection, at_once: int) -> int:
    """End interrupted programs with which nobody has gone on for `OPEN_DAYS`, and return their number. Their results are dropped.

    One without a call id ends when its process was not heard of for `LEASE_SECONDS`: nobody can go on with it. Those that wait for
    an approval stay: they end with their session, or with one of their results (`end_expired`).
    """
    now = datetime.now(UTC)
    lost = and_(ProgramRow.call_digest.is_(None), ProgramRow.seen_at < now - timedelta(seconds=LEASE_SECONDS))
    old = and_(text(IS_OPEN), ProgramRow.seen_at < now - timedelta(days=OPEN_DAYS))
    stale = select(ProgramRow.id).where(ProgramRow.state == "running", or_(old, lost))
    found = connection.execute(stale.limit(at_once).with_for_update(skip_locked=True)).scalars().all()
    for row in found:
        end(connection, row, None)
    return len(found)
