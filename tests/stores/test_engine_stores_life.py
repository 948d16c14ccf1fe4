"""The life of objects: shared within a tenant, gone with their last artifact, and looked after by sweeps and verify."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from placed import (
    NOW,
    PDF,
    PNG,
    TOOLS,
    Opened,
    Placed,
    count,
    files_at,
    keys_of,
    log,
    problems,
    records,
)
from sqlalchemy import update

import byref.cli
from byref import ArtifactMissing, Policy, QuotaExceeded
from byref.db import integrity
from byref.db.tables import ArtifactRow
from byref.ingest.streams import COLLECTED
from byref.stores import FileStore, MemoryStore, object_key

LATER = timedelta(hours=1)


def left(url: str) -> dict[str, int]:
    """Rows that speak of bytes."""
    return {table: count(url, table) for table in ("artifacts", "blobs", "frames", "discards")}


NOTHING = {"artifacts": 0, "blobs": 0, "frames": 0, "discards": 0}


def test_the_same_bytes_are_one_object_of_a_tenant(placed: Placed, opened: Opened) -> None:
    engine = opened(placed.store)
    first = engine.session("a", tenant="acme", tools=TOOLS).process(records(), tool="users").artifacts[0]
    again = engine.session("b", tenant="acme", tools=TOOLS).process(records(), tool="other").artifacts[0]
    assert len(placed.keys) == 1 and first.location == again.location
    other = engine.session("a", tenant="globex", tools=TOOLS).process(records(), tool="users").artifacts[0]
    assert len(placed.keys) == 2 and len({key.partition("/")[0] for key in placed.keys}) == 2
    assert other.value == first.value
    if placed.outside:
        assert other.location != first.location


@pytest.mark.quick_cases(1)
@pytest.mark.s3("objects are listed and deleted by requests")
def test_nothing_remains(placed: Placed, opened_on: Opened) -> None:
    engine = opened_on(placed.store)

    def fill(name: str, tenant: str) -> Any:
        session = engine.session(name, tenant=tenant, tools=TOOLS)
        session.process(records(), tool="users")
        session.store_artifact(log() + name)
        session.store_artifact(PNG, content_type="image/png")
        return session

    fill("a", "acme").end()
    assert (placed.keys, left(opened_on.url)) == (set(), NOTHING)
    fill("b", "acme"), fill("c", "acme")
    assert len(placed.keys) == 4
    assert engine.delete_session("b", tenant="acme")
    assert len(placed.keys) == 3 and problems(opened_on.url, placed.store) == []
    fill("d", "globex")
    assert engine.delete_tenant("acme") == 2
    assert len(placed.keys) == 3 and count(opened_on.url, "discards") == 0
    assert engine.delete_tenant("globex") == 1
    assert (placed.keys, left(opened_on.url)) == (set(), NOTHING)


def test_an_engine_without_the_store_says_that_objects_are_left(
    placed: Placed, opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for tenant in ("acme", "globex"):
        opened(placed.store).session("s", tenant=tenant, tools=TOOLS).process(records(), tool="users")
    caplog.set_level("WARNING", "byref")
    opened(None).sweep()
    assert caplog.messages == []
    other = MemoryStore() if placed.kind != "memory" else FileStore(tmp_path / "other")
    for delete in (
        lambda: opened(None).delete_tenant("acme"),
        lambda: opened(other).delete_session("s", tenant="globex"),
        lambda: opened(None).sweep(),
    ):
        caplog.clear()
        delete()
        [message] = caplog.messages
        assert f"are still in the store {placed.store.name!r}" in message and "Engine(…, blobs=…).sweep()" in message
    assert len(placed.keys) == 2
    caplog.clear()
    assert opened(placed.store).sweep().objects == 2
    assert (placed.keys, count(opened.url, "discards"), caplog.messages) == (set(), 0, [])


def test_what_is_kept_survives_the_end(placed: Placed, opened: Opened) -> None:
    engine = opened(placed.store)
    session = engine.session("s", tools=TOOLS)
    kept = session.keep(session.store_artifact(log()))
    session.process(records(), tool="users")
    session.end()
    engine.sweep(grace=NOW)
    assert len(placed.keys) == 1 and kept.value == log()
    engine.delete_session("s")
    assert placed.keys == set()


def test_what_expires_goes_and_leaves_a_tombstone(placed: Placed, opened: Opened) -> None:
    engine = opened(placed.store)
    session = engine.session("s", tools=TOOLS)
    [artifact] = session.process(records(), tool="users", arguments={"page": 1}).artifacts
    assert len(placed.keys) == 1
    past = update(ArtifactRow).values(expires_at=datetime.now(UTC) - timedelta(minutes=1))
    engine.database.write(lambda connection: connection.execute(past))
    gone = engine.sweep(grace=NOW)
    assert (gone.artifacts, gone.blobs, gone.objects) == (1, 1, 1) and placed.keys == set()
    reply = session.call("artifact_read", {"artifact_id": artifact.id})
    assert reply.is_error and "users" in reply.content


def test_what_a_quota_refuses_is_not_in_the_store(placed: Placed, opened: Opened) -> None:
    engine = opened(placed.store)
    session = engine.session("s", tools=TOOLS, policy=Policy(max_session_bytes=150_000, max_artifact_bytes=140_000))
    session.process(records(), tool="users")
    before = placed.keys
    assert session.process(records(2_999), tool="users").reason == "max_session_bytes"
    assert session.process(records(9_000), tool="users").reason == "max_artifact_bytes"
    with pytest.raises(QuotaExceeded):
        session.store_artifact(log())
    with pytest.raises(QuotaExceeded):
        session.store_artifact(iter([log()] * 3))
    engine.sweep(grace=NOW)
    assert placed.keys == before and problems(opened.url, placed.store) == []


def broken() -> Iterator[bytes]:
    """A stream that goes on for longer than it is collected in memory, and then breaks."""
    piece = log(50_000).encode()
    for i in range(2 + COLLECTED // len(piece)):
        yield piece + b"%d\n" % i
    raise RuntimeError("theirs")


@pytest.mark.quick_cases(1)
@pytest.mark.s3("what is written is an upload")
def test_a_stream_that_fails_leaves_nothing(placed: Placed, opened_on: Opened) -> None:
    session = opened_on(placed.store).session("s", tools=TOOLS)
    for take in (lambda: session.process(broken(), tool="t"), lambda: session.store_artifact(broken())):
        with pytest.raises(RuntimeError, match="theirs"):
            take()
        assert (placed.keys, left(opened_on.url)) == (set(), NOTHING)


KILLED = """
import itertools, sys, time
import sqlalchemy
from byref import Engine
from byref.stores import FileStore
def pieces():
    for i in itertools.count():
        if i == 12:
            print("under way", flush=True)
            time.sleep(60)
        yield b"secret %d\\n" % i * 100_000
engine = Engine(sys.argv[1], blobs=FileStore(sys.argv[2]))
with sqlalchemy.create_engine(sys.argv[1]).connect() as host:
    joined = {"db": host} if sys.argv[3] == "joined" else {}
    engine.session("s", tenant="acme", **joined).process(pieces(), tool="t")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "joined"),
    [
        ("sweep", "joined"),
        pytest.param("delete_tenant", "own", marks=pytest.mark.slow),
        pytest.param("sweep", "own", marks=pytest.mark.slow),
        pytest.param("delete_tenant", "joined", marks=pytest.mark.slow),
    ],
)
def test_what_a_killed_stream_leaves_goes_at_once(by: str, joined: str, tmp_path: Path, opened: Opened) -> None:
    """Whether its row is there, or was rolled back with the host's transaction."""
    folder = tmp_path / "blobs"
    placed = files_at(folder)
    engine = opened(placed.store)
    engine.session("s", tenant="acme"), engine.session("s", tenant="globex")
    command = [sys.executable, "-c", KILLED, opened.url, str(folder), joined]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout and writer.stdout.readline()
        assert any(b"secret" in path.read_bytes() for path in folder.rglob("*") if path.is_file())
        if joined == "own":
            engine.sweep()
            engine.delete_tenant("globex")
        assert [path for path in folder.rglob("*") if path.is_file()]
        writer.kill()
    assert problems(opened.url, placed.store, LATER) == []
    assert any("abandoned draft" in problem and "sweep" in problem for problem in problems(opened.url, placed.store))
    if by == "sweep":
        engine.sweep()
        assert [path for path in folder.rglob("*") if path.is_file()]
        engine.sweep(grace=NOW)
    else:
        engine.delete_tenant("acme")
    assert list(folder.rglob("*")) == []
    assert problems(opened.url, placed.store) == [] and left(opened.url) == NOTHING


@pytest.fixture
def host(opened_on: Opened) -> Iterator[sqlalchemy.Engine]:
    """A host's own engine on the same database."""
    engine = sqlalchemy.create_engine(opened_on.url)
    yield engine
    engine.dispose()


@pytest.mark.s3("what is written is an upload")
@pytest.mark.parametrize("commits", [True, False])
def test_a_hosts_transaction_decides_on_what_is_taken_in(
    commits: bool, placed: Placed, opened_on: Opened, host: sqlalchemy.Engine
) -> None:
    engine = opened_on(placed.store)
    engine.session("s", tools=TOOLS)
    with host.connect() as connection:
        transaction = connection.begin()
        session = engine.session("s", tools=TOOLS, db=connection)
        result = session.process(records(), tool="users")
        assert result.artifacts[0].value == records()
        session.store_artifact(PDF, content_type="application/pdf")
        assert len(placed.keys) == 2
        transaction.commit() if commits else transaction.rollback()
    engine.sweep(grace=NOW)
    assert problems(opened_on.url, placed.store) == []
    assert len(placed.keys) == (2 if commits else 0)
    found = engine.session("s").artifacts()
    assert [artifact.value for artifact in found] == ([records(), PDF] if commits else [])


@pytest.mark.parametrize("commits", [True, False])
def test_a_hosts_transaction_decides_on_the_end(
    commits: bool, placed: Placed, opened_on: Opened, host: sqlalchemy.Engine
) -> None:
    engine = opened_on(placed.store)
    [artifact] = engine.session("s", tools=TOOLS).process(records(), tool="users").artifacts
    with host.connect() as connection:
        transaction = connection.begin()
        engine.session("s", tools=TOOLS, db=connection).end()
        other = engine.session("other", tools=TOOLS, db=connection)
        with pytest.raises(RuntimeError, match="theirs"):
            other.store_artifact(broken())
        assert artifact.location is None or len(placed.keys) >= 1
        transaction.commit() if commits else transaction.rollback()
    if not commits:
        assert artifact.value == records()
    engine.sweep(grace=NOW)
    assert problems(opened_on.url, placed.store) == []
    assert len(placed.keys) == (0 if commits else 1)
    if not commits:
        assert engine.session("s").artifacts()[0].value == records()


def test_healing_in_a_hosts_transaction_waits_for_nobody(
    placed: Placed, opened_on: Opened, host: sqlalchemy.Engine
) -> None:
    """The host's transaction has the blob's row locked, by the first output; the second finds its object gone."""
    engine = opened_on(placed.store)
    engine.session("s", tools=TOOLS).process(records(), tool="users")
    with host.connect() as connection, connection.begin():
        session = engine.session("s", tools=TOOLS, db=connection)
        assert session.process(records(), tool="users").route == "variables"
        placed.store.delete(sorted(placed.keys))
        assert session.process(records(), tool="users").route == "variables"
    result = engine.session("s", tools=TOOLS).process(records(), tool="users")
    assert result.artifacts[0].value == records()
    engine.sweep(grace=NOW)
    assert problems(opened_on.url, placed.store) == [] and len(placed.keys) == 1


@pytest.mark.s3("objects are listed and deleted by requests")
def test_a_stray_goes_once_it_is_old(placed: Placed, opened: Opened) -> None:
    engine = opened(placed.store)
    live = engine.session("s", tools=TOOLS).store_artifact(log())
    before = placed.keys
    stray = object_key("acme", "0" * 32, "text/plain")
    placed.store.write(stray, [b"stray"], content_type="text/plain")
    assert engine.sweep().objects == 0 and stray in placed.keys
    assert problems(opened.url, placed.store, LATER) == []
    [problem] = problems(opened.url, placed.store)
    assert "stray object" in problem and stray in problem and "sweep" in problem
    assert engine.sweep(grace=NOW).objects == 1
    assert placed.keys == before and live.value == log() and problems(opened.url, placed.store) == []


def test_an_old_file_goes_and_what_is_not_ours_stays(tmp_path: Path, opened: Opened) -> None:
    placed = files_at(tmp_path / "blobs")
    engine = opened(placed.store)
    live = engine.session("s", tools=TOOLS).store_artifact(log())
    old, young = (object_key("acme", f"{i:032x}") for i in range(2))
    for key in (old, young):
        placed.store.write(key, [b"stray"], content_type="text/plain")
    (tmp_path / "blobs" / "notes.txt").write_text("the host's")
    (tmp_path / "blobs" / old.partition("/")[0] / "notes.txt").write_text("the host's")
    for path in [*(tmp_path / "blobs").rglob("*.txt"), tmp_path / "blobs" / old, Path(live.location or "")]:
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert engine.sweep().objects == 1
    assert len(placed.keys) == 2 and young in placed.keys and live.value == log()
    assert len(list((tmp_path / "blobs").rglob("notes.txt"))) == 2


@pytest.mark.slow
def test_sweeps_never_take_what_lives(placed: Placed, opened: Opened) -> None:
    engine = opened(placed.store)
    ends = threading.Event()
    failures: list[BaseException] = []

    def sweeps() -> None:
        try:
            while not ends.is_set():
                engine.sweep(grace=timedelta(seconds=1))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=sweeps) for _ in range(2)]
    for thread in threads:
        thread.start()
    session = engine.session("s", tools=TOOLS)
    try:
        stored = []
        for i in range(15):
            stored.append(session.process(records(2_000 + i % 10), tool="users").artifacts[0])
            engine.session(f"short {i}", tools=TOOLS).process(records(2_000 + i % 7), tool="users")
            engine.delete_session(f"short {i}")
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert [artifact.value for artifact in stored] == [records(2_000 + i % 10) for i in range(15)]
    engine.sweep(grace=NOW)
    assert problems(opened.url, placed.store) == [] and len(placed.keys) == 10


DAMAGED = [("memory", "flip"), ("files", "cut"), ("files", "missing")]
"""In a quick run."""


def damage(placed: Placed, key: str, how: str) -> None:
    """What a disk or a person may do to an object; through the store itself, so that each kind can."""
    data = b""
    with contextlib.suppress(ArtifactMissing):
        while True:
            data += placed.store.read(key, len(data), 1)
    changed = {"flip": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "cut": data[:-1]}
    if how == "missing":
        placed.store.delete([key])
    else:
        placed.store.write(key, [changed[how]], content_type="text/plain")


@pytest.mark.parametrize(
    ("placed", "how", "said"),
    [
        pytest.param(kind, how, said, marks=[] if (kind, how) in DAMAGED else pytest.mark.slow)
        for kind in ("memory", "files", "s3")
        for how, said in (("flip", "digest|damaged frame"), ("cut", "damaged frame"), ("missing", "damaged frame"))
    ],
    indirect=["placed"],
)
def test_verify_finds_damage(how: str, said: str, placed: Placed, opened: Opened) -> None:
    session = opened(placed.store).session("s", tools=TOOLS)
    session.store_artifact("a small text, read byte by byte\n")
    [key] = placed.keys
    session.store_artifact(log())
    assert problems(opened.url, placed.store) == []
    damage(placed, key, how)
    [problem] = problems(opened.url, placed.store)
    assert any(word in problem for word in said.split("|")), problem
    assert problems(opened.url, None) == []
    if how != "flip":
        with pytest.raises(ArtifactMissing):
            _ = session.artifacts()[0].value


def command(*arguments: str) -> tuple[int, str]:
    """Run the command; its exit code and what it printed."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    code = 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            code = int(byref.cli.main(list(arguments)) or 0)
        except SystemExit as ended:
            code = int(ended.code or 0)
    printed.seek(0)
    return code, printed.read()


@pytest.mark.parametrize("named", ["option", pytest.param("environment", marks=pytest.mark.slow)])
def test_the_command_line_takes_a_store(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.json").write_text(json.dumps(records()))
    blobs = ("--blobs", "blobs") if named == "option" else ()
    if named == "environment":
        monkeypatch.setenv("BYREF_BLOBS", "blobs")
    code, printed = command("process", "users.json", *blobs)
    assert code == 0 and str(tmp_path / "blobs") in printed
    store = FileStore("blobs")
    [key] = keys_of(store)
    assert command("show", "users", *blobs) == (0, Path(store.uri(key)).read_text())
    arguments = json.dumps({"artifact_id": "users", "expression": "length"})
    code, printed = command("tool", "artifact_jq", arguments, *blobs)
    assert code == 0 and "3000" in printed
    assert command("db", "verify", "--deep", *blobs)[0] == 0
    stray = object_key("x", "1" * 32)
    store.write(stray, [b"x"], content_type="text/plain")
    os.utime(store.uri(stray), (1_000_000_000, 1_000_000_000))
    code, printed = command("db", "verify", "--deep", *blobs)
    assert code == 1 and "stray object" in printed
    code, printed = command("sweep", "--json", *blobs)
    assert code == 0 and json.loads(printed)["objects"] == 1 and keys_of(store) == {key}
    Path(store.uri(key)).write_text("damaged")
    code, printed = command("db", "verify", "--deep", *blobs)
    assert code == 1 and "damaged frame" in printed
    monkeypatch.delenv("BYREF_BLOBS", raising=False)
    assert command("db", "verify", "--deep")[0] == 0
    code, printed = command("show", "users")
    assert code == 1 and "give the engine that store" in printed


def test_the_environment_names_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BYREF_BLOBS", "blobs")
    (tmp_path / "users.json").write_text(json.dumps(records()))
    code, printed = command("process", "users.json")
    assert code == 0 and str(tmp_path / "blobs") in printed
    [key] = keys_of(FileStore("blobs"))
    assert command("show", "users") == (0, Path(FileStore("blobs").uri(key)).read_text())


@pytest.mark.parametrize("verb", [("show", "users"), ("sweep",), ("db", "verify", "--deep"), ("ledger",)])
def test_a_command_that_looks_makes_no_folder(
    verb: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.json").write_text(json.dumps(records()))
    assert command("process", "users.json", "--blobs", "blobs")[0] == 0
    code, printed = command(*verb, "--blobs", "typo")
    assert code == 1 and "typo" in printed and not (tmp_path / "typo").exists()


def test_figures_count_objects(placed: Placed, opened: Opened) -> None:
    session = opened(placed.store).session("s", tools=TOOLS)
    session.store_artifact(log())
    figures = integrity.examine(opened.url, blobs=placed.store).figures
    assert (figures["objects"], figures["payload_bytes"]) == (1, len(log()))
    assert 0 < figures["stored_bytes"] <= len(log())


def test_an_engine_in_the_wrong_folder_is_told_of_by_its_reads_only(tmp_path: Path, opened: Opened) -> None:
    """One database and two folders: a sweep in one never deletes what lives in the other."""
    first, second = FileStore(tmp_path / "a"), FileStore(tmp_path / "b")
    opened(first).session("s", tools=TOOLS).store_artifact(log())
    opened(second).sweep(grace=NOW)
    assert len(keys_of(first)) == 1 and len(problems(opened.url, second)) == 1
    assert problems(opened.url, first) == []
