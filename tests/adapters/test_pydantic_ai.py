"""Pydantic AI itself, with its own function and test models, over byref's capability."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import pandas as pd
import pytest
from away import Away
from crowd import Chat, crowd
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, DocumentUrl, ModelRetry, RunContext, Tool, ToolReturn, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage

import byref
from byref import Engine, InvalidId, Policy
from byref.adapters.pydantic_ai import Byref
from byref.errors import StorageFailure

ROWS = [{"id": n, "total": n % 50, "note": "x" * 20} for n in range(2_000)]
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000000000500010d0a2db40000000049454e44ae426082"
)
IMAGE = BinaryContent(PNG, media_type="image/png", vendor_metadata={"detail": "low"})


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("sqlite:///:memory:") as made:
        yield made


def scripted(*turns: list[ToolCallPart] | str, seen: list[list[ModelMessage]] | None = None) -> FunctionModel:
    """A model that calls what it is told to, and answers; each answer counts as 1,000 tokens more than the one before."""
    left = list(turns)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if seen is not None:
            seen.append(messages)
        turn = left.pop(0)
        usage = RequestUsage(input_tokens=1_000 * (len(turns) - len(left)), output_tokens=10, cache_read_tokens=5)
        return ModelResponse(parts=[TextPart(turn)] if isinstance(turn, str) else list(turn), usage=usage)

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        turn = left.pop(0)
        if isinstance(turn, str):
            yield turn
        else:
            yield {
                index: DeltaToolCall(call.tool_name, call.args_as_json_str(), tool_call_id=call.tool_call_id)
                for index, call in enumerate(turn)
            }

    return FunctionModel(answer, stream_function=stream, model_name="gpt-5")


def call(name: str, call_id: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(name, arguments, call_id)


def returns(messages: list[ModelMessage]) -> dict[str, ToolReturnPart]:
    return {part.tool_call_id: part for one in messages for part in one.parts if isinstance(part, ToolReturnPart)}


class Order(BaseModel):
    id: int
    total: int


def list_orders() -> dict[str, Any]:
    """List the orders."""
    return {"orders": ROWS, "next_page": None}


async def count(ids: list[int], unit: str = "orders") -> str:
    """Count ids."""
    return f"{len(ids)} {unit}"


def one_order() -> Order:
    return Order(id=7, total=3)


def report() -> ToolReturn[Any]:
    return ToolReturn(
        return_value={"rows": ROWS}, content=["Look: ", "long text. " * 5_000, IMAGE], metadata={"for": "the host"}
    )


def look() -> list[Any]:
    return [IMAGE, pd.DataFrame(ROWS), DocumentUrl("https://example.com/a.pdf")]


def run(how: str, agent: Agent[Any, Any], prompt: str, **options: Any) -> Any:
    if how == "sync":
        return agent.run_sync(prompt, **options)
    if how == "async":
        return asyncio.run(agent.run(prompt, **options))

    async def streamed() -> Any:
        async with agent.run_stream(prompt, **options) as result:
            async for _ in result.stream_text():
                pass
        return result

    return asyncio.run(streamed())


@pytest.fixture
def loop() -> Iterator[None]:
    """`run_sync` takes the thread's loop and leaves it open."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.close()
    asyncio.set_event_loop(None)


@pytest.mark.parametrize("how", ["sync", "async", "stream"])
def test_a_big_output_is_read_by_reference(engine: Engine, how: str, loop: None) -> None:
    model = scripted(
        [call("list_orders", "call_1")],
        [call("code_interpreter", "call_2", code="[o['id'] for o in orders if o['total'] == 49][:2]")],
        "49 and 99",
    )
    agent = Agent(model, tools=[list_orders], capabilities=[Byref(engine)])
    result = run(how, agent, "Which?", conversation_id=f"chat-{how}")
    read = returns(result.all_messages())
    assert (
        json.loads(read["call_1"].model_response_str())["variables"]
        and len(read["call_1"].model_response_str()) < 8_000
    )
    assert read["call_2"].model_response_str() == "[49,99]"
    session = engine.session(f"chat-{how}")
    assert [(e.kind, e.tool) for e in session.ledger()] == [
        ("usage", None), ("output", "list_orders"), ("usage", None), ("reply", "code_interpreter"), ("usage", None),
    ]  # fmt: skip
    assert session.history()[0].original.value == {"orders": ROWS, "next_page": None}
    if how != "stream":  # there the function model counts for itself
        assert session.context_tokens() == 3_010 and session.usage().cache_read_tokens == 15
    assert session.ledger()[0].model == "gpt-5"


def test_a_conversation_goes_on_in_a_new_process_with_its_messages(sqlite_url: str) -> None:
    with Engine(sqlite_url) as engine:
        agent = Agent(
            scripted([call("list_orders", "call_1")], "done"), tools=[list_orders], capabilities=[Byref(engine)]
        )
        stored = asyncio.run(agent.run("List")).all_messages_json()
        assert len(stored) < 12_000
    with Engine(sqlite_url) as engine:
        seen: list[list[ModelMessage]] = []
        model = scripted([call("count", "call_2", ids={"$var": "orders", "jq": "map(.id)"})], "2000", seen=seen)
        agent = Agent(model, tools=[count], capabilities=[Byref(engine)])
        result = asyncio.run(agent.run("Count", message_history=ModelMessagesTypeAdapter.validate_json(stored)))
        assert returns(result.all_messages())["call_2"].content == "2000 orders"
        wrote = [part for one in result.new_messages() for part in one.parts if isinstance(part, ToolCallPart)]
        assert wrote[0].args == {"ids": {"$var": "orders", "jq": "map(.id)"}}
        first = ModelMessagesTypeAdapter.validate_json(stored)
        assert returns(seen[0])["call_1"].content == returns(first)["call_1"].content


def test_what_the_model_got_wrong_is_told_to_it(engine: Engine) -> None:
    tries: list[int] = []

    def again(n: int) -> str:
        tries.append(n)
        if n < 2:
            raise ModelRetry("more than 1, please")
        return "ok"

    model = scripted(
        [call("list_orders", "call_1")],
        [
            call("count", "call_2", ids={"$var": "order"}),
            call("count", "call_3", ids="$orders"),
            call("count", "call_4", ids=["1", 2.0], unit="ids"),
            call("artifact_read", "call_5", reference="art_nothere"),
            call("again", "call_6", n=1),
        ],
        [call("again", "call_7", n=2)],
        "sorry",
    )
    agent = Agent(model, tools=[list_orders, count, again], capabilities=[Byref(engine, session="wrong")])
    result = asyncio.run(agent.run("Count"))
    read = returns(result.all_messages())
    assert read["call_2"].outcome == "failed" and "no artifact or variable 'order'" in str(read["call_2"].content)
    assert read["call_3"].outcome == "failed" and "map(.id)" in str(read["call_3"].content)
    assert len(str(read["call_3"].content)) < 1_000
    assert read["call_4"].content == "2 ids"
    assert read["call_5"].outcome == "failed" and "art_nothere" in str(read["call_5"].content)
    assert read["call_7"].content == "ok" and tries == [1, 2]


def test_small_results_stay_what_they_are(engine: Engine) -> None:
    def numbers() -> list[int]:
        return [1, 2]

    def nothing() -> None:
        return None

    names = ("one_order", "numbers", "nothing", "text")
    agent = Agent(
        scripted([call(name, name) for name in names], "done"),
        tools=[one_order, numbers, nothing],
        capabilities=[Byref(engine, session="small")],
    )

    @agent.tool_plain
    def text() -> str:
        return '{"not": "parsed"}'

    read = returns(asyncio.run(agent.run("Go")).all_messages())
    assert [read[name].content for name in names] == [{"id": 7, "total": 3}, [1, 2], None, '{"not": "parsed"}']


def test_files_are_the_very_files_and_what_is_beside_them_is_gated(engine: Engine) -> None:
    model = scripted([call("look", "call_1"), call("report", "call_2")], "done")
    agent = Agent(
        model, tools=[look, report], capabilities=[Byref(engine, session="files", policy=Policy(plaintext="truncate"))]
    )
    messages = asyncio.run(agent.run("Go")).all_messages()
    read = returns(messages)
    image, text, url = read["call_1"].content
    assert image == IMAGE and image.vendor_metadata == {"detail": "low"} and url.url == "https://example.com/a.pdf"
    assert len(text) < 8_000 and "note" in text
    assert read["call_2"].metadata == {"for": "the host"} and len(read["call_2"].model_response_str()) < 8_000
    (beside,) = [
        part for one in messages for part in one.parts if isinstance(part, UserPromptPart) and part.content != "Go"
    ]
    assert beside.content[0] == "Look: " and len(str(beside.content[1])) < 20_000 and beside.content[2] == IMAGE
    kinds = {artifact.kind for artifact in engine.session("files").artifacts()}
    assert kinds >= {"json", "text"}


def test_an_artifact_that_is_an_image_is_shown(engine: Engine) -> None:
    session = engine.session("shown", policy=Policy(tools=("get_artifact",)))
    session.store_artifact(PNG, name="dot.png", content_type="image/png")
    agent = Agent(
        scripted([call("get_artifact", "call_1", pointer_or_name="dot.png")], "done"),
        capabilities=[Byref(engine, session="shown")],
    )
    content = returns(asyncio.run(agent.run("Go")).all_messages())["call_1"].content
    assert any(isinstance(part, BinaryContent) and part.data == PNG for part in content)


@dataclass
class Who:
    chat: str
    tenant: str


def test_conversations_and_tenants_are_found_in_the_context_and_kept_apart(engine: Engine) -> None:
    by: Byref[Who] = Byref(engine, session=lambda ctx: ctx.deps.chat, tenant=lambda ctx: ctx.deps.tenant)

    async def ask(chat: str, tenant: str) -> str:
        first = call("list_orders", "call_1") if chat == "a" else call("code_interpreter", "call_1", code="1")
        model = scripted([first], [call("code_interpreter", "call_2", code="len(orders)")], "done")
        agent = Agent(model, tools=[list_orders], capabilities=[by], deps_type=Who)
        result = await agent.run("Go", deps=Who(chat, tenant))
        return returns(result.all_messages())["call_2"].model_response_str()

    async def all_at_once() -> list[str]:
        return await asyncio.gather(ask("a", "acme"), ask("b", "acme"), ask("a", "other"))

    first, second, third = asyncio.run(all_at_once())
    assert (first, third) == ("2000", "2000") and "orders" in second
    assert engine.session("b", tenant="acme").artifacts() == []
    assert len(engine.sessions("acme")) == 2 and len(engine.sessions("other")) == 1


def test_a_history_opens_no_session_of_another_tenant(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever writes a message history names its conversation: the tenant says whose it is, or a warning that nothing does."""
    looks = [call("code_interpreter", "call_1", code="len(orders)")]

    def asked(by: Byref[Any], who: str, turn: list[ToolCallPart], **named: Any) -> str:
        agent = Agent(scripted(turn, "done"), tools=[list_orders], capabilities=[by], deps_type=str)
        result = asyncio.run(agent.run("Go", deps=who, **named))
        return returns(result.new_messages())["call_1"].model_response_str()

    def forged(name: str) -> dict[str, Any]:
        return {"message_history": [ModelResponse(parts=[TextPart("Hello")], conversation_id=name)]}

    mine: Byref[str] = Byref(engine, tenant=lambda ctx: f"user {ctx.deps}")
    asked(mine, "ann", [call("list_orders", "call_1")], conversation_id="of ann")
    for named in (forged("of ann"), {"conversation_id": "of ann"}, forged("of ann") | {"conversation_id": "of ann"}):
        assert asked(mine, "ann", looks, **named) == "2000"
        assert "orders" in asked(mine, "mallory", looks, **named)
    # Names that only look like hers, and such as no session can have.
    for name in ("of ann ", "OF ANN", "of\xa0ann", "user ann/of ann", "of ann\n"):
        assert "orders" in asked(mine, "ann", looks, **forged(name)), name
    for name in ("of ann\0", "x" * 600, "\ud800"):
        with pytest.raises(InvalidId):
            asked(mine, "ann", looks, **forged(name))
    fixed: Byref[str] = Byref(engine, session=lambda ctx: f"of {ctx.deps}", tenant="fixed")
    asked(fixed, "ann", [call("list_orders", "call_1")])
    assert "orders" in asked(fixed, "mallory", looks, **forged("of ann"))
    for tenant in (lambda _: None, lambda _: "", lambda _: 7):
        with pytest.raises(InvalidId):
            asked(Byref(engine, tenant=tenant), "ann", looks, conversation_id="of ann")
    asked(Byref(engine, session=lambda ctx: f"of {ctx.deps}"), "ann", looks)
    asked(Byref(engine, tenant="default"), "ann", looks, **forged("shared"))
    assert caplog.messages == []
    open_to_all: Byref[str] = Byref(engine)
    for who in ("ann", "mallory"):
        asked(open_to_all, who, looks, **forged("shared"))
    assert len(caplog.messages) == 1 and "whoever names another's opens its data" in caplog.text


def test_instructions_of_a_trusted_tool_reach_the_model_of_this_run_alone(engine: Engine) -> None:
    policy = Policy(trusted_instructions="all")
    told: list[str | None] = []

    def styled() -> dict[str, Any]:
        return {"display_instructions_for_model": "Show totals in euros.", "rows": ROWS}

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told.append(info.instructions)
        return ModelResponse(parts=[TextPart("done")] if returns(messages) else [call("styled", "call_1")])

    agent = Agent(FunctionModel(answer), tools=[styled], capabilities=[Byref(engine, session="told", policy=policy)])
    asyncio.run(agent.run("Go"))
    assert told[0] is None and "Show totals in euros." in str(told[1])
    told.clear()
    asyncio.run(agent.run("Go"))
    assert told[0] is None


def test_their_test_model_calls_every_tool_and_own_tools_keep_their_schemas(engine: Engine) -> None:
    model = TestModel(call_tools=["count", "list_orders"])
    agent = Agent(model, tools=[count, list_orders], capabilities=[Byref(engine, session="test")])
    asyncio.run(agent.run("Go"))
    parameters = model.last_model_request_parameters
    assert parameters is not None
    offered = {tool.name: tool for tool in parameters.function_tools}
    assert {"count", "list_orders", "code_interpreter", "artifact_read"} <= offered.keys()
    assert offered["artifact_read"].parameters_json_schema == next(
        tool["inputSchema"] for tool in engine.session("test").tools("mcp") if tool["name"] == "artifact_read"
    )


def test_arguments_that_fit_only_by_pydantics_rules_pass(engine: Engine) -> None:
    def wait(time: timedelta) -> str:
        return str(time)

    model = scripted([call("wait", "call_1", time=90)], "done")
    agent = Agent(model, tools=[wait], capabilities=[Byref(engine, session="rules")])
    assert returns(asyncio.run(agent.run("Go")).all_messages())["call_1"].content == "0:01:30"


@pytest.mark.parametrize("is_known", [True, False])
def test_while_the_database_is_away_the_run_goes_on(monkeypatch: pytest.MonkeyPatch, is_known: bool) -> None:
    with Engine("sqlite:///:memory:", jail="language-only") as engine:
        away = Away(engine, monkeypatch)
        by = Byref[None](engine, session="away")
        if is_known:
            asyncio.run(Agent(scripted("hello"), capabilities=[by]).run("Go"))
        away.is_on = True
        calls = [
            call("list_orders", "call_1"),
            call("count", "call_2", ids=[1]),
            call("count", "call_3", ids="$orders"),
            call("artifact_read", "call_4", reference="art_x"),
        ]
        agent = Agent(scripted(calls, "done"), tools=[list_orders, count], capabilities=[by])
        result = asyncio.run(agent.run("Go"))
    read = returns(result.all_messages())
    assert result.output == "done" and read["call_2"].content == "1 orders"
    text = read["call_1"].model_response_str()
    assert "INCOMPLETE" in text and len(text) < 20_000
    for call_id in ("call_3", "call_4"):
        assert read[call_id].outcome == "failed" and "try again later" in str(read[call_id].content)


@pytest.mark.parametrize("is_mid_tool", [True, False])
def test_where_the_policy_says_so_a_database_that_is_away_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, is_mid_tool: bool
) -> None:
    with Engine("sqlite:///:memory:", jail="language-only") as engine:
        away = Away(engine, monkeypatch)

        def leave() -> str:
            away.is_on = True
            return "x" * 10

        away.is_on = not is_mid_tool
        by = Byref[None](engine, session="away", policy=Policy(on_storage_failure="raise"))
        with pytest.raises(StorageFailure):
            asyncio.run(Agent(scripted([call("leave", "call_1")], "done"), tools=[leave], capabilities=[by]).run("Go"))


def test_a_conversation_that_a_tool_ends_is_answered_to_the_end(engine: Engine) -> None:
    def leave() -> list[Any]:
        engine.session("ended").end()
        return ROWS

    turns = (
        [call("leave", "call_1")],
        [call("count", "call_2", ids={"$var": "orders"}), call("count", "call_3", ids=[1])],
    )
    agent = Agent(scripted(*turns, "done"), tools=[leave, count], capabilities=[Byref(engine, session="ended")])
    result = asyncio.run(agent.run("Go"))
    read = returns(result.all_messages())
    assert result.output == "done" and "INCOMPLETE" in read["call_1"].model_response_str()
    assert read["call_2"].outcome == "failed" and read["call_3"].content == "1 orders"


def test_the_model_is_shown_that_arguments_may_be_references(engine: Engine) -> None:
    def both(ids: list[int], order: Order, name: str, note: str | None = None) -> str:
        return "ok"

    seen: list[AgentInfo] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(answer), tools=[both, Tool(count, strict=True)], capabilities=[Byref(engine)])
    asyncio.run(agent.run("Go"))
    for_openai = OpenAIChatModel("gpt-5", provider=OpenAIProvider(api_key="x")).customize_request_parameters(
        ModelRequestParameters(function_tools=seen[0].function_tools)
    )
    tools = {tool.name: tool for tool in for_openai.function_tools}
    properties = tools["both"].parameters_json_schema["properties"]
    reference = {"type": "string", "description": "a reference to stored data, such as $orders"}
    assert properties["ids"]["anyOf"] == [{"type": "array", "items": {"type": "integer"}}, reference]
    assert reference in properties["order"]["anyOf"]
    assert properties["name"] == {"type": "string"} and reference not in properties["note"]["anyOf"]
    assert tools["both"].strict is False and tools["count"].strict is True
    assert reference in tools["count"].parameters_json_schema["properties"]["ids"]["anyOf"]


def test_what_a_reference_brings_is_held_against_the_tools_own_schema(engine: Engine) -> None:
    def label(ids: list[int], colour: Literal["red", "blue"]) -> str:
        return f"{len(ids)} {colour}"

    model = scripted(
        [call("list_orders", "call_1")],
        [
            call("label", "call_2", ids={"$var": "orders", "jq": "map(.id)"}, colour="red"),
            call("label", "call_3", ids="$list_orders", colour="red"),
        ],
        "done",
    )
    agent = Agent(model, tools=[list_orders, label], capabilities=[Byref(engine, session="own schema")])
    read = returns(asyncio.run(agent.run("Go")).all_messages())
    assert read["call_2"].content == "2000 red"
    assert read["call_3"].outcome == "failed" and len(str(read["call_3"].content)) < 1_000


def test_an_output_tool_takes_references(engine: Engine) -> None:
    model = scripted(
        [call("list_orders", "call_1")],
        [call("final_result", "call_2", ids={"$var": "order"})],
        [call("final_result", "call_3", ids={"$var": "orders", "jq": "map(.id)"})],
    )

    class Found(BaseModel):
        ids: list[int]

    agent = Agent(
        model, tools=[list_orders], output_type=Found, capabilities=[Byref(engine, session="output")], retries=2
    )
    result = asyncio.run(agent.run("Go"))
    assert result.output.ids == [row["id"] for row in ROWS]
    assert "no artifact or variable 'order'" in str(result.all_messages()) and len(str(result.all_messages())) < 20_000


def test_an_agent_that_a_tool_runs_does_not_speak_for_the_context(engine: Engine) -> None:
    by = Byref[None](engine, session="sub")
    contexts: list[int] = []
    sub = Agent(FunctionModel(lambda messages, info: large), capabilities=[by])
    large = ModelResponse(parts=[TextPart("sub")], usage=RequestUsage(input_tokens=90_000, output_tokens=10))

    async def ask(question: str) -> str:
        answer = (await sub.run(question)).output
        contexts.append(await asyncio.to_thread(engine.session("sub").context_tokens))
        return answer

    asyncio.run(
        Agent(scripted([call("ask", "call_1", question="?")], "done"), tools=[ask], capabilities=[by]).run("Go")
    )
    session = engine.session("sub")
    assert contexts == [1_010] and session.usage().requests == 3 and session.context_tokens() == 2_010


def test_a_tool_named_as_one_of_byrefs_is_an_error_with_a_cure(engine: Engine) -> None:
    def artifact_read(reference: str) -> str:
        return "mine"

    by = Byref[None](engine, session="names")
    with pytest.raises(UserError, match=r"prefix_tools\('data'\)"):
        asyncio.run(Agent(scripted("done"), tools=[artifact_read], capabilities=[by]).run("Go"))
    calls = [call("artifact_read", "call_1", reference="x"), call("data_artifact_read", "call_2", reference="art_x")]
    agent = Agent(scripted(calls, "done"), tools=[artifact_read], capabilities=[by.prefix_tools("data")])
    read = returns(asyncio.run(agent.run("Go")).all_messages())
    assert read["call_1"].content == "mine" and "art_x" in str(read["call_2"].content)


def test_items_of_a_list_with_files_stay_in_their_order(engine: Engine) -> None:
    def mixed() -> list[Any]:
        return ["first", DocumentUrl("https://example.com/a.pdf"), IMAGE, "last"]

    agent = Agent(
        scripted([call("mixed", "call_1")], "done"), tools=[mixed], capabilities=[Byref(engine, session="mix")]
    )
    content: Any = returns(asyncio.run(agent.run("Go")).all_messages())["call_1"].content
    assert [getattr(item, "url", item) for item in content] == ["first", "https://example.com/a.pdf", IMAGE, "last"]


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(byref.ConfigurationError, match=r"must be a byref\.Engine"):
        Byref("sqlite:///x.db")  # type: ignore[arg-type]


def test_without_the_framework_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "byref.adapters.pydantic_ai")
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pydantic_ai":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(byref.ConfigurationError, match=r"pip install 'byref\[pydantic-ai\]'"):
        importlib.import_module("byref.adapters.pydantic_ai")


def test_a_tool_may_look_at_its_context(engine: Engine) -> None:
    def who(ctx: RunContext[None], ids: list[int]) -> str:
        return f"{ctx.tool_call_id} {len(ids)}"

    model = scripted(
        [call("list_orders", "call_1")], [call("who", "call_2", ids={"$var": "orders", "jq": "map(.id)"})], "done"
    )
    agent = Agent(model, tools=[list_orders, who], capabilities=[Byref(engine, session="context")])
    assert returns(asyncio.run(agent.run("Go")).all_messages())["call_2"].content == "call_2 2000"


@pytest.mark.parametrize("many", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_crowd_of_conversations_keeps_apart(engine: Engine, many: int) -> None:
    by: Byref[Chat] = Byref(engine, tenant=lambda ctx: f"crowd {many} {ctx.deps.user}")

    def agent(chat: Chat, mine: Any) -> Agent[Chat, str]:
        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            turn = sum(isinstance(message, ModelResponse) for message in messages)
            made = (
                [call(name, f"{turn}_{n}", **given) for n, (name, given) in enumerate(chat.calls[turn])]
                if turn < 2
                else []
            )
            usage = RequestUsage(input_tokens=chat.tokens, output_tokens=10)
            return ModelResponse(parts=made or [TextPart("done")], usage=usage)

        def echo(data: dict[str, Any]) -> str:
            return chat.echo(data)

        tools = [Tool(mine, name="mine", takes_ctx=False), Tool(echo)]
        return Agent(FunctionModel(answer), tools=tools, capabilities=[by], deps_type=Chat)

    async def talk(chat: Chat) -> None:
        await agent(chat, chat.amine).run("Go", deps=chat, conversation_id=chat.name)

    def talk_here(chat: Chat) -> None:
        asyncio.set_event_loop(loop := asyncio.new_event_loop())
        agent(chat, chat.mine).run_sync("Go", deps=chat, conversation_id=chat.name)
        loop.close()

    crowd(talk, talk_here, lambda chat: engine.session(chat.name, tenant=f"crowd {many} {chat.user}"), many=many)
