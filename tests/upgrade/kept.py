"""The databases of released revisions, unpacked."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import zstandard
from sqlalchemy import create_engine, make_url

FOLDER = Path(__file__).parent / "databases"
RELEASED = sorted(path.name for path in FOLDER.iterdir())
"""Revisions that were the head of a release."""


@dataclass(frozen=True)
class Kept:
    """A database as that release left it, and what it wrote down of it."""

    revision: str
    url: str
    blobs: Path
    told: dict[str, list[dict[str, Any]]]
    """Outputs, replies and what expired: see `story.Told`."""
    read: dict[str, Any]
    """See `reading.observe`."""
    figures: dict[str, int]


def unpacked(revision: str, url: str, folder: Path) -> Kept:
    """Restore a database into an empty one, and its store's folder."""
    kind = make_url(url).get_backend_name()
    if kind == "sqlite":
        Path(make_url(url).database or "").write_bytes(_data(revision, "sqlite.db"))
    else:
        with psycopg.connect(
            make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        ) as connection:
            connection.execute(_data(revision, "postgresql.sql").decode())
    blobs = folder / "blobs"
    with tarfile.open(fileobj=io.BytesIO(_data(revision, f"{kind}.blobs.tar"))) as tar:
        tar.extractall(blobs, filter="data")
    return Kept(revision, url, blobs, **json.loads(_data(revision, f"{kind}.json")))


def execute(url: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def _data(revision: str, name: str) -> bytes:
    packed = (FOLDER / revision / f"{name}.zst").read_bytes()
    return zstandard.ZstdDecompressor().decompress(packed)
