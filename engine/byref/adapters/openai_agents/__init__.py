"""The OpenAI Agents SDK: tools whose big outputs are passed by reference, usage, and a Session in byref's database."""

from __future__ import annotations

import asyncio
import copy
import functools
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from byref.adapters.common import lenient
from byref.adapters.common.arguments import refers
from byref.adapters.common.conversations import AWAY, Conversations, Name, Recent, callers, named, running
from byref.adapters.common.extras import missing
from byref.adapters.common.functions import CodeFunctions, session_with
from byref.adapters.common.instructions import Instructions
from byref.calling import approvals
from byref.calling.threads import run_program
from byref.conversation.result import Pending, ToolReply
from byref.engine import Engine
from byref.errors import ByrefError, ConfigurationError, ToolError
from byref.policy import Policy
from byref.session import Session as Conversation
from byref.tools.code import CODE_INTERPRETER

try:
    from agents import (
        Agent,
        FunctionTool,
        ModelResponse,
        RunConfig,
        RunContextWrapper,
        RunHooks,
        Tool,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
        TResponseInputItem,
    )
    from agents.run_context import TContext
    from agents.tool_context import ToolContext
except ImportError as error:
    raise missing("byref.adapters.openai_agents", "openai-agents", "openai-agents") from error

from byref.adapters.openai_agents.calls import asks, offered, overhear, overhearing, parsed, schema_of
from byref.adapters.openai_agents.code import functions_of, shown
from byref.adapters.openai_agents.results import ModelBlocks, ModelText, as_output, content
from byref.adapters.openai_agents.session import ByrefSession

__all__ = ["Byref", "ByrefAgent", "ByrefSession", "ModelBlocks", "ModelText"]

ByContext = str | Callable[[RunContextWrapper[Any]], str]

_MARK: Final = "_byref"
"""Attribute of the invoking function of a tool that byref has wrapped, with the tool; of a tool of its own, with True."""

logger = logging.getLogger("byref")


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call with its references resolved."""

    session: Conversation | None
    """None: the database is away."""
    arguments: str
    refusal: str | None = None
    """The text that the model reads in place of a call's result."""


class Byref(RunHooks[Any]):
    """byref for the agents of an application: give its `tools` to agents, and pass it to runs as `hooks`.

    `session` names the conversation and `tenant` its owner; both may be functions of the run's context: `session=lambda run:
    run.context.chat_id`. `policy` and `model` are those of `Engine.session`; the default model is the agent's. Instructions of
    tools (`Result.instructions`) become a system message at the end of each request, or are part of the system prompt of a
    `ByrefAgent`. The usage of each answer of a model is recorded. If a tool of the conversation runs an agent (`agent.as_tool(…,
    hooks=by)`), that agent's usage is a side call's and not the conversation's context.

    `code_functions` are patterns of names (`["search_*"]`): code of `code_interpreter` may call those of an agent's function tools
    as functions, and those of a `ByrefAgent`'s MCP servers. The calls go through the SDK's tools, with their guardrails, timeouts and
    spans. Where one `needs_approval`, the SDK interrupts the run about the call of `code_interpreter`, once for one program: `pending` lists the
    calls that wait, and whoever approves the call of `code_interpreter` approves them. What the code asks for after that is refused, and the
    model told to call the tool itself; so it is where the run has no `hooks=`.

    Raises ConfigurationError if `engine` is not a `byref.Engine`, and in a run, as the cause of the SDK's UserError:
        SessionGone: one of byref's tools is called in a conversation that has ended.
        StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        session: ByContext,
        tenant: ByContext = "default",
        policy: Policy | None = None,
        model: str | None = None,
        code_functions: Sequence[str] = (),
    ) -> None:
        self._code = CodeFunctions(code_functions)
        self._conversations = Conversations(engine, policy, code=self._code)
        self._session, self._tenant, self._model = session, tenant, model
        self._instructions = Instructions(engine)
        self._heard: Recent[Name, bool] = Recent()
        """Conversations for which requests have read the instructions."""
        self._guarded: WeakKeyDictionary[ToolContext[Any], _Ready] = WeakKeyDictionary()
        self._agents: WeakKeyDictionary[RunContextWrapper[Any], Agent[Any]] = WeakKeyDictionary()
        """The agent that is at it in a run: who asks whether a call needs approval does not say."""

    def conversation(self, context: RunContextWrapper[Any], agent: object = None) -> Conversation:
        """Return byref's session of a run. This reads the database, so do not call it on an event loop."""
        return self._conversations.open(self._named(context), self._model_of(agent))

    def pending(self, context: RunContextWrapper[Any], call_id: str | None = None) -> list[Pending]:
        """Return the calls of code that wait for approval; with `call_id`, those of the code of that call.

        This reads the database, so do not call it on an event loop.
        """
        return self.conversation(context).pending(call_id)

    def tools(self, *tools: Tool) -> list[Tool]:
        """Return the tools in the form for an agent, followed by byref's own tools.

        For function tools (agents as tools included), the schema says that arguments may be references. References are resolved
        before input guardrails, a `needs_approval` function and the tool see them. The model reads the result of `Session.process`
        for the output: a `ModelText` or `ModelBlocks`, whose `original` is the tool's return value. Outputs for hosted programs,
        outputs of tools with `output_json_schema`, and other kinds of tools pass unchanged. A tool that is already wrapped is not
        wrapped again.
        """
        given = self.wrapped(*tools)
        there = {tool.name for tool in given}
        in_code = [one for tool in tools if (one := _unwrapped(tool)) is not None] if self._code else []
        own = self._conversations.tools(None, shown(self._code, in_code))
        return [*given, *(self._own(definition, in_code) for definition in own if definition["name"] not in there)]

    def with_functions(self, *tools: Tool) -> list[Tool]:
        """Return an agent's tools with a `code_interpreter` whose code may call all of them that `code_functions` names."""
        in_code = [one for tool in tools if (one := _unwrapped(tool)) is not None] if self._code else []
        functions = shown(self._code, in_code)
        if not functions:
            return [*tools]
        own = self._conversations.tools(None, functions)
        by_name = {one["name"]: one for one in own if one["name"] == CODE_INTERPRETER.name}
        return [
            self._own(by_name[tool.name], in_code) if _is_own(tool) and tool.name in by_name else tool for tool in tools
        ]

    def wrapped(self, *tools: Tool, heard: bool = False) -> list[Tool]:
        """Wrap tools as `tools` does, without byref's own; `heard`: the tools' servers already record their results."""
        return [self._wrapped(tool, heard) if isinstance(tool, FunctionTool) else tool for tool in tools]

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Add the tools' instructions to this request only, unless the system prompt already has them."""
        self._agents[context] = agent
        if self._code:
            await self._give_up(context, agent, input_items)
        prompt = system_prompt or ""
        missing = [text for text in await self.instructions(context) if text not in prompt]
        if missing:
            input_items.append({"role": "system", "content": "\n\n".join(missing)})

    async def instructions(self, context: RunContextWrapper[Any]) -> tuple[str, ...]:
        """Return the instructions of the tools in a run's conversation, for a system prompt of your own."""
        name = self._named(context)
        self._heard.put(name, True)
        return await asyncio.to_thread(self._instructions.of, name)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Record the usage of one answer; if that fails, the run goes on, because the answer is there."""
        used = response.usage
        is_counted = lenient.count(used.input_tokens) or lenient.count(used.output_tokens)
        if not lenient.count(used.requests) or not is_counted:  # the provider has not counted
            return
        leads = self._named(context) not in callers.get()

        def work() -> None:
            self.conversation(context, agent).record_usage(used, context=leads)

        try:
            await asyncio.to_thread(work)
        except ByrefError as error:
            if isinstance(error, ConfigurationError):
                raise
            logger.warning("byref could not record the usage of a run", exc_info=True)

    def _named(self, context: RunContextWrapper[Any]) -> Name:
        return named(self._tenant, context), named(self._session, context)

    def _model_of(self, agent: object) -> str | None:
        model = getattr(agent, "model", None)
        return self._model or lenient.text(model) or lenient.text(getattr(model, "model", None))

    def _opened(self, context: RunContextWrapper[Any], agent: object) -> Conversation | None:
        return self._conversations.opened(self._named(context), self._model_of(agent))

    def _ready(self, tool: FunctionTool, context: RunContextWrapper[Any], written: str, call_id: str) -> _Ready:
        session = self._opened(context, getattr(context, "agent", None))
        try:
            found = self._conversations.arguments(
                session, written or "{}", schema_of(tool), tool=tool.name, call_id=call_id
            )
        except ToolError as error:
            return _Ready(session, written, str(error))
        return _Ready(session, found if isinstance(found, str) else json.dumps(found))

    def _wrapped(self, tool: FunctionTool, heard: bool) -> FunctionTool:
        if tool.output_json_schema is not None or getattr(tool.on_invoke_tool, _MARK, False):
            return tool

        async def invoke(context: ToolContext[Any], written: str) -> Any:
            call_id = context.tool_call_id
            # A guardrail has resolved the references already; the tool must run with the data that the guardrail saw.
            ready = self._guarded.pop(context, None) if tool.tool_input_guardrails else None
            if ready is None:
                ready = await asyncio.to_thread(self._ready, tool, context, written, call_id)

            def read(output: object, result: object = None, is_error: bool = False) -> object:
                result_read = self._conversations.process(
                    ready.session,
                    as_output(output) if result is None else result,
                    tool=tool.name,
                    call_id=call_id,
                    arguments=written,
                    is_error=is_error,
                )
                if result_read.instructions:
                    self._instruct(self._named(context), tool.name, result_read.instructions)
                return content(result_read, call_id, output)

            refusal = ready.refusal
            if refusal is None and await self._asks_anew(tool, context, written, ready.arguments):
                refusal = "the data that the arguments refer to changed, and this call now needs approval: call again"
            if refusal is not None:
                return await asyncio.to_thread(read, refusal, is_error=True)
            with running(self._named(context)), overhearing([] if heard else None) as overheard:
                output = await tool.on_invoke_tool(context, ready.arguments)
            caller = getattr(context.tool_call, "caller", None)
            if getattr(caller, "type", None) == "program":
                return output
            return await asyncio.to_thread(read, output, overheard[-1] if overheard else None)

        setattr(invoke, _MARK, tool)
        wrapped = copy.copy(tool)
        wrapped.on_invoke_tool = invoke
        if self._conversations.policy.tool(tool.name).references:
            wrapped.params_json_schema, wrapped.description = offered(tool)
        if callable(tool.needs_approval):
            wrapped.needs_approval = self._approval(tool)
        if tool.tool_input_guardrails:
            wrapped.tool_input_guardrails = [self._guardrail(tool, one) for one in tool.tool_input_guardrails]
        return wrapped

    def _instruct(self, name: Name, tool: str, text: str) -> None:
        self._instructions.add(name, text)
        if not self._heard.get(name):
            logger.warning(
                "the tool %r gives instructions, which the model does not read: give the run hooks=byref, or make the agent a ByrefAgent",
                tool,
            )

    def _approval(self, tool: FunctionTool) -> Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]:
        """Return the tool's `needs_approval`, asked about the resolved arguments."""

        async def needs(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            ready = await asyncio.to_thread(self._ready, tool, context, json.dumps(arguments), call_id)
            # the model gets the error; if the data exists when the tool runs, `_asks_anew` asks
            if ready.refusal is not None:
                return False
            return await asks(tool, context, ready.arguments, call_id)

        return needs

    async def _asks_anew(self, tool: FunctionTool, context: ToolContext[Any], written: str, arguments: str) -> bool:
        """Tell whether the data needs an approval not yet given: other calls of the turn may have changed it since the question."""
        if not callable(tool.needs_approval) or not refers(written):
            return False
        names = (context.qualified_tool_name, context.tool_name)
        if any(context.is_tool_approved(name, context.tool_call_id) for name in names):
            return False
        return await asks(tool, context, arguments, context.tool_call_id)

    def _guardrail(self, tool: FunctionTool, guardrail: ToolInputGuardrail[Any]) -> ToolInputGuardrail[Any]:
        """Return the guardrail with resolved arguments in `context.tool_arguments`; the tool then runs with the same ones."""

        @functools.wraps(guardrail.guardrail_function)
        async def checked(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
            ready = self._guarded.get(data.context)
            if ready is None:
                written, call_id = data.context.tool_arguments, data.context.tool_call_id
                ready = await asyncio.to_thread(self._ready, tool, data.context, written, call_id)
                self._guarded[data.context] = ready
            if ready.refusal is not None:
                return ToolGuardrailFunctionOutput.allow()  # the tool will not run
            context = copy.copy(data.context)
            context.tool_arguments = ready.arguments
            return await guardrail.run(replace(data, context=context))

        return replace(guardrail, guardrail_function=checked)

    def _own(self, definition: dict[str, Any], in_code: Sequence[FunctionTool]) -> FunctionTool:
        name = definition["name"]
        has_functions = name == CODE_INTERPRETER.name and bool(in_code)
        asking = has_functions and any(
            tool.needs_approval is not False for tool in in_code if self._code.has(tool.name)
        )

        async def answered(context: ToolContext[Any], arguments: Any, *, waits: bool = False) -> ToolReply | None:
            """Answer a call; None if the database is away. With `waits` the code may wait for approval."""
            loop = asyncio.get_running_loop()

            def work() -> ToolReply | None:
                session, call_id = self._opened(context, context.agent), context.tool_call_id
                if session is None:
                    return None
                if has_functions:
                    session = session_with(session, functions_of(self._code, in_code, context, waits=waits), loop)
                reply = session.call(name, arguments or "{}", call_id=call_id)
                if reply.pending and context.is_tool_approved(name, call_id):
                    # Only what this very code asked for: an older one may wait under the same id.
                    return session.resume(call_id, {one.id: True for one in reply.pending})
                return reply

            with running(self._named(context)) if has_functions else nullcontext():
                return await run_program(work)

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            # The same program as that of `needs_approval`, which gets what is parsed.
            given = parsed(arguments) if asking else arguments
            reply = await answered(context, given)
            return ModelText(AWAY) if reply is None else await asyncio.to_thread(content, reply, context.tool_call_id)

        async def needs_approval(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            """Run the code: only its way shows what it asks for. The SDK then takes the reply, or asks; the journal has the calls."""
            agent = self._agents.get(context)
            if agent is None or not call_id:
                return False
            # What is traced here is not known to be wanted in traces.
            quiet = RunConfig(trace_include_sensitive_data=False)
            about: Any = {"tool_name": name, "tool_arguments": json.dumps(arguments), "run_config": quiet}
            within = ToolContext.from_agent_context(context, call_id, agent=agent, **about)
            reply = await answered(within, arguments, waits=True)
            return reply is not None and bool(reply.pending)

        setattr(invoke, _MARK, True)
        return FunctionTool(
            name=name,
            description=definition["description"],
            params_json_schema=definition["inputSchema"],
            on_invoke_tool=invoke,
            strict_json_schema=False,
            needs_approval=needs_approval if asking else False,
        )

    async def _give_up(
        self, context: RunContextWrapper[Any], agent: Agent[Any], items: list[TResponseInputItem]
    ) -> None:
        """End code whose calls were rejected: the SDK does not run it any more."""
        name = CODE_INTERPRETER.name
        mine: list[Any] = [one for one in items if isinstance(one, dict) and one.get("name") == name]
        given = [one["call_id"] for one in mine if isinstance(one.get("call_id"), str)]
        rejected = [one for one in given if context.is_tool_approved(name, one) is False]
        if not rejected:
            return

        def work() -> None:
            if (session := self._opened(context, agent)) is None:
                return
            for one in rejected:
                approvals.withdraw(session._scope, one)

        try:
            await asyncio.to_thread(work)
        except ByrefError:  # nobody goes on with that code anyway
            logger.warning("byref could not end code whose calls were rejected", exc_info=True)


def _is_own(tool: Tool) -> bool:
    return isinstance(tool, FunctionTool) and getattr(tool.on_invoke_tool, _MARK, None) is True


def _unwrapped(tool: Tool) -> FunctionTool | None:
    """Return a function tool as it was before byref wrapped it; None for another tool, and for one of byref's own."""
    if not isinstance(tool, FunctionTool):
        return None
    marked = getattr(tool.on_invoke_tool, _MARK, None)
    return tool if marked is None else marked if isinstance(marked, FunctionTool) else None


@dataclass
class ByrefAgent(Agent[TContext]):
    """An agent whose function tools all go through `Byref.tools`: the given ones, and those of its MCP servers.

    A server's results are processed as the server sent them, with structured content, whatever `use_structured_content` is.
    """

    byref: Byref | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Wrap the tools; this also wraps tools given to `clone`."""
        super().__post_init__()  # type: ignore[no-untyped-call]
        if self.byref is None:
            raise ConfigurationError(f"ByrefAgent(name={self.name!r}): expected byref=Byref(engine, …)")
        self.tools = self.byref.tools(*self.tools)

    async def get_system_prompt(self, run_context: RunContextWrapper[TContext]) -> str | None:
        """Return the agent's own system prompt, followed by the instructions of tools."""
        prompt = await super().get_system_prompt(run_context)
        if self.byref is None:
            return prompt
        instructions = await self.byref.instructions(run_context)
        return "\n\n".join(filter(None, [prompt, *instructions])) or prompt

    async def get_all_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """Return all tools; code may call those of the MCP servers, too, that `code_functions` names."""
        tools = await super().get_all_tools(run_context)
        return self.byref.with_functions(*tools) if self.byref is not None and self.mcp_servers else tools

    async def get_mcp_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """Return the tools of the MCP servers, wrapped."""
        for server in self.mcp_servers:
            overhear(server)
        tools = await super().get_mcp_tools(run_context)
        return tools if self.byref is None else self.byref.wrapped(*tools, heard=True)
