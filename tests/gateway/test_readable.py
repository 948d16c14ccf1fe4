"""Results that no server should send: every client can still read them, and models read everything useful in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from gateway_kit import Held, Place
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.client import Client
from mcp.types import methods

from byref.gateway.readable import readable

RAW = str(Path(__file__).parent / "raw_server.py")
OK = {"type": "text", "text": "ok"}
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
BYTES = "AAAA" * 100
LEGACY, MODERN = "2025-11-25", "2026-07-28"


def embedded(**resource: Any) -> dict[str, Any]:
    return {"content": [{"type": "resource", "resource": resource}]}


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no content": ({}, []),
    "null": ({"content": None}, []),
    "a string": ({"content": "words"}, ["words"]),
    "a number": ({"content": 7}, ["7"]),
    "one block": ({"content": OK}, ["ok"]),
    "a list of strings": ({"content": ["a", OK, 3, None, ["b"]]}, ["a", "ok", "3", "null", '["b"]']),
    "structure alone": ({"structuredContent": {"a": [1]}}, ['{"a": [1]}']),
    "structure and a member": ({"structuredContent": {"a": [1]}, "extra": 1}, ['{"a": [1]}']),
    "2024": ({"toolResult": {"a": 1}}, ['{"a": 1}']),
    "other members": ({"words": "w", "isError": False}, ['{"words": "w"}']),
    "unknown type": ({"content": [{"type": "hologram", "depth": 3}, OK]}, ['{"type": "hologram", "depth": 3}', "ok"]),
    "unknown type with text": ({"content": [{"type": "poem", "text": "roses"}]}, ["roses"]),
    "unknown type with bytes": ({"content": [{"type": "odour", "data": BYTES}]}, ['{"type": "odour"}']),
    "no type": ({"content": [{"text": "a"}]}, ["a"]),
    "a type that is none": ({"content": [{"type": ["text"], "text": "a"}]}, ["a"]),
    "text that is a number": ({"content": [{"type": "text", "text": 5}]}, ["5"]),
    "text that is an object": ({"content": [{"type": "text", "text": {"a": 1}}]}, ['{"a": 1}']),
    "annotations that are none": ({"content": [{**OK, "annotations": {"priority": "high"}}]}, ["ok"]),
    "_meta of a block": ({"content": [{**OK, "_meta": 3}]}, ["ok"]),
    "null annotations": ({"content": [{**OK, "annotations": None}]}, ["ok"]),
    "an image without bytes": (
        {"content": [{"type": "image", "mimeType": "image/png"}]},
        ['{"type": "image", "mimeType": "image/png"}'],
    ),
    "an image that is no base64": (
        {"content": [{**IMAGE, "data": "<svg/>"}]},
        ['{"type": "image", "data": "<svg/>", "mimeType": "image/png"}'],
    ),
    "an image without a type": ({"content": [{"type": "image", "data": BYTES}]}, ['{"type": "image"}']),
    "a link without a name": (
        {"content": [{"type": "resource_link", "uri": "a://b"}]},
        ['{"type": "resource_link", "uri": "a://b"}'],
    ),
    "no resource": ({"content": [{"type": "resource"}]}, ['{"type": "resource"}']),
    "a resource that is text": ({"content": [{"type": "resource", "resource": "words"}]}, ['{"type": "resource", "resource": "words"}']),
    "a resource without uri": (embedded(text="words"), ["words"]),
    "a resource with nothing": (embedded(uri="a://b"), ['{"uri": "a://b"}']),
    "a resource with no base64": (embedded(uri="a://b", blob="<svg/>"), ['{"uri": "a://b", "blob": "<svg/>"}']),
    "text of a resource that is a list": (embedded(uri="a://b", text=["a"]), ['["a"]']),
    "an error that is a word": ({"content": [OK], "isError": "true"}, ["ok"]),
    "an error that is null": ({"content": [OK], "isError": None}, ["ok"]),
    "_meta that is none": ({"content": [OK], "_meta": [1]}, ["ok"]),
    "a type of result that is none": ({"content": [OK], "resultType": 3}, ["ok"]),
    "a lone surrogate": ({"content": [{"type": "hologram", "depth": "\ud800"}]}, ['{"type": "hologram", "depth": "\ufffd"}']),
}  # fmt: skip


@pytest.fixture(scope="module", params=["legacy", "auto"])
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    place = Place(tmp_path_factory.mktemp("echo"))
    config = place.write({"echo": {"command": sys.executable, "args": [RAW, "echo"]}})
    with Held(lambda: place.client("--config", config, mode=request.param)) as held:
        yield held


def called(held: Held, raw: Any) -> types.CallToolResult:
    return held.call("raw", {"result": json.dumps(raw)})


@pytest.mark.quick_cases(20)
@pytest.mark.parametrize("name", CASES)
def test_a_client_reads_it_all_the_same(held: Held, name: str) -> None:
    raw, expected = CASES[name]
    result = called(held, raw)
    assert all(isinstance(block, types.TextContent) for block in result.content)
    assert [block.text for block in result.content] == expected
    assert result.is_error is (name == "an error that is a word")


def test_a_resource_with_both_forms_and_null_members_stays_one(held: Held) -> None:
    for resource in (
        {"uri": "a://b", "text": "words", "blob": "AAAA"},
        {"uri": "a://b", "text": "w", "mimeType": None},
    ):
        [block] = called(held, embedded(**resource)).content
        assert isinstance(block, types.EmbeddedResource)


def test_a_structure_that_the_version_does_not_have_becomes_content(held: Held) -> None:
    is_modern = held.client is not None and held.client.protocol_version == MODERN
    for structured in ([1, 2], "words", 7):
        result = called(held, {"content": [], "structuredContent": structured})
        assert result.structured_content == (structured if is_modern else None)
        given = structured if isinstance(structured, str) else json.dumps(structured)
        assert [block.text for block in result.content] == ([] if is_modern else [given])
        beside = called(held, {"content": [OK], "structuredContent": structured})
        assert [block.text for block in beside.content] == ["ok"]


def test_prompts_and_resources_are_read_all_the_same(held: Held) -> None:
    async def work(client: Client) -> Any:
        messages = [
            {"role": "system", "content": "words"},
            {"role": "user", "content": [OK, {"type": "hologram"}]},
            "no object",
        ]
        raw = json.dumps({"messages": messages, "description": 3})
        prompt = await client.get_prompt("echo", {"result": raw})
        contents = [{"uri": "a://b", "text": "t"}, {"uri": "a://c", "text": 7}, {"blob": "AAAA"}, "words"]
        return prompt, await client.read_resource("echo:" + json.dumps({"contents": contents}))

    prompt, read = held.run(work)
    assert [message.content.text for message in prompt.messages] == ["words", "ok", '{"type": "hologram"}', "no object"]
    assert [(one.uri, one.text) for one in read.contents] == [
        ("a://b", "t"), ("a://c", "7"), ("", '{"blob": "AAAA"}'), ("", "words"),
    ]  # fmt: skip


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab=", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "hologram"]) | VALUES,
        **dict.fromkeys(("text", "data", "mimeType", "uri", "name", "annotations", "_meta"), VALUES),
        "resource": VALUES | st.fixed_dictionaries({}, optional=dict.fromkeys(("uri", "text", "blob", "_meta"), VALUES)),
    },
)  # fmt: skip
RESULTS = st.fixed_dictionaries(
    {},
    optional={
        "content": VALUES | st.lists(BLOCKS | VALUES, max_size=3),
        **dict.fromkeys(("structuredContent", "isError", "_meta", "toolResult", "extra"), VALUES),
    },
)


@settings(max_examples=settings.default.max_examples * 3 // 2)
@given(RESULTS, st.sampled_from([LEGACY, MODERN]))
def test_whatever_comes_what_goes_out_is_of_the_protocol(raw: dict[str, Any], version: str) -> None:
    found = {"resultType": "complete", **readable("tools/call", raw, version)}
    methods.validate_server_result("tools/call", version, found)
    types.CallToolResult.model_validate(found, by_name=False)
    assert readable("tools/call", found, version) == found


@pytest.mark.parametrize(
    "raw",
    [
        {"content": [OK, IMAGE], "isError": True, "_meta": {"k": None}, "extra": {"kept": None}},
        {"content": [{**OK, "_meta": {"k": None}, "annotations": {"priority": 1}, "more": 1}]},
        {"content": [], "structuredContent": {"list": [None, 1.0, 12345678901234567890]}},
        embedded(uri="a://b", blob="AAAA", mimeType="x/y"),
    ],
)
def test_what_is_of_the_protocol_is_as_it_came(raw: dict[str, Any]) -> None:
    assert readable("tools/call", json.loads(json.dumps(raw)), LEGACY) == raw
