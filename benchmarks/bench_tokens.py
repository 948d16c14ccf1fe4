"""Time and error of the token estimate over real and hostile text, at several sizes."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import vega_datasets

from byref.tokens import SampledCounter

_LOAD = """
import time
from byref.tokens import SampledCounter
start = time.perf_counter()
SampledCounter().count("x")
print(time.perf_counter() - start)
"""


def main() -> None:
    """Print, per corpus, the size, the estimate's error against an exact count, and both times."""
    loads = [float(subprocess.check_output([sys.executable, "-c", _LOAD])) for _ in range(3)]
    print(f"tokens: loading the vocabulary, once per process: {min(loads) * 1e3:.0f} ms")
    counter = SampledCounter()
    for name, text in _corpora():
        seconds = [_seconds(counter, text) for _ in range(7)]
        start = time.perf_counter()
        exact = _exact(text)
        error = counter.count(text) / exact - 1
        print(
            f"tokens: {name:18} {len(text) / 1e6:6.2f} M characters  {error:+6.1%}  estimated in "
            f"{statistics.median(seconds) * 1e3:5.1f} ms, exactly in {(time.perf_counter() - start) * 1e3:7.1f} ms"
        )
    short = "the quick brown fox jumps " * 12
    print(f"tokens: {len(short)} characters in {min(_seconds(counter, short) for _ in range(100)) * 1e6:.0f} µs")


def _corpora() -> Iterator[tuple[str, str]]:
    data = Path(vega_datasets.__file__).parent / "_data"
    rng = random.Random(1)
    for name in ("airports.csv", "seattle-temps.csv", "cars.json"):
        text = (data / name).read_text()
        yield name, text
        yield f"{name} x 100", text * 100
    rows = [{"id": i, "uuid": rng.randbytes(16).hex(), "value": rng.random()} for i in range(100_000)]
    yield "records", json.dumps(rows)
    yield "blanks", " " * 10_000_000
    yield "ideographs", "".join(chr(0x4E00 + rng.randrange(20_000)) for _ in range(1_000_000))


def _seconds(counter: SampledCounter, text: str) -> float:
    start = time.perf_counter()
    counter.count(text)
    return time.perf_counter() - start


def _exact(text: str) -> int:
    """The exact counts of parts that are small enough to be counted exactly: at most one token too many per part."""
    counter = SampledCounter()
    return sum(counter.count(text[i : i + 8_192]) for i in range(0, len(text), 8_192))


if __name__ == "__main__":
    main()
