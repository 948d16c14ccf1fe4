"""The pages: what each reads for whom. A page is a function of a `Look`; its template has the same name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
from byref.db.database import Database
from byref.db.tables import LedgerRow, SessionRow
from byref.ingest import replay
from byref.service.inspector import chart
from byref.service.inspector.sight import LINE_CHARS, TEXT_CHARS, Sight, Text
from byref.service.problems import Problem, not_found
from byref.session import Session

SESSIONS = 50
"""Sessions of one page."""
STEPS = 50
"""Steps of one page."""


@dataclass(frozen=True, slots=True)
class Look:
    """One request for a page: who asks, and for what."""

    database: Database
    tenant: str
    sight: Sight
    query: Mapping[str, str]
    session: Session | None = None
    """The one that the query names, for pages that show one."""

    @property
    def of(self) -> Session:
        """The session that is shown."""
        assert self.session is not None
        return self.session

    @property
    def name(self) -> str | None:
        """The id of the session that is shown."""
        return None if self.session is None else self.session.id

    def text(self, name: str) -> str:
        """Return what the query says; a Problem if it says nothing."""
        if not (given := self.query.get(name, "")):
            raise Problem(404, "not-found", f"the link lacks {name}=")
        return given

    def number(self, name: str, default: int) -> int:
        """Return a number of the query; a Problem if it is none from 0 on."""
        given = self.query.get(name) or str(default)
        if not (given.isascii() and given.isdecimal()) or len(given) > 18:
            raise Problem(422, "invalid-request", f"{name}={given[:40]!r}: expected a number")
        return int(given)

    def read(self, work: Callable[[Connection], Any]) -> Any:
        """Run work in a transaction that reads."""
        return self.database.read(work)


@dataclass(frozen=True, slots=True)
class Page:
    """What a template needs."""

    template: str
    values: dict[str, Any]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that browsers show as such, and as nothing else."""

    data: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class _Made:
    make: Callable[[Look], Page | Artifact | Image]
    shows_session: bool


PAGES: dict[str, _Made] = {}
"""By the last part of their paths."""


def page(
    name: str, *, shows_session: bool = True
) -> Callable[[Callable[[Look], Page | Artifact | Image]], Callable[[Look], Page | Artifact | Image]]:
    """Enter a page in the table."""

    def enter(make: Callable[[Look], Page | Artifact | Image]) -> Callable[[Look], Page | Artifact | Image]:
        PAGES[name] = _Made(make, shows_session)
        return make

    return enter


# Sessions


@dataclass(frozen=True, slots=True)
class Listed:
    """A session in the list."""

    info: SessionInfo
    used_at: datetime


@page("", shows_session=False)
def sessions(look: Look) -> Page:
    """List the tenant's sessions, newest first."""
    after, wanted = look.query.get("after"), look.query.get("search", "").strip()

    def work(connection: Connection) -> tuple[list[SessionInfo] | None, dict[str, datetime]]:
        behind = None if after is None else (look.tenant, after)
        about: dict[str, Any] = {"newest_first": True, "containing": wanted or None}
        found = listing.sessions(connection, look.tenant, after=behind, limit=SESSIONS + 1, **about)
        return found, _last_used(connection, look.tenant, [one.id for one in found or ()])

    found, used = look.read(work)
    if found is None:
        raise not_found("the session behind which this page begins is no longer there")
    items = [Listed(one, used.get(one.id, one.created_at)) for one in found[:SESSIONS]]
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


# One session


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


@page("session")
def session(look: Look) -> Page:
    """Show a session as a timeline."""
    of, scope = look.of, look.of._scope
    after = look.number("after", 0)

    def work(connection: Connection) -> tuple[list[SessionInfo] | None, list[chart.Point]]:
        return listing.sessions(connection, look.tenant, of.id), chart.points(connection, scope.row)

    found, points = look.read(work)
    if not found:
        raise not_found(f"there is no session {of.id!r} any more")
    entries = of.ledger(after=after, limit=STEPS)
    contexts = {point.step: point.context for point in points}
    headroom = round(scope.policy.headroom_percentage * scope.window)
    last = found[0].steps
    values = {
        "info": found[0],
        "totals": of.usage(),
        "context": of.context_tokens(),
        "window": scope.window,
        "headroom": headroom,
        "chart": chart.chart(points, window=scope.window, headroom=headroom),
        "steps": [_step(look, entry, contexts) for entry in entries],
        "waiting": len(of.pending()),
        "after": after,
        "earlier": max(0, after - STEPS) if after else None,
        "later": entries[-1].step if entries and entries[-1].step < last else None,
        "newest": max(0, last - STEPS),
        "last": last,
        "page_size": STEPS,
    }
    return Page("session", values)


def _step(look: Look, entry: Entry, contexts: Mapping[int, int]) -> Step:
    return Step(
        entry,
        _because(look, entry),
        look.sight.line(entry.arguments),
        look.sight.line(_readable(entry)),
        contexts.get(entry.step) if entry.kind != "call" else None,
    )


def _because(look: Look, entry: Entry) -> str | None:
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


# One step


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an output as it came: what the model read itself, or an artifact and its beginning."""

    text: Text | None
    artifact: Artifact | None = None
    is_gone: bool = False


@page("step")
def step(look: Look) -> Page:
    """Show a step: what came beside what the model read, and why."""
    of, scope = look.of, look.of._scope
    number = look.number("step", 0)

    def work(connection: Connection) -> Any:
        entry = ledger.entry(connection, scope.row, number)
        if entry is None:
            return None
        kept = store.by_row_ids(connection, scope.source, scope.row, replay.artifact_rows(entry))
        calls = journal.of_steps(connection, scope.row, [number]).get(number, [])
        resolved = _resolutions(connection, scope.row, entry) if entry.kind == "output" else []
        return entry, kept, calls, resolved

    found = look.read(work)
    if found is None:
        raise not_found(f"there is no step {number} in session {of.id!r}")
    entry, kept, calls, resolved = found
    original = replay.original_of(entry, kept) if entry.kind == "output" else None
    parts = original if isinstance(original, list) else [original]
    envelope = replay.replayed(scope, entry, entry.tool or "").envelope if entry.kind == "output" else None
    values = {
        "step": _step(look, entry, {}),
        "entry": entry,
        "arguments": look.sight.text(_indented(entry.arguments)),
        "read": look.sight.text(_readable(entry)),
        "envelope": None if envelope is None else look.sight.text(_in_json(envelope)),
        "page_parts": [_part(look, one) for one in parts] if entry.kind == "output" else [],
        "calls": [_step(look, one, {}) for one in calls],
        "resolved": [(one, look.sight.text(_indented(one.arguments)), _values(look, one)) for one in resolved],
        "values": _values(look, entry) if entry.kind == "resolution" else None,
        "detail": look.sight.text(_in_json(dict(entry.detail))),
    }
    return Page("step", values)


def _resolutions(connection: Connection, session_row: int, entry: Entry) -> list[Entry]:
    """Return how references in the arguments of the call that gave an output were replaced."""
    if entry.call_id is None:
        return []
    before = ledger.entries(connection, session_row, after=max(0, entry.step - 20), limit=19)
    same = {"resolution"}
    return [one for one in before if one.kind in same and one.call_id == entry.call_id and one.step < entry.step]


def _values(look: Look, entry: Entry) -> Text | None:
    """Return what stood for the references of a resolution."""
    return look.sight.text(_in_json(dict(entry.detail)))


def _part(look: Look, part: Artifact | str | list[Any] | dict[str, Any] | None) -> Part:
    if part is None:
        return Part(None, is_gone=True)
    if not isinstance(part, Artifact):
        return Part(look.sight.text(part if isinstance(part, str) else as_text([part])))
    return Part(look.sight.text(beginning(part)), part)


def beginning(artifact: Artifact, most: int = TEXT_CHARS) -> str | None:
    """Return the first characters of an artifact; None: it is no text."""
    if artifact.is_binary:
        return None
    return store.decode_text(artifact.payload.head(4 * most))[: most + LINE_CHARS]


def _indented(written: str | None) -> str | None:
    """Return JSON indented for people; anything else as it is."""
    if written is None or len(written) > TEXT_CHARS:
        return written
    try:
        return _in_json(json.loads(written))
    except (ValueError, RecursionError):
        return written


def _in_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):
        return "(nested too deeply)"
