"""Artifacts expire unless they are used. Whoever names an expired one reads what it was and how to get it again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from material import page, prose, records
from sqlalchemy import func, select, update
from sqlcheck import check_invariants

from byref import ConfigurationError, Engine, Policy, Session, SessionGone, ToolError
from byref.artifacts import tombstones
from byref.conversation import lifecycle
from byref.db.tables import ArtifactRow, LedgerRow, SessionRow, TombstoneRow
from byref.engine import SWEEP_SECONDS
from byref.policy import TOOL_NAMES
from byref_sandbox import Sandbox

WEEK = timedelta(days=7)
ALL = list(TOOL_NAMES)


pytestmark = pytest.mark.quick_on("postgresql", "it compares times with a zone, and takes locks by rows")
ON_SQLITE = pytest.mark.quick_on("sqlite", "no time is compared and no lock is taken")


@pytest.fixture
def own(shared_url: str, sandbox: Sandbox) -> Iterator[Engine]:
    """An engine on a database of this test's own: sweeps know no tenants."""
    with Engine(shared_url, interpreter=sandbox) as engine:
        yield engine
        check_invariants(shared_url)


def later(engine: Engine, by: timedelta) -> None:
    """Let time pass, as artifacts see it."""

    def work(connection: Any) -> None:
        for row, at in connection.execute(select(ArtifactRow.id, ArtifactRow.expires_at)).all():
            if at is not None:
                connection.execute(update(ArtifactRow).where(ArtifactRow.id == row).values(expires_at=at - by))

    engine.database.write(work)


def expiries(engine: Engine) -> list[datetime | None]:
    return engine.database.read(
        lambda c: list(c.execute(select(ArtifactRow.expires_at).order_by(ArtifactRow.id)).scalars())
    )


def count(engine: Engine, table: Any) -> int:
    return engine.database.read(lambda c: c.execute(select(func.count()).select_from(table)).scalar_one())


def is_about(moment: datetime | None, expected: datetime) -> bool:
    return moment is not None and abs(moment - expected) < timedelta(minutes=1)


def test_time_to_live_is_the_policys_of_the_tool(own: Engine) -> None:
    policy = Policy(ttl=3600, per_tool={"short": {"ttl": 60}, "ever": {"ttl": None}})
    session = own.session("s", policy=policy)
    now = datetime.now(UTC)
    for tool in ("plain", "short", "ever"):
        session.process([tool, *records(2_000)], tool=tool)
    session.store_artifact("x")
    session.run("kept = 1")
    hour, minute = now + timedelta(hours=1), now + timedelta(minutes=1)
    own.session("other", policy=policy)
    shared = session.share(session.artifacts()[0], "other")
    plain, short, ever, stored, run, given = expiries(own)
    assert is_about(plain, hour) and is_about(short, minute) and ever is None
    assert is_about(stored, hour) and is_about(run, hour) and is_about(given, hour)
    assert shared.expires_at == given and session.artifacts()[2].expires_at is None
    assert Policy().ttl == WEEK


def test_what_has_expired_is_gone_at_that_moment_and_swept_later(own: Engine) -> None:
    session = own.session("s", tools=ALL)
    session.process(page(2_000), tool="users", call_id="c", arguments={"page": 1})
    session.process(prose(1_200_000), tool="log", arguments='{"since": "monday"}')
    live = session.store_artifact("alive", name="live")
    assert own.sweep().artifacts == 0
    own.database.write(lambda c: c.execute(update(ArtifactRow).where(ArtifactRow.id == live.row_id).values(
        expires_at=datetime.now(UTC) + timedelta(days=30))))  # fmt: skip
    gone = [artifact.id for artifact in session.artifacts()[:2]]
    later(own, WEEK)
    for swept in (False, True):
        if swept:
            assert own.sweep() == type(own.sweep())(artifacts=2, blobs=2)
            assert (count(own, ArtifactRow), count(own, TombstoneRow)) == (1, 2)
        assert [artifact.id for artifact in session.artifacts()] == [live.id]
        assert session.variables() == []
        assert session.get_artifact(gone[0]) is None
        for name in ("users", "$users", "pagination", "var_step_1"):
            with pytest.raises(ConfigurationError, match=r"is gone: it expired on 20.*Call users again with .*page"):
                session.variable(name)
        assert session.history()[0].original is None
        assert session.reminder().splitlines()[1:] == ["- live: text, 5 bytes"]
        listed = session.call("list_artifacts", {}).content
        assert live.pointer in listed and gone[0].removeprefix("art_") not in listed
        assert session.usage().outputs == 2


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("artifact_read", {"artifact_id": "KEY"}),
    ("artifact_grep", {"artifact_id": "KEY", "pattern": "x"}),
    ("artifact_jq", {"artifact_id": "KEY", "expression": "length"}),
    ("retrieve_offloaded_content", {"reference": "KEY"}),
    ("get_artifact", {"pointer_or_name": "KEY"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shared_url", "swept"),
    [
        ("sqlite", False),
        ("postgresql", True),
        pytest.param("sqlite", True, marks=pytest.mark.slow),
        pytest.param("postgresql", False, marks=pytest.mark.slow),
    ],
    indirect=["shared_url"],
)
def test_every_reader_says_what_it_was_and_which_call_makes_it_again(own: Engine, swept: bool) -> None:
    session = own.session("s", tools=ALL)
    session.process(page(2_000), tool="users", call_id="c", arguments={"page": 1, "of": "ü"})
    [artifact] = session.artifacts()
    session.call("code_interpreter", {"code": "big = [user['id'] for user in users_2]"}, call_id="d")
    session.store_artifact({"a": 1}, name="mine")
    session.call("store_artifact", {"name": "note", "value": "v" * 50})
    session.process([{"i": i} for i in range(5_000)], tool="größe_b")
    later(own, WEEK)
    if swept:
        assert own.sweep().artifacts == 5
    made = 'Call users again with {"page":1,"of":"ü"} to have it again.'
    for tool, arguments in CALLS:
        for key in (artifact.id, artifact.pointer, "users", "$users", "pagination", "var_step_1"):
            given = {name: key if value == "KEY" else value for name, value in arguments.items()}
            reply = session.call(tool, given)
            assert made in reply.text and "it expired on 20" in reply.text, (tool, key, reply.text)
            assert "application/json, " in reply.text and '"users": "array(2000) of object(3 keys)"' in reply.text
            assert reply.is_error is (tool != "get_artifact")
    assert "Call größe_b again" in session.call("artifact_read", {"artifact_id": "größe_b"}).text
    for never in ("größexb", "größe", "%", "var_step_99", "art_none", "\\", "a\0b"):
        assert "no artifact or variable" in session.call("artifact_read", {"artifact_id": never}).text, never
    reply = session.call("artifact_read", {"artifact_id": "mine"})
    assert reply.is_error and "The application stored it, and would have to store it again." in reply.text
    reply = session.call("artifact_read", {"artifact_id": "note"})
    assert "Store it with store_artifact again, if it is needed." in reply.text
    reply = session.call("artifact_read", {"artifact_id": "big"})
    assert 'Call code_interpreter again with {"code":"big = [user' in reply.text
    reply = session.call("code_interpreter", {"code": "len(users)"})
    assert reply.is_error and made in reply.text and "NameError" in reply.text
    for code in ("len($users)", "len(users)", "df('users')"):
        error = session.run(code).error
        assert error and error.kind == "NameError", code
        assert error.hint and error.hint.startswith("'users' is gone: it expired on 20") and made in error.hint
    error = session.run("nothing").error
    assert error and error.kind == "NameError" and "is gone" not in (error.hint or "")
    for argument in (
        "$users",
        "$users[0].name",
        "$users.rows",
        artifact.id,
        {"$var": "users"},
        {"$var": "users", "jq": "length"},
    ):
        with pytest.raises(ToolError, match=r"'users' is gone|is gone: it expired") as raised:
            session.resolve({"x": [argument]})
        assert made in str(raised.value)
    assert session.resolve({"x": "$nothing"}) == {"x": "$nothing"}


@ON_SQLITE
def test_names_nobody_ever_had_are_answered_as_before(own: Engine) -> None:
    session = own.session("s")
    session.store_artifact("x", name="mine")
    later(own, WEEK)
    own.sweep()
    reply = session.call("artifact_read", {"artifact_id": "yours"})
    assert reply.text == "no artifact or variable 'yours' in this conversation; nothing is stored yet"
    other = own.session("other", tenant="t2")
    assert "in this conversation" in other.call("artifact_read", {"artifact_id": "mine"}).text


@ON_SQLITE
def test_the_same_output_again_is_stored_again_once_its_data_is_gone(own: Engine) -> None:
    for swept in (False, True):
        session = own.session(f"s{swept}")
        first = session.process(page(2_000), tool="users", call_id="call_0")
        assert session.process(page(2_000), tool="users", call_id="call_0").step == first.step
        later(own, WEEK)
        if swept:
            own.sweep()
        again = session.process(page(2_000), tool="users", call_id="call_0")
        assert again.step != first.step and again.content != first.content
        assert again.variables[0].name == "users" and session.variable("users_2").value() == page(2_000)["users"]
        assert "identical to the output of step 1" in again.text
        assert session.process(page(2_000), tool="users", call_id="call_0").step == again.step
        assert session.explain("call_0").step == again.step and session.explain(1).call_id == "call_0"


@ON_SQLITE
def test_an_output_is_explained_by_its_call_id_after_its_data_is_gone(own: Engine) -> None:
    session = own.session("s")
    session.process(page(2_000), tool="users", call_id="call_7")
    before = session.explain("call_7")
    later(own, WEEK)
    own.sweep()
    assert session.explain("call_7") == before


USES: dict[str, Callable[[Session], object]] = {
    "read": lambda s: s.call("artifact_read", {"artifact_id": "users"}),
    "grep": lambda s: s.call("artifact_grep", {"artifact_id": "users", "pattern": "x"}),
    "jq": lambda s: s.call("artifact_jq", {"artifact_id": "users", "expression": "length"}),
    "code": lambda s: s.call("code_interpreter", {"code": "len(users)"}),
    "reference": lambda s: s.resolve({"x": "$users"}),
    "host: variable": lambda s: s.variable("users"),
    "host: artifact": lambda s: s.get_artifact(s.artifacts()[0].id),
    "host: run": lambda s: s.run("len(users)"),
    "host: value": lambda s: s.variables()[0].value(),
    "host: bytes": lambda s: s.artifacts()[0].payload.read(),
    "export": lambda s: s.export(s.artifacts()[0], io.BytesIO()),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.slow
def test_a_use_puts_expiry_off_once_it_moved_by_a_tenth(own: Engine, use: str) -> None:
    session = own.session("s", tools=ALL)
    session.process(page(2_000), tool="users")
    session.store_artifact("unused")
    [fresh, unused] = expiries(own)
    USES[use](session)
    session.process("any step", tool="t")
    assert expiries(own) == [fresh, unused]
    later(own, WEEK * 0.2)
    used_at = datetime.now(UTC)
    USES[use](session)
    own.sweep()
    moved, left = expiries(own)[:2]
    assert is_about(moved, used_at + WEEK) and unused is not None and left == unused - WEEK * 0.2
    later(own, WEEK * 0.9)
    own.sweep()
    assert [variable.name for variable in session.variables()][:1] == ["users"]
    assert count(own, TombstoneRow) == 1


def test_a_hosts_use_is_written_by_the_next_sweep_or_the_engines_end(database_url: str, sandbox: Sandbox) -> None:
    with Engine(database_url, interpreter=sandbox) as engine:
        session = engine.session("s")
        session.store_artifact("x", name="x")
        for write in (engine.sweep, lambda: passing(engine)):
            later(engine, WEEK * 0.5)
            session.get_artifact("x")
            assert not is_about(expiries(engine)[0], datetime.now(UTC) + WEEK)
            write()
            assert is_about(expiries(engine)[0], datetime.now(UTC) + WEEK)
        later(engine, WEEK * 0.5)
        session.get_artifact("x")
        if "memory" in database_url:
            return
    with Engine(database_url, interpreter=sandbox) as engine:
        assert is_about(expiries(engine)[0], datetime.now(UTC) + WEEK)


def passing(engine: Engine) -> None:
    engine._swept_at -= SWEEP_SECONDS
    engine.session("s")


def test_an_engine_expires_in_passing(own: Engine) -> None:
    own.session("s").store_artifact("x")
    later(own, WEEK)
    passing(own)
    assert (count(own, ArtifactRow), count(own, TombstoneRow)) == (0, 1)


def test_tombstones_expire_and_are_bounded(own: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tombstones, "MOST", 5)
    session = own.session("s")
    for number in range(8):
        session.store_artifact(f"x{number}", name=f"n{number}")
    later(own, WEEK)
    assert own.sweep().artifacts == 8
    assert count(own, TombstoneRow) == 5
    assert "is gone" in session.call("artifact_read", {"artifact_id": "n7"}).text
    assert "is gone" not in session.call("artifact_read", {"artifact_id": "n2"}).text
    old = datetime.now(UTC) - tombstones.KEPT - timedelta(minutes=1)
    own.database.write(lambda c: c.execute(update(TombstoneRow).values(expired_at=old)))
    assert own.sweep().tombstones == 5
    assert count(own, TombstoneRow) == 0


@pytest.mark.slow
def test_a_sweep_expires_any_number_of_any_sessions(own: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "EXPIRED_AT_ONCE", 5)
    for name in ("a", "b", "c"):
        session = own.session(name)
        for number in range(7):
            session.store_artifact(f"{name} {number}", name=f"n{number}")
    later(own, WEEK)
    gone = own.sweep()
    assert (gone.artifacts, gone.blobs) == (21, 21)
    assert own.sweep().artifacts == 0


SWEEPS = """
from byref import Engine
from byref_sandbox import Sandbox
with Engine(sys.argv[1], interpreter=Sandbox()) as engine:
    go()
    gone = engine.sweep()
    print(gone.artifacts, gone.blobs)
"""


@pytest.mark.slow
def test_processes_that_sweep_at_once_share_the_work(
    shared_url: str, sandbox: Sandbox, race: Callable[..., list[str]]
) -> None:
    with Engine(shared_url, interpreter=sandbox) as engine:
        for name in range(6):
            session = engine.session(f"s{name}")
            for number in range(50):
                session.store_artifact(f"{name} {number}", name=f"n{number}")
        later(engine, WEEK)
        swept = [line.split() for line in race(4, SWEEPS, shared_url)]
        left = engine.sweep()
        assert sum(int(artifacts) for artifacts, _ in swept) + left.artifacts == 300
        assert sum(int(blobs) for _, blobs in swept) + left.blobs == 300
        assert count(engine, TombstoneRow) == 300
    check_invariants(shared_url)


@ON_SQLITE
def test_bytes_that_another_artifact_needs_survive(own: Engine) -> None:
    one, two = own.session("one"), own.session("two", policy=Policy(ttl=None))
    for session in (one, two):
        session.process(page(2_000), tool="users")
    later(own, WEEK)
    assert own.sweep() == type(own.sweep())(artifacts=1)
    assert two.variable("users").value() == page(2_000)


def test_a_ledger_expires_with_its_idle_conversation(own: Engine) -> None:
    policy = Policy(ledger_ttl=3600, ttl=60)
    idle, busy, full = (own.session(name, policy=policy) for name in ("idle", "busy", "full"))
    ever = own.session("ever")
    for session in (idle, busy, full, ever):
        session.process("small", tool="t")
    full.store_artifact("kept")
    idle.store_artifact("gone")
    full.keep(full.artifacts()[0])

    def age(*names: str) -> None:
        past = datetime.now(UTC) - timedelta(hours=2)

        def work(connection: Any) -> None:
            rows = select(SessionRow.id).where(SessionRow.name.in_(names))
            connection.execute(update(LedgerRow).where(LedgerRow.session_id.in_(rows)).values(created_at=past))
            connection.execute(update(SessionRow).where(SessionRow.ledger_seconds.is_not(None)).values(expires_at=past))

        own.database.write(work)

    age("idle", "full", "ever")
    assert own.sweep().sessions == 0
    later(own, WEEK)
    own.sweep()
    age("idle", "full", "ever")
    assert own.sweep().sessions == 1
    assert [info.id for info in own.sessions()] == ["busy", "full", "ever"]
    assert count(own, TombstoneRow) == 0
    with pytest.raises(SessionGone):
        idle.process("x", tool="t")
    assert own.session("idle").ledger() == []
    age("busy")
    full.end()
    assert own.sweep().sessions == 1
    assert full.artifacts()[0].value == "kept"


def test_a_call_again_takes_away_what_it_made_and_nothing_else(own: Engine) -> None:
    """Of a conversation in which thousands of others have expired it would hold the writer for seconds."""
    session = own.session("s")
    for number in range(4):
        session.process(page(300 + number), tool="users", call_id=f"call {number}")
    later(own, WEEK)
    session.process(page(300), tool="users", call_id="call 0")
    assert (count(own, TombstoneRow), count(own, ArtifactRow)) == (1, 4)
    assert own.sweep().artifacts == 3
