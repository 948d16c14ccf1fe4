"""The fixtures, used as an app uses them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import pytest

from byref import Engine, Session
from byref.testing import assert_routes, assert_tokens
from byref.testing.plugin import Providing
from byref_sandbox import Sandbox

ORDERS = [{"id": number, "total": number % 500} for number in range(20_000)]


@pytest.fixture(scope="session")
def byref_sandbox(sandbox: Sandbox) -> Sandbox:
    """That of all tests here."""
    return sandbox


def chat(client: anthropic.Anthropic, session: Session, question: str) -> str:
    tools: Any = session.tools("anthropic")
    messages: Any = [{"role": "user", "content": question}]
    while True:
        reply = client.messages.create(model="claude-sonnet-5", max_tokens=99, messages=messages, tools=tools)
        session.record_usage(reply)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason != "tool_use":
            return str(reply.content[0].text)  # type: ignore[union-attr]
        results: list[Any] = []
        for call in reply.content:
            assert call.type == "tool_use"
            if session.owns(call.name):
                answer: Any = session.call(call.name, call.input, call_id=call.id)
            else:
                answer = session.process(ORDERS, tool=call.name, call_id=call.id)
            results += answer.message("anthropic", call.id)["content"]
        messages.append({"role": "user", "content": results})


def test_an_app_is_tested_with_its_real_sdk(byref_session: Session, byref_provider: Providing) -> None:
    provider = byref_provider(
        {"name": "list_orders", "input": {}},
        {"name": "code_interpreter", "input": {"code": "sum(order['total'] for order in list_orders)"}},
        lambda results: f"It is {results[0]}.",
    )
    with anthropic.Anthropic(base_url=provider.url, api_key="none") as client:
        assert chat(client, byref_session, "How much is it?") == "It is 4990000."
    assert_routes(byref_session, list_orders="variables")
    assert_tokens(byref_session, 2_000)


@pytest.mark.parametrize("time", ["first", "second"])
def test_each_test_has_a_database_of_its_own(byref_engine: Engine, time: str) -> None:
    session = byref_engine.session("test")
    assert session.ledger() == []
    session.process(time, tool="t")


@pytest.mark.slow
def test_pytest_has_the_fixtures_wherever_byref_is_installed(tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text("""
def test_code_runs(byref_session):
    assert byref_session.run("6 * 7").value == 42

def test_turns_are_left(byref_provider):
    byref_provider("never said")
""")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "2 passed, 1 error" in run.stdout, run.stdout
    assert "1 turns of the script were not asked for" in run.stdout
