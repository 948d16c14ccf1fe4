"""A PostgreSQL whose own disk is full, under load: now its tables cannot grow, now its log, which takes the server down.

Where nothing can be mounted, the server's processes may write no further than so far into any file.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import kit
import psycopg
from faults_disk import mounted
from faults_load import Load
from faults_postgres import Server, under_load
from faults_relay import wait_for
from report import Report

MEGABYTES = 250
"""Of the disk: what a server begins with, and a few segments of its log."""
LEFT = (0, 8_192, 65_536)
"""Bytes that are left of it when it is as good as full; or how far into a file may be written."""
REFUSED = 3
"""Requests that fail before there is room again."""
LOG = "SELECT pg_logical_emit_message(true, 'full', repeat('x', 20000000))"
"""More than a segment of the log."""


def postgres_disk_full(folder: Path, seconds: float, seed: int) -> Report:
    """The disk is full until requests fail; then there is room, and a server that went down is started again."""
    counts: Counter[str] = Counter()
    disk = folder / "disk"
    disk.mkdir()

    def prepare(server: Server) -> None:
        server.sql(
            "ALTER SYSTEM SET min_wal_size = '32MB'",
            "ALTER SYSTEM SET max_wal_size = '64MB'",
            "SELECT pg_reload_conf()",
        )

    def fault(server: Server, load: Load, chance: random.Random) -> None:
        before = load.counts["failed cleanly"]
        with _full(server, disk if is_mounted else None, chance.choice(LEFT)):
            if chance.random() < 0.5:
                with suppress(psycopg.Error):
                    server.sql(LOG)
            wait_for(lambda: load.counts["failed cleanly"] >= before + REFUSED or bool(load.failures))
            time.sleep(chance.uniform(0, 5.0 if seconds > 20 else 0.5))
        counts["server went down"] += _bring_up(server)
        load.recovered()

    with mounted(disk, MEGABYTES) as is_mounted:
        report = under_load("PostgreSQL's disk full", disk, seed, fault, seconds=seconds, prepare=prepare)
    report.figures |= {"server went down": counts["server went down"], "mounted": int(is_mounted)}
    return report


@contextmanager
def _full(server: Server, disk: Path | None, left: int) -> Iterator[None]:
    """Fill the disk up to some bytes; without one, limit the server's files."""
    if disk is None:
        _limit(server, left)
        try:
            yield
        finally:
            _limit(server, "unlimited")
        return
    ballast = disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 20)):
                pass
        os.truncate(ballast, max(0, ballast.stat().st_size - left))
        yield
    finally:
        ballast.unlink()


def _limit(server: Server, size: int | str) -> None:
    """How far all processes of a server, and those it will start, may write into a file."""
    with suppress(FileNotFoundError):  # it went down
        first = int((server.data / "postmaster.pid").read_text().split()[0])
        for pid in [first, *kit.below(first)]:  # some may end meanwhile
            server.as_its_user("prlimit", "--pid", str(pid), f"--fsize={size}:")


def _bring_up(server: Server) -> bool:
    """Wait until the server takes connections; start it where it is down, and tell whether it was."""
    starts = 0

    def is_up() -> bool:
        nonlocal starts
        with suppress(psycopg.Error):
            server.sql("SELECT 1")
            return True
        with suppress(subprocess.CalledProcessError):
            server.command("pg_ctl", "-D", str(server.data), "status")
            return False  # it recovers, or ends
        with suppress(subprocess.CalledProcessError):
            server.start()
            starts += 1
        return False

    wait_for(is_up)
    return starts > 0
