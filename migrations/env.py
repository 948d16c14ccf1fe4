"""Alembic's entry point. In a checkout: `BYREF_DB=sqlite:///byref.db alembic upgrade head`, or `alembic -x url=… …`.

`-x schema=…` puts the tables into a schema of a PostgreSQL database. From a wheel: `byref db upgrade`.
"""

import os

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection, make_url

from byref.db import migrate


def run(connection: Connection) -> None:
    """Migrate a database inside the transaction that is open on it."""
    context.configure(connection=connection, **migrate.options(connection.dialect.name))
    with context.begin_transaction():
        context.run_migrations()


def print_sql(url: str, schema: str | None) -> None:
    """Write the statements instead of running them (`--sql`)."""
    context.configure(url=url, literal_binds=True, **migrate.options(make_url(url).get_backend_name()))
    with context.begin_transaction():
        if schema:
            quoted = '"' + schema.replace('"', '""') + '"'
            context.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted}")
            context.execute(f"SET LOCAL search_path TO {quoted}")
        context.run_migrations()


def main() -> None:
    """Use the connection that byref.db passes in, or the database that the command line or BYREF_DB names."""
    if connection := context.config.attributes.get("connection"):
        run(connection)
        return
    given = context.get_x_argument(as_dictionary=True)
    url, schema = given.get("url") or os.environ.get("BYREF_DB"), given.get("schema")
    if not url:
        raise CommandError("which database? Set BYREF_DB, or give -x url=…")
    if context.is_offline_mode():
        print_sql(url, schema)
    else:
        with migrate.exclusive(url, schema=schema) as connection:
            run(connection)


main()
