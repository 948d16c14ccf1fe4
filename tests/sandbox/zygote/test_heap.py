"""What a root zygote loads lies in one piece of memory, and what it and its forks free is given back as elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_PROGRAM = """
import contextlib, gc, json, os, re, sys

def mapped():
    found, name = {}, ""
    for line in open("/proc/self/smaps"):
        if head := re.match(r"[0-9a-f]+-[0-9a-f]+ (\\S+) \\S+ \\S+ \\S+\\s*(.*)", line):
            name = head[2]
        elif line.startswith("Anonymous:"):
            found[name] = found.get(name, 0) + int(line.split()[1])
    return found

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

before = [object() for _ in range(200_000)]  # arenas that did not come from the heap
import sqlite3
from byref_sandbox.zygote import heap
with heap.gathered() if sys.argv[1] == "gathered" else contextlib.nullcontext():
    import decimal, email.message, numpy
    loaded = [{"n": number, "text": str(number)} for number in range(100_000)]
    found = mapped()
    del before
at_rest = resident()
grown = 0
for _ in range(3):
    many = [{"n": number, "text": str(number)} for number in range(400_000)]
    grown = max(grown, resident() - at_rest)
    del many
    gc.collect()
left = resident() - at_rest
codes = []
for _ in range(3):
    pid = os.fork()
    if not pid:
        del loaded
        gc.collect()
        again = [bytes(400) for _ in range(100_000)]
        del again
        os._exit(7)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(json.dumps({"in_heap": found["[heap]"] / sum(found.values()), "grown": grown, "left": left, "codes": codes}), flush=True)
os._exit(0)
"""


def _measured(how: str) -> dict[str, float]:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, float] = json.loads(ended.stdout)
    return found


@pytest.fixture(scope="module")
def gathered() -> dict[str, float]:
    return _measured("gathered")


@pytest.mark.slow
def test_what_is_loaded_lies_in_the_heap(gathered: dict[str, float]) -> None:
    assert gathered["in_heap"] > 2 * _measured("as it is")["in_heap"]


def test_what_is_freed_later_is_given_back(gathered: dict[str, float]) -> None:
    assert gathered["grown"] > 80 << 20
    assert gathered["left"] < gathered["grown"] / 5


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "room",
    [
        "",
        "resource.setrlimit(resource.RLIMIT_AS, (200 << 20, -1))",
        "resource.setrlimit(resource.RLIMIT_DATA, (120 << 20, -1))",
    ],
)
def test_a_start_that_fails_ends_as_pythons_do(room: str) -> None:
    """Python's end frees what was allocated before, in here and afterwards; where memory is short, the heap grows by less."""
    program = f"""
import resource
from byref_sandbox.zygote import heap
{room}
before = [object() for _ in range(100_000)]
with heap.gathered():
    import decimal, email.message
    loaded = [str(number) for number in range(100_000)]
    raise ValueError("a broken library")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "ValueError: a broken library"


def test_forks_free_what_they_share(gathered: dict[str, float]) -> None:
    assert gathered["codes"] == [7, 7, 7]
