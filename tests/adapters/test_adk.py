"""Google ADK itself, with a scripted model, over byref's plugin."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable
from typing import Any, Literal

import pandas as pd
import pytest
from adapter_shop import ROWS, count
from adapter_shop import list_notes as list_orders
from drivers.adk import Scripted, responses
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent, RunConfig, SequentialAgent
from google.adk.apps.app import App
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from byref import Engine, Policy
from byref.adapters.adk import ByrefArtifactService, ByrefPlugin, session_name


def call(name: str, call_id: str, **arguments: Any) -> types.FunctionCall:
    return types.FunctionCall(name=name, args=arguments, id=call_id)


def read(model: Scripted, call_id: str) -> dict[str, Any]:
    response: dict[str, Any] = responses(model.requests[-1])[call_id].response or {}
    return response


async def ask(
    plugin: BasePlugin,
    model: Scripted,
    *tools: Any,
    user: str = "ann",
    session: str = "chat",
    service: BaseSessionService | None = None,
    config: RunConfig | None = None,
    **options: Any,
) -> list[Any]:
    """One message of a user; the run's events."""
    agent = LlmAgent(name="shop", model=model, tools=list(tools), **options)
    return await run_agent(plugin, agent, user, session, service, config)


async def run_agent(
    plugin: BasePlugin,
    agent: BaseAgent,
    user: str = "ann",
    session: str = "chat",
    service: BaseSessionService | None = None,
    config: RunConfig | None = None,
) -> list[Any]:
    """One message of a user to an agent; the run's events."""
    service = service or InMemorySessionService()  # type: ignore[no-untyped-call]
    runner = Runner(
        app=App(name="shop", root_agent=agent, plugins=[plugin]), session_service=service, auto_create_session=True
    )
    message = types.Content(role="user", parts=[types.Part(text="Go")])
    return [
        event
        async for event in runner.run_async(user_id=user, session_id=session, new_message=message, run_config=config)
    ]


def fail() -> str:
    """Fail."""
    raise RuntimeError("out of paper")


def refuse() -> dict[str, Any]:
    """Refuse."""
    return {"error": "not today"}


@pytest.mark.slow
def test_a_conversation_goes_on_in_a_new_process_with_its_events(sqlite_url: str, tmp_path: Any) -> None:
    stored = f"sqlite+aiosqlite:///{tmp_path / 'events.db'}"

    async def first() -> None:
        with Engine(sqlite_url) as engine:
            service = DatabaseSessionService(stored)
            await ask(
                ByrefPlugin(engine),
                Scripted(turns=[[call("list_orders", "call_1")], "done"]),
                list_orders,
                service=service,
            )
            kept = await service.get_session(app_name="shop", user_id="ann", session_id="chat")
            assert kept is not None and len(kept.model_dump_json()) < 15_000
            await service.close()

    async def second() -> None:
        with Engine(sqlite_url) as engine:
            service = DatabaseSessionService(stored)
            model = Scripted(turns=[[call("count", "call_2", ids={"$var": "orders", "jq": "map(.id)"})], "2000"])
            await ask(ByrefPlugin(engine), model, count, service=service)
            assert read(model, "call_2") == {"result": "2000 orders"} and read(model, "call_1")["variables"]
            wrote = [p.function_call for c in model.requests[-1].contents for p in c.parts or [] if p.function_call]
            assert wrote[-1].args == {"ids": {"$var": "orders", "jq": "map(.id)"}}
            entry = [e for e in engine.session(session_name("shop", "ann", "chat")).ledger() if e.tool == "count"][-1]
            assert entry.arguments is not None and "$var" in entry.arguments
            await service.close()

    asyncio.run(first())
    asyncio.run(second())


def test_what_went_wrong_is_told_to_the_model(engine: Engine) -> None:
    model = Scripted(turns=[[call("fail", "call_1"), call("refuse", "call_2"), call("nowhere", "call_3")], "sorry"])
    asyncio.run(ask(ByrefPlugin(engine, session="wrong"), model, fail, refuse))
    assert read(model, "call_1") == {"error": "RuntimeError: out of paper"}
    assert read(model, "call_2") == {"error": "not today"}
    assert "nowhere" in read(model, "call_3")["error"] and "code_interpreter" in read(model, "call_3")["error"]
    steps = [e for e in engine.session("wrong").ledger() if e.kind in ("output", "reply")]
    assert {e.call_id for e in steps if e.is_error} == {"call_1", "call_2"} and len(steps) == 2


def test_exceptions_are_left_to_adk_where_the_host_says_so(engine: Engine) -> None:
    model = Scripted(turns=[[call("fail", "call_1")], "sorry"])
    with pytest.raises(RuntimeError, match="out of paper"):
        asyncio.run(ask(ByrefPlugin(engine, session="raised", answer_errors=False), model, fail))


def test_small_results_stay_what_they_are_and_other_callbacks_see_them(engine: Engine) -> None:
    seen: list[Any] = []

    def after(tool: Any, args: dict[str, Any], tool_context: ToolContext, tool_response: Any) -> None:
        seen.append(tool_response)

    def numbers() -> list[int]:
        return [1, 2]

    def frame() -> pd.DataFrame:
        return pd.DataFrame({"a": [1, 2]})

    tools: list[Callable[[], Any]] = [numbers, frame]
    model = Scripted(turns=[[call(tool.__name__, tool.__name__) for tool in tools], "done"])
    asyncio.run(ask(ByrefPlugin(engine, session="small"), model, *tools, after_tool_callback=after))
    assert read(model, "numbers") == {"result": [1, 2]} and [1, 2] in seen
    assert read(model, "frame") == {"result": [{"a": 1}, {"a": 2}]}


def test_instructions_of_a_trusted_tool_reach_the_model_of_this_run_alone(engine: Engine) -> None:
    def styled() -> dict[str, Any]:
        return {"display_instructions_for_model": "Show totals in euros.", "rows": ROWS}

    plugin = ByrefPlugin(engine, session="told", policy=Policy(trusted_instructions="all"))
    model = Scripted(turns=[[call("styled", "call_1")], "done", "again"])
    asyncio.run(ask(plugin, model, styled))
    said = [str(request.config.system_instruction) for request in model.requests]
    assert "euros" not in said[0] and "Show totals in euros." in said[1]
    asyncio.run(ask(plugin, model, styled, session="other"))
    assert "euros" not in str(model.requests[-1].config.system_instruction) and plugin._instructions == {}


def test_agents_without_tools_get_none_and_names_of_the_hosts_come_first(engine: Engine) -> None:
    def artifact_read(reference: str) -> str:
        return "the host's"

    plugin = ByrefPlugin(engine, session="names")
    model = Scripted(turns=["hello"])
    asyncio.run(ask(plugin, model))
    assert not model.requests[-1].config.tools
    model = Scripted(turns=[[call("artifact_read", "call_1", reference="x")], "done"])
    asyncio.run(ask(plugin, model, artifact_read))
    assert read(model, "call_1") == {"result": "the host's"}


def test_a_file_that_the_agent_saved_is_in_reach_of_byrefs_tools(engine: Engine) -> None:
    async def save(tool_context: ToolContext) -> str:
        part = types.Part.from_bytes(data=json.dumps(ROWS).encode(), mime_type="application/json")
        return f"version {await tool_context.save_artifact('out/rows.json', part)}"

    async def work() -> Scripted:
        model = Scripted(
            turns=[
                [call("save", "call_1")],
                [call("artifact_jq", "call_2", reference="out/rows.json", program="length")],
                "done",
            ]
        )
        agent = LlmAgent(name="shop", model=model, tools=[save])
        runner = Runner(
            app=App(
                name="shop", root_agent=agent, plugins=[ByrefPlugin(engine, policy=Policy(tools=("artifact_jq",)))]
            ),
            session_service=InMemorySessionService(),  # type: ignore[no-untyped-call]
            artifact_service=ByrefArtifactService(engine),
            auto_create_session=True,
        )
        message = types.Content(role="user", parts=[types.Part(text="Go")])
        async for _ in runner.run_async(user_id="eve", session_id="files", new_message=message):
            pass
        return model

    model = asyncio.run(work())
    assert read(model, "call_1") == {"result": "version 0"}
    assert read(model, "call_2") == {"result": "2000"}


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")  # ADK's own use
def test_an_agent_that_is_a_tool_works_in_the_conversation_of_its_caller(engine: Engine) -> None:
    inner = Scripted(turns=[[call("list_orders", "call_2")], "I have them"])
    sub = LlmAgent(name="sub", model=inner, tools=[list_orders], description="Lists orders.")
    contexts: list[int] = []

    async def context() -> str:
        """Look at the context."""
        contexts.append(await asyncio.to_thread(engine.session(session_name("shop", "sub", "chat")).context_tokens))
        return "looked"

    turns = [
        [call("sub", "call_1", request="list")],
        [call("context", "call_3"), call("count", "call_4", ids={"$var": "orders", "jq": "map(.id)"})],
        "done",
    ]
    model = Scripted(turns=turns)
    inner.requests += [LlmRequest()] * 50  # its answers count as 50,000 tokens
    asyncio.run(ask(ByrefPlugin(engine), model, AgentTool(agent=sub), count, context, user="sub"))
    assert read(model, "call_4") == {"result": "2000 orders"}
    session = engine.session(session_name("shop", "sub", "chat"))
    assert session.usage().requests == 5 and contexts == [2_010] and session.context_tokens() == 3_010
    assert [info.id for info in engine.sessions() if "/sub/" in info.id] == [session.id]


def test_of_branches_side_by_side_one_speaks_for_the_context(engine: Engine) -> None:
    agents = [
        LlmAgent(name=f"agent_{n}", model=Scripted(turns=["done"], requests=[LlmRequest()] * n)) for n in range(3)
    ]
    after = LlmAgent(name="after", model=Scripted(turns=["done"], requests=[LlmRequest()] * 9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # workflow agents are announced to go
        both = SequentialAgent(name="both", sub_agents=[ParallelAgent(name="side", sub_agents=agents), after])
    leads: list[tuple[str, bool]] = []

    class Watching(ByrefPlugin):
        def _leads(self, context: Any, name: Any) -> bool:
            leads.append((context.get_invocation_context().agent.name, super()._leads(context, name)))
            return leads[-1][1]

    plugin = Watching(engine, session="branches")
    asyncio.run(run_agent(plugin, both))
    assert sum(does for name, does in leads if name != "after") == 1 and leads[-1] == ("after", True)
    session = engine.session("branches")
    assert session.usage().requests == 4 and session.context_tokens() == 10_010 and plugin._leaders == {}


def test_the_conversation_may_be_found_in_the_context(engine: Engine) -> None:
    plugin = ByrefPlugin(engine, session=lambda context: f"of {context.user_id}")
    asyncio.run(ask(plugin, Scripted(turns=["hello"]), user="zoe"))
    assert engine.session("of zoe").usage().requests == 1


def test_an_answer_that_nobody_counted_is_no_usage(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    class Uncounted(Scripted):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
            async for answer in super().generate_content_async(llm_request, stream):
                nothing = types.GenerateContentResponseUsageMetadata(prompt_token_count=0, candidates_token_count=0)
                yield answer.model_copy(update={"usage_metadata": nothing})

    asyncio.run(ask(ByrefPlugin(engine, session="chat"), Uncounted(turns=["hello"])))
    assert engine.session("chat").ledger() == [] and "could not record" not in caplog.text


def test_the_model_is_shown_that_arguments_may_be_references(engine: Engine) -> None:
    def label(ids: list[int], name: str, colour: Literal["red", "blue"]) -> str:
        """Label."""
        return "ok"

    class Old(BaseTool):
        def _get_declaration(self) -> types.FunctionDeclaration:
            ids = types.Schema(type=types.Type.ARRAY, items=types.Schema(type=types.Type.INTEGER))
            text = types.Schema(type=types.Type.STRING)
            parameters = types.Schema(type=types.Type.OBJECT, properties={"ids": ids, "text": text})
            return types.FunctionDeclaration(name="old", description="Old.", parameters=parameters)

    model = Scripted(turns=["done"])
    asyncio.run(ask(ByrefPlugin(engine, session="shown"), model, label, Old(name="old", description="Old.")))
    (declared,) = model.requests[0].config.tools or []
    assert isinstance(declared, types.Tool)
    by_name = {one.name: one for one in declared.function_declarations or []}
    properties = by_name["label"].parameters_json_schema["properties"]
    ids, reference = properties["ids"]["anyOf"]
    assert ids["type"] == "array" and reference["type"] == "string" and "$orders" in reference["description"]
    assert "anyOf" not in properties["name"] and "anyOf" not in properties["colour"]
    old = by_name["old"].parameters
    assert old is not None and old.properties is not None
    options = old.properties["ids"].any_of or []
    assert [option.type for option in options] == [types.Type.ARRAY, types.Type.STRING]
    assert old.properties["text"] == types.Schema(type=types.Type.STRING)


def test_a_result_of_mcp_is_stored_once(engine: Engine) -> None:
    def rows() -> dict[str, Any]:
        """Say what ADK's MCP tools return of a server's."""
        text = [{"type": "text", "text": json.dumps(row)} for row in ROWS]
        return {"content": text, "structuredContent": {"result": ROWS}, "isError": False, "meta": {"a": 1}}

    def fails() -> dict[str, Any]:
        """Say what ADK's MCP tools return of a call that failed."""
        return {"content": [{"type": "text", "text": "no such row"}], "isError": True}

    model = Scripted(turns=[[call("rows", "call_1"), call("fails", "call_2")], "done"])
    asyncio.run(ask(ByrefPlugin(engine, session="mcp"), model, rows, fails))
    assert read(model, "call_1")["variables"] == {"rows": "array(2000) of object(3 keys)"}
    assert read(model, "call_2") == {"error": "no such row"}


def test_a_small_result_of_mcp_stays_what_it_is(engine: Engine) -> None:
    small = {"content": [{"type": "text", "text": '{"state": "open"}'}], "isError": False}
    seen: list[Any] = []

    def after(tool: Any, args: dict[str, Any], tool_context: ToolContext, tool_response: Any) -> None:
        seen.append(tool_response)

    def status() -> dict[str, Any]:
        return small

    def both() -> dict[str, Any]:
        return {**small, "structuredContent": {"state": "open"}}

    def noted() -> dict[str, Any]:
        """Say more than byref measures: it is left out."""
        return {**small, "meta": {"trace": "x" * 50_000}}

    def mapped() -> dict[str, Any]:
        return small

    model = Scripted(turns=[[call(tool.__name__, tool.__name__) for tool in (status, both, noted, mapped)], "done"])
    policy = Policy(per_tool={"mapped": {"mapper": lambda value: {"is": value["state"]}}})
    plugin = ByrefPlugin(engine, session="small mcp", policy=policy)
    asyncio.run(ask(plugin, model, status, both, noted, mapped, after_tool_callback=after))
    assert read(model, "status") == small and read(model, "both") == both() and len(seen) == 2
    assert small in seen and both() in seen  # in either order: the calls are made side by side
    assert read(model, "noted") == {"result": '{"state": "open"}'} and read(model, "mapped") == {"is": "open"}


@pytest.mark.parametrize("is_own", [True, False])
def test_a_call_in_code_that_needs_confirmation_waits_if_the_agent_has_byrefs_tools(
    engine: Engine, is_own: bool
) -> None:
    paid: list[int] = []

    def pay(order: int) -> int:
        paid.append(order)
        return order

    name = f"confirmed {is_own}"
    code = (
        "import asyncio\n"
        "try:\n"
        "    print(await asyncio.gather(pay(1), pay(2), pay(3)))\n"
        "    pay(4)\n"
        "except PermissionError as error:\n"
        "    print(error)"
    )
    model = Scripted(turns=[[call("code_interpreter", "c1", code=code)], "Done."])
    plugin = ByrefPlugin(engine, code_functions=["pay"])
    tools = [FunctionTool(pay, require_confirmation=True), *(plugin.tools if is_own else [])]
    agent = LlmAgent(name="shop", model=model, tools=tools)
    service = InMemorySessionService()  # type: ignore[no-untyped-call]
    runner = Runner(
        app=App(name="shop", root_agent=agent, plugins=[plugin]), session_service=service, auto_create_session=True
    )

    async def said(*parts: types.Part) -> list[types.FunctionCall]:
        """Send the parts; return the questions to the user."""
        message = types.Content(role="user", parts=list(parts))
        events = [one async for one in runner.run_async(user_id="ann", session_id=name, new_message=message)]
        calls = [one for event in events for one in event.get_function_calls()]
        return [one for one in calls if one.name == "adk_request_confirmation"]

    def answer(question: types.FunctionCall, payload: Any, *, confirmed: bool) -> types.Part:
        response = {"confirmed": confirmed, "payload": payload}
        return types.Part(
            function_response=types.FunctionResponse(id=question.id, name=question.name, response=response)
        )

    async def held() -> None:
        questions = await said(types.Part(text="Go"))
        if not is_own:
            assert questions == [] and "call the tool itself" in str(read(model, "c1")) and paid == []
            return
        [question] = questions
        calls = (question.args or {})["toolConfirmation"]["payload"]["calls"]
        assert [(one["function"], one["arguments"]) for one in calls] == [("pay", {"order": n}) for n in (1, 2, 3)]
        assert paid == []
        decisions = {calls[1]["id"]: {"order": 20}}
        assert await said(answer(question, decisions, confirmed=True)) == []
        assert sorted(paid) == [1, 3, 20] and "call the tool itself" in str(read(model, "c1"))

    asyncio.run(held())
