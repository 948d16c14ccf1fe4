"""byref as a Strands plugin: the results of an agent's tools pass through the session of its conversation."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final
from weakref import WeakKeyDictionary

from byref.adapters.common import lenient
from byref.adapters.common.arguments import may_refer
from byref.adapters.common.conversations import AWAY, Conversations, Name, callers, joined, named
from byref.adapters.common.extras import missing
from byref.adapters.common.functions import CodeFunctions, session_with
from byref.conversation.result import ToolReply
from byref.engine import Engine
from byref.errors import ConfigurationError, SessionGone, StorageFailure, ToolError
from byref.functions import Function
from byref.policy import Policy
from byref.session import Session
from byref.tools.code import CODE_INTERPRETER

try:
    from strands import Agent
    from strands.hooks import (
        AfterModelCallEvent,
        AfterToolCallEvent,
        BeforeModelCallEvent,
        HookOrder,
        MessageAddedEvent,
        MultiAgentInitializedEvent,
    )
    from strands.middleware import (
        ExecuteToolContext,
        ExecuteToolStage,
        InvokeModelContext,
        InvokeModelStage,
        ToolResultEvent,
    )
    from strands.models import Model
    from strands.multiagent.base import MultiAgentBase
    from strands.plugins import MultiAgentPlugin, Plugin
    from strands.types.tools import ToolResult, ToolUse
except ImportError as error:
    raise missing("byref.adapters.strands", "strands-agents", "strands") from error

from byref.adapters.strands.calls import ByrefTool, calling, in_code, is_direct, noting, schema_for
from byref.adapters.strands.content import as_it_came, output_of, replied, usage_of
from byref.adapters.strands.storage import ByrefOffloadStorage, ByrefStorage

__all__ = ["ByrefOffloadStorage", "ByrefPlugin", "ByrefStorage", "ByrefTool"]

logger = logging.getLogger("byref")

STATE: Final = "byref"
"""Key in an agent's state for its session's id, if it has no other, and for additions to its system prompt."""
MOST_INSTRUCTIONS: Final = 20
"""Instructions of tools in the system prompt; the newest are kept."""
MOST_DIRECT: Final = 100
"""Direct calls of one agent that are remembered until their results become messages; some never do."""


class ByrefPlugin(Plugin, MultiAgentPlugin):
    """`Agent(plugins=[ByrefPlugin(engine)])`: results are gated, references resolved, usage recorded, byref's tools offered.

    One plugin serves any number of agents. `session`, an id or a function of the agent, names the conversation. Without it, the
    conversation is that of the Swarm or Graph that has this plugin, which its agents share; else the session manager's id
    (`id/agent_id` for an agent with an id of its own); else an id that only this agent has, kept in its `state`. `tenant` may be a
    function of the agent too, e.g. of its `state`. The defaults of `model` and `context_window` are those of the agent's model.
    `policy` and `tools` are those of `Engine.session`.

    References are resolved after all hooks on `BeforeToolCallEvent`. Results are gated at `order` among the hooks on
    `AfterToolCallEvent`, by default as the last: other plugins see the call as the model wrote it and the result as the tool gave
    it.

    `code_functions` are patterns of names (`["search_*"]`): code of `code_interpreter` may call those tools of the agent as
    functions. They are direct calls (`agent.tool.…()`), which the agent's hooks see and no message records. A tool that interrupts is
    refused in code, and the model told to call the tool itself.

    Instructions of tools, and after a compaction a reminder of the data that is still there, are added to the system prompt of each
    request; `agent.system_prompt` does not change.

    Raises:
        ConfigurationError: `engine` is not an `Engine`; or, when an agent is made, it has a tool with the name of one of byref's.
    """

    name = "byref"

    def __init__(
        self,
        engine: Engine,
        *,
        session: str | Callable[[Agent], str] | None = None,
        tenant: str | Callable[[Agent], str] = "default",
        policy: Policy | None = None,
        tools: Sequence[str] | None = None,
        model: str | None = None,
        context_window: int | None = None,
        order: float = HookOrder.SDK_LAST,
        code_functions: Sequence[str] = (),
    ) -> None:
        self._code = CodeFunctions(code_functions)
        self._conversations = Conversations(engine, policy, tools, self._code)
        self._id, self._tenant = session, tenant
        self._model, self._context_window, self._order = model, context_window, order
        self._specs = self._conversations.tools(None)
        self._minted: WeakKeyDictionary[Agent, str] = WeakKeyDictionary()
        self._shared: WeakKeyDictionary[Agent, str] = WeakKeyDictionary()
        self._direct: WeakKeyDictionary[Agent, deque[str]] = WeakKeyDictionary()
        super().__init__()

    def init_agent(self, agent: Agent) -> None:
        """Offer byref's tools to an agent and register hooks; nothing is read or written yet."""
        registry = agent.tool_registry
        names = {name.replace("-", "_"): name for name in [*registry.registry, *registry.dynamic_tools]}
        for spec in self._specs:
            if spec["name"] in names:
                raise ConfigurationError(
                    f"the agent has a tool {names[spec['name']]!r}, and byref one of that name: rename it, "
                    "or leave byref's out by ByrefPlugin(tools=[…])"
                )
        # Strands' own id of an agent has 32 random bits, with which two conversations would sooner or later get the same id.
        self._minted[agent] = f"{agent.session_id}-{uuid.uuid4().hex}"
        self._direct[agent] = deque(maxlen=MOST_DIRECT)
        specs = self._specs
        if functions := self._functions(agent):
            specs = self._conversations.tools(None, functions)
        registry.process_tools([ByrefTool(self._answer, spec) for spec in specs])
        agent.add_middleware(ExecuteToolStage, self._execute)
        agent.add_hook(self._process, AfterToolCallEvent, order=self._order)
        agent.add_hook(self._process_direct, MessageAddedEvent, order=HookOrder.SDK_FIRST)  # before it is persisted
        agent.add_hook(self._record_usage, AfterModelCallEvent)
        agent.add_hook(self._note_compaction, BeforeModelCallEvent)
        agent.add_middleware(InvokeModelStage.Input, _with_state)

    def init_multi_agent(self, orchestrator: MultiAgentBase) -> None:
        """Let the agents of a Swarm or a Graph share one conversation: the session manager's, or a new one."""

        def share(event: MultiAgentInitializedEvent) -> None:  # before it a Swarm has no nodes and a Graph no id
            manager = getattr(event.source, "session_manager", None)
            shared = lenient.text(getattr(manager, "session_id", None)) or f"{event.source.id}-{uuid.uuid4().hex}"
            self._shared.update(dict.fromkeys(_agents_of(event.source), shared))

        orchestrator.add_hook(share, MultiAgentInitializedEvent)

    def session(self, agent: Agent) -> Session:
        """Return the session of an agent's conversation, opened or created; this reads the database.

        Raises:
            StorageFailure: the database failed, and this plugin had not opened the session before.
        """
        opened = self._opened(agent)
        if opened is None:
            raise StorageFailure(AWAY)
        return opened

    def _opened(self, agent: Agent) -> Session | None:
        model = self._model or lenient.text(lenient.member(agent.model.get_config(), "model_id"))
        window = self._context_window or lenient.count(agent.model.context_window_limit) or None
        return self._conversations.opened(self._name(agent), model, window)

    def _answer(self, agent: Agent, use: ToolUse) -> ToolReply:
        session = self._opened(agent)
        if session is not None and use["name"] == CODE_INTERPRETER.name and (functions := self._functions(agent)):
            session = session_with(session, functions)
        return self._conversations.call(session, use["name"], use["input"], use["toolUseId"])

    def _functions(self, agent: Agent) -> tuple[Function, ...]:
        if not self._code:
            return ()
        registry = agent.tool_registry
        tools = {**registry.registry, **registry.dynamic_tools}.values()
        return self._code.of([in_code(agent, tool) for tool in tools if not isinstance(tool, ByrefTool)])

    async def _execute(
        self, context: ExecuteToolContext, next_fn: Callable[[ExecuteToolContext], AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Run a tool with references replaced by data; a reference that fails becomes the tool's error."""
        agent: Any = context.agent
        tool, use = context.tool, context.tool_use
        if isinstance(tool, ByrefTool):
            async with aclosing(next_fn(context)) as events:
                async for event in events:
                    yield event
            return
        if not is_direct(context.invocation_state) and may_refer(use["input"]):
            given = {key: value for key, value in use["input"].items() if value is not None}

            def resolved() -> Any:
                return self._conversations.arguments(
                    self._opened(agent),
                    given,
                    schema_for(use["input"], tool),
                    tool=use["name"],
                    call_id=use["toolUseId"],
                    is_strict=True,
                )

            try:
                data = await asyncio.to_thread(resolved)
            except ToolError as error:
                yield ToolResultEvent(
                    {"toolUseId": use["toolUseId"], "status": "error", "content": [{"text": str(error)}]}
                )
                return
            context = context.replace(tool_use={**use, "input": {**use["input"], **data}})
        inner = next_fn(context.replace(tool=noting(tool)))
        async with aclosing(inner), aclosing(calling(self._name(agent), inner)) as events:
            async for event in events:
                yield event

    async def _process(self, event: AfterToolCallEvent) -> None:
        """Replace a tool's result by what the model is to read."""
        use, tool = event.tool_use, event.selected_tool
        if isinstance(tool, ByrefTool) or event.retry:
            return
        if getattr(tool, "delegate", False):  # its result is the answer to the user
            return
        if is_direct(event.invocation_state):
            self._pin(event.agent)
            self._direct[event.agent].append(use["toolUseId"])
            return
        event.result = await self._read(event.agent, event.result, use["name"], use["input"])

    async def _process_direct(self, event: MessageAddedEvent) -> None:
        """Replace the result of a direct call, `agent.tool.…()`, when it becomes a message of the conversation.

        The program that made the call gets the data itself.
        """
        agent = event.agent
        for block in event.message["content"]:
            if "toolResult" in block and (call_id := block["toolResult"]["toolUseId"]) in self._direct.get(agent, ()):
                self._direct[agent].remove(call_id)
                called = [
                    use for message in agent.messages for one in message["content"] if (use := one.get("toolUse"))
                ]
                use = next(use for use in called[::-1] if use["toolUseId"] == call_id)
                block["toolResult"] = await self._read(agent, block["toolResult"], use["name"], use["input"])

    async def _read(self, agent: Agent, result: ToolResult, tool: str, arguments: object) -> ToolResult:
        def processed() -> tuple[ToolResult, str | None]:
            session = self._opened(agent)
            read = self._conversations.process(
                session,
                output_of(result),
                tool=tool,
                call_id=result["toolUseId"],
                arguments=arguments,
                is_error=result["status"] == "error",
            )
            is_same = self._conversations.is_as_it_came(session, read)
            return as_it_came(result) if is_same else replied(result, read), read.instructions

        read, instructions = await asyncio.to_thread(processed)
        if instructions:
            state = _state(agent)
            before = [one for one in state.get("instructions", []) if one != instructions]
            agent.state.set(STATE, {**state, "instructions": [*before, instructions][-MOST_INSTRUCTIONS:]})
        return read

    async def _record_usage(self, event: AfterModelCallEvent) -> None:
        """Record the usage of a request; a failure is only logged, so that the paid answer is not lost."""
        if event.stop_response is None:
            return
        usage = lenient.member(event.stop_response.message.get("metadata"), "usage")
        if not isinstance(usage, Mapping) or not lenient.count(usage.get("inputTokens")):
            return

        def recorded() -> None:
            self.session(event.agent).record_usage(usage_of(usage), context=self._leads(event.agent))

        try:
            await asyncio.to_thread(recorded)
        except (SessionGone, StorageFailure):
            logger.warning("byref could not record usage", exc_info=True)

    async def _note_compaction(self, event: BeforeModelCallEvent) -> None:
        """Tell the session, and by a reminder the model, that the conversation manager has removed messages."""
        agent = event.agent
        self._pin(agent)
        removed = lenient.count(getattr(getattr(agent, "conversation_manager", None), "removed_message_count", None))
        if removed <= lenient.count(_state(agent).get("removed")):
            return
        tokens = await _tokens(agent)

        def noted() -> str:
            session = self.session(agent)
            if self._leads(agent):
                session.on_compaction(tokens)
            return session.reminder() if session.artifacts(limit=1) else ""

        try:
            reminder = await asyncio.to_thread(noted)
        except (SessionGone, StorageFailure):
            logger.warning("byref could not note a compaction", exc_info=True)
        else:
            agent.state.set(STATE, {**_state(agent), "removed": removed, "reminder": reminder})

    def _leads(self, agent: Agent) -> bool:
        """Tell whether an agent's usage is its conversation's context: not while a tool of the conversation runs the agent."""
        return self._name(agent) not in callers.get()

    def _name(self, agent: Agent) -> Name:
        return named(self._tenant, agent), self._session_id(agent)

    def _session_id(self, agent: Agent) -> str:
        if self._id is not None:
            return named(self._id, agent)
        if agent in self._shared:
            return self._shared[agent]
        managed = lenient.text(agent.session_id)
        if getattr(agent, "_session_manager", None) is None or managed is None:
            return lenient.text(_state(agent).get("session")) or self._minted[agent]
        return joined(managed) if agent.agent_id == "default" else joined(managed, agent.agent_id)

    def _pin(self, agent: Agent) -> None:
        """Store an id that only this plugin knows in the agent's state, which is part of snapshots."""
        if self._session_id(agent) == self._minted[agent] and "session" not in (state := _state(agent)):
            agent.state.set(STATE, {**state, "session": self._minted[agent]})


def _agents_of(orchestrator: Any) -> Iterator[Agent]:
    """Yield the agents of a Swarm or a Graph, nested ones included."""
    for node in getattr(orchestrator, "nodes", {}).values():
        executor = node.executor
        if isinstance(executor, MultiAgentBase):
            yield from _agents_of(executor)
        elif isinstance(executor, Agent):
            yield executor


async def _tokens(agent: Any) -> int:
    """Return the conversation's tokens by the model's own count; that may be a request and fail, then they are estimated."""
    try:
        return int(await agent.model.count_tokens(agent.messages, system_prompt=agent.system_prompt))
    except Exception:
        logger.warning("the model could not count tokens; they are estimated", exc_info=True)
        return await Model.count_tokens(agent.model, agent.messages, system_prompt=agent.system_prompt)


def _state(agent: Any) -> dict[str, Any]:
    state = agent.state.get(STATE)
    return state if isinstance(state, dict) else {}


def _with_state(context: InvokeModelContext) -> InvokeModelContext:
    """Add instructions and the reminder to a request's system prompt.

    They come after the host's own text, so that prompt caches still hold that.
    """
    state = _state(context.agent)
    added = "\n\n".join(filter(None, [*state.get("instructions", []), state.get("reminder")]))
    if not added:
        return context
    prompt = context.system_prompt
    if isinstance(prompt, list):
        return context.replace(system_prompt=[*prompt, {"text": added}])
    return context.replace(system_prompt=f"{prompt}\n\n{added}" if prompt else added)
