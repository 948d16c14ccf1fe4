"""The text that the model reads in place of an output: bounded, valid, exact about what is missing, and naming only what
exists."""

from __future__ import annotations

import itertools
import json
import re
import secrets
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from material import page, prose, records

from byref import CharCounter, ConfigurationError, Engine, Policy, Session
from byref.policy import TOOL_NAMES
from byref_sandbox import Sandbox


def envelope_of(session: Session, output: object, tool: str = "list_users") -> dict[str, Any]:
    result = session.process(output, tool=tool)
    assert result.envelope is not None, (result.route, result.reason)
    assert json.loads(result.content) == result.envelope
    assert result.tokens <= session._scope.policy.envelope_budget
    return result.envelope


def test_what_the_model_reads_of_a_page_in_the_form_of_variables(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, policy=Policy.variables())
    envelope = envelope_of(session, page(5_000))
    assert (envelope["variables"], envelope["instruction"]) == snapshot(
        (
            {"list_users": "object(4 keys)", "users": "array(5000) of object(3 keys)", "pagination": "object(2 keys)"},
            'INCOMPLETE: preview leaves out what omitted counts; do not infer it. The variables hold all of the data, as Python objects in code_interpreter, e.g. len(users); the whole is also var_step_1. artifact_read, artifact_grep, artifact_jq take a variable\'s name. To hand data to another tool, give "$users" as its argument.',
        )
    )
    assert envelope["schema"]["properties"]["users"]["items"]["required"] == ["field_0", "field_1", "id"]
    preview = envelope["preview"]
    assert (preview["total"], preview["next_cursor"], preview["pagination"]) == (
        15_000,
        "abc",
        {"page": 1, "pages": 12},
    )
    assert (preview["users"][0], preview["users"][-1]) == (records(1)[0], records(5_000)[-1])
    [gap] = [item for item in preview["users"] if isinstance(item, str)]
    assert re.fullmatch(r"\.\.\. \([\d,]+ tokens omitted\) \.\.\.", gap)
    kept = len(preview["users"]) - 1
    assert f"{5_000 - kept:,}" in json.dumps(envelope["omitted"]) or str(5_000 - kept) in json.dumps(
        envelope["omitted"]
    )


def test_what_the_model_reads_of_a_page(chat: Session) -> None:
    envelope = envelope_of(chat, page(5_000))
    assert list(envelope) == ["variables", "schema", "values", "preview", "omitted", "instruction"]
    first = records(1)[0]
    assert envelope["preview"]["users"] == [first, "... 4,999 more ..."]
    assert (envelope["preview"]["total"], envelope["preview"]["pagination"]) == (15_000, {"page": 1, "pages": 12})
    assert list(envelope["omitted"]) == ["tokens"]
    assert (envelope["variables"], envelope["schema"], envelope["instruction"]) == snapshot(
        (
            {"list_users": "object(4 keys)", "users": "array(5000) of object(3 keys)", "pagination": "object(2 keys)"},
            "{users:[5,000 of {id:int,(field_0,field_1):str}],pagination:{(page,pages):int},total:int,next_cursor:str}",
            'INCOMPLETE: do not infer the rest; compute with code_interpreter, e.g. len(users). "$users" hands it to another tool.',
        )
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("tools", [None, ["artifact_jq"]], ids=["variables", "artifact"])
def test_the_schema_is_json_schema_if_the_policy_says_so(local: Engine, tenant: str, tools: list[str] | None) -> None:
    value = page(5_000)
    for budget in (1_000, 260):
        policy = Policy(schema_form="json-schema", envelope_tokens=budget)
        session = local.session(secrets.token_hex(8), tenant=tenant, policy=policy, tools=tools)
        envelope = envelope_of(session, value)
        assert "$schema" not in envelope["schema"]
        assert ("required" in json.dumps(envelope["schema"])) is (budget == 1_000)
        assert jsonschema.Draft7Validator(envelope["schema"]).is_valid(value)
        [artifact] = session.artifacts()
        assert artifact.schema is not None and artifact.schema["$schema"] and artifact.schema["required"]


def test_what_the_model_reads_of_a_described_artifact(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, tools=["artifact_read", "artifact_grep", "artifact_jq"])
    envelope = envelope_of(session, page(5_000))
    assert list(envelope) == [
        "artifact_id", "size_bytes", "line_count", "schema", "values", "preview", "omitted", "how_to_access", "note"
    ]  # fmt: skip
    assert envelope["artifact_id"] == session.artifacts()[0].id
    assert list(envelope["how_to_access"]) == ["artifact_read", "artifact_grep", "artifact_jq"]
    assert envelope["note"] == "INCOMPLETE: do not infer the rest."


def test_what_the_model_reads_of_an_artifact(local: Engine, tenant: str) -> None:
    tools = ["artifact_read", "artifact_grep", "artifact_jq"]
    session = local.session("s", tenant=tenant, tools=tools, policy=Policy.variables())
    envelope = envelope_of(session, page(5_000))
    assert list(envelope)[:5] == ["artifact_id", "size_bytes", "line_count", "shape", "how_to_access"]
    [artifact] = session.artifacts()
    assert envelope["artifact_id"] == artifact.id
    assert re.fullmatch(r"art_[\w-]+", artifact.id)
    assert envelope["line_count"] == artifact.line_count >= 5_000
    assert envelope["shape"] == {
        "users": "array(5000) of object(3 keys)",
        "pagination": "object(2 keys)",
        "total": "integer",
        "next_cursor": "string",
    }
    assert envelope["how_to_access"] == snapshot(
        {
            "artifact_read": "Read lines: start_line to end_line, by artifact_id or list_users",
            "artifact_grep": "Find the lines that match a regular expression: pattern",
            "artifact_jq": "Query with a jq expression, e.g. '.results[0]' or '.[] | select(.score > 0.5)'",
        }
    )
    assert "INCOMPLETE" in envelope["note"]


def test_what_the_model_reads_of_long_text(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, tools=["artifact_read", "artifact_grep"])
    content = session.process(prose(2_000_000), tool="log").content
    notice = content.rpartition("\n")[2].replace(session.artifacts()[0].id, "art_…")
    assert notice == snapshot(
        '[INCOMPLETE: all 2.0 MB in 25,000 lines are kept as variable log (artifact art_…). Do not infer the rest: read on with artifact_read (start_line, end_line) or search with artifact_grep (pattern). Its lines: in a sample of 140 lines often "# the quick brown fox jumps over the lazy dog and runs away …".]'
    )
    assert content.count("... [truncated ") == 1


FOLLOWING = ("code_interpreter", "artifact_jq", "artifact_grep", "artifact_read")


@pytest.mark.parametrize("tools", [list(c) for n in (1, 2, 3, 4) for c in itertools.combinations(FOLLOWING, n)])
def test_only_tools_that_are_there_are_named_with_parameters_that_they_have(
    local: Engine, tenant: str, tools: list[str]
) -> None:
    session = local.session("s", tenant=tenant, tools=tools)
    texts = [session.process(output, tool="t").content for output in (page(5_000), prose(2_000_000))]
    for name, told in itertools.product(TOOL_NAMES, texts):
        assert name in tools or name not in told
    schemas = {tool["name"]: tool["input_schema"]["properties"] for tool in session.tools("anthropic")}
    if "code_interpreter" not in tools:
        for name, hint in json.loads(texts[0])["how_to_access"].items():
            for parameter in re.findall(r"\b(start_line|end_line|pattern|jq expression)\b", hint):
                assert parameter.removeprefix("jq ") in schemas[name]


BUDGETS = st.sampled_from([100, 150, 220, 400, 1_200, 5_000])
NAMES = st.one_of(
    st.sampled_from(["t", "漢" * 64, "x" * 10_240, "𓀀" * 64, "é_" * 40]),
    st.text(st.characters(codec=None), max_size=80),
)
ROWS: list[list[Any]] = [
    records(900),
    [{f"column {j} 漢": j for j in range(300)}] * 20,
    ["𓀀" * 50] * 600,
    [[[1] * 50] * 20] * 20,
]


FORMS: list[dict[str, Any]] = [{}, {"schema_form": "json-schema"}, {"envelope_form": "variables"}]


@given(
    st.lists(NAMES, min_size=1, max_size=40), st.integers(0, 3), NAMES, BUDGETS, st.booleans(), st.sampled_from(FORMS)
)
@settings(max_examples=settings.default.max_examples * 2 // 5)
def test_no_input_exceeds_the_budget(
    local: Engine, names: list[str], kind: int, tool: str, budget: int, readers: bool, form: dict[str, Any]
) -> None:
    value = {name: ROWS[(kind + i) % 4 if i < 6 else 3] for i, name in enumerate(names)}
    policy = Policy(envelope_tokens=budget, **form)
    tools = ["artifact_read", "artifact_grep", "artifact_jq"] if readers else None
    session = local.session(secrets.token_hex(8), tenant="budget", policy=policy, context_window=10**6, tools=tools)
    for _ in range(2):
        result = session.process(value, tool=tool)
        if result.route == "inline":
            assert result.original_tokens <= 7_000
            continue
        assert result.route == ("artifact" if readers else "variables")
        assert result.tokens == session._scope.count(result.content)
        assert result.tokens <= budget
        assert json.loads(result.content) == result.envelope


@given(st.integers(20, 3_000))
@settings(max_examples=settings.default.max_examples // 3)
def test_the_preview_keeps_both_ends_at_any_budget(local: Engine, tokens: int) -> None:
    session = local.session(secrets.token_hex(8), tenant="preview", policy=Policy.variables(preview_tokens=tokens))
    envelope = envelope_of(session, records(10_000))
    assert session._scope.count(json.dumps(envelope["preview"], separators=(",", ":"))) <= tokens
    if tokens >= 100:
        assert (envelope["preview"][0], envelope["preview"][-1]) == (records(1)[0], records(10_000)[-1])


def test_every_record_fits_the_schema(chat: Session) -> None:
    rows = [
        {"id": i, "tags": ["x"] * (i % 3), **({"extra": None if i % 2 else 1.5} if i % 5 else {})} for i in range(4_000)
    ]
    result = chat.process({"rows": rows}, tool="t")
    schema = result.artifacts[0].schema
    assert schema is not None
    validator = jsonschema.Draft7Validator(schema)
    assert validator.is_valid({"rows": rows})
    assert (
        result.envelope and result.envelope["schema"] == "{rows:[4,000 of {id:int,tags:[str],extra?(3,200):num|null}]}"
    )


def test_a_schema_that_is_much_longer_than_its_text_is_stored_in_part(chat: Session) -> None:
    def tree(levels: int, number: int = 1) -> Any:
        if not levels:
            return {"v": number}
        return {f"n{5 * number + n}": tree(levels - 1, 5 * number + n) for n in range(5)}

    value = tree(6)
    [artifact] = chat.process(value, tool="t").artifacts
    assert artifact.schema is not None and len(json.dumps(artifact.schema)) < 200_000
    assert jsonschema.Draft7Validator(artifact.schema).is_valid(value)


def test_key_order_is_the_sources(chat: Session) -> None:
    rows = [{"z": i, "a": i, "m": i} for i in range(5_000)]
    envelope = envelope_of(chat, {"rows": rows, "beta": {}, "alpha": 1})
    assert list(envelope["preview"]) == ["rows", "beta", "alpha"]
    assert list(envelope["preview"]["rows"][0]) == ["z", "a", "m"]


def test_the_example_in_the_instruction_can_be_followed(chat: Session) -> None:
    for output, tool in ((page(5_000), "list_users"), (records(5_000), "class"), ({"a b": records(5_000)}, "漢字")):
        envelope = envelope_of(chat, output, tool)
        code = re.search(r"len\((\w+)\)", envelope["instruction"])
        assert code
        assert chat.call("code_interpreter", {"code": code[0]}).content == "5000"
        named = re.search(r'"(\$\w+)"', envelope["instruction"])
        assert named
        assert len(chat.resolve({"x": named[1]})["x"]) == 5_000


def test_the_reminder_is_bounded_and_names_what_is_there(chat: Session) -> None:
    assert chat.reminder() == "No data is stored in this conversation."
    for i in range(30):
        chat.process(page(1_500 + i), tool=f"tool_{i}")
    chat.process(prose(2_000_000), tool="log")
    for limit in (50, 60, 200, 500):
        told = chat.reminder(max_tokens=limit)
        assert chat._scope.count(told) <= limit
        assert "- tool_29" in told or limit < 200
        assert re.search(r"- and \d+ more$", told)
        assert "- log: text(25000 lines)" in told
    assert "\n- tool_0: " in chat.reminder(max_tokens=100_000)


def test_the_reminder_says_what_stored_data_is(local: Engine, tenant: str) -> None:
    chat = local.session("chat", tenant=tenant, tools=["store_artifact"])
    chat.store_artifact({"total": 3, "rows": [{"a": "\ud800"}]}, name="report")
    chat.store_artifact(b"\x89PNG\r\n\x1a\n" + b"x" * 100, name="pic\nture")
    chat.call("store_artifact", {"name": "n" * 200, "value": "text"})
    host, image, named = chat.artifacts()
    assert chat.reminder().splitlines()[1:] == [
        f"- {named.id}: text, 4 bytes, of store_artifact (step 1)",
        f"- {image.id}: image(png), 108 bytes",
        f'- report: {{"total":"integer","rows":"array(1) of object(1 key)"}}, {host.size_bytes} bytes',
    ]
    chat.store_artifact({f"key {n}": n for n in range(1_000)}, name="wide")
    assert len(chat.reminder().splitlines()[1]) < 250


class EachCharacter:
    def count(self, text: str, kind: str = "text") -> int:
        return len(text)


@pytest.mark.slow
@pytest.mark.parametrize("counter", [CharCounter(), EachCharacter()])
def test_no_reminder_passes_its_bound(sandbox: Sandbox, counter: Any) -> None:
    with Engine("sqlite://", interpreter=sandbox, counter=counter) as engine:
        session = engine.session("s", tools=list(TOOL_NAMES))
        for n in range(20):
            session.store_artifact({f"key {i} {'x' * 40}": i for i in range(n)}, name=f"data {n}")
        for limit in [*range(50, 200), 1_000]:
            assert counter.count(session.reminder(max_tokens=limit)) <= limit


@pytest.mark.parametrize("wrong", [49, 0, -1, 50.0, "50", None, True])
def test_the_bound_of_a_reminder_is_a_number(chat: Session, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^max_tokens=.*: expected a whole number of at least 50"):
        chat.reminder(max_tokens=wrong)


@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy.variables(), Policy(mode="artifact"), Policy.previews(), Policy.pointers()],
    ids=lambda policy: f"{policy.envelope_form}, {policy.mode}",
)
def test_what_replaces_a_block_says_where_it_is_from(local: Engine, tenant: str, policy: Policy) -> None:
    session = local.session("s", tenant=tenant, policy=policy)
    rows = json.dumps(records(3_000))
    one = {"type": "resource", "resource": {"uri": "file:///sales/north%20west.json", "text": rows}}
    result = session.process([one], tool="read_file")
    if policy.envelope_form == "previews":
        assert "(json of file:///sales/north%20west.json, " in result.content
    else:
        assert (result.envelope or {})["source"] == "file:///sales/north%20west.json"
    assert [one.name for one in session.artifacts()] == ["north west.json"]


@pytest.mark.parametrize(
    ("block", "source", "name"),
    [
        ({"type": "resource", "resource": {"uri": "s3://a/b.txt", "title": "All of b"}}, "All of b (s3://a/b.txt)", "All of b"),
        ({"type": "document", "title": "Report", "source": {"type": "text", "media_type": "text/plain"}}, "Report", "Report"),
        ({"type": "search_result", "title": "Alpha", "source": "https://a.example/?q=1"}, "Alpha (https://a.example/?q=1)", None),
        ({"searchResult": {"title": "Alpha", "source": "https://a.example"}}, "Alpha (https://a.example)", None),
        ({"document": {"format": "txt", "name": "notes", "source": {}}}, "notes", "notes"),
        ({"type": "text-plain", "mime_type": "text/plain", "title": "x" * 500 + "\n"}, "x" * 60 + "…" + "x" * 58, "x" * 256),
        ({"type": "resource", "resource": {"uri": "\ud800]\n"}}, "\\ud800)", "\ud800]\n"),
    ],
)  # fmt: skip
def test_a_cut_text_says_where_it_is_from(chat: Session, block: Any, source: str, name: str | None) -> None:
    text = "\n".join(f"line {number}: {'word ' * 9}" for number in range(2_000))
    if "resource" in block:
        block["resource"]["text"] = text
    elif "document" in block:
        block["document"]["source"]["text"] = text
    elif block.get("type") == "document":
        block["source"]["data"] = text
    elif block.get("type") == "text-plain":
        block["text"] = text
    else:
        block.get("searchResult", block)["content"] = [{"type": "text", "text": text}]
    result = chat.process([block, {"type": "text", "text": "that was all"}], tool="read")
    shown = result.message("openai", "c1")["content"]
    assert f"KB of {source} in 2,000 lines are kept as variable" in shown[0]["text"], result.reason
    assert [one.name for one in result.artifacts] == [name]
