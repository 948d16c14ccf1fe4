"""Backends at work while their storage fails: each request is given again, under the same id, until it is acknowledged.

In the end everything that was acknowledged has to be there, once.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import aftermath
from report import Report

from byref import CharCounter, Engine, Policy, Session, StorageFailure
from byref.stores import BlobStore
from byref_sandbox import Sandbox

T = TypeVar("T")

SESSIONS = 3
PATIENCE = 60.0
"""Seconds after which a request that is still not acknowledged never will be: nothing is wrong for so long."""
PAUSE = 0.1
"""Seconds before a request is given again."""
AWAY = "cannot be reached right now"
"""What a tool's reply says where the storage failed."""
GONE = "the stored data is gone or damaged"
"""What it says where a store has no such object: one that is consistent only eventually may have it later."""


@dataclass
class Acknowledged:
    """What byref answered to one request, and said that it had stored."""

    session: str
    call_id: str
    kind: str
    step: int | None
    content: str = ""
    artifacts: dict[str, str] = field(default_factory=dict)
    """Digests by id."""
    tries: int = 1


class Load:
    """Threads of several engines at the same conversations, as many backends are; each request goes to any of them."""

    def __init__(self, engines: Sequence[Engine], *, seed: int, threads: int = 6, payloads: int = 6) -> None:
        self.engines = engines
        self.acknowledged: list[Acknowledged] = []
        self.failures: list[str] = []
        self.counts: Counter[str] = Counter()
        self.longest = 0.0
        """Seconds that one call took, whatever its answer."""
        self.recoveries: list[float] = []
        self._payloads = payloads
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._begun_and_done: dict[int, float] = {}
        """When the newest request that a thread got through had begun."""
        self._threads = [threading.Thread(target=self._run, args=(n, seed)) for n in range(threads)]

    def start(self) -> None:
        """Let the threads begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every thread get through the request that it is at."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def recovered(self, since: float | None = None) -> float:
        """Wait until every thread got through a request begun after the fault, and return how long that took."""
        since = since or time.monotonic()
        while time.monotonic() - since < PATIENCE and not self.failures:
            with self._lock:
                done = [at for at in self._begun_and_done.values() if at >= since]
            if len(done) == len(self._threads):
                break
            time.sleep(0.02)
        else:
            self.failures.append(f"no recovery within {PATIENCE} seconds")
        self.recoveries.append(time.monotonic() - since)
        return self.recoveries[-1]

    def _run(self, number: int, seed: int) -> None:
        chance, turn = random.Random(seed * 1_000 + number), 0
        acts = (self._process,) * 4 + (self._small, self._small, self._usage, self._read, self._code)
        try:
            while not self._stopping.is_set():
                turn += 1
                name = f"chat {chance.randrange(SESSIONS)}"
                chance.choice(acts)(name, f"{number} {turn}", chance)
                time.sleep(0.002)
        except BaseException:
            self.failures.append(traceback.format_exc())

    def _until(self, name: str, chance: random.Random, work: Callable[[Session], T | None]) -> tuple[T, int]:
        """Give a request again until it is acknowledged; return the answer and how often it was given."""
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            at, got = time.monotonic(), None
            try:
                # Every second conversation is told of failures by the exception.
                failing = "raise" if name.endswith("1") else "truncate"
                policy = Policy(mode="variables", on_storage_failure=failing)
                engine = chance.choice(self.engines)
                got = work(engine.session(name, context_window=10**9, policy=policy))
            except StorageFailure as error:
                self.counts["raised"] += 1
                assert str(error)
            took = time.monotonic() - at
            with self._lock:
                self.longest = max(self.longest, took)
                if got is not None:
                    self._begun_and_done[threading.get_ident()] = at
            if got is not None:
                return got, tries
            self.counts["failed cleanly"] += 1
            if time.monotonic() - began > PATIENCE:
                raise AssertionError(f"{name}: not acknowledged in {tries} tries of {PATIENCE} seconds")
            time.sleep(PAUSE)

    def _acknowledge(self, what: Acknowledged) -> None:
        with self._lock:
            self.acknowledged.append(what)
            self.counts["acknowledged"] += 1
            self.counts["retried"] += what.tries > 1

    def _process(self, name: str, call_id: str, chance: random.Random) -> None:
        rows = payload(chance.randrange(self._payloads))

        def work(session: Session) -> Acknowledged | None:
            result = session.process(rows, tool="rows", call_id=call_id)
            if result.reason == "storage_failure":
                assert session.policy.on_storage_failure == "truncate" and "INCOMPLETE" in result.text
                return None
            assert result.route == "variables", (result.route, result.reason)
            kept = {artifact.id: artifact.digest.hex() for artifact in result.artifacts}
            return Acknowledged(name, call_id, "output", result.step, result.text, kept)

        done, done.tries = self._until(name, chance, work)
        self._acknowledge(done)

    def _small(self, name: str, call_id: str, chance: random.Random) -> None:
        def work(session: Session) -> Acknowledged | None:
            result = session.process(f"small {call_id}", tool="small", call_id=call_id)
            assert result.content == f"small {call_id}"
            if result.reason == "storage_failure":
                return None
            return Acknowledged(name, call_id, "output", result.step, result.text)

        done, done.tries = self._until(name, chance, work)
        self._acknowledge(done)

    def _usage(self, name: str, call_id: str, chance: random.Random) -> None:
        def work(session: Session) -> Acknowledged:
            usage = {"prompt_tokens": 100, "completion_tokens": 1}
            session.record_usage(usage, request_id=call_id, context=False)
            return Acknowledged(name, call_id, "usage", None)

        done, done.tries = self._until(name, chance, work)
        self._acknowledge(done)

    def _read(self, name: str, call_id: str, chance: random.Random) -> None:
        """What was acknowledged can be read."""
        with self._lock:
            there = [one for one in self.acknowledged if one.session == name and one.artifacts]
        if not there:
            return
        [artifact_id] = chance.choice(there[-4:]).artifacts
        tries = count(1)
        asked = [call_id]
        arguments = {"artifact_id": artifact_id, "end_line": 2}

        def work(session: Session) -> Acknowledged | None:
            reply = session.call("artifact_read", arguments, call_id=asked[-1])
            if reply.is_error:
                assert AWAY in reply.text or GONE in reply.text, reply.text
                if GONE in reply.text:  # that was the answer: the model asks anew
                    asked.append(f"{call_id} {next(tries)}")
                return None
            assert '"id":0' in reply.text, reply.text
            return Acknowledged(name, asked[-1], "reply", reply.step, reply.text)

        done, done.tries = self._until(name, chance, work)
        self._acknowledge(done)

    def _code(self, name: str, call_id: str, chance: random.Random) -> None:
        """What code leaves is there for the next."""
        variable = f"n_{call_id.replace(' ', '_')}"

        def work(session: Session) -> Acknowledged | None:
            reply = session.call("code_interpreter", {"code": f"{variable} = {{1, 2}}"}, call_id=call_id)
            if reply.is_error:
                assert AWAY in reply.text, reply.text
                return None
            return Acknowledged(name, call_id, "reply", reply.step, reply.text)

        done, done.tries = self._until(name, chance, work)
        self._acknowledge(done)
        self.counts["kept values"] += 1


def payload(number: int) -> list[dict[str, Any]]:
    """Records that are offloaded; few different ones, and the same bytes are stored by several at once."""
    return [{"id": i, "payload": number, "text": f"record {i} of {number}"} for i in range(1_500 + number)]


@contextmanager
def engines(
    url: str, sandbox: Sandbox, *, number: int = 2, blobs: Callable[[], BlobStore | None] = lambda: None
) -> Iterator[list[Engine]]:
    """Engines of one database and one store, each with connections and clients of its own."""
    opened: list[Engine] = []
    try:
        for _ in range(number):
            opened.append(Engine(url, create=False, blobs=blobs(), interpreter=sandbox, counter=CharCounter()))
        yield opened
    finally:
        for engine in opened:
            engine.close()


def check(report: Report, load: Load, url: str, sandbox: Sandbox, blobs: BlobStore | None, *, bound: float) -> None:
    """Look for everything that was acknowledged, once; verify to the last byte, sweep, verify; fill the figures."""
    report.failures += load.failures
    report.figures |= {name: load.counts[name] for name in ("acknowledged", "retried", "failed cleanly", "kept values")}
    report.figures["faults"] = len(load.recoveries)
    report.figures["longest recovery (s)"] = round(max(load.recoveries, default=0.0), 2)
    report.figures["longest call (s)"] = round(load.longest, 2)
    if load.longest > bound:
        report.failures.append(f"a call took {load.longest:.1f} seconds, more than {bound}")

    def look(engine: Engine) -> None:
        for name in sorted({one.session for one in load.acknowledged}):
            mine = [one for one in load.acknowledged if one.session == name]
            report.failures.extend(_missing(engine.session(name), mine))

    aftermath.examined(url, blobs, report.failures, look, interpreter=sandbox)


def _missing(session: Session, acknowledged: list[Acknowledged]) -> Iterator[str]:
    """What is not there, or twice."""
    ledger = session.ledger()
    if [entry.step for entry in ledger] != list(range(1, len(ledger) + 1)):
        yield f"{session.id}: the ledger has gaps"
    stored = [entry for entry in ledger if entry.reason != "storage_failure"]
    steps = Counter((entry.kind, entry.call_id) for entry in stored)
    yield from (f"{session.id}: {which} has {times} steps" for which, times in steps.items() if times > 1)
    entries = {(entry.kind, entry.call_id): entry for entry in stored}
    digests = {artifact.id: artifact.digest.hex() for artifact in session.artifacts()}
    for one in acknowledged:
        entry = entries.get((one.kind, one.call_id))
        if entry is None or (one.step is not None and entry.step != one.step):
            yield f"{session.id}: lost {one}"
        elif one.kind == "reply" and entry.content != one.content:
            yield f"{session.id}: {one.call_id} was answered otherwise"
        yield from (f"{session.id}: lost {i}" for i, digest in one.artifacts.items() if digests.get(i) != digest)
    names = {variable.name for variable in session.variables()}
    for one in acknowledged:
        if one.kind == "reply" and "n_" in one.content:
            name = f"n_{one.call_id.replace(' ', '_')}"
            if name not in names:
                yield f"{session.id}: {name} is not bound"
