"""Streams into SQL and into a store: slow ones are not swept, cancelled ones leave nothing in the host's transaction."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from placed import NOW, Opened, Placed, count, problems
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncSession as HostSession
from sqlalchemy.ext.asyncio import create_async_engine

from byref import AsyncEngine, Engine, StorageFailure
from byref.artifacts import staging
from byref.artifacts.staging import Place
from byref.stores import BlobStore, FileStore, MemoryStore

PIECE = "some line of text\n" * 60_000


QUICK = [
    ("aiosqlite", "sql", True),
    ("aiosqlite", "files", False),
    ("asyncpg", "sql", False),
    ("asyncpg", "files", True),
    ("asyncpg repeatable", "sql", True),
]


def left(url: str) -> dict[str, int]:
    return {table: count(url, table) for table in ("artifacts", "blobs", "frames")}


NOTHING = {"artifacts": 0, "blobs": 0, "frames": 0}


class Sweeping:
    """Sweeps with little grace, all the time."""

    def __init__(self, engine: Engine, grace: timedelta) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(engine, grace))

    def _run(self, engine: Engine, grace: timedelta) -> None:
        while not self._ended.wait(0.05):
            engine.sweep(grace=grace)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture(params=["sql", "memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore | None:
    return {"sql": None, "memory": MemoryStore(), "files": FileStore(tmp_path / "blobs")}[request.param]


@pytest.mark.slow
def test_a_slow_stream_is_not_swept(store: BlobStore | None, opened: Opened) -> None:
    """It takes three times the grace; eight frames of it take half."""

    def slowly() -> Iterator[str]:
        for i in range(40):
            time.sleep(0.075)
            yield f"{i}\n{PIECE}"

    engine = opened(store)
    with Sweeping(engine, timedelta(seconds=1.2)):
        artifact = engine.session("s").store_artifact(slowly())
    assert artifact.size_bytes == 40 * len(PIECE) + sum(len(f"{i}\n") for i in range(40))
    assert problems(opened.url, store) == []


@pytest.mark.slow
def test_a_stream_of_few_bytes_is_not_swept(
    store: BlobStore | None, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on for long after its beginning, and is no frame in all that time."""
    monkeypatch.setattr(staging, "PUT_OFF_SECONDS", 0.1)

    def slowly() -> Iterator[bytes]:
        for _ in range(9):
            yield PIECE.encode()
        for _ in range(40):
            time.sleep(0.05)
            yield b"a line\n"

    engine = opened(store)
    place = Place(engine.database.write, "default", store)
    with Sweeping(engine, timedelta(seconds=0.7)):
        staged = staging.stage_stream(place, slowly(), "text/plain")
    assert (staged.size, count(opened.url, "blobs")) == (9 * len(PIECE) + 40 * 7, 1)


def test_what_sweeps_take_is_told_before_all_of_it_came(placed: Placed, opened: Opened) -> None:
    engine = opened(placed.store)
    given = 0

    def swept() -> Iterator[bytes]:
        nonlocal given
        for given in range(100):
            if given == 3:
                engine.sweep(grace=NOW)
            yield PIECE.encode()

    with pytest.raises(StorageFailure, match="swept"):
        staging.stage_stream(Place(engine.database.write, "default", placed.store), swept(), "text/plain")
    assert given < 30 and placed.keys == set() and left(opened.url) == NOTHING


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("driver", "kind", "commits"),
    [
        pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow)
        for case in product(("aiosqlite", "asyncpg", "asyncpg repeatable"), ("sql", "files"), (True, False))
    ],
)
def test_a_cancelled_stream_leaves_nothing_in_the_hosts_transaction(
    request: pytest.FixtureRequest, driver: str, kind: str, commits: bool, tmp_path: Path
) -> None:
    store = FileStore(tmp_path / "blobs") if kind == "files" else None
    driver, _, repeatable = driver.partition(" ")
    url: str = request.getfixturevalue("sqlite_url" if driver == "aiosqlite" else "postgres_url")
    parsed = make_url(url)
    settings: dict[str, Any] = {"isolation_level": "REPEATABLE READ"} if repeatable else {}

    async def work() -> None:
        stopped = asyncio.Event()

        async def hangs() -> AsyncIterator[str]:
            for i in range(22):
                yield f"{i}\n{PIECE}"
            stopped.set()
            await asyncio.sleep(3600)

        host_engine = create_async_engine(parsed.set(drivername=f"{parsed.get_backend_name()}+{driver}"), **settings)
        async with AsyncEngine(url, blobs=store) as engine:
            await engine.session("s")
            async with HostSession(host_engine) as host:
                await host.execute(text("CREATE TABLE theirs (x integer)"))
                session = await engine.session("s", db=host)
                call = asyncio.ensure_future(session.process(hangs(), tool="t"))
                async with asyncio.timeout(10):
                    await stopped.wait()
                await asyncio.sleep(0.3)  # for what has come to be written
                call.cancel()
                started = time.monotonic()
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert time.monotonic() - started < 2
                await host.execute(text("INSERT INTO theirs VALUES (1)"))
                result = await session.process("small", tool="t")
                assert result.route == "inline"
                await (host.commit() if commits else host.rollback())
                if commits:
                    assert (await host.execute(text("SELECT x FROM theirs"))).scalar_one() == 1
        await host_engine.dispose()

    asyncio.run(work())
    assert left(url) == NOTHING
    with Engine(url, blobs=store) as engine:
        engine.sweep(grace=NOW)
        assert count(url, "discards") == 0 and problems(url, store) == []
