"""Artifacts that outlive their conversation, and their bytes in files. Deleted artifacts leave nothing, and free their space."""

from __future__ import annotations

import gc
import io
import os
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from material import page, prose, records
from psycopg import _queries
from sqlalchemy import Connection, Select, delete, select, text, update
from sqlalchemy.dialects.postgresql import psycopg
from sqlcheck import TABLES

from byref import ArtifactMissing, ConfigurationError, Engine, Policy, QuotaExceeded, Session, SessionGone
from byref.artifacts import at_once
from byref.artifacts.lines import read_lines
from byref.db.tables import FrameRow
from byref.policy import TOOL_NAMES
from byref_sandbox import Sandbox


def rows(engine: Engine, tenant: str) -> dict[str, int]:
    return engine.database.read(
        lambda c: {
            t: int(c.execute(text(f"SELECT COUNT(*) FROM byref_{t} WHERE tenant = :t"), {"t": tenant}).scalar() or 0)
            for t in TABLES
        }
    )


# Reading


def test_a_page_uncompresses_what_it_shows(session: Session) -> None:
    written = [f"{number} {number * 7919:x}\n".encode() for number in range(200_000)]
    payload = session.store_artifact(b"".join(written)).payload
    for line in (1, 2, 30_000, 100_000, 200_000):
        chunks = payload.chunks(line)
        first, data = next(chunks)
        assert len(data) <= 1 << 16
        assert first <= line <= first + data.count(b"\n")
        rest = data + b"".join(data for _, data in chunks)
        assert rest.endswith(b"".join(written[line - 1 :]))
        assert b"".join(written).endswith(rest)
    sizes = select(FrameRow.size_bytes).where(FrameRow.blob_id == payload.blob_id).order_by(FrameRow.number)
    whole = list(payload.frames())
    assert [len(data) for _, data in whole] == payload.source.read(lambda c: c.scalars(sizes).all())
    assert b"".join(data for _, data in whole) == payload.read() == b"".join(written)


def test_lines_that_begin_where_a_piece_ends_are_read(session: Session) -> None:
    """Lines of 256 bytes: a line feed ends each of the pieces in which the first frame of a page comes, and each frame."""
    payload = session.store_artifact(b"".join(b"%255d\n" % number for number in range(1, 5_001))).payload
    for before in (*range(256, 5_000, 512), 4_096):
        for line in (before, before + 1, before + 2):
            assert read_lines(payload, line, line, max_chars=1_000).text == f"{line:>6}| {line:255d}", line
    for first in (255, 256, 257, 4_095, 4_096, 4_097):
        rows = read_lines(payload, first, first + 600, max_chars=1_000_000).text.split("\n")
        assert [int(row.partition("|")[2]) for row in rows] == list(range(first, first + 601))
    [(line, end)] = payload.chunks(9_999)
    assert payload.read().splitlines(keepends=True)[line - 1 :] == end.splitlines(keepends=True)


def test_a_page_that_was_read_is_not_read_again_once_it_is_damaged_or_gone(session: Session) -> None:
    """What is known of a frame that was read is used, but its bytes are compared again."""
    artifact = session.store_artifact(b"".join(b"%d %d\n" % (number, number * 7919) for number in range(40_000)))
    here, write = FrameRow.blob_id == artifact.payload.blob_id, session._scope.database.write
    page = read_lines(artifact.payload, 20_000, 20_010, max_chars=1_000).text
    assert read_lines(artifact.payload, 20_000, 20_010, max_chars=1_000).text == page
    assert read_lines(artifact.payload, 20_005, 20_005, max_chars=1_000).text in page
    whole = write(lambda c: c.execute(select(FrameRow.data).where(here)).scalar_one())
    for damaged in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        write(lambda c, damaged=damaged: c.execute(update(FrameRow).where(here).values(data=damaged)))
        with pytest.raises(ArtifactMissing, match="is damaged: frame 0"):
            read_lines(artifact.payload, 20_000, 20_010, max_chars=1_000)
    write(lambda c: c.execute(update(FrameRow).where(here).values(data=whole)))
    assert read_lines(artifact.payload, 20_000, 20_010, max_chars=1_000).text == page
    session.delete_artifact(artifact)
    with pytest.raises(ArtifactMissing):
        read_lines(artifact.payload, 20_000, 20_010, max_chars=1_000)


@pytest.mark.slow
def test_little_is_known_of_frames_that_were_read(session: Session) -> None:
    payload = session.store_artifact(b"%15d\n" % 7 * (10 << 16)).payload
    gc.collect()
    tracemalloc.start()
    try:
        for line in range(1, 10 << 16, 1_000):
            read_lines(payload, line, line, max_chars=1_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 5 << 20, kept


@pytest.mark.slow
def test_who_reads_on_is_given_more_frames_at_once_if_they_pack_well(session: Session) -> None:
    def fetched(data: bytes, most: int | None = None) -> list[int]:
        """How many frames each query gave to a reader of the first `most` chunks."""
        payload, given = session.store_artifact(data).payload, list[int]()

        def read(work: Callable[[Connection], Any]) -> Any:
            rows = payload.source.read(work)
            given.append(len(rows))
            return rows

        chunks = replace(payload, source=replace(payload.source, read=read)).frames()
        got = b"".join(data for _, data in islice(chunks, most))
        assert got == data[: len(got)] and (len(got) == len(data)) is (most is None)
        return given

    packs_well, packs_badly = b"%63d\n" % 7 * (40 << 14), os.urandom(14 << 20)
    assert fetched(packs_well) == [1, 4, 8, 16, 11]
    assert fetched(packs_badly)[:3] == [1, 4, 4]
    assert fetched(packs_well, 1) == [1]
    assert fetched(packs_well, 2) == [1, 4]


# Keeping


@pytest.mark.postgresql("foreign keys and what is deleted with what")
def test_what_is_kept_survives_the_end_and_its_bytes_can_be_had(engine: Engine, tenant: str, tmp_path: Path) -> None:
    session = engine.session("s", tenant=tenant)
    session.process(page(2_000), tool="users")
    session.process(prose(1_200_000), tool="log")
    report = session.store_artifact("report " * 1_000, name="report")
    [users, log, _] = session.artifacts()
    for given in (users, log.id, report.pointer):
        kept = session.keep(given)
        assert kept.is_kept and kept.expires_at is None
    assert session.keep("report").id == report.id
    session.store_artifact("not kept")
    session.end()
    later = engine.session("s", tenant=tenant)
    assert [artifact.id for artifact in later.artifacts()] == [users.id, log.id, report.id]
    assert later.variables() == []
    found = later.get_artifact("report")
    assert found is not None and found.value == "report " * 1_000
    assert later.get_artifact(users.id) == users and later.artifacts()[0].value == page(2_000)
    assert later.export("report", tmp_path / "report") == 7_000
    assert (tmp_path / "report").read_bytes() == ("report " * 1_000).encode()
    assert later.export(log, tmp_path / "log") == log.payload.size
    assert (tmp_path / "log").read_bytes() == log.payload.read() == prose(1_200_000).encode()
    assert later.history()[0].original == users
    with pytest.raises(SessionGone):
        later.keep("report")
    engine.delete_session("s", tenant=tenant)
    assert set(rows(engine, tenant).values()) == {0}
    assert later.get_artifact("report") is None


def test_only_a_conversations_own_artifacts_are_kept_or_exported_by_it(
    engine: Engine, tenant: str, tmp_path: Path
) -> None:
    one, other = engine.session("one", tenant=tenant), engine.session("other", tenant=tenant)
    foreign = engine.session("one", tenant=tenant + "x")
    for session in (other, foreign):
        secret = session.store_artifact("secret", name="secret")
        for given in (secret, secret.id, secret.pointer, "secret", "art_nonsense"):
            for act in (one.keep, lambda a: one.export(a, tmp_path / "out")):
                with pytest.raises(ConfigurationError, match=r"^no artifact '.*' in session 'one'$"):
                    act(given)
    assert list(tmp_path.iterdir()) == []
    assert not other.artifacts()[0].is_kept


@pytest.mark.postgresql("moments are compared in the database")
def test_what_is_kept_never_expires(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(ttl=0.5))
    assert session.store_artifact("x", name="x").expires_at is not None
    session.keep("x")
    mine = text("SELECT COUNT(*) FROM byref_artifacts WHERE tenant = :t AND ttl_seconds IS NULL AND expires_at IS NULL")
    assert engine.database.read(lambda c: c.execute(mine, {"t": tenant}).scalar()) == 1


# Exporting


def test_exported_bytes_are_the_stored_ones_in_any_kind_of_file(session: Session, tmp_path: Path) -> None:
    data = b"".join(i.to_bytes(4, "big") for i in range(700_000))
    artifact = session.store_artifact(data, content_type="application/octet-stream")
    stored = artifact.payload.read()
    path = tmp_path / "ü out.bin"
    path.write_text("before")
    assert session.export(artifact, path) == session.export(artifact, str(path)) == len(stored)
    assert path.read_bytes() == stored and [p.name for p in tmp_path.iterdir()] == [path.name]
    with pytest.raises(FileNotFoundError, match=r"no such folder: '.*/none'"):
        session.export(artifact, tmp_path / "none" / "out.bin")
    buffer = io.BytesIO(b"head")
    buffer.seek(4)
    assert session.export(artifact, buffer) == len(stored)
    assert buffer.getvalue() == b"head" + stored
    with open(tmp_path / "raw", "wb", buffering=0) as raw:
        session.export(artifact, raw)
    assert (tmp_path / "raw").read_bytes() == stored
    reader, writer = os.pipe()
    with open(reader, "rb") as pipe, open(writer, "wb") as target:
        session.export(session.store_artifact("x" * 1_000), target)
        target.flush()
        assert pipe.read(1_000) == b"x" * 1_000
    session.export(session.store_artifact(""), tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == b""


def test_places_that_take_no_bytes_are_named(session: Session, tmp_path: Path) -> None:
    artifact = session.store_artifact("x")
    for target in (tmp_path, "/dev/null", io.StringIO(), 5, None):
        with pytest.raises(ConfigurationError):
            session.export(artifact, target)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        session.export(artifact, tmp_path / "no" / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_whole_or_as_it_was(engine: Engine, session: Session, tmp_path: Path) -> None:
    artifact = session.store_artifact(records(90_000))
    path, buffer = tmp_path / "out", io.BytesIO(b"head")
    path.write_text("before")
    buffer.seek(4)
    last = delete(FrameRow).where(FrameRow.blob_id == artifact.payload.blob_id, FrameRow.number >= 3)
    engine.database.write(lambda c: c.execute(last))
    for target in (path, buffer):
        with pytest.raises(ArtifactMissing):
            session.export(artifact, target)
    assert path.read_text() == "before" and [p.name for p in tmp_path.iterdir()] == ["out"]
    assert buffer.getvalue() == b"head"
    other = session.store_artifact("y" * 5_000)
    frame = update(FrameRow).where(FrameRow.blob_id == other.payload.blob_id)
    engine.database.write(lambda c: c.execute(frame.values(codec="none", data=b"z" * 5_000)))
    with pytest.raises(ArtifactMissing, match="another checksum"):
        session.export(other, path)
    assert path.read_text() == "before"


@pytest.mark.slow
def test_exporting_takes_no_memory_of_the_artifacts_size(session: Session, tmp_path: Path) -> None:
    artifact = session.store_artifact(os.urandom(30_000_000).hex())
    gc.collect()
    tracemalloc.start()
    try:
        session.export(artifact, tmp_path / "big")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "big").stat().st_size == 60_000_000
    assert peak < 20_000_000, peak


# Nothing is left


@pytest.fixture
def own(database_url: str, sandbox: Sandbox) -> Iterator[Engine]:
    """An engine on a database of this test's own: sweeps know no tenants."""
    with Engine(database_url, interpreter=sandbox) as engine:
        yield engine


@pytest.mark.quick_cases(1)
def test_deleting_takes_tombstones_and_kept_artifacts_along(own: Engine) -> None:
    for name in ("a", "b"):
        session = own.session(name, tenant="t", policy=Policy(ttl=0.3), tools=TOOL_NAMES)
        session.process(page(2_000), tool="users", call_id="c")
        session.call("code_interpreter", {"code": "n = 1\ndef f(): return n"})
        session.call("artifact_jq", {"artifact_id": "n", "expression": "."})
        session.store_artifact("kept", name="kept")
        session.keep("kept")
    own.session("a", tenant="t2").store_artifact("theirs")
    while own.database.read(lambda c: c.execute(text("SELECT COUNT(*) FROM byref_tombstones")).scalar()) < 4:
        own.sweep()
    for name in ("a", "b"):
        own.session(name, tenant="t", policy=Policy()).process(page(2_000), tool="users", call_id="d")
    assert all(rows(own, "t").values()), rows(own, "t")
    own.session("a", tenant="t").end()
    assert rows(own, "t")["tombstones"] == 2
    own.delete_session("a", tenant="t")
    assert all(rows(own, "t").values())
    assert own.delete_tenant("t") == 1
    assert set(rows(own, "t").values()) == {0}
    assert sum(rows(own, "t2").values()) == 4


@pytest.mark.slow
def test_a_sqlite_file_shrinks_by_what_a_sweep_took(sqlite_url: str, sandbox: Sandbox) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with Engine(sqlite_url, interpreter=sandbox) as engine:
        empty = path.stat().st_size
        session = engine.session("s")
        for _ in range(5):
            session.store_artifact(os.urandom(4_000_000).hex())
        engine.session("live").store_artifact(os.urandom(500_000).hex(), name="live")
        with engine.database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        full = path.stat().st_size
        assert full > 20_000_000
        session.end()
        engine.sweep()
        assert empty < path.stat().st_size < 1_000_000 + empty
        live = engine.session("live").get_artifact("live")
        assert live is not None and len(live.payload.read()) == 1_000_000


def test_a_file_of_a_hosts_own_keeps_its_size(tmp_path: Path, sandbox: Sandbox) -> None:
    from sqlalchemy import create_engine

    host = create_engine(f"sqlite:///{tmp_path / 'host.db'}")
    with host.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE theirs (x)")
    with Engine(host, create=True, interpreter=sandbox) as engine:
        engine.session("s").store_artifact(os.urandom(500_000).hex())
        engine.delete_session("s")
        assert not engine.sweep(grace=timedelta(0))
    host.dispose()


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_sharing_counts_for_the_one_that_receives(engine: Engine, tenant: str) -> None:
    one = engine.session("one", tenant=tenant, policy=Policy(max_session_bytes=100))
    engine.session("other", tenant=tenant).store_artifact("y" * 60)
    one.store_artifact("x" * 60, name="x")
    with pytest.raises(QuotaExceeded, match="120 bytes"):
        one.share("x", "other")
    assert one.share("x", "one").payload.size == 60


@pytest.mark.parametrize("statement", [at_once._PUBLISH, at_once._PUBLISH_AND_APPEND])
def test_the_driver_keeps_the_statement_of_a_small_payload(statement: Select[Any]) -> None:
    """psycopg takes a longer one apart at each use."""
    compiled = statement.compile(dialect=psycopg.dialect())
    assert len(compiled.params) <= _queries.MAX_CACHED_STATEMENT_PARAMS
    assert len(str(compiled)) <= _queries.MAX_CACHED_STATEMENT_LENGTH
