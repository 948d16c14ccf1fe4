"""A sandbox that does not come up, and a system that gives it nothing, are told as what they are."""

from __future__ import annotations

import os
import resource
import signal

import pytest

from byref_sandbox import Limits, SandboxUnavailable, process, wire
from byref_sandbox.exchange import Vitals, exchange
from byref_sandbox.request import code_request


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


def test_a_host_without_descriptors_is_told_and_keeps_those_it_has() -> None:
    request, loads = code_request("code", "1", {}, Limits())
    ours, theirs = wire.packet_sockets()
    theirs.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    faults = []
    with ours:
        before = os.listdir("/proc/self/fd")
        lowest_free = os.dup(0)
        os.close(lowest_free)
        for more in range(6):  # two sockets, a pipe and a memfd: one further of them each time
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + more, hard))
            try:
                exchange(ours, request, loads, Vitals())
            except (SandboxUnavailable, wire.Broken) as error:
                faults.append(error)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert os.listdir("/proc/self/fd") == before
    assert [type(fault) for fault in faults] == [SandboxUnavailable] * 5 + [wire.Broken]
    assert "Too many open files" in str(faults[0])


def test_a_root_that_the_system_refuses_leaves_nothing() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    before = os.listdir("/proc/self/fd")
    for more in range(4):  # two sockets, a memfd, and what starting a process takes
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + more, hard))
        try:
            with pytest.raises(SandboxUnavailable, match="the system refuses"):
                process.RootProcess(frozenset())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.listdir("/proc/self/fd") == before
