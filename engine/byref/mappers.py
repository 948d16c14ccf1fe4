"""Mappers and templates: what a host says a tool's output should look like before anything else reads it.

A jq program runs in the sandbox's killable worker, exact or not at all; a callable is the host's own code; a template is
rendered in this process, within bounds. Whatever goes wrong is one exception, so that the output can go on as it was.
"""

from __future__ import annotations

import copy
import marshal
from collections.abc import Callable
from types import CoroutineType
from typing import Any

from byref.knobs import MissingMapper, collected
from byref.plain import one_line
from byref.policy import ToolPolicy
from byref.scope import Scope
from byref_sandbox import Limits, SandboxUnavailable, jsontext, plainjq

MAX_BYTES = 64 << 20
"""Of what a jq program or a template gives."""


class MapperFailed(Exception):
    """The mapper or template of a tool gave nothing; its text says why, in one line without the data."""


def apply(scope: Scope, tool: ToolPolicy, value: object) -> object:
    """Return a tool's output as its mapper, and then its template, make it; of what they raise, only KeyboardInterrupt passes.

    `value` is the parsed JSON of a structured output, the text of any other, and is not changed. One output of a jq
    program is itself, none or several are a list; a template gives a str, a callable whatever it returns.

    Raises:
        MapperFailed: the program, callable or template has an error, takes too long or gives too much.
    """
    mapper = tool.mapper
    if isinstance(mapper, str):
        value = _by_jq(scope, tool, mapper, value)
    elif isinstance(mapper, MissingMapper):
        raise MapperFailed(
            f"the mapper {mapper.name!r} of tool {mapper.tool!r} is a Python callable and is not kept with the session: "
            "give policy= again"
        )
    elif mapper is not None:
        value = _by_callable(mapper, value)
    return value if tool.template is None else _by_template(scope, tool, tool.template, value)


def _by_jq(scope: Scope, tool: ToolPolicy, program: str, value: object) -> object:
    if isinstance(value, str):
        raise MapperFailed("mapper: a jq program needs JSON, and the output is plaintext")
    try:
        outputs = list(plainjq.compiled(program)(value))
    except plainjq.NotPlain:
        outputs = _run_jq(scope, tool, program, value)
    return outputs[0] if len(outputs) == 1 else outputs


def _run_jq(scope: Scope, tool: ToolPolicy, program: str, value: object) -> list[Any]:
    if scope.sandbox is None:
        raise MapperFailed("mapper: jq is not available here, but for plain paths")
    limits = Limits(
        wall_seconds=_knob(scope, tool, "run_seconds"),
        cpu_seconds=_knob(scope, tool, "run_cpu_seconds"),
        memory_bytes=_knob(scope, tool, "run_memory_bytes"),
    )
    most = _max_bytes(scope, tool)
    try:
        reply = scope.sandbox.jq(collected(program), value, limits=limits, max_bytes=most)
    except (SandboxUnavailable, OSError, RuntimeError, TypeError, ValueError) as error:
        raise MapperFailed(f"mapper: jq could not be run: {one_line(error)}") from error
    if reply.error is not None:
        raise MapperFailed(f"mapper: {one_line(reply.error.message)}")
    if reply.truncated:
        raise MapperFailed(f"mapper: it gives more than {most:,} bytes")
    if not reply.outputs:
        raise MapperFailed("mapper: the program ends itself, and gives nothing")
    text = jsontext.decode(reply.outputs[0])
    outputs = jsontext.decode(str(text).encode("utf-8", "surrogatepass"))
    assert isinstance(outputs, list)
    if (made := _big_numbers(outputs, int)) and made - _big_numbers(value, int, float):
        raise MapperFailed(
            "mapper: it computes integers beyond 2**53, which jq rounds; use a Python callable, or pass them on unchanged"
        )
    return outputs


def _by_callable(mapper: Callable[[Any], Any], value: object) -> object:
    try:
        mapped = mapper(_copied(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a host's function ends no turn
        raise MapperFailed(f"mapper: {type(error).__name__}: {one_line(error)}") from error
    if issubclass(type(mapped), CoroutineType):  # isinstance would ask the value, which may do anything
        mapped.close()
        raise MapperFailed("mapper: it returned a coroutine; give an ordinary function")
    return mapped


def _by_template(scope: Scope, tool: ToolPolicy, template: str, value: object) -> str:
    from byref import templates

    seconds, most = _knob(scope, tool, "run_seconds"), _max_bytes(scope, tool)
    try:
        return templates.render(template, value, seconds=seconds, max_bytes=most)
    except templates.Unbounded as error:
        raise MapperFailed(f"template: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a value of the host's own does when it is written
        raise MapperFailed(f"template: {type(error).__name__}: {one_line(error)}") from error


def _copied(value: Any) -> object:
    """The value for a callable to change as it likes: if it fails in the middle, the output is still whole."""
    with jsontext.collector_paused():
        try:
            return marshal.loads(marshal.dumps(value))
        except ValueError:  # a type of the host's own, or nested too deeply
            return copy.deepcopy(value)


def _big_numbers(value: object, *kinds: type) -> set[int | float]:
    """The numbers of these types that are so large that not every integer there is a 64-bit float."""
    found: set[int | float] = set()
    left: list[Any] = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, list | tuple):
            left.extend(item)
        elif isinstance(item, int | float) and isinstance(item, kinds) and not -plainjq.EXACT < item < plainjq.EXACT:
            found.add(item)
    return found


def _knob(scope: Scope, tool: ToolPolicy, name: str) -> Any:
    return tool.knobs.get(name, getattr(scope.policy, name))


def _max_bytes(scope: Scope, tool: ToolPolicy) -> int:
    return min(MAX_BYTES, int(_knob(scope, tool, "max_artifact_bytes")))
