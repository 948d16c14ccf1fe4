"""Uses postpone expiry: an artifact that is named or read lives its full time again.

A read must not wait for locks, so it does not write. It notes the use in memory, if a tenth of the time to live has passed
since the last use that was written. One thread writes the noted uses of all sessions, in its own transactions, which no
host's rollback undoes. It writes them before a quarter of the remaining time has passed, so that no other process finds an
artifact expired while it is in use.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, select, update

from byref.artifacts.background import Background
from byref.artifacts.store import batched
from byref.db.tables import ArtifactRow

MOVED = 0.1
"""Part of the time to live that must have passed since the last written use before another is noted."""
SOON = 0.25
"""Part of the remaining time within which a use is written."""
LONGEST_WAIT = 1.0
"""Most seconds that a use waits in order to be written together with others."""
SHORTEST_WAIT = 0.01
"""Fewest seconds that a use waits, however short artifacts live."""
LONGEST_PAUSE = 30.0
"""Most seconds before a failed write is tried again; the pause begins at `SHORTEST_WAIT` and doubles each time."""
LONGEST_LIFE = 36_500 * 86_400.0
"""Most seconds by which a use postpones the expiry: a damaged row may have a time to live that no date is as far as."""
MOST_NOTED = 100_000
"""Most artifacts whose uses can wait to be written. Uses of further ones are not noted; their next read tries again."""


class Uses(Background):
    """The uses that wait to be written, of all sessions of an engine."""

    _noted: dict[int, float]
    NAME = "byref-uses"
    WHAT = "what was used last: it tries again"

    def follow(self, row: int, seconds: float | None, expires_at: datetime | None) -> Callable[[], None] | None:
        """Return the function to call when the artifact of a row is used; None if the artifact does not expire."""
        return None if seconds is None or expires_at is None else _Use(self, row, seconds, expires_at.timestamp())

    def write(self) -> None:
        """Postpone the expiry of all artifacts with noted uses, except those that have expired meanwhile.

        Raises:
            ByrefError: the database failed; uses that were not written stay noted.
        """
        with self._writing:
            # Taken out under the lock and written without it: readers note uses and must never wait for the database.
            with self._changed:
                noted, self._noted, self._due = self._noted, {}, math.inf
            left = dict(noted)
            try:
                for rows in batched(noted):
                    some = {row: noted[row] for row in rows}
                    locked: set[int] = self._write(lambda connection: _put_off(connection, some))  # noqa: B023  at once
                    for row in some.keys() - locked:
                        del left[row]
            finally:
                self._try_again_with(left)

    def _begin(self) -> None:
        super()._begin()
        self._noted = {}
        self._due = math.inf
        self._pause = SHORTEST_WAIT

    def _note(self, row: int, seconds: float, left: float) -> bool:
        """Note a use of an artifact with a time to live of `seconds`, of which `left` remain; False if there is no room."""
        wait = max(SHORTEST_WAIT, min(LONGEST_WAIT, seconds * MOVED, left * SOON))
        with self._changed:
            if self._is_closed or (len(self._noted) >= MOST_NOTED and row not in self._noted):
                return False
            self._noted[row] = seconds
            due = time.monotonic() + wait
            if due < self._due:
                self._due = due
                self._changed.notify()
            self._start()
        return True

    def _is_due(self) -> bool:
        while self._noted and not self._is_closed:
            wait = self._due - time.monotonic()
            if wait <= 0:
                return True
            self._changed.wait(wait)
        return False

    def _try_again_with(self, left: dict[int, float]) -> None:
        with self._changed:
            if not left:
                self._pause = SHORTEST_WAIT
            elif not self._is_closed:
                # Uses that were noted meanwhile are newer, so they win.
                self._noted = left | self._noted
                self._due = time.monotonic() + self._pause
                self._pause = min(2 * self._pause, LONGEST_PAUSE)


class _Use:
    """Notes uses of one artifact object, no more often than needed.

    No lock is needed: two threads that read `_until` at the same time both note the use, which is the same as noting it once.
    """

    __slots__ = ("_row", "_seconds", "_until", "_uses")

    def __init__(self, uses: Uses, row: int, seconds: float, until: float) -> None:
        self._uses, self._row, self._seconds, self._until = uses, row, seconds, until

    def __call__(self) -> None:
        now = time.time()
        left = self._until - now
        if left < self._seconds * (1 - MOVED) and self._uses._note(self._row, self._seconds, left):
            self._until = now + self._seconds


def _put_off(connection: Connection, used: dict[int, float]) -> set[int]:
    """Postpone the expiry of artifacts; return the rows that were skipped because another transaction has locked them."""
    now = datetime.now(UTC)
    locked: set[int] = set()
    for seconds in set(used.values()):
        rows = [row for row, its in used.items() if its == seconds]
        until = now + timedelta(seconds=min(max(0.0, seconds), LONGEST_LIFE))
        # Never shorten a life, if another machine's clock is ahead. The time to live is compared because a row id reused
        # after a rollback may belong to another artifact.
        due = (
            ArtifactRow.id.in_(rows),
            ArtifactRow.ttl_seconds == seconds,
            ArtifactRow.expires_at > now,
            ArtifactRow.expires_at < until,
        )
        free = select(ArtifactRow.id).where(*due).with_for_update(skip_locked=True, key_share=True)
        connection.execute(update(ArtifactRow).where(ArtifactRow.id.in_(free)).values(expires_at=until))
        # Rows that are still due were skipped because somebody has locked them.
        if connection.dialect.name != "sqlite":  # SQLite has one writer and no row locks
            locked.update(connection.execute(select(ArtifactRow.id).where(*due)).scalars())
    return locked
