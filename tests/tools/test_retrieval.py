"""retrieve_offloaded_content: its modes and the form of its results."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from byref import Engine, Policy, Session, ToolReply
from byref.policy import TOOL_NAMES

FIFTY_ONE = "\n".join(f"{'admin' if n in (3, 49) else 'user'} number {n}" for n in range(1, 52))


@pytest.fixture
def preview(local: Engine, tenant: str) -> Session:
    """A conversation with the preset's tool."""
    return local.session("s", tenant=tenant, policy=Policy.previews())


def retrieve(session: Session, content: Any, **arguments: Any) -> ToolReply:
    reference = session.store_artifact(content).id
    return session.call("retrieve_offloaded_content", {"reference": reference, **arguments})


def numbers(content: str) -> list[int]:
    return [int(number) for number in re.findall(r"^[> ] *(\d+)\| ", content, re.MULTILINE)]


def test_five_lines_around_are_the_default(preview: Session) -> None:
    content = retrieve(preview, FIFTY_ONE, pattern="admin number 3").content
    assert numbers(content) == [*range(1, 9)]


def test_lines_are_numbered_from_one_and_both_ends_included(preview: Session) -> None:
    assert numbers(retrieve(preview, FIFTY_ONE, line_range={"start": 2, "end": 4}).content) == [2, 3, 4]
    assert numbers(retrieve(preview, FIFTY_ONE, line_range={"start": 50}).content) == [50, 51]
    assert numbers(retrieve(preview, FIFTY_ONE, line_range={"start": 50, "end": 99}).content) == [50, 51]


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"start": 0, "end": 4}, "line 0: lines are numbered from 1"),
        ({"start": 5, "end": 4}, "the last line, 4, is before the first, 5"),
        ({"start": 52, "end": 60}, "line 52 is past the end: there are 51 lines"),
    ],
)
@pytest.mark.parametrize("more", [{}, {"pattern": "x"}])
def test_lines_that_are_not_there(preview: Session, span: dict[str, int], message: str, more: dict[str, str]) -> None:
    reply = retrieve(preview, FIFTY_ONE, line_range=span, **more)
    assert (reply.is_error, reply.content) == (True, message)


def test_context_alone_is_the_head(preview: Session) -> None:
    assert numbers(retrieve(preview, FIFTY_ONE, context_lines=7).content) == [*range(1, 8)]
    assert numbers(retrieve(preview, FIFTY_ONE, context_lines=700).content) == [*range(1, 52)]


def test_the_reference_alone_is_everything(preview: Session) -> None:
    value = {"rows": [{"id": i} for i in range(500)]}
    assert retrieve(preview, FIFTY_ONE).content == FIFTY_ONE
    assert retrieve(preview, value).content.startswith('{"rows":[{"id":0},')
    big = retrieve(preview, "line\n" * 2_000_000)
    assert "[INCOMPLETE: " in big.content
    assert big.content.endswith("the stored form has 2,000,000 lines. Give a pattern or a line_range.]")


@pytest.mark.parametrize(
    ("lines", "told"), [(1_000, "1,000"), (1_001, "more than 1,000"), (100_000, "more than 1,000")]
)
def test_many_matches_are_cut_with_their_number(preview: Session, lines: int, told: str) -> None:
    content = retrieve(preview, "x\n" * lines, pattern=".", context_lines=0).content
    assert content.startswith(
        f"[{told} matches for /./; INCOMPLETE: first 50 shown. Narrow the pattern, or go on with line_range {{start: 51, "
    )
    assert numbers(content) == [*range(1, 51)]


def test_a_reference_is_needed_and_has_to_be_known(preview: Session) -> None:
    missing = preview.call("retrieve_offloaded_content", {"pattern": "x"})
    assert missing.is_error and "missing argument 'reference'" in missing.content
    unknown = preview.call("retrieve_offloaded_content", {"reference": "art_nope"})
    assert unknown.is_error and "'art_nope'" in unknown.content


ONE_LINE = {
    "json": json.dumps([{"id": i, "name": f"user {i} é漢\U0001f600", "path": "a\\b"} for i in range(6_000)], ensure_ascii=False),
    "text": "".join(f"{i} words é漢\U0001f600, " for i in range(15_000)),
}  # fmt: skip


def paged(session: Session, tool: str, first: dict[str, Any], going_on: str) -> str:
    """All that a tool gives, as each of its replies says how to go on."""
    got, arguments = "", first
    for _ in range(200):
        content = session.call(tool, arguments).content
        page, cut, note = content.rpartition("\n[INCOMPLETE: ")
        page = (page if cut else content).removesuffix("\n")
        got += page.removeprefix("   1| ") if "line_range" in first or "start_line" in first else page
        if not cut:
            return got
        found = re.search(going_on, note)
        assert found is not None, note
        written = re.sub(r"(\w+)(?=[:=])", r'"\1"', found[1]).replace("=", ":")
        arguments = {**first, **json.loads(f"{{{written}}}")}
    raise AssertionError("there is no end")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "came"),
    [
        ("json", "as an output"),
        ("text", "stored"),
        pytest.param("json", "stored", marks=pytest.mark.slow),
        pytest.param("text", "as an output", marks=pytest.mark.slow),
    ],
)
def test_one_line_is_read_to_its_end_by_every_reader(local: Engine, tenant: str, form: str, came: str) -> None:
    text = ONE_LINE[form]
    session = local.session(f"{form} {came}", tenant=tenant, policy=Policy.previews(), tools=list(TOOL_NAMES))
    [key] = (
        [session.store_artifact(text).id]
        if came == "stored"
        else [a.id for a in session.process(text, tool="t").artifacts]
    )
    line = {"start": 1, "end": 1}
    assert len(text.encode()) > 300_000 and "\n" not in text
    assert text == paged(
        session,
        "artifact_read",
        {"artifact_id": key, "start_line": 1},
        r"Go on with (start_line=1, start_column=\d+)\.",
    )
    assert text == paged(session, "get_artifact", {"pointer_or_name": key}, r"Go on with (offset=\d+)\.")
    ours = {"reference": key, "line_range": line}
    assert text == paged(
        session, "retrieve_offloaded_content", ours, r"Go on with line_range \{start: 1, end: 1, (column: \d+)\}\."
    )


def test_a_column_as_models_write_it(preview: Session) -> None:
    text = "0123456789" * 3 + "\nsecond"
    for arguments in (
        {"line_range": {"start": 1, "end": 1, "column": 8}},
        {"line_range": {"start": 1, "end": 1, "start_column": "8"}},
        {"line_range": {"start": 1, "end": 1}, "start_column": 8},
        {"start_line": 1, "end_line": 1, "start_column": 8},
        {"end_line": 1, "column": 8},
    ):
        assert retrieve(preview, text, **arguments).content == "   1| 78901234567890123456789"
    assert retrieve(preview, text, column=30).content == "   1| 9\n   2| second"
    for arguments, said in (
        ({"column": 31}, "start_column=31 is past the end of line 1"),
        ({"column": 0}, "columns are numbered from 1"),
        ({"column": 5, "pattern": "x"}, "searched for in whole lines"),
        ({"line_range": {"start": 1, "column": 2}, "start_column": 3}, "column"),
    ):
        reply = retrieve(preview, text, **arguments)
        assert reply.is_error and said in reply.content


def test_no_context_alone_is_no_line(preview: Session) -> None:
    reply = retrieve(preview, FIFTY_ONE, context_lines=0)
    assert reply.content == "[context_lines=0 alone: none of its 51 lines. Give a pattern or a line_range.]"
    assert numbers(retrieve(preview, FIFTY_ONE, context_lines=1).content) == [1]
    assert numbers(retrieve(preview, FIFTY_ONE, context_lines=0, pattern="admin").content) == [3, 49]
    assert numbers(retrieve(preview, FIFTY_ONE, context_lines=0, line_range={"start": 5, "end": 6}).content) == [5, 6]


def test_json_larger_than_a_reply_parses(preview: Session) -> None:
    rows = json.loads(ONE_LINE["json"])
    for content in (ONE_LINE["json"], rows, {"rows": rows, "total": 6_000}, json.dumps({"rows": rows}, indent=1)):
        reply = retrieve(preview, content)
        told = json.loads(reply.content)
        note = told[-1] if isinstance(told, list) else told["[INCOMPLETE]"]
        assert note.startswith("[INCOMPLETE: cut out of ") and reply.tokens <= 4_000
        if isinstance(told, dict):
            assert told["rows"][0] == rows[0] and told.get("total", 6_000) == 6_000
    small = json.dumps({"a": [1, 2]}, indent=2)
    assert retrieve(preview, small).content == small, "a text comes back as it was written"
