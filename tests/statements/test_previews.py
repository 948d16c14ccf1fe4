"""The context offloader: the statements CO-1 to CO-36."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from typing import Any

import pytest

from byref import CharCounter, Engine, Policy, Session
from byref.conversation.result import FORMATS
from statements.material import (
    Opener,
    answer,
    complaint,
    document,
    document_block,
    fill,
    image,
    image_block,
    json_of,
    lines,
    parameters,
    read_at_both_ends,
    records,
)

TOOL = "retrieve_offloaded_content"
HEADER = re.compile(r"\[Offloaded: (\d+) blocks, ~([\d,]+) tokens\]")


def parts_of(content: str) -> tuple[str, str, str, list[str]]:
    """Header, guidance, preview and reference lines of what the model reads."""
    top, references = content.split("\n\n[Stored references:]\n")
    above, shown = top.split("\n\n", 1)
    header, guidance = above.split("\n", 1)
    return header, guidance, shown, references.split("\n")


def reference_of(session: Session, output: object) -> str:
    result = session.process(output, tool="t")
    assert result.route == "artifact"
    [line] = parts_of(result.content)[3]
    return line.split(" ")[0]


@pytest.mark.statement("CO-1")
def test_offloaded_above_2500_tokens(prev: Opener) -> None:
    session = prev()
    assert session.process(lines(10_000), tool="t").content == lines(10_000)
    result = session.process(lines(10_004), tool="t")
    assert (result.route, result.reason, result.original_tokens) == ("artifact", "max_result_tokens", 2_501)


@pytest.mark.statement("CO-1")
def test_an_error_is_read_at_both_its_ends(prev: Opener) -> None:
    read_at_both_ends(prev())


@pytest.mark.statement("CO-1")
def test_small_blocks_are_unchanged(prev: Opener) -> None:
    session = prev()
    blocks = [{"text": lines(3_000)}, {"json": {"rows": records(3)}}, image_block(400)]
    result = session.process(blocks, tool="t")
    assert (result.route, result.content, session.artifacts()) == ("inline", blocks, [])


@pytest.mark.statement("CO-2")
def test_measured_as_a_whole_and_stored_one_by_one(prev: Opener) -> None:
    session, text, data = prev(), lines(9_900), {"a": "x" * 292}
    assert len(json.dumps(data, separators=(",", ":"))) == 300
    result = session.process([{"text": text}, {"json": data}], tool="t")
    assert (result.route, result.reason, result.original_tokens) == ("artifact", "max_result_tokens", 2_625)
    assert [artifact.value for artifact in session.artifacts()] == [text, data]
    assert parts_of(result.content)[3] == [
        f"{artifact.id} ({kind}, {size} bytes)"
        for artifact, kind, size in zip(session.artifacts(), ("text", "json"), ("9,900", "300"), strict=True)
    ]
    tiny = prev()
    tiny.process([{"text": "ok"}, {"text": text}, {"json": data}], tool="t")
    assert [artifact.value for artifact in tiny.artifacts()] == ["ok", text, data]
    for alone in ({"text": text}, {"json": data}):
        assert prev().process([alone], tool="t").route == "inline"


@pytest.mark.statement("CO-3")
def test_the_only_gate(prev: Opener) -> None:
    tight = prev(max_result_tokens=100, preview_tokens=50)
    assert tight.process(lines(3_000), tool="t").route == "artifact"
    session = prev()
    fill(session, 198_000)
    assert session.process(lines(9_000), tool="t").route == "inline"
    policy = Policy.previews()
    assert (policy.max_output_bytes, policy.context_percentage, policy.max_threshold_bytes) == (None, None, None)
    assert (policy.min_threshold_bytes, policy.headroom_percentage) == (0, 1.0)


@pytest.mark.statement("CO-4")
def test_text_and_json_keep_their_types(prev: Opener) -> None:
    session = prev()
    for output, kind in ((lines(20_000), "text/plain"), (json_of(20_000), "application/json")):
        [artifact] = session.process(output, tool="t").artifacts
        assert (artifact.content_type, artifact.payload.read()) == (kind, output.encode())


@pytest.mark.statement("CO-4")
def test_each_block_keeps_its_type_and_its_bytes(prev: Opener) -> None:
    session = prev()
    blocks = [{"text": lines(9_000)}, {"json": {"rows": records(50)}}, image_block(48_213), document_block(120_000)]
    session.process(blocks, tool="t")
    kept = session.artifacts()
    types = ["text/plain", "application/json", "image/png", "application/pdf"]
    assert [artifact.content_type for artifact in kept] == types
    assert [artifact.value for artifact in kept] == [
        lines(9_000),
        {"rows": records(50)},
        image(48_213),
        document(120_000),
    ]
    assert [artifact.payload.read() for artifact in kept[2:]] == [image(48_213), document(120_000)]


@pytest.mark.statement("CO-5")
def test_the_preview_is_the_beginning_of_the_text(prev: Opener) -> None:
    text = lines(200_000)
    result = prev().process(text, tool="t")
    shown = parts_of(result.content)[2]
    assert result.original_tokens == 50_000 and Policy.previews().preview_tokens == 1_000
    assert text.startswith(shown) and 900 <= CharCounter().count(shown) <= 1_000


@pytest.mark.statement("CO-6")
def test_the_preview_of_json_parses(prev: Opener) -> None:
    rows = records(2_000)
    shown = json.loads(parts_of(prev().process({"total": 2_000, "rows": rows, "next": "abc"}, tool="t").content)[2])
    assert (shown["total"], shown["next"]) == (2_000, "abc")
    assert (shown["rows"][0], shown["rows"][-1]) == (rows[0], rows[-1])
    assert all(row in rows for row in shown["rows"] if not isinstance(row, str))


@pytest.mark.statement("CO-7")
def test_thirty_big_results_never_fill_the_window(prev: Opener) -> None:
    session, heights = prev(window=50_000), []
    for i in range(30):
        result = session.process(lines(100_000 + i), tool="t")
        assert result.tokens <= 1_200
        heights.append(session.context_tokens())
    assert heights == sorted(heights) and heights[-1] <= 30 * 1_200 < 50_000 < 30 * 25_000


class WordCounter:
    """Counts words, and remembers that it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def count(self, text: str, kind: str = "text") -> int:
        self.asked += 1
        return len(text.split())


@pytest.mark.statement("CO-8")
def test_tokens_are_those_of_the_counter_in_force(sandbox: Any) -> None:
    assert (CharCounter().count(lines(10_000)), CharCounter().count(json_of(5_000), "json")) == (2_500, 2_500)
    counter = WordCounter()
    with Engine("sqlite:///:memory:", interpreter=sandbox, counter=counter) as engine:
        session = engine.session("words", policy=Policy.previews(), context_window=200_000)
        assert session.process("word " * 2_500, tool="t").route == "inline"
        result = session.process("word " * 2_501, tool="t")
    assert (result.route, result.original_tokens) == ("artifact", 2_501) and counter.asked > 2
    assert len(parts_of(result.content)[2].split()) <= 1_000


@pytest.mark.statement("CO-9", "CO-11")
def test_header_guidance_preview_references(prev: Opener) -> None:
    session, text = prev(), lines(42_000)
    result = session.process(text, tool="t")
    header, guidance, shown, references = parts_of(result.content)
    match = HEADER.fullmatch(header)
    assert match is not None and match.groups() == ("1", f"{result.original_tokens:,}") == ("1", "10,500")
    assert guidance and text.startswith(shown)
    assert references == [f"{session.artifacts()[0].id} (text, 42,000 bytes)"]


@pytest.mark.statement("CO-10")
def test_the_guidance_names_what_is_there(prev: Opener) -> None:
    session = prev()
    guidance = parts_of(session.process(lines(42_000), tool="t").content)[1]
    assert "because of its size" in guidance and "preview if it is enough" in guidance and "last resort" in guidance
    named = set(re.findall(r"pattern|line_range|context_lines", guidance))
    assert TOOL in guidance and {"pattern", "line_range"} <= named <= parameters(session, TOOL).keys()
    assert "{start, end}" in guidance
    other = prev(tools=["artifact_grep"])
    guidance = parts_of(other.process(lines(42_000), tool="t").content)[1]
    assert "artifact_grep" in guidance and TOOL not in guidance


READERS = [TOOL, "artifact_read", "artifact_grep", "artifact_jq", "get_artifact"]


@pytest.mark.statement("CO-12")
def test_four_blocks_have_four_references(prev: Opener) -> None:
    session = prev(tools=READERS)
    rows = [{"word": f"xxx {i}"} for i in range(700)]
    blocks = [{"text": lines(20_000)}, {"json": rows}, image_block(48_213), document_block(120_000)]
    result = session.process(blocks, tool="t", call_id="tool-123")
    header, _, shown, references = parts_of(result.content)
    assert header == f"[Offloaded: 4 blocks, ~{result.original_tokens:,} tokens]"
    assert result.tokens <= 1_200 and "tool-123" not in result.content
    matches = [re.fullmatch(r"(art_[\w-]+) \((\w+), ([\d,]+) bytes\)", line) for line in references]
    size = len(json.dumps(rows, separators=(",", ":")))
    assert [match and match.groups()[1:] for match in matches] == [
        ("text", "20,000"),
        ("json", f"{size:,}"),
        ("png", "48,213"),
        ("pdf", "120,000"),
    ]
    ids = [match[1] for match in matches if match]
    assert ids == [artifact.id for artifact in result.artifacts]
    beginning, rest = shown.split("\n\n", 1)
    assert lines(20_000).startswith(beginning) and json.loads(rest.split("\n\n")[0])[0] == rows[0]
    assert 350 <= CharCounter().count(beginning) <= 1_000  # what images do not need the others have
    assert answer(session, "artifact_jq", artifact_id=ids[1], expression="length") == "700"
    for reference, word in ((ids[0], "fox"), (ids[1], "xxx 7")):
        for tool, arguments in (
            (TOOL, {"reference": reference, "context_lines": 11}),
            (TOOL, {"reference": reference, "pattern": word, "context_lines": 0}),
            ("artifact_read", {"artifact_id": reference, "start_line": 9, "end_line": 9}),
            ("artifact_grep", {"artifact_id": reference, "pattern": word}),
            ("get_artifact", {"pointer_or_name": reference}),
        ):
            assert word in answer(session, tool, **arguments)
    for reference, binary in zip(ids[2:], (image(48_213), document(120_000)), strict=True):
        found = session.get_artifact(reference)
        assert found is not None and found.value == binary
        assert session.resolve({"file": reference}) == {"file": binary}


@pytest.mark.statement("CO-12")
def test_of_two_hundred_blocks_none_is_lost(prev: Opener) -> None:
    session = prev(tools=[TOOL, "list_artifacts"])
    blocks = [{"text": f"block {i}: {lines(400)}"} for i in range(200)]
    result = session.process(blocks, tool="t", call_id="tool-123")
    header, _, _, [*references, last] = parts_of(result.content)
    assert header.startswith("[Offloaded: 200 blocks") and result.tokens <= 1_200
    assert len(references) >= 20 and last == f"… and {200 - len(references)} more: list_artifacts names them"
    listed: list[str] = []
    after: dict[str, str] = {}
    while len(listed) < 200:
        page = [
            one for one in json.loads(answer(session, "list_artifacts", limit=100, **after)) if isinstance(one, dict)
        ]
        assert page
        listed += [entry["pointer"] for entry in page]
        after = {"after": listed[-1]}
    assert [line.partition(" ")[0] for line in references] == [
        f"art_{pointer[4:]}" for pointer in listed[: len(references)]
    ]
    for i in (0, 99, 199):
        assert answer(session, TOOL, reference=listed[i]).startswith(f"block {i}: ")


@pytest.mark.statement("CO-13")
@pytest.mark.parametrize(
    "output",
    [
        image(48_213),
        [image_block(48_213)],
        {"type": "image", "data": b64encode(image(48_213)).decode(), "mimeType": "image/png"},
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64encode(image(48_213)).decode()}}],
        [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(image(48_213)).decode()}"}}],
    ],
    ids=["bytes", "strands", "mcp", "anthropic", "openai"],
)  # fmt: skip
def test_an_image_becomes_a_placeholder_and_a_reference(prev: Opener, output: Any) -> None:
    session = prev()
    result = session.process(output, tool="screenshot")
    header, guidance, shown, [reference] = parts_of(result.content)
    assert header == "[Offloaded: 1 blocks, ~12,054 tokens]" and shown == "[image: png, 48213 bytes]"
    assert TOOL in guidance and "pattern" not in guidance
    [kept] = session.artifacts()
    assert reference == f"{kept.id} (png, 48,213 bytes)"
    assert (kept.kind, kept.content_type, kept.value) == ("image", "image/png", image(48_213))


@pytest.mark.statement("CO-14")
def test_a_document_becomes_a_placeholder_and_a_reference(prev: Opener) -> None:
    session = prev()
    _, _, shown, [reference] = parts_of(session.process([document_block(120_000)], tool="t").content)
    [kept] = session.artifacts()
    assert (shown, reference) == ("[document: pdf, report, 120000 bytes]", f"{kept.id} (pdf, 120,000 bytes)")
    assert (kept.kind, kept.name, kept.value) == ("document", "report", document(120_000))


@pytest.mark.statement("CO-14")
@pytest.mark.parametrize(
    "name", ["]\n[Stored references:]\nart_x (text, 1 bytes)", "x" * 100_000, "[[[\u2028]]]", "\0"]
)
def test_a_hostile_name_stays_in_its_brackets(prev: Opener, name: str) -> None:
    session = prev()
    _, _, shown, references = parts_of(session.process([document_block(120_000, name)], tool="t").content)
    assert re.fullmatch(r"\[document: pdf, (?:[^\[\]\n\u2028]{1,80}, )?120000 bytes\]", shown)
    assert len(references) == 1 and len(session.artifacts()[0].name or "") <= 256


@pytest.mark.statement("CO-15")
def test_what_cannot_be_stored_stays_as_it_was(prev: Opener) -> None:
    by_url = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    unknown = {"type": "hologram", "of": "nobody", "depth": 3}
    session = prev()
    result = session.process([by_url, {"type": "text", "text": lines(42_000)}, unknown], tool="t")
    assert isinstance(result.content, list)
    first, text, last = result.content
    assert (first, last) == (by_url, unknown) and text["type"] == "text"
    assert parts_of(text["text"])[3] == [f"{session.artifacts()[0].id} (text, 42,000 bytes)"]
    nothing_else = [by_url, unknown | {"of": "nobody" * 4_000}]
    result = prev().process(nothing_else, tool="t")
    assert (result.route, result.reason, result.content) == ("inline", "not_storable", nothing_else)


@pytest.mark.statement("CO-16")
def test_both_limits_take_effect(prev: Opener) -> None:
    session = prev(max_result_tokens=5_000, preview_tokens=2_000)
    assert session.process(lines(20_000), tool="t").route == "inline"
    result = session.process(lines(20_004), tool="t")
    assert 1_800 <= CharCounter().count(parts_of(result.content)[2]) <= 2_000 and result.tokens <= 2_200
    policy = Policy.previews()
    assert (policy.max_result_tokens, policy.preview_tokens, policy.tools) == (2_500, 1_000, (TOOL,))
    assert (policy.envelope_budget, Policy.previews(preview_tokens=2_000).envelope_budget) == (1_200, 2_200)


@pytest.mark.statement("CO-17")
def test_without_the_retrieval_tool(prev: Opener) -> None:
    session = prev(tools=["artifact_read"])
    assert [tool["name"] for tool in session.tools("anthropic")] == ["artifact_read"]
    result = session.process(lines(42_000), tool="t")
    assert result.route == "artifact" and TOOL not in result.content and "artifact_read" in result.content


@pytest.mark.statement("CO-18")
def test_in_memory_the_tool_is_the_only_way_in(prev: Opener) -> None:
    session = prev()
    reference = reference_of(session, lines(42_000))
    assert "0000099" in answer(session, TOOL, reference=reference, line_range={"start": 100, "end": 100})
    bare = prev(tools=[]).process(lines(42_000), tool="t")
    assert bare.route == "truncate" and "art_" not in bare.content


@pytest.mark.statement("CO-25")
@pytest.mark.parametrize("format", FORMATS)
def test_the_retrieval_tool_is_there_by_default(prev: Opener, format: Any) -> None:
    assert TOOL in json.dumps(prev().tools(format))


@pytest.mark.statement("CO-25")
@pytest.mark.parametrize("output", [lines(12_000), {"rows": records(100), "total": 100}], ids=["text", "json"])
def test_text_and_json_come_back_as_they_were(prev: Opener, output: Any) -> None:
    session = prev()
    whole = answer(session, TOOL, reference=reference_of(session, output))
    assert (whole if isinstance(output, str) else json.loads(whole)) == output


def read_on(session: Session, reference: str) -> str:
    """All of a text of one line, reply by reply, as each says how to go on."""
    whole, column = "", 1
    while True:
        page = answer(session, TOOL, reference=reference, line_range={"start": 1, "end": 1, "column": column})
        shown, _, note = page.partition("\n")
        whole += shown.partition("| ")[2].removeprefix("…")
        match = re.search(r"column: (\d+)}", note)
        if match is None:
            return whole
        assert int(match[1]) > column
        column = int(match[1])


@pytest.mark.statement("CO-25", "CO-31")
@pytest.mark.parametrize("text", [json_of(20_000), json_of(118_020)], ids=len)
def test_what_is_longer_than_a_reply_is_read_in_parts(prev: Opener, text: str) -> None:
    session = prev()
    reference = reference_of(session, text)
    reply = session.call(TOOL, {"reference": reference})
    assert reply.tokens <= 4_000 and "INCOMPLETE" in reply.content and "line_range" in reply.content
    assert read_on(session, reference) == text


@pytest.mark.statement("CO-25")
@pytest.mark.parametrize(
    ("block", "data", "native"),
    [
        (image_block(48_213), image(48_213), {"anthropic": "image", "openai-responses": "input_image", "mcp": "image"}),
        (document_block(30_000), document(30_000), {"anthropic": "document", "openai-responses": "input_file", "mcp": "resource"}),
    ],
    ids=["image", "document"],
)  # fmt: skip
def test_images_and_documents_come_back_in_native_form(
    prev: Opener, block: Any, data: bytes, native: dict[str, str]
) -> None:
    session = prev()
    reply = session.call(TOOL, {"reference": reference_of(session, [block])})
    encoded = b64encode(data).decode()
    assert not reply.is_error
    for format in FORMATS:
        message = reply.message(format, "c")
        inner = message.get("output", message.get("content"))
        if format in native:
            [shown] = inner[0]["content"] if format == "anthropic" else inner
            assert shown["type"] == native[format] and encoded in json.dumps(shown)
        elif format == "gemini":
            [shown] = message["parts"][0]["function_response"]["parts"]
            assert shown["inline_data"]["data"] == encoded
        else:  # OpenAI's Chat API takes text alone from tools
            assert f"{len(data)} bytes]" in json.dumps(message) and encoded not in json.dumps(message)


@pytest.mark.statement("CO-34")
@pytest.mark.parametrize(
    ("block", "kind"),
    [(image_block(48_213), "image/png"), (document_block(30_000), "application/pdf")],
    ids=["png", "pdf"],
)
@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "x"},
        {"line_range": {"start": 1, "end": 2}},
        {"pattern": "x", "line_range": {"start": 1, "end": 2}},
        {"context_lines": 3},
    ],
    ids=str,
)
def test_binary_content_cannot_be_searched(prev: Opener, block: Any, kind: str, arguments: Any) -> None:
    session = prev()
    reference = reference_of(session, [block])
    said = complaint(session, TOOL, reference=reference, **arguments)
    assert kind in said and "binary" in said and "whole" in said and reference in said
    assert not session.call(TOOL, {"reference": reference}).is_error


@pytest.mark.statement("CO-26")
def test_four_parameters(prev: Opener) -> None:
    session = prev()
    schema = session.tools("anthropic")[0]["input_schema"]
    assert list(schema["properties"]) == ["reference", "pattern", "line_range", "context_lines"]
    assert schema["required"] == ["reference"]
    assert {"start", "end"} <= set(re.findall(r'"(\w+)"', json.dumps(schema["properties"]["line_range"])))
    reference = reference_of(session, lines(42_000))
    assert "'reference'" in complaint(session, TOOL, pattern="x")
    assert "art_nothing" in complaint(session, TOOL, reference="art_nothing")
    hit = answer(session, TOOL, reference=reference, pattern="^0000100 ")
    assert len(hit.splitlines()) == 2 + 11  # five lines on each side


@pytest.mark.statement("CO-27")
def test_a_pattern_is_a_regex_or_a_keyword(prev: Opener) -> None:
    session = prev()
    rows = lines(42_000).splitlines()
    rows[10], rows[20], rows[30] = "the admin", "call foo(bar)", "then root"
    reference = reference_of(session, "\n".join(rows))
    found = answer(session, TOOL, reference=reference, pattern="admin|root", context_lines=0)
    assert found.startswith("[2 matches for /admin|root/]") and "the admin" in found and "then root" in found
    found = answer(session, TOOL, reference=reference, pattern="foo(", context_lines=0)
    assert "call foo(bar)" in found and "literal" in found.splitlines()[0]


@pytest.mark.statement("CO-27")
@pytest.mark.parametrize("pattern", ["(a|a)*b", "(a+)+$", "(a*)*c|(a|aa)+d", "(.*)(.*)(.*)(.*)x"])
def test_patterns_take_linear_time(prev: Opener, pattern: str) -> None:
    """Each takes a backtracking engine longer than the age of the universe, or its square."""
    session = prev()
    reference = reference_of(session, "a" * 1_000_000 + "!")
    started = time.perf_counter()
    found = answer(session, TOOL, reference=reference, pattern=pattern)
    assert time.perf_counter() - started < 5
    assert found.startswith("[0 matches for ")


def ten_lines(session: Session) -> str:
    return reference_of(session, "\n".join(f"line {i} " + "x" * 2_000 for i in range(1, 11)))


@pytest.mark.statement("CO-28")
def test_a_range_is_1_based_and_inclusive(prev: Opener) -> None:
    session = prev()
    reference = ten_lines(session)
    shown = answer(session, TOOL, reference=reference, line_range={"start": 2, "end": 4})
    assert re.findall(r"line (\d+)", shown) == ["2", "3", "4"]
    for start, end in ((0, 3), (4, 2), (11, 12)):
        said = complaint(session, TOOL, reference=reference, line_range={"start": start, "end": end})
        assert str(start) in said


@pytest.mark.statement("CO-29")
def test_a_search_inside_a_range(prev: Opener) -> None:
    session = prev()
    reference = reference_of(session, searched())
    found = answer(session, TOOL, reference=reference, pattern="admin", line_range={"start": 1, "end": 10})
    assert found.startswith("[1 match for /admin/") and "line 3: admin" in found and "line 49" not in found
    assert answer(session, TOOL, reference=reference, pattern="admin", line_range={"start": 4, "end": 48}).startswith(
        "[0 "
    )


@pytest.mark.statement("CO-30")
def test_context_lines_alone_is_the_top(prev: Opener) -> None:
    session = prev()
    shown = answer(session, TOOL, reference=reference_of(session, lines(42_000)), context_lines=7)
    assert re.findall(r"^ +(\d+)\|", shown, re.MULTILINE) == [str(i) for i in range(1, 8)]


@pytest.mark.statement("CO-31")
def test_everything_at_once_is_bounded(prev: Opener) -> None:
    session = prev(reply_tokens=12_000)
    text = json_of(20_000)
    assert answer(session, TOOL, reference=reference_of(session, text)) == text
    reply = session.call(TOOL, {"reference": reference_of(session, lines(10_000_000))})
    assert reply.tokens <= 12_000 and "INCOMPLETE" in reply.content and "pattern" in reply.content


def searched() -> str:
    """51 lines with matches in lines 3 and 49."""
    return "\n".join(f"line {i}: {'admin' if i in (3, 49) else 'user'} " + "." * 250 for i in range(1, 52))


@pytest.mark.statement("CO-32")
def test_matches_are_numbered_and_grouped(prev: Opener) -> None:
    session = prev()
    reference = reference_of(session, searched())
    found = answer(session, TOOL, reference=reference, pattern="admin", context_lines=2)
    header, blank, *rows = found.split("\n")
    assert (header, blank) == ("[2 matches for /admin/]", "")
    marks = [row if row == "---" else row.partition("|")[0] for row in rows]
    assert marks == ["   1", "   2", ">  3", "   4", "   5", "---", "  47", "  48", "> 49", "  50", "  51"]
    assert rows[2].startswith(">  3| line 3: admin") and rows[0].startswith("   1| line 1: user")
    again = answer(session, TOOL, reference=reference, line_range={"start": 49, "end": 49})
    assert again.startswith("  49| line 49: admin")


@pytest.mark.statement("CO-33")
def test_many_matches_are_counted_and_cut(prev: Opener) -> None:
    session = prev()
    reference = reference_of(session, "\n".join(f"row {i}" for i in range(100_000)))
    reply = session.call(TOOL, {"reference": reference, "pattern": "."})
    assert reply.tokens <= 4_000 and reply.content.startswith("[more than 1,000 matches for /./")
    assert "Narrow the pattern, or go on with line_range" in reply.content.splitlines()[0]
    for count, said in ((999, "999"), (1_000, "1,000"), (1_001, "more than 1,000")):
        text = "\n".join(f"row {i} of the table" for i in range(count))
        reply = session.call(TOOL, {"reference": reference_of(session, text), "pattern": "row"})
        assert reply.content.startswith(f"[{said} matches for /row/; INCOMPLETE: first 50 shown. ")
    session = prev()
    reference = reference_of(session, "x" * 60_000 + "needle" + "y" * 60_000)
    found = answer(session, TOOL, reference=reference, pattern="needle")
    assert "xneedley" in found and len(found) < 1_000


@pytest.mark.statement("CO-35")
def test_incomplete_is_said_however_long_the_preview(prev: Opener) -> None:
    sizes = []
    for preview_tokens in (500, 2_000):
        result = prev(preview_tokens=preview_tokens).process(lines(200_000), tool="t")
        assert "INCOMPLETE" in result.content
        sizes.append(len(parts_of(result.content)[2]))
    assert sizes[0] * 3 < sizes[1]
    shown = parts_of(prev().process(records(5_000), tool="t").content)[2]
    assert re.search(r"[\d,]+ tokens omitted", shown)


@pytest.mark.statement("CO-36")
def test_old_envelopes_stay_as_they_were(prev: Opener) -> None:
    session = prev()
    read = [session.process(lines(42_000 + i), tool="t").content for i in range(3)]
    session.on_compaction(1_000)
    read.append(session.process(lines(42_000), tool="t").content)
    assert [entry.processed for entry in session.history()] == read
    assert [entry.content for entry in session.ledger() if entry.kind == "output"] == read
