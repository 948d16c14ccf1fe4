"""The example loops, each as a script of its own with the provider's real SDK, over HTTP."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forking import FORKS

import byref
from byref.testing import ScriptedProvider
from byref.testing.providers import Call

EXAMPLES = Path(__file__).parents[2] / "examples"
QUESTION = "Which region has the highest sum? Refund its late orders."
CODE = """totals = df(orders).groupby("region")["amount"].sum()
late = [o["id"] for o in orders if o["is_late"] and o["region"] == totals.idxmax()]
(totals.idxmax(), len(late))"""


def look_and_count(results: list[str]) -> list[Call]:
    assert len(results) == 1 and len(results[0]) < 8_000 and "$orders" in results[0]
    return [
        {"name": "code_interpreter", "input": {"code": CODE}},
        {"name": "artifact_jq", "input": {"artifact_id": "orders", "expression": "length"}},
    ]


def refund_by_reference(results: list[str]) -> list[Call]:
    assert "4000" in results[1]
    return [{"name": "refund", "input": {"ids": "$late"}}, {"name": "refund", "input": {"ids": "$nothing"}}]


def conclude(results: list[str]) -> str:
    assert "orders refunded" in results[0]
    assert "does not fit" in results[1] or "do not fit" in results[1]
    return f"Done: {results[0]}."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "key", "base"),
    [
        pytest.param("anthropic_loop", "ANTHROPIC", "", marks=pytest.mark.slow),
        ("openai_loop", "OPENAI", "/v1"),
        pytest.param("openai_responses_loop", "OPENAI", "/v1", marks=pytest.mark.slow),  # run by docs/providers.md, too
    ],
)
def test_a_loop_answers_out_of_all_of_the_data(script: str, key: str, base: str, tmp_path: Path) -> None:
    turns = ([{"name": "list_orders", "input": {}}], look_and_count, refund_by_reference, conclude)
    with ScriptedProvider(*turns) as told:
        environment = {**os.environ, f"{key}_BASE_URL": told.url + base, f"{key}_API_KEY": "none"}
        run = subprocess.run(
            FORKS.command(str(EXAMPLES / f"{script}.py"), QUESTION),
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert run.returncode == 0, run.stderr + str(told.refused)
    answer, context = run.stdout.splitlines()
    assert answer.startswith("Done: ") and "orders refunded, the last one is" in answer
    assert int(context.split()[0].replace(",", "")) < 6_000
    assert len(told.requests) == 4
    with byref.Engine(f"sqlite:///{tmp_path}/byref.db", jail="language-only") as engine:
        (info,) = engine.sessions()
        session = engine.session(info.id)
        assert session.usage().requests == 4
        assert [variable.name for variable in session.variables()][:2] == ["list_orders", "orders"]


class Cut:
    """Stands in for Anthropic's client: it says one message after the other, each with its reason to stop."""

    def __init__(self, *messages: tuple[str, list[Any]]) -> None:
        self.left, self.messages, self.text_stream = list(messages), self, ()
        self.asked: list[list[Any]] = []

    def stream(self, *, messages: list[Any], **request: Any) -> AbstractContextManager[Cut]:
        self.asked.append(list(messages))
        return nullcontext(self)

    def get_final_message(self) -> SimpleNamespace:
        stop_reason, content = self.left.pop(0)
        usage = {"input_tokens": 100 + len(self.left), "output_tokens": 1}
        return SimpleNamespace(id="msg", content=content, stop_reason=stop_reason, usage=usage)


def test_a_call_that_was_cut_off_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in ("anthropic_loop", "shop"):  # they go again: other tests have a `shop` of their own
        monkeypatch.setitem(sys.modules, name, sys)
        del sys.modules[name]
    loop, shop = importlib.import_module("anthropic_loop"), importlib.import_module("shop")
    monkeypatch.setattr(shop, "TOOLS", {})
    half = SimpleNamespace(type="tool_use", id="toolu_1", name="refund", input={"ids": [10]})
    client = Cut(("max_tokens", [half]), ("refusal", []))
    messages: list[Any] = [{"role": "user", "content": "Refund 1030"}]
    with byref.Engine("sqlite:///:memory:", jail="language-only") as engine:
        loop.chat(client, engine.session("cut"), messages)
    [read] = messages[-1]["content"]
    assert read["is_error"] and read["content"] == "not run: your message was cut off inside its calls"
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]  # an empty one would be refused


def test_each_loop_is_about_twenty_lines() -> None:
    for script in ("anthropic_loop", "openai_loop", "openai_responses_loop"):
        text = (EXAMPLES / f"{script}.py").read_text()
        body = text.split("def chat")[1].split("if __name__")[0]
        assert len([line for line in body.splitlines() if line.strip()]) <= 23, script
