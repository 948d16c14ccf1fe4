"""byref as a Strands plugin: what an agent's tools return goes through the session of its conversation."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from byref.adapters.extras import missing
from byref.engine import Engine
from byref.errors import ConfigurationError, StorageFailure, ToolError
from byref.policy import Policy
from byref.result import Result, ToolReply
from byref.session import Session

try:
    from strands import Agent
    from strands.hooks import (
        AfterModelCallEvent,
        AfterToolCallEvent,
        BeforeModelCallEvent,
        BeforeToolCallEvent,
        HookOrder,
        MessageAddedEvent,
    )
    from strands.middleware import InvokeModelContext, InvokeModelStage, ToolResultEvent
    from strands.plugins import Plugin
    from strands.types.tools import (
        AgentTool,
        ToolGenerator,
        ToolResult,
        ToolResultStatus,
        ToolSpec,
        ToolUse,
    )
except ImportError as error:
    raise missing("byref.adapters.strands", "strands-agents", "strands") from error

from byref.adapters.strands_content import content_of, usage_of
from byref.adapters.strands_storage import ByrefOffloadStorage, ByrefStorage

__all__ = ["ByrefOffloadStorage", "ByrefPlugin", "ByrefStorage", "ByrefTool"]

logger = logging.getLogger("byref")

STATE: Final = "byref"
"""In an agent's state: what its system prompt says besides, so that it says the same when the conversation is resumed."""
MOST_INSTRUCTIONS: Final = 20
"""Of tools, in the system prompt; the newest stay."""
MOST_DIRECT: Final = 100
"""Direct calls of one agent that are remembered until their results are put into the conversation; not all are."""
_WRITTEN: Final = "byref_written"
"""In a tool use whose references were resolved: the input as the model wrote it."""


class ByrefPlugin(Plugin):
    """`Agent(plugins=[ByrefPlugin(engine)])`: results are gated, references resolved, usage recorded, byref's tools offered.

    One plugin serves any number of agents. The conversation is `session`, a fixed id or a function of the agent; without
    it the session manager's id (`id/agent_id` for an agent with an id of its own), and for an agent that has no session
    manager an id that no other has. `tenant` may be a function of the agent, too: of its `state`, say. `model` and
    `context_window` are those of the agent's model if not given. `policy` and `tools` are as `Engine.session` takes them.

    What tools instruct the model to show, and after a compaction what data is still there, is added to the system prompt
    of each request; `agent.system_prompt` stays as it is.
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
    ) -> None:
        self._engine, self._id, self._tenant, self._policy = engine, session, tenant, policy
        self._model, self._context_window = model, context_window
        self._specs = engine.tools("mcp", tools=tools, policy=policy)
        self._minted: WeakKeyDictionary[Agent, str] = WeakKeyDictionary()
        self._opened: WeakKeyDictionary[Agent, Session] = WeakKeyDictionary()
        self._direct: WeakKeyDictionary[Agent, deque[str]] = WeakKeyDictionary()
        super().__init__()

    def init_agent(self, agent: Agent) -> None:
        """Offer byref's tools to an agent and listen to it; nothing is read or written yet."""
        self._minted[agent] = uuid.uuid4().hex
        self._direct[agent] = deque(maxlen=MOST_DIRECT)
        agent.tool_registry.process_tools([ByrefTool(self, spec) for spec in self._specs])
        agent.add_hook(self._resolve, BeforeToolCallEvent)
        agent.add_hook(self._process, AfterToolCallEvent)
        agent.add_hook(self._process_direct, MessageAddedEvent, order=HookOrder.SDK_FIRST)  # before it is persisted
        agent.add_hook(self._record_usage, AfterModelCallEvent)
        agent.add_hook(self._note_compaction, BeforeModelCallEvent)
        agent.add_middleware(InvokeModelStage.Input, _with_notes)

    def session(self, agent: Agent) -> Session:
        """Return the session of an agent's conversation, opened or created; reads the database.

        Raises:
            StorageFailure: the database failed, and this plugin had not opened the session before.
        """
        tenant = self._tenant if isinstance(self._tenant, str) else self._tenant(agent)
        config: object = agent.model.get_config()
        named = config.get("model_id") if isinstance(config, Mapping) else None
        try:
            opened = self._engine.session(
                self._session_id(agent),
                tenant=tenant,
                model=self._model or (named if isinstance(named, str) else None),
                context_window=self._context_window or agent.model.context_window_limit,
                policy=self._policy,
                tools=[spec["name"] for spec in self._specs],
            )
        except StorageFailure:
            if agent not in self._opened:
                raise
            return self._opened[agent]  # what it takes in is shortened, as its policy says, and not lost
        self._opened[agent] = opened
        return opened

    async def _resolve(self, event: BeforeToolCallEvent) -> None:
        """Put data in place of references in a tool's input; a reference that does not hold is the tool's error."""
        use, tool = event.tool_use, event.selected_tool
        given = use["input"]
        if isinstance(tool, ByrefTool) or event.cancel_tool or _WRITTEN in use or _is_direct(event):
            return
        if not isinstance(given, Mapping) or not _may_refer(given):
            return
        schema = {} if tool is None else tool.tool_spec.get("inputSchema", {}).get("json", {})

        def resolved() -> dict[str, Any]:
            # Strands takes null out of the schemas of optional parameters, and lets it pass all the same.
            nulls = {name: None for name, value in given.items() if value is None}
            required = [name for name in schema.get("required", []) if name not in nulls]
            stated = {name: value for name, value in given.items() if name not in nulls}
            session = self.session(event.agent)
            tool_name, call_id = use["name"], use["toolUseId"]
            try:
                data = session.resolve(stated, {**schema, "required": required}, tool=tool_name, call_id=call_id)
            except ConfigurationError:  # no schema that is one: the tool's own affair
                data = session.resolve(stated, tool=tool_name, call_id=call_id)
            return {name: data.get(name) for name in [*given, *data]}

        try:
            data = await asyncio.to_thread(resolved)
        except ToolError as error:
            event.cancel_tool = str(error)
        except StorageFailure:
            logger.warning("byref could not look for references in the input of %r", use["name"], exc_info=True)
            event.cancel_tool = "the store of this conversation's data cannot be reached: try again later"
        else:
            event.tool_use = cast(ToolUse, {**use, "input": data, _WRITTEN: given})

    async def _process(self, event: AfterToolCallEvent) -> None:
        """Let the model read of a tool's result what the session says of it."""
        use, tool = event.tool_use, event.selected_tool
        if isinstance(tool, ByrefTool) or event.retry:
            return
        if getattr(tool, "delegate", False):  # its result is the agent's answer: a user reads it
            return
        if _is_direct(event):
            self._direct[event.agent].append(use["toolUseId"])
            return
        event.result = await self._read(event.agent, event.result, use["name"], use.get(_WRITTEN, use["input"]))

    async def _process_direct(self, event: MessageAddedEvent) -> None:
        """Do the same with the result of a direct call, `agent.tool.…()`, once it is put into the conversation.

        The program that called has the data itself.
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
        output = {name: value for name, value in result.items() if name in ("toolUseId", "status", "content")}

        def processed() -> Result:
            is_error = result["status"] == "error"
            session = self.session(agent)
            return session.process(
                output, tool=tool, call_id=result["toolUseId"], arguments=arguments, is_error=is_error
            )

        try:
            read = await asyncio.to_thread(processed)
        except StorageFailure:
            if (self._policy or self._engine.policy).on_storage_failure == "raise":
                raise
            logger.exception("byref could not open its session; the result of %r passes as it is", tool)
            return result
        if read.instructions:
            notes = _notes(agent)
            said = [one for one in notes.get("instructions", []) if one != read.instructions]
            agent.state.set(STATE, {**notes, "instructions": [*said, read.instructions][-MOST_INSTRUCTIONS:]})
        return cast(ToolResult, {**result, "content": content_of(read)})

    async def _record_usage(self, event: AfterModelCallEvent) -> None:
        """Record what the provider counted of a request."""
        if event.stop_response is None:
            return
        usage = event.stop_response.message.get("metadata", {}).get("usage")
        if not usage or not usage.get("inputTokens"):
            return
        try:
            await asyncio.to_thread(lambda: self.session(event.agent).record_usage(usage_of(usage)))
        except StorageFailure:
            logger.warning("byref could not record usage", exc_info=True)

    async def _note_compaction(self, event: BeforeModelCallEvent) -> None:
        """Tell the session, and the model by a reminder, that the conversation manager has removed messages."""
        agent = event.agent
        removed = getattr(getattr(agent, "conversation_manager", None), "removed_message_count", 0)
        notes = _notes(agent)
        if removed <= notes.get("removed", 0):
            return
        tokens = await agent.model.count_tokens(agent.messages, system_prompt=agent.system_prompt)

        def noted() -> str:
            session = self.session(agent)
            session.on_compaction(tokens)
            return session.reminder() if session.artifacts() else ""

        try:
            reminder = await asyncio.to_thread(noted)
        except StorageFailure:
            logger.warning("byref could not note a compaction", exc_info=True)
        else:
            agent.state.set(STATE, {**notes, "removed": removed, "reminder": reminder})

    def _session_id(self, agent: Agent) -> str:
        if self._id is not None:
            return self._id if isinstance(self._id, str) else self._id(agent)
        if getattr(agent, "_session_manager", None) is None:
            # Strands' own id of such an agent is 32 random bits: two of a thousand conversations could be one.
            return f"{agent.session_id}-{self._minted[agent]}"
        return agent.session_id if agent.agent_id == "default" else f"{agent.session_id}/{agent.agent_id}"


class ByrefTool(AgentTool):
    """One of byref's tools, for the agent that calls it."""

    def __init__(self, plugin: ByrefPlugin, spec: Mapping[str, Any]) -> None:
        super().__init__()
        self._plugin = plugin
        schema = {"json": spec["inputSchema"]}
        self._spec = ToolSpec(name=spec["name"], description=spec["description"], inputSchema=schema)

    @property
    def tool_name(self) -> str:
        """Its name."""
        return self._spec["name"]

    @property
    def tool_spec(self) -> ToolSpec:
        """Its definition."""
        return self._spec

    @property
    def tool_type(self) -> str:
        """Whose it is."""
        return "byref"

    async def stream(self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any) -> ToolGenerator:
        """Answer a call; a mistake of the model's is an error result."""
        agent, call_id = invocation_state["agent"], tool_use["toolUseId"]
        arguments = tool_use["input"]

        def called() -> ToolReply:
            return self._plugin.session(agent).call(self.tool_name, arguments, call_id=call_id)

        reply = await asyncio.to_thread(called)
        status: ToolResultStatus = "error" if reply.is_error else "success"
        yield ToolResultEvent({"toolUseId": call_id, "status": status, "content": content_of(reply)})


def _is_direct(event: BeforeToolCallEvent | AfterToolCallEvent) -> bool:
    """Whether a program called the tool, by `agent.tool.…()`: it gives data, and gets data."""
    return "agent" in event.invocation_state and "event_loop_cycle_id" not in event.invocation_state


def _may_refer(arguments: Mapping[str, Any]) -> bool:
    """Whether references may be among the arguments: most have none, and go to their tool untouched."""
    written = json.dumps(arguments, default=str)
    return any(mark in written for mark in ("$", "art_", "art:"))


def _notes(agent: Any) -> dict[str, Any]:
    notes = agent.state.get(STATE)
    return notes if isinstance(notes, dict) else {}


def _with_notes(context: InvokeModelContext) -> InvokeModelContext:
    """Add what the session has to say to a request's system prompt, behind all that the host says: caches depend on it."""
    notes = _notes(context.agent)
    said = "\n\n".join(filter(None, [*notes.get("instructions", []), notes.get("reminder")]))
    if not said:
        return context
    prompt = context.system_prompt
    if isinstance(prompt, list):
        return context.replace(system_prompt=[*prompt, {"text": said}])
    return context.replace(system_prompt=f"{prompt}\n\n{said}" if prompt else said)
