"""Calls with byref's plugin: which data it sees, in which order of plugins, and for which conversation."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from drivers.strands import Scripted, Turn
from drivers.strands import results as results_in
from mcp.server import MCPServer
from mcp.shared.memory import create_client_server_memory_streams
from pydantic import BaseModel
from strands import Agent, ToolContext, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent, HookOrder
from strands.multiagent import GraphBuilder, Swarm
from strands.session.file_session_manager import FileSessionManager
from strands.tools.executors import SequentialToolExecutor
from strands.tools.mcp import MCPClient
from strands.vended_plugins.context_offloader import ContextOffloader

from byref import ConfigurationError, Engine, Policy
from byref.adapters.strands import STATE, ByrefOffloadStorage, ByrefPlugin
from byref.adapters.strands.content import output_of

ORDERS = [{"id": n, "total": n % 50} for n in range(3_000)]
REFUND = ("refund", {"orders": {"$var": "orders", "jq": "map(.id)"}})


@tool
def list_orders() -> dict[str, Any]:
    """List the orders."""
    return {"orders": ORDERS, "next_page": None}


@tool(context=True)
def refund(orders: list[int], tool_context: ToolContext) -> str:
    """Refund orders."""
    return f"{len(orders)} refunded, {sorted(tool_context.tool_use)}"


REFUNDED = "3000 refunded, ['input', 'name', 'toolUseId']"


@pytest.fixture(scope="module")
def one_engine() -> Iterator[Engine]:
    with Engine("sqlite://", jail="language-only") as engine:
        yield engine


@pytest.fixture
def engine(one_engine: Engine) -> Iterator[Engine]:
    yield one_engine
    one_engine.delete_tenant("default")


def agent_of(plugin: ByrefPlugin, *turns: Turn, **rest: Any) -> Agent:
    rest = {"tools": [list_orders, refund], "callback_handler": None, "plugins": [plugin]} | rest
    return Agent(model=rest.pop("model", None) or Scripted(*turns), **rest)


def results(agent: Agent) -> list[dict[str, Any]]:
    return results_in(agent.messages)


def shapes(engine: Engine, session: str = "chat") -> dict[str, str]:
    return {variable.name: variable.shape for variable in engine.session(session).variables()}


# MCP


@contextlib.asynccontextmanager
async def _server() -> AsyncIterator[Any]:
    server = MCPServer("shop")

    @server.tool(name="orders")
    def orders(most: int = 3_000) -> list[dict[str, int]]:
        return ORDERS[:most]

    @server.tool(name="page")
    def page() -> dict[str, Any]:
        return {"rows": ORDERS}

    @server.tool(name="words")
    def words() -> str:
        return "ten words"

    async with create_client_server_memory_streams() as (client, there), anyio.create_task_group() as group:
        low = server._lowlevel_server
        group.start_soon(lambda: low.run(*there, low.create_initialization_options()))
        yield client
        group.cancel_scope.cancel()


@pytest.fixture(scope="module")
def mcp_tools() -> Iterator[list[Any]]:
    with MCPClient(_server) as client:
        yield list(client.list_tools_sync())


def test_what_a_tool_of_mcp_returns_is_the_data_and_the_message_keeps_none_of_it(
    engine: Engine, mcp_tools: list[Any]
) -> None:
    calls: Turn = [("orders", {}), ("page", {}), ("words", {}), ("orders", {"most": 2}), ("orders", {"most": 0})]
    agent = agent_of(ByrefPlugin(engine, session="chat"), calls, [REFUND], "ok", tools=[*mcp_tools, refund])
    agent("go")
    big, page, words, two, none, refunded = results(agent)
    assert shapes(engine) | {"orders": "array(3000) of object(2 keys)"} == shapes(engine)
    assert shapes(engine)["rows"] == "array(3000) of object(2 keys)"
    for result in (big, page):
        assert result.keys() == {"toolUseId", "status", "content", "isError"} and len(json.dumps(result)) < 3_000
    assert words["content"] == [{"text": "ten words"}] and words["structuredContent"] == {"result": "ten words"}
    assert [json.loads(block["text"]) for block in two["content"]] == two["structuredContent"]["result"] == ORDERS[:2]
    assert none["content"] == [] and none["structuredContent"] == {"result": []}
    assert refunded["content"] == [{"text": REFUNDED}]


def test_structured_content_and_blocks_that_say_something_else_are_both_there() -> None:
    given = {"toolUseId": "a", "status": "success", "content": [{"text": "hello"}]}
    plain = {**given}
    assert output_of({**given, "structuredContent": {}}) == {
        "content": given["content"],
        "structuredContent": {},
        "isError": False,
    }
    assert output_of({**given, "structuredContent": {"n": [1]}})["structuredContent"] == {"n": [1]}
    assert output_of({**given, "structuredContent": 7}) == plain == output_of({**given, "metadata": {"x": 1}})
    assert output_of({**given, "structuredContent": ["hello"]})["content"] == [{"json": ["hello"]}]
    assert output_of({**given, "structuredContent": {"names": ["hello"]}})["content"] == [
        {"json": {"names": ["hello"]}}
    ]
    assert "structuredContent" in output_of({**given, "structuredContent": ["hallo"]})


# What functions return


class Order(BaseModel):
    id: int
    at: datetime


def test_what_has_no_json_form_is_data_all_the_same_and_small_stays_as_strands_has_it(engine: Engine) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    @tool
    def rows(many: int) -> list[dict[str, Any]]:
        """List rows."""
        return [{"id": n, "at": at, "price": Decimal("1.50")} for n in range(many)]

    @tool
    async def models(many: int) -> list[Order]:
        """List models."""
        return [Order(id=n, at=at) for n in range(many)]

    agent = agent_of(
        ByrefPlugin(engine, session="chat"),
        [("rows", {"many": 2_000}), ("models", {"many": 2_000}), ("rows", {"many": 2}), ("models", {"many": 1})],
        "ok",
        tools=[rows, models],
    )
    agent("go")
    assert shapes(engine) == {"rows": "array(2000) of object(3 keys)", "models": "array(2000) of object(2 keys)"}
    value: Any = engine.session("chat").variable("rows").value()
    assert value[1]["id"] == 1 and value[1]["at"].startswith("2026-01-01T00:00:00")
    small = [result["content"] for result in results(agent)[2:]]
    assert small == [[{"text": str(rows(2))}], [{"text": str(asyncio.run(models(1)))}]]
    assert all(type(result) is dict for result in results(agent))


def test_what_another_plugin_has_written_is_not_passed_over(engine: Engine) -> None:
    @tool
    def rows() -> list[Any]:
        """List rows."""
        return [{"secret": datetime.now(UTC)}] * 2_000

    def redact(event: AfterToolCallEvent) -> None:
        event.result["content"] = [{"text": "[redacted]"}]

    agent = agent_of(ByrefPlugin(engine, session="chat"), [("rows", {})], "ok", tools=[rows], hooks=[redact])
    agent("go")
    assert results(agent)[0]["content"] == [{"text": "[redacted]"}] and engine.session("chat").artifacts() == []


# Order


@pytest.mark.parametrize("is_first", [True, False])
def test_other_plugins_see_the_call_as_written_and_the_result_as_given(engine: Engine, is_first: bool) -> None:
    seen: list[Any] = []

    def before(event: BeforeToolCallEvent) -> None:
        seen.append(event.tool_use["input"])

    def after(event: AfterToolCallEvent) -> None:
        seen.append((event.tool_use["input"], sorted(event.tool_use), len(str(event.result["content"]))))

    plugin = ByrefPlugin(engine, session="chat")
    agent = agent_of(plugin, [("list_orders", {})], [REFUND], "ok", hooks=[before, after] if is_first else [])
    if not is_first:
        agent.add_hook(before)
        agent.add_hook(after)
    agent("go")
    assert seen[0] == {} and seen[1][2] > 50_000
    assert seen[2] == seen[3][0] == REFUND[1] and seen[3][1] == ["input", "name", "toolUseId"]
    assert results(agent)[1]["content"] == [{"text": REFUNDED}]


def test_an_approval_is_asked_for_references_and_given_in_another_process(tmp_path: Path) -> None:
    def approve(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "refund":
            assert event.interrupt("approval", reason=event.tool_use["input"]) == "yes"

    def begin(engine: Engine, *turns: Turn) -> Agent:
        manager = FileSessionManager("chat", storage_dir=str(tmp_path / "chats"))
        return agent_of(ByrefPlugin(engine), *turns, session_manager=manager, hooks=[approve])

    url = f"sqlite:///{tmp_path / 'byref.db'}"
    with Engine(url) as engine:
        (asked,) = begin(engine, [("list_orders", {})], [REFUND])("go").interrupts or []
        assert asked.reason == REFUND[1]
    with Engine(url) as engine:
        agent = begin(engine, "ok")
        agent([{"interruptResponse": {"interruptId": asked.id, "response": "yes"}}])
        assert results(agent)[1]["content"] == [{"text": REFUNDED}]
    # "1234," is in the ids of all orders; "1234" alone may be in a message's time.
    assert not [path for path in (tmp_path / "chats").rglob("*.json") if "1234," in path.read_text()]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_plugin_that_shortens_results_goes_with_an_order_before_it(engine: Engine, is_first: bool) -> None:
    plugins = [
        ByrefPlugin(engine, session="chat", order=HookOrder.INTERVENTION_OUTPUT + 1),
        ContextOffloader(storage=ByrefOffloadStorage(engine, session="chat")),
    ]
    turns: list[Turn] = [[("list_orders", {})], [REFUND], "ok"]
    agent = agent_of(plugins[0], *turns, plugins=plugins if is_first else plugins[::-1])  # type: ignore[arg-type]
    agent("go")
    assert results(agent)[1]["content"] == [{"text": REFUNDED}]


# Which conversation


@pytest.mark.parametrize("executor", [None, SequentialToolExecutor()])
def test_an_agent_in_a_tool_does_not_set_the_context(engine: Engine, executor: Any) -> None:
    plugin = ByrefPlugin(engine, session="chat")
    inner = agent_of(plugin, model=Scripted([("list_orders", {})], "done", tokens=80_000), name="inner")
    another = agent_of(plugin, model=Scripted("done", tokens=70_000), name="another")

    @tool
    def ask() -> str:
        """Ask another agent."""
        return str(another("go"))

    contexts: list[int] = []

    def saying(turn: Any) -> Any:
        def said(messages: Any) -> Any:
            contexts.append(engine.session("chat").context_tokens())
            return turn

        return said

    model = Scripted(saying([("inner", {"input": "list"}), ("ask", {})]), saying("ok"))
    agent = agent_of(plugin, model=model, tools=[inner, ask], tool_executor=executor)
    agent("go")
    assert contexts[0] == 0 and 910 < contexts[1] < 5_000
    session = engine.session("chat")
    assert session.context_tokens() == 910 and session.usage().input_tokens == 2 * 900 + 2 * 80_000 + 70_000


def test_listening_to_a_tools_events_is_not_being_in_it(engine: Engine) -> None:
    plugin = ByrefPlugin(engine, session="chat")

    @tool
    async def slow() -> Any:
        """Say something first."""
        yield "one"
        yield "two"

    async def run() -> None:
        agent = agent_of(plugin, [("slow", {})], "ok", tools=[slow], tool_executor=SequentialToolExecutor())
        async for event in agent.stream_async("go"):
            if "tool_stream_event" in event:
                break
        await agent_of(plugin, model=Scripted("ok", tokens=5_000)).invoke_async("go")

    asyncio.run(run())
    assert engine.session("chat").context_tokens() == 5_010


def test_agents_of_a_swarm_share_the_conversation(engine: Engine) -> None:
    plugin = ByrefPlugin(engine)
    handoff: Turn = [("handoff_to_agent", {"agent_name": "payer", "message": "refund $orders"})]
    reader = agent_of(plugin, [("list_orders", {})], handoff, "read", name="reader")
    payer = agent_of(plugin, [REFUND], "paid", name="payer")
    Swarm([reader, payer], plugins=[plugin])("refund all")
    assert results(payer)[0]["content"] == [{"text": REFUNDED}]
    assert len(list(engine.sessions())) == 1
    assert plugin.session(agent_of(plugin)).variables() == []


def test_agents_of_a_graph_without_a_session_manager_share_a_conversation_of_their_own(engine: Engine) -> None:
    plugin = ByrefPlugin(engine)
    graph = GraphBuilder()
    graph.add_node(agent_of(plugin, [("list_orders", {})], "read", name="reader"), "reader")
    payer = agent_of(plugin, [REFUND], "paid", name="payer")
    graph.add_node(payer, "payer")
    graph.add_edge("reader", "payer")
    graph.set_max_node_executions(2)
    graph.set_plugins([plugin])
    graph.build()("refund all")
    assert results(payer)[0]["content"] == [{"text": REFUNDED}]
    assert len(list(engine.sessions())) == 1


def test_agents_of_a_graph_share_the_conversation_of_its_session_manager(engine: Engine, tmp_path: Path) -> None:
    plugin = ByrefPlugin(engine)

    def build(*turns: Turn) -> tuple[Any, Agent]:
        agent = agent_of(plugin, *turns, name="inner")
        inner, graph = GraphBuilder(), GraphBuilder()
        inner.add_node(agent, "inner")
        inner.set_max_node_executions(1)
        graph.add_node(inner.build(), "outer")
        graph.set_max_node_executions(1)
        graph.set_session_manager(FileSessionManager("graph-7", storage_dir=str(tmp_path)))
        graph.set_plugins([plugin])
        return graph.build(), agent

    build([("list_orders", {})], "read")[0]("list")
    graph, agent = build([REFUND], "paid")
    graph("refund")
    assert results(agent)[0]["content"] == [{"text": REFUNDED}]
    assert [info.id for info in engine.sessions()] == ["graph-7"]


def test_a_snapshot_takes_the_conversation_along(engine: Engine) -> None:
    agent = agent_of(ByrefPlugin(engine), [("list_orders", {})], "ok")
    assert agent.take_snapshot(preset="session").data["state"] == {}
    agent("list")
    kept = agent.take_snapshot(preset="session")
    other = agent_of(ByrefPlugin(engine), [REFUND], "ok")
    other.load_snapshot(kept)
    other("refund")
    assert results(other)[-1]["content"] == [{"text": REFUNDED}]
    assert other.state.get(STATE)["session"].startswith(agent.session_id)
    assert len(list(engine.sessions())) == 1


# What goes wrong


def test_an_answer_that_is_paid_for_is_not_lost_with_the_conversation(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    agent = agent_of(ByrefPlugin(engine, session="chat"), "one", "two")
    agent("hi")
    engine.session("chat").end()
    assert str(agent("hi")).strip() == "two"
    assert "could not record usage" in caplog.text


def test_a_model_that_cannot_count_is_estimated(engine: Engine) -> None:
    class Broken(Scripted):
        async def count_tokens(self, *args: Any, **kwargs: Any) -> int:
            raise RuntimeError("the API is down")

    manager = SlidingWindowConversationManager(window_size=2)
    agent = agent_of(ByrefPlugin(engine, session="chat"), model=Broken("a", "b", "c"), conversation_manager=manager)
    for _ in range(3):
        agent("hello")
    compactions = [entry for entry in engine.session("chat").ledger() if entry.kind == "compaction"]
    assert compactions and all(0 < entry.tokens < 100 for entry in compactions)


@pytest.mark.parametrize("name", ["artifact_read", "artifact-read"])
def test_a_tool_with_a_name_of_byrefs_is_refused(engine: Engine, name: str) -> None:
    @tool(name=name)
    def mine() -> str:
        """Read."""
        return "mine"

    with pytest.raises(ConfigurationError, match=rf"'{name}'.*rename it"):
        agent_of(ByrefPlugin(engine), tools=[mine])
    agent_of(ByrefPlugin(engine, tools=["code_interpreter"], policy=Policy()), tools=[mine])


def test_code_calls_an_agents_tools_as_direct_calls(engine: Engine) -> None:
    heard: list[str] = []

    @tool
    def search_orders(region: str, limit: int = 3) -> list[dict[str, Any]]:
        """Find orders of a region."""
        if region == "nowhere":
            raise ValueError("no such region")
        return [{"region": region, "total": n} for n in range(limit)]

    @tool(context=True)
    def search_user(tool_context: ToolContext) -> str:
        """Ask."""
        return str(tool_context.interrupt("where", reason="Where?"))

    code = (
        "import asyncio\n"
        "found = await asyncio.gather(*[search_orders(r, limit=2_000) for r in ('EU', 'US')])\n"
        "print(sum(o['total'] for orders in found for o in orders))\n"
        "for work in (lambda: search_orders('nowhere'), search_user, lambda: refund([1])):\n"
        "    try:\n"
        "        work()\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error)"
    )
    plugin = ByrefPlugin(engine, code_functions=["search_*"])
    tools = [search_orders, search_user, refund]
    agent = agent_of(plugin, [("code_interpreter", {"code": code})], "Done.", tools=tools)
    agent.add_hook(lambda event: heard.append(event.tool_use["name"]), BeforeToolCallEvent)
    agent("Go")
    printed = str(results(agent)[0]["content"][0]["text"]).splitlines()
    assert printed[0] == "3998000"
    assert printed[1].startswith("FunctionError search_orders(): ") and "no such region" in printed[1]
    assert printed[2].startswith("PermissionError") and printed[3].startswith("NameError")
    assert heard == ["code_interpreter", *["search_orders"] * 3, "search_user"]
    description = agent.tool_registry.registry["code_interpreter"].tool_spec["description"]
    assert "search_orders(region: str, limit: int = 3)  # Find orders of a region." in description
    assert len(agent.messages) == 4
