"""An engine's store of each kind, and what other programs see of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy
from s3server import S3
from sqlalchemy import text

from byref import Engine, Session
from byref.db import integrity
from byref.stores import BlobStore, FileStore, ObjectStore

TOOLS = (
    "code_interpreter",
    "artifact_jq",
    "artifact_grep",
    "artifact_read",
    "list_artifacts",
    "get_artifact",
    "store_artifact",
    "retrieve_offloaded_content",
)
NOW = timedelta(0)
"""No grace."""


def records(count: int = 3_000) -> list[dict[str, Any]]:
    """Flat records, one in fifty an admin."""
    return [{"id": i, "name": f"user {i}", "role": "admin" if i % 50 == 7 else "user"} for i in range(count)]


def log(lines: int = 5_000, word: str = "user") -> str:
    """Lines of text that differ, one in fifty an admin's."""
    return "".join(f"{i} {'admin' if i % 50 == 7 else word} signed in\n" for i in range(1, lines + 1))


PNG = b"\x89PNG\r\n\x1a\n".ljust(100_000, b"\x07")
PDF = b"%PDF-1.7\n".ljust(120_000, b"\x01")


def as_bytes(value: object) -> bytes:
    """What is stored of a text or of records."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    lines = [json.dumps(row, separators=(",", ":")) for row in value]  # type: ignore[attr-defined]
    return ("[" + ",\n".join(lines) + "]").encode()


@dataclass
class Placed:
    """A store, a second handle on the same place, and how other programs read a `location` of it."""

    kind: str
    store: Any
    again: Callable[[], BlobStore]
    outside: Callable[[str], tuple[bytes, str]] | None
    """From a location to (bytes, content type); None where nothing outside the process can."""
    folder: Path | None = None

    @property
    def keys(self) -> set[str]:
        """Of all objects that are there."""
        return keys_of(self.store)


def keys_of(store: BlobStore) -> set[str]:
    """The keys of all objects of a store."""
    return set(store.keys(older_than=datetime.now(UTC) + timedelta(days=1)))


def files_at(folder: Path) -> Placed:
    """A store of files."""

    def outside(location: str) -> tuple[bytes, str]:
        path = Path(location)
        kept = json.loads((path.parent / f".{path.name}.metadata.json").read_text())
        return path.read_bytes(), kept[path.name]

    return Placed("files", FileStore(folder), lambda: FileStore(folder), outside, folder)


def bucket_at(server: S3, bucket: str, **settings: Any) -> Placed:
    """A store of objects under a prefix."""

    def opened() -> ObjectStore:
        options = {**server.settings, "retry_config": QUICK_RETRIES, **settings}
        return ObjectStore(f"s3://{bucket}", prefix="tool-results", **options)

    def outside(location: str) -> tuple[bytes, str]:
        assert location.startswith(f"s3://{bucket}/tool-results/")
        status, headers, body = server.request("GET", location.removeprefix("s3:/"))
        assert status == 200
        return body, headers["content-type"]

    return Placed("s3", opened(), opened, outside)


QUICK_RETRIES = {"max_retries": 1, "backoff": {"init_backoff": timedelta(milliseconds=5)}}


class Wrapped:
    """A store of the test's own around another: counts calls, and fails when it is told to."""

    def __init__(self, store: BlobStore) -> None:
        self.inner = store
        self.name, self.compresses = store.name, store.compresses
        self.reads: list[tuple[int, int]] = []
        self.calls = 0
        self.before: Callable[[int, str], None] = lambda number, verb: None
        self.after: Callable[[int, str], None] = lambda number, verb: None

    def _call(self, verb: str, work: Callable[[], Any]) -> Any:
        self.calls += 1
        number = self.calls
        self.before(number, verb)
        result = work()
        self.after(number, verb)
        return result

    def write(self, key: str, parts: Any, *, content_type: str) -> None:
        self._call("write", lambda: self.inner.write(key, parts, content_type=content_type))

    def read(self, key: str, offset: int, size: int) -> bytes:
        self.reads.append((offset, size))
        data: bytes = self._call("read", lambda: self.inner.read(key, offset, size))
        return data

    def delete(self, keys: Sequence[str]) -> None:
        self._call("delete", lambda: self.inner.delete(keys))

    def keys(self, *, older_than: datetime) -> Iterator[str]:
        listed: Iterator[str] = self._call("keys", lambda: self.inner.keys(older_than=older_than))
        return listed

    def uri(self, key: str) -> str | None:
        return self.inner.uri(key)


def problems(url: str, store: BlobStore | None, grace: timedelta = NOW) -> list[str]:
    """What a deep look at everything finds."""
    return [str(problem) for problem in integrity.examine(url, deep=True, grace=grace, blobs=store).problems]


def count(url: str, table: str) -> int:
    """Rows of a table."""
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            return int(connection.execute(text(f"SELECT count(*) FROM byref_{table}")).scalar_one())
    finally:
        engine.dispose()


def answer(session: Session, tool: str, **arguments: Any) -> str:
    """What one of the session's own tools answers, which is no error."""
    reply = session.call(tool, arguments)
    assert not reply.is_error, reply.content
    assert isinstance(reply.content, str)
    return reply.content


@dataclass
class Opened:
    """Engines of one database and one store, closed at the end of the test."""

    url: str
    sandbox: Any
    engines: list[Engine] = field(default_factory=list)

    def __call__(self, store: BlobStore | None, **settings: Any) -> Engine:
        self.engines.append(Engine(self.url, blobs=store, interpreter=self.sandbox, **settings))
        return self.engines[-1]
