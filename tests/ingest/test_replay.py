"""The same output under the same call id is one output, and any other output is a new step. The texts agree with the stored
data."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from material import page, prose, records

from byref import ConfigurationError, Engine, Result, Session, SessionGone, Usage
from byref.describe.jsontext import without_surrogates
from byref_sandbox import Sandbox

OUTPUTS: dict[str, Any] = {
    "small": {"status": "success"},
    "empty": "",
    "inline": prose(6_000),
    "wholesale": prose(60_000),
    "structured": page(),
    "truncated": prose(1_200_000),
}


def same(first: Result, second: Result) -> None:
    assert second.content == first.content
    assert second.envelope == first.envelope
    assert (second.step, second.route, second.reason) == (first.step, first.route, first.reason)
    assert (second.tokens, second.original_tokens, second.is_error) == (
        first.tokens,
        first.original_tokens,
        first.is_error,
    )
    assert [a.id for a in second.artifacts] == [a.id for a in first.artifacts]
    assert [(v.name, v.path, v.step) for v in second.variables] == [(v.name, v.path, v.step) for v in first.variables]
    assert second.message("anthropic", "c") == first.message("anthropic", "c")


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
@pytest.mark.parametrize("name", OUTPUTS)
def test_the_same_again_replays_byte_for_byte(engine: Engine, session: Session, tenant: str, name: str) -> None:
    first = session.process(OUTPUTS[name], tool="t", call_id="call_0")
    after = session.context_tokens()
    same(first, session.process(OUTPUTS[name], tool="t", call_id="call_0"))
    session.process(page(), tool="t", call_id="other")
    session.record_usage(Usage(input_tokens=190_000))
    again = engine.session("chat", tenant=tenant, context_window=1_000)
    same(first, again.process(OUTPUTS[name], tool="t", call_id="call_0"))
    assert after == first.tokens
    assert [entry.kind for entry in session.ledger()] == ["output", "output", "usage"]


@pytest.mark.parametrize("name", OUTPUTS)
def test_another_process_replays_it_too(shared_url: str, sandbox: Sandbox, name: str) -> None:
    with Engine(shared_url, interpreter=sandbox) as one, Engine(shared_url, interpreter=sandbox) as other:
        first = one.session("s").process(OUTPUTS[name], tool="t", call_id="c")
        same(first, other.session("s").process(OUTPUTS[name], tool="t", call_id="c"))


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_other_content_under_the_same_call_id_is_a_new_step(session: Session) -> None:
    results = [session.process(content, tool="t", call_id="call_0") for content in ("a", "b", page(), page(1_201), "a")]
    assert [result.step for result in results] == [1, 2, 3, 4, 1]
    assert results[4].content == "a"


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
@pytest.mark.parametrize("name", OUTPUTS)
def test_another_tools_output_or_an_error_under_the_same_call_id_is_a_new_step(session: Session, name: str) -> None:
    def given(tool: str, is_error: bool) -> Result:
        return session.process(OUTPUTS[name], tool=tool, call_id="call_0", is_error=is_error)

    for step, (tool, is_error) in enumerate([("search", False), ("pay", False), ("pay", True), ("search", False)], 1):
        first = given(tool, is_error)
        assert (first.step, first.tool, first.is_error) == (step, tool, is_error)
        same(first, given(tool, is_error))
        assert session.explain("call_0").step == step
    assert [(entry.tool, entry.is_error) for entry in session.ledger()] == [
        *(("search", False), ("pay", False)),
        *(("pay", True), ("search", False)),
    ]


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_an_empty_call_id_is_none(session: Session) -> None:
    steps = [session.process("same", tool="t", call_id=call_id).step for call_id in ("", None, "", None)]
    assert steps == [1, 2, 3, 4]
    assert {entry.call_id for entry in session.ledger()} == {None}


@pytest.mark.postgresql("text as identifiers: NUL, lone surrogates, case, length")
@pytest.mark.parametrize(
    "call_id", ["x" * 1_500, "\0", "\ud800", "ü" * 700, " ", "0", "'; DROP TABLE byref_ledger; --"]
)
def test_call_ids_are_whatever_a_provider_made_up(session: Session, call_id: str) -> None:
    first = session.process(page(), tool="t", call_id=call_id)
    same(first, session.process(page(), tool="t", call_id=call_id))
    assert session.process(page(), tool="t", call_id=call_id + "!").step == 2
    assert session.explain(call_id).step == 1
    assert session.ledger()[0].call_id == call_id[:512]
    assert first.message("openai", call_id)["tool_call_id"] == without_surrogates(call_id)


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
@pytest.mark.parametrize("name", OUTPUTS)
def test_eight_threads_with_one_call_id_make_one_step(session: Session, name: str) -> None:
    start = threading.Barrier(8)

    def work(_: int) -> Result:
        start.wait()
        return session.process(OUTPUTS[name], tool="t", call_id="c")

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(work, range(8)))
    for result in results[1:]:
        same(results[0], result)
    assert len(session.ledger()) == 1
    assert len(session.artifacts()) == len(results[0].artifacts)
    assert session.context_tokens() == results[0].tokens


ONE_CALL = """
from byref import Engine
with Engine(sys.argv[1]) as engine:
    session = engine.session("s")
    output = [{"id": i, "name": f"name {i}"} for i in range(8_000)]
    go()
    result = session.process(output, tool="t", call_id="c")
    print(result.step, result.artifacts[0].id, hash(tuple(result.content.encode())))
"""


@pytest.mark.quick_cases(1)
def test_processes_with_one_call_id_make_one_step(shared_url: str, race: Callable[..., list[str]]) -> None:
    assert len(set(race(3, ONE_CALL, shared_url))) == 1


@pytest.mark.postgresql("equal bytes are found by a unique index")
def test_the_same_bytes_are_stored_once(engine: Engine, session: Session, tenant: str) -> None:
    ids = set()
    for name in ("chat", "other", "third"):
        result = engine.session(name, tenant=tenant).process(page(), tool="t")
        ids.add(result.artifacts[0].payload.blob_id)
    assert len(ids) == 1
    elsewhere = engine.session("chat", tenant=tenant + "2").process(page(), tool="t")
    assert elsewhere.artifacts[0].payload.blob_id not in ids


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_arguments_are_kept_as_they_were_written_and_capped(session: Session) -> None:
    for written, kept in [
        ('{ "a" : 1 }', '{ "a" : 1 }'),
        ({"a": "é\0"}, '{"a":"é\\u0000"}'),
        (None, None),
        ("x" * 16_384, "x" * 16_384),
        ("x" * 16_385, "x" * 16_384 + "… (16,385 characters)"),
    ]:
        result = session.process("ok", tool="t", arguments=written)
        assert session.ledger()[-1].arguments == kept
        assert session.history()[-1].arguments == kept
        assert result.content == "ok"


@pytest.mark.postgresql("order and prefixes are those of the database's collation")
def test_history_has_both_forms(session: Session) -> None:
    session.process("short", tool="a", call_id="1")
    session.process(prose(60_000), tool="b")
    big = session.process(page(), tool="c")
    session.record_usage(Usage(input_tokens=1))
    session.call("artifact_read", {"artifact_id": "users", "end_line": 2})
    first, whole, structured = session.history()
    assert (first.original, first.processed, first.call_id, first.tool) == ("short", "short", "1", "a")
    assert whole.original == whole.processed == prose(60_000)
    assert structured.processed == big.content
    assert structured.original == big.artifacts[0]
    assert big.artifacts[0].value == page()


def test_tool_and_call_id_must_be_text(session: Session) -> None:
    with pytest.raises(ConfigurationError, match="tool=5"):
        session.process("x", tool=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="call_id=5"):
        session.process("x", tool="t", call_id=5)  # type: ignore[arg-type]
    assert session.ledger() == []


@pytest.mark.postgresql("foreign keys and what is deleted with what")
@pytest.mark.parametrize("output", ["x", page()])
def test_nothing_is_taken_in_after_the_end(session: Session, output: object) -> None:
    session.end()
    with pytest.raises(SessionGone):
        session.process(output, tool="t")


def test_messages_of_every_provider(chat: Session) -> None:
    result = chat.process("héllo \ud800", tool="my_tool")
    shown = "héllo \ufffd"
    assert result.message("openai", "c") == {"role": "tool", "tool_call_id": "c", "content": shown}
    assert result.message("openai-responses", "c") == {"type": "function_call_output", "call_id": "c", "output": shown}
    block = {"type": "tool_result", "tool_use_id": "c", "content": shown}
    assert result.message("anthropic", "c") == {"role": "user", "content": [block]}
    part = {"function_response": {"id": "c", "name": "my_tool", "response": {"output": shown}}}
    assert result.message("gemini", "c") == {"role": "user", "parts": [part]}
    assert result.message("mcp", "c") == {"content": [{"type": "text", "text": shown}], "isError": False}
    failed = chat.process("boo", tool="my_tool", is_error=True)
    assert failed.message("anthropic", "c")["content"][0]["is_error"] is True
    assert failed.message("gemini", "c")["parts"][0]["function_response"]["response"] == {"error": "boo"}
    assert failed.message("mcp", "c")["isError"] is True
    for silent in ("", " \n", b"", {"content": [{"type": "text", "text": ""}], "isError": True}):
        told = chat.process(silent, tool="my_tool", is_error=True).message("anthropic", "c")["content"][0]["content"]
        assert told in ((text := "[the tool failed without a message]"), [{"type": "text", "text": text}])
    part["function_response"].pop("id")
    assert result.message("gemini", None) == {"role": "user", "parts": [part]}
    with pytest.raises(ConfigurationError, match="call_id=None: expected the id"):
        result.message("openai", None)
    with pytest.raises(ConfigurationError, match="format='x'"):
        result.message("x", "c")  # type: ignore[arg-type]


def test_the_tokens_saved_are_those_of_the_result(session: Session) -> None:
    big = session.process(records(2_000), tool="t")
    assert big.tokens_saved == big.original_tokens - big.tokens > 0
    assert session.process("x", tool="t").tokens_saved == 0
