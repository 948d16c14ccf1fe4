"""Variable passing: the statements VP-1 to VP-31."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from genson import SchemaBuilder
from sqlalchemy import func, select

from byref import Policy
from byref.db.tables import BlobRow
from statements.material import Opener, answer, fill, json_of, lines, records

GAP = re.compile(r"\.\.\. \(([\d,]+) tokens omitted\) \.\.\.")


def page() -> dict[str, Any]:
    return {"users": records(1_200), "pagination": {"page": 1, "pages": 12}, "total": 15_000}


def envelope_of(result: Any) -> dict[str, Any]:
    assert result.route == "variables" and result.envelope == json.loads(result.content)
    return dict(result.envelope)


@pytest.mark.statement("VP-1")
def test_every_output_is_accounted_for(variables: Opener) -> None:
    session = variables()
    for output in ({"ok": True}, page(), lines(3_000_000)):
        session.process(output, tool="t")
    entries = session.ledger()
    assert [entry.step for entry in entries] == [1, 2, 3]
    assert [(entry.route, entry.reason) for entry in entries] == [
        ("inline", "below_floor"),
        ("variables", "max_result_tokens"),
        ("truncate", "max_result_tokens"),
    ]


@pytest.mark.statement("VP-2")
def test_a_small_response_goes_in_as_it_is(variables: Opener) -> None:
    result = variables().process('{ "status": "success", "reset": true }', tool="reset")
    assert (result.route, result.content) == ("inline", '{ "status": "success", "reset": true }')


@pytest.mark.statement("VP-3")
def test_below_a_kilobyte_always_directly(variables: Opener) -> None:
    session = variables()
    fill(session, 198_000)
    assert session.process(json_of(1_023), tool="t").content == json_of(1_023)


@pytest.mark.statement("VP-4")
def test_above_7000_tokens(variables: Opener) -> None:
    assert Policy.variables().max_result_tokens == 7_000 and Policy() == Policy.variables()
    session = variables()
    for characters, tokens, route in ((14_000, 7_000, "inline"), (14_002, 7_001, "variables")):
        result = session.process(json_of(characters), tool="t")
        assert (result.original_tokens, result.route) == (tokens, route)


@pytest.mark.statement("VP-5", "VP-6")
def test_schema_preview_and_instruction_enter_and_the_middle_does_not(variables: Opener) -> None:
    session = variables()
    result = session.process(records(10_000), tool="list_users")
    envelope = envelope_of(result)
    assert list(envelope) == ["variables", "schema", "preview", "omitted", "instruction"]
    assert envelope["variables"] == {"list_users": "array(10000) of object(4 keys)"}
    assert "user 5000" not in result.content and "user 10000" in result.content
    assert session.variable("list_users").value() == records(10_000)


@pytest.mark.statement("VP-7", "VP-8")
def test_a_variable_for_the_whole_and_each_part(variables: Opener) -> None:
    session = variables()
    assert list(envelope_of(session.process(page(), tool="list_users"))["variables"]) == [
        "list_users", "users", "pagination",
    ]  # fmt: skip
    values = {variable.name: variable.value() for variable in session.variables()}
    assert values == {"list_users": page(), "users": page()["users"], "pagination": page()["pagination"]}
    assert len(session.variable("$users").value()) == 1_200  # type: ignore[arg-type]


@pytest.mark.statement("VP-9")
def test_the_whole_has_the_tools_name_and_its_steps(variables: Opener) -> None:
    session = variables()
    session.process({"ok": True}, tool="ping")
    first = session.process(page(), tool="list_users")
    assert first.step == 2
    assert session.variable("list_users").value() == session.variable("var_step_2").value() == page()
    second = session.process(records(1_000), tool="list_users")
    assert [variable.name for variable in second.variables] == ["list_users_2"]
    assert session.variable("list_users").value() == page()


@pytest.mark.statement("VP-10")
def test_the_schema_is_gensons(variables: Opener) -> None:
    rows = [{"id": i, "data": "x" * 20} for i in range(1_000)]
    schema = envelope_of(variables().process(rows, tool="t"))["schema"]
    builder = SchemaBuilder()
    builder.add_object(rows)
    wanted = builder.to_schema()
    wanted.pop("$schema")
    schema.pop("$schema", None)
    assert schema == wanted
    assert wanted["items"]["properties"] == {"id": {"type": "integer"}, "data": {"type": "string"}}
    assert sorted(wanted["items"]["required"]) == ["data", "id"]


@pytest.mark.statement("VP-11")
def test_the_preview_shows_both_ends(variables: Opener) -> None:
    rows = records(10_000)
    preview = envelope_of(variables().process(rows, tool="t"))["preview"]
    assert (preview[0], preview[-1]) == (rows[0], rows[-1])
    assert all(row in rows for row in preview if not isinstance(row, str))


@pytest.mark.statement("VP-12")
def test_the_gap_is_counted_exactly(variables: Opener) -> None:
    session = variables()
    result = session.process(records(10_000), tool="t")
    envelope = envelope_of(result)
    [gap] = [row for row in envelope["preview"] if isinstance(row, str)]
    match = GAP.fullmatch(gap)
    assert match is not None
    kept = [row for row in envelope["preview"] if row != gap]
    bare = session._scope.count(json.dumps(kept, separators=(",", ":")))
    assert match[1] == f"{result.original_tokens - bare:,}"
    assert envelope["omitted"]["tokens"] == result.original_tokens - bare
    [counts] = envelope["omitted"]["items"].values()
    assert counts == {"kept": len(kept), "omitted": 10_000 - len(kept)}


@pytest.mark.statement("VP-12")
def test_the_preview_scales_with_its_budget(variables: Opener) -> None:
    session, rows = variables(preview_tokens=100), records(10_000)
    preview = envelope_of(session.process(rows, tool="t"))["preview"]
    assert session._scope.count(json.dumps(preview, separators=(",", ":"))) <= 100
    assert (preview[0], preview[-1]) == (rows[0], rows[-1])


@pytest.mark.statement("VP-13")
def test_the_instruction_names_the_interpreter_where_there_is_one(variables: Opener) -> None:
    assert "code_interpreter" in envelope_of(variables().process(page(), tool="t"))["instruction"]
    for tools in (["artifact_jq"], []):
        assert "code_interpreter" not in variables(tools=tools).process(page(), tool="t").content


@pytest.mark.statement("VP-14")
def test_the_interpreter_computes_on_all_of_it(variables: Opener) -> None:
    session, rows = variables(), records(10_000)
    rows[4_999]["name"] = "the one"
    result = session.process(rows, tool="list_users")
    name = f"var_step_{result.step}"
    for code, exact in (
        (f"len(${name})", "10000"),
        (f'sum(r["id"] for r in {name})', "50005000"),
        ('[r["id"] for r in $list_users if r["name"] == "the one"]', "[5000]"),
    ):
        assert answer(session, "code_interpreter", code=code) == exact
    assert "the one" not in result.content


@pytest.mark.statement("VP-15")
def test_both_forms_are_kept(variables: Opener) -> None:
    session, text = variables(), json.dumps(records(1_000))
    results = [session.process(text, tool="a"), session.process({"ok": 1}, tool="b"), session.process(text, tool="c")]
    history = session.history()
    assert [entry.tool for entry in history] == ["a", "b", "c"]
    assert [entry.processed for entry in history] == [result.content for result in results]
    first, small, again = (entry.original for entry in history)
    assert small == '{"ok":1}'
    assert first is not None and again is not None and not isinstance(first, str) and not isinstance(again, str)
    assert first.payload.read() == again.payload.read() == text.encode()
    same = select(func.count()).select_from(BlobRow).where(BlobRow.digest == first.digest)
    assert session._scope.read(lambda connection: connection.execute(same).scalar_one()) == 1


@pytest.mark.statement("VP-16")
def test_plaintext_has_neither_schema_nor_variable(variables: Opener) -> None:
    session = variables()
    for text in (lines(40_000), lines(2_000_000)):
        result = session.process(text, tool="t")
        assert result.variables == [] and result.envelope is None and "schema" not in result.content
    assert session.variables() == []


@pytest.mark.statement("VP-17")
def test_plaintext_goes_in_whole_while_there_is_room(variables: Opener) -> None:
    session = variables()
    for size, route in ((4_200, "inline"), (40_000, "wholesale")):
        result = session.process(lines(size), tool="t")
        assert (result.route, result.content) == (route, lines(size))
    assert session.process(lines(2_000_000), tool="t").route == "truncate"
    full = variables()
    fill(full, 138_000)
    result = full.process(lines(40_000), tool="t")
    assert (result.route, result.reason) == ("truncate", "headroom")
    always = variables(plaintext="wholesale")
    fill(always, 138_000)
    assert always.process(lines(40_000), tool="t").content == lines(40_000)


@pytest.mark.statement("VP-18")
def test_json_that_arrives_as_text_is_structured(variables: Opener) -> None:
    text = json.dumps(page(), separators=(",", ":"))
    seen = []
    for output in (text, text.encode(), page()):
        session = variables()
        envelope = envelope_of(session.process(output, tool="t"))
        seen.append((envelope["schema"], envelope["variables"], [v.value() for v in session.variables()]))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.statement("VP-19")
def test_json_inside_a_string_stays_a_string(variables: Opener) -> None:
    inner = json.dumps({"accounts": records(12_500)})
    assert len(inner) > 900_000
    session = variables()
    envelope = envelope_of(session.process({"data": inner}, tool="t"))
    assert envelope["schema"]["properties"] == {"data": {"type": "string"}}
    assert session.variable("t").value() == {"data": inner}
    match = re.fullmatch(r"(.+)… \(([\d,]+) more characters\)", envelope["preview"]["data"])
    assert match is not None and inner.startswith(match[1])
    assert f"{len(inner) - len(match[1]):,}" == match[2]


@pytest.mark.statement("VP-24")
def test_structured_costs_a_fraction_of_plaintext(variables: Opener) -> None:
    rows = [{"description": f"lunch {i}", "amount": i % 90 + 0.5, "category": "meals"} for i in range(3_000)]
    rendered = "\n".join(f"{row['description']}: {row['amount']} EUR, {row['category']}" for row in rows)
    structured, whole = variables().process(rows, tool="t"), variables().process(rendered, tool="t")
    assert (structured.route, whole.route) == ("variables", "wholesale")
    assert structured.tokens < whole.tokens / 5


@pytest.mark.statement("VP-28")
def test_the_order_is_the_sources(variables: Opener) -> None:
    rows = [{"zeta": i, "alpha": "x" * 30, "mid": None} for i in range(1_000)]
    envelope = envelope_of(variables().process({"second": 2, "rows": rows, "first": 1}, tool="t"))
    assert list(envelope["preview"]) == ["second", "rows", "first"]
    assert all(list(row) == ["zeta", "alpha", "mid"] for row in envelope["preview"]["rows"] if not isinstance(row, str))
    assert list(envelope["schema"]["properties"]) == ["second", "rows", "first"]
    assert list(envelope["schema"]["properties"]["rows"]["items"]["properties"]) == ["zeta", "alpha", "mid"]
    shown = [row["zeta"] for row in envelope["preview"]["rows"] if not isinstance(row, str)]
    assert shown == sorted(shown)


@pytest.mark.statement("VP-29")
def test_every_decision_is_explained(variables: Opener) -> None:
    session = variables()
    result = session.process(json_of(300_000), tool="t", call_id="call-1")
    why = session.explain("call-1")
    assert (why.route, why.reason, why.original_tokens) == ("variables", "max_result_tokens", 150_000)
    assert (why.numbers["value"], why.numbers["limit"], why.numbers["unit"]) == (150_000, 7_000, "tokens")
    assert (why.numbers["byte_threshold"], why.numbers["headroom_limit"]) == (200_000, 140_000)
    assert why.tokens_saved == result.tokens_saved == 150_000 - result.tokens
    assert "150,000 tokens" in str(why) and "max_result_tokens=7,000" in str(why)


@pytest.mark.statement("VP-30")
def test_why_nothing_became_a_variable(variables: Opener) -> None:
    session = variables()
    small = session.process(json_of(13_800), tool="t", call_id="small")
    assert (small.original_tokens, small.route) == (6_900, "inline")
    assert "6,900 tokens are within the per-output threshold of 7,000" in str(session.explain("small"))
    text = json.dumps(records(1_000), indent=1)
    broken = text[:-2] + ",\n]"
    result = session.process(broken, tool="t", call_id="broken")
    assert result.variables == [] and result.route != "variables"
    said = str(session.explain("broken"))
    assert re.search(rf"invalid JSON.*line {broken.count(chr(10)) + 1}\D+column 1\b", said), said


@pytest.mark.statement("VP-31")
def test_a_reference_may_select_first(variables: Opener) -> None:
    session = variables()
    session.process(page(), tool="list_users")
    given = session.resolve({"ids": {"$var": "users", "jq": "map(.id)"}, "limit": 5})
    assert given == {"ids": list(range(1, 1_201)), "limit": 5}
