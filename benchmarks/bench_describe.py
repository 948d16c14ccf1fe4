"""Making the JSON schema of a whole value, and the part of it that the model is shown.

The schema is compared with that of genson, the pure-Python builder that defines it. Both are made from the same parsed value in
the same rounds, and have to be equal. The unit is `orjson.loads` of the value's JSON (xoj). The corpora are lists of records
(flat, nested, ragged, or 600 columns wide), geometries, and a matrix.

Text of similar rows is described without being parsed, by the forms that its rows have. That is compared with
parsing the text and inferring the schema of the value. Text whose rows have too many forms, such as that of wide rows, is
parsed in the end: there the ratio shows the cost of the attempt.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from benchmarks.results import Figure, interleaved, median, ratio
from byref.accounting.tokens import SampledCounter
from byref.describe.preview import preview
from byref.describe.schema import infer
from byref.describe.shape import shape
from byref.jsonscan import describe_text
from byref_sandbox import jsontext

BYTES, SHORT_BYTES = 10_000_000, 600_000
RUNS, GENSON_RUNS = 5, 2
"""Rounds; genson takes part in the first of them."""
PREVIEW_TOKENS = 1_000


def nested(random_: random.Random) -> dict[str, Any]:
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
    return {key: value for key, value in nested(random_).items() if random_.random() < 0.8}


def wide(random_: random.Random) -> dict[str, Any]:
    """A row of 600 columns."""
    return {f"column_{i}": random_.random() if i % 3 else f"value {i}" for i in range(600)}


def geometry(random_: random.Random) -> dict[str, Any]:
    """A GeoJSON feature."""
    ring = [[random_.random(), random_.random()] for _ in range(20)]
    return {"type": "Feature", "properties": {"id": 1}, "geometry": {"type": "Polygon", "coordinates": [ring]}}


def matrix(random_: random.Random) -> list[Any]:
    """A row without names."""
    return [random_.randrange(10**6), random_.random(), "x"]


MAKERS: tuple[Callable[[random.Random], Any], ...] = (flat, nested, ragged, wide, geometry, matrix)


def main(short: bool = False) -> Iterator[Figure]:
    """The schema of each corpus; then what is shown of one."""
    for make in MAKERS:
        text = document(make, SHORT_BYTES if short else BYTES)
        yield from _schema(make.__name__, text, short)
    yield from _shown(document(nested, SHORT_BYTES if short else BYTES), short)


def document(make: Callable[[random.Random], Any], size: int) -> bytes:
    """Rows of one kind, as JSON of about `size` bytes."""
    random_ = random.Random(7)
    count = max(20, size // len(orjson.dumps([make(random_) for _ in range(20)])) * 20)
    return orjson.dumps({"rows": [make(random_) for _ in range(count)], "total": count})


def _schema(name: str, text: bytes, short: bool) -> Iterator[Figure]:
    from genson import SchemaBuilder

    value = orjson.loads(text)

    def genson() -> dict[str, Any]:
        builder = SchemaBuilder()
        builder.add_object(value)
        return builder.to_schema()  # type: ignore[no-any-return]

    if genson() != infer(value).full():
        raise AssertionError(f"the schema of {name!r} differs from genson's")
    step, megabytes = f"schema of {name} rows", len(text) / 1e6
    peer = interleaved(1 if short else GENSON_RUNS, ours=lambda: infer(value).full(), genson=genson)
    yield Figure(step, median(peer["ours"]) * 1e3, "ms", "genson, equal schema", ratio(peer["ours"], peer["genson"]))
    times = interleaved(1 if short else RUNS, xoj=lambda: orjson.loads(text), ours=lambda: infer(value).full())
    yield Figure(
        step, median(times["ours"]) * 1e3, "ms", f"orjson.loads, {megabytes:.1f} MB", ratio(times["ours"], times["xoj"])
    )
    described = describe_text(text)
    if described is not None and described.schema.full() != infer(value).full():
        raise AssertionError(f"the schema of the text of {name!r} differs from that of its value")

    def parsed() -> object:
        return infer(jsontext.decode(text), plain=True).full()

    def ours() -> object:
        return describe_text(text) or parsed()

    times = interleaved(1 if short else RUNS, ours=ours, parsed=parsed, xoj=lambda: orjson.loads(text))
    how = "fast path" if described is not None else "parsed"
    step, spent = f"text of {name} rows described, {how}", median(times["ours"]) * 1e3
    yield Figure(step, spent, "ms", "parsing it and inferring the schema", ratio(times["ours"], times["parsed"]))
    yield Figure(step, spent, "ms", f"orjson.loads, {megabytes:.1f} MB", ratio(times["ours"], times["xoj"]))


def _shown(text: bytes, short: bool) -> Iterator[Figure]:
    counter = SampledCounter()
    counter.count("the vocabulary is loaded", "json")
    value = orjson.loads(text)
    schema, total = infer(value), counter.count(text.decode(), "json")

    def measure(part: str) -> int:
        return counter.count(part, "json")

    works: dict[str, Callable[[], object]] = {
        f"schema fitted to {PREVIEW_TOKENS:,} tokens": lambda: schema.fitted(PREVIEW_TOKENS, measure),
        f"preview of {PREVIEW_TOKENS:,} tokens": lambda: preview(
            value, budget=PREVIEW_TOKENS, measure=measure, total=total
        ),
        "shape": lambda: shape(value),
    }
    times = interleaved(1 if short else RUNS, **works, xoj=lambda: orjson.loads(text))
    for name in works:
        yield Figure(
            f"{name} of nested rows",
            median(times[name]) * 1e3,
            "ms",
            f"orjson.loads, {len(text) / 1e6:.1f} MB",
            ratio(times[name], times["xoj"]),
        )
