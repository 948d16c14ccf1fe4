"""Find a database's revision, and whether this version of byref can work with it. Works without Alembic.

A database that a newer byref has migrated records the oldest revision whose code still works with it, so that processes of
two versions can share it while a deploy replaces them one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import URL, Connection, Engine, column, inspect, select, table
from sqlalchemy.exc import SQLAlchemyError

from byref.db.connections import check_encoding, engine_of, is_memory, sqlite_path, transaction
from byref.db.failures import driver_error, options_of, safe, storage_failure
from byref.db.tables import Base, CompatibilityRow
from byref.errors import ConfigurationError, SchemaMismatch, shown

VERSION_TABLE = "byref_version"

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011")
"""All revisions, oldest first; listed here so that the check at start-up needs no Alembic. A test compares it with the
migration scripts."""

HEAD = REVISIONS[-1]

SCHEMA_BYTES = 63
"""Longest name of a schema: PostgreSQL truncates longer ones."""


logger = logging.getLogger("byref")


class State(NamedTuple):
    """The revision of a database, as the database records it."""

    revision: str | None
    """The current revision; None: the database has none of byref's tables."""
    oldest: str | None
    """The oldest revision whose code works with the database; None if that is not recorded: at 0001, or without tables."""

    @property
    def is_known(self) -> bool:
        """Whether this byref has the migration of the revision, or there are no tables yet."""
        return self.revision is None or self.revision in REVISIONS

    @property
    def is_served(self) -> bool:
        """Whether this byref works with the tables: they are at its own revision, or at a later one that it is not too old for."""
        return self.revision == HEAD or (not self.is_known and self.oldest in REVISIONS)


def head() -> str:
    """Return the revision that this version of byref needs."""
    return HEAD


def current(url_or_engine: str | URL | Engine, *, schema: str | None = None) -> str | None:
    """Return the revision of a database, or None if it has none of byref's tables; a missing SQLite file is not created.

    Raises:
        StorageFailure: the database cannot be read.
        ConfigurationError: its encoding, or the connection's, is not UTF8.
    """
    return state(url_or_engine, schema=schema).revision


def oldest(url_or_engine: str | URL | Engine, *, schema: str | None = None) -> str | None:
    """Return the oldest revision whose code works with a database; None at 0001, which does not record it, or without tables.

    Raises: as `current`.
    """
    return state(url_or_engine, schema=schema).oldest


def state(url_or_engine: str | URL | Engine, *, schema: str | None = None) -> State:
    """Return the state of a database; a missing SQLite file is not created.

    Raises: as `current`.
    """
    with engine_of(url_or_engine) as engine:
        checked_schema(engine, schema)
        path = sqlite_path(engine.url)
        if path is not None and not path.exists():
            return State(None, None)
        try:
            with transaction(engine, "read") as connection:
                return state_of(connection, schema)
        except SQLAlchemyError as error:
            raise storage_failure(error, engine.url) from driver_error(error)


def state_of(connection: Connection, schema: str | None = None) -> State:
    """Return the state of the database of an open connection; ConfigurationError if it does not keep every text."""
    check_encoding(connection)
    there = inspect(connection)
    if not there.has_table(VERSION_TABLE, schema=schema):
        return State(None, None)
    version = table(VERSION_TABLE, column("version_num"), schema=schema)
    if not there.has_table(CompatibilityRow.__tablename__, schema=schema):
        rows = [(str(found), None) for found in connection.execute(select(version.c.version_num)).scalars()]
        return _only(rows)
    # One statement reads both, because a migration may be committed between two statements.
    mark = table(CompatibilityRow.__tablename__, column("revision"), column("oldest"), schema=schema)
    query = select(version.c.version_num, mark.c.oldest).outerjoin(mark, mark.c.revision == version.c.version_num)
    return _only([(row[0], row[1]) for row in connection.execute(query)])


def _only(rows: Sequence[tuple[str, str | None]]) -> State:
    """Return the state that the rows of `byref_version` name; ConfigurationError if these are several."""
    if len(rows) > 1:
        named = ", ".join(sorted(revision for revision, _ in rows)[:5])
        raise ConfigurationError(
            f"{VERSION_TABLE} has several rows ({named}): two databases were mixed; restore a backup, or delete the rows but that "
            "of the revision whose tables are there, and check with `byref db verify`"
        )
    return State(*rows[0]) if rows else State(None, None)


def check(url_or_engine: str | URL | Engine, *, schema: str | None = None) -> None:
    """Raise SchemaMismatch, which names the cure, unless this byref works with a database as it is.

    It works with the revision that it needs, and with a later one that declares itself compatible, which is logged.
    """
    with engine_of(url_or_engine) as engine:
        require(state(engine, schema=schema), engine.url, schema)


def require(found: State, url: URL, schema: str | None = None) -> None:
    """Raise SchemaMismatch unless this byref works with a database in the given state."""
    if found.revision == HEAD:
        return
    if found.is_served:
        logger.warning(
            "the database %s is at revision %r, and this byref is made for %r: a newer one has migrated it, and left it so "
            "that code since %r works with it; replace this version when the deploy comes to it",
            safe(url),
            found.revision,
            HEAD,
            found.oldest,
        )
        return
    require_known(found, url)
    state = f"is at revision {found.revision!r}" if found.revision else "has no byref tables"
    call = "byref.db.upgrade(engine)" if schema is None else f"byref.db.upgrade(engine, schema={schema!r})"
    cure = f"call {call}"
    if not is_memory(url):
        named = options_of(url, schema)
        secret = ", with its password in place of ***" if "***" in named else ""
        cure = f"run `byref db upgrade {named}`{secret}, or {cure}"
    raise SchemaMismatch(f"the database {safe(url)} {state}, and this byref needs {HEAD!r}: {cure}")


def require_known(found: State, url: URL) -> None:
    """Raise SchemaMismatch if the revision is unknown, because then only a newer byref has its migrations."""
    if not found.is_known:
        since = f", and works with byref of revision {found.oldest!r} or newer" if found.oldest else ""
        raise SchemaMismatch(
            f"the database {safe(url)} is at revision {found.revision!r}, which this byref does not know: it was written by a "
            f"newer byref{since}. Upgrade the package"
        )


def checked_schema(engine: Engine, schema: str | None) -> str | None:
    """Return a valid name of a schema (PostgreSQL only, 1 to 63 bytes of UTF-8, no NUL) or None; else ConfigurationError."""
    if schema is None:
        return None
    if engine.dialect.name != "postgresql":
        raise ConfigurationError(f"schema={schema!r}: only PostgreSQL has schemas, {engine.dialect.name} has none")
    data = schema.encode(errors="ignore") if isinstance(schema, str) else b""
    if not 1 <= len(data) <= SCHEMA_BYTES or "\0" in schema or data.decode() != schema:
        raise ConfigurationError(
            f"schema={shown(schema)}: 1 to {SCHEMA_BYTES} bytes of UTF-8 without NUL were expected"
        )
    return schema


def include_name(name: str | None, type_: str, parent_names: Mapping[str, str | None]) -> bool:
    """Return False for byref's tables, so that the autogenerate of a host's own Alembic does not drop them.

    In the host's env.py: `context.configure(…, include_name=byref.db.include_name)`.
    """
    return not (type_ == "table" and (name == VERSION_TABLE or name in Base.metadata.tables))
