"""The interpreter: warm runs, and 500,000 bound records, against a cold Python, plain pandas and other interpreters.

Each of our runs is a process of its own behind two walls: RestrictedPython, and a jail of the operating system.
smolagents' LocalPythonExecutor evaluates in the host's own process, which isolates nothing; pydantic-monty is a Python of
its own in Rust, in a worker process without a jail, and has no pandas.
"""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

import byref
from benchmarks import databases
from benchmarks.interpreters import PEERS
from benchmarks.results import Figure, Work, interleaved, median, percentile, ratio, timed
from byref_sandbox import Data, Sandbox
from byref_sandbox.language.policy import Language
from byref_sandbox.zygote import standby

COLD_RUNS, SHORT_COLD_RUNS = 5, 1
WARM_RUNS, SHORT_WARM_RUNS = 80, 25
"""Of each cold one."""
GROUP_RUNS, SHORT_GROUP_RUNS = 15, 2
LOADING_RUNS = 2
LOOP_RUNS, SHORT_LOOP_RUNS = 5, 2
TURN_SECONDS = 0.1
"""Between two calls; a model takes longer."""
RECORDS, SHORT_RECORDS = 500_000, 20_000
IDLE_SESSIONS = 8
POLL_SECONDS = 0.01
GROUP_BY = "df('orders').groupby('region')['amount'].sum().round(2).to_dict()"
SUM = "t = {}\nfor o in orders:\n    t[o['region']] = t.get(o['region'], 0) + o['amount']\nt"
COUNT = "t = 0\nfor i in range(100_000):\n    t += i * i % 7\nt"
LOOPS = {
    "integers": "t = 0\nfor i in range(400_000):\n    t += i * i % 7\nt",
    "records": "t = 0\nrows = [{'a': i, 'b': str(i)} for i in range(60_000)]\nfor r in rows:\n    t += r['a'] + len(r['b'])\nt",
    "methods": (
        "class P:\n    def __init__(self, x):\n        self.x = x\n    def double(self):\n        return self.x * 2\n"
        "t = 0\nfor i in range(100_000):\n    t += P(i).double()\nt"
    ),
    "strings": "out = []\nfor i in range(120_000):\n    out.append(f'{i}:{i % 3}'.split(':')[0])\nlen(out)",
}


def main(short: bool = False) -> Iterator[Figure]:
    """The language; one warm run; many records; memory."""
    yield from _loops(SHORT_LOOP_RUNS if short else LOOP_RUNS)
    yield from _round_trips(short)
    payload = _orders(SHORT_RECORDS if short else RECORDS)
    with _session() as session:
        figures = _records(session, payload, SHORT_GROUP_RUNS if short else GROUP_RUNS)
        # The targets are those of 500,000 records.
        yield from (replace(figure, target="") for figure in figures) if short else figures
    yield from _peers(payload, short)
    if not short:
        yield from _memory(payload)


@contextmanager
def _session() -> Iterator[byref.Session]:
    policy = byref.Policy(max_session_bytes=None, run_seconds=300, run_cpu_seconds=120)
    with databases.database("SQLite") as url, byref.Engine(url, policy=policy) as engine:
        yield engine.session("bench")


def _loops(runs: int) -> Iterator[Figure]:
    """What the language costs, in this process: the least of several, for it is far less than what disturbs it."""
    language = Language()
    for name, code in LOOPS.items():
        program = language.compile(code)
        plain = compile(code, "<plain>", "exec")
        times = interleaved(
            runs,
            ours=lambda program=program: language.run(program, {}, sys.stdout),
            plain=lambda plain=plain: exec(plain, {}),
        )
        ours = min(times["ours"])
        yield Figure(
            f"the policy on a loop over {name}",
            ours * 1e3,
            "ms",
            "plain CPython",
            ours / min(times["plain"]),
            "<= 1.8x",
        )


def _round_trips(short: bool) -> Iterator[Figure]:
    rounds, runs = (SHORT_COLD_RUNS, SHORT_WARM_RUNS) if short else (COLD_RUNS, WARM_RUNS)
    with _session() as session, Sandbox() as sandbox:
        yield Figure("the first run, with the zygote's start", timed(lambda: session.run("1+1")) * 1e3, "ms")
        sandbox.run("1+1", session="s")
        cold: list[float] = []
        warm: dict[str, list[float]] = {"in the sandbox": [], "recorded in SQL": []}
        for _ in range(rounds):
            cold.append(timed(lambda: subprocess.run([sys.executable, "-c", "import pandas"], check=True)))
            for _ in range(runs):
                warm["in the sandbox"].append(timed(lambda: sandbox.run("1+1", session="s")))
                warm["recorded in SQL"].append(timed(lambda: session.run("1+1")))
    for name, times in warm.items():
        p50, p99 = percentile(times, 50), percentile(times, 99)
        yield Figure(
            f"a warm 1+1 {name}, p50",
            p50 * 1e3,
            "ms",
            f"a cold python -c 'import pandas', {median(cold) * 1e3:,.0f} ms",
            p50 / median(cold),
            "<= 1/80x",
        )
        yield Figure(f"a warm 1+1 {name}, p99", p99 * 1e3, "ms", "its p50", p99 / p50, "<= 3x")


def _orders(count: int) -> bytes:
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
            for number in range(count)
        ]
    )


def _records(session: byref.Session, payload: bytes, runs: int) -> Iterator[Figure]:
    session.process({"orders": orjson.loads(payload)}, tool="list_orders")
    session.run("1+1")
    about = f"{len(payload) / 1e6:.0f} MB of records"
    parsed = interleaved(3, parsed=lambda: orjson.loads(payload))["parsed"]
    table = timed(lambda: _checked(session, "df('orders').shape"))
    parsed += interleaved(2, parsed=lambda: orjson.loads(payload))["parsed"]
    xoj = median(parsed)
    yield Figure(f"first use of {about} as a table", table * 1e3, "ms", "orjson.loads", table / xoj, "<= 2 xoj")
    artifact = session.variable("orders").artifact
    frame = pd.DataFrame(orjson.loads(payload))
    frame["created_at"] = pd.to_datetime(frame["created_at"])

    def plain() -> object:
        return frame.groupby("region")["amount"].sum().round(2).to_dict()

    times = interleaved(
        runs,
        ours=(lambda: time.sleep(TURN_SECONDS), lambda _: _checked(session, GROUP_BY)),
        again=lambda: _checked(session, GROUP_BY),
        plain=plain,
    )
    loading = interleaved(LOADING_RUNS, loading=lambda: _load_and_group(artifact))["loading"]
    ours, base = median(times["ours"]), "pandas on a loaded frame"
    yield Figure(f"group-by over {about}", ours * 1e3, "ms", base, ratio(times["ours"], times["plain"]), "<= 2x")
    yield Figure(
        f"group-by over {about}, right after another run",
        median(times["again"]) * 1e3,
        "ms",
        base,
        ratio(times["again"], times["plain"]),
        "<= 2x",
    )
    yield Figure(
        f"group-by over {about}",
        ours * 1e3,
        "ms",
        "loading and computing each time",
        ours / median(loading),
        "<= 1/30x",
    )
    value = timed(lambda: _checked(session, "len(orders)"))
    yield Figure(f"first use of {about} as a list", value * 1e3, "ms", "orjson.loads", value / xoj)


def _load_and_group(artifact: byref.Artifact) -> object:
    frame = pd.DataFrame(json.loads(artifact.payload.read())["orders"])
    return frame.groupby("region")["amount"].sum().round(2).to_dict()


def _peers(payload: bytes, short: bool) -> Iterator[Figure]:
    """The same tasks, where a peer can run them: the first use apart from the warm ones."""
    records = orjson.loads(payload)
    gc.collect()
    gc.freeze()  # the collector would look through them before every timing
    data = Data("orders", lambda: payload)
    runs = SHORT_GROUP_RUNS if short else GROUP_RUNS
    with Sandbox() as sandbox, ExitStack() as stack:

        def ours(code: str, **variables: Data) -> Any:
            outcome = sandbox.run(code, variables, session="s")
            assert outcome.error is None, outcome.error
            return outcome.value

        ours("1+1")
        bound = timed(lambda: ours(SUM, orders=data))
        ours(GROUP_BY, orders=data)
        for name, make in PEERS.items():
            try:
                peer = make()
            except ImportError as error:
                yield Figure(
                    f"the same tasks by {name}",
                    float("nan"),
                    "ms",
                    name,
                    note=f"not installed (pip install --group bench): {error}",
                )
                continue
            stack.callback(peer.close)
            tasks: list[tuple[str, int, Callable[[], Any], Work]] = [
                ("1+1", runs * 10, lambda: ours("1+1"), lambda peer=peer: peer.run("1+1")),
                ("a loop of 100,000", min(3, runs // 2), lambda: ours(COUNT), lambda peer=peer: peer.run(COUNT)),
            ]
            if name == "smolagents":
                peer.bind(frame=pd.DataFrame(records))
                code = GROUP_BY.replace("df('orders')", "frame")
                group: Work = lambda peer=peer, code=code: peer.run(code)  # noqa: E731
                tasks.append(("group-by over the records", runs, lambda: ours(GROUP_BY, orders=data), group))
            else:
                theirs = timed(lambda peer=peer: (peer.bind(orders=records), peer.run(SUM)))
                yield Figure("a sum over the records in plain Python, first", bound * 1e3, "ms", name, bound / theirs)
                tasks.append(
                    (
                        "a sum over the records in plain Python",
                        min(5, runs),
                        lambda: ours(SUM, orders=data),
                        lambda peer=peer: peer.run(SUM),
                    )
                )
            for task, times, mine, other in tasks:
                measured = interleaved(times, ours=mine, theirs=other)
                yield Figure(
                    task,
                    median(measured["ours"]) * 1e3,
                    "ms",
                    f"{name}, {median(measured['theirs']) * 1e3:.3g} ms",
                    ratio(measured["ours"], measured["theirs"]),
                    note=f"isolation of {name}: {peer.isolation}",
                )


def _memory(payload: bytes) -> Iterator[Figure]:
    with Sandbox(sessions=IDLE_SESSIONS) as sandbox:
        sandbox.start()
        before = _held(sandbox)
        small = Data("small", lambda: b"[1]")
        for number in range(IDLE_SESSIONS):
            for _ in range(3):
                sandbox.run("sum(x)", {"x": small}, session=f"s{number}")
        for since, seconds, target in (
            ("after its last run", 1, ""),  # until that run's process is gone
            ("once it is idle", standby.IDLE_SECONDS, "<= 10 MB"),
        ):
            time.sleep(seconds)
            cost = (_held(sandbox) - before) / IDLE_SESSIONS
            yield Figure(f"memory of a warm session {since}, beyond its data", cost / 1e6, "MB", target=target)
    about = f"{len(payload) / 1e6:.0f} MB of records"
    for use, code in (("a table", GROUP_BY), ("a list", SUM)):
        with Sandbox() as sandbox:
            sandbox.run("1+1", session="s")
            before = _held(sandbox)
            with _watched(lambda sandbox=sandbox: _held(sandbox)) as most:  # type: ignore[misc]
                outcome = sandbox.run(code, {"orders": Data("orders", lambda: payload)}, session="s")
            assert outcome.error is None, outcome.error
            yield Figure(
                f"memory of the sandbox, {about} used as {use}, at its peak",
                (most[0] - before) / 1e6,
                "MB",
                "the payload's bytes",
                (most[0] - before) / len(payload),
            )


@contextmanager
def _watched(measure: Callable[[], int]) -> Iterator[list[int]]:
    """The most that was measured while the block ran, as far as looking every few milliseconds tells."""
    most, done = [measure()], threading.Event()

    def watch() -> None:
        while not done.wait(POLL_SECONDS):
            most[0] = max(most[0], measure())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def _held(sandbox: Sandbox) -> int:
    """Bytes that the sandbox's processes hold, what they share divided among them."""
    assert sandbox._root is not None
    pids, total = [sandbox._root.pid], 0
    for pid in pids:
        try:
            pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        total += int((rollup.partition("\nPss:")[2].split() or [0])[0]) * 1024
    return total


def _checked(session: byref.Session, code: str) -> None:
    outcome = session.run(code)
    assert outcome.error is None, outcome.error
