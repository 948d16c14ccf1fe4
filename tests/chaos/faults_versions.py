"""Two versions of the schema side by side: deploys that replace processes one by one, while the database is migrated under them.

Processes run copies of the package with other migrations: those of this one, and one that there is not yet.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import kit
from packages import Nursery, Package
from report import Report
from sqlalchemy import create_engine, text

from byref import Engine
from byref.db import integrity
from byref.db.revisions import REVISIONS
from byref_sandbox import Sandbox

WORKERS = 3
BRIEF, REST = 5.0, 0.05
"""Seconds of load below which processes rest, and how long: a look that is to take little does not wait for a deploy's
steps with all processors busy.
"""
PATIENCE = 120.0
"""Seconds after which a process that has acknowledged nothing never will."""

NURSERY = r"""
import json, os, random, signal, sys, time, traceback
from datetime import timedelta
from byref import CharCounter, Engine, Policy, db
from byref_sandbox import Sandbox
import byref.db.migrate, psycopg, sqlalchemy.dialects.postgresql.psycopg

def work(url, seed, journal, rest):
    chance, stopping, turn, nursery = random.Random(seed), [], 0, os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    policy = Policy(on_storage_failure="raise")
    with Engine(url, interpreter=Sandbox(), counter=CharCounter(), policy=policy) as engine:
        while not stopping and os.getppid() == nursery:
            turn += 1
            name, call_id, begun = f"chat {chance.randrange(3)}", f"{seed} {turn}", time.monotonic()
            session = engine.session(name, context_window=10**9)
            output = [{"id": n, "of": turn % 5} for n in range(1_500)] if chance.random() < 0.5 else {"turn": turn}
            result = session.process(output, tool="rows", call_id=call_id)
            again = session.process(output, tool="rows", call_id=call_id)
            assert (again.content, again.step) == (result.content, result.step)
            for artifact in result.artifacts:
                assert len(session.get_artifact(artifact.id).value) == 1_500
                reply = session.call("artifact_read", {"artifact_id": artifact.id, "start_line": 7})
                assert not reply.is_error, reply.content
            session.record_usage({"prompt_tokens": 10, "completion_tokens": 1}, request_id=call_id)
            if turn % 20 == 0:
                engine.delete_session(f"passing {seed}")
                engine.session(f"passing {seed}", context_window=10**9).process(output, tool="rows")
                engine.sweep(grace=timedelta(seconds=5))
            said = {"session": name, "call_id": call_id, "step": result.step, "content": result.content}
            said["artifacts"] = {artifact.id: artifact.digest.hex() for artifact in result.artifacts}
            said["seconds"] = time.monotonic() - begun
            os.write(journal, json.dumps(said).encode() + b"\n")
            time.sleep(rest)

def start(url, seed, journal, rest):
    if pid := os.fork():
        return pid
    status = 1
    try:
        work(url, seed, os.open(journal, os.O_CREAT | os.O_APPEND | os.O_WRONLY), rest)
        status = 0
    except BaseException:
        with open(journal + ".error", "w") as file:
            traceback.print_exc(file=file)
    finally:
        os._exit(status)

def wait(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def migrate(verb, *arguments):
    begun = time.monotonic()
    getattr(db, verb)(*arguments)
    return (time.monotonic() - begun) * 1_000

for line in sys.stdin:
    order = json.loads(line)
    print(json.dumps(globals()[order["do"]](*order["arguments"])), flush=True)
"""


class Fleet:
    """Processes of a few packages at one database, each with so many seconds of rest after a turn."""

    def __init__(self, url: str, folder: Path, seed: int, rest: float) -> None:
        self._url, self._folder, self._seed, self._rest = url, folder, seed, rest
        self._started = 0
        self._running: list[tuple[int, Nursery, Path]] = []
        self.failures: list[str] = []
        folder.mkdir()

    def start(self, nursery: Nursery) -> None:
        """Start a process, and wait until it has done something."""
        self._started += 1
        journal = self._folder / f"{self._started}.journal"
        pid: int = nursery.ask("start", self._url, self._seed * 1_000 + self._started, str(journal), self._rest)
        self._running.append((pid, nursery, journal))
        until = time.monotonic() + PATIENCE
        while not (journal.exists() and journal.stat().st_size) and not _error(journal).exists():
            if time.monotonic() > until:
                self.failures.append(f"process {self._started} has done nothing for {PATIENCE:g} seconds")
                return
            time.sleep(0.02)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the oldest process, and look at how it ended."""
        pid, nursery, journal = self._running.pop(0)
        os.kill(pid, number)  # nobody has waited for it yet: the id is its own
        status = nursery.ask("wait", pid)
        if status != (0 if number == signal.SIGTERM else -number):
            told = _error(journal).read_text() if _error(journal).exists() else ""
            self.failures.append(f"a process ended with {status}: {told}")

    def replace(self, nursery: Nursery, seconds: float) -> None:
        """Replace the processes one by one."""
        for _ in range(len(self._running)):
            self.stop()
            self.start(nursery)
            time.sleep(seconds)

    def close(self) -> None:
        """Stop them all."""
        while self._running:
            self.stop()

    def acknowledged(self) -> list[dict[str, Any]]:
        """What was written down, a line each."""
        return [
            json.loads(line)
            for path in sorted(self._folder.glob("*.journal"))
            for line in path.read_text().splitlines()
        ]


def rolling_upgrade(folder: Path, seconds: float, seed: int) -> Report:
    """A deploy under load that migrates first; an old process is killed and started again in the middle; then all back."""
    report = Report("rolling_upgrade")
    versions = (REVISIONS, (*REVISIONS, "next"))
    with ExitStack() as stack:
        nurseries = [Nursery(Package(folder / there[-1], there), NURSERY) for there in versions]
        for nursery in nurseries:
            stack.callback(nursery.close)
        for kind, url in stack.enter_context(kit.databases(folder)).items():
            fleet = Fleet(url, folder / f"{kind} journals", seed, REST if seconds < BRIEF else 0.0)
            try:
                _deploy(kind, url, fleet, nurseries, seconds / 24, report)
            finally:
                fleet.close()
            report.failures += [f"{kind}: {failure}" for failure in fleet.failures]
    return report


def _deploy(kind: str, url: str, fleet: Fleet, nurseries: Sequence[Nursery], pause: float, report: Report) -> None:
    this, newer = nurseries
    for _ in range(WORKERS):
        fleet.start(this)
    time.sleep(pause)
    report.figures[f"{kind}: upgrade to the next, ms"] = newer.ask("migrate", "upgrade", url)
    time.sleep(pause)
    fleet.stop(signal.SIGKILL)  # in the middle of the deploy an old process is lost, and comes again
    fleet.start(this)
    fleet.replace(newer, pause)
    _check(url, fleet, written_by={"newer", None})
    fleet.replace(this, pause)  # the deploy is taken back: code first, then the tables
    fleet.close()
    newer.ask("migrate", "downgrade", url, REVISIONS[-1])
    _check(url, fleet)
    acknowledged = fleet.acknowledged()
    report.figures[f"{kind}: acknowledged"] = len(acknowledged)
    report.figures[f"{kind}: longest turn, s"] = max((entry["seconds"] for entry in acknowledged), default=0.0)


def _error(journal: Path) -> Path:
    return journal.with_name(f"{journal.name}.error")


def _check(url: str, fleet: Fleet, *, written_by: set[str | None] | None = None) -> None:
    """Everything that was acknowledged is there, to the byte; written by which packages, where the schema can tell."""
    acknowledged = fleet.acknowledged()
    fleet.failures += [str(problem) for problem in integrity.examine(url, deep=True, grace=timedelta(days=1)).problems]
    with Engine(url, create=False, interpreter=Sandbox()) as engine:
        for name in sorted({entry["session"] for entry in acknowledged}):
            session = engine.session(name)
            steps = {step.step: (step.call_id, step.content) for step in session.ledger()}
            kept = {artifact.id: artifact.digest.hex() for artifact in session.artifacts()}
            for entry in acknowledged:
                if entry["session"] == name and (
                    steps.get(entry["step"]) != (entry["call_id"], entry["content"])
                    or any(kept.get(id) != digest for id, digest in entry["artifacts"].items())
                ):
                    fleet.failures.append(f"lost: {entry!r:.300}")
    if written_by is not None:
        reader = create_engine(url)
        with reader.connect() as connection:
            found = set(connection.execute(text("SELECT DISTINCT written_by FROM byref_ledger")).scalars())
        reader.dispose()
        if found != written_by:
            fleet.failures.append(f"the ledger was written by {found}, not by {written_by}")
