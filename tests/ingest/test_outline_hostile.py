"""The default form on input that was made to break it: its envelopes parse, fit, and are true, and the work for them is bounded."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

import pytest
from benchmarks.envelopes import untrue

from byref import Engine, Policy
from byref.describe.columns import MAX_DEPTH
from byref.describe.jsontext import encodable


def inside(value: Any, levels: int, key: str | None = None) -> Any:
    for _ in range(levels):
        value = [value] if key is None else {key: value}
    return value


def tree(levels: int, width: int) -> dict[str, Any]:
    """A node of named nodes, as a tree of modules is, with a few fields of its own at some."""
    below = {f"{name}{levels}": tree(levels - 1, width) for name in "abcdef"[:width]} if levels else {}
    return {"__info": {"at": levels, "name": "x" * levels, **({"tag": None} if levels % 2 else {})}, **below}


MARKS = (
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    "?",
    "*",
    ";",
    ":",
    ",",
    "|",
    "…",
    "=",
    '"',
    "'",
    "\\",
    "$",
    ".",
    "[]",
    "... 3 more ...",
)
HOSTILE: dict[str, Any] = {
    "many keys": {f"key {n}": n for n in range(6_000)},
    "100,000 keys": {f"key {n}": n for n in range(100_000)},
    "many keys of objects": {f"k{n}": {"id": n, "name": f"name {n}"} for n in range(5_000)},
    "each object has other keys": [{f"k{n}_{i}": {"a": n} for i in range(40)} for n in range(300)],
    "a tree of replies": {"text": "a", "replies": [{"text": "b" * 90, "replies": [{"text": "c", "replies": [], "by": {"id": 1}}] * 40}] * 20},
    "a tree of names": tree(5, 4),
    "keys of control characters": [{"\x00": n, "\n": "x", "\x1b[31m": None, "\u2028": [n], "\u202e": {"\x7f": n}} for n in range(300)],
    "lone surrogates": [{"\ud800": {"\udfff": "\ud800" * 5, "n": n}, "ok": "\udc00"} for n in range(200)],
    "keys of marks": [{mark: {mark: n, f"{mark}{mark}": mark} for mark in MARKS} for n in range(80)],
    "keys of our words": [
        {"str": "int", "12 keys": {"3 more keys": 1}, "unmarked": "str", "; unmarked: int": n, "User={id:int}": [n], "null": "null 3 of 4", "...": "7 more keys", "…": "7 keys", "key?(4)": n, "*(5)": None}
        for n in range(300)
    ],
    "keys of what is in values": [{"keys of x": f"x, of a sample of {n}", "a 3, b 4": "unique", "0": n, "00": "", "a.b[]": n % 3} for n in range(400)],
    "long keys": [{"k" * 10_000: n, "l" * 10_000: {"k" * 10_000: "v" * 10_000}, "k" * 9_999: n} for n in range(20)],
    "long keys in a map": {f"{n}-" + "k" * 10_000: {"id": n} for n in range(60)},
    "500 levels of arrays": [inside("some words", 500) for _ in range(24)],
    "500 levels of objects": {"rows": [inside({"id": n}, 120, "down") for n in range(20)], "deep": inside(1, 500, "k")},
    "arrays of arrays of arrays": [[[[n, [n, None]], [], [["x"]]] for n in range(30)] for _ in range(30)],
    "all null": [dict.fromkeys("abcdefgh") for _ in range(800)],
    "empty containers": [{"a": [], "b": {}, "c": [[]], "d": [{}], "e": {"f": {}}, "g": [[], {}]} for _ in range(400)],
    "each place has all types": [
        {"v": v, "w": [v, {"v": v}], "x": {"v": v}} for v in (None, True, 1, 1.5, "s", [], {}, [1, "a"], {"v": 1}) for _ in range(60)
    ],
    "numbers beyond floats": [{"n": 10**400 + n, "m": -(10**30), "f": 1e308 * (n % 2), "z": -0.0, "i": 2**63 + n} for n in range(100)],
    "shapes with many variations": [{"a": {f"f{j}": j for j in range(8) if (n >> j) & 1}} for n in range(256)] * 2,
    "many shapes in a map beside fields": [
        {"id": n, "kind": "x", **{f"event_{(n * 7 + i) % 97}": {f"p{(n + i + j) % 31}": {"q": j} for j in range(9)} for i in range(5)}} for n in range(150)
    ],
    "links and ids alone": [{f"u{i}": f"https://x.com/{i}/{n}" for i in range(60)} | {"sha": f"{n:040x}a"} for n in range(80)],
}  # fmt: skip
"""Each takes 2,000 tokens or more, so that it is described."""
DEEP = {name for name in HOSTILE if name.startswith("500")}
SLOW = {"100,000 keys"}
AS_TEXT = {"numbers beyond floats"}
BUDGETS = (100, 260, 1_000)
_CALLS = 200_000
_CALLS_OF_A_VALUE = 10
"""Calls of functions for any envelope, and for each value in the data."""


def readable(value: Any) -> Any:
    """The value with lone surrogates as they are shown, which no envelope can hold."""
    if isinstance(value, dict):
        return {encodable(key): readable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [readable(one) for one in value]
    return encodable(value) if isinstance(value, str) else value


def values_in(value: Any) -> int:
    count, pending = 0, [value]
    while pending:
        one = pending.pop()
        count += 1
        pending += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return count


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count the calls of Python functions that describe."""
    calls = [0]

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "describe" in frame.f_code.co_filename:
            calls[0] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@contextmanager
def deep_calls() -> Iterator[None]:
    """Let the judge, which follows each level with several calls, read what nests deeply."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in HOSTILE]
)
def test_hostile_input_is_described_truly_within_bounds(local: Engine, tenant: str, name: str) -> None:
    value = HOSTILE[name]
    text = json.dumps(value)
    source = json.loads(text) if name in DEEP else readable(json.loads(text))
    for tokens in BUDGETS if values_in(value) < 5_000 else BUDGETS[-1:]:
        session = local.session(
            f"{name} {tokens}", tenant=tenant, policy=Policy(envelope_tokens=tokens, mode="variables")
        )
        with counted_calls() if tokens == BUDGETS[-1] else nullcontext([0]) as calls:
            result = session.process(text, tool="get")
        assert calls[0] <= _CALLS + _CALLS_OF_A_VALUE * values_in(value), calls
        assert result.tokens <= tokens
        envelope = json.loads(str(result.content))
        str(result.content).encode()
        if name in DEEP:  # what nests deeper than is read is said to be left out
            assert MAX_DEPTH < 500 and "deeper" in envelope["omitted"]
        if envelope["preview"] in (None, "..."):  # there was no room for one
            assert envelope.pop("preview") is None or envelope["omitted"]["tokens"] > tokens
        if name in AS_TEXT:  # such numbers are shown as text, of which only the digits can be compared
            assert set(re.findall(r"\d{20}", str(envelope.pop("preview", "")))) <= set(re.findall(r"\d{20}", text))
        with deep_calls():
            assert untrue.untruths(json.dumps(envelope), source) == []
