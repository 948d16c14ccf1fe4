"""If a sandbox does not start, or the system gives it no resources, the error says so."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from byref_sandbox import Sandbox, SandboxUnavailable
from byref_sandbox.host import launch, pool, process


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (signal.SIGKILL, "did not start: it ended while starting"),
        (signal.SIGSTOP, "did not start: no answer within 0.2 s"),
    ],
)
def test_a_root_that_does_not_come_up_is_no_error_of_ours(
    number: signal.Signals, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "START_SECONDS", 0.2)
    root = process.RootProcess(frozenset())
    os.kill(root.pid, number)
    with pytest.raises(SandboxUnavailable, match=fault):
        root.greet()
    assert not root.alive


def test_a_root_that_does_not_come_up_is_waited_for_once_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by one after the other: each would start another, and wait for that."""
    monkeypatch.setattr(launch, "command", lambda *_, **__: [sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(process, "START_SECONDS", 0.5)
    monkeypatch.setattr(pool, "ANSWER_SECONDS", 0.2)

    def refused() -> float:
        began = time.monotonic()
        with pytest.raises(SandboxUnavailable, match="did not start: no answer within"):
            sandbox.run("1")
        return time.monotonic() - began

    with Sandbox(runs=2) as sandbox, ThreadPoolExecutor(12) as threads:
        assert max(threads.map(lambda _: refused(), range(12))) < 2.5
        assert refused() > 0.4  # who comes later tries anew


def test_a_sandbox_can_be_closed_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "command", lambda *_, **__: [sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    with Sandbox() as sandbox, ThreadPoolExecutor(3) as threads:
        runs = [threads.submit(sandbox.run, "1") for _ in range(3)]
        while sandbox._starting is None and not runs[0].done():
            time.sleep(0.01)
        began, starting = time.monotonic(), sandbox._starting
        sandbox.close()
        for run in runs:
            with pytest.raises(RuntimeError, match="the sandbox is closed"):
                run.result(20)
        assert time.monotonic() - began < 10
        assert not starting.alive


WITHOUT_DESCRIPTORS = """
import os, resource
from byref_sandbox import Limits, SandboxUnavailable, wire
from byref_sandbox.host.exchange import Vitals, exchange
from byref_sandbox.host.request import code_request
go()
request, loads = code_request("code", "1", {}, Limits())
ours, theirs = wire.packet_sockets()
theirs.close()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
with ours:
    before = os.listdir("/proc/self/fd")
    lowest_free = os.dup(0)
    os.close(lowest_free)
    for more in range(6):  # two sockets, a pipe and a memfd: one further of them each time
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + more, hard))
        try:
            exchange(ours, request, loads, Vitals())
        except (SandboxUnavailable, wire.Broken) as error:
            print(type(error).__name__, error)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.listdir("/proc/self/fd") == before
"""


@pytest.mark.slow
def test_a_host_without_descriptors_is_told_and_keeps_those_it_has(race: Callable[..., list[str]]) -> None:
    """In a process of its own: other tests leave no row of free descriptors, and threads that would open some."""
    faults = race(1, WITHOUT_DESCRIPTORS)[0].splitlines()
    assert [fault.partition(" ")[0] for fault in faults] == ["SandboxUnavailable"] * 5 + ["Broken"]
    assert "Too many open files" in faults[0]


REFUSED = """
import os, resource
from byref_sandbox import SandboxUnavailable; from byref_sandbox.host import process
go()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
lowest_free = os.dup(0)
os.close(lowest_free)
before = os.listdir("/proc/self/fd")
for more in range(4):  # two sockets, a memfd, and what starting a process takes
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + more, hard))
    try:
        process.RootProcess(frozenset())
    except SandboxUnavailable as error:
        print(error)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
assert os.listdir("/proc/self/fd") == before
"""


def test_a_root_that_the_system_refuses_leaves_nothing(race: Callable[..., list[str]]) -> None:
    refusals = race(1, REFUSED)[0].splitlines()
    assert ["the system refuses" in refusal for refusal in refusals] == [True] * 4
