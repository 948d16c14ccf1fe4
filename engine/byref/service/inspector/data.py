"""The pages of data: artifacts, what is in one, and variables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, or_, select

from byref.accounting.ledger import Entry
from byref.artifacts import grep, store
from byref.artifacts import variables as bound
from byref.artifacts.lines import Payload
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.db.tables import LedgerRow, TombstoneRow
from byref.errors import ConfigurationError, ToolError
from byref.service.inspector import bigtables, views
from byref.service.inspector.looks import Image, Look, Page
from byref.service.problems import Problem, not_found

ARTIFACTS = 100
"""Artifacts, or variables, of one page."""
GONE = 50
"""Tombstones that are shown, the newest."""
MENTIONS = 50
GREP_SECONDS = 0.2
"""For one page of a search, which the next one goes on with."""
GREP_CHARS = 40_000
IMAGE_BYTES = 20 << 20
PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
"""How pictures begin that browsers are trusted with, and their types."""


def artifacts(look: Look) -> Page:
    """List a session's artifacts, oldest first, and what was there before."""
    after = look.query.get("after") or None
    try:
        found = look.of.artifacts(after=after, limit=ARTIFACTS + 1)
    except ConfigurationError as error:
        raise not_found(str(error)) from error
    shown, scope = found[:ARTIFACTS], look.scope

    def work(connection: Connection) -> Any:
        names = bound.names_of(connection, [one.row_id for one in shown])
        gone = (
            select(TombstoneRow)
            .where(TombstoneRow.session_id == scope.row)
            .order_by(TombstoneRow.id.desc())
            .limit(GONE)
        )
        return names, connection.execute(gone.with_only_columns(*TombstoneRow.__table__.c)).all()

    names, gone = look.read(work)
    values = {
        "items": [(one, names.get(one.row_id, [])) for one in shown],
        "after": after,
        "next": shown[-1].id if len(found) > ARTIFACTS else None,
        "gone": gone,
    }
    return Page("artifacts", values)


def variables(look: Look) -> Page:
    """List a session's variables, in the order in which they were first bound."""
    after = look.query.get("after") or None
    try:
        found = look.of.variables(after=after, limit=ARTIFACTS)
    except ConfigurationError as error:
        raise not_found(str(error)) from error
    items = [(one, bound.written(one.path)) for one in found]
    return Page("variables", {"items": items, "after": after, "next": found[-1].name if found else None})


def artifact(look: Look) -> Page:
    """Show what is in an artifact, or in a variable, and who used it."""
    variable = _variable(look)
    found = variable.artifact if variable is not None else _artifact(look)
    path: tuple[Any, ...] = () if variable is None else variable.path

    def work(connection: Connection) -> tuple[list[str], list[Entry]]:
        names = bound.names_of(connection, [found.row_id]).get(found.row_id, [])
        return names, _mentions(connection, look.scope.row, [found.id, found.pointer, *names])

    names, mentions = look.read(work)
    values: dict[str, Any] = {
        "artifact": found,
        "variable": variable,
        "place": bound.written(path) if path else None,
        "names": names,
        "mentions": mentions,
        "shape": variable.shape if variable is not None else found.shape,
        "view": None,
        "ways": [],
        "grep": None,
        "is_picture": picture_type(found) is not None,
        "not_shown": None,
    }
    if look.sight.has_content:
        try:
            values |= _view(look, found.readable, path, values["shape"])
        except ToolError as error:
            values["not_shown"] = look.sight.name(str(error))
    return Page("artifact", values)


def diff(look: Look) -> Page:
    """Show in which lines two artifacts differ."""
    before, behind = _artifact(look), _artifact(look, "with")
    if not look.sight.has_content:
        raise Problem(403, "not-allowed", "what is in data needs the right 'content'")
    before, behind = before.readable, behind.readable
    for one in (before, behind):
        if one.is_binary:
            raise Problem(422, "not-a-text", f"{one.id} is {one.content_type}, which has no lines")
    lines, is_all = views.difference(look.sight, before, behind)
    is_same = before.digest == behind.digest
    return Page("diff", {"before": before, "behind": behind, "lines": lines, "is_all": is_all, "is_same": is_same})


def image(look: Look) -> Image:
    """Return a picture; only of types that can hold no program."""
    found = _artifact(look)
    kind = picture_type(found)
    if not look.sight.has_bytes or kind is None:
        raise not_found(f"{found.id} is no picture that is shown")
    return Image(found.payload.read(), kind)


def download(look: Look) -> Artifact:
    """Return an artifact to be downloaded as it is stored."""
    found = _artifact(look)
    if not look.sight.has_bytes:
        raise Problem(403, "not-allowed", "data as it is stored needs the right 'content', where nothing is redacted")
    return found.readable


def picture_type(artifact: Artifact) -> str | None:
    """Return the type of a picture by its first bytes, whatever it is said to be; None: it is none that is shown."""
    if artifact.kind != "image" or artifact.size_bytes > IMAGE_BYTES:
        return None
    head = artifact.payload.head(8)
    return next((kind for begin, kind in PICTURES.items() if head.startswith(begin)), None)


def _artifact(look: Look, name: str = "artifact") -> Artifact:
    key = look.text(name)
    found: Artifact | None = look.read(lambda c: store.find(c, look.scope.source, look.scope.row, key))
    if found is None:
        raise not_found(f"no artifact {key[:100]!r} in session {look.of.id!r}, or none any more")
    return found


def _variable(look: Look) -> Variable | None:
    if not (name := look.query.get("variable")):
        return None
    try:
        return look.of.variable(name)
    except ConfigurationError as error:
        # What is said of an expired one quotes the arguments of its call, cut where a secret may have its middle.
        gone = f"no variable {name[:100]!r} in session {look.of.id!r}, or none any more"
        raise not_found(str(error) if look.sight.has_bytes else gone) from error


def _view(look: Look, found: Artifact, path: Sequence[Any], shape: object) -> dict[str, Any]:
    """Return the values for a view of the data, and the other ways to look at it."""
    if found.is_binary:
        return {}
    if pattern := look.query.get("grep"):
        return {"view": "grep", "ways": ["lines"], "grep": pattern} | _grepped(look, found, pattern)
    first, sort, wanted = look.number("row", 0), look.query.get("sort"), look.query.get("containing", "")[:1_000]
    if look.sight.redact is not None and (sort is not None or wanted):
        raise Problem(
            403,
            "not-allowed",
            "rows are neither searched nor sorted where content is redacted: it would tell what is hidden",
        )
    can_parse, view = views.can_parse(found), look.query.get("view", "")
    by_range = None if found.payload.size < views.SMALL_BYTES else bigtables.table(found, path, shape)
    if look.sight.redact is not None and isinstance(by_range, bigtables.ByPlace):
        by_range = None  # the reader says at which byte a page begins, which may be in the middle of what is hidden
    needs_all = by_range is None or view == "tree" or (view in ("", "table") and sort is not None)
    value, rows = None, None
    if can_parse and needs_all:
        value = views.value_of(found, path)
        rows = views.records(value)
    is_table = by_range is not None or rows is not None
    is_tree = can_parse and (by_range is not None or isinstance(value, list | dict))
    ways = [*(["table"] if is_table else []), *(["tree"] if is_tree else []), "lines"]
    view = view if view in ways else ways[0]
    values: dict[str, Any] = {"view": view, "ways": ways}
    descending = look.query.get("order") == "descending"
    if view == "table":
        values |= {"sort": sort, "descending": descending, "containing": wanted}
        if rows is not None or by_range is None:
            values["table"] = views.table(look.sight, rows or [], first, sort, descending, wanted)
        else:
            values["table"] = _by_range(look, by_range, first, wanted, can_parse=can_parse)
    elif view == "tree":
        values["tree"] = views.tree(look.sight, value)
    else:
        values["lines"] = views.lines(look.sight, found, max(1, look.number("start", 1)))
    return values


def _by_range(
    look: Look, found: bigtables.ByLines | bigtables.ByPlace, first: int, wanted: str, *, can_parse: bool
) -> views.Table:
    if isinstance(found, bigtables.ByPlace):
        page = found.page(first, look.number("place", 0))
    else:
        page = found.containing(wanted, first) if wanted else found.page(first)
    is_lines = isinstance(found, bigtables.ByLines)
    return views.table_by_range(
        look.sight,
        page,
        first,
        can_sort=can_parse and look.sight.has_bytes,
        can_search=is_lines and look.sight.has_bytes,
        can_jump=is_lines and not wanted,
    )


def _grepped(look: Look, found: Artifact, pattern: str) -> dict[str, Any]:
    total = found.payload.line_count
    start = min(max(1, look.number("start", 1)), max(1, total))
    searched: Payload = found.payload
    if look.sight.redact is not None and total:
        searched = views.redacted(look.sight, found, start, GREP_SECONDS)
    try:
        done = grep.search(
            searched, pattern[:1_000], start=start, max_matches=100, deadline=GREP_SECONDS, context_lines=2
        )
        text = done.render(GREP_CHARS, context_lines=2, go_on=lambda line, _: f"the lines from {line:,} on").text
        goes_on = done.next_line
        if goes_on is None and searched.line_count < total:
            goes_on = searched.line_count + 1
            text += f"\n\nSearched up to line {searched.line_count:,} of {total:,}."
    except ToolError as error:
        text, goes_on = str(error), None
    return {"found": look.sight.text(text, GREP_CHARS), "goes_on": goes_on, "start": start}


def _mentions(connection: Connection, session_row: int, names: list[str]) -> list[Any]:
    """Return the steps whose arguments name data: replies to code and other tools, and references that were replaced."""
    names = names[:20]
    named = [LedgerRow.arguments.contains(name, autoescape=True) for name in names]
    query = (
        select(LedgerRow.step, LedgerRow.kind, LedgerRow.tool, LedgerRow.arguments, LedgerRow.created_at)
        .where(LedgerRow.session_id == session_row, LedgerRow.kind.in_(["reply", "resolution"]), or_(*named))
        .order_by(LedgerRow.step)
        .limit(4 * MENTIONS)
    )
    whole = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")
    return [row for row in connection.execute(query) if whole.search(row.arguments or "")][:MENTIONS]
