"""Replies of the session's own tools are bounded for any data, say INCOMPLETE if they are cut, and can be continued."""

from __future__ import annotations

import base64
import json
import random
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from material import records

from byref import Engine, Policy, Session, ToolReply
from byref.policy import TOOL_NAMES

ALL = list(TOOL_NAMES)
LIMITS = [100, 1_000, 4_000]
NOISE = random.Random(7)

DATA: dict[str, Any] = {
    "one line of 10 MB": "needle " + "x" * 10_000_000 + " needle",
    "CJK": "日本語のテキスト needle エラー\n" * 5_000,
    "a long line of CJK": "漢字" * 100_000 + "needle" + "漢字" * 100_000,
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈needle" * 20_000,
    "rare letters": "".join(chr(NOISE.randrange(0x10000, 0x10FFFF)) for _ in range(50_000)) + "needle",
    "control characters": "\x00\x01\x1b[31mneedle\r\x7f\x85\u2028\n" * 20_000,
    "base64": base64.b64encode(NOISE.randbytes(300_000)).decode() + "needle",
    "short lines": "needle\n" * 100_000,
    "empty lines": "needle" + "\n" * 300_000,
    "records": {"rows": records(5_000), "note": "needle"},
    "one deep string": {"text": "needle\n" * 50_000},
    "wide": {f"key {i} {'漢' * 20}": i for i in range(20_000)} | {"needle": 1},
    "numbers": [[i, i * 1.5] for i in range(30_000)] + ["needle"],
}


@pytest.fixture(scope="module")
def kept(local: Engine) -> dict[str, str]:
    """The data, stored once: pointer by name."""
    session = local.session("replies", tenant="replies", tools=ALL)
    return {name: session.store_artifact(value, name=name).pointer for name, value in DATA.items()}


def opened(local: Engine, limit: int) -> Session:
    return local.session("replies", tenant="replies", tools=ALL, policy=Policy(reply_tokens=limit))


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("artifact_read", {"artifact_id": "KEY"}),
    ("artifact_read", {"artifact_id": "KEY", "start_column": 5}),
    ("artifact_grep", {"artifact_id": "KEY", "pattern": "needle"}),
    ("artifact_grep", {"artifact_id": "KEY", "pattern": ".", "context_lines": 100}),
    ("artifact_grep", {"artifact_id": "KEY", "pattern": "👩‍👩‍👧‍👦(" * 50}),
    ("artifact_jq", {"artifact_id": "KEY", "expression": "."}),
    ("get_artifact", {"pointer_or_name": "KEY"}),
    ("get_artifact", {"pointer_or_name": "KEY", "offset": 50}),
    ("retrieve_offloaded_content", {"reference": "KEY"}),
    ("retrieve_offloaded_content", {"reference": "KEY", "pattern": "needle", "context_lines": 50}),
    ("retrieve_offloaded_content", {"reference": "KEY", "context_lines": 10_000}),
    ("retrieve_offloaded_content", {"reference": "KEY", "line_range": {"start": 1, "end": 9_999_999}}),
]


def is_marked(content: str) -> bool:
    return "INCOMPLETE" in content


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.slow
def test_every_reply_is_bounded_and_says_so(local: Engine, kept: dict[str, str], name: str, limit: int) -> None:
    session = opened(local, limit)
    for tool, arguments in CALLS:
        given = {key: kept[name] if value == "KEY" else value for key, value in arguments.items()}
        reply = session.call(tool, given)
        assert reply.tokens <= limit, (tool, arguments, reply.tokens)
        assert reply.tokens == session._scope.count(reply.content)
        if reply.is_error or "matches for /👩" in reply.content:
            continue
        whole = re.match(r"\[[\d,]+ match(es)? for /[^\n]*/\]\n", reply.content)
        assert is_marked(reply.content) or whole, (tool, arguments, reply.content[-300:])
        assert "head and tail preserved" not in reply.content or tool == "retrieve_offloaded_content", tool


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("limit", [100, pytest.param(1_000, marks=pytest.mark.slow), 4_000])
@pytest.mark.parametrize("name", ["CJK", "emoji", "base64", "records", "control characters", "rare letters"])
def test_reading_on_as_replies_say_gives_all_of_the_data(
    local: Engine, kept: dict[str, str], name: str, limit: int
) -> None:
    session = opened(local, limit)
    stored = session.get_artifact(kept[name])
    assert stored is not None
    text = json.dumps(DATA[name], separators=(",", ":")) if stored.kind == "json" else DATA[name]
    got, offset = "", 0
    for _ in range(12):
        content = session.call("get_artifact", {"pointer_or_name": kept[name], "offset": offset}).content
        page, found, note = content.rpartition("\n[INCOMPLETE: ")
        if not found:
            got += content
            break
        got += page
        going_on = int(re.search(r"Go on with offset=(\d+)\.", note)[1])  # type: ignore[index]
        assert going_on == len(got) > offset
        offset = going_on
    assert text.startswith(got)
    line, column, rows = 1, 1, 0
    for _ in range(12):
        arguments = {"artifact_id": kept[name], "start_line": line, "start_column": column}
        content = session.call("artifact_read", arguments).content
        note = re.search(r"\[INCOMPLETE: cut .*Go on with start_line=(\d+)(?:, start_column=(\d+))?\.\]$", content)
        if note is None:
            break
        before = line, column
        line, column = int(note[1]), int(note[2] or 1)
        assert (line, column) > before
        rows += 1
    assert rows


def test_a_search_goes_on_as_it_says(local: Engine, kept: dict[str, str]) -> None:
    session = opened(local, 1_000)
    for tool, key, follow in (
        ("artifact_grep", "artifact_id", r"start_line=(\d+)\]"),
        ("retrieve_offloaded_content", "reference", r"line_range \{start: (\d+), end: \d+\}\]"),
    ):
        line = 1
        for _ in range(3):
            at = {"start_line": line} if tool == "artifact_grep" else {"line_range": {"start": line, "end": 999_999}}
            content = session.call(tool, {key: kept["short lines"], "pattern": "needle", **at}).content
            assert content.startswith("[more than 1,000 matches for /needle/; INCOMPLETE: first ")
            marks = [int(n) for n in re.findall(r"^> *(\d+)\|", content, re.MULTILINE)]
            assert marks == list(range(line, line + len(marks)))
            line = int(re.search(follow, content)[1])  # type: ignore[index]
            assert line == marks[-1] + 1


@pytest.mark.parametrize("limit", LIMITS)
def test_lists_of_anything_are_bounded_and_go_on(local: Engine, tenant: str, limit: int) -> None:
    session = local.session("list", tenant=tenant, tools=ALL, policy=Policy(reply_tokens=limit))
    names = ["👩‍👩‍👧‍👦" * 30, "\0\ud800 \\", "漢" * 256, "plain", "x" * 256]
    for name in names:
        session.store_artifact("👩‍👩‍👧‍👦" * 500, name=name, content_type="a/" + "é" * 200, preview_chars=10_000)
    seen: list[str] = []
    arguments: dict[str, Any] = {}
    for _ in names:
        reply = session.call("list_artifacts", arguments)
        assert reply.tokens <= limit
        *entries, last = json.loads(reply.content)
        assert entries or len(seen) == len(names) - 1
        if not isinstance(last, str):
            seen += [entry["pointer"] for entry in [*entries, last]]
            break
        seen += [entry["pointer"] for entry in entries]
        note = last.removeprefix("[INCOMPLETE: ")
        assert note.startswith(f"{len(names) - len(seen)} more.")
        arguments = {"after": re.search(r'after="(.+?)"', note)[1]}  # type: ignore[index]
    assert seen == [artifact.pointer for artifact in session.artifacts()]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        (".rows", list),
        (".rows | map(.id)", list),
        ('[.rows[].id | "漢字 \\(.)"]', list),
        ("[.rows]", list),
        (". | del(.rows[2000:])", dict),
        ("{rows: .rows[:300], note, more: {deep: [.rows[:300]]}}", dict),
        ("{deep: {deeper: {all: .rows[0:900]}}}", dict),
        ("[.rows[] | 9007199254740993.5 + .id]", list),
    ],
)
def test_one_array_or_object_parses_at_any_length(
    local: Engine, kept: dict[str, str], expression: str, kind: type, limit: int
) -> None:
    reply = opened(local, limit).call("artifact_jq", {"artifact_id": kept["records"], "expression": expression})
    assert reply.tokens <= limit and not reply.is_error
    told = json.loads(reply.content)
    assert type(told) is kind
    notes = [one for one in told if isinstance(one, str)] if kind is list else told.values()
    assert any(str(note).startswith("[INCOMPLETE: ") for note in notes)


def test_an_array_is_read_on_as_its_reply_says(local: Engine, kept: dict[str, str]) -> None:
    session, expression, got = opened(local, 4_000), ".rows | map(.id)", list[int]()
    for _ in range(12):
        arguments = {"artifact_id": kept["records"], "expression": f"{expression} | .[{len(got)}:]"}
        *elements, last = json.loads(session.call("artifact_jq", arguments).content)
        got += elements
        if not isinstance(last, str):
            got.append(last)
            break
        more = re.search(r"(\d[\d,]*) of ([\d,]+) elements of the output shown\. Go on with \| \.\[(\d+):\]", last)
        assert more is not None and int(more[3]) == len(elements)
    assert got == [row["id"] for row in DATA["records"]["rows"]]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
TARGETS = st.sampled_from(["records", "$records", "CJK", "one deep string", "nope", "art_x", "", "\ud800", "\0"])
LINES = st.integers(-2, 10**20) | st.text(max_size=4)
PATTERNS = st.text(st.sampled_from("ab.*+?()[]{}|\\^$0123漢👩\n"), max_size=12)
MEANT = st.fixed_dictionaries(
    {},
    optional={
        "artifact_id": TARGETS,
        "reference": TARGETS,
        "pointer_or_name": TARGETS,
        "pattern": PATTERNS,
        "context_lines": LINES,
        "start_line": LINES,
        "end_line": LINES,
        "start_column": LINES,
        "offset": LINES,
        "line_range": ANYTHING | st.fixed_dictionaries({"start": LINES, "end": LINES}),
        "name": st.text(max_size=5),
        "value": ANYTHING,
        "prefix": st.text(max_size=3),
        "limit": st.integers(-1, 200),
        "after": TARGETS,
        "ignore_case": st.booleans() | st.text(max_size=4),
    },
)


@settings(
    max_examples=settings.default.max_examples * 5 // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    name=st.sampled_from(
        [n for n in ALL if n not in ("code_interpreter", "artifact_jq")] + ["", "x" * 5_000, "\0\ud800"]
    )
    | ANYTHING,
    arguments=MEANT | ANYTHING | st.text(max_size=50) | MEANT.map(lambda value: json.dumps(value, default=str)),
    limit=st.sampled_from(LIMITS),
)
def test_whatever_is_called_a_bounded_reply_comes_back(
    local: Engine, kept: dict[str, str], name: Any, arguments: Any, limit: int
) -> None:
    session = opened(local, limit)
    assert session.owns(name) == (name in ALL)
    reply = session.call(name, arguments)
    assert type(reply) is ToolReply
    assert reply.tokens <= limit
    for format in ("openai", "anthropic"):
        reply.message(format, "c")["content"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [object(), {1: 2}, {"artifact_id": object()}, {"artifact_id": "CJK", "start_line": 10**5_000}, [[]], b"\xff", 1.5, range(3)],
)  # fmt: skip
def test_a_hosts_own_objects_are_no_exceptions_either(local: Engine, kept: dict[str, str], arguments: Any) -> None:
    session = opened(local, 100)
    for name in (*ALL, None, 5, [], {}):
        reply = session.call(name, arguments)
        assert reply.is_error or name == "list_artifacts" or reply.content.startswith("[no artifact found for ")
        assert reply.tokens <= 100
