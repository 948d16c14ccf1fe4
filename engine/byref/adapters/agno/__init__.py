"""byref in Agno's agents: a tool hook for every tool result, byref's own tools as a toolkit, and a hook for usage."""

from __future__ import annotations

import asyncio
import logging
import threading
from asyncio import AbstractEventLoop
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from inspect import isasyncgen, iscoroutinefunction, isgenerator
from typing import Any

from byref.adapters.common import lenient
from byref.adapters.common.conversations import NOBODY, Conversations, Name, joined, named
from byref.adapters.common.extras import missing
from byref.adapters.common.functions import CodeFunctions, session_with
from byref.adapters.common.instructions import Instructions
from byref.calling.threads import run_program
from byref.conversation.lifecycle import check_id
from byref.conversation.result import sendable
from byref.engine import Engine
from byref.errors import ByrefError, StorageFailure, ToolError
from byref.policy import Policy
from byref.session import Session
from byref.tools.code import CODE_INTERPRETER
from byref.usage import Usage

try:
    from agno.exceptions import AgentRunException, RunCancelledException
    from agno.media import File, Image
    from agno.models.message import Message
    from agno.run import RunContext
    from agno.run.agent import RunOutput
    from agno.run.team import TeamRunOutput
    from agno.tools import Function, Toolkit
    from agno.tools.function import FunctionCall, ToolResult
except ImportError as error:
    raise missing("byref.adapters.agno", "agno", "agno") from error

from byref.adapters.agno.code import CodeInterpreter, called, owner_of, tools_of

__all__ = ["ByrefTools", "session_name"]

logger = logging.getLogger("byref")

_SYSTEM = ("system", "developer")
_COUNTS_CACHED_APART = frozenset({"Claude", "AwsBedrock"})
"""Agno's model classes (with their subclasses) whose count of input tokens leaves out cached tokens."""
_COUNT_THOUGHTS_APART = frozenset({"Gemini"})
"""Those whose count of output tokens, and whose total, leave out reasoning. Of others (xAI) the total shows it."""


def session_name(session_id: str, user_id: str | None = None) -> str:
    """Return the id of byref's session for a session of Agno's where no `tenant` is given: `user/session`.

    Raises:
        InvalidId: an id is not a text, or not one that can be stored.
    """
    parts = [check_id("session_id", session_id)]
    return joined(*([check_id("user_id", user_id), *parts] if user_id is not None else parts))


class ByrefTools(Toolkit):
    """A toolkit of byref's own tools, and the hooks for an agent or a team that has it.

    `Agent(tools=[…, byref], tool_hooks=[byref.hook], post_hooks=[byref.record], instructions=byref.instructed("…"))`; for `arun`
    use `byref.arecord` and `byref.ainstructed("…")`.

    The conversation is named by the run's `session_id` and `user_id`: `session_name(session_id, user_id)`. With a `tenant`, which
    may be a function of the `RunContext`, only the tenant says who owns a `session_id`. `policy`, `tools`, `model` and
    `context_window` are those of `Engine.session`; the default model is the agent's.

    `code_functions` are patterns of names (`["search_*"]`): code of `code_interpreter` may call those tools of the agent or team as
    functions. The calls go through Agno, with all tool hooks. A tool about which Agno asks somebody is refused in code, and the
    model told to call the tool itself.

    Agno does not give a hook the id of a call, so outputs are found by their step. One toolkit serves any number of runs on any
    threads. The engine belongs to the host, which closes it.

    If the database is away and the policy says `on_storage_failure="raise"`, each call gets the error: Agno does not let a tool
    hook end a run with an exception.

    Raises:
        ConfigurationError: `engine` is not a `byref.Engine`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        tenant: str | Callable[[RunContext], str] | None = None,
        session: str | None = None,
        model: str | None = None,
        context_window: int | None = None,
        policy: Policy | None = None,
        tools: Sequence[str] | None = None,
        code_functions: Sequence[str] = (),
    ) -> None:
        super().__init__(name="byref", auto_register=False)
        self._code = CodeFunctions(code_functions)
        self._conversations = Conversations(engine, policy, tools, self._code)
        self._instructions = Instructions(engine)
        self._is_instructing = False
        """Whether an agent has `instructed` or `ainstructed` as its instructions."""
        self._is_warned = False
        self._writing = threading.Lock()
        self._tenant, self._session = tenant, session
        self._model, self._window = model, context_window
        for tool in self._conversations.tools(None):
            for functions, entrypoint in ((self.functions, self._call), (self.async_functions, self._acall)):
                is_described = tool["name"] == CODE_INTERPRETER.name and bool(self._code)
                kind = partial(CodeInterpreter, describe=self._description) if is_described else Function
                functions[tool["name"]] = kind(
                    name=tool["name"],
                    description=tool["description"],
                    parameters=tool["inputSchema"],
                    entrypoint=entrypoint,
                    skip_entrypoint_processing=True,
                )

    def session(self, run_context: RunContext, owner: Any = None) -> Session:
        """Return the conversation of a run; `owner` is its agent or team, whose model gives the context window.

        Raises:
            StorageFailure: the database is away.
        """
        return self._conversations.open(self._named(run_context), self._model_of(owner), self._window)

    def _opened(self, run_context: RunContext, owner: Any = None) -> Session | None:
        return self._conversations.opened(self._named(run_context), self._model_of(owner), self._window)

    def _model_of(self, owner: Any) -> str | None:
        return self._model or lenient.text(getattr(getattr(owner, "model", None), "id", None))

    def hook(
        self,
        function_name: str,
        function_call: Callable[..., Any],
        arguments: dict[str, Any],
        run_context: RunContext,
        agent: Any = None,
        team: Any = None,
    ) -> Any:
        """Tool hook: resolve references in the arguments, run the tool, and return what the model reads of its result."""
        in_code = called.get()
        if in_code is not None and in_code.function.name == function_name:
            return in_code.run(function_call, arguments)
        if function_name in self.functions:
            return function_call(**arguments)
        call = _Call(self, function_name, arguments, run_context, agent or team)
        return call.arun(function_call) if iscoroutinefunction(function_call) else call.run(function_call)

    def instructed(self, *instructions: str) -> Callable[..., list[str]]:
        """Return `instructions` for an agent or a team: the given ones, and those of the tools in the run's conversation."""
        self._is_instructing = True

        def given(run_context: RunContext | None = None) -> list[str]:
            return [*instructions, *(self._instructions.of(self._named(run_context)) if run_context else ())]

        return given

    def ainstructed(self, *instructions: str) -> Callable[..., Awaitable[list[str]]]:
        """Do the same for an agent run by `arun`."""
        given = self.instructed(*instructions)

        async def agiven(run_context: RunContext | None = None) -> list[str]:
            return await asyncio.to_thread(given, run_context)

        return agiven

    def record(
        self, run_output: RunOutput | TeamRunOutput, run_context: RunContext, agent: Any = None, team: Any = None
    ) -> None:
        """Post hook of `run`: record the usage of each of the run's requests; those of a team member are side calls.

        If the database is away, this is logged and not raised: the run already has its answer.
        """
        owner = agent or team
        try:
            session = self.session(run_context, owner)
        except StorageFailure:
            logger.warning("byref could not record the usage of a run", exc_info=True)
            return
        kinds = {kind.__name__ for kind in type(getattr(owner, "model", None)).__mro__}
        is_apart = not kinds.isdisjoint(_COUNTS_CACHED_APART)
        for message in run_output.messages or []:
            used = message.metrics
            sent, made = lenient.count(used.input_tokens), lenient.count(used.output_tokens)
            if message.role != "assistant" or message.from_history or not (sent or made):
                continue
            read, written = lenient.count(used.cache_read_tokens), lenient.count(used.cache_write_tokens)
            thought = lenient.count(used.reasoning_tokens)
            if kinds.isdisjoint(_COUNT_THOUGHTS_APART):  # of cached tokens apart a total may have as many more
                thought = 0 if is_apart else max(0, min(thought, lenient.count(used.total_tokens) - sent - made))
            usage = Usage(
                input_tokens=sent + (read + written if is_apart else 0),
                output_tokens=made + thought,
                cache_read_tokens=read,
                cache_write_tokens=written,
                model=lenient.text(run_output.model),
                raw=used.to_dict(),
            )
            try:
                session.record_usage(usage, request_id=message.id, context=run_output.parent_run_id is None)
            except ByrefError:
                logger.warning("byref could not record the usage of a run", exc_info=True)
                return

    async def arecord(
        self, run_output: RunOutput | TeamRunOutput, run_context: RunContext, agent: Any = None, team: Any = None
    ) -> None:
        """Post hook of `arun`: do the same."""
        await asyncio.to_thread(self.record, run_output, run_context, agent, team)

    def _named(self, run_context: RunContext) -> Name:
        if self._tenant is not None:
            return named(self._tenant, run_context), self._session or run_context.session_id
        if self._session is not None:
            return NOBODY, self._session
        user = None if run_context.user_id == "" else run_context.user_id  # Agno too treats an empty user_id as none
        if user is None and not self._is_warned:
            self._is_warned = True
            logger.warning(
                "a run has no user_id, and ByrefTools no tenant=: whoever names a session_id opens its data. Give runs a "
                "user_id=, or ByrefTools(tenant=…)"
            )
        return NOBODY, session_name(run_context.session_id, user)

    def _instruct(self, run_context: RunContext, tool: str, text: str) -> None:
        """Add a tool's instructions to the run's system message, for its next request, and keep them for later runs."""
        self._instructions.add(self._named(run_context), text)
        system = next((one for one in run_context.messages or () if one.role in _SYSTEM), None)
        if system is not None:
            with self._writing:
                _add(system, text)
        if system is None or not self._is_instructing:
            logger.warning(
                "the tool %r gives instructions, which the model does not read %s: give the agent instructions=byref.instructed(…), "
                "with a text of your own",
                tool,
                "in this run" if system is None else "in later runs",
            )

    def _description(self, owner: Any) -> str:
        """Return the description of code_interpreter for an agent or a team."""
        functions = self._code.of(tools_of(owner, own=ByrefTools, within=None, is_async=True))
        texts = {one["name"]: one["description"] for one in self._conversations.tools(None, functions)}
        return str(texts[CODE_INTERPRETER.name])

    def _call(self, /, fc: FunctionCall, run_context: RunContext, **arguments: Any) -> Any:
        """Answer a call of one of byref's own tools; a mistake of the model becomes the call's error."""
        return self._answer(fc, run_context, None)

    def _answer(self, fc: FunctionCall, run_context: RunContext, loop: AbstractEventLoop | None) -> Any:
        session, called_on = self._opened(run_context), fc.function
        if session is not None and self._code and called_on.name == CODE_INTERPRETER.name:
            tools = tools_of(owner_of(called_on), own=ByrefTools, within=called_on, is_async=loop is not None)
            session = session_with(session, self._code.of(tools), loop)
        reply = self._conversations.call(session, called_on.name, fc.arguments, fc.call_id)
        text = sendable(reply.text)
        if reply.is_error:
            raise ToolError(text)
        return text if isinstance(reply.content, str) else _with_media(text, reply.content)

    async def _acall(self, /, fc: FunctionCall, run_context: RunContext, **arguments: Any) -> Any:
        return await run_program(partial(self._answer, fc, run_context, asyncio.get_running_loop()))


class _Call:
    """One call of a host's tool."""

    def __init__(
        self, tools: ByrefTools, name: str, arguments: dict[str, Any], run_context: RunContext, owner: Any
    ) -> None:
        self._tools, self._name, self._arguments = tools, name, arguments
        self._context, self._owner, self._written = run_context, owner, dict(arguments)

    def run(self, function_call: Callable[..., Any]) -> Any:
        session = self._begin()
        try:
            output = function_call(**self._arguments)
        except (AgentRunException, RunCancelledException):
            raise
        except Exception as error:
            raise self._failure(session, error) from error
        finally:
            self._end()
        return self._gated(session, output)

    async def arun(self, function_call: Callable[..., Awaitable[Any]]) -> Any:
        session = await asyncio.to_thread(self._begin)
        try:
            output = await function_call(**self._arguments)
        except (AgentRunException, RunCancelledException):
            raise
        except Exception as error:
            raise await asyncio.to_thread(self._failure, session, error) from error
        finally:
            self._end()
        return await asyncio.to_thread(self._gated, session, output)

    def _begin(self) -> Session | None:
        """Put the resolved data into the arguments dict itself: Agno calls the tool with it, whatever a hook passes on."""
        session = self._tools._opened(self._context, self._owner)
        resolved: Any = self._tools._conversations.arguments(
            session, self._written, None, tool=self._name, call_id=None
        )
        self._arguments.clear()
        self._arguments.update(resolved)
        return session

    def _end(self) -> None:
        """Restore what the model wrote: the run's record holds the same dict."""
        self._arguments.clear()
        self._arguments.update(self._written)

    def _text(self, session: Session | None, output: object, *, is_error: bool = False) -> str:
        """Return what the model reads of an output. Raises ToolError with it if the output says that it is an error."""
        result = self._tools._conversations.process(
            session, output, tool=self._name, call_id=None, arguments=self._written, is_error=is_error
        )
        if result.instructions:
            self._tools._instruct(self._context, self._name, result.instructions)
        text = str(sendable(result.text))
        if result.is_error and not is_error:
            raise ToolError(text)  # the output itself says that the call failed
        return text

    def _failure(self, session: Session | None, error: Exception) -> Exception:
        """Return the tool's own error, or one with only as much of its text as the model reads."""
        text = self._text(session, str(error), is_error=True)
        return error if text == str(error) else ToolError(text)

    def _gated(self, session: Session | None, output: Any) -> Any:
        if _ends_run(self._context, self._owner, self._name):
            return output  # this result is the answer to the user
        if isasyncgen(output):
            return self._apieces(session, output)
        if isgenerator(output):
            return self._pieces(session, output)
        if isinstance(output, ToolResult):
            return output.model_copy(update={"content": self._text(session, output.content)})
        return self._text(session, output)

    def _pieces(self, session: Session | None, output: Iterator[Any]) -> Iterator[Any]:
        """Yield events as they come, then what the model reads of all texts together."""
        texts = []
        for piece in output:
            if hasattr(piece, "event"):
                yield piece
            else:
                texts.append(str(piece))
        yield self._text(session, "".join(texts))

    async def _apieces(self, session: Session | None, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        texts = []
        async for piece in output:
            if hasattr(piece, "event"):
                yield piece
            else:
                texts.append(str(piece))
        yield await asyncio.to_thread(self._text, session, "".join(texts))


def _add(system: Message, text: str) -> None:
    """Add a text to a system message unless it is already in it."""
    before = system.content
    if isinstance(before, list):
        if not any(isinstance(block, dict) and block.get("text") == text for block in before):
            system.content = [*before, {"type": "text", "text": text}]
    elif text not in (before or ""):
        system.content = f"{before}\n\n{text}" if before else text


def _ends_run(run_context: RunContext, owner: Any, name: str) -> bool:
    """Tell whether the run ends with this tool's result."""
    # An agent's `tools` may be a function: the run then has those that it gave.
    tools = getattr(owner, "tools", None) if run_context.tools is None else run_context.tools
    for tool in tools if isinstance(tools, list) else []:
        functions = tool.get_async_functions() if isinstance(tool, Toolkit) else {getattr(tool, "name", None): tool}
        if name in functions:
            return bool(getattr(functions[name], "stop_after_tool_call", False))
    return False


def _with_media(text: str, blocks: list[Any]) -> ToolResult:
    """Return a reply with its images and documents as Agno's media; byref writes them in MCP's form."""
    images, files = [], []
    for block in blocks:
        match block:
            case {"type": "image", "data": data, "mimeType": kind}:
                images.append(Image(content=b64decode(data), mime_type=kind))
            case {"resource": {"blob": data, "mimeType": kind}}:
                files.append(File(content=b64decode(data), mime_type=kind))
    return ToolResult(content=text, images=images or None, files=files or None)
