"""The command line: what each verb prints, where it prints it, and its exit code."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console
from sqlalchemy import Connection, text, update

import byref
from byref import db
from byref.accounting import ledger
from byref.cli import doctor, main, opening, output
from byref.db.tables import ArtifactRow
from byref_sandbox import Sandbox
from byref_sandbox.code import sqltext

RECORDS = [{"id": number, "name": f"user {number}", "score": number % 7} for number in range(3000)]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shared_sandbox: None
) -> Run:
    """Run the command in a folder of its own; `stdin` is what it reads."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BYREF_DB", raising=False)
    monkeypatch.delenv("BYREF_DEBUG", raising=False)
    monkeypatch.delenv("BYREF_DURABILITY", raising=False)

    def run(*words: str, stdin: bytes = b"") -> Ran:
        source = tmp_path / "stdin"
        source.write_bytes(stdin)
        capsys.readouterr()
        with source.open() as opened:
            monkeypatch.setattr(sys, "stdin", opened)
            try:
                code = main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.json"
    path.write_text(json.dumps({"total": 3000, "next_cursor": "abc", "users": RECORDS}))
    return path


def command(*words: str, cwd: Path, **settings: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "byref.cli", *words],
        cwd=cwd,
        stdin=settings.pop("stdin", subprocess.DEVNULL),
        stdout=settings.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        **settings,
    )


# process


def test_process_prints_what_the_model_reads_and_nothing_else(run: Run, users: Path) -> None:
    ran = run("process", str(users))
    assert (ran.code, ran.err) == (0, "")
    envelope = json.loads(ran.out)
    assert list(envelope["variables"]) == ["users", "users_2"]
    assert envelope["preview"]["total"] == 3000


def test_process_reads_standard_input_byte_for_byte(run: Run) -> None:
    assert run("process", "-", stdin="größer\n".encode()).out == "größer\n"
    assert run("sessions").out.splitlines()[1].startswith("cli\t")


def test_process_json_is_the_whole_result(run: Run, users: Path) -> None:
    ran = run(
        "process", "--json", "--tool", "list_users", "--call-id", "c1", "--model", "claude-sonnet-4-5", str(users)
    )
    result = ran.json
    assert (result["route"], result["reason"], result["step"]) == ("variables", "max_result_tokens", 1)
    assert result["tokens_saved"] == result["original_tokens"] - result["tokens"] > 0
    assert [variable["name"] for variable in result["variables"]] == ["list_users", "users"]
    assert result["artifacts"][0]["size_bytes"] == users.stat().st_size
    assert json.loads(result["content"]) == result["envelope"]
    again = run("process", "--json", "--tool", "list_users", "--call-id", "c1", str(users)).json
    assert again["step"] == 1
    assert again["content"] == result["content"]


def test_an_error_output_is_marked(run: Run) -> None:
    ran = run("process", "-", "--error", "--json", stdin=b"no such table\n")
    assert ran.json["is_error"] is True
    assert ran.json["reason"] == "error"


@pytest.mark.parametrize("place", ["before", "after"])
def test_global_options_stand_before_and_after_the_verb(run: Run, users: Path, place: str) -> None:
    options = (
        "--db",
        "other.db",
        "--session",
        "s",
        "--tenant",
        "t",
        "--tool",
        "x",
        "--context-window",
        "8_000",
        "--json",
    )
    words = (*options, "process", str(users)) if place == "before" else ("process", str(users), *options)
    ran = run(*words)
    assert ran.json["variables"][0]["name"] == "x"
    assert [s["id"] for s in run("sessions", "--db", "other.db", "--tenant", "t", "--json").json] == ["s"]
    ledger = run("--db", "other.db", "ledger", "--session", "s", "--tenant", "t", "--json").json
    assert ledger["context_window"] == 8000


def test_the_database_of_the_environment_and_urls(
    run: Run, users: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BYREF_DB", f"sqlite:///{tmp_path / 'env.db'}")
    assert run("process", str(users)).code == 0
    assert (tmp_path / "env.db").exists()
    assert not (tmp_path / "byref.db").exists()


def test_durability_is_an_option_and_of_the_environment(run: Run, users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    class Seen(opening.Engine):
        def close(self) -> None:
            found.append(self.database.write(lambda c: c.exec_driver_sql("PRAGMA synchronous").scalar_one()))
            super().close()

    monkeypatch.setattr(opening, "Engine", Seen)
    run("process", str(users))
    run("process", str(users), "--durability", "full")
    monkeypatch.setenv("BYREF_DURABILITY", "full")
    run("process", str(users))
    run("--durability", "normal", "process", str(users))
    assert found == [1, 2, 2, 1]
    assert run("process", str(users), "--durability", "fullest").code == 2
    monkeypatch.setenv("BYREF_DURABILITY", "fullest")
    refused = run("process", str(users))
    assert refused.code == 1 and 'durability=\'fullest\': expected "normal" or "full"' in refused.err


def test_postgresql(run: Run, users: Path, empty_postgres_url: str) -> None:
    refused = run("--db", empty_postgres_url, "process", str(users))
    assert refused.code == 1
    named = re.search(r"run `byref (db upgrade --db .*?)`", refused.err)
    assert named, refused.err
    assert run(*shlex.split(named[1])).out == f"{db.head()} (head)\n"
    where = ("--db", empty_postgres_url, "--schema", "tenants")
    cure = re.search(r"run `byref (db upgrade --db .*? --schema tenants)`", run(*where, "process", str(users)).err)
    assert cure
    assert run(*shlex.split(cure[1])).out == f"{db.head()} (head)\n"
    assert run(*where, "process", str(users)).code == 0
    missing = run(*where, "ledger", "--session", "none")
    listing = re.search(r"`byref (sessions --all-tenants --db .*? --schema tenants)`", missing.err)
    assert listing, missing.err
    assert run(*shlex.split(listing[1])).out.splitlines()[1].startswith("default\tcli\t")
    assert run(*where, "run", "len(users_2)").out == "3000\n"


@pytest.mark.parametrize(
    ("name", "make", "complaint"),
    [
        ("missing.json", lambda path: None, "No such file"),
        ("folder", lambda path: path.mkdir(), "Is a directory"),
        ("nul\0", lambda path: None, "null"),
    ],
)
def test_a_file_that_cannot_be_read(
    run: Run, tmp_path: Path, name: str, make: Callable[[Path], None], complaint: str
) -> None:
    make(tmp_path / name)
    ran = run("process", name)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("byref: cannot read ")
    assert complaint in ran.err
    assert not (tmp_path / "byref.db").exists()


def test_a_file_that_is_too_large(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate((1 << 30) + 1)
    ran = run("process", "huge")
    assert ran.code == 1
    assert "larger than 1,073,741,824 bytes" in ran.err


def test_binary_is_taken_in_and_given_back(run: Run, tmp_path: Path) -> None:
    data = bytes(range(256)) * 400
    (tmp_path / "image.bin").write_bytes(data)
    shown = run("process", "image.bin", "--context-window", "16000", "--json").json
    assert shown["route"] == "placeholder"
    with (tmp_path / "shown.bin").open("w") as shown_in, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", shown_in)
        assert main(("show", shown["artifacts"][0]["id"])) == 0
    assert (tmp_path / "shown.bin").read_bytes().removesuffix(b"\n") == data


# run and tool


def test_run_prints_the_reply_and_a_mistake_is_exit_code_1(run: Run, users: Path) -> None:
    run("process", str(users))
    assert run("run", "sum(user['score'] for user in $users_2)")[:2] == (0, f"{sum(u['score'] for u in RECORDS)}\n")
    assert run("run", "-", stdin=b"top = users_2[:2]\nlen(top)").out.startswith("2\n[kept for later calls: top")
    assert run("run", "top[1]['id']").out == "1\n"
    wrong = run("run", "user_2")
    assert wrong.code == 1
    assert "Did you mean 'users_2'" in wrong.out
    assert run("run", "1/0", "--json").json["is_error"] is True


def test_tools_are_called_with_json(run: Run, users: Path) -> None:
    run("process", str(users))
    jq = '{"artifact_id": "users_2", "expression": "map(.score) | add"}'
    assert run("tool", "artifact_jq", jq).out == f"{sum(u['score'] for u in RECORDS)}\n"
    assert run("tool", "artifact_jq", "-", stdin=jq.encode()).code == 0
    assert json.loads(run("tool", "list_artifacts", "{}").out)[0]["sizeBytes"] == users.stat().st_size
    wrong = run("tool", "artifact_jq", "{nope")
    assert wrong.code == 1
    assert "no valid JSON" in wrong.out
    unknown = run("tool", "artifact_jk", "{}")
    assert unknown.code == 2
    assert "there are: code_interpreter, artifact_jq" in unknown.err


def test_an_extra_that_is_not_installed_is_named_to_whoever_asks_for_it_alone(
    run: Run, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqltext, "is_available", lambda: False)
    assert run("process", str(users)).err == ""
    assert run("run", "len(users_2)")[1:] == ("3000\n", "")
    assert run("tool", "list_artifacts", "{}").err == ""
    offered = run("tool", "nosuch", "{}").err
    assert "artifact_jq" in offered and "artifact_sql" not in offered
    asked = run("tool", "artifact_sql", '{"query": "SELECT 1"}')
    assert asked == (1, "", "byref: artifact_sql is not offered: it needs DuckDB: pip install 'byref[sql]'\n")


# show, ledger, explain, sessions, sweep


def test_what_is_in_a_session(run: Run, users: Path) -> None:
    run("process", str(users), "--call-id", "call_7")
    listed = run("show")
    rows = [line.split("\t") for line in listed.out.splitlines()]
    assert rows[0] == ["what", "name", "holds", "step", "of"]
    assert [row[1] for row in rows[1:3]] == ["users", "users_2"]
    shown = run("show", "--json").json
    assert [variable["path"] for variable in shown["variables"]] == [[], ["users"]]
    assert json.loads(run("show", "users_2").out) == RECORDS
    assert json.loads(run("show", "$users").out)["next_cursor"] == "abc"
    assert run("show", shown["artifacts"][0]["id"], "--json").json["schema"]["type"] == "object"
    assert json.loads(run("show", "1").out)["omitted"]["items"]
    assert run("show", "1", "--json").json["route"] == "variables"
    missing = run("show", "nothing")
    assert missing.code == 1
    assert "no variable, artifact or step 'nothing'" in missing.err


@pytest.mark.parametrize("swept", [False, True])
def test_what_has_expired_says_what_it_was(run: Run, users: Path, swept: bool) -> None:
    run("process", str(users), "--tool", "list_users")
    with byref.Engine("sqlite:///byref.db") as engine:
        artifact = engine.session("cli").artifacts()[0]
        past = update(ArtifactRow).values(expires_at=datetime.now(UTC) - timedelta(minutes=1))
        engine.database.write(lambda connection: connection.execute(past))
    if swept:
        assert "artifacts\t1" in run("sweep").out
    for key in ("list_users", "$users", "var_step_1", artifact.id, artifact.pointer):
        ran = run("show", key)
        assert (ran.code, ran.out) == (run("show", "nothing").code, "")
        assert ran.err.startswith(f"byref: {key!r} is gone: it expired on 20")
        assert f"It was application/json, {artifact.size_bytes:,} bytes, " in ran.err
        assert ran.err.endswith("Call list_users again to have it again.\n")
        assert run("show", key, "--json")[:2] == (ran.code, "")
    assert "no variable, artifact or step 'nothing'" in run("show", "nothing").err


def test_the_ledger_and_its_reasons(run: Run, users: Path) -> None:
    run("process", str(users), "--call-id", "7")
    run("run", "nope")
    ledger = run("ledger")
    rows = [line.split("\t") for line in ledger.out.splitlines()]
    assert rows[1][:6] == ["1", "output", "users", "7", "variables", "max_result_tokens"]
    assert rows[2][1] == "reply (error)"
    assert "saved" in ledger.err
    whole = run("ledger", "--json").json
    assert whole["totals"]["outputs"] == 1
    assert whole["entries"][0]["tokens_saved"] == whole["totals"]["tokens_saved"]
    assert run("explain", "1").out == run("explain", "7").out
    assert run("explain", "1").out.startswith("users (step 1): variables, because its ")
    assert run("explain", "7", "--json").json["numbers"]["limit"] == 7000
    assert run("explain", "99").code == 1


def test_the_ledger_shows_resolutions(run: Run) -> None:
    written = '{"ids": "$users"}'
    with byref.Engine("sqlite:///byref.db") as engine:
        scope = engine.session("cli")._scope

        def resolve(connection: Connection) -> None:
            columns = {"call_id": "c", "arguments": written, "tokens": 0, "detail": {"tool": "send"}}
            scope.append(connection, ledger.take_step(connection, scope.row), "resolution", columns)

        scope.write(resolve)
    assert run("ledger").out.splitlines()[1].split("\t") == ["1", "resolution", "send", "c", *[""] * 8]
    assert run("ledger", "--json").json["entries"][0]["arguments"] == written
    assert run("show", "1").out == f"resolution: {written}\n"
    assert run("explain", "1").code == 1


def test_looking_makes_neither_database_nor_session(run: Run, users: Path, tmp_path: Path) -> None:
    for verb in (["sessions"], ["show"], ["ledger"], ["explain", "1"], ["sweep"], ["db", "downgrade", "base"]):
        ran = run(*verb)
        assert ran.code == 1
        assert "there is no database" in ran.err
    assert run("db", "current").out == "none\n"
    assert not (tmp_path / "byref.db").exists()
    run("process", str(users))
    for verb in (["show"], ["ledger"], ["explain", "1"]):
        ran = run(*verb, "--session", "other")
        assert ran.code == 1
        assert "there is no session 'other'" in ran.err
    assert [info["id"] for info in run("sessions", "--json").json] == ["cli"]
    assert run("sweep").out == "what\tgone\nartifacts\t0\nblobs\t0\ntombstones\t0\nsessions\t0\nobjects\t0\n"
    kinds = ("artifacts", "blobs", "tombstones", "sessions", "objects", "held")
    assert run("sweep", "--json").json == dict.fromkeys(kinds, 0)


@pytest.fixture
def shop(run: Run, users: Path) -> Run:
    """Two tenants, of which one has two sessions."""
    for tenant, session in (("acme", "chat 1"), ("acme", "chat-2"), ("globex", "chat-2")):
        run("process", str(users), "--tenant", tenant, "--session", session, "--call-id", "call_1", "--model", "gpt-5")
    return run


def test_sessions_and_tenants_have_bytes_tokens_and_dollars(shop: Run, users: Path) -> None:
    with byref.Engine("sqlite:///byref.db") as engine:
        session = engine.session("chat 1", tenant="acme")
        session.record_usage({"input_tokens": 1_000, "output_tokens": 10, "model": "claude-sonnet-5"})
        spent, saved = session.usage().cost, session.usage().tokens_saved
    size = users.stat().st_size
    rows = [line.split("\t") for line in shop("sessions", "--all-tenants").out.splitlines()]
    assert rows[0][:9] == ["tenant", "session", "model", "steps", "bytes", "in", "out", "saved", "usd"]
    assert rows[1][:9] == ["acme", "chat 1", "gpt-5", "2", str(size), "1000", "10", str(saved), f"{spent:.4f}"]
    assert rows[2][:9] == ["acme", "chat-2", "gpt-5", "1", str(size), "", "", str(saved), ""]
    assert [row[0] for row in rows[1:]] == ["acme", "acme", "globex"]
    assert [row.split("\t")[:4] for row in shop("tenants").out.splitlines()] == [
        ["tenant", "sessions", "steps", "bytes"],
        ["acme", "2", "3", str(size)],  # equal bytes are stored once
        ["globex", "1", "1", str(size)],
    ]
    told = shop("tenants", "--json").json[0]
    assert (told["id"], told["input_tokens"], told["cost"]) == ("acme", 1_000, float(spent))
    empty = shop("sessions")
    assert "`byref tenants` lists the tenants" in empty.err


def test_a_session_of_another_tenant_is_found_by_what_the_error_says(shop: Run) -> None:
    elsewhere = shop("ledger", "--session", "chat 1").err
    assert elsewhere == "byref: there is no session 'chat 1' of tenant 'default', but of another: --tenant acme\n"
    assert "give --tenant with one of acme, globex" in shop("show", "--session", "chat-2").err
    nowhere = shop("explain", "1", "--session", "x", "--db", "./byref.db").err
    assert "`byref sessions --all-tenants --db ./byref.db` lists" in nowhere


def test_history_has_each_output_as_it_came_and_as_it_was_read(shop: Run, users: Path) -> None:
    words = ("--tenant", "acme", "--session", "chat-2")
    shop("process", "-", *words, "--tool", "small", stdin=b"all of it")
    rows = [line.split("\t") for line in shop("history", *words).out.splitlines()]
    assert rows[0] == ["step", "tool", "call", "arguments", "came", "read"]
    assert rows[1][:4] == ["1", "users", "call_1", ""]
    assert rows[1][4].endswith(f", {users.stat().st_size:,} bytes")
    assert rows[2][1:] == ["small", "", "", "as it was read", "all of it"]
    first, second = shop("history", *words, "--json").json
    assert first["original"]["size_bytes"] == users.stat().st_size
    assert json.loads(first["processed"])["preview"]
    assert (second["original"], second["processed"]) == ("all of it", "all of it")


def test_delete_asks_or_is_told(shop: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("delete", "--tenant", "acme", "--session", "chat 1")
    refused = shop(*words)
    assert refused.code == 1
    assert refused.err.startswith("byref: this deletes session 'chat 1' of tenant 'acme': 1 step, ")
    assert "--yes" in refused.err
    told = functools.partial(shop, *words)
    with monkeypatch.context() as patch:
        patch.setattr("byref.cli.opening.sys", Terminal("n\n"))
        assert told().err.endswith("byref: nothing was done\n")
    assert len(shop("sessions", "--tenant", "acme", "--json").json) == 2
    with monkeypatch.context() as patch:
        patch.setattr("byref.cli.opening.sys", Terminal("y\n"))
        assert told().out == "1 session of tenant 'acme' deleted\n"
    assert [info["id"] for info in shop("sessions", "--tenant", "acme", "--json").json] == ["chat-2"]
    assert "there is no session 'chat 1' of tenant 'acme'" in told("--yes").err
    assert shop("delete").code == shop("delete", "--yes").code == 2
    assert shop("delete", "--tenant", "acme").code == 1
    assert shop("delete", "--tenant", "acme", "--yes", "--json").json == {"tenant": "acme", "sessions": 1}
    assert "`byref tenants` lists those there are" in shop("delete", "--tenant", "acme", "--yes").err
    assert [info["id"] for info in shop("tenants", "--json").json] == ["globex"]


class Terminal:
    """Stands in for `sys`: somebody answers."""

    def __init__(self, answer: str) -> None:
        self.stdin, self.stderr = io.StringIO(answer), sys.stderr
        self.stdin.isatty = lambda: True  # type: ignore[method-assign]


def test_a_downgrade_asks_before_data_is_lost(shop: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = shop("db", "downgrade", "base")
    assert refused.code == 1
    assert "all that byref stored there is lost" in refused.err and "--yes" in refused.err
    assert len(shop("tenants", "--json").json) == 2
    with monkeypatch.context() as patch:
        patch.setattr("byref.cli.opening.sys", Terminal("yes\n"))
        assert shop("db", "downgrade", "base").out == "none\n"
    assert shop("db", "downgrade", "base").out == "none\n", "nothing is left to lose"


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


# db and doctor


def test_db_verbs(run: Run, users: Path) -> None:
    assert run("db", "check").code == 1
    assert run("db", "upgrade").out == f"{db.head()} (head)\n"
    assert run("db", "check").code == 0
    assert run("db", "current", "--json").json == {"revision": db.head(), "head": db.head(), "oldest": "0001"}
    assert run("db", "history", "--json").json[0]["revision"] == "0001"
    assert run("db", "downgrade", "-1", "--yes").out == f"{db.history()[-2].revision}\n"
    mismatch = run("sessions")
    assert mismatch.code == 1
    assert f"run `byref db upgrade --db sqlite:///{Path.cwd() / 'byref.db'}`" in mismatch.err
    assert mismatch.err.count("\n") == 1
    wrong = run("db", "upgrade", "nope")
    assert wrong.code == 1
    assert "no revision is called 'nope'" in wrong.err


def test_verify_names_the_sweep_that_clears_away_what_it_found(run: Run) -> None:
    run("process", "-", "--db", "./it.db", stdin=b"x" * 2_000_000)
    with byref.Engine("sqlite:///it.db") as engine:
        for name in ("runs", "names", "variables", "ledger", "artifacts"):
            engine.database.write(lambda c, name=name: c.execute(text(f"DELETE FROM byref_{name}")))
        engine.database.write(
            lambda c: c.execute(text("UPDATE byref_blobs SET may_be_unused = 1, staged_at = '2020-01-01 00:00:00'"))
        )
    found = run("db", "verify", "--db", "./it.db")
    assert found.code == 1 and "orphan" in found.out
    cure = re.search(r"`byref (sweep --db .*?)` deletes what is left over", found.err)
    assert cure, found.err
    assert run(*shlex.split(cure[1])).code == 0
    assert "orphan" not in run("db", "verify", "--db", "./it.db").out


def test_doctor_reports_walls_versions_and_costs(run: Run) -> None:
    report = run("doctor", "--json").json
    findings = {(finding["part"], finding["name"]): finding for finding in report["findings"]}
    assert findings["wall", "seccomp"]["state"] == "ok"
    assert findings["package", "sqlalchemy"]["state"] == "ok"
    assert "made by the first output" in next(f["detail"] for f in report["findings"] if f["part"] == "database")
    assert re.search(r"\d+ ms for 1\+1", findings["sandbox", "cost"]["detail"])
    assert report["healthy"] is True
    packages = [finding for finding in report["findings"] if finding["part"] in ("package", "extra")]
    names = [finding["name"].lower() for finding in packages]
    assert sorted(set(names)) == sorted(names), "each once"
    kinds = {finding["name"].lower(): finding["part"] for finding in packages}
    assert (kinds["sqlalchemy"], kinds["greenlet"], kinds["psycopg"], kinds["mcp"]) == ("package", *["extra"] * 3)
    assert [finding["part"] for finding in packages] == sorted((f["part"] for f in packages), reverse=True)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    """The doctor looks at a sandbox that is there already: another start would show nothing new."""
    monkeypatch.setattr(doctor, "Sandbox", lambda **_: sandbox)


@pytest.mark.parametrize("url", ["postgresql://me:s3cret@host:port/x", "no url s3cret://"])
def test_what_is_no_url_is_said_without_its_password(run: Run, started: None, url: str) -> None:
    for verb in (("sessions",), ("db", "current"), ("db", "downgrade", "base"), ("doctor",)):
        told = run("--db", url, *verb)
        assert told.code == 1
        assert "that is no database URL" in told.out + told.err
        assert "s3c" not in told.out + told.err


def test_doctor_finds_a_database_it_cannot_work_with(run: Run, tmp_path: Path, started: None) -> None:
    (tmp_path / "byref.db").write_text("no database, but long enough to be looked at as one, page by page")
    ran = run("doctor")
    assert ran.code == 1
    assert "no SQLite database" in ran.out


@pytest.mark.slow
def test_doctor_looks_for_the_store_of_objects(run: Run, tmp_path: Path) -> None:
    missing = run("doctor", "--blobs", str(tmp_path / "none"))
    assert missing.code == 1
    assert "there is no folder" in missing.out
    (tmp_path / "blobs").mkdir()
    assert "reachable, as the store 'files'" in run("doctor", "--blobs", str(tmp_path / "blobs")).out


def test_doctor_says_what_language_only_means(run: Run, started: None) -> None:
    ran = run("doctor", "--jail", "language-only")
    assert "offered behind the language ALONE" in ran.out
    assert "is no security boundary" in ran.out
    assert "seccomp\toptional\tleft out by the host's choice" in ran.out


# failures, usage, terminals


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


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("oracle://x", "not in 'oracle'"),
        ("sqlite:////no/such/folder/x.db", "folder"),
        ("postgresql+psycopg://user:hidden@127.0.0.1:1/x", "Connection refused"),
        ("nonsense://", "byref stores in"),
    ],
)
def test_a_database_that_is_not_there_is_one_line(run: Run, users: Path, url: str, complaint: str) -> None:
    ran = run("--db", url, "process", str(users))
    assert ran.code == 1
    assert ran.err.startswith("byref: ")
    assert ran.err.count("\n") == 1
    assert complaint in ran.err
    assert "hidden" not in ran.err


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
