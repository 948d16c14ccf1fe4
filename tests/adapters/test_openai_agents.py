"""The OpenAI Agents SDK itself, with its own scripted model, over byref's session and tools."""

from __future__ import annotations

import asyncio
import base64
import builtins
import copy
import importlib
import json
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
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
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.usage import Usage
from crowd import Chat, crowd
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from sqlalchemy import func, select

import byref
from byref import Engine, Policy
from byref.adapters.openai_agents import Byref, ByrefAgent, ByrefSession, ModelText
from byref.db.tables import ItemRow

set_tracing_disabled(True)
ROWS = [{"id": n, "total": n % 50, "note": "x" * 20} for n in range(2_000)]
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000000000500010d0a2db40000000049454e44ae426082"
    )
).decode()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("sqlite:///:memory:") as made:
        yield made


@function_tool
def list_orders() -> dict[str, Any]:
    """List the orders."""
    return {"orders": ROWS, "next_page": None}


@function_tool
async def count(ids: list[int], unit: str = "orders") -> str:
    """Count ids."""
    return f"{len(ids)} {unit}"


@function_tool
def look() -> list[Any]:
    """Look at a picture."""
    return [ToolOutputImage(image_url=f"data:image/png;base64,{PNG}")]


@function_tool
def fail() -> str:
    """Fail."""
    raise RuntimeError("secret")


def call(name: str, call_id: str, **arguments: Any) -> Any:
    return function_call(name, json.dumps(arguments), call_id=call_id)


def used(*output: Any, tokens: int = 1_000) -> ModelStep:
    return ModelStep(
        output=list(output), usage=Usage(requests=1, input_tokens=tokens, output_tokens=10, total_tokens=tokens + 10)
    )


def outputs(model: ScriptedModel) -> dict[str, Any]:
    """What the model read last, by call."""
    return {
        item["call_id"]: item["output"] for item in model.calls[-1].input if item.get("type") == "function_call_output"
    }


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


@pytest.fixture
def loop() -> Iterator[None]:
    """`run_sync` takes the thread's loop and leaves it open."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.close()
    asyncio.set_event_loop(None)


@pytest.mark.parametrize("how", ["sync", "async", "streamed"])
def test_a_big_output_is_read_by_reference_and_the_host_has_it_whole(engine: Engine, how: str, loop: None) -> None:
    by = Byref(engine, session=f"chat-{how}", model="gpt-5")
    model = ScriptedModel(
        [
            used(call("list_orders", "call_1")),
            used(
                call("code_interpreter", "call_2", code="[o['id'] for o in orders if o['total'] == 49][:2]"),
                tokens=2_500,
            ),
            used(assistant_message("49 and 99"), tokens=2_600),
        ]
    )
    agent = Agent(name="shop", model=model, tools=by.tools(list_orders))
    result = run(how, agent, "Which?", hooks=by, session=ByrefSession(f"chat-{how}", engine))
    assert result.final_output == "49 and 99"
    read = outputs(model)
    assert json.loads(read["call_1"])["variables"] and len(read["call_1"]) < 8_000
    assert read["call_2"] == "[49,99]"
    first = next(item for item in result.new_items if item.type == "tool_call_output_item")
    assert isinstance(first.output, ModelText) and first.output.original == {"orders": ROWS, "next_page": None}
    session = engine.session(f"chat-{how}")
    assert [(e.kind, e.tool) for e in session.ledger()] == [
        ("usage", None), ("output", "list_orders"), ("usage", None), ("reply", "code_interpreter"), ("usage", None),
    ]  # fmt: skip
    assert session.context_tokens() == 2_610 and session.usage().requests == 3
    assert session.explain("call_1").route == "variables"
    assert session.history()[0].original.value == {"orders": ROWS, "next_page": None}


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
    model = ScriptedModel(
        [
            [call("list_orders", "call_1")],
            [
                call("count", "call_2", ids={"$var": "order"}),
                call("count", "call_3", ids="$orders"),
                call("count", "call_4", ids=[1, 2], unit="ids"),
                function_call("count", "{", call_id="call_5"),
                call("artifact_read", "call_6", reference="art_nothere"),
                call("fail", "call_7"),
            ],
            [assistant_message("sorry")],
        ]
    )
    run("async", Agent(name="shop", model=model, tools=by.tools(list_orders, count, fail)), "Count")
    read = outputs(model)
    assert "no artifact or variable 'order'" in read["call_2"] and "'orders'" in read["call_2"]
    assert "map(.id)" in read["call_3"] and read["call_4"] == "2 ids"
    assert "JSON" in read["call_5"] and "art_nothere" in read["call_6"]
    assert "secret" not in read["call_7"] and "error occurred" in read["call_7"]
    kinds = {e.call_id: (e.kind, e.is_error) for e in engine.session("wrong").ledger()}
    assert kinds["call_2"] == ("output", True) and kinds["call_6"] == ("reply", True)


def test_images_stay_images_and_small_outputs_stay_as_they_are(engine: Engine) -> None:
    by = Byref(engine, session="picture")
    model = ScriptedModel([[call("look", "call_1"), call("count", "call_2", ids=[1])], [assistant_message("a dot")]])
    result = run("async", Agent(name="eye", model=model, tools=by.tools(look, count)), "Look")
    (image,) = outputs(model)["call_1"]
    assert image["type"] == "input_image" and image["image_url"] == f"data:image/png;base64,{PNG}"
    assert outputs(model)["call_2"] == "1 orders"
    first = next(item for item in result.new_items if item.type == "tool_call_output_item")
    assert isinstance(first.output.original[0], ToolOutputImage)


def test_conversations_and_tenants_are_found_in_the_context_and_kept_apart(engine: Engine) -> None:
    by = Byref(
        engine,
        session=lambda run: run.context.chat,
        tenant=lambda run: run.context.tenant,
        policy=Policy(tools=("code_interpreter",)),
    )
    tools = by.tools(list_orders)
    assert [tool.name for tool in tools] == ["list_orders", "code_interpreter"]

    async def ask(chat: str, tenant: str) -> str:
        model = ScriptedModel(
            [
                used(
                    *(
                        [call("list_orders", "call_1")]
                        if chat == "a"
                        else [call("code_interpreter", "call_1", code="len(orders)")]
                    )
                ),
                used(call("code_interpreter", "call_2", code="len(orders)")),
                used(assistant_message("done")),
            ]
        )
        context = SimpleNamespace(chat=chat, tenant=tenant)
        await Runner.run(Agent(name="shop", model=model, tools=tools), "Go", context=context, hooks=by)
        read: str = outputs(model)["call_2"]
        return read

    async def all_at_once() -> list[str]:
        return await asyncio.gather(ask("a", "acme"), ask("b", "acme"), ask("a", "other"))

    first, second, third = asyncio.run(all_at_once())
    assert (first, third) == ("2000", "2000") and "orders" in second and second != "2000"
    assert engine.session("b", tenant="acme").artifacts() == []
    assert {info.id for info in engine.sessions("acme")} == {"a", "b"} and len(engine.sessions("other")) == 1


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


def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "byref.adapters.openai_agents")
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "agents":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(byref.ConfigurationError, match=r"pip install 'byref\[openai-agents\]'"):
        importlib.import_module("byref.adapters.openai_agents")


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
    assert "the tool 'priced' instructs the model, which is not told: give the run hooks=byref" in caplog.text
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


@pytest.mark.parametrize("many", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_crowd_of_conversations_keeps_apart(engine: Engine, many: int) -> None:
    by = Byref(engine, session=lambda run: run.context.name, tenant=lambda run: f"crowd {many} {run.context.user}")

    @function_tool
    async def mine(run: RunContextWrapper[Chat]) -> dict[str, Any]:
        return await run.context.amine()

    @function_tool(strict_mode=False)
    def echo(run: RunContextWrapper[Chat], data: dict[str, Any]) -> str:
        return run.context.echo(data)

    tools = by.tools(mine, echo)

    def agent(chat: Chat) -> Agent[Chat]:
        turns = [
            used(*(call(name, f"{n}_{name}", **given) for name, given in turn), tokens=chat.tokens)
            for n, turn in enumerate(chat.calls)
        ]
        return Agent(
            name="shop", model=ScriptedModel([*turns, used(assistant_message("done"), tokens=chat.tokens)]), tools=tools
        )

    async def talk(chat: Chat) -> None:
        kept = ByrefSession(chat.name, engine, tenant=f"crowd {many} {chat.user}") if chat.name[0] == "a" else None
        await Runner.run(agent(chat), "Go", context=chat, hooks=by, session=kept)

    def talk_here(chat: Chat) -> None:
        asyncio.set_event_loop(loop := asyncio.new_event_loop())
        Runner.run_sync(agent(chat), "Go", context=chat, hooks=by)
        loop.close()

    crowd(talk, talk_here, lambda chat: engine.session(chat.name, tenant=f"crowd {many} {chat.user}"), many=many)
