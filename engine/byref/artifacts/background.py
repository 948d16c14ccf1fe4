"""What is noted in memory during turns, and written by a thread in its own transactions, which no host's rollback undoes."""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar
from weakref import WeakSet, finalize, ref

from sqlalchemy import Connection

from byref.errors import ByrefError

LAST_SECONDS = 5.0
"""Seconds for which the end of a process waits for a thread that is writing."""

logger = logging.getLogger("byref")

Write = Callable[[Callable[[Connection], Any]], Any]


class Background(ABC):
    """Notes of all sessions of an engine that wait to be written.

    The thread lives as long as notes wait; without `in_background` there is no thread, and the engine's sweeps call `write`. A forked
    child begins with no notes: its parent has the thread, and writes those of before the fork.

    `_changed` guards the notes. A writer holds `_writing`, so that two writers do not wait for the same locks of the database; it is
    never acquired while `_changed` is held, so the two cannot deadlock.
    """

    NAME: ClassVar[str]
    """The thread's name."""
    WHAT: ClassVar[str]
    """What is written, in words for logs."""

    def __init__(self, write: Write, *, in_background: bool) -> None:
        self._write, self._in_background = write, in_background
        self._is_closed = False
        self._begin()
        _all.add(self)
        # What is made later ends earlier: the database closes its connections when this thread uses them no more.
        finalize(self, _end, ref(self))

    @abstractmethod
    def write(self) -> None:
        """Write all notes; raise ByrefError if the database failed."""

    @abstractmethod
    def _is_due(self) -> bool:
        """Wait until notes are due and return True, or return False if none are left; `_changed` is held."""

    def _begin(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """Write what is left, and accept no more; raises as `write` does."""
        self.end(0)
        try:
            self.write()
        finally:
            self.end(None)

    def end(self, seconds: float | None) -> None:
        """Accept no more, and wait for the thread to end, but no longer than `seconds`."""
        with self._changed:
            self._is_closed, thread = True, self._thread
            self._changed.notify()
        if thread is not None:
            thread.join(seconds)

    def _start(self) -> None:
        """Start the thread, if there is none and is to be one; `_changed` is held."""
        if self._thread is not None or not self._in_background:
            return
        thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)
        # If no thread can be started, or the process is ending, the turn must still succeed.
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while self._waited():
            try:
                self.write()
            except ByrefError:
                logger.debug("byref could not write down %s", self.WHAT, exc_info=True)
            except Exception:
                logger.exception("byref could not write down %s", self.WHAT)

    def _waited(self) -> bool:
        with self._changed:
            is_due = not self._is_closed and self._is_due() and not self._is_closed
            if not is_due:
                self._thread = None
            return is_due


_all: WeakSet[Background] = WeakSet()


def _end(background: ref[Background]) -> None:
    """End the thread of one that is still there when the process ends; what waits to be written is lost."""
    one = background()
    if one is not None:
        one.end(LAST_SECONDS)


def _after_fork() -> None:
    for one in list(_all):
        one._begin()


os.register_at_fork(after_in_child=_after_fork)
