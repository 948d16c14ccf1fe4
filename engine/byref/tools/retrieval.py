"""retrieve_offloaded_content: one tool with the modes of the context offloader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from byref.artifacts import grep, lines
from byref.artifacts.grep import search
from byref.artifacts.lines import read_lines
from byref.artifacts.store import decode_text
from byref.describe.truncate import truncate
from byref.outputs import to_block
from byref.scope import Scope
from byref.tools import native
from byref.tools.mending import as_key
from byref.tools.readers import CONTEXT, LINES, PATTERNS
from byref.tools.record import KEYS, Answer, Arguments, Tool, bounded
from byref.tools.targets import Target, find

SEARCH_SECONDS = 5.0
CONTEXT_LINES = 5


class LineRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A span of lines, 1-based and inclusive."""

    start: int = 1
    end: int | None = None


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
    target = find(scope, arguments.reference)
    if target.artifact.is_binary:
        narrowed = [name for name in ("pattern", "line_range", "context_lines") if getattr(arguments, name) is not None]
        if narrowed:
            native.refuse(scope, target.artifact, f"{narrowed[0]} does not apply, it has no lines")
        return native.show(scope, target.artifact)
    span = arguments.line_range
    start, end = (1, None) if span is None else (span.start, span.end)
    if arguments.pattern is not None:
        return Answer(_search(scope, target, arguments.pattern, start, end, arguments.context_lines))
    if span is not None:
        return Answer(_read(scope, target, start, end))
    if arguments.context_lines:
        return Answer(_read(scope, target, 1, arguments.context_lines))
    return Answer(_whole(scope, target))


def _search(scope: Scope, target: Target, pattern: str, start: int, end: int | None, around: int | None) -> str:
    context = CONTEXT_LINES if around is None else min(around, 100)
    found = search(target.payload, pattern, start=start, end=end, deadline=SEARCH_SECONDS, context_lines=context)
    return bounded(
        scope,
        lambda size: found.render(size, context_lines=context, go_on=_range(target)).text,
        least=grep.MIN_CHARS,
    )


def _range(target: Target) -> Callable[[int, int | None], str]:
    last = target.payload.line_count
    return lambda line, end: f"line_range {{start: {line}, end: {last if end is None else min(end, last)}}}"


def _read(scope: Scope, target: Target, start: int, end: int | None) -> str:
    payload = target.payload
    return bounded(
        scope,
        lambda characters: read_lines(payload, start, end, max_chars=characters, go_on=_go_on).text,
        least=lines.MIN_CHARS,
    )


def _go_on(line: int, column: int, end: int | None, total: int) -> str:
    last = total if end is None else end
    if column == 1:
        return f"[INCOMPLETE: cut before line {line} of {total}. Go on with line_range {{start: {line}, end: {last}}}.]"
    rest = f" Go on with line_range {{start: {line + 1}, end: {last}}}." if line < last else ""
    return f"[INCOMPLETE: cut inside line {line} of {total}, before column {column}: give a pattern to see more of it.{rest}]"


def _whole(scope: Scope, target: Target) -> str:
    """Everything in its native form; beyond the reply's bound head and tail, and how to go on."""
    if target.path:
        text = to_block(target.value).text
    elif target.artifact.kind == "json":
        text = to_block(target.artifact.value).text
    else:
        text = decode_text(target.artifact.payload.read())
    limit = scope.policy.reply_tokens
    if len(text) <= 16 * limit and scope.count(text) <= limit:
        return text
    advice = f"the stored form has {target.payload.line_count:,} lines. Give a pattern or a line_range."

    def cut(budget: int) -> str:
        shown = truncate(text, budget=budget, measure=scope.count)
        return f"{shown.text}\n[INCOMPLETE: {shown.omitted_bytes:,} bytes are left out; {advice}]"

    return cut(limit - scope.count(f"\n[INCOMPLETE: {len(text) * 4:,} bytes are left out; {advice}]") - 2)


def _span_of(given: dict[str, Any]) -> dict[str, Any]:
    """First and last line as a span of lines."""
    ends = {name: given[f"{name}_line"] for name in ("start", "end") if f"{name}_line" in given}
    if not ends or "line_range" in given:
        return given
    rest = {name: value for name, value in given.items() if name not in ("start_line", "end_line")}
    return rest | {"line_range": ends}


RETRIEVE_OFFLOADED_CONTENT = Tool(
    "retrieve_offloaded_content",
    "Fetch offloaded content by reference: search it by pattern, read a line_range, or get all of it.",
    RetrieveArguments,
    _retrieve,
    example={"reference": "art_k7m2p9x4q8wz", "line_range": {"start": 10, "end": 20}},
    spellings={**dict.fromkeys(KEYS, "reference"), **LINES, **PATTERNS, **CONTEXT},
    mend={"reference": as_key},
    rewrite=_span_of,
)
