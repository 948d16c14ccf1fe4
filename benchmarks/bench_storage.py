"""Artifacts at scale, as ratios to what the same bytes cost without byref; minima of interleaved runs.

`BYREF_BENCH_MB` sets the size (100 by default); `BYREF_BENCH_GB=1` reads from the middle of 1 GB instead.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jq
import orjson
import zstandard
from blake3 import blake3

import byref
from benchmarks.bench_process import _postgresql, _record
from byref.frames import cut

MEGABYTES = int(os.environ.get("BYREF_BENCH_MB", "100"))
READ_MEGABYTES = 1_000 if os.environ.get("BYREF_BENCH_GB", "0") != "0" else MEGABYTES
RUNS = 3
READS = 60
PATTERNS = ("needle in the hay", "user=ann.*status=50", r"\d{4}-\d{2}")
"""A literal that is rare, a pattern with a literal in it, and one that every line matches."""
JQ = ("map(.score) | add", "[.[] | select(.active)] | length")
PLAIN = ("length", ".[5].id", ".[100:110]", ".[-1].tags[0]")
HOSTILE = {
    "(a|a)*b": b"a" * 1_000,
    "(a*)*(a*)*b": b"a" * 1_000,
    "(((a{1,20}){1,20}){1,2})+b": b"a" * 5_000_000,
    "|".join(f"w{i:x}" for i in range(10_000))[:16_000]: b"w w w w w w w w ",
    "|".join(f"{i:x}" * 2 for i in range(2_000)) + "!": b"0123456789abcdef" * 20,
    "b*c|b": b"b" * 5_000_000,
    "(?:b*c|b)+$": b"b" * 5_000_000,
    ".*.*.*=.*x": b"=" * 100_000,
}
"""Each with the line that is searched, repeated."""


def main() -> None:
    """Print a line per measure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _reading("SQLite", f"sqlite:///{folder}/read.db")
        with _postgresql(folder / "pg") as url:
            _reading("PostgreSQL", url)
        with _session(f"sqlite:///{folder}/bench.db") as session:
            log = _log(MEGABYTES)
            _storing(session, log, folder)
            _searching(session, log, folder)
            del log
            _querying(session)
            _hostile(session)


def _reading(database: str, url: str) -> None:
    """50 lines from the middle of a big artifact and of one of 10 MB."""
    with _session(url) as session:
        stored = [session.store_artifact(_log(size)) for size in (10, READ_MEGABYTES)]

        def read(artifact: byref.Artifact) -> float:
            line = artifact.line_count // 2 + random.randrange(10_000)
            given = {"artifact_id": artifact.id, "start_line": line, "end_line": line + 49}
            return _call(session, "artifact_read", given)

        small, big = _minima(READS, *(lambda artifact=artifact: read(artifact) for artifact in stored))
    print(
        f"storage: {database:10} 50 lines from the middle of {READ_MEGABYTES:,} MB: {big * 1e3:.1f} ms, "
        f"{big / small:.2f} of those from 10 MB"
    )


def _storing(session: byref.Session, text: str, folder: Path) -> None:
    """Text as an artifact, against its bytes compressed into a plain file; and the same text once more."""

    def plain(data: bytes) -> None:
        with (folder / "plain.zst").open("wb") as file:
            file.write(zstandard.ZstdCompressor(level=1).compress(data))
            file.flush()
            os.fsync(file.fileno())

    base, new, duplicate = [], [], []
    for _ in range(RUNS):
        own = f"{uuid.uuid4().hex}\n{text}"
        data = own.encode()
        base.append(_seconds(lambda data=data: plain(data)))
        new.append(_seconds(lambda own=own: session.store_artifact(own)))
        duplicate.append(_seconds(lambda own=own: session.store_artifact(own)))
    print(
        f"storage: storing {MEGABYTES} MB of text: {min(new) * 1e3:.0f} ms, {min(new) / min(base):.2f} of zstd level 1 "
        f"into a file with fsync; a duplicate {min(duplicate) / min(new):.2f} of a new one"
    )
    parts: dict[str, Callable[[], object]] = {
        "utf-8": text.encode,
        "blake3": lambda: blake3(data).digest(),
        "lines": lambda: data.count(b"\n"),
        "tokens": lambda: session._scope.count(text, "text"),
        "frames with zstd": lambda: sum(1 for _ in cut([data])),
    }
    print("storage: of that " + ", ".join(f"{part} {_seconds(work) * 1e3:.0f} ms" for part, work in parts.items()))


def _searching(session: byref.Session, text: str, folder: Path) -> None:
    """artifact_grep, against the same bytes out of a zstd file through ripgrep."""
    packed = folder / "log.zst"
    packed.write_bytes(zstandard.ZstdCompressor(level=1).compress(text.encode()))
    artifact = session.store_artifact(text, name="log")
    tools = [tool for tool in ("zstd", "rg") if shutil.which(tool) is None]
    for pattern in PATTERNS:

        def ripgrep(pattern: str = pattern) -> float:
            command = f"zstd -dc {packed} | rg -n -m 1000 -e '{pattern}'"
            return _seconds(lambda: subprocess.run(command, shell=True, stdout=subprocess.DEVNULL, check=True))

        def ours(pattern: str = pattern) -> float:
            return _call(session, "artifact_grep", {"artifact_id": artifact.id, "pattern": pattern})

        if tools:
            print(f"storage: grep /{pattern}/: {min(ours() for _ in range(RUNS)) * 1e3:.0f} ms; no {tools} to compare")
            continue
        base, seconds = _minima(RUNS, ripgrep, ours)
        print(
            f"storage: grep /{pattern}/ over {MEGABYTES} MB: {seconds * 1e3:.0f} ms, "
            f"{seconds / base:.2f} of zstd -dc | rg -n -m 1000"
        )


def _querying(session: byref.Session) -> None:
    """artifact_jq, against jq in this process over the text at hand."""
    generator = random.Random(1)
    text = orjson.dumps([_record(generator, i) for i in range(MEGABYTES * 8_500)]).decode()
    artifact = session.store_artifact(text, name="records")

    def query(program: str) -> float:
        return _call(session, "artifact_jq", {"artifact_id": artifact.id, "expression": program})

    print(f"storage: jq {PLAIN[0]:36} first use {query(PLAIN[0]) * 1e3:.0f} ms")
    for program in JQ:
        base, seconds = _minima(
            2, lambda program=program: _in_process(program, text), lambda program=program: query(program)
        )
        print(f"storage: jq {program:36} {seconds * 1e3:6.0f} ms, {seconds / base:.2f} of jq in process")
    for program in PLAIN:
        seconds = min(query(program) for _ in range(5))
        print(f"storage: jq {program:36} {seconds * 1e3:6.0f} ms, {seconds / base:.3f} of jq in process, warm")


def _in_process(program: str, text: str) -> float:
    return _seconds(lambda: jq.compile(program).input_text(text).all())


def _hostile(session: byref.Session) -> None:
    """The slowest of the regular expressions that are made to be slow."""
    slowest, which = 0.0, ""
    for pattern, line in HOSTILE.items():
        lines = b"\n".join([line] * max(1, 20_000_000 // len(line)))
        artifact = session.store_artifact(lines)
        seconds = _call(session, "artifact_grep", {"artifact_id": artifact.id, "pattern": pattern})
        print(f"storage: grep /{pattern[:30]}/ over {len(lines) / 1e6:.0f} MB: {seconds:.2f} s")
        slowest, which = max((slowest, which), (seconds, pattern))
    print(f"storage: the slowest hostile pattern, /{which[:30]}/, takes {slowest:.2f} s; the limit is 5 s")


@contextmanager
def _session(url: str) -> Iterator[byref.Session]:
    with (
        byref.Engine(
            url, create=True, policy=byref.Policy(max_session_bytes=None, run_seconds=300, run_cpu_seconds=120)
        ) as engine,
        engine.session(uuid.uuid4().hex, context_window=200_000) as session,
    ):
        yield session


def _log(megabytes: int) -> str:
    """Lines of a server's log, no two the same; in one of 5,000 is the needle."""
    generator = random.Random(megabytes)
    words = (
        "get",
        "put",
        "post",
        "user",
        "order",
        "cart",
        "login",
        "search",
        "cache",
        "miss",
        "retry",
        "worker",
        "queue",
    )
    block = [
        f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}T{i % 24:02}:{i % 60:02}:{i % 59:02}.{i % 1000:03}Z "
        f"{generator.choice(('INFO', 'WARN', 'DEBUG'))} user={generator.choice(('ann', 'bob', 'cid'))}{generator.randrange(10**6)} "
        f"{' '.join(generator.choices(words, k=6))} status={generator.choice((200, 200, 404, 500))} "
        f"took={generator.random():.6f}{' needle in the hay' if i % 5_000 == 4_999 else ''}\n"
        for i in range(100_000)
    ]
    text = "".join(block)
    part = len(text)
    return "".join(f"part {number}\n{text}" for number in range(megabytes * 1_000_000 // part + 1))[: megabytes * 10**6]


def _call(session: byref.Session, tool: str, arguments: dict[str, object]) -> float:
    start = time.perf_counter()
    reply = session.call(tool, arguments)
    seconds = time.perf_counter() - start
    assert not reply.is_error, reply.content
    return seconds


def _minima(runs: int, *works: Callable[[], float]) -> list[float]:
    """The least of what each measures, taking turns."""
    times = [[work() for work in works] for _ in range(runs)]
    return [min(column) for column in zip(*times, strict=True)]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
