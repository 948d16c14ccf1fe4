"""byref in LangChain's agents and LangGraph's graphs: a middleware that handles every tool result before the model reads it."""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from byref.adapters.common.conversations import Conversations, Name, Recent, running
from byref.adapters.common.extras import missing
from byref.adapters.common.functions import CodeFunctions, session_with
from byref.calling.approvals import Decision
from byref.calling.threads import run_program
from byref.conversation.result import ToolReply, sendable
from byref.engine import Engine
from byref.errors import ConfigurationError, StorageFailure, ToolError
from byref.policy import Policy
from byref.references.arguments import as_object
from byref.session import Session
from byref.tools.code import CODE_INTERPRETER

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.runtime import Runtime, get_runtime
except ImportError as error:
    raise missing("byref.adapters.langchain", "langchain", "langchain") from error

from byref.adapters.langchain.code import CodeTools, decided, in_code, schema_of
from byref.adapters.langchain.requests import (
    Messages,
    instructed,
    leads,
    model_of,
    record,
    reminder_of,
    summary_in,
    with_text,
)
from byref.adapters.langchain.results import INSTRUCTIONS as INSTRUCTIONS
from byref.adapters.langchain.results import Call, Handled, block_of, read_message
from byref.adapters.langchain.store import ByrefStore

__all__ = ["ByrefMiddleware", "ByrefStore"]

logger = logging.getLogger("byref")


class ByrefTool(BaseTool):
    """One of byref's own tools; it works in the conversation of the run that calls it, and its answers are never gated."""

    answer: Callable[[str, Any, str | None, AbstractEventLoop | None, Mapping[str, Decision]], ToolReply]
    args_schema: dict[str, Any]

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Pass the model's arguments on unchanged: byref corrects them, or tells the model what is wrong."""
        return (tool_input, tool_call_id), {}

    def _run(self, arguments: Any, call_id: str | None, loop: AbstractEventLoop | None = None) -> Any:
        reply, fault = self.answer(self.name, arguments, call_id, loop, {}), ""
        while reply.pending and call_id is not None and in_code.get():
            decisions = decided(self.name, call_id, reply.pending, fault)
            try:
                reply = self.answer(self.name, arguments, call_id, loop, decisions) if decisions else reply
            except ConfigurationError as error:  # arguments that do not fit, say: it is asked once more
                fault = str(error)
        content: Any = sendable(reply.content)
        if isinstance(content, list):
            content = [block_of(block) for block in content]
        if call_id is None:
            return content
        return ToolMessage(
            content, name=self.name, tool_call_id=call_id, status="error" if reply.is_error else "success"
        )

    async def _arun(self, arguments: Any, call_id: str | None) -> Any:
        return await run_program(partial(self._run, arguments, call_id, asyncio.get_running_loop()))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request to a model, in the form that the model gets."""

    request: ModelRequest[Any]
    session: Session | None
    """None if the database is away."""
    leads: bool
    """Whether the request's usage is the conversation's context."""
    messages: Messages

    def record(self, answers: Iterable[object]) -> None:
        if self.session is not None:
            record(self.session, answers, context=self.leads)


class ByrefMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware of `create_agent`: gates tool results, resolves references in arguments, records usage, offers byref's tools.

    List it first, but after HumanInTheLoopMiddleware, which puts a note before the result of an edited call: byref sees a result as
    the middlewares listed after it return it. The conversation is the run's `thread_id`, or `session`; `session` and `tenant` may
    be functions of the run's `Runtime`. The defaults of `model` and `context_window` are those of each request's chat model.
    `policy` and `tools` are those of `Engine.session`.

    `code_functions` are patterns of names (`["search_*"]`): code of `code_interpreter` may call those tools of the agent as
    functions. The calls go through the agent's tool node and the middlewares listed after this one. A call of a tool about which the
    agent asks somebody first interrupts the graph, which is resumed with `Command(resume={id: True | False | arguments})`: those that
    `code_approval` names by patterns, and without it all tools of an agent with a HumanInTheLoopMiddleware. Without a checkpointer
    they are refused in code, and the model told to call the tool itself; a tool that calls `interrupt()` is refused always.

    In a LangGraph graph of your own, use the parts: `ToolNode([*mine, *byref.tools], wrap_tool_call=byref.wrap_tool_call,
    awrap_tool_call=byref.awrap_tool_call)`, and `byref.record_usage(answer)` after each call of the model.

    Raises ConfigurationError if `engine` is not a `byref.Engine`, and during a run:
        ConfigurationError: the run has no `thread_id`, or the agent has a tool with the name of one of byref's.
        SessionGone: the conversation has ended; neither the model nor the tool is called.
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
        code_functions: Sequence[str] = (),
        code_approval: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        chosen = CodeFunctions(code_functions)
        self._conversations = Conversations(engine, policy, tools, chosen)
        approval = None if code_approval is None else CodeFunctions(code_approval, argument="code_approval")
        self._code = CodeTools(chosen, approval, self._conversations)
        self._tenant, self._session = tenant, session
        self._model, self._window = model, context_window
        self._models: Recent[Name, tuple[str | None, int | None]] = Recent()
        self._noted: Recent[object, bool] = Recent()
        self.tools = [
            ByrefTool(
                name=tool["name"],
                description=tool["description"],
                args_schema=tool["inputSchema"],
                answer=self._answer,
            )
            for tool in self._conversations.tools(None)
        ]

    def session(self) -> Session:
        """Return the conversation of the current run; call it in a node or a tool, or anywhere if `session` is fixed.

        Raises:
            StorageFailure: the database is away.
        """
        name = self._conversation()
        return self._conversations.open(name, *self._model_of(name), keep=False)

    def record_usage(self, answer: AIMessage) -> None:
        """Record the usage in a model's answer, in a node of your own; an answer without usage is ignored.

        Failures are logged, not raised, because the answer is already there.
        """
        if answer.usage_metadata is None:
            return
        try:
            session = self.session()
        except StorageFailure:
            logger.exception("byref could not record the usage of %r; the next answer sets the context", answer.id)
            return
        record(session, [answer], context=leads(self._conversations.engine, (session.tenant, session.id)))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Handled]) -> Any:
        """Resolve references in a call's arguments, run the tool, and put what the model reads into its message."""
        if isinstance(request.tool, ByrefTool):
            if not self._has_functions(request):
                return handler(request)
            token = in_code.set(
                self._code.of(self._others(request.runtime.tools), request, self._conversation(), handler)
            )
            try:
                return handler(request)
            finally:
                in_code.reset(token)
        call = self._called(request)
        if isinstance(call, ToolMessage):
            return call
        with running(call.conversation):
            output = handler(call.ready)
        return call.read(output)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Handled]]
    ) -> Any:
        """Do the same, awaited; no work of byref runs on the event loop."""
        if isinstance(request.tool, ByrefTool):
            if not self._has_functions(request):
                return await handler(request)
            tools = self._others(request.runtime.tools)
            token = in_code.set(self._code.awaited(tools, request, self._conversation(), handler))
            try:
                return await handler(request)
            finally:
                in_code.reset(token)
        call = await asyncio.to_thread(self._called, request)
        if isinstance(call, ToolMessage):
            return call
        with running(call.conversation):
            output = await handler(call.ready)
        return await asyncio.to_thread(call.read, output)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Offer the conversation's tools, add instructions, remind after a compaction, and record the usage."""
        asked = self._asked(request)
        with asked.messages.shared():
            response = handler(asked.request)
        asked.record(response.result)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Do the same, awaited."""
        asked = await asyncio.to_thread(self._asked, request)
        with asked.messages.shared():
            response = await handler(asked.request)
        await asyncio.to_thread(asked.record, response.result)
        return response

    def _conversation(self) -> Name:
        name = self._session(get_runtime()) if callable(self._session) else self._session
        if name is None:
            name = get_config().get("configurable", {}).get("thread_id")
        if name is None:
            raise ConfigurationError(
                "the run has no thread_id, by which byref knows its conversation: run it with "
                'config={"configurable": {"thread_id": …}}, or give ByrefMiddleware(session=…)'
            )
        return self._tenant(get_runtime()) if callable(self._tenant) else self._tenant, str(name)

    def _model_of(
        self, name: Name, asked: tuple[str | None, int | None] = (None, None)
    ) -> tuple[str | None, int | None]:
        """Return the model and window for opening a conversation; by default those of its last request."""
        model, window = asked if any(asked) else self._models.get(name) or asked
        return self._model or model, self._window or window

    def _opened(
        self, name: Name, asked: tuple[str | None, int | None] = (None, None), *, leads: bool = False
    ) -> Session | None:
        """Open a conversation; raise SessionGone if it has ended, before a model or tool is called."""
        session = self._conversations.opened(name, *self._model_of(name, asked), keep=leads, going_on=True)
        if leads or self._models.get(name) is None:
            self._models.put(name, asked)
        return session

    def _answer(
        self,
        tool: str,
        arguments: Any,
        call_id: str | None,
        loop: AbstractEventLoop | None,
        decisions: Mapping[str, Decision],
    ) -> ToolReply:
        session = self._opened(self._conversation())
        if session is not None and (functions := in_code.get()):
            session = session_with(session, functions, loop)
        if decisions and call_id is not None:
            return self._conversations.resume(session, tool, call_id, decisions)
        return self._conversations.call(session, tool, arguments, call_id)

    def _has_functions(self, request: ToolCallRequest) -> bool:
        return bool(self._code) and request.tool_call["name"] == CODE_INTERPRETER.name

    def _others(self, tools: Iterable[object]) -> list[BaseTool]:
        """Return the agent's tools among these, byref's own left out."""
        return [tool for tool in tools if isinstance(tool, BaseTool) and not isinstance(tool, ByrefTool)]

    def _called(self, request: ToolCallRequest) -> Call | ToolMessage:
        """Return a call with its references resolved, or the model's answer to a reference that fails."""
        self._see_that_names_differ([request.tool])
        conversation, written = self._conversation(), request.tool_call
        session = self._opened(conversation)
        call = Call(self._conversations, conversation, session, request, written["args"])
        try:
            call.arguments = as_object(
                self._conversations.arguments(
                    session, written["args"], schema_of(request.tool), tool=written["name"], call_id=written["id"]
                )
            )
        except ToolError as error:
            return call.refused(str(error))
        return call

    def _asked(self, request: ModelRequest[Any]) -> _Asked:
        self._see_that_names_differ(request.tools)
        conversation = self._conversation()
        is_leading = leads(self._conversations.engine, conversation)
        session = self._opened(conversation, model_of(request.model), leads=is_leading)
        tools = [
            tool
            for tool in request.tools
            if not isinstance(tool, ByrefTool) or session is None or session.owns(tool.name)
        ]
        tools = self._described(session, tools)
        direct = {tool.name for tool in tools if isinstance(tool, BaseTool) and tool.return_direct}
        messages = Messages(request.messages)
        for message in request.messages:
            if isinstance(message, ToolMessage) and message.name in direct:
                messages.show(message, read_message(self._conversations, session, message, str(message.name)))
        summary = summary_in(request.messages)
        if summary is not None and session is not None:
            reminder = self._reminder(session, request.messages, summary, is_leading)
            if reminder:
                messages.show(summary, with_text(summary, reminder))
        system = instructed(request.system_message, messages.shown)
        ready = request.override(tools=tools, messages=messages.shown, system_message=system)
        return _Asked(ready, session, is_leading, messages)

    def _described(self, session: Session | None, tools: list[Any]) -> list[Any]:
        """Return the tools, of which code_interpreter's description shows the functions that code may call."""
        functions = self._code.shown(self._others(tools)) if self._code and session is not None else ()
        if session is None or not functions:
            return tools
        texts = {one["name"]: one["description"] for one in self._conversations.tools(session, functions)}
        return [
            tool.model_copy(update={"description": texts.get(tool.name, tool.description)})
            if isinstance(tool, ByrefTool)
            else tool
            for tool in tools
        ]

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
