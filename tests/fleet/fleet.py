"""Conversations whose every request goes to another process: `python tests/fleet/fleet.py URL [--kills N] …` prints a report.

One thread drives the fleet, so that a process can be added by a fork at any time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "support"))  # it runs alone

import aftermath
import nodes
from nodes import Request, Storage
from s3server import S3, s3_server
from talks import Talk, analyst, narrow, neighbours

from byref import CharCounter, Engine

PATIENCE = 90.0
"""Seconds after which a request hangs."""


@dataclass(eq=False)
class Node:
    """A process, and what it is at."""

    pid: int
    pipe: connection.Connection
    pending: dict[int, tuple[Request, Talking, int]] = field(default_factory=dict)


@dataclass(eq=False)
class Talking:
    """A conversation that goes on, and the answers it waits for."""

    name: str
    talk: Talk
    answers: list[Any] = field(default_factory=list)
    missing: int = 0
    alone: bool = False
    """One request was made, not a list."""


class Fleet:
    """Processes, to which requests are given at random."""

    def __init__(self, storage: Storage, *, size: int, coders: int, seed: int) -> None:
        self.nodes: list[Node] = []
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._storage, self._coders, self._chance = storage, coders, random.Random(seed)
        self._numbers = 0
        self._made = 0
        for _ in range(size):
            self.add()

    def add(self) -> None:
        """Have one more process; every second is asynchronous inside."""
        ours, theirs = multiprocessing.Pipe()
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                ours.close()
                for node in self.nodes:
                    node.pipe.close()
                nodes.serve(theirs, self._storage, is_async=self._made % 2 == 1)
                status = 0
            except BaseException as error:
                print(f"node: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        theirs.close()
        self._made += 1
        self.nodes.append(Node(pid, ours))

    def kill(self) -> None:
        """Kill a process at whatever it does; what it was asked is asked of others."""
        busy = [node for node in self.nodes if node.pending] or self.nodes
        node = self._chance.choice(busy)
        os.kill(node.pid, signal.SIGKILL)
        os.waitpid(node.pid, 0)
        self.nodes.remove(node)
        while node.pipe.poll():  # what it had answered by then was answered
            try:
                self._answered(node, *node.pipe.recv())
            except (EOFError, OSError):
                break
        node.pipe.close()
        self.counts["killed"] += 1
        self.counts["asked again"] += len(node.pending)
        for request, talking, place in node.pending.values():
            self._give(request, talking, place)

    def leave(self) -> None:
        """Let a process end by itself, when it has answered everything."""
        node = self._chance.choice(self.nodes)
        while node.pending:
            self._wait(only=node)
        self._end(node)
        self.counts["left"] += 1

    def close(self) -> None:
        """End all."""
        while self.nodes:
            self._end(self.nodes[0])

    def run(self, talks: dict[str, Talk], *, kills: int = 0) -> None:
        """Carry conversations to their end, with processes killed, leaving and joining in between."""
        self._ready = deque(Talking(name, talk) for name, talk in talks.items())
        self._open = len(talks)
        answered_at_change, change = 0, 0
        while True:
            while self._ready:
                self._advance(self._ready.popleft())
            if not self._open or self.failures:
                return
            self._wait()
            if change < kills and self.counts["answered"] - answered_at_change >= self._chance.randrange(8, 30):
                answered_at_change, change = self.counts["answered"], change + 1
                self.kill()
                if change % 3 == 0 and len(self.nodes) > 2:
                    self.leave()
                while len(self.nodes) < 4:
                    self.add()

    def _advance(self, talking: Talking) -> None:
        answers = talking.answers[0] if talking.alone else talking.answers
        try:
            asked = talking.talk.send(answers if talking.missing == 0 and talking.answers else None)
        except StopIteration:
            self._open -= 1
            return
        except AssertionError as error:
            self.failures.append(f"{talking.name}: {_where(error)}: {error}"[:3_000])
            return
        talking.alone = isinstance(asked, Request)
        requests = [asked] if isinstance(asked, Request) else asked
        talking.answers, talking.missing = [None] * len(requests), len(requests)
        for place, request in enumerate(requests):
            self._give(request, talking, place)

    def _give(self, request: Request, talking: Talking, place: int) -> None:
        among = self.nodes[: self._coders] if request.runs_code else self.nodes
        node = self._chance.choice(among)
        self._numbers += 1
        node.pending[self._numbers] = request, talking, place
        try:
            node.pipe.send((self._numbers, request))
        except OSError:
            self.failures.append(f"a process of the fleet ended by itself: {request}")

    def _wait(self, only: Node | None = None) -> None:
        """Take in some answers."""
        waited = [only] if only else [node for node in self.nodes if node.pending]
        ready = connection.wait([node.pipe for node in waited], PATIENCE)
        if not ready:
            asked = [request for node in waited for request, *_ in node.pending.values()]
            self.failures.append(f"no answer in {PATIENCE} seconds: {asked}"[:3_000])
        for node in waited:
            if node.pipe in ready:
                try:
                    self._answered(node, *node.pipe.recv())
                except EOFError:
                    self.failures.append("a process of the fleet ended by itself")
                    return

    def _answered(self, node: Node, number: int, answer: Any) -> None:
        _, talking, place = node.pending.pop(number)
        talking.answers[place] = answer
        talking.missing -= 1
        self.counts["answered"] += 1
        if not talking.missing:
            self._ready.append(talking)

    def _end(self, node: Node) -> None:
        self.nodes.remove(node)
        node.pipe.send(None)
        status = os.waitstatus_to_exitcode(os.waitpid(node.pid, 0)[1])
        node.pipe.close()
        if status:
            self.failures.append(f"a process of the fleet ended with {status}")


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"line {trace.tb_lineno}" if trace is not None else "somewhere"


@contextmanager
def bucket() -> Iterator[tuple[str, dict[str, Any]]]:
    """A bucket on an S3 server in a process of its own: its URL, and what a client has to be told."""
    ours, theirs = multiprocessing.Pipe()
    pid = os.fork()
    if not pid:
        try:
            ours.close()
            with s3_server() as server:
                theirs.send((server.host, server.port))
                theirs.poll(None)  # until whoever wants it is gone
        finally:
            os._exit(0)
    theirs.close()
    try:
        server = S3(*ours.recv())
        yield f"s3://{server.bucket()}", server.settings
    finally:
        ours.close()
        os.waitpid(pid, 0)


def check(storage: Storage, failures: list[str]) -> dict[str, int]:
    """Verify to the last byte, sweep, verify again."""
    figures = aftermath.examined(storage.url, storage.store(), failures)
    return {name: figures[name] for name in ("sessions", "artifacts", "ledger", "objects")}


def warm() -> None:
    """Import what every process would, once, and leave nothing open."""
    import obstore
    import psycopg
    import sqlalchemy.dialects.postgresql.psycopg

    assert obstore and psycopg and sqlalchemy.dialects.postgresql.psycopg
    with Engine("sqlite:///:memory:", counter=CharCounter()) as engine:
        session = engine.session("warm", policy=nodes.POLICY)
        session.process({"rows": [{"id": number} for number in range(3_000)]}, tool="t", arguments={})
        session.process("text\n" * 5_000, tool="t")
        session.resolve({"rows": "$rows"})
        session.call("artifact_read", {"artifact_id": "rows"})
    assert len(os.listdir("/proc/self/task")) == 1, "a process that forks must have one thread"


def main() -> int:
    """Run a fleet on a migrated PostgreSQL and print a report as JSON."""
    parser = argparse.ArgumentParser(description="Scatter conversations among processes.")
    parser.add_argument("url")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--coders", type=int, default=4, help="how many of them run code")
    parser.add_argument("--talks", type=int, default=8, help="conversations of each kind")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="no figures, one of each kind of conversation")
    options = parser.parse_args()
    began = time.monotonic()
    warm()
    with bucket() as (place, settings):
        storage = Storage(options.url, place, settings)
        fleet = Fleet(storage, size=options.nodes, coders=options.coders, seed=options.seed)
        talks: dict[str, Talk] = {}
        for number in range(options.talks):
            chance = random.Random(options.seed * 1_000 + number)
            quick = options.quick
            talks[f"analyst {number}"] = analyst(f"analyst {number}", chance, rows=options.rows, quick=quick)
            talks[f"narrow {number}"] = narrow(f"narrow {number}", chance)
            talks[f"neighbours {number}"] = neighbours(f"neighbours {number}", chance)
        try:
            fleet.run(talks, kills=options.kills)
        finally:
            fleet.close()
        figures = dict(fleet.counts) | {"conversations": len(talks), "seconds": round(time.monotonic() - began, 1)}
        if not fleet.failures:
            figures |= check(storage, fleet.failures)
    print(json.dumps({"figures": figures, "failures": fleet.failures}))
    return 1 if fleet.failures else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
