"""The OpenAI Agents SDK: tools whose big outputs are kept by reference, usage, and a Session in byref's database."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from byref.adapters.extras import missing
from byref.adapters.items import Items
from byref.engine import Engine
from byref.errors import ConfigurationError, StorageFailure, ToolError
from byref.policy import Policy
from byref.result import Result, ToolReply
from byref.session import Session as Conversation

try:
    from agents import (
        Agent,
        FunctionTool,
        ModelResponse,
        RunContextWrapper,
        RunHooks,
        SessionSettings,
        Tool,
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
        TResponseInputItem,
    )
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
    from agents.run_context import TContext
    from agents.tool import ValidToolOutputPydanticModels, ValidToolOutputPydanticModelsTypeAdapter
    from agents.tool_context import ToolContext
    from pydantic import ValidationError
except ImportError as error:
    raise missing("byref.adapters.openai_agents", "openai-agents", "openai-agents") from error

__all__ = ["Byref", "ByrefAgent", "ByrefSession", "ModelBlocks", "ModelText"]

T = TypeVar("T")
ByContext = str | Callable[[RunContextWrapper[Any]], str]

CHAT = "openai_agents"
"""The list of a session that its items are kept in."""
_MARK = "_byref"
"""On what invokes a tool that byref already wrapped, or one of its own."""

logger = logging.getLogger("byref")


class ModelText(str):
    """What the model reads of a tool's output; `original` is what the tool returned. A copy is the text alone."""

    original: object

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Copy and pickle the text alone."""
        return str, (str(self),)


class ModelBlocks(list[Any]):
    """What the model reads of an output with images or files; `original` is what the tool returned. A copy is a list."""

    original: object

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        """Copy and pickle the blocks alone."""
        return list, (list(self),)


class Byref(RunHooks[Any]):
    """byref for the agents of an application: give its `tools` to agents, and itself to runs as their `hooks`.

    `session` names the conversation and `tenant` whose it is, or each finds it in the run's context:
    `session=lambda run: run.context.chat_id`. `policy` and `model` are those of `Engine.session`; without `model` it is
    the agent's. The usage of each of the model's answers is recorded.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        session: ByContext,
        tenant: ByContext = "default",
        policy: Policy | None = None,
        model: str | None = None,
    ) -> None:
        self._engine, self._policy, self._model = engine, policy, model
        self._session, self._tenant = session, tenant

    def conversation(self, context: RunContextWrapper[Any], agent: object = None) -> Conversation:
        """Return byref's session of a run; it reads the database, so not on an event loop."""
        model = getattr(agent, "model", None)
        return self._engine.session(
            _named(self._session, context),
            tenant=_named(self._tenant, context),
            policy=self._policy,
            model=self._model or (model if isinstance(model, str) else getattr(model, "model", None)),
        )

    def tools(self, *tools: Tool) -> list[Tool]:
        """Return the tools as an agent takes them, and byref's own behind them.

        Of a function tool (agents as tools included) the arguments are resolved before it runs, and the model reads what
        `Session.process` makes of its output: a `ModelText` or `ModelBlocks`, whose `original` is what it returned. What a
        hosted program reads, or a tool with `output_json_schema` returns, passes as it is, as do other kinds of tools. What
        went through this before is not wrapped twice.
        """
        given = self.wrapped(*tools)
        there = {tool.name for tool in given}
        offered = self._engine.tools("openai-responses", policy=self._policy)
        return [*given, *(self._own(definition) for definition in offered if definition["name"] not in there)]

    def wrapped(self, *tools: Tool) -> list[Tool]:
        """Return the tools as `tools` does, without byref's own."""
        return [self._wrapped(tool) if isinstance(tool, FunctionTool) else tool for tool in tools]

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Record the usage of one answer; where the database is away the run goes on."""
        if not response.usage.requests:  # no provider counted
            return

        def work() -> None:
            self.conversation(context, agent).record_usage(response.usage)

        try:
            await asyncio.to_thread(work)
        except StorageFailure:
            logger.warning("byref could not record the usage of a run", exc_info=True)

    def _wrapped(self, tool: FunctionTool) -> FunctionTool:
        if tool.output_json_schema is not None or getattr(tool.on_invoke_tool, _MARK, False):
            return tool

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            session = await asyncio.to_thread(self.conversation, context, context.agent)
            call = {"tool": tool.name, "call_id": context.tool_call_id}

            def process(output: object, is_error: bool = False) -> object:
                result = session.process(_taken(output), arguments=arguments, is_error=is_error, **call)
                return _content(result, context.tool_call_id, output)

            try:
                resolved = await asyncio.to_thread(session.resolve, arguments or "{}", _schema(tool), **call)
            except ToolError as error:
                return await asyncio.to_thread(process, str(error), is_error=True)
            output = await tool.on_invoke_tool(context, json.dumps(resolved))
            caller = getattr(context.tool_call, "caller", None)
            if getattr(caller, "type", None) == "program":
                return output
            return await asyncio.to_thread(process, output)

        setattr(invoke, _MARK, True)
        wrapped = copy.copy(tool)
        wrapped.on_invoke_tool = invoke
        return wrapped

    def _own(self, definition: dict[str, Any]) -> FunctionTool:
        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            def work() -> object:
                session, call_id = self.conversation(context, context.agent), context.tool_call_id
                return _content(session.call(definition["name"], arguments or "{}", call_id=call_id), call_id)

            return await asyncio.to_thread(work)

        setattr(invoke, _MARK, True)
        return FunctionTool(
            name=definition["name"],
            description=definition["description"],
            params_json_schema=definition["parameters"],
            on_invoke_tool=invoke,
            strict_json_schema=False,
        )


@dataclass
class ByrefAgent(Agent[TContext]):
    """An agent all of whose function tools go through `Byref.tools`: those given, and those of its MCP servers."""

    byref: Byref | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Wrap the tools; what `clone` is given is wrapped, too."""
        super().__post_init__()  # type: ignore[no-untyped-call]
        if self.byref is None:
            raise ConfigurationError(f"ByrefAgent(name={self.name!r}): expected byref=Byref(engine, …)")
        self.tools = self.byref.tools(*self.tools)

    async def get_mcp_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """Return the tools of the MCP servers, wrapped."""
        tools = await super().get_mcp_tools(run_context)
        return tools if self.byref is None else self.byref.wrapped(*tools)


class ByrefSession(SessionABC):
    """A conversation's items in byref's database, gone with `Engine.delete_session` of the same id and tenant.

    `session_settings` is the SDK's. Any number of processes may use a session at once; what is cancelled while it writes
    ends before its caller goes on.

    Raises:
        InvalidId: the id or tenant cannot be kept as it is.
        SessionGone: something is added, and `Session.end` was called.
        StorageFailure: the database failed.
    """

    def __init__(
        self,
        session_id: str,
        engine: Engine,
        *,
        tenant: str = "default",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._items = Items(engine, session_id, tenant)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the last `limit` items in their order; None: those that the settings say, or all."""
        most = resolve_session_limit(limit, self.session_settings)
        found = await asyncio.to_thread(self._items.last, CHAT, None if most is None or most < 0 else most)
        return [json.loads(text) for _, text in found]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items, all or none."""
        texts = [json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items]
        if texts:
            await _ended(lambda: self._items.append(CHAT, texts))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it; None if there is none."""
        text = await _ended(lambda: self._items.pop(CHAT))
        item: TResponseInputItem | None = None if text is None else json.loads(text)
        return item

    async def clear_session(self) -> None:
        """Remove every item; artifacts, variables and the ledger stay."""
        await _ended(lambda: self._items.clear(CHAT))


async def _ended(work: Callable[[], T]) -> T:
    """Run work on a thread to its end, even if its caller is cancelled meanwhile."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _named(by: ByContext, context: RunContextWrapper[Any]) -> str:
    return by if isinstance(by, str) else by(context)


def _schema(tool: FunctionTool) -> dict[str, Any]:
    """A strict schema requires what has a default, and the SDK itself does not insist on it."""
    strict = tool.strict_json_schema
    return {key: value for key, value in tool.params_json_schema.items() if not (strict and key == "required")}


def _content(read: Result | ToolReply, call_id: str, original: object = None) -> ModelText | ModelBlocks:
    """What the model reads, in the SDK's own types."""
    body: str | Sequence[dict[str, Any]] = read.message("openai-responses", call_id)["output"]
    made = ModelText(body) if isinstance(body, str) else ModelBlocks(map(_block, body))
    made.original = original
    return made


def _taken(output: object) -> object:
    """The SDK's own kinds of output, alone or in a list, as blocks that byref reads; all else as it is."""
    try:
        return [
            {**one.model_dump(exclude_none=True), "type": f"input_{one.type}"}
            for one in map(_own_kind, output if isinstance(output, list | tuple) else [output])
        ] or output
    except ValidationError:
        return output


def _own_kind(item: object) -> ValidToolOutputPydanticModels:
    """An item as the SDK takes it: a dict that does not say its type is data."""
    said = item if not isinstance(item, dict) or "type" in item else None
    return ValidToolOutputPydanticModelsTypeAdapter.validate_python(said)


def _block(block: dict[str, Any]) -> ToolOutputText | ToolOutputImage | ToolOutputFileContent:
    fields = {key: value for key, value in block.items() if key != "type"}
    match block["type"]:
        case "input_image":
            return ToolOutputImage(**fields)
        case "input_file":
            return ToolOutputFileContent(**fields)
    return ToolOutputText(**fields)
