"""Code that uses up resources, under the language alone: it ends soon and says why, and its session goes on with its data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from limits_attacks import ATTACKS

from byref_sandbox import Data, Limits, Outcome, Sandbox

LIMITS = Limits(wall_seconds=0.8, cpu_seconds=0.15, memory_bytes=192 << 20, stdout_bytes=1000, result_bytes=1 << 20)
SLOWEST = 6.0
"""Seconds on a machine that does much else: the wall limit, its grace, and a processor shared with others."""
ROWS = {"rows": Data("rows", lambda: b'[{"t":"' + b"a" * 40 + b'"},{"t":"b"}]')}


@pytest.fixture(scope="module")
def eaten() -> Iterator[Sandbox]:
    with Sandbox(LIMITS) as sandbox:
        assert sandbox.run("len(rows)", ROWS, session="s").value == 2
        yield sandbox


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def attack(sandbox: Sandbox, name: str) -> tuple[Outcome, float]:
    code, _ = ATTACKS[name]
    began = time.monotonic()
    outcome = sandbox.run(code, ROWS, session="s")
    return outcome, time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_what_eats_is_stopped(eaten: Sandbox, name: str) -> None:
    root, session = eaten._root, eaten._warm["s"]
    host = resident(_self())
    outcome, seconds = attack(eaten, name)
    _, kinds = ATTACKS[name]
    assert (outcome.error.kind if outcome.error else "") in kinds, outcome
    if outcome.error is not None:
        assert outcome.error.message
        assert len(outcome.error.message) <= 4_000
    assert seconds < SLOWEST
    assert len(outcome.stdout) <= LIMITS.stdout_bytes
    assert resident(_self()) - host < 200 << 20
    again = eaten.run("len(rows)", ROWS, session="s", limits=Limits(wall_seconds=10))
    assert again.value == 2, again.error
    assert eaten._root is root
    assert eaten._warm["s"] is session


def _self() -> int:
    return int(Path("/proc/self").readlink().name)


def test_there_are_enough() -> None:
    assert len(ATTACKS) >= 120


@pytest.mark.slow
def test_all_at_once_they_are_stopped_too() -> None:
    """Eight at a time in one session, with honest runs between them."""
    with Sandbox(LIMITS, runs=12) as sandbox, ThreadPoolExecutor(12) as pool:
        sandbox.run("len(rows)", ROWS, session="s")
        attacks = [pool.submit(attack, sandbox, name) for name in ATTACKS]
        honest = [
            pool.submit(sandbox.run, "len(rows)", ROWS, session="s", limits=Limits(wall_seconds=30)) for _ in range(50)
        ]
        assert [run.result().value for run in honest] == [2] * 50
        for name, run in zip(ATTACKS, attacks, strict=True):
            outcome, _ = run.result()
            kind = outcome.error.kind if outcome.error else ""
            assert kind in {*ATTACKS[name][1], "TimeLimit", "CpuLimit"}, (name, outcome.error)


@pytest.mark.every_case("each is another limit")
@pytest.mark.parametrize(
    ("code", "limits", "kind", "words"),
    [
        ("while True: pass", Limits(cpu_seconds=0.2, wall_seconds=30), "CpuLimit", "0.2 s of processor time"),
        ("import time\ntime.sleep(60)", Limits(wall_seconds=0.3), "TimeLimit", "stopped after 0.3 s"),
        ("bytes(10 ** 9)", Limits(memory_bytes=64 << 20), "MemoryLimit", "64 MiB"),
        ("'x' * 10_000", Limits(result_bytes=1000), "OutputLimit", "1,000"),
        ("def f(n): return n and f(n - 1) + 1\nf(200)", Limits(recursion_depth=150), "RecursionError", "recursion"),
    ],
)
def test_each_limit_has_an_error_of_its_own(sandbox: Sandbox, code: str, limits: Limits, kind: str, words: str) -> None:
    """Set for one call, over what its sandbox was made with."""
    outcome = sandbox.run(code, limits=limits)
    assert outcome.error.kind == kind
    assert words in outcome.error.message
    assert outcome.error.hint


GROWING = {
    "lists in lists": "a = []\nwhile True: a = [a, 'x' * 40]",
    "tuples in tuples": "t = ()\nwhile True: t = (t, 1.5)",
    "a dict of texts": "d = {}\nfor i in range(10**8): d[i] = str(i)",
    "records": "a = []\nfor i in range(10**7): a.append({'k': i, 'v': [i]})",
    "objects": "class A: pass\na = []\nwhile True:\n    x = A()\n    x.y = 1\n    a.append(x)",
    "series": "import pandas as pd\na = []\nwhile True: a.append(pd.Series([1.5]))",
}
"""Code that fills memory with small things, to the last of them: then there is none to report it with."""


@pytest.mark.parametrize(
    ("name", "megabytes"),
    [("lists in lists", 67)]
    + [
        pytest.param(name, megabytes, marks=pytest.mark.slow)
        for name in GROWING
        for megabytes in (64, 65, 67, 70, 100, 200)
    ],
)
def test_memory_that_is_full_to_the_last_byte_is_a_limit_and_no_crash(
    sandbox: Sandbox, name: str, megabytes: int
) -> None:
    outcome = sandbox.run(GROWING[name], limits=Limits(memory_bytes=megabytes << 20, wall_seconds=60))
    assert outcome.error.kind == "MemoryLimit", outcome.error


@pytest.mark.slow
def test_recursion_goes_as_deep_as_its_limit(sandbox: Sandbox) -> None:
    code = "def f(n): return n and f(n - 1) + 1\nf({})"
    for depth in (150, 1000, 10_000):
        limits = Limits(recursion_depth=depth)
        assert sandbox.run(code.format(depth * 9 // 10), limits=limits).value == depth * 9 // 10
        error = sandbox.run(code.format(depth * 13 // 10), limits=limits).error
        assert error.kind == "RecursionError"
    deepest = Limits(recursion_depth=10_000, wall_seconds=20)
    for name in ("recursion in a sort", "recursion in map", "a deep list compared", "a deep copy"):
        outcome = sandbox.run(ATTACKS[f"depth: {name}"][0], limits=deepest)
        # Newer versions of Python compare as deep as there is stack.
        assert outcome.error is not None or (name == "a deep list compared" and outcome.value is True)
    with pytest.raises(ValueError, match="recursion_depth is 10001; at most 10,000"):
        sandbox.run("1", limits=Limits(recursion_depth=10_001))
