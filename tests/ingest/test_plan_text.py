"""Text that is too big never floods the context, is always stored, and the model reads where."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from material import Opener, prose, records

from byref import Engine, Policy, Session
from byref.policy import TOOL_NAMES
from byref.stores import FileStore

LINES = "".join(f"{i} is the number of name {i}, of Bremen\n" for i in range(4_000))
BROKEN = json.dumps(records(3_000))[:-1] + ",\n]"


def all_of(session: Session, name: str, length: int) -> None:
    """Code, line reads and grep reach all of a text by its variable's name."""
    assert session.call("code_interpreter", {"code": f"type({name}).__name__, len({name})"}).content.startswith(
        f'["str",{length}]'
    )
    assert session.call("artifact_grep", {"artifact": name, "pattern": "."}).content
    last = session.variable(name).artifact.line_count
    assert not session.call("artifact_read", {"artifact": name, "start_line": last}).is_error


@pytest.mark.parametrize("output", [LINES, LINES.encode(), BROKEN, io.BytesIO], ids=["str", "bytes", "broken", "file"])
def test_big_text_is_truncated_and_kept_whatever_the_room(session: Session, output: Any) -> None:
    text = LINES if output is not BROKEN else BROKEN
    result = session.process(io.BytesIO(LINES.encode()) if output is io.BytesIO else output, tool="airports")
    assert (result.route, result.reason) == ("truncate", "max_result_tokens")
    assert result.tokens <= Policy().truncate_tokens and result.original_tokens > 20_000
    [whole] = result.variables
    assert (whole.name, whole.value(), whole.artifact) == ("airports", text, result.artifacts[0])
    notice = str(result.content).rpartition("\n")[2]
    assert f"variable airports (artifact {result.artifacts[0].id})" in notice
    named = [name for name in TOOL_NAMES if name in notice]
    assert named == ["code_interpreter", "artifact_grep", "artifact_read"]
    assert notice.index("code_interpreter") < notice.index("artifact_read")
    all_of(session, "airports", len(text))
    assert session.resolve({"x": "$airports"}) == {"x": text}


def test_text_within_the_bound_passes_whole_and_is_kept(session: Session) -> None:
    text = prose(60_000)
    result = session.process(text, tool="log")
    assert (result.route, result.content) == ("wholesale", text)
    [whole], [artifact] = result.variables, result.artifacts
    assert whole.name == "log" and whole.artifact == artifact and whole.value() == text
    all_of(session, "log", 60_000)
    assert session.history()[-1].original == text


def test_the_bound_is_a_number_of_tokens(counted: Opener) -> None:
    for characters, route in ((80_000, "wholesale"), (80_004, "truncate")):
        assert counted().process(prose(characters), tool="t").route == route
        assert counted(wholesale_tokens=None).process(prose(characters), tool="t").route == "wholesale"
        blocks = [{"type": "text", "text": prose(characters // 2 - i)} for i in (0, 1)]
        several = counted().process(blocks, tool="t")
        assert several.route == route and [one.value() for one in several.variables] == [one["text"] for one in blocks]
    for preset in (Policy.variables(), Policy.variables(max_result_tokens=10)):
        assert preset.wholesale_tokens is None


RULES: list[tuple[dict[str, Any], str, int]] = [
    ({"max_result_tokens": 1_000}, "max_result_tokens", 40_000),
    ({"max_output_bytes": 10_000, "max_result_tokens": None}, "max_output_bytes", 20_000),
    ({"max_threshold_bytes": 10_000, "max_result_tokens": None}, "above_ceiling", 20_000),
    ({"context_percentage": 0.01, "max_result_tokens": None}, "context_percentage", 20_000),
    ({"headroom_percentage": 0.01, "max_result_tokens": None}, "headroom", 20_000),
]


@pytest.mark.parametrize("plaintext", ["auto", "wholesale", "truncate", "artifact"])
@pytest.mark.parametrize(("knobs", "reason", "size"), RULES, ids=[rule[1] for rule in RULES])
def test_whichever_rule_finds_it_too_big_it_is_kept(
    counted: Opener, knobs: dict[str, Any], reason: str, size: int, plaintext: str
) -> None:
    for output in (prose(size), json.dumps(records(800)), prose(size).encode("utf-16")):
        session = counted(plaintext=plaintext, **knobs)
        result = session.process(output, tool="t")
        assert result.reason == reason
        assert len(result.artifacts) == 1 and result.variables[0].name == "t"
        assert session.variable("t").value() == (
            output.decode("utf-16") if isinstance(output, bytes) else session.variable("t").artifact.value
        )


def test_what_nothing_smaller_stands_for_is_kept_too(counted: Opener) -> None:
    session = counted(max_result_tokens=1, min_threshold_bytes=0)
    result = session.process("two words and more", tool="t")
    assert (result.route, result.content) == ("wholesale", "two words and more")
    assert session.variable("t").value() == "two words and more"
    short = counted(max_result_tokens=1, min_threshold_bytes=0, mode="variables").process('{"a": [1]}', tool="t")
    assert (short.route, short.reason, short.content) == ("inline", "not_smaller", '{"a": [1]}')
    assert short.variables[0].value() == {"a": [1]}


def test_blocks_that_pass_beside_others_are_kept(counted: Opener) -> None:
    session = counted()
    caption, text, rows = "3,000 rows found:", prose(20_000), json.dumps(records(3_000))
    result = session.process([{"type": "text", "text": part} for part in (caption, text, rows)], tool="search")
    assert result.route == "variables" and isinstance(result.content, list)
    assert [block["text"] for block in result.content[:2]] == [caption, text]
    assert {variable.name: variable.value() for variable in result.variables} == {
        "search": records(3_000),
        "search_2": text,
    }
    assert session.variable("var_step_1").value() == records(3_000)
    [entry] = session.history()
    assert isinstance(entry.original, list) and entry.original[:2] == result.content[:2]


# The same again


def test_repeated_text_costs_a_notice_while_the_first_is_in_the_context(session: Session) -> None:
    for text, route in ((prose(60_000), "wholesale"), (prose(200_000), "truncate")):
        first = session.process(text, tool="log")
        again = session.process(text, tool="other")
        assert first.route == route and again.route == "truncate" and again.tokens < 100
        assert str(again.content).startswith(
            f"[Re-executed at step {again.step}: identical to the output of step {first.step}. That is above, unless it was compacted away."
        )
        assert again.variables[0].name in str(again.content) and again.variables[0].value() == text
        assert f"still holds the same text from step {first.step}" in str(session.explain(again.step))
        session.on_compaction(5_000)
        shown = session.process(text, tool="log")
        assert (shown.route, shown.tokens > 2_000) == (route, True)
        after = session.process(text, tool="log")
        assert f"identical to the output of step {shown.step}. That is above, unless it was compacted away." in str(
            after.content
        )


def test_a_call_that_is_repeated_by_its_id_is_answered_as_it_was(session: Session) -> None:
    first = session.process(prose(60_000), tool="log", call_id="a")
    session.process(prose(60_000), tool="log", call_id="b")
    assert session.process(prose(60_000), tool="log", call_id="a").content == first.content


def test_errors_are_shown_each_time(session: Session) -> None:
    for _ in range(2):
        assert "... [truncated " in str(session.process(prose(60_000), tool="t", is_error=True).content)


def test_text_of_a_compaction_in_the_middle_is_shown(
    exact: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = exact.session("s", tenant=tenant, context_window=200_000)
    session.process(prose(60_000), tool="log")
    from byref.ingest.stage import Stage

    compacted: list[int] = []
    real: Callable[..., Any] = Stage.write

    def meanwhile(*arguments: Any) -> Any:
        if not compacted:
            compacted.append(1)
            session.on_compaction(1_000)
        return real(*arguments)

    monkeypatch.setattr(Stage, "write", meanwhile)
    assert session.process(prose(60_000), tool="log").content == prose(60_000)


# What is in the way


def test_without_room_for_it_text_passes_whole_and_says_so(counted: Opener) -> None:
    session = counted(max_session_bytes=10_000)
    result = session.process(prose(60_000), tool="t")
    assert (result.route, result.content, result.artifacts) == ("wholesale", prose(60_000), [])
    assert "not stored: max_session_bytes" in str(session.explain(1))
    assert counted(max_artifact_bytes=10_000).process(prose(60_000), tool="t").content == prose(60_000)


def test_text_that_has_expired_is_stored_again(exact: Engine, tenant: str) -> None:
    session = exact.session("s", tenant=tenant, context_window=200_000, policy=Policy(ttl=0.05))
    first = session.process(prose(60_000), tool="t", call_id="a")
    time.sleep(0.1)
    again = session.process(prose(60_000), tool="t", call_id="a")
    assert again.step != first.step and again.artifacts[0].value == prose(60_000)


@pytest.mark.slow
def test_a_store_of_objects_keeps_it(tmp_path: Any, sandbox: Any) -> None:
    with Engine(f"sqlite:///{tmp_path}/byref.db", blobs=FileStore(tmp_path / "blobs"), interpreter=sandbox) as engine:
        session = engine.session("s", context_window=200_000)
        for text in (prose(60_000), prose(2_000_000)):
            assert session.process(text, tool="t").variables[0].value() == text
        large = session.process((line + "\n" for line in prose(12_000_000).split("\n")), tool="t")
        assert large.route == "truncate" and large.variables[0].artifact.size_bytes > 11_000_000


@pytest.mark.parametrize("budget", [150, 250, 1_000])
def test_a_notice_is_within_the_budget(counted: Opener, budget: int) -> None:
    for text in (prose(400_000), json.dumps(records(5_000))):
        session = counted(truncate_tokens=budget, mode="truncate", plaintext="truncate")
        result = session.process(text, tool="a_tool_with_quite_a_long_name")
        assert result.tokens <= budget, result.content


def test_json_that_is_cut_short_says_where_it_is_kept_and_parses(chat: Session) -> None:
    for value in ({"total": 7, "rows": records(3_000)}, records(3_000)):
        result = chat.process(json.dumps(value), tool="rows", is_error=True)
        shown = json.loads(str(result.content))
        told = shown["[INCOMPLETE]"] if isinstance(value, dict) else shown[-1]
        assert "kept as variable rows" in told and "compute with code_interpreter" in told
        assert isinstance(shown, dict) is isinstance(value, dict)


# JSON that nests deeper than it is described


def nested(levels: int, leaf: Any, kind: str) -> str:
    """JSON text with so many containers around a value."""
    opening, closing = {"objects": ('{"k":', "}"), "arrays": ("[", "]")}[kind]
    return opening * levels + json.dumps(leaf) + closing * levels


@pytest.mark.parametrize("kind", ["objects", "arrays"])
@pytest.mark.parametrize(
    "levels", [pytest.param(248, marks=pytest.mark.slow), 250, pytest.param(900, marks=pytest.mark.slow)]
)
def test_deep_json_is_structured_and_says_where_it_was_cut(chat: Session, levels: int, kind: str) -> None:
    text = nested(levels, records(600), kind)
    for output in (text, text.encode(), io.BytesIO(text.encode()), [{"type": "text", "text": text}], json.loads(text)):
        result = chat.process(output, tool="deep")
        assert result.route == "variables" and result.tokens <= Policy().envelope_budget
        content = result.content if isinstance(result.content, str) else result.content[0]["text"]
        envelope = json.loads(content)
        assert ("deeper" in envelope["omitted"]) is (levels > 248)
        assert "INCOMPLETE" in envelope["instruction"]
        whole = result.variables[0]
        assert whole.value() == json.loads(text)
        assert chat.resolve({"x": f"${whole.name}"}) == {"x": json.loads(text)}
    code = (
        "n, x = 0, deep\nwhile len(x) == 1:\n    x = x['k'] if isinstance(x, dict) else x[0]\n    n += 1\n[n, len(x)]"
    )
    assert chat.run(code).value == [levels, 600]
    assert chat.call("artifact_jq", {"artifact": "deep", "expression": "[.. | numbers] | length"}).content == "600"


def test_deep_json_beside_much_else_is_described_around_it(chat: Session) -> None:
    text = f'{{"rows": {json.dumps(records(3_000))}, "tree": {nested(400, [1], "objects")}, "total": 3000}}'
    envelope = chat.process(text, tool="t").envelope
    assert envelope is not None
    assert envelope["omitted"]["deeper"].startswith("tree.k.k.k") and envelope["preview"]["total"] == 3_000
    assert envelope["schema"].startswith("{rows:[3,000 of {") and "tree:" in envelope["schema"]


@pytest.mark.slow
def test_a_large_stream_that_nests_deeply_is_structured(chat: Session) -> None:
    text = nested(400, records(200_000), "objects").encode()
    assert len(text) > 8 << 20
    result = chat.process(io.BytesIO(text), tool="deep")
    assert result.route == "variables" and result.envelope is not None and "deeper" in result.envelope["omitted"]


def test_a_caller_deep_in_calls_has_fewer_levels_described(chat: Session) -> None:
    def call(levels: int) -> Any:
        return chat.process(nested(240, records(2_000), "objects"), tool="t") if not levels else call(levels - 1)

    result = call(550)
    assert result.route == "variables" and "deeper" in result.envelope["omitted"]
