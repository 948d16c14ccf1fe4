"""How conversations begin, are shared, end, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from material import page, prose, records
from sqlalchemy import text, update
from sqlcheck import TABLES, check_invariants

from byref import (
    ArtifactMissing,
    ConfigurationError,
    Engine,
    InvalidId,
    Policy,
    QuotaExceeded,
    Session,
    SessionGone,
    Usage,
    db,
)
from byref.artifacts import blobs, staging
from byref.artifacts.staging import Content, Place
from byref.db.tables import GRACE, BlobRow
from byref.engine import SWEEP_SECONDS
from byref.ingest import stage
from byref_sandbox import Sandbox


def counts(engine: Engine, **where: str) -> dict[str, int]:
    """Rows of each table, of one tenant where it is given."""
    condition = " WHERE tenant = :tenant" if where else ""
    return engine.database.read(
        lambda c: {
            t: int(c.execute(text(f"SELECT COUNT(*) FROM byref_{t}{condition}"), where).scalar() or 0) for t in TABLES
        }
    )


def fill(session: Session) -> None:
    """Something in every table that a conversation can have rows in."""
    session.process(page(2_000), tool="users", call_id="c")
    session.process(prose(1_200_000), tool="log")
    session.process("small", tool="t")
    session.call("code_interpreter", {"code": "total = len(users_2)"}, call_id="d")
    session.call("artifact_jq", {"artifact_id": "users", "expression": "keys"})
    session.store_artifact({"a": [1]}, name="mine")
    session.record_usage(Usage(input_tokens=5), request_id="r")
    session.on_compaction(5)


# Opening


@pytest.mark.postgresql("text as identifiers: NUL, lone surrogates, case, length")
@pytest.mark.parametrize("id", ["a", "x" * 512, "ü" * 256, " ", "../..", "'; --", "\n", "漢字", "%00"])
def test_ids_are_the_hosts_own(engine: Engine, tenant: str, id: str) -> None:
    first = engine.session(id, tenant=tenant)
    first.process("x", tool="t")
    assert (first.id, first.tenant) == (id, tenant)
    assert len(engine.session(id, tenant=tenant).ledger()) == 1
    assert [info.id for info in engine.sessions(tenant)] == [id]
    assert engine.session("s", tenant=id + tenant[: 512 - len(id.encode())]).ledger() == []


@pytest.mark.postgresql("text as identifiers: NUL, lone surrogates, case, length")
@pytest.mark.parametrize("id", ["", "x" * 513, "ü" * 257, "a\0b", "\ud800", 5, None, b"x"])
@pytest.mark.parametrize("what", ["id", "tenant"])
def test_ids_that_cannot_be_kept_are_named(engine: Engine, id: Any, what: str) -> None:
    with pytest.raises(InvalidId, match=f"^{what}="):
        engine.session(**({"id": "s"} | {what: id}))
    with pytest.raises(InvalidId, match=f"^{what}="):
        engine.delete_session(**({"id": "s"} | {what: id}))


@pytest.mark.parametrize(
    "arguments",
    [
        {"context_window": 0}, {"context_window": -1}, {"context_window": "x"}, {"context_window": True}, {"context_window": 10**30},
        {"model": 5}, {"policy": "x"}, {"policy": {}}, {"tools": "code_interpreter"}, {"tools": ["x"]}, {"tools": 5},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_named(engine: Engine, tenant: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(arguments))):
        engine.session("s", tenant=tenant, **arguments)
    assert engine.sessions(tenant) == []


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_what_is_given_first_is_kept_and_what_is_given_later_holds_for_the_handle(engine: Engine, tenant: str) -> None:
    policy = Policy(max_result_tokens=10, per_tool={"x": {"enabled": False}})
    engine.session("s", tenant=tenant, context_window=1_000, policy=policy, tools=["artifact_read"])
    plain = engine.session("s", tenant=tenant)
    assert (plain.context_window, plain._scope.policy) == (1_000, policy)
    assert [tool["name"] for tool in plain.tools("anthropic")] == ["artifact_read"]
    other = engine.session("s", tenant=tenant, context_window=5_000, policy=Policy(), tools=[])
    assert (other.context_window, other._scope.policy, other.tools()) == (5_000, Policy(), [])
    assert engine.session("s", tenant=tenant).context_window == 1_000


def test_a_model_nobody_knows_is_said_once(local: Engine, tenant: str, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b"):
        assert local.session(name, tenant=tenant, model=f"unheard-of-{tenant}").context_window == 128_000
    assert len([record for record in caplog.records if "context window" in record.message]) == 1
    assert local.session("c", tenant=tenant, model="gpt-4o").context_window == 128_000
    assert local.session("d", tenant=tenant, model="gpt-4.1").context_window >= 1_000_000


@pytest.mark.postgresql("foreign keys and what is deleted with what")
def test_tenants_share_nothing(engine: Engine, tenant: str) -> None:
    ours, theirs = engine.session("same", tenant=tenant), engine.session("same", tenant=tenant + "x")
    fill(ours)
    assert (theirs.ledger(), theirs.artifacts(), theirs.variables(), theirs.context_tokens()) == ([], [], [], 0)
    assert theirs.usage().requests == 0
    assert theirs.history() == []
    assert theirs.reminder() == "No data is stored in this conversation."
    with pytest.raises(ConfigurationError, match="no artifact"):
        theirs.share(ours.artifacts()[0].id, "same")


# Sharing


@pytest.mark.postgresql("equal bytes are found by a unique index")
def test_sharing_gives_the_same_bytes_under_another_id(engine: Engine, tenant: str) -> None:
    one, other = engine.session("one", tenant=tenant), engine.session("other", tenant=tenant)
    one.process(page(2_000), tool="users")
    [artifact] = one.artifacts()
    for given in (artifact, artifact.id, artifact.pointer):
        shared = one.share(given, "other")
        assert shared.id != artifact.id
        assert (shared.value, shared.schema, shared.shape) == (page(2_000), artifact.schema, artifact.shape)
        assert shared.payload.blob_id == artifact.payload.blob_id
        assert other.get_artifact(shared.id) == shared
        assert one.get_artifact(shared.id) is None
    engine.delete_session("one", tenant=tenant)
    assert other.artifacts()[0].value == page(2_000)
    with pytest.raises(ConfigurationError, match="no session 'nobody'"):
        other.share(other.artifacts()[0], "nobody")
    with pytest.raises(ConfigurationError, match="no artifact 'art_nope'"):
        other.share("art_nope", "other")
    engine.session("ended", tenant=tenant).end()
    with pytest.raises(SessionGone):
        other.share(other.artifacts()[0], "ended")


def test_only_a_conversations_own_artifacts_are_shared_by_it(engine: Engine, tenant: str) -> None:
    one, other = engine.session("one", tenant=tenant), engine.session("other", tenant=tenant)
    foreign = engine.session("one", tenant=tenant + "x")
    for session in (one, other, foreign):
        session.store_artifact("secret " * 10, name="mine")
    for artifact in (other.artifacts()[0], foreign.artifacts()[0]):
        for given in (artifact, artifact.id):
            with pytest.raises(ConfigurationError, match=f"no artifact '{artifact.id}'"):
                one.share(given, "other")
    assert len(other.artifacts()) == 1
    for with_ in ("\ud800", "a\0b", "", None):
        with pytest.raises(InvalidId, match=r"^with_="):
            one.share("mine", with_)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^artifact=None"):
        one.share(None, "other")  # type: ignore[arg-type]


@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
def test_the_host_stores_what_it_likes(engine: Engine, session: Session) -> None:
    for value, expected, kind in [
        ("text", "text", "text"), ({"a": [1, 2]}, {"a": [1, 2]}, "json"), (b"\xff\0", b"\xff\0", "document"),
        (records(3_000), records(3_000), "json"), ("", "", "text"), ('{"a":1}', '{"a":1}', "json"),
    ]:  # fmt: skip
        stored = session.store_artifact(value, name="same")
        assert (stored.value, stored.kind, stored.name) == (expected, kind, "same")
        assert session.get_artifact("same") == session.get_artifact(stored.pointer) == stored
    assert len(session.artifacts()) == 6
    assert session.ledger() == []
    with pytest.raises(ConfigurationError, match="name="):
        session.store_artifact("x", name="")
    small = engine.session(session.id, tenant=session.tenant, policy=Policy(max_artifact_bytes=10))
    assert small.store_artifact("x" * 10).size_bytes == 10
    with pytest.raises(QuotaExceeded, match="11 bytes are more than max_artifact_bytes=10"):
        small.store_artifact("x" * 11)


# The end


@pytest.mark.postgresql("foreign keys and what is deleted with what")
def test_end_takes_the_data_and_leaves_the_ledger(engine: Engine, tenant: str) -> None:
    session, other = engine.session("s", tenant=tenant), engine.session("other", tenant=tenant)
    fill(session)
    other.process(page(2_000), tool="users")
    entries, usage = session.ledger(), session.usage()
    session.end()
    session.end()
    later = engine.session("s", tenant=tenant)
    assert (later.artifacts(), later.variables()) == ([], [])
    assert [(e.step, e.content, e.tokens) for e in later.ledger()] == [(e.step, e.content, e.tokens) for e in entries]
    assert later.usage() == usage
    assert later.history()[0].original is None
    assert later.history()[0].processed == entries[0].content
    assert engine.sessions(tenant)[0].ended_at is not None
    assert counts(engine, tenant=tenant)["blobs"] == 1
    assert other.variable("users").value() == page(2_000)
    for act in (
        lambda: later.process("x", tool="t"),
        lambda: later.call("artifact_read", {"artifact_id": "users"}),
        lambda: later.record_usage(Usage(input_tokens=1)),
        lambda: later.on_compaction(1),
        lambda: later.store_artifact("x"),
        lambda: later.run("1"),
    ):
        with pytest.raises(SessionGone):
            act()


def test_close_lets_go_of_the_handle_only(engine: Engine, tenant: str) -> None:
    with engine.session("s", tenant=tenant) as session:
        fill(session)
        session.close()
    later = engine.session("s", tenant=tenant)
    assert later.variable("users").value() == page(2_000)
    later.process("more", tool="t")


def test_a_deleted_session_leaves_nothing(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant)
    fill(session)
    session.run("seen = {1}")
    filled = counts(engine, tenant=tenant)
    assert all(filled[name] for name in TABLES if name != "tombstones"), filled
    artifact, variable = session.artifacts()[0], session.variable("users")
    assert engine.delete_session("s", tenant=tenant) is True
    assert set(counts(engine, tenant=tenant).values()) == {0}
    assert engine.delete_session("s", tenant=tenant) is False
    assert session.get_artifact(artifact.id) is None
    assert (session.ledger(), session.artifacts(), session.variables()) == ([], [], [])
    with pytest.raises(SessionGone):
        session.process("x", tool="t")
    for gone in (artifact, variable.artifact):
        with pytest.raises(ArtifactMissing):
            _ = gone.value
    assert engine.session("s", tenant=tenant).process("x", tool="t").step == 1


def test_shared_bytes_live_as_long_as_one_needs_them(engine: Engine, tenant: str) -> None:
    for name in ("a", "b"):
        engine.session(name, tenant=tenant).process(page(2_000), tool="users")
    assert counts(engine, tenant=tenant)["blobs"] == 1
    engine.delete_session("a", tenant=tenant)
    assert engine.session("b", tenant=tenant).variable("users").value() == page(2_000)
    engine.delete_session("b", tenant=tenant)
    assert set(counts(engine, tenant=tenant).values()) == {0}


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("foreign keys and what is deleted with what")
def test_a_deleted_tenant_leaves_nothing_and_takes_nobody_along(engine: Engine, tenant: str) -> None:
    for name in ("a", "b"):
        fill(engine.session(name, tenant=tenant))
    fill(engine.session("a", tenant=tenant + "x"))
    theirs = counts(engine, tenant=tenant + "x")
    assert engine.delete_tenant(tenant) == 2
    assert set(counts(engine, tenant=tenant).values()) == {0}
    assert counts(engine, tenant=tenant + "x") == theirs
    assert engine.delete_tenant(tenant) == 0
    assert engine.sessions(tenant) == []


# Sweeping


@pytest.fixture
def own(database_url: str, sandbox: Sandbox) -> Iterator[Engine]:
    """An engine on a database of this test's own: sweeps know no tenants."""
    with Engine(database_url, interpreter=sandbox) as engine:
        yield engine


def test_what_was_staged_and_never_committed_is_swept_after_its_grace(own: Engine) -> None:
    fill(own.session("s"))
    live = counts(own)
    data = b"x" * 3_000_000
    staging.stage(Place(own.database.write, "default", None), Content(data, b"d" * 32, 1, "text/plain"))
    assert counts(own)["blobs"] == live["blobs"] + 1
    assert own.sweep().blobs == 0
    before = datetime.now(UTC) - GRACE - timedelta(seconds=1)
    own.database.write(lambda c: c.execute(update(BlobRow).values(staged_at=before)))
    assert own.sweep().blobs == 1
    assert counts(own) == live
    assert own.session("s").variable("users").value() == page(2_000)
    assert own.sweep(grace=timedelta(0)).blobs == 0
    assert counts(own) == live


@pytest.mark.slow
def test_a_sweep_takes_any_number(own: Engine) -> None:
    for i in range(blobs.SWEEP_BLOBS * 2 + 5):
        own.database.write(lambda c, i=i: blobs.stage(c, "t", i.to_bytes(32, "big"), 0, 0))
    assert own.sweep(grace=timedelta(0)).blobs == blobs.SWEEP_BLOBS * 2 + 5
    assert counts(own)["blobs"] == 0


def test_a_sweep_in_passing_takes_one_batch_at_a_time(own: Engine) -> None:
    def stage(number: int) -> None:
        old = datetime.now(UTC) - GRACE - timedelta(seconds=1)
        for i in range(number):
            own.database.write(lambda c, i=i: blobs.stage(c, "t", i.to_bytes(32, "big"), 0, 0))
        own.database.write(lambda c: c.execute(update(BlobRow).values(staged_at=old)))

    def opened() -> int:
        own.session("s")
        return counts(own)["blobs"]

    stage(blobs.SWEEP_BLOBS + 5)
    assert opened() == blobs.SWEEP_BLOBS + 5
    own._swept_at -= SWEEP_SECONDS
    assert [opened(), opened()] == [5, 0]
    stage(1)
    assert opened() == 1


def test_what_a_sweep_takes_in_between_is_staged_again(own: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    real, swept = staging.publish, []

    def publish(connection: Any, tenant: str, blob_id: int, digest: bytes) -> int | None:
        if not swept:
            swept.append(blobs.sweep(connection, timedelta(0)))
        return real(connection, tenant, blob_id, digest)

    monkeypatch.setattr(staging, "publish", publish)
    monkeypatch.setattr(stage, "BUFFERED_BYTES", 0)  # what is held until the commit, no sweep can take
    session = own.session("s")
    result = session.process(page(2_000), tool="users")
    assert [one.gone for one in swept] == [1]
    assert (result.route, session.variable("users").value()) == ("variables", page(2_000))


def test_nothing_is_out_of_order_after_all_that(sqlite_url: str, sandbox: Sandbox) -> None:
    with Engine(sqlite_url, interpreter=sandbox) as engine:
        for name in ("a", "b", "c"):
            fill(engine.session(name))
        engine.session("a").end()
        engine.delete_session("b")
        engine.session("c").share(engine.session("c").artifacts()[0], "c")
        engine.sweep(grace=timedelta(0))
    check_invariants(sqlite_url)


# One artifact


@pytest.mark.quick_cases(1)
def test_one_artifact_is_deleted_with_its_names_and_nothing_else(
    shared_url: str, tenant: str, sandbox: Sandbox
) -> None:
    """On a database of its own: others damage theirs."""
    with Engine(shared_url, interpreter=sandbox) as engine:
        session = engine.session("s", tenant=tenant)
        fill(session)
        users, log = session.variable("users").artifact, session.get_artifact("mine")
        assert log is not None
        before = counts(engine, tenant=tenant)
        assert session.delete_artifact(users)
        assert not session.delete_artifact(users.id) and not session.delete_artifact("users_2")
        names = [variable.name for variable in session.variables()]
        assert "users" not in names and "users_2" not in names and "total" in names
        assert session.get_artifact("mine") == log and log.value == {"a": [1]}
        after = counts(engine, tenant=tenant)
        assert (after["artifacts"], after["blobs"]) == (before["artifacts"] - 1, before["blobs"] - 1)
        assert after["ledger"] == before["ledger"] and after["tombstones"] == before["tombstones"]
        assert session.call("artifact_read", {"artifact_id": users.id}).is_error
        with pytest.raises(ArtifactMissing):
            assert users.value
        assert list(db.verify(engine.database.engine, deep=True)) == []


@pytest.mark.postgresql("foreign keys and what is deleted with what")
def test_bytes_that_others_have_too_stay(engine: Engine, tenant: str) -> None:
    first, second = (engine.session(name, tenant=tenant) for name in "ab")
    ours, theirs = (session.store_artifact(prose(5_000)) for session in (first, second))
    assert first.delete_artifact(ours) and theirs.value == prose(5_000)
    assert not first.delete_artifact(theirs.id)
    assert second.delete_artifact(theirs)
    assert counts(engine, tenant=tenant)["frames"] == 0


@pytest.mark.postgresql("foreign keys and what is deleted with what")
def test_what_was_kept_can_be_deleted_after_the_end(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant)
    kept = session.keep(session.store_artifact(prose(5_000)))
    session.end()
    assert session.delete_artifact(kept) and session.get_artifact(kept.id) is None


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_the_same_output_again_is_stored_anew(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant)
    (gone, *_) = session.process(page(2_000), tool="users", call_id="c").artifacts
    session.delete_artifact(gone)
    again = session.process(page(2_000), tool="users", call_id="c")
    assert again.artifacts[0].value == page(2_000) and again.artifacts[0].id != gone.id
    assert "users" in [variable.name for variable in session.variables()]
