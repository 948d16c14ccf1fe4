"""The pages of code: each run with its source, what came of it, what it called and what it left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from byref.artifacts import store
from byref.calling import journal
from byref.db.tables import ArtifactRow, RunRow
from byref.interpreter.effects import Effects
from byref.service.inspector.data import picture_type
from byref.service.inspector.looks import Look, Page
from byref.service.inspector.sessions import step_of
from byref.service.inspector.sight import Text
from byref.service.problems import not_found

RUNS = 50
"""Runs of one page."""
DAMAGED = "What is stored of this is damaged and cannot be read."
"""What stands in the place of a column that is no JSON, or no JSON of ours: a disk may have failed, or somebody changed it."""
_COLUMNS = tuple(RunRow.__table__.c)


def runs(look: Look) -> Page:
    """List the runs of code, newest first."""
    before = look.number("before", 0)
    query = select(*_COLUMNS).where(RunRow.session_id == look.scope.row).order_by(RunRow.id.desc()).limit(RUNS + 1)
    if before:
        query = query.where(RunRow.id < before)
    found = look.read(lambda connection: connection.execute(query).all())
    items = [(one, look.sight.line(one.code), _error(look, one.error)) for one in found[:RUNS]]
    return Page("runs", {"items": items, "before": before, "next": found[RUNS - 1].id if len(found) > RUNS else None})


def run(look: Look) -> Page:
    """Show one run."""
    scope, number = look.scope, look.number("run", 0)
    query = select(*_COLUMNS).where(RunRow.session_id == scope.row, RunRow.id == number)

    def work(connection: Connection) -> Any:
        one = connection.execute(query).one_or_none()
        if one is None or one.step is None:
            return one, [], []
        made = select(ArtifactRow.id).where(ArtifactRow.session_id == scope.row, ArtifactRow.step == one.step)
        artifacts = store.by_row_ids(connection, scope.source, scope.row, connection.execute(made).scalars().all())
        return one, journal.of_steps(connection, scope.row, [one.step]).get(one.step, []), [*artifacts.values()]

    one, calls, artifacts = look.read(work)
    if one is None:
        raise not_found(f"there is no run {number} in session {look.of.id!r}")
    values = {
        "run": one,
        "code": look.sight.text(one.code),
        "result": look.sight.text(one.result),
        "stdout": look.sight.text(one.stdout or None),
        "error": _error(look, one.error),
        "limits": look.sight.text(_indented(one.limits)) if look.sight.has_content else None,
        "calls": [step_of(look, call, {}) for call in calls],
        "names": None if one.names is None else _names(look, one.names),
        "artifacts": [(made, picture_type(made) is not None) for made in artifacts],
    }
    return Page("run", values)


@dataclass(frozen=True, slots=True)
class Fate:
    """A name, and what a run did with it."""

    name: str
    fate: str
    words: str
    """What it is now, or why it is not kept."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the session around a run."""

    fates: list[Fate]
    used: list[str]
    before: list[str] | None
    after: list[str]
    """Empty if it is not known what was there before."""
    more: dict[str, int]
    """How many more there are of each than are listed."""


def _names(look: Look, written: str) -> Names | str:
    """Return the names around a run, or why they cannot be told."""
    try:
        done = msgspec.json.decode(written, type=Effects)
    except msgspec.DecodeError:
        return DAMAGED
    name = look.sight.name
    fates = {
        "made": done.made,
        "changed": done.changed,
        "dropped": dict.fromkeys(done.dropped, ""),
        "not kept": done.lost,
        "for this run only": dict.fromkeys(done.for_this_run, "the stored data is unchanged"),
    }
    found = [Fate(name(one), fate, name(words)) for fate, some in fates.items() for one, words in some.items()]
    before = None if done.before is None else sorted(done.before)
    after = set[str]() if before is None else {*before, *done.made} - {*done.dropped}
    more = dict(done.left_out)
    of_fates = sum(more.pop(field, 0) for field in ("made", "changed", "dropped", "lost", "for_this_run"))
    return Names(
        found,
        [name(one) for one in sorted(done.used)],
        None if before is None else [name(one) for one in before],
        [name(one) for one in sorted(after)],
        more | {"fates": of_fates},
    )


def _error(look: Look, written: str | None) -> tuple[str, Text | None] | None:
    """Return the kind of an error, which everybody sees, and its text."""
    if written is None:
        return None
    try:
        kind, message, line, hint = msgspec.json.decode(written, type=tuple[str, str, int | None, str | None])
    except msgspec.DecodeError:
        return "damaged", Text(DAMAGED, len(DAMAGED))
    at = "" if line is None else f"line {line}: "
    return kind, look.sight.text(f"{at}{message}" + (f"\n{hint}" if hint else ""))


def _indented(written: str) -> str:
    """Return JSON with a line for each member, or why it cannot be shown so."""
    try:
        return msgspec.json.format(written, indent=2)
    except msgspec.DecodeError:
        return DAMAGED
