"""Disks that are full, and a system that refuses descriptors and memory files, under load.

Nothing that was acknowledged is lost, every failure says what it is, no turn ends with anything else, and once there is room
everything goes on.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import kit
from report import Report

from byref import CharCounter, Engine, Policy, StorageFailure
from byref.session import Session
from byref.stores import FileStore
from byref_sandbox import Sandbox

MEGABYTES = 12
"""Of the disk that is to be full; the limit of each file is a third, where nothing can be mounted."""
CREW = 4
FULL_SECONDS = 60.0
"""After which it has to be full, however slow the machine."""
ONCE_THERE_IS_ROOM = 50
"""Acts of each writer at most, ten for each second of load: the room is enough for them, none stores more than a megabyte."""
TOOLS = ("code_interpreter", "artifact_jq", "artifact_read", "artifact_grep", "store_artifact")
CUT = "could not be stored"
UNREACHED = ("cannot be reached right now", "cannot be run right now")


@contextmanager
def mounted(folder: Path, megabytes: int) -> Iterator[bool]:
    """Mount a small disk on a folder for as long as the block lasts, and tell whether this user may."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and not subprocess.run(mount, capture_output=True).returncode
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Disk:
    """A small disk in a folder; where this user may not mount one, a limit on the size of every file."""

    def __init__(self, folder: Path, is_mounted: bool) -> None:
        self.folder, self.mounted = folder, is_mounted
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, ((MEGABYTES << 20) // 3, self._limits[1]))

    def enlarge(self) -> None:
        """Make room."""
        if self.mounted:
            subprocess.run(["mount", "-o", f"remount,size={MEGABYTES * 20}m", str(self.folder)], check=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


@contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """A small disk for as long as the block lasts."""
    folder.mkdir()
    with mounted(folder, MEGABYTES) as is_mounted:
        made = Disk(folder, is_mounted)
        try:
            yield made
        finally:
            made.enlarge()


class Writer:
    """One conversation that stores as much as it can, and knows what was acknowledged."""

    def __init__(self, engine: Engine, number: int, seed: int) -> None:
        self._chance = random.Random(seed * 100 + number)
        raises = number % 2 == 1
        policy = Policy(
            mode="variables", ttl=None, headroom_percentage=1.0, on_storage_failure="raise" if raises else "truncate"
        )
        self.session: Session = engine.session(f"writer {number}", policy=policy, tools=TOOLS, context_window=10**9)
        self.kept: dict[str, bytes] = {}
        """Digests of the artifacts that were acknowledged, by id."""
        self.steps: list[int] = []
        self.refused: Counter[str] = Counter()
        self.is_full = threading.Event()

    def act(self) -> str | None:
        """Do one thing; what the disk does not take says so."""
        do = self._chance.choice(
            (self.records, self.records, self.text, self.stream, self.store, self.small, self.run, self.read)
        )
        try:
            do()
        except StorageFailure as error:
            assert any(
                words in str(error) for words in ("full", "No space", "I/O error", "too large", "File too large")
            ), error
            self.refused[f"{do.__name__} raised"] += 1
            self.is_full.set()
        return do.__name__

    def records(self) -> None:
        """Records that do not compress."""
        count = self._chance.randrange(100, 3_000)
        self._process([{"id": i, "noise": self._noise(60)} for i in range(count)])

    def text(self) -> None:
        """A text that is cut."""
        self._process("\n".join(self._noise(80) for _ in range(20_000)))

    def stream(self) -> None:
        """Bytes as they come."""
        self._process(self._noise(4_000).encode() + b"\n" for _ in range(self._chance.randrange(30, 400)))

    def small(self) -> None:
        """An output that passes."""
        self._process(f"small {self._chance.random()}")

    def store(self) -> None:
        """A value of the host's own."""
        artifact = self.session.store_artifact(self._noise(self._chance.randrange(1_000, 300_000)))
        self.kept[artifact.id] = artifact.digest

    def run(self) -> None:
        """Code that leaves a value."""
        reply = self.session.call(
            "code_interpreter", {"code": f"left = [i * {self._chance.random()} for i in range(20_000)]\nlen(left)"}
        )
        if reply.is_error:
            assert any(words in str(reply.content) for words in UNREACHED), reply.content
            self.refused["run"] += 1
        else:
            assert "20000" in str(reply.content), reply.content

    def read(self) -> None:
        """Something that is there already."""
        if self.kept:
            id_ = self._chance.choice(list(self.kept))
            reply = self.session.call("artifact_read", {"artifact_id": id_, "start_line": 1, "end_line": 2})
            if reply.is_error:  # the reply is a step of the ledger, which the disk does not take
                assert any(words in str(reply.content) for words in UNREACHED), reply.content
                self.refused["read"] += 1

    def _process(self, output: object) -> None:
        result = self.session.process(output, tool="noise")
        if result.reason == "storage_failure":
            assert result.route == "inline" or CUT in str(result.content), result.content
            self.refused["process"] += 1
            self.is_full.set()
        elif result.step is not None:
            self.steps.append(result.step)
            self.kept |= {artifact.id: artifact.digest for artifact in result.artifacts}

    def _noise(self, size: int) -> str:
        return self._chance.randbytes(size // 2).hex()

    def look_back(self) -> list[str]:
        """What was acknowledged and is not there."""
        there = {artifact.id: artifact.digest for artifact in self.session.artifacts()}
        steps = {entry.step for entry in self.session.ledger()}
        lost = [f"{self.session.id}: {id_} is lost" for id_, digest in self.kept.items() if there.get(id_) != digest]
        return lost + [f"{self.session.id}: step {step} is lost" for step in self.steps if step not in steps]


def disk_full_of_sqlite(folder: Path, seconds: float, seed: int) -> Report:
    """The disk of the SQLite file, and of temporary files."""
    return _filled("disk_full_of_sqlite", folder, seconds, seed, files=False)


def disk_full_of_files(folder: Path, seconds: float, seed: int) -> Report:
    """The disk of the store of files, SQL being elsewhere."""
    return _filled("disk_full_of_files", folder, seconds, seed, files=True)


def system_refuses(folder: Path, seconds: float, seed: int) -> Report:
    """Too few descriptors, and memory files that may not grow: code says that it cannot be run now, and later it can."""
    report, refused = Report("system_refuses"), Counter[str]()
    with (
        kit.databases(folder, ["sqlite"]) as urls,
        Sandbox() as sandbox,
        Engine(urls["sqlite"], interpreter=sandbox) as engine,
    ):
        policy = Policy(mode="variables", on_storage_failure="truncate", headroom_percentage=1.0)
        session = engine.session("s", policy=policy, tools=TOOLS, context_window=10**9)
        rows = session.process([{"id": i, "noise": "x" * 50} for i in range(5_000)], tool="rows")
        name, id_ = rows.variables[0].name, rows.artifacts[0].id
        calls = [
            ("code_interpreter", {"code": f"len({name})"}, "5000"),
            ("artifact_jq", {"artifact_id": id_, "expression": "map(.id) | add"}, "12497500"),
            ("artifact_read", {"artifact_id": id_, "start_line": 5, "end_line": 6}, "noise"),
        ]
        for tool, arguments, answer in calls:  # warm
            assert answer in str(session.call(tool, arguments).content)
        before = kit.descriptors()
        until, rounds = time.monotonic() + seconds, 0
        while not rounds or (time.monotonic() < until and not report.failures):
            rounds += 1
            refusals = [(resource.RLIMIT_NOFILE, kit.descriptors() - 1 + more) for more in range(8)]
            for what, limit in [*refusals, (resource.RLIMIT_FSIZE, 4_096)]:
                for tool, arguments, answer in calls:
                    with _limited(what, limit):
                        reply = session.call(tool, arguments)
                    if reply.is_error and any(words in str(reply.content) for words in UNREACHED):
                        refused[tool] += 1
                    elif answer not in str(reply.content):
                        report.failures.append(f"{tool} under {what} {limit}: {reply.content}")
            for tool, arguments, answer in calls:
                if answer not in str(session.call(tool, arguments).content):
                    report.failures.append(f"{tool} does not work again")
        if kit.descriptors() > before + 1:  # SQLite may have opened one more
            report.failures.append(f"{kit.descriptors() - before} descriptors are left open")
        if not refused:
            report.failures.append("nothing was refused")
        kit.verify(urls["sqlite"], report.failures)
    report.figures |= {"rounds": rounds} | {f"refused {tool}": times for tool, times in sorted(refused.items())}
    return report


def _filled(name: str, folder: Path, seconds: float, seed: int, *, files: bool) -> Report:
    report = Report(name)
    with disk(folder / "disk") as small:
        store = FileStore(small.folder / "objects") if files else None
        place = folder if files else small.folder
        temporary = (
            patch.object(tempfile, "tempdir", str(small.folder)),
            patch.dict(os.environ, SQLITE_TMPDIR=str(small.folder)),
        )
        with temporary[0], temporary[1], kit.databases(place, ["sqlite"]) as urls, Sandbox() as sandbox:
            with Engine(urls["sqlite"], interpreter=sandbox, blobs=store, counter=CharCounter()) as engine:
                writers = [Writer(engine, number, seed) for number in range(CREW)]
                until = time.monotonic() + FULL_SECONDS
                _press(report, writers, seconds)
                while not (is_full := any(writer.is_full.is_set() for writer in writers)) and time.monotonic() < until:
                    _press(report, writers, 1.0)
                if not is_full:
                    report.failures.append("the disk was never full")
                report.figures["refused while full"] = sum(writer.refused.total() for writer in writers)
                report.figures["acknowledged when full"] = sum(len(writer.kept) for writer in writers)
                kit.verify(urls["sqlite"], report.failures, blobs=store)
                small.enlarge()
                for writer in writers:
                    writer.refused.clear()
                _press(report, writers, FULL_SECONDS, times=min(ONCE_THERE_IS_ROOM, round(10 * seconds)))
                if refused := sum(writer.refused.total() for writer in writers):
                    report.failures.append(f"{refused} were refused though there was room again")
                for writer in writers:
                    report.failures += writer.look_back()
                engine.sweep()
            report.figures |= kit.verify(urls["sqlite"], report.failures, blobs=store)
    keep = ("refused while full", "acknowledged when full", "acts", "artifacts", "blobs")
    report.figures = {key: report.figures[key] for key in keep if key in report.figures}
    report.figures["mounted"] = int(small.mounted)
    return report


def _press(report: Report, writers: list[Writer], seconds: float, times: int = sys.maxsize) -> None:
    crew = kit.Crew(seconds)
    for writer in writers:
        crew.add(writer.act, times)
    crew.run()
    report.failures += crew.failures
    report.figures["acts"] = report.figures.get("acts", 0) + crew.done.total()


@contextmanager
def _limited(what: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))
