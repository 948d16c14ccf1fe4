"""Code that uses up memory, processor time, time or output is stopped with a text that names the limit, and the host goes on."""

from __future__ import annotations

import dataclasses
import time

import pytest

from byref_sandbox import Limits, Sandbox
from byref_sandbox.testing import run_in_jail

LIMITS = Limits(wall_seconds=0.6, cpu_seconds=0.3, memory_bytes=128 << 20, stdout_bytes=1000, result_bytes=1 << 20)
SLOWEST = 5.0
"""Seconds: wall limit, grace, and a busy machine."""

CPU = {
    "a loop": "while True: pass",
    "a loop that swallows everything": """
while True:
    try:
        while True: pass
    except BaseException: pass
""",
    "a loop that ignores the timers": """
import signal
for number in (signal.SIGALRM, signal.SIGPROF, signal.SIGVTALRM, signal.SIGXCPU):
    signal.signal(number, signal.SIG_IGN)
while True: pass
""",
    "a loop that blocks all signals": """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True: pass
""",
    "a handler that swallows": """
import signal
signal.signal(signal.SIGALRM, lambda *_: None); signal.signal(signal.SIGPROF, lambda *_: None)
while True: pass
""",
    "a huge power": "10 ** 10 ** 8",
    "a huge factorial": "import math; math.factorial(10 ** 7)",
    "a sum in C": "sum(range(10 ** 12))",
    "a regular expression": "import re; re.match(r'(a+)+b', 'a' * 60)",
    "a string search": "('a' * 10**6 + 'b') in ('a' * 10**7) or [x for x in iter(lambda: 0, 1)]",
    "a sort that never ends": """
class Odd:
    def __lt__(self, other):
        while True: pass
sorted([Odd(), Odd()])
""",
    "a repr that never ends": """
class Odd:
    def __repr__(self):
        while True: pass
result = Odd()
""",
    "a finalizer that never ends": """
class Odd:
    def __del__(self):
        while True: pass
while True: Odd()
""",
    "an error whose text never ends": """
class Odd(Exception):
    def __str__(self):
        while True: pass
raise Odd
""",
    "a hash that never ends": """
class Odd:
    def __hash__(self):
        while True: pass
{Odd()}
""",
}
WALL = {
    "sleep": "import time; time.sleep(100)",
    "sleep with ignored timers": "import signal, time; signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(100)",
    "a lock never released": "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "waiting for a signal": "import select; select.poll().poll(100_000)",
    "waiting for nothing": "import select; select.select([], [], [], 100)",
    "sleeping in C": "import ctypes; ctypes.CDLL(None).sleep(100)",
}
MEMORY = {
    "one allocation": "bytearray(1 << 40)",
    "a string": "'a' * (1 << 33)",
    "a growing string": "s = 'a'\nwhile True: s += s",
    "a growing list": "items = []\nwhile True: items.append(bytes(1 << 20))",
    "a growing dict": "items = {}\nfor i in range(10 ** 9): items[i] = str(i) * 100",
    "a list of references": "[None] * (1 << 32)",
    "an array": "import numpy; numpy.ones((1 << 17, 1 << 17))",
    "a frame": "import pandas; pandas.DataFrame({'a': range(10 ** 9)}).merge(pandas.DataFrame({'a': range(10 ** 9)}))",
    "a cross join": "import pandas; f = pandas.DataFrame({'a': [1] * 10 ** 5}); f.merge(f, on='a')",
    "mappings": "import mmap\nkept = []\nwhile True: kept.append(mmap.mmap(-1, 1 << 20))",
    "what an allocation error leaves, again": """
kept = []
while True:
    try:
        while True: kept.append(bytes(1 << 20))
    except MemoryError:
        kept.append(bytes(1 << 10))
        if len(kept) > 10 ** 6: break
        raise
""",
    "a format width": "'%*d' % (1 << 33, 1)",
    "a compressed bomb": "import zlib; d = zlib.compress(bytes(1 << 26)); zlib.decompress(d) * 64",
    "a value": "result = list(range(10 ** 9))",
}
CRASHES = {
    "a null pointer": "import ctypes; ctypes.string_at(0)",
    "a jump to nowhere": "import ctypes; ctypes.CFUNCTYPE(None)(1)()",
    "abort": "import os; os.abort()",
    "exit": "import os; os._exit(0)",
    "exit with a status": "import os; os._exit(3)",
    "recursion without a limit": "import sys; sys.setrecursionlimit(10 ** 9)\ndef f(n): return g(n)\ndef g(n): return sorted([n], key=f)\nf(1)",
    "the end of the process's own heap": "import ctypes; ctypes.memset(id(None) & ~0xffff, 0, 1 << 20)",
}


@pytest.fixture(autouse=True)
def unharmed(sandbox: Sandbox):
    root = sandbox.start()._root
    yield
    assert sandbox._root is root
    outcome = sandbox.run("sum([1, 2])")
    assert outcome.value == 3, outcome.error


@pytest.mark.slow
@pytest.mark.parametrize("name", CPU)
def test_processor_time_is_bounded(sandbox: Sandbox, name: str) -> None:
    began = time.monotonic()
    outcome = run_in_jail(CPU[name], LIMITS, sandbox=sandbox)
    assert outcome.error.kind in {"CpuLimit", "TimeLimit"}, outcome.error
    assert time.monotonic() - began < SLOWEST


@pytest.mark.quick_cases(2)
@pytest.mark.every_case("each goes on in a way of its own")
@pytest.mark.parametrize("name", WALL)
def test_time_is_bounded(sandbox: Sandbox, name: str) -> None:
    began = time.monotonic()
    outcome = run_in_jail(WALL[name], LIMITS, sandbox=sandbox)
    assert outcome.error.kind == "TimeLimit", outcome.error
    assert "0.6 s" in outcome.error.message
    assert LIMITS.wall_seconds <= time.monotonic() - began < SLOWEST


@pytest.mark.every_case("each takes memory in a way of its own")
@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_bounded(sandbox: Sandbox, name: str) -> None:
    limits = Limits(wall_seconds=5, cpu_seconds=5, memory_bytes=128 << 20)
    outcome = run_in_jail(MEMORY[name], limits, sandbox=sandbox)
    assert outcome.error.kind in {"MemoryLimit", "OverflowError"}, outcome.error
    # Pages the zygote shares become a run's own when it writes to them; that is no more than the zygote has.
    assert outcome.usage.peak_bytes < 600 << 20


@pytest.mark.every_case("each ends the process in a way of its own")
@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_is_an_outcome(sandbox: Sandbox, name: str) -> None:
    outcome = run_in_jail(CRASHES[name], LIMITS, sandbox=sandbox)
    # Newer versions of Python look at the stack instead of counting calls.
    assert outcome.error.kind in {"Crash", "MemoryLimit", "NotAllowed", "RecursionError"}, outcome.error


def test_an_allocation_within_the_limit_succeeds(sandbox: Sandbox) -> None:
    outcome = run_in_jail("result = len(bytes(100 << 20))", LIMITS, sandbox=sandbox)
    assert outcome.value == 100 << 20


def test_sleeping_code_is_stopped_where_it_sleeps(sandbox: Sandbox) -> None:
    outcome = run_in_jail("import time\nprint('a')\ntime.sleep(60)", LIMITS, sandbox=sandbox)
    assert (outcome.error.kind, outcome.error.line, outcome.stdout) == ("TimeLimit", 3, "a\n")


@pytest.mark.parametrize(
    ("source", "shown", "dropped"),
    [
        ("print('x' * 5000)", "x" * 1000, 4001),
        ("for _ in range(5000): print('x', end='')", "x" * 1000, 4000),
        ("import sys\nfor _ in range(50): sys.stdout.write('x' * 100)", "x" * 1000, 4000),
        ("for _ in range(2000): print('x' * 100_000)", "x" * 1000, 2000 * 100_001 - 1000),
        ("print('€' * 500)", "€" * 333, 500 - 333 + 1),
    ],
    ids=["print", "pieces", "write", "flood", "between characters"],
)
def test_output_is_cut_and_counted(sandbox: Sandbox, source: str, shown: str, dropped: int) -> None:
    outcome = run_in_jail(source, LIMITS, sandbox=sandbox)
    assert (outcome.error, outcome.stdout, outcome.stdout_dropped) == (None, shown, dropped)


def test_a_value_too_big_to_send_is_told(sandbox: Sandbox) -> None:
    outcome = run_in_jail("print('kept')\nresult = 'x' * (1 << 21)", LIMITS, sandbox=sandbox)
    assert outcome.error.kind == "OutputLimit"
    assert "1,048,576" in outcome.error.message
    assert outcome.stdout == "kept\n"


@pytest.mark.slow
def test_a_value_of_too_many_parts_is_told(sandbox: Sandbox) -> None:
    """Two bytes each on the wire, sixty in the host's memory."""
    outcome = run_in_jail("result = [[]] * 8_000_001", Limits(wall_seconds=10, cpu_seconds=10), sandbox=sandbox)
    assert outcome.error.kind == "OutputLimit"
    assert "8,000,000 arrays, objects and values" in outcome.error.message


def test_variables_too_big_to_keep_are_named(sandbox: Sandbox) -> None:
    outcome = sandbox.run("big = 'x' * 1_200_000\nsmall = [1]\nsmall", limits=LIMITS)
    assert outcome.value == [1]
    assert set(outcome.bound) == {"small"}
    assert "too big" in outcome.unkept["big"]


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_limits_must_be_limits(sandbox: Sandbox, field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        sandbox.run("1", limits=Limits(**{field: value}))
