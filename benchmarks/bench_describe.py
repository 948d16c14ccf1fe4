"""Schema, shape and preview: ratios to `orjson.loads` of the same bytes (xoj) and to genson, gc disabled, in one run."""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from genson import SchemaBuilder

from byref.describe.preview import preview
from byref.describe.schema import infer
from byref.describe.shape import shape
from byref.tokens import SampledCounter

MEGABYTES = 10


def records(random_: random.Random) -> dict[str, Any]:
    """One record of a list of users: scalars, a list, two levels of objects."""
    i = random_.randrange(10**6)
    return {
        "id": i,
        "name": f"user {i}",
        "email": f"user{i}@example.com",
        "score": random_.random() * 100,
        "active": i % 3 == 0,
        "tags": ["a", "b"][: i % 3],
        "address": {"city": "Oslo", "zip": f"{i:05}", "geo": {"lat": random_.random(), "lon": random_.random()}},
        "note": None if i % 5 else "x",
    }


def flat(random_: random.Random) -> dict[str, Any]:
    """One record of scalars only."""
    i = random_.randrange(10**6)
    return {"id": i, "name": f"user {i}", "email": f"u{i}@example.com", "score": random_.random(), "active": i % 3 == 0}


def ragged(random_: random.Random) -> dict[str, Any]:
    """A record from which each member may be missing."""
    return {key: value for key, value in records(random_).items() if random_.random() < 0.8}


def wide(random_: random.Random) -> dict[str, Any]:
    """A row of 600 columns."""
    return {f"column_{i}": random_.random() if i % 3 else f"value {i}" for i in range(600)}


def feature(random_: random.Random) -> dict[str, Any]:
    """A GeoJSON feature."""
    ring = [[random_.random(), random_.random()] for _ in range(20)]
    return {"type": "Feature", "properties": {"id": 1}, "geometry": {"type": "Polygon", "coordinates": [ring]}}


def documents() -> dict[str, bytes]:
    """The corpora, each of about ten megabytes, and those named on the command line."""
    random_ = random.Random(7)
    made: dict[str, bytes] = {}
    for make in (records, flat, ragged, wide, feature):
        count = MEGABYTES * 1_000_000 // len(orjson.dumps([make(random_) for _ in range(20)])) * 20
        made[make.__name__] = orjson.dumps({"rows": [make(random_) for _ in range(count)], "total": count})
    made["matrix"] = orjson.dumps([[i, random_.random(), "x"] for i in range(300_000)])
    made |= {Path(name).name: Path(name).read_bytes() for name in sys.argv[1:] if Path(name).is_file()}
    return made


def best(call: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """The least seconds of several calls, and what the last one returned."""
    seconds, result = float("inf"), None
    for _ in range(times):
        start = time.perf_counter()
        result = call()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, result


def main() -> None:
    """Print a line of ratios for each corpus."""
    counter = SampledCounter()
    counter.count("warm", "json")

    def measure(text: str) -> int:
        return counter.count(text, "json")

    print("describe                 MB  infer+full  of genson  fitted(1000)  preview(1000)  preview(7000)  shape")
    gc.disable()
    try:
        for name, text in documents().items():
            xoj, value = best(lambda text=text: orjson.loads(text))  # type: ignore[misc]
            inferred, schema = best(lambda value=value: infer(value))  # type: ignore[misc]
            rendered, full = best(schema.full, 1)
            fitted, _ = best(lambda schema=schema: schema.fitted(1_000, measure))  # type: ignore[misc]
            total = counter.count(text.decode(), "json")
            small, _ = best(lambda: preview(value, budget=1_000, measure=measure, total=total))  # noqa: B023
            large, _ = best(lambda: preview(value, budget=7_000, measure=measure, total=total))  # noqa: B023
            glance, _ = best(lambda: shape(value))  # noqa: B023
            builder = SchemaBuilder()
            by_genson, _ = best(lambda: builder.add_object(value), 1)  # noqa: B023
            if builder.to_schema() != full:
                raise AssertionError(f"the schema of {name!r} differs from genson's")
            both = f"{inferred / xoj:.2f}" + (f"+{rendered / xoj:.0f}" if rendered > xoj / 10 else "")
            print(
                f"{name:<20.20} {len(text) / 1e6:6.1f}  {both:>6} xoj  {(inferred + rendered) / by_genson:8.2f}x"
                f"  {fitted * 1e3:9.1f} ms  {small * 1e3:10.1f} ms  {large * 1e3:10.1f} ms  {glance * 1e3:.1f} ms"
            )
    finally:
        gc.enable()


if __name__ == "__main__":
    main()
