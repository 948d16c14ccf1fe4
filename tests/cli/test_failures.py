"""How the command ends: in one line, with an exit code, with a traceback only if that is asked for."""

from __future__ import annotations

import functools
import re
import signal
import subprocess
from pathlib import Path

import pytest
from cli_kit import Run, command

import byref


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nope"],
        ["process"],
        ["run"],
        ["db"],
        ["process", "f", "--context-window", "0"],
        ["--jail", "none", "doctor"],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(run: Run, words: list[str]) -> None:
    ran = run(*words)
    assert ran.code == 2
    assert "usage: byref" in ran.err


def test_a_traceback_only_when_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in run("sessions").err
    monkeypatch.setenv("BYREF_DEBUG", "1")
    assert "Traceback" in run("sessions").err


def test_help_names_every_verb_and_the_exit_codes(run: Run) -> None:
    shown = run("--help")
    assert shown.code == 0
    for verb in ("process", "run", "tool", "sessions", "show", "ledger", "explain", "db", "doctor", "sweep"):
        assert re.search(rf"^    {verb} ", shown.out, re.MULTILINE)
        assert "exit codes:" in run(verb, "--help").out
    assert run("--version").out.startswith("byref 0.")


def test_a_hosts_logging_is_left_as_it_was(run: Run, caplog: pytest.LogCaptureFixture, users: Path) -> None:
    assert "byref: the context window of 'who' is unknown" in run("process", str(users), "--model", "who").err
    with byref.Engine("sqlite:///:memory:") as engine:
        engine.session("s", model="who")
    assert any("is unknown" in message for message in caplog.messages)


@pytest.mark.slow
def test_an_interrupt_is_quiet(tmp_path: Path) -> None:
    # Whoever runs the tests may ignore interrupts, as a shell does for what it runs in the background.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = command("process", "-", cwd=tmp_path, stdin=subprocess.PIPE, preexec_fn=heed)
    assert process.stdin
    process.stdin.write(bytes(1 << 20))  # more than a pipe holds: once it is written, the command is reading
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == 130
