"""Spans and metrics of a session's work: one function for each kind of work."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from time import perf_counter
from typing import Any

from byref.accounting import ledger
from byref.accounting import telemetry as names
from byref.conversation.result import Result, ToolReply
from byref.conversation.scope import Scope
from byref.usage import Usage
from byref_sandbox import Outcome
from byref_sandbox.outcome import CRASH, FOREIGN_STATE, SUSPENDED

_OTHER = "_OTHER"
"""Stands for names that a model may have written, of tools and of classes of exceptions: they may be content, and metrics need few
different ones."""
_EXCEPTIONS = {
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
}
_KINDS = _EXCEPTIONS.union(
    ("TimeLimit", "CpuLimit", "MemoryLimit", "OutputLimit", "NotAllowed", "JqError", "SqlError", "Busy"),
    (CRASH, SUSPENDED, FOREIGN_STATE),
)
"""The kinds of failures of a run that are named in spans."""


def process(scope: Scope, tool: str, call_id: str | None, arguments: object, work: Callable[[], Result]) -> Result:
    """Take in a tool's output, as a span and in the metrics of outputs."""
    telemetry = scope.telemetry
    began = perf_counter()
    with telemetry.span("byref.process", _whose(scope) | {names.TOOL: tool, names.CALL_ID: call_id}) as span:
        span.content(names.ARGUMENTS, None if arguments is None else ledger.cut_arguments(arguments))
        result = work()
        span.note(
            {
                names.ROUTE: result.route,
                names.REASON: result.reason,
                names.STEP: result.step,
                names.TOKENS: result.tokens,
                names.ORIGINAL_TOKENS: result.original_tokens,
                names.ARTIFACTS: [artifact.id for artifact in result.artifacts] or None,
            }
        )
        span.content(names.RESULT, result.text)
        if result.is_error:
            span.fail("tool_error")
    kind = {names.TOOL: tool[: names.NAME_CHARS], names.ROUTE: result.route}
    telemetry.duration(names.PROCESS_DURATION, perf_counter() - began, kind)
    if not result.replayed:
        telemetry.add(names.OUTPUT_ORIGINAL_TOKENS, result.original_tokens, kind)
        telemetry.add(names.OUTPUT_TOKENS_READ, result.tokens, kind)
    return result


def call(
    scope: Scope, name: object, call_id: str | None, arguments: object, work: Callable[[], ToolReply]
) -> ToolReply:
    """Answer a call of one of the session's tools, as a span and in the metric of their durations."""
    telemetry = scope.telemetry
    known = name if isinstance(name, str) and name in scope.tools else _OTHER
    kind: dict[str, Any] = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL: known, names.TOOL_TYPE: "function"}
    began = perf_counter()
    with telemetry.span(f"{names.EXECUTE_TOOL} {known}", _whose(scope) | kind | {names.CALL_ID: call_id}) as span:
        span.content(names.ARGUMENTS, None if arguments is None else ledger.cut_arguments(arguments))
        reply = work()
        span.note({names.STEP: reply.step, names.TOKENS: reply.tokens})
        span.content(names.RESULT, reply.text)
        if reply.is_error:
            span.fail("tool_error")
    failed = {names.ERROR: "tool_error"} if reply.is_error else {}
    telemetry.duration(names.TOOL_DURATION, perf_counter() - began, kind | failed)
    return reply


def run(scope: Scope, language: str, code: str, work: Callable[[], Outcome]) -> Outcome:
    """Run model-written code, as a span."""
    with scope.telemetry.span("byref.run", _whose(scope) | {names.LANGUAGE: language}) as span:
        span.content(names.CODE, code)
        outcome = work()
        used = outcome.usage
        span.note({names.WALL_MS: used.wall_ms, names.CPU_MS: used.cpu_ms, names.PEAK_BYTES: used.peak_bytes})
        if outcome.error is not None:
            span.fail(outcome.error.kind if outcome.error.kind in _KINDS else _OTHER)
    return outcome


def usage(scope: Scope, used: Usage) -> None:
    """Count the tokens of a model's request."""
    tokens = {
        names.INPUT_TOKENS: used.input_tokens,
        names.OUTPUT_TOKENS: used.output_tokens,
        names.CACHE_READ_TOKENS: used.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: used.cache_write_tokens,
    }
    model = used.model
    provider = None if model is None else names.PROVIDERS.get(found := scope.models.provider(model) or "", found)
    whose = {names.PROVIDER: provider or "unknown", names.REQUEST_MODEL: scope.model, names.RESPONSE_MODEL: model}
    scope.telemetry.usage(tokens, whose)


def _whose(scope: Scope) -> dict[str, Any]:
    return {names.CONVERSATION: scope.name, names.TENANT: scope.tenant}
