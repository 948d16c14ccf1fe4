"""artifact_read, artifact_grep and artifact_jq: three ways to read stored data, each with bounded replies."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import Connection

from byref.artifacts import grep, lines
from byref.artifacts.grep import search
from byref.artifacts.lines import read_lines
from byref.conversation.failures import readable_failures
from byref.conversation.scope import Scope
from byref.describe.jsontext import is_container, noted
from byref.describe.preview import preview
from byref.errors import ArtifactMissing, ToolError
from byref.interpreter import runs
from byref.interpreter.inputs import check_size, data_of
from byref.references.coercion import as_filter, as_key, as_span
from byref.references.targets import Target, as_it_came, find, jq_fault, queried_in, walk
from byref.tools import viewing
from byref.tools.record import KEYS, Answer, Arguments, Tool, bounded, most_characters
from byref_sandbox import JqOutcome, Limits, Outcome, Usage, jsontext
from byref_sandbox.code import plainjq
from byref_sandbox.code.picks import Filter, NotPlain

GREP_SECONDS = 5.0
JQ_OUTPUTS = 10_000
JQ_BYTES = 1 << 20
MAX_EXPRESSION_CHARS = 20_000
_NOTE_CHARS = 200
"""Characters reserved for the note in an array of which only the first elements are shown."""
DECODED_HERE_BYTES = 1 << 20
"""Maximum bytes of an artifact that is decoded in this process for a plain program, which is faster than a sandbox."""
_LIMIT_HINT = "select or slice first and compute on less, or ask for a plain path, e.g. .rows[:100]"
_SELECT_LESS = "Select less: keys, length, a slice, fewer fields."
_SPARE = 12
"""Joined texts may have so many more tokens than the sum of their parts."""
_NOT_FINITE = (
    "the data, or the result, has NaN, an infinity or a number beyond 1.8e308: null or 1.797e308 may stand for it here, "
    "and what jq computes of it is wrong"
)

_KEYS = dict.fromkeys((*KEYS, "data", "source"), "artifact_id")

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
    context_lines: Annotated[int, Meta(description="Lines shown around each match (default 5).", ge=0, le=100)] = 5
    start_line: Annotated[int, Meta(description="First line searched, from 1.")] = 1
    end_line: Annotated[int | None, Meta(description="Last line searched, included.")] = None
    ignore_case: Annotated[bool, Meta(description="Let case make no difference.")] = False


class JqArguments(Arguments, frozen=True):
    """Arguments of artifact_jq."""

    artifact_id: ArtifactId
    expression: Annotated[
        str, Meta(description="jq filter, e.g. '.rows | length' or '.[] | select(.score > 0.5) | .id'.")
    ]


def _read(scope: Scope, arguments: ReadArguments) -> Answer:
    target = as_it_came(scope, find(scope, arguments.artifact_id))
    viewing.refuse(scope, target.artifact, "it has no lines to read")
    payload = target.payload

    def page(characters: int) -> str:
        start, end = arguments.start_line, arguments.end_line
        return read_lines(payload, start, end, max_chars=characters, column=arguments.start_column).text

    return Answer(bounded(scope, page, least=lines.MIN_CHARS))


def _grep(scope: Scope, arguments: GrepArguments) -> Answer:
    target = as_it_came(scope, find(scope, arguments.artifact_id))
    viewing.refuse(scope, target.artifact, "it has no lines to search")
    payload = target.payload
    found = search(
        payload,
        arguments.pattern,
        start=arguments.start_line,
        end=arguments.end_line,
        ignore_case=arguments.ignore_case,
        deadline=GREP_SECONDS,
        context_lines=arguments.context_lines,
        max_chars=most_characters(scope, grep.MIN_CHARS),
    )
    context = arguments.context_lines
    return Answer(bounded(scope, lambda size: found.render(size, context_lines=context).text, least=grep.MIN_CHARS))


def _jq(scope: Scope, arguments: JqArguments) -> Answer:
    expression = arguments.expression
    target = find(scope, arguments.artifact_id, load_parts=False)
    if not target.artifact.is_json:
        viewing.refuse(scope, target.artifact, "jq queries JSON")
        ways = {"artifact_grep": "search it with artifact_grep", "artifact_read": "read it with artifact_read"}
        able = " or ".join(way for name, way in ways.items() if name in scope.tools)
        raise ToolError(
            f"artifact {target.artifact.id} is {target.artifact.content_type}, not JSON: artifact_jq cannot query it"
            + (f"; {able}" if able else "")
        )
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise ToolError(
            f"the expression has {len(expression):,} characters; at most {MAX_EXPRESSION_CHARS:,} are taken"
        )
    check_size(scope, target.artifact)
    limits = scope.limits
    reply, note = _picked(scope, target, arguments, limits), ""
    if reply is None:
        reply = _ran(scope, target, expression, limits)
        if reply.rounded:
            note = _rounding(scope, is_sure=reply.rounded == "yes")
    if reply.not_finite:
        note = _NOT_FINITE
    outputs = [output.decode("utf-8", "surrogatepass") for output in reply.outputs]
    if reply.error is not None:
        hint = _LIMIT_HINT if reply.error.kind.endswith("Limit") else reply.error.hint
        fault = jq_fault(reply.error.message) if target.path else reply.error.message
        content = f"{reply.error.kind}: {fault}" + (f"\n{hint}" if hint else "")
    else:
        content = bounded(
            scope,
            lambda size: _with_note(_outputs(scope, outputs, size, truncated=reply.truncated, beside=note), note),
            least=1,
        )
    run = Outcome(shown=content, error=reply.error, usage=reply.usage)

    def commit(connection: Connection, step: int) -> str:
        runs.record(connection, scope, "jq", expression, run, limits, step)
        return content

    return Answer(content, is_error=reply.error is not None, commit=commit)


def _picked(scope: Scope, target: Target, arguments: JqArguments, limits: Limits) -> JqOutcome | None:
    """Return the outputs of a plain program, exact, and bounded like jq's; None if jq has to answer."""
    try:
        pick = plainjq.compiled(arguments.expression)
    except NotPlain:
        return None
    artifact = target.artifact
    if artifact.payload.size <= DECODED_HERE_BYTES:
        try:
            is_read = artifact.kind == "json" and artifact.reading is not None  # a table in text, JSON lines
            value = artifact.parsed if is_read else jsontext.decode(artifact.payload.read())
        except (jsontext.NotJSON, ArtifactMissing):
            return None  # jq's own error says where the JSON ends, and the sandbox's how a reading is damaged
        return _picked_here(pick, walk(value, target.path, arguments.artifact_id))
    if scope.sandbox is None:
        return None
    with readable_failures(scope):
        return scope.sandbox.pick(
            arguments.expression,
            data_of(artifact, target.path, for_jq=True),
            session=f"{scope.tenant}\0{scope.name}",
            limits=limits,
            max_outputs=JQ_OUTPUTS,
            max_bytes=JQ_BYTES,
        )


def _picked_here(pick: Filter, value: object) -> JqOutcome | None:
    outputs: list[bytes] = []
    not_finite = False
    room, truncated, began = JQ_BYTES, False, time.perf_counter()
    try:
        for output in pick(value):
            encoded = _compact(output)
            room -= len(encoded)
            truncated = room < 0 or len(outputs) == JQ_OUTPUTS
            if truncated:
                break
            outputs.append(encoded)
            not_finite = not_finite or (b"null" in encoded and plainjq.has_not_finite(output))
    except NotPlain:
        return None
    usage = Usage(wall_ms=(time.perf_counter() - began) * 1000)
    return JqOutcome(tuple(outputs), truncated, usage=usage, not_finite=not_finite)


def _compact(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (ValueError, OverflowError):  # lone surrogates, integers over 64 bits
        from byref_sandbox.values.values import to_json  # imported late, because it imports pandas

        return to_json(value)


def _ran(scope: Scope, target: Target, expression: str, limits: Limits) -> JqOutcome:
    if scope.sandbox is None:
        raise ToolError("artifact_jq is not available here")
    data, program = queried_in(target, expression)
    with readable_failures(scope):
        return scope.sandbox.jq(program, data, limits=limits, max_outputs=JQ_OUTPUTS, max_bytes=JQ_BYTES)


def _rounding(scope: Scope, *, is_sure: bool) -> str:
    code = ": code_interpreter does not" if "code_interpreter" in scope.tools else ""
    where = "as here" if is_sure else "and this data has some"
    return f"jq rounds integers beyond 2**53 where it computes with them, {where}{code}"


def _with_note(content: str, note: str) -> str:
    """Add a note to a reply: inside an array or object, so that it still parses, else behind the text."""
    if not note:
        return content
    return (
        noted(content, note, "[ROUNDED]") if is_container(content) and "\n" not in content else f"{content}\n[{note}]"
    )


def _outputs(scope: Scope, outputs: list[str], characters: int, *, truncated: bool, beside: str) -> str:
    """Write outputs one per line, and say exactly how many are left out. An array or object that is too long is cut inside, so
    that it still parses.

    `beside` is a note for which the reply needs room too.
    """
    if not outputs and truncated:
        return f"[INCOMPLETE: the first output alone is larger than {JQ_BYTES:,} bytes. Select less, e.g. with keys or length.]"
    if not outputs:
        return "[no output: the filter selected nothing]"
    shown, room = 0, characters
    for output in outputs:
        room -= len(output) + 1
        if room < 0:
            break
        shown += 1
    total = f"more than {len(outputs):,}" if truncated else f"{len(outputs):,}"
    if shown == len(outputs) and not truncated:
        return "\n".join(outputs)
    if not shown:
        which = "the output" if total == "1" else f"the first of {total} outputs"
        if is_container(outputs[0]):
            return _cut(scope, outputs[0], which, characters, beside)
        first = outputs[0][:characters]
        return f"{first}\n[INCOMPLETE: {len(first):,} of {len(outputs[0]):,} characters of {which}. {_SELECT_LESS}]"
    kept = "\n".join(outputs[:shown])
    return f"{kept}\n[INCOMPLETE: {shown:,} of {total} outputs shown. Narrow the filter or take a slice.]"


def _cut(scope: Scope, output: str, which: str, characters: int, beside: str) -> str:
    """Shorten one output: an array to the first elements that fit; an object, or an array whose first element is too long, to a
    preview.
    """
    value = jsontext.decode(output.encode("utf-8", "surrogatepass"))
    if isinstance(value, list):
        shown, room = 0, characters - _NOTE_CHARS
        for element in value:
            room -= len(_compact(element)) + 1
            if room < 0:
                break
            shown += 1
        if shown:
            on = "" if which != "the output" else f" Go on with | .[{shown}:] behind the filter."
            what = f"{shown:,} of {len(value):,} elements of {which} shown.{on} {_SELECT_LESS}"
            return noted(_compact(value[:shown]).decode(), f"INCOMPLETE: {what}")
    what = f"{which} has {len(output):,} characters. {_SELECT_LESS}"
    bare = noted(output[0] + output[-1], f"INCOMPLETE: {what}")
    room = scope.policy.reply_tokens - scope.count(bare) - scope.count(beside) - _SPARE
    try:
        text = preview(value, budget=room, measure=scope.count, total=scope.count(output, "json")).text
    except ValueError:
        return bare
    return noted(text, f"INCOMPLETE: {what}") if is_container(text) else bare


def _lines_of(given: dict[str, Any]) -> dict[str, Any]:
    """Replace `line_range` by the first and the last line, unless these are given too."""
    span = as_span(given.get("line_range"))
    if not isinstance(span, dict) or "start_line" in given or "end_line" in given:
        return given
    rest = {name: value for name, value in given.items() if name != "line_range"}
    return rest | {"start_column" if name == "column" else f"{name}_line": at for name, at in span.items()}


LINES = {
    **dict.fromkeys(("start", "from", "from_line", "first_line", "line_start", "first", "line", "begin"), "start_line"),
    **dict.fromkeys(("end", "to", "to_line", "last_line", "line_end", "last"), "end_line"),
    **dict.fromkeys(("range", "lines", "line_range", "line_numbers"), "line_range"),
}
"""Other names that models use for lines."""
COLUMNS = dict.fromkeys(("column", "col", "start_col", "start_char"), "start_column")
"""Other names that models use for the character to begin with."""
PATTERNS = dict.fromkeys(
    ("regex", "regexp", "query", "search", "search_pattern", "keyword", "text", "term", "expression"), "pattern"
)
"""Other names that models use for the pattern."""
CONTEXT = dict.fromkeys(("context", "context_line", "around", "lines_of_context", "surrounding_lines"), "context_lines")
"""Other names that models use for the lines around a match."""


ARTIFACT_READ = Tool(
    "artifact_read",
    "Read lines of stored data. Replies are numbered, bounded, and say how to go on.",
    ReadArguments,
    _read,
    example={"artifact_id": "users", "start_line": 1, "end_line": 50},
    spellings={**_KEYS, **LINES, **COLUMNS},
    coerce={"artifact_id": as_key},
    rewrite=_lines_of,
)
ARTIFACT_GREP = Tool(
    "artifact_grep",
    "Find the lines of stored data that match a regular expression, with context.",
    GrepArguments,
    _grep,
    example={"artifact_id": "users", "pattern": "error|warn"},
    spellings={
        **_KEYS,
        **LINES,
        **PATTERNS,
        **CONTEXT,
        **dict.fromkeys(("case_insensitive", "insensitive", "nocase", "i"), "ignore_case"),
    },
    coerce={"artifact_id": as_key},
    rewrite=_lines_of,
)
ARTIFACT_JQ = Tool(
    "artifact_jq",
    "Query stored JSON with a jq filter over all of the data.",
    JqArguments,
    _jq,
    example={"artifact_id": "users", "expression": ".[0]"},
    spellings={
        **_KEYS,
        **dict.fromkeys(
            ("filter", "query", "program", "jq", "expr", "jq_filter", "jq_expression", "jq_query", "path"), "expression"
        ),
    },
    coerce={"artifact_id": as_key, "expression": as_filter},
    needs_sandbox=True,
)
