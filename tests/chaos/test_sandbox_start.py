"""A sandbox process that ends, or says nothing, while it starts is told as what it is."""

from __future__ import annotations

import os
import signal

import pytest

from byref_sandbox import SandboxUnavailable, process


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
