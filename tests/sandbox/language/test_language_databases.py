"""`sqlite3` as code has it: in memory and over files of the run, with what would leave the database refused."""

from __future__ import annotations

import gc
import io
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from byref_sandbox import Sandbox
from byref_sandbox.language.policy import Language

SALES = """
import sqlite3, datetime
con = sqlite3.connect(':memory:')
con.executescript("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n REAL, b BLOB); CREATE INDEX i ON t (name)")
con.executemany("INSERT INTO t (name, n, b) VALUES (?, ?, ?)", [("a", 1.5, b"x"), ("b", None, None), ("a", 2, b"")])
con.commit()
"""
SAME = [
    "con.execute('SELECT * FROM t').fetchall()",
    "con.execute('SELECT name, sum(n), count(*) FROM t GROUP BY name HAVING count(*) > ? ORDER BY 1', (0,)).fetchall()",
    "con.execute('SELECT n FROM t WHERE name = :name', {'name': 'a'}).fetchmany(1), con.execute('SELECT 1').fetchone(), con.execute('SELECT 1 WHERE 0').fetchone()",
    "[list(row) for row in con.execute('SELECT id FROM t')]",
    "(lambda c: (c.execute('SELECT id AS x, name FROM t'), [d[0] for d in c.description], c.rowcount))(con.cursor())[1:]",
    "(lambda c: (c.execute('INSERT INTO t (name) VALUES (?)', ('z',)), c.lastrowid, c.rowcount))(con.cursor())[1:], con.in_transaction, con.rollback(), con.total_changes",
    "(lambda c: (c.executemany('UPDATE t SET n = ? WHERE id = ?', iter([(9, 1), (8, 2)])), c.rowcount))(con.cursor())[1:]",
    "con.execute('INSERT INTO t (name, n) VALUES (?, ?)', (datetime.date(2024, 1, 2), True)).connection is con, con.execute('SELECT name, n FROM t').fetchall()",
    "con.create_function('twice', 1, lambda v: v and 2 * v), con.execute('SELECT twice(n) FROM t').fetchall()",
    "con.create_collation('back', lambda a, b: (a < b) - (a > b)), con.execute('SELECT DISTINCT name FROM t ORDER BY name COLLATE back').fetchall()",
    "setattr(con, 'row_factory', sqlite3.Row), [(r['name'], r.keys(), tuple(r), dict(r)['n'], len(r)) for r in con.execute('SELECT name, n FROM t')]",
    "setattr(con, 'row_factory', lambda c, r: {d[0]: v for d, v in zip(c.description, r)}), con.execute('SELECT id, name FROM t').fetchall()",
    "list(con.iterdump())",
    "con.execute('PRAGMA table_info(t)').fetchall(), con.execute('PRAGMA foreign_keys = ON').fetchall()",
    "con.execute('WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5) SELECT sum(x) FROM c').fetchone()",
    "con.execute(\"SELECT json_extract('[1,2]', '$[1]'), upper('a'), date('2024-01-31', '+1 month'), printf('%.2f', 1)\").fetchone()",
    "con.execute('SELECT row_number() OVER (PARTITION BY name ORDER BY id) FROM t').fetchall()",
    "con.execute('CREATE VIEW v AS SELECT name FROM t').fetchall(), con.execute('SELECT * FROM v').fetchall(), con.execute('DROP VIEW v').fetchall(), con.execute('VACUUM').fetchall()",
    "con.execute(\"ATTACH ':memory:' AS x\").fetchall(), con.execute('CREATE TABLE x.y AS SELECT * FROM t').fetchall(), con.execute('SELECT count(*) FROM x.y').fetchone()",
    "(lambda other: (con.backup(other), other.execute('SELECT count(*) FROM t').fetchone()))(sqlite3.connect(':memory:'))",
    "sqlite3.complete_statement('SELECT 1;'), isinstance(con, sqlite3.Connection), sqlite3.Binary(b'x') == b'x', sqlite3.sqlite_version.count('.')",
    "pd.read_sql('SELECT name, sum(n) AS n FROM t GROUP BY name', con).to_dict('list')",
    "pd.read_sql_query('SELECT * FROM t WHERE id > ?', con, params=(1,), index_col='id').shape, [len(p) for p in pd.read_sql('SELECT * FROM t', con, chunksize=2)]",
    "pd.DataFrame({'d': pd.to_datetime(['2024-01-01', None]), 'x': [1, 2], 's': ['a', None]}).to_sql('made', con, index=False), con.execute('SELECT * FROM made').fetchall()",
    "pd.DataFrame({'x': [1]}).to_sql('t', con, if_exists='replace'), pd.DataFrame({'x': [2]}).to_sql('t', con, if_exists='append', method='multi', chunksize=1), con.execute('SELECT * FROM t').fetchall()",
]  # fmt: skip
ERRORS = [
    "con.execute('SELEKT')", "con.execute('SELECT * FROM no')", "con.execute('SELECT ?', ())", "con.execute('INSERT INTO t (id) VALUES (1)')", "con.close(), con.execute('SELECT 1')",
    "con.execute('SELECT 1; SELECT 2')", "con.execute('SELECT ?', (object(),))", "con.execute('SELECT ?', (2 ** 70,))", "pd.read_sql('SELECT * FROM no', con)",
    "pd.DataFrame({'x': [1]}).to_sql('t', con)", "con.execute(1)", "con.create_function('f', 0, lambda: 1 / 0), con.execute('SELECT f()').fetchall()",
]  # fmt: skip


def _inside(language: Language, code: str) -> Any:
    return language.run(language.compile(f"{SALES}\n{code}"), {}, io.StringIO()).value


def _natively(code: str) -> Any:
    space: dict[str, Any] = {"pd": pd}
    exec(SALES, space)
    try:
        return eval(code, space)
    finally:
        space["con"].close()


pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def test_it_is_as_the_real_one(language: Language) -> None:
    different = {
        code: told for code in SAME if len(set(told := (repr(_inside(language, code)), repr(_natively(code))))) > 1
    }
    if sys.version_info >= (3, 13):
        gc.collect()  # it warns of a database that was not closed, and that is to be here
    assert {
        code: (re.sub(r"0x\w+", "", here), re.sub(r"0x\w+", "", there)) for code, (here, there) in different.items()
    } == {}


@pytest.mark.parametrize("code", ERRORS)
def test_errors_are_of_the_same_kind(language: Language, code: str) -> None:
    with pytest.raises(Exception) as there:
        _natively(code)
    with pytest.raises(there.type):
        _inside(language, code)


REFUSED = [
    "ATTACH 'a.db' AS a", "ATTACH 'a' || '.db' AS a", "ATTACH 'file:a.db?mode=rwc' AS a", "VACUUM INTO 'a.db'", "SELECT load_extension('a')",
    "SELECT fts3_tokenizer('simple')", "CREATE VIRTUAL TABLE f USING fts5(x)", "CREATE VIRTUAL TABLE f USING rtree(a, b, c)", "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA temp_store = FILE", "PRAGMA writable_schema = ON", "PRAGMA trusted_schema = ON", "PRAGMA mmap_size = 1", "PRAGMA journal_mode = WAL",
    "PRAGMA schema_version = 1", "PRAGMA threads = 8", "PRAGMA cache_size = 1000000000", "PRAGMA hard_heap_limit = 1", "PRAGMA page_size = 512",
    "PRAGMA cell_size_check = OFF", "PRAGMA data_store_directory = '/tmp'",
]  # fmt: skip


@pytest.mark.parametrize("statement", REFUSED)
def test_what_leaves_the_database_is_refused(language: Language, statement: str) -> None:
    for how in (
        "con.execute(sql)",
        "con.executescript(sql)",
        "con.executemany(sql, [()])",
        "pd.read_sql(sql, con)",
        "con.cursor().execute(sql)",
    ):
        with pytest.raises(Exception) as raised:
            _inside(language, f"sql = {statement!r}\n{how}")
        assert type(raised.value).__name__ in ("NotAllowed", "ProgrammingError", "DatabaseError"), raised.value
        if how == "con.execute(sql)":
            assert type(raised.value).__name__ == "NotAllowed"


BUSY = [
    "con.create_function('f', 0, con.close)\ncon.execute('SELECT f() FROM t').fetchall()",
    "con.create_function('f', 0, lambda: con.execute('SELECT 1').fetchall() and 1)\ncon.execute('SELECT f()').fetchall()",
    "con.create_function('f', 0, lambda: con.create_function('f', 0, None))\ncon.execute('SELECT f()').fetchall()",
    "con.create_function('f', 0, lambda: con.rollback())\npd.read_sql('SELECT f() FROM t', con)",
    "cur = con.cursor()\ncon.create_function('f', 1, lambda v: cur.close())\ncur.execute('SELECT f(id) FROM t').fetchall()",
    "con.create_collation('c', lambda a, b: con.close() or 0)\ncon.execute('SELECT * FROM t ORDER BY name COLLATE c').fetchall()",
    "def rows():\n    yield ('x',)\n    con.close()\n    yield ('y',)\ncon.executemany('INSERT INTO t (name) VALUES (?)', rows())",
    "class S:\n    def step(self, v): con.close()\n    def finalize(self): return 1\ncon.create_aggregate('s', 1, S)\ncon.execute('SELECT s(id) FROM t').fetchall()",
]


@pytest.mark.parametrize("code", BUSY)
def test_a_connection_in_use_is_used_by_nobody_else(language: Language, code: str) -> None:
    with pytest.raises(Exception) as raised:
        _inside(language, code)
    assert type(raised.value).__name__ in ("OperationalError", "ProgrammingError", "DatabaseError")


MADE = "con = sqlite3.connect('sales.db')\ncon.execute('CREATE TABLE t (a)')\ncon.execute('INSERT INTO t VALUES (1)')\ncon.commit()\ncon.close()"


def test_a_database_in_a_file_is_there_for_later_code(sandbox: Sandbox) -> None:
    first = sandbox.run(f"import sqlite3\n{MADE}\npd.read_sql('SELECT a FROM t', sqlite3.connect('sales.db')).a.sum()")
    assert (first.error, first.value) == (None, 1)
    [file] = first.files
    later = sandbox.run(
        "import sqlite3\nwith sqlite3.connect('sales.db') as con:\n    con.execute('INSERT INTO t VALUES (5)')\ncon.execute('SELECT sum(a) FROM t').fetchone()[0]",
        files={file.name: file.data},
    )
    assert (later.error, later.value) == (None, 6)
    lost = sandbox.run(
        "import sqlite3\ncon = sqlite3.connect('sales.db')\ncon.execute('INSERT INTO t VALUES (9)')\ncon.close()",
        files={file.name: file.data},
    )
    assert lost.files == ()


def test_a_file_that_is_no_database_or_has_virtual_tables_is_refused(language: Language, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "v.db") as real:
        real.execute("CREATE VIRTUAL TABLE f USING rtree(a, b, c)")
    whole = (tmp_path / "v.db").read_bytes()
    for data, kind in ((b"x" * 5000, "DatabaseError"), (whole, "NotAllowed"), (whole[:3000], "DatabaseError")):
        space = language.space({}, files={"v.db": data})
        with pytest.raises(Exception) as raised:
            language.execute(
                language.compile("import sqlite3\nsqlite3.connect('v.db').execute('SELECT 1')"), space, io.StringIO()
            )
        assert type(raised.value).__name__ == kind


def test_a_statement_without_end_meets_the_limits_of_a_run(sandbox: Sandbox) -> None:
    made = "import sqlite3\ncon = sqlite3.connect(':memory:')\n"
    big = sandbox.run(made + "con.execute('SELECT zeroblob(900000000)').fetchall()")
    assert big.error is not None and "too big" in big.error.message
