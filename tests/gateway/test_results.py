"""Results, whatever servers put into them: exactly what was measured is sent to the client."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from gateway_kit import Place, text_of

from byref import Engine, Policy, ToolPolicy
from byref.gateway.config import MAX_RESULT_BYTES, default_policy
from byref.gateway.results import for_version, limit_of, limited, process, settle_error, structured

VERSION = "2025-11-25"
LONG = "All work and no play makes Jack a dull boy.\n" * 12_000
ROWS = [{"i": i, "v": "words"} for i in range(5_000)]
OK = {"type": "text", "text": "ok"}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("sqlite://", policy=default_policy({})) as engine:
        yield engine


def answer(engine: Engine, raw: dict[str, Any], limit: int | None = None) -> dict[str, Any]:
    found, _ = process(
        engine.session(secrets.token_hex(8)), raw, tool="rows", arguments={}, limit=limit, version=VERSION
    )
    return found


@pytest.mark.parametrize("has_links", [True, False])
def test_links_may_be_left_out_of_what_stands_for_a_result(engine: Engine, has_links: bool) -> None:
    raw = {"content": [{"type": "text", "text": json.dumps(ROWS)}], "structuredContent": {"rows": ROWS}}
    session = engine.session(secrets.token_hex(8))
    found, is_stored = process(
        session, raw, tool="rows", arguments={}, limit=None, version=VERSION, has_links=has_links
    )
    kinds = {block["type"] for block in found["content"]}
    assert is_stored and kinds == ({"text", "resource_link"} if has_links else {"text"})
    assert found["structuredContent"]["byref"]["artifacts"][0]["uri"].startswith("byref://artifact/")


@pytest.mark.parametrize(
    "raw",
    [
        {"content": [OK], "structuredContent": [1, 2]},
        {"content": [OK], "structuredContent": "words"},
        {
            "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}],
            "structuredContent": {"result": [1, 2]},
        },
        {"content": [{"type": "hologram"}], "extra": {"kept": None}, "_meta": {"k": None}},
        {"content": [{**OK, "_meta": {"k": 1}, "annotations": {"priority": 1}}], "isError": True},
        {"toolResult": {"a": 1}},
        {"content": []},
        {},
    ],
)
def test_what_is_small_is_as_it_came(engine: Engine, raw: dict[str, Any]) -> None:
    assert answer(engine, json.loads(json.dumps(raw))) == raw


@pytest.mark.parametrize(
    "raw",
    [
        {"content": [OK], "structuredContent": ROWS},
        {"content": [], "structuredContent": ROWS},
        {"content": [OK], "structuredContent": LONG},
        {"toolResult": {"rows": ROWS}},
        {"content": [OK], "_meta": {"x": LONG}},
        {"content": [OK], "extra": LONG},
        {"content": [OK], "toolResult": LONG},
        {"content": [{**OK, "_meta": {"x": LONG}}]},
        {"content": [{**OK, "extra": LONG}]},
        {"content": [{"type": "resource", "resource": {"uri": "a://b", "text": "x", "_meta": {"x": LONG}}}]},
        {"content": [{"type": "resource_link", "uri": "a://b", "name": "b", "description": LONG}]},
        {"content": [{"type": "hologram", "points": LONG}]},
        {"content": [{"type": "hologram"}] * 9 + [{"type": "text", "text": LONG}]},
        {"content": LONG},
        {"words": LONG},
    ],
)
def test_no_way_past_the_gate(engine: Engine, raw: dict[str, Any]) -> None:
    found = answer(engine, json.loads(json.dumps(raw)))
    assert len(json.dumps(found)) < 12_000


@pytest.mark.parametrize(
    "raw",
    [
        {"content": [{"type": "text", "text": json.dumps(row)} for row in ROWS], "structuredContent": {"result": ROWS}},
        {"content": [{"type": "text", "text": json.dumps(row)} for row in ROWS]},
        {"content": [OK], "structuredContent": ROWS},
        {"content": [{"type": "hologram"}] * 3 + [{"type": "text", "text": json.dumps(ROWS)}]},
        {"toolResult": ROWS},
    ],
    ids=["sdk", "texts", "array", "unknown", "old"],
)
def test_a_list_is_a_variable_under_the_tools_name(engine: Engine, raw: dict[str, Any]) -> None:
    session = engine.session(secrets.token_hex(8))
    process(session, raw, tool="rows", arguments={}, limit=None, version=VERSION)
    assert session.variable("rows").value() == ROWS


@pytest.mark.parametrize(
    "raw",
    [
        {"content": [{"type": "text", "text": json.dumps(ROWS[:90])}]},
        {
            "content": [{"type": "text", "text": json.dumps(ROWS[:90], indent=2)}],
            "structuredContent": {"result": ROWS[:90]},
        },
        {"content": [OK], "structuredContent": {"result": ROWS[:90]}, "_meta": {"k": 1}},
    ],
    ids=["text", "both", "structured"],
)
def test_what_passes_and_is_kept_is_as_it_came(engine: Engine, raw: dict[str, Any]) -> None:
    session = engine.session(secrets.token_hex(8))
    sent = json.dumps(raw)
    found, _ = process(session, raw, tool="rows", arguments={}, limit=None, version=VERSION)
    assert json.dumps(found) == sent
    kept = session.variable("rows").value()
    assert (kept["result"] if isinstance(kept, dict) else kept) == ROWS[:90]


def test_a_tools_own_limit_holds_below_the_floor(engine: Engine) -> None:
    raw = {"content": [{"type": "text", "text": "x" * 2_000}]}
    limit = limit_of({"_meta": {"anthropic/maxResultSizeChars": 500}})
    assert answer(engine, raw) == raw
    assert "art_" in answer(engine, raw, limit)["content"][0]["text"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), pytest.param(("--context-window", "1000000"), marks=pytest.mark.slow)])
def test_a_long_text_does_not_reach_the_client_whole(place: Place, words: tuple[str, ...]) -> None:
    config = place.write({"north": place.shop("north")})

    async def work() -> None:
        async with place.client("--config", config, *words) as client:
            whole = text_of(await client.call_tool("prose", {"characters": MAX_RESULT_BYTES}))
            assert len(whole) == MAX_RESULT_BYTES
            cut = text_of(await client.call_tool("prose", {"characters": 500_000}))
            assert len(cut) < 12_000 and "art_" in cut

    asyncio.run(work())


@pytest.mark.slow
def test_a_policy_may_let_long_texts_through(place: Place) -> None:
    config = place.write({"north": place.shop("north")}, policy={"max_threshold_bytes": 600_000})

    async def work() -> None:
        async with place.client("--config", config) as client:
            assert len(text_of(await client.call_tool("prose", {"characters": 500_000}))) == 500_000

    asyncio.run(work())
    assert default_policy({"min_threshold_bytes": 200_000}).max_threshold_bytes == 200_000
    assert default_policy({"max_threshold_bytes": None}).max_threshold_bytes is None


@pytest.mark.parametrize("limit", [None, 0, -1, True, "100", 1.5, 1 << 60])
def test_a_limit_that_is_none_is_none(limit: Any) -> None:
    assert limit_of({"_meta": {"anthropic/maxResultSizeChars": limit}}) is None
    assert limit_of({"_meta": limit}) is None


def test_the_hosts_own_word_on_a_tool_goes_before_its_authors() -> None:
    policy = Policy(per_tool={"t": ToolPolicy(max_output_bytes=10)})
    assert limited(policy, "t", 100_000, {"content": []}) is policy


def test_old_clients_get_text_for_what_they_do_not_know() -> None:
    link = {"type": "resource_link", "uri": "a://b", "name": "b"}
    audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    raw = {"content": [link, audio]}
    assert for_version(raw, "2025-11-25") is raw
    assert [block["type"] for block in for_version(raw, "2025-03-26")["content"]] == ["text", "audio"]
    old = for_version(raw, "2024-11-05")["content"]
    assert [block["type"] for block in old] == ["text", "text"] and "AAAA" not in json.dumps(old)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', {"a": 1}),
        ("[1,2]", {"result": [1, 2]}),
        ("no JSON", {"result": "no JSON"}),
        ('{"a":NaN}', {"result": '{"a":NaN}'}),
        ('{"a":1e999}', {"result": '{"a":1e999}'}),
        ('"\\ud800"', {"result": '"\\ud800"'}),
        ("[" * 100_000, {"result": "[" * 100_000}),
        ("[" * 300 + "]" * 300, {"result": "[" * 300 + "]" * 300}),
        *[(text, {"result": text}) for text in ("1,2", "],[", "]]]]]]]],[[[[[[[[", "1]]]]]]]]")],
        ("9" * 5_000, {"result": "9" * 5_000}),
        ("", {"result": ""}),
        ('{"constructor":{"name":"Ferrari"}}', {"result": {"constructor": {"name": "Ferrari"}}}),
    ],
)
def test_a_result_of_a_tool_that_shows_what_it_returns_has_structured_content(text: str, expected: Any) -> None:
    raw = {"content": [{"type": "text", "text": text}]}
    assert structured(raw, "2025-06-18") == {**raw, "structuredContent": expected}
    for other in ({**raw, "isError": True}, {**raw, "structuredContent": {"b": 1}}):
        assert structured(other, "2025-06-18") == other
    assert structured({**raw, "structuredContent": None}, "2025-06-18") == {**raw, "structuredContent": expected}
    for value in ([1], "words", 0, False):
        other = {**raw, "structuredContent": value}
        assert structured(other, "2025-06-18") == {**raw, "structuredContent": {"result": value}}
    assert structured(raw, "2025-03-26") == raw


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            [
                OK,
                {"type": "resource", "resource": {"uri": "repo://a.md", "mimeType": "text/plain", "text": "The file."}},
            ],
            "ok\nThe file.",
        ),
        ([{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}], "[image, image/png: see the content]"),
        ([{"type": "resource", "resource": {"uri": "a://b", "blob": "AA=="}}], "[resource, a://b: see the content]"),
        ([{"type": "resource_link", "uri": "a://b", "name": "b"}], "[resource_link, a://b: see the content]"),
        (
            [{"type": "hologram"}, 7, {"type": 5, "resource": []}],
            "[hologram: see the content]\n\n[something else: see the content]",
        ),
        ("words", "words"),
    ],
)
def test_structured_content_that_was_added_lacks_nothing_of_the_content(content: Any, expected: str) -> None:
    """Clients that read it in place of the content would lose a file or a picture without a word."""
    raw = {"content": content}
    assert structured(raw, "2025-06-18") == {**raw, "structuredContent": {"result": expected}}


@pytest.mark.parametrize("raw", [{"content": []}, {"content": [{"type": "text", "text": " "}]}])
def test_an_error_without_text_gets_one(engine: Engine, raw: dict[str, Any]) -> None:
    text = {"type": "text", "text": "[the tool failed without a message]"}
    assert answer(engine, {**raw, "isError": True}) == {"content": [text], "isError": True}


@pytest.mark.parametrize(
    ("given", "is_error"),
    [("yes", True), ("true", True), (1, True), (True, True), ("false", False), (0, False), (None, False)],
)
def test_an_error_in_another_form_is_one(given: object, is_error: bool) -> None:
    raw = {"content": [], "isError": given}
    settle_error(raw)
    assert raw["isError"] is is_error
