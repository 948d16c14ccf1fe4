"""Results nested as deeply as Python allows: told, kept, resolved and queried, or refused in words; nothing raises."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from byref import AsyncEngine, Session, ToolError
from byref.describe.cuts import cut
from byref.describe.gaps import shown
from byref.describe.jsontext import compact
from byref.describe.truncate import truncate_json
from byref_sandbox import Sandbox

NESTS = {"lists": "[y]", "dicts": "{'a': y}", "both": "[{'a': y}]", "tuples": "(y,)", "keys that are no text": "{1: y}"}
FEW = (690, 725, 980)
REFERENCES: list[Any] = ["$y", "$f", "$result", {"$var": "y", "jq": "."}, {"$var": "y", "jq": "[.]"}]
RECURSIVE = {"$defs": {"y": {"items": {"$ref": "#/$defs/y"}}}, "properties": {"at": {"$ref": "#/$defs/y"}}}


def made(nest: str, depth: int) -> str:
    return f"y = 1\nfor i in range({depth}): y = {NESTS[nest]}\nf = pd.DataFrame({{'c': [y, y]}})\n"


def use(session: Session, nest: str, depth: int) -> None:
    """Everything that may be done with it."""
    code = made(nest, depth)
    for last in ("y", "print(y)", "f", "[y, 'x' * 50_000]", "len(str(y))"):
        reply = session.call("code_interpreter", {"code": code + last})
        assert isinstance(reply.content, str), (nest, depth)
    session.call("code_interpreter", {"code": "z = y\nf"})
    outcome = session.run(code + "y")
    assert outcome.error is None, (nest, depth)
    assert outcome.text and repr(outcome) and outcome.value
    for reference in REFERENCES:
        for schema in (None, RECURSIVE):
            with contextlib.suppress(ToolError):
                session.resolve({"at": reference}, schema)
    for expression in (".", "[..] | length", "tojson", ".[0]?"):
        session.call("artifact_jq", {"artifact_id": "y", "expression": expression})
    session.reminder()


@pytest.mark.parametrize("nest", ["dicts", "both"])
def test_no_depth_of_a_result_raises(chat: Session, nest: str) -> None:
    for depth in FEW:
        use(chat, nest, depth)


@pytest.mark.slow
@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("start", range(10))
def test_no_depth_near_the_limit_raises(chat: Session, nest: str, start: int) -> None:
    for depth in (*range(650 + start, 750, 10), *range(900 + start, 1_101, 10)):
        use(chat, nest, depth)


def test_what_is_kept_is_as_deep_as_it_was(chat: Session) -> None:
    chat.run(made("lists", 400))
    assert chat.run("depth = 0\nwhile y != 1: y = y[0]; depth += 1\ndepth").value == 400


def test_an_asynchronous_session_tells_deep_results(sqlite_url: str, sandbox: Sandbox) -> None:
    async def work() -> None:
        async with AsyncEngine(sqlite_url, interpreter=sandbox) as engine:
            session = await engine.session("deep")
            for depth in FEW:
                assert (await session.run(made("both", depth) + "y")).value
                assert (await session.call("code_interpreter", {"code": made("both", depth) + "y"})).content

    asyncio.run(work())


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}])
def test_a_deep_value_is_cut_wherever_python_is(wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for _ in range(980):
        value = wrap(value)

    def shortened(frames: int) -> None:
        if frames:
            shortened(frames - 1)
            return
        tree, gaps = cut(value, 1 << 20)
        assert gaps and compact(shown(tree, lambda gap: gap.mark(0))).startswith(compact(wrap(0))[:1])
        assert "[truncated " in truncate_json(value, budget=50_000, measure=len, size=10_000).text

    for frames in range(0, min(sys.getrecursionlimit(), 1_000) - 800, 20):
        shortened(frames)
