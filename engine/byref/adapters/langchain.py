"""byref in LangChain's agents and LangGraph's graphs: a middleware that every tool result passes on its way to the model."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from byref import ledger
from byref.adapters.extras import check_engine, missing
from byref.engine import Engine
from byref.errors import ConfigurationError, StorageFailure, ToolError
from byref.policy import Policy, check_tools
from byref.result import sendable
from byref.session import Session

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.runtime import Runtime, get_runtime
except ImportError as error:
    raise missing("byref.adapters.langchain", "langchain", "langchain") from error

from byref.adapters.langchain_requests import (
    Recent,
    instructed,
    leads,
    model_of,
    record,
    reminder_of,
    summary_in,
    with_text,
)
from byref.adapters.langchain_results import AWAY, Call, Conversation, Handled, block_of, read_message
from byref.adapters.langchain_results import INSTRUCTIONS as INSTRUCTIONS

__all__ = ["ByrefMiddleware"]

logger = logging.getLogger("byref")


class ByrefTool(BaseTool):
    """One of byref's own tools, bound to the conversation of the run that calls it; what it answers is never gated."""

    open: Callable[[], Session | None]
    """None: the database is away."""
    args_schema: dict[str, Any]

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Hand on what the model wrote as it is: byref mends it, or tells the model what is wrong with it."""
        return (tool_input, tool_call_id), {}

    def _run(self, arguments: Any, call_id: str | None) -> Any:
        session = self.open()
        content: Any = AWAY
        is_error = True
        if session is not None:
            reply = session.call(self.name, arguments, call_id=call_id)
            content, is_error = sendable(reply.content), reply.is_error
        if isinstance(content, list):
            content = [block_of(block) for block in content]
        if call_id is None:
            return content
        return ToolMessage(content, name=self.name, tool_call_id=call_id, status="error" if is_error else "success")

    async def _arun(self, arguments: Any, call_id: str | None) -> Any:
        return await asyncio.to_thread(self._run, arguments, call_id)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is remembered of a conversation: its newest handle, and the model that it was opened for."""

    session: Session
    model: str | None
    window: int | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request to a model as the model is to get it."""

    request: ModelRequest[Any]
    session: Session | None
    """None: the database is away."""
    leads: bool
    """Whether its usage is the conversation's context."""

    def record(self, answers: Iterable[object]) -> None:
        if self.session is not None:
            record(self.session, answers, context=self.leads)


class ByrefMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware of `create_agent`: gates tool results, resolves references in arguments, records usage, offers byref's tools.

    List it first, but after HumanInTheLoopMiddleware, which writes a note in front of what an edited call gave: byref sees
    what the middlewares after it leave of a result. The conversation is the run's `thread_id`, or `session`; `session` and
    `tenant` may be functions of the run's `Runtime`. `model` and `context_window` are, unless given, those of the chat
    model of each request. `policy` and `tools` are those of `Engine.session`.

    A LangGraph graph of one's own takes the parts: `ToolNode([*mine, *byref.tools], wrap_tool_call=byref.wrap_tool_call,
    awrap_tool_call=byref.awrap_tool_call)`, and `byref.record_usage(answer)` after each call of the model.

    Raises ConfigurationError where `engine` is no `byref.Engine`, and during a run:
        ConfigurationError: the run has no `thread_id`, or the agent has a tool named as one of byref's.
        SessionGone: the conversation has ended; neither model nor tool is called.
        StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
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
        self._engine = check_engine(engine)
        self._tenant, self._session, self._policy = tenant, session, policy
        self._model, self._window = model, context_window
        self._names = None if tools is None else check_tools(tools)
        self._known: Recent[Conversation, _Known] = Recent()
        self._noted: Recent[object, bool] = Recent()
        self.tools = [
            ByrefTool(
                name=tool["name"],
                description=tool["description"],
                args_schema=tool["inputSchema"],
                open=self._opened,
            )
            for tool in self._engine.tools("mcp", tools=tools, policy=policy)
        ]

    def session(self) -> Session:
        """Return the conversation of the run that is on: called in a node or a tool, or anywhere if `session` is fixed.

        Raises:
            StorageFailure: the database is away.
        """
        return self._open(self._conversation())

    def record_usage(self, answer: AIMessage) -> None:
        """Record what a model's answer says of its tokens, in a node of one's own; an answer without usage is none.

        Nothing that goes wrong with that is raised: it is logged, for the answer is there.
        """
        if answer.usage_metadata is None:
            return
        try:
            session = self.session()
        except StorageFailure:
            logger.exception("byref could not record the usage of %r; the next answer sets the context", answer.id)
            return
        record(session, [answer], context=leads(self._engine, (session.tenant, session.id)))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Handled]) -> Any:
        """Resolve the references in a call's arguments, run the tool, and put what the model reads in its message."""
        if isinstance(request.tool, ByrefTool):
            return handler(request)
        call = self._called(request)
        if isinstance(call, ToolMessage):
            return call
        with call.running():
            output = handler(call.ready)
        return call.read(output)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Handled]]
    ) -> Any:
        """Do the same, awaited; nothing of byref's runs on the event loop."""
        if isinstance(request.tool, ByrefTool):
            return await handler(request)
        call = await asyncio.to_thread(self._called, request)
        if isinstance(call, ToolMessage):
            return call
        with call.running():
            output = await handler(call.ready)
        return await asyncio.to_thread(call.read, output)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Offer the tools that the conversation has, give instructions, remind after a compaction, and record the usage."""
        asked = self._asked(request)
        response = handler(asked.request)
        asked.record(response.result)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Do the same, awaited."""
        asked = await asyncio.to_thread(self._asked, request)
        response = await handler(asked.request)
        await asyncio.to_thread(asked.record, response.result)
        return response

    def _conversation(self) -> Conversation:
        name = self._session(get_runtime()) if callable(self._session) else self._session
        if name is None:
            name = get_config().get("configurable", {}).get("thread_id")
        if name is None:
            raise ConfigurationError(
                "the run has no thread_id, by which byref knows its conversation: run it with "
                'config={"configurable": {"thread_id": …}}, or give ByrefMiddleware(session=…)'
            )
        return self._tenant(get_runtime()) if callable(self._tenant) else self._tenant, str(name)

    def _open(
        self, conversation: Conversation, model: str | None = None, window: int | None = None, *, leads: bool = False
    ) -> Session:
        """Open a conversation for a model; for that of the last request where none is given."""
        tenant, name = conversation
        known = self._known.get(conversation)
        if model is None and window is None and known is not None:
            model, window = known.model, known.window
        session = self._engine.session(
            name,
            tenant=tenant,
            model=self._model or model,
            context_window=self._window or window,
            policy=self._policy,
            tools=self._names,
        )
        if leads or known is None:
            self._known.put(conversation, _Known(session, model, window))
        return session

    def _opened(
        self,
        conversation: Conversation | None = None,
        model: str | None = None,
        window: int | None = None,
        *,
        leads: bool = False,
    ) -> Session | None:
        """Do the same, and raise SessionGone where it has ended before anything is paid for.

        While the database is away: the last handle, which shortens what it takes in, or None.
        """
        conversation = conversation or self._conversation()
        try:
            session = self._open(conversation, model, window, leads=leads)
            session._scope.read(lambda connection: ledger.see_that_it_is_open(connection, session._scope.row))
            return session
        except StorageFailure:
            if (self._policy or self._engine.policy).on_storage_failure == "raise":
                raise
            logger.exception("byref could not open the session %r; the turn goes on", conversation[1])
            known = self._known.get(conversation)
            return None if known is None else known.session

    def _called(self, request: ToolCallRequest) -> Call | ToolMessage:
        """A call with the data that its arguments refer to, or what the model is told of a reference that fails."""
        self._see_that_names_differ([request.tool])
        conversation, written = self._conversation(), request.tool_call
        session = self._opened(conversation)
        policy = self._policy or self._engine.policy if session is None else session.policy
        call = Call(conversation, session, policy, request, written["args"])
        try:
            if session is None:
                raise StorageFailure
            call.arguments = _arguments(session, written, request.tool)
        except ToolError as error:
            return call.refused(str(error))
        except StorageFailure:
            if policy.on_storage_failure == "raise":
                raise
            if _may_refer(written["args"]):
                logger.exception("byref could not look for references in the arguments of %r", written["name"])
                return call.refused(AWAY)
        return call

    def _asked(self, request: ModelRequest[Any]) -> _Asked:
        self._see_that_names_differ(request.tools)
        conversation = self._conversation()
        is_leading = leads(self._engine, conversation)
        session = self._opened(conversation, *model_of(request.model), leads=is_leading)
        tools = [
            tool
            for tool in request.tools
            if not isinstance(tool, ByrefTool) or session is None or session.owns(tool.name)
        ]
        direct = {tool.name for tool in tools if isinstance(tool, BaseTool) and tool.return_direct}
        policy = self._policy or self._engine.policy if session is None else session.policy
        messages: list[AnyMessage] = [
            read_message(session, message, str(message.name), policy=policy)
            if isinstance(message, ToolMessage) and message.name in direct
            else message
            for message in request.messages
        ]
        summary = summary_in(messages)
        if summary is not None and session is not None:
            reminder = self._reminder(session, request.messages, summary, is_leading)
            if reminder:
                messages[messages.index(summary)] = with_text(summary, reminder)
        system = instructed(request.system_message, messages)
        ready = request.override(tools=tools, messages=messages, system_message=system)
        return _Asked(ready, session, is_leading)

    def _reminder(self, session: Session, messages: list[AnyMessage], summary: AnyMessage, is_leading: bool) -> str:
        try:
            return reminder_of(session, messages, summary, self._noted, context=is_leading)
        except StorageFailure:
            if session.policy.on_storage_failure == "raise":
                raise
            logger.exception("byref could not say what data the session %r has", session.id)
            return ""

    def _see_that_names_differ(self, tools: Sequence[BaseTool | dict[str, Any] | None]) -> None:
        names = {tool.name for tool in self.tools}
        for tool in tools:
            name = tool.get("name") if isinstance(tool, dict) else None if tool is None else tool.name
            if name in names and not isinstance(tool, ByrefTool):
                raise ConfigurationError(
                    f"the agent has a tool {name!r} of its own, in the place of byref's: rename it, or leave byref's out "
                    "by ByrefMiddleware(tools=[…])"
                )


def _may_refer(arguments: Any) -> bool:
    """Whether references may be among the arguments: most have none, and need no data."""
    written = json.dumps(arguments, default=str)
    return any(mark in written for mark in ("$", "art_", "art:"))


def _arguments(session: Session, call: Any, tool: BaseTool | None) -> dict[str, Any]:
    """A call's arguments with their data; those that refer to none are for the tool alone to judge.

    A tool that another middleware brings at run time has no schema here.
    """
    if tool is None:
        return session.resolve(call["args"], tool=call["name"], call_id=call["id"])
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
