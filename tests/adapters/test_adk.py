"""Google ADK itself, with a scripted model, over byref's plugin."""

from __future__ import annotations

import asyncio
import builtins
import copy
import importlib
import json
import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Literal

import pandas as pd
import pytest
from away import Away
from crowd import Chat, crowd
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent, RunConfig, SequentialAgent
from google.adk.agents.run_config import StreamingMode
from google.adk.apps.app import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import Field

import byref
from byref import Engine, Policy
from byref.adapters.adk import ByrefArtifactService, ByrefPlugin, session_name
from byref.errors import StorageFailure

ROWS = [{"id": n, "total": n % 50, "note": "x" * 20} for n in range(2_000)]
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000000000500010d0a2db40000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("sqlite:///:memory:") as made:
        yield made


class Scripted(BaseLlm):
    """Calls what it is told to, and answers; keeps each request."""

    model: str = "gemini-2.5-flash"
    turns: list[Any]
    requests: list[LlmRequest] = Field(default_factory=list)
    tokens: int = 1_000

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        sent = {"contents": copy.deepcopy(llm_request.contents), "config": copy.deepcopy(llm_request.config)}
        self.requests.append(llm_request.model_copy(update=sent))
        turn = self.turns.pop(0)
        parts = [types.Part(text=turn)] if isinstance(turn, str) else [types.Part(function_call=call) for call in turn]
        if stream and isinstance(turn, str):
            for letter in turn:
                yield LlmResponse(
                    content=types.Content(role="model", parts=[types.Part(text=letter)]),
                    partial=True,
                    usage_metadata=used(1),
                )
        yield LlmResponse(
            content=types.Content(role="model", parts=parts), usage_metadata=used(self.tokens * len(self.requests))
        )


def used(tokens: int) -> types.GenerateContentResponseUsageMetadata:
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=tokens, candidates_token_count=8, thoughts_token_count=2, cached_content_token_count=5
    )


def call(name: str, call_id: str, **arguments: Any) -> types.FunctionCall:
    return types.FunctionCall(name=name, args=arguments, id=call_id)


def responses(request: LlmRequest) -> dict[str, types.FunctionResponse]:
    """What the model read, by call."""
    found = [part.function_response for content in request.contents for part in content.parts or []]
    return {str(response.id): response for response in found if response is not None}


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


def list_orders() -> dict[str, Any]:
    """List the orders."""
    return {"orders": ROWS, "next_page": None}


async def count(ids: list[int], unit: str = "orders") -> str:
    """Count ids."""
    return f"{len(ids)} {unit}"


def look() -> list[Any]:
    """Look."""
    return [types.Part.from_bytes(data=PNG, mime_type="image/png"), {"rows": ROWS}]


def fail() -> str:
    """Fail."""
    raise RuntimeError("out of paper")


def refuse() -> dict[str, Any]:
    """Refuse."""
    return {"error": "not today"}


@pytest.mark.parametrize("mode", [StreamingMode.NONE, StreamingMode.SSE])
def test_a_big_output_is_read_by_reference(engine: Engine, mode: StreamingMode) -> None:
    model = Scripted(
        turns=[
            [call("list_orders", "call_1")],
            [call("code_interpreter", "call_2", code="[o['id'] for o in orders if o['total'] == 49][:2]")],
            "49 and 99",
        ]
    )
    chat = f"chat-{mode.name}"
    asyncio.run(ask(ByrefPlugin(engine), model, list_orders, session=chat, config=RunConfig(streaming_mode=mode)))
    envelope = read(model, "call_1")
    assert envelope["variables"] and len(json.dumps(envelope)) < 8_000
    assert read(model, "call_2") == {"result": "[49,99]"}
    session = engine.session(session_name("shop", "ann", chat))
    assert [(e.kind, e.tool) for e in session.ledger()] == [
        ("usage", None), ("output", "list_orders"), ("usage", None), ("reply", "code_interpreter"), ("usage", None),
    ]  # fmt: skip
    assert session.context_tokens() == 3_010 and session.usage().cache_read_tokens == 15
    assert session.history()[0].original.value == {"orders": ROWS, "next_page": None}
    assert session.ledger()[0].model == "gemini-2.5-flash"


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
    model = Scripted(
        turns=[
            [call("list_orders", "call_1")],
            [
                call("count", "call_2", ids={"$var": "order"}),
                call("count", "call_3", ids="$orders"),
                call("count", "call_4", ids=[1, 2], unit="ids"),
                call("artifact_read", "call_5", reference="art_nothere"),
                call("fail", "call_6"),
                call("refuse", "call_7"),
                call("nowhere", "call_8"),
            ],
            "sorry",
        ]
    )
    asyncio.run(ask(ByrefPlugin(engine, session="wrong"), model, list_orders, count, fail, refuse))
    assert "no artifact or variable 'order'" in read(model, "call_2")["error"]
    assert "map(.id)" in read(model, "call_3")["error"] and len(read(model, "call_3")["error"]) < 1_000
    assert read(model, "call_4") == {"result": "2 ids"}
    assert "art_nothere" in read(model, "call_5")["error"]
    assert read(model, "call_6") == {"error": "RuntimeError: out of paper"}
    assert read(model, "call_7") == {"error": "not today"}
    assert "nowhere" in read(model, "call_8")["error"] and "code_interpreter" in read(model, "call_8")["error"]
    steps = [e for e in engine.session("wrong").ledger() if e.kind in ("output", "reply")]
    assert {e.call_id for e in steps if e.is_error} == {"call_2", "call_3", "call_5", "call_6", "call_7"}
    assert len(steps) == len({e.call_id for e in steps})


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

    def text() -> str:
        return '{"not": "parsed"}'

    def small() -> dict[str, Any]:
        return {"id": 7, "output": {"a": 1.5}}

    def nothing() -> None:
        return None

    def frame() -> pd.DataFrame:
        return pd.DataFrame({"a": [1, 2]})

    tools: list[Callable[[], Any]] = [numbers, text, small, nothing, frame]
    model = Scripted(turns=[[call(tool.__name__, tool.__name__) for tool in tools], "done"])
    asyncio.run(ask(ByrefPlugin(engine, session="small"), model, *tools, after_tool_callback=after))
    assert read(model, "numbers") == {"result": [1, 2]} and read(model, "text") == {"result": '{"not": "parsed"}'}
    assert read(model, "small") == {"id": 7, "output": {"a": 1.5}} and read(model, "nothing") == {"result": None}
    assert read(model, "frame") == {"result": [{"a": 1}, {"a": 2}]}
    assert [1, 2] in seen and '{"not": "parsed"}' in seen and {"id": 7, "output": {"a": 1.5}} in seen


def test_media_stay_media_and_what_is_beside_them_is_gated(engine: Engine) -> None:
    model = Scripted(turns=[[call("look", "call_1")], "a dot"])
    asyncio.run(ask(ByrefPlugin(engine, session="media"), model, look))
    response = responses(model.requests[-1])["call_1"]
    assert response.parts is not None and response.parts[0].inline_data is not None
    assert response.parts[0].inline_data.data == PNG and "rows" in read(model, "call_1")["result"]
    assert len(json.dumps(read(model, "call_1"))) < 8_000


def test_users_sessions_and_tenants_are_kept_apart(engine: Engine) -> None:
    plugin = ByrefPlugin(engine, tenant=lambda app, user: user.partition("@")[2])

    async def one(user: str, session: str, first: types.FunctionCall) -> dict[str, Any]:
        model = Scripted(turns=[[first], [call("code_interpreter", "call_2", code="len(orders)")], "done"])
        await ask(plugin, model, list_orders, user=user, session=session)
        return read(model, "call_2")

    async def all_at_once() -> list[dict[str, Any]]:
        lists, looks = call("list_orders", "call_1"), call("code_interpreter", "call_1", code="1")
        return await asyncio.gather(
            one("ann@acme", "s", lists),
            one("bob@acme", "s", looks),
            one("ann@acme", "t", looks),
            one("ann@other", "s", lists),
        )

    answers = asyncio.run(all_at_once())
    assert [answer.get("result") for answer in answers][::3] == ["2000", "2000"]
    assert all("orders" in answer["error"] for answer in answers[1:3])
    assert len(engine.sessions("acme")) == 3 and len(engine.sessions("other")) == 1
    assert session_name("a", "b/c", "d") != session_name("a", "b", "c/d") and session_name(
        "a", "b%2Fc", "d"
    ) != session_name("a", "b/c", "d")


def test_instructions_of_a_trusted_tool_reach_the_model_of_this_run_alone(engine: Engine) -> None:
    def styled() -> dict[str, Any]:
        return {"display_instructions_for_model": "Show totals in euros.", "rows": ROWS}

    plugin = ByrefPlugin(engine, session="told", policy=Policy(trusted_instructions="all"))
    model = Scripted(turns=[[call("styled", "call_1")], "done", "again"])
    asyncio.run(ask(plugin, model, styled))
    said = [str(request.config.system_instruction) for request in model.requests]
    assert "euros" not in said[0] and "Show totals in euros." in said[1]
    asyncio.run(ask(plugin, model, styled, session="other"))
    assert "euros" not in str(model.requests[-1].config.system_instruction) and plugin._told == {}


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


@pytest.mark.parametrize("is_known", [True, False])
def test_while_the_database_is_away_the_run_goes_on(monkeypatch: pytest.MonkeyPatch, is_known: bool) -> None:
    with Engine("sqlite:///:memory:", jail="language-only") as engine:
        away, plugin = Away(engine, monkeypatch), ByrefPlugin(engine, session="away")
        if is_known:
            asyncio.run(ask(plugin, Scripted(turns=["hello"]), list_orders))
        away.is_on = True
        calls = [
            call("list_orders", "call_1"),
            call("count", "call_2", ids=[1]),
            call("count", "call_3", ids="$orders"),
            call("artifact_read", "call_4", reference="art_x"),
            call("fail", "call_5"),
        ]
        model = Scripted(turns=[calls, "done"])
        asyncio.run(ask(plugin, model, list_orders, count, fail))
    text = json.dumps(read(model, "call_1"))
    assert "INCOMPLETE" in text and len(text) < 20_000
    assert read(model, "call_2") == {"result": "1 orders"}
    assert "try again later" in read(model, "call_3")["error"] and "try again later" in read(model, "call_4")["error"]
    assert read(model, "call_5") == {"error": "RuntimeError: out of paper"}


@pytest.mark.parametrize("is_mid_tool", [True, False])
def test_where_the_policy_says_so_a_database_that_is_away_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, is_mid_tool: bool
) -> None:
    with Engine("sqlite:///:memory:", jail="language-only") as engine:
        away = Away(engine, monkeypatch)

        def leave() -> str:
            """Leave."""
            away.is_on = True
            return "x" * 10

        away.is_on = not is_mid_tool
        plugin = ByrefPlugin(engine, session="away", policy=Policy(on_storage_failure="raise"))
        with pytest.raises(RuntimeError, match="the database is away") as raised:
            asyncio.run(ask(plugin, Scripted(turns=[[call("leave", "call_1")], "done"]), leave))
        assert isinstance(raised.value.__cause__, StorageFailure)


def test_a_conversation_that_a_tool_ends_is_answered_to_the_end(engine: Engine) -> None:
    def leave() -> list[Any]:
        """Leave."""
        engine.session("ended").end()
        return ROWS

    looks = call("artifact_read", "call_3", reference="orders")
    model = Scripted(turns=[[call("leave", "call_1")], [call("count", "call_2", ids=[1]), looks], "done"])
    asyncio.run(ask(ByrefPlugin(engine, session="ended"), model, leave, count))
    assert "has ended" in read(model, "call_3")["error"]
    assert "INCOMPLETE" in json.dumps(read(model, "call_1")) and read(model, "call_2") == {"result": "1 orders"}


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


@pytest.mark.parametrize("kind", [ByrefPlugin, ByrefArtifactService])
def test_what_is_no_engine_is_refused(kind: Callable[[Any], Any]) -> None:
    with pytest.raises(byref.ConfigurationError, match=r"must be a byref\.Engine"):
        kind("sqlite:///x.db")


def test_without_the_framework_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "byref.adapters.adk")
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("google.adk"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(byref.ConfigurationError, match=r"pip install 'byref\[adk\]'"):
        importlib.import_module("byref.adapters.adk")


@pytest.mark.parametrize("many", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_crowd_of_conversations_keeps_apart(engine: Engine, many: int) -> None:
    plugin = ByrefPlugin(engine, tenant=lambda app, user: f"crowd {many} {user}")
    service = InMemorySessionService()  # type: ignore[no-untyped-call]

    async def talk(chat: Chat) -> None:
        async def mine() -> dict[str, Any]:
            return await chat.amine()

        def echo(data: dict[str, Any]) -> str:
            return chat.echo(data)

        turns = [[call(name, f"{n}_{name}", **given) for name, given in turn] for n, turn in enumerate(chat.calls)]
        model = Scripted(turns=[*turns, "done"], tokens=chat.tokens)
        await ask(plugin, model, mine, echo, user=chat.user, session=chat.name, service=service if many > 1 else None)

    def session_of(chat: Chat) -> byref.Session:
        return engine.session(session_name("shop", chat.user, chat.name), tenant=f"crowd {many} {chat.user}")

    crowd(talk, lambda chat: asyncio.run(talk(chat)), session_of, many=many)
