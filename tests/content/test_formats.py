"""Content blocks are distinguished from data by all their keys, held as plain data, and written as each provider's SDK accepts
them."""

from __future__ import annotations

import base64
import datetime
import json
import time
import zlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from byref import Policy, Session, ToolOutput
from byref.content import Block, Media, Piece, formats, to_pieces
from byref.conversation.result import FORMATS, message

PNG = b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(range(256)) * 4) + b"\xff\xfe\xfb\xef\xbe\x07\x07"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
PDF, WAV = b"%PDF-1.7\n" + b"\0" * 40, b"RIFF\0\0\0\0WAVEfmt "


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_url(content_type: str, data: bytes) -> str:
    return f"data:{content_type};base64,{b64(data)}"


TEXT: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": "words"},
    "input_text": {"type": "input_text", "text": "words"},
    "output_text": {"type": "output_text", "text": "words", "annotations": [], "logprobs": []},
    "anthropic text": {"type": "text", "text": "words", "cache_control": {"type": "ephemeral"}, "citations": None},
    "mcp text": {"type": "text", "text": "words", "annotations": {"priority": 0.5}, "_meta": {"a": 1}},
    "langchain text": {"type": "text", "text": "words", "id": "lc_1", "index": 0, "extras": {"a": 1}},
    "strands text": {"text": "words"},
    "resource": {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "words"}},
    "search result": {
        "type": "search_result", "source": "https://example.com", "title": "A",
        "content": [{"type": "text", "text": "words"}], "citations": {"enabled": True},
    },
    "search result of Bedrock": {"searchResult": {"source": "s", "title": "t", "content": [{"text": "words"}]}},
    "document of text": {
        "type": "document", "title": "A", "context": "C",
        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
    },
    "document of blocks": {
        "type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "words"}]},
    },
    "document of one string": {"type": "document", "source": {"type": "content", "content": "words"}},
    "Bedrock document of text": {"document": {"format": "txt", "name": "n", "source": {"text": "words"}}},
    "Bedrock document of blocks": {"document": {"name": "n", "source": {"content": [{"text": "words"}]}}},
    "guarded": {"guardContent": {"text": {"text": "words", "qualifiers": ["query"]}}},
}  # fmt: skip
MEDIA: dict[str, tuple[dict[str, Any], str, bytes]] = {
    "anthropic": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(PNG)},
         "cache_control": {"type": "ephemeral"}}, "image/png", PNG),
    "anthropic pdf": (
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": b64(PDF)},
         "title": "report.pdf", "context": "C", "citations": {"enabled": True}}, "application/pdf", PDF),
    "mcp": ({"type": "image", "data": b64(PNG), "mimeType": "image/png", "annotations": {"priority": 1}}, "image/png", PNG),
    "mcp svg": ({"type": "image", "data": b64(SVG), "mimeType": "image/svg+xml"}, "image/svg+xml", SVG),
    "mcp bmp": ({"type": "image", "data": b64(b"BM" + PNG), "mimeType": "image/bmp"}, "image/bmp", b"BM" + PNG),
    "mcp audio": ({"type": "audio", "data": b64(WAV), "mimeType": "audio/wav"}, "audio/wav", WAV),
    "mcp blob": (
        {"type": "resource", "resource": {"uri": "file:///tmp/a.pdf", "mimeType": "application/pdf", "blob": b64(PDF)},
         "_meta": {"a": 1}}, "application/pdf", PDF),
    "chat image": ({"type": "image_url", "image_url": {"url": data_url("image/png", PNG), "detail": "low"}}, "image/png", PNG),
    "responses image": (
        {"type": "input_image", "image_url": data_url("image/png", PNG), "detail": "low"}, "image/png", PNG),
    "upper case": ({"type": "image_url", "image_url": {"url": "DATA:image/PNG;BASE64," + b64(PNG)}}, "image/png", PNG),
    "percent": ({"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg%2F%3E"}}, "image/svg+xml", b"<svg/>"),
    "chat file": ({"type": "file", "file": {"file_data": data_url("application/pdf", PDF), "filename": "a.pdf"}}, "application/pdf", PDF),
    "raw base64": ({"type": "input_file", "file_data": b64(PDF), "filename": "a.pdf"}, "application/pdf", PDF),
    "raw base64, no name": ({"type": "file", "file": {"file_data": b64(PDF)}}, "application/pdf", PDF),
    "chat audio": ({"type": "input_audio", "input_audio": {"data": b64(WAV), "format": "wav"}}, "audio/wav", WAV),
    "langchain": ({"type": "image", "base64": b64(PNG), "mime_type": "image/png", "id": "lc_2"}, "image/png", PNG),
    "langchain of old": (
        {"type": "image", "source_type": "base64", "data": b64(PNG), "mime_type": "image/png"}, "image/png", PNG),
    "langchain audio": ({"type": "audio", "base64": b64(WAV), "mime_type": "audio/wav"}, "audio/wav", WAV),
    "langchain text file": (
        {"type": "file", "base64": b64(b"# Title"), "mime_type": "text/markdown", "filename": "a.md"}, "text/markdown", b"# Title"),
    "strands": ({"image": {"format": "png", "source": {"bytes": PNG}}}, "image/png", PNG),
    "strands audio": ({"audio": {"format": "mp3", "source": {"bytes": bytearray(WAV)}}}, "audio/mp3", WAV),
    "strands csv": ({"document": {"format": "csv", "name": "n", "source": {"bytes": b"a,b"}}}, "text/csv", b"a,b"),
    "gemini": ({"inline_data": {"mime_type": "image/png", "data": b64(PNG)}}, "image/png", PNG),
    "gemini's JSON": ({"inlineData": {"mimeType": "application/pdf", "data": PDF}}, "application/pdf", PDF),
    "broken lines": ({"type": "image", "data": base64.encodebytes(PNG).decode(), "mimeType": "image/png"}, "image/png", PNG),
    "URL-safe": ({"type": "image", "data": base64.urlsafe_b64encode(PNG).decode(), "mimeType": "image/png"}, "image/png", PNG),
    "no padding": ({"type": "image", "data": b64(PNG).rstrip("="), "mimeType": "image/png"}, "image/png", PNG),
}  # fmt: skip
ELSEWHERE: dict[str, dict[str, Any]] = {
    "anthropic url": {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    "anthropic file": {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
    "anthropic image's file": {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    "document with an image": {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "text", "text": "said"}, MEDIA["anthropic"][0]]},
        "title": "T",
    },
    "chat url": {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    "responses url": {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
    "responses file": {"type": "input_file", "file_id": "file_1"},
    "responses file url": {"type": "input_file", "file_url": "https://example.com/a.pdf"},
    "langchain url": {"type": "image", "url": "https://example.com/a.png"},
    "link": {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A", "size": 3},
    "tool reference": {"type": "tool_reference", "tool_name": "x"},
    "S3": {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://a/b"}}}},
    "cache point": {"cachePoint": {"type": "default"}},
    "no base64": {"type": "image", "data": "no base64 at all!", "mimeType": "image/png"},
    "empty": {"type": "image", "data": "", "mimeType": "image/png"},
}
ALL: dict[str, dict[str, Any]] = TEXT | {name: item for name, (item, _, _) in MEDIA.items()} | ELSEWHERE
ALL |= {
    "json": {"type": "json", "json": {"a": [1]}},
    "strands json": {"json": [1, "a"]},
    "unknown": {"type": "new", "a": 1},
}
SAID = {"type": "text", "text": "said"}


@pytest.mark.parametrize("name", TEXT)
def test_texts_are_read(name: str) -> None:
    [piece], _ = to_pieces([TEXT[name]])
    assert isinstance(piece.block, Block)
    assert (piece.block.text, piece.original) == ("words", TEXT[name])


@pytest.mark.parametrize("name", MEDIA)
def test_images_and_documents_are_read(name: str) -> None:
    item, content_type, data = MEDIA[name]
    [piece], _ = to_pieces([item])
    assert isinstance(piece.block, Media)
    assert (piece.block.content_type, piece.block.data) == (content_type, data)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_elsewhere_is_a_block_without_bytes(name: str) -> None:
    [piece], _ = to_pieces([ELSEWHERE[name]])
    assert (piece.block, piece.original, piece.content) == (None, ELSEWHERE[name], ELSEWHERE[name])


@pytest.mark.parametrize("name", ALL)
def test_what_passes_whole_is_what_is_read_back(name: str) -> None:
    pieces, _ = to_pieces([SAID, ALL[name]])
    content = [piece.content for piece in pieces]
    assert content == [SAID, ALL[name]]
    assert formats.from_json(formats.to_json(content)) == content


# Blocks and data

RECORDS: dict[str, Any] = {
    "images with titles": lambda i: {"type": "image", "url": f"https://x/{i}", "title": "t", "id": i},
    "files with names": lambda i: {"type": "file", "file_id": f"f{i}", "name": "n"},
    "documents with scores": lambda i: {"type": "document", "url": f"https://x/{i}", "score": 0.5},
    "search results": lambda i: {"type": "search_result", "title": "x", "n": i},
    "texts with numbers": lambda i: {"type": "text", "text": "hi", "id": i},
    "links with dates": lambda i: {"type": "resource_link", "uri": "a", "name": "b", "date": "2026-01-01"},
    "an event log": lambda i: {"type": "click", "x": i} if i else {"type": "text", "text": "hi"},
    "nothing but addresses": lambda i: {"type": "image", "url": f"https://x/{i}"},
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_that_look_like_blocks_are_data(name: str) -> None:
    rows = [RECORDS[name](i) for i in range(900)]
    [piece], _ = to_pieces(rows)
    assert isinstance(piece.block, Block)
    assert (piece.original, piece.block.parsed) == (None, ("json", rows))


@pytest.mark.parametrize(
    "data",
    [
        {"status": "published", "content": [SAID]},
        {"status": "published", "content": [SAID], "toolUseId": "a", "id": 3},
        {"role": "tool", "tool_call_id": "a", "content": "hi", "extra": 1},
        {"type": "tool_result", "content": [SAID]},
        {"type": "function_call_output", "output": "a"},
        {"type": "document", "title": "My doc", "author": "Ann", "data": "abcd"},
        {"type": "file", "path": "/a", "data": b64(PNG), "sha": "x"},
        {"type": "file", "data": b64(PNG)},
        {"content": [SAID], "isError": False, "score": 1},
        {"content": [], "status": "ok"},
        {"content": []},
        {"content": [1, 2], "isError": False},
    ],
    ids=repr,
)
def test_records_that_look_like_tool_results_are_data(data: Any) -> None:
    [piece], is_error = to_pieces(data)
    assert isinstance(piece.block, Block)
    assert (piece.original, piece.block.parsed, is_error) == (None, ("json", data), False)


@pytest.mark.parametrize(
    "output",
    [
        {"status": "success", "content": [SAID]},
        {"toolUseId": "a", "content": [SAID]},
        {"role": "tool", "tool_call_id": "a", "name": "t", "content": [SAID]},
        {"type": "tool_result", "tool_use_id": "a", "content": [SAID]},
        {"type": "function_call_output", "call_id": "a", "output": [SAID]},
        {"content": [SAID], "isError": False, "_meta": {}},
        {"content": [SAID]},
    ],
    ids=repr,
)
def test_tool_results_are_their_blocks(output: Any) -> None:
    assert [piece.original for piece in to_pieces(output)[0]] == [SAID]


def test_a_few_of_a_new_type_are_blocks_and_many_are_data() -> None:
    new = {"type": "hologram", "of": "x"}
    for known, unknown, expected in ((1, 1, True), (1, 2, False), (12, 4, True), (100, 8, True), (100, 9, False)):
        pieces, _ = to_pieces([SAID] * known + [new] * unknown)
        assert (len(pieces) == known + unknown) is expected


def test_a_provider_may_add_keys_inside_its_tool_results() -> None:
    added = SAID | {"confidence": 0.5}
    pieces, _ = to_pieces({"content": [added, "a string", 5], "isError": False})
    assert [piece.block.text for piece in pieces if isinstance(piece.block, Block)] == ["said", "a string", "5"]
    assert to_pieces([added])[0][0].original is None


@pytest.mark.parametrize(
    "item", [{"type": "hologram", "of": "x" * 70_000}, {"zork": "x" * 70_000}], ids=["type", "key"]
)
def test_a_large_block_that_nobody_knows_is_text(item: dict[str, Any]) -> None:
    pieces, _ = to_pieces([SAID, item])
    block = pieces[1].block
    assert isinstance(block, Block)
    assert json.loads(block.text) == item
    assert pieces[1].content == {"type": "text", "text": block.text} if "type" in item else {"text": block.text}


def test_no_more_than_a_few_blocks_without_bytes_pass_in_a_tool_result() -> None:
    links = [{"type": "resource_link", "uri": f"file:///{i}", "name": str(i)} for i in range(900)]
    pieces, _ = to_pieces({"content": links, "isError": False})
    assert len(pieces) == 900
    assert sum(piece.block is None for piece in pieces) == formats.MAX_ELSEWHERE
    assert sum(piece.block is None for piece in to_pieces(ToolOutput(links))[0] if piece) == formats.MAX_ELSEWHERE


def test_data_is_told_from_blocks_at_no_cost() -> None:
    rows = [{"type": "order", "text": f"row {i}"} for i in range(100_000)]
    seconds = []
    for _ in range(10):  # of processor time, the least: a busy machine takes nothing from it
        began = time.thread_time()
        assert formats.read(rows) is None
        seconds.append(time.thread_time() - began)
    assert min(seconds) < 0.001


# Plain data


def failing() -> Iterator[int]:
    yield 1
    raise ConnectionError


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def circular() -> Any:
    value: list[Any] = []
    value += [value, value]
    return value


LIVE: dict[str, Any] = {
    "tuple": lambda: {"a": (1, 2)},
    "date": lambda: {"a": datetime.date(2020, 1, 1)},
    "integer keys": lambda: {1: "a"},
    "set": lambda: {"a": {1}},
    "Decimal": lambda: {"a": Decimal("1.10")},
    "DataFrame": lambda: pd.DataFrame({"a": [1, 2]}),
    "DataFrame inside": lambda: {"rows": pd.DataFrame({"a": [1, 2]})},
    "generator": lambda: (i for i in range(3)),
    "generator inside": lambda: {"a": (i for i in range(3))},
    "generator that fails": lambda: {"a": failing(), "b": 1},
    "nan": lambda: {"a": float("nan")},
    "bytes": lambda: {"a": b"raw\xff"},
    "text": lambda: '{"a": 1}',
    "integer": lambda: 2**70,
    "lone surrogates": lambda: ["\ud83d\ude00", "\ud800"],
    "deep": lambda: deep(99),
    "deeper": lambda: deep(150),
    "bottomless": lambda: deep(3_000),
    "circular": circular,
}
BLOCKS: dict[str, Any] = {
    "json": lambda value: {"json": value},
    "typed": lambda value: {"type": "json", "json": value},
    "unknown": lambda value: {"zork": value},
    "annotated": lambda value: {"type": "text", "text": "x", "annotations": value},
}


def is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and is_plain(member) for key, member in value.items())
    return (
        all(map(is_plain, value)) if type(value) is list else type(value) in (str, int, float, bool, bytes, type(None))
    )


@pytest.mark.parametrize("form", BLOCKS)
@pytest.mark.parametrize("name", LIVE)
def test_live_objects_inside_blocks_become_plain(name: str, form: str) -> None:
    pieces, _ = to_pieces([SAID, BLOCKS[form](LIVE[name]())])
    content = [piece.content for piece in pieces]
    assert len(content) == 2
    assert is_plain(content)
    assert formats.from_json(formats.to_json(content)) == content


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_live_objects_are_the_same_at_a_replay(session: Session) -> None:
    def output() -> list[Any]:
        return [SAID, *({"json": make()} for make in LIVE.values()), {"zork": LIVE["generator inside"]()}]

    first, again = (session.process(output(), tool="t", call_id="c") for _ in range(2))
    assert first.content == again.content == [piece.content for piece in to_pieces(output())[0]]
    assert again.step == first.step
    json.dumps(first.message("anthropic", "c"))


def test_json_too_deep_for_a_block_is_its_text() -> None:
    [piece], _ = to_pieces([{"json": deep(150)}])
    assert piece.content == {"text": "[" * 150 + "1" + "]" * 150}
    [piece], _ = to_pieces([{"type": "json", "json": deep(99)}])
    assert piece.content == {"type": "json", "json": deep(99)}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (lambda: failing(), ["[generator could not be read: ConnectionError]"]),
        (lambda: ToolOutput([failing()]), ["[generator could not be read: ConnectionError]"]),
        (lambda: {"a": failing(), "b": 1}, ['{"a":"[generator could not be read: ConnectionError]","b":1}']),
        (
            lambda: [{"json": {"a": failing()}}, {"json": failing()}],
            ['{"a":"[generator could not be read: ConnectionError]"}', "[generator could not be read: ConnectionError]"],
        ),
        (lambda: {"a": failing(), "b": "\ud800"}, ['{"a":"[generator could not be read: ConnectionError]","b":"\\ud800"}']),
    ],
)  # fmt: skip
def test_a_generator_that_fails_is_a_note(output: Any, expected: list[str]) -> None:
    pieces, _ = to_pieces(output())
    assert [piece.block.text for piece in pieces if isinstance(piece.block, Block)] == expected


def test_a_mapper_gets_what_a_generator_inside_gave(engine: Any, tenant: str) -> None:
    policy = Policy(per_tool={"t": {"mapper": lambda value: sum(value["rows"])}})
    session = engine.session("s", tenant=tenant, policy=policy)
    assert session.process({"rows": (i for i in range(4))}, tool="t").content == "6"


def test_tuples_that_repeat_their_own_parts_become_a_note() -> None:
    laughs: Any = ("lol",)
    for _ in range(60):
        laughs = (laughs, laughs)
    for output in (laughs, [{"json": {"a": laughs}}], [SAID, {"zork": laughs}]):
        pieces, _ = to_pieces(output)
        assert "repeats its own parts" in formats.to_json([pieces[-1].content])


class Stated(ToolOutput):
    """A host's own."""


def test_a_subclass_of_a_stated_output_is_one() -> None:
    pieces, is_error = to_pieces(Stated(["a", SAID], is_error=True))
    assert [piece.content["text"] for piece in pieces] == ["a", "said"]
    assert is_error


# MCP's results


def test_an_empty_result_is_an_empty_text() -> None:
    from mcp.types import CallToolResult

    for output in (CallToolResult(content=[]), {"content": [], "isError": False}):
        [piece], _ = to_pieces(output)
        assert isinstance(piece.block, Block)
        assert (piece.block.text, piece.original) == ("", None)
    structured: list[Any] = [
        CallToolResult(content=[], structured_content={"a": 1}),
        {"content": [], "structuredContent": {"a": 1}, "isError": False},
    ]
    for output in structured:
        [piece], _ = to_pieces(output)
        assert isinstance(piece.block, Block) and piece.block.parsed == ("json", {"a": 1})


def test_many_texts_beside_much_structured_content_are_compared_at_once() -> None:
    texts = [{"type": "text", "text": f'{{"id":-{i}}}'} for i in range(1_000)]
    output = {"content": texts, "structuredContent": {"result": [{"id": i} for i in range(50_000)]}, "isError": False}
    began = time.perf_counter()
    pieces, _ = to_pieces(output)
    assert time.perf_counter() - began < 2
    assert len(pieces) == 1_001


@pytest.mark.parametrize("element", [{"b": 1, "a": [2]}, "words", 5, 1.5, True], ids=repr)
def test_texts_that_say_the_elements_are_dropped(element: Any) -> None:
    text = json.dumps(element, indent=1) if isinstance(element, dict) else str(element)
    output = {"content": [SAID, {"type": "text", "text": text}], "structuredContent": {"result": [element, 7]}}
    pieces, _ = to_pieces(output)
    assert [piece.content for piece in pieces][:-1] == [SAID]
    whole = {"content": [{"type": "text", "text": text}], "structuredContent": {"result": element}}
    assert [piece.content["text"] for piece in to_pieces(whole)[0]] == [text]


@pytest.mark.parametrize("count", [1, 3, 5_000])
def test_a_list_that_an_sdk_gave_as_a_text_each_is_the_list(count: int) -> None:
    from mcp.types import CallToolResult, TextContent

    rows = [{"i": i, "v": "words"} for i in range(count)]
    texts = [json.dumps(row, indent=2) for row in rows]
    blocks = [{"type": "text", "text": text} for text in texts]
    objects: list[Any] = [TextContent(text=text) for text in texts]
    outputs: list[Any] = [
        {"content": blocks, "structuredContent": {"result": rows}, "isError": False},
        {"content": blocks, "structuredContent": rows},
        CallToolResult(content=objects, structured_content={"result": rows}),
    ]
    for output in outputs:
        [piece], _ = to_pieces(output)
        assert isinstance(piece.block, Block) and piece.block.parsed == ("json", rows)


@pytest.mark.parametrize("count", [1_001, 5_000])
def test_more_texts_than_blocks_are_read_are_one_list(count: int) -> None:
    texts = [f"line {n}" for n in range(count)]
    typed, untyped = [{"type": "text", "text": text} for text in texts], [{"text": text} for text in texts]
    for output in (
        {"content": typed},
        {"content": typed, "isError": False},
        {"toolUseId": "t1", "status": "success", "content": untyped},
        {"toolUseId": "t1", "status": "success", "content": [{"json": texts[0]}, *untyped[1:]]},
    ):
        [piece], is_error = to_pieces(output)
        assert isinstance(piece.block, Block) and piece.block.parsed == ("json", texts) and not is_error
    for data in ({"content": untyped}, {"content": [*typed, {"type": "text"}]}, typed):
        [piece], _ = to_pieces(data)
        assert isinstance(piece.block, Block) and piece.block.parsed == ("json", data)


def test_a_list_under_a_name_of_its_own_keeps_it() -> None:
    output = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "isError": False}
    [piece], _ = to_pieces({**output, "structuredContent": {"letters": ["a", "b"]}})
    assert isinstance(piece.block, Block) and piece.block.parsed == ("json", {"letters": ["a", "b"]})
    for other in (["a", "c"], ["b", "a"], ["a", "b", "c"]):
        pieces, _ = to_pieces({**output, "structuredContent": {"result": other}})
        assert isinstance(pieces[-1].block, Block) and pieces[-1].block.parsed == ("json", {"result": other})


def test_structured_content_of_any_type_is_taken() -> None:
    rows = [{"i": 1}, {"i": 2}]
    pieces, _ = to_pieces({"content": [SAID], "structuredContent": rows})
    assert pieces[0].content == SAID
    assert isinstance(pieces[1].block, Block) and pieces[1].block.parsed == ("json", rows)
    [piece], _ = to_pieces({"content": [{"type": "text", "text": json.dumps(rows)}], "structuredContent": rows})
    assert isinstance(piece.block, Block) and piece.block.parsed == ("json", rows)
    [piece], _ = to_pieces({"content": [{"type": "text", "text": "[1]"}], "structuredContent": {"result": "[1]"}})
    assert piece.content == {"type": "text", "text": "[1]"}


def test_more_texts_than_there_can_be_blocks_are_a_list() -> None:
    texts = [{"type": "text", "text": f'{{"id": {i}}}'} for i in range(1_500)] + [SAID]
    [piece], _ = to_pieces({"content": texts, "isError": False})
    assert isinstance(piece.block, Block)
    assert piece.block.parsed == ("json", [*({"id": i} for i in range(1_500)), "said"])


def test_blocks_that_nobody_knows_do_not_make_data_of_the_others() -> None:
    odd = {"type": "hologram", "depth": 3}
    rows = [{"i": 1}]
    for content in ([odd], [odd] * 3, [odd] * 3 + [SAID], [odd] * 8 + [SAID]):
        pieces, _ = to_pieces({"content": content, "isError": False})
        assert [piece.content for piece in pieces] == content
        pieces, _ = to_pieces({"content": content, "structuredContent": {"rows": rows}, "isError": False})
        assert [piece.content for piece in pieces[:-1]] == content
        assert isinstance(pieces[-1].block, Block) and pieces[-1].block.parsed == ("json", {"rows": rows})
    pieces, _ = to_pieces({"content": [odd] * 20, "isError": False})
    assert [json.loads(piece.content["text"]) for piece in pieces[8:]] == [odd] * 12
    big = {"type": "hologram", "points": list(range(50_000))}
    [piece], _ = to_pieces({"content": [big], "isError": False})
    assert isinstance(piece.block, Block) and piece.block.parsed == ("json", big)


# What providers take

STRICT = ("openai", "openai-responses", "anthropic")


@pytest.fixture(scope="module")
def taken() -> dict[str, Any]:
    """What each provider's SDK takes; their import takes seconds, which collecting the tests does not need."""
    from anthropic.types.beta import BetaToolResultBlockParam  # those of the others, and files
    from google.genai import types as gemini
    from mcp.types import CallToolResult
    from openai.types.chat import ChatCompletionToolMessageParam
    from openai.types.responses.response_input_item_param import FunctionCallOutput
    from pydantic import TypeAdapter

    return {
        "openai": TypeAdapter(ChatCompletionToolMessageParam),
        "openai-responses": TypeAdapter(FunctionCallOutput),
        "anthropic": TypeAdapter(BetaToolResultBlockParam),
        "gemini": TypeAdapter(gemini.Content),
        "mcp": TypeAdapter(CallToolResult),
    }


def listed(validated: Any) -> Any:
    """With what an SDK's type reads only when it is asked to."""
    if isinstance(validated, Mapping):
        return {key: listed(member) for key, member in validated.items()}
    return (
        [listed(item) for item in validated]
        if hasattr(validated, "__iter__") and not isinstance(validated, str | bytes)
        else validated
    )


def sent(item: Any, format: Any) -> Any:
    body = message(format, [item], "c", is_error=False, tool="t")
    body = body["content"][0] if format == "anthropic" else body
    return body["output" if format == "openai-responses" else "parts" if format == "gemini" else "content"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ALL)
def test_every_form_is_written_as_every_sdk_takes_it(taken: dict[str, Any], name: str, format: Any) -> None:
    pieces, _ = to_pieces([SAID, ALL[name]])
    body = message(format, [piece.content for piece in pieces], "c", is_error=False, tool="t")
    body = body["content"][0] if format == "anthropic" else body
    read = taken[format].validate_python(body)
    if format in STRICT:  # nothing was dropped that the type does not have
        assert listed(read) == body
    if format == "mcp":
        assert read.model_dump(mode="json", by_alias=True, exclude_none=True)["content"] == body["content"]


def test_a_provider_s_own_blocks_keep_what_it_takes() -> None:
    cached = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}, "id": "lc_1"}
    assert sent(cached, "anthropic") == [{key: cached[key] for key in ("type", "text", "cache_control")}]
    assert sent(cached, "openai") == sent(cached, "mcp") == [{"type": "text", "text": "a"}]
    for name in ("search result", "document of text", "document of blocks"):
        assert sent(TEXT[name], "anthropic") == [TEXT[name]]
    for name in ("anthropic", "anthropic pdf"):
        assert sent(MEDIA[name][0], "anthropic") == [MEDIA[name][0]]
    assert sent(MEDIA["responses image"][0], "openai-responses") == [MEDIA["responses image"][0]]
    for name in ("mcp", "mcp audio", "mcp blob", "mcp svg"):
        assert sent(MEDIA[name][0], "mcp") == [MEDIA[name][0]]
    assert sent(TEXT["resource"], "mcp") == [TEXT["resource"]]
    for name in ("anthropic url", "anthropic file", "anthropic image's file", "document with an image"):
        assert sent(ELSEWHERE[name], "anthropic") == [ELSEWHERE[name]]
    assert sent(ELSEWHERE["responses url"], "openai-responses") == [ELSEWHERE["responses url"]]
    assert sent(ELSEWHERE["link"], "mcp") == [ELSEWHERE["link"]]


@pytest.mark.parametrize("format", FORMATS)
def test_ids_and_names_have_no_lone_surrogates_either(format: Any) -> None:
    written = json.dumps(message(format, "said", "call_\ud800", is_error=False, tool="t\udfff"), ensure_ascii=False)
    assert written.encode() and ("call_\ufffd" in written or format == "mcp")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ({"content": "boom", "name": "t", "call_id": "c"}, "boom"),
        ({"content": "boom", "tool_name": "t", "raw_output": {"a": 1}}, "boom"),
        ({"type": "ToolResult", "name": "t", "result": [SimpleNamespace(content="a"), SimpleNamespace(content="b")]}, "a\nb"),
        ({"type": "ToolResult", "name": "t", "result": []}, ""),
    ],
    ids=["AutoGen's message", "LlamaIndex", "AutoGen", "AutoGen, empty"],
)  # fmt: skip
def test_a_framework_s_failed_result_is_an_error(made: dict[str, Any], text: str) -> None:
    [piece], is_error = to_pieces(SimpleNamespace(**made, is_error=True))
    assert isinstance(piece.block, Block) and (piece.block.text, is_error) == (text, True)
    assert not to_pieces(SimpleNamespace(**made, is_error=False))[1]


def test_a_search_result_keeps_its_title_and_source() -> None:
    result, bare = TEXT["search result"], TEXT["search result of Bedrock"]
    text = {"type": "text", "text": "title: A\nsource: https://example.com\n\nwords"}
    assert sent(result, "openai") == sent(result, "mcp") == [text]
    assert sent(bare, "openai") == [{"type": "text", "text": "title: t\nsource: s\n\nwords"}]
    long = sent({**result, "title": "a\nsource: b" + "x" * 9_000}, "openai")[0]["text"]
    assert long.startswith("title: a source: bx") and len(long) < 2_100


def test_what_a_provider_does_not_take_is_text() -> None:
    for name in ("document of text", "document of blocks"):
        assert sent(TEXT[name], "openai") == [{"type": "text", "text": "words"}]
    for format, kind in (("anthropic", "text"), ("openai-responses", "input_text")):
        assert sent(MEDIA["mcp bmp"][0], format) == [{"type": kind, "text": f"[image: bmp, {len(PNG) + 2} bytes]"}]
        assert sent(MEDIA["mcp svg"][0], format) == [{"type": kind, "text": SVG.decode()}]
        assert sent(MEDIA["mcp audio"][0], format) == [{"type": kind, "text": "[audio: wav, 16 bytes]"}]
    assert sent(MEDIA["langchain text file"][0], "anthropic") == [{"type": "text", "text": "# Title"}]
    assert sent(ELSEWHERE["no base64"], "anthropic")[0]["type"] == "text"
    image = MEDIA["anthropic"][0]
    for parts in (
        5,
        [image, 5],
        [image, {"type": "text", "text": " "}],
        [image, image | {"source": {"type": "base64"}}],
        [image] * 1_001,
    ):
        within = {"type": "document", "source": {"type": "content", "content": parts}}
        assert sent(within, "anthropic")[0]["type"] == "text"
    assert sent(MEDIA["broken lines"][0], "anthropic")[0]["source"]["data"] == b64(PNG)


def test_blocks_of_sdks_are_read_as_the_dicts_that_they_are() -> None:
    from mcp.types import (
        AudioContent,
        BlobResourceContents,
        EmbeddedResource,
        ImageContent,
        ResourceLink,
        TextContent,
    )

    blob = BlobResourceContents(uri="file:///a.pdf", mime_type="application/pdf", blob=b64(PDF))
    blocks = [
        TextContent(type="text", text="a"),
        ImageContent(type="image", data=b64(PNG), mime_type="image/png"),
        AudioContent(type="audio", data=b64(WAV), mime_type="audio/wav"),
        EmbeddedResource(type="resource", resource=blob),
        ResourceLink(type="resource_link", uri="file:///b", name="b"),
    ]
    kinds = [type(piece.block) for piece in to_pieces(blocks)[0]]
    assert kinds == [Block, Media, Media, Media, type(None)]
    assert [type(piece.block) for piece in to_pieces(ToolOutput(blocks))[0]] == kinds


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "F", "YCbCr", "LAB"])
def test_an_image_of_pillow_is_an_image(mode: str) -> None:
    from PIL import Image

    image = Image.new(mode, (5, 4))
    for given in (image, ToolOutput([image, "said"])):
        found = to_pieces(given)[0][0].block
        assert isinstance(found, Media) and found.content_type == "image/png" and found.data.startswith(PNG[:8])
    assert isinstance(to_pieces(Image.new("1", (5_000, 5_000)))[0][0].block, Block)


def test_gemini_s_parts_are_read() -> None:
    from google.genai import types

    part = types.Part.from_bytes(data=PNG, mime_type="image/png")
    for given in (part, [part], [types.Part.from_text(text="said"), part]):
        pieces, _ = to_pieces(given)
        assert isinstance(found := pieces[-1].block, Media) and (found.content_type, found.data) == ("image/png", PNG)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}),
        ({"type": "input_image", "file_id": "a"}, {"type": "input_text", "text": "b"}),
        ({"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}),
        ({"type": "image", "url": "a"}, {"type": "text", "text": "b"}),
        ({"text": "a"}, {"text": "b"}),
        (None, {"type": "text", "text": "b"}),
    ],
)
def test_what_stands_for_a_block_has_its_form(form: Any, expected: Any) -> None:
    assert formats.write_text("b", like=Piece(None, form)) == expected
