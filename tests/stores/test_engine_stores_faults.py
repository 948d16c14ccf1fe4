"""Stores that fail, and crashes between any two steps: the turn goes on, nothing is lost, and a sweep leaves nothing behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import count as count_from
from pathlib import Path
from typing import Any

import pytest
from own_store import DictStore
from placed import NOW, PNG, TOOLS, Opened, Wrapped, answer, bucket_at, count, files_at, keys_of, log, problems, records
from s3server import S3, Faults
from sqlalchemy import create_engine, text

from byref import ArtifactMissing, Engine, Policy, StorageFailure
from byref.errors import InvalidId
from byref.ingest.streams import COLLECTED
from byref.stores import BlobStore, FileStore, MemoryStore, check_key
from byref_sandbox import Sandbox


class Crash(BaseException):
    """The process is gone."""


class Fuse:
    """Counts the steps that leave a trace, and stops at one: before it, or when it is done.

    A step may have others inside: while an object is written, rows say that more of it is to come.
    """

    def __init__(self, store: Wrapped, engine: Engine) -> None:
        self.steps, self.stop_at, self.when = 0, 0, "before"
        self.error: Callable[[], BaseException] = Crash
        self.is_dead = False
        """After a crash nothing more happens."""
        begun: list[int] = []
        store.before = lambda number, verb: begun.append(self._before())
        store.after = lambda number, verb: self._after(begun.pop())
        database = engine.database
        write = database.write

        def watched(work: Any) -> Any:
            step = self._before()
            result = write(work)
            self._after(step)
            return result

        database.write = watched  # type: ignore[method-assign]

    def remove(self, store: Wrapped, engine: Engine) -> None:
        """Let everything through again."""
        store.before = store.after = lambda number, verb: None
        del engine.database.write  # type: ignore[method-assign]

    def _before(self) -> int:
        if self.is_dead:
            raise Crash
        self.steps += 1
        if self.steps == self.stop_at and self.when == "before":
            self._stop()
        return self.steps

    def _after(self, step: int) -> None:
        if step == self.stop_at and self.when == "after":
            self._stop()

    def _stop(self) -> None:
        error = self.error()
        self.is_dead = isinstance(error, Crash)
        raise error


def parts() -> Iterator[bytes]:
    """A stream that is longer than what is collected in memory."""
    piece = log(50_000).encode()
    for i in range(2 + COLLECTED // len(piece)):
        yield piece + b"%d\n" % i


def process(engine: Engine) -> None:
    engine.session("new", tools=TOOLS).process(records(2_500), tool="users", call_id="a")


def blocks(engine: Engine) -> None:
    policy = Policy.previews()
    output = [{"text": log(2_000)}, {"json": {"rows": records(2_000)}}]
    engine.session("new", tools=TOOLS, policy=policy).process(output, tool="users")


def stores(engine: Engine) -> None:
    engine.session("new", tools=TOOLS).store_artifact(log(4_000), name="log")


def streams(engine: Engine) -> None:
    engine.session("new", tools=TOOLS).store_artifact(parts(), name="stream")


def repeats(engine: Engine) -> None:
    engine.session("new", tools=TOOLS).process(records(), tool="users")


def ends(engine: Engine) -> None:
    engine.session("doomed").end()


def deletes(engine: Engine) -> None:
    engine.delete_session("doomed")


def deletes_tenant(engine: Engine) -> None:
    engine.delete_tenant("short")


def sweeps(engine: Engine) -> None:
    engine.sweep(grace=NOW)


ACTS = [process, blocks, streams, repeats, deletes, deletes_tenant, sweeps]


def prepare(engine: Engine, store: BlobStore) -> None:
    """What lives on, what is to go, and what has gone but for its object."""
    engine.session("old", tools=TOOLS).process(records(), tool="users")
    engine.session("doomed", tools=TOOLS).store_artifact(PNG, content_type="image/png")
    engine.session("s", tenant="short").store_artifact(log())
    before = keys_of(store)
    engine.session("gone").store_artifact("only here")
    [key] = keys_of(store) - before
    database = create_engine(engine.url)
    with database.begin() as connection:
        for statement in (
            "DELETE FROM byref_frames WHERE blob_id = (SELECT id FROM byref_blobs WHERE key = :key)",
            "DELETE FROM byref_artifacts WHERE blob_id = (SELECT id FROM byref_blobs WHERE key = :key)",
            "DELETE FROM byref_blobs WHERE key = :key",
            "INSERT INTO byref_discards (store, key) VALUES ('files', :key)",
        ):
            connection.execute(text(statement), {"key": key})
    database.dispose()


def consistent(url: str, store: BlobStore, engine: Engine) -> None:
    """After one sweep there is exactly what is referred to."""
    engine.sweep(grace=NOW)
    assert problems(url, store) == []
    database = create_engine(url)
    with database.connect() as connection:
        known = set(connection.execute(text("SELECT key FROM byref_blobs WHERE store IS NOT NULL")).scalars())
        unused = "SELECT count(*) FROM byref_blobs WHERE id NOT IN (SELECT blob_id FROM byref_artifacts)"
        assert connection.execute(text(unused)).scalar_one() == 0
        assert connection.execute(text("SELECT count(*) FROM byref_discards")).scalar_one() == 0
    database.dispose()
    assert keys_of(store) == known
    assert engine.session("old").artifacts()[0].value == records()
    for name in ("new", "doomed"):
        for artifact in engine.session(name).artifacts():
            assert len(artifact.payload.read()) == artifact.payload.size
    if (last := engine.session("new").artifacts()) and last[-1].name == "stream":
        assert last[-1].payload.read() == b"".join(parts())


ERRORS: dict[str, Callable[[], BaseException]] = {
    "crash": Crash,
    "storage": lambda: StorageFailure("the store is down"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "error", "stride"),
    [
        (stores, "crash", 3),
        *(pytest.param(act, error, 1, marks=pytest.mark.slow) for act in (stores, ends, *ACTS) for error in ERRORS),
    ],
)
def test_stopped_at_any_step(
    act: Callable[[Engine], None], error: str, stride: int, migrated_sqlite: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    shutil.copy(migrated_sqlite, begun / "byref.db")
    with Engine(f"sqlite:///{begun}/byref.db", interpreter=sandbox, blobs=FileStore(begun / "blobs")) as engine:
        prepare(engine, FileStore(begun / "blobs"))
    stopped = tried = steps = 0
    for step in count_from(1, stride):
        tried += 2
        for when in ("before", "after"):
            folder = shutil.copytree(begun, tmp_path / f"{step} {when}")
            url, store = f"sqlite:///{folder}/byref.db", FileStore(folder / "blobs")
            wrapped = Wrapped(store)
            with Engine(url, interpreter=sandbox, blobs=wrapped) as engine:
                fuse = Fuse(wrapped, engine)
                fuse.stop_at, fuse.when, fuse.error = step, when, ERRORS[error]
                try:
                    act(engine)
                except (Crash, StorageFailure):
                    stopped += 1
                steps = fuse.steps
                fuse.remove(wrapped, engine)
            with Engine(url, interpreter=sandbox, blobs=store) as engine:
                consistent(url, store, engine)
                act(engine)
                consistent(url, store, engine)
            shutil.rmtree(folder)
        if steps < step:
            break
    assert stopped >= (tried - 2 if error == "crash" else 1), (stopped, tried)


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
def test_healing_stopped_at_any_step(error: str, opened: Opened, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "blobs")
    with Engine(opened.url, interpreter=opened.sandbox, blobs=store) as engine:
        repeats(engine)
        engine.session("old", tools=TOOLS).process(records(), tool="users")
        for step in count_from(1):
            for when in ("before", "after"):
                store.delete(sorted(keys_of(store)))
                wrapped = Wrapped(store)
                with Engine(opened.url, interpreter=opened.sandbox, blobs=wrapped) as hurt:
                    fuse = Fuse(wrapped, hurt)
                    fuse.stop_at, fuse.when, fuse.error = step, when, ERRORS[error]
                    with suppress(Crash, StorageFailure):
                        repeats(hurt)
                    steps = fuse.steps
                    fuse.remove(wrapped, hurt)
                engine.sweep(grace=NOW)
                repeats(engine)
                consistent(opened.url, store, engine)
            if steps < step:
                break
    assert step > 5


def is_empty(url: str, store: BlobStore, engine: Engine) -> None:
    """Nothing was half-written: after a sweep there is no row and no object."""
    engine.sweep(grace=NOW)
    assert keys_of(store) == set()
    assert {table: count(url, table) for table in ("artifacts", "blobs", "frames", "discards")} == {
        "artifacts": 0,
        "blobs": 0,
        "frames": 0,
        "discards": 0,
    }
    assert problems(url, store) == []


QUICK = {"client_options": {"allow_http": True, "timeout": "300ms", "connect_timeout": "300ms"}}


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["503", "403", "stall", "cut request", "lose answer"])
@pytest.mark.parametrize("output", [records(), log()], ids=["records", "text"])
def test_a_server_that_is_down_while_an_output_is_taken_in(
    fault: str, output: object, s3: S3, faulty_s3: tuple[S3, Faults], opened: Opened
) -> None:
    server, faults = faulty_s3
    bucket = s3.bucket()
    engine = opened(bucket_at(server, bucket, **QUICK).store)
    direct = bucket_at(s3, bucket).store
    for policy in (Policy(plaintext="truncate"), Policy(plaintext="truncate", on_storage_failure="raise")):
        session = engine.session(policy.on_storage_failure, tools=TOOLS, policy=policy)
        for method in ("PUT", "POST"):
            faults.plan(method, *[fault] * 10)
        if policy.on_storage_failure == "raise":
            with pytest.raises(StorageFailure, match="the store 's3:"):
                session.process(output, tool="users")
        else:
            result = session.process(output, tool="users")
            assert (result.route, result.reason) == ("truncate", "storage_failure")
            assert "INCOMPLETE" in result.content and result.tokens < 3_000
        faults.planned.clear()
    is_empty(opened.url, direct, engine)
    assert engine.session("truncate").process(output, tool="users").reason != "storage_failure"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["503", "stall", "cut answer", "lose answer"])
def test_a_server_that_is_down_while_it_is_read(fault: str, faulty_s3: tuple[S3, Faults], opened: Opened) -> None:
    server, faults = faulty_s3
    session = opened(bucket_at(server, server.bucket(), **QUICK).store).session("down", tools=TOOLS)
    [artifact] = session.process(records(), tool="users").artifacts
    for tool, arguments in (
        ("artifact_read", {"artifact_id": artifact.id}),
        ("artifact_grep", {"artifact_id": artifact.id, "pattern": "admin"}),
        ("artifact_jq", {"artifact_id": artifact.id, "expression": "map(.id) | add"}),
        ("code_interpreter", {"code": "len(users)"}),
    ):
        faults.plan("GET", *[fault] * 8)
        reply = session.call(tool, arguments)
        faults.planned.clear()
        assert reply.is_error and "try" in reply.content and "later" in reply.content, (tool, reply.content)
    faults.plan("GET", *[fault] * 8)
    with pytest.raises(StorageFailure):
        _ = artifact.value
    faults.planned.clear()
    assert artifact.value == records()
    assert answer(session, "artifact_jq", artifact_id=artifact.id, expression="length") == "3000"


class Down(MemoryStore):
    """A store that is out of reach for a while, or fails in a way of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None
        self.failing = ("write", "read", "delete", "keys", "uri")

    def _try(self, verb: str) -> None:
        if self.error is not None and verb in self.failing:
            raise self.error

    def write(self, key: str, parts: Any, *, content_type: str) -> None:
        self._try("write")
        super().write(key, parts, content_type=content_type)

    def read(self, key: str, offset: int, size: int) -> bytes:
        self._try("read")
        return super().read(key, offset, size)

    def delete(self, keys: Sequence[str]) -> None:
        self._try("delete")
        super().delete(keys)

    def keys(self, *, older_than: datetime) -> Iterator[str]:
        self._try("keys")
        return super().keys(older_than=older_than)


def test_a_store_that_is_down_when_objects_are_to_go(opened: Opened) -> None:
    store = Down()
    engine = opened(store)
    for name in ("a", "b", "c"):
        engine.session(name, tenant="acme", tools=TOOLS).store_artifact(log() + name)
    store.error = StorageFailure("the store 'memory' is away")
    with pytest.raises(StorageFailure, match=r"session 'a' is deleted.*'memory'.*`sweep`.*is away"):
        engine.delete_session("a", tenant="acme")
    assert [info.id for info in engine.sessions("acme")] == ["b", "c"]
    engine.session("b", tenant="acme").end()
    with pytest.raises(StorageFailure, match=r"tenant 'acme' is deleted.*'memory'"):
        engine.delete_tenant("acme")
    with pytest.raises(StorageFailure, match="is swept"):
        engine.sweep(grace=NOW)
    assert (count(opened.url, "discards"), count(opened.url, "blobs"), len(store._objects)) == (3, 0, 3)
    assert engine.sessions("acme") == []
    store.error = None
    assert engine.sweep().objects == 3
    is_empty(opened.url, store, engine)


ODD = [
    OSError(28, "No space left"),
    TypeError("odd"),
    KeyError("x"),
    InvalidId("no"),
    ValueError(),
    RecursionError(),
    MemoryError(),
]


@pytest.mark.parametrize(
    "error",
    [*ODD[:3], *(pytest.param(error, marks=pytest.mark.slow) for error in ODD[3:])],
    ids=lambda error: type(error).__name__,
)
def test_a_store_with_errors_of_its_own(error: Exception, opened: Opened) -> None:
    store = Down()
    engine = opened(store)
    session = engine.session(type(error).__name__, tools=TOOLS)
    kept = session.process(records(), tool="users").artifacts[0]
    store.error = error
    result = session.process(records(2_000), tool="users")
    assert (result.route, result.reason) == ("truncate", "storage_failure")
    assert session.process(records(), tool="users").reason == "storage_failure"
    with pytest.raises(StorageFailure, match=f"'memory'.*{type(error).__name__}"):
        session.store_artifact(log())
    reply = session.call("artifact_read", {"artifact_id": kept.id})
    assert reply.is_error and "later" in reply.content
    with pytest.raises(StorageFailure):
        session.resolve({"rows": "$users"})
    with pytest.raises(StorageFailure):
        engine.sweep(grace=NOW)
    session.end()
    store.error = None
    is_empty(opened.url, store, engine)


class Lying(MemoryStore):
    """Gives too little, too much, or what is no bytes at all."""

    lie: Any = None

    def read(self, key: str, offset: int, size: int) -> bytes:
        data = super().read(key, offset, size)
        return data if self.lie is None else self.lie(data)  # type: ignore[no-any-return]

    def uri(self, key: str) -> Any:
        check_key(key)
        return self.lie and self.lie(b"bytes")


@pytest.mark.parametrize(
    "lie",
    [lambda data: None, lambda data: data[:-1], lambda data: data + b"x", lambda data: "text", lambda data: 7],
    ids=["none", "short", "long", "text", "number"],
)
def test_a_store_that_gives_something_else(lie: Any, opened: Opened) -> None:
    store = Lying()
    session = opened(store).session(str(id(lie)), tools=TOOLS)
    [artifact] = session.process(records(), tool="users").artifacts
    store.lie = lie
    assert session.call("artifact_read", {"artifact_id": artifact.id}).is_error
    assert session.call("code_interpreter", {"code": "len(users)"}).is_error
    with pytest.raises((ArtifactMissing, StorageFailure)):
        _ = artifact.value
    assert session.process(records(2_000), tool="users").content


class Lazy(MemoryStore):
    """Says that it wrote, and took nothing, or the beginning."""

    takes = 0

    def write(self, key: str, parts: Any, *, content_type: str) -> None:
        taken = [part for _, part in zip(range(self.takes), parts, strict=False)]
        super().write(key, taken, content_type=content_type)


@pytest.mark.parametrize("takes", [0, 1])
def test_a_store_that_does_not_take_everything(takes: int, opened: Opened) -> None:
    store = Lazy()
    store.takes = takes
    engine = opened(store)
    session = engine.session("s", tools=TOOLS)
    assert session.process(records(60_000), tool="users").reason == "storage_failure"
    with pytest.raises(StorageFailure, match="only a part"):
        session.store_artifact(parts())
    is_empty(opened.url, store, engine)


def test_odd_places_are_not_shown(opened: Opened) -> None:
    class Odd(MemoryStore):
        compresses = False
        where: Any = None

        def uri(self, key: str) -> Any:
            if isinstance(self.where, Exception):
                raise self.where
            return self.where

    store = Odd()
    session = opened(store).session("s", tools=TOOLS)
    for number, where in enumerate((7, b"x", "a\nb", "x" * 10_000, RuntimeError("odd"), "\udcff", "")):
        store.where = where
        result = session.process(records(2_000 + number), tool="users")
        assert result.route == "variables" and result.artifacts[0].location in (None, "")
        result.content.encode()


def test_writing_too_slowly(opened: Opened) -> None:
    """A sweep takes the row while the object is being written: nothing is left, and the host is told."""

    class Slow(MemoryStore):
        engine: Any = None

        def write(self, key: str, parts: Any, *, content_type: str) -> None:
            if self.engine is not None:
                self.engine.sweep(grace=NOW)
            super().write(key, parts, content_type=content_type)

    store = Slow()
    engine = store.engine = opened(store)
    session = engine.session("s", tools=TOOLS)
    with pytest.raises(StorageFailure, match="too slowly"):
        session.store_artifact(parts())
    assert keys_of(store) == set()
    assert session.process(records(), tool="users").reason == "storage_failure"
    store.engine = None
    is_empty(opened.url, store, engine)


def test_a_store_of_ones_own(opened: Opened) -> None:
    store = DictStore()
    engine = opened(store)
    session = engine.session("own", tools=TOOLS)
    [artifact] = session.process(records(), tool="users").artifacts
    assert artifact.value == records() and len(store.objects) == 1
    assert answer(session, "artifact_jq", artifact_id=artifact.id, expression=".[-1].id") == "2999"
    assert answer(session, "code_interpreter", code="len(users)").strip() == "3000"
    assert problems(opened.url, store) == []
    session.end()
    is_empty(opened.url, store, engine)


def test_a_long_absence_costs_the_turn_little(tmp_path: Path, opened: Opened) -> None:
    """The folder is unmounted: outputs go on, and what was there is there again when it comes back."""
    placed = files_at(tmp_path / "blobs")
    engine = opened(placed.store)
    session = engine.session("unmounted", tools=TOOLS)
    [artifact] = session.process(records(), tool="users").artifacts
    (tmp_path / "blobs").rename(tmp_path / "away")
    for _ in range(3):
        assert session.process(records(2_000), tool="users").reason == "storage_failure"
    assert session.process("small", tool="t").content == "small"
    assert session.call("artifact_read", {"artifact_id": artifact.id}).is_error
    (tmp_path / "away").rename(tmp_path / "blobs")
    assert artifact.value == records()
    assert session.process(records(2_000), tool="users").artifacts[0].value == records(2_000)
    engine.sweep(grace=NOW)
    assert problems(opened.url, placed.store) == [] and len(placed.keys) == 2
