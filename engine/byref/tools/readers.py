"""artifact_read, artifact_grep and artifact_jq: three ways into stored data, each reply bounded."""

from __future__ import annotations

import json
import re
import time
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlalchemy import Connection

from byref import interpreter
from byref.artifacts.grep import search
from byref.artifacts.lines import read_lines
from byref.errors import ToolError
from byref.scope import Scope
from byref.tools import plainjq
from byref.tools.record import Answer, Arguments, Tool, bounded
from byref.tools.targets import Target, find, jq_path
from byref_sandbox import JqOutcome, Limits, Outcome, Usage, jsontext

GREP_SECONDS = 5.0
JQ_OUTPUTS = 10_000
JQ_BYTES = 1 << 20
MAX_EXPRESSION_CHARS = 20_000
_LONG_NUMBER = re.compile(rb"[0-9]{16}")

ArtifactId = Annotated[str, Meta(description="Id of the artifact (art_…), or the name of a variable.")]


class ReadArguments(Arguments, frozen=True):
    """Arguments of artifact_read."""

    artifact_id: ArtifactId
    start_line: Annotated[int, Meta(description="First line, from 1.")] = 1
    end_line: Annotated[int | None, Meta(description="Last line, included; left out: as many as fit.")] = None
    start_column: Annotated[int, Meta(description="Character of the first line to begin with, from 1.", ge=1)] = 1


class GrepArguments(Arguments, frozen=True):
    """Arguments of artifact_grep."""

    artifact_id: ArtifactId
    pattern: Annotated[str, Meta(description="Regular expression (RE2), applied to each line.")]
    context_lines: Annotated[int, Meta(description="Lines shown around each match.", ge=0, le=100)] = 5
    start_line: Annotated[int, Meta(description="First line searched, from 1.")] = 1
    end_line: Annotated[int | None, Meta(description="Last line searched, included.")] = None
    ignore_case: bool = False


class JqArguments(Arguments, frozen=True):
    """Arguments of artifact_jq."""

    artifact_id: ArtifactId
    expression: Annotated[
        str, Meta(description="jq filter, e.g. '.rows | length' or '.[] | select(.score > 0.5) | .id'.")
    ]


def _read(scope: Scope, arguments: ReadArguments) -> Answer:
    payload = find(scope, arguments.artifact_id).payload

    def page(characters: int) -> str:
        start, end = arguments.start_line, arguments.end_line
        return read_lines(payload, start, end, max_chars=characters, column=arguments.start_column).text

    return Answer(bounded(scope, page))


def _grep(scope: Scope, arguments: GrepArguments) -> Answer:
    payload = find(scope, arguments.artifact_id).payload
    found = search(
        payload,
        arguments.pattern,
        start=arguments.start_line,
        end=arguments.end_line,
        ignore_case=arguments.ignore_case,
        deadline=GREP_SECONDS,
    )
    return Answer(bounded(scope, lambda size: found.render(size, context_lines=arguments.context_lines).text))


def _jq(scope: Scope, arguments: JqArguments) -> Answer:
    expression = arguments.expression
    try:
        pick = plainjq.compiled(expression)
    except plainjq.NotPlain:
        pick = None
    target = find(scope, arguments.artifact_id, load_parts=pick is not None)
    if target.artifact.kind != "json":
        raise ToolError(
            f"artifact {target.artifact.id} is {target.artifact.content_type}, not JSON: artifact_jq cannot query it; "
            "search it with artifact_grep or read it with artifact_read"
        )
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise ToolError(
            f"the expression has {len(expression):,} characters; at most {MAX_EXPRESSION_CHARS:,} are taken"
        )
    limits = interpreter.limits_of(scope)
    reply, rounded = None if pick is None else _picked(pick, target), False
    if reply is None:
        reply = _ran(scope, target, expression, limits)
        rounded = any(
            _LONG_NUMBER.search(line) and plainjq.has_rounded(jsontext.decode(line)) for line in reply.outputs
        )
    lines = [output.decode("utf-8", "surrogatepass") for output in reply.outputs]
    if reply.error is not None:
        hint = f"\n{reply.error.hint}" if reply.error.hint else ""
        content = f"{reply.error.kind}: {reply.error.message}{hint}"
    else:
        note = _rounding_note(scope) if rounded else ""
        content = bounded(
            scope, lambda characters: _outputs(lines, characters - len(note), truncated=reply.truncated) + note
        )
    run = Outcome(text=content, error=reply.error, usage=reply.usage)

    def commit(connection: Connection, step: int) -> str:
        interpreter.record(connection, scope, "jq", expression, run, limits, step)
        return content

    return Answer(content, is_error=reply.error is not None, commit=commit)


def _picked(pick: plainjq.Filter, target: Target) -> JqOutcome | None:
    """The outputs of a program that only picks, as jq's would be bounded; None if jq has to say what is wrong."""
    outputs: list[bytes] = []
    room, truncated, began = JQ_BYTES, False, time.perf_counter()
    try:
        for output in pick(target.value if target.path else target.artifact.value):
            encoded = _compact(output)
            room -= len(encoded)
            truncated = room < 0 or len(outputs) == JQ_OUTPUTS
            if truncated:
                break
            outputs.append(encoded)
    except plainjq.NotPlain:
        return None
    return JqOutcome(tuple(outputs), truncated, usage=Usage(wall_ms=(time.perf_counter() - began) * 1000))


def _compact(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (ValueError, OverflowError):  # lone surrogates, integers over 64 bits
        return json.dumps(value, separators=(",", ":")).encode()


def _ran(scope: Scope, target: Target, expression: str, limits: Limits) -> JqOutcome:
    if scope.sandbox is None:
        raise ToolError("artifact_jq is not available here")
    # A line break ends a comment, so that one in the expression cannot take the bracket away.
    program = f"{jq_path(target.path)} | ({expression}\n)" if target.path else expression
    data = interpreter.data_of(target.artifact)
    with interpreter.readable_failures():
        return scope.sandbox.jq(program, data, limits=limits, max_outputs=JQ_OUTPUTS, max_bytes=JQ_BYTES)


def _rounding_note(scope: Scope) -> str:
    code = " or code_interpreter" if "code_interpreter" in scope.tools else ""
    return f"\n[jq rounds integers beyond 2**53, as here: for exact ones use a plain path (.rows[].id, map(.id)){code}]"


def _outputs(lines: list[str], characters: int, *, truncated: bool) -> str:
    """Outputs, one a line, cut with exact counts."""
    if not lines and truncated:
        return f"[INCOMPLETE: the first output alone is larger than {JQ_BYTES:,} bytes. Select less, e.g. with keys or length.]"
    if not lines:
        return "[no output: the filter selected nothing]"
    shown, room = [], characters - 200
    for line in lines:
        if len(line) + 1 > room:
            break
        shown.append(line)
        room -= len(line) + 1
    total = f"more than {len(lines):,}" if truncated else f"{len(lines):,}"
    if len(shown) == len(lines) and not truncated:
        return "\n".join(shown)
    if not shown:
        first = lines[0]
        return (
            f"{first[: max(room, 100)]}\n[INCOMPLETE: the first of {total} outputs has {len(first):,} characters, of which "
            f"{max(room, 100):,} are shown. Select less, e.g. with keys, length, a slice or fewer fields.]"
        )
    return (
        "\n".join(shown)
        + f"\n[INCOMPLETE: {len(shown):,} of {total} outputs shown. Narrow the filter or take a slice.]"
    )


ARTIFACT_READ = Tool(
    "artifact_read",
    "Read lines of stored data. Replies are numbered, bounded, and say how to go on.",
    ReadArguments,
    _read,
)
ARTIFACT_GREP = Tool(
    "artifact_grep",
    "Find the lines of stored data that match a regular expression, with context.",
    GrepArguments,
    _grep,
)
ARTIFACT_JQ = Tool(
    "artifact_jq",
    "Query stored JSON with a jq filter over all of the data. Plain paths give integers exactly; what computes rounds them "
    "beyond 2**53.",
    JqArguments,
    _jq,
    needs_sandbox=True,
)
