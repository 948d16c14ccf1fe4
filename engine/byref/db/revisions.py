"""Which revision a database is at, and whether this version of byref can work with it. Knows nothing of Alembic."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import URL, Connection, Engine, column, inspect, select, table
from sqlalchemy.exc import SQLAlchemyError

from byref.db.connections import engine_of, sqlite_path, transaction
from byref.db.failures import driver_error, safe, storage_failure
from byref.db.tables import Base
from byref.errors import ConfigurationError, SchemaMismatch

VERSION_TABLE = "byref_version"

REVISIONS = ("0001",)
"""Every revision there has been, oldest first: a check at start-up needs no Alembic. A test holds it to the scripts."""

HEAD = REVISIONS[-1]

SCHEMA_BYTES = 63
"""PostgreSQL cuts longer names off."""


def head() -> str:
    """The revision that this version of byref needs."""
    return HEAD


def current(url_or_engine: str | URL | Engine, *, schema: str | None = None) -> str | None:
    """The revision a database is at, or None if it has none of our tables; a missing SQLite file is not made.

    Raises:
        StorageFailure: the database cannot be read.
    """
    with engine_of(url_or_engine) as engine:
        checked_schema(engine, schema)
        path = sqlite_path(engine.url)
        if path is not None and not path.exists():
            return None
        try:
            with transaction(engine, write=False) as connection:
                return current_of(connection, schema)
        except SQLAlchemyError as error:
            raise storage_failure(error, engine.url) from driver_error(error)


def current_of(connection: Connection, schema: str | None = None) -> str | None:
    """The same on an open connection."""
    if not inspect(connection).has_table(VERSION_TABLE, schema=schema):
        return None
    version = table(VERSION_TABLE, column("version_num"), schema=schema)
    found = connection.execute(select(version.c.version_num)).scalar_one_or_none()
    return None if found is None else str(found)


def check(url_or_engine: str | URL | Engine, *, schema: str | None = None) -> None:
    """Raise SchemaMismatch, which names the cure, unless a database is at the revision that byref needs."""
    with engine_of(url_or_engine) as engine:
        require(current(engine, schema=schema), engine.url)


def require(found: str | None, url: URL) -> None:
    """Raise SchemaMismatch unless a revision found in a database is the one that byref needs."""
    if found == HEAD:
        return
    if found is not None and found not in REVISIONS:
        raise SchemaMismatch(
            f"the database {safe(url)} is at revision {found!r}, which this byref does not know: it was written by a "
            "newer byref. Upgrade the package"
        )
    state = f"is at revision {found!r}" if found else "has no byref tables"
    raise SchemaMismatch(
        f"the database {safe(url)} {state}, and this byref needs {HEAD!r}: run `byref db upgrade`, or call "
        "byref.db.upgrade(engine)"
    )


def checked_schema(engine: Engine, schema: str | None) -> str | None:
    """The schema, if it can be one: PostgreSQL only, 1 to 63 bytes, no NUL."""
    if schema is None:
        return None
    if engine.dialect.name != "postgresql":
        raise ConfigurationError(f"schema={schema!r}: only PostgreSQL has schemas, {engine.dialect.name} has none")
    if not 1 <= len(schema.encode(errors="replace")) <= SCHEMA_BYTES or "\0" in schema:
        raise ConfigurationError(f"schema={schema!r}: 1 to {SCHEMA_BYTES} bytes without NUL were expected")
    return schema


def include_name(name: str | None, type_: str, parent_names: Mapping[str, str | None]) -> bool:
    """For a host's own Alembic: False for our tables, so that its autogenerate does not drop them.

    `context.configure(…, include_name=byref.db.include_name)` in the host's env.py.
    """
    return not (type_ == "table" and (name == VERSION_TABLE or name in Base.metadata.tables))
