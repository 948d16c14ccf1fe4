"""The requests to LangChain's models and what is recorded of them: summaries, models, parallel agents, a database that is away."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drivers.langchain import Scripted, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    LLMToolSelectorMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import tool
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send
from pydantic import BaseModel

from byref import ConfigurationError, Engine, Policy, SessionGone
from byref.adapters.langchain import ByrefMiddleware

BIG = {"orders": [{"id": n, "total": n % 50} for n in range(2_000)], "next_page": None}
MODES = ("sync", "async")


def thread(name: str = "chat-42") -> Any:
    return {"configurable": {"thread_id": name}}


def ran(agent: Any, mode: str = "sync", words: str = "Which orders?", name: str = "chat-42", **context: Any) -> Any:
    given = {"messages": [("user", words)]}
    if mode == "sync":
        return agent.invoke(given, thread(name), **context)
    return asyncio.run(agent.ainvoke(given, thread(name), **context))


def results(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


@tool
def list_orders() -> dict[str, Any]:
    """List the orders."""
    return BIG


@tool
def refund(ids: list[int]) -> str:
    """Refund orders by their ids."""
    return f"{len(ids)} refunded"


IDS = {"ids": {"$var": "orders", "jq": "map(.id)"}}


def usages(engine: Engine, tenant: str) -> list[Any]:
    return [entry for entry in engine.session("chat-42", tenant=tenant).ledger() if entry.kind == "usage"]


def summarising(engine: Engine, tenant: str) -> list[AgentMiddleware[Any, Any, Any]]:
    model = scripted("They asked for orders.")
    return [
        ByrefMiddleware(engine, tenant=tenant),
        SummarizationMiddleware(model, trigger=("messages", 6), keep=("messages", 2)),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_a_summary_is_followed_by_what_data_is_still_there_in_the_request_alone(
    engine: Engine, tenant: str, mode: str
) -> None:
    model = scripted(lambda messages: [("list_orders", {})] if len(messages) == 1 else "Fine.")
    saver = InMemorySaver()
    for words in ("Which orders?", "And?", "And then?", "Last?"):
        # Each turn another process, for all that byref remembers in one.
        agent = create_agent(model, [list_orders], middleware=summarising(engine, tenant), checkpointer=saver)
        state = ran(agent, mode, words)
        if words == "And then?":
            engine.session("chat-42", tenant=tenant).process(BIG, tool="later", call_id="x")
    (summary,) = [m for m in state["messages"] if "They asked for orders." in str(m.content)]
    assert "Data of this conversation" not in str(summary.content) and "lc_source" in summary.additional_kwargs
    seen = [str(m.content) for request in model.requests for m in request if "They asked for" in str(m.content)]
    assert len(seen) == 2 and seen[0] == seen[1]  # to the byte, for the prompt cache, though there is more data now
    assert seen[0].startswith(f"{summary.content}\n\n") and "- orders: array(2000) of object(2 keys)" in seen[0]
    kinds = [entry.kind for entry in engine.session("chat-42", tenant=tenant).ledger()]
    assert kinds.count("compaction") == 1


def test_the_list_after_a_summary_names_no_earlier_list_and_what_the_host_stored(engine: Engine, tenant: str) -> None:
    session = engine.session("s", tenant=tenant)
    session.store_artifact("call Ann", name="reminder-ann")
    model = scripted("Fine.")
    agent = create_agent(model, middleware=[ByrefMiddleware(engine, session="s", tenant=tenant)])
    for n in range(6):
        summary = HumanMessage(f"Summary {n}.", additional_kwargs={"lc_source": "summarization"})
        agent.invoke({"messages": [summary, HumanMessage("And?")]})
        (_, *listed) = str(model.requests[-1][0].content).split("Data of this conversation")[1].splitlines()
        assert listed == ["- reminder-ann: text, 8 bytes"]
    assert len(session.artifacts()) == 4  # the last three lists, and the host's


def test_a_summary_where_no_data_is_stays_as_it_is(engine: Engine, tenant: str) -> None:
    model = scripted("Fine.")
    agent = create_agent(model, middleware=summarising(engine, tenant), checkpointer=InMemorySaver())
    for words in ("One?", "Two?", "Three?", "Four?", "Five?"):
        ran(agent, words=words)
    seen = [str(m.content) for request in model.requests for m in request if "They asked for" in str(m.content)]
    assert len(seen) >= 2 and all(text.endswith("They asked for orders.") for text in seen)
    session = engine.session("chat-42", tenant=tenant)
    assert [entry.kind for entry in session.ledger()].count("compaction") == 1 and session.artifacts() == []


@pytest.mark.parametrize("mode", ["updates", "values"])
def test_a_stream_has_the_shape_that_it_has_without_byref(engine: Engine, tenant: str, mode: Any) -> None:
    def shapes(middleware: list[Any]) -> list[Any]:
        model = scripted(lambda messages: [("list_orders", {})] if len(model.requests) < 3 else "Done.")
        agent = create_agent(model, [list_orders], middleware=middleware, checkpointer=InMemorySaver())
        given: Any = {"messages": [("user", "Which orders?")]}
        return [
            {
                key: [type(one).__name__ for one in value["messages"]] if isinstance(value, dict) else type(value)
                for key, value in chunk.items()
            }
            for chunk in agent.stream(given, thread(), stream_mode=mode)
        ]

    both = summarising(engine, tenant)
    assert shapes(both) == shapes(both[1:])


def test_a_summary_that_is_made_for_each_request_has_no_id(engine: Engine, tenant: str) -> None:
    class Shortening(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            told = HumanMessage("They asked for orders.", additional_kwargs={"lc_source": "summarization"})
            return handler(request.override(messages=[told, *request.messages[-1:]]))

    engine.session("chat-42", tenant=tenant).process(BIG, tool="list_orders", call_id="1")
    model = scripted([("list_orders", {})], "Done.")
    agent = create_agent(model, [list_orders], middleware=[Shortening(), ByrefMiddleware(engine, tenant=tenant)])
    model.turns = [lambda messages: "Done." if isinstance(messages[-1], ToolMessage) else [("list_orders", {})]]
    ran(agent)
    first, second = (str(request[0].content) for request in model.requests)
    assert first == second and "- orders: array(2000) of object(2 keys)" in first
    kinds = [entry.kind for entry in engine.session("chat-42", tenant=tenant).ledger()]
    assert kinds.count("compaction") == 1


@pytest.mark.parametrize("mode", MODES)
def test_of_agents_side_by_side_one_is_the_context(engine: Engine, tenant: str, mode: str) -> None:
    byref = ByrefMiddleware(engine, tenant=tenant)
    model = scripted([("list_orders", {})], "Done.")
    agent = create_agent(model, [list_orders], middleware=[byref])
    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("last", create_agent(scripted("Well.", tokens=77), middleware=[byref]))
    branches = lambda state: [Send("agent", {"messages": [("user", str(n))]}) for n in range(4)]  # noqa: E731
    graph.add_conditional_edges(START, branches, ["agent"])
    graph.add_edge("agent", "last")
    for _ in range(2):
        ran(graph.compile(), mode)
    setting = [entry.detail["sets_context"] for entry in usages(engine, tenant)]
    assert len(setting) == 18 and setting.count(True) == 6  # one of four agents, twice, and the one after them
    assert setting[8] and setting[17]
    assert engine.session("chat-42", tenant=tenant).context_tokens() == 87


@pytest.mark.parametrize("mode", MODES)
def test_agents_one_after_the_other_are_each_the_context(engine: Engine, tenant: str, mode: str) -> None:
    graph = StateGraph(MessagesState)
    for name, tokens in (("first", 500), ("second", 700)):
        made = create_agent(scripted("Done.", tokens=tokens), middleware=[ByrefMiddleware(engine, tenant=tenant)])
        graph.add_node(name, made)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    ran(graph.compile(), mode)
    assert [entry.detail["sets_context"] for entry in usages(engine, tenant)] == [True, True]
    assert engine.session("chat-42", tenant=tenant).context_tokens() == 710


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_that_comes_at_run_time_gets_data(engine: Engine, tenant: str, mode: str) -> None:
    class Dynamic(AgentMiddleware[Any, Any, Any]):
        def offered(self, request: Any) -> Any:
            return request.override(tools=[*request.tools, refund])

        def found(self, request: Any) -> Any:
            return request.override(tool=refund) if request.tool_call["name"] == "refund" else request

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(self.offered(request))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(self.offered(request))

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(self.found(request))

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(self.found(request))

    byref: Any = ByrefMiddleware(engine, tenant=tenant)
    for name, middleware in (("inside", [byref, Dynamic()]), ("outside", [Dynamic(), byref])):
        model = scripted([("list_orders", {})], [("refund", IDS)], "Done.")
        agent = create_agent(model, [list_orders], middleware=middleware)
        assert results(ran(agent, mode, name=name))[-1].content == "2000 refunded"


def hide(file: Path) -> None:
    """Take all tables away, as a database that cannot be reached."""
    with sqlite3.connect(file) as connection:
        named = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'byref%'"
        ).fetchall()
        for (name,) in named:
            connection.execute(f"ALTER TABLE {name} RENAME TO gone_{name}")
    connection.close()


@pytest.mark.parametrize("mode", MODES)
def test_of_a_conversation_that_has_ended_no_model_is_asked(engine: Engine, tenant: str, mode: str) -> None:
    model = scripted("Done.")
    agent = create_agent(model, middleware=[ByrefMiddleware(engine, tenant=tenant)])
    ran(agent, mode)
    engine.session("chat-42", tenant=tenant).end()
    with pytest.raises(SessionGone):
        ran(agent, mode)
    assert len(model.requests) == 1


def test_an_answer_is_there_though_the_conversation_ended_under_it(
    engine: Engine, tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    def ending(messages: list[BaseMessage]) -> str:
        engine.session("chat-42", tenant=tenant).end()
        return "Done."

    agent = create_agent(scripted(ending), middleware=[ByrefMiddleware(engine, tenant=tenant)])
    assert ran(agent)["messages"][-1].content == "Done." and "could not record the usage" in caplog.text


def test_the_window_is_that_of_the_model_that_is_asked(engine: Engine, tenant: str) -> None:
    @tool
    def page(number: int) -> str:
        """A page of text."""
        return f"{number:05d} " * 10_000

    policy = Policy(max_result_tokens=None, context_percentage=0.25, max_threshold_bytes=None)
    routes = {}
    for number, (name, window) in enumerate((("big", 400_000), ("small", 20_000), ("big again", 400_000))):
        model = scripted([("page", {"number": number})], "Done.", model=name, profile={"max_input_tokens": window})
        agent = create_agent(model, [page], middleware=[ByrefMiddleware(engine, tenant=tenant, policy=policy)])
        (message,) = results(ran(agent))
        routes[name] = len(str(message.content)) == 60_000
        last = engine.session("chat-42", tenant=tenant).ledger()[-1]
        assert last.model == name
    assert routes == {"big": True, "small": False, "big again": True}


def test_a_model_may_be_known_by_its_provider_alone(engine: Engine, tenant: str) -> None:
    class Bedrock(Scripted):
        model_id: str = "us.anthropic.claude-sonnet-4-20250514-v1:0"

    class Traced(Scripted):
        def _get_ls_params(self, **kwargs: Any) -> Any:
            return {"ls_model_name": "gpt-4o"}

    for name, kind in (("bedrock", Bedrock), ("traced", Traced)):
        agent = create_agent(
            scripted("Done.", kind=kind, model=None), middleware=[ByrefMiddleware(engine, tenant=tenant)]
        )
        ran(agent, name=name)
    windows = [engine.session(name, tenant=tenant).context_window for name in ("bedrock", "traced")]
    assert windows == [200_000, 128_000]


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_named_as_one_of_byrefs_is_refused(engine: Engine, tenant: str, mode: str) -> None:
    @tool
    def artifact_read() -> str:
        """Read what is mine."""
        return "mine"

    model = scripted([("artifact_read", {})], "Done.")
    agent = create_agent(model, [artifact_read], middleware=[ByrefMiddleware(engine, tenant=tenant)])
    with pytest.raises(ConfigurationError, match="'artifact_read' of its own"):
        ran(agent, mode)
    assert not model.requests
    without = ByrefMiddleware(engine, tenant=tenant, tools=["code_interpreter"])
    assert results(ran(create_agent(model, [artifact_read], middleware=[without]), mode))[0].content == "mine"


def test_a_node_of_ones_own_records_what_there_is(engine: Engine, tenant: str, tmp_path: Path) -> None:
    def graph(byref: ByrefMiddleware, model: Scripted, before: Callable[[], object]) -> Any:
        def node(state: MessagesState) -> dict[str, list[Any]]:
            answer = model.invoke(state["messages"])
            before()
            byref.record_usage(answer)
            return {"messages": [answer]}

        made = StateGraph(MessagesState)
        made.add_node("model", node)
        made.add_edge(START, "model")
        return made.compile()

    byref = ByrefMiddleware(engine, tenant=tenant)
    ran(graph(byref, scripted("Done.", tokens=None), lambda: None))
    ran(graph(byref, scripted("Done."), lambda: None))
    assert [entry.input_tokens for entry in usages(engine, tenant)] == [1_000]
    with Engine(f"sqlite:///{tmp_path / 'byref.db'}") as away:
        state = ran(graph(ByrefMiddleware(away), scripted("Done."), lambda: hide(tmp_path / "byref.db")))
    assert state["messages"][-1].content == "Done."


def test_usage_may_be_recorded_outside_of_a_run(engine: Engine, tenant: str) -> None:
    byref = ByrefMiddleware(engine, tenant=tenant, session="chat-42")
    byref.record_usage(scripted("Done.").invoke("Hello"))
    assert byref.session().context_tokens() == 1_010


def test_a_system_message_stays_the_providers_own(engine: Engine, tenant: str) -> None:
    blocks: list[Any] = [{"type": "text", "text": "Be brief."}, {"cachePoint": {"type": "default"}}]
    system = SystemMessage(blocks, id="s1", additional_kwargs={"a": 1})
    policy = Policy(
        per_tool={"list_orders": {"mapper": '{display_instructions_for_model: "Show totals in euros.", orders}'}}
    )
    model = scripted([("list_orders", {})], "Done.")
    agent = create_agent(
        model,
        [list_orders],
        middleware=[ByrefMiddleware(engine, tenant=tenant, policy=policy)],
        system_prompt=system,
    )
    ran(agent)
    said = model.requests[-1][0]
    assert (said.id, said.additional_kwargs) == ("s1", {"a": 1})
    assert said.content == [*blocks, {"type": "text", "text": "Show totals in euros."}]
    assert system.content == blocks


def test_an_answer_by_a_tool_is_no_place_for_references_and_says_so(engine: Engine, tenant: str) -> None:
    class Report(BaseModel):
        ids: list[int]

    model = scripted([("list_orders", {})], [("Report", IDS)], [("Report", {"ids": [1, 2]})])
    agent = create_agent(
        model,
        [list_orders],
        middleware=[ByrefMiddleware(engine, tenant=tenant)],
        response_format=ToolStrategy(Report),
    )
    assert ran(agent)["structured_response"] == Report(ids=[1, 2])
    assert len(model.requests) == 3  # the reference did not fit, and the model was told


def test_a_selector_of_tools_includes_byrefs_where_it_is_told_to(engine: Engine, tenant: str) -> None:
    class Selecting(Scripted):
        def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
            return RunnableLambda(lambda _: {"tools": ["list_orders"]})

    byref = ByrefMiddleware(engine, tenant=tenant)
    names = [own.name for own in byref.tools]
    select = LLMToolSelectorMiddleware(model=scripted(kind=Selecting), max_tools=1, always_include=names)
    model = scripted([("list_orders", {})], "Done.")
    ran(create_agent(model, [list_orders, refund], middleware=[byref, select]))
    assert set(model.offered[0]) == {"list_orders", *names}


def test_a_tool_node_of_ones_own_refuses_such_a_name_too(engine: Engine, tenant: str) -> None:
    @tool
    def artifact_read() -> str:
        """Read what is mine."""
        return "mine"

    byref = ByrefMiddleware(engine, tenant=tenant)
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([artifact_read], wrap_tool_call=byref.wrap_tool_call))
    graph.add_edge(START, "tools")
    call: Any = {"type": "tool_call", "id": "c1", "name": "artifact_read", "args": {}}
    with pytest.raises(ConfigurationError, match="'artifact_read' of its own"):
        graph.compile().invoke({"messages": [AIMessage("", tool_calls=[call])]}, thread())


class Noting(AgentMiddleware[Any, Any, Any]):
    """Writes notes into the list of a request's messages, or into one of its own."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def noted(self, request: Any) -> Any:
        note = HumanMessage(f"Note {len(request.messages)}.")
        match self.way:
            case "append":
                request.messages.append(note)
            case "insert":
                request.messages.insert(0, note)
            case "exchange":
                request.messages[-1] = note.model_copy(update={"id": request.messages[-1].id})
            case "another list":
                return request.override(messages=[*request.messages, note])
        return request

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(self.noted(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(self.noted(request))


@tool(return_direct=True)
def show_orders() -> dict[str, Any]:
    """Show the orders to the user."""
    return BIG


SUMMARY = HumanMessage("Earlier: orders.", id="s", additional_kwargs={"lc_source": "summarization"})


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("shown_otherwise", [False, True])
@pytest.mark.parametrize(
    ("way", "mode"),
    [
        pytest.param(way, mode, marks=[] if mode == "sync" or way == "exchange" else pytest.mark.slow)
        for way in ("append", "insert", "exchange", "another list")
        for mode in MODES
    ],
)
def test_what_a_middleware_does_to_the_list_of_messages_is_in_the_state_as_without_byref(
    engine: Engine, tenant: str, mode: str, first: bool, shown_otherwise: bool, way: str
) -> None:
    """Also where the model is shown a result or a summary otherwise than the state has it, which stays as it was."""

    def went(middlewares: list[Any]) -> tuple[list[str], list[BaseMessage]]:
        model = scripted([("show_orders", {})], "Fine.", "And fine.")
        agent = create_agent(model, [show_orders], middleware=middlewares, checkpointer=InMemorySaver())
        if shown_otherwise:
            given = {"messages": [SUMMARY, *ran(agent, mode)["messages"], HumanMessage("And?")]}
        else:
            given = {"messages": [HumanMessage("Which orders?"), AIMessage("None."), HumanMessage("And?")]}
        went_on = (
            agent.invoke(given, thread("next")) if mode == "sync" else asyncio.run(agent.ainvoke(given, thread("next")))
        )
        return [str(message.content) for message in went_on["messages"]], model.requests[-1]

    by = ByrefMiddleware(engine, session="s", tenant=tenant)
    engine.session("s", tenant=tenant).process(BIG, tool="earlier")
    state, asked = went([by, Noting(way)] if first else [Noting(way), by])
    expected, _ = went([Noting(way)])
    assert state == expected
    texts = [str(message.content) for message in asked]
    assert sum(text.startswith("Note") for text in texts) >= 1
    if shown_otherwise:
        assert any("Data of this conversation" in text for text in texts)
        assert all(len(text) < 10_000 for text in texts if text.startswith('{"'))
        assert not any("Data of this conversation" in text for text in state)


@pytest.mark.parametrize("mode", MODES)
def test_a_list_of_messages_that_is_shown_as_it_is_is_the_very_list(engine: Engine, tenant: str, mode: str) -> None:
    lists: list[Any] = []

    class Seeing(Noting):
        def noted(self, request: Any) -> Any:
            lists.append(request.messages)
            return request

    class Inside(Seeing):
        pass

    middlewares = [Seeing(""), ByrefMiddleware(engine, tenant=tenant), Inside("")]
    agent = create_agent(scripted("Fine."), middleware=middlewares)
    ran(agent, mode)
    assert lists[0] is lists[1]


@pytest.mark.parametrize("mode", MODES)
def test_what_was_done_to_the_list_of_messages_before_an_error_is_done(engine: Engine, tenant: str, mode: str) -> None:
    """A middleware outside that asks once more finds the note, as without byref."""
    tries = 0

    def answer(messages: list[BaseMessage]) -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("busy")
        return "Fine."

    def went(*inside: Any) -> list[str]:
        nonlocal tries
        tries = 0
        retry = ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
        agent = create_agent(scripted(answer), middleware=[retry, *inside, Noting("append")])
        return [str(message.content) for message in ran(agent, mode)["messages"]]

    engine.session("chat-42", tenant=tenant).process(BIG, tool="earlier")
    assert went(ByrefMiddleware(engine, tenant=tenant)) == went() == ["Which orders?", "Note 1.", "Note 2.", "Fine."]
