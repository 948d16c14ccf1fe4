"""retrieve_offloaded_content: one tool with the modes of the context offloader."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from byref.artifacts.grep import search
from byref.artifacts.lines import read_lines
from byref.artifacts.store import decode_text
from byref.describe.truncate import truncate
from byref.outputs import to_block
from byref.scope import Scope
from byref.tools.record import Answer, Arguments, Tool, bounded
from byref.tools.targets import Target, find

SEARCH_SECONDS = 5.0
CONTEXT_LINES = 5


class LineRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A span of lines, 1-based and inclusive."""

    start: int
    end: int


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
    lines = arguments.line_range
    start, end = (1, None) if lines is None else (lines.start, lines.end)
    if arguments.pattern is not None:
        return Answer(_search(scope, target, arguments.pattern, start, end, arguments.context_lines))
    if lines is not None:
        return Answer(_read(scope, target, start, end))
    if arguments.context_lines:
        return Answer(_read(scope, target, 1, arguments.context_lines))
    return Answer(_whole(scope, target))


def _search(scope: Scope, target: Target, pattern: str, start: int, end: int | None, around: int | None) -> str:
    context = CONTEXT_LINES if around is None else min(around, 100)
    found = search(target.payload, pattern, start=start, end=end, deadline=SEARCH_SECONDS)
    return bounded(scope, lambda size: found.render(size, context_lines=context).text)


def _read(scope: Scope, target: Target, start: int, end: int | None) -> str:
    return bounded(
        scope, lambda characters: read_lines(target.payload, start, end, max_chars=characters, go_on=_go_on).text
    )


def _go_on(line: int, column: int, end: int | None, total: int) -> str:
    last = total if end is None else end
    if column == 1:
        return f"[Cut before line {line} of {total}. Go on with line_range {{start: {line}, end: {last}}}.]"
    rest = f" Go on with line_range {{start: {line + 1}, end: {last}}}." if line < last else ""
    return f"[Cut inside line {line} of {total}, before column {column}: give a pattern to see more of it.{rest}]"


def _whole(scope: Scope, target: Target) -> str:
    """Everything in its native form; beyond the reply's bound head and tail, and how to go on."""
    if target.path:
        text = to_block(target.value).text
    elif target.artifact.kind == "json":
        text = to_block(target.artifact.value).text
    else:
        text = decode_text(target.artifact.payload.read())
    shown = truncate(text, budget=scope.policy.reply_tokens - 60, measure=scope.count)
    if not shown.omitted_bytes:
        return text
    return (
        f"{shown.text}\n[INCOMPLETE: {shown.omitted_bytes:,} bytes are left out; the stored form has "
        f"{target.payload.line_count:,} lines. Give a pattern or a line_range.]"
    )


RETRIEVE_OFFLOADED_CONTENT = Tool(
    "retrieve_offloaded_content",
    "Fetch offloaded content by reference: search it by pattern, read a line_range, or get all of it.",
    RetrieveArguments,
    _retrieve,
)
