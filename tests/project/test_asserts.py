"""No assert of these tests is true in every case."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TRUTH = {
    "any",
    "all",
    "isinstance",
    "issubclass",
    "bool",
    "startswith",
    "endswith",
    "isclose",
    "isnan",
    "isalnum",
    "fits",
}
"""Calls whose results are true or false, beside those of `is_…`; of others an `or` may be true for being anything at all."""


def claims(test: ast.expr) -> Iterator[tuple[ast.expr, bool]]:
    """Each part of what is asserted that is itself taken for true or false, and whether it stands in an `or`."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            for part, _ in claims(value):
                yield part, isinstance(test.op, ast.Or)
    else:
        yield test, False


def called(part: ast.expr) -> str:
    function = part.func if isinstance(part, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def is_always_true(part: ast.expr, in_or: bool) -> bool:
    match part:
        case ast.Constant(value):
            return bool(value)
        case ast.List(elts) | ast.Tuple(elts) | ast.Set(elts):
            return bool(elts)
        case ast.Dict(keys):
            return bool(keys)
        case ast.Lambda() | ast.GeneratorExp() | ast.JoinedStr():
            return True
        case ast.Call():
            return in_or and called(part) not in TRUTH and not called(part).startswith("is_")
        case ast.Compare(left, [ast.GtE()], [ast.Constant(0)]):
            return called(left) in ("len", "abs", "count")
        case ast.Compare(left, [ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], [right]):
            return ast.dump(left) == ast.dump(right) and not any(isinstance(node, ast.Call) for node in ast.walk(left))
    return False


def faults(source: str) -> list[str]:
    return [
        f"line {node.lineno}: {ast.unparse(part)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assert)
        for part, in_or in claims(node.test)
        if is_always_true(part, in_or)
    ]


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_no_assert_is_always_true(step: int) -> None:
    found = {str(path.relative_to(TESTS)): faults(path.read_text()) for path in sorted(TESTS.rglob("*.py"))[::step]}
    assert len(found) > 200 / step
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "assert (x == 1, 'message')",
        "assert 'message'",
        "assert x == 1 or timedelta(hours=1)",
        "assert x == 1 or json.loads(y)",
        "assert x and (y or [1])",
        "assert len(x) >= 0",
        "assert x == x",
        "assert (y for y in x)",
    ],
)
def test_such_asserts_are_found(source: str) -> None:
    assert len(faults(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "assert x == 1 or any(y)",
        "assert x",
        "assert f(x)",
        "assert f(x) == f(x)",
        "assert len(x) >= 1",
        "assert x[0] or y > 2",
    ],
)
def test_others_are_not(source: str) -> None:
    assert faults(source) == []
