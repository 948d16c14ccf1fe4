"""`make soak`: twenty minutes of mixed load, and whether memory, descriptors, threads and processes stay flat.

    python tests/soak [--minutes 20] [--sessions 32] [--workers 8] [--processes 1] [--url URL] [--every 5] [--seed 1] [--http]

The load runs in host processes of its own, one with all workers or several (on PostgreSQL) that share them. With `--http` each host has
a `byref serve`, of which it asks everything over sockets. Exit code 1 where
something grew over the second half by more than its bound, failed, or was left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, make_url

sys.path += [str(Path(__file__).parent.parent / name) for name in ("chaos", "support")]

import kit
from load import Load
from samples import sample, verdicts


class Host:
    """A process that bears a part of the load; it tells its latencies line by line, and in the end what it did."""

    def __init__(self, options: argparse.Namespace, url: str, number: int) -> None:
        share = [f"--{name}={getattr(options, name) // options.processes}" for name in ("sessions", "workers")]
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).parent),
                "--host",
                str(number),
                f"--seed={options.seed + number}",
                *share,
                f"--url={url}",
                f"--every={options.every}",
                *(["--http"] if options.http else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.latencies: list[float] = []
        self.told: dict[str, object] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if isinstance(told, list):
                self.latencies += told
            else:
                self.told = told

    @property
    def is_over(self) -> bool:
        """Whether it has ended by itself, which it does where something failed."""
        return self._process.poll() is not None

    def stop(self) -> list[str]:
        """Have it end; what was wrong."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(300)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return ["a host did not end"]
        self._reader.join(10)
        failures = self.told.get("failures", ["a host told nothing"])
        assert isinstance(failures, list)
        return [str(failure) for failure in failures] + ([f"a host ended with {code}"] if code else [])


def bear(options: argparse.Namespace) -> int:
    """Be a host: bear the load until the standard input ends, then look for what is left."""
    os.environ["TMPDIR"] = folder = tempfile.mkdtemp(prefix="byref-soak-host-")
    tempfile.tempdir = None
    before = kit.descriptors()
    load = Load(
        options.url,
        sessions=options.sessions,
        workers=options.workers,
        seed=options.seed,
        mark=f"{options.host} ",
        http=options.http,
    )
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    while not over.wait(options.every) and not load.is_over:
        print(json.dumps([round(each, 5) for each in load.latencies()]), flush=True)
    mine = kit.below(os.getpid())
    load.stop()
    failures = load.failures + [f"left: the process {kit.name_of(pid)}" for pid in kit.gone(mine)]
    failures += [f"left: the file {path}" for path in Path(folder).rglob("*")]
    failures += [
        f"left: the thread {each.name}"
        for each in threading.enumerate()
        if each.name not in ("MainThread", "Thread-1 (wait)") and not each.daemon
    ]
    done = dict(load.done)
    del load
    if (after := kit.descriptors()) > before:
        left = sorted(
            os.readlink(f"/proc/self/fd/{each}")
            for each in os.listdir("/proc/self/fd")
            if Path(f"/proc/self/fd/{each}").exists()
        )
        failures.append(f"left: {after - before} descriptors more, of {left}")
    if not failures:
        Path(folder).rmdir()
    print(json.dumps({"done": done, "failures": failures}), flush=True)
    return 0


def size_of(url: str) -> int:
    """Bytes of a database: its files, or what the server says."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        path = Path(parsed.database or "")
        return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
    finally:
        engine.dispose()


def in_memory() -> set[str]:
    """What has our name in shared memory, but for the folders of runs of tests."""
    return {each for each in os.listdir("/dev/shm") if "byref" in each and not each.startswith("byref-run-")}


def soak(options: argparse.Namespace, url: str) -> list[str]:
    """Bear the load, look, and give the verdict; what was wrong."""
    console = Console(highlight=False)
    shared = in_memory()
    began = time.monotonic()
    hosts = [Host(options, url, number) for number in range(options.processes)]
    samples: list[dict[str, float]] = []
    try:
        while time.monotonic() - began < options.minutes * 60 and not any(host.is_over for host in hosts):
            time.sleep(options.every)
            latencies = [each for host in hosts for each in host.latencies]
            for host in hosts:
                host.latencies.clear()
            if latencies:  # before, they start
                pids = [host.pid for host in hosts]
                if options.http:
                    pids = [kit.below(pid)[0] for pid in pids]  # the servers
                samples.append(sample(pids, [pid for host in pids for pid in kit.below(host)], size_of(url), latencies))
                if len(samples) % 12 == 0:
                    now = ", ".join(f"{name} {value:,.1f}" for name, value in samples[-1].items())
                    console.print(f"{(time.monotonic() - began) / 60:6.1f} min  {now}")
    finally:
        failures = [failure for host in hosts for failure in host.stop()]
    failures += [f"left in shared memory: {each}" for each in in_memory() - shared]
    kit.verify(url, failures)
    done: Counter[str] = Counter()
    for host in hosts:
        done.update(host.told.get("done", {}))  # type: ignore[call-overload]
    console.print(f"\n{done.total():,} acts in {(time.monotonic() - began) / 60:.1f} min: {dict(done.most_common())}")
    if len(samples) < 8:
        return [*failures, f"only {len(samples)} samples: too short for a verdict"]
    table = Table("second half", "mean", "rise", "bound", "", box=None)
    for verdict in verdicts(samples):
        table.add_row(
            verdict.name,
            f"{verdict.mean:,.1f}",
            f"{verdict.rise:+,.1f}",
            f"{verdict.bound:,.1f}",
            "flat" if verdict.is_flat else "GROWS",
        )
        if not verdict.is_flat:
            failures.append(
                f"{verdict.name} rises by {verdict.rise:,.1f} over the second half, bound {verdict.bound:,.1f}"
            )
    console.print(table)
    return failures


def main() -> int:
    """Soak a database, or a new SQLite file."""
    parser = argparse.ArgumentParser(
        prog="python tests/soak", description="A long mixed load, and what grows under it."
    )
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--sessions", type=int, default=32, help="conversations at a time")
    parser.add_argument("--workers", type=int, default=8, help="threads, of all processes together")
    parser.add_argument("--processes", type=int, default=1, help="host processes that share them")
    parser.add_argument(
        "--url",
        help="a migrated database without a row; default: a new SQLite file, "
        "or a new PostgreSQL where there are several processes",
    )
    parser.add_argument("--every", type=float, default=5, help="seconds between two samples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--http", action="store_true", help="over the HTTP API of servers")
    parser.add_argument("--host", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host is not None:
        return bear(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of what cleans up
    with tempfile.TemporaryDirectory(prefix="byref-soak-") as folder:
        if options.url:
            failures = soak(options, options.url)
        else:
            kind = "postgresql" if options.processes > 1 else "sqlite"
            with kit.databases(Path(folder), [kind]) as urls:
                failures = soak(options, urls[kind])
    for failure in failures[:50]:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    import leftovers

    leftovers.watch()
    sys.exit(main())
