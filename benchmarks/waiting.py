"""Another conversation's small outputs, one after the other, in a process of its own: how long each of them took."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import byref

OUTPUT = "a line of a small output\n" * 40
"""1 KB behind a number of its own: it passes whole and is not stored, only its step is written."""
PAUSE_SECONDS = 0.005


@dataclass(frozen=True)
class Waits:
    """What other work meant to small outputs."""

    seconds: float
    """Of the work."""
    took: list[float]
    """Seconds of each small output that was not over when the work began and had begun before it ended; or of the next one."""


def waits(url: str, work: Callable[[], object]) -> Waits:
    """Do the work, and measure the small outputs meanwhile; they began a second before it."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.waiting", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(1)
        began = time.monotonic()
        work()
        ended = time.monotonic()
        spans: list[tuple[float, float]] = json.loads(child.communicate()[0])
        late = [span for span in spans if span[1] > began]
        while_it_lasted = [span for span in late if span[0] < ended] or late[:1]
        return Waits(ended - began, [last - first for first, last in while_it_lasted])
    finally:
        child.kill()
        child.wait()


def main(url: str) -> None:
    """Take outputs in until the input ends, and then one more; print when each began and ended."""
    over, spans = threading.Event(), list[tuple[float, float]]()
    with byref.Engine(url, create=False) as engine:
        session = engine.session("small", tenant="beside", context_window=10**9)
        assert not session.process(OUTPUT, tool="small").artifacts
        print("ready", flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
        is_last = False
        while not is_last:
            is_last = over.is_set()
            started = time.monotonic()
            session.process(f"{started}\n{OUTPUT}", tool="small")
            spans.append((started, time.monotonic()))
            time.sleep(PAUSE_SECONDS)
    print(json.dumps(spans), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
