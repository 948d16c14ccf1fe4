"""The command at a real terminal: no text of strangers, in any verb or form, controls the terminal or hides anything."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import sys
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import byref
from byref.cli import doctor, main
from byref_sandbox import Sandbox

EVIL = "\x1b[2J\x9b31m\u202eevil\u2066\x7f\u200b\U000e0041\u2028\x85\ufeff"
"""What a terminal obeys, and what it does not show."""
STEERS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
OURS = re.compile(r"\x1b\[[0-9;]*[mKAG]|\x1b\[\?25[hl]|\r")
"""Colours, the spinner and its cursor."""


class Terminal:
    """A pseudo-terminal, and what was shown on it."""

    def __init__(self, columns: int = 200) -> None:
        self._main, slave = pty.openpty()
        tty.setraw(slave)
        self.file = io.TextIOWrapper(io.FileIO(slave, "w"), encoding="utf-8", write_through=True)
        self._shown = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # EIO: the other end is closed
            while chunk := os.read(self._main, 65_536):
                self._shown += chunk

    def close(self) -> str:
        self.file.close()
        self._reader.join(10)
        os.close(self._main)
        return self._shown.decode()


@contextmanager
def terminal(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let standard output and standard error be a terminal; at the end the list has what was shown."""
    shown: list[str] = []
    screen = Terminal()
    with patch.context() as patched:
        patched.setattr(sys, "stdout", screen.file)
        patched.setattr(sys, "stderr", screen.file)
        patched.setenv("COLUMNS", "200")
        try:
            yield shown
        finally:
            shown.append(screen.close())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session in which all that strangers name is evil."""
    folder = tmp_path_factory.mktemp("evil")
    with byref.Engine(f"sqlite:///{folder / 'byref.db'}") as engine:
        session = engine.session("cli", model=f"model{EVIL}", context_window=200_000)
        rows = [{f"key{EVIL}": f"value {EVIL}", "n": number} for number in range(2_000)]
        session.process({f"list{EVIL}": rows}, tool=f"tool{EVIL}", call_id=f"call{EVIL}")
        session.process(f"text {EVIL}\n", tool="text", call_id="call_2", is_error=True)
        session.store_artifact(f"kept {EVIL}\n" * 3, name=f"name {EVIL}")
        session.call("artifact_read", {"artifact": f"none{EVIL}"}, call_id=f"read{EVIL}")
        session.record_usage({"input_tokens": 10, "output_tokens": 1, "model": f"model{EVIL}"})
    (folder / f"file{EVIL}.txt").write_text(f"in a file {EVIL}\n" * 3)
    (folder / os.fsdecode(b"odd\xff\x9b.txt")).write_text(EVIL)
    (folder / "sub[").mkdir()
    (folder / "sub[/x].txt").write_text("[/nothing] [link=file:///x]here[/link]")
    (folder / "evil.json").write_text(json.dumps({"mcpServers": {f"s{EVIL}": {"command": 3}}}))
    return folder


VERBS = [
    ["sessions"],
    ["sessions", "--all-tenants"],
    ["tenants"],
    ["show"],
    ["show", "1"],
    ["show", "2"],
    ["show", f"name {EVIL}"],
    ["show", f"nothing {EVIL}"],
    ["show", "--session", f"none{EVIL}"],
    ["sessions", "--tenant", f"none{EVIL}"],
    ["ledger"],
    ["explain", "1"],
    ["explain", f"call{EVIL}"],
    ["explain", f"none{EVIL}"],
    ["history"],
    ["sweep"],
    ["db", "verify"],
    ["db", "current"],
    ["db", "current", "--db", f"sqlite:////tmp/no{EVIL}/x.db"],
    ["db", "upgrade", f"rev{EVIL}"],
    ["db", "history"],
    ["doctor", "--db", f"none{EVIL}.db", "--blobs", f"none{EVIL}"],
    ["delete", "--session", f"none{EVIL}"],
    ["delete", "--tenant", f"none{EVIL}", "--yes"],
    ["process", f"file{EVIL}.txt", "--session", "other"],
    ["process", f"missing{EVIL}.txt"],
    ["process", os.fsdecode(b"odd\xff\x9b.txt"), "--session", "other"],
    ["process", "sub[/x].txt", "--session", "other", "--tool", EVIL],
    ["tool", f"none{EVIL}", "{}"],
    ["tool", "artifact_read", json.dumps({"artifact": EVIL}), "--session", "other"],
    ["gateway", "--config", "evil.json"],
    ["gateway", "--config", f"none{EVIL}"],
    ["mcp", "--http", f"127.0.0.1:{EVIL}"],
    ["mcp", "--http", "127.0.0.1:0", "--tokens", f"none{EVIL}"],
    [f"verb{EVIL}"],
    ["sessions", f"--more{EVIL}"],
    ["sessions", "--context-window", f"1{EVIL}"],
]


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True])
def test_nothing_steers_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool, sandbox: Sandbox, shared_sandbox: None
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("BYREF_DB", raising=False)
    monkeypatch.delenv("BYREF_DEBUG", raising=False)
    monkeypatch.setattr(doctor, "Sandbox", lambda **_: sandbox)
    for words in VERBS:
        with terminal(monkeypatch) as shown:
            try:
                code = main([*words, *(["--json"] if as_json else [])])
            except SystemExit as ended:
                code = int(ended.code or 0)
        text = OURS.sub("", shown[0])
        assert not (found := STEERS.search(text) or re.search("\x1b", text)), (words, found, text)
        assert "\\" in text or not any(EVIL in word for word in words) or code == 0, (words, text)
        assert "Traceback" not in text and "BYREF_DEBUG" not in text, (words, text)
        if as_json and code == 0 and text.lstrip().startswith(("{", "[")):
            json.JSONDecoder().raw_decode(text.lstrip())


def test_json_on_a_terminal_means_what_it_means_in_a_pipe(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["history", "--json"]) == 0
    piped = capsys.readouterr().out
    with terminal(monkeypatch) as shown:
        assert main(["history", "--json"]) == 0
    text = OURS.sub("", shown[0])
    assert json.JSONDecoder().raw_decode(text[text.index("[\n") :])[0] == json.loads(piped)
    assert "\\u009b31m\\u202eevil" in text and "\x9b31m" in piped


def test_a_traceback_at_a_terminal_is_plain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BYREF_DEBUG", "1")
    with terminal(monkeypatch) as shown:
        assert main(["show", f"nothing {EVIL}"]) == 1
    assert "Traceback" in shown[0] and not STEERS.search(OURS.sub("", shown[0]))
