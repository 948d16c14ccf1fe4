"""The SDK's own compaction around byref's session, with the SDK's runner and a scripted client of its API."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, Runner, set_tracing_disabled
from agents.memory import OpenAIResponsesCompactionSession
from agents.testing import ModelStep, ScriptedModel, assistant_message
from agents.usage import Usage

from byref import Engine
from byref.adapters.openai_agents import Byref, ByrefSession

set_tracing_disabled(True)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine("sqlite:///:memory:") as made:
        yield made


class Client:
    """As much of OpenAI's client as compaction asks for; `meanwhile` happens while it answers."""

    def __init__(self, meanwhile: Any = None) -> None:
        self.asked: list[Any] = []
        self.responses = SimpleNamespace(compact=self.compact)
        self.meanwhile = meanwhile

    async def compact(self, **asked: Any) -> Any:
        self.asked.append(asked)
        if self.meanwhile is not None:
            await self.meanwhile()
        made = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
        return SimpleNamespace(output=[made], usage=None)


async def talked(engine: Engine, kept: ByrefSession, client: Client, turns: int, **options: Any) -> ScriptedModel:
    def should(context: dict[str, Any]) -> bool:
        return len(context["compaction_candidate_items"]) >= 2

    around: Any = OpenAIResponsesCompactionSession(
        "chat",
        kept,
        client=client,
        should_trigger_compaction=should,
        compaction_mode="input",
        **options,  # type: ignore[arg-type]
    )
    usage = Usage(requests=1, input_tokens=90_000, output_tokens=10, total_tokens=90_010)
    model = ScriptedModel([ModelStep(output=[assistant_message(f"Answer {n}.")], usage=usage) for n in range(turns)])
    agent = Agent(name="a", model=model)
    for n in range(turns):
        await Runner.run(agent, f"Question {n}?", session=around, hooks=Byref(engine, session="chat"))
    return model


def said(items: list[Any]) -> list[str]:
    return [item.get("type") if item.get("type") == "compaction" else item["role"] for item in items]


@pytest.mark.parametrize("limit", [None, 4])
def test_compaction_is_done_in_a_session_of_any_limit(engine: Engine, limit: int | None) -> None:
    """Of a limited one what the model saw is compacted, and what is older stays."""
    kept = ByrefSession("chat", engine, session_settings={"limit": limit})
    old: list[Any] = [{"role": "user", "content": f"Old {n}"} for n in range(6)]

    async def work() -> tuple[Client, list[Any]]:
        if limit:
            await kept.add_items(old)
        client = Client()
        await talked(engine, kept, client, 2)
        return client, await kept.get_items(limit=1_000)

    client, items = asyncio.run(work())
    assert len(client.asked) == 1
    assert items[-1]["type"] == "compaction"
    assert all(item["type"] == "message" if "type" in item else True for item in client.asked[0]["input"])
    if limit:
        assert items[: len(old) - 2] == old[:-2]
    else:
        assert items == [{"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}]
    session = engine.session("chat")
    assert [entry.kind for entry in session.ledger()] == ["usage", "usage", "compaction"]
    assert session.context_tokens() < 1_000


def test_what_is_added_meanwhile_is_not_lost(engine: Engine) -> None:
    kept = ByrefSession("chat", engine)
    other = ByrefSession("chat", engine)
    client = Client(lambda: other.add_items([{"role": "user", "content": "Meanwhile."}]))

    async def work() -> list[Any]:
        await talked(engine, kept, client, 2)
        return await kept.get_items()

    items = asyncio.run(work())
    assert len(client.asked) == 1
    assert said(items) == ["user", "assistant", "user", "assistant", "user"]
    assert [entry.kind for entry in engine.session("chat").ledger()] == ["usage", "usage"]


@pytest.mark.parametrize("kind", ["plain", "of a host's"])
def test_compaction_by_hand_replaces_all(engine: Engine, kind: str) -> None:
    """Also of a class that keeps items otherwise, by its own methods."""

    class Other(ByrefSession):
        async def add_items(self, items: list[Any]) -> None:
            await super().add_items([{**item, "mine": True} for item in items])

    kept = ByrefSession("chat", engine) if kind == "plain" else Other("chat", engine)
    client = Client()

    async def work() -> list[Any]:
        await kept.add_items([{"role": "user", "content": f"{n}"} for n in range(5)])
        around = OpenAIResponsesCompactionSession("chat", kept, client=client)  # type: ignore[arg-type]
        await around.run_compaction({"force": True, "compaction_mode": "input"})
        return await kept.get_items()

    [item] = asyncio.run(work())
    assert item["type"] == "compaction"
    assert item.get("mine") is (None if kind == "plain" else True)
    assert len(client.asked[0]["input"]) == 5


def test_a_row_that_is_no_item_goes_with_what_it_stood_among(engine: Engine) -> None:
    kept = ByrefSession("chat", engine)

    async def work() -> list[Any]:
        await kept.add_items([{"role": "user", "content": "1"}])
        kept._items.append("openai_agents", ["no JSON"])
        await kept.add_items([{"role": "user", "content": "2"}, {"role": "user", "content": "3"}])
        snapshot = await kept._get_compaction_snapshot(3)
        assert [item["content"] for item in snapshot.items] == ["2", "3"] and not snapshot.complete
        assert not await snapshot.replace_suffix(2, [])
        assert await snapshot.replace_suffix(1, [{"role": "user", "content": "c"}])
        assert not await snapshot.replace_suffix(1, [])  # once
        return await kept.get_items()

    assert [item["content"] for item in asyncio.run(work())] == ["1", "2", "c"]


def test_of_two_that_exchange_the_same_items_one_does(engine: Engine) -> None:
    kept = ByrefSession("chat", engine)
    asyncio.run(kept.add_items([{"role": "user", "content": "1"}]))
    stored, done = kept._items.last("openai_agents"), list[bool]()
    threads = [
        threading.Thread(target=lambda n=n: done.append(kept._items.replace("openai_agents", stored, [f'{{"n":{n}}}'])))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, False, False, True]
    assert len(kept._items.last("openai_agents")) == 1
