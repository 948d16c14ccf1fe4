"""The session's own tools: what a model may send, what it gets back, what providers are told of them."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any

import pytest
from inline_snapshot import snapshot
from material import page, prose, records

from byref import ConfigurationError, Engine, Policy, Session, ToolError
from byref.artifacts import staging
from byref.artifacts.grep import Found, search
from byref.conversation.result import FORMATS
from byref.policy import TOOL_NAMES
from byref.tools import readers, retrieval
from byref_sandbox import Sandbox

ALL = list(TOOL_NAMES)


def stock(session: Session) -> Session:
    session.process(page(3_000), tool="list_users")
    session.process(prose(2_000_000), tool="log")
    return session


@pytest.fixture
def stocked(engine: Engine, tenant: str) -> Session:
    """All tools, 3,000 users, a log of 2 MB."""
    return stock(engine.session("chat", tenant=tenant, context_window=200_000, tools=ALL))


@pytest.fixture
def chat(engine: Engine, tenant: str) -> Session:
    """All tools, and no data yet."""
    return engine.session("chat", tenant=tenant, tools=ALL)


@pytest.fixture(scope="module")
def read(engine: Engine) -> Session:
    """The same for all tests that only read."""
    return stock(engine.session("read", tenant="tools", context_window=200_000, tools=ALL))


def artifact_of(session: Session, position: int) -> str:
    return session.artifacts()[position].id


# Definitions


@pytest.mark.parametrize("format", FORMATS)
def test_definitions_have_the_shape_of_the_providers(engine: Engine, tenant: str, format: Any) -> None:
    tools = engine.session("s", tenant=tenant, tools=ALL).tools(format)
    match format:
        case "openai":
            flat = [tool["function"] for tool in tools]
            assert all(tool.keys() == {"type", "function"} and tool["type"] == "function" for tool in tools)
            key = "parameters"
        case "openai-responses":
            assert all(tool["strict"] is False for tool in tools)
            flat, key = tools, "parameters"
        case "anthropic":
            flat, key = tools, "input_schema"
        case "mcp":
            flat, key = tools, "inputSchema"
        case "gemini":
            [holder] = tools
            assert holder.keys() == {"function_declarations"}
            flat, key = holder["function_declarations"], "parameters_json_schema"
    assert [tool["name"] for tool in flat] == ALL
    for tool in flat:
        assert tool.keys() - {"type", "strict"} == {"name", "description", key}
    assert json.loads(json.dumps(tools)) == tools


def test_an_unknown_format_is_named(chat: Session) -> None:
    with pytest.raises(ConfigurationError, match="format='x': expected one of"):
        chat.tools("x")  # type: ignore[arg-type]


def written(schema: dict[str, Any], indent: str = "  ") -> list[str]:
    """The arguments of a schema, one a line; what is required has a star."""
    lines = []
    for name, argument in schema["properties"].items():
        bounds = f"{argument['minimum']}..{argument.get('maximum', '')}" if "minimum" in argument else ""
        kind = " ".join(filter(None, (argument.get("type", "anything"), bounds)))
        about = argument.get("description", "")
        lines.append(f"{indent}{name}{'*' if name in schema['required'] else ''}: {kind}. {about}".rstrip())
        lines += written(argument, indent * 2) if "properties" in argument else []
    return lines


def test_what_the_model_is_told(local: Engine, tenant: str) -> None:
    tools = local.session("s", tenant=tenant, tools=ALL).tools("anthropic")
    lines = [[f"{tool['name']}: {tool['description']}", *written(tool["input_schema"])] for tool in tools]
    assert "\n".join(line for tool in lines for line in tool) == snapshot("""\
code_interpreter: Run Python over the full data of this conversation's variables (by name, as plain Python objects; df(name) gives a DataFrame) and artifacts (by id, as str or bytes). There are pandas as pd, numpy as np, standard modules and the files that code wrote; no network. matplotlib draws: figures come back. Outputs from 500 tokens on that you read whole are variables too: get_orders, then get_orders_2 for the next of that tool; "$get_orders" hands one to another tool.
  code*: string. Python source. The last expression's value is the result; print is captured too.
  reset: boolean. Forget the names of earlier code first.
artifact_jq: Query stored JSON with a jq filter over all of the data.
  artifact_id*: string. Id of the artifact (art_…), or the name of a variable.
  expression*: string. jq filter, e.g. '.rows | length' or '.[] | select(.score > 0.5) | .id'.
artifact_sql: Query this conversation's variables as tables with SQL (DuckDB): FROM $users; $page.rows for the records inside an object; joins, CTEs, window functions, nested fields (items[1].sku, unnest). A big result becomes a variable.
  query*: string. One SELECT (DuckDB SQL), e.g. SELECT k, sum(v) FROM $rows GROUP BY k.
  save_as: string. Variable name to keep the result under.
artifact_grep: Find the lines of stored data that match a regular expression, with context.
  artifact_id*: string. Id of the artifact (art_…), or the name of a variable.
  pattern*: string. Regular expression (RE2), applied to each line.
  context_lines: integer 0..100. Lines shown around each match (default 5).
  start_line: integer. First line searched, from 1.
  end_line: integer. Last line searched, included.
  ignore_case: boolean. Let case make no difference.
artifact_read: Read lines of stored data. Replies are numbered, bounded, and say how to go on.
  artifact_id*: string. Id of the artifact (art_…), or the name of a variable.
  start_line: integer. First line, from 1.
  end_line: integer. Last line, included; left out: as many as fit.
  start_column: integer 1... Character of the first line to begin with, from 1.
list_artifacts: List what is stored in this conversation.
  prefix: string. Only names or ids that begin with this.
  limit: integer 1..100. Most entries (default 20).
  after: string. Go on behind this pointer, as an incomplete reply says.
get_artifact: Get what was stored, by pointer or name.
  pointer_or_name*: string. Pointer, id or name of what was stored.
  offset: integer 0... Characters to skip, as an incomplete reply says.
store_artifact: Keep a text or JSON under a name, for later calls.
  name*: string. Name to find it by; storing the name again makes it mean the newer value.
  value*: anything. The text or JSON to keep.
  content_type: string. MIME type, if it matters.
retrieve_offloaded_content: Fetch offloaded content by reference: search it by pattern, read a line_range, or get all of it.
  reference*: string. Reference from the offloaded result (art_…).
  pattern: string. Regular expression (RE2) or keyword to search for.
  line_range: object. Lines to read or search, 1-based, both included.
    start: integer.
    end: integer.
    column: integer. Character of the first line to begin with, from 1.
  context_lines: integer 0... Lines around each match (default 5); alone: so many lines from the top.\
""")


def test_only_the_sessions_tools_are_owned(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, tools=["artifact_read"])
    assert [name for name in ALL if session.owns(name)] == ["artifact_read"]
    assert not session.owns("my_tool") and not session.owns("")
    reply = session.call("code_interpreter", {"code": "1"})
    assert (reply.is_error, reply.content) == (
        True,
        "there is no tool 'code_interpreter' here; there are: artifact_read",
    )


# Arguments

CASES: list[tuple[str, Any, str]] = [
    ("artifact_read", None, "artifact_read: missing argument 'artifact_id'. It takes: artifact_id, start_line, end_line, start_column"),
    ("artifact_read", "", "missing argument 'artifact_id'"),
    ("artifact_read", {"artefact_id": "users"}, "artifact_read has no argument 'artefact_id'; did you mean 'artifact_id'? It takes:"),
    ("artifact_read", {"artifact_id": ["users", "x"]}, "artifact_read: artifact_id=['users', 'x']: expected text. It takes:"),
    ("artifact_read", {"artifact_id": "users", "start_line": "three"}, "start_line='three': expected a whole number. It takes:"),
    ("artifact_read", {"artifact_id": "users", "start_line": 1.5}, "start_line=1.5: expected a whole number. It takes:"),
    ("artifact_read", {"artifact_id": "users", "start_line": 0}, "line 0: lines are numbered from 1"),
    ("artifact_read", {"artifact_id": "users", "start_line": 5, "end_line": 4}, "the last line, 4, is before the first, 5"),
    ("artifact_read", {"artifact_id": "users", "start_line": 10**30}, "past the end: there are 3002 lines"),
    ("artifact_read", {"artifact_id": "users", "start_column": 0}, "start_column"),
    ("artifact_read", {"artifact_id": "nope"}, "no artifact or variable 'nope' in this conversation; there are: list_users, users, pagination"),
    ("artifact_read", {"artifact_id": "art_\0"}, "no artifact or variable"),
    ("artifact_read", {"artifact_id": "\ud800"}, "no artifact or variable"),
    ("artifact_read", {"artifact_id": "x" * 100_000}, "no artifact or variable 'xxx"),
    ("artifact_read", "{", "the arguments are no valid JSON: "),
    ("artifact_read", "[1]", "the arguments must be one JSON object, not list"),
    ("artifact_read", 5, "the arguments must be one JSON object, not int"),
    ("artifact_read", '{"artifact_id": "users", "artifact_id', "the arguments are no valid JSON: "),
    ("artifact_grep", {"artifact_id": "users"}, "missing argument 'pattern'"),
    ("artifact_grep", {"artifact_id": "users", "pattern": ""}, "pattern is empty"),
    ("artifact_grep", {"artifact_id": "users", "pattern": "x", "context_lines": 101}, "context_lines=101: expected a whole number from 0 to 100."),
    ("artifact_jq", {"artifact_id": "users"}, "missing argument 'expression'"),
    ("artifact_jq", {"artifact_id": "users", "expression": "map("}, "JqError: "),
    ("artifact_jq", {"artifact_id": "users", "expression": "x" * 20_001}, "the expression has 20,001 characters; at most 20,000 are taken"),
    ("artifact_jq", {"artifact_id": "LOG", "expression": "."}, "is text/plain, not JSON: artifact_jq cannot query it"),
    ("code_interpreter", {}, "missing argument 'code'"),
    ("list_artifacts", {"limit": 0}, "limit"),
    ("list_artifacts", {"limit": 101}, "limit"),
    ("list_artifacts", {"after": "art:nope"}, "after='art:nope' is no pointer in this conversation"),
    ("store_artifact", {"value": "x"}, "missing argument 'name'"),
    ("store_artifact", {"name": "", "value": "x"}, "expected text of 1 to 256 characters"),
    ("get_artifact", {}, "missing argument 'pointer_or_name'"),
    ("no_such_tool", {}, "there is no tool 'no_such_tool' here; there are: code_interpreter, "),
    ("", {}, "there is no tool '' here"),
    ("\0\ud800", {}, "there is no tool"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "content_type", "kind", "length"),
    [
        ('"foo"', "application/json", "string", "3"),
        ("1", "application/problem+json; charset=utf-8", "number", "1"),
        (" null ", "application/json", "null", "0"),
        ("[]", "text/json", "array", "0"),
    ],
)
def test_jq_takes_a_scalar_for_what_it_is(chat: Session, text: str, content_type: str, kind: str, length: str) -> None:
    """As a text, as bytes and above what is decoded here; by references too, which hand on text as it was stored."""
    big = text.replace("foo", "foo" * 400_000)
    kept = [chat.store_artifact(value, content_type=content_type) for value in (text, text.encode(), big)]
    for artifact in kept:
        asked = {
            name: chat.call("artifact_jq", {"artifact_id": artifact.id, "expression": name}) for name in (".", "type")
        }
        assert json.loads(asked["type"].text) == kind, asked
        assert not asked["."].is_error
        assert chat.resolve({"x": {"$var": artifact.id, "jq": "type"}}) == {"x": kind}
    for artifact in kept[:2]:
        assert chat.call("artifact_jq", {"artifact_id": artifact.id, "expression": "length"}).text == length
        assert chat.resolve({"x": {"$var": artifact.id, "jq": "."}}) == {"x": json.loads(text)}
        assert chat.resolve({"x": {"$var": artifact.id, "jq": "[.] | .[0]"}}) == {"x": json.loads(text)}


def test_jq_queries_a_document_of_json(engine: Engine, tenant: str) -> None:
    session = engine.session(
        "s", tenant=tenant, tools=ALL, policy=Policy.previews(max_result_tokens=100, preview_tokens=50)
    )
    data = b64encode(json.dumps({"rows": list(range(2_000))}).encode()).decode()
    resource = {"uri": "file:///rows.json", "mimeType": "application/json", "blob": data}
    session.process({"content": [{"type": "resource", "resource": resource}]}, tool="file")
    [artifact] = session.artifacts()
    assert artifact.kind == "document"
    assert session.call("artifact_jq", {"artifact_id": artifact.id, "expression": ".rows | add"}).text == "1999000"
    assert session.resolve({"n": {"$var": artifact.id, "jq": ".rows[-1]"}}) == {"n": 1_999}


def test_what_is_declared_json_and_is_none_says_where_it_ends(chat: Session) -> None:
    broken = chat.store_artifact('{"a":', content_type="application/json")
    reply = chat.call("artifact_jq", {"artifact_id": broken.id, "expression": ".a"})
    assert reply.text == "JqError: parse error: Unfinished JSON term at EOF at line 1, column 5"
    with pytest.raises(
        ToolError, match=r"is application/json, and what it says is no JSON \(Expecting value at line 1"
    ):
        chat.resolve({"x": {"$var": broken.id, "jq": ".a"}})
    assert chat.resolve({"x": {"$var": broken.id}}) == {"x": '{"a":'}


def test_a_lone_surrogate_is_picked_out_of_much_data(chat: Session) -> None:
    """jq's own programs read U+FFFD."""
    kept = chat.store_artifact([{"a": "\ud800x"}, *["y" * 1_000] * 1_500])
    assert chat.call("artifact_jq", {"artifact_id": kept.id, "expression": ".[0].a"}).text == '"\\ud800x"'
    computed = chat.call("artifact_jq", {"artifact_id": kept.id, "expression": 'first(.[] | select(.a?)) | .a + "y"'})
    assert computed.text == '"\ufffdxy"'


@pytest.mark.parametrize(("tool", "arguments", "message"), CASES)
def test_mistakes_are_replies(read: Session, tool: str, arguments: Any, message: str) -> None:
    if isinstance(arguments, dict) and arguments.get("artifact_id") == "LOG":
        arguments = arguments | {"artifact_id": artifact_of(read, 1)}
    before = read.context_tokens()
    reply = read.call(tool, arguments)
    assert reply.is_error
    assert message in reply.content
    assert len(reply.content) < 1_500
    assert read.context_tokens() == before + reply.tokens
    entry = read.ledger()[-1]
    assert (entry.kind, entry.tool, entry.is_error, entry.content) == ("reply", tool, True, reply.content)


@pytest.mark.parametrize(
    "arguments",
    [
        {"artifact_id": "users", "start_line": 2, "end_line": 3},
        {"artifact_id": "$users", "start_line": "2", "end_line": "3"},
        {"artifact_id": " users ", "start_line": 2.0, "end_line": 3, "start_column": None},
        '{"artifact_id": "users", "start_line": 2, "end_line": 3}',
        '"{\\"artifact_id\\": \\"users\\", \\"start_line\\": 2, \\"end_line\\": 3}"',
    ],
)
def test_arguments_whose_meaning_is_plain_are_taken(read: Session, arguments: Any) -> None:
    reply = read.call("artifact_read", arguments)
    assert not reply.is_error, reply.content
    lines = reply.content.splitlines()
    assert [json.loads(line.partition("|")[2].rstrip(",")) for line in lines[:2]] == records(2)


def test_every_way_to_name_the_data(read: Session) -> None:
    artifact = read.artifacts()[0]
    for key in (artifact.id, artifact.pointer, "list_users", "$list_users", "var_step_1"):
        reply = read.call("artifact_jq", {"artifact_id": key, "expression": ".users | length"})
        assert (reply.is_error, reply.content) == (False, "3000")
    assert read.call("artifact_jq", {"artifact_id": "users", "expression": "length # a comment"}).content == "3000"


@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
def test_answers_are_exact_over_all_of_the_data(read: Session) -> None:
    log = artifact_of(read, 1)
    jq = read.call("artifact_jq", {"artifact_id": "users", "expression": "map(.id) | add"})
    assert jq.content == str(sum(range(3_001)))
    assert read.call("artifact_jq", {"artifact_id": "users", "expression": ".[] | select(.id > 5000)"}).content == (
        "[no output: the filter selected nothing]"
    )
    hit = read.call("artifact_grep", {"artifact_id": log, "pattern": "^012345 ", "context_lines": 0}).content
    assert hit.startswith("[1 match for /^012345 /]") and "12346| 012345 the quick" in hit.replace("> ", "")
    read = read.call("artifact_read", {"artifact_id": log, "start_line": 20_001, "end_line": 20_001}).content
    assert read.partition("| ")[2] == prose(2_000_000).splitlines()[20_000]


# Replies


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("artifact_read", {"artifact_id": "users"}),
        ("artifact_read", {"artifact_id": "LOG"}),
        ("artifact_grep", {"artifact_id": "users", "pattern": "."}),
        ("artifact_grep", {"artifact_id": "LOG", "pattern": "fox", "context_lines": 100}),
        ("artifact_jq", {"artifact_id": "users", "expression": "."}),
        ("artifact_jq", {"artifact_id": "users", "expression": ".[]"}),
        ("artifact_jq", {"artifact_id": "users", "expression": "error(\"x\" * 100000)"}),
        ("code_interpreter", {"code": "users"}),
        ("code_interpreter", {"code": "print(users)"}),
        ("get_artifact", {"pointer_or_name": "list_users"}),
        ("get_artifact", {"pointer_or_name": "LOG"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("limit", [100, 400, 4_000])
def test_replies_are_bounded_and_say_how_to_go_on(
    engine: Engine, read: Session, tool: str, arguments: Any, limit: int
) -> None:
    arguments = {key: artifact_of(read, 1) if value == "LOG" else value for key, value in arguments.items()}
    session = engine.session(read.id, tenant=read.tenant, policy=Policy(reply_tokens=limit), tools=ALL)
    reply = session.call(tool, arguments)
    assert reply.tokens <= limit
    assert session.ledger()[-1].tokens == reply.tokens
    if not reply.is_error:
        assert any(word in reply.content for word in ("INCOMPLETE", "truncated")), reply.content[-300:]


@pytest.mark.parametrize(
    ("expression", "content"),
    [
        (".[1].id", "12345678901234567891"),
        (".[1:3] | map(.id)", "[12345678901234567891,12345678901234567892]"),
        (".[998:][].id", "12345678901234568888\n12345678901234568889"),
        ("length", "1000"),
        (".[0] | keys", '["id","n"]'),
        ("map(.n)[0]", '"xxxxxxxxxxxxxxxxxxxx"'),
        ("map(.id) | unique | length", "1000"),
        ("map(.id) | max", "12345678901234568889"),
        ("map(select(.id == 12345678901234567891)) | length", "1"),
        ("map(.id | tojson) | unique | length", "1000"),
        ("reduce .[].id as $id (0; [., $id] | max)", "12345678901234568889"),
        ('[.[] | select(.n | test("x"))][7].id', "12345678901234567897"),
        ("map(.id) | (max - min)", "999"),
        ("map(.id % 1000) | unique | length", None),
        ("map(select(.id / 2 > 5)) | length", "1000"),
        ("map(.id | floor)[0]", "12345678901234567890"),
        ("map(.id | sqrt) | unique | length", None),
        ("map(select(.id % 2 == 0)) | length", None),
        ("map(.id | tostring | .[-1:]) | unique | length", None),
    ],
)
def test_integers_that_are_no_floats_are_exact_or_marked(
    local: Engine, tenant: str, expression: str, content: Any
) -> None:
    session = local.session("chat", tenant=tenant, context_window=200_000, tools=ALL)
    ids = [12345678901234567890 + i for i in range(1000)]
    session.process({"users": [{"id": i, "n": "x" * 20} for i in ids]}, tool="list_users")
    reply = session.call("artifact_jq", {"artifact_id": "users", "expression": expression})
    assert not reply.is_error, reply.content
    if content is not None:
        assert reply.content == content
    else:
        note = "\n[jq rounds integers beyond 2**53 where it computes with them, as here: code_interpreter does not]"
        assert reply.content.endswith(note)


def test_one_output_larger_than_a_reply_may_hold_is_no_empty_one(local: Engine, tenant: str) -> None:
    session = local.session("chat", tenant=tenant, context_window=200_000, tools=ALL)
    session.process({"rows": ["x" * 1_000] * 3_000}, tool="big")
    for expression in (".", ". + {}"):
        reply = session.call("artifact_jq", {"artifact_id": "big", "expression": expression})
        assert reply.content.startswith("[INCOMPLETE: the first output alone is larger than 1,048,576 bytes."), (
            expression
        )


def test_a_name_means_the_same_everywhere(local: Engine, tenant: str) -> None:
    session = local.session("chat", tenant=tenant, context_window=200_000, tools=ALL)
    session.process({"users": records(2_000)}, tool="list_users")
    kept = json.loads(session.call("store_artifact", {"name": "users", "value": [1, 2, 3]}).content)
    assert kept["note"] == "the name means the variable users: get this by its pointer"
    assert "note" not in json.loads(session.call("store_artifact", {"name": "mine", "value": [1, 2]}).content)

    def length(key: str) -> set[int]:
        got = session.call("get_artifact", {"pointer_or_name": key}).content
        return {
            len(session.resolve({"x": {"$var": key}})["x"]),
            int(session.call("artifact_jq", {"artifact_id": key, "expression": "length"}).content),
            int(session.call("artifact_jq", {"artifact_id": key, "expression": "length + 0"}).content),
            2_000 if '"field_0"' in got else len(json.loads(got)),
        }

    assert length("users") == length("$users") == {2_000}
    assert session.call("code_interpreter", {"code": "len(users)"}).content == "2000"
    assert length(kept["pointer"]) == {3}
    assert length("mine") == {2}


@pytest.mark.parametrize(
    ("module", "tool", "argument"),
    [(readers, "artifact_grep", "artifact_id"), (retrieval, "retrieve_offloaded_content", "reference")],
)
def test_a_search_is_made_once_however_often_its_answer_is_fitted(
    local: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch, module: Any, tool: str, argument: str
) -> None:
    session = local.session("chat", tenant=tenant, policy=Policy(reply_tokens=150), tools=ALL)
    artifact = session.store_artifact("日本語のテキスト行 エラー\n" * 3_000)
    made = []

    def once(*given: Any, **options: Any) -> Found:
        made.append(search(*given, **options))
        return made[-1]

    monkeypatch.setattr(module, "search", once)
    reply = session.call(tool, {argument: artifact.id, "pattern": "エラー"})
    assert len(made) == 1
    assert len({made[0].render(size).text for size in (400, 450)}) == 2
    assert reply.content.startswith("[more than 1,000 matches for /エラー/; INCOMPLETE: first ")
    assert reply.tokens <= 150


@pytest.mark.postgresql("a unique index with a condition finds the same call again")
def test_a_call_is_answered_once(stocked: Session, engine: Engine) -> None:
    def call(code: str, call_id: str | None) -> tuple[int | None, str]:
        reply = stocked.call("code_interpreter", {"code": code}, call_id=call_id)
        return reply.step, reply.content

    first = call("import random\nrandom.random()", "c")
    assert call("import random\nrandom.random()", "c") == first
    assert call("import random\nrandom.random()", "d") != first
    assert call("1 + 1", "c") == (5, "2")
    assert call("1 + 1", "")[0] == 6 and call("1 + 1", None)[0] == 7 and call("1 + 1", "")[0] == 8
    again = engine.session(stocked.id, tenant=stocked.tenant)
    assert again.call("code_interpreter", {"code": "import random\nrandom.random()"}, call_id="c").content == first[1]


# Keepers


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_store_get_and_list(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, tools=ALL)
    assert session.call("list_artifacts", {}).content == "[]"
    stored = json.loads(session.call("store_artifact", {"name": "r", "value": '{"a": [1, 2]}'}).content)
    assert list(stored) == ["pointer", "preview", "sizeBytes", "name"]
    assert (stored["name"], stored["sizeBytes"], stored["preview"]) == ("r", 13, '{"a": [1, 2]}')
    for key in ("r", stored["pointer"], stored["pointer"].replace("art:", "art_")):
        assert json.loads(session.call("get_artifact", {"pointer_or_name": key}).content) == {"a": [1, 2]}
    assert (
        session.call("get_artifact", {"pointerOrName": "r"}).content
        == session.call("get_artifact", {"name": "r"}).content
    )
    missing = session.call("get_artifact", {"pointer_or_name": "zz"})
    assert (missing.is_error, missing.content) == (False, "[no artifact found for 'zz']")
    session.call("store_artifact", {"name": "r", "value": "newer"})
    assert session.call("get_artifact", {"pointer_or_name": "r"}).content == "newer"
    assert json.loads(session.call("get_artifact", {"pointer_or_name": stored["pointer"]}).content) == {"a": [1, 2]}
    listed = json.loads(session.call("list_artifacts", {}).content)
    assert [entry["name"] for entry in listed] == ["r", "r"]
    assert list(listed[0]) == ["pointer", "name", "sizeBytes", "preview", "contentType", "storedAt"]
    assert abs(listed[0]["storedAt"] / 1000 - session.artifacts()[0].stored_at.timestamp()) < 1


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_what_was_deleted_between_staging_and_commit_is_written_again(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = "the same bytes\n" * 50
    other, session = engine.session("other", tenant=tenant), engine.session("chat", tenant=tenant, tools=ALL)
    other.store_artifact(value)
    real = staging.stage

    def stage(*given: Any) -> int:
        blob_id = real(*given)
        monkeypatch.setattr(staging, "stage", real)
        other.end()  # the same bytes: known when they were staged, gone when they are to be referred to
        return blob_id

    monkeypatch.setattr(staging, "stage", stage)
    reply = session.call("store_artifact", {"name": "mine", "value": value})
    assert not reply.is_error, reply.content
    kept = session.get_artifact("mine")
    assert kept is not None
    assert kept.value == value


@pytest.mark.postgresql("order and prefixes are those of the database's collation")
def test_long_lists_are_read_page_by_page(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant, tools=ALL)
    for i in range(45):
        session.store_artifact(f"value {i}", name=f"name {i:02}")
    seen: list[str] = []
    arguments: dict[str, Any] = {"prefix": "name"}
    for _ in range(10):
        content = session.call("list_artifacts", arguments).content
        listed = json.loads(content)
        seen += [entry["name"] for entry in listed if isinstance(entry, dict)]
        if isinstance(rest := listed[-1], dict):
            break
        assert rest.startswith(f"[INCOMPLETE: {45 - len(seen)} more.")
        arguments["after"] = rest.partition('after="')[2].partition('"')[0]
    assert seen == [f"name {i:02}" for i in range(45)]


def test_other_sessions_and_tenants_are_not_found(engine: Engine, stocked: Session) -> None:
    artifact = stocked.artifacts()[0]
    for other in (
        engine.session("other", tenant=stocked.tenant, tools=ALL),
        engine.session(stocked.id, tenant=stocked.tenant + "x", tools=ALL),
    ):
        for key in (artifact.id, artifact.pointer, "list_users", "users", "$users", "var_step_1"):
            for tool, rest in (
                ("artifact_read", {}),
                ("artifact_grep", {"pattern": "x"}),
                ("artifact_jq", {"expression": "."}),
            ):
                reply = other.call(tool, {"artifact_id": key, **rest})
                assert reply.content == f"no artifact or variable {key!r} in this conversation; nothing is stored yet"
            assert "no artifact found" in other.call("get_artifact", {"pointer_or_name": key}).content
            assert other.get_artifact(key) is None
        assert other.call("list_artifacts", {}).content == "[]"
        assert other.variables() == other.artifacts() == []


def test_without_a_sandbox_its_tools_are_not_offered(tmp_path: Any, sandbox: Sandbox) -> None:
    with Engine(f"sqlite:///{tmp_path}/b.db", interpreter=sandbox) as engine:
        engine._sandbox = None
        session = engine.session("s")
        assert [tool["name"] for tool in session.tools("anthropic")] == ["artifact_grep", "artifact_read"]
        result = session.process(page(3_000), tool="t")
        assert result.route == "artifact"
        assert "code_interpreter" not in result.content and "artifact_jq" not in result.content


def test_retrieval_speaks_of_its_own_parameters(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, policy=Policy.previews(), context_window=200_000)
    result = session.process("\n".join(["x" * 60_000] + ["word " * 20] * 5_000), tool="log")
    reference = result.artifacts[0].id
    calls: list[dict[str, Any]] = [
        {"line_range": {"start": 2, "end": 5_001}},
        {"line_range": {"start": 1, "end": 3}},
        {"line_range": {"start": 9_999, "end": 10_000}},
        {"line_range": {"start": 5, "end": 4}},
        {"pattern": "word"},
        {},
    ]
    replies = [session.call("retrieve_offloaded_content", {"reference": reference, **more}).content for more in calls]
    for reply in replies:
        assert not re.search("start_line|end_line|start_column|artifact_", reply)
    line = int(re.search(r"Go on with line_range \{start: (\d+), end: 5001\}", replies[0])[1])  # type: ignore[index]
    going_on = {"reference": reference, "line_range": {"start": line, "end": 5_001}}
    assert session.call("retrieve_offloaded_content", going_on).content.lstrip().startswith(f"{line}| word")
    assert re.search(
        r"inside line 1 of 5001\. Go on with line_range \{start: 1, end: 3, column: \d+\}\.\]$", replies[1]
    )
    assert "Give a pattern or a line_range.]" in replies[5]
