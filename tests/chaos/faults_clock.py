"""Clocks that jump by minutes and by years, forwards and backwards, while conversations are written, read and swept.

What has no time to live stays. What has one goes no sooner than a clock has said that it is over, and steps are in the order
in which they were taken, whatever the clock said.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import kit
from report import Report

from byref import Artifact, ArtifactMissing, ByrefError, CharCounter, Engine, Policy, SessionGone
from byref.session import Session
from byref.stores import FileStore, files

TTL, LEDGER_TTL = timedelta(hours=1), timedelta(hours=3)
JUMPS = [
    timedelta(0),
    *(
        sign * each
        for each in (timedelta(minutes=5), timedelta(minutes=50), timedelta(hours=2), timedelta(days=1_100))
        for sign in (1, -1)
    ),
]
GRACE = timedelta(hours=1)


class Clock:
    """What byref takes for the time; it remembers each moment at which it stood."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset = timedelta(0)
        self._stood: list[tuple[float, timedelta]] = [(time.monotonic(), self._offset)]

    def jump(self, offset: timedelta) -> None:
        """Be so far from the real time from now on."""
        with self._lock:
            self._stood.append((time.monotonic(), offset))
            self._offset = offset

    def now(self) -> datetime:
        """The time as byref sees it."""
        return datetime.now(UTC) + self._offset

    def latest_since(self, moment: float) -> datetime:
        """The latest time that was shown since a moment of the monotonic clock."""
        return datetime.now(UTC) + max(self._offsets_since(moment))

    def earliest_since(self, moment: float) -> datetime:
        """The earliest."""
        return datetime.now(UTC) - timedelta(seconds=time.monotonic() - moment) + min(self._offsets_since(moment))

    def _offsets_since(self, moment: float) -> list[timedelta]:
        with self._lock:
            here = max(index for index, (at, _) in enumerate(self._stood) if at <= moment)
            return [offset for _, offset in self._stood[here:]]

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Make it the clock of every module of byref's that reads one, and of the store of files."""
        clock = self

        class Shifted(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + clock._offset

        readers = [
            module for name, module in list(sys.modules.items()) if name.startswith("byref.") and _reads_a_clock(module)
        ]
        assert len(readers) > 8, readers
        with ExitStack() as stack:
            for module in readers:
                stack.enter_context(patch.object(module, "datetime", Shifted))
            shifted = SimpleNamespace(time=lambda: time.time() + clock._offset.total_seconds())
            stack.enter_context(patch.object(files, "time", shifted))
            yield


def _reads_a_clock(module: ModuleType) -> bool:
    file = module.__file__ or ""
    return file.endswith(".py") and "datetime.now(" in Path(file).read_text()


class Keeper:
    """One conversation, and what may be gone of it by now."""

    def __init__(self, engine: Engine, clock: Clock, number: int, seed: int) -> None:
        self._engine, self._clock, self._chance = engine, clock, random.Random(seed * 100 + number)
        self._kind = ("kept", "brief", "kept", "brief and its ledger")[number % 4]
        self._name = f"{self._kind} {number}"
        self._made: dict[str, tuple[float, datetime, bytes]] = {}
        """Of each artifact: when it was asked for, what the clocks said then at least, and its digest."""
        self._steps: list[int] = []
        self._opened_at = time.monotonic()
        self._used_at = clock.earliest_since(self._opened_at)
        self.refused = 0
        self.failures: list[str] = []
        self.session = self._open()

    def _open(self) -> Session:
        policy = Policy(
            mode="variables",
            ttl=None if self._kind == "kept" else TTL,
            ledger_ttl=LEDGER_TTL if "ledger" in self._kind else None,
            on_storage_failure="raise",
            headroom_percentage=1.0,
            max_session_bytes=None,
        )
        return self._engine.session(self._name, policy=policy, context_window=10**9)

    def act(self) -> str:
        """Write, or read and compare."""
        do = self._chance.choice((self.write, self.write, self.stream, self.store, self.small, self.read, self.look))
        moment = time.monotonic()
        try:
            steps = len(self._steps)
            do()
            if len(self._steps) > steps:
                used_at = self._clock.earliest_since(moment)
                self._used_at = max(self._used_at, used_at) if steps else used_at
        except SessionGone:
            # Nothing is acknowledged in a session that idled, as far as a clock can tell, for longer than its ledger is kept.
            assert "ledger" in self._kind, self._name
            self._see_that_it_was_time(self._opened_at, self._used_at + LEDGER_TTL, "the session")
            self._made.clear()
            self._steps.clear()
            self._opened_at = time.monotonic()
            self.session = self._open()
            self._used_at = self._clock.earliest_since(self._opened_at)
        except ByrefError as error:
            # A sweep of years later took what was staged a moment ago: nothing was acknowledged.
            assert any(words in str(error) for words in ("swept", "was deleted", "were deleted", "attempts")), error
            self.refused += 1
        return do.__name__

    def write(self) -> None:
        """Records that are kept."""
        count = self._chance.randrange(400, 1_500)
        moment = time.monotonic()
        result = self.session.process([{"id": i, "n": self._chance.random()} for i in range(count)], tool="rows")
        self._steps.append(result.step or 0)
        self._keep(moment, *result.artifacts)

    def stream(self) -> None:
        """A stream, in which time passes."""
        moment = time.monotonic()
        result = self.session.process((f"{self._chance.random()}\n" * 500 for _ in range(30)), tool="lines")
        self._steps.append(result.step or 0)
        self._keep(moment, *result.artifacts)

    def store(self) -> None:
        """A value of the host's own."""
        moment = time.monotonic()
        artifact = self.session.store_artifact(f"{self._chance.random()}" * 300)
        self._keep(moment, artifact)

    def small(self) -> None:
        """An output that passes."""
        self._steps.append(self.session.process("ok", tool="small").step or 0)

    def _keep(self, moment: float, *artifacts: Artifact) -> None:
        for artifact in artifacts:
            self._made[artifact.id] = moment, self._clock.earliest_since(moment), artifact.digest

    def read(self) -> None:
        """One of what was acknowledged."""
        if not self._made:
            return
        id_ = self._chance.choice(list(self._made))
        found = self.session.get_artifact(id_)
        if found is None:
            self._gone(id_)
            return
        try:
            assert len(found.payload.read()) == found.payload.size
        except ArtifactMissing:
            self._gone(id_)

    def look(self) -> None:
        """All of it, and the order of the steps."""
        there = {artifact.id: artifact.digest for artifact in self.session.artifacts()}
        for id_, (_, _, digest) in list(self._made.items()):
            if id_ not in there:
                self._gone(id_)
            else:
                assert there[id_] == digest
        found = [entry.step for entry in self.session.ledger()]
        if found or "ledger" not in self._kind:  # else it may have gone in between
            assert found == list(range(1, len(found) + 1)), f"{self._name}: {found}"
            assert set(self._steps) <= set(found), f"{self._name}: {set(self._steps) - set(found)} lost"
            assert self._steps == sorted(self._steps)

    def _gone(self, id_: str) -> None:
        moment, written, _ = self._made.pop(id_)
        assert self._kind != "kept", f"{id_} of {self._name} is gone"
        self._see_that_it_was_time(moment, written + TTL, id_)

    def _see_that_it_was_time(self, since: float, until: datetime, what: str) -> None:
        latest = self._clock.latest_since(since)
        assert latest >= until, f"{what} of {self._name} went before {until}: no clock said more than {latest}"


def clock_jumps(folder: Path, seconds: float, seed: int) -> Report:
    """On SQLite with bytes in files, and on PostgreSQL."""
    report = Report("clock_jumps", {"acts": 0, "jumps": 0, "swept": 0, "refused": 0})
    with kit.databases(folder) as urls:
        for kind, url in urls.items():
            _jump(report, url, FileStore(folder / "objects") if kind == "sqlite" else None, seconds / len(urls), seed)
    return report


def _jump(report: Report, url: str, store: FileStore | None, seconds: float, seed: int) -> None:
    clock, chance = Clock(), random.Random(seed)
    with clock.installed(), Engine(url, blobs=store, counter=CharCounter()) as engine:
        keepers = [Keeper(engine, clock, number, seed) for number in range(4)]
        crew = kit.Crew(seconds)

        def jump() -> str:
            time.sleep(chance.uniform(0.02, 0.2))
            clock.jump(chance.choice(JUMPS))
            return "jump"

        def sweep() -> str | None:
            time.sleep(chance.uniform(0.02, 0.2))
            return "swept" if engine.sweep(grace=GRACE) else None

        for keeper in keepers:
            crew.add(keeper.act)
        crew.add(jump)
        crew.add(sweep)
        crew.run()
        clock.jump(timedelta(0))
        report.failures += crew.failures
        for keeper in keepers:
            keeper.look()
        engine.sweep(grace=timedelta(0))
        report.figures["acts"] += crew.done.total() - crew.done["jump"] - crew.done["swept"]
        report.figures["jumps"] += crew.done["jump"]
        report.figures["swept"] += crew.done["swept"]
        report.figures["refused"] += sum(keeper.refused for keeper in keepers)
    kit.verify(url, report.failures, blobs=store)
