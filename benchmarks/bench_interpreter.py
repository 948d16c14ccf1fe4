"""The interpreter: a warm `1+1` against a cold Python that imports pandas, and a group-by over bound records."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

import byref

COLD_RUNS = 5
WARM_RUNS = 100
RECORDS = 100_000


def main() -> None:
    """Print medians and the ratio."""
    cold = statistics.median(_cold() for _ in range(COLD_RUNS))
    with tempfile.TemporaryDirectory() as folder, byref.Engine(f"sqlite:///{folder}/bench.db") as engine:
        session = engine.session("bench")
        start = time.perf_counter()
        session.run("1+1")
        first = time.perf_counter() - start
        warm = [_run(session, "1+1") for _ in range(WARM_RUNS)]
        session.process([{"id": i, "group": f"g{i % 50}", "value": i / 7} for i in range(RECORDS)], tool="rows")
        bind = _run(session, "len(rows)")
        grouped = [_run(session, "df('rows').groupby('group').value.mean().max()") for _ in range(5)]
    p50 = statistics.median(warm)
    print(
        f"interpreter: cold `import pandas` {cold * 1e3:.0f} ms; first run with the zygote's start {first * 1e3:.0f} ms"
    )
    print(f"interpreter: warm 1+1, recorded in SQL, p50 {p50 * 1e3:.1f} ms, {cold / p50:.0f}x faster than cold")
    print(
        f"interpreter: {RECORDS:,} records: first use {bind * 1e3:.0f} ms, "
        f"group-by as DataFrame {statistics.median(grouped) * 1e3:.0f} ms"
    )


def _cold() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import pandas"], check=True)
    return time.perf_counter() - start


def _run(session: byref.Session, code: str) -> float:
    start = time.perf_counter()
    outcome = session.run(code)
    assert outcome.error is None, outcome.error
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
