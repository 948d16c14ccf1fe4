"""Code that calls functions of its host, killed at every point of its way: the host, the sandbox, the database.

Each program runs in processes that are forked one after the other, all under the same call id, until it has its reply. What its
functions have done is counted in a file. A call whose result is in the journal is never made again and never lost; of a call under
way, whoever made it died, the code is told so, unless the function is repeatable.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import kit
import process_table
from faults_postgres import Server
from report import Report
from sqlalchemy import create_engine, make_url

import byref
from byref import Engine, Function, Policy, Session, ToolReply
from byref_sandbox import Sandbox, SandboxUnavailable

PROGRAM: Final = """
import asyncio, random

def tried(function, key):
    try:
        return function(key)
    except RuntimeError as error:
        return str(error)

async def behind(key):
    first = await read(key)
    try:
        return [first, await once(key + key)]
    except RuntimeError as error:
        return [first, str(error)]

chance = random.random()
found = [tried(once, 'a'), tried(read, 'b'), tried(aonce, 'c')]
found += await asyncio.gather(read('d'), once('e'), aonce('f'), behind('g'), behind('h'), return_exceptions=True)
found = [str(one) if isinstance(one, Exception) else one for one in found]
found.append(tried(pay, 'p'))
found.append(len(big('q')))
found.append(tried(once, 'z'))
[chance, found, random.random()]
"""
NAMES: Final = {
    "a": "once",
    "b": "read",
    "c": "aonce",
    "d": "read",
    "e": "once",
    "f": "aonce",
    "g": "read",
    "h": "read",
}
NAMES |= {"gg": "once", "hh": "once", "p": "pay", "q": "big", "z": "once"}
REPEATABLE: Final = frozenset({"read", "big"})
POINTS: Final = (
    *("before the program", "before the rows", "after the rows", "in a call", "after a call", "before a result"),
    *("in a result", "after a result", "before the commit", "in the commit", "after the commit", "before the wait"),
    *("after the wait", "before the decision", "after the decision"),
)
ONCE: Final = frozenset({"before the program", "before the commit", "in the commit", "after the commit"}) | {
    *("before the wait", "after the wait", "before the decision", "after the decision")
}
"""Points that a process passes once or twice."""
Victim = Literal["host", "sandbox", "root", "database", "server"]
VICTIMS: Final[tuple[Victim, ...]] = (*["host"] * 6, *["sandbox"] * 4, "root", *["database"] * 3, *["server"] * 2)
HOLDER: Final = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN EXCLUSIVE")
print(flush=True)
time.sleep(0.4)
"""
"""Holds SQLite's lock for a while: in a process of its own, because the fork of one with threads may stop at a lock of theirs."""
MOST_RUNS: Final = 60
"""No program takes more."""
PATIENCE_SECONDS: Final = 90.0
"""No process waits longer while nothing of it wants to compute. On a machine with much else to do, to start a sandbox may take minutes."""
MOST_SECONDS: Final = 900.0
"""No process takes longer."""
STARTS: Final = 5
"""Attempts to start a sandbox on such a machine."""


class SharedSandbox(Sandbox):
    """A sandbox whose root also serves forks of this process: to start one for each would take most of the time."""

    def _after_fork(self) -> None:
        """Keep the root, which is no child of the fork; a session's number is one that no other fork has."""
        if self._root is not None:
            root = self._root.pid
            self._root._process.poll = lambda: None if process_table.alive({root}) else -1  # type: ignore[method-assign]
        self._numbers = itertools.count(os.getpid() % 30000 * 10 + 5)

    def started(self) -> None:
        """Start it; on a machine with much else to do that may fail."""
        for attempt in range(STARTS):
            try:
                self.start()
            except SandboxUnavailable:
                if attempt == STARTS - 1:
                    raise
            else:
                return

    @property
    def pid(self) -> int:
        """The root's process."""
        assert self._root is not None
        return self._root.pid


@dataclass
class Plan:
    """Whom to kill at which point, when it is reached for so many times."""

    victim: Victim
    point: str
    after: int


@dataclass
class Process:
    """One process that runs the program to its end, or to its own."""

    url: str
    folder: Path
    name: str
    server: Server | None
    sandbox: SharedSandbox
    plans: list[Plan]
    reached: Counter[str] = field(default_factory=Counter)

    def note(self, what: str, key: str) -> None:
        """Write down what has happened; a line is whole, whoever is killed."""
        line = f"{what} {key}\n".encode()
        file = os.open(self.folder / self.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line)
        os.close(file)

    def at(self, point: str) -> None:
        """Kill whom the plan says, if this is the point."""
        self.reached[point] += 1
        plan = next((each for each in self.plans if (each.point, each.after) == (point, self.reached[point])), None)
        if plan is None:
            return
        self.note("killed", f"{plan.victim}/{point.replace(' ', '_')}")
        if plan.victim == "host":
            os.kill(os.getpid(), signal.SIGKILL)
        elif plan.victim == "server" and self.server is not None and not self.url.startswith("sqlite"):
            self.server.stop("immediate")
            self.server.start()
        elif plan.victim in ("database", "server"):
            self.cut_off()
        else:
            root = self.sandbox.pid
            for pid in [root] if plan.victim == "root" else kit.below(root):
                kit.send(pid, signal.SIGKILL)

    def cut_off(self) -> None:
        """End all connections to the database; SQLite has none, so that there another process keeps its lock for a while."""
        if self.url.startswith("sqlite"):
            holder = subprocess.Popen(
                [sys.executable, "-S", "-c", HOLDER, make_url(self.url).database], stdout=subprocess.PIPE
            )
            assert holder.stdout is not None
            holder.stdout.readline()
            return
        engine = create_engine(self.url)
        with engine.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        engine.dispose()

    def run(self) -> None:
        """Run the program until it has its reply, and write that down."""
        self._wrap()
        with Engine(self.url, policy=Policy(ttl=None), interpreter=self.sandbox) as engine:
            session = engine.session(self.name, functions=self._functions(), context_window=10**9)
            for _ in range(20):
                reply = self._asked(session)
                if reply.step is not None:
                    self.note("reply", json.dumps([reply.is_error, reply.text]))
                    return
                time.sleep(0.2)
        self.note("no_reply", json.dumps([True, reply.text]))

    def _asked(self, session: Session) -> ToolReply:
        try:
            reply = session.call("code_interpreter", {"code": PROGRAM}, call_id="call")
            while reply.pending:
                self.at("before the decision")
                [one] = reply.pending
                reply = session.resume("call", {one.id: True})
            return reply
        except byref.StorageFailure as error:
            return ToolReply(str(error), True)
        except byref.ConfigurationError as error:  # the decision was made before a connection was lost
            assert "decided already" in str(error) or "no code waits" in str(error), error
            return ToolReply(str(error), True)

    def _functions(self) -> list[Function]:
        def did(name: str, key: str) -> str:
            self.at("in a call")
            assert NAMES[key] == name
            self.note("effect", key)
            self.at("after a call")
            return f"{name} {key}"

        def once(key: str) -> str:
            return did("once", key)

        def read(key: str) -> str:
            return did("read", key)

        async def aonce(key: str) -> str:
            return did("aonce", key)

        def pay(key: str) -> str:
            return did("pay", key)

        def big(key: str) -> list[dict[str, int]]:
            did("big", key)
            return [{"n": n} for n in range(2_000)]

        of = Function.of
        return [of(once), of(read, repeatable=True), of(aonce), of(pay, approval=True), of(big, repeatable=True)]

    def _wrap(self) -> None:
        """Have the engine pass the points."""
        from byref.calling import approvals, journal
        from byref.calling.running import Calls

        self._around(journal, "open_program", "before the program", None)
        self._around(Calls, "_write", "before the rows", "after the rows")
        self._around(Calls, "commit", "in the commit", None)
        self._around(Calls, "committed", "after the commit", None)
        self._around(Calls, "wait", "before the wait", "after the wait")
        self._around(approvals, "decide", None, "after the decision")
        self._around(journal, "end", "in a result", None)
        self._noting(Calls, "settle", "crashed")
        self._noting(journal, "open_program", "opened")
        from byref.tools import calls

        self._around(calls, "_commit", "before the commit", None)
        ends: Any = Calls._journal_ends

        def journal_ends(own: Calls, done: Any) -> None:
            keys = [one.call.arguments["key"] for one in done if one.made is not None]
            self.at("before a result")
            ends(own, done)
            for key in keys:
                self.note("journaled", key)
            self.at("after a result")

        Calls._journal_ends = journal_ends  # type: ignore[method-assign]

    def _noting(self, of: Any, name: str, what: str) -> None:
        """Have what failures are read by: where a run began, and where its sandbox was dead."""
        real: Callable[..., Any] = getattr(of, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.note(what, str(os.getpid()))
            return real(*arguments, **options)

        setattr(of, name, wrapped)

    def _around(self, of: Any, name: str, before: str | None, after: str | None) -> None:
        real: Callable[..., Any] = getattr(of, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            if before is not None:
                self.at(before)
            made = real(*arguments, **options)
            if after is not None:
                self.at(after)
            return made

        setattr(of, name, wrapped)


def calls_killed(folder: Path, seconds: float, seed: int) -> Report:
    """Programs that call functions, killed at every point of their way."""
    report = Report("calls_killed")
    chance = random.Random(seed)
    kills: Counter[str] = Counter()
    programs = 0
    until = time.monotonic() + seconds
    with _databases(folder, own=seconds > 10) as (urls, server), SharedSandbox() as sandbox:
        while (programs < 2 or time.monotonic() < until) and len(report.failures) < 20:
            kind = kit.KINDS[programs % 2]
            name = f"{kind} {programs}"
            programs += 1
            for _ in range(MOST_RUNS):
                plans = [_plan(chance, kind) for _ in range(chance.choice((0, 2, 3, 4)))]
                sandbox.started()
                if server is not None and kind == "postgresql":
                    server.up()
                if not _in_a_process(Process(urls[kind], folder, name, server, sandbox, plans)):
                    where = (folder / "log").read_text()[-3_000:]
                    report.failures.append(f"{name}: a process hung: {plans}\n{where}")
                lines = [line.split(" ", 1) for line in (folder / name).read_text().splitlines()]
                if lines[-1][0] in ("reply", "no_reply", "raised"):
                    break
            kills.update(what.partition("/")[0] for word, what in lines if word == "killed")
            kills.update(what.partition("/")[2] for word, what in lines if word == "killed")
            report.failures += [f"{name}: {wrong}" for wrong in wrong_with(lines)]
        for url in urls.values():
            kit.verify(url, report.failures)
    report.figures = {
        "programs": programs,
        "kills": sum(kills[who] for who in set(VICTIMS)),
        **dict(sorted(kills.items())),
    }
    return report


@contextmanager
def _databases(folder: Path, *, own: bool) -> Iterator[tuple[dict[str, str], Server | None]]:
    """One of each kind; the server is given if it is our own, so that it may be stopped."""
    if not own:
        with kit.databases(folder) as urls:
            yield urls, None
        return
    server = Server(folder)
    try:
        with kit.databases(folder, ["sqlite"]) as urls:
            yield urls | {"postgresql": kit.fresh(server.url)}, server
    finally:
        server.close()


def _plan(chance: random.Random, kind: str) -> Plan:
    point = chance.choice(POINTS)
    # Nobody else can take SQLite's lock while the program's process holds it.
    is_cut_off = kind == "sqlite" and point in ("in a result", "in the commit")
    victims = [one for one in VICTIMS if not (is_cut_off and one in ("database", "server"))]
    often = 1 if point in ONCE else chance.choice((1, 1, 2, 3, 5))
    return Plan(chance.choice(victims), point, often)


def wrong_with(lines: list[list[str]]) -> list[str]:
    """Return what is wrong with what a program's processes have written down."""
    effects = Counter(key for word, key in lines if word == "effect")
    wrong = [
        f"{key}: {NAMES[key]} was made {n} times"
        for key, n in effects.items()
        if n > 1 and NAMES[key] not in REPEATABLE
    ]
    journaled: set[str] = set()
    for word, key in lines:
        if word == "effect" and key in journaled:
            wrong.append(f"{key}: made again, though its result was in the journal")
        if word == "journaled":
            journaled.add(key)
    if lines[-1][0] != "reply":
        return [*wrong, f"it ended without a reply: {lines[-5:]}"]
    is_error, text = json.loads(lines[-1][1])
    if is_error:
        return [*wrong, f"{text} {lines}"]
    _, found, _ = json.loads(text.partition("\n")[0])
    got = dict(zip("abcdefghpqz", found, strict=True))
    for key in "gh":
        got[key], got[key * 2] = got[key]
    for key, value in got.items():
        name = NAMES[key]
        if value == (2_000 if key == "q" else f"{name} {key}"):
            if not effects[key]:
                wrong.append(f"{key}: {value}, which nobody has done")
        elif name in REPEATABLE or "under way" not in str(value) or key in journaled:
            wrong.append(f"{key}: {value} {lines}")
    return wrong


def _in_a_process(process: Process) -> bool:
    """Run it in a fork of this one; tell whether that has ended in time."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with open(process.folder / "log", "a") as log:
                os.dup2(log.fileno(), 2)
            faulthandler.register(signal.SIGUSR1)  # into the log
            process.run()
            code = 0
        except BaseException as error:
            process.note("raised", repr(error))
            raise
        finally:
            os._exit(code)
    began = asleep_since = looked = time.monotonic()
    while (now := time.monotonic()) - asleep_since < PATIENCE_SECONDS and now - began < MOST_SECONDS:
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            return True
        if now - looked > 1.0:
            root = process.sandbox.pid
            looked = now
            if any(process_table.computes(one) for one in [pid, *kit.below(pid), root, *kit.below(root)]):
                asleep_since = now
        time.sleep(0.005)
    kit.send(pid, signal.SIGUSR1)
    time.sleep(0.5)
    for below in [*kit.below(pid), pid]:
        kit.send(below, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False
