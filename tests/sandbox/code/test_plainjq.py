"""Programs that are answered without jq give the same answers as jq, with exact integers, or none."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
from typing import Any

import jq
import pytest
from plain_programs import document, random_program

from byref.references.projection import Unfit, projected
from byref_sandbox import Sandbox, jsontext
from byref_sandbox.code.picks import NotPlain
from byref_sandbox.code.plainjq import MAX_PROGRAM_CHARS, compiled, parsed
from byref_sandbox.run import bignumbers

DATA: dict[str, Any] = {
    "rows": [{"id": i, "tags": ["a", "b"][: i % 3], "in": {"b c": i * 2}} for i in range(7)],
    "none": None,
    "empty": [],
    "text": "áb\U0001f600",
    "z": 1.5,
    "a": True,
}
PICKS = [".", ".rows", ".rows[]", ".rows[2]", ".rows[-1].id", ".rows[9]", ".rows[1:3]", ".rows[-2:]", ".rows[:2]",
         ".rows[5:2]", ".rows[].tags[]", ".rows[].in.\"b c\"", ".rows[0][\"in\"]", ".none", ".none.x", ".none[0]",
         ".none[1:2]", ".nope", ".empty[]", ".empty", ".rows[0] | .in", "length", "keys", ".text | length",
         ".none | length", ".rows | keys", ".rows | length", ".rows | map(.id)", ".rows | map(.id)[:3]",
         ".rows | map(.tags[])", "[.rows[] | .id]", "[.rows[].id][1:]", "[.[]]", ".[]", ".rows[0].id, .rows[1].id",
         ".rows, .none", ".rows | map(length)", "keys[0]", "[.rows | length]", ".\"rows\"[0]",
         ".rows[0] | .[\"id\"]", ". | .", "[[.z]]", ".rows | .[3].id", "{rows}", "{rows, z}", "{ a : .z , \"b c\" : .rows[1].in }",
         "{a: .rows[-1], a: .z}", ".rows | map({id, n: .tags[0]})",
         ".rows[] | {id}", "{none}.none.x", "{if: .z, true, \"text\"}", ".none | {a}", "{a: [.rows[].id]}[\"a\"][2]",
         "{a: length}", "1", "-1", "\"x\"", "{a: 1}", ".rows?", ".text?", ".z[]?", ".text.x?", "[]", "[.z, .text, null]",
         ".rows | map(select(.id >= 2 and (.tags | length) > 0))", ".rows | map(select(.in.\"b c\" == 4 or .id != 3) | .id)",
         "[.rows[] | select(.tags | any(. == \"b\")) | .id]", ".rows | map(.id) | add", ".rows | map(.id) | add / length",
         ".rows | group_by(.tags | length) | map({n: length, of: (.[0].tags | length), sum: (map(.id) | add)})",
         ".rows | group_by(.id - 1 < 2, .tags[0]) | map(map(.id))", ".rows | sort_by(.tags[0], .id) | map(.id)",
         ".rows | unique_by(.tags[1]) | length", ".rows | min_by(.in.\"b c\").id",
         ".rows | max_by(.tags[0]).id", "[.rows[].tags[]] | unique | join(\"-\")", "[.rows[] | .id * 1.5] | max",
         "to_entries | map(.key)", "with_entries(select(.value != null)) | keys", ".none // \"no\"", "[.rows[].tags[1] // \"-\"]",
         "first(.rows[] | select(.id > 4)).id", "[limit(2; .rows[])] | length", ".rows | last.id", ".rows | reverse | map(.id)[0]",
         "any(.rows[]; .id == 6)", ".rows | all(.id >= 0)", ".text | type", ".text | startswith(\"á\")", ".text | ascii_upcase",
         "if .a then .z else .none end", "if .none then 1 elif .z > 1 then 2 else 3 end", ".z | floor", "-1 | tostring",
         ".rows | map(.id | select(. > 2) | . * 10)", "[.[] | numbers]", "[.[] | scalars]", "has(\"z\")", "add(.rows[].id)"]  # fmt: skip
NOT = ["", "..", "..rows", ".rows[", "map(", "map()", ".rows | select(.id)", ".a, .b | .c", ". + 1", ".rows[1:2:3]", ".[:]",
       "$x", "# .", ".a.[0]", "keys_unsorted", "maps", ".rows[.z]", "\"\\(1)\"", ".\"a\\nb\"",
       "." * 300, "[" * 100, ".text[0:1]", ".z | length", ".a | length", ".z.x", ".text | .x", ".none[]", ".z[]", ".a[0]",
       "{rows", "{}", "{.z}", "{1: .z}", "{rows,}", "{a: .rows[]}", "{rows} | {rows}", "{a: {rows}}", "{rows z}", "{a: .z | .}",
       "..\"rows\"", "{a: ..\"z\"}", ".rows[..\"z\"]", ".\frows", ".rows\v", ".rows\x1c", ".rows | {a: .x, a: 1}", "{a: .z.x, a: .z}",
       ".\"a\0b\"", ".\"\ud800\"", "{$x}", "{\"\\(.z)\": .z}", "{(.text): .z}", "{a: map(.id)}", "{a: .z.x}", ".rows[99999999999999999999]", "é", "\0", ". .", "map(.id", "-1.5", "-0", "0 * -1", "1 == 1 == 1", ". as $x | $x", "reduce .rows[] as $x (0; . + 1)", ".z += 1",
       ".rows == .rows", ".rows | sort", ".rows | sort_by(.in)", ".text + \"a\"", ".z / 0", "9007199254740991 + 1",
       "[.z, .z] | [., .]", "[{a: .z}, 1]", "limit(0; .rows[])", "limit(.z; .rows[])", ".rows[0].tags | join(.[0])", "(.rows[] == 1)",
       ".rows[].id == 1", "select(.rows[])", ".rows | sort_by(.in | .id, .id)", ".rows | group_by(.id, .tags | length)", ".text | test(\"a\")", "0.\"b\"", ".5", "1.", "1e3", ".text[0:1]?", ".text[0:1]",
       "if .a then .z end", ".z?//1", "map(.a, .b)", "has(0)", ".rows | has(0)", "select(.a; .b)", "nope", "nope(.a)", "not(.)",
       "(" * 61 + "." + ")" * 61, "if" * 200]  # fmt: skip


def picked(program: str, value: Any = DATA) -> list[Any]:
    return list(compiled(program)(value))


def as_jq(outputs: list[Any]) -> str:
    """The outputs as JSON, with 2.0 as jq writes it: 2."""
    return re.sub(r"\b([0-9]+)\.0\b", r"\1", json.dumps(outputs))


@pytest.fixture(scope="module")
def by_jq(sandbox: Sandbox) -> dict[str, list[Any]]:
    """What jq answers to each program, asked of it in one run: the answers to each in a list."""
    reply = sandbox.jq(",\n".join(f"[{program}]" for program in PICKS), DATA)
    assert reply.error is None, reply.error
    return dict(zip(PICKS, map(jsontext.decode, reply.outputs), strict=True))


@pytest.mark.every_case("jq is asked once for all of them")
@pytest.mark.parametrize("program", PICKS)
def test_the_same_as_jq(by_jq: dict[str, list[Any]], program: str) -> None:
    assert as_jq(picked(program)) == as_jq(by_jq[program])


def test_a_space_behind_a_dot_is_refused_as_by_jq(sandbox: Sandbox) -> None:
    program = " .rows [ 0 ] . id "
    assert sandbox.jq(program, DATA).error
    with pytest.raises(NotPlain):
        picked(program)


@pytest.mark.parametrize("program", NOT)
def test_all_else_is_for_jq(program: str) -> None:
    with pytest.raises(NotPlain):
        picked(program)


@pytest.mark.slow
def test_every_combination_is_the_same_as_jq_or_for_jq(sandbox: Sandbox) -> None:
    pieces = [".", ".rows", "[0]", "[]", "[1:]", "|", ",", "map(.id)", "length", "keys", "[", "]"]
    programs = ["".join(some) for some in itertools.product(pieces, repeat=3)]
    checked = 0
    for program in programs[::7]:
        try:
            outputs = picked(program)
        except NotPlain:
            continue
        reply = sandbox.jq(program, DATA)
        assert reply.error is None, (program, reply.error)
        assert outputs == [jsontext.decode(output) for output in reply.outputs], program
        checked += 1
    assert checked >= 10


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_random_programs_are_the_same_as_jq_or_for_jq(count: int) -> None:
    """What is answered is what jq answers, of all of a document and of as much of it as the program needs."""
    chance = random.Random(count)
    answered = 0
    for _ in range(count):
        text = random_program(chance)
        try:
            pick = parsed(text)
        except NotPlain:
            continue
        of_jq, need = jq.compile(text), pick.needs(None)  # which raises for what is no program of jq's
        for value in (document(chance), document(chance)):
            try:
                answers = list(pick.run(value))
            except NotPlain:
                continue
            if bignumbers.makes("", "", answers):
                continue  # by jq, of a number of the program's own
            outputs = as_jq(answers)
            encoded = json.dumps(value)
            assert outputs == as_jq(of_jq.input_text(encoded).all()), (text, value)
            with contextlib.suppress(Unfit, NotPlain):
                assert outputs == as_jq(list(pick.run(projected(encoded.encode(), need)))), (text, value)
            answered += 1
    assert answered > count / 12


def test_integers_stay_exact() -> None:
    rows = [{"id": 2**63 + i} for i in range(5)]
    assert picked("map(.id)", rows) == [[2**63 + i for i in range(5)]]
    assert picked(".[-1].id", rows) == [2**63 + 4]


def test_large_integers_are_added_and_subtracted_exactly() -> None:
    data = [{"a": 2**60 + 1, "b": 2**60 + 790}, {"a": 10**30, "b": -(10**30) + 3}]
    assert picked("map(.b - .a)", data) == [[789, 3 - 2 * 10**30]]
    assert picked("map(select(.b - .a > 780)) | length", data) == [1]
    assert picked("map(.a) | add", data) == [2**60 + 1 + 10**30]
    for program in ("map(.a * 2)", "map(.a / 2)", "map(.a + 0.5)", "map(.a, 0.5) | add"):
        with pytest.raises(NotPlain):
            picked(program, data)


def test_a_program_is_short() -> None:
    assert picked("[" * 50 + "." + "]" * 50, 1)
    with pytest.raises(NotPlain):
        compiled("." + "|." * MAX_PROGRAM_CHARS)


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(2**53, True), (2**53 - 1, False), (-(2**53), True), ([{"a": [2**60]}], True), ("9007199254740993", False),
     (1e300, False), ({"9007199254740993": True}, False), (None, False)],
)  # fmt: skip
def test_what_jq_may_have_rounded(value: Any, rounded: bool) -> None:
    assert bignumbers.makes("", "", [value]) is rounded
