"""Upgrade and downgrade the schema. This is the only module that uses Alembic.

`alembic upgrade head` in a checkout also goes through `exclusive`, so both ways do the same.
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

from byref.db.connections import connect, engine_of, transaction
from byref.db.failures import driver_error, storage_failure
from byref.db.revisions import REVISIONS, VERSION_TABLE, State, checked_schema, require, require_known, state_of
from byref.db.tables import Base, CompatibilityRow
from byref.errors import ConfigurationError, StorageFailure

_ADVISORY_LOCK = 0x62797265660A
"""Key of the advisory lock that every migration by byref takes on PostgreSQL; an arbitrary constant, "byref" in ASCII."""

LOCK_SECONDS = 2.0
"""How long a statement of a migration waits for a table's lock on PostgreSQL. It is short because everybody who comes later,
readers too, queues behind the waiting statement."""

LOCK_ATTEMPTS = 20
"""Number of attempts at a migration that does not get a table's lock in time; between two there is a pause as long as a wait."""

_THERE_ARE = f"there are base, {', '.join(REVISIONS)}, head, and steps such as +1 or -1"

_IN_USE = frozenset({"55P03", "40P01"})
"""SQLSTATEs of a lock that was not available in time, and of a deadlock."""

_alembic_lock = threading.Lock()
"""Serializes migrations of this process, because Alembic's `op` and `context` are global."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One migration script."""

    revision: str
    down_revision: str | None
    message: str
    oldest: str
    """The oldest revision whose code still works with the tables of this revision."""


def history() -> list[Revision]:
    """Return all revisions, oldest first."""
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
    """Upgrade a database to a revision, in one transaction. Safe to call from many processes at once.

    With `schema` (PostgreSQL only) the tables are in that schema, which is created if it is missing. A database that a newer
    byref has already upgraded is left as it is, with a warning in the log, if this byref works with it: a process of the
    older version may be restarted in the middle of a deploy.

    Raises:
        SchemaMismatch: the database was written by a newer byref, and this one is too old for it.
        ConfigurationError: there is no such revision, or the database's encoding is not UTF8.
        StorageFailure: the database refused it, or a table stayed locked by others; nothing has changed.
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
    """Downgrade a database to a revision (`base`: none of byref's tables), in one transaction; dropped data is lost.

    Raises: as `upgrade`; also SchemaMismatch for every database that a newer byref has upgraded.
    """

    def work(connection: Connection, found: State, url: URL) -> None:
        require_known(found, url)
        with _alembic_errors():
            command.downgrade(_config(connection), _target(revision))

    _migrate(url_or_engine, schema, work)


def _migrate(
    url_or_engine: str | URL | Engine, schema: str | None, work: Callable[[Connection, State, URL], None]
) -> None:
    """Do the work under the lock; do it again if a table that it needs was locked for too long."""
    # Two locks: `_alembic_lock` among threads of this process, and the database's among processes (`_locked`).
    with _alembic_lock, engine_of(url_or_engine) as engine:
        for attempt in range(1, LOCK_ATTEMPTS + 1):
            try:
                with _locked(engine, schema) as (connection, found):
                    work(connection, found, engine.url)
                return
            except StorageFailure as failure:
                if attempt == LOCK_ATTEMPTS or getattr(failure.__cause__, "sqlstate", None) not in _IN_USE:
                    raise
            # The transaction is over, so those who queued behind the waiting statement go on during the pause.
            time.sleep(LOCK_SECONDS * random.uniform(0.5, 1.5))


@contextmanager
def exclusive(url_or_engine: str | URL | Engine, *, schema: str | None = None) -> Iterator[Connection]:
    """Yield a connection in a transaction that excludes all other migrations of this database; committed at the end.

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
            # The revision is read under the lock: another process may have migrated while this one waited for it.
            yield connection, state_of(connection)
            connection.commit()
    except SQLAlchemyError as error:
        raise storage_failure(error, engine.url) from driver_error(error)


@contextmanager
def _exclusive_on_sqlite(engine: Engine, _schema: str | None) -> Iterator[Connection]:
    # SQLite rebuilds a table by dropping the old one, which with foreign keys on would delete the rows that refer to it.
    with transaction(engine, "write", foreign_keys=False) as connection:
        yield connection


@contextmanager
def _exclusive_on_postgresql(engine: Engine, schema: str | None) -> Iterator[Connection]:
    # READ COMMITTED whatever the host's default is: with a snapshot older than the lock, this transaction would not see the
    # migration of the lock's last holder.
    with (
        connect(engine).execution_options(isolation_level="READ COMMITTED") as connection,
        closing(connection.begin()),
    ):
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        if schema is not None:
            quoted = connection.dialect.identifier_preparer.quote_identifier(schema)
            known = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :schema"
            if connection.scalar(text(known), {"schema": schema}) is None:
                connection.exec_driver_sql(f"CREATE SCHEMA {quoted}")
            connection.exec_driver_sql(f"SET LOCAL search_path TO {quoted}")
        if connection.exec_driver_sql("SHOW lock_timeout").scalar_one() == "0":  # a host's own limit is kept
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {round(LOCK_SECONDS * 1000)}")
        yield connection


def options(dialect: str) -> dict[str, Any]:
    """Return the arguments for Alembic's `context.configure`."""
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
    """After each step of a migration, record the oldest revision whose code works with the tables as they are now."""
    if step.is_stamp:
        return
    script: Any = next(iter(step.destination_revisions), None)
    if (oldest := _oldest(script)) is not None:
        ctx.impl.execute(delete(CompatibilityRow))
        ctx.impl.execute(insert(CompatibilityRow).values(revision=script.revision, oldest=oldest))


def _oldest(script: Any) -> str | None:
    """Return the `oldest` that a migration's script declares; None for 0001, which has no table for it, and for base."""
    return getattr(getattr(script, "module", None), "oldest", None)


def _is_ours(name: str | None, type_: str, _parent_names: object) -> bool:
    """Tell Alembic to ignore the host's tables."""
    return type_ != "table" or name in Base.metadata.tables


def _target(revision: str) -> str:
    """Return a revision as Alembic expects it: a name, or a number of steps such as `+1`."""
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
    """Return Alembic's settings; the scripts are inside the package in a wheel, and beside engine/ in a checkout."""
    here = Path(__file__).parents
    folder = next(place for place in (here[1] / "migrations", here[3] / "migrations") if (place / "env.py").is_file())
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
