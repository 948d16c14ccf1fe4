"""An agent's tools as functions that code of byref's interpreter may call: through Agno's function calls, with their hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import isasyncgen, isasyncgenfunction, iscoroutinefunction, isgenerator
from typing import Any

from pydantic import Field

from byref.adapters.common.extras import missing
from byref.adapters.common.functions import FrameworkTool, FunctionError, shown_only

try:
    from agno.tools import Function, Toolkit
    from agno.tools.function import FunctionCall, FunctionExecutionResult, ToolResult
except ImportError as error:
    raise missing("byref.adapters.agno", "agno", "agno") from error

_MEDIA = ("_images", "_videos", "_audios", "_files")
"""What Agno gives the functions of a run."""


@dataclass(slots=True)
class Called:
    """A call that code makes."""

    function: Function
    error: Exception | None = None
    """What its tool raised: Agno keeps only the text."""

    def run(self, function_call: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Be the tool hook of the call: its arguments and its output are data, which no model writes or reads."""
        if iscoroutinefunction(function_call):
            return self._arun(function_call, arguments)
        token = called.set(None)
        try:
            return function_call(**arguments)
        except Exception as error:
            self.error = error
            raise
        finally:
            called.reset(token)

    async def _arun(self, function_call: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        token = called.set(None)
        try:
            return await function_call(**arguments)
        except Exception as error:
            self.error = error
            raise
        finally:
            called.reset(token)


called: ContextVar[Called | None] = ContextVar("byref_agno_called", default=None)
"""The call of code's that is under way. An agent that its tool runs makes calls of its own."""


class CodeInterpreter(Function):
    """code_interpreter, whose description in a run shows the functions that its code may call."""

    describe: Callable[[Any], str] = Field(exclude=True)
    """Returns the description for an agent or a team."""

    def process_entrypoint(self, strict: bool = False) -> None:
        """Make it ready for a run."""
        super().process_entrypoint(strict)
        self.description = self.describe(owner_of(self))


def owner_of(function: Function) -> Any:
    """Return the agent or the team that has a function in a run."""
    return function._agent or function._team


def tools_of(owner: Any, *, own: type[Toolkit], within: Function | None, is_async: bool) -> Iterator[FrameworkTool]:
    """Yield the tools of an agent or a team as code may be given them, those of `own` left out.

    `within` is the function of the call whose code calls them; None: they are only shown. Tools that a function makes anew for
    each run are not among them.
    """
    tools = getattr(owner, "tools", None)
    for tool in tools if isinstance(tools, list) else ():
        for function in () if isinstance(tool, own) else _functions(tool, is_async=is_async):
            ready = _ready(function, owner, within)
            asks = bool(
                ready.requires_confirmation
                or ready.external_execution
                or ready.requires_user_input
                or ready.approval_type is not None
            )
            call: Any = shown_only if within is None else _awaited(ready) if is_async else _waited_for(ready)
            yield FrameworkTool(ready.name, ready.description or "", ready.parameters, call, asks)


def _functions(tool: Any, *, is_async: bool) -> list[Function]:
    if isinstance(tool, Toolkit):
        return [*(tool.get_async_functions() if is_async else tool.get_functions()).values()]
    if isinstance(tool, Function):
        return [tool]
    return [Function.from_callable(tool)] if callable(tool) else []


def _ready(function: Function, owner: Any, within: Function | None) -> Function:
    """Return a function as Agno makes it ready for a run."""
    made = function.model_copy(deep=True)
    made.process_entrypoint(strict=bool(made.strict))
    hooks = getattr(owner, "tool_hooks", None)
    if hooks:
        made.tool_hooks = hooks
    if within is not None:
        for name in ("_agent", "_team", "_run_context", *_MEDIA):
            setattr(made, name, getattr(within, name))
    return made


def _waited_for(function: Function) -> Callable[[dict[str, Any]], Any]:
    def call(arguments: dict[str, Any]) -> object:
        one, asked = _asked(function, arguments)
        token = called.set(one)
        try:
            return _output(one, asked.execute())
        finally:
            called.reset(token)

    return call


def _awaited(function: Function) -> Callable[[dict[str, Any]], Any]:
    async def call(arguments: dict[str, Any]) -> object:
        one, asked = _asked(function, arguments)
        token = called.set(one)
        try:
            if not _is_async(one.function):
                return _output(one, await asyncio.to_thread(asked.execute))
            output = _output(one, await asked.aexecute())
            return "".join([str(piece) async for piece in output]) if isasyncgen(output) else output
        finally:
            called.reset(token)

    return call


def _asked(function: Function, arguments: dict[str, Any]) -> tuple[Called, FunctionCall]:
    made = function.model_copy(deep=False)
    return Called(made), FunctionCall(function=made, arguments=arguments)


def _is_async(function: Function) -> bool:
    """Whether a call has to be awaited: Agno calls the rest in a thread."""
    hooks = [*(function.tool_hooks or ()), function.pre_hook, function.post_hook]
    return isasyncgenfunction(function.entrypoint) or any(map(iscoroutinefunction, [function.entrypoint, *hooks]))


def _output(call: Called, done: FunctionExecutionResult) -> object:
    if done.status != "success":
        raise call.error or FunctionError(done.error or "it failed")
    output = done.result
    if isgenerator(output):
        return "".join(str(piece) for piece in output if not hasattr(piece, "event"))
    if isinstance(output, ToolResult):
        media = [one.get_content_bytes() for one in (*(output.images or ()), *(output.files or ()))]
        values = [*([output.content] if output.content or not media else ()), *media]
        return values[0] if len(values) == 1 else values
    return output
