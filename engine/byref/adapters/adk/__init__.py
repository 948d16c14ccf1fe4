"""Google ADK: a plugin that stores the big outputs of tools and passes them by reference, and an artifact service."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from byref.adapters.common import lenient
from byref.adapters.common.conversations import Conversations, Name, callers
from byref.adapters.common.extras import missing
from byref.adapters.common.functions import CodeFunctions, session_with
from byref.calling.threads import run_program
from byref.content import formats, media, to_block
from byref.content.media import Media
from byref.conversation.result import Result, ToolReply, sendable
from byref.engine import Engine
from byref.errors import ToolError
from byref.functions import Function
from byref.policy import Policy
from byref.session import Session
from byref.tools.code import CODE_INTERPRETER
from byref_sandbox import jsontext

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.context import Context
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types

    from byref.adapters.adk import code
    from byref.adapters.adk.artifacts import ByrefArtifactService, Tenant, session_name, tenant_name
    from byref.adapters.adk.schemas import schema_of, shown
except ImportError as error:
    raise missing("byref.adapters.adk", "google-adk", "adk") from error

__all__ = ["ByrefArtifactService", "ByrefPlugin", "session_name"]

_MAX_DEPTH = 2
"""Levels of a result that are searched for parts with bytes: ADK itself searches no deeper."""
_MCP_MEMBERS = {"content", "structuredContent", "isError"}
_STRUCTURED = ("inline", "variables", "artifact")
"""Routes whose text for the model is JSON, which becomes data in the function response."""


class Read(dict[str, Any]):
    """A function response that `after_tool_callback` must leave alone: byref has already made it."""


class ByrefPlugin(BasePlugin):
    """byref for every agent of an app: `App(…, plugins=[ByrefPlugin(engine)])`.

    The model is shown that any argument of a tool may be a reference, and arguments are resolved before a tool runs. The model
    reads the result of `Session.process` for each tool output. Agents that have tools are offered byref's own tools too. The usage
    of each answer is recorded.

    The conversation is `session_name(app, user, session)` of ADK's session, or `session`, which may be a function of ADK's context;
    an agent that is a tool works in the conversation of the agent that calls it. `tenant` may be a function of the app's name and
    the user's id. `policy` and `model` are those of `Engine.session`; the default model is the agent's. With `answer_errors` a
    tool's exception becomes its error reply; otherwise ADK raises it.

    `code_functions` are patterns of names (`["search_*"]`): code of `code_interpreter` may call those tools of the agent as
    functions. The calls go through ADK, with the callbacks of plugins and of the agent. If one needs confirmation, the call of
    `code_interpreter` does, where the agent has it among its own tools: `LlmAgent(tools=[…, *plugin.tools])`; ADK asks once, about all
    that wait together. Else it is refused in code, and the model told to call the tool itself.

    Raises ConfigurationError if `engine` is not a `byref.Engine`. During a run ADK raises RuntimeError from:
        StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        session: str | Callable[[ReadonlyContext], str] | None = None,
        tenant: Tenant = "default",
        policy: Policy | None = None,
        model: str | None = None,
        answer_errors: bool = True,
        code_functions: Sequence[str] = (),
        name: str = "byref",
    ) -> None:
        super().__init__(name)
        self._code = CodeFunctions(code_functions)
        self._conversations = Conversations(engine, policy, code=self._code)
        self._session, self._tenant, self._model, self._answer_errors = session, tenant, model, answer_errors
        self._instructions: dict[str, list[str]] = {}
        self._leaders: dict[str, str | None] = {}
        """For each invocation, the branch whose requests count as the conversation's context."""
        self._wrote: WeakKeyDictionary[ToolContext, dict[str, Any]] = WeakKeyDictionary()
        (declared,) = engine.tools("gemini", policy=policy)
        self._tools = [_Tool(self, one) for one in declared["function_declarations"]]

    @property
    def tools(self) -> list[BaseTool]:
        """Byref's own tools, for agents in which a confirmation of code's calls is waited for."""
        return list(self._tools)

    def conversation(self, context: CallbackContext) -> Session:
        """Return byref's session of a call or an answer. This reads the database, so do not call it on an event loop.

        Raises:
            StorageFailure: the database is away.
        """
        return self._conversations.open(*self._named(context))

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Show that arguments may be references, offer byref's tools, and add the instructions of trusted tools."""
        if there := llm_request.tools_dict:
            functions = self._code.of(code.tools_of(_others(there.values()), None)) if self._code else ()
            llm_request.append_tools([tool for tool in self._tools if tool.name not in there])
            mine = {tool.name: tool.description for tool in self._tools if isinstance(there.get(tool.name), _Tool)}
            own = {name: text for name, text in {**mine, **self._described(functions)}.items() if name in mine}
            llm_request.config.tools = [shown(tool, own) for tool in llm_request.config.tools or []]
        if texts := self._instructions.get(callback_context.invocation_id):
            llm_request.append_instructions(list(texts))

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Record the usage of one answer; if the database is away, the run goes on."""
        used = llm_response.usage_metadata
        if llm_response.partial or used is None:
            return
        if not (lenient.count(used.prompt_token_count) or lenient.count(used.candidates_token_count)):
            return  # nobody has counted
        name, model = self._named(callback_context)
        leads = self._leads(callback_context, name)
        await asyncio.to_thread(self._conversations.record, name, model, used, None, context=leads)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Replace references in the arguments, in place; a mistake in one becomes the answer to the call."""
        if isinstance(tool, _Tool) or type(tool) is BaseTool:  # ADK makes a BaseTool for a name that no tool has
            return None
        if code.called(tool_context) is not None:
            callers.set((*callers.get(), self._named(tool_context)[0]))
            return None
        name, model = self._named(tool_context)

        def work() -> dict[str, Any] | None:
            session, call_id = self._conversations.opened(name, model), tool_context.function_call_id
            try:
                found = self._conversations.arguments(
                    session, tool_args, schema_of(tool), tool=tool.name, call_id=call_id
                )
            except ToolError as error:
                message = str(error)
                return self._read(tool, tool_args, tool_context, message, is_error=True) or Read(
                    error=sendable(message)
                )
            if isinstance(found, dict) and found != tool_args:
                self._wrote[tool_context] = dict(tool_args)
                tool_args.clear()
                tool_args.update(found)
            return None

        answer = await asyncio.to_thread(work)
        callers.set((*callers.get(), name))  # ADK runs each call in a task of its own, so this mark is not reset
        return answer

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """Replace a big result by what the model is to read; leave alone a result that passes whole."""
        if (in_code := code.called(tool_context)) is not None:
            in_code.output = result
            return None
        if result is None or isinstance(result, Read | types.FunctionResponse):
            return None
        is_error = isinstance(result, dict) and result.keys() == {"error"}
        return await asyncio.to_thread(self._read, tool, tool_args, tool_context, result, is_error)

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> dict[str, Any] | None:
        """Answer a call with the exception that its tool raised."""
        if not self._answer_errors or not isinstance(error, Exception) or type(tool) is BaseTool:
            return None
        if code.called(tool_context) is not None:
            return None  # an exception in the code
        return await asyncio.to_thread(self._read, tool, tool_args, tool_context, error, True)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Forget the run."""
        self._forget(invocation_context.invocation_id)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """Forget the run."""
        self._forget(invocation_context.invocation_id)

    def _forget(self, invocation: str) -> None:
        self._instructions.pop(invocation, None)
        self._leaders.pop(invocation, None)

    def _named(self, context: CallbackContext) -> tuple[Name, str | None]:
        """Return the conversation of a call or an answer, and the name of its model."""
        model = getattr(context.get_invocation_context().agent, "model", None)
        root = _outermost(context)
        of = root.session
        name = self._session(root) if callable(self._session) else self._session
        return (
            tenant_name(self._tenant, of.app_name, of.user_id),
            name or session_name(of.app_name, of.user_id, of.id),
        ), self._model or lenient.text(model) or lenient.text(getattr(model, "model", None))

    def _leads(self, context: CallbackContext, name: Name) -> bool:
        """Tell whether an answer's usage is its conversation's context: not inside of a tool, and of branches only in the first."""
        if name in callers.get():
            return False
        branch = context.get_invocation_context().branch
        if branch is None:
            self._leaders[context.invocation_id] = None
        return self._leaders.setdefault(context.invocation_id, branch) == branch

    def _described(self, functions: Sequence[Function]) -> dict[str, str]:
        """Return descriptions of byref's own tools that show functions."""
        tools = self._conversations.tools(None, functions) if functions else []
        return {one["name"]: one["description"] for one in tools if one["name"] == CODE_INTERPRETER.name}

    async def _functions(self, context: ToolContext) -> tuple[Function, ...]:
        """Return the functions for one call of code_interpreter."""
        agent: Any = context.get_invocation_context().agent
        tools: list[BaseTool] = await agent.canonical_tools(context)
        # ADK goes on with a call after a confirmation only if the agent itself has the tool, and asks only once for each call.
        is_own = any(tool.name == CODE_INTERPRETER.name for tool in tools if isinstance(tool, _Tool))
        waits = is_own and context.tool_confirmation is None
        return self._code.of(code.tools_of(_others(tools), context, waits=waits))

    def _own(
        self,
        tool: str,
        arguments: dict[str, Any],
        context: ToolContext,
        functions: Sequence[Function],
        loop: AbstractEventLoop,
    ) -> ToolReply:
        session = self._conversations.opened(*self._named(context))
        if session is not None and functions:
            session = session_with(session, functions, loop)
        call_id = context.function_call_id
        reply = self._conversations.call(session, tool, arguments, call_id)
        if functions and call_id and reply.pending and (decided := code.decisions(context, reply.pending)):
            reply = self._conversations.resume(session, tool, call_id, decided)
        if functions and reply.pending:
            code.ask(context, reply.pending)
        return reply

    def _read(
        self, tool: BaseTool, arguments: dict[str, Any], context: ToolContext, value: object, is_error: bool
    ) -> Read | None:
        """Return what the model reads of a result; None if it reads the result unchanged."""
        parts: list[types.Part] = []
        data = _without_media(_of_mcp(value), parts, 0)
        blocks = [] if data is _NOTHING else [data]
        given = (
            [*({"type": "text", "text": to_block(one).text} for one in blocks), *map(_block, parts)] if parts else data
        )
        arguments = self._wrote.get(context, arguments)
        session = self._conversations.opened(*self._named(context))
        result = self._conversations.process(
            session,
            given,
            tool=tool.name,
            call_id=context.function_call_id,
            arguments=arguments,
            is_error=is_error,
        )
        if result.instructions:
            self._instructions.setdefault(context.invocation_id, []).append(result.instructions)
        if isinstance(value, Exception):
            return Read(error=sendable(result.text))
        if result.route.passes_whole and not parts and _is_same(value, result.content):
            return None
        if _is_texts_of_mcp(value) and self._conversations.is_as_it_came(session, result):
            return None
        return _response(result, parts)


class _Tool(BaseTool):
    """One of byref's own tools."""

    def __init__(self, plugin: ByrefPlugin, definition: dict[str, Any]) -> None:
        super().__init__(name=definition["name"], description=definition["description"])
        self._plugin, self._definition = plugin, definition

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(**self._definition)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Read:
        plugin, loop = self._plugin, asyncio.get_running_loop()
        has_functions = bool(plugin._code) and self.name == CODE_INTERPRETER.name
        functions = await plugin._functions(tool_context) if has_functions else ()
        return await run_program(lambda: _response(plugin._own(self.name, args, tool_context, functions, loop), []))


def _others(tools: Iterable[BaseTool]) -> list[BaseTool]:
    """Return the tools that are not byref's own."""
    return [tool for tool in tools if not isinstance(tool, _Tool)]


def _outermost(context: CallbackContext) -> CallbackContext:
    """Return the context of the agent that the user talks to; an agent run as a tool uses its caller's artifact service."""
    while isinstance(
        calling := getattr(context.get_invocation_context().artifact_service, "tool_context", None), Context
    ):
        context = calling
    return context


def _of_mcp(value: Any) -> Any:
    """Return the result of an MCP tool with MCP's own member names: ADK renames `_meta`."""
    if isinstance(value, dict) and "meta" in value and isinstance(value.get("content"), list) and "isError" in value:
        return {"_meta" if key == "meta" else key: item for key, item in value.items()}
    return value


def _is_texts_of_mcp(value: Any) -> bool:
    """Tell whether a value is what a call of an MCP tool gave, and has nothing but texts and data, which byref measures."""
    if not isinstance(value, dict) or not {"content", "isError"} <= value.keys() <= _MCP_MEMBERS or value["isError"]:
        return False
    blocks = value["content"]
    are_texts = isinstance(blocks, list) and all(
        isinstance(one, dict) and one.keys() == {"type", "text"} and one["type"] == "text" for one in blocks
    )
    return are_texts and bool(sendable(value) == value)


_NOTHING: Any = object()


def _without_media(value: Any, parts: list[types.Part], depth: int) -> Any:
    """Return a result without its parts with bytes, which are appended to `parts`; without any, return the same object."""
    if isinstance(value, types.Part) and value.inline_data is not None and value.inline_data.data is not None:
        parts.append(value)
        return _NOTHING
    if depth == _MAX_DEPTH or not isinstance(value, dict | list | tuple):
        return value
    before = len(parts)
    if isinstance(value, dict):
        pairs = [(key, _without_media(item, parts, depth + 1)) for key, item in value.items()]
        left: Any = {key: item for key, item in pairs if item is not _NOTHING}
    else:
        items = [_without_media(item, parts, depth + 1) for item in value]
        left = [item for item in items if item is not _NOTHING]
    if len(parts) == before:
        return value
    return left or _NOTHING


def _block(part: types.Part) -> dict[str, Any]:
    blob = part.inline_data or types.Blob()
    return formats.write(media.of(blob.mime_type, blob.data or b"", blob.display_name))


def _response(read: Result | ToolReply, parts: list[types.Part]) -> Read:
    """Return the function response for what the model reads; ADK takes the parts out and sends them beside it."""
    content = sendable(read.content)
    if isinstance(content, str):
        if read.is_error:
            return Read(error=content)
        data = _parsed(content) if isinstance(read, Result) and read.route in _STRUCTURED else content
        return Read(data) if isinstance(data, dict) else Read(result=data)
    same = {part.inline_data.data: part for part in parts if part.inline_data is not None}
    texts: list[str] = []
    shown: list[types.Part] = []
    for item in content:
        block = formats.one(item).block
        if isinstance(block, Media):
            shown.append(same.get(block.data) or types.Part.from_bytes(data=block.data, mime_type=block.content_type))
        else:
            texts.append(to_block(item).text if block is None else block.text)
    answer = {"error" if read.is_error else "result": "\n\n".join(texts)}
    return Read({**answer, "files": shown} if shown else answer)


def _is_same(value: Any, content: object) -> bool:
    """Tell whether the model reads exactly the tool's result. Comparing calls the values' own code, which may raise."""
    try:
        return bool(value == (sendable(content) if isinstance(value, str) else _parsed(content)))
    except Exception:  # noqa: BLE001  e.g. a DataFrame
        return False


def _parsed(content: object) -> object:
    """Return the value of JSON text, or the text if it is not JSON; halves of surrogate pairs, e.g. from escapes, are replaced."""
    if not isinstance(content, str):
        return content
    try:
        return sendable(jsontext.loads(content))
    except ValueError:
        return content
