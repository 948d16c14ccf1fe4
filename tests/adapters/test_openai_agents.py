"""The OpenAI Agents SDK itself, with its own scripted model, over byref's session and tools."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import pickle
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import adapter_shop
import pytest
from adapter_shop import ROWS
from agents import (
    Agent,
    FunctionTool,
    RunContextWrapper,
    Runner,
    RunState,
    ToolOutputImage,
    function_tool,
    set_tracing_disabled,
)
from agents.mcp import MCPServer
from agents.testing import ScriptedModel, assistant_message, function_call
from drivers.openai_agents import call, outputs, used
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from sqlalchemy import func, select

import byref
from byref import Engine, Policy
from byref.adapters.openai_agents import Byref, ByrefAgent, ByrefSession, ModelText
from byref.db.tables import ItemRow

set_tracing_disabled(True)
PNG = base64.b64encode(adapter_shop.PNG).decode()
list_orders, count = function_tool(adapter_shop.list_notes), function_tool(adapter_shop.count)


@function_tool
def look() -> list[Any]:
    """Look at a picture."""
    return [ToolOutputImage(image_url=f"data:image/png;base64,{PNG}")]


@function_tool
def fail() -> str:
    """Fail."""
    raise RuntimeError("secret")


def run(how: str, *arguments: Any, **options: Any) -> Any:
    """By each of the SDK's runners."""
    if how == "sync":
        return Runner.run_sync(*arguments, **options)
    if how == "async":
        return asyncio.run(Runner.run(*arguments, **options))

    async def streamed() -> Any:
        result = Runner.run_streamed(*arguments, **options)
        async for _ in result.stream_events():
            pass
        return result

    return asyncio.run(streamed())


def test_the_transcript_has_what_the_model_read_and_goes_on_in_a_new_process(sqlite_url: str) -> None:
    with Engine(sqlite_url) as engine:
        by = Byref(engine, session="chat")
        model = ScriptedModel([[call("list_orders", "call_1")], [assistant_message("done")]])
        run(
            "async",
            Agent(name="shop", model=model, tools=by.tools(list_orders)),
            "List",
            hooks=by,
            session=ByrefSession("chat", engine),
        )
        read = outputs(model)["call_1"]
    with Engine(sqlite_url) as engine:
        by, session = Byref(engine, session="chat"), ByrefSession("chat", engine)
        items = asyncio.run(session.get_items())
        assert sum(len(json.dumps(item)) for item in items) < 10_000
        model = ScriptedModel(
            [[call("count", "call_2", ids={"$var": "orders", "jq": "map(.id)"})], [assistant_message("2000")]]
        )
        run("async", Agent(name="shop", model=model, tools=by.tools(count)), "Count", hooks=by, session=session)
        assert outputs(model) == {"call_1": read, "call_2": "2000 orders"}
        written = [item for item in asyncio.run(session.get_items()) if item.get("name") == "count"]
        assert "$var" in written[0]["arguments"] and len(written[0]["arguments"]) < 100
        engine.delete_session("chat")
        assert asyncio.run(session.get_items()) == []


def test_what_the_model_got_wrong_is_told_to_it(engine: Engine) -> None:
    by = Byref(engine, session="wrong")
    calls = [function_call("count", "{", call_id="call_1"), call("fail", "call_2")]
    model = ScriptedModel([calls, [assistant_message("sorry")]])
    run("async", Agent(name="shop", model=model, tools=by.tools(count, fail)), "Count")
    read = outputs(model)
    assert "JSON" in read["call_1"] and "secret" not in read["call_2"] and "error occurred" in read["call_2"]
    assert {e.call_id: e.is_error for e in engine.session("wrong").ledger()}["call_1"]


def test_images_stay_images_and_small_outputs_stay_as_they_are(engine: Engine) -> None:
    by = Byref(engine, session="picture")
    model = ScriptedModel([[call("look", "call_1"), call("count", "call_2", ids=[1])], [assistant_message("a dot")]])
    result = run("async", Agent(name="eye", model=model, tools=by.tools(look, count)), "Look")
    (image,) = outputs(model)["call_1"]
    assert image["type"] == "input_image" and image["image_url"] == f"data:image/png;base64,{PNG}"
    assert outputs(model)["call_2"] == "1 orders"
    first = next(item for item in result.new_items if item.type == "tool_call_output_item")
    assert isinstance(first.output.original[0], ToolOutputImage)


class Shop(MCPServer):
    """An MCP server that answers from memory."""

    calls: ClassVar[list[Any]] = []

    name = "shop"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[MCPTool]:
        ids = {"type": "object", "properties": {"ids": {"type": "array"}}}
        return [MCPTool(name="find", input_schema={"type": "object"}), MCPTool(name="refund", input_schema=ids)]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        self.calls.append(arguments)
        text = json.dumps({"orders": ROWS}) if tool_name == "find" else f"{len(arguments['ids'])} refunded"
        return CallToolResult(content=[TextContent(text=text)])

    async def list_prompts(self) -> Any: ...

    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


def test_an_agent_of_ours_has_mcp_servers_too_and_clones(engine: Engine) -> None:
    by = Byref(engine, session="mcp")
    model = ScriptedModel(
        [
            [call("find", "call_1")],
            [call("refund", "call_2", ids={"$var": "orders", "jq": "map(.id)"}), call("look", "call_3")],
            [assistant_message("done")],
        ]
    )
    agent = ByrefAgent(name="shop", model=model, mcp_servers=[Shop()], tools=[count], byref=by)
    clone = agent.clone(tools=[*agent.tools, look])
    names = [tool.name for tool in clone.tools]
    assert len(names) == len(set(names)) and {"count", "look", "code_interpreter"} <= set(names)
    run("async", clone, "Refund all", hooks=by)
    read = outputs(model)
    assert '"variables"' in read["call_1"] and "2000 refunded" in str(read["call_2"]) and "image" in str(read["call_3"])
    assert {e.call_id for e in engine.session("mcp").ledger() if e.kind == "output"} == set(read)
    with pytest.raises(byref.ConfigurationError, match="byref=Byref"):
        ByrefAgent(name="shop")


def test_data_for_programs_and_for_declared_schemas_passes_whole(engine: Engine) -> None:
    by = Byref(engine, session="program")

    async def invoke(context: Any, arguments: str) -> Any:
        return json.dumps({"rows": ROWS})

    schema = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "object", "properties": {}}}},
    }
    tool = FunctionTool("rows", "Rows.", {"type": "object", "properties": {}}, invoke, output_json_schema=schema)
    assert by.tools(tool)[0] is tool
    wrapped = by.tools(FunctionTool("rows", "Rows.", {"type": "object", "properties": {}}, invoke))[0]
    context = SimpleNamespace(
        tool_call_id="call_1", agent=None, tool_call=SimpleNamespace(caller=SimpleNamespace(type="program"))
    )
    assert json.loads(asyncio.run(wrapped.on_invoke_tool(context, "{}"))) == {"rows": ROWS}
    assert engine.session("program").ledger() == []


def test_a_run_that_waits_for_approval_is_resumed(engine: Engine) -> None:
    by = Byref(engine, session="approval")

    @function_tool(needs_approval=True)
    def refund(ids: list[int]) -> str:
        """Refund."""
        return f"{len(ids)} refunded"

    model = ScriptedModel(
        [
            [call("list_orders", "call_1"), call("refund", "call_2", ids={"$var": "orders", "jq": "map(.id)[:3]"})],
            [assistant_message("done")],
        ]
    )
    agent = Agent(name="shop", model=model, tools=by.tools(list_orders, refund))

    async def approve() -> Any:
        result = await Runner.run(agent, "Refund")
        state = await RunState.from_json(agent, json.loads(json.dumps(result.to_state().to_json())))
        state.approve(state.get_interruptions()[0])
        return await Runner.run(agent, state)

    assert asyncio.run(approve()).final_output == "done"
    assert outputs(model)["call_2"] == "3 refunded" and '"variables"' in outputs(model)["call_1"]


def test_a_copy_of_what_the_model_reads_is_the_text_alone(engine: Engine) -> None:
    text = ModelText("short")
    text.original = object()
    for made in (copy.copy(text), copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        assert type(made) is str and made == "short"


# The session by itself


def test_items_come_back_in_order_as_they_were(engine: Engine) -> None:
    async def work() -> None:
        session = ByrefSession("items", engine, tenant="t", session_settings={"limit": 2})
        odd = {"role": "user", "content": "a\0b\\0 \ud800 'Ω' 🎉 \"; DROP TABLE byref_items"}
        assert await session.pop_item() is None and await session.get_items() == []
        await session.add_items([])
        await session.add_items([{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}])
        await session.add_items([odd])
        assert await session.get_items() == [{"role": "assistant", "content": "2"}, odd]
        assert await session.get_items(1) == [odd] and await session.get_items(0) == []
        assert len(await session.get_items(100)) == 3 == len(await session.get_items(-1))
        other = ByrefSession("items", engine, tenant="u")
        assert await other.get_items() == []
        assert await session.pop_item() == odd
        await session.add_items([odd])
        assert (await session.get_items(1)) == [odd]
        await session.clear_session()
        assert await session.get_items() == []

    asyncio.run(work())


def test_nothing_is_half_written_and_cancelling_waits_for_the_end(engine: Engine) -> None:
    async def work() -> None:
        session = ByrefSession("half", engine)
        with pytest.raises(TypeError):
            await session.add_items([{"role": "user", "content": "1"}, {"content": object()}])  # type: ignore[typeddict-item]
        assert await session.get_items() == []
        task = asyncio.create_task(session.add_items([{"role": "user", "content": str(n)} for n in range(500)]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await session.get_items()) == 500

    asyncio.run(work())


WRITER = """
import logging
import json, os, sys
from byref import Engine
from byref.adapters.common.items import Items
logging.getLogger("byref").setLevel("ERROR")  # which walls there are does not matter here
engine = Engine(sys.argv[1], jail="language-only")
items = Items(engine, "race", "default")
go()
for n in range(20):
    items.append("openai_agents", [json.dumps({"role": "user", "content": f"{os.getpid()} {n} {part}"}) for part in "ab"])
engine.close()
"""


@pytest.mark.slow
@pytest.mark.quick_on("postgresql", "where writers do not take turns by themselves")
def test_many_processes_append_and_nothing_is_lost(shared_url: str, race: Callable[..., list[str]]) -> None:
    race(3, WRITER, shared_url)
    with Engine(shared_url, jail="language-only") as engine:
        items: Any = asyncio.run(ByrefSession("race", engine).get_items())
    assert len(items) == 120
    pairs = [(one["content"][:-1], two["content"][:-1]) for one, two in zip(items[::2], items[1::2], strict=True)]
    assert all(one == two for one, two in pairs)
    for who in {text.split()[0] for text, _ in pairs}:
        assert [int(text.split()[1]) for text, _ in pairs if text.split()[0] == who] == list(range(20))


def test_a_session_goes_with_its_tenant_and_with_its_time(sqlite_url: str) -> None:
    with Engine(sqlite_url, policy=Policy(ledger_ttl=timedelta(seconds=0.2))) as engine:

        def left() -> int:
            return int(
                engine.database.read(lambda c: c.execute(select(func.count()).select_from(ItemRow)).scalar_one())
            )

        asyncio.run(ByrefSession("a", engine, tenant="acme").add_items([{"role": "user", "content": "1"}]))
        assert left() == 1
        engine.delete_tenant("acme")
        assert left() == 0
        asyncio.run(ByrefSession("a", engine).add_items([{"role": "user", "content": "1"}]))
        engine.sweep()
        assert left() == 1
        time.sleep(0.3)
        assert engine.sweep().sessions == 1 and left() == 0
        asyncio.run(ByrefSession("b", engine).add_items([{"role": "user", "content": "1"}]))
        engine.session("b").end()
        with pytest.raises(byref.SessionGone):
            asyncio.run(ByrefSession("b", engine).add_items([{"role": "user", "content": "2"}]))


def test_bad_names_are_refused_at_once(engine: Engine) -> None:
    for wrong in ("", "x" * 600, "\ud800", 7):
        with pytest.raises(byref.InvalidId):
            ByrefSession(wrong, engine)  # type: ignore[arg-type]


def test_the_context_may_be_the_hooks_own(engine: Engine) -> None:
    by = Byref(engine, session=lambda run: run.context, model="gpt-5")
    assert by.conversation(RunContextWrapper("mine")).id == "mine"


@function_tool
def priced() -> dict[str, Any]:
    """List the orders with what to say of them."""
    return {"display_instructions_for_model": "Show totals in euros.", "orders": ROWS}


def prompts(model: ScriptedModel) -> list[str]:
    """What the model was told in each request by its system prompt and by system messages among the items."""
    return [
        "\n".join(
            [
                request.system_instructions or "",
                *(item["content"] for item in request.input if item.get("role") == "system"),
            ]
        )
        for request in model.calls
    ]


@pytest.mark.parametrize("how", ["async", "streamed"])
@pytest.mark.parametrize("kind", ["hooks", "agent"])
def test_what_a_tool_instructs_reaches_the_model_in_each_request_after_it(engine: Engine, how: str, kind: str) -> None:
    chat = f"told-{how}-{kind}"
    policy = Policy(trusted_instructions="all")
    saved: Any = None
    for turn in range(2):
        by = Byref(engine, session=chat, policy=policy)  # each turn in another process, for all that this remembers
        calls = [used(call("priced", "1")), used(call("priced", "2"))] if turn == 0 else []
        model = ScriptedModel([*calls, used(assistant_message("Done."))])
        session = ByrefSession(chat, engine)
        if kind == "agent":
            agent: Any = ByrefAgent(name="a", instructions="Be brief.", model=model, tools=[priced], byref=by)
            saved = run(how, agent, "Which?", session=session)
        else:
            agent = Agent(name="a", instructions="Be brief.", model=model, tools=by.tools(priced))
            saved = run(how, agent, "Which?", session=session, hooks=by)
        told = prompts(model)
        assert [text.count("Show totals in euros.") for text in told] == ([0, 1, 1] if turn == 0 else [1])
        assert all("Be brief." in text for text in told)
    kept = asyncio.run(ByrefSession(chat, engine).get_items())
    assert "euros" not in json.dumps(kept) and "euros" not in json.dumps(saved.to_input_list(), default=str)


def test_a_tool_that_instructs_a_model_that_is_not_told_is_logged(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    by = Byref(engine, session="untold", policy=Policy(trusted_instructions="all"))
    model = ScriptedModel([used(call("priced", "1")), used(assistant_message("Done."))])
    run("async", Agent(name="a", model=model, tools=by.tools(priced)), "Which?")
    assert (
        "the tool 'priced' gives instructions, which the model does not read: give the run hooks=byref" in caplog.text
    )
    assert "euros" not in "".join(prompts(model))


def test_instructions_are_those_of_their_conversation_and_go_with_it(engine: Engine) -> None:
    def asked(chat: str, tools: list[Any], *steps: Any) -> str:
        by = Byref(engine, session=lambda run: run.context, policy=Policy(trusted_instructions="all"))
        model = ScriptedModel([*steps, used(assistant_message("Done."))])
        run("async", Agent(name="a", model=model, tools=by.tools(*tools)), "Which?", context=chat, hooks=by)
        return prompts(model)[-1]

    assert "euros" in asked("one", [priced], used(call("priced", "1")))
    assert "euros" not in asked("other", [])
    assert "euros" in asked("one", [])
    engine.delete_session("one")
    assert "euros" not in asked("one", [])
