"""Results nested as deeply as Python allows are shown, stored, resolved and queried, or refused with a text; nothing raises."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from byref import AsyncEngine, Session, ToolError
from byref.describe.cuts import cut, shown
from byref.describe.jsontext import compact
from byref.describe.truncate import truncate_json
from byref_sandbox import Sandbox, jsontext

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


@pytest.mark.slow
@pytest.mark.parametrize("nest", ["both"])
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


@pytest.mark.slow
def test_an_asynchronous_session_tells_deep_results(sqlite_url: str, sandbox: Sandbox) -> None:
    async def work() -> None:
        async with AsyncEngine(sqlite_url, interpreter=sandbox) as engine:
            session = await engine.session("deep")
            for depth in FEW:
                assert (await session.run(made("both", depth) + "y")).value
                assert (await session.call("code_interpreter", {"code": made("both", depth) + "y"})).content

    asyncio.run(work())


@pytest.mark.quick_cases(1)
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


HOST_WITHOUT_A_LIMIT = """
import sys
sys.setrecursionlimit(1_000_000)
import byref
session = byref.Engine("sqlite://").session("c", context_window=200_000)
many = 100_000
nested = []
for _ in range(many):
    nested = [nested]
results = [
    "[" * many,
    b"[" * many,
    "[" * many + "]" * many,
    '{"a":' * many,
    "[" + '{"a":1},' * 30_000 + "[" * many,
    "[NaN," + "[" * many,
    '["\\\\ud800"' + ",[" * many,
    '{"display_instructions_for_model":' + "[" * many,
    [{"type": "text", "text": "[" * many}],
    iter(["[" * many]),
    nested,
]
for result in results:
    print(session.process(result, tool="deep").route)
for arguments in ('{"code": ' + "[" * many, '{"code": ["$x", ' + "[" * many + "]" * many + "]}"):
    print(session.call("code_interpreter", arguments).is_error)
    try:
        session.resolve(arguments)
    except byref.ToolError as error:
        print("nested too deeply" in str(error))
"""


@pytest.mark.slow
def test_a_host_whose_recursion_limit_is_beyond_its_stack_outlives_any_depth() -> None:
    done = subprocess.run([sys.executable, "-c", HOST_WITHOUT_A_LIMIT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["truncate"] * 10 + ["inline"] + ["True"] * 4


def levels_of(text: bytes) -> int:
    """Counted byte by byte."""
    most = level = 0
    in_string = escaped = False
    for byte in text:
        if in_string:
            in_string, escaped = escaped or byte != ord('"'), not escaped and byte == ord("\\")
        elif byte == ord('"'):
            in_string = True
        elif byte in b"[{":
            level += 1
            most = max(most, level)
        elif byte in b"]}":
            level -= 1
    return most


def test_levels_are_counted_as_a_reader_meets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsontext, "MAX_LEVELS", 30)
    monkeypatch.setattr(jsontext, "_MAX_ROUNDS", 4)
    random = Random(7)

    def value(depth: int) -> object:
        if depth <= 0 or random.random() < 0.2:
            return random.choice([1, None, "[", "]}", '\\"[{', "a\\", "\\\\", '"', "ü["])
        members = [value(depth - 1) for _ in range(random.randint(0, 3))]
        return (
            members
            if random.random() < 0.5
            else {f'k{i}["\\'[: random.randint(1, 6)]: m for i, m in enumerate(members)}
        )

    found = set()
    for _ in range(1_500):
        core: object = value(random.randint(0, 5))
        for _ in range(random.randint(0, 45)):
            core = [value(2), core] if random.random() < 0.5 else {"k[": core, "l": "}}"}
        text = json.dumps(core, ensure_ascii=random.random() < 0.5).encode()
        text = text[: random.randint(0, len(text))] if random.random() < 0.3 else text
        told, levels = jsontext.is_too_deep(text), levels_of(text)
        assert told or levels <= 30, text
        assert levels > 22 or not told, text
        found.add(told)
    assert found == {True, False}
