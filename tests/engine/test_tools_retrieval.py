"""retrieve_offloaded_content: its modes and the form of its results."""

from __future__ import annotations

import re
from typing import Any

import pytest

from byref import Engine, Policy, Session, ToolReply

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


def test_a_search_has_the_documented_form(preview: Session) -> None:
    content = retrieve(preview, FIFTY_ONE, pattern="admin", context_lines=2).content
    assert content.splitlines() == [
        "[2 matches for /admin/]",
        "",
        "   1| user number 1",
        "   2| user number 2",
        ">  3| admin number 3",
        "   4| user number 4",
        "   5| user number 5",
        "---",
        "  47| user number 47",
        "  48| user number 48",
        "> 49| admin number 49",
        "  50| user number 50",
        "  51| user number 51",
    ]


def test_five_lines_around_are_the_default(preview: Session) -> None:
    content = retrieve(preview, FIFTY_ONE, pattern="admin number 3").content
    assert numbers(content) == [*range(1, 9)]


def test_patterns_are_regular_expressions_or_literal_text(preview: Session) -> None:
    text = "root login\nplain\nfoo(bar)\nadmin login"
    assert retrieve(preview, text, pattern="admin|root").content.startswith(
        "[2 matches for /admin|root/]\n\n>  1| root"
    )
    literal = retrieve(preview, text, pattern="foo(", context_lines=0).content
    assert literal.startswith("[1 match for /foo(/, searched as literal text (no usable regular expression: ")
    assert "foo(bar)" in literal
    assert retrieve(preview, text, pattern="nothing").content == "[0 matches for /nothing/]"


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


def test_a_search_inside_of_lines(preview: Session) -> None:
    reply = retrieve(preview, FIFTY_ONE, pattern="admin", line_range={"start": 1, "end": 10})
    assert reply.content.startswith("[1 match for /admin/]\n")
    assert max(numbers(reply.content)) <= 10


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
