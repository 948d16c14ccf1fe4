"""Text that is a table, and text that is none.

All of `process` for 10 MB of delimited text, each new, is compared with `process` of JSON records of the same size and values, and
`process` of text that is no table with that of the same text under `tables="off"`, all in processor time and in the same rounds.

Then come the polluted CSV files of Pollock (`CORPORA`, see `benchmarks/tables`), as byref, CleverCSV and DuckDB read them without
being told anything, scored with its authors' code: of 10, for all files alike, and weighted by how often a pollution occurs.
"""

from __future__ import annotations

import csv
import io
import json
import random
import uuid
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from typing import Any

import byref
from benchmarks.results import Figure, measured, ratio
from benchmarks.tables import pollock

SIZE, SHORT_SIZE = 10_000_000, 1_000_000
RUNS, SHORT_RUNS = 9, 3
TEXTS, TEXT_RUNS = (1_000, 10_000, 300_000, 1_000_000), 25
DIALECTS: dict[str, dict[str, Any]] = {
    "commas": {"lineterminator": "\n"},
    "tabs": {"delimiter": "\t", "lineterminator": "\n"},
    "all cells in quotes": {"quoting": csv.QUOTE_ALL},
}


def main(short: bool = False) -> Iterator[Figure]:
    """Tables, texts, and Pollock's files."""
    size, runs = (SHORT_SIZE, SHORT_RUNS) if short else (SIZE, RUNS)
    with byref.Engine("sqlite:///:memory:") as engine:
        yield from _tables(engine, size, runs)
        yield from _texts(engine, SHORT_RUNS if short else TEXT_RUNS)
    if not short:
        yield from _pollock()


def _tables(engine: byref.Engine, size: int, runs: int) -> Iterator[Figure]:
    rows = _rows(size // 60)
    texts = {"JSON": _cut(",\n".join(map(json.dumps, rows)), size)} | {
        name: _cut(_written(rows, dialect), size) for name, dialect in DIALECTS.items()
    }
    texts["JSON"] = f"[{texts['JSON'].rstrip().rstrip(',')}]"
    works = {name: partial(_process, engine, text) for name, text in texts.items()}
    spent = measured(runs, **works)
    for name in DIALECTS:
        ours, theirs = spent[name].processor, spent["JSON"].processor
        yield Figure(
            f"process {size // 10**6} MB of CSV, {name}",
            min(ours) * 1e3,
            "ms",
            "process of JSON records",
            ratio(ours, theirs),
            "<= 1.5x",
        )


def _texts(engine: byref.Engine, runs: int) -> Iterator[Figure]:
    for kind, line in _LINES.items():
        for size in TEXTS:
            works: dict[str, Callable[[], object]] = {
                tables: partial(_process, engine, _made(line, size), tables=tables) for tables in ("auto", "off")
            }
            spent = measured(runs, **works)
            ours, off = min(spent["auto"].processor), min(spent["off"].processor)
            yield Figure(
                f"process {size // 1_000:,} kB of {kind}", ours * 1e3, "ms", 'with tables="off"', ours / off, "<= 1.05x"
            )


def _pollock() -> Iterator[Figure]:
    try:
        folder = pollock.folder()
        system, _ = pollock.read(folder, None)
        versions = pollock.read_by_rivals(folder)
        scored = pollock.scores(folder, system, *versions)
    except pollock.Unavailable as error:
        yield Figure("Pollock, all files alike", float("nan"), "of 10", note=f"skipped: {error}")
        return
    for score, words in (("simple", "all files alike"), ("weighted", "weighted")):
        mine = scored[system][score]
        for rival, version in versions.items():
            yield Figure(
                f"Pollock, {words}",
                mine,
                "of 10",
                f"{rival} {version}, {scored[rival][score]:.3f}; more is better",
                mine / scored[rival][score],
                ">= 9.5 of 10",
                met=mine >= 9.5,
            )


def _process(engine: byref.Engine, text: str, tables: str = "auto") -> object:
    mark = uuid.uuid4().hex  # new content each time
    text = text.replace("alpha", mark[:5], 1)
    session = engine.session(mark, tenant=mark, policy=byref.Policy(tables=tables))
    return session.process(text, tool="t")


def _rows(count: int) -> list[dict[str, Any]]:
    chance, start = random.Random(5), date(2024, 1, 1)
    return [
        {
            "id": n,
            "country": chance.choice(("DE", "FR", "US", "GB", "NL")),
            "total": round(chance.random() * 1_000, 2),
            "day": str(start + timedelta(n % 700)),
            "name": f"{chance.choice(('alpha', 'beta', 'gamma delta'))}{chance.randrange(100_000)}",
            "count": chance.randrange(50) if n % 10 else None,
            "paid": chance.random() < 0.5,
        }
        for n in range(count)
    ]


def _written(rows: list[dict[str, Any]], dialect: dict[str, Any]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0], **dialect)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _cut(text: str, size: int) -> str:
    return text[: text.rfind("\n", 0, size) + 1]


_WORDS = [
    "alpha",
    "beta",
    "of",
    "the",
    "a",
    "and,",
    "in",
    "gamma.",
    "delta",
    "to",
    "be",
    "is,",
    "that",
    "value",
    "of",
    "with",
    "error",
]
_LINES: dict[str, Callable[[random.Random, int], str]] = {
    "prose": lambda chance, n: " ".join(chance.choices(_WORDS, k=chance.randrange(6, 20))) + ".",
    "a log": lambda chance, n: (
        f"2026-05-08T10:{n // 60 % 60:02}:{n % 60:02}Z INFO worker-{n % 7} {' '.join(chance.choices(_WORDS[:3], k=4))} in {n % 97} ms"
    ),
    "a log with commas": lambda chance, n: (
        f"2026-05-08 10:{n // 60 % 60:02}:{n % 60:02},{n % 1000:03} ERROR [pool-{n % 5}] {' '.join(chance.choices(_WORDS, k=8))}"
    ),
    "Python code": lambda chance, n: (
        f"{'    ' * (n % 3)}{chance.choice(('return f(alpha, beta)', 'def g(a, b=2, *c):', 'x = [1, 2, 3]', 'if a in b:', '', 'call(a, b, c=d[e])'))}"
    ),
}


def _made(line: Callable[[random.Random, int], str], size: int) -> str:
    chance, lines, length = random.Random(size), list[str](), 0
    while length < size:
        lines.append(line(chance, len(lines)))
        length += len(lines[-1]) + 1
    return "\n".join(lines)


if __name__ == "__main__":
    for figure in main():
        print(figure.line(), flush=True)
