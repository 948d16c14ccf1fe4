"""Deletion in small steps: nobody finds what is deleted, killed or not, and nobody waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from material import page
from sqlalchemy import Connection, create_engine, delete, text, update
from sqlalchemy.orm import Session as HostSession

import byref
from byref import Engine, Policy, Session, SessionGone
from byref.artifacts import blobs
from byref.conversation import clearing, lifecycle
from byref.db import integrity, sums
from byref.db.tables import ArtifactRow, BlobRow, SessionRow

TABLES = ("ledger", "artifacts", "variables", "names", "runs", "tombstones", "items", "blobs", "frames")


pytestmark = pytest.mark.quick_on("postgresql", "it takes locks by rows, and others go on meanwhile")


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture
def own(shared_url: str, shared_sandbox: None) -> Any:
    with Engine(shared_url, policy=Policy.variables()) as engine:
        yield engine


def fill(session: Session, artifacts: int = 4) -> None:
    """Outputs, a name of code's, and a kept artifact."""
    for turn in range(artifacts):
        session.process(page(300 + turn), tool="users", call_id=f"call {turn}")
    session.keep(session.store_artifact(page(50), name="kept"))


def left(engine: Engine, tenant: str) -> dict[str, int]:
    """Rows of a tenant's, by table."""

    def work(connection: Connection) -> dict[str, int]:
        count = "SELECT count(*) FROM byref_{} WHERE tenant = :tenant"
        return {name: connection.execute(text(count.format(name)), {"tenant": tenant}).scalar_one() for name in TABLES}

    return {name: rows for name, rows in engine.database.read(work).items() if rows}


def killed_after(engine: Engine, writes: int, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something, as far as so many transactions go."""
    real, done = engine.database.write, [0]

    def write(work: Any) -> Any:
        if done[0] == writes:
            raise Killed
        done[0] += 1
        return real(work)

    with monkeypatch.context() as patched:
        patched.setattr(engine.database, "write", write)
        with pytest.raises(Killed):
            act()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("whole", [False, True], ids=["session", "tenant"])
def test_what_is_deleted_is_found_no_more_though_the_process_dies(
    own: Engine, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    before = own.session("chat", tenant="acme")
    fill(before)
    fill(own.session("chat"))
    others = left(own, "default")
    if whole:
        killed_after(own, 1, monkeypatch, lambda: own.delete_tenant("acme"))
    else:
        killed_after(own, 1, monkeypatch, lambda: own.delete_session("chat", tenant="acme"))
    assert left(own, "acme")["artifacts"] == 5
    assert own.sessions("acme") == [] and "acme" not in {tenant.id for tenant in own.tenants()}
    with pytest.raises(SessionGone):
        before.process("x", tool="t")
    assert byref.db.verify(own.database.engine) == []
    after = own.session("chat", tenant="acme")
    assert (after.artifacts(), after.variables(), after.ledger()) == ([], [], [])
    after.process(page(300), tool="users")  # its bytes are those of one that is going
    own.sweep()
    assert len(own.sessions("acme")) == 1
    assert left(own, "acme") == {"ledger": 1, "artifacts": 1, "variables": 3, "blobs": 1, "frames": 1}
    assert after.artifacts()[0].value == page(300)
    assert left(own, "default") == others
    assert byref.db.verify(own.database.engine, deep=True) == []


def test_a_session_that_ended_loses_what_is_not_kept_though_the_process_dies(
    own: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = own.session("chat")
    fill(session)
    killed_after(own, 1, monkeypatch, session.end)
    assert left(own, "default")["variables"] == 12
    assert byref.db.verify(own.database.engine) == []
    own.sweep()
    rows = left(own, "default")
    assert rows["artifacts"] == rows["blobs"] == 1 and "variables" not in rows and rows["ledger"] == 4
    assert byref.db.verify(own.database.engine, deep=True) == []


@pytest.mark.slow
def test_a_deletion_is_many_short_transactions(own: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(own.session("chat", tenant="acme"), 12)
    real, took = own.database.write, list[float]()

    def write(work: Any) -> Any:
        begun = time.perf_counter()
        try:
            return real(work)
        finally:
            took.append(time.perf_counter() - begun)

    monkeypatch.setattr(own.database, "write", write)
    monkeypatch.setattr(clearing, "STEP_SECONDS", 0.0)
    monkeypatch.setattr(clearing, "_ARTIFACTS", 3)
    monkeypatch.setattr(blobs, "AT_ONCE_BYTES", 20_000)
    own.delete_tenant("acme")
    assert len(took) > 8
    assert left(own, "acme") == {}


@pytest.mark.slow
def test_the_frames_of_a_large_blob_go_a_few_at_a_time(own: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    session = own.session("chat", tenant="acme")
    artifact = session.store_artifact("".join(f"{i} {i * 7919 % 100_003}\n" for i in range(900_000)))
    assert artifact.payload.size > blobs.AT_ONCE_BYTES
    frames = left(own, "acme")["frames"]
    seen = []
    real = blobs.drain

    def drain(connection: Connection, until: float) -> bool:
        done = real(connection, 0.0)
        seen.append(connection.execute(text("SELECT count(*) FROM byref_frames WHERE tenant = 'acme'")).scalar_one())
        return done

    monkeypatch.setattr(blobs, "drain", drain)
    assert session.delete_artifact(artifact)
    assert seen[0] == frames - blobs.DRAIN_FRAMES and seen[-1] == 0 and len(seen) >= frames // blobs.DRAIN_FRAMES
    assert left(own, "acme") == {}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("act", ["artifact", "session", "tenant"])
def test_nothing_is_at_fault_between_two_steps(own: Engine, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    session = own.session("chat", tenant="acme")
    big = session.store_artifact("".join(f"{i} {i * 7919 % 100_003}\n" for i in range(100_000)))
    session.call("code_interpreter", {"code": "total = 1"}, call_id="c")
    session.record_usage({"prompt_tokens": 5, "completion_tokens": 1}, request_id="r")
    session.process(page(300), tool="users", call_id="d")
    own.database.write(lambda c: sums.keep(c, session._scope.row, 3))
    for module, name, value in (
        (clearing, "STEP_SECONDS", 0.0),
        (clearing, "_ROWS", 1),
        (blobs, "AT_ONCE_BYTES", 20_000),
        (blobs, "DRAIN_FRAMES", 1),
    ):
        monkeypatch.setattr(module, name, value)
    real, seen = own.database.write, list[object]()

    def write(work: Any) -> Any:
        done = real(work)
        seen.append(byref.db.verify(own.database.engine))
        return done

    with monkeypatch.context() as patched:
        patched.setattr(own.database, "write", write)
        if act == "artifact":
            assert session.delete_artifact(big)
        elif act == "session":
            assert own.delete_session("chat", tenant="acme")
        else:
            own.delete_tenant("acme")
    assert len(seen) > 4 and seen == [[]] * len(seen)


def test_a_large_deletion_of_a_hosts_is_no_fault_until_it_is_swept(
    own: Engine, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "AT_ONCE_BYTES", 20_000)
    artifact = own.session("chat").store_artifact(page(3_000))
    engine = create_engine(shared_url)
    with HostSession(engine) as host:
        assert own.session("chat", db=host).delete_artifact(artifact)
        host.commit()
    engine.dispose()
    report = integrity.examine(shared_url, deep=True)
    assert report.problems == ()
    assert (report.figures["retired_blobs"], report.figures["staged_blobs"]) == (1, 0)
    own.sweep()
    assert "blobs" not in left(own, "default")
    assert integrity.examine(shared_url).figures["retired_blobs"] == 0


def test_a_large_blob_is_counted_once_by_the_sweep_that_deletes_it(
    own: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "AT_ONCE_BYTES", 20_000)
    session = own.session("chat", tenant="acme")
    session.store_artifact(page(3_000))
    gone = {"ttl_seconds": 1.0, "expires_at": datetime.now(UTC) - timedelta(seconds=5)}
    own.database.write(lambda c: c.execute(update(ArtifactRow).where(ArtifactRow.tenant == "acme").values(gone)))
    swept = own.sweep()
    assert (swept.artifacts, swept.blobs) == (1, 1)
    assert "blobs" not in left(own, "acme")


def test_a_large_blob_that_was_never_published_goes_with_its_tenant(
    own: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "AT_ONCE_BYTES", 20_000)
    own.session("chat", tenant="acme").store_artifact(page(3_000))
    staged = {"published_at": None, "may_be_unused": True}
    own.database.write(lambda c: c.execute(delete(ArtifactRow).where(ArtifactRow.tenant == "acme")))
    own.database.write(lambda c: c.execute(update(BlobRow).where(BlobRow.tenant == "acme").values(staged)))
    own.delete_tenant("acme")
    assert left(own, "acme") == {}


def expired(engine: Engine, session: Session, count: int) -> None:
    """Have a session's artifacts expire."""
    for turn in range(count):
        session.store_artifact(f"{session.id} {turn}")
    gone = {"ttl_seconds": 1.0, "expires_at": datetime.now(UTC) - timedelta(seconds=count)}
    row = session._scope.row
    engine.database.write(lambda c: c.execute(update(ArtifactRow).where(ArtifactRow.session_id == row).values(gone)))


@pytest.mark.slow
def test_a_sweep_goes_on_past_sessions_that_somebody_holds(
    postgres_url: str, shared_sandbox: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "EXPIRED_AT_ONCE", 5)
    with Engine(postgres_url) as engine:
        held, free = engine.session("held"), engine.session("free")
        expired(engine, held, 12)
        expired(engine, free, 9)
        with engine.database.engine.connect() as host:
            host.execute(text("SELECT 1 FROM byref_sessions WHERE id = :id FOR UPDATE"), {"id": held._scope.row})
            gone = engine.sweep()
            assert (gone.artifacts, gone.held) == (9, 1)
        gone = engine.sweep()
        assert (gone.artifacts, gone.held) == (12, 0)


def test_a_sweep_looks_at_no_blob_that_is_used(own: Engine) -> None:
    fill(own.session("chat"))
    swept = []
    real = blobs.delete_unused
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blobs, "delete_unused", lambda c, ids: swept.extend(ids) or real(c, ids))
        own.sweep(grace=timedelta(0))
        assert swept == []
        # Code of before marks none as used: it is looked at once.
        own.database.write(lambda c: c.execute(text("UPDATE byref_blobs SET may_be_unused = true")))
        own.sweep(grace=timedelta(0))
        assert len(swept) == 5
        own.sweep(grace=timedelta(0))
        assert len(swept) == 5
    assert len(own.session("chat").artifacts()) == 5


def test_marked_rows_are_found_by_their_indexes(sqlite_url: str, shared_sandbox: None) -> None:
    with Engine(sqlite_url) as engine:
        plans = engine.database.read(
            lambda c: [
                row.detail
                for query in (
                    "SELECT id FROM byref_blobs WHERE may_be_unused = 1 AND staged_at < '2026' ORDER BY staged_at",
                    "SELECT id FROM byref_sessions WHERE clearing_at IS NOT NULL ORDER BY clearing_at",
                )
                for row in c.execute(text(f"EXPLAIN QUERY PLAN {query}"))
            ]
        )
    assert [plan.split("USING ")[1].split(" (")[0] for plan in plans] == [
        "INDEX ix_byref_blobs_unused",
        "COVERING INDEX ix_byref_sessions_clearing",
    ]


def test_the_name_of_a_deleted_session_is_no_id_of_a_hosts(own: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    own.session("chat")
    killed_after(own, 1, monkeypatch, lambda: own.delete_session("chat"))
    [name] = own.database.read(lambda c: c.execute(text("SELECT name FROM byref_sessions")).scalars().all())
    with pytest.raises(byref.InvalidId):
        own.session(name)
    assert len(name) <= SessionRow.__table__.c.name.type.length


@pytest.mark.slow
def test_what_is_being_deleted_does_not_come_back_with_older_tables(
    own: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(own.session("gone", tenant="acme"))
    ended = own.session("ended", tenant="acme")
    fill(ended)
    killed_after(own, 1, monkeypatch, ended.end)
    killed_after(own, 1, monkeypatch, lambda: own.delete_session("gone", tenant="acme"))
    fill(own.session("chat"))
    others = left(own, "default")
    byref.db.downgrade(own.database.engine, "0002")
    assert left(own, "acme") == {
        "ledger": 4,
        "artifacts": 1,
        "blobs": 5,
        "frames": 5,
    }  # the next sweep takes four blobs
    byref.db.upgrade(own.database.engine)
    own.sweep(grace=timedelta(0))
    assert left(own, "acme") == {"ledger": 4, "artifacts": 1, "blobs": 1, "frames": 1}
    assert left(own, "default") == others
    assert byref.db.verify(own.database.engine, deep=True) == []


def test_a_tenant_is_deleted_whatever_clocks_say(own: Engine) -> None:
    fill(own.session("ahead", tenant="acme"))
    later = datetime.now(UTC) + timedelta(days=1)
    own.database.write(lambda c: c.execute(update(SessionRow).values(created_at=later)))
    assert own.delete_tenant("acme") == 1
    assert left(own, "acme") == {} and own.delete_tenant("acme") == 0


def test_an_artifact_goes_without_a_look_at_all_names(sqlite_url: str, shared_sandbox: None) -> None:
    """SQLite looks for rows that refer to what goes, by whichever index it takes to be the best."""
    with Engine(sqlite_url) as engine:
        plans = engine.database.read(
            lambda c: [
                row.detail
                for table in ("variables", "names")
                for row in c.execute(
                    text(f"EXPLAIN QUERY PLAN SELECT 1 FROM byref_{table} WHERE session_id = 1 AND artifact_id = 2")
                )
            ]
        )
    assert [plan.partition("(")[2] for plan in plans] == ["artifact_id=? AND session_id=?)"] * 2


def test_many_small_sessions_go_in_one_step(own: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        own.session(f"chat {number}", tenant="acme").process("x", tool="t")
    monkeypatch.setattr(clearing, "STEP_SECONDS", 60.0)
    real, writes = own.database.write, list[object]()
    monkeypatch.setattr(own.database, "write", lambda work: writes.append(work) or real(work))
    assert own.delete_tenant("acme") == 6
    assert left(own, "acme") == {} and len(writes) == 4  # marks, one step, and two looks that find nothing more


def test_who_waits_for_the_writer_gets_it_between_two_steps(sqlite_url: str, shared_sandbox: None) -> None:
    """Another process would: SQLite itself asks after 1, 2, 5, 10, 15, 20, 25 … ms, and misses many pauses of 10 ms."""
    waited, over = list[float](), threading.Event()
    with Engine(sqlite_url) as first, Engine(sqlite_url) as second:

        def steps() -> None:
            while not over.is_set():
                first.database.write(lambda connection: time.sleep(0.06))
                time.sleep(0.005)

        holder = threading.Thread(target=steps)
        holder.start()
        for _ in range(12):
            begun = time.perf_counter()
            second.database.write(lambda connection: None)
            waited.append(time.perf_counter() - begun)
            time.sleep(0.003)
        over.set()
        holder.join()
    assert sorted(waited)[-3] < 0.1, waited  # a step; two may fall on a machine that is busy
