"""Arguments as models write them: JSON text or an object. They are checked, and coerced where their meaning is plain."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from byref.errors import ToolError, shown
from byref.references.arguments import as_object, decoded
from byref.references.coercion import as_boolean, as_integer, as_span, as_text
from byref.tools.record import Arguments, Tool

_WRAPPERS = {"arguments", "args", "input", "parameters", "params", "kwargs", "toolinput", "properties"}
"""Keys under which models and frameworks nest all arguments."""
_BESIDE = {"name", "tool", "toolname", "function", "functionname"}
"""Keys beside such a wrapper that contain the tool's name."""
_LAYERS = 3
_SHOWN_CHARS = 80


def parse(tool: Tool, arguments: object) -> Arguments:
    """Return a tool's checked arguments. The ToolError names the mistake and what is expected, and gives an example."""
    fields = _fields(tool.arguments)
    required = [field.name for field in fields.values() if field.required]
    bare = required[0] if len(required) == 1 else None
    given = _named(tool, _unwrapped(tool, as_object(arguments, bare)))
    if tool.rewrite is not None:
        given = tool.rewrite(given)
    coerced: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            near = difflib.get_close_matches(name[:100], fields, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ToolError(f"{tool.name} has no argument {name[:100]!r}{hint}{_takes(tool)}")
        coerced[name] = _coerced(tool, fields[name], value)
    for name in required:
        if name not in coerced:
            raise ToolError(f"{tool.name}: missing argument {name!r}.{_takes(tool)}")
    return msgspec.convert(coerced, tool.arguments)


@cache
def _fields(arguments: type[Arguments]) -> Mapping[str, inspect.Field]:
    """Return the arguments by name. The result is cached, because reading the type takes longer than everything else here."""
    about = inspect.type_info(arguments)
    assert isinstance(about, inspect.StructType)
    return {field.name: field for field in about.fields}


def _takes(tool: Tool) -> str:
    example = json.dumps(dict(tool.example), ensure_ascii=False)
    return f" It takes: {', '.join(tool.arguments.__struct_fields__)}. Example: {example}"


def _plain(name: str) -> str:
    """Return a name in the form in which names are compared: `startLine`, `start-line` and `start_line` are the same."""
    return re.sub(r"[^a-z0-9]", "", name[:100].lower())


def _unwrapped(tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    """Unwrap nested arguments: `{"arguments": {…}}`, `{"name": "artifact_read", "input": {…}}`."""
    for _ in range(_LAYERS):
        wrappers = [key for key in given if _plain(key) in _WRAPPERS or key == tool.name]
        if len(wrappers) != 1:
            break
        beside = [key for key in given if key != wrappers[0] and given[key] is not None]
        if not all((_plain(key) in _BESIDE and given[key] == tool.name) or key == "type" for key in beside):
            break
        inner = given[wrappers[0]]
        if isinstance(inner, str) and inner.lstrip()[:1] == "{":
            try:
                inner = decoded(inner, None)
            except ToolError:
                break
        if not isinstance(inner, Mapping):
            break
        given = {key if isinstance(key, str) else shown(key): value for key, value in inner.items()}
    return given


def _named(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the tool's own names for them, without those that are null."""
    names = _names(tool.arguments, tuple(tool.spellings.items()))
    named: dict[str, Any] = {}
    written: dict[str, str] = {}
    for key, value in given.items():
        if value is None:
            continue
        name = names.get(_plain(key), key)
        if name in named and not _same(named[name], value):
            raise ToolError(
                f"{tool.name}: {written[name][:100]!r} and {key[:100]!r} both mean {name!r}: give one.{_takes(tool)}"
            )
        named[name], written[name] = value, key
    return named


@cache
def _names(arguments: type[Arguments], spellings: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return the arguments' names by their plain forms. The result is cached, because a tool has dozens of spellings."""
    names = {_plain(name): field for name, field in spellings}
    return names | {_plain(name): name for name in arguments.__struct_fields__}


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and isinstance(one, str | int | float) and one == other


def _coerced(tool: Tool, field: inspect.Field, value: Any) -> Any:
    """Return a value as the argument's type has it; the ToolError says what was expected."""
    kind, least, most = _kind(field.type)
    coerce = tool.coerce.get(field.name)
    if coerce is not None:
        value = coerce(value)
    if kind is inspect.AnyType:
        return value
    if kind is inspect.StrType:
        value = as_text(value)
        right, expected = isinstance(value, str), "text"
    elif kind is inspect.BoolType:
        value = as_boolean(value)
        right, expected = isinstance(value, bool), "true or false"
    elif kind is inspect.IntType:
        value = as_integer(value)
        right = isinstance(value, int) and not isinstance(value, bool)
        right = right and (least is None or value >= least) and (most is None or value <= most)
        expected = "a whole number" + _bounds(least, most)
    else:
        value = as_span(value)
        right = isinstance(value, dict) and value.keys() <= {"start", "end", "column"}
        right = right and all(isinstance(end, int) and not isinstance(end, bool) for end in value.values())
        expected = 'lines as {"start": 10, "end": 20}'
    if not right:
        raise ToolError(f"{tool.name}: {field.name}={_shown(value)}: expected {expected}.{_takes(tool)}")
    return value


def _kind(kind: inspect.Type) -> tuple[type[inspect.Type], int | None, int | None]:
    """Return a type without `| None` and notes, and its bounds."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        return _kind(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
    if isinstance(kind, inspect.IntType):
        return inspect.IntType, kind.ge, kind.le
    return type(kind), None, None


def _bounds(least: int | None, most: int | None) -> str:
    if least is None:
        return ""
    return f" of at least {least}" if most is None else f" from {least} to {most}"


def _shown(value: object) -> str:
    """Return any value in a form that is short enough for an error."""
    try:
        text = repr(value[: _SHOWN_CHARS + 1] if isinstance(value, str) else value)
    except Exception:  # noqa: BLE001 - a host's own object, an integer of thousands of digits
        text = f"[{type(value).__name__}]"
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
