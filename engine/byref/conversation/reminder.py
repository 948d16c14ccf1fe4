"""Remind the model after a compaction of the data that the conversation has: newest first, in a limited number of tokens."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from operator import itemgetter

from sqlalchemy import Connection, select

from byref.artifacts import listing, store, variables
from byref.artifacts.counted import Counted
from byref.conversation.scope import Scope
from byref.db.tables import LedgerRow
from byref.describe.jsontext import encodable
from byref.errors import ConfigurationError, shown
from byref.policy import checks

TOKENS = 500
"""Tokens of a reminder for which no limit is given."""
LEAST_TOKENS = 50
"""Smallest limit: fewer tokens may not even suffice to say that there is data."""
_LINE_TOKENS = 4
"""Fewest tokens of a line: a dash, a name, a colon and a shape."""
_NAME_CHARS = 100
_SHAPE_CHARS = 200
_BARE = "Data of this conversation:"


def reminder(scope: Scope, max_tokens: int, *, but: Collection[int] = ()) -> str:
    """Return names and shapes of variables, and names or ids, sizes and origins of artifacts without a variable.

    Artifacts with the row ids `but` are left out.

    Raises:
        ConfigurationError: `max_tokens` is no whole number from `LEAST_TOKENS` on.
    """
    if type(max_tokens) is not int or not LEAST_TOKENS <= max_tokens <= checks.MOST:
        raise ConfigurationError(f"max_tokens={shown(max_tokens)}: expected a whole number of at least {LEAST_TOKENS}")
    lines, total = scope.read(lambda connection: _lines(connection, scope, max_tokens, but))
    if not lines:
        return "No data is stored in this conversation."
    head = f"Data of this conversation, for {', '.join(scope.tools) or 'the host'}:"
    text = _fitted(scope, head, lines, total, max_tokens)
    return text or _fitted(scope, _BARE, lines, total, max_tokens) or _text(_BARE, [], total)


def _fitted(scope: Scope, head: str, lines: list[str], total: Counted, most: int) -> str:
    """Return a heading and as many lines as fit; empty if not even one line fits."""
    shown, room = 0, most - scope.count(head)
    for line in lines:
        room -= scope.count(line) + 1
        if room < 0:
            break
        shown += 1
    while shown and scope.count(text := _text(head, lines[:shown], total)) > most:
        shown -= 1
    return text if shown else ""


def _text(head: str, lines: list[str], total: Counted) -> str:
    more = total.beside(len(lines))
    return "\n".join([head, *lines, *([f"- and {more} more"] if more else [])])


def _lines(connection: Connection, scope: Scope, most: int, but: Collection[int]) -> tuple[list[str], Counted]:
    """Return the newest lines, at most as many as can fit into `most` tokens, and how many there are in all."""
    lines_that_fit = most // _LINE_TOKENS
    named, names = variables.newest(connection, scope.row, lines_that_fit)
    kept, others = listing.newest_unbound(connection, scope.row, lines_that_fit, but=but)
    tools = _tools(connection, scope.row, {one.step for one in kept if one.step is not None})
    lines = [(one.artifact_row, f"- {one.name}: {_cut(one.shape)}") for one in named]
    lines += [(one.row_id, f"- {_described(one, tools)}") for one in kept]
    return [line for _, line in sorted(lines, key=itemgetter(0), reverse=True)[:most]], names + others


def _tools(connection: Connection, session_row: int, steps: set[int]) -> dict[int, str]:
    """Return the tools of some steps by step."""
    row = LedgerRow
    found: dict[int, str] = {}
    for some in store.batched(steps):
        where = row.session_id == session_row, row.step.in_(some), row.tool.is_not(None)
        found |= {step: str(tool) for step, tool in connection.execute(select(row.step, row.tool).where(*where))}
    return found


def _described(artifact: listing.Unbound, tools: Mapping[int, str]) -> str:
    """Describe an artifact in a line, with its id if its name is missing, too long or not printable."""
    name = artifact.name
    called = name if name and len(name) <= _NAME_CHARS and name.isprintable() else artifact.id
    shape = store.shape_in(artifact.shape, "")
    words = shape if isinstance(shape, str) else encodable(json.dumps(shape, ensure_ascii=False, separators=(",", ":")))
    step = artifact.step
    origin = f", of {_cut(tools[step])} (step {step})" if step is not None and step in tools else ""
    return f"{called}: {_cut(words)}, {artifact.size_bytes:,} bytes{origin}"


def _cut(text: str) -> str:
    line = " ".join(text[: 2 * _SHAPE_CHARS].split())
    return line if len(line) <= _SHAPE_CHARS and len(text) <= 2 * _SHAPE_CHARS else line[:_SHAPE_CHARS] + "…"
