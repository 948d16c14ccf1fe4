"""The pages of sessions: the list, one session's timeline, and one step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from byref.accounting import explain, ledger
from byref.accounting.ledger import Entry
from byref.artifacts import store
from byref.artifacts.store import Artifact
from byref.calling import journal
from byref.content.rendering import as_text
from byref.conversation import listing
from byref.conversation.listing import SessionInfo
from byref.db.tables import LedgerRow, SessionRow
from byref.ingest import replay
from byref.service.inspector import chart
from byref.service.inspector.looks import Look, Page
from byref.service.inspector.sight import REDACTED_AHEAD, TEXT_CHARS, Text
from byref.service.problems import not_found

SESSIONS = 50
"""Sessions of one page."""
STEPS = 50
"""Steps of one page."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A session in the list."""

    info: SessionInfo
    errors: int
    used_at: datetime


def sessions(look: Look) -> Page:
    """List the tenant's sessions, newest first."""
    after, wanted = look.query.get("after"), look.query.get("search", "").strip()

    def work(connection: Connection) -> tuple[list[SessionInfo] | None, dict[str, datetime], dict[str, int]]:
        behind = None if after is None else (look.tenant, after)
        about: dict[str, Any] = {"newest_first": True, "containing": wanted or None}
        found = listing.sessions(connection, look.tenant, after=behind, limit=SESSIONS + 1, **about)
        names = [one.id for one in found or ()]
        return found, _last_used(connection, look.tenant, names), _errors(connection, look.tenant, names)

    found, used, errors = look.read(work)
    if found is None:
        raise not_found("the session behind which this page begins is no longer there")
    items = [Listed(one, errors.get(one.id, 0), used.get(one.id, one.created_at)) for one in found[:SESSIONS]]
    next_ = items[-1].info.id if len(found) > SESSIONS else None
    return Page("sessions", {"items": items, "search": wanted, "after": after, "next": next_})


def _last_used(connection: Connection, tenant: str, names: list[str]) -> dict[str, datetime]:
    """Return when the last step of each session was taken."""
    last = (
        select(SessionRow.name, SessionRow.id, func.max(LedgerRow.step).label("step"))
        .join(LedgerRow, LedgerRow.session_id == SessionRow.id)
        .where(SessionRow.tenant == tenant, SessionRow.name.in_(names), ~SessionRow.is_deleted)
        .group_by(SessionRow.name, SessionRow.id)
        .subquery()
    )
    query = select(last.c.name, LedgerRow.created_at).join(
        LedgerRow, (LedgerRow.session_id == last.c.id) & (LedgerRow.step == last.c.step)
    )
    return {row.name: row.created_at for row in connection.execute(query)}


def _errors(connection: Connection, tenant: str, names: list[str]) -> dict[str, int]:
    """Return how many steps of each session were errors, of those that had some."""
    query = (
        select(SessionRow.name, func.count())
        .join(LedgerRow, LedgerRow.session_id == SessionRow.id)
        .where(SessionRow.tenant == tenant, SessionRow.name.in_(names), ~SessionRow.is_deleted, LedgerRow.is_error)
        .group_by(SessionRow.name)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


@dataclass(frozen=True, slots=True)
class Step:
    """A step in the timeline."""

    entry: Entry
    because: str | None
    """Why an output took its route."""
    arguments: Text | None
    read: Text | None
    context: int | None
    """Tokens after it."""


def session(look: Look) -> Page:
    """Show a session as a timeline."""
    of, scope = look.of, look.scope
    after = look.number("after", 0)

    def work(connection: Connection) -> tuple[list[SessionInfo] | None, list[chart.Point]]:
        return listing.sessions(connection, look.tenant, of.id), chart.points(connection, scope.row)

    found, points = look.read(work)
    if not found:
        raise not_found(f"there is no session {of.id!r} any more")
    only_errors = look.query.get("only") == "errors"
    entries = look.read(lambda c: _failed(c, scope.row, after)) if only_errors else of.ledger(after=after, limit=STEPS)
    more = len(entries) == STEPS if only_errors else bool(entries) and entries[-1].step < found[0].steps
    shown = {entry.step for entry in entries}
    contexts = {point.step: point.context for point in points if point.step in shown}
    headroom = round(scope.policy.headroom_percentage * scope.window)
    last = found[0].steps
    values = {
        "info": found[0],
        "totals": of.usage(),
        "context": of.context_tokens(),
        "window": scope.window,
        "headroom": headroom,
        "chart": chart.chart(points, window=scope.window, headroom=headroom),
        "steps": [step_of(look, entry, contexts) for entry in entries],
        "waiting": len(of.pending()),
        "after": after,
        "earlier": max(0, after - STEPS) if after else None,
        "later": entries[-1].step if more else None,
        "errors": look.read(lambda c: _errors(c, look.tenant, [of.id])).get(of.id, 0),
        "only_errors": only_errors,
        "newest": max(0, last - STEPS),
        "last": last,
        "page_size": STEPS,
    }
    return Page("session", values)


def _failed(connection: Connection, session_row: int, after: int) -> list[Entry]:
    """Return steps behind `after` that were errors."""
    query = select(LedgerRow.step).where(
        LedgerRow.session_id == session_row, LedgerRow.step > after, LedgerRow.is_error
    )
    steps = connection.execute(query.order_by(LedgerRow.step).limit(STEPS)).scalars().all()
    return [found for number in steps if (found := ledger.entry(connection, session_row, number)) is not None]


def step_of(look: Look, entry: Entry, contexts: Mapping[int, int]) -> Step:
    return Step(
        entry,
        because(look, entry),
        look.sight.line(entry.arguments),
        look.sight.line(_readable(entry)),
        contexts.get(entry.step) if entry.kind != "call" else None,
    )


def because(look: Look, entry: Entry) -> str | None:
    """Say why an output took its route."""
    if entry.kind not in ("output", "reply"):
        return None
    explained = explain.explanation(entry)
    if not look.sight.has_content:  # these quote what a mapper or a parser said of the content
        said = {key: value for key, value in explained.numbers.items() if key not in ("mapper", "plaintext")}
        explained = replace(explained, numbers=said)
    return look.sight.name(str(explained))


def _readable(entry: Entry) -> str | None:
    """Return what the model read, blocks as their texts."""
    if entry.kind == "call":
        error = entry.detail.get("error")
        return None if error is None else str(error)
    if entry.content is None or "blocks" not in entry.detail:
        return entry.content
    return as_text(replay.content_of(entry))


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an output as it came: what the model read itself, or an artifact and its beginning."""

    text: Text | None
    artifact: Artifact | None = None
    is_gone: bool = False
    is_cut: bool = False
    """Only the beginning of the artifact is in `text`."""


def step(look: Look) -> Page:
    """Show a step: what came beside what the model read, and why."""
    of, scope = look.of, look.scope
    number = look.number("step", 0)

    def work(connection: Connection) -> Any:
        entry = ledger.entry(connection, scope.row, number)
        if entry is None:
            return None
        kept = store.by_row_ids(connection, scope.source, scope.row, replay.artifact_rows(entry))
        calls = journal.of_steps(connection, scope.row, [number]).get(number, [])
        resolved = _resolutions(connection, scope.row, entry) if entry.kind == "output" else []
        return entry, kept, calls, resolved, _beside(connection, scope.row, number)

    found = look.read(work)
    if found is None:
        raise not_found(f"there is no step {number} in session {of.id!r}")
    entry, kept, calls, resolved, (before, behind) = found
    original = replay.original_of(entry, kept) if entry.kind == "output" else None
    parts = original if isinstance(original, list) else [original]
    envelope = replay.replayed(scope, entry, entry.tool or "").envelope if entry.kind == "output" else None
    values = {
        "step": step_of(look, entry, {}),
        "entry": entry,
        "arguments": look.sight.text(indented(entry.arguments)),
        "read": look.sight.text(_readable(entry)),
        "envelope": None if envelope is None else look.sight.text(in_json(envelope)),
        "page_parts": [_part(look, one) for one in parts] if entry.kind == "output" else [],
        "calls": [step_of(look, one, {}) for one in calls],
        "resolved": [(one, look.sight.text(indented(one.arguments)), _values(look, one)) for one in resolved],
        "values": _values(look, entry) if entry.kind == "resolution" else None,
        "instructions": look.sight.text(entry.detail.get("instructions")),
        "detail": look.sight.text(in_json(dict(entry.detail))),
        "before": before,
        "behind": behind,
    }
    return Page("step", values)


def _beside(connection: Connection, session_row: int, number: int) -> tuple[int | None, int | None]:
    """Return the steps before and behind one, as far as there are some."""
    mine, step = LedgerRow.session_id == session_row, LedgerRow.step
    before = select(func.max(step)).where(mine, step < number)
    behind = select(func.min(step)).where(mine, step > number)
    return connection.execute(before).scalar_one(), connection.execute(behind).scalar_one()


def _resolutions(connection: Connection, session_row: int, entry: Entry) -> list[Entry]:
    """Return how references in the arguments of the call that gave an output were replaced."""
    if entry.call_id is None:
        return []
    before = ledger.entries(connection, session_row, after=max(0, entry.step - 20), limit=19)
    same = {"resolution"}
    return [one for one in before if one.kind in same and one.call_id == entry.call_id and one.step < entry.step]


def _values(look: Look, entry: Entry) -> Text | None:
    """Return what stood for the references of a resolution."""
    return look.sight.text(in_json(dict(entry.detail)))


def _part(look: Look, part: Artifact | str | list[Any] | dict[str, Any] | None) -> Part:
    if part is None:
        return Part(None, is_gone=True)
    if not isinstance(part, Artifact):
        return Part(look.sight.text(part if isinstance(part, str) else as_text([part])))
    shown = look.sight.text(beginning(part))
    is_cut = part.payload.size > 4 * TEXT_CHARS or (shown is not None and shown.left_out > 0)
    return Part(shown if shown is None else replace(shown, left_out=0), part, is_cut=is_cut)


def beginning(artifact: Artifact) -> str | None:
    """Return the first characters of an artifact: one more than are redacted, if it has more; None: it is no text."""
    if artifact.is_binary:
        return None
    most = TEXT_CHARS + REDACTED_AHEAD + 1
    return store.decode_text(artifact.payload.head(4 * most))[:most]


def indented(written: str | None) -> str | None:
    """Return JSON indented for people; anything else as it is."""
    if written is None or len(written) > TEXT_CHARS:
        return written
    try:
        return in_json(json.loads(written))
    except (ValueError, RecursionError):
        return written


def in_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):
        return "(nested too deeply)"
