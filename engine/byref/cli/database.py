"""byref db: makes, migrates and checks the tables."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Callable

from byref import db as revisions
from byref.cli import output
from byref.cli.failures import FAILED, Failed
from byref.cli.opening import blobs_to_read, command, confirmed, database_url, missing_file
from byref.db.connections import parsed
from byref.db.failures import safe
from byref.db.revisions import State, state


def db(options: Namespace) -> int:
    """Run a verb of `byref db` on the database that the options name."""
    return _VERBS[options.db_verb](options)


def _upgrade(options: Namespace) -> int:
    with output.working("migrating"):
        revisions.upgrade(database_url(options), options.revision, schema=options.schema)
    return _current(options)


def _downgrade(options: Namespace) -> int:
    url = database_url(options)
    if (missing := missing_file(url)) is not None:
        raise Failed(f"there is no database {str(missing)!r} to downgrade")
    at = revisions.current(url, schema=options.schema)
    if at is not None and options.revision not in (at, "head"):
        loss = "all that byref stored there" if options.revision == "base" else f"what only {at} has a place for"
        confirmed(options, f"this takes {safe(parsed(url))} from {at} to {options.revision}: {loss} is lost")
    with output.working("migrating"):
        revisions.downgrade(url, options.revision, schema=options.schema)
    return _current(options)


def _current(options: Namespace) -> int:
    found = state(database_url(options), schema=options.schema)
    if options.json:
        output.json(_as_json(found))
    else:
        output.text("none" if found.revision is None else _standing(found))
    return 0


def _check(options: Namespace) -> int:
    url = database_url(options)
    revisions.check(url, schema=options.schema)
    found = state(url, schema=options.schema)
    if options.json:
        output.json(_as_json(found))
    else:
        output.text(f"{safe(parsed(url))} is at {_standing(found)}")
    return 0


def _as_json(found: State) -> dict[str, str | None]:
    return {"revision": found.revision, "head": revisions.head(), "oldest": found.oldest}


def _standing(found: State) -> str:
    head = revisions.head()
    if found.revision == head:
        return f"{head} (head)"
    if found.is_known:
        return str(found.revision)
    return f"{found.revision} (newer than {head}, which {'works with it' if found.is_served else 'is too old for it'})"


def _history(options: Namespace) -> int:
    history = revisions.history()
    if options.json:
        output.json([dataclasses.asdict(revision) for revision in history])
    else:
        rows = [(r.revision, r.down_revision, r.oldest, r.message) for r in history]
        output.table(("revision", "after", "works with", "message"), rows)
    return 0


def _verify(options: Namespace) -> int:
    from byref.db.integrity import examine

    url = database_url(options)
    if (missing := missing_file(url)) is not None:
        raise Failed(f"there is no database {str(missing)!r} to verify")
    with output.working("verifying"):
        report = examine(url, deep=options.deep, schema=options.schema, blobs=blobs_to_read(options))
    if options.json:
        problems = [dataclasses.asdict(problem) for problem in report.problems]
        output.json({"problems": problems, "figures": dict(report.figures)})
    else:
        output.table(("figure", "value"), list(report.figures.items()), right=("value",))
        for problem in report.problems:
            output.text(f"problem: {problem}")
        output.note(f"{len(report.problems):,} problems" if report.problems else "every invariant holds")
        if any("sweep" in str(problem) for problem in report.problems):
            output.note(f"`{command(options, 'sweep')}` deletes what is left over")
    return FAILED if report.problems else 0


_VERBS: dict[str, Callable[[Namespace], int]] = {
    "upgrade": _upgrade,
    "downgrade": _downgrade,
    "current": _current,
    "check": _check,
    "verify": _verify,
    "history": _history,
}
