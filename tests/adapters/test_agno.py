"""Agno's agents with byref in them, driven by a scripted model of Agno's own interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from adapter_shop import BIG, list_orders, refund
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.exceptions import StopAgentRun
from agno.media import Image
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run import RunContext
from agno.run.agent import RunContentEvent
from agno.tools import tool
from agno.tools.function import ToolResult
from drivers.agno import Scripted

from byref import Engine, InvalidId, Policy
from byref.adapters.agno import ByrefTools, session_name

PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)
MODES = ("run", "arun", "stream", "astream")


def agent_of(
    byref: ByrefTools, tools: list[Any], *turns: Any, mode: str = "run", model: Scripted | None = None, **kwargs: Any
) -> Agent:
    model = model or Scripted(turns=list(turns))
    record = byref.arecord if mode.startswith("a") else byref.record
    return Agent(
        model=model, tools=[*tools, byref], tool_hooks=[byref.hook], post_hooks=[record], telemetry=False, **kwargs
    )


async def run(agent: Agent, mode: str, session_id: str = "chat-42", **kwargs: Any) -> Any:
    """One run of an agent: sync or async, whole or as a stream."""
    if mode == "run":
        return await asyncio.to_thread(agent.run, "Which orders?", session_id=session_id, **kwargs)
    if mode == "arun":
        return await agent.arun("Which orders?", session_id=session_id, **kwargs)
    if mode == "stream":
        stream = agent.run("Which orders?", session_id=session_id, stream=True, yield_run_output=True, **kwargs)
        return list(stream)[-1]
    last = None
    async for last in agent.arun("Which orders?", session_id=session_id, stream=True, yield_run_output=True, **kwargs):
        pass
    return last


def answers(output: Any) -> dict[str, Message]:
    return {str(m.tool_name): m for m in output.messages if m.role == "tool" and not m.from_history}


def shown(agent: Agent) -> list[Image]:
    """The images in the last request: Agno shows those of tools in a message of its own."""
    assert isinstance(agent.model, Scripted)
    return [image for message in agent.model.requests[-1] for image in message.images or []]


@pytest.mark.parametrize("mode", MODES)
def test_what_a_tool_result_has_beside_its_content_is_kept(engine: Engine, tenant: str, mode: str) -> None:
    def look() -> ToolResult:
        """Look."""
        return ToolResult(content=json.dumps(BIG), images=[Image(content=PNG, id="one")], metadata={"a": 1})

    agent = agent_of(ByrefTools(engine, tenant=tenant), [look], [("look", {})], "Done.", mode=mode)
    assert "variables" in json.loads(str(answers(asyncio.run(run(agent, mode)))["look"].content))
    assert [image.id for image in shown(agent)] == ["one"]


@pytest.mark.parametrize("mode", MODES)
def test_pieces_are_one_output_and_events_pass(engine: Engine, tenant: str, mode: str) -> None:
    lines = [f"line {n} {'x' * 300}\n" for n in range(400)]

    def pieces() -> Iterator[Any]:
        """Come slowly."""
        yield RunContentEvent(content="")
        yield from lines

    async def apieces() -> AsyncIterator[Any]:
        """Come slowly."""
        for piece in pieces():
            yield piece

    entry = apieces if mode.startswith("a") else pieces
    byref = ByrefTools(engine, tenant=tenant, policy=Policy(plaintext="truncate"))
    agent = agent_of(byref, [tool(name="pieces")(entry)], [("pieces", {})], "Done.", mode=mode)
    content = str(answers(asyncio.run(run(agent, mode)))["pieces"].content)
    assert len(content) < len("".join(lines)) and content.startswith("line 0")
    session = engine.session("chat-42", tenant=tenant)
    assert [entry.kind for entry in session.ledger()].count("output") == 1
    assert session.artifacts()[0].size_bytes == len("".join(lines))


@pytest.mark.parametrize("mode", MODES)
def test_a_result_that_says_it_is_an_error_is_the_calls_error(engine: Engine, tenant: str, mode: str) -> None:
    def cancel() -> dict[str, Any]:
        """Cancel."""
        return {"content": [{"type": "text", "text": "order 7"}], "isError": True}

    agent = agent_of(ByrefTools(engine, tenant=tenant), [cancel], [("cancel", {})], "Sorry.", mode=mode)
    read = answers(asyncio.run(run(agent, mode)))["cancel"]
    assert (read.content, read.tool_call_error) == ("order 7", True)


@pytest.mark.parametrize("mode", MODES)
def test_what_ends_the_run_is_for_the_user_and_whole(engine: Engine, tenant: str, mode: str) -> None:
    @tool(stop_after_tool_call=True)
    def export() -> str:
        """Export."""
        return json.dumps(BIG)

    byref = ByrefTools(engine, tenant=tenant)
    listed, made = (agent_of(byref, [export], [("export", {})], mode=mode) for _ in range(2))
    made.tools = lambda: [export, byref]
    for agent in (listed, made):
        assert answers(asyncio.run(run(agent, mode)))["export"].content == json.dumps(BIG)


@pytest.mark.parametrize("mode", ("run", "arun"))
def test_a_tool_that_stops_the_agent_still_does(engine: Engine, tenant: str, mode: str) -> None:
    def stop(words: str) -> str:
        """Stop."""
        raise StopAgentRun(words)

    agent = agent_of(ByrefTools(engine, tenant=tenant), [stop], [("stop", {"words": "enough"})], "Never.", mode=mode)
    asyncio.run(run(agent, mode))
    assert isinstance(agent.model, Scripted) and len(agent.model.requests) == 1


@pytest.mark.slow
def test_whoever_names_anothers_session_does_not_open_it(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Without `tenant=` the users keep sessions apart that Agno itself tells apart."""
    look = [("code_interpreter", {"code": "orders[0]['total']"})]
    others: list[tuple[Any, str]] = [
        ("mallory", "chat"),
        (None, "chat"),
        ("", "chat"),
        (None, "ann/chat"),
        ("", "ann/chat"),
        (None, "ann%2Fchat"),
        ("ann%2Fchat", "x"),
        ("a", "nn/chat"),
        ("ann/", "chat"),
        ("ann", "/chat"),
        ("ann/chat", "chat"),
        ("ANN", "chat"),
        (" ann", "chat"),
        ("ann\n", "chat"),
        ("ann\u200b", "chat"),
        ("a\u0301nn", "chat"),
        ("default", "chat"),
        ("../ann", "chat"),
    ]
    tools, before = ByrefTools(engine), len(engine.sessions())
    asyncio.run(run(agent_of(tools, [list_orders], [("list_orders", {})], "3000."), "run", "chat", user_id="ann"))
    assert caplog.messages == []
    for user, chat in others:
        output = asyncio.run(run(agent_of(tools, [], look, "Done."), "run", chat, user_id=user))
        assert answers(output)["code_interpreter"].tool_call_error, (user, chat)
    assert len(engine.sessions()) - before == len(others) + 1 - 2  # "" is no user to Agno
    assert len([told for told in caplog.messages if "no user_id" in told]) == 1
    output = asyncio.run(run(agent_of(tools, [], look, "Done."), "arun", "chat", user_id="ann"))
    assert answers(output)["code_interpreter"].content == "0", "the user's own is found"
    assert len(engine.session(session_name("chat", "ann")).artifacts()) == 1
    bad: list[tuple[Any, Any]] = [(7, "chat"), ("ann", 7), ("a\0", "chat"), ("\ud800", "chat"), ("a" * 600, "chat")]
    for user, chat in [*bad, ("ann", "é" * 300), ("a" * 300, "c" * 300), (b"ann", "chat"), (None, "")]:
        with pytest.raises(InvalidId):
            tools.session(RunContext(run_id="r", session_id=chat, user_id=user))
    # What says itself whose a session is decides alone, as ever: sessions of before are found so.
    for kept in (ByrefTools(engine, tenant="default"), ByrefTools(engine, session="plain")):
        opened = [kept.session(RunContext(run_id="r", session_id="plain", user_id=user)) for user in ("a", None)]
        assert {session.id for session in opened} == {"plain"}


def test_a_conversation_goes_on_in_a_new_process(tmp_path: Path) -> None:
    db = InMemoryDb()
    turns = ([("list_orders", {})], "3000."), ([("refund", {"ids": {"$var": "orders", "jq": "map(.id)"}})], "Done.")
    for some in turns:
        with Engine(f"sqlite:///{tmp_path / 'byref.db'}") as engine:
            agent = agent_of(ByrefTools(engine), [list_orders, refund], *some, db=db, add_history_to_context=True)
            output = asyncio.run(run(agent, "run"))
            requests = engine.session("chat-42").usage().requests
    assert answers(output)["refund"].content == "3000 refunded" and requests == 4  # the history is not counted again


def test_cached_tokens_that_a_model_counts_apart_are_part_of_the_context(engine: Engine, tenant: str) -> None:
    class Claude(Scripted):
        """As Agno's class for Anthropic is called."""

    usage = {"input_tokens": 100, "output_tokens": 10, "cache_read_tokens": 5_000, "cache_write_tokens": 300}
    for kind, name, context in ((Claude, "claude", 5_410), (Scripted, "other", 110)):
        agent = agent_of(ByrefTools(engine, tenant=tenant), [], model=kind(turns=["Done."], usage=usage))
        asyncio.run(run(agent, "run", name))
        assert engine.session(name, tenant=tenant).context_tokens() == context


def test_reasoning_that_a_model_counts_apart_is_part_of_the_output(engine: Engine, tenant: str) -> None:
    gemini = gemini_metrics(prompt_token_count=20, candidates_token_count=198, thoughts_token_count=405)
    assert (gemini["output_tokens"], gemini["reasoning_tokens"]) == (198, 405)
    xai = {"input_tokens": 20, "output_tokens": 9, "reasoning_tokens": 94, "total_tokens": 123}
    openai = {"input_tokens": 20, "output_tokens": 103, "reasoning_tokens": 94, "total_tokens": 123}
    for kind, name, usage, made in (
        (type("Gemini", (Scripted,), {}), "gemini", gemini, 603),
        (Scripted, "xai", xai, 103),
        (Scripted, "openai", openai, 103),
        (Scripted, "no total", openai | {"total_tokens": 0}, 103),
    ):
        agent = agent_of(ByrefTools(engine, tenant=tenant), [], model=kind(turns=["Done."], usage=usage))
        asyncio.run(run(agent, "run", name))
        assert engine.session(name, tenant=tenant).usage().output_tokens == made


def gemini_metrics(**counts: int) -> dict[str, int]:
    """What Agno makes of Google's usage."""
    from agno.models.google import Gemini
    from google.genai.types import GenerateContentResponseUsageMetadata

    metrics = Gemini(id="gemini-2.5-flash", api_key="none")._get_metrics(GenerateContentResponseUsageMetadata(**counts))
    return {name: value for name, value in vars(metrics).items() if isinstance(value, int) and value}


def test_other_hooks_go_on_inside_and_outside(engine: Engine, tenant: str) -> None:
    seen = []

    def outer(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        seen.append((function_name, len(str(result := function_call(**arguments)))))
        return result

    async def inner(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        seen.append((function_name, len(str(result := await function_call(**arguments)))))
        return result

    byref = ByrefTools(engine, tenant=tenant)
    agent = agent_of(
        byref, [list_orders], [("list_orders", {})], [("code_interpreter", {"code": "len(orders)"})], "Done."
    )
    agent.tool_hooks = [outer, byref.hook]
    assert answers(asyncio.run(run(agent, "run")))["code_interpreter"].content == "3000"
    agent = agent_of(
        byref,
        [list_orders],
        [("list_orders", {})],
        [("code_interpreter", {"code": "len(orders)"})],
        "Done.",
        mode="arun",
    )
    agent.tool_hooks = [byref.hook, inner]
    assert answers(asyncio.run(run(agent, "arun")))["code_interpreter"].content == "3000"
    assert [name for name, _ in seen] == ["list_orders", "code_interpreter"] * 2
    assert seen[0][1] < 6_000 < seen[2][1]


def test_a_policy_and_its_tools(engine: Engine, tenant: str) -> None:
    byref = ByrefTools(
        engine,
        tenant=tenant,
        session="fixed",
        policy=Policy.references(),
        tools=["artifact_read"],
        context_window=16_000,
    )
    agent = agent_of(byref, [list_orders], [("list_orders", {})], "Done.")
    output = asyncio.run(run(agent, "run"))
    assert "artifact_id" in json.loads(str(answers(output)["list_orders"].content))
    assert list(byref.functions) == list(byref.async_functions) == ["artifact_read"]
    assert len(engine.session("fixed", tenant=tenant).ledger()) == 3


def priced() -> dict[str, Any]:
    """List the orders with what to say of them."""
    return {"display_instructions_for_model": "Show totals in euros.", **BIG}


@dataclass
class Noting(Scripted):
    """Notes what it was told by the system message of each request, as that was then."""

    told: list[str] = field(default_factory=list)

    def _next(self, messages: list[Message], tools: Any) -> ModelResponse:
        self.told.append(
            "".join(str(message.content) for message in messages if message.role in ("system", "developer"))
        )
        return super()._next(messages, tools)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("mode", MODES)
def test_what_a_tool_instructs_is_in_the_system_message_of_each_later_request(tmp_path: Path, mode: str) -> None:
    policy = Policy(trusted_instructions="all")
    with Engine(f"sqlite:///{tmp_path / 'byref.db'}") as engine:
        for turns in ([[("priced", {}), ("priced", {})], [("priced", {})], "Done."], ["And done."]):
            byref = ByrefTools(engine, policy=policy)  # as in another process
            model = Noting(turns=turns)
            instructions: Any = (byref.ainstructed if mode.startswith("a") else byref.instructed)("Be brief.")
            agent = agent_of(byref, [priced], mode=mode, model=model, instructions=instructions)
            output = asyncio.run(run(agent, mode))
            counts = [text.count("Show totals in euros.") for text in model.told]
            assert counts == ([0, 1, 1] if len(turns) > 1 else [1])
            assert all("Be brief." in text for text in model.told)
            assert not any("euros" in str(message.content) for message in output.messages if message.role == "tool")
        other = Noting(turns=["Fine."])
        byref = ByrefTools(engine, policy=policy)
        asyncio.run(run(agent_of(byref, [], model=other, instructions=byref.instructed("Be brief.")), "run", "another"))
        assert "euros" not in other.told[0]


@pytest.mark.parametrize(
    ("instructions", "when", "told"), [("Be brief.", "in later runs", 1), (None, "in this run", 0)]
)
def test_a_model_that_a_tool_cannot_instruct_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, instructions: str | None, when: str, told: int
) -> None:
    with Engine(f"sqlite:///{tmp_path / 'byref.db'}") as engine:
        byref = ByrefTools(engine, policy=Policy(trusted_instructions="all"))
        model = Noting(turns=[[("priced", {})], "Done."])
        asyncio.run(run(agent_of(byref, [priced], model=model, instructions=instructions), "run"))
    assert (
        f"the tool 'priced' gives instructions, which the model does not read {when}: give the agent instructions="
        in caplog.text
    )
    assert [text.count("euros") for text in model.told] == [0, told]
