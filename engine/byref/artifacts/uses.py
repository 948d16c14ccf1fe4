"""Uses put off expiry: an artifact that is named or read lives its whole time again.

A read must not wait for anybody's lock, so it does not write. It notes the use in memory, once a tenth of the time to live
has passed since the last use that was written. One thread writes what was noted, of all sessions together, in transactions
of its own that no host's rollback undoes. It writes before a quarter of the time that is left has passed: no other process
finds the artifact expired while it is in use.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakSet

from sqlalchemy import Connection, select, update

from byref.artifacts.store import batched
from byref.db.tables import ArtifactRow
from byref.errors import ByrefError

logger = logging.getLogger("byref")

MOVED = 0.1
"""Part of the time to live that must have passed since the last use that was written."""
SOON = 0.25
"""Part of the time that is left that may pass before a use is written."""
LONGEST_WAIT = 1.0
"""Seconds that a use waits for others to be written with."""
SHORTEST_WAIT = 0.01
"""Seconds between two writes, however short a time artifacts live."""
LONGEST_PAUSE = 30.0
"""Seconds before what could not be written is tried again: from `SHORTEST_WAIT` on, doubled each time."""
MOST_NOTED = 100_000
"""Most artifacts whose uses wait to be written. Those of further ones are not noted: their next read tries again."""

Write = Callable[[Callable[[Connection], Any]], Any]


class Uses:
    """What was used and is to be written, of all of an engine's sessions.

    The thread lives as long as something waits to be written; without `in_background` there is none, and the engine's
    sweeps call `write`. A forked child begins with nothing: its parent writes what was noted, and has the thread.

    `_changed` guards what is noted. `_writing` is held by whoever writes, so that two writers do not take the same artifacts'
    locks; it is never asked for while `_changed` is held.
    """

    def __init__(self, write: Write, *, in_background: bool) -> None:
        self._write, self._in_background = write, in_background
        self._closed = False
        self._noted: dict[int, float] = {}
        self._begin()
        _all.add(self)

    def follow(self, row: int, seconds: float | None, expires_at: datetime | None) -> Callable[[], None] | None:
        """Return what is called when an artifact is used, by what its row said; None of one that does not expire."""
        return None if seconds is None or expires_at is None else _Use(self, row, seconds, expires_at.timestamp())

    def write(self) -> None:
        """Put off the expiry of all that was noted; what has expired stays so.

        Raises:
            ByrefError: the database failed; what was not written stays noted.
        """
        with self._writing:
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

    def close(self) -> None:
        """Write what is left and take nothing more; raises as `write` does."""
        with self._changed:
            self._closed, thread = True, self._thread
            self._changed.notify()
        try:
            self.write()
        finally:
            if thread is not None:
                thread.join()

    def _begin(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._noted = {}
        self._due = math.inf
        self._pause = SHORTEST_WAIT

    def _note(self, row: int, seconds: float, left: float) -> bool:
        """Note a use of an artifact that has so many seconds to live and `left` of them; False if there is no room."""
        wait = max(SHORTEST_WAIT, min(LONGEST_WAIT, seconds * MOVED, left * SOON))
        with self._changed:
            if self._closed or (len(self._noted) >= MOST_NOTED and row not in self._noted):
                return False
            self._noted[row] = seconds
            due = time.monotonic() + wait
            if due < self._due:
                self._due = due
                self._changed.notify()
            if self._thread is None and self._in_background:
                thread = threading.Thread(target=self._run, name="byref-uses", daemon=True)
                with suppress(RuntimeError):  # no thread is to be had, or the process is ending: nobody's read fails
                    thread.start()
                    self._thread = thread
        return True

    def _run(self) -> None:
        while self._waited():
            try:
                self.write()
            except ByrefError:
                logger.debug("byref could not write down what was used last: it tries again", exc_info=True)
            except Exception:
                logger.exception("byref could not write down what was used last")

    def _waited(self) -> bool:
        """Wait until something is to be written; False once there is nothing."""
        with self._changed:
            while self._noted and not self._closed:
                wait = self._due - time.monotonic()
                if wait <= 0:
                    return True
                self._changed.wait(wait)
            self._thread = None
            return False

    def _try_again_with(self, left: dict[int, float]) -> None:
        with self._changed:
            if not left:
                self._pause = SHORTEST_WAIT
            elif not self._closed:
                self._noted = left | self._noted
                self._due = time.monotonic() + self._pause
                self._pause = min(2 * self._pause, LONGEST_PAUSE)


class _Use:
    """Notes the uses of one artifact, as somebody found it, and no more of them than are needed.

    Threads need no lock: two that read `_until` at once both note the use, which is the same as noting it once.
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
    """Put off the expiry of artifacts; return those that another transaction has locked, which is not waited for."""
    now = datetime.now(UTC)
    locked: set[int] = set()
    for seconds in set(used.values()):
        rows = [row for row, its in used.items() if its == seconds]
        until = now + timedelta(seconds=seconds)
        # Not sooner, where another host's clock is ahead; and of that time, if an id has come back.
        due = (
            ArtifactRow.id.in_(rows),
            ArtifactRow.ttl_seconds == seconds,
            ArtifactRow.expires_at > now,
            ArtifactRow.expires_at < until,
        )
        free = select(ArtifactRow.id).where(*due).with_for_update(skip_locked=True, key_share=True)
        connection.execute(update(ArtifactRow).where(ArtifactRow.id.in_(free)).values(expires_at=until))
        if connection.dialect.name != "sqlite":  # which has one writer, and no locks of rows
            locked.update(connection.execute(select(ArtifactRow.id).where(*due)).scalars())
    return locked


_all: WeakSet[Uses] = WeakSet()


def _after_fork() -> None:
    for uses in list(_all):
        uses._begin()


os.register_at_fork(after_in_child=_after_fork)
