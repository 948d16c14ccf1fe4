"""Numbers that jq cannot hold: its output is exact, or an error, or the reply says that it is not exact."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest

from byref import Engine, Policy, Session, ToolError
from byref_sandbox import Data, Sandbox, jsontext

NUMBERS = {
    "2**53+1": str(2**53 + 1),
    "-2**63-1": str(-(2**63) - 1),
    "10**30+1": str(10**30 + 1),
    "10**308+1": str(10**308 + 1),
    "10**309": str(10**309),
    "10**400": str(10**400),
    "-10**400": str(-(10**400)),
    "1e400": "1e400",
    "-1.5E+999": "-1.5E+999",
    "NaN": "NaN",
    "Infinity": "Infinity",
}
PROGRAMS = {
    "map(.)": lambda given: given,
    ".[1]": lambda given: given[1],
    "map(. + 0)": lambda given: [item or 0 for item in given],
    "[.[] | select(. != 1)]": lambda given: given[1:],
    ".[1] * 1": lambda given: given[1],
    "{a: [.[1]]} | .a | last": lambda given: given[1],
    "map(tojson | fromjson)": lambda given: given,
    "[.[1] > 10, .[1] < 10]": lambda given: [given[1] > 10, given[1] < 10],
}
"""Programs with what they mean."""


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and one == other


def by_tool(session: Session, program: str) -> Any:
    reply = session.call("artifact_jq", {"artifact_id": "data", "expression": program})
    told = "jq rounds integers" in reply.text or "NaN, an infinity or a number beyond 1.8e308" in reply.text
    return None if reply.is_error or told else jsontext.decode(reply.text.encode())


def by_reference(session: Session, program: str) -> Any:
    try:
        return session.resolve({"x": {"$var": "data", "jq": program}})["x"]
    except ToolError as error:
        assert "jq rounds" in str(error) or "NaN, an infinity or a number beyond" in str(error), error
        return None


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", NUMBERS)
def test_what_jq_gives_is_exact_or_told(local: Engine, tenant: str, number: str, step: int) -> None:
    session = local.session(number, tenant=tenant)
    session.store_artifact(f"[1,{NUMBERS[number]},null]", name="data", content_type="application/json")
    given = jsontext.decode(f"[1,{NUMBERS[number]},null]".encode())
    silent, exact = [], 0
    first = list(NUMBERS).index(number) % step  # each number begins at programs of its own
    programs = list(PROGRAMS.items())
    for program, meaning in [*programs[:2], *programs[2 + first :: step]]:
        if number == "NaN" and ">" in program:
            continue  # which jq sorts below all numbers
        expected = meaning(given)
        for way in (by_tool, by_reference):
            found = way(session, program)
            exact += found is not None and is_same(found, expected)
            if found is not None and not is_same(found, expected):
                silent.append((way.__name__, program, str(found)[:60]))
    assert silent == []
    assert exact >= 2


MAPPED = [
    ("map(.)", "[1, 1e999]", True),
    ("map(select(. != 1))", json.dumps([1, 10**400]), False),
    ("map(. + 0)", json.dumps([1, 10**400]), False),
    ("map(. * 3)", json.dumps([1, 10**400]), True),
    ("map(. * 3)", json.dumps([1, -(10**309)]), True),
    ("map(. * 3)", json.dumps([1, 10**30 + 1]), True),
    ("map(. * 1e308)", "[1, 100]", True),
    ("map(select(. != 1))", "[1, NaN, null]", True),
    ("map(select(. == 1))", "[1, NaN, Infinity, null]", False),
    ("map(select(. != 1))", "[1, Infinity]", True),
    ("map(select(. != 1) | fabs)", "[1, Infinity]", True),
    ("map(infinite - infinite)", "[1]", True),
    ("map(null)", "[1]", False),
]


@pytest.mark.parametrize(("program", "output", "fails"), MAPPED)
def test_a_mapper_gives_what_is_exact_or_fails(
    local: Engine, tenant: str, caplog: pytest.LogCaptureFixture, program: str, output: str, fails: bool
) -> None:
    session = local.session("m", tenant=tenant, policy=Policy(per_tool={"t": {"mapper": program}}))
    session.process(jsontext.decode(output.encode()), tool="t")
    assert ("the mapper of 't' failed" in caplog.text) is fails, caplog.text


@pytest.mark.parametrize(
    ("program", "text", "told"),
    [
        ("nan", "1", True),
        ("[infinite]", "1", True),
        ("[[nan]], 1", "1", True),
        ("{a: {b: (infinite - infinite)}}", "1", True),
        ("def f: nan; f # a comment", "1", True),
        ("nan # a comment \\", "1", False),  # which goes on, so that jq has no program that looks
        (".[0].a | .b", '[{"a": {"b": NaN}}]', True),
        ("[.[] | select(true)]", "[1, nan]", True),
        ("[.[] | select(. == 1)]", "[1, NaN]", False),
        ("map(. + 1)", "[1, 2]", False),
        ("map(. - 1 | null)", "[1, 2]", False),
        ("map(length)", '["1e400", " 1e4000", "NaN"]', False),
        ("map(@csv)", '[["Mary Nancy Smith", "Revert 12e4567", "a \\" nan,1e999"]]', False),
        ("map(@csv)", '[["Nancy"], [NaN]]', True),
        ("map(length)", '["1e400", "x 1e-400", "NaN", 1e10]', False),
        (".[1] % 7", json.dumps([1, 10**400]), True),
        ("1, 2, null", "1", False),
        ("infinite | tojson", "1", True),
        ("1e308 * 1e308", "1", True),
        ("1.5e308", "1", False),
    ],
)
def test_what_is_not_finite_is_met(sandbox: Sandbox, program: str, text: str, told: bool) -> None:
    outcome = sandbox.jq(program, Data("", lambda: text.encode()))
    assert outcome.error is None, outcome.error
    assert outcome.not_finite is told, outcome.outputs


def test_a_checked_program_gives_its_outputs_alone(sandbox: Sandbox) -> None:
    outcome = sandbox.jq(".[] | . + 1", [1, 2, 3, 4], max_outputs=3)
    assert (outcome.outputs, outcome.truncated) == ((b"2", b"3", b"4"), True)
    failed = sandbox.jq('.[] | if . == 3 then error("no " + "more") else . - 1 end', [1, 2, 3, 4])
    assert failed.outputs == (b"0", b"1") and failed.error and failed.error.message == "no more"
    unbalanced = sandbox.jq("1 + 1) | (2", 1)
    assert unbalanced.error and "syntax error" in unbalanced.error.message


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("program", ["map(.id * 3) # each", "[limit(3; .[].id * 3)]", "(map(.id * 3)) as $x | $x"])
def test_what_is_not_looked_into_is_told_by_its_numbers(sandbox: Sandbox, program: str) -> None:
    """Also of more data than is looked into: integers that were not there before are rounded ones, others were moved."""
    for filled in (0, 5 << 20):
        text = json.dumps([{"id": 10**18 + each} for each in range(5)] + [{"id": 1, "x": "x" * filled}]).encode()
        assert sandbox.jq(program, Data("", lambda text=text: text)).rounded == "yes"
        moved = sandbox.jq(program.replace(" * 3", ""), Data("", lambda text=text: text))
        assert moved.rounded in ("", "maybe") and b"1000000000000000002" in moved.outputs[0]


@pytest.mark.parametrize(
    ("program", "output", "rounded"),
    [
        ("[range(.[0]; .[1])] | length", "11", "maybe"),
        ("[limit(.[1] - .[0]; repeat(1))] | length", "11", "maybe"),
        ("def f($n): if $n > 0 then 1 + f($n - 1) else 0 end; f(.[1] - .[0])", "11", "maybe"),
        ("[.[] | . as $n | [limit(1; $n)][0] * 3][0]", None, "yes"),
        ('[.[0] * "x"]', None, None),
    ],
)
def test_no_stand_in_keeps_a_program_busy(
    sandbox: Sandbox, program: str, output: str | None, rounded: str | None
) -> None:
    began = time.monotonic()
    outcome = sandbox.jq(program, Data("", lambda: b"[1700000000123456000,1700000000123456011]"))
    assert time.monotonic() - began < 5
    assert outcome.rounded == (rounded or "") and (outcome.error is not None) == (rounded is None), outcome
    assert output is None or outcome.outputs[0].decode() in (output, "0", "256")  # jq itself has rounded the numbers
