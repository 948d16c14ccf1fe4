"""artifact_sql: the session's variables as tables, as a model asks and as it is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text

from byref import ConfigurationError, Engine, Policy, Session
from byref_sandbox.code import sqltext

TOOLS = ["artifact_sql", "code_interpreter", "artifact_jq"]
ORDERS = [
    {
        "id": n,
        "customer": n % 50,
        "region": ("north", "south", "east", "west")[n % 4],
        "amount": n * 1.25,
        "units": n % 7,
    }
    for n in range(2_000)
]
CUSTOMERS = {
    "total": 60,
    "rows": [{"customer": n, "country": "DE" if n % 2 else "FR"} for n in range(3_000)],
    "pages": [{"p": 1}],
}
TOTALS = "region | total\neast | 625000.0\nnorth | 623750.0\nsouth | 624375.0\nwest | 625625.0"


@pytest.fixture(scope="module")
def asked(local: Engine) -> Session:
    session = local.session("sql", tenant="artifact-sql", tools=TOOLS)
    session.process(ORDERS, tool="orders")
    session.process(CUSTOMERS, tool="list_customers")
    return session


def ask(session: Session, query: Any, **more: Any) -> str:
    reply = session.call("artifact_sql", {"query": query, **more})
    assert not reply.is_error, reply.content
    return reply.content


def refused(session: Session, query: Any, **more: Any) -> str:
    reply = session.call("artifact_sql", {"query": query, **more})
    assert reply.is_error, reply.content
    return reply.content


QUERY = "SELECT region, sum(amount) AS total FROM $orders GROUP BY 1 ORDER BY 1"


@pytest.mark.parametrize(
    "written",
    [
        {"query": QUERY},
        {"query": QUERY + ";"},
        {"sql": QUERY},
        {"statement": QUERY},
        {"sqlQuery": QUERY},
        {"query": f"```sql\n{QUERY};\n```"},
        {"query": list(QUERY.partition(" FROM"))},
        {"query": QUERY.replace("$orders", "orders")},
        {"query": QUERY.replace("$orders", '"orders"')},
        {"query": QUERY.replace("$orders", "`orders`")},
        {"query": QUERY.replace("$orders", "ORDERS")},
        {"query": QUERY.replace("$orders", "'$orders'")},
        {"query": "-- totals\n" + QUERY + " -- done;"},
        {"query": QUERY, "save_as": None},
        json.dumps({"arguments": {"query": QUERY}}),
        QUERY,
        f"```sql\n{QUERY}\n```",
    ],
    ids=lambda written: json.dumps(written)[:60],
)
def test_arguments_as_models_write_them(asked: Session, written: Any) -> None:
    reply = asked.call("artifact_sql", written)
    assert not reply.is_error, reply.content
    assert reply.content == f"4 rows × 2 columns\n{TOTALS}"


def test_joins_across_variables(asked: Session) -> None:
    query = (
        "SELECT country, count(*) AS n FROM $orders JOIN $list_customers.rows USING (customer) GROUP BY 1 ORDER BY 1"
    )
    assert ask(asked, query) == "2 rows × 2 columns\ncountry | n\nDE | 1000\nFR | 1000"
    assert ask(asked, query.replace("$list_customers.rows", "rows")) == ask(asked, query)


def test_an_artifact_by_its_id(asked: Session) -> None:
    artifact = asked.artifacts()[0]
    assert ask(asked, f"SELECT count(*) AS n FROM {artifact.id}").endswith("\n2000")
    asked.store_artifact([{"a": 1}, {"a": 2}], name="stored")
    assert ask(asked, "SELECT sum(a) AS s FROM stored").endswith("\n3")
    assert ask(asked, "SELECT sum(a) AS s FROM Stored").endswith("\n3")


def test_a_result_is_kept_under_a_name(asked: Session) -> None:
    content = ask(asked, QUERY, save_as="by_region")
    assert content.endswith("[kept for later calls: by_region (DataFrame of 4 rows and 2 columns)]")
    assert ask(asked, "SELECT max(total) AS m FROM $by_region").endswith("\n625625.0")
    reply = asked.call("code_interpreter", {"code": "by_region.set_index('region').loc['east', 'total']"})
    assert reply.content == "625000.0"
    ask(asked, "SELECT 1 AS one", save_as="by_region")
    assert ask(asked, "FROM by_region").endswith("one\n1")


def test_what_code_kept_is_a_table(asked: Session) -> None:
    asked.call(
        "code_interpreter",
        {"code": "top = df('orders').nlargest(3, 'amount')[['id', 'amount']].reset_index(drop=True)"},
    )
    assert ask(asked, "SELECT min(id) AS i, count(*) AS n FROM top").endswith("i | n\n1997 | 3")


def test_what_is_no_data_is_said_to_be(asked: Session) -> None:
    asked.run("masked = np.ma.array([1, 2])")
    told = refused(asked, "SELECT * FROM masked")
    assert "masked is no data but a value for code alone (MaskedArray): keep a DataFrame of it" in told


def test_a_big_result_becomes_a_variable(asked: Session) -> None:
    content = ask(asked, "SELECT *, amount * 2 AS twice FROM orders")
    assert content.startswith("2,000 rows × 6 columns; first 10 and last 10 rows shown")
    assert "INCOMPLETE" in content
    name = content.rpartition("Compute on ")[2].split()[0]
    assert ask(asked, f"SELECT sum(twice) AS s FROM ${name}").endswith(str(sum(row["amount"] for row in ORDERS) * 2))


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "SELECT * FROM ordrs",
            "NameError: there is no table with the name 'ordrs'\nDid you mean orders?\nVariables with data: ",
        ),
        ("SELECT amout FROM orders", 'Candidate bindings: "amount"'),
        ("SELECT * FROM list_customers", "$list_customers.rows, $list_customers.pages"),
        ("SELECT * FROM list_customers.row", "there is no 'row' in list_customers"),
        ("SELECT 1; SELECT 2", "2 statements; one query is run at a time"),
        ("SHOW TABLES", "each variable and each artifact is a table under its name"),
        ("  show all tables;", "there is no list of tables here"),
        ("SELECT * FROM information_schema.tables", "there is no list of tables here"),
        ('SELECT count(*) FROM orders, Information_Schema."columns"', "there is no list of tables here"),
        ("FROM pg_tables", "there is no list of tables here"),
        ("SELECT * FROM duckdb_tables()", "there is no list of tables here"),
        ("SELECT * FROM duckdb_settings()", "duckdb_settings is not available"),
        ("DELETE FROM orders", "DELETE is not available: only queries are run, which read"),
        ("SELECT * FROM read_csv('/etc/passwd')", "read_csv is not available: there are no files"),
        ("SET threads = 4", "SET is not available"),
        ("SELEC 1", "syntax error"),
        ("x" * 200_001, "200,001 characters; at most 200,000"),
    ],
    ids=lambda text: text[:40],
)
def test_faults(asked: Session, query: str, told: str) -> None:
    assert told in refused(asked, query)


def test_names_that_cannot_be_used(asked: Session) -> None:
    assert "stored data, which never changes" in refused(asked, "SELECT 1", save_as="orders")
    assert "expected a Python name" in refused(asked, "SELECT 1", save_as="a b")
    assert "expected a Python name" in refused(asked, "SELECT 1", save_as="for")
    assert "expected a Python name" in refused(asked, "SELECT 1", save_as="pd")


def test_limits_are_the_policys(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, tools=TOOLS, policy=Policy(run_seconds=0.5, run_cpu_seconds=20))
    assert "TimeLimit: stopped after 0.5 s" in refused(session, "SELECT count(*) FROM range(1000000000000)")
    small = local.session("small", tenant=tenant, tools=TOOLS, policy=Policy(run_memory_bytes=128 << 20))
    assert "MemoryLimit" in refused(small, "SELECT * FROM range(100000000) ORDER BY random()")


def test_replies_are_bounded(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, tools=TOOLS, policy=Policy(reply_tokens=200))
    for query in (
        "SELECT range AS n FROM range(500)",
        "SELECT repeat('wide ', 5000) AS w FROM range(30)",
        "SELECT nosuch_" + "x" * 9_000,
    ):
        reply = session.call("artifact_sql", {"query": query})
        assert session.count(reply.content) <= 220 if hasattr(session, "count") else len(reply.content) < 1_400


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_runs_are_recorded(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, tools=TOOLS)
    session.process(ORDERS, tool="orders")
    assert not session.call("artifact_sql", {"query": QUERY}).is_error
    session.call("artifact_sql", {"query": "SELEC"})
    with engine._database.engine.connect() as connection:
        query = "SELECT language, code, error IS NULL FROM byref_runs WHERE tenant = :tenant ORDER BY id"
        rows = connection.execute(text(query), {"tenant": tenant}).all()
    assert [tuple(row) for row in rows] == [("sql", QUERY, True), ("sql", "SELEC", False)]


def test_it_is_offered_where_duckdb_is(
    local: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert [tool["name"] for tool in local.session("a", tenant=tenant, tools=TOOLS).tools("anthropic")] == TOOLS
    assert "artifact_sql" not in [tool["name"] for tool in local.session("b", tenant=tenant).tools("anthropic")]
    monkeypatch.setattr(sqltext, "is_available", lambda: False)
    monkeypatch.setattr(local, "_warned", set())
    session = local.session("c", tenant=tenant, tools=TOOLS)
    local.session("c2", tenant=tenant, tools=TOOLS)
    local.session("c3", tenant=tenant)
    told = "artifact_sql is not offered, though it is asked for: it needs DuckDB: pip install 'byref[sql]'"
    assert [record.message for record in caplog.records] == [told]
    assert [tool["name"] for tool in session.tools("anthropic")] == TOOLS[1:]
    assert not session.owns("artifact_sql")
    with pytest.raises(ConfigurationError, match="artifact_sq'"):
        local.session("d", tenant=tenant, tools=["artifact_sq"])


def test_envelopes_name_it_only_where_it_is(local: Engine, tenant: str) -> None:
    for form in (Policy.variables, Policy.references):
        for tools, named in ((TOOLS, True), (["artifact_read", "artifact_jq"], False)):
            session = local.session(f"{form.__name__} {named}", tenant=tenant, tools=tools, policy=form())
            assert ("artifact_sql" in session.process(ORDERS, tool="orders").content) is named
    session = local.session("log", tenant=tenant, tools=[*TOOLS, "artifact_read"], policy=Policy.references())
    assert "artifact_sql" not in session.process("a line\n" * 30_000, tool="log").content
