"""An agent's tools as functions that code of byref's interpreter may call: through the SDK's tool objects, guardrails and spans."""

from __future__ import annotations

import copy
import functools
import inspect
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from byref.adapters.common.extras import missing
from byref.adapters.common.functions import CodeFunctions, FrameworkTool, FunctionError, asks_first, dumped, shown_only
from byref.adapters.openai_agents.calls import asks, overhearing
from byref.adapters.openai_agents.results import as_output
from byref.functions import Function, is_approved

try:
    from agents import (
        FunctionTool,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrailData,
        ToolOutputGuardrailData,
        function_span,
    )
    from agents.tool import invoke_function_tool
    from agents.tool_context import ToolContext
except ImportError as error:
    raise missing("byref.adapters.openai_agents", "openai-agents", "openai-agents") from error


def shown(chosen: CodeFunctions, tools: Iterable[FunctionTool]) -> tuple[Function, ...]:
    """Return the functions as the model is shown them; they are not for calling."""
    return chosen.of([_of(tool, shown_only) for tool in tools])


def functions_of(
    chosen: CodeFunctions, tools: Iterable[FunctionTool], context: ToolContext[Any], *, waits: bool = False
) -> tuple[Function, ...]:
    """Return the functions for one call of code_interpreter, whose context `context` is.

    With `waits` a call that needs approval waits for it; else it is refused.
    """

    def made(tool: FunctionTool) -> FrameworkTool:
        async def call(arguments: dict[str, Any]) -> object:
            return await _called(tool, context, dumped(arguments), waits=waits)

        return _of(tool, call)

    return chosen.of(map(made, tools))


def _of(tool: FunctionTool, call: Callable[[dict[str, Any]], Any]) -> FrameworkTool:
    schema = tool.params_json_schema
    if tool.strict_json_schema and isinstance(properties := schema.get("properties"), dict):
        # A strict schema requires arguments that have a default, too: the SDK fills them in. It leaves out a default that is null.
        required = [name for name in schema.get("required", ()) if not _has_default(properties.get(name, {}))]
        schema = {**schema, "required": required}
    return FrameworkTool(tool.name, tool.description, schema, call, returns=tool.output_json_schema)


def _has_default(schema: dict[str, Any]) -> bool:
    return "default" in schema or {"type": "null"} in schema.get("anyOf", ())


async def _called(tool: FunctionTool, outer: ToolContext[Any], written: str, *, waits: bool) -> object:
    """Call a tool as the SDK's runner does: if it is enabled and needs no approval, or has it, between its guardrails, in a span."""
    context = copy.copy(outer)
    context.tool_name, context.tool_arguments = tool.name, written
    context.tool_call_id = f"{outer.tool_call_id}-{secrets.token_hex(4)}"
    context.tool_call = None
    agent: Any = context.agent
    enabled = tool.is_enabled(context, agent) if callable(tool.is_enabled) else tool.is_enabled
    if not (await enabled if inspect.isawaitable(enabled) else enabled):
        raise PermissionError(f"the tool {tool.name!r} is not enabled now")
    if not is_approved.get() and await asks(tool, context, written, context.tool_call_id):
        raise asks_first(tool.name, waits=waits)
    is_recorded = context.run_config is None or context.run_config.trace_include_sensitive_data
    with function_span(tool.name, input=written if is_recorded else None) as span:
        for before in tool.tool_input_guardrails or ():
            _check(await before.run(ToolInputGuardrailData(context=context, agent=agent)))
        failures: list[Exception] = []
        with overhearing([]) as overheard:
            output = await invoke_function_tool(
                function_tool=_telling(tool, failures), context=context, arguments=written
            )
        for after in tool.tool_output_guardrails or ():
            _check(await after.run(ToolOutputGuardrailData(context=context, agent=agent, output=output)))
        if is_recorded:
            span.span_data.output = output
    if failures and not overheard:
        raise FunctionError(str(output))  # the text that the model would read: the host has not allowed more
    return overheard[-1] if overheard else as_output(output)


def _telling(tool: FunctionTool, failures: list[Exception]) -> FunctionTool:
    """Return a tool whose timeout is an exception, and which lists what it raised although the SDK makes a text of it."""
    made = copy.copy(tool)
    made.timeout_behavior = "raise_exception"
    work = getattr(tool.on_invoke_tool, "_invoke_tool_impl", None)
    if work is not None:

        @functools.wraps(work)
        async def noting(context: ToolContext[Any], arguments: str) -> Any:
            try:
                return await work(context, arguments)
            except Exception as error:
                failures.append(error)
                raise

        invoke: Any = copy.copy(tool.on_invoke_tool)
        invoke._invoke_tool_impl = noting
        made.on_invoke_tool = invoke
    return made


def _check(judged: ToolGuardrailFunctionOutput) -> None:
    match judged.behavior:
        case {"type": "reject_content", "message": message}:
            raise FunctionError(message)
        case {"type": "raise_exception"}:
            raise FunctionError("a guardrail of the agent's has stopped this call")
