"""Agno's agents with byref in them, driven by a scripted model of Agno's own interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.exceptions import StopAgentRun
from agno.media import Image
from agno.metrics import MessageMetrics
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run import RunContext
from agno.run.agent import RunContentEvent
from agno.tools import tool
from agno.tools.function import ToolResult
from crowd import Chat, crowd

from byref import Engine, InvalidId, Policy
from byref.adapters.agno import ByrefTools, session_name

PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)
BIG = {"orders": [{"id": n, "total": n % 50} for n in range(3_000)], "next_page": None}
MODES = ("run", "arun", "stream", "astream")


@dataclass
class Scripted(Model):
    """Answers by how many answers there are in this run, so that one model serves conversations at once."""

    id: str = "gpt-4o"
    turns: list[Any] = field(default_factory=list)
    requests: list[list[Message]] = field(default_factory=list)
    offered: list[list[str]] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=lambda: {"input_tokens": 2_000, "output_tokens": 30})

    def _next(self, messages: list[Message], tools: Any) -> ModelResponse:
        self.requests.append(list(messages))
        self.offered.append([tool["function"]["name"] for tool in tools or []])
        turn = self.turns[sum(message.role == "assistant" and not message.from_history for message in messages)]
        response = ModelResponse(role="assistant", response_usage=MessageMetrics(**self.usage))
        if isinstance(turn, str):
            response.content = turn
        else:
            response.tool_calls = [
                {
                    "id": f"call_{len(messages)}_{n}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for n, (name, arguments) in enumerate(turn)
            ]
        return response

    def invoke(self, *args: Any, messages: list[Message], tools: Any = None, **kwargs: Any) -> ModelResponse:
        return self._next(messages, tools)

    async def ainvoke(self, *args: Any, messages: list[Message], tools: Any = None, **kwargs: Any) -> ModelResponse:
        return self._next(messages, tools)

    def invoke_stream(
        self, *args: Any, messages: list[Message], tools: Any = None, **kwargs: Any
    ) -> Iterator[ModelResponse]:
        yield self._next(messages, tools)

    async def ainvoke_stream(
        self, *args: Any, messages: list[Message], tools: Any = None, **kwargs: Any
    ) -> AsyncIterator[ModelResponse]:
        yield self._next(messages, tools)

    def _parse_provider_response(self, response: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        raise NotImplementedError


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


def list_orders() -> dict[str, Any]:
    """List the orders."""
    return BIG


async def alist_orders() -> dict[str, Any]:
    """List the orders."""
    return BIG


def refund(ids: list[int], reason: str = "") -> str:
    """Refund orders by their ids."""
    return f"{len(ids)} refunded{reason and f': {reason}'}"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("sqlite:///:memory:") as made:
        yield made


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


@pytest.mark.parametrize("list_all", [list_orders, alist_orders])
@pytest.mark.parametrize("mode", MODES)
def test_a_big_result_is_a_reference_that_the_models_tools_and_other_tools_follow(
    engine: Engine, tenant: str, mode: str, list_all: Callable[[], Any]
) -> None:
    if list_all is alist_orders and not mode.startswith("a"):
        list_all = list_orders  # a sync run takes no async tool
    ids = {"$var": "orders", "jq": "map(.id)"}
    byref = ByrefTools(engine, tenant=tenant)
    agent = agent_of(
        byref,
        [tool(name="list_orders")(list_all), refund],
        [("list_orders", {})],
        [
            ("code_interpreter", {"code": "sum(o['total'] for o in orders)"}),
            ("refund", {"ids": ids, "reason": "$HOME"}),
        ],
        "Done.",
        mode=mode,
    )
    output = asyncio.run(run(agent, mode))
    given = answers(output)
    assert "orders" in json.loads(str(given["list_orders"].content))["variables"]
    assert given["code_interpreter"].content == str(sum(n % 50 for n in range(3_000)))
    assert given["refund"].content == "3000 refunded: $HOME"
    assert output.content == "Done."
    assert given["refund"].tool_args == {"ids": ids, "reason": "$HOME"}  # the record holds what the model wrote
    assert output.tools[-1].tool_args == {"ids": ids, "reason": "$HOME"}
    model = agent.model
    assert isinstance(model, Scripted)
    assert set(model.offered[0]) == {"list_orders", "refund", *byref.functions}

    session = engine.session("chat-42", tenant=tenant)
    kinds = sorted(entry.kind for entry in session.ledger())
    assert kinds == ["output", "output", "reply", "resolution", "usage", "usage", "usage"]
    assert session.usage().requests == 3 and session.context_tokens() == 2_030
    assert session.context_window == engine.session("x", tenant=tenant, model="gpt-4o").context_window  # the agent's


@pytest.mark.parametrize("mode", MODES)
def test_errors_are_the_calls_answers_and_stay_readable(engine: Engine, tenant: str, mode: str) -> None:
    def fail(words: str) -> str:
        """Fail."""
        raise ValueError(words * 100_000)

    agent = agent_of(
        ByrefTools(engine, tenant=tenant),
        [refund, fail],
        [("refund", {"ids": {"$var": "order"}}), ("fail", {"words": "x"}), ("artifact_read", {"artifact_id": "zz"})],
        "Done.",
        mode=mode,
    )
    given = answers(asyncio.run(run(agent, mode)))
    assert all(message.tool_call_error for message in given.values()) and len(given) == 3
    assert "no artifact or variable 'order'" in str(given["refund"].content)
    assert str(given["fail"].content).startswith("xxx") and len(str(given["fail"].content)) < 20_000
    assert "zz" in str(given["artifact_read"].content)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_tool_result_has_beside_its_content_is_kept(engine: Engine, tenant: str, mode: str) -> None:
    def look() -> ToolResult:
        """Look."""
        return ToolResult(content=json.dumps(BIG), images=[Image(content=PNG, id="one")], metadata={"a": 1})

    agent = agent_of(ByrefTools(engine, tenant=tenant), [look], [("look", {})], "Done.", mode=mode)
    assert "variables" in json.loads(str(answers(asyncio.run(run(agent, mode)))["look"].content))
    assert [image.id for image in shown(agent)] == ["one"]


def test_an_image_that_the_model_asks_for_is_an_image(engine: Engine, tenant: str) -> None:
    data = engine.session("chat-42", tenant=tenant).store_artifact(PNG, content_type="image/png")
    byref = ByrefTools(engine, tenant=tenant, tools=["get_artifact"])
    agent = agent_of(byref, [], [("get_artifact", {"pointer_or_name": data.id})], "Done.")
    assert answers(asyncio.run(run(agent, "run")))["get_artifact"].content == f"[image: png, {len(PNG)} bytes]"
    assert [(image.get_content_bytes(), image.mime_type) for image in shown(agent)] == [(PNG, "image/png")]


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
def test_what_ends_the_run_is_for_the_user_and_whole(engine: Engine, tenant: str, mode: str) -> None:
    @tool(stop_after_tool_call=True)
    def export() -> str:
        """Export."""
        return json.dumps(BIG)

    agent = agent_of(ByrefTools(engine, tenant=tenant), [export], [("export", {})], mode=mode)
    assert answers(asyncio.run(run(agent, mode)))["export"].content == json.dumps(BIG)


@pytest.mark.parametrize("mode", ("run", "arun"))
def test_a_tool_that_stops_the_agent_still_does(engine: Engine, tenant: str, mode: str) -> None:
    def stop(words: str) -> str:
        """Stop."""
        raise StopAgentRun(words)

    agent = agent_of(ByrefTools(engine, tenant=tenant), [stop], [("stop", {"words": "enough"})], "Never.", mode=mode)
    asyncio.run(run(agent, mode))
    assert isinstance(agent.model, Scripted) and len(agent.model.requests) == 1


def test_conversations_and_tenants_at_once_keep_apart(engine: Engine, tenant: str) -> None:
    def mine(run_context: Any) -> dict[str, Any]:
        """My data."""
        return {"owner": f"{run_context.user_id}/{run_context.session_id}", **BIG}

    byref = ByrefTools(engine, tenant=lambda context: f"{tenant}-{context.user_id}")
    agent = agent_of(
        byref, [mine], [("mine", {})], [("code_interpreter", {"code": "mine['owner']"})], "Done.", mode="stream"
    )
    owners = [(who, chat) for who in ("acme", "zeta") for chat in ("chat-1", "chat-2")]

    async def every() -> list[Any]:
        return await asyncio.gather(*(run(agent, "stream", chat, user_id=who) for who, chat in owners))

    for (who, chat), output in zip(owners, asyncio.run(every()), strict=True):
        assert answers(output)["code_interpreter"].content == f"{who}/{chat}"


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
        f"the tool 'priced' instructs the model, which is not told {when}: give the agent instructions=" in caplog.text
    )
    assert [text.count("euros") for text in model.told] == [0, told]


@pytest.mark.parametrize("many", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_crowd_of_conversations_keeps_apart(engine: Engine, tenant: str, many: int) -> None:
    byref = ByrefTools(engine, tenant=lambda context: f"{tenant}-{context.user_id}")

    def agent(chat: Chat, mode: str) -> Agent:
        def mine() -> dict[str, Any]:
            return chat.mine()

        async def amine() -> dict[str, Any]:
            return await chat.amine()

        def echo(data: dict[str, Any]) -> str:
            return chat.echo(data)

        model = Scripted(turns=[*chat.calls, "Done."], usage={"input_tokens": chat.tokens, "output_tokens": 30})
        own = tool(name="mine", description="Mine.")(amine if mode.startswith("a") else mine)
        return agent_of(byref, [own, echo], mode=mode, model=model)

    async def talk(chat: Chat) -> None:
        mode = "arun" if chat.name[0] == "a" else "astream"
        await run(agent(chat, mode), mode, chat.name, user_id=chat.user)

    def talk_here(chat: Chat) -> None:
        agent(chat, "run").run("Go", session_id=chat.name, user_id=chat.user)

    crowd(talk, talk_here, lambda chat: engine.session(chat.name, tenant=f"{tenant}-{chat.user}"), many=many)
