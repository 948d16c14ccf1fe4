"""A framework's own tools as functions that code may call: chosen by patterns, called through the framework, read as data."""

from __future__ import annotations

import asyncio
import inspect
import json
import keyword
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, Final
from uuid import UUID

import msgspec

from byref.calling import threads
from byref.content import Media, formats, to_block
from byref.errors import ConfigurationError, one_line, shown
from byref.functions import (
    MAX_DESCRIPTION_CHARS,
    MAX_FUNCTIONS,
    Function,
    NeedsApproval,
    check_name,
    is_approved,
)
from byref.session import Session
from byref_sandbox.values.fields import as_written

logger = logging.getLogger("byref")

MAX_NAME_CHARS: Final = 64
ASKS_FIRST: Final = "Needs approval: call the tool itself, not from code."
"""How the description of a function begins that code cannot call, because the framework asks somebody before each call."""
_KEPT: Final = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)


class FunctionError(Exception):
    """The error that a tool gave in place of a result. Code gets its text as a `FunctionError` of its own."""


@dataclass(frozen=True, slots=True)
class FrameworkTool:
    """A tool of a framework's that code may be given.

    `call` is called with the arguments, in a thread, or awaited on the run's event loop if it is a coroutine function. It goes
    through the framework, whose hooks and traces see it. It returns what the tool gave, which `as_data` reads.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    """The JSON Schema of the arguments."""
    call: Callable[[dict[str, Any]], Any]
    asks: bool = False
    """Whether the framework asks somebody before each call."""
    waits: bool = False
    """Whether a call about which the framework asks can wait for the answer. Else code cannot call such a tool; the model can."""
    returns: Mapping[str, Any] | None = None
    also: tuple[str, ...] = ()
    """Further names by which patterns know it."""
    read: Callable[[Any], object] | None = None
    """Reads what `call` returns, on a thread; None: `as_data`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the `Function`."""


class CodeFunctions:
    """The patterns of an adapter's `code_functions=`, as `fnmatch` reads them. Thread-safe.

    Raises:
        ConfigurationError: the patterns are no list of texts.
    """

    def __init__(self, patterns: Sequence[str] = (), *, argument: str = "code_functions") -> None:
        if isinstance(patterns, str | bytes) or not isinstance(patterns, Iterable):
            raise ConfigurationError(f'{argument}={shown(patterns)}: expected a list of patterns, such as ["search_*"]')
        self._patterns = tuple(patterns)
        for one in self._patterns:
            if not isinstance(one, str) or not one:
                raise ConfigurationError(f'{argument}: {shown(one)}: expected the pattern of names, such as "search_*"')
        self._argument = argument
        self._told: set[str] = set()
        self._names: set[str] = set()
        """Those of all functions so far."""

    def __bool__(self) -> bool:
        """Whether any tool may be chosen."""
        return bool(self._patterns)

    def has(self, name: str) -> bool:
        """Tell whether a tool of this name is chosen."""
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def of(self, tools: Iterable[FrameworkTool]) -> tuple[Function, ...]:
        """Return functions of the tools that are chosen, in their order.

        A pattern that matches none of the tools, and a tool that cannot be a function, is told once in the log.
        """
        if not self._patterns:
            return ()
        given = list(tools)
        for pattern in self._patterns:
            if not any(fnmatchcase(name, pattern) for tool in given for name in (tool.name, *tool.also)):
                self._tell(pattern, f"{self._argument}: the pattern {pattern!r} matches none of the tools")
        made: dict[str, Function] = {}
        for tool in given:
            if not any(map(self.has, (tool.name, *tool.also))):
                continue
            name = python_name(tool.name)
            if name in made:
                self._tell(
                    f"{tool.name} twice", f"the tool {tool.name!r} is no function: another has the name {name!r}"
                )
            elif len(made) == MAX_FUNCTIONS:
                self._tell(
                    "too many", f"{self._argument}: more than {MAX_FUNCTIONS:,} tools match; the others are left out"
                )
            else:
                try:
                    made[name] = _function(name, tool)
                except Exception as error:  # noqa: BLE001  a strange schema of somebody else's
                    self._tell(f"{tool.name} none", f"the tool {tool.name!r} is no function of code: {one_line(error)}")
        self._names.update(made)
        return tuple(made.values())

    def apart(self, session: Session, *tool: str) -> Session:
        """Return the session for an output of a tool: its variables get no name that code reads as a function.

        `tool` are the names by which patterns know the tool. Its own function counts even if none has been made yet, as in a process
        that goes on with another's run.
        """
        if any(map(self.has, tool)):
            self._names.add(python_name(tool[0]))
        return Session(replace(session._scope, elsewhere=self._names)) if self._names else session

    def _tell(self, key: str, text: str) -> None:
        if key not in self._told:
            self._told.add(key)
            logger.warning("%s", text)


def session_with(
    session: Session, functions: Sequence[Function], loop: asyncio.AbstractEventLoop | None = None
) -> Session:
    """Return the session with further functions for its code; one that it has already stays. Coroutines run on `loop`."""
    scope = session._scope
    there = {one.name for one in scope.functions}
    added = [one for one in functions if one.name not in there]
    return Session(replace(scope, functions=(*scope.functions, *added), loop=loop or scope.loop))


def python_name(name: str) -> str:
    """Return the name by which code calls a tool: a Python identifier. What Python has a meaning for gets `_tool` behind it."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", name).strip("_") or "tool"
    if made[0].isdigit():
        made = f"tool_{made}"
    made = made[:MAX_NAME_CHARS]
    try:
        check_name(made)
    except ConfigurationError:
        if made.isidentifier() and not keyword.iskeyword(f"{made}_tool"):
            return f"{made[: MAX_NAME_CHARS - 5]}_tool"
    return made


def as_data(output: object) -> object:
    """Return a tool's output as code gets it.

    A value stays as it is, but objects in it (pydantic's, dataclasses) become dicts. Text that is a JSON object or array becomes that value, and other text stays text. Of content blocks
    the only one is read so, of several each; images and documents become their bytes. Texts beside MCP's structured content are left
    out.

    Raises:
        FunctionError: the output says that it is an error.
    """
    found = formats.read(output)
    if found is None:
        return _of_text(output) if isinstance(output, str) else _plain(output)
    pieces, is_error = found
    if is_error:
        raise FunctionError(
            "\n".join(piece.block.text for piece in pieces if piece.block and not isinstance(piece.block, Media))
        )
    values = [_of_piece(piece) for piece in pieces]
    if len(values) > 1 and not any(isinstance(piece.block, Media) for piece in pieces):
        structured = _structured(output)
        values = values if structured is None else [structured]
    return values[0] if len(values) == 1 else values


def _structured(output: object) -> object:
    """Return MCP's structured content of a tool result; None if it has none."""
    if isinstance(output, Mapping):
        return output.get("structuredContent")
    return getattr(output, "structured_content", getattr(output, "structuredContent", None))


def _of_piece(piece: formats.Piece) -> object:
    block = piece.block
    if block is None:
        return dict(piece.original or {})
    if isinstance(block, Media):
        return block.data
    kind, value = block.parsed
    return value if kind == "json" else block.value if block.from_value else block.text


def _of_text(text: str) -> object:
    kind, value = to_block(text).parsed
    return value if kind == "json" else text


def _plain(value: object) -> object:
    try:
        return msgspec.to_builtins(as_written(value), builtin_types=_KEPT, enc_hook=_members)
    except (TypeError, ValueError, RecursionError):
        return value  # a DataFrame, say, or what the engine says is no data


def _members(value: Any) -> object:
    if callable(getattr(type(value), "model_dump", None)):
        return value.model_dump()
    raise TypeError


def _function(name: str, tool: FrameworkTool) -> Function:
    schema: Mapping[str, Any] = tool.schema if isinstance(tool.schema, Mapping) else {}
    if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), Mapping):
        schema = {"type": "object", "additionalProperties": True}
    if "properties" not in schema:
        schema = {"additionalProperties": True, **schema}
    description = tool.description or ""
    if tool.asks and not tool.waits:
        description = f"{ASKS_FIRST}\n\n{description}"
    made = _awaited(tool) if inspect.iscoroutinefunction(tool.call) else _called(tool)
    function = Function(name, made, schema, tool.returns, description[:MAX_DESCRIPTION_CHARS], **tool.options)
    _ = function.stub, function.summary  # a schema of which none can be made is found out here
    return function


def _awaited(tool: FrameworkTool) -> Callable[..., Awaitable[Any]]:
    async def awaited(**arguments: Any) -> object:
        _ask(tool)
        output = await tool.call(arguments)
        if output is None or isinstance(output, bool | int | float):
            return output
        return await asyncio.get_running_loop().run_in_executor(threads.results(), tool.read or as_data, output)

    return awaited


def _called(tool: FrameworkTool) -> Callable[..., Any]:
    def called(**arguments: Any) -> object:
        _ask(tool)
        return (tool.read or as_data)(tool.call(arguments))

    return called


def _ask(tool: FrameworkTool) -> None:
    if tool.asks and not is_approved.get():
        raise asks_first(tool.name, waits=tool.waits)


def asks_first(name: str, *, waits: bool = False) -> PermissionError:
    """Return the error for a call about which the framework would ask somebody: it waits, or code reads that it cannot call it."""
    if waits:
        return NeedsApproval(f"the tool {name!r} needs approval")
    return PermissionError(f"the tool {name!r} needs approval, which code cannot get: call the tool itself")


def shown_only(arguments: dict[str, Any]) -> object:
    """Be the `call` of a tool whose function is only shown to the model."""
    raise FunctionError("this function is not there now")


def dumped(arguments: Mapping[str, Any]) -> str:
    """Return arguments as the JSON text that frameworks hand to their tools."""
    return json.dumps(arguments, ensure_ascii=False)
