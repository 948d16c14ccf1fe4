"""Values that LangChain's tools return and that are not text: byref gets them before the framework writes them out, sync and
async."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from drivers.langchain import scripted
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.tools import InjectedState, ToolRuntime, tool
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForToolRun
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException
from pydantic import BaseModel
from sampled import sampled

from byref import Engine, Policy
from byref.adapters.langchain import ByrefMiddleware

ASK: Any = {"messages": [("user", "Which orders?")]}
MODES = ("sync", "async")


class Order(BaseModel):
    """A row as an ORM gives it."""

    id: int
    at: datetime


AT = datetime(2026, 1, 2, tzinfo=UTC)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": n, "at": AT, "total": Decimal("1.50")} for n in range(count)]


@tool
def refund(ids: list[int]) -> str:
    """Refund orders by their ids."""
    return f"{len(ids)} refunded"


def ran(agent: Any, mode: str = "sync") -> list[ToolMessage]:
    config: Any = {"configurable": {"thread_id": "chat-42"}}
    state = agent.invoke(ASK, config) if mode == "sync" else asyncio.run(agent.ainvoke(ASK, config))
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def the_only(tool: BaseTool, middleware: list[Any], mode: str = "sync", **arguments: Any) -> ToolMessage:
    agent = create_agent(scripted([(tool.name, arguments)], "Done."), [tool], middleware=middleware)
    (message,) = ran(agent, mode)
    return message


class Counting(BaseTool):
    """A tool that is a class, with state of its own."""

    name: str = "fetch"
    description: str = "Fetch orders."
    count: int = 0

    def _run(
        self, page: int, config: RunnableConfig, run_manager: CallbackManagerForToolRun | None = None
    ) -> list[dict[str, Any]]:
        self.count += 1
        assert run_manager is not None and config["configurable"]["thread_id"] == "chat-42"
        return rows(2_000)


class Awaited(Counting):
    """The same, with a way of its own to be awaited."""

    async def _arun(self, page: int, config: RunnableConfig, run_manager: Any = None) -> list[dict[str, Any]]:
        return self._run(page, config, run_manager)


def fetch(page: int) -> list[dict[str, Any]]:
    """Fetch orders."""
    return rows(2_000)


async def afetch(page: int) -> list[dict[str, Any]]:
    """Fetch orders."""
    return rows(2_000)


def fetch_with(page: int, state: Annotated[dict[str, Any], InjectedState], runtime: ToolRuntime) -> Any:
    """Fetch orders, given what LangGraph injects."""
    assert len(state["messages"]) == 2 and runtime.tool_call_id == "call_0_0"
    return rows(2_000)


def fetch_both(page: int) -> tuple[Any, str]:
    """Fetch orders and what they came from."""
    return rows(2_000), "beside"


def fetch_models(page: int) -> list[Order]:
    """Fetch orders as objects."""
    return [Order(id=n, at=AT) for n in range(2_000)]


def fetch_pieces(page: int) -> Iterator[dict[str, Any]]:
    """Fetch orders one by one."""
    return iter(rows(2_000))


FETCHING: dict[str, Any] = {
    "function": lambda: StructuredTool.from_function(fetch, name="fetch"),
    "coroutine": lambda: StructuredTool.from_function(fetch, afetch, name="fetch"),
    "injected": lambda: StructuredTool.from_function(fetch_with, name="fetch"),
    "artifact": lambda: StructuredTool.from_function(fetch_both, name="fetch", response_format="content_and_artifact"),
    "class": Counting,
    "awaited": Awaited,
    "models": lambda: StructuredTool.from_function(fetch_models, name="fetch"),
    "iterator": lambda: StructuredTool.from_function(fetch_pieces, name="fetch"),
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("mode", sampled(MODES, 2))
@pytest.mark.parametrize("kind", FETCHING)
def test_rows_that_json_has_no_form_for_are_data(engine: Engine, tenant: str, kind: str, mode: str) -> None:
    made = FETCHING[kind]()
    model = scripted([("fetch", {"page": 1})], [("refund", {"ids": {"$var": "fetch", "jq": "map(.id)"}})], "Done.")
    fetched, refunded = ran(
        create_agent(model, [made, refund], middleware=[ByrefMiddleware(engine, tenant=tenant)]), mode
    )
    assert "fetch" in json.loads(str(fetched.content))["variables"] and fetched.name == "fetch"
    assert refunded.content == "2000 refunded"
    assert fetched.artifact == ("beside" if kind == "artifact" else None)
    (first, *_) = engine.session("chat-42", tenant=tenant).variable("fetch").value()
    assert (first["id"], first["at"]) == (0, "2026-01-02T00:00:00Z")
    assert getattr(made, "count", 1) == 1  # run once, on the tool itself and not on a copy


@pytest.mark.parametrize("row", [["O'Brien", AT], {"driver's licence": "x", "until": AT}, [["it's", AT]]])
def test_rows_that_begin_with_an_apostrophe_are_data(engine: Engine, tenant: str, row: Any) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return [row] * 2_000

    message = the_only(give, [ByrefMiddleware(engine, tenant=tenant)])
    assert "give" in json.loads(str(message.content))["variables"]


@pytest.mark.parametrize("mode", sampled(MODES, 2))
@pytest.mark.parametrize(
    "value", [rows(2), {AT}, Order(id=1, at=AT), b"\x00\x01", (1, "a"), None, 7, {"a": float("nan")}]
)
def test_what_is_small_reads_as_langchain_writes_it(engine: Engine, tenant: str, value: Any, mode: str) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return value

    assert the_only(give, [ByrefMiddleware(engine, tenant=tenant)], mode).content == the_only(give, [], mode).content


def test_what_a_middleware_inside_made_of_a_result_holds(engine: Engine, tenant: str) -> None:
    class Redacting(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            message = handler(request)
            return message.model_copy(update={"content": str(message.content).replace("secret", "***")})

    @tool
    def give() -> Any:
        """Give what not all may read."""
        return [{"at": AT, "note": f"secret {n}"} for n in range(2_000)]

    message = the_only(give, [ByrefMiddleware(engine, tenant=tenant), Redacting()])
    session = engine.session("chat-42", tenant=tenant)
    assert "secret" not in str(message.content)
    assert not any("secret" in str(artifact.value) for artifact in session.artifacts())


def test_a_mapper_shapes_the_values_themselves(engine: Engine, tenant: str) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return rows(3)

    policy = Policy(per_tool={"give": {"mapper": "map(.at)"}})
    message = the_only(give, [ByrefMiddleware(engine, tenant=tenant, policy=policy)])
    assert json.loads(str(message.content)) == ["2026-01-02T00:00:00Z"] * 3


def test_a_tool_that_is_run_in_a_way_of_its_own_is_read_as_the_framework_writes_it(engine: Engine, tenant: str) -> None:
    class Odd(Counting):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            self.count += 10
            return super().run(*args, **kwargs)

    made = Odd()
    message = the_only(made, [ByrefMiddleware(engine, tenant=tenant)], page=1)
    assert made.count == 11 and "datetime.datetime" in str(message.content)


@pytest.mark.parametrize("mode", MODES)
def test_an_error_that_a_tool_handles_itself_is_its_answer(engine: Engine, tenant: str, mode: str) -> None:
    def fail(page: int) -> Any:
        """Fail."""
        raise ToolException("no such page")

    made = StructuredTool.from_function(fail, handle_tool_error=True)
    message = the_only(made, [ByrefMiddleware(engine, tenant=tenant)], mode, page=1)
    assert (message.status, message.content) == ("error", "no such page")


def test_a_tool_of_one_text_is_heard(engine: Engine, tenant: str) -> None:
    made = Tool(name="fetch", description="Fetch.", func=lambda query: rows(2_000))
    assert (
        "fetch"
        in json.loads(str(the_only(made, [ByrefMiddleware(engine, tenant=tenant)], __arg1="orders").content))[
            "variables"
        ]
    )


@pytest.mark.parametrize("is_listed", [False, True])
def test_words_that_an_object_has_for_readers_are_gated_as_text(engine: Engine, tenant: str, is_listed: bool) -> None:
    @dataclass
    class Report:
        number: int

        def __str__(self) -> str:
            return "line of a report\n" * 4_000

        __repr__ = __str__

    @tool
    def give() -> Any:
        """Give."""
        return [Report(1)] if is_listed else Report(1)

    message = the_only(give, [ByrefMiddleware(engine, tenant=tenant, policy=Policy(plaintext="artifact"))])
    assert len(str(message.content)) < 10_000
    assert ("line of a report" in str(message.content)) != is_listed


@pytest.mark.parametrize("size", [10_000, 3_000_000])
def test_a_picture_in_bytes_is_a_picture(engine: Engine, tenant: str, size: int) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(size)

    @tool
    def draw() -> Any:
        """Draw."""
        return picture

    content = the_only(draw, [ByrefMiddleware(engine, tenant=tenant)]).content
    if size > 1_000_000:
        assert f"[image: png, {size + 8} bytes]" in str(content)
    else:
        assert content == [{"type": "image", "base64": base64.b64encode(picture).decode(), "mime_type": "image/png"}]


def test_what_is_neither_small_nor_large_is_what_the_ledger_says(engine: Engine, tenant: str) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return rows(100)

    message = the_only(give, [ByrefMiddleware(engine, tenant=tenant)])
    (entry,) = engine.session("chat-42", tenant=tenant).history()
    assert message.content == entry.processed and json.loads(str(message.content))[0]["id"] == 0


def test_an_object_whose_words_fail_is_the_frameworks_matter(engine: Engine, tenant: str) -> None:
    class Hostile:
        said = 0

        def __str__(self) -> str:
            self.said += 1
            if self.said > 1:
                raise ValueError("again")
            return "hostile"

    @tool
    def give() -> Any:
        """Give."""
        return Hostile()

    assert the_only(give, [ByrefMiddleware(engine, tenant=tenant)]).content == "hostile"


def test_sound_is_a_placeholder(engine: Engine, tenant: str) -> None:
    sound = base64.b64encode(b"RIFF\x00\x00\x00\x00WAVE" + bytes(100_000)).decode()

    @tool
    def listen() -> Any:
        """Listen."""
        return [{"type": "audio", "base64": sound, "mime_type": "audio/wav"}, {"type": "text", "text": "A bell."}]

    content = the_only(listen, [ByrefMiddleware(engine, tenant=tenant)]).content
    assert isinstance(content, list) and [block["type"] for block in content if isinstance(block, dict)] == ["text"] * 2
    assert "[audio: wav, 100012 bytes]" in str(content[0]) and content[1] == {"type": "text", "text": "A bell."}


def test_callbacks_see_the_tools_own_name_and_whole_data(engine: Engine, tenant: str) -> None:
    class Seen(BaseCallbackHandler):
        def __init__(self) -> None:
            self.told: list[Any] = []

        def on_tool_start(self, serialized: dict[str, Any], input_str: str, **kwargs: Any) -> None:
            self.told.append(serialized["name"])

        def on_tool_end(self, output: Any, **kwargs: Any) -> None:
            self.told.append(len(str(output.content)))

    seen = Seen()
    made = StructuredTool.from_function(fetch, name="fetch", callbacks=[seen])
    the_only(made, [ByrefMiddleware(engine, tenant=tenant)], page=1)
    assert seen.told == ["fetch", len(str(rows(2_000)))]
