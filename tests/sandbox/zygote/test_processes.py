"""No process outlives the one that it works for, none makes a caller wait, and thousands of runs leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from process_table import alive, children, everyone, only, root_pid, until

from byref_sandbox import Data, Limits, Sandbox, SandboxClosed, tabletext, wire
from byref_sandbox.host import exchange
from byref_sandbox.tabletext import reading
from byref_sandbox.values.data import type_of_tables

RECORDS = b'[{"a":1},{"a":2}]'
ROWS = {"rows": Data("k", lambda: RECORDS)}


def marked(marker: str) -> set[int]:
    """Living processes whose command line holds the marker: a zygote's and its runs' name the folder of the package."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return alive(found)


_HOST = """
import sys, threading, time
from pathlib import Path
folder = Path(sys.argv[1]) / "byref_sandbox"
folder.symlink_to(Path(__import__("byref_sandbox").__file__).parent)
import byref_sandbox.host.launch as launch
launch.__file__ = str(folder / "host" / "launch.py")
launch.Path.resolve = Path.absolute  # the marker is to be seen in their command lines
from byref_sandbox import Limits, Sandbox
sandbox = Sandbox(Limits(wall_seconds=100))
for session in ("a", "idle"):
    sandbox.run("1", session=session)
for session in ("a", None):
    threading.Thread(target=sandbox.run, args=("import time\\ntime.sleep(90)",), kwargs={"session": session}, daemon=True).start()
print("ready", flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("victims", [("session", "host"), pytest.param(("root",), marks=pytest.mark.slow)])
def test_who_is_killed_leaves_no_orphan(tmp_path: Path, victims: tuple[str, ...]) -> None:
    """Idle processes and busy ones, found by a marker and not by their parents, whom they may have lost."""
    marker = str(tmp_path)
    with subprocess.Popen([sys.executable, "-c", _HOST, marker], stdout=subprocess.PIPE, text=True) as host:
        try:
            assert host.stdout.readline() == "ready\n"
            below = f"{marker}/byref_sandbox"
            # Root, sessions "a" and "idle", a run of the root and of "a", and a standby of each of the three.
            assert until(lambda: len(marked(below)) == 8), marked(below)
            (root,) = children(host.pid)
            session = only(lambda: {pid for pid in children(root) if children(pid)})
            pids = {"host": host.pid, "root": root, "session": session}
            for victim in victims:
                # Others that a living zygote makes meanwhile are no orphans.
                gone = {session, *everyone(session)} if victim == "session" else marked(below)
                os.kill(pids[victim], signal.SIGKILL)
                belong = lambda: everyone(host.pid) if victim == "session" else set()  # noqa: E731  used at once
                assert until(lambda: marked(below) <= belong() - gone), (marked(below), gone)
        finally:
            host.kill()
    assert until(lambda: not marked(marker))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["s", pytest.param(None, marks=pytest.mark.slow)])
def test_a_text_with_tables_has_the_time_that_reading_it_takes(
    own: Sandbox, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It becomes records of ten times its size, which takes longer than decoding JSON of as many bytes."""
    text = b"a,b\n" + b"1,2\n" * 4_000_000
    found = tabletext.recognise(text, "csv")
    assert isinstance(found, tabletext.Recognised)
    kind = type_of_tables(reading.to_text(reading.reading_of(found)))
    monkeypatch.setattr(exchange, "START_SECONDS", 0.5)
    outcome = own.run("len(rows)", {"rows": Data("k", lambda: text, kind)}, session=name, limits=Limits(wall_seconds=9))
    assert outcome.value == 4_000_000, outcome.error


@pytest.mark.parametrize("which", [pytest.param("root", marks=pytest.mark.slow), "session"])
@pytest.mark.parametrize("when", ["before", pytest.param("during", marks=pytest.mark.slow)])
def test_a_wedged_zygote_keeps_nobody_waiting(
    own: Sandbox, which: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "START_SECONDS", 0.5)
    monkeypatch.setattr(exchange, "END_SECONDS", 0.5)
    assert own.run("1", session="s").value == 1
    (session,) = children(root_pid(own))
    victim = root_pid(own) if which == "root" else session
    name = None if which == "root" else "s"
    limits = Limits(wall_seconds=1, cpu_seconds=5)
    began = time.monotonic()
    if when == "before":
        os.kill(victim, signal.SIGSTOP)
        assert own.run("1", session=name, limits=limits).value == 1
    else:
        with ThreadPoolExecutor() as pool:
            # Of itself the run is stopped after its second; nobody is there to see to it, or to tell.
            run = pool.submit(own.run, "import time\ntime.sleep(30)", session=name, limits=limits)
            assert until(lambda: bool(children(victim) - {session}))
            os.kill(victim, signal.SIGSTOP)
            outcome = run.result(20)
        assert outcome.error.kind in {"Crash", "TimeLimit"}
    assert time.monotonic() - began < 15
    assert own.run("1 + 1", session=name, limits=Limits(wall_seconds=20)).value == 2
    assert until(lambda: not alive({victim}))


@pytest.mark.slow
def test_a_stopped_run_is_ended_in_time(own: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "END_SECONDS", 15)  # the zygote has to end it, however slow the machine
    own.run("1", session="s")
    (session,) = children(root_pid(own))
    with ThreadPoolExecutor() as pool:
        began = time.monotonic()
        run = pool.submit(own.run, "import time\ntime.sleep(30)", session="s", limits=Limits(wall_seconds=1))
        stopped = only(lambda: children(session))
        os.kill(stopped, signal.SIGSTOP)
        outcome = run.result(20)
    assert outcome.error.kind == "TimeLimit"
    assert time.monotonic() - began < 15
    assert until(lambda: not alive({stopped}))
    assert children(root_pid(own)) == {session}


def test_a_zygote_that_comes_late_still_lets_a_run_say_where_it_was(own: Sandbox) -> None:
    own.run("1", session="s")
    (session,) = children(root_pid(own))
    with ThreadPoolExecutor() as pool:
        run = pool.submit(own.run, "x = 1\nsum(range(10**12))", session="s", limits=Limits(wall_seconds=0.2))
        assert until(lambda: any(Path(f"/proc/{pid}/stat").read_text().split()[2] == "R" for pid in children(session)))
        os.kill(session, signal.SIGSTOP)
        time.sleep(0.2 + wire.KILL_GRACE_SECONDS + 0.3)
        os.kill(session, signal.SIGCONT)
        outcome = run.result(20)
    assert (outcome.error.kind, outcome.error.line) == ("TimeLimit", 2)


@pytest.mark.slow
def test_sessions_go_least_recently_used_first_when_memory_runs_short(
    own: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = b'["' + b"x" * 20_000_000 + b'"]'
    monkeypatch.setattr(own, "_memory_bytes", 70_000_000)
    for name in ("a", "b", "a", "c", "d"):
        loaded = {"v": Data(f"big {name}", lambda: big)}
        assert own.run("len(v)", loaded, session=name).value == 1
    kept = list(own._warm)
    assert kept[-1] == "d"
    assert "b" not in kept
    assert len(kept) < 4
    assert sum(warm.held_bytes for warm in own._warm.values()) <= 70_000_000
    assert until(lambda: len(children(root_pid(own))) == len(kept))
    assert own.run("len(v)", {"v": Data("big b", lambda: big)}, session="b").value == 1


def test_a_busy_session_is_not_let_go(own: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "_max_sessions", 1)
    with ThreadPoolExecutor() as pool:
        own.run("1", session="busy")
        slow = pool.submit(own.run, "import time\ntime.sleep(1)\n'done'", session="busy")
        time.sleep(0.2)
        assert own.run("2", session="other").value == 2
        assert slow.result(20).value == "done"
        assert until(lambda: len(children(root_pid(own))) == 1)


@pytest.mark.slow
def test_one_session_runs_many_at_once(own: Sandbox) -> None:
    own.run("len(rows)", ROWS, session="s")
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(own.run, f"len(rows) * {number}", ROWS, session="s") for number in range(40)]
        assert [run.result(30).value for run in runs] == [2 * number for number in range(40)]


def test_from_an_event_loop(own: Sandbox) -> None:
    async def main() -> list[object]:
        runs = [asyncio.to_thread(own.run, f"{number} + 1", session=f"s{number % 3}") for number in range(12)]
        return [outcome.value for outcome in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == list(range(1, 13))


@pytest.mark.slow
def test_a_cancelled_caller_leaves_no_run_behind(own: Sandbox) -> None:
    """A thread cannot be cancelled; its run ends with its limits all the same."""

    async def main() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                sleeper = "import time\ntime.sleep(30)"
                await asyncio.to_thread(own.run, sleeper, limits=Limits(wall_seconds=0.5))

    asyncio.run(main())
    assert until(lambda: not children(root_pid(own)))


def test_closing_ends_runs_with_an_error_and_all_processes() -> None:
    sandbox = Sandbox(Limits(wall_seconds=30)).start()
    root = root_pid(sandbox)
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(sandbox.run, "import time\ntime.sleep(20)", session=name) for name in ("a", None)]
        assert until(lambda: len(children(root)) == 2)
        below = {root} | everyone(root)
        began = time.monotonic()
        sandbox.close()
        for run in runs:
            with pytest.raises(SandboxClosed, match="during the run"):
                run.result(10)
    with pytest.raises(SandboxClosed):
        sandbox.run("1")
    assert time.monotonic() - began < 5
    assert until(lambda: not alive(below))


@pytest.mark.slow
def test_crash_after_crash_is_recovered_from(own: Sandbox) -> None:
    for _ in range(3):
        root = root_pid(own)
        below = {root} | everyone(root)
        os.kill(root, signal.SIGKILL)
        assert until(lambda below=below: not alive(below))  # type: ignore[misc]
        assert own.run("len(rows)", ROWS, session="s").value == 2
    assert len(children(root_pid(own))) == 1


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


RUNS = 5000


@pytest.mark.slow
def test_thousands_of_runs_neither_slow_down_nor_leak(own: Sandbox) -> None:
    root = root_pid(own)

    def measure() -> tuple[list[int], list[int]]:
        own.run("1", session="s")
        assert until(lambda: len(children(root)) == 1 and not children(next(iter(children(root)))))
        pids = [os.getpid(), root, *children(root)]
        return [descriptors(pid) for pid in pids], [resident(pid) for pid in pids]

    for _ in range(100):
        own.run("len(rows)", ROWS, session="s")
        own.run("len(rows)", ROWS)
    before, held = measure()
    seconds: list[float] = []
    for number in range(RUNS):
        began = time.perf_counter()
        outcome = own.run("x = len(rows)\nx", ROWS, session="s" if number % 5 else None)
        seconds.append(time.perf_counter() - began)
        assert outcome.value == 2, outcome.error
    after, holding = measure()
    assert after == before
    assert all(late - early < 8 << 20 for early, late in zip(held, holding, strict=True)), (held, holding)
    first, last = statistics.median(seconds[:500]), statistics.median(seconds[-500:])
    print(
        f"\np50 of the first 500: {first * 1000:.2f} ms, of the last 500: {last * 1000:.2f} ms; resident {held} {holding}"
    )
    # A machine that does something else meanwhile may double it; what grows with each run would do far more.
    assert last < 2 * first
    assert threading.active_count() < 20
