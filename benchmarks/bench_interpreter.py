"""The interpreter: warm runs against a cold Python, and a group-by over 500,000 bound records against plain pandas."""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pandas as pd

import byref
from byref_sandbox import Data, Sandbox
from byref_sandbox.language.policy import Language

COLD_RUNS = 5
WARM_RUNS = 400
GROUP_RUNS = 15
TURN_SECONDS = 0.1
"""Between two calls; a model takes longer."""
RECORDS = 500_000
IDLE_SESSIONS = 8
GROUP_BY = "df('orders').groupby('region')['amount'].sum().round(2).to_dict()"
LOOPS = {
    "integers": "t = 0\nfor i in range(400_000):\n    t += i * i % 7\nt",
    "records": "t = 0\nrows = [{'a': i, 'b': str(i)} for i in range(60_000)]\nfor r in rows:\n    t += r['a'] + len(r['b'])\nt",
    "methods": (
        "class P:\n    def __init__(self, x):\n        self.x = x\n    def double(self):\n        return self.x * 2\n"
        "t = 0\nfor i in range(100_000):\n    t += P(i).double()\nt"
    ),
    "strings": "out = []\nfor i in range(120_000):\n    out.append(f'{i}:{i % 3}'.split(':')[0])\nlen(out)",
}


def main() -> None:
    """Print medians and ratios; every pair of a ratio was measured in turns."""
    _loops()
    with tempfile.TemporaryDirectory() as folder, byref.Engine(f"sqlite:///{folder}/bench.db") as engine:
        _round_trips(engine.session("bench"))
        _records(engine.session("orders"), _orders())
    _idle()


def _loops() -> None:
    language = Language()
    for name, code in LOOPS.items():
        program = language.compile(code)
        plain = compile(code, "<plain>", "exec")
        pairs = [
            (_timed(lambda p=program: language.run(p, {}, sys.stdout)), _timed(lambda p=plain: exec(p, {})))  # type: ignore[misc]
            for _ in range(5)
        ]
        ours, theirs = (min(times) for times in zip(*pairs, strict=True))
        print(f"interpreter: policy overhead on {name}: {ours / theirs:.2f}x plain CPython (at most 1.8x)")


def _round_trips(session: byref.Session) -> None:
    first = _timed(lambda: session.run("1+1"))
    with Sandbox() as sandbox:
        sandbox.run("1+1", session="s")
        cold: list[float] = []
        recorded: list[float] = []
        warm: list[float] = []
        for _ in range(COLD_RUNS):
            cold.append(_timed(lambda: subprocess.run([sys.executable, "-c", "import pandas"], check=True)))
            for _ in range(WARM_RUNS // COLD_RUNS):
                warm.append(_timed(lambda: sandbox.run("1+1", session="s")))
                recorded.append(_timed(lambda: session.run("1+1")))
    for name, times in (("in the sandbox", warm), ("recorded in SQL", recorded)):
        p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
        print(
            f"interpreter: warm 1+1 {name}: p50 {p50 * 1e3:.1f} ms = 1/{statistics.median(cold) / p50:.0f} of a cold "
            f"`import pandas` ({statistics.median(cold) * 1e3:.0f} ms; at most 1/80); p99 {p99 / p50:.1f}x p50 (at most 3x)"
        )
    print(f"interpreter: first run, with the zygote's start: {first * 1e3:.0f} ms")


def _orders() -> bytes:
    draw = random.Random(1)
    return orjson.dumps(
        [
            {
                "id": number,
                "customer": f"customer_{number % 9_973}@example.com",
                "region": draw.choice(["north", "south", "east", "west"]),
                "amount": round(draw.random() * 1000, 2),
                "quantity": draw.randint(1, 9),
                "created_at": f"2024-{1 + number % 12:02d}-{1 + number % 28:02d}T{number % 24:02d}:{number % 60:02d}:00Z",
                "status": draw.choice(["paid", "open", "void"]),
                "note": f"order number {number} of the list, delivered as agreed",
            }
            for number in range(RECORDS)
        ]
    )


def _records(session: byref.Session, payload: bytes) -> None:
    session.process({"orders": orjson.loads(payload)}, tool="list_orders")
    session.run("1+1")
    parsed = min(_timed(lambda: orjson.loads(payload)) for _ in range(3))
    bind = _timed(lambda: _checked(session, "df('orders').shape"))
    table = session.variable("orders").artifact
    frame = pd.DataFrame(orjson.loads(payload))
    frame["created_at"] = pd.to_datetime(frame["created_at"])
    ours: list[float] = []
    theirs: list[float] = []
    loading: list[float] = []
    at_once: list[float] = []
    for number in range(GROUP_RUNS):
        time.sleep(TURN_SECONDS)
        ours.append(_timed(lambda: _checked(session, GROUP_BY)))
        at_once.append(_timed(lambda: _checked(session, GROUP_BY)))
        theirs.append(_timed(lambda: frame.groupby("region")["amount"].sum().round(2).to_dict()))
        if number < 3:
            loading.append(_timed(lambda: _load_and_group(table)))
    group, plain = statistics.median(ours), statistics.median(theirs)
    print(
        f"interpreter: {RECORDS:,} records, {len(payload) / 1e6:.0f} MB of JSON: first use as a DataFrame "
        f"{bind * 1e3:.0f} ms = {bind / parsed:.2f}x orjson.loads ({parsed * 1e3:.0f} ms; at most 2x)"
    )
    print(
        f"interpreter: group-by {group * 1e3:.0f} ms = {group / plain:.1f}x plain pandas on a loaded frame "
        f"({plain * 1e3:.0f} ms; at most 2x; {statistics.median(at_once) / plain:.1f}x right after another run), "
        f"{statistics.median(loading) / group:.0f}x faster than loading and computing "
        f"({statistics.median(loading) * 1e3:.0f} ms; at least 30x)"
    )
    value = _timed(lambda: _checked(session, "len(orders)"))
    print(f"interpreter: first use as a list {value * 1e3:.0f} ms, {value / parsed:.2f}x orjson.loads")


def _load_and_group(artifact: byref.Artifact) -> object:
    frame = pd.DataFrame(json.loads(artifact.payload.read())["orders"])
    return frame.groupby("region")["amount"].sum().round(2).to_dict()


def _idle() -> None:
    with Sandbox(sessions=IDLE_SESSIONS) as sandbox:
        sandbox.start()
        before = _private(sandbox)
        small = Data("small", lambda: b"[1]")
        for number in range(IDLE_SESSIONS):
            for _ in range(3):
                sandbox.run("sum(x)", {"x": small}, session=f"s{number}")
        time.sleep(1)  # until the last run's process is gone
        cost = (_private(sandbox) - before) / IDLE_SESSIONS / 1e6
        print(f"interpreter: idle cost of a warm session {cost:.1f} MB beyond its data (under 10 MB)")


def _private(sandbox: Sandbox) -> int:
    """Bytes that the sandbox's processes hold, what they share divided among them."""
    assert sandbox._root is not None
    pids = [sandbox._root.pid]
    for pid in pids:
        pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    total = 0
    for pid in pids:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += int(rollup.partition("\nPss:")[2].split()[0]) * 1024
    return total


def _checked(session: byref.Session, code: str) -> None:
    outcome = session.run(code)
    assert outcome.error is None, outcome.error


def _timed(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
