"""How much memory a process takes to process one output: `python -m benchmarks.peak text 100`, in a process of its own."""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import orjson

from benchmarks import corpora

_STATUS = Path("/proc/self/status")


def of(form: str, megabytes: int) -> tuple[int, int]:
    """The peak of a new process above what it held before, and the size of the payload, both in bytes."""
    command = [sys.executable, "-m", "benchmarks.peak", form, str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    above, size = done.stdout.split()
    return int(above), int(size)


def main(form: str, megabytes: int) -> None:
    """Print both; the payload is held by whoever made it, all the time, but for one that comes in chunks."""
    if form.startswith("strands"):
        from benchmarks.peers import Strands

        strands = Strands()
        write = json.dumps if form == "strands text" else list  # as its `@tool` does, or as objects
        strands.offload(write([{"n": number} for number in range(10_000)]))
        output = orjson.loads(corpora.records(megabytes * 1_000_000))
        before = _reset()
        strands.offload(write(output))
        print(_peak() - before, len(orjson.dumps(output)))
        return
    import byref

    policy = byref.Policy(max_session_bytes=None)
    with (
        tempfile.TemporaryDirectory() as folder,
        byref.Engine(f"sqlite:///{folder}/peak.db", policy=policy) as engine,
        engine.session("peak", context_window=200_000) as session,
    ):
        session.process([{"n": number} for number in range(20_000)], tool="list_users")
        raw = corpora.records(megabytes * 1_000_000)
        given: object = {"text": bytes.decode, "objects": orjson.loads}.get(form, io.BytesIO)(raw)
        size = len(raw)
        del raw
        before = _reset()
        session.process(given, tool="list_users")
        print(_peak() - before, size)


def above(work: Callable[[], object]) -> int:
    """The peak of this process during the work, above what it held before."""
    before = _reset()
    work()
    return _peak() - before


def _reset() -> int:
    """Forget the peak so far, and return what is held now."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    # ru_maxrss would be that of the parent, where this is less: exec keeps it.
    return _status("VmHWM")


def _status(name: str) -> int:
    return int(_STATUS.read_text().partition(f"{name}:")[2].split()[0]) * 1024


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
