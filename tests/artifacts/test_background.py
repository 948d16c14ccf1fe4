"""What a thread of the engine writes when the process ends without `Engine.close`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ENDS = """
import sys, threading
import byref
from byref.artifacts import learning

add, writing = learning._add, threading.Event()

def slow(*given):
    writing.set()
    threading.Event().wait(0.5)
    found = add(*given)
    print("written", flush=True)
    return found

learning._add = slow
session = byref.Engine(sys.argv[1]).session("chat")
session.process([{"id": number} for number in range(50)], tool="rows")
assert writing.wait(20)
"""


@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite:///:memory:", pytest.param("sqlite:///{}/ends.db", marks=pytest.mark.slow)])
def test_a_process_ends_when_what_is_being_written_is(tmp_path: Path, url: str) -> None:
    """An in-memory database has one connection: closed while the thread used it, it took the process down."""
    command = [sys.executable, "-c", ENDS, url.format(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "written\n"), done.stderr
