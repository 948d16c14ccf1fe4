"""retrieve_offloaded_content: one tool with the modes of the context offloader."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from byref.artifacts import grep, lines
from byref.artifacts.grep import search
from byref.artifacts.lines import read_lines
from byref.conversation.scope import Scope
from byref.describe.truncate import incomplete_json, truncate
from byref.errors import ToolError
from byref.interpreter.inputs import MAX_VALUE_BYTES
from byref.references.coercion import as_key, as_span
from byref.references.targets import Target, as_it_came, find
from byref.tools import viewing
from byref.tools.readers import COLUMNS, CONTEXT, LINES, PATTERNS
from byref.tools.record import KEYS, Answer, Arguments, Tool, bounded, most_characters
from byref.tools.texts import opening

SEARCH_SECONDS = 5.0
CONTEXT_LINES = 5
_MOST_CHARS = 16
"""Upper limit of the characters per token: no text that is worth reading has more."""
_LONG_LINE = 1_000
"""Average bytes of a line above which lines are better read from a column on."""


class LineRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A span of lines, 1-based and inclusive."""

    start: int = 1
    end: int | None = None
    column: Annotated[int, Meta(description="Character of the first line to begin with, from 1.")] = 1


class RetrieveArguments(Arguments, frozen=True):
    """Arguments of retrieve_offloaded_content."""

    reference: Annotated[str, Meta(description="Reference from the offloaded result (art_…).")]
    pattern: Annotated[str | None, Meta(description="Regular expression (RE2) or keyword to search for.")] = None
    line_range: Annotated[LineRange | None, Meta(description="Lines to read or search, 1-based, both included.")] = None
    context_lines: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Lines around each match (default 5); alone: so many lines from the top."),
    ] = None


def _retrieve(scope: Scope, arguments: RetrieveArguments) -> Answer:
    target = as_it_came(scope, find(scope, arguments.reference))
    if target.artifact.is_binary:
        narrowed = [name for name in ("pattern", "line_range", "context_lines") if getattr(arguments, name) is not None]
        if narrowed:
            viewing.refuse(scope, target.artifact, f"{narrowed[0]} does not apply, it has no lines")
        return viewing.show(scope, target.artifact)
    span = arguments.line_range
    start, end, column = (1, None, 1) if span is None else (span.start, span.end, span.column)
    if arguments.pattern is not None:
        if column != 1:
            raise ToolError(f"column={column}: a pattern is searched for in whole lines; leave one of them out")
        return Answer(_search(scope, target, arguments.pattern, start, end, arguments.context_lines))
    if span is not None:
        return Answer(_read(scope, target, start, end, column))
    if arguments.context_lines == 0:
        lines_there = target.payload.line_count
        return Answer(f"[context_lines=0 alone: none of its {lines_there:,} lines. Give a pattern or a line_range.]")
    if arguments.context_lines is not None:
        return Answer(_read(scope, target, 1, arguments.context_lines))
    return Answer(_whole(scope, target, arguments.reference))


def _search(scope: Scope, target: Target, pattern: str, start: int, end: int | None, around: int | None) -> str:
    context = CONTEXT_LINES if around is None else min(around, 100)
    found = search(
        target.payload,
        pattern,
        start=start,
        end=end,
        deadline=SEARCH_SECONDS,
        context_lines=context,
        max_chars=most_characters(scope, grep.MIN_CHARS),
    )
    return bounded(
        scope,
        lambda size: found.render(size, context_lines=context, go_on=_range(target)).text,
        least=grep.MIN_CHARS,
    )


def _range(target: Target) -> Callable[[int, int | None], str]:
    last = target.payload.line_count
    return lambda line, end: f"line_range {{start: {line}, end: {last if end is None else min(end, last)}}}"


def _read(scope: Scope, target: Target, start: int, end: int | None, column: int = 1) -> str:
    payload = target.payload
    return bounded(
        scope,
        lambda size: read_lines(payload, start, end, max_chars=size, column=column, go_on=_go_on).text,
        least=lines.MIN_CHARS,
    )


def _go_on(line: int, column: int, end: int | None, total: int) -> str:
    last = total if end is None else end
    if column == 1:
        return f"[INCOMPLETE: cut before line {line} of {total}. Go on with line_range {{start: {line}, end: {last}}}.]"
    span = f"{{start: {line}, end: {last}, column: {column}}}"
    return f"[INCOMPLETE: cut inside line {line} of {total}. Go on with line_range {span}.]"


def _whole(scope: Scope, target: Target, named: str) -> str:
    """Return the data in its stored form; if the reply's bound does not allow all of it, head and tail and how to go on."""
    limit = scope.policy.reply_tokens
    text = opening(target, named, 0, _MOST_CHARS * limit + 1)
    if len(text) <= _MOST_CHARS * limit and scope.count(text) <= limit:
        return text
    payload, artifact = target.payload, target.artifact
    ways = "Give a pattern or a line_range"
    if payload.size > payload.line_count * _LONG_LINE:
        ways += " {start, end, column}"
    advice = f"the stored form has {payload.line_count:,} line{'' if payload.line_count == 1 else 's'}. {ways}."
    if artifact.kind == "json" and artifact.payload.size <= MAX_VALUE_BYTES:
        value, size = target.value if target.path else artifact.parsed, payload.size
        if isinstance(value, dict | list):
            return incomplete_json(
                value, f"cut out of {size:,} bytes; {advice}", budget=limit, measure=scope.count, size=size
            )
    return _cut(scope, opening(target, named, 0, sys.maxsize), advice)


def _cut(scope: Scope, text: str, advice: str) -> str:
    note = scope.count(f"\n[INCOMPLETE: {len(text) * 4:,} bytes are left out; {advice}]")
    shown = truncate(text, budget=scope.policy.reply_tokens - note - 2, measure=scope.count)
    return f"{shown.text}\n[INCOMPLETE: {shown.omitted_bytes:,} bytes are left out; {advice}]"


def _span_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return the first and last line, and the column, as a span of lines."""
    names = {"start_line": "start", "end_line": "end", "start_column": "column"}
    ends = {name: given[key] for key, name in names.items() if key in given}
    span = as_span(given.get("line_range", {}))
    if not ends or not isinstance(span, dict) or span.keys() & ends.keys():
        return given
    rest = {name: value for name, value in given.items() if name not in names}
    return rest | {"line_range": {**span, **ends}}


RETRIEVE_OFFLOADED_CONTENT = Tool(
    "retrieve_offloaded_content",
    "Fetch offloaded content by reference: search it by pattern, read a line_range, or get all of it.",
    RetrieveArguments,
    _retrieve,
    example={"reference": "art_k7m2p9x4q8wz", "line_range": {"start": 10, "end": 20}},
    spellings={**dict.fromkeys(KEYS, "reference"), **LINES, **COLUMNS, **PATTERNS, **CONTEXT},
    coerce={"reference": as_key},
    rewrite=_span_of,
)
