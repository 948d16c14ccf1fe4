"""The schema's life: upgrade it, downgrade it. The only module that knows Alembic.

`alembic upgrade head` in a checkout goes through `exclusive` as well, so both do the same.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from byref.db.connections import engine_of, transaction
from byref.db.failures import driver_error, storage_failure
from byref.db.revisions import REVISIONS, VERSION_TABLE, checked_schema, current_of, require
from byref.db.tables import Base
from byref.errors import ConfigurationError

_ADVISORY_LOCK = 0x62797265660A
"""Any constant: the lock that every migration by byref takes on PostgreSQL ("byref" in ASCII)."""

_THERE_ARE = f"there are base, {', '.join(REVISIONS)}, head, and steps such as +1 or -1"

_alembic_lock = threading.Lock()
"""Alembic's `op` and `context` are one per process."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One migration script."""

    revision: str
    down_revision: str | None
    message: str


def history() -> list[Revision]:
    """Every revision, oldest first."""
    return [
        Revision(script.revision, str(script.down_revision) if script.down_revision else None, script.doc)
        for script in reversed(list(_scripts().walk_revisions()))
    ]


def upgrade(url_or_engine: str | URL | Engine, revision: str = "head", *, schema: str | None = None) -> None:
    """Bring a database to a revision, in one transaction. Safe to call from many processes at once.

    With `schema` (PostgreSQL) the tables live there, and the schema is made if it is missing.

    Raises:
        SchemaMismatch: the database was written by a newer byref.
        ConfigurationError: there is no such revision.
        StorageFailure: the database did not take it; nothing has changed.
    """
    with _alembic_lock, exclusive(url_or_engine, schema=schema) as connection, _alembic_errors():
        command.upgrade(_config(connection), _target(revision))


def downgrade(url_or_engine: str | URL | Engine, revision: str, *, schema: str | None = None) -> None:
    """Take a database back to a revision (`base`: none of our tables), in one transaction; what they hold is lost.

    Raises: as `upgrade`.
    """
    with _alembic_lock, exclusive(url_or_engine, schema=schema) as connection, _alembic_errors():
        command.downgrade(_config(connection), _target(revision))


@contextmanager
def exclusive(url_or_engine: str | URL | Engine, *, schema: str | None = None) -> Iterator[Connection]:
    """A transaction that no other migration of this database overlaps, committed at the end.

    Raises:
        SchemaMismatch: the database was written by a newer byref, whose revisions are not here.
    """
    with engine_of(url_or_engine) as engine:
        checked_schema(engine, schema)
        begin = _exclusive_on_sqlite if engine.dialect.name == "sqlite" else _exclusive_on_postgresql
        try:
            with begin(engine, schema) as connection:
                if (found := current_of(connection)) not in (None, *REVISIONS):
                    require(found, engine.url)
                yield connection
                connection.commit()
        except SQLAlchemyError as error:
            raise storage_failure(error, engine.url) from driver_error(error)


@contextmanager
def _exclusive_on_sqlite(engine: Engine, _schema: str | None) -> Iterator[Connection]:
    # Rebuilding a table with foreign keys on would delete what refers to it.
    with transaction(engine, write=True, foreign_keys=False) as connection:
        yield connection


@contextmanager
def _exclusive_on_postgresql(engine: Engine, schema: str | None) -> Iterator[Connection]:
    # Whatever the host prefers: a snapshot older than the lock would not see what its last holder did.
    with (
        engine.connect().execution_options(isolation_level="READ COMMITTED") as connection,
        closing(connection.begin()),
    ):
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        if schema is not None:
            quoted = connection.dialect.identifier_preparer.quote_identifier(schema)
            known = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :schema"
            if connection.scalar(text(known), {"schema": schema}) is None:
                connection.exec_driver_sql(f"CREATE SCHEMA {quoted}")
            connection.exec_driver_sql(f"SET LOCAL search_path TO {quoted}")
        yield connection


def options(dialect: str) -> dict[str, Any]:
    """How Alembic is to see our tables: for `context.configure`."""
    return {
        "target_metadata": Base.metadata,
        "version_table": VERSION_TABLE,
        "include_name": _is_ours,
        "compare_server_default": True,
        "render_as_batch": dialect == "sqlite",
        "transactional_ddl": True,
    }


def _is_ours(name: str | None, type_: str, _parent_names: object) -> bool:
    """The host's tables are none of our business."""
    return type_ != "table" or name in Base.metadata.tables


def _target(revision: str) -> str:
    """A revision as Alembic takes it: by name, or so many steps up or down."""
    if revision not in ("base", *REVISIONS, "head") and not re.fullmatch(r"[+-]\d{1,4}", revision):
        raise ConfigurationError(f"no revision is called {revision!r}: {_THERE_ARE}")
    return revision


@contextmanager
def _alembic_errors() -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        raise ConfigurationError(f"{error}: {_THERE_ARE}") from error


def _config(connection: Connection | None = None) -> Config:
    """Alembic's settings: the scripts lie inside the package in a wheel, beside engine/ in a checkout."""
    here = Path(__file__).parents
    folder = next(place for place in (here[1] / "migrations", here[3] / "migrations") if (place / "env.py").is_file())
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
