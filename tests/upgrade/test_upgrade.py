"""A database of every released revision upgrades, works, and goes back without loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from kept import RELEASED, Kept, unpacked
from reading import differences, engine_on, observe, rows
from sqlalchemy import create_engine
from story import CALLS, HOSTILE, KEPT, OUTPUTS, PLAIN, STRANGE, TOOLS, records

import byref
from byref import db
from byref.adapters.common.items import Items
from byref.db.integrity import examine
from byref.db.revisions import REVISIONS
from byref.stores import FileStore

KINDS = ("sqlite", "postgresql")


@pytest.fixture(params=RELEASED)
def kept(request: pytest.FixtureRequest, empty_url: str, tmp_path: Path) -> Kept:
    return unpacked(request.param, empty_url, tmp_path)


@pytest.fixture(scope="module", params=[(revision, kind) for revision in RELEASED for kind in KINDS], ids="-".join)
def upgraded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, make_postgres: Callable[..., str]
) -> Kept:
    """A database of a release, upgraded, which tests only read."""
    revision, kind = request.param
    folder = tmp_path_factory.mktemp("upgraded")
    found = unpacked(revision, f"sqlite:///{folder / 'kept.db'}" if kind == "sqlite" else make_postgres(), folder)
    db.upgrade(found.url)
    return found


@pytest.fixture
def engine(kept: Kept, shared_sandbox: None) -> Iterator[byref.Engine]:
    """On a database of a release, upgraded, of the test's own."""
    db.upgrade(kept.url)
    with engine_on(kept.url, kept.blobs) as engine:
        yield engine


def table_by_table(url: str) -> dict[str, list[str]]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = rows(connection)
    engine.dispose()
    return found


def test_every_release_has_left_its_databases() -> None:
    assert [revision for revision in REVISIONS if revision in RELEASED] == RELEASED
    assert RELEASED[0] == "0001"


def test_a_database_of_a_release_has_one_of_everything(upgraded: Kept) -> None:
    """What a table's CHECK lists is there, each of it; and of what may be NULL, both."""
    engine = create_engine(upgraded.url)
    with engine.connect() as connection:
        for table, column, values in (
            ("ledger", "kind", {"output", "reply", "usage", "compaction", "resolution"}),
            ("ledger", "route", {None, "inline", "variables", "artifact", "truncate", "wholesale", "placeholder"}),
            ("artifacts", "kind", {"json", "text", "image", "document"}),
            ("artifacts", "origin", {"output", "run", "model", "host"}),
            ("artifacts", "kept", {True, False}),
            ("artifacts", "tenant", {PLAIN, HOSTILE}),
            ("variables", "kind", {"value", "dataframe"}),
            ("variables", "revision", {1, 2}),
            ("names", "kind", {"exact", "source"}),
            ("runs", "language", {"python", "jq", "sql"}),
            ("blobs", "store", {None, "files"}),
            ("frames", "codec", {"none", "zstd"}),
        ):
            found = connection.exec_driver_sql(f"SELECT DISTINCT {column} FROM byref_{table}").scalars()
            assert set(found) == values, (table, column)
    engine.dispose()
    empty = {"ended_sessions", "kept_artifacts", "expired_artifacts", "staged_blobs", "discards", "tombstones", "items"}
    assert all(upgraded.figures[name] for name in empty)
    assert upgraded.figures["frames"] > upgraded.figures["blobs"]


@pytest.mark.quick_cases(1)
def test_it_is_read_as_it_was_written(upgraded: Kept) -> None:
    assert db.current(upgraded.url) == db.head()
    with engine_on(upgraded.url, upgraded.blobs) as engine:
        found = observe(engine)
    assert list(differences(upgraded.read, found)) == []
    report = examine(upgraded.url, deep=True, blobs=FileStore(upgraded.blobs), grace=timedelta(days=100_000))
    assert report.problems == ()
    assert list(differences(upgraded.figures, dict(report.figures))) == []


@pytest.mark.slow
def test_what_was_answered_is_answered_again_byte_for_byte(engine: byref.Engine, kept: Kept) -> None:
    observe(engine)  # what an old release stored without a checksum gets one when it is read
    before = table_by_table(kept.url)
    for told in kept.told["outputs"]:
        if told["session"] == "ended":
            continue
        session = engine.session(told["session"], tenant=told["tenant"])
        more = {name: told[name] for name in ("arguments", "is_error") if name in told}
        again = session.process(OUTPUTS[told["output"]](), tool=told["tool"], call_id=told["call_id"], **more)
        assert (again.content, again.step) == (told["content"], told["step"]), told["call_id"]
    for told in kept.told["replies"]:
        session = engine.session(told["session"], tenant=told["tenant"])
        assert session.call(told["name"], told["arguments"], call_id=told["call_id"]).content == told["content"]
    after = table_by_table(kept.url)
    assert {name for name in before if before[name] != after[name]} <= {"byref_artifacts"}  # uses: `expires_at`


@pytest.mark.slow
@pytest.mark.parametrize("empty_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.parametrize(
    "tenant", [pytest.param(PLAIN, id="in SQL"), pytest.param(HOSTILE, id="in files", marks=pytest.mark.slow)]
)
def test_conversations_go_on(engine: byref.Engine, kept: Kept, tenant: str) -> None:
    chat = engine.session(f"chat {tenant}", tenant=tenant, tools=TOOLS)
    reply = chat.call("code_interpreter", {"code": KEPT})
    users = OUTPUTS["users"]()["users"]
    total = sum(row["id"] for row in users)
    assert not reply.is_error, reply.content
    pair = "(Decimal('1.10'), datetime.datetime(2026, 1, 2, 0, 0, tzinfo=datetime.timezone.utc))"
    ones = sum(row["name"] == "user 1" for row in users)
    assert json.loads(reply.content) == [42, 8, [1, 2, 3], pair, 50, 2, ones, total + 1, 1_250]
    for name, arguments in CALLS[:-1]:
        assert not chat.call(name, arguments).is_error
    assert chat.resolve({"n": {"$var": "users", "jq": "length"}, "t": "$var_step_2.total"}) == {"n": 2_500, "t": 2_500}
    step = chat.ledger()[-1].step
    result = chat.process(records(4_000, "new"), tool="new", call_id="new_1")
    assert (result.route, result.step) == ("variables", step + 1)
    assert chat.process(records(4_000, "new"), tool="new", call_id="new_1").content == result.content
    assert chat.run("[len(new), total]").value == [4_000, total + 1]
    # recorded before: once only
    chat.record_usage({"prompt_tokens": 9_000, "completion_tokens": 300}, request_id="req_1")
    assert chat.ledger()[-1].kind != "usage"
    assert chat.get_artifact(STRANGE) is not None
    items = Items(engine, "items", tenant)
    assert items.append("chat", ["more"]) == 3
    with pytest.raises(byref.SessionGone):
        engine.session("ended", tenant=tenant).process("more", tool="t")
    [survivor] = engine.session("ended", tenant=tenant).artifacts()
    assert survivor.value == records(900, "kept")
    [gone] = [told for told in kept.told["expired"] if told["tenant"] == tenant]
    told = engine.session("brief", tenant=tenant).call("artifact_read", {"artifact_id": gone["id"]})
    assert told.is_error and "expired" in told.content and "brief tool" in told.content
    assert examine(kept.url, deep=True, blobs=FileStore(kept.blobs), grace=timedelta(days=100_000)).problems == ()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("first", ["1 + 1", "q = 5", "Point(4).far()"])
def test_definitions_are_there_after_any_first_call(engine: byref.Engine, first: str) -> None:
    chat = engine.session(f"chat {PLAIN}", tenant=PLAIN, tools=TOOLS)
    for code in (first, KEPT, "q = 6", KEPT):
        reply = chat.call("code_interpreter", {"code": code})
        assert not reply.is_error and "NameError" not in reply.content, reply.content


@pytest.mark.slow
def test_a_sweep_leaves_what_is_needed(engine: byref.Engine, kept: Kept) -> None:
    swept = engine.sweep(grace=timedelta(0))
    assert swept.artifacts == kept.figures["expired_artifacts"]
    assert swept.blobs >= kept.figures["staged_blobs"]
    assert swept.objects >= kept.figures["discards"]
    assert examine(kept.url, deep=True, blobs=FileStore(kept.blobs), grace=timedelta(0)).problems == ()
    for tenant in (PLAIN, HOSTILE):
        assert engine.delete_session(f"chat {tenant}", tenant=tenant)
        engine.delete_tenant(tenant)
    engine.sweep(grace=timedelta(0))
    report = examine(kept.url, deep=True, blobs=FileStore(kept.blobs), grace=timedelta(0))
    assert (report.problems, set(report.figures.values())) == ((), {0})


@pytest.mark.quick_cases(1)
def test_it_goes_back_without_loss_and_comes_again(kept: Kept) -> None:
    at_first = table_by_table(kept.url)
    db.upgrade(kept.url)
    upgraded = table_by_table(kept.url)
    db.downgrade(kept.url, kept.revision)
    assert table_by_table(kept.url) == at_first
    db.upgrade(kept.url)
    assert table_by_table(kept.url) == upgraded
    assert examine(kept.url, grace=timedelta(days=100_000)).problems == ()
