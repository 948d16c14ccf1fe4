"""Pydantic AI itself, with its own function and test models, over byref's capability."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest
from adapter_shop import PNG, ROWS, count
from adapter_shop import list_notes as list_orders
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, DocumentUrl, ModelRetry, RunContext, Tool, ToolReturn, UserError
from pydantic_ai.capabilities import HandleDeferredToolCalls, PrepareTools
from pydantic_ai.exceptions import ApprovalRequired
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
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults
from pydantic_ai.usage import RequestUsage

from byref import Engine, InvalidId, Policy
from byref.adapters.pydantic_ai import Byref

IMAGE = BinaryContent(PNG, media_type="image/png", vendor_metadata={"detail": "low"})


def scripted(
    *turns: list[ToolCallPart] | str, seen: list[list[ModelMessage]] | None = None, response_id: str | None = None
) -> FunctionModel:
    """A model that calls what it is told to, and answers; each answer counts as 1,000 tokens more than the one before."""
    left = list(turns)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if seen is not None:
            seen.append(messages)
        turn = left.pop(0)
        usage = RequestUsage(input_tokens=1_000 * (len(turns) - len(left)), output_tokens=10, cache_read_tokens=5)
        parts = [TextPart(turn)] if isinstance(turn, str) else list(turn)
        return ModelResponse(parts, usage=usage, provider_response_id=response_id)

    return FunctionModel(answer, model_name="gpt-5")


def call(name: str, call_id: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(name, arguments, call_id)


def returns(messages: list[ModelMessage]) -> dict[str, ToolReturnPart]:
    return {part.tool_call_id: part for one in messages for part in one.parts if isinstance(part, ToolReturnPart)}


class Order(BaseModel):
    id: int
    total: int


def one_order() -> Order:
    return Order(id=7, total=3)


def report() -> ToolReturn[Any]:
    return ToolReturn(
        return_value={"rows": ROWS}, content=["Look: ", "long text. " * 5_000, IMAGE], metadata={"for": "the host"}
    )


def look() -> list[Any]:
    return [IMAGE, pd.DataFrame(ROWS), DocumentUrl("https://example.com/a.pdf")]


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
        [call("count", "call_1", ids=["1", 2.0], unit="ids"), call("again", "call_2", n=1)],
        [call("again", "call_3", n=2)],
        "sorry",
    )
    agent = Agent(model, tools=[count, again], capabilities=[Byref(engine, session="wrong")])
    read = returns(asyncio.run(agent.run("Count")).all_messages())
    assert read["call_1"].content == "2 ids", "lax, as Pydantic is"
    assert read["call_3"].content == "ok" and tries == [1, 2]


def test_a_result_that_says_it_is_an_error_is_a_failed_call(engine: Engine) -> None:
    def cancel(words: int) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "order 7 " * words}], "isError": True}

    model = scripted([call("cancel", "call_1", words=1), call("cancel", "call_2", words=50_000)], "sorry")
    agent = Agent(model, tools=[cancel], capabilities=[Byref(engine, session="marked")])
    short, long = returns(asyncio.run(agent.run("Go")).all_messages()).values()
    assert (short.content, short.outcome, long.outcome) == ("order 7 ", "failed", "failed")
    assert len(str(long.content)) < 20_000


def test_small_results_stay_what_they_are(engine: Engine) -> None:
    model = scripted([call("one_order", "call_1"), call("text", "call_2")], "done")
    agent = Agent(model, tools=[one_order], capabilities=[Byref(engine, session="small")])

    @agent.tool_plain
    def text() -> str:
        return '{"not": "parsed"}'

    read = returns(asyncio.run(agent.run("Go")).all_messages())
    assert (read["call_1"].content, read["call_2"].content) == ({"id": 7, "total": 3}, '{"not": "parsed"}')


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


@pytest.mark.slow
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


def test_each_answer_is_counted_if_the_server_gives_all_one_id(engine: Engine) -> None:
    model = scripted([call("list_orders", "call_1")], "done", response_id="chatcmpl-0")
    asyncio.run(Agent(model, tools=[list_orders], capabilities=[Byref(engine, session="ids")]).run("Go"))
    session = engine.session("ids")
    assert (session.usage().requests, session.usage().input_tokens, session.context_tokens()) == (2, 3_000, 2_010)


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


def test_a_tool_may_look_at_its_context(engine: Engine) -> None:
    def who(ctx: RunContext[None], ids: list[int]) -> str:
        return f"{ctx.tool_call_id} {len(ids)}"

    model = scripted(
        [call("list_orders", "call_1")], [call("who", "call_2", ids={"$var": "orders", "jq": "map(.id)"})], "done"
    )
    agent = Agent(model, tools=[list_orders, who], capabilities=[Byref(engine, session="context")])
    assert returns(asyncio.run(agent.run("Go")).all_messages())["call_2"].content == "call_2 2000"


@pytest.mark.parametrize("decides", [False, True])
def test_code_calls_an_agents_tools_through_its_tool_manager(engine: Engine, tenant: str, decides: bool) -> None:
    described: list[str] = []
    calls: list[Any] = []

    async def search_orders(ctx: RunContext[str], region: str, limit: int = 3) -> list[Order]:
        """Find orders of a region."""
        calls.append((ctx.deps, ctx.tool_name))
        if region == "nowhere":
            raise ModelRetry("no such region")
        return [Order(id=n, total=n) for n in range(limit)]

    def search_text(words: str) -> str:
        return f'[{{"found": "{words}"}}]'

    def search_refund(ctx: RunContext[str], total: int) -> int:
        if total > 10 and not ctx.tool_call_approved:
            raise ApprovalRequired
        return total

    async def prepare(ctx: RunContext[str], tool_defs: list[Any]) -> list[Any]:
        described.extend(one.description for one in tool_defs if one.name == "code_interpreter")
        return tool_defs

    async def approve(ctx: RunContext[str], requests: DeferredToolRequests) -> DeferredToolResults:
        return DeferredToolResults(approvals={one.tool_call_id: True for one in requests.approvals})

    code = (
        "import asyncio\n"
        "found = await asyncio.gather(*[search_orders(r, limit=2_000) for r in ('EU', 'US')])\n"
        "print(sum(o['total'] for orders in found for o in orders))\n"
        "print(search_text('$orders')[0]['found'], search_refund(5))\n"
        "for work in (lambda: search_orders('nowhere'), lambda: search_refund(11), lambda: count([1])):\n"
        "    try:\n"
        "        print(work())\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error)"
    )
    seen: list[list[ModelMessage]] = []
    model = scripted([call("code_interpreter", "c1", code=code)], "Done.", seen=seen)
    by: Any = Byref(engine, session=f"functions {decides}", tenant=tenant, code_functions=["search_*"])
    capabilities = [by, PrepareTools(prepare), *([HandleDeferredToolCalls(approve)] if decides else [])]
    tools: Any = [search_orders, search_text, Tool(search_refund), count]
    asyncio.run(Agent(model, deps_type=str, tools=tools, capabilities=capabilities).run("Go", deps="d"))
    printed = str(returns(seen[-1])["c1"].content).splitlines()
    assert printed[0] == "3998000" and printed[1] == "$orders 5" and calls == [("d", "search_orders")] * 3
    assert "FunctionError search_orders(): no such region" in printed[2]
    assert printed[3] == "11" if decides else "PermissionError" in printed[3]
    assert "NameError" in printed[4]
    assert "search_orders(region: str, limit: int = 3)  # Find orders of a region." in described[0]
    assert len(set(described)) == 1


def test_a_call_in_code_that_needs_approval_defers_the_code(engine: Engine, tenant: str) -> None:
    paid: list[int] = []

    def pay(order: int) -> int:
        paid.append(order)
        return order

    def refund(ctx: RunContext[None], order: int) -> int:
        if order == 2 and not ctx.tool_call_approved:
            raise ApprovalRequired
        return pay(order)

    code = "import asyncio\n[await asyncio.gather(pay(1), refund(2), refund(3)), pay(4)]"
    seen: list[list[ModelMessage]] = []
    by: Any = Byref(engine, session="approvals", tenant=tenant, code_functions=["pay", "refund"])
    model = scripted([call("code_interpreter", "c1", code=code)], "Done.", seen=seen)
    tools: Any = [Tool(pay, requires_approval=True), Tool(refund)]
    agent = Agent(model, tools=tools, capabilities=[by], output_type=[str, DeferredToolRequests])

    async def held() -> str:
        result = await agent.run("Go")
        while isinstance(requests := result.output, DeferredToolRequests):
            assert [one.tool_name for one in requests.approvals] == ["code_interpreter"]
            calls = requests.metadata["c1"]["calls"]
            waited.append([(one["function"], one["arguments"]["order"]) for one in calls])
            decisions = {"c1": {one["id"]: False for one in calls if one["arguments"] == {"order": 4}}}
            decided = DeferredToolResults(approvals={"c1": True}, metadata=decisions)
            result = await agent.run(message_history=result.all_messages(), deferred_tool_results=decided)
        return str(result.output)

    waited: list[Any] = []
    assert asyncio.run(held()) == "Done."
    assert waited == [[("pay", 1), ("refund", 2)], [("pay", 4)]]
    assert sorted(paid) == [1, 2, 3] and "PermissionError" in str(returns(seen[-1])["c1"].content)
