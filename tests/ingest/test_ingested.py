"""Streams too large to be collected are stored and described while they arrive, with the same result as whole outputs."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import mmap
import random
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
import zipfile
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from material import page, prose, records

from byref import (
    Artifact,
    AsyncEngine,
    CharCounter,
    ConfigurationError,
    Engine,
    Policy,
    QuotaExceeded,
    Session,
    SessionGone,
    StorageFailure,
    db,
)
from byref.artifacts import staging
from byref.ingest import ingested, streams
from byref.stores import FileStore, MemoryStore
from byref_sandbox import Sandbox

SMALL = 64 << 10
TEXT = prose(3_000_000)
ROWS = records(20_000)
JSON = json.dumps(ROWS)


@pytest.fixture(autouse=True)
def collecting_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingested, "COLLECTED", SMALL)


def pieces(whole: Any, seed: int = 1) -> Iterator[Any]:
    """Pieces of any length: cuts fall into characters, escapes and lines."""
    chance, at = random.Random(seed), 0
    while at < len(whole):
        size = chance.choice([0, 1, 7, 1_000, 60_000, 700_000])
        yield whole[at : at + size]
        at += size


def counted(engine: Engine, tenant: str, name: str, **policy: Any) -> Session:
    return engine.session(name, tenant=tenant, policy=Policy(**policy))


def described(artifact: Artifact) -> dict[str, Any]:
    """All that is known of a payload."""
    names = "value digest kind content_type size_bytes line_count shape schema preview"
    return {name: getattr(artifact, name) for name in names.split()}


@pytest.mark.parametrize("form", ["outline", "variables", "references", "pointers", "previews"])
@pytest.mark.parametrize("content", [TEXT, JSON, json.dumps(page(9_000))], ids=["text", "array", "object"])
def test_the_model_reads_what_it_would_of_the_whole(engine: Engine, tenant: str, form: str, content: str) -> None:
    policy = Policy(envelope_form=form)  # type: ignore[arg-type]
    whole = engine.session("whole", tenant=tenant, policy=policy).process(content, tool="t")
    session = engine.session("stream", tenant=tenant, policy=policy)
    streamed = session.process(pieces(content.encode()), tool="t")
    assert (streamed.route, streamed.reason) == (whole.route, whole.reason)
    assert streamed.original_tokens == pytest.approx(whole.original_tokens, rel=0.03)
    assert [v.name for v in streamed.variables] == [v.name for v in whole.variables]
    [kept], [same] = streamed.artifacts, whole.artifacts
    assert described(kept) == described(same)
    assert kept.payload.blob_id == same.payload.blob_id, "equal bytes are stored once"
    if whole.envelope is not None and "schema" in whole.envelope:
        assert streamed.envelope is not None
        assert streamed.envelope["schema"] == whole.envelope["schema"]


@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
def test_it_is_read_searched_and_queried(session: Session) -> None:
    session.process(pieces(JSON), tool="rows")
    code = "[len(rows), rows[12_345]['id']]"
    assert session.call("code_interpreter", {"code": code}).content == f"[{len(ROWS)},{ROWS[12_345]['id']}]"
    assert session.call("artifact_jq", {"artifact_id": "rows", "expression": "length"}).content == str(len(ROWS))
    assert session.resolve({"x": "$rows"}) == {"x": ROWS}


@pytest.mark.postgresql("equal bytes are found by a unique index")
def test_the_same_stream_again_is_answered_as_before_and_stored_once(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant)
    first = session.process(pieces(TEXT), tool="t", call_id="c")
    again = session.process(pieces(TEXT, seed=2), tool="t", call_id="c")
    assert (again.step, again.content) == (first.step, first.content)
    session.process(TEXT, tool="t", call_id="d")
    assert len({artifact.payload.blob_id for artifact in session.artifacts()}) == 1
    assert blobs(engine, tenant) == 1


def blobs(engine: Engine, tenant: str) -> int:
    from sqlalchemy import func, select

    from byref.db.tables import BlobRow

    query = select(func.count()).select_from(BlobRow).where(BlobRow.tenant == tenant)
    return int(engine.database.read(lambda connection: connection.execute(query).scalar_one()))


@pytest.mark.postgresql("foreign keys and what is deleted with what")
@pytest.mark.parametrize("after", [SMALL * 2, 2_500_000])
def test_a_stream_that_fails_midway_leaves_nothing(engine: Engine, tenant: str, after: int) -> None:
    session = engine.session("s", tenant=tenant)

    def failing() -> Iterator[str]:
        yield TEXT[:after]
        yield TEXT[:after]
        raise ConnectionError("the line is dead")

    for take in (lambda: session.process(failing(), tool="t"), lambda: session.store_artifact(failing())):
        with pytest.raises(ConnectionError, match="the line is dead"):
            take()
    assert (session.ledger(), session.artifacts(), blobs(engine, tenant)) == ([], [], 0)


def test_nothing_is_left_in_a_store_either(tmp_path: Path, sandbox: Sandbox) -> None:
    store = FileStore(tmp_path / "blobs")
    with Engine("sqlite:///:memory:", blobs=store, interpreter=sandbox) as engine:
        session = engine.session("s")

        def failing() -> Iterator[bytes]:
            yield TEXT.encode()
            raise ConnectionError

        with pytest.raises(ConnectionError):
            session.process(failing(), tool="t")
        assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []
        kept = session.process(pieces(JSON), tool="rows").artifacts[0]
        assert kept.location is not None
        assert json.loads(Path(kept.location).read_text()) == ROWS
        assert kept.location.endswith(".json")
        assert engine.sweep(grace=timedelta(0)).objects == 0
        assert db.verify(engine.database.engine, deep=True, blobs=store) == []


def test_more_than_an_artifact_may_have_is_cut_and_not_stored(engine: Engine, tenant: str) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "line after line\n"

    session = engine.session("s", tenant=tenant, policy=Policy(max_artifact_bytes=1_000_000))
    result = session.process(endless(), tool="t")
    assert (result.route, result.reason) == ("truncate", "max_artifact_bytes")
    assert "[The stream was cut after 1,000,000 bytes; what followed was not read.]" in result.text
    assert "INCOMPLETE: nothing of this was stored" in result.text
    with pytest.raises(QuotaExceeded, match="max_artifact_bytes"):
        session.store_artifact(endless())
    assert blobs(engine, tenant) == 0


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_a_quota_refuses_and_the_turn_goes_on(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(max_session_bytes=1_000_000))
    result = session.process(pieces(JSON), tool="t")
    assert (result.route, result.reason) == ("truncate", "max_session_bytes")
    assert json.loads(result.text)["note"].startswith("INCOMPLETE: nothing of this was stored")
    with pytest.raises(QuotaExceeded, match="max_session_bytes"):
        session.store_artifact(pieces(TEXT))
    assert blobs(engine, tenant) == 0


def test_what_fits_after_all_passes_whole(engine: Engine, tenant: str) -> None:
    wide = Policy(max_result_tokens=None, max_threshold_bytes=None, keep_tokens=None)
    session = engine.session("s", tenant=tenant, policy=wide, context_window=1 << 40)
    assert session.process(pieces(TEXT), tool="t").content == TEXT
    assert session.process(pieces(JSON.encode()), tool="t").content == JSON
    off = engine.session("off", tenant=tenant, policy=Policy(enabled=False))
    assert off.process(pieces(JSON), tool="t").content == JSON
    assert blobs(engine, tenant) == 0
    keeping = engine.session("keeping", tenant=tenant, policy=wide.override(keep_tokens=500), context_window=1 << 40)
    result = keeping.process(pieces(JSON), tool="t")
    assert (result.content, [one.value() for one in result.variables]) == (JSON, [json.loads(JSON)])
    assert blobs(engine, tenant) == 1


@pytest.mark.parametrize(
    ("content", "kind", "content_type"),
    [
        (b"%PDF-1.7\n" + bytes(range(256)) * 2_000, "document", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n" + b"\1" * 500_000, "image", "image/png"),
        (gzip.compress(random.Random(1).randbytes(300_000)), "document", "application/gzip"),
        (b"plain \xff\xfe not utf-8 \n" * 20_000, "text", "application/octet-stream"),
        ("\ufeff" + '{"rows": ' + JSON + "}", "json", "application/json"),
        (JSON[:-1], "text", "text/plain"),
        ("gr\u00fc\u00dfe \U0001f600\r\n" * 30_000, "text", "text/plain"),
    ],
    ids=["pdf", "png", "gzip", "not-utf-8", "marked", "cut-json", "wide"],
)
def test_kinds(session: Session, content: str | bytes, kind: str, content_type: str) -> None:
    stored = session.store_artifact(pieces(content), name="it")
    whole = session.store_artifact(content, name="whole")
    assert (stored.kind, stored.content_type) == (whole.kind, whole.content_type) == (kind, content_type)
    assert described(stored) == described(whole)
    assert stored.payload.read() == (content if isinstance(content, bytes) else content.encode())


def test_utf_16_becomes_utf_8(session: Session) -> None:
    assert session.store_artifact(pieces(TEXT.encode("utf-16"))).value == TEXT


def test_open_files(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "rows.json.gz"
    path.write_bytes(gzip.compress(JSON.encode()))
    with gzip.open(path) as unpacked:
        assert session.process(unpacked, tool="rows").variables[0].value() == ROWS
    with io.StringIO(TEXT) as text:
        assert session.store_artifact(text, content_type="text/markdown").content_type == "text/markdown"
    assert session.store_artifact(pieces(b"\x89PNG\r\n\x1a\n" + b"\1" * 1000)).kind == "image"


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_where_the_database_fails_the_turn_goes_on(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageFailure("the disk is full")

    session = engine.session("s", tenant=tenant)
    strict = engine.session("s", tenant=tenant, policy=Policy(on_storage_failure="raise"))
    with monkeypatch.context() as patch:
        patch.setattr(staging, "_add", fail)
        patch.setattr(staging, "STAGE_BATCH", 1)
        text = session.process(pieces(TEXT), tool="t")
        rows = session.process(pieces(JSON), tool="t")
        with pytest.raises(StorageFailure, match="the disk is full"):
            strict.process(pieces(TEXT), tool="t")
        with pytest.raises(StorageFailure, match="the disk is full"):
            session.store_artifact(pieces(TEXT))
    assert text.reason == rows.reason == "storage_failure"
    assert text.text.startswith(TEXT[:100])
    assert "could not be stored" in text.text
    assert json.loads(rows.text)["output"]
    assert (session.ledger(), blobs(engine, tenant)) == ([], 0)


@pytest.mark.postgresql("moments are compared in the database")
def test_a_sweep_during_a_slow_stream_does_not_take_it(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant)

    def slow() -> Iterator[str]:
        for at in range(0, len(TEXT), 500_000):
            engine.sweep()
            yield TEXT[at : at + 500_000]

    assert session.store_artifact(slow()).value == TEXT


def test_pieces_that_come_slowly_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "WAITING_SECONDS", 0.0)
    few = streams.read(iter([b"x" * 10] * 5), most=1_000, collected=5, write=lambda _: b"")
    assert isinstance(few, streams.Stream)
    assert list(few.pieces) == [b"x" * 10] * 5
    monkeypatch.undo()
    together = streams.read(iter([b"x" * 10] * 5), most=1_000, collected=5, write=lambda _: b"")
    assert isinstance(together, streams.Stream)
    assert list(together.pieces) == [b"x" * 50]


def test_a_stream_swept_away_says_so(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "STAGE_BATCH", 1)
    with Engine("sqlite:///:memory:", interpreter=sandbox) as engine:
        session = engine.session("s")

        def stalled() -> Iterator[str]:
            for _ in range(6):
                yield TEXT
            engine.sweep(grace=timedelta(0))
            yield "the end"

        with pytest.raises(StorageFailure, match="swept while it"):
            session.store_artifact(stalled())
        assert session.process(stalled(), tool="t").reason == "storage_failure"
        assert engine.sweep(grace=timedelta(0)).blobs == 0


@pytest.mark.slow
def test_tokens_are_about_those_of_the_whole(engine: Engine, tenant: str, sandbox: Sandbox) -> None:
    for content in (TEXT, JSON, "\u4f60\u597d" * 400_000, " " * 900_000, "ab1!" * 300_000):
        with Engine("sqlite:///:memory:", interpreter=sandbox) as counting:
            whole = counting.session("w").process(content, tool="t").original_tokens
            assert counting.session("s").process(pieces(content), tool="t").original_tokens == pytest.approx(
                whole, rel=0.05
            )
    with Engine("sqlite:///:memory:", interpreter=sandbox, counter=CharCounter()) as counting:
        assert counting.session("s").process(pieces(TEXT), tool="t").original_tokens == pytest.approx(
            len(TEXT) / 4, abs=100
        )


def test_asynchronous_streams_are_pulled_as_they_are_stored(sandbox: Sandbox) -> None:
    drawn = 0

    async def arriving(content: str) -> AsyncIterator[str]:
        nonlocal drawn
        for piece in pieces(content):
            await asyncio.sleep(0)
            drawn += 1
            yield piece

    async def failing() -> AsyncIterator[str]:
        yield TEXT
        raise ConnectionError("the line is dead")

    async def stalled() -> AsyncIterator[str]:
        yield TEXT
        await asyncio.sleep(3_600)

    async def numbered() -> AsyncIterator[dict[str, int]]:
        for number in range(3):
            yield {"n": number}

    async def main() -> None:
        store = MemoryStore()
        async with AsyncEngine("sqlite:///:memory:", interpreter=sandbox, blobs=store) as engine:
            session = await engine.session("s")
            assert (await session.store_artifact(arriving(TEXT))).size_bytes == len(TEXT.encode())
            assert (await session.process(arriving(JSON), tool="rows")).route == "variables"
            assert (await session.process(numbered(), tool="n")).content == '[{"n":0},{"n":1},{"n":2}]'
            with pytest.raises(ConnectionError, match="the line is dead"):
                await session.process(failing(), tool="t")
            before = store.size_bytes
            waiting = asyncio.create_task(session.process(stalled(), tool="t"))
            await asyncio.sleep(0.3)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            for _ in range(100):
                if store.size_bytes == before:
                    break
                await asyncio.sleep(0.05)
            assert store.size_bytes == before
            assert len(await session.ledger()) == 2

    asyncio.run(main())
    assert drawn > 20


def test_what_is_read_like_a_file_is_one(session: Session, tmp_path: Path) -> None:
    class Reader:
        def __init__(self) -> None:
            self.left = TEXT.encode()

        def read(self, size: int = -1) -> bytes:
            part, self.left = self.left[:size], self.left[size:]
            return part

    with tempfile.NamedTemporaryFile() as file:
        file.write(TEXT.encode())
        file.seek(0)
        assert session.store_artifact(file).value == TEXT
    (tmp_path / "t").write_text(TEXT)
    with open(tmp_path / "t", "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert session.store_artifact(mapped).value == TEXT
    assert session.store_artifact(Reader()).value == TEXT
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("t", TEXT)
    with zipfile.ZipFile(tmp_path / "z") as archive, archive.open("t") as member:
        assert session.store_artifact(member).value == TEXT


def test_a_reader_that_cannot_read_passes_on_why(session: Session) -> None:
    class Broken:
        def read(self, size: int = -1) -> bytes:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        session.process(Broken(), tool="t")


def test_a_file_that_has_nothing_yet(session: Session) -> None:
    class NotReady(io.RawIOBase):
        def read(self, size: int = -1) -> None:
            return None

    with pytest.raises(ConfigurationError, match="open it in blocking mode"):
        session.process(NotReady(), tool="t")


@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
def test_many_records_are_all_there(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RECORDS", 1_000)
    result = session.process(iter(ROWS), tool="rows")
    [artifact] = result.artifacts
    assert (artifact.value, artifact.shape) == (ROWS, f"array({len(ROWS)}) of object(3 keys)")
    assert artifact.digest == session.process(ROWS, tool="rows").artifacts[0].digest, "as a list is stored"

    def failing() -> Iterator[dict[str, Any]]:
        yield from ROWS
        raise ConnectionError("the line is dead")

    with pytest.raises(ConnectionError, match="the line is dead"):
        session.process(failing(), tool="rows")


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_other_content_under_the_same_call_id_is_another_output(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(max_session_bytes=100_000))
    first = session.process(pieces("A" * 500_000), tool="t", call_id="call_0")
    second = session.process(pieces("B" * 500_000), tool="t", call_id="call_0")
    assert (first.step, second.step) == (1, 2)
    assert "BBB" in second.text
    assert blobs(engine, tenant) == 0


def test_a_source_that_fails_as_a_store_does_is_no_store(session: Session) -> None:
    def relayed() -> Iterator[str]:
        yield TEXT
        raise StorageFailure("another engine is down")

    with pytest.raises(StorageFailure, match="another engine is down"):
        session.process(relayed(), tool="t")
    assert session.ledger() == []


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_bytes_with_a_nul_are_text_if_they_are_utf_8(session: Session) -> None:
    content = b"a,b\n\0\n" * 100_000
    stored, whole = session.store_artifact(io.BytesIO(content)), session.store_artifact(content, name="whole")
    assert (stored.kind, stored.content_type) == (whole.kind, whole.content_type) == ("text", "text/plain")


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_lone_surrogates_in_a_text_stream(session: Session) -> None:
    rows = ["caf\udce9"] * 40_000
    result = session.process(pieces(json.dumps(rows, ensure_ascii=False)), tool="t")
    assert result.variables[0].value() == rows
    assert session.store_artifact(pieces("caf\udce9 " * 40_000)).value == "caf\udce9 " * 40_000


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_tiny_pieces_cost_nothing(chat: Session, size: int) -> None:
    content = "abc\n" * 25_000
    tiny = (content[at : at + size] for at in range(0, len(content), size)) if size else iter([""] * 200_000)
    chat.store_artifact(TEXT)  # vocabulary and all
    tracemalloc.start()
    try:
        stored = chat.store_artifact(tiny)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stored.value == (content if size else "")
    assert peak < 12 << 20


def test_nothing_is_read_of_what_cannot_be_taken(engine: Engine, tenant: str) -> None:
    drawn: list[int] = []

    def watched() -> Iterator[str]:
        for at in range(0, len(TEXT), 100_000):
            drawn.append(at)
            yield TEXT[at : at + 100_000]

    session = engine.session("s", tenant=tenant)
    for bad in ({"name": ""}, {"name": 5}, {"content_type": "a\nb"}, {"content_type": 5}, {"preview_chars": -1}):
        with pytest.raises(ConfigurationError):
            session.store_artifact(watched(), **bad)
    assert drawn == []
    session.end()
    for take in (lambda: session.process(watched(), tool="t"), lambda: session.store_artifact(watched())):
        with pytest.raises(SessionGone):
            take()
    assert len(drawn) < 8
    assert blobs(engine, tenant) == 0


@pytest.mark.postgresql("equal bytes are found by a unique index")
def test_the_same_upload_again_leaves_no_copy(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant)
    for seed in range(4):
        session.store_artifact(pieces(TEXT, seed))
    assert (len(session.artifacts()), blobs(engine, tenant)) == (4, 1)


@pytest.mark.slow
@pytest.mark.parametrize("content", ["[2024-01-01] INFO started\n" * 50_000, '{"a": 1}\n' * 60_000, "[[" * 50_000])
def test_what_only_looks_like_json_is_a_text_file(tmp_path: Path, sandbox: Sandbox, content: str) -> None:
    with Engine("sqlite:///:memory:", blobs=FileStore(tmp_path / "b"), interpreter=sandbox) as engine:
        stored = engine.session("s").store_artifact(pieces(content))
        assert stored.content_type == "text/plain"
        assert stored.location is not None
        assert stored.location.endswith(".json" if content.startswith("[[") else ".txt"), "nobody knows before the end"


def test_the_limit_is_of_bytes(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(max_artifact_bytes=1_000_000))
    result = session.process(pieces("\u4f60" * 900_000), tool="t")
    entry = session.ledger()[0]
    assert "[The stream was cut after 1,000,000 bytes" in result.text
    assert entry.original_bytes is not None
    assert 1_000_000 <= entry.original_bytes < 1_000_100


def test_an_asynchronous_iterator_needs_an_asynchronous_session(session: Session) -> None:
    async def arriving() -> AsyncIterator[str]:
        yield "a"

    with pytest.raises(ConfigurationError, match="an AsyncSession reads those"):
        session.process(arriving(), tool="t")


def test_asynchronous_records_and_sources_that_are_cut(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RECORDS", 100)
    closed: list[bool] = []

    async def endless() -> AsyncIterator[dict[str, int]]:
        try:
            number = 0
            while True:
                number += 1
                yield {"n": number}
        finally:
            closed.append(True)

    async def none() -> AsyncIterator[str]:
        if closed is None:
            yield "never"

    class Only:
        def __aiter__(self) -> AsyncIterator[str]:
            return pieces_later()

    async def pieces_later() -> AsyncIterator[str]:
        yield TEXT

    async def main() -> None:
        policy = Policy(max_artifact_bytes=20_000)
        async with AsyncEngine("sqlite:///:memory:", interpreter=sandbox, policy=policy) as engine:
            session = await engine.session("s")
            cut = await session.process(endless(), tool="t")
            assert "was cut after 20,000 bytes" in cut.text
            assert closed == [True]
            assert (await session.process(none(), tool="t")).content == "[]"
        async with AsyncEngine("sqlite:///:memory:", interpreter=sandbox) as engine:
            session = await engine.session("s")
            assert (await session.store_artifact(Only())).size_bytes == len(TEXT.encode())

    asyncio.run(main())


GIGABYTE = textwrap.dedent(
    """
    import json, resource, sys
    from byref import Engine, Policy

    def text():
        for i in range(10_000):
            yield "".join(f"2026-11-22 line {i} {j} of a long log, service=api-{j % 7}\\n" for j in range(1_850)).encode()

    def rows():
        yield b"["
        for i in range(10_000):
            some = [{"id": i * 1_000 + j, "name": f"user {j}", "score": j / 2, "tags": ["a"], "ok": None} for j in range(1_260)]
            yield (b"," if i else b"") + json.dumps(some)[1:-1].encode()
        yield b"]"

    engine = Engine("sqlite:///" + sys.argv[2])
    session = engine.session("s")
    session.process([{"a": 1}], tool="warm")
    session.process("some text " * 100_000, tool="warm")
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = session.process(text() if sys.argv[1] == "text" else rows(), tool="big")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    [artifact] = result.artifacts
    print(json.dumps([peak - idle, artifact.size_bytes, artifact.line_count, artifact.shape, artifact.schema]))
    """
)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "megabytes"), [("text", 200), ("rows", 400)])
def test_a_gigabyte_in_bounded_memory(tmp_path: Path, kind: str, megabytes: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", GIGABYTE, kind, str(tmp_path / "b.db")], capture_output=True, text=True, check=True
    )
    grown, size, lines, shape, schema = json.loads(ran.stdout)
    assert size > 1_000_000_000
    assert grown < megabytes << 10
    if kind == "text":
        assert (lines, shape) == (18_500_000, "text")
    else:
        assert shape == "array(12600000) of object(5 keys)"
        assert schema["items"]["required"] == ["id", "name", "ok", "score", "tags"]
        assert schema["items"]["properties"]["score"] == {"type": "number"}


def test_records_that_follow_too_much_text_are_an_error() -> None:
    few = streams.read(iter(["x" * 9, {"id": 1}]), most=1_000, collected=20, write=lambda _: b"")
    assert list(few) == ["x" * 9, {"id": 1}]  # type: ignore[call-overload]
    more = streams.read(iter(["x" * 9, "x" * 9, "x" * 9, {"id": 1}]), most=1_000, collected=20, write=lambda _: b"")
    assert isinstance(more, streams.Stream)
    with pytest.raises(ConfigurationError, match="a piece of type 'dict'"):
        b"".join(more.pieces)
