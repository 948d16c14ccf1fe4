"""A gigabyte is scanned in little memory, and so are hostile streams."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from byref.jsonscan import Scanner, sizes

GIGABYTE = """
import json, resource, sys
from byref.describe.schema import infer
from byref.describe.shape import shape
from byref.jsonscan import Scanner

kind = sys.argv[1]
records = [
    {"id": i, "name": f"User {i}", "email": f"user{i}@example.com", "score": i / 2, "tags": ["a", "b"], "at": {"city": "Rom"}}
    for i in range(20_000)
]
part = json.dumps(records)[1:-1].encode() + b"," if kind == "json" else b"one line of a log, and not a short one\\n" * 50_000
times = 10**9 // len(part) + 1
import byref.jsonscan.document, numpy
idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scanner = Scanner()
if kind == "json":
    scanner.feed(b'{"total": 1, "rows": [')
for _ in range(times):
    for at in range(0, len(part), 1 << 20):
        scanner.feed(part[at : at + (1 << 20)])
if kind == "json":
    records.append({"id": None, "last": True})
    scanner.feed(json.dumps(records[-1]).encode() + b'], "next": "x"}')
scanned = scanner.finish()
used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) * 1024
if kind == "json":
    like = {"total": 1, "rows": records, "next": "x"}
    assert scanned.schema.full() == infer(like).full(), scanned.schema.full()
    count = times * 20_000 + 1
    assert shape(scanned.value) == {"total": "integer", "rows": f"array({count}) of object", "next": "string"}
    assert scanned.value["rows"].tail[-1] == records[-1]
else:
    assert scanned.lines == times * 50_000 and scanned.text.size == len(part) * times
print(used)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "limit"), [("json", 300_000_000), ("text", 100_000_000)])
def test_a_gigabyte(kind: str, limit: int) -> None:
    done = subprocess.run([sys.executable, "-c", GIGABYTE, kind], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < limit


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("start", "again", "problem"),
    [
        (b"", b"[", "nested too deeply"),
        (b'{"a":', b'{"a":', "nested too deeply"),
        (b'["', b"x", "too large"),
        (b'{"', b"x", "too large"),
        (b"[", b'"\\\\', "too large"),
        (b"[[", b"{},", "too large"),
        (b"[", b"[] ", "too large"),
        (b"[]", b" ", None),
        (b"[]", b"x", "Extra data at line 1, column 3"),
        (b"[0", b",[]", "Expecting ',' delimiter"),
        (b'{"a":[0', b",1", "Expecting ',' delimiter"),
    ],
    ids=repr,
)
def test_hostile_streams_are_refused_in_time(
    start: bytes, again: bytes, problem: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "MOST", 8_000_000)
    scanner, block = Scanner(), again * (1_000_000 // len(again))
    begun = time.process_time()
    scanner.feed(start)
    for _ in range(9):
        scanner.feed(block)
    scanned = scanner.finish()
    assert time.process_time() - begun < 20
    assert scanned.parse_error is None if problem is None else problem in (scanned.parse_error or "")
