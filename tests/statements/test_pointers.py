"""Memory pointers: the statements MP-1 to MP-30."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from byref import CharCounter, ConfigurationError, Engine, Models, Policy, Session, approx_byte_size, is_pointer
from statements.material import Opener, answer, complaint, fill, json_of, lines, parameters, read_at_both_ends, records

FOUR = ["pointer", "preview", "sizeBytes", "note"]


def envelope_of(session: Session, output: object) -> dict[str, Any]:
    result = session.process(output, tool="t")
    assert (result.route, result.envelope) == ("artifact", json.loads(result.content))
    return dict(json.loads(result.content))


@pytest.mark.statement("MP-1")
def test_what_carrying_it_along_costs(ptrs: Opener) -> None:
    assert CharCounter().count(lines(200_000)) == 50_000
    assert Models().cost("gpt-4o", input_tokens=50_000) == Models().input_cost("gpt-4o", 50_000) == Decimal("0.125")
    session = ptrs(model="gpt-4o")
    result = session.process(lines(200_000), tool="t")
    assert result.original_tokens == 50_000
    usage = session.usage()
    assert usage.tokens_saved == result.tokens_saved == 50_000 - result.tokens > 49_000
    assert usage.cost_saved == usage.tokens_saved * Decimal("2.50") / 1_000_000
    assert sum(entry.tokens_saved for entry in session.ledger()) == usage.tokens_saved
    unpriced = ptrs()
    unpriced.process(lines(200_000), tool="t")
    assert (unpriced.usage().tokens_saved, unpriced.usage().cost_saved) == (usage.tokens_saved, None)


@pytest.mark.slow
@pytest.mark.statement("MP-2")
def test_twenty_million_tokens_in_at_most_1234(variables: Opener) -> None:
    row = '{"id":%06d,"value":%5d,"text":"' + "x" * 165 + '"}'
    size = len(row % (100_000, 1)) + 1
    count = 40_000_000 // size
    text = "[" + ",".join(row % (100_000 + i, i % 1_009) for i in range(count)) + "]"
    text += " " * (40_000_000 - len(text))
    session = variables()
    result = session.process(text, tool="readings")
    assert (result.original_tokens, result.route) == (20_000_000, "variables")
    exact = answer(session, "code_interpreter", code='sum(r["value"] for r in $readings if r["id"] % 7 == 0)')
    assert exact == str(sum(i % 1_009 for i in range(count) if (100_000 + i) % 7 == 0))
    handed = session.resolve({"rows": "$readings"}, tool="save")["rows"]
    assert len(handed) == count and handed[-1]["id"] == 100_000 + count - 1
    assert session.context_tokens() <= 1_234


@pytest.mark.statement("MP-3")
def test_choosing_the_preset_is_the_switch(ptrs: Opener) -> None:
    assert Policy.pointers().enabled
    session = ptrs(enabled=False)
    assert (session.process(lines(1_000_000), tool="t").route, session.artifacts()) == ("inline", [])


@pytest.mark.statement("MP-4")
def test_from_51200_bytes_on(ptrs: Opener) -> None:
    session = ptrs()
    for size in (300, 51_199):
        assert session.process(lines(size), tool="t").content == lines(size)
    assert session.artifacts() == []
    result = session.process(lines(51_200), tool="t")
    assert (result.route, result.reason, len(session.artifacts())) == ("artifact", "max_output_bytes", 1)


@pytest.mark.statement("MP-4")
def test_an_error_is_read_at_both_its_ends(ptrs: Opener) -> None:
    read_at_both_ends(ptrs())


@pytest.mark.statement("MP-5")
def test_the_size_is_that_of_the_text_in_utf8(ptrs: Opener) -> None:
    session = ptrs()
    assert session.process("é" * 25_599, tool="t").route == "inline"
    assert session.process("é" * 25_600, tool="t").route == "artifact"
    value = {"a": ["x" * 51_189]}
    assert len(json.dumps(value, separators=(",", ":"))) == 51_199
    assert session.process(value, tool="t").route == "inline"
    assert session.process({"a": ["x" * 51_190]}, tool="t").route == "artifact"


@pytest.mark.statement("MP-6")
def test_the_only_gate(ptrs: Opener, exact: Engine, caplog: pytest.LogCaptureFixture) -> None:
    assert ptrs(max_output_bytes=1_000).process(lines(3_000), tool="t").route == "artifact"
    session = ptrs()
    fill(session, 198_000)
    assert session.process(lines(40_000), tool="t").original_tokens == 10_000
    assert session.process(lines(40_000), tool="t").route == "inline"
    policy = Policy.pointers()
    assert (policy.max_result_tokens, policy.context_percentage, policy.max_threshold_bytes) == (None, None, None)
    assert (policy.min_threshold_bytes, policy.headroom_percentage) == (0, 1.0)
    for model in (None, "no-such-model"):
        unknown = exact.session(f"model {model}", model=model, policy=policy)
        assert [unknown.process(lines(size), tool="t").route for size in (51_199, 51_200)] == ["inline", "artifact"]
    assert caplog.records == []
    exact.session("with other gates", model="no-such-model", policy=Policy.references())
    assert "the context window of 'no-such-model' is unknown" in caplog.text


@pytest.mark.statement("MP-7")
def test_the_preview_is_the_first_200_characters(ptrs: Opener) -> None:
    assert Policy.pointers().preview_chars == 200
    text = lines(60_000)
    assert envelope_of(ptrs(), text)["preview"].startswith(text[:200] + "\n...(truncated")
    assert envelope_of(ptrs(preview_chars=7), text)["preview"].startswith(text[:7] + "\n...(truncated")


@pytest.mark.statement("MP-8", "MP-10")
def test_the_envelope_is_a_json_string_of_four_keys(ptrs: Opener) -> None:
    envelope = envelope_of(ptrs(), lines(102_400))
    assert list(envelope) == FOUR
    assert envelope["sizeBytes"] == 102_400
    assert envelope["preview"].endswith("\n...(truncated, 102200 more chars)")


@pytest.mark.statement("MP-10")
def test_no_marker_where_nothing_was_cut(ptrs: Opener) -> None:
    session = ptrs()
    assert session.store_artifact("x" * 200).preview == "x" * 200
    assert session.store_artifact("x" * 201).preview == "x" * 200 + "\n...(truncated, 1 more chars)"


@pytest.mark.statement("MP-9")
def test_pointer_and_id_are_spellings_of_one_name(ptrs: Opener) -> None:
    session = ptrs()
    pointer = envelope_of(session, lines(60_000))["pointer"]
    assert pointer[:4] == "art:" and str(uuid.UUID(pointer[4:])) == pointer[4:]
    by_pointer, by_id = session.get_artifact(pointer), session.get_artifact("art_" + pointer[4:])
    assert by_pointer is not None and by_pointer == by_id and by_pointer.pointer == pointer
    replies = [answer(session, "get_artifact", pointer_or_name=key) for key in (pointer, by_pointer.id)]
    assert replies[0] == replies[1] and replies[0].startswith("0000000 the quick")
    assert session.resolve({"a": pointer, "b": by_pointer.id}) == {"a": lines(60_000), "b": lines(60_000)}


@pytest.mark.statement("MP-11")
def test_the_note_names_a_tool_that_is_there(ptrs: Opener) -> None:
    note = envelope_of(ptrs(), lines(60_000))["note"]
    assert "too large" in note and "stored" in note and "get_artifact" in note and "pointer" in note
    other = envelope_of(ptrs(tools=["artifact_read"]), lines(60_000))["note"]
    assert "artifact_read" in other and "get_artifact" not in other


@pytest.mark.statement("MP-12")
def test_a_big_log_takes_at_most_250_tokens(usual: Engine) -> None:
    session = usual.session("a big log", policy=Policy.pointers(), context_window=200_000)
    result = session.process(lines(102_400), tool="read_log")
    assert result.tokens <= 250 and result.original_tokens > 20_000


@pytest.mark.statement("MP-13")
def test_three_tools_come_with_it(ptrs: Opener) -> None:
    session = ptrs()
    assert [tool["name"] for tool in session.tools("anthropic")] == ["store_artifact", "get_artifact", "list_artifacts"]
    assert list(parameters(session, "store_artifact")) == ["name", "value", "content_type"]
    assert list(parameters(session, "get_artifact")) == ["pointer_or_name", "offset"]
    assert list(parameters(session, "list_artifacts")) == ["prefix", "limit", "after"]
    answer(session, "store_artifact", name="r", value="v", contentType="text/csv")
    [artifact] = session.artifacts()
    assert artifact.content_type == "text/csv"
    assert answer(session, "get_artifact", pointerOrName=artifact.pointer) == "v"
    assert answer(session, "get_artifact", pointerOrName="r") == "v"
    assert [entry["name"] for entry in json.loads(answer(session, "list_artifacts"))] == ["r"]


@pytest.mark.statement("MP-14")
def test_the_host_stores_by_hand(ptrs: Opener) -> None:
    session = ptrs()
    named = session.store_artifact(lines(900), name="report", content_type="text/markdown")
    assert (named.name, named.content_type, named.size_bytes) == ("report", "text/markdown", 900)
    assert named.pointer.startswith("art:") and named.preview == lines(900)[:200] + "\n...(truncated, 700 more chars)"
    longer = session.store_artifact(lines(900), preview_chars=500)
    assert longer.preview == lines(900)[:500] + "\n...(truncated, 400 more chars)"
    assert (longer.name, session.store_artifact(records(90), preview_chars=0).preview) == (None, "")
    assert session.store_artifact({"a": [1, 2]}, preview_chars=4).preview == '{"a"\n...(truncated, 7 more chars)'
    assert session.store_artifact(lines(900), preview_chars=900).preview == lines(900)
    for wrong in (-1, 1.5, "500", True):
        with pytest.raises(ConfigurationError, match=f"preview_chars={wrong!r}"):
            session.store_artifact("x", preview_chars=wrong)  # type: ignore[arg-type]


@pytest.mark.statement("MP-15")
def test_a_tool_may_return_a_pointer_of_its_own(ptrs: Opener) -> None:
    session = ptrs()
    kept = session.store_artifact(lines(90_000))
    reply = {"pointer": kept.pointer, "preview": kept.preview, "sizeBytes": kept.size_bytes}
    result = session.process(reply, tool="t")
    assert (result.route, json.loads(result.content)) == ("inline", reply)
    assert session.resolve({"text": json.loads(result.content)["pointer"]}) == {"text": lines(90_000)}


@pytest.mark.statement("MP-16")
def test_values_come_back_as_they_were(ptrs: Opener) -> None:
    session = ptrs()
    kept = session.store_artifact({"a": [1, 2]})
    assert (kept.size_bytes, kept.value, kept.preview) == (11, {"a": [1, 2]}, '{"a":[1,2]}')
    assert isinstance(kept.value, dict) and kept.content_type == "application/json"
    for alone in (5, 2.5, True, None, "5", "null"):
        back = session.store_artifact(alone).value
        assert (back, type(back)) == (alone, type(alone))
    assert session.store_artifact("é" * 300).preview == "é" * 200 + "\n...(truncated, 100 more chars)"


@pytest.mark.statement("MP-16")
def test_json_text_comes_back_as_text(ptrs: Opener) -> None:
    session = ptrs()
    for text in ('{"a": 1}', "[1, 2]", json.dumps({"rows": records(900)})):
        kept = session.store_artifact(text)
        assert (kept.value, kept.size_bytes) == (text, len(text))
        assert session.resolve({"text": kept.pointer}) == {"text": text}
    envelope = envelope_of(session, json.dumps({"rows": records(900)}))
    assert session.resolve({"text": envelope["pointer"]}) == {"text": json.dumps({"rows": records(900)})}
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    assert session.resolve({"text": envelope["pointer"]}, schema=schema)["text"] == json.dumps({"rows": records(900)})


@pytest.mark.statement("MP-16")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "value: object is not JSON"),
        ({"a": [1, object()]}, r"value\['a'\]\[1\]: object is not JSON"),
        (print, "value: builtin_function_or_method is not JSON"),
        (Engine, "value: type is not JSON"),
    ],
    ids=["object", "inside", "function", "class"],
)
def test_what_is_no_json_is_refused_by_its_type(ptrs: Opener, value: object, said: str) -> None:
    session = ptrs()
    with pytest.raises(ConfigurationError, match=said):
        session.store_artifact(value, name="n")
    assert session.artifacts() == []


@pytest.mark.statement("MP-17")
def test_lookup_by_pointer_or_name(ptrs: Opener) -> None:
    session = ptrs()
    kept = session.store_artifact(lines(300_000), name="report-2024-q4")
    by_name, by_pointer = session.get_artifact("report-2024-q4"), session.get_artifact(kept.pointer)
    assert by_name is not None and by_name == by_pointer and by_name.value == lines(300_000)
    assert session.get_artifact("nope") is None


@pytest.mark.statement("MP-18")
def test_what_is_known_of_an_artifact(ptrs: Opener) -> None:
    before = datetime.now(UTC)
    kept = ptrs().store_artifact("a\nb", name="n", content_type="text/csv")
    assert re.fullmatch(r"art_[\w-]+", kept.id) and kept.pointer == "art:" + kept.id[4:]
    facts = (kept.name, kept.value, kept.preview, kept.size_bytes, kept.line_count, kept.content_type)
    assert facts == ("n", "a\nb", "a\nb", 3, 2, "text/csv")
    assert kept.stored_at.tzinfo is not None and before <= kept.stored_at <= datetime.now(UTC)


@pytest.mark.statement("MP-19")
def test_each_is_listed_once(ptrs: Opener) -> None:
    session = ptrs()
    ids = [session.store_artifact(text, name=name).id for text, name in (("1", "a"), ("2", None), ("3", "c"))]
    assert [artifact.id for artifact in session.artifacts()] == ids


@pytest.mark.statement("MP-20")
def test_the_newest_answers_to_a_name(ptrs: Opener) -> None:
    session = ptrs()
    first, second = session.store_artifact("1", name="r"), session.store_artifact("2", name="r")
    assert session.get_artifact("r") == second and session.get_artifact(first.pointer) == first
    assert session.artifacts() == [first, second]


@pytest.mark.statement("MP-21")
@pytest.mark.parametrize(
    ("value", "is_one"),
    [("art:x", True), ("art_x", False), ("Art:x", False), ("", False), (5, False), (None, False)],
)
def test_what_is_a_pointer(value: object, is_one: bool) -> None:
    assert is_pointer(value) is is_one


@pytest.mark.statement("MP-22")
def test_sizes_and_circular_objects(ptrs: Opener) -> None:
    session = ptrs()
    circular: list[Any] = ["x" * 60_000]
    circular.append(circular)
    for value, size in (("é", 2), ({"a": 1}, 7), ([1, {"b": "字"}], 15), (circular, 0)):
        assert approx_byte_size(value) == size
        if size:
            assert session.store_artifact(value).size_bytes == size
    with pytest.raises(ConfigurationError, match="circular reference"):
        session.store_artifact(circular)
    envelope = envelope_of(session, circular)
    assert envelope["sizeBytes"] < 61_000
    kept = session.get_artifact(envelope["pointer"])
    assert kept is not None and kept.value == ["x" * 60_000, "[circular reference to list]"]


@pytest.mark.statement("MP-23")
def test_what_the_store_tool_replies(ptrs: Opener) -> None:
    session = ptrs()
    reply = json.loads(answer(session, "store_artifact", name="n", value=lines(500)))
    assert list(reply) == ["pointer", "preview", "sizeBytes", "name"]
    assert (reply["sizeBytes"], reply["name"]) == (500, "n")
    assert "'name'" in complaint(session, "store_artifact", value="v")


@pytest.mark.statement("MP-24")
def test_what_the_get_tool_replies(ptrs: Opener) -> None:
    session = ptrs()
    session.store_artifact({"a": [1, 2]}, name="j")
    assert answer(session, "get_artifact", pointer_or_name="j") == '{"a":[1,2]}'
    assert answer(session, "get_artifact", pointer_or_name="zz") == "[no artifact found for 'zz']"
    session.store_artifact("  odd \n spacing", name="t")
    assert answer(session, "get_artifact", pointer_or_name="t") == "  odd \n spacing"


@pytest.mark.statement("MP-25")
def test_what_the_list_tool_replies(ptrs: Opener) -> None:
    session = ptrs()
    assert answer(session, "list_artifacts") == "[]"
    kept = session.store_artifact("v", name="n")
    session.store_artifact([1])
    first, second = json.loads(answer(session, "list_artifacts"))
    assert first == {
        "pointer": kept.pointer,
        "name": "n",
        "sizeBytes": 1,
        "preview": "v",
        "contentType": "text/plain",
        "storedAt": int(kept.stored_at.timestamp() * 1000),
    }
    assert (
        second["contentType"] == "application/json" and abs(second["storedAt"] / 1000 - kept.stored_at.timestamp()) < 60
    )


@pytest.mark.statement("MP-26")
def test_these_tools_pass_the_threshold_by(ptrs: Opener) -> None:
    session = ptrs(reply_tokens=20_000)
    reply = session.call("store_artifact", {"name": "big", "value": lines(61_440)})
    assert list(json.loads(reply.content)) == ["pointer", "preview", "sizeBytes", "name"]
    reply = session.call("get_artifact", {"pointer_or_name": "big"})
    assert reply.content == lines(61_440)
    assert session.process(reply.content, tool="get_artifact").content == lines(61_440)
    assert len(session.artifacts()) == 1
    bounded = ptrs()
    bounded.store_artifact(lines(61_440), name="big")
    reply = bounded.call("get_artifact", {"pointer_or_name": "big"})
    assert reply.tokens <= 4_000 and "INCOMPLETE" in reply.content and len(bounded.artifacts()) == 1


@pytest.mark.statement("MP-27")
def test_the_get_tool_is_bounded_and_the_host_is_not(ptrs: Opener) -> None:
    session, text = ptrs(), lines(10_000_000)
    kept = session.store_artifact(text)
    reply = session.call("get_artifact", {"pointer_or_name": kept.pointer})
    assert 3_000 <= reply.tokens <= 4_000 and "INCOMPLETE" in reply.content and "10,000,000 bytes" in reply.content
    read = ""
    for _ in range(3):
        page = answer(session, "get_artifact", pointer_or_name=kept.pointer, offset=len(read))
        shown, _, note = page.rpartition("\n")
        read += shown
        match = re.search(r"Go on with offset=(\d+)\.", note)
        assert match is not None and int(match[1]) == len(read)
    assert len(read) > 30_000 and text.startswith(read)
    last = answer(session, "get_artifact", pointer_or_name=kept.pointer, offset=9_999_990)
    assert last == text[-10:]
    found = session.get_artifact(kept.pointer)
    assert found is not None and found.value == text


STORE_AND_DIE = """
import os, signal, sys
from byref import Engine, Policy
session = Engine(sys.argv[1]).session("chat", policy=Policy.pointers())
session.store_artifact("kept", name="note")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.statement("MP-28")
def test_a_session_is_the_state(ptrs: Opener, sandbox: Any, tmp_path: Path, migrated_sqlite: Path) -> None:
    assert ptrs().artifacts() == []
    url = f"sqlite:///{tmp_path / 'byref.db'}"
    (tmp_path / "byref.db").write_bytes(migrated_sqlite.read_bytes())
    died = subprocess.run([sys.executable, "-c", STORE_AND_DIE, url], env=dict(os.environ), check=False)
    assert died.returncode == -signal.SIGKILL
    with Engine(url, interpreter=sandbox) as engine:
        [kept] = engine.session("chat").artifacts()
        assert (kept.name, kept.value) == ("note", "kept")
        for other in (engine.session("other"), engine.session("chat", tenant="other")):
            assert other.artifacts() == [] and other.get_artifact(kept.pointer) is None


@pytest.mark.statement("MP-29")
def test_one_steps_output_feeds_the_next(ptrs: Opener, variables: Opener) -> None:
    session, rows = ptrs(), records(2_000)
    pointer = envelope_of(session, rows)["pointer"]
    assert session.resolve({"rows": pointer, "text": f"see {pointer}"}) == {"rows": rows, "text": f"see {pointer}"}
    before = session.context_tokens()
    assert session.resolve({"ids": {"$var": pointer, "jq": "map(.id)"}}) == {"ids": list(range(1, 2_001))}
    assert session.context_tokens() == before
    named = variables()
    named.process(rows, tool="users")
    assert named.resolve({"last": {"$var": "users", "jq": ".[-1].id"}}) == {"last": 2_000}


@pytest.mark.statement("MP-30")
def test_a_stream_is_judged_once_at_its_end(ptrs: Opener) -> None:
    session, text = ptrs(), lines(60_000)
    result = session.process((text[at : at + 600] for at in range(0, 60_000, 600)), tool="t")
    assert [artifact.value for artifact in session.artifacts()] == [text]
    assert [(entry.route, entry.step) for entry in session.ledger()] == [("artifact", result.step)]

    def failing() -> Iterator[str]:
        yield text
        raise ConnectionError

    with pytest.raises(ConnectionError):
        session.process(failing(), tool="t")
    assert (len(session.artifacts()), len(session.ledger())) == (1, 1)


@pytest.mark.statement("MP-15", "MP-4")
def test_small_json_is_left_as_it_is(ptrs: Opener) -> None:
    assert ptrs().process(json_of(300), tool="t").content == json_of(300)
