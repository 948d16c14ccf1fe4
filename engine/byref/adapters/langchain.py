"""byref in LangChain's agents and LangGraph's graphs: a middleware that every tool result passes on its way to the model."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from byref.adapters.extras import missing
from byref.engine import Engine
from byref.errors import ConfigurationError, StorageFailure, ToolError
from byref.policy import Policy, check_tools
from byref.result import Result, sendable
from byref.session import Session

try:
    from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage, convert_to_messages
    from langchain_core.messages.utils import count_tokens_approximately
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.runtime import Runtime, get_runtime
    from langgraph.types import Command
except ImportError as error:
    raise missing("byref.adapters.langchain", "langchain", "langchain") from error

__all__ = ["INSTRUCTIONS", "ByrefMiddleware", "ByrefTool"]

INSTRUCTIONS = "byref_instructions"
"""Where a tool message keeps, in `additional_kwargs`, what its tool wants the model told in the system message."""
_REMINDED = "byref_reminded"

logger = logging.getLogger("byref")

_caller: ContextVar[tuple[str, str] | None] = ContextVar("byref_caller", default=None)
"""Tenant and id of the conversation of which a tool is running: an agent that this tool runs is not the conversation."""

Handled = ToolMessage | Command[Any] | list[ToolMessage | Command[Any]]


class ByrefTool(BaseTool):
    """One of byref's own tools, bound to the conversation of the run that calls it; what it answers is never gated."""

    open: Callable[[], Session]
    args_schema: dict[str, Any]

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Hand on what the model wrote as it is: byref mends it, or tells the model what is wrong with it."""
        return (tool_input, tool_call_id), {}

    def _run(self, arguments: Any, call_id: str | None) -> Any:
        reply = self.open().call(self.name, arguments, call_id=call_id)
        content = sendable(reply.content)
        if isinstance(content, list):
            content = [_block(block) for block in content]
        if call_id is None:
            return content
        status = "error" if reply.is_error else "success"
        return ToolMessage(content, name=self.name, tool_call_id=call_id, status=status)

    async def _arun(self, arguments: Any, call_id: str | None) -> Any:
        return await asyncio.to_thread(self._run, arguments, call_id)


class ByrefMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware of `create_agent`: gates tool results, resolves references in arguments, records usage, offers byref's tools.

    List it first, but after HumanInTheLoopMiddleware, which writes a note in front of what an edited call gave: byref sees
    what the middlewares after it leave of a result. The conversation is the run's `thread_id`, or `session`; `session` and
    `tenant` may be functions of the run's `Runtime`. `model` and `context_window` are, unless given, those of the agent's
    chat model when a conversation begins. `policy` and `tools` are those of `Engine.session`.

    A LangGraph graph of one's own takes the parts: `ToolNode([*mine, *byref.tools], wrap_tool_call=byref.wrap_tool_call,
    awrap_tool_call=byref.awrap_tool_call)`, and `byref.session().record_usage(answer)` after each call of the model.

    Raises, during a run:
        ConfigurationError: the run has no `thread_id`.
        StorageFailure: the database is away; the run goes on from its checkpoint.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        tenant: str | Callable[[Runtime[Any]], str] = "default",
        session: str | Callable[[Runtime[Any]], str] | None = None,
        model: str | None = None,
        context_window: int | None = None,
        policy: Policy | None = None,
        tools: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self._engine, self._tenant, self._session, self._policy = engine, tenant, session, policy
        self._model, self._window = model, context_window
        self._names = None if tools is None else check_tools(tools)
        self.tools = [
            ByrefTool(
                name=tool["name"],
                description=tool["description"],
                args_schema=tool["inputSchema"],
                open=self.session,
            )
            for tool in engine.tools("mcp", tools=tools, policy=policy)
        ]

    def session(self) -> Session:
        """Return the conversation of the run that is on: called in a node or a tool, or anywhere if `session` is fixed."""
        return self._open(self._model, self._window)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Handled]) -> Any:
        """Resolve the references in a call's arguments, run the tool, and put what the model reads in its message."""
        if isinstance(request.tool, ByrefTool):
            return handler(request)
        session, ready = self._resolved(request)
        if isinstance(ready, ToolMessage):
            return ready
        with _calling(session):
            output = handler(ready)
        return _gated(session, request, output)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Handled]]
    ) -> Any:
        """Do the same, awaited; nothing of byref's runs on the event loop."""
        if isinstance(request.tool, ByrefTool):
            return await handler(request)
        session, ready = await asyncio.to_thread(self._resolved, request)
        if isinstance(ready, ToolMessage):
            return ready
        with _calling(session):
            output = await handler(ready)
        return await asyncio.to_thread(_gated, session, request, output)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Offer the tools that the conversation has, give instructions, remind after a compaction, and record the usage."""
        session, ready, reminded = self._ready(request)
        response = handler(ready)
        _record(session, response)
        return _with_state(response, reminded)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Do the same, awaited."""
        session, ready, reminded = await asyncio.to_thread(self._ready, request)
        response = await handler(ready)
        await asyncio.to_thread(_record, session, response)
        return _with_state(response, reminded)

    def _open(self, model: str | None, window: int | None) -> Session:
        name = self._session(get_runtime()) if callable(self._session) else self._session
        if name is None:
            name = get_config().get("configurable", {}).get("thread_id")
        if name is None:
            raise ConfigurationError(
                "the run has no thread_id, by which byref knows its conversation: run it with "
                'config={"configurable": {"thread_id": …}}, or give ByrefMiddleware(session=…)'
            )
        tenant = self._tenant(get_runtime()) if callable(self._tenant) else self._tenant
        return self._engine.session(
            str(name), tenant=tenant, model=model, context_window=window, policy=self._policy, tools=self._names
        )

    def _resolved(self, request: ToolCallRequest) -> tuple[Session, ToolCallRequest | ToolMessage]:
        """The request with the data that its arguments refer to, or what the model is told of a reference that fails."""
        session, call = self.session(), request.tool_call
        if request.tool is None:
            return session, request
        try:
            arguments = _arguments(session, call, request.tool)
        except ToolError as error:
            refused = ToolMessage(str(error), name=call["name"], tool_call_id=call["id"], status="error")
            return session, _processed(session, refused, call["name"], call["args"])
        return session, request.override(tool_call={**call, "args": arguments})

    def _ready(self, request: ModelRequest[Any]) -> tuple[Session, ModelRequest[Any], AnyMessage | None]:
        """The request as the model is to get it, and the summary that byref has added to, if there is a new one."""
        model: Any = request.model
        profile = getattr(model, "profile", None) or {}
        name = next((n for n in (getattr(model, a, None) for a in ("model_name", "model")) if isinstance(n, str)), None)
        session = self._open(self._model or name, self._window or profile.get("max_input_tokens") or None)
        tools = [tool for tool in request.tools if not isinstance(tool, ByrefTool) or session.owns(tool.name)]
        direct = {tool.name for tool in tools if isinstance(tool, BaseTool) and tool.return_direct}
        reminded = _reminded(session, request.messages)
        messages: list[AnyMessage] = [
            reminded
            if reminded is not None and message.id == reminded.id
            else _processed(session, message, str(message.name))
            if isinstance(message, ToolMessage) and message.name in direct
            else message
            for message in request.messages
        ]
        system = _instructed(request.system_message, messages)
        return session, request.override(tools=tools, messages=messages, system_message=system), reminded


@contextmanager
def _calling(session: Session) -> Iterator[None]:
    token = _caller.set((session.tenant, session.id))
    try:
        yield
    finally:
        _caller.reset(token)


def _arguments(session: Session, call: Any, tool: BaseTool) -> dict[str, Any]:
    """A call's arguments with their data; those that refer to none are for the tool alone to judge."""
    kind: Any = tool.tool_call_schema  # a JSON Schema, or a class of pydantic's, new or old
    schema = (
        kind
        if isinstance(kind, dict)
        else (kind.model_json_schema if hasattr(kind, "model_json_schema") else kind.schema)()
    )
    try:
        return session.resolve(call["args"], schema, tool=call["name"], call_id=call["id"])
    except (ToolError, ConfigurationError) as misfit:
        arguments = session.resolve(call["args"], tool=call["name"], call_id=call["id"])
        if isinstance(misfit, ToolError) and arguments != call["args"]:
            raise
        return arguments


def _gated(session: Session, request: ToolCallRequest, output: Handled) -> Handled:
    """What a tool gave, with the message that answers its call as the model is to read it; all else is left alone.

    `return_direct` is for the user: such a message stays whole, and is processed when a model is about to read it.
    """
    call = request.tool_call

    def one(item: Any) -> Any:
        if isinstance(item, dict) and item.get("tool_call_id") == call["id"] and "content" in item:
            (item,) = convert_to_messages([item])
        if not isinstance(item, ToolMessage) or item.tool_call_id != call["id"]:
            return item
        return _processed(session, item, call["name"], call["args"])

    def some(value: Any) -> Any:
        if not isinstance(value, list):
            return one(value)
        items = [one(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value

    def handled(item: Any) -> Any:
        if not isinstance(item, Command):
            return one(item)
        update = item.update
        new = {key: some(value) for key, value in update.items()} if isinstance(update, dict) else some(update)
        return replace(item, update=new)

    if request.tool is not None and request.tool.return_direct and getattr(output, "status", "") == "success":
        return output
    return [handled(item) for item in output] if isinstance(output, list) else handled(output)


def _processed(session: Session, message: ToolMessage, tool: str, arguments: object = None) -> ToolMessage:
    given: Any = message.content
    if isinstance(given, list):  # LangChain takes a text by itself for a block of text
        given = [{"type": "text", "text": item} if isinstance(item, str) else item for item in given]
    result = session.process(
        given, tool=tool, call_id=message.tool_call_id, arguments=arguments, is_error=message.status == "error"
    )
    is_same = result.content == given or (isinstance(given, list) and _says(result, given))
    beside = {key: value for key, value in message.additional_kwargs.items() if key != INSTRUCTIONS}
    if result.instructions:
        beside[INSTRUCTIONS] = result.instructions
    content = sendable(message.content if is_same else result.content)
    return message.model_copy(update={"content": content, "additional_kwargs": beside})


def _says(result: Result, blocks: list[Any]) -> bool:
    """Whether it is these blocks as JSON: blocks that byref does not know pass as they came, where they pass whole."""
    try:
        return result.route == "inline" and bool(json.loads(result.text) == blocks)
    except ValueError:
        return False


def _record(session: Session, response: ModelResponse[Any]) -> None:
    """Record what a model's answer says of its tokens; an answer that is there is not lost because the database is away."""
    for message in response.result:
        if isinstance(message, AIMessage) and message.usage_metadata is not None:
            is_side_call = _caller.get() == (session.tenant, session.id)
            try:
                session.record_usage(message, request_id=message.id, context=not is_side_call)
            except StorageFailure:
                logger.exception("byref could not record the usage of %r; the next answer sets the context", message.id)


def _reminded(session: Session, messages: list[AnyMessage]) -> AnyMessage | None:
    """The summary that SummarizationMiddleware has put in place of messages, with what data is still there; once."""
    for message in messages:
        known, is_told = message.additional_kwargs, _REMINDED in message.additional_kwargs
        if (
            known.get("lc_source") == "summarization"
            and not is_told
            and message.id
            and isinstance(message.content, str)
        ):
            session.on_compaction(count_tokens_approximately(messages))
            content = f"{message.content}\n\n{session.reminder()}" if session.artifacts() else message.content
            return message.model_copy(update={"content": content, "additional_kwargs": {**known, _REMINDED: True}})
    return None


def _instructed(system: SystemMessage | None, messages: list[AnyMessage]) -> SystemMessage | None:
    """The system message with what the tools of these messages want the model told, each text once."""
    texts = dict.fromkeys(
        str(message.additional_kwargs[INSTRUCTIONS])
        for message in messages
        if isinstance(message, ToolMessage) and INSTRUCTIONS in message.additional_kwargs
    )
    if not texts:
        return system
    before: list[Any] = list(system.content_blocks) if system is not None else []
    return SystemMessage(content=[*before, {"type": "text", "text": "\n\n".join(texts)}])


def _with_state(
    response: ModelResponse[Any], reminded: AnyMessage | None
) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
    """The response, and with it the message that takes the place of the one with its id."""
    if reminded is None:
        return response
    return ExtendedModelResponse(response, Command(update={"messages": [reminded]}))


def _block(block: Any) -> Any:
    """An image or a document, which byref writes as MCP does, as LangChain's content block."""
    match block:
        case {"data": data, "mimeType": kind, "type": "image"}:
            return {"type": "image", "base64": data, "mime_type": kind}
        case {"data": data, "mimeType": kind} | {"resource": {"blob": data, "mimeType": kind}}:
            return {"type": "file", "base64": data, "mime_type": kind}
    return block
