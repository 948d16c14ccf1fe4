"""Images and documents in the session's own tools: shown as they are, never searched."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from byref import Engine, Policy, Session
from byref.policy import TOOL_NAMES

PNG = b"\x89PNG\r\n\x1a\n".ljust(48_213, b"\x01")
PDF = b"%PDF-1.7\n".ljust(9_000, b"\x00")


@pytest.fixture
def kept(engine: Engine, tenant: str) -> Session:
    tools = [
        "retrieve_offloaded_content",
        "get_artifact",
        "artifact_read",
        "artifact_grep",
        "artifact_jq",
        "list_artifacts",
    ]
    session = engine.session("s", tenant=tenant, policy=Policy.previews(tools=tools), context_window=100_000)
    session.store_artifact(PNG, name="picture")
    session.store_artifact(PDF, name="report", content_type="application/pdf")
    return session


def test_bytes_of_a_host_are_images_and_documents(kept: Session) -> None:
    picture, report = kept.artifacts()
    assert (picture.kind, picture.content_type, picture.value, picture.preview) == (
        "image",
        "image/png",
        PNG,
        "[image: png, 48213 bytes]",
    )
    assert (report.kind, report.content_type, report.value) == ("document", "application/pdf", PDF)
    assert picture.shape == "image(png)"
    text = kept.store_artifact(b"just text", content_type="text/csv")
    assert (text.kind, text.value, text.content_type) == ("text", "just text", "text/csv")


@pytest.mark.parametrize(
    ("value", "content_type", "stored"),
    [
        ("é".encode("utf-16"), "text/plain; charset=utf-16", "text/plain; charset=utf-8"),
        ("é", 'text/html;charset="latin-1"; x=y', "text/html;charset=utf-8; x=y"),
        (b"\xe9", "text/plain; charset=latin-1", "text/plain; charset=latin-1"),
        ("é".encode(), "text/plain; charset=UTF-8", "text/plain; charset=UTF-8"),
    ],
)
def test_a_content_type_says_how_the_text_is_stored(
    session: Session, value: object, content_type: str, stored: str
) -> None:
    artifact = session.store_artifact(value, content_type=content_type)
    assert artifact.content_type == stored
    assert artifact.payload.read().decode(stored.partition("charset=")[2].partition(";")[0]) == "é"


@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
@pytest.mark.parametrize(
    ("tool", "argument"), [("retrieve_offloaded_content", "reference"), ("get_artifact", "pointer_or_name")]
)
def test_they_come_back_as_they_are(kept: Session, tool: str, argument: str) -> None:
    before = kept.context_tokens()
    reply = kept.call(tool, {argument: "picture"}, call_id="c")
    assert reply.content == [{"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}]
    assert reply.text == "[image: png, 48213 bytes]"
    [block] = reply.message("anthropic", "c")["content"][0]["content"]
    assert base64.b64decode(block["source"]["data"]) == PNG
    assert kept.context_tokens() == before + reply.tokens
    again = kept.call(tool, {argument: "picture"}, call_id="c")
    assert (again.content, again.step) == (reply.content, reply.step)
    [entry] = [entry for entry in kept.ledger() if entry.step == reply.step]
    assert entry.content == "[image: png, 48213 bytes]"
    document = kept.call(tool, {argument: "report"})
    [block] = document.message("anthropic", "c")["content"][0]["content"]
    assert (block["type"], base64.b64decode(block["source"]["data"]), block["title"]) == ("document", PDF, "report")
    for format in ("openai", "openai-responses", "gemini", "mcp"):
        assert document.message(format, "c")  # type: ignore[arg-type]


SEARCHES: list[tuple[str, dict[str, Any]]] = [
    ("retrieve_offloaded_content", {"reference": "picture", "pattern": "PNG"}),
    ("retrieve_offloaded_content", {"reference": "picture", "line_range": {"start": 1, "end": 2}}),
    ("retrieve_offloaded_content", {"reference": "picture", "context_lines": 3}),
    ("artifact_read", {"artifact_id": "picture"}),
    ("artifact_grep", {"artifact_id": "report", "pattern": "PDF"}),
    ("artifact_jq", {"artifact_id": "report", "expression": "."}),
    ("get_artifact", {"pointer_or_name": "picture", "offset": 10}),
]


@pytest.mark.parametrize(("tool", "arguments"), SEARCHES, ids=str)
def test_they_are_not_searched(kept: Session, tool: str, arguments: dict[str, Any]) -> None:
    reply = kept.call(tool, arguments)
    assert reply.is_error
    assert "image/png, binary" in reply.text or "application/pdf, binary" in reply.text
    assert "See it whole with retrieve_offloaded_content" in reply.text
    assert "as an argument" in reply.text


def test_only_tools_that_are_there_are_named(engine: Engine, tenant: str) -> None:
    session = engine.session("t", tenant=tenant, tools=["artifact_read"])
    artifact = session.store_artifact(PNG)
    reply = session.call("artifact_read", {"artifact_id": artifact.id})
    assert "retrieve" not in reply.text and "get_artifact" not in reply.text
    assert session.resolve({"image": artifact.id}) == {"image": PNG}


def test_what_is_too_large_is_not_shown(engine: Engine, tenant: str) -> None:
    session = engine.session("t", tenant=tenant, tools=["get_artifact"], context_window=20_000)
    huge = session.store_artifact(b"\x89PNG\r\n\x1a\n".ljust(6_000_000, b"\x02"))
    reply = session.call("get_artifact", {"pointer_or_name": huge.id})
    assert reply.is_error and "[image: png, 6000000 bytes] is too large to be shown" in reply.text
    pdf = session.store_artifact(b"%PDF-1.7\n".ljust(100_000, b"\x00"))
    reply = session.call("get_artifact", {"pointer_or_name": pdf.id})
    assert reply.is_error and "takes about 25,000 tokens, which do not fit now" in reply.text


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_a_replay_after_the_end_of_its_image(engine: Engine, tenant: str) -> None:
    session = engine.session("t", tenant=tenant, tools=["get_artifact"])
    artifact = session.store_artifact(PNG)
    reply = session.call("get_artifact", {"pointer_or_name": artifact.id}, call_id="c")
    assert isinstance(reply.content, list)
    listed = session.call("get_artifact", {"pointer_or_name": artifact.id}, call_id="c")
    assert listed.content == reply.content


@pytest.mark.parametrize("tools", [["artifact_read"], ["artifact_read", "get_artifact"], list(TOOL_NAMES)])
def test_a_name_that_is_a_variable_too(engine: Engine, tenant: str, tools: list[str]) -> None:
    session = engine.session("t", tenant=tenant, tools=tools, policy=Policy(mode="variables", max_result_tokens=10))
    image = session.store_artifact(PNG, name="picture")
    session.process([{"id": n, "note": "words " * 9} for n in range(100)], tool="picture")
    assert "words" in session.call("artifact_read", {"artifact_id": "picture"}).text
    reply = session.call("artifact_read", {"artifact_id": image.id})
    assert reply.is_error and f'"{image.id}" as an argument' in reply.text
    named = {name for name in TOOL_NAMES if name in reply.text}
    assert named == {name for name in ("retrieve_offloaded_content", "get_artifact") if name in tools} or (
        len(tools) > 2 and named == {"retrieve_offloaded_content"}
    )
