"""An agent's tools as functions that code of byref's interpreter may call: through ADK's handling of calls, with its callbacks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from byref.adapters.adk.schemas import schema_of
from byref.adapters.common.extras import missing
from byref.adapters.common.functions import FrameworkTool, FunctionError, asks_first, shown_only
from byref.calling.approvals import Decision
from byref.conversation.result import Pending
from byref.functions import is_approved

try:
    from google.adk.flows.llm_flows.functions import handle_function_call_list_async
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_confirmation import ToolConfirmation
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ImportError as error:
    raise missing("byref.adapters.adk", "google-adk", "adk") from error

_NOTHING: Any = object()


@dataclass(slots=True)
class Called:
    """A call that code makes."""

    id: str
    output: object = _NOTHING
    """What its tool returned, before ADK makes a function response of it."""


_called: ContextVar[Called | None] = ContextVar("byref_adk_called", default=None)


def called(context: ToolContext) -> Called | None:
    """Return the call if code makes it: its arguments and its output are data, which no model writes or reads."""
    one = _called.get()
    return one if one is not None and one.id == context.function_call_id else None


def tools_of(tools: Iterable[BaseTool], within: ToolContext | None, *, waits: bool = False) -> Iterator[FrameworkTool]:
    """Yield tools as code may be given them; `within` is the call whose code calls them, None: they are only shown.

    With `waits` a call that needs confirmation waits for it.
    Tools that a model's provider runs, and those whose results come later, are not among them.
    """
    for tool in tools:
        if tool.is_long_running or tool._get_declaration() is None:
            continue
        call: Any = shown_only if within is None else _calling(tool, within, waits)
        yield FrameworkTool(tool.name, tool.description, schema_of(tool) or {}, call)


def _calling(tool: BaseTool, within: ToolContext, waits: bool) -> Callable[[dict[str, Any]], Any]:
    async def call(arguments: dict[str, Any]) -> object:
        approved = is_approved.get()
        if not approved and await tool.check_require_confirmation(arguments, within):
            raise asks_first(tool.name, waits=waits)
        asked = types.FunctionCall(
            id=f"{within.function_call_id}-{secrets.token_hex(4)}", name=tool.name, args=arguments
        )
        one = Called(str(asked.id))
        token = _called.set(one)
        try:
            event = await handle_function_call_list_async(
                within.get_invocation_context(),
                [asked],
                {tool.name: tool},
                tool_confirmation_dict={one.id: ToolConfirmation(confirmed=True)} if approved else None,
            )
        finally:
            _called.reset(token)
        if event is None:
            raise FunctionError("its result comes later, which code cannot wait for: call the tool itself")
        done = event.actions
        if done.requested_tool_confirmations and not approved:
            raise asks_first(tool.name, waits=waits)
        if done.requested_tool_confirmations or done.requested_auth_configs:
            raise asks_first(tool.name)
        if done.transfer_to_agent or done.escalate:
            raise FunctionError("it hands the conversation over, which a call from code cannot: call the tool itself")
        within.actions.state_delta.update(done.state_delta)
        within.actions.artifact_delta.update(done.artifact_delta)
        return _output(one, event.get_function_responses()[0])

    return call


def decisions(context: ToolContext, pending: Iterable[Pending]) -> dict[str, Decision]:
    """Return what was decided of calls, in a call of code_interpreter about which somebody was asked.

    The payload of the confirmation may have decisions by the ids of calls; the others are as it says of them all.
    """
    said = context.tool_confirmation
    if said is None:
        return {}
    given = said.payload if isinstance(said.payload, Mapping) and said.confirmed else {}
    return {
        one.id: given[one.id] if isinstance(given.get(one.id), bool | Mapping) else said.confirmed for one in pending
    }


def ask(context: ToolContext, pending: Iterable[Pending]) -> None:
    """Ask for confirmation of calls that wait."""
    calls = [{"id": one.id, "function": one.function, "arguments": one.arguments} for one in pending]
    words = ", ".join(f"{one['function']}({one['arguments']})" for one in calls)
    context.request_confirmation(hint=f"The code calls {words:.500}", payload={"calls": calls})
    context.actions.skip_summarization = True


def _output(call: Called, response: types.FunctionResponse) -> object:
    """Return what the tool returned, or what a callback put in its place."""
    answer: Any = response.response
    if isinstance(answer, dict) and answer.keys() == {"error"}:
        raise FunctionError(str(answer["error"]))
    media = [part.inline_data.data for part in response.parts or () if part.inline_data is not None]
    if isinstance(answer, dict) and answer.keys() == {"result"} and not isinstance(call.output, dict):
        answer = answer["result"]
    values = [*([answer] if answer or not media else ()), *media]
    return values[0] if len(values) == 1 else values
