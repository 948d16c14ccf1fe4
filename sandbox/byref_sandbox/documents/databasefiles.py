"""SQLite files: the rows of each table.

The file is opened over its bytes, without a disk. It may hold views that never end, triggers, virtual tables, and columns that are
computed: nothing of that is run. An authorizer lets a query read columns of tables, and nothing else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from byref_sandbox import wire
from byref_sandbox.documents.building import NotATable, Records, batches, check_width
from byref_sandbox.documents.inflating import Room

MAX_TABLES: Final = 1_000
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})
_PRAGMAS: Final = frozenset({"table_xinfo", "encoding"})
_WRITE_AHEAD: Final = 2
_ROLLBACK: Final = 1
_MAX_CELL: Final = 64 << 20
_LIMITS: Final = (
    (sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 4 << 20),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 50),
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)
_KINDS: Final = {
    "view": "a view: its query is not run",
    "virtual": "a virtual table: its module is not run",
    "shadow": "a part of a virtual table",
}


def read(data: bytes, room: Room) -> Iterator[wire.Frame]:
    """Yield the tables of a SQLite file; raise NotATable."""
    notes = []
    if data[18:20] == bytes([_WRITE_AHEAD] * 2):
        # SQLite looks for the journal beside a file of this mode, and there is none beside bytes.
        data = data[:18] + bytes([_ROLLBACK] * 2) + data[20:]
        notes.append("the file has a write-ahead log beside it, which is not read: the last changes may be there")
    database = sqlite3.connect(":memory:", cached_statements=0)
    try:
        for limit, most in _LIMITS:
            database.setlimit(limit, most)
        database.deserialize(data)
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "temp_store=MEMORY", "query_only=ON"):
            database.execute(f"PRAGMA {pragma}")
        database.text_factory = _Text
        virtual = _virtual(database)
        listed = [
            *database.execute(
                "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid"
            )
        ]
        database.set_authorizer(_authorize)
        yield from _tables(database, listed, virtual, room, notes)
    except sqlite3.Error as error:
        raise NotATable(f"it is no SQLite file that can be read: {error}") from None
    finally:
        database.close()


def _authorize(action: int, first: str | None, _second: str | None, _database: str | None, _source: str | None) -> int:
    if action in _ALLOWED or (action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _virtual(database: Any) -> dict[str, str]:
    """Return which tables are virtual, or are where a virtual one keeps its rows."""
    try:
        return {
            _text(row[1]): _text(row[2])
            for row in database.execute("PRAGMA table_list")
            if row[2] in (b"virtual", b"shadow")
        }
    except sqlite3.Error:  # a module of a virtual table that is not here
        return {}


def _tables(
    database: Any, listed: list[tuple[Any, Any, Any]], virtual: dict[str, str], room: Room, notes: list[str]
) -> Iterator[wire.Frame]:
    number = 0
    for given, kind, sql in listed:
        name, kind, sql = _text(given), _text(kind), _text(sql or b"")
        if name.lower().startswith("sqlite_"):
            continue
        kind = virtual.get(name, kind)
        if kind == "table" and sql.lstrip()[:50].upper().split()[:2] == ["CREATE", "VIRTUAL"]:
            kind = "virtual"
        if kind in _KINDS:
            yield wire.LeftOut(name, _KINDS[kind])
            continue
        number += 1
        if number > MAX_TABLES:
            yield wire.LeftOut(name, f"one of more than {MAX_TABLES:,} tables, of which the first are read")
            return
        try:
            yield _table(database, name, room, notes)
        except sqlite3.Error as error:
            yield wire.LeftOut(name, f"it cannot be read: {error}")
        except NotATable as error:
            yield wire.LeftOut(name, str(error))


def _table(database: Any, name: str, room: Room, notes: list[str]) -> wire.Table:
    quoted = _quoted(name)
    described = [*database.execute(f"PRAGMA table_xinfo({quoted})")]
    check_width(len(described))
    # Of hidden columns 2 and 3 are computed: their expressions are not run.
    columns = [_text(column[1]) for column in described if column[6] == 0]
    computed = [_text(column[1]) for column in described if column[6] in (2, 3)]
    if not columns:
        raise NotATable("it has no columns that are stored")
    notes = [*notes, *([f"computed columns are left out: {', '.join(computed)}"] if computed else [])]
    records = Records(columns, room.left, as_they_are=True)
    for rows in batches(database.execute(f"SELECT {', '.join(map(_quoted, columns))} FROM {quoted} NOT INDEXED")):
        records.add([[_shown(cell, records) for cell in row] for row in rows])
    return records.table(name, name, notes=notes)


class _Text(bytes):
    """A text, where SQLite gives blobs as bytes."""


def _shown(cell: Any, records: Records) -> Any:
    if type(cell) is _Text:
        return cell.decode("utf-8", "backslashreplace")
    return records.shown(cell) if type(cell) is bytes else cell


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
