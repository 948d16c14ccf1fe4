"""Results of LangChain tools: caught before LangChain writes them as text, and passed through the conversation's session."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from byref.adapters.common.conversations import Conversations, Name
from byref.adapters.common.extras import missing
from byref.content import values
from byref.conversation.result import Result, sendable
from byref.policy import Policy
from byref.session import Session
from byref_sandbox import jsontext

try:
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import ToolMessage, convert_to_messages
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt.tool_node import msg_content_output
    from langgraph.types import Command
    from pydantic import BaseModel
except ImportError as error:
    raise missing("byref.adapters.langchain", "langchain", "langchain") from error

INSTRUCTIONS: Final = "byref_instructions"
"""Key in a tool message's `additional_kwargs` for the tool's instructions, which belong into the system message."""
_OVERRIDDEN: Final = ("invoke", "ainvoke", "run", "arun", "_to_args_and_kwargs", "_parse_input")
_DATA: Final = (Mapping, list, tuple, set, frozenset, bytes, bytearray, memoryview, Iterator)
_SOUND: Final = ("audio", "video", "input_audio")
"""Types of blocks that LangChain takes for data and writes as JSON."""

_JSON: Final = re.compile(r'(\{|\[\{|\[\[)"[^"\']*"')
"""How JSON begins and no representation of Python's does: that has double quotes only around an apostrophe."""

Handled = ToolMessage | Command[Any] | list[ToolMessage | Command[Any]]


@dataclass(eq=False)
class Call:
    """One call of a host's tool."""

    conversations: Conversations
    conversation: Name
    session: Session | None
    """None if the database is away."""
    request: ToolCallRequest
    """The call as the model wrote it."""
    arguments: dict[str, Any]
    """The arguments with references resolved."""
    caught: list[Any] = field(default_factory=list)
    """The tool's last return value, if any."""

    @property
    def ready(self) -> ToolCallRequest:
        """The request to run: with resolved arguments, and with a copy of the tool that records what it returns."""
        call: Any = {**self.request.tool_call, "args": self.arguments}
        if self.request.tool is None:
            return self.request.override(tool_call=call)
        return self.request.override(tool_call=call, tool=_overheard(self.request.tool, self.caught))

    def read(self, output: Handled) -> Handled:
        """Return the tool's output with the message that answers its call as the model is to read it; the rest is unchanged.

        With `return_direct` a result is for the user: its message stays whole, and is processed when a model is about to read it.
        """
        tool = self.request.tool
        if tool is not None and tool.return_direct and getattr(output, "status", "") == "success":
            return output
        if isinstance(output, ToolMessage) and output.tool_call_id == self.request.tool_call["id"]:
            return self._read_message(output, self._raw(output))
        return [self._handled(item) for item in output] if isinstance(output, list) else self._handled(output)

    def value_of(self, message: ToolMessage) -> object:
        """Return what the tool returned, or the content of its message if a middleware changed that, or if it says the same."""
        raw = self._raw(message)
        return message.content if raw is None else raw[0]

    def refused(self, text: str) -> ToolMessage:
        """Return the answer to a call whose tool is not run."""
        call = self.request.tool_call
        return self._read_message(ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error"))

    def _handled(self, item: Any) -> Any:
        if not isinstance(item, Command):
            return self._one(item)
        update = item.update
        new = (
            {key: self._some(value) for key, value in update.items()}
            if isinstance(update, dict)
            else self._some(update)
        )
        return replace(item, update=new)

    def _some(self, value: Any) -> Any:
        if not isinstance(value, list):
            return self._one(value)
        items = [self._one(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value

    def _one(self, item: Any) -> Any:
        call_id = self.request.tool_call["id"]
        if isinstance(item, dict) and item.get("tool_call_id") == call_id and "content" in item:
            (item,) = convert_to_messages([item])
        if not isinstance(item, ToolMessage) or item.tool_call_id != call_id:
            return item
        return self._read_message(item)

    def _read_message(self, message: ToolMessage, raw: list[Any] | None = None) -> ToolMessage:
        call = self.request.tool_call
        return read_message(self.conversations, self.session, message, call["name"], call["args"], raw=raw)

    def _raw(self, message: ToolMessage) -> list[Any] | None:
        """Return the tool's return value in a list, if the message is its text and the value says more than the text; else None.

        If a middleware has changed the message, the changed message is used.
        """
        text = message.content
        if not self.caught or not isinstance(text, str):
            return None
        (raw,) = self.caught
        if self.request.tool is not None and self.request.tool.response_format == "content_and_artifact":
            raw = raw[0] if isinstance(raw, tuple) and raw else None
        if not _is_data(raw):
            return None
        sounds = isinstance(raw, list) and any(isinstance(one, dict) and one.get("type") in _SOUND for one in raw)
        if not sounds and _JSON.match(text):
            return None  # JSON says everything: comparing it would cost another dump
        try:
            is_json, same = True, json.dumps(raw, ensure_ascii=False) == text
        except values.RAISED:
            is_json, same = False, _words(raw) == text
        return [raw] if same and (sounds or not is_json) else None


def read_message(
    conversations: Conversations,
    session: Session | None,
    message: ToolMessage,
    tool: str,
    arguments: object = None,
    *,
    raw: list[Any] | None = None,
) -> ToolMessage:
    """Return a tool's message as the model is to read it; `raw` holds the tool's return value if that says more."""
    given: Any = message.content
    if isinstance(given, list):  # a bare text in a list is a block of text to LangChain
        given = [{"type": "text", "text": item} if isinstance(item, str) else item for item in given]
    result = conversations.process(
        session,
        raw[0] if raw else given,
        tool=tool,
        call_id=message.tool_call_id,
        arguments=arguments,
        is_error=message.status == "error",
    )
    beside = {key: value for key, value in message.additional_kwargs.items() if key != INSTRUCTIONS}
    if result.instructions:
        beside[INSTRUCTIONS] = result.instructions
    if raw:
        is_same = _is_as_written(conversations.policy_of(session), result, tool, raw[0], str(message.content))
        read: Any = result.content
        if isinstance(read, list):
            read = [block_of(block) for block in read]
        content = message.content if is_same else msg_content_output(read)
    else:
        is_same = result.content == given or (isinstance(given, list) and _is_json_of(result, given))
        content = message.content if is_same else result.content
    return message.model_copy(update={"content": sendable(content), "additional_kwargs": beside})


def block_of(block: Any) -> Any:
    """Convert an image or a document from MCP's form, which byref writes, to LangChain's content block."""
    match block:
        case {"data": data, "mimeType": kind, "type": "image"}:
            return {"type": "image", "base64": data, "mime_type": kind}
        case {"data": data, "mimeType": kind} | {"resource": {"blob": data, "mimeType": kind}}:
            return {"type": "file", "base64": data, "mime_type": kind}
    return block


def _overheard(tool: BaseTool, caught: list[Any]) -> BaseTool:
    """Return a copy of a tool that records what it returns; the tool itself if its class runs tools in its own way."""
    if any(not getattr(type(tool), name).__module__.startswith("langchain_core.") for name in _OVERRIDDEN):
        return tool
    run: Callable[..., Any] = tool._run
    arun: Callable[..., Any] = tool._arun

    @functools.wraps(run)
    def _run(*args: Any, **kwargs: Any) -> Any:
        caught.clear()
        returned = run(*args, **kwargs)
        caught[:] = [returned]
        return returned

    @functools.wraps(arun)
    async def _arun(*args: Any, **kwargs: Any) -> Any:
        caught.clear()
        returned = await arun(*args, **kwargs)
        caught[:] = [returned]
        return returned

    copy = tool.model_copy()
    object.__setattr__(copy, "_run", _run)  # these are no fields of the pydantic model
    object.__setattr__(copy, "_arun", _arun)
    return copy


def _words(raw: Any) -> str | None:
    try:
        return str(raw)
    except values.RAISED:  # `str` raised for this value before, too
        return None


def _is_data(raw: Any) -> bool:
    """Tell whether byref reads a value better than from its text: it is data, and has no text form of its own."""
    kind: Any = type(raw)
    if issubclass(kind, _DATA) or kind.__module__.partition(".")[0] in ("pandas", "numpy"):
        return True
    if any(callable(getattr(kind, name, None)) for name in ("to_pylist", "to_dicts")):  # pyarrow, polars
        return True
    fields = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "model_dump")
    has_fields = any(hasattr(kind, name) for name in fields)
    return has_fields and kind.__str__ in (object.__str__, BaseModel.__str__)


def _is_as_written(policy: Policy, result: Result, tool: str, raw: Any, text: str) -> bool:
    """Tell whether LangChain's text stays: the result is below the lowest limit, not reshaped, and was not an iterator."""
    shaping, floor = policy.tool(tool), policy.for_tool(tool).min_threshold_bytes
    is_shaped = shaping.mapper is not None or shaping.template is not None
    is_small = result.route == "inline" and len(text.encode("utf-8", "surrogatepass")) < floor
    return is_small and not is_shaped and not isinstance(raw, Iterator)


def _is_json_of(result: Result, blocks: list[Any]) -> bool:
    """Tell whether a result is these blocks as JSON: blocks of unknown types pass unchanged if they pass whole."""
    try:
        return result.route == "inline" and bool(jsontext.loads(result.text) == blocks)
    except ValueError:
        return False
