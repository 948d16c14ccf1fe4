"""Hostile SQL: nothing outside is read, written, set or kept; what eats resources ends soon and says why.

Each attack on the outside succeeds on a plain DuckDB, so that none fails here because it is wrong.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sampled import sampled

from byref_sandbox import Limits, Outcome, Sandbox

SECRET = "canary-7f3a91"
ROWS = [{"id": n, "text": "x" * 10} for n in range(1000)]
VARIABLES: dict[str, object] = {"rows": ROWS}

READS = [
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_csv_auto('{secret}')",
    "SELECT * FROM '{secret}'",
    'SELECT * FROM "{secret}"',
    "FROM '{folder}/*.csv'",
    "SELECT content FROM read_text('{secret}')",
    "SELECT content FROM read_blob('{secret}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM read_json('{folder}/secret.json')",
    "SELECT * FROM read_json_objects('{folder}/secret.json')",
    "SELECT * FROM read_ndjson('{folder}/secret.json')",
    "SELECT * FROM '{folder}/secret.json'",
    "SELECT * FROM read_parquet('{folder}/secret.parquet')",
    "SELECT * FROM '{folder}/secret.parquet'",
    "SELECT * FROM parquet_scan('{folder}/secret.parquet')",
    "SELECT stats_min FROM parquet_metadata('{folder}/secret.parquet')",
    "SELECT * FROM sniff_csv('{secret}')",
    "WITH x AS (SELECT * FROM read_csv('{secret}')) SELECT * FROM x",
    "SELECT (SELECT content FROM read_text('{secret}')) AS leaked",
    "SELECT * FROM rows WHERE 'x' IN (FROM read_text('{secret}') SELECT content) OR id = 0",
    "SELECT content FROM system.main.read_text('{secret}')",
    'SELECT content FROM "read_text"(\'{secret}\')',
    "SELECT * FROM query('SELECT content FROM read_text(''{secret}'')')",
    "SELECT * FROM query_table('{secret}')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT content FROM read_text(''{secret}'')'))",
    "PIVOT (SELECT content, 1 AS n FROM read_text('{secret}')) ON content USING sum(n)",
    "SUMMARIZE FROM read_csv('{secret}')",
    "EXPLAIN ANALYZE SELECT * FROM read_csv('{secret}')",
    "ATTACH '{folder}/secret.duckdb' AS other",
    "SELECT 1; SELECT content FROM read_text('{secret}')",
    "CREATE TABLE t AS FROM read_text('{secret}')",
    "COPY rows FROM '{secret}'",
    "SELECT * FROM read_duckdb('{folder}/secret.duckdb', table_name := 't')",
    "SELECT content FROM read_text($$ {secret} $$.trim())",
]  # fmt: skip
WRITES = [
    "COPY rows TO '{target}'",
    "COPY (SELECT 1) TO '{target}' (FORMAT csv)",
    "COPY (SELECT 1) TO '{target}' (FORMAT parquet)",
    "COPY (SELECT 1) TO '{target}' (FORMAT json)",
    "EXPORT DATABASE '{target}'",
    "ATTACH '{target}' AS made",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}'",
    "SELECT 1; COPY (SELECT 1) TO '{target}'",
    "COPY (WITH x AS (SELECT 1) FROM x) TO '{target}'",
    "PREPARE p AS COPY (SELECT 1) TO '{target}'; EXECUTE p",
    "COPY (SELECT 1 AS a, 2 AS b) TO '{target}' (FORMAT csv, PARTITION_BY a)",
    "SET log_query_path = '{target}'; SELECT 1",
]
"""After each of these a plain DuckDB has made something at {target}."""
REFUSED = [
    "SET threads = 64",
    "SET memory_limit = '100GB'",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET memory_limit",
    "SET GLOBAL temp_directory = '/tmp'",
    "PRAGMA threads = 64",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "CALL enable_logging()",
    "SELECT set_config('threads', '8', false)",
    "SELECT current_setting('temp_directory')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM pg_settings",
    "SELECT * FROM pg_catalog.pg_settings",
    "SELECT * FROM sqlite_master",
    "SELECT getenv('PATH')",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '/tmp/evil.duckdb_extension'",
    "INSTALL spatial FROM community",
    "FORCE INSTALL httpfs FROM 'http://127.0.0.1:1/'",
    "UPDATE EXTENSIONS",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "SELECT * FROM 'https://example.com/x.csv'",
    "SELECT * FROM read_csv('http://127.0.0.1:1/x.csv')",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "ATTACH 'postgres:host=127.0.0.1' AS pg (TYPE postgres)",
    "ATTACH ':memory:' AS m",
    "USE system",
    "CREATE TABLE t (a INT)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE MACRO f(x) AS x + 1",
    "CREATE TYPE t AS ENUM ('a')",
    "CREATE SCHEMA s",
    "INSERT INTO rows VALUES (1, 'a')",
    "UPDATE rows SET id = 0",
    "DELETE FROM rows",
    "DROP VIEW rows",
    "ALTER TABLE rows ADD COLUMN x INT",
    "BEGIN TRANSACTION",
    "CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    "PREPARE p AS SELECT 1",
    "EXPLAIN SELECT 1",
    "SET VARIABLE x = 1",
    "SELECT * FROM checkpoint()",
    "SELECT * FROM enable_profiling()",
    "SELECT * FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
    "SELECT * FROM pandas_scan(94000000000000::POINTER)",
    "SELECT * FROM python_map_function(1)",
    "SELECT write_log('x')",
    "SELECT * FROM duckdb_logs()",
    "SELECT * FROM test_all_types()",
]  # fmt: skip
EATERS = [
    "SELECT count(*) FROM range(1000000000000)",
    "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b",
    "SELECT * FROM rows a, rows b, rows c, rows d",
    "SELECT count(*) FROM rows a, rows b, rows c, rows d WHERE a.text || b.text = c.text || d.text",
    "SELECT * FROM " + ", ".join(f"rows r{n}" for n in range(100)),
    "SELECT a.id FROM rows a JOIN rows b USING (text) JOIN rows c USING (text) JOIN rows d USING (text)",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n * 2 % 97 FROM t, range(10)) SELECT count(*) FROM t",
    "WITH RECURSIVE t(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
    "WITH " + ", ".join(f"t{n} AS (SELECT a.id FROM {f't{n - 1} a, t{n - 1} b' if n else 'rows a'})" for n in range(9)) + " SELECT count(*) FROM t8",
    "SELECT repeat('a', 10000000000)",
    "SELECT length(repeat('a', 4000000000))",
    "SELECT max(length(repeat('a', 100000000 + range::INT))) FROM range(1000)",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT printf('%1000000000d', 1)",
    "SELECT format('{{:>1000000000}}', 1)",
    "SELECT string_agg(range::VARCHAR, ',') FROM range(100000000)",
    "SELECT list(range) FROM range(100000000)",
    "SELECT histogram(range) FROM range(100000000)",
    "SELECT unnest(range(1000000000))",
    "SELECT unnest(range(10000)), unnest(list_transform(range(10000), lambda x: range(10000))) FROM rows",
    "SELECT range(1000000000)",
    "SELECT list_sort(range(30000000))",
    "SELECT map(range(10000000), range(10000000))",
    "SELECT list_transform(range(100000000), lambda x: x::VARCHAR || repeat('a', 16))",
    "SELECT list_reduce(range(100000000), lambda a, b: a + b)",
    "SELECT * FROM range(50000000) ORDER BY random()",
    "SELECT range, count(*) FROM range(50000000) GROUP BY 1",
    "SELECT DISTINCT hash(range) FROM range(50000000)",
    "SELECT quantile_cont(range, 0.5) FROM range(100000000)",
    "SELECT sum(x) OVER (ORDER BY x DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM range(30000000) t(x)",
    "SELECT bit_count(bitstring('1', 2000000000))",
    "SELECT from_hex(repeat('00', 500000000))",
    "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))",
    "SELECT regexp_matches(repeat('a', 50000) || range, '(a*)*b') FROM range(1000000)",
    "SELECT regexp_matches('a', 'a{1000}{1000}{1000}')",
    "SELECT regexp_replace(repeat('a', 100000000), 'a', repeat('b', 1000), 'g')",
    "SELECT string_split(repeat('a,', 100000000), ',')",
    "SELECT * FROM generate_series(TIMESTAMP '0001-01-01', TIMESTAMP '9999-01-01', INTERVAL 1 MICROSECOND)",
    "PIVOT (SELECT range a, range b FROM range(90000)) ON a USING sum(b)",
    "SELECT sleep_ms(60000)",
    "SELECT pg_sleep(60)",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "+".join(["1"] * 20000),
    "SELECT " + "- " * 50_000 + "1",
    "SELECT " + "CASE WHEN 1 THEN " * 5000 + "1" + " END" * 5000,
    " UNION ALL ".join(["SELECT 1"] * 10_000),
    "SELECT * FROM " + "(SELECT * FROM " * 1000 + "rows" + ") t" * 1000,
    "SELECT " + ", ".join(f"id AS c{n}" for n in range(10_000)) + " FROM rows, rows r2",
    "SELECT factorial(1000000), 2 ** 100000",
    "SELECT (repeat('[', 10000000) || repeat(']', 10000000))::JSON",
    "SELECT json_structure(repeat('[', 1000000))",
    "SELECT * FROM rows, json_tree('[' || repeat('1,', 5000000) || '1]')",
]  # fmt: skip

_OPEN_GROUND = """
import json, pathlib, shutil, sys, duckdb
folder, reads, writes = json.loads(sys.stdin.read())
rows = "CREATE TABLE rows AS SELECT range AS id, 'x' AS text FROM range(3)"
made = {}
for query in reads:
    with duckdb.connect() as open_one:
        open_one.execute(rows)
        try:
            made[query] = repr(open_one.execute(query).fetchall())
        except Exception as error:
            made[query] = "failed: " + repr(error)
for query in writes:
    target = pathlib.Path(folder, "target")
    with duckdb.connect() as open_one:
        open_one.execute(rows)
        try:
            open_one.execute(query.replace("{target}", str(target)))
        except Exception as error:
            made[query] = repr(error)
    made[query] = target.exists() or made.get(query)
    shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
print(json.dumps(made))
"""
_SETTINGS_ALONE = """
import json, sys
from byref_sandbox.run import sqlbody
folder, reads, writes = json.loads(sys.stdin.read())
database = sqlbody.connection()
database.execute("SET lock_configuration = true")
database.execute("CREATE TABLE rows AS SELECT range AS id, 'x' AS text FROM range(3)")
made = {}
for query in [*reads, *(query.replace("{target}", folder + "/target") for query in writes)]:
    try:
        made[query] = repr(database.execute(query).fetchall())
    except Exception as error:
        made[query] = "failed: " + repr(error)
print(json.dumps(made))
"""


LIMITS = Limits(wall_seconds=1.5, cpu_seconds=1, memory_bytes=256 << 20)


Sql = Callable[..., Outcome]


@pytest.fixture(scope="module")
def sql(sandbox: Sandbox) -> Sql:
    return functools.partial(sandbox.sql, limits=LIMITS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("secrets")
    made.chmod(0o777)
    Path(made.parent).chmod(0o755)
    (made / "secret.csv").write_text(f"id,text\n1,{SECRET}\n")
    (made / "secret.json").write_text(json.dumps({"k": SECRET}))
    script = f"""
import duckdb
duckdb.execute("COPY (SELECT '{SECRET}' AS k) TO '{made}/secret.parquet'")
with duckdb.connect('{made}/secret.duckdb') as other:
    other.execute("CREATE TABLE t AS SELECT '{SECRET}' AS k")
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    return made


def told(outcome: Outcome) -> str:
    """All that came out."""
    error = outcome.error
    return repr((outcome.value, outcome.text, outcome.stdout, outcome.exact, error and (error.message, error.hint)))


def filled(query: str, folder: Path) -> str:
    return query.replace("{secret}", f"{folder}/secret.csv").replace("{folder}", str(folder))


def outside(script: str, folder: Path) -> dict[str, Any]:
    given = json.dumps([str(folder), [filled(query, folder) for query in READS], WRITES])
    done = subprocess.run([sys.executable, "-c", script], input=given, capture_output=True, text=True, check=True)
    made: dict[str, Any] = json.loads(done.stdout)
    return made


@pytest.fixture(scope="module")
def open_ground(folder: Path) -> dict[str, Any]:
    return outside(_OPEN_GROUND, folder)


@pytest.mark.every_case("each is a way of its own to a file")
@pytest.mark.parametrize("query", READS)
def test_nothing_is_read(sql: Sql, folder: Path, open_ground: dict[str, Any], query: str) -> None:
    attack = filled(query, folder)
    assert not open_ground[attack].startswith("failed"), open_ground[attack]
    outcome = sql(attack, VARIABLES)
    assert outcome.error is not None
    assert SECRET not in told(outcome)
    assert "secret.json" not in told(outcome).replace(attack, "")


@pytest.mark.every_case("each is a way of its own to a file")
@pytest.mark.parametrize("query", WRITES)
def test_nothing_is_written(sql: Sql, folder: Path, open_ground: dict[str, Any], query: str) -> None:
    assert open_ground[query] is True, open_ground[query]
    outcome = sql(query.replace("{target}", f"{folder}/target"), VARIABLES)
    assert outcome.error is not None
    assert not (folder / "target").exists()


@pytest.mark.slow
def test_the_settings_alone_hold_as_well(folder: Path, open_ground: dict[str, Any]) -> None:
    made = outside(_SETTINGS_ALONE, folder)
    assert len(made) == len(READS) + len(WRITES)
    assert SECRET not in repr(made)
    assert not (folder / "target").exists()


@pytest.mark.every_case("each is a statement of its own")
@pytest.mark.parametrize("query", sampled(REFUSED, 3))
def test_nothing_is_set_loaded_changed_or_told(sql: Sql, query: str) -> None:
    outcome = sql(query, VARIABLES)
    assert outcome.error is not None
    assert outcome.error.kind in ("NotAllowed", "SqlError", "NameError"), outcome.error
    assert outcome.value is None
    for told_path in ("/root", "/home", "/tmp/", ".duckdb/", "site-packages", "Stack Trace"):
        assert told_path not in outcome.error.message
    assert sql("SELECT count(*) AS n FROM rows", VARIABLES).value == [{"n": 1000}]


def test_what_queries_can_tell_of_the_host_is_nothing(sql: Sql) -> None:
    queries = [
        "SELECT current_user, current_database(), current_schema(), session_user, version()",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM information_schema.schemata",
        "SHOW ALL TABLES",
        "SELECT current_query(), get_current_timestamp()::DATE",
    ]
    text = "".join(told(sql(query, VARIABLES)) for query in queries)
    for name in (os.uname().nodename, str(Path.home()), sys.prefix, os.environ.get("USER", "no user")):
        if len(name) > 3:
            assert name not in text


@pytest.mark.slow
@pytest.mark.parametrize("query", EATERS, ids=lambda query: query[:70])
def test_what_eats_resources_ends_and_says_why(sql: Sql, query: str) -> None:
    began = time.monotonic()
    outcome = sql(query, VARIABLES)
    assert time.monotonic() - began < 8
    if outcome.error is None:  # cheap after all, and its answer is bounded
        assert len(outcome.text) < 200_000
        return
    assert outcome.error.kind in ("TimeLimit", "CpuLimit", "MemoryLimit", "OutputLimit", "SqlError"), outcome.error
    assert "SET " not in outcome.error.message
    assert outcome.usage.peak_bytes < 512 << 20


@pytest.mark.slow
def test_after_all_of_it_a_session_is_as_it_was(sql: Sql) -> None:
    from byref_sandbox import Data

    rows = Data("rows-of-a-session", lambda: json.dumps(ROWS).encode())
    for query in (
        "SELECT count(*) FROM range(1000000000000)",
        "DELETE FROM rows",
        "SELECT range(1000000000)",
        "SET threads=9",
    ):
        assert sql(query, {"rows": rows}, session="s").error is not None
        assert sql("SELECT sum(id) AS s FROM rows", {"rows": rows}, session="s").value == [{"s": 499_500}]


def test_one_query_leaves_nothing_for_the_next(sql: Sql) -> None:
    sql("SELECT 1", {"mine": ROWS}, session="one")
    sql("SELECT * FROM mine", {"mine": ROWS}, session="one")
    for session in ("one", "two", None):
        error = sql("SELECT * FROM mine", {}, session=session).error
        assert error is not None
        assert error.kind == "NameError"


@pytest.mark.slow
def test_queries_run_side_by_side(sql: Sql) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def one(number: int) -> object:
        return sql(f"SELECT sum(id) + {number} AS s FROM rows", VARIABLES, session="s").value

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, range(24))) == [[{"s": 499_500 + number}] for number in range(24)]


def test_python_does_not_reach_the_database(sandbox: Sandbox) -> None:
    attempts: list[Callable[[], Outcome]] = [
        lambda: sandbox.run("import duckdb"),
        lambda: sandbox.run("import byref_sandbox.run.sqlbody"),
        lambda: sandbox.run("pd.read_sql('SELECT 1', 'duckdb:///:memory:')"),
    ]
    assert all(attempt().error is not None for attempt in attempts)
