"""docs/migrations.md: its statements about PostgreSQL are true; its examples on SQLite are run with the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, make_url, text
from sqlalchemy.pool import NullPool

import byref
import byref.cli

PAGE = (Path(__file__).parents[2] / "docs/migrations.md").read_text()
SECTION = PAGE.split("## A schema on PostgreSQL")[1].split("\n## ")[0]


@pytest.fixture
def stated(empty_postgres_url: str) -> str:
    """The commands of the section, for a database that there is."""
    [block] = re.findall(r"```text\n(.*?)```", SECTION, re.DOTALL)
    return str(block).replace("postgresql+psycopg://host/shop", empty_postgres_url)


@pytest.fixture
def role(empty_postgres_url: str) -> Iterator[str]:
    """Who may do nothing yet; the section's grants name it shop_app."""
    with create_engine(empty_postgres_url, poolclass=NullPool).begin() as connection:
        connection.execute(text("CREATE ROLE shop_app LOGIN"))
    yield "shop_app"
    with create_engine(empty_postgres_url, poolclass=NullPool).begin() as connection:
        connection.execute(text("DROP OWNED BY shop_app"))
        connection.execute(text("DROP ROLE shop_app"))


def test_the_command_and_the_calls_agree_on_the_schema(empty_postgres_url: str, stated: str) -> None:
    command, *calls = stated.strip().splitlines()
    assert byref.cli.main(command.split()[1:]) in (0, None)
    assert byref.db.current(empty_postgres_url, schema="byref") == byref.db.head()
    assert byref.db.current(empty_postgres_url) is None
    names: dict[str, object] = {"byref": byref}
    exec("\n".join(calls), names)
    engine = names["engine"]
    assert isinstance(engine, byref.Engine)
    with engine:
        assert engine.session("chat").process("hello", tool="greet").content == "hello"


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("include_schemas", [False, True])
def test_the_hosts_autogenerate_leaves_a_schema_of_ours_alone(empty_postgres_url: str, include_schemas: bool) -> None:
    byref.db.upgrade(empty_postgres_url, schema="byref")
    metadata = MetaData()
    Table("orders", metadata, Column("id", Integer, primary_key=True))

    def changes(**options: object) -> list[str]:
        with create_engine(empty_postgres_url, poolclass=NullPool).connect() as connection:
            context = MigrationContext.configure(connection, opts={"include_schemas": include_schemas, **options})
            return sorted({change[0] for change in compare_metadata(context, metadata)})

    assert changes(include_name=byref.db.include_name) == ["add_table"]
    assert ("remove_table" in changes()) == include_schemas


@pytest.mark.slow
def test_the_grants_are_enough_and_none_is_idle(empty_postgres_url: str, role: str) -> None:
    byref.db.upgrade(empty_postgres_url, schema="byref")
    [block] = re.findall(r"```sql\n(.*?)```", SECTION, re.DOTALL)
    grants = [grant for grant in block.split(";") if grant.strip()]
    served = make_url(empty_postgres_url).set(username=role)

    def serve() -> None:
        with byref.Engine(served, schema="byref", create=False) as engine:
            session = engine.session("chat")
            session.process([{"id": n} for n in range(5_000)], tool="rows", call_id="call_1")
            session.call("code_interpreter", {"code": "total = len(rows)"})
            session.record_usage({"prompt_tokens": 1, "completion_tokens": 1})
            assert engine.delete_session("chat")
            engine.sweep()

    for grant in grants:
        with pytest.raises(byref.ByrefError):
            serve()
        with create_engine(empty_postgres_url, poolclass=NullPool).begin() as connection:
            connection.execute(text(grant))
    serve()
