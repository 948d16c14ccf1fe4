"""The model's own readers over stored outputs: lines, grep and jq. Each call is complete: bounded, counted, and in the ledger.

Lines are compared with Python that seeks in a plain file by an index of its lines, which somebody has to make and keep. grep is
compared with ripgrep on the plain file; both stop after 1,000 matching lines. jq is compared with a current jq program on the
plain file, which parses the file at every query. The program is that of this machine, or one built from the release that PyPI's
jq package contains; if neither exists, an older one is used, and libjq through that package. Memory is this process's peak
above its use before; the parsing for jq happens in a jailed process of its own.
"""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import tempfile
from array import array
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import accumulate, count
from pathlib import Path

import byref
from benchmarks import corpora, databases, jqs, logs, peak, sessions
from benchmarks.results import Figure, Work, interleaved, median, ratio
from benchmarks.sessions import call

MEGABYTES, SHORT_MEGABYTES = 100, 4
LINES = 50
"""Of one page."""
READS, SHORT_READS = 40, 5
RUNS, SHORT_RUNS = 5, 2
PATTERNS = {"a literal": logs.NEEDLE, "a pattern": "user=ann.*status=50", "every line": r"\d{4}-\d{2}"}
JQ_RUNS, SHORT_JQ_RUNS = {10: 3, 100: 1}, {1: 1}
"""Rounds of each program, by megabytes: the binary takes seconds for 100."""
PROGRAMS = ("map(.score) | add", "[.[] | select(.active)] | length")
PLAIN = ("length", ".[-1].tags[0]", ".[100:110]")
"""Programs that only pick: they need no jq."""


def main(short: bool = False) -> Iterator[Figure]:
    """Lines on both databases; grep, jq and memory on SQLite."""
    megabytes = SHORT_MEGABYTES if short else MEGABYTES
    with tempfile.TemporaryDirectory() as name:
        plain = Path(name) / "plain"
        plain.write_text(logs.log(megabytes))
        for kind in databases.KINDS[: 1 if short else None]:
            with databases.database(kind) as url, sessions.opened(url) as session:
                log = session.store_artifact(plain.read_text())
                yield from _lines(kind, session, log, plain, SHORT_READS if short else READS)
                if kind == "SQLite":
                    yield from _grep(session, log, plain, SHORT_RUNS if short else RUNS)
                    if not short:
                        yield from _memory(url, session, log, megabytes)
        for size, runs in (SHORT_JQ_RUNS if short else JQ_RUNS).items():
            with databases.database("SQLite") as url, sessions.opened(url) as session:
                yield from _jq(session, plain, size, runs, short)


def _lines(kind: str, session: byref.Session, artifact: byref.Artifact, plain: Path, runs: int) -> Iterator[Figure]:
    """The first, a middle and the last page, and the next one of who reads on; every middle one is in another mebibyte."""
    index = array("Q", accumulate(map(len, plain.read_bytes().splitlines(keepends=True)), initial=0))
    lines = len(index) - 1
    pages = {
        "first": lambda number: 1,
        "middle": lambda number: (lines // 3 + number * 20_011) % (lines - LINES) + 1,
        "next": lambda number: lines // 2 + number * LINES,
        "last": lambda number: lines - LINES + 1,
    }
    for page, first_of in pages.items():
        made, seeking = count(), count()

        def ours(made=made, first_of=first_of) -> None:  # type: ignore[no-untyped-def]
            first = first_of(next(made))
            call(session, "artifact_read", artifact_id=artifact.id, start_line=first, end_line=first + LINES - 1)

        def seek(seeking=seeking, first_of=first_of) -> str:  # type: ignore[no-untyped-def]
            first = first_of(next(seeking)) - 1
            with plain.open("rb") as file:
                file.seek(index[first])
                return file.read(index[first + LINES] - index[first]).decode()

        times = interleaved(runs, ours=ours, seek=seek)
        yield Figure(
            f"the {page} {LINES} lines of {plain.stat().st_size / 1e6:.0f} MB, {kind}",
            median(times["ours"]) * 1e3,
            "ms",
            f"seek in a plain file, {median(times['seek']) * 1e3:.2f} ms",
            ratio(times["ours"], times["seek"]),
            "<= 50 ms",
        )


def _grep(session: byref.Session, artifact: byref.Artifact, plain: Path, runs: int) -> Iterator[Figure]:
    for name, pattern in PATTERNS.items():
        works: dict[str, Work] = {
            "ours": lambda pattern=pattern: call(session, "artifact_grep", artifact_id=artifact.id, pattern=pattern)
        }
        if shutil.which("rg"):
            works["rg"] = lambda pattern=pattern: _run("rg", "-n", "-m", "1000", "-e", pattern, str(plain))
        times = interleaved(runs, **works)
        yield Figure(
            f"grep for {name} in {plain.stat().st_size / 1e6:.0f} MB",
            median(times["ours"]) * 1e3,
            "ms",
            *_against("ripgrep on the plain file", times, "rg"),
        )


def _jq(session: byref.Session, plain: Path, megabytes: int, runs: int, short: bool) -> Iterator[Figure]:
    """The first query binds the data in the jail; the others have nothing to bind."""
    raw = corpora.records(megabytes * 1_000_000)
    plain.write_bytes(raw)
    artifact = session.store_artifact(raw)
    binary, reason = jqs.program(build=not short)
    first = interleaved(
        1, ours=lambda: call(session, "artifact_jq", artifact_id=artifact.id, expression="map(.id) | max")
    )
    yield Figure(
        f"jq: the first query on {megabytes} MB",
        median(first["ours"]) * 1e3,
        "ms",
        note=f"against {binary.version if binary else 'no jq program'}: {reason}" if reason else "",
    )
    for program in (*PROGRAMS, *PLAIN):
        works: dict[str, Work] = {
            "ours": lambda program=program: call(session, "artifact_jq", artifact_id=artifact.id, expression=program)
        }
        if binary is not None:
            works[f"the jq program ({binary.version})"] = partial(_run, binary.path, "-c", program, str(plain))
        if binary is None or not binary.is_current:
            works[f"libjq by {jqs.SOURCES}"] = partial(_compiled, program, plain)
        times = interleaved(runs, **works)
        for peer in list(works)[1:]:
            yield Figure(
                f"jq: {program} on {megabytes} MB", median(times["ours"]) * 1e3, "ms", *_against(peer, times, peer)
            )


def _compiled(program: str, plain: Path) -> str:
    import jq

    return str(jq.compile(program).input_text(plain.read_text(encoding="utf-8")).text())


def _memory(url: str, session: byref.Session, artifact: byref.Artifact, megabytes: int) -> Iterator[Figure]:
    """Each in a process of its own, which has seen nothing large before."""
    spawn = multiprocessing.get_context("spawn")
    for name, (tool, arguments) in {
        "reading a page": ("artifact_read", {"start_line": artifact.line_count // 2}),
        "grep": ("artifact_grep", {"pattern": PATTERNS["a pattern"]}),
        "grep for a literal": ("artifact_grep", {"pattern": PATTERNS["a literal"]}),
    }.items():
        given = {"artifact_id": artifact.id, **arguments}
        with ProcessPoolExecutor(1, mp_context=spawn) as process:
            above = process.submit(_peak, url, session.id, tool, given).result()
        yield Figure(
            f"memory: {name} of {megabytes} MB", above / 1e6, "MB", "the payload's bytes", above / artifact.size_bytes
        )


def _peak(url: str, name: str, tool: str, arguments: dict[str, object]) -> int:
    with byref.Engine(url) as engine, engine.session(name) as session:
        small = session.store_artifact("a line\n" * 1_000)
        call(session, tool, **{**arguments, "artifact_id": small.id, "start_line": 1})
        return peak.above(lambda: call(session, tool, **arguments))


def _against(name: str, times: dict[str, list[float]], peer: str) -> tuple[str, float | None]:
    if peer not in times:
        return f"{name}: {peer} is not installed", None
    return f"{name}, {median(times[peer]) * 1e3:,.0f} ms", ratio(times["ours"], times[peer])


def _run(*command: str) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
