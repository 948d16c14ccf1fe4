"""Units of work on a database: begun, retried, committed, and their failures translated.

Where locks are taken, and in which order:

- A SQLite file has one writer. Threads of this process queue for a lock in memory (`_turn`) before they ask the file for it:
  waiting in memory is fair and costs nothing, polling a file is neither. Other processes are waited for by polling.
- On PostgreSQL work locks its session's row first, then blobs, in the order of their ids.
- A unit of work inside another one, on the same thread, would wait for itself or not see what the other wrote: `_alone`
  refuses it.

A unit that failed is run again only where it surely left nothing behind: before its COMMIT, or where the COMMIT was refused.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args
from weakref import WeakSet, finalize

from sqlalchemy import URL, Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, scoped_session
from sqlalchemy.pool import StaticPool

from byref.db.connections import BUSY_SECONDS, Purpose, accepted, make_engine, sqlite_path, transaction
from byref.db.failures import driver_error, is_away, is_conflict, is_transient, safe, storage_failure, words_of
from byref.db.revisions import HEAD, checked_schema, require, state
from byref.errors import ConfigurationError, StorageFailure, TransactionConflict

T = TypeVar("T")

Durability = Literal["normal", "full"]

_WAIT_FOR_DISK = text(
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)

ATTEMPTS = 8
"""How often a unit of work is begun before its failure is raised."""

RACES = 4
"""How often work is tried that a constraint refused: another process may have made the same at the same moment."""

FIRST_PAUSE = 0.02
"""Seconds before the second attempt, doubled before each further one; up to as much is added at random."""

RETRY_SECONDS = 30.0
"""After this long no further attempt is begun: a wait for a lock may take as long by itself."""

PATIENCE_SECONDS = 5.0
"""For so long a server that takes no connections, or no writes, is asked again: it may be restarting, or another one may take
over. After that work fails at once, until the server is back: no turn of a conversation waits for a server that is down."""

logger = logging.getLogger("byref")


class Database:
    """A database that many threads and processes write to at once.

    Takes a URL, or a host's own Engine, of which only the pool is used: its settings and events stay as they are.
    `schema` (PostgreSQL) is where the tables live.
    """

    def __init__(
        self, url_or_engine: str | URL | Engine, *, schema: str | None = None, durability: Durability = "normal"
    ) -> None:
        if durability not in get_args(Durability):
            raise ConfigurationError(f'durability={durability!r}: expected "normal" or "full"')
        self._is_ours = isinstance(url_or_engine, (str, URL))
        if isinstance(url_or_engine, (str, URL)):
            self._engine = make_engine(url_or_engine, full=durability == "full")
            finalize(self, self._engine.dispose)
        else:
            self._engine = accepted(url_or_engine)
            if durability == "full" and self._engine.dialect.name == "sqlite":
                raise ConfigurationError(
                    'durability="full" is for a URL: on an engine of your own, run PRAGMA synchronous = FULL when it connects'
                )
        self.dialect = self._engine.dialect.name
        self.schema = checked_schema(self._engine, schema)
        mapped: dict[str, Any] = {"schema_translate_map": {None: schema}} if schema else {}
        self._waits_for_disk = durability == "full" and self.dialect == "postgresql"
        self._reader = self._writer = self._asker = self._engine
        if self.dialect == "postgresql":
            # A read sees one moment, as it does on SQLite; a write sees what the lock it waited for was guarding.
            # SQLAlchemy gives a connection its isolation level back, but not its read_only: that is for our own only.
            read_only = {"postgresql_readonly": True} if self._is_ours else {}
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ", **read_only, **mapped)
            self._writer = self._engine.execution_options(isolation_level="READ COMMITTED", **mapped)
            self._asker = self._engine.execution_options(isolation_level="AUTOCOMMIT", **mapped)
        self._shares_connection = isinstance(self._engine.pool, StaticPool)
        self._away_since: dict[bool, float] = {}
        """Since when the server takes no writes (True), or no connections for reads (False)."""
        self._reset_locks()
        _databases.add(self)

    @property
    def url(self) -> str:
        """The database's URL as it may be printed: without its password."""
        return safe(self._engine.url)

    @property
    def engine(self) -> Engine:
        """The engine as it was given or made."""
        return self._engine

    @property
    def takes_threads(self) -> bool:
        """Whether threads of byref's own may use it: not where it has one connection, which is a host's."""
        return self._is_ours or not self._shares_connection

    def prepare(self, create: bool | None = None) -> None:
        """See that the tables are there, at the revision that this byref needs.

        `create=None` makes them in a SQLite database that is new or empty, and only checks any other; True migrates
        whatever there is; False only checks. A database that a newer byref has migrated is left as it is, and works where
        that byref says so, which is logged.

        Raises:
            SchemaMismatch: the database is at a revision that this byref does not work with; the text names the cure.
            ConfigurationError: the SQLite file is read-only.
            StorageFailure: the database cannot be reached, or is no database.
        """
        self._see_that_it_can_be_written()
        found = self._working(lambda: state(self._engine, schema=self.schema))
        if found.revision == HEAD:
            return
        is_new = found.revision is None and self.dialect == "sqlite" and create is None and self._is_empty()
        if (create and found.is_known) or is_new:
            from byref.db.migrate import upgrade

            self._working(lambda: upgrade(self._engine, schema=self.schema))
            return
        if found.revision is None:  # another process may have made the tables between the two looks
            found = self._working(lambda: state(self._engine, schema=self.schema))
        require(found, self._engine.url, self.schema)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run work in one write transaction and commit it; on a transient failure run it again from the start.

        So work may run several times: it keeps nothing from a run that did not return, and uses only the connection
        it is given.

        Raises:
            StorageFailure: the database failed. Where the connection was lost during COMMIT, nobody knows whether the
                work was kept, so it is not run again: the text says so, and the caller looks before it repeats.
            IntegrityError: a constraint refused the work.
        """
        return self._run(work, self._writer, "write")

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run work in one read-only transaction, which sees one moment of the database; retried as `write` is."""
        return self._run(work, self._reader, "read")

    def ask(self, work: Callable[[Connection], T]) -> T:
        """Run work of one statement that reads: a statement sees one moment by itself, so that no transaction has to begin.

        Retried as `write` is.
        """
        return self._run(work, self._asker, "ask")

    @contextmanager
    def joined(self, host: Session | scoped_session[Any] | Connection) -> Iterator[Connection]:
        """Work inside a host's transaction, in a SAVEPOINT: an error undoes the work and leaves the host's own alone.

        Nothing is retried and nothing is committed: both are the host's to do. With an AsyncSession, call it in
        `run_sync`. Until the block ends, nothing else may be done through this Database in the same task.

        Raises:
            TransactionConflict: the host's transaction lost to a concurrent one.
            StorageFailure: the database failed; the host's transaction goes on unless the connection is lost.
            ConfigurationError: there is no transaction, for the connection commits every statement by itself.
        """
        connection = _connection_of(host)
        before = connection.get_execution_options().get("schema_translate_map")
        with self._alone(), self._failures(), _conflicts(connection):
            _see_that_a_transaction_is_open(connection)
            if before or self.schema:
                connection.execution_options(schema_translate_map={None: self.schema})
            try:
                with connection.begin_nested():
                    yield connection
            finally:
                if before or self.schema:
                    connection.execution_options(schema_translate_map=before)

    def shrink(self, pages: int) -> bool:
        """Give back at most so many free pages of a SQLite file, and tell whether there are more.

        A file that was not made by byref may have no auto-vacuum: it keeps its free pages.
        """
        if self.dialect != "sqlite" or self._shares_connection:
            return False
        with self._alone(), self._failures(), self._turn(True), self._engine.connect() as connection:
            free = _free_pages(connection)
            if free:
                driver: Any = connection.connection.driver_connection
                with suppress(self._engine.dialect.loaded_dbapi.OperationalError):  # another writer is at it: later
                    # Not `execute`, which takes one step of the statement, and each step frees one page.
                    driver.executescript(f"PRAGMA incremental_vacuum({pages})")
            left = _free_pages(connection)
            if free and not left:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")  # until then the file keeps its size
            return 0 < left < free

    def close(self) -> None:
        """Close the connections, if they are ours; done anyway once the Database is collected."""
        if self._is_ours:
            self._engine.dispose()

    def _run(self, work: Callable[[Connection], T], engine: Engine, purpose: Purpose) -> T:
        write = purpose == "write"
        deadline = time.monotonic() + RETRY_SECONDS
        attempt = 1
        with self._alone(), self._failures():
            while True:
                begun = time.monotonic()
                try:
                    with self._turn(write), transaction(engine, purpose) as connection:
                        if write and self._waits_for_disk:
                            connection.execute(_WAIT_FOR_DISK)
                        result = work(connection)
                        if write:
                            self._commit(connection)
                        self._away_since.pop(write, None)
                        return result
                except DBAPIError as error:
                    if attempt == ATTEMPTS or time.monotonic() > deadline or not self._may_pass(error, write, begun):
                        raise
                    words = words_of(driver_error(error), self._engine.url)
                    logger.debug("attempt %d on %s failed, trying again: %s", attempt, self.url, words)
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(1, 2))
                attempt += 1

    def _may_pass(self, error: DBAPIError, write: bool, begun: float) -> bool:
        """Tell whether the same work may succeed soon; `begun` is when the attempt that failed was."""
        if not is_away(error):
            return is_transient(error)
        return time.monotonic() - self._away_since.setdefault(write, begun) < PATIENCE_SECONDS

    def _commit(self, connection: Connection) -> None:
        try:
            connection.commit()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            note = "the connection was lost during COMMIT: whether the work was kept is unknown, look before repeating"
            raise storage_failure(error, self._engine.url, note) from driver_error(error)

    def _working(self, work: Callable[[], T]) -> T:
        """Run work that opens its own connection, when its turn comes."""
        with self._alone(), self._turn(True):
            return work()

    @contextmanager
    def _turn(self, write: bool) -> Iterator[None]:
        """Wait for the one writer of a SQLite file, or for the only connection of a shared pool.

        The lock is in memory, so that threads of this process do not poll the file.
        """
        if not (self._shares_connection or (write and self.dialect == "sqlite")):
            yield
            return
        if not self._lock.acquire(timeout=BUSY_SECONDS):
            raise StorageFailure(f"the database {self.url}: another thread kept it busy for {BUSY_SECONDS} seconds")
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a unit of work inside another one: it would wait for that one for ever, or not see what it wrote.

        Open units are noted in a context variable, which tasks and threads copy. So a unit counts only while it is open
        (`of` is set) and on the thread that began it: a copy that outlives it, or that another thread got, is in nobody's way.
        """
        outer, thread = tuple(unit for unit in _working.get() if unit.of is not None), threading.get_ident()
        if any(unit.of is self._guard and unit.thread == thread for unit in outer):
            raise RuntimeError(
                "a unit of work on this database is open on this thread: use the connection it was given"
            )
        unit = _Unit(self._guard, thread)
        _working.set((*outer, unit))
        try:
            yield
        finally:
            unit.of = None
            _working.set(outer)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except (DBAPIError, PoolTimeout) as error:
            raise storage_failure(error, self._engine.url) from driver_error(error)

    def _is_empty(self) -> bool:
        """True for a SQLite database without a table: another process may be about to make ours."""
        path = sqlite_path(self._engine.url)
        if path is not None and not path.exists():
            return True
        return self.read(lambda connection: not inspect(connection).get_table_names())

    def _see_that_it_can_be_written(self) -> None:
        path = sqlite_path(self._engine.url)
        if path is not None and path.exists() and not all(os.access(place, os.W_OK) for place in (path, path.parent)):
            raise ConfigurationError(
                f"the database {str(path)!r} is read-only: make the file and its folder writable for this user"
            )

    def _reset_locks(self) -> None:
        self._lock = threading.Lock()
        self._guard = object()

    def _after_fork(self) -> None:
        """Leave the parent's connections alone: a child that used them, or closed them, would break them for the parent.

        The pool is kept though nobody uses it: collecting it would close its connections.
        """
        self._reset_locks()
        if not self._shares_connection:
            _abandoned.append(self._engine.pool)
            self._engine.dispose(close=False)


def retried(write: Callable[[Callable[[Connection], T]], T], work: Callable[[Connection], T], races: int = RACES) -> T:
    """Run work by `write`; again where another process has made what it makes, or begun to use what it deletes.

    Raises:
        StorageFailure: a constraint refused the work each time. The text has neither the statement nor its values.
    """
    for _ in range(races):
        try:
            return write(work)
        except IntegrityError as error:
            refused = driver_error(error)
    raise StorageFailure(
        "a constraint of the database refused the write: another transaction may have written the same at the same "
        "moment; try again in a new one"
    ) from refused


@dataclass(slots=True, eq=False)
class _Unit:
    """A unit of work. Contexts are copied to tasks and threads: whoever has a copy of this one sees when it is closed."""

    of: object | None
    """Its database's `_guard`; None once it is closed."""
    thread: int


_working: ContextVar[tuple[_Unit, ...]] = ContextVar("byref_working", default=())
_databases: WeakSet[Database] = WeakSet()
_abandoned: list[object] = []
"""Pools of a parent process: kept, because collecting them would close what they hold."""


def _after_fork() -> None:
    for database in list(_databases):
        database._after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _free_pages(connection: Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())


def _connection_of(host: object) -> Connection:
    if isinstance(host, scoped_session):
        host = host()
    if isinstance(host, Session):
        return host.connection()
    if isinstance(host, Connection):
        return host
    raise ConfigurationError(
        f"a sqlalchemy Session or Connection was expected, not {type(host).__name__}; with an AsyncSession, call it "
        "inside `await session.run_sync(…)`"
    )


def keeps_snapshot(connection: Connection) -> bool:
    """Tell whether a transaction never sees what others commit after its first statement."""
    if connection.dialect.name != "postgresql":
        return False
    return connection.exec_driver_sql("SHOW transaction_isolation").scalar_one() in ("repeatable read", "serializable")


@contextmanager
def _conflicts(connection: Connection) -> Iterator[None]:
    """Raise TransactionConflict where only the host's whole transaction, begun anew, can succeed."""
    try:
        yield
    except DBAPIError as error:
        snapshot = isinstance(error, IntegrityError) and keeps_snapshot(connection)
        if is_conflict(error, keeps_snapshot=snapshot):
            cause = driver_error(error)
            raise TransactionConflict(
                f"a concurrent transaction came first: roll the host's back and run it again ({cause})"
            ) from cause
        raise


def _see_that_a_transaction_is_open(connection: Connection) -> None:
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name != "sqlite":
        commits_by_itself = getattr(connection.connection.dbapi_connection, "autocommit", None) is True
    elif driver.in_transaction:
        return
    else:
        commits_by_itself = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
    if commits_by_itself:
        raise ConfigurationError(
            "db: this connection commits every statement by itself (AUTOCOMMIT), so it has no transaction to join: "
            "give one with another isolation level, or none"
        )
    if connection.dialect.name == "sqlite":
        # Python's driver begins at the first INSERT only: our SAVEPOINT would be the transaction, and releasing it COMMIT.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
