"""Google ADK: a plugin that keeps the big outputs of tools by reference, and an artifact service."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from byref.adapters.arguments import resolved
from byref.adapters.extras import missing
from byref.engine import Engine
from byref.errors import StorageFailure, ToolError
from byref.outputs import forms, media, to_block
from byref.outputs.media import Media
from byref.policy import Policy
from byref.result import Result, ToolReply, sendable
from byref.session import Session

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types

    from byref.adapters.adk_artifacts import ByrefArtifactService, Tenant, session_name, tenant_name
except ImportError as error:
    raise missing("byref.adapters.adk", "google-adk", "adk") from error

__all__ = ["ByrefArtifactService", "ByrefPlugin", "session_name"]

_MAX_DEPTH = 2
"""In which parts with bytes are looked for in a result: ADK itself looks no deeper."""
_STRUCTURED = ("inline", "variables", "artifact")
"""Routes on which what the model reads of data is data."""

logger = logging.getLogger("byref")


class Read(dict[str, Any]):
    """A function response that the model reads as it is: a reply of byref's, or what stands for a tool's result."""


class ByrefPlugin(BasePlugin):
    """byref for every agent of an app: `App(…, plugins=[ByrefPlugin(engine)])`.

    Arguments of tools are resolved before they run; the model reads what `Session.process` makes of what they return;
    agents that have tools have byref's own beside them; the usage of each answer is recorded. The conversation is
    `session_name(app, user, session)` of ADK's session, or `session`. `tenant` may be a function of the app's name and the
    user's id. `policy` and `model` are those of `Engine.session`; without `model` it is the agent's. With `answer_errors`
    an exception of a tool is its error reply; else ADK raises it.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        session: str | None = None,
        tenant: Tenant = "default",
        policy: Policy | None = None,
        model: str | None = None,
        answer_errors: bool = True,
        name: str = "byref",
    ) -> None:
        super().__init__(name)
        self._engine, self._session, self._tenant = engine, session, tenant
        self._policy, self._model, self._answer_errors = policy, model, answer_errors
        self._told: dict[str, list[str]] = {}
        self._wrote: WeakKeyDictionary[ToolContext, dict[str, Any]] = WeakKeyDictionary()
        (declared,) = engine.tools("gemini", policy=policy)
        self._tools = [_Tool(self, one) for one in declared["function_declarations"]]

    def conversation(self, context: CallbackContext) -> Session:
        """Return byref's session of a call or an answer; it reads the database, so not on an event loop."""
        of, agent = context.session, context.get_invocation_context().agent
        model = getattr(agent, "model", None)
        return self._engine.session(
            self._session or session_name(of.app_name, of.user_id, of.id),
            tenant=tenant_name(self._tenant, of.app_name, of.user_id),
            policy=self._policy,
            model=self._model or (model if isinstance(model, str) else getattr(model, "model", None)) or None,
        )

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Offer byref's tools to an agent that has some, and say what tools that may instruct the model have said."""
        if llm_request.tools_dict:
            llm_request.append_tools([tool for tool in self._tools if tool.name not in llm_request.tools_dict])
        if told := self._told.get(callback_context.invocation_id):
            llm_request.append_instructions(list(told))

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Record the usage of one answer; where the database is away the run goes on."""
        if llm_response.partial or llm_response.usage_metadata is None:
            return

        def work() -> None:
            self.conversation(callback_context).record_usage(llm_response.usage_metadata)

        try:
            await asyncio.to_thread(work)
        except StorageFailure:
            logger.warning("byref could not record the usage of a run", exc_info=True)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Replace references in the arguments, in place; a mistake in one answers the call."""
        if isinstance(tool, _Tool) or type(tool) is BaseTool:  # ADK's for a name that no tool has
            return None

        def work() -> dict[str, Any] | None:
            session, call_id = self.conversation(tool_context), tool_context.function_call_id
            try:
                found = resolved(session, tool_args, _schema(tool), tool=tool.name, call_id=call_id)
            except ToolError as error:
                told = str(error)
                return self._read(tool, tool_args, tool_context, told, is_error=True) or Read(error=sendable(told))
            if isinstance(found, dict) and found != tool_args:
                self._wrote[tool_context] = dict(tool_args)
                tool_args.clear()
                tool_args.update(found)
            return None

        return await asyncio.to_thread(work)

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """Put in place of a big result what the model is to read; one that passes whole is left alone."""
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
        return await asyncio.to_thread(self._read, tool, tool_args, tool_context, error, True)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Forget the run's instructions."""
        self._told.pop(invocation_context.invocation_id, None)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """Forget the run's instructions."""
        self._told.pop(invocation_context.invocation_id, None)

    def _read(
        self, tool: BaseTool, arguments: dict[str, Any], context: ToolContext, value: object, is_error: bool
    ) -> Read | None:
        """What the model reads of a result; None where it is the very result."""
        parts: list[types.Part] = []
        data = _without_media(value, parts, 0)
        blocks = [] if data is _NOTHING else [data]
        given = (
            [*({"type": "text", "text": to_block(one).text} for one in blocks), *map(_block, parts)] if parts else data
        )
        arguments = self._wrote.get(context, arguments)
        result = self.conversation(context).process(
            given, tool=tool.name, call_id=context.function_call_id, arguments=arguments, is_error=is_error
        )
        if result.instructions:
            self._told.setdefault(context.invocation_id, []).append(result.instructions)
        if isinstance(value, Exception):
            return Read(error=sendable(result.text))
        if result.route in ("inline", "wholesale") and not parts and _is_same(value, result.content):
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
        def work() -> Read:
            session = self._plugin.conversation(tool_context)
            return _response(session.call(self.name, args, call_id=tool_context.function_call_id), [])

        return await asyncio.to_thread(work)


_NOTHING: Any = object()


def _without_media(value: Any, parts: list[types.Part], depth: int) -> Any:
    """A result without its parts with bytes, which are appended to `parts`; what has none is the very object."""
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
    return forms.write(media.of(blob.mime_type, blob.data or b"", blob.display_name))


def _response(read: Result | ToolReply, parts: list[types.Part]) -> Read:
    """A function response of what the model reads: ADK takes the parts out, and sends them beside it."""
    content = sendable(read.content)
    if isinstance(content, str):
        if read.is_error:
            return Read(error=content)
        said = _says(content) if isinstance(read, Result) and read.route in _STRUCTURED else content
        return Read(said) if isinstance(said, dict) else Read(result=said)
    same = {part.inline_data.data: part for part in parts if part.inline_data is not None}
    texts: list[str] = []
    shown: list[types.Part] = []
    for item in content:
        block = forms.one(item).block
        if isinstance(block, Media):
            shown.append(same.get(block.data) or types.Part.from_bytes(data=block.data, mime_type=block.content_type))
        else:
            texts.append(to_block(item).text if block is None else block.text)
    return Read({"error" if read.is_error else "result": "\n\n".join(texts), "files": shown})


def _is_same(value: Any, content: object) -> bool:
    """Whether what the model reads says just what a tool returned; values are compared by code of their own."""
    try:
        return bool(value == (content if isinstance(value, str) else _says(content)))
    except Exception:  # noqa: BLE001  a DataFrame, say
        return False


def _says(content: object) -> object:
    """What a text says as JSON; itself if it is none."""
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except ValueError:
        return content


def _schema(tool: BaseTool) -> Mapping[str, Any] | None:
    declaration = tool._get_declaration()
    if declaration is None:
        return None
    if declaration.parameters_json_schema is not None:
        schema: Mapping[str, Any] = declaration.parameters_json_schema
        return schema
    if declaration.parameters is None:
        return None
    return declaration.parameters.json_schema.model_dump(mode="json", exclude_none=True)
