"""The schema's life: upgrade it, downgrade it. The only module that knows Alembic.

`alembic upgrade head` in a checkout goes through `exclusive` as well, so both do the same.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext, MigrationInfo
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Engine, delete, insert, text
from sqlalchemy.exc import SQLAlchemyError

from byref.db.connections import engine_of, transaction
from byref.db.failures import driver_error, storage_failure
from byref.db.revisions import REVISIONS, VERSION_TABLE, State, checked_schema, require, require_known, state_of
from byref.db.tables import Base, CompatibilityRow
from byref.errors import ConfigurationError, StorageFailure

_ADVISORY_LOCK = 0x62797265660A
"""Any constant: the lock that every migration by byref takes on PostgreSQL ("byref" in ASCII)."""

LOCK_SECONDS = 2.0
"""How long a statement of a migration waits for a table on PostgreSQL. Whoever comes after it waits behind it, readers too."""

LOCK_ATTEMPTS = 20
"""How often a migration is begun that did not get a table in time, after a pause as long as the wait."""

_THERE_ARE = f"there are base, {', '.join(REVISIONS)}, head, and steps such as +1 or -1"

_IN_USE = frozenset({"55P03", "40P01"})
"""A table was in use for too long, or two waited for each other."""

_alembic_lock = threading.Lock()
"""Alembic's `op` and `context` are one per process."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One migration script."""

    revision: str
    down_revision: str | None
    message: str
    oldest: str
    """The oldest revision whose code works with the tables as this one leaves them."""


def history() -> list[Revision]:
    """Every revision, oldest first."""
    return [
        Revision(
            script.revision,
            str(script.down_revision) if script.down_revision else None,
            script.doc,
            _oldest(script) or script.revision,
        )
        for script in reversed(list(_scripts().walk_revisions()))
    ]


def upgrade(url_or_engine: str | URL | Engine, revision: str = "head", *, schema: str | None = None) -> None:
    """Bring a database to a revision, in one transaction. Safe to call from many processes at once.

    With `schema` (PostgreSQL) the tables live there, and the schema is made if it is missing. A database that a newer byref
    has brought further is left as it is where this one works with it, which is logged: a process of the older
    version may be started again in the middle of a deploy.

    Raises:
        SchemaMismatch: the database was written by a newer byref, and this one is too old for it.
        ConfigurationError: there is no such revision.
        StorageFailure: the database did not take it, or others did not let go of a table; nothing has changed.
    """

    def work(connection: Connection, found: State, url: URL) -> None:
        if revision == "head" and not found.is_known and found.is_served:
            require(found, url, schema)
            return
        require_known(found, url)
        with _alembic_errors():
            command.upgrade(_config(connection), _target(revision))

    _migrate(url_or_engine, schema, work)


def downgrade(url_or_engine: str | URL | Engine, revision: str, *, schema: str | None = None) -> None:
    """Take a database back to a revision (`base`: none of our tables), in one transaction; what they hold is lost.

    Raises: as `upgrade`; SchemaMismatch for every database that a newer byref has brought further.
    """

    def work(connection: Connection, found: State, url: URL) -> None:
        require_known(found, url)
        with _alembic_errors():
            command.downgrade(_config(connection), _target(revision))

    _migrate(url_or_engine, schema, work)


def _migrate(
    url_or_engine: str | URL | Engine, schema: str | None, work: Callable[[Connection, State, URL], None]
) -> None:
    """Do the work under the lock; again where a table that it needs was in use for too long."""
    with _alembic_lock, engine_of(url_or_engine) as engine:
        for attempt in range(1, LOCK_ATTEMPTS + 1):
            try:
                with _locked(engine, schema) as (connection, found):
                    work(connection, found, engine.url)
                return
            except StorageFailure as failure:
                if attempt == LOCK_ATTEMPTS or getattr(failure.__cause__, "sqlstate", None) not in _IN_USE:
                    raise
            time.sleep(LOCK_SECONDS * random.uniform(0.5, 1.5))


@contextmanager
def exclusive(url_or_engine: str | URL | Engine, *, schema: str | None = None) -> Iterator[Connection]:
    """A transaction that no other migration of this database overlaps, committed at the end.

    Raises:
        SchemaMismatch: the database was written by a newer byref, whose revisions are not here.
    """
    with engine_of(url_or_engine) as engine, _locked(engine, schema) as (connection, found):
        require_known(found, engine.url)
        yield connection


@contextmanager
def _locked(engine: Engine, schema: str | None) -> Iterator[tuple[Connection, State]]:
    checked_schema(engine, schema)
    begin = _exclusive_on_sqlite if engine.dialect.name == "sqlite" else _exclusive_on_postgresql
    try:
        with begin(engine, schema) as connection:
            yield connection, state_of(connection)
            connection.commit()
    except SQLAlchemyError as error:
        raise storage_failure(error, engine.url) from driver_error(error)


@contextmanager
def _exclusive_on_sqlite(engine: Engine, _schema: str | None) -> Iterator[Connection]:
    # Rebuilding a table with foreign keys on would delete what refers to it.
    with transaction(engine, "write", foreign_keys=False) as connection:
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
        if connection.exec_driver_sql("SHOW lock_timeout").scalar_one() == "0":  # a host's own is kept
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {round(LOCK_SECONDS * 1000)}")
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
        "on_version_apply": _mark,
    }


def _mark(*, ctx: MigrationContext, step: MigrationInfo, **_: object) -> None:
    """After each step: write down how old the code may be that works with the tables as they are now."""
    if step.is_stamp:
        return
    script: Any = next(iter(step.destination_revisions), None)
    if (oldest := _oldest(script)) is not None:
        ctx.impl.execute(delete(CompatibilityRow))
        ctx.impl.execute(insert(CompatibilityRow).values(revision=script.revision, oldest=oldest))


def _oldest(script: Any) -> str | None:
    """What a migration's script says of older code; None of 0001, which has no place for it, and of base."""
    return getattr(getattr(script, "module", None), "oldest", None)


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
