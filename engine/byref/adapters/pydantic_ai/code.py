"""An agent's tools as functions that code of byref's interpreter may call, through the run's tool manager."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final

from byref.adapters.common.extras import missing
from byref.adapters.common.functions import FrameworkTool, FunctionError, asks_first, shown_only
from byref.calling.approvals import Decision
from byref.conversation.result import Pending
from byref.functions import is_approved

try:
    from pydantic import ValidationError
    from pydantic_ai import (
        BinaryContent,
        DeferredToolRequests,
        ModelRetry,
        RunContext,
        ToolDefinition,
        ToolFailed,
        ToolReturn,
    )
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDenied
except ImportError as error:
    raise missing("byref.adapters.pydantic_ai", "pydantic-ai", "pydantic-ai") from error

OWN: Final = "byref"
"""Key in the metadata of byref's own tools for their names, which recognises them even if a prefix changes the names."""
SCHEMA: Final = "byref_schema"
"""Key in a tool's metadata for the original schema of its arguments, if the model is shown another."""

_called: ContextVar[str | None] = ContextVar("byref_pydantic_ai_called", default=None)
"""The id of the call that code makes. An agent that the tool runs makes calls of other ids, whose outputs its model reads."""


def is_called(call: ToolCallPart) -> bool:
    """Tell whether code made this call: its arguments and its output are data, which no model writes or reads."""
    return call.tool_call_id == _called.get()


def definitions(ctx: RunContext[Any]) -> list[ToolDefinition]:
    """Return the tools of the run's step."""
    return [] if ctx.tool_manager is None or ctx.tool_manager.tools is None else ctx.tool_manager.tool_defs


def tools_of(tool_defs: Iterable[ToolDefinition], ctx: RunContext[Any] | None) -> Iterator[FrameworkTool]:
    """Yield the agent's function tools as code may be given them; without `ctx` they are only shown."""
    for tool_def in tool_defs:
        metadata = tool_def.metadata or {}
        if OWN not in metadata and tool_def.kind in ("function", "unapproved"):
            schema = metadata.get(SCHEMA, tool_def.parameters_json_schema)
            call = shown_only if ctx is None else _calling(ctx, tool_def.name)
            yield FrameworkTool(tool_def.name, tool_def.description or "", schema, call)


def _calling(ctx: RunContext[Any], name: str) -> Any:
    async def call(arguments: dict[str, Any]) -> object:
        assert ctx.tool_manager is not None
        id_ = f"{ctx.tool_call_id}-{secrets.token_hex(4)}"
        token = _called.set(id_)
        try:
            result = await ctx.tool_manager.handle_call(
                ToolCallPart(name, arguments, id_), approved=is_approved.get(), wrap_validation_errors=False
            )
        except ApprovalRequired:
            raise asks_first(name, waits=_can_wait(ctx)) from None
        except CallDeferred:
            raise asks_first(name) from None
        except (ModelRetry, ToolFailed) as error:
            raise FunctionError(error.message) from None
        except ValidationError as error:
            raise ValueError(str(error)) from None
        finally:
            _called.reset(token)
        if isinstance(result, ToolDenied):
            raise PermissionError(result.message)
        return _plain(result.return_value if isinstance(result, ToolReturn) else result)

    return call


def _can_wait(ctx: RunContext[Any]) -> bool:
    """Tell whether the run may end with calls that wait for approval."""
    output_type: Any = getattr(ctx.agent, "output_type", None)
    types = output_type if isinstance(output_type, list | tuple) else [output_type]
    return DeferredToolRequests in types


def decisions(ctx: RunContext[Any], pending: Iterable[Pending]) -> dict[str, Decision]:
    """Return what was decided of calls in a run that goes on with an approved call of code_interpreter.

    The call's metadata in `DeferredToolResults` may have decisions by their ids; without one a call is approved.
    """
    given = ctx.tool_call_metadata if isinstance(ctx.tool_call_metadata, Mapping) else {}
    return {one.id: given.get(one.id, True) for one in pending}


def asking(pending: Iterable[Pending]) -> ApprovalRequired:
    """Return the exception that asks for approval of calls."""
    calls = [{"id": one.id, "function": one.function, "arguments": one.arguments} for one in pending]
    return ApprovalRequired(metadata={"calls": calls})


def _plain(value: Any) -> Any:
    if isinstance(value, BinaryContent):
        return value.data
    if isinstance(value, list | tuple) and any(isinstance(one, BinaryContent) for one in value):
        return [_plain(one) for one in value]
    return value
