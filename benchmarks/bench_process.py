"""All of `process`: from a tool's output to the text that the model reads, with everything stored and committed.

The unit is `orjson.loads` of the same bytes (xoj). First come lists of records as JSON text and as Python objects, of 10 KB to
100 MB, each of them new, into a database that contains the earlier ones. These records are the best case: six members, always
in the same order, and no null. So the same records follow with one thing changed at a time; then JSON that others publish in
packages of npm and PyPI, each for a tenant that has stored nothing: as it was shipped, and, if it is a list, with its elements
repeated up to 10 MB. Each line says whether the output is on the fast path, that is, whether of its elements only one of each form was
parsed (docs/decisions/matching-json.md); if not, the note says why. Beside the ratio by the clock is that of processor
time, which is larger if a second core compresses meanwhile; medians and the worst are of that.

The peer is strands-agents' ContextOffloader with its own defaults, which keep everything in memory. Both offload above 2,500
tokens. It gets a text block, which its `@tool` makes of text and objects alike, and stores that unchanged, neither parsed nor
described; and the same objects as a JSON block, which it writes out indented.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson

import byref
from benchmarks import corpora, databases, peak
from benchmarks.corpora import published
from benchmarks.profiled import shares, told
from benchmarks.results import Figure, Work, interleaved, measured, median, percentile, ratio, shown
from byref.jsonscan import memory

RUNS = {10_000: 60, 1_000_000: 15, 10_000_000: 9, 100_000_000: 3}
"""Rounds of each size, in bytes."""
PEER_RUNS = {10_000: 30, 1_000_000: 5, 10_000_000: 2, 100_000_000: 1}
SHORT_RUNS = {10_000: 20, 1_000_000: 5}
SHORT_PEER_RUNS = {10_000: 5, 1_000_000: 1}
SMALL_RUNS, SHORT_SMALL_RUNS = 500, 100
ALTERED_BYTES, SHORT_ALTERED_BYTES = 10_000_000, 1_000_000
CORPUS_RUNS, SHORT_CORPUS_RUNS = 5, 1
PEAK_MEGABYTES, SHORT_PEAK_MEGABYTES = 100, 10
PROFILED = 3
"""Outputs whose processing is profiled together."""
NAMES = {10_000: "10 KB", 1_000_000: "1 MB", 10_000_000: "10 MB", 100_000_000: "100 MB"}
FORMS: dict[str, Callable[[bytes], object]] = {"text": bytes.decode, "objects": orjson.loads}
PEER_BLOCKS: tuple[tuple[str, str, Callable[[Any], object]], ...] = (
    ("text", "text", str),
    ("objects", "text", partial(json.dumps, ensure_ascii=False)),
    ("objects", "JSON", lambda output: output),
)
"""What we are given, the block that strands is given of the same, and how that is made, as its `@tool` does."""
TARGETS = {
    ("SQLite", "text"): "<= 2 xoj",
    ("SQLite", "objects"): "<= 1.3 xoj",
    ("PostgreSQL", "text"): "<= 2.5 xoj",
    ("PostgreSQL", "objects"): "<= 1.8 xoj",
}
"""At 10 MB."""
PARTS = {
    "parsing": ("msgspec.json.Decoder", "jsonscan/parsing"),
    "schema": ("describe/columns", "describe/alike", "describe/schema"),
    "preview, shape and schema for the model": ("/describe/", "/envelope"),
    "tokens": ("/tokens.py", "encode_ordinary"),
    "hashing": ("digest", "blake3"),
    "writing JSON": ("encode_lines", "content/values", "jsonscan/chunks"),
    "matching": ("jsonscan/", "re2.Match"),
    "frames and compression": ("/frames.py", "/artifacts/", "zstandard", "_thread.lock"),
    "SQL": ("sqlite3", "psycopg", "sqlalchemy", "/byref/db/", "/ledger.py", "/variables.py"),
}


def main(short: bool = False) -> Iterator[Figure]:
    """Each database; other data; the peer; memory."""
    for kind in databases.KINDS:
        with databases.database(kind) as url, _session(url) as session:
            yield from _sizes(kind, session, short)
            yield from _small(kind, session, short)
    with databases.database("SQLite") as url, _engine(url) as engine:
        yield from _altered(engine, short)
        yield from _published(engine, short)
    with databases.database("SQLite") as url, _session(url) as session:
        yield from _peers(session, short)
    yield from _memory(short)


@contextmanager
def _engine(url: str) -> Iterator[byref.Engine]:
    """One that has processed something."""
    policy = byref.Policy(max_result_tokens=2_500, max_session_bytes=None)
    with byref.Engine(url, create=True, policy=policy, jail="language-only") as engine:
        _opened(engine).process([{"warm": number} for number in range(20_000)], tool="list_users")
        yield engine


@contextmanager
def _session(url: str) -> Iterator[byref.Session]:
    with _engine(url) as engine:
        yield _opened(engine)


def _opened(engine: byref.Engine) -> byref.Session:
    """A conversation of a tenant that has none: what others have stored is not found again."""
    return engine.session(uuid.uuid4().hex, tenant=uuid.uuid4().hex, context_window=200_000)


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


def _altered(engine: byref.Engine, short: bool) -> Iterator[Figure]:
    size = SHORT_ALTERED_BYTES if short else ALTERED_BYTES
    for how, raw in corpora.altered(size):
        for _, _, figure in _corpus(engine, f"{NAMES[size]} of records, {how},", raw, short):
            yield figure


def _published(engine: byref.Engine, short: bool) -> Iterator[Figure]:
    """Each corpus that can be had; what is left out is said, with the reason."""
    ratios: dict[tuple[str, str], list[tuple[float, str]]] = {}
    missing: dict[str, list[str]] = {}
    for corpus, raw in published.each(fetch=not short):
        if isinstance(raw, str):
            missing.setdefault(raw, []).append(str(corpus))
            continue
        for size, text in _sized(raw, short):
            for (form, path), processor, figure in _corpus(engine, f"{corpus}, {size},", text, short):
                for key in ((form, path), (form, "any path")):
                    ratios.setdefault(key, []).append((processor, f"{corpus}, {size}"))
                yield figure
    for (form, path), all_of_them in sorted(ratios.items()):
        worst, name = max(all_of_them)
        yield Figure(
            f"{len(all_of_them)} published corpora from {form}, {path}: median of processor time",
            statistics.median(one for one, _ in all_of_them),
            "xoj",
            note=f"the worst is {name}: {shown(worst)} xoj",
        )
    yield Figure(
        "published corpora that were measured",
        len(published.CORPORA) - sum(map(len, missing.values())),
        f"of {len(published.CORPORA)}",
        note="; ".join(f"left out are {', '.join(names)}: {reason}" for reason, names in missing.items()),
    )


def _sized(raw: bytes, short: bool) -> Iterator[tuple[str, bytes]]:
    """A corpus as it was shipped; and a list with its elements repeated up to 10 MB, if it is much shorter."""
    yield f"{len(raw) / 1e6:.1f} MB", raw
    value = orjson.loads(raw)
    if type(value) is list and 2 * len(raw) < ALTERED_BYTES and not short:
        yield "repeated to 10 MB", orjson.dumps(value * -(-ALTERED_BYTES // len(raw)))


def _corpus(
    engine: byref.Engine, name: str, raw: bytes, short: bool
) -> Iterator[tuple[tuple[str, str], float, Figure]]:
    """The figure of each form, by the form and whether it is on the fast path, with its ratio of processor time."""

    def prepared(form: str) -> tuple[byref.Session, object]:
        return _opened(engine), FORMS[form](raw)

    def process(prepared: tuple[byref.Session, object]) -> None:
        _process(*prepared)

    paths = {form: _path(*prepared(form)) for form in FORMS}
    times = measured(
        SHORT_CORPUS_RUNS if short else CORPUS_RUNS,
        xoj=lambda: orjson.loads(raw),
        **{form: (lambda form=form: prepared(form), process) for form in FORMS},
    )
    for form, (path, reason) in paths.items():
        processor = ratio(times[form].processor, times["xoj"].processor)
        yield (
            (form, path),
            processor,
            Figure(
                f"process {name} from {form}, {path}",
                median(times[form].wall) * 1e3,
                "ms",
                f"orjson.loads; of processor time {shown(processor)}x",
                ratio(times[form].wall, times["xoj"].wall),
                note=reason,
            ),
        )


def _path(session: byref.Session, output: object) -> tuple[str, str]:
    """Process an output, and say whether its text was read by forms or parsed; if it was parsed, why."""
    reasons: list[str] = []
    read = memory._Reading.root

    def watched(reading: memory._Reading) -> object:
        try:
            value = read(reading)
        except Exception as error:
            reasons.append(str(error) or repr(error))
            raise
        reasons.append("" if value is not None else "it has no long array of records")
        return value

    memory._Reading.root = watched  # type: ignore[method-assign]
    try:
        _process(session, output)
    finally:
        memory._Reading.root = read  # type: ignore[method-assign]
    if "" in reasons:
        return "fast path", ""
    return "parsed", reasons[-1] if reasons else "it is too short to be matched"


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
                    f"{form} {block}": (
                        lambda form=form, raw=raw: FORMS[form](corpora.fresh(raw)),
                        lambda output, write=write: strands.offload(write(output)),
                    )
                    for form, block, write in PEER_BLOCKS
                },
            )
            for form, block, _ in PEER_BLOCKS:
                yield Figure(
                    f"process {NAMES[size]} from {form}, SQLite",
                    median(times[form]) * 1e3,
                    "ms",
                    f"strands' ContextOffloader, {block} block",
                    ratio(times[form], times[f"{form} {block}"]),
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
    for block in ("text", "JSON"):
        try:
            theirs, _ = peak.of(f"strands {block}", SHORT_PEAK_MEGABYTES)
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
            f"strands' ContextOffloader, {block} block",
            ours / theirs,
        )
