"""`sqlite3` in memory, or over a file of the run: SQL reaches no file of the machine and loads nothing.

Code gets connections and cursors of this module, which hand on plain values only. Behind them are `_Connection` and `_Cursor`, the
real ones: SQLite asks `_permit` about each thing that a statement would do, and nothing can use a connection while one of its
statements runs, for example from a function of the code's that a statement calls. pandas gets the real connection.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import importlib
import itertools
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Self

import numpy as np
import pandas as pd

from byref_sandbox.code.words import words
from byref_sandbox.language.files import Files, is_path, name_of
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.refusal import NotAllowed

_MAX_VALUE_BYTES: Final = 100_000_000
"""The longest text or blob, and the longest row."""
_PRAGMAS: Final = words("""table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check
    foreign_keys defer_foreign_keys database_list collation_list function_list pragma_list module_list compile_options user_version
    application_id quick_check integrity_check encoding page_count page_size freelist_count schema_version recursive_triggers
    case_sensitive_like count_changes synchronous journal_mode cache_size auto_vacuum optimize""")
"""What reads or sets nothing beyond the database itself. Left out is what names folders and files, keys, memory and threads."""
_FIXED_PRAGMAS: Final = words("schema_version journal_mode cache_size page_size")
"""These may be read only: another schema version hides that a prepared statement is stale, and memory is the run's."""
_SETTINGS: Final = ("foreign_keys", "recursive_triggers", "count_changes", "case_sensitive_like", "defer_foreign_keys")
"""Those of the pragmas that are the connection's."""
_MOST_LEFT: Final = 10_000
"""Rows of a query that are kept for later runs."""
_STEPS: Final = 10_000
_MOST_STEPS: Final = 100
"""So many times so many instructions of SQLite are run to find them."""
_REFUSED_FUNCTIONS: Final = words("load_extension fts3_tokenizer readfile writefile edit")
_PLAIN: Final = frozenset({type(None), int, float, str, bytes})

_permitted: set[int] = {
    getattr(sqlite3, f"SQLITE_{name}")
    for name in words("""CREATE_INDEX CREATE_TABLE CREATE_TEMP_INDEX CREATE_TEMP_TABLE CREATE_TEMP_TRIGGER CREATE_TEMP_VIEW
        CREATE_TRIGGER CREATE_VIEW DELETE DROP_INDEX DROP_TABLE DROP_TEMP_INDEX DROP_TEMP_TABLE DROP_TEMP_TRIGGER DROP_TEMP_VIEW
        DROP_TRIGGER DROP_VIEW INSERT READ SELECT TRANSACTION UPDATE DETACH ALTER_TABLE REINDEX ANALYZE SAVEPOINT RECURSIVE""")
}


def _permit(action: int, first: str | None, second: str | None, _database: str | None, _inner: str | None) -> int:
    """Say whether a statement may do something: SQLite asks while it prepares the statement."""
    if action in _permitted:
        allowed = True
    elif action == sqlite3.SQLITE_FUNCTION:
        allowed = (second or "").lower() not in _REFUSED_FUNCTIONS
    elif action == sqlite3.SQLITE_PRAGMA:
        name = (first or "").lower()
        allowed = name in _PRAGMAS and (second is None or name not in _FIXED_PRAGMAS)
    elif action == sqlite3.SQLITE_ATTACH:
        allowed = first in ("", ":memory:")  # VACUUM attaches an unnamed database, which is kept in memory
    else:
        allowed = False
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _permit_begun(action: int, first: str | None, *others: Any) -> int:
    """The same while a transaction lasts that began in an earlier run: what that run changed could not be undone."""
    undoes = action == sqlite3.SQLITE_TRANSACTION and first == "ROLLBACK"
    return sqlite3.SQLITE_DENY if undoes else _permit(action, first, *others)


def _alone(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that refuses to run while another one of the same connection does: SQLite would go on with what it has freed."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        connection = self if isinstance(self, _Connection) else self.connection
        if connection.busy:
            raise sqlite3.ProgrammingError("the connection is in use by the statement that called this")
        connection.busy = True
        try:
            return method(self, *arguments, **options)
        finally:
            connection.busy = False

    return call


class _Connection(sqlite3.Connection):
    """A real connection in memory, and whether one of its statements runs."""

    busy = False
    is_closed = False
    is_begun = False
    """Whether its transaction began in an earlier run."""
    key: str | None = None
    """The name of the run's file that has its content."""
    files: Files

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(_Cursor)

    def execute(self, *arguments: Any) -> Any:
        return self.cursor().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        return self.cursor().executemany(*arguments)

    _commit = _alone(sqlite3.Connection.commit)
    _close = _alone(sqlite3.Connection.close)
    _rollback = _alone(sqlite3.Connection.rollback)
    create_function = _alone(sqlite3.Connection.create_function)
    create_aggregate = _alone(sqlite3.Connection.create_aggregate)
    create_collation = _alone(sqlite3.Connection.create_collation)
    backup = _alone(sqlite3.Connection.backup)
    serialize = _alone(sqlite3.Connection.serialize)

    def commit(self) -> None:
        self._commit()
        self.end_begun()
        self.flush()

    def rollback(self) -> None:
        self.end_begun()
        if self.is_begun:
            raise NotAllowed(
                "what an earlier call changed cannot be rolled back", "call commit() in the call that changes"
            )
        self._rollback()

    def end_begun(self) -> None:
        """Note that the transaction of an earlier run is over, if it is."""
        if self.is_begun and not self.in_transaction:
            self.is_begun = False
            self.set_authorizer(_permit)

    def flush(self) -> None:
        """Write what is committed into the file."""
        if self.key is not None and not self.in_transaction:
            # SQLite cannot serialize a database without a page. Its file is empty.
            (pages,) = sqlite3.Cursor(self).execute("PRAGMA page_count").fetchone()
            self.files.write(self.key, self.serialize() if pages else b"")

    def close(self) -> None:
        if self.is_closed:
            return
        if self.in_transaction:
            self.set_authorizer(_permit)
            self._rollback()
        self.flush()
        self.files.forget(self)
        self._close()
        self.is_closed = True

    def __del__(self) -> None:
        """Close what code left open: newer versions of Python warn of it."""
        with contextlib.suppress(sqlite3.Error):
            sqlite3.Connection.close(self)


class _Cursor(sqlite3.Cursor):
    """A real cursor that takes plain values only: SQLite would read the memory of others, and call methods of the code's."""

    fetchone = _alone(sqlite3.Cursor.fetchone)
    fetchmany = _alone(sqlite3.Cursor.fetchmany)
    fetchall = _alone(sqlite3.Cursor.fetchall)
    close = _alone(sqlite3.Cursor.close)
    __next__ = _alone(sqlite3.Cursor.__next__)

    @_alone
    def execute(self, sql: Any, parameters: Any = ()) -> Any:
        return self._run(super().execute, sql, _plain_row(parameters))

    @_alone
    def executemany(self, sql: Any, rows: Any) -> Any:
        return self._run(super().executemany, sql, map(_plain_row, rows))

    @_alone
    def executescript(self, sql: Any) -> Any:
        return self._run(super().executescript, sql)

    def _run(self, run: Callable[..., Any], sql: Any, *arguments: Any) -> Any:
        if not isinstance(sql, str):
            raise TypeError(f"a statement must be str, not {type(sql).__name__}")
        try:
            return run(str.__str__(sql), *arguments)
        except sqlite3.DatabaseError as error:
            if str(error).startswith(("not authorized", "authorization denied", "no such function: LOAD")):
                connection: Any = self.connection
                if connection.is_begun and re.match(r"\s*rollback\b", sql, re.IGNORECASE):
                    connection.rollback()
                hint = "a database here is in memory: no ATTACH of files, extensions, virtual tables and settings"
                raise NotAllowed(f"this statement is not available: {error}", hint) from None
            raise


def _plain_row(values: Any) -> Any:
    if isinstance(values, dict):
        return {str.__str__(name): _plain(value) for name, value in dict.items(values) if isinstance(name, str)}
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """Return a value as one of the types that SQLite knows; raise ProgrammingError."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is bool:
        return int(value)
    if value is pd.NaT or value is pd.NA:
        return None
    if kind is bytearray:
        return bytes(value)
    if isinstance(value, np.generic) and kind.__module__ == "numpy" and kind is not np.void:
        return _plain(value.item()) if type(value.item()) is not kind else str(value)
    if isinstance(value, datetime.datetime):
        return datetime.datetime.isoformat(value, " ")
    if isinstance(value, datetime.date):
        return datetime.date.isoformat(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    raise sqlite3.ProgrammingError(f"Error binding parameter: type '{kind.__name__}' is not supported")


class Cursor:
    """What `connection.cursor()` gives."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._real: Any = real_connection(connection).cursor()
        self._past: _Past | None = None
        """What is left of the statement, where it is known: after the run that ran it."""

    @property
    def _last(self) -> Any:
        return self._real if self._past is None else self._past

    @property
    def description(self) -> Any:
        """The columns of the last query."""
        return self._last.description

    @property
    def rowcount(self) -> Any:
        """How many rows the last statement changed."""
        return self._last.rowcount

    @property
    def lastrowid(self) -> Any:
        """The id of the last row inserted."""
        return self._last.lastrowid

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """Run one statement."""
        self._past = None
        self._real.execute(sql, parameters)
        return self

    def executemany(self, sql: str, seq_of_parameters: Iterable[Any], /) -> Self:
        """Run one statement for each row of parameters."""
        self._past = None
        self._real.executemany(sql, seq_of_parameters)
        return self

    def executescript(self, sql_script: str, /) -> Self:
        """Run several statements."""
        self._past = None
        self._real.executescript(sql_script)
        return self

    def _row(self, row: Any) -> Any:
        factory = self.connection.row_factory
        if factory is None or row is None:
            return row
        return factory(self, row)

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        return self._row(self._last.fetchone())

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """Return the next rows."""
        return [self._row(row) for row in self._last.fetchmany(self.arraysize if size is None else size)]

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        return [self._row(row) for row in self._last.fetchall()]

    def close(self) -> None:
        """Be used no more."""
        self._real.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._row(next(self._last))


class _Past:
    """A statement that was run in an earlier run, and the rows of it that are left."""

    def __init__(self, description: Any, rowcount: int, lastrowid: int | None, rows: list[Any]) -> None:
        self.description, self.rowcount, self.lastrowid = description, rowcount, lastrowid
        self._rows = iter(rows)
        self.error: sqlite3.Error | None = None
        """What was raised where the rows were read."""

    def next_ones(self, most: int) -> list[Any]:
        """Return the next rows, which stay."""
        rows = list(itertools.islice(self._rows, most))
        self._rows = itertools.chain(rows, self._rows)
        return rows

    def __next__(self) -> Any:
        return next(self._rows)

    def fetchone(self) -> Any:
        return next(self._rows, None)

    def fetchmany(self, size: int) -> list[Any]:
        return list(itertools.islice(self._rows, size))

    def fetchall(self) -> list[Any]:
        return list(self._rows)


class Connection:
    """A database in memory. That of a file of the run is read when it is opened, and written when changes are committed."""

    def __init__(self, files: Files, database: Any, isolation_level: Any, detect_types: int) -> None:
        self._real = _Connection(
            ":memory:", isolation_level=isolation_level, detect_types=detect_types, cached_statements=100
        )
        self._real.files = files
        self.row_factory: Any = None
        self._detect_types = detect_types
        self._changed_before = 0
        self._made: dict[tuple[str, str, int], tuple[Any, ...]] = {}
        """What the code has made for SQL: kind, name and number of arguments, and what makes it again."""
        if not _is_in_memory(database):
            name = name_of(database)
            data = files.read(name) if files.has(name) else b""
            if data:
                self._real.deserialize(data)
                _check_content(self._real)
            else:
                files.write(name, b"")
            self._real.key = name
            files.remember(self._real)
        for setting in ("temp_store = MEMORY", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            sqlite3.Connection.execute(self._real, f"PRAGMA {setting}").close()
        self._real.enable_load_extension(False) if hasattr(self._real, "enable_load_extension") else None
        self._real.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        self._real.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
        self._real.set_authorizer(_permit)

    @property
    def total_changes(self) -> int:
        """How many rows were changed since the connection was made."""
        return self._changed_before + self._real.total_changes

    @property
    def in_transaction(self) -> bool:
        """Whether there are changes that are not committed."""
        return self._real.in_transaction

    @property
    def isolation_level(self) -> str | None:
        """How transactions begin; None if by `BEGIN` alone."""
        return self._real.isolation_level

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        return Cursor(self)

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        """Run one statement on a new cursor."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, seq_of_parameters: Iterable[Any], /) -> Cursor:
        """Run one statement for each row of parameters on a new cursor."""
        return self.cursor().executemany(sql, seq_of_parameters)

    def executescript(self, sql_script: str, /) -> Cursor:
        """Run several statements on a new cursor."""
        return self.cursor().executescript(sql_script)

    def commit(self) -> None:
        """Make changes last, and write them into the file."""
        self._real.commit()

    def rollback(self) -> None:
        """Undo changes since the last commit."""
        self._real.rollback()

    def close(self) -> None:
        """Be used no more. Changes that are not committed are lost."""
        self._real.close()

    def create_function(
        self, name: str, narg: int, func: Callable[..., Any] | None, *, deterministic: bool = False
    ) -> None:
        """Have SQL call a function of the code's."""
        wrapped = None if func is None else lambda *values: _plain(func(*values))
        self._real.create_function(str(name), narg, wrapped, deterministic=deterministic)
        self._made["function", str(name), int(narg)] = func, bool(deterministic)

    def create_aggregate(self, name: str, n_arg: int, aggregate_class: Callable[[], Any] | None) -> None:
        """Have SQL aggregate by a class of the code's, which has the methods `step` and `finalize`."""

        class Aggregate:
            def __init__(self) -> None:
                self.inner = aggregate_class()  # type: ignore[misc]

            def step(self, *values: Any) -> None:
                self.inner.step(*values)

            def finalize(self) -> Any:
                return _plain(self.inner.finalize())

        self._real.create_aggregate(str(name), n_arg, None if aggregate_class is None else Aggregate)
        self._made["aggregate", str(name), int(n_arg)] = (aggregate_class,)

    def create_collation(self, name: str, callable: Callable[[str, str], int] | None) -> None:
        """Have SQL compare texts by a function of the code's."""
        self._real.create_collation(
            str(name), None if callable is None else lambda first, second: int(callable(first, second))
        )
        self._made["collation", str(name), 0] = (callable,)

    def iterdump(self) -> Iterator[str]:
        """Yield the statements that make the database anew."""
        return iter(list(self._real.iterdump()))

    def backup(self, target: Connection, **_options: Any) -> None:
        """Copy the database into that of another connection."""
        if type(target) is not Connection or target is self:
            raise TypeError("backup() needs another connection")
        self._real.backup(target._real)

    def serialize(self) -> bytes:
        """Return the database as the bytes of its file."""
        data: bytes = self._real.serialize()
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        self.commit() if kind is None else self.rollback()


def _check_content(connection: _Connection) -> None:
    """Raise DatabaseError of a file that is damaged, or has tables that other code than SQLite's own reads and writes."""
    ask = functools.partial(sqlite3.Connection.execute, connection)
    if ask("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise sqlite3.DatabaseError("database disk image is malformed")
    if ask("SELECT 1 FROM sqlite_master WHERE sql LIKE 'create%virtual%table%'").fetchone():
        raise NotAllowed("a database with virtual tables is not available")


def real_connection(connection: Any) -> _Connection:
    """Return what is behind a connection of the code's; raise NotAllowed of anything else."""
    if type(connection) is not Connection:
        what = "text" if isinstance(connection, str) else type(connection).__name__
        raise NotAllowed(f"a {what} is no connection here", "use sqlite3.connect(':memory:')")
    return connection._real


class NotKept(Exception):
    """A connection or cursor that cannot be made again; the message says why."""


def parts(connection: Connection) -> tuple[Any, ...]:
    """Return what `fill` makes the same connection of, behind its level of isolation and its types.

    Raises:
        NotKept: it has what cannot be written down.
    """
    real = connection._real
    if real.key is not None:
        raise NotKept("a connection to a file: open it again, the file is kept under its name")
    if real.is_closed:
        return "", connection._detect_types, b"", (), (False, 0, True, 0, 0)
    ask = functools.partial(sqlite3.Connection.execute, real)
    if ask("SELECT 1 FROM sqlite_temp_master LIMIT 1").fetchone():
        raise NotKept("a connection with temporary tables")
    counts = "0, 0" if _has_own(connection, "last_insert_rowid", "changes") else "last_insert_rowid(), changes()"
    last_id, last_changes = ask(f"SELECT {counts}").fetchone()
    settings = tuple(
        _is_like_exact(connection) if name == "case_sensitive_like" else ask(f"PRAGMA {name}").fetchone()[0]
        for name in _SETTINGS
    )
    # SQLite cannot serialize a database without a page.
    (pages,) = ask("PRAGMA page_count").fetchone()
    content = real.serialize() if pages else b""
    state = real.in_transaction, connection.total_changes, False, last_id, last_changes
    return real.isolation_level, connection._detect_types, content, settings, state


def _has_own(connection: Connection, *names: str) -> bool:
    """Whether the code has made a function that stands in the place of one of SQLite's. It is not to run as the connection is kept."""
    return any(kind == "function" and name.lower() in names for kind, name, _ in connection._made)


def _is_like_exact(connection: Connection) -> int:
    """Whether `LIKE` minds the case of letters, which its pragma does not tell."""
    if _has_own(connection, "like"):
        return 0
    (is_alike,) = sqlite3.Connection.execute(connection._real, "SELECT 'a' LIKE 'A'").fetchone()
    return int(not is_alike)


def fill(
    connection: Connection, content: bytes, settings: tuple[int, ...], state: tuple[bool, int, bool, *tuple[int, ...]]
) -> None:
    """Make a new connection what another one was."""
    real, (in_transaction, changes, is_closed, *last) = real_connection(connection), state
    if content:
        # What was deserialized has its changes elsewhere until they are committed: they would not be serialized.
        with contextlib.closing(_Connection(":memory:")) as source:
            source.is_closed = True  # it has no file
            source.deserialize(content)
            _check_content(source)
            sqlite3.Connection.backup(source, real)
            sqlite3.Connection.close(source)
    if any(last):
        _count_again(real, *map(int, last))
    connection._changed_before = int(changes) - real.total_changes
    if connection._changed_before:
        real.create_function("total_changes", 0, lambda: connection.total_changes)
    pragmas = [f"PRAGMA {name} = {int(value)}" for name, value in zip(_SETTINGS, settings, strict=False)]
    if in_transaction:
        # Within a transaction no pragma changes foreign_keys; the last one counts for one transaction.
        pragmas.insert(len(_SETTINGS) - 1, "BEGIN")
    for sql in pragmas:
        sqlite3.Connection.execute(real, sql).close()
    if in_transaction:
        real.is_begun = True
        real.set_authorizer(_permit_begun)
    if is_closed:
        real.close()


def _count_again(real: _Connection, last_id: int, last_changes: int) -> None:
    """Have `last_insert_rowid()` and `changes()` give these: SQLite takes back what was inserted, and not that it was."""
    ask = functools.partial(sqlite3.Connection.execute, real)
    rows = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?) INSERT INTO temp.other SELECT i FROM n"
    )
    for sql, given in (
        ("BEGIN", ()),
        ("CREATE TEMP TABLE other (i)", ()),
        (rows, (last_changes,)),
        ("CREATE TEMP TABLE one (i INTEGER PRIMARY KEY)", ()),
        *((("INSERT INTO temp.one VALUES (?)", (last_id,)),) if last_id else ()),
        ("DELETE FROM temp.other", ()),
        ("ROLLBACK", ()),
    ):
        ask(sql, given).close()


def made_for(connection: Connection) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    """Return what the code has made for SQL, as `make_for` takes it."""
    return {} if connection._real.is_closed else connection._made


def make_for(connection: Connection, made: dict[tuple[str, str, int], tuple[Any, ...]]) -> None:
    """Make functions, aggregates and collations for SQL again."""
    for (kind, name, count), (call, *more) in made.items():
        if kind == "function":
            connection.create_function(name, count, call, deterministic=bool(more[0]))
        elif kind == "aggregate":
            connection.create_aggregate(name, count, call)
        else:
            connection.create_collation(name, call)


def left_of(cursor: Cursor) -> tuple[Any, ...]:
    """Return what `resume` makes the same cursor of.

    Raises:
        NotKept: it has too many rows left, they may take code or long to find, or its connection is closed.
    """
    real = cursor.connection._real
    if real.is_closed:
        raise NotKept("a cursor of a closed connection")
    past = cursor._past
    if past is None:
        if cursor.connection._made and cursor.description is not None:
            raise NotKept("an open query of a database with functions of the code: make a list of it")
        # Its rows can be read once, and a state may be written several times.
        past = cursor._past = _rest(cursor._real, real)
    rows = past.next_ones(_MOST_LEFT + 1)
    if past.error is not None:
        raise NotKept(f"an open query: {past.error}")
    if len(rows) > _MOST_LEFT:
        raise NotKept(f"an open query with more than {_MOST_LEFT:,} rows: make a list of it")
    return cursor.arraysize, past.description, past.rowcount, past.lastrowid, rows


def _rest(cursor: sqlite3.Cursor, connection: _Connection) -> _Past:
    steps, rows, error = itertools.count(), [], None
    connection.set_progress_handler(lambda: next(steps) > _MOST_STEPS, _STEPS)
    try:
        rows = cursor.fetchmany(_MOST_LEFT + 1)
    except sqlite3.Error as raised:
        error = raised
    finally:
        connection.set_progress_handler(None, _STEPS)
    past = _Past(cursor.description, cursor.rowcount, cursor.lastrowid, rows)
    past.error = error
    return past


def resume(cursor: Cursor, arraysize: int, *past: Any) -> None:
    """Make a new cursor what another one was."""
    cursor.arraysize = int(arraysize)
    cursor._past = _Past(*past)


def _is_in_memory(database: Any) -> bool:
    return isinstance(database, str) and str.__str__(database) in (":memory:", "")


def _row(cursor: Any, values: Any) -> sqlite3.Row:
    if type(cursor) is not Cursor:
        raise TypeError("Row() needs a cursor")
    if cursor._past is None:
        return sqlite3.Row(cursor._real, tuple(values))
    return row_of(tuple(column[0] for column in cursor.description), tuple(values))


def row_of(keys: tuple[str, ...], values: tuple[Any, ...]) -> sqlite3.Row:
    """Make a row whose columns have these names: those of a query on no data."""
    if type(values) is not tuple or len(values) != len(keys) or not all(type(key) is str for key in keys):
        raise ValueError("no row of a table")
    return sqlite3.Row(_cursor_of(keys), values)


@functools.lru_cache(8)
def _cursor_of(keys: tuple[str, ...]) -> sqlite3.Cursor:
    columns = ", ".join("NULL AS " + '"{}"'.format(key.replace('"', '""')) for key in keys)
    return sqlite3.connect(":memory:", check_same_thread=False).execute(f"SELECT {columns}")


def sqlite_names(files: Files, guards: Guards) -> dict[str, object]:
    """Return the names of `sqlite3`."""
    importlib.import_module("sqlite3.dump")

    def connect(
        database: Any,
        timeout: float = 5.0,
        detect_types: int = 0,
        isolation_level: str | None = "",
        check_same_thread: bool = True,
        factory: object = None,
        cached_statements: int = 128,
        uri: bool = False,
        **_options: Any,
    ) -> Connection:
        """Return a connection to a database in memory, or to a file of the run."""
        if not is_path(database):
            raise TypeError(f"expected str, bytes or os.PathLike object, not {type(database).__name__}")
        if isinstance(database, str) and database.startswith("file:"):
            if "mode=memory" not in database and not database.startswith("file::memory:"):
                raise NotAllowed("sqlite3.connect() of a URI is not available", "name the file, or use ':memory:'")
            database = ":memory:"
        level = isolation_level if isolation_level is None else str(isolation_level)
        return Connection(files, database, level, int(detect_types))

    for cls in (Connection, Cursor):
        cls.__module__ = "sqlite3"
        guards.replace(cls, "use sqlite3.connect(':memory:')")
    guards.writable_attributes[Connection] = words("row_factory")
    guards.writable_attributes[Cursor] = words("arraysize row_factory")
    return {
        "connect": connect,
        "Connection": guards.stand_ins[Connection],
        "Cursor": guards.stand_ins[Cursor],
        "Row": guards.replace(sqlite3.Row, make=_row),
        "Binary": lambda data: bytes(data),
        "Date": datetime.date,
        "Time": datetime.time,
        "Timestamp": datetime.datetime,
        "DateFromTicks": lambda ticks: datetime.date.fromtimestamp(ticks),
    }
