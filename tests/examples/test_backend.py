"""The example backend, over HTTP: uvicorn in a process of its own, the provider's real SDK, both databases."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from forking import FORKS
from sqlalchemy import create_engine, inspect

import byref
from byref.testing import ScriptedProvider
from byref.testing.providers import Call

BACKEND = Path(__file__).parents[2] / "examples/backend"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/chat.db"
    made: str = request.getfixturevalue("empty_postgres_url")
    return made


def migrate(url: str) -> None:
    run = FORKS.command(str(BACKEND / "migrate.py"))
    subprocess.run(run, env={**os.environ, "DATABASE_URL": url}, check=True, capture_output=True, timeout=60)


@contextmanager
def serving(url: str, told: ScriptedProvider) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """Run the backend; at the end it gets a SIGTERM and has to leave with 0 and without a word of an error."""
    environment = {**os.environ, "DATABASE_URL": url, "ANTHROPIC_BASE_URL": told.url, "ANTHROPIC_API_KEY": "none"}
    command = FORKS.command("-m", "uvicorn", "app:app", "--port", "0", "--app-dir", str(BACKEND))
    server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    lines = []
    try:
        for line in server.stderr:
            lines.append(line)
            if "running on" in line:
                break
        else:
            raise AssertionError("".join(lines))
        address = lines[-1].split("running on ")[1].split()[0]
        with httpx.Client(base_url=address, timeout=60, headers={"x-customer": "acme"}) as client:
            yield client, server
    finally:
        server.send_signal(signal.SIGTERM)
        rest = server.communicate(timeout=60)[1]
    assert server.returncode in (0, -signal.SIGTERM), rest
    assert "Error" not in rest and "Finished server process" in rest, rest


def said(client: httpx.Client, text: str, chat: str = "chat-1", **options: Any) -> str:
    """Say something and return the whole streamed reply."""
    with client.stream("POST", f"/chats/{chat}/messages", json={"text": text}, **options) as reply:
        assert reply.status_code == 200
        lines = [line for line in reply.iter_lines() if line]
    assert lines[-2:] == ["event: end", "data: {}"], lines
    pieces = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    return "".join(pieces)


def refund_late(results: list[str]) -> list[Call]:
    return [
        {"name": "code_interpreter", "input": {"code": "late = [o['id'] for o in orders if o['is_late']]\nlen(late)"}}
    ]


def test_a_chat_goes_on_in_another_process(url: str) -> None:
    migrate(url)
    first: list[Any] = [[{"name": "list_orders", "input": {}}], refund_late, "There are 41 late orders."]
    second: list[Any] = [[{"name": "refund", "input": {"ids": "$late"}}], lambda results: f"Done: {results[0]}"]
    with ScriptedProvider(*first, *second) as told:
        with serving(url, told) as (client, _):
            assert said(client, "How many orders are late?") == "There are 41 late orders."
            state = client.get("/chats/chat-1").json()
            assert state["variables"] == ["list_orders", "orders", "late"]
            assert [message["role"] for message in state["messages"]] == ["user", "assistant"] * 3
            assert len(json.dumps(state["messages"])) < 12_000 and state["context_tokens"] > 500
            other = client.get("/chats/chat-1", headers={"x-customer": "rival"}).json()
            assert other["messages"] == [] and other["variables"] == []
        with serving(url, told) as (client, _):
            assert said(client, "Refund them.").startswith("Done: 41 orders refunded")
            assert client.delete("/chats/chat-1").status_code == 204
            assert client.get("/chats/chat-1").json()["variables"] == []
    looking = create_engine(url)
    tables = inspect(looking).get_table_names()
    looking.dispose()
    assert {"messages", "alembic_version", "byref_ledger", "byref_version"} <= set(tables)
    assert list(byref.db.verify(url, deep=True)) == []


@pytest.mark.slow
def test_a_turn_that_fails_leaves_whole_steps_on_both_sides(url: str) -> None:
    migrate(url)

    def fail(results: list[str]) -> str:
        raise RuntimeError("overloaded")

    with ScriptedProvider([{"name": "list_orders", "input": {}}], "never said") as told:
        told.turns.insert(1, fail)
        with serving_with_errors(url, told) as client:
            with pytest.raises((httpx.RemoteProtocolError, AssertionError)):
                said(client, "How many orders are late?")
            state = client.get("/chats/chat-1").json()
        told.turns.clear()
        told.refused.clear()
    assert [message["role"] for message in state["messages"]] == ["user", "assistant", "user"]
    with byref.Engine(url, create=False, jail="language-only") as engine:
        entries = engine.session("chat-1", tenant="acme").ledger()
    assert [entry.kind for entry in entries] == ["usage", "output"]


@contextmanager
def serving_with_errors(url: str, told: ScriptedProvider) -> Iterator[httpx.Client]:
    """The same where the server logs an error, which the test expects."""
    with pytest.raises(AssertionError, match="overloaded"), serving(url, told) as (client, _):
        yield client


@pytest.mark.slow
def test_a_reply_is_finished_before_the_process_stops(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    migrate(url)
    stopping: list[Callable[[], None]] = []

    def stop_meanwhile(results: list[str]) -> str:
        stopping[0]()
        time.sleep(0.5)
        return "The last words."

    with (
        ScriptedProvider([{"name": "list_orders", "input": {}}], stop_meanwhile) as told,
        serving(url, told) as (client, server),
    ):
        stopping.append(lambda: server.send_signal(signal.SIGTERM))
        assert said(client, "How many?") == "The last words."
        server.wait(timeout=30)


@pytest.mark.slow
def test_code_keeps_no_other_chat_out_while_it_works(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    migrate(url)
    read = threading.Event()

    def last(results: list[str]) -> str:
        read.set()
        return f"It is {results[0]}"

    code = "import time\ntime.sleep(1.5)\n1 + 1"
    with (
        ScriptedProvider([{"name": "code_interpreter", "input": {"code": code}}], last) as told,
        serving(url, told) as (client, _),
        ThreadPoolExecutor(1) as one,
    ):
        answer = one.submit(said, client, "Compute.")
        while not (read.is_set() or answer.done()):
            with closing(sqlite3.connect(f"{tmp_path}/chat.db", timeout=1, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
            time.sleep(0.05)
        assert answer.result().startswith("It is 2")


def test_the_hosts_migrations_see_none_of_ours(url: str) -> None:
    migrate(url)
    run = FORKS.command("-m", "alembic", "-c", str(BACKEND / "alembic.ini"), "check")
    done = subprocess.run(run, env={**os.environ, "DATABASE_URL": url}, capture_output=True, text=True, timeout=60)
    assert "No new upgrade operations detected." in done.stdout + done.stderr
