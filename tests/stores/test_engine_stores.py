"""An engine with a store of objects, by use: what is processed is there for the model, for the host and for other programs."""

from __future__ import annotations

import io
import json
import re
import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from placed import (
    NOW,
    PDF,
    PNG,
    TOOLS,
    Opened,
    Placed,
    Wrapped,
    answer,
    as_bytes,
    bucket_at,
    keys_of,
    log,
    problems,
    records,
)
from s3server import S3, Faults

from byref import ArtifactMissing, ConfigurationError, Engine, Policy, ToolError
from byref.stores import FileStore, MemoryStore

FORMS: dict[str, tuple[Policy, object, str]] = {
    "variables": (Policy(), records(), "variables"),
    "references": (Policy.references(context_percentage=0.01), records(), "artifact"),
    "references, text": (Policy.references(context_percentage=0.01, plaintext="artifact"), log(), "artifact"),
    "pointers": (Policy.pointers(), records(), "artifact"),
    "pointers, text": (Policy.pointers(), log(), "artifact"),
    "previews": (Policy.previews(), records(), "artifact"),
    "previews, image": (Policy.previews(), PNG, "artifact"),
    "previews, document": (Policy.previews(), PDF, "artifact"),
    "previews, blocks": (Policy.previews(), [{"text": log()}, {"json": {"rows": records()}}], "artifact"),
    "truncated text": (Policy(plaintext="truncate"), log(), "truncate"),
    "placeholder": (Policy(), PDF, "placeholder"),
}
"""Every form in which an envelope says where the bytes are."""


@pytest.mark.quick_cases(6)
@pytest.mark.s3("a place that is no path, read by other programs")
@pytest.mark.parametrize("form", FORMS)
def test_every_envelope_says_where_the_bytes_are(form: str, placed: Placed, opened: Opened) -> None:
    policy, output, route = FORMS[form]
    session = opened(placed.store).session("s", policy=policy, tools=TOOLS, context_window=200_000)
    result = session.process(output, tool="t", call_id="c")
    assert result.route == route and result.artifacts
    for artifact in result.artifacts:
        if placed.outside is None:
            assert artifact.location is None and "location" not in str(result.content)
        else:
            assert artifact.location is not None and artifact.location in str(result.content)
            assert placed.outside(artifact.location) == (artifact.payload.read(), artifact.content_type)
    assert [as_bytes(artifact.value) for artifact in result.artifacts if isinstance(output, bytes)] in ([], [output])
    assert session.process(output, tool="t", call_id="c").content == result.content
    assert [entry.processed for entry in session.history()] == [result.content]


def test_a_file_is_plain_for_every_program(placed: Placed, opened: Opened) -> None:
    if placed.outside is None:
        assert placed.store.uri(next(iter(placed.keys), "0" * 32 + "/" + "0" * 32)) is None
        return
    session = opened(placed.store).session("s", policy=Policy(plaintext="truncate"), tools=TOOLS)
    [artifact] = session.process(log(), tool="logs").artifacts
    data, content_type = placed.outside(artifact.location or "")
    assert (data, content_type) == (log().encode(), "text/plain")
    if placed.kind != "files":
        return
    printed = subprocess.run(["grep", "-n", "admin", str(artifact.location)], capture_output=True, text=True).stdout
    ours = answer(session, "artifact_grep", artifact_id=artifact.id, pattern="admin", context_lines=0, end_line=400)
    numbers = [line.partition(":")[0] for line in printed.splitlines()]
    assert re.findall(r"^> +(\d+)\|", ours, re.MULTILINE) == [each for each in numbers if int(each) <= 400]
    cut = subprocess.run(["sed", "-n", "45,55p", str(artifact.location)], capture_output=True, text=True).stdout
    read = answer(session, "artifact_read", artifact_id=artifact.id, start_line=45, end_line=55)
    assert [line.partition("| ")[2] for line in read.splitlines()] == cut.splitlines()


@pytest.mark.quick_cases(2)
@pytest.mark.s3("a read is a request for a range")
def test_every_reader_reads_every_store(placed: Placed, opened_on: Opened) -> None:
    engine = opened_on(placed.store)
    session = engine.session("s", tools=TOOLS, context_window=200_000)
    [rows] = session.process(records(), tool="users").artifacts
    text = session.store_artifact(log(), name="log")
    image = session.store_artifact(PNG, content_type="image/png")
    assert len(placed.keys) == 3 and problems(opened_on.url, placed.store) == []
    assert "4999 user" in answer(session, "artifact_read", artifact_id=text.id, start_line=4_999)
    assert "> 4957| 4957 admin" in answer(
        session, "artifact_grep", artifact_id="log", pattern="admin", start_line=4_950
    )
    assert (
        answer(session, "artifact_jq", artifact_id=rows.id, expression='map(select(.role == "admin")) | length') == "60"
    )
    assert answer(session, "artifact_jq", artifact_id=rows.id, expression=".[2999].id") == "2999"
    assert answer(session, "get_artifact", pointer_or_name="log").startswith("1 user signed in")
    assert "45 user" in answer(
        session, "retrieve_offloaded_content", reference=text.id, line_range={"start": 45, "end": 45}
    )
    [shown] = session.call("retrieve_offloaded_content", {"reference": image.id}).content
    assert shown["type"] == "image" or "image" in shown
    assert answer(session, "code_interpreter", code="sum(row['id'] for row in users)").strip().endswith("4498500")
    assert session.resolve({"ids": {"$var": "users", "jq": "map(.id) | .[:3]"}}) == {"ids": [0, 1, 2]}
    assert session.resolve({"rows": "$users"}) == {"rows": records()}
    target = io.BytesIO()
    assert session.export(text, target) == len(log()) and target.getvalue() == log().encode()
    assert session.variable("users").value() == records()
    other = engine.session("other")
    shared = session.share(rows, "other")
    kept = session.keep(text)
    session.end()
    assert other.get_artifact(shared.id) is not None and shared.value == records()
    assert kept.value == log() and len(placed.keys) == 2
    assert problems(opened_on.url, placed.store) == []


@pytest.mark.quick_cases(1)
def test_lines_are_read_by_ranges(placed: Placed, opened: Opened) -> None:
    text = "".join(f"{i:08} the quick brown fox jumps over the lazy dog\n" for i in range((20 << 20) // 53))
    store = Wrapped(placed.store)
    session = opened(store).session("s", tools=TOOLS)
    artifact = session.store_artifact(text, name="long")
    store.reads.clear()
    middle = artifact.line_count // 2
    read = answer(session, "artifact_read", artifact_id="long", start_line=middle, end_line=middle + 49)
    assert [line.partition("| ")[2][:8] for line in read.splitlines()] == [
        f"{i:08}" for i in range(middle - 1, middle + 49)
    ]
    assert 1 <= len(store.reads) <= 2 and all(0 < asked <= 4 << 20 for _, asked in store.reads)


def test_a_range_is_one_request_to_the_server(faulty_s3: tuple[S3, Faults], opened: Opened) -> None:
    server, faults = faulty_s3
    placed = bucket_at(server, server.bucket())
    session = opened(placed.store).session("s", tools=TOOLS)
    text = "".join(f"{i:08} the quick brown fox jumps over the lazy dog\n" for i in range(60_000))
    session.store_artifact(text, name="long")
    faults.requests.clear()
    answer(session, "artifact_read", artifact_id="long", start_line=30_000, end_line=30_049)
    assert 1 <= len(faults.requests) <= 2 and all(request.startswith("GET ") for request in faults.requests)


@pytest.mark.s3("a read is a request for a range")
def test_bytes_are_there_in_a_new_engine(placed: Placed, opened: Opened) -> None:
    with Engine(opened.url, blobs=placed.store, interpreter=opened.sandbox) as engine:
        session = engine.session("s", tools=TOOLS)
        [artifact] = session.process(records(), tool="users").artifacts
        document = session.store_artifact(PDF, content_type="application/pdf")
    again = opened(placed.again()).session("s")
    found = {each.id: each for each in again.artifacts()}
    assert found[artifact.id].value == records() and found[document.id].value == PDF
    assert found[document.id].content_type == "application/pdf"
    assert found[artifact.id].location == artifact.location
    assert "60" in answer(again, "artifact_jq", artifact_id="users", expression="map(select(.id % 50 == 7)) | length")


@pytest.mark.slow
def test_bytes_are_there_in_a_new_process(sqlite_url: str, tmp_path: Path, race: Callable[..., list[str]]) -> None:
    script = """
from byref import Engine
from byref.stores import FileStore
from byref_sandbox import Sandbox
go()
with Engine(sys.argv[1], blobs=FileStore(sys.argv[2]), interpreter=Sandbox()) as engine:
    print(engine.session("s").store_artifact("line\\n" * 10_000, name="lines").location)
"""
    [location] = race(1, script, sqlite_url, str(tmp_path / "blobs"))
    with Engine(sqlite_url, blobs=FileStore(tmp_path / "blobs")) as engine:
        [artifact] = engine.session("s").artifacts()
        assert artifact.value == "line\n" * 10_000 == Path(location).read_text()


def gone(session: Any, artifact_id: str, variable: str) -> None:
    """Whatever would read it says so, and nothing is raised but to the host."""
    for tool, arguments in (
        ("artifact_read", {"artifact_id": artifact_id}),
        ("artifact_grep", {"artifact_id": artifact_id, "pattern": "admin"}),
        ("artifact_jq", {"artifact_id": artifact_id, "expression": "length"}),
        ("artifact_jq", {"artifact_id": artifact_id, "expression": "map(.id) | add"}),
        ("get_artifact", {"pointer_or_name": artifact_id}),
        ("retrieve_offloaded_content", {"reference": artifact_id}),
        ("retrieve_offloaded_content", {"reference": artifact_id, "pattern": "admin"}),
        ("code_interpreter", {"code": f"len({variable})"}),
    ):
        reply = session.call(tool, arguments)
        assert reply.is_error and "gone" in str(reply.content), (tool, reply.content)
        assert "Call users again" in str(reply.content)
    assert artifact_id.removeprefix("art_") in answer(session, "list_artifacts")
    with pytest.raises(ToolError, match=r"gone or damaged\. Call users again"):
        session.resolve({"rows": f"${variable}"})


@pytest.mark.quick_cases(1)
def test_an_engine_with_another_store_says_which_one_it_needs(placed: Placed, opened: Opened, tmp_path: Path) -> None:
    name = secrets.token_hex(8)  # no warm sandbox has its data
    session = opened(placed.store).session(name, tools=TOOLS)
    [artifact] = session.process(records(), tool="users").artifacts

    class Other(MemoryStore):
        name = "other"

    for blobs in (None, Other()):
        without = opened(blobs).session(name, tools=TOOLS)
        [same] = without.artifacts()
        with pytest.raises(ArtifactMissing, match=rf"{placed.store.name!r}.*blobs"):
            _ = same.value
        assert same.location is None
        gone(without, artifact.id, "users")
    assert session.artifacts()[0].value == records()


def lose(placed: Placed) -> None:
    """What was stored is deleted by somebody else."""
    if isinstance(placed.store, MemoryStore):
        placed.store.clear()
    else:
        placed.store.delete(sorted(placed.keys))


@pytest.mark.quick_cases(1)
@pytest.mark.s3("what is lost is an answer, not a missing file")
def test_what_is_lost_is_said_and_comes_back_with_the_same_output(placed: Placed, opened_on: Opened) -> None:
    engine = opened_on(placed.store)
    name = secrets.token_hex(8)
    session = engine.session(name, tools=TOOLS, context_window=200_000)
    [artifact] = session.process(records(), tool="users", call_id="a").artifacts
    image = session.store_artifact(PNG, content_type="image/png")
    text = session.store_artifact(log(), name="log")
    lose(placed)
    gone(session, artifact.id, "users")
    assert session.call("retrieve_offloaded_content", {"reference": image.id}).is_error
    assert session.call("artifact_read", {"artifact_id": text.id, "start_line": 4_000}).is_error
    with pytest.raises(ArtifactMissing):
        session.export(text, io.BytesIO())
    with pytest.raises(ArtifactMissing):
        session.variable("users").value()
    assert session.process("small", tool="t").content == "small"
    session.store_artifact(log(9_000, "visitor"))
    found = problems(opened_on.url, placed.store)
    assert len(found) == 3 and all("damaged frame" in problem for problem in found)
    other = engine.session("other", tools=TOOLS, context_window=200_000)
    result = other.process(records(), tool="users")
    other.store_artifact(log())
    other.store_artifact(PNG, content_type="image/png")
    assert result.artifacts[0].value == records() and session.artifacts()[0].value == records()
    assert [each.value for each in session.artifacts()] == [records(), PNG, log(), log(9_000, "visitor")]
    assert answer(session, "artifact_jq", artifact_id=artifact.id, expression="length") == "3000"
    engine.sweep(grace=NOW)
    assert problems(opened_on.url, placed.store) == [] and len(placed.keys) >= 3


def test_what_is_answered_as_before_heals_too(placed: Placed, opened: Opened) -> None:
    session = opened(placed.store).session("s")
    text, rows = log(200_000), records(9_000)
    before = [
        session.process(output, tool="t", call_id=f"c{i}") for i, output in enumerate((text, rows, iter([text + "x"])))
    ]
    placed.store.delete(list(placed.keys))
    for i, output in enumerate((text, rows, iter([text + "x"]))):
        again = session.process(output, tool="t", call_id=f"c{i}")
        assert (again.step, again.content) == (before[i].step, before[i].content)
    assert [artifact.value for artifact in session.artifacts()] == [text, rows, text + "x"]
    assert problems(opened.url, placed.store) == []


def test_what_could_not_be_stored_is_accounted_for(placed: Placed, opened: Opened) -> None:
    broken = Wrapped(placed.store)

    def fail(_number: int, verb: str) -> None:
        if verb == "write":
            raise OSError("no space left")

    broken.before = fail
    session = opened(broken).session("s")
    read = [session.process(output, tool="t", call_id="c") for output in (log(90_000), records(), iter([log(200_000)]))]
    assert {result.reason for result in read} == {"storage_failure"}
    assert [result.step for result in read] == [1, 2, 3]
    assert session.context_tokens() == sum(result.tokens for result in read)
    assert [entry.reason for entry in session.ledger()] == ["storage_failure"] * 3
    healthy = opened(placed.store).session("s")
    assert healthy.process(records(), tool="t", call_id="c").artifacts, (
        "under the same call id it is stored all the same"
    )


def test_an_image_that_is_lost_between_two_replies_does_not_end_the_turn(placed: Placed, opened: Opened) -> None:
    session = opened(placed.store).session("s", tools=TOOLS, policy=Policy.previews())
    reference = session.process(PNG, tool="t").artifacts[0].id
    asked = {"reference": reference}
    assert not session.call("retrieve_offloaded_content", asked, call_id="a").is_error
    lose(placed)
    for call_id in ("a", "b"):
        reply = session.call("retrieve_offloaded_content", asked, call_id=call_id)
        assert reply.is_error and "gone" in str(reply.content)


@pytest.mark.s3("a place that is no path, read by other programs")
def test_a_store_moves_with_its_outputs(placed: Placed, opened: Opened) -> None:
    """An engine without the store takes the bytes into SQL when they come again, and one with it does not take them out."""
    session = opened(placed.store).session("s", tools=TOOLS)
    [artifact] = session.process(records(), tool="users").artifacts
    plain = opened(None).session("s", tools=TOOLS)
    assert plain.process(records(), tool="users").artifacts[0].value == records()
    assert plain.get_artifact(artifact.id).location is None
    assert session.get_artifact(artifact.id).value == records()
    assert session.process(records(), tool="users").artifacts[0].location is None
    opened(placed.store).sweep()
    assert placed.keys == set() and problems(opened.url, placed.store) == []


def test_what_is_no_store_is_refused(sqlite_url: str) -> None:
    for wrong in ("blobs", object(), MemoryStore):
        with pytest.raises(ConfigurationError, match="blobs="):
            Engine(sqlite_url, blobs=wrong)  # type: ignore[arg-type]


def test_hostile_names_reach_no_path(tmp_path: Path, opened: Opened) -> None:
    folder = tmp_path / "blobs"
    engine = opened(FileStore(folder))
    for evil in ("../../etc/passwd", "a/b", "..", "C:\\x", "x\n{}", "ünï", "x" * 100):
        session = engine.session(evil, tenant=evil, tools=TOOLS)
        [artifact] = session.process(records(), tool=evil, call_id=evil).artifacts
        stored = session.store_artifact(
            log(), name=evil, content_type="text/plain; a=" + evil.replace("\n", "") + "/../ü"
        )
        for each in (artifact, stored):
            path = Path(each.location or "")
            assert path.resolve().is_relative_to(folder) and re.fullmatch(r"[0-9a-f]{32}(\.\w+)?", path.name)
    assert {path.name for path in tmp_path.iterdir()} <= {"blobs", "byref.db", "byref.db-wal", "byref.db-shm"}
    assert len(keys_of(FileStore(folder))) == 14 and problems(opened.url, FileStore(folder)) == []


@pytest.mark.s3("what is written is an upload")
def test_hostile_content_types(placed: Placed, opened: Opened) -> None:
    session = opened(placed.store).session("s", tools=TOOLS)
    for number, evil in enumerate(("text/plain; x=é", "x" * 255, "../../x", "text/html;\u00a0", "a/b c=d")):
        try:
            artifact = session.store_artifact(f"{number}\n" * 5_000, content_type=evil)
        except ConfigurationError:
            assert not evil.isprintable()
            continue
        assert artifact.content_type == evil and artifact.value == f"{number}\n" * 5_000
        if placed.outside is not None:
            data, kept = placed.outside(artifact.location or "")
            assert data.decode() == f"{number}\n" * 5_000 and kept in (evil, "application/octet-stream")
    for evil in ("text/plain\nX-Evil: 1", "text/plain\r\n", "a\0b"):
        with pytest.raises(ConfigurationError, match="content_type"):
            session.store_artifact("x", content_type=evil)


def test_a_place_that_is_no_line_of_text_is_not_shown(tmp_path: Path, opened: Opened) -> None:
    session = opened(FileStore(tmp_path / "two\nlines")).session("s", tools=TOOLS)
    result = session.process(records(), tool="users")
    assert result.artifacts[0].location is None and "location" not in result.content
    assert result.artifacts[0].value == records()
    spaced = opened(FileStore(tmp_path / 'a "folder"')).session("spaced", tools=TOOLS)
    result = spaced.process([{"other": 1}] * 3_000, tool="users")
    assert json.loads(str(result.content))["location"] == result.artifacts[0].location


def test_many_small_artifacts(placed: Placed, opened: Opened) -> None:
    session = opened(placed.store).session("s", tools=TOOLS)
    stored = [session.store_artifact(f"value {i}") for i in range(20)]
    empty = session.store_artifact("")
    assert [each.value for each in session.artifacts()] == [f"value {i}" for i in range(20)] + [""]
    assert len(placed.keys) == 21 and empty.line_count == 0 and stored[3].size_bytes == 7
    assert problems(opened.url, placed.store) == []
