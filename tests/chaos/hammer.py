"""The hammer: processes that do everything to the same conversations at once, and are killed at any moment.

    python tests/chaos/hammer.py URL [--blobs FOLDER] [--seconds 60] [--processes 8] [--kills 0] [--seed 1]

A worker writes down what byref acknowledged. In the end the database is verified to the last byte, every acknowledged write
to a conversation that nobody deletes has to be there, and one sweep has to leave nothing that is not needed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "support"))  # it runs alone, too

import aftermath

from byref import ArtifactMissing, CharCounter, ConfigurationError, Engine, Policy, SessionGone
from byref.stores import FileStore
from byref_sandbox import Sandbox

SAFE, DOOMED, ENDING, BRIEF = "safe", "doomed", "ending", "brief"
"""Sessions that nobody deletes, that are deleted, that are ended, and whose artifacts expire at once."""
PAYLOADS = 6
"""Few, so that bytes are stored by one session while their last owner goes."""
GRACE = timedelta(seconds=2)
TOOLS = ("artifact_jq", "artifact_grep", "artifact_read", "get_artifact", "list_artifacts", "store_artifact")


@dataclass
class Outcome:
    """What a run did and what was wrong in the end."""

    done: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    acknowledged: int = 0
    failures: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)


@lru_cache
def payload(number: int) -> list[dict[str, Any]]:
    """Records that are offloaded; some need several frames."""
    count = 2_500 if number % 3 else 30_000
    return [{"id": i, "payload": number, "text": f"record {i} of {number}"} for i in range(count)]


class Worker:
    """One process: an endless row of random acts."""

    def __init__(self, engine: Engine, seed: int, journal: int) -> None:
        self._engine, self._chance, self._journal = engine, random.Random(seed), journal
        self._turn = 0
        self._seed = seed

    def session(self, kind: str | None = None) -> tuple[str, Any]:
        """A handle on one of a few conversations."""
        kind = kind or self._chance.choice((SAFE, SAFE, DOOMED, ENDING, BRIEF))
        name = f"{kind} {self._chance.randrange(3)}"
        if kind == ENDING:
            name += f" {int(time.time()) // 2}"
        policy = Policy(mode="variables", ttl=0.2 if kind == BRIEF else 86_400)
        return name, self._engine.session(name, context_window=10**9, policy=policy, tools=TOOLS)

    def acknowledge(self, what: str, session: str, **more: Any) -> None:
        """Write down what was done, in one write: a kill leaves all of a line or nothing."""
        os.write(self._journal, json.dumps({"what": what, "session": session, **more}).encode() + b"\n")

    def act(self) -> None:
        """Do one thing; what may be gone by then may be gone."""
        self._turn += 1
        acts = (self.process,) * 6 + (self.small, self.store, self.read, self.read, self.share, self.keep, self.usage)
        what = self._chance.choice((*acts, self.delete, self.end, self.sweep))
        try:
            what()
        except (SessionGone, ArtifactMissing):
            self.acknowledge("gone", what.__name__)
        except ConfigurationError as error:
            if (
                "no session" not in str(error)
                and "no artifact" not in str(error)
                and "expired before" not in str(error)
            ):
                raise
            self.acknowledge("gone", what.__name__)

    def process(self) -> None:
        """Give an output that is offloaded."""
        name, session = self.session()
        number = self._chance.randrange(PAYLOADS)
        result = session.process(payload(number), tool="rows", call_id=f"{self._seed} {self._turn}")
        assert result.route == "variables", (result.route, result.reason)
        for artifact in result.artifacts:  # none where it has expired by now
            self.acknowledge("process", name, step=result.step, id=artifact.id, digest=artifact.digest.hex())

    def small(self) -> None:
        """Give an output that passes."""
        name, session = self.session()
        self.acknowledge("small", name, step=session.process(f"{self._turn}", tool="small").step)

    def store(self) -> None:
        """Store a value of the host's own."""
        name, session = self.session()
        artifact = session.store_artifact(payload(self._chance.randrange(PAYLOADS)), name=f"n{self._turn % 5}")
        self.acknowledge("store", name, id=artifact.id, digest=artifact.digest.hex())

    def read(self) -> None:
        """Read as the model does, and as the host does."""
        name, session = self.session()
        artifacts = session.artifacts()
        if artifacts:
            chosen = self._chance.choice(artifacts)
            session.call("artifact_jq", {"artifact_id": chosen.id, "expression": ".[0].id"})
            session.call("artifact_read", {"artifact_id": chosen.id, "start_line": self._chance.randrange(1, 3_000)})
            session.call("artifact_grep", {"artifact_id": chosen.id, "pattern": "record 17 "})
            assert len(chosen.value) in (2_500, 30_000)
        self.acknowledge("read", name)

    def share(self) -> None:
        """Give an artifact to another session."""
        _, session = self.session(self._chance.choice((SAFE, DOOMED)))
        other, _ = self.session()
        artifacts = session.artifacts()
        if artifacts:
            shared = session.share(self._chance.choice(artifacts), other)
            self.acknowledge("share", other, id=shared.id, digest=shared.digest.hex())

    def keep(self) -> None:
        """Let one of a session that ends survive it."""
        name, session = self.session(ENDING)
        if artifacts := session.artifacts():
            session.keep(self._chance.choice(artifacts))
        self.acknowledge("keep", name)

    def usage(self) -> None:
        """Record a model's usage."""
        name, session = self.session()
        session.record_usage({"prompt_tokens": 1_000, "completion_tokens": 10}, request_id=f"{self._seed} {self._turn}")
        self.acknowledge("usage", name)

    def delete(self) -> None:
        """Delete a session."""
        name, _ = self.session(DOOMED)
        self._engine.delete_session(name)
        self.acknowledge("delete", name)

    def end(self) -> None:
        """End a session."""
        name, session = self.session(ENDING)
        session.end()
        self.acknowledge("end", name)

    def sweep(self) -> None:
        """Sweep with little grace."""
        self._engine.sweep(grace=GRACE)
        self.acknowledge("sweep", "")


def hammer(
    url: str, *, seconds: float, processes: int = 8, kills: int = 0, seed: int = 1, folder: str | None = None
) -> Outcome:
    """Let processes hammer a migrated database, kill some of them, and check what they left.

    With a `folder` the bytes are in a store of files there.
    """
    outcome = Outcome()
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="byref-hammer-") as journals_folder:
        journals = Path(journals_folder)
        workers: dict[int, int] = {}
        number = 0

        def start() -> None:
            nonlocal number
            number += 1
            workers[_forked(url, folder, seed * 1_000_003 + number, journals / f"{number}.journal")] = number

        for number_of_payload in range(PAYLOADS):
            payload(number_of_payload)  # once, not in each process
        for _ in range(processes):
            start()
        began = time.monotonic()
        try:
            while time.monotonic() - began < seconds or outcome.kills < kills:
                time.sleep(seconds / max(kills, 1) * chance.uniform(0.3, 1.2) if kills else 0.05)
                if outcome.kills < kills:
                    killed = chance.choice(list(workers))
                    os.kill(killed, signal.SIGKILL)
                    os.waitpid(killed, 0)
                    del workers[killed]
                    outcome.kills += 1
                    start()
                for pid in list(workers):
                    ended, status = os.waitpid(pid, os.WNOHANG)
                    if ended:
                        del workers[pid]
                        outcome.failures.append(f"a worker ended with {os.waitstatus_to_exitcode(status)}")
                if outcome.failures:
                    break
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGTERM)
            for pid in workers:
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                if status:
                    outcome.failures.append(f"a worker ended with {status}")
        written = [path.read_text().splitlines() for path in sorted(journals.glob("*.journal"))]
        outcome.failures += [error.read_text() for error in sorted(journals.glob("*.error"))]
    acknowledged = [json.loads(line) for journal in written for line in journal]
    outcome.done.update(entry["what"] for entry in acknowledged)
    outcome.figures = aftermath.examined(
        url,
        _store(folder),
        outcome.failures,
        lambda engine: _look(engine, acknowledged, outcome),
        interpreter=Sandbox(),
    )
    return outcome


def _store(folder: str | None) -> FileStore | None:
    return None if folder is None else FileStore(folder)


def _forked(url: str, folder: str | None, seed: int, journal: Path) -> int:
    """Start a worker, forked: nothing of byref's is open in this process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until there is somebody to handle it
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return pid
    stopping = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True

    status = 1
    try:
        signal.signal(signal.SIGTERM, stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        file = os.open(journal, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        with Engine(url, create=False, blobs=_store(folder), interpreter=Sandbox(), counter=CharCounter()) as engine:
            worker = Worker(engine, seed, file)
            while not stopping:
                worker.act()
        status = 0
    except BaseException:
        journal.with_suffix(".error").write_text(traceback.format_exc())
    finally:
        os._exit(status)


def _look(engine: Engine, acknowledged: list[dict[str, Any]], outcome: Outcome) -> None:
    """Look for every acknowledged write to a conversation that nobody deletes."""
    kept: dict[str, dict[str, bytes]] = {}
    steps: dict[str, set[int]] = {}
    for entry in acknowledged:
        name = entry["session"]
        if not name.startswith(SAFE):
            continue
        if name not in kept:
            session = engine.session(name)
            kept[name] = {artifact.id: artifact.digest for artifact in session.artifacts()}
            steps[name] = {step.step for step in session.ledger()}
        if "id" in entry and kept[name].get(entry["id"], b"").hex() != entry["digest"]:
            outcome.failures.append(f"lost: {entry}")
        if "step" in entry and entry["step"] not in steps[name]:
            outcome.failures.append(f"lost: {entry}")
        outcome.acknowledged += 1


def main() -> int:
    """Run the hammer on a database that is there."""
    parser = argparse.ArgumentParser(description="Hammer a byref database and verify it.")
    parser.add_argument("url")
    parser.add_argument("--blobs", metavar="FOLDER", help="a store of files for the bytes")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    outcome = hammer(
        options.url,
        seconds=options.seconds,
        processes=options.processes,
        kills=options.kills,
        seed=options.seed,
        folder=options.blobs,
    )
    print(f"seed {options.seed}: {outcome.kills} kills, {outcome.acknowledged} acknowledged writes looked for")
    print("done:", dict(outcome.done))
    print("left:", outcome.figures)
    for failure in outcome.failures[:50]:
        print("FAILED", failure)
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
