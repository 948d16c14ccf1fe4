"""Uses put off expiry: an artifact that is named lives its whole time again.

A use is written once the time has moved by a tenth, and not where it happens, for a read is to wait for nobody's lock. It
is noted in memory and written by whatever writes next: a step of the same session, the engine's next sweep, its closing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, update

from byref.artifacts.store import MANY, Artifact
from byref.db.tables import ArtifactRow

MOVED = 0.1
"""Of its time to live must have passed since the last use that was written."""
MOST_SESSIONS = 10_000
"""Whose uses are remembered; those of others are noted the next time."""


class Uses:
    """What was used and is to be written, of all of an engine's sessions. Threads need no lock: a lost use is noted again."""

    def __init__(self) -> None:
        self._noted: dict[int, dict[int, float]] = {}

    def note(self, session_row: int, artifacts: Iterable[Artifact]) -> None:
        """Note artifacts of a session that somebody uses."""
        for artifact in artifacts:
            seconds = artifact.ttl_seconds
            if seconds is None or artifact.expires_at is None:
                continue
            left = (artifact.expires_at - datetime.now(UTC)).total_seconds()
            if left < seconds * (1 - MOVED) and len(self._noted) < MOST_SESSIONS:
                self._noted.setdefault(session_row, {})[artifact.row_id] = seconds

    def sessions(self) -> list[int]:
        """Return the sessions with uses that are not written yet."""
        return list(self._noted)

    def write(self, connection: Connection, session_row: int) -> None:
        """Put off the expiry of what was noted for a session; what has expired stays so."""
        noted = list(self._noted.pop(session_row, {}).items())
        now = datetime.now(UTC)
        for start in range(0, len(noted), MANY):
            some = noted[start : start + MANY]
            for seconds in {seconds for _, seconds in some}:
                rows = sorted(row for row, its in some if its == seconds)
                live = ArtifactRow.id.in_(rows), ArtifactRow.session_id == session_row, ArtifactRow.expires_at > now
                until = now + timedelta(seconds=seconds)
                sooner = ArtifactRow.expires_at < until  # not so where another host's clock is ahead
                connection.execute(update(ArtifactRow).where(*live, sooner).values(expires_at=until))
