"""What it costs that a session remembers its names: runs of code with a session's state, against the same runs without any.

Both go to one warm sandbox. With state they go through an engine, which reads and writes the names in a SQLite file.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.results import Figure, Work, interleaved, median
from byref import Engine, Policy, Session
from byref_sandbox import Sandbox

RUNS, SHORT_RUNS = 40, 3
FRAME_RUNS, SHORT_FRAME_RUNS = 7, 2
ROWS, SHORT_ROWS = 2_100_000, 20_000
"""Of six columns of floats: 100 MB."""
THIRTY = "\n".join(f"n{n} = [{n}, 'x{n}', {{'a': {n}.5}}]" for n in range(30))
FRAME = "frame = pd.DataFrame(np.random.default_rng(0).random(({rows}, 6)), columns=list('abcdef'))"
ROOM = 1 << 40


def main(short: bool = False) -> Iterator[Figure]:
    """Small runs, a large table, and the first run of a new process."""
    policy = Policy(max_session_bytes=ROOM, max_tenant_bytes=ROOM, run_memory_bytes=2 << 30, run_result_bytes=512 << 20)
    with (
        tempfile.TemporaryDirectory() as folder,
        Sandbox() as sandbox,
        Engine(f"sqlite:///{folder}/state.db", interpreter=sandbox, policy=policy) as engine,
    ):
        yield from _small(engine, sandbox, SHORT_RUNS if short else RUNS)
        yield from _large(engine, sandbox, SHORT_FRAME_RUNS if short else FRAME_RUNS, SHORT_ROWS if short else ROWS)


def _small(engine: Engine, sandbox: Sandbox, runs: int) -> Iterator[Figure]:
    numbers = itertools.count()
    codes = {
        "`1 + 1`": lambda: "1 + 1",
        "`x = 1`, another value each time": lambda: f"x = {next(numbers)}",
        "30 names bound, one of them anew": lambda: f"{THIRTY}\nn0 = {next(numbers)}",
        "30 names there, one of them used": lambda: "n7",
    }
    for step, code in codes.items():
        session = engine.session(step[:30].strip("`"))
        if step.startswith("30 names there"):
            session.run(THIRTY)
        yield _figure(
            step,
            runs,
            partial(_run, session, code),
            lambda code=code: sandbox.run(code().replace("n7", "7"), session="bare"),  # type: ignore[misc]
        )


def _run(session: Session, code: Callable[[], str]) -> None:
    session.run(code())


def _large(engine: Engine, sandbox: Sandbox, runs: int, rows: int) -> Iterator[Figure]:
    session = engine.session("frame")
    session.run(FRAME.format(rows=rows))
    numbers = itertools.count(1)
    size = f"a table of {rows * 48 / 1e6:,.0f} MB"

    def restarted() -> None:
        sandbox._forget_sessions()

    yield _figure(
        f"{size}, only looked at",
        runs,
        lambda: session.run("len(frame)"),
        lambda: sandbox.run("len([])", session="bare"),
    )
    yield _figure(
        f"{size}, one cell changed",
        runs,
        lambda: session.run(f"frame.iloc[{next(numbers)}, 0] = 2.0"),
        lambda: sandbox.run(FRAME.format(rows=rows), session="bare"),
        "making the table in a run that keeps nothing",
    )
    yield _figure(
        f"{size}, first run of a new process",
        runs,
        (restarted, lambda _: session.run("len(frame)")),
        (restarted, lambda _: sandbox.run("len([])", session="bare")),
    )


def _figure(step: str, runs: int, ours: Work, bare: Work, baseline: str = "the same run without state") -> Figure:
    times = interleaved(runs, ours=ours, bare=bare)
    found, base = median(times["ours"]), median(times["bare"])
    return Figure(step, found * 1e3, "ms", f"{baseline}, {base * 1e3:.1f} ms", found / base)
