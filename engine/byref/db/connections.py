"""Create byref's own SQLAlchemy engines, and begin transactions on any engine: byref's own or a host's."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry, SingletonThreadPool, StaticPool

from byref.db.failures import Quiet, is_read_only, is_unprepared, safe
from byref.errors import ConfigurationError
from byref.stores.paths import make_file

if TYPE_CHECKING:
    import psycopg

BUSY_SECONDS = 30
"""How long a SQLite connection waits for the write lock of another."""

EAGER_SECONDS = 2.0
EAGER_PAUSE, PATIENT_PAUSE = (0.001, 0.003), (0.005, 0.015)
"""Seconds between two attempts at SQLite's write lock: a writer asks often at first, and less often after `EAGER_SECONDS`. SQLite's
own waiting asks ten times a second in the end, so that others, who have just come, get the lock again and again before it."""

CONNECT_SECONDS = 10
"""Time limit for connecting to PostgreSQL, unless the URL sets one: libpq would wait for ever."""

PREPARE_THRESHOLD = 5
"""From how many uses on psycopg prepares a statement on a connection that leads to one backend; psycopg's own default."""

KEEPALIVES = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
"""TCP settings with which a silently vanished server is noticed within 30 seconds, unless the URL sets others. TCP's defaults
take two hours, or 15 minutes once something was sent. `tcp_user_timeout` is in milliseconds, the others are in seconds."""


_NO_URL = (
    "that is no database URL: sqlite:///path.db or postgresql+psycopg://user:password@host/database was expected, with "
    "special characters in the password percent-encoded"
)


@contextmanager
def engine_of(url_or_engine: str | URL | Engine) -> Iterator[Engine]:
    """Yield the given engine, or one made from the URL, which is disposed of afterwards."""
    if isinstance(url_or_engine, Engine):
        yield accepted(url_or_engine)
        return
    engine = make_engine(url_or_engine)
    try:
        yield engine
    finally:
        engine.dispose()


def accepted(engine: object) -> Engine:
    """Return a host's engine; ConfigurationError, which says why, if byref cannot work with it."""
    if not isinstance(engine, Engine):
        raise ConfigurationError(f"a database URL or a sqlalchemy Engine was expected, not {type(engine).__name__}")
    if engine.dialect.name not in ("sqlite", "postgresql"):
        raise ConfigurationError(f"byref stores in SQLite or PostgreSQL, not in {engine.dialect.name!r}")
    if engine.dialect.is_async:
        url = engine.url.set(drivername="sqlite" if engine.dialect.name == "sqlite" else "postgresql+psycopg")
        raise ConfigurationError(
            f"byref needs a synchronous driver, not {engine.dialect.driver!r}: give it the URL {safe(url)}"
        )
    if isinstance(engine.pool, SingletonThreadPool):
        raise ConfigurationError(
            "this engine gives every thread another in-memory database: make it with poolclass=StaticPool"
            if is_memory(engine.url)
            else "this engine gives a thread the connection on which it has a transaction open already (SingletonThreadPool), so "
            "byref's COMMIT would be the host's too: make it without poolclass, or with poolclass=QueuePool"
        )
    return engine


def connect(engine: Engine) -> Connection:
    """Return a new connection of an engine; ConfigurationError if it gives bytes for text."""
    try:
        return engine.connect()
    except TypeError as error:
        # psycopg decodes nothing where client_encoding is SQL_ASCII, and SQLAlchemy's own first look stumbles over the bytes.
        if engine.dialect.driver != "psycopg" or "bytes-like" not in str(error):
            raise
        raise ConfigurationError(_not_utf8(engine.url, "client_encoding", "SQL_ASCII")) from error


def check_encoding(connection: Connection) -> None:
    """Raise ConfigurationError unless a database and a connection to it keep every text as text. No statement is sent.

    A PostgreSQL server tells its driver both encodings at the login. Where a driver does not pass them on, they count as right.
    """
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        if not isinstance(getattr(driver, "text_factory", str)(b""), str):
            raise ConfigurationError(
                f"this connection's text_factory is {driver.text_factory!r:.100}, and byref reads text as str: leave it at str, "
                "or give byref the database's URL"
            )
        return
    for name in ("server_encoding", "client_encoding"):
        if (found := _told_at_login(driver, name)) and not _UTF8.fullmatch(found):
            raise ConfigurationError(_not_utf8(connection.engine.url, name, found))


_UTF8 = re.compile(r"'?(UTF-?8|UNICODE)'?", re.IGNORECASE)
"""The encoding as servers and poolers name it."""
_ENCODING_CURES = {
    "server_encoding": "give byref one that is made with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
    "client_encoding": "connect with client_encoding=utf8 (in a URL ?client_encoding=utf8) to a database whose server_encoding is UTF8",
}


def _not_utf8(url: URL, name: str, found: str) -> str:
    return f"the database {safe(url)}: {name} is {found!r}, and UTF8 was expected, which has every character: {_ENCODING_CURES[name]}"


def _told_at_login(driver: Any, name: str) -> str | None:
    """Return a setting that a PostgreSQL server reports to psycopg, psycopg2 or asyncpg; None from other drivers."""
    if hasattr(driver, "get_settings"):
        return getattr(driver.get_settings(), name, None)
    look = getattr(getattr(driver, "info", None), "parameter_status", None)
    with suppress(Exception):  # the connection is closed, which its first statement will tell better
        return look(name) if look else None
    return None


def make_engine(url: str | URL, *, full: bool = False) -> Engine:
    """Return a new engine for SQLite or PostgreSQL that has not connected yet. With `full`, each commit waits for the disk.

    A relative path is made absolute, because the process may change its folder before the pool opens more connections.

    Raises:
        ConfigurationError: no such kind of database, no driver for it, or no place for its file.
    """
    found = parsed(url)
    match found.get_backend_name():
        case "sqlite":
            return _sqlite(found, full=full)
        case "postgresql":
            return _postgresql(found)
        case other:
            raise ConfigurationError(f"byref stores in SQLite or PostgreSQL, not in {other!r}")


def is_memory(url: URL) -> bool:
    """Tell whether a URL is that of a SQLite database in memory."""
    return url.get_backend_name() == "sqlite" and (
        ":memory:" in (url.database or ":memory:") or url.query.get("mode") == "memory"
    )


def sqlite_path(url: URL) -> Path | None:
    """Return the path of a SQLite database's file; None if it is in memory, has `uri=true`, or is no SQLite database."""
    if url.get_backend_name() != "sqlite" or is_memory(url) or "uri" in url.query or url.database is None:
        return None
    return Path(url.database).absolute()


Purpose = Literal["write", "read", "ask"]
"""What a connection is for: `write`; `read` with several statements that see the same snapshot; `ask` with one statement."""


@contextmanager
def transaction(engine: Engine, purpose: Purpose, *, foreign_keys: bool = True) -> Iterator[Connection]:
    """Yield a connection with an open transaction (none for `ask`), which is rolled back unless it is committed inside.

    On SQLite a write transaction begins with BEGIN IMMEDIATE, so that it waits for the lock before it reads anything; a
    host's connection gets its own `foreign_keys` setting back at the end.
    """
    if isinstance(engine.pool, StaticPool):
        _see_that_it_is_free(engine.pool)
    with connect(engine) as connection:
        if engine.dialect.name == "sqlite":
            with _begun_on_sqlite(connection, purpose, foreign_keys=foreign_keys):
                yield connection
        else:
            with _binary_results(connection), closing(connection.begin()):
                yield connection


def sync(connection: Connection) -> None:
    """Flush all commits before this transaction to the disk; call it before an irreversible step that depends on them.

    It is needed on SQLite with `synchronous = NORMAL`, which writes a commit to its log, but waits for the disk only at the
    next checkpoint.
    """
    if connection.dialect.name != "sqlite" or connection.exec_driver_sql("PRAGMA synchronous").scalar_one() > _NORMAL:
        return
    for _, name, path in connection.exec_driver_sql("PRAGMA database_list"):
        if name == "main" and path:
            with suppress(FileNotFoundError):  # no log: everything is in the file, or the journal mode is not WAL
                log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(log)
                finally:
                    os.close(log)


_NORMAL = 1
"""The value of `PRAGMA synchronous` for NORMAL."""
_OURS = "byref"
"""Key in a connection's `info` that marks byref's own SQLite connections, which always enforce foreign keys."""


def _see_that_it_is_free(pool: Any) -> None:
    """Raise ConfigurationError if somebody's transaction is open on the only connection of a pool.

    This looks into the pool instead of checking a connection out, because returning that would roll back the transaction.
    """
    driver = pool.connection.driver_connection
    if getattr(driver, "in_transaction", False) and getattr(driver, "autocommit", None) is not False:
        raise ConfigurationError(
            "this engine shares one connection between threads, and somebody's transaction is open on it: "
            "give byref a URL or an engine with a pool"
        )


@contextmanager
def _begun_on_sqlite(connection: Connection, purpose: Purpose, *, foreign_keys: bool) -> Iterator[None]:
    driver: Any = connection.connection.driver_connection
    begun = connection.begin()
    if driver.in_transaction:  # a driver with autocommit=False, or a host's listener, has already sent BEGIN
        connection.exec_driver_sql("ROLLBACK")
    # Reads do not depend on the setting, and byref's own connections enforce keys: only a host's writer is asked.
    is_known = purpose != "write" or _OURS in connection.info
    enforced = is_known or bool(connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one())
    if enforced != foreign_keys:
        connection.exec_driver_sql(f"PRAGMA foreign_keys = {foreign_keys:d}")
    try:
        if purpose == "write":
            _begin_to_write(connection, driver)
        elif purpose == "read":
            connection.exec_driver_sql("BEGIN")
        yield
    finally:
        begun.close()
        if enforced != foreign_keys:
            # With autocommit=False a transaction is always open, and inside one the PRAGMA has no effect.
            always_in_one = driver.in_transaction
            if always_in_one:
                driver.execute("ROLLBACK")
            driver.execute(f"PRAGMA foreign_keys = {enforced:d}")
            if always_in_one:
                driver.execute("BEGIN")


def _begin_to_write(connection: Connection, driver: Any) -> None:
    """Begin a write transaction, and ask for the lock every few milliseconds as long as the connection's `busy_timeout` lasts.

    SQLite's own waiting asks less and less often: under load it would be late for ever, and it would miss the pauses of 10 ms
    that a long deletion makes between its steps so that others can write. While this function asks, SQLite must not wait
    itself, so its `busy_timeout` is 0; then the connection gets its previous setting back.
    """
    patience = driver.execute("PRAGMA busy_timeout").fetchone()[0]
    start = time.monotonic()
    try:
        driver.execute("PRAGMA busy_timeout = 0")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except OperationalError as error:
            while _is_busy(error.orig):
                waited = time.monotonic() - start
                if waited > patience / 1_000:
                    raise
                time.sleep(random.uniform(*(EAGER_PAUSE if waited < EAGER_SECONDS else PATIENT_PAUSE)))
                try:
                    driver.execute("BEGIN IMMEDIATE")  # not by SQLAlchemy, whose error takes longer than the attempt
                    return
                except sqlite3.OperationalError as again:
                    error.orig = again
            raise
    finally:
        driver.execute(f"PRAGMA busy_timeout = {patience}")


def _is_busy(error: object) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def _binary_results(connection: Connection) -> Iterator[None]:
    """Let psycopg fetch bytes in binary instead of hexadecimal form, which is 3 to 5 times faster; undone at the end."""
    driver: Any = connection.connection.driver_connection
    if connection.dialect.driver != "psycopg":
        yield
        return
    before, driver.cursor_factory = driver.cursor_factory, _binary_cursor()
    try:
        yield
    finally:
        driver.cursor_factory = before


@cache
def _binary_cursor() -> type[Any]:
    import psycopg

    class BinaryCursor(psycopg.Cursor[Any]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.format = psycopg.pq.Format.BINARY

    return BinaryCursor


def parsed(url: str | URL) -> URL:
    """Return a URL with the driver that byref uses; ConfigurationError, without the URL's text, if it is malformed."""
    try:
        found = make_url(url.strip() if isinstance(url, str) else url)
        is_sound = found.get_backend_name() == "sqlite" or _is_read_as_meant(found, str(url))
    except (ArgumentError, ValueError):
        is_sound = False  # the error is dropped, because it quotes the URL with its password
    if not is_sound:
        raise ConfigurationError(_NO_URL) from None
    name = found.drivername.lower()
    return found.set(drivername="postgresql+psycopg" if name in ("postgresql", "postgres") else name)


def _is_read_as_meant(url: URL, text: str) -> bool:
    """Tell whether no part of a password can have been parsed as host or database, as with an unencoded `@` or `/` in it."""
    rest = text.partition("://")[2].partition("?")[0]
    named = (url.username or "").count("@") + (url.username is not None or url.password is not None)
    return not re.search(r"[@=\s]", url.host or "") and rest.count("@") <= named


def _create(url: URL, **options: Any) -> Engine:
    try:
        engine = accepted(create_engine(url, **options))
        engine.url = Quiet(*engine.url)
        return engine
    except NoSuchModuleError:
        raise ConfigurationError(f"no driver is known for {url.drivername!r}") from None
    except ArgumentError:  # a host, for SQLite
        raise ConfigurationError(_NO_URL) from None
    except ImportError as error:
        is_postgres = url.get_backend_name() == "postgresql"
        cure = "pip install 'byref[postgres]'" if is_postgres else "byref needs none"
        if url.drivername != "postgresql+psycopg":  # nor would all do: byref needs a synchronous one
            cure = f"write {url.get_backend_name()}://…, for which {cure}"
        raise ConfigurationError(f"the driver of {url.drivername!r} is not installed: {cure}") from error


def _sqlite(url: URL, *, full: bool) -> Engine:
    arguments: dict[str, Any] = {"isolation_level": None}  # the driver opens no transactions by itself
    if is_memory(url):
        arguments["check_same_thread"] = False
        engine = _create(url, poolclass=StaticPool, connect_args=arguments)
    else:
        if path := sqlite_path(url):
            url = url.set(database=str(path))
        path = path or _path_of_uri(url)
        if path is not None:
            _see_that_it_can_be_opened(path)
        if "timeout" not in url.query:
            arguments["timeout"] = BUSY_SECONDS
        engine = _create(url, connect_args=arguments, max_overflow=-1, pool_reset_on_return=None)
        # byref makes the file itself, for its owner only: SQLite copies the file's mode to those that it puts beside it.
        if path is not None:
            event.listen(engine, "do_connect", lambda *_: make_file(path))
    event.listen(engine, "connect", partial(_prepare_sqlite, "FULL" if full else "NORMAL"))
    return engine


def _path_of_uri(url: URL) -> Path | None:
    """Return the file that a URL with `uri=true` names, if SQLite would create it; else None."""
    name = url.database or ""
    if "uri" not in url.query or not name.startswith("file:") or url.query.get("mode", "rwc") != "rwc":
        return None
    path = unquote(urlsplit(name).path)
    return None if not path or "vfs" in url.query or "immutable" in url.query else Path(path)


def _see_that_it_can_be_opened(path: Path) -> None:
    if "\0" in str(path):
        raise ConfigurationError(f"the database {str(path)!r}: no file's name has a NUL")
    if not os.path.isdir(path.parent):  # noqa: PTH112  (a folder that may not be looked at is none)
        raise ConfigurationError(f"the folder {str(path.parent)!r} of the database {path.name!r} does not exist")
    if os.path.isdir(path):  # noqa: PTH112
        raise ConfigurationError(f"the database {str(path)!r} is a folder: name a file")
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        raise ConfigurationError(f"the database {str(path)!r} is no regular file: name one, or a free path")


def _prepare_sqlite(synchronous: str, driver: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
    """Set up a new SQLite connection: foreign keys, WAL (kept in the file), and auto-vacuum, while the file is still empty."""
    driver.execute("PRAGMA foreign_keys = ON")
    record.info[_OURS] = True
    driver.execute(f"PRAGMA synchronous = {synchronous}")
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if driver.execute("PRAGMA page_count").fetchone()[0] == 0:
                driver.execute("PRAGMA auto_vacuum = INCREMENTAL")
            driver.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # SQLite does not wait for other connections when the journal mode changes, so this loop does.
            code = error.sqlite_errorcode & 0xFF
            if code == sqlite3.SQLITE_READONLY:
                return
            if code != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _postgresql(url: URL) -> Engine:
    # No ping before use: `Database` retries after a dropped connection, which costs no round trip.
    arguments: dict[str, Any] = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_SECONDS}
    options: dict[str, Any] = {"pool_use_lifo": True, "pool_recycle": 1800}
    if url.drivername in ("postgresql+psycopg", "postgresql+psycopg2") and "client_encoding" not in url.query:
        arguments["client_encoding"] = "utf8"  # whatever the database, the role or PGCLIENTENCODING says
    prepares_where_it_can = False
    if url.drivername == "postgresql+psycopg":
        options["use_native_hstore"] = False
        prepares_where_it_can = "prepare_threshold" not in url.query
        arguments["prepare_threshold"] = _prepare_threshold(url)
        url = url.difference_update_query(["prepare_threshold"])
        arguments |= {name: value for name, value in KEEPALIVES.items() if name not in url.query}
    engine = _create(url, connect_args=arguments, **options)
    if prepares_where_it_can:
        event.listen(engine, "connect", _prepare_where_no_pooler_is)
    event.listen(engine, "handle_error", _leave_what_cannot_serve)
    return engine


def _prepare_where_no_pooler_is(driver: psycopg.Connection[Any], record: ConnectionPoolEntry) -> None:
    """Let psycopg prepare statements on a new connection that leads to one backend for good.

    A pooler (PgBouncer) may give each transaction another backend, on which a name belongs to another client's statement or
    to none. It shows in the number of the backend: for the client's login a pooler makes one up.
    """
    driver.autocommit = True
    row = driver.execute("SELECT pg_backend_pid()").fetchone()
    driver.autocommit = False
    if row == (driver.info.backend_pid,):
        driver.prepare_threshold = PREPARE_THRESHOLD


def _prepare_threshold(url: URL) -> int | None:
    """Return after how many uses psycopg prepares a statement, as the URL says; None: never, or the URL does not say."""
    given = url.query.get("prepare_threshold", "none")
    if given == "none":
        return None
    if not isinstance(given, str) or not given.isdecimal():
        raise ConfigurationError(
            "prepare_threshold in the database URL: a number of uses was expected, 0 or more, or none for never"
        )
    return int(given)


def _leave_what_cannot_serve(context: ExceptionContext) -> None:
    """Close connections that turn out to lead to a standby, which takes no writes, or to have lost their prepared statements.

    After a switch-over the same address leads to the new primary, but only for new connections.
    """
    if is_read_only(context.original_exception) or is_unprepared(context.original_exception):
        context.is_disconnect = True
