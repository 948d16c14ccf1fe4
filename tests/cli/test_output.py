"""The command's output on a terminal of few columns and in a pipe."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cli_kit import Run, command
from rich.console import Console

import byref
from byref.cli import main, output


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Let what is printed go to a terminal of so many columns."""

    def wide(columns: int) -> None:
        monkeypatch.setattr(output, "is_terminal", lambda: True)
        monkeypatch.setattr(output, "_console", lambda: Console(width=columns, highlight=False))

    yield wide


CALL = "toolu_01A09q90qw90lq917835lq9"


def test_a_ledger_of_eighty_columns_breaks_no_word(
    run: Run, users: Path, screen: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("process", str(users), "--tool", "list_customers", "--call-id", CALL)
    run("run", "len(users_2)", "--call-id", CALL.replace("1", "2"))
    with byref.Engine("sqlite:///byref.db") as engine:
        session = engine.session("cli")
        session.record_usage({"input_tokens": 123_456, "output_tokens": 1_020, "model": "claude-sonnet-5"})
        entries = session.ledger()
    words = {
        f"{CALL}:",
        CALL.replace("1", "2"),
        "list_customers",
        "variables,",
        "max_result_tokens",
        "code_interpreter",
    }
    words |= {"claude-sonnet-5:", "123,456", "1,020", f"{entries[0].original_tokens:,}", f"{entries[0].tokens_saved:,}"}
    screen(80)
    shown = run("ledger").out
    assert max(map(len, shown.splitlines())) <= 80
    assert words - set(shown.split()) == set()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.setattr(output.sys.stderr, "isatty", lambda: True)
        noted = run("ledger").err
    assert max(map(len, noted.splitlines())) <= 80 and len(noted) > 100
    screen(200)
    assert "reason" in run("ledger").out


@pytest.mark.parametrize("verb", [("sessions", "--all-tenants"), ("tenants",), ("sessions", "--tenant", "acme")])
def test_lists_of_eighty_columns_break_no_word(shop: Run, screen: Callable[[int], None], verb: tuple[str, ...]) -> None:
    ids = {"acme"} if verb == ("tenants",) else {"chat-2"}
    screen(80)
    shown, noted = shop(*verb)[1:]
    assert max(map(len, shown.splitlines())) <= 80
    assert ids <= set(shown.split())
    assert "sessions" not in verb or "there is no room for: model" in noted or "gpt-5" in shown


def test_a_table_breaks_between_words_before_it_breaks_words(screen: Callable[[int], None], capsys: Any) -> None:
    screen(40)
    output.table(("name", "holds"), [("x" * 20, "some words that are too many for it")])
    shown = capsys.readouterr().out
    assert "x" * 20 in shown and "too many" in shown
    output.table(("name", "holds"), [("x" * 60, "some words")])
    assert capsys.readouterr().out.count("x") == 60


def test_one_spinner_turns_at_a_time(run: Run, users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turning: list[str] = []
    seen: list[str] = []

    @contextlib.contextmanager
    def working(what: str) -> Iterator[None]:
        assert not turning, f"{what} while {turning}"
        turning.append(what)
        seen.append(what)
        yield
        turning.pop()

    monkeypatch.setattr(output, "working", working)
    run("process", str(users))
    run("run", "1")
    assert seen == ["opening the database", f"processing {users}", "opening the database", "running code_interpreter"]


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    text = tmp_path / "long.txt"
    text.write_text("line\n" * 100_000)
    read, write = os.pipe()
    process = command("process", str(text), "--context-window", "10000000", cwd=tmp_path, stdout=write)
    os.close(write)
    os.close(read)
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == 141


@pytest.mark.slow
def test_all_of_a_big_thing_is_written_without_a_buffer_or_its_loss_is_said(
    run: Run, users: Path, tmp_path: Path
) -> None:
    run("process", str(users))
    whole = users.read_bytes()
    assert len(whole) > 1 << 16  # more than a pipe takes at once

    def show(stdout: int, **settings: Any) -> Any:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        return command("show", "users", cwd=tmp_path, stdout=stdout, env=environment, **settings)

    def ended(process: Any) -> tuple[int, bytes]:
        said = process.communicate(timeout=60)[1]
        return process.returncode, said

    for blocks in (True, False):
        read, write = os.pipe()
        os.set_blocking(write, blocks)
        process = show(write)
        os.close(write)
        with open(read, "rb") as pipe:
            assert pipe.read() == whole
        assert ended(process) == (0, b"")

    read, write = os.pipe()
    process = show(write)
    os.close(write)
    with open(read, "rb", buffering=0) as pipe:
        assert pipe.read(10) == whole[:10]
    assert ended(process) == (141, b"")

    limit = len(whole) - 1
    with (tmp_path / "part").open("wb") as file:
        process = show(file.fileno(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert ended(process) == (1, b"byref: standard output cannot be written to: File too large\n")


def test_a_terminal_is_not_steered_by_data(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.txt").write_bytes(b"before \x1b]0;title\x07\x1b[2J after\n")
    main_end, other_end = pty.openpty()
    with open(other_end, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        assert main(("process", "evil.txt")) == 0
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while chunk := os.read(main_end, 4096):
            shown += chunk
    os.close(main_end)
    assert b"\x1b" not in shown
    assert b"before \\x1b]0;title\\x07\\x1b[2J after" in shown


def test_lone_surrogates_and_narrow_encodings_are_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.json").write_bytes(b'["\\ud800", "\xc3\xa9"]')
    assert run("process", "odd.json").out == '["\\ud800", "é"]\n'
    printed = io.BytesIO()
    with io.TextIOWrapper(printed, encoding="ascii") as narrow, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", narrow)
        assert main(("process", "odd.json")) == 0
        assert printed.getvalue() == b'["\\ud800", "?"]\n'


@pytest.mark.parametrize("kind", ["csv", "parquet", "json"])
def test_records_are_a_table_on_a_terminal_and_themselves_in_a_pipe(
    run: Run, tmp_path: Path, screen: Callable[[int], None], kind: str
) -> None:
    frame = pd.DataFrame({"id": range(2_000), "city": ["Oslo", "Rome"] * 1_000})
    path = tmp_path / f"orders.{kind}"
    path.write_text(frame.to_csv(index=False) if kind == "csv" else frame.to_json(orient="records"))
    if kind == "parquet":
        frame.to_parquet(path)
    assert "2000" in run("process", str(path)).out
    piped = run("show", "orders").out
    if kind == "csv":
        assert piped == path.read_text()
    else:
        assert json.loads(piped) == frame.to_dict("records")
    screen(80)
    shown = run("show", "orders")
    assert [line.split() for line in shown.out.splitlines()[:3:2]] == [["id", "city"], ["0", "Oslo"]]
    assert "of 2,000 records" in shown.err
