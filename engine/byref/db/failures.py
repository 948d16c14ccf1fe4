"""Classify a database's failures: worth another try, or an error for the host whose text says what to do."""

from __future__ import annotations

import re
import shlex
import sqlite3
from urllib.parse import quote, quote_plus

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from byref.errors import StorageFailure, one_line

_TRANSIENT_SQLSTATES = frozenset({"40001", "40P01", "55P03", "57P01", "57P02", "57P03"})
"""Serialization failure, deadlock, lock not available, and a server that is stopping or starting."""

_CONFLICTS = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock not available: only the whole transaction can be tried again."""

_TAKEN = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
"""Another connection holds the lock; for SQLITE_BUSY_SNAPSHOT, it has written since this one's transaction read."""

_READ_ONLY = frozenset({"25006", "0A000"})
"""A write on a read-only server; and, on a standby, the BEGIN of a transaction that is not read-only."""

_UNPREPARED = frozenset({"26000", "42P05"})
"""A prepared statement that the backend does not know, or that it knows from somebody else."""

_UNIQUE = "23505"

_SHOWN = frozenset(
    [
        "host",
        "hostaddr",
        "port",
        "user",
        "dbname",
        "service",
        "options",
        "application_name",
        "client_encoding",
        "connect_timeout",
        "target_session_attrs",
        "sslmode",
        "sslrootcert",
        "sslcert",
        "ssl",
        "uri",
        "mode",
        "cache",
        "timeout",
        "vfs",
        "immutable",
        "nolock",
    ]
)
"""Parameters of a URL's query that may be printed; any other may be a secret."""

WORDS_CHARS = 2_000
"""Characters of a driver's message that are kept."""

_LONG_SECRET = 8
"""Length from which on a secret is hardly ever a part of an ordinary word."""

_SQLITE_CURES = {
    sqlite3.SQLITE_BUSY: "another process held the write lock too long; try again",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "see that the folder exists and that this user may write there",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database: name another",
    sqlite3.SQLITE_CORRUPT: "restore the file from a backup",
    sqlite3.SQLITE_FULL: "make room on the disk",
    sqlite3.SQLITE_IOERR: "see that the disk is neither full nor failing",
}


def is_transient(error: DBAPIError) -> bool:
    """Tell whether the same work may well succeed in a new transaction: after a lock, a deadlock, a dropped connection."""
    if error.connection_invalidated:
        return True
    code = _sqlite_code(error.orig)
    if code is not None:
        return code in _TAKEN
    return _sqlstate(error.orig) in _TRANSIENT_SQLSTATES


def is_read_only(error: BaseException | None) -> bool:
    """Tell whether a server accepts no writes: it is a standby, or was the primary before another server took over."""
    return _sqlstate(error) in _READ_ONLY


def is_unprepared(error: BaseException | None) -> bool:
    """Tell whether a connection's prepared statements are not those of its backend: something in between changed that."""
    return _sqlstate(error) in _UNPREPARED


def is_away(error: DBAPIError) -> bool:
    """Tell whether a server accepts no connections (it is stopped, starting or full) or no writes."""
    if is_read_only(error.orig):
        return True
    # A refused connection has no error code, only a message.
    refused = isinstance(error, OperationalError) and error.statement is None and not error.connection_invalidated
    return refused and _sqlstate(error.orig) is None and _sqlite_code(error.orig) is None


def is_conflict(error: DBAPIError, *, keeps_snapshot: bool) -> bool:
    """Tell whether the same work may well succeed if the whole transaction around it is repeated.

    `keeps_snapshot`: the transaction does not see what others commit meanwhile, but unique constraints do. So a duplicate
    key is a conflict there: the work could not see the row that it collided with.
    """
    if _sqlite_code(error.orig) in _TAKEN:
        return True
    state = _sqlstate(error.orig)
    return state in _CONFLICTS or (keeps_snapshot and state == _UNIQUE)


def storage_failure(error: SQLAlchemyError | UnicodeError, url: URL, note: str | None = None) -> StorageFailure:
    """Return the error for the host: the database's URL without its password, the driver's message, and the cure.

    Statements and their parameters are left out, because they carry payloads. Raise it `from driver_error(error)`.
    """
    cause = driver_error(error)
    words = words_of(cause, url)
    if (text := str(cause)) and _without_secrets(text, url) != text:
        cause.args = (words,)  # a traceback shows the driver's error too
    cure = note or _SQLITE_CURES.get(_sqlite_code(cause) or 0)
    return StorageFailure(f"the database {safe(url)}: {words}" + (f" ({cure})" if cure else ""))


def words_of(cause: BaseException, url: URL) -> str:
    """Return a driver's message on one line, with the URL's secrets replaced."""
    return _without_secrets(one_line(cause, WORDS_CHARS) or type(cause).__name__, url)


def driver_error(error: SQLAlchemyError | UnicodeError) -> BaseException:
    """Return the exception that the driver raised, or the error itself if it has none."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def safe(url: URL) -> str:
    """Return the URL as it may be printed: without its password, and without its query, which may contain one."""
    return url.set(query={}).render_as_string(hide_password=True)


class Quiet(URL):
    """A URL that also hides secrets in its query wherever it hides its password, as in an engine's repr."""

    __slots__ = ()

    def render_as_string(self, hide_password: bool = True) -> str:
        """Return the URL as text."""
        query = {name: value if name in _SHOWN else "***" for name, value in self.query.items()}
        plain = URL.create(*self[:6], query=query if hide_password else self.query)
        return plain.render_as_string(hide_password=hide_password)


def options_of(url: URL, schema: str | None = None) -> str:
    """Return the command-line options that name a database, quoted for a shell, with `***` for secrets."""
    shown = safe(url if url.password else url._replace(password=None))
    pairs = [(name, each) for name, values in url.normalized_query.items() for each in values]
    if pairs:
        parts = (f"{quote(name)}={quote(each, safe='/:') if name in _SHOWN else '***'}" for name, each in pairs)
        shown += f"?{'&'.join(parts)}"
    named = f"--db {shlex.quote(shown)}"
    return named if schema is None else f"{named} --schema {shlex.quote(schema)}"


def _without_secrets(words: str, url: URL) -> str:
    """Return a driver's message with `***` for secrets: a short secret only as a word of its own, a long one anywhere."""
    values = [value for name, value in url.normalized_query.items() if name not in _SHOWN]
    secrets = {str(url.password or ""), *(each for value in values for each in value)}
    for secret in sorted({form for one in secrets for form in (one, quote(one, safe=""), quote_plus(one))} - {""}):
        alone = re.escape(secret) if len(secret) >= _LONG_SECRET else rf"(?<!\w){re.escape(secret)}(?!\w)"
        words = re.sub(alone, "***", words)
    return words


def _sqlite_code(error: BaseException | None) -> int | None:
    """Return SQLite's primary result code; None for other databases."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _sqlstate(error: BaseException | None) -> str | None:
    """Return PostgreSQL's error code, which psycopg calls `sqlstate` and psycopg2 `pgcode`."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
