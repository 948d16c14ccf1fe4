"""Pydantic AI: a capability that passes the big outputs of an agent's tools by reference, and records its usage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from byref.adapters.common import lenient
from byref.adapters.common.conversations import NOBODY, Conversations, Name, callers, named, running
from byref.adapters.common.extras import missing
from byref.adapters.common.functions import CodeFunctions, session_with
from byref.adapters.common.schemas import with_references
from byref.calling.threads import run_program
from byref.content import formats, to_block
from byref.content.media import Media
from byref.conversation.result import sendable
from byref.engine import Engine
from byref.errors import ToolError
from byref.functions import Function
from byref.policy import Policy
from byref.session import Session
from byref.tools.code import CODE_INTERPRETER
from byref_sandbox import jsontext

try:
    from pydantic_ai import BinaryContent, ModelRetry, RunContext, ToolDefinition, ToolFailed, ToolReturn
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelResponse, ToolCallPart, is_multi_modal_content
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.output import OutputContext
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_ai.toolsets.external import TOOL_SCHEMA_VALIDATOR
except ImportError as error:
    raise missing("byref.adapters.pydantic_ai", "pydantic-ai", "pydantic-ai") from error

from byref.adapters.pydantic_ai import code
from byref.adapters.pydantic_ai.code import OWN, SCHEMA

__all__ = ["Byref"]

logger = logging.getLogger("byref")

ByContext = str | Callable[[RunContext[Any]], str]
RawArguments = str | dict[str, Any]


@dataclass
class Byref(AbstractCapability[AgentDepsT]):
    """byref for an agent, as one of its `capabilities`.

    The model is shown that any argument of a function tool may be a reference, and arguments are resolved before they are
    validated. The model reads the result of `Session.process` for each tool output, and is offered byref's own tools. The usage of
    each answer is recorded. The message history has arguments as the model wrote them and outputs as it read them; the metadata of
    a `ToolReturn` is unchanged.

    `session` names the conversation; the default is the run's `conversation_id`, which may come from the host or from a
    `message_history`. `tenant` says who owns it; with neither, a warning says that nothing separates conversations of different
    users. Both may be functions of the run's context: `tenant=lambda ctx: ctx.deps.customer`. `policy` and `model` are those of
    `Engine.session`; the default model is the run's.

    `code_functions` are patterns of names (`["search_*"]`): code of `code_interpreter` may call those function tools of the agent as
    functions. The calls go through the run's tool manager, with validation, hooks and traces. If one needs approval, and no capability
    of the agent decides about it, the call of `code_interpreter` waits for approval; it is refused in code if `DeferredToolRequests`
    is not among the agent's output types.

    Raises ConfigurationError if `engine` is not a `byref.Engine`, and during a run:
        StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
    """

    engine: Engine
    _: KW_ONLY
    session: ByContext | None = None
    tenant: ByContext | None = None
    policy: Policy | None = None
    model: str | None = None
    code_functions: Sequence[str] = ()
    id: str | None = "byref"
    _instructions: list[str] = field(default_factory=list, init=False, repr=False)
    _is_warned: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check that the engine is one."""
        self._code = CodeFunctions(self.code_functions)
        self._conversations = Conversations(self.engine, self.policy, code=self._code)

    def conversation(self, ctx: RunContext[Any]) -> Session:
        """Return byref's session of a run. This reads the database, so do not call it on an event loop.

        Raises:
            StorageFailure: the database is away.
        """
        return self._conversations.open(*self._named(ctx))

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> Byref[AgentDepsT]:
        """Return an instance for one run, which collects the instructions of its tools."""
        if self.tenant is None and self.session is None and not self._is_warned:
            self._is_warned = True
            logger.warning(
                "Byref(engine) has no tenant=: conversations are distinguished by the conversation_id alone, which a "
                "message_history may name, so whoever names another's opens its data. Give tenant=lambda ctx: …, of the "
                'login, or tenant="default" where nobody else writes ids and histories'
            )
        mine = replace(self)
        mine._conversations, mine._code = self._conversations, self._code
        return mine

    def get_toolset(self) -> AbstractToolset[AgentDepsT]:
        """Return byref's own tools."""
        return _Tools(self)

    def get_instructions(self) -> Callable[[RunContext[AgentDepsT]], str | None]:
        """Return the instructions of tools that `Policy.trusted_instructions` names."""
        return lambda _: "\n\n".join(self._instructions) or None

    async def prepare_tools(self, ctx: RunContext[AgentDepsT], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Show the model that any argument of a host's tool may be a reference."""
        shown = [tool_def if _is_own(tool_def) else _shown(tool_def) for tool_def in tool_defs]
        if not self._code:
            return shown
        functions = self._code.of(code.tools_of(tool_defs, None))

        def described() -> dict[str, str]:
            session = self._conversations.opened(*self._named(ctx))
            return {one["name"]: one["description"] for one in self._conversations.tools(session, functions)}

        texts = await asyncio.to_thread(described)
        return [
            replace(one, description=texts.get(own, one.description)) if (own := _own_name(one)) else one
            for one in shown
        ]

    async def before_tool_validate(
        self, ctx: RunContext[AgentDepsT], *, call: ToolCallPart, tool_def: ToolDefinition, args: RawArguments
    ) -> RawArguments:
        """Resolve references; a mistake in one fails the call with a text for the model."""
        if _is_own(tool_def) or code.is_called(call):
            return args
        return await asyncio.to_thread(self._resolved, ctx, call, tool_def, args)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Run a tool, marked as one of this conversation: the usage of an agent that it runs is not the context."""
        with running(self._named(ctx)[0]):
            return await handler(args)

    async def after_tool_execute(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        result: Any,
    ) -> Any:
        """Replace a big result by what the model is to read."""
        if _is_own(tool_def) or code.is_called(call):
            return result
        return await asyncio.to_thread(self._processed, ctx, call, result)

    async def before_output_validate(
        self, ctx: RunContext[AgentDepsT], *, output_context: OutputContext, output: RawArguments
    ) -> RawArguments:
        """Resolve references in the arguments of an output tool; if one fails, the model must correct it."""
        call, tool_def = output_context.tool_call, output_context.tool_def
        if call is None or tool_def is None or ctx.partial_output:
            return output
        try:
            return await asyncio.to_thread(self._looked_up, ctx, call, tool_def, output)
        except ToolError as error:
            raise ModelRetry(sendable(str(error))) from None

    async def after_model_request(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Record the usage of one answer; if the database is away, the run goes on."""
        if response.usage.has_values():
            await asyncio.to_thread(self._record, ctx, response)
        return response

    def _named(self, ctx: RunContext[Any]) -> tuple[Name, str | None]:
        """Return the conversation of a run, and the name of its model."""
        name = named(self.session or ctx.conversation_id or ctx.run_id or "", ctx)
        tenant = NOBODY if self.tenant is None else named(self.tenant, ctx)
        return (tenant, name), self.model or lenient.text(ctx.model.model_name)

    def _record(self, ctx: RunContext[AgentDepsT], response: ModelResponse) -> None:
        name, model = self._named(ctx)
        leads = name not in callers.get()
        self._conversations.record(name, model, response, response.provider_response_id, context=leads)

    def _looked_up(
        self, ctx: RunContext[AgentDepsT], call: ToolCallPart, tool_def: ToolDefinition, args: RawArguments
    ) -> RawArguments:
        schema = (tool_def.metadata or {}).get(SCHEMA, tool_def.parameters_json_schema)
        session = self._conversations.opened(*self._named(ctx))
        return self._conversations.arguments(session, args, schema, tool=call.tool_name, call_id=call.tool_call_id)

    def _resolved(
        self, ctx: RunContext[AgentDepsT], call: ToolCallPart, tool_def: ToolDefinition, args: RawArguments
    ) -> RawArguments:
        try:
            return self._looked_up(ctx, call, tool_def, args)
        except ToolError as error:
            result = self._conversations.process(
                self._conversations.opened(*self._named(ctx)),
                str(error),
                tool=call.tool_name,
                call_id=call.tool_call_id,
                arguments=args,
                is_error=True,
            )
            raise ToolFailed(sendable(result.text)) from None

    def _processed(self, ctx: RunContext[AgentDepsT], call: ToolCallPart, result: Any) -> Any:
        session = self._conversations.opened(*self._named(ctx))

        def read(value: Any) -> Any:
            return self._read(session, call, value)[0]

        if not isinstance(result, ToolReturn):
            content, failure = self._read(session, call, result)
            if failure is not None:
                raise ToolFailed(failure)
            return content
        content = result.content
        if isinstance(content, str):
            content = read(content)
        elif content is not None:
            content = [read(item) if isinstance(item, str) else item for item in content]
        return replace(result, return_value=read(result.return_value), content=content)

    def _read(self, session: Session | None, call: ToolCallPart, value: Any) -> tuple[Any, str | None]:
        """Return what the model reads of a value, and the text of an error if the value says that it is one.

        Data that passes whole is returned as data.
        """
        items = list(value) if isinstance(value, list | tuple) else [value]
        files = [item for item in items if is_multi_modal_content(item)]
        kept = [item for item in files if not isinstance(item, BinaryContent)]
        own = [item for item in items if isinstance(item, BinaryContent) or not is_multi_modal_content(item)]
        blocks = [_block(item) for item in own] if files else value
        if files and not own:
            return value, None
        result = self._conversations.process(
            session, blocks, tool=call.tool_name, call_id=call.tool_call_id, arguments=call.args, is_error=False
        )
        if result.instructions:
            self._instructions.append(result.instructions)
        failure = sendable(result.text) if result.is_error else None
        content = sendable(result.content)
        if isinstance(content, str):
            if result.route == "inline" and not files and not isinstance(value, str):
                return _data(content), failure
            return [content, *kept] if kept else content, failure
        same = {item.data: item for item in files if isinstance(item, BinaryContent)}
        made: list[Any] = [_content(item, same) for item in content]
        if len(made) == len(own):  # the files can be distinguished from the rest, so each stays in its place
            left = iter(made)
            made = [item if any(item is one for one in kept) else next(left) for item in items]
        else:
            made += kept
        return made[0] if len(made) == 1 else made, failure


@dataclass
class _Tools(AbstractToolset[AgentDepsT]):
    """byref's own tools, as the session offers them."""

    by: Byref[AgentDepsT]

    @property
    def id(self) -> str:
        return "byref"

    @property
    def label(self) -> str:
        """The text that names this toolset in the error for two tools of one name."""
        return "byref (whose tools get a prefix by capabilities=[Byref(engine).prefix_tools('data')])"

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        def work() -> list[dict[str, Any]]:
            return self.by._conversations.tools(self._session(ctx))

        definitions = await asyncio.to_thread(work)
        return {one["name"]: self._tool(one) for one in definitions}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        loop = asyncio.get_running_loop()
        functions: tuple[Function, ...] = ()
        if name == CODE_INTERPRETER.name and self.by._code:
            functions = self.by._code.of(code.tools_of(code.definitions(ctx), ctx))

        def work() -> Any:
            session = self._session(ctx)
            if session is not None and functions:
                session = session_with(session, functions, loop)
            reply = self.by._conversations.call(session, name, tool_args, ctx.tool_call_id)
            if reply.pending and ctx.tool_call_approved:
                decided = code.decisions(ctx, reply.pending)
                reply = self.by._conversations.resume(session, name, str(ctx.tool_call_id), decided)
            if reply.pending and functions:
                raise code.asking(reply.pending)
            if reply.is_error:
                raise ToolFailed(sendable(reply.text))
            content = sendable(reply.content)
            return content if isinstance(content, str) else [_content(item, {}) for item in content]

        return await run_program(work)

    def _session(self, ctx: RunContext[AgentDepsT]) -> Session | None:
        return self.by._conversations.opened(*self.by._named(ctx))

    def _tool(self, definition: Mapping[str, Any]) -> ToolsetTool[AgentDepsT]:
        tool_def = ToolDefinition(
            name=definition["name"],
            description=definition["description"],
            parameters_json_schema=definition["inputSchema"],
            strict=False,
            metadata={OWN: definition["name"]},
        )
        return ToolsetTool(toolset=self, tool_def=tool_def, max_retries=1, args_validator=TOOL_SCHEMA_VALIDATOR)


def _own_name(tool_def: ToolDefinition) -> str | None:
    """Return the name of one of byref's own tools; None for another tool."""
    return (tool_def.metadata or {}).get(OWN)


def _is_own(tool_def: ToolDefinition) -> bool:
    return _own_name(tool_def) is not None


def _shown(tool_def: ToolDefinition) -> ToolDefinition:
    """Return a tool as the model is shown it, not strict by default: OpenAI's strict mode has no place for jq references."""
    written = tool_def.parameters_json_schema
    schema = with_references(written)
    if schema is None:
        return tool_def
    return replace(
        tool_def,
        parameters_json_schema=schema,
        strict=bool(tool_def.strict),
        metadata={**(tool_def.metadata or {}), SCHEMA: written},
    )


def _data(text: str) -> Any:
    try:
        return sendable(jsontext.loads(text))  # an escape may stand for half of a surrogate pair
    except ValueError:
        return text


def _block(item: Any) -> dict[str, Any]:
    """Return a part of a result that has files as a block that byref reads."""
    if not isinstance(item, BinaryContent):
        return {"type": "text", "text": to_block(item).text}
    return formats.write(Media("image" if item.is_image else "document", item.media_type, item.data))


def _content(item: Any, same: Mapping[bytes, BinaryContent]) -> str | BinaryContent:
    """Return a block in Pydantic AI's form; a file of the tool's is returned as the same object."""
    block = formats.one(item).block
    if isinstance(block, Media):
        return same.get(block.data) or BinaryContent(data=block.data, media_type=block.content_type)
    return to_block(item).text if block is None else block.text
