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

from sqlalchemy import URL, Connection, Engine, false, inspect, table, text
from sqlalchemy.exc import DBAPIError, IntegrityError, PendingRollbackError, UnboundExecutionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, scoped_session
from sqlalchemy.pool import StaticPool

from byref.db.connections import BUSY_SECONDS, Purpose, accepted, check_encoding, make_engine, sqlite_path, transaction
from byref.db.failures import driver_error, is_away, is_conflict, is_transient, safe, storage_failure, words_of
from byref.db.revisions import HEAD, checked_schema, require, state
from byref.errors import ConfigurationError, StorageFailure, TransactionConflict

T = TypeVar("T")

Durability = Literal["normal", "full"]

_WAIT_FOR_DISK = text(
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)

ATTEMPTS = 8
"""Number of attempts at a unit of work before its failure is raised."""

RACES = 4
"""Number of attempts at work that a constraint refused: another process may have inserted the same at the same moment."""

FIRST_PAUSE = 0.02
"""Seconds before the second attempt, doubled before each further one; up to as much is added at random."""

RETRY_SECONDS = 30.0
"""Time after which no further attempt begins; a single wait for a lock may take as long."""

PATIENCE_SECONDS = 5.0
"""How long a server that accepts no connections, or no writes, is retried: it may be restarting, or another one may be taking
over. After that, work fails at once until the server is back, so that no turn of a conversation waits for a dead server."""

logger = logging.getLogger("byref")


class Database:
    """A database that many threads and processes write to at once.

    It is made from a URL, or from a host's own Engine, whose settings and events stay as they are. `schema` (PostgreSQL
    only) is the schema that contains the tables.
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
            # A read sees one snapshot, as on SQLite. A write waits for locks, and must then see what their last holders
            # committed. SQLAlchemy resets a connection's isolation level, but not its read_only: so that is never set on a
            # host's connection.
            read_only = {"postgresql_readonly": True} if self._is_ours else {}
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ", **read_only, **mapped)
            self._writer = self._engine.execution_options(isolation_level="READ COMMITTED", **mapped)
            self._asker = self._engine.execution_options(isolation_level="AUTOCOMMIT", **mapped)
        self._shares_connection = isinstance(self._engine.pool, StaticPool)
        self._is_closed = False
        self._away_since: dict[bool, float] = {}
        """Since when the server has accepted no writes (key True), or no connections for reads (key False)."""
        self._reset_locks()
        _databases.add(self)

    @property
    def url(self) -> str:
        """The database's URL without its password, safe to print."""
        return safe(self._engine.url)

    @property
    def engine(self) -> Engine:
        """The engine as it was given or made."""
        return self._engine

    @property
    def takes_threads(self) -> bool:
        """Whether byref's own threads may use the database: not if a host's engine has only one connection."""
        return self._is_ours or not self._shares_connection

    def prepare(self, create: bool | None = None) -> None:
        """Make sure that the tables exist, at the revision that this byref needs.

        `create=None` creates them in a new or empty SQLite database, and only checks any other; True creates or migrates
        them; False only checks. A database that a newer byref has migrated is left as it is; it is accepted, with a warning
        in the log, if the newer byref declared it compatible with this one.

        Raises:
            SchemaMismatch: the database is at a revision that this byref does not work with; the text names the cure.
            ConfigurationError: the SQLite file is read-only, or the database's encoding is not UTF8.
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
        """Run work in one write transaction and commit it; on a transient failure, run it again from the start.

        So work may run several times: it must keep nothing from a run that failed, and use only the given connection.

        Raises:
            StorageFailure: the database failed. Where the connection was lost during COMMIT, nobody knows whether the
                work was kept, so it is not run again: the text says so, and the caller looks before it repeats.
            IntegrityError: a constraint refused the work.
        """
        return self._run(work, self._writer, "write")

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run work in one read-only transaction, which sees one snapshot of the database; retried as `write` is."""
        return self._run(work, self._reader, "read")

    def ask(self, work: Callable[[Connection], T]) -> T:
        """Run work that consists of one reading statement; retried as `write` is.

        A single statement sees one snapshot anyway, so no transaction is begun, which spares its round trips.
        """
        return self._run(work, self._asker, "ask")

    @contextmanager
    def joined(self, host: Session | scoped_session[Any] | Connection) -> Iterator[Connection]:
        """Work inside a host's transaction, in a SAVEPOINT: an error undoes the work and leaves the host's own alone.

        Nothing is retried and nothing is committed: both are up to the host. With an AsyncSession, call this inside
        `run_sync`. Until the block ends, nothing else may be done through this Database in the same task.

        Raises:
            TransactionConflict: the host's transaction lost to a concurrent one.
            StorageFailure: the database failed; the host's transaction goes on unless the connection is lost.
            ConfigurationError: the connection is in autocommit mode, so there is no transaction to join; or it gives no text, or
                not every text.
        """
        with self._failures(), _conflicts():  # a host's own `begin` event may ask for the lock, by BEGIN IMMEDIATE
            connection = _connection_of(host)
        before = connection.get_execution_options().get("schema_translate_map")
        with self._alone(), self._failures(), _conflicts(connection):
            check_encoding(connection)
            _see_that_a_transaction_is_open(connection, self.schema)
            # The option belongs to the connection, which is the host's: it gets its own value back at the end.
            if before or self.schema:
                connection.execution_options(schema_translate_map={None: self.schema})
            try:
                with connection.begin_nested():
                    yield connection
            finally:
                if before or self.schema:
                    connection.execution_options(schema_translate_map=before)

    def shrink(self, pages: int) -> bool:
        """Return at most `pages` free pages of a SQLite file to the file system, and tell whether there are more.

        A file that byref did not create may have no auto-vacuum; it keeps its free pages.
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

    def close(self, *, for_good: bool = False) -> None:
        """Close byref's own connections, never a host's; also happens when the Database is garbage-collected.

        Further work opens connections again, or is refused, if this is `for_good`.
        """
        self._is_closed = self._is_closed or for_good
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
                        # The commit is inside the loop: a refused COMMIT kept nothing, so the work is run again as a whole.
                        if write:
                            self._commit(connection)
                        elif purpose == "read" and self.dialect == "postgresql":
                            connection.commit()  # psycopg forgets the statements that it has prepared at a ROLLBACK
                        self._away_since.pop(write, None)
                        return result
                except DBAPIError as error:
                    if attempt == ATTEMPTS or time.monotonic() > deadline or not self._may_pass(error, write, begun):
                        raise
                    words = words_of(driver_error(error), self._engine.url)
                    logger.debug("attempt %d on %s failed, trying again: %s", attempt, self.url, words)
                # Random, so that those who collided do not collide again. The turn to write is given up meanwhile.
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(1, 2))
                attempt += 1

    def _may_pass(self, error: DBAPIError, write: bool, begun: float) -> bool:
        """Tell whether the same work may succeed soon; `begun` is the time at which the failed attempt began."""
        if not is_away(error):
            return is_transient(error)
        return time.monotonic() - self._away_since.setdefault(write, begun) < PATIENCE_SECONDS

    def _commit(self, connection: Connection) -> None:
        try:
            connection.commit()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise  # the database refused the COMMIT, so nothing was kept
            # StorageFailure is no DBAPIError: `_run` does not run the work again.
            note = "the connection was lost during COMMIT: whether the work was kept is unknown, look before repeating"
            raise storage_failure(error, self._engine.url, note) from driver_error(error)

    def _working(self, work: Callable[[], T]) -> T:
        """Run work that opens its own connection, after waiting for its turn to write."""
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
        """Refuse a unit of work inside another one: it would wait for the outer one for ever, or not see what that wrote.

        Open units are noted in a context variable, which new tasks and threads copy. So a unit counts only while it is open
        (`of` is set) and only on the thread that began it: stale copies, and copies in other threads, block nobody.
        """
        if self._is_closed:
            raise ConfigurationError("the engine is closed: close it after its last call, or make a new one")
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
        except (
            DBAPIError,
            PoolTimeout,
            PendingRollbackError,  # of a host's transaction that has failed before
            UnicodeError,  # of a driver whose connection has another encoding by now: SQLAlchemy passes it as it is
        ) as error:
            raise storage_failure(error, self._engine.url) from driver_error(error)

    def _is_empty(self) -> bool:
        """Tell whether a SQLite database has no table yet; another process may be about to create byref's."""
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
        """Abandon the parent's connections in a forked child: using or closing them would break them for the parent.

        The old pool is kept alive although nobody uses it, because collecting it would close its connections.
        """
        self._reset_locks()
        if not self._shares_connection:
            _abandoned.append(self._engine.pool)
            self._engine.dispose(close=False)


def retried(write: Callable[[Callable[[Connection], T]], T], work: Callable[[Connection], T], races: int = RACES) -> T:
    """Run work by `write`, and run it again if a constraint refused it, at most `races` times in all.

    A constraint refuses when another process has just inserted the same row, or begun to use a row that the work deletes.

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
    """An open unit of work. It is mutable so that all copies of a context, in tasks and threads, see when it is closed."""

    of: object | None
    """The `_guard` of its database; None once the unit is closed."""
    thread: int


_working: ContextVar[tuple[_Unit, ...]] = ContextVar("byref_working", default=())
_databases: WeakSet[Database] = WeakSet()
_abandoned: list[object] = []
"""Pools of a parent process, kept alive because collecting them would close their connections."""


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
        try:
            return host.connection()
        except UnboundExecutionError:
            raise ConfigurationError(
                "db: this Session has no engine for tables that are not mapped to one (no `bind`, or only `binds`): give the "
                "Connection to the database that byref uses, db=session.connection(bind_arguments={'bind': engine})"
            ) from None
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
def _conflicts(connection: Connection | None = None) -> Iterator[None]:
    """Raise TransactionConflict if the work can succeed only when the host repeats its whole transaction."""
    try:
        yield
    except DBAPIError as error:
        snapshot = connection is not None and isinstance(error, IntegrityError) and keeps_snapshot(connection)
        if is_conflict(error, keeps_snapshot=snapshot):
            cause = driver_error(error)
            raise TransactionConflict(
                f"a concurrent transaction came first: roll the host's back and run it again ({cause})"
            ) from cause
        raise


def _see_that_a_transaction_is_open(connection: Connection, schema: str | None) -> None:
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name != "sqlite":
        commits_by_itself = getattr(connection.connection.dbapi_connection, "autocommit", None) is True
    elif driver.in_transaction:
        _lock_for_writing(connection, schema)
        return
    else:
        commits_by_itself = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
    if commits_by_itself:
        raise ConfigurationError(
            "db: this connection commits every statement by itself (AUTOCOMMIT), so it has no transaction to join: "
            "give one with another isolation level, or none"
        )
    if connection.dialect.name == "sqlite":
        # Python's driver begins a transaction only at the first INSERT: without this BEGIN our SAVEPOINT would be the
        # transaction, and releasing it would commit.
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _lock_for_writing(connection: Connection, schema: str | None) -> None:
    """Take SQLite's lock for a host's transaction that began with a plain BEGIN, before anything is read in it.

    SQLite waits for the lock only then. A transaction that has read, and wants to write while another writes, is refused at once.
    """
    connection.execute(table("byref_sessions", schema=schema).delete().where(false()))
