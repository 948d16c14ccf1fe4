"""Another conversation's small outputs, one after the other, in a process of its own: how long each of them took."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import byref

OUTPUT = "a line of a small output\n" * 80
"""2 KB: it passes inline, and its step is written."""
PAUSE_SECONDS = 0.005


def waits(url: str, work: Callable[[], object]) -> list[float]:
    """Seconds that each small output took while `work` was done, those of a second before it included."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.waiting", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(1)
        work()
        took: list[float] = json.loads(child.communicate()[0])
        return took
    finally:
        child.kill()
        child.wait()


def main(url: str) -> None:
    """Take outputs in until the input ends; print the seconds of each."""
    over, took = threading.Event(), list[float]()
    with byref.Engine(url, create=False) as engine:
        session = engine.session("small", tenant="beside", context_window=10**9)
        session.process(OUTPUT, tool="small")
        print("ready", flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
        while not over.is_set():
            started = time.perf_counter()
            session.process(OUTPUT, tool="small")
            took.append(time.perf_counter() - started)
            time.sleep(PAUSE_SECONDS)
    print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
