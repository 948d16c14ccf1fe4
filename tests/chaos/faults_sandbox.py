"""Every kind of process of the sandbox killed and stopped, at random and at each of its stages, while conversations go on.

What code had left before is there afterwards, what was answered is right, and what was not says so within its time.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import kit
import process_table
from report import Report

from byref import CharCounter, Engine, Policy
from byref_sandbox import Data, Limits, Sandbox, SandboxUnavailable
from byref_sandbox.host import exchange, process

SESSIONS = 5
RUN_SECONDS = 2.0
ANSWERED_SECONDS = 40.0
"""No call takes longer, whatever dies: its own run, and thrice at most a new root, on a machine that is busy."""
STARTED_SECONDS = 12.0
"""After which a root that was stopped while it started is given up."""
POLICY = Policy(mode="variables", ttl=None, run_seconds=RUN_SECONDS, headroom_percentage=1.0)
TOOLS = ("code_interpreter", "artifact_jq", "artifact_sql", "artifact_read")
EXCUSES = (
    "died during the run",
    "killed by the system",
    "did not answer in time",
    "cannot be run right now",
    "ended without a reply",
    "stopped after",
    "needed more than",
)
"""What a run that was killed or stopped may say."""
PATIENCE = {"START_SECONDS": 2.0, "END_SECONDS": 2.0}


class Conversation:
    """One session that counts, binds, queries and reads, and knows what has to come out."""

    def __init__(self, engine: Engine, number: int, seed: int) -> None:
        self._session = engine.session(f"session {number}", policy=POLICY, tools=TOOLS, context_window=10**9)
        self._chance = random.Random(seed * 1_000 + number)
        self._counted = 0
        self._sums: dict[str, tuple[str, int]] = {}
        """Of the variables that were acknowledged: artifact and sum."""
        self.slowest = 0.0
        self.unanswered: Counter[str] = Counter()

    def act(self) -> str | None:
        """Do one thing, in bounded time, and check what came of it."""
        began = time.monotonic()
        done = self._chance.choice((self.count, self.count, self.count, self.bind, self.add, self.jq, self.sql))()
        seconds = time.monotonic() - began
        self.slowest = max(self.slowest, seconds)
        assert seconds < ANSWERED_SECONDS, f"{done} took {seconds:.1f} s"
        return done

    def count(self) -> str:
        """Count one further from the number that the last run left."""
        before = "n" if self._counted else "0"
        text = self._call("code_interpreter", {"code": f"n = {before} + 1\nprint('counted', n)"})
        if text is None:
            return "unanswered"
        assert f"counted {self._counted + 1}" in text, (self._counted, text)
        self._counted += 1
        return "count"

    def bind(self) -> str:
        """Have an output bound, which needs no sandbox and so always succeeds."""
        if len(self._sums) > 20:
            return self.add()
        count = self._chance.randrange(500, 3_000)
        result = self._session.process([{"id": i, "word": f"word {i}"} for i in range(count)], tool="rows")
        assert result.route == "variables", result.reason
        self._sums[result.variables[0].name] = result.artifacts[0].id, count * (count - 1) // 2
        return "bind"

    def add(self) -> str:
        """Add up a variable in Python."""
        return self._checked("code_interpreter", lambda name, _: {"code": f"sum(row['id'] for row in {name})"})

    def jq(self) -> str:
        """Add up an artifact in jq."""
        return self._checked("artifact_jq", lambda _, id_: {"artifact_id": id_, "expression": "map(.id) | add"})

    def sql(self) -> str:
        """Add up a variable in SQL."""
        return self._checked(
            "artifact_sql", lambda name, _: {"query": f"SELECT CAST(sum(id) AS BIGINT) AS s FROM {name}"}
        )

    def look_back(self) -> None:
        """See that everything acknowledged is there."""
        for name, (_, total) in self._sums.items():
            assert sum(row["id"] for row in self._session.variable(name).value()) == total, f"{name} is not what it was"
        if self._counted:
            found = self._session.variable("n").value()
            assert found == self._counted, f"counted {self._counted} times, and n is {found!r}"

    def _checked(self, tool: str, arguments: Callable[[str, str], dict[str, str]]) -> str:
        if not self._sums:
            return self.bind()
        name, (id_, total) = self._chance.choice(list(self._sums.items()))
        text = self._call(tool, arguments(name, id_))
        assert text is None or str(total) in text.replace(",", ""), (tool, name, total, text)
        return "unanswered" if text is None else tool

    def _call(self, tool: str, arguments: dict[str, str]) -> str | None:
        reply = self._session.call(tool, arguments)
        text = reply.content
        assert isinstance(text, str), text
        if not reply.is_error:
            return text
        excuse = next((excuse for excuse in EXCUSES if excuse in text), None)
        assert excuse is not None, f"{tool} {arguments}: {text}"
        self.unanswered[excuse] += 1
        return None


def sandbox_killed(folder: Path, seconds: float, seed: int) -> Report:
    """SIGKILL to roots, sessions, runs and those that stand by, ten times a second."""
    return _disturbed("sandbox_killed", folder, seconds, seed, signal.SIGKILL, 0.1)


def sandbox_stopped(folder: Path, seconds: float, seed: int) -> Report:
    """SIGSTOP to the same: who is wedged is given up in time, and ended."""
    with patch.multiple(exchange, **PATIENCE), patch.object(process, "ANSWER_SECONDS", 2.0):
        return _disturbed("sandbox_stopped", folder, seconds, seed, signal.SIGSTOP, 1.0)


def sandbox_stages(folder: Path, seconds: float, seed: int) -> Report:
    """Killed and stopped while it starts, while it is given data, while a run goes on, and while it stands by."""
    report, rounds = Report("sandbox_stages"), 0
    chance = random.Random(seed)
    before = kit.descriptors()
    until = time.monotonic() + seconds
    with patch.multiple(exchange, **PATIENCE), patch.object(process, "ANSWER_SECONDS", 2.0):
        while not rounds or (time.monotonic() < until and not report.failures):
            rounds += 1
            for stages in ((_starting,), (_given, _running, _standing_by)):
                for number in (signal.SIGKILL, signal.SIGSTOP):
                    with Sandbox(Limits(wall_seconds=RUN_SECONDS)) as sandbox:
                        for stage in stages:
                            began = time.monotonic()
                            failure = stage(sandbox, number, chance)
                            if (took := time.monotonic() - began) > ANSWERED_SECONDS:
                                failure = f"took {took:.1f} s"
                            if failure:
                                report.failures.append(f"{stage.__name__.strip('_')} {number.name}: {failure}")
                        mine = kit.below(os.getpid())
                    if left := kit.gone(mine):
                        report.failures.append(
                            f"{number.name}: left behind {[process_table.name(pid) for pid in left]}"
                        )
    report.figures |= {"rounds": rounds, "descriptors more": kit.descriptors() - before}
    if kit.descriptors() > before:
        report.failures.append(f"{kit.descriptors() - before} descriptors are left open")
    return report


def _starting(sandbox: Sandbox, number: signal.Signals, chance: random.Random) -> str | None:
    """The root, at any moment of its start."""

    def disturb() -> None:
        while not (pids := kit.below(os.getpid())):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.7))
        kit.send(pids[0], number)

    with _meanwhile(disturb), patch.object(process, "START_SECONDS", 3.0):
        try:
            if sandbox.run("1 + 1").value != 2:  # it was too late
                return "1 + 1 is not 2"
        except SandboxUnavailable as error:
            if "did not start" not in str(error):
                return f"{error}"
    return _works(sandbox)


def _given(sandbox: Sandbox, number: signal.Signals, chance: random.Random) -> str | None:
    """The session that asks for data, in the middle of getting it: another gets it, or nobody, and it is said."""
    sandbox.run("1", session="s")
    session = next(pid for pid in kit.below(os.getpid()) if process_table.name(pid) == "byref:session")

    def load() -> Iterator[bytes]:
        yield b"["
        kit.send(session, number)
        time.sleep(chance.uniform(0, 0.05))
        yield b"1,2]"

    return _is_value_or_crash(sandbox, "sum(v)", 3, load)


def _running(sandbox: Sandbox, number: signal.Signals, chance: random.Random) -> str | None:
    """The run itself, after it began."""
    sandbox.run("1", session="s")

    def disturb() -> None:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            runs = [pid for pid in kit.below(os.getpid()) if process_table.name(pid) == "byref:run"]
            if runs:
                time.sleep(chance.uniform(0, 0.3))
                kit.send(runs[0], number)
                return

    with _meanwhile(disturb):
        error = sandbox.run("import time\ntime.sleep(60)", session="s").error
    if error is None or error.kind not in ("Crash", "TimeLimit"):
        return f"expected a crash or the end of its time: {error}"
    return _works(sandbox)


def _standing_by(sandbox: Sandbox, number: signal.Signals, chance: random.Random) -> str | None:
    """Those that stand by, of the root and of a session."""
    sandbox.run("1", session="s")
    sandbox.run("1")
    time.sleep(chance.uniform(0, 0.1))
    for pid in kit.below(os.getpid()):
        if process_table.name(pid) == "byref:standby":
            kit.send(pid, number)
    for session in ("s", None):
        outcome = sandbox.run("1 + 1", session=session)
        if outcome.error is None and outcome.value != 2:
            return f"1 + 1 is {outcome.value!r}"
        if outcome.error is not None and outcome.error.kind not in ("Crash", "TimeLimit"):
            return f"{outcome.error}"
    return _works(sandbox)


def _is_value_or_crash(sandbox: Sandbox, code: str, value: object, load: Callable[[], Iterator[bytes]]) -> str | None:
    outcome = sandbox.run(code, {"v": Data("v", load)}, session="s")
    if outcome.error is None and outcome.value != value:
        return f"{code} is {outcome.value!r}"
    if outcome.error is not None and outcome.error.kind != "Crash":
        return f"{outcome.error}"
    return _works(sandbox)


def _works(sandbox: Sandbox) -> str | None:
    """Whether it has recovered: the next runs are answered as if nothing had been."""
    values = [
        sandbox.run("len(v)", {"v": Data("fresh", lambda: b"[1,2]")}, session=session).value for session in ("s", None)
    ]
    return None if values == [2, 2] else f"afterwards: {values}"


@contextmanager
def _meanwhile(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(10)


def _part_of(pid: int) -> str:
    """What a process is; a root that still starts has no name of its own."""
    name = process_table.name(pid)
    return name.removeprefix("byref:") if name.startswith("byref:") else "root"


def _disturbed(name: str, folder: Path, seconds: float, seed: int, number: signal.Signals, pause: float) -> Report:
    report = Report(name)
    chance = random.Random(seed)
    hit: Counter[str] = Counter()
    with kit.databases(folder, ["sqlite"]) as urls, Sandbox(sessions=3) as sandbox:
        sandbox.start()
        with Engine(urls["sqlite"], interpreter=sandbox, counter=CharCounter()) as engine:
            conversations = [Conversation(engine, each, seed) for each in range(SESSIONS)]
            crew = kit.Crew(seconds)

            def disturb() -> None:
                time.sleep(pause * chance.uniform(0.2, 1.8))
                everyone = [(pid, _part_of(pid)) for pid in kit.below(os.getpid())]
                # A root takes a second to come back: one victim in twenty, or nothing else would happen.
                kinds = sorted({kind for _, kind in everyone if kind != "root"}) or ["nobody"]
                kind = "root" if chance.random() < 0.05 else chance.choice(kinds)
                victims = [pid for pid, its in everyone if its == kind]
                if victims and kit.send(chance.choice(victims), number):
                    hit[kind] += 1

            for conversation in conversations:
                crew.add(conversation.act)
            crew.add(disturb)
            with patch.object(process, "START_SECONDS", STARTED_SECONDS):
                crew.run()
            report.failures += crew.failures
            if not crew.failures:
                for conversation in conversations:
                    conversation.look_back()
        mine = kit.below(os.getpid())
        sandbox.close()
        if left := kit.gone(mine):
            report.failures.append(f"left behind: {[process_table.name(pid) for pid in left]}")
        kit.verify(urls["sqlite"], report.failures)
    unanswered = sum(sum(each.unanswered.values()) for each in conversations)
    report.figures |= {f"{number.name} {kind}": times for kind, times in sorted(hit.items())}
    report.figures |= {
        "acts": crew.done.total(),
        "unanswered": unanswered,
        "slowest act s": round(max(each.slowest for each in conversations), 2),
    }
    return report
