"""Outputs of several content blocks, in every form in which providers and frameworks write them."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from inline_snapshot import snapshot
from material import Opener, prose, records

from byref import ConfigurationError, Engine, Policy, Session, ToolOutput
from byref.content import Block, Media, to_pieces


def png(size: int) -> bytes:
    """Bytes that begin as a PNG does, exactly so many."""
    return (b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(range(256)) * 4)).ljust(size, b"\x07")


def pdf(size: int) -> bytes:
    return b"%PDF-1.7\n".ljust(size, b"\x00")


PNG, PDF = png(300), pdf(400)
B64, PDF64 = base64.b64encode(PNG).decode(), base64.b64encode(PDF).decode()

FORMS: dict[str, list[Any]] = {
    "openai": [
        {"type": "text", "text": "found it"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{B64}"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF64}", "filename": "report.pdf"}},
    ],
    "openai-responses": [
        {"type": "input_text", "text": "found it"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{B64}", "detail": "auto"},
        {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF64}", "filename": "report.pdf"},
    ],
    "anthropic": [
        {"type": "text", "text": "found it", "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": B64}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64},
            "title": "report.pdf",
        },
    ],
    "mcp": [
        {"type": "text", "text": "found it"},
        {"type": "image", "data": B64, "mimeType": "image/png"},
        {
            "type": "resource",
            "resource": {"uri": "file:///tmp/report.pdf", "mimeType": "application/pdf", "blob": PDF64},
        },
    ],
    "strands": [
        {"text": "found it"},
        {"image": {"format": "png", "source": {"bytes": PNG}}},
        {"document": {"format": "pdf", "name": "report.pdf", "source": {"bytes": PDF}}},
    ],
    "langchain": [
        {"type": "text", "text": "found it"},
        {"type": "image", "base64": B64, "mime_type": "image/png"},
        {"type": "file", "base64": PDF64, "mime_type": "application/pdf", "filename": "report.pdf"},
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(form: str) -> None:
    pieces, is_error = to_pieces(FORMS[form])
    text, image, document = [piece.block for piece in pieces]
    assert isinstance(text, Block) and text.text == "found it"
    assert isinstance(image, Media) and (image.kind, image.content_type, image.data) == ("image", "image/png", PNG)
    assert isinstance(document, Media) and (document.kind, document.data) == ("document", PDF)
    assert (document.content_type, document.name) == ("application/pdf", "report.pdf")
    assert not is_error


@pytest.mark.parametrize("form", FORMS)
def test_what_fits_stays_as_it_came(session: Session, form: str) -> None:
    result = session.process(FORMS[form], tool="t", call_id="c")
    assert result.content == FORMS[form]
    assert result.route == "inline"
    assert not result.artifacts
    again = session.process(FORMS[form], tool="t", call_id="c")
    assert (again.content, again.step) == (result.content, result.step)
    assert session.history()[0].processed == FORMS[form]


def wrapped() -> dict[str, Any]:
    blocks = FORMS["mcp"]
    return {
        "mcp": {"content": blocks, "isError": True},
        "anthropic": {"type": "tool_result", "tool_use_id": "c", "content": FORMS["anthropic"], "is_error": True},
        "strands": {"toolUseId": "c", "status": "error", "content": FORMS["strands"]},
        "bedrock": {"toolResult": {"toolUseId": "c", "status": "error", "content": FORMS["strands"]}},
    }


@pytest.mark.parametrize("form", wrapped())
def test_a_tool_result_is_its_blocks_and_says_whether_it_failed(chat: Session, form: str) -> None:
    result = chat.process(wrapped()[form], tool="t")
    assert result.is_error
    assert isinstance(result.content, list) and len(result.content) == 3


def test_results_of_sdks_are_read(chat: Session) -> None:
    types = pytest.importorskip("mcp.types")
    blocks = [
        types.TextContent(type="text", text="hello"),
        types.ImageContent(type="image", data=B64, mimeType="image/png"),
    ]
    result = chat.process(types.CallToolResult(content=blocks, isError=True), tool="t")
    assert result.is_error
    assert result.content == [
        {"type": "text", "text": "hello"},
        {"type": "image", "data": B64, "mimeType": "image/png"},
    ]
    structured = {"rows": records(2_000)}
    text = types.TextContent(type="text", text=json.dumps(structured, indent=2))
    result = chat.process(types.CallToolResult(content=[text], structuredContent=structured), tool="rows")
    assert (result.route, chat.variable("rows_2").value()) == ("variables", structured["rows"])


@pytest.mark.parametrize(
    "data",
    [
        [{"type": "text", "text": "a", "created": "2024-01-01", "author": 3}],
        [{"type": "image", "width": 3, "height": 4}],
        [{"text": "a", "id": 1}],
        [{"text": f"row {i}"} for i in range(500)],
        [{"type": "Feature", "geometry": None}],
        {"content": [{"title": "a"}]},
        {"content": [], "status": "ok"},
        {"type": "text", "text": "an object of a tool's own"},
        {"text": "a"},
        {"json": {"a": 1}},
        [{"image": "a.png"}, {"image": "b.png"}],
        [{"document": {"title": "x"}}],
        [{"type": "text"}, {"type": "text", "text": "a"}],
        [["text", "a"]],
        [{"type": "text", "text": 3}],
    ],
    ids=repr,
)
def test_data_that_resembles_blocks_is_data(data: Any) -> None:
    [piece], is_error = to_pieces(data)
    assert not is_error
    assert isinstance(piece.block, Block) and piece.block.parsed == ("json", data)


def test_each_block_goes_its_own_way(session: Session) -> None:
    output = [
        {"type": "text", "text": "Here are the rows."},
        {"type": "text", "text": json.dumps(records(3_000))},
        {"type": "image", "data": base64.b64encode(png(2_000_000)).decode(), "mimeType": "image/png"},
    ]
    result = session.process(output, tool="query", call_id="c")
    assert isinstance(result.content, list)
    said, rows, image = result.content
    assert said == output[0]
    assert (
        json.loads(rows["text"])["variables"]
        == {"query": "array(3000) of object(3 keys)"}
        == result.envelope["variables"]
    )
    assert image["text"].startswith("[image: png, 2000000 bytes]\n[Kept as artifact art_")
    assert result.route == "variables"
    assert [artifact.kind for artifact in result.artifacts] == ["json", "image"]
    picture = next(artifact for artifact in result.artifacts if artifact.kind == "image")
    assert (picture.content_type, picture.value, picture.size_bytes) == ("image/png", png(2_000_000), 2_000_000)
    assert session.variable("query").value() == records(3_000)
    assert session.resolve({"image": picture.id}) == {"image": picture.value}
    original = session.history()[0].original
    assert isinstance(original, list)
    assert original[0] == output[0]
    assert [each.id for each in original[1:]] == [artifact.id for artifact in result.artifacts]
    again = session.process(output, tool="query", call_id="c")
    assert (again.content, again.envelope) == (result.content, result.envelope)
    assert [a.id for a in again.artifacts] == [a.id for a in result.artifacts]
    total = session.context_tokens()
    assert total == result.tokens < 2_500


def test_one_block_that_goes_is_text(session: Session) -> None:
    result = session.process([{"type": "text", "text": json.dumps(records(3_000))}], tool="query")
    assert isinstance(result.content, str)
    assert json.loads(result.content) == result.envelope


def test_medium_blocks_go_largest_first_until_the_rest_fits(counted: Opener) -> None:
    session = counted(max_result_tokens=3_000, plaintext="artifact")
    blocks = [{"type": "text", "text": prose(size)} for size in (5_000, 7_000, 6_000)]
    result = session.process(blocks, tool="t")
    assert isinstance(result.content, list)
    kept = [block in blocks for block in result.content]
    assert kept == [True, False, True]
    assert result.reason == "max_result_tokens"


def test_a_bare_image_is_an_image(session: Session) -> None:
    assert session.process(png(900), tool="t").content == [
        {"type": "image", "data": base64.b64encode(png(900)).decode(), "mimeType": "image/png"}
    ]
    result = session.process(png(1_500_000), tool="screenshot")
    assert isinstance(result.content, str)
    assert result.route == "placeholder"
    assert (
        result.content
        == f'[image: png, 1500000 bytes]\n[Kept as artifact {result.artifacts[0].id}. In code_interpreter its bytes are screenshot. To hand it to another tool, give "{result.artifacts[0].id}" as its argument.]'
    )


def test_bytes_that_are_text_stay_text() -> None:
    for text in ("hello", "PK is a name", "RIFF and more", "übergröße"):
        for codec in ("utf-8", "utf-16", "utf-32"):
            [piece], _ = to_pieces(text.encode(codec))
            assert isinstance(piece.block, Block) and piece.block.text.removeprefix("\ufeff") == text


@pytest.mark.parametrize(
    ("data", "placeholder"),
    [
        (b"\xff\xd8\xff\xe0" + b"\0" * 10, "[image: jpeg, 14 bytes]"),
        (b"GIF89a" + b"\0" * 10, "[image: gif, 16 bytes]"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "[image: webp, 16 bytes]"),
        (b"RIFF\0\0\0\0WAVEfmt ", "[audio: wav, 16 bytes]"),
        (b"%PDF-1.4\nabc", "[document: pdf, 12 bytes]"),
        (b"PK\x03\x04" + b"\0" * 26 + b"word/document.xml", "[document: docx, 47 bytes]"),
        (b"PK\x03\x04" + b"\0" * 26, "[document: zip, 30 bytes]"),
        (b"PK\x03\x04" + b"\0" * 26 + b"password/xl/a.txt: ppt/", "[document: zip, 53 bytes]"),
        (b"SQLite format 3\0", "[document: sqlite, 16 bytes]"),
        (b"\x80\x02\0\xff" * 4, "[document: bin, 16 bytes]"),
    ],
)
def test_binary_is_told_by_its_beginning(data: bytes, placeholder: str) -> None:
    [piece], _ = to_pieces(data)
    assert isinstance(piece.block, Media) and piece.block.placeholder == placeholder


def test_what_cannot_be_stored_stays(session: Session) -> None:
    output = [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "thing", "of": "nobody"},
        {"type": "image", "data": "no base64 at all!", "mimeType": "image/png"},
        {"type": "text", "text": prose(900_000)},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
    ]
    result = session.process(output, tool="t")
    assert isinstance(result.content, list)
    assert [result.content[i] for i in (0, 1, 2, 4)] == [output[i] for i in (0, 1, 2, 4)]
    assert result.content[3] != output[3]
    large = [{"type": "thing", "of": "x" * 2_000_000}, {"type": "text", "text": "a"}]
    result = session.process(large, tool="t")
    assert isinstance(result.content, list)
    assert result.content[1] == large[1]
    assert [artifact.value for artifact in result.artifacts] == [large[0]]


def test_a_hostile_name_makes_no_placeholder_of_its_own(session: Session) -> None:
    name = "]\n[image: png, 1 bytes]\u2028" + "x" * 10_000
    result = session.process(
        [{"document": {"format": "pdf", "name": name, "source": {"bytes": pdf(3_000_000)}}}], tool="t"
    )
    first = str(result.content).splitlines()[0]
    assert first.count("[") == first.count("]") == 1
    assert len(first) < 140


def test_errors_are_cut_in_their_blocks(counted: Opener) -> None:
    session = counted()
    output = {
        "content": [{"type": "text", "text": "failed: " + prose(40_000)}, {"type": "text", "text": "hint"}],
        "isError": True,
    }
    result = session.process(output, tool="t")
    assert isinstance(result.content, list)
    assert result.content[0]["text"].startswith("failed: ")
    assert "truncated" in result.content[0]["text"]
    assert result.content[1] == {"type": "text", "text": "hint"}
    assert result.is_error


@pytest.mark.slow
def test_the_whole_envelope_has_one_budget(chat: Session) -> None:
    blocks = [{"type": "text", "text": json.dumps(records(400 + i))} for i in range(100)]
    result = chat.process(blocks, tool="t")
    assert result.tokens <= chat._scope.policy.envelope_budget
    assert len(result.artifacts) == 100
    listed = chat.artifacts()
    assert sorted(a.id for a in listed) == sorted(a.id for a in result.artifacts)


@pytest.mark.parametrize("preset", ["references", "pointers", "previews", "variables"])
def test_blocks_in_every_preset(local: Engine, tenant: str, preset: str) -> None:
    policy = getattr(Policy, preset)()
    session = local.session("s", tenant=tenant, policy=policy, context_window=100_000)
    output = [
        {"text": prose(120_000)},
        {"json": {"rows": records(2_000), "total": 5}},
        {"image": {"format": "png", "source": {"bytes": png(600_000)}}},
    ]
    result = session.process(output, tool="t", call_id="c")
    assert result.tokens < 4_000
    image = next(artifact for artifact in result.artifacts if artifact.kind == "image")
    assert image.value == png(600_000)
    texts = [result.content] if isinstance(result.content, str) else [block["text"] for block in result.content]
    assert "[image: png, 600000 bytes]" in "\n".join(texts)
    if preset == "previews":
        assert texts[0].splitlines()[0] == f"[Offloaded: 3 blocks, ~{result.original_tokens:,} tokens]"
        assert texts[0].splitlines()[-3:] == [
            f"{artifact.id} ({kind}, {artifact.size_bytes:,} bytes)"
            for artifact, kind in zip(result.artifacts, ("text", "json", "png"), strict=True)
        ]
    assert session.process(output, tool="t", call_id="c").content == result.content


def test_anthropic_gets_no_blocks_of_blank_text(session: Session) -> None:
    blank, text = {"type": "text", "text": " \n"}, {"type": "text", "text": "found it"}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": B64}}
    for blocks, sent in (([blank, text], [text]), ([blank, image], [image]), ([blank, blank], ""), ([blank], "")):
        result = session.process(blocks, tool="look")
        assert result.content == blocks
        assert result.message("anthropic", "c")["content"][0]["content"] == sent
        assert len(result.message("mcp", "c")["content"]) == len(blocks)


def test_messages_have_the_provider_s_own_blocks(session: Session) -> None:
    result = session.process(FORMS["mcp"], tool="look", call_id="c1")
    assert result.message("anthropic", "c1")["content"][0]["content"] == [
        {"type": "text", "text": "found it"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": B64}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64},
            "title": "report.pdf",
        },
    ]
    assert result.message("openai", "c1")["content"] == snapshot(
        [
            {"type": "text", "text": "found it"},
            {"type": "text", "text": "[image: png, 300 bytes]"},
            {"type": "text", "text": "[document: pdf, report.pdf, 400 bytes]"},
        ]
    )
    assert result.message("openai-responses", "c1")["output"] == FORMS["openai-responses"]
    assert result.message("mcp", "c1")["content"][:2] == FORMS["mcp"][:2]
    response = result.message("gemini", "c1")["parts"][0]["function_response"]
    assert response["response"] == {
        "output": "found it\n\n[image: png, 300 bytes]\n\n[document: pdf, report.pdf, 400 bytes]"
    }
    assert [part["inline_data"]["mime_type"] for part in response["parts"]] == ["image/png", "application/pdf"]


@pytest.mark.parametrize("form", FORMS)
def test_any_form_becomes_any_provider_s(chat: Session, form: str) -> None:
    result = chat.process(FORMS[form], tool="look")
    anthropic = result.message("anthropic", "c")["content"][0]["content"]
    assert [block["type"] for block in anthropic] == ["text", "image", "document"]
    assert "found it" in result.text and "[image: png, 300 bytes]" in result.text


def test_a_stated_output(session: Session) -> None:
    assert session.process(ToolOutput(["only text"]), tool="t").content == "only text"
    result = session.process(
        ToolOutput(["some text", {"type": "text", "text": "x", "id": 1}, png(400), {"json": [1]}]), tool="t"
    )
    assert isinstance(result.content, list) and len(result.content) == 4
    assert session.process(ToolOutput(["it broke"], is_error=True), tool="t").is_error
    assert session.process(ToolOutput([[{"text": "row 1"}]]), tool="t").content == '[{"text":"row 1"}]'
    with pytest.raises(ConfigurationError, match="expected a list"):
        ToolOutput("text")


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Lazy:
    """As a proxy is outside of the request that it stands for."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("outside of a request")


def test_a_part_that_raises_leaves_the_others(session: Session) -> None:
    rows = records(3_000)
    session.process({"rows": rows, "who": Lazy(), "list": [1, Lazy(), 2]}, tool="t")
    note = "[Lazy could not be read: RuntimeError]"
    assert session.variable("t").value() == {"rows": rows, "who": note, "list": [1, note, 2]}
    with pytest.raises(ConfigurationError, match=r"value\['who'\]: Lazy could not be read"):
        session.store_artifact({"rows": [1], "who": Lazy()})


@pytest.mark.parametrize("wrap", ["{}", "[{}]", "content", "type"])
def test_nothing_in_a_block_raises(session: Session, wrap: str) -> None:
    hostile = Hostile()
    outputs = {
        "{}": hostile,
        "[{}]": [hostile],
        "content": {"content": [hostile], "isError": False},
        "type": [{"type": hostile}],
    }
    assert session.process(outputs[wrap], tool="t").content


@pytest.mark.postgresql("equal bytes are found by a unique index")
def test_repeated_content_says_that_it_was_run_again(session: Session) -> None:
    first = session.process(records(3_000), tool="query", call_id="a")
    second = session.process(records(3_000), tool="query", call_id="b")
    assert first.step is not None and second.step is not None
    said = f"Re-executed at step {second.step}: identical to the output of step {first.step}."
    assert said in str(second.content) and said not in str(first.content)
    assert len(session.artifacts()) == 2
    assert session.artifacts()[0].payload.blob_id == session.artifacts()[1].payload.blob_id


@pytest.mark.parametrize("preset", ["references", "pointers", "previews", "variables"])
@pytest.mark.parametrize(
    "output",
    [records(3_000), prose(1_300_000), [{"image": {"format": "png", "source": {"bytes": png(1_400_000)}}}]],
    ids=["json", "text", "image"],
)
def test_repeats_are_told_in_every_envelope(local: Engine, tenant: str, preset: str, output: Any) -> None:
    session = local.session("s", tenant=tenant, policy=getattr(Policy, preset)(), context_window=100_000)
    first, second = session.process(output, tool="q"), session.process(output, tool="q")
    assert "Re-executed" not in str(first.content)
    assert f"Re-executed at step {second.step}: identical to the output of step {first.step}." in str(second.content)
    if second.envelope is not None:
        assert json.loads(str(second.content)) == second.envelope


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
@pytest.mark.parametrize(
    "data",
    [{"$bytes": "aGk="}, {"$$bytes": {"$bytes": "x"}}, {"a": 10**40}, {"a": "\ud800\0"}, {"$bytes": [b"hi"]}, {1: 2.5}],
    ids=repr,
)
def test_a_replay_is_the_same_whatever_is_inside(session: Session, data: Any) -> None:
    blocks = [{"json": data}, {"image": {"format": "png", "source": {"bytes": PNG}}}]
    first = session.process(blocks, tool="t", call_id="c")
    again = session.process(blocks, tool="t", call_id="c")
    assert first.step == again.step
    assert first.content == again.content
    assert again.message("anthropic", "c") == first.message("anthropic", "c")
