"""The OpenAI Agents SDK: what models, approvals and guardrails see of a call, and what happens while something is away."""

from __future__ import annotations

import asyncio
import copy
import json
import sqlite3
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    RunContextWrapper,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    function_tool,
    set_tracing_disabled,
    tool_input_guardrail,
    tool_namespace,
)
from agents.mcp import MCPServer
from agents.strict_schema import ensure_strict_json_schema
from agents.testing import ModelStep, ScriptedModel, assistant_message
from agents.tool_context import ToolContext
from agents.tracing import TracingProcessor, set_trace_processors
from agents.usage import Usage
from drivers.openai_agents import call, outputs, used
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool

from byref import Engine, Policy
from byref.adapters.openai_agents import Byref, ByrefAgent, ByrefSession

set_tracing_disabled(True)
ROWS = [{"id": n, "note": "x" * 20} for n in range(2_000)]
IDS = {"$var": "orders", "jq": "map(.id)"}


@function_tool
def list_orders() -> dict[str, Any]:
    """List the orders."""
    return {"orders": ROWS, "next_page": None}


@function_tool
def refund(ids: list[int], note: str, limit: int | None = None) -> str:
    """Refund orders."""
    return f"{len(ids)} refunded"


def turns(*turns: list[Any] | str, tokens: int = 1_000) -> ScriptedModel:
    return ScriptedModel([used(*([one] if isinstance(one, str) else one), tokens=tokens) for one in turns])


def ask(by: Byref, model: ScriptedModel, *tools: Any, **options: Any) -> Any:
    agent = Agent(name="shop", model=model, tools=by.tools(*tools))
    return asyncio.run(Runner.run(agent, "Go", hooks=by, **options))


# References


def test_a_strict_schema_allows_a_reference_for_each_argument_and_stays_strict(engine: Engine) -> None:
    by = Byref(engine, session="strict")
    tool: Any = by.wrapped(refund)[0]
    ids, note, limit = (tool.params_json_schema["properties"][name] for name in ("ids", "note", "limit"))
    assert ids["anyOf"][0] == {"type": "array", "items": {"type": "integer"}} and ids["anyOf"][1]["type"] == "string"
    assert note["type"] == "string" and "anyOf" not in note
    assert [option["type"] for option in limit["anyOf"]] == ["integer", "null", "string"]
    assert tool.strict_json_schema and '"$var"' in tool.description
    same = ensure_strict_json_schema(copy.deepcopy(tool.params_json_schema))
    assert same == tool.params_json_schema == copy.copy(tool).params_json_schema
    assert "anyOf" not in refund.params_json_schema["properties"]["ids"] and "$var" not in refund.description
    model = turns(
        [call("list_orders", "call_1")],
        [call("refund", "call_2", ids=json.dumps(IDS), note="n", limit=None), call("refund", "call_3", ids="$orders")],
        "done",
    )
    ask(by, model, list_orders, refund)
    assert outputs(model)["call_2"] == "2000 refunded" and "select a field" in outputs(model)["call_3"]


def test_other_schemas_allow_references_as_objects_and_a_policy_may_forbid_them(engine: Engine) -> None:
    @function_tool(strict_mode=False)
    def find(filters: dict[str, int]) -> str:
        """Find."""
        return str(len(filters))

    shown: Any = Byref(engine, session="loose").wrapped(find)[0]
    assert shown.params_json_schema["properties"]["filters"]["anyOf"][2]["required"] == ["$var"]
    policy = Policy(per_tool={"find": {"references": False}})
    plain: Any = Byref(engine, session="loose", policy=policy).wrapped(find)[0]
    assert (plain.params_json_schema, plain.description) == (find.params_json_schema, find.description)


def test_what_the_sdk_takes_is_left_to_it(engine: Engine) -> None:
    @function_tool
    def double(n: float) -> str:
        """Double."""
        return str(n * 2)

    model = turns([call("double", "call_1", n="nan"), call("double", "call_2", n="3")], "done")
    ask(Byref(engine, session="lax"), model, double)
    assert outputs(model) == {"call_1": "nan", "call_2": "6.0"}


# Approvals and guardrails


def test_an_approval_is_asked_of_the_data(engine: Engine) -> None:
    seen: list[Any] = []

    async def many(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        seen.append(len(arguments["ids"]))
        return len(arguments["ids"]) > 10

    @function_tool(needs_approval=many)
    def pay(ids: list[int]) -> str:
        """Pay."""
        return f"{len(ids)} paid"

    @function_tool(needs_approval=many)
    def defaulted(ids: list[int], unit: str = "EUR") -> str:
        """Pay."""
        return unit

    by = Byref(engine, session="approval")
    model = turns(
        [call("list_orders", "call_1")],
        [
            call("pay", "call_2", ids=IDS),
            call("pay", "call_3", ids={**IDS, "jq": "map(.id)[:3]"}),
            call("pay", "call_4", ids={"$var": "nothing"}),
            call("pay", "call_5", ids=[1]),
            call("defaulted", "call_6", ids=[1]),
        ],
        "done",
    )
    agent = Agent(name="shop", model=model, tools=by.tools(list_orders, pay, defaulted))

    async def work() -> Any:
        result = await Runner.run(agent, "Pay", hooks=by)
        waiting = {item.raw_item.call_id for item in result.interruptions}
        state = await RunState.from_json(agent, json.loads(json.dumps(result.to_state().to_json())))
        for item in state.get_interruptions():
            state.approve(item)
        await Runner.run(agent, state, hooks=by)
        return waiting

    assert asyncio.run(work()) == {"call_2", "call_6"}  # and what validation would change waits, as without byref
    read = outputs(model)
    assert (read["call_2"], read["call_3"], read["call_5"]) == ("2000 paid", "3 paid", "1 paid")
    assert "no artifact or variable 'nothing'" in read["call_4"]
    assert all(isinstance(count, int) for count in seen) and {1, 3, 2_000} <= set(seen)


@pytest.mark.parametrize("wrapped_first", [True, False])
def test_what_a_person_approved_runs_in_a_namespace_too(engine: Engine, wrapped_first: bool) -> None:
    @function_tool(needs_approval=lambda context, arguments, call_id: len(arguments["ids"]) > 10)  # type: ignore[arg-type]
    def pay(ids: list[int]) -> str:
        """Pay."""
        return f"{len(ids)} paid"

    def named(*tools: Any) -> list[Any]:
        return list(tool_namespace(name="bank", description="A bank.", tools=list(tools)))

    by = Byref(engine, session="bank")
    engine.session("bank").run("chosen = list(range(500))")
    item: Any = call("pay", "call_1", ids="$chosen").model_copy(update={"namespace": "bank"})
    tools = named(*by.wrapped(pay)) if wrapped_first else by.wrapped(*named(pay))
    model = turns([item], "done")
    agent = Agent(name="bank", model=model, tools=tools)

    async def work() -> None:
        state = (await Runner.run(agent, "Pay")).to_state()
        state.approve(state.get_interruptions()[0])
        await Runner.run(agent, state)

    asyncio.run(work())
    assert outputs(model)["call_1"] == "500 paid"


def test_data_that_changes_after_the_question_does_not_slip_through(engine: Engine) -> None:
    by = Byref(engine, session="race")

    def many(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
        answer = len(arguments["ids"]) > 10
        engine.session("race").run("chosen = list(range(500))")  # what a call beside it may do
        return answer

    ran = []

    @function_tool(needs_approval=many)  # type: ignore[arg-type]
    def pay(ids: list[int]) -> str:
        """Pay."""
        ran.append(len(ids))
        return "paid"

    engine.session("race").run("chosen = [1, 2]")
    model = turns([call("pay", "call_1", ids="$chosen")], "done")
    ask(by, model, pay)
    assert "needs approval" in outputs(model)["call_1"] and ran == []


def test_guardrails_of_the_input_see_the_data_that_the_tool_gets(engine: Engine) -> None:
    seen: list[str] = []

    @tool_input_guardrail
    def few(data: Any) -> ToolGuardrailFunctionOutput:
        seen.append(data.context.tool_arguments)
        too_many = len(json.loads(data.context.tool_arguments)["ids"]) > 10
        return (
            ToolGuardrailFunctionOutput.reject_content("too many") if too_many else ToolGuardrailFunctionOutput.allow()
        )

    @function_tool(tool_input_guardrails=[few, few])
    def send(ids: list[int]) -> str:
        """Send."""
        return f"{len(ids)} sent"

    by = Byref(engine, session="guarded")
    wrapped: Any = by.wrapped(send)[0]
    assert wrapped.tool_input_guardrails[0].get_name() == "few"
    model = turns(
        [call("list_orders", "call_1")],
        [
            call("send", "call_2", ids=IDS),
            call("send", "call_3", ids={**IDS, "jq": "map(.id)[:3]"}),
            call("send", "call_4", ids={"$var": "nothing"}),
        ],
        "done",
    )
    ask(by, model, list_orders, send)
    read = outputs(model)
    assert read["call_2"] == "too many" and read["call_3"] == "3 sent" and "'nothing'" in read["call_4"]
    assert seen.count('{"ids": [0, 1, 2]}') == 2 and not any("$var" in text for text in seen)


# A database that is away, a conversation that has ended


def test_what_a_tool_gave_is_read_though_the_conversation_ended_meanwhile(engine: Engine) -> None:
    @function_tool
    def finish(how: str) -> dict[str, Any]:
        """End."""
        engine.session("ends").end() if how == "end" else engine.delete_session("ends")
        return {"orders": ROWS}

    for how in ("delete", "end"):
        by = Byref(engine, session="ends")
        model = turns([call("finish", "call_1", how=how)], "done")
        assert ask(by, model, finish).final_output == "done"
        assert "INCOMPLETE" in outputs(model)["call_1"] and len(outputs(model)["call_1"]) < 20_000


# Agents in tools


def test_an_agent_that_a_tool_runs_is_paid_for_and_is_not_the_context(engine: Engine) -> None:
    by = Byref(engine, session="parent")
    inner = Agent(
        name="inner", model=turns([call("list_orders", "call_9")], "found", tokens=90_000), tools=by.tools(list_orders)
    )
    model = turns([call("look", "call_1", input="x")])
    agent = Agent(
        name="shop",
        model=model,
        tools=by.tools(inner.as_tool("look", "Look.", hooks=by)),
        tool_use_behavior="stop_on_first_tool",
    )
    assert asyncio.run(Runner.run(agent, "Go", hooks=by)).final_output == "found"
    session = engine.session("parent")
    assert session.usage().requests == 3 and session.usage().input_tokens == 181_000
    assert session.context_tokens() < 2_000


def test_an_answer_that_nobody_counted_is_no_usage(engine: Engine) -> None:
    nothing = ModelStep(output=[assistant_message("Done.")], usage=Usage(requests=1))
    ask(Byref(engine, session="chat"), ScriptedModel([used(call("list_orders", "call_1")), nothing]), list_orders)
    session = engine.session("chat")
    assert session.usage().requests == 1 and session.context_tokens() > 1_000


# What tools return


@pytest.mark.parametrize("stream", [False, True])
def test_the_host_finds_what_the_tool_returned_that_ended_the_run(engine: Engine, stream: bool) -> None:
    model = turns([call("list_orders", "call_1"), call("list_orders", "call_2")])
    tools = Byref(engine, session=f"first {stream}").tools(list_orders)
    agent = Agent(name="shop", model=model, tools=tools, tool_use_behavior="stop_on_first_tool")

    async def run() -> Any:
        if not stream:
            return await Runner.run(agent, "Go")
        result = Runner.run_streamed(agent, "Go")
        async for _ in result.stream_events():
            pass
        return result

    result = asyncio.run(run())
    assert "variables" in json.loads(result.final_output)
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert next(one.original for one in outputs if one == result.final_output)["orders"] == ROWS


@pytest.mark.parametrize("kind", ["text", "image", "file"])
def test_rows_that_look_like_blocks_keep_their_fields(engine: Engine, kind: str) -> None:
    rows = [{"type": kind, "text": f"t{n}", "image_url": "http://x/1.png", "file_id": "f", "id": n} for n in range(3)]

    @function_tool
    def typed() -> list[dict[str, Any]]:
        """Rows."""
        return rows

    model = turns([call("typed", "call_1")], "done")
    ask(Byref(engine, session=f"typed-{kind}"), model, typed)
    assert json.loads(outputs(model)["call_1"]) == rows


class Rows(MCPServer):
    """An MCP server that gives a list as SDKs do: a text of each element, and structured content."""

    name = "rows"

    def __init__(self, structured: bool) -> None:
        super().__init__(use_structured_content=structured)

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[MCPTool]:
        return [MCPTool(name=name, input_schema={"type": "object"}) for name in ("rows", "refuse")]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        if tool_name == "refuse":
            return CallToolResult(content=[TextContent(text="not allowed")], is_error=True)
        texts = [TextContent(text=json.dumps(row, indent=2)) for row in ROWS]
        return CallToolResult(content=[*texts], structured_content={"result": ROWS})

    async def list_prompts(self) -> Any: ...

    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("structured", [True, False])
def test_what_a_server_says_is_taken_in_as_it_says_it(engine: Engine, structured: bool) -> None:
    by = Byref(engine, session=f"mcp-{structured}")
    model = turns([call("rows", "call_1"), call("refuse", "call_2")], [call("outer", "call_3")], "done")
    server = Rows(structured)

    @function_tool
    async def outer() -> str:
        """A tool that calls the server itself gives what it gives."""
        await server.call_tool("rows", {})
        return "mine"

    agent = ByrefAgent(name="shop", model=model, mcp_servers=[server], tools=[outer], byref=by)
    asyncio.run(Runner.run(agent, "Go", hooks=by))
    session = engine.session(f"mcp-{structured}")
    assert session.resolve({"rows": "$rows"}) == {"rows": ROWS}
    assert "not allowed" in str(outputs(model)["call_2"]) and outputs(model)["call_3"] == "mine"
    assert {e.call_id: e.is_error for e in session.ledger() if e.kind == "output"} == {
        "call_1": False, "call_2": True, "call_3": False,
    }  # fmt: skip


def test_code_calls_tools_of_mcp_servers(engine: Engine) -> None:
    by = Byref(engine, session="mcp-code", code_functions=["r*"])
    code = "print(len(rows()), rows()[1]['id'])\ntry:\n    refuse()\nexcept Exception as error:\n    print(type(error).__name__, error)"
    model = turns([call("code_interpreter", "call_1", code=code)], [call("rows", "call_2")], "done")
    agent = ByrefAgent(name="shop", model=model, mcp_servers=[Rows(False)], tools=[list_orders], byref=by)
    asyncio.run(Runner.run(agent, "Go", hooks=by))
    assert outputs(model)["call_1"].splitlines()[:2] == ["2000 1", "FunctionError refuse(): not allowed"]
    session = engine.session("mcp-code")
    assert [entry.tool for entry in session.ledger() if entry.kind == "call"] == ["rows", "rows", "refuse"]
    assert session.resolve({"rows": "$rows_result"}) == {"rows": ROWS}  # the model may call them itself, too
    for given in (agent, agent.clone(), ByrefAgent(name="bare", mcp_servers=[Rows(True)], byref=by)):
        tools = asyncio.run(given.get_all_tools(RunContextWrapper(None)))
        [interpreter] = [tool for tool in tools if isinstance(tool, FunctionTool) and tool.name == "code_interpreter"]
        assert "rows(" in interpreter.description and "list_orders(" not in interpreter.description


# The session, and engines that are none


def test_a_row_that_is_no_item_is_left_out(tmp_path: Any) -> None:
    path = tmp_path / "chat.db"
    with Engine(f"sqlite:///{path}", jail="language-only") as engine:

        async def work() -> None:
            session = ByrefSession("chat", engine)
            await session.add_items([{"role": "user", "content": str(n)} for n in range(6)])
            with sqlite3.connect(path) as connection:
                connection.execute("UPDATE byref_items SET text = '{no' WHERE number IN (3, 5)")
                connection.execute("UPDATE byref_items SET text = '7' WHERE number = 4")
            connection.close()
            read: list[Any] = await session.get_items()
            assert [item["content"] for item in read] == ["0", "1", "2"]
            assert await session.get_items(2) == read[1:] and await session.get_items(0) == []
            assert await session.get_items(50) == read
            assert await session.pop_item() == read[2] and await session.get_items() == read[:2]
            assert await session.pop_item() and await session.pop_item() and await session.pop_item() is None

        asyncio.run(work())


def test_tools_of_ones_own_class_stay_such(engine: Engine) -> None:
    class Mine(FunctionTool):
        """A host's own kind of tool."""

    async def invoke(context: Any, arguments: str) -> str:
        return arguments

    given = Mine("mine", "Mine.", {"type": "object", "properties": {}}, invoke)
    assert type(Byref(engine, session="kinds").wrapped(given)[0]) is Mine


# Functions of code


@tool_input_guardrail
def not_nowhere(data: Any) -> ToolGuardrailFunctionOutput:
    if "nowhere" in data.context.tool_arguments:
        return ToolGuardrailFunctionOutput.reject_content("no such region")
    return ToolGuardrailFunctionOutput.allow()


@function_tool(tool_input_guardrails=[not_nowhere])
async def search_orders(context: ToolContext[Any], region: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Find orders of a region."""
    assert context.tool_name == "search_orders" and json.loads(context.tool_arguments)["region"] == region
    await asyncio.sleep(0)
    return [{"region": region, "total": n} for n in range(limit or 3)]


async def if_large(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
    return bool(arguments["total"] > 10)


def test_code_calls_an_agents_tools_with_its_guardrails_and_spans(engine: Engine) -> None:
    refunded = []

    @function_tool
    def search_refund(total: int) -> str:
        """Refund."""
        refunded.append(total)
        return json.dumps({"refunded": total})

    code = (
        "import asyncio\n"
        "found = await asyncio.gather(*[search_orders(r, limit=2_000) for r in ('EU', 'US')])\n"
        "print(sum(o['total'] for orders in found for o in orders), len(search_orders('EU')))\n"
        "print(search_refund(5)['refunded'])\n"
        "for work in (lambda: search_orders('nowhere'), lambda: refund([1], '')):\n"
        "    try:\n"
        "        work()\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error)"
    )
    spans: list[Any] = []

    class Processor(TracingProcessor):
        def on_span_end(self, span: Any) -> None:
            spans.append(span)

        def on_span_start(self, span: Any) -> None: ...
        def on_trace_start(self, trace: Any) -> None: ...
        def on_trace_end(self, trace: Any) -> None: ...
        def shutdown(self) -> None: ...
        def force_flush(self) -> None: ...

    by = Byref(engine, session="functions", code_functions=["search_*"])
    model = turns([call("code_interpreter", "c1", code=code)], "Done.")
    agent = Agent(name="shop", model=model, tools=by.tools(*by.tools(search_orders, search_refund), refund))
    set_trace_processors([Processor()])
    set_tracing_disabled(False)
    try:
        asyncio.run(Runner.run(agent, "Go", hooks=by))
    finally:
        set_tracing_disabled(True)
        set_trace_processors([])
    printed = outputs(model)["c1"].splitlines()
    assert printed[:2] == ["3998000 3", "5"] and refunded == [5]
    assert "FunctionError search_orders(): no such region" in printed[2]
    assert "NameError" in printed[3]
    [definition] = [one for one in agent.tools if one.name == "code_interpreter"]
    assert isinstance(definition, FunctionTool)
    assert "search_orders(region: str, limit: int | None = ...)  # Find orders of a region." in definition.description
    assert definition.needs_approval is False
    made = [one for one in spans if one.span_data.type == "function"]
    [outer] = [one for one in made if one.span_data.name == "code_interpreter"]
    assert [one.parent_id for one in made if one.span_data.name == "search_orders"] == [outer.span_id] * 4


def test_a_failure_that_the_sdk_puts_in_words_is_an_exception_in_code(engine: Engine) -> None:
    def worded(context: Any, error: Exception) -> str:
        return f"No customer: {error}"

    def made(name: str, **options: Any) -> FunctionTool:
        async def work(id: int) -> str:
            if id == 2:
                raise KeyError("secret")
            await asyncio.sleep(id)
            return "Ann"

        return function_tool(work, name_override=name, **options)

    tools = [
        made("quiet"),
        made("worded", failure_error_function=worded),
        made("raising", failure_error_function=None),
        made("slow", timeout=0.01),
    ]
    code = (
        "for work, id in ((quiet, 0), (quiet, 2), (worded, 2), (raising, 2), (slow, 1)):\n"
        "    try:\n"
        "        print(work(id))\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error)"
    )
    model = turns([call("code_interpreter", "c1", code=code)], "Done.")
    by = Byref(engine, session="worded", code_functions=["*"])
    ask(by, model, *tools)
    fine, quiet, told, raised, late = outputs(model)["c1"].splitlines()[:5]
    assert fine == "Ann" and quiet.startswith("FunctionError quiet(): An error occurred") and "secret" not in quiet
    assert told == "FunctionError worded(): No customer: 'secret'" and raised.startswith("KeyError")
    assert "timed out" in late and "Error" in late.split()[0]
    calls = [entry.detail["outcome"] for entry in engine.session("worded").ledger() if entry.kind == "call"]
    assert calls == ["returned", *["raised"] * 4]


PAYING = (
    "import asyncio\n"
    "def tried(total):\n"
    "    try:\n"
    "        return refund_order(total)\n"
    "    except PermissionError as error:\n"
    "        return str(error)\n"
    "found = len(search_orders('EU'))\n"
    "small = refund_order(5)\n"
    "both = await asyncio.gather(refund_order(11), refund_order(12))\n"
    "[found, small, both, tried(13)]"
)


@pytest.mark.parametrize("decision", ["approved", "rejected"])
def test_the_sdk_asks_about_calls_of_code_that_need_approval(engine: Engine, decision: str) -> None:
    """Once for one program; whoever approves goes on in any process, from the run's state as text."""
    refunded: list[int] = []
    searched: list[str] = []

    @function_tool
    async def search_orders(region: str) -> list[int]:
        """Find orders."""
        searched.append(region)
        return [1, 2, 3]

    @function_tool(needs_approval=if_large)
    def refund_order(total: int) -> int:
        """Refund."""
        refunded.append(total)
        return total

    def made(*said: Any) -> tuple[Byref, Any, Agent[Any]]:
        by = Byref(engine, session=f"asked {decision}", code_functions=["search_*", "refund_*"])
        model = turns(*said)
        tools = by.tools(search_orders, refund_order)
        return by, model, Agent(name="shop", model=model, tools=tools)

    by, _, agent = made([call("code_interpreter", "c1", code=PAYING)])
    result = asyncio.run(Runner.run(agent, "Go", hooks=by))
    [asked] = result.interruptions
    assert (asked.name, json.loads(asked.arguments)) == ("code_interpreter", {"code": PAYING})
    waiting = by.pending(result.context_wrapper, "c1")
    assert [(one.function, one.arguments) for one in waiting] == [("refund_order", {"total": n}) for n in (11, 12)]
    assert refunded == [5] and searched == ["EU"]
    kept = json.dumps(result.to_state().to_json())

    async def resumed() -> tuple[Byref, Any]:
        again, model, other = made("Done.")
        state = await RunState.from_json(other, json.loads(kept))
        [item] = state.get_interruptions()
        state.approve(item) if decision == "approved" else state.reject(item)
        assert (await Runner.run(other, state, hooks=again)).final_output == "Done."
        return again, model

    _, model = asyncio.run(resumed())
    said = outputs(model)["c1"]
    if decision == "approved":
        found, small, both, refused = json.loads(said.splitlines()[0])
        assert (found, small, both) == (3, 5, [11, 12]) and "call the tool itself" in refused
    else:
        assert "not approved" in said
    assert sorted(refunded) == ([5, 11, 12] if decision == "approved" else [5]) and searched == ["EU"]
    assert engine.session(f"asked {decision}").pending() == [] and engine.pending("default") == []


def test_code_that_asks_for_nothing_runs_once_and_without_hooks_it_is_refused(engine: Engine) -> None:
    paid: list[int] = []

    @function_tool(needs_approval=True)
    def pay(total: int) -> int:
        """Pay."""
        paid.append(total)
        return total

    @function_tool
    def look() -> int:
        """Look."""
        paid.append(0)
        return 7

    by = Byref(engine, session="asks nothing", code_functions=["*"])
    codes = ("look() + 1", "look()\ntry:\n    pay(1)\nexcept PermissionError as error:\n    print(error)", "look(")
    model = turns([call("code_interpreter", f"c{n}", code=code) for n, code in enumerate(codes)], "Done.")
    agent = Agent(name="shop", model=model, tools=by.tools(pay, look))
    result = asyncio.run(Runner.run(agent, "Go", hooks=by))
    assert len(result.interruptions) == 1 and paid == [0, 0]
    alone = turns([call("code_interpreter", "c4", code=codes[1])], "Done.")
    asyncio.run(Runner.run(Agent(name="shop", model=alone, tools=by.tools(pay, look)), "Go"))
    assert "call the tool itself" in outputs(alone)["c4"] and paid == [0, 0, 0]
    kept = [one.call_id for one in engine.session("asks nothing").ledger() if one.kind == "reply"]
    assert sorted(kept) == ["c0", "c2", "c4"]


def test_code_under_the_id_of_abandoned_code_is_what_is_approved(engine: Engine) -> None:
    paid: list[int] = []

    @function_tool(needs_approval=True)
    def pay(total: int) -> int:
        """Pay."""
        paid.append(total)
        return total

    by = Byref(engine, session="abandoned", code_functions=["*"])

    async def asked(code: str, *then: Any) -> tuple[Any, ScriptedModel, Agent[Any]]:
        model = turns([call("code_interpreter", "c1", code=code)], *then)
        agent = Agent(name="shop", model=model, tools=by.tools(pay))
        return await Runner.run(agent, "Go", hooks=by), model, agent

    async def work() -> list[str]:
        await asked("pay(5)")
        said = []
        for code in ("pay(6)", "1 + 1"):
            result, model, agent = await asked(code, "Done.")
            for item in result.interruptions:
                state = result.to_state()
                state.approve(item)
                await Runner.run(agent, state, hooks=by)
            said.append(outputs(model)["c1"])
        return said

    assert asyncio.run(work()) == ["6", "2"] and paid == [6]
