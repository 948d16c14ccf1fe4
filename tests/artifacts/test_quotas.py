"""The quotas of a session and a tenant: an output that would exceed one is cut, and the turn goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from material import page, prose, records
from sqlalchemy import select

from byref import Engine, Policy, QuotaExceeded
from byref.artifacts import quotas
from byref.db.tables import BlobRow
from byref.policy import TOOL_NAMES
from byref_sandbox import Sandbox

SIZE = len(json.dumps(records(2_000), separators=(",", ":")))
KINDS = [("max_session_bytes", "session"), ("max_tenant_bytes", "tenant")]


def blobs(engine: Engine, tenant: str) -> int:
    return engine.database.read(lambda c: len(c.execute(select(BlobRow.id).where(BlobRow.tenant == tenant)).all()))


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
@pytest.mark.parametrize(("knob", "whose"), KINDS)
def test_an_output_past_a_quota_is_shortened_and_says_so(engine: Engine, tenant: str, knob: str, whose: str) -> None:
    session = engine.session("s", tenant=tenant, context_window=10**6, policy=Policy(**{knob: 3 * SIZE}))
    for turn in range(2):
        assert session.process([turn, *records(2_000)], tool="rows").route == "variables"
    stored = blobs(engine, tenant)
    refused = session.process([2, *records(2_000)], tool="rows", call_id="c")
    assert (refused.route, refused.reason, refused.artifacts, refused.variables) == ("truncate", knob, [], [])
    shown = json.loads(refused.text)
    assert shown["note"].startswith(f"INCOMPLETE: nothing of this was stored, for {knob} would be passed.")
    assert shown["output"][:1] == [2]
    assert refused.tokens < refused.original_tokens and refused.tokens <= session._scope.policy.truncate_tokens + 60
    assert blobs(engine, tenant) == stored
    said = str(session.explain("c"))
    assert f"with it the {whose} would store " in said and f"past {knob}={3 * SIZE:,}" in said
    assert session.process([2, *records(2_000)], tool="rows", call_id="c").content == refused.content
    text = session.process(prose(1_200_000), tool="log")
    assert (text.route, text.reason) == ("truncate", knob) and f"for {knob} would be passed" in text.text[-150:]
    assert session.process([1, *records(2_000)], tool="rows").route == "variables"
    assert session.process("small", tool="t").route == "inline"


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_a_payload_that_is_too_large_by_itself_says_so_too(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(max_artifact_bytes=1_000))
    for output in (records(2_000), prose(1_200_000)):
        result = session.process(output, tool="t")
        assert (result.route, result.reason, result.artifacts) == ("truncate", "max_artifact_bytes", [])
        assert "nothing of this was stored, for max_artifact_bytes would be passed" in result.text


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
@pytest.mark.parametrize(("knob", "whose"), KINDS)
def test_what_host_and_model_store_is_refused_with_numbers(engine: Engine, tenant: str, knob: str, whose: str) -> None:
    policy = Policy(**{knob: 1_000})
    session = engine.session("s", tenant=tenant, policy=policy, tools=TOOL_NAMES)
    session.store_artifact("x" * 600)
    session.store_artifact("x" * 600)
    text = f"the {whose} would have 1,001 bytes stored, more than {knob}=1,000 allows"
    with pytest.raises(QuotaExceeded, match=f"^{text}$"):
        session.store_artifact("y" * 401)
    reply = session.call("store_artifact", {"name": "n", "value": "y" * 401})
    assert reply.is_error and reply.text == f"store_artifact: {text}"
    assert session.store_artifact("y" * 400).size_bytes == 400
    other = engine.session("other", tenant=tenant, policy=policy)
    if knob == "max_tenant_bytes":
        with pytest.raises(QuotaExceeded, match="1,001 bytes"):
            other.store_artifact("z")
        assert other.store_artifact("x" * 600).size_bytes == 600
    else:
        other.store_artifact("z" * 600)
        with pytest.raises(QuotaExceeded, match="the session would have 1,200 bytes"):
            session.share(session.artifacts()[0], "other")
    assert engine.session("s", tenant=tenant + "x", policy=policy).store_artifact("z" * 1_000).size_bytes == 1_000


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_what_code_leaves_past_a_quota_is_not_kept_and_said(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(max_session_bytes=5_000))
    reply = session.call("code_interpreter", {"code": "big = list(range(10_000))\nlen(big)"})
    assert not reply.is_error and "10000" in reply.text
    assert "[not kept: big (the session would have " in reply.text and "max_session_bytes=5,000" in reply.text
    reply = session.call("code_interpreter", {"code": "list(range(10_000))"})
    assert not reply.is_error and reply.text.startswith("[0,") and "variable" not in reply.text
    assert session.variables() == []
    assert session.run("small = 1").error is None and session.variable("small").value() == 1


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_deleted_and_ended_make_room(engine: Engine, tenant: str) -> None:
    policy = Policy(max_tenant_bytes=1_000)
    one, two = (engine.session(name, tenant=tenant, policy=policy) for name in ("one", "two"))
    one.store_artifact("x" * 900)
    with pytest.raises(QuotaExceeded):
        two.store_artifact("y" * 900)
    one.end()
    two.store_artifact("y" * 900)
    engine.delete_session("two", tenant=tenant)
    assert engine.session("two", tenant=tenant, policy=policy).store_artifact("z" * 1_000).size_bytes == 1_000


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_a_commit_finds_what_others_stored_meanwhile(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(max_session_bytes=SIZE + SIZE // 2), tools=TOOL_NAMES)
    real, seen = quotas.excess, []

    def once(connection: Any, *arguments: Any, **adding: Any) -> Any:
        seen.append(1)
        return None if len(seen) == 1 else real(connection, *arguments, **adding)

    session.store_artifact(["first", *records(2_000)])
    monkeypatch.setattr(quotas, "excess", once)
    result = session.process(records(2_000), tool="rows")
    assert (result.route, result.reason, len(seen)) == ("truncate", "max_session_bytes", 2)
    seen.clear()
    reply = session.call("store_artifact", {"name": "n", "value": "y" * SIZE})
    assert reply.is_error and reply.text.startswith("store_artifact: the session would have ")
    seen.clear()
    with pytest.raises(QuotaExceeded):
        session.store_artifact("y" * SIZE)
    assert len(session.artifacts()) == 1


QUOTAS = ("max_session_bytes", "max_tenant_bytes", "max_artifact_bytes")


@pytest.mark.parametrize("knob", QUOTAS)
def test_a_quota_that_is_hit_is_told_to_the_log_once(
    local: Engine, tenant: str, knob: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[str]:
        return [record.message for record in caplog.records if record.levelname == "WARNING"]

    session = local.session("chat 1", tenant=tenant, policy=Policy(**{knob: 1_000}), tools=TOOL_NAMES)
    session.store_artifact("x" * 600)
    assert told() == []
    for turn in range(3):
        assert session.process([turn, *records(2_000)], tool="rows").reason == knob
    with pytest.raises(QuotaExceeded):
        session.store_artifact("y" * 1_001)
    [line] = told()
    assert line.startswith(f"session 'chat 1' of tenant {tenant!r} is at its quota: ")
    assert f"more than {knob}=1,000 allows" in line
    other = local.session("chat 2", tenant=tenant, policy=session.policy)
    other.process(records(2_000), tool="rows")
    assert len(told()) == 2, "another session's"
    monkeypatch.setattr(quotas, "LOG_SECONDS", 0.0)
    session.process(records(2_000), tool="rows")
    assert len(told()) > 2, "an hour later"


def test_what_was_logged_is_remembered_within_a_bound(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(quotas, "MOST_LOGGED", 2)
    monkeypatch.setattr(quotas, "_logged", {})
    for number in (1, 2, 3, 3, 1):
        quotas.log("max_session_bytes", "full", quotas.Owner("t", f"s{number}", number))
    assert [record.args[0] for record in caplog.records] == ["s1", "s2", "s3", "s1"]  # type: ignore[index]
    assert len(quotas._logged) == 2


@pytest.fixture
def shared(shared_url: str, sandbox: Sandbox) -> Iterator[Engine]:
    with Engine(shared_url, interpreter=sandbox) as engine:
        yield engine


@pytest.mark.quick_cases(1)
def test_parallel_commits_of_one_session_never_pass_its_quota(shared: Engine) -> None:
    limit, start = 5 * SIZE, threading.Barrier(8)

    def work(number: int) -> list[str]:
        session = shared.session("s", context_window=10**9, policy=Policy(max_session_bytes=limit))
        start.wait()
        return [session.process([number, turn, *records(2_000)], tool="rows").route for turn in range(2)]

    with ThreadPoolExecutor(8) as threads:
        routes = [route for routes in threads.map(work, range(8)) for route in routes]
    session = shared.session("s")
    assert sum(artifact.payload.size for artifact in session.artifacts()) <= limit
    assert routes.count("variables") == len(session.artifacts()) == 4
    assert routes.count("truncate") == 12
    shared.sweep(grace=timedelta(0))
    assert blobs(shared, "default") == 4


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_pages_of_which_only_one_fits(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(max_session_bytes=SIZE // 2))
    result = session.process(
        [{"type": "text", "text": prose(200_000)}, {"type": "text", "text": json.dumps(page(2_000))}], tool="t"
    )
    assert (result.reason, result.artifacts) == ("max_session_bytes", [])
    assert "nothing of this was stored" in result.text
