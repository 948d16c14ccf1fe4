"""The whole of `process`, from a tool's output to what the model reads of it, everything stored and committed.

Lists of records as JSON text and as Python objects, of 10 KB to 100 MB, each never seen before, into a database that
holds those before. The unit is `orjson.loads` of the same bytes (xoj); the peer is strands-agents' ContextOffloader, given
the same objects as a JSON block and the same text as a text block, with its own defaults, which keep everything in memory.
Both offload from 2,500 tokens on. A text block it stores as it is, neither parsed nor described.
"""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import orjson

import byref
from benchmarks import corpora, databases, peak
from benchmarks.profiled import shares, told
from benchmarks.results import Figure, Work, interleaved, median, percentile, ratio

RUNS = {10_000: 60, 1_000_000: 15, 10_000_000: 9, 100_000_000: 3}
"""Rounds of each size, in bytes."""
PEER_RUNS = {10_000: 30, 1_000_000: 5, 10_000_000: 2, 100_000_000: 1}
SHORT_RUNS = {10_000: 20, 1_000_000: 5}
SHORT_PEER_RUNS = {10_000: 5, 1_000_000: 1}
SMALL_RUNS, SHORT_SMALL_RUNS = 500, 100
PEAK_MEGABYTES, SHORT_PEAK_MEGABYTES = 100, 10
PROFILED = 3
"""Outputs whose processing is profiled together."""
NAMES = {10_000: "10 KB", 1_000_000: "1 MB", 10_000_000: "10 MB", 100_000_000: "100 MB"}
FORMS: dict[str, Callable[[bytes], object]] = {"text": bytes.decode, "objects": orjson.loads}
TARGETS = {
    ("SQLite", "text"): "<= 2 xoj",
    ("SQLite", "objects"): "<= 1.3 xoj",
    ("PostgreSQL", "text"): "<= 2.5 xoj",
    ("PostgreSQL", "objects"): "<= 1.8 xoj",
}
"""At 10 MB."""
PARTS = {
    "matching": ("skim/", "re2.Match"),
    "parsing": ("msgspec.json.Decoder", "slices/parsing"),
    "schema": ("describe/columns", "describe/alike", "describe/schema"),
    "preview, shape and schema for the model": ("/describe/", "/envelope"),
    "tokens": ("/tokens.py", "encode_ordinary"),
    "hashing": ("digest", "blake3"),
    "writing JSON": ("encode_lines", "outputs/values", "slices/text"),
    "frames and compression": ("/frames.py", "/artifacts/", "zstandard", "_thread.lock"),
    "SQL": ("sqlite3", "psycopg", "sqlalchemy", "/byref/db/", "/ledger.py", "/variables.py"),
}


def main(short: bool = False) -> Iterator[Figure]:
    """Each database; the peer; memory."""
    for kind in databases.KINDS:
        with databases.database(kind) as url, _session(url) as session:
            yield from _sizes(kind, session, short)
            yield from _small(kind, session, short)
    with databases.database("SQLite") as url, _session(url) as session:
        yield from _peers(session, short)
    yield from _memory(short)


@contextmanager
def _session(url: str) -> Iterator[byref.Session]:
    policy = byref.Policy(max_result_tokens=2_500, max_session_bytes=None)
    with byref.Engine(url, create=True, policy=policy, jail="language-only") as engine:
        session = engine.session(uuid.uuid4().hex, context_window=200_000)
        session.process([{"warm": number} for number in range(20_000)], tool="list_users")
        yield session


def _sizes(kind: str, session: byref.Session, short: bool) -> Iterator[Figure]:
    for size, runs in (SHORT_RUNS if short else RUNS).items():
        raw = corpora.records(size)
        times = interleaved(
            runs,
            xoj=(lambda raw=raw: corpora.fresh(raw), orjson.loads),
            **{form: _work(session, raw, form) for form in FORMS},
        )
        for form in FORMS:
            yield Figure(
                f"process {NAMES[size]} from {form}, {kind}",
                median(times[form]) * 1e3,
                "ms",
                "orjson.loads",
                ratio(times[form], times["xoj"]),
                TARGETS[kind, form] if size == 10_000_000 else "",
                note=told(_shares(session, raw, form)) if size == 10_000_000 else "",
            )


def _work(session: byref.Session, raw: bytes, form: str) -> Work:
    return lambda: FORMS[form](corpora.fresh(raw)), lambda output: _process(session, output)


def _process(session: byref.Session, output: object) -> None:
    result = session.process(output, tool="list_users")
    assert result.route == "variables", result.route


def _shares(session: byref.Session, raw: bytes, form: str) -> dict[str, float]:
    outputs = [FORMS[form](corpora.fresh(raw)) for _ in range(PROFILED)]
    return shares(lambda: [_process(session, output) for output in outputs], PARTS)


def _small(kind: str, session: byref.Session, short: bool) -> Iterator[Figure]:
    """What most outputs are: too small to be touched, but accounted for. The collector is on, as it is for a host."""
    page = corpora.records(2_000)
    texts = [corpora.fresh(page).decode() for _ in range(SHORT_SMALL_RUNS if short else SMALL_RUNS)]
    times: list[float] = []
    gc.collect()
    for text in texts:
        start = time.perf_counter()
        result = session.process(text, tool="get_page")
        times.append(time.perf_counter() - start)
        assert result.route == "inline", result.route
    for percent, target in ((50, "<= 2 ms"), (99, "")):
        yield Figure(f"2 KB pass through, p{percent}, {kind}", percentile(times, percent) * 1e3, "ms", target=target)


def _peers(session: byref.Session, short: bool) -> Iterator[Figure]:
    try:
        from benchmarks.peers import Strands

        strands = Strands()
    except Exception as error:  # noqa: BLE001  whatever keeps it from running here
        yield Figure(
            "process against strands", float("nan"), "ms", "strands' ContextOffloader", note=f"did not run: {error!r}"
        )
        return
    try:
        for size, runs in (SHORT_PEER_RUNS if short else PEER_RUNS).items():
            raw = corpora.records(size)
            times = interleaved(
                runs,
                **{form: _work(session, raw, form) for form in FORMS},
                **{
                    f"their {form}": (lambda make=make, raw=raw: make(corpora.fresh(raw)), strands.offload)
                    for form, make in FORMS.items()
                },
            )
            for form, block in (("objects", "JSON"), ("text", "text")):
                yield Figure(
                    f"process {NAMES[size]} from {form}, SQLite",
                    median(times[form]) * 1e3,
                    "ms",
                    f"strands' ContextOffloader, {block} block",
                    ratio(times[form], times[f"their {form}"]),
                    "<= 1/8x" if size == 10_000_000 and form == "objects" else "",
                )
    finally:
        strands.close()


def _memory(short: bool) -> Iterator[Figure]:
    megabytes = SHORT_PEAK_MEGABYTES if short else PEAK_MEGABYTES
    for form, of in (("text", "text"), ("objects", "objects"), ("chunks", "an open file")):
        above, size = peak.of(form, megabytes)
        yield Figure(
            f"memory while processing {megabytes} MB from {of}", above / 1e6, "MB", "the payload's bytes", above / size
        )
    try:
        theirs, size = peak.of("strands", SHORT_PEAK_MEGABYTES)
        ours, _ = peak.of("objects", SHORT_PEAK_MEGABYTES)
    except RuntimeError as error:
        yield Figure(
            "memory against strands", float("nan"), "MB", "strands' ContextOffloader", note=f"did not run: {error}"
        )
        return
    yield Figure(
        f"memory while processing {SHORT_PEAK_MEGABYTES} MB from objects",
        ours / 1e6,
        "MB",
        "strands' ContextOffloader, JSON block",
        ours / theirs,
    )
