"""Arguments are searched for references at any depth."""

from __future__ import annotations

from typing import Any

import pytest

from byref import Engine, ToolError
from byref.adapters.common.arguments import may_refer, resolved


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({}, False),
        ({"a": [1, {"b": "text"}]}, False),
        ({"a": "$x"}, True),
        ({"a": [{"b": "art_1"}]}, True),
        ({"a": {"$var": "x"}}, True),
        ({"a": '{"$var": "x"}'}, True),
    ],
)
def test_arguments_without_references_need_no_look(arguments: Any, answer: bool) -> None:
    assert may_refer(arguments) is answer


def test_deep_arguments_are_looked_at_to_an_end() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    assert may_refer(deep)


@pytest.mark.parametrize(
    "given", [{"time": "90"}, {"time": "90", "note": "$HOME"}, {"time": "$5"}, {"time": "$$orders"}]
)
def test_what_does_not_fit_and_is_no_mistake_in_a_reference_is_the_frameworks(
    engine: Engine, tenant: str, given: dict[str, Any]
) -> None:
    session = engine.session("fits", tenant=tenant)
    schema = {"properties": {"time": {"type": "array"}}}
    assert resolved(session, given, schema, tool="wait", call_id=None) == given
    with pytest.raises(ToolError, match="time expects array"):
        resolved(session, given, schema, tool="wait", call_id=None, is_strict=True)


def test_of_several_misfits_the_one_that_looks_like_a_reference_is_told(engine: Engine, tenant: str) -> None:
    session = engine.session("fits", tenant=tenant)
    session.process([{"id": n} for n in range(2_000)], tool="orders")
    schema = {"properties": {"time": {"type": "array"}, "ids": {"items": {"type": "integer"}}}}
    given = {"time": "90", "ids": ["$ordrs"]}
    with pytest.raises(ToolError, match=r"ids\[0\] expects integer .* Did you mean 'orders'"):
        resolved(session, given, schema, tool="wait", call_id=None)
