"""Which database, session or file the options and the environment name, and what is said of one that cannot be opened."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_kit import Run

from byref import db
from byref.cli import opening


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


@pytest.mark.parametrize("verb", [("process", "users.json"), ("gateway", "--", "true"), ("db", "upgrade")])
def test_an_empty_name_is_no_database(run: Run, users: Path, tmp_path: Path, verb: tuple[str, ...]) -> None:
    refused = run(verb[0], "--db", "", *verb[1:])
    assert refused.code == 2 and "argument --db: '': expected a URL or a path" in refused.err
    assert [*tmp_path.glob("*.db")] == []


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", ":memory:"])
def test_of_a_database_in_memory_it_is_said_that_nothing_is_kept(run: Run, users: Path, url: str) -> None:
    ran = run("process", "--db", url, str(users))
    assert ran.code == 0
    assert ran.err == "the database is in memory: nothing is kept when this command ends\n"
    assert run("process", str(users)).err == ""


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


@pytest.mark.parametrize("url", ["postgresql://me:s3cret@host:port/x", "no url s3cret://"])
def test_what_is_no_url_is_said_without_its_password(run: Run, started: None, url: str) -> None:
    for verb in (("sessions",), ("db", "current"), ("db", "downgrade", "base"), ("doctor",)):
        told = run("--db", url, *verb)
        assert told.code == 1
        assert "that is no database URL" in told.out + told.err
        assert "s3c" not in told.out + told.err


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
